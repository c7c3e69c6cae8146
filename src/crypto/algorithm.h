/* The algorithms that a handshake is made of, by operation, for timing each by itself (`pqshake speed`). The table is the
 * same for every library; running an operation is one implementation per library. */
#ifndef PQS_CRYPTO_ALGORITHM_H
#define PQS_CRYPTO_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum pqs_operation {
    PQS_OPERATION_KEYGEN = 0,
    PQS_OPERATION_ENCAPSULATE,
    PQS_OPERATION_DECAPSULATE,
    PQS_OPERATION_DERIVE,
    PQS_OPERATION_SIGN,
    PQS_OPERATION_VERIFY,
    PQS_OPERATIONS
};
extern const char *const pqs_operation_names[PQS_OPERATIONS]; /* "keygen", "encapsulate", ... */

enum pqs_algorithm_type {
    PQS_ALGORITHM_KEM,       /* keygen, encapsulate, decapsulate */
    PQS_ALGORITHM_AGREEMENT, /* keygen, derive */
    PQS_ALGORITHM_SIGNATURE, /* keygen, sign, verify */
    PQS_ALGORITHM_SCHEDULE,  /* derive: the key schedule of one TLS 1.3 handshake (RFC 8446, 7.1) */
};

struct pqs_algorithm {
    const char *name;
    enum pqs_algorithm_type type;
    const char *fetched; /* as the library calls it */
    const char *curve;   /* NULL: none */
    int rsa_bits;        /* 0: not RSA */
    const char *digest;  /* signatures of RSA and ECDSA, and the key schedule; NULL: the algorithm has its own */
};

const struct pqs_algorithm *pqs_algorithms(size_t *ret_n);
/* Without regard to case; NULL: none. */
const struct pqs_algorithm *pqs_algorithm_find(const char *name);
bool pqs_algorithm_has(const struct pqs_algorithm *algorithm, enum pqs_operation operation);

/* Whether this library has it. */
bool pqs_algorithm_supported(const struct pqs_algorithm *algorithm);

/* An algorithm made ready: keys, a message, a ciphertext, a signature. */
struct pqs_exercise;
/* Runs every operation once and checks what comes out (both sides' secrets are equal, the signature verifies). PQS_E_ENV: this
 * library lacks the algorithm; PQS_E_FAILED: it is wrong. */
PQS_MUST_CHECK int pqs_exercise_new(const struct pqs_algorithm *algorithm, struct pqs_exercise **ret_x, struct pqs_err *err);
void pqs_exercise_free(struct pqs_exercise *x); /* NULL is fine */
/* In bytes; 0 for what the algorithm does not have. */
struct pqs_sizes {
    size_t public_key;
    size_t output; /* ciphertext or signature; ECDSA's varies */
    size_t secret; /* shared secret */
};
void pqs_exercise_sizes(const struct pqs_exercise *x, struct pqs_sizes *ret_sizes);
/* One operation that the algorithm has, with fresh randomness where it takes any; the caller times it. What a handshake keeps
 * between handshakes (fetched methods) is kept, what it makes anew is made anew: keys, contexts, and the peer's public key out of
 * its bytes (but that of an elliptic curve, and a signer's, are decoded once). */
PQS_MUST_CHECK int pqs_exercise_run(struct pqs_exercise *x, enum pqs_operation operation, struct pqs_err *err);

#endif
