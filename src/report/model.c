/* From the evidence of a run to figures per arm, paired comparisons and findings; everything is computed here, once.
 * Must not know: any output format. */
#include "report/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/mem.h"
#include "stats/hist.h"

#define BLOCKS_MAX 1000000 /* more is no plan but a damaged file */

#define LATENCY(id, label, compared, phase, stat)                                                                           \
    { id, label, PQS_UNIT_NS, compared, phase, stat, PQS_CLIENT, NULL }
#define COUNTER(id, label, unit, side, counter)                                                                             \
    { id, label, unit, true, PQS_PHASES, NULL, side, counter }
const struct pqs_metric pqs_metrics[PQS_METRICS] = {
    LATENCY("request.p50", "request p50", true, PQS_PHASE_REQUEST, "p50"),
    LATENCY("request.mean", "request mean", true, PQS_PHASE_REQUEST, "mean"),
    LATENCY("request.p90", "request p90", true, PQS_PHASE_REQUEST, "p90"),
    LATENCY("request.p95", "request p95", true, PQS_PHASE_REQUEST, "p95"),
    LATENCY("request.p99", "request p99", true, PQS_PHASE_REQUEST, "p99"),
    LATENCY("request.p999", "request p99.9", true, PQS_PHASE_REQUEST, "p999"),
    LATENCY("request.max", "request max", false, PQS_PHASE_REQUEST, "max"),
    LATENCY("service.p50", "service p50", true, PQS_PHASE_SERVICE, "p50"),
    LATENCY("start_lag.p99", "start lag p99", false, PQS_PHASE_START_LAG, "p99"),
    LATENCY("tls.p50", "TLS p50", true, PQS_PHASE_TLS, "p50"),
    LATENCY("connect.p50", "connect p50", true, PQS_PHASE_CONNECT, "p50"),
    COUNTER("cpu_ns.client", "client CPU", PQS_UNIT_NS, PQS_CLIENT, "cpu_ns"),
    COUNTER("cpu_ns.server", "server CPU", PQS_UNIT_NS, PQS_SERVER, "cpu_ns"),
    COUNTER("bytes.to_server", "bytes to server", PQS_UNIT_BYTES, PQS_CLIENT, "bytes_to_server"),
    COUNTER("bytes.to_client", "bytes to client", PQS_UNIT_BYTES, PQS_CLIENT, "bytes_to_client"),
};

size_t pqs_metric_find(const char *id) {
    size_t i = 0;
    while (strcmp(pqs_metrics[i].id, id) != 0)
        i++;
    return i;
}

/* ---- single values ---- */

static double latency_value(const struct pqs_hist *h, const char *stat) {
    if (!h || pqs_hist_n(h) == 0)
        return NAN;
    if (strcmp(stat, "mean") == 0)
        return pqs_hist_mean(h);
    if (strcmp(stat, "max") == 0)
        return (double)pqs_hist_max(h);
    return pqs_quantile_of(h, pqs_quantile_find(stat));
}

double pqs_model_value(const struct pqs_result *r, enum pqs_class class, const struct pqs_metric *metric) {
    if (metric->stat)
        return latency_value(pqs_result_hist_of(r, class, metric->phase), metric->stat);
    int64_t completed = pqs_result_get(r, PQS_CLIENT, "completed", 0);
    int64_t total = pqs_result_get(r, metric->side, metric->counter, -1);
    return completed > 0 && total >= 0 ? (double)total / (double)completed : NAN;
}

double pqs_model_number(const struct pqs_model *m, const char *setting) {
    const char *text = pqs_run_get(m->run, setting);
    char *end = NULL;
    double value = text ? strtod(text, &end) : NAN;
    return text && end != text && *end == '\0' ? value : NAN;
}

const struct pqs_trial *pqs_model_first(const struct pqs_model *m) {
    for (size_t i = 0; i < m->n_trials; i++)
        if (m->trials[i].trial->state == PQS_TRIAL_FINISHED)
            return m->trials[i].trial;
    return NULL;
}

