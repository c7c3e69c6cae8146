/* Kinds, and making and describing certificates with the X.509 API that the OpenSSL family shares; keys come from
 * crypto/key.h. Must not know: TLS, files. */
#include "crypto/certificate.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "base/opt.h"
#include "crypto/evp.h"
#include "crypto/key.h"
#include "crypto/ossl_err.h"

/* SPKI: algorithm identifiers from the sources named plus the key. RSA's exponent is 65537. */
static const struct pqs_certificate_kind kinds[] = {
    /* RFC 5480; signatures RFC 5758 with the digest of TLS 1.3's scheme for the curve (RFC 8446, 4.2.3) */
    {"ecdsa-p256", "EC", "prime256v1", 0, "SHA256", 91, 0},
    {"ecdsa-p384", "EC", "secp384r1", 0, "SHA384", 120, 0},
    /* RFC 8017 (PKCS #1 v1.5 signatures, as public CAs make them), RFC 3279 */
    {"rsa-2048", "RSA", NULL, 2048, "SHA256", 294, 256},
    {"rsa-3072", "RSA", NULL, 3072, "SHA256", 422, 384},
    {"rsa-4096", "RSA", NULL, 4096, "SHA256", 550, 512},
    /* RFC 8032, RFC 8410 */
    {"ed25519", "ED25519", NULL, 0, NULL, 12 + 32, 64},
    /* FIPS 204, table 2; RFC 9881 */
    {"ML-DSA-44", "ML-DSA-44", NULL, 0, NULL, 22 + 1312, 2420},
    {"ML-DSA-65", "ML-DSA-65", NULL, 0, NULL, 22 + 1952, 3309},
    {"ML-DSA-87", "ML-DSA-87", NULL, 0, NULL, 22 + 2592, 4627},
};

const struct pqs_certificate_kind *pqs_certificate_kinds(size_t *ret_n) {
    *ret_n = PQS_COUNT(kinds);
    return kinds;
}

int pqs_certificate_kind_find(const char *name, const struct pqs_certificate_kind **ret_kind, struct pqs_err *err) {
    PQS_BUF names = {0};
    for (size_t i = 0; i < PQS_COUNT(kinds); i++) {
        if (strcasecmp(kinds[i].name, name) == 0) {
            *ret_kind = &kinds[i];
            return 0;
        }
        pqs_buf_addf(&names, "%s%s", i ? ", " : "", kinds[i].name);
    }
    return pqs_fail(err, PQS_E_USAGE, "there is no certificate kind \"%s\"; the kinds are %s", name, pqs_buf_text(&names));
}

static void free_key(EVP_PKEY **key) {
    EVP_PKEY_free(*key);
}
static void free_certificate(X509 **certificate) {
    X509_free(*certificate);
}
static void free_name(X509_NAME **name) {
    X509_NAME_free(*name);
}
static void free_san(GENERAL_NAMES **san) {
    GENERAL_NAMES_free(*san);
}
static void free_bn(BIGNUM **bn) {
    BN_free(*bn);
}
static void free_bio(BIO **bio) {
    BIO_free(*bio);
}
#define CLEANUP(f) __attribute__((cleanup(f)))

void pqs_certificate_files_release(struct pqs_certificate_files *files) {
    pqs_buf_release(&files->leaf);
    pqs_buf_release(&files->leaf_key);
    pqs_buf_release(&files->ca);
    pqs_buf_release(&files->ca_key);
}

/* --- subject alternative names (RFC 5280, 4.2.1.6) --- */

/* What certificates hold as DNS names, wildcards included. Keeps a typo from becoming a name that nothing can match. */
static bool is_dns_name(const char *text) {
    size_t len = strlen(text);
    if (len == 0 || len > 253)
        return false;
    for (const char *c = text; *c; c++)
        if (!isascii((unsigned char)*c) || (!isalnum((unsigned char)*c) && !strchr("-._*", *c)))
            return false;
    return true;
}

/* NULL when the text is neither DNS:name nor IP:address. */
static GENERAL_NAME *parse_san_item(const char *text) {
    int type = GEN_DNS;
    ASN1_STRING *value = NULL;
    if (strncasecmp(text, "DNS:", 4) == 0 && is_dns_name(text + 4)) {
        value = ASN1_STRING_type_new(V_ASN1_IA5STRING);
        if (value)
            ASN1_STRING_set(value, text + 4, -1);
    } else if (strncasecmp(text, "IP:", 3) == 0) {
        type = GEN_IPADD;
        value = a2i_IPADDRESS(text + 3);
    }
    GENERAL_NAME *name = value ? GENERAL_NAME_new() : NULL;
    if (name)
        GENERAL_NAME_set0_value(name, type, value);
    else
        ASN1_STRING_free(value);
    return name;
}

