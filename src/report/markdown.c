/* The text that the command prints and summary.md holds: Markdown whose source reads well on a terminal.
 * Must not know: how a figure is computed. */
#include "report/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define WIDTH 100 /* columns */

/* ---- text ---- */

/* Text from outside (arm names, notes, facts) so that it stays one line, one cell and plain. Heap. */
static char *plain(const char *text) {
    PQS_BUF out = {0};
    for (const char *s = text; *s; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            pqs_buf_addf(&out, "%c", strchr("\t\r\n", *s) ? ' ' : '?');
        else
            pqs_buf_addf(&out, "%s%c", strchr("|\\`*<[", *s) ? "\\" : "", *s);
    }
    return pqs_strdup(pqs_buf_text(&out));
}

/* Columns on a terminal: UTF-8 continuation bytes take none. */
static size_t columns(const char *text) {
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Words of a formatted text, broken at WIDTH; the first line starts with `lead`, further ones with as many blanks. */
static void paragraph(struct pqs_buf *out, const char *lead, const char *fmt, ...) PQS_PRINTF(3, 4);
static void paragraph(struct pqs_buf *out, const char *lead, const char *fmt, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = pqs_strdup("");
    va_end(args);
    size_t at = columns(lead), indent = at;
    pqs_buf_addf(out, "%s", lead);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (at > indent && at + 1 + columns(word) > WIDTH) {
            pqs_buf_addf(out, "\n%*s", (int)indent, "");
            at = indent;
        }
        pqs_buf_addf(out, "%s%s", at > indent ? " " : "", word);
        at += columns(word) + (at > indent);
    }
    pqs_buf_addf(out, "\n");
    free(text);
}

/* ---- numbers ---- */

struct unit {
    const char *name; /* with its blank; "" for bytes */
    double size;
};

/* The unit in which the largest of a row's values has at most three digits before the point. */
static struct unit unit_for(int kind, double largest) {
    if (kind == PQS_UNIT_BYTES)
        return (struct unit){"", 1};
    if (fabs(largest) < 999.5e3)
        return (struct unit){" us", 1e3};
    if (fabs(largest) < 999.5e6)
        return (struct unit){" ms", 1e6};
    return (struct unit){" s", 1e9};
}

/* Decimals that show three significant digits of x, four at most. */
static int decimals(double x) {
    char text[32];
    snprintf(text, sizeof text, "%.2e", x); /* rounds before the exponent is known: 9.996 is 10.0 */
    int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    return x == 0 || exponent >= 2 ? 0 : exponent < -2 ? 4 : 2 - exponent;
}

static int decimals_in(struct unit unit, double x) {
    if (unit.size == 1) /* bytes: whole, or one decimal where the mean is not */
        return fabs(x - round(x)) < 0.05 ? 0 : 1;
    return decimals(x / unit.size);
}

static double largest_of(double a, double b, double c) { /* fmax ignores NAN */
    return fmax(fmax(fabs(a), fabs(b)), fabs(c));
}

static void add_value(struct pqs_buf *out, double x, struct unit unit) {
    pqs_buf_addf(out, "%.*f%s", decimals_in(unit, x), x / unit.size, unit.name);
}

/* "+0.310 to +0.352", without the unit. Three numbers that belong together show the same decimals. */
static void add_interval(struct pqs_buf *out, const struct pqs_paired *p, struct unit unit) {
    int d = decimals_in(unit, largest_of(p->delta, p->delta_lo, p->delta_hi));
    pqs_buf_addf(out, "%+.*f to %+.*f", d, p->delta_lo / unit.size, d, p->delta_hi / unit.size);
}

static void add_change(struct pqs_buf *out, double ratio) {
    double percent = 100 * (ratio - 1);
    pqs_buf_addf(out, "%+.*f %%", fabs(percent) < 1 ? 2 : fabs(percent) < 99.5 ? 1 : 0, percent);
}

/* "500 ms", "10 s": a duration as it was asked for. */
static void add_duration(struct pqs_buf *out, double ns) {
    struct unit unit = unit_for(PQS_UNIT_NS, ns);
    pqs_buf_addf(out, "%.6g%s", ns / unit.size, unit.name);
}

/* ---- tables ---- */

/* Several tables under one another with common column widths. */
struct table {
    size_t n_columns;
    char **cells; /* owned, row by row */
    size_t n_cells, cap_cells;
    size_t headers[8]; /* the rows that start a table */
    size_t shown[8];   /* how many columns that table has */
    size_t n_headers;
};