const struct pqs_trial *pqs_model_first_of(const struct pqs_model *m, size_t arm) {
    for (size_t i = 0; i < m->n_trials; i++)
        if (m->trials[i].trial->arm == arm && m->trials[i].trial->state == PQS_TRIAL_FINISHED)
            return m->trials[i].trial;
    return NULL;
}

bool pqs_model_any(const struct pqs_model *m, const char *fact, const char *value) {
    for (size_t i = 0; i < m->n_trials; i++) {
        const char *found = pqs_result_fact_of(&m->trials[i].trial->result, PQS_CLIENT, fact, NULL);
        if (found && strcmp(found, value) == 0)
            return true;
    }
    return false;
}

/* NULL when that trial did not finish (or was not run). */
static const struct pqs_model_trial *find_trial(const struct pqs_model *m, size_t arm, uint32_t block) {
    for (size_t i = 0; i < m->n_trials; i++) {
        const struct pqs_trial *t = m->trials[i].trial;
        if (t->arm == arm && t->block == block && t->state == PQS_TRIAL_FINISHED)
            return &m->trials[i];
    }
    return NULL;
}

void pqs_model_by_block(const struct pqs_model *m, size_t arm, const struct pqs_metric *metric, double *ret_values) {
    for (uint32_t b = 0; b < m->blocks; b++) {
        const struct pqs_model_trial *t = find_trial(m, arm, b);
        ret_values[b] = t ? pqs_model_value(&t->trial->result, m->arms[arm].class, metric) : NAN;
    }
}

struct pqs_spread pqs_model_spread(const struct pqs_model *m, size_t arm, const char *quantile) {
    struct pqs_metric metric = LATENCY("", "", false, PQS_PHASE_REQUEST, quantile);
    struct pqs_spread s = {.median = NAN, .min = INFINITY, .max = -INFINITY};
    PQS_FREE double *values = pqs_calloc((size_t)m->blocks + 1, sizeof *values);
    pqs_model_by_block(m, arm, &metric, values);
    size_t n = 0;
    for (uint32_t b = 0; b < m->blocks; b++) {
        if (!isfinite(values[b]))
            continue;
        s.min = fmin(s.min, values[b]);
        s.max = fmax(s.max, values[b]);
        values[n++] = values[b];
    }
    if (n == 0 || n < m->arms[arm].n_finished)
        return (struct pqs_spread){.median = NAN, .min = NAN, .max = NAN};
    s.median = pqs_median(values, n);
    return s;
}

/* ---- arms ---- */

static struct pqs_figure figure_of(const struct pqs_model *m, const struct pqs_model_arm *arm, enum pqs_class class,
                                   const struct pqs_metric *metric) {
    PQS_FREE double *values = pqs_calloc(m->n_trials + 1, sizeof *values);
    size_t n = 0;
    bool every = true;
    for (size_t i = 0; i < m->n_trials; i++) {
        const struct pqs_trial *t = m->trials[i].trial;
        if (&m->arms[t->arm] != arm || t->state != PQS_TRIAL_FINISHED)
            continue;
        if (metric->counter && pqs_result_get(&t->result, metric->side, metric->counter, -1) < 0)
            return (struct pqs_figure){.value = NAN}; /* the sum would miss this trial's share */
        values[n] = pqs_model_value(&t->result, class, metric);
        every = every && isfinite(values[n]);
        n++;
    }
    if (n > 0 && every && !(metric->stat && strcmp(metric->stat, "max") == 0))
        return (struct pqs_figure){.value = pqs_mean(values, n)};
    double pooled = pqs_model_value(&arm->pooled, class, metric);
    return (struct pqs_figure){.value = pooled, .pooled = isfinite(pooled)};
}

static void pool_trial(struct pqs_result *into, const struct pqs_result *r) {
    for (size_t i = 0; i < r->n_counters; i++)
        pqs_result_count(into, r->counters[i].side, r->counters[i].name, r->counters[i].value);
    for (size_t i = 0; i < r->n_facts; i++)
        pqs_result_fact(into, r->facts[i].side, r->facts[i].name, r->facts[i].value, r->facts[i].n);
    for (size_t i = 0; i < r->n_hists; i++) {
        struct pqs_hist *copy = pqs_hist_new();
        pqs_hist_merge(copy, r->hists[i].hist);
        pqs_result_hist(into, r->hists[i].class, r->hists[i].phase, copy);
    }
}

