/* The model that every writer renders: figures per arm, comparisons, findings. Private to src/report.
 * Must not know: any output format. NAN stands for "not known" in every double. */
#ifndef PQS_REPORT_MODEL_H
#define PQS_REPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/report.h"
#include "stats/compare.h"
#include "stats/quantile.h"
#include "store/store.h"
#include "verdict/verdict.h"

#define PQS_QUANTILES_MAX 8 /* room for the rows of pqs_quantiles */

/* An arm's figure: the mean over its trials' figures, so that two arms' figures differ by exactly the paired delta. Where
 * some trial cannot support it, that of all its connections together, and `pooled` says so. */
struct pqs_figure {
    double value;
    bool pooled;
};

/* One row per figure that arms are shown and compared by. */
struct pqs_metric {
    const char *id;    /* "request.p50" */
    const char *label; /* "request p50" */
    enum { PQS_UNIT_NS, PQS_UNIT_BYTES } unit;
    bool compared;        /* false: shown per arm only */
    enum pqs_phase phase; /* of latencies */
    const char *stat;     /* of latencies: "mean", "max" or a quantile's id; NULL: a counter per completed connection */
    enum pqs_side side;   /* of counters */
    const char *counter;
};
enum {
    PQS_METRIC_PRIMARY = 0, /* request.p50, the first row (METHOD 17) */
    PQS_METRICS = 15
};
extern const struct pqs_metric pqs_metrics[PQS_METRICS];
size_t pqs_metric_find(const char *id); /* id must exist */

struct pqs_latency {
    uint64_t n;
    double min, max; /* exact, of all trials */
    struct pqs_figure mean;
    struct pqs_figure quantiles[PQS_QUANTILES_MAX]; /* as pqs_quantiles */
};

struct pqs_model_trial {
    const struct pqs_trial *trial;
    enum pqs_severity verdict;    /* recomputed from the evidence; PQS_UNFIT when it did not finish */
    struct pqs_finding *findings; /* owned; worst first */
    size_t n_findings;
};

struct pqs_model_arm {
    const struct pqs_arm *arm;
    struct pqs_result pooled; /* of its finished trials: sums and merged histograms */
    size_t n_trials, n_finished;
    enum pqs_class class; /* the headline's (pqs_verdict_class) */
    enum pqs_severity verdict;
    struct pqs_figure metrics[PQS_METRICS]; /* of the headline class */
    struct pqs_latency latency[PQS_CLASSES][PQS_PHASES];
    double offered_per_s, achieved_per_s;
    double client_busy, server_busy; /* the load under which CPU was measured: parts of one thread's time, means over trials;
                                      * the client's is that of its busiest thread, the server's of all its threads */
};

struct pqs_comparison {
    size_t arm; /* compared with the model's baseline */
    size_t metric;
    size_t pairs;                     /* blocks in which both arms are valid */
    double baseline_value, arm_value; /* means over the pairs */
    struct pqs_paired paired;
    const char *verdict; /* "differs", "no detectable difference", "no interval", "unfit" */
};

struct pqs_model_finding {
    const struct pqs_verdict *verdict; /* a trial's row or one of the run's (no test) */
    const struct pqs_model_arm *arm;   /* NULL: of the whole run */
    char *text;
    size_t trials, of; /* seen in this many of so many trials; 0 when it is not about trials */
};

struct pqs_model {
    const struct pqs_run *run;
    uint32_t blocks; /* asked for, or seen if more */
    size_t baseline; /* index of an arm */
    struct pqs_model_arm *arms;
    size_t n_arms;
    struct pqs_model_trial *trials; /* in the order of execution */
    size_t n_trials;
    struct pqs_comparison *comparisons;
    size_t n_comparisons, cap_comparisons;
    struct pqs_model_finding *findings; /* worst first */
    size_t n_findings, cap_findings;
    char *changed;             /* names of environment facts that changed while the run lasted, "" if none */
    enum pqs_severity verdict; /* worst of all */
};

/* A setting as a number; NAN when absent or not a number. */
double pqs_model_number(const struct pqs_model *m, const char *setting);
/* The first finished trial, or NULL: it stands for the environment. */
const struct pqs_trial *pqs_model_first(const struct pqs_model *m);
/* The same of one arm. */
const struct pqs_trial *pqs_model_first_of(const struct pqs_model *m, size_t arm);
/* The value of a per-trial metric; NAN where the trial cannot support it. */
double pqs_model_value(const struct pqs_result *r, enum pqs_class class, const struct pqs_metric *metric);
/* The trial's figures of one arm's metric, in order of blocks (NAN: not finished or not supported); ret_values holds blocks.
 */
void pqs_model_by_block(const struct pqs_model *m, size_t arm, const struct pqs_metric *metric, double *ret_values);
/* A quantile of request latency over an arm's finished trials; NAN unless each of them supports it. */
struct pqs_spread {
    double median, min, max;
};
struct pqs_spread pqs_model_spread(const struct pqs_model *m, size_t arm, const char *quantile);
/* NULL when that metric was not compared. */
const struct pqs_comparison *pqs_model_comparison(const struct pqs_model *m, size_t arm, size_t metric);
/* Why a figure taken from a counter is not known, for people; NULL when it is known. */
const char *pqs_model_why_not(const struct pqs_model_arm *arm, const struct pqs_metric *metric);
/* Whether that client fact has that value anywhere in the run ("insecure", "yes"). */
bool pqs_model_any(const struct pqs_model *m, const char *fact, const char *value);

#endif
