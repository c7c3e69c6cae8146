/* pqshake serve: the TLS 1.3 target server by itself, for a second machine or a foreign client. */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "channel/failure.h"
#include "cmd.h"
#include "run/certificate.h"
#include "run/interrupt.h"
#include "run/worker.h"

#define READY_TIMEOUT_NS (60 * PQS_NS_PER_S)
#define STOP_MARGIN_NS (10 * PQS_NS_PER_S)
#define MAX_CERTIFICATES 2 /* of different key types: the client's signature algorithms choose (docs/WORKERS.md) */

struct serve {
    const char *listen, *cert, *cert_file, *key_file, *ca_out, *san;
    const char *groups, *sigalgs, *verify_client, *engine;
    const char *server_via, *server_worker, *stack;
    uint64_t threads, backlog;
    int64_t timeout_ns;
};

static const char *const engines[] = {"tls", "null", NULL};

#define ROW(field_, ...)                                                                                                    \
    { .offset = offsetof(struct serve, field_), __VA_ARGS__ }
static const struct pqs_opt options[] = {
    ROW(listen, .name = "listen", .arg = "HOST:PORT", .type = PQS_OPT_STRING, .def = "127.0.0.1:8443",
        .help = "address to listen on; 0.0.0.0:8443 or [::]:8443 is every interface, port 0 any free one"),
    ROW(cert, .name = "cert", .arg = "KIND", .type = PQS_OPT_STRING,
        .help = "makes a CA and a certificate of this kind; two kinds, separated by a comma, let the client choose "
                "(default ecdsa-p256)"),
    ROW(san, .name = "san", .arg = "LIST", .type = PQS_OPT_STRING,
        .help = "names in that certificate, e.g. DNS:www.example,IP:192.0.2.7 (default localhost and its addresses)"),
    ROW(ca_out, .name = "ca-out", .arg = "FILE", .type = PQS_OPT_STRING,
        .help = "where to write the CA that --cert was issued by (default pqshake-ca-PORT.pem)"),
    ROW(cert_file, .name = "cert-file", .arg = "FILE", .type = PQS_OPT_STRING,
        .help = "PEM chain to use instead, leaf first; two files separated by a comma"),
    ROW(key_file, .name = "key-file", .arg = "FILE", .type = PQS_OPT_STRING, .help = "PEM key or keys of --cert-file"),
    ROW(groups, .name = "groups", .arg = "LIST", .type = PQS_OPT_STRING,
        .help = "key-exchange groups accepted, in order of preference, in OpenSSL's syntax (default: the library's)"),
    ROW(sigalgs, .name = "sigalgs", .arg = "LIST", .type = PQS_OPT_STRING,
        .help = "signature algorithms accepted (default: the library's)"),
    ROW(verify_client, .name = "verify-client", .arg = "CA", .type = PQS_OPT_STRING,
        .help = "PEM file: clients must present a certificate that this CA issued"),
    ROW(threads, .name = "threads", .arg = "N", .type = PQS_OPT_U64, .def = "1", .min = 1, .max = PQS_MAX_THREADS,
        .help = "threads, each with a listener of its own"),
    ROW(backlog, .name = "backlog", .arg = "N", .type = PQS_OPT_U64, .def = "4096", .min = 1, .max = 65535,
        .help = "connections that may wait to be accepted"),
    ROW(timeout_ns, .name = "timeout", .arg = "TIME", .type = PQS_OPT_DURATION, .def = "10s", .min = 1e6, .max = 3600e9,
        .help = "how long a handshake or a request may take"),
    ROW(engine, .name = "engine", .arg = "NAME", .type = PQS_OPT_CHOICE, .def = "tls", .choices = engines,
        .help = "null: plain HTTP without TLS"),
    ROW(server_via, .name = "server-via", .arg = "CMD", .type = PQS_OPT_STRING,
        .help = "command that the server worker is started through, e.g. 'ssh host' or 'ip netns exec s'; split into words "
                "like a shell does, and run without one"),
    ROW(server_worker, .name = "server-worker", .arg = "PATH", .type = PQS_OPT_STRING,
        .help = "path of the server's worker there (default: the same as here)"),
    ROW(stack, .name = "server-stack", .arg = "NAME", .type = PQS_OPT_CHOICE, .def = "openssl", .choices = pqs_stacks,
        .help = "TLS library that serves"),
    {.name = NULL},
};

static void set_pair(struct pqs_spec *spec, size_t i, const struct pqs_buf *cert, const struct pqs_buf *key) {
    pqs_spec_set_bytes(spec, i == 0 ? "cert" : "cert.2", cert->data, cert->len);
    pqs_spec_set_bytes(spec, i == 0 ? "key" : "key.2", key->data, key->len);
}

