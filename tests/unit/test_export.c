/* Exports of a run on disk, read back as other programs read them: the CSV by RFC 4180's grammar, the log by HdrHistogram's
 * own reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <hdr/hdr_histogram.h>
#include <hdr/hdr_histogram_log.h>
#include <sqlite3.h>

#include "base/mem.h"
#include "base/rng.h"
#include "channel/failure.h"
#include "report/export.h"
#include "stats/hist.h"

/* Names that need quoting in a CSV, and escaping in a tag: "odd" and "odd,100%" would be confused without. */
static const char *const levels[] = {"X25519 \"first\", A:B/C", "X25519MLKEM768,50%"};
static const char *const tags[] = {"X25519%20\"first\"%2C%20A:B/C", "X25519MLKEM768%2C50%25"};
#define BLOCKS 3
#define N 40 /* connections of a trial */

static char dir[] = "/tmp/pqs-export-XXXXXX";

/* Connection i of a trial; every fourth fails, after 0 to 4 steps. */
static struct pqs_sample sample(uint32_t arm, uint32_t block, uint64_t i) {
    struct pqs_rng rng = pqs_rng_stream(7, "export", block * 2 + arm, (uint32_t)i);
    struct pqs_sample s = {.scheduled_ns = i * 1000000, .class = (uint8_t)(i % 3), .thread = arm};
    uint64_t *const instants[] = {&s.started_ns, &s.tcp_ns, &s.tls_ns, &s.first_ns, &s.done_ns};
    uint64_t at = 0, reached = i % 4 == 0 ? i / 4 % 5 : 5;
    for (uint64_t k = 0; k < 5; k++) {
        at += pqs_rng_below(&rng, 1000000);
        *instants[k] = k < reached ? at : PQS_SAMPLE_NONE;
    }
    if (reached < 5) {
        s.failure = i % 8 == 0 ? PQS_FAILURE_TIMEOUT : PQS_FAILURE_ALERT + 40;
        s.phase = PQS_STEP_TLS;
    }
    s.to_server_bytes = (uint32_t)i;
    s.to_client_bytes = UINT32_MAX;
    return s;
}

static void add_trials(struct pqs_store *store) {
    for (uint32_t block = 0; block < BLOCKS; block++)
        for (uint32_t arm = 0; arm < 2; arm++) {
            struct pqs_trial t = {.arm = arm, .block = block, .position = 1 - arm, .verdict = "valid"};
            snprintf(t.started_utc, sizeof t.started_utc, "2026-11-30T19:49:%02uZ", block * 10 + arm);
            pqs_result_count(&t.result, PQS_CLIENT, "started", N);
            pqs_result_count(&t.result, PQS_CLIENT, "window_ns", 2500000000);
            struct pqs_hist *request = pqs_hist_new();
            for (uint64_t i = 0; i < N; i++) {
                struct pqs_sample s = sample(arm, block, i);
                pqs_sample_put(&t.result.samples, &s);
                if (s.done_ns != PQS_SAMPLE_NONE)
                    pqs_hist_add(request, (int64_t)s.done_ns);
            }
            pqs_result_hist(&t.result, PQS_CLASS_FULL, PQS_PHASE_REQUEST, request);
            pqs_result_hist(&t.result, PQS_CLASS_RESUMED, PQS_PHASE_FIRST_BYTE, pqs_hist_new()); /* empty */
            assert_int_equal(pqs_store_add_trial(store, &t, NULL), 0);
            pqs_result_release(&t.result);
        }
    /* A trial whose client died has neither. */
    struct pqs_trial died = {
        .block = BLOCKS, .state = PQS_TRIAL_DIED, .started_utc = "2026-11-30T19:50:00Z", .note = "gone"};
    assert_int_equal(pqs_store_add_trial(store, &died, NULL), 0);
}

static int make_run(void **state) {
    (void)state;
    struct pqs_plan plan = {0};
    struct pqs_run run = {0};
    struct pqs_store *store = NULL;
    const struct pqs_factor factor = {.name = "groups", .levels = levels, .n_levels = 2};
    if (!mkdtemp(dir) || pqs_plan_cross(&plan, &factor, 1, 0, NULL))
        return -1;
    run.arms = plan.arms;
    run.n_arms = plan.n_arms;
    pqs_run_set(&run, "started_utc", "2026-11-30T19:48:44Z");
    int rc = pqs_store_create(dir, &run, &store, NULL);
    if (rc == 0)
        add_trials(store);
    pqs_store_close(store);
    pqs_run_release(&run);
    return rc;
}

