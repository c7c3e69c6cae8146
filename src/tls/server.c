/* The server's threads and connections. See server.h. */
#include "tls/server.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/sock_diag.h>
#include <openssl/err.h>

#include "base/clock.h"
#include "base/mem.h"
#include "channel/failure.h"
#include "crypto/library.h"
#include "tls/http.h"
#include "tls/outcome.h"
#include "tls/wire.h"

#define IN_BYTES (64u * 1024)           /* one recv */
#define RECORD_BYTES 16384u             /* plaintext of one TLS record (RFC 8446, 5.1) */
#define OUT_BYTES ((size_t)256 * 1024)  /* ciphertext of a large body prepared at a time */
#define BACKOFF_NS (50 * PQS_NS_PER_MS) /* pause of accepting when descriptors ran out */

enum state {
    STATE_HANDSHAKE,
    STATE_OPEN,
    STATE_LINGER, /* nothing more to say: our side is shut down, the peer's bytes are discarded until it closes */
};

struct conn {
    struct conn *prev, *next; /* free list (next), or open connections in the order of their deadlines */
    int fd;
    enum state state;
    SSL *ssl; /* NULL with `plain` */
    int64_t deadline_ns;
    struct pqs_buf head;   /* request bytes without an end yet */
    struct pqs_buf unread; /* stream bytes not taken while a body is being written */
    struct pqs_buf unsent; /* stream bytes that the socket did not take */
    uint64_t body_left;
    bool peer_eof;
    bool close_after; /* the response that is being sent is the last */
    bool answered;    /* at least one request was */
    bool failed;      /* counted as failed */
};

struct thread {
    pthread_t id;
    bool running;
    struct pqs_server *server;
    int epoll_fd;
    int listeners[PQS_SERVER_PORTS_MAX];
    bool accepting;
    int64_t accept_again_ns;
    SSL_CTX *ctx;
    struct pqs_wire wire;
    struct conn *free_list, *oldest, *newest;
    struct pqs_tally tally;
    uint8_t in[IN_BYTES];
    uint8_t plain[RECORD_BYTES];

    _Atomic int64_t accepted, handshakes, responses, completed, failed, bytes_in, bytes_out, open, accept_backoff;
    _Atomic uint32_t failed_class[PQS_FAILURE_END];
} __attribute__((aligned(64)));

struct pqs_server {
    struct thread *threads;
    unsigned n_threads, n_ports;
    uint16_t ports[PQS_SERVER_PORTS_MAX];
    int64_t timeout_ns;
    bool plain;
    int stop_fd;                /* eventfd: readable once stopping */
    _Atomic int64_t stop_at_ns; /* 0: running; then the instant by which everything is closed */
};

/* epoll tags that are not connections */
#define TAG_STOP ((uint64_t)PQS_SERVER_PORTS_MAX)

