/* Option rows: parsing, errors, help, durations and lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/opt.h"

struct values {
    bool json, quiet;
    const char *out, *target, *close;
    uint64_t threads, count;
    double ratio, any, offset;
    int64_t timeout_ns, warmup_ns;
};

static const char *const CLOSES[] = {"FIN", "rst", NULL};

static const struct pqs_opt ROWS[] = {
    {.name = "json", .type = PQS_OPT_FLAG, .offset = offsetof(struct values, json), .help = "Write JSON"},
    {.name = "quiet", .type = PQS_OPT_FLAG, .offset = offsetof(struct values, quiet), .help = "Say nothing"},
    {"out", "DIR", PQS_OPT_STRING, offsetof(struct values, out), "runs", 0, 0, NULL, "Where results go"},
    {"target", "HOST:PORT", PQS_OPT_STRING, offsetof(struct values, target), NULL, 0, 0, NULL,
     "The server to measure, when it is not one that this command starts by itself on the same machine and stops again"},
    {"close", "HOW", PQS_OPT_CHOICE, offsetof(struct values, close), "FIN", 0, 0, CLOSES, "How connections end"},
    {"threads", "N", PQS_OPT_U64, offsetof(struct values, threads), "2", 1, 64, NULL, "Generator threads"},
    {"count", "N", PQS_OPT_U64, offsetof(struct values, count), NULL, 0, 0, NULL, "How many"},
    {"ratio", "X", PQS_OPT_NUMBER, offsetof(struct values, ratio), "0.5", 0, 1, NULL, "Share of resumed connections"},
    {"any", "X", PQS_OPT_NUMBER, offsetof(struct values, any), NULL, 0, 0, NULL, "Any number that is not negative"},
    {"offset", "X", PQS_OPT_NUMBER, offsetof(struct values, offset), NULL, -10, 10, NULL, "May be negative"},
    {"timeout", "TIME", PQS_OPT_DURATION, offsetof(struct values, timeout_ns), "10s", 1e6, 60e9, NULL, "When to give up"},
    {"warmup-with-a-name-wider-than-the-column", "TIME", PQS_OPT_DURATION, offsetof(struct values, warmup_ns), NULL, 0, 0,
     NULL, "Time before the window"},
    {0},
};

enum { MAX_ARGS = 2 };

struct parsed {
    struct values v;
    const char *args[MAX_ARGS];
    size_t n_args;
    bool help;
    int rc;
    struct pqs_err err;
};

#define PARSE(...)                                                                                                          \
    parse((char *[]){"pqshake", __VA_ARGS__}, (int)(sizeof((char *[]){"pqshake", __VA_ARGS__}) / sizeof(char *)))

static struct parsed parse(char **argv, int argc) {
    struct parsed p = {.n_args = 99};
    memset(&p.v, 0x5a, sizeof p.v); /* every field must be set, with or without a default */
    p.rc = pqs_opt_parse(ROWS, argc, argv, &p.v, MAX_ARGS, p.args, &p.n_args, &p.help, &p.err);
    return p;
}

static void defaults_are_set(void **state) {
    (void)state;
    struct parsed p = parse((char *[]){"pqshake"}, 1);
    assert_int_equal(p.rc, 0);
    assert_false(p.help);
    assert_int_equal(p.n_args, 0);
    assert_false(p.v.json);
    assert_string_equal(p.v.out, "runs");
    assert_null(p.v.target);
    assert_string_equal(p.v.close, "FIN");
    assert_int_equal(p.v.threads, 2);
    assert_int_equal(p.v.count, 0);
    assert_true(p.v.ratio == 0.5);
    assert_true(p.v.any == 0);
    assert_true(p.v.timeout_ns == INT64_C(10000000000));
    assert_true(p.v.warmup_ns == 0);
}

