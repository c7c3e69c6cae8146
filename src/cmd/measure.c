/* From options to a plan, through the runner, to a printed report. Must not know how a factor is applied (run/tls.h) nor how
 * figures are computed (report). */
#include "measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "live.h"
#include "render.h"
#include "run/run.h"
#include "run/tls.h"

const char *const pqs_measure_arrivals[] = {"constant", "poisson", NULL};
const char *const pqs_measure_close[] = {"fin", "rst", NULL};
const char *const pqs_measure_engines[] = {"tls", "null", NULL};

/* IPv4 loopback has many source addresses; from one, several server ports keep connections from running out of source ports.
 */
#define MANY_PORTS "16"

struct measurement {
    const struct pqs_call *call;
    const struct pqs_measure *o;
    bool null_engine;
    struct pqs_plan plan;
    struct pqs_tls_setup setup;
    struct pqs_tls_level *levels; /* one per level of factor cert: setup's */
    char **groups, **certs, **sigalgs, **client_stacks, **server_stacks;
    size_t n_groups, n_certs, n_sigalgs, n_client_stacks, n_server_stacks;
    struct pqs_via client_via, server_via;
    char *out_dir;
};

static void release(struct measurement *m) {
    for (size_t i = 0; i < m->n_certs && m->levels; i++)
        pqs_pem_release(&m->levels[i].pem);
    free(m->levels);
    pqs_spec_release(&m->setup.client);
    pqs_spec_release(&m->setup.server);
    pqs_plan_release(&m->plan);
    pqs_free_list(m->groups, m->n_groups);
    pqs_free_list(m->certs, m->n_certs);
    pqs_free_list(m->sigalgs, m->n_sigalgs);
    pqs_free_list(m->client_stacks, m->n_client_stacks);
    pqs_free_list(m->server_stacks, m->n_server_stacks);
    pqs_via_release(&m->client_via);
    pqs_via_release(&m->server_via);
    free(m->out_dir);
}

/* Options that say something only with a target, or only without one. */
static int check_sides(const struct pqs_measure *o, struct pqs_err *err) {
    const struct {
        const char *name;
        bool given, needs_target;
    } rows[] = {
        {"ca", o->ca != NULL, true},
        {"servername", o->servername != NULL, true},
        {"client-cert", o->client_cert != NULL, true},
        {"client-key", o->client_key != NULL, true},
        {"path", o->path != NULL, true},
        {"target-pid", o->target_pid != 0, true},
        {"cert", o->cert != NULL, false},
        {"server-groups", o->server_groups != NULL, false},
        {"server-stack", o->server_stack != NULL, false},
        {"server-threads", o->server_threads != 0, false},
        {"ipv6", o->ipv6, false},
        {"server-via", o->server_via != NULL, false},
        {"server-worker", o->server_worker != NULL, false},
        {"server-host", o->server_host != NULL, false},
    };
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        if (rows[i].given && rows[i].needs_target && !o->target)
            return pqs_fail(err, PQS_E_USAGE,
                            "--%s goes with --target: without it, pqshake starts its own server with its own CA",
                            rows[i].name);
        if (rows[i].given && !rows[i].needs_target && o->target)
            return pqs_fail(err, PQS_E_USAGE, "--%s is about pqshake's own server, but --target %s names another one",
                            rows[i].name, o->target);
    }
    return 0;
}

/* Where the workers run, and the address between them. */
static int make_places(struct measurement *m, struct pqs_err *err) {
    const struct pqs_measure *o = m->o;
    struct in6_addr address;
    if (o->server_host && o->ipv6)
        return pqs_fail(err, PQS_E_USAGE, "--ipv6 stands for --server-host ::1: choose one of them");
    /* A name may be another address on either side, and every address is none to connect to. */
    if (o->server_host &&
        ((inet_pton(AF_INET, o->server_host, &address) != 1 && inet_pton(AF_INET6, o->server_host, &address) != 1) ||
         strspn(o->server_host, "0.:") == strlen(o->server_host)))
        return pqs_fail(err, PQS_E_USAGE,
                        "--server-host \"%s\" is not an IP address of the server's machine, such as 10.0.0.7 or fd00::7",
                        o->server_host);
    int rc = pqs_via_init("--client-via", o->client_via, o->client_worker, &m->client_via, err);
    return rc ? rc : pqs_via_init("--server-via", o->server_via, o->server_worker, &m->server_via, err);
}

