/* Child processes that cannot outlive their parent: PR_SET_PDEATHSIG SIGKILL, plus end of file on their standard input.
 * The kernel's parent is the *thread* that started the child: it must live as long as the child is wanted. A set-user-ID
 * program (sudo) drops the signal and has only the end of file. */
#ifndef PQS_BASE_CHILD_H
#define PQS_BASE_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct pqs_child {
    pid_t pid;  /* 0: none */
    int in_fd;  /* write end of its standard input; -1 when closed */
    int out_fd; /* read end of its standard output; -1 when closed */
};

/* Starts argv[0] (searched in PATH when it has no slash) with pipes on standard input and output (CLOEXEC on our side);
 * standard error is inherited. SIGINT and SIGTERM of the terminal do not reach it (own process group). Fails with
 * PQS_E_ENV when it cannot be executed (the exec error is reported here, not by the child). */
PQS_MUST_CHECK int pqs_child_start(char *const argv[], struct pqs_child *ret_child, struct pqs_err *err);

/* Closes the pipes, waits up to grace_ns for it to end by itself, then SIGKILLs its process group. *ret_status is the wait
 * status, or -1 when its end could not be observed (not ours to kill, hanging in the kernel). Safe on a child with pid 0
 * (status 0). */
void pqs_child_stop(struct pqs_child *child, int64_t grace_ns, int *ret_status);

/* "exit status 3" / "killed by signal 9 (Killed)" / "end not observed" for -1. Static buffers are not used. */
void pqs_child_describe(int wait_status, char *ret_text, size_t size);

#endif
