/* A generator thread's event loop. Few system calls: one epoll_ctl per connection (edge-triggered), one send and one recv
 * per flight. Arrivals that have come due are started between any two events, so that their lag is at most one event's
 * cryptography. */
#include "load/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define TCP_RETRY_NS (PQS_NS_PER_S * 9 / 10) /* TCP repeats a SYN after 1 s (RFC 6298, 2.1), by a coarse clock */
#define CUT_AFTER_NS (2 * PQS_NS_PER_S)      /* when a hopeless trial is judged (METHOD 11) */

enum conn_state { CONN_CONNECTING, CONN_OPEN };

struct pqs_conn {
    struct pqs_conn *prev, *next; /* free list (next) or the list of open connections */
    struct pqs_sample *sample;    /* absolute times while open */
    struct pqs_buf unsent;        /* what the socket did not take */
    struct pqs_marks marks;
    int fd;
    uint8_t state; /* enum conn_state */
    bool cannot_write;
    _Alignas(16) uint8_t slot[]; /* the engine's */
};

static struct pqs_conn *conn_at(const struct pqs_thread *t, size_t i) {
    return (struct pqs_conn *)(void *)(t->slots + i * t->slot_stride);
}

int pqs_thread_init(struct pqs_thread *t, struct pqs_err *err) {
    t->slot_stride = (sizeof(struct pqs_conn) + t->engine->slot_bytes + 63) / 64 * 64;
    t->slots = pqs_calloc(t->max_inflight, t->slot_stride);
    t->in = pqs_calloc(1, PQS_THREAD_IN_BYTES);
    for (size_t i = t->max_inflight; i-- > 0;) {
        struct pqs_conn *c = conn_at(t, i);
        c->fd = -1;
        c->next = t->free_list;
        t->free_list = c;
    }
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event none;
    if (t->epoll_fd < 0 || epoll_pwait2(t->epoll_fd, &none, 1, &(struct timespec){0}, NULL) < 0)
        return pqs_fail_sys(err, PQS_E_ENV, errno, "cannot wait with epoll_pwait2 (Linux 5.11 or later)");
    return 0;
}

void pqs_thread_release(struct pqs_thread *t) {
    for (size_t i = 0; t->slots && i < t->max_inflight; i++)
        pqs_buf_release(&conn_at(t, i)->unsent);
    free(t->slots);
    free(t->in);
    free(t->samples);
    pqs_buf_release(&t->out);
    if (t->epoll_fd >= 0)
        close(t->epoll_fd);
}

void pqs_thread_prepare(struct pqs_thread *t, struct pqs_stage_work *work) {
    t->work = work;
    size_t first = (t->index + work->step - work->first_thread) % work->step;
    size_t share = work->n_arrivals > first ? (work->n_arrivals - first + work->step - 1) / work->step : 0;
    t->next_arrival = first;
    t->n_samples = 0;
    if (share > t->cap_samples) {
        free(t->samples);
        t->samples = pqs_calloc(share, sizeof *t->samples);
        t->cap_samples = share;
    }
    /* Touch the memory now: page faults inside the window would be the tool's own doing. Hopeless rates do not get so far.
     */
    size_t touch = share < (1u << 20) ? share : (1u << 20);
    if (touch > 0)
        memset(t->samples, 0, touch * sizeof *t->samples);
    t->scheduled = t->dropped = t->unstarted = t->window_completed = t->retransmitted = 0;
    t->inflight_max = 0;
    t->cpu_window_ns = t->wait_window_ns = 0;
    t->last_end_ns = 0;
    t->started = t->completed = t->failed = 0;
    for (unsigned i = 0; i < PQS_LIVE_BUCKETS; i++)
        t->live[i] = 0;
}

static void bump(_Atomic int64_t *counter) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* ---- the end of a connection ---- */

static void unlink_conn(struct pqs_thread *t, struct pqs_conn *c) {
    *(c->prev ? &c->prev->next : &t->oldest) = c->next;
    *(c->next ? &c->next->prev : &t->newest) = c->prev;
    c->next = t->free_list;
    t->free_list = c;
    t->inflight--;
}

