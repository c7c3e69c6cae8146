/* summary.json: the contract "pqshake/summary/1" (docs/SUMMARY.md, docs/summary.schema.json). What is not known is null.
 * Must not know: how a figure is computed. */
#include "report/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "verdict/fitness.h"

static const char *const library_facts[] = {"stack", "header_version", "library_version", "library", "build_id", NULL};

static void write_library(struct pqs_json *j, const char *key, const struct pqs_trial *first, enum pqs_side side) {
    if (!first || !pqs_result_fact_of(&first->result, side, "stack", NULL)) {
        pqs_json_null(j, key);
        return;
    }
    pqs_json_object(j, key);
    for (const char *const *name = library_facts; *name; name++)
        pqs_json_str(j, *name, pqs_result_fact_of(&first->result, side, *name, NULL));
    pqs_json_end_object(j);
}

static void write_tool(struct pqs_json *j, const struct pqs_model *m) {
    const struct pqs_trial *first = pqs_model_first(m);
    pqs_json_object(j, "tool");
    pqs_json_str(j, "version", pqs_run_get(m->run, "tool.version"));
    pqs_json_str(j, "git_commit", pqs_run_get(m->run, "tool.git_commit"));
    pqs_json_str(j, "command", pqs_run_get(m->run, "command"));
    pqs_json_object(j, "library");
    for (enum pqs_side side = PQS_CLIENT; side <= PQS_SERVER; side++)
        write_library(j, pqs_side_names[side], first, side);
    pqs_json_end_object(j);
    pqs_json_end_object(j);
}

/* The facts whose name starts with prefix, without it. */
static void write_machine(struct pqs_json *j, const char *key, const struct pqs_result *r, enum pqs_side side,
                          const char *prefix) {
    pqs_json_object(j, key);
    for (size_t i = 0; i < r->n_facts; i++) {
        const struct pqs_fact *f = &r->facts[i];
        if (f->side == side && strncmp(f->name, prefix, strlen(prefix)) == 0)
            pqs_json_str(j, f->name + strlen(prefix), f->value);
    }
    pqs_json_end_object(j);
}

/* What doctor says against the machine of a side, as far as the facts that its worker took allow; "both" where two sides say the
 * same. */
static void write_warnings(struct pqs_json *j, const struct pqs_result *first) {
    struct pqs_result facts[2] = {0};
    for (size_t i = 0; i < first->n_facts; i++) {
        const struct pqs_fact *f = &first->facts[i];
        bool machine = strncmp(f->name, "env.", 4) == 0;
        pqs_result_fact(&facts[f->side], PQS_CLIENT, machine ? f->name + 4 : f->name, f->value, 1);
    }
    for (const struct pqs_fitness_check *c = pqs_fitness_checks; c->id; c++) {
        char texts[2][512] = {"", ""};
        bool bad[2];
        for (enum pqs_side side = PQS_CLIENT; side <= PQS_SERVER; side++)
            bad[side] = c->check(&facts[side], texts[side], sizeof texts[side]) >= PQS_FIT_NOTE;
        bool both = bad[PQS_CLIENT] && bad[PQS_SERVER] && strcmp(texts[0], texts[1]) == 0;
        for (enum pqs_side side = PQS_CLIENT; side <= (both ? PQS_CLIENT : PQS_SERVER); side++) {
            if (!bad[side])
                continue;
            PQS_FREE char *text =
                pqs_format("%s: %s: %s. %s", both ? "both" : pqs_side_names[side], c->title, texts[side], c->spoils);
            pqs_json_str(j, NULL, text);
        }
    }
    pqs_result_release(&facts[PQS_CLIENT]);
    pqs_result_release(&facts[PQS_SERVER]);
}

static void write_environment(struct pqs_json *j, const struct pqs_model *m) {
    const struct pqs_trial *first = pqs_model_first(m), *last = first;
    for (size_t i = 0; i < m->n_trials; i++)
        if (m->trials[i].trial->state == PQS_TRIAL_FINISHED)
            last = m->trials[i].trial;
    pqs_json_object(j, "environment");
    for (enum pqs_side side = PQS_CLIENT; side <= PQS_SERVER; side++) {
        if (!first || !pqs_result_fact_of(&first->result, side, "stack", NULL)) {
            pqs_json_null(j, pqs_side_names[side]); /* no worker of ours on that side */
            continue;
        }
        pqs_json_object(j, pqs_side_names[side]);
        write_library(j, "library", first, side);
        pqs_json_str(j, "via", pqs_result_fact_of(&first->result, side, "via", NULL));
        pqs_json_str(j, "threads", pqs_result_fact_of(&first->result, side, "threads", NULL));
        pqs_json_str(j, "cpus", pqs_result_fact_of(&first->result, side, "cpus", NULL));
        write_machine(j, "machine", &first->result, side, "env.");
        write_machine(j, "machine_after", &last->result, side, "env_after.");
        pqs_json_end_object(j);
    }
    pqs_json_str(j, "changed", *m->changed ? m->changed : NULL);
    pqs_json_array(j, "warnings");
    if (first)
        write_warnings(j, &first->result);
    pqs_json_end_array(j);
    pqs_json_end_object(j);
}

