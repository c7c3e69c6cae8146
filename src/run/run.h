/* The runner: takes a plan through preflights, blocks and trials, and leaves a run in DIR/run.db. Every command that
 * measures uses it; there is no second path. Must not know how results are rendered. */
#ifndef PQS_RUN_RUN_H
#define PQS_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "channel/result.h"
#include "plan/plan.h"
#include "run/worker.h"
#include "store/store.h"

/* Factors that the runner itself applies: which stack's worker is started for a side. */
#define PQS_FACTOR_CLIENT_STACK "client-stack"
#define PQS_FACTOR_SERVER_STACK "server-stack"

/* What a workload contributes: how the levels of an arm become parameters of its workers, and what its preflight must show.
 */
struct pqs_workload {
    const char *name;
    /* Fills both specs (already holding plan->common and the schedule) for one arm. server is NULL with a foreign target. */
    PQS_MUST_CHECK int (*apply)(const struct pqs_arm *arm, void *context, struct pqs_spec *client, struct pqs_spec *server,
                                struct pqs_err *err);
    /* Whether the preflight handshakes were what the arm asked for (METHOD 7). */
    PQS_MUST_CHECK int (*check)(const struct pqs_spec *client, const struct pqs_result *preflight, struct pqs_err *err);
    /* A preflight failed: adds lines to what err says already: what each side offered, what the server counted, what to try.
     * server_facts and server_counts are NULL with a foreign target. */
    void (*explain)(const struct pqs_spec *client, const struct pqs_result *server_facts,
                    const struct pqs_result *server_counts, struct pqs_err *err);
    const char *const *cohort_facts; /* facts counted per connection of the window; the preflight's do not enter a trial */
};

/* For the live line; all counts are of the trial that runs. */
struct pqs_progress {
    const char *stage; /* "preflight", "warm-up", "measuring" */
    const struct pqs_arm *arm;
    uint32_t block;
    size_t trials_done, trials_all;
    int64_t started, completed, failed;
    int64_t end_ns;        /* estimated end of the whole run, pqs_now_ns() time */
    double p50_ns, p99_ns; /* of its requests so far, coarsely; NAN before the first */
};

struct pqs_run_options {
    const struct pqs_plan *plan;
    const struct pqs_workload *workload;
    void *context;                                 /* for workload->apply */
    bool own_server;                               /* start a server worker for every trial */
    const struct pqs_via *client_via, *server_via; /* how the workers are reached; NULL: they run here */
    pid_t target_pid;                              /* of a foreign server on this machine, whose CPU is read; 0: unknown */
    const char *out_dir;                           /* created if missing, after the preflights */
    const struct pqs_setting *settings;            /* rows for table run; the runner adds those of the plan */
    size_t n_settings;
    void (*progress)(void *context, const struct pqs_progress *p); /* NULL: none */
    void *progress_context;
};

/* Runs the plan. 0: every planned trial was tried (its data may still be unfit: ask the report). PQS_E_FAILED: a preflight
 * failed (before the first trial; nothing is written) or the run could not go on; PQS_E_ENV: no worker, and so on. SIGINT
 * and SIGTERM end the trial that runs, keep the finished ones and return PQS_E_FAILED with sys = EINTR. *ret_stored, always
 * set: trials in out_dir's run.db; 0 also when there is no run.db. */
PQS_MUST_CHECK int pqs_run(const struct pqs_run_options *options, size_t *ret_stored, struct pqs_err *err);

#endif
