/* AWS-LC. See evp.h. Its API is that of OpenSSL 1.1.1 with additions; nothing is fetched by name, so the names are a table
 * here. */
#include "crypto/evp.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>
#include <openssl/digest.h>
#include <openssl/ec_key.h>
#include <openssl/err.h>
#include <openssl/hkdf.h>
#include <openssl/nid.h>
#include <openssl/rsa.h>

#include "base/mem.h"

const char *const pqs_evp_stack = "aws-lc";
const char *const pqs_evp_header_version = "AWS-LC " AWSLC_VERSION_NUMBER_STRING;

const char *pqs_evp_version(void) {
    return pqs_evp_header_version; /* linked statically: the one that runs is the one that it was compiled against */
}

/* The capabilities that its assembly chooses by, in the form that OpenSSL shows them in. Absent on other processors and in
 * builds that hide it. */
extern uint32_t OPENSSL_ia32cap_P[4] __attribute__((weak));

const char *pqs_evp_cpu_settings(void) {
    static char text[64];
    const uint32_t *cap = OPENSSL_ia32cap_P;
    if (cap)
        snprintf(text, sizeof text, "OPENSSL_ia32cap=0x%08x%08x:0x%08x%08x", cap[1], cap[0], cap[3], cap[2]);
    return text;
}

int pqs_evp_init(struct pqs_err *err) {
    (void)err;
    CRYPTO_library_init(); /* there is no configuration file to read */
    return 0;
}

static const struct algorithm {
    const char *name;
    int type; /* EVP_PKEY_* */
    int nid;  /* of the parameter set; NID_undef: none */
} algorithms[] = {
    {"EC", EVP_PKEY_EC, NID_undef},
    {"RSA", EVP_PKEY_RSA, NID_undef},
    {"X25519", EVP_PKEY_X25519, NID_undef},
    {"ED25519", EVP_PKEY_ED25519, NID_undef},
    {"ML-KEM-512", EVP_PKEY_KEM, NID_MLKEM512},
    {"ML-KEM-768", EVP_PKEY_KEM, NID_MLKEM768},
    {"ML-KEM-1024", EVP_PKEY_KEM, NID_MLKEM1024},
    {"ML-DSA-44", EVP_PKEY_PQDSA, NID_MLDSA44},
    {"ML-DSA-65", EVP_PKEY_PQDSA, NID_MLDSA65},
    {"ML-DSA-87", EVP_PKEY_PQDSA, NID_MLDSA87},
};

static const struct curve {
    const char *name;
    int nid;
} curves[] = {{"prime256v1", NID_X9_62_prime256v1}, {"secp384r1", NID_secp384r1}, {"secp521r1", NID_secp521r1}};

static const struct algorithm *find(const char *name) {
    for (size_t i = 0; i < PQS_COUNT(algorithms); i++)
        if (strcasecmp(algorithms[i].name, name) == 0)
            return &algorithms[i];
    return NULL;
}

bool pqs_evp_has(const char *algorithm) {
    return find(algorithm) != NULL;
}

static EVP_PKEY *keygen_ec(const char *curve) {
    int nid = NID_undef;
    for (size_t i = 0; curve && i < PQS_COUNT(curves); i++)
        if (strcmp(curves[i].name, curve) == 0)
            nid = curves[i].nid;
    EC_KEY *ec = nid == NID_undef ? NULL : EC_KEY_new_by_curve_name(nid);
    EVP_PKEY *key = EVP_PKEY_new();
    if (ec && key && EC_KEY_generate_key(ec) == 1 && EVP_PKEY_assign_EC_KEY(key, ec) == 1)
        return key;
    EC_KEY_free(ec);
    EVP_PKEY_free(key);
    return NULL;
}

EVP_PKEY *pqs_evp_keygen(const char *algorithm, const char *curve, int rsa_bits) {
    const struct algorithm *a = find(algorithm);
    if (!a)
        return NULL;
    if (a->type == EVP_PKEY_EC)
        return keygen_ec(curve);
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_id(a->type, NULL);
    bool ok = ctx && (a->type != EVP_PKEY_PQDSA || EVP_PKEY_CTX_pqdsa_set_params(ctx, a->nid) == 1) &&
              (a->type != EVP_PKEY_KEM || EVP_PKEY_CTX_kem_set_params(ctx, a->nid) == 1) && EVP_PKEY_keygen_init(ctx) == 1 &&
              (a->type != EVP_PKEY_RSA || EVP_PKEY_CTX_set_rsa_keygen_bits(ctx, rsa_bits) == 1) &&
              EVP_PKEY_keygen(ctx, &key) == 1;
    EVP_PKEY_CTX_free(ctx);
    return ok ? key : NULL;
}

