/* The seam between a TLS library and the sockets: a BIO that reads from bytes already received and appends what the library
 * writes to a buffer, so that every flight is one recv and one send, and every byte is counted where it passes.
 * One wire serves all connections of a thread, one after the other; it holds nothing of a connection between two calls. */
#ifndef PQS_TLS_WIRE_H
#define PQS_TLS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include "base/buf.h"
#include "base/err.h"

struct pqs_wire {
    const uint8_t *in; /* received, not yet taken by the library */
    size_t in_left;
    bool in_eof;        /* after `in` comes the end of the stream */
    struct pqs_buf out; /* written by the library; the caller sends and clears it */
    BIO *bio;           /* shared by the thread's connections (pqs_wire_attach) */
};

PQS_MUST_CHECK int pqs_wire_init(struct pqs_wire *w, struct pqs_err *err);
void pqs_wire_release(struct pqs_wire *w);
/* Makes the connection read and write through the wire. */
void pqs_wire_attach(struct pqs_wire *w, SSL *ssl);

#endif
