/* Parses and prints command-line options from rows. Must not know: any command. */
#include "base/opt.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

#define HELP_COLUMNS 100
#define HELP_NAMES_MAX 34 /* widest column of names; a wider name has a line of its own */

#define WORD_BLANKS " \t\n"

static const struct {
    const char *name;
    double ns;
} UNITS[] = {
    {"ns", 1},
    {"us", (double)PQS_NS_PER_US},
    {"ms", (double)PQS_NS_PER_MS},
    {"s", (double)PQS_NS_PER_S},
    {"min", 60 * (double)PQS_NS_PER_S},
    {"h", 3600 * (double)PQS_NS_PER_S},
};

static const struct {
    const char *name;
    uint64_t factor;
} SUFFIXES[] = {{"", 1}, {"k", 1000}, {"M", 1000000}, {"Ki", 1024}, {"Mi", 1048576}};

/* Values */

/* strtod alone would also take blanks, hexadecimal, "inf" and "nan". */
static bool parse_number(const char *text, double *ret_value) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || text[strspn(text, "0123456789.eE+-")] || !isfinite(value))
        return false;
    *ret_value = value;
    return true;
}

int pqs_parse_duration(const char *text, int64_t *ret_ns, struct pqs_err *err) {
    char digits[32];
    size_t len = strspn(text, "0123456789.");
    double value = 0;
    if (len < sizeof digits) {
        memcpy(digits, text, len);
        digits[len] = '\0';
        bool zero = parse_number(digits, &value) && value == 0 && !text[len];
        for (size_t i = 0; i < PQS_COUNT(UNITS); i++) {
            if (!zero && (strcmp(text + len, UNITS[i].name) != 0 || !parse_number(digits, &value)))
                continue;
            double ns = value * UNITS[i].ns;
            if (ns >= 0x1p63)
                return pqs_fail(err, PQS_E_USAGE, "\"%s\" is too long: the longest is 2500000h", text);
            *ret_ns = llround(ns);
            return 0;
        }
    }
    return pqs_fail(err, PQS_E_USAGE,
                    "\"%s\" is not a duration: write a number and a unit (ns, us, ms, s, min, h), e.g. 1.5s", text);
}

static int parse_u64(const char *text, uint64_t *ret_value, struct pqs_err *err) {
    char *end = NULL;
    errno = 0;
    uint64_t value = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
    for (size_t i = 0; end && i < PQS_COUNT(SUFFIXES); i++) {
        if (strcmp(end, SUFFIXES[i].name) != 0)
            continue;
        if (errno == ERANGE || value > UINT64_MAX / SUFFIXES[i].factor)
            return pqs_fail(err, PQS_E_USAGE, "%s is too large: the largest is %" PRIu64, text, UINT64_MAX);
        *ret_value = value * SUFFIXES[i].factor;
        return 0;
    }
    return pqs_fail(err, PQS_E_USAGE, "\"%s\" is not a whole number: write digits, optionally with k, M, Ki or Mi, e.g. 10k",
                    text);
}

/* A limit in the option's own notation; a duration in its largest unit that leaves a whole number. */
static void add_limit(struct pqs_buf *out, const struct pqs_opt *row, double value) {
    if (row->type != PQS_OPT_DURATION || value == 0) {
        pqs_buf_addf(out, "%.15g", value);
        return;
    }
    size_t unit = PQS_COUNT(UNITS) - 1;
    while (unit > 0 && fmod(value, UNITS[unit].ns) != 0)
        unit--;
    pqs_buf_addf(out, "%.15g%s", value / UNITS[unit].ns, UNITS[unit].name);
}

static bool has_range(const struct pqs_opt *row) {
    return row->min != 0 || row->max != 0;
}

static void add_range(struct pqs_buf *out, const struct pqs_opt *row) {
    add_limit(out, row, row->min);
    pqs_buf_addf(out, " to ");
    add_limit(out, row, row->max);
}

