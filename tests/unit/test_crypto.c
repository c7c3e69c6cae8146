/* src/crypto: certificates that verify (and that do not where they must not), sizes against what the library really makes,
 * errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/mem.h"
#include "crypto/certificate.h"
#include "crypto/group.h"
#include "crypto/key.h"
#include "crypto/library.h"
#include "crypto/ossl_err.h"

#define FILES __attribute__((cleanup(pqs_certificate_files_release))) struct pqs_certificate_files

/* --- helpers: reading back with the library what was made --- */

static X509 *read_certificate(const struct pqs_buf *pem) {
    BIO *bio = BIO_new_mem_buf(pem->data, (int)pem->len);
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    assert_non_null(certificate);
    return certificate;
}

static EVP_PKEY *read_key(const struct pqs_buf *pem) {
    assert_memory_equal(pqs_buf_text(pem), "-----BEGIN PRIVATE KEY-----\n", 28); /* PKCS#8 */
    BIO *bio = BIO_new_mem_buf(pem->data, (int)pem->len);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    BIO_free(bio);
    assert_non_null(key);
    return key;
}

static bool key_matches(const struct pqs_buf *certificate_pem, const struct pqs_buf *key_pem) {
    X509 *certificate = read_certificate(certificate_pem);
    EVP_PKEY *key = read_key(key_pem);
    bool matches = X509_check_private_key(certificate, key) == 1;
    ERR_clear_error();
    EVP_PKEY_free(key);
    X509_free(certificate);
    return matches;
}

/* X509_V_OK or why not, as a server's (or client's) certificate under the strictest reading, at security level 1. */
static int verify(const struct pqs_buf *leaf_pem, const struct pqs_buf *trust_pem, int purpose) {
    X509 *leaf = read_certificate(leaf_pem), *trust = read_certificate(trust_pem);
    X509_STORE *store = X509_STORE_new();
    assert_int_equal(X509_STORE_add_cert(store, trust), 1);
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, NULL), 1);
    X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
    X509_VERIFY_PARAM_set_auth_level(param, 1);
    X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);
    X509_VERIFY_PARAM_set_purpose(param, purpose);
    int ok = X509_verify_cert(ctx);
    int why = X509_STORE_CTX_get_error(ctx);
    assert_int_equal(ok == 1, why == X509_V_OK);
    ERR_clear_error();
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    X509_free(trust);
    X509_free(leaf);
    return why;
}

static size_t spki_size(const struct pqs_buf *pem) {
    X509 *certificate = read_certificate(pem);
    int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), NULL);
    X509_free(certificate);
    return (size_t)size;
}

static size_t signature_size(const struct pqs_buf *pem) {
    X509 *certificate = read_certificate(pem);
    const ASN1_BIT_STRING *signature;
    X509_get0_signature(&signature, NULL, certificate);
    size_t size = (size_t)ASN1_STRING_length((const ASN1_STRING *)signature);
    X509_free(certificate);
    return size;
}

static size_t der_size(const struct pqs_buf *pem) {
    X509 *certificate = read_certificate(pem);
    int size = i2d_X509(certificate, NULL);
    X509_free(certificate);
    return (size_t)size;
}

static void make(const struct pqs_certificate_request *request, struct pqs_certificate_files *files) {
    struct pqs_err err = {0};
    if (pqs_certificate_make(request, files, &err))
        fail_msg("%s: %s", request->kind, err.msg);
    assert_int_equal(ERR_peek_error(), 0);
}

/* --- certificates --- */

