/* Plans, and runs on disk: what was stored comes back to the byte, whatever is killed, and damage is refused with a reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "plan/plan.h"
#include "stats/hist.h"
#include "store/store.h"

/* ---- plans ---- */

static const char *const groups[] = {"X25519", "X25519MLKEM768"};
static const char *const certs[] = {"ECDSA-P256", "ML-DSA-65", "ML-DSA-87"};
static const char *const one_cert[] = {"ML-DSA-65"};

static void plan_crosses_factors(void **state) {
    (void)state;
    struct pqs_err err = {0};
    struct pqs_plan plan = {0};
    const struct pqs_factor factors[] = {{"group", groups, 2, NULL}, {"cert", certs, 3, NULL}};
    assert_int_equal(pqs_plan_cross(&plan, factors, 2, 0, &err), 0);
    const char *const names[] = {"X25519 ECDSA-P256",         "X25519 ML-DSA-65",         "X25519 ML-DSA-87",
                                 "X25519MLKEM768 ECDSA-P256", "X25519MLKEM768 ML-DSA-65", "X25519MLKEM768 ML-DSA-87"};
    assert_int_equal(plan.n_arms, 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(plan.arms[i].name, names[i]);
    assert_int_equal(plan.baseline, 0);
    assert_string_equal(plan.arms[1].key, "cert=ML-DSA-65 group=X25519"); /* sorted by factor */
    assert_true(plan.arms[1].hash == UINT64_C(0x084cf3b342643bd8));       /* FNV-1a 64 of that, computed elsewhere */
    assert_string_equal(pqs_arm_level(&plan.arms[4], "group"), "X25519MLKEM768");
    assert_string_equal(pqs_arm_level(&plan.arms[4], "cert"), "ML-DSA-65");
    assert_null(pqs_arm_level(&plan.arms[4], "rate"));

    assert_int_equal(pqs_plan_set_baseline(&plan, "x25519mlkem768 ml-dsa-65", &err), 0);
    assert_int_equal(plan.baseline, 4);
    assert_int_equal(pqs_plan_set_baseline(&plan, "X25519", &err), PQS_E_USAGE);
    assert_int_equal(plan.baseline, 4);
    for (size_t i = 0; i < 6; i++)
        assert_non_null(strstr(err.msg, names[i]));

    /* again, with one factor that does not vary: it is in the key, not in the name */
    const struct pqs_factor one_varies[] = {{"group", groups, 2, NULL}, {"cert", one_cert, 1, NULL}};
    assert_int_equal(pqs_plan_cross(&plan, one_varies, 2, 0, &err), 0);
    assert_int_equal(plan.n_arms, 2);
    assert_int_equal(plan.baseline, 0);
    assert_string_equal(plan.arms[1].name, "X25519MLKEM768");
    assert_string_equal(plan.arms[1].key, "cert=ML-DSA-65 group=X25519MLKEM768");

    const struct pqs_factor none_varies[] = {{"group", groups, 1, NULL}, {"cert", one_cert, 1, NULL}};
    assert_int_equal(pqs_plan_cross(&plan, none_varies, 2, 0, &err), 0);
    assert_int_equal(plan.n_arms, 1);
    assert_string_equal(plan.arms[0].name, "X25519 ML-DSA-65");
    pqs_plan_release(&plan);
    assert_null(plan.arms);
}

static void plan_arm_against_itself(void **state) {
    (void)state;
    struct pqs_err err = {0};
    struct pqs_plan plan = {0};
    const struct pqs_factor factors[] = {{"group", groups, 2, NULL}};
    assert_int_equal(pqs_plan_cross(&plan, factors, 1, 1, &err), 0);
    assert_int_equal(plan.n_arms, 4);
    assert_string_equal(plan.arms[0].name, "X25519");
    assert_string_equal(plan.arms[1].name, "X25519 (again)");
    assert_string_equal(plan.arms[3].name, "X25519MLKEM768 (again)");
    assert_string_equal(plan.arms[1].key, "aa=again group=X25519");
    assert_string_equal(pqs_arm_level(&plan.arms[1], "group"), "X25519");
    assert_string_equal(pqs_arm_level(&plan.arms[1], "aa"), "again");
    assert_null(pqs_arm_level(&plan.arms[0], "aa"));
    assert_true(plan.arms[0].hash != plan.arms[1].hash);
    pqs_plan_release(&plan);
}

static void expect_no_plan(const struct pqs_factor *factors, size_t n, int aa, const char *says) {
    struct pqs_err err = {0};
    struct pqs_plan plan = {0};
    assert_int_equal(pqs_plan_cross(&plan, factors, n, aa, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, says));
    assert_null(plan.arms);
}

static void plan_refuses_bad_factors(void **state) {
    (void)state;
    const char *const twice[] = {"X25519", "P-256", "x25519"};
    expect_no_plan((const struct pqs_factor[]){{"group", twice, 3, NULL}}, 1, 0, "x25519 is given twice");
    const char *const empty[] = {""};
    expect_no_plan((const struct pqs_factor[]){{"group", empty, 1, NULL}}, 1, 0, "0 bytes");
    expect_no_plan((const struct pqs_factor[]){{"group", empty, 0, NULL}}, 1, 0, "no level");
    expect_no_plan(NULL, 0, 0, "0 factors");
    expect_no_plan((const struct pqs_factor[]){{"group", groups, 2, NULL}, {"group", certs, 2, NULL}}, 2, 0,
                   "factor group is given twice");

    char long_level[97];
    memset(long_level, 'x', sizeof long_level - 1);
    long_level[96] = '\0';
    const char *const too_long[] = {long_level};
    expect_no_plan((const struct pqs_factor[]){{"group", too_long, 1, NULL}}, 1, 0, "96 bytes");
    const char *const fits[] = {long_level + 1};
    struct pqs_plan plan = {0};
    assert_int_equal(pqs_plan_cross(&plan, &(const struct pqs_factor){"group", fits, 1, NULL}, 1, 0, NULL), 0);
    assert_string_equal(pqs_arm_level(&plan.arms[0], "group"), long_level + 1);
    pqs_plan_release(&plan);
    /* each level fits, their name does not */
    expect_no_plan((const struct pqs_factor[]){{"a", fits, 1, NULL}, {"b", fits, 1, NULL}, {"c", fits, 1, NULL}}, 3, 0,
                   "name of arm");

    /* 64 arms are possible, 65 are not, nor 33 twice */
    char text[65][12];
    const char *levels[65];
    for (int i = 0; i < 65; i++) {
        snprintf(text[i], sizeof text[i], "%d", i);
        levels[i] = text[i];
    }
    expect_no_plan((const struct pqs_factor[]){{"rate", levels, 65, NULL}}, 1, 0, "more than 64 arms");
    expect_no_plan((const struct pqs_factor[]){{"rate", levels, 33, NULL}}, 1, 1, "more than 64 arms");
    expect_no_plan((const struct pqs_factor[]){{"rate", levels, 33, NULL}, {"group", groups, 2, NULL}}, 2, 0,
                   "more than 64 arms");
    assert_int_equal(pqs_plan_cross(&plan, &(const struct pqs_factor){"rate", levels, 64, NULL}, 1, 0, NULL), 0);
    assert_int_equal(plan.n_arms, 64);
    assert_int_equal(pqs_plan_cross(&plan, &(const struct pqs_factor){"rate", levels, 32, NULL}, 1, 1, NULL), 0);
    assert_int_equal(plan.n_arms, 64);
    pqs_plan_release(&plan);
}

static void plan_order_is_uniform(void **state) {
    (void)state;
    enum { BLOCKS = 6000, EXPECTED = BLOCKS / 6 };
    struct pqs_arm arms[PQS_ARMS_MAX] = {0};
    struct pqs_plan plan = {.arms = arms, .n_arms = 3, .schedule.seed = 42};
    size_t counts[27] = {0};
    for (uint32_t block = 0; block < BLOCKS; block++) {
        size_t order[3];
        pqs_plan_order(&plan, block, order);
        assert_true(order[0] < 3 && order[1] < 3 && order[2] < 3);
        counts[order[0] * 9 + order[1] * 3 + order[2]]++;
    }
    int permutations = 0;
    for (size_t i = 0; i < 27; i++) {
        bool is_permutation = i / 9 != i / 3 % 3 && i / 9 != i % 3 && i / 3 % 3 != i % 3;
        permutations += is_permutation;
        if (is_permutation) /* 29 is one standard deviation */
            assert_in_range(counts[i], EXPECTED - 145, EXPECTED + 145);
        else
            assert_int_equal(counts[i], 0);
    }
    assert_int_equal(permutations, 6);
}

static void plan_order_depends_on_block_and_seed(void **state) {
    (void)state;
    struct pqs_arm arms[PQS_ARMS_MAX] = {0};
    struct pqs_plan plan = {.arms = arms, .n_arms = PQS_ARMS_MAX, .schedule.seed = 7};
    size_t first[PQS_ARMS_MAX], other[PQS_ARMS_MAX];
    pqs_plan_order(&plan, 5, first);
    bool seen[PQS_ARMS_MAX] = {false};
    for (size_t i = 0; i < PQS_ARMS_MAX; i++) {
        assert_true(first[i] < PQS_ARMS_MAX && !seen[first[i]]);
        seen[first[i]] = true;
    }
    pqs_plan_order(&plan, 5, other);
    assert_memory_equal(first, other, sizeof first);
    pqs_plan_order(&plan, 6, other);
    assert_memory_not_equal(first, other, sizeof first);
    plan.schedule.seed = 8;
    pqs_plan_order(&plan, 5, other);
    assert_memory_not_equal(first, other, sizeof first);
}

/* ---- runs ---- */

struct dir {
    char path[64];
    char db[80];
    char journal[96];
};

static int make_dir(void **state) {
    struct dir *d = pqs_calloc(1, sizeof *d);
    strcpy(d->path, "/tmp/pqshake-test-XXXXXX");
    assert_non_null(mkdtemp(d->path));
    snprintf(d->db, sizeof d->db, "%s/run.db", d->path);
    snprintf(d->journal, sizeof d->journal, "%s-journal", d->db);
    *state = d;
    return 0;
}

static int remove_dir(void **state) {
    struct dir *d = *state;
    unlink(d->db);
    unlink(d->journal);
    int rc = rmdir(d->path); /* fails when anything else was left there */
    free(d);
    return rc;
}

static void fill_run(struct pqs_run *run) {
    struct pqs_plan plan = {0};
    const struct pqs_factor factors[] = {{"group", groups, 2, NULL}, {"cert", one_cert, 1, NULL}};
    assert_int_equal(pqs_plan_cross(&plan, factors, 2, 0, NULL), 0);
    run->arms = plan.arms;
    run->n_arms = run->cap_arms = plan.n_arms;
    pqs_run_set(run, "workload", "tls");
    pqs_run_set(run, "command", "pqshake tls --group 'X25519,X25519MLKEM768' \xc3\xa9");
    pqs_run_set(run, "seed", "18446744073709551615");
    pqs_run_set(run, "workload", "kex");
    pqs_run_set(run, "workload", "tls");
}

static void fill_trial(struct pqs_trial *t, uint32_t arm, uint32_t block, size_t n_samples) {
    *t = (struct pqs_trial){.arm = arm, .block = block, .position = arm, .verdict = "valid"};
    snprintf(t->started_utc, sizeof t->started_utc, "2026-11-30T19:48:%02uZ", arm * 10 + block);
    struct pqs_rng rng = pqs_rng_stream(9, "trial", block, arm);
    struct pqs_result *r = &t->result;
    pqs_result_count(r, PQS_CLIENT, "completed", (int64_t)n_samples);
    pqs_result_count(r, PQS_SERVER, "completed", -(int64_t)block);
    pqs_result_count(r, PQS_CLIENT, "largest", INT64_MAX);
    pqs_result_fact(r, PQS_CLIENT, "group", groups[arm], n_samples);
    pqs_result_fact(r, PQS_CLIENT, "group", "other", UINT64_MAX);
    pqs_result_fact(r, PQS_SERVER, "cpus", "", 1);
    for (int phase = 0; phase < PQS_PHASES; phase += 3) {
        struct pqs_hist *h = pqs_hist_new();
        for (int i = 0; i < 300; i++)
            pqs_hist_add(h, (int64_t)pqs_rng_below(&rng, 100000000));
        pqs_result_hist(r, PQS_CLASS_FULL, (enum pqs_phase)phase, h);
    }
    for (size_t i = 0; i < n_samples; i++) {
        struct pqs_sample s = {
            .scheduled_ns = i, .started_ns = pqs_rng_next(&rng), .done_ns = PQS_SAMPLE_NONE, .thread = arm};
        pqs_sample_put(&r->samples, &s);
    }
}

static int add_trial(struct pqs_store *store, uint32_t arm, uint32_t block, size_t n_samples, struct pqs_err *err) {
    struct pqs_trial t;
    fill_trial(&t, arm, block, n_samples);
    int rc = pqs_store_add_trial(store, &t, err);
    pqs_result_release(&t.result);
    return rc;
}

static void assert_same_bytes(const struct pqs_buf *a, const struct pqs_buf *b) {
    assert_int_equal(a->len, b->len);
    if (a->len > 0)
        assert_memory_equal(a->data, b->data, a->len);
}

/* The trial that was read equals the one that fill_trial makes, samples included. */
static void assert_trial(const char *dir, const struct pqs_trial *got, uint32_t arm, uint32_t block, size_t n_samples) {
    struct pqs_trial want;
    fill_trial(&want, arm, block, n_samples);
    assert_int_equal(got->arm, arm);
    assert_int_equal(got->block, block);
    assert_int_equal(got->position, want.position);
    assert_int_equal(got->state, want.state);
    assert_string_equal(got->verdict, want.verdict);
    assert_string_equal(got->started_utc, want.started_utc);
    assert_string_equal(got->note, want.note);
    PQS_BUF want_rows = {0};
    PQS_BUF got_rows = {0};
    pqs_result_encode(&want.result, &want_rows); /* counters, facts and histograms, in order */
    pqs_result_encode(&got->result, &got_rows);
    assert_same_bytes(&want_rows, &got_rows);
    assert_int_equal(got->result.samples.len, 0);
    struct pqs_err err = {0};
    PQS_BUF samples = {0};
    assert_int_equal(pqs_store_samples(dir, arm, block, &samples, &err), 0);
    assert_same_bytes(&want.result.samples, &samples);
    pqs_result_release(&want.result);
}

static void store_round_trip(void **state) {
    const struct dir *d = *state;
    struct pqs_err err = {0};
    struct pqs_run run = {0}, back = {0};
    struct pqs_store *store = NULL;
    fill_run(&run);
    assert_int_equal(pqs_store_create(d->path, &run, &store, &err), 0);
    assert_int_equal(pqs_store_add_event(store, "start", "", &err), 0);
    const uint32_t order[3][2] = {{1, 0}, {0, 1}, {1, 0}};
    const size_t big = (8u << 20) / PQS_SAMPLE_BYTES + 3; /* one chunk and a bit */
    for (uint32_t block = 0; block < 3; block++)
        for (int i = 0; i < 2; i++) {
            uint32_t arm = order[block][i];
            assert_int_equal(add_trial(store, arm, block, block == 1 && arm == 1 ? big : block * 10, &err), 0);
        }
    struct pqs_trial died = {.arm = 0, .block = 3, .position = 1, .state = PQS_TRIAL_DIED, .verdict = "unfit"};
    memset(died.note, 'n', sizeof died.note - 1);
    assert_int_equal(pqs_store_add_trial(store, &died, &err), 0);
    assert_int_equal(pqs_store_add_event(store, "warning", "it's \"odd\"; DROP TABLE run", &err), 0);
    pqs_store_close(store);
    assert_int_equal(access(d->journal, F_OK), -1); /* one file is the whole run */

    assert_int_equal(pqs_store_read(d->path, &back, &err), 0);
    assert_int_equal(back.n_settings, 3);
    assert_string_equal(back.settings[0].name, "workload"); /* the first to be set stays first */
    for (size_t i = 0; i < run.n_settings; i++)
        assert_string_equal(pqs_run_get(&back, run.settings[i].name), run.settings[i].value);
    assert_null(pqs_run_get(&back, "rate_per_s"));
    assert_int_equal(back.n_arms, 2);
    assert_memory_equal(back.arms, run.arms, 2 * sizeof *run.arms);
    assert_int_equal(back.n_trials, 7);
    for (uint32_t block = 0; block < 3; block++)
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t arm = order[block][i];
            assert_trial(d->path, &back.trials[block * 2 + i], arm, block, block == 1 && arm == 1 ? big : block * 10);
        }
    assert_int_equal(back.trials[6].state, PQS_TRIAL_DIED);
    assert_string_equal(back.trials[6].note, died.note);
    assert_int_equal(back.n_events, 2);
    assert_string_equal(back.events[0].kind, "start");
    assert_string_equal(back.events[0].text, "");
    assert_int_equal(strlen(back.events[0].utc), strlen("2026-11-30T19:48:44Z"));
    assert_string_equal(back.events[1].text, "it's \"odd\"; DROP TABLE run");

    PQS_BUF samples = {0};
    pqs_put_u8(&samples, 1);
    assert_int_equal(pqs_store_samples(d->path, 1, 0, &samples, &err), 0); /* a trial without samples: nothing to append */
    assert_int_equal(samples.len, 1);
    assert_int_equal(pqs_store_samples(d->path, 1, 2, &samples, &err), 0); /* appends */
    assert_int_equal(samples.len, 1 + 20 * PQS_SAMPLE_BYTES);
    assert_int_equal(pqs_store_samples(d->path, 1, 9, &samples, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "no trial of arm 1 in block 9"));
    assert_int_equal(samples.len, 1 + 20 * PQS_SAMPLE_BYTES);
    pqs_run_release(&back);
    pqs_run_release(&run);
}

