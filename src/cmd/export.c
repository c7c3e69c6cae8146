/* pqshake export: a run's raw data for other programs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "render.h"
#include "report/export.h"

struct export {
    bool samples, histograms;
    const char *out;
};

#define ROW(field_, ...)                                                                                                    \
    { .offset = offsetof(struct export, field_), __VA_ARGS__ }
static const struct pqs_opt options[] = {
    ROW(samples, .name = "samples", .type = PQS_OPT_FLAG, .help = "CSV, one row per connection"),
    ROW(histograms, .name = "histograms", .type = PQS_OPT_FLAG,
        .help = "HdrHistogram log, one line per trial, class and phase"),
    ROW(out, .name = "out", .arg = "FILE", .type = PQS_OPT_STRING, .def = "-",
        .help = "where to write; - is standard output"),
    {.name = NULL},
};

static int write_run(const char *dir, const struct pqs_run *run, const struct export *o, FILE *to, struct pqs_err *err) {
    return o->samples ? pqs_export_samples(dir, run, to, err) : pqs_export_histograms(run, to, err);
}

/* A file that could not be finished is taken away again: it would look like a smaller run. */
static int write_file(const char *dir, const struct pqs_run *run, const struct export *o, struct pqs_err *err) {
    FILE *file = fopen(o->out, "we");
    if (!file)
        return pqs_fail_sys(err, PQS_E_USAGE, errno, "--out: cannot write to %s", o->out);
    int rc = write_run(dir, run, o, file, err);
    bool failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    if (rc == 0 && failed)
        rc = pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot write to %s", o->out);
    struct stat st;
    if (rc && lstat(o->out, &st) == 0 && S_ISREG(st.st_mode))
        unlink(o->out);
    return rc;
}

static int run(const struct pqs_call *call, struct pqs_err *err) {
    const struct export *o = call->options;
    if (call->n_args == 0)
        return pqs_fail(err, PQS_E_USAGE, "export: which DIR? It is where a run left its run.db");
    if (o->samples == o->histograms)
        return pqs_fail(err, PQS_E_USAGE, "export needs one of --samples and --histograms");
    struct pqs_run run = {0};
    int rc = pqs_check_out("out", o->out, err);
    if (rc == 0)
        rc = pqs_store_read(call->args[0], &run, err);
    if (rc == 0)
        rc = strcmp(o->out, "-") == 0 ? write_run(call->args[0], &run, o, stdout, err)
                                      : write_file(call->args[0], &run, o, err);
    pqs_run_release(&run);
    return rc;
}

const struct pqs_command pqs_command_export = {
    .name = "export",
    .summary = "write a run's raw data as CSV or HdrHistogram log",
    .arguments = "DIR --samples|--histograms",
    .about = "Writes what DIR/run.db holds for other programs. --samples: CSV (RFC 4180) with a header and one\n"
             "row per connection that was started in the window of a trial. --histograms: an HdrHistogram log\n"
             "(V1.3) with one line per trial, class and phase, tagged ARM/CLASS/PHASE; any HdrHistogram reads\n"
             "it. docs/RESULTS.md explains every column.",
    .example = "pqshake export runs/20261130T194844Z-tls --samples --out connections.csv",
    .options = options,
    .options_size = sizeof(struct export),
    .max_args = 1,
    .run = run,
};
