/* Blocks, order, and what is kept of each trial. Must not know any one workload, nor how anything is shown. */
#include "run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run/interrupt.h"
#include "run/trial.h"
#include "verdict/verdict.h"

struct runner {
    const struct pqs_run_options *options;
    struct pqs_store *store;
    struct pqs_progress progress;
    int64_t trials_ns; /* time spent in trials so far */
    size_t n_stored;
};

/* Fails early on a place that cannot hold the run, but creates nothing: a failed preflight leaves no trace. */
static int check_out_dir(const char *dir, struct pqs_err *err) {
    if (!*dir)
        return pqs_fail(err, PQS_E_USAGE, "the results need a directory: --out is empty");
    PQS_FREE char *db = pqs_format("%s/run.db", dir);
    if (access(db, F_OK) == 0)
        return pqs_fail(err, PQS_E_USAGE, "%s already holds a run: choose another --out", dir);
    PQS_FREE char *place = pqs_strdup(dir);
    struct stat st = {0};
    while (stat(place, &st) < 0 && errno == ENOENT) { /* up to what exists */
        char *slash = strrchr(place, '/');
        if (slash && slash != place)
            *slash = '\0';
        else
            memcpy(place, slash ? "/" : ".", 2); /* fits: the path was not empty */
    }
    if (access(place, W_OK | X_OK))
        return pqs_fail_sys(err, PQS_E_USAGE, errno, "cannot write the results to %s: %s", dir, place);
    if (!S_ISDIR(st.st_mode))
        return pqs_fail(err, PQS_E_USAGE, "cannot write the results to %s: %s is not a directory", dir, place);
    return 0;
}

static int make_out_dir(const char *dir, struct pqs_err *err) {
    PQS_FREE char *path = pqs_strdup(dir);
    for (char *p = path + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;
        *p = '\0';
        if (mkdir(path, 0777) && errno != EEXIST)
            return pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot make the directory %s", path);
        if (end == '\0')
            return 0;
        *p = end;
    }
}

static void show(const struct runner *run) {
    if (run->options->progress)
        run->options->progress(run->options->progress_context, &run->progress);
}

static int preflight(struct runner *run, struct pqs_err *err) {
    const struct pqs_run_options *options = run->options;
    for (size_t i = 0; i < options->plan->n_arms; i++) {
        const struct pqs_arm *arm = &options->plan->arms[i];
        run->progress.stage = "preflight";
        run->progress.arm = arm;
        show(run);
        struct pqs_pair pair = {0};
        int rc = pqs_pair_prepare(&pair, options, arm, 0, err);
        pqs_pair_release(&pair);
        if (rc && err->sys == EINTR)
            return rc;
        if (rc)
            return pqs_context(err, "preflight of arm %s", arm->name);
    }
    return 0;
}

static void set_number(struct pqs_run *run, const char *name, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.17g", value);
    pqs_run_set(run, name, text);
}

static void set_count(struct pqs_run *run, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    pqs_run_set(run, name, text);
}

static int create_store(struct runner *run, struct pqs_err *err) {
    const struct pqs_run_options *options = run->options;
    const struct pqs_plan *plan = options->plan;
    const struct pqs_schedule *schedule = &plan->schedule;
    char utc[24];
    pqs_utc(utc);
    struct pqs_run rows = {.arms = plan->arms, .n_arms = plan->n_arms}; /* arms are the plan's */
    for (size_t i = 0; i < options->n_settings; i++)
        pqs_run_set(&rows, options->settings[i].name, options->settings[i].value);
    pqs_run_set(&rows, "workload", plan->workload);
    pqs_run_set(&rows, "started_utc", utc);
    pqs_run_set(&rows, "arrivals", pqs_arrivals_names[schedule->arrivals]);
    pqs_run_set(&rows, "baseline", plan->arms[plan->baseline].name);
    set_number(&rows, "rate_per_s", schedule->rate_per_s);
    set_count(&rows, "seed", schedule->seed);
    set_count(&rows, "blocks", plan->blocks);
    set_count(&rows, "warmup_ns", (uint64_t)schedule->warmup_ns);
    set_count(&rows, "duration_ns", (uint64_t)schedule->duration_ns);
    set_count(&rows, "timeout_ns", (uint64_t)schedule->timeout_ns);
    set_count(&rows, "threads", schedule->threads);
    int rc = make_out_dir(options->out_dir, err);
    if (rc == 0)
        rc = pqs_store_create(options->out_dir, &rows, &run->store, err);
    rows.arms = NULL;
    rows.n_arms = 0;
    pqs_run_release(&rows);
    return rc;
}