static void store_refuses_bad_trials(void **state) {
    const struct dir *d = *state;
    struct pqs_err err = {0};
    struct pqs_run run = {0}, back = {0};
    struct pqs_store *store = NULL;
    fill_run(&run);
    assert_int_equal(pqs_store_create(d->path, &run, &store, &err), 0);
    assert_int_equal(add_trial(store, 0, 0, 1, &err), 0);
    assert_int_equal(add_trial(store, 0, 0, 1, &err), PQS_E_FAILED); /* the same trial again */
    assert_non_null(strstr(err.msg, "trial of arm 0 in block 0"));
    struct pqs_trial unknown = {.arm = 2, .block = 1, .verdict = "valid"};
    assert_int_equal(pqs_store_add_trial(store, &unknown, &err), PQS_E_FAILED);
    assert_int_equal(add_trial(store, 1, 0, 1, &err), 0); /* and it still works */
    pqs_store_close(store);
    assert_int_equal(pqs_store_read(d->path, &back, &err), 0);
    assert_int_equal(back.n_trials, 2);
    assert_trial(d->path, &back.trials[0], 0, 0, 1);
    assert_trial(d->path, &back.trials[1], 1, 0, 1);
    pqs_run_release(&back);
    pqs_run_release(&run);
}

static void store_refuses_second_creator(void **state) {
    const struct dir *d = *state;
    struct pqs_err err = {0};
    struct pqs_run run = {0};
    struct pqs_store *store = NULL, *second = NULL;
    fill_run(&run);
    assert_int_equal(pqs_store_create(d->path, &run, &store, &err), 0);
    assert_int_equal(pqs_store_create(d->path, &run, &second, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "another process"));
    assert_non_null(strstr(err.msg, "--out"));
    assert_non_null(strstr(err.msg, d->path));
    pqs_store_close(store);
    assert_int_equal(pqs_store_create(d->path, &run, &second, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "exists"));
    assert_non_null(strstr(err.msg, "--out"));
    assert_null(second);

    assert_int_equal(pqs_store_create("/nonexistent/pqshake", &run, &second, &err), PQS_E_USAGE);
    assert_int_equal(err.sys, ENOENT);
    pqs_store_close(NULL);
    pqs_run_release(&run);
}

