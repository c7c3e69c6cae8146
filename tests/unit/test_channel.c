/* The worker channel: codecs, framing, failure names. Damaged input is refused, and never read beyond its end (ASan). */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "channel/failure.h"
#include "channel/message.h"
#include "channel/result.h"
#include "channel/spec.h"
#include "stats/hist.h"

/* ---- results ---- */

static struct pqs_hist *make_hist(int64_t first, int n) {
    struct pqs_hist *h = pqs_hist_new();
    for (int i = 0; i < n; i++)
        pqs_hist_add(h, first + i * INT64_C(1013));
    return h;
}

static void fill_result(struct pqs_result *r) {
    pqs_result_count(r, PQS_CLIENT, "completed", 2999);
    pqs_result_count(r, PQS_SERVER, "completed", 3000);
    pqs_result_count(r, PQS_CLIENT, "smallest", INT64_MIN);
    pqs_result_count(r, PQS_CLIENT, "largest", INT64_MAX);
    pqs_result_fact(r, PQS_CLIENT, "group", "X25519MLKEM768", 2990);
    pqs_result_fact(r, PQS_CLIENT, "group", "X25519", 9);
    pqs_result_fact(r, PQS_SERVER, "cpus", "", 1);
    pqs_result_fact(r, PQS_SERVER, "many", "x", UINT64_MAX);
    pqs_result_hist(r, PQS_CLASS_FULL, PQS_PHASE_REQUEST, make_hist(300000, 500));
    pqs_result_hist(r, PQS_CLASS_FIRST, PQS_PHASE_BODY, make_hist(7, 1));
}

static void encode_result(const struct pqs_result *r, struct pqs_buf *out) {
    pqs_buf_clear(out);
    pqs_result_encode(r, out);
}

static void assert_same_bytes(const struct pqs_buf *a, const struct pqs_buf *b) {
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->data, b->data, a->len);
}

static void result_adds_and_finds(void **state) {
    (void)state;
    struct pqs_result r = {0};
    fill_result(&r);
    pqs_result_count(&r, PQS_CLIENT, "completed", 1);
    assert_int_equal(pqs_result_get(&r, PQS_CLIENT, "completed", -1), 3000);
    assert_int_equal(pqs_result_get(&r, PQS_SERVER, "completed", -1), 3000);
    assert_int_equal(pqs_result_get(&r, PQS_SERVER, "smallest", -1), -1);
    pqs_result_count(&r, PQS_CLIENT, "largest", 5); /* saturates */
    pqs_result_count(&r, PQS_CLIENT, "smallest", -5);
    assert_true(pqs_result_get(&r, PQS_CLIENT, "largest", 0) == INT64_MAX);
    assert_true(pqs_result_get(&r, PQS_CLIENT, "smallest", 0) == INT64_MIN);

    uint64_t others = 99;
    assert_string_equal(pqs_result_fact_of(&r, PQS_CLIENT, "group", &others), "X25519MLKEM768");
    assert_int_equal(others, 9);
    pqs_result_fact(&r, PQS_CLIENT, "group", "X25519", 10000);
    assert_string_equal(pqs_result_fact_of(&r, PQS_CLIENT, "group", &others), "X25519");
    assert_int_equal(others, 2990);
    assert_null(pqs_result_fact_of(&r, PQS_SERVER, "group", &others));
    assert_int_equal(others, 0);

    pqs_result_hist(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST, make_hist(1, 3));
    assert_int_equal(pqs_hist_n(pqs_result_hist_of(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST)), 503);
    assert_int_equal(pqs_hist_min(pqs_result_hist_of(&r, PQS_CLASS_FULL, PQS_PHASE_REQUEST)), 1);
    assert_int_equal(r.n_hists, 2);
    assert_null(pqs_result_hist_of(&r, PQS_CLASS_RESUMED, PQS_PHASE_REQUEST));
    pqs_result_release(&r);
    assert_int_equal(r.n_counters, 0);
}

