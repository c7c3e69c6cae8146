/* The rules for one trial, as rows, and the comparison of two arms' facts. Looks at counters, facts and histograms only.
 * Must not know: the store, the plan, how anything is printed. */
#include "verdict/verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "channel/failure.h"
#include "stats/hist.h"
#include "stats/quantile.h"

const char *const pqs_severity_names[4] = {"valid", "note", "warning", "unfit"};

enum pqs_class pqs_verdict_class(const struct pqs_result *r) {
    static const enum pqs_class order[] = {PQS_CLASS_FULL, PQS_CLASS_RESUMED, PQS_CLASS_RETRY};
    for (size_t i = 0; i < PQS_COUNT(order); i++) {
        const struct pqs_hist *h = pqs_result_hist_of(r, order[i], PQS_PHASE_REQUEST);
        if (h && pqs_hist_n(h) > 0)
            return order[i];
    }
    return PQS_CLASS_FULL;
}

static int64_t client(const struct pqs_result *r, const char *counter) {
    return pqs_result_get(r, PQS_CLIENT, counter, 0);
}

static bool fact_is(const struct pqs_result *r, const char *name, const char *value) {
    const char *found = pqs_result_fact_of(r, PQS_CLIENT, name, NULL);
    return found && strcmp(found, value) == 0;
}

static void add(char *text, size_t size, const char *fmt, ...) PQS_PRINTF(3, 4);
static void add(char *text, size_t size, const char *fmt, ...) {
    size_t len = strlen(text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + len, size - len, fmt, args);
    va_end(args);
}

/* Start lag against the request's median (METHOD 11), of the headline class. */
struct lag {
    const char *label; /* which quantile of the lag: p99, or the highest that this trial's samples support (METHOD 13) */
    double lag_ms, request_ms;
};

/* False when there are too few samples to say anything. */
static bool get_lag(const struct pqs_result *r, struct lag *ret) {
    const struct pqs_hist *lag = pqs_result_hist_of(r, pqs_verdict_class(r), PQS_PHASE_START_LAG);
    const struct pqs_hist *request = pqs_result_hist_of(r, pqs_verdict_class(r), PQS_PHASE_REQUEST);
    const struct pqs_quantile *best = NULL;
    for (const struct pqs_quantile *q = pqs_quantiles; lag && q->id && q->q <= 0.99 && pqs_hist_n(lag) >= q->min_n; q++)
        best = q;
    if (!best || !request)
        return false;
    *ret = (struct lag){best->label, pqs_hist_quantile(lag, best->q) / 1e6, pqs_hist_quantile(request, 0.5) / 1e6};
    return true;
}

/* Sum of the counters failed.<step>.<class> whose name starts with prefix, e.g. "failed.local.". */
static int64_t failures_of(const struct pqs_result *r, const char *prefix) {
    int64_t sum = 0;
    for (size_t i = 0; i < r->n_counters; i++)
        if (r->counters[i].side == PQS_CLIENT && strncmp(r->counters[i].name, prefix, strlen(prefix)) == 0)
            sum += r->counters[i].value;
    return sum;
}

/* "12 tls.timeout (no answer in time), 3 ..." of the counters whose name starts with prefix. */
static bool list_failures(const struct pqs_result *r, const char *prefix, char *text, size_t size) {
    for (size_t i = 0; i < r->n_counters; i++) {
        const struct pqs_counter *c = &r->counters[i];
        if (c->side != PQS_CLIENT || c->value == 0 || strncmp(c->name, prefix, strlen(prefix)) != 0)
            continue;
        const char *step_and_class = c->name + strlen("failed.");
        const char *dot = strchr(step_and_class, '.');
        add(text, size, "%s%lld %s (%s)", *text ? ", " : "", (long long)c->value, step_and_class,
            pqs_failure_text(pqs_failure_find(dot ? dot + 1 : step_and_class)));
    }
    return *text != '\0';
}

static bool test_clock(const struct pqs_result *r, char *text, size_t size) {
    add(text, size, "%lld negative intervals", (long long)client(r, "clock_faults"));
    return client(r, "clock_faults") != 0;
}

static bool test_no_data(const struct pqs_result *r, char *text, size_t size) {
    add(text, size, "0 of %lld connections completed", (long long)client(r, "started"));
    return client(r, "completed") == 0;
}

