/* Starting and ending child processes. Must not know: what they run or what is said over their pipes. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define KILL_WAIT_NS                                                                                                        \
    (5 * PQS_NS_PER_S) /* a killed process may hang in the kernel, e.g. on a dead disk: that long, not for ever */

struct pipe_fds {
    int read, write;
};

static void pipe_close(const struct pipe_fds *p) {
    pqs_cleanup_close(&p->read);
    pqs_cleanup_close(&p->write);
}
#define PIPE __attribute__((cleanup(pipe_close))) struct pipe_fds

/* Takes a descriptor out of the standard ones' range, where the child's dup2 would trample on it (possible only when this
 * process was started with some of them closed). */
static int above_standard(int fd) {
    if (fd > STDERR_FILENO)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    return moved;
}

static int pipe_open(struct pipe_fds *ret_pipe, struct pqs_err *err) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) {
        int sys = errno;
        return pqs_fail_sys(err, PQS_E_ENV, sys, "cannot make a pipe%s",
                            sys == EMFILE ? " (raise the limit of descriptors: ulimit -n)" : "");
    }
    *ret_pipe = (struct pipe_fds){above_standard(fds[0]), above_standard(fds[1])};
    if (ret_pipe->read < 0 || ret_pipe->write < 0)
        return pqs_fail_sys(err, PQS_E_ENV, errno, "cannot move a pipe away from the standard descriptors");
    return 0;
}

/* Runs in the child, with all signals blocked and possibly with other threads' locks held: async-signal-safe calls only. */
static _Noreturn void become(char *const argv[], pid_t parent, int in, int out, int report) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the prctl and sends nothing any more */
        raise(SIGKILL);
    setpgid(0, 0);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL); /* exec would keep ignored signals ignored, SIGPIPE above all */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        execvp(argv[0], argv);
    int sys = errno;
    ssize_t sent = write(report, &sys, sizeof sys); /* so short a write to an empty pipe is whole */
    _exit(sent == sizeof sys ? 127 : 126);
}

int pqs_child_start(char *const argv[], struct pqs_child *ret_child, struct pqs_err *err) {
    PIPE in = {-1, -1}, out = {-1, -1}, report = {-1, -1};
    int rc = pipe_open(&in, err);
    if (rc == 0)
        rc = pipe_open(&out, err);
    if (rc == 0)
        rc = pipe_open(&report, err);
    if (rc)
        return pqs_context(err, "cannot start %s", argv[0]);

    pid_t parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* our handlers must not run in the child */
    pid_t pid = fork();
    if (pid == 0)
        become(argv, parent, in.read, out.write, report.write);
    int sys = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return pqs_fail_sys(err, PQS_E_ENV, sys, "cannot start %s: fork", argv[0]);

    /* End of file: exec closed the pipe. */
    close(report.write);
    report.write = -1;
    ssize_t n;
    do
        n = read(report.read, &sys, sizeof sys);
    while (n < 0 && errno == EINTR);
    if (n == sizeof sys) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return pqs_fail_sys(err, PQS_E_ENV, sys, "cannot execute %s", argv[0]);
    }
    *ret_child = (struct pqs_child){.pid = pid, .in_fd = in.write, .out_fd = out.read};
    in.write = out.read = -1; /* the caller's now */
    return 0;
}

/* Reaps the process if it ends before the deadline. */
static bool reap_until(pid_t pid, int pidfd, int64_t deadline_ns, int *ret_status) {
    for (;;) {
        int status;
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR)) {
            *ret_status = got == pid ? status : -1;
            return true;
        }
        int64_t left_ns = deadline_ns - pqs_now_ns();
        if (left_ns <= 0)
            return false;
        int64_t left_ms = left_ns / PQS_NS_PER_MS + 1;
        int wait_ms = left_ms < INT_MAX ? (int)left_ms : INT_MAX;
        /* A pidfd becomes readable when the process ends. Without one (kernel before 5.3) poll only sleeps: look again soon.
         */
        poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, pidfd >= 0 ? wait_ms : 1);
    }
}

void pqs_child_stop(struct pqs_child *child, int64_t grace_ns, int *ret_status) {
    *ret_status = 0;
    if (child->pid == 0)
        return;
    pqs_cleanup_close(&child->in_fd);
    pqs_cleanup_close(&child->out_fd);
    PQS_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0); /* always close-on-exec */
    if (!reap_until(child->pid, pidfd, pqs_now_ns() + grace_ns, ret_status)) {
        kill(-child->pid, SIGKILL);
        kill(child->pid, SIGKILL); /* in case it moved to another group */
        if (!reap_until(child->pid, pidfd, pqs_now_ns() + KILL_WAIT_NS, ret_status))
            *ret_status = -1;
    }
    *child = (struct pqs_child){.pid = 0, .in_fd = -1, .out_fd = -1};
}

void pqs_child_describe(int wait_status, char *ret_text, size_t size) {
    if (WIFEXITED(wait_status)) {
        snprintf(ret_text, size, "exit status %d", WEXITSTATUS(wait_status));
    } else if (WIFSIGNALED(wait_status)) {
        const char *name = sigdescr_np(WTERMSIG(wait_status)); /* constant text, unlike strsignal's */
        snprintf(ret_text, size, "killed by signal %d (%s)", WTERMSIG(wait_status), name ? name : "real-time signal");
    } else {
        snprintf(ret_text, size, "end not observed");
    }
}
