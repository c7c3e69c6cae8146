/* src/load: the arrival schedule, the target, and the generator end to end against this project's server and against
 * servers of the test that misbehave. An argument selects tests by name ("null_*"). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "channel/failure.h"
#include "channel/spec.h"
#include "crypto/certificate.h"
#include "crypto/evp.h"
#include "crypto/library.h"
#include "load/arrivals.h"
#include "load/generator.h"
#include "load/http_client.h"
#include "load/target.h"
#include "stats/hist.h"
#include "tls/server.h"

#define SPEC __attribute__((cleanup(pqs_spec_release))) struct pqs_spec
#define RESULT __attribute__((cleanup(pqs_result_release))) struct pqs_result
#define CERTIFICATE __attribute__((cleanup(pqs_certificate_files_release))) struct pqs_certificate_files

#define MS PQS_NS_PER_MS

/* ---- arrivals ---- */

static uint64_t *arrivals(const struct pqs_schedule *s, const char *purpose, int64_t duration_ns, size_t *ret_n) {
    struct pqs_err err = {0};
    uint64_t *at = NULL;
    if (pqs_arrivals_make(s, purpose, duration_ns, &at, ret_n, &err) != 0)
        fail_msg("%s", err.msg);
    return at;
}

static void arrivals_constant(void **state) {
    static const unsigned rates[] = {1, 3, 7, 10, 30, 49, 300, 1000, 3000, 7777, 33333, 100000};
    (void)state;
    for (size_t k = 0; k < PQS_COUNT(rates); k++)
        for (uint64_t s = 1; s <= 20; s += rates[k] > 5000 ? 19 : 1) {
            size_t n;
            uint64_t *at =
                arrivals(&(struct pqs_schedule){.rate_per_s = rates[k]}, "arrivals", (int64_t)s * PQS_NS_PER_S, &n);
            if (n != rates[k] * s)
                fail_msg("%u/s for %d s: %zu arrivals", rates[k], (int)s, n);
            for (size_t i = 0; i < n; i++)
                if (at[i] != i * (uint64_t)PQS_NS_PER_S / rates[k])
                    fail_msg("%u/s: arrival %zu at %llu", rates[k], i, (unsigned long long)at[i]);
            free(at);
        }
    /* Fractions of a gap: the last instant is below the end, the one after it would not be. */
    size_t n;
    uint64_t *at = arrivals(&(struct pqs_schedule){.rate_per_s = 2.5}, "arrivals", PQS_NS_PER_S, &n);
    assert_int_equal(n, 3);
    assert_int_equal(at[0], 0);
    assert_int_equal(at[1], 400 * MS);
    assert_int_equal(at[2], 800 * MS);
    free(at);
    at = arrivals(&(struct pqs_schedule){.rate_per_s = 0.001}, "arrivals", PQS_NS_PER_S, &n);
    assert_int_equal(n, 1);
    free(at);
    at = arrivals(&(struct pqs_schedule){.rate_per_s = 100}, "warm-up", 0, &n); /* no warm-up */
    assert_int_equal(n, 0);
    free(at);
}

static struct pqs_schedule poisson(uint64_t seed, uint32_t block, double rate) {
    return (struct pqs_schedule){.arrivals = PQS_ARRIVALS_POISSON, .rate_per_s = rate, .seed = seed, .block = block};
}

/* Recomputed independently from the definition: SplitMix64 of the stream's key, -ln(1 - u) / rate, summed, cut to ns. */
static void arrivals_poisson_golden(void **state) {
    static const struct {
        uint64_t seed;
        uint32_t block;
        double rate;
        const char *purpose;
        uint64_t at[3];
    } golden[] = {
        {1, 0, 1000, "arrivals", {983980, 1735964, 2216821}},
        {2026, 7, 300, "arrivals", {3948671, 5639826, 11407061}},
        {1, 0, 1000, "warm-up", {61468, 970703, 1235825}},
    };
    (void)state;
    for (size_t k = 0; k < PQS_COUNT(golden); k++) {
        struct pqs_schedule s = poisson(golden[k].seed, golden[k].block, golden[k].rate);
        size_t n;
        uint64_t *at = arrivals(&s, golden[k].purpose, PQS_NS_PER_S, &n);
        assert_true(n > 3);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(at[i], golden[k].at[i]);
        free(at);
    }
}

/* Exponential gaps: mean, variance, share above the mean, no correlation of neighbours, count; each within four and a half
 * standard errors. */
static void arrivals_poisson_moments(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct pqs_schedule s = poisson(seed, 0, 2000);
        const double mean_ns = 500000;
        const double duration_s = 50;
        size_t n;
        uint64_t *at = arrivals(&s, "arrivals", (int64_t)(duration_s * 1e9), &n);
        const double expected = s.rate_per_s * duration_s;
        double sum = 0, squares = 0, neighbours = 0, before = 0, above = 0;
        assert_true(fabs((double)n - expected) < 4.5 * sqrt(expected));
        for (size_t i = 0; i < n; i++) {
            double gap = ((double)at[i] - (i ? (double)at[i - 1] : 0)) / mean_ns - 1;
            assert_true(gap >= -1);
            sum += gap;
            squares += gap * gap;
            neighbours += gap * before;
            above += gap > 0;
            before = gap;
        }
        assert_true(at[n - 1] < (uint64_t)(duration_s * 1e9));
        const double root = sqrt((double)n);
        assert_true(fabs(sum / (double)n) < 4.5 / root);
        assert_true(fabs(squares / (double)n - 1) < 4.5 * sqrt(8) / root);
        assert_true(fabs(neighbours / (double)n) < 4.5 / root);
        assert_true(fabs(above / (double)n - exp(-1)) < 4.5 * sqrt(exp(-1) * (1 - exp(-1))) / root);
        free(at);
    }
}

static void arrivals_reproducible(void **state) {
    const struct pqs_schedule base = poisson(1, 3, 1000);
    struct pqs_schedule block = base, seed = base, other = base;
    size_t n, m;
    (void)state;
    block.block = 4;
    seed.seed = 2;
    other.threads = 7; /* the schedule does not depend on how it is carried out */
    other.timeout_ns = 1;
    other.max_inflight = 9;
    uint64_t *a = arrivals(&base, "arrivals", PQS_NS_PER_S, &n), *b = arrivals(&other, "arrivals", PQS_NS_PER_S, &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n * sizeof *a);
    free(b);
    /* A longer window begins with the same arrivals. */
    b = arrivals(&base, "arrivals", 2 * PQS_NS_PER_S, &m);
    assert_true(m > n && b[n] >= (uint64_t)PQS_NS_PER_S);
    assert_memory_equal(a, b, n * sizeof *a);
    free(b);
    const struct {
        const struct pqs_schedule *s;
        const char *purpose;
    } different[] = {{&block, "arrivals"}, {&seed, "arrivals"}, {&base, "warm-up"}};
    for (size_t i = 0; i < PQS_COUNT(different); i++) {
        b = arrivals(different[i].s, different[i].purpose, PQS_NS_PER_S, &m);
        assert_true(a[0] != b[0] && a[1] != b[1]);
        free(b);
    }
    free(a);
}

static void arrivals_errors(void **state) {
    static const struct {
        double rate;
        const char *says;
    } bad[] = {
        {0, "above 0"}, {-1, "above 0"}, {NAN, "above 0"}, {INFINITY, "at most 50000000"}, {50000001, "at most 50000000"}};
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(bad); i++)
        for (unsigned kind = 0; kind < 2; kind++) {
            struct pqs_schedule s = {.arrivals = (enum pqs_arrivals)kind, .rate_per_s = bad[i].rate};
            struct pqs_err err = {0};
            uint64_t *at = NULL;
            size_t n = 77;
            assert_int_equal(pqs_arrivals_make(&s, "arrivals", PQS_NS_PER_S, &at, &n, &err), PQS_E_USAGE);
            assert_non_null(strstr(err.msg, bad[i].says));
            assert_null(at);
            assert_int_equal(n, 77);
        }
}

/* ---- target ---- */

static void target_spec(struct pqs_spec *spec, const char *host, const char *ports) {
    pqs_spec_set(spec, "host", host);
    pqs_spec_set(spec, "ports", ports);
}