static bool test_generator_limited(const struct pqs_result *r, char *text, size_t size) {
    int64_t scheduled = client(r, "scheduled"), started = client(r, "started"), dropped = client(r, "dropped");
    bool few = (double)started < 0.99 * (double)scheduled;
    int64_t busy_ppm = client(r, "thread_busy_ppm");
    bool full = busy_ppm > 950000; /* starts are favoured over answers: a saturated thread need not show in the lag */
    if (few)
        add(text, size, "started %.1f %% of %lld arrivals", 100.0 * (double)started / (double)scheduled,
            (long long)scheduled);
    if (few && dropped > 0)
        add(text, size, ", dropped %lld at the limit of open connections", (long long)dropped);
    if (full)
        add(text, size, "%sa generator thread was busy %.0f %% of the time", few ? ", " : "", (double)busy_ppm / 1e4);
    return few || full;
}

static bool get_lag_text(const struct pqs_result *r, struct lag *ret_lag, char *text, size_t size) {
    if (!get_lag(r, ret_lag))
        return false;
    add(text, size, "start lag %s %.3f ms, request p50 %.3f ms", ret_lag->label, ret_lag->lag_ms, ret_lag->request_ms);
    return true;
}

static bool test_generator_late(const struct pqs_result *r, char *text, size_t size) {
    struct lag lag;
    return get_lag_text(r, &lag, text, size) && lag.lag_ms > lag.request_ms;
}

static bool test_lag(const struct pqs_result *r, char *text, size_t size) {
    struct lag lag;
    return get_lag_text(r, &lag, text, size) && lag.lag_ms > lag.request_ms / 4 &&
           lag.lag_ms <= lag.request_ms; /* above that it is generator-late */
}

/* In a steady state as many connections are open at the end of the window as at half of it. Where they come faster than they are
 * served it is twice as many, whatever the order of service: what is measured is a queue whose length depends on --duration. */
static bool test_overloaded(const struct pqs_result *r, char *text, size_t size) {
    double half = (double)client(r, "open_at_half"), end = (double)client(r, "open_at_end");
    double floor = 0.02 * (double)client(r, "scheduled");
    add(text, size, "%.0f connections were open at half of the window and %.0f at its end", half, end);
    return end > 1.5 * half && end > 20 && end > floor;
}

/* The first arrivals meet an empty server: over a window that is not long against a request they are too many. */
static bool test_short_window(const struct pqs_result *r, char *text, size_t size) {
    const struct pqs_hist *h = pqs_result_hist_of(r, pqs_verdict_class(r), PQS_PHASE_REQUEST);
    double p50_ns = h && pqs_hist_n(h) > 0 ? pqs_hist_quantile(h, 0.5) : 0;
    double window_ns = (double)client(r, "window_ns");
    add(text, size, "request p50 %.0f ms in a window of %.0f ms", p50_ns / 1e6, window_ns / 1e6);
    return p50_ns > window_ns / 2;
}

static bool test_starved(const struct pqs_result *r, char *text, size_t size) {
    int64_t ppm = client(r, "thread_wait_ppm");
    add(text, size, "a generator thread waited for a CPU for %.0f %% of the window", (double)ppm / 1e4);
    return ppm > 100000;
}

static bool test_cut_short(const struct pqs_result *r, char *text, size_t size) {
    add(text, size, "ended after %.1f s with %lld arrivals not begun", (double)client(r, "window_ns") / 1e9,
        (long long)client(r, "unstarted"));
    return client(r, "cut_short") != 0;
}

static bool test_failures(const struct pqs_result *r, char *text, size_t size) {
    int64_t started = client(r, "started"), failed = client(r, "failed");
    bool many = (double)failed > 0.01 * (double)started;
    if (many)
        add(text, size, "%lld of %lld connections failed", (long long)failed, (long long)started);
    if (many && started > 0)
        add(text, size, " (%.1f %%)", 100.0 * (double)failed / (double)started);
    return many;
}

static bool test_local_limit(const struct pqs_result *r, char *text, size_t size) {
    return list_failures(r, "failed.local.", text, size);
}

static bool test_failure_classes(const struct pqs_result *r, char *text, size_t size) {
    return list_failures(r, "failed.", text, size);
}

/* NIST curves have three names in use (RFC 8422, 5.1.1; FIPS 186; X9.62); a group list may carry OpenSSL's "*" or "?"
 * prefix. */
