/* What every stack must do with the tables of src/crypto, whatever its library: compiled once for each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/hmac.h>

#include "base/mem.h"
#include "crypto/algorithm.h"
#include "crypto/certificate.h"
#include "crypto/evp.h"
#include "crypto/group.h"
#include "crypto/key.h"
#include "crypto/library.h"

static bool is_aws_lc(void) {
    return strcmp(pqs_evp_stack, "aws-lc") == 0;
}

/* Every algorithm works or is known to be missing. The slow parameter sets are left out: making their keys and signatures takes
 * seconds under sanitizers. */
static void algorithms_work(void **state) {
    (void)state;
    size_t n, ran = 0;
    const struct pqs_algorithm *rows = pqs_algorithms(&n);
    for (const struct pqs_algorithm *a = rows; a < rows + n; a++) {
        struct pqs_exercise *x = NULL;
        struct pqs_err err = {0};
        bool slh_dsa = strncmp(a->name, "SLH-DSA", 7) == 0;
        assert_ptr_equal(pqs_algorithm_find(a->name), a);
        if ((slh_dsa && a->name[strlen(a->name) - 1] == 's') || a->rsa_bits > 2048)
            continue;
        int rc = pqs_exercise_new(a, &x, &err);
        if (is_aws_lc() && (slh_dsa || strcmp(a->name, "X448") == 0)) {
            assert_int_equal(rc, PQS_E_ENV);
            assert_null(x);
            continue;
        }
        if (rc)
            fail_msg("%s", err.msg);
        for (enum pqs_operation op = 0; op < PQS_OPERATIONS; op++) {
            if (!pqs_algorithm_has(a, op))
                continue;
            for (int twice = 0; twice < 2; twice++)
                if (pqs_exercise_run(x, op, &err) != 0)
                    fail_msg("%s", err.msg);
            ran++;
        }
        assert_int_equal(ERR_peek_error(), 0);
        pqs_exercise_free(x);
    }
    size_t in_both = 3 * 2 + 3 * 3 + (2 + 1 + 1 + 3) * 3 + 1;
    assert_int_equal(ran, is_aws_lc() ? in_both : in_both + 2 + 6 * 3);
    assert_null(pqs_algorithm_find("X25519 "));
    assert_ptr_equal(pqs_algorithm_find("ml-kem-768"), pqs_algorithm_find("ML-KEM-768"));
}

static void algorithm_that_is_missing(void **state) {
    (void)state;
    static const struct pqs_algorithm no = {"NO-KEM", PQS_ALGORITHM_KEM, "NO-KEM", NULL, 0, NULL};
    struct pqs_exercise *x = NULL;
    struct pqs_err err = {0};
    assert_int_equal(pqs_exercise_new(&no, &x, &err), PQS_E_ENV);
    assert_null(x);
    assert_non_null(strstr(err.msg, "makes no NO-KEM key"));
}

/* A key schedule that derives nothing would be fast: RFC 5869 gives no vector for SHA-384, so HKDF is checked against its own
 * definition, HMAC. */
static void hkdf_is_hmac(void **state) {
    (void)state;
    unsigned char secret[PQS_EVP_HASH_BYTES], salt[PQS_EVP_HASH_BYTES], got[PQS_EVP_HASH_BYTES], want[EVP_MAX_MD_SIZE];
    unsigned len;
    memset(secret, 1, sizeof secret);
    memset(salt, 2, sizeof salt);
    assert_true(pqs_evp_hkdf_extract(secret, salt, got));
    assert_non_null(HMAC(EVP_sha384(), salt, sizeof salt, secret, sizeof secret, want, &len));
    assert_memory_equal(got, want, sizeof got);
    const unsigned char info[] = {'a', 'b', 1}; /* T(1) = HMAC(PRK, info | 0x01) */
    assert_true(pqs_evp_hkdf_expand(secret, info, 2, got, sizeof got));
    assert_non_null(HMAC(EVP_sha384(), secret, sizeof secret, info, sizeof info, want, &len));
    assert_memory_equal(got, want, sizeof got);
}

static void kinds_have_their_names(void **state) {
    (void)state;
    size_t n;
    const struct pqs_certificate_kind *kinds = pqs_certificate_kinds(&n);
    for (size_t i = 0; i < n; i++) {
        EVP_PKEY *key = NULL;
        struct pqs_err err = {0};
        char name[PQS_KEY_NAME_MAX];
        assert_true(pqs_certificate_supported(&kinds[i]));
        if (kinds[i].rsa_bits > 2048)
            continue;
        if (pqs_key_new(&kinds[i], &key, &err))
            fail_msg("%s", err.msg);
        pqs_key_describe(key, name);
        assert_string_equal(name, kinds[i].name);
        EVP_PKEY_free(key);
        struct pqs_certificate_files files = {0};
        if (pqs_certificate_make(&(struct pqs_certificate_request){.kind = kinds[i].name}, &files, &err))
            fail_msg("%s", err.msg);
        pqs_certificate_files_release(&files);
    }
    assert_false(pqs_certificate_supported(&(struct pqs_certificate_kind){.name = "x", .algorithm = "ML-DSA-66"}));
}

static void groups_of_the_stack(void **state) {
    (void)state;
    static const char *const everywhere[] = {"X25519",         "secp256r1",         "P-256",         "secp384r1", "MLKEM768",
                                             "X25519MLKEM768", "SecP256r1MLKEM768", "x25519mlkem768"};
    for (size_t i = 0; i < PQS_COUNT(everywhere); i++)
        if (!pqs_group_supported(everywhere[i]))
            fail_msg("%s has no %s", pqs_evp_stack, everywhere[i]);
    assert_int_equal(pqs_group_supported("X448"), !is_aws_lc());
    assert_false(pqs_group_supported("P-224"));
    assert_false(pqs_group_supported("?bogus"));
    assert_false(pqs_group_supported("X25519:P-256"));
}

static void facts(void **state) {
    (void)state;
    struct pqs_library lib;
    struct pqs_err err = {0};
    assert_int_equal(pqs_library_facts(&lib, &err), 0);
    assert_string_equal(lib.stack, pqs_evp_stack);
    assert_string_equal(lib.header_version, lib.version);
    assert_int_equal(lib.ssl.path[0], '/');
    assert_int_equal(pqs_crypto_self_test(&err), 0);
}

static int start(void **state) {
    (void)state;
    struct pqs_err err = {0};
    return pqs_crypto_init(&err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(algorithms_work),     cmocka_unit_test(algorithm_that_is_missing),
        cmocka_unit_test(hkdf_is_hmac),        cmocka_unit_test(kinds_have_their_names),
        cmocka_unit_test(groups_of_the_stack), cmocka_unit_test(facts),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