static void write_plan(struct pqs_json *j, const struct pqs_model *m) {
    static const char *const texts[] = {"workload", "seed", "arrivals", "target", "started_utc", NULL};
    static const char *const numbers[] = {"rate_per_s", "warmup_ns", "duration_ns", "timeout_ns", "threads", NULL};
    pqs_json_object(j, "plan");
    for (const char *const *name = texts; *name; name++)
        pqs_json_str(j, *name,
                     pqs_run_get(m->run, *name)); /* the seed is text: 64 bits do not fit a JSON number everywhere */
    for (const char *const *name = numbers; *name; name++)
        pqs_json_num(j, *name, pqs_model_number(m, *name));
    pqs_json_int(j, "blocks", m->blocks);
    pqs_json_str(j, "baseline", m->n_arms > 0 ? m->arms[m->baseline].arm->name : NULL);
    pqs_json_bool(j, "insecure", pqs_model_any(m, "insecure", "yes"));
    pqs_json_bool(j, "handshake_only", pqs_model_any(m, "handshake_only", "yes"));
    pqs_json_end_object(j);
}

/* ---- arms ---- */

static int64_t count_of(const struct pqs_model_arm *arm, const char *name) {
    return pqs_result_get(&arm->pooled, PQS_CLIENT, name, 0);
}

static void write_trial(struct pqs_json *j, const struct pqs_model_arm *arm, const struct pqs_model_trial *t) {
    pqs_json_object(j, NULL);
    pqs_json_int(j, "block", t->trial->block);
    pqs_json_int(j, "order", t->trial->position);
    pqs_json_str(j, "state", pqs_trial_state_names[t->trial->state]);
    pqs_json_str(j, "verdict", pqs_severity_names[t->verdict]);
    pqs_json_array(j, "reasons");
    for (size_t i = 0; i < t->n_findings; i++)
        pqs_json_str(j, NULL, t->findings[i].verdict->id);
    pqs_json_end_array(j);
    pqs_json_str(j, "note", *t->trial->note ? t->trial->note : NULL);
    pqs_json_str(j, "started_utc", t->trial->started_utc);
    pqs_json_int(j, "completed", pqs_result_get(&t->trial->result, PQS_CLIENT, "completed", 0));
    pqs_json_object(j, "request_ns");
    struct pqs_metric metric = {.phase = PQS_PHASE_REQUEST, .stat = "mean"};
    pqs_json_num(j, "mean", pqs_model_value(&t->trial->result, arm->class, &metric));
    for (const struct pqs_quantile *q = pqs_quantiles; q->id; q++) {
        metric.stat = q->id;
        pqs_json_num(j, q->id, pqs_model_value(&t->trial->result, arm->class, &metric));
    }
    metric.stat = "max";
    pqs_json_num(j, "max", pqs_model_value(&t->trial->result, arm->class, &metric));
    pqs_json_end_object(j);
    pqs_json_end_object(j);
}

static void write_counts(struct pqs_json *j, const struct pqs_model_arm *arm) {
    static const char *const names[] = {"scheduled", "started", "dropped", "unstarted", "completed", NULL};
    static const char failed[] = "failed.";
    pqs_json_object(j, "counts");
    for (const char *const *name = names; *name; name++)
        pqs_json_int(j, *name, count_of(arm, *name));
    pqs_json_object(j, "failed");
    for (size_t i = 0; i < arm->pooled.n_counters; i++) {
        const struct pqs_counter *c = &arm->pooled.counters[i];
        if (c->side == PQS_CLIENT && c->value != 0 && strncmp(c->name, failed, strlen(failed)) == 0)
            pqs_json_int(j, c->name + strlen(failed), c->value);
    }
    pqs_json_end_object(j);
    pqs_json_end_object(j);
}

static void write_fact_counts(struct pqs_json *j, const struct pqs_model_arm *arm, const char *key, const char *fact) {
    pqs_json_object(j, key);
    for (size_t i = 0; i < arm->pooled.n_facts; i++) {
        const struct pqs_fact *f = &arm->pooled.facts[i];
        if (f->side == PQS_CLIENT && strcmp(f->name, fact) == 0)
            pqs_json_int(j, f->value, (int64_t)f->n);
    }
    pqs_json_end_object(j);
}