static void every_type_is_read_in_both_forms(void **state) {
    (void)state;
    struct parsed p = PARSE("--json", "--out", "a b", "--target=h:1=2", "--close", "rst", "--threads", "64", "--count=10k",
                            "--ratio", "1", "--any=2.5e3", "--offset", "-9.5", "--timeout", "1.5s");
    if (p.rc)
        fail_msg("%s", p.err.msg);
    assert_true(p.v.json);
    assert_false(p.v.quiet);
    assert_string_equal(p.v.out, "a b");
    assert_string_equal(p.v.target, "h:1=2");
    assert_string_equal(p.v.close, "rst");
    assert_int_equal(p.v.threads, 64);
    assert_int_equal(p.v.count, 10000);
    assert_true(p.v.ratio == 1);
    assert_true(p.v.any == 2500);
    assert_true(p.v.offset == -9.5);
    assert_true(p.v.timeout_ns == INT64_C(1500000000));

    p = PARSE("--threads", "3", "--threads=4");
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.v.threads, 4); /* the last one wins */
    p = PARSE("--out=", "--target", "-");
    assert_int_equal(p.rc, 0);
    assert_string_equal(p.v.out, "");
    assert_string_equal(p.v.target, "-");
}

static void choices_have_one_spelling(void **state) {
    (void)state;
    struct parsed p = PARSE("--close", "RsT");
    assert_int_equal(p.rc, 0);
    assert_ptr_equal(p.v.close, CLOSES[1]);
    p = PARSE("--close=fin");
    assert_int_equal(p.rc, 0);
    assert_ptr_equal(p.v.close, CLOSES[0]);
}

static void whole_numbers_have_suffixes(void **state) {
    (void)state;
    const struct {
        char *text;
        uint64_t value;
    } rows[] = {{"0", 0},
                {"007", 7},
                {"5k", 5000},
                {"3M", 3000000},
                {"2Ki", 2048},
                {"1Mi", 1048576},
                {"18446744073709551615", UINT64_MAX},
                {"18446744073709551k", UINT64_C(18446744073709551000)}};
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        struct parsed p = PARSE("--count", rows[i].text);
        assert_int_equal(p.rc, 0);
        assert_true(p.v.count == rows[i].value);
    }
}

static void arguments_are_collected(void **state) {
    (void)state;
    struct parsed p = PARSE("a", "--json", "-");
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.n_args, 2);
    assert_string_equal(p.args[0], "a");
    assert_string_equal(p.args[1], "-");
    assert_true(p.v.json);

    p = PARSE("--", "--json", "-h");
    assert_int_equal(p.rc, 0);
    assert_false(p.v.json);
    assert_false(p.help);
    assert_int_equal(p.n_args, 2);
    assert_string_equal(p.args[0], "--json");
    assert_string_equal(p.args[1], "-h");

    p = PARSE("--", "--", "a"); /* only the first one ends options */
    assert_int_equal(p.rc, 0);
    assert_string_equal(p.args[0], "--");

    p = PARSE("a", "b", "see");
    assert_int_equal(p.rc, PQS_E_USAGE);
    assert_non_null(strstr(p.err.msg, "\"see\""));
    assert_non_null(strstr(p.err.msg, "at most 2"));
    assert_int_equal(p.n_args, 99); /* untouched */
}

static void help_stops_parsing(void **state) {
    (void)state;
    struct parsed p = PARSE("--json", "--help", "--no-such-option");
    assert_int_equal(p.rc, 0);
    assert_true(p.help);
    p = PARSE("-h");
    assert_int_equal(p.rc, 0);
    assert_true(p.help);
}