static void result_cuts_long_text(void **state) {
    (void)state;
    char name[100], value[400];
    memset(name, 'n', sizeof name - 1);
    memset(value, 'v', sizeof value - 1);
    name[sizeof name - 1] = value[sizeof value - 1] = '\0';
    struct pqs_result r = {0};
    pqs_result_count(&r, PQS_CLIENT, name, 1);
    pqs_result_count(&r, PQS_CLIENT, name, 2); /* meets the row that was cut */
    pqs_result_fact(&r, PQS_CLIENT, name, value, 1);
    pqs_result_fact(&r, PQS_CLIENT, name, value, 2);
    assert_int_equal(r.n_counters, 1);
    assert_int_equal(strlen(r.counters[0].name), 63);
    assert_int_equal(pqs_result_get(&r, PQS_CLIENT, name, 0), 3);
    assert_int_equal(r.n_facts, 1);
    assert_int_equal(strlen(r.facts[0].value), 255);
    assert_int_equal(r.facts[0].n, 3);

    PQS_BUF bytes = {0};
    encode_result(&r, &bytes);
    struct pqs_result back = {0};
    struct pqs_err err = {0};
    assert_int_equal(pqs_result_decode(bytes.data, bytes.len, &back, &err), 0);
    assert_string_equal(back.facts[0].value, r.facts[0].value);
    pqs_result_release(&back);
    pqs_result_release(&r);
}

static void result_round_trip(void **state) {
    (void)state;
    struct pqs_result r = {0}, back = {0};
    struct pqs_err err = {0};
    PQS_BUF bytes = {0};
    PQS_BUF again = {0};
    fill_result(&r);
    encode_result(&r, &bytes);
    assert_int_equal(pqs_result_decode(bytes.data, bytes.len, &back, &err), 0);
    encode_result(&back, &again);
    assert_same_bytes(&bytes, &again);
    assert_true(pqs_result_get(&back, PQS_CLIENT, "smallest", 0) == INT64_MIN);
    assert_string_equal(pqs_result_fact_of(&back, PQS_SERVER, "cpus", NULL), "");
    assert_int_equal(pqs_hist_n(pqs_result_hist_of(&back, PQS_CLASS_FULL, PQS_PHASE_REQUEST)), 500);

    /* decoding adds */
    assert_int_equal(pqs_result_decode(bytes.data, bytes.len, &back, &err), 0);
    assert_int_equal(pqs_result_get(&back, PQS_CLIENT, "completed", 0), 2 * 2999);
    assert_int_equal(pqs_hist_n(pqs_result_hist_of(&back, PQS_CLASS_FULL, PQS_PHASE_REQUEST)), 1000);
    assert_int_equal(back.n_facts, r.n_facts);
    pqs_result_release(&back);

    encode_result(&back, &bytes); /* empty */
    assert_int_equal(pqs_result_decode(bytes.data, bytes.len, &back, &err), 0);
    assert_int_equal(back.n_counters + back.n_facts + back.n_hists, 0);
    pqs_result_release(&r);
}

/* A copy of exactly len bytes on the heap, so that ASan sees the first byte read too far. */
static uint8_t *exact_copy(const void *data, size_t len) {
    uint8_t *copy = pqs_calloc(len > 0 ? len : 1, 1);
    memcpy(copy, data, len);
    return copy;
}

static int decode_result_copy(const uint8_t *data, size_t len, struct pqs_result *r, struct pqs_err *err) {
    PQS_FREE uint8_t *copy = exact_copy(data, len);
    return pqs_result_decode(copy, len, r, err);
}

static void result_refuses_truncation(void **state) {
    (void)state;
    struct pqs_result r = {0}, back = {0};
    PQS_BUF bytes = {0};
    fill_result(&r);
    encode_result(&r, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        struct pqs_err err = {0};
        assert_int_equal(decode_result_copy(bytes.data, len, &back, &err), PQS_E_FAILED);
        assert_true(err.msg[0] != '\0');
        assert_int_equal(back.n_counters + back.n_facts + back.n_hists, 0); /* untouched on failure */
    }
    pqs_put_u8(&bytes, 0); /* a byte too many */
    assert_int_equal(decode_result_copy(bytes.data, bytes.len, &back, NULL), PQS_E_FAILED);
    pqs_result_release(&r);
}