static unsigned port_of(const struct sockaddr_storage *a) {
    return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
                                          : ((const struct sockaddr_in *)a)->sin_port);
}

static void target_resolves(void **state) {
    struct pqs_target t;
    struct pqs_err err;
    SPEC spec = {0};
    (void)state;
    target_spec(&spec, "127.0.0.1", "8443");
    assert_int_equal(pqs_target_resolve(&spec, &t, &err), 0);
    assert_int_equal(t.n_addresses, 1);
    t.addresses[1] = (struct sockaddr_storage){.ss_family = AF_INET6}; /* as if the name had :: too */
    t.address_len[1] = sizeof(struct sockaddr_in6);
    pqs_target_use(&t, 1);
    assert_int_equal(t.to[0].ss_family, AF_INET6);
    assert_int_equal(t.to_len, sizeof(struct sockaddr_in6));
    assert_int_equal(port_of(&t.to[0]), 8443);
    assert_int_equal(t.n_from, 0);
    pqs_target_use(&t, 0);
    assert_int_equal(t.n_to, 1);
    assert_int_equal(t.to[0].ss_family, AF_INET);
    assert_int_equal(port_of(&t.to[0]), 8443);
    assert_true(t.loopback);
    assert_int_equal(t.n_from, PQS_TARGET_SOURCES); /* 127.1.0.1 ... */
    for (unsigned i = 0; i < t.n_from; i++) {
        assert_int_equal(ntohl(((struct sockaddr_in *)&t.from[i])->sin_addr.s_addr), 0x7f010001u + i);
        assert_int_equal(port_of(&t.from[i]), 0);
    }
    target_spec(&spec, "127.200.3.4", "1,65535,8443");
    assert_int_equal(pqs_target_resolve(&spec, &t, &err), 0);
    assert_int_equal(t.n_to, 3);
    assert_int_equal(port_of(&t.to[0]), 1);
    assert_int_equal(port_of(&t.to[1]), 65535);
    assert_int_equal(port_of(&t.to[2]), 8443);
    assert_true(t.loopback && t.n_from == PQS_TARGET_SOURCES);

    target_spec(&spec, "::1", "8443,8444");
    assert_int_equal(pqs_target_resolve(&spec, &t, &err), 0);
    assert_int_equal(t.to[0].ss_family, AF_INET6);
    assert_int_equal(t.to_len, sizeof(struct sockaddr_in6));
    assert_int_equal(port_of(&t.to[1]), 8444);
    assert_int_equal(t.n_from, 0);

    target_spec(&spec, "192.0.2.1", "443"); /* TEST-NET-1: nobody's */
    assert_int_equal(pqs_target_resolve(&spec, &t, &err), 0);
    assert_false(t.loopback);
    assert_int_equal(t.n_from, 0);

    PQS_BUF many = {0};
    for (int i = 1; i <= PQS_TARGET_PORTS_MAX; i++)
        pqs_buf_addf(&many, "%s%d", i > 1 ? "," : "", i);
    target_spec(&spec, "127.0.0.1", pqs_buf_text(&many));
    assert_int_equal(pqs_target_resolve(&spec, &t, &err), 0);
    assert_int_equal(t.n_to, PQS_TARGET_PORTS_MAX);
    pqs_buf_addf(&many, ",65");
    target_spec(&spec, "127.0.0.1", pqs_buf_text(&many));
    assert_int_equal(pqs_target_resolve(&spec, &t, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "64"));
}

static void target_errors(void **state) {
    static const char *const bad_ports[] = {"",    "0",      "65536",  "http", "80,",
                                            ",80", "80,,81", "80x",    "-1",   "+80",
                                            " 80", "80 81",  "80, 81", "0x50", "18446744073709551697"};
    struct pqs_target t;
    struct pqs_err err;
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(bad_ports); i++) {
        SPEC spec = {0};
        target_spec(&spec, "127.0.0.1", bad_ports[i]);
        if (pqs_target_resolve(&spec, &t, &err) != PQS_E_USAGE)
            fail_msg("ports '%s' were taken", bad_ports[i]);
        assert_non_null(strstr(err.msg, bad_ports[i]));
        assert_non_null(strstr(err.msg, "1 to 65535"));
    }
    SPEC none = {0}, unknown = {0};
    assert_int_equal(pqs_target_resolve(&none, &t, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "host"));
    target_spec(&unknown, "a..b", "443");
    assert_int_equal(pqs_target_resolve(&unknown, &t, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "a..b"));
}

static void target_source_ports(void **state) {
    struct pqs_target t = {.n_to = 1};
    struct pqs_schedule s = {.rate_per_s = 1e6, .duration_ns = 300 * PQS_NS_PER_S};
    struct pqs_err err;
    (void)state;
    assert_int_equal(pqs_target_check_ports(&t, &s, s.duration_ns, false, &err), PQS_E_ENV);
    assert_non_null(strstr(err.msg, "source ports"));
    assert_non_null(strstr(err.msg, "--close rst"));
    assert_int_equal(pqs_target_check_ports(&t, &s, s.duration_ns, true, &err), 0);
    s.rate_per_s = 100;
    assert_int_equal(pqs_target_check_ports(&t, &s, s.duration_ns, false, &err), 0);
    /* One address of 28,232 ports has a quarter free for 100/s in 60 s, but not for 1000/s. */
    t.n_from = PQS_TARGET_SOURCES;
    assert_int_equal(pqs_target_check_ports(&t, &s, s.duration_ns, false, &err), 0);
    assert_int_equal(t.n_from, 0);
    t.n_from = PQS_TARGET_SOURCES;
    s.rate_per_s = 1000;
    assert_int_equal(pqs_target_check_ports(&t, &s, s.duration_ns, false, &err), 0);
    assert_int_equal(t.n_from, PQS_TARGET_SOURCES);
}

/* In a child: limits cannot be raised again. */
static void with_descriptor_limit(rlim_t soft, rlim_t hard, uint32_t asked, int want_rc, uint32_t want_max,
                                  const char *says) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit limit = {.rlim_cur = soft, .rlim_max = hard};
        struct pqs_err err = {0};
        uint32_t max = 0;
        int failed = setrlimit(RLIMIT_NOFILE, &limit) != 0;
        int rc = pqs_target_max_inflight(asked, &max, &err);
        failed |= rc != want_rc || max != want_max || (says && !strstr(err.msg, says));
        failed |= getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur != hard;
        if (failed)
            fprintf(stderr, "limit %ju, asked %u: %d, %u '%s'\n", (uintmax_t)hard, asked, rc, max, err.msg);
        _exit(failed);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void target_descriptors(void **state) {
    (void)state;
    with_descriptor_limit(50, 100, 0, 0, 50, NULL);
    with_descriptor_limit(100, 100, 68, 0, 68, NULL);
    with_descriptor_limit(
        50, 100, 69, PQS_E_ENV, 0,
        "--max-inflight 69 needs 101 descriptors, but this process may have 100; raise the limit (ulimit -n)");
    with_descriptor_limit(50, 100, UINT32_MAX, PQS_E_ENV, 0, "--max-inflight 4294967295 needs 4294967327 descriptors");
}

/* ---- the request ---- */

