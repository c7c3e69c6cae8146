/* Verdict rows: each is triggered by a trial that is healthy but for one thing, and left alone by one that only comes close.
 * A row without a case fails the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "stats/hist.h"
#include "verdict/verdict.h"

static void set(struct pqs_result *r, enum pqs_side side, const char *name, int64_t value) {
    pqs_result_count(r, side, name, value - pqs_result_get(r, side, name, 0));
}

/* Replaces the value of a fact. */
static void say(struct pqs_result *r, enum pqs_side side, const char *name, const char *value) {
    for (size_t i = 0; i < r->n_facts; i++) {
        if (r->facts[i].side == side && strcmp(r->facts[i].name, name) == 0) {
            snprintf(r->facts[i].value, sizeof r->facts[i].value, "%s", value);
            return;
        }
    }
    pqs_result_fact(r, side, name, value, 1);
}

/* n times the same latency, instead of what was there. */
static void latency(struct pqs_result *r, enum pqs_phase phase, int64_t ns, int n) {
    for (size_t i = 0; i < r->n_hists; i++) {
        if (r->hists[i].class == PQS_CLASS_FULL && r->hists[i].phase == phase) {
            pqs_hist_free(r->hists[i].hist);
            r->hists[i] = r->hists[--r->n_hists];
        }
    }
    struct pqs_hist *h = pqs_hist_new();
    for (int i = 0; i < n; i++)
        pqs_hist_add(h, ns);
    pqs_result_hist(r, PQS_CLASS_FULL, phase, h);
}

/* 1000 connections of an own server across a link, without anything to say. */
static void healthy(struct pqs_result *r) {
    static const struct {
        enum pqs_side side;
        const char *name;
        int64_t value;
    } counters[] = {{PQS_CLIENT, "scheduled", 1000},   {PQS_CLIENT, "started", 1000},
                    {PQS_CLIENT, "completed", 1000},   {PQS_CLIENT, "window_completed", 998},
                    {PQS_CLIENT, "verified", 1000},    {PQS_CLIENT, "window_ns", 10000000000},
                    {PQS_CLIENT, "drain_ns", 2000000}, {PQS_CLIENT, "thread_busy_ppm", 120000},
                    {PQS_SERVER, "accepted", 1000},    {PQS_SERVER, "completed", 1000},
                    {PQS_SERVER, "cpu_ns", 900000000}};
    for (size_t i = 0; i < PQS_COUNT(counters); i++)
        pqs_result_count(r, counters[i].side, counters[i].name, counters[i].value);
    say(r, PQS_CLIENT, "target", "own");
    say(r, PQS_CLIENT, "loopback", "no");
    say(r, PQS_CLIENT, "engine", "openssl");
    say(r, PQS_CLIENT, "asked.groups", "X25519MLKEM768");
    pqs_result_fact(r, PQS_CLIENT, "group", "X25519MLKEM768", 1000);
    pqs_result_fact(r, PQS_CLIENT, "cipher", "TLS_AES_256_GCM_SHA384", 1000);
    for (enum pqs_side side = PQS_CLIENT; side <= PQS_SERVER; side++) {
        say(r, side, "threads", "1");
        say(r, side, "header_version", "3.5.4");
        say(r, side, "library_version", "3.5.4");
    }
    latency(r, PQS_PHASE_REQUEST, 1000000, 1000);
    latency(r, PQS_PHASE_START_LAG, 100000, 1000);
}

/* n connections that failed instead of completing; the server saw them or not. */
static void fail_some(struct pqs_result *r, const char *counter, int64_t n, bool accepted, bool answered) {
    set(r, PQS_CLIENT, "completed", 1000 - n);
    set(r, PQS_CLIENT, "verified", 1000 - n);
    set(r, PQS_CLIENT, "failed", n);
    set(r, PQS_CLIENT, counter, n);
    set(r, PQS_SERVER, "accepted", accepted ? 1000 : 1000 - n);
    set(r, PQS_SERVER, "completed", answered ? 1000 : 1000 - n);
}

