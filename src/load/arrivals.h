/* The arrival schedule: every instant fixed before the window opens, so that no answer can delay a start (METHOD 2). */
#ifndef PQS_LOAD_ARRIVALS_H
#define PQS_LOAD_ARRIVALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "channel/spec.h"

#define PQS_ARRIVALS_MAX 50000000u /* per trial: 400 MB of schedule */

/* Instants in ns since the start of the window, ascending, all below duration_ns.
 *   constant: i / rate, i = 0, 1, ...
 *   poisson:  sums of independent exponential gaps of mean 1 / rate, from (seed, purpose, block)
 * The same for every arm of a block. purpose: "arrivals" or "warm-up". *ret_ns is freed by the caller; *ret_n may be 0.
 * PQS_E_USAGE: more than PQS_ARRIVALS_MAX. */
PQS_MUST_CHECK int pqs_arrivals_make(const struct pqs_schedule *s, const char *purpose, int64_t duration_ns,
                                     uint64_t **ret_ns, size_t *ret_n, struct pqs_err *err);

#endif
