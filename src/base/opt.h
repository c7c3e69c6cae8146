/* Command-line options as rows: name, type, unit, range, default and help stand once; parsing, --help and tests read the
 * same rows. A row's value lands in the caller's options struct at `offset`. Options are `--name VALUE` or `--name=VALUE`;
 * flags take no value; the last of two wins; `--` ends options. A value that itself starts with `--` needs the `=` form. */
#ifndef PQS_BASE_OPT_H
#define PQS_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum pqs_opt_type {
    PQS_OPT_FLAG,     /* bool */
    PQS_OPT_STRING,   /* const char * (points into argv or the row) */
    PQS_OPT_CHOICE,   /* const char *, one of `choices`, canonical spelling; matched without regard to case */
    PQS_OPT_U64,      /* uint64_t within [min, max]; digits with optional k/M/Ki/Mi suffix */
    PQS_OPT_NUMBER,   /* double within [min, max] */
    PQS_OPT_DURATION, /* int64_t nanoseconds within [min, max]; needs a unit: ns, us, ms, s, min, h (0 needs none) */
};

struct pqs_opt {
    const char *name; /* without the dashes */
    const char *arg;  /* what --help calls the value, e.g. "HOST:PORT"; NULL for flags */
    enum pqs_opt_type type;
    size_t offset;
    const char *def;            /* default, as the user would write it; NULL: none (0, false, NULL) */
    double min, max;            /* for numbers and durations (ns); both 0: any non-negative value */
    const char *const *choices; /* NULL-terminated, for PQS_OPT_CHOICE */
    const char *help;           /* one sentence, no default (that is added), no trailing period needed */
};

/* Parses argv[1..argc-1] into *values after setting every default. rows end with name == NULL. Positional arguments are
 * collected into ret_args (capacity max_args); more than that is an error. Errors (PQS_E_USAGE) name the option, the value
 * and what would be right, with the nearest option name for a typo. *ret_help is set, and parsing stops, at --help or -h. */
PQS_MUST_CHECK int pqs_opt_parse(const struct pqs_opt *rows, int argc, char **argv, void *values, size_t max_args,
                                 const char **ret_args, size_t *ret_n_args, bool *ret_help, struct pqs_err *err);

/* Prints the rows as aligned help text, at most 100 columns wide. */
void pqs_opt_help(const struct pqs_opt *rows, FILE *out);

/* The duration parser by itself, for values inside strings. */
PQS_MUST_CHECK int pqs_parse_duration(const char *text, int64_t *ret_ns, struct pqs_err *err);

/* Splits "a,b,c" (blanks around items trimmed, empty items are an error, max items) into newly allocated strings. */
PQS_MUST_CHECK int pqs_split_list(const char *what, const char *text, size_t max, char ***ret_items, size_t *ret_n,
                                  struct pqs_err *err);
/* Splits text into words where blanks and newlines are, the way a shell does: 'literal', "with \" and \\ inside", \ before
 * any other character. Nothing is expanded. Errors (PQS_E_USAGE): no word, more than max, a quote that does not end. */
PQS_MUST_CHECK int pqs_split_words(const char *what, const char *text, size_t max, char ***ret_items, size_t *ret_n,
                                   struct pqs_err *err);
void pqs_free_list(char **items, size_t n);

#endif
