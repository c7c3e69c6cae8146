/* The coordinator's side of workers, trials and runs, against a fake worker (tests/fake_worker.c): deadlines, deaths,
 * protocol errors, interruption, what is stored, and that no process is ever left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run/interrupt.h"
#include "run/run.h"
#include "run/tls.h"
#include "run/worker.h"
#include "stats/hist.h"

static char base_dir[] = "/tmp/pqshake-test-run-XXXXXX";
static char out_dir[128];
static struct pqs_err err;

static void assert_no_children(void) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static size_t open_files(void) {
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void fake(const char *what) {
    setenv("PQS_FAKE", what, 1);
}

static double seconds_since(int64_t begin_ns) {
    return (double)(pqs_now_ns() - begin_ns) / (double)PQS_NS_PER_S;
}

/* Workers */

static void find_names_all_places(void **state) {
    (void)state;
    char path[64], *dir = pqs_strdup(getenv("PQSHAKE_WORKER_DIR"));
    setenv("PQSHAKE_WORKER_DIR", "/nowhere", 1);
    assert_int_equal(pqs_worker_find("openssl", path, sizeof path, &err), PQS_E_ENV);
    assert_non_null(strstr(err.msg, "/nowhere"));
    unsetenv("PQSHAKE_WORKER_DIR");
    assert_int_equal(pqs_worker_find("no-such", path, sizeof path, &err), PQS_E_ENV);
    assert_non_null(strstr(err.msg, "beside this program"));
    assert_non_null(strstr(err.msg, "libexec/pqshake"));
    assert_non_null(strstr(err.msg, "PQSHAKE_WORKER_DIR"));
    setenv("PQSHAKE_WORKER_DIR", dir, 1);
    free(dir);
}

static void start_client(struct pqs_worker *w, const char *what) {
    fake(what);
    assert_int_equal(pqs_worker_start(PQS_DEFAULT_STACK, "client", w, &err), 0);
    assert_string_equal(pqs_result_fact_of(&w->hello, PQS_SERVER, "stack", NULL), "openssl");
}

static int ask_run(struct pqs_worker *w, int64_t timeout_ns, const struct pqs_waiting *waiting) {
    return pqs_worker_ask(w, PQS_MSG_RUN, NULL, PQS_MSG_DONE, timeout_ns, waiting, NULL, &err);
}

static void missed_deadline(void **state) {
    (void)state;
    PQS_WORKER w = {0};
    start_client(&w, "hang");
    int64_t begin_ns = pqs_now_ns();
    assert_int_equal(ask_run(&w, 200 * PQS_NS_PER_MS, NULL), PQS_E_FAILED);
    assert_int_equal(err.sys, ETIMEDOUT);
    assert_non_null(strstr(err.msg, "client worker did not send 'done' within 0.2 s"));
    assert_true(seconds_since(begin_ns) >= 0.2);
    pqs_worker_stop(&w); /* it does not read its input any more: SIGKILL */
    assert_no_children();
}

static void death_says_how(void **state) {
    (void)state;
    PQS_WORKER w = {0};
    start_client(&w, "exit");
    assert_int_equal(ask_run(&w, 60 * PQS_NS_PER_S, NULL), PQS_E_FAILED);
    assert_int_equal(err.sys, EPIPE);
    assert_non_null(strstr(err.msg, "the client worker died: exit status 7"));
    assert_no_children();
    assert_int_equal(ask_run(&w, PQS_NS_PER_S, NULL), PQS_E_FAILED); /* and stays dead */
    assert_int_equal(err.sys, EPIPE);
}

static void watched_death_ends_the_wait(void **state) {
    (void)state;
    PQS_WORKER server = {0};
    PQS_WORKER w = {0};
    fake("");
    assert_int_equal(pqs_worker_start(PQS_DEFAULT_STACK, "server", &server, &err), 0);
    start_client(&w, "hang");
    kill(server.child.pid, SIGKILL);
    int64_t begin_ns = pqs_now_ns();
    assert_int_equal(ask_run(&w, 60 * PQS_NS_PER_S, &(struct pqs_waiting){.watch = &server}), PQS_E_FAILED);
    assert_int_equal(err.sys, EPIPE);
    assert_non_null(strstr(err.msg, "the server worker died: killed by signal 9"));
    assert_true(seconds_since(begin_ns) < 20); /* at once, not at the deadline */
}

