/* src/tls: the server as real clients meet it: answers, deadlines, clients that misbehave, limits, and the exact sizes of
 * the handshake's messages. Clients are OpenSSL or a bare socket, in this process. An argument selects tests by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/mem.h"
#include "channel/failure.h"
#include "crypto/certificate.h"
#include "crypto/evp.h"
#include "crypto/library.h"
#include "tls/context.h"
#include "tls/outcome.h"
#include "tls/server.h"

#define MS PQS_NS_PER_MS

/* Sanitizers keep freed memory: what is resident says nothing then. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#define RESULT __attribute__((cleanup(pqs_result_release))) struct pqs_result

static struct pqs_certificate_files ecdsa, mldsa, stranger;

static int make_certificates(void **state) {
    struct pqs_err err = {0};
    (void)state;
    if (pqs_crypto_init(&err) != 0 ||
        pqs_certificate_make(&(struct pqs_certificate_request){.kind = "ecdsa-p256"}, &ecdsa, &err) != 0 ||
        pqs_certificate_make(&(struct pqs_certificate_request){.kind = "ML-DSA-65"}, &mldsa, &err) != 0 ||
        pqs_certificate_make(&(struct pqs_certificate_request){.kind = "ecdsa-p256"}, &stranger, &err) != 0) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    return 0;
}

static int release_certificates(void **state) {
    (void)state;
    pqs_certificate_files_release(&ecdsa);
    pqs_certificate_files_release(&mldsa);
    pqs_certificate_files_release(&stranger);
    return 0;
}

/* ---- the server ---- */

static struct pqs_server *start(struct pqs_server_options o) {
    struct pqs_server *s = NULL;
    struct pqs_err err = {0};
    o.host = o.host ? o.host : "127.0.0.1";
    o.n_ports = o.n_ports ? o.n_ports : 1;
    o.threads = o.threads ? o.threads : 1;
    o.backlog = o.backlog ? o.backlog : 256;
    o.timeout_ns = o.timeout_ns ? o.timeout_ns : 10 * PQS_NS_PER_S;
    if (!o.plain && !o.tls.cert[0]) {
        o.tls.cert[0] = &ecdsa.leaf;
        o.tls.key[0] = &ecdsa.leaf_key;
    }
    if (pqs_server_start(&o, &s, &err) != 0)
        fail_msg("%s", err.msg);
    return s;
}

static int64_t counter(const struct pqs_server *s, const char *name) {
    RESULT r = {0};
    pqs_server_counters(s, &r);
    return pqs_result_get(&r, PQS_SERVER, name, 0);
}

/* The server notices things a little later than its client does. */
static void await(const struct pqs_server *s, const char *name, int64_t want) {
    int64_t give_up = pqs_now_ns() + 5 * PQS_NS_PER_S;
    while (counter(s, name) != want && pqs_now_ns() < give_up)
        usleep(1000);
    if (counter(s, name) != want) {
        RESULT r = {0};
        pqs_server_counters(s, &r);
        for (size_t i = 0; i < r.n_counters; i++)
            fprintf(stderr, "%s %lld\n", r.counters[i].name, (long long)r.counters[i].value);
        fail_msg("%s is %lld, not %lld", name, (long long)counter(s, name), (long long)want);
    }
}

/* Every connection is over and was completed, or failed in the one way that was expected. */
static void end(struct pqs_server *s, int64_t completed, int64_t failed, const char *class) {
    await(s, "open", 0);
    await(s, "completed", completed);
    await(s, "failed", failed);
    if (class)
        await(s, class, failed);
    await(s, "accepted", completed + failed);
    pqs_server_stop(s, 0);
    pqs_server_free(s);
}

/* ---- clients ---- */

static int new_socket(void) {
    struct timeval patience = {.tv_sec = 8};
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
    return fd;
}

static void connect_to(const struct pqs_server *s, int fd) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(pqs_server_port(s, 0))};
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
}

static int dial(const struct pqs_server *s) {
    int fd = new_socket();
    connect_to(s, fd);
    return fd;
}

static void put(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void reset(int fd) {
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger)), 0);
    close(fd);
}

/* Everything until the server closes. False when it does not end cleanly within the patience. */
static bool read_to_end(int fd, struct pqs_buf *ret) {
    char piece[65536];
    ssize_t n;
    while ((n = recv(fd, piece, sizeof piece, 0)) > 0)
        pqs_buf_add(ret, piece, (size_t)n);
    return n == 0;
}

/* A TLS client over a connected socket, or over nothing yet. */
struct client {
    int fd;
    SSL_CTX *ctx;
    SSL *ssl;
    struct pqs_tls_watch watch;
};

static struct client client_new(const struct pqs_server *s, const struct pqs_tls_options *options) {
    struct pqs_tls_options o = options ? *options : (struct pqs_tls_options){0};
    struct pqs_err err = {0};
    struct client c = {.fd = dial(s)};
    if (pqs_tls_client_context(&o, &c.ctx, &err) != 0)
        fail_msg("%s", err.msg);
    c.ssl = pqs_tls_client_connection(c.ctx, pqs_tls_sni(o.servername));
    assert_non_null(c.ssl);
    assert_int_equal(SSL_set_fd(c.ssl, c.fd), 1);
    return c;
}

static void client_free(struct client *c) {
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    if (c->fd >= 0)
        close(c->fd);
    ERR_clear_error();
}

static struct client connected(const struct pqs_server *s) {
    struct client c = client_new(s, NULL);
    assert_int_equal(SSL_connect(c.ssl), 1);
    return c;
}

static void ask(const struct client *c, const char *text) {
    for (size_t left = strlen(text), n; left > 0; left -= n, text += n)
        assert_int_equal(SSL_write_ex(c->ssl, text, left, &n), 1);
}