static void every_kind_verifies(void **state) {
    (void)state;
    FILES stranger = {0};
    make(&(struct pqs_certificate_request){.kind = "ecdsa-p256"}, &stranger);
    size_t n;
    const struct pqs_certificate_kind *kinds = pqs_certificate_kinds(&n);
    assert_int_equal(n, 9);
    for (size_t i = 0; i < n; i++) {
        const struct pqs_certificate_kind *kind = &kinds[i];
        print_message("  %s\n", kind->name);
        assert_true(pqs_certificate_supported(kind));
        bool self_signed = kind->rsa_bits > 2048; /* one slow key instead of two */
        FILES files = {0};
        make(&(struct pqs_certificate_request){.kind = kind->name, .self_signed = self_signed}, &files);
        assert_int_equal(verify(&files.leaf, &files.ca, X509_PURPOSE_SSL_SERVER), X509_V_OK);
        assert_int_equal(verify(&files.leaf, &files.ca, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
        assert_int_equal(verify(&files.leaf, &stranger.ca, X509_PURPOSE_SSL_SERVER),
                         self_signed ? X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
                                     : X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
        assert_true(key_matches(&files.leaf, &files.leaf_key));
        assert_false(key_matches(&files.leaf, &stranger.leaf_key));
        if (!self_signed) {
            assert_true(key_matches(&files.ca, &files.ca_key));
            assert_false(key_matches(&files.leaf, &files.ca_key));
        }

        assert_int_equal(spki_size(&files.leaf), kind->spki_bytes);
        if (kind->signature_bytes)
            assert_int_equal(signature_size(&files.leaf), kind->signature_bytes);
        size_t der = der_size(&files.leaf);
        /* Names, times and extensions are a few hundred bytes; PEM is 4/3 plus line ends and two lines. */
        assert_in_range(der, kind->spki_bytes + signature_size(&files.leaf) + 200,
                        kind->spki_bytes + signature_size(&files.leaf) + 500);
        assert_in_range(files.leaf.len, der * 4 / 3 + 50, der * 4 / 3 + der / 40 + 80);

        struct pqs_certificate_facts facts;
        STACK_OF(X509) *chain = sk_X509_new_null();
        sk_X509_push(chain, read_certificate(&files.leaf));
        pqs_certificate_describe(chain, &facts);
        sk_X509_pop_free(chain, X509_free);
        assert_string_equal(facts.key, kind->name);
        assert_int_equal(facts.n, 1);
        assert_int_equal(facts.der_bytes, der);
    }
}

/* The stranger has the same name and another key: the signature itself must be what decides. */
static void wrong_ca_of_the_same_name(void **state) {
    (void)state;
    FILES a = {0}, b = {0};
    make(&(struct pqs_certificate_request){.kind = "ML-DSA-44"}, &a);
    make(&(struct pqs_certificate_request){.kind = "ML-DSA-44"}, &b);
    assert_int_equal(verify(&a.leaf, &a.ca, X509_PURPOSE_SSL_SERVER), X509_V_OK);
    assert_int_not_equal(verify(&a.leaf, &b.ca, X509_PURPOSE_SSL_SERVER), X509_V_OK);
    X509 *leaf = read_certificate(&a.leaf);
    EVP_PKEY *right = read_key(&a.ca_key), *wrong = read_key(&b.ca_key);
    assert_int_equal(X509_verify(leaf, right), 1);
    assert_int_not_equal(X509_verify(leaf, wrong), 1);
    ERR_clear_error();
    EVP_PKEY_free(right);
    EVP_PKEY_free(wrong);
    X509_free(leaf);
}

static void ca_of_another_kind(void **state) {
    (void)state;
    FILES files = {0};
    make(&(struct pqs_certificate_request){.kind = "ecdsa-p256", .ca_kind = "ml-dsa-65"}, &files);
    assert_int_equal(verify(&files.leaf, &files.ca, X509_PURPOSE_SSL_SERVER), X509_V_OK);
    assert_int_equal(spki_size(&files.leaf), 91);
    assert_int_equal(signature_size(&files.leaf), 3309);
    assert_int_equal(spki_size(&files.ca), 22 + 1952);
}

static void self_signed(void **state) {
    (void)state;
    FILES files = {0};
    make(&(struct pqs_certificate_request){.kind = "ML-DSA-65", .self_signed = true}, &files);
    assert_string_equal(pqs_buf_text(&files.leaf), pqs_buf_text(&files.ca));
    assert_int_equal(files.ca_key.len, 0);
    X509 *leaf = read_certificate(&files.leaf);
    assert_int_equal(X509_self_signed(leaf, 1), 1);
    assert_int_equal(X509_check_ca(leaf), 0);
    X509_free(leaf);

    struct pqs_err err = {0};
    FILES none = {0};
    assert_int_equal(
        pqs_certificate_make(&(struct pqs_certificate_request){.kind = "ed25519", .ca_kind = "ed25519", .self_signed = true},
                             &none, &err),
        PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "ed25519"));
}

static void extensions_and_fields(void **state) {
    (void)state;
    FILES files = {0}, again = {0};
    const struct pqs_certificate_request request = {.kind = "ed25519", .common_name = "server.example", .days = 7};
    make(&request, &files);
    make(&request, &again);
    X509 *leaf = read_certificate(&files.leaf), *ca = read_certificate(&files.ca), *other = read_certificate(&again.leaf);

    assert_int_equal(X509_get_version(leaf), X509_VERSION_3);
    int critical;
    BASIC_CONSTRAINTS *basic = X509_get_ext_d2i(leaf, NID_basic_constraints, &critical, NULL);
    assert_non_null(basic);
    assert_int_equal(critical, 1);
    assert_int_equal(basic->ca, 0);
    BASIC_CONSTRAINTS_free(basic);
    assert_int_equal(X509_check_ca(ca), 1);
    assert_int_equal(X509_get_key_usage(leaf), KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_get_key_usage(ca), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
    assert_int_equal(X509_get_extended_key_usage(leaf), XKU_SSL_SERVER | XKU_SSL_CLIENT);
    const ASN1_OCTET_STRING *ca_id = X509_get0_subject_key_id(ca), *authority = X509_get0_authority_key_id(leaf);
    assert_non_null(X509_get0_subject_key_id(leaf));
    assert_non_null(ca_id);
    assert_non_null(authority);
    assert_int_equal(ASN1_OCTET_STRING_cmp(ca_id, authority), 0);

    char name[65];
    X509_NAME_get_text_by_NID(X509_get_subject_name(leaf), NID_commonName, name, sizeof name);
    assert_string_equal(name, "server.example");
    assert_int_equal(X509_NAME_cmp(X509_get_issuer_name(leaf), X509_get_subject_name(ca)), 0);

    BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(leaf), NULL);
    assert_false(BN_is_negative(serial));
    assert_int_equal(BN_num_bits(serial), 159); /* 20 bytes of DER, always */
    BN_free(serial);
    assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(leaf), X509_get0_serialNumber(other)), 0);
    assert_int_equal(der_size(&files.leaf), der_size(&again.leaf));

    int days, seconds;
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(leaf), NULL), 1);
    assert_int_equal(days, 0);
    assert_in_range(seconds, 3600, 3660);
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(leaf)), 1);
    assert_in_range(days * 86400 + seconds, 7 * 86400 - 60, 7 * 86400);
    X509_free(leaf);
    X509_free(ca);
    X509_free(other);
}

