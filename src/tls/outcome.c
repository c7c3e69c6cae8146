/* Failures and facts of TLS connections. See outcome.h. */
#include "tls/outcome.h"

#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509.h>

#include "base/mem.h"
#include "channel/failure.h"
#include "crypto/certificate.h"
#include "crypto/evp.h"
#include "crypto/group.h"

/* SHA-256("HelloRetryRequest"), the random of a ServerHello that is a retry (RFC 8446, 4.1.3). */
static const uint8_t retry_random[32] = {0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C,
                                         0x02, 0x1E, 0x65, 0xB8, 0x91, 0xC2, 0xA2, 0x11, 0x16, 0x7A, 0xBB,
                                         0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C};

/* HandshakeType (RFC 8446, appendix B.3). */
static const struct {
    uint8_t type;
    const char *name;
} message_names[] = {
    {1, "client_hello"}, {2, "server_hello"},         {8, "encrypted_extensions"},
    {11, "certificate"}, {13, "certificate_request"}, {15, "certificate_verify"},
    {20, "finished"},
};

static void on_message(int write_p, int version, int content_type, const void *buf, size_t len, SSL *ssl, void *arg) {
    struct pqs_tls_watch *watch = arg;
    const uint8_t *data = buf;
    (void)write_p, (void)version, (void)ssl;
    if (content_type != SSL3_RT_HANDSHAKE || len < 4 || data[0] >= PQS_COUNT(watch->message_bytes))
        return;
    if (data[0] == SSL3_MT_SERVER_HELLO && len >= 38 && memcmp(data + 6, retry_random, sizeof retry_random) == 0)
        watch->retry = true;
    else
        watch->message_bytes[data[0]] = (uint32_t)len;
}

void pqs_tls_watch_start(SSL *ssl, struct pqs_tls_watch *watch) {
    memset(watch, 0, sizeof *watch);
    SSL_set_msg_callback(ssl, on_message);
    SSL_set_msg_callback_arg(ssl, watch);
}

void pqs_tls_watch_report(const struct pqs_tls_watch *watch, enum pqs_side side, struct pqs_result *r) {
    for (size_t i = 0; i < PQS_COUNT(message_names); i++) {
        uint32_t bytes = watch->message_bytes[message_names[i].type];
        if (bytes == 0)
            continue;
        char name[64], value[16];
        snprintf(name, sizeof name, "message.%s", message_names[i].name);
        snprintf(value, sizeof value, "%u", bytes);
        pqs_result_fact(r, side, name, value, 1);
    }
}

void pqs_tls_chain_report(SSL *ssl, struct pqs_result *r) {
    struct pqs_certificate_facts facts;
    char number[24];
    pqs_certificate_describe(SSL_get_peer_cert_chain(ssl), &facts);
    if (facts.n == 0)
        return;
    pqs_result_fact(r, PQS_CLIENT, "certificate.key", facts.key, 1);
    snprintf(number, sizeof number, "%zu", facts.der_bytes);
    pqs_result_fact(r, PQS_CLIENT, "certificate.chain_bytes", number, 1);
    snprintf(number, sizeof number, "%zu", facts.n);
    pqs_result_fact(r, PQS_CLIENT, "certificate.chain_length", number, 1);
}

static unsigned class_of_reason(int reason, bool server) {
    if (pqs_evp_is_eof(reason))
        return PQS_FAILURE_EOF;
    if (pqs_evp_is_no_record(reason))
        return server ? PQS_FAILURE_PLAINTEXT : PQS_FAILURE_PROTOCOL;
    switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return PQS_FAILURE_VERIFY;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
        return PQS_FAILURE_VERSION;
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
        return server ? PQS_FAILURE_PLAINTEXT : PQS_FAILURE_PROTOCOL;
    default:
        return reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256
                   ? PQS_FAILURE_ALERT + (unsigned)(reason - SSL_AD_REASON_OFFSET)
                   : PQS_FAILURE_PROTOCOL;
    }
}