static void cell(struct table *t, const char *fmt, ...) PQS_PRINTF(2, 3);
static void cell(struct table *t, const char *fmt, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = pqs_strdup("");
    va_end(args);
    PQS_GROW(t->cells, t->n_cells, t->cap_cells);
    t->cells[t->n_cells++] = text;
}

static void end_row(struct table *t) {
    while (t->n_cells % t->n_columns != 0)
        cell(t, "%s", "");
}

static void start_table(struct table *t, const char *title, size_t n_shown) {
    t->headers[t->n_headers] = t->n_cells / t->n_columns;
    t->shown[t->n_headers++] = n_shown;
    cell(t, "%s", title);
}

static size_t column_width(const struct table *t, size_t column) {
    size_t width = 3; /* room for "--:" */
    for (size_t i = column; i < t->n_cells; i += t->n_columns)
        width = columns(t->cells[i]) > width ? columns(t->cells[i]) : width;
    return width;
}

static size_t table_width(const struct table *t) {
    size_t width = 1;
    for (size_t c = 0; c < t->n_columns; c++)
        width += column_width(t, c) + 3;
    return width;
}

static void print_tables(struct pqs_buf *out, const struct table *t) {
    for (size_t row = 0, header = 0; row < t->n_cells / t->n_columns; row++) {
        bool first = header < t->n_headers && t->headers[header] == row;
        header += first;
        size_t shown = t->shown[header - 1];
        if (first)
            pqs_buf_addf(out, "\n");
        for (size_t c = 0; c < shown; c++) {
            const char *text = t->cells[row * t->n_columns + c];
            int fill = (int)(column_width(t, c) - columns(text));
            if (c == 0)
                pqs_buf_addf(out, "| %s%*s |", text, fill, "");
            else
                pqs_buf_addf(out, " %*s%s |", fill, "", text);
        }
        pqs_buf_addf(out, "\n");
        for (size_t c = 0; first && c < shown; c++) {
            pqs_buf_addf(out, "%s", c == 0 ? "| " : " ");
            for (size_t k = column_width(t, c); k > 1; k--)
                pqs_buf_addf(out, "-");
            pqs_buf_addf(out, "%s |%s", c == 0 ? "-" : ":", c + 1 == shown ? "\n" : "");
        }
    }
}

static void clear_table(struct table *t) {
    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (struct table){0};
}

/* ---- the figures ---- */

struct view {
    const struct pqs_model *m;
    struct pqs_buf *out;
    char **names;     /* of the arms, plain */
    bool short_names; /* tables say "arm 1": the names are too long */
    bool pooled;      /* a figure was marked (p) */
    bool undetected;  /* a difference was put in parentheses */
};

static char *column_name(const struct view *v, size_t arm) {
    const char *unfit = v->m->arms[arm].verdict == PQS_UNFIT ? " UNFIT" : "";
    return v->short_names ? pqs_format("arm %zu%s", arm + 1, unfit) : pqs_format("%s%s", v->names[arm], unfit);
}

/* The difference is shown beside two arms; with more each comparison has a table of its own. */
static bool shows_difference(const struct view *v) {
    return v->m->n_arms == 2;
}

static void header_row(const struct view *v, struct table *t, const char *title, bool compared) {
    start_table(t, title, compared ? t->n_columns : 1 + v->m->n_arms);
    for (size_t i = 0; i < v->m->n_arms; i++) {
        PQS_FREE char *name = column_name(v, i);
        cell(t, "%s", name);
    }
    if (shows_difference(v) && compared) {
        cell(t, "difference");
        cell(t, "95 %% interval");
        cell(t, "change");
    }
    end_row(t);
}

static void difference_cells(struct view *v, struct table *t, const struct pqs_comparison *c, struct unit unit) {
    if (!c || !isfinite(c->paired.delta)) {
        cell(t, "-");
        cell(t, "-");
        cell(t, "-");
        return;
    }
    const struct pqs_paired *p = &c->paired;
    cell(t, "%+.*f%s", decimals_in(unit, largest_of(p->delta, p->delta_lo, p->delta_hi)), p->delta / unit.size, unit.name);
    PQS_BUF interval = {0}, change = {0};
    if (isfinite(p->delta_lo))
        add_interval(&interval, p, unit);
    if (isfinite(p->ratio))
        add_change(&change, p->ratio);
    bool doubt = isfinite(p->delta_lo) && !p->differs;
    v->undetected |= doubt;
    cell(t, "%s", interval.len > 0 ? pqs_buf_text(&interval) : "-");
    cell(t, "%s%s%s", doubt ? "(" : "", change.len > 0 ? pqs_buf_text(&change) : "-", doubt ? ")" : "");
}

