/* How a connection can fail: a step and a class. Failed connections are data: they are counted by "step.class" (counter
 * "failed.<step>.<class>") and never enter the latency percentiles (METHOD 12). Classes are rows of one table. */
#ifndef PQS_CHANNEL_FAILURE_H
#define PQS_CHANNEL_FAILURE_H

#include <stddef.h>
#include <stdint.h>

enum pqs_step { PQS_STEP_LOCAL = 0, PQS_STEP_CONNECT, PQS_STEP_TLS, PQS_STEP_RESPONSE, PQS_STEPS };
extern const char *const pqs_step_names[PQS_STEPS]; /* "local", "connect", "tls", "response" */

enum pqs_failure {
    PQS_FAILURE_NONE = 0,
    PQS_FAILURE_PORTS,       /* EADDRNOTAVAIL: source ports used up on this machine */
    PQS_FAILURE_DESCRIPTORS, /* EMFILE, ENFILE */
    PQS_FAILURE_RESOURCES,   /* ENOMEM, ENOBUFS and other local errors */
    PQS_FAILURE_REFUSED,
    PQS_FAILURE_UNREACHABLE,
    PQS_FAILURE_TIMEOUT, /* the latency was >= the timeout */
    PQS_FAILURE_RESET,
    PQS_FAILURE_EOF,         /* closed before the answer was complete */
    PQS_FAILURE_VERIFY,      /* the client did not accept the server's certificate */
    PQS_FAILURE_PROTOCOL,    /* TLS error found by this side */
    PQS_FAILURE_HTTP_STATUS, /* another status than expected */
    PQS_FAILURE_HTTP,        /* malformed HTTP, or a body of another length */
    PQS_FAILURE_PLAINTEXT,   /* (server) not TLS at all */
    PQS_FAILURE_VERSION,     /* (server) TLS 1.2 or older */
    PQS_FAILURE_ALERT = 256, /* + TLS alert number received (RFC 8446, 6) */
    PQS_FAILURE_END = 512
};

/* Identifier such as "timeout", "alert_handshake_failure", "alert_certificate_required"; never NULL ("alert_200" for numbers
 * without a name). ret is filled and returned. */
const char *pqs_failure_name(unsigned failure, char ret[static 48]);
/* What it means and what to look at, for people: "client certificate required", ...; never NULL. */
const char *pqs_failure_text(unsigned failure);
/* By identifier (as in a counter's name); PQS_FAILURE_NONE when unknown. */
unsigned pqs_failure_find(const char *name);

#endif
