/* OpenSSL 3.5 and later. See evp.h. */
#include "crypto/evp.h"

#include <string.h>
#include <strings.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/opensslv.h>
#include <openssl/params.h>
#include <openssl/rsa.h>

#include "crypto/ossl_err.h"

#define OLDEST_VERSION 0x30500000UL /* the first with ML-KEM and ML-DSA */
_Static_assert(OPENSSL_VERSION_NUMBER >= OLDEST_VERSION, "pqshake needs OpenSSL 3.5 or later");

const char *const pqs_evp_stack = "openssl";
const char *const pqs_evp_header_version = OPENSSL_VERSION_TEXT;

const char *pqs_evp_version(void) {
    return OpenSSL_version(OPENSSL_VERSION);
}

const char *pqs_evp_cpu_settings(void) {
    const char *settings = OPENSSL_info(OPENSSL_INFO_CPU_SETTINGS);
    return settings ? settings : "";
}

int pqs_evp_init(struct pqs_err *err) {
    /* Before initialisation: an older library could fail in ways that hide the reason. */
    if (OpenSSL_version_num() < OLDEST_VERSION)
        return pqs_fail(err, PQS_E_ENV, "the loaded library is %s; OpenSSL 3.5 or later is needed", pqs_evp_version());
    if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_LOAD_CRYPTO_STRINGS,
                          NULL))
        return pqs_fail_ossl(err, PQS_E_ENV, "starting %s failed", pqs_evp_version());
    return 0;
}

bool pqs_evp_has(const char *algorithm) {
    EVP_KEYMGMT *fetched = EVP_KEYMGMT_fetch(NULL, algorithm, NULL);
    EVP_KEYMGMT_free(fetched);
    ERR_clear_error();
    return fetched != NULL;
}

EVP_PKEY *pqs_evp_keygen(const char *algorithm, const char *curve, int rsa_bits) {
    if (rsa_bits)
        return EVP_PKEY_Q_keygen(NULL, NULL, algorithm, (size_t)rsa_bits);
    return curve ? EVP_PKEY_Q_keygen(NULL, NULL, algorithm, curve) : EVP_PKEY_Q_keygen(NULL, NULL, algorithm);
}

EVP_PKEY *pqs_evp_public_key(const char *algorithm, const unsigned char *data, size_t len) {
    return EVP_PKEY_new_raw_public_key_ex(NULL, algorithm, NULL, data, len);
}

void pqs_evp_key_name(const EVP_PKEY *key, char ret_algorithm[static 32], char ret_curve[static 32]) {
    const char *algorithm = EVP_PKEY_get0_type_name(key);
    snprintf(ret_algorithm, 32, "%s", algorithm ? algorithm : "unknown");
    *ret_curve = '\0';
    EVP_PKEY_get_group_name(key, ret_curve, 32, NULL); /* leaves "" for keys without one */
    ERR_clear_error();
}

bool pqs_evp_encapsulate_start(EVP_PKEY_CTX *ctx) {
    return EVP_PKEY_encapsulate_init(ctx, NULL) == 1;
}

bool pqs_evp_decapsulate_start(EVP_PKEY_CTX *ctx) {
    return EVP_PKEY_decapsulate_init(ctx, NULL) == 1;
}

static bool pss(EVP_PKEY_CTX *pctx, const EVP_PKEY *key) {
    return EVP_PKEY_id(key) != EVP_PKEY_RSA || (EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING) == 1 &&
                                                EVP_PKEY_CTX_set_rsa_pss_saltlen(pctx, -1) == 1); /* -1: the digest's */
}

bool pqs_evp_sign_start(EVP_MD_CTX *ctx, const char *digest, EVP_PKEY *key) {
    EVP_PKEY_CTX *pctx;
    return EVP_DigestSignInit_ex(ctx, &pctx, digest, NULL, NULL, key, NULL) == 1 && pss(pctx, key);
}

bool pqs_evp_verify_start(EVP_MD_CTX *ctx, const char *digest, EVP_PKEY *key) {
    EVP_PKEY_CTX *pctx;
    return EVP_DigestVerifyInit_ex(ctx, &pctx, digest, NULL, NULL, key, NULL) == 1 && pss(pctx, key);
}

/* libssl makes a context for every derivation and keeps the fetched method (tls13_hkdf_expand_ex). */
static bool hkdf(int mode, const unsigned char *secret, const char *input, const unsigned char *data, size_t len,
                 unsigned char *ret_out, size_t out_len) {
    static EVP_KDF *kdf; /* one thread uses it; as old as the process */
    kdf = kdf ? kdf : EVP_KDF_fetch(NULL, "HKDF", NULL);
    char digest[] = "SHA384";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)secret, PQS_EVP_HASH_BYTES),
        OSSL_PARAM_construct_octet_string(input, (void *)data, len),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    bool ok = ctx && EVP_KDF_derive(ctx, ret_out, out_len, params) == 1;
    EVP_KDF_CTX_free(ctx);
    return ok;
}

bool pqs_evp_hkdf_extract(const unsigned char *secret, const unsigned char *salt, unsigned char *ret_prk) {
    return hkdf(EVP_KDF_HKDF_MODE_EXTRACT_ONLY, secret, OSSL_KDF_PARAM_SALT, salt, PQS_EVP_HASH_BYTES, ret_prk,
                PQS_EVP_HASH_BYTES);
}

bool pqs_evp_hkdf_expand(const unsigned char *prk, const unsigned char *info, size_t info_len, unsigned char *ret_out,
                         size_t out_len) {
    return hkdf(EVP_KDF_HKDF_MODE_EXPAND_ONLY, prk, OSSL_KDF_PARAM_INFO, info, info_len, ret_out, out_len);
}

/* The list rather than an attempt with SSL_CTX_set1_groups_list: that takes a list with a syntax of its own ("?bogus" and
 * "DEFAULT" succeed) and groups that only older protocol versions have. */
bool pqs_evp_has_group(const char *name) {
    bool found = false;
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    STACK_OF(OPENSSL_CSTRING) *names = sk_OPENSSL_CSTRING_new_null();
    if (ctx && names && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
        SSL_CTX_get0_implemented_groups(ctx, 1, names) == 1)
        for (int i = 0; i < sk_OPENSSL_CSTRING_num(names) && !found; i++)
            found = strcasecmp(sk_OPENSSL_CSTRING_value(names, i), name) == 0;
    sk_OPENSSL_CSTRING_free(names);
    SSL_CTX_free(ctx);
    ERR_clear_error();
    return found;
}

const char *pqs_evp_group_name(SSL *ssl) {
    const char *name = SSL_get0_group_name(ssl);
    return name ? name : "";
}

const char *pqs_evp_peer_signature(SSL *ssl) {
    const char *name = NULL;
    return SSL_get0_peer_signature_name(ssl, &name) == 1 && name ? name : "";
}

bool pqs_evp_peer_has_certificate(const SSL *ssl) {
    return SSL_get0_peer_certificate(ssl) != NULL;
}

bool pqs_evp_is_eof(int reason) {
    return reason == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

bool pqs_evp_is_no_record(int reason) {
    return reason == SSL_R_BAD_RECORD_TYPE;
}
