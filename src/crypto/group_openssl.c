/* OpenSSL: which groups it implements. */
#include "crypto/group.h"

#include <strings.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

/* The list rather than an attempt with SSL_CTX_set1_groups_list: that takes a list with a syntax of its own ("?bogus" and
 * "DEFAULT" succeed) and groups that only older protocol versions have. */
bool pqs_group_supported(const char *name) {
    bool found = false;
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    STACK_OF(OPENSSL_CSTRING) *names = sk_OPENSSL_CSTRING_new_null();
    if (ctx && names && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
        SSL_CTX_get0_implemented_groups(ctx, 1, names) == 1)
        for (int i = 0; i < sk_OPENSSL_CSTRING_num(names) && !found; i++)
            found = strcasecmp(sk_OPENSSL_CSTRING_value(names, i), name) == 0;
    sk_OPENSSL_CSTRING_free(names);
    SSL_CTX_free(ctx);
    ERR_clear_error();
    return found;
}
