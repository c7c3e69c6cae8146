/* pqshake-worker-<stack> ROLE: all cryptography of pqshake happens in processes like this one (docs/WORKERS.md). */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/machine.h"
#include "base/mem.h"
#include "crypto/library.h"
#include "role.h"

static const struct pqs_role *const roles[] = {
    &pqs_role_certificates, &pqs_role_client, &pqs_role_list, &pqs_role_primitives, &pqs_role_server,
};

static void library_facts(enum pqs_side side, struct pqs_result *r) {
    struct pqs_library lib;
    struct pqs_err err;
    if (pqs_library_facts(&lib, &err) != 0)
        return;
    pqs_result_fact(r, side, "stack", lib.stack, 1);
    pqs_result_fact(r, side, "header_version", lib.header_version, 1);
    pqs_result_fact(r, side, "library_version", lib.version, 1);
    pqs_result_fact(r, side, "library", lib.ssl.path, 1);
    pqs_result_fact(r, side, "build_id", lib.ssl.build_id, 1);
    pqs_result_fact(r, side, "libcrypto", lib.crypto.path, 1);
    pqs_result_fact(r, side, "libcrypto_build_id", lib.crypto.build_id, 1);
    pqs_result_fact(r, side, "cpu_settings", lib.cpu_settings, 1);
}

struct machine_context {
    const char *prefix;
    enum pqs_side side;
    struct pqs_result *r;
};

static void machine_fact(void *context, const char *name, const char *value) {
    const struct machine_context *c = context;
    char full[64];
    snprintf(full, sizeof full, "%s.%s", c->prefix, name);
    pqs_result_fact(c->r, c->side, full, value, 1);
}

void pqs_worker_facts(enum pqs_side side, const struct pqs_spec *spec, struct pqs_result *r) {
    char threads[16], cpus[16];
    snprintf(threads, sizeof threads, "%u", spec->schedule.threads);
    snprintf(cpus, sizeof cpus, "%u", pqs_cpu_count());
    library_facts(side, r);
    pqs_result_fact(r, side, "threads", threads, 1);
    pqs_result_fact(r, side, "cpus", spec->cpus, 1);
    pqs_result_fact(r, side, "cpus_usable", cpus, 1);
    pqs_machine_facts(machine_fact, &(struct machine_context){"env", side, r});
}

void pqs_worker_facts_after(enum pqs_side side, struct pqs_result *r) {
    pqs_machine_changing_facts(machine_fact, &(struct machine_context){"env_after", side, r});
}

int pqs_worker_next(struct pqs_channel *channel, enum pqs_message *ret_type, struct pqs_err *err) {
    PQS_BUF payload = {0};
    int rc = pqs_channel_recv(channel, INT64_MAX, ret_type, &payload, err);
    return rc < 0 && err->sys == EPIPE ? 0 : rc;
}

int pqs_param_yes(const struct pqs_spec *spec, const char *name) {
    const char *value = pqs_spec_get(spec, name);
    return value && strcmp(value, "yes") == 0;
}

int pqs_param_number(const struct pqs_spec *spec, const char *name, uint64_t min, uint64_t max, uint64_t if_missing,
                     uint64_t *ret, struct pqs_err *err) {
    const char *text = pqs_spec_get(spec, name);
    char *end;
    *ret = if_missing;
    if (!text)
        return 0;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < min || value > max)
        return pqs_fail(err, PQS_E_USAGE, "parameter %s is '%s'; it must be a number from %llu to %llu", name, text,
                        (unsigned long long)min, (unsigned long long)max);
    *ret = value;
    return 0;
}

static int check_params(const struct pqs_role *role, const struct pqs_spec *spec, struct pqs_err *err) {
    for (size_t i = 0; i < spec->n_params; i++) {
        const char *const *known = role->params;
        while (*known && strcmp(*known, spec->params[i].name) != 0)
            known++;
        if (!*known)
            return pqs_fail(err, PQS_E_USAGE, "role %s does not know the parameter '%s'", role->name, spec->params[i].name);
    }
    return 0;
}