const char *pqs_canonical_group(const char *name) {
    static const char *const aliases[][2] = {
        {"P-256", "secp256r1"}, {"prime256v1", "secp256r1"}, {"P-384", "secp384r1"}, {"P-521", "secp521r1"}};
    name += strspn(name, "*?-");
    for (size_t i = 0; i < PQS_COUNT(aliases); i++)
        if (strcasecmp(name, aliases[i][0]) == 0)
            return aliases[i][1];
    return name;
}

static bool test_wrong_group(const struct pqs_result *r, char *text, size_t size) {
    const char *asked = pqs_result_fact_of(r, PQS_CLIENT, "asked.groups", NULL);
    /* "DEFAULT" is the library's own list. */
    bool asked_one = asked && *asked && !strpbrk(asked, ":/, ") && strcasecmp(pqs_canonical_group(asked), "DEFAULT") != 0;
    size_t kinds = 0;
    bool wrong = false;
    add(text, size, "negotiated ");
    for (size_t i = 0; i < r->n_facts; i++) {
        const struct pqs_fact *f = &r->facts[i];
        if (f->side != PQS_CLIENT || f->n == 0 || strcmp(f->name, "group") != 0)
            continue;
        wrong |= asked_one && strcasecmp(pqs_canonical_group(asked), pqs_canonical_group(f->value)) != 0;
        add(text, size, "%s%s (%llu)", kinds++ > 0 ? ", " : "", f->value, (unsigned long long)f->n);
    }
    if (asked)
        add(text, size, ", asked for %s", asked);
    return wrong || kinds > 1;
}

static bool test_unverified(const struct pqs_result *r, char *text, size_t size) {
    int64_t completed = client(r, "completed"), verified = client(r, "verified");
    add(text, size, "%lld of %lld certificate chains verified", (long long)verified, (long long)completed);
    return verified != completed && !fact_is(r, "insecure", "yes") && !fact_is(r, "engine", "null");
}

/* METHOD 14. Every difference must have a class that explains it:
 * - a connection that was started but not accepted failed locally, while connecting, or waited in the accept queue until it
 *   timed out or was reset;
 * - a response that the server sent and the client did not take failed in the client's response step.
 * Without a request there is no response, so nothing to compare on completion. */
static bool test_reconcile(const struct pqs_result *r, char *text, size_t size) {
    int64_t scheduled = client(r, "scheduled"), started = client(r, "started"), completed = client(r, "completed");
    int64_t failed = client(r, "failed");
    if (started != completed + failed)
        add(text, size, "%lld started, but %lld completed + %lld failed", (long long)started, (long long)completed,
            (long long)failed);
    else if (failed != failures_of(r, "failed."))
        add(text, size, "%lld failed, but the classes sum to %lld", (long long)failed, (long long)failures_of(r, "failed."));
    else if (scheduled != started + client(r, "dropped") + client(r, "unstarted"))
        add(text, size, "%lld scheduled, but %lld started + %lld dropped + %lld unstarted", (long long)scheduled,
            (long long)started, (long long)client(r, "dropped"), (long long)client(r, "unstarted"));
    if (*text)
        return true;
    if (!fact_is(r, "target", "own"))
        return false;

    int64_t accepted = pqs_result_get(r, PQS_SERVER, "accepted", -1);
    int64_t answered = pqs_result_get(r, PQS_SERVER, "completed", -1);
    if (accepted < 0 || answered < 0) {
        add(text, size, "the server's totals are missing");
        return true;
    }
    int64_t may_miss = failures_of(r, "failed.local.") + failures_of(r, "failed.connect.") +
                       client(r, "failed.tls.timeout") + client(r, "failed.tls.reset");
    if (accepted > started || started - accepted > may_miss)
        add(text, size, "client started %lld, server accepted %lld (explained by failures: %lld)", (long long)started,
            (long long)accepted, (long long)may_miss);
    int64_t may_refuse = failures_of(r, "failed.response.");
    if (!fact_is(r, "handshake_only", "yes") && (answered < completed || answered - completed > may_refuse))
        add(text, size, "%sclient completed %lld, server completed %lld (explained by failures: %lld)", *text ? "; " : "",
            (long long)completed, (long long)answered, (long long)may_refuse);
    return *text != '\0';
}

