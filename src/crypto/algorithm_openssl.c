/* OpenSSL: one operation of each algorithm, as libssl performs it in a handshake. Must not know: who takes the time. */
#include "crypto/algorithm.h"

#include <string.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "base/mem.h"
#include "crypto/ossl_err.h"

#define SECRET_MAX 256
#define HASH_BYTES 48 /* SHA-384 */

struct pqs_exercise {
    const struct pqs_algorithm *algorithm;
    EVP_PKEY *key, *peer;     /* peer: the other side's, in a key agreement */
    EVP_KDF_CTX *kdf;         /* key schedule */
    unsigned char *output;    /* the ciphertext or signature of the last run of that operation */
    size_t output_len, output_cap;
    unsigned char secret[SECRET_MAX]; /* of the last derive, encapsulate or decapsulate */
    size_t secret_len;
};

/* As long as what a TLS 1.3 CertificateVerify with SHA-384 signs (RFC 8446, 4.4.3). */
static const unsigned char message[64 + 34 + HASH_BYTES] = "pqshake";

static int new_key(const struct pqs_algorithm *a, EVP_PKEY **ret_key, struct pqs_err *err) {
    EVP_PKEY *key;
    if (a->rsa_bits)
        key = EVP_PKEY_Q_keygen(NULL, NULL, a->fetched, (size_t)a->rsa_bits);
    else if (a->curve)
        key = EVP_PKEY_Q_keygen(NULL, NULL, a->fetched, a->curve);
    else
        key = EVP_PKEY_Q_keygen(NULL, NULL, a->fetched);
    if (!key)
        return pqs_fail_ossl(err, PQS_E_ENV, "%s makes no %s key", OpenSSL_version(OPENSSL_VERSION), a->name);
    *ret_key = key;
    return 0;
}

static int fail(const struct pqs_exercise *x, enum pqs_operation operation, struct pqs_err *err) {
    return pqs_fail_ossl(err, PQS_E_FAILED, "%s: %s failed", x->algorithm->name, pqs_operation_names[operation]);
}

static bool keygen(struct pqs_exercise *x) {
    EVP_PKEY *key = NULL;
    struct pqs_err ignored;
    if (new_key(x->algorithm, &key, &ignored) != 0)
        return false;
    EVP_PKEY_free(key);
    return true;
}

static bool encapsulate(struct pqs_exercise *x) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, x->key, NULL);
    x->output_len = x->output_cap;
    x->secret_len = sizeof x->secret;
    bool ok = ctx && EVP_PKEY_encapsulate_init(ctx, NULL) == 1 &&
              EVP_PKEY_encapsulate(ctx, x->output, &x->output_len, x->secret, &x->secret_len) == 1;
    EVP_PKEY_CTX_free(ctx);
    return ok;
}

static bool decapsulate(struct pqs_exercise *x) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, x->key, NULL);
    x->secret_len = sizeof x->secret;
    bool ok = ctx && EVP_PKEY_decapsulate_init(ctx, NULL) == 1 &&
              EVP_PKEY_decapsulate(ctx, x->secret, &x->secret_len, x->output, x->output_len) == 1;
    EVP_PKEY_CTX_free(ctx);
    return ok;
}

static bool agree(EVP_PKEY *key, EVP_PKEY *peer, unsigned char secret[static SECRET_MAX], size_t *ret_len) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    *ret_len = SECRET_MAX;
    bool ok = ctx && EVP_PKEY_derive_init(ctx) == 1 && EVP_PKEY_derive_set_peer(ctx, peer) == 1 &&
              EVP_PKEY_derive(ctx, secret, ret_len) == 1;
    EVP_PKEY_CTX_free(ctx);
    return ok;
}

static bool sign(struct pqs_exercise *x) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    x->output_len = x->output_cap;
    bool ok = ctx && EVP_DigestSignInit_ex(ctx, NULL, x->algorithm->digest, NULL, NULL, x->key, NULL) == 1 &&
              EVP_DigestSign(ctx, x->output, &x->output_len, message, sizeof message) == 1;
    EVP_MD_CTX_free(ctx);
    return ok;
}

