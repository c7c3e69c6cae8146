/* Arms out of factors, and their order in a block. Must not know how a factor is applied or which levels exist. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"

#define AGAIN_NAME " (again)"
#define AGAIN_FACTOR "aa"
#define AGAIN_LEVEL "again"

static int check_factor(const struct pqs_factor *factor, struct pqs_err *err) {
    if (strlen(factor->name) >= sizeof((struct pqs_factor_level *)0)->factor)
        return pqs_fail(err, PQS_E_USAGE, "factor \"%s\": the name is too long (at most %zu bytes)", factor->name,
                        sizeof((struct pqs_factor_level *)0)->factor - 1);
    if (factor->n_levels == 0)
        return pqs_fail(err, PQS_E_USAGE, "factor %s has no level: give at least one", factor->name);
    for (size_t i = 0; i < factor->n_levels; i++) {
        const char *level = factor->levels[i];
        if (level[0] == '\0' || strlen(level) >= sizeof((struct pqs_factor_level *)0)->level)
            return pqs_fail(err, PQS_E_USAGE, "factor %s: level \"%s\" has %zu bytes: 1 to %zu are possible", factor->name,
                            level, strlen(level), sizeof((struct pqs_factor_level *)0)->level - 1);
        for (size_t k = 0; k < i; k++)
            if (strcasecmp(level, factor->levels[k]) == 0)
                return pqs_fail(err, PQS_E_USAGE,
                                "factor %s: level %s is given twice (to compare an arm with itself, use --aa)", factor->name,
                                level);
    }
    return 0;
}

/* The number of combinations, or an error when the factors make no plan. */
static int check_factors(const struct pqs_factor *factors, size_t n_factors, int aa, size_t *ret_n, struct pqs_err *err) {
    size_t max_factors = PQS_FACTORS_MAX - (aa ? 1 : 0);
    if (n_factors == 0 || n_factors > max_factors)
        return pqs_fail(err, PQS_E_USAGE, "%zu factors: 1 to %zu are possible", n_factors, max_factors);
    size_t n = 1;
    for (size_t i = 0; i < n_factors; i++) {
        int rc = check_factor(&factors[i], err);
        if (rc < 0)
            return rc;
        for (size_t k = 0; k < i; k++)
            if (strcmp(factors[i].name, factors[k].name) == 0)
                return pqs_fail(err, PQS_E_USAGE, "factor %s is given twice", factors[i].name);
        if (__builtin_mul_overflow(n, factors[i].n_levels, &n) || n > PQS_ARMS_MAX / (aa ? 2u : 1u))
            return pqs_fail(err, PQS_E_USAGE, "the factors' levels make more than %d arms%s: give fewer levels",
                            PQS_ARMS_MAX, aa ? " (each is there twice with --aa)" : "");
    }
    *ret_n = n;
    return 0;
}

static int compare_factor(const void *a, const void *b) {
    return strcmp(((const struct pqs_factor_level *)a)->factor, ((const struct pqs_factor_level *)b)->factor);
}

