/* TLS 1.3 and one HTTP request over it: the client of the `tls` workload. One SSL_CTX per thread, one SSL per connection (a
 * fresh handshake shares nothing with the one before: fresh key shares, METHOD 27). See engine.h. */
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/mem.h"
#include "load/engine.h"
#include "load/http_client.h"
#include "tls/context.h"
#include "tls/outcome.h"
#include "tls/wire.h"

struct tls_thread {
    SSL_CTX *ctx;
    struct pqs_wire wire;
    struct pqs_tls_options options;
    struct pqs_spec spec; /* options point into it */
    const char *sni;
    struct pqs_http_client http;
    bool handshake_only;
    struct pqs_tally tally;
    bool explain;
    struct pqs_buf why;
    struct pqs_result details; /* of the latest connection; only while explain is on */
};

struct tls_slot {
    SSL *ssl;
    struct pqs_tls_watch watch;
    struct pqs_http_response response;
    struct pqs_negotiated negotiated;
};

static void tls_thread_free(void *thread) {
    struct tls_thread *t = thread;
    SSL_CTX_free(t->ctx);
    pqs_wire_release(&t->wire);
    pqs_http_client_release(&t->http);
    pqs_spec_release(&t->spec);
    pqs_buf_release(&t->why);
    pqs_result_release(&t->details);
    free(t);
}

static bool is_yes(const char *text) {
    return text && strcmp(text, "yes") == 0;
}

static int tls_thread_new(const struct pqs_spec *spec, void **ret_thread, struct pqs_err *err) {
    struct tls_thread *t = pqs_calloc(1, sizeof *t);
    pqs_spec_copy(spec, &t->spec);
    t->options = (struct pqs_tls_options){
        .groups = pqs_spec_get(&t->spec, "groups"),
        .sigalgs = pqs_spec_get(&t->spec, "sigalgs"),
        .ca = pqs_spec_get_bytes(&t->spec, "ca"),
        .verify = !is_yes(pqs_spec_get(&t->spec, "insecure")),
        .servername = pqs_spec_get(&t->spec, "servername"),
        .cert = {pqs_spec_get_bytes(&t->spec, "client_cert")},
        .key = {pqs_spec_get_bytes(&t->spec, "client_key")},
    };
    t->sni = pqs_tls_sni(t->options.servername);
    t->handshake_only = is_yes(pqs_spec_get(&t->spec, "handshake_only"));
    int rc = t->options.verify && !t->options.ca
                 ? pqs_fail(err, PQS_E_USAGE,
                            "without a CA the server's certificate cannot be verified: give one, or say insecure")
                 : 0;
    if (rc == 0)
        rc = pqs_http_client_init(&t->http, spec, err);
    if (rc == 0)
        rc = pqs_tls_client_context(&t->options, &t->ctx, err);
    if (rc == 0)
        rc = pqs_wire_init(&t->wire, err);
    if (rc) {
        tls_thread_free(t);
        return rc;
    }
    *ret_thread = t;
    return 0;
}

/* The library refused to go on: its class of failure, with the alert that it wants to send left in the output. */
static enum pqs_advance tls_fail(struct tls_thread *t, const struct tls_slot *s, enum pqs_step step,
                                 struct pqs_marks *marks) {
    if (t->explain)
        pqs_buf_clear(&t->why);
    return pqs_advance_fail(marks, step, pqs_tls_failure(s->ssl, t->explain ? &t->why : NULL));
}

static void keep_details(struct tls_thread *t, struct tls_slot *s) {
    pqs_result_release(&t->details);
    pqs_tls_watch_report(&s->watch, PQS_CLIENT, &t->details);
    pqs_tls_chain_report(s->ssl, &t->details);
}

static enum pqs_advance handshake(struct tls_thread *t, struct tls_slot *s, struct pqs_marks *marks) {
    ERR_clear_error();
    int rc = SSL_do_handshake(s->ssl);
    if (rc != 1) {
        switch (SSL_get_error(s->ssl, rc)) {
        case SSL_ERROR_WANT_READ:
            return PQS_ADVANCE_MORE;
        case SSL_ERROR_SYSCALL:     /* the stream ended without an alert */
        case SSL_ERROR_ZERO_RETURN: /* ... or with close_notify */
            return pqs_advance_fail(marks, PQS_STEP_TLS, PQS_FAILURE_EOF);
        default:
            return tls_fail(t, s, PQS_STEP_TLS, marks);
        }
    }
    marks->tls_ns = pqs_now_ns();
    pqs_negotiated_get(s->ssl, &s->negotiated);
    s->negotiated.retry = s->watch.retry;
    marks->class = s->watch.retry ? PQS_CLASS_RETRY : s->negotiated.resumed ? PQS_CLASS_RESUMED : PQS_CLASS_FULL;
    if (t->explain)
        keep_details(t, s);
    if (t->handshake_only) {
        marks->first_ns = marks->done_ns = marks->tls_ns;
        return PQS_ADVANCE_DONE;
    }
    /* The request leaves in the same segment as Finished. */
    ERR_clear_error();
    size_t written;
    if (SSL_write_ex(s->ssl, t->http.request.data, t->http.request.len, &written) != 1)
        return tls_fail(t, s, PQS_STEP_RESPONSE, marks);
    return PQS_ADVANCE_MORE;
}

