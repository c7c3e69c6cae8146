/* Time. Every interval in pqshake is a difference of two pqs_now_ns() on one host (METHOD 1); clocks of two hosts are never
 * subtracted. */
#ifndef PQS_BASE_CLOCK_H
#define PQS_BASE_CLOCK_H

#include <stdint.h>

#define PQS_NS_PER_US INT64_C(1000)
#define PQS_NS_PER_MS INT64_C(1000000)
#define PQS_NS_PER_S INT64_C(1000000000)

int64_t pqs_now_ns(void);        /* CLOCK_MONOTONIC, nanoseconds */
int64_t pqs_thread_cpu_ns(void); /* CPU time of the calling thread, nanoseconds (CLOCK_THREAD_CPUTIME_ID) */
int64_t pqs_cpu_ns(void);        /* CPU time of this process, user + system, nanoseconds (getrusage) */

/* UTC now as "2026-11-30T19:48:44Z" (for people and file names only). */
void pqs_utc(char ret_text[static 24]);

#endif
