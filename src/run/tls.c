/* How the factors of TLS arms become parameters, and what a TLS preflight must show (METHOD 7, 18). Must not know any TLS
 * library: names of groups and certificates are text here. */
#include "run/tls.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "channel/failure.h"
#include "verdict/verdict.h"

/* Takes the next name out of a group list in OpenSSL's syntax: separators ':' and '/', marks '?', '*' and '-' before a name.
 */
static bool next_group(const char **list, char *ret_name, size_t size) {
    *list += strspn(*list, ":/?*-");
    size_t len = strcspn(*list, ":/");
    snprintf(ret_name, size, "%.*s", (int)len, *list);
    *list += len;
    return len > 0;
}

static bool names_group(const char *list, const char *group) {
    char name[96];
    while (next_group(&list, name, sizeof name))
        if (strcasecmp(pqs_canonical_group(name), pqs_canonical_group(group)) == 0)
            return true;
    return false;
}

/* DEFAULT may hold any group. */
static bool has_group(const char *list, const char *group) {
    return names_group(list, group) || names_group(list, PQS_TLS_DEFAULT);
}

static bool groups_in_common(const char *a, const char *b) {
    char name[96];
    while (next_group(&a, name, sizeof name))
        if (strcasecmp(name, PQS_TLS_DEFAULT) == 0 || has_group(b, name))
            return true;
    return false;
}

void pqs_tls_server_groups(const struct pqs_plan *plan, struct pqs_buf *ret_list) {
    PQS_BUF all = {0};
    for (int post_quantum = 1; post_quantum >= 0; post_quantum--)
        for (size_t i = 0; i < plan->n_arms; i++) {
            const char *list = pqs_arm_level(&plan->arms[i], "groups");
            char name[96];
            for (const char *item = list; list && next_group(&list, name, sizeof name); item = list) {
                size_t marks = strspn(item, ":/?*-");
                if (memchr(item, '-', marks) || (strcasestr(name, "MLKEM") != NULL) != post_quantum ||
                    names_group(pqs_buf_text(&all), name))
                    continue;
                /* What the client's library may lack, the server's may lack too. */
                pqs_buf_addf(&all, "%s%s%s", all.len ? ":" : "", memchr(item, '?', marks) ? "?" : "", name);
            }
        }
    pqs_buf_add(ret_list, all.data, all.len);
}

static int apply_groups(const char *level, const struct pqs_tls_setup *setup, struct pqs_spec *client,
                        struct pqs_spec *server, struct pqs_err *err) {
    (void)setup, (void)server, (void)err;
    pqs_spec_set(client, "groups", strcasecmp(level, PQS_TLS_DEFAULT) == 0 ? NULL : level);
    return 0;
}

static int apply_sigalgs(const char *level, const struct pqs_tls_setup *setup, struct pqs_spec *client,
                         struct pqs_spec *server, struct pqs_err *err) {
    (void)setup, (void)server, (void)err;
    pqs_spec_set(client, "sigalgs", level);
    return 0;
}

static int apply_engine(const char *level, const struct pqs_tls_setup *setup, struct pqs_spec *client,
                        struct pqs_spec *server, struct pqs_err *err) {
    (void)setup, (void)err;
    pqs_spec_set(client, "engine", level);
    if (server)
        pqs_spec_set(server, "engine", level);
    return 0;
}

static int apply_cert(const char *level, const struct pqs_tls_setup *setup, struct pqs_spec *client, struct pqs_spec *server,
                      struct pqs_err *err) {
    for (size_t i = 0; i < setup->n_levels && server; i++) {
        const struct pqs_tls_level *l = &setup->levels[i];
        if (strcmp(l->kind, level) != 0)
            continue;
        pqs_spec_set_bytes(server, "cert", l->pem.cert.data, l->pem.cert.len);
        pqs_spec_set_bytes(server, "key", l->pem.key.data, l->pem.key.len);
        pqs_spec_set(server, "cert_kind", level);
        if (!pqs_spec_get(client, "insecure"))
            pqs_spec_set_bytes(client, "ca", l->pem.ca.data, l->pem.ca.len);
        return 0;
    }
    return pqs_fail(err, PQS_E_FAILED, "no certificate of kind %s was made for this run", level);
}

/* The factors that a TLS arm may have. */
static const struct factor {
    const char *name;
    int (*apply)(const char *level, const struct pqs_tls_setup *setup, struct pqs_spec *client, struct pqs_spec *server,
                 struct pqs_err *err);
} factors[] = {
    {"cert", apply_cert},
    {"engine", apply_engine},
    {"groups", apply_groups},
    {"sigalgs", apply_sigalgs},
};

static void add_params(const struct pqs_spec *from, struct pqs_spec *to) {
    for (size_t i = 0; i < from->n_params; i++)
        pqs_spec_set_bytes(to, from->params[i].name, from->params[i].value.data, from->params[i].value.len);
}