static void store_leaves_nothing_when_creating_fails(void **state) {
    const struct dir *d = *state;
    struct pqs_err err = {0};
    struct pqs_run run = {0};
    struct pqs_store *store = NULL;
    fill_run(&run);
    struct pqs_arm kept = run.arms[1];
    run.arms[1] = run.arms[0]; /* two arms of one key: refused by the table */
    assert_int_equal(pqs_store_create(d->path, &run, &store, &err), PQS_E_FAILED);
    assert_int_equal(access(d->db, F_OK), -1);
    run.arms[1] = kept;
    assert_int_equal(pqs_store_create(d->path, &run, &store, &err), 0);
    pqs_store_close(store);
    pqs_run_release(&run);
}

/* A writing process: takes one step per byte from `in`, answers each by a byte on `out`; ends at end of file. */
static void writer_process(const char *dir, int in, int out, size_t n_samples) {
    struct pqs_err err;
    struct pqs_run run = {0};
    struct pqs_store *store = NULL;
    fill_run(&run);
    if (pqs_store_create(dir, &run, &store, &err) < 0)
        _exit(1);
    char step = 0;
    for (uint32_t i = 0; read(in, &step, 1) == 1; i++) {
        if (add_trial(store, i % 2, i / 2, n_samples, &err) < 0 || write(out, "x", 1) != 1)
            _exit(2);
    }
    pqs_store_close(store);
    _exit(0);
}

