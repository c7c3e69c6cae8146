/* Histogram, quantile rule (field case F21), Student's t and paired comparison. Table values of t: any printed table; the
 * closed forms for 1 and 2 degrees of freedom are computed here. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "stats/compare.h"
#include "stats/hist.h"
#include "stats/quantile.h"

#define HOUR_NS INT64_C(3600000000000)
#define SEED 20261130

static void free_hist(struct pqs_hist **h) {
    pqs_hist_free(*h);
}
#define HIST __attribute__((cleanup(free_hist))) struct pqs_hist

/* Fails with both values; NAN is near NAN only. */
static void near_(double got, double want, double tolerance, int line) {
    if (isnan(got) && isnan(want))
        return;
    if (!(fabs(got - want) <= tolerance))
        fail_msg("line %d: got %.17g, expected %.17g within %g", line, got, want, tolerance);
}
#define assert_near(got, want, tolerance) near_(got, want, tolerance, __LINE__)
#define assert_exactly(got, want) near_(got, want, 0, __LINE__)
#define assert_nan(got) near_(got, NAN, 0, __LINE__)

static void add_one_to(struct pqs_hist *h, int64_t n) {
    for (int64_t v = 1; v <= n; v++)
        pqs_hist_add(h, v);
}

/* --- Histogram --- */

static void empty_histogram_says_nothing(void **state) {
    (void)state;
    HIST *h = pqs_hist_new();
    assert_int_equal(pqs_hist_n(h), 0);
    assert_int_equal(pqs_hist_faults(h), 0);
    assert_int_equal(pqs_hist_min(h), 0);
    assert_int_equal(pqs_hist_max(h), 0);
    assert_nan(pqs_hist_mean(h));
    assert_nan(pqs_hist_quantile(h, 0.5));
    pqs_hist_free(NULL);
}

static void minimum_maximum_and_mean_are_exact(void **state) {
    (void)state;
    HIST *h = pqs_hist_new();
    pqs_hist_add(h, 123456789); /* none of these is a bucket's end or middle */
    assert_int_equal(pqs_hist_min(h), 123456789);
    assert_exactly(pqs_hist_quantile(h, 0.5), 123456789);
    pqs_hist_add(h, 10000019);
    pqs_hist_add(h, 987654323);
    assert_int_equal(pqs_hist_n(h), 3);
    assert_int_equal(pqs_hist_min(h), 10000019);
    assert_int_equal(pqs_hist_max(h), 987654323);
    assert_exactly(pqs_hist_mean(h), (123456789. + 10000019. + 987654323.) / 3);
    pqs_hist_add(h, 0);
    assert_int_equal(pqs_hist_min(h), 0);
    assert_int_equal(pqs_hist_n(h), 4);
}

static void three_digits_from_a_nanosecond_to_an_hour(void **state) {
    (void)state;
    for (double exact = 1; exact <= (double)HOUR_NS; exact = exact * 1.0137 + 1) {
        int64_t v = (int64_t)exact;
        HIST *h = pqs_hist_new();
        pqs_hist_add(h, 0); /* others on both sides, so that the clamp to [min, max] cannot help */
        pqs_hist_add(h, v);
        pqs_hist_add(h, INT64_MAX);
        assert_near(pqs_hist_quantile(h, 0.5), (double)v, 0.0005 * (double)v);
    }
}

static void over_an_hour_is_kept_exactly_beside_the_buckets(void **state) {
    (void)state;
    HIST *h = pqs_hist_new();
    pqs_hist_add(h, 1);
    for (int i = 0; i < 3; i++)
        pqs_hist_add(h, INT64_MAX); /* three of them do not fit 64 bits */
    assert_int_equal(pqs_hist_n(h), 4);
    assert_int_equal(pqs_hist_max(h), INT64_MAX);
    assert_near(pqs_hist_mean(h), 0.75 * 0x1p63, 0x1p12);
    assert_near(pqs_hist_quantile(h, 0.5), (double)HOUR_NS, 0.0005 * (double)HOUR_NS);
}

static void negative_interval_is_a_fault_not_a_zero(void **state) {
    (void)state;
    HIST *h = pqs_hist_new();
    pqs_hist_add(h, -1);
    pqs_hist_add(h, INT64_MIN);
    assert_int_equal(pqs_hist_faults(h), 2);
    assert_int_equal(pqs_hist_n(h), 0);
    pqs_hist_add(h, 5);
    assert_int_equal(pqs_hist_min(h), 5);
    assert_exactly(pqs_hist_mean(h), 5);
}

static void quantile_is_the_sample_at_the_rank(void **state) {
    (void)state;
    static const struct {
        int64_t n;
        double q;
        int64_t want;
    } rows[] = {
        {100, 0.5, 50},     {100, 0.9, 90},       {100, 0.95, 95},      {100, 0.99, 99}, {10, 0.55, 6}, {10, 0.5, 5},
        {10, 0.05, 1},      {1, 0.01, 1},         {1, 0.999, 1},        {3, 0.5, 2},     {2, 0.5, 1},   {2, 0.51, 2},
        {100, 0.07, 7},     {100, 0.55, 55},      {100, 0.14, 14}, /* q n is just above an integer in double */
        {1000, 0.999, 999}, {1000, 0.9991, 1000}, {2000, 0.9995, 1999},
    };
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        HIST *h = pqs_hist_new();
        add_one_to(h, rows[i].n); /* up to 2047 a bucket is one value */
        assert_exactly(pqs_hist_quantile(h, rows[i].q), (double)rows[i].want);
    }
}