static int64_t estimate_end(const struct runner *run) {
    const struct pqs_schedule *schedule = &run->options->plan->schedule;
    const struct pqs_progress *p = &run->progress;
    int64_t each_ns =
        p->trials_done ? run->trials_ns / (int64_t)p->trials_done : schedule->warmup_ns + schedule->duration_ns;
    return pqs_now_ns() + each_ns * (int64_t)(p->trials_all - p->trials_done);
}

/* Measures one arm once and stores what came of it. Only a store that fails and a signal are errors here. */
static int run_trial(struct runner *run, uint32_t block, uint32_t position, size_t arm, struct pqs_err *err) {
    const struct pqs_run_options *options = run->options;
    struct pqs_trial trial = {.arm = (uint32_t)arm, .block = block, .position = position};
    pqs_utc(trial.started_utc);
    run->progress.stage = "preflight";
    run->progress.arm = &options->plan->arms[arm];
    run->progress.block = block;
    run->progress.end_ns = estimate_end(run);
    run->progress.p50_ns = run->progress.p99_ns = NAN;
    show(run);

    int64_t begin_ns = pqs_now_ns();
    struct pqs_pair pair = {0};
    int rc = pqs_pair_prepare(&pair, options, run->progress.arm, block, err);
    if (rc == 0)
        rc = pqs_pair_measure(&pair, &run->progress, &trial.result, err);
    pqs_pair_describe(&pair, &trial.result);
    pqs_pair_release(&pair);
    if (rc && err->sys == EINTR) {
        pqs_result_release(&trial.result);
        return rc;
    }
    if (rc) {
        /* Kept as what it is; its half of the block's pair is lost, and nothing is tried again (DESIGN, Processes). */
        trial.state = err->sys == EPIPE ? PQS_TRIAL_DIED : PQS_TRIAL_FAILED;
        snprintf(trial.note, sizeof trial.note, "%.*s", (int)sizeof trial.note - 1, err->msg);
        snprintf(trial.verdict, sizeof trial.verdict, "%s", pqs_severity_names[PQS_UNFIT]);
    } else {
        struct pqs_finding findings[PQS_FINDINGS_MAX];
        enum pqs_severity worst;
        pqs_verdict_judge(&trial.result, PQS_OF_TRIAL, findings, &worst);
        snprintf(trial.verdict, sizeof trial.verdict, "%s", pqs_severity_names[worst]);
    }
    rc = pqs_store_add_trial(run->store, &trial, err);
    pqs_result_release(&trial.result);
    if (rc)
        return rc;
    run->n_stored++;
    run->trials_ns += pqs_now_ns() - begin_ns;
    run->progress.trials_done++;
    return 0;
}

static int run_blocks(struct runner *run, struct pqs_err *err) {
    const struct pqs_plan *plan = run->options->plan;
    size_t order[PQS_ARMS_MAX];
    for (uint32_t block = 0; block < plan->blocks; block++) {
        pqs_plan_order(plan, block, order);
        for (uint32_t i = 0; i < plan->n_arms; i++) {
            int rc = run_trial(run, block, i, order[i], err);
            if (rc)
                return rc;
        }
    }
    return 0;
}

static int run_and_store(struct runner *run, struct pqs_err *err) {
    int rc = preflight(run, err);
    if (rc == 0)
        rc = create_store(run, err);
    if (rc == 0)
        rc = pqs_store_add_event(run->store, "start", "", err);
    if (rc)
        return rc;
    rc = run_blocks(run, err);
    char text[128];
    snprintf(text, sizeof text, "%zu of %zu trials stored", run->n_stored, run->progress.trials_all);
    if (rc == 0)
        return pqs_store_add_event(run->store, "end", text, err);
    struct pqs_err second; /* the first one is what is reported */
    if (err->sys == EINTR && pqs_store_add_event(run->store, "interrupted", text, &second) < 0)
        return pqs_context(err, "%s", second.msg);
    return pqs_context(err, "%s", text);
}

int pqs_run(const struct pqs_run_options *options, size_t *ret_stored, struct pqs_err *err) {
    const struct pqs_plan *plan = options->plan;
    struct pqs_err local;
    err = err ? err : &local;
    *ret_stored = 0;
    int rc = check_out_dir(options->out_dir, err);
    if (rc)
        return rc;
    struct runner run = {
        .options = options,
        .progress = {.trials_all = plan->n_arms * plan->blocks, .p50_ns = NAN, .p99_ns = NAN},
    };
    run.progress.end_ns = estimate_end(&run);
    pqs_interrupt_catch();
    rc = run_and_store(&run, err);
    pqs_store_close(run.store);
    *ret_stored = run.n_stored;
    return rc;
}
