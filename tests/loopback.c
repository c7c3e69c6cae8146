/* What the loopback interface bills to the wrong side: the server's half of opening a connection and of receiving runs in the
 * client's system calls. Measured against a server process that is stopped, so that none of it can be its own. Prints the
 * figures of docs/METHOD.md; fails when the kernel does otherwise. Must not know: pqshake. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 500
#define REQUEST 1600 /* bytes: a ClientHello with a hybrid key share */

static double cpu_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int new_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        exit(3);
    return fd;
}

/* The server: takes every connection and reads its request, says what that cost it, and ends. */
static void serve(int listener) {
    char data[REQUEST];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    raise(SIGSTOP);
    double before_us = cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0 || recv(fd, data, sizeof data, MSG_WAITALL) != REQUEST)
            _exit(1);
        close(fd);
    }
    printf("accept, receive and close: %.1f us of the server's CPU\n",
           (cpu_us(CLOCK_PROCESS_CPUTIME_ID) - before_us) / CONNECTIONS);
    fflush(stdout);
    _exit(0);
}

/* Microseconds of this process's CPU per attempt. Descriptors in ret_fds, which the caller closes. */
static double connect_all(struct sockaddr_in to, int *ret_fds, int *ret_connected) {
    *ret_connected = 0;
    for (int i = 0; i < CONNECTIONS; i++)
        ret_fds[i] = new_socket();
    double before_us = cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < CONNECTIONS; i++)
        *ret_connected += connect(ret_fds[i], (struct sockaddr *)&to, sizeof to) == 0;
    return (cpu_us(CLOCK_PROCESS_CPUTIME_ID) - before_us) / CONNECTIONS;
}

int main(void) {
    static int fds[CONNECTIONS];
    static const char request[REQUEST];
    struct rlimit files = {.rlim_cur = 1000, .rlim_max = 1000};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    int listener = new_socket(), connected, status;
    if (bind(listener, (struct sockaddr *)&here, len) != 0 || listen(listener, CONNECTIONS) != 0 ||
        getsockname(listener, (struct sockaddr *)&here, &len) != 0)
        return 3;
    pid_t server = fork();
    if (server == 0)
        serve(listener);
    clockid_t server_clock;
    if (server < 0 || waitpid(server, &status, WUNTRACED) != server || !WIFSTOPPED(status) ||
        clock_getcpuclockid(server, &server_clock) != 0)
        return 3;

    double before_us = cpu_us(server_clock);
    double connect_us = connect_all(here, fds, &connected);
    double send_us = cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < CONNECTIONS; i++)
        if (send(fds[i], request, sizeof request, MSG_NOSIGNAL) != REQUEST)
            return 1;
    send_us = (cpu_us(CLOCK_PROCESS_CPUTIME_ID) - send_us) / CONNECTIONS;
    double server_us = cpu_us(server_clock) - before_us;
    printf("connect to a stopped server: %.1f us of the client's CPU, %.1f us of the server's; %d of %d connected\n",
           connect_us, server_us / CONNECTIONS, connected, CONNECTIONS);
    printf("send %d bytes to it: %.1f us of the client's CPU, 0 of the server's\n", REQUEST, send_us);
    fflush(stdout);
    kill(server, SIGCONT);
    if (waitpid(server, &status, 0) != server || status != 0)
        return 1;
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    close(listener);
    int refused;
    double refused_us = connect_all(here, fds, &refused);
    printf("connect to a closed port: %.1f us of the client's CPU\n", refused_us);
    /* A server that did not run got all connections and all bytes: their cost was the client's. */
    return connected == CONNECTIONS && server_us == 0 && refused == 0 ? 0 : 1;
}
