/* CPU lists, affinity and which CPUs are one core. Must not know: who is pinned where. */
#include "base/cpu.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define CPUS 4096 /* glibc's own cpu_set_t ends at 1024; the kernel wants its own maximum covered */

struct cpus {
    cpu_set_t set[CPUS / CPU_SETSIZE];
};

static bool has(const struct cpus *c, unsigned cpu) {
    return CPU_ISSET_S(cpu, sizeof c->set, c->set);
}

static void add(struct cpus *c, unsigned cpu) {
    CPU_SET_S(cpu, sizeof c->set, c->set);
}

static void allowed(struct cpus *ret_cpus) {
    *ret_cpus = (struct cpus){0};
    if (sched_getaffinity(0, sizeof ret_cpus->set, ret_cpus->set))
        *ret_cpus = (struct cpus){0};
}

/* "0,2-3", as the kernel and taskset write it; a trailing newline is allowed. */
static bool parse(const char *list, struct cpus *ret_cpus) {
    *ret_cpus = (struct cpus){0};
    for (const char *p = list;; p++) {
        if (!isdigit((unsigned char)*p))
            return false;
        char *end;
        unsigned long first = strtoul(p, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if (first > last || last >= CPUS)
            return false;
        for (unsigned long cpu = first; cpu <= last; cpu++)
            add(ret_cpus, (unsigned)cpu);
        p = end;
        if (*p == '\0' || strcmp(p, "\n") == 0)
            return true;
        if (*p != ',')
            return false;
    }
}

/* Ranges that do not fit any more are left out, whole: a shorter list is still a right one. */
static void format(const struct cpus *c, char ret_list[static PQS_CPU_LIST_MAX]) {
    size_t len = 0;
    ret_list[0] = '\0';
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        if (!has(c, cpu))
            continue;
        unsigned last = cpu;
        while (last + 1 < CPUS && has(c, last + 1))
            last++;
        char item[32];
        int n = snprintf(item, sizeof item, last > cpu ? "%s%u-%u" : "%s%u", len ? "," : "", cpu, last);
        if (len + (size_t)n >= PQS_CPU_LIST_MAX)
            return;
        memcpy(ret_list + len, item, (size_t)n + 1);
        len += (size_t)n;
        cpu = last;
    }
}

/* The lowest CPU on the same physical core: the core's name here. */
static unsigned core_of(unsigned cpu) {
    char path[80];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    PQS_BUF text = {0};
    struct cpus siblings;
    if (pqs_read_file(path, 4096, &text, NULL) || !parse(pqs_buf_text(&text), &siblings))
        return cpu;
    for (unsigned i = 0; i < cpu; i++)
        if (has(&siblings, i))
            return i;
    return cpu;
}

/* Each core by its lowest CPU. */
static unsigned find_cores(const struct cpus *all, struct cpus *ret_cores) {
    *ret_cores = (struct cpus){0};
    for (unsigned cpu = 0; cpu < CPUS; cpu++)
        if (has(all, cpu))
            add(ret_cores, core_of(cpu));
    return (unsigned)CPU_COUNT_S(sizeof ret_cores->set, ret_cores->set);
}

unsigned pqs_cpu_cores(void) {
    struct cpus all, cores;
    allowed(&all);
    return find_cores(&all, &cores);
}

void pqs_cpu_split(char ret_first[static PQS_CPU_LIST_MAX], char ret_second[static PQS_CPU_LIST_MAX]) {
    struct cpus all, cores, first = {0}, second = {0};
    allowed(&all);
    unsigned n_cores = find_cores(&all, &cores);
    for (unsigned cpu = 0; cpu < CPUS && n_cores > 1; cpu++) {
        if (!has(&all, cpu))
            continue;
        unsigned rank = 0; /* of its core, in order of the lowest CPU */
        for (unsigned core = 0, own = core_of(cpu); core < own; core++)
            rank += has(&cores, core);
        add(rank < n_cores / 2 ? &first : &second, cpu);
    }
    format(&first, ret_first);
    format(&second, ret_second);
}

int pqs_cpu_pin(const char *list, struct pqs_err *err) {
    if (!*list)
        return 0;
    struct cpus wanted, got;
    if (!parse(list, &wanted))
        return pqs_fail(err, PQS_E_USAGE, "\"%s\" is not a list of CPUs: write numbers and ranges, e.g. 0,2-3", list);
    if (sched_setaffinity(0, sizeof wanted.set, wanted.set))
        return pqs_fail_sys(err, PQS_E_ENV, errno, "cannot run on CPUs %s", list);
    allowed(&got); /* the kernel silently drops those that are offline or outside the cpuset */
    if (!CPU_EQUAL_S(sizeof got.set, got.set, wanted.set)) {
        char names[PQS_CPU_LIST_MAX];
        format(&got, names);
        return pqs_fail(err, PQS_E_ENV, "cannot run on CPUs %s: of these only %s are usable", list, names);
    }
    return 0;
}

void pqs_cpu_allowed(char ret_list[static PQS_CPU_LIST_MAX]) {
    struct cpus all;
    allowed(&all);
    format(&all, ret_list);
}

unsigned pqs_cpu_count(void) {
    struct cpus all;
    allowed(&all);
    int n = CPU_COUNT_S(sizeof all.set, all.set);
    return n > 0 ? (unsigned)n : 1;
}
