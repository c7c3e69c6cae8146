/* Reads the machine's facts from the kernel. Must not know: which of them are good or bad. */
#include "base/machine.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

/* Facts that are the whole text of a small file. */
static const struct {
    const char *name, *path;
} FILES[] = {
    {"governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"},
    {"clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
    {"congestion_control", "/proc/sys/net/ipv4/tcp_congestion_control"},
    {"local_ports", "/proc/sys/net/ipv4/ip_local_port_range"},
    {"tw_reuse", "/proc/sys/net/ipv4/tcp_tw_reuse"},
    {"somaxconn", "/proc/sys/net/core/somaxconn"},
};

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

static void report_file(pqs_machine_fact *report, void *context, const char *name, const char *path) {
    PQS_BUF text = {0};
    if (pqs_read_file(path, 4096, &text, NULL) || text.len == 0)
        return;
    char *value = tidy((char *)text.data);
    if (*value)
        report(context, name, value);
}

static void report_number(pqs_machine_fact *report, void *context, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    report(context, name, text);
}

static void report_cpu(pqs_machine_fact *report, void *context) {
    PQS_FREE char *model = field("/proc/cpuinfo", "model name", ":");
    if (model && *model)
        report(context, "cpu_model", model);

    PQS_FREE char *x86 = field("/proc/cpuinfo", "flags", ":");
    PQS_FREE char *arm = field("/proc/cpuinfo", "Features", ":");
    const char *flags = x86 ? x86 : arm;
    if (flags) {
        PQS_FREE char *padded = pqs_format(" %s ", flags);
        PQS_BUF features = {0};
        for (size_t i = 0; i < PQS_COUNT(FEATURES); i++) {
            PQS_FREE char *word = pqs_format(" %s ", FEATURES[i]);
            if (strstr(padded, word))
                pqs_buf_addf(&features, "%s%s", features.len ? " " : "", FEATURES[i]);
        }
        report(context, "cpu_features", features.len ? pqs_buf_text(&features) : "none");
        if (x86) /* Arm has no such flag */
            report(context, "virtual", strstr(padded, " hypervisor ") ? "yes" : "no");
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0)
        report_number(report, context, "cpus_online", online);
}

/* The eighth figure of /proc/stat's first line, in clock ticks (proc(5)). */
static void report_steal(pqs_machine_fact *report, void *context) {
    PQS_FREE char *times = field("/proc/stat", "cpu ", "");
    long ticks_per_s = sysconf(_SC_CLK_TCK);
    const char *p = times;
    for (int i = 0; p && i < 7; i++) {
        p += strspn(p, " ");
        p = strchr(p, ' ');
    }
    long long ticks = p ? strtoll(p, NULL, 10) : -1;
    if (ticks >= 0 && ticks_per_s > 0)
        report_number(report, context, "steal_ms", ticks * 1000 / ticks_per_s);
}

static void report_os(pqs_machine_fact *report, void *context) {
    PQS_FREE char *quoted = field("/etc/os-release", "PRETTY_NAME", "=");
    if (!quoted)
        return;
    char *name = quoted + strspn(quoted, "\"'");
    name[strcspn(name, "\"'")] = '\0';
    if (*name)
        report(context, "os", name);
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
    struct utsname host;
    if (uname(&host) == 0)
        report(context, "kernel", host.release);
    report_os(report, context);
    report_cpu(report, context);
    for (size_t i = 0; i < PQS_COUNT(FILES); i++)
        report_file(report, context, FILES[i].name, FILES[i].path);
    report_steal(report, context);

    double load;
    if (getloadavg(&load, 1) == 1) {
        char text[32];
        snprintf(text, sizeof text, "%.2f", load);
        report(context, "load1", text);
    }
    struct rlimit fds;
    if (getrlimit(RLIMIT_NOFILE, &fds) == 0)
        report_number(report, context, "fd_limit", fds.rlim_cur == RLIM_INFINITY ? INT64_MAX : (int64_t)fds.rlim_cur);
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        report_number(report, context, "memory_mb", (int64_t)pages * page_bytes / 1000000);
}
