/* One trial: a fresh client worker, a fresh server worker unless the target is foreign, and the stages between them. Inside
 * src/run only. */
#ifndef PQS_RUN_TRIAL_H
#define PQS_RUN_TRIAL_H

#include "base/process.h"
#include "run/run.h"
#include "run/worker.h"

/* The workers and what they said, stage by stage. Zero-initialise. */
struct pqs_pair {
    const struct pqs_run_options *options;
    const struct pqs_arm *arm;
    struct pqs_worker client, server; /* server: never started with a foreign target */
    struct pqs_spec client_spec, server_spec;
    struct pqs_result client_ready, server_ready, preflight, warmup;
    struct pqs_process_tree target; /* a foreign server's processes before the preflight, when their CPU is read */
};

/* Starts and configures the workers and makes the preflight handshakes. A failed preflight is explained in err. */
PQS_MUST_CHECK int pqs_pair_prepare(struct pqs_pair *pair, const struct pqs_run_options *options, const struct pqs_arm *arm,
                                    uint32_t block, struct pqs_err *err);
/* Warm-up, window and drain of a prepared pair, then the server's orderly end. *ret_r gets the window's rows and samples.
 * progress (stage and counts are kept up to date) is reported through the options. */
PQS_MUST_CHECK int pqs_pair_measure(struct pqs_pair *pair, struct pqs_progress *progress, struct pqs_result *ret_r,
                                    struct pqs_err *err);
/* Adds what is known from the stages before the window to a trial's result: facts of both sides, warm-up, first handshakes.
 */
void pqs_pair_describe(const struct pqs_pair *pair, struct pqs_result *r);
/* Ends both workers. */
void pqs_pair_release(struct pqs_pair *pair);

#endif
