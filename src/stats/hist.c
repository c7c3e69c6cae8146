/* The histogram and its blob. The buckets are HdrHistogram's; the blob's compressed part is the format of its log files
 * (V2), written and read here: the library offers it only as base64, and its decoder trusts the lengths it is given, while
 * blobs come from files and from other processes. Must not know: what is measured. */
#include "stats/hist.h"

#include <hdr/hdr_histogram.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/mem.h"

#define TOP_NS INT64_C(3600000000000) /* 1 h */
#define DIGITS 3

struct pqs_hist {
    struct hdr_histogram buckets; /* never normalised (shifted), one unit is 1 ns */
    uint64_t n;
    uint64_t faults;
    unsigned __int128 sum; /* 64 bits would overflow after 5e6 values of 1 h */
    int64_t min, max;      /* 0 when empty */
};

struct pqs_hist *pqs_hist_new(void) {
    struct pqs_hist *h = pqs_calloc(1, sizeof *h);
    struct hdr_histogram_bucket_config config;
    if (hdr_calculate_bucket_config(1, TOP_NS, DIGITS, &config))
        abort(); /* constants: they are valid or this line was edited wrongly */
    hdr_init_preallocated(&h->buckets, &config);
    h->buckets.counts = pqs_calloc((size_t)h->buckets.counts_len, sizeof *h->buckets.counts);
    return h;
}

void pqs_hist_free(struct pqs_hist *h) {
    if (h)
        free(h->buckets.counts);
    free(h);
}

static void cleanup_hist(struct pqs_hist **h) {
    pqs_hist_free(*h);
}

static int64_t in_range(int64_t value_ns) {
    return value_ns < TOP_NS ? value_ns : TOP_NS;
}

void pqs_hist_add(struct pqs_hist *h, int64_t value_ns) {
    if (value_ns < 0) {
        h->faults++;
        return;
    }
    hdr_record_value(&h->buckets, in_range(value_ns));
    if (h->n == 0 || value_ns < h->min)
        h->min = value_ns;
    if (value_ns > h->max)
        h->max = value_ns;
    h->sum += (uint64_t)value_ns;
    h->n++;
}

