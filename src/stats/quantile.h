/* Which quantiles are reported, and how many samples each needs (METHOD 13: p50 20, p75 40, p90 100, p95 200, p99 1,000,
 * p99.9 10,000: ten samples beyond it). */
#ifndef PQS_STATS_QUANTILE_H
#define PQS_STATS_QUANTILE_H

#include <stddef.h>
#include <stdint.h>

struct pqs_hist;

struct pqs_quantile {
    const char *id;    /* JSON key: "p50", ..., "p999" */
    const char *label; /* for people: "p99.9" */
    double q;
    uint64_t min_n;
};

extern const struct pqs_quantile pqs_quantiles[]; /* ascending, ends with id == NULL */

const struct pqs_quantile *pqs_quantile_find(const char *id); /* NULL when unknown */
/* NAN when n(h) < min_n. */
double pqs_quantile_of(const struct pqs_hist *h, const struct pqs_quantile *quantile);

#endif