struct writer {
    pid_t pid;
    int to, from;
};

static struct writer start_writer(const char *dir, size_t n_samples) {
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(to[1]);
        close(from[0]);
        writer_process(dir, to[0], from[1], n_samples);
    }
    close(to[0]);
    close(from[1]);
    return (struct writer){.pid = pid, .to = to[1], .from = from[0]};
}

static void start_step(const struct writer *w) {
    assert_int_equal(write(w->to, "x", 1), 1);
}

static void finish_step(const struct writer *w) {
    char answer = 0;
    assert_int_equal(read(w->from, &answer, 1), 1);
}

/* Ends the writer, by SIGKILL or end of file, and returns its wait status. */
static int end_writer(const struct writer *w, bool by_force) {
    if (by_force)
        kill(w->pid, SIGKILL);
    close(w->to);
    int status = -1;
    assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
    close(w->from);
    return status;
}

static void assert_trials(const char *dir, uint32_t n, size_t n_samples) {
    struct pqs_err err = {0};
    struct pqs_run run = {0};
    assert_int_equal(pqs_store_read(dir, &run, &err), 0);
    assert_int_equal(run.n_arms, 2);
    assert_int_equal(run.n_trials, n);
    for (uint32_t i = 0; i < n; i++)
        assert_trial(dir, &run.trials[i], i % 2, i / 2, n_samples);
    pqs_run_release(&run);
}