static void fill_latency(const struct pqs_model *m, struct pqs_model_arm *arm, enum pqs_class class, enum pqs_phase phase) {
    struct pqs_latency *l = &arm->latency[class][phase];
    const struct pqs_hist *h = pqs_result_hist_of(&arm->pooled, class, phase);
    l->n = h ? pqs_hist_n(h) : 0;
    l->min = l->n > 0 ? (double)pqs_hist_min(h) : NAN;
    l->max = l->n > 0 ? (double)pqs_hist_max(h) : NAN;
    struct pqs_metric metric = LATENCY("", "", false, phase, "mean");
    l->mean = figure_of(m, arm, class, &metric);
    for (size_t i = 0; i < PQS_QUANTILES_MAX && pqs_quantiles[i].id; i++) {
        metric.stat = pqs_quantiles[i].id;
        l->quantiles[i] = figure_of(m, arm, class, &metric);
    }
}

static double trial_busy(const struct pqs_result *r, enum pqs_side side) {
    if (side == PQS_CLIENT) {
        int64_t ppm = pqs_result_get(r, PQS_CLIENT, "thread_busy_ppm", -1);
        return ppm < 0 ? NAN : (double)ppm / 1e6;
    }
    double wall_ns = (double)(pqs_result_get(r, PQS_CLIENT, "window_ns", 0) + pqs_result_get(r, PQS_CLIENT, "drain_ns", 0));
    const char *threads = pqs_result_fact_of(r, PQS_SERVER, "threads", NULL);
    double capacity_ns = threads ? wall_ns * strtod(threads, NULL) : 0;
    int64_t cpu_ns = pqs_result_get(r, PQS_SERVER, "cpu_ns", -1);
    return capacity_ns > 0 && cpu_ns >= 0 ? (double)cpu_ns / capacity_ns : NAN;
}

static double busy_of(const struct pqs_model *m, const struct pqs_model_arm *arm, enum pqs_side side) {
    double sum = 0;
    for (size_t i = 0; i < m->n_trials; i++)
        if (&m->arms[m->trials[i].trial->arm] == arm && m->trials[i].trial->state == PQS_TRIAL_FINISHED)
            sum += trial_busy(&m->trials[i].trial->result, side);
    return arm->n_finished > 0 ? sum / (double)arm->n_finished : NAN;
}

static void fill_arm(struct pqs_model *m, size_t index) {
    struct pqs_model_arm *arm = &m->arms[index];
    double offered = 0, achieved = 0;
    size_t n_windows = 0;
    for (size_t i = 0; i < m->n_trials; i++) {
        const struct pqs_trial *t = m->trials[i].trial;
        if (t->arm != index)
            continue;
        arm->n_trials++;
        if (t->state != PQS_TRIAL_FINISHED)
            continue;
        arm->n_finished++;
        pool_trial(&arm->pooled, &t->result);
        double window_s = (double)pqs_result_get(&t->result, PQS_CLIENT, "window_ns", 0) / 1e9;
        if (window_s <= 0)
            continue;
        /* A trial that was cut short has a shorter window, but all of its plan's arrivals. */
        double plan_s = pqs_model_number(m, "duration_ns") / 1e9;
        bool cut = pqs_result_get(&t->result, PQS_CLIENT, "cut_short", 0) != 0 && isfinite(plan_s);
        n_windows++;
        offered += (double)pqs_result_get(&t->result, PQS_CLIENT, "scheduled", 0) / (cut ? plan_s : window_s);
        achieved += (double)pqs_result_get(&t->result, PQS_CLIENT, "window_completed", 0) / window_s;
    }
    arm->offered_per_s = n_windows > 0 ? offered / (double)n_windows : NAN;
    arm->achieved_per_s = n_windows > 0 ? achieved / (double)n_windows : NAN;
    arm->client_busy = busy_of(m, arm, PQS_CLIENT);
    arm->server_busy = busy_of(m, arm, PQS_SERVER);
    arm->class = pqs_verdict_class(&arm->pooled);
    for (size_t i = 0; i < PQS_METRICS; i++)
        arm->metrics[i] = figure_of(m, arm, arm->class, &pqs_metrics[i]);
    for (enum pqs_class c = 0; c < PQS_CLASSES; c++)
        for (enum pqs_phase phase = 0; phase < PQS_PHASES; phase++)
            fill_latency(m, arm, c, phase);
}