static void negative_interval(struct pqs_result *r) {
    set(r, PQS_CLIENT, "clock_faults", 2);
}
static void none_completed(struct pqs_result *r) {
    fail_some(r, "failed.connect.refused", 1000, false, false);
}
static void one_completed(struct pqs_result *r) {
    fail_some(r, "failed.connect.refused", 999, false, false);
}
static void cut(struct pqs_result *r) {
    set(r, PQS_CLIENT, "cut_short", 1);
    set(r, PQS_CLIENT, "unstarted", 700);
    set(r, PQS_CLIENT, "scheduled", 1700);
}
static void drop_11(struct pqs_result *r) {
    set(r, PQS_CLIENT, "scheduled", 1011);
    set(r, PQS_CLIENT, "dropped", 11);
}
static void drop_10(struct pqs_result *r) {
    set(r, PQS_CLIENT, "scheduled", 1010);
    set(r, PQS_CLIENT, "dropped", 10);
}
static void lag_above_request(struct pqs_result *r) {
    latency(r, PQS_PHASE_START_LAG, 1010000, 1000);
}
static void lag_below_request(struct pqs_result *r) {
    latency(r, PQS_PHASE_START_LAG, 990000, 1000);
}
static void lag_above_quarter(struct pqs_result *r) {
    latency(r, PQS_PHASE_START_LAG, 260000, 1000);
}
static void lag_below_quarter(struct pqs_result *r) {
    latency(r, PQS_PHASE_START_LAG, 240000, 1000);
}
/* 100 samples support p90 and nothing above: what a few late ones look like is not known. */
static void lag_of_100(struct pqs_result *r, int late) {
    latency(r, PQS_PHASE_REQUEST, 1000000, 100);
    latency(r, PQS_PHASE_START_LAG, 100000, 100 - late);
    struct pqs_hist *h = pqs_hist_new();
    for (int i = 0; i < late; i++)
        pqs_hist_add(h, 5000000);
    pqs_result_hist(r, PQS_CLASS_FULL, PQS_PHASE_START_LAG, h);
}
static void few_of_100_late(struct pqs_result *r) {
    lag_of_100(r, 9);
}
static void many_of_100_late(struct pqs_result *r) {
    lag_of_100(r, 20);
}
static void ports_ran_out(struct pqs_result *r) {
    fail_some(r, "failed.local.ports", 1, false, false);
}
static void ten_time_out(struct pqs_result *r) {
    fail_some(r, "failed.tls.timeout", 10, true, false);
}
static void eleven_time_out(struct pqs_result *r) {
    fail_some(r, "failed.tls.timeout", 11, true, false);
}
static void another_group(struct pqs_result *r) {
    say(r, PQS_CLIENT, "group", "X25519");
}
static void mixed_groups(struct pqs_result *r) {
    say(r, PQS_CLIENT, "asked.groups", "X25519MLKEM768:X25519");
    pqs_result_fact(r, PQS_CLIENT, "group", "X25519", 1);
}
static void one_of_two_groups(struct pqs_result *r) {
    say(r, PQS_CLIENT, "asked.groups", "X25519:X25519MLKEM768");
}
static void library_default(struct pqs_result *r) {
    say(r, PQS_CLIENT, "asked.groups", "DEFAULT");
}
static void same_group_other_name(struct pqs_result *r) {
    say(r, PQS_CLIENT, "asked.groups", "*P-256");
    say(r, PQS_CLIENT, "group", "secp256r1");
}
static void one_unverified(struct pqs_result *r) {
    set(r, PQS_CLIENT, "verified", 999);
}
static void insecure(struct pqs_result *r) {
    set(r, PQS_CLIENT, "verified", 0);
    say(r, PQS_CLIENT, "insecure", "yes");
}
static void null_engine(struct pqs_result *r) {
    set(r, PQS_CLIENT, "verified", 0);
    say(r, PQS_CLIENT, "engine", "null");
    for (size_t i = 0; i < r->n_facts; i++)
        if (strcmp(r->facts[i].name, "group") == 0)
            r->facts[i].n = 0;
}
static void server_answered_less(struct pqs_result *r) {
    set(r, PQS_SERVER, "completed", 999);
}
static void server_answered_unexplained(struct pqs_result *r) {
    fail_some(r, "failed.tls.timeout", 1, true, true); /* a TLS failure cannot have been answered */
}
static void server_answered_explained(struct pqs_result *r) {
    fail_some(r, "failed.response.timeout", 5, true, true);
}
static void stranger_accepted(struct pqs_result *r) {
    set(r, PQS_SERVER, "accepted", 1001);
}
static void accepted_less_unexplained(struct pqs_result *r) {
    fail_some(r, "failed.tls.alert_unknown_ca", 1, false, false); /* an alert came from a server that had accepted */
}
static void accepted_less_explained(struct pqs_result *r) {
    fail_some(r, "failed.connect.refused", 5, false, false);
}
static void client_sums_wrong(struct pqs_result *r) {
    set(r, PQS_CLIENT, "completed", 990);
}
static void classes_sum_wrong(struct pqs_result *r) {
    fail_some(r, "failed.response.eof", 5, true, true);
    set(r, PQS_CLIENT, "failed.response.eof", 4);
}
static void schedule_sums_wrong(struct pqs_result *r) {
    set(r, PQS_CLIENT, "scheduled", 1001);
}
static void server_lost(struct pqs_result *r) {
    for (size_t i = 0; i < r->n_counters; i++)
        if (r->counters[i].side == PQS_SERVER)
            snprintf(r->counters[i].name, sizeof r->counters[i].name, "other%zu", i);
}
static void foreign(struct pqs_result *r) {
    say(r, PQS_CLIENT, "target", "foreign");
    server_lost(r);
}
static void foreign_with_pid(struct pqs_result *r) {
    foreign(r);
    say(r, PQS_SERVER, "cpu_source", "target-pid");
    say(r, PQS_SERVER, "process", "nginx");
}
static void handshake_only(struct pqs_result *r) {
    say(r, PQS_CLIENT, "handshake_only", "yes");
    set(r, PQS_SERVER, "completed", 0);
}
static void thread_saturated(struct pqs_result *r) {
    set(r, PQS_CLIENT, "thread_busy_ppm", 960000);
}
static void thread_nearly_saturated(struct pqs_result *r) {
    set(r, PQS_CLIENT, "thread_busy_ppm", 950000);
}
static void queue_grows(struct pqs_result *r) {
    set(r, PQS_CLIENT, "open_at_half", 14);
    set(r, PQS_CLIENT, "open_at_end", 22);
}
static void queue_stands(struct pqs_result *r) { /* a long round trip: many are open, always */
    set(r, PQS_CLIENT, "open_at_half", 280);
    set(r, PQS_CLIENT, "open_at_end", 400);
}
static void few_open(struct pqs_result *r) {
    set(r, PQS_CLIENT, "open_at_half", 1);
    set(r, PQS_CLIENT, "open_at_end", 20);
}
static void request_of_51_percent(struct pqs_result *r) {
    latency(r, PQS_PHASE_REQUEST, 5100000000, 1000);
}
static void request_of_49_percent(struct pqs_result *r) {
    latency(r, PQS_PHASE_REQUEST, 4900000000, 1000);
}
static void waited_11(struct pqs_result *r) {
    set(r, PQS_CLIENT, "thread_wait_ppm", 110000);
}
static void waited_10(struct pqs_result *r) {
    set(r, PQS_CLIENT, "thread_wait_ppm", 100000);
}
static void server_91_of_two_on_one_cpu(struct pqs_result *r) {
    set(r, PQS_SERVER, "cpu_ns", 9110000000);
    say(r, PQS_SERVER, "threads", "2");
    say(r, PQS_SERVER, "cpus_usable", "1");
}
static void busy_71(struct pqs_result *r) {
    set(r, PQS_CLIENT, "thread_busy_ppm", 710000);
}
static void busy_70(struct pqs_result *r) {
    set(r, PQS_CLIENT, "thread_busy_ppm", 700000);
}
static void server_91(struct pqs_result *r) {
    set(r, PQS_SERVER, "cpu_ns", 9110000000);
}
static void server_91_of_two(struct pqs_result *r) {
    server_91(r);
    say(r, PQS_SERVER, "threads", "2");
}
static void asked_again(struct pqs_result *r) {
    set(r, PQS_CLIENT, "retransmitted", 7);
    set(r, PQS_SERVER, "listen_overflows", 9);
}
static void queue_was_full(struct pqs_result *r) {
    set(r, PQS_SERVER, "listen_overflows", 9); /* of somebody else's connections */
}
static void other_library(struct pqs_result *r) {
    say(r, PQS_SERVER, "library_version", "3.6.0");
}
static void same_other_library(struct pqs_result *r) {
    say(r, PQS_SERVER, "header_version", "3.6.0");
    say(r, PQS_SERVER, "library_version", "3.6.0");
}
static void retries(struct pqs_result *r) {
    set(r, PQS_CLIENT, "retries", 3);
}
static void loopback(struct pqs_result *r) {
    say(r, PQS_CLIENT, "loopback", "yes");
}
/* Two CPUs for 10 s: 1 % of them is 200 ms. */
static void stolen(struct pqs_result *r, enum pqs_side side, const char *steal_ms) {
    say(r, side, "env.cpus_online", "2");
    say(r, side, "env.uptime_ms", "5000");
    say(r, side, "env_after.uptime_ms", "15000");
    say(r, side, "env.steal_ms", "1000");
    say(r, side, "env_after.steal_ms", steal_ms);
}
static void steal_above(struct pqs_result *r) {
    stolen(r, PQS_CLIENT, "1200");
    stolen(r, PQS_SERVER, "1210");
}
static void steal_below(struct pqs_result *r) {
    stolen(r, PQS_CLIENT, "1200");
    stolen(r, PQS_SERVER, "1000");
}
static void steal_both(struct pqs_result *r) {
    stolen(r, PQS_CLIENT, "3000");
    stolen(r, PQS_SERVER, "21000");
}
static void steal_one_tick(struct pqs_result *r) {
    stolen(r, PQS_CLIENT, "1010");
    say(r, PQS_CLIENT, "env_after.uptime_ms", "5100");
}
static void steal_unknown_before(struct pqs_result *r) {
    say(r, PQS_CLIENT, "env.cpus_online", "2");
    say(r, PQS_CLIENT, "env.uptime_ms", "5000");
    say(r, PQS_CLIENT, "env_after.uptime_ms", "15000");
    say(r, PQS_CLIENT, "env_after.steal_ms", "90000");
}
static void nothing(struct pqs_result *r) {
    (void)r;
}

