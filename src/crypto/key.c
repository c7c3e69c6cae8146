/* Making keys and naming them. Must not know: X.509. */
#include "crypto/key.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "crypto/evp.h"
#include "crypto/ossl_err.h"

bool pqs_certificate_supported(const struct pqs_certificate_kind *kind) {
    return pqs_evp_has(kind->algorithm);
}

int pqs_key_new(const struct pqs_certificate_kind *kind, struct evp_pkey_st **ret_key, struct pqs_err *err) {
    EVP_PKEY *key = pqs_evp_keygen(kind->algorithm, kind->curve, kind->rsa_bits);
    if (!key)
        return pqs_fail_ossl(err, PQS_E_ENV, "this library (%s) makes no %s key", pqs_evp_version(), kind->name);
    *ret_key = key;
    return 0;
}

void pqs_key_describe(const struct evp_pkey_st *key, char ret_name[static PQS_KEY_NAME_MAX]) {
    char algorithm[32], curve[32];
    pqs_evp_key_name(key, algorithm, curve);
    int bits = EVP_PKEY_bits(key);

    size_t n;
    const struct pqs_certificate_kind *kinds = pqs_certificate_kinds(&n);
    for (const struct pqs_certificate_kind *k = kinds; k < kinds + n; k++)
        if (strcasecmp(k->algorithm, algorithm) == 0 && (!k->curve || strcmp(k->curve, curve) == 0) &&
            (k->rsa_bits == 0 || k->rsa_bits == bits)) {
            snprintf(ret_name, PQS_KEY_NAME_MAX, "%s", k->name);
            return;
        }
    if (curve[0])
        snprintf(ret_name, PQS_KEY_NAME_MAX, "%s %s", algorithm, curve);
    else
        snprintf(ret_name, PQS_KEY_NAME_MAX, "%s %d bits", algorithm, bits);
}
