/* Reads the machine's facts from the kernel. Must not know: which of them are good or bad. */
#include "base/machine.h"

#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

/* CPU features with a bearing on cryptography, as /proc/cpuinfo spells them on x86 and on Arm. */
static const char *const FEATURES[] = {
    "aes",  "pclmulqdq", "vaes",  "vpclmulqdq", "gfni", "sha_ni", "avx",  "avx2",   "avx512f", "avx512ifma", "avx512vbmi",
    "bmi2", "adx",       "asimd", "pmull",      "sha1", "sha2",   "sha3", "sha512", "sve",     "sve2",
};

/* Trims blanks and newlines at both ends and makes tabs blanks, in place. */
static char *tidy(char *text) {
    text += strspn(text, " \t\n");
    for (size_t len = strlen(text); len && strchr(" \t\n", text[len - 1]); len--)
        text[len - 1] = '\0';
    for (char *tab = strchr(text, '\t'); tab; tab = strchr(tab, '\t'))
        *tab = ' ';
    return text;
}

/* What follows key and its separator on the first line of the file that starts with key; NULL when there is none. */
static char *field(const char *path, const char *key, const char *separator) {
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    PQS_FREE char *line = NULL;
    size_t size = 0, key_len = strlen(key);
    char *value = NULL;
    while (!value && getline(&line, &size, file) >= 0) {
        if (strncmp(line, key, key_len) != 0)
            continue;
        char *rest = tidy(line + key_len);
        size_t sep_len = strlen(separator);
        if (strncmp(rest, separator, sep_len) == 0)
            value = pqs_strdup(tidy(rest + sep_len));
    }
    fclose(file);
    return value;
}

/* Each reader appends the value, or nothing when it is not known; path is the row's. */

static void read_file(const char *path, struct pqs_buf *out) {
    PQS_BUF text = {0};
    if (pqs_read_file(path, 4096, &text, NULL) == 0 && text.len > 0)
        pqs_buf_addf(out, "%s", tidy((char *)text.data));
}

static void read_kernel(const char *path, struct pqs_buf *out) {
    (void)path;
    struct utsname host;
    if (uname(&host) == 0)
        pqs_buf_addf(out, "%s", host.release);
}

static void read_os(const char *path, struct pqs_buf *out) {
    PQS_FREE char *quoted = field(path, "PRETTY_NAME", "=");
    if (!quoted)
        return;
    char *name = quoted + strspn(quoted, "\"'");
    name[strcspn(name, "\"'")] = '\0';
    pqs_buf_addf(out, "%s", name);
}

static void read_cpu_model(const char *path, struct pqs_buf *out) {
    PQS_FREE char *model = field(path, "model name", ":");
    if (model)
        pqs_buf_addf(out, "%s", model);
}

static void read_cpu_features(const char *path, struct pqs_buf *out) {
    PQS_FREE char *x86 = field(path, "flags", ":");
    PQS_FREE char *arm = field(path, "Features", ":");
    if (!x86 && !arm)
        return;
    PQS_FREE char *padded = pqs_format(" %s ", x86 ? x86 : arm);
    for (size_t i = 0; i < PQS_COUNT(FEATURES); i++) {
        PQS_FREE char *word = pqs_format(" %s ", FEATURES[i]);
        if (strstr(padded, word))
            pqs_buf_addf(out, "%s%s", out->len ? " " : "", FEATURES[i]);
    }
    if (out->len == 0)
        pqs_buf_addf(out, "none");
}

static void read_virtual(const char *path, struct pqs_buf *out) {
    PQS_FREE char *flags = field(path, "flags", ":"); /* Arm has no such flag */
    PQS_FREE char *padded = flags ? pqs_format(" %s ", flags) : NULL;
    if (padded)
        pqs_buf_addf(out, "%s", strstr(padded, " hypervisor ") ? "yes" : "no");
}

static void read_cpus_online(const char *path, struct pqs_buf *out) {
    (void)path;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0)
        pqs_buf_addf(out, "%ld", online);
}