/* One figure of every arm. figures[i] belongs to arm i; metric is PQS_METRICS when it is not compared. */
static void figure_row(struct view *v, struct table *t, const char *label, int kind, const struct pqs_figure *figures,
                       size_t metric) {
    double largest = 0;
    for (size_t i = 0; i < v->m->n_arms; i++)
        largest = fmax(largest, figures[i].value);
    struct unit unit = unit_for(kind, largest);
    cell(t, "%s", label);
    for (size_t i = 0; i < v->m->n_arms; i++) {
        PQS_BUF text = {0};
        /* A maximum is one connection's: pooled by nature. */
        bool mark = figures[i].pooled && strcmp(label, "max") != 0;
        if (isfinite(figures[i].value))
            add_value(&text, figures[i].value, unit);
        v->pooled |= mark;
        cell(t, "%s%s", text.len > 0 ? pqs_buf_text(&text) : "-", mark ? " (p)" : "");
    }
    if (shows_difference(v) && metric < PQS_METRICS && pqs_metrics[metric].compared)
        difference_cells(v, t, pqs_model_comparison(v->m, 1 - v->m->baseline, metric), unit);
    end_row(t);
}

static void metric_row(struct view *v, struct table *t, const char *label, const char *id, bool always) {
    size_t metric = pqs_metric_find(id);
    PQS_FREE struct pqs_figure *figures = pqs_calloc(v->m->n_arms + 1, sizeof *figures);
    bool any = always;
    for (size_t i = 0; i < v->m->n_arms; i++) {
        figures[i] = v->m->arms[i].metrics[metric];
        any = any || isfinite(figures[i].value);
    }
    if (any)
        figure_row(v, t, label, (int)pqs_metrics[metric].unit, figures, metric);
}

/* Handshakes that are not the headline's stand apart (METHOD 9, 10, 19). */
static void class_row(struct view *v, struct table *t, const char *label, enum pqs_class class, enum pqs_phase phase) {
    PQS_FREE struct pqs_figure *figures = pqs_calloc(v->m->n_arms + 1, sizeof *figures);
    bool any = false;
    for (size_t i = 0; i < v->m->n_arms; i++) {
        const struct pqs_latency *l = &v->m->arms[i].latency[class][phase];
        figures[i] = class == v->m->arms[i].class ? (struct pqs_figure){.value = NAN} : l->mean;
        any = any || isfinite(figures[i].value);
    }
    if (any)
        figure_row(v, t, label, PQS_UNIT_NS, figures, PQS_METRICS);
}

static void count_row(const struct view *v, struct table *t, const char *label, const char *counter, bool always) {
    bool any = always;
    for (size_t i = 0; i < v->m->n_arms; i++)
        any = any || pqs_result_get(&v->m->arms[i].pooled, PQS_CLIENT, counter, 0) != 0;
    if (!any)
        return;
    cell(t, "%s", label);
    for (size_t i = 0; i < v->m->n_arms; i++)
        cell(t, "%lld", (long long)pqs_result_get(&v->m->arms[i].pooled, PQS_CLIENT, counter, 0));
    end_row(t);
}

static void rate_row(const struct view *v, struct table *t, const char *label, bool achieved) {
    cell(t, "%s", label);
    for (size_t i = 0; i < v->m->n_arms; i++) {
        double rate = achieved ? v->m->arms[i].achieved_per_s : v->m->arms[i].offered_per_s;
        if (isfinite(rate))
            cell(t, "%.*f/s", decimals(rate), rate);
        else
            cell(t, "-");
    }
    end_row(t);
}

/* The load under which CPU was measured: a handshake costs more when every one wakes an idle core. */
static void busy_row(const struct view *v, struct table *t, const char *label, enum pqs_side side) {
    bool any = false;
    for (size_t i = 0; i < v->m->n_arms; i++)
        any = any || isfinite(side == PQS_CLIENT ? v->m->arms[i].client_busy : v->m->arms[i].server_busy);
    if (!any)
        return;
    cell(t, "%s", label);
    for (size_t i = 0; i < v->m->n_arms; i++) {
        double busy = side == PQS_CLIENT ? v->m->arms[i].client_busy : v->m->arms[i].server_busy;
        if (isfinite(busy))
            cell(t, "%.*f %%", busy < 0.0995 ? 1 : 0, 100 * busy);
        else
            cell(t, "-");
    }
    end_row(t);
}

