/* One worker process seen from the coordinator: start it, talk to it with deadlines, and be sure that it is gone. */
#ifndef PQS_RUN_WORKER_H
#define PQS_RUN_WORKER_H

#include "base/child.h"
#include "channel/message.h"
#include "channel/result.h"
#include "channel/spec.h"

/* The TLS stacks that there may be a worker for, NULL-terminated; the first is the default. */
extern const char *const pqs_stacks[];
#define PQS_DEFAULT_STACK pqs_stacks[0]

/* How a worker is reached that runs elsewhere: by a command that gets the worker's own command line as its last words and
 * hands standard input and output through (ssh, ip netns exec, kubectl exec -i, ...). Zeroed: a process of this machine. */
struct pqs_via {
    const char *text; /* the prefix as the user wrote it; NULL: none */
    const char *path; /* the worker there; NULL: where it is here */
    char **words;     /* the prefix, owned */
    size_t n_words;
};
/* option is what errors call the prefix. text and path are kept, not copied. */
PQS_MUST_CHECK int pqs_via_init(const char *option, const char *text, const char *path, struct pqs_via *ret_via,
                                struct pqs_err *err);
void pqs_via_release(struct pqs_via *via);
#define PQS_VIA __attribute__((cleanup(pqs_via_release))) struct pqs_via

struct pqs_worker {
    const char *role;
    const struct pqs_via *via; /* NULL: none */
    char who[128];             /* what errors call it */
    struct pqs_child child;
    struct pqs_channel channel;
    struct pqs_result hello; /* what it said of itself and its library */
};

/* Path of a worker executable: PQSHAKE_WORKER_DIR and nowhere else when that is set; otherwise beside this program, then
 * ../libexec/pqshake. PQS_E_ENV names where it looked. */
PQS_MUST_CHECK int pqs_worker_find(const char *stack, char *ret_path, size_t size, struct pqs_err *err);

/* Starts "pqshake-worker-<stack> <role>" and reads its HELLO, which must come from a worker of this stack and release (the error
 * names both). On failure nothing is left running. */
PQS_MUST_CHECK int pqs_worker_start(const char *stack, const char *role, struct pqs_worker *ret_w, struct pqs_err *err);
/* The same behind a prefix; via must outlive the worker. A path that cannot be run there is PQS_E_ENV too. */
PQS_MUST_CHECK int pqs_worker_start_via(const struct pqs_via *via, const char *stack, const char *role,
                                        struct pqs_worker *ret_w, struct pqs_err *err);

/* What else may happen while one worker is waited for. */
struct pqs_waiting {
    struct pqs_worker *watch; /* another worker, which must not die or speak meanwhile; NULL: none */
    /* Gets every message before the awaited one; negative ends the wait. NULL: there must be none. */
    int (*on_message)(void *context, enum pqs_message type, const struct pqs_buf *payload, struct pqs_err *err);
    void *context;
    int64_t silence_ns; /* the worker sends something at least this often; 0: it need not */
};

/* Waits for message `want`; its result rows are added to *ret_r (may be NULL: the payload is not looked at). waiting may be
 * NULL. timeout_ns INT64_MAX: for ever. Errors carry in err->sys what happened:
 *   EPIPE      the worker (or the watched one) died; the message says how, the process is reaped
 *   ETIMEDOUT  no answer in time; it still runs: stop it
 *   EINTR      SIGINT or SIGTERM came (see run/interrupt.h)
 *   EPROTO     something that is not the protocol, or an unexpected message
 *   0          the worker answered ERROR: code and text are its own */
PQS_MUST_CHECK int pqs_worker_wait(struct pqs_worker *w, enum pqs_message want, int64_t timeout_ns,
                                   const struct pqs_waiting *waiting, struct pqs_result *ret_r, struct pqs_err *err);

/* Sends a message (spec: for CONFIGURE, else NULL), then waits as above. */
PQS_MUST_CHECK int pqs_worker_ask(struct pqs_worker *w, enum pqs_message send, const struct pqs_spec *spec,
                                  enum pqs_message want, int64_t timeout_ns, const struct pqs_waiting *waiting,
                                  struct pqs_result *ret_r, struct pqs_err *err);

/* Ends it: closes its input, waits a moment, then SIGKILL. Safe on one that was never started (zeroed) or is stopped. */
void pqs_worker_stop(struct pqs_worker *w);
#define PQS_WORKER __attribute__((cleanup(pqs_worker_stop))) struct pqs_worker

#endif
