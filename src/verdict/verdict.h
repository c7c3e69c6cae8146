/* Verdicts: the rules that decide whether a trial's figures mean what they seem to mean. Each is one row {id, severity,
 * test, message, what to do}; help, summaries and tests read the same rows. They look at evidence (struct pqs_result) only,
 * so that they can be recomputed from run.db at any time. Rules: docs/METHOD.md, Trust. */
#ifndef PQS_VERDICT_VERDICT_H
#define PQS_VERDICT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "channel/result.h"

enum pqs_severity {
    PQS_VALID = 0,
    PQS_NOTE = 1,    /* a reader should know it; changes nothing */
    PQS_WARNING = 2, /* figures stand, with this in mind */
    PQS_UNFIT = 3,   /* figures must not be used for the question */
};
extern const char *const pqs_severity_names[4]; /* "valid", "note", "warning", "unfit" */

/* What a row judges: one trial, an arm's trials together, or the run as a whole. A stall of the machine makes one trial's
 * tail, but not what the arm says. */
enum pqs_scope { PQS_OF_TRIAL, PQS_OF_ARM, PQS_OF_RUN };
extern const char *const pqs_scope_names[3]; /* "trial", "arm", "run" */

struct pqs_verdict {
    const char *id; /* "generator-limited" */
    enum pqs_scope scope;
    enum pqs_severity severity;
    /* Whether the row applies to this evidence (of one trial, or pooled); when it does, ret_text (one clause with the
     * figures, e.g. "started 8 % of 30000") */
    bool (*test)(const struct pqs_result *r, char *ret_text, size_t size); /* NULL: of the run, found by src/report */
    const char *message;                                                   /* what it means, one sentence */
    const char *advice;                                                    /* what to do, one sentence */
};
extern const struct pqs_verdict pqs_verdicts[]; /* ends with id == NULL */

const struct pqs_verdict *pqs_verdict_find(const char *id); /* NULL when there is none */

struct pqs_finding {
    const struct pqs_verdict *verdict;
    char text[256];
};
#define PQS_FINDINGS_MAX 40

/* The headline class: full handshakes; where there are none resumed ones, then those with a retry; full when there is
 * nothing. */
enum pqs_class pqs_verdict_class(const struct pqs_result *r);

/* Runs every row of that scope over the evidence; returns the number of findings (worst first) and the worst severity (notes
 * count as valid).
 */
size_t pqs_verdict_judge(const struct pqs_result *r, enum pqs_scope scope, struct pqs_finding ret[static PQS_FINDINGS_MAX],
                         enum pqs_severity *ret_worst);

/* TLS 1.3's name (RFC 8446, 4.2.7) of a group that has several: "P-256" -> "secp256r1". Other names come back as they are,
 * without OpenSSL's list marks ("*", "?", "-") before them. */
const char *pqs_canonical_group(const char *name);

/* Rule 18: facts that differ between two arms although no declared factor says so. Compares the facts that describe what was
 * negotiated and with what (cipher, signature, certificate type and chain bytes, library and versions, http_status, server
 * groups, ...); asked_differs(name) tells which fact names may differ because a factor declares it (factor groups: group,
 * message.* sizes; ...). Appends one clause per difference to ret_text, e.g. "cipher: TLS_AES_256_GCM_SHA384 /
 * TLS_CHACHA20_POLY1305_SHA256". Returns how many. */
size_t pqs_verdict_undeclared(const struct pqs_result *a, const struct pqs_result *b, const char *const *declared_factors,
                              size_t n_declared, struct pqs_buf *ret_text);

#endif