static void fill_tables(struct view *v, struct table *t) {
    t->n_columns = 1 + v->m->n_arms + (shows_difference(v) ? 3 : 0);
    header_row(v, t, "Request latency", true);
    metric_row(v, t, "mean", "request.mean", true);
    metric_row(v, t, "p50 (primary)", "request.p50", true);
    metric_row(v, t, "p90", "request.p90", false);
    metric_row(v, t, "p95", "request.p95", false);
    metric_row(v, t, "p99", "request.p99", false);
    metric_row(v, t, "p99.9", "request.p999", false);
    metric_row(v, t, "max", "request.max", true);
    header_row(v, t, "Phases", true);
    metric_row(v, t, "start lag p99", "start_lag.p99", false);
    metric_row(v, t, "service p50", "service.p50", true);
    metric_row(v, t, "connect p50", "connect.p50", false);
    metric_row(v, t, "TLS p50", "tls.p50", false);
    class_row(v, t, "resumed, mean", PQS_CLASS_RESUMED, PQS_PHASE_REQUEST);
    class_row(v, t, "retried, mean", PQS_CLASS_RETRY, PQS_PHASE_REQUEST);
    class_row(v, t, "first handshake", PQS_CLASS_FIRST, PQS_PHASE_SERVICE);
    header_row(v, t, "Per handshake", true);
    metric_row(v, t, "client CPU", "cpu_ns.client", true);
    metric_row(v, t, "server CPU", "cpu_ns.server", true);
    metric_row(v, t, "bytes to server", "bytes.to_server", true);
    metric_row(v, t, "bytes to client", "bytes.to_client", true);
    header_row(v, t, "Connections", false);
    rate_row(v, t, "offered", false);
    rate_row(v, t, "achieved", true);
    busy_row(v, t, "client busy", PQS_CLIENT);
    busy_row(v, t, "server busy", PQS_SERVER);
    count_row(v, t, "scheduled", "scheduled", true);
    count_row(v, t, "started", "started", true);
    count_row(v, t, "completed", "completed", true);
    count_row(v, t, "failed", "failed", true);
    count_row(v, t, "dropped", "dropped", true);
    count_row(v, t, "unstarted", "unstarted", false);
}

/* With more than two arms: each against the baseline. */
static void comparison_tables(struct view *v) {
    for (size_t arm = 0; arm < v->m->n_arms; arm++) {
        if (arm == v->m->baseline)
            continue;
        pqs_buf_addf(v->out, "\n## %s against %s\n", v->names[arm], v->names[v->m->baseline]);
        struct table t = {.n_columns = 6};
        start_table(&t, "Compared", t.n_columns);
        cell(&t, "baseline");
        cell(&t, "arm");
        cell(&t, "difference");
        cell(&t, "95 %% interval");
        cell(&t, "change");
        for (size_t i = 0; i < v->m->n_comparisons; i++) {
            const struct pqs_comparison *c = &v->m->comparisons[i];
            if (c->arm != arm || !isfinite(c->paired.delta))
                continue;
            const struct pqs_metric *metric = &pqs_metrics[c->metric];
            struct unit unit = unit_for((int)metric->unit, fmax(c->baseline_value, c->arm_value));
            cell(&t, "%s%s", metric->label, c->metric == PQS_METRIC_PRIMARY ? " (primary)" : "");
            PQS_BUF of_baseline = {0}, of_arm = {0};
            add_value(&of_baseline, c->baseline_value, unit);
            add_value(&of_arm, c->arm_value, unit);
            cell(&t, "%s", pqs_buf_text(&of_baseline));
            cell(&t, "%s", pqs_buf_text(&of_arm));
            difference_cells(v, &t, c, unit);
        }
        if (t.n_cells > t.n_columns)
            print_tables(v->out, &t);
        else
            pqs_buf_addf(v->out, "\nNothing to compare: see the result below.\n");
        clear_table(&t);
    }
}

/* ---- what must be said about the figures ---- */

static void add_missing(struct view *v, struct pqs_buf *text) {
    static const char *const ids[] = {"cpu_ns.client", "cpu_ns.server", "bytes.to_server", "bytes.to_client"};
    for (size_t k = 0; k < PQS_COUNT(ids); k++) {
        const struct pqs_metric *metric = &pqs_metrics[pqs_metric_find(ids[k])];
        const char *why = NULL;
        bool all = true; /* for the same reason */
        for (size_t i = 0; i < v->m->n_arms; i++) {
            const char *of_arm = pqs_model_why_not(&v->m->arms[i], metric);
            all = all && of_arm && (i == 0 || of_arm == why);
            why = of_arm;
        }
        if (all && why)
            pqs_buf_addf(text, "%s%s (%s)", text->len > 0 ? ", " : "", metric->label, why);
        for (size_t i = 0; !all && i < v->m->n_arms; i++) {
            why = pqs_model_why_not(&v->m->arms[i], metric);
            if (why)
                pqs_buf_addf(text, "%s%s of %s (%s)", text->len > 0 ? ", " : "", metric->label, v->names[i], why);
        }
    }
}

