/* See target.h. */
#include "load/target.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

static void set_port(struct sockaddr_storage *a, uint16_t port) {
    if (a->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)a)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)a)->sin_port = htons(port);
}

static bool same_address(const struct sockaddr *a, const struct sockaddr_storage *b) {
    if (a->sa_family != b->ss_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                                              &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool in_127(const struct sockaddr_storage *a) {
    return a->ss_family == AF_INET && (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
}

/* What net.ipv4.tcp_tw_reuse=2 means by loopback. */
static bool in_loopback_net(const struct sockaddr_storage *a) {
    return in_127(a) || (a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr));
}

static bool on_this_machine(const struct sockaddr_storage *a) {
    if (in_127(a))
        return true;
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return false;
    bool found = false;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = i->ifa_addr && same_address(i->ifa_addr, a);
    freeifaddrs(all);
    return found;
}

void pqs_target_use(struct pqs_target *t, unsigned which) {
    const struct sockaddr_storage *address = &t->addresses[which];
    t->to_len = t->address_len[which];
    for (unsigned i = 0; i < t->n_to; i++) {
        t->to[i] = *address;
        set_port(&t->to[i], t->ports[i]);
    }
    t->loopback = on_this_machine(address);
    t->n_from = in_127(address) ? PQS_TARGET_SOURCES : 0;
    t->from_len = sizeof(struct sockaddr_in);
    for (unsigned i = 0; i < t->n_from; i++)
        *(struct sockaddr_in *)&t->from[i] =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f010001u + i)};
}

int pqs_target_resolve(const struct pqs_spec *spec, struct pqs_target *ret_t, struct pqs_err *err) {
    const char *host = pqs_spec_get(spec, "host");
    const char *ports = pqs_spec_get(spec, "ports");
    if (!host || !ports)
        return pqs_fail(err, PQS_E_USAGE, "a client needs the parameters host and ports");
    struct pqs_target t = {0};
    const char *p = ports;
    do {
        char *end;
        unsigned long port = strtoul(p, &end, 10);
        if (*p < '0' || *p > '9' || (*end != ',' && *end != '\0') || port < 1 || port > 65535)
            return pqs_fail(err, PQS_E_USAGE, "'%s' is not a list of ports (1 to 65535)", ports);
        if (t.n_to == PQS_TARGET_PORTS_MAX)
            return pqs_fail(err, PQS_E_USAGE, "'%s' lists more than %d ports", ports, PQS_TARGET_PORTS_MAX);
        t.ports[t.n_to++] = (uint16_t)port;
        p = *end == ',' ? end + 1 : NULL;
    } while (p);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int rc = getaddrinfo(host, NULL, &hints, &found);
    if (rc != 0)
        return pqs_fail(err, PQS_E_FAILED, "cannot resolve '%s': %s", host, gai_strerror(rc));
    for (const struct addrinfo *a = found; a && t.n_addresses < PQS_TARGET_ADDRESSES_MAX; a = a->ai_next) {
        t.address_len[t.n_addresses] = a->ai_addrlen;
        memcpy(&t.addresses[t.n_addresses++], a->ai_addr, a->ai_addrlen);
    }
    freeaddrinfo(found);
    pqs_target_use(&t, 0);
    *ret_t = t;
    return 0;
}

/* The first number of a /proc/sys file, or if_missing. */
static long sysctl_number(const char *path, long if_missing, long *ret_second) {
    PQS_BUF text = {0};
    if (pqs_read_file(path, 4096, &text, NULL) != 0)
        return if_missing;
    char *end;
    long first = strtol(pqs_buf_text(&text), &end, 10);
    if (ret_second)
        *ret_second = strtol(end, NULL, 10);
    return first;
}

#define TIME_WAIT_S 60 /* TCP_TIMEWAIT_LEN */

int pqs_target_check_ports(struct pqs_target *t, const struct pqs_schedule *s, int64_t run_ns, bool closes_with_rst,
                           struct pqs_err *err) {
    if (closes_with_rst) { /* nothing is held */
        t->n_from = 0;
        return 0;
    }
    long high = 60999;
    long low = sysctl_number("/proc/sys/net/ipv4/ip_local_port_range", 32768, &high);
    long reuse = sysctl_number("/proc/sys/net/ipv4/tcp_tw_reuse", 0, NULL);
    bool timestamps = sysctl_number("/proc/sys/net/ipv4/tcp_timestamps", 0, NULL) != 0;
    bool reused = timestamps && (reuse == 1 || (reuse == 2 && in_loopback_net(&t->to[0])));
    double run_s = (double)run_ns / (double)PQS_NS_PER_S;
    double range = (double)(high - low + 1) * t->n_to;
    /* A quarter of the range finds its ports at once; in a fuller one the kernel searches, and its search would be measured.
     */
    if (s->rate_per_s * (run_s < TIME_WAIT_S ? run_s : TIME_WAIT_S) <= range / 4)
        t->n_from = 0;
    double ports = range * (t->n_from ? t->n_from : 1);
    double held_s = reused ? 1 : TIME_WAIT_S; /* tcp_tw_reuse waits for the timestamp clock, 1 s */
    double needed = s->rate_per_s * (run_s < held_s ? run_s : held_s);
    if (needed <= ports)
        return 0;
    return pqs_fail(
        err, PQS_E_ENV,
        "this machine's %.0f source ports last %.1f s at %g connections/s (closed ones are held for %.0f s), but the "
        "target is loaded for %.1f s; lower --rate or --duration, use --close rst, widen net.ipv4.ip_local_port_range or "
        "set net.ipv4.tcp_tw_reuse=1",
        ports, ports / s->rate_per_s, s->rate_per_s, held_s, run_s);
}

int pqs_target_max_inflight(uint32_t asked, uint32_t *ret_max, struct pqs_err *err) {
    const unsigned reserve = 32; /* epoll, the channel, libraries */
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return pqs_fail(err, PQS_E_ENV, "cannot read the descriptor limit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return pqs_fail(err, PQS_E_ENV, "cannot read the descriptor limit");
    uint64_t descriptors = limit.rlim_cur == RLIM_INFINITY ? 1u << 20 : limit.rlim_cur;
    if (asked == 0)
        *ret_max = (uint32_t)(descriptors / 2 < 4096 ? descriptors / 2 : 4096);
    else if ((uint64_t)asked + reserve > descriptors)
        return pqs_fail(
            err, PQS_E_ENV,
            "--max-inflight %u needs %llu descriptors, but this process may have %llu; raise the limit (ulimit -n) or "
            "lower --max-inflight",
            asked, (unsigned long long)asked + reserve, (unsigned long long)descriptors);
    else
        *ret_max = asked;
    return 0;
}