static const struct {
    const char *id;
    void (*hit)(struct pqs_result *r);
    const char *text; /* must be in the finding */
    void (*miss)(struct pqs_result *r);
} cases[] = {
    {"clock", negative_interval, "2 negative intervals", nothing},
    {"no-data", none_completed, "0 of 1000 connections completed", one_completed},
    {"cut-short", cut, "700 arrivals not begun", drop_11},
    {"generator-limited", drop_11, "started 98.9 % of 1011 arrivals, dropped 11", drop_10},
    {"generator-limited", thread_saturated, "busy 96 % of the time", thread_nearly_saturated},
    {"overloaded", queue_grows, "14 connections were open at half of the window and 22 at its end", queue_stands},
    {"overloaded", queue_grows, "22 at its end", few_open},
    {"short-window", request_of_51_percent, "request p50 5100 ms in a window of 10000 ms", request_of_49_percent},
    {"starved", waited_11, "11 % of the window", waited_10},
    {"server-busy", server_91_of_two_on_one_cpu, "91 % of 1 CPU", server_91_of_two},
    {"generator-late", lag_above_request, "start lag p99 1.010 ms, request p50 1.000 ms", lag_below_request},
    {"generator-late", many_of_100_late, "start lag p90 4.999 ms, request p50 1.000 ms", few_of_100_late},
    {"local-limit", ports_ran_out, "1 local.ports (this machine ran out of source ports", ten_time_out},
    {"failures", eleven_time_out, "11 of 1000 connections failed (1.1 %)", ten_time_out},
    {"wrong-group", another_group, "negotiated X25519 (1000), asked for X25519MLKEM768", one_of_two_groups},
    {"wrong-group", mixed_groups, "negotiated X25519MLKEM768 (1000), X25519 (1)", same_group_other_name},
    {"wrong-group", another_group, "asked for X25519MLKEM768", library_default},
    {"unverified", one_unverified, "999 of 1000", insecure},
    {"unverified", one_unverified, "999 of 1000", null_engine},
    {"reconcile", server_answered_less, "client completed 1000, server completed 999", server_answered_explained},
    {"reconcile", server_answered_unexplained, "client completed 999, server completed 1000", handshake_only},
    {"reconcile", stranger_accepted, "client started 1000, server accepted 1001", accepted_less_explained},
    {"reconcile", accepted_less_unexplained, "client started 1000, server accepted 999", ports_ran_out},
    {"reconcile", client_sums_wrong, "1000 started, but 990 completed + 0 failed", ten_time_out},
    {"reconcile", classes_sum_wrong, "5 failed, but the classes sum to 4", ten_time_out},
    {"reconcile", schedule_sums_wrong, "1001 scheduled, but 1000 started", cut},
    {"reconcile", server_lost, "the server's totals are missing", foreign},
    {"insecure", insecure, "--insecure", one_unverified},
    {"lag", lag_above_quarter, "start lag p99 0.260 ms", lag_below_quarter},
    {"lag", lag_below_request, "start lag p99 0.990 ms", lag_above_request},
    {"busy", busy_71, "71 %", busy_70},
    {"server-busy", server_91, "91 % of 1 CPU", server_91_of_two},
    {"retransmitted", asked_again,
     "7 connections of a second or more saw TCP send something again, the server's listen queue was full 9", queue_was_full},
    {"library-mismatch", other_library, "server compiled against 3.5.4, running 3.6.0", same_other_library},
    {"steal", steal_above, "1.1 % of the server machine's CPU time was stolen (210 ms of 10.0 s on 2 CPUs)", steal_below},
    {"steal", steal_both, "10.0 % of the client machine's", steal_one_tick},
    {"steal", steal_both, "100.0 % of the server machine's", steal_unknown_before},
    {"failure-classes", ten_time_out, "10 tls.timeout (no answer within the timeout)", drop_11},
    {"retry", retries, "3 of 1000", nothing},
    {"handshake-only", handshake_only, "client side only", nothing},
    {"foreign-cpu", foreign, "not ours: its CPU is unknown", nothing},
    {"foreign-cpu", foreign_with_pid, "its CPU is that of the processes of nginx, by --target-pid", nothing},
    {"loopback", loopback, "share one machine", nothing},
    {"null-engine", null_engine, "no cryptography", nothing},
};