static void add_few_samples(struct view *v, struct pqs_buf *text) {
    static const char *const shown[] = {"p50", "p90", "p95", "p99", "p999"};
    for (size_t k = 0; k < PQS_COUNT(shown); k++) {
        PQS_FREE char *id = pqs_format("request.%s", shown[k]);
        const struct pqs_quantile *q = pqs_quantile_find(shown[k]);
        bool lacking = false;
        for (size_t i = 0; i < v->m->n_arms; i++)
            lacking = lacking || !isfinite(v->m->arms[i].metrics[pqs_metric_find(id)].value);
        if (lacking)
            pqs_buf_addf(text, "%s%s needs %llu", text->len > 0 ? ", " : "", q->label, (unsigned long long)q->min_n);
    }
}

static void footnotes(struct view *v) {
    const struct pqs_model *m = v->m;
    pqs_buf_addf(v->out, "\n");
    paragraph(v->out, "- ", "Request: from the scheduled start to %s. Failed connections are in no latency.",
              pqs_model_any(m, "handshake_only", "yes") ? "the client's own end of the handshake"
                                                        : "the last byte of the response");
    if (m->n_arms > 1)
        paragraph(v->out, "- ",
                  "Differences are paired by block, arm minus baseline (%s). All but request p50 are exploratory.",
                  v->names[m->baseline]);
    if (v->undetected)
        paragraph(v->out, "- ", "In parentheses: no detectable difference (the interval spans zero).");
    for (size_t i = 0; i < m->n_arms; i++) {
        const struct pqs_comparison *c = pqs_model_comparison(m, i, PQS_METRIC_PRIMARY);
        if (c && c->pairs < m->blocks)
            paragraph(v->out, "- ", "%s is compared over the %zu of %u blocks in which it and the baseline are both valid.",
                      v->names[i], c->pairs, m->blocks);
        if (m->arms[i].class != PQS_CLASS_FULL)
            paragraph(v->out, "- ", "Latencies of %s are those of its %s handshakes.", v->names[i],
                      m->arms[i].class == PQS_CLASS_RESUMED ? "resumed" : "retried");
    }
    if (v->pooled)
        paragraph(v->out, "- ", "(p): from all trials together, because a single trial has too few samples; not compared.");
    for (size_t i = 0, said = 0; i < m->n_arms && !said; i++)
        if (m->arms[i].latency[PQS_CLASS_FIRST][PQS_PHASE_SERVICE].n > 0 && ++said)
            paragraph(v->out, "- ",
                      "First handshake: mean service time of a fresh context's first one, outside the window.");
    if (isfinite(m->n_arms > 0 ? m->arms[m->baseline].client_busy : NAN))
        paragraph(
            v->out, "- ",
            "CPU per handshake is that of the load shown (offered, busy): near idle every handshake also pays for waking "
            "a core and for cold caches, so compare it at equal load only.");
    PQS_BUF few = {0}, missing = {0};
    add_few_samples(v, &few);
    if (few.len > 0)
        paragraph(v->out, "- ", "A figure is missing where an arm has too few connections: %s.", pqs_buf_text(&few));
    add_missing(v, &missing);
    if (missing.len > 0)
        paragraph(v->out, "- ", "Not known: %s.", pqs_buf_text(&missing));
}

/* The published headline: the same quantile trial by trial. p99, or the highest that every trial of every arm supports. */
static void trial_quantiles(struct view *v) {
    static const char *const ids[] = {"p99", "p95", "p90", "p75", "p50"};
    const struct pqs_model *m = v->m;
    const char *id = NULL;
    for (size_t k = 0; k < PQS_COUNT(ids) && !id; k++) {
        size_t n_with = 0, n_without = 0; /* of the arms that have any latencies */
        for (size_t i = 0; i < m->n_arms; i++) {
            bool with = isfinite(pqs_model_spread(m, i, ids[k]).median);
            n_with += with;
            n_without += !with && m->arms[i].latency[m->arms[i].class][PQS_PHASE_REQUEST].n > 0;
        }
        id = n_with > 0 && n_without == 0 ? ids[k] : NULL;
    }
    if (!id)
        return;
    PQS_FREE double *values = pqs_calloc((size_t)m->blocks + 1, sizeof *values);
    struct pqs_metric metric = {.phase = PQS_PHASE_REQUEST, .stat = id};
    pqs_buf_addf(v->out, "\nRequest %s of each trial, in order of blocks:\n\n", id);
    for (size_t i = 0; i < m->n_arms; i++) {
        struct pqs_spread s = pqs_model_spread(m, i, id);
        if (!isfinite(s.median)) {
            paragraph(v->out, "- ", "%s: no figures", v->names[i]);
            continue;
        }
        struct unit unit = unit_for(PQS_UNIT_NS, s.max);
        PQS_BUF text = {0};
        pqs_model_by_block(m, i, &metric, values);
        for (uint32_t b = 0; b < m->blocks; b++) {
            if (isfinite(values[b]))
                pqs_buf_addf(&text, " %.*f", decimals_in(unit, values[b]), values[b] / unit.size);
            else
                pqs_buf_addf(&text, " -");
        }
        paragraph(v->out, "- ", "%s: median %.*f%s, of%s", v->names[i], decimals_in(unit, s.median), s.median / unit.size,
                  unit.name, pqs_buf_text(&text));
    }
}