static void http_client_request(void **state) {
    static const struct {
        const char *host, *servername, *path, *headers, *request;
    } cases[] = {
        {"127.0.0.1", NULL, NULL, NULL, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
        {"127.0.0.1", "localhost", "/bytes/3", NULL, "GET /bytes/3 HTTP/1.1\r\nHost: localhost\r\n\r\n"},
        {"::1", NULL, "/", "A: 1\nB: 2", "GET / HTTP/1.1\r\nHost: [::1]\r\nA: 1\r\nB: 2\r\n\r\n"},
        {"h", NULL, "/", "A: 1\n", "GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\n\r\n"},
    };
    static const struct {
        const char *name, *value;
    } bad[] = {{"expect_status", "600"}, {"expect_status", "abc"}, {"expect_status", ""},
               {"expect_bytes", "-1"},   {"expect_bytes", "3x"},   {"expect_bytes", "18446744073709551619"}};
    struct pqs_http_client c;
    struct pqs_err err;
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        SPEC spec = {0};
        pqs_spec_set(&spec, "host", cases[i].host);
        pqs_spec_set(&spec, "servername", cases[i].servername);
        pqs_spec_set(&spec, "path", cases[i].path);
        pqs_spec_set(&spec, "headers", cases[i].headers);
        assert_int_equal(pqs_http_client_init(&c, &spec, &err), 0);
        assert_string_equal(pqs_buf_text(&c.request), cases[i].request);
        pqs_http_client_release(&c);
    }
    for (size_t i = 0; i < PQS_COUNT(bad); i++) {
        SPEC spec = {0};
        pqs_spec_set(&spec, "host", "h");
        pqs_spec_set(&spec, bad[i].name, bad[i].value);
        assert_int_equal(pqs_http_client_init(&c, &spec, &err), PQS_E_USAGE);
        assert_non_null(strstr(err.msg, bad[i].name));
        pqs_http_client_release(&c);
    }
}

/* ---- a server that misbehaves, in a thread of the test ---- */

enum goodbye { KEEP, CLOSE, RESET, RESET_EVERY_OTHER };

struct behaviour {
    const char *answer;  /* after the request; NULL: never */
    size_t answer_bytes; /* 0: up to the NUL */
    const char *rest;    /* of the answer, after rest_ns */
    int64_t answer_ns, rest_ns;
    bool not_http; /* whatever comes is the request */
    enum goodbye goodbye;
};

struct fake {
    struct behaviour does;
    uint16_t port;
    int listener;
    pthread_t thread;
    atomic_bool stop;
    int kept[4096];
    uint32_t sources[4096]; /* IPv4 addresses of the peers */
    size_t n;
};

static void sleep_ns(int64_t ns) {
    struct timespec t = {.tv_sec = ns / PQS_NS_PER_S, .tv_nsec = ns % PQS_NS_PER_S};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

static bool read_request(int fd, bool not_http) {
    char text[4096] = "";
    size_t n = 0;
    do {
        ssize_t got = n < sizeof text - 1 ? recv(fd, text + n, sizeof text - 1 - n, 0) : 0;
        if (got <= 0)
            return false;
        n += (size_t)got;
    } while (!not_http && !strstr(text, "\r\n\r\n"));
    return true;
}

static void fake_serve(struct fake *f, int fd) {
    struct timeval patience = {.tv_sec = 2};
    int one = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    bool served = f->does.answer && read_request(fd, f->does.not_http);
    if (served) {
        sleep_ns(f->does.answer_ns);
        (void)!send(fd, f->does.answer, f->does.answer_bytes ? f->does.answer_bytes : strlen(f->does.answer), MSG_NOSIGNAL);
    }
    if (served && f->does.rest) {
        sleep_ns(f->does.rest_ns);
        (void)!send(fd, f->does.rest, strlen(f->does.rest), MSG_NOSIGNAL);
    }
    if (f->does.goodbye == KEEP || (f->does.goodbye == RESET_EVERY_OTHER && f->n % 2 == 0)) {
        f->kept[f->n] = fd;
        return;
    }
    if (f->does.goodbye != CLOSE)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    close(fd);
}

static void *fake_main(void *arg) {
    struct fake *f = arg;
    while (!atomic_load(&f->stop)) {
        struct pollfd p = {.fd = f->listener, .events = POLLIN};
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        if (poll(&p, 1, 10) <= 0 || f->n == PQS_COUNT(f->kept))
            continue;
        int fd = accept4(f->listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        f->sources[f->n] = ntohl(peer.sin_addr.s_addr);
        fake_serve(f, fd);
        f->n++;
    }
    return NULL;
}

static int listen_somewhere(uint16_t *ret_port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 1024), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static struct fake *fake_start(struct behaviour does) {
    struct fake *f = pqs_calloc(1, sizeof *f);
    f->does = does;
    memset(f->kept, 0xff, sizeof f->kept);
    f->listener = listen_somewhere(&f->port);
    assert_int_equal(pthread_create(&f->thread, NULL, fake_main, f), 0);
    return f;
}

/* Ends its thread; what it has seen can be read then. */
static void fake_end(struct fake *f) {
    atomic_store(&f->stop, true);
    pthread_join(f->thread, NULL);
}

/* Returns how many connections it had. */
static size_t fake_free(struct fake *f) {
    for (size_t i = 0; i < f->n; i++)
        if (f->kept[i] >= 0)
            close(f->kept[i]);
    close(f->listener);
    size_t n = f->n;
    free(f);
    return n;
}

static size_t fake_stop(struct fake *f) {
    fake_end(f);
    return fake_free(f);
}

/* ---- running the generator ---- */

static const char ok_answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";

static void make_spec(struct pqs_spec *spec, uint16_t port, double rate, int64_t duration_ns, uint32_t threads) {
    char ports[8];
    snprintf(ports, sizeof ports, "%u", port);
    target_spec(spec, "127.0.0.1", ports);
    pqs_spec_set(spec, "expect_bytes", "3");
    spec->schedule = (struct pqs_schedule){
        .rate_per_s = rate,
        .duration_ns = duration_ns,
        .timeout_ns = 5 * PQS_NS_PER_S,
        .seed = 1,
        .threads = threads,
        .max_inflight = 1000,
    };
}

static int64_t count(const struct pqs_result *r, const char *name) {
    return pqs_result_get(r, PQS_CLIENT, name, -1);
}

static void assert_count(const struct pqs_result *r, const char *name, int64_t want) {
    int64_t value = pqs_result_get(r, PQS_CLIENT, name, 0);
    if (value != want) {
        for (size_t i = 0; i < r->n_counters; i++)
            fprintf(stderr, "%s %s %lld\n", pqs_side_names[r->counters[i].side], r->counters[i].name,
                    (long long)r->counters[i].value);
        fail_msg("%s is %lld, not %lld", name, (long long)value, (long long)want);
    }
}

static size_t n_samples(const struct pqs_result *r) {
    return r->samples.len / PQS_SAMPLE_BYTES;
}

static struct pqs_sample sample(const struct pqs_result *r, size_t i) {
    struct pqs_sample s;
    pqs_sample_get(r->samples.data + i * PQS_SAMPLE_BYTES, &s);
    return s;
}

/* The order of instants of one connection: what was reached is not before what came first, nothing is reached after what
 * was not. */
static void check_sample(const struct pqs_sample *s, size_t i) {
    const uint64_t at[] = {s->started_ns, s->tcp_ns, s->tls_ns, s->first_ns, s->done_ns};
    bool ordered = s->started_ns != PQS_SAMPLE_NONE && (s->failure != 0) == (s->done_ns == PQS_SAMPLE_NONE);
    for (size_t k = 1; k < PQS_COUNT(at); k++)
        ordered &= at[k] >= at[k - 1] && (at[k] == PQS_SAMPLE_NONE || at[k] < (uint64_t)PQS_NS_PER_S * 60);
    if (!ordered)
        fail_msg("sample %zu: %lld %lld %lld %lld %lld", i, (long long)at[0], (long long)at[1], (long long)at[2],
                 (long long)at[3], (long long)at[4]);
}

/* Everything that must hold of any cohort (METHOD 4, 11-14; F23). */
static void check_cohort(const struct pqs_result *r) {
    assert_count(r, "scheduled", count(r, "started") + count(r, "dropped") + count(r, "unstarted"));
    assert_count(r, "started", count(r, "completed") + count(r, "failed"));
    assert_count(r, "clock_faults", 0);
    assert_int_equal(n_samples(r), count(r, "started"));
    assert_true(count(r, "window_completed") <= count(r, "completed"));
    int64_t by_class = 0;
    for (size_t i = 0; i < r->n_counters; i++)
        if (strncmp(r->counters[i].name, "failed.", 7) == 0)
            by_class += r->counters[i].value;
    assert_count(r, "failed", by_class);

    double sums[PQS_PHASES] = {0}, lag_of_failed = 0;
    int64_t completed = 0, failed = 0, to_server = 0, to_client = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < n_samples(r); i++) {
        struct pqs_sample s = sample(r, i);
        check_sample(&s, i);
        assert_true(s.scheduled_ns >= before && s.scheduled_ns < (uint64_t)count(r, "window_ns"));
        before = s.scheduled_ns;
        if (s.failure) {
            failed++;
            lag_of_failed += (double)s.started_ns;
            continue;
        }
        completed++;
        to_server += s.to_server_bytes;
        to_client += s.to_client_bytes;
        sums[PQS_PHASE_REQUEST] += (double)s.done_ns;
        sums[PQS_PHASE_SERVICE] += (double)(s.done_ns - s.started_ns);
        sums[PQS_PHASE_START_LAG] += (double)s.started_ns;
        sums[PQS_PHASE_CONNECT] += (double)(s.tcp_ns - s.started_ns);
        sums[PQS_PHASE_TLS] += (double)(s.tls_ns - s.tcp_ns);
        sums[PQS_PHASE_FIRST_BYTE] += (double)(s.first_ns - s.tls_ns);
        sums[PQS_PHASE_BODY] += (double)(s.done_ns - s.first_ns);
    }
    assert_count(r, "completed", completed);
    assert_count(r, "failed", failed);
    assert_count(r, "bytes_to_server", to_server);
    assert_count(r, "bytes_to_client", to_client);
    /* The histograms hold the completed connections and nothing else, but for the lag, which is of all that were started; and the
     * parts sum to the total. */
    double in_hists[PQS_PHASES] = {0};
    int64_t n_in_hists[PQS_PHASES] = {0};
    for (size_t i = 0; i < r->n_hists; i++) {
        const struct pqs_hist_row *row = &r->hists[i];
        assert_true(row->class != PQS_CLASS_FIRST);
        n_in_hists[row->phase] += (int64_t)pqs_hist_n(row->hist);
        in_hists[row->phase] += pqs_hist_mean(row->hist) * (double)pqs_hist_n(row->hist);
    }
    for (int p = 0; p < PQS_PHASES; p++) {
        bool lag = p == PQS_PHASE_START_LAG;
        double sum = sums[p] + (lag ? lag_of_failed : 0);
        assert_int_equal(n_in_hists[p], completed + (lag ? failed : 0));
        assert_true(fabs(in_hists[p] - sum) <= 1e-9 * sum + 1);
    }
    double parts = sums[PQS_PHASE_START_LAG] + in_hists[PQS_PHASE_CONNECT] + in_hists[PQS_PHASE_TLS] +
                   in_hists[PQS_PHASE_FIRST_BYTE] + in_hists[PQS_PHASE_BODY];
    assert_true(fabs(parts - in_hists[PQS_PHASE_REQUEST]) <= 1e-9 * parts + 1);
}

static void run_window(const struct pqs_spec *spec, const struct pqs_engine *engine, struct pqs_result *ret_r) {
    struct pqs_generator *g = NULL;
    struct pqs_err err = {0};
    if (pqs_generator_new(spec, engine, &g, &err) != 0 ||
        pqs_generator_run(g, PQS_STAGE_WINDOW, NULL, NULL, ret_r, &err) != 0)
        fail_msg("%s", err.msg);
    pqs_generator_free(g);
    check_cohort(ret_r);
}

static struct pqs_server *start_server(const struct pqs_server_options *options) {
    struct pqs_server_options o = *options;
    struct pqs_server *s = NULL;
    struct pqs_err err = {0};
    o.host = o.host ? o.host : "127.0.0.1";
    o.n_ports = o.n_ports ? o.n_ports : 1;
    o.threads = o.threads ? o.threads : 1;
    o.backlog = 1024;
    o.timeout_ns = 5 * PQS_NS_PER_S;
    if (pqs_server_start(&o, &s, &err) != 0)
        fail_msg("%s", err.msg);
    return s;
}

/* Stops it and adds its counters and facts. */
static void stop_server(struct pqs_server *s, struct pqs_result *r) {
    pqs_server_stop(s, 2 * PQS_NS_PER_S);
    pqs_server_counters(s, r);
    pqs_server_facts(s, r);
    pqs_server_free(s);
}

/* METHOD 14: with nothing but completed connections both sides agree to the byte. */
static void check_reconciles(const struct pqs_result *r) {
    assert_int_equal(pqs_result_get(r, PQS_SERVER, "accepted", -1), count(r, "started"));
    assert_int_equal(pqs_result_get(r, PQS_SERVER, "completed", -1), count(r, "completed"));
    assert_int_equal(pqs_result_get(r, PQS_SERVER, "failed", -1), 0);
    assert_int_equal(pqs_result_get(r, PQS_SERVER, "open", -1), 0);
    assert_int_equal(pqs_result_get(r, PQS_SERVER, "bytes_in", -1), count(r, "bytes_to_server"));
    assert_int_equal(pqs_result_get(r, PQS_SERVER, "bytes_out", -1), count(r, "bytes_to_client"));
}

static void null_reconciles(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        struct pqs_server *s = start_server(&(struct pqs_server_options){.plain = true});
        SPEC spec = {0};
        RESULT r = {0};
        make_spec(&spec, pqs_server_port(s, 0), 500, 400 * MS, 1);
        spec.schedule.arrivals = (enum pqs_arrivals)kind;
        run_window(&spec, &pqs_engine_null, &r);
        stop_server(s, &r);
        if (kind == 0)
            assert_count(&r, "scheduled", 200);
        assert_true(count(&r, "scheduled") > 120);
        assert_count(&r, "completed", count(&r, "scheduled"));
        assert_count(&r, "cut_short", 0);
        assert_count(&r, "window_ns", 400 * MS);
        assert_true(count(&r, "inflight_max") >= 1);
        assert_true(count(&r, "cpu_ns") > 0);
        assert_true(count(&r, "thread_busy_ppm") > 0 && count(&r, "thread_busy_ppm") < 1100000);
        check_reconciles(&r);
    }
}