static int read_pairs(const struct serve *o, struct pqs_spec *spec, struct pqs_err *err) {
    char **certs = NULL, **keys = NULL;
    size_t n_certs = 0, n_keys = 0;
    int rc = pqs_split_list("--cert-file", o->cert_file, MAX_CERTIFICATES, &certs, &n_certs, err);
    if (rc == 0)
        rc = pqs_split_list("--key-file", o->key_file, MAX_CERTIFICATES, &keys, &n_keys, err);
    if (rc == 0 && n_certs != n_keys)
        rc = pqs_fail(err, PQS_E_USAGE, "--cert-file names %zu files and --key-file %zu: each chain needs its key", n_certs,
                      n_keys);
    for (size_t i = 0; i < n_certs && rc == 0; i++) {
        PQS_BUF cert = {0}, key = {0};
        rc = pqs_read_option_file("cert-file", certs[i], &cert, err);
        if (rc == 0)
            rc = pqs_read_option_file("key-file", keys[i], &key, err);
        if (rc == 0)
            set_pair(spec, i, &cert, &key);
    }
    pqs_free_list(certs, n_certs);
    pqs_free_list(keys, n_keys);
    return rc;
}

static int make_pairs(const struct serve *o, struct pqs_spec *spec, struct pqs_buf *ret_cas, struct pqs_err *err) {
    char **kinds = NULL;
    size_t n = 0;
    const char *asked = o->cert ? o->cert : "ecdsa-p256";
    int rc = pqs_split_list("--cert", asked, MAX_CERTIFICATES, &kinds, &n, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        PQS_PEM pem = {0};
        rc = pqs_order_certificate(&(struct pqs_order){.kind = kinds[i], .san = o->san}, &pem, err);
        if (rc)
            break;
        set_pair(spec, i, &pem.cert, &pem.key);
        pqs_buf_add(ret_cas, pem.ca.data, pem.ca.len);
    }
    pqs_spec_set(spec, "cert_kind", asked);
    pqs_free_list(kinds, n);
    return rc;
}

/* ret_cas: the CAs of certificates made here, PEM. */
static int make_spec(const struct serve *o, struct pqs_spec *spec, struct pqs_buf *ret_cas, struct pqs_err *err) {
    char host[256], port[8], number[32];
    if (o->cert && o->cert_file)
        return pqs_fail(err, PQS_E_USAGE, "--cert makes a certificate and --cert-file brings one: choose one of them");
    if (!o->cert_file != !o->key_file)
        return pqs_fail(err, PQS_E_USAGE, "--cert-file and --key-file go together");
    if (o->san && o->cert_file)
        return pqs_fail(err, PQS_E_USAGE, "--san is for a certificate made here, but --cert-file brings one");
    int rc = pqs_parse_address("--listen", o->listen, host, port, err);
    if (rc)
        return rc;
    spec->schedule.threads = (uint32_t)o->threads;
    pqs_spec_set(spec, "host", host);
    pqs_spec_set(spec, "port", port);
    snprintf(number, sizeof number, "%" PRIu64, o->backlog);
    pqs_spec_set(spec, "backlog", number);
    snprintf(number, sizeof number, "%" PRId64, o->timeout_ns);
    pqs_spec_set(spec, "timeout_ns", number);
    pqs_spec_set(spec, "engine", o->engine);
    if (strcmp(o->engine, "null") == 0)
        return 0;
    pqs_spec_set(spec, "groups", o->groups);
    pqs_spec_set(spec, "sigalgs", o->sigalgs);
    if (o->verify_client) {
        PQS_BUF ca = {0};
        rc = pqs_read_option_file("verify-client", o->verify_client, &ca, err);
        if (rc)
            return rc;
        pqs_spec_set_bytes(spec, "verify_client", ca.data, ca.len);
    }
    return o->cert_file ? read_pairs(o, spec, err) : make_pairs(o, spec, ret_cas, err);
}

static void print_ready(const struct serve *o, const struct pqs_result *ready, const char *ca_file) {
    const char *host = pqs_result_fact_of(ready, PQS_SERVER, "host", NULL);
    const char *port = pqs_result_fact_of(ready, PQS_SERVER, "port", NULL);
    const char *groups = pqs_result_fact_of(ready, PQS_SERVER, "server_groups", NULL);
    bool v6 = host && strchr(host, ':');
    printf("listening on %s%s%s:%s\n", v6 ? "[" : "", host ? host : "?", v6 ? "]" : "", port ? port : "?");
    if (groups && strcmp(o->engine, "tls") == 0)
        printf("groups: %s\n", groups);
    if (!o->cert_file && strcmp(o->engine, "tls") == 0)
        printf("CA certificate: %s\n", ca_file);
    fflush(stdout);
}