int64_t pqs_stage_length_ns(struct pqs_stage_work *work) {
    int64_t cut_at_ns = atomic_load_explicit(&work->cut_at_ns, memory_order_relaxed);
    return cut_at_ns ? cut_at_ns : work->duration_ns;
}

/* For the live line. */
static void count_live(struct pqs_thread *t, int64_t request_ns) {
    uint64_t v = request_ns > 1 ? (uint64_t)request_ns : 1;
    unsigned log2 = 63 - (unsigned)__builtin_clzll(v);
    unsigned eighth = log2 >= 3 ? (unsigned)(v >> (log2 - 3)) & 7 : 0;
    unsigned bucket = log2 * 8 + eighth < PQS_LIVE_BUCKETS ? log2 * 8 + eighth : PQS_LIVE_BUCKETS - 1;
    atomic_store_explicit(&t->live[bucket], atomic_load_explicit(&t->live[bucket], memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* A listen queue that overflows makes TCP wait: for the SYN in the connect phase, or, where the client thinks that it is
 * connected, in the next one. Asked only of connections that took so long: no system call more for the others. */
static void note_retransmission(struct pqs_thread *t, const struct pqs_conn *c, int64_t now) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (now - (int64_t)c->sample->started_ns >= TCP_RETRY_NS && getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
        info.tcpi_total_retrans > 0)
        t->retransmitted++;
}

/* The connection is finished: writes its sample, says goodbye, closes. A completed one closes first (the server waits for
 * EOF). */
static void finish(struct pqs_thread *t, struct pqs_conn *c, int64_t now) {
    struct pqs_sample *s = c->sample;
    const struct pqs_marks *m = &c->marks;
    bool completed = m->failure == PQS_FAILURE_NONE;
    s->tls_ns = (uint64_t)m->tls_ns;
    s->first_ns = (uint64_t)m->first_ns;
    s->done_ns = (uint64_t)(completed ? m->done_ns : 0);
    s->failure = m->failure;
    s->phase = m->step;
    s->class = m->class;
    if (completed) {
        bump(&t->completed);
        count_live(t, m->done_ns - (int64_t)s->scheduled_ns);
        if (m->done_ns < t->work->t0_ns + pqs_stage_length_ns(t->work))
            t->window_completed++;
    } else {
        bump(&t->failed);
    }
    if (c->fd >= 0) {
        note_retransmission(t, c, now);
        if (t->work->preflight) {
            int mss = 0;
            socklen_t len = sizeof mss;
            if (getsockopt(c->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len) == 0)
                snprintf(t->mss, sizeof t->mss, "%d", mss);
            len = sizeof t->congestion;
            if (getsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, t->congestion, &len) != 0)
                t->congestion[0] = '\0';
        }
        if (c->state == CONN_OPEN) {
            pqs_buf_clear(&t->out);
            struct pqs_exchange x = {.out = &t->out};
            t->engine->end(t->engine_thread, c->slot, completed, t->rst ? NULL : &x);
            if (t->out.len > 0 && c->unsent.len == 0) {
                /* MSG_MORE: the goodbye waits for the FIN of close(), below, and both leave in one packet. */
                ssize_t sent = send(c->fd, t->out.data, t->out.len, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE);
                s->to_server_bytes += sent > 0 ? (uint32_t)sent : 0;
            }
        }
        if (t->rst) {
            struct linger reset = {.l_onoff = 1, .l_linger = 0};
            (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        }
        close(c->fd);
        c->fd = -1;
    }
    pqs_buf_clear(&c->unsent);
    t->last_end_ns = now;
    unlink_conn(t, c);
}

static enum pqs_step step_of(const struct pqs_conn *c) {
    return c->state == CONN_CONNECTING ? PQS_STEP_CONNECT : c->marks.tls_ns == 0 ? PQS_STEP_TLS : PQS_STEP_RESPONSE;
}

static void fail(struct pqs_thread *t, struct pqs_conn *c, enum pqs_step step, unsigned failure, int64_t now) {
    c->marks.step = (uint8_t)step;
    c->marks.failure = (uint16_t)failure;
    finish(t, c, now);
}

/* ---- input and output ---- */

static void send_out(struct pqs_thread *t, struct pqs_conn *c) {
    if (t->out.len == 0 || c->cannot_write)
        return;
    ssize_t sent = c->unsent.len ? 0 : send(c->fd, t->out.data, t->out.len, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        c->cannot_write = true; /* the peer is gone; what it said before is still to be read */
        return;
    }
    sent = sent < 0 ? 0 : sent;
    c->sample->to_server_bytes += (uint32_t)sent;
    if ((size_t)sent < t->out.len)
        pqs_buf_add(&c->unsent, t->out.data + sent, t->out.len - (size_t)sent);
}

static void send_unsent(struct pqs_conn *c) {
    ssize_t sent = send(c->fd, c->unsent.data, c->unsent.len, MSG_NOSIGNAL);
    if (sent < 0) {
        c->cannot_write = errno != EAGAIN;
        return;
    }
    c->sample->to_server_bytes += (uint32_t)sent;
    memmove(c->unsent.data, c->unsent.data + sent, c->unsent.len - (size_t)sent);
    c->unsent.len -= (size_t)sent;
}

static unsigned class_of_errno(int error) {
    switch (error) {
    case ECONNREFUSED:
        return PQS_FAILURE_REFUSED;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EINVAL: /* a blackhole route */
    case EACCES: /* a prohibit route */
    case EPERM:  /* this machine's packet filter */
        return PQS_FAILURE_UNREACHABLE;
    case ETIMEDOUT:
        return PQS_FAILURE_TIMEOUT;
    case EADDRNOTAVAIL:
        return PQS_FAILURE_PORTS;
    case EMFILE:
    case ENFILE:
        return PQS_FAILURE_DESCRIPTORS;
    case ECONNRESET:
    case EPIPE:
        return PQS_FAILURE_RESET;
    default:
        return PQS_FAILURE_RESOURCES;
    }
}

static bool is_local(unsigned failure) {
    return failure == PQS_FAILURE_PORTS || failure == PQS_FAILURE_DESCRIPTORS || failure == PQS_FAILURE_RESOURCES;
}

/* Gives received bytes to the engine and sends what it answers. True when the connection is over (and was finished). */
static bool advance(struct pqs_thread *t, struct pqs_conn *c, const uint8_t *in, size_t len, bool eof) {
    pqs_buf_clear(&t->out);
    struct pqs_exchange x = {.in = in, .in_len = len, .in_eof = eof, .out = &t->out};
    enum pqs_advance a = t->engine->advance(t->engine_thread, c->slot, &x, &c->marks);
    send_out(t, c);
    if (a == PQS_ADVANCE_MORE)
        return false;
    finish(t, c, pqs_now_ns());
    return true;
}

static void on_readable(struct pqs_thread *t, struct pqs_conn *c, bool drain) {
    for (;;) {
        ssize_t n = recv(c->fd, t->in, PQS_THREAD_IN_BYTES, 0);
        if (n > 0) {
            c->sample->to_client_bytes += (uint32_t)n;
            if (advance(t, c, t->in, (size_t)n, false))
                return;
            /* A short read emptied the socket: the next byte raises a new edge. */
            if ((size_t)n < PQS_THREAD_IN_BYTES && !drain && !c->cannot_write)
                return;
        } else if (n == 0) {
            if (!advance(t, c, NULL, 0, true))
                fail(t, c, step_of(c), c->cannot_write ? PQS_FAILURE_RESET : PQS_FAILURE_EOF, pqs_now_ns());
            return;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            unsigned failure = class_of_errno(errno);
            fail(t, c, is_local(failure) ? PQS_STEP_LOCAL : step_of(c), failure, pqs_now_ns());
            return;
        }
    }
}

static void on_event(struct pqs_thread *t, struct pqs_conn *c, uint32_t events) {
    bool ended = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    if (c->state == CONN_CONNECTING) {
        int error = 0;
        socklen_t len = sizeof error;
        if (events & (EPOLLERR | EPOLLHUP))
            (void)getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error) {
            unsigned failure = class_of_errno(error);
            fail(t, c, is_local(failure) ? PQS_STEP_LOCAL : PQS_STEP_CONNECT, failure, pqs_now_ns());
            return;
        }
        if (!(events & EPOLLOUT))
            return;
        c->sample->tcp_ns = (uint64_t)pqs_now_ns();
        c->state = CONN_OPEN;
        pqs_buf_clear(&t->out);
        struct pqs_exchange x = {.out = &t->out};
        enum pqs_advance a = t->engine->begin(t->engine_thread, c->slot, &x, &c->marks);
        send_out(t, c);
        if (a != PQS_ADVANCE_MORE) {
            finish(t, c, pqs_now_ns());
            return;
        }
    } else if (c->unsent.len && (events & EPOLLOUT) && !c->cannot_write) {
        send_unsent(c);
    }
    if ((events & EPOLLIN) || ended || c->cannot_write)
        on_readable(t, c, ended);
}

/* ---- the start of a connection ---- */

static void start(struct pqs_thread *t, int64_t scheduled) {
    struct pqs_conn *c = t->free_list;
    t->free_list = c->next;
    c->prev = t->newest;
    c->next = NULL;
    *(t->newest ? &t->newest->next : &t->oldest) = c;
    t->newest = c;
    if (++t->inflight > t->inflight_max)
        t->inflight_max = t->inflight;
    bump(&t->started);
    c->state = CONN_CONNECTING;
    c->cannot_write = false;
    c->marks = (struct pqs_marks){0};
    c->sample = &t->samples[t->n_samples++];
    *c->sample =
        (struct pqs_sample){.scheduled_ns = (uint64_t)scheduled, .started_ns = (uint64_t)pqs_now_ns(), .thread = t->index};

    const struct pqs_target *to = t->target;
    const struct sockaddr *address = (const struct sockaddr *)&to->to[t->next_to];
    int one = 1;
    int error = 0;
    t->next_to = t->next_to + 1 == to->n_to ? 0 : t->next_to + 1;
    c->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        fail(t, c, PQS_STEP_LOCAL, class_of_errno(errno), pqs_now_ns());
        return;
    }
    if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        error = errno;
    if (!error && to->n_from) {
        const struct sockaddr *from = (const struct sockaddr *)&to->from[t->next_from];
        t->next_from = t->next_from + 1 == to->n_from ? 0 : t->next_from + 1;
        /* The port is chosen at connect time, when the whole 4-tuple is known: every source address has its own range. */
        if (setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) != 0 ||
            bind(c->fd, from, to->from_len) != 0)
            error = errno;
    }
    if (!error && connect(c->fd, address, to->to_len) != 0 && errno != EINPROGRESS)
        error = errno;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    if (!error && epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) != 0)
        error = errno;
    if (error) {
        unsigned failure = class_of_errno(error);
        fail(t, c, is_local(failure) ? PQS_STEP_LOCAL : PQS_STEP_CONNECT, failure, pqs_now_ns());
    }
}

