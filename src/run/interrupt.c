/* Signals by a flag and a pipe: the flag is the truth, the pipe wakes poll. Must not know who waits. */
#include "run/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;
static int wake[2] = {-1, -1};

static void on_signal(int sig) {
    (void)sig;
    int saved = errno;
    interrupted = 1;
    ssize_t n = write(wake[1], "", 1); /* full: it is readable already */
    (void)n;
    errno = saved;
}

void pqs_interrupt_catch(void) {
    if (wake[0] < 0 && pipe2(wake, O_CLOEXEC | O_NONBLOCK))
        return; /* no descriptors left: the signals keep ending the process, and its workers with it */
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: slow calls return */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool pqs_interrupted(void) {
    return interrupted;
}

void pqs_interrupt_reset(void) {
    interrupted = 0;
    char discard[64];
    while (wake[0] >= 0 && read(wake[0], discard, sizeof discard) > 0)
        ;
}

int pqs_interrupt_fd(void) {
    return wake[0];
}
