/* src/tls/http: request and response parsers, over whole inputs, over inputs cut at every byte, and over random ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tls/http.h"

/* A copy of exactly n bytes on the heap, so that the address sanitizer sees any read beyond them. */
static uint8_t *exact_copy(const void *data, size_t n) {
    uint8_t *copy = pqs_calloc(n ? n : 1, 1);
    memcpy(copy, data, n);
    return copy;
}

/* n times the character c. */
static void add_run(struct pqs_buf *b, char c, size_t n) {
    for (size_t i = 0; i < n; i++)
        pqs_buf_add(b, &c, 1);
}

/* ---- requests ---- */

static long parse_request(const void *data, size_t n, struct pqs_http_request *ret) {
    uint8_t *copy = exact_copy(data, n);
    long used = pqs_http_request_parse(copy, n, ret);
    free(copy);
    return used;
}

static void valid_requests(void **state) {
    static const struct {
        const char *text, *path;
        bool get, head, close;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", "/", true, false, false},
        {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "/", true, false, false},
        {"GET /bytes/16384 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n", "/bytes/16384", true, false, false},
        {"GET /a?b=c?d HTTP/1.1\r\n\r\n", "/a", true, false, false},
        {"GET ?x HTTP/1.1\r\n\r\n", "", true, false, false},
        {"GET http://h/x HTTP/1.1\r\n\r\n", "http://h/x", true, false, false},
        {"HEAD / HTTP/1.1\r\n\r\n", "/", true, true, false},
        {"POST / HTTP/1.1\r\n\r\n", "/", false, false, false},
        {"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "/", false, false, false},
        {"POST / HTTP/1.1\r\ncontent-length:  0 \t\r\n\r\n", "/", false, false, false},
        {"GETX / HTTP/1.1\r\n\r\n", "/", false, false, false},
        {"GE / HTTP/1.1\r\n\r\n", "/", false, false, false},
        {"HEADX / HTTP/1.1\r\n\r\n", "/", false, false, false},
        {"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "/", true, false, true},
        {"GET / HTTP/1.1\r\nCONNECTION:CLOSE\r\n\r\n", "/", true, false, true},
        {"GET / HTTP/1.1\r\nConnection: upgrade , close \r\n\r\n", "/", true, false, true},
        {"GET / HTTP/1.1\r\nConnection: a,,b,close\r\n\r\n", "/", true, false, true},
        {"GET / HTTP/1.1\r\nConnection: closed\r\n\r\n", "/", true, false, false},
        {"GET / HTTP/1.1\r\nConnection: not-close\r\n\r\n", "/", true, false, false},
        {"GET / HTTP/1.1\r\nConnection:\r\n\r\n", "/", true, false, false},
        {"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", "/", true, false, false},
        {"GET / HTTP/1.1\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", "/", true, false, true},
        {"GET / HTTP/1.1\r\nX-Connection: close\r\n\r\n", "/", true, false, false},
        {"GET / HTTP/1.1\r\nConnectionX: close\r\n\r\n", "/", true, false, false},
        {"GET / HTTP/1.0\r\n\r\n", "/", true, false, true},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "/", true, false, false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "/", true, false, true},
        {"GET / HTTP/1.1\r\nX: \r\n\r\n", "/", true, false, false},
    };
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        const char *text = cases[i].text;
        size_t n = strlen(text);
        struct pqs_http_request q;
        memset(&q, 0xff, sizeof q);
        long used = parse_request(text, n, &q);
        if (used != (long)n || q.get != cases[i].get || q.head != cases[i].head || q.close != cases[i].close ||
            strcmp(q.path, cases[i].path) != 0)
            fail_msg("case %zu: used %ld of %zu, get %d head %d close %d path '%s'", i, used, n, q.get, q.head, q.close,
                     q.path);
        for (size_t cut = 0; cut < n; cut++)
            if (parse_request(text, cut, &q) != 0)
                fail_msg("case %zu: not 0 after %zu of %zu bytes", i, cut, n);
    }
}

