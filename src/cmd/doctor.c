/* pqshake doctor: finds out what the machine is like, and says what verdict/fitness.h makes of it. Changes nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/mem.h"
#include "cmd.h"
#include "render.h"
#include "run/worker.h"
#include "stats/hist.h"
#include "stats/quantile.h"
#include "verdict/fitness.h"

#define SAMPLE_NS (200 * PQS_NS_PER_MS)
#define LOOKS 40   /* at the run queue, within a sample */
#define TIMERS 200 /* what a p95 needs */
#define TIMER_NS (PQS_NS_PER_MS / 2)
#define READINGS 10000

struct doctor {
    const char *json;
};

static const struct pqs_opt options[] = {
    {.name = "json",
     .arg = "FILE",
     .type = PQS_OPT_STRING,
     .offset = offsetof(struct doctor, json),
     .help = "write checks and facts as JSON; - is standard output, instead of the text"},
    {.name = NULL},
};

/* ---- finding out: each adds the facts that can be known ---- */

static void say(void *facts, const char *name, const char *value) {
    pqs_result_fact(facts, PQS_CLIENT, name, value, 1);
}

static void say_number(struct pqs_result *facts, const char *name, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.10g", value);
    say(facts, name, text);
}

/* Before anything here keeps a CPU busy. */
static void sample_neighbours(struct pqs_result *facts) {
    int64_t steal_ms = pqs_machine_number("steal_ms"), begin_ns = pqs_now_ns();
    double tasks = 0;
    int looks = 0;
    for (int i = 0; i < LOOKS; i++) {
        usleep(SAMPLE_NS / LOOKS / PQS_NS_PER_US);
        int64_t runnable = pqs_machine_number("runnable");
        tasks += runnable >= 0 ? (double)runnable : 0;
        looks += runnable >= 0;
    }
    int64_t steal_end_ms = pqs_machine_number("steal_ms");
    if (looks > 0)
        say_number(facts, "sample_runnable", tasks / looks);
    if (steal_ms < 0 || steal_end_ms < 0)
        return;
    say_number(facts, "sample_ms", (double)(pqs_now_ns() - begin_ns) / (double)PQS_NS_PER_MS);
    say_number(facts, "sample_steal_ms", (double)(steal_end_ms - steal_ms));
}

static void measure_clock(struct pqs_result *facts) {
    int64_t begin_ns = pqs_now_ns(), end_ns = begin_ns;
    for (int i = 0; i < READINGS; i++)
        end_ns = pqs_now_ns();
    say_number(facts, "clock_read_ns", (double)(end_ns - begin_ns) / READINGS);
}

/* How late the wait of a generator thread ends, with its timer slack. */
static void measure_timers(struct pqs_result *facts) {
    int slack_ns = prctl(PR_GET_TIMERSLACK);
    PQS_CLOSE int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct pqs_hist *late = pqs_hist_new();
    const struct timespec timeout = {.tv_nsec = TIMER_NS};
    struct epoll_event event;
    if (slack_ns > 0)
        say_number(facts, "timer_slack_ns", slack_ns);
    prctl(PR_SET_TIMERSLACK, 1UL);
    for (int i = 0; i < TIMERS; i++) {
        int64_t due_ns = pqs_now_ns() + TIMER_NS;
        if (epoll_pwait2(epoll_fd, &event, 1, &timeout, NULL) != 0)
            break;
        pqs_hist_add(late, pqs_now_ns() - due_ns);
    }
    prctl(PR_SET_TIMERSLACK, 0UL); /* what it was at the start */
    if (pqs_hist_n(late) == TIMERS) {
        say_number(facts, "timer_late_p50_ns", pqs_quantile_of(late, pqs_quantile_find("p50")));
        say_number(facts, "timer_late_p95_ns", pqs_quantile_of(late, pqs_quantile_find("p95")));
    }
    pqs_hist_free(late);
}

static void find_limits(struct pqs_result *facts) {
    struct rlimit fds;
    if (getrlimit(RLIMIT_NOFILE, &fds) == 0)
        say_number(facts, "fd_hard_limit", fds.rlim_max == RLIM_INFINITY ? (double)INT64_MAX : (double)fds.rlim_max);
    unsigned cores = pqs_cpu_cores();
    if (cores > 0)
        say_number(facts, "cores", cores);
}

