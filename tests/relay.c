/* A TCP relay for the truth tests: between client and server it does one known thing, and only to connections whose first
 * bytes carry a mark. `relay PORT MARK:DELAY_US:SERVER_PORT...` listens on 127.0.0.1:PORT (0: any; printed) and looks for each MARK
 * (hexadecimal, a part of the ClientHello) in turn; the first that is there (an empty one always is) decides to which
 * port of 127.0.0.1 the connection goes, and by how many microseconds the server's first bytes are held back. SIGTERM prints for each mark how
 * many connections it had and the mean delay that they really got. Must not know: TLS, HTTP, pqshake. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 200000 /* a sleep may end this late: the rest of a delay is waited for on the CPU */

struct route {
    uint8_t mark[64];
    size_t mark_len;
    int64_t delay_ns;
    in_port_t port;
    _Atomic int64_t n, delayed_ns;
};
static struct route routes[8];
static size_t n_routes;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void wait_until(int64_t at_ns) {
    int64_t sleep_to = at_ns - SPIN_NS;
    struct timespec t = {.tv_sec = sleep_to / 1000000000, .tv_nsec = sleep_to % 1000000000};
    if (sleep_to > now_ns())
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
        }
    while (now_ns() < at_ns) {
    }
}

static int send_all(int fd, const uint8_t *data, size_t len) {
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static struct sockaddr_in local(in_port_t port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static struct route *find_route(const uint8_t *data, size_t len) {
    for (size_t i = 0; i < n_routes; i++)
        if (routes[i].mark_len == 0 || memmem(data, len, routes[i].mark, routes[i].mark_len))
            return &routes[i];
    return NULL;
}

/* Both ways until both have ended; the first bytes from `to` are held back. */
static void pass(int from, int to, struct route *r, uint8_t *data, size_t size) {
    struct pollfd fds[2] = {{.fd = from, .events = POLLIN}, {.fd = to, .events = POLLIN}};
    int open = 2, held = 0;
    while (open > 0 && poll(fds, 2, 60000) > 0) {
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            int64_t came_ns = now_ns();
            ssize_t n = recv(fds[i].fd, data, size, 0);
            if (n <= 0) {
                shutdown(i == 0 ? to : from, SHUT_WR);
                fds[i].fd = -1;
                open--;
                continue;
            }
            if (i == 1 && !held) {
                held = 1;
                if (r->delay_ns > 0)
                    wait_until(came_ns + r->delay_ns);
                r->n++;
                r->delayed_ns += now_ns() - came_ns;
            }
            if (send_all(i == 0 ? to : from, data, (size_t)n))
                return;
        }
    }
}

static void *serve(void *arg) {
    int from = (int)(intptr_t)arg, to = -1, on = 1;
    uint8_t data[65536];
    ssize_t n = recv(from, data, sizeof data, 0);
    struct route *r = n > 0 ? find_route(data, (size_t)n) : NULL;
    if (r) {
        struct sockaddr_in server = local(r->port);
        to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(to, (struct sockaddr *)&server, sizeof server) == 0 && send_all(to, data, (size_t)n) == 0)
            pass(from, to, r, data, sizeof data);
    }
    close(to);
    close(from);
    return NULL;
}

static void *accept_all(void *arg) {
    int listener = (int)(intptr_t)arg;
    for (;;) {
        pthread_t thread;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) != 0) /* a delay of one must not hold up others */
            close(fd);
        else
            pthread_detach(thread);
    }
    return NULL;
}

/* "001d0017:2000:8443" */
static int parse(const char *text, struct route *ret) {
    *ret = (struct route){0};
    unsigned byte;
    for (; *text && *text != ':' && ret->mark_len < sizeof ret->mark && sscanf(text, "%2x", &byte) == 1; text += 2)
        ret->mark[ret->mark_len++] = (uint8_t)byte;
    long delay_us;
    unsigned port;
    if (sscanf(text, ":%ld:%u", &delay_us, &port) != 2 || delay_us < 0 || port == 0 || port > 65535)
        return -1;
    ret->delay_ns = delay_us * 1000;
    ret->port = (in_port_t)port;
    return 0;
}

int main(int argc, char **argv) {
    int on = 1, signal_no;
    sigset_t set;
    for (int i = 2; i < argc && n_routes < sizeof routes / sizeof *routes; i++)
        if (parse(argv[i], &routes[n_routes++]) != 0)
            argc = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: relay PORT MARK:DELAY_US:SERVER_PORT...\n");
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1UL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    struct sockaddr_in here = local((in_port_t)strtoul(argv[1], NULL, 10));
    socklen_t len = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&here, len) != 0 || listen(listener, 4096) != 0 ||
        getsockname(listener, (struct sockaddr *)&here, &len) != 0) {
        perror("relay: cannot listen");
        return 1;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)listener) != 0)
        return 1;
    printf("listening on 127.0.0.1:%u\n", ntohs(here.sin_port));
    fflush(stdout);
    sigwait(&set, &signal_no);
    for (size_t i = 0; i < n_routes; i++)
        printf("route %zu: %lld connections, mean delay %.1f us\n", i, (long long)routes[i].n,
               routes[i].n ? (double)routes[i].delayed_ns / 1e3 / (double)routes[i].n : 0);
    fflush(stdout);
    _exit(0); /* threads may still pass bytes */
}