static void result_refuses_unknown_enums(void **state) {
    (void)state;
    struct pqs_result r = {0}, back = {0};
    struct pqs_err err = {0};
    PQS_BUF bytes = {0};
    pqs_result_count(&r, PQS_SERVER, "a", 1);
    encode_result(&r, &bytes);
    assert_int_equal(bytes.data[4], PQS_SERVER);
    bytes.data[4] = 2;
    assert_int_equal(pqs_result_decode(bytes.data, bytes.len, &back, &err), PQS_E_FAILED);
    pqs_result_release(&r);

    pqs_result_hist(&r, PQS_CLASS_FIRST, PQS_PHASE_BODY, make_hist(1, 1));
    encode_result(&r, &bytes);
    for (size_t at = 12; at <= 13; at++) { /* class, phase */
        uint8_t was = bytes.data[at];
        bytes.data[at] = was + 1;
        assert_int_equal(pqs_result_decode(bytes.data, bytes.len, &back, &err), PQS_E_FAILED);
        bytes.data[at] = was;
    }
    assert_int_equal(pqs_result_decode(bytes.data, bytes.len, &back, &err), 0);
    pqs_result_release(&back);
    pqs_result_release(&r);
}

static void mutate(struct pqs_rng *rng, uint8_t *data, size_t len) {
    for (uint64_t n = 1 + pqs_rng_below(rng, 4); n > 0; n--)
        data[pqs_rng_below(rng, len)] = (uint8_t)pqs_rng_next(rng);
}

static void result_survives_mutation(void **state) {
    (void)state;
    struct pqs_result r = {0};
    PQS_BUF bytes = {0};
    fill_result(&r);
    encode_result(&r, &bytes);
    struct pqs_rng rng = pqs_rng_stream(1, "mutate", 0, 0);
    int refused = 0;
    for (int i = 0; i < 1500; i++) {
        PQS_FREE uint8_t *copy = exact_copy(bytes.data, bytes.len);
        mutate(&rng, copy, bytes.len);
        struct pqs_result back = {0};
        struct pqs_err err = {0};
        if (pqs_result_decode(copy, bytes.len, &back, &err) < 0) {
            refused++;
            assert_true(err.msg[0] != '\0');
        } else { /* what is accepted can be sent on */
            PQS_BUF again = {0};
            encode_result(&back, &again);
            struct pqs_result twice = {0};
            assert_int_equal(pqs_result_decode(again.data, again.len, &twice, &err), 0);
            pqs_result_release(&twice);
        }
        pqs_result_release(&back);
    }
    assert_true(refused > 0 && refused < 1500);
    pqs_result_release(&r);
}

static void sample_layout(void **state) {
    (void)state;
    const struct pqs_sample s = {.scheduled_ns = 0x0102030405060708,
                                 .started_ns = 2,
                                 .tcp_ns = 3,
                                 .tls_ns = 4,
                                 .first_ns = 5,
                                 .done_ns = PQS_SAMPLE_NONE,
                                 .to_server_bytes = 0xa1b2c3d4,
                                 .to_client_bytes = 7,
                                 .failure = 0x0174,
                                 .phase = PQS_STEP_TLS,
                                 .class = PQS_CLASS_RETRY,
                                 .thread = 0x01020304};
    PQS_BUF packed = {0};
    pqs_sample_put(&packed, &s);
    assert_int_equal(packed.len, PQS_SAMPLE_BYTES);
    const uint8_t head[] = {8, 7, 6, 5, 4, 3, 2, 1, 2, 0}; /* little-endian on every machine */
    const uint8_t tail[] = {0xd4, 0xc3, 0xb2, 0xa1, 7, 0, 0, 0, 0x74, 1, PQS_STEP_TLS, PQS_CLASS_RETRY, 4, 3, 2, 1};
    assert_memory_equal(packed.data, head, sizeof head);
    assert_memory_equal(packed.data + PQS_SAMPLE_BYTES - sizeof tail, tail, sizeof tail);
    struct pqs_sample back;
    memset(&back, 0xff, sizeof back);
    pqs_sample_get(packed.data, &back);
    assert_memory_equal(&back, &s, sizeof s); /* 64 bytes without padding */
    assert_int_equal(sizeof s, PQS_SAMPLE_BYTES);
}

/* ---- specifications ---- */

static void fill_spec(struct pqs_spec *s) {
    s->schedule = (struct pqs_schedule){.arrivals = PQS_ARRIVALS_POISSON,
                                        .rate_per_s = 1234.5,
                                        .warmup_ns = 0,
                                        .duration_ns = 10 * PQS_NS_PER_S,
                                        .timeout_ns = INT64_MAX,
                                        .seed = UINT64_MAX,
                                        .block = 17,
                                        .threads = 3,
                                        .max_inflight = UINT32_MAX};
    strcpy(s->cpus, "0,2-3");
    pqs_spec_set(s, "group", "X25519MLKEM768");
    pqs_spec_set(s, "empty", "");
    pqs_spec_set_bytes(s, "ca.pem", "with\0nul\xff", 9);
}