const char *pqs_model_why_not(const struct pqs_model_arm *arm, const struct pqs_metric *metric) {
    const char *target = pqs_result_fact_of(&arm->pooled, PQS_CLIENT, "target", NULL);
    if (isfinite(arm->metrics[metric - pqs_metrics].value))
        return NULL;
    if (arm->n_finished == 0)
        return "no trial finished";
    if (metric->side == PQS_SERVER && target && strcmp(target, "foreign") == 0)
        return "the server is not ours";
    if (pqs_result_get(&arm->pooled, PQS_CLIENT, "completed", 0) == 0)
        return "nothing completed";
    return "the worker did not report it in every trial";
}

/* ---- findings ---- */

static void add_finding(struct pqs_model *m, const struct pqs_verdict *verdict, const struct pqs_model_arm *arm, char *text,
                        size_t trials, size_t of) {
    PQS_GROW(m->findings, m->n_findings, m->cap_findings);
    size_t at = m->n_findings++;
    for (; at > 0 && m->findings[at - 1].verdict->severity < verdict->severity; at--)
        m->findings[at] = m->findings[at - 1];
    m->findings[at] = (struct pqs_model_finding){.verdict = verdict, .arm = arm, .text = text, .trials = trials, .of = of};
    if (verdict->severity > PQS_NOTE && verdict->severity > m->verdict)
        m->verdict = verdict->severity;
}

static void worsen(struct pqs_model_arm *arm, enum pqs_severity severity) {
    if (severity > PQS_NOTE && severity > arm->verdict)
        arm->verdict = severity;
}

/* The same row over an arm's trials becomes one finding, with the first trial's text. */
static void merge_findings(struct pqs_model *m, struct pqs_model_arm *arm, const struct pqs_verdict *verdict) {
    const char *first = NULL;
    bool same = true;
    size_t n = 0;
    for (size_t i = 0; i < m->n_trials; i++) {
        const struct pqs_model_trial *t = &m->trials[i];
        if (&m->arms[t->trial->arm] != arm)
            continue;
        for (size_t k = 0; k < t->n_findings; k++) {
            if (t->findings[k].verdict != verdict)
                continue;
            same = same && (!first || strcmp(first, t->findings[k].text) == 0);
            first = first ? first : t->findings[k].text;
            n++;
        }
    }
    if (n == 0)
        return;
    add_finding(m, verdict, arm, pqs_format("%s%s", same ? "" : "e.g. ", first), n, arm->n_finished);
    worsen(arm, verdict->severity);
}

static void find_lost_trials(struct pqs_model *m, struct pqs_model_arm *arm) {
    size_t n = arm->n_trials - arm->n_finished;
    const struct pqs_trial *t = NULL;
    for (size_t i = 0; i < m->n_trials && !t; i++)
        if (&m->arms[m->trials[i].trial->arm] == arm && m->trials[i].trial->state != PQS_TRIAL_FINISHED)
            t = m->trials[i].trial;
    if (t) {
        char *text = pqs_format("that of block %u %s%s%s%s", t->block, pqs_trial_state_names[t->state], *t->note ? " (" : "",
                                t->note, *t->note ? ")" : "");
        add_finding(m, pqs_verdict_find("lost-trial"), arm, text, n, arm->n_trials);
        worsen(arm, PQS_WARNING);
    }
    if (arm->n_finished == 0) {
        add_finding(m, pqs_verdict_find("no-trial"), arm,
                    arm->n_trials > 0 ? pqs_format("0 of %zu trials finished", arm->n_trials)
                                      : pqs_strdup("none of its trials was run"),
                    0, 0);
        worsen(arm, PQS_UNFIT);
    }
}

