/* Start-up, facts, and one run of each primitive. Must not know: TLS, certificates, which library it is. */
#include "crypto/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "crypto/evp.h"
#include "crypto/ossl_err.h"

int pqs_crypto_init(struct pqs_err *err) {
    int rc = pqs_evp_init(err);
    return rc ? rc : pqs_crypto_touch_random(err);
}

int pqs_crypto_touch_random(struct pqs_err *err) {
    unsigned char byte;
    if (RAND_bytes(&byte, 1) != 1 || RAND_priv_bytes(&byte, 1) != 1)
        return pqs_fail_ossl(err, PQS_E_ENV, "the random generator does not work");
    return 0;
}

/* --- the loaded objects --- */

struct object_search {
    uintptr_t address; /* inside the object looked for */
    struct pqs_object *object;
    bool found;
};

/* Notes are padded to the segment's alignment: 4, or 8 where the segment says so. */
static void read_build_id(const unsigned char *notes, size_t size, size_t align, struct pqs_object *ret_object) {
    while (size >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, notes, sizeof note);
        size_t name_size = (note.n_namesz + align - 1) & ~(align - 1);
        size_t desc_size = (note.n_descsz + align - 1) & ~(align - 1);
        size_t total = sizeof note + name_size + desc_size;
        if (total > size)
            return;
        const unsigned char *name = notes + sizeof note, *desc = name + name_size;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
            for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < sizeof ret_object->build_id; i++)
                snprintf(ret_object->build_id + 2 * i, 3, "%02x", desc[i]);
            return;
        }
        notes += total;
        size -= total;
    }
}

static int examine_object(struct dl_phdr_info *info, size_t info_size, void *context) {
    (void)info_size;
    struct object_search *search = context;
    for (unsigned i = 0; i < info->dlpi_phnum && !search->found; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        search->found = segment->p_type == PT_LOAD && search->address >= start && search->address - start < segment->p_memsz;
    }
    if (!search->found)
        return 0;
    snprintf(search->object->path, sizeof search->object->path, "%s", info->dlpi_name);
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_NOTE)
            /* NOLINTNEXTLINE(performance-no-int-to-ptr): the dynamic linker gives addresses as integers */
            read_build_id((const unsigned char *)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz,
                          segment->p_align == 8 ? 8 : 4, search->object);
    }
    return 1; /* stop */
}

/* The object that holds the code at address. */
static int find_object(const char *what, uintptr_t address, struct pqs_object *ret_object, struct pqs_err *err) {
    *ret_object = (struct pqs_object){0};
    struct object_search search = {.address = address, .object = ret_object};
    dl_iterate_phdr(examine_object, &search);
    if (!search.found)
        return pqs_fail(err, PQS_E_FAILED, "%s is in no loaded object", what);
    if (ret_object->path[0] == '\0') { /* the executable, when linked statically */
        ssize_t n = readlink("/proc/self/exe", ret_object->path, sizeof ret_object->path - 1);
        if (n < 0)
            return pqs_fail(err, PQS_E_FAILED, "%s: the executable's path cannot be read", what);
        ret_object->path[n] = '\0';
    }
    return 0;
}

int pqs_library_facts(struct pqs_library *ret_facts, struct pqs_err *err) {
    struct pqs_library facts = {
        .stack = pqs_evp_stack,
        .header_version = pqs_evp_header_version,
        .version = pqs_evp_version(),
        .cpu_settings = pqs_evp_cpu_settings(),
    };
    int code = find_object("libcrypto", (uintptr_t)RAND_bytes, &facts.crypto, err);
    if (!code)
        code = find_object("libssl", (uintptr_t)SSL_new, &facts.ssl, err);
    if (!code)
        *ret_facts = facts;
    return code;
}

/* --- self-test --- */

static void free_key(EVP_PKEY **key) {
    EVP_PKEY_free(*key);
}
static void free_key_ctx(EVP_PKEY_CTX **ctx) {
    EVP_PKEY_CTX_free(*ctx);
}
static void free_md_ctx(EVP_MD_CTX **ctx) {
    EVP_MD_CTX_free(*ctx);
}
static void free_bytes(unsigned char **bytes) {
    OPENSSL_free(*bytes);
}
#define CLEANUP(f) __attribute__((cleanup(f)))

static int wrong_size(const char *primitive, const char *what, size_t size, size_t standard, struct pqs_err *err) {
    return pqs_fail(err, PQS_E_FAILED, "%s: the library's %s is %zu bytes, the standard's %zu", primitive, what, size,
                    standard);
}

