/* Paired comparison, Student's t and the few summaries they need. Must not know: what the figures are, or what a block is.
 */
#include "stats/compare.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"

#define EXACT_PAIRS_MAX 16
#define SAMPLED_FLIPS 20000
#define P_FLOOR_MAX 0.05

double pqs_mean(const double *x, size_t n) {
    if (n == 0)
        return NAN;
    /* Relative to the first value: equal values then have exactly that mean, and a deviation of exactly zero. */
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] - x[0];
    return x[0] + sum / (double)n;
}

double pqs_sd(const double *x, size_t n) {
    if (n < 2)
        return NAN;
    double mean = pqs_mean(x, n), sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sqrt(sum / (double)(n - 1));
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double pqs_median(const double *x, size_t n) {
    PQS_FREE double *sorted = pqs_calloc(n, sizeof *sorted);
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return NAN; /* has no place in an order */
        sorted[i] = x[i];
    }
    if (n == 0)
        return NAN;
    qsort(sorted, n, sizeof *sorted, ascending);
    return n % 2 ? sorted[n / 2] : sorted[n / 2 - 1] / 2 + sorted[n / 2] / 2;
}

/* Regularised incomplete beta function I_x(a, b), y = 1 - x given apart so that it keeps its digits. Continued fraction DLMF
 * 8.17.22, evaluated forwards (Lentz); converges fast for x < (a + 1) / (a + b + 2). */
static long double incomplete_beta(long double a, long double b, long double x, long double y) {
    long double fraction = 1, c = 1, d = 0;
    for (int j = 1; j < 1000000; j++) {
        long double m = j / 2; /* NOLINT(bugprone-integer-division): j = 2 m or 2 m + 1 */
        long double top = j % 2 ? -(a + m) * (a + b + m) : m * (b - m);
        long double term = top * x / ((a + (long double)j - 1) * (a + (long double)j));
        d = 1 / (1 + term * d);
        c = 1 + term / c;
        fraction *= c * d;
        if (fabsl(c * d - 1) <= 2 * LDBL_EPSILON)
            break;
    }
    return expl(a * logl(x) + b * logl(y) + lgammal(a + b) - lgammal(a) - lgammal(b)) / (a * fraction);
}

/* P(T > t), t > 0 (DLMF 8.17.5 and the usual substitution x = df / (df + t^2)). Small tails keep their relative precision.
 */
static long double upper_tail(long double t, long double df) {
    long double x = df / (df + t * t), y = t * t / (df + t * t);
    if (x < (df + 2) / (df + 5))
        return incomplete_beta(df / 2, 0.5L, x, y) / 2;
    return (1 - incomplete_beta(0.5L, df / 2, y, x)) / 2;
}

double pqs_t_quantile(double p, double df) {
    if (!(p > 0 && p < 1 && df >= 1 && df <= 1e6))
        return NAN;
    if (p == 0.5)
        return 0;
    long double tail = p < 0.5 ? p : 1 - (long double)p;
    long double low = 0, high = 1;
    while (upper_tail(high, df) > tail) {
        low = high;
        high *= 2;
    }
    while (high - low > LDBL_EPSILON * high) { /* bisection: a few dozen steps, and nothing that can go astray */
        long double middle = low + (high - low) / 2;
        if (upper_tail(middle, df) > tail)
            low = middle;
        else
            high = middle;
    }
    return (double)(p < 0.5 ? -high : high);
}

struct pqs_trend pqs_trend(const double *x, const double *y, size_t n) {
    double mean_x = pqs_mean(x, n), mean_y = pqs_mean(y, n), xx = 0, xy = 0, rest = 0;
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    if (n < 3 || !(xx > 0))
        return (struct pqs_trend){NAN, NAN};
    double slope = xy / xx;
    for (size_t i = 0; i < n; i++) {
        double r = y[i] - mean_y - slope * (x[i] - mean_x);
        rest += r * r;
    }
    double t = fabs(slope) / sqrt(rest / (double)(n - 2) / xx);
    double p = slope == 0 ? 1 : isinf(t) ? 0 : (double)(2 * upper_tail(t, (long double)(n - 2)));
    return (struct pqs_trend){slope, p};
}