/* Reads one response: its head into ret_head (NUL-terminated) and its body; returns the body's length. */
static size_t answer(const struct client *c, char ret_head[static 1024], struct pqs_buf *ret_body) {
    size_t n = 0, length = 0;
    for (;;) { /* byte by byte: nothing of the next response is taken */
        assert_true(n < 1023);
        if (SSL_read(c->ssl, ret_head + n, 1) != 1)
            fail_msg("the head ended after %zu bytes", n);
        ret_head[++n] = '\0';
        if (n >= 4 && strcmp(ret_head + n - 4, "\r\n\r\n") == 0)
            break;
    }
    const char *header = strcasestr(ret_head, "\r\nContent-Length: ");
    assert_non_null(header);
    length = strtoul(header + 18, NULL, 10);
    if (!ret_body)
        return length; /* an answer to HEAD has none */
    pqs_buf_clear(ret_body);
    static char piece[65536];
    for (size_t left = length; left > 0;) {
        int got = SSL_read(c->ssl, piece, (int)(left < sizeof piece ? left : sizeof piece));
        if (got <= 0)
            fail_msg("the body ended %zu bytes early", left);
        pqs_buf_add(ret_body, piece, (size_t)got);
        left -= (size_t)got;
    }
    return length;
}

static void expect(const struct client *c, const char *status, size_t body, const char *text) {
    char head[1024];
    PQS_BUF b = {0};
    size_t n = answer(c, head, &b);
    char line[64];
    snprintf(line, sizeof line, "HTTP/1.1 %s\r\n", status);
    if (strncmp(head, line, strlen(line)) != 0 || n != body || (text && strcmp(pqs_buf_text(&b), text) != 0))
        fail_msg("%zu bytes of body after %s", n, head);
}

/* ---- answers ---- */

static void answers_paths(void **state) {
    static const struct {
        const char *path, *status;
        size_t body;
    } cases[] = {
        {"/", "200 OK", 3},
        {"/?query", "200 OK", 3},
        {"/bytes/0", "200 OK", 0},
        {"/bytes/1", "200 OK", 1},
        {"/bytes/3", "200 OK", 3},
        {"/bytes/16000", "200 OK", 16000},
        {"/bytes/16384", "200 OK", 16384},
        {"/bytes/262144", "200 OK", 262144},
        {"/bytes/1048576", "200 OK", 1048576},
        {"/bytes/67108864", "200 OK", 67108864},
        {"/bytes/67108865", "404 Not Found", 42},
        {"/bytes/", "404 Not Found", 42},
        {"/bytes/-1", "404 Not Found", 42},
        {"/bytes/1x", "404 Not Found", 42},
        {"/bytes/18446744073709551617", "404 Not Found", 42},
        {"/bytes", "404 Not Found", 42},
        {"/other", "404 Not Found", 42},
    };
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct client c = connected(s);
        char request[128];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", cases[i].path);
        ask(&c, request);
        expect(&c, cases[i].status, cases[i].body, cases[i].body == 3 && cases[i].path[1] != 'b' ? "ok\n" : NULL);
        client_free(&c);
    }
    await(s, "responses", PQS_COUNT(cases));
    await(s, "handshakes", PQS_COUNT(cases));
    end(s, PQS_COUNT(cases), 0, NULL);
}

static void keeps_connections(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    struct client c = connected(s);
    for (int i = 0; i < 3; i++) {
        ask(&c, "GET / HTTP/1.1\r\n\r\n");
        expect(&c, "200 OK", 3, "ok\n");
    }
    ask(&c, "GET /bytes/500000 HTTP/1.1\r\n\r\n");
    expect(&c, "200 OK", 500000, NULL);
    ask(&c, "GET / HTTP/1.1\r\n\r\n");
    expect(&c, "200 OK", 3, "ok\n");
    await(s, "open", 1);
    client_free(&c);
    await(s, "responses", 5);
    end(s, 1, 0, NULL);
}

static void answers_pipelined_requests(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    struct client c = connected(s);
    ask(&c, "GET / HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\nGET /bytes/5 HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\n\r\nGET / HT");
    expect(&c, "200 OK", 3, "ok\n");
    char head[1024];
    assert_int_equal(answer(&c, head, NULL), 3);
    expect(&c, "200 OK", 5, "xxxxx");
    expect(&c, "404 Not Found", 42, NULL);
    ask(&c, "TP/1.1\r\n\r\n");
    expect(&c, "200 OK", 3, "ok\n");
    /* Behind bodies of more than one record, of more than is prepared at a time, and of more than a socket takes at once. */
    static const size_t sizes[] = {20000, 300000, 6000000};
    for (size_t i = 0; i < PQS_COUNT(sizes); i++) {
        char text[256];
        snprintf(text, sizeof text, "GET /bytes/%zu HTTP/1.1\r\n\r\nGET /bytes/%zu HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
                 sizes[i], sizes[i] + 1);
        ask(&c, text);
        expect(&c, "200 OK", sizes[i], NULL);
        expect(&c, "200 OK", sizes[i] + 1, NULL);
        expect(&c, "200 OK", 3, "ok\n");
    }
    client_free(&c);
    end(s, 1, 0, NULL);
}

/* Many requests at once, whose answers together are far more than is prepared at a time. */
static void answers_a_flood_of_requests(void **state) {
    enum { N = 1000 };
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    struct client c = connected(s);
    PQS_BUF all = {0};
    for (int i = 0; i < N; i++)
        pqs_buf_addf(&all, "GET /bytes/16000 HTTP/1.1\r\n\r\n");
    ask(&c, pqs_buf_text(&all));
    for (int i = 0; i < N; i++)
        expect(&c, "200 OK", 16000, NULL);
    client_free(&c);
    await(s, "responses", N);
    end(s, 1, 0, NULL);
}