/* ---- verdicts ---- */

static void print_finding(struct view *v, const char *lead, const struct pqs_model_finding *f, const char *about) {
    PQS_FREE char *text = plain(f->text);
    PQS_BUF times = {0};
    if (f->trials < f->of)
        pqs_buf_addf(&times, " (in %zu of %zu trials)", f->trials, f->of);
    paragraph(v->out, lead, "%s, %s%s: %s%s. %s %s", pqs_severity_names[f->verdict->severity], f->verdict->id, about, text,
              pqs_buf_text(&times), f->verdict->message, f->verdict->severity > PQS_NOTE ? f->verdict->advice : "");
}

/* What every arm shows alike (loopback, a foreign server) is said once. */
static bool said_of_every_arm(const struct pqs_model *m, const struct pqs_model_finding *f) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_findings; i++) {
        const struct pqs_model_finding *other = &m->findings[i];
        n += f->arm && other->arm && other->verdict == f->verdict && strcmp(other->text, f->text) == 0 &&
             other->of - other->trials == f->of - f->trials;
    }
    return m->n_arms > 1 && n == m->n_arms;
}

static void verdicts(struct view *v) {
    const struct pqs_model *m = v->m;
    pqs_buf_addf(v->out, "\n## Verdict: %s\n\n", pqs_severity_names[m->verdict]);
    for (size_t i = 0; i < m->n_arms; i++) {
        pqs_buf_addf(v->out, "- %s: %s\n", v->names[i], pqs_severity_names[m->arms[i].verdict]);
        for (size_t k = 0; k < m->n_findings; k++)
            if (m->findings[k].arm == &m->arms[i] && !said_of_every_arm(m, &m->findings[k]))
                print_finding(v, "  - ", &m->findings[k], "");
    }
    for (size_t k = 0; k < m->n_findings; k++) {
        const struct pqs_model_finding *f = &m->findings[k];
        if (!f->arm)
            print_finding(v, "- ", f, "");
        else if (said_of_every_arm(m, f) && f->arm == &m->arms[0])
            print_finding(v, "- ", f, ", every arm");
    }
}

