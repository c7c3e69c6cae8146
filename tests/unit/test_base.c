/* src/base except options: errors, memory, buffers and files, JSON, random streams, CPUs, child processes, other processes, machine facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <grp.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/rng.h"

/* err */

static void err_holds_code_errno_and_context(void **state) {
    (void)state;
    struct pqs_err err = {0};
    assert_int_equal(pqs_fail(&err, PQS_E_USAGE, "rate %d", 7), PQS_E_USAGE);
    assert_int_equal(err.code, PQS_E_USAGE);
    assert_int_equal(err.sys, 0);
    assert_string_equal(err.msg, "rate 7");
    assert_int_equal(pqs_context(&err, "plan %s", "a.yaml"), PQS_E_USAGE);
    assert_string_equal(err.msg, "plan a.yaml: rate 7");

    assert_int_equal(pqs_fail_sys(&err, PQS_E_ENV, ENOENT, "cannot open %s", "x"), PQS_E_ENV);
    assert_int_equal(err.sys, ENOENT);
    assert_string_equal(err.msg, "cannot open x: No such file or directory");

    pqs_fail(&err, PQS_E_FAILED, "again: %s", err.msg); /* its own message as an argument */
    assert_string_equal(err.msg, "again: cannot open x: No such file or directory");
    assert_int_equal(err.sys, 0);

    assert_int_equal(pqs_fail(NULL, PQS_E_ENV, "nobody listens"), PQS_E_ENV);
    assert_int_equal(pqs_fail_sys(NULL, PQS_E_ENV, EIO, "nobody listens"), PQS_E_ENV);
    assert_int_equal(pqs_context(NULL, "nobody listens"), PQS_E_FAILED);
}