static void add(_Atomic int64_t *counter, int64_t n) { /* one writer: no locked instruction needed */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

/* ---- connections ---- */

static void unlink_conn(struct thread *t, struct conn *c) {
    *(c->prev ? &c->prev->next : &t->oldest) = c->next;
    *(c->next ? &c->next->prev : &t->newest) = c->prev;
}

static void append_conn(struct thread *t, struct conn *c) {
    c->deadline_ns = pqs_now_ns() + t->server->timeout_ns;
    c->prev = t->newest;
    c->next = NULL;
    *(t->newest ? &t->newest->next : &t->oldest) = c;
    t->newest = c;
}

/* A new phase (handshake, request, a part of a body sent) has its own time. All have the same, so the list stays in order.
 */
static void restart_deadline(struct thread *t, struct conn *c) {
    unlink_conn(t, c);
    append_conn(t, c);
}

static void count_failure(struct thread *t, struct conn *c, unsigned class) {
    if (c->failed)
        return;
    c->failed = true;
    add(&t->failed, 1);
    atomic_fetch_add_explicit(&t->failed_class[class], 1, memory_order_relaxed);
}

/* Whether an end now is a failure: in a handshake, a request or an answer. A TLS client may want the handshake only; one
 * that just connects has got nothing. */
static bool unfinished(const struct conn *c) {
    return c->state == STATE_HANDSHAKE || (c->state == STATE_OPEN && c->head.len > 0) || c->body_left > 0 ||
           c->unsent.len > 0 || (!c->ssl && !c->answered);
}

static void close_conn(struct thread *t, struct conn *c) {
    if (!c->failed)
        add(&t->completed, 1);
    SSL_free(c->ssl);
    close(c->fd);
    unlink_conn(t, c);
    pqs_buf_clear(&c->head);
    pqs_buf_clear(&c->unread);
    pqs_buf_clear(&c->unsent);
    c->ssl = NULL;
    c->next = t->free_list;
    t->free_list = c;
    add(&t->open, -1);
}

static void open_conn(struct thread *t, int fd) {
    struct conn *c = t->free_list;
    if (c)
        t->free_list = c->next;
    else
        c = pqs_calloc(1, sizeof *c);
    c->fd = fd;
    c->state = t->server->plain ? STATE_OPEN : STATE_HANDSHAKE;
    c->body_left = 0;
    c->peer_eof = c->close_after = c->answered = c->failed = false;
    add(&t->accepted, 1);
    add(&t->open, 1);
    append_conn(t, c);
    if (!t->server->plain) {
        c->ssl = SSL_new(t->ctx);
        if (c->ssl) {
            pqs_wire_attach(&t->wire, c->ssl);
            SSL_set_accept_state(c->ssl);
        }
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    if ((!c->ssl && !t->server->plain) || epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        count_failure(t, c, PQS_FAILURE_RESOURCES);
        close_conn(t, c);
    }
}

/* ---- the protocol: input is in t->wire, output goes to t->wire.out ---- */

/* Our last words are in the output; what the peer still says is discarded, lest a reset destroy them. */
static void linger(struct conn *c) {
    c->state = STATE_LINGER;
    c->body_left = 0;
}

static void handshake(struct thread *t, struct conn *c) {
    ERR_clear_error();
    int rc = SSL_do_handshake(c->ssl);
    if (rc == 1) {
        struct pqs_negotiated what;
        pqs_negotiated_get(c->ssl, &what);
        pqs_tally_add(&t->tally, &what);
        add(&t->handshakes, 1);
        c->state = STATE_OPEN;
        restart_deadline(t, c);
        return;
    }
    int error = SSL_get_error(c->ssl, rc);
    if (error == SSL_ERROR_WANT_READ && !t->wire.in_eof)
        return;
    bool closed = t->wire.in_eof && t->wire.in_left == 0 && error != SSL_ERROR_SSL;
    count_failure(t, c, closed ? PQS_FAILURE_EOF : pqs_tls_failure(c->ssl, NULL));
    linger(c);
}

enum { READ_MORE = 0, READ_CLOSED = -1, READ_FAILED = -2 };

/* Decrypts into t->plain: the number of bytes, or one of the above. */
static int read_plain(struct thread *t, struct conn *c) {
    if (!c->ssl) {
        size_t n = t->wire.in_left < sizeof t->plain ? t->wire.in_left : sizeof t->plain;
        if (n == 0)
            return t->wire.in_eof ? READ_CLOSED : READ_MORE;
        memcpy(t->plain, t->wire.in, n);
        t->wire.in += n;
        t->wire.in_left -= n;
        return (int)n;
    }
    size_t n = 0;
    ERR_clear_error();
    int rc = SSL_read_ex(c->ssl, t->plain, sizeof t->plain, &n);
    if (rc == 1)
        return (int)n;
    switch (SSL_get_error(c->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        return READ_MORE;
    case SSL_ERROR_ZERO_RETURN: /* close_notify, or just the end of the stream */
    case SSL_ERROR_SYSCALL:
        return READ_CLOSED;
    default:
        count_failure(t, c, pqs_tls_failure(c->ssl, NULL));
        return READ_FAILED;
    }
}

static bool write_plain(struct thread *t, struct conn *c, const uint8_t *data, size_t len) {
    if (!c->ssl) {
        pqs_buf_add(&t->wire.out, data, len);
        return true;
    }
    size_t written;
    ERR_clear_error();
    if (SSL_write_ex(c->ssl, data, len, &written) == 1) /* the wire takes everything: never partial */
        return true;
    count_failure(t, c, pqs_tls_failure(c->ssl, NULL));
    return false;
}

/* "/bytes/N" -> N; false for anything else or more than PQS_SERVER_BYTES_MAX. */
static bool parse_bytes(const char *path, uint64_t *ret_n) {
    const char *digits = path + 7;
    if (strncmp(path, "/bytes/", 7) != 0 || *digits == '\0' || strspn(digits, "0123456789") != strlen(digits))
        return false;
    *ret_n = strtoull(digits, NULL, 10);
    return strlen(digits) <= 9 && *ret_n <= PQS_SERVER_BYTES_MAX;
}

/* Whether more output may be prepared: a client that does not read must not fill our memory. */
static bool has_room(const struct thread *t, const struct conn *c) {
    return t->wire.out.len + c->unsent.len < OUT_BYTES;
}

/* The head and as much of the body as fits the same record; the rest follows from write_body. */
static void respond(struct thread *t, struct conn *c, const struct pqs_http_request *q) {
    const char *status = "200 OK";
    const char *text = NULL;
    uint64_t body = 0;
    if (!q->get) {
        status = "405 Method Not Allowed";
        text = "only GET and HEAD\n";
    } else if (strcmp(q->path, "/") == 0) {
        text = "ok\n";
    } else if (!parse_bytes(q->path, &body)) {
        status = "404 Not Found";
        text = "there is / and /bytes/N, N up to 67108864\n";
    }
    if (text)
        body = strlen(text);
    int head = snprintf((char *)t->plain, sizeof t->plain,
                        "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %llu\r\n%s\r\n", status,
                        (unsigned long long)body, q->close ? "Connection: close\r\n" : "");
    size_t len = (size_t)head;
    if (q->head)
        body = 0;
    size_t first = body < sizeof t->plain - len ? (size_t)body : sizeof t->plain - len;
    if (text && !q->head)
        memcpy(t->plain + len, text, first);
    else
        memset(t->plain + len, 'x', first);
    c->body_left = body - first;
    c->close_after = q->close;
    c->answered = true;
    add(&t->responses, 1);
    if (!write_plain(t, c, t->plain, len + first))
        linger(c);
}

/* Prepares more of a large body, until enough is waiting to be sent. */
static void write_body(struct thread *t, struct conn *c) {
    memset(t->plain, 'x', sizeof t->plain);
    while (c->body_left > 0 && has_room(t, c)) {
        size_t n = c->body_left < sizeof t->plain ? (size_t)c->body_left : sizeof t->plain;
        c->body_left -= n;
        if (!write_plain(t, c, t->plain, n)) {
            linger(c);
            return;
        }
    }
}

static void bad_request(struct thread *t, struct conn *c) {
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    count_failure(t, c, PQS_FAILURE_HTTP);
    (void)write_plain(t, c, (const uint8_t *)answer, sizeof answer - 1);
    linger(c);
}

/* Reads requests and answers them, one at a time, until input or room for output runs out. */
static void serve(struct thread *t, struct conn *c) {
    while (c->state == STATE_OPEN) {
        if (c->body_left > 0)
            write_body(t, c);
        if (c->state != STATE_OPEN || !has_room(t, c))
            return; /* the rest when this has been sent */
        if (c->close_after) {
            if (c->ssl) {
                ERR_clear_error();
                SSL_shutdown(c->ssl);
            }
            linger(c);
            return;
        }
        struct pqs_http_request q;
        long used = c->head.len ? pqs_http_request_parse(c->head.data, c->head.len, &q) : 0;
        if (used < 0) {
            bad_request(t, c);
            return;
        }
        if (used > 0) {
            memmove(c->head.data, c->head.data + used, c->head.len - (size_t)used);
            c->head.len -= (size_t)used;
            restart_deadline(t, c);
            respond(t, c, &q);
            continue;
        }
        int n = read_plain(t, c);
        if (n == READ_FAILED)
            linger(c);
        if (n <= 0)
            return;
        pqs_buf_add(&c->head, t->plain, (size_t)n);
    }
}

/* ---- sockets ---- */

/* Sends what waits. False when the connection broke. */
static bool flush(struct thread *t, struct conn *c) {
    struct pqs_buf *out = &t->wire.out;
    if (c->unsent.len > 0) { /* in order: behind what is waiting already */
        pqs_buf_add(&c->unsent, out->data, out->len);
        pqs_buf_clear(out);
        out = &c->unsent;
    }
    if (out->len == 0)
        return true;
    ssize_t sent = send(c->fd, out->data, out->len, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        pqs_buf_clear(&t->wire.out);
        return false;
    }
    size_t n = sent > 0 ? (size_t)sent : 0;
    add(&t->bytes_out, (int64_t)n);
    if (n == out->len) {
        pqs_buf_clear(out);
    } else if (out == &c->unsent) {
        memmove(out->data, out->data + n, out->len - n);
        out->len -= n;
    } else {
        pqs_buf_add(&c->unsent, out->data + n, out->len - n);
        pqs_buf_clear(out);
    }
    return true;
}

/* One round of protocol over the given input. False when the connection is finished. */
static bool drive(struct thread *t, struct conn *c, const uint8_t *in, size_t len) {
    if (c->unread.len > 0) {
        pqs_buf_add(&c->unread, in, len);
        in = c->unread.data;
        len = c->unread.len;
    }
    t->wire.in = in;
    t->wire.in_left = len;
    t->wire.in_eof = c->peer_eof;
    for (;;) {
        if (c->state == STATE_HANDSHAKE)
            handshake(t, c);
        if (c->state == STATE_OPEN)
            serve(t, c);
        bool was_linger = c->state == STATE_LINGER;
        bool full = !has_room(t, c); /* serve() stopped for want of room and not of input */
        if (!flush(t, c)) {
            count_failure(t, c, PQS_FAILURE_RESET);
            return false;
        }
        if (was_linger) {
            pqs_buf_clear(&c->unread);
            if (c->unsent.len == 0)
                (void)shutdown(c->fd, SHUT_WR);
            return !c->peer_eof || c->unsent.len > 0;
        }
        if (!full || c->unsent.len > 0)
            break; /* done, or waiting for the socket */
        restart_deadline(t, c);
    }
    /* Input left over while output is waiting. */
    if (t->wire.in_left > 0 && c->unread.len > 0) {
        memmove(c->unread.data, t->wire.in, t->wire.in_left);
        c->unread.len = t->wire.in_left;
    } else if (t->wire.in_left > 0) {
        pqs_buf_add(&c->unread, t->wire.in, t->wire.in_left);
    } else {
        pqs_buf_clear(&c->unread);
    }
    if (!c->peer_eof || c->unsent.len > 0 || c->body_left > 0)
        return true;
    if (unfinished(c))
        count_failure(t, c, PQS_FAILURE_EOF);
    return false;
}

static void on_event(struct thread *t, struct conn *c, uint32_t events) {
    bool ended = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    if ((events & EPOLLOUT) && c->unsent.len > 0) {
        int64_t before = t->bytes_out;
        if (!drive(t, c, NULL, 0)) {
            close_conn(t, c);
            return;
        }
        if (t->bytes_out > before)
            restart_deadline(t, c);
    }
    if (!(events & EPOLLIN) && !ended)
        return;
    while (!c->peer_eof) {
        ssize_t n = recv(c->fd, t->in, sizeof t->in, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* reset: an end like another between two requests, a failure elsewhere */
            if (unfinished(c))
                count_failure(t, c, PQS_FAILURE_RESET);
            close_conn(t, c);
            return;
        }
        c->peer_eof = n == 0;
        add(&t->bytes_in, n);
        if (!drive(t, c, t->in, (size_t)n)) {
            close_conn(t, c);
            return;
        }
        if ((size_t)n < sizeof t->in && !ended)
            return; /* a short read emptied the socket: more raises a new edge */
    }
}

static void set_accepting(struct thread *t, bool on) {
    t->accepting = on;
    for (unsigned i = 0; i < t->server->n_ports; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
        (void)epoll_ctl(t->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, t->listeners[i], &event);
    }
}

static void accept_some(struct thread *t, int listener) {
    for (int i = 0; i < 64; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); /* TCP_NODELAY comes from the listener */
        if (fd >= 0) {
            open_conn(t, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            add(&t->accept_backoff, 1);
            set_accepting(t, false);
            t->accept_again_ns = pqs_now_ns() + BACKOFF_NS;
            return;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static void expire(struct thread *t, int64_t now) {
    while (t->oldest && t->oldest->deadline_ns <= now) {
        struct conn *c = t->oldest;
        if (unfinished(c) || !c->answered)
            count_failure(t, c, PQS_FAILURE_TIMEOUT);
        close_conn(t, c);
    }
}

static void *thread_main(void *arg) {
    struct thread *t = arg;
    struct epoll_event events[64];
    pthread_setname_np(pthread_self(), "serve");
    (void)!pqs_crypto_touch_random(NULL); /* failing here would fail again, visibly, in a handshake */
    for (;;) {
        int64_t now = pqs_now_ns();
        int64_t stop_at = atomic_load(&t->server->stop_at_ns);
        if (stop_at && t->accepting)
            set_accepting(t, false);
        if (stop_at && (!t->oldest || now >= stop_at))
            break;
        if (!stop_at && !t->accepting && now >= t->accept_again_ns)
            set_accepting(t, true);
        int64_t wake = t->oldest ? t->oldest->deadline_ns : INT64_MAX;
        if (stop_at && stop_at < wake)
            wake = stop_at;
        if (!stop_at && !t->accepting && t->accept_again_ns < wake)
            wake = t->accept_again_ns;
        int64_t wait = wake - now < 0 ? 0 : wake - now;
        struct timespec timeout = {.tv_sec = wait / PQS_NS_PER_S, .tv_nsec = wait % PQS_NS_PER_S};
        int n = epoll_pwait2(t->epoll_fd, events, (int)PQS_COUNT(events), wake == INT64_MAX ? NULL : &timeout, NULL);
        for (int i = 0; i < n; i++) {
            uint64_t tag = events[i].data.u64;
            if (tag < PQS_SERVER_PORTS_MAX)
                accept_some(t, t->listeners[tag]);
            else if (tag == TAG_STOP)
                (void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, t->server->stop_fd, NULL);
            else
                on_event(t, events[i].data.ptr, events[i].events);
        }
        expire(t, pqs_now_ns());
    }
    while (t->oldest) {
        if (unfinished(t->oldest))
            count_failure(t, t->oldest, PQS_FAILURE_TIMEOUT);
        close_conn(t, t->oldest);
    }
    return NULL;
}

/* ---- starting and stopping ---- */

static int listen_on(const struct pqs_server_options *o, struct sockaddr_storage *address, socklen_t len, int *ret_fd,
                     struct pqs_err *err) {
    int one = 1;
    int queue = OUT_BYTES; /* not yet sent: so room, and with it progress, is seen while a slow client still reads */
    PQS_CLOSE int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return pqs_fail_sys(err, PQS_E_ENV, errno, "cannot make a socket");
    unsigned port = ntohs(address->ss_family == AF_INET6 ? ((struct sockaddr_in6 *)address)->sin6_port
                                                         : ((struct sockaddr_in *)address)->sin_port);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &queue, sizeof queue) != 0)
        return pqs_fail_sys(err, PQS_E_ENV, errno, "cannot set socket options");
    if (bind(fd, (struct sockaddr *)address, len) != 0 || listen(fd, o->backlog) != 0)
        return pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot listen on %s port %u", o->host, port);
    if (getsockname(fd, (struct sockaddr *)address, &len) != 0) /* the port that the kernel chose */
        return pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot read the address of a listener");
    *ret_fd = fd;
    fd = -1;
    return 0;
}

/* Another process's listeners on this port would share our connections (SO_REUSEPORT): refused with a plain bind. */
static int check_free(const char *host, unsigned port, const struct sockaddr_storage *address, socklen_t len,
                      struct pqs_err *err) {
    int one = 1;
    PQS_CLOSE int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, (const struct sockaddr *)address, len) != 0)
        return pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot listen on %s port %u", host, port);
    return 0;
}

static int open_listeners(struct pqs_server *s, const struct pqs_server_options *o, struct pqs_err *err) {
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST}, *found;
    snprintf(port, sizeof port, "%u", o->port);
    if (getaddrinfo(o->host, port, &hints, &found) != 0)
        return pqs_fail(err, PQS_E_USAGE, "'%s' is not an address to listen on (want an IPv4 or IPv6 address)", o->host);
    struct sockaddr_storage first = {0};
    socklen_t len = found->ai_addrlen;
    memcpy(&first, found->ai_addr, len);
    freeaddrinfo(found);
    int rc = 0;
    for (unsigned p = 0; p < s->n_ports && rc == 0; p++) {
        struct sockaddr_storage address = first;
        in_port_t *number = address.ss_family == AF_INET6 ? &((struct sockaddr_in6 *)&address)->sin6_port
                                                          : &((struct sockaddr_in *)&address)->sin_port;
        if (o->port) {
            *number = htons((uint16_t)(o->port + p));
            rc = check_free(o->host, o->port + p, &address, len, err);
        }
        for (unsigned i = 0; i < s->n_threads && rc == 0; i++) /* the first chooses the port, the others share it */
            rc = listen_on(o, &address, len, &s->threads[i].listeners[p], err);
        s->ports[p] = ntohs(*number);
    }
    return rc;
}

static int init_thread(struct pqs_server *s, struct thread *t, const struct pqs_server_options *o, struct pqs_err *err) {
    int rc = o->plain ? 0 : pqs_tls_server_context(&o->tls, &t->ctx, err);
    if (rc == 0)
        rc = pqs_wire_init(&t->wire, err);
    if (rc)
        return rc;
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = TAG_STOP};
    if (t->epoll_fd < 0 || epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, s->stop_fd, &event) != 0 ||
        epoll_pwait2(t->epoll_fd, &event, 1, &(struct timespec){0}, NULL) < 0)
        return pqs_fail_sys(err, PQS_E_ENV, errno, "cannot wait with epoll_pwait2 (Linux 5.11 or later)");
    return 0;
}

