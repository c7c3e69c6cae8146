/* The monotonic clock, the process's CPU time, and the date for people. Must not know: what is timed. */
#include "base/clock.h"

#include <sys/resource.h>
#include <time.h>

/* Cannot fail with the clocks that are asked for here. */
static int64_t read_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * PQS_NS_PER_S + t.tv_nsec;
}

int64_t pqs_now_ns(void) {
    return read_ns(CLOCK_MONOTONIC);
}

int64_t pqs_thread_cpu_ns(void) {
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int64_t timeval_ns(struct timeval t) {
    return (int64_t)t.tv_sec * PQS_NS_PER_S + (int64_t)t.tv_usec * PQS_NS_PER_US;
}

int64_t pqs_cpu_ns(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
}

void pqs_utc(char ret_text[static 24]) {
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(ret_text, 24, "%Y-%m-%dT%H:%M:%SZ", &tm);
}
