/* What a connection turned out to be: the class of a failure, the facts of a success. The functions that only one library
 * has are in outcome.c alone. */
#ifndef PQS_TLS_OUTCOME_H
#define PQS_TLS_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include <openssl/ssl.h>

#include "base/buf.h"
#include "channel/result.h"

/* Handshake messages seen on one connection (RFC 8446, section 4): whether a HelloRetryRequest was among them, and the size
 * of the last of each type with its 4-byte header. */
struct pqs_tls_watch {
    bool retry;
    uint32_t message_bytes[32]; /* by HandshakeType; types from 32 on are not handshake messages of interest */
};
/* Starts watching; watch must outlive the connection. */
void pqs_tls_watch_start(SSL *ssl, struct pqs_tls_watch *watch);
/* Facts message.<name>, one per type seen. */
void pqs_tls_watch_report(const struct pqs_tls_watch *watch, enum pqs_side side, struct pqs_result *r);

/* Facts certificate.key, certificate.chain_bytes (DER), certificate.chain_length of the chain that the server sent; none
 * when it sent none. */
void pqs_tls_chain_report(SSL *ssl, struct pqs_result *r);

/* The class (enum pqs_failure) of the failure that the last call on this connection ended with; reads and clears the error
 * queue. ret_why (may be NULL) gets what the library and the verification say about it, for people. */
unsigned pqs_tls_failure(const SSL *ssl, struct pqs_buf *ret_why);

/* Facts of finished connections, tallied per distinct combination so that counting costs one comparison. Not thread-safe.
 * The strings belong to the library and live as long as the SSL_CTX. */
struct pqs_negotiated {
    const char *protocol;
    const char *group;
    const char *cipher;
    const char *signature; /* of the peer; "" when there is none (client without certificate) */
    uint16_t http_status;  /* 0: no request */
    bool verified, resumed, retry;
};
struct pqs_tally {
    struct {
        struct pqs_negotiated what;
        uint64_t n;
    } rows[16];
    size_t n_rows;
    uint64_t overflow; /* connections beyond 16 distinct combinations */
};
void pqs_negotiated_get(SSL *ssl, struct pqs_negotiated *ret);
void pqs_tally_add(struct pqs_tally *t, const struct pqs_negotiated *what);
/* Facts group, cipher, signature, protocol, verified, resumed, retry, http_status (the last four on the client's side only).
 */
void pqs_tally_report(const struct pqs_tally *t, enum pqs_side side, struct pqs_result *r);

#endif