static void print_counters(const struct pqs_result *r) {
    static const char *const names[] = {"accepted",  "completed",      "failed",          "bytes_in",
                                        "bytes_out", "accept_backoff", "listen_overflows"};
    for (size_t i = 0; i < PQS_COUNT(names); i++)
        printf("%-15s %" PRId64 "\n", names[i], pqs_result_get(r, PQS_SERVER, names[i], 0));
    printf("%-15s %.3f s\n", "cpu", (double)pqs_result_get(r, PQS_SERVER, "cpu_ns", 0) / (double)PQS_NS_PER_S);
    for (size_t i = 0; i < r->n_counters; i++) {
        const struct pqs_counter *c = &r->counters[i];
        if (strncmp(c->name, "failed.", 7) == 0 && c->value > 0)
            printf("%-40s %" PRId64 "  %s\n", c->name, c->value, pqs_failure_text(pqs_failure_find(c->name + 7)));
    }
    for (size_t i = 0; i < r->n_facts; i++)
        if (strcmp(r->facts[i].name, "group") == 0) /* of finished handshakes */
            printf("group.%-34s %" PRIu64 "\n", r->facts[i].value, r->facts[i].n);
}

/* Until a signal comes; a worker that ends before is an error. */
static int serve(struct pqs_worker *w, const struct serve *o, struct pqs_err *err) {
    int rc = pqs_worker_wait(w, PQS_MSG_DONE, INT64_MAX, NULL, NULL, err);
    if (rc == 0)
        return pqs_fail(err, PQS_E_FAILED, "the server worker stopped by itself");
    if (err->sys != EINTR)
        return rc;
    pqs_interrupt_reset(); /* a second signal cuts the drain short */
    struct pqs_result counters = {0};
    rc = pqs_worker_ask(w, PQS_MSG_STOP, NULL, PQS_MSG_DONE, o->timeout_ns + STOP_MARGIN_NS, NULL, &counters, err);
    if (rc == 0)
        print_counters(&counters);
    pqs_result_release(&counters);
    return rc;
}

static int run(const struct pqs_call *call, struct pqs_err *err) {
    const struct serve *o = call->options;
    struct pqs_spec spec = {0};
    struct pqs_result ready = {0};
    PQS_VIA via = {0};
    PQS_BUF cas = {0};
    PQS_WORKER w = {0};
    pqs_interrupt_catch();
    int rc = pqs_via_init("--server-via", o->server_via, o->server_worker, &via, err);
    if (rc == 0)
        rc = make_spec(o, &spec, &cas, err);
    if (rc == 0)
        rc = pqs_worker_start_via(&via, o->stack, "server", &w, err);
    if (rc == 0)
        rc = pqs_worker_ask(&w, PQS_MSG_CONFIGURE, &spec, PQS_MSG_READY, READY_TIMEOUT_NS, NULL, &ready, err);
    const char *port = pqs_result_fact_of(&ready, PQS_SERVER, "port", NULL);
    PQS_FREE char *ca_file = o->ca_out ? pqs_strdup(o->ca_out) : pqs_format("pqshake-ca-%s.pem", port ? port : "");
    if (rc == 0 && cas.len > 0) /* only now that the port is ours: the file may be that of the server that has it */
        rc = pqs_write_file(ca_file, 0644, cas.data, cas.len, err);
    if (rc == 0) {
        print_ready(o, &ready, ca_file);
        rc = serve(&w, o, err);
    }
    pqs_spec_release(&spec);
    pqs_result_release(&ready);
    return rc;
}

const struct pqs_command pqs_command_serve = {
    .name = "serve",
    .summary = "run the TLS 1.3 target server, for a second machine or a foreign client",
    .arguments = "",
    .about = "Serves GET / (3 bytes) and GET /bytes/N over TLS 1.3 until SIGINT or SIGTERM, then lets open\n"
             "connections finish and prints its counters. Makes its own certificate and tells where the CA is,\n"
             "unless --cert-file brings one. Listens on the loopback interface unless --listen says otherwise.",
    .example = "pqshake serve --listen 0.0.0.0:8443 --san DNS:www.example --cert ML-DSA-65",
    .options = options,
    .options_size = sizeof(struct serve),
    .run = run,
};
