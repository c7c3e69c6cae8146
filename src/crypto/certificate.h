/* Certificates for measuring: kinds (key algorithm and parameters), making a CA and a leaf, describing a chain. */
#ifndef PQS_CRYPTO_CERTIFICATE_H
#define PQS_CRYPTO_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct pqs_certificate_kind {
    const char *name;
    const char *algorithm;  /* as the library fetches it */
    const char *curve;      /* NULL: none */
    int rsa_bits;           /* 0: not RSA */
    const char *digest;     /* of signatures by such a key; NULL: the algorithm has its own */
    size_t spki_bytes;      /* DER of SubjectPublicKeyInfo */
    size_t signature_bytes; /* 0: varies (ECDSA's DER) */
};

const struct pqs_certificate_kind *pqs_certificate_kinds(size_t *ret_n);
/* Without regard to case. PQS_E_USAGE with a list of the kinds when there is none of that name. */
PQS_MUST_CHECK int pqs_certificate_kind_find(const char *name, const struct pqs_certificate_kind **ret_kind,
                                             struct pqs_err *err);
/* Whether this build of the library has the kind's algorithm. */
bool pqs_certificate_supported(const struct pqs_certificate_kind *kind);

#define PQS_CERTIFICATE_SAN "DNS:localhost,IP:127.0.0.1,IP:::1"
#define PQS_CERTIFICATE_DAYS 30
#define PQS_CERTIFICATE_DAYS_MAX 36500

struct pqs_certificate_request {
    const char *kind;        /* of the leaf's key */
    const char *ca_kind;     /* of the CA's key, and so of the signature on the leaf; NULL: the leaf's kind */
    bool self_signed;        /* no CA: the leaf signs itself (ca_kind must be NULL) */
    const char *common_name; /* at most 64 characters; NULL: "localhost" */
    const char *san;         /* DNS:name and IP:address items, comma-separated; NULL: PQS_CERTIFICATE_SAN */
    int days;                /* of validity, from an hour ago; 0: PQS_CERTIFICATE_DAYS */
};

/* PEM. Keys are unencrypted PKCS#8. */
struct pqs_certificate_files {
    struct pqs_buf leaf, leaf_key;
    struct pqs_buf ca;     /* what a verifier must trust: the CA, or the leaf itself when self-signed */
    struct pqs_buf ca_key; /* empty when self-signed */
};
void pqs_certificate_files_release(struct pqs_certificate_files *files);

/* Makes fresh keys and certificates (X.509 v3, RFC 5280 profile). Two certificates of the same request have the same size,
 * but for the DER encoding of ECDSA signatures. RSA keys take up to seconds. PQS_E_USAGE: the request; PQS_E_ENV: the
 * library lacks the kind. */
PQS_MUST_CHECK int pqs_certificate_make(const struct pqs_certificate_request *request,
                                        struct pqs_certificate_files *ret_files, struct pqs_err *err);

struct stack_st_X509; /* STACK_OF(X509), under the name that it has in every library of the OpenSSL family */

struct pqs_certificate_facts {
    char key[64];     /* the first certificate's key: a kind's name, else the library's (crypto/key.h) */
    size_t n;         /* certificates */
    size_t der_bytes; /* of all of them */
};

/* Of a chain, the leaf first; all zero for NULL or an empty one. */
void pqs_certificate_describe(const struct stack_st_X509 *chain, struct pqs_certificate_facts *ret_facts);

#endif