static void err_cuts_long_messages(void **state) {
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct pqs_err err = {0};
    pqs_fail_sys(&err, PQS_E_FAILED, EIO, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    pqs_context(&err, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    pqs_fail(&err, PQS_E_FAILED, "short");
    pqs_context(&err, "%.*s", (int)sizeof err.msg - 3, text);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_string_equal(err.msg + sizeof err.msg - 4, "x: "); /* no room was left for more */
}

/* mem, clock */

static void mem_grows(void **state) {
    (void)state;
    size_t n = 0, cap = 0;
    int *numbers = NULL;
    for (int i = 0; i < 1000; i++) {
        PQS_GROW(numbers, n, cap);
        numbers[n++] = i;
    }
    assert_true(cap >= n);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i);
    free(numbers);
    char *zero = pqs_calloc(3, 5);
    for (int i = 0; i < 15; i++)
        assert_int_equal(zero[i], 0);
    free(zero);
    PQS_FREE char *text = pqs_format("%s-%d", "a", 5);
    assert_string_equal(text, "a-5");
    PQS_FREE char *copy = pqs_strdup(text);
    assert_string_equal(copy, text);
    assert_ptr_not_equal(copy, text);
}

static void cleanup_closes(void **state) {
    (void)state;
    int number;
    {
        PQS_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        PQS_CLOSE int none = -1;
        assert_true(fd >= 0 && none < 0);
        number = fd;
    }
    assert_int_equal(fcntl(number, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
}

static void clock_counts(void **state) {
    (void)state;
    int64_t t0 = pqs_now_ns(), cpu0 = pqs_cpu_ns();
    poll(NULL, 0, 20);
    int64_t slept_ns = pqs_now_ns() - t0;
    assert_true(slept_ns >= 20 * PQS_NS_PER_MS && slept_ns < 10 * PQS_NS_PER_S);
    assert_true(pqs_cpu_ns() - cpu0 < slept_ns); /* sleeping costs no CPU */
    t0 = pqs_now_ns();
    while (pqs_cpu_ns() - cpu0 < 30 * PQS_NS_PER_MS)
        assert_true(pqs_now_ns() - t0 < 60 * PQS_NS_PER_S);
    char utc[24];
    pqs_utc(utc);
    int year, month, day, hour, minute, second;
    char z, rest;
    assert_int_equal(sscanf(utc, "%4d-%2d-%2dT%2d:%2d:%2d%c%c", &year, &month, &day, &hour, &minute, &second, &z, &rest), 7);
    assert_int_equal(z, 'Z');
    assert_int_equal(strlen(utc), 20);
}

/* buf */

static void buf_adds(void **state) {
    (void)state;
    PQS_BUF b = {0};
    assert_string_equal(pqs_buf_text(&b), "");
    pqs_buf_clear(&b);
    pqs_buf_add(&b, NULL, 0);
    assert_int_equal(b.len, 0);
    pqs_buf_add(&b, "abc", 3);
    pqs_buf_addf(&b, "%s %d", "de", 5);
    assert_string_equal(pqs_buf_text(&b), "abcde 5");
    assert_int_equal(b.len, 7);
    for (int width = 0; width < 300; width++) { /* every position around the edges of the memory */
        pqs_buf_clear(&b);
        pqs_buf_addf(&b, "%*s", width, "");
        pqs_buf_addf(&b, "%s", "end");
        assert_int_equal(b.len, width + 3);
        assert_int_equal(strlen(pqs_buf_text(&b)), width + 3);
        assert_string_equal(pqs_buf_text(&b) + width, "end");
    }
    uint8_t *memory = b.data;
    pqs_buf_clear(&b);
    assert_ptr_equal(b.data, memory);
    assert_string_equal(pqs_buf_text(&b), "");
}

static void fields_are_little_endian(void **state) {
    (void)state;
    PQS_BUF b = {0};
    pqs_put_u8(&b, 0x01);
    pqs_put_u32(&b, 0x05040302);
    pqs_put_u64(&b, UINT64_C(0x0d0c0b0a09080706));
    pqs_put_f64(&b, -2.0);
    pqs_put_str(&b, "hi");
    const uint8_t expected[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0, 0, 0, 0, 0, 0, 0, 0xc0, 2, 0, 0, 0, 'h', 'i'};
    assert_int_equal(b.len, sizeof expected);
    assert_memory_equal(b.data, expected, sizeof expected);

    struct pqs_cursor c = {b.data, b.len, false};
    char text[3];
    assert_int_equal(pqs_get_u8(&c), 1);
    assert_int_equal(pqs_get_u32(&c), 0x05040302);
    assert_true(pqs_get_u64(&c) == UINT64_C(0x0d0c0b0a09080706));
    assert_true(pqs_get_f64(&c) == -2.0);
    pqs_get_str(&c, text, sizeof text);
    assert_string_equal(text, "hi");
    assert_false(c.bad);
    assert_int_equal(c.left, 0);
    assert_int_equal(pqs_get_u8(&c), 0);
    assert_true(c.bad);
}

/* Everything a peer may cut off: each prefix is a heap block of its own, so that the address sanitizer sees an overread. */
static void truncated_input_turns_bad(void **state) {
    (void)state;
    PQS_BUF b = {0};
    pqs_put_u8(&b, 0xff);
    pqs_put_u32(&b, UINT32_MAX);
    pqs_put_u64(&b, UINT64_MAX);
    pqs_put_f64(&b, DBL_MAX);
    pqs_put_bytes(&b, "bytes", 5);
    pqs_put_str(&b, "text");
    for (size_t len = 0; len <= b.len; len++) {
        PQS_FREE uint8_t *prefix = malloc(len ? len : 1);
        memcpy(prefix, b.data, len);
        struct pqs_cursor c = {prefix, len, false};
        assert_true(pqs_get_u8(&c) == (len >= 1 ? 0xff : 0));
        assert_true(pqs_get_u32(&c) == (len >= 5 ? UINT32_MAX : 0));
        assert_true(pqs_get_u64(&c) == (len >= 13 ? UINT64_MAX : 0));
        assert_true(pqs_get_f64(&c) == (len >= 21 ? DBL_MAX : 0));
        size_t n = 99;
        const uint8_t *bytes = pqs_get_bytes(&c, &n);
        assert_non_null(bytes);
        assert_int_equal(n, len >= 30 ? 5 : 0);
        char text[8] = "unset";
        pqs_get_str(&c, text, sizeof text);
        assert_string_equal(text, len == b.len ? "text" : "");
        assert_int_equal(c.bad, len < b.len);
    }
}

static void cursor_stays_bad(void **state) {
    (void)state;
    const uint8_t data[] = {1, 2, 3};
    struct pqs_cursor c = {data, sizeof data, false};
    assert_int_equal(pqs_get_u32(&c), 0);
    assert_true(c.bad);
    assert_int_equal(pqs_get_u8(&c), 0); /* although three bytes are there */
    assert_true(c.bad);
}

static void oversized_lengths_turn_bad(void **state) {
    (void)state;
    for (int top = 0; top < 2; top++) { /* one byte more than there is; and the largest length */
        PQS_BUF b = {0};
        pqs_put_u32(&b, top ? UINT32_MAX : 4);
        pqs_buf_add(&b, "abc", 3);
        PQS_FREE uint8_t *exact = malloc(b.len);
        memcpy(exact, b.data, b.len);
        struct pqs_cursor c = {exact, b.len, false};
        size_t n = 99;
        pqs_get_bytes(&c, &n);
        assert_int_equal(n, 0);
        assert_true(c.bad);
    }
}

static void strings_must_fit_and_hold_no_nul(void **state) {
    (void)state;
    char text[4] = "zzz";
    PQS_BUF b = {0};
    pqs_put_str(&b, "abcd");
    struct pqs_cursor c = {b.data, b.len, false};
    pqs_get_str(&c, text, sizeof text);
    assert_true(c.bad);
    assert_string_equal(text, "");

    pqs_buf_clear(&b);
    pqs_put_str(&b, "abc");
    c = (struct pqs_cursor){b.data, b.len, false};
    pqs_get_str(&c, text, sizeof text);
    assert_false(c.bad);
    assert_string_equal(text, "abc");

    pqs_buf_clear(&b);
    pqs_put_bytes(&b, "a\0b", 3);
    c = (struct pqs_cursor){b.data, b.len, false};
    pqs_get_str(&c, text, sizeof text);
    assert_true(c.bad);
    assert_string_equal(text, "");
}

/* files; *state is a fresh directory */

static int make_dir(void **state) {
    char template[] = "/tmp/pqshake-test-XXXXXX";
    if (!mkdtemp(template))
        return -1;
    *state = pqs_strdup(template);
    return 0;
}

static int remove_dir(void **state) {
    PQS_FREE char *dir = *state;
    DIR *d = opendir(dir);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(d), entry->d_name, 0);
    closedir(d);
    return rmdir(dir);
}

static int count_files(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d))
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

static void file_round_trip(void **state) {
    PQS_FREE char *path = pqs_format("%s/file", (char *)*state);
    struct pqs_err err = {0};
    PQS_BUF data = {0}, got = {0};
    for (uint32_t i = 0; i < 30000; i++)
        pqs_put_u32(&data, i);
    mode_t before = umask(0077); /* the mode asked for is the mode */
    assert_int_equal(pqs_write_file(path, 0644, data.data, data.len, &err), 0);
    umask(before);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    pqs_buf_addf(&got, "what was there is replaced");
    assert_int_equal(pqs_read_file(path, data.len, &got, &err), 0);
    assert_int_equal(got.len, data.len);
    assert_memory_equal(got.data, data.data, data.len);
    assert_int_equal(got.data[got.len], 0);

    assert_int_equal(pqs_read_file(path, data.len - 1, &got, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, path));
    assert_non_null(strstr(err.msg, "119999"));
    assert_int_equal(got.len, data.len); /* untouched */

    assert_int_equal(pqs_write_file(path, 0600, NULL, 0, &err), 0);
    assert_int_equal(pqs_read_file(path, 0, &got, &err), 0);
    assert_int_equal(got.len, 0);
    assert_string_equal(pqs_buf_text(&got), "");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(count_files(*state), 1); /* no temporary file is left */
}

static void replaced_file_keeps_its_old_readers(void **state) {
    PQS_FREE char *path = pqs_format("%s/file", (char *)*state);
    assert_int_equal(pqs_write_file(path, 0644, "old", 3, NULL), 0);
    PQS_CLOSE int reader = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(pqs_write_file(path, 0644, "newer", 5, NULL), 0);
    char text[8] = {0};
    assert_int_equal(read(reader, text, sizeof text), 3);
    assert_string_equal(text, "old");
}

static void file_errors_name_the_file(void **state) {
    struct pqs_err err = {0};
    PQS_BUF got = {0};
    PQS_FREE char *missing = pqs_format("%s/missing/file", (char *)*state);
    assert_int_equal(pqs_read_file(missing, 100, &got, &err), PQS_E_FAILED);
    assert_int_equal(err.sys, ENOENT);
    assert_non_null(strstr(err.msg, missing));
    assert_int_equal(pqs_write_file(missing, 0644, "x", 1, &err), PQS_E_FAILED);
    assert_int_equal(err.sys, ENOENT);
    assert_non_null(strstr(err.msg, missing));
    assert_int_equal(pqs_read_file(*state, 100, &got, &err), PQS_E_FAILED); /* a directory */
    assert_int_equal(err.sys, EISDIR);
    assert_int_equal(pqs_write_file(*state, 0644, "x", 1, &err), PQS_E_FAILED);
    assert_int_equal(err.sys, EISDIR);
    assert_int_equal(pqs_write_file("/dev/full", 0644, "x", 1, &err), PQS_E_FAILED);
    assert_int_equal(err.sys, ENOSPC);
}

static void devices_and_links_are_written_to_not_replaced(void **state) {
    PQS_FREE char *file = pqs_format("%s/file", (char *)*state);
    PQS_FREE char *link = pqs_format("%s/link", (char *)*state);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(pqs_write_file(file, 0644, "longer text", 11, NULL), 0);
    assert_int_equal(pqs_write_file(link, 0644, "short", 5, NULL), 0);
    struct stat st;
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    PQS_BUF got = {0};
    assert_int_equal(pqs_read_file(file, 100, &got, NULL), 0);
    assert_string_equal(pqs_buf_text(&got), "short");
}

/* json */

static json_t *parse(const struct pqs_buf *text) {
    json_error_t error;
    json_t *root = json_loadb(pqs_buf_text(text), text->len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root)
        fail_msg("%s\n%s", error.text, pqs_buf_text(text));
    return root;
}

static void json_nests(void **state) {
    (void)state;
    PQS_BUF out = {0};
    struct pqs_json j = pqs_json_begin(&out);
    pqs_json_object(&j, NULL);
    pqs_json_str(&j, "schema", "pqshake/summary/1");
    pqs_json_array(&j, "arms");
    for (int i = 0; i < 3; i++) {
        pqs_json_object(&j, NULL);
        pqs_json_int(&j, "n", i);
        pqs_json_object(&j, "empty");
        pqs_json_end_object(&j);
        pqs_json_array(&j, "none");
        pqs_json_end_array(&j);
        pqs_json_bool(&j, "odd", i % 2);
        pqs_json_end_object(&j);
    }
    pqs_json_end_array(&j);
    pqs_json_null(&j, "cpu");
    pqs_json_str(&j, "text", NULL);
    pqs_json_int(&j, "least", INT64_MIN);
    pqs_json_int(&j, "most", INT64_MAX);
    pqs_json_end_object(&j);
    assert_int_equal(j.depth, 0);

    json_t *root = parse(&out);
    assert_int_equal(json_object_size(root), 6);
    assert_string_equal(json_string_value(json_object_get(root, "schema")), "pqshake/summary/1");
    json_t *arms = json_object_get(root, "arms");
    assert_int_equal(json_array_size(arms), 3);
    for (size_t i = 0; i < 3; i++) {
        json_t *arm = json_array_get(arms, i);
        assert_int_equal(json_object_size(arm), 4);
        assert_int_equal(json_integer_value(json_object_get(arm, "n")), i);
        assert_true(json_is_object(json_object_get(arm, "empty")));
        assert_true(json_is_array(json_object_get(arm, "none")));
        assert_true(i % 2 ? json_is_true(json_object_get(arm, "odd")) : json_is_false(json_object_get(arm, "odd")));
    }
    assert_true(json_is_null(json_object_get(root, "cpu")));
    assert_true(json_is_null(json_object_get(root, "text")));
    assert_true(json_integer_value(json_object_get(root, "least")) == INT64_MIN);
    assert_true(json_integer_value(json_object_get(root, "most")) == INT64_MAX);
    json_decref(root);
}

static void json_nests_31_deep(void **state) {
    (void)state;
    PQS_BUF out = {0};
    struct pqs_json j = pqs_json_begin(&out);
    for (int i = 0; i < 31; i++) {
        pqs_json_array(&j, NULL);
        pqs_json_int(&j, NULL, i);
    }
    for (int i = 0; i < 31; i++) {
        pqs_json_end_array(&j);
        if (i < 30)
            pqs_json_int(&j, NULL, i);
    }
    json_t *root = parse(&out), *level = root;
    int depth = 1;
    for (; json_array_size(level) == 3; level = json_array_get(level, 1))
        depth++;
    assert_int_equal(depth, 31);
    json_decref(root);
}

static void json_escapes(void **state) {
    (void)state;
    char every[128]; /* every ASCII character but NUL, in the value and in the key */
    for (int i = 1; i < 128; i++)
        every[i - 1] = (char)i;
    every[127] = '\0';
    const char *const good[] = {every,
                                "",
                                "\"\\/",
                                "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
                                "\xc2\x80",
                                "\xe0\xa0\x80",
                                "\xed\x9f\xbf",
                                "\xee\x80\x80",
                                "\xf0\x90\x80\x80",
                                "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < PQS_COUNT(good); i++) {
        PQS_BUF out = {0};
        struct pqs_json j = pqs_json_begin(&out);
        pqs_json_object(&j, NULL);
        pqs_json_str(&j, good[i], good[i]);
        pqs_json_end_object(&j);
        for (size_t k = 0; k < out.len; k++)
            assert_true(out.data[k] >= 0x20);
        json_t *root = parse(&out);
        assert_string_equal(json_string_value(json_object_get(root, good[i])), good[i]);
        json_decref(root);
    }
}

#define FFFD "\xef\xbf\xbd"

static void json_replaces_bad_utf8(void **state) {
    (void)state;
    const struct {
        const char *in, *out;
    } rows[] = {
        {"a\xffz", "a" FFFD "z"},
        {"a\x80z", "a" FFFD "z"},                           /* continuation without a start */
        {"a\xc3", "a" FFFD},                                /* cut short by the end */
        {"a\xc3z", "a" FFFD "z"},                           /* cut short by another character, which stays */
        {"\xe2\x82", FFFD FFFD},                            /* one for each byte */
        {"\xf0\x9f\x98", FFFD FFFD FFFD},                   /* */
        {"\xe2\x82\"", FFFD FFFD "\""},                     /* the quote is still escaped */
        {"\xc0\xaf", FFFD FFFD},                            /* overlong '/' */
        {"\xe0\x80\xaf", FFFD FFFD FFFD},                   /* overlong '/' */
        {"\xf0\x80\x80\xaf", FFFD FFFD FFFD FFFD},          /* overlong '/' */
        {"\xed\xa0\x80", FFFD FFFD FFFD},                   /* surrogate */
        {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD},          /* above U+10FFFF */
        {"\xf8\x88\x80\x80\x80", FFFD FFFD FFFD FFFD FFFD}, /* five bytes */
    };
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        PQS_FREE char *exact = pqs_strdup(rows[i].in); /* on the heap: an overread shows */
        PQS_BUF out = {0};
        struct pqs_json j = pqs_json_begin(&out);
        pqs_json_str(&j, NULL, exact);
        json_t *root = parse(&out); /* jansson refuses bad UTF-8 */
        assert_string_equal(json_string_value(root), rows[i].out);
        json_decref(root);
    }
}

