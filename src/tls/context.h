/* SSL_CTX of either side, TLS 1.3 only, made once per thread before anything is measured. */
#ifndef PQS_TLS_CONTEXT_H
#define PQS_TLS_CONTEXT_H

#include <stdbool.h>

#include <openssl/ssl.h>

#include "base/buf.h"
#include "base/err.h"

struct pqs_tls_options {
    const char *groups;            /* OpenSSL's list syntax; NULL: the library's default */
    const char *sigalgs;           /* NULL: the library's default */
    const struct pqs_buf *cert[2]; /* PEM chains, leaf first; NULL: none. The server may have two, of different key types */
    const struct pqs_buf *key[2];  /* PEM keys that go with them */
    const struct pqs_buf *ca;      /* PEM: whom to trust when the peer's chain is verified; NULL: nobody */
    bool verify;                   /* client: verify the server's chain; server: require and verify a client's */
    const char *servername; /* client: SNI and name to verify; NULL or an address: verified, but no SNI for addresses */
};

/* Errors are PQS_E_FAILED and name the offending value: an unknown group or an empty list, a key that does not match, a bad
 * PEM. */
PQS_MUST_CHECK int pqs_tls_client_context(const struct pqs_tls_options *o, SSL_CTX **ret_ctx, struct pqs_err *err);
PQS_MUST_CHECK int pqs_tls_server_context(const struct pqs_tls_options *o, SSL_CTX **ret_ctx, struct pqs_err *err);
/* The name to send as SNI (RFC 6066, section 3: addresses are not sent), or NULL. */
const char *pqs_tls_sni(const char *servername);
/* A connection of that client context; sni may be NULL. NULL when out of memory. */
SSL *pqs_tls_client_connection(SSL_CTX *ctx, const char *sni);

#endif