static bool verify(struct pqs_exercise *x) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestVerifyInit_ex(ctx, NULL, x->algorithm->digest, NULL, NULL, x->key, NULL) == 1 &&
              EVP_DigestVerify(ctx, x->output, x->output_len, message, sizeof message) == 1;
    EVP_MD_CTX_free(ctx);
    return ok;
}

/* --- key schedule --- */

static bool hkdf(struct pqs_exercise *x, int mode, const unsigned char *secret, const void *salt_or_info, size_t len,
                 unsigned char *ret_out, size_t out_len) {
    const char *input = mode == EVP_KDF_HKDF_MODE_EXTRACT_ONLY ? OSSL_KDF_PARAM_SALT : OSSL_KDF_PARAM_INFO;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)x->algorithm->digest, 0),
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)secret, HASH_BYTES),
        OSSL_PARAM_construct_octet_string(input, (void *)salt_or_info, len),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF_CTX_reset(x->kdf);
    return EVP_KDF_derive(x->kdf, ret_out, out_len, params) == 1;
}

/* HKDF-Expand-Label with a transcript hash: RFC 8446, 7.1. */
static bool expand(struct pqs_exercise *x, const unsigned char *secret, const char *label, unsigned char *ret_out,
                   size_t out_len) {
    unsigned char info[2 + 1 + 6 + 12 + 1 + HASH_BYTES] = {0};
    size_t n = strlen(label);
    info[1] = (unsigned char)out_len;
    info[2] = (unsigned char)(6 + n);
    memcpy(info + 3, "tls13 ", 6);
    memcpy(info + 9, label, n);
    info[9 + n] = HASH_BYTES;
    return hkdf(x, EVP_KDF_HKDF_MODE_EXPAND_ONLY, secret, info, 10 + n + HASH_BYTES, ret_out, out_len);
}

/* The derivations of one handshake without PSK, from the shared secret to both sides' application keys; AES-256-GCM. */
static bool schedule(struct pqs_exercise *x) {
    static const char *const directions[2][3] = {{"c hs traffic", "c ap traffic"}, {"s hs traffic", "s ap traffic"}};
    static const unsigned char zero[HASH_BYTES] = {0};
    unsigned char stage[HASH_BYTES], derived[HASH_BYTES], traffic[HASH_BYTES], key[HASH_BYTES];
    const int extract = EVP_KDF_HKDF_MODE_EXTRACT_ONLY;
    bool ok = hkdf(x, extract, zero, zero, sizeof zero, stage, sizeof stage);
    for (int level = 0; level < 2 && ok; level++) {
        ok = expand(x, stage, "derived", derived, sizeof derived) &&
             hkdf(x, extract, level == 0 ? x->secret : zero, derived, sizeof derived, stage, sizeof stage);
        for (int side = 0; side < 2 && ok; side++)
            ok = expand(x, stage, directions[side][level], traffic, sizeof traffic) && expand(x, traffic, "key", key, 32) &&
                 expand(x, traffic, "iv", key, 12) && (level == 1 || expand(x, traffic, "finished", key, HASH_BYTES));
    }
    ok = ok && expand(x, stage, "exp master", key, HASH_BYTES) && expand(x, stage, "res master", key, HASH_BYTES);
    memcpy(x->secret, key, HASH_BYTES);
    return ok;
}

static bool derive(struct pqs_exercise *x) {
    return x->algorithm->type == PQS_ALGORITHM_SCHEDULE ? schedule(x) : agree(x->key, x->peer, x->secret, &x->secret_len);
}

static bool (*const operations[PQS_OPERATIONS])(struct pqs_exercise *x) = {
    [PQS_OPERATION_KEYGEN] = keygen, [PQS_OPERATION_ENCAPSULATE] = encapsulate, [PQS_OPERATION_DECAPSULATE] = decapsulate,
    [PQS_OPERATION_DERIVE] = derive, [PQS_OPERATION_SIGN] = sign,               [PQS_OPERATION_VERIFY] = verify,
};

int pqs_exercise_run(struct pqs_exercise *x, enum pqs_operation operation, struct pqs_err *err) {
    return operations[operation](x) ? 0 : fail(x, operation, err);
}