static void store_reader_beside_writer(void **state) {
    const struct dir *d = *state;
    struct writer w = start_writer(d->path, 5);
    for (uint32_t n = 1; n <= 3; n++) {
        start_step(&w);
        finish_step(&w);
        assert_trials(d->path, n, 5);
    }
    struct pqs_err err = {0};
    struct pqs_run run = {0};
    struct pqs_store *store = NULL;
    fill_run(&run);
    assert_int_equal(pqs_store_create(d->path, &run, &store, &err), PQS_E_USAGE);
    assert_non_null(strstr(err.msg, "another process"));
    start_step(&w); /* it was not disturbed */
    finish_step(&w);
    assert_int_equal(end_writer(&w, false), 0);
    assert_trials(d->path, 4, 5);
    pqs_run_release(&run);
}

static void store_reads_while_writer_commits(void **state) {
    /* Reads all the time, also in the middle of transactions: waits, or sees the moment before or after. */
    const struct dir *d = *state;
    struct writer w = start_writer(d->path, 20000);
    start_step(&w);
    finish_step(&w);
    for (int i = 0; i < 5; i++)
        start_step(&w);
    size_t seen = 0;
    while (seen < 6) {
        struct pqs_err err = {0};
        struct pqs_run run = {0};
        assert_int_equal(pqs_store_read(d->path, &run, &err), 0);
        assert_true(run.n_trials >= seen && run.n_trials >= 1);
        seen = run.n_trials;
        assert_trial(d->path, &run.trials[seen - 1], (uint32_t)(seen - 1) % 2, (uint32_t)(seen - 1) / 2, 20000);
        pqs_run_release(&run);
    }
    assert_int_equal(end_writer(&w, false), 0);
}

