/* A run's raw data for other programs; docs/RESULTS.md is the dictionary. Must not know: how a figure is computed. */
#ifndef PQS_REPORT_EXPORT_H
#define PQS_REPORT_EXPORT_H

#include <stdio.h>

#include "base/err.h"
#include "store/store.h"

/* CSV (RFC 4180: a header, CRLF) of the connections of all trials of `run`, which was read from dir. Write errors are left
 * to the stream (ferror). Fails when the samples cannot be read or are no samples. */
PQS_MUST_CHECK int pqs_export_samples(const char *dir, const struct pqs_run *run, FILE *out, struct pqs_err *err);

/* HdrHistogram log, format 1.3: one line per trial, class and phase, in order of execution, tagged arm/class/phase. */
PQS_MUST_CHECK int pqs_export_histograms(const struct pqs_run *run, FILE *out, struct pqs_err *err);

#endif