/* Rows that judge an arm's trials together. */
static void find_of_arm(struct pqs_model *m, struct pqs_model_arm *arm) {
    struct pqs_finding found[PQS_FINDINGS_MAX];
    enum pqs_severity worst;
    size_t n = pqs_verdict_judge(&arm->pooled, PQS_OF_ARM, found, &worst);
    for (size_t i = 0; i < n; i++)
        add_finding(m, found[i].verdict, arm, pqs_strdup(found[i].text), 0, 0);
    worsen(arm, worst);
}

static void find_few_samples(struct pqs_model *m, struct pqs_model_arm *arm) {
    const struct pqs_quantile *p50 = pqs_quantile_find("p50");
    uint64_t least = UINT64_MAX;
    size_t n = 0;
    for (size_t i = 0; i < m->n_trials; i++) {
        const struct pqs_model_trial *t = &m->trials[i];
        if (&m->arms[t->trial->arm] != arm || t->verdict == PQS_UNFIT)
            continue;
        const struct pqs_hist *h = pqs_result_hist_of(&t->trial->result, arm->class, PQS_PHASE_REQUEST);
        uint64_t samples = h ? pqs_hist_n(h) : 0;
        n += samples < p50->min_n;
        least = samples < least ? samples : least;
    }
    if (n == 0)
        return;
    char *text = pqs_format("as few as %llu samples for the median of a trial", (unsigned long long)least);
    add_finding(m, pqs_verdict_find("few-samples"), arm, text, n, arm->n_finished);
    worsen(arm, PQS_WARNING);
}

static void find_undeclared(struct pqs_model *m, const struct pqs_model_arm *arm) {
    const struct pqs_model_arm *baseline = &m->arms[m->baseline];
    const char *declared[2 * PQS_FACTORS_MAX];
    size_t n_declared = 0;
    for (size_t i = 0; i < arm->arm->n_levels; i++) {
        const char *other = pqs_arm_level(baseline->arm, arm->arm->levels[i].factor);
        if (!other || strcmp(other, arm->arm->levels[i].level) != 0)
            declared[n_declared++] = arm->arm->levels[i].factor;
    }
    for (size_t i = 0; i < baseline->arm->n_levels; i++)
        if (!pqs_arm_level(arm->arm, baseline->arm->levels[i].factor))
            declared[n_declared++] = baseline->arm->levels[i].factor;
    PQS_BUF text = {0};
    if (pqs_verdict_undeclared(&baseline->pooled, &arm->pooled, declared, n_declared, &text) > 0)
        add_finding(m, pqs_verdict_find("undeclared"), arm, pqs_strdup(pqs_buf_text(&text)), 0, 0);
}

/* The name of a fact that describes the place of measurement and does not move by itself, as it was when its trial began;
 * NULL for others. */
static const char *name_of_place(const char *name, char ret[static 64]) {
    static const char *const library[] = {"stack", "header_version", "library_version", "library", "build_id"};
    static const char before[] = "env.", after[] = "env_after.";
    for (size_t i = 0; i < PQS_COUNT(library); i++)
        if (strcmp(name, library[i]) == 0)
            return name;
    const char *what = strncmp(name, before, strlen(before)) == 0 ? name + strlen(before)
                       : strncmp(name, after, strlen(after)) == 0 ? name + strlen(after)
                                                                  : NULL;
    if (!what || pqs_machine_moves(what))
        return NULL;
    snprintf(ret, 64, "%s%s", before, what);
    return ret;
}

/* Each trial, begin and end, against the first of its arm: arms may differ from each other (that is "undeclared"), one arm
 * may not. */