static int remove_run(void **state) {
    (void)state;
    PQS_FREE char *db = pqs_format("%s/run.db", dir);
    return unlink(db) || rmdir(dir);
}

static void read_run(struct pqs_run *ret_run) {
    struct pqs_err err;
    assert_int_equal(pqs_store_read(dir, ret_run, &err), 0);
}

/* ---- CSV ---- */

/* One field of a record by RFC 4180, 2; returns what ended it: ',' or '\n' (of CRLF), EOF before a record. */
static int get_field(FILE *in, char *ret, size_t size) {
    size_t n = 0;
    int c = getc(in);
    if (c == EOF)
        return EOF;
    bool quoted = c == '"';
    for (c = quoted ? getc(in) : c;; c = getc(in)) {
        assert_true(c != EOF && n + 1 < size);
        if (quoted && c == '"') {
            c = getc(in);
            if (c != '"') /* not doubled: the field ends */
                break;
        } else if (!quoted && (c == ',' || c == '\r')) {
            break;
        }
        assert_true(quoted || c != '"');
        ret[n++] = (char)c;
    }
    ret[n] = '\0';
    assert_true(c == ',' || c == '\r');
    return c == '\r' ? getc(in) : c;
}

static void get_record(FILE *in, char (*ret)[64], size_t n) {
    for (size_t i = 0; i < n; i++)
        assert_int_equal(get_field(in, ret[i], sizeof ret[i]), i + 1 < n ? ',' : '\n');
}

static void assert_instant(const char *text, uint64_t ns) {
    PQS_FREE char *want = ns == PQS_SAMPLE_NONE ? pqs_strdup("") : pqs_format("%llu", (unsigned long long)ns);
    assert_string_equal(text, want);
}

static void csv_has_every_connection(void **state) {
    (void)state;
    static const char *const names[] = {"block",           "arm",    "position",    "scheduled_ns", "started_ns",
                                        "tcp_ns",          "tls_ns", "first_ns",    "done_ns",      "to_server_bytes",
                                        "to_client_bytes", "class",  "failed_step", "failure",      "thread"};
    struct pqs_run run;
    struct pqs_err err;
    read_run(&run);
    FILE *file = tmpfile();
    assert_int_equal(pqs_export_samples(dir, &run, file, &err), 0);
    rewind(file);
    char f[15][64];
    get_record(file, f, 15);
    for (size_t i = 0; i < 15; i++)
        assert_string_equal(f[i], names[i]);
    for (uint32_t block = 0; block < BLOCKS; block++)
        for (uint32_t arm = 0; arm < 2; arm++)
            for (uint64_t i = 0; i < N; i++) {
                struct pqs_sample s = sample(arm, block, i);
                get_record(file, f, 15);
                assert_int_equal(strtoul(f[0], NULL, 10), block);
                assert_string_equal(f[1], levels[arm]);
                assert_int_equal(strtoul(f[2], NULL, 10), 1 - arm);
                const uint64_t instants[] = {s.scheduled_ns, s.started_ns, s.tcp_ns, s.tls_ns, s.first_ns, s.done_ns};
                for (size_t k = 0; k < 6; k++)
                    assert_instant(f[3 + k], instants[k]);
                assert_instant(f[9], i);
                assert_string_equal(f[10], "4294967295");
                assert_string_equal(f[11], pqs_class_names[i % 3]);
                bool failed = i % 4 == 0;
                assert_string_equal(f[12], failed ? "tls" : "");
                assert_string_equal(f[13], !failed ? "" : i % 8 == 0 ? "timeout" : "alert_handshake_failure");
                assert_int_equal(strtoul(f[14], NULL, 10), arm);
            }
    assert_int_equal(getc(file), EOF);
    fclose(file);
    pqs_run_release(&run);
}

