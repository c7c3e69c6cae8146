/* One operation of each algorithm, as the TLS library performs it in a handshake. Must not know: who takes the time. */
#include "crypto/algorithm.h"

#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/err.h>

#include "base/mem.h"
#include "crypto/evp.h"
#include "crypto/ossl_err.h"

#define SECRET_MAX 256
#define HASH_BYTES PQS_EVP_HASH_BYTES

struct pqs_exercise {
    const struct pqs_algorithm *algorithm;
    EVP_PKEY *key, *peer;      /* peer: the other side's, in a key agreement */
    unsigned char *public_key; /* what the other side receives, of `key` (KEM) or `peer` (agreement); NULL: EC */
    size_t public_len;
    unsigned char *output; /* the ciphertext or signature of the last run of that operation */
    size_t output_len, output_cap;
    unsigned char secret[SECRET_MAX]; /* of the last derive, encapsulate or decapsulate */
    size_t secret_len;
};

/* As long as what a TLS 1.3 CertificateVerify with SHA-384 signs (RFC 8446, 4.4.3). */
static const unsigned char message[64 + 34 + HASH_BYTES] = "pqshake";

bool pqs_algorithm_supported(const struct pqs_algorithm *algorithm) {
    return algorithm->type == PQS_ALGORITHM_SCHEDULE || pqs_evp_has(algorithm->fetched);
}

static int new_key(const struct pqs_algorithm *a, EVP_PKEY **ret_key, struct pqs_err *err) {
    EVP_PKEY *key = pqs_algorithm_supported(a) ? pqs_evp_keygen(a->fetched, a->curve, a->rsa_bits) : NULL;
    if (!key)
        return pqs_fail_ossl(err, PQS_E_ENV, "%s makes no %s key", pqs_evp_version(), a->name);
    *ret_key = key;
    return 0;
}

static int fail(const struct pqs_exercise *x, enum pqs_operation operation, struct pqs_err *err) {
    return pqs_fail_ossl(err, PQS_E_FAILED, "%s: %s failed", x->algorithm->name, pqs_operation_names[operation]);
}

static bool keygen(struct pqs_exercise *x) {
    const struct pqs_algorithm *a = x->algorithm;
    EVP_PKEY *key = pqs_evp_keygen(a->fetched, a->curve, a->rsa_bits);
    EVP_PKEY_free(key);
    return key != NULL;
}

/* Decoding what the peer sent is part of the operation: ML-KEM expands its matrix there. */
static bool take_public_key(struct pqs_exercise *x, EVP_PKEY *of) {
    if (EVP_PKEY_get_raw_public_key(of, NULL, &x->public_len) != 1)
        return false;
    x->public_key = pqs_calloc(1, x->public_len);
    return EVP_PKEY_get_raw_public_key(of, x->public_key, &x->public_len) == 1;
}

static bool encapsulate(struct pqs_exercise *x) {
    EVP_PKEY *to = pqs_evp_public_key(x->algorithm->fetched, x->public_key, x->public_len);
    EVP_PKEY_CTX *ctx = to ? EVP_PKEY_CTX_new(to, NULL) : NULL;
    x->output_len = x->output_cap;
    x->secret_len = sizeof x->secret;
    bool ok = ctx && pqs_evp_encapsulate_start(ctx) &&
              EVP_PKEY_encapsulate(ctx, x->output, &x->output_len, x->secret, &x->secret_len) == 1;
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(to);
    return ok;
}

static bool decapsulate(struct pqs_exercise *x) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(x->key, NULL);
    x->secret_len = sizeof x->secret;
    bool ok = ctx && pqs_evp_decapsulate_start(ctx) &&
              EVP_PKEY_decapsulate(ctx, x->secret, &x->secret_len, x->output, x->output_len) == 1;
    EVP_PKEY_CTX_free(ctx);
    return ok;
}

static bool agree(EVP_PKEY *key, EVP_PKEY *peer, unsigned char secret[static SECRET_MAX], size_t *ret_len) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    *ret_len = SECRET_MAX;
    bool ok = ctx && peer && EVP_PKEY_derive_init(ctx) == 1 && EVP_PKEY_derive_set_peer(ctx, peer) == 1 &&
              EVP_PKEY_derive(ctx, secret, ret_len) == 1;
    EVP_PKEY_CTX_free(ctx);
    return ok;
}

static bool sign(struct pqs_exercise *x) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    x->output_len = x->output_cap;
    bool ok = ctx && pqs_evp_sign_start(ctx, x->algorithm->digest, x->key) &&
              EVP_DigestSign(ctx, x->output, &x->output_len, message, sizeof message) == 1;
    EVP_MD_CTX_free(ctx);
    return ok;
}

static bool verify(struct pqs_exercise *x) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && pqs_evp_verify_start(ctx, x->algorithm->digest, x->key) &&
              EVP_DigestVerify(ctx, x->output, x->output_len, message, sizeof message) == 1;
    EVP_MD_CTX_free(ctx);
    return ok;
}

/* --- key schedule --- */