/* The different texts of the files that the pattern names, such as one governor for most CPUs and another for one. */
static void read_files(const char *path, struct pqs_buf *out) {
    glob_t found;
    if (glob(path, 0, NULL, &found) != 0)
        return;
    PQS_BUF all = {0};
    for (size_t i = 0; i < found.gl_pathc; i++) {
        PQS_BUF text = {0};
        read_file(found.gl_pathv[i], &text);
        PQS_FREE char *word = pqs_format(" %s ", pqs_buf_text(&text));
        if (text.len == 0 || strstr(pqs_buf_text(&all), word))
            continue;
        pqs_buf_addf(&all, "%s", word);
        pqs_buf_addf(out, "%s%s", out->len ? " " : "", pqs_buf_text(&text));
    }
    globfree(&found);
}

/* intel_pstate says whether turbo is forbidden, the other drivers whether boost is allowed. */
static void read_turbo(const char *path, struct pqs_buf *out) {
    PQS_BUF no_turbo = {0}, boost = {0};
    read_file("/sys/devices/system/cpu/intel_pstate/no_turbo", &no_turbo);
    read_file(path, &boost);
    if (no_turbo.len > 0)
        pqs_buf_addf(out, "%s", strcmp(pqs_buf_text(&no_turbo), "0") == 0 ? "on" : "off");
    else if (boost.len > 0)
        pqs_buf_addf(out, "%s", strcmp(pqs_buf_text(&boost), "0") == 0 ? "off" : "on");
}

static void read_fd_limit(const char *path, struct pqs_buf *out) {
    (void)path;
    struct rlimit fds;
    if (getrlimit(RLIMIT_NOFILE, &fds) == 0)
        pqs_buf_addf(out, "%" PRId64, fds.rlim_cur == RLIM_INFINITY ? INT64_MAX : (int64_t)fds.rlim_cur);
}

static void read_memory(const char *path, struct pqs_buf *out) {
    (void)path;
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        pqs_buf_addf(out, "%" PRId64, (int64_t)pages * page_bytes / 1000000);
}