/* The finding's text, or NULL; static until the next call. Checks what holds for every list of findings. */
static const char *finding(void (*change)(struct pqs_result *r), const char *id, enum pqs_severity *ret_worst) {
    static struct pqs_finding found[PQS_FINDINGS_MAX];
    struct pqs_result r = {0};
    healthy(&r);
    change(&r);
    enum pqs_scope scope = PQS_OF_TRIAL;
    for (const struct pqs_verdict *v = pqs_verdicts; v->id; v++)
        if (strcmp(v->id, id) == 0)
            scope = v->scope;
    size_t n = pqs_verdict_judge(&r, scope, found, ret_worst);
    const char *text = NULL;
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || found[i - 1].verdict->severity >= found[i].verdict->severity);
        assert_true(found[i].text[0] != '\0');
        if (strcmp(found[i].verdict->id, id) == 0)
            text = found[i].text;
    }
    enum pqs_severity first = n > 0 ? found[0].verdict->severity : PQS_VALID;
    assert_int_equal(*ret_worst, first == PQS_NOTE ? PQS_VALID : first);
    pqs_result_release(&r);
    return text;
}

static void test_healthy_has_no_findings(void **state) {
    (void)state;
    struct pqs_result r = {0};
    struct pqs_finding found[PQS_FINDINGS_MAX];
    enum pqs_severity worst = PQS_UNFIT;
    healthy(&r);
    for (enum pqs_scope scope = PQS_OF_TRIAL; scope <= PQS_OF_ARM; scope++) {
        size_t n = pqs_verdict_judge(&r, scope, found, &worst);
        for (size_t i = 0; i < n; i++)
            print_error("%s: %s\n", found[i].verdict->id, found[i].text);
        assert_int_equal(n, 0);
        assert_int_equal(worst, PQS_VALID);
    }
    pqs_result_release(&r);
}

