/* Worker processes and the waits for them. Must not know what is measured. */
#include "run/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/opt.h"
#include "run/interrupt.h"

#define HELLO_TIMEOUT_NS (30 * PQS_NS_PER_S) /* process start, library start and its self-test, on a loaded machine */
#define GRACE_NS (3 * PQS_NS_PER_S)          /* a worker leaves at the end of its input; one that does not is stuck */
#define PIPE_BYTES (1 << 20)
#define PREFIX_WORDS_MAX 64

const char *const pqs_stacks[] = {"openssl", "aws-lc", NULL};

static int fail_as(struct pqs_err *err, int sys, int code) {
    err->sys = sys;
    return code;
}

int pqs_worker_find(const char *stack, char *ret_path, size_t size, struct pqs_err *err) {
    const char *dir = getenv("PQSHAKE_WORKER_DIR");
    char self[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = n > 0 ? strrchr(self, '/') : NULL;
    *(slash ? slash : self) = '\0';

    bool given = dir && *dir;
    PQS_FREE char *beside = pqs_format("%s/pqshake-worker-%s", self, stack);
    PQS_FREE char *libexec = pqs_format("%s/../libexec/pqshake/pqshake-worker-%s", self, stack);
    PQS_FREE char *wanted = pqs_format("%s/pqshake-worker-%s", given ? dir : "", stack);
    const char *places[] = {given ? wanted : beside, given ? NULL : libexec};
    for (size_t i = 0; i < PQS_COUNT(places); i++) {
        if (!places[i] || access(places[i], X_OK))
            continue;
        if ((size_t)snprintf(ret_path, size, "%s", places[i]) >= size)
            return pqs_fail(err, PQS_E_ENV, "the path of the worker is too long: %s", places[i]);
        return 0;
    }
    if (given)
        return pqs_fail(err, PQS_E_ENV, "no worker pqshake-worker-%s in %s, which PQSHAKE_WORKER_DIR names", stack, dir);
    return pqs_fail(err, PQS_E_ENV,
                    "no worker pqshake-worker-%s: looked beside this program (%s) and in %s/../libexec/pqshake; "
                    "PQSHAKE_WORKER_DIR names another place%s",
                    stack, self, self,
                    strcmp(stack, PQS_DEFAULT_STACK) == 0 ? "" : "; 'pqshake list --stacks' says how to get it");
}

int pqs_via_init(const char *option, const char *text, const char *path, struct pqs_via *ret_via, struct pqs_err *err) {
    struct pqs_via via = {.text = text, .path = path};
    int rc = text ? pqs_split_words(option, text, PREFIX_WORDS_MAX, &via.words, &via.n_words, err) : 0;
    if (rc == 0)
        *ret_via = via;
    return rc;
}

void pqs_via_release(struct pqs_via *via) {
    pqs_free_list(via->words, via->n_words);
    *via = (struct pqs_via){0};
}

static const char *said(const struct pqs_worker *w, const char *name) {
    for (size_t i = 0; i < w->hello.n_facts; i++)
        if (strcmp(w->hello.facts[i].name, name) == 0)
            return w->hello.facts[i].value;
    return NULL;
}

/* The path of a worker may have been given by hand. */
static int check_stack(const struct pqs_worker *w, const char *stack, struct pqs_err *err) {
    const char *theirs = said(w, "stack");
    if (theirs && strcmp(theirs, stack) == 0)
        return 0;
    return fail_as(err, EPROTO,
                   pqs_fail(err, PQS_E_USAGE,
                            "the %s is of stack %s, not %s: --client-stack and --server-stack name the ones that are meant",
                            w->who, theirs ? theirs : "(none)", stack));
}

/* Two releases need not mean the same by a parameter or a counter, even where the channel is the same. */
static int check_release(const struct pqs_worker *w, struct pqs_err *err) {
    const char *theirs = said(w, "tool_version");
    if (theirs && strcmp(theirs, PQSHAKE_VERSION) == 0)
        return 0;
    return fail_as(err, EPROTO,
                   pqs_fail(err, PQS_E_FAILED,
                            "the %s is of release %s, this program of %s: use a worker of the same release", w->who,
                            theirs ? theirs : "(none)", PQSHAKE_VERSION));
}

int pqs_worker_start(const char *stack, const char *role, struct pqs_worker *ret_w, struct pqs_err *err) {
    return pqs_worker_start_via(NULL, stack, role, ret_w, err);
}

int pqs_worker_start_via(const struct pqs_via *via, const char *stack, const char *role, struct pqs_worker *ret_w,
                         struct pqs_err *err) {
    char path[PATH_MAX];
    int rc = 0;
    if (via && via->path)
        snprintf(path, sizeof path, "%s", via->path);
    else
        rc = pqs_worker_find(stack, path, sizeof path, err);
    if (rc)
        return rc;
    size_t n = via ? via->n_words : 0;
    PQS_FREE char **argv = pqs_calloc(n + 3, sizeof *argv);
    for (size_t i = 0; i < n; i++)
        argv[i] = via->words[i];
    argv[n] = path;
    argv[n + 1] = (char *)role;

    struct pqs_worker w = {.role = role, .via = via};
    if (n)
        snprintf(w.who, sizeof w.who, "%s worker (through '%.80s')", role, via->text);
    else
        snprintf(w.who, sizeof w.who, "%s worker", role);
    rc = pqs_child_start(argv, &w.child, err);
    if (rc)
        return pqs_context(err, "the %s", w.who);
    /* A specification with its certificates fits into the pipe, so that sending it never waits for a worker that is stuck.
     * Where the system refuses, the default (64 KiB) nearly always does too. */
    (void)fcntl(w.child.in_fd, F_SETPIPE_SZ, PIPE_BYTES);
    pqs_channel_init(&w.channel, w.child.out_fd, w.child.in_fd);
    rc = pqs_worker_wait(&w, PQS_MSG_HELLO, HELLO_TIMEOUT_NS, NULL, &w.hello, err);
    if (rc == 0)
        rc = check_release(&w, err);
    if (rc == 0)
        rc = check_stack(&w, stack, err);
    if (rc) {
        pqs_worker_stop(&w);
        return n && err->sys == ETIMEDOUT ? pqs_context(err, "starting %s (a prefix must not ask for a password)", path)
                                          : pqs_context(err, "starting %s", path);
    }
    *ret_w = w;
    return 0;
}

void pqs_worker_stop(struct pqs_worker *w) {
    int status;
    pqs_child_stop(&w->child, GRACE_NS, &status);
    pqs_channel_release(&w->channel);
    pqs_result_release(&w->hello);
}

/* The worker closed its output: it is dead or as good as dead. Reaps it, so that the message can say how it ended. */
static int fail_dead(struct pqs_worker *w, struct pqs_err *err) {
    int status = 0;
    char how[128];
    if (w->child.pid == 0)
        return fail_as(err, EPIPE, pqs_fail(err, PQS_E_FAILED, "the %s is gone", w->who));
    pqs_child_stop(&w->child, GRACE_NS, &status);
    pqs_child_describe(status, how, sizeof how);
    if (!w->via || !w->via->text)
        return fail_as(err, EPIPE, pqs_fail(err, PQS_E_FAILED, "the %s died: %s", w->who, how));
    if (w->hello.n_facts > 0)
        return fail_as(err, EPIPE, pqs_fail(err, PQS_E_FAILED, "the %s died, or the link to it: %s", w->who, how));
    /* What shells, env(1) and chroot(1) say of a program that they do not find or cannot execute (POSIX). */
    bool no_program = WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127);
    return fail_as(err, EPIPE,
                   pqs_fail(err, no_program ? PQS_E_ENV : PQS_E_FAILED,
                            "the %s did not start: %s; %s no worker there, whose path --%s-worker names", w->who, how,
                            no_program ? "there is" : "the prefix failed, or found", w->role));
}