static int say_hello(struct pqs_channel *channel, const char *role, struct pqs_err *err) {
    struct pqs_result hello = {0};
    char pid[16], kernel[PQS_MACHINE_ID_MAX], network[PQS_MACHINE_ID_MAX], cpus[PQS_CPU_LIST_MAX];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    pqs_machine_kernel(kernel);
    pqs_machine_network(network);
    pqs_cpu_allowed(cpus);
    enum pqs_side side = strcmp(role, "client") == 0 ? PQS_CLIENT : PQS_SERVER;
    library_facts(side, &hello);
    pqs_result_fact(&hello, side, "tool_version", PQSHAKE_VERSION, 1);
    pqs_result_fact(&hello, side, "pid", pid, 1);
    pqs_result_fact(&hello, side, "kernel_id", kernel, 1);
    pqs_result_fact(&hello, side, "network_id", network, 1);
    pqs_result_fact(&hello, side, "cpus_allowed", cpus, 1);
    int rc = pqs_channel_send_result(channel, PQS_MSG_HELLO, &hello, err);
    pqs_result_release(&hello);
    return rc;
}

/* Nobody reads what a worker without a coordinator does, and behind a prefix such as ssh no signal says that it is gone: only
 * the end of standard input does, and that must end a worker in the middle of a window too. */
static void *end_with_input(void *context) {
    struct pollfd in = {.fd = *(const int *)context, .events = POLLRDHUP}; /* a pipe says POLLHUP, unasked */
    while (poll(&in, 1, -1) < 0 && errno == EINTR)
        ;
    _exit(0);
}

static int watch_input(struct pqs_channel *channel, struct pqs_err *err) {
    pthread_t id;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the other threads' */
    int sys = pthread_create(&id, NULL, end_with_input, &channel->in_fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (sys)
        return pqs_fail_sys(err, PQS_E_ENV, sys, "cannot start a thread");
    pthread_detach(id);
    return 0;
}

static int serve_channel(const struct pqs_role *role, struct pqs_channel *channel, struct pqs_err *err) {
    PQS_BUF payload = {0};
    enum pqs_message type;
    int rc = pqs_crypto_init(err);
    if (rc == 0)
        rc = pqs_crypto_self_test(err);
    if (rc == 0)
        rc = say_hello(channel, role->name, err);
    if (rc)
        return rc;
    rc = pqs_channel_recv(channel, INT64_MAX, &type, &payload, err);
    if (rc < 0)
        return err->sys == EPIPE ? 0 : rc;
    if (type != PQS_MSG_CONFIGURE)
        return pqs_fail(err, PQS_E_FAILED, "expected the message configure, got %s", pqs_message_name(type));
    struct pqs_spec spec = {0};
    rc = pqs_spec_decode(payload.data, payload.len, &spec, err);
    if (rc == 0)
        rc = check_params(role, &spec, err);
    if (rc == 0)
        rc = pqs_cpu_pin(spec.cpus, err);
    if (rc == 0)
        rc = watch_input(channel, err);
    if (rc == 0)
        rc = role->run(channel, &spec, err);
    pqs_spec_release(&spec);
    return rc;
}

int main(int argc, char **argv) {
    const struct pqs_role *role = NULL;
    for (size_t i = 0; argc == 2 && i < PQS_COUNT(roles); i++)
        if (strcmp(argv[1], roles[i]->name) == 0)
            role = roles[i];
    if (!role || isatty(STDIN_FILENO)) {
        fprintf(
            stderr,
            "pqshake-worker: started by pqshake, which talks to it over its standard input and output; the role is one of");
        for (size_t i = 0; i < PQS_COUNT(roles); i++)
            fprintf(stderr, " %s", roles[i]->name);
        fprintf(stderr, "\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    /* The heap keeps what it has: giving memory back and asking for it again for every handshake (mprotect, page faults)
     * would be the allocator's noise in both sides' figures. */
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    /* What libraries print must not end up in the channel. */
    int out = dup(STDOUT_FILENO);
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return 1;
    struct pqs_channel channel;
    struct pqs_err err = {0};
    pqs_channel_init(&channel, STDIN_FILENO, out);
    int rc = serve_channel(role, &channel, &err);
    if (rc) {
        struct pqs_err ignored;
        (void)!pqs_channel_send_error(&channel, &err, &ignored);
    }
    pqs_channel_release(&channel);
    return -rc;
}