static int check_options(const struct measurement *m, struct pqs_err *err) {
    const struct pqs_measure *o = m->o;
    int rc = check_sides(o, err);
    if (rc)
        return rc;
    if (m->null_engine &&
        (o->groups || o->cert || o->sigalgs || o->ca || o->insecure || o->client_cert || o->server_groups) &&
        !(o->groups && strcasecmp(o->groups, PQS_TLS_DEFAULT) == 0))
        return pqs_fail(err, PQS_E_USAGE,
                        "--engine null has no TLS: groups, certificates, signatures and CAs do not go with it");
    if (o->target && !o->ca && !o->insecure && !m->null_engine)
        return pqs_fail(err, PQS_E_USAGE,
                        "--target %s needs --ca FILE, the CA that its certificate is verified with (or --insecure, which is "
                        "marked on every output)",
                        o->target);
    if (o->ca && o->insecure)
        return pqs_fail(err, PQS_E_USAGE,
                        "--ca and --insecure exclude each other: one verifies the certificate, one does not");
    if (!o->client_cert != !o->client_key)
        return pqs_fail(err, PQS_E_USAGE, "--client-cert and --client-key go together");
    if (o->handshake_only && (o->path || o->header || o->bytes != 3 || o->expect != 200))
        return pqs_fail(err, PQS_E_USAGE,
                        "--handshake-only sends no request: --bytes, --path, --header and --expect mean nothing");
    for (const char *line = o->header; line && *line;) {
        size_t len = strcspn(line, "\n");
        const char *colon = memchr(line, ':', len);
        if (!colon || colon == line)
            return pqs_fail(err, PQS_E_USAGE, "--header \"%.*s\" is not \"Name: value\"", (int)len, line);
        line += len + (line[len] == '\n');
    }
    if (o->path && o->path[0] != '/')
        return pqs_fail(err, PQS_E_USAGE, "--path \"%s\": a path begins with /", o->path);
    for (const char *p = o->path; p && *p; p++)
        if (*p <= ' ' || *p == 0x7f)
            return pqs_fail(err, PQS_E_USAGE, "--path \"%s\": blanks and control characters must be percent-encoded",
                            o->path);
    if (o->header && strchr(o->header, '\r'))
        return pqs_fail(err, PQS_E_USAGE, "--header: lines are separated by a newline alone");
    if (o->max_inflight > 0 && o->max_inflight < o->threads)
        return pqs_fail(err, PQS_E_USAGE, "--max-inflight %llu is less than one connection for each of --threads %llu",
                        (unsigned long long)o->max_inflight, (unsigned long long)o->threads);
    return pqs_check_out("json", o->json, err);
}

/* A factor of the plan out of an option's list; what the list is split into is the measurement's. */
static int add_factor(const char *option, const char *text, struct pqs_factor factor, char ***items, size_t *n_items,
                      struct pqs_factor *factors, size_t *n, struct pqs_err *err) {
    int rc = text ? pqs_split_list(option, text, PQS_ARMS_MAX, items, n_items, err) : 0;
    if (rc || !text)
        return rc;
    factor.levels = (const char *const *)*items;
    factor.n_levels = *n_items;
    factors[(*n)++] = factor;
    return 0;
}

static int check_stacks(const char *option, char **stacks, size_t n, const char *worker, struct pqs_err *err) {
    for (size_t i = 0; i < n; i++) {
        int rc = pqs_check_stack(option, stacks[i], err);
        if (rc)
            return rc;
    }
    if (n > 1 && worker)
        return pqs_fail(err, PQS_E_USAGE, "%s names %zu stacks, but the path of the worker is that of one", option, n);
    return 0;
}