static void error_answer_is_passed_on(void **state) {
    (void)state;
    PQS_WORKER w = {0};
    start_client(&w, "refuse");
    assert_int_equal(pqs_worker_ask(&w, PQS_MSG_PREFLIGHT, NULL, PQS_MSG_DONE, 60 * PQS_NS_PER_S, NULL, NULL, &err),
                     PQS_E_ENV);
    assert_string_equal(err.msg, "client worker: no handshake today");
    assert_int_equal(err.sys, 0);
}

static void protocol_errors(void **state) {
    (void)state;
    PQS_WORKER w = {0};
    fake("babble");
    assert_int_equal(pqs_worker_start(PQS_DEFAULT_STACK, "client", &w, &err), PQS_E_FAILED);
    assert_int_equal(err.sys, EPROTO);
    assert_non_null(strstr(err.msg, "login banner"));
    assert_no_children();
    start_client(&w, "speak out of turn");
    assert_int_equal(ask_run(&w, 60 * PQS_NS_PER_S, NULL), PQS_E_FAILED);
    assert_int_equal(err.sys, EPROTO);
    assert_non_null(strstr(err.msg, "sent 'ready' out of turn"));
}

static void other_releases_are_refused(void **state) {
    (void)state;
    PQS_WORKER w = {0};
    fake("another release");
    assert_int_equal(pqs_worker_start(PQS_DEFAULT_STACK, "client", &w, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "the client worker is of release 9.8.7, this program of "));
    fake("another channel");
    assert_int_equal(pqs_worker_start(PQS_DEFAULT_STACK, "client", &w, &err), PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "channel version 200, this program 1"));
    assert_no_children();
}

static void prefixes(void **state) {
    (void)state;
    PQS_VIA via = {0};
    PQS_WORKER w = {0};
    assert_int_equal(pqs_via_init("--client-via", "env 'PQS_FAKE=e x i t'", NULL, &via, &err), 0);
    fake("");
    assert_int_equal(pqs_worker_start_via(&via, PQS_DEFAULT_STACK, "client", &w, &err), 0);
    kill(w.child.pid, SIGKILL);
    assert_int_equal(ask_run(&w, 60 * PQS_NS_PER_S, NULL), PQS_E_FAILED);
    assert_int_equal(err.sys, EPIPE);
    assert_non_null(strstr(err.msg, "the client worker (through 'env 'PQS_FAKE=e x i t'') died, or the link to it: killed"));
    via.path = "/nowhere/worker";
    assert_int_equal(pqs_worker_start_via(&via, PQS_DEFAULT_STACK, "client", &w, &err), PQS_E_ENV);
    assert_non_null(strstr(err.msg, "/nowhere/worker"));
    assert_non_null(strstr(err.msg, "exit status 127"));
    assert_non_null(strstr(err.msg, "--client-worker"));
    assert_no_children();
}

static void silence_is_noticed(void **state) {
    (void)state;
    PQS_WORKER w = {0};
    start_client(&w, "hang");
    int64_t begin_ns = pqs_now_ns();
    const struct pqs_waiting waiting = {.silence_ns = 200 * PQS_NS_PER_MS};
    assert_int_equal(ask_run(&w, 60 * PQS_NS_PER_S, &waiting), PQS_E_FAILED);
    assert_int_equal(err.sys, ETIMEDOUT);
    assert_non_null(strstr(err.msg, "client worker has been silent for 0.2 s"));
    assert_true(seconds_since(begin_ns) >= 0.2 && seconds_since(begin_ns) < 20);
}

static void stop_ends_one_that_stays(void **state) {
    (void)state;
    struct pqs_worker w = {0};
    start_client(&w, "stay");
    pid_t pid = w.child.pid;
    pqs_worker_stop(&w);
    assert_int_equal(kill(pid, 0), -1);
    assert_no_children();
    pqs_worker_stop(&w); /* again is fine */
}

/* Runs */

static bool explained;

static int apply(const struct pqs_arm *arm, void *context, struct pqs_spec *client, struct pqs_spec *server,
                 struct pqs_err *e) {
    (void)context, (void)e;
    pqs_spec_set(client, "level", arm->levels[0].level);
    pqs_spec_set(server, "level", arm->levels[0].level);
    return 0;
}

static int check(const struct pqs_spec *client, const struct pqs_result *preflight, struct pqs_err *e) {
    (void)client;
    return pqs_result_fact_of(preflight, PQS_CLIENT, "group", NULL) ? 0 : pqs_fail(e, PQS_E_FAILED, "no group");
}