static void find_environment_changes(struct pqs_model *m) {
    PQS_BUF names = {0};
    for (size_t i = 0; i < m->n_trials; i++) {
        const struct pqs_trial *t = m->trials[i].trial, *first = pqs_model_first_of(m, t->arm);
        for (size_t k = 0; k < t->result.n_facts && t->state == PQS_TRIAL_FINISHED; k++) {
            const struct pqs_fact *f = &t->result.facts[k];
            char place[64], shown[96];
            const char *name = name_of_place(f->name, place);
            const char *before = name ? pqs_result_fact_of(&first->result, f->side, name, NULL) : NULL;
            if (!name || (before && strcmp(before, f->value) == 0))
                continue;
            snprintf(shown, sizeof shown, "%s %s;", pqs_side_names[f->side], name);
            if (!strstr(pqs_buf_text(&names), shown))
                pqs_buf_addf(&names, "%s%s", names.len > 0 ? " " : "", shown);
        }
    }
    if (names.len > 0)
        names.data[names.len - 1] = '\0'; /* the last semicolon */
    m->changed = pqs_strdup(pqs_buf_text(&names));
    if (*m->changed)
        add_finding(m, pqs_verdict_find("environment-changed"), NULL, pqs_strdup(m->changed), 0, 0);
}

/* ---- comparisons ---- */

#define BLOCKS_THIN 7        /* up to here the coverage for skewed differences is low (docs/METHOD.md, Coverage) */
#define TREND_P 0.01         /* a trend is said when it is this unlikely by chance */
#define OUTLIER_FROM 7       /* blocks: with fewer, the spread of the others is hardly known */
#define OUTLIER_DEVIATIONS 5 /* robust ones; 3 in 100 runs of 10 normal blocks have such a one */

static char *trend_text(const char *what, struct pqs_trend t, const char *per) {
    return pqs_format("%s %+.3g us%s (p %.2g)", what, t.slope / 1e3, per, t.p_value);
}

/* What the blocks' own order says about a primary comparison: figures of the pairs, in order of blocks, and whether the arm
 * ran after the baseline (1) or before it (-1). */
static void find_in_blocks(struct pqs_model *m, const struct pqs_comparison *c, const double *of_baseline,
                           const double *of_arm, const double *after, const double *block) {
    const struct pqs_model_arm *arm = &m->arms[c->arm];
    size_t n = c->paired.n, furthest;
    if (n < PQS_MIN_BLOCKS)
        return;
    PQS_FREE double *delta = pqs_calloc(n, sizeof *delta);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        delta[i] = of_arm[i] - of_baseline[i];
        sum += after[i];
    }
    if (n <= BLOCKS_THIN)
        add_finding(m, pqs_verdict_find("thin-interval"), arm, pqs_format("%zu valid blocks with the baseline", n), 0, 0);
    struct pqs_trend drift = pqs_trend(block, delta, n), order = pqs_trend(after, delta, n);
    if (drift.p_value < TREND_P)
        add_finding(m, pqs_verdict_find("drift"), arm,
                    trend_text("the difference in request p50 changes by", drift, " a block"), 0, 0);
    if (fabs(sum) == (double)n)
        add_finding(m, pqs_verdict_find("order"), arm,
                    pqs_format("it ran %s the baseline in all %zu blocks", sum > 0 ? "after" : "before", n), 0, 0);
    else if (order.p_value < TREND_P)
        add_finding(m, pqs_verdict_find("order"), arm,
                    trend_text("whichever of it and the baseline runs second has a request p50 changed by", order, ""), 0,
                    0);
    double away = pqs_furthest(delta, n, &furthest);
    if (n >= OUTLIER_FROM && away > OUTLIER_DEVIATIONS)
        add_finding(m, pqs_verdict_find("outlier"), arm,
                    pqs_format("block %.0f's difference in request p50 is %+.3g us, %.0f robust deviations from the median "
                               "of %+.3g us",
                               block[furthest], delta[furthest] / 1e3, away, pqs_median(delta, n) / 1e3),
                    0, 0);
}