static void invalid_requests(void **state) {
    static const char *const cases[] = {
        "\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01",
        " GET / HTTP/1.1\r\n\r\n",
        "get / HTTP/1.1\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / \r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.2\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "GET / http/1.1\r\n\r\n",
        "GET / HTTP/1.11\r\n\r\n",
        "GET / x HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: \r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 0x0\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 0, 0\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length : 5\r\n\r\nhello", /* RFC 9112, 5.1: no blank before the colon */
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\r\n folded\r\n\r\n", /* RFC 9112, 5.2 */
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\n: no name\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        size_t n = strlen(cases[i]);
        struct pqs_http_request q;
        bool refused = false;
        for (size_t cut = 0; cut <= n; cut++) {
            long used = parse_request(cases[i], cut, &q);
            if (used > 0 || (refused && used == 0))
                fail_msg("case %zu: %ld after %zu bytes", i, used, cut);
            refused = used < 0;
        }
        if (!refused)
            fail_msg("case %zu was not refused", i);
    }
    static const char with_nul[] = "GET / HTTP/1.1\r\nX: \0\r\n\r\n";
    struct pqs_http_request q;
    assert_int_equal(parse_request(with_nul, sizeof with_nul - 1, &q), -1);
}

static void request_limits(void **state) {
    struct pqs_http_request q;
    (void)state;
    /* The longest line is PQS_HTTP_LINE_MAX - 1 bytes and its line end. */
    for (int excess = 0; excess < 2; excess++) {
        PQS_BUF b = {0};
        pqs_buf_addf(&b, "GET /");
        add_run(&b, 'p', PQS_HTTP_LINE_MAX - 1 - strlen("GET / HTTP/1.1") + (size_t)excess);
        pqs_buf_addf(&b, " HTTP/1.1\r\n\r\n");
        assert_int_equal(parse_request(b.data, b.len, &q), excess ? -1 : (long)b.len);
        if (!excess)
            assert_int_equal(strlen(q.path), PQS_HTTP_LINE_MAX - 1 - strlen("GET / HTTP/1.1") + 1);
    }
    /* The longest head is PQS_HTTP_HEAD_MAX bytes. */
    for (int excess = 0; excess < 2; excess++) {
        PQS_BUF b = {0};
        pqs_buf_addf(&b, "GET / HTTP/1.1\r\n");
        while (b.len < PQS_HTTP_HEAD_MAX - 200)
            pqs_buf_addf(&b, "A-Header: %090d\r\n", 0);
        pqs_buf_addf(&b, "Last: ");
        add_run(&b, 'l', PQS_HTTP_HEAD_MAX - 4 - b.len + (size_t)excess);
        pqs_buf_addf(&b, "\r\n\r\n");
        assert_int_equal(b.len, PQS_HTTP_HEAD_MAX + excess);
        assert_int_equal(parse_request(b.data, b.len, &q), excess ? -1 : (long)b.len);
        assert_int_equal(parse_request(b.data, PQS_HTTP_HEAD_MAX - 1, &q), 0);
    }
    /* An endless head is refused when it has become too long, not earlier and not never. */
    PQS_BUF endless = {0};
    add_run(&endless, 'A', PQS_HTTP_HEAD_MAX);
    assert_int_equal(parse_request(endless.data, PQS_HTTP_HEAD_MAX - 1, &q), 0);
    assert_int_equal(parse_request(endless.data, PQS_HTTP_HEAD_MAX, &q), -1);
}

static void pipelined_requests(void **state) {
    static const char text[] =
        "GET /1 HTTP/1.1\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3 HTTP/1.1\r\nConnection: close"
        "\r\n\r\nGET /4";
    static const char *const paths[] = {"/1", "/2", "/3"};
    size_t at = 0;
    struct pqs_http_request q;
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(paths); i++) {
        long used = parse_request(text + at, sizeof text - 1 - at, &q);
        assert_true(used > 0);
        assert_string_equal(q.path, paths[i]);
        assert_int_equal(q.head, i == 1);
        assert_int_equal(q.close, i == 2);
        at += (size_t)used;
    }
    assert_int_equal(parse_request(text + at, sizeof text - 1 - at, &q), 0);
    assert_string_equal(text + at, "GET /4");
}

