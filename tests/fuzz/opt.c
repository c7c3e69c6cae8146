/* Fuzz target: the command line, one argument a line, against rows of every type; then each argument as a list. */
#include <string.h>

#include "base/mem.h"
#include "base/opt.h"
#include "fuzz.h"

struct values {
    bool flag;
    const char *text, *choice;
    uint64_t number, any;
    double rate;
    int64_t time_ns;
};
static const char *const choices[] = {"constant", "poisson", NULL};

#define ROW(field_, ...)                                                                                                    \
    { .offset = offsetof(struct values, field_), __VA_ARGS__ }
static const struct pqs_opt rows[] = {
    ROW(flag, .name = "flag", .type = PQS_OPT_FLAG, .help = ""),
    ROW(text, .name = "text", .arg = "TEXT", .type = PQS_OPT_STRING, .help = ""),
    ROW(choice, .name = "choice", .arg = "ONE", .type = PQS_OPT_CHOICE, .choices = choices, .def = "constant", .help = ""),
    ROW(number, .name = "number", .arg = "N", .type = PQS_OPT_U64, .def = "1", .min = 1, .max = 1000, .help = ""),
    ROW(any, .name = "any", .arg = "N", .type = PQS_OPT_U64, .help = ""),
    ROW(rate, .name = "rate", .arg = "R", .type = PQS_OPT_NUMBER, .def = "5", .min = 0.5, .max = 1e9, .help = ""),
    ROW(time_ns, .name = "time", .arg = "T", .type = PQS_OPT_DURATION, .def = "1s", .max = 3600e9, .help = ""),
    {0},
};

static void list(const char *text) {
    char **items = NULL;
    size_t n = 0;
    struct pqs_err err = {0};
    if (pqs_split_list("list", text, 8, &items, &n, &err) == 0) {
        MUST(n >= 1 && n <= 8);
        for (size_t i = 0; i < n; i++)
            MUST(*items[i] && !strchr(items[i], ','));
        pqs_free_list(items, n);
    } else {
        MUST(*err.msg);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    enum { ARGS_MAX = 16 };
    PQS_FREE char *line = pqs_calloc(1, len + 1);
    char *argv[ARGS_MAX + 1] = {"pqshake"};
    const char *args[4];
    int argc = 1;
    if (len)
        memcpy(line, data, len);
    for (char *p = line, *next; p && argc < ARGS_MAX; p = next) {
        next = strchr(p, '\n');
        if (next)
            *next++ = '\0';
        argv[argc++] = p;
    }
    for (int i = 1; i < argc; i++)
        list(argv[i]);
    struct values v;
    size_t n_args = 0;
    bool help = false;
    struct pqs_err err = {0};
    if (pqs_opt_parse(rows, argc, argv, &v, PQS_COUNT(args), args, &n_args, &help, &err)) {
        MUST(err.code == PQS_E_USAGE && *err.msg);
        return 0;
    }
    MUST(v.number >= 1 && v.number <= 1000 && v.rate >= 0.5 && v.rate <= 1e9);
    MUST(v.time_ns >= 0 && v.time_ns <= 3600000000000);
    MUST(v.choice == choices[0] || v.choice == choices[1] || strcmp(v.choice, choices[0]) == 0);
    MUST(n_args <= PQS_COUNT(args));
    return 0;
}
