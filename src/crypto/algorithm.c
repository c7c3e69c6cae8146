/* The table of algorithms. Must not know: any library. */
#include "crypto/algorithm.h"

#include <strings.h>

#include "base/mem.h"

const char *const pqs_operation_names[PQS_OPERATIONS] = {"keygen", "encapsulate", "decapsulate", "derive", "sign", "verify"};

#define KEM(name)                                                                                                           \
    { name, PQS_ALGORITHM_KEM, name, NULL, 0, NULL }
#define SIGNATURE(name)                                                                                                     \
    { name, PQS_ALGORITHM_SIGNATURE, name, NULL, 0, NULL }

static const struct pqs_algorithm algorithms[] = {
    {"X25519", PQS_ALGORITHM_AGREEMENT, "X25519", NULL, 0, NULL}, /* RFC 7748 */
    {"X448", PQS_ALGORITHM_AGREEMENT, "X448", NULL, 0, NULL},
    {"P-256", PQS_ALGORITHM_AGREEMENT, "EC", "prime256v1", 0, NULL}, /* FIPS 186-5, SP 800-56A */
    {"P-384", PQS_ALGORITHM_AGREEMENT, "EC", "secp384r1", 0, NULL},
    KEM("ML-KEM-512"), /* FIPS 203 */
    KEM("ML-KEM-768"),
    KEM("ML-KEM-1024"),
    {"ECDSA-P-256", PQS_ALGORITHM_SIGNATURE, "EC", "prime256v1", 0, "SHA256"}, /* FIPS 186-5 */
    {"ECDSA-P-384", PQS_ALGORITHM_SIGNATURE, "EC", "secp384r1", 0, "SHA384"},
    SIGNATURE("Ed25519"), /* RFC 8032 */
    {"RSA-2048", PQS_ALGORITHM_SIGNATURE, "RSA", NULL, 2048, "SHA256"},
    {"RSA-3072", PQS_ALGORITHM_SIGNATURE, "RSA", NULL, 3072, "SHA256"},
    {"RSA-4096", PQS_ALGORITHM_SIGNATURE, "RSA", NULL, 4096, "SHA256"},
    SIGNATURE("ML-DSA-44"), /* FIPS 204 */
    SIGNATURE("ML-DSA-65"),
    SIGNATURE("ML-DSA-87"),
    SIGNATURE("SLH-DSA-SHA2-128f"), /* FIPS 205 */
    SIGNATURE("SLH-DSA-SHA2-128s"),
    SIGNATURE("SLH-DSA-SHA2-192f"),
    SIGNATURE("SLH-DSA-SHA2-192s"),
    SIGNATURE("SLH-DSA-SHA2-256f"),
    SIGNATURE("SLH-DSA-SHA2-256s"),
    SIGNATURE("SLH-DSA-SHAKE-128f"),
    SIGNATURE("SLH-DSA-SHAKE-128s"),
    SIGNATURE("SLH-DSA-SHAKE-192f"),
    SIGNATURE("SLH-DSA-SHAKE-192s"),
    SIGNATURE("SLH-DSA-SHAKE-256f"),
    SIGNATURE("SLH-DSA-SHAKE-256s"),
    {"key-schedule", PQS_ALGORITHM_SCHEDULE, "HKDF", NULL, 0, "SHA384"}, /* of TLS_AES_256_GCM_SHA384 */
};

const struct pqs_algorithm *pqs_algorithms(size_t *ret_n) {
    *ret_n = PQS_COUNT(algorithms);
    return algorithms;
}

const struct pqs_algorithm *pqs_algorithm_find(const char *name) {
    for (size_t i = 0; i < PQS_COUNT(algorithms); i++)
        if (strcasecmp(algorithms[i].name, name) == 0)
            return &algorithms[i];
    return NULL;
}

bool pqs_algorithm_has(const struct pqs_algorithm *algorithm, enum pqs_operation operation) {
    switch (operation) {
    case PQS_OPERATION_KEYGEN:
        return algorithm->type != PQS_ALGORITHM_SCHEDULE;
    case PQS_OPERATION_ENCAPSULATE:
    case PQS_OPERATION_DECAPSULATE:
        return algorithm->type == PQS_ALGORITHM_KEM;
    case PQS_OPERATION_DERIVE:
        return algorithm->type == PQS_ALGORITHM_AGREEMENT || algorithm->type == PQS_ALGORITHM_SCHEDULE;
    case PQS_OPERATION_SIGN:
    case PQS_OPERATION_VERIFY:
        return algorithm->type == PQS_ALGORITHM_SIGNATURE;
    case PQS_OPERATIONS:
        break;
    }
    return false;
}
