/* The rows of the quantile rule. Must not know: what is measured. */
#include "stats/quantile.h"

#include <math.h>
#include <string.h>

#include "stats/hist.h"

/* clang-format off */
const struct pqs_quantile pqs_quantiles[] = {
    {"p50", "p50", 0.50, 20},
    {"p75", "p75", 0.75, 40},
    {"p90", "p90", 0.90, 100},
    {"p95", "p95", 0.95, 200},
    {"p99", "p99", 0.99, 1000},
    {"p999", "p99.9", 0.999, 10000},
    {NULL, NULL, 0, 0},
};
/* clang-format on */

const struct pqs_quantile *pqs_quantile_find(const char *id) {
    for (const struct pqs_quantile *row = pqs_quantiles; row->id; row++)
        if (strcmp(row->id, id) == 0)
            return row;
    return NULL;
}

double pqs_quantile_of(const struct pqs_hist *h, const struct pqs_quantile *quantile) {
    return pqs_hist_n(h) < quantile->min_n ? NAN : pqs_hist_quantile(h, quantile->q);
}
