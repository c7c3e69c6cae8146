/* The stages of one trial (METHOD, Trust; docs/WORKERS.md). Must not know blocks, the store or any one workload. */
#include "run/trial.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/mem.h"
#include "stats/hist.h"

/* Deadlines only catch workers that are stuck: they leave room for a loaded machine. */
#define CONFIGURE_TIMEOUT_NS (60 * PQS_NS_PER_S)
#define MARK_TIMEOUT_NS (30 * PQS_NS_PER_S) /* it waits up to 2 s for open connections itself */
#define MARGIN_NS (30 * PQS_NS_PER_S)
#define SILENCE_NS (30 * PQS_NS_PER_S) /* a generator tells its progress twice a second */

static void make_specs(struct pqs_pair *pair, uint32_t block) {
    const struct pqs_plan *plan = pair->options->plan;
    pqs_spec_copy(&plan->common, &pair->client_spec);
    pair->client_spec.schedule = plan->schedule;
    pair->client_spec.schedule.block = block;
    if (!pair->options->own_server)
        return;
    pqs_spec_copy(&pair->client_spec, &pair->server_spec);
}

static const char *hello_fact(const struct pqs_worker *w, const char *name) {
    enum pqs_side side = strcmp(w->role, "client") == 0 ? PQS_CLIENT : PQS_SERVER;
    const char *value = pqs_result_fact_of(&w->hello, side, name, NULL);
    return value ? value : "";
}

