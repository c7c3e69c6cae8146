/* run.db: one SQLite file is the whole run. Rollback journal, synchronous=FULL, one transaction per finished trial: whatever
 * is killed, finished trials stay. Evidence is stored; verdicts and summaries can be recomputed from it (src/verdict,
 * src/report). Schema: docs/RESULTS.md; PRAGMA user_version = PQS_STORE_VERSION is checked on opening. */
#ifndef PQS_STORE_STORE_H
#define PQS_STORE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "channel/result.h"
#include "plan/plan.h"

#define PQS_STORE_VERSION 1

/* How a trial ended. */
enum pqs_trial_state { PQS_TRIAL_FINISHED = 0, PQS_TRIAL_FAILED = 1, PQS_TRIAL_DIED = 2 };
extern const char *const pqs_trial_state_names[]; /* "finished", "failed", "died", NULL */

struct pqs_trial {
    uint32_t arm; /* index into the run's arms */
    uint32_t block;
    uint32_t position; /* within the block's order, from 0 */
    enum pqs_trial_state state;
    char verdict[16]; /* worst severity at the time: "valid", "warning", "unfit" */
    char started_utc[24];
    char note[512]; /* why it failed or died; "" otherwise */
    struct pqs_result result;
};

struct pqs_setting { /* a row of table run: what was asked and by which tool */
    char *name;
    char *value;
};

struct pqs_event {
    char utc[24];
    char *kind; /* "start", "end", "interrupted", "warning" */
    char *text;
};

/* A run as read back. Samples are not loaded (see pqs_store_samples). */
struct pqs_run {
    struct pqs_setting *settings;
    size_t n_settings, cap_settings;
    struct pqs_arm *arms;
    size_t n_arms, cap_arms;
    struct pqs_trial *trials; /* in the order of execution */
    size_t n_trials, cap_trials;
    struct pqs_event *events;
    size_t n_events, cap_events;
};
void pqs_run_release(struct pqs_run *run);
void pqs_run_set(struct pqs_run *run, const char *name, const char *value); /* replaces */
const char *pqs_run_get(const struct pqs_run *run, const char *name);       /* NULL when absent */

struct pqs_store;

/* Creates DIR/run.db (DIR must exist); an existing run.db is an error that says to choose another --out. A second process
 * writing the same run is refused (the file stays locked from here to close). Writes settings and arms. */
PQS_MUST_CHECK int pqs_store_create(const char *dir, const struct pqs_run *run, struct pqs_store **ret_store,
                                    struct pqs_err *err);
/* One transaction; durable when it returns. */
PQS_MUST_CHECK int pqs_store_add_trial(struct pqs_store *store, const struct pqs_trial *trial, struct pqs_err *err);
PQS_MUST_CHECK int pqs_store_add_event(struct pqs_store *store, const char *kind, const char *text, struct pqs_err *err);
void pqs_store_close(struct pqs_store *store); /* NULL is fine */

/* Reads a whole run (read-only; works beside a writer between its transactions and after a crash). Never crashes on a
 * damaged file. */
PQS_MUST_CHECK int pqs_store_read(const char *dir, struct pqs_run *ret_run, struct pqs_err *err);
/* Packed samples (PQS_SAMPLE_BYTES each) of one trial, appended to ret_samples. */
PQS_MUST_CHECK int pqs_store_samples(const char *dir, uint32_t arm, uint32_t block, struct pqs_buf *ret_samples,
                                     struct pqs_err *err);

#endif