static void explain(const struct pqs_spec *client, const struct pqs_result *facts, const struct pqs_result *counts,
                    struct pqs_err *e) {
    (void)client, (void)e;
    explained =
        pqs_result_fact_of(facts, PQS_SERVER, "port", NULL) && pqs_result_get(counts, PQS_SERVER, "accepted", 0) == 10;
}

static const char *const cohort_facts[] = {"group", NULL};
static const struct pqs_workload workload = {"fake", apply, check, explain, cohort_facts};

static int run_fake(const char *what, size_t *ret_stored) {
    static const char *const levels[] = {"A", "B"};
    const struct pqs_factor factor = {.name = "level", .levels = levels, .n_levels = 2};
    struct pqs_plan plan = {
        .workload = "fake",
        .blocks = 2,
        .schedule = {.rate_per_s = 1, .duration_ns = PQS_NS_PER_S, .timeout_ns = PQS_NS_PER_S, .threads = 1, .seed = 1}};
    const struct pqs_run_options options = {.plan = &plan, .workload = &workload, .own_server = true, .out_dir = out_dir};
    size_t files = open_files();
    assert_int_equal(pqs_plan_cross(&plan, &factor, 1, 0, &err), 0);
    fake(what);
    int rc = pqs_run(&options, ret_stored, &err);
    pqs_plan_release(&plan);
    assert_no_children();
    assert_in_range(open_files(), files, files + 2); /* the interrupt pipe is made once */
    return rc;
}

static void whole_run(void **state) {
    (void)state;
    size_t stored = 0;
    assert_int_equal(run_fake("", &stored), 0);
    assert_int_equal(stored, 4);
    struct pqs_run run = {0};
    assert_int_equal(pqs_store_read(out_dir, &run, &err), 0);
    assert_int_equal(run.n_trials, 4);
    for (size_t i = 0; i < run.n_trials; i++) {
        const struct pqs_trial *t = &run.trials[i];
        const struct pqs_result *r = &t->result;
        uint64_t others = 1;
        assert_int_equal(t->state, PQS_TRIAL_FINISHED);
        assert_int_equal(t->block, i / 2);
        assert_int_equal(t->position, i % 2);
        /* What the window counted, not what the preflight saw. */
        assert_string_equal(pqs_result_fact_of(r, PQS_CLIENT, "group", &others), "of the window");
        assert_int_equal(others, 0);
        assert_int_equal(pqs_result_get(r, PQS_CLIENT, "completed", 0), 25);
        assert_string_equal(pqs_result_fact_of(r, PQS_CLIENT, "message.client_hello", NULL), "230");
        assert_int_equal(pqs_hist_n(pqs_result_hist_of(r, PQS_CLASS_FIRST, PQS_PHASE_TLS)), 1);
        assert_int_equal(pqs_result_get(r, PQS_CLIENT, "warmup.completed", 0), 4);
        /* Server: differences between the two marks, and the gauge as it was last. */
        assert_int_equal(pqs_result_get(r, PQS_SERVER, "accepted", 0), 25);
        assert_int_equal(pqs_result_get(r, PQS_SERVER, "open", 0), 1);
        assert_string_equal(pqs_result_fact_of(r, PQS_SERVER, "stack", NULL), "openssl");
        assert_null(pqs_result_fact_of(r, PQS_SERVER, "pid", NULL));
        assert_string_equal(pqs_result_fact_of(r, PQS_SERVER, "env_after.load1", NULL), "0.50");
        assert_string_equal(pqs_result_fact_of(r, PQS_SERVER, "of its whole life", NULL), "yes");
        assert_null(pqs_result_fact_of(r, PQS_SERVER, "port", NULL));
        assert_string_equal(pqs_result_fact_of(r, PQS_CLIENT, "ports seen", NULL), "1001,1002");
        assert_string_equal(pqs_result_fact_of(r, PQS_CLIENT, "asked.level", NULL), run.arms[t->arm].levels[0].level);
        assert_string_equal(pqs_result_fact_of(r, PQS_CLIENT, "target", NULL), "own");
        PQS_BUF samples = {0};
        assert_int_equal(pqs_store_samples(out_dir, t->arm, t->block, &samples, &err), 0);
        assert_int_equal(samples.len, 2 * PQS_SAMPLE_BYTES);
    }
    assert_string_equal(pqs_run_get(&run, "blocks"), "2");
    assert_string_equal(run.events[run.n_events - 1].kind, "end");
    pqs_run_release(&run);
    /* The place is taken now. */
    assert_int_equal(run_fake("", &stored), PQS_E_USAGE);
    assert_int_equal(stored, 0);
    assert_non_null(strstr(err.msg, "already holds a run"));
}

