/* SSL_CTX of either side. See context.h. */
#include "tls/context.h"

#include <arpa/inet.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "crypto/evp.h"
#include "crypto/ossl_err.h"

static void free_bio(BIO **bio) {
    BIO_free(*bio);
}
static void free_x509(X509 **x) {
    X509_free(*x);
}
static void free_pkey(EVP_PKEY **k) {
    EVP_PKEY_free(*k);
}
static void free_ctx(SSL_CTX **ctx) {
    SSL_CTX_free(*ctx);
}
static void free_ssl(SSL **ssl) {
    SSL_free(*ssl);
}

/* A passphrase prompt would hang a worker: encrypted keys are refused instead. */
static int no_passphrase(char *buf, int size, int rwflag, void *u) {
    (void)buf, (void)size, (void)rwflag, (void)u;
    return -1;
}

static int use_certificate(SSL_CTX *ctx, const struct pqs_buf *cert, const struct pqs_buf *key, struct pqs_err *err) {
    __attribute__((cleanup(free_bio))) BIO *certs = BIO_new_mem_buf(cert->data, (int)cert->len);
    __attribute__((cleanup(free_x509))) X509 *leaf = certs ? PEM_read_bio_X509(certs, NULL, no_passphrase, NULL) : NULL;
    if (!leaf || SSL_CTX_use_certificate(ctx, leaf) != 1)
        return pqs_fail_ossl(err, PQS_E_FAILED, "cannot use the certificate (want PEM, leaf first)");
    SSL_CTX_clear_chain_certs(ctx);
    for (;;) {
        __attribute__((cleanup(free_x509))) X509 *more = PEM_read_bio_X509(certs, NULL, no_passphrase, NULL);
        if (!more)
            break;
        if (SSL_CTX_add1_chain_cert(ctx, more) != 1)
            return pqs_fail_ossl(err, PQS_E_FAILED, "cannot use a certificate of the chain");
    }
    ERR_clear_error(); /* "no start line": the end of the PEM */
    if (!key)
        return pqs_fail(err, PQS_E_FAILED, "a certificate needs its private key");
    __attribute__((cleanup(free_bio))) BIO *keys = BIO_new_mem_buf(key->data, (int)key->len);
    __attribute__((cleanup(free_pkey))) EVP_PKEY *pkey =
        keys ? PEM_read_bio_PrivateKey(keys, NULL, no_passphrase, NULL) : NULL;
    if (!pkey)
        return pqs_fail_ossl(err, PQS_E_FAILED, "cannot read the private key (want unencrypted PEM)");
    if (SSL_CTX_use_PrivateKey(ctx, pkey) != 1 || SSL_CTX_check_private_key(ctx) != 1)
        return pqs_fail_ossl(err, PQS_E_FAILED, "the private key does not belong to the certificate");
    return 0;
}

static int trust(SSL_CTX *ctx, const struct pqs_buf *ca, struct pqs_err *err) {
    __attribute__((cleanup(free_bio))) BIO *bio = BIO_new_mem_buf(ca->data, (int)ca->len);
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    size_t n = 0;
    for (;; n++) {
        __attribute__((cleanup(free_x509))) X509 *x = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;
        if (!x)
            break;
        if (X509_STORE_add_cert(store, x) != 1)
            return pqs_fail_ossl(err, PQS_E_FAILED, "cannot trust a CA certificate");
    }
    if (n == 0)
        return pqs_fail_ossl(err, PQS_E_FAILED, "no CA certificate found (want PEM)");
    ERR_clear_error();
    return 0;
}

/* Whether a ClientHello can be made from the list: the library takes a list that comes out empty ("?bogus") without a word.
 */
static bool offers_a_group(const char *groups) {
    __attribute__((cleanup(free_ctx))) SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 || SSL_CTX_set1_groups_list(ctx, groups) != 1)
        return false;
    __attribute__((cleanup(free_ssl))) SSL *ssl = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    if (!ssl || !in || !out) {
        BIO_free(in);
        BIO_free(out);
        return false;
    }
    SSL_set_bio(ssl, in, out);
    SSL_set_connect_state(ssl);
    return SSL_get_error(ssl, SSL_do_handshake(ssl)) == SSL_ERROR_WANT_READ;
}

