/* Signature key pairs of the certificate kinds. One implementation per library. */
#ifndef PQS_CRYPTO_KEY_H
#define PQS_CRYPTO_KEY_H

#include <stddef.h>

#include "base/err.h"
#include "crypto/certificate.h"

struct evp_pkey_st; /* EVP_PKEY, under the name that it has in every library of the OpenSSL family */

#define PQS_KEY_NAME_MAX 64

/* A fresh key pair; the caller frees it with EVP_PKEY_free. */
PQS_MUST_CHECK int pqs_key_new(const struct pqs_certificate_kind *kind, struct evp_pkey_st **ret_key, struct pqs_err *err);

/* The name of the certificate kind that has such keys, e.g. "ecdsa-p256"; for keys of no kind the library's name and the
 * size, e.g. "RSA 1024 bits". */
void pqs_key_describe(const struct evp_pkey_st *key, char ret_name[static PQS_KEY_NAME_MAX]);

#endif