static void failed_preflight_leaves_nothing(void **state) {
    (void)state;
    size_t stored = 1;
    explained = false;
    assert_int_equal(run_fake("refuse", &stored), PQS_E_ENV);
    assert_int_equal(stored, 0);
    assert_string_equal(err.msg, "preflight of arm A: client worker: no handshake today");
    assert_true(explained);
    assert_int_equal(access(out_dir, F_OK), -1);
}

/* Every trial dies: each is kept as such, and the run goes on. */
static void check_deaths(const char *what, const char *note) {
    size_t stored = 0;
    int64_t begin_ns = pqs_now_ns();
    assert_int_equal(run_fake(what, &stored), 0);
    assert_true(seconds_since(begin_ns) < 25); /* four deaths, none waited for until a deadline of 30 s */
    struct pqs_run run = {0};
    assert_int_equal(pqs_store_read(out_dir, &run, &err), 0);
    assert_int_equal(run.n_trials, 4);
    for (size_t i = 0; i < run.n_trials; i++) {
        assert_int_equal(run.trials[i].state, PQS_TRIAL_DIED);
        assert_string_equal(run.trials[i].verdict, "unfit");
        assert_string_equal(run.trials[i].note, note);
    }
    pqs_run_release(&run);
}

static void client_dies_in_every_trial(void **state) {
    (void)state;
    check_deaths("exit", "the client worker died: exit status 7");
}

static void server_dies_in_every_trial(void **state) {
    (void)state;
    check_deaths("lose the server", "the server worker died: killed by signal 9 (Killed)");
}

static void interrupted_run_keeps_what_is_finished(void **state) {
    (void)state;
    size_t stored = 0;
    assert_int_equal(run_fake("interrupt", &stored), PQS_E_FAILED);
    pqs_interrupt_reset();
    assert_int_equal(err.sys, EINTR);
    assert_int_equal(stored, 2); /* the first block */
    struct pqs_run run = {0};
    assert_int_equal(pqs_store_read(out_dir, &run, &err), 0);
    assert_int_equal(run.n_trials, 2);
    assert_string_equal(run.events[run.n_events - 1].kind, "interrupted");
    pqs_run_release(&run);
}

static void bad_places_are_refused(void **state) {
    (void)state;
    static const char *const places[] = {"", "/dev/null", "/dev/null/x"};
    char kept[sizeof out_dir];
    memcpy(kept, out_dir, sizeof kept);
    for (size_t i = 0; i < PQS_COUNT(places); i++) {
        size_t stored = 1;
        snprintf(out_dir, sizeof out_dir, "%s", places[i]);
        assert_int_equal(run_fake("", &stored), PQS_E_USAGE);
        assert_int_equal(stored, 0);
    }
    memcpy(out_dir, kept, sizeof kept);
}

/* The TLS workload */

static void server_groups_are_the_union(void **state) {
    (void)state;
    static const struct {
        const char *arms[3];
        const char *list;
    } cases[] = {
        {{"X25519", "X25519MLKEM768"}, "X25519MLKEM768:X25519"},
        {{"X25519MLKEM768:X25519", "?P-256/*x25519", "MLKEM768"}, "X25519MLKEM768:MLKEM768:X25519:?P-256"},
        {{"X25519:?bogus", "X25519:-X448"}, "X25519:?bogus"},
        {{"secp256r1", "P-256"}, "secp256r1"},
        {{"X25519"}, "X25519"},
    };
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        size_t n = 0;
        while (n < 3 && cases[i].arms[n])
            n++;
        struct pqs_plan plan = {0};
        PQS_BUF list = {0};
        const struct pqs_factor factor = {.name = "groups", .levels = cases[i].arms, .n_levels = n};
        assert_int_equal(pqs_plan_cross(&plan, &factor, 1, 0, &err), 0);
        pqs_tls_server_groups(&plan, &list);
        assert_string_equal(pqs_buf_text(&list), cases[i].list);
        pqs_plan_release(&plan);
    }
}

