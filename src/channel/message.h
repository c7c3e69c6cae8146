/* Messages between the coordinator and a worker, over the worker's standard input and output:
 *   u32 length of what follows | u8 version | u8 type | payload          (all little-endian)
 * A worker's life: HELLO; CONFIGURE -> READY; then per role
 *   client:        PREFLIGHT -> DONE; WARMUP -> PROGRESS* DONE; RUN -> PROGRESS* SAMPLES* DONE
 *   server:        MARK -> DONE (a snapshot of its counters once no connection is open); STOP -> DONE
 *   certificates:  CONFIGURE -> FILE* DONE, without READY
 *   list:          CONFIGURE -> DONE, without READY
 *   primitives:    CONFIGURE -> PROGRESS* DONE, without READY
 * Anything may be answered by ERROR. End of file on its standard input ends a worker. */
#ifndef PQS_CHANNEL_MESSAGE_H
#define PQS_CHANNEL_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct pqs_result;
struct pqs_spec;

#define PQS_CHANNEL_VERSION 1
#define PQS_MESSAGE_MAX (64u << 20) /* bytes; larger is a protocol error */

enum pqs_message {
    PQS_MSG_HELLO =
        1, /* worker: result rows: facts of the build (stack, header_version, library_version, library, build_id, pid) */
    PQS_MSG_CONFIGURE, /* coordinator: a spec */
    PQS_MSG_READY,     /* worker: result rows (server: fact "port" per listening port) */
    PQS_MSG_PREFLIGHT,
    PQS_MSG_WARMUP,
    PQS_MSG_RUN,
    PQS_MSG_PROGRESS, /* client: result rows: started, completed, failed so far */
    PQS_MSG_SAMPLES,  /* client: packed samples */
    PQS_MSG_MARK,
    PQS_MSG_STOP,
    PQS_MSG_FILE,  /* certificates: str name, bytes contents */
    PQS_MSG_DONE,  /* worker: result rows */
    PQS_MSG_ERROR, /* worker: u32 -code, str text */
};
const char *pqs_message_name(enum pqs_message type);

/* One end of a channel. Not thread-safe. Does not own the descriptors. */
struct pqs_channel {
    int in_fd;
    int out_fd;
    struct pqs_buf in; /* received, not yet consumed */
    size_t in_used;    /* consumed prefix of `in` */
};
void pqs_channel_init(struct pqs_channel *c, int in_fd, int out_fd);
void pqs_channel_release(struct pqs_channel *c);

/* Returns when everything is written, on blocking and non-blocking descriptors alike. A closed peer is PQS_E_FAILED with
 * sys = EPIPE, provided that the process ignores SIGPIPE: each main does so first thing. */
PQS_MUST_CHECK int pqs_channel_send(struct pqs_channel *c, enum pqs_message type, const void *payload, size_t len,
                                    struct pqs_err *err);
/* Waits for one message until deadline_ns (pqs_now_ns() time; INT64_MAX: for ever). Returns 1 with a message, 0 at the
 * deadline without one, negative on failure; a closed channel is PQS_E_FAILED with sys = EPIPE. ret_payload is cleared
 * first. */
PQS_MUST_CHECK int pqs_channel_recv(struct pqs_channel *c, int64_t deadline_ns, enum pqs_message *ret_type,
                                    struct pqs_buf *ret_payload, struct pqs_err *err);

/* Conveniences over the above. */
PQS_MUST_CHECK int pqs_channel_send_result(struct pqs_channel *c, enum pqs_message type, const struct pqs_result *r,
                                           struct pqs_err *err);
PQS_MUST_CHECK int pqs_channel_send_spec(struct pqs_channel *c, const struct pqs_spec *s, struct pqs_err *err);
PQS_MUST_CHECK int pqs_channel_send_error(struct pqs_channel *c, const struct pqs_err *what, struct pqs_err *err);

#endif
