/* No cryptography: the same request over the same TCP connection, so that what remains is the tool's and the kernel's own
 * cost. The handshake phase is empty. See engine.h. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "load/engine.h"
#include "load/http_client.h"

struct null_thread {
    struct pqs_http_client http;
};

struct null_slot {
    struct pqs_http_response response;
};

static void null_thread_free(void *thread) {
    struct null_thread *t = thread;
    pqs_http_client_release(&t->http);
    free(t);
}

static int null_thread_new(const struct pqs_spec *spec, void **ret_thread, struct pqs_err *err) {
    struct null_thread *t = pqs_calloc(1, sizeof *t);
    int rc = pqs_http_client_init(&t->http, spec, err);
    if (rc) {
        null_thread_free(t);
        return rc;
    }
    *ret_thread = t;
    return 0;
}

static enum pqs_advance null_begin(void *thread, void *slot, struct pqs_exchange *x, struct pqs_marks *marks) {
    struct null_thread *t = thread;
    struct null_slot *s = slot;
    pqs_http_response_init(&s->response);
    marks->tls_ns = pqs_now_ns();
    marks->class = PQS_CLASS_FULL;
    pqs_buf_add(x->out, t->http.request.data, t->http.request.len);
    return PQS_ADVANCE_MORE;
}

static enum pqs_advance null_advance(void *thread, void *slot, struct pqs_exchange *x, struct pqs_marks *marks) {
    struct null_thread *t = thread;
    struct null_slot *s = slot;
    enum pqs_advance a = pqs_http_client_feed(&t->http, &s->response, x->in, x->in_len, marks);
    return a == PQS_ADVANCE_MORE && x->in_eof ? pqs_http_client_end(&t->http, &s->response, marks) : a;
}

static void null_end(void *thread, void *slot, bool completed, struct pqs_exchange *x) {
    (void)thread, (void)slot, (void)completed, (void)x;
}

static void null_report(void *thread, bool details, struct pqs_result *r) {
    (void)thread, (void)details, (void)r;
}

static void null_explain(void *thread, bool on) {
    (void)thread, (void)on;
}

static const char *null_why(void *thread) {
    (void)thread;
    return "";
}

const struct pqs_engine pqs_engine_null = {
    .name = "null",
    .thread_new = null_thread_new,
    .thread_free = null_thread_free,
    .slot_bytes = sizeof(struct null_slot),
    .begin = null_begin,
    .advance = null_advance,
    .end = null_end,
    .report = null_report,
    .explain = null_explain,
    .why = null_why,
};