static bool test_insecure(const struct pqs_result *r, char *text, size_t size) {
    add(text, size, "certificates were not verified (--insecure)");
    return fact_is(r, "insecure", "yes");
}

static bool test_busy(const struct pqs_result *r, char *text, size_t size) {
    int64_t ppm = client(r, "thread_busy_ppm");
    add(text, size, "the busiest generator thread used %.0f %% of its CPU", (double)ppm / 1e4);
    return ppm > 700000;
}

static bool test_server_busy(const struct pqs_result *r, char *text, size_t size) {
    int64_t wall_ns = client(r, "window_ns") + client(r, "drain_ns");
    const char *threads_text = pqs_result_fact_of(r, PQS_SERVER, "threads", NULL);
    const char *cpus_text = pqs_result_fact_of(r, PQS_SERVER, "cpus_usable", NULL);
    long threads = threads_text ? strtol(threads_text, NULL, 10) : 0;
    long cpus = cpus_text ? strtol(cpus_text, NULL, 10) : threads;
    if (wall_ns <= 0 || threads < 1 || cpus < 1)
        return false;
    threads = cpus < threads ? cpus : threads;
    double busy = (double)pqs_result_get(r, PQS_SERVER, "cpu_ns", 0) / (double)wall_ns / (double)threads;
    add(text, size, "the server used %.0f %% of %ld CPU%s", 100 * busy, threads, threads == 1 ? "" : "s");
    return busy > 0.9;
}

static bool test_retransmitted(const struct pqs_result *r, char *text, size_t size) {
    int64_t n = client(r, "retransmitted"), full = pqs_result_get(r, PQS_SERVER, "listen_overflows", 0);
    add(text, size, "%" PRId64 " connections of a second or more saw TCP send something again", n);
    if (full > 0)
        add(text, size, ", the server's listen queue was full %" PRId64 " times", full);
    return n > 0;
}

static bool test_library_mismatch(const struct pqs_result *r, char *text, size_t size) {
    for (enum pqs_side side = PQS_CLIENT; side <= PQS_SERVER; side++) {
        const char *header = pqs_result_fact_of(r, side, "header_version", NULL);
        const char *library = pqs_result_fact_of(r, side, "library_version", NULL);
        if (header && library && strcmp(header, library) != 0)
            add(text, size, "%s%s compiled against %s, running %s", *text ? "; " : "", pqs_side_names[side], header,
                library);
    }
    return *text != '\0';
}

/* -1 when there is no such fact, or it is no number. */
static double number_of(const struct pqs_result *r, enum pqs_side side, const char *fact) {
    const char *text = pqs_result_fact_of(r, side, fact, NULL);
    char *end = NULL;
    double value = text ? strtod(text, &end) : -1;
    return end && end != text ? value : -1;
}

/* From the worker's READY to the end of its window, which includes preflight and warm-up; of all CPUs of its machine. The
 * kernel counts in ticks of 10 ms: one tick alone is not told from none. */
static bool test_steal(const struct pqs_result *r, char *text, size_t size) {
    for (enum pqs_side side = PQS_CLIENT; side <= PQS_SERVER; side++) {
        double from_ms = number_of(r, side, "env.steal_ms"), to_ms = number_of(r, side, "env_after.steal_ms");
        double begin_ms = number_of(r, side, "env.uptime_ms"), end_ms = number_of(r, side, "env_after.uptime_ms");
        double cpus = number_of(r, side, "env.cpus_online"), cpu_ms = (end_ms - begin_ms) * cpus;
        if (from_ms < 0 || to_ms - from_ms <= 10 || begin_ms < 0 || cpus <= 0 || to_ms - from_ms <= 0.01 * cpu_ms)
            continue;
        add(text, size, "%s%.1f %% of the %s machine's CPU time was stolen (%.0f ms of %.1f s on %.0f CPUs)",
            *text ? "; " : "", 100 * (to_ms - from_ms) / cpu_ms, pqs_side_names[side], to_ms - from_ms,
            (end_ms - begin_ms) / 1e3, cpus);
    }
    return *text != '\0';
}

static bool test_retry(const struct pqs_result *r, char *text, size_t size) {
    add(text, size, "%lld of %lld connections saw a HelloRetryRequest", (long long)client(r, "retries"),
        (long long)client(r, "completed"));
    return client(r, "retries") > 0;
}

