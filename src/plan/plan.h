/* The plan: workload + factors + levels + schedule. An arm is one combination of factor levels; a block is one trial of
 * every arm in random order (DESIGN, One abstraction). Must not know how factors are applied. */
#ifndef PQS_PLAN_PLAN_H
#define PQS_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "channel/spec.h"

#define PQS_ARMS_MAX 64
#define PQS_FACTORS_MAX 8

struct pqs_factor_level {
    char factor[32];
    char level[96];
};

struct pqs_arm {
    char name[192]; /* for people and --baseline: the levels of the factors that vary, or all of a single arm */
    char key[512];  /* canonical: "factor=level" sorted by factor, joined by a blank */
    uint64_t hash;  /* FNV-1a 64 of key */
    struct pqs_factor_level levels[PQS_FACTORS_MAX];
    size_t n_levels;
};

struct pqs_plan {
    char workload[16];            /* "tls" */
    struct pqs_schedule schedule; /* block is set per trial */
    uint32_t blocks;
    struct pqs_arm *arms; /* owned */
    size_t n_arms;
    size_t baseline;        /* index of the arm the others are compared with */
    struct pqs_spec common; /* parameters that every arm shares (common.schedule is unused) */
};

/* A factor and the levels asked for; the first factor's first level gives the default baseline. */
struct pqs_factor {
    const char *name;
    const char *const *levels;
    size_t n_levels;
    const char *label; /* put before a level in an arm's name ("client" aws-lc); NULL: the level speaks for itself */
};

/* Fills plan->arms with the full cross of the factors, the first factor varying slowest. With aa, every combination appears
 * twice, the second named "<name> (again)" with the same levels plus the pseudo-factor "aa=again": an arm against itself.
 * Errors (PQS_E_USAGE): a level given twice, more than PQS_ARMS_MAX arms, a level too long. */
PQS_MUST_CHECK int pqs_plan_cross(struct pqs_plan *plan, const struct pqs_factor *factors, size_t n_factors, int aa,
                                  struct pqs_err *err);
/* Sets plan->baseline by arm name, without regard to case; the error lists the names. */
PQS_MUST_CHECK int pqs_plan_set_baseline(struct pqs_plan *plan, const char *name, struct pqs_err *err);
/* NULL when the arm has no such factor. */
const char *pqs_arm_level(const struct pqs_arm *arm, const char *factor);
/* The order of arms in a block: a uniformly random permutation from (seed, "order", block). ret_order holds n_arms entries.
 */
void pqs_plan_order(const struct pqs_plan *plan, uint32_t block, size_t *ret_order);
void pqs_plan_release(struct pqs_plan *plan);

#endif