int pqs_server_start(const struct pqs_server_options *o, struct pqs_server **ret_s, struct pqs_err *err) {
    if (o->n_ports < 1 || o->n_ports > PQS_SERVER_PORTS_MAX || o->threads < 1 || o->threads > PQS_SERVER_THREADS_MAX)
        return pqs_fail(err, PQS_E_USAGE, "a server has 1 to %d ports and 1 to %d threads, not %u and %u",
                        PQS_SERVER_PORTS_MAX, PQS_SERVER_THREADS_MAX, o->n_ports, o->threads);
    if (o->port + o->n_ports - 1 > 65535)
        return pqs_fail(err, PQS_E_USAGE, "%u ports from %u on end beyond 65535", o->n_ports, o->port);
    struct pqs_server *s = pqs_calloc(1, sizeof *s);
    s->n_threads = o->threads;
    s->n_ports = o->n_ports;
    s->timeout_ns = o->timeout_ns;
    s->plain = o->plain;
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->threads = aligned_alloc(64, s->n_threads * sizeof *s->threads);
    if (!s->threads)
        abort();
    memset(s->threads, 0, s->n_threads * sizeof *s->threads);
    for (unsigned i = 0; i < s->n_threads; i++) {
        s->threads[i].server = s;
        s->threads[i].epoll_fd = -1;
        memset(s->threads[i].listeners, 0xff, sizeof s->threads[i].listeners);
    }
    int rc = 0;
    for (unsigned i = 0; i < s->n_threads && rc == 0; i++)
        rc = init_thread(s, &s->threads[i], o, err);
    if (rc == 0)
        rc = open_listeners(s, o, err);
    for (unsigned i = 0; i < s->n_threads && rc == 0; i++) {
        struct thread *t = &s->threads[i];
        set_accepting(t, true);
        int error = pthread_create(&t->id, NULL, thread_main, t);
        t->running = error == 0;
        if (error)
            rc = pqs_fail_sys(err, PQS_E_ENV, error, "cannot start server thread %u", i);
    }
    if (rc) {
        pqs_server_free(s);
        return rc;
    }
    *ret_s = s;
    return 0;
}

