/* OpenSSL: making keys and naming them. Must not know: X.509. */
#include "crypto/key.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/err.h>
#include <openssl/evp.h>

#include "crypto/ossl_err.h"

bool pqs_certificate_supported(const struct pqs_certificate_kind *kind) {
    EVP_KEYMGMT *fetched = EVP_KEYMGMT_fetch(NULL, kind->algorithm, NULL);
    EVP_KEYMGMT_free(fetched);
    ERR_clear_error();
    return fetched != NULL;
}

int pqs_key_new(const struct pqs_certificate_kind *kind, struct evp_pkey_st **ret_key, struct pqs_err *err) {
    EVP_PKEY *key;
    if (kind->rsa_bits)
        key = EVP_PKEY_Q_keygen(NULL, NULL, kind->algorithm, (size_t)kind->rsa_bits);
    else if (kind->curve)
        key = EVP_PKEY_Q_keygen(NULL, NULL, kind->algorithm, kind->curve);
    else
        key = EVP_PKEY_Q_keygen(NULL, NULL, kind->algorithm);
    if (!key)
        return pqs_fail_ossl(err, PQS_E_ENV, "this library (%s) makes no %s key", OpenSSL_version(OPENSSL_VERSION),
                             kind->name);
    *ret_key = key;
    return 0;
}

void pqs_key_describe(const struct evp_pkey_st *key, char ret_name[static PQS_KEY_NAME_MAX]) {
    const char *algorithm = EVP_PKEY_get0_type_name(key);
    char curve[64] = "";
    EVP_PKEY_get_group_name(key, curve, sizeof curve, NULL); /* leaves "" for keys without one */
    ERR_clear_error();
    int bits = EVP_PKEY_get_bits(key);

    size_t n;
    const struct pqs_certificate_kind *kinds = pqs_certificate_kinds(&n);
    for (const struct pqs_certificate_kind *k = kinds; algorithm && k < kinds + n; k++)
        if (strcasecmp(k->algorithm, algorithm) == 0 && (!k->curve || strcmp(k->curve, curve) == 0) &&
            (k->rsa_bits == 0 || k->rsa_bits == bits)) {
            snprintf(ret_name, PQS_KEY_NAME_MAX, "%s", k->name);
            return;
        }
    if (curve[0])
        snprintf(ret_name, PQS_KEY_NAME_MAX, "%.20s %.40s", algorithm ? algorithm : "unknown", curve);
    else
        snprintf(ret_name, PQS_KEY_NAME_MAX, "%.40s %d bits", algorithm ? algorithm : "unknown", bits);
}