static void alternative_names(void **state) {
    (void)state;
    FILES plain = {0}, own = {0};
    make(&(struct pqs_certificate_request){.kind = "ecdsa-p384"}, &plain);
    X509 *leaf = read_certificate(&plain.leaf);
    assert_int_equal(X509_check_host(leaf, "localhost", 0, 0, NULL), 1);
    assert_int_equal(X509_check_ip_asc(leaf, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(leaf, "::1", 0), 1);
    assert_int_equal(X509_check_ip_asc(leaf, "127.0.0.2", 0), 0);
    X509_free(leaf);

    make(&(struct pqs_certificate_request){.kind = "ecdsa-p256", .san = "dns:*.pq.example, ip:192.0.2.7"}, &own);
    leaf = read_certificate(&own.leaf);
    assert_int_equal(X509_check_host(leaf, "a.pq.example", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(leaf, "localhost", 0, 0, NULL), 0); /* the common name does not count */
    assert_int_equal(X509_check_ip_asc(leaf, "192.0.2.7", 0), 1);
    assert_int_equal(X509_check_ip_asc(leaf, "127.0.0.1", 0), 0);
    X509_free(leaf);

    const char *const bad[] = {"",    "localhost", "DNS:",         "DNS:a b",     "IP:300.1.1.1",
                               "IP:", "email:a@b", "DNS:ok,URI:x", "DNS:a,,DNS:b"};
    for (size_t i = 0; i < PQS_COUNT(bad); i++) {
        FILES none = {0};
        struct pqs_err err = {0};
        assert_int_equal(
            pqs_certificate_make(&(struct pqs_certificate_request){.kind = "ecdsa-p256", .san = bad[i]}, &none, &err),
            PQS_E_USAGE);
        assert_true(err.msg[0]);
        assert_null(none.leaf.data);
        assert_int_equal(ERR_peek_error(), 0);
    }
}

static void bad_requests(void **state) {
    (void)state;
    char long_name[66];
    memset(long_name, 'x', 65);
    long_name[65] = '\0';
    const struct {
        struct pqs_certificate_request request;
        const char *expect;
    } rows[] = {
        {{.kind = "dsa"}, "\"dsa\""},
        {{.kind = "ed25519", .ca_kind = "dsa"}, "\"dsa\""},
        {{.kind = "ed25519", .days = -1}, "-1 days"},
        {{.kind = "ed25519", .days = PQS_CERTIFICATE_DAYS_MAX + 1}, "36500"},
        {{.kind = "ed25519", .common_name = ""}, "common name"},
        {{.kind = "ed25519", .common_name = long_name}, "64"},
    };
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        FILES none = {0};
        struct pqs_err err = {0};
        assert_int_equal(pqs_certificate_make(&rows[i].request, &none, &err), PQS_E_USAGE);
        assert_non_null(strstr(err.msg, rows[i].expect));
        assert_null(none.leaf.data);
        assert_int_equal(ERR_peek_error(), 0);
    }
    /* Far ends of what is possible. */
    FILES files = {0};
    long_name[64] = '\0';
    make(&(struct pqs_certificate_request){.kind = "ed25519", .common_name = long_name, .days = PQS_CERTIFICATE_DAYS_MAX},
         &files);
    assert_int_equal(verify(&files.leaf, &files.ca, X509_PURPOSE_SSL_SERVER), X509_V_OK);
}

static void kinds_by_name(void **state) {
    (void)state;
    struct pqs_err err = {0};
    const struct pqs_certificate_kind *kind = NULL;
    assert_int_equal(pqs_certificate_kind_find("ml-dsa-65", &kind, &err), 0);
    assert_string_equal(kind->name, "ML-DSA-65");
    assert_int_equal(pqs_certificate_kind_find("ECDSA-P256", &kind, &err), 0);
    assert_string_equal(kind->name, "ecdsa-p256");

    const struct pqs_certificate_kind *before = kind;
    assert_int_equal(pqs_certificate_kind_find("ML-DSA-66", &kind, &err), PQS_E_USAGE);
    assert_ptr_equal(kind, before);
    assert_non_null(strstr(err.msg, "ML-DSA-66"));
    size_t n;
    const struct pqs_certificate_kind *kinds = pqs_certificate_kinds(&n);
    for (size_t i = 0; i < n; i++)
        assert_non_null(strstr(err.msg, kinds[i].name));
    assert_false(pqs_certificate_supported(&(struct pqs_certificate_kind){.name = "x", .algorithm = "ML-DSA-66"}));
    EVP_PKEY *key = NULL;
    assert_int_equal(pqs_key_new(&(struct pqs_certificate_kind){.name = "x", .algorithm = "ML-DSA-66"}, &key, &err),
                     PQS_E_ENV);
    assert_null(key);
}

static void describe_chains(void **state) {
    (void)state;
    struct pqs_certificate_facts facts;
    FILES files = {0};
    make(&(struct pqs_certificate_request){.kind = "ecdsa-p384", .ca_kind = "ML-DSA-87"}, &files);
    STACK_OF(X509) *chain = sk_X509_new_null();
    sk_X509_push(chain, read_certificate(&files.leaf));
    sk_X509_push(chain, read_certificate(&files.ca));
    pqs_certificate_describe(chain, &facts);
    assert_string_equal(facts.key, "ecdsa-p384");
    assert_int_equal(facts.n, 2);
    assert_int_equal(facts.der_bytes, der_size(&files.leaf) + der_size(&files.ca));
    sk_X509_pop_free(chain, X509_free);
    pqs_certificate_describe(NULL, &facts);
    assert_int_equal(facts.n, 0);

    char name[PQS_KEY_NAME_MAX];
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)1024);
    pqs_key_describe(key, name);
    assert_string_equal(name, "RSA 1024 bits");
    EVP_PKEY_free(key);
    key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-521");
    pqs_key_describe(key, name);
    assert_string_equal(name, "EC secp521r1");
    EVP_PKEY_free(key);
}

