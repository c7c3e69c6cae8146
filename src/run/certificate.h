/* Certificates by way of a worker: the coordinator has no cryptography of its own. */
#ifndef PQS_RUN_CERTIFICATE_H
#define PQS_RUN_CERTIFICATE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* What to make: docs/WORKERS.md, role certificates. NULL and 0: the worker's default. */
struct pqs_order {
    const char *stack; /* NULL: the default */
    const char *kind;
    const char *ca_kind;
    const char *name;
    const char *san;
    int days;
    bool self_signed;
};

/* PEM. ca is what a verifier must trust (the certificate itself when self-signed); ca_key is empty when self-signed. */
struct pqs_pem {
    struct pqs_buf cert, key, ca, ca_key;
};
void pqs_pem_release(struct pqs_pem *pem);
#define PQS_PEM __attribute__((cleanup(pqs_pem_release))) struct pqs_pem

/* Makes one certificate; *ret_pem holds nothing on failure. */
PQS_MUST_CHECK int pqs_order_certificate(const struct pqs_order *order, struct pqs_pem *ret_pem, struct pqs_err *err);

#endif