static void closes_when_asked(void **state) {
    static const char *const requests[] = {
        "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET /bytes/20000 HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /bytes/3000000 HTTP/1.1\r\nConnection: close\r\n\r\n",
        "HEAD /bytes/3000000 HTTP/1.1\r\nConnection: close\r\n\r\n",
    };
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    for (size_t i = 0; i < PQS_COUNT(requests); i++) {
        struct client c = connected(s);
        char head[1024];
        PQS_BUF body = {0};
        ask(&c, requests[i]);
        answer(&c, head, requests[i][0] == 'H' ? NULL : &body);
        assert_non_null(strstr(head, "\r\nConnection: close\r\n"));
        int64_t begin = pqs_now_ns();
        char byte;
        int rc = SSL_read(c.ssl, &byte, 1); /* close_notify, at once, and then the end of the stream */
        assert_int_equal(SSL_get_error(c.ssl, rc), SSL_ERROR_ZERO_RETURN);
        assert_int_equal(recv(c.fd, &byte, 1, 0), 0);
        assert_true(pqs_now_ns() - begin < 3 * PQS_NS_PER_S);
        client_free(&c);
    }
    end(s, PQS_COUNT(requests), 0, NULL);
}

static void answers_other_methods(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    struct client c = connected(s);
    char head[1024];
    ask(&c, "HEAD /bytes/1000000 HTTP/1.1\r\n\r\n");
    assert_int_equal(answer(&c, head, NULL), 1000000);
    ask(&c, "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    expect(&c, "405 Method Not Allowed", 18, "only GET and HEAD\n");
    ask(&c, "GET / HTTP/1.1\r\n\r\n");
    expect(&c, "200 OK", 3, "ok\n");
    ask(&c, "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"); /* a body is not taken */
    expect(&c, "400 Bad Request", 0, NULL);
    char byte;
    assert_true(SSL_read(c.ssl, &byte, 1) <= 0);
    client_free(&c);
    end(s, 0, 1, "failed.http");
}

/* ---- the null engine's counterpart ---- */

static void plain_server(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){.plain = true, .timeout_ns = 300 * MS});
    PQS_BUF all = {0};
    int fd = dial(s);
    put(fd, "GET / HTTP/1.1\r\n\r\nGET /bytes/100000 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_true(read_to_end(fd, &all));
    close(fd);
    assert_true(all.len > 100000 && memcmp(all.data + all.len - 3, "ok\n", 3) == 0);
    await(s, "completed", 1);
    await(s, "responses", 3);
    /* Nothing was asked: not a completed connection, whichever way it ends. */
    fd = dial(s);
    close(fd);
    await(s, "failed.eof", 1);
    fd = dial(s);
    reset(fd);
    await(s, "failed.reset", 1);
    fd = dial(s);
    await(s, "failed.timeout", 1);
    close(fd);
    end(s, 1, 3, NULL);
}

/* ---- clients that misbehave ---- */

static void half_closed_client(void **state) {
    static const char *const requests[] = {"GET / HTTP/1.1\r\n\r\n",
                                           "GET /bytes/5000000 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"};
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    for (size_t i = 0; i < PQS_COUNT(requests); i++) {
        struct client c = connected(s);
        ask(&c, requests[i]);
        assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
        if (i == 1)
            expect(&c, "200 OK", 5000000, NULL);
        expect(&c, "200 OK", 3, "ok\n");
        char byte;
        assert_int_equal(recv(c.fd, &byte, 1, 0), 0);
        client_free(&c);
    }
    end(s, 2, 0, NULL);
}

/* Handshake and request, one byte in a segment. */
static void byte_by_byte_client(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    struct client c = client_new(s, NULL);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(c.ssl, in, out);
    SSL_set_connect_state(c.ssl);
    bool asked = false;
    char text[256] = "";
    for (size_t n = 0; !strstr(text, "ok\n");) {
        int rc = asked ? SSL_read(c.ssl, text + n, (int)(sizeof text - 1 - n)) : SSL_do_handshake(c.ssl);
        if (asked && rc > 0)
            n += (size_t)rc;
        if (!asked && rc == 1) {
            ask(&c, "GET / HTTP/1.1\r\n\r\n");
            asked = true;
        }
        char byte;
        while (BIO_read(out, &byte, 1) == 1)
            assert_int_equal(send(c.fd, &byte, 1, MSG_NOSIGNAL), 1);
        if (rc <= 0) {
            assert_int_equal(SSL_get_error(c.ssl, rc), SSL_ERROR_WANT_READ);
            char piece[4096];
            ssize_t got = recv(c.fd, piece, sizeof piece, 0);
            assert_true(got > 0);
            BIO_write(in, piece, (int)got);
        }
    }
    client_free(&c);
    end(s, 1, 0, NULL);
}

static void silent_clients_time_out(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){.timeout_ns = 300 * MS});
    int64_t begin = pqs_now_ns();
    int silent = dial(s);
    int half = dial(s); /* stops in the middle of its ClientHello */
    put(half, "\x16\x03\x01\x02");
    struct client unasked = connected(s); /* finishes the handshake and asks for nothing */
    struct client partial = connected(s); /* ... or for half of something */
    ask(&partial, "GET / HT");
    struct client idle = connected(s); /* has had its answer: may be silent, and is closed all the same */
    ask(&idle, "GET / HTTP/1.1\r\n\r\n");
    expect(&idle, "200 OK", 3, "ok\n");
    char byte;
    assert_int_equal(recv(silent, &byte, 1, 0), 0);
    assert_int_equal(recv(half, &byte, 1, 0), 0);
    int64_t took = pqs_now_ns() - begin;
    assert_true(took >= 300 * MS && took < 3 * PQS_NS_PER_S);
    await(s, "failed.timeout", 4);
    await(s, "open", 0);
    close(silent);
    close(half);
    client_free(&unasked);
    client_free(&partial);
    client_free(&idle);
    end(s, 1, 4, "failed.timeout");
}

