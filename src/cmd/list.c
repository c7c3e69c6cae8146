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

struct list {
    bool stacks;
};

static const struct pqs_opt options[] = {
    {.name = "stacks",
     .type = PQS_OPT_FLAG,
     .offset = offsetof(struct list, stacks),
     .help = "the table of TLS stacks alone: which there are, and how to get one that is missing"},
    {.name = NULL},
};

#define MAX_STACKS 8

/* What each stack's worker says of itself and its library; the ones that are missing have no facts. */
struct answers {
    struct pqs_result of[MAX_STACKS];
    struct pqs_err why[MAX_STACKS]; /* code 0: it answered */
    size_t n;                       /* as pqs_stacks has */
};

static void release(struct answers *a) {
    for (size_t i = 0; i < a->n; i++)
        pqs_result_release(&a->of[i]);
}

static int ask_worker(const char *stack, struct pqs_result *r, struct pqs_err *err) {
    PQS_WORKER w = {0};
    struct pqs_spec spec = {0};
    int rc = pqs_worker_start(stack, "list", &w, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < w.hello.n_facts; i++)
        pqs_result_fact(r, PQS_SERVER, w.hello.facts[i].name, w.hello.facts[i].value, 1);
    return pqs_worker_ask(&w, PQS_MSG_CONFIGURE, &spec, PQS_MSG_DONE, LIST_TIMEOUT_NS, NULL, r, err);
}

/* Without the default stack there is nothing to list; the others may be missing. */
static int ask_workers(struct answers *ret_a, struct pqs_err *err) {
    int rc = 0;
    for (; pqs_stacks[ret_a->n] && ret_a->n < MAX_STACKS && rc == 0; ret_a->n++) {
        struct pqs_err *why = &ret_a->why[ret_a->n];
        int code = ask_worker(pqs_stacks[ret_a->n], &ret_a->of[ret_a->n], why);
        if (code && ret_a->n == 0)
            rc = pqs_fail(err, code, "%s", why->msg);
    }
    return rc;
}

static const char *said(const struct answers *a, size_t stack, const char *name) {
    return pqs_result_fact_of(&a->of[stack], PQS_SERVER, name, NULL);
}

/* The default stack's facts "<prefix><name>": a column of "yes", "no" or "-" (no such worker) for each stack, then the words
 * of the value after its first under the given titles. */
static void print_facts(const struct answers *a, const char *prefix, const char *first, const char *const *titles) {
    const struct pqs_result *r = &a->of[0];
    size_t width = strlen(first), skip = strlen(prefix);
    for (size_t i = 0; i < r->n_facts; i++)
        if (strncmp(r->facts[i].name, prefix, skip) == 0 && strlen(r->facts[i].name + skip) > width)
            width = strlen(r->facts[i].name + skip);
    printf("%-*s", (int)width, first);
    for (size_t s = 0; s < a->n; s++)
        printf("  %8s", pqs_stacks[s]);
    for (const char *const *t = titles; *t; t++)
        printf("  %12s", *t);
    putchar('\n');
    for (size_t i = 0; i < r->n_facts; i++) {
        const struct pqs_fact *fact = &r->facts[i];
        if (strncmp(fact->name, prefix, skip) != 0)
            continue;
        printf("%-*s", (int)width, fact->name + skip);
        for (size_t s = 0; s < a->n; s++) {
            const char *value = said(a, s, fact->name);
            printf("  %8.*s", value ? (int)strcspn(value, " ") : 1, value ? value : "-");
        }
        for (const char *p = fact->value + strcspn(fact->value, " "); *(p += strspn(p, " "));) {
            size_t len = strcspn(p, " ");
            printf("  %12.*s", (int)len, p);
            p += len;
        }
        putchar('\n');
    }
}

static void list_stacks(const struct answers *a) {
    printf("%-8s  %-28s  %s\n", "STACK", "library", "file");
    for (size_t i = 0; i < a->n; i++) {
        const char *version = said(a, i, "library_version"), *file = said(a, i, "library");
        if (a->why[i].code == 0)
            printf("%-8s  %-28s  %s\n", pqs_stacks[i], version ? version : "unknown", file ? file : "unknown");
        else if (a->why[i].code != PQS_E_ENV)
            printf("%-8s  broken: %s\n", pqs_stacks[i], a->why[i].msg);
        else
            printf("%-8s  missing: it is built along with pqshake where g++ and the distribution's package of the\n"
                   "%10sRust crate aws-lc-sys can be had, or from PQSHAKE_AWSLC_ROOT=DIR; configure and build again\n",
                   pqs_stacks[i], "");
    }
}

