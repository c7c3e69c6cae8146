/* What makes a machine unfit to measure, as rows. Looks at facts only. Must not know: how they are found out, or shown. */
#include "verdict/fitness.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

const char *const pqs_fitness_names[4] = {"fine", "unknown", "note", "spoils"};

static const char *fact(const struct pqs_result *r, const char *name) {
    return pqs_result_fact_of(r, PQS_CLIENT, name, NULL);
}

/* False when it is not known. */
static bool number(const struct pqs_result *r, const char *name, double *ret) {
    const char *text = fact(r, name);
    char *end = NULL;
    *ret = text ? strtod(text, &end) : 0;
    return end && end != text;
}

/* Fills the text; returns `if_bad` when bad, otherwise fine. */
static enum pqs_fitness judge(bool bad, enum pqs_fitness if_bad, char *text, size_t size, const char *fmt, ...)
    PQS_PRINTF(5, 6);
static enum pqs_fitness judge(bool bad, enum pqs_fitness if_bad, char *text, size_t size, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, size, fmt, args);
    va_end(args);
    return bad ? if_bad : PQS_FIT_FINE;
}

static enum pqs_fitness check_cores(const struct pqs_result *r, char *text, size_t size) {
    double cores, cpus;
    if (!number(r, "cores", &cores) || !number(r, "cpus_online", &cpus))
        return PQS_FIT_UNKNOWN;
    return judge(cores < 2, PQS_FIT_SPOILS, text, size, "%.0f core%s to use, %.0f CPU%s online", cores,
                 cores == 1 ? "" : "s", cpus, cpus == 1 ? "" : "s");
}

static enum pqs_fitness check_governor(const struct pqs_result *r, char *text, size_t size) {
    const char *governor = fact(r, "governor");
    return governor ? judge(strcmp(governor, "performance") != 0, PQS_FIT_SPOILS, text, size, "%s", governor)
                    : PQS_FIT_UNKNOWN;
}

static enum pqs_fitness check_turbo(const struct pqs_result *r, char *text, size_t size) {
    const char *turbo = fact(r, "turbo");
    return turbo ? judge(strcmp(turbo, "off") != 0, PQS_FIT_NOTE, text, size, "%s", turbo) : PQS_FIT_UNKNOWN;
}

/* As verdict "steal": over 1 %, and more than the one tick of 10 ms that the kernel may be off. */
static enum pqs_fitness check_steal(const struct pqs_result *r, char *text, size_t size) {
    double stolen_ms, sample_ms, cpus;
    if (!number(r, "sample_steal_ms", &stolen_ms) || !number(r, "sample_ms", &sample_ms) || !number(r, "cpus_online", &cpus))
        return PQS_FIT_UNKNOWN;
    return judge(stolen_ms > 10 && stolen_ms > 0.01 * sample_ms * cpus, PQS_FIT_SPOILS, text, size,
                 "%.0f ms of %.0f ms on %.0f CPUs", stolen_ms, sample_ms, cpus);
}

static enum pqs_fitness check_steal_since_boot(const struct pqs_result *r, char *text, size_t size) {
    double stolen_ms, uptime_ms, cpus;
    if (!number(r, "steal_ms", &stolen_ms) || !number(r, "uptime_ms", &uptime_ms) || !number(r, "cpus_online", &cpus) ||
        uptime_ms * cpus <= 0)
        return PQS_FIT_UNKNOWN;
    double share = stolen_ms / (uptime_ms * cpus);
    return judge(share > 0.01, PQS_FIT_NOTE, text, size, "%.2f %% of the CPU time", 100 * share);
}

static enum pqs_fitness check_clock(const struct pqs_result *r, char *text, size_t size) {
    double read_ns;
    const char *source = fact(r, "clock_source");
    if (!number(r, "clock_read_ns", &read_ns))
        return PQS_FIT_UNKNOWN;
    /* Those that the C library reads without a system call take 15 to 80 ns. */
    return judge(read_ns > 250, PQS_FIT_SPOILS, text, size, "%s, a reading takes %.0f ns",
                 source ? source : "of unknown name", read_ns);
}