static void plaintext_client(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    int64_t begin = pqs_now_ns();
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "EHLO there\r\n", "\r\n\r\n\r\n"};
    for (size_t i = 0; i < PQS_COUNT(texts); i++) {
        int fd = dial(s);
        PQS_BUF all = {0};
        put(fd, texts[i]);
        assert_true(read_to_end(fd, &all)); /* an orderly end, whatever is said before it */
        assert_true(all.len < 100);
        close(fd);
    }
    assert_true(pqs_now_ns() - begin < 3 * PQS_NS_PER_S);
    end(s, 0, 3, "failed.plaintext");
}

static void tls12_client(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION), 1);
    struct client c = {.fd = dial(s), .ctx = ctx, .ssl = SSL_new(ctx)};
    SSL_set_fd(c.ssl, c.fd);
    assert_true(SSL_connect(c.ssl) <= 0);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
    client_free(&c);
    end(s, 0, 1, "failed.version");
}

static void resetting_clients(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    int fd = dial(s); /* before it said anything */
    reset(fd);
    await(s, "failed.reset", 1);
    fd = dial(s); /* in the middle of the ClientHello */
    put(fd, "\x16\x03\x01\x02");
    await(s, "bytes_in", 4);
    reset(fd);
    await(s, "failed.reset", 2);
    struct client c = connected(s); /* in the middle of a request */
    ask(&c, "GET / HT");
    reset(c.fd);
    c.fd = -1;
    client_free(&c);
    await(s, "failed.reset", 3);
    c = connected(s); /* in the middle of a body */
    ask(&c, "GET /bytes/67108864 HTTP/1.1\r\n\r\n");
    char byte;
    assert_int_equal(SSL_read(c.ssl, &byte, 1), 1);
    reset(c.fd);
    c.fd = -1;
    client_free(&c);
    await(s, "failed.reset", 4);
    c = connected(s); /* between two requests: an end like another */
    ask(&c, "GET / HTTP/1.1\r\n\r\n");
    expect(&c, "200 OK", 3, "ok\n");
    reset(c.fd);
    c.fd = -1;
    client_free(&c);
    end(s, 1, 4, "failed.reset");
}

/* A client that closes in the middle of a large answer: SIGPIPE would end this process. */
static void closing_client(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    for (int i = 0; i < 5; i++) {
        struct client c = connected(s);
        ask(&c, "GET /bytes/67108864 HTTP/1.1\r\n\r\n");
        char piece[1000];
        assert_true(SSL_read(c.ssl, piece, sizeof piece) > 0);
        client_free(&c);
    }
    end(s, 0, 5, "failed.reset");
}

static void garbage_after_handshake(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    struct client c = connected(s);
    put(c.fd, "this is not a TLS record at all");
    PQS_BUF all = {0};
    assert_true(read_to_end(c.fd, &all)); /* an alert, then the end */
    assert_true(all.len > 0 && all.len < 100);
    client_free(&c);
    c = connected(s);
    ask(&c, "\x01\x02\x03 not HTTP");
    expect(&c, "400 Bad Request", 0, NULL);
    client_free(&c);
    await(s, "failed.http", 1);
    end(s, 0, 2, NULL);
}

static void silent_clients_do_not_disturb(void **state) {
    enum { N = 20 };
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    int silent[N];
    for (int i = 0; i < N; i++)
        silent[i] = dial(s);
    await(s, "accepted", N);
    int64_t begin = pqs_now_ns();
    struct client c = connected(s);
    ask(&c, "GET / HTTP/1.1\r\n\r\n");
    expect(&c, "200 OK", 3, "ok\n");
    assert_true(pqs_now_ns() - begin < PQS_NS_PER_S); /* their timeout is 10 s */
    client_free(&c);
    for (int i = 0; i < N; i++)
        close(silent[i]);
    end(s, 1, N, "failed.eof");
}

/* A client that reads slowly, for longer than the timeout but never silent for as long, gets everything; the server does not
 * hold the whole body in memory meanwhile. */
static size_t resident_bytes(void) {
    PQS_BUF text = {0};
    char *end_of_size;
    assert_int_equal(pqs_read_file("/proc/self/statm", 4096, &text, NULL), 0);
    strtoul(pqs_buf_text(&text), &end_of_size, 10);
    return strtoul(end_of_size, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void slow_reader(void **state) {
    static const size_t body = 64u << 20, slow = 2u << 20;
    static char piece[65536];
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){.plain = true, .timeout_ns = 400 * MS});
    int fd = new_socket();
    int small = 32768;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    connect_to(s, fd);
    size_t before = resident_bytes(), most = before, got = 0;
    int64_t begin = pqs_now_ns();
    put(fd, "GET /bytes/67108864 HTTP/1.1\r\nConnection: close\r\n\r\n");
    ssize_t n;
    while ((n = recv(fd, piece, got < slow ? 8192 : sizeof piece, 0)) > 0) {
        got += (size_t)n;
        if (got >= slow)
            continue;
        size_t now = resident_bytes();
        most = now > most ? now : most;
        usleep(5000);
    }
    assert_int_equal(n, 0);
    assert_true(got > body && got < body + 1000);
    assert_true(pqs_now_ns() - begin > 1200 * MS);
#ifndef SANITIZED
    if (most - before > (2u << 20))
        fail_msg("%zu bytes were held", most - before);
#endif
    close(fd);
    end(s, 1, 0, NULL);
}

/* ... and one that does not read at all is given up. */
static void stuck_reader(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){.timeout_ns = 300 * MS});
    struct client c = connected(s);
    ask(&c, "GET /bytes/67108864 HTTP/1.1\r\n\r\n");
    await(s, "failed.timeout", 1);
    client_free(&c);
    end(s, 0, 1, "failed.timeout");
}

/* ---- limits ---- */

static rlim_t limit_that_leaves(int n_free) {
    int fd = 0;
    for (; n_free > 0; fd++)
        n_free -= fcntl(fd, F_GETFD) < 0;
    return (rlim_t)fd;
}

