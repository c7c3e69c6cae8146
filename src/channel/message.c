/* Framing of messages over a pair of descriptors. Must not know what a worker does with a message.
 * The process ignores SIGPIPE (the mains of coordinator and workers see to it), so that a closed peer is an error here and
 * not a signal. */
#include "channel/message.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "channel/result.h"
#include "channel/spec.h"

#define LENGTH_BYTES 4u /* the length field, which does not count itself */
#define HEAD_BYTES 2u   /* version and type, which it does count */
#define READ_BYTES (64u << 10)

static const char *const message_names[] = {
    [PQS_MSG_HELLO] = "hello",         [PQS_MSG_CONFIGURE] = "configure", [PQS_MSG_READY] = "ready",
    [PQS_MSG_PREFLIGHT] = "preflight", [PQS_MSG_WARMUP] = "warmup",       [PQS_MSG_RUN] = "run",
    [PQS_MSG_PROGRESS] = "progress",   [PQS_MSG_SAMPLES] = "samples",     [PQS_MSG_MARK] = "mark",
    [PQS_MSG_STOP] = "stop",           [PQS_MSG_FILE] = "file",           [PQS_MSG_DONE] = "done",
    [PQS_MSG_ERROR] = "error",
};

const char *pqs_message_name(enum pqs_message type) {
    return type >= PQS_MSG_HELLO && type <= PQS_MSG_ERROR ? message_names[type] : "unknown";
}

void pqs_channel_init(struct pqs_channel *c, int in_fd, int out_fd) {
    *c = (struct pqs_channel){.in_fd = in_fd, .out_fd = out_fd};
}

void pqs_channel_release(struct pqs_channel *c) {
    pqs_buf_release(&c->in);
    c->in_used = 0;
}

static int fail_closed(struct pqs_err *err, const char *when) {
    int rc = pqs_fail(err, PQS_E_FAILED, "the other end closed the channel%s", when);
    if (err)
        err->sys = EPIPE;
    return rc;
}

/* Blocks until everything is written, on blocking and non-blocking descriptors alike. */
static int write_all(int fd, const uint8_t *p, size_t left, struct pqs_err *err) {
    while (left > 0) {
        ssize_t n = write(fd, p, left);
        if (n >= 0) {
            p += n;
            left -= (size_t)n;
        } else if (errno == EAGAIN) {
            /* A closed peer ends this wait too; the next write then says EPIPE. */
            if (poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1) < 0 && errno != EINTR)
                return pqs_fail_sys(err, PQS_E_FAILED, errno, "waiting to write to the channel");
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return fail_closed(err, "");
        } else if (errno != EINTR) {
            return pqs_fail_sys(err, PQS_E_FAILED, errno, "writing to the channel");
        }
    }
    return 0;
}

int pqs_channel_send(struct pqs_channel *c, enum pqs_message type, const void *payload, size_t len, struct pqs_err *err) {
    if (len > PQS_MESSAGE_MAX - HEAD_BYTES)
        return pqs_fail(err, PQS_E_FAILED, "a %s message of %zu bytes is too long for the channel (at most %u)",
                        pqs_message_name(type), len, PQS_MESSAGE_MAX - HEAD_BYTES);
    PQS_BUF head = {0};
    pqs_put_u32(&head, (uint32_t)(len + HEAD_BYTES));
    pqs_put_u8(&head, PQS_CHANNEL_VERSION);
    pqs_put_u8(&head, (uint8_t)type);
    int rc = write_all(c->out_fd, head.data, head.len, err);
    return rc < 0 ? rc : write_all(c->out_fd, payload, len, err);
}