/* --- groups --- */

/* The EVP key behind a group; the KEMs of ML-KEM alone are spelled differently in TLS. */
static EVP_PKEY *group_key(const struct pqs_group *group) {
    if (strncmp(group->name, "MLKEM", 5) == 0) {
        char name[32];
        snprintf(name, sizeof name, "ML-KEM-%s", group->name + 5);
        return EVP_PKEY_Q_keygen(NULL, NULL, name);
    }
    if (group->alias)
        return EVP_PKEY_Q_keygen(NULL, NULL, "EC", group->alias);
    return EVP_PKEY_Q_keygen(NULL, NULL, group->name);
}

static void group_sizes_are_real(void **state) {
    (void)state;
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    SSL *ssl = SSL_new(ctx);
    size_t n;
    const struct pqs_group *groups = pqs_groups(&n);
    assert_int_equal(n, 11);
    for (size_t i = 0; i < n; i++) {
        const struct pqs_group *group = &groups[i];
        print_message("  %s\n", group->name);
        assert_true(pqs_group_supported(group->name));
        assert_ptr_equal(pqs_group_find(group->name), group);
        const char *library_name = SSL_group_to_name(ssl, TLSEXT_nid_unknown | group->code_point);
        assert_non_null(library_name);
        assert_ptr_equal(pqs_group_find(library_name), group);

        EVP_PKEY *key = group_key(group);
        assert_non_null(key);
        unsigned char *share = NULL;
        size_t client = EVP_PKEY_get1_encoded_public_key(key, &share), server = client, secret = 0;
        assert_int_equal(client, group->client_share_bytes);
        if (group->family != PQS_GROUP_CLASSICAL) {
            EVP_PKEY_CTX *encapsulate = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
            assert_int_equal(EVP_PKEY_encapsulate_init(encapsulate, NULL), 1);
            assert_int_equal(EVP_PKEY_encapsulate(encapsulate, NULL, &server, NULL, &secret), 1);
            EVP_PKEY_CTX_free(encapsulate);
        }
        assert_int_equal(server, group->server_share_bytes);
        assert_int_equal(group->family == PQS_GROUP_HYBRID, strstr(group->name, "MLKEM") > group->name);
        OPENSSL_free(share);
        EVP_PKEY_free(key);
    }
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void groups_by_name(void **state) {
    (void)state;
    assert_string_equal(pqs_group_find("x25519mlkem768")->name, "X25519MLKEM768");
    assert_int_equal(pqs_group_find("X25519MLKEM768")->client_share_bytes, 1216);
    assert_int_equal(pqs_group_find("X25519MLKEM768")->server_share_bytes, 1120);
    assert_int_equal(pqs_group_find("X25519MLKEM768")->code_point, 4588);
    assert_string_equal(pqs_group_family_names[pqs_group_find("p-256")->family], "classical");
    assert_null(pqs_group_find("bogus"));

    assert_true(pqs_group_supported("P-256"));
    assert_true(pqs_group_supported("x25519mlkem768"));
    assert_true(pqs_group_supported("ffdhe2048"));        /* not in the table, in the library */
    assert_false(pqs_group_supported("brainpoolP256r1")); /* TLS 1.2 only */
    const char *const no[] = {"bogus", "?bogus", "?X25519", "*X25519", "DEFAULT", "X25519:X448", "X25519/X448", ""};
    for (size_t i = 0; i < PQS_COUNT(no); i++)
        assert_false(pqs_group_supported(no[i]));
    assert_int_equal(ERR_peek_error(), 0);
}

/* --- the library --- */

static void library_facts(void **state) {
    (void)state;
    struct pqs_err err = {0};
    struct pqs_library facts;
    assert_int_equal(pqs_library_facts(&facts, &err), 0);
    assert_string_equal(facts.stack, "openssl");
    assert_memory_equal(facts.header_version, "OpenSSL ", 8);
    assert_string_equal(facts.version, OpenSSL_version(OPENSSL_VERSION));
    const struct pqs_object *const objects[] = {&facts.crypto, &facts.ssl};
    for (size_t i = 0; i < PQS_COUNT(objects); i++) {
        print_message("  %s, build id %s\n", objects[i]->path, objects[i]->build_id);
        PQS_BUF file = {0};
        assert_int_equal(pqs_read_file(objects[i]->path, (size_t)1 << 28, &file, &err), 0);
        assert_memory_equal(file.data, "\177ELF", 4);
        /* The build id is what the file says: its bytes are in there, behind their note's name. */
        unsigned char note[4 + 32] = "GNU";
        size_t n = strlen(objects[i]->build_id) / 2;
        if (n == 0)
            continue; /* linked without one */
        assert_in_range(n, 8, 32);
        for (size_t b = 0; b < n; b++) {
            unsigned value;
            assert_int_equal(sscanf(objects[i]->build_id + 2 * b, "%2x", &value), 1);
            note[4 + b] = (unsigned char)value;
        }
        assert_non_null(memmem(file.data, file.len, note, 4 + n));
    }
    print_message("  %s\n", facts.cpu_settings);
    assert_true(pqs_crypto_init(&err) == 0); /* again: nothing */
}

static void self_test(void **state) {
    (void)state;
    struct pqs_err err = {0};
    if (pqs_crypto_self_test(&err))
        fail_msg("%s", err.msg);

    const struct {
        struct pqs_primitive row;
        int code;
        const char *expect;
    } rows[] = {
        {{"ML-KEM-768", 1184, 1088, 32}, 0, ""},
        {{"ML-DSA-65", 1952, 3309, 0}, 0, ""},
        {{"ML-KEM-768", 1183, 1088, 32}, PQS_E_FAILED, "ML-KEM-768: the library's public key is 1184 bytes"},
        {{"ML-KEM-768", 1184, 1089, 32}, PQS_E_FAILED, "ciphertext is 1088 bytes, the standard's 1089"},
        {{"ML-KEM-768", 1184, 1088, 64}, PQS_E_FAILED, "shared secret is 32 bytes"},
        {{"ML-DSA-65", 1952, 3293, 0}, PQS_E_FAILED, "signature is 3309 bytes"},
        {{"ML-KEM-769", 1184, 1088, 32}, PQS_E_ENV, "ML-KEM-769"},
        {{"ED25519", 32, 32, 32}, PQS_E_FAILED, "signature is 64 bytes, the standard's 32"},
    };
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        err = (struct pqs_err){0};
        assert_int_equal(pqs_crypto_check_primitives(&rows[i].row, 1, &err), rows[i].code);
        assert_non_null(strstr(err.msg, rows[i].expect));
        assert_int_equal(ERR_peek_error(), 0);
    }
}

