/* Role client: the load generator under the coordinator's command. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "load/engine.h"
#include "load/generator.h"
#include "role.h"

#define SAMPLES_PER_MESSAGE 65536u

static const char *const params[] = {
    "engine",     "host", "ports",   "servername",    "groups",       "sigalgs", "ca",     "insecure",       "client_cert",
    "client_key", "path", "headers", "expect_status", "expect_bytes", "close",   "run_ns", "handshake_only", NULL};

/* Client engines by the parameter `engine`. */
static const struct pqs_engine *const engines[] = {&pqs_engine_tls, &pqs_engine_null};

static int find_engine(const struct pqs_spec *spec, const struct pqs_engine **ret, struct pqs_err *err) {
    const char *name = pqs_spec_get(spec, "engine");
    for (size_t i = 0; i < PQS_COUNT(engines); i++)
        if (strcmp(name ? name : "tls", engines[i]->name) == 0) {
            *ret = engines[i];
            return 0;
        }
    return pqs_fail(err, PQS_E_USAGE, "engine '%s' does not exist; there are tls and null", name);
}

static void on_progress(void *context, const struct pqs_generator_progress *p) {
    struct pqs_channel *channel = context;
    struct pqs_result r = {0};
    struct pqs_err err;
    pqs_result_count(&r, PQS_CLIENT, "started", p->started);
    pqs_result_count(&r, PQS_CLIENT, "completed", p->completed);
    pqs_result_count(&r, PQS_CLIENT, "failed", p->failed);
    pqs_result_count(&r, PQS_CLIENT, "live.p50_ns", p->p50_ns);
    pqs_result_count(&r, PQS_CLIENT, "live.p99_ns", p->p99_ns);
    if (pqs_channel_send_result(channel, PQS_MSG_PROGRESS, &r, &err) != 0)
        _exit(1); /* nobody will read what comes of it */
    pqs_result_release(&r);
}

static int send_samples(struct pqs_channel *channel, const struct pqs_buf *samples, struct pqs_err *err) {
    const size_t chunk = (size_t)SAMPLES_PER_MESSAGE * PQS_SAMPLE_BYTES;
    for (size_t at = 0; at < samples->len; at += chunk) {
        size_t n = samples->len - at < chunk ? samples->len - at : chunk;
        int rc = pqs_channel_send(channel, PQS_MSG_SAMPLES, samples->data + at, n, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* What was asked, so that every verdict can be recomputed from the stored facts. */
static void asked_facts(const struct pqs_spec *spec, const struct pqs_engine *engine, struct pqs_result *r) {
    const char *sigalgs = pqs_spec_get(spec, "sigalgs");
    const char *closing = pqs_spec_get(spec, "close");
    pqs_result_fact(r, PQS_CLIENT, "engine", engine == &pqs_engine_null ? "null" : "tls", 1);
    pqs_result_fact(r, PQS_CLIENT, "close", closing ? closing : "fin", 1);
    if (sigalgs)
        pqs_result_fact(r, PQS_CLIENT, "asked.sigalgs", sigalgs, 1);
    if (pqs_param_yes(spec, "insecure"))
        pqs_result_fact(r, PQS_CLIENT, "insecure", "yes", 1);
    if (pqs_param_yes(spec, "handshake_only"))
        pqs_result_fact(r, PQS_CLIENT, "handshake_only", "yes", 1);
}

static int run_stage(struct pqs_channel *channel, struct pqs_generator *g, enum pqs_stage stage, struct pqs_err *err) {
    struct pqs_result r = {0};
    int rc = pqs_generator_run(g, stage, on_progress, channel, &r, err);
    if (rc == 0 && stage == PQS_STAGE_WINDOW) {
        pqs_worker_facts_after(PQS_CLIENT, &r);
        rc = send_samples(channel, &r.samples, err);
    }
    if (rc == 0)
        rc = pqs_channel_send_result(channel, PQS_MSG_DONE, &r, err);
    pqs_result_release(&r);
    return rc;
}

static int command(struct pqs_channel *channel, struct pqs_generator *g, enum pqs_message type, struct pqs_err *err) {
    switch (type) {
    case PQS_MSG_PREFLIGHT:
        return run_stage(channel, g, PQS_STAGE_PREFLIGHT, err);
    case PQS_MSG_WARMUP:
        return run_stage(channel, g, PQS_STAGE_WARMUP, err);
    case PQS_MSG_RUN:
        return run_stage(channel, g, PQS_STAGE_WINDOW, err);
    default:
        return pqs_fail(err, PQS_E_FAILED, "role client does not take the message %s", pqs_message_name(type));
    }
}

static int run_client(struct pqs_channel *channel, const struct pqs_spec *spec, struct pqs_err *err) {
    const struct pqs_engine *engine = NULL;
    struct pqs_generator *g = NULL;
    struct pqs_result ready = {0};
    int rc = find_engine(spec, &engine, err);
    if (rc == 0)
        rc = pqs_generator_new(spec, engine, &g, err);
    if (rc)
        return rc;
    pqs_worker_facts(PQS_CLIENT, spec, &ready);
    asked_facts(spec, engine, &ready);
    rc = pqs_channel_send_result(channel, PQS_MSG_READY, &ready, err);
    pqs_result_release(&ready);
    while (rc == 0) {
        enum pqs_message type;
        rc = pqs_worker_next(channel, &type, err);
        if (rc == 0 || (rc == 1 && type == PQS_MSG_STOP)) {
            rc = 0;
            break;
        }
        if (rc == 1)
            rc = command(channel, g, type, err);
    }
    pqs_generator_free(g);
    return rc;
}

const struct pqs_role pqs_role_client = {"client", params, run_client};