static void assert_same_spec(const struct pqs_spec *a, const struct pqs_spec *b) {
    assert_int_equal(a->schedule.arrivals, b->schedule.arrivals);
    assert_true(a->schedule.rate_per_s == b->schedule.rate_per_s);
    assert_true(a->schedule.warmup_ns == b->schedule.warmup_ns);
    assert_true(a->schedule.duration_ns == b->schedule.duration_ns);
    assert_true(a->schedule.timeout_ns == b->schedule.timeout_ns);
    assert_true(a->schedule.seed == b->schedule.seed);
    assert_int_equal(a->schedule.block, b->schedule.block);
    assert_int_equal(a->schedule.threads, b->schedule.threads);
    assert_int_equal(a->schedule.max_inflight, b->schedule.max_inflight);
    assert_string_equal(a->cpus, b->cpus);
    assert_int_equal(a->n_params, b->n_params);
    for (size_t i = 0; i < a->n_params; i++) {
        const struct pqs_buf *other = pqs_spec_get_bytes(b, a->params[i].name);
        assert_non_null(other);
        assert_same_bytes(&a->params[i].value, other);
    }
}

static void spec_sets_and_removes(void **state) {
    (void)state;
    struct pqs_spec s = {0};
    fill_spec(&s);
    assert_string_equal(pqs_spec_get(&s, "group"), "X25519MLKEM768");
    assert_string_equal(pqs_spec_get(&s, "empty"), "");
    assert_null(pqs_spec_get(&s, "Group"));
    pqs_spec_set(&s, "group", "P-256"); /* replaces */
    assert_int_equal(s.n_params, 3);
    assert_string_equal(pqs_spec_get(&s, "group"), "P-256");
    pqs_spec_set(&s, "group", NULL);
    pqs_spec_set(&s, "never", NULL);
    assert_null(pqs_spec_get(&s, "group"));
    assert_int_equal(s.n_params, 2);
    assert_int_equal(pqs_spec_get_bytes(&s, "ca.pem")->len, 9);

    struct pqs_spec copy;
    pqs_spec_copy(&s, &copy);
    pqs_spec_set(&s, "empty", "changed");
    assert_string_equal(pqs_spec_get(&copy, "empty"), "");
    pqs_spec_release(&s);
    assert_int_equal(copy.schedule.block, 17);
    assert_memory_equal(pqs_spec_get_bytes(&copy, "ca.pem")->data, "with\0nul\xff", 9);
    pqs_spec_release(&copy);
}

static void spec_round_trip(void **state) {
    (void)state;
    struct pqs_spec s = {0}, back = {0};
    struct pqs_err err = {0};
    PQS_BUF bytes = {0};
    fill_spec(&s);
    pqs_spec_encode(&s, &bytes);
    assert_int_equal(pqs_spec_decode(bytes.data, bytes.len, &back, &err), 0);
    assert_same_spec(&s, &back);
    pqs_spec_release(&back);
    pqs_spec_release(&s);
}

static void spec_refuses_truncation_and_junk(void **state) {
    (void)state;
    struct pqs_spec s = {0}, back = {0};
    PQS_BUF bytes = {0};
    fill_spec(&s);
    pqs_spec_encode(&s, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        PQS_FREE uint8_t *copy = exact_copy(bytes.data, len);
        struct pqs_err err = {0};
        assert_int_equal(pqs_spec_decode(copy, len, &back, &err), PQS_E_FAILED);
        assert_true(err.msg[0] != '\0');
        assert_null(back.params);
    }
    struct pqs_rng rng = pqs_rng_stream(2, "mutate", 0, 0);
    int refused = 0;
    for (int i = 0; i < 20000; i++) {
        PQS_FREE uint8_t *copy = exact_copy(bytes.data, bytes.len);
        mutate(&rng, copy, bytes.len);
        if (pqs_spec_decode(copy, bytes.len, &back, NULL) < 0)
            refused++;
        pqs_spec_release(&back);
    }
    assert_true(refused > 0 && refused < 20000);
    bytes.data[0] = 2; /* no such arrival process */
    assert_int_equal(pqs_spec_decode(bytes.data, bytes.len, &back, NULL), PQS_E_FAILED);
    bytes.data[0] = 1;
    pqs_put_u8(&bytes, 0);
    assert_int_equal(pqs_spec_decode(bytes.data, bytes.len, &back, NULL), PQS_E_FAILED);
    pqs_spec_release(&s);
}