/* F24: no descriptors left to accept with: a pause now and then instead of a spinning thread, and recovery. */
static void out_of_descriptors(void **state) {
    enum { N = 8 };
    struct rlimit before;
    int fds[N];
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){.plain = true});
    for (int i = 0; i < N; i++)
        fds[i] = new_socket();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit few = {.rlim_cur = limit_that_leaves(2), .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = 0; i < N; i++)
        connect_to(s, fds[i]); /* the kernel accepts all; the server finds descriptors for two */
    int64_t give_up = pqs_now_ns() + 5 * PQS_NS_PER_S;
    while (counter(s, "accept_backoff") == 0 && pqs_now_ns() < give_up)
        usleep(1000);
    int64_t accepted = counter(s, "accepted"), pauses = counter(s, "accept_backoff"), cpu_ns = pqs_cpu_ns();
    usleep(1000000);
    pauses = counter(s, "accept_backoff") - pauses;
    cpu_ns = pqs_cpu_ns() - cpu_ns;
    /* Those that are in work on. */
    put(fds[0], "GET / HTTP/1.1\r\n\r\n");
    char text[512] = "";
    assert_true(recv(fds[0], text, sizeof text - 1, 0) > 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(accepted, 2);
    assert_true(pauses >= 3 && pauses <= 25);
    assert_true(cpu_ns < 200 * MS);
    for (int i = 1; i < N; i++) { /* and the others get in now */
        put(fds[i], "GET / HTTP/1.1\r\n\r\n");
        memset(text, 0, sizeof text);
        assert_true(recv(fds[i], text, sizeof text - 1, 0) > 0);
        assert_non_null(strstr(text, "ok\n"));
    }
    for (int i = 0; i < N; i++)
        close(fds[i]);
    end(s, N, 0, NULL);
}

static void client_certificates(void **state) {
    static const struct {
        const struct pqs_certificate_files *own;
        int alert;
    } cases[] = {{NULL, SSL_AD_CERTIFICATE_REQUIRED}, {&stranger, SSL_AD_UNKNOWN_CA}, {&ecdsa, 0}};
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct pqs_server *s = start((struct pqs_server_options){.tls = {.verify = true, .ca = &ecdsa.ca}});
        struct pqs_tls_options o = {.verify = true, .ca = &ecdsa.ca, .servername = "localhost"};
        if (cases[i].own) {
            o.cert[0] = &cases[i].own->leaf;
            o.key[0] = &cases[i].own->leaf_key;
        }
        struct client c = client_new(s, &o);
        assert_int_equal(SSL_connect(c.ssl), 1); /* F01: the client does not know yet */
        ask(&c, "GET / HTTP/1.1\r\n\r\n");
        if (cases[i].alert) {
            char byte;
            int rc = SSL_read(c.ssl, &byte, 1);
            assert_true(rc <= 0);
            assert_int_equal(pqs_tls_failure(c.ssl, NULL), PQS_FAILURE_ALERT + (unsigned)cases[i].alert);
        } else {
            expect(&c, "200 OK", 3, "ok\n");
        }
        client_free(&c);
        await(s, "handshakes", cases[i].alert ? 0 : 1);
        end(s, cases[i].alert ? 0 : 1, cases[i].alert ? 1 : 0, cases[i].alert ? "failed.verify" : NULL);
    }
}

/* ---- stopping ---- */

struct download {
    const struct client *c;
    size_t got;
};

static void *download_slowly(void *arg) {
    struct download *d = arg;
    static char piece[65536];
    usleep(300000); /* long after the server was told to stop */
    for (int n; (n = SSL_read(d->c->ssl, piece, sizeof piece)) > 0;)
        d->got += (size_t)n;
    shutdown(d->c->fd, SHUT_WR);
    return NULL;
}

static void stop_drains(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    struct client c = connected(s);
    struct client idle = connected(s);
    ask(&idle, "GET / HTTP/1.1\r\n\r\n");
    expect(&idle, "200 OK", 3, "ok\n");
    ask(&c, "GET /bytes/33554432 HTTP/1.1\r\nConnection: close\r\n\r\n");
    struct download d = {.c = &c};
    pthread_t thread;
    await(s, "responses", 2);
    assert_int_equal(pthread_create(&thread, NULL, download_slowly, &d), 0);
    usleep(50000);
    client_free(&idle);
    int64_t begin = pqs_now_ns();
    pqs_server_stop(s, 8 * PQS_NS_PER_S);
    int64_t took = pqs_now_ns() - begin;
    pthread_join(thread, NULL);
    assert_true(d.got > 33554432 && d.got < 33554432 + 1000);
    assert_true(took > 200 * MS && took < 7 * PQS_NS_PER_S);
    client_free(&c);
    end(s, 2, 0, NULL);
}

/* After the grace time what is unfinished is a failure; a connection between two requests is not. */
static void stop_gives_up(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){0});
    struct client stuck = connected(s), idle = connected(s);
    int silent = dial(s);
    ask(&stuck, "GET /bytes/67108864 HTTP/1.1\r\n\r\n");
    ask(&idle, "GET / HTTP/1.1\r\n\r\n");
    expect(&idle, "200 OK", 3, "ok\n");
    await(s, "accepted", 3);
    await(s, "responses", 2);
    int64_t begin = pqs_now_ns();
    pqs_server_stop(s, 200 * MS);
    int64_t took = pqs_now_ns() - begin;
    assert_true(took >= 200 * MS && took < 2 * PQS_NS_PER_S);
    client_free(&stuck);
    client_free(&idle);
    close(silent);
    end(s, 1, 2, "failed.timeout");
}

static void stop_refuses_new_connections(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){.threads = 3, .n_ports = 2});
    uint16_t port = pqs_server_port(s, 1);
    assert_true(port != pqs_server_port(s, 0));
    assert_int_equal(pqs_server_open(s), 0);
    pqs_server_stop(s, 0);
    pqs_server_free(s);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    pqs_server_free(NULL);
}