static void tls_preflight_is_checked(void **state) {
    (void)state;
    static const struct {
        const char *asked, *got, *other, *verified, *insecure;
        bool ok;
    } cases[] = {
        {"X25519", "x25519", NULL, "yes", NULL, true},
        {"P-256", "secp256r1", NULL, "yes", NULL, true},
        {"X25519:X25519MLKEM768", "X25519MLKEM768", NULL, "yes", NULL, true},
        {"X25519", "X25519MLKEM768", NULL, "yes", NULL, false},
        {"X25519:X25519MLKEM768", "X25519MLKEM768", "x25519", "yes", NULL, false},
        {"X25519", "x25519", NULL, "no", NULL, false},
        {"X25519", "x25519", NULL, "no", "yes", true},
        {"X25519", "x25519", NULL, NULL, NULL, false},
        {"X25519", NULL, NULL, "yes", NULL, false},
        {NULL, "X25519MLKEM768", NULL, "yes", NULL, true},
    };
    for (size_t i = 0; i < PQS_COUNT(cases); i++) {
        struct pqs_spec spec = {0};
        struct pqs_result r = {0};
        pqs_spec_set(&spec, "groups", cases[i].asked);
        pqs_spec_set(&spec, "insecure", cases[i].insecure);
        if (cases[i].got)
            pqs_result_fact(&r, PQS_CLIENT, "group", cases[i].got, 2);
        if (cases[i].other)
            pqs_result_fact(&r, PQS_CLIENT, "group", cases[i].other, 1);
        if (cases[i].verified)
            pqs_result_fact(&r, PQS_CLIENT, "verified", cases[i].verified, 2);
        assert_int_equal(pqs_workload_tls.check(&spec, &r, &err), cases[i].ok ? 0 : PQS_E_FAILED);
        pqs_spec_release(&spec);
        pqs_result_release(&r);
    }
}

static void tls_failure_is_explained(void **state) {
    (void)state;
    struct pqs_spec spec = {0};
    struct pqs_result facts = {0}, counts = {0};
    pqs_spec_set(&spec, "groups", "X25519");
    pqs_result_fact(&facts, PQS_SERVER, "server_groups", "X25519MLKEM768", 1);
    pqs_result_count(&counts, PQS_SERVER, "failed.protocol", 1);
    pqs_result_count(&counts, PQS_SERVER, "failed.timeout", 0);
    (void)pqs_fail(&err, PQS_E_FAILED, "it failed");
    pqs_workload_tls.explain(&spec, &facts, &counts, &err);
    assert_int_equal(err.code, PQS_E_FAILED);
    assert_non_null(strstr(err.msg, "it failed\n"));
    assert_non_null(strstr(err.msg, "client offers:  groups X25519;"));
    assert_non_null(strstr(err.msg, "server accepts: groups X25519MLKEM768;"));
    assert_non_null(strstr(err.msg, "failed.protocol 1"));
    assert_null(strstr(err.msg, "failed.timeout"));
    assert_non_null(strstr(err.msg, "hint: no group in common"));
    pqs_spec_release(&spec);
    pqs_result_release(&facts);
    pqs_result_release(&counts);
}

static int fresh_place(void **state) {
    static int n;
    (void)state;
    snprintf(out_dir, sizeof out_dir, "%s/%d/run", base_dir, n++);
    return 0;
}

static int set_up(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    return mkdtemp(base_dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    PQS_FREE char *command = pqs_format("rm -rf '%s'", base_dir);
    return system(command);
}

int main(void) {
    if (!getenv("PQSHAKE_WORKER_DIR")) {
        fprintf(stderr, "PQSHAKE_WORKER_DIR must name the directory of the fake worker, as ctest does\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find_names_all_places),
        cmocka_unit_test(missed_deadline),
        cmocka_unit_test(death_says_how),
        cmocka_unit_test(watched_death_ends_the_wait),
        cmocka_unit_test(error_answer_is_passed_on),
        cmocka_unit_test(protocol_errors),
        cmocka_unit_test(other_releases_are_refused),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(silence_is_noticed),
        cmocka_unit_test(stop_ends_one_that_stays),
        cmocka_unit_test_setup(whole_run, fresh_place),
        cmocka_unit_test_setup(failed_preflight_leaves_nothing, fresh_place),
        cmocka_unit_test_setup(client_dies_in_every_trial, fresh_place),
        cmocka_unit_test_setup(server_dies_in_every_trial, fresh_place),
        cmocka_unit_test_setup(interrupted_run_keeps_what_is_finished, fresh_place),
        cmocka_unit_test(bad_places_are_refused),
        cmocka_unit_test(server_groups_are_the_union),
        cmocka_unit_test(tls_preflight_is_checked),
        cmocka_unit_test(tls_failure_is_explained),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