static void test_every_row_hits_and_misses(void **state) {
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        enum pqs_severity worst = PQS_VALID;
        const char *text = finding(cases[i].hit, cases[i].id, &worst);
        if (!text || !strstr(text, cases[i].text))
            fail_msg("case %zu (%s): want \"%s\" in \"%s\"", i, cases[i].id, cases[i].text, text ? text : "no finding");
        text = finding(cases[i].miss, cases[i].id, &worst);
        if (text)
            fail_msg("case %zu (%s): should not apply, but says \"%s\"", i, cases[i].id, text);
    }
}

static void test_every_row_has_a_case(void **state) {
    (void)state;
    for (const struct pqs_verdict *v = pqs_verdicts; v->id; v++) {
        size_t n = 0;
        for (size_t i = 0; i < PQS_COUNT(cases); i++)
            n += strcmp(cases[i].id, v->id) == 0;
        if (n == 0 && v->scope != PQS_OF_RUN) /* those are test_report's */
            fail_msg("verdict \"%s\" has no test case", v->id);
        assert_true(v->severity > PQS_VALID && strlen(v->message) > 20 && strlen(v->advice) > 20);
        for (const struct pqs_verdict *other = pqs_verdicts; other != v; other++)
            assert_string_not_equal(other->id, v->id);
    }
}