static void read_uptime(const char *path, struct pqs_buf *out) {
    (void)path;
    struct timespec t;
    if (clock_gettime(CLOCK_BOOTTIME, &t) == 0)
        pqs_buf_addf(out, "%" PRId64, (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

/* The eighth figure of the first line, in clock ticks (proc(5)). */
static void read_steal(const char *path, struct pqs_buf *out) {
    PQS_FREE char *times = field(path, "cpu ", "");
    long ticks_per_s = sysconf(_SC_CLK_TCK);
    const char *p = times;
    for (int i = 0; p && i < 7; i++) {
        p += strspn(p, " ");
        p = strchr(p, ' ');
    }
    long long ticks = p ? strtoll(p, NULL, 10) : -1;
    if (ticks >= 0 && ticks_per_s > 0)
        pqs_buf_addf(out, "%lld", ticks * 1000 / ticks_per_s);
}

static void read_load(const char *path, struct pqs_buf *out) {
    (void)path;
    double load;
    if (getloadavg(&load, 1) == 1)
        pqs_buf_addf(out, "%.2f", load);
}

/* "0.20 0.18 0.12 3/80 11206": running of all tasks (proc(5)), of which one is the reader. */
static void read_runnable(const char *path, struct pqs_buf *out) {
    PQS_BUF text = {0};
    read_file(path, &text);
    const char *slash = strchr(pqs_buf_text(&text), '/'), *p = slash;
    while (p && p > (const char *)text.data && p[-1] != ' ')
        p--;
    long running = p ? strtol(p, NULL, 10) : 0;
    if (running > 0)
        pqs_buf_addf(out, "%ld", running - 1);
}

static const struct fact {
    const char *name;
    void (*read)(const char *path, struct pqs_buf *out);
    const char *path; /* where the reader needs one */
    enum { STAYS, CHANGES, MOVES } kind;
} facts[] = {
    {"kernel", read_kernel, NULL, STAYS},
    {"os", read_os, "/etc/os-release", STAYS},
    {"cpu_model", read_cpu_model, "/proc/cpuinfo", STAYS},
    {"cpu_features", read_cpu_features, "/proc/cpuinfo", STAYS},
    {"virtual", read_virtual, "/proc/cpuinfo", STAYS},
    {"cpus_online", read_cpus_online, NULL, CHANGES},
    {"governor", read_files, "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", CHANGES},
    {"turbo", read_turbo, "/sys/devices/system/cpu/cpufreq/boost", CHANGES},
    {"clock_source", read_file, "/sys/devices/system/clocksource/clocksource0/current_clocksource", CHANGES},
    {"congestion_control", read_file, "/proc/sys/net/ipv4/tcp_congestion_control", STAYS},
    {"local_ports", read_file, "/proc/sys/net/ipv4/ip_local_port_range", STAYS},
    {"tw_reuse", read_file, "/proc/sys/net/ipv4/tcp_tw_reuse", STAYS},
    {"somaxconn", read_file, "/proc/sys/net/core/somaxconn", STAYS},
    {"fd_limit", read_fd_limit, NULL, STAYS},
    {"memory_mb", read_memory, NULL, STAYS},
    {"uptime_ms", read_uptime, NULL, MOVES},
    {"steal_ms", read_steal, "/proc/stat", MOVES},
    {"load1", read_load, NULL, MOVES},
    {"runnable", read_runnable, "/proc/loadavg", MOVES},
};

static bool read_fact(const struct fact *fact, char ret_value[static PQS_MACHINE_VALUE_MAX]) {
    PQS_BUF text = {0};
    fact->read(fact->path, &text);
    snprintf(ret_value, PQS_MACHINE_VALUE_MAX, "%s", pqs_buf_text(&text));
    return *ret_value;
}

static void report_facts(int least, pqs_machine_fact *report, void *context) {
    char value[PQS_MACHINE_VALUE_MAX];
    for (size_t i = 0; i < PQS_COUNT(facts); i++)
        if ((int)facts[i].kind >= least && read_fact(&facts[i], value))
            report(context, facts[i].name, value);
}

void pqs_machine_kernel(char ret_id[static PQS_MACHINE_ID_MAX]) {
    PQS_BUF text = {0};
    bool known = pqs_read_file("/proc/sys/kernel/random/boot_id", 4096, &text, NULL) == 0 && text.len > 0;
    snprintf(ret_id, PQS_MACHINE_ID_MAX, "%s", known ? tidy((char *)text.data) : "");
}

void pqs_machine_network(char ret_id[static PQS_MACHINE_ID_MAX]) {
    char kernel[PQS_MACHINE_ID_MAX];
    struct stat net;
    pqs_machine_kernel(kernel);
    *ret_id = '\0';
    if (*kernel && stat("/proc/self/ns/net", &net) == 0)
        snprintf(ret_id, PQS_MACHINE_ID_MAX, "%.60s net %ju", kernel, (uintmax_t)net.st_ino);
}

void pqs_machine_facts(pqs_machine_fact *report, void *context) {
    report_facts(STAYS, report, context);
}

void pqs_machine_changing_facts(pqs_machine_fact *report, void *context) {
    report_facts(CHANGES, report, context);
}

static const struct fact *find_fact(const char *name) {
    for (size_t i = 0; i < PQS_COUNT(facts); i++)
        if (strcmp(facts[i].name, name) == 0)
            return &facts[i];
    return NULL;
}

bool pqs_machine_moves(const char *name) {
    const struct fact *fact = find_fact(name);
    return fact && fact->kind == MOVES;
}

bool pqs_machine_read(const char *name, char ret_value[static PQS_MACHINE_VALUE_MAX]) {
    const struct fact *fact = find_fact(name);
    *ret_value = '\0';
    return fact && read_fact(fact, ret_value);
}

int64_t pqs_machine_number(const char *name) {
    char value[PQS_MACHINE_VALUE_MAX];
    char *end = NULL;
    long long number = pqs_machine_read(name, value) ? strtoll(value, &end, 10) : -1;
    return end && !*end ? number : -1;
}