static void null_closes_with_reset(void **state) {
    struct pqs_server *s = start_server(&(struct pqs_server_options){.plain = true});
    SPEC spec = {0};
    RESULT r = {0};
    (void)state;
    make_spec(&spec, pqs_server_port(s, 0), 500, 300 * MS, 1);
    pqs_spec_set(&spec, "close", "rst");
    run_window(&spec, &pqs_engine_null, &r);
    stop_server(s, &r);
    assert_count(&r, "completed", 150);
    check_reconciles(&r);
}

/* Threads take turns on one schedule: every arrival once, each thread half of them. */
static void null_threads_share_a_schedule(void **state) {
    struct pqs_server *s = start_server(&(struct pqs_server_options){.plain = true, .threads = 2, .n_ports = 3});
    SPEC spec = {0};
    RESULT r = {0};
    char ports[32];
    (void)state;
    make_spec(&spec, 0, 600, 300 * MS, 2);
    snprintf(ports, sizeof ports, "%u,%u,%u", pqs_server_port(s, 0), pqs_server_port(s, 1), pqs_server_port(s, 2));
    pqs_spec_set(&spec, "ports", ports);
    spec.schedule.arrivals = PQS_ARRIVALS_POISSON;
    size_t n;
    uint64_t *at = arrivals(&spec.schedule, "arrivals", spec.schedule.duration_ns, &n);
    run_window(&spec, &pqs_engine_null, &r);
    stop_server(s, &r);
    check_reconciles(&r);
    assert_count(&r, "completed", (int64_t)n);
    assert_int_equal(n_samples(&r), n);
    for (size_t i = 0; i < n; i++) {
        struct pqs_sample one = sample(&r, i);
        assert_int_equal(one.scheduled_ns, at[i]);
        assert_int_equal(one.thread, i % 2);
    }
    free(at);
}

/* Preflight, warm-up and two windows one after the other: nothing leaks from one into the next. */
static void on_progress(void *context, const struct pqs_generator_progress *p) {
    struct pqs_generator_progress *last = context;
    assert_true(p->started >= last->started && p->completed >= last->completed && p->failed == 0);
    *last = *p;
}

