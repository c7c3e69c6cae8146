/* Reading run.db, which may be beside a living writer, left behind by a killed one, or damaged. Must not know statistics. */
#include "store/store.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "stats/hist.h"
#include "store/schema.h"

/* How long reading waits for a writer's commit. */
#define BUSY_TIMEOUT_MS 60000

const char *const pqs_trial_state_names[] = {
    [PQS_TRIAL_FINISHED] = "finished",
    [PQS_TRIAL_FAILED] = "failed",
    [PQS_TRIAL_DIED] = "died",
    NULL,
};
#define TRIAL_STATES (PQS_COUNT(pqs_trial_state_names) - 1)

void pqs_run_release(struct pqs_run *run) {
    for (size_t i = 0; i < run->n_settings; i++) {
        free(run->settings[i].name);
        free(run->settings[i].value);
    }
    free(run->settings);
    free(run->arms);
    for (size_t i = 0; i < run->n_trials; i++)
        pqs_result_release(&run->trials[i].result);
    free(run->trials);
    for (size_t i = 0; i < run->n_events; i++) {
        free(run->events[i].kind);
        free(run->events[i].text);
    }
    free(run->events);
    *run = (struct pqs_run){0};
}

static struct pqs_setting *find_setting(const struct pqs_run *run, const char *name) {
    for (size_t i = 0; i < run->n_settings; i++)
        if (strcmp(run->settings[i].name, name) == 0)
            return &run->settings[i];
    return NULL;
}

void pqs_run_set(struct pqs_run *run, const char *name, const char *value) {
    char *copy = pqs_strdup(value);
    struct pqs_setting *setting = find_setting(run, name);
    if (!setting) {
        PQS_GROW(run->settings, run->n_settings, run->cap_settings);
        setting = &run->settings[run->n_settings++];
        *setting = (struct pqs_setting){.name = pqs_strdup(name)};
    }
    free(setting->value);
    setting->value = copy;
}

const char *pqs_run_get(const struct pqs_run *run, const char *name) {
    const struct pqs_setting *setting = find_setting(run, name);
    return setting ? setting->value : NULL;
}

static void cleanup_db(sqlite3 **db) {
    sqlite3_close(*db);
}
static void cleanup_stmt(sqlite3_stmt **stmt) {
    sqlite3_finalize(*stmt);
}
#define DB __attribute__((cleanup(cleanup_db))) sqlite3 *
#define STMT __attribute__((cleanup(cleanup_stmt))) sqlite3_stmt *

static int fail_db(sqlite3 *db, struct pqs_err *err) {
    return pqs_fail(err, PQS_E_FAILED, "reading %s: %s", sqlite3_db_filename(db, "main"), sqlite3_errmsg(db));
}

/* Calls `row` for every row of the query; `id` is its one parameter, if it has one. Ends early with row's error. */
static int each_row(sqlite3 *db, const char *sql, int64_t id,
                    int (*row)(sqlite3_stmt *stmt, void *into, struct pqs_err *err), void *into, struct pqs_err *err) {
    STMT stmt = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return fail_db(db, err);
    if (sqlite3_bind_parameter_count(stmt) > 0 && sqlite3_bind_int64(stmt, 1, id) != SQLITE_OK)
        return fail_db(db, err);
    int status = 0;
    while ((status = sqlite3_step(stmt)) == SQLITE_ROW) {
        int rc = row(stmt, into, err);
        if (rc < 0)
            return rc;
    }
    return status == SQLITE_DONE ? 0 : fail_db(db, err);
}

static const char *column_text(sqlite3_stmt *stmt, int column) {
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    return text ? text : "";
}

/* The writer stores nothing that does not fit, so a text, name or number that does not is damage. */
static int fail_damaged(sqlite3_stmt *stmt, int column, struct pqs_err *err) {
    return pqs_fail(err, PQS_E_FAILED, "%s is damaged: a column %s holds \"%.80s\"",
                    sqlite3_db_filename(sqlite3_db_handle(stmt), "main"), sqlite3_column_name(stmt, column),
                    column_text(stmt, column));
}

