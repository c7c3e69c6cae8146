/* pqshake report: a run's report once more, from its run.db alone. */
#include "cmd.h"
#include "render.h"

struct report {
    const char *json;
    bool write;
};

#define ROW(field_, ...)                                                                                                    \
    { .offset = offsetof(struct report, field_), __VA_ARGS__ }
static const struct pqs_opt options[] = {
    ROW(json, .name = "json", .arg = "FILE", .type = PQS_OPT_STRING,
        .help = "write the summary as JSON; - is standard output, instead of the text"),
    ROW(write, .name = "write", .type = PQS_OPT_FLAG, .help = "write summary.json and summary.md to DIR too"),
    {.name = NULL},
};

static int run(const struct pqs_call *call, struct pqs_err *err) {
    const struct report *o = call->options;
    if (call->n_args == 0)
        return pqs_fail(err, PQS_E_USAGE, "report: which DIR? It is where a run left its run.db");
    int rc = pqs_check_out("json", o->json, err);
    return rc ? rc : pqs_render(call->args[0], o->json, o->write, err);
}

const struct pqs_command pqs_command_report = {
    .name = "report",
    .summary = "render a run again from its run.db",
    .arguments = "DIR",
    .about = "Computes figures, verdicts and comparisons from DIR/run.db alone and prints them as the run did,\n"
             "also for a run that was interrupted, killed or goes on: its finished trials count. DIR stays as\n"
             "it is unless --write is given. The exit status is 4 when the data is unfit.",
    .example = "pqshake report runs/20261130T194844Z-tls --json summary.json",
    .options = options,
    .options_size = sizeof(struct report),
    .max_args = 1,
    .run = run,
};