static enum pqs_fitness check_timers(const struct pqs_result *r, char *text, size_t size) {
    double p50_ns, p95_ns;
    const char *slack = fact(r, "timer_slack_ns");
    if (!number(r, "timer_late_p50_ns", &p50_ns) || !number(r, "timer_late_p95_ns", &p95_ns))
        return PQS_FIT_UNKNOWN;
    /* Half of a millisecond is the effect that people look for. */
    return judge(p95_ns > 250e3, PQS_FIT_SPOILS, text, size,
                 "wake-ups %.0f us late (p50), %.0f us (p95); slack 1 ns as in workers, here %s ns", p50_ns / 1e3,
                 p95_ns / 1e3, slack ? slack : "unknown");
}

static enum pqs_fitness check_neighbours(const struct pqs_result *r, char *text, size_t size) {
    double others;
    if (!number(r, "sample_runnable", &others))
        return PQS_FIT_UNKNOWN;
    return judge(others > 0.5, PQS_FIT_SPOILS, text, size, "%.1f other tasks run or wait for a CPU, on average", others);
}

static enum pqs_fitness check_load(const struct pqs_result *r, char *text, size_t size) {
    double load, cpus;
    if (!number(r, "load1", &load) || !number(r, "cpus_online", &cpus))
        return PQS_FIT_UNKNOWN;
    return judge(load > 0.5 * cpus, PQS_FIT_NOTE, text, size, "%.2f on %.0f CPUs", load, cpus);
}

static enum pqs_fitness check_virtual(const struct pqs_result *r, char *text, size_t size) {
    const char *virtual = fact(r, "virtual");
    return virtual ? judge(strcmp(virtual, "no") != 0, PQS_FIT_NOTE, text, size, "%s", virtual) : PQS_FIT_UNKNOWN;
}

static enum pqs_fitness check_wsl(const struct pqs_result *r, char *text, size_t size) {
    const char *kernel = fact(r, "kernel");
    return kernel ? judge(strcasestr(kernel, "microsoft") != NULL, PQS_FIT_SPOILS, text, size, "kernel %s", kernel)
                  : PQS_FIT_UNKNOWN;
}

/* --max-inflight is by default 4096, or half of the descriptors. */
static enum pqs_fitness check_descriptors(const struct pqs_result *r, char *text, size_t size) {
    double soft, hard;
    if (!number(r, "fd_limit", &soft) || !number(r, "fd_hard_limit", &hard))
        return PQS_FIT_UNKNOWN;
    return judge(soft < 2 * 4096, PQS_FIT_NOTE, text, size, "%.0f of at most %.0f", soft, hard);
}

/* TIME_WAIT lasts 60 s (TCP_TIMEWAIT_LEN), and is at the end that closes first, the client. */
static enum pqs_fitness check_ports(const struct pqs_result *r, char *text, size_t size) {
    const char *range = fact(r, "local_ports");
    long low, high;
    if (!range || sscanf(range, "%ld %ld", &low, &high) != 2) // NOLINT(cert-err34-c): the kernel's own numbers
        return PQS_FIT_UNKNOWN;
    long n = high - low + 1;
    return judge(n < 20000, PQS_FIT_NOTE, text, size, "%ld, for %ld connections/s to one foreign address", n, n / 60);
}

static enum pqs_fitness check_tw_reuse(const struct pqs_result *r, char *text, size_t size) {
    const char *reuse = fact(r, "tw_reuse");
    return reuse ? judge(strcmp(reuse, "0") == 0, PQS_FIT_NOTE, text, size, "%s",
                         strcmp(reuse, "0") == 0   ? "0 (never)"
                         : strcmp(reuse, "2") == 0 ? "2 (on loopback)"
                                                   : reuse)
                 : PQS_FIT_UNKNOWN;
}

/* Our server asks for a backlog of 4096. */
static enum pqs_fitness check_somaxconn(const struct pqs_result *r, char *text, size_t size) {
    double most;
    if (!number(r, "somaxconn", &most))
        return PQS_FIT_UNKNOWN;
    return judge(most < 4096, PQS_FIT_NOTE, text, size, "%.0f", most);
}

static enum pqs_fitness check_congestion(const struct pqs_result *r, char *text, size_t size) {
    const char *name = fact(r, "congestion_control");
    return name ? judge(strcmp(name, "cubic") != 0 && strcmp(name, "reno") != 0, PQS_FIT_NOTE, text, size, "%s", name)
                : PQS_FIT_UNKNOWN;
}