static bool is(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

/* Both workers get CPUs of their own when both are on this machine and may use what this process may; whoever was put elsewhere,
 * or on other CPUs by its prefix (taskset, a container), stays there. */
static void place(struct pqs_pair *pair) {
    char kernel[PQS_MACHINE_ID_MAX], cpus[PQS_CPU_LIST_MAX];
    const struct pqs_worker *workers[] = {&pair->client, &pair->server};
    pqs_machine_kernel(kernel);
    pqs_cpu_allowed(cpus);
    for (size_t i = 0; i < PQS_COUNT(workers); i++)
        if (!is(hello_fact(workers[i], "kernel_id"), kernel) || !is(hello_fact(workers[i], "cpus_allowed"), cpus))
            return;
    pqs_cpu_split(pair->server_spec.cpus, pair->client_spec.cpus);
}

/* A loopback address is a different place in each network namespace. */
static int check_reach(const struct pqs_pair *pair, struct pqs_err *err) {
    const char *host = pqs_spec_get(&pair->server_spec, "host");
    const char *client = hello_fact(&pair->client, "network_id"), *server = hello_fact(&pair->server, "network_id");
    bool loopback = host && (strncmp(host, "127.", 4) == 0 || is(host, "::1"));
    if (!loopback || !*client || !*server || is(client, server))
        return 0;
    return pqs_fail(err, PQS_E_USAGE,
                    "the server would listen on %s, which the client cannot reach: they are on different machines or in "
                    "different network namespaces; --server-host names the server's address there",
                    host);
}

/* The client goes where the server says it listens. */
static int aim(struct pqs_pair *pair, struct pqs_err *err) {
    const struct pqs_result *ready = &pair->server_ready;
    const char *host = pqs_result_fact_of(ready, PQS_SERVER, "host", NULL);
    PQS_BUF ports = {0};
    for (size_t i = 0; i < ready->n_facts; i++)
        if (strcmp(ready->facts[i].name, "port") == 0)
            pqs_buf_addf(&ports, "%s%s", ports.len ? "," : "", ready->facts[i].value);
    if (!host || ports.len == 0)
        return pqs_fail(err, PQS_E_FAILED, "the server worker is ready but does not say where it listens");
    pqs_spec_set(&pair->client_spec, "host", host);
    pqs_spec_set(&pair->client_spec, "ports", pqs_buf_text(&ports));
    return 0;
}

static const char *stack_of(const struct pqs_pair *pair, const char *factor) {
    const char *level = pqs_arm_level(pair->arm, factor);
    return level ? level : PQS_DEFAULT_STACK;
}

static int configure(struct pqs_pair *pair, struct pqs_err *err) {
    const struct pqs_run_options *options = pair->options;
    const char *client_stack = stack_of(pair, PQS_FACTOR_CLIENT_STACK),
               *server_stack = stack_of(pair, PQS_FACTOR_SERVER_STACK);
    struct pqs_spec *server_spec = options->own_server ? &pair->server_spec : NULL;
    int rc = options->workload->apply(pair->arm, options->context, &pair->client_spec, server_spec, err);
    if (rc == 0 && server_spec)
        rc = pqs_worker_start_via(options->server_via, server_stack, "server", &pair->server, err);
    if (rc == 0)
        rc = pqs_worker_start_via(options->client_via, client_stack, "client", &pair->client, err);
    if (rc == 0 && server_spec)
        rc = check_reach(pair, err);
    if (rc == 0 && server_spec)
        place(pair);
    if (rc == 0 && server_spec)
        rc = pqs_worker_ask(&pair->server, PQS_MSG_CONFIGURE, server_spec, PQS_MSG_READY, CONFIGURE_TIMEOUT_NS, NULL,
                            &pair->server_ready, err);
    if (rc == 0 && server_spec)
        rc = aim(pair, err);
    if (rc == 0)
        rc = pqs_worker_ask(&pair->client, PQS_MSG_CONFIGURE, &pair->client_spec, PQS_MSG_READY, CONFIGURE_TIMEOUT_NS, NULL,
                            &pair->client_ready, err);
    return rc;
}

static struct pqs_worker *watched_server(struct pqs_pair *pair) {
    return pair->options->own_server ? &pair->server : NULL;
}

static void explain(struct pqs_pair *pair, struct pqs_err *err) {
    const struct pqs_workload *workload = pair->options->workload;
    struct pqs_result counts = {0};
    struct pqs_err ignored;
    if (!pair->options->own_server) {
        workload->explain(&pair->client_spec, NULL, NULL, err);
    } else if (pqs_worker_ask(&pair->server, PQS_MSG_MARK, NULL, PQS_MSG_DONE, MARK_TIMEOUT_NS, NULL, &counts, &ignored) ==
               0) {
        workload->explain(&pair->client_spec, &pair->server_ready, &counts, err);
    } /* a server that cannot be asked has been named by err already, or will be missed in the next trial */
    pqs_result_release(&counts);
}

/* The processes of a foreign server, which must be the ones that were there before the preflight. */
static int read_target(struct pqs_pair *pair, struct pqs_process_tree *ret_tree, struct pqs_err *err) {
    int rc = pqs_process_tree_read(pair->options->target_pid, ret_tree, err);
    if (rc == 0 && pair->target.start && ret_tree->start != pair->target.start)
        rc = pqs_fail(err, PQS_E_FAILED, "process %d (%s) has ended, and its number is that of another process now",
                      (int)pair->options->target_pid, pair->target.name);
    return rc ? pqs_context(err, "--target-pid") : 0;
}

int pqs_pair_prepare(struct pqs_pair *pair, const struct pqs_run_options *options, const struct pqs_arm *arm, uint32_t block,
                     struct pqs_err *err) {
    pair->options = options;
    pair->arm = arm;
    make_specs(pair, block);
    int rc = options->target_pid ? read_target(pair, &pair->target, err) : 0;
    if (rc == 0)
        rc = configure(pair, err);
    if (rc)
        return rc;
    const struct pqs_waiting waiting = {.watch = watched_server(pair)};
    rc = pqs_worker_ask(&pair->client, PQS_MSG_PREFLIGHT, NULL, PQS_MSG_DONE, options->plan->schedule.timeout_ns + MARGIN_NS,
                        &waiting, &pair->preflight, err);
    if (rc && err->sys)
        return rc; /* no handshake failed: a worker did, or the user does not want to wait */
    if (rc == 0)
        rc = options->workload->check(&pair->client_spec, &pair->preflight, err);
    if (rc)
        explain(pair, err);
    return rc;
}

struct window {
    struct pqs_pair *pair;
    struct pqs_progress *progress;
    struct pqs_result *r;
};

static void show(const struct pqs_pair *pair, const struct pqs_progress *progress) {
    if (pair->options->progress)
        pair->options->progress(pair->options->progress_context, progress);
}

/* What the client says before DONE: progress, then its samples. */
static int on_message(void *context, enum pqs_message type, const struct pqs_buf *payload, struct pqs_err *err) {
    struct window *w = context;
    if (type == PQS_MSG_SAMPLES && payload->len % PQS_SAMPLE_BYTES == 0) {
        pqs_buf_add(&w->r->samples, payload->data, payload->len);
        return 0;
    }
    struct pqs_result rows = {0};
    int rc = type == PQS_MSG_PROGRESS
                 ? pqs_result_decode(payload->data, payload->len, &rows, err)
                 : pqs_fail(err, PQS_E_FAILED, "the client worker sent '%s' of %zu bytes while measuring",
                            pqs_message_name(type), payload->len);
    if (rc == 0) {
        w->progress->started = pqs_result_get(&rows, PQS_CLIENT, "started", 0);
        w->progress->completed = pqs_result_get(&rows, PQS_CLIENT, "completed", 0);
        w->progress->failed = pqs_result_get(&rows, PQS_CLIENT, "failed", 0);
        int64_t p50_ns = pqs_result_get(&rows, PQS_CLIENT, "live.p50_ns", 0);
        int64_t p99_ns = pqs_result_get(&rows, PQS_CLIENT, "live.p99_ns", 0);
        w->progress->p50_ns = p50_ns > 0 ? (double)p50_ns : NAN;
        w->progress->p99_ns = p99_ns > 0 ? (double)p99_ns : NAN;
        show(w->pair, w->progress);
    }
    pqs_result_release(&rows);
    return rc;
}

static int stage(struct window *w, const char *name, enum pqs_message send, int64_t length_ns, struct pqs_result *ret_r,
                 struct pqs_err *err) {
    w->progress->stage = name;
    w->progress->started = w->progress->completed = w->progress->failed = 0;
    show(w->pair, w->progress);
    const struct pqs_waiting waiting = {
        .watch = watched_server(w->pair), .on_message = on_message, .context = w, .silence_ns = SILENCE_NS};
    return pqs_worker_ask(&w->pair->client, send, NULL, PQS_MSG_DONE,
                          length_ns + w->pair->options->plan->schedule.timeout_ns + MARGIN_NS, &waiting, ret_r, err);
}

static int mark(struct pqs_pair *pair, struct pqs_result *ret_r, struct pqs_err *err) {
    return pqs_worker_ask(&pair->server, PQS_MSG_MARK, NULL, PQS_MSG_DONE, MARK_TIMEOUT_NS, NULL, ret_r, err);
}

/* The server's counters run since its start; the trial's are the differences over the window and its drain. `open` is a
 * gauge: connections that the second snapshot did not wait for. */
static void add_differences(const struct pqs_result *before, const struct pqs_result *after, struct pqs_result *r) {
    for (size_t i = 0; i < after->n_counters; i++) {
        const struct pqs_counter *c = &after->counters[i];
        int64_t from = strcmp(c->name, "open") == 0 ? 0 : pqs_result_get(before, c->side, c->name, 0);
        pqs_result_count(r, PQS_SERVER, c->name, c->value - from);
    }
}

static int add_target_cpu(const struct pqs_pair *pair, const struct pqs_process_tree *before,
                          const struct pqs_process_tree *after, struct pqs_result *r, struct pqs_err *err) {
    int64_t completed = pqs_result_get(r, PQS_CLIENT, "completed", 0), used_ns = after->cpu_ns - before->cpu_ns;
    if (used_ns < 0)
        return pqs_fail(err, PQS_E_FAILED,
                        "--target-pid: processes of %d (%s) ended and nobody waited for them, so their CPU time is lost",
                        (int)pair->options->target_pid, after->name);
    if (used_ns == 0 && completed > 0)
        return pqs_fail(
            err, PQS_E_FAILED,
            "--target-pid: process %d (%s) used no CPU while %lld connections completed, so it is not the server",
            (int)pair->options->target_pid, after->name, (long long)completed);
    pqs_result_count(r, PQS_SERVER, "cpu_ns", used_ns);
    pqs_result_fact(r, PQS_SERVER, "cpu_source", "target-pid", 1);
    pqs_result_fact(r, PQS_SERVER, "process", after->name, 1);
    return 0;
}

static bool listed(const char *const *names, const char *name) {
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

/* Facts of a stage, as the side that said them, unless a later stage (those before `n_known`) has facts of that name. */
static void add_facts(const struct pqs_result *from, enum pqs_side side, const char *const *except, struct pqs_result *r) {
    size_t n_known = r->n_facts;
    for (size_t i = 0; i < from->n_facts; i++) {
        const struct pqs_fact *fact = &from->facts[i];
        bool known = listed(except, fact->name);
        for (size_t k = 0; k < n_known && !known; k++)
            known = r->facts[k].side == side && strcmp(r->facts[k].name, fact->name) == 0;
        if (!known)
            pqs_result_fact(r, side, fact->name, fact->value, fact->n);
    }
}

int pqs_pair_measure(struct pqs_pair *pair, struct pqs_progress *progress, struct pqs_result *ret_r, struct pqs_err *err) {
    const struct pqs_schedule *schedule = &pair->client_spec.schedule;
    bool own_server = pair->options->own_server;
    bool target_pid = pair->options->target_pid != 0;
    struct window w = {.pair = pair, .progress = progress, .r = ret_r};
    struct pqs_result before = {0}, after = {0}, last = {0};
    struct pqs_process_tree target_before, target_after;
    int rc = stage(&w, "warm-up", PQS_MSG_WARMUP, schedule->warmup_ns, &pair->warmup, err);
    if (rc == 0 && own_server)
        rc = mark(pair, &before, err);
    if (rc == 0 && target_pid)
        rc = read_target(pair, &target_before, err);
    if (rc == 0)
        rc = stage(&w, "measuring", PQS_MSG_RUN, schedule->duration_ns, ret_r, err);
    if (rc == 0 && target_pid)
        rc = read_target(pair, &target_after, err);
    if (rc == 0 && target_pid)
        rc = add_target_cpu(pair, &target_before, &target_after, ret_r, err);
    if (rc == 0 && own_server)
        rc = mark(pair, &after, err);
    if (rc == 0 && own_server) {
        add_differences(&before, &after, ret_r);
        rc = pqs_worker_ask(&pair->server, PQS_MSG_STOP, NULL, PQS_MSG_DONE, schedule->timeout_ns + MARGIN_NS, NULL, &last,
                            err);
        add_facts(&last, PQS_SERVER, NULL, ret_r);
        pqs_result_count(ret_r, PQS_SERVER, "memory_peak_bytes", pqs_result_get(&last, PQS_SERVER, "memory_peak_bytes", 0));
    }
    pqs_result_release(&before);
    pqs_result_release(&after);
    pqs_result_release(&last);
    return rc;
}

/* True of one process in one trial and nothing else: not evidence. */
static const char *const plumbing[] = {"pid",       "host",       "port",         "tool_version",
                                       "kernel_id", "network_id", "cpus_allowed", NULL};

/* Where the workers were: through which prefix, and whether both had one machine's CPUs to share. */
static void add_places(const struct pqs_pair *pair, struct pqs_result *r) {
    const struct pqs_run_options *o = pair->options;
    const struct pqs_via *vias[] = {[PQS_CLIENT] = o->client_via, [PQS_SERVER] = o->server_via};
    for (enum pqs_side side = PQS_CLIENT; side <= PQS_SERVER; side++)
        if (vias[side] && vias[side]->text)
            pqs_result_fact(r, side, "via", vias[side]->text, 1);
    if (!pair->client.role || !pair->server.role) /* one was not started */
        return;
    const char *client = hello_fact(&pair->client, "kernel_id"), *server = hello_fact(&pair->server, "kernel_id");
    if (*client && *server)
        pqs_result_fact(r, PQS_CLIENT, "same_machine", is(client, server) ? "yes" : "no", 1);
}

void pqs_pair_describe(const struct pqs_pair *pair, struct pqs_result *r) {
    pqs_result_fact(r, PQS_CLIENT, "target", pair->options->own_server ? "own" : "foreign", 1);
    add_places(pair, r);
    for (size_t i = 0; i < pair->arm->n_levels; i++) {
        const struct pqs_factor_level *l = &pair->arm->levels[i];
        char name[sizeof r->facts->name];
        snprintf(name, sizeof name, "asked.%s", l->factor);
        pqs_result_fact(r, PQS_CLIENT, name, l->level, 1);
    }
    add_facts(&pair->preflight, PQS_CLIENT, pair->options->workload->cohort_facts, r);
    add_facts(&pair->client_ready, PQS_CLIENT, plumbing, r);
    add_facts(&pair->client.hello, PQS_CLIENT, plumbing, r);
    add_facts(&pair->server_ready, PQS_SERVER, plumbing, r);
    add_facts(&pair->server.hello, PQS_SERVER, plumbing, r);
    for (size_t i = 0; i < pair->warmup.n_counters; i++) {
        const struct pqs_counter *c = &pair->warmup.counters[i];
        if (pqs_result_get(r, PQS_CLIENT, c->name, -1) < 0)
            pqs_result_count(r, PQS_CLIENT, c->name, c->value);
    }
    for (size_t i = 0; i < pair->preflight.n_hists; i++) {
        const struct pqs_hist_row *row = &pair->preflight.hists[i];
        if (row->class != PQS_CLASS_FIRST || pqs_result_hist_of(r, row->class, row->phase))
            continue;
        struct pqs_hist *copy = pqs_hist_new();
        pqs_hist_merge(copy, row->hist);
        pqs_result_hist(r, row->class, row->phase, copy);
    }
}

void pqs_pair_release(struct pqs_pair *pair) {
    pqs_worker_stop(&pair->client);
    pqs_worker_stop(&pair->server);
    pqs_spec_release(&pair->client_spec);
    pqs_spec_release(&pair->server_spec);
    pqs_result_release(&pair->client_ready);
    pqs_result_release(&pair->server_ready);
    pqs_result_release(&pair->preflight);
    pqs_result_release(&pair->warmup);
}
