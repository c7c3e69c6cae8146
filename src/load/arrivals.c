/* Constant and Poisson arrivals. See arrivals.h. */
#include "load/arrivals.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

int pqs_arrivals_make(const struct pqs_schedule *s, const char *purpose, int64_t duration_ns, uint64_t **ret_ns,
                      size_t *ret_n, struct pqs_err *err) {
    const double expected = s->rate_per_s * (double)duration_ns / (double)PQS_NS_PER_S;
    if (!(s->rate_per_s > 0))
        return pqs_fail(err, PQS_E_USAGE, "a rate of %g connections/s cannot be scheduled; it must be above 0",
                        s->rate_per_s);
    if (expected > PQS_ARRIVALS_MAX)
        return pqs_fail(err, PQS_E_USAGE, "%g connections/s for %g s are %.0f arrivals; at most %u can be scheduled",
                        s->rate_per_s, (double)duration_ns / (double)PQS_NS_PER_S, expected, PQS_ARRIVALS_MAX);
    const double gap_ns = (double)PQS_NS_PER_S / s->rate_per_s;
    struct pqs_rng rng = pqs_rng_stream(s->seed, purpose, s->block, 0);
    size_t n = 0;
    /* Poisson: six standard deviations of room, then growth. */
    size_t cap = (size_t)(expected + 6 * sqrt(expected)) + 16;
    uint64_t *at = pqs_calloc(cap, sizeof *at);
    double t = s->arrivals == PQS_ARRIVALS_CONSTANT ? 0 : -gap_ns * log1p(-pqs_rng_unit(&rng));
    while (t < (double)duration_ns) {
        PQS_GROW(at, n, cap);
        at[n++] = (uint64_t)t;
        /* i / rate and not a running sum or a multiple of a rounded gap: i * 10^9 is exact in a double up to i = 2^53 / 5^9,
         * so an instant that is a whole number of ns comes out as that number, and the end of the window stays outside */
        t = s->arrivals == PQS_ARRIVALS_CONSTANT ? (double)n * (double)PQS_NS_PER_S / s->rate_per_s
                                                 : t - gap_ns * log1p(-pqs_rng_unit(&rng));
    }
    *ret_ns = at;
    *ret_n = n;
    return 0;
}