/* Takes one message out of c->in: 1 when there was one, 0 when more bytes are needed, negative when this is no channel. */
static int take_message(struct pqs_channel *c, enum pqs_message *ret_type, struct pqs_buf *ret_payload,
                        struct pqs_err *err) {
    if (c->in.len - c->in_used < LENGTH_BYTES)
        return 0;
    struct pqs_cursor cursor = {.p = c->in.data + c->in_used, .left = c->in.len - c->in_used};
    uint32_t len = pqs_get_u32(&cursor);
    if (len < HEAD_BYTES || len > PQS_MESSAGE_MAX)
        return pqs_fail(err, PQS_E_FAILED,
                        "a message of %u bytes on the channel (%u to %u are possible): is something else writing to the "
                        "worker's standard output, such as a login banner?",
                        len, HEAD_BYTES, PQS_MESSAGE_MAX);
    if (cursor.left < HEAD_BYTES)
        return 0;
    unsigned version = pqs_get_u8(&cursor);
    unsigned type = pqs_get_u8(&cursor);
    if (version != PQS_CHANNEL_VERSION)
        return pqs_fail(err, PQS_E_FAILED,
                        "the other end speaks channel version %u, this program %u: use a worker of the same release",
                        version, PQS_CHANNEL_VERSION);
    if (type < PQS_MSG_HELLO || type > PQS_MSG_ERROR)
        return pqs_fail(err, PQS_E_FAILED, "message type %u on the channel (1 to %u are known)", type, PQS_MSG_ERROR);
    if (cursor.left < len - HEAD_BYTES)
        return 0;
    pqs_buf_add(ret_payload, cursor.p, len - HEAD_BYTES);
    *ret_type = (enum pqs_message)type;
    c->in_used += LENGTH_BYTES + len;
    return 1;
}

/* Waits for input: 1 when there is some (or end of file), 0 at the deadline. */
static int wait_input(int fd, int64_t deadline_ns, struct pqs_err *err) {
    for (;;) {
        struct timespec timeout = {0};
        if (deadline_ns != INT64_MAX) {
            int64_t now_ns = pqs_now_ns();
            int64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
            timeout.tv_sec = left_ns / PQS_NS_PER_S;
            timeout.tv_nsec = left_ns % PQS_NS_PER_S;
        }
        int n = ppoll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, deadline_ns == INT64_MAX ? NULL : &timeout, NULL);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return pqs_fail_sys(err, PQS_E_FAILED, errno, "waiting for the channel");
    }
}

static int read_some(struct pqs_channel *c, struct pqs_err *err) {
    if (c->in_used > 0) { /* make room: move what is left to the front */
        c->in.len -= c->in_used;
        memmove(c->in.data, c->in.data + c->in_used, c->in.len);
        c->in_used = 0;
    }
    uint8_t chunk[READ_BYTES];
    ssize_t n = read(c->in_fd, chunk, sizeof chunk);
    if (n > 0)
        pqs_buf_add(&c->in, chunk, (size_t)n);
    else if (n == 0 || errno == ECONNRESET)
        return fail_closed(err, c->in.len > 0 ? " in the middle of a message" : "");
    else if (errno != EINTR && errno != EAGAIN)
        return pqs_fail_sys(err, PQS_E_FAILED, errno, "reading from the channel");
    return 0;
}

int pqs_channel_recv(struct pqs_channel *c, int64_t deadline_ns, enum pqs_message *ret_type, struct pqs_buf *ret_payload,
                     struct pqs_err *err) {
    pqs_buf_clear(ret_payload);
    for (;;) {
        int rc = take_message(c, ret_type, ret_payload, err);
        if (rc != 0)
            return rc;
        rc = wait_input(c->in_fd, deadline_ns, err);
        if (rc <= 0)
            return rc;
        rc = read_some(c, err);
        if (rc < 0)
            return rc;
    }
}

int pqs_channel_send_result(struct pqs_channel *c, enum pqs_message type, const struct pqs_result *r, struct pqs_err *err) {
    PQS_BUF payload = {0};
    pqs_result_encode(r, &payload);
    return pqs_channel_send(c, type, payload.data, payload.len, err);
}

int pqs_channel_send_spec(struct pqs_channel *c, const struct pqs_spec *s, struct pqs_err *err) {
    PQS_BUF payload = {0};
    pqs_spec_encode(s, &payload);
    return pqs_channel_send(c, PQS_MSG_CONFIGURE, payload.data, payload.len, err);
}

int pqs_channel_send_error(struct pqs_channel *c, const struct pqs_err *what, struct pqs_err *err) {
    PQS_BUF payload = {0};
    pqs_put_u32(&payload, (uint32_t)-what->code);
    pqs_put_str(&payload, what->msg);
    return pqs_channel_send(c, PQS_MSG_ERROR, payload.data, payload.len, err);
}
