/* One generator thread: its connections, its event loop, its share of a stage. Private to src/load. */
#ifndef PQS_LOAD_THREAD_H
#define PQS_LOAD_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "channel/result.h"
#include "load/engine.h"
#include "load/generator.h"
#include "load/target.h"

/* What all threads work on, set up by the generator before it wakes them. */
struct pqs_stage_work {
    const uint64_t *arrivals_ns; /* since t0_ns; thread k takes k, k + threads, ... */
    size_t n_arrivals;
    unsigned first_thread, step; /* normally 0 and the number of threads; a preflight gives one arrival to one thread */
    int64_t t0_ns;
    int64_t duration_ns;
    bool preflight; /* keep details and explanations */
    /* After 2 s every thread adds what was due and what it has started; the last one judges them together. */
    _Atomic uint64_t judged_due, judged_started;
    atomic_uint judged;
    _Atomic int64_t cut_at_ns; /* hopeless: nothing more is started from then on, since t0_ns; 0: not cut */
};

/* Where the window ends: after duration_ns, or where it was cut. */
int64_t pqs_stage_length_ns(struct pqs_stage_work *work);

struct pqs_conn;

/* Buckets of a factor 2^(1/8), the first for 1 ns: what a person can read off a line that changes. */
#define PQS_LIVE_BUCKETS (8 * 48)

struct pqs_thread {
    unsigned index;
    const struct pqs_engine *engine;
    void *engine_thread;
    const struct pqs_target *target;
    int64_t timeout_ns;
    bool rst;
    uint32_t max_inflight; /* this thread's share */

    int epoll_fd;
    uint8_t *slots; /* max_inflight connections, slot_stride bytes each */
    size_t slot_stride;
    struct pqs_conn *free_list;
    struct pqs_conn *oldest, *newest; /* open connections in order of starting: the order of their timeouts */
    uint32_t inflight;
    unsigned next_to, next_from;
    struct pqs_buf out;
    uint8_t *in; /* PQS_THREAD_IN_BYTES, one recv */

    /* Of the stage that runs; read by the generator when it is over. */
    struct pqs_stage_work *work;
    struct pqs_sample *samples; /* one per started connection, times absolute until the stage ends */
    size_t n_samples, cap_samples;
    size_t next_arrival;
    uint64_t scheduled, dropped, unstarted, window_completed;
    uint64_t retransmitted; /* connections of a second or more in which TCP sent something again */
    uint32_t inflight_max;
    int64_t cpu_window_ns;  /* this thread's CPU in the window */
    int64_t wait_window_ns; /* how long it was ready to run in the window, but had no CPU; -1: the kernel does not say */
    int64_t last_end_ns;    /* when its last connection ended */
    char mss[16], congestion[16]; /* of a preflight's connection */

    /* Read by the generator at any time. */
    _Atomic int64_t started, completed, failed;
    _Atomic uint32_t live[PQS_LIVE_BUCKETS]; /* request latencies, coarsely: for the live line only */
} __attribute__((aligned(64)));

#define PQS_THREAD_IN_BYTES ((size_t)256 * 1024)

PQS_MUST_CHECK int pqs_thread_init(struct pqs_thread *t, struct pqs_err *err);
void pqs_thread_release(struct pqs_thread *t);
/* Makes room for the stage's samples; called by the generator's thread before the stage starts. */
void pqs_thread_prepare(struct pqs_thread *t, struct pqs_stage_work *work);
/* Runs this thread's share of t->work to its end. */
void pqs_thread_stage(struct pqs_thread *t);

#endif
