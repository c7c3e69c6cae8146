/* Whether a machine is fit to measure: rules over facts about it, one row each. Like the verdicts they look at evidence
 * only; `pqshake doctor` gathers it. */
#ifndef PQS_VERDICT_FITNESS_H
#define PQS_VERDICT_FITNESS_H

#include <stddef.h>

#include "channel/result.h"

enum pqs_fitness {
    PQS_FIT_FINE = 0,
    PQS_FIT_UNKNOWN, /* the fact could not be read */
    PQS_FIT_NOTE,    /* figures hold, within what the row says */
    PQS_FIT_SPOILS,  /* figures measured like this mislead */
};
extern const char *const pqs_fitness_names[4]; /* "fine", "unknown", "note", "spoils" */

struct pqs_fitness_check {
    const char *id, *title;
    /* Judges the facts (side client, names as in base/machine.h and doctor.c); text says what was found, "" only when it is
     * not known. */
    enum pqs_fitness (*check)(const struct pqs_result *facts, char *ret_text, size_t size);
    const char *spoils; /* what it does to figures when it is not fine, one sentence */
    const char *mend;   /* what to do, one sentence */
};
extern const struct pqs_fitness_check pqs_fitness_checks[]; /* ends with id == NULL */

#endif