/* ---- messages ---- */

struct pair {
    int fd[2];
    struct pqs_channel a, b;
};

static void pair_open(struct pair *p) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p->fd), 0);
    pqs_channel_init(&p->a, p->fd[0], p->fd[0]);
    pqs_channel_init(&p->b, p->fd[1], p->fd[1]);
}

static void pair_close(struct pair *p) {
    pqs_channel_release(&p->a);
    pqs_channel_release(&p->b);
    for (int i = 0; i < 2; i++)
        if (p->fd[i] >= 0)
            close(p->fd[i]);
}

static int64_t soon(void) {
    return pqs_now_ns() + 10 * PQS_NS_PER_S;
}

static void message_round_trip(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    struct pqs_err err = {0};
    struct pqs_spec spec = {0}, spec_back = {0};
    struct pqs_result result = {0}, result_back = {0};
    fill_spec(&spec);
    fill_result(&result);
    assert_int_equal(pqs_channel_send_spec(&p.a, &spec, &err), 0);
    assert_int_equal(pqs_channel_send(&p.a, PQS_MSG_RUN, NULL, 0, &err), 0);
    assert_int_equal(pqs_channel_send_result(&p.a, PQS_MSG_DONE, &result, &err), 0);
    const struct pqs_err trouble = {.code = PQS_E_ENV, .msg = "no such group: Q-256"};
    assert_int_equal(pqs_channel_send_error(&p.a, &trouble, &err), 0);

    /* All four are there before the first is taken. */
    enum pqs_message type = 0;
    PQS_BUF payload = {0};
    assert_int_equal(pqs_channel_recv(&p.b, soon(), &type, &payload, &err), 1);
    assert_int_equal(type, PQS_MSG_CONFIGURE);
    assert_int_equal(pqs_spec_decode(payload.data, payload.len, &spec_back, &err), 0);
    assert_same_spec(&spec, &spec_back);
    assert_int_equal(pqs_channel_recv(&p.b, soon(), &type, &payload, &err), 1);
    assert_int_equal(type, PQS_MSG_RUN);
    assert_int_equal(payload.len, 0);
    assert_int_equal(pqs_channel_recv(&p.b, soon(), &type, &payload, &err), 1);
    assert_int_equal(type, PQS_MSG_DONE);
    assert_int_equal(pqs_result_decode(payload.data, payload.len, &result_back, &err), 0);
    assert_int_equal(pqs_result_get(&result_back, PQS_CLIENT, "completed", 0), 2999);
    assert_int_equal(pqs_channel_recv(&p.b, soon(), &type, &payload, &err), 1);
    assert_int_equal(type, PQS_MSG_ERROR);
    struct pqs_cursor c = {.p = payload.data, .left = payload.len};
    char text[64] = "";
    assert_int_equal(-(int)pqs_get_u32(&c), PQS_E_ENV);
    pqs_get_str(&c, text, sizeof text);
    assert_false(c.bad);
    assert_int_equal(c.left, 0);
    assert_string_equal(text, trouble.msg);
    pqs_spec_release(&spec);
    pqs_spec_release(&spec_back);
    pqs_result_release(&result);
    pqs_result_release(&result_back);
    pair_close(&p);
}

static void message_names_are_known(void **state) {
    (void)state;
    for (int type = PQS_MSG_HELLO; type <= PQS_MSG_ERROR; type++) {
        assert_non_null(pqs_message_name((enum pqs_message)type));
        assert_string_not_equal(pqs_message_name((enum pqs_message)type), "unknown");
    }
    assert_string_equal(pqs_message_name((enum pqs_message)0), "unknown");
    assert_string_equal(pqs_message_name((enum pqs_message)(PQS_MSG_ERROR + 1)), "unknown");
}