static void find_level_drift(struct pqs_model *m) {
    PQS_FREE double *block = pqs_calloc((size_t)m->blocks + 1, sizeof *block);
    PQS_FREE double *level = pqs_calloc((size_t)m->blocks + 1, sizeof *level);
    size_t n = 0;
    for (uint32_t b = 0; m->n_arms > 1 && b < m->blocks; b++) {
        const struct pqs_model_trial *t = find_trial(m, m->baseline, b);
        if (!t || t->verdict == PQS_UNFIT)
            continue;
        block[n] = b;
        level[n] = pqs_model_value(&t->trial->result, m->arms[m->baseline].class, &pqs_metrics[PQS_METRIC_PRIMARY]);
        n += isfinite(level[n]) ? 1 : 0;
    }
    struct pqs_trend drift = pqs_trend(block, level, n);
    if (n >= PQS_MIN_BLOCKS && drift.p_value < TREND_P)
        add_finding(m, pqs_verdict_find("level-drift"), &m->arms[m->baseline],
                    trend_text("its request p50 changes by", drift, " a block"), 0, 0);
}

static void compare(struct pqs_model *m, size_t arm, size_t metric) {
    struct pqs_comparison c = {.arm = arm, .metric = metric};
    PQS_FREE double *of_baseline = pqs_calloc((size_t)m->blocks + 1, sizeof *of_baseline);
    PQS_FREE double *of_arm = pqs_calloc((size_t)m->blocks + 1, sizeof *of_arm);
    PQS_FREE double *after = pqs_calloc((size_t)m->blocks + 1, sizeof *after);
    PQS_FREE double *block = pqs_calloc((size_t)m->blocks + 1, sizeof *block);
    bool supported = true;
    for (uint32_t b = 0; b < m->blocks; b++) {
        const struct pqs_model_trial *tb = find_trial(m, m->baseline, b), *ta = find_trial(m, arm, b);
        if (!tb || !ta || tb->verdict == PQS_UNFIT || ta->verdict == PQS_UNFIT)
            continue; /* a block that loses an arm loses the pair */
        of_baseline[c.pairs] = pqs_model_value(&tb->trial->result, m->arms[m->baseline].class, &pqs_metrics[metric]);
        of_arm[c.pairs] = pqs_model_value(&ta->trial->result, m->arms[arm].class, &pqs_metrics[metric]);
        after[c.pairs] = ta > tb ? 1 : -1; /* trials are in the order of execution */
        block[c.pairs] = b;
        supported = supported && isfinite(of_baseline[c.pairs]) && isfinite(of_arm[c.pairs]);
        c.pairs++;
    }
    if ((c.pairs == 0 || !supported) && metric != PQS_METRIC_PRIMARY)
        return;
    /* Blocks that happen to have enough samples are no random choice: all or none. */
    size_t n = supported ? c.pairs : 0;
    const char *seed = pqs_run_get(m->run, "seed");
    pqs_compare(of_baseline, of_arm, n, seed ? strtoull(seed, NULL, 10) : 0, &c.paired);
    c.baseline_value = pqs_mean(of_baseline, n);
    c.arm_value = pqs_mean(of_arm, n);
    c.paired.delta =
        c.arm_value - c.baseline_value; /* the same to the last bits, so that the figures shown add up exactly */
    if (c.pairs == 0)
        c.verdict = "unfit";
    else if (!isfinite(c.paired.delta_lo))
        c.verdict = "no interval";
    else
        c.verdict = c.paired.differs ? "differs" : "no detectable difference";
    PQS_GROW(m->comparisons, m->n_comparisons, m->cap_comparisons);
    m->comparisons[m->n_comparisons++] = c;
    if (metric == PQS_METRIC_PRIMARY && c.pairs < PQS_MIN_BLOCKS)
        add_finding(m, pqs_verdict_find("few-blocks"), &m->arms[arm],
                    pqs_format("%zu valid block%s with the baseline", c.pairs, c.pairs == 1 ? "" : "s"), 0, 0);
    if (metric == PQS_METRIC_PRIMARY)
        find_in_blocks(m, &c, of_baseline, of_arm, after, block);
}

const struct pqs_comparison *pqs_model_comparison(const struct pqs_model *m, size_t arm, size_t metric) {
    for (size_t i = 0; i < m->n_comparisons; i++)
        if (m->comparisons[i].arm == arm && m->comparisons[i].metric == metric)
            return &m->comparisons[i];
    return NULL;
}