static void null_stages(void **state) {
    struct pqs_server *s = start_server(&(struct pqs_server_options){.plain = true});
    struct pqs_generator *g = NULL;
    struct pqs_generator_progress progress = {0};
    struct pqs_err err = {0};
    SPEC spec = {0};
    RESULT first = {0}, warm = {0}, one = {0}, two = {0}, server = {0};
    (void)state;
    make_spec(&spec, pqs_server_port(s, 0), 200, 600 * MS, 2);
    spec.schedule.warmup_ns = 100 * MS;
    assert_int_equal(pqs_generator_new(&spec, &pqs_engine_null, &g, &err), 0);
    assert_int_equal(pqs_generator_run(g, PQS_STAGE_PREFLIGHT, NULL, NULL, &first, &err), 0);
    assert_int_equal(pqs_generator_run(g, PQS_STAGE_WARMUP, NULL, NULL, &warm, &err), 0);
    assert_int_equal(pqs_generator_run(g, PQS_STAGE_WINDOW, on_progress, &progress, &one, &err), 0);
    assert_int_equal(pqs_generator_run(g, PQS_STAGE_WINDOW, NULL, NULL, &two, &err), 0);
    pqs_generator_free(g);
    stop_server(s, &server);

    assert_int_equal(pqs_hist_n(pqs_result_hist_of(&first, PQS_CLASS_FIRST, PQS_PHASE_REQUEST)), 2);
    assert_null(pqs_result_hist_of(&first, PQS_CLASS_FULL, PQS_PHASE_REQUEST));
    assert_string_equal(pqs_result_fact_of(&first, PQS_CLIENT, "loopback", NULL), "yes");
    assert_true(atoi(pqs_result_fact_of(&first, PQS_CLIENT, "tcp.mss", NULL)) > 500);
    assert_true(*pqs_result_fact_of(&first, PQS_CLIENT, "tcp.congestion_control", NULL));
    assert_count(&warm, "warmup.scheduled", 20);
    assert_count(&warm, "warmup.completed", 20);
    assert_int_equal(warm.n_hists, 0);
    assert_int_equal(warm.samples.len, 0);
    assert_true(progress.started > 50 && progress.started <= 120);
    check_cohort(&one);
    check_cohort(&two);
    assert_count(&one, "completed", 120);
    assert_count(&two, "completed", 120);
    assert_int_equal(pqs_result_get(&server, PQS_SERVER, "accepted", -1), 2 + 20 + 120 + 120);
}

static void null_uses_all_addresses(void **state) {
    struct fake *a = fake_start((struct behaviour){.answer = ok_answer}),
                *b = fake_start((struct behaviour){.answer = ok_answer});
    char ports[16];
    SPEC spec = {0};
    RESULT r = {0};
    (void)state;
    make_spec(&spec, 0, 800, 200 * MS, 1);
    spec.schedule.warmup_ns = 60000 * MS; /* not run here, but planned: one address would not have the ports */
    snprintf(ports, sizeof ports, "%u,%u", a->port, b->port);
    pqs_spec_set(&spec, "ports", ports);
    run_window(&spec, &pqs_engine_null, &r);
    assert_count(&r, "completed", 160);
    fake_end(a);
    bool seen[PQS_TARGET_SOURCES] = {false};
    for (size_t i = 0; i < a->n; i++) {
        uint32_t source = a->sources[i] - 0x7f010001u;
        assert_true(source < PQS_TARGET_SOURCES);
        seen[source] = true;
    }
    for (size_t i = 0; i < PQS_TARGET_SOURCES; i += 2) /* two ports and 64 sources: each port meets every other one */
        assert_true(seen[i]);
    assert_int_equal(fake_free(a), 80);
    assert_int_equal(fake_stop(b), 80);
}

static void null_ipv6(void **state) {
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 local = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)&local, sizeof local) == 0;
    (void)state;
    if (fd >= 0)
        close(fd);
    if (!have)
        skip();
    struct pqs_server *s = start_server(&(struct pqs_server_options){.plain = true, .host = "::1"});
    SPEC spec = {0};
    RESULT r = {0};
    make_spec(&spec, pqs_server_port(s, 0), 200, 200 * MS, 1);
    pqs_spec_set(&spec, "host", "::1");
    run_window(&spec, &pqs_engine_null, &r);
    stop_server(s, &r);
    assert_count(&r, "completed", 40);
    check_reconciles(&r);
}

/* Answers that are wrong each in its own way: all started, all failed, in one class; not one in a histogram. */
static void null_failure_classes(void **state) {
    static const struct {
        const char *answer;
        enum goodbye goodbye;
        const char *class;
    } cases[] = {
        {"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nok\n", KEEP, "failed.response.http_status"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour", KEEP, "failed.response.http"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", KEEP, "failed.response.http"},
        {"HTTP/1.1 200 OK\r\n\r\nok", CLOSE, "failed.response.http"},
        {"SSH-2.0-OpenSSH_9.2p1\r\n", KEEP, "failed.response.http"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", KEEP, "failed.response.http"},
        {"", CLOSE, "failed.response.eof"},
        {"HTTP/1.1 200 OK\r\nContent-Len", CLOSE, "failed.response.eof"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", CLOSE, "failed.response.eof"},
        {"", RESET, "failed.response.reset"},
    };
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct fake *f = fake_start((struct behaviour){.answer = cases[i].answer, .goodbye = cases[i].goodbye});
        SPEC spec = {0};
        RESULT r = {0};
        make_spec(&spec, f->port, 200, 50 * MS, 1);
        run_window(&spec, &pqs_engine_null, &r);
        assert_int_equal(fake_stop(f), 10);
        assert_count(&r, cases[i].class, 10);
        assert_count(&r, "failed", 10);
        assert_null(pqs_result_hist_of(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST));
    }
}

/* Correct answers in unusual shapes are answers. */
static void null_other_answers(void **state) {
    static const struct {
        const char *answer, *rest;
        enum goodbye goodbye;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\n\r\nok\n", NULL, CLOSE},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok\n\r\n0\r\n\r\n", NULL, KEEP},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n", NULL, KEEP},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\nexcess", NULL, KEEP},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n", NULL, CLOSE},
        {"HTTP/1.1 200 OK\r\nCont", "ent-Length: 3\r\n\r\nok\n", CLOSE},
    };
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct fake *f =
            fake_start((struct behaviour){.answer = cases[i].answer, .rest = cases[i].rest, .goodbye = cases[i].goodbye});
        SPEC spec = {0};
        RESULT r = {0};
        make_spec(&spec, f->port, 200, 50 * MS, 1);
        run_window(&spec, &pqs_engine_null, &r);
        assert_int_equal(fake_stop(f), 10);
        assert_count(&r, "completed", 10);
    }
}

