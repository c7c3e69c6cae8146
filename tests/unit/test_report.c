/* Model and writers over synthetic runs: figures, comparisons, findings, the JSON contract, the text for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "report/report.h"
#include "stats/hist.h"
#include "stats/quantile.h"

/* ---- synthetic runs ---- */

struct shape {
    const char *const *arms; /* the first is the baseline; levels of factor "groups" */
    size_t n_arms;
    uint32_t blocks;
    int samples;      /* completed connections per trial */
    double added_us;  /* what arm i adds to every latency: i times this */
    double wobble_us; /* odd and even trials are shifted by this, one up, one down */
};

static void set(struct pqs_result *r, enum pqs_side side, const char *name, int64_t value) {
    pqs_result_count(r, side, name, value - pqs_result_get(r, side, name, 0));
}

static void add_hist(struct pqs_result *r, enum pqs_class class, enum pqs_phase phase, const double *ns, int n,
                     double part) {
    struct pqs_hist *h = pqs_hist_new();
    for (int i = 0; i < n; i++)
        pqs_hist_add(h, (int64_t)(part * ns[i]));
    pqs_result_hist(r, class, phase, h);
}

/* A trial of an own server over loopback in which everything went well. */
static void fill_trial(struct pqs_trial *t, const struct shape *s, size_t arm, uint32_t block) {
    struct pqs_result *r = &t->result;
    struct pqs_rng rng = pqs_rng_stream(7, "test", block, arm);
    double shift_ns = 1e3 * ((double)arm * s->added_us + ((block + arm) % 2 ? s->wobble_us : -s->wobble_us));
    PQS_FREE double *ns = pqs_calloc((size_t)s->samples + 1, sizeof *ns);
    for (int i = 0; i < s->samples; i++) /* a floor and an exponential tail, which real latencies resemble */
        ns[i] = 800e3 + shift_ns - 300e3 * log(1 - pqs_rng_unit(&rng));
    static const double parts[PQS_PHASES] = {1, 0.98, 0.02, 0.1, 0.7, 0.15, 0.03};
    for (enum pqs_phase phase = 0; phase < PQS_PHASES && s->samples > 0; phase++)
        add_hist(r, PQS_CLASS_FULL, phase, ns, s->samples, parts[phase]);
    double first_ns = 3e6;
    add_hist(r, PQS_CLASS_FIRST, PQS_PHASE_SERVICE, &first_ns, 1, 1);

    static const char *const alike[] = {"scheduled", "started", "completed", "window_completed", "verified"};
    for (size_t i = 0; i < PQS_COUNT(alike); i++)
        set(r, PQS_CLIENT, alike[i], s->samples);
    set(r, PQS_CLIENT, "window_ns", 10000000000);
    set(r, PQS_CLIENT, "drain_ns", 5000000);
    set(r, PQS_CLIENT, "thread_busy_ppm", 100000);
    set(r, PQS_CLIENT, "cpu_ns", s->samples * (int64_t)(210000 + shift_ns / 4));
    set(r, PQS_CLIENT, "bytes_to_server", s->samples * (arm == 0 ? 517 : 1693));
    set(r, PQS_CLIENT, "bytes_to_client", s->samples * (arm == 0 ? 1102 : 2180));
    set(r, PQS_SERVER, "accepted", s->samples);
    set(r, PQS_SERVER, "completed", s->samples);
    set(r, PQS_SERVER, "cpu_ns", s->samples * (int64_t)(180000 + shift_ns / 3));

    uint64_t n = (uint64_t)s->samples;
    pqs_result_fact(r, PQS_CLIENT, "asked.groups", s->arms[arm], 1);
    if (n > 0) {
        pqs_result_fact(r, PQS_CLIENT, "group", s->arms[arm], n);
        pqs_result_fact(r, PQS_CLIENT, "cipher", "TLS_AES_256_GCM_SHA384", n);
        pqs_result_fact(r, PQS_CLIENT, "signature", "ecdsa_secp256r1_sha256", n);
    }
    pqs_result_fact(r, PQS_CLIENT, "target", "own", 1);
    pqs_result_fact(r, PQS_CLIENT, "loopback", "yes", 1);
    for (enum pqs_side side = PQS_CLIENT; side <= PQS_SERVER; side++) {
        pqs_result_fact(r, side, "stack", "openssl", 1);
        pqs_result_fact(r, side, "header_version", "OpenSSL 3.5.4 30 Sep 2025", 1);
        pqs_result_fact(r, side, "library_version", "OpenSSL 3.5.4 30 Sep 2025", 1);
        pqs_result_fact(r, side, "threads", "1", 1);
        pqs_result_fact(r, side, "env.kernel", "6.1.0-18-amd64", 1);
        pqs_result_fact(r, side, "env.cpu_model", "Graviton3", 1);
        pqs_result_fact(r, side, "env.steal_ms", block == 0 ? "0" : "20", 1);
        pqs_result_fact(r, side, "env.governor", "performance", 1);
        pqs_result_fact(r, side, "env_after.governor", "performance", 1);
        pqs_result_fact(r, side, "env_after.steal_ms", block + 1 == s->blocks ? "90" : "30", 1);
    }
}

static void make_run(struct pqs_run *run, const struct shape *s) {
    static const char *const settings[][2] = {{"tool.version", "0.1.0"},
                                              {"tool.git_commit", "75478ca1d2e3"},
                                              {"command", "pqshake tls"},
                                              {"workload", "tls"},
                                              {"seed", "18446744073709551615"},
                                              {"rate_per_s", "300"},
                                              {"arrivals", "poisson"},
                                              {"warmup_ns", "2000000000"},
                                              {"duration_ns", "10000000000"},
                                              {"timeout_ns", "5000000000"},
                                              {"threads", "1"},
                                              {"started_utc", "2026-11-30T19:48:44Z"}};
    for (size_t i = 0; i < PQS_COUNT(settings); i++)
        pqs_run_set(run, settings[i][0], settings[i][1]);
    PQS_FREE char *blocks = pqs_format("%u", s->blocks);
    pqs_run_set(run, "blocks", blocks);
    pqs_run_set(run, "baseline", s->arms[0]);
    for (size_t i = 0; i < s->n_arms; i++) {
        PQS_GROW(run->arms, run->n_arms, run->cap_arms);
        struct pqs_arm *arm = &run->arms[run->n_arms++];
        *arm = (struct pqs_arm){.n_levels = 1};
        snprintf(arm->name, sizeof arm->name, "%s", s->arms[i]);
        snprintf(arm->levels[0].factor, sizeof arm->levels[0].factor, "groups");
        snprintf(arm->levels[0].level, sizeof arm->levels[0].level, "%s", s->arms[i]);
    }
    for (uint32_t block = 0; block < s->blocks; block++) {
        for (size_t k = 0; k < s->n_arms; k++) {
            size_t i = (k + block / 2) % s->n_arms; /* each arm first in some blocks, whatever the wobble */
            PQS_GROW(run->trials, run->n_trials, run->cap_trials);
            struct pqs_trial *t = &run->trials[run->n_trials++];
            *t = (struct pqs_trial){.arm = (uint32_t)i, .block = block, .position = (uint32_t)k};
            fill_trial(t, s, i, block);
        }
    }
}