/* ---- the model ---- */

static void fill_trials(struct pqs_model *m) {
    const struct pqs_run *run = m->run;
    m->trials = pqs_calloc(run->n_trials + 1, sizeof *m->trials);
    for (size_t i = 0; i < run->n_trials; i++) {
        if (run->trials[i].arm >= run->n_arms || run->trials[i].block >= BLOCKS_MAX)
            continue; /* only in a damaged file */
        struct pqs_model_trial *t = &m->trials[m->n_trials++];
        *t = (struct pqs_model_trial){.trial = &run->trials[i], .verdict = PQS_UNFIT};
        m->blocks = t->trial->block >= m->blocks ? t->trial->block + 1 : m->blocks;
        if (t->trial->state != PQS_TRIAL_FINISHED)
            continue;
        t->findings = pqs_calloc(PQS_FINDINGS_MAX, sizeof *t->findings);
        t->n_findings = pqs_verdict_judge(&t->trial->result, PQS_OF_TRIAL, t->findings, &t->verdict);
    }
}

struct pqs_model *pqs_model_new(const struct pqs_run *run) {
    struct pqs_model *m = pqs_calloc(1, sizeof *m);
    m->run = run;
    double blocks = pqs_model_number(m, "blocks");
    m->blocks = blocks >= 1 && blocks <= BLOCKS_MAX ? (uint32_t)blocks : 0;
    m->n_arms = run->n_arms;
    m->arms = pqs_calloc(run->n_arms + 1, sizeof *m->arms);
    const char *baseline = pqs_run_get(run, "baseline");
    for (size_t i = 0; i < m->n_arms; i++) {
        m->arms[i].arm = &run->arms[i];
        if (baseline && strcmp(run->arms[i].name, baseline) == 0)
            m->baseline = i;
    }
    fill_trials(m);
    for (size_t i = 0; i < m->n_arms; i++)
        fill_arm(m, i);

    for (size_t i = 0; i < m->n_arms; i++) {
        find_lost_trials(m, &m->arms[i]);
        for (const struct pqs_verdict *v = pqs_verdicts; v->id; v++)
            merge_findings(m, &m->arms[i], v);
        find_of_arm(m, &m->arms[i]);
        find_few_samples(m, &m->arms[i]);
    }
    if (m->n_trials < (size_t)m->blocks * m->n_arms)
        add_finding(m, pqs_verdict_find("interrupted"), NULL,
                    pqs_format("%zu of %zu trials were run", m->n_trials, (size_t)m->blocks * m->n_arms), 0, 0);
    for (size_t i = 0; i < m->n_arms; i++) {
        if (i == m->baseline)
            continue;
        find_undeclared(m, &m->arms[i]);
        for (size_t k = 0; k < PQS_METRICS; k++)
            if (pqs_metrics[k].compared)
                compare(m, i, k);
    }
    find_level_drift(m);
    find_environment_changes(m);
    if (pqs_model_unfit(m))
        m->verdict = PQS_UNFIT;
    return m;
}

void pqs_model_free(struct pqs_model *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->n_arms; i++)
        pqs_result_release(&m->arms[i].pooled);
    for (size_t i = 0; i < m->n_trials; i++)
        free(m->trials[i].findings);
    for (size_t i = 0; i < m->n_findings; i++)
        free(m->findings[i].text);
    free(m->arms);
    free(m->trials);
    free(m->comparisons);
    free(m->findings);
    free(m->changed);
    free(m);
}

bool pqs_model_unfit(const struct pqs_model *m) {
    bool unfit = pqs_model_first(m) == NULL;
    for (size_t i = 0; i < m->n_arms; i++)
        unfit = unfit || m->arms[i].verdict == PQS_UNFIT || !isfinite(m->arms[i].metrics[PQS_METRIC_PRIMARY].value);
    for (size_t i = 0; i < m->n_comparisons; i++) /* the question was not answered */
        unfit = unfit || (m->comparisons[i].metric == PQS_METRIC_PRIMARY && m->comparisons[i].paired.n == 0);
    return unfit;
}