static int check_range(const struct pqs_opt *row, const char *text, double value, struct pqs_err *err) {
    if (!has_range(row) ? value >= 0 : value >= row->min && value <= row->max)
        return 0;
    PQS_BUF range = {0};
    if (has_range(row))
        add_range(&range, row);
    else
        pqs_buf_addf(&range, "0 or more");
    return pqs_fail(err, PQS_E_USAGE, "%s is out of range: %s", text, pqs_buf_text(&range));
}

static void add_choices(struct pqs_buf *out, const struct pqs_opt *row) {
    for (const char *const *c = row->choices; *c; c++)
        pqs_buf_addf(out, "%s%s", c == row->choices ? "" : ", ", *c);
}

static int parse_choice(const struct pqs_opt *row, const char *text, const char **ret_choice, struct pqs_err *err) {
    for (const char *const *c = row->choices; *c; c++) {
        if (strcasecmp(*c, text) == 0) {
            *ret_choice = *c;
            return 0;
        }
    }
    PQS_BUF choices = {0};
    add_choices(&choices, row);
    return pqs_fail(err, PQS_E_USAGE, "\"%s\" is none of %s", text, pqs_buf_text(&choices));
}

/* Sets the row's field from text, or to "none" with text NULL. */
static int set(const struct pqs_opt *row, const char *text, void *values, struct pqs_err *err) {
    bool flag = text != NULL;
    const char *string = text;
    uint64_t u64 = 0;
    double number = 0;
    int64_t ns = 0;
    const void *value = NULL;
    size_t size = 0;
    int rc = 0;
    switch (row->type) {
    case PQS_OPT_FLAG:
        value = &flag, size = sizeof flag;
        break;
    case PQS_OPT_CHOICE:
        if (text)
            rc = parse_choice(row, text, &string, err);
        value = &string, size = sizeof string;
        break;
    case PQS_OPT_STRING:
        value = &string, size = sizeof string;
        break;
    case PQS_OPT_U64:
        if (text)
            rc = parse_u64(text, &u64, err);
        if (text && rc == 0)
            rc = check_range(row, text, (double)u64, err);
        value = &u64, size = sizeof u64;
        break;
    case PQS_OPT_NUMBER:
        if (text && !parse_number(text, &number))
            rc = pqs_fail(err, PQS_E_USAGE, "\"%s\" is not a number, e.g. 12.5", text);
        if (text && rc == 0)
            rc = check_range(row, text, number, err);
        value = &number, size = sizeof number;
        break;
    case PQS_OPT_DURATION:
        if (text)
            rc = pqs_parse_duration(text, &ns, err);
        if (text && rc == 0)
            rc = check_range(row, text, (double)ns, err);
        value = &ns, size = sizeof ns;
        break;
    }
    if (rc)
        return pqs_context(err, "--%s", row->name);
    memcpy((char *)values + row->offset, value, size);
    return 0;
}

/* The command line */

static const struct pqs_opt *find(const struct pqs_opt *rows, const char *name, size_t len) {
    for (const struct pqs_opt *row = rows; row->name; row++)
        if (strlen(row->name) == len && memcmp(row->name, name, len) == 0)
            return row;
    return NULL;
}

/* Levenshtein distance (insertions, deletions, substitutions), by rows of the classic table. */
static size_t distance(const char *a, size_t a_len, const char *b) {
    enum { MAX = 64 };
    size_t b_len = strlen(b), cost[MAX + 1];
    if (b_len > MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_len; j++)
        cost[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = cost[0];
        cost[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            best = cost[j] + 1 < best ? cost[j] + 1 : best;
            best = cost[j - 1] + 1 < best ? cost[j - 1] + 1 : best;
            diagonal = cost[j];
            cost[j] = best;
        }
    }
    return cost[b_len];
}