static int64_t random_latency(struct pqs_rng *rng) {
    int64_t v = (int64_t)exp(pqs_rng_unit(rng) * 30); /* 1 ns to 3 h */
    return pqs_rng_below(rng, 50) == 0 ? -v : v;
}

static void merging_equals_the_union(void **state) {
    (void)state;
    HIST *a = pqs_hist_new();
    HIST *b = pqs_hist_new();
    HIST *all = pqs_hist_new();
    struct pqs_rng rng = pqs_rng_stream(SEED, "latency", 0, 0);
    for (int i = 0; i < 20000; i++) {
        int64_t v = random_latency(&rng);
        pqs_hist_add(i % 3 ? a : b, v);
        pqs_hist_add(all, v);
    }
    assert_true(pqs_hist_faults(all) > 0 && pqs_hist_max(all) > HOUR_NS);
    HIST *merged = pqs_hist_new();
    HIST *nothing = pqs_hist_new();
    pqs_hist_merge(merged, nothing);
    pqs_hist_merge(merged, a);
    pqs_hist_merge(merged, b);
    pqs_hist_merge(merged, nothing);
    assert_int_equal(pqs_hist_n(merged), pqs_hist_n(all));
    assert_int_equal(pqs_hist_faults(merged), pqs_hist_faults(all));
    assert_int_equal(pqs_hist_min(merged), pqs_hist_min(all));
    assert_int_equal(pqs_hist_max(merged), pqs_hist_max(all));
    assert_exactly(pqs_hist_mean(merged), pqs_hist_mean(all));
    for (double q = 0.001; q < 1; q += 0.0111)
        assert_exactly(pqs_hist_quantile(merged, q), pqs_hist_quantile(all, q));
    PQS_BUF one = {0}, other = {0};
    pqs_hist_encode(merged, &one);
    pqs_hist_encode(all, &other);
    assert_int_equal(one.len, other.len);
    assert_memory_equal(one.data, other.data, one.len);
}

/* --- Blob --- */

/* Offsets of its exact figures, and of the last byte of the big-endian length that follows the mark of the packed part. */
enum { AT_N = 1, AT_SUM = 17, AT_SUM_HIGH = 25, AT_MIN = 33, AT_MAX = 41, EXACT_BYTES = 49, PACKED_LEN_AT = 56 };

static void assert_refused(const void *data, size_t len, const char *what) {
    struct pqs_hist *h = NULL;
    struct pqs_err err = {0};
    if (pqs_hist_decode(data, len, &h, &err) != PQS_E_FAILED)
        fail_msg("taken: %s", what);
    assert_null(h);
    assert_int_equal(err.code, PQS_E_FAILED);
    assert_string_not_equal(err.msg, "");
    assert_int_equal(pqs_hist_decode(data, len, &h, NULL), PQS_E_FAILED);
}