EVP_PKEY *pqs_evp_public_key(const char *algorithm, const unsigned char *data, size_t len) {
    const struct algorithm *a = find(algorithm);
    if (!a)
        return NULL;
    return a->type == EVP_PKEY_KEM ? EVP_PKEY_kem_new_raw_public_key(a->nid, data, len)
                                   : EVP_PKEY_new_raw_public_key(a->type, NULL, data, len);
}

void pqs_evp_key_name(const EVP_PKEY *key, char ret_algorithm[static 32], char ret_curve[static 32]) {
    int type = EVP_PKEY_id(key);
    int nid = type == EVP_PKEY_PQDSA ? EVP_PKEY_pqdsa_get_type(key) : NID_undef;
    const char *algorithm = "unknown", *curve = "";
    for (size_t i = 0; i < PQS_COUNT(algorithms); i++)
        if (algorithms[i].type == type && (algorithms[i].nid == nid))
            algorithm = algorithms[i].name;
    if (type == EVP_PKEY_EC)
        nid = EC_GROUP_get_curve_name(EC_KEY_get0_group(EVP_PKEY_get0_EC_KEY((EVP_PKEY *)key)));
    for (size_t i = 0; type == EVP_PKEY_EC && i < PQS_COUNT(curves); i++)
        if (curves[i].nid == nid)
            curve = curves[i].name;
    snprintf(ret_algorithm, 32, "%s", algorithm);
    snprintf(ret_curve, 32, "%s", curve);
}

bool pqs_evp_encapsulate_start(EVP_PKEY_CTX *ctx) {
    return ctx != NULL;
}

bool pqs_evp_decapsulate_start(EVP_PKEY_CTX *ctx) {
    return ctx != NULL;
}

static bool pss(EVP_PKEY_CTX *pctx, const EVP_PKEY *key) {
    return EVP_PKEY_id(key) != EVP_PKEY_RSA || (EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING) == 1 &&
                                                EVP_PKEY_CTX_set_rsa_pss_saltlen(pctx, -1) == 1); /* -1: the digest's */
}

bool pqs_evp_sign_start(EVP_MD_CTX *ctx, const char *digest, EVP_PKEY *key) {
    EVP_PKEY_CTX *pctx;
    return EVP_DigestSignInit(ctx, &pctx, digest ? EVP_get_digestbyname(digest) : NULL, NULL, key) == 1 && pss(pctx, key);
}

bool pqs_evp_verify_start(EVP_MD_CTX *ctx, const char *digest, EVP_PKEY *key) {
    EVP_PKEY_CTX *pctx;
    return EVP_DigestVerifyInit(ctx, &pctx, digest ? EVP_get_digestbyname(digest) : NULL, NULL, key) == 1 && pss(pctx, key);
}

bool pqs_evp_hkdf_extract(const unsigned char *secret, const unsigned char *salt, unsigned char *ret_prk) {
    size_t len;
    return HKDF_extract(ret_prk, &len, EVP_sha384(), secret, PQS_EVP_HASH_BYTES, salt, PQS_EVP_HASH_BYTES) == 1;
}

bool pqs_evp_hkdf_expand(const unsigned char *prk, const unsigned char *info, size_t info_len, unsigned char *ret_out,
                         size_t out_len) {
    return HKDF_expand(ret_out, out_len, EVP_sha384(), prk, PQS_EVP_HASH_BYTES, info, info_len) == 1;
}

bool pqs_evp_has_group(const char *name) {
    const char *names[64];
    size_t n = SSL_get_all_group_names(names, PQS_COUNT(names));
    if (strcasecmp(name, "secp256r1") == 0 || strcasecmp(name, "secp384r1") == 0 || strcasecmp(name, "secp521r1") == 0)
        return true; /* the registry's names for what it calls P-256, P-384 and P-521 */
    for (size_t i = 0; i < n && i < PQS_COUNT(names); i++)
        if (strcasecmp(names[i], name) == 0 && strcasecmp(name, "P-224") != 0) /* not in TLS 1.3 (RFC 8446, 4.2.7) */
            return true;
    return false;
}

const char *pqs_evp_group_name(SSL *ssl) {
    const char *name = SSL_get_group_name(SSL_get_group_id(ssl));
    return name ? name : "";
}

const char *pqs_evp_peer_signature(SSL *ssl) {
    const char *name = SSL_get_signature_algorithm_name(SSL_get_peer_signature_algorithm(ssl), 1);
    return name ? name : "";
}

bool pqs_evp_peer_has_certificate(const SSL *ssl) {
    return SSL_get0_peer_certificates(ssl) != NULL;
}

bool pqs_evp_is_eof(int reason) {
    (void)reason; /* SSL_ERROR_SYSCALL instead */
    return false;
}

bool pqs_evp_is_no_record(int reason) {
    return reason == SSL_R_INVALID_OUTER_RECORD_TYPE || reason == SSL_R_UNEXPECTED_RECORD;
}