/* Every refusal says which option, which value, and what would be right. */
static void errors_say_what_would_be_right(void **state) {
    (void)state;
    const struct {
        char *a, *b; /* b may be NULL */
        const char *says[3];
    } rows[] = {
        {"--thread", "3", {"--thread", "did you mean --threads?"}},
        {"--treads=3", NULL, {"--treads=3", "did you mean --threads?"}},
        {"--time", "3s", {"did you mean --timeout?"}}, /* an abbreviation */
        {"--Json", NULL, {"did you mean --json?"}},
        {"-out", "x", {"-out", "did you mean --out?"}},
        {"--zzzzzz", NULL, {"unknown option --zzzzzz", "--help"}},
        {"-q", NULL, {"-q", "did you mean --quiet?"}},
        {"--=3", NULL, {"unknown option --=3"}},
        {"--out", NULL, {"--out needs a value", "--out DIR"}},
        {"--out", "--json", {"--out needs a value", "--out DIR"}},
        {"--json=yes", NULL, {"--json takes no value", "\"yes\""}},
        {"--close", "slam", {"--close", "\"slam\"", "FIN, rst"}},
        {"--threads", "0", {"--threads", "0 is out of range", "1 to 64"}},
        {"--threads", "65", {"--threads", "65 is out of range", "1 to 64"}},
        {"--threads", "1k", {"--threads", "1k is out of range", "1 to 64"}},
        {"--threads", "-1", {"--threads", "\"-1\"", "whole number"}},
        {"--threads", "+1", {"--threads", "\"+1\"", "whole number"}},
        {"--threads", " 1", {"--threads", "\" 1\"", "whole number"}},
        {"--threads", "1.5", {"--threads", "\"1.5\"", "whole number"}},
        {"--threads", "0x10", {"--threads", "\"0x10\"", "whole number"}},
        {"--threads=", NULL, {"--threads", "\"\"", "whole number"}},
        {"--threads", "4K", {"--threads", "\"4K\"", "k, M, Ki or Mi"}},
        {"--count", "18446744073709551616", {"--count", "too large", "18446744073709551615"}},
        {"--count", "18446744073709552k", {"--count", "too large", "18446744073709551615"}},
        {"--ratio", "1.01", {"--ratio", "1.01 is out of range", "0 to 1"}},
        {"--ratio", "-0.1", {"--ratio", "-0.1 is out of range", "0 to 1"}},
        {"--ratio", "nan", {"--ratio", "\"nan\"", "not a number"}},
        {"--ratio", "half", {"--ratio", "\"half\"", "not a number"}},
        {"--any", "inf", {"--any", "\"inf\"", "not a number"}},
        {"--any", "1e999", {"--any", "\"1e999\"", "not a number"}},
        {"--any", "0x1p3", {"--any", "\"0x1p3\"", "not a number"}},
        {"--any", "1 ", {"--any", "\"1 \"", "not a number"}},
        {"--any=", NULL, {"--any", "\"\"", "not a number"}},
        {"--any", "-1", {"--any", "-1 is out of range", "0 or more"}},
        {"--offset", "-10.5", {"--offset", "-10.5 is out of range", "-10 to 10"}},
        {"--timeout", "10", {"--timeout", "\"10\" is not a duration", "ns, us, ms, s, min, h"}},
        {"--timeout", "0", {"--timeout", "0 is out of range", "1ms to 1min"}},
        {"--timeout", "999us", {"--timeout", "999us is out of range", "1ms to 1min"}},
        {"--timeout", "61s", {"--timeout", "61s is out of range", "1ms to 1min"}},
    };
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        struct parsed p = rows[i].b ? PARSE(rows[i].a, rows[i].b) : PARSE(rows[i].a);
        if (p.rc != PQS_E_USAGE)
            fail_msg("%s %s gives %d", rows[i].a, rows[i].b ? rows[i].b : "", p.rc);
        assert_int_equal(p.err.code, PQS_E_USAGE);
        for (size_t k = 0; k < 3 && rows[i].says[k]; k++)
            if (!strstr(p.err.msg, rows[i].says[k]))
                fail_msg("\"%s\" does not say \"%s\"", p.err.msg, rows[i].says[k]);
        assert_int_equal(p.n_args, 99);
    }
}

static void no_rows_and_no_arguments_are_possible(void **state) {
    (void)state;
    const struct pqs_opt none[] = {{0}};
    size_t n = 9;
    bool help = true;
    struct pqs_err err = {0};
    assert_int_equal(pqs_opt_parse(none, 1, (char *[]){"x"}, NULL, 0, NULL, &n, &help, &err), 0);
    assert_int_equal(n, 0);
    assert_false(help);
    assert_int_equal(pqs_opt_parse(none, 2, (char *[]){"x", "y"}, NULL, 0, NULL, &n, &help, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "\"y\""));
    assert_int_equal(pqs_opt_parse(none, 2, (char *[]){"x", "--y"}, NULL, 0, NULL, &n, &help, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "--y"));
}

static void a_wrong_default_is_found(void **state) {
    (void)state;
    uint64_t value;
    const struct pqs_opt rows[] = {{"n", "N", PQS_OPT_U64, 0, "0", 1, 2, NULL, "N"}, {0}};
    size_t n;
    bool help;
    struct pqs_err err = {0};
    assert_int_equal(pqs_opt_parse(rows, 1, (char *[]){"x"}, &value, 0, NULL, &n, &help, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "default of: --n: 0 is out of range"));
}

/* help */

enum { HELP_SIZE = 8192 };

