/* Reports are rendered from what is on disk, so that it is there. Must not know how a run came about. */
#include "render.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cmd.h"
#include "report/report.h"

int pqs_check_out(const char *option, const char *path, struct pqs_err *err) {
    if (!path || strcmp(path, "-") == 0)
        return 0;
    const char *slash = strrchr(path, '/');
    PQS_FREE char *dir = slash ? pqs_format("%.*s", (int)(slash - path + 1), path) : pqs_strdup(".");
    if (!*path || (slash && !slash[1]))
        return pqs_fail(err, PQS_E_USAGE, "--%s \"%s\" is no file name", option, path);
    if (access(dir, W_OK | X_OK))
        return pqs_fail_sys(err, PQS_E_USAGE, errno, "--%s: cannot write to %s", option, path);
    return 0;
}

static int save_summaries(const char *dir, const struct pqs_buf *json, const struct pqs_buf *text, struct pqs_err *err) {
    PQS_FREE char *json_path = pqs_format("%s/summary.json", dir);
    PQS_FREE char *text_path = pqs_format("%s/summary.md", dir);
    int rc = pqs_write_file(json_path, 0644, json->data, json->len, err);
    return rc ? rc : pqs_write_file(text_path, 0644, text->data, text->len, err);
}

static int write_model(const struct pqs_model *model, const char *dir, const char *to, bool save, struct pqs_err *err) {
    PQS_BUF json = {0}, text = {0};
    pqs_report_json(model, &json);
    pqs_report_markdown(model, &text);
    bool json_out = to && strcmp(to, "-") == 0;
    const struct pqs_buf *out = json_out ? &json : &text;
    fwrite(out->data, 1, out->len, stdout);
    if (save && json_out)
        pqs_say("results in %s", dir);
    else if (save)
        printf("\nResults: %s (run.db, summary.json, summary.md)\n", dir);
    int rc = save ? save_summaries(dir, &json, &text, err) : 0;
    if (rc == 0 && to && !json_out)
        rc = pqs_write_file(to, 0644, json.data, json.len, err);
    if (rc == 0 && pqs_model_unfit(model))
        rc = pqs_fail(err, PQS_E_UNFIT, "the data is unfit for the question: the report says why");
    return rc;
}

int pqs_render(const char *dir, const char *json, bool save, struct pqs_err *err) {
    struct pqs_run run = {0};
    int rc = pqs_store_read(dir, &run, err);
    if (rc)
        return rc;
    struct pqs_model *model = pqs_model_new(&run);
    rc = write_model(model, dir, json, save, err);
    pqs_model_free(model);
    pqs_run_release(&run);
    return rc;
}