/* Completes the plan: stacks come last, so that what is compared within one stays together. factors has room for both. */
static int add_stacks(struct measurement *m, struct pqs_factor *factors, size_t n, struct pqs_err *err) {
    const struct pqs_measure *o = m->o;
    int rc = add_factor("--client-stack", o->client_stack,
                        (struct pqs_factor){.name = PQS_FACTOR_CLIENT_STACK, .label = "client"}, &m->client_stacks,
                        &m->n_client_stacks, factors, &n, err);
    if (rc == 0)
        rc = check_stacks("--client-stack", m->client_stacks, m->n_client_stacks, o->client_worker, err);
    if (rc == 0)
        rc = add_factor("--server-stack", o->server_stack,
                        (struct pqs_factor){.name = PQS_FACTOR_SERVER_STACK, .label = "server"}, &m->server_stacks,
                        &m->n_server_stacks, factors, &n, err);
    if (rc == 0)
        rc = check_stacks("--server-stack", m->server_stacks, m->n_server_stacks, o->server_worker, err);
    return rc ? rc : pqs_plan_cross(&m->plan, factors, n, o->aa, err);
}

static int make_arms(struct measurement *m, struct pqs_err *err) {
    const struct pqs_measure *o = m->o;
    struct pqs_factor factors[5];
    size_t n = 0;
    if (m->null_engine) {
        static const char *const null_level[] = {"null"};
        factors[n++] = (struct pqs_factor){.name = "engine", .levels = null_level, .n_levels = 1};
        return add_stacks(m, factors, n, err);
    }
    bool stacks = (o->client_stack && strchr(o->client_stack, ',')) || (o->server_stack && strchr(o->server_stack, ','));
    const char *groups = o->groups ? o->groups : stacks ? "X25519MLKEM768" : o->aa ? "X25519" : "X25519,X25519MLKEM768";
    int rc =
        add_factor("--groups", groups, (struct pqs_factor){.name = "groups"}, &m->groups, &m->n_groups, factors, &n, err);
    if (rc == 0 && !o->target)
        rc = add_factor("--cert", o->cert ? o->cert : "ecdsa-p256", (struct pqs_factor){.name = "cert"}, &m->certs,
                        &m->n_certs, factors, &n, err);
    if (rc == 0)
        rc = add_factor("--sigalgs", o->sigalgs, (struct pqs_factor){.name = "sigalgs"}, &m->sigalgs, &m->n_sigalgs, factors,
                        &n, err);
    return rc ? rc : add_stacks(m, factors, n, err);
}

static int make_plan(struct measurement *m, struct pqs_err *err) {
    const struct pqs_measure *o = m->o;
    uint32_t random = 0; /* 32 bits: short enough to type again */
    if (o->seed == 0 && getrandom(&random, sizeof random, 0) != sizeof random)
        return pqs_fail_sys(err, PQS_E_ENV, errno, "no random seed to be had");
    snprintf(m->plan.workload, sizeof m->plan.workload, "%s", pqs_workload_tls.name);
    m->plan.blocks = (uint32_t)o->blocks;
    m->plan.schedule = (struct pqs_schedule){
        .arrivals = strcmp(o->arrivals, "poisson") == 0 ? PQS_ARRIVALS_POISSON : PQS_ARRIVALS_CONSTANT,
        .rate_per_s = o->rate_per_s,
        .warmup_ns = o->warmup_ns,
        .duration_ns = o->duration_ns,
        .timeout_ns = o->timeout_ns,
        .seed = o->seed ? o->seed : random,
        .threads = (uint32_t)o->threads,
        .max_inflight = (uint32_t)o->max_inflight,
    };
    int rc = make_arms(m, err);
    return rc == 0 && o->baseline ? pqs_plan_set_baseline(&m->plan, o->baseline, err) : rc;
}

static int set_file(struct pqs_spec *spec, const char *name, const char *option, const char *path, struct pqs_err *err) {
    if (!path)
        return 0;
    PQS_BUF data = {0};
    int rc = pqs_read_option_file(option, path, &data, err);
    if (rc)
        return rc;
    pqs_spec_set_bytes(spec, name, data.data, data.len);
    return 0;
}