/* ---- responses ---- */

struct outcome {
    int rc; /* 1 complete, 0 waiting, -1 malformed */
    unsigned status;
    uint64_t body;
};

/* Feeds data[0..n) in pieces that end at the given cut (and at every `step` bytes when step > 0); at_end: then the end. */
static struct outcome parse_response(const char *data, size_t n, size_t cut, size_t step, bool at_end) {
    struct pqs_http_response r;
    memset(&r, 0xff, sizeof r); /* init must not rely on zeroed memory */
    pqs_http_response_init(&r);
    int rc = 0;
    for (size_t at = 0; at < n && rc == 0;) {
        size_t end = at < cut ? cut : n;
        if (step && end - at > step)
            end = at + step;
        uint8_t *piece = exact_copy(data + at, end - at);
        rc = pqs_http_response_feed(&r, piece, end - at);
        free(piece);
        at = end;
    }
    if (rc == 0 && at_end)
        rc = pqs_http_response_end(&r);
    return (struct outcome){rc, r.status, r.body_bytes};
}

static const struct response_case {
    const char *text;
    int rc;     /* before the stream's end */
    int at_end; /* and after it, when rc is 0 */
    unsigned status;
    uint64_t body;
} responses[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n", 1, 1, 200, 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\nexcess", 1, 1, 200, 3},
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1, 1, 200, 0},
    {"HTTP/1.1 200 OK\r\ncontent-length:3 \t\r\n\r\nok\n", 1, 1, 200, 3},
    {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 1, 1, 200, 0},
    {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", 1, 1, 200, 0},
    {"HTTP/1.0 404 Not Found\r\nContent-Length: 1\r\n\r\nx", 1, 1, 404, 1},
    {"HTTP/1.1 200 OK\nContent-Length: 3\n\nok\n", 1, 1, 200, 3}, /* bare LF: RFC 9112, 2.2 allows to take it */
    {"HTTP/1.1 204 No Content\r\n\r\n", 1, 1, 204, 0},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", 1, 1, 304, 0},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\nConnection: close\r\n\r\nHTTP/1.1 200 "
     "OK\r\n"
     "Content-Length: 2\r\n\r\nhi",
     1, 1, 200, 2},
    {"HTTP/1.1 100 Continue\r\n\r\n", 0, -1, 0, 0},
    /* until the end of the stream */
    {"HTTP/1.1 200 OK\r\n\r\n", 0, 1, 200, 0},
    {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", 0, 1, 200, 5},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello", 0, 1, 200, 5},
    /* chunked */
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1, 1, 200, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", 1, 1, 200, 6},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\nA;name=value\r\n0123456789\r\n00\r\n\r\n", 1, 1, 200, 10},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 ;x\r\na\r\n0 \r\nTrailer: t\r\nMore: m\r\n\r\n", 1, 1, 200, 1},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 1, 1, 200, 1},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n1\r\na\r\n0\r\n\r\n", 1, 1, 200, 1},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00001f\r\n0123456789012345678901234567890\r\n0\r\n\r\n", 1, 1,
     200, 31},
    /* cut off */
    {"", 0, -1, 0, 0},
    {"HTTP/1.1 200 OK\r\n", 0, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", 0, -1, 200, 3},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", 0, -1, 200, 3},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 0, -1, 200, 5},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", 0, -1, 200, 5},
    /* malformed */
    {"\r\n", -1, -1, 0, 0},
    {"SSH-2.0-OpenSSH_9.2\r\n", -1, -1, 0, 0},
    {"HTTP/2 200\r\n", -1, -1, 0, 0},
    {"HTTP/1.2 200 OK\r\n", -1, -1, 0, 0},
    {"HTTP/1.\r\n", -1, -1, 0, 0},
    {"HTTP/1.1\r\n", -1, -1, 0, 0},
    {"HTTP/1.1  200 OK\r\n", -1, -1, 0, 0},
    {"HTTP/1.1 20 OK\r\n", -1, -1, 0, 0},
    {"HTTP/1.1 2000 OK\r\n", -1, -1, 0, 0},
    {"HTTP/1.1 abc OK\r\n", -1, -1, 0, 0},
    {"HTTP/1.1 099 No\r\n", -1, -1, 99, 0},
    {"HTTP/1.1 200OK\r\n", -1, -1, 0, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n", -1, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length:\r\n", -1, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3x\r\n", -1, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551619\r\n", -1, -1, 200, 0}, /* 2^64 + 3 */
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n", -1, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", -1, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", -1, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x10\r\n", -1, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", -1, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 2\r\n", -1, -1, 200, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", -1, -1, 200, 0}, /* 2^64 */
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n", -1, -1, 200, 5},
};