static void write_negotiated(struct pqs_json *j, const struct pqs_model_arm *arm) {
    pqs_json_object(j, "negotiated");
    write_fact_counts(j, arm, "groups", "group");
    write_fact_counts(j, arm, "ciphers", "cipher");
    write_fact_counts(j, arm, "signatures", "signature");
    pqs_json_int(j, "resumed", count_of(arm, "resumed"));
    pqs_json_int(j, "early_data", count_of(arm, "early_data"));
    pqs_json_int(j, "hello_retry", count_of(arm, "retries"));
    pqs_json_int(j, "verified", count_of(arm, "verified"));
    pqs_json_end_object(j);
}

static void write_latency(struct pqs_json *j, const char *key, const struct pqs_latency *l) {
    pqs_json_object(j, key);
    pqs_json_int(j, "n", (int64_t)l->n);
    pqs_json_num(j, "min", l->min);
    pqs_json_num(j, "mean", l->mean.value);
    for (size_t i = 0; i < PQS_QUANTILES_MAX && pqs_quantiles[i].id; i++)
        pqs_json_num(j, pqs_quantiles[i].id, l->quantiles[i].value);
    pqs_json_num(j, "max", l->max);
    pqs_json_array(j, "pooled");
    if (l->mean.pooled)
        pqs_json_str(j, NULL, "mean");
    for (size_t i = 0; i < PQS_QUANTILES_MAX && pqs_quantiles[i].id; i++)
        if (l->quantiles[i].pooled)
            pqs_json_str(j, NULL, pqs_quantiles[i].id);
    pqs_json_end_array(j);
    pqs_json_end_object(j);
}

/* The published headline beside ours: median and range of the trials' figures, where every finished trial has one. */
static void write_by_trial(struct pqs_json *j, const struct pqs_model *m, size_t arm) {
    pqs_json_object(j, "by_trial");
    for (const struct pqs_quantile *q = pqs_quantiles; q->id; q++) {
        struct pqs_spread s = pqs_model_spread(m, arm, q->id);
        pqs_json_object(j, q->id);
        pqs_json_num(j, "median", s.median);
        pqs_json_num(j, "min", s.min);
        pqs_json_num(j, "max", s.max);
        pqs_json_end_object(j);
    }
    pqs_json_end_object(j);
}

/* A metric from a counter; when it is null, KEY_reason says why. */
static void write_cost(struct pqs_json *j, const struct pqs_model_arm *arm, const char *key, const char *reason_key,
                       const char *id) {
    size_t metric = pqs_metric_find(id);
    pqs_json_num(j, key, arm->metrics[metric].value);
    const char *why = pqs_model_why_not(arm, &pqs_metrics[metric]);
    if (why)
        pqs_json_str(j, reason_key, why);
}

static void write_arm(struct pqs_json *j, const struct pqs_model *m, size_t index) {
    const struct pqs_model_arm *arm = &m->arms[index];
    pqs_json_object(j, NULL);
    pqs_json_str(j, "name", arm->arm->name);
    pqs_json_object(j, "factors");
    for (size_t i = 0; i < arm->arm->n_levels; i++)
        pqs_json_str(j, arm->arm->levels[i].factor, arm->arm->levels[i].level);
    pqs_json_end_object(j);
    pqs_json_bool(j, "baseline", index == m->baseline);
    const struct pqs_trial *first = pqs_model_first_of(m, index);
    pqs_json_object(j, "library");
    for (enum pqs_side side = PQS_CLIENT; side <= PQS_SERVER; side++)
        write_library(j, pqs_side_names[side], first, side);
    pqs_json_end_object(j);
    pqs_json_str(j, "verdict", pqs_severity_names[arm->verdict]);
    pqs_json_array(j, "reasons");
    for (size_t i = 0; i < m->n_findings; i++)
        if (m->findings[i].arm == arm)
            pqs_json_str(j, NULL, m->findings[i].verdict->id);
    pqs_json_end_array(j);
    pqs_json_array(j, "trials");
    for (size_t i = 0; i < m->n_trials; i++)
        if (m->trials[i].trial->arm == index)
            write_trial(j, arm, &m->trials[i]);
    pqs_json_end_array(j);
    pqs_json_num(j, "offered_per_s", arm->offered_per_s);
    pqs_json_num(j, "achieved_per_s", arm->achieved_per_s);
    write_counts(j, arm);
    write_negotiated(j, arm);
    pqs_json_str(j, "class", pqs_class_names[arm->class]);
    pqs_json_object(j, "latency_ns");
    for (enum pqs_class c = 0; c < PQS_CLASSES; c++) {
        bool any = c == arm->class; /* the headline is there even without samples: its n says 0 */
        for (enum pqs_phase phase = 0; phase < PQS_PHASES; phase++)
            any = any || arm->latency[c][phase].n > 0;
        if (!any)
            continue;
        pqs_json_object(j, pqs_class_names[c]);
        for (enum pqs_phase phase = 0; phase < PQS_PHASES; phase++)
            write_latency(j, pqs_phase_names[phase], &arm->latency[c][phase]);
        pqs_json_end_object(j);
    }
    pqs_json_end_object(j);
    write_by_trial(j, m, index);
    pqs_json_object(j, "bytes");
    write_cost(j, arm, "to_server", "to_server_reason", "bytes.to_server");
    write_cost(j, arm, "to_client", "to_client_reason", "bytes.to_client");
    pqs_json_end_object(j);
    pqs_json_object(j, "cpu_ns");
    write_cost(j, arm, "client", "client_reason", "cpu_ns.client");
    write_cost(j, arm, "server", "server_reason", "cpu_ns.server");
    pqs_json_num(j, "client_busy", arm->client_busy);
    pqs_json_num(j, "server_busy", arm->server_busy);
    pqs_json_end_object(j);
    pqs_json_end_object(j);
}

