/* What the libraries of the OpenSSL family call differently, and nothing else: the rest of src/crypto and src/tls is written
 * against the API that they share. One implementation per library, evp_<stack>.c. Inside src/crypto and src/tls only. */
#ifndef PQS_CRYPTO_EVP_H
#define PQS_CRYPTO_EVP_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "base/err.h"

extern const char *const pqs_evp_stack; /* "openssl", "aws-lc" */
extern const char *const pqs_evp_header_version;
const char *pqs_evp_version(void);
const char *pqs_evp_cpu_settings(void); /* which CPU capabilities the library saw; "" when it does not say */

/* Starts the library without reading any configuration file. PQS_E_ENV when the one that runs is too old. */
PQS_MUST_CHECK int pqs_evp_init(struct pqs_err *err);

/* Algorithms have OpenSSL's names ("X25519", "EC" with the curve "prime256v1", "RSA" with bits, "ML-KEM-768", "ML-DSA-65", ...). */
bool pqs_evp_has(const char *algorithm);
/* A fresh key pair; NULL with the reason in the error queue. curve NULL and rsa_bits 0 where the algorithm has none. */
EVP_PKEY *pqs_evp_keygen(const char *algorithm, const char *curve, int rsa_bits);
/* A peer's public key out of its bytes, as a handshake receives it (not for EC and RSA, whose keys have structure); NULL with
 * the reason in the error queue. */
EVP_PKEY *pqs_evp_public_key(const char *algorithm, const unsigned char *data, size_t len);
/* The algorithm's name, and the curve's or "". */
void pqs_evp_key_name(const EVP_PKEY *key, char ret_algorithm[static 32], char ret_curve[static 32]);

/* Before EVP_PKEY_encapsulate and EVP_PKEY_decapsulate. */
bool pqs_evp_encapsulate_start(EVP_PKEY_CTX *ctx);
bool pqs_evp_decapsulate_start(EVP_PKEY_CTX *ctx);
/* digest NULL: the algorithm has its own. RSA is RSASSA-PSS with a salt as long as the digest (RFC 8446, 4.2.3). */
bool pqs_evp_sign_start(EVP_MD_CTX *ctx, const char *digest, EVP_PKEY *key);
bool pqs_evp_verify_start(EVP_MD_CTX *ctx, const char *digest, EVP_PKEY *key);

/* HKDF-Extract and HKDF-Expand with SHA-384 (RFC 5869), as this library's TLS uses them: every secret has 48 bytes. */
#define PQS_EVP_HASH_BYTES 48
bool pqs_evp_hkdf_extract(const unsigned char *secret, const unsigned char *salt, unsigned char *ret_prk);
bool pqs_evp_hkdf_expand(const unsigned char *prk, const unsigned char *info, size_t info_len, unsigned char *ret_out,
                         size_t out_len);

/* Whether TLS 1.3 has a group of this name, not a list; as pqs_group_supported. */
bool pqs_evp_has_group(const char *name);
/* Of a finished handshake: names as the library gives them; "" when there is none. */
const char *pqs_evp_group_name(SSL *ssl);
const char *pqs_evp_peer_signature(SSL *ssl);
bool pqs_evp_peer_has_certificate(const SSL *ssl);
/* Reasons of the TLS library's errors that only some libraries have. */
bool pqs_evp_is_eof(int reason);       /* the stream ended without close_notify */
bool pqs_evp_is_no_record(int reason); /* what came is no TLS record */

#endif