/* Starts, drops or abandons everything that is due. Returns the next arrival's instant, INT64_MAX after the last. */
static int64_t start_due(struct pqs_thread *t, int64_t now) {
    struct pqs_stage_work *w = t->work;
    while (t->next_arrival < w->n_arrivals) {
        int64_t due = w->t0_ns + (int64_t)w->arrivals_ns[t->next_arrival];
        bool cut = atomic_load_explicit(&w->cut_at_ns, memory_order_relaxed) != 0;
        if (due > now && !cut)
            return due;
        t->next_arrival += w->step;
        t->scheduled++;
        if (cut) {
            t->unstarted++;
        } else if (!t->free_list) {
            t->dropped++;
        } else {
            start(t, due);
            now = pqs_now_ns();
        }
    }
    return INT64_MAX;
}

/* ---- the loop ---- */

static void expire(struct pqs_thread *t, int64_t now) {
    while (t->oldest && (int64_t)t->oldest->sample->started_ns + t->timeout_ns <= now)
        fail(t, t->oldest, step_of(t->oldest), PQS_FAILURE_TIMEOUT, now);
}

/* Under half of what was due has been started: the figures of this trial are lost already (METHOD 11). */
static void judge_hopeless(const struct pqs_thread *t, int64_t now) {
    struct pqs_stage_work *w = t->work;
    uint64_t due = atomic_fetch_add(&w->judged_due, t->scheduled) + t->scheduled;
    uint64_t started = atomic_fetch_add(&w->judged_started, t->n_samples) + t->n_samples;
    if (atomic_fetch_add(&w->judged, 1) + 1 == w->step && started * 2 < due)
        atomic_store(&w->cut_at_ns, now - w->t0_ns);
}