/* One sentence per comparison, on the primary metric. */
static void result(struct view *v, size_t arm) {
    const struct pqs_model *m = v->m;
    const struct pqs_comparison *c = pqs_model_comparison(m, arm, PQS_METRIC_PRIMARY);
    const char *name = v->names[arm], *baseline = v->names[m->baseline];
    if (c->pairs == 0) {
        paragraph(v->out, "- ", "%s cannot be compared with %s: there is no block in which both are valid.", name, baseline);
        return;
    }
    const struct pqs_paired *p = &c->paired;
    if (!isfinite(p->delta)) {
        paragraph(v->out, "- ", "%s cannot be compared with %s: a trial has too few samples for a median (20 are needed).",
                  name, baseline);
        return;
    }
    struct unit unit = unit_for(PQS_UNIT_NS, fmax(c->baseline_value, c->arm_value));
    struct unit small = unit_for(PQS_UNIT_NS, largest_of(p->delta, p->delta_lo, p->delta_hi));
    PQS_BUF from = {0}, to = {0}, size = {0}, change = {0}, interval = {0}, detectable = {0};
    add_value(&from, c->baseline_value, unit);
    add_value(&to, c->arm_value, unit);
    add_value(&size, fabs(p->delta), small);
    if (isfinite(p->ratio)) {
        pqs_buf_addf(&change, ", ");
        add_change(&change, p->ratio);
    }
    if (isfinite(p->delta_lo)) {
        add_interval(&interval, p, small);
        pqs_buf_addf(&interval, "%s", small.name);
        add_value(&detectable, p->detectable, unit_for(PQS_UNIT_NS, p->detectable));
    }
    const char *verb = p->delta < 0 ? "takes" : "adds", *where = p->delta < 0 ? "off" : "to";
    if (!isfinite(p->delta_lo))
        paragraph(v->out, "- ",
                  "%s %s %s %s the median request (p50 %s -> %s%s), but %zu block%s no interval: this may be chance.", name,
                  verb, pqs_buf_text(&size), where, pqs_buf_text(&from), pqs_buf_text(&to), pqs_buf_text(&change), c->pairs,
                  c->pairs == 1 ? " gives" : "s give");
    else if (p->differs)
        paragraph(v->out, "- ", "%s %s %s %s the median request (p50 %s -> %s%s; 95 %% interval %s over %zu blocks).", name,
                  verb, pqs_buf_text(&size), where, pqs_buf_text(&from), pqs_buf_text(&to), pqs_buf_text(&change),
                  pqs_buf_text(&interval), c->pairs);
    else
        paragraph(
            v->out, "- ",
            "No detectable difference in request p50 between %s and %s (%s, %s; 95 %% interval %s over %zu blocks); this "
            "run could have seen %s.",
            baseline, name, pqs_buf_text(&from), pqs_buf_text(&to), pqs_buf_text(&interval), c->pairs,
            pqs_buf_text(&detectable));
}

/* Libraries differ in more than their cryptography, so a sentence about them must not be read as one about that. */
static void result_across_stacks(struct view *v, size_t i) {
    const struct pqs_model *m = v->m;
    const struct pqs_arm *a = m->arms[m->baseline].arm, *b = m->arms[i].arm;
    PQS_BUF stacks = {0}, others = {0};
    for (size_t k = 0; k < b->n_levels; k++) {
        const char *factor = b->levels[k].factor, *of_b = b->levels[k].level, *of_a = pqs_arm_level(a, factor);
        size_t side = strcmp(factor, "client-stack") == 0 || strcmp(factor, "server-stack") == 0 ? 6 : 0;
        if (!of_a || strcmp(of_a, of_b) == 0)
            continue;
        if (side)
            pqs_buf_addf(&stacks, "%s%.*s %s -> %s", stacks.len ? ", " : "", (int)side, factor, of_a, of_b);
        else
            pqs_buf_addf(&others, " and of %s", factor);
    }
    if (stacks.len)
        paragraph(v->out, "  ",
                  "Across TLS libraries (%s): cipher suite, extensions and implementation change with them, so this is the "
                  "difference of the libraries as a whole%s (docs/STACKS.md).",
                  pqs_buf_text(&stacks), pqs_buf_text(&others));
}

static void results(struct view *v) {
    const struct pqs_model *m = v->m;
    pqs_buf_addf(v->out, "\n## Result\n\n");
    for (size_t i = 0; i < m->n_arms; i++)
        if (i != m->baseline) {
            result(v, i);
            result_across_stacks(v, i);
        }
    if (m->n_arms == 1) {
        const struct pqs_figure *p50 = &m->arms[0].metrics[PQS_METRIC_PRIMARY];
        PQS_BUF text = {0};
        if (isfinite(p50->value))
            add_value(&text, p50->value, unit_for(PQS_UNIT_NS, p50->value));
        paragraph(v->out, "- ", "%s: the median request takes %s.", v->names[0],
                  text.len > 0 ? pqs_buf_text(&text) : "an unknown time: too few connections completed");
    }
    if (pqs_model_unfit(m))
        paragraph(v->out, "- ", "UNFIT: do not rely on these figures; the verdict above says why and what to do.");
}

/* ---- head ---- */

static void title(struct view *v) {
    const struct pqs_model *m = v->m;
    const char *workload = pqs_run_get(m->run, "workload"), *arrivals = pqs_run_get(m->run, "arrivals");
    const char *target = pqs_run_get(m->run, "target");
    double rate = pqs_model_number(m, "rate_per_s"), duration = pqs_model_number(m, "duration_ns");
    pqs_buf_addf(v->out, "# pqshake %s: ", workload ? workload : "run");
    if (isfinite(rate))
        pqs_buf_addf(v->out, "%.10g/s ", rate);
    if (arrivals)
        pqs_buf_addf(v->out, "(%s), ", arrivals);
    pqs_buf_addf(v->out, "%u block%s", m->blocks, m->blocks == 1 ? "" : "s");
    if (isfinite(duration)) {
        pqs_buf_addf(v->out, " x ");
        add_duration(v->out, duration);
    }
    if (pqs_model_any(m, "target", "foreign")) {
        PQS_FREE char *host = plain(target ? target : "a foreign server");
        pqs_buf_addf(v->out, ", target %s", host);
    } else {
        pqs_buf_addf(v->out, ", own server");
    }
    if (pqs_model_any(m, "handshake_only", "yes"))
        pqs_buf_addf(v->out, ", client side only");
    if (pqs_model_any(m, "insecure", "yes"))
        pqs_buf_addf(v->out, ", INSECURE");
    pqs_buf_addf(v->out, "\n\n");
}