static bool test_handshake_only(const struct pqs_result *r, char *text, size_t size) {
    add(text, size, "client side only");
    return fact_is(r, "handshake_only", "yes");
}

static bool test_foreign_cpu(const struct pqs_result *r, char *text, size_t size) {
    const char *source = pqs_result_fact_of(r, PQS_SERVER, "cpu_source", NULL);
    const char *process = pqs_result_fact_of(r, PQS_SERVER, "process", NULL);
    add(text, size, "the server is not ours: its CPU is ");
    if (source && process)
        add(text, size, "that of the processes of %s, by --%s", process, source);
    else
        add(text, size, "unknown");
    return fact_is(r, "target", "foreign");
}

static bool test_loopback(const struct pqs_result *r, char *text, size_t size) {
    add(text, size, "client and server share one machine");
    return fact_is(r, "loopback", "yes");
}

static bool test_null_engine(const struct pqs_result *r, char *text, size_t size) {
    add(text, size, "the null engine ran: no cryptography");
    return fact_is(r, "engine", "null");
}

/* In the order in which findings of one severity are shown: what explains the others comes first. */
const char *const pqs_scope_names[3] = {"trial", "arm", "run"};

const struct pqs_verdict pqs_verdicts[] = {
    {"clock", PQS_OF_TRIAL, PQS_UNFIT, test_clock, "A time ran backwards, so no interval of this trial can be trusted.",
     "Check the clock source (env.clock_source: tsc, or the hypervisor's), and report this if the clock is "
     "fine."},
    {"no-data", PQS_OF_TRIAL, PQS_UNFIT, test_no_data, "Nothing completed, so there is nothing to report.",
     "Look at the failure classes, and try one handshake against the same server first."},
    {"cut-short", PQS_OF_TRIAL, PQS_UNFIT, test_cut_short,
     "The trial was ended early because under half of the arrivals could be started.",
     "Ask for a much lower --rate; raise it again while the verdict stays valid."},
    {"generator-limited", PQS_OF_TRIAL, PQS_UNFIT, test_generator_limited,
     "The load generator could not keep its schedule, so the latencies are its own and not the server's.",
     "Ask for a lower --rate or use more --threads on free cores; if connections were dropped, raise --max-inflight."},
    {"generator-late", PQS_OF_ARM, PQS_UNFIT, test_generator_late,
     "The load generator was late by more than a request takes, so the latencies are its own and not the server's.",
     "Ask for a lower --rate or use more --threads on free cores, and see what else runs on this machine."},
    {"overloaded", PQS_OF_TRIAL, PQS_UNFIT, test_overloaded,
     "Connections arrived faster than they were served, so latency grew with time and depends on the duration.",
     "Ask for a lower --rate; if that does not help, see what else runs on these machines."},
    {"short-window", PQS_OF_TRIAL, PQS_UNFIT, test_short_window,
     "A request takes more than half of the window, so the window shows how a queue fills and not how the server answers.",
     "Ask for a longer --duration, or for a lower --rate if the server was overloaded."},
    {"local-limit", PQS_OF_TRIAL, PQS_UNFIT, test_local_limit,
     "This machine ran out of something before the server did, so the trial measured this machine's limits.",
     "Raise the limit that the class names (ulimit -n, net.ipv4.ip_local_port_range) or lower the --rate."},
    {"failures", PQS_OF_TRIAL, PQS_UNFIT, test_failures,
     "More than 1 % of the connections failed, so the latencies describe only those that got through.",
     "Find out why with the failure classes before comparing anything."},
    {"wrong-group", PQS_OF_TRIAL, PQS_UNFIT, test_wrong_group,
     "The connections did not all use the one key exchange that this arm stands for.",
     "Make client and server agree on one group: check the group lists of both sides."},
    {"unverified", PQS_OF_TRIAL, PQS_UNFIT, test_unverified,
     "Certificates of completed connections were not verified, so the cost of verification is missing.",
     "Give the CA of the server's certificate, or say --insecure if that is what you want to measure."},
    {"reconcile", PQS_OF_TRIAL, PQS_UNFIT, test_reconcile,
     "The totals do not agree and no failure class explains the difference, so some connections are miscounted.",
     "Make sure that nothing else talks to this server; if nothing does, please report this as a fault of pqshake."},
    {"insecure", PQS_OF_TRIAL, PQS_WARNING, test_insecure,
     "No certificate was verified, so the cost of verification is missing from every figure.",
     "Leave out --insecure and give the server's CA instead."},
    {"lag", PQS_OF_ARM, PQS_WARNING, test_lag,
     "Connections started late by a noticeable part of a request, so some of the latency is the generator's.",
     "Ask for a lower --rate or more --threads, and compare service time with request latency."},
    {"busy", PQS_OF_TRIAL, PQS_WARNING, test_busy,
     "The load generator has little CPU to spare, so its own queueing may show in the latencies.",
     "Use more --threads on free cores or a lower --rate."},
    {"starved", PQS_OF_TRIAL, PQS_WARNING, test_starved,
     "The load generator was ready to run but had no CPU, so other work on its CPUs shows in the latencies.",
     "Stop what else runs on this machine, give --threads no more CPUs than there are, or use a second machine."},
    {"server-busy", PQS_OF_TRIAL, PQS_WARNING, test_server_busy,
     "The server had no CPU to spare, so latencies include connections queueing for it.",
     "Lower the --rate to measure handshakes; keep it to measure behaviour under overload."},
    {"retransmitted", PQS_OF_TRIAL, PQS_WARNING, test_retransmitted,
     "A full listen queue or a lost packet makes TCP wait for its timer (1 s, 3 s, 7 s): that is not the server's work.",
     "Raise the server's listen queue (serve --backlog, net.core.somaxconn), or look for lost packets."},
    {"library-mismatch", PQS_OF_TRIAL, PQS_WARNING, test_library_mismatch,
     "The TLS library that ran is not the version that the worker was compiled against.",
     "Check LD_LIBRARY_PATH, or rebuild the worker against the library that you want to measure."},
    {"steal", PQS_OF_TRIAL, PQS_WARNING, test_steal,
     "The host of this virtual machine gave its CPUs to others for over 1 % of the trial, which shows as latency.",
     "Use a dedicated or less crowded host; blocks in random order spread what is left over both arms."},
    {"failure-classes", PQS_OF_TRIAL, PQS_NOTE, test_failure_classes,
     "Failed connections are counted here and never enter the latencies.", "See whether both arms fail alike."},
    {"retry", PQS_OF_TRIAL, PQS_NOTE, test_retry,
     "These connections needed one more round trip and are shown apart, in the class retry.",
     "Let the client send a key share for the server's preferred group if the retry is not what you want to measure."},
    {"handshake-only", PQS_OF_TRIAL, PQS_NOTE, test_handshake_only,
     "A TLS 1.3 client finishes before the server has judged it, so these handshakes count on the client's word.",
     "Leave out --handshake-only to count only what the server has answered."},
    {"foreign-cpu", PQS_OF_TRIAL, PQS_NOTE, test_foreign_cpu,
     "There are no totals of the server's to reconcile the client's with.",
     "Run `pqshake serve` on that machine, or leave out --target, to get the server's side too; --target-pid reads the CPU "
     "of "
     "a foreign server on this machine."},
    {"loopback", PQS_OF_TRIAL, PQS_NOTE, test_loopback,
     "Loopback carries 64 KB packets, so flights of several packets or round trips do not show as on a link, and the sender "
     "pays for "
     "a part of the receiver's CPU.",
     "Use a second machine when bytes and flights matter."},
    {"null-engine", PQS_OF_TRIAL, PQS_NOTE, test_null_engine, "These figures are the tool's own overhead, not a handshake.",
     "Use them as the floor under the figures of a real engine."},
    /* What no single trial and no single arm can show: their tests are in the report, which sees the whole run. */
    {"no-trial", PQS_OF_RUN, PQS_UNFIT, NULL, "This arm has no figures at all.",
     "Look at why its trials ended, and try one handshake with this arm's settings first."},
    {"lost-trial", PQS_OF_RUN, PQS_WARNING, NULL,
     "A trial that did not finish is kept as such; its block counts for no comparison.",
     "Find out why it ended; run more blocks if too few are left."},
    {"interrupted", PQS_OF_RUN, PQS_WARNING, NULL, "The run ended before its plan was done; the finished trials stand.",
     "Run the plan again, or take these figures as those of a shorter run."},
    {"few-blocks", PQS_OF_RUN, PQS_WARNING, NULL,
     "An interval needs at least 5 blocks in which both arms are valid, so this difference cannot be told from chance.",
     "Mend what makes trials unfit, if any are, and ask for more --blocks; 10 or more give useful intervals."},
    {"thin-interval", PQS_OF_RUN, PQS_WARNING, NULL,
     "With 5 to 7 blocks an interval that says 95 % holds the truth less often when the differences are skewed "
     "(docs/METHOD.md, "
     "Coverage).",
     "Ask for 10 or more --blocks before relying on how wide the interval is."},
    {"drift", PQS_OF_RUN, PQS_WARNING, NULL,
     "The difference moved while the run lasted, so its blocks are not repetitions of one thing and the interval is too "
     "narrow.",
     "Find what changes with time (heat, memory, another job), or run longer blocks."},
    {"order", PQS_OF_RUN, PQS_WARNING, NULL,
     "What an arm leaves behind for the next one cannot be told from what the arm itself does.",
     "Run it again with another --seed or more --blocks; a longer --warmup helps when the order has an effect."},
    {"level-drift", PQS_OF_RUN, PQS_NOTE, NULL,
     "The machine became slower or faster while the run lasted; differences within a block do not see that.",
     "Compare within this run only, never with figures of another one."},
    {"outlier", PQS_OF_RUN, PQS_NOTE, NULL,
     "One block's difference is far from the others'; it stays in the mean and widens the interval.",
     "See what the machine did then; if outliers are common, compare the medians by trial too."},
    {"few-samples", PQS_OF_RUN, PQS_WARNING, NULL, "A median needs 20 completed connections in every trial.",
     "Ask for a longer --duration or a higher --rate."},
    {"undeclared", PQS_OF_RUN, PQS_WARNING, NULL,
     "This arm differs from the baseline in something that no factor declares, so the difference between them has two "
     "causes.",
     "Make that equal for both arms, or declare it as a factor."},
    {"environment-changed", PQS_OF_RUN, PQS_NOTE, NULL,
     "The machine or the library changed while the run lasted; blocks are still paired.",
     "Run it again on a machine that stays as it is."},
    {NULL, PQS_OF_TRIAL, PQS_VALID, NULL, NULL, NULL}};