static void csv_refuses_what_is_no_connection(void **state) {
    (void)state;
    PQS_FREE char *path = pqs_format("%s/run.db", dir);
    PQS_FREE char *change = pqs_format("update sample set blob = x'%0112dffffffff00000000'", 0);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, change, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    struct pqs_run run;
    struct pqs_err err;
    read_run(&run);
    FILE *file = tmpfile();
    assert_int_equal(pqs_export_samples(dir, &run, file, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "failure 65535"));
    assert_non_null(strstr(err.msg, "damaged"));
    fclose(file);
    pqs_run_release(&run);
}

/* ---- HdrHistogram log ---- */

static void assert_same(const struct pqs_hist *want, struct hdr_histogram *got) {
    assert_int_equal(got->total_count, pqs_hist_n(want));
    if (pqs_hist_n(want) == 0)
        return;
    assert_true(hdr_values_are_equivalent(got, hdr_min(got), pqs_hist_min(want)));
    assert_true(hdr_values_are_equivalent(got, hdr_max(got), pqs_hist_max(want)));
    static const double quantiles[] = {0.25, 0.5, 0.75, 0.9, 0.99, 0.999};
    for (size_t i = 0; i < PQS_COUNT(quantiles); i++) {
        int64_t value = hdr_value_at_percentile(got, 100 * quantiles[i]);
        assert_true(hdr_values_are_equivalent(got, value, (int64_t)pqs_hist_quantile(want, quantiles[i])));
    }
}

static void log_is_read_by_hdrhistogram(void **state) {
    (void)state;
    struct pqs_run run;
    struct pqs_err err;
    read_run(&run);
    FILE *file = tmpfile();
    assert_int_equal(pqs_export_histograms(&run, file, &err), 0);
    rewind(file);
    struct hdr_log_reader reader;
    assert_int_equal(hdr_log_reader_init(&reader), 0);
    assert_int_equal(hdr_log_read_header(&reader, file), 0);
    assert_int_equal(reader.major_version, 1);
    assert_int_equal(reader.minor_version, 3);
    assert_int_equal(reader.start_timestamp.tv_sec, 1796068124); /* 2026-11-30T19:48:44Z, by date(1) */
    for (size_t i = 0; i < run.n_trials; i++)
        for (size_t k = 0; k < run.trials[i].result.n_hists; k++) {
            const struct pqs_trial *t = &run.trials[i];
            const struct pqs_hist_row *row = &t->result.hists[k];
            char tag[128] = "";
            struct hdr_log_entry entry = {.tag = tag, .tag_len = sizeof tag};
            struct hdr_histogram *got = NULL;
            assert_int_equal(hdr_log_read_entry(&reader, file, &entry, &got), 0);
            PQS_FREE char *want =
                pqs_format("%s/%s/%s", tags[t->arm], pqs_class_names[row->class], pqs_phase_names[row->phase]);
            assert_string_equal(tag, want);
            assert_int_equal(entry.start_timestamp.tv_sec, 16 + t->block * 10 + t->arm);
            assert_int_equal(entry.interval.tv_sec, 2);
            assert_int_equal(entry.interval.tv_nsec, 500000000);
            assert_same(row->hist, got);
            hdr_close(got);
        }
    struct hdr_log_entry entry = {0};
    struct hdr_histogram *none = NULL;
    assert_int_equal(hdr_log_read_entry(&reader, file, &entry, &none), EOF);
    assert_int_equal(run.n_trials, 2 * BLOCKS + 1);
    fclose(file);
    pqs_run_release(&run);
}

static void log_needs_times(void **state) {
    (void)state;
    struct pqs_run run;
    struct pqs_err err;
    read_run(&run);
    pqs_run_set(&run, "started_utc", "yesterday");
    FILE *file = tmpfile();
    assert_int_equal(pqs_export_histograms(&run, file, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "\"yesterday\""));
    fclose(file);
    pqs_run_release(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_has_every_connection), cmocka_unit_test(log_is_read_by_hdrhistogram),
        cmocka_unit_test(log_needs_times), cmocka_unit_test(csv_refuses_what_is_no_connection), /* damages the run: last */
    };
    return cmocka_run_group_tests(tests, make_run, remove_run);
}