static int unknown(const struct pqs_opt *rows, const char *arg, struct pqs_err *err) {
    const char *name = arg + strspn(arg, "-"), *nearest = NULL;
    size_t len = strcspn(name, "="), nearest_distance = len / 3 + 1; /* further away is no typo */
    for (const struct pqs_opt *row = rows; row->name && len; row++) {
        bool abbreviation = strncmp(row->name, name, len) == 0;
        size_t d = abbreviation ? 1 : distance(name, len, row->name);
        if (d < nearest_distance + !nearest) {
            nearest = row->name;
            nearest_distance = d;
        }
    }
    if (!nearest)
        return pqs_fail(err, PQS_E_USAGE, "unknown option %s: --help lists the options", arg);
    return pqs_fail(err, PQS_E_USAGE, "unknown option %s: did you mean --%s?", arg, nearest);
}

/* One option; *i is the index of its last word on return. */
static int parse_option(const struct pqs_opt *rows, int argc, char **argv, int *i, void *values, struct pqs_err *err) {
    const char *arg = argv[*i];
    size_t len = strncmp(arg, "--", 2) == 0 ? strcspn(arg + 2, "=") : 0;
    const struct pqs_opt *row = find(rows, arg + 2, len);
    if (!len || !row)
        return unknown(rows, arg, err);
    const char *value = arg[2 + len] == '=' ? arg + 2 + len + 1 : NULL;
    if (row->type == PQS_OPT_FLAG) {
        if (value)
            return pqs_fail(err, PQS_E_USAGE, "--%s takes no value, but \"%s\" was given", row->name, value);
        value = "";
    }
    if (!value) {
        bool missing = *i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0;
        if (missing)
            return pqs_fail(err, PQS_E_USAGE, "--%s needs a value: --%s %s", row->name, row->name, row->arg);
        value = argv[++*i];
    }
    return set(row, value, values, err);
}

int pqs_opt_parse(const struct pqs_opt *rows, int argc, char **argv, void *values, size_t max_args, const char **ret_args,
                  size_t *ret_n_args, bool *ret_help, struct pqs_err *err) {
    for (const struct pqs_opt *row = rows; row->name; row++) {
        int rc = set(row, row->def, values, err);
        if (rc)
            return pqs_context(err, "default of");
    }
    size_t n = 0;
    bool options = true, help = false;
    for (int i = 1; i < argc && !help; i++) {
        const char *arg = argv[i];
        if (options && strcmp(arg, "--") == 0) {
            options = false;
        } else if (options && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
            help = true;
        } else if (options && arg[0] == '-' && arg[1]) { /* "-" alone is an argument: standard input or output */
            int rc = parse_option(rows, argc, argv, &i, values, err);
            if (rc)
                return rc;
        } else if (n == max_args) {
            return pqs_fail(err, PQS_E_USAGE, "unexpected argument \"%s\": at most %zu can be given here", arg, max_args);
        } else {
            ret_args[n++] = arg;
        }
    }
    *ret_n_args = n;
    *ret_help = help;
    return 0;
}

/* Help */

/* The sentence, then in brackets what the row says besides. */
static void describe(const struct pqs_opt *row, struct pqs_buf *out) {
    pqs_buf_addf(out, "%s", row->help);
    const char *separator = " (";
    if (row->type == PQS_OPT_CHOICE) {
        pqs_buf_addf(out, "%sone of ", separator);
        add_choices(out, row);
        separator = "; ";
    } else if (has_range(row)) {
        pqs_buf_addf(out, "%s", separator);
        add_range(out, row);
        separator = "; ";
    }
    if (row->def) {
        pqs_buf_addf(out, "%sdefault %s", separator, row->def);
        separator = "; ";
    }
    if (*separator == ';')
        pqs_buf_addf(out, ")");
}

