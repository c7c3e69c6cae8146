/* Threads, stages and their results. See generator.h; the event loop is in thread.c. */
#include "load/generator.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "crypto/library.h"
#include "load/arrivals.h"
#include "load/target.h"
#include "load/thread.h"
#include "stats/hist.h"

#define LEAD_NS (2 * PQS_NS_PER_MS) /* between waking the threads and the first arrival */
#define REPORT_NS (PQS_NS_PER_S / 2)
#define OTHER_ADDRESS_NS (2 * PQS_NS_PER_S) /* how long an address of a name may be silent when it has another */

struct worker_thread { /* a pthread and its pqs_thread */
    pthread_t id;
    bool running;
    struct pqs_generator *g;
    struct pqs_thread t;
};

struct pqs_generator {
    struct pqs_spec spec;
    const struct pqs_engine *engine;
    struct pqs_target target;
    struct worker_thread *threads;
    unsigned n_threads;
    unsigned n_cpus; /* that this process may run on */

    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    unsigned stage;  /* number of the stage to run; changes wake the threads */
    unsigned n_done; /* threads that have finished it */
    bool quit;
};

static void *thread_main(void *arg) {
    struct worker_thread *self = arg;
    struct pqs_generator *g = self->g;
    unsigned seen = 0;
    char name[16];
    snprintf(name, sizeof name, "load-%u", self->t.index);
    pthread_setname_np(pthread_self(), name);
    /* Failing here would fail again, visibly, in the thread's first handshake. */
    (void)!pqs_crypto_touch_random(NULL);
    pthread_mutex_lock(&g->lock);
    for (;;) {
        while (!g->quit && g->stage == seen)
            pthread_cond_wait(&g->wake, &g->lock);
        if (g->quit)
            break;
        seen = g->stage;
        pthread_mutex_unlock(&g->lock);
        pqs_thread_stage(&self->t);
        pthread_mutex_lock(&g->lock);
        g->n_done++;
        pthread_cond_signal(&g->done);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

void pqs_generator_free(struct pqs_generator *g) {
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->quit = true;
    pthread_cond_broadcast(&g->wake);
    pthread_mutex_unlock(&g->lock);
    for (unsigned i = 0; i < g->n_threads; i++) {
        struct worker_thread *w = &g->threads[i];
        if (w->running)
            pthread_join(w->id, NULL);
        pqs_thread_release(&w->t);
        if (w->t.engine_thread)
            g->engine->thread_free(w->t.engine_thread);
    }
    free(g->threads);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->wake);
    pthread_cond_destroy(&g->done);
    pqs_spec_release(&g->spec);
    free(g);
}

static int start_threads(struct pqs_generator *g, uint32_t max_inflight, struct pqs_err *err) {
    const char *close = pqs_spec_get(&g->spec, "close");
    for (unsigned i = 0; i < g->n_threads; i++) {
        struct worker_thread *w = &g->threads[i];
        w->g = g;
        w->t = (struct pqs_thread){
            .index = i,
            .engine = g->engine,
            .target = &g->target,
            .timeout_ns = g->spec.schedule.timeout_ns,
            .rst = close && strcmp(close, "rst") == 0,
            .max_inflight = max_inflight / g->n_threads + (i < max_inflight % g->n_threads),
            .epoll_fd = -1,
            .next_to = i % g->target.n_to,
        };
        int rc = g->engine->thread_new(&g->spec, &w->t.engine_thread, err);
        if (rc == 0)
            rc = pqs_thread_init(&w->t, err);
        if (rc)
            return rc;
        int error = pthread_create(&w->id, NULL, thread_main, w);
        if (error)
            return pqs_fail_sys(err, PQS_E_ENV, error, "cannot start generator thread %u", i);
        w->running = true;
    }
    return 0;
}

static int check_ports(const struct pqs_spec *spec, struct pqs_target *target, struct pqs_err *err) {
    const char *close = pqs_spec_get(spec, "close"), *run = pqs_spec_get(spec, "run_ns");
    const struct pqs_schedule *s = &spec->schedule;
    int64_t run_ns = run ? strtoll(run, NULL, 10) : s->warmup_ns + s->duration_ns;
    return pqs_target_check_ports(target, s, run_ns, close && strcmp(close, "rst") == 0, err);
}

int pqs_generator_new(const struct pqs_spec *spec, const struct pqs_engine *engine, struct pqs_generator **ret_g,
                      struct pqs_err *err) {
    struct pqs_target target;
    uint32_t max_inflight;
    const struct pqs_schedule *s = &spec->schedule;
    if (s->threads < 1 || s->threads > 1024 || s->duration_ns <= 0 || s->warmup_ns < 0 || s->timeout_ns <= 0)
        return pqs_fail(err, PQS_E_USAGE, "a schedule needs 1 to 1024 threads, a duration and a timeout above 0");
    if (!(s->rate_per_s > 0))
        return pqs_fail(err, PQS_E_USAGE, "a rate of %g connections/s makes no load; it must be above 0", s->rate_per_s);
    int rc = pqs_target_resolve(spec, &target, err);
    if (rc == 0)
        rc = check_ports(spec, &target, err);
    if (rc == 0)
        rc = pqs_target_max_inflight(spec->schedule.max_inflight, &max_inflight, err);
    if (rc)
        return rc;
    double arrivals = s->rate_per_s * (double)(s->duration_ns + s->warmup_ns) / (double)PQS_NS_PER_S;
    if (arrivals > PQS_ARRIVALS_MAX)
        return pqs_fail(err, PQS_E_USAGE, "a trial of %.0f connections is too long: at most %u", arrivals, PQS_ARRIVALS_MAX);
    if (max_inflight < spec->schedule.threads)
        return pqs_fail(err, PQS_E_USAGE, "--max-inflight %u is less than one connection for each of %u threads",
                        max_inflight, spec->schedule.threads);
    struct pqs_generator *g = pqs_calloc(1, sizeof *g);
    g->engine = engine;
    g->target = target;
    g->n_threads = spec->schedule.threads;
    g->n_cpus = pqs_cpu_count();
    pqs_spec_copy(spec, &g->spec);
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&g->done, &monotonic);
    pthread_cond_init(&g->wake, NULL);
    pthread_condattr_destroy(&monotonic);
    g->threads = aligned_alloc(64, g->n_threads * ((sizeof *g->threads + 63) / 64 * 64));
    if (!g->threads)
        abort();
    memset(g->threads, 0, g->n_threads * sizeof *g->threads);
    for (unsigned i = 0; i < g->n_threads; i++)
        g->threads[i].t.epoll_fd = -1;
    rc = start_threads(g, max_inflight, err);
    if (rc) {
        pqs_generator_free(g);
        return rc;
    }
    *ret_g = g;
    return 0;
}