/* ---- starting ---- */

static void start_errors(void **state) {
    struct pqs_server *other = start((struct pqs_server_options){0});
    const struct pqs_server_options good = {
        .tls = {.cert = {&ecdsa.leaf}, .key = {&ecdsa.leaf_key}},
        .host = "127.0.0.1",
        .n_ports = 1,
        .threads = 1,
        .backlog = 16,
        .timeout_ns = PQS_NS_PER_S,
    };
    struct pqs_buf junk = {0};
    (void)state;
    pqs_buf_addf(&junk, "not PEM\n");
    enum {
        NO_ADDRESS,
        IN_USE,
        NO_PORTS,
        PORTS,
        NO_THREADS,
        THREADS,
        NO_CERT,
        NO_KEY,
        WRONG_KEY,
        JUNK,
        GROUPS,
        SIGALGS,
        NO_CA,
        SECOND_IN_USE,
        BEYOND,
        CASES
    };
    static const struct {
        int code;
        const char *says;
    } want[CASES] = {
        [NO_ADDRESS] = {PQS_E_USAGE, "'no-address'"},
        [IN_USE] = {PQS_E_FAILED, "in use"},
        [NO_PORTS] = {PQS_E_USAGE, "ports"},
        [PORTS] = {PQS_E_USAGE, "65"},
        [NO_THREADS] = {PQS_E_USAGE, "threads"},
        [THREADS] = {PQS_E_USAGE, "257"},
        [NO_CERT] = {PQS_E_FAILED, "certificate"},
        [NO_KEY] = {PQS_E_FAILED, "private key"},
        [WRONG_KEY] = {PQS_E_FAILED, "private key"},
        [JUNK] = {PQS_E_FAILED, "PEM"},
        [GROUPS] = {PQS_E_FAILED, "'NoSuchGroup'"},
        [SIGALGS] = {PQS_E_FAILED, "'nonsense'"},
        [NO_CA] = {PQS_E_FAILED, "CA"},
        [SECOND_IN_USE] = {PQS_E_FAILED, "in use"},
        [BEYOND] = {PQS_E_USAGE, "65535"},
    };
    for (int i = 0; i < CASES; i++) {
        struct pqs_server_options o = good;
        struct pqs_server *s = NULL;
        struct pqs_err err = {0};
        switch (i) {
        case NO_ADDRESS:
            o.host = "no-address";
            break;
        case IN_USE:
            o.port = pqs_server_port(other, 0);
            break;
        case NO_PORTS:
            o.n_ports = 0;
            break;
        case PORTS:
            o.n_ports = 65;
            break;
        case NO_THREADS:
            o.threads = 0;
            break;
        case THREADS:
            o.threads = 257;
            break;
        case NO_CERT:
            o.tls.cert[0] = NULL;
            break;
        case NO_KEY:
            o.tls.key[0] = NULL;
            break;
        case WRONG_KEY:
            o.tls.key[0] = &stranger.leaf_key;
            break;
        case JUNK:
            o.tls.cert[0] = &junk;
            break;
        case GROUPS:
            o.tls.groups = "NoSuchGroup";
            break;
        case SIGALGS:
            o.tls.sigalgs = "nonsense";
            break;
        case NO_CA:
            o.tls.verify = true;
            break;
        case SECOND_IN_USE:
            o.port = (uint16_t)(pqs_server_port(other, 0) - 1);
            o.n_ports = 2;
            break;
        case BEYOND:
            o.port = 65535;
            o.n_ports = 2;
            break;
        default:
            break;
        }
        int rc = pqs_server_start(&o, &s, &err);
        if (rc != want[i].code || !strstr(err.msg, want[i].says) || s)
            fail_msg("case %d: %d '%s'", i, rc, err.msg);
    }
    pqs_buf_release(&junk);
    /* The same port is free again as soon as its server is gone, connections in TIME_WAIT or not. */
    struct client c = connected(other);
    uint16_t port = pqs_server_port(other, 0);
    pqs_server_free(other);
    client_free(&c);
    struct pqs_server *again = start((struct pqs_server_options){.port = port, .threads = 2});
    assert_int_equal(pqs_server_port(again, 0), port);
    c = connected(again);
    client_free(&c);
    end(again, 1, 0, NULL);
}

/* ---- sizes (RFC 8446; FIPS 203, 204) and flights ---- */

enum {
    CLIENT_HELLO = 1,
    SERVER_HELLO = 2,
    ENCRYPTED_EXTENSIONS = 8,
    CERTIFICATE = 11,
    CERTIFICATE_VERIFY = 15,
    FINISHED = 20
};

/* One handshake over a bare socket: the client's first flight in one send; then, after a pause, whatever the server has sent
 * in one recv. ret_flight is that recv's length. */
static struct client one_handshake(const struct pqs_server *s, const char *groups, size_t *ret_flight) {
    struct client c = client_new(s, &(struct pqs_tls_options){.groups = groups});
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    static char flight[262144];
    SSL_set_bio(c.ssl, in, out);
    SSL_set_connect_state(c.ssl);
    pqs_tls_watch_start(c.ssl, &c.watch);
    assert_int_equal(SSL_do_handshake(c.ssl), -1);
    char *hello;
    long n = BIO_get_mem_data(out, &hello);
    assert_int_equal(send(c.fd, hello, (size_t)n, MSG_NOSIGNAL), n);
    (void)BIO_reset(out);
    struct pollfd p = {.fd = c.fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 5000), 1);             /* woken by the first segment ... */
    ssize_t got = recv(c.fd, flight, sizeof flight, 0); /* ... and the whole flight is there: it was one write */
    assert_true(got > 0);
    *ret_flight = (size_t)got;
    BIO_write(in, flight, (int)got);
    if (SSL_do_handshake(c.ssl) != 1)
        fail_msg("%zu bytes of the server are not its flight", *ret_flight);
    return c;
}

