/* The live line. It has no colours, so that NO_COLOR has nothing to switch off. Must not know the workload. */
#include "live.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

struct pqs_live pqs_live_begin(void) {
    const char *term = getenv("TERM");
    return (struct pqs_live){.on = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0};
}

/* us or ms, three significant digits. */
static void add_time(struct pqs_buf *b, const char *label, double ns) {
    double us = ns / (double)PQS_NS_PER_US;
    bool ms = us >= 999.5;
    double value = ms ? us / 1e3 : us;
    if (isfinite(ns))
        pqs_buf_addf(b, "  %s %.*f %s", label, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, ms ? "ms" : "us");
}

void pqs_live_show(void *context, const struct pqs_progress *p) {
    struct pqs_live *live = context;
    if (!live->on)
        return;
    int64_t now_ns = pqs_now_ns();
    if (live->stage != p->stage || p->started == 0) {
        live->stage = p->stage;
        live->since_ns = now_ns;
    }
    double stage_s = (double)(now_ns - live->since_ns) / (double)PQS_NS_PER_S;
    PQS_BUF line = {0};
    pqs_buf_addf(&line, "trial %zu/%zu  block %u  %s  %s", p->trials_done + 1, p->trials_all, p->block + 1, p->arm->name,
                 p->stage);
    if (p->started > 0 && stage_s > 0)
        pqs_buf_addf(&line, "  %.0f/s", (double)p->completed / stage_s);
    if (p->failed > 0)
        pqs_buf_addf(&line, "  %lld failed", (long long)p->failed);
    add_time(&line, "p50", p->p50_ns);
    add_time(&line, "p99", p->p99_ns);
    int64_t left_s = p->end_ns > now_ns ? (p->end_ns - now_ns) / PQS_NS_PER_S : 0;
    pqs_buf_addf(&line, "  %lld:%02lld left", (long long)(left_s / 60), (long long)(left_s % 60));
    struct winsize size = {0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    fprintf(stderr, "\r%.*s\033[K", known ? size.ws_col - 1 : 79,
            pqs_buf_text(&line)); /* a wrapped line could not be erased */
    fflush(stderr);
}

void pqs_live_end(struct pqs_live *live) {
    if (live->on && live->stage)
        fputs("\r\033[K", stderr);
    live->on = false;
}