static enum pqs_fitness check_initial_window(const struct pqs_result *r, char *text, size_t size) {
    double segments;
    if (!number(r, "initial_window", &segments))
        return PQS_FIT_UNKNOWN;
    return judge(segments < 10 || segments > 10, PQS_FIT_NOTE, text, size, "%.0f segments on loopback",
                 segments); /* RFC 6928 */
}

static enum pqs_fitness check_yes(const struct pqs_result *r, const char *name, char *text, size_t size) {
    const char *value = fact(r, name);
    return value ? judge(strncmp(value, "yes", 3) != 0, PQS_FIT_NOTE, text, size, "%s", value) : PQS_FIT_UNKNOWN;
}

static enum pqs_fitness check_namespaces(const struct pqs_result *r, char *text, size_t size) {
    return check_yes(r, "namespaces", text, size);
}

static enum pqs_fitness check_tun(const struct pqs_result *r, char *text, size_t size) {
    return check_yes(r, "tun", text, size);
}

static enum pqs_fitness check_netem(const struct pqs_result *r, char *text, size_t size) {
    return check_yes(r, "netem", text, size);
}

static enum pqs_fitness check_library(const struct pqs_result *r, char *text, size_t size) {
    const char *header = fact(r, "header_version"), *version = fact(r, "library_version"), *file = fact(r, "libcrypto");
    if (!header || !version || !file)
        return PQS_FIT_UNKNOWN;
    bool other = strcmp(header, version) != 0;
    return judge(other, PQS_FIT_NOTE, text, size, "%s in %s%s%s", version, file, other ? ", but compiled against " : "",
                 other ? header : "");
}

/* OpenSSL's capability vector as its manual numbers it (OPENSSL_ia32cap): bits of the first two 64-bit words. */
static const struct {
    const char *feature; /* as /proc/cpuinfo spells it */
    unsigned word, bit;
} x86_code[] = {{"aes", 0, 57},     {"pclmulqdq", 0, 33}, {"avx", 0, 60},        {"avx2", 1, 5},    {"bmi2", 1, 8},
                {"avx512f", 1, 16}, {"adx", 1, 19},       {"avx512ifma", 1, 21}, {"sha_ni", 1, 29}, {"vaes", 1, 41}};

static bool has_word(const char *list, const char *word) {
    PQS_FREE char *in = pqs_format(" %s ", list), *wanted = pqs_format(" %s ", word);
    return strstr(in, wanted) != NULL;
}

/* Appends the features that the CPU has and the library does or does not use. */
static size_t list_code(const char *features, const unsigned long long words[2], bool used, char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < PQS_COUNT(x86_code); i++) {
        bool on = words[x86_code[i].word] >> x86_code[i].bit & 1;
        if (on != used || !has_word(features, x86_code[i].feature))
            continue;
        size_t len = strlen(text);
        snprintf(text + len, size - len, "%s%s", n++ ? " " : "", x86_code[i].feature);
    }
    return n;
}

/* "OPENSSL_ia32cap=0xfffa3203078bffff:0x405f4ed3f1bf27ab[:...]", followed by " env:..." when the environment changed it. */
static enum pqs_fitness check_code(const struct pqs_result *r, char *text, size_t size) {
    const char *settings = fact(r, "cpu_settings"), *features = fact(r, "cpu_features");
    if (!settings)
        return PQS_FIT_UNKNOWN;
    if (!*settings) /* where the kernel names no features, the library may have no way to say what it uses either */
        return features ? judge(true, PQS_FIT_SPOILS, text, size, "plain C: the library was built without assembly")
                        : PQS_FIT_UNKNOWN;
    if (strstr(settings, "env:"))
        return judge(true, PQS_FIT_SPOILS, text, size, "changed by the environment: %s", settings);
    unsigned long long words[2];
    const char *vector = strstr(settings, "ia32cap=");
    if (!vector || !features || sscanf(vector, "ia32cap=%llx:%llx", &words[0], &words[1]) != 2) // NOLINT(cert-err34-c)
        return judge(false, PQS_FIT_FINE, text, size, "%s", settings);
    char unused[128] = "";
    size_t n = list_code(features, words, false, unused, sizeof unused);
    *text = '\0';
    list_code(features, words, true, text, size);
    size_t len = strlen(text);
    if (n)
        snprintf(text + len, size - len, "; not %s", unused);
    return n ? PQS_FIT_NOTE : PQS_FIT_FINE;
}

