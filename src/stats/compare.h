/* Paired comparison of two arms over blocks. The unit of replication is the block, not the handshake (METHOD 16). */
#ifndef PQS_STATS_COMPARE_H
#define PQS_STATS_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PQS_MIN_BLOCKS 5 /* fewer valid blocks: no interval (METHOD 16) */

/* NAN stands for "not known" in every double here. */
struct pqs_paired {
    size_t n;                  /* valid pairs: both figures finite */
    double delta;              /* mean of arm - baseline */
    double delta_lo, delta_hi; /* 95 % t interval on the differences; NAN under PQS_MIN_BLOCKS */
    double ratio;              /* exp(mean log(arm / baseline)); NAN unless all figures > 0 */
    double ratio_lo, ratio_hi; /* 95 % t interval on log ratios */
    double p_value;            /* two-sided sign-flip permutation p of the differences; NAN where its floor 2^(1-n) > 0.05 */
    double detectable; /* smallest difference seen with 80 % power: (t.975 + t.80) s / sqrt(n), n-1 degrees of freedom;
                        * NAN under PQS_MIN_BLOCKS */
    bool differs;      /* the delta interval exists and excludes zero */
};

/* baseline[i] and arm[i] are the figures of block i, any unit. Exact enumeration of sign flips up to 16 pairs; above that
 * 20,000 flips drawn from seed, p = (1 + hits) / (1 + draws). */
void pqs_compare(const double *baseline, const double *arm, size_t n, uint64_t seed, struct pqs_paired *ret);

/* Quantile of Student's t: x with P(T <= x) = p, 0 < p < 1, 1 <= df <= 1e6; NAN outside. Absolute error below 1e-9 for
 * |x| < 1e6. */
double pqs_t_quantile(double p, double df);

/* Least-squares slope of y over x with the two-sided p of its t test, n-2 degrees of freedom. NAN for n < 3 or when all x are
 * equal; points that lie on a line have p 0, or 1 when it is level. With x = -1 and 1 it is half the difference of two
 * groups' means, and the test is the two-sample t test. */
struct pqs_trend {
    double slope, p_value;
};
struct pqs_trend pqs_trend(const double *x, const double *y, size_t n);

/* How far the value furthest from the median lies from it, in robust standard deviations (1.4826 times the median absolute
 * deviation, which is the standard deviation of normal values); *ret_index is that value's. NAN for n < 3 or when more than
 * half of the values are equal. */
double pqs_furthest(const double *x, size_t n, size_t *ret_index);

double pqs_mean(const double *x, size_t n);   /* NAN for n == 0 */
double pqs_sd(const double *x, size_t n);     /* sample standard deviation; NAN for n < 2 */
double pqs_median(const double *x, size_t n); /* NAN for n == 0 or a NAN among x; does not change x */

#endif