_Static_assert(PQS_COUNT(pqs_verdicts) - 1 <= PQS_FINDINGS_MAX, "one trial can show every row");

const struct pqs_verdict *pqs_verdict_find(const char *id) {
    const struct pqs_verdict *v = pqs_verdicts;
    while (v->id && strcmp(v->id, id) != 0)
        v++;
    return v->id ? v : NULL;
}

size_t pqs_verdict_judge(const struct pqs_result *r, enum pqs_scope scope, struct pqs_finding ret[static PQS_FINDINGS_MAX],
                         enum pqs_severity *ret_worst) {
    size_t n = 0;
    for (int severity = PQS_UNFIT; severity > PQS_VALID; severity--) {
        for (const struct pqs_verdict *v = pqs_verdicts; v->id; v++) {
            if ((int)v->severity != severity || v->scope != scope)
                continue;
            ret[n] = (struct pqs_finding){.verdict = v};
            if (v->test(r, ret[n].text, sizeof ret[n].text))
                n++;
        }
    }
    *ret_worst = n > 0 && ret[0].verdict->severity > PQS_NOTE ? ret[0].verdict->severity : PQS_VALID;
    return n;
}

/* What two arms must share, and the factors that may change it. CertificateVerify and Finished are left out: the first
 * varies by itself with ECDSA, the second follows the cipher. */