static double json_round_trip(double value) {
    PQS_BUF out = {0};
    struct pqs_json j = pqs_json_begin(&out);
    pqs_json_num(&j, NULL, value);
    json_t *root = parse(&out);
    assert_true(json_is_number(root));
    double got = json_number_value(root);
    json_decref(root);
    return got;
}

static void json_numbers_round_trip(void **state) {
    (void)state;
    const double fixed[] = {0.0,
                            1,
                            -1,
                            0.1,
                            1.0 / 3,
                            1e21,
                            1e22,
                            123456789012345678.0,
                            DBL_MAX,
                            DBL_MIN,
                            DBL_EPSILON,
                            -DBL_MAX,
                            5e-324,
                            0x1.fffffffffffffp+52,
                            0.30000000000000004};
    for (size_t i = 0; i < PQS_COUNT(fixed); i++)
        assert_true(json_round_trip(fixed[i]) == fixed[i]);
    struct pqs_rng rng = pqs_rng_stream(1, "json", 0, 0);
    for (int i = 0; i < 20000; i++) { /* any bit pattern */
        uint64_t bits = pqs_rng_next(&rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            assert_true(json_round_trip(value) == value);
    }
    PQS_BUF out = {0};
    struct pqs_json j = pqs_json_begin(&out);
    pqs_json_num(&j, NULL, 0.1);
    assert_string_equal(pqs_buf_text(&out), "0.1"); /* and not 0.10000000000000001 */
}

static void json_has_no_nan_or_infinity(void **state) {
    (void)state;
    PQS_BUF out = {0};
    struct pqs_json j = pqs_json_begin(&out);
    pqs_json_array(&j, NULL);
    pqs_json_num(&j, NULL, (double)NAN);
    pqs_json_num(&j, NULL, (double)INFINITY);
    pqs_json_num(&j, NULL, -(double)INFINITY);
    pqs_json_end_array(&j);
    json_t *root = parse(&out);
    assert_int_equal(json_array_size(root), 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(json_is_null(json_array_get(root, i)));
    json_decref(root);
}

/* rng */

/* The published test values of SplitMix64 with seed 1234567 (the reference implementation's first five outputs). */
static void rng_is_splitmix64(void **state) {
    (void)state;
    const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
                                 UINT64_C(4593380528125082431), UINT64_C(16408922859458223821)};
    struct pqs_rng rng = {.key = 1234567};
    for (size_t i = 0; i < PQS_COUNT(expected); i++)
        assert_true(pqs_rng_next(&rng) == expected[i]);
    rng.counter = 3; /* value i needs none of those before it */
    assert_true(pqs_rng_next(&rng) == expected[3]);
}

/* Runs already recorded depend on these: a change here changes the order of arms and the arrivals of every seed. Computed
 * with an independent implementation of the formula in rng.c (Python). */
static void rng_streams_are_stable(void **state) {
    (void)state;
    const struct {
        uint64_t seed;
        const char *purpose;
        uint64_t block, thread, first, second;
    } rows[] = {
        {0, "", 0, 0, UINT64_C(0x78ae5a9a6b5fd45e), UINT64_C(0xb9895a2b68592df1)},
        {1, "order", 0, 0, UINT64_C(0x904d31e3994be3ee), UINT64_C(0x75ef5151a6be3a0c)},
        {1, "arrivals", 3, 2, UINT64_C(0x96f2fc5c9b2d947b), UINT64_C(0xfb0fc637c0a8bd55)},
        {UINT64_MAX, "arrivals", UINT64_MAX, UINT64_MAX, UINT64_C(0x05baaeee040c0ab0), UINT64_C(0xfefc473d0b6dc9d1)},
    };
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        struct pqs_rng rng = pqs_rng_stream(rows[i].seed, rows[i].purpose, rows[i].block, rows[i].thread);
        assert_true(pqs_rng_next(&rng) == rows[i].first);
        assert_true(pqs_rng_next(&rng) == rows[i].second);
    }
}

