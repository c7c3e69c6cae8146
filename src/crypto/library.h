/* The cryptographic library this worker runs on: starting it, what it is, and whether its post-quantum primitives are the
 * standards'. One implementation per library. */
#ifndef PQS_CRYPTO_LIBRARY_H
#define PQS_CRYPTO_LIBRARY_H

#include <limits.h>
#include <stddef.h>

#include "base/err.h"

/* Starts the library without reading any configuration file (a distribution's openssl.cnf may change groups, security level
 * and providers, which would be an undeclared factor) and touches the random generators of the calling thread. Must come
 * before any other call into the library; calling it again does nothing. Fails with PQS_E_ENV when the run-time library is
 * too old. */
PQS_MUST_CHECK int pqs_crypto_init(struct pqs_err *err);

/* Seeds the calling thread's random generators, which would otherwise fall into its first handshake. For every further
 * thread. */
PQS_MUST_CHECK int pqs_crypto_touch_random(struct pqs_err *err);

/* A shared object in this process. */
struct pqs_object {
    char path[PATH_MAX]; /* the executable's own when linked statically */
    char build_id[65];   /* NT_GNU_BUILD_ID in hexadecimal; "" when the file has none */
};

struct pqs_library {
    const char *stack;          /* "openssl" */
    const char *header_version; /* compiled against */
    const char *version;        /* running */
    const char *cpu_settings;   /* which CPU capabilities the library saw; "" when it does not say */
    struct pqs_object crypto, ssl;
};

/* Fails with PQS_E_FAILED when a loaded object's file cannot be named. */
PQS_MUST_CHECK int pqs_library_facts(struct pqs_library *ret_facts, struct pqs_err *err);

/* What a primitive's standard says about it, in bytes. */
struct pqs_primitive {
    const char *name;  /* of a row of crypto/algorithm.h */
    size_t public_key; /* encapsulation or verification key */
    size_t output;     /* ciphertext or signature */
    size_t secret;     /* shared secret; 0 for signatures */
};

/* Runs each row's algorithm once in both directions (the two shared secrets must be equal, the signature must verify) and
 * compares the real sizes with the row's. Fails with PQS_E_ENV when this library lacks the algorithm, PQS_E_FAILED when it
 * differs. */
PQS_MUST_CHECK int pqs_crypto_check_primitives(const struct pqs_primitive *rows, size_t n, struct pqs_err *err);

/* The same for ML-KEM and ML-DSA as FIPS 203 and FIPS 204 define them (METHOD, Crypto). A few milliseconds. */
PQS_MUST_CHECK int pqs_crypto_self_test(struct pqs_err *err);

#endif
