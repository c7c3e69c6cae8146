/* Writing run.db: one transaction per trial. Must not know what the rows mean. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "stats/hist.h"
#include "store/schema.h"

/* How long a commit waits for readers, which hold a shared lock while they read. */
#define BUSY_TIMEOUT_MS 60000

struct pqs_store {
    sqlite3 *db;
    int lock_fd; /* the run's directory, locked */
};

/* One value to insert. */
struct value {
    enum { VALUE_INT, VALUE_TEXT, VALUE_BLOB } type;
    int64_t integer;
    const void *data; /* text or blob */
    size_t len;       /* of a blob */
};
#define INT(x) ((struct value){.type = VALUE_INT, .integer = (int64_t)(x)})
#define TEXT(x) ((struct value){.type = VALUE_TEXT, .data = (x)})
#define BLOB(p, n) ((struct value){.type = VALUE_BLOB, .data = (p), .len = (n)})
/* The last two arguments of insert. */
#define ROW(...) (const struct value[]){__VA_ARGS__}, PQS_COUNT(((const struct value[]){__VA_ARGS__}))

static int fail_db(sqlite3 *db, struct pqs_err *err, const char *what) {
    return pqs_fail(err, PQS_E_FAILED, "%s %s: %s", what, sqlite3_db_filename(db, "main"), sqlite3_errmsg(db));
}

static int execute(sqlite3 *db, const char *sql, struct pqs_err *err) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail_db(db, err, "writing");
}

