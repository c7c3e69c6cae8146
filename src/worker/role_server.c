/* Role server: the target under the coordinator's command. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "role.h"
#include "tls/server.h"

#define SETTLE_NS (2 * PQS_NS_PER_S) /* how long MARK waits for open connections to end */
#define DRAIN_NS (5 * PQS_NS_PER_S)  /* how long STOP lets them go on */

static const char *const params[] = {"engine",  "host",          "port",    "ports",      "cert",
                                     "key",     "cert.2",        "key.2",   "groups",     "cert_kind",
                                     "sigalgs", "verify_client", "backlog", "timeout_ns", NULL};

static int start(const struct pqs_spec *spec, struct pqs_server **ret_s, unsigned *ret_ports, struct pqs_err *err) {
    uint64_t port, ports, backlog, timeout_ns;
    const char *engine = pqs_spec_get(spec, "engine");
    const char *host = pqs_spec_get(spec, "host");
    int rc = pqs_param_number(spec, "port", 0, 65535, 0, &port, err);
    if (rc == 0)
        rc = pqs_param_number(spec, "ports", 1, PQS_SERVER_PORTS_MAX, 1, &ports, err);
    if (rc == 0)
        rc = pqs_param_number(spec, "backlog", 1, 65535, 4096, &backlog, err);
    if (rc == 0)
        rc = pqs_param_number(spec, "timeout_ns", 1000000, (uint64_t)INT64_MAX / 4, 10u * (uint64_t)PQS_NS_PER_S,
                              &timeout_ns, err);
    if (rc)
        return rc;
    struct pqs_server_options o = {
        .tls =
            {
                .groups = pqs_spec_get(spec, "groups"),
                .sigalgs = pqs_spec_get(spec, "sigalgs"),
                .cert = {pqs_spec_get_bytes(spec, "cert"), pqs_spec_get_bytes(spec, "cert.2")},
                .key = {pqs_spec_get_bytes(spec, "key"), pqs_spec_get_bytes(spec, "key.2")},
                .ca = pqs_spec_get_bytes(spec, "verify_client"),
                .verify = pqs_spec_get_bytes(spec, "verify_client") != NULL,
            },
        .plain = engine && strcmp(engine, "null") == 0,
        .host = host ? host : "127.0.0.1",
        .port = (uint16_t)port,
        .n_ports = (unsigned)ports,
        .threads = spec->schedule.threads,
        .backlog = (int)backlog,
        .timeout_ns = (int64_t)timeout_ns,
    };
    *ret_ports = (unsigned)ports;
    return pqs_server_start(&o, ret_s, err);
}

static int send_ready(struct pqs_channel *channel, const struct pqs_spec *spec, const struct pqs_server *s, unsigned n_ports,
                      struct pqs_err *err) {
    struct pqs_result r = {0};
    const char *host = pqs_spec_get(spec, "host");
    const char *groups = pqs_spec_get(spec, "groups");
    const char *sigalgs = pqs_spec_get(spec, "sigalgs");
    const char *kind = pqs_spec_get(spec, "cert_kind");
    for (unsigned i = 0; i < n_ports; i++) {
        char port[8];
        snprintf(port, sizeof port, "%u", pqs_server_port(s, i));
        pqs_result_fact(&r, PQS_SERVER, "port", port, 1);
    }
    pqs_result_fact(&r, PQS_SERVER, "host", host ? host : "127.0.0.1", 1);
    pqs_result_fact(&r, PQS_SERVER, "server_groups", groups ? groups : "(library default)", 1);
    pqs_result_fact(&r, PQS_SERVER, "server_sigalgs", sigalgs ? sigalgs : "(library default)", 1);
    if (kind)
        pqs_result_fact(&r, PQS_SERVER, "certificate.kind", kind, 1);
    pqs_worker_facts(PQS_SERVER, spec, &r);
    int rc = pqs_channel_send_result(channel, PQS_MSG_READY, &r, err);
    pqs_result_release(&r);
    return rc;
}

static int send_counters(struct pqs_channel *channel, const struct pqs_server *s, bool facts, struct pqs_err *err) {
    struct pqs_result r = {0};
    pqs_server_counters(s, &r);
    if (facts) {
        pqs_server_facts(s, &r);
        pqs_worker_facts_after(PQS_SERVER, &r);
        pqs_result_count(&r, PQS_SERVER, "memory_peak_bytes", pqs_memory_peak_bytes());
    }
    int rc = pqs_channel_send_result(channel, PQS_MSG_DONE, &r, err);
    pqs_result_release(&r);
    return rc;
}

/* The client has closed its last connection already; the server may not have noticed yet. */
static void settle(const struct pqs_server *s) {
    int64_t give_up = pqs_now_ns() + SETTLE_NS;
    while (pqs_server_open(s) > 0 && pqs_now_ns() < give_up)
        usleep(1000);
}

/* Until STOP, SIGTERM or the end of the channel. *ret_close: whether the coordinator still listens. */
static int serve(struct pqs_channel *channel, struct pqs_server *s, int signals, bool *ret_listening, struct pqs_err *err) {
    for (;;) {
        struct pollfd fds[2] = {{.fd = channel->in_fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot wait for commands");
        if (fds[1].revents)
            return 0;
        if (!fds[0].revents)
            continue;
        enum pqs_message type;
        int rc = pqs_worker_next(channel, &type, err);
        if (rc <= 0) {
            *ret_listening = false;
            return rc;
        }
        if (type == PQS_MSG_STOP)
            return 0;
        if (type != PQS_MSG_MARK)
            return pqs_fail(err, PQS_E_FAILED, "role server does not take the message %s", pqs_message_name(type));
        settle(s);
        if ((rc = send_counters(channel, s, false, err)))
            return rc;
    }
}

static int run_server(struct pqs_channel *channel, const struct pqs_spec *spec, struct pqs_err *err) {
    struct pqs_server *s = NULL;
    unsigned n_ports;
    bool listening = true;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* before threads start: they inherit it */
    PQS_CLOSE int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0)
        return pqs_fail_sys(err, PQS_E_ENV, errno, "cannot make a signal descriptor");
    int rc = start(spec, &s, &n_ports, err);
    if (rc)
        return rc;
    rc = send_ready(channel, spec, s, n_ports, err);
    if (rc == 0)
        rc = serve(channel, s, signals, &listening, err);
    pqs_server_stop(s, listening && rc == 0 ? DRAIN_NS : 0);
    if (rc == 0 && listening)
        rc = send_counters(channel, s, true, err);
    pqs_server_free(s);
    return rc;
}

const struct pqs_role pqs_role_server = {"server", params, run_server};