static void help_text(char ret_text[static HELP_SIZE]) {
    FILE *out = fmemopen(ret_text, HELP_SIZE, "w");
    pqs_opt_help(ROWS, out);
    assert_int_equal(fclose(out), 0); /* all of it fitted */
}

static void help_tells_each_row(void **state) {
    (void)state;
    char text[HELP_SIZE];
    help_text(text);
    for (const struct pqs_opt *row = ROWS; row->name; row++) {
        PQS_FREE char *left = pqs_format("\n  --%s%s%s ", row->name, row->arg ? " " : "", row->arg ? row->arg : "");
        if (!strstr(text, row == ROWS ? left + 1 : left))
            fail_msg("no line for --%s in\n%s", row->name, text);
    }
    const char *const lines[] = {
        "Write JSON\n",
        "Where results go (default runs)\n",
        "How connections end (one of FIN, rst; default FIN)\n",
        "Generator threads (1 to 64; default 2)\n",
        "How many\n",
        "Share of resumed connections (0 to 1; default 0.5)\n",
        "May be negative (-10 to 10)\n",
        "When to give up (1ms to 1min; default 10s)\n",
        "Time before the window\n",
        "  -h, --help ",
    };
    for (size_t i = 0; i < PQS_COUNT(lines); i++)
        if (!strstr(text, lines[i]))
            fail_msg("no \"%s\" in\n%s", lines[i], text);
}

/* All sentences start in one column, and no line is wider than 100. */
static void help_is_aligned_and_fits(void **state) {
    (void)state;
    char text[HELP_SIZE];
    help_text(text);
    size_t column = (size_t)(strstr(text, "Write JSON") - text), n_lines = 0, widest = 0;
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n_lines++) {
        size_t len = strlen(line);
        assert_true(len <= 100);
        widest = len > widest ? len : widest;
        if (!strstr(line, "wider-than"))
            assert_true(len > column && line[column - 1] == ' ' && line[column] != ' ');
    }
    assert_int_equal(n_lines, PQS_COUNT(ROWS) - 1 + 1 + 1 + 1); /* --help, a wide name and one wrapped sentence */
    assert_true(widest > 90);                                   /* the width is used */
}

/* durations */

static void durations_have_units(void **state) {
    (void)state;
    const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"0", 0},
        {"0.0", 0},
        {"0ms", 0},
        {"1ns", 1},
        {"1.5ns", 2},
        {"250us", 250000},
        {"0.1ms", 100000},
        {".5s", 500000000},
        {"10s", INT64_C(10000000000)},
        {"2min", INT64_C(120000000000)},
        {"1h", INT64_C(3600000000000)},
        {"2500000h", INT64_C(9000000000000000000)},
    };
    for (size_t i = 0; i < PQS_COUNT(good); i++) {
        int64_t ns = -1;
        struct pqs_err err = {0};
        if (pqs_parse_duration(good[i].text, &ns, &err))
            fail_msg("%s", err.msg);
        assert_true(ns == good[i].ns);
    }
    const char *const bad[] = {"",
                               "s",
                               "1",
                               "1 s",
                               " 1s",
                               "1s ",
                               "-1s",
                               "+1s",
                               "1S",
                               "1m",
                               "1sec",
                               "1.2.3s",
                               ".",
                               ".s",
                               "1e3s",
                               "0x1s",
                               "inf",
                               "nans",
                               "1,5s",
                               "1h30min",
                               "2600000h",
                               "99999999999999999999h",
                               "1111111111111111111111111111111111111111s"};
    for (size_t i = 0; i < PQS_COUNT(bad); i++) {
        int64_t ns = -7;
        struct pqs_err err = {0};
        if (pqs_parse_duration(bad[i], &ns, &err) != PQS_E_USAGE)
            fail_msg("\"%s\" is taken for a duration", bad[i]);
        assert_non_null(strstr(err.msg, bad[i]));
        assert_true(ns == -7); /* untouched */
    }
}

/* lists */

