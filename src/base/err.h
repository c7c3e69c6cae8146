/* Errors as values. Every function that can fail returns 0 or a negative enum pqs_code and, on failure, fills the caller's
 * struct pqs_err. Outputs (ret_*) are untouched on failure unless a function says otherwise.
 * Must not know: anything above src/base. */
#ifndef PQS_BASE_ERR_H
#define PQS_BASE_ERR_H

#define PQS_MUST_CHECK __attribute__((warn_unused_result))
#define PQS_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))

/* The negated values are the exit statuses of every command (docs/ARCHITECTURE.md, Exit status). */
enum pqs_code {
    PQS_OK = 0,
    PQS_E_FAILED = -1,    /* it was tried and did not work */
    PQS_E_USAGE = -2,     /* the request makes no sense: options, values, files named by the user */
    PQS_E_ENV = -3,       /* the machine lacks something */
    PQS_E_UNFIT = -4,     /* finished, but the data cannot answer the question */
    PQS_E_OBJECTIVE = -5, /* a stated objective is not met or undecided */
};

struct pqs_err {
    int code;       /* enum pqs_code */
    int sys;        /* errno, or 0 */
    char msg[1024]; /* for people: names the thing, the value and what would be right; no trailing newline */
};

/* Fills err (may be NULL) and returns code, so that callers write `return pqs_fail(err, ...)`. */
int pqs_fail(struct pqs_err *err, int code, const char *fmt, ...) PQS_PRINTF(3, 4);
/* Same, with ": <strerror(sys)>" appended. */
int pqs_fail_sys(struct pqs_err *err, int code, int sys, const char *fmt, ...) PQS_PRINTF(4, 5);
/* Puts "<context>: " before the message; returns err->code (PQS_E_FAILED when err is NULL). */
int pqs_context(struct pqs_err *err, const char *fmt, ...) PQS_PRINTF(2, 3);

#endif
