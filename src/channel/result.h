/* What a worker reports and run.db keeps: rows of counters, facts and histograms, and packed samples. New counters and facts
 * are new rows; nothing here changes. Names are lower case, dotted, at most 63 bytes; docs/RESULTS.md lists them. */
#ifndef PQS_CHANNEL_RESULT_H
#define PQS_CHANNEL_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct pqs_hist;

enum pqs_side { PQS_CLIENT = 0, PQS_SERVER = 1 };
extern const char *const pqs_side_names[2]; /* "client", "server" */

/* A histogram's class: which connections are in it. */
enum pqs_class {
    PQS_CLASS_FULL = 0,    /* full handshakes */
    PQS_CLASS_RESUMED = 1, /* PSK accepted */
    PQS_CLASS_RETRY = 2,   /* a HelloRetryRequest was seen */
    PQS_CLASS_FIRST = 3,   /* the first handshake of a fresh context (preflight): outside the window */
    PQS_CLASSES
};
/* A histogram's phase (METHOD 3, 4). request = scheduled -> done; service = started -> done; start_lag = scheduled ->
 * started; connect, tls, first_byte, body: the consecutive parts of service. */
enum pqs_phase {
    PQS_PHASE_REQUEST = 0,
    PQS_PHASE_SERVICE,
    PQS_PHASE_START_LAG,
    PQS_PHASE_CONNECT,
    PQS_PHASE_TLS,
    PQS_PHASE_FIRST_BYTE,
    PQS_PHASE_BODY,
    PQS_PHASES
};
extern const char *const pqs_class_names[PQS_CLASSES];
extern const char *const pqs_phase_names[PQS_PHASES];

struct pqs_counter {
    enum pqs_side side;
    char name[64];
    int64_t value;
};

/* "n connections (or 1 process) showed value for name"; e.g. client group=X25519MLKEM768 n=2999. */
struct pqs_fact {
    enum pqs_side side;
    char name[64];
    char value[256];
    uint64_t n;
};

struct pqs_hist_row {
    enum pqs_class class;
    enum pqs_phase phase;
    struct pqs_hist *hist; /* owned */
};

/* One connection, 64 bytes, all little-endian on the wire and in run.db. Times are nanoseconds: scheduled_ns since the start
 * of the window, the others since scheduled, non-decreasing; UINT64_MAX where the connection did not get so far. */
struct pqs_sample {
    uint64_t scheduled_ns;
    uint64_t started_ns;
    uint64_t tcp_ns;
    uint64_t tls_ns;
    uint64_t first_ns;
    uint64_t done_ns;
    uint32_t to_server_bytes; /* bytes on the TCP stream, TLS records included; saturating */
    uint32_t to_client_bytes;
    uint16_t failure; /* 0: completed; otherwise enum pqs_failure (channel/failure.h) */
    uint8_t phase;    /* of the failure: enum pqs_step */
    uint8_t class;    /* enum pqs_class */
    uint32_t thread;  /* generator thread */
};
#define PQS_SAMPLE_BYTES 64
#define PQS_SAMPLE_NONE UINT64_MAX

struct pqs_result {
    struct pqs_counter *counters;
    size_t n_counters, cap_counters;
    struct pqs_fact *facts;
    size_t n_facts, cap_facts;
    struct pqs_hist_row *hists;
    size_t n_hists, cap_hists;
    struct pqs_buf samples; /* packed, PQS_SAMPLE_BYTES each, in order of scheduling */
};

void pqs_result_release(struct pqs_result *r); /* leaves it zeroed and usable */

/* Adding. A counter or fact that is already there (same side and name / side, name and value) is added to. Text that is too
 * long is cut. */
void pqs_result_count(struct pqs_result *r, enum pqs_side side, const char *name, int64_t add);
void pqs_result_fact(struct pqs_result *r, enum pqs_side side, const char *name, const char *value, uint64_t n);
/* Takes ownership of hist; merges it when the row is there already. */
void pqs_result_hist(struct pqs_result *r, enum pqs_class class, enum pqs_phase phase, struct pqs_hist *hist);

/* Reading. */
int64_t pqs_result_get(const struct pqs_result *r, enum pqs_side side, const char *name, int64_t if_missing);
/* The value with the largest n, or NULL; *ret_others (may be NULL) = how many connections showed another value. */
const char *pqs_result_fact_of(const struct pqs_result *r, enum pqs_side side, const char *name, uint64_t *ret_others);
/* NULL when there is none. */
const struct pqs_hist *pqs_result_hist_of(const struct pqs_result *r, enum pqs_class class, enum pqs_phase phase);

void pqs_sample_put(struct pqs_buf *b, const struct pqs_sample *s);
void pqs_sample_get(const uint8_t packed[static PQS_SAMPLE_BYTES], struct pqs_sample *ret_s);

/* Codec: counters, facts and histograms (samples travel in messages of their own). Decoding adds to *r. */
void pqs_result_encode(const struct pqs_result *r, struct pqs_buf *out);
PQS_MUST_CHECK int pqs_result_decode(const void *data, size_t len, struct pqs_result *r, struct pqs_err *err);

#endif
