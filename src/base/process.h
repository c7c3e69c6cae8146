/* The CPU time that another process and all that it started have used, by the kernel's accounting. */
#ifndef PQS_BASE_PROCESS_H
#define PQS_BASE_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct pqs_process_tree {
    int64_t cpu_ns; /* user and system, of the process, its living descendants and their waited-for children */
    uint64_t start; /* when the process started, in the kernel's ticks: another value is another process */
    char name[64];  /* of the process, as in /proc/PID/comm */
};

/* Reads the processes one after the other: what ends in these microseconds may be missed or counted twice. A living process's
 * time is exact (its CPU clock), that of children that have ended and were waited for comes in clock ticks of 10 ms; children
 * that nobody waits for, and processes whose parent has ended, are no longer part of the tree. PQS_E_FAILED: there is no such
 * process, it has ended, or it is another user's and hidden. */
PQS_MUST_CHECK int pqs_process_tree_read(pid_t pid, struct pqs_process_tree *ret_tree, struct pqs_err *err);

#endif