static int apply(const struct pqs_arm *arm, void *context, struct pqs_spec *client, struct pqs_spec *server,
                 struct pqs_err *err) {
    const struct pqs_tls_setup *setup = context;
    add_params(&setup->client, client);
    if (server) {
        add_params(&setup->server, server);
        server->schedule.threads = setup->server.schedule.threads;
    }
    for (size_t i = 0; i < arm->n_levels; i++) {
        const struct pqs_factor_level *l = &arm->levels[i];
        const struct factor *f = NULL;
        for (size_t k = 0; k < PQS_COUNT(factors); k++)
            if (strcmp(factors[k].name, l->factor) == 0)
                f = &factors[k];
        /* The runner's, and which twin of an arm this is, which changes nothing. */
        if (!f && (strcmp(l->factor, PQS_FACTOR_CLIENT_STACK) == 0 || strcmp(l->factor, PQS_FACTOR_SERVER_STACK) == 0 ||
                   strcmp(l->factor, "aa") == 0))
            continue;
        if (!f)
            return pqs_fail(err, PQS_E_USAGE, "TLS arms have no factor %s: groups, cert, sigalgs or engine", l->factor);
        int rc = f->apply(l->level, setup, client, server, err);
        if (rc)
            return rc;
    }
    return 0;
}

static bool is(const struct pqs_spec *spec, const char *name, const char *value) {
    const char *got = pqs_spec_get(spec, name);
    return got && strcmp(got, value) == 0;
}

static int check(const struct pqs_spec *client, const struct pqs_result *preflight, struct pqs_err *err) {
    if (is(client, "engine", "null"))
        return 0;
    uint64_t others = 0;
    const char *asked = pqs_spec_get(client, "groups");
    const char *group = pqs_result_fact_of(preflight, PQS_CLIENT, "group", &others);
    if (!group)
        return pqs_fail(err, PQS_E_FAILED, "the preflight does not say which group was negotiated");
    if (others)
        return pqs_fail(err, PQS_E_FAILED, "the preflight handshakes negotiated different groups, %s and others", group);
    if (asked && !has_group(asked, group))
        return pqs_fail(err, PQS_E_FAILED, "asked for group %s, but %s was negotiated", asked, group);
    const char *verified = pqs_result_fact_of(preflight, PQS_CLIENT, "verified", &others);
    if (!is(client, "insecure", "yes") && (!verified || strcmp(verified, "yes") != 0 || others))
        return pqs_fail(err, PQS_E_FAILED, "the server's certificate was not verified");
    return 0;
}

static void explain(const struct pqs_spec *client, const struct pqs_result *server_facts,
                    const struct pqs_result *server_counts, struct pqs_err *err) {
    static const char *const by_default = "(library default)"; /* as the server says it too */
    const char *groups = pqs_spec_get(client, "groups"), *sigalgs = pqs_spec_get(client, "sigalgs");
    PQS_BUF text = {0};
    /* The client says in which step its handshake ended (channel/failure.h): before TLS, nothing was offered. */
    if (is(client, "engine", "null") || strstr(err->msg, "step 'local'") || strstr(err->msg, "step 'connect'"))
        return;
    pqs_buf_addf(&text, "%s\n  client offers:  groups %s; signatures %s", err->msg, groups ? groups : by_default,
                 sigalgs ? sigalgs : by_default);
    const char *accepted = server_facts ? pqs_result_fact_of(server_facts, PQS_SERVER, "server_groups", NULL) : NULL;
    if (server_facts) {
        const char *signatures = pqs_result_fact_of(server_facts, PQS_SERVER, "server_sigalgs", NULL);
        pqs_buf_addf(&text, "\n  server accepts: groups %s; signatures %s", accepted ? accepted : by_default,
                     signatures ? signatures : by_default);
    }
    const char *hint = NULL;
    for (size_t i = 0; server_counts && i < server_counts->n_counters; i++) {
        const struct pqs_counter *c = &server_counts->counters[i];
        if (strncmp(c->name, "failed.", 7) != 0 || c->value == 0)
            continue;
        unsigned failure = pqs_failure_find(c->name + 7);
        pqs_buf_addf(&text, "\n  server counted: %s %lld (%s)", c->name, (long long)c->value, pqs_failure_text(failure));
    }
    if (accepted && accepted[0] != '(' && groups && !groups_in_common(groups, accepted))
        hint = "no group in common: name one of the client's groups in --server-groups";
    else if (!server_facts && strstr(err->msg, "handshake_failure"))
        hint = "the server must accept one of these groups and signatures; 'pqshake list groups' shows what this build has";
    if (hint)
        pqs_buf_addf(&text, "\n  hint: %s", hint);
    (void)pqs_fail(err, err->code, "%s", pqs_buf_text(&text));
}

static const char *const cohort_facts[] = {"group",   "cipher", "signature",   "protocol", "verified",
                                           "resumed", "retry",  "http_status", NULL};

const struct pqs_workload pqs_workload_tls = {
    .name = "tls",
    .apply = apply,
    .check = check,
    .explain = explain,
    .cohort_facts = cohort_facts,
};
