/* pqshake list: the tables behind the other commands. What the library supports is asked of a worker. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "channel/failure.h"
#include "cmd.h"
#include "run/worker.h"
#include "verdict/verdict.h"

#define LIST_TIMEOUT_NS (60 * PQS_NS_PER_S)

static const struct pqs_opt options[] = {{.name = NULL}};

/* The worker's facts "<prefix><name>" with values such as "yes 1216 1120 hybrid", under the given column titles. */
static void print_facts(const struct pqs_result *r, const char *prefix, const char *first, const char *const *titles) {
    size_t width = strlen(first), skip = strlen(prefix);
    for (size_t i = 0; i < r->n_facts; i++)
        if (strncmp(r->facts[i].name, prefix, skip) == 0 && strlen(r->facts[i].name + skip) > width)
            width = strlen(r->facts[i].name + skip);
    printf("%-*s", (int)width, first);
    for (const char *const *t = titles; *t; t++)
        printf("  %12s", *t);
    putchar('\n');
    for (size_t i = 0; i < r->n_facts; i++) {
        const struct pqs_fact *fact = &r->facts[i];
        if (strncmp(fact->name, prefix, skip) != 0)
            continue;
        printf("%-*s", (int)width, fact->name + skip);
        for (const char *p = fact->value + strspn(fact->value, " "); *p; p += strspn(p, " ")) {
            size_t len = strcspn(p, " ");
            printf("  %12.*s", (int)len, p);
            p += len;
        }
        putchar('\n');
    }
}

static int ask_worker(struct pqs_result *ret_r, struct pqs_err *err) {
    PQS_WORKER w = {0};
    struct pqs_spec spec = {0};
    int rc = pqs_worker_start(PQS_DEFAULT_STACK, "list", &w, err);
    return rc ? rc : pqs_worker_ask(&w, PQS_MSG_CONFIGURE, &spec, PQS_MSG_DONE, LIST_TIMEOUT_NS, NULL, ret_r, err);
}

static int list_groups(struct pqs_err *err) {
    static const char *const titles[] = {"supported", "client bytes", "server bytes", "family", NULL};
    struct pqs_result r = {0};
    int rc = ask_worker(&r, err);
    if (rc == 0)
        print_facts(&r, "group.", "GROUP", titles);
    pqs_result_release(&r);
    return rc;
}

static int list_certs(struct pqs_err *err) {
    static const char *const titles[] = {"supported", NULL};
    struct pqs_result r = {0};
    int rc = ask_worker(&r, err);
    if (rc == 0)
        print_facts(&r, "cert.", "CERTIFICATE", titles);
    pqs_result_release(&r);
    return rc;
}

static int list_algorithms(struct pqs_err *err) {
    static const char *const titles[] = {"operations", NULL};
    struct pqs_result r = {0};
    int rc = ask_worker(&r, err);
    if (rc == 0)
        print_facts(&r, "algorithm.", "ALGORITHM", titles);
    pqs_result_release(&r);
    return rc;
}

static int list_verdicts(struct pqs_err *err) {
    (void)err;
    for (const struct pqs_verdict *v = pqs_verdicts; v->id; v++)
        printf("%-20s %-8s %-6s %s\n%36s %s\n", v->id, pqs_severity_names[v->severity], pqs_scope_names[v->scope],
               v->message, "", v->advice);
    return 0;
}

static int list_failures(struct pqs_err *err) {
    (void)err;
    const char *without_name = pqs_failure_text(PQS_FAILURE_END - 1); /* no TLS alert has number 255 */
    for (unsigned f = PQS_FAILURE_NONE + 1; f < PQS_FAILURE_END; f++) {
        char name[48];
        const char *text = pqs_failure_text(f);
        if (strcmp(text, without_name) != 0 && strcmp(text, pqs_failure_text(PQS_FAILURE_END)) != 0)
            printf("%-40s %s\n", pqs_failure_name(f, name), text);
    }
    return 0;
}

static const struct section {
    const char *name;
    const char *title;
    int (*print)(struct pqs_err *err);
} sections[] = {
    {"groups", "Key-exchange groups (key share bytes)", list_groups},
    {"certs", "Certificate kinds", list_certs},
    {"algorithms", "Algorithms that 'pqshake speed' times, and their operations", list_algorithms},
    {"verdicts", "Verdicts, how bad, and on what", list_verdicts},
    {"failures", "Failure classes of connections", list_failures},
};

static int run(const struct pqs_call *call, struct pqs_err *err) {
    bool found = false;
    for (size_t i = 0; i < PQS_COUNT(sections); i++) {
        if (call->n_args && strcasecmp(call->args[0], sections[i].name) != 0)
            continue;
        printf("%s%s:\n", found ? "\n" : "", sections[i].title);
        found = true;
        int rc = sections[i].print(err);
        if (rc)
            return rc;
    }
    return found ? 0
                 : pqs_fail(err, PQS_E_USAGE, "list: no table \"%s\": groups, certs, algorithms, verdicts or failures", call->args[0]);
}

const struct pqs_command pqs_command_list = {
    .name = "list",
    .summary = "show groups, certificate kinds, algorithms, verdicts and failure classes",
    .arguments = "[groups|certs|algorithms|verdicts|failures]",
    .about = "Prints the tables that the other commands work with: which key-exchange groups and certificate\n"
             "kinds this build's TLS library supports, what a verdict means and what to do, and how\n"
             "connections can fail.",
    .example = "pqshake list groups",
    .options = options,
    .options_size = 1,
    .max_args = 1,
    .run = run,
};