void pqs_server_stop(struct pqs_server *s, int64_t grace_ns) {
    atomic_store(&s->stop_at_ns, pqs_now_ns() + grace_ns);
    (void)!eventfd_write(s->stop_fd, 1);
    for (unsigned i = 0; i < s->n_threads; i++) {
        struct thread *t = &s->threads[i];
        if (t->running)
            pthread_join(t->id, NULL);
        t->running = false;
    }
}

void pqs_server_free(struct pqs_server *s) {
    if (!s)
        return;
    pqs_server_stop(s, 0);
    for (unsigned i = 0; i < s->n_threads; i++) {
        struct thread *t = &s->threads[i];
        for (unsigned p = 0; p < s->n_ports; p++)
            if (t->listeners[p] >= 0)
                close(t->listeners[p]);
        if (t->epoll_fd >= 0)
            close(t->epoll_fd);
        while (t->free_list) {
            struct conn *c = t->free_list;
            t->free_list = c->next;
            pqs_buf_release(&c->head);
            pqs_buf_release(&c->unread);
            pqs_buf_release(&c->unsent);
            free(c);
        }
        if (t->wire.bio)
            pqs_wire_release(&t->wire);
        SSL_CTX_free(t->ctx);
    }
    close(s->stop_fd);
    free(s->threads);
    free(s);
}