static void lists_are_split(void **state) {
    (void)state;
    char **items = NULL;
    size_t n = 0;
    struct pqs_err err = {0};
    assert_int_equal(pqs_split_list("--group", " X25519 ,\tP-256:x, a b ", 3, &items, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_string_equal(items[0], "X25519");
    assert_string_equal(items[1], "P-256:x");
    assert_string_equal(items[2], "a b");
    pqs_free_list(items, n);

    assert_int_equal(pqs_split_list("--group", "one", 1, &items, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_string_equal(items[0], "one");
    pqs_free_list(items, n);
    pqs_free_list(NULL, 0);

    PQS_FREE char *many = pqs_strdup("0");
    for (int i = 1; i < 100; i++) {
        char *longer = pqs_format("%s,%d", many, i);
        free(many);
        many = longer;
    }
    assert_int_equal(pqs_split_list("--n", many, 100, &items, &n, &err), 0);
    assert_int_equal(n, 100);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(atoi(items[i]), i);
    pqs_free_list(items, n);
}

static void words_are_split_like_a_shell(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *words[5];
    } cases[] = {
        {"ssh host", {"ssh", "host"}},
        {"  a\tb\n c ", {"a", "b", "c"}},
        {"ssh -o 'a b' host", {"ssh", "-o", "a b", "host"}},
        {"a'b \"c'd", {"ab \"cd"}},
        {"\"a 'b' \\\" \\\\ \\$ \\n\"", {"a 'b' \" \\ $ \\n"}},
        {"a\\ b \\'c '\\'", {"a b", "'c", "\\"}},
        {"'' \"\" x", {"", "", "x"}},
        {"~ $HOME * ; |", {"~", "$HOME", "*", ";", "|"}},
    };
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        char **items = NULL;
        size_t n = 0, want = 0;
        struct pqs_err err = {0};
        while (want < 5 && cases[i].words[want])
            want++;
        assert_int_equal(pqs_split_words("--via", cases[i].text, 5, &items, &n, &err), 0);
        assert_int_equal(n, want);
        for (size_t k = 0; k < n; k++)
            assert_string_equal(items[k], cases[i].words[k]);
        pqs_free_list(items, n);
    }
    static const char *const bad[][2] = {{"", "no word"},        {" \t", "no word"},    {"a 'b", "quote"},
                                         {"a \"b\\\"", "quote"}, {"a \\", "backslash"}, {"1 2 3 4 5 6", "at most 5"}};
    for (size_t i = 0; i < PQS_COUNT(bad); i++) {
        char *untouched[1], **items = untouched;
        size_t n = 9;
        struct pqs_err err = {0};
        assert_int_equal(pqs_split_words("--via", bad[i][0], 5, &items, &n, &err), PQS_E_USAGE);
        assert_non_null(strstr(err.msg, "--via"));
        assert_non_null(strstr(err.msg, bad[i][1]));
        assert_ptr_equal(items, untouched);
        assert_int_equal(n, 9);
    }
}

static void bad_lists_are_refused(void **state) {
    (void)state;
    const char *const bad[] = {"", " ", ",", "a,", ",a", "a,,b", "a, ,b"};
    char *untouched[1], **items = untouched;
    size_t n = 9;
    for (size_t i = 0; i < PQS_COUNT(bad); i++) {
        struct pqs_err err = {0};
        assert_int_equal(pqs_split_list("--group", bad[i], 5, &items, &n, &err), PQS_E_USAGE);
        assert_non_null(strstr(err.msg, "--group"));
        assert_non_null(strstr(err.msg, "empty item"));
    }
    struct pqs_err err = {0};
    assert_int_equal(pqs_split_list("--group", "a,b,c", 2, &items, &n, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "at most 2"));
    assert_ptr_equal(items, untouched);
    assert_int_equal(n, 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_set),
        cmocka_unit_test(every_type_is_read_in_both_forms),
        cmocka_unit_test(choices_have_one_spelling),
        cmocka_unit_test(whole_numbers_have_suffixes),
        cmocka_unit_test(arguments_are_collected),
        cmocka_unit_test(help_stops_parsing),
        cmocka_unit_test(errors_say_what_would_be_right),
        cmocka_unit_test(no_rows_and_no_arguments_are_possible),
        cmocka_unit_test(a_wrong_default_is_found),
        cmocka_unit_test(help_tells_each_row),
        cmocka_unit_test(help_is_aligned_and_fits),
        cmocka_unit_test(durations_have_units),
        cmocka_unit_test(lists_are_split),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(words_are_split_like_a_shell),
    };
    return cmocka_run_group_tests_name("opt", tests, NULL, NULL);
}
