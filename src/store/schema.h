/* The tables of run.db, shared by writer and reader and private to this folder. docs/RESULTS.md explains them to users.
 *
 *   run        one row per setting: what was asked, and by which tool
 *   arm        id 0, 1, ... in the plan's order; factor holds its levels, in the order that the name shows them
 *   trial      one row per trial, by ascending id in the order of execution; an arm has at most one trial in a block
 *   histogram  latencies of one class and phase (pqs_hist_encode)
 *   counter, fact   as the workers reported them
 *   sample     packed connections (64 bytes each, struct pqs_sample), in chunks so that no value grows without bound
 *   event      what happened to the run as a whole
 *
 * Enumerations are stored by name, so that a query needs no key to them. u64 values (hash, n) are stored as SQLite's signed
 * 64-bit integers with the same bits. */
#ifndef PQS_STORE_SCHEMA_H
#define PQS_STORE_SCHEMA_H

#define PQS_STORE_FILE "run.db"
#define PQS_STORE_APPLICATION_ID 0x70717368 /* "pqsh": tells a run from any other SQLite file (PRAGMA application_id) */
#define PQS_STORE_CHUNK_BYTES (8u << 20)    /* of a sample blob at most; a multiple of PQS_SAMPLE_BYTES */

#define PQS_STORE_TABLES                                                                                                    \
    "CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;"                                                 \
    "CREATE TABLE arm (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, hash INTEGER NOT NULL, name TEXT NOT NULL) "       \
    "STRICT;"                                                                                                               \
    "CREATE TABLE factor (arm INTEGER NOT NULL REFERENCES arm, name TEXT NOT NULL, level TEXT NOT NULL,"                    \
    " PRIMARY KEY (arm, name)) STRICT;"                                                                                     \
    "CREATE TABLE trial (id INTEGER PRIMARY KEY, arm INTEGER NOT NULL REFERENCES arm, block INTEGER NOT NULL,"              \
    " position INTEGER NOT NULL, state TEXT NOT NULL, verdict TEXT NOT NULL, started_utc TEXT NOT NULL, note TEXT NOT "     \
    "NULL,"                                                                                                                 \
    " UNIQUE (arm, block)) STRICT;"                                                                                         \
    "CREATE TABLE histogram (trial INTEGER NOT NULL REFERENCES trial, class TEXT NOT NULL, phase TEXT NOT NULL,"            \
    " blob BLOB NOT NULL, PRIMARY KEY (trial, class, phase)) STRICT;"                                                       \
    "CREATE TABLE counter (trial INTEGER NOT NULL REFERENCES trial, side TEXT NOT NULL, name TEXT NOT NULL,"                \
    " value INTEGER NOT NULL, PRIMARY KEY (trial, side, name)) STRICT;"                                                     \
    "CREATE TABLE fact (trial INTEGER NOT NULL REFERENCES trial, side TEXT NOT NULL, name TEXT NOT NULL,"                   \
    " value TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (trial, side, name, value)) STRICT;"                             \
    "CREATE TABLE sample (trial INTEGER NOT NULL REFERENCES trial, chunk INTEGER NOT NULL, blob BLOB NOT NULL,"             \
    " PRIMARY KEY (trial, chunk)) STRICT;"                                                                                  \
    "CREATE TABLE event (utc TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL) STRICT;"

#endif
