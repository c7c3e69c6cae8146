/* The client engine: what is spoken on a connection, as a machine over bytes that knows no sockets and no schedule. The
 * generator (load/generator.h) moves the bytes and owns the connections. A workload's protocol is one const struct
 * pqs_engine. */
#ifndef PQS_LOAD_ENGINE_H
#define PQS_LOAD_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "channel/failure.h"
#include "channel/result.h"
#include "channel/spec.h"

enum pqs_advance {
    PQS_ADVANCE_MORE,   /* waits for bytes from the peer */
    PQS_ADVANCE_DONE,   /* the answer is complete */
    PQS_ADVANCE_FAILED, /* failure and step are set */
};

/* One call's input and output. */
struct pqs_exchange {
    const uint8_t *in; /* received bytes; the engine takes all of them */
    size_t in_len;
    bool in_eof;         /* the peer has closed after them */
    struct pqs_buf *out; /* bytes to send are appended */
};

/* What the engine notes about a connection while it advances; zeroed before begin. Times: pqs_now_ns(), 0 = not reached. */
struct pqs_marks {
    int64_t tls_ns;   /* handshake finished on this side */
    int64_t first_ns; /* first byte of the answer */
    int64_t done_ns;  /* last byte of the answer */
    uint16_t failure; /* enum pqs_failure */
    uint8_t step;     /* enum pqs_step that failed */
    uint8_t class;    /* enum pqs_class */
};

struct pqs_engine {
    const char *name;
    /* Per generator thread, made in the main thread before anything is measured. Errors: PQS_E_FAILED (a parameter is
     * wrong). */
    int (*thread_new)(const struct pqs_spec *spec, void **ret_thread, struct pqs_err *err);
    void (*thread_free)(void *thread);
    /* Memory of one connection, reused for as long as the thread lives: slot_bytes, zeroed once. */
    size_t slot_bytes;
    /* A connection is established; may write to out (client first). */
    enum pqs_advance (*begin)(void *thread, void *slot, struct pqs_exchange *x, struct pqs_marks *marks);
    enum pqs_advance (*advance)(void *thread, void *slot, struct pqs_exchange *x, struct pqs_marks *marks);
    /* The connection is over, for whatever reason; a completed one may append its goodbye to out (x is NULL: it is reset). */
    void (*end)(void *thread, void *slot, bool completed, struct pqs_exchange *x);
    /* Adds the facts and counters of the connections completed since the last call; details of the latest connection too
     * when asked. */
    void (*report)(void *thread, bool details, struct pqs_result *r);
    /* Why the last connection failed, for people; only kept while `explain` was called with true. */
    void (*explain)(void *thread, bool on);
    const char *(*why)(void *thread);
};

extern const struct pqs_engine pqs_engine_tls; /* load/engine_tls.c: TLS 1.3, then one HTTP request */
extern const struct pqs_engine
    pqs_engine_null; /* load/engine_null.c: the same request without cryptography: the tool itself */

#endif
