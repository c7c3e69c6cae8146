/* Result rows: adding, looking up, packing. Must not know what any counter or fact means. */
#include "channel/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "stats/hist.h"

const char *const pqs_side_names[2] = {"client", "server"};

const char *const pqs_class_names[PQS_CLASSES] = {
    [PQS_CLASS_FULL] = "full",
    [PQS_CLASS_RESUMED] = "resumed",
    [PQS_CLASS_RETRY] = "retry",
    [PQS_CLASS_FIRST] = "first",
};

const char *const pqs_phase_names[PQS_PHASES] = {
    [PQS_PHASE_REQUEST] = "request", [PQS_PHASE_SERVICE] = "service", [PQS_PHASE_START_LAG] = "start_lag",
    [PQS_PHASE_CONNECT] = "connect", [PQS_PHASE_TLS] = "tls",         [PQS_PHASE_FIRST_BYTE] = "first_byte",
    [PQS_PHASE_BODY] = "body",
};

void pqs_result_release(struct pqs_result *r) {
    free(r->counters);
    free(r->facts);
    for (size_t i = 0; i < r->n_hists; i++)
        pqs_hist_free(r->hists[i].hist);
    free(r->hists);
    pqs_buf_release(&r->samples);
    *r = (struct pqs_result){0};
}

/* Names are compared as they are stored, so that two long names with the same beginning meet in one row. */
static int same_text(const char *stored, const char *text, size_t stored_size) {
    return strncmp(stored, text, stored_size - 1) == 0;
}

static struct pqs_counter *find_counter(const struct pqs_result *r, enum pqs_side side, const char *name) {
    for (size_t i = 0; i < r->n_counters; i++) {
        struct pqs_counter *row = &r->counters[i];
        if (row->side == side && same_text(row->name, name, sizeof row->name))
            return row;
    }
    return NULL;
}

void pqs_result_count(struct pqs_result *r, enum pqs_side side, const char *name, int64_t add) {
    struct pqs_counter *row = find_counter(r, side, name);
    if (!row) {
        PQS_GROW(r->counters, r->n_counters, r->cap_counters);
        row = &r->counters[r->n_counters++];
        *row = (struct pqs_counter){.side = side};
        snprintf(row->name, sizeof row->name, "%s", name);
    }
    /* Saturates: a worker's figures are not trusted to be small. */
    if (__builtin_add_overflow(row->value, add, &row->value))
        row->value = add > 0 ? INT64_MAX : INT64_MIN;
}

void pqs_result_fact(struct pqs_result *r, enum pqs_side side, const char *name, const char *value, uint64_t n) {
    struct pqs_fact *row = NULL;
    for (size_t i = 0; i < r->n_facts && !row; i++) {
        struct pqs_fact *fact = &r->facts[i];
        if (fact->side == side && same_text(fact->name, name, sizeof fact->name) &&
            same_text(fact->value, value, sizeof fact->value))
            row = fact;
    }
    if (!row) {
        PQS_GROW(r->facts, r->n_facts, r->cap_facts);
        row = &r->facts[r->n_facts++];
        *row = (struct pqs_fact){.side = side};
        snprintf(row->name, sizeof row->name, "%s", name);
        snprintf(row->value, sizeof row->value, "%s", value);
    }
    if (__builtin_add_overflow(row->n, n, &row->n))
        row->n = UINT64_MAX;
}

static struct pqs_hist_row *find_hist(const struct pqs_result *r, enum pqs_class class, enum pqs_phase phase) {
    for (size_t i = 0; i < r->n_hists; i++)
        if (r->hists[i].class == class && r->hists[i].phase == phase)
            return &r->hists[i];
    return NULL;
}

void pqs_result_hist(struct pqs_result *r, enum pqs_class class, enum pqs_phase phase, struct pqs_hist *hist) {
    struct pqs_hist_row *row = find_hist(r, class, phase);
    if (row) {
        pqs_hist_merge(row->hist, hist);
        pqs_hist_free(hist);
        return;
    }
    PQS_GROW(r->hists, r->n_hists, r->cap_hists);
    r->hists[r->n_hists++] = (struct pqs_hist_row){.class = class, .phase = phase, .hist = hist};
}