static int column_copy(sqlite3_stmt *stmt, int column, char *dst, size_t dst_size, struct pqs_err *err) {
    const char *text = column_text(stmt, column);
    if (strlen(text) >= dst_size)
        return fail_damaged(stmt, column, err);
    memcpy(dst, text, strlen(text) + 1);
    return 0;
}

/* The index of the column's text in names. */
static int column_enum(sqlite3_stmt *stmt, int column, const char *const *names, size_t n, unsigned *ret,
                       struct pqs_err *err) {
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(names[i], column_text(stmt, column)) == 0) {
            *ret = i;
            return 0;
        }
    }
    return fail_damaged(stmt, column, err);
}

static int column_u32(sqlite3_stmt *stmt, int column, size_t end, uint32_t *ret, struct pqs_err *err) {
    int64_t value = sqlite3_column_int64(stmt, column);
    if (value < 0 || (uint64_t)value >= end)
        return fail_damaged(stmt, column, err);
    *ret = (uint32_t)value;
    return 0;
}
#define ANY_U32 ((size_t)UINT32_MAX + 1)

static int int_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    (void)err;
    *(int64_t *)into = sqlite3_column_int64(stmt, 0);
    return 0;
}

static int check_identity(sqlite3 *db, const char *path, struct pqs_err *err) {
    int64_t application = 0, version = 0, page_bytes = 0, pages = 0;
    int rc = each_row(db, "PRAGMA application_id", 0, int_row, &application, err);
    if (rc == 0)
        rc = each_row(db, "PRAGMA user_version", 0, int_row, &version, err);
    if (rc == 0)
        rc = each_row(db, "PRAGMA page_size", 0, int_row, &page_bytes, err);
    if (rc == 0)
        rc = each_row(db, "PRAGMA page_count", 0, int_row, &pages, err);
    if (rc < 0)
        return rc;
    if (application != PQS_STORE_APPLICATION_ID)
        return pqs_fail(err, PQS_E_USAGE, "%s is not a run of pqshake (application_id %lld instead of %d)", path,
                        (long long)application, PQS_STORE_APPLICATION_ID);
    if (version != PQS_STORE_VERSION)
        return pqs_fail(err, PQS_E_USAGE,
                        "%s has schema version %lld and this release reads %d: use the release that wrote it", path,
                        (long long)version, PQS_STORE_VERSION);
    /* SQLite notices missing pages, but reads a last page that is cut short as if it ended in zeros. */
    struct stat st;
    if (stat(path, &st) < 0)
        return pqs_fail_sys(err, PQS_E_FAILED, errno, "reading the size of %s", path);
    if (st.st_size < pages * page_bytes)
        return pqs_fail(err, PQS_E_FAILED, "%s is cut short: it has %lld of %lld bytes", path, (long long)st.st_size,
                        (long long)pages * page_bytes);
    return 0;
}

/* Opens a run and begins a transaction, so that everything read is of one moment. */
static int open_run(const char *dir, sqlite3 **ret_db, struct pqs_err *err) {
    PQS_FREE char *path = pqs_format("%s/%s", dir, PQS_STORE_FILE);
    if (access(path, R_OK) < 0)
        return pqs_fail_sys(err, PQS_E_USAGE, errno, "reading %s (name the directory of a run)", path);
    /* Not SQLITE_OPEN_READONLY: after a writer was killed in a transaction, the first reader has to roll it back. Where the
     * file cannot be written, SQLite reads only, by itself. */
    DB db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return pqs_fail(err, PQS_E_FAILED, "opening %s: %s", path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    /* Nothing that a foreign or damaged file brings along may write or run functions. */
    if (sqlite3_exec(db, "PRAGMA query_only=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; BEGIN", NULL, NULL,
                     NULL) != SQLITE_OK)
        return fail_db(db, err);
    int rc = check_identity(db, path, err);
    if (rc < 0)
        return rc;
    *ret_db = db;
    db = NULL;
    return 0;
}

static int setting_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    (void)err;
    pqs_run_set(into, column_text(stmt, 0), column_text(stmt, 1));
    return 0;
}

