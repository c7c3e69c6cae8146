/* Counter-based randomness: value i of a stream is a hash of (seed, purpose, block, thread, i), so that nothing has to be
 * replayed when a run is continued, and no stream depends on how many values another one drew.
 * Source: SplitMix64 finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
#ifndef PQS_BASE_RNG_H
#define PQS_BASE_RNG_H

#include <stdint.h>

struct pqs_rng {
    uint64_t key;
    uint64_t counter; /* next value's index */
};

/* purpose: a short constant string such as "order" or "arrivals". */
struct pqs_rng pqs_rng_stream(uint64_t seed, const char *purpose, uint64_t block, uint64_t thread);
uint64_t pqs_rng_next(struct pqs_rng *rng);
double pqs_rng_unit(struct pqs_rng *rng);                /* [0, 1), 53 bits */
uint64_t pqs_rng_below(struct pqs_rng *rng, uint64_t n); /* [0, n), unbiased; n > 0 */

#endif