static void check_response(size_t i, size_t cut, size_t step) {
    const struct response_case *c = &responses[i];
    size_t n = strlen(c->text);
    struct outcome waiting = parse_response(c->text, n, cut, step, false);
    struct outcome ended = parse_response(c->text, n, cut, step, true);
    int at_end = c->rc ? c->rc : c->at_end;
    if (waiting.rc != c->rc || ended.rc != at_end || waiting.status != c->status || waiting.body != c->body)
        fail_msg("case %zu cut at %zu, pieces of %zu: %d, at the end %d, status %u, body %llu", i, cut, step, waiting.rc,
                 ended.rc, waiting.status, (unsigned long long)waiting.body);
}

static void whole_responses(void **state) {
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(responses); i++)
        check_response(i, 0, 0);
}

static void split_responses(void **state) {
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(responses); i++) {
        for (size_t cut = 1; cut < strlen(responses[i].text); cut++)
            check_response(i, cut, 0);
        for (size_t step = 1; step < 8; step++)
            check_response(i, 0, step);
    }
}

/* No proper prefix of a response of known length is complete, and its truncation is noticed. */
static void truncated_responses(void **state) {
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(responses); i++) {
        const struct response_case *c = &responses[i];
        if (c->rc != 1 || strstr(c->text, "excess"))
            continue;
        for (size_t n = 0; n < strlen(c->text); n++)
            if (parse_response(c->text, n, 0, 0, false).rc != 0)
                fail_msg("case %zu is not waiting after %zu bytes", i, n);
    }
    const char *text = responses[0].text;
    for (size_t n = 0; n < strlen(text); n++)
        if (parse_response(text, n, 0, 0, true).rc != -1)
            fail_msg("a response cut off after %zu bytes passed for complete", n);
}