/* Time that this thread has spent ready to run without a CPU (sched_info's run_delay; Documentation/scheduler/sched-stats.rst). */
static int64_t thread_wait_ns(void) {
    char text[96] = "";
    PQS_CLOSE int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    const char *second = n > 0 ? strchr(text, ' ') : NULL;
    return second ? strtoll(second, NULL, 10) : -1;
}

static int64_t min_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void pqs_thread_stage(struct pqs_thread *t) {
    struct pqs_stage_work *w = t->work;
    struct epoll_event events[64];
    int64_t judge_at = w->duration_ns > CUT_AFTER_NS ? w->t0_ns + CUT_AFTER_NS : INT64_MAX;
    int64_t cpu_before = -1, wait_before = -1;
    bool window_over = false;
    prctl(PR_SET_TIMERSLACK, 1UL);
    for (;;) {
        int64_t now = pqs_now_ns();
        if (cpu_before < 0 && now >= w->t0_ns) {
            wait_before = thread_wait_ns();
            cpu_before = pqs_thread_cpu_ns();
        }
        int64_t next = start_due(t, now);
        now = pqs_now_ns();
        if (now >= judge_at) {
            judge_at = INT64_MAX;
            judge_hopeless(t, now);
        }
        if (!window_over && now >= w->t0_ns + pqs_stage_length_ns(w)) {
            window_over = true;
            /* Noticed late, after what an event took: the window's share of it. */
            double used_ns = cpu_before < 0 ? 0 : (double)(pqs_thread_cpu_ns() - cpu_before);
            double share = now > w->t0_ns ? (double)pqs_stage_length_ns(w) / (double)(now - w->t0_ns) : 0;
            t->cpu_window_ns = (int64_t)(used_ns * share);
            t->wait_window_ns = wait_before < 0 ? -1 : thread_wait_ns() - wait_before;
        }
        if (next == INT64_MAX && t->inflight == 0 && window_over)
            break;
        int64_t wake = min_ns(next, t->oldest ? (int64_t)t->oldest->sample->started_ns + t->timeout_ns : INT64_MAX);
        if (!window_over)
            wake = min_ns(wake, w->t0_ns + pqs_stage_length_ns(w));
        /* Half a second at most, so that another thread's cut is seen. */
        int64_t wait = min_ns(wake - now, PQS_NS_PER_S / 2);
        struct timespec timeout = {0};
        if (wait > 0)
            timeout = (struct timespec){.tv_sec = wait / PQS_NS_PER_S, .tv_nsec = wait % PQS_NS_PER_S};
        int n = epoll_pwait2(t->epoll_fd, events, (int)PQS_COUNT(events), &timeout, NULL);
        for (int i = 0; i < n; i++) {
            on_event(t, events[i].data.ptr, events[i].events);
            if (i + 1 < n)
                start_due(t, pqs_now_ns());
        }
        expire(t, pqs_now_ns());
    }
}