static int factor_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    struct pqs_arm *arm = into;
    if (arm->n_levels == PQS_FACTORS_MAX)
        return fail_damaged(stmt, 0, err);
    struct pqs_factor_level *level = &arm->levels[arm->n_levels++];
    int rc = column_copy(stmt, 0, level->factor, sizeof level->factor, err);
    return rc == 0 ? column_copy(stmt, 1, level->level, sizeof level->level, err) : rc;
}

static int arm_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    struct pqs_run *run = into;
    uint32_t id = 0;
    int rc = column_u32(stmt, 0, PQS_ARMS_MAX, &id, err);
    if (rc == 0 && id != run->n_arms) /* trials name arms by index: no gaps */
        rc = fail_damaged(stmt, 0, err);
    if (rc < 0)
        return rc;
    PQS_GROW(run->arms, run->n_arms, run->cap_arms);
    struct pqs_arm *arm = &run->arms[run->n_arms++];
    *arm = (struct pqs_arm){.hash = (uint64_t)sqlite3_column_int64(stmt, 2)};
    rc = column_copy(stmt, 1, arm->key, sizeof arm->key, err);
    if (rc == 0)
        rc = column_copy(stmt, 3, arm->name, sizeof arm->name, err);
    if (rc == 0)
        rc = each_row(sqlite3_db_handle(stmt), "SELECT name, level FROM factor WHERE arm = ? ORDER BY rowid", id, factor_row,
                      arm, err);
    return rc;
}

static int counter_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    unsigned side = 0;
    int rc = column_enum(stmt, 0, pqs_side_names, PQS_COUNT(pqs_side_names), &side, err);
    if (rc == 0)
        pqs_result_count(into, (enum pqs_side)side, column_text(stmt, 1), sqlite3_column_int64(stmt, 2));
    return rc;
}

static int fact_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    unsigned side = 0;
    int rc = column_enum(stmt, 0, pqs_side_names, PQS_COUNT(pqs_side_names), &side, err);
    if (rc == 0)
        pqs_result_fact(into, (enum pqs_side)side, column_text(stmt, 1), column_text(stmt, 2),
                        (uint64_t)sqlite3_column_int64(stmt, 3));
    return rc;
}

static int histogram_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    unsigned class = 0, phase = 0;
    int rc = column_enum(stmt, 0, pqs_class_names, PQS_CLASSES, &class, err);
    if (rc == 0)
        rc = column_enum(stmt, 1, pqs_phase_names, PQS_PHASES, &phase, err);
    if (rc < 0)
        return rc;
    struct pqs_hist *hist = NULL;
    const void *blob = sqlite3_column_blob(stmt, 2);
    rc = pqs_hist_decode(blob, (size_t)sqlite3_column_bytes(stmt, 2), &hist, err);
    if (rc < 0)
        return pqs_context(err, "%s: histogram %s.%s", sqlite3_db_filename(sqlite3_db_handle(stmt), "main"),
                           pqs_class_names[class], pqs_phase_names[phase]);
    pqs_result_hist(into, (enum pqs_class) class, (enum pqs_phase)phase, hist);
    return 0;
}

static int trial_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    struct pqs_run *run = into;
    PQS_GROW(run->trials, run->n_trials, run->cap_trials);
    struct pqs_trial *trial = &run->trials[run->n_trials++];
    *trial = (struct pqs_trial){0};
    int64_t id = sqlite3_column_int64(stmt, 0);
    unsigned state = 0;
    int rc = column_u32(stmt, 1, run->n_arms, &trial->arm, err);
    if (rc == 0)
        rc = column_u32(stmt, 2, ANY_U32, &trial->block, err);
    if (rc == 0)
        rc = column_u32(stmt, 3, ANY_U32, &trial->position, err);
    if (rc == 0)
        rc = column_enum(stmt, 4, pqs_trial_state_names, TRIAL_STATES, &state, err);
    trial->state = (enum pqs_trial_state)state;
    if (rc == 0)
        rc = column_copy(stmt, 5, trial->verdict, sizeof trial->verdict, err);
    if (rc == 0)
        rc = column_copy(stmt, 6, trial->started_utc, sizeof trial->started_utc, err);
    if (rc == 0)
        rc = column_copy(stmt, 7, trial->note, sizeof trial->note, err);

    sqlite3 *db = sqlite3_db_handle(stmt);
    if (rc == 0)
        rc = each_row(db, "SELECT side, name, value FROM counter WHERE trial = ? ORDER BY rowid", id, counter_row,
                      &trial->result, err);
    if (rc == 0)
        rc = each_row(db, "SELECT side, name, value, n FROM fact WHERE trial = ? ORDER BY rowid", id, fact_row,
                      &trial->result, err);
    if (rc == 0)
        rc = each_row(db, "SELECT class, phase, blob FROM histogram WHERE trial = ? ORDER BY rowid", id, histogram_row,
                      &trial->result, err);
    return rc;
}