static struct pqs_trial *trial_of(struct pqs_run *run, uint32_t arm, uint32_t block) {
    for (size_t i = 0; i < run->n_trials; i++)
        if (run->trials[i].arm == arm && run->trials[i].block == block)
            return &run->trials[i];
    fail_msg("no trial of arm %u, block %u", arm, block);
    return NULL;
}

/* n connections failed instead of completing; the histograms keep what they had. */
static void fail_trial(struct pqs_trial *t, const char *counter, int64_t n) {
    struct pqs_result *r = &t->result;
    int64_t left = pqs_result_get(r, PQS_CLIENT, "completed", 0) - n;
    static const char *const names[] = {"completed", "window_completed", "verified"};
    for (size_t i = 0; i < PQS_COUNT(names); i++)
        set(r, PQS_CLIENT, names[i], left);
    set(r, PQS_CLIENT, "failed", n);
    set(r, PQS_CLIENT, counter, n);
    set(r, PQS_SERVER, "completed", left);
}

/* An own process dies: no rows. */
static void kill_trial(struct pqs_trial *t) {
    pqs_result_release(&t->result);
    t->state = PQS_TRIAL_DIED;
    snprintf(t->note, sizeof t->note, "server worker: killed by signal 9 (Killed)");
}

static const char *const two[] = {"X25519", "X25519MLKEM768"};
static const struct shape main_comparison = {
    .arms = two, .n_arms = 2, .blocks = 10, .samples = 3000, .added_us = 331, .wobble_us = 20};

/* ---- a validator for the part of JSON Schema that docs/summary.schema.json uses ---- */

static json_t *load_schema(void) {
    PQS_FREE char *path = pqs_strdup(__FILE__);
    char *tests = strstr(path, "tests/unit/test_report.c");
    assert_non_null(tests);
    *tests = '\0';
    PQS_FREE char *schema_path = pqs_format("%sdocs/summary.schema.json", path);
    json_error_t error;
    json_t *schema = json_load_file(schema_path, JSON_REJECT_DUPLICATES, &error);
    if (!schema)
        fail_msg("%s:%d: %s", schema_path, error.line, error.text);
    return schema;
}

static int type_is(const json_t *v, const char *type) {
    return (strcmp(type, "object") == 0 && json_is_object(v)) || (strcmp(type, "array") == 0 && json_is_array(v)) ||
           (strcmp(type, "string") == 0 && json_is_string(v)) || (strcmp(type, "integer") == 0 && json_is_integer(v)) ||
           (strcmp(type, "number") == 0 && json_is_number(v)) || (strcmp(type, "boolean") == 0 && json_is_boolean(v)) ||
           (strcmp(type, "null") == 0 && json_is_null(v));
}

/* 1 when valid; otherwise reports the path of the first fault. */
static int validate(const json_t *root, const json_t *schema, const json_t *v, const char *path) {
    static const char *const known[] = {"$schema",  "title",    "description", "definitions",          "$ref",
                                        "type",     "required", "const",       "properties",           "items",
                                        "minItems", "enum",     "maxItems",    "additionalProperties", "minimum"};
    const char *key;
    json_t *part;
    json_object_foreach((json_t *)schema, key, part) {
        int found = 0;
        for (size_t i = 0; i < PQS_COUNT(known); i++)
            found |= strcmp(key, known[i]) == 0;
        if (!found)
            fail_msg("the schema says \"%s\", which this validator does not know", key);
    }
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref) {
        const char *name = strrchr(ref, '/') + 1;
        const json_t *target = json_object_get(json_object_get(root, "definitions"), name);
        if (!target)
            fail_msg("the schema has no definition \"%s\"", name);
        return validate(root, target, v, path);
    }
#define BAD(...) return print_error("%s: ", path), print_error(__VA_ARGS__), print_error("\n"), 0
    const json_t *type = json_object_get(schema, "type"), *fixed = json_object_get(schema, "const");
    const json_t *choices = json_object_get(schema, "enum"), *least = json_object_get(schema, "minimum");
    int ok = !type || (json_is_string(type) && type_is(v, json_string_value(type)));
    size_t i;
    json_array_foreach(type, i, part) ok |= type_is(v, json_string_value(part));
    if (!ok)
        BAD("wrong type");
    if (fixed && !json_equal(v, fixed))
        BAD("not the constant");
    ok = !choices;
    json_array_foreach(choices, i, part) ok |= json_equal(v, part);
    if (!ok)
        BAD("\"%s\" is none of the choices", json_is_string(v) ? json_string_value(v) : "?");
    if (least && json_is_number(v) && json_number_value(v) < json_number_value(least))
        BAD("too small");
    if (json_is_array(v)) {
        const json_t *min = json_object_get(schema, "minItems"), *max = json_object_get(schema, "maxItems");
        if ((min && (json_int_t)json_array_size(v) < json_integer_value(min)) ||
            (max && (json_int_t)json_array_size(v) > json_integer_value(max)))
            BAD("%zu items", json_array_size(v));
        json_array_foreach(v, i, part) {
            PQS_FREE char *below = pqs_format("%s[%zu]", path, i);
            const json_t *items = json_object_get(schema, "items");
            if (items && !validate(root, items, part, below))
                return 0;
        }
    }
    if (!json_is_object(v))
        return 1;
    json_array_foreach(json_object_get(schema, "required"), i, part) {
        if (!json_object_get(v, json_string_value(part)))
            BAD("\"%s\" is missing", json_string_value(part));
    }
    json_object_foreach((json_t *)v, key, part) {
        PQS_FREE char *below = pqs_format("%s.%s", path, key);
        const json_t *member = json_object_get(json_object_get(schema, "properties"), key);
        const json_t *others = json_object_get(schema, "additionalProperties");
        if (!member && json_is_false(others))
            BAD("\"%s\" is not in the contract", key);
        if (member ? !validate(root, member, part, below) : (json_is_object(others) && !validate(root, others, part, below)))
            return 0;
    }
    return 1;