static void set_request(struct pqs_spec *client, const struct pqs_measure *o) {
    char text[64];
    pqs_spec_set(client, "close", o->close);
    if (o->handshake_only) {
        pqs_spec_set(client, "handshake_only", "yes");
        return;
    }
    snprintf(text, sizeof text, "/bytes/%" PRIu64, o->bytes);
    pqs_spec_set(client, "path", o->path ? o->path : o->bytes == 3 ? "/" : text);
    pqs_spec_set(client, "headers", o->header);
    snprintf(text, sizeof text, "%" PRIu64, o->expect);
    pqs_spec_set(client, "expect_status", text);
    /* What a foreign server answers to GET / is its own affair. */
    if (!o->path && (!o->target || o->bytes != 3)) {
        snprintf(text, sizeof text, "%" PRIu64, o->bytes);
        pqs_spec_set(client, "expect_bytes", text);
    }
}

static int set_target(struct measurement *m, struct pqs_err *err) {
    const struct pqs_measure *o = m->o;
    struct pqs_spec *client = &m->setup.client;
    char host[256], port[8], run_ns[32];
    int rc = pqs_parse_address("--target", o->target, host, port, err);
    if (rc)
        return rc;
    pqs_spec_set(client, "host", host);
    pqs_spec_set(client, "ports", port);
    pqs_spec_set(client, "servername", o->servername ? o->servername : host);
    snprintf(run_ns, sizeof run_ns, "%.0f",
             (double)(o->warmup_ns + o->duration_ns) * (double)m->plan.n_arms * (double)m->plan.blocks);
    pqs_spec_set(client, "run_ns", run_ns);
    rc = set_file(client, "ca", "ca", o->ca, err);
    if (rc == 0)
        rc = set_file(client, "client_cert", "client-cert", o->client_cert, err);
    return rc ? rc : set_file(client, "client_key", "client-key", o->client_key, err);
}

static void set_own_server(struct measurement *m) {
    const struct pqs_measure *o = m->o;
    struct pqs_spec *server = &m->setup.server;
    char timeout[32];
    PQS_BUF groups = {0};
    pqs_spec_set(&m->setup.client, "servername", "localhost");
    server->schedule.threads = o->server_threads ? (uint32_t)o->server_threads : 1;
    const char *host = o->server_host ? o->server_host : o->ipv6 ? "::1" : "127.0.0.1";
    pqs_spec_set(server, "host", host);
    pqs_spec_set(server, "port", "0");
    pqs_spec_set(server, "ports", strncmp(host, "127.", 4) == 0 ? "1" : MANY_PORTS);
    /* Longer than the client's: a connection that takes too long is the client's to give up. */
    snprintf(timeout, sizeof timeout, "%" PRId64, 2 * o->timeout_ns + PQS_NS_PER_S);
    pqs_spec_set(server, "timeout_ns", timeout);
    pqs_tls_server_groups(&m->plan, &groups);
    if (o->server_groups || groups.len > 0)
        pqs_spec_set(server, "groups", o->server_groups ? o->server_groups : pqs_buf_text(&groups));
}

static int make_certificates(struct measurement *m, struct pqs_err *err) {
    m->levels = pqs_calloc(m->n_certs + 1, sizeof *m->levels);
    for (size_t i = 0; i < m->n_certs; i++) {
        m->levels[i].kind = m->certs[i];
        int rc = pqs_order_certificate(&(struct pqs_order){.kind = m->certs[i]}, &m->levels[i].pem, err);
        if (rc)
            return rc;
    }
    m->setup.levels = m->levels;
    m->setup.n_levels = m->n_certs;
    return 0;
}

static int make_setup(struct measurement *m, struct pqs_err *err) {
    set_request(&m->setup.client, m->o);
    if (m->o->insecure)
        pqs_spec_set(&m->setup.client, "insecure", "yes");
    if (m->o->target)
        return set_target(m, err);
    set_own_server(m);
    return make_certificates(m, err);
}