static size_t der_bytes(const struct pqs_certificate_files *files) {
    BIO *bio = BIO_new_mem_buf(files->leaf.data, (int)files->leaf.len);
    X509 *leaf = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    assert_non_null(leaf);
    int n = i2d_X509(leaf, NULL);
    X509_free(leaf);
    return (size_t)n;
}

/* Where the stacks differ on the wire (docs/STACKS.md). */
static bool is_aws_lc(void) {
    return strcmp(pqs_evp_stack, "aws-lc") == 0;
}

static const char *cipher_of_stack(void) {
    return is_aws_lc() ? "TLS_AES_128_GCM_SHA256" : "TLS_AES_256_GCM_SHA384";
}

static void message_sizes(void **state) {
    const uint32_t finished = is_aws_lc() ? 4 + 32 : 4 + 48; /* the hash of the cipher suite */
    const size_t records = is_aws_lc() ? 1 : 4;              /* encrypted ones: for all messages, or for each */
    static const struct {
        const char *server_groups, *client_groups;
        uint32_t server_hello, encrypted_extensions;
    } cases[] = {
        {"X25519", "X25519", 122, 6},
        {"X25519MLKEM768", "X25519MLKEM768", 1210, 6},
        {"P-256", "P-256", 155, 6},
        {"MLKEM768", "MLKEM768", 1178, 6},
        {"SecP256r1MLKEM768", "SecP256r1MLKEM768", 1243, 6},
        {"MLKEM1024", "MLKEM1024", 1658, 6},
        {"SecP384r1MLKEM1024", "SecP384r1MLKEM1024", 1755, 6},
        {"X25519MLKEM768:X25519", "X25519MLKEM768", 1210, 6},
        {"X25519MLKEM768:X25519", "X25519", 122, 12 + 2 * 2},
        {"X25519MLKEM768:X25519:P-256", "X25519", 122, 12 + 2 * 3},
    };
    static const struct {
        const struct pqs_certificate_files *files;
        uint32_t verify_min, verify_max; /* CertificateVerify; ECDSA's DER is short when its numbers are */
    } certificates[] = {{&ecdsa, 72, 80}, {&mldsa, 3317, 3317}};
    (void)state;
    for (size_t k = 0; k < PQS_COUNT(certificates); k++) {
        const struct pqs_certificate_files *files = certificates[k].files;
        uint32_t hello[PQS_COUNT(cases)];
        for (size_t i = 0; i < PQS_COUNT(cases); i++) {
            struct pqs_server *s = start((struct pqs_server_options){
                .tls = {.groups = cases[i].server_groups, .cert = {&files->leaf}, .key = {&files->leaf_key}}});
            size_t flight;
            struct client c = one_handshake(s, cases[i].client_groups, &flight);
            const uint32_t *bytes = c.watch.message_bytes;
            hello[i] = bytes[CLIENT_HELLO];
            assert_false(c.watch.retry);
            assert_int_equal(bytes[SERVER_HELLO], cases[i].server_hello);
            /* Only OpenSSL tells a client that its choice was not the server's favourite. */
            assert_int_equal(bytes[ENCRYPTED_EXTENSIONS], is_aws_lc() ? 6 : cases[i].encrypted_extensions);
            assert_int_equal(bytes[CERTIFICATE], 8 + 5 + der_bytes(files));
            assert_in_range(bytes[CERTIFICATE_VERIFY], certificates[k].verify_min, certificates[k].verify_max);
            assert_int_equal(bytes[FINISHED], finished);
            /* One write: a plaintext record, ChangeCipherSpec, and encrypted records. */
            size_t sum = 5 + bytes[SERVER_HELLO] + 6 + records * 22 + bytes[ENCRYPTED_EXTENSIONS] + bytes[CERTIFICATE] +
                         bytes[CERTIFICATE_VERIFY] + bytes[FINISHED];
            assert_int_equal(flight, sum);
            await(s, "bytes_out", (int64_t)sum);
            RESULT facts = {0};
            char text[16];
            pqs_tls_watch_report(&c.watch, PQS_CLIENT, &facts);
            pqs_tls_chain_report(c.ssl, &facts);
            snprintf(text, sizeof text, "%u", cases[i].server_hello);
            assert_string_equal(pqs_result_fact_of(&facts, PQS_CLIENT, "message.server_hello", NULL), text);
            snprintf(text, sizeof text, "%zu", der_bytes(files));
            assert_string_equal(pqs_result_fact_of(&facts, PQS_CLIENT, "certificate.chain_bytes", NULL), text);
            assert_string_equal(pqs_result_fact_of(&facts, PQS_CLIENT, "certificate.chain_length", NULL), "1");
            assert_string_equal(pqs_result_fact_of(&facts, PQS_CLIENT, "certificate.key", NULL),
                                k ? "ML-DSA-65" : "ecdsa-p256");
            assert_null(pqs_result_fact_of(&facts, PQS_CLIENT, "message.new_session_ticket", NULL));
            client_free(&c);
            end(s, 0, 1, "failed.eof"); /* it never saw our Finished */
        }
        assert_int_equal(cases[1].server_hello - cases[0].server_hello, 1088);
        /* The shares differ by 1184 bytes; OpenSSL leaves out ec_point_formats (8) when no elliptic curve is offered. */
        assert_int_equal(hello[1] - hello[0], is_aws_lc() ? 1184 : 1176);
    }
}