/* ---- what it did ---- */

uint16_t pqs_server_port(const struct pqs_server *s, unsigned i) {
    return s->ports[i];
}

/* Connections that the kernel has established and nobody has accepted yet: of a listener, TCP_INFO tells its backlog. */
static int64_t waiting(int listener) {
    struct tcp_info info;
    socklen_t len = sizeof info;
    return getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 ? info.tcpi_unacked : 0;
}

int64_t pqs_server_open(const struct pqs_server *s) {
    int64_t n = 0;
    for (unsigned i = 0; i < s->n_threads; i++) {
        for (unsigned p = 0; p < s->n_ports; p++)
            n += waiting(s->threads[i].listeners[p]);
        n += atomic_load_explicit(&s->threads[i].open, memory_order_relaxed);
    }
    return n;
}

/* Connection attempts that found the listener's queue full, as the kernel counts them per socket. */
static int64_t listen_overflows(const struct pqs_server *s, const struct thread *t) {
    int64_t n = 0;
    for (unsigned p = 0; p < s->n_ports; p++) {
        uint32_t info[SK_MEMINFO_VARS] = {0};
        socklen_t len = sizeof info;
        if (getsockopt(t->listeners[p], SOL_SOCKET, SO_MEMINFO, info, &len) == 0)
            n += info[SK_MEMINFO_DROPS];
    }
    return n;
}

