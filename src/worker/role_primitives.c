/* Role primitives: how long each operation of each algorithm takes by itself, one call at a time. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/opt.h"
#include "crypto/algorithm.h"
#include "crypto/library.h"
#include "role.h"
#include "stats/hist.h"
#include "stats/quantile.h"

#define DURATION_NS (200 * PQS_NS_PER_MS)
#define MAX_DURATION_NS (3600 * PQS_NS_PER_S)
#define MIN_REPETITIONS 20 /* what a median needs, however slow the operation */
#define WARMUP_PART 10     /* of the duration: caches, branch predictors, the CPU's frequency */

static const char *const params[] = {"algorithms", "duration_ns", NULL};

/* Calls the operation for at least duration_ns and min_n times; h gets each call's time, NULL: nobody does. */
static int repeat(struct pqs_exercise *x, enum pqs_operation operation, int64_t duration_ns, unsigned min_n,
                  struct pqs_hist *h, struct pqs_err *err) {
    int64_t before = pqs_now_ns(), end = before + duration_ns;
    for (unsigned n = 0; n < min_n || before < end; n++) {
        int rc = pqs_exercise_run(x, operation, err);
        int64_t after = pqs_now_ns();
        if (rc)
            return rc;
        if (h)
            pqs_hist_add(h, after - before);
        before = pqs_now_ns(); /* what recording costs is not the next call's */
    }
    return 0;
}

static void count(struct pqs_result *r, const char *algorithm, enum pqs_operation operation, const char *what,
                  double value) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s.%s", algorithm, pqs_operation_names[operation], what);
    if (value == value) /* a quantile without enough samples has no row */
        pqs_result_count(r, PQS_CLIENT, name, (int64_t)(value + 0.5));
}

static int time_operation(const struct pqs_algorithm *a, struct pqs_exercise *x, enum pqs_operation operation,
                          int64_t duration_ns, struct pqs_result *r, struct pqs_err *err) {
    struct pqs_hist *h = pqs_hist_new();
    int rc = repeat(x, operation, duration_ns / WARMUP_PART, 1, NULL, err);
    int64_t wall_ns = pqs_now_ns(), cpu_ns = pqs_thread_cpu_ns();
    if (rc == 0)
        rc = repeat(x, operation, duration_ns, MIN_REPETITIONS, h, err);
    if (rc == 0) {
        count(r, a->name, operation, "cpu_ns", (double)(pqs_thread_cpu_ns() - cpu_ns));
        count(r, a->name, operation, "wall_ns", (double)(pqs_now_ns() - wall_ns));
        count(r, a->name, operation, "n", (double)pqs_hist_n(h));
        count(r, a->name, operation, "min_ns", (double)pqs_hist_min(h));
        count(r, a->name, operation, "mean_ns", pqs_hist_mean(h));
        count(r, a->name, operation, "max_ns", (double)pqs_hist_max(h));
        for (const struct pqs_quantile *q = pqs_quantiles; q->id; q++) {
            char what[16];
            snprintf(what, sizeof what, "%s_ns", q->id);
            count(r, a->name, operation, what, pqs_quantile_of(h, q));
        }
    }
    pqs_hist_free(h);
    return rc;
}

/* One PROGRESS an operation; an algorithm that the library lacks is one with the fact "missing". */
static int time_algorithm(struct pqs_channel *channel, const struct pqs_algorithm *a, int64_t duration_ns,
                          struct pqs_err *err) {
    struct pqs_exercise *x = NULL;
    int rc = pqs_exercise_new(a, &x, err);
    if (rc == PQS_E_ENV) {
        struct pqs_result r = {0};
        pqs_result_fact(&r, PQS_CLIENT, "missing", a->name, 1);
        rc = pqs_channel_send_result(channel, PQS_MSG_PROGRESS, &r, err);
        pqs_result_release(&r);
        return rc;
    }
    for (enum pqs_operation op = 0; rc == 0 && op < PQS_OPERATIONS; op++) {
        if (!pqs_algorithm_has(a, op))
            continue;
        struct pqs_result r = {0};
        rc = time_operation(a, x, op, duration_ns, &r, err);
        if (rc == 0)
            rc = pqs_channel_send_result(channel, PQS_MSG_PROGRESS, &r, err);
        pqs_result_release(&r);
    }
    pqs_exercise_free(x);
    return rc;
}

/* The rows of the table that are asked for, in the table's order; no list: all. */
static int choose(const char *list, bool *ret_chosen, struct pqs_err *err) {
    size_t n, n_rows;
    char **names = NULL;
    const struct pqs_algorithm *rows = pqs_algorithms(&n_rows);
    for (size_t i = 0; i < n_rows; i++)
        ret_chosen[i] = !list;
    int rc = list ? pqs_split_list("algorithms", list, n_rows, &names, &n, err) : 0;
    for (size_t i = 0; rc == 0 && list && i < n; i++) {
        const struct pqs_algorithm *a = pqs_algorithm_find(names[i]);
        if (a)
            ret_chosen[a - rows] = true;
        else
            rc = pqs_fail(err, PQS_E_USAGE, "no algorithm \"%s\": 'pqshake list algorithms' shows them", names[i]);
    }
    if (names)
        pqs_free_list(names, n);
    return rc;
}

static int run_primitives(struct pqs_channel *channel, const struct pqs_spec *spec, struct pqs_err *err) {
    uint64_t duration_ns;
    size_t n;
    const struct pqs_algorithm *rows = pqs_algorithms(&n);
    PQS_FREE bool *chosen = pqs_calloc(n, sizeof *chosen);
    struct pqs_result r = {0};
    int rc = pqs_param_number(spec, "duration_ns", 1, MAX_DURATION_NS, DURATION_NS, &duration_ns, err);
    if (rc == 0)
        rc = choose(pqs_spec_get(spec, "algorithms"), chosen, err);
    pqs_worker_facts(PQS_CLIENT, spec, &r);
    if (rc == 0)
        rc = pqs_channel_send_result(channel, PQS_MSG_PROGRESS, &r, err);
    pqs_result_release(&r);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (chosen[i])
            rc = time_algorithm(channel, &rows[i], (int64_t)duration_ns, err);
    return rc ? rc : pqs_channel_send_result(channel, PQS_MSG_DONE, &r, err);
}

const struct pqs_role pqs_role_primitives = {"primitives", params, run_primitives};
