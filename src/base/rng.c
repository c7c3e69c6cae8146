/* Counter-based random streams. Must not know: what the values decide. */
#include "base/rng.h"

#define GAMMA UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / golden ratio, odd: the step of SplitMix64 */

/* The finaliser of SplitMix64: a bijection of 64 bits in which every input bit flips every output bit about half the time.
 */
static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t absorb(uint64_t hash, uint64_t value) {
    return mix((hash ^ value) + GAMMA);
}

struct pqs_rng pqs_rng_stream(uint64_t seed, const char *purpose, uint64_t block, uint64_t thread) {
    uint64_t key = absorb(0, seed);
    for (const char *c = purpose; *c; c++)
        key = absorb(key, (unsigned char)*c);
    key = absorb(key, 0); /* ends the text, so that no purpose is another one's prefix */
    key = absorb(key, block);
    key = absorb(key, thread);
    return (struct pqs_rng){.key = key};
}

/* Value i is exactly the i-th output of a SplitMix64 generator seeded with the key. */
uint64_t pqs_rng_next(struct pqs_rng *rng) {
    rng->counter++;
    return mix(rng->key + rng->counter * GAMMA);
}

double pqs_rng_unit(struct pqs_rng *rng) {
    return (double)(pqs_rng_next(rng) >> 11) * 0x1p-53;
}

/* 2^64 mod n values are rejected, so that every remainder is left with equally many. */
uint64_t pqs_rng_below(struct pqs_rng *rng, uint64_t n) {
    uint64_t excess = (0 - n) % n;
    uint64_t value = pqs_rng_next(rng);
    while (value < excess)
        value = pqs_rng_next(rng);
    return value % n;
}