static int parse_san(const char *text, GENERAL_NAMES **ret_names, struct pqs_err *err) {
    char **items;
    size_t n;
    int code = pqs_split_list("subject alternative names", text, 1000, &items, &n, err);
    if (code)
        return code;
    CLEANUP(free_san) GENERAL_NAMES *names = GENERAL_NAMES_new();
    for (size_t i = 0; i < n && !code; i++) {
        GENERAL_NAME *name = parse_san_item(items[i]);
        if (!name || sk_GENERAL_NAME_push(names, name) <= 0) {
            GENERAL_NAME_free(name);
            code =
                pqs_fail(err, PQS_E_USAGE, "subject alternative name \"%s\" is neither DNS:name nor IP:address", items[i]);
        }
    }
    pqs_free_list(items, n);
    ERR_clear_error();
    if (code)
        return code;
    *ret_names = names;
    names = NULL;
    return 0;
}

/* --- one certificate --- */

struct blueprint {
    X509_NAME *subject;
    EVP_PKEY *key;
    GENERAL_NAMES *san; /* NULL: a CA */
    int days;
    X509 *issuer; /* NULL: itself */
    EVP_PKEY *issuer_key;
    const struct pqs_certificate_kind *issuer_kind;
};

static bool set_name(X509_NAME *name, const char *field, const char *text) {
    return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, (const unsigned char *)text, -1, -1, 0) == 1;
}

/* RFC 5280, 4.1.2.2: positive, at most 20 bytes; here always 20, so that certificates of a kind do not differ in size. */
static bool set_serial(X509 *certificate) {
    unsigned char bytes[20];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40);
    CLEANUP(free_bn) BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    return number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
}

static bool add_extension(X509 *certificate, X509V3_CTX *ctx, int nid, const char *text) {
    X509_EXTENSION *extension = X509V3_EXT_nconf_nid(NULL, ctx, nid, text);
    bool ok = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok;
}

static bool add_extensions(X509 *certificate, const struct blueprint *b) {
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, b->issuer ? b->issuer : certificate, certificate, NULL, NULL, 0);
    bool is_ca = b->san == NULL;
    /* The authority key identifier copies the issuer's subject key identifier, so it comes after. */
    return add_extension(certificate, &ctx, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE") &&
           add_extension(certificate, &ctx, NID_key_usage,
                         is_ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
           (is_ca || add_extension(certificate, &ctx, NID_ext_key_usage, "serverAuth,clientAuth")) &&
           (is_ca || X509_add1_ext_i2d(certificate, NID_subject_alt_name, b->san, 0, X509V3_ADD_DEFAULT) == 1) &&
           add_extension(certificate, &ctx, NID_subject_key_identifier, "hash") &&
           add_extension(certificate, &ctx, NID_authority_key_identifier, "keyid:always");
}

/* The signed certificate; NULL with the library's error queue filled on failure. Valid from an hour ago, since the
 * verifier's clock may be another machine's. */
static X509 *make_certificate(const struct blueprint *b) {
    const EVP_MD *digest = b->issuer_kind->digest ? EVP_get_digestbyname(b->issuer_kind->digest) : NULL;
    X509 *certificate = X509_new();
    if (certificate && X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) &&
        X509_time_adj_ex(X509_getm_notAfter(certificate), b->days, 0, NULL) &&
        X509_set_subject_name(certificate, b->subject) == 1 &&
        X509_set_issuer_name(certificate, b->issuer ? X509_get_subject_name(b->issuer) : b->subject) == 1 &&
        X509_set_pubkey(certificate, b->key) == 1 && add_extensions(certificate, b) && (digest || !b->issuer_kind->digest) &&
        X509_sign(certificate, b->issuer_key, digest) > 0)
        return certificate;
    X509_free(certificate);
    return NULL;
}

/* --- PEM --- */

static bool take_bio(BIO *bio, struct pqs_buf *ret_pem) {
    char *data;
    long len = BIO_get_mem_data(bio, &data);
    if (len <= 0)
        return false;
    pqs_buf_add(ret_pem, data, (size_t)len);
    return true;
}

static bool write_certificate(X509 *certificate, struct pqs_buf *ret_pem) {
    CLEANUP(free_bio) BIO *bio = BIO_new(BIO_s_mem());
    return bio && PEM_write_bio_X509(bio, certificate) == 1 && take_bio(bio, ret_pem);
}