static int fail_answered(const struct pqs_worker *w, const struct pqs_buf *payload, struct pqs_err *err) {
    struct pqs_cursor c = {.p = payload->data, .left = payload->len};
    uint32_t code = pqs_get_u32(&c);
    size_t len = 0;
    const uint8_t *text = pqs_get_bytes(&c, &len);
    if (c.bad || code == 0 || code > -PQS_E_OBJECTIVE)
        return fail_as(err, EPROTO, pqs_fail(err, PQS_E_FAILED, "the %s sent a malformed error", w->who));
    return pqs_fail(err, -(int)code, "%s: %.*s", w->who, (int)len, (const char *)text);
}

static int fail_unexpected(const struct pqs_worker *w, enum pqs_message got, const char *instead, struct pqs_err *err) {
    return fail_as(err, EPROTO, pqs_fail(err, PQS_E_FAILED, "the %s sent '%s' %s", w->who, pqs_message_name(got), instead));
}

/* Takes a message that is there, without waiting: 1, or 0 when there is none. A dead worker and an ERROR are failures. */
static int take(struct pqs_worker *w, enum pqs_message *ret_type, struct pqs_buf *ret_payload, struct pqs_err *err) {
    if (w->child.pid == 0)
        return fail_dead(w, err);
    int rc = pqs_channel_recv(&w->channel, 0, ret_type, ret_payload, err);
    if (rc < 0 && err->sys == EPIPE)
        return fail_dead(w, err);
    if (rc < 0)
        return fail_as(err, EPROTO, pqs_context(err, "the %s", w->who));
    if (rc > 0 && *ret_type == PQS_MSG_ERROR)
        return fail_answered(w, ret_payload, err);
    return rc;
}