/* Words of text from the given column to the last one, continued below itself. */
static void print_wrapped(FILE *out, const char *text, size_t indent) {
    size_t column = indent;
    for (const char *word = text; *word;) {
        size_t len = strcspn(word, " ");
        if (column > indent && column + 1 + len > HELP_COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        column += (size_t)fprintf(out, "%s%.*s", column > indent ? " " : "", (int)len, word);
        word += len;
        word += strspn(word, " ");
    }
    fputc('\n', out);
}

static char *left_side(const struct pqs_opt *row) {
    return pqs_format("  --%s%s%s  ", row->name, row->arg ? " " : "", row->arg ? row->arg : "");
}

void pqs_opt_help(const struct pqs_opt *rows, FILE *out) {
    size_t width = strlen("  -h, --help  ");
    for (const struct pqs_opt *row = rows; row->name; row++) {
        PQS_FREE char *left = left_side(row);
        size_t len = strlen(left);
        if (len > width && len <= HELP_NAMES_MAX)
            width = len;
    }
    for (const struct pqs_opt *row = rows; row->name; row++) {
        PQS_FREE char *left = left_side(row);
        PQS_BUF right = {0};
        describe(row, &right);
        fprintf(out, "%-*s", (int)width, left);
        if (strlen(left) > width)
            fprintf(out, "\n%*s", (int)width, "");
        print_wrapped(out, pqs_buf_text(&right), width);
    }
    fprintf(out, "%-*s", (int)width, "  -h, --help  ");
    print_wrapped(out, "show this help", width);
}

/* Lists */

int pqs_split_list(const char *what, const char *text, size_t max, char ***ret_items, size_t *ret_n, struct pqs_err *err) {
    char **items = NULL;
    size_t n = 0, cap = 0;
    for (const char *p = text;; p++) {
        p += strspn(p, " \t");
        const char *end = p + strcspn(p, ",");
        size_t len = (size_t)(end - p);
        while (len && (p[len - 1] == ' ' || p[len - 1] == '\t'))
            len--;
        if (len == 0 || n == max) {
            pqs_free_list(items, n);
            if (len == 0)
                return pqs_fail(err, PQS_E_USAGE,
                                "%s: \"%s\" has an empty item: write names with single commas between them", what, text);
            return pqs_fail(err, PQS_E_USAGE, "%s: \"%s\" has too many items: at most %zu", what, text, max);
        }
        PQS_GROW(items, n, cap);
        items[n++] = pqs_format("%.*s", (int)len, p);
        p = end;
        if (!*p)
            break;
    }
    *ret_items = items;
    *ret_n = n;
    return 0;
}

/* Appends one word of text to *word; returns where it ends, or NULL when a quote or a backslash has no second half. */
static const char *take_word(const char *p, struct pqs_buf *word) {
    char quote = '\0'; /* the one that is open */
    for (; *p && (quote || !strchr(WORD_BLANKS, *p)); p++) {
        bool escape = *p == '\\' && quote != '\'' && (!quote || (p[1] && strchr("\"\\$`", p[1])));
        if (escape && !*++p)
            return NULL;
        if (escape || (quote ? *p != quote : *p != '\'' && *p != '"'))
            pqs_buf_add(word, p, 1);
        else if (quote)
            quote = '\0';
        else
            quote = *p;
    }
    return quote ? NULL : p;
}

int pqs_split_words(const char *what, const char *text, size_t max, char ***ret_items, size_t *ret_n, struct pqs_err *err) {
    char **items = NULL;
    size_t n = 0, cap = 0;
    const char *p = text + strspn(text, WORD_BLANKS);
    while (p && *p && n < max) {
        PQS_BUF word = {0};
        p = take_word(p, &word);
        PQS_GROW(items, n, cap);
        items[n++] = pqs_strdup(pqs_buf_text(&word));
        if (p)
            p += strspn(p, WORD_BLANKS);
    }
    if (p && !*p && n > 0) {
        *ret_items = items;
        *ret_n = n;
        return 0;
    }
    pqs_free_list(items, n);
    if (!p)
        return pqs_fail(err, PQS_E_USAGE, "%s: \"%s\" ends within a quote or after a backslash", what, text);
    if (!*p)
        return pqs_fail(err, PQS_E_USAGE, "%s: \"%s\" has no word: write a command", what, text);
    return pqs_fail(err, PQS_E_USAGE, "%s: \"%s\" has too many words: at most %zu", what, text, max);
}

void pqs_free_list(char **items, size_t n) {
    for (size_t i = 0; i < n; i++)
        free(items[i]);
    free(items);
}
