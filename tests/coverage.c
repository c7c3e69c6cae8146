/* How often an interval that says 95 % holds the truth: simulated for differences of several shapes and numbers of blocks.
 * `coverage` prints the table of docs/METHOD.md; `coverage FILE` checks that FILE has it, figure by figure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "stats/compare.h"

#define RUNS 40000    /* one figure's standard error is 0.11 to 0.15 points */
#define TOLERANCE 0.5 /* points: another library's logarithm may turn single runs, no more */
#define SEED 2026

static const size_t blocks[] = {3, 4, 5, 7, 10, 20};

static double normal(struct pqs_rng *rng) { /* Box and Muller */
    double u = 1 - pqs_rng_unit(rng), v = pqs_rng_unit(rng);
    return sqrt(-2 * log(u)) * cos(2 * acos(-1) * v);
}

static double exponential(struct pqs_rng *rng) {
    return -log(1 - pqs_rng_unit(rng));
}

static double lognormal(struct pqs_rng *rng) {
    return exp(normal(rng));
}

/* Mostly alike, but in one block in ten something disturbed one arm's trial. */
static double disturbed(struct pqs_rng *rng) {
    double x = normal(rng);
    return pqs_rng_unit(rng) < 0.1 ? x + 10 * exponential(rng) : x;
}

static const struct shape {
    const char *name;
    double (*draw)(struct pqs_rng *rng);
    double mean;
} shapes[] = {
    {"normal", normal, 0},
    {"exponential (skewness 2)", exponential, 1},
    {"lognormal, sigma 1 (skewness 6.2)", lognormal, 1.6487212707001282}, /* exp(1/2) */
    {"normal, one block in ten disturbed", disturbed, 1},
};

/* In percent. The interval is the product's where it gives one, and the same formula below its minimum of blocks. */
static double coverage(const struct shape *s, size_t n) {
    double t = pqs_t_quantile(0.975, (double)(n - 1)), zero[20] = {0}, d[20];
    size_t covered = 0;
    for (uint64_t run = 0; run < RUNS; run++) {
        struct pqs_rng rng = pqs_rng_stream(SEED, s->name, n, run);
        for (size_t i = 0; i < n; i++)
            d[i] = s->draw(&rng);
        double mean = pqs_mean(d, n), half = t * pqs_sd(d, n) / sqrt((double)n);
        covered += fabs(mean - s->mean) <= half;
        if (n < PQS_MIN_BLOCKS || run >= 20) /* its permutations take long */
            continue;
        struct pqs_paired p;
        pqs_compare(zero, d, n, SEED, &p);
        if (!(fabs(p.delta_lo - (mean - half)) < 1e-12 * (1 + fabs(mean)) &&
              fabs(p.delta_hi - (mean + half)) < 1e-12 * (1 + fabs(mean)))) {
            fprintf(stderr, "coverage: pqs_compare has another interval for %s, %zu blocks\n", s->name, n);
            exit(1);
        }
    }
    return 100. * (double)covered / RUNS;
}

/* The figures of that row in the table of `file`: how many were read. */
static size_t read_row(FILE *file, const char *name, double *ret_figures) {
    char line[512];
    PQS_FREE char *lead = pqs_format("| %s |", name);
    rewind(file);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, lead, strlen(lead)) != 0)
            continue;
        size_t n = 0;
        char *at = line + strlen(lead), *end;
        for (; n < PQS_COUNT(blocks); n++, at = end + strspn(end, " |")) {
            ret_figures[n] = strtod(at, &end);
            if (end == at)
                break;
        }
        return n;
    }
    return 0;
}

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    int wrong = 0;
    if (argc > 2 || (argc > 1 && !file)) {
        fprintf(stderr, "usage: coverage [FILE]\n");
        return 2;
    }
    printf("| differences |");
    for (size_t k = 0; k < PQS_COUNT(blocks); k++)
        printf(" %zu |", blocks[k]);
    printf("\n| --- |");
    for (size_t k = 0; k < PQS_COUNT(blocks); k++)
        printf(" --: |");
    printf("\n");
    for (size_t i = 0; i < PQS_COUNT(shapes); i++) {
        double published[PQS_COUNT(blocks)];
        size_t n = file ? read_row(file, shapes[i].name, published) : 0;
        printf("| %s |", shapes[i].name);
        for (size_t k = 0; k < PQS_COUNT(blocks); k++) {
            double percent = coverage(&shapes[i], blocks[k]);
            printf(" %.1f |", percent);
            if (file && (k >= n || fabs(published[k] - percent) > TOLERANCE))
                wrong = 1;
            if (i == 0 && fabs(percent - 95) > 2) /* what the interval promises for normal differences */
                wrong = 1;
        }
        printf("\n");
        fflush(stdout);
    }
    if (file)
        fclose(file);
    if (wrong)
        fprintf(stderr, "coverage: %s has other figures, or normal differences are not covered\n", argc > 1 ? argv[1] : "");
    return wrong;
}
