/* pqshake speed: what the primitives cost by themselves, the floor under every handshake. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cmd.h"
#include "render.h"
#include "run/worker.h"

#define MAX_ALGORITHMS 64
#define SILENCE_NS (300 * PQS_NS_PER_S) /* the slowest operation, twenty times, on a slow machine */
#define WAITING_PERCENT 5               /* of the time without a CPU: from here on it is said */

struct speed {
    const char *json, *stack;
    int64_t duration_ns;
};

#define ROW(field_, ...)                                                                                                    \
    { .offset = offsetof(struct speed, field_), __VA_ARGS__ }
static const struct pqs_opt options[] = {
    ROW(duration_ns, .name = "duration", .arg = "TIME", .type = PQS_OPT_DURATION, .def = "200ms", .min = 1e6, .max = 600e9,
        .help = "how long each operation is repeated, at least 20 times, after a tenth of that as warm-up"),
    ROW(stack, .name = "stack", .arg = "LIST", .type = PQS_OPT_STRING, .def = "openssl",
        .help = "libraries to time, one after the other, of openssl and aws-lc"),
    ROW(json, .name = "json", .arg = "FILE", .type = PQS_OPT_STRING,
        .help = "write everything as JSON; - is standard output, instead of the text"),
    {.name = NULL},
};

/* The rows so far: a worker's result, and how the last one is shown. */
struct table {
    struct pqs_result all; /* counters "<algorithm>.<operation>.<what>", facts "missing" and those of the worker */
    bool print;
    char algorithm[64];
    const struct pqs_worker *worker;
    bool has_head;
    bool waited; /* some operation did not have the CPU for long enough to say so */
};

static const char *const columns[] = {"min_ns", "p50_ns", "p99_ns", "max_ns"};

/* A time in us with three significant digits, or more where it has them before the point. */
static void print_us(int64_t ns) {
    double us = (double)ns / 1000;
    printf("  %10.*f", us < 10 ? 2 : us < 100 ? 1 : 0, us);
}

/* -1 when the operation has no such counter. */
static int64_t value_of(const struct pqs_result *r, const char *key, const char *what) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", key, what);
    return pqs_result_get(r, PQS_CLIENT, name, -1);
}

static double per_second(int64_t mean_ns) {
    return mean_ns > 0 ? (double)PQS_NS_PER_S / (double)mean_ns : NAN;
}

static double waiting_percent(const struct pqs_result *r, const char *key) {
    int64_t wall_ns = value_of(r, key, "wall_ns"), cpu_ns = value_of(r, key, "cpu_ns");
    return wall_ns > 0 && cpu_ns <= wall_ns ? 100 * (1 - (double)cpu_ns / (double)wall_ns) : 0;
}

/* "<algorithm>.<operation>" of a counter that is an operation's first ("...n"); false for the others. */
static bool is_operation(const struct pqs_counter *counter, char ret_key[static 64]) {
    size_t len = strlen(counter->name);
    if (len < 3 || strcmp(counter->name + len - 2, ".n") != 0)
        return false;
    snprintf(ret_key, 64, "%.*s", (int)(len - 2), counter->name);
    return true;
}

static void print_row(struct table *t, const struct pqs_result *r, const char *key) {
    const char *operation = strrchr(key, '.') + 1;
    char algorithm[64];
    snprintf(algorithm, sizeof algorithm, "%.*s", (int)(operation - 1 - key), key);
    printf("%-18s  %-11s", strcmp(algorithm, t->algorithm) == 0 ? "" : algorithm, operation);
    snprintf(t->algorithm, sizeof t->algorithm, "%s", algorithm);
    for (size_t i = 0; i < PQS_COUNT(columns); i++) {
        int64_t ns = value_of(r, key, columns[i]);
        if (ns < 0)
            printf("  %10s", "-");
        else
            print_us(ns);
    }
    printf("  %9.0f  %7lld%s\n", per_second(value_of(r, key, "mean_ns")), (long long)value_of(r, key, "n"),
           waiting_percent(r, key) >= WAITING_PERCENT ? "  *" : "");
    fflush(stdout);
}