/* FNV-1a, 64 bits (draft-eastlake-fnv). */
static uint64_t hash_text(const char *text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Copies a text that was put together from levels; too long is the user's error. */
static int copy_text(char *dst, size_t dst_size, const char *what, const char *text, struct pqs_err *err) {
    if (strlen(text) >= dst_size)
        return pqs_fail(err, PQS_E_USAGE, "the %s of arm \"%.80s...\" has %zu bytes (at most %zu): give fewer factors", what,
                        text, strlen(text), dst_size - 1);
    memcpy(dst, text, strlen(text) + 1);
    return 0;
}

static void add_level(struct pqs_arm *arm, const char *factor, const char *level) {
    struct pqs_factor_level *row = &arm->levels[arm->n_levels++];
    snprintf(row->factor, sizeof row->factor, "%s", factor);
    snprintf(row->level, sizeof row->level, "%s", level);
}

/* Combination number `index` of the factors: a mixed-radix number whose first digit varies slowest. */
static int make_arm(const struct pqs_factor *factors, size_t n_factors, size_t index, int again, struct pqs_arm *ret_arm,
                    struct pqs_err *err) {
    struct pqs_arm arm = {0};
    size_t n_varying = 0;
    for (size_t i = 0; i < n_factors; i++)
        n_varying += factors[i].n_levels > 1;

    size_t radix = 1;
    for (size_t i = 0; i < n_factors; i++)
        radix *= factors[i].n_levels;
    PQS_BUF name = {0};
    for (size_t i = 0; i < n_factors; i++) {
        radix /= factors[i].n_levels;
        const char *level = factors[i].levels[index / radix % factors[i].n_levels];
        add_level(&arm, factors[i].name, level);
        if (n_varying == 0 || factors[i].n_levels > 1)
            pqs_buf_addf(&name, "%s%s%s%s", name.len > 0 ? " " : "", factors[i].label ? factors[i].label : "",
                         factors[i].label ? " " : "", level);
    }
    if (again) {
        add_level(&arm, AGAIN_FACTOR, AGAIN_LEVEL);
        pqs_buf_addf(&name, AGAIN_NAME);
    }

    struct pqs_factor_level sorted[PQS_FACTORS_MAX];
    memcpy(sorted, arm.levels, sizeof sorted);
    qsort(sorted, arm.n_levels, sizeof *sorted, compare_factor);
    PQS_BUF key = {0};
    for (size_t i = 0; i < arm.n_levels; i++)
        pqs_buf_addf(&key, "%s%s=%s", i > 0 ? " " : "", sorted[i].factor, sorted[i].level);

    int rc = copy_text(arm.name, sizeof arm.name, "name", pqs_buf_text(&name), err);
    if (rc == 0)
        rc = copy_text(arm.key, sizeof arm.key, "key", pqs_buf_text(&key), err);
    if (rc < 0)
        return rc;
    arm.hash = hash_text(arm.key);
    *ret_arm = arm;
    return 0;
}

int pqs_plan_cross(struct pqs_plan *plan, const struct pqs_factor *factors, size_t n_factors, int aa, struct pqs_err *err) {
    size_t n_combinations = 0;
    int rc = check_factors(factors, n_factors, aa, &n_combinations, err);
    if (rc < 0)
        return rc;
    size_t copies = aa ? 2 : 1;
    struct pqs_arm *arms = pqs_calloc(n_combinations * copies, sizeof *arms);
    for (size_t i = 0; i < n_combinations * copies; i++) {
        rc = make_arm(factors, n_factors, i / copies, i % copies != 0, &arms[i], err);
        if (rc < 0) {
            free(arms);
            return rc;
        }
    }
    free(plan->arms);
    plan->arms = arms;
    plan->n_arms = n_combinations * copies;
    plan->baseline = 0;
    return 0;
}

int pqs_plan_set_baseline(struct pqs_plan *plan, const char *name, struct pqs_err *err) {
    for (size_t i = 0; i < plan->n_arms; i++) {
        if (strcasecmp(plan->arms[i].name, name) == 0) {
            plan->baseline = i;
            return 0;
        }
    }
    PQS_BUF names = {0};
    for (size_t i = 0; i < plan->n_arms; i++)
        pqs_buf_addf(&names, "%s\"%s\"", i > 0 ? ", " : "", plan->arms[i].name);
    return pqs_fail(err, PQS_E_USAGE, "no arm is named \"%s\": the baseline is one of %s", name, pqs_buf_text(&names));
}

const char *pqs_arm_level(const struct pqs_arm *arm, const char *factor) {
    for (size_t i = 0; i < arm->n_levels; i++)
        if (strcmp(arm->levels[i].factor, factor) == 0)
            return arm->levels[i].level;
    return NULL;
}

void pqs_plan_order(const struct pqs_plan *plan, uint32_t block, size_t *ret_order) {
    /* Fisher and Yates's shuffle, inside out. */
    struct pqs_rng rng = pqs_rng_stream(plan->schedule.seed, "order", block, 0);
    for (size_t i = 0; i < plan->n_arms; i++) {
        size_t k = pqs_rng_below(&rng, i + 1);
        ret_order[i] = ret_order[k]; /* k == i: overwritten at once */
        ret_order[k] = i;
    }
}

void pqs_plan_release(struct pqs_plan *plan) {
    free(plan->arms);
    pqs_spec_release(&plan->common);
    *plan = (struct pqs_plan){0};
}