/* runs/20261130T194844Z-tls, with -2, -3, ... when that exists; made here, so that no two runs take the same. */
static char *default_out_dir(const char *workload) {
    char utc[24], compact[24];
    size_t n = 0;
    pqs_utc(utc);
    for (const char *p = utc; *p; p++)
        if (*p != '-' && *p != ':')
            compact[n++] = *p;
    compact[n] = '\0';
    char *dir = pqs_format("runs/%s-%s", compact, workload);
    (void)mkdir("runs", 0777); /* where it cannot be made, the runner says why */
    for (int i = 2; mkdir(dir, 0777) != 0 && errno == EEXIST; i++) {
        free(dir);
        dir = pqs_format("runs/%s-%s-%d", compact, workload, i);
    }
    return dir;
}

/* The command line as a shell would take it again. */
static char *command_line(int argc, char **argv) {
    PQS_BUF text = {0};
    pqs_buf_addf(&text, "pqshake");
    for (int i = 0; i < argc; i++) {
        const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%";
        if (argv[i][0] && argv[i][strspn(argv[i], plain)] == '\0') {
            pqs_buf_addf(&text, " %s", argv[i]);
            continue;
        }
        pqs_buf_addf(&text, " '");
        for (const char *p = argv[i]; *p; p++)
            pqs_buf_addf(&text, *p == '\'' ? "'\\''" : "%c", *p);
        pqs_buf_addf(&text, "'");
    }
    return pqs_strdup(pqs_buf_text(&text));
}

static int run_plan(struct measurement *m, size_t *ret_stored, struct pqs_err *err) {
    PQS_FREE char *command = command_line(m->call->argc, m->call->argv);
    const struct pqs_setting settings[] = {
        {"tool.version", PQSHAKE_VERSION},
        {"tool.git_commit", PQSHAKE_COMMIT},
        {"command", command},
        {"target", m->o->target ? (char *)m->o->target : "own"},
    };
    struct pqs_live live = pqs_live_begin();
    const struct pqs_run_options options = {
        .plan = &m->plan,
        .workload = &pqs_workload_tls,
        .context = &m->setup,
        .own_server = !m->o->target,
        .target_pid = (pid_t)m->o->target_pid,
        .client_via = &m->client_via,
        .server_via = &m->server_via,
        .out_dir = m->out_dir,
        .settings = settings,
        .n_settings = PQS_COUNT(settings),
        .progress = pqs_live_show,
        .progress_context = &live,
    };
    int rc = pqs_run(&options, ret_stored, err);
    pqs_live_end(&live);
    return rc;
}

static int measure(struct measurement *m, struct pqs_err *err) {
    int rc = check_options(m, err);
    if (rc == 0)
        rc = make_places(m, err);
    if (rc == 0)
        rc = make_plan(m, err);
    if (rc == 0)
        rc = make_setup(m, err);
    if (rc)
        return rc;
    m->out_dir = m->o->out ? pqs_strdup(m->o->out) : default_out_dir(m->plan.workload);
    size_t stored = 0;
    rc = run_plan(m, &stored, err);
    if (rc == 0)
        return pqs_render(m->out_dir, m->o->json, true, err);
    /* The run could not go on, but what was finished is worth showing. */
    struct pqs_err second = {0};
    if (stored > 0 && pqs_render(m->out_dir, m->o->json, true, &second) != 0 && second.code != PQS_E_UNFIT)
        pqs_say("%s", second.msg);
    if (stored == 0 && !m->o->out) { /* nothing was kept: the directories go when they are empty */
        (void)rmdir(m->out_dir);
        (void)rmdir("runs");
    }
    return rc;
}

int pqs_measure(const struct pqs_call *call, const struct pqs_measure *o, struct pqs_err *err) {
    struct measurement m = {.call = call, .o = o, .null_engine = strcmp(o->engine, "null") == 0};
    int rc = measure(&m, err);
    release(&m);
    return rc;
}