static void print_head(const struct pqs_worker *w) {
    const char *version = pqs_result_fact_of(&w->hello, PQS_SERVER, "library_version", NULL);
    printf("%s, one call at a time on one CPU; us\n%-18s  %-11s", version ? version : "unknown library", "", "");
    printf("  %10s  %10s  %10s  %10s  %9s  %7s\n", "min", "p50", "p99", "max", "per s", "n");
}

static int on_progress(void *context, enum pqs_message type, const struct pqs_buf *payload, struct pqs_err *err) {
    struct table *t = context;
    struct pqs_result r = {0};
    char key[64];
    if (t->print && !t->has_head && type == PQS_MSG_PROGRESS)
        print_head(t->worker);
    t->has_head = true;
    if (type != PQS_MSG_PROGRESS)
        return pqs_fail(err, PQS_E_FAILED, "the primitives worker sent '%s' instead of figures", pqs_message_name(type));
    int rc = pqs_result_decode(payload->data, payload->len, &r, err);
    if (rc == 0)
        rc = pqs_result_decode(payload->data, payload->len, &t->all, err);
    const char *missing = pqs_result_fact_of(&r, PQS_CLIENT, "missing", NULL);
    if (rc == 0 && t->print && missing)
        printf("%-18s  this library does not have it\n", missing);
    for (size_t i = 0; rc == 0 && i < r.n_counters; i++)
        if (is_operation(&r.counters[i], key)) {
            t->waited |= waiting_percent(&r, key) >= WAITING_PERCENT;
            if (t->print)
                print_row(t, &r, key);
        }
    pqs_result_release(&r);
    return rc;
}

static void write_stack(struct pqs_json *j, const struct pqs_result *r) {
    char key[64];
    pqs_json_object(j, NULL);
    pqs_json_str(j, "stack", pqs_result_fact_of(r, PQS_CLIENT, "stack", NULL));
    pqs_json_array(j, "operations");
    for (size_t i = 0; i < r->n_counters; i++) {
        if (!is_operation(&r->counters[i], key))
            continue;
        static const char *const whats[] = {"min_ns", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"};
        char *dot = strrchr(key, '.');
        pqs_json_object(j, NULL);
        *dot = '\0';
        pqs_json_str(j, "algorithm", key);
        pqs_json_str(j, "operation", dot + 1);
        *dot = '.';
        pqs_json_int(j, "n", r->counters[i].value);
        for (size_t w = 0; w < PQS_COUNT(whats); w++) {
            int64_t ns = value_of(r, key, whats[w]);
            pqs_json_num(j, whats[w], ns < 0 ? NAN : (double)ns);
        }
        pqs_json_num(j, "per_s", per_second(value_of(r, key, "mean_ns")));
        pqs_json_num(j, "waiting_percent", waiting_percent(r, key));
        pqs_json_end_object(j);
    }
    pqs_json_end_array(j);
    pqs_json_array(j, "missing");
    for (size_t i = 0; i < r->n_facts; i++)
        if (strcmp(r->facts[i].name, "missing") == 0)
            pqs_json_str(j, NULL, r->facts[i].value);
    pqs_json_end_array(j);
    pqs_json_object(j, "facts");
    for (size_t i = 0; i < r->n_facts; i++)
        if (strcmp(r->facts[i].name, "missing") != 0)
            pqs_json_str(j, r->facts[i].name, r->facts[i].value);
    pqs_json_end_object(j);
    pqs_json_end_object(j);
}

static int measure(const struct pqs_call *call, const char *stack, struct table *t, struct pqs_err *err) {
    const struct speed *o = call->options;
    PQS_WORKER w = {0};
    PQS_BUF list = {0};
    struct pqs_spec spec = {0};
    char ignored[PQS_CPU_LIST_MAX], duration[24];
    for (size_t i = 0; i < call->n_args; i++)
        pqs_buf_addf(&list, "%s%s", i ? "," : "", call->args[i]);
    int rc = pqs_worker_start(stack, "primitives", &w, err);
    if (rc)
        return rc;
    snprintf(duration, sizeof duration, "%lld", (long long)o->duration_ns);
    spec.schedule.threads = 1;
    pqs_cpu_split(spec.cpus, ignored);
    pqs_spec_set(&spec, "algorithms", call->n_args ? pqs_buf_text(&list) : NULL);
    pqs_spec_set(&spec, "duration_ns", duration);
    t->worker = &w;
    /* One CPU, so that the scheduler has nowhere to move it to. */
    spec.cpus[strcspn(spec.cpus, ",-")] = '\0';
    const struct pqs_waiting waiting = {
        .on_message = on_progress, .context = t, .silence_ns = SILENCE_NS + 2 * o->duration_ns};
    rc = pqs_worker_ask(&w, PQS_MSG_CONFIGURE, &spec, PQS_MSG_DONE, INT64_MAX, &waiting, NULL, err);
    pqs_spec_release(&spec);
    return rc;
}

static int run_stacks(const struct pqs_call *call, char **stacks, size_t n, struct pqs_err *err) {
    const struct speed *o = call->options;
    bool print = !o->json || strcmp(o->json, "-") != 0, waited = false;
    PQS_BUF out = {0};
    struct pqs_json json = pqs_json_begin(&out), *j = &json;
    pqs_json_object(j, NULL);
    pqs_json_str(j, "schema", "pqshake/speed/1");
    pqs_json_str(j, "version", PQSHAKE_VERSION);
    pqs_json_array(j, "stacks");
    int rc = 0;
    bool timed = false;
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct table t = {.print = print};
        if (print && i > 0)
            putchar('\n');
        rc = measure(call, stacks[i], &t, err);
        write_stack(j, &t.all);
        waited |= t.waited;
        timed |= t.all.n_counters > 0;
        pqs_result_release(&t.all);
    }
    pqs_json_end_array(j);
    pqs_json_end_object(j);
    pqs_buf_addf(&out, "\n");
    if (rc == 0 && waited && print)
        printf("* had no CPU for %d %% of the time or more: other work runs here; believe the minimum and the median\n",
               WAITING_PERCENT);
    if (rc == 0 && !timed)
        rc = pqs_fail(err, PQS_E_ENV, "nothing was timed: no library that was asked has any of these algorithms");
    if (rc || !o->json)
        return rc;
    if (print)
        return pqs_write_file(o->json, 0644, out.data, out.len, err);
    fwrite(out.data, 1, out.len, stdout);
    return 0;
}

