/* From run.db to what people and programs read. Must not know: OpenSSL, sockets, how a run is driven. */
#ifndef PQS_REPORT_REPORT_H
#define PQS_REPORT_REPORT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"

struct pqs_model; /* figures per arm, comparisons, verdicts: computed once, rendered by every writer */

struct pqs_model *pqs_model_new(const struct pqs_run *run); /* run must outlive it */
void pqs_model_free(struct pqs_model *m);

/* Some arm is unfit or has no figure, or two arms could not be compared: exit status 4. */
bool pqs_model_unfit(const struct pqs_model *m);

/* "schema": "pqshake/summary/1" (docs/SUMMARY.md). */
void pqs_report_json(const struct pqs_model *m, struct pqs_buf *out);
/* The text that the command prints and summary.md holds: padded Markdown tables that read well on a terminal (<= 100 columns
 * with two arms). */
void pqs_report_markdown(const struct pqs_model *m, struct pqs_buf *out);

#endif