static enum pqs_advance response(struct tls_thread *t, struct tls_slot *s, struct pqs_marks *marks) {
    uint8_t plain[16384]; /* one record's worth */
    for (;;) {
        size_t n = 0;
        ERR_clear_error();
        int rc = SSL_read_ex(s->ssl, plain, sizeof plain, &n);
        if (rc == 1) {
            enum pqs_advance a = pqs_http_client_feed(&t->http, &s->response, plain, n, marks);
            if (a != PQS_ADVANCE_MORE)
                return a;
            continue;
        }
        switch (SSL_get_error(s->ssl, rc)) {
        case SSL_ERROR_WANT_READ:
            return PQS_ADVANCE_MORE;
        case SSL_ERROR_ZERO_RETURN: /* close_notify */
            return pqs_http_client_end(&t->http, &s->response, marks);
        case SSL_ERROR_SYSCALL:
            return pqs_advance_fail(marks, PQS_STEP_RESPONSE, PQS_FAILURE_EOF);
        default:
            return tls_fail(t, s, PQS_STEP_RESPONSE, marks);
        }
    }
}

static enum pqs_advance tls_advance(void *thread, void *slot, struct pqs_exchange *x, struct pqs_marks *marks) {
    struct tls_thread *t = thread;
    struct tls_slot *s = slot;
    t->wire.in = x->in;
    t->wire.in_left = x->in_len;
    t->wire.in_eof = x->in_eof;
    enum pqs_advance a = PQS_ADVANCE_MORE;
    if (marks->tls_ns == 0)
        a = handshake(t, s, marks);
    if (a == PQS_ADVANCE_MORE && marks->tls_ns != 0)
        a = response(t, s, marks);
    if (t->explain && marks->failure == PQS_FAILURE_HTTP_STATUS) {
        pqs_buf_clear(&t->why);
        pqs_buf_addf(&t->why, "the status was %u", s->response.status);
    }
    if (a == PQS_ADVANCE_DONE)
        s->negotiated.http_status = t->handshake_only ? 0 : s->response.status;
    pqs_buf_add(x->out, t->wire.out.data, t->wire.out.len);
    pqs_buf_clear(&t->wire.out);
    return a;
}

static enum pqs_advance tls_begin(void *thread, void *slot, struct pqs_exchange *x, struct pqs_marks *marks) {
    struct tls_thread *t = thread;
    struct tls_slot *s = slot;
    s->ssl = pqs_tls_client_connection(t->ctx, t->sni);
    if (!s->ssl)
        return pqs_advance_fail(marks, PQS_STEP_LOCAL, PQS_FAILURE_RESOURCES);
    pqs_wire_attach(&t->wire, s->ssl);
    SSL_set_connect_state(s->ssl);
    pqs_tls_watch_start(s->ssl, &s->watch);
    pqs_http_response_init(&s->response);
    return tls_advance(thread, slot, x, marks);
}

static void tls_end(void *thread, void *slot, bool completed, struct pqs_exchange *x) {
    struct tls_thread *t = thread;
    struct tls_slot *s = slot;
    if (completed)
        pqs_tally_add(&t->tally, &s->negotiated);
    if (completed && x) {
        ERR_clear_error();
        SSL_shutdown(s->ssl); /* close_notify; the peer's is not waited for */
        pqs_buf_add(x->out, t->wire.out.data, t->wire.out.len);
        pqs_buf_clear(&t->wire.out);
    }
    SSL_free(s->ssl);
    s->ssl = NULL;
}

static void tls_report(void *thread, bool details, struct pqs_result *r) {
    struct tls_thread *t = thread;
    pqs_tally_report(&t->tally, PQS_CLIENT, r);
    for (size_t i = 0; i < t->tally.n_rows; i++) {
        const struct pqs_negotiated *w = &t->tally.rows[i].what;
        int64_t n = (int64_t)t->tally.rows[i].n;
        pqs_result_count(r, PQS_CLIENT, "verified", w->verified ? n : 0);
        pqs_result_count(r, PQS_CLIENT, "resumed", w->resumed ? n : 0);
        pqs_result_count(r, PQS_CLIENT, "retries", w->retry ? n : 0);
    }
    t->tally = (struct pqs_tally){0};
    if (!details)
        return;
    for (size_t i = 0; i < t->details.n_facts; i++) {
        const struct pqs_fact *f = &t->details.facts[i];
        pqs_result_fact(r, f->side, f->name, f->value, f->n);
    }
}

static void tls_explain(void *thread, bool on) {
    struct tls_thread *t = thread;
    t->explain = on;
}

static const char *tls_why(void *thread) {
    const struct tls_thread *t = thread;
    return pqs_buf_text(&t->why);
}

const struct pqs_engine pqs_engine_tls = {
    .name = "tls",
    .thread_new = tls_thread_new,
    .thread_free = tls_thread_free,
    .slot_bytes = sizeof(struct tls_slot),
    .begin = tls_begin,
    .advance = tls_advance,
    .end = tls_end,
    .report = tls_report,
    .explain = tls_explain,
    .why = tls_why,
};