static int event_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    struct pqs_run *run = into;
    char utc[sizeof run->events->utc];
    int rc = column_copy(stmt, 0, utc, sizeof utc, err);
    if (rc < 0)
        return rc;
    PQS_GROW(run->events, run->n_events, run->cap_events);
    struct pqs_event *event = &run->events[run->n_events++];
    *event = (struct pqs_event){.kind = pqs_strdup(column_text(stmt, 1)), .text = pqs_strdup(column_text(stmt, 2))};
    memcpy(event->utc, utc, sizeof utc);
    return 0;
}

int pqs_store_read(const char *dir, struct pqs_run *ret_run, struct pqs_err *err) {
    DB db = NULL;
    int rc = open_run(dir, &db, err);
    if (rc < 0)
        return rc;
    static const struct {
        const char *sql;
        int (*row)(sqlite3_stmt *stmt, void *into, struct pqs_err *err);
    } tables[] = {
        {"SELECT name, value FROM run ORDER BY rowid", setting_row},
        {"SELECT id, key, hash, name FROM arm ORDER BY id", arm_row},
        {"SELECT id, arm, block, position, state, verdict, started_utc, note FROM trial ORDER BY id", trial_row},
        {"SELECT utc, kind, text FROM event ORDER BY rowid", event_row},
    };
    struct pqs_run run = {0};
    for (size_t i = 0; i < PQS_COUNT(tables) && rc == 0; i++)
        rc = each_row(db, tables[i].sql, 0, tables[i].row, &run, err);
    if (rc < 0) {
        pqs_run_release(&run);
        return rc;
    }
    *ret_run = run;
    return 0;
}

static int sample_row(sqlite3_stmt *stmt, void *into, struct pqs_err *err) {
    const void *blob = sqlite3_column_blob(stmt, 0);
    size_t len = (size_t)sqlite3_column_bytes(stmt, 0);
    if (len == 0 || len % PQS_SAMPLE_BYTES != 0)
        return pqs_fail(err, PQS_E_FAILED, "%s is damaged: a sample chunk has %zu bytes (a multiple of %d is right)",
                        sqlite3_db_filename(sqlite3_db_handle(stmt), "main"), len, PQS_SAMPLE_BYTES);
    pqs_buf_add(into, blob, len);
    return 0;
}

int pqs_store_samples(const char *dir, uint32_t arm, uint32_t block, struct pqs_buf *ret_samples, struct pqs_err *err) {
    DB db = NULL;
    int rc = open_run(dir, &db, err);
    if (rc < 0)
        return rc;
    int64_t id = 0; /* SQLite's own row ids start at 1 */
    PQS_FREE char *sql = pqs_format("SELECT id FROM trial WHERE arm = ? AND block = %u", block);
    rc = each_row(db, sql, arm, int_row, &id, err);
    if (rc == 0 && id == 0)
        rc =
            pqs_fail(err, PQS_E_USAGE, "%s has no trial of arm %u in block %u", sqlite3_db_filename(db, "main"), arm, block);
    PQS_BUF samples = {0};
    if (rc == 0)
        rc = each_row(db, "SELECT blob FROM sample WHERE trial = ? ORDER BY chunk", id, sample_row, &samples, err);
    if (rc == 0 && samples.len > 0)
        pqs_buf_add(ret_samples, samples.data, samples.len);
    return rc;
}
