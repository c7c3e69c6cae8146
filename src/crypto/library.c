/* What the standards say about the primitives, whatever library provides them. Must not know: any library. */
#include "crypto/library.h"

#include "base/mem.h"

static const struct pqs_primitive standard[] = {
    /* FIPS 203, table 3 */
    {"ML-KEM-512", PQS_PRIMITIVE_KEM, 800, 768, 32},
    {"ML-KEM-768", PQS_PRIMITIVE_KEM, 1184, 1088, 32},
    {"ML-KEM-1024", PQS_PRIMITIVE_KEM, 1568, 1568, 32},
    /* FIPS 204, table 2 */
    {"ML-DSA-44", PQS_PRIMITIVE_SIGNATURE, 1312, 2420, 0},
    {"ML-DSA-65", PQS_PRIMITIVE_SIGNATURE, 1952, 3309, 0},
    {"ML-DSA-87", PQS_PRIMITIVE_SIGNATURE, 2592, 4627, 0},
};

int pqs_crypto_self_test(struct pqs_err *err) {
    return pqs_crypto_check_primitives(standard, PQS_COUNT(standard), err);
}