static void test_severities(void **state) {
    (void)state;
    enum pqs_severity worst = PQS_VALID;
    finding(loopback, "loopback", &worst);
    assert_int_equal(worst, PQS_VALID);
    finding(busy_71, "busy", &worst);
    assert_int_equal(worst, PQS_WARNING);
    finding(another_group, "wrong-group", &worst);
    assert_int_equal(worst, PQS_UNFIT);
}

/* Nothing at all, and resumed handshakes only. */
static void test_odd_trials(void **state) {
    (void)state;
    struct pqs_result r = {0};
    struct pqs_finding found[PQS_FINDINGS_MAX];
    enum pqs_severity worst = PQS_VALID;
    assert_int_equal(pqs_verdict_judge(&r, PQS_OF_TRIAL, found, &worst), 1);
    assert_string_equal(found[0].verdict->id, "no-data");
    assert_int_equal(pqs_verdict_class(&r), PQS_CLASS_FULL);

    struct pqs_hist *request = pqs_hist_new(), *lag = pqs_hist_new();
    for (int i = 0; i < 20; i++) {
        pqs_hist_add(request, 1000);
        pqs_hist_add(lag, 2000);
    }
    pqs_result_hist(&r, PQS_CLASS_RESUMED, PQS_PHASE_REQUEST, request);
    pqs_result_hist(&r, PQS_CLASS_RESUMED, PQS_PHASE_START_LAG, lag);
    assert_int_equal(pqs_verdict_class(&r), PQS_CLASS_RESUMED);
    assert_int_equal(pqs_verdict_judge(&r, PQS_OF_ARM, found, &worst), 1);
    assert_string_equal(found[0].verdict->id, "generator-late");
    pqs_result_release(&r);
}

