/* What the coordinator asks of a worker for one trial. The schedule is common to all workloads; everything else is a named
 * parameter that the workload's worker side knows (src/worker) and the channel does not. */
#ifndef PQS_CHANNEL_SPEC_H
#define PQS_CHANNEL_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cpu.h"
#include "base/err.h"

enum pqs_arrivals { PQS_ARRIVALS_CONSTANT = 0, PQS_ARRIVALS_POISSON = 1 };
extern const char *const pqs_arrivals_names[]; /* "constant", "poisson", NULL */

struct pqs_schedule {
    enum pqs_arrivals arrivals;
    double rate_per_s;   /* > 0 */
    int64_t warmup_ns;   /* >= 0 */
    int64_t duration_ns; /* > 0 */
    int64_t timeout_ns;  /* > 0; per connection, from its real start */
    uint64_t seed;
    uint32_t block;
    uint32_t threads;      /* >= 1 */
    uint32_t max_inflight; /* 0: min(4096, descriptors / 2) */
};

struct pqs_param {
    char name[64];
    struct pqs_buf value; /* owned; text or file contents */
};

struct pqs_spec {
    struct pqs_schedule schedule;
    char cpus[PQS_CPU_LIST_MAX]; /* "" = not pinned */
    struct pqs_param *params;
    size_t n_params, cap_params;
};

void pqs_spec_release(struct pqs_spec *s);
void pqs_spec_copy(const struct pqs_spec *from, struct pqs_spec *ret_to);
/* Replaces a parameter of that name. pqs_spec_set(s, name, NULL) removes it. */
void pqs_spec_set(struct pqs_spec *s, const char *name, const char *text);
void pqs_spec_set_bytes(struct pqs_spec *s, const char *name, const void *data, size_t len);
/* NULL when absent. */
const char *pqs_spec_get(const struct pqs_spec *s, const char *name);
const struct pqs_buf *pqs_spec_get_bytes(const struct pqs_spec *s, const char *name);

void pqs_spec_encode(const struct pqs_spec *s, struct pqs_buf *out);
PQS_MUST_CHECK int pqs_spec_decode(const void *data, size_t len, struct pqs_spec *ret_s, struct pqs_err *err);

#endif