void pqs_server_counters(const struct pqs_server *s, struct pqs_result *r) {
    pqs_result_count(r, PQS_SERVER, "cpu_ns", pqs_cpu_ns());
    for (unsigned i = 0; i < s->n_threads; i++) {
        const struct thread *t = &s->threads[i];
        const struct {
            const char *name;
            int64_t value;
        } rows[] = {
            {"accepted", t->accepted},
            {"handshakes", t->handshakes},
            {"responses", t->responses},
            {"completed", t->completed},
            {"failed", t->failed},
            {"bytes_in", t->bytes_in},
            {"bytes_out", t->bytes_out},
            {"open", t->open},
            {"accept_backoff", t->accept_backoff},
            {"listen_overflows", listen_overflows(s, t)},
        };
        for (size_t k = 0; k < PQS_COUNT(rows); k++)
            pqs_result_count(r, PQS_SERVER, rows[k].name, rows[k].value);
        for (unsigned class = 0; class < PQS_FAILURE_END; class ++) {
            char name[96], text[48];
            uint32_t n = t->failed_class[class];
            if (n == 0)
                continue;
            snprintf(name, sizeof name, "failed.%s", pqs_failure_name(class, text));
            pqs_result_count(r, PQS_SERVER, name, n);
        }
    }
}

void pqs_server_facts(const struct pqs_server *s, struct pqs_result *r) {
    for (unsigned i = 0; i < s->n_threads; i++)
        pqs_tally_report(&s->threads[i].tally, PQS_SERVER, r);
}
