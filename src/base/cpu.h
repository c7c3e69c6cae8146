/* CPU placement. Two processes that are compared or that load each other should not share a physical core. */
#ifndef PQS_BASE_CPU_H
#define PQS_BASE_CPU_H

#include <stddef.h>

#include "base/err.h"

#define PQS_CPU_LIST_MAX 256 /* bytes of a CPU list text such as "0,2-3" */

/* Splits the CPUs this process may run on into two lists that share no physical core (hyper-thread siblings from
 * /sys/devices/system/cpu/cpuN/topology/thread_siblings_list stay together; unknown topology: every CPU is a core).
 * With one core both lists are empty strings (no pinning). ret_first gets the lower half. Lists are as taskset -c takes. */
void pqs_cpu_split(char ret_first[static PQS_CPU_LIST_MAX], char ret_second[static PQS_CPU_LIST_MAX]);

/* How many physical cores the CPUs that this process may run on belong to (unknown topology: every CPU is a core). */
unsigned pqs_cpu_cores(void);

/* Pins the calling process (call before threads start; threads inherit). "" does nothing. */
PQS_MUST_CHECK int pqs_cpu_pin(const char *list, struct pqs_err *err);

/* The calling process's allowed CPUs as a list text, e.g. "0-1". */
void pqs_cpu_allowed(char ret_list[static PQS_CPU_LIST_MAX]);
/* How many CPUs the calling process may run on; at least 1. */
unsigned pqs_cpu_count(void);

#endif