static const struct {
    enum pqs_side side;
    const char *fact;
    const char *factors[5];
} shared_facts[] = {
    {PQS_CLIENT, "group", {"groups"}},
    {PQS_CLIENT, "cipher", {"client-stack", "server-stack"}},
    {PQS_CLIENT, "signature", {"cert", "sigalgs", "client-stack", "server-stack"}},
    {PQS_CLIENT, "protocol", {NULL}},
    {PQS_CLIENT, "verified", {NULL}},
    {PQS_CLIENT, "resumed", {NULL}},
    {PQS_CLIENT, "http_status", {NULL}},
    {PQS_CLIENT, "engine", {"engine"}},
    {PQS_CLIENT, "close", {NULL}},
    {PQS_CLIENT, "target", {NULL}},
    {PQS_CLIENT, "loopback", {NULL}},
    {PQS_CLIENT, "certificate.key", {"cert", "sigalgs"}},
    {PQS_CLIENT, "certificate.chain_bytes", {"cert", "sigalgs"}},
    {PQS_CLIENT, "certificate.chain_length", {"cert", "sigalgs"}},
    {PQS_CLIENT, "message.client_hello", {"groups", "sigalgs", "client-stack"}},
    {PQS_CLIENT, "message.server_hello", {"groups"}},
    {PQS_CLIENT, "message.encrypted_extensions", {"groups", "client-stack", "server-stack"}},
    {PQS_CLIENT, "message.certificate", {"cert", "sigalgs"}},
    {PQS_CLIENT, "tcp.mss", {NULL}},
    {PQS_CLIENT, "tcp.congestion_control", {NULL}},
    {PQS_CLIENT, "stack", {"client-stack"}},
    {PQS_CLIENT, "header_version", {"client-stack"}},
    {PQS_CLIENT, "library_version", {"client-stack"}},
    {PQS_CLIENT, "library", {"client-stack"}},
    {PQS_CLIENT, "build_id", {"client-stack"}},
    {PQS_CLIENT, "threads", {NULL}},
    {PQS_CLIENT, "cpus", {NULL}},
    {PQS_SERVER, "server_groups", {NULL}},
    {PQS_SERVER, "certificate.kind", {"cert"}},
    {PQS_SERVER, "stack", {"server-stack"}},
    {PQS_SERVER, "header_version", {"server-stack"}},
    {PQS_SERVER, "library_version", {"server-stack"}},
    {PQS_SERVER, "library", {"server-stack"}},
    {PQS_SERVER, "build_id", {"server-stack"}},
    {PQS_SERVER, "threads", {NULL}},
    {PQS_SERVER, "cpus", {NULL}},
};