double pqs_furthest(const double *x, size_t n, size_t *ret_index) {
    PQS_FREE double *away = pqs_calloc(n + 1, sizeof *away);
    double median = pqs_median(x, n);
    *ret_index = 0;
    for (size_t i = 0; i < n; i++) {
        away[i] = fabs(x[i] - median);
        *ret_index = away[i] > away[*ret_index] ? i : *ret_index;
    }
    double deviation = 1.4826 * pqs_median(away, n);
    return n >= 3 && deviation > 0 ? away[*ret_index] / deviation : NAN;
}

/* How many sign flips of d have a sum at least as far from zero as the sum of d: of all flips numbered below `flips`, or
 * with rng of that many drawn ones. */
static uint64_t count_extreme(const double *d, size_t n, uint64_t flips, struct pqs_rng *rng) {
    double sum = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        sum += d[i];
        size += fabs(d[i]);
    }
    double limit = fabs(sum) - 1e-12 * size; /* equal sums differ by rounding when their signs do */
    uint64_t hits = 0;
    for (uint64_t flip = 0; flip < flips; flip++) {
        uint64_t signs = flip;
        double flipped = 0;
        for (size_t i = 0; i < n; i++) {
            if (rng && i % 64 == 0)
                signs = pqs_rng_next(rng);
            flipped += signs >> (i % 64) & 1 ? -d[i] : d[i];
        }
        hits += fabs(flipped) >= limit;
    }
    return hits;
}

static double permutation_p(const double *d, size_t n, uint64_t seed) {
    if (n == 0 || exp2(1 - (double)n) > P_FLOOR_MAX)
        return NAN; /* could not be significant whatever the data */
    if (n <= EXACT_PAIRS_MAX) {
        uint64_t flips = UINT64_C(1) << n;
        return (double)count_extreme(d, n, flips, NULL) / (double)flips;
    }
    struct pqs_rng rng = pqs_rng_stream(seed, "permutation", 0, 0);
    return (1 + (double)count_extreme(d, n, SAMPLED_FLIPS, &rng)) / (1 + SAMPLED_FLIPS);
}

void pqs_compare(const double *baseline, const double *arm, size_t n, uint64_t seed, struct pqs_paired *ret) {
    PQS_FREE double *delta = pqs_calloc(n, sizeof *delta);
    PQS_FREE double *log_ratio = pqs_calloc(n, sizeof *log_ratio);
    size_t pairs = 0;
    bool all_positive = true;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(baseline[i]) || !isfinite(arm[i]))
            continue;
        delta[pairs] = arm[i] - baseline[i];
        if (baseline[i] > 0 && arm[i] > 0)
            log_ratio[pairs] = log(arm[i] / baseline[i]);
        else
            all_positive = false;
        pairs++;
    }
    *ret = (struct pqs_paired){
        .n = pairs,
        .delta = pqs_mean(delta, pairs),
        .delta_lo = NAN,
        .delta_hi = NAN,
        .ratio = all_positive ? exp(pqs_mean(log_ratio, pairs)) : NAN,
        .ratio_lo = NAN,
        .ratio_hi = NAN,
        .p_value = permutation_p(delta, pairs, seed),
        .detectable = NAN,
    };
    if (pairs < PQS_MIN_BLOCKS)
        return;

    double df = (double)(pairs - 1), t = pqs_t_quantile(0.975, df);
    double error = pqs_sd(delta, pairs) / sqrt((double)pairs);
    ret->delta_lo = ret->delta - t * error;
    ret->delta_hi = ret->delta + t * error;
    ret->detectable = (t + pqs_t_quantile(0.80, df)) * error;
    ret->differs = ret->delta_lo > 0 || ret->delta_hi < 0;
    if (all_positive) {
        double log_error = pqs_sd(log_ratio, pairs) / sqrt((double)pairs);
        ret->ratio_lo = exp(pqs_mean(log_ratio, pairs) - t * log_error);
        ret->ratio_hi = exp(pqs_mean(log_ratio, pairs) + t * log_error);
    }
}
