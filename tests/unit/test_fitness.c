/* Checks of a machine: each is fine on a machine that is fit, hit by one changed fact, and unknown without its facts. A check
 * without a case fails the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "verdict/fitness.h"

/* What a fit machine shows. */
static const char *const fit[][2] = {
    {"cores", "4"},
    {"cpus_online", "8"},
    {"governor", "performance"},
    {"turbo", "off"},
    {"sample_ms", "200"},
    {"sample_steal_ms", "0"},
    {"sample_runnable", "0.1"},
    {"steal_ms", "10"},
    {"uptime_ms", "1000000"},
    {"load1", "0.30"},
    {"clock_source", "tsc"},
    {"clock_read_ns", "21.5"},
    {"timer_slack_ns", "50000"},
    {"timer_late_p50_ns", "4000"},
    {"timer_late_p95_ns", "21000"},
    {"virtual", "no"},
    {"kernel", "6.12.41+deb13-amd64"},
    {"fd_limit", "8192"},
    {"fd_hard_limit", "1048576"},
    {"local_ports", "32768 60999"},
    {"tw_reuse", "2"},
    {"somaxconn", "4096"},
    {"congestion_control", "cubic"},
    {"initial_window", "10"},
    {"namespaces", "yes"},
    {"tun", "yes"},
    {"netem", "yes (module)"},
    {"header_version", "OpenSSL 3.5.4"},
    {"library_version", "OpenSSL 3.5.4"},
    {"libcrypto", "/usr/lib/libcrypto.so.3"},
    {"cpu_features", "aes pclmulqdq avx avx2 bmi2 adx sha_ni"},
    /* bits 57 33 60 of the first word; 5 8 19 29 of the second */
    {"cpu_settings", "OPENSSL_ia32cap=0x1200000200000000:0x20080120:0x0"},
};

/* The machine with one fact changed; NULL value: without it. */
static void describe(struct pqs_result *r, const char *name, const char *value) {
    for (size_t i = 0; i < PQS_COUNT(fit); i++) {
        const char *shown = name && strcmp(fit[i][0], name) == 0 ? value : fit[i][1];
        if (shown)
            pqs_result_fact(r, PQS_CLIENT, fit[i][0], shown, 1);
    }
}

static enum pqs_fitness level_of(const char *id, const char *name, const char *value, char *ret_text, size_t size) {
    struct pqs_result r = {0};
    describe(&r, name, value);
    const struct pqs_fitness_check *c = pqs_fitness_checks;
    while (c->id && strcmp(c->id, id) != 0)
        c++;
    assert_non_null(c->id);
    *ret_text = '\0';
    enum pqs_fitness level = c->check(&r, ret_text, size);
    assert_int_equal(level == PQS_FIT_UNKNOWN, *ret_text == '\0');
    pqs_result_release(&r);
    return level;
}

