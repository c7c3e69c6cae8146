/* Raw data out of a run: CSV and HdrHistogram log. Must not know: figures, verdicts. */
#include "report/export.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "channel/failure.h"
#include "stats/hist.h"

/* ---- CSV ---- */

/* RFC 4180, 2: quoted where it has a comma, a quote or a line break; quotes inside are doubled. */
static void put_field(FILE *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (const char *p = text; *p; p++)
        fputs(*p == '"' ? "\"\"" : (const char[]){*p, '\0'}, out);
    putc('"', out);
}

/* A comma, and nothing else where the connection did not get so far. */
static void put_instant(FILE *out, uint64_t ns) {
    putc(',', out);
    if (ns != PQS_SAMPLE_NONE)
        fprintf(out, "%" PRIu64, ns);
}

static int put_sample(FILE *out, const struct pqs_trial *t, const char *arm, const struct pqs_sample *s,
                      struct pqs_err *err) {
    if (s->class >= PQS_CLASSES || s->failure >= PQS_FAILURE_END || s->phase >= PQS_STEPS)
        return pqs_fail(err, PQS_E_FAILED,
                        "a connection of arm %s in block %" PRIu32
                        " has class %u, failure %u and step %u: the run is damaged",
                        arm, t->block, s->class, s->failure, s->phase);
    char name[48];
    fprintf(out, "%" PRIu32 ",", t->block);
    put_field(out, arm);
    fprintf(out, ",%" PRIu32 ",%" PRIu64, t->position, s->scheduled_ns);
    const uint64_t instants[] = {s->started_ns, s->tcp_ns, s->tls_ns, s->first_ns, s->done_ns};
    for (size_t i = 0; i < sizeof instants / sizeof *instants; i++)
        put_instant(out, instants[i]);
    bool failed = s->failure != PQS_FAILURE_NONE;
    fprintf(out, ",%" PRIu32 ",%" PRIu32 ",%s,%s,%s,%" PRIu32 "\r\n", s->to_server_bytes, s->to_client_bytes,
            pqs_class_names[s->class], failed ? pqs_step_names[s->phase] : "",
            failed ? pqs_failure_name(s->failure, name) : "", s->thread);
    return 0;
}

int pqs_export_samples(const char *dir, const struct pqs_run *run, FILE *out, struct pqs_err *err) {
    fputs("block,arm,position,scheduled_ns,started_ns,tcp_ns,tls_ns,first_ns,done_ns,to_server_bytes,to_client_bytes,class,"
          "failed_step,failure,thread\r\n",
          out);
    for (size_t i = 0; i < run->n_trials && !ferror(out); i++) {
        const struct pqs_trial *t = &run->trials[i];
        PQS_BUF samples = {0};
        int rc = pqs_store_samples(dir, t->arm, t->block, &samples, err);
        for (size_t at = 0; at < samples.len && rc == 0; at += PQS_SAMPLE_BYTES) {
            struct pqs_sample s;
            pqs_sample_get(samples.data + at, &s);
            rc = put_sample(out, t, run->arms[t->arm].name, &s, err);
        }
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- HdrHistogram log ---- */

static bool parse_utc(const char *text, time_t *ret_s) {
    struct tm tm = {0};
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm) : NULL;
    *ret_s = end ? timegm(&tm) : 0;
    return end && !*end;
}

/* A tag has no blank, comma or line break. Escaped as in a URL (RFC 3986, 2.1), so that two arms never share one. */
static void put_tag(FILE *out, const char *arm, const struct pqs_hist_row *row) {
    fputs("Tag=", out);
    for (const unsigned char *p = (const unsigned char *)arm; *p; p++)
        fprintf(out, *p <= ' ' || *p == 0x7f || *p == ',' || *p == '%' ? "%%%02X" : "%c", *p);
    fprintf(out, "/%s/%s", pqs_class_names[row->class], pqs_phase_names[row->phase]);
}

int pqs_export_histograms(const struct pqs_run *run, FILE *out, struct pqs_err *err) {
    const char *started = pqs_run_get(run, "started_utc");
    time_t run_s = 0;
    if (!parse_utc(started, &run_s))
        return pqs_fail(err, PQS_E_FAILED, "the run's started_utc is \"%s\", not a time such as 2026-11-30T19:48:44Z",
                        started ? started : "");
    /* The largest value of a line is in milliseconds, the format's usual unit for values that are nanoseconds. */
    fprintf(out,
            "#[Logged by pqshake: values in nanoseconds, tags are ARM/CLASS/PHASE]\n"
            "#[Histogram log format version 1.3]\n"
            "#[StartTime: %lld.000 (seconds since epoch), %s]\n"
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
            (long long)run_s, started);
    for (size_t i = 0; i < run->n_trials && !ferror(out); i++) {
        const struct pqs_trial *t = &run->trials[i];
        time_t trial_s = 0;
        if (!parse_utc(t->started_utc, &trial_s))
            return pqs_fail(err, PQS_E_FAILED, "a trial's started_utc is \"%s\", not a time such as 2026-11-30T19:48:44Z",
                            t->started_utc);
        double window_s = (double)pqs_result_get(&t->result, PQS_CLIENT, "window_ns", 0) / (double)PQS_NS_PER_S;
        for (size_t k = 0; k < t->result.n_hists; k++) {
            const struct pqs_hist_row *row = &t->result.hists[k];
            PQS_BUF base64 = {0};
            pqs_hist_encode_base64(row->hist, &base64);
            put_tag(out, run->arms[t->arm].name, row);
            fprintf(out, ",%lld.000,%.3f,%.3f,%s\n", (long long)(trial_s - run_s), window_s,
                    (double)pqs_hist_max(row->hist) / (double)PQS_NS_PER_MS, pqs_buf_text(&base64));
        }
    }
    return 0;
}