static int check_kem(const struct pqs_primitive *row, EVP_PKEY *key, struct pqs_err *err) {
    CLEANUP(free_key_ctx) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    size_t ciphertext_len = 0, secret_len = 0;
    if (!ctx || !pqs_evp_encapsulate_start(ctx) || EVP_PKEY_encapsulate(ctx, NULL, &ciphertext_len, NULL, &secret_len) != 1)
        return pqs_fail_ossl(err, PQS_E_FAILED, "%s: encapsulation cannot start", row->name);
    CLEANUP(free_bytes) unsigned char *ciphertext = OPENSSL_zalloc(ciphertext_len);
    CLEANUP(free_bytes) unsigned char *ours = OPENSSL_zalloc(secret_len);
    CLEANUP(free_bytes) unsigned char *theirs = OPENSSL_zalloc(secret_len);
    size_t theirs_len = secret_len;
    if (!ciphertext || !ours || !theirs ||
        EVP_PKEY_encapsulate(ctx, ciphertext, &ciphertext_len, theirs, &theirs_len) != 1 ||
        !pqs_evp_decapsulate_start(ctx) || EVP_PKEY_decapsulate(ctx, ours, &secret_len, ciphertext, ciphertext_len) != 1)
        return pqs_fail_ossl(err, PQS_E_FAILED, "%s: encapsulating and decapsulating failed", row->name);
    if (ciphertext_len != row->output)
        return wrong_size(row->name, "ciphertext", ciphertext_len, row->output, err);
    if (secret_len != row->secret)
        return wrong_size(row->name, "shared secret", secret_len, row->secret, err);
    /* ML-KEM rejects implicitly: a fault shows only here. */
    if (theirs_len != secret_len || CRYPTO_memcmp(ours, theirs, secret_len) != 0)
        return pqs_fail(err, PQS_E_FAILED, "%s: the two sides' shared secrets differ", row->name);
    return 0;
}

static int check_signature(const struct pqs_primitive *row, EVP_PKEY *key, struct pqs_err *err) {
    static const unsigned char message[] = "pqshake";
    CLEANUP(free_md_ctx) EVP_MD_CTX *sign = EVP_MD_CTX_new();
    CLEANUP(free_md_ctx) EVP_MD_CTX *verify = EVP_MD_CTX_new();
    size_t len = 0;
    if (!sign || !verify || !pqs_evp_sign_start(sign, NULL, key) ||
        EVP_DigestSign(sign, NULL, &len, message, sizeof message) != 1)
        return pqs_fail_ossl(err, PQS_E_FAILED, "%s: signing cannot start", row->name);
    CLEANUP(free_bytes) unsigned char *signature = OPENSSL_zalloc(len);
    if (!signature || EVP_DigestSign(sign, signature, &len, message, sizeof message) != 1)
        return pqs_fail_ossl(err, PQS_E_FAILED, "%s: signing failed", row->name);
    if (len != row->output)
        return wrong_size(row->name, "signature", len, row->output, err);
    if (!pqs_evp_verify_start(verify, NULL, key) || EVP_DigestVerify(verify, signature, len, message, sizeof message) != 1)
        return pqs_fail_ossl(err, PQS_E_FAILED, "%s: the signature just made does not verify", row->name);
    return 0;
}

int pqs_crypto_check_primitives(const struct pqs_primitive *rows, size_t n, struct pqs_err *err) {
    for (const struct pqs_primitive *row = rows; row < rows + n; row++) {
        CLEANUP(free_key) EVP_PKEY *key = pqs_evp_keygen(row->name, NULL, 0);
        if (!key)
            return pqs_fail_ossl(err, PQS_E_ENV, "%s makes no %s key", pqs_evp_version(), row->name);
        size_t public_len = 0;
        if (EVP_PKEY_get_raw_public_key(key, NULL, &public_len) != 1)
            return pqs_fail_ossl(err, PQS_E_FAILED, "%s: the public key cannot be read", row->name);
        if (public_len != row->public_key)
            return wrong_size(row->name, "public key", public_len, row->public_key, err);
        int code = row->type == PQS_PRIMITIVE_KEM ? check_kem(row, key, err) : check_signature(row, key, err);
        if (code)
            return code;
    }
    return 0;
}

/* What the standards say, whatever library provides it. */
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