/* Every byte by itself, each followed by a look that must not find a message before the last one. */
static void message_byte_at_a_time(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    struct pqs_err err = {0};
    PQS_BUF payload = {0};
    const uint8_t frame[] = {7, 0, 0, 0, PQS_CHANNEL_VERSION, PQS_MSG_SAMPLES, 'h', 'e', 'l', 'l', 'o'};
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof frame; i++) {
            enum pqs_message type = 0;
            assert_int_equal(write(p.fd[0], &frame[i], 1), 1);
            int rc =
                pqs_channel_recv(&p.b, i + 1 < sizeof frame ? pqs_now_ns() + PQS_NS_PER_MS : soon(), &type, &payload, &err);
            assert_int_equal(rc, i + 1 == sizeof frame);
            if (rc == 1) {
                assert_int_equal(type, PQS_MSG_SAMPLES);
                assert_string_equal(pqs_buf_text(&payload), "hello");
            }
        }
    }
    pair_close(&p);
}

static void expect_refusal(const uint8_t *bytes, size_t len, const char *says) {
    struct pair p;
    pair_open(&p);
    struct pqs_err err = {0};
    enum pqs_message type = 0;
    PQS_BUF payload = {0};
    assert_int_equal(write(p.fd[0], bytes, len), len);
    assert_int_equal(pqs_channel_recv(&p.b, soon(), &type, &payload, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, says));
    pair_close(&p);
}

static void message_refuses_what_is_no_channel(void **state) {
    (void)state;
    /* The length alone decides: nobody waits for, or makes room for, 64 MB that never come. */
    expect_refusal((const uint8_t[]){1, 0, 0, 4}, 4, "67108865 bytes");
    expect_refusal((const uint8_t[]){1, 0, 0, 0}, 4, "1 bytes");
    expect_refusal((const uint8_t *)"Welcome to host", 15, "standard output");
    expect_refusal((const uint8_t[]){2, 0, 0, 0, PQS_CHANNEL_VERSION + 1, PQS_MSG_RUN}, 6, "version 2");
    expect_refusal((const uint8_t[]){2, 0, 0, 0, PQS_CHANNEL_VERSION, 0}, 6, "type 0");
    expect_refusal((const uint8_t[]){2, 0, 0, 0, PQS_CHANNEL_VERSION, PQS_MSG_ERROR + 1}, 6, "type 14");

    struct pair p;
    pair_open(&p);
    struct pqs_err err = {0};
    PQS_FREE uint8_t *big = pqs_calloc(PQS_MESSAGE_MAX, 1);
    assert_int_equal(pqs_channel_send(&p.a, PQS_MSG_SAMPLES, big, PQS_MESSAGE_MAX - 1, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "samples"));
    enum pqs_message type = 0;
    PQS_BUF payload = {0};
    assert_int_equal(pqs_channel_recv(&p.b, 0, &type, &payload, &err), 0); /* nothing was sent */
    pair_close(&p);
}

static void message_survives_random_bytes(void **state) {
    (void)state;
    struct pqs_rng rng = pqs_rng_stream(3, "bytes", 0, 0);
    for (int i = 0; i < 2000; i++) {
        struct pair p;
        pair_open(&p);
        uint8_t bytes[64] = {2, 0, 0, 0, PQS_CHANNEL_VERSION, PQS_MSG_RUN, 9, 0, 0, 0, PQS_CHANNEL_VERSION, PQS_MSG_DONE};
        mutate(&rng, bytes, sizeof bytes);
        assert_int_equal(write(p.fd[0], bytes, sizeof bytes), sizeof bytes);
        close(p.fd[0]);
        p.fd[0] = -1;
        struct pqs_err err = {0};
        enum pqs_message type = 0;
        PQS_BUF payload = {0};
        int rc = 1;
        while (rc == 1) {
            rc = pqs_channel_recv(&p.b, soon(), &type, &payload, &err);
            if (rc == 1)
                assert_true(payload.len <= sizeof bytes - 6);
        }
        assert_int_equal(rc, PQS_E_FAILED); /* at the end of file at the latest */
        pair_close(&p);
    }
}

static void message_deadline(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    struct pqs_err err = {0};
    enum pqs_message type = 0;
    PQS_BUF payload = {0};
    pqs_put_u8(&payload, 1);
    int64_t deadline_ns = pqs_now_ns() + 30 * PQS_NS_PER_MS;
    assert_int_equal(pqs_channel_recv(&p.b, deadline_ns, &type, &payload, &err), 0);
    assert_true(pqs_now_ns() >= deadline_ns);
    assert_int_equal(payload.len, 0); /* cleared first */
    assert_int_equal(pqs_channel_recv(&p.b, 0, &type, &payload, &err), 0);
    /* What is there already is taken even when the deadline has passed. */
    assert_int_equal(pqs_channel_send(&p.a, PQS_MSG_MARK, NULL, 0, &err), 0);
    assert_int_equal(pqs_channel_recv(&p.b, 0, &type, &payload, &err), 1);
    assert_int_equal(type, PQS_MSG_MARK);
    pair_close(&p);
}

