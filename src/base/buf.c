/* The byte buffer, little-endian fields in and out of it, and whole files. Must not know: what the bytes mean. */
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

void pqs_buf_release(struct pqs_buf *b) {
    free(b->data);
    *b = (struct pqs_buf){0};
}

void pqs_buf_clear(struct pqs_buf *b) {
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

/* Makes room for n more bytes and the NUL. The sum cannot wrap: both the buffer and the bytes to add are in memory. */
static void reserve(struct pqs_buf *b, size_t n) {
    size_t need = b->len + n + 1;
    if (need <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    b->data = pqs_realloc(b->data, cap);
    b->cap = cap;
}

void pqs_buf_add(struct pqs_buf *b, const void *data, size_t len) {
    reserve(b, len);
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void pqs_buf_addf(struct pqs_buf *b, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    reserve(b, 0);
    size_t room = b->cap - b->len;
    int n = vsnprintf((char *)b->data + b->len, room, fmt, args);
    va_end(args);
    if (n > 0 && (size_t)n >= room) { /* cut short: once more, with room enough */
        reserve(b, (size_t)n);
        n = vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    b->len += n > 0 ? (size_t)n : 0;
    b->data[b->len] = '\0';
}

const char *pqs_buf_text(const struct pqs_buf *b) {
    return b->data ? (const char *)b->data : "";
}

static void put_le(struct pqs_buf *b, uint64_t v, size_t n) {
    uint8_t bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(v >> (8 * i));
    pqs_buf_add(b, bytes, n);
}

void pqs_put_u8(struct pqs_buf *b, uint8_t v) {
    put_le(b, v, 1);
}

void pqs_put_u32(struct pqs_buf *b, uint32_t v) {
    put_le(b, v, 4);
}

void pqs_put_u64(struct pqs_buf *b, uint64_t v) {
    put_le(b, v, 8);
}

void pqs_put_f64(struct pqs_buf *b, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_le(b, bits, 8);
}

void pqs_put_bytes(struct pqs_buf *b, const void *data, size_t len) {
    if (len > UINT32_MAX)
        abort(); /* a caller's mistake: bulk goes in chunks */
    pqs_put_u32(b, (uint32_t)len);
    pqs_buf_add(b, data, len);
}

void pqs_put_str(struct pqs_buf *b, const char *s) {
    pqs_put_bytes(b, s, strlen(s));
}

/* The next n bytes, or NULL and the cursor is bad. */
static const uint8_t *take(struct pqs_cursor *c, size_t n) {
    if (c->bad || n > c->left) {
        c->bad = true;
        return NULL;
    }
    const uint8_t *p = c->p;
    c->p += n;
    c->left -= n;
    return p;
}

static uint64_t get_le(struct pqs_cursor *c, size_t n) {
    const uint8_t *p = take(c, n);
    uint64_t v = 0;
    for (size_t i = 0; p && i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t pqs_get_u8(struct pqs_cursor *c) {
    return (uint8_t)get_le(c, 1);
}

uint32_t pqs_get_u32(struct pqs_cursor *c) {
    return (uint32_t)get_le(c, 4);
}

uint64_t pqs_get_u64(struct pqs_cursor *c) {
    return get_le(c, 8);
}

double pqs_get_f64(struct pqs_cursor *c) {
    uint64_t bits = get_le(c, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

const uint8_t *pqs_get_bytes(struct pqs_cursor *c, size_t *ret_len) {
    size_t len = pqs_get_u32(c);
    const uint8_t *p = take(c, len);
    *ret_len = p ? len : 0;
    return p ? p : (const uint8_t *)"";
}

void pqs_get_str(struct pqs_cursor *c, char *dst, size_t dst_size) {
    size_t len;
    const uint8_t *p = pqs_get_bytes(c, &len);
    if (len >= dst_size || memchr(p, '\0', len)) {
        c->bad = true;
        len = 0;
    }
    memcpy(dst, p, len);
    dst[len] = '\0';
}

int pqs_read_file(const char *path, size_t max_bytes, struct pqs_buf *ret_data, struct pqs_err *err) {
    PQS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot open %s", path);
    PQS_BUF data = {0};
    for (;;) { /* up to end of file: the sizes of /proc and /sys files say nothing */
        reserve(&data, 16384);
        ssize_t n = read(fd, data.data + data.len, 16384);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot read %s", path);
        data.len += (size_t)n;
        data.data[data.len] = '\0';
        if (n == 0)
            break;
        if (data.len > max_bytes)
            return pqs_fail(err, PQS_E_FAILED, "%s is larger than %zu bytes, the most that makes sense here", path,
                            max_bytes);
    }
    pqs_buf_release(ret_data);
    *ret_data = data;
    data = (struct pqs_buf){0};
    return 0;
}

static int write_all(int fd, const uint8_t *data, size_t len) {
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

int pqs_write_file(const char *path, unsigned mode, const void *data, size_t len, struct pqs_err *err) {
    /* Renaming over /dev/null, a pipe or a symbolic link would replace it: these are written to. */
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        PQS_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, (mode_t)mode);
        if (fd < 0 || write_all(fd, data, len))
            return pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot write %s", path);
        return 0;
    }
    PQS_FREE char *temp = pqs_format("%s.XXXXXX", path);
    PQS_CLOSE int fd = mkostemp(temp, O_CLOEXEC); /* mode 0600 until the content is there */
    if (fd < 0)
        return pqs_fail_sys(err, PQS_E_FAILED, errno, "cannot create a file beside %s", path);
    if (write_all(fd, data, len) || fchmod(fd, (mode_t)mode) || fsync(fd) || rename(temp, path)) {
        int sys = errno;
        unlink(temp);
        return pqs_fail_sys(err, PQS_E_FAILED, sys, "cannot write %s", path);
    }
    return 0;
}