#undef BAD
}

/* ---- rendering ---- */

/* The caller frees; valid by the schema, strict, without a NaN in any spelling. */
static json_t *render_json(const struct pqs_run *run) {
    struct pqs_model *m = pqs_model_new(run);
    PQS_BUF text = {0};
    pqs_report_json(m, &text);
    pqs_model_free(m);
    json_error_t error;
    json_t *json = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    if (!json)
        fail_msg("not JSON at byte %d: %s", error.position, error.text);
    assert_null(strcasestr(pqs_buf_text(&text), "nan,"));
    json_t *schema = load_schema();
    assert_true(validate(schema, schema, json, "summary"));
    json_decref(schema);
    return json;
}

static char *render_text(const struct pqs_run *run) {
    struct pqs_model *m = pqs_model_new(run);
    PQS_BUF text = {0};
    pqs_report_markdown(m, &text);
    pqs_model_free(m);
    assert_null(strstr(pqs_buf_text(&text), "nan"));
    assert_null(strstr(pqs_buf_text(&text), "inf "));
    return pqs_strdup(pqs_buf_text(&text));
}

/* Text as if it had never been broken into lines. Heap. */
static char *unwrap(const char *text) {
    char *flat = pqs_strdup(text), *out = flat;
    for (const char *s = text; *s; s++)
        if (*s != '\n' && !(*s == ' ' && out > flat && out[-1] == ' '))
            *out++ = *s;
        else if (*s == '\n')
            *out++ = ' ', s += strspn(s + 1, " ");
    *out = '\0';
    return flat;
}