static void list_groups(const struct answers *a) {
    static const char *const titles[] = {"client bytes", "server bytes", "family", NULL};
    print_facts(a, "group.", "GROUP", titles);
}

static void list_certs(const struct answers *a) {
    static const char *const titles[] = {NULL};
    print_facts(a, "cert.", "CERTIFICATE", titles);
}

static void list_algorithms(const struct answers *a) {
    static const char *const titles[] = {"operations", NULL};
    print_facts(a, "algorithm.", "ALGORITHM", titles);
}

static void list_verdicts(const struct answers *a) {
    (void)a;
    for (const struct pqs_verdict *v = pqs_verdicts; v->id; v++)
        printf("%-20s %-8s %-6s %s\n%36s %s\n", v->id, pqs_severity_names[v->severity], pqs_scope_names[v->scope],
               v->message, "", v->advice);
}

static void list_failures(const struct answers *a) {
    (void)a;
    const char *without_name = pqs_failure_text(PQS_FAILURE_END - 1); /* no TLS alert has number 255 */
    for (unsigned f = PQS_FAILURE_NONE + 1; f < PQS_FAILURE_END; f++) {
        char name[48];
        const char *text = pqs_failure_text(f);
        if (strcmp(text, without_name) != 0 && strcmp(text, pqs_failure_text(PQS_FAILURE_END)) != 0)
            printf("%-40s %s\n", pqs_failure_name(f, name), text);
    }
}

static const struct section {
    const char *name;
    const char *title;
    void (*print)(const struct answers *a);
    bool of_library; /* workers must be asked */
} sections[] = {
    {"stacks", "TLS stacks", list_stacks, true},
    {"groups", "Key-exchange groups (supported by which stack; key share bytes)", list_groups, true},
    {"certs", "Certificate kinds, and which stack supports them", list_certs, true},
    {"algorithms", "Algorithms that 'pqshake speed' times, and their operations", list_algorithms, true},
    {"verdicts", "Verdicts, how bad, and on what", list_verdicts, false},
    {"failures", "Failure classes of connections", list_failures, false},
};

static int run(const struct pqs_call *call, struct pqs_err *err) {
    const struct list *o = call->options;
    const char *only = o->stacks ? "stacks" : call->n_args ? call->args[0] : NULL;
    bool found = false;
    struct answers a = {0};
    int rc = 0;
    if (o->stacks && call->n_args)
        return pqs_fail(err, PQS_E_USAGE, "list: --stacks is a table of its own: leave \"%s\" out", call->args[0]);
    for (size_t i = 0; i < PQS_COUNT(sections) && rc == 0; i++) {
        if (only && strcasecmp(only, sections[i].name) != 0)
            continue;
        if (sections[i].of_library && a.n == 0)
            rc = ask_workers(&a, err);
        if (rc)
            break;
        printf("%s%s:\n", found ? "\n" : "", sections[i].title);
        found = true;
        sections[i].print(&a);
    }
    release(&a);
    if (rc || found)
        return rc;
    return pqs_fail(err, PQS_E_USAGE, "list: no table \"%s\": stacks, groups, certs, algorithms, verdicts or failures",
                    only);
}

const struct pqs_command pqs_command_list = {
    .name = "list",
    .summary = "show TLS stacks, groups, certificate kinds, algorithms, verdicts and failure classes",
    .arguments = "[stacks|groups|certs|algorithms|verdicts|failures]",
    .about = "Prints the tables that the other commands work with: which key-exchange groups and certificate\n"
             "kinds each TLS stack supports, which algorithms 'pqshake speed' times, what a verdict means and\n"
             "what to do, and how connections can fail.",
    .example = "pqshake list groups",
    .options = options,
    .options_size = sizeof(struct list),
    .max_args = 1,
    .run = run,
};