int64_t pqs_result_get(const struct pqs_result *r, enum pqs_side side, const char *name, int64_t if_missing) {
    const struct pqs_counter *row = find_counter(r, side, name);
    return row ? row->value : if_missing;
}

const char *pqs_result_fact_of(const struct pqs_result *r, enum pqs_side side, const char *name, uint64_t *ret_others) {
    const struct pqs_fact *most = NULL;
    uint64_t total = 0;
    for (size_t i = 0; i < r->n_facts; i++) {
        const struct pqs_fact *fact = &r->facts[i];
        if (fact->side != side || !same_text(fact->name, name, sizeof fact->name))
            continue;
        if (__builtin_add_overflow(total, fact->n, &total))
            total = UINT64_MAX;
        if (!most || fact->n > most->n)
            most = fact;
    }
    if (ret_others)
        *ret_others = most ? total - most->n : 0;
    return most ? most->value : NULL;
}

const struct pqs_hist *pqs_result_hist_of(const struct pqs_result *r, enum pqs_class class, enum pqs_phase phase) {
    const struct pqs_hist_row *row = find_hist(r, class, phase);
    return row ? row->hist : NULL;
}

void pqs_sample_put(struct pqs_buf *b, const struct pqs_sample *s) {
    pqs_put_u64(b, s->scheduled_ns);
    pqs_put_u64(b, s->started_ns);
    pqs_put_u64(b, s->tcp_ns);
    pqs_put_u64(b, s->tls_ns);
    pqs_put_u64(b, s->first_ns);
    pqs_put_u64(b, s->done_ns);
    pqs_put_u32(b, s->to_server_bytes);
    pqs_put_u32(b, s->to_client_bytes);
    pqs_put_u8(b, (uint8_t)(s->failure & 0xff));
    pqs_put_u8(b, (uint8_t)(s->failure >> 8));
    pqs_put_u8(b, s->phase);
    pqs_put_u8(b, s->class);
    pqs_put_u32(b, s->thread);
}

void pqs_sample_get(const uint8_t packed[static PQS_SAMPLE_BYTES], struct pqs_sample *ret_s) {
    struct pqs_cursor c = {.p = packed, .left = PQS_SAMPLE_BYTES};
    ret_s->scheduled_ns = pqs_get_u64(&c);
    ret_s->started_ns = pqs_get_u64(&c);
    ret_s->tcp_ns = pqs_get_u64(&c);
    ret_s->tls_ns = pqs_get_u64(&c);
    ret_s->first_ns = pqs_get_u64(&c);
    ret_s->done_ns = pqs_get_u64(&c);
    ret_s->to_server_bytes = pqs_get_u32(&c);
    ret_s->to_client_bytes = pqs_get_u32(&c);
    uint8_t low = pqs_get_u8(&c);
    ret_s->failure = (uint16_t)(low | pqs_get_u8(&c) << 8);
    ret_s->phase = pqs_get_u8(&c);
    ret_s->class = pqs_get_u8(&c);
    ret_s->thread = pqs_get_u32(&c);
}

/* u32 counters {u8 side, str name, u64 value} | u32 facts {u8 side, str name, str value, u64 n} |
 * u32 histograms {u8 class, u8 phase, bytes} */
