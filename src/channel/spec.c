/* Trial specifications: named parameters and their codec. Must not know which parameters exist or which schedules make
 * sense: the worker's role judges both. */
#include "channel/spec.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char *const pqs_arrivals_names[] = {"constant", "poisson", NULL};

void pqs_spec_release(struct pqs_spec *s) {
    for (size_t i = 0; i < s->n_params; i++)
        pqs_buf_release(&s->params[i].value);
    free(s->params);
    *s = (struct pqs_spec){0};
}

void pqs_spec_copy(const struct pqs_spec *from, struct pqs_spec *ret_to) {
    struct pqs_spec to = *from;
    to.params = NULL;
    to.n_params = to.cap_params = 0;
    for (size_t i = 0; i < from->n_params; i++)
        pqs_spec_set_bytes(&to, from->params[i].name, from->params[i].value.data, from->params[i].value.len);
    *ret_to = to;
}

static struct pqs_param *find_param(const struct pqs_spec *s, const char *name) {
    for (size_t i = 0; i < s->n_params; i++)
        if (strcmp(s->params[i].name, name) == 0)
            return &s->params[i];
    return NULL;
}

static void remove_param(struct pqs_spec *s, const char *name) {
    struct pqs_param *param = find_param(s, name);
    if (!param)
        return;
    pqs_buf_release(&param->value);
    size_t after = s->n_params - (size_t)(param - s->params) - 1;
    memmove(param, param + 1, after * sizeof *param);
    s->n_params--;
}

void pqs_spec_set_bytes(struct pqs_spec *s, const char *name, const void *data, size_t len) {
    struct pqs_param *param = find_param(s, name);
    if (!param) {
        assert(strlen(name) < sizeof param->name);
        PQS_GROW(s->params, s->n_params, s->cap_params);
        param = &s->params[s->n_params++];
        *param = (struct pqs_param){0};
        snprintf(param->name, sizeof param->name, "%s", name);
    }
    pqs_buf_clear(&param->value);
    pqs_buf_add(&param->value, data, len);
}

void pqs_spec_set(struct pqs_spec *s, const char *name, const char *text) {
    if (text)
        pqs_spec_set_bytes(s, name, text, strlen(text));
    else
        remove_param(s, name);
}

const char *pqs_spec_get(const struct pqs_spec *s, const char *name) {
    const struct pqs_param *param = find_param(s, name);
    return param ? pqs_buf_text(&param->value) : NULL;
}

const struct pqs_buf *pqs_spec_get_bytes(const struct pqs_spec *s, const char *name) {
    const struct pqs_param *param = find_param(s, name);
    return param ? &param->value : NULL;
}

/* The schedule's fields in the order of the struct | str cpus | u32 parameters {str name, bytes value} */
void pqs_spec_encode(const struct pqs_spec *s, struct pqs_buf *out) {
    const struct pqs_schedule *schedule = &s->schedule;
    pqs_put_u8(out, (uint8_t)schedule->arrivals);
    pqs_put_f64(out, schedule->rate_per_s);
    pqs_put_u64(out, (uint64_t)schedule->warmup_ns);
    pqs_put_u64(out, (uint64_t)schedule->duration_ns);
    pqs_put_u64(out, (uint64_t)schedule->timeout_ns);
    pqs_put_u64(out, schedule->seed);
    pqs_put_u32(out, schedule->block);
    pqs_put_u32(out, schedule->threads);
    pqs_put_u32(out, schedule->max_inflight);
    pqs_put_str(out, s->cpus);
    pqs_put_u32(out, (uint32_t)s->n_params);
    for (size_t i = 0; i < s->n_params; i++) {
        pqs_put_str(out, s->params[i].name);
        pqs_put_bytes(out, s->params[i].value.data, s->params[i].value.len);
    }
}

int pqs_spec_decode(const void *data, size_t len, struct pqs_spec *ret_s, struct pqs_err *err) {
    struct pqs_cursor c = {.p = data, .left = len};
    struct pqs_spec s = {0};
    uint8_t arrivals = pqs_get_u8(&c);
    if (arrivals > PQS_ARRIVALS_POISSON)
        c.bad = true;
    s.schedule.arrivals = (enum pqs_arrivals)(c.bad ? 0 : arrivals);
    s.schedule.rate_per_s = pqs_get_f64(&c);
    s.schedule.warmup_ns = (int64_t)pqs_get_u64(&c);
    s.schedule.duration_ns = (int64_t)pqs_get_u64(&c);
    s.schedule.timeout_ns = (int64_t)pqs_get_u64(&c);
    s.schedule.seed = pqs_get_u64(&c);
    s.schedule.block = pqs_get_u32(&c);
    s.schedule.threads = pqs_get_u32(&c);
    s.schedule.max_inflight = pqs_get_u32(&c);
    pqs_get_str(&c, s.cpus, sizeof s.cpus);
    for (uint32_t n = pqs_get_u32(&c); n > 0 && !c.bad; n--) {
        char name[sizeof s.params->name] = "";
        size_t value_len = 0;
        pqs_get_str(&c, name, sizeof name);
        const uint8_t *value = pqs_get_bytes(&c, &value_len);
        if (!c.bad)
            pqs_spec_set_bytes(&s, name, value, value_len);
    }
    if (c.bad || c.left > 0) {
        pqs_spec_release(&s);
        return pqs_fail(err, PQS_E_FAILED, "malformed trial specification: %s",
                        c.bad ? "a field is cut short or out of range" : "bytes left over at the end");
    }
    *ret_s = s;
    return 0;
}