static const struct {
    const char *id;
    const char *name, *value; /* the changed fact */
    enum pqs_fitness level;
    const char *text; /* in what is said */
} cases[] = {
    {"cores", "cores", "1", PQS_FIT_SPOILS, "1 core to use, 8 CPUs online"},
    {"cores", "cores", "2", PQS_FIT_FINE, "2 cores"},
    {"neighbours", "sample_runnable", "0.6", PQS_FIT_SPOILS, "0.6 other tasks"},
    {"neighbours", "sample_runnable", "0.5", PQS_FIT_FINE, ""},
    {"load", "load1", "4.10", PQS_FIT_NOTE, "4.10 on 8 CPUs"},
    {"load", "load1", "4.00", PQS_FIT_FINE, ""},
    {"steal", "sample_steal_ms", "20", PQS_FIT_SPOILS, "20 ms of 200 ms on 8 CPUs"},
    {"steal", "sample_steal_ms", "10", PQS_FIT_FINE, ""}, /* one tick */
    {"steal-since-boot", "steal_ms", "90000", PQS_FIT_NOTE, "1.12 % of the CPU time"},
    {"steal-since-boot", "steal_ms", "80000", PQS_FIT_FINE, "1.00 %"},
    {"steal-since-boot", "uptime_ms", NULL, PQS_FIT_UNKNOWN, ""},
    {"governor", "governor", "powersave", PQS_FIT_SPOILS, "powersave"},
    {"governor", "governor", "performance powersave", PQS_FIT_SPOILS, "performance powersave"},
    {"turbo", "turbo", "on", PQS_FIT_NOTE, "on"},
    {"clock", "clock_read_ns", "900", PQS_FIT_SPOILS, "tsc, a reading takes 900 ns"},
    {"clock", "clock_source", NULL, PQS_FIT_FINE, "unknown name"},
    {"timers", "timer_late_p95_ns", "251000", PQS_FIT_SPOILS, "251 us (p95)"},
    {"timers", "timer_slack_ns", NULL, PQS_FIT_FINE, "here unknown ns"},
    {"virtual", "virtual", "yes", PQS_FIT_NOTE, "yes"},
    {"wsl", "kernel", "5.15.167.4-microsoft-standard-WSL2", PQS_FIT_SPOILS, "WSL2"},
    {"descriptors", "fd_limit", "1024", PQS_FIT_NOTE, "1024 of at most 1048576"},
    {"ports", "local_ports", "60000 60999", PQS_FIT_NOTE, "1000, for 16 connections/s"},
    {"ports", "local_ports", "all", PQS_FIT_UNKNOWN, ""},
    {"tw-reuse", "tw_reuse", "0", PQS_FIT_NOTE, "never"},
    {"tw-reuse", "tw_reuse", "1", PQS_FIT_FINE, "1"},
    {"somaxconn", "somaxconn", "128", PQS_FIT_NOTE, "128"},
    {"congestion", "congestion_control", "bbr", PQS_FIT_NOTE, "bbr"},
    {"initial-window", "initial_window", "20", PQS_FIT_NOTE, "20 segments"},
    {"namespaces", "namespaces", "no: Operation not permitted", PQS_FIT_NOTE, "not permitted"},
    {"tun", "tun", "no", PQS_FIT_NOTE, "no"},
    {"netem", "netem", "no", PQS_FIT_NOTE, "no"},
    {"library", "library_version", "OpenSSL 3.6.0", PQS_FIT_NOTE, "compiled against OpenSSL 3.5.4"},
    {"code", "cpu_settings", "", PQS_FIT_SPOILS, "without assembly"},
    {"code", "cpu_settings", "OPENSSL_ia32cap=0x1200000200000000:0x20080120 env:~0x20", PQS_FIT_SPOILS, "env:~0x20"},
    {"code", "cpu_settings", "OPENSSL_ia32cap=0x1200000200000000:0x20080100:0x0", PQS_FIT_NOTE, "adx sha_ni; not avx2"},
    {"code", "cpu_settings", "OPENSSL_armcap=0x7d", PQS_FIT_FINE, "armcap"},
    {"code", "cpu_features", NULL, PQS_FIT_FINE, "ia32cap"},
};

static void checks_hit_and_miss(void **state) {
    (void)state;
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        char text[512];
        enum pqs_fitness level = level_of(cases[i].id, cases[i].name, cases[i].value, text, sizeof text);
        if (level != cases[i].level || !strstr(text, cases[i].text))
            fail_msg("case %zu (%s): is %s, \"%s\"", i, cases[i].id, pqs_fitness_names[level], text);
    }
}

static void every_check_is_fine_hit_and_unknown(void **state) {
    (void)state;
    struct pqs_result nothing = {0};
    for (const struct pqs_fitness_check *c = pqs_fitness_checks; c->id; c++) {
        char text[512] = "";
        enum pqs_fitness level = level_of(c->id, NULL, NULL, text, sizeof text);
        if (level != PQS_FIT_FINE)
            fail_msg("%s: a fit machine is %s, \"%s\"", c->id, pqs_fitness_names[level], text);
        text[0] = '\0';
        assert_int_equal(c->check(&nothing, text, sizeof text), PQS_FIT_UNKNOWN);
        assert_string_equal(text, "");
        size_t n = 0;
        for (size_t i = 0; i < PQS_COUNT(cases); i++)
            n += strcmp(cases[i].id, c->id) == 0 && cases[i].level >= PQS_FIT_NOTE;
        if (n == 0)
            fail_msg("check \"%s\" has no case", c->id);
        assert_true(strlen(c->title) > 1 && strlen(c->spoils) > 20 && strlen(c->mend) > 10);
        for (const struct pqs_fitness_check *other = pqs_fitness_checks; other != c; other++)
            assert_string_not_equal(other->id, c->id);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_hit_and_miss),
        cmocka_unit_test(every_check_is_fine_hit_and_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