static void write_interval(struct pqs_json *j, const char *key, double lo, double hi) {
    if (!isfinite(lo) || !isfinite(hi)) {
        pqs_json_null(j, key);
        return;
    }
    pqs_json_array(j, key);
    pqs_json_num(j, NULL, lo);
    pqs_json_num(j, NULL, hi);
    pqs_json_end_array(j);
}

static void write_comparison(struct pqs_json *j, const struct pqs_model *m, const struct pqs_comparison *c) {
    pqs_json_object(j, NULL);
    pqs_json_str(j, "baseline", m->arms[m->baseline].arm->name);
    pqs_json_str(j, "arm", m->arms[c->arm].arm->name);
    pqs_json_str(j, "metric", pqs_metrics[c->metric].id);
    pqs_json_bool(j, "exploratory", c->metric != PQS_METRIC_PRIMARY);
    pqs_json_num(j, "baseline_value", c->baseline_value);
    pqs_json_num(j, "arm_value", c->arm_value);
    pqs_json_num(j, "delta", c->paired.delta);
    write_interval(j, "delta_ci95", c->paired.delta_lo, c->paired.delta_hi);
    pqs_json_num(j, "ratio", c->paired.ratio);
    write_interval(j, "ratio_ci95", c->paired.ratio_lo, c->paired.ratio_hi);
    pqs_json_num(j, "p_value", c->paired.p_value);
    pqs_json_num(j, "detectable", c->paired.detectable);
    pqs_json_int(j, "blocks", (int64_t)c->pairs);
    pqs_json_str(j, "verdict", c->verdict);
    pqs_json_end_object(j);
}

static void write_finding(struct pqs_json *j, const struct pqs_model_finding *f) {
    pqs_json_object(j, NULL);
    pqs_json_str(j, "id", f->verdict->id);
    pqs_json_str(j, "severity", pqs_severity_names[f->verdict->severity]);
    pqs_json_str(j, "arm", f->arm ? f->arm->arm->name : NULL);
    pqs_json_str(j, "text", f->text);
    pqs_json_str(j, "message", f->verdict->message);
    pqs_json_str(j, "advice", f->verdict->advice);
    if (f->of > 0) {
        pqs_json_int(j, "trials", (int64_t)f->trials);
        pqs_json_int(j, "of", (int64_t)f->of);
    }
    pqs_json_end_object(j);
}

void pqs_report_json(const struct pqs_model *m, struct pqs_buf *out) {
    struct pqs_json json = pqs_json_begin(out), *j = &json;
    pqs_json_object(j, NULL);
    pqs_json_str(j, "schema", "pqshake/summary/1");
    pqs_json_str(j, "verdict", pqs_severity_names[m->verdict]);
    write_tool(j, m);
    write_environment(j, m);
    write_plan(j, m);
    pqs_json_array(j, "arms");
    for (size_t i = 0; i < m->n_arms; i++)
        write_arm(j, m, i);
    pqs_json_end_array(j);
    pqs_json_array(j, "comparisons");
    for (size_t i = 0; i < m->n_comparisons; i++)
        write_comparison(j, m, &m->comparisons[i]);
    pqs_json_end_array(j);
    pqs_json_array(j, "findings");
    for (size_t i = 0; i < m->n_findings; i++)
        write_finding(j, &m->findings[i]);
    pqs_json_end_array(j);
    pqs_json_end_object(j);
    pqs_buf_addf(out, "\n");
}