static int sleep_until_something(const struct pqs_worker *w, const struct pqs_worker *watch, int64_t deadline_ns) {
    struct pollfd fds[] = {
        {.fd = w->child.out_fd, .events = POLLIN},
        {.fd = watch ? watch->child.out_fd : -1, .events = POLLIN},
        {.fd = pqs_interrupt_fd(), .events = POLLIN},
    };
    int64_t left_ns = deadline_ns == INT64_MAX ? PQS_NS_PER_S : deadline_ns - pqs_now_ns();
    struct timespec left = {.tv_sec = left_ns / PQS_NS_PER_S, .tv_nsec = left_ns % PQS_NS_PER_S};
    if (left_ns <= 0)
        return ETIMEDOUT;
    return ppoll(fds, PQS_COUNT(fds), &left, NULL) < 0 && errno != EINTR ? errno : 0;
}

int pqs_worker_wait(struct pqs_worker *w, enum pqs_message want, int64_t timeout_ns, const struct pqs_waiting *waiting,
                    struct pqs_result *ret_r, struct pqs_err *err) {
    static const struct pqs_waiting alone = {0};
    struct pqs_err local;
    err = err ? err : &local;
    waiting = waiting ? waiting : &alone;
    int64_t heard_ns = pqs_now_ns();
    int64_t deadline_ns = timeout_ns == INT64_MAX ? INT64_MAX : heard_ns + timeout_ns;
    for (;;) {
        enum pqs_message type = PQS_MSG_ERROR;
        PQS_BUF payload = {0};
        int rc = take(w, &type, &payload, err);
        if (rc < 0)
            return rc;
        if (rc > 0 && type == want) {
            rc = ret_r ? pqs_result_decode(payload.data, payload.len, ret_r, err) : 0;
            return rc ? fail_as(err, EPROTO, pqs_context(err, "the %s", w->who)) : 0;
        }
        if (rc > 0) {
            if (!waiting->on_message)
                return fail_unexpected(w, type, "out of turn", err);
            rc = waiting->on_message(waiting->context, type, &payload, err);
            if (rc)
                return rc;
            heard_ns = pqs_now_ns();
            if (!pqs_interrupted() && pqs_now_ns() < deadline_ns)
                continue;
        }
        if (waiting->watch) {
            rc = take(waiting->watch, &type, &payload, err);
            if (rc < 0)
                return rc;
            if (rc > 0)
                return fail_unexpected(waiting->watch, type, "unasked", err);
        }
        if (pqs_interrupted())
            return fail_as(err, EINTR, pqs_fail(err, PQS_E_FAILED, "interrupted by a signal"));
        int64_t silent_ns = waiting->silence_ns ? heard_ns + waiting->silence_ns : INT64_MAX;
        int sys = sleep_until_something(w, waiting->watch, silent_ns < deadline_ns ? silent_ns : deadline_ns);
        if (sys == ETIMEDOUT && silent_ns < deadline_ns)
            return fail_as(err, sys,
                           pqs_fail(err, PQS_E_FAILED, "the %s has been silent for %.3g s: it hangs, or the link to it",
                                    w->who, (double)waiting->silence_ns / (double)PQS_NS_PER_S));
        if (sys == ETIMEDOUT)
            return fail_as(err, sys,
                           pqs_fail(err, PQS_E_FAILED, "the %s did not send '%s' within %.3g s", w->who,
                                    pqs_message_name(want), (double)timeout_ns / (double)PQS_NS_PER_S));
        if (sys)
            return pqs_fail_sys(err, PQS_E_FAILED, sys, "waiting for the %s", w->who);
    }
}

int pqs_worker_ask(struct pqs_worker *w, enum pqs_message send, const struct pqs_spec *spec, enum pqs_message want,
                   int64_t timeout_ns, const struct pqs_waiting *waiting, struct pqs_result *ret_r, struct pqs_err *err) {
    struct pqs_err local;
    err = err ? err : &local;
    if (w->child.pid == 0)
        return fail_dead(w, err);
    int rc = spec ? pqs_channel_send_spec(&w->channel, spec, err) : pqs_channel_send(&w->channel, send, NULL, 0, err);
    /* A worker that gave up may have said why before it closed its input: the wait finds either that or its death. */
    if (rc && err->sys != EPIPE)
        return pqs_context(err, "the %s", w->who);
    return pqs_worker_wait(w, want, timeout_ns, waiting, ret_r, err);
}