static void error_queue(void **state) {
    (void)state;
    struct pqs_err err = {0};
    ERR_raise(ERR_LIB_X509, X509_R_KEY_VALUES_MISMATCH);
    ERR_raise(ERR_LIB_PEM, PEM_R_NO_START_LINE);
    assert_int_equal(pqs_fail_ossl(&err, PQS_E_FAILED, "%s %d", "thing", 7), PQS_E_FAILED);
    assert_string_equal(err.msg, "thing 7: key values mismatch");
    assert_int_equal(err.code, PQS_E_FAILED);
    assert_int_equal(ERR_peek_error(), 0);
    assert_int_equal(pqs_fail_ossl(&err, PQS_E_ENV, "nothing queued"), PQS_E_ENV);
    assert_string_equal(err.msg, "nothing queued");
    ERR_raise(ERR_LIB_NONE, 999);
    pqs_fail_ossl(&err, PQS_E_FAILED, "no text");
    assert_memory_equal(err.msg, "no text: error:", 15);
}

/* Every fetch fails under this configuration, so all tests below hold only if it was not read; that it has this effect when
 * it is read is seen in a child. */
static void forbid_configuration(void) {
    char path[] = "/tmp/pqshake-test-XXXXXX";
    int fd = mkstemp(path);
    static const char text[] = "openssl_conf = all\n[all]\nalg_section = algorithms\n"
                               "[algorithms]\ndefault_properties = provider=none\n";
    if (fd < 0 || write(fd, text, sizeof text - 1) != sizeof text - 1 || setenv("OPENSSL_CONF", path, 1)) {
        perror(path);
        exit(1);
    }
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, NULL);
        _exit(EVP_MD_fetch(NULL, "SHA256", NULL) == NULL ? 0 : 1);
    }
    int status = -1;
    struct pqs_err err = {0};
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "the configuration file had no effect when it was read\n");
        exit(1);
    }
    if (pqs_crypto_init(&err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    unlink(path);
}

int main(void) {
    forbid_configuration();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_verifies),
        cmocka_unit_test(wrong_ca_of_the_same_name),
        cmocka_unit_test(ca_of_another_kind),
        cmocka_unit_test(self_signed),
        cmocka_unit_test(extensions_and_fields),
        cmocka_unit_test(alternative_names),
        cmocka_unit_test(bad_requests),
        cmocka_unit_test(kinds_by_name),
        cmocka_unit_test(describe_chains),
        cmocka_unit_test(group_sizes_are_real),
        cmocka_unit_test(groups_by_name),
        cmocka_unit_test(library_facts),
        cmocka_unit_test(self_test),
        cmocka_unit_test(error_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
