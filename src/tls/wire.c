/* The memory BIO pair of a thread. See wire.h. */
#include "tls/wire.h"

#include <string.h>

#include "crypto/ossl_err.h"

static int wire_read(BIO *bio, char *data, int len) {
    struct pqs_wire *w = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (len <= 0)
        return 0;
    if (w->in_left == 0) {
        if (w->in_eof)
            return 0;
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t n = (size_t)len < w->in_left ? (size_t)len : w->in_left;
    memcpy(data, w->in, n);
    w->in += n;
    w->in_left -= n;
    return (int)n;
}

static int wire_write(BIO *bio, const char *data, int len) {
    struct pqs_wire *w = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    pqs_buf_add(&w->out, data, len > 0 ? (size_t)len : 0);
    return len;
}

static long wire_ctrl(BIO *bio, int cmd, long num, void *ptr) {
    (void)num;
    (void)ptr;
    const struct pqs_wire *w = BIO_get_data(bio);
    switch (cmd) {
    case BIO_CTRL_FLUSH: /* the caller sends after the call, all at once */
        return 1;
    case BIO_CTRL_EOF:
        return w->in_left == 0 && w->in_eof;
    default:
        return 0;
    }
}

static BIO_METHOD *wire_method(void) {
    static BIO_METHOD *method; /* made by the first caller, before threads start; lives as long as the process */
    if (!method && (method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "pqshake wire"))) {
        BIO_meth_set_read(method, wire_read);
        BIO_meth_set_write(method, wire_write);
        BIO_meth_set_ctrl(method, wire_ctrl);
    }
    return method;
}

int pqs_wire_init(struct pqs_wire *w, struct pqs_err *err) {
    *w = (struct pqs_wire){0};
    BIO_METHOD *method = wire_method();
    if (!method || !(w->bio = BIO_new(method)))
        return pqs_fail_ossl(err, PQS_E_FAILED, "cannot make a BIO");
    BIO_set_data(w->bio, w);
    BIO_set_init(w->bio, 1);
    return 0;
}

void pqs_wire_release(struct pqs_wire *w) {
    BIO_free(w->bio);
    pqs_buf_release(&w->out);
    *w = (struct pqs_wire){0};
}

void pqs_wire_attach(struct pqs_wire *w, SSL *ssl) {
    BIO_up_ref(w->bio); /* one reference for both directions (SSL_set_bio) */
    SSL_set_bio(ssl, w->bio, w->bio);
}
