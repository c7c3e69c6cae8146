/* Fills struct pqs_err. Must not know: who fails, or who reads the message. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The arguments may point into err->msg itself, so every message is made aside and copied. */
#define MSG_SIZE sizeof((struct pqs_err *)NULL)->msg

static void append(char *msg, const char *text) {
    size_t len = strlen(msg);
    size_t n = strnlen(text, MSG_SIZE - 1 - len);
    memcpy(msg + len, text, n);
    msg[len + n] = '\0';
}

static int fill(struct pqs_err *err, int code, int sys, const char *fmt, va_list args) {
    if (!err)
        return code;
    char msg[MSG_SIZE];
    vsnprintf(msg, sizeof msg, fmt, args);
    if (sys) {
        char reason[128];
        append(msg, ": ");
        append(msg, strerror_r(sys, reason, sizeof reason));
    }
    memcpy(err->msg, msg, sizeof msg);
    err->code = code;
    err->sys = sys;
    return code;
}

int pqs_fail(struct pqs_err *err, int code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fill(err, code, 0, fmt, args);
    va_end(args);
    return code;
}

int pqs_fail_sys(struct pqs_err *err, int code, int sys, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fill(err, code, sys, fmt, args);
    va_end(args);
    return code;
}

int pqs_context(struct pqs_err *err, const char *fmt, ...) {
    if (!err)
        return PQS_E_FAILED;
    char msg[MSG_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    append(msg, ": ");
    append(msg, err->msg);
    memcpy(err->msg, msg, sizeof msg);
    return err->code;
}