void pqs_hist_merge(struct pqs_hist *into, const struct pqs_hist *from) {
    into->faults += from->faults;
    if (from->n == 0)
        return;
    hdr_add(&into->buckets, &from->buckets);
    if (into->n == 0 || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->sum += from->sum;
    into->n += from->n;
}

uint64_t pqs_hist_n(const struct pqs_hist *h) {
    return h->n;
}

uint64_t pqs_hist_faults(const struct pqs_hist *h) {
    return h->faults;
}

int64_t pqs_hist_min(const struct pqs_hist *h) {
    return h->min;
}

int64_t pqs_hist_max(const struct pqs_hist *h) {
    return h->max;
}

double pqs_hist_mean(const struct pqs_hist *h) {
    return h->n ? (double)h->sum / (double)h->n : NAN;
}

/* Not hdr_value_at_percentile: that rounds the rank to the nearest and answers with the bucket's upper end. */
double pqs_hist_quantile(const struct pqs_hist *h, double q) {
    if (h->n == 0)
        return NAN;
    /* q n is rounded: 0.07 * 100 is 7.000000000000001, whose ceiling is one too many. Four units less. */
    double rank = ceil(q * (double)h->n * (1 - 4 * 0x1p-52));
    double seen = 0;
    for (int32_t i = 0; i < h->buckets.counts_len; i++) {
        seen += (double)h->buckets.counts[i];
        if (seen > 0 && seen >= rank) {
            int64_t middle = hdr_median_equivalent_value(&h->buckets, hdr_value_at_index(&h->buckets, i));
            return fmin(fmax((double)middle, (double)h->min), (double)h->max);
        }
    }
    return (double)h->max;
}

/* --- The blob ---
 * u8 version, u64 LE n, faults, sum (low, high half), min, max; then, big-endian as HdrHistogram's V2 encoding has it: u32
 * cookie, u32 length, zlib stream of {header, counts}. Counts are ZigZag LEB128 of at most 9 bytes, the ninth with 8 bits; a
 * negative number stands for that many empty buckets; empty buckets at the end are left out. */

#define BLOB_VERSION 1
#define COMPRESSED_COOKIE UINT32_C(0x1c849314)
#define PLAIN_COOKIE UINT32_C(0x1c849313)
#define HEADER_BYTES 40
#define COUNT_BYTES_MAX 9

static void put_be(struct pqs_buf *b, uint64_t v, unsigned bytes) {
    while (bytes--)
        pqs_put_u8(b, (uint8_t)(v >> (8 * bytes)));
}

static uint32_t get_be32(struct pqs_cursor *c) {
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v = v << 8 | pqs_get_u8(c);
    return v;
}

/* The header is the same for every histogram of ours but for the length, so reading compares it with this. */
static void put_header(struct pqs_buf *b, size_t counts_bytes) {
    put_be(b, PLAIN_COOKIE, 4);
    put_be(b, counts_bytes, 4);
    put_be(b, 0, 4); /* not shifted */
    put_be(b, DIGITS, 4);
    put_be(b, 1, 8); /* lowest value */
    put_be(b, TOP_NS, 8);
    put_be(b, UINT64_C(0x3ff0000000000000), 8); /* conversion ratio: the double 1.0 */
}

static void put_count(struct pqs_buf *b, int64_t v) {
    uint64_t left = v < 0 ? ~((uint64_t)v << 1) : (uint64_t)v << 1;
    for (int i = 1; i < COUNT_BYTES_MAX && left >= 0x80; i++, left >>= 7)
        pqs_put_u8(b, (uint8_t)(left | 0x80));
    pqs_put_u8(b, (uint8_t)left);
}

static int64_t get_count(struct pqs_cursor *c) {
    uint64_t v = 0;
    for (unsigned i = 1, shift = 0; i <= COUNT_BYTES_MAX; i++, shift += 7) {
        uint8_t byte = pqs_get_u8(c);
        bool last = i == COUNT_BYTES_MAX || byte < 0x80;
        v |= (uint64_t)(last ? byte : byte & 0x7f) << shift;
        if (last)
            break;
    }
    return (int64_t)(v & 1 ? ~(v >> 1) : v >> 1);
}

static void put_counts(struct pqs_buf *b, const struct hdr_histogram *buckets) {
    int64_t empty = 0;
    for (int32_t i = 0; i < buckets->counts_len; i++) {
        if (buckets->counts[i] == 0) {
            empty++;
            continue;
        }
        if (empty)
            put_count(b, -empty);
        put_count(b, buckets->counts[i]);
        empty = 0;
    }
    if (buckets->total_count == 0)
        put_count(b, -1); /* HdrHistogram's own decoder does not take a stream without counts */
}

/* Fills the empty buckets; false unless the counts fit and sum to n. */
static bool get_counts(struct pqs_cursor *c, uint64_t n, struct hdr_histogram *buckets) {
    uint64_t at = 0, room = (uint64_t)buckets->counts_len, sum = 0;
    while (c->left) {
        int64_t v = get_count(c);
        if (c->bad || v == 0)
            return false;
        uint64_t step = v < 0 ? 0 - (uint64_t)v : 1;
        if (step > room - at)
            return false;
        if (v > 0) {
            if ((uint64_t)v > n - sum)
                return false;
            buckets->counts[at] = v;
            sum += (uint64_t)v;
        }
        at += step;
    }
    hdr_reset_internal_counters(buckets);
    return sum == n;
}

/* HdrHistogram's compressed V2 encoding. */
static void put_buckets(struct pqs_buf *out, const struct pqs_hist *h) {
    PQS_BUF counts = {0}, plain = {0};
    put_counts(&counts, &h->buckets);
    put_header(&plain, counts.len);
    pqs_buf_add(&plain, counts.data, counts.len);

    uLongf packed_len = compressBound(plain.len);
    PQS_FREE Bytef *packed = pqs_calloc(packed_len, 1);
    if (compress(packed, &packed_len, plain.data, plain.len) != Z_OK)
        abort(); /* the room is zlib's own bound: only a lack of memory is left */
    put_be(out, COMPRESSED_COOKIE, 4);
    put_be(out, packed_len, 4);
    pqs_buf_add(out, packed, packed_len);
}

void pqs_hist_encode(const struct pqs_hist *h, struct pqs_buf *out) {
    pqs_put_u8(out, BLOB_VERSION);
    pqs_put_u64(out, h->n);
    pqs_put_u64(out, h->faults);
    pqs_put_u64(out, (uint64_t)h->sum);
    pqs_put_u64(out, (uint64_t)(h->sum >> 64));
    pqs_put_u64(out, (uint64_t)h->min);
    pqs_put_u64(out, (uint64_t)h->max);
    put_buckets(out, h);
}

void pqs_hist_encode_base64(const struct pqs_hist *h, struct pqs_buf *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    PQS_BUF plain = {0};
    put_buckets(&plain, h);
    for (size_t i = 0; i < plain.len; i += 3) {
        size_t n = plain.len - i < 3 ? plain.len - i : 3;
        uint32_t bits = (uint32_t)plain.data[i] << 16;
        bits |= n > 1 ? (uint32_t)plain.data[i + 1] << 8 : 0;
        bits |= n > 2 ? (uint32_t)plain.data[i + 2] : 0;
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], digits[bits >> 6 & 63], digits[bits & 63]};
        memset(four + 1 + n, '=', 3 - n);
        pqs_buf_add(out, four, sizeof four);
    }
}