static void null_half_are_reset(void **state) {
    struct fake *f = fake_start(
        (struct behaviour){.answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", .goodbye = RESET_EVERY_OTHER});
    SPEC spec = {0};
    RESULT r = {0};
    (void)state;
    make_spec(&spec, f->port, 200, 250 * MS, 1);
    spec.schedule.timeout_ns = 400 * MS;
    run_window(&spec, &pqs_engine_null, &r);
    assert_int_equal(fake_stop(f), 50);
    assert_count(&r, "failed.response.reset", 25);
    assert_count(&r, "failed.response.timeout", 25); /* the other half waits for a body that never comes */
    assert_null(pqs_result_hist_of(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST));
}

static void null_half_are_reset_half_complete(void **state) {
    struct fake *good = fake_start((struct behaviour){.answer = ok_answer}),
                *bad = fake_start((struct behaviour){.answer = "", .goodbye = RESET});
    char ports[16];
    SPEC spec = {0};
    RESULT r = {0};
    (void)state;
    make_spec(&spec, 0, 200, 200 * MS, 1);
    snprintf(ports, sizeof ports, "%u,%u", good->port, bad->port);
    pqs_spec_set(&spec, "ports", ports);
    run_window(&spec, &pqs_engine_null, &r);
    fake_stop(good);
    fake_stop(bad);
    assert_count(&r, "completed", 20);
    assert_count(&r, "failed.response.reset", 20);
    assert_int_equal(pqs_hist_n(pqs_result_hist_of(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST)), 20);
}

static void null_refused(void **state) {
    SPEC spec = {0};
    RESULT r = {0};
    uint16_t port;
    struct pqs_generator *g = NULL;
    struct pqs_err err = {0};
    (void)state;
    close(listen_somewhere(&port));
    make_spec(&spec, port, 200, 100 * MS, 1);
    run_window(&spec, &pqs_engine_null, &r);
    assert_count(&r, "failed.connect.refused", 20);
    for (size_t i = 0; i < n_samples(&r); i++)
        assert_true(sample(&r, i).tcp_ns == PQS_SAMPLE_NONE);
    /* A preflight says it in words. */
    assert_int_equal(pqs_generator_new(&spec, &pqs_engine_null, &g, &err), 0);
    assert_int_equal(pqs_generator_run(g, PQS_STAGE_PREFLIGHT, NULL, NULL, &r, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "connect"));
    assert_non_null(strstr(err.msg, "refused"));
    pqs_generator_free(g);
}

/* Connections that are never answered: as many as may be open are started, at their times; the others are counted, not
 * delayed; those that time out are failures of at least the timeout and in no histogram. */
static void null_max_inflight(void **state) {
    struct fake *f = fake_start((struct behaviour){0});
    SPEC spec = {0};
    RESULT r = {0};
    (void)state;
    make_spec(&spec, f->port, 200, 300 * MS, 1);
    spec.schedule.max_inflight = 4;
    spec.schedule.timeout_ns = 500 * MS;
    int64_t begin = pqs_now_ns();
    run_window(&spec, &pqs_engine_null, &r);
    int64_t took = pqs_now_ns() - begin;
    assert_int_equal(fake_stop(f), 4);
    assert_count(&r, "scheduled", 60);
    assert_count(&r, "started", 4);
    assert_count(&r, "dropped", 56);
    assert_count(&r, "failed.response.timeout", 4);
    assert_count(&r, "inflight_max", 4);
    assert_null(pqs_result_hist_of(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST));
    for (size_t i = 0; i < 4; i++) {
        struct pqs_sample s = sample(&r, i);
        assert_int_equal(s.scheduled_ns, (int64_t)i * 5 * MS);
        assert_true(s.started_ns < (uint64_t)(100 * MS));
        assert_true(s.tcp_ns != PQS_SAMPLE_NONE && s.first_ns == PQS_SAMPLE_NONE);
    }
    assert_true(took >= 500 * MS && took < 1500 * MS);
    assert_true(count(&r, "drain_ns") >= 150 * MS && count(&r, "drain_ns") < 1200 * MS);
}

/* METHOD 11: under half started after 2 s. */
static void null_hopeless_is_cut_short(void **state) {
    struct fake *f = fake_start((struct behaviour){0});
    SPEC spec = {0};
    RESULT r = {0};
    (void)state;
    make_spec(&spec, f->port, 1000, 60 * PQS_NS_PER_S, 2);
    spec.schedule.max_inflight = 2;
    spec.schedule.timeout_ns = 2200 * MS;
    int64_t begin = pqs_now_ns();
    run_window(&spec, &pqs_engine_null, &r);
    int64_t took = pqs_now_ns() - begin;
    fake_stop(f);
    assert_count(&r, "cut_short", 1);
    assert_count(&r, "scheduled", 60000);
    assert_count(&r, "started", 2);
    assert_true(count(&r, "dropped") > 1500 && count(&r, "unstarted") > 50000);
    assert_true(count(&r, "window_ns") >= 2 * PQS_NS_PER_S && count(&r, "window_ns") < 3 * PQS_NS_PER_S);
    assert_true(took < 4 * PQS_NS_PER_S);
}

/* F24: descriptors run out in the middle of it: a class of its own, for exactly those that found none. */
static rlim_t limit_that_leaves(int n_free) {
    int fd = 0;
    for (; n_free > 0; fd++)
        n_free -= fcntl(fd, F_GETFD) < 0;
    return (rlim_t)fd;
}

static void null_out_of_descriptors(void **state) {
    struct pqs_generator *g = NULL;
    struct pqs_err err = {0};
    struct rlimit before;
    SPEC spec = {0};
    RESULT r = {0};
    uint16_t port;
    (void)state;
    int listener = listen_somewhere(&port); /* the kernel accepts, nobody answers */
    make_spec(&spec, port, 200, 100 * MS, 1);
    spec.schedule.timeout_ns = 300 * MS;
    assert_int_equal(pqs_generator_new(&spec, &pqs_engine_null, &g, &err), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit few = {.rlim_cur = limit_that_leaves(5), .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int rc = pqs_generator_run(g, PQS_STAGE_WINDOW, NULL, NULL, &r, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    pqs_generator_free(g);
    close(listener);
    assert_int_equal(rc, 0);
    check_cohort(&r);
    assert_count(&r, "failed.local.descriptors", 15);
    assert_count(&r, "failed.response.timeout", 5);
}

/* The time that a server takes to answer is in the service time, in the phase where it was spent, and nowhere else. */
static void null_injected_delay(void **state) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
    (void)state;
    for (int where = 0; where < 2; where++) {
        struct fake *f = fake_start(where == 0 ? (struct behaviour){.answer = ok_answer, .answer_ns = 20 * MS}
                                               : (struct behaviour){.answer = head, .rest = "ok\n", .rest_ns = 20 * MS});
        SPEC spec = {0};
        RESULT r = {0};
        make_spec(&spec, f->port, 20, 600 * MS, 1);
        run_window(&spec, &pqs_engine_null, &r);
        fake_stop(f);
        assert_count(&r, "completed", 12);
        const struct pqs_hist *h[PQS_PHASES];
        for (int p = 0; p < PQS_PHASES; p++)
            h[p] = pqs_result_hist_of(&r, PQS_CLASS_FULL, (enum pqs_phase)p);
        int slow = where == 0 ? PQS_PHASE_FIRST_BYTE : PQS_PHASE_BODY;
        assert_true(pqs_hist_min(h[PQS_PHASE_SERVICE]) >= 20 * MS);
        assert_true(pqs_hist_min(h[slow]) >=
                    (where == 0 ? 20 : 15) * MS); /* the head may be seen late, the body not early */
        double p50 = pqs_hist_quantile(h[PQS_PHASE_SERVICE], 0.5);
        assert_true(p50 >= 19.9 * (double)MS && p50 < 45 * (double)MS);
        for (int p = PQS_PHASE_START_LAG; p < PQS_PHASES; p++)
            if (p != slow)
                assert_true(pqs_hist_quantile(h[p], 0.5) < 15 * (double)MS);
    }
}

/* METHOD 2, 3, F05: a server that stands still delays no start, and its silence is in the request times of all who waited.
 */
static void null_stall_is_not_omitted(void **state) {
    /* One connection at a time, 300 ms for each: everybody else waits. */
    struct fake *f = fake_start((struct behaviour){.answer = ok_answer, .answer_ns = 300 * MS});
    SPEC spec = {0};
    RESULT r = {0};
    (void)state;
    make_spec(&spec, f->port, 100, 500 * MS, 1);
    spec.schedule.max_inflight = 500;
    spec.schedule.timeout_ns = 1000 * MS;
    run_window(&spec, &pqs_engine_null, &r);
    fake_stop(f);
    assert_count(&r, "scheduled", 50);
    assert_count(&r, "started", 50);
    assert_count(&r, "dropped", 0);
    uint64_t worst = 0;
    for (size_t i = 0; i < n_samples(&r); i++) {
        struct pqs_sample s = sample(&r, i);
        worst = s.started_ns > worst ? s.started_ns : worst;
        assert_int_equal(s.scheduled_ns, (int64_t)i * 10 * MS);
    }
    assert_true(worst < (uint64_t)(150 * MS));
    /* Answer k comes at 300 k ms at the earliest to the one who was scheduled at 10 k ms. */
    for (size_t i = 0, k = 1; i < n_samples(&r); i++) {
        struct pqs_sample s = sample(&r, i);
        if (s.failure == PQS_FAILURE_NONE) {
            assert_true(s.scheduled_ns + s.done_ns >= k * 300 * (uint64_t)MS);
            k++;
        }
    }
    assert_true(count(&r, "completed") >= 3);
    assert_count(&r, "failed.response.timeout", 50 - count(&r, "completed"));
}

static void generator_errors(void **state) {
    struct pqs_generator *g = NULL;
    struct pqs_err err;
    (void)state;
    static const struct {
        double rate;
        int64_t duration_ns, timeout_ns;
        uint32_t threads, max_inflight;
        const char *ports, *says;
    } bad[] = {
        {0, 1, 1, 1, 0, "1", "0 connections/s"},   {NAN, 1, 1, 1, 0, "1", "nan connections/s"},
        {-5, 1, 1, 1, 0, "1", "-5 connections/s"}, {1, 0, 1, 1, 0, "1", "duration"},
        {1, 1, 0, 1, 0, "1", "timeout"},           {1, 1, 1, 0, 0, "1", "threads"},
        {1, 1, 1, 1025, 0, "1", "threads"},        {1, 1, 1, 2, 1, "1", "max-inflight"},
        {1, 1, 1, 1, 0, "", "list of ports"},
    };
    for (size_t i = 0; i < PQS_COUNT(bad); i++) {
        SPEC spec = {0};
        target_spec(&spec, "127.0.0.1", bad[i].ports);
        spec.schedule = (struct pqs_schedule){.rate_per_s = bad[i].rate,
                                              .duration_ns = bad[i].duration_ns,
                                              .timeout_ns = bad[i].timeout_ns,
                                              .threads = bad[i].threads,
                                              .max_inflight = bad[i].max_inflight};
        err = (struct pqs_err){0};
        int rc = pqs_generator_new(&spec, &pqs_engine_null, &g, &err);
        if (rc != PQS_E_USAGE || !strstr(err.msg, bad[i].says))
            fail_msg("case %zu: %d '%s'", i, rc, err.msg);
        assert_null(g);
    }
    pqs_generator_free(NULL);
}

/* ---- the TLS engine against the TLS server ---- */

struct tls_pair {
    struct pqs_certificate_files server, other; /* `other`: a client's, or a CA that signed nothing */
} pair;

static int make_certificates(void **state) {
    struct pqs_err err = {0};
    (void)state;
    if (pqs_crypto_init(&err) != 0 ||
        pqs_certificate_make(&(struct pqs_certificate_request){.kind = "ecdsa-p256"}, &pair.server, &err) != 0 ||
        pqs_certificate_make(&(struct pqs_certificate_request){.kind = "ecdsa-p256", .common_name = "other"}, &pair.other,
                             &err) != 0) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    return 0;
}

static int release_certificates(void **state) {
    (void)state;
    pqs_certificate_files_release(&pair.server);
    pqs_certificate_files_release(&pair.other);
    return 0;
}

static struct pqs_server *start_tls(const char *groups, bool verify) {
    return start_server(&(struct pqs_server_options){.tls = {.groups = groups,
                                                             .cert = {&pair.server.leaf},
                                                             .key = {&pair.server.leaf_key},
                                                             .ca = verify ? &pair.server.ca : NULL,
                                                             .verify = verify}});
}

static void tls_spec(struct pqs_spec *spec, const struct pqs_server *s, const char *groups) {
    make_spec(spec, pqs_server_port(s, 0), 200, 100 * MS, 1);
    pqs_spec_set(spec, "groups", groups);
    pqs_spec_set(spec, "servername", "localhost");
    pqs_spec_set_bytes(spec, "ca", pair.server.ca.data, pair.server.ca.len);
}

static void assert_fact(const struct pqs_result *r, enum pqs_side side, const char *name, const char *value, uint64_t n) {
    for (size_t i = 0; i < r->n_facts; i++) {
        const struct pqs_fact *f = &r->facts[i];
        if (f->side == side && strcmp(f->name, name) == 0 && strcmp(f->value, value) == 0 && f->n == n)
            return;
    }
    for (size_t i = 0; i < r->n_facts; i++)
        fprintf(stderr, "%s %s = %s (%llu)\n", pqs_side_names[r->facts[i].side], r->facts[i].name, r->facts[i].value,
                (unsigned long long)r->facts[i].n);
    fail_msg("no fact %s = %s with n = %llu", name, value, (unsigned long long)n);
}

static const char *cipher_of_stack(void) {
    return strcmp(pqs_evp_stack, "aws-lc") == 0 ? "TLS_AES_128_GCM_SHA256" : "TLS_AES_256_GCM_SHA384";
}

static void tls_reconciles(void **state) {
    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        struct pqs_server *s = start_tls("X25519MLKEM768:X25519", false);
        SPEC spec = {0};
        RESULT r = {0};
        tls_spec(&spec, s, "X25519MLKEM768");
        pqs_spec_set(&spec, "close", reset ? "rst" : NULL);
        run_window(&spec, &pqs_engine_tls, &r);
        stop_server(s, &r);
        assert_count(&r, "completed", 20);
        check_reconciles(&r);
        assert_fact(&r, PQS_CLIENT, "group", "X25519MLKEM768", 20);
        assert_fact(&r, PQS_SERVER, "group", "X25519MLKEM768", 20);
        assert_fact(&r, PQS_CLIENT, "protocol", "TLSv1.3", 20);
        assert_fact(&r, PQS_CLIENT, "cipher", cipher_of_stack(), 20);
        assert_fact(&r, PQS_CLIENT, "signature", "ecdsa_secp256r1_sha256", 20);
        assert_fact(&r, PQS_CLIENT, "http_status", "200", 20);
        assert_fact(&r, PQS_CLIENT, "resumed", "no", 20);
        assert_count(&r, "verified", 20);
        assert_count(&r, "resumed", 0);
        assert_count(&r, "retries", 0);
        assert_int_equal(pqs_hist_n(pqs_result_hist_of(&r, PQS_CLASS_FULL, PQS_PHASE_TLS)), 20);
    }
}

/* A body of many records, and no request at all. */
static void tls_bodies(void **state) {
    struct pqs_server *s = start_tls(NULL, false);
    SPEC spec = {0};
    RESULT big = {0}, none = {0};
    (void)state;
    tls_spec(&spec, s, NULL);
    spec.schedule.rate_per_s = 20;
    spec.schedule.duration_ns = 200 * MS;
    pqs_spec_set(&spec, "path", "/bytes/1000000");
    pqs_spec_set(&spec, "expect_bytes", "1000000");
    run_window(&spec, &pqs_engine_tls, &big);
    assert_count(&big, "completed", 4);
    assert_true(count(&big, "bytes_to_client") > 4000000);
    pqs_spec_set(&spec, "handshake_only", "yes");
    run_window(&spec, &pqs_engine_tls, &none);
    stop_server(s, &none);
    assert_count(&none, "completed", 4);
    assert_int_equal(pqs_hist_max(pqs_result_hist_of(&none, PQS_CLASS_FULL, PQS_PHASE_BODY)), 0);
    assert_int_equal(pqs_result_get(&none, PQS_SERVER, "completed", -1), 8);
    assert_int_equal(pqs_result_get(&none, PQS_SERVER, "failed", -1), 0);
    assert_int_equal(pqs_result_get(&none, PQS_SERVER, "responses", -1), 4);
}

/* F03: HelloRetryRequests are counted and kept apart. */
static void tls_retries_are_a_class(void **state) {
    struct pqs_server *s = start_tls("P-384", false);
    SPEC spec = {0};
    RESULT r = {0};
    (void)state;
    tls_spec(&spec, s, "X25519:P-384");
    run_window(&spec, &pqs_engine_tls, &r);
    stop_server(s, &r);
    assert_count(&r, "completed", 20);
    assert_count(&r, "retries", 20);
    assert_fact(&r, PQS_CLIENT, "retry", "yes", 20);
    assert_int_equal(pqs_hist_n(pqs_result_hist_of(&r, PQS_CLASS_RETRY, PQS_PHASE_REQUEST)), 20);
    assert_null(pqs_result_hist_of(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST));
    check_reconciles(&r);
}

/* F01: the client has finished its handshake before the server rejects it; it counts as what it is. */
static void tls_client_certificates(void **state) {
    static const struct {
        int mode; /* 0: no certificate, 1: of an unknown CA, 2: a good one */
        const char *client_class, *server_class;
    } cases[] = {
        {0, "failed.response.alert_certificate_required", "failed.verify"},
        {1, "failed.response.alert_unknown_ca", "failed.verify"},
        {2, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct pqs_server *s = start_tls(NULL, true);
        SPEC spec = {0};
        RESULT r = {0};
        tls_spec(&spec, s, NULL);
        const struct pqs_certificate_files *own = cases[i].mode == 1 ? &pair.other : &pair.server;
        if (cases[i].mode) {
            pqs_spec_set_bytes(&spec, "client_cert", own->leaf.data, own->leaf.len);
            pqs_spec_set_bytes(&spec, "client_key", own->leaf_key.data, own->leaf_key.len);
        }
        run_window(&spec, &pqs_engine_tls, &r);
        stop_server(s, &r);
        assert_count(&r, "completed", cases[i].client_class ? 0 : 20);
        if (cases[i].client_class) {
            assert_count(&r, cases[i].client_class, 20);
            assert_int_equal(pqs_result_get(&r, PQS_SERVER, "failed", -1), 20);
            assert_int_equal(pqs_result_get(&r, PQS_SERVER, cases[i].server_class, -1), 20);
            assert_int_equal(pqs_result_get(&r, PQS_SERVER, "completed", -1), 0);
        } else {
            check_reconciles(&r);
        }
    }
}

/* F11, F28: what fails in the handshake, by name on both sides, and in words in a preflight. */
static void tls_handshake_failures(void **state) {
    static const struct {
        const char *server_groups, *client_groups, *servername;
        bool other_ca;
        const char *client_class, *server_class, *words;
    } cases[] = {
        {NULL, NULL, "localhost", true, "failed.tls.verify", "failed.alert_unknown_ca", "certificate"},
        {NULL, NULL, "elsewhere.example", false, "failed.tls.verify", "failed.alert_bad_certificate", "hostname mismatch"},
        {"X25519MLKEM768", "X25519", "localhost", false, "failed.tls.alert_handshake_failure", "failed.protocol", "groups"},
    };
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct pqs_server *s = start_tls(cases[i].server_groups, false);
        struct pqs_generator *g = NULL;
        struct pqs_err err = {0};
        SPEC spec = {0};
        RESULT r = {0}, first = {0};
        tls_spec(&spec, s, cases[i].client_groups);
        pqs_spec_set(&spec, "servername", cases[i].servername);
        if (cases[i].other_ca)
            pqs_spec_set_bytes(&spec, "ca", pair.other.ca.data, pair.other.ca.len);
        run_window(&spec, &pqs_engine_tls, &r);
        assert_int_equal(pqs_generator_new(&spec, &pqs_engine_tls, &g, &err), 0);
        assert_int_equal(pqs_generator_run(g, PQS_STAGE_PREFLIGHT, NULL, NULL, &first, &err), PQS_E_FAILED);
        pqs_generator_free(g);
        if (!strcasestr(err.msg, cases[i].words))
            fail_msg("the preflight does not say '%s': %s", cases[i].words, err.msg);
        stop_server(s, &r);
        assert_count(&r, cases[i].client_class, 20);
        assert_count(&r, "completed", 0);
        assert_null(pqs_result_hist_of(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST));
        assert_int_equal(pqs_result_get(&r, PQS_SERVER, cases[i].server_class, -1), 21);
        assert_int_equal(pqs_result_get(&r, PQS_SERVER, "failed", -1), 21);
    }
}

/* A server that does not speak TLS, and one that hangs up in the middle of it. */
static void tls_against_others(void **state) {
    static const struct {
        const char *answer;
        enum goodbye goodbye;
        const char *class;
        size_t bytes;
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", CLOSE, "failed.tls.protocol", 0},
        {"", CLOSE, "failed.tls.eof", 0},
        {"\x16\x03\x03\x01", CLOSE, "failed.tls.eof", 0},
        {"\x15\x03\x03", CLOSE, "failed.tls.eof", 0},
        {"", RESET, "failed.tls.reset", 0},
        {NULL, KEEP, "failed.tls.timeout", 0},
        {"\x15\x03\x03\0\x02\x01\0", CLOSE, "failed.tls.eof", 7}, /* close_notify */
        {"\x15\x03\x03\0\x02\x02\x28", CLOSE, "failed.tls.alert_handshake_failure", 7},
        {"\x15\x03\x03\0\x02\x02\x70", CLOSE, "failed.tls.alert_unrecognized_name", 7},
    };
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct fake *f = fake_start((struct behaviour){
            .answer = cases[i].answer, .answer_bytes = cases[i].bytes, .not_http = true, .goodbye = cases[i].goodbye});
        SPEC spec = {0};
        RESULT r = {0};
        make_spec(&spec, f->port, 100, 50 * MS, 1);
        pqs_spec_set(&spec, "insecure", "yes");
        spec.schedule.timeout_ns = 300 * MS;
        run_window(&spec, &pqs_engine_tls, &r);
        fake_stop(f);
        assert_count(&r, cases[i].class, 5);
    }
}

static void tls_engine_errors(void **state) {
    static const struct {
        const char *name, *value, *says;
        int code;
    } bad[] = {
        {"ca", NULL, "without a CA", PQS_E_USAGE},
        {"ca", "not PEM", "CA", PQS_E_FAILED},
        {"groups", "X25519:NoSuchGroup", "'X25519:NoSuchGroup'", PQS_E_FAILED},
        {"groups", "?bogus", "'?bogus'", PQS_E_FAILED},
        {"groups", "", "''", PQS_E_FAILED},
        {"sigalgs", "nonsense", "'nonsense'", PQS_E_FAILED},
        {"client_cert", "not PEM", "certificate", PQS_E_FAILED},
        {"expect_status", "abc", "abc", PQS_E_USAGE},
    };
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(bad); i++) {
        SPEC spec = {0};
        struct pqs_generator *g = NULL;
        struct pqs_err err = {0};
        make_spec(&spec, 1, 100, 100 * MS, 1);
        pqs_spec_set_bytes(&spec, "ca", pair.server.ca.data, pair.server.ca.len);
        pqs_spec_set(&spec, bad[i].name, bad[i].value);
        int rc = pqs_generator_new(&spec, &pqs_engine_tls, &g, &err);
        if (rc != bad[i].code || !strstr(err.msg, bad[i].says))
            fail_msg("%s = %s: %d '%s'", bad[i].name, bad[i].value ? bad[i].value : "(none)", rc, err.msg);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrivals_constant),
        cmocka_unit_test(arrivals_poisson_golden),
        cmocka_unit_test(arrivals_poisson_moments),
        cmocka_unit_test(arrivals_reproducible),
        cmocka_unit_test(arrivals_errors),
        cmocka_unit_test(target_resolves),
        cmocka_unit_test(target_errors),
        cmocka_unit_test(target_source_ports),
        cmocka_unit_test(target_descriptors),
        cmocka_unit_test(http_client_request),
        cmocka_unit_test(generator_errors),
        cmocka_unit_test(null_reconciles),
        cmocka_unit_test(null_closes_with_reset),
        cmocka_unit_test(null_threads_share_a_schedule),
        cmocka_unit_test(null_stages),
        cmocka_unit_test(null_uses_all_addresses),
        cmocka_unit_test(null_ipv6),
        cmocka_unit_test(null_failure_classes),
        cmocka_unit_test(null_other_answers),
        cmocka_unit_test(null_half_are_reset),
        cmocka_unit_test(null_half_are_reset_half_complete),
        cmocka_unit_test(null_refused),
        cmocka_unit_test(null_max_inflight),
        cmocka_unit_test(null_hopeless_is_cut_short),
        cmocka_unit_test(null_out_of_descriptors),
        cmocka_unit_test(null_injected_delay),
        cmocka_unit_test(null_stall_is_not_omitted),
        cmocka_unit_test(tls_reconciles),
        cmocka_unit_test(tls_bodies),
        cmocka_unit_test(tls_retries_are_a_class),
        cmocka_unit_test(tls_client_certificates),
        cmocka_unit_test(tls_handshake_failures),
        cmocka_unit_test(tls_against_others),
        cmocka_unit_test(tls_engine_errors),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, make_certificates, release_certificates);
}