static bool write_key(EVP_PKEY *key, struct pqs_buf *ret_pem) {
    CLEANUP(free_bio) BIO *bio = BIO_new(BIO_s_mem());
    return bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1 && take_bio(bio, ret_pem);
}

int pqs_certificate_make(const struct pqs_certificate_request *request, struct pqs_certificate_files *ret_files,
                         struct pqs_err *err) {
    const char *common_name = request->common_name ? request->common_name : "localhost";
    const struct pqs_certificate_kind *kind, *ca_kind;
    int code = pqs_certificate_kind_find(request->kind, &kind, err);
    if (!code)
        code = pqs_certificate_kind_find(request->ca_kind ? request->ca_kind : request->kind, &ca_kind, err);
    if (code)
        return code;
    if (request->self_signed && request->ca_kind)
        return pqs_fail(err, PQS_E_USAGE, "a self-signed certificate has no CA, so there can be no CA kind \"%s\"",
                        request->ca_kind);
    int days = request->days ? request->days : PQS_CERTIFICATE_DAYS;
    if (days < 1 || days > PQS_CERTIFICATE_DAYS_MAX)
        return pqs_fail(err, PQS_E_USAGE, "%d days of validity; 1 to %d are possible", days, PQS_CERTIFICATE_DAYS_MAX);
    CLEANUP(free_name) X509_NAME *subject = X509_NAME_new();
    if (!subject || common_name[0] == '\0' || !set_name(subject, "CN", common_name))
        return pqs_fail_ossl(err, PQS_E_USAGE, "common name \"%.80s\" is not 1 to 64 characters of UTF-8", common_name);
    CLEANUP(free_san) GENERAL_NAMES *san = NULL;
    if ((code = parse_san(request->san ? request->san : PQS_CERTIFICATE_SAN, &san, err)))
        return code;

    CLEANUP(free_key) EVP_PKEY *key = NULL;
    CLEANUP(free_key) EVP_PKEY *ca_key = NULL;
    CLEANUP(free_certificate) X509 *ca = NULL;
    if ((code = pqs_key_new(kind, &key, err)))
        return code;
    if (!request->self_signed) {
        if ((code = pqs_key_new(ca_kind, &ca_key, err)))
            return code;
        /* The organisation keeps the CA's name apart from any common name that the leaf may ask for. */
        CLEANUP(free_name) X509_NAME *ca_name = X509_NAME_new();
        if (ca_name && set_name(ca_name, "O", "pqshake") && set_name(ca_name, "CN", "pqshake test CA"))
            ca = make_certificate(&(struct blueprint){
                .subject = ca_name, .key = ca_key, .days = days, .issuer_key = ca_key, .issuer_kind = ca_kind});
        if (!ca)
            return pqs_fail_ossl(err, PQS_E_FAILED, "making the %s CA failed", ca_kind->name);
    }
    CLEANUP(free_certificate)
    X509 *leaf = make_certificate(&(struct blueprint){.subject = subject,
                                                      .key = key,
                                                      .san = san,
                                                      .days = days,
                                                      .issuer = ca,
                                                      .issuer_key = ca ? ca_key : key,
                                                      .issuer_kind = ca_kind});
    if (!leaf)
        return pqs_fail_ossl(err, PQS_E_FAILED, "making the %s certificate failed", kind->name);

    struct pqs_certificate_files files = {0};
    if (!write_certificate(leaf, &files.leaf) || !write_key(key, &files.leaf_key) ||
        !write_certificate(ca ? ca : leaf, &files.ca) || (ca && !write_key(ca_key, &files.ca_key))) {
        pqs_certificate_files_release(&files);
        return pqs_fail_ossl(err, PQS_E_FAILED, "writing the %s certificate as PEM failed", kind->name);
    }
    *ret_files = files;
    return 0;
}

void pqs_certificate_describe(const struct stack_st_X509 *chain, struct pqs_certificate_facts *ret_facts) {
    size_t n = chain ? (size_t)sk_X509_num(chain) : 0;
    *ret_facts = (struct pqs_certificate_facts){.n = n};
    for (size_t i = 0; i < n; i++) {
        int der_bytes = i2d_X509(sk_X509_value(chain, (__typeof__(sk_X509_num(chain)))i), NULL);
        ret_facts->der_bytes += der_bytes > 0 ? (size_t)der_bytes : 0;
    }
    if (n > 0)
        pqs_key_describe(X509_get0_pubkey(sk_X509_value(chain, 0)), ret_facts->key);
}