/* A HelloRetryRequest is noticed, and is not mistaken for the ServerHello. */
static void retry_is_seen(void **state) {
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){.tls = {.groups = "P-384"}});
    struct client c = client_new(s, &(struct pqs_tls_options){.groups = "X25519:P-384"});
    pqs_tls_watch_start(c.ssl, &c.watch);
    assert_int_equal(SSL_connect(c.ssl), 1);
    assert_true(c.watch.retry);
    assert_int_equal(c.watch.message_bytes[SERVER_HELLO], 90 + 97);
    struct pqs_negotiated what;
    pqs_negotiated_get(c.ssl, &what);
    assert_string_equal(what.protocol, "TLSv1.3");
    assert_string_equal(what.group, is_aws_lc() ? "P-384" : "secp384r1");
    assert_string_equal(what.cipher, cipher_of_stack());
    assert_false(what.verified); /* nobody was asked to */
    assert_false(what.resumed);
    client_free(&c);
    await(s, "completed", 1);
    RESULT r = {0};
    pqs_server_stop(s, 0);
    pqs_server_facts(s, &r);
    assert_string_equal(pqs_result_fact_of(&r, PQS_SERVER, "group", NULL), "secp384r1");
    end(s, 1, 0, NULL);
}

/* Whom the client believes: the name, the address, the CA. */
static void verification(void **state) {
    static const struct {
        const char *servername;
        const struct pqs_certificate_files *trust;
        bool verify, ok;
    } cases[] = {
        {"localhost", &ecdsa, true, true},  {"127.0.0.1", &ecdsa, true, true},     {"elsewhere", &ecdsa, true, false},
        {"127.0.0.2", &ecdsa, true, false}, {"localhost", &stranger, true, false}, {"elsewhere", &stranger, false, true},
    };
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct pqs_server *s = start((struct pqs_server_options){0});
        struct client c =
            client_new(s, &(struct pqs_tls_options){
                              .ca = &cases[i].trust->ca, .verify = cases[i].verify, .servername = cases[i].servername});
        int rc = SSL_connect(c.ssl);
        assert_int_equal(rc == 1, cases[i].ok);
        if (rc == 1) {
            struct pqs_negotiated what;
            pqs_negotiated_get(c.ssl, &what);
            assert_int_equal(what.verified, cases[i].verify);
        } else {
            PQS_BUF why = {0};
            assert_int_equal(pqs_tls_failure(c.ssl, &why), PQS_FAILURE_VERIFY);
            assert_true(why.len > 0);
        }
        client_free(&c);
        await(s, "open", 0);
        await(s, "handshakes", cases[i].ok ? 1 : 0);
        end(s, cases[i].ok ? 1 : 0, cases[i].ok ? 0 : 1, NULL);
    }
}

/* Two certificates: the client's signature algorithms choose. */
static void two_certificates(void **state) {
    static const struct {
        const char *sigalgs, *key;
    } cases[] = {{"ecdsa_secp256r1_sha256", "ecdsa-p256"}, {"mldsa65", "ML-DSA-65"}};
    (void)state;
    struct pqs_server *s = start((struct pqs_server_options){
        .tls = {.cert = {&ecdsa.leaf, &mldsa.leaf}, .key = {&ecdsa.leaf_key, &mldsa.leaf_key}}, .threads = 2});
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct client c = client_new(s, &(struct pqs_tls_options){.sigalgs = cases[i].sigalgs});
        assert_int_equal(SSL_connect(c.ssl), 1);
        RESULT r = {0};
        struct pqs_negotiated what;
        pqs_tls_chain_report(c.ssl, &r);
        pqs_negotiated_get(c.ssl, &what);
        assert_string_equal(pqs_result_fact_of(&r, PQS_CLIENT, "certificate.key", NULL), cases[i].key);
        assert_string_equal(what.signature, cases[i].sigalgs);
        client_free(&c);
    }
    end(s, 2, 0, NULL);
}

static void tally(void **state) {
    struct pqs_tally t = {0};
    struct pqs_negotiated what = {.protocol = "TLSv1.3", .group = "a", .cipher = "c", .signature = ""};
    (void)state;
    for (uint16_t i = 0; i < 18; i++)
        for (uint16_t k = 0; k <= i; k++) {
            what.http_status = (uint16_t)(100 + i);
            pqs_tally_add(&t, &what);
        }
    assert_int_equal(t.n_rows, 16);
    assert_int_equal(t.rows[15].n, 16);
    assert_int_equal(t.overflow, 17 + 18);
    RESULT r = {0};
    pqs_tally_report(&t, PQS_CLIENT, &r);
    uint64_t others;
    assert_string_equal(pqs_result_fact_of(&r, PQS_CLIENT, "group", &others), "a");
    assert_int_equal(others, 35);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_paths),
        cmocka_unit_test(keeps_connections),
        cmocka_unit_test(answers_pipelined_requests),
        cmocka_unit_test(answers_a_flood_of_requests),
        cmocka_unit_test(closes_when_asked),
        cmocka_unit_test(answers_other_methods),
        cmocka_unit_test(plain_server),
        cmocka_unit_test(half_closed_client),
        cmocka_unit_test(byte_by_byte_client),
        cmocka_unit_test(silent_clients_time_out),
        cmocka_unit_test(plaintext_client),
        cmocka_unit_test(tls12_client),
        cmocka_unit_test(resetting_clients),
        cmocka_unit_test(closing_client),
        cmocka_unit_test(garbage_after_handshake),
        cmocka_unit_test(silent_clients_do_not_disturb),
        cmocka_unit_test(slow_reader),
        cmocka_unit_test(stuck_reader),
        cmocka_unit_test(out_of_descriptors),
        cmocka_unit_test(client_certificates),
        cmocka_unit_test(stop_drains),
        cmocka_unit_test(stop_gives_up),
        cmocka_unit_test(stop_refuses_new_connections),
        cmocka_unit_test(start_errors),
        cmocka_unit_test(message_sizes),
        cmocka_unit_test(retry_is_seen),
        cmocka_unit_test(verification),
        cmocka_unit_test(two_certificates),
        cmocka_unit_test(tally),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, make_certificates, release_certificates);
}