static int fail_different(const struct pqs_exercise *x, struct pqs_err *err) {
    return pqs_fail(err, PQS_E_FAILED, "%s: the two sides' shared secrets differ", x->algorithm->name);
}

static int prepare_kem(struct pqs_exercise *x, struct pqs_err *err) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, x->key, NULL);
    size_t secret_len = 0;
    bool ok = ctx && EVP_PKEY_encapsulate_init(ctx, NULL) == 1 &&
              EVP_PKEY_encapsulate(ctx, NULL, &x->output_cap, NULL, &secret_len) == 1 && secret_len <= SECRET_MAX;
    EVP_PKEY_CTX_free(ctx);
    if (!ok)
        return fail(x, PQS_OPERATION_ENCAPSULATE, err);
    x->output = pqs_calloc(1, x->output_cap);
    int rc = pqs_exercise_run(x, PQS_OPERATION_ENCAPSULATE, err);
    if (rc)
        return rc;
    unsigned char theirs[SECRET_MAX];
    memcpy(theirs, x->secret, sizeof theirs);
    memset(x->secret, 0, sizeof x->secret);
    rc = pqs_exercise_run(x, PQS_OPERATION_DECAPSULATE, err);
    if (rc == 0 && (x->secret_len != secret_len || CRYPTO_memcmp(theirs, x->secret, secret_len) != 0))
        rc = fail_different(x, err);
    return rc;
}

static int prepare_agreement(struct pqs_exercise *x, struct pqs_err *err) {
    unsigned char theirs[SECRET_MAX];
    size_t theirs_len;
    int rc = new_key(x->algorithm, &x->peer, err);
    if (rc == 0)
        rc = pqs_exercise_run(x, PQS_OPERATION_DERIVE, err);
    if (rc)
        return rc;
    if (!agree(x->peer, x->key, theirs, &theirs_len) || theirs_len != x->secret_len ||
        CRYPTO_memcmp(theirs, x->secret, theirs_len) != 0)
        return fail_different(x, err);
    return 0;
}

static int prepare_signature(struct pqs_exercise *x, struct pqs_err *err) {
    x->output_cap = (size_t)EVP_PKEY_get_size(x->key);
    x->output = pqs_calloc(1, x->output_cap);
    int rc = pqs_exercise_run(x, PQS_OPERATION_SIGN, err);
    return rc ? rc : pqs_exercise_run(x, PQS_OPERATION_VERIFY, err);
}

static int prepare_schedule(struct pqs_exercise *x, struct pqs_err *err) {
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, x->algorithm->fetched, NULL);
    x->kdf = EVP_KDF_CTX_new(kdf);
    EVP_KDF_free(kdf);
    if (!x->kdf)
        return pqs_fail_ossl(err, PQS_E_ENV, "%s has no %s", OpenSSL_version(OPENSSL_VERSION), x->algorithm->fetched);
    return pqs_exercise_run(x, PQS_OPERATION_DERIVE, err);
}

int pqs_exercise_new(const struct pqs_algorithm *algorithm, struct pqs_exercise **ret_x, struct pqs_err *err) {
    static int (*const prepare[])(struct pqs_exercise * x, struct pqs_err * err) = {
        [PQS_ALGORITHM_KEM] = prepare_kem,
        [PQS_ALGORITHM_AGREEMENT] = prepare_agreement,
        [PQS_ALGORITHM_SIGNATURE] = prepare_signature,
        [PQS_ALGORITHM_SCHEDULE] = prepare_schedule,
    };
    struct pqs_exercise *x = pqs_calloc(1, sizeof *x);
    x->algorithm = algorithm;
    int rc = algorithm->type == PQS_ALGORITHM_SCHEDULE ? 0 : new_key(algorithm, &x->key, err);
    if (rc == 0)
        rc = prepare[algorithm->type](x, err);
    if (rc)
        pqs_exercise_free(x);
    else
        *ret_x = x;
    return rc;
}

void pqs_exercise_free(struct pqs_exercise *x) {
    if (!x)
        return;
    EVP_PKEY_free(x->key);
    EVP_PKEY_free(x->peer);
    EVP_KDF_CTX_free(x->kdf);
    pqs_cleanup_free(&x->output);
    pqs_cleanup_free(&x);
}
