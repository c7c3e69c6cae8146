/* The error queue, which OpenSSL, BoringSSL and AWS-LC share. Must not know: what was tried. */
#include "crypto/ossl_err.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <openssl/err.h>

int pqs_fail_ossl(struct pqs_err *err, int code, const char *fmt, ...) {
    char what[sizeof err->msg];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);

    uint32_t oldest = (uint32_t)ERR_get_error(); /* codes have 32 bits, whatever the library returns them as */
    ERR_clear_error();
    if (oldest == 0)
        return pqs_fail(err, code, "%s", what);
    char numbers[256];
    const char *reason = ERR_reason_error_string(oldest);
    if (!reason) { /* of the system, or of a library that registered no texts */
        ERR_error_string_n(oldest, numbers, sizeof numbers);
        reason = numbers;
    }
    return pqs_fail(err, code, "%s: %s", what, reason);
}