static void response_limits(void **state) {
    (void)state;
    /* A line longer than kept is cut: the header that follows still counts. */
    PQS_BUF longer = {0};
    pqs_buf_addf(&longer, "HTTP/1.1 200 OK\r\nSet-Cookie: ");
    add_run(&longer, 'c', 5000);
    pqs_buf_addf(&longer, "\r\nContent-Length: 2\r\n\r\nhi");
    for (size_t step = 1; step < 3000; step += 499) {
        struct outcome o = parse_response((const char *)longer.data, longer.len, 0, step, false);
        assert_int_equal(o.rc, 1);
        assert_int_equal(o.body, 2);
    }
    /* Lines about as long as what is kept of them. */
    for (size_t extra = PQS_HTTP_LINE_MAX - 10; extra < PQS_HTTP_LINE_MAX + 10; extra++) {
        PQS_BUF b = {0};
        pqs_buf_addf(&b, "HTTP/1.1 200 OK\r\n");
        add_run(&b, 'x', extra);
        pqs_buf_addf(&b, "\r\nContent-Length: 2\r\n\r\nhi");
        assert_int_equal(parse_response((const char *)b.data, b.len, 0, 0, false).rc, 1);
        assert_int_equal(parse_response((const char *)b.data, b.len, 0, 1, false).rc, 1);
    }
    /* Heads, interim responses and trailers that never end. */
    PQS_BUF head = {0}, interim = {0}, trailers = {0};
    pqs_buf_addf(&head, "HTTP/1.1 200 OK\r\n");
    pqs_buf_addf(&trailers, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
    for (int i = 0; i < 2000; i++) {
        pqs_buf_addf(&head, "X: 0123456789\r\n");
        pqs_buf_addf(&interim, "HTTP/1.1 100 Continue\r\n\r\n");
        pqs_buf_addf(&trailers, "X: 0123456789\r\n");
    }
    assert_int_equal(parse_response((const char *)head.data, head.len, 0, 0, false).rc, -1);
    assert_int_equal(parse_response((const char *)interim.data, interim.len, 0, 0, false).rc, -1);
    assert_int_equal(parse_response((const char *)trailers.data, trailers.len, 0, 0, false).rc, -1);
    /* A body may be as long as it likes: only the head counts. */
    PQS_BUF body = {0};
    pqs_buf_addf(&body, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20000; i++)
        pqs_buf_addf(&body, "1\r\nb\r\n");
    pqs_buf_addf(&body, "0\r\n\r\n");
    struct outcome o = parse_response((const char *)body.data, body.len, 0, 0, false);
    assert_int_equal(o.rc, 1);
    assert_int_equal(o.body, 20000);
}

static void response_flags(void **state) {
    static const char text[] = "HTTP/1.1 200 OK\r\nConnection: keep-alive, Close\r\nContent-Length: 0\r\n\r\n";
    struct pqs_http_response r;
    (void)state;
    pqs_http_response_init(&r);
    assert_int_equal(pqs_http_response_feed(&r, (const uint8_t *)text, sizeof text - 1), 1);
    /* A finished parser stays finished. */
    assert_int_equal(pqs_http_response_feed(&r, (const uint8_t *)"x", 1), 1);
    assert_int_equal(pqs_http_response_end(&r), 1);
    assert_int_equal(r.body_bytes, 0);
    /* Nothing fed changes nothing. */
    pqs_http_response_init(&r);
    assert_int_equal(pqs_http_response_feed(&r, (const uint8_t *)"", 0), 0);
    assert_int_equal(r.stage, PQS_HTTP_STATUS_LINE);
}

/* Valid texts with random bytes changed: whatever they mean, cut anywhere they mean the same. */
static void damaged_texts(void **state) {
    struct pqs_rng rng = pqs_rng_stream(1, "damage", 0, 0);
    (void)state;
    for (int round = 0; round < 20000; round++) {
        const char *text = responses[pqs_rng_below(&rng, PQS_COUNT(responses))].text;
        size_t n = strlen(text);
        if (n == 0)
            continue;
        uint8_t *copy = exact_copy(text, n);
        for (uint64_t i = pqs_rng_below(&rng, 3) + 1; i > 0; i--) {
            static const char bytes[] = "\r\n\0:;, 0aF9";
            size_t at = pqs_rng_below(&rng, n);
            if (pqs_rng_below(&rng, 2))
                copy[at] = (uint8_t)bytes[pqs_rng_below(&rng, sizeof bytes)];
            else
                copy[at] = (uint8_t)pqs_rng_next(&rng);
        }
        size_t cut = pqs_rng_below(&rng, n + 1);
        struct outcome whole = parse_response((const char *)copy, n, 0, 0, true);
        struct outcome cut_up = parse_response((const char *)copy, n, cut, 0, true);
        struct outcome single = parse_response((const char *)copy, n, 0, 1, true);
        if (whole.rc != cut_up.rc || whole.body != cut_up.body || whole.rc != single.rc || whole.body != single.body ||
            whole.status != single.status)
            fail_msg("round %d: %d and %d and %d", round, whole.rc, cut_up.rc, single.rc);
        struct pqs_http_request q;
        copy[0] = 'G';
        long used = pqs_http_request_parse(copy, n, &q);
        assert_true(used >= -1 && used <= (long)n);
        free(copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_requests),      cmocka_unit_test(invalid_requests), cmocka_unit_test(request_limits),
        cmocka_unit_test(pipelined_requests),  cmocka_unit_test(whole_responses),  cmocka_unit_test(split_responses),
        cmocka_unit_test(truncated_responses), cmocka_unit_test(response_limits),  cmocka_unit_test(response_flags),
        cmocka_unit_test(damaged_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