static void assert_round_trip(const struct pqs_hist *h) {
    PQS_BUF blob = {0}, again = {0};
    pqs_put_u32(&blob, 0xfeedface); /* encoding appends */
    pqs_hist_encode(h, &blob);
    HIST *back = NULL;
    struct pqs_err err = {0};
    if (pqs_hist_decode(blob.data + 4, blob.len - 4, &back, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(pqs_hist_n(back), pqs_hist_n(h));
    assert_int_equal(pqs_hist_faults(back), pqs_hist_faults(h));
    assert_int_equal(pqs_hist_min(back), pqs_hist_min(h));
    assert_int_equal(pqs_hist_max(back), pqs_hist_max(h));
    assert_exactly(pqs_hist_mean(back), pqs_hist_mean(h));
    for (double q = 0.001; q < 1; q += 0.0111)
        assert_exactly(pqs_hist_quantile(back, q), pqs_hist_quantile(h, q));
    pqs_hist_encode(back, &again);
    assert_int_equal(again.len, blob.len - 4);
    assert_memory_equal(again.data, blob.data + 4, again.len);
    pqs_hist_add(back, 77); /* what was read can be added to */
    assert_int_equal(pqs_hist_n(back), pqs_hist_n(h) + 1);
}

/* Merges a copy of h into h, n times. */
static void double_up(struct pqs_hist *h, int n) {
    while (n--) {
        HIST *copy = pqs_hist_new();
        pqs_hist_merge(copy, h);
        pqs_hist_merge(h, copy);
    }
}

static void blob_round_trip(void **state) {
    (void)state;
    HIST *h = pqs_hist_new();
    assert_round_trip(h);
    pqs_hist_add(h, -5);
    assert_round_trip(h);
    pqs_hist_add(h, 0);
    assert_round_trip(h);
    for (int i = 0; i < 4; i++)
        pqs_hist_add(h, INT64_MAX);
    assert_round_trip(h);
    struct pqs_rng rng = pqs_rng_stream(SEED, "latency", 1, 0);
    for (int i = 0; i < 20000; i++)
        pqs_hist_add(h, random_latency(&rng));
    assert_round_trip(h);
    double_up(h, 47); /* counts of all lengths */
    assert_true(pqs_hist_n(h) >> 61);
    assert_round_trip(h);
    HIST *most = pqs_hist_new();
    pqs_hist_add(most, 5);
    double_up(most, 62); /* the ninth byte is full */
    pqs_hist_add(most, 6);
    assert_int_equal(pqs_hist_n(most), (UINT64_C(1) << 62) + 1);
    assert_round_trip(most);
}

static void cut_or_lengthened_blob_is_refused(void **state) {
    (void)state;
    HIST *h = pqs_hist_new();
    add_one_to(h, 500);
    PQS_BUF blob = {0};
    pqs_hist_encode(h, &blob);
    for (size_t len = 0; len < blob.len; len++) {
        void *exact = pqs_calloc(len, 1); /* its own allocation, so that reading beyond it is seen */
        if (len)
            memcpy(exact, blob.data, len);
        assert_refused(exact, len, "a blob cut short");
        free(exact);
    }
    pqs_put_u8(&blob, 0);
    assert_refused(blob.data, blob.len, "a blob with a byte too many");
    blob.data[PACKED_LEN_AT]++;
    assert_true(blob.data[PACKED_LEN_AT] > 0);
    assert_refused(blob.data, blob.len, "a byte too many that the length includes");
    struct pqs_hist *none = NULL;
    struct pqs_err err;
    assert_int_equal(pqs_hist_decode("", 0, &none, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "cut short"));
}

static void damaged_blob_never_crashes(void **state) {
    (void)state;
    HIST *h = pqs_hist_new();
    pqs_hist_add(h, 1000);
    pqs_hist_add(h, 2000000);
    pqs_hist_add(h, -1);
    PQS_BUF blob = {0};
    pqs_hist_encode(h, &blob);
    size_t refused = 0;
    for (size_t bit = 0; bit < 8 * blob.len; bit++) {
        blob.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        HIST *back = NULL;
        struct pqs_err err = {0};
        if (pqs_hist_decode(blob.data, blob.len, &back, &err) == 0)
            assert_round_trip(back); /* a fault counter or a sum that is possible too */
        else
            refused++;
        if (bit / 8 < 9 || (bit / 8 >= EXACT_BYTES && bit / 8 < EXACT_BYTES + 8)) /* version, n; mark, length */
            assert_null(back);
        blob.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(refused > 8 * blob.len / 2);

    struct pqs_rng rng = pqs_rng_stream(SEED, "noise", 0, 0);
    for (int i = 0; i < 2000; i++) {
        uint8_t noise[200];
        size_t len = pqs_rng_below(&rng, sizeof noise);
        for (size_t k = 0; k < len; k++)
            noise[k] = (uint8_t)pqs_rng_next(&rng);
        if (i % 2)
            noise[0] = 1; /* past the version */
        assert_refused(noise, len, "noise");
    }
}

static void put_be32(struct pqs_buf *b, uint32_t v) {
    for (int shift = 24; shift >= 0; shift -= 8)
        pqs_put_u8(b, (uint8_t)(v >> shift));
}

/* The blob of one value of 1 ns, spelled out, with the offsets in the packed part's header. */
enum { AT_COOKIE = 0, AT_LENGTH = 4, AT_SHIFT = 8, AT_DIGITS = 12, AT_LOWEST = 16, AT_HIGHEST = 24, AT_RATIO = 32 };
static const char genuine_exact[] = "\1"
                                    "\1\0\0\0\0\0\0\0"                 /* n */
                                    "\0\0\0\0\0\0\0\0"                 /* faults */
                                    "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" /* sum */
                                    "\1\0\0\0\0\0\0\0"                 /* min */
                                    "\1\0\0\0\0\0\0\0";                /* max */
static const char genuine_header[] = "\x1c\x84\x93\x13"
                                     "\0\0\0\2"
                                     "\0\0\0\0"
                                     "\0\0\0\3"
                                     "\0\0\0\0\0\0\0\1"
                                     "\0\0\3\x46\x30\xb8\xa0\0" /* 3.6e12 */
                                     "\x3f\xf0\0\0\0\0\0";      /* 1.0; the last byte is the text's own NUL */
static const char genuine_counts[] = "\1\2";                    /* one empty bucket, then one value */

struct patch {
    const char *bytes; /* NULL: no change */
    size_t n;
    size_t at;
};
struct forgery {
    const char *what;
    struct patch exact;  /* over the exact figures */
    struct patch header; /* over the header of the packed part, whose length is right unless patched */
    struct patch counts; /* instead of the counts */
};
#define EXACT(where, text) .exact = {text, sizeof(text) - 1, where}
#define HEADER(where, text) .header = {text, sizeof(text) - 1, where}
#define COUNTS(text) .counts = {text, sizeof(text) - 1, 0}

static void forge(const struct forgery *f, struct pqs_buf *blob) {
    pqs_buf_add(blob, genuine_exact, EXACT_BYTES);
    if (f->exact.bytes)
        memcpy(blob->data + f->exact.at, f->exact.bytes, f->exact.n);
    const char *counts = f->counts.bytes ? f->counts.bytes : genuine_counts;
    size_t n = f->counts.bytes ? f->counts.n : sizeof genuine_counts - 1;
    PQS_BUF plain = {0};
    pqs_buf_add(&plain, genuine_header, sizeof genuine_header);
    for (unsigned i = 0; i < 4; i++)
        plain.data[AT_LENGTH + i] = (uint8_t)(n >> (24 - 8 * i));
    if (f->header.bytes)
        memcpy(plain.data + f->header.at, f->header.bytes, f->header.n);
    pqs_buf_add(&plain, counts, n);
    uLongf packed_len = compressBound(plain.len);
    PQS_FREE uint8_t *packed = pqs_calloc(packed_len, 1);
    assert_int_equal(compress(packed, &packed_len, plain.data, plain.len), Z_OK);
    put_be32(blob, 0x1c849314);
    put_be32(blob, (uint32_t)packed_len);
    pqs_buf_add(blob, packed, packed_len);
}

#define TWO_TO_62 "\x80\x80\x80\x80\x80\x80\x80\x80\x80"
#define TWO_TO_63_LESS_1 "\xfe\xff\xff\xff\xff\xff\xff\xff\xff"

/* Well-formed zlib streams with hostile contents: what an intact checksum does not keep out. */
static void forged_blob_is_refused(void **state) {
    (void)state;
    PQS_BUF genuine = {0}, own = {0};
    forge(&(struct forgery){.what = "nothing changed"}, &genuine);
    HIST *h = pqs_hist_new();
    pqs_hist_add(h, 1);
    pqs_hist_encode(h, &own);
    assert_int_equal(genuine.len, own.len); /* so the forgeries differ from a good blob only in what they say */
    assert_memory_equal(genuine.data, own.data, own.len);

    static const struct forgery rows[] = {
        {"version 2", EXACT(0, "\2")},
        {"n 2 of 1", EXACT(AT_N, "\2")},
        {"n 0 of 1", EXACT(AT_N, "\0")},
        {"n 2^63 + 1", EXACT(AT_N, "\1\0\0\0\0\0\0\x80")},
        {"n 2^63, really",
         EXACT(AT_N, "\0\0\0\0\0\0\0\x80"
                     "\0\0\0\0\0\0\0\0"
                     "\0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0\0"
                     "\1\0\0\0\0\0\0\0"
                     "\2\0\0\0\0\0\0\0"),
         COUNTS("\1" TWO_TO_62 TWO_TO_62)},
        {"figures of no values", EXACT(AT_N, "\0"), COUNTS("\1")},
        {"sum 2", EXACT(AT_SUM, "\2")},
        {"sum 0", EXACT(AT_SUM, "\0")},
        {"sum over 2^64", EXACT(AT_SUM_HIGH, "\1")},
        {"min 0", EXACT(AT_MIN, "\0")},
        {"min 2", EXACT(AT_MIN, "\2")},
        {"min negative", EXACT(AT_MIN, "\xff\xff\xff\xff\xff\xff\xff\xff")},
        {"max 2", EXACT(AT_MAX, "\2")},
        {"max 0", EXACT(AT_MAX, "\0")},
        {"max negative", EXACT(AT_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff")},
        {"cookie of V1", HEADER(AT_COOKIE, "\x1c\x84\x93\x01")},
        {"length -1", HEADER(AT_LENGTH, "\xff\xff\xff\xff")},
        {"length 2^31 - 1", HEADER(AT_LENGTH, "\x7f\xff\xff\xff")},
        {"length 1 of 2", HEADER(AT_LENGTH, "\0\0\0\1")},
        {"shifted", HEADER(AT_SHIFT, "\x7f\xff\xff\xff")},
        {"5 digits", HEADER(AT_DIGITS, "\0\0\0\5")},
        {"lowest value 0", HEADER(AT_LOWEST, "\0\0\0\0\0\0\0\0")},
        {"highest value 2^63 - 1", HEADER(AT_HIGHEST, "\x7f\xff\xff\xff\xff\xff\xff\xff")},
        {"ratio not a number", HEADER(AT_RATIO, "\x7f\xf8\0\0\0\0\0\1")},
        {"no counts", COUNTS("")},
        {"a count of zero", COUNTS("\1\2\0")},
        {"a cut count", COUNTS("\1\2\x81")},
        {"two of one", COUNTS("\1\4")},
        {"a second value", COUNTS("\1\2\2")},
        {"in another bucket", COUNTS("\3\2")},
        {"sums to 1 by overflow", EXACT(AT_MAX, "\3"), COUNTS("\1" TWO_TO_63_LESS_1 TWO_TO_63_LESS_1 "\6")},
        {"2^63 empty buckets", COUNTS("\xff\xff\xff\xff\xff\xff\xff\xff\xff\2")},
        {"2^31 empty buckets", COUNTS("\xff\xff\xff\xff\xf\2")},
        {"a value beyond the last bucket", COUNTS("\xff\x8f\4\2")},
        {"empty buckets beyond the last", COUNTS("\1\2\xff\x8f\4")},
    };
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        PQS_BUF blob = {0};
        forge(&rows[i], &blob);
        assert_refused(blob.data, blob.len, rows[i].what);
    }

    PQS_FREE char *zeros = pqs_calloc(64 << 20, 1);
    PQS_BUF bomb = {0};
    forge(&(struct forgery){.what = "64 MB of counts", .counts = {zeros, 64 << 20, 0}}, &bomb);
    assert_true(bomb.len < 100000);
    assert_refused(bomb.data, bomb.len, "64 MB of counts");
}

/* --- Quantile rule --- */

static void quantiles_need_samples(void **state) {
    (void)state;
    static const struct {
        int64_t n;
        size_t supported; /* of p50, p75, p90, p95, p99, p99.9 in this order */
    } rows[] = {{0, 0},   {1, 0},   {7, 0},   {19, 0},  {20, 1},   {39, 1},   {40, 2},   {99, 2},
                {100, 3}, {199, 3}, {200, 4}, {999, 4}, {1000, 5}, {9999, 5}, {10000, 6}};
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        HIST *h = pqs_hist_new();
        add_one_to(h, rows[i].n);
        size_t k = 0;
        for (const struct pqs_quantile *row = pqs_quantiles; row->id; row++, k++) {
            double got = pqs_quantile_of(h, row);
            if (k >= rows[i].supported)
                assert_nan(got);
            else {
                double want = ceil(row->q * (double)rows[i].n - 1e-9);
                assert_near(got, want, 0.0005 * want);
            }
        }
        assert_int_equal(k, 6);
    }
}

static void quantile_rows_follow_the_rule(void **state) {
    (void)state;
    for (const struct pqs_quantile *row = pqs_quantiles; row->id; row++) {
        assert_ptr_equal(pqs_quantile_find(row->id), row);
        assert_true(row == pqs_quantiles || row->q > row[-1].q);
        assert_near((1 - row->q) * (double)row->min_n, 10, 1e-9); /* ten samples beyond it */
    }
    assert_string_equal(pqs_quantile_find("p999")->label, "p99.9");
    assert_null(pqs_quantile_find("p98"));
    assert_null(pqs_quantile_find(""));
}

/* --- Student's t --- */

static void t_matches_the_tables(void **state) {
    (void)state;
    static const struct {
        double p, df, want;
    } rows[] = {
        {0.975, 1, 12.7062047},   {0.975, 2, 4.30265273},    {0.975, 4, 2.77644511},    {0.975, 5, 2.57058184},
        {0.975, 9, 2.26215716},   {0.975, 30, 2.04227246},   {0.975, 1000, 1.96233908}, {0.80, 4, 0.94096458},
        {0.80, 9, 0.88340386},    {0.80, 30, 0.85376726},    {0.995, 1, 63.6567412},    {0.995, 9, 3.24983554},
        {0.975, 1e6, 1.95996636}, {0.995, 1000, 2.58075470},
    };
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        assert_near(pqs_t_quantile(rows[i].p, rows[i].df), rows[i].want, rows[i].want > 10 ? 6e-8 : 6e-9);
        assert_near(pqs_t_quantile(1 - rows[i].p, rows[i].df), -rows[i].want, rows[i].want > 10 ? 6e-8 : 6e-9);
    }
}

static void t_matches_its_closed_forms(void **state) {
    (void)state;
    for (double tail = 0x1p-21; tail < 0.5; tail *= 1.37) { /* down to x = 7e5 for 1 degree of freedom */
        long double q = tail, pi = acosl(-1.0L);
        assert_near(pqs_t_quantile(tail, 1), (double)(-1 / tanl(pi * q)), 1e-9);
        assert_near(pqs_t_quantile(tail, 2), (double)(-(1 - 2 * q) / sqrtl(2 * q * (1 - q))), 1e-9);
    }
}

static void t_is_symmetric_and_ordered(void **state) {
    (void)state;
    static const double degrees[] = {1, 1.5, 2, 3, 9, 19, 100, 12345, 1e6};
    for (size_t i = 0; i < PQS_COUNT(degrees); i++) {
        assert_exactly(pqs_t_quantile(0.5, degrees[i]), 0);
        double last = 0;
        for (int k = 2; k < 50; k++) { /* p = 1 - 2^-k is exact, and so is its mirror image */
            double x = pqs_t_quantile(1 - ldexp(1, -k), degrees[i]);
            assert_exactly(pqs_t_quantile(ldexp(1, -k), degrees[i]), -x);
            assert_true(x > last);
            last = x;
        }
        if (i)
            assert_true(pqs_t_quantile(0.975, degrees[i]) < pqs_t_quantile(0.975, degrees[i - 1]));
    }
    assert_near(pqs_t_quantile(0.5 + 0x1p-30, 9), 0x1p-30 / 0.388034909, 1e-15); /* the density at 0, df 9 */
}

static void t_of_nonsense_is_not_known(void **state) {
    (void)state;
    static const double bad[][2] = {{0, 9},   {1, 9},    {-0.1, 9},  {1.1, 9},  {NAN, 9},
                                    {0.9, 0}, {0.9, -1}, {0.9, NAN}, {0.9, 1e7}};
    for (size_t i = 0; i < PQS_COUNT(bad); i++)
        assert_nan(pqs_t_quantile(bad[i][0], bad[i][1]));
}

/* --- Paired comparison --- */

static void mean_deviation_and_median(void **state) {
    (void)state;
    double x[] = {5, 1, 4, 2};
    assert_exactly(pqs_mean(x, 4), 3);
    assert_near(pqs_sd(x, 4), sqrt((4. + 4 + 1 + 1) / 3), 1e-15);
    assert_exactly(pqs_median(x, 4), 3);
    assert_exactly(pqs_median(x, 3), 4);
    assert_exactly(pqs_median(x, 1), 5);
    assert_exactly(x[0], 5); /* unchanged */
    assert_exactly(x[3], 2);
    double equal[7], huge[] = {DBL_MAX, DBL_MAX}, hole[] = {1, NAN, 2};
    for (size_t i = 0; i < 7; i++)
        equal[i] = 0.1;
    assert_exactly(pqs_mean(equal, 7), 0.1);
    assert_exactly(pqs_sd(equal, 7), 0);
    assert_exactly(pqs_median(huge, 2), DBL_MAX);
    assert_nan(pqs_median(hole, 3));
    assert_nan(pqs_mean(x, 0));
    assert_nan(pqs_sd(x, 0));
    assert_nan(pqs_sd(x, 1));
    assert_nan(pqs_median(x, 0));
}

static struct pqs_paired compare(const double *baseline, const double *arm, size_t n) {
    struct pqs_paired p;
    memset(&p, 0xaa, sizeof p);
    pqs_compare(baseline, arm, n, SEED, &p);
    return p;
}

/* The differences d themselves: the baseline is zero. */
static struct pqs_paired compare_to_zero(const double *d, size_t n) {
    PQS_FREE double *zero = pqs_calloc(n, sizeof *zero);
    return compare(zero, d, n);
}

static void assert_no_interval(const struct pqs_paired *p) {
    assert_nan(p->delta_lo);
    assert_nan(p->delta_hi);
    assert_nan(p->ratio_lo);
    assert_nan(p->ratio_hi);
    assert_nan(p->detectable);
    assert_nan(p->p_value);
    assert_false(p->differs);
}

/* d = 3 2 3 2 5: mean 15/5 = 3; squared deviations 0 1 0 1 4 sum to 6, s^2 = 6/4 = 1.5; standard error sqrt(1.5/5) =
 * 0.547722558. Interval 3 +- 2.776445105 * 0.547722558 = 3 +- 1.520721612. Detectable (2.776445105 + 0.940964577) *
 * 0.547722558 = 2.036109139. */
static void paired_interval_by_hand(void **state) {
    (void)state;
    static const double baseline[] = {100, 102, 98, 101, 99}, arm[] = {103, 104, 101, 103, 104};
    struct pqs_paired p = compare(baseline, arm, 5);
    assert_int_equal(p.n, 5);
    assert_exactly(p.delta, 3);
    assert_near(p.delta_lo, 1.479278388, 2e-9);
    assert_near(p.delta_hi, 4.520721612, 2e-9);
    assert_near(p.detectable, 2.036109139, 2e-9);
    assert_true(p.differs);
    assert_nan(p.p_value); /* five pairs cannot reach 0.05 */

    struct pqs_paired back = compare(arm, baseline, 5);
    assert_exactly(back.delta, -p.delta);
    assert_near(back.delta_lo, -p.delta_hi, 1e-12);
    assert_near(back.delta_hi, -p.delta_lo, 1e-12);
    assert_near(back.ratio, 1 / p.ratio, 1e-12);
    assert_near(back.ratio_lo, 1 / p.ratio_hi, 1e-12);
    assert_exactly(back.detectable, p.detectable);
    assert_true(back.differs);
}

/* Ratios 2 8 4 2 4: log2 1 3 2 1 2, mean 9/5 = 1.8; squared deviations 0.64 1.44 0.04 0.64 0.04 sum to 2.8, s^2 = 0.7;
 * standard error sqrt(0.7/5) = 0.374165739; interval 1.8 +- 2.776445105 * 0.374165739 = 1.8 +- 1.038850634. */
static void ratio_interval_by_hand(void **state) {
    (void)state;
    static const double baseline[] = {100, 50, 200, 10, 1}, arm[] = {200, 400, 800, 20, 4};
    struct pqs_paired p = compare(baseline, arm, 5);
    assert_near(p.ratio, exp2(1.8), 1e-12);
    assert_near(p.ratio_lo, exp2(0.761149366), 1e-8);
    assert_near(p.ratio_hi, exp2(2.838850634), 1e-8);
}

static void ratio_needs_positive_figures(void **state) {
    (void)state;
    static const double good[] = {1, 2, 3, 4, 5, 6}, zero[] = {1, 2, 0, 4, 5, 6}, negative[] = {1, 2, -3, 4, 5, 6};
    const double *const sides[][2] = {{good, zero},     {zero, good}, {good, negative},
                                      {negative, good}, {zero, zero}, {negative, negative}};
    for (size_t i = 0; i < PQS_COUNT(sides); i++) {
        struct pqs_paired p = compare(sides[i][0], sides[i][1], 6);
        assert_int_equal(p.n, 6); /* the difference does not mind */
        assert_true(isfinite(p.delta) && isfinite(p.delta_lo) && isfinite(p.p_value));
        assert_nan(p.ratio);
        assert_nan(p.ratio_lo);
        assert_nan(p.ratio_hi);
    }
}

static void four_blocks_have_no_interval(void **state) {
    (void)state;
    static const double baseline[] = {1, 1, 1, 1}, arm[] = {9, 9.5, 9, 9.5};
    struct pqs_paired p = compare(baseline, arm, 4);
    assert_int_equal(p.n, 4);
    assert_exactly(p.delta, 8.25);
    assert_near(p.ratio, sqrt(9 * 9.5), 1e-12);
    assert_no_interval(&p);
    p = compare(baseline, arm, 1);
    assert_exactly(p.delta, 8);
    assert_no_interval(&p);
    p = compare(baseline, arm, 0);
    assert_int_equal(p.n, 0);
    assert_nan(p.delta);
    assert_nan(p.ratio);
    assert_no_interval(&p);
}

static void pairs_with_an_unknown_figure_are_dropped(void **state) {
    (void)state;
    static const double baseline[] = {5, NAN, 7, 8, 6, 4, 5, 9, INFINITY, 3};
    static const double arm[] = {6, 1, 9, 8.5, INFINITY, 5, 7, 11, 2, NAN};
    static const double kept_baseline[] = {5, 7, 8, 4, 5, 9}, kept_arm[] = {6, 9, 8.5, 5, 7, 11};
    struct pqs_paired p = compare(baseline, arm, 10), q = compare(kept_baseline, kept_arm, 6);
    assert_int_equal(p.n, 6);
    assert_int_equal(q.n, 6);
    assert_exactly(p.delta, q.delta);
    assert_exactly(p.delta_lo, q.delta_lo);
    assert_exactly(p.ratio_hi, q.ratio_hi);
    assert_exactly(p.p_value, q.p_value);
    assert_exactly(p.detectable, q.detectable);
    assert_true(isfinite(p.detectable));
    p = compare(baseline, arm, 6); /* four of six are left: under the minimum */
    assert_int_equal(p.n, 4);
    assert_no_interval(&p);
}

static void constant_differences(void **state) {
    (void)state;
    static const double ten[] = {10, 20, 30, 40, 50, 60}, shifted[] = {12, 22, 32, 42, 52, 62};
    struct pqs_paired p = compare(ten, shifted, 6);
    assert_exactly(p.delta_lo, 2);
    assert_exactly(p.delta_hi, 2);
    assert_exactly(p.detectable, 0);
    assert_true(p.differs);
    assert_exactly(p.p_value, 2. / 64);
    p = compare(ten, ten, 6);
    assert_exactly(p.delta, 0);
    assert_exactly(p.delta_lo, 0);
    assert_exactly(p.delta_hi, 0);
    assert_exactly(p.ratio_lo, 1);
    assert_exactly(p.ratio_hi, 1);
    assert_exactly(p.p_value, 1);
    assert_false(p.differs);
}

/* d = -2 4 1 3 -1: mean 1, s^2 = (9 + 9 + 0 + 4 + 4)/4 = 6.5; half width 2.776 * sqrt(6.5/5) = 3.17: spans zero. */
static void interval_over_zero_is_no_difference(void **state) {
    (void)state;
    static const double d[] = {-2, 4, 1, 3, -1};
    struct pqs_paired p = compare_to_zero(d, 5);
    assert_near(p.delta_hi - 1, 2.776445105 * sqrt(1.3), 1e-8);
    assert_true(p.delta_lo < 0 && p.delta_hi > 0);
    assert_false(p.differs);
    assert_true(p.detectable > p.delta_hi - p.delta); /* power costs something on top of significance */
}

static void permutation_p_is_exact(void **state) {
    (void)state;
    static const double positive[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    assert_nan(compare_to_zero(positive, 5).p_value); /* floor 2^-4 */
    for (size_t n = 6; n <= 16; n++)                  /* only the flip of all is as extreme */
        assert_exactly(compare_to_zero(positive, n).p_value, ldexp(2, -(int)n));
    /* All flips negate values that add up to at most 1 (the observed one does): {} and {1}; times two sides. */
    static const double one_against[] = {6, 5, 4, 3, 2, -1};
    assert_exactly(compare_to_zero(one_against, 6).p_value, 4. / 64);
    /* Ties: none, one, five or six negative of six: 1 + 6 + 6 + 1. */
    static const double ties[] = {1, 1, 1, 1, 1, -1};
    assert_exactly(compare_to_zero(ties, 6).p_value, 14. / 64);
    /* Subsets of {1 .. 6} with a sum of at most 6: 1 1 1 2 2 3 4 = 14; two sides. Tenths are not exact in binary. */
    static const double tenths[] = {0.1, 0.2, 0.3, 0.4, 0.5, -0.6};
    assert_exactly(compare_to_zero(tenths, 6).p_value, 28. / 64);
}

static void permutation_p_is_sampled_above_16_pairs(void **state) {
    (void)state;
    double d[70] = {0};
    for (size_t i = 0; i < 20; i++)
        d[i] = i < 5 ? -1 : 1;
    /* At most 5 of 20 negative, or at most 5 positive: 2 (1 + 20 + 190 + 1140 + 4845 + 15504) / 2^20 = 0.04139; the sampled
     * p has a standard deviation of sqrt(0.04139 * 0.95861 / 20000) = 0.0014. */
    double p = compare_to_zero(d, 20).p_value;
    assert_near(p, 0.04139, 4 * 0.0014);
    assert_exactly(compare_to_zero(d, 20).p_value, p);
    assert_near(p * 20001, round(p * 20001), 1e-9); /* (1 + hits) / (1 + 20000) */
    struct pqs_paired other;
    double zero[20] = {0};
    pqs_compare(zero, d, 20, SEED + 1, &other);
    assert_near(other.p_value, 0.04139, 4 * 0.0014);
    assert_true(other.p_value != p); /* the seed matters */

    for (size_t i = 0; i < 17; i++)
        d[i] = 1 + (double)i;
    p = compare_to_zero(d, 17).p_value; /* never zero, whatever was drawn */
    assert_true(p >= 1. / 20001 && p <= 5. / 20001);

    memset(d, 0, sizeof d); /* signs beyond the 64th are drawn for themselves: 12 values of one sign, 2 / 4096 */
    for (size_t i = 0; i < 6; i++)
        d[i] = d[64 + i] = 1;
    assert_near(compare_to_zero(d, 70).p_value, 2. / 4096, 4 * 0.000156);
}

/* y = 1 2 4 4 over x = 0 1 2 3: xx 5, xy 5.5, slope 1.1, residuals -0.1 -0.2 0.7 -0.4, rest 0.7; s^2 = 0.35,
 * t = 1.1 / sqrt(0.35 / 5) = 4.1576. With 2 degrees of freedom P(|T| > t) = 1 - t / sqrt(2 + t^2). */
static void trend_by_hand(void **state) {
    (void)state;
    static const double x[] = {0, 1, 2, 3}, y[] = {1, 2, 4, 4}, level[] = {7, 7, 7, 7}, line[] = {5, 3, 1, -1};
    struct pqs_trend t = pqs_trend(x, y, 4);
    double want_t = 1.1 / sqrt(0.35 / 5);
    assert_near(t.slope, 1.1, 1e-12);
    assert_near(t.p_value, 1 - want_t / sqrt(2 + want_t * want_t), 1e-12);
    t = pqs_trend(x, level, 4);
    assert_exactly(t.slope, 0);
    assert_exactly(t.p_value, 1);
    t = pqs_trend(x, line, 4);
    assert_exactly(t.slope, -2);
    assert_exactly(t.p_value, 0);
    assert_nan(pqs_trend(level, y, 4).slope); /* nothing varies along x */
    assert_nan(pqs_trend(x, y, 2).p_value);
    assert_nan(pqs_trend(x, y, 0).slope);
    /* Groups -1: 1 2, 1: 4 4: half of 2.5; pooled s^2 = 0.5 / 2, t = 2.5 / sqrt(0.25) = 5. */
    static const double group[] = {-1, -1, 1, 1};
    t = pqs_trend(group, y, 4);
    assert_near(t.slope, 1.25, 1e-12);
    assert_near(t.p_value, 1 - 5 / sqrt(27), 1e-12);
}

static void furthest_by_hand(void **state) {
    (void)state;
    size_t i;
    static const double x[] = {3, 1, 2, 20, 4}; /* median 3, deviations 0 2 1 17 1: their median 1 */
    assert_near(pqs_furthest(x, 5, &i), 17 / 1.4826, 1e-12);
    assert_int_equal(i, 3);
    static const double low[] = {3, 1, 2, -20, 4}; /* median 2 */
    assert_near(pqs_furthest(low, 5, &i), 22 / (1.4826 * 1), 1e-12);
    assert_int_equal(i, 3);
    static const double equal[] = {5, 5, 5, 9};
    assert_nan(pqs_furthest(equal, 4, &i));
    assert_nan(pqs_furthest(x, 2, &i));
    assert_nan(pqs_furthest(x, 0, &i));
}

static double normal(struct pqs_rng *rng) { /* Box and Muller */
    double u = 1 - pqs_rng_unit(rng), v = pqs_rng_unit(rng);
    return sqrt(-2 * log(u)) * cos(2 * acos(-1) * v);
}

/* What the numbers promise, on 2,000 synthetic runs of 10 blocks: blocks drift much (sd 20), arms differ by `shift` with
 * sd 1. */
static void simulate(double shift, size_t *ret_covered, size_t *ret_differ, size_t *ret_p_below) {
    *ret_covered = *ret_differ = *ret_p_below = 0;
    for (uint64_t run = 0; run < 2000; run++) {
        struct pqs_rng rng = pqs_rng_stream(SEED, "normal", run, 0);
        double baseline[10], arm[10];
        for (size_t i = 0; i < 10; i++) {
            baseline[i] = 1000 + 20 * normal(&rng);
            arm[i] = baseline[i] + shift + normal(&rng);
        }
        struct pqs_paired p = compare(baseline, arm, 10);
        *ret_covered += p.delta_lo <= shift && shift <= p.delta_hi;
        *ret_differ += p.differs;
        *ret_p_below += p.p_value <= 0.05;
    }
}

static void interval_covers_95_percent(void **state) {
    (void)state;
    size_t covered, differ, p_below;
    simulate(5, &covered, &differ, &p_below);
    assert_in_range(covered, 1860, 1940); /* 93 to 97 % */
    assert_in_range(differ, 1990, 2000);
    simulate(0, &covered, &differ, &p_below); /* an arm against itself: 5 % false alarms */
    assert_in_range(differ, 60, 140);
    assert_int_equal(differ, 2000 - covered);
    assert_in_range(p_below, 60, 140);
}

/* On 2,000 runs without any trend, p is below 5 % in 5 % of them; a robust deviation over 5 is rarer than 1 in 20. */
static void trend_alarms_are_as_rare_as_they_say(void **state) {
    (void)state;
    size_t below = 0, outliers = 0, ignored;
    for (uint64_t run = 0; run < 2000; run++) {
        struct pqs_rng rng = pqs_rng_stream(SEED, "trend", run, 0);
        double x[10], y[10];
        for (size_t i = 0; i < 10; i++) {
            x[i] = (double)i;
            y[i] = normal(&rng);
        }
        below += pqs_trend(x, y, 10).p_value < 0.05;
        outliers += pqs_furthest(y, 10, &ignored) > 5;
    }
    assert_in_range(below, 60, 140);
    assert_in_range(outliers, 20, 100);
}

static void detectable_difference_is_seen_80_percent_of_the_time(void **state) {
    (void)state;
    size_t covered, differ, p_below;
    simulate((2.26215716 + 0.88340386) / sqrt(10), &covered, &differ, &p_below);
    assert_in_range(differ, 1500, 1700); /* 75 to 85 % */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_histogram_says_nothing),
        cmocka_unit_test(minimum_maximum_and_mean_are_exact),
        cmocka_unit_test(three_digits_from_a_nanosecond_to_an_hour),
        cmocka_unit_test(over_an_hour_is_kept_exactly_beside_the_buckets),
        cmocka_unit_test(negative_interval_is_a_fault_not_a_zero),
        cmocka_unit_test(quantile_is_the_sample_at_the_rank),
        cmocka_unit_test(merging_equals_the_union),
        cmocka_unit_test(blob_round_trip),
        cmocka_unit_test(cut_or_lengthened_blob_is_refused),
        cmocka_unit_test(damaged_blob_never_crashes),
        cmocka_unit_test(forged_blob_is_refused),
        cmocka_unit_test(quantiles_need_samples),
        cmocka_unit_test(quantile_rows_follow_the_rule),
        cmocka_unit_test(t_matches_the_tables),
        cmocka_unit_test(t_matches_its_closed_forms),
        cmocka_unit_test(t_is_symmetric_and_ordered),
        cmocka_unit_test(t_of_nonsense_is_not_known),
        cmocka_unit_test(mean_deviation_and_median),
        cmocka_unit_test(paired_interval_by_hand),
        cmocka_unit_test(ratio_interval_by_hand),
        cmocka_unit_test(ratio_needs_positive_figures),
        cmocka_unit_test(four_blocks_have_no_interval),
        cmocka_unit_test(pairs_with_an_unknown_figure_are_dropped),
        cmocka_unit_test(constant_differences),
        cmocka_unit_test(interval_over_zero_is_no_difference),
        cmocka_unit_test(permutation_p_is_exact),
        cmocka_unit_test(permutation_p_is_sampled_above_16_pairs),
        cmocka_unit_test(trend_by_hand),
        cmocka_unit_test(furthest_by_hand),
        cmocka_unit_test(trend_alarms_are_as_rare_as_they_say),
        cmocka_unit_test(interval_covers_95_percent),
        cmocka_unit_test(detectable_difference_is_seen_80_percent_of_the_time),
    };
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