/* ---- running a stage ---- */

/* Lower edge of the bucket that holds that percentile of the requests completed so far; 0 without any. */
static int64_t live_quantile(const struct pqs_generator *g, unsigned percent) {
    uint64_t sum[PQS_LIVE_BUCKETS] = {0}, n = 0, below = 0;
    for (unsigned t = 0; t < g->n_threads; t++)
        for (unsigned b = 0; b < PQS_LIVE_BUCKETS; b++) {
            uint32_t count = atomic_load_explicit(&g->threads[t].t.live[b], memory_order_relaxed);
            sum[b] += count;
            n += count;
        }
    for (unsigned b = 0; b < PQS_LIVE_BUCKETS && n > 0; b++) {
        below += sum[b];
        if (below * 100 >= n * percent)
            return b / 8 >= 3 ? (int64_t)((8 + b % 8) << (b / 8 - 3)) : INT64_C(1) << (b / 8);
    }
    return 0;
}

static void run_stage(struct pqs_generator *g, struct pqs_stage_work *work, pqs_generator_report *report, void *context) {
    for (unsigned i = 0; i < g->n_threads; i++)
        pqs_thread_prepare(&g->threads[i].t, work);
    work->t0_ns = pqs_now_ns() + LEAD_NS;
    pthread_mutex_lock(&g->lock);
    g->n_done = 0;
    g->stage++;
    pthread_cond_broadcast(&g->wake);
    int64_t next_report = work->t0_ns + REPORT_NS;
    while (g->n_done < g->n_threads) {
        struct timespec until = {.tv_sec = next_report / PQS_NS_PER_S, .tv_nsec = next_report % PQS_NS_PER_S};
        if (pthread_cond_timedwait(&g->done, &g->lock, &until) != ETIMEDOUT)
            continue;
        next_report += REPORT_NS;
        if (!report)
            continue;
        pthread_mutex_unlock(&g->lock);
        struct pqs_generator_progress p = {0};
        p.p50_ns = live_quantile(g, 50);
        p.p99_ns = live_quantile(g, 99);
        for (unsigned i = 0; i < g->n_threads; i++) {
            p.started += atomic_load_explicit(&g->threads[i].t.started, memory_order_relaxed);
            p.completed += atomic_load_explicit(&g->threads[i].t.completed, memory_order_relaxed);
            p.failed += atomic_load_explicit(&g->threads[i].t.failed, memory_order_relaxed);
        }
        report(context, &p);
        pthread_mutex_lock(&g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

/* ---- results ---- */

static int by_schedule(const void *a, const void *b) {
    const struct pqs_sample *x = a, *y = b;
    return (x->scheduled_ns > y->scheduled_ns) - (x->scheduled_ns < y->scheduled_ns);
}

/* Absolute instant -> ns since the scheduled one; 0 (never reached) -> PQS_SAMPLE_NONE. */
static uint64_t since(uint64_t instant, uint64_t scheduled) {
    return instant == 0 ? PQS_SAMPLE_NONE : instant - scheduled;
}

/* From absolute times to those of struct pqs_sample. */
static void make_relative(struct pqs_sample *s, int64_t t0_ns) {
    uint64_t scheduled = s->scheduled_ns;
    s->started_ns = since(s->started_ns, scheduled);
    s->tcp_ns = since(s->tcp_ns, scheduled);
    s->tls_ns = since(s->tls_ns, scheduled);
    s->first_ns = since(s->first_ns, scheduled);
    s->done_ns = since(s->done_ns, scheduled);
    s->scheduled_ns = scheduled - (uint64_t)t0_ns;
}

static void add_to_hists(const struct pqs_sample *s, enum pqs_class class, struct pqs_hist *hists[PQS_CLASSES][PQS_PHASES]) {
    const int64_t value[PQS_PHASES] = {
        [PQS_PHASE_REQUEST] = (int64_t)s->done_ns,
        [PQS_PHASE_SERVICE] = (int64_t)(s->done_ns - s->started_ns),
        [PQS_PHASE_START_LAG] = (int64_t)s->started_ns,
        [PQS_PHASE_CONNECT] = (int64_t)(s->tcp_ns - s->started_ns),
        [PQS_PHASE_TLS] = (int64_t)(s->tls_ns - s->tcp_ns),
        [PQS_PHASE_FIRST_BYTE] = (int64_t)(s->first_ns - s->tls_ns),
        [PQS_PHASE_BODY] = (int64_t)(s->done_ns - s->first_ns),
    };
    for (int p = 0; p < PQS_PHASES; p++) {
        if (!hists[class][p])
            hists[class][p] = pqs_hist_new();
        pqs_hist_add(hists[class][p], value[p]);
    }
}

static void add_lag(const struct pqs_sample *s, struct pqs_hist *hists[PQS_CLASSES][PQS_PHASES]) {
    struct pqs_hist **lag = &hists[s->class][PQS_PHASE_START_LAG];
    if (!*lag)
        *lag = pqs_hist_new();
    pqs_hist_add(*lag, (int64_t)s->started_ns);
}

static void count_failure(struct pqs_result *r, const struct pqs_sample *s) {
    char class[48], name[96];
    pqs_failure_name(s->failure, class);
    snprintf(name, sizeof name, "failed.%s.%s", pqs_step_names[s->phase], class);
    pqs_result_count(r, PQS_CLIENT, name, 1);
}

/* Samples of all threads -> counters, histograms and packed samples. first: all are of class `first`. */
static void add_samples(struct pqs_sample *samples, size_t n, int64_t t0_ns, bool first, struct pqs_result *r) {
    struct pqs_hist *hists[PQS_CLASSES][PQS_PHASES] = {{NULL}};
    int64_t faults = 0, to_server = 0, to_client = 0;
    qsort(samples, n, sizeof *samples, by_schedule);
    for (size_t i = 0; i < n; i++) {
        struct pqs_sample *s = &samples[i];
        make_relative(s, t0_ns);
        pqs_sample_put(&r->samples, s);
        if (s->failure) { /* its lag is the generator's doing like any other; its latency is none */
            count_failure(r, s);
            if (!first)
                add_lag(s, hists);
            continue;
        }
        to_server += s->to_server_bytes;
        to_client += s->to_client_bytes;
        add_to_hists(s, first ? PQS_CLASS_FIRST : (enum pqs_class)s->class, hists);
    }
    for (int c = 0; c < PQS_CLASSES; c++)
        for (int p = 0; p < PQS_PHASES; p++)
            if (hists[c][p]) {
                faults += (int64_t)pqs_hist_faults(hists[c][p]);
                pqs_result_hist(r, (enum pqs_class)c, (enum pqs_phase)p, hists[c][p]);
            }
    pqs_result_count(r, PQS_CLIENT, "clock_faults", faults);
    pqs_result_count(r, PQS_CLIENT, "bytes_to_server", to_server);
    pqs_result_count(r, PQS_CLIENT, "bytes_to_client", to_client);
}

/* Connections open at instant t, since the start of the window. */
static int64_t open_at(const struct pqs_sample *samples, size_t n, uint64_t t_ns) {
    int64_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct pqs_sample *s = &samples[i];
        bool begun = s->scheduled_ns + s->started_ns <= t_ns;
        bool ended = s->done_ns != PQS_SAMPLE_NONE && s->scheduled_ns + s->done_ns <= t_ns;
        count += begun && !ended && !s->failure;
    }
    return count;
}

static struct pqs_sample *gather(const struct pqs_generator *g, size_t *ret_n) {
    size_t n = 0;
    for (unsigned i = 0; i < g->n_threads; i++)
        n += g->threads[i].t.n_samples;
    struct pqs_sample *all = pqs_calloc(n ? n : 1, sizeof *all);
    n = 0;
    for (unsigned i = 0; i < g->n_threads; i++) {
        const struct pqs_thread *t = &g->threads[i].t;
        memcpy(all + n, t->samples, t->n_samples * sizeof *all);
        n += t->n_samples;
    }
    *ret_n = n;
    return all;
}

static void add_window(const struct pqs_generator *g, struct pqs_stage_work *work, int64_t cpu_ns, struct pqs_result *r) {
    int64_t window_ns = pqs_stage_length_ns(work);
    int64_t busiest_ns = 0, all_busy_ns = 0, longest_wait_ns = 0, last_end_ns = 0;
    for (unsigned i = 0; i < g->n_threads; i++) {
        const struct pqs_thread *t = &g->threads[i].t;
        pqs_result_count(r, PQS_CLIENT, "scheduled", (int64_t)t->scheduled);
        pqs_result_count(r, PQS_CLIENT, "started", (int64_t)t->n_samples);
        pqs_result_count(r, PQS_CLIENT, "dropped", (int64_t)t->dropped);
        pqs_result_count(r, PQS_CLIENT, "unstarted", (int64_t)t->unstarted);
        pqs_result_count(r, PQS_CLIENT, "completed", atomic_load(&t->completed));
        pqs_result_count(r, PQS_CLIENT, "failed", atomic_load(&t->failed));
        pqs_result_count(r, PQS_CLIENT, "window_completed", (int64_t)t->window_completed);
        pqs_result_count(r, PQS_CLIENT, "inflight_max", t->inflight_max);
        pqs_result_count(r, PQS_CLIENT, "retransmitted", (int64_t)t->retransmitted);
        busiest_ns = t->cpu_window_ns > busiest_ns ? t->cpu_window_ns : busiest_ns;
        all_busy_ns += t->cpu_window_ns;
        longest_wait_ns = t->wait_window_ns > longest_wait_ns ? t->wait_window_ns : longest_wait_ns;
        last_end_ns = t->last_end_ns > last_end_ns ? t->last_end_ns : last_end_ns;
    }
    /* Threads that share CPUs are each far from busy when together they have none left. */
    unsigned at_once = g->n_threads < g->n_cpus ? g->n_threads : g->n_cpus;
    int64_t together_ns = at_once > 0 ? all_busy_ns / (int64_t)at_once : 0;
    busiest_ns = together_ns > busiest_ns ? together_ns : busiest_ns;
    int64_t drain_ns = last_end_ns - (work->t0_ns + window_ns);
    pqs_result_count(r, PQS_CLIENT, "window_ns", window_ns);
    pqs_result_count(r, PQS_CLIENT, "drain_ns", drain_ns > 0 ? drain_ns : 0);
    pqs_result_count(r, PQS_CLIENT, "cpu_ns", cpu_ns);
    pqs_result_count(r, PQS_CLIENT, "memory_peak_bytes", pqs_memory_peak_bytes());
    pqs_result_count(r, PQS_CLIENT, "thread_busy_ppm", window_ns > 0 ? busiest_ns * 1000000 / window_ns : 0);
    pqs_result_count(r, PQS_CLIENT, "thread_wait_ppm", window_ns > 0 ? longest_wait_ns * 1000000 / window_ns : 0);
    pqs_result_count(r, PQS_CLIENT, "cut_short", window_ns < work->duration_ns);
}

/* "step 'tls'" and the like are read by the coordinator's explanation (run/tls.c). */
static int preflight_error(const struct pqs_generator *g, const struct pqs_thread *t, struct pqs_err *err) {
    const struct pqs_sample *s = &t->samples[0];
    const struct sockaddr *to = (const struct sockaddr *)&g->target.to[0];
    const char *why = g->engine->why(t->engine_thread);
    char name[48], host[64] = "?";
    (void)getnameinfo(to, g->target.to_len, host, sizeof host, NULL, 0, NI_NUMERICHOST);
    return pqs_fail(err, PQS_E_FAILED, "the first handshake with %s port %s failed in step '%s': %s (%s)%s%s", host,
                    pqs_spec_get(&g->spec, "ports"), pqs_step_names[s->phase], pqs_failure_text(s->failure),
                    pqs_failure_name(s->failure, name), *why ? ": " : "", why);
}

/* One handshake on thread i. */
static void preflight_handshake(struct pqs_generator *g, unsigned i, int64_t timeout_ns, struct pqs_stage_work *ret_work) {
    static const uint64_t now = 0;
    struct pqs_thread *t = &g->threads[i].t;
    *ret_work = (struct pqs_stage_work){
        .arrivals_ns = &now, .n_arrivals = 1, .first_thread = i, .step = g->n_threads, .preflight = true};
    t->timeout_ns = timeout_ns;
    g->engine->explain(t->engine_thread, true);
    run_stage(g, ret_work, NULL, NULL);
    g->engine->explain(t->engine_thread, false);
    t->timeout_ns = g->spec.schedule.timeout_ns;
}

/* The first handshake, to one address. ret_reached: there was somebody, whatever came of it. */
static int preflight_to(struct pqs_generator *g, unsigned which, int64_t timeout_ns, struct pqs_stage_work *ret_work,
                        bool *ret_reached, struct pqs_err *err) {
    pqs_target_use(&g->target, which);
    int rc = check_ports(&g->spec, &g->target, err);
    if (rc)
        return rc;
    preflight_handshake(g, 0, timeout_ns, ret_work);
    const struct pqs_sample *s = &g->threads[0].t.samples[0];
    *ret_reached = s->failure == PQS_FAILURE_NONE || s->phase > PQS_STEP_CONNECT;
    return 0;
}

/* A name may have addresses at which nobody listens (localhost: ::1 and 127.0.0.1), or that this machine cannot reach (no IPv6).
 * The first handshake tries one after the other; all connections of the trial go to the one that answered. When none does, the
 * first that could at least be tried is the one whose failure is told. */
static int preflight_first(struct pqs_generator *g, struct pqs_stage_work *ret_work, struct pqs_err *err) {
    const int64_t timeout_ns = g->spec.schedule.timeout_ns;
    unsigned tried = UINT_MAX, n = g->target.n_addresses;
    bool reached = false;
    for (unsigned which = 0; which < n && !reached; which++) {
        bool brief = n > 1 && timeout_ns > OTHER_ADDRESS_NS;
        int rc = preflight_to(g, which, brief ? OTHER_ADDRESS_NS : timeout_ns, ret_work, &reached, err);
        if (rc)
            return rc;
        if (tried == UINT_MAX && g->threads[0].t.samples[0].phase == PQS_STEP_CONNECT)
            tried = which;
    }
    if (reached || n == 1)
        return 0;
    return preflight_to(g, tried == UINT_MAX ? 0 : tried, timeout_ns, ret_work, &reached, err);
}

static int preflight(struct pqs_generator *g, struct pqs_result *r, struct pqs_err *err) {
    for (unsigned i = 0; i < g->n_threads; i++) {
        struct pqs_thread *t = &g->threads[i].t;
        struct pqs_stage_work work;
        int rc = i == 0 ? preflight_first(g, &work, err) : 0;
        if (rc)
            return rc;
        if (i > 0)
            preflight_handshake(g, i, g->spec.schedule.timeout_ns, &work);
        if (t->samples[0].failure)
            return preflight_error(g, t, err);
        add_samples(t->samples, t->n_samples, work.t0_ns, true, r);
        g->engine->report(t->engine_thread, i == 0, r);
        if (i == 0) {
            pqs_result_fact(r, PQS_CLIENT, "tcp.mss", t->mss, 1);
            pqs_result_fact(r, PQS_CLIENT, "tcp.congestion_control", t->congestion, 1);
            pqs_result_fact(r, PQS_CLIENT, "loopback", g->target.loopback ? "yes" : "no", 1);
        }
    }
    return 0;
}

int pqs_generator_run(struct pqs_generator *g, enum pqs_stage stage, pqs_generator_report *report, void *context,
                      struct pqs_result *r, struct pqs_err *err) {
    if (stage == PQS_STAGE_PREFLIGHT)
        return preflight(g, r, err);
    const struct pqs_schedule *s = &g->spec.schedule;
    bool window = stage == PQS_STAGE_WINDOW;
    int64_t duration_ns = window ? s->duration_ns : s->warmup_ns;
    __attribute__((cleanup(pqs_cleanup_free))) uint64_t *arrivals_ns = NULL;
    struct pqs_stage_work work = {.step = g->n_threads, .duration_ns = duration_ns};
    int rc = pqs_arrivals_make(s, window ? "arrivals" : "warm-up", duration_ns, &arrivals_ns, &work.n_arrivals, err);
    if (rc)
        return rc;
    work.arrivals_ns = arrivals_ns;
    int64_t cpu_before_ns = pqs_cpu_ns();
    run_stage(g, &work, report, context);
    int64_t cpu_ns = pqs_cpu_ns() - cpu_before_ns;

    struct pqs_result unused = {0}; /* a warm-up's facts are not the cohort's */
    for (unsigned i = 0; i < g->n_threads; i++)
        g->engine->report(g->threads[i].t.engine_thread, false, window ? r : &unused);
    pqs_result_release(&unused);
    if (!window) {
        for (unsigned i = 0; i < g->n_threads; i++) {
            const struct pqs_thread *t = &g->threads[i].t;
            pqs_result_count(r, PQS_CLIENT, "warmup.scheduled", (int64_t)t->scheduled);
            pqs_result_count(r, PQS_CLIENT, "warmup.completed", atomic_load(&t->completed));
            pqs_result_count(r, PQS_CLIENT, "warmup.failed", atomic_load(&t->failed));
        }
        return 0;
    }
    add_window(g, &work, cpu_ns, r);
    size_t n;
    struct pqs_sample *all = gather(g, &n);
    add_samples(all, n, work.t0_ns, false, r);
    uint64_t length_ns = (uint64_t)pqs_stage_length_ns(&work);
    pqs_result_count(r, PQS_CLIENT, "open_at_half", open_at(all, n, length_ns / 2));
    pqs_result_count(r, PQS_CLIENT, "open_at_end", open_at(all, n, length_ns));
    free(all);
    return 0;
}