/* What a fresh connection may send at once. */
static void find_initial_window(struct pqs_result *facts) {
    PQS_CLOSE int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    PQS_CLOSE int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    struct tcp_info info = {0};
    socklen_t info_size = sizeof info;
    if (listener >= 0 && client >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &size) == 0 &&
        connect(client, (struct sockaddr *)&address, size) == 0 &&
        getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &info_size) == 0)
        say_number(facts, "initial_window", info.tcpi_snd_cwnd);
}

/* A child tries, and takes the namespaces with it. */
static void find_namespaces(struct pqs_result *facts) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWUSER | CLONE_NEWNET) ? errno & 127 : 0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return;
    int sys = WEXITSTATUS(status);
    PQS_FREE char *no = pqs_format("no: %s", strerror(sys));
    say(facts, "namespaces", sys ? no : "yes");
}

/* Whether a text file, gzipped or not, has a line with that text in it. -1: it cannot be read. */
static int file_has(const char *path, const char *text) {
    char line[4096];
    int found = 0;
    gzFile file = gzopen(path, "re");
    if (!file)
        return -1;
    while (!found && gzgets(file, line, sizeof line))
        found = strstr(line, text) != NULL;
    gzclose(file);
    return found;
}

/* "yes", "yes (module)", "no" or, where this system does not say, NULL. Loads nothing. */
static const char *kernel_has(const char *module, const char *config) {
    struct utsname host;
    PQS_FREE char *loaded = pqs_format("/sys/module/%s", module);
    if (access(loaded, F_OK) == 0)
        return "yes";
    if (uname(&host))
        return NULL;
    PQS_FREE char *file = pqs_format("/%s.ko", module);
    PQS_FREE char *builtin = pqs_format("/lib/modules/%s/modules.builtin", host.release);
    PQS_FREE char *modules = pqs_format("/lib/modules/%s/modules.dep", host.release);
    if (file_has(builtin, file) == 1)
        return "yes";
    int in_modules = file_has(modules, file);
    if (in_modules >= 0)
        return in_modules ? "yes (module)" : "no";
    /* No modules here (a container, a kernel without any): then what the kernel was built with. */
    PQS_FREE char *boot = pqs_format("/boot/config-%s", host.release);
    PQS_FREE char *built_in = pqs_format("%s=y", config), *as_module = pqs_format("%s=m", config);
    const char *const configs[] = {"/proc/config.gz", boot};
    for (size_t i = 0; i < PQS_COUNT(configs); i++) {
        int is_built_in = file_has(configs[i], built_in);
        if (is_built_in == 1)
            return "yes";
        if (is_built_in == 0) /* a module that is not loaded: whether it can be, the host knows */
            return file_has(configs[i], as_module) ? NULL : "no";
    }
    return NULL;
}

static void find_emulation(struct pqs_result *facts) {
    const char *netem = kernel_has("sch_netem", "CONFIG_NET_SCH_NETEM"), *tun = kernel_has("tun", "CONFIG_TUN");
    if (netem)
        say(facts, "netem", netem);
    if (tun && strcmp(tun, "no") != 0 && access("/dev/net/tun", R_OK | W_OK)) {
        PQS_FREE char *no = pqs_format("no: /dev/net/tun: %s", strerror(errno));
        say(facts, "tun", no);
    } else if (tun) {
        say(facts, "tun", tun);
    }
}

static int ask_worker(struct pqs_result *facts, struct pqs_err *err) {
    PQS_WORKER w = {0};
    int rc = pqs_worker_start(PQS_DEFAULT_STACK, "list", &w, err);
    for (size_t i = 0; rc == 0 && i < w.hello.n_facts; i++)
        if (strcmp(w.hello.facts[i].name, "pid") != 0)
            say(facts, w.hello.facts[i].name, w.hello.facts[i].value);
    return rc;
}

/* Fails when there is no worker; the other facts are there all the same. */
static int find_out(struct pqs_result *facts, struct pqs_err *err) {
    sample_neighbours(facts);
    pqs_machine_facts(say, facts);
    measure_clock(facts);
    measure_timers(facts);
    find_limits(facts);
    find_initial_window(facts);
    find_namespaces(facts);
    find_emulation(facts);
    return ask_worker(facts, err);
}