/* Every value that was seen, sorted, joined by " + "; "none" without any. Two arms that mix the same values are alike. */
static void list_values(const struct pqs_result *r, enum pqs_side side, const char *name, char *ret, size_t size) {
    const char *last = NULL; /* selection by increasing value: there are few */
    *ret = '\0';
    for (;;) {
        const char *next = NULL;
        for (size_t i = 0; i < r->n_facts; i++) {
            const struct pqs_fact *f = &r->facts[i];
            if (f->side == side && f->n > 0 && strcmp(f->name, name) == 0 && (!last || strcmp(f->value, last) > 0) &&
                (!next || strcmp(f->value, next) < 0))
                next = f->value;
        }
        if (!next)
            break;
        add(ret, size, "%s%s", last ? " + " : "", next);
        last = next;
    }
    if (!last)
        add(ret, size, "none");
}

size_t pqs_verdict_undeclared(const struct pqs_result *a, const struct pqs_result *b, const char *const *declared_factors,
                              size_t n_declared, struct pqs_buf *ret_text) {
    size_t n = 0;
    if (client(a, "completed") == 0 || client(b, "completed") == 0)
        return 0; /* an arm without a connection has negotiated nothing: "no-data" says so already */
    for (size_t i = 0; i < PQS_COUNT(shared_facts); i++) {
        /* On loopback the MSS follows the window, and so the arm's own messages. */
        bool declared = strcmp(shared_facts[i].fact, "tcp.mss") == 0 && fact_is(a, "loopback", "yes");
        for (size_t k = 0; k < PQS_COUNT(shared_facts[i].factors) && shared_facts[i].factors[k]; k++)
            for (size_t d = 0; d < n_declared; d++)
                declared |= strcmp(shared_facts[i].factors[k], declared_factors[d]) == 0;
        if (declared)
            continue;
        char of_a[512], of_b[512];
        list_values(a, shared_facts[i].side, shared_facts[i].fact, of_a, sizeof of_a);
        list_values(b, shared_facts[i].side, shared_facts[i].fact, of_b, sizeof of_b);
        if (strcmp(of_a, of_b) == 0)
            continue;
        pqs_buf_addf(ret_text, "%s%s%s: %s / %s", n++ > 0 ? "; " : "", shared_facts[i].side == PQS_SERVER ? "server's " : "",
                     shared_facts[i].fact, of_a, of_b);
    }
    return n;
}