static int bind(sqlite3_stmt *stmt, int index, const struct value *value) {
    switch (value->type) {
    case VALUE_INT:
        return sqlite3_bind_int64(stmt, index, value->integer);
    case VALUE_TEXT:
        return sqlite3_bind_text(stmt, index, value->data, -1, SQLITE_STATIC);
    case VALUE_BLOB:
        return sqlite3_bind_blob64(stmt, index, value->data, value->len, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

static int insert(sqlite3 *db, struct pqs_err *err, const char *sql, const struct value *values, size_t n) {
    sqlite3_stmt *stmt = NULL;
    int status = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    for (size_t i = 0; i < n && status == SQLITE_OK; i++)
        status = bind(stmt, (int)i + 1, &values[i]);
    if (status == SQLITE_OK)
        status = sqlite3_step(stmt);
    int rc = status == SQLITE_DONE ? 0 : fail_db(db, err, "writing");
    sqlite3_finalize(stmt);
    return rc;
}

/* Ends a transaction: commits when rc is 0 so far, otherwise (or when that fails) rolls back. */
static int end_transaction(sqlite3 *db, int rc, struct pqs_err *err) {
    if (rc == 0)
        rc = execute(db, "COMMIT", err);
    if (rc < 0)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL); /* may be rolled back already: nothing to add to the error */
    return rc;
}

static int write_arm(sqlite3 *db, size_t id, const struct pqs_arm *arm, struct pqs_err *err) {
    int rc = insert(db, err, "INSERT INTO arm (id, key, hash, name) VALUES (?, ?, ?, ?)",
                    ROW(INT(id), TEXT(arm->key), INT(arm->hash), TEXT(arm->name)));
    for (size_t i = 0; i < arm->n_levels && rc == 0; i++)
        rc = insert(db, err, "INSERT INTO factor (arm, name, level) VALUES (?, ?, ?)",
                    ROW(INT(id), TEXT(arm->levels[i].factor), TEXT(arm->levels[i].level)));
    return rc;
}

static int write_run(sqlite3 *db, const struct pqs_run *run, struct pqs_err *err) {
    /* IMMEDIATE: the tables, settings and arms appear together or not at all. */
    int rc = execute(db, "BEGIN IMMEDIATE", err);
    if (rc < 0)
        return rc;
    PQS_BUF pragmas = {0};
    pqs_buf_addf(&pragmas, "PRAGMA application_id=%d; PRAGMA user_version=%d;", PQS_STORE_APPLICATION_ID, PQS_STORE_VERSION);
    rc = execute(db, pqs_buf_text(&pragmas), err);
    if (rc == 0)
        rc = execute(db, PQS_STORE_TABLES, err);
    for (size_t i = 0; i < run->n_settings && rc == 0; i++)
        rc = insert(db, err, "INSERT INTO run (name, value) VALUES (?, ?)",
                    ROW(TEXT(run->settings[i].name), TEXT(run->settings[i].value)));
    for (size_t i = 0; i < run->n_arms && rc == 0; i++)
        rc = write_arm(db, i, &run->arms[i], err);
    return end_transaction(db, rc, err);
}

/* The lock that keeps a second writer out is on the directory and outside SQLite, whose own exclusive mode would lock
 * readers out too. It goes with the process, however that ends, and is not inherited by the workers (O_CLOEXEC). */
static int lock_directory(const char *dir, int *ret_fd, struct pqs_err *err) {
    PQS_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return pqs_fail_sys(err, PQS_E_USAGE, errno, "opening the run's directory %s", dir);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return pqs_fail(err, PQS_E_USAGE, "another process is writing a run in %s: wait for it or choose another --out",
                            dir);
        return pqs_fail_sys(err, PQS_E_ENV, errno, "locking the run's directory %s", dir);
    }
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int pqs_store_create(const char *dir, const struct pqs_run *run, struct pqs_store **ret_store, struct pqs_err *err) {
    PQS_FREE char *path = pqs_format("%s/%s", dir, PQS_STORE_FILE);
    PQS_CLOSE int lock_fd = -1;
    int rc = lock_directory(dir, &lock_fd, err);
    if (rc < 0)
        return rc;
    if (access(path, F_OK) == 0)
        return pqs_fail(err, PQS_E_USAGE, "%s exists and is never overwritten: choose another --out", path);

    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        rc = pqs_fail(err, PQS_E_FAILED, "creating %s: %s", path, sqlite3_errmsg(db));
    if (rc == 0) {
        sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
        rc = execute(db, "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;", err);
    }
    if (rc == 0)
        rc = write_run(db, run, err);
    if (rc < 0) {
        sqlite3_close(db);
        unlink(path); /* it was made here and holds nothing: the next try with this --out must not stumble over it */
        return rc;
    }
    struct pqs_store *store = pqs_calloc(1, sizeof *store);
    store->db = db;
    store->lock_fd = lock_fd;
    lock_fd = -1;
    *ret_store = store;
    return 0;
}

static int write_samples(sqlite3 *db, int64_t trial, const struct pqs_buf *samples, struct pqs_err *err) {
    int rc = 0;
    for (size_t at = 0, chunk = 0; at < samples->len && rc == 0; chunk++) {
        size_t left = samples->len - at;
        size_t len = left < PQS_STORE_CHUNK_BYTES ? left : PQS_STORE_CHUNK_BYTES;
        rc = insert(db, err, "INSERT INTO sample (trial, chunk, blob) VALUES (?, ?, ?)",
                    ROW(INT(trial), INT(chunk), BLOB(samples->data + at, len)));
        at += len;
    }
    return rc;
}

static int write_result(sqlite3 *db, int64_t trial, const struct pqs_result *result, struct pqs_err *err) {
    int rc = 0;
    for (size_t i = 0; i < result->n_hists && rc == 0; i++) {
        const struct pqs_hist_row *row = &result->hists[i];
        PQS_BUF blob = {0};
        pqs_hist_encode(row->hist, &blob);
        rc = insert(db, err, "INSERT INTO histogram (trial, class, phase, blob) VALUES (?, ?, ?, ?)",
                    ROW(INT(trial), TEXT(pqs_class_names[row->class]), TEXT(pqs_phase_names[row->phase]),
                        BLOB(blob.data, blob.len)));
    }
    for (size_t i = 0; i < result->n_counters && rc == 0; i++) {
        const struct pqs_counter *row = &result->counters[i];
        rc = insert(db, err, "INSERT INTO counter (trial, side, name, value) VALUES (?, ?, ?, ?)",
                    ROW(INT(trial), TEXT(pqs_side_names[row->side]), TEXT(row->name), INT(row->value)));
    }
    for (size_t i = 0; i < result->n_facts && rc == 0; i++) {
        const struct pqs_fact *row = &result->facts[i];
        rc = insert(db, err, "INSERT INTO fact (trial, side, name, value, n) VALUES (?, ?, ?, ?, ?)",
                    ROW(INT(trial), TEXT(pqs_side_names[row->side]), TEXT(row->name), TEXT(row->value), INT(row->n)));
    }
    return rc == 0 ? write_samples(db, trial, &result->samples, err) : rc;
}

int pqs_store_add_trial(struct pqs_store *store, const struct pqs_trial *trial, struct pqs_err *err) {
    sqlite3 *db = store->db;
    int rc = execute(db, "BEGIN IMMEDIATE", err);
    if (rc < 0)
        return rc;
    rc = insert(db, err,
                "INSERT INTO trial (arm, block, position, state, verdict, started_utc, note) VALUES (?, ?, ?, ?, ?, ?, ?)",
                ROW(INT(trial->arm), INT(trial->block), INT(trial->position), TEXT(pqs_trial_state_names[trial->state]),
                    TEXT(trial->verdict), TEXT(trial->started_utc), TEXT(trial->note)));
    if (rc == 0)
        rc = write_result(db, sqlite3_last_insert_rowid(db), &trial->result, err);
    rc = end_transaction(db, rc, err);
    return rc < 0 ? pqs_context(err, "trial of arm %u in block %u", trial->arm, trial->block) : 0;
}

int pqs_store_add_event(struct pqs_store *store, const char *kind, const char *text, struct pqs_err *err) {
    char utc[24];
    pqs_utc(utc);
    return insert(store->db, err, "INSERT INTO event (utc, kind, text) VALUES (?, ?, ?)",
                  ROW(TEXT(utc), TEXT(kind), TEXT(text)));
}

void pqs_store_close(struct pqs_store *store) {
    if (!store)
        return;
    sqlite3_close(store->db);
    close(store->lock_fd); /* unlocks */
    free(store);
}