void pqs_result_encode(const struct pqs_result *r, struct pqs_buf *out) {
    pqs_put_u32(out, (uint32_t)r->n_counters);
    for (size_t i = 0; i < r->n_counters; i++) {
        pqs_put_u8(out, (uint8_t)r->counters[i].side);
        pqs_put_str(out, r->counters[i].name);
        pqs_put_u64(out, (uint64_t)r->counters[i].value);
    }
    pqs_put_u32(out, (uint32_t)r->n_facts);
    for (size_t i = 0; i < r->n_facts; i++) {
        pqs_put_u8(out, (uint8_t)r->facts[i].side);
        pqs_put_str(out, r->facts[i].name);
        pqs_put_str(out, r->facts[i].value);
        pqs_put_u64(out, r->facts[i].n);
    }
    pqs_put_u32(out, (uint32_t)r->n_hists);
    for (size_t i = 0; i < r->n_hists; i++) {
        PQS_BUF blob = {0};
        pqs_hist_encode(r->hists[i].hist, &blob);
        pqs_put_u8(out, (uint8_t)r->hists[i].class);
        pqs_put_u8(out, (uint8_t)r->hists[i].phase);
        pqs_put_bytes(out, blob.data, blob.len);
    }
}

/* An enum member that is `end` or more turns the cursor bad, like any other malformed field. */
static unsigned get_enum(struct pqs_cursor *c, unsigned end) {
    unsigned v = pqs_get_u8(c);
    if (v >= end)
        c->bad = true;
    return c->bad ? 0 : v;
}

static int decode_rows(struct pqs_cursor *c, struct pqs_result *r, struct pqs_err *err) {
    for (uint32_t n = pqs_get_u32(c); n > 0 && !c->bad; n--) {
        struct pqs_counter row = {.side = (enum pqs_side)get_enum(c, PQS_COUNT(pqs_side_names))};
        pqs_get_str(c, row.name, sizeof row.name);
        int64_t value = (int64_t)pqs_get_u64(c);
        if (!c->bad)
            pqs_result_count(r, row.side, row.name, value);
    }
    for (uint32_t n = pqs_get_u32(c); n > 0 && !c->bad; n--) {
        struct pqs_fact row = {.side = (enum pqs_side)get_enum(c, PQS_COUNT(pqs_side_names))};
        pqs_get_str(c, row.name, sizeof row.name);
        pqs_get_str(c, row.value, sizeof row.value);
        row.n = pqs_get_u64(c);
        if (!c->bad)
            pqs_result_fact(r, row.side, row.name, row.value, row.n);
    }
    for (uint32_t n = pqs_get_u32(c); n > 0 && !c->bad; n--) {
        enum pqs_class class = (enum pqs_class)get_enum(c, PQS_CLASSES);
        enum pqs_phase phase = (enum pqs_phase)get_enum(c, PQS_PHASES);
        size_t len = 0;
        const uint8_t *blob = pqs_get_bytes(c, &len);
        if (c->bad)
            break;
        struct pqs_hist *hist = NULL;
        int rc = pqs_hist_decode(blob, len, &hist, err);
        if (rc < 0)
            return pqs_context(err, "histogram %s.%s", pqs_class_names[class], pqs_phase_names[phase]);
        pqs_result_hist(r, class, phase, hist);
    }
    if (c->bad || c->left > 0)
        return pqs_fail(err, PQS_E_FAILED, "malformed result rows: %s",
                        c->bad ? "a field is cut short or out of range" : "bytes left over at the end");
    return 0;
}

int pqs_result_decode(const void *data, size_t len, struct pqs_result *r, struct pqs_err *err) {
    /* Into a result of its own first, so that *r is untouched on failure. */
    struct pqs_cursor c = {.p = data, .left = len};
    struct pqs_result got = {0};
    int rc = decode_rows(&c, &got, err);
    if (rc == 0) {
        for (size_t i = 0; i < got.n_counters; i++)
            pqs_result_count(r, got.counters[i].side, got.counters[i].name, got.counters[i].value);
        for (size_t i = 0; i < got.n_facts; i++)
            pqs_result_fact(r, got.facts[i].side, got.facts[i].name, got.facts[i].value, got.facts[i].n);
        for (size_t i = 0; i < got.n_hists; i++)
            pqs_result_hist(r, got.hists[i].class, got.hists[i].phase, got.hists[i].hist);
        got.n_hists = 0; /* owned by *r now */
    }
    pqs_result_release(&got);
    return rc;
}