/* ---- saying it ---- */

static void print_text(const struct pqs_result *facts) {
    for (const struct pqs_fitness_check *c = pqs_fitness_checks; c->id; c++) {
        char text[512] = "";
        enum pqs_fitness level = c->check(facts, text, sizeof text);
        printf("%-18s  %-7s  %s\n", c->title, pqs_fitness_names[level], *text ? text : "this machine does not say");
        if (level >= PQS_FIT_NOTE)
            printf("    %s\n    To mend it: %s\n", c->spoils, c->mend);
    }
}

static void write_json(const struct pqs_result *facts, struct pqs_buf *out, enum pqs_fitness *ret_worst) {
    struct pqs_json json = pqs_json_begin(out), *j = &json;
    pqs_json_object(j, NULL);
    pqs_json_str(j, "schema", "pqshake/doctor/1");
    pqs_json_str(j, "version", PQSHAKE_VERSION);
    pqs_json_array(j, "checks");
    for (const struct pqs_fitness_check *c = pqs_fitness_checks; c->id; c++) {
        char text[512] = "";
        enum pqs_fitness level = c->check(facts, text, sizeof text);
        *ret_worst = level > *ret_worst ? level : *ret_worst;
        pqs_json_object(j, NULL);
        pqs_json_str(j, "id", c->id);
        pqs_json_str(j, "level", pqs_fitness_names[level]);
        pqs_json_str(j, "text", *text ? text : NULL);
        pqs_json_str(j, "spoils", level >= PQS_FIT_NOTE ? c->spoils : NULL);
        pqs_json_str(j, "mend", level >= PQS_FIT_NOTE ? c->mend : NULL);
        pqs_json_end_object(j);
    }
    pqs_json_end_array(j);
    pqs_json_bool(j, "fit", *ret_worst < PQS_FIT_SPOILS);
    pqs_json_object(j, "facts");
    for (size_t i = 0; i < facts->n_facts; i++)
        pqs_json_str(j, facts->facts[i].name, facts->facts[i].value);
    pqs_json_end_object(j);
    pqs_json_end_object(j);
    pqs_buf_addf(out, "\n");
}

static int show(const struct pqs_result *facts, const char *to, enum pqs_fitness *ret_worst, struct pqs_err *err) {
    PQS_BUF json = {0};
    write_json(facts, &json, ret_worst);
    if (to && strcmp(to, "-") == 0) {
        fwrite(json.data, 1, json.len, stdout);
        return 0;
    }
    print_text(facts);
    return to ? pqs_write_file(to, 0644, json.data, json.len, err) : 0;
}

static int run(const struct pqs_call *call, struct pqs_err *err) {
    const struct doctor *o = call->options;
    struct pqs_result facts = {0};
    enum pqs_fitness worst = PQS_FIT_FINE;
    struct pqs_err no_worker;
    int rc = pqs_check_out("json", o->json, err);
    if (rc)
        return rc;
    int found = find_out(&facts, &no_worker);
    rc = show(&facts, o->json, &worst, err);
    pqs_result_release(&facts);
    if (rc)
        return rc;
    if (found)
        return pqs_fail(err, PQS_E_ENV, "nothing can be measured here: %s", no_worker.msg);
    return worst < PQS_FIT_SPOILS ? 0
                                  : pqs_fail(err, PQS_E_UNFIT, "this machine is not fit to measure: see what \"spoils\"");
}

const struct pqs_command pqs_command_doctor = {
    .name = "doctor",
    .summary = "say whether this machine is fit to measure, and what to change",
    .arguments = "",
    .about = "Looks at everything about this machine that makes figures better or worse, and calls it fine,\n"
             "unknown (it cannot be read), a note (figures hold, within what is said) or something that spoils\n"
             "measurements: then the exit status is 4. It is 3 when there is no worker. Says what to do, and\n"
             "changes nothing. Every run records the machine's facts itself.",
    .example = "pqshake doctor --json doctor.json",
    .options = options,
    .options_size = sizeof(struct doctor),
    .run = run,
};
