/* Latency histogram: HdrHistogram over 1 ns .. 1 h with three significant digits (METHOD 13), beside exact count, sum,
 * minimum and maximum. Values are nanoseconds. Not thread-safe: one per thread, merged afterwards. */
#ifndef PQS_STATS_HIST_H
#define PQS_STATS_HIST_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct pqs_hist;

struct pqs_hist *pqs_hist_new(void);
void pqs_hist_free(struct pqs_hist *h); /* NULL is fine */

/* Zero is recorded as zero. A negative value is not recorded but counted by pqs_hist_faults (METHOD 13: a negative interval
 * is a fault); a value over 1 h is recorded as 1 h in the buckets and exactly in min/max/sum. */
void pqs_hist_add(struct pqs_hist *h, int64_t value_ns);
void pqs_hist_merge(struct pqs_hist *into, const struct pqs_hist *from);

uint64_t pqs_hist_n(const struct pqs_hist *h);
uint64_t pqs_hist_faults(const struct pqs_hist *h);
int64_t pqs_hist_min(const struct pqs_hist *h); /* exact; 0 when empty */
int64_t pqs_hist_max(const struct pqs_hist *h); /* exact; 0 when empty */
double pqs_hist_mean(const struct pqs_hist *h); /* exact; NAN when empty */
/* Value at quantile q in (0, 1): the smallest recorded value v such that at least ceil(q n) samples are <= v, to three
 * digits (midpoint of its bucket, clamped to [min, max]); NAN when empty. Says nothing about support: see stats/quantile.h.
 */
double pqs_hist_quantile(const struct pqs_hist *h, double q);

/* Blob for run.db and the channel: version byte, exact fields (u64 LE), then HdrHistogram's own compressed V2 encoding. */
void pqs_hist_encode(const struct pqs_hist *h, struct pqs_buf *out);
/* Appends what a line of an HdrHistogram log ends with: the compressed V2 encoding in base64 (RFC 4648). */
void pqs_hist_encode_base64(const struct pqs_hist *h, struct pqs_buf *out);
/* *ret_h is the caller's. Errors: PQS_E_FAILED on anything malformed (never crashes: fuzzed). */
PQS_MUST_CHECK int pqs_hist_decode(const void *data, size_t len, struct pqs_hist **ret_h, struct pqs_err *err);

#endif