static void rng_streams_differ(void **state) {
    (void)state;
    const char *const purposes[] = {"", "order", "orders", "arrivals"};
    uint64_t keys[2 * 4 * 3 * 3];
    size_t n = 0;
    for (uint64_t seed = 0; seed < 2; seed++)
        for (size_t p = 0; p < 4; p++)
            for (uint64_t block = 0; block < 3; block++)
                for (uint64_t thread = 0; thread < 3; thread++)
                    keys[n++] = pqs_rng_stream(seed, purposes[p], block, thread).key;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(keys[i] != keys[k]);
}

static void rng_unit_is_uniform(void **state) {
    (void)state;
    struct pqs_rng rng = pqs_rng_stream(42, "unit", 0, 0);
    int bins[10] = {0};
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double u = pqs_rng_unit(&rng);
        assert_true(u >= 0 && u < 1);
        bins[(int)(u * 10)]++;
        sum += u;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 5 * 0.2887 / sqrt(100000)); /* five standard errors */
    for (int i = 0; i < 10; i++)
        assert_true(abs(bins[i] - 10000) < 500); /* 95 is one standard deviation */
}

static void rng_below_is_unbiased(void **state) {
    (void)state;
    struct pqs_rng rng = pqs_rng_stream(42, "below", 0, 0);
    int bins[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint64_t v = pqs_rng_below(&rng, 7);
        assert_true(v < 7);
        bins[v]++;
    }
    for (int i = 0; i < 7; i++)
        assert_true(abs(bins[i] - 10000) < 500);
    for (int i = 0; i < 100; i++)
        assert_true(pqs_rng_below(&rng, 1) == 0);
    /* With n = 3/4 of 2^64, value % n without rejection would fall into the lower third half of the time. */
    uint64_t n = UINT64_C(3) << 62;
    int low = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t v = pqs_rng_below(&rng, n);
        assert_true(v < n);
        low += v < n / 3;
    }
    assert_true(abs(low - 10000) < 500);
}

