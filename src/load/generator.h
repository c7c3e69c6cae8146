/* The open-loop generator: starts connections at scheduled instants whatever the answers do, follows each with one state
 * machine, and gives back the cohort (METHOD 2-6, 11, 12). Knows no protocol (load/engine.h) and no report. */
#ifndef PQS_LOAD_GENERATOR_H
#define PQS_LOAD_GENERATOR_H

#include "base/err.h"
#include "channel/result.h"
#include "channel/spec.h"
#include "load/engine.h"

struct pqs_generator;

/* Called about twice a second from the thread that called pqs_generator_run. */
struct pqs_generator_progress {
    int64_t started, completed, failed;
    int64_t p50_ns, p99_ns; /* request so far, to a twelfth; 0: none yet */
};
typedef void pqs_generator_report(void *context, const struct pqs_generator_progress *p);

enum pqs_stage { PQS_STAGE_PREFLIGHT, PQS_STAGE_WARMUP, PQS_STAGE_WINDOW };

/* Resolves the target, checks descriptors and source ports against the schedule, makes one engine thread per generator
 * thread and starts them. Errors name the limit, what is needed and how to raise it (PQS_E_ENV), or the bad parameter. */
PQS_MUST_CHECK int pqs_generator_new(const struct pqs_spec *spec, const struct pqs_engine *engine,
                                     struct pqs_generator **ret_g, struct pqs_err *err);
void pqs_generator_free(struct pqs_generator *g); /* ends its threads; NULL is fine */

/* One stage, from its first arrival until its last connection has ended; adds its rows to *r.
 *   PREFLIGHT: one connection per thread, one after the other; class `first`, details. Fails (PQS_E_FAILED) with an
 *              explanation when one does.
 *   WARMUP:    counters warmup.*
 *   WINDOW:    the cohort: counters, facts, histograms and samples of docs/RESULTS.md. */
PQS_MUST_CHECK int pqs_generator_run(struct pqs_generator *g, enum pqs_stage stage, pqs_generator_report *report,
                                     void *context, struct pqs_result *r, struct pqs_err *err);

#endif
