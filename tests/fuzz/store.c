/* Fuzz target: run.db, which people mail each other, and the report made of it. Two kinds of input: an SQLite file, or text
 * whose lines are rows, `TABLE<tab>VALUE<tab>...`, put into empty tables (x'...' is a blob): no fuzzer writes a B-tree. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "fuzz.h"
#include "report/report.h"
#include "store/schema.h"
#include "store/store.h"

static char dir[] = "/tmp/pqshake-fuzz-XXXXXX";
static char *path;

static void clean_up(void) {
    unlink(path);
    rmdir(dir);
    free(path);
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void bind(sqlite3_stmt *stmt, int i, const char *value) {
    size_t len = strlen(value);
    if (strncmp(value, "x'", 2) != 0) { /* STRICT tables turn digits into numbers, or refuse the row */
        MUST(sqlite3_bind_text(stmt, i, value, (int)len, SQLITE_TRANSIENT) == SQLITE_OK);
        return;
    }
    PQS_BUF blob = {0};
    for (const char *p = value + 2; digit(p[0]) >= 0 && digit(p[1]) >= 0; p += 2)
        pqs_put_u8(&blob, (uint8_t)(digit(p[0]) << 4 | digit(p[1])));
    MUST(sqlite3_bind_blob(stmt, i, blob.len ? (void *)blob.data : "", (int)blob.len, SQLITE_TRANSIENT) == SQLITE_OK);
}

static void insert(sqlite3 *db, char *line) {
    static const char *const tables[] = {"run", "arm", "factor", "trial", "histogram", "counter", "fact", "sample", "event"};
    char *values[16], *rest = line;
    int n = 0;
    while (rest && n < (int)PQS_COUNT(values))
        values[n++] = strsep(&rest, "\t");
    for (size_t t = 0; t < PQS_COUNT(tables); t++) {
        if (n < 2 || strcmp(values[0], tables[t]) != 0)
            continue;
        PQS_BUF sql = {0};
        pqs_buf_addf(&sql, "INSERT INTO %s VALUES (?", tables[t]);
        for (int i = 2; i < n; i++)
            pqs_buf_addf(&sql, ",?");
        pqs_buf_addf(&sql, ")");
        sqlite3_stmt *stmt = NULL;
        if (sqlite3_prepare_v2(db, pqs_buf_text(&sql), -1, &stmt, NULL) != SQLITE_OK)
            return; /* another number of columns */
        for (int i = 1; i < n; i++)
            bind(stmt, i, values[i]);
        sqlite3_step(stmt);
        sqlite3_finalize(stmt);
    }
}

static void write_rows(const uint8_t *data, size_t len) {
    sqlite3 *db = NULL;
    MUST(sqlite3_open(path, &db) == SQLITE_OK);
    MUST(sqlite3_exec(db, "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; BEGIN;" PQS_STORE_TABLES, NULL, NULL, NULL) ==
         SQLITE_OK);
    PQS_FREE char *identity =
        pqs_format("PRAGMA application_id=%d; PRAGMA user_version=%d", PQS_STORE_APPLICATION_ID, PQS_STORE_VERSION);
    MUST(sqlite3_exec(db, identity, NULL, NULL, NULL) == SQLITE_OK);
    PQS_FREE char *text = pqs_calloc(1, len + 1);
    memcpy(text, data, len);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        insert(db, line);
    MUST(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK);
    MUST(sqlite3_close(db) == SQLITE_OK);
}

/* No number in that JSON is nan or inf. Its strings come from the input and may hold anything. */
static bool only_finite(const struct pqs_buf *json) {
    bool in_string = false;
    for (size_t i = 0; i < json->len; i++) {
        char c = (char)json->data[i];
        if (c == '"')
            in_string = !in_string;
        else if (in_string)
            i += c == '\\';
        else if (c == 'i' || (c == 'n' && i + 1 < json->len && json->data[i + 1] == 'a'))
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static const char magic[] = "SQLite format 3";
    struct pqs_err err = {0};
    if (!path) {
        MUST(mkdtemp(dir));
        path = pqs_format("%s/%s", dir, PQS_STORE_FILE);
        atexit(clean_up);
    }
    unlink(path);
    if (len >= sizeof magic && memcmp(data, magic, sizeof magic) == 0)
        MUST(pqs_write_file(path, 0600, data, len, &err) == 0);
    else if (len > 0)
        write_rows(data, len);
    struct pqs_run run = {0};
    if (pqs_store_read(dir, &run, &err)) {
        MUST(*err.msg);
        return 0;
    }
    PQS_BUF samples = {0}, json = {0}, text = {0};
    if (pqs_store_samples(dir, 0, 0, &samples, &err) == 0)
        MUST(samples.len % PQS_SAMPLE_BYTES == 0);
    struct pqs_model *model = pqs_model_new(&run);
    pqs_report_json(model, &json);
    pqs_report_markdown(model, &text);
    MUST(json.len > 0 && text.len > 0 && only_finite(&json));
    pqs_model_free(model);
    pqs_run_release(&run);
    return 0;
}