static int set_groups(SSL_CTX *ctx, const char *groups, struct pqs_err *err) {
    if (!groups || (offers_a_group(groups) && SSL_CTX_set1_groups_list(ctx, groups) == 1))
        return 0;
    ERR_clear_error();
    return pqs_fail(
        err, PQS_E_FAILED,
        "'%s' is not a list of key-exchange groups that %s knows for TLS 1.3; 'pqshake list groups' shows them (names "
        "are joined by ':')",
        groups, pqs_evp_version());
}

static int new_context(const SSL_METHOD *method, const struct pqs_tls_options *o, SSL_CTX **ret_ctx, struct pqs_err *err) {
    __attribute__((cleanup(free_ctx))) SSL_CTX *ctx = SSL_CTX_new(method);
    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1)
        return pqs_fail_ossl(err, PQS_E_FAILED, "cannot make a TLS context");
    int rc = set_groups(ctx, o->groups, err);
    if (rc)
        return rc;
    if (o->sigalgs && SSL_CTX_set1_sigalgs_list(ctx, o->sigalgs) != 1) {
        ERR_clear_error();
        return pqs_fail(err, PQS_E_FAILED, "'%s' is not a list of signature algorithms that %s knows", o->sigalgs,
                        pqs_evp_version());
    }
    for (size_t i = 0; i < PQS_COUNT(o->cert); i++)
        if (o->cert[i] && (rc = use_certificate(ctx, o->cert[i], o->key[i], err)))
            return rc;
    if (o->ca && (rc = trust(ctx, o->ca, err)))
        return rc;
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    *ret_ctx = ctx;
    ctx = NULL;
    return 0;
}

const char *pqs_tls_sni(const char *servername) {
    unsigned char address[16];
    bool is_address =
        servername && (inet_pton(AF_INET, servername, address) == 1 || inet_pton(AF_INET6, servername, address) == 1);
    return is_address ? NULL : servername;
}

int pqs_tls_client_context(const struct pqs_tls_options *o, SSL_CTX **ret_ctx, struct pqs_err *err) {
    __attribute__((cleanup(free_ctx))) SSL_CTX *ctx = NULL;
    int rc = new_context(TLS_client_method(), o, &ctx, err);
    if (rc)
        return rc;
    SSL_CTX_set_verify(ctx, o->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (o->verify && o->servername) { /* every connection of the context inherits it */
        X509_VERIFY_PARAM *param = SSL_CTX_get0_param(ctx);
        int ok = pqs_tls_sni(o->servername) ? X509_VERIFY_PARAM_set1_host(param, o->servername, 0)
                                            : X509_VERIFY_PARAM_set1_ip_asc(param, o->servername);
        if (ok != 1)
            return pqs_fail_ossl(err, PQS_E_FAILED, "'%s' cannot be a server's name", o->servername);
    }
    *ret_ctx = ctx;
    ctx = NULL;
    return 0;
}

int pqs_tls_server_context(const struct pqs_tls_options *o, SSL_CTX **ret_ctx, struct pqs_err *err) {
    if (!o->cert[0])
        return pqs_fail(err, PQS_E_FAILED, "a server needs a certificate");
    if (o->verify && !o->ca)
        return pqs_fail(err, PQS_E_FAILED, "a server that verifies its clients needs a CA");
    __attribute__((cleanup(free_ctx))) SSL_CTX *ctx = NULL;
    int rc = new_context(TLS_server_method(), o, &ctx, err);
    if (rc)
        return rc;
    SSL_CTX_set_num_tickets(ctx, 0);
    /* A client that just closes after its answer is normal life, not an error. */
    SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_RENEGOTIATION);
    if (o->verify) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        __attribute__((cleanup(free_bio))) BIO *bio = BIO_new_mem_buf(o->ca->data, (int)o->ca->len);
        __attribute__((cleanup(free_x509))) X509 *ca = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
        if (!ca || SSL_CTX_add_client_CA(ctx, ca) != 1)
            return pqs_fail_ossl(err, PQS_E_FAILED, "cannot use the CA for client certificates");
    }
    *ret_ctx = ctx;
    ctx = NULL;
    return 0;
}

SSL *pqs_tls_client_connection(SSL_CTX *ctx, const char *sni) {
    SSL *ssl = SSL_new(ctx);
    if (ssl && sni && SSL_set_tlsext_host_name(ssl, sni) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}