/* cpu; lists are checked with their own, simple parser */

static int mark(const char *list, int *seen, int size) {
    int n = 0;
    while (*list) {
        int first, last, used = 0;
        if (sscanf(list, "%d-%d%n", &first, &last, &used) < 2 || !used) {
            assert_int_equal(sscanf(list, "%d%n", &first, &used), 1);
            last = first;
        }
        for (int cpu = first; cpu <= last; cpu++, n++) {
            assert_true(cpu >= 0 && cpu < size);
            seen[cpu]++;
        }
        list += used;
        list += *list == ',';
    }
    return n;
}

enum { CPUS = 4096 };

static void cpu_split_is_disjoint(void **state) {
    (void)state;
    char first[PQS_CPU_LIST_MAX], second[PQS_CPU_LIST_MAX], allowed[PQS_CPU_LIST_MAX];
    pqs_cpu_split(first, second);
    pqs_cpu_allowed(allowed);
    int all[CPUS] = {0}, split[CPUS] = {0}, low[CPUS] = {0};
    cpu_set_t mine;
    assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
    assert_int_equal(mark(allowed, all, CPUS), CPU_COUNT(&mine));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        assert_int_equal(all[cpu], CPU_ISSET((unsigned)cpu, &mine) != 0);

    int n_first = mark(first, split, CPUS), n_second = mark(second, split, CPUS);
    assert_int_equal(n_first == 0, n_second == 0);
    if (n_first == 0)
        print_message("one core: nothing to split\n");
    for (int cpu = 0; n_first && cpu < CPUS; cpu++)
        assert_int_equal(split[cpu], all[cpu]); /* every allowed CPU once */

    mark(first, low, CPUS);
    for (int cpu = 0; n_first && cpu < CPUS; cpu++) {
        PQS_FREE char *path = pqs_format("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        PQS_BUF text = {0};
        if (!all[cpu] || pqs_read_file(path, 4096, &text, NULL))
            continue;
        int siblings[CPUS] = {0};
        text.data[strcspn(pqs_buf_text(&text), "\n")] = '\0';
        mark(pqs_buf_text(&text), siblings, CPUS);
        for (int other = 0; other < CPUS; other++)
            if (siblings[other] && all[other])
                assert_int_equal(low[other], low[cpu]);
    }
}

/* In a process of its own, since affinity lasts. Exit status 0 when list was pinned and is what is allowed then. */
static int pin_in_child(const char *list, struct pqs_err *ret_err) {
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct pqs_err err = {0};
        char now[PQS_CPU_LIST_MAX];
        int rc = pqs_cpu_pin(list, &err);
        pqs_cpu_allowed(now);
        ssize_t sent = write(fds[1], &err, sizeof err);
        _exit(rc ? -rc : sent == sizeof err && strcmp(now, list) == 0 ? 0 : 99);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], ret_err, sizeof *ret_err), sizeof *ret_err);
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void cpu_pins(void **state) {
    (void)state;
    char allowed[PQS_CPU_LIST_MAX], one[16];
    struct pqs_err err;
    pqs_cpu_allowed(allowed);
    assert_int_equal(pin_in_child(allowed, &err), 0);
    snprintf(one, sizeof one, "%d", atoi(allowed));
    assert_int_equal(pin_in_child(one, &err), 0);
    assert_int_equal(pqs_cpu_pin("", NULL), 0);

    PQS_FREE char *partly = pqs_format("%s,4095", one);
    assert_int_equal(pin_in_child(partly, &err), -PQS_E_ENV); /* half of it is not there */
    assert_non_null(strstr(err.msg, partly));
    assert_int_equal(pin_in_child("4095", &err), -PQS_E_ENV);
    const char *const bad[] = {"x", "0,", ",0", "0-", "-1", "1-0", "0 1", "0-1-2", "4096", "99999999999999999999", "0,\n"};
    for (size_t i = 0; i < PQS_COUNT(bad); i++) {
        assert_int_equal(pin_in_child(bad[i], &err), -PQS_E_USAGE);
        assert_non_null(strstr(err.msg, bad[i]));
    }
}

/* child */

#define SECONDS(n) ((n)*PQS_NS_PER_S)

static struct pqs_child start(const char *script) {
    struct pqs_child child;
    struct pqs_err err = {0};
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    if (pqs_child_start(argv, &child, &err))
        fail_msg("%s", err.msg);
    return child;
}

/* Reads up to the end of the child's output. */
static void read_all(struct pqs_child *child, char *text, size_t size) {
    size_t len = 0;
    ssize_t n;
    while ((n = read(child->out_fd, text + len, size - 1 - len)) > 0)
        len += (size_t)n;
    assert_int_equal(n, 0);
    text[len] = '\0';
}

static void end_input(struct pqs_child *child) {
    close(child->in_fd);
    child->in_fd = -1;
}

