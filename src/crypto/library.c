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

#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "crypto/algorithm.h"
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

static int compare(const char *primitive, const char *what, size_t size, size_t standard, struct pqs_err *err) {
    if (size == standard)
        return 0;
    return pqs_fail(err, PQS_E_FAILED, "%s: the library's %s is %zu bytes, the standard's %zu", primitive, what, size,
                    standard);
}

static int check_primitive(const struct pqs_primitive *row, struct pqs_err *err) {
    const struct pqs_algorithm *algorithm = pqs_algorithm_find(row->name);
    if (!algorithm)
        return pqs_fail(err, PQS_E_ENV, "%s is no algorithm", row->name);
    struct pqs_exercise *x = NULL;
    int rc = pqs_exercise_new(algorithm, &x, err); /* runs it in both directions */
    if (rc)
        return rc;
    struct pqs_sizes sizes;
    pqs_exercise_sizes(x, &sizes);
    pqs_exercise_free(x);
    rc = compare(row->name, "public key", sizes.public_key, row->public_key, err);
    if (rc == 0)
        rc = compare(row->name, algorithm->type == PQS_ALGORITHM_KEM ? "ciphertext" : "signature", sizes.output, row->output,
                     err);
    return rc ? rc : compare(row->name, "shared secret", sizes.secret, row->secret, err);
}

int pqs_crypto_check_primitives(const struct pqs_primitive *rows, size_t n, struct pqs_err *err) {
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = check_primitive(&rows[i], err);
    return rc;
}

/* What the standards say, whatever library provides it. */
static const struct pqs_primitive standard[] = {
    /* FIPS 203, table 3 */
    {"ML-KEM-512", 800, 768, 32},
    {"ML-KEM-768", 1184, 1088, 32},
    {"ML-KEM-1024", 1568, 1568, 32},
    /* FIPS 204, table 2 */
    {"ML-DSA-44", 1312, 2420, 0},
    {"ML-DSA-65", 1952, 3309, 0},
    {"ML-DSA-87", 2592, 4627, 0},
};

int pqs_crypto_self_test(struct pqs_err *err) {
    return pqs_crypto_check_primitives(standard, PQS_COUNT(standard), err);
}