static void store_survives_killed_writer(void **state) {
    const struct dir *d = *state;
    struct writer w = start_writer(d->path, 5);
    for (int i = 0; i < 3; i++) {
        start_step(&w);
        finish_step(&w);
    }
    int status = end_writer(&w, true);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_trials(d->path, 3, 5);
}

static off_t file_size(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* Killed while a trial of 16 MB is being written: part of it is in the file already, with the journal that undoes it. */
static void store_survives_kill_in_transaction(void **state) {
    const struct dir *d = *state;
    const size_t n_samples = (16u << 20) / PQS_SAMPLE_BYTES;
    bool hot = false;
    for (int attempt = 0; attempt < 10 && !hot; attempt++) { /* the kill may come too late */
        unlink(d->db);
        unlink(d->journal);
        struct writer w = start_writer(d->path, n_samples);
        start_step(&w);
        finish_step(&w);
        off_t before = file_size(d->db);
        start_step(&w);
        while (file_size(d->db) < before + (1 << 20))
            usleep(50);
        end_writer(&w, true);
        hot = file_size(d->journal) > 0;
    }
    assert_true(hot);
    assert_trials(d->path, 1, n_samples);
    assert_int_equal(access(d->journal, F_OK), -1); /* the reader has undone it */
}

/* ---- damage ---- */

/* A small finished run, and its bytes. */
static void make_small_run(const struct dir *d, struct pqs_buf *ret_bytes) {
    struct pqs_err err = {0};
    struct pqs_run run = {0};
    struct pqs_store *store = NULL;
    fill_run(&run);
    assert_int_equal(pqs_store_create(d->path, &run, &store, &err), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(add_trial(store, i % 2, i / 2, 100, &err), 0);
    assert_int_equal(pqs_store_add_event(store, "end", "done", &err), 0);
    pqs_store_close(store);
    pqs_run_release(&run);
    assert_int_equal(pqs_read_file(d->db, 64 << 20, ret_bytes, &err), 0);
}

static void put_file(const char *path, const uint8_t *data, size_t len) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void expect_unreadable(const struct dir *d, int code, const char *says) {
    struct pqs_err err = {0};
    struct pqs_run run = {0};
    PQS_BUF samples = {0};
    assert_int_equal(pqs_store_read(d->path, &run, &err), code);
    assert_non_null(strstr(err.msg, says));
    assert_non_null(strstr(err.msg, d->db));
    assert_null(run.arms);
    assert_int_equal(pqs_store_samples(d->path, 0, 0, &samples, &err), code);
}

static void store_refuses_what_is_no_run(void **state) {
    const struct dir *d = *state;
    expect_unreadable(d, PQS_E_USAGE, "No such file");
    assert_int_equal(access(d->db, F_OK), -1); /* reading creates nothing */
    put_file(d->db, (const uint8_t *)"", 0);
    expect_unreadable(d, PQS_E_USAGE, "not a run of pqshake");
    PQS_BUF text = {0};
    for (int i = 0; i < 1000; i++)
        pqs_buf_addf(&text, "this is no database\n");
    put_file(d->db, text.data, text.len);
    expect_unreadable(d, PQS_E_FAILED, "not a database");
    unlink(d->db);

    PQS_BUF bytes = {0};
    make_small_run(d, &bytes);
    /* SQLite's file header, big-endian: user_version at 60, application_id at 68. */
    bytes.data[63] = PQS_STORE_VERSION + 1;
    put_file(d->db, bytes.data, bytes.len);
    expect_unreadable(d, PQS_E_USAGE, "schema version 2");
    bytes.data[63] = PQS_STORE_VERSION;
    bytes.data[68] ^= 1;
    put_file(d->db, bytes.data, bytes.len);
    expect_unreadable(d, PQS_E_USAGE, "not a run of pqshake");
    bytes.data[68] ^= 1;
    put_file(d->db, bytes.data, bytes.len);
    assert_trials(d->path, 4, 100);
}

static void store_refuses_truncated_file(void **state) {
    const struct dir *d = *state;
    PQS_BUF bytes = {0};
    make_small_run(d, &bytes);
    for (size_t len = 1; len < bytes.len; len += 997) {
        put_file(d->db, bytes.data, len);
        struct pqs_err err = {0};
        struct pqs_run run = {0};
        assert_true(pqs_store_read(d->path, &run, &err) < 0);
        assert_non_null(strstr(err.msg, d->db));
    }
    put_file(d->db, bytes.data, bytes.len - 1);
    expect_unreadable(d, PQS_E_FAILED, "cut short");
}

/* Nothing on disk makes the reader crash, whether or not SQLite notices the damage. */
static void store_survives_mutation(void **state) {
    const struct dir *d = *state;
    PQS_BUF bytes = {0};
    make_small_run(d, &bytes);
    PQS_FREE uint8_t *copy = pqs_calloc(bytes.len, 1);
    struct pqs_rng rng = pqs_rng_stream(4, "mutate", 0, 0);
    int refused = 0;
    for (int i = 0; i < 200; i++) {
        memcpy(copy, bytes.data, bytes.len);
        for (uint64_t n = 1 + pqs_rng_below(&rng, 30); n > 0; n--)
            copy[pqs_rng_below(&rng, bytes.len)] = (uint8_t)pqs_rng_next(&rng);
        put_file(d->db, copy, bytes.len);
        struct pqs_err err = {0};
        struct pqs_run run = {0};
        if (pqs_store_read(d->path, &run, &err) < 0) {
            refused++;
            assert_true(err.msg[0] != '\0');
            continue;
        }
        for (size_t t = 0; t < run.n_trials; t++) {
            assert_true(run.trials[t].arm < run.n_arms);
            PQS_BUF samples = {0};
            if (pqs_store_samples(d->path, run.trials[t].arm, run.trials[t].block, &samples, &err) == 0)
                assert_int_equal(samples.len % PQS_SAMPLE_BYTES, 0);
        }
        pqs_run_release(&run);
    }
    assert_true(refused > 0 && refused < 200);
}

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_crosses_factors),
        cmocka_unit_test(plan_arm_against_itself),
        cmocka_unit_test(plan_refuses_bad_factors),
        cmocka_unit_test(plan_order_is_uniform),
        cmocka_unit_test(plan_order_depends_on_block_and_seed),
        STORE_TEST(store_round_trip),
        STORE_TEST(store_refuses_bad_trials),
        STORE_TEST(store_refuses_second_creator),
        STORE_TEST(store_leaves_nothing_when_creating_fails),
        STORE_TEST(store_reader_beside_writer),
        STORE_TEST(store_reads_while_writer_commits),
        STORE_TEST(store_survives_killed_writer),
        STORE_TEST(store_survives_kill_in_transaction),
        STORE_TEST(store_refuses_what_is_no_run),
        STORE_TEST(store_refuses_truncated_file),
        STORE_TEST(store_survives_mutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