/* HKDF-Expand-Label with a transcript hash: RFC 8446, 7.1. */
static bool expand(const unsigned char *secret, const char *label, unsigned char *ret_out, size_t out_len) {
    unsigned char info[2 + 1 + 6 + 12 + 1 + HASH_BYTES] = {0}; /* length | label | context: struct HkdfLabel */
    int n = snprintf((char *)info + 3, sizeof info - 3, "tls13 %s", label);
    info[1] = (unsigned char)out_len;
    info[2] = (unsigned char)n;
    info[3 + n] = HASH_BYTES;
    return pqs_evp_hkdf_expand(secret, info, (size_t)(4 + n) + HASH_BYTES, ret_out, out_len);
}

/* The derivations of one handshake without PSK, from the shared secret to both sides' application keys; AES-256-GCM. */
static bool schedule(struct pqs_exercise *x) {
    static const char *const directions[2][2] = {{"c hs traffic", "c ap traffic"}, {"s hs traffic", "s ap traffic"}};
    static const unsigned char zero[HASH_BYTES] = {0};
    unsigned char stage[HASH_BYTES], derived[HASH_BYTES], traffic[HASH_BYTES], key[HASH_BYTES];
    bool ok = pqs_evp_hkdf_extract(zero, zero, stage);
    for (int level = 0; level < 2 && ok; level++) {
        ok = expand(stage, "derived", derived, sizeof derived) &&
             pqs_evp_hkdf_extract(level == 0 ? x->secret : zero, derived, stage);
        for (int side = 0; side < 2 && ok; side++)
            ok = expand(stage, directions[side][level], traffic, sizeof traffic) && expand(traffic, "key", key, 32) &&
                 expand(traffic, "iv", key, 12) && (level == 1 || expand(traffic, "finished", key, HASH_BYTES));
    }
    ok = ok && expand(stage, "exp master", key, HASH_BYTES) && expand(stage, "res master", key, HASH_BYTES);
    memcpy(x->secret, key, HASH_BYTES);
    return ok;
}

static bool derive(struct pqs_exercise *x) {
    if (x->algorithm->type == PQS_ALGORITHM_SCHEDULE)
        return schedule(x);
    EVP_PKEY *peer = x->public_key ? pqs_evp_public_key(x->algorithm->fetched, x->public_key, x->public_len) : NULL;
    bool ok = agree(x->key, x->public_key ? peer : x->peer, x->secret, &x->secret_len);
    EVP_PKEY_free(peer);
    return ok;
}

static bool (*const operations[PQS_OPERATIONS])(struct pqs_exercise *x) = {
    [PQS_OPERATION_KEYGEN] = keygen,
    [PQS_OPERATION_ENCAPSULATE] = encapsulate,
    [PQS_OPERATION_DECAPSULATE] = decapsulate,
    [PQS_OPERATION_DERIVE] = derive,
    [PQS_OPERATION_SIGN] = sign,
    [PQS_OPERATION_VERIFY] = verify,
};

int pqs_exercise_run(struct pqs_exercise *x, enum pqs_operation operation, struct pqs_err *err) {
    return operations[operation](x) ? 0 : fail(x, operation, err);
}

static int fail_different(const struct pqs_exercise *x, struct pqs_err *err) {
    return pqs_fail(err, PQS_E_FAILED, "%s: the two sides' shared secrets differ", x->algorithm->name);
}

static int prepare_kem(struct pqs_exercise *x, struct pqs_err *err) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(x->key, NULL);
    size_t secret_len = 0;
    bool ok = ctx && pqs_evp_encapsulate_start(ctx) &&
              EVP_PKEY_encapsulate(ctx, NULL, &x->output_cap, NULL, &secret_len) == 1 && secret_len <= SECRET_MAX;
    EVP_PKEY_CTX_free(ctx);
    if (!ok)
        return fail(x, PQS_OPERATION_ENCAPSULATE, err);
    x->output = pqs_calloc(1, x->output_cap);
    if (!take_public_key(x, x->key))
        return fail(x, PQS_OPERATION_ENCAPSULATE, err);
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
    if (rc == 0 && !x->algorithm->curve && !take_public_key(x, x->peer))
        rc = fail(x, PQS_OPERATION_DERIVE, err);
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
    x->output_cap = (size_t)EVP_PKEY_size(x->key);
    x->output = pqs_calloc(1, x->output_cap);
    int rc = pqs_exercise_run(x, PQS_OPERATION_SIGN, err);
    return rc ? rc : pqs_exercise_run(x, PQS_OPERATION_VERIFY, err);
}

static int prepare_schedule(struct pqs_exercise *x, struct pqs_err *err) {
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

void pqs_exercise_sizes(const struct pqs_exercise *x, struct pqs_sizes *ret_sizes) {
    *ret_sizes = (struct pqs_sizes){.output = x->output_len, .secret = x->secret_len};
    if (x->key &&
        EVP_PKEY_get_raw_public_key(x->key, NULL, &ret_sizes->public_key) != 1) /* EC and RSA keys have structure */
        ret_sizes->public_key = 0;
    ERR_clear_error();
}

void pqs_exercise_free(struct pqs_exercise *x) {
    if (!x)
        return;
    EVP_PKEY_free(x->key);
    EVP_PKEY_free(x->peer);
    pqs_cleanup_free(&x->public_key);
    pqs_cleanup_free(&x->output);
    pqs_cleanup_free(&x);
}