unsigned pqs_tls_failure(const SSL *ssl, struct pqs_buf *ret_why) {
    unsigned class = PQS_FAILURE_NONE;
    uint32_t code;
    long verify = SSL_get_verify_result(ssl);
    /* The first entry of the TLS library itself says what happened; entries of lower layers say why. */
    while ((code = (uint32_t)ERR_get_error())) {
        const char *reason = ERR_reason_error_string(code);
        if (ret_why && reason)
            pqs_buf_addf(ret_why, "%s%s", ret_why->len ? "; " : "", reason);
        if (class == PQS_FAILURE_NONE && ERR_GET_LIB(code) == ERR_LIB_SSL)
            class = class_of_reason(ERR_GET_REASON(code), SSL_is_server(ssl));
    }
    if (class == PQS_FAILURE_VERIFY && ret_why && verify != X509_V_OK)
        pqs_buf_addf(ret_why, "%s%s", ret_why->len ? ": " : "", X509_verify_cert_error_string(verify));
    return class == PQS_FAILURE_NONE ? PQS_FAILURE_PROTOCOL : class;
}

void pqs_negotiated_get(SSL *ssl, struct pqs_negotiated *ret) {
    const char *cipher = SSL_CIPHER_get_name(SSL_get_current_cipher(ssl));
    *ret = (struct pqs_negotiated){
        .protocol = SSL_get_version(ssl),
        .group = pqs_evp_group_name(ssl),
        .cipher = cipher ? cipher : "",
        .signature = pqs_evp_peer_signature(ssl),
        .verified = pqs_evp_peer_has_certificate(ssl) && SSL_get_verify_result(ssl) == X509_V_OK &&
                    SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE,
        .resumed = SSL_session_reused(ssl) == 1,
    };
}

static bool same_text(const char *a, const char *b) {
    return a == b || strcmp(a, b) == 0;
}

void pqs_tally_add(struct pqs_tally *t, const struct pqs_negotiated *what) {
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct pqs_negotiated *row = &t->rows[i].what;
        if (same_text(row->protocol, what->protocol) && same_text(row->group, what->group) &&
            same_text(row->cipher, what->cipher) && same_text(row->signature, what->signature) &&
            row->http_status == what->http_status && row->verified == what->verified && row->resumed == what->resumed &&
            row->retry == what->retry) {
            t->rows[i].n++;
            return;
        }
    }
    if (t->n_rows == PQS_COUNT(t->rows)) {
        t->overflow++;
        return;
    }
    t->rows[t->n_rows].what = *what;
    t->rows[t->n_rows++].n = 1;
}

void pqs_tally_report(const struct pqs_tally *t, enum pqs_side side, struct pqs_result *r) {
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct pqs_negotiated *w = &t->rows[i].what;
        uint64_t n = t->rows[i].n;
        /* One spelling, the registry's: the library says x25519 for the group that a list calls X25519. */
        const struct pqs_group *group = pqs_group_find(w->group);
        pqs_result_fact(r, side, "group", group ? group->name : w->group, n);
        pqs_result_fact(r, side, "cipher", w->cipher, n);
        pqs_result_fact(r, side, "protocol", w->protocol, n);
        if (side != PQS_CLIENT)
            continue;
        pqs_result_fact(r, side, "signature", w->signature, n);
        pqs_result_fact(r, side, "verified", w->verified ? "yes" : "no", n);
        pqs_result_fact(r, side, "resumed", w->resumed ? "yes" : "no", n);
        pqs_result_fact(r, side, "retry", w->retry ? "yes" : "no", n);
        if (w->http_status) {
            char status[8];
            snprintf(status, sizeof status, "%u", w->http_status);
            pqs_result_fact(r, side, "http_status", status, n);
        }
    }
    if (t->overflow)
        pqs_result_fact(r, side, "group", "(more than 16 different combinations)", t->overflow);
}