static void message_closed_peer(void **state) {
    (void)state;
    struct pqs_err err = {0};
    enum pqs_message type = 0;
    PQS_BUF payload = {0};
    struct pair p;
    pair_open(&p);
    assert_int_equal(pqs_channel_send(&p.a, PQS_MSG_STOP, "x", 1, &err), 0);
    assert_int_equal(write(p.fd[0], "\x07\0\0", 3), 3);
    close(p.fd[0]);
    p.fd[0] = -1;
    assert_int_equal(pqs_channel_recv(&p.b, INT64_MAX, &type, &payload, &err), 1); /* what came before the end counts */
    assert_int_equal(pqs_channel_recv(&p.b, INT64_MAX, &type, &payload, &err), PQS_E_FAILED);
    assert_int_equal(err.sys, EPIPE);
    assert_non_null(strstr(err.msg, "middle of a message"));
    pair_close(&p);

    /* pipes, as to a worker */
    int to[2], from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    close(to[0]);
    close(from[1]);
    struct pqs_channel c;
    pqs_channel_init(&c, from[0], to[1]);
    memset(&err, 0, sizeof err);
    assert_int_equal(pqs_channel_send(&c, PQS_MSG_RUN, NULL, 0, &err), PQS_E_FAILED);
    assert_int_equal(err.sys, EPIPE);
    memset(&err, 0, sizeof err);
    assert_int_equal(pqs_channel_recv(&c, INT64_MAX, &type, &payload, &err), PQS_E_FAILED);
    assert_int_equal(err.sys, EPIPE);
    assert_null(strstr(err.msg, "middle"));
    pqs_channel_release(&c);
    close(to[1]);
    close(from[0]);
}

static volatile sig_atomic_t alarms;
static void count_alarm(int signal_number) {
    (void)signal_number;
    alarms++;
}

