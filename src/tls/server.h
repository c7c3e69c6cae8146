/* The target: a TLS 1.3 server with HTTP/1.1 on top, made to be measured. N threads with listeners of their own
 * (SO_REUSEPORT), one write per flight, TCP_NODELAY, session tickets off. The client closes first; the server closes after
 * end of file.
 *   GET /         200, "ok\n"
 *   GET /bytes/N  200, N bytes, N up to 64 MiB
 * Slow, silent, plain-text, TLS 1.2 and half-closed clients are answered or timed out and never disturb the others. */
#ifndef PQS_TLS_SERVER_H
#define PQS_TLS_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "channel/result.h"
#include "tls/context.h"

#define PQS_SERVER_PORTS_MAX 64
#define PQS_SERVER_THREADS_MAX 256
#define PQS_SERVER_BYTES_MAX (64u << 20)

struct pqs_server_options {
    struct pqs_tls_options tls;
    bool plain;       /* no TLS at all: the counterpart of the null engine */
    const char *host; /* address to listen on */
    uint16_t port;    /* first port; 0: any */
    unsigned n_ports; /* 1 .. PQS_SERVER_PORTS_MAX */
    unsigned threads; /* 1 .. PQS_SERVER_THREADS_MAX */
    int backlog;
    int64_t timeout_ns; /* for a handshake, a request, or between two requests */
};

struct pqs_server;

/* Listens and starts serving; options (and what they point to) are only needed during the call. PQS_E_FAILED: certificate,
 * groups, address in use; PQS_E_USAGE: no such address. */
PQS_MUST_CHECK int pqs_server_start(const struct pqs_server_options *o, struct pqs_server **ret_s, struct pqs_err *err);

/* Port i, 0 <= i < n_ports. */
uint16_t pqs_server_port(const struct pqs_server *s, unsigned i);

/* Connections open now, those that wait to be accepted included. */
int64_t pqs_server_open(const struct pqs_server *s);

/* Counters since the start (docs/RESULTS.md, side server). At any time. */
void pqs_server_counters(const struct pqs_server *s, struct pqs_result *r);

/* Stops accepting, lets open connections finish for grace_ns at most, closes the rest, ends the threads. */
void pqs_server_stop(struct pqs_server *s, int64_t grace_ns);

/* Facts of the handshakes since the start (group, cipher). After pqs_server_stop. */
void pqs_server_facts(const struct pqs_server *s, struct pqs_result *r);

void pqs_server_free(struct pqs_server *s); /* NULL is fine; stops it first when it runs */

#endif