static void child_echoes(void **state) {
    (void)state;
    struct pqs_child cat, other;
    char *argv[] = {"cat", NULL};
    assert_int_equal(pqs_child_start(argv, &cat, NULL), 0);
    assert_int_equal(pqs_child_start(argv, &other, NULL), 0);
    assert_true(fcntl(cat.in_fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(cat.out_fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(getpgid(cat.pid), cat.pid);
    assert_int_equal(write(cat.in_fd, "hello", 5), 5);
    end_input(&cat); /* end of file must arrive although the other child was started while the pipe was open */
    char text[16];
    read_all(&cat, text, sizeof text);
    assert_string_equal(text, "hello");
    int status = -1;
    pqs_child_stop(&cat, SECONDS(30), &status);
    assert_int_equal(status, 0);
    assert_int_equal(cat.pid, 0);
    assert_int_equal(cat.in_fd, -1);
    assert_int_equal(cat.out_fd, -1);
    pqs_child_stop(&cat, SECONDS(30), &status); /* nothing left to stop */
    assert_int_equal(status, 0);

    int64_t t0 = pqs_now_ns();
    pqs_child_stop(&other, SECONDS(30), &status); /* its input closes, it ends, and nobody waits any longer */
    assert_int_equal(status, 0);
    assert_true(pqs_now_ns() - t0 < SECONDS(10));
}

static void child_status_is_told(void **state) {
    (void)state;
    struct pqs_child child = start("exit 3");
    int status;
    char text[64], tiny[5];
    pqs_child_stop(&child, SECONDS(30), &status);
    pqs_child_describe(status, text, sizeof text);
    assert_string_equal(text, "exit status 3");
    child = start("kill -SEGV $$");
    pqs_child_stop(&child, SECONDS(30), &status);
    pqs_child_describe(status, text, sizeof text);
    assert_string_equal(text, "killed by signal 11 (Segmentation fault)");
    pqs_child_describe(status, tiny, sizeof tiny);
    assert_string_equal(tiny, "kill");
    pqs_child_describe(-1, text, sizeof text);
    assert_string_equal(text, "end not observed");
    pqs_child_stop(&(struct pqs_child){0}, SECONDS(30), &status); /* never started: standard input stays open */
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0 || errno == EBADF);
}

static void missing_program_is_an_error(void **state) {
    (void)state;
    int before = count_files("/proc/self/fd");
    const struct {
        char *program;
        int sys;
    } rows[] = {{"pqshake-no-such-program", ENOENT}, {"/nonexistent/program", ENOENT}, {"/dev/null", EACCES}};
    for (size_t i = 0; i < PQS_COUNT(rows); i++) {
        struct pqs_child child = {.pid = 77};
        struct pqs_err err = {0};
        char *argv[] = {rows[i].program, NULL};
        assert_int_equal(pqs_child_start(argv, &child, &err), PQS_E_ENV);
        assert_int_equal(err.sys, rows[i].sys);
        assert_non_null(strstr(err.msg, rows[i].program));
        assert_int_equal(child.pid, 77); /* untouched */
    }
    assert_int_equal(count_files("/proc/self/fd"), before); /* no descriptor and no zombie is left */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* Waits for a process that became ours when its parent died. */
static void assert_killed(pid_t pid) {
    int status = 0;
    int64_t deadline_ns = pqs_now_ns() + SECONDS(20);
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 && pqs_now_ns() < deadline_ns)
        poll(NULL, 0, 1);
    if (got == 0)
        kill(pid, SIGKILL); /* do not leave it to the machine */
    assert_int_equal(got, pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* The grandchild is in the child's group and dies with it; as its subreaper we see how. */
static void stubborn_group_is_killed(void **state) {
    (void)state;
    struct pqs_child child = start("sleep 1000 & echo $!; exec sleep 1000");
    char line[16] = {0};
    assert_true(read(child.out_fd, line, sizeof line - 1) > 1);
    pid_t grandchild = atoi(line);
    int status;
    int64_t t0 = pqs_now_ns();
    pqs_child_stop(&child, 100 * PQS_NS_PER_MS, &status);
    int64_t took_ns = pqs_now_ns() - t0;
    assert_true(took_ns >= 100 * PQS_NS_PER_MS && took_ns < SECONDS(4));
    char text[64];
    pqs_child_describe(status, text, sizeof text);
    assert_string_equal(text, "killed by signal 9 (Killed)");
    assert_killed(grandchild);
}

static void reaped_elsewhere_is_not_waited_for(void **state) {
    (void)state;
    struct pqs_child child = start("exit 0");
    int status;
    assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
    pqs_child_stop(&child, SECONDS(30), &status);
    assert_int_equal(status, -1);
}

static void on_term(int sig) {
    (void)sig;
}

static void signals_are_reset(void **state) {
    (void)state;
    struct sigaction pipe_before, term_before, ignore = {.sa_handler = SIG_IGN}, handler = {.sa_handler = on_term};
    sigset_t term, mask_before, mask_after;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigaction(SIGPIPE, &ignore, &pipe_before);
    sigaction(SIGTERM, &handler, &term_before);
    sigprocmask(SIG_BLOCK, &term, &mask_before);
    const int signals[] = {SIGPIPE, SIGTERM};
    const char *const scripts[] = {"kill -PIPE $$; echo alive", "kill -TERM $$; echo alive"};
    for (size_t i = 0; i < PQS_COUNT(scripts); i++) {
        struct pqs_child child = start(scripts[i]);
        char text[16];
        int status;
        read_all(&child, text, sizeof text);
        assert_string_equal(text, "");
        pqs_child_stop(&child, SECONDS(30), &status);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
    }
    sigprocmask(SIG_SETMASK, &mask_before, &mask_after);
    assert_true(sigismember(&mask_after, SIGTERM)); /* ours is as it was */
    assert_false(sigismember(&mask_after, SIGINT));
    sigaction(SIGPIPE, &pipe_before, &ignore);
    sigaction(SIGTERM, &term_before, &handler);
    assert_true(ignore.sa_handler == SIG_IGN);
    assert_true(handler.sa_handler == on_term);
}

/* With standard descriptors closed, pipes get the numbers 0 and 1 that the child's ends have to be moved to. */
static void works_without_standard_descriptors(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        struct pqs_child cat;
        char *argv[] = {"cat", NULL}, text[4] = {0};
        int status = -1;
        if (pqs_child_start(argv, &cat, NULL) || write(cat.in_fd, "abc", 3) != 3 || read(cat.out_fd, text, 3) != 3)
            _exit(1);
        pqs_child_stop(&cat, SECONDS(30), &status);
        _exit(status == 0 && strcmp(text, "abc") == 0 ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void child_dies_with_its_parent(void **state) {
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct pqs_child child;
        char *argv[] = {"sleep", "1000", NULL}; /* reads no input, so the end of file does nothing */
        if (pqs_child_start(argv, &child, NULL) || write(fds[1], &child.pid, sizeof child.pid) != sizeof child.pid)
            _exit(1);
        pause();
        _exit(2);
    }
    pid_t child = 0;
    close(fds[1]);
    assert_int_equal(read(fds[0], &child, sizeof child), sizeof child);
    close(fds[0]);
    assert_int_equal(kill(child, 0), 0);
    kill(parent, SIGKILL);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_killed(child);
}

/* The race: the parent is gone before the child has asked for the death signal. Fork handlers make it happen every time. */
static pid_t dying_parent;
static int child_pid_fd;

static void die_after_fork(void) {
    if (getpid() == dying_parent)
        raise(SIGKILL);
}

static void wait_for_new_parent(void) {
    while (getppid() == dying_parent)
        poll(NULL, 0, 1);
    pid_t pid = getpid();
    if (write(child_pid_fd, &pid, sizeof pid) != sizeof pid)
        _exit(1);
}

static void child_of_dead_parent_dies(void **state) {
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t parent = fork();
    if (parent == 0) {
        dying_parent = getpid();
        child_pid_fd = fds[1];
        struct pqs_child child;
        char *argv[] = {"sleep", "1000", NULL};
        if (pthread_atfork(NULL, die_after_fork, wait_for_new_parent) == 0)
            _exit(pqs_child_start(argv, &child, NULL) ? 1 : 2); /* not reached: fork kills us */
        _exit(3);
    }
    pid_t child = 0;
    int status;
    close(fds[1]);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(read(fds[0], &child, sizeof child), sizeof child);
    close(fds[0]);
    assert_killed(child);
}

static int become_subreaper(void **state) {
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* process */

static int64_t rusage_ns(const struct rusage *u) {
    return (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * PQS_NS_PER_S + (u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1000;
}

/* A child with a child of its own that uses CPU time, says how much by getrusage, ends at a byte and is waited for. The child
 * itself then says so and waits for another byte. */
static void tree_counts_descendants_alive_and_waited_for(void **state) {
    (void)state;
    int to[2], from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte = 0;
        pid_t grandchild = fork();
        if (grandchild == 0) {
            while (pqs_cpu_ns() < 150 * PQS_NS_PER_MS)
                ;
            int64_t used_ns = pqs_cpu_ns();
            _exit(write(from[1], &used_ns, sizeof used_ns) != sizeof used_ns || read(to[0], &byte, 1) != 1);
        }
        waitpid(grandchild, NULL, 0);
        _exit(write(from[1], &byte, 1) != 1 || read(to[0], &byte, 1) != 1);
    }
    int64_t used_ns;
    char byte = 0;
    struct pqs_err err = {0};
    struct pqs_process_tree alive, waited_for, gone;
    assert_int_equal(read(from[0], &used_ns, sizeof used_ns), sizeof used_ns);
    assert_int_equal(pqs_process_tree_read(child, &alive, &err), 0);
    assert_in_range(alive.cpu_ns, used_ns, used_ns + 30 * PQS_NS_PER_MS); /* with the child's own, which is little */
    assert_string_equal(alive.name, "test_base");
    assert_int_equal(write(to[1], &byte, 1), 1);
    assert_int_equal(read(from[0], &byte, 1), 1);
    assert_int_equal(pqs_process_tree_read(child, &waited_for, &err), 0);
    assert_in_range(waited_for.cpu_ns, alive.cpu_ns - 20 * PQS_NS_PER_MS, alive.cpu_ns + 30 * PQS_NS_PER_MS);
    assert_int_equal(waited_for.start, alive.start);

    /* The kernel's own sum, when the child has ended: not before we have asked for it is it gone. */
    assert_int_equal(write(to[1], &byte, 1), 1);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(pqs_process_tree_read(child, &gone, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "(test_base) has ended"));
    struct rusage usage;
    int status;
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    assert_int_equal(status, 0);
    assert_in_range(rusage_ns(&usage), waited_for.cpu_ns - 20 * PQS_NS_PER_MS, waited_for.cpu_ns + 30 * PQS_NS_PER_MS);
    assert_int_equal(pqs_process_tree_read(child, &gone, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "there is no process"));
    for (int i = 0; i < 2; i++) {
        close(to[i]);
        close(from[i]);
    }
}

static void tree_knows_its_own_process_and_odd_names(void **state) {
    (void)state;
    struct pqs_err err = {0};
    struct pqs_process_tree tree;
    char name[16];
    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "a) R 1 (b");
    int64_t before_ns = pqs_cpu_ns();
    assert_int_equal(pqs_process_tree_read(getpid(), &tree, &err), 0);
    int64_t after_ns = pqs_cpu_ns();
    prctl(PR_SET_NAME, name);
    assert_string_equal(tree.name, "a) R 1 (b");
    /* Earlier tests' children were waited for: their ticks are in it. */
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    int64_t children_ns = rusage_ns(&children);
    assert_in_range(tree.cpu_ns + 20 * PQS_NS_PER_MS, before_ns + children_ns, after_ns + children_ns + 30 * PQS_NS_PER_MS);
}

/* In a child with a mount namespace of its own, whose /proc hides other users' processes. */
static void tree_of_another_user_may_be_hidden(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        struct pqs_err err = {0};
        struct pqs_process_tree tree;
        if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("proc", "/proc", "proc", 0, "hidepid=2") || setgroups(0, NULL) || setgid(65534) || setuid(65534))
            _exit(77);
        int rc = pqs_process_tree_read(parent, &tree, &err);
        _exit(rc == PQS_E_FAILED && strstr(err.msg, "belongs to another user") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

/* machine */

static const char *const FACTS[] = {
    "kernel",    "cpu_model", "cpu_features",       "cpus_online", "governor", "clock_source",
    "virtual",   "steal_ms",  "congestion_control", "local_ports", "load1",    "tw_reuse",
    "somaxconn", "fd_limit",  "memory_mb",          "os",          "turbo",    "uptime_ms",
    "runnable"};

static void collect(void *context, const char *name, const char *value) {
    json_t *facts = context;
    bool known = false;
    for (size_t i = 0; i < PQS_COUNT(FACTS); i++)
        known |= strcmp(FACTS[i], name) == 0;
    assert_true(known);
    assert_null(json_object_get(facts, name)); /* once */
    assert_true(*value && !strpbrk(value, "\n\t"));
    assert_true(*value != ' ' && value[strlen(value) - 1] != ' ');
    assert_int_equal(json_object_set_new(facts, name, json_string(value)), 0);
}

static void machine_is_described(void **state) {
    (void)state;
    json_t *facts = json_object();
    pqs_machine_facts(collect, facts);
    struct utsname host;
    assert_int_equal(uname(&host), 0);
    assert_string_equal(json_string_value(json_object_get(facts, "kernel")), host.release);
    char online[24];
    snprintf(online, sizeof online, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    assert_string_equal(json_string_value(json_object_get(facts, "cpus_online")), online);
    int low, high, used;
    const char *ports = json_string_value(json_object_get(facts, "local_ports"));
    if (ports) {
        assert_int_equal(sscanf(ports, "%d %d%n", &low, &high, &used), 2);
        assert_true(low < high && !ports[used]);
    }
    const char *const numbers[] = {"steal_ms", "load1", "fd_limit", "memory_mb", "somaxconn", "uptime_ms", "runnable"};
    for (size_t i = 0; i < PQS_COUNT(numbers); i++) {
        const char *text = json_string_value(json_object_get(facts, numbers[i]));
        char *end = NULL;
        if (text) {
            assert_true(strtod(text, &end) >= 0);
            assert_string_equal(end, "");
        }
    }
    assert_non_null(json_object_get(facts, "fd_limit"));
    assert_non_null(json_object_get(facts, "memory_mb"));

    /* One at a time they are the same, but for those that move. */
    const char *name;
    json_t *fact;
    json_object_foreach(facts, name, fact) {
        char value[PQS_MACHINE_VALUE_MAX];
        assert_true(pqs_machine_read(name, value));
        if (!pqs_machine_moves(name))
            assert_string_equal(value, json_string_value(fact));
    }
    assert_int_equal(pqs_machine_number("fd_limit"),
                     strtoll(json_string_value(json_object_get(facts, "fd_limit")), NULL, 10));
    json_decref(facts);
}

static void machine_facts_that_change(void **state) {
    (void)state;
    json_t *facts = json_object();
    pqs_machine_changing_facts(collect, facts);
    assert_non_null(json_object_get(facts, "uptime_ms"));
    assert_null(json_object_get(facts, "kernel"));
    assert_true(pqs_machine_moves("steal_ms") && !pqs_machine_moves("governor") && !pqs_machine_moves("kernel"));
    int64_t before = pqs_machine_number("uptime_ms");
    usleep(20000);
    assert_in_range(pqs_machine_number("uptime_ms") - before, 19, 10000);
    json_decref(facts);

    char value[PQS_MACHINE_VALUE_MAX] = "left";
    assert_false(pqs_machine_read("no such fact", value));
    assert_string_equal(value, "");
    assert_int_equal(pqs_machine_number("no such fact"), -1);
    assert_int_equal(pqs_machine_number("kernel"), -1); /* no number */
}

static int count_busy(void) {
    int64_t most = 0; /* of some looks: the kernel counts the tasks of this instant */
    for (int i = 0; i < 50; i++, usleep(1000))
        most = pqs_machine_number("runnable") > most ? pqs_machine_number("runnable") : most;
    return (int)most;
}

static void machine_counts_busy_neighbours(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            ; /* busy */
    int busy = count_busy();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(busy >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_holds_code_errno_and_context),
        cmocka_unit_test(err_cuts_long_messages),
        cmocka_unit_test(mem_grows),
        cmocka_unit_test(cleanup_closes),
        cmocka_unit_test(clock_counts),
        cmocka_unit_test(buf_adds),
        cmocka_unit_test(fields_are_little_endian),
        cmocka_unit_test(truncated_input_turns_bad),
        cmocka_unit_test(cursor_stays_bad),
        cmocka_unit_test(oversized_lengths_turn_bad),
        cmocka_unit_test(strings_must_fit_and_hold_no_nul),
        cmocka_unit_test_setup_teardown(file_round_trip, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(replaced_file_keeps_its_old_readers, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(file_errors_name_the_file, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(devices_and_links_are_written_to_not_replaced, make_dir, remove_dir),
        cmocka_unit_test(json_nests),
        cmocka_unit_test(json_nests_31_deep),
        cmocka_unit_test(json_escapes),
        cmocka_unit_test(json_replaces_bad_utf8),
        cmocka_unit_test(json_numbers_round_trip),
        cmocka_unit_test(json_has_no_nan_or_infinity),
        cmocka_unit_test(rng_is_splitmix64),
        cmocka_unit_test(rng_streams_are_stable),
        cmocka_unit_test(rng_streams_differ),
        cmocka_unit_test(rng_unit_is_uniform),
        cmocka_unit_test(rng_below_is_unbiased),
        cmocka_unit_test(cpu_split_is_disjoint),
        cmocka_unit_test(cpu_pins),
        cmocka_unit_test(child_echoes),
        cmocka_unit_test(child_status_is_told),
        cmocka_unit_test(missing_program_is_an_error),
        cmocka_unit_test(stubborn_group_is_killed),
        cmocka_unit_test(reaped_elsewhere_is_not_waited_for),
        cmocka_unit_test(signals_are_reset),
        cmocka_unit_test(works_without_standard_descriptors),
        cmocka_unit_test(child_dies_with_its_parent),
        cmocka_unit_test(child_of_dead_parent_dies),
        cmocka_unit_test(tree_counts_descendants_alive_and_waited_for),
        cmocka_unit_test(tree_knows_its_own_process_and_odd_names),
        cmocka_unit_test(tree_of_another_user_may_be_hidden),
        cmocka_unit_test(machine_is_described),
        cmocka_unit_test(machine_facts_that_change),
        cmocka_unit_test(machine_counts_busy_neighbours),
    };
    return cmocka_run_group_tests_name("base", tests, become_subreaper, NULL);
}