/* Interrupts system calls of this process every `period_us` (0: no more). */
static void interrupt_every(int period_us) {
    const struct sigaction action = {.sa_handler = count_alarm}; /* no SA_RESTART */
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    const struct itimerval timer = {.it_interval.tv_usec = period_us, .it_value.tv_usec = period_us};
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

#define BIG_BYTES ((size_t)3 << 20)

/* A child sends three large messages into a small buffer while signals interrupt it; the parent takes its time. */
static void send_through_small_buffer(bool nonblocking) {
    struct pair p;
    pair_open(&p);
    PQS_FREE uint8_t *big = pqs_calloc(BIG_BYTES, 1);
    for (size_t i = 0; i < BIG_BYTES; i++)
        big[i] = (uint8_t)(i * 31 >> 3);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(p.fd[1]);
        if (nonblocking && fcntl(p.fd[0], F_SETFL, O_NONBLOCK) < 0)
            _exit(2);
        interrupt_every(500);
        struct pqs_err err;
        for (int i = 0; i < 3; i++)
            if (pqs_channel_send(&p.a, PQS_MSG_SAMPLES, big, BIG_BYTES - (size_t)i, &err) < 0)
                _exit(3);
        _exit(alarms > 0 ? 0 : 4); /* it was really interrupted */
    }
    close(p.fd[0]);
    p.fd[0] = -1;
    struct pqs_err err = {0};
    PQS_BUF payload = {0};
    usleep(20000); /* the child is stuck by now */
    for (size_t i = 0; i < 3; i++) {
        enum pqs_message type = 0;
        assert_int_equal(pqs_channel_recv(&p.b, pqs_now_ns() + 60 * PQS_NS_PER_S, &type, &payload, &err), 1);
        assert_int_equal(payload.len, BIG_BYTES - i);
        assert_memory_equal(payload.data, big, payload.len);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pair_close(&p);
}

static void message_partial_writes(void **state) {
    (void)state;
    send_through_small_buffer(false);
    send_through_small_buffer(true);
}

static void message_interrupted_wait(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    struct pqs_err err = {0};
    enum pqs_message type = 0;
    PQS_BUF payload = {0};
    alarms = 0;
    interrupt_every(2000);
    int64_t deadline_ns = pqs_now_ns() + 30 * PQS_NS_PER_MS;
    int rc = pqs_channel_recv(&p.b, deadline_ns, &type, &payload, &err);
    int64_t end_ns = pqs_now_ns();
    interrupt_every(0);
    assert_int_equal(rc, 0);
    assert_true(end_ns >= deadline_ns);
    assert_true(alarms > 0);
    /* A non-blocking descriptor that has nothing is waited for like any other. */
    assert_int_equal(fcntl(p.fd[1], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(pqs_channel_recv(&p.b, pqs_now_ns() + PQS_NS_PER_MS, &type, &payload, &err), 0);
    pair_close(&p);
}

/* ---- failures ---- */

static void failure_names_round_trip(void **state) {
    (void)state;
    for (unsigned failure = PQS_FAILURE_NONE; failure < PQS_FAILURE_END; failure++) {
        char name[48] = "";
        assert_ptr_equal(pqs_failure_name(failure, name), name);
        assert_true(strlen(name) > 0 && strlen(name) < 47);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789"), strlen(name));
        assert_true(strlen("failed.response.") + strlen(name) < 64); /* it becomes part of a counter's name */
        assert_int_equal(pqs_failure_find(name), failure);
        assert_true(strlen(pqs_failure_text(failure)) > 0);
    }
    /* Every class of the enum has a name and a text of its own. */
    for (unsigned failure = PQS_FAILURE_PORTS; failure <= PQS_FAILURE_VERSION; failure++) {
        char name[48];
        assert_null(strstr(pqs_failure_name(failure, name), "failure_"));
        assert_string_not_equal(pqs_failure_text(failure), "unknown failure");
    }
}

static void failure_names_are_the_standard_ones(void **state) {
    (void)state;
    char name[48];
    assert_string_equal(pqs_failure_name(PQS_FAILURE_TIMEOUT, name), "timeout");
    assert_string_equal(pqs_failure_name(PQS_FAILURE_ALERT + 0, name), "alert_close_notify");
    assert_string_equal(pqs_failure_name(PQS_FAILURE_ALERT + 40, name), "alert_handshake_failure");
    assert_string_equal(pqs_failure_name(PQS_FAILURE_ALERT + 116, name), "alert_certificate_required");
    assert_string_equal(pqs_failure_text(PQS_FAILURE_ALERT + 116), "client certificate required");
    assert_string_equal(pqs_failure_name(PQS_FAILURE_ALERT + 200, name), "alert_200");
    assert_int_equal(pqs_failure_find("alert_200"), PQS_FAILURE_ALERT + 200);
    assert_int_equal(pqs_failure_find("alert_0200"), PQS_FAILURE_NONE);
    assert_int_equal(pqs_failure_find("alert_40"), PQS_FAILURE_NONE); /* it has a name */
    assert_int_equal(pqs_failure_find(""), PQS_FAILURE_NONE);
    assert_int_equal(pqs_failure_find("Timeout"), PQS_FAILURE_NONE);
    for (int step = 0; step < PQS_STEPS; step++)
        assert_non_null(pqs_step_names[step]);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_adds_and_finds),
        cmocka_unit_test(result_cuts_long_text),
        cmocka_unit_test(result_round_trip),
        cmocka_unit_test(result_refuses_truncation),
        cmocka_unit_test(result_refuses_unknown_enums),
        cmocka_unit_test(result_survives_mutation),
        cmocka_unit_test(sample_layout),
        cmocka_unit_test(spec_sets_and_removes),
        cmocka_unit_test(spec_round_trip),
        cmocka_unit_test(spec_refuses_truncation_and_junk),
        cmocka_unit_test(message_round_trip),
        cmocka_unit_test(message_names_are_known),
        cmocka_unit_test(message_byte_at_a_time),
        cmocka_unit_test(message_refuses_what_is_no_channel),
        cmocka_unit_test(message_survives_random_bytes),
        cmocka_unit_test(message_deadline),
        cmocka_unit_test(message_closed_peer),
        cmocka_unit_test(message_partial_writes),
        cmocka_unit_test(message_interrupted_wait),
        cmocka_unit_test(failure_names_round_trip),
        cmocka_unit_test(failure_names_are_the_standard_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
