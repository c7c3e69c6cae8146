/* A worker that measures nothing: it speaks the protocol with invented rows, or misbehaves as PQS_FAKE asks. For test_run.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "channel/message.h"
#include "channel/result.h"
#include "channel/spec.h"
#include "stats/hist.h"

static struct pqs_channel channel;

static bool asked_to(const char *what) {
    const char *fake = getenv("PQS_FAKE");
    return fake && strcmp(fake, what) == 0;
}

static void hang(void) {
    for (;;)
        pause();
}

static void answer(enum pqs_message type, struct pqs_result *r) {
    struct pqs_err err;
    if (pqs_channel_send_result(&channel, type, r, &err))
        _exit(1);
    pqs_result_release(r);
}

static void refuse(const char *text) {
    struct pqs_err err, what;
    (void)pqs_fail(&what, PQS_E_ENV, "%s", text);
    (void)!pqs_channel_send_error(&channel, &what, &err);
    _exit(3);
}

static struct pqs_hist *hist_of(int64_t value_ns, int n) {
    struct pqs_hist *h = pqs_hist_new();
    while (n-- > 0)
        pqs_hist_add(h, value_ns);
    return h;
}

static void preflight(void) {
    struct pqs_result r = {0};
    if (asked_to("refuse"))
        refuse("no handshake today");
    pqs_result_fact(&r, PQS_CLIENT, "group", "of the preflight", 1);
    pqs_result_fact(&r, PQS_CLIENT, "message.client_hello", "230", 1);
    pqs_result_count(&r, PQS_CLIENT, "completed", 1);
    pqs_result_hist(&r, PQS_CLASS_FIRST, PQS_PHASE_TLS, hist_of(5000000, 1));
    answer(PQS_MSG_DONE, &r);
}

static void run(const struct pqs_spec *spec) {
    struct pqs_result r = {0};
    struct pqs_err err;
    if (asked_to("hang"))
        hang();
    if (asked_to("exit"))
        _exit(7);
    if (asked_to("speak out of turn"))
        answer(PQS_MSG_READY, &r);
    if (asked_to("interrupt") && spec->schedule.block == 1)
        kill(getppid(), SIGTERM);
    if (asked_to("lose the server") || asked_to("interrupt"))
        usleep(500000);
    pqs_result_count(&r, PQS_CLIENT, "started", 3);
    answer(PQS_MSG_PROGRESS, &r);
    PQS_BUF samples = {0};
    for (int i = 0; i < 2; i++)
        pqs_sample_put(&samples, &(struct pqs_sample){.scheduled_ns = (uint64_t)i});
    if (pqs_channel_send(&channel, PQS_MSG_SAMPLES, samples.data, samples.len, &err))
        _exit(1);
    pqs_result_fact(&r, PQS_CLIENT, "group", "of the window", 25);
    static const char *const names[] = {"scheduled", "started", "completed", "window_completed"};
    for (size_t i = 0; i < 4; i++)
        pqs_result_count(&r, PQS_CLIENT, names[i], 25);
    pqs_result_hist(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST, hist_of(1000000, 25));
    answer(PQS_MSG_DONE, &r);
}

static void mark(void) {
    static int marks;
    struct pqs_result r = {0};
    pqs_result_count(&r, PQS_SERVER, "accepted", marks++ == 0 ? 10 : 35);
    pqs_result_count(&r, PQS_SERVER, "open", 1);
    answer(PQS_MSG_DONE, &r);
    if (asked_to("lose the server"))
        raise(SIGKILL);
}

static void ready(const char *role, const struct pqs_spec *spec) {
    struct pqs_result r = {0};
    if (strcmp(role, "server") == 0) {
        pqs_result_fact(&r, PQS_SERVER, "host", "127.0.0.1", 1);
        pqs_result_fact(&r, PQS_SERVER, "port", "1001", 1);
        pqs_result_fact(&r, PQS_SERVER, "port", "1002", 1);
    } else {
        pqs_result_fact(&r, PQS_CLIENT, "ports seen", pqs_spec_get(spec, "ports"), 1);
    }
    answer(PQS_MSG_READY, &r);
}

static void handle(const char *role, enum pqs_message type, const struct pqs_buf *payload, struct pqs_spec *spec) {
    struct pqs_result none = {0};
    struct pqs_err err;
    switch (type) {
    case PQS_MSG_CONFIGURE:
        if (pqs_spec_decode(payload->data, payload->len, spec, &err))
            _exit(1);
        ready(role, spec);
        break;
    case PQS_MSG_PREFLIGHT:
        preflight();
        break;
    case PQS_MSG_WARMUP:
        pqs_result_count(&none, PQS_CLIENT, "warmup.completed", 4);
        answer(PQS_MSG_DONE, &none);
        break;
    case PQS_MSG_RUN:
        run(spec);
        break;
    case PQS_MSG_MARK:
        mark();
        break;
    case PQS_MSG_STOP:
        pqs_result_fact(&none, PQS_SERVER, "env_after.load1", "0.50", 1);
        pqs_result_fact(&none, PQS_SERVER, "of its whole life", "yes", 1);
        answer(PQS_MSG_DONE, &none);
        break;
    default:
        answer(PQS_MSG_DONE, &none);
    }
}

int main(int argc, char **argv) {
    const char *role = argc > 1 ? argv[1] : "";
    struct pqs_result hello = {0};
    struct pqs_spec spec = {0};
    struct pqs_err err;
    signal(SIGPIPE, SIG_IGN);
    pqs_channel_init(&channel, STDIN_FILENO, STDOUT_FILENO);
    if (asked_to("babble")) {
        puts("Last login: today. This is no protocol, but it is long enough to look like a message.");
        fflush(stdout);
        hang();
    }
    if (asked_to("another channel")) {
        fwrite("\x02\0\0\0\xc8\x01", 1, 6, stdout); /* a HELLO of channel version 200 */
        fflush(stdout);
        hang();
    }
    pqs_result_fact(&hello, PQS_SERVER, "stack", "openssl", 1);
    pqs_result_fact(&hello, PQS_SERVER, "tool_version", asked_to("another release") ? "9.8.7" : PQSHAKE_VERSION, 1);
    pqs_result_fact(&hello, PQS_SERVER, "pid", "1", 1);
    answer(PQS_MSG_HELLO, &hello);
    PQS_BUF payload = {0};
    enum pqs_message type;
    while (pqs_channel_recv(&channel, INT64_MAX, &type, &payload, &err) == 1)
        handle(role, type, &payload, &spec);
    if (asked_to("stay"))
        hang();
    pqs_spec_release(&spec);
    pqs_channel_release(&channel);
    return 0;
}