static void assert_says(const char *text, const char *part) {
    PQS_FREE char *flat = unwrap(text), *flat_part = unwrap(part);
    if (!strstr(flat, flat_part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void assert_silent(const char *text, const char *part) {
    if (strstr(text, part))
        fail_msg("\"%s\" should not be in:\n%s", part, text);
}

static void assert_width(const char *text, size_t width) {
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        if (strcspn(line, "\n") > width)
            fail_msg("%zu columns: %.*s", strcspn(line, "\n"), (int)strcspn(line, "\n"), line);
}

/* Follows keys and, where a key is a number, array indices; ends with NULL. */
static json_t *at(json_t *v, ...) {
    va_list keys;
    va_start(keys, v);
    for (const char *key = va_arg(keys, const char *); key; key = va_arg(keys, const char *)) {
        v = json_is_array(v) ? json_array_get(v, strtoul(key, NULL, 10)) : json_object_get(v, key);
        if (!v)
            fail_msg("there is no \"%s\"", key);
    }
    va_end(keys);
    return v;
}

static json_t *comparison_of(json_t *json, const char *arm, const char *metric) {
    size_t i;
    json_t *c;
    json_array_foreach(at(json, "comparisons", NULL), i, c) {
        if (strcmp(json_string_value(at(c, "arm", NULL)), arm) == 0 &&
            strcmp(json_string_value(at(c, "metric", NULL)), metric) == 0)
            return c;
    }
    return NULL;
}

/* The finding's text, or NULL. arm may be NULL for any. */
static const char *finding_of(json_t *json, const char *id, const char *arm) {
    size_t i;
    json_t *f;
    json_array_foreach(at(json, "findings", NULL), i, f) {
        const char *of = json_string_value(at(f, "arm", NULL));
        if (strcmp(json_string_value(at(f, "id", NULL)), id) == 0 && (!arm || (of && strcmp(of, arm) == 0)))
            return json_string_value(at(f, "text", NULL));
    }
    return NULL;
}

static double number(json_t *v) {
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static void assert_text(json_t *v, const char *want) {
    assert_true(json_is_string(v));
    assert_string_equal(json_string_value(v), want);
}

/* ---- tests ---- */

static void test_main_comparison(void **state) {
    (void)state;
    struct pqs_run run = {0};
    make_run(&run, &main_comparison);
    json_t *json = render_json(&run);

    assert_text(at(json, "schema", NULL), "pqshake/summary/1");
    assert_text(at(json, "verdict", NULL), "valid");
    assert_text(at(json, "plan", "seed", NULL), "18446744073709551615");
    assert_text(at(json, "tool", "library", "client", "library_version", NULL), "OpenSSL 3.5.4 30 Sep 2025");
    assert_text(at(json, "environment", "server", "machine", "cpu_model", NULL), "Graviton3");
    assert_text(at(json, "environment", "server", "machine", "steal_ms", NULL), "0");
    assert_text(at(json, "environment", "server", "machine_after", "steal_ms", NULL), "90"); /* of the last trial */
    assert_null(json_object_get(at(json, "environment", "server", "machine_after", NULL), "cpu_model"));
    assert_true(json_is_null(at(json, "environment", "changed", NULL))); /* steal_ms moves by itself */
    assert_int_equal(json_array_size(at(json, "arms", "0", "trials", NULL)), 10);
    assert_int_equal(json_integer_value(at(json, "arms", "1", "counts", "completed", NULL)), 30000);
    assert_int_equal(json_integer_value(at(json, "arms", "1", "negotiated", "groups", "X25519MLKEM768", NULL)), 30000);
    assert_true(fabs(number(at(json, "arms", "0", "offered_per_s", NULL)) - 300) < 1e-9);
    assert_true(fabs(number(at(json, "arms", "1", "bytes", "to_server", NULL)) - 1693) < 1e-9);

    /* An arm's figure is the mean over its trials' figures, and the delta is exactly the difference of two figures. */
    double sum = 0;
    for (int i = 0; i < 10; i++) {
        PQS_FREE char *index = pqs_format("%d", i);
        sum += number(at(json, "arms", "1", "trials", index, "request_ns", "p50", NULL));
    }
    double x = number(at(json, "arms", "0", "latency_ns", "full", "request", "p50", NULL));
    double y = number(at(json, "arms", "1", "latency_ns", "full", "request", "p50", NULL));
    assert_true(fabs(y - sum / 10) < 1e-6);
    json_t *c = comparison_of(json, "X25519MLKEM768", "request.p50");
    assert_non_null(c);
    assert_true(number(at(c, "delta", NULL)) == y - x);
    assert_true(fabs(number(at(c, "delta", NULL)) - 331e3) < 40e3);
    assert_true(number(at(c, "delta_ci95", "0", NULL)) > 0);
    assert_text(at(c, "verdict", NULL), "differs");
    assert_true(json_is_false(at(c, "exploratory", NULL)));
    assert_int_equal(json_integer_value(at(c, "blocks", NULL)), 10);
    static const char *const metrics[] = {"request.mean",  "request.p99",     "service.p50",
                                          "tls.p50",       "connect.p50",     "cpu_ns.client",
                                          "cpu_ns.server", "bytes.to_server", "bytes.to_client"};
    for (size_t i = 0; i < PQS_COUNT(metrics); i++) {
        c = comparison_of(json, "X25519MLKEM768", metrics[i]);
        assert_non_null(c);
        assert_true(json_is_true(at(c, "exploratory", NULL)));
        assert_true(number(at(c, "delta", NULL)) ==
                    number(at(c, "arm_value", NULL)) - number(at(c, "baseline_value", NULL)));
    }

    /* 3000 samples a trial cannot carry p99.9, 30000 together can: shown, marked, not compared. */
    assert_null(comparison_of(json, "X25519MLKEM768", "request.p999"));
    assert_true(json_is_number(at(json, "arms", "0", "latency_ns", "full", "request", "p999", NULL)));
    assert_text(at(json, "arms", "0", "latency_ns", "full", "request", "pooled", "0", NULL), "p999");
    assert_int_equal(json_array_size(at(json, "arms", "0", "latency_ns", "full", "request", "pooled", NULL)), 1);
    assert_true(json_is_null(at(json, "arms", "0", "trials", "0", "request_ns", "p999", NULL)));
    json_decref(json);

    PQS_FREE char *text = render_text(&run);
    assert_width(text, 100);
    assert_says(text, "# pqshake tls: 300/s (poisson), 10 blocks x 10 s, own server\n\nStarted 2026-11-30T19:48:44Z, seed ");
    assert_says(text, "- X25519MLKEM768 adds 3");
    assert_says(text, " to the median request (p50 1.0");
    assert_says(text, " over 10 blocks).");
    assert_says(text, "| p50 (primary) ");
    assert_says(text, "ms (p) |");
    assert_says(text, "+1176");
    assert_says(text, "## Verdict: valid");
    assert_silent(text, "UNFIT");
    assert_silent(text, "INSECURE");
    struct pqs_model *m = pqs_model_new(&run);
    assert_false(pqs_model_unfit(m));
    pqs_model_free(m);
    pqs_run_release(&run);
}

static void test_no_difference(void **state) {
    (void)state;
    static const char *const aa[] = {"X25519", "X25519 (again)"};
    struct shape s = main_comparison;
    s.arms = aa;
    s.added_us = 0;
    struct pqs_run run = {0};
    make_run(&run, &s);
    for (size_t i = 0; i < run.n_trials; i++) { /* the arm asks for the same group under another name */
        struct pqs_result *r = &run.trials[i].result;
        for (size_t k = 0; k < r->n_facts; k++)
            if (strstr(r->facts[k].name, "group"))
                snprintf(r->facts[k].value, sizeof r->facts[k].value, "X25519");
    }
    json_t *json = render_json(&run);
    json_t *c = comparison_of(json, "X25519 (again)", "request.p50");
    assert_text(at(c, "verdict", NULL), "no detectable difference");
    assert_true(number(at(c, "delta_ci95", "0", NULL)) < 0 && number(at(c, "delta_ci95", "1", NULL)) > 0);
    assert_true(number(at(c, "detectable", NULL)) > 0);
    json_decref(json);
    PQS_FREE char *text = render_text(&run);
    assert_width(text, 100);
    assert_says(text, "No detectable difference in request p50 between X25519 and X25519 (again) (");
    assert_says(text, "could have seen");
    assert_says(text, "In parentheses: no detectable difference");
    pqs_run_release(&run);
}

/* F21: what a sample cannot support is null with its n, never a number. */
static void test_sample_sizes(void **state) {
    (void)state;
    static const int sizes[] = {0, 1, 7, 999, 1000};
    for (size_t k = 0; k < PQS_COUNT(sizes); k++) {
        struct shape s = main_comparison;
        s.blocks = 1;
        s.samples = sizes[k];
        struct pqs_run run = {0};
        make_run(&run, &s);
        json_t *json = render_json(&run);
        json_t *request = at(json, "arms", "0", "latency_ns", "full", "request", NULL);
        assert_int_equal(json_integer_value(at(request, "n", NULL)), sizes[k]);
        for (const struct pqs_quantile *q = pqs_quantiles; q->id; q++) {
            int supported = (uint64_t)sizes[k] >= q->min_n;
            assert_int_equal(json_is_number(at(request, q->id, NULL)), supported);
            assert_int_equal(json_is_null(at(request, q->id, NULL)), !supported);
            assert_int_equal(json_is_null(at(json, "arms", "0", "trials", "0", "request_ns", q->id, NULL)), !supported);
            assert_int_equal(json_is_null(at(json, "arms", "0", "by_trial", q->id, "median", NULL)), !supported);
        }
        assert_int_equal(json_is_null(at(request, "mean", NULL)), sizes[k] == 0);
        assert_int_equal(json_is_null(at(request, "min", NULL)), sizes[k] == 0);
        assert_int_equal(json_is_null(at(json, "arms", "0", "cpu_ns", "client", NULL)), sizes[k] == 0);
        json_t *c = comparison_of(json, "X25519MLKEM768", "request.p50");
        assert_true(json_is_null(at(c, "delta_ci95", NULL)) && json_is_null(at(c, "p_value", NULL)));
        assert_int_equal(json_is_number(at(c, "delta", NULL)), sizes[k] >= 20);
        assert_text(at(c, "verdict", NULL), sizes[k] == 0 ? "unfit" : "no interval");
        assert_int_equal(comparison_of(json, "X25519MLKEM768", "request.p99") != NULL, sizes[k] == 1000);
        assert_int_equal(finding_of(json, "few-samples", "X25519") != NULL, sizes[k] == 1 || sizes[k] == 7);
        assert_non_null(finding_of(json, "few-blocks", "X25519MLKEM768"));
        json_decref(json);

        PQS_FREE char *text = render_text(&run);
        assert_width(text, 100);
        if (sizes[k] == 0)
            assert_says(text, "cannot be compared with X25519: there is no block in which both are valid.");
        else if (sizes[k] < 20)
            assert_says(text, "too few samples for a median");
        else
            assert_says(text, "but 1 block gives no interval");
        assert_int_equal(strstr(text, "| p99 ") != NULL, sizes[k] == 1000);
        pqs_run_release(&run);
    }
}

static void test_all_failed(void **state) {
    (void)state;
    struct shape s = main_comparison;
    s.samples = 0;
    struct pqs_run run = {0};
    make_run(&run, &s);
    for (size_t i = 0; i < run.n_trials; i++) {
        set(&run.trials[i].result, PQS_CLIENT, "scheduled", 200);
        set(&run.trials[i].result, PQS_CLIENT, "started", 200);
        set(&run.trials[i].result, PQS_CLIENT, "failed", 200);
        set(&run.trials[i].result, PQS_CLIENT, "failed.tls.alert_certificate_required", 200);
        set(&run.trials[i].result, PQS_SERVER, "accepted", 200);
    }
    json_t *json = render_json(&run);
    assert_text(at(json, "verdict", NULL), "unfit");
    assert_int_equal(json_integer_value(at(json, "arms", "0", "counts", "completed", NULL)), 0);
    assert_int_equal(json_integer_value(at(json, "arms", "0", "counts", "failed", "tls.alert_certificate_required", NULL)),
                     2000);
    assert_true(json_is_null(at(json, "arms", "0", "latency_ns", "full", "request", "mean", NULL)));
    assert_text(at(json, "arms", "0", "cpu_ns", "server_reason", NULL), "nothing completed");
    assert_non_null(finding_of(json, "no-data", "X25519"));
    assert_text(at(comparison_of(json, "X25519MLKEM768", "request.p50"), "verdict", NULL), "unfit");
    json_decref(json);
    PQS_FREE char *text = render_text(&run);
    assert_width(text, 100);
    assert_says(text, "client certificate required");
    assert_says(text, "X25519 UNFIT");
    assert_silent(text, "of each trial");
    assert_says(text, "- UNFIT: do not rely on these figures");
    struct pqs_model *m = pqs_model_new(&run);
    assert_true(pqs_model_unfit(m));
    pqs_model_free(m);
    pqs_run_release(&run);
}

/* Hopeless trials are cut short: the rate that was asked for is still that of the plan's window. */
static void test_cut_short(void **state) {
    (void)state;
    struct pqs_run run = {0};
    make_run(&run, &main_comparison);
    for (uint32_t b = 0; b < 10; b++) {
        struct pqs_result *r = &trial_of(&run, 1, b)->result;
        set(r, PQS_CLIENT, "cut_short", 1);
        set(r, PQS_CLIENT, "window_ns", 2000000000);
        set(r, PQS_CLIENT, "scheduled", 300000);
        set(r, PQS_CLIENT, "unstarted", 297000);
    }
    json_t *json = render_json(&run);
    assert_true(fabs(number(at(json, "arms", "1", "offered_per_s", NULL)) - 30000) < 1e-6);
    assert_true(fabs(number(at(json, "arms", "1", "achieved_per_s", NULL)) - 1500) < 1e-6);
    assert_string_equal(finding_of(json, "cut-short", "X25519MLKEM768"), "ended after 2.0 s with 297000 arrivals not begun");
    assert_string_equal(finding_of(json, "generator-limited", "X25519MLKEM768"), "started 1.0 % of 300000 arrivals");
    json_decref(json);
    PQS_FREE char *text = render_text(&run);
    assert_width(text, 100);
    assert_says(text, "| unstarted ");
    pqs_run_release(&run);
}

/* A block that loses an arm loses the pair; the arm's figures still show every finished trial. */
static void test_lost_pairs(void **state) {
    (void)state;
    struct pqs_run run = {0};
    make_run(&run, &main_comparison);
    kill_trial(trial_of(&run, 0, 2));
    fail_trial(trial_of(&run, 1, 5), "failed.tls.timeout", 90); /* 3 %: unfit */
    json_t *json = render_json(&run);
    json_t *c = comparison_of(json, "X25519MLKEM768", "request.p50");
    assert_int_equal(json_integer_value(at(c, "blocks", NULL)), 8);
    assert_text(at(c, "verdict", NULL), "differs");
    assert_text(at(json, "arms", "0", "verdict", NULL), "warning");
    assert_text(at(json, "arms", "1", "verdict", NULL), "unfit");
    assert_text(at(json, "verdict", NULL), "unfit");
    assert_text(at(json, "arms", "0", "trials", "2", "state", NULL), "died");
    assert_text(at(json, "arms", "1", "trials", "5", "verdict", NULL), "unfit");
    assert_string_equal(finding_of(json, "lost-trial", "X25519"),
                        "that of block 2 died (server worker: killed by signal 9 (Killed))");
    assert_string_equal(finding_of(json, "failures", "X25519MLKEM768"), "90 of 3000 connections failed (3.0 %)");
    double sum = 0;
    for (int i = 0; i < 10; i++) {
        PQS_FREE char *index = pqs_format("%d", i);
        sum += number(at(json, "arms", "1", "trials", index, "request_ns", "p50", NULL));
    }
    assert_true(fabs(number(at(json, "arms", "1", "latency_ns", "full", "request", "p50", NULL)) - sum / 10) < 1e-6);
    json_decref(json);
    PQS_FREE char *text = render_text(&run);
    assert_width(text, 100);
    assert_says(text, "over the 8 of 10 blocks in which");
    assert_says(text, "failures: 90 of 3000 connections failed (3.0 %) (in 1 of 10 trials)");

    /* One more arm unfit in every block: no pair, no comparison. */
    for (uint32_t b = 0; b < 10; b++)
        if (b != 2)
            set(&trial_of(&run, 0, b)->result, PQS_CLIENT, "clock_faults", 1);
    json = render_json(&run);
    c = comparison_of(json, "X25519MLKEM768", "request.p50");
    assert_true(json_is_null(at(c, "delta", NULL)));
    assert_text(at(c, "verdict", NULL), "unfit");
    assert_null(comparison_of(json, "X25519MLKEM768", "request.mean"));
    json_decref(json);
    pqs_run_release(&run);
}

static void test_interrupted_and_lost(void **state) {
    (void)state;
    struct shape s = main_comparison;
    s.blocks = 3;
    struct pqs_run run = {0};
    make_run(&run, &s);
    pqs_run_set(&run, "blocks", "10");
    json_t *json = render_json(&run);
    assert_string_equal(finding_of(json, "interrupted", NULL), "6 of 20 trials were run");
    assert_string_equal(finding_of(json, "few-blocks", "X25519MLKEM768"), "3 valid blocks with the baseline");
    assert_text(at(json, "verdict", NULL), "warning");
    assert_text(at(comparison_of(json, "X25519MLKEM768", "request.p50"), "verdict", NULL), "no interval");
    assert_true(json_is_number(at(comparison_of(json, "X25519MLKEM768", "request.p50"), "delta", NULL)));
    json_decref(json);

    for (uint32_t b = 0; b < 3; b++)
        kill_trial(trial_of(&run, 1, b));
    json = render_json(&run);
    assert_text(at(json, "arms", "1", "verdict", NULL), "unfit");
    assert_non_null(finding_of(json, "no-trial", "X25519MLKEM768"));
    json_decref(json);
    pqs_run_release(&run);

    /* Nothing was run at all. */
    struct pqs_run empty = {0};
    json = render_json(&empty);
    assert_text(at(json, "verdict", NULL), "unfit");
    json_decref(json);
    PQS_FREE char *text = render_text(&empty);
    assert_says(text, "UNFIT");
    pqs_run_release(&empty);
}

static void test_undeclared_and_changes(void **state) {
    (void)state;
    struct pqs_run run = {0};
    make_run(&run, &main_comparison);
    for (uint32_t b = 0; b < 10; b++)
        for (size_t k = 0; k < trial_of(&run, 1, b)->result.n_facts; k++) {
            struct pqs_fact *f = &trial_of(&run, 1, b)->result.facts[k];
            if (strcmp(f->name, "cipher") == 0)
                snprintf(f->value, sizeof f->value, "TLS_CHACHA20_POLY1305_SHA256");
            if (strcmp(f->name, "env.kernel") == 0 && b == 9 && f->side == PQS_SERVER)
                snprintf(f->value, sizeof f->value, "6.2");
            if (strcmp(f->name, "env_after.governor") == 0 && b == 0 && f->side == PQS_CLIENT)
                snprintf(f->value, sizeof f->value, "powersave");
        }
    json_t *json = render_json(&run);
    assert_string_equal(finding_of(json, "undeclared", "X25519MLKEM768"),
                        "cipher: TLS_AES_256_GCM_SHA384 / TLS_CHACHA20_POLY1305_SHA256");
    assert_text(at(json, "environment", "changed", NULL), "client env.governor; server env.kernel");
    assert_non_null(finding_of(json, "environment-changed", NULL));
    assert_text(at(json, "verdict", NULL), "warning");
    json_decref(json);
    pqs_run_release(&run);
}

static void test_foreign_insecure(void **state) {
    (void)state;
    struct pqs_run run = {0};
    make_run(&run, &main_comparison);
    pqs_run_set(&run, "target", "example.net:443");
    for (size_t i = 0; i < run.n_trials; i++) {
        struct pqs_result *r = &run.trials[i].result;
        for (size_t k = 0; k < r->n_facts; k++)
            if (strcmp(r->facts[k].name, "target") == 0)
                snprintf(r->facts[k].value, sizeof r->facts[k].value, "foreign");
        for (size_t k = r->n_counters; k-- > 0;)
            if (r->counters[k].side == PQS_SERVER)
                r->counters[k] = r->counters[--r->n_counters];
        for (size_t k = r->n_facts; k-- > 0;)
            if (r->facts[k].side == PQS_SERVER)
                r->facts[k] = r->facts[--r->n_facts];
        pqs_result_fact(r, PQS_CLIENT, "insecure", "yes", 1);
        pqs_result_fact(r, PQS_CLIENT, "handshake_only", "yes", 1);
    }
    json_t *json = render_json(&run);
    assert_true(json_is_null(at(json, "environment", "server", NULL)));
    assert_true(json_is_null(at(json, "arms", "0", "cpu_ns", "server", NULL)));
    assert_text(at(json, "arms", "0", "cpu_ns", "server_reason", NULL), "the server is not ours");
    assert_null(comparison_of(json, "X25519MLKEM768", "cpu_ns.server"));
    assert_true(json_is_true(at(json, "plan", "insecure", NULL)));
    assert_text(at(json, "arms", "0", "verdict", NULL), "warning");
    json_decref(json);
    PQS_FREE char *text = render_text(&run);
    assert_width(text, 100);
    char *line_end = strchr(text, '\n');
    *line_end = '\0';
    assert_says(text, "target example.net:443, client side only, INSECURE");
    *line_end = '\n';
    assert_says(text, "INSECURE: no certificate was verified");
    assert_says(text, "to the client's own end of the handshake");
    assert_says(text, "Not known: server CPU (the server is not ours).");
    pqs_run_release(&run);
}

/* Only resumed handshakes in one arm, some retries in the other. */
static void test_classes(void **state) {
    (void)state;
    struct pqs_run run = {0};
    make_run(&run, &main_comparison);
    for (uint32_t b = 0; b < 10; b++) {
        struct pqs_result *r = &trial_of(&run, 1, b)->result;
        for (size_t k = 0; k < r->n_hists; k++)
            if (r->hists[k].class == PQS_CLASS_FULL)
                r->hists[k].class = PQS_CLASS_RESUMED;
        double ns[] = {4e6, 5e6};
        add_hist(&trial_of(&run, 0, b)->result, PQS_CLASS_RETRY, PQS_PHASE_REQUEST, ns, 2, 1);
    }
    json_t *json = render_json(&run);
    assert_text(at(json, "arms", "1", "class", NULL), "resumed");
    assert_text(at(json, "arms", "0", "class", NULL), "full");
    assert_int_equal(json_integer_value(at(json, "arms", "0", "latency_ns", "retry", "request", "n", NULL)), 20);
    assert_null(json_object_get(at(json, "arms", "1", "latency_ns", NULL), "full"));
    assert_text(at(comparison_of(json, "X25519MLKEM768", "request.p50"), "verdict", NULL), "differs");
    json_decref(json);
    PQS_FREE char *text = render_text(&run);
    assert_width(text, 100);
    assert_says(text, "Latencies of X25519MLKEM768 are those of its resumed handshakes.");
    assert_says(text, "| retried, mean ");
    assert_says(text, " 4.50 ms |");
    pqs_run_release(&run);
}

/* ---- what the order of the blocks says ---- */

/* A run whose request figures of arm 1 are moved: by block, by being second in the block, and in one block. */
struct moves {
    double us_per_block;
    double us_level_per_block, us_second, us_block_4;
    bool blocked;        /* all trials of arm 0, then all of arm 1 */
    bool baseline_first; /* in every block */
};

static void add_us(struct pqs_trial *t, double us) {
    struct pqs_result *r = &t->result;
    for (size_t k = 0; k < r->n_hists; k++) {
        if (r->hists[k].class != PQS_CLASS_FULL || r->hists[k].phase != PQS_PHASE_REQUEST)
            continue;
        double ns[100]; /* a hundred figures with the old median */
        double p50 = pqs_hist_quantile(r->hists[k].hist, 0.5);
        for (size_t i = 0; i < PQS_COUNT(ns); i++)
            ns[i] = p50 + 1e3 * us;
        pqs_hist_free(r->hists[k].hist);
        r->hists[k] = r->hists[--r->n_hists];
        add_hist(r, PQS_CLASS_FULL, PQS_PHASE_REQUEST, ns, PQS_COUNT(ns), 1);
        return;
    }
}

static int by_arm(const void *a, const void *b) {
    const struct pqs_trial *x = a, *y = b;
    return x->arm != y->arm ? (x->arm > y->arm) - (x->arm < y->arm) : (x->block > y->block) - (x->block < y->block);
}

static int by_block_then_arm(const void *a, const void *b) {
    const struct pqs_trial *x = a, *y = b;
    return x->block != y->block ? (x->block > y->block) - (x->block < y->block) : (x->arm > y->arm) - (x->arm < y->arm);
}

static json_t *render_moved(const struct moves *moves, uint32_t blocks, char **ret_text) {
    struct shape s = main_comparison;
    s.blocks = blocks;
    s.samples = 400;
    struct pqs_run run = {0};
    make_run(&run, &s);
    for (size_t i = 0; i < run.n_trials; i++) {
        struct pqs_trial *t = &run.trials[i];
        double us = moves->us_level_per_block * t->block + (t->position == 1 ? moves->us_second : 0);
        if (t->arm == 1)
            us += moves->us_per_block * t->block + (t->block == 4 ? moves->us_block_4 : 0);
        add_us(t, us);
    }
    if (moves->blocked || moves->baseline_first)
        qsort(run.trials, run.n_trials, sizeof *run.trials, moves->blocked ? by_arm : by_block_then_arm);
    json_t *json = render_json(&run);
    if (ret_text)
        *ret_text = render_text(&run);
    pqs_run_release(&run);
    return json;
}

/* Each move is found, and nothing else is. */
static void test_order_of_blocks(void **state) {
    (void)state;
    static const char *const ids[] = {"drift", "order", "level-drift", "outlier", "thin-interval"};
    static const struct {
        struct moves moves;
        uint32_t blocks;
        const char *found, *arm, *text;
    } cases[] = {
        {.moves = {0}, .blocks = 10},
        {.moves = {.us_per_block = 60},
         .blocks = 10,
         .found = "drift",
         .arm = "X25519MLKEM768",
         .text = "the difference in request p50 changes by +"},
        {.moves = {.us_level_per_block = 60},
         .blocks = 10,
         .found = "level-drift",
         .arm = "X25519",
         .text = "its request p50 changes by +"},
        {.moves = {.us_level_per_block = -40},
         .blocks = 10,
         .found = "level-drift",
         .arm = "X25519",
         .text = "its request p50 changes by -"},
        {.moves = {.us_second = 200},
         .blocks = 10,
         .found = "order",
         .arm = "X25519MLKEM768",
         .text = "whichever of it and the baseline runs second"},
        {.moves = {.baseline_first = true},
         .blocks = 10,
         .found = "order",
         .arm = "X25519MLKEM768",
         .text = "it ran after the baseline in all 10 blocks"},
        {.moves = {.blocked = true},
         .blocks = 10,
         .found = "order",
         .arm = "X25519MLKEM768",
         .text = "it ran after the baseline in all 10 blocks"},
        {.moves = {.us_block_4 = 2000},
         .blocks = 10,
         .found = "outlier",
         .arm = "X25519MLKEM768",
         .text = "block 4's difference in request p50 is +2"},
        {.moves = {0}, .blocks = 8},
        {.moves = {0},
         .blocks = 7,
         .found = "thin-interval",
         .arm = "X25519MLKEM768",
         .text = "7 valid blocks with the baseline"},
        {.moves = {0},
         .blocks = 5,
         .found = "thin-interval",
         .arm = "X25519MLKEM768",
         .text = "5 valid blocks with the baseline"},
        {.moves = {0}, .blocks = 4}, /* few-blocks says more */
        {.moves = {.us_per_block = 600, .us_second = 600}, .blocks = 4},
    };
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        json_t *json = render_moved(&cases[i].moves, cases[i].blocks, NULL);
        for (size_t k = 0; k < PQS_COUNT(ids); k++) {
            const char *text = finding_of(json, ids[k], NULL);
            bool wanted = cases[i].found && strcmp(ids[k], cases[i].found) == 0;
            if (wanted != (text != NULL))
                fail_msg("case %zu: %s %s: %s", i, ids[k], wanted ? "is missing" : "is not wanted", text ? text : "");
            if (wanted &&
                (!finding_of(json, ids[k], cases[i].arm) || strncmp(text, cases[i].text, strlen(cases[i].text)) != 0))
                fail_msg("case %zu: \"%s\" should begin with \"%s\"", i, text, cases[i].text);
        }
        json_decref(json);
    }
    /* What a slope says is its value: 60 us a block, within what the wobble hides. */
    json_t *json = render_moved(&cases[1].moves, 10, NULL);
    double us = strtod(strpbrk(finding_of(json, "drift", NULL), "+"), NULL);
    assert_true(us > 50 && us < 70);
    json_decref(json);
    PQS_FREE char *said = NULL;
    json_decref(render_moved(&cases[9].moves, 7, &said));
    assert_width(said, 100);
    assert_says(said, "warning, thin-interval: 7 valid blocks with the baseline.");
}

/* CPU stands beside the load under which it was measured. */
static void test_load_of_cpu(void **state) {
    (void)state;
    struct pqs_run run = {0};
    make_run(&run, &main_comparison);
    json_t *json = render_json(&run);
    assert_true(fabs(number(at(json, "arms", "0", "cpu_ns", "client_busy", NULL)) - 0.1) < 1e-9);
    /* 3000 x 180 us in 10.005 s of one thread, less or more by the wobble. */
    assert_true(fabs(number(at(json, "arms", "0", "cpu_ns", "server_busy", NULL)) - 0.054) < 0.003);
    json_decref(json);
    PQS_FREE char *text = render_text(&run);
    assert_says(text, "CPU per handshake is that of the load shown");
    assert_says(text, "| client busy");
    assert_says(text, "| server busy");
    pqs_run_release(&run);
}

static void test_hostile_names(void **state) {
    (void)state;
    static const char *const hostile[] = {"a|b \"quoted\" <i>", "line\nbreak\x1b[31m \\ `x` \xff"};
    struct shape s = main_comparison;
    s.arms = hostile;
    s.samples = 200;
    struct pqs_run run = {0};
    make_run(&run, &s);
    json_t *json = render_json(&run);
    assert_text(at(json, "arms", "0", "name", NULL), hostile[0]);
    assert_text(at(json, "arms", "1", "name", NULL), "line\nbreak\x1b[31m \\ `x` \xef\xbf\xbd");
    json_decref(json);
    PQS_FREE char *text = render_text(&run);
    assert_says(text, "a\\|b \"quoted\" \\<i>");
    assert_says(text, "line break?\\[31m \\\\ \\`x\\`");
    assert_silent(text, "\x1b");
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) { /* every row of a table has the same cells */
        size_t bars = 0;
        for (const char *c = line; *c != '\n'; c++)
            bars += *c == '|' && (c == line || c[-1] != '\\');
        assert_true(*line != '|' || bars == 7 || bars == 4); /* counts have no difference */
    }
    pqs_run_release(&run);
}

static void test_other_numbers_of_arms(void **state) {
    (void)state;
    static const char *const four[] = {"X25519 ECDSA-P256", "X25519 ML-DSA-65", "X25519MLKEM768 ECDSA-P256",
                                       "X25519MLKEM768 ML-DSA-65"};
    struct shape s = main_comparison;
    s.arms = four;
    s.n_arms = 4;
    struct pqs_run run = {0};
    make_run(&run, &s);
    PQS_FREE char *text = render_text(&run);
    assert_width(text, 100);
    assert_says(text, "- arm 4: X25519MLKEM768 ML-DSA-65\n");
    assert_says(text, "- arm 1: X25519 ECDSA-P256 (baseline)\n");
    assert_says(text, "## X25519MLKEM768 ML-DSA-65 against X25519 ECDSA-P256\n");
    json_t *json = render_json(&run);
    assert_non_null(comparison_of(json, four[3], "request.p50"));
    json_decref(json);
    pqs_run_release(&run);

    static const char *const two_long[] = {"X25519MLKEM768 ML-DSA-65 0123456789",
                                           "X25519MLKEM768 ML-DSA-65 0123456789 (again)"};
    s.n_arms = 2;
    s.arms = two_long;
    struct pqs_run long_names = {0};
    make_run(&long_names, &s);
    PQS_FREE char *both = render_text(&long_names);
    assert_width(both, 100);
    assert_says(both, "| arm 1 | arm 2 | difference |");
    pqs_run_release(&long_names);

    s.arms = four;
    s.n_arms = 1;
    struct pqs_run single = {0};
    make_run(&single, &s);
    PQS_FREE char *one = render_text(&single);
    assert_width(one, 100);
    assert_says(one, "X25519 ECDSA-P256: the median request takes 1.0");
    json = render_json(&single);
    assert_int_equal(json_array_size(at(json, "comparisons", NULL)), 0);
    assert_null(finding_of(json, "few-blocks", NULL));
    json_decref(json);
    pqs_run_release(&single);
}

/* The validator itself must be able to say no. */
static void test_schema_refuses(void **state) {
    (void)state;
    struct pqs_run run = {0};
    make_run(&run, &main_comparison);
    json_t *json = render_json(&run), *schema = load_schema();
    json_object_set_new(at(json, "arms", "0", "latency_ns", "full", "request", NULL), "p50", json_string("1 ms"));
    assert_false(validate(schema, schema, json, "want a refusal: summary"));
    json_object_set_new(at(json, "arms", "0", "latency_ns", "full", "request", NULL), "p50", json_real(1));
    assert_true(validate(schema, schema, json, "summary"));
    json_object_del(at(json, "comparisons", "0", NULL), "detectable");
    assert_false(validate(schema, schema, json, "want a refusal: summary"));
    json_object_set_new(at(json, "comparisons", "0", NULL), "detectable", json_null());
    json_object_set_new(json, "surplus", json_null());
    assert_false(validate(schema, schema, json, "want a refusal: summary"));
    json_decref(json);
    json_decref(schema);
    pqs_run_release(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_main_comparison),
        cmocka_unit_test(test_no_difference),
        cmocka_unit_test(test_sample_sizes),
        cmocka_unit_test(test_all_failed),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_lost_pairs),
        cmocka_unit_test(test_interrupted_and_lost),
        cmocka_unit_test(test_undeclared_and_changes),
        cmocka_unit_test(test_foreign_insecure),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_order_of_blocks),
        cmocka_unit_test(test_load_of_cpu),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_other_numbers_of_arms),
        cmocka_unit_test(test_schema_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