static int run(const struct pqs_call *call, struct pqs_err *err) {
    const struct speed *o = call->options;
    char **stacks = NULL;
    size_t n = 0;
    int rc = pqs_check_out("json", o->json, err);
    if (rc == 0)
        rc = pqs_split_list("--stack", o->stack, MAX_ALGORITHMS, &stacks, &n, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        char path[PATH_MAX];
        rc = pqs_check_stack("--stack", stacks[i], err);
        for (size_t k = 0; k < i && rc == 0; k++)
            if (strcmp(stacks[k], stacks[i]) == 0)
                rc = pqs_fail(err, PQS_E_USAGE, "--stack: %s is given twice", stacks[i]);
        if (rc == 0) /* before minutes of the others are spent */
            rc = pqs_worker_find(stacks[i], path, sizeof path, err);
    }
    if (rc == 0)
        rc = run_stacks(call, stacks, n, err);
    pqs_free_list(stacks, n);
    return rc;
}

const struct pqs_command pqs_command_speed = {
    .name = "speed",
    .summary = "time the primitives by themselves: the floor under every handshake",
    .arguments = "[ALGORITHM...]",
    .about = "Times each operation (keygen, encapsulate, decapsulate, derive, sign, verify) of each ALGORITHM, or\n"
             "of all, one call at a time: minimum, median, p99, maximum and calls per second. \"key-schedule\" is\n"
             "every derivation of one TLS 1.3 handshake. 'pqshake list algorithms' shows the algorithms.",
    .example = "pqshake speed X25519 ML-KEM-768 ECDSA-P-256 ML-DSA-65",
    .options = options,
    .options_size = sizeof(struct speed),
    .max_args = MAX_ALGORITHMS,
    .run = run,
};