const struct pqs_fitness_check pqs_fitness_checks[] = {
    {"cores", "Cores", check_cores, "Client and server share a core, so each waits for the other.",
     "Use a machine with two cores or more, or a second machine for the server."},
    {"neighbours", "Busy neighbours", check_neighbours, "Other work takes CPU time and caches away at moments of its own.",
     "End what runs (top shows it) and measure on an idle machine."},
    {"load", "Load", check_load, "The machine was busy in the last minute, and may be again.",
     "Wait until it has come to rest."},
    {"steal", "Steal now", check_steal, "The host gives this machine's CPUs to others, which shows as latency.",
     "Use a dedicated or less crowded host."},
    {"steal-since-boot", "Steal since boot", check_steal_since_boot, "The host has taken CPU time away and may do so again.",
     "Use a dedicated or less crowded host, and look for the verdict \"steal\" in reports."},
    {"governor", "CPU governor", check_governor,
     "The clock follows the load: handshakes at a low rate look slower than at a high one.",
     "Set it: cpupower frequency-set -g performance"},
    {"turbo", "Turbo", check_turbo, "The clock depends on temperature and on how many cores work, so single runs differ.",
     "Switch it off in /sys/devices/system/cpu (intel_pstate/no_turbo or cpufreq/boost) or rely on blocks."},
    {"clock", "Clock", check_clock, "Each of a connection's six readings costs a system call that is not the handshake's.",
     "Boot with another clocksource=, such as tsc, if the machine has one."},
    {"timers", "Timers", check_timers, "Connections start later than scheduled, and the difference is in the latency.",
     "End what runs on this machine; in a virtual machine, use a less crowded host."},
    {"virtual", "Virtual machine", check_virtual,
     "Timers, page faults and the network take a way through the host, whose other work cannot be seen.",
     "Use real hardware for absolute figures; differences between arms hold."},
    {"wsl", "WSL", check_wsl, "Clock, scheduler and network are those of a utility machine inside Windows.",
     "Measure on Linux itself."},
    {"descriptors", "Descriptors", check_descriptors, "Fewer connections can be open at once; more are dropped and counted.",
     "Raise it for this shell: ulimit -n 20000"},
    {"ports", "Source ports", check_ports,
     "A higher rate runs out of source ports: local failures that are not the server's.",
     "sysctl -w net.ipv4.ip_local_port_range='1024 65535'"},
    {"tw-reuse", "TIME_WAIT reuse", check_tw_reuse, "Source ports stay taken for a minute after each connection.",
     "sysctl -w net.ipv4.tcp_tw_reuse=1"},
    {"somaxconn", "Listen backlog", check_somaxconn,
     "A burst overflows the accept queue; its clients try again after 1 s, which looks like a slow server.",
     "sysctl -w net.core.somaxconn=4096"},
    {"congestion", "Congestion control", check_congestion,
     "Flights of more than ten segments may be paced, which other senders do not do.",
     "Say it with the result, or: sysctl -w net.ipv4.tcp_congestion_control=cubic"},
    {"initial-window", "Initial window", check_initial_window,
     "Large certificate chains take another number of round trips than with the usual 10 segments (RFC 6928).",
     "Take initcwnd off the route: ip route change."},
    {"namespaces", "Namespaces", check_namespaces, "Emulated links cannot be made here; everything else can.",
     "Run as root, or allow unprivileged user namespaces (sysctl user.max_user_namespaces)."},
    {"tun", "TUN device", check_tun, "Links cannot be emulated with TUN; everything else can be measured.",
     "Load the module tun and give access to /dev/net/tun."},
    {"netem", "netem", check_netem, "Links cannot be emulated by the kernel; everything else can be measured.",
     "Use a kernel with CONFIG_NET_SCH_NETEM (Debian and Ubuntu have the module sch_netem)."},
    {"library", "TLS library", check_library, "What runs is not what the worker was compiled against.",
     "Check LD_LIBRARY_PATH, or rebuild against the library that you want to measure."},
    {"code", "Crypto code paths", check_code,
     "The library does not use what this CPU can do, so its figures are not typical.",
     "Use a library built with assembly, and unset OPENSSL_ia32cap or OPENSSL_armcap."},
    {NULL, NULL, NULL, NULL, NULL},
};