static void setting_or_fact(struct pqs_buf *out, const char *before, const char *text, const char *after) {
    if (!text || !*text)
        return;
    PQS_FREE char *shown = plain(text);
    pqs_buf_addf(out, "%s%s%s", before, shown, after);
}

/* The values of a fact over all arms, in order of arms, joined by commas. */
static void distinct(const struct pqs_model *m, enum pqs_side side, const char *name, struct pqs_buf *out) {
    for (size_t i = 0; i < m->n_arms; i++) {
        const char *value = pqs_result_fact_of(&m->arms[i].pooled, side, name, NULL);
        bool known = false;
        for (size_t k = 0; k < i && value && !known; k++) {
            const char *other = pqs_result_fact_of(&m->arms[k].pooled, side, name, NULL);
            known = other && strcmp(other, value) == 0;
        }
        if (value && !known)
            pqs_buf_addf(out, "%s%s", out->len ? " and " : "", value);
    }
}

/* One library, or which side had which. */
static void libraries(const struct pqs_model *m, struct pqs_buf *out) {
    PQS_BUF client = {0}, server = {0};
    distinct(m, PQS_CLIENT, "library_version", &client);
    distinct(m, PQS_SERVER, "library_version", &server);
    bool one = server.len == 0 || strcmp(pqs_buf_text(&client), pqs_buf_text(&server)) == 0;
    setting_or_fact(out, one ? ", " : ", client ", pqs_buf_text(&client), "");
    if (!one)
        setting_or_fact(out, ", server ", pqs_buf_text(&server), "");
}

static void head(struct view *v) {
    const struct pqs_model *m = v->m;
    const struct pqs_trial *first = pqs_model_first(m);
    title(v);
    PQS_BUF text = {0};
    setting_or_fact(&text, "Started ", pqs_run_get(m->run, "started_utc"), ", ");
    setting_or_fact(&text, "seed ", pqs_run_get(m->run, "seed"), ", ");
    setting_or_fact(&text, "pqshake ", pqs_run_get(m->run, "tool.version"), "");
    setting_or_fact(&text, " (", pqs_run_get(m->run, "tool.git_commit"), ")");
    if (first) {
        const struct pqs_result *r = &first->result;
        libraries(m, &text);
        setting_or_fact(&text, ", Linux ", pqs_result_fact_of(r, PQS_CLIENT, "env.kernel", NULL), "");
        setting_or_fact(&text, ", ", pqs_result_fact_of(r, PQS_CLIENT, "env.cpu_model", NULL), "");
    }
    paragraph(v->out, "", "%s.", pqs_buf_text(&text));
    if (pqs_model_any(m, "insecure", "yes"))
        paragraph(v->out, "",
                  "INSECURE: no certificate was verified, so the cost of verification is in none of these figures.");
    if (!v->short_names)
        return;
    pqs_buf_addf(v->out, "\n");
    for (size_t i = 0; i < m->n_arms; i++)
        pqs_buf_addf(v->out, "- arm %zu: %s%s\n", i + 1, v->names[i], i == m->baseline ? " (baseline)" : "");
}

void pqs_report_markdown(const struct pqs_model *m, struct pqs_buf *out) {
    struct view v = {.m = m, .out = out, .names = pqs_calloc(m->n_arms + 1, sizeof *v.names)};
    for (size_t i = 0; i < m->n_arms; i++)
        v.names[i] = plain(m->arms[i].arm->name);
    struct table t = {0};
    fill_tables(&v, &t);
    if (table_width(&t) > WIDTH) {
        clear_table(&t);
        v.short_names = true;
        fill_tables(&v, &t);
    }
    head(&v);
    print_tables(out, &t);
    clear_table(&t);
    if (m->n_arms > 2)
        comparison_tables(&v);
    footnotes(&v);
    trial_quantiles(&v);
    verdicts(&v);
    results(&v);
    for (size_t i = 0; i < m->n_arms; i++)
        free(v.names[i]);
    free(v.names);
}
