/* From a run's directory to its report on standard output and in files: what the measuring commands and `report` share. */
#ifndef PQS_CMD_RENDER_H
#define PQS_CMD_RENDER_H

#include <stdbool.h>

#include "base/err.h"

/* An option's output file: "-" (standard output) or NULL are fine, otherwise its directory must be writable. PQS_E_USAGE
 * names the option: an output that cannot be written must not be found out after the work. */
PQS_MUST_CHECK int pqs_check_out(const char *option, const char *path, struct pqs_err *err);

/* Reads DIR/run.db and prints its text, or with json "-" its JSON; another json is a file that gets the JSON besides. save:
 * DIR/summary.json and DIR/summary.md are written too. PQS_E_UNFIT after all that when the data is unfit. */
PQS_MUST_CHECK int pqs_render(const char *dir, const char *json, bool save, struct pqs_err *err);

#endif