/* Whether the exact figures can belong to these buckets. n, min and max are below 2^63, so no product overflows 128 bits. */
static bool consistent(const struct pqs_hist *h) {
    if (h->n == 0)
        return h->sum == 0 && h->min == 0 && h->max == 0;
    unsigned __int128 n = h->n;
    return h->sum >= n * (uint64_t)h->min && h->sum <= n * (uint64_t)h->max &&
           hdr_values_are_equivalent(&h->buckets, in_range(h->min), hdr_min(&h->buckets)) &&
           hdr_values_are_equivalent(&h->buckets, in_range(h->max), hdr_max(&h->buckets));
}

int pqs_hist_decode(const void *data, size_t len, struct pqs_hist **ret_h, struct pqs_err *err) {
    struct pqs_cursor c = {.p = data, .left = len};
    unsigned version = pqs_get_u8(&c);
    if (!c.bad && version != BLOB_VERSION)
        return pqs_fail(err, PQS_E_FAILED, "histogram has version %u; this pqshake reads version %d", version, BLOB_VERSION);
    __attribute__((cleanup(cleanup_hist))) struct pqs_hist *h = pqs_hist_new();
    h->n = pqs_get_u64(&c);
    h->faults = pqs_get_u64(&c);
    h->sum = pqs_get_u64(&c);
    h->sum |= (unsigned __int128)pqs_get_u64(&c) << 64;
    uint64_t min = pqs_get_u64(&c), max = pqs_get_u64(&c);
    uint32_t cookie = get_be32(&c), packed_len = get_be32(&c);
    if (c.bad || packed_len != c.left)
        return pqs_fail(err, PQS_E_FAILED, "histogram of %zu bytes is cut short or has bytes too many", len);
    if (cookie != COMPRESSED_COOKIE)
        return pqs_fail(err, PQS_E_FAILED, "histogram has the mark %08x where HdrHistogram V2 has %08x", cookie,
                        COMPRESSED_COOKIE);
    if ((h->n | min | max) >> 63)
        return pqs_fail(err, PQS_E_FAILED, "histogram has a count, minimum or maximum of 2^63 or more");
    h->min = (int64_t)min;
    h->max = (int64_t)max;

    /* The room bounds what a small blob can make us unpack. */
    uLongf plain_len = HEADER_BYTES + COUNT_BYTES_MAX * (uLongf)h->buckets.counts_len;
    uLong used = packed_len;
    PQS_FREE Bytef *plain = pqs_calloc(plain_len, 1);
    int rc = uncompress2(plain, &plain_len, c.p, &used);
    if (rc != Z_OK || used != packed_len)
        return pqs_fail(err, PQS_E_FAILED, "histogram does not unpack: %s", rc == Z_OK ? "bytes too many" : zError(rc));
    PQS_BUF header = {0};
    put_header(&header, plain_len < HEADER_BYTES ? 0 : plain_len - HEADER_BYTES);
    if (plain_len < HEADER_BYTES || memcmp(plain, header.data, HEADER_BYTES) != 0)
        return pqs_fail(err, PQS_E_FAILED, "histogram is not one of 1 ns to 1 h with %d digits", DIGITS);
    struct pqs_cursor counts = {.p = plain + HEADER_BYTES, .left = plain_len - HEADER_BYTES};
    if (!get_counts(&counts, h->n, &h->buckets))
        return pqs_fail(err, PQS_E_FAILED, "histogram's buckets do not hold the %llu values it claims",
                        (unsigned long long)h->n);
    if (!consistent(h))
        return pqs_fail(err, PQS_E_FAILED, "histogram's minimum, maximum or sum contradicts its buckets");
    *ret_h = h;
    h = NULL;
    return 0;
}