static void test_undeclared(void **state) {
    (void)state;
    static const char *const declared[] = {"groups"};
    struct pqs_result a = {0}, b = {0};
    PQS_BUF text = {0};
    healthy(&a);
    healthy(&b);
    assert_int_equal(pqs_verdict_undeclared(&a, &b, NULL, 0, &text), 0);

    say(&b, PQS_CLIENT, "group", "X25519");
    assert_int_equal(pqs_verdict_undeclared(&a, &b, declared, 1, &text), 0);
    assert_int_equal(pqs_verdict_undeclared(&a, &b, NULL, 0, &text), 1);
    assert_string_equal(pqs_buf_text(&text), "group: X25519MLKEM768 / X25519");

    pqs_buf_clear(&text);
    say(&b, PQS_CLIENT, "cipher", "TLS_CHACHA20_POLY1305_SHA256");
    say(&b, PQS_SERVER, "library_version", "3.6.0");
    assert_int_equal(pqs_verdict_undeclared(&a, &b, declared, 1, &text), 2);
    assert_string_equal(pqs_buf_text(&text), "cipher: TLS_AES_256_GCM_SHA384 / TLS_CHACHA20_POLY1305_SHA256; "
                                             "server's library_version: 3.5.4 / 3.6.0");

    /* A mixture differs from either of its parts, in any order, and no fact differs from some. */
    pqs_buf_clear(&text);
    say(&b, PQS_SERVER, "library_version", "3.5.4");
    pqs_result_fact(&b, PQS_CLIENT, "cipher", "TLS_AES_256_GCM_SHA384", 5);
    pqs_result_fact(&b, PQS_CLIENT, "http_status", "200", 1000);
    assert_int_equal(pqs_verdict_undeclared(&a, &b, declared, 1, &text), 2);
    assert_string_equal(pqs_buf_text(&text),
                        "cipher: TLS_AES_256_GCM_SHA384 / TLS_AES_256_GCM_SHA384 + TLS_CHACHA20_POLY1305_SHA256; "
                        "http_status: none / 200");

    /* The MSS counts on a link, not on loopback. */
    pqs_buf_clear(&text);
    say(&a, PQS_CLIENT, "http_status", "200");
    say(&b, PQS_CLIENT, "cipher", "TLS_AES_256_GCM_SHA384");
    say(&a, PQS_CLIENT, "tcp.mss", "1448");
    say(&b, PQS_CLIENT, "tcp.mss", "1440");
    assert_int_equal(pqs_verdict_undeclared(&a, &b, declared, 1, &text), 1);
    assert_string_equal(pqs_buf_text(&text), "tcp.mss: 1448 / 1440");
    say(&a, PQS_CLIENT, "loopback", "yes");
    say(&b, PQS_CLIENT, "loopback", "yes");
    assert_int_equal(pqs_verdict_undeclared(&a, &b, declared, 1, &text), 0);

    pqs_buf_clear(&text);
    set(&b, PQS_CLIENT, "completed", 0); /* negotiated nothing */
    assert_int_equal(pqs_verdict_undeclared(&a, &b, NULL, 0, &text), 0);
    assert_int_equal(text.len, 0);
    pqs_result_release(&a);
    pqs_result_release(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy_has_no_findings),
        cmocka_unit_test(test_every_row_hits_and_misses),
        cmocka_unit_test(test_every_row_has_a_case),
        cmocka_unit_test(test_severities),
        cmocka_unit_test(test_odd_trials),
        cmocka_unit_test(test_undeclared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
