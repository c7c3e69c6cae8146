/* A growable byte buffer. Zero-initialise; release with pqs_buf_release (or PQS_BUF for locals). Data is always followed by
 * a NUL byte that len does not count, so text buffers can be printed. */
#ifndef PQS_BASE_BUF_H
#define PQS_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pqs_buf {
    uint8_t *data;
    size_t len;
    size_t cap;
};

void pqs_buf_release(struct pqs_buf *b);
#define PQS_BUF __attribute__((cleanup(pqs_buf_release))) struct pqs_buf

void pqs_buf_clear(struct pqs_buf *b); /* len = 0, keeps the memory */
void pqs_buf_add(struct pqs_buf *b, const void *data, size_t len);
void pqs_buf_addf(struct pqs_buf *b, const char *fmt, ...) PQS_PRINTF(2, 3);
const char *pqs_buf_text(const struct pqs_buf *b); /* "" when empty; valid until the next change */

/* Little-endian fields (the worker channel, run.db blobs). */
void pqs_put_u8(struct pqs_buf *b, uint8_t v);
void pqs_put_u32(struct pqs_buf *b, uint32_t v);
void pqs_put_u64(struct pqs_buf *b, uint64_t v);
void pqs_put_f64(struct pqs_buf *b, double v);
void pqs_put_bytes(struct pqs_buf *b, const void *data, size_t len); /* u32 length, then the bytes */
void pqs_put_str(struct pqs_buf *b, const char *s);

/* Reading: a cursor that turns bad once and stays bad; every get returns 0 / empty after that. Pointers point
 * into the source and are never NULL. */
struct pqs_cursor {
    const uint8_t *p;
    size_t left;
    bool bad;
};
uint8_t pqs_get_u8(struct pqs_cursor *c);
uint32_t pqs_get_u32(struct pqs_cursor *c);
uint64_t pqs_get_u64(struct pqs_cursor *c);
double pqs_get_f64(struct pqs_cursor *c);
const uint8_t *pqs_get_bytes(struct pqs_cursor *c, size_t *ret_len);
/* Copies a string into dst, NUL-terminated; turns bad when it does not fit or contains NUL. */
void pqs_get_str(struct pqs_cursor *c, char *dst, size_t dst_size);

/* Whole files. Reading stops with an error above max_bytes. */
PQS_MUST_CHECK int pqs_read_file(const char *path, size_t max_bytes, struct pqs_buf *ret_data, struct pqs_err *err);
/* Writes through a temporary name and rename(2), so that readers see the old or the new file. mode e.g. 0644, 0600. */
PQS_MUST_CHECK int pqs_write_file(const char *path, unsigned mode, const void *data, size_t len, struct pqs_err *err);

#endif
