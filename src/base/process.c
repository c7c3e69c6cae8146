/* Finds the descendants of a process in /proc and adds up their CPU time. Must not know: what these processes do. */
#include "base/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

struct process {
    pid_t pid, parent;
    char state; /* 'Z': ended, not yet waited for */
    char name[64];
    int64_t children_ns; /* of children that ended and were waited for, and of theirs */
    uint64_t start;
    bool in_tree;
};

struct table {
    struct process *rows;
    size_t n, cap;
};

/* One line of /proc/PID/stat (proc(5)). The name may hold blanks and parentheses: the last ')' ends it. */
static bool read_stat(pid_t pid, struct process *ret) {
    char path[64];
    long ticks_per_s = sysconf(_SC_CLK_TCK);
    PQS_BUF text = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (pqs_read_file(path, 65536, &text, NULL))
        return false;
    const char *line = pqs_buf_text(&text), *open = strchr(line, '('), *close = strrchr(line, ')');
    *ret = (struct process){.pid = pid};
    int parent;
    int64_t user_ticks, system_ticks;
    /* Fields 3 (state), 4 (parent), 16 and 17 (children's user and system time), 22 (start). */
    if (!open || !close || close < open || ticks_per_s <= 0 ||
        /* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers, which fit; that all were there is checked */
        sscanf(close + 1,
               " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNd64 " %" SCNd64 " %*s %*s %*s %*s %" SCNu64,
               &ret->state, &parent, &user_ticks, &system_ticks, &ret->start) != 5)
        return false;
    ret->parent = parent;
    ret->children_ns = (user_ticks + system_ticks) * (PQS_NS_PER_S / ticks_per_s);
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}

static int read_table(struct table *t, struct pqs_err *err) {
    DIR *proc = opendir("/proc");
    if (!proc)
        return pqs_fail_sys(err, PQS_E_ENV, errno, "cannot read /proc");
    for (struct dirent *entry = readdir(proc); entry; entry = readdir(proc)) {
        struct process p;
        if (!isdigit((unsigned char)entry->d_name[0]) || !read_stat((pid_t)strtol(entry->d_name, NULL, 10), &p))
            continue; /* it may have ended meanwhile */
        PQS_GROW(t->rows, t->n, t->cap);
        t->rows[t->n++] = p;
    }
    closedir(proc);
    return 0;
}

static struct process *find(struct table *t, pid_t pid) {
    for (size_t i = 0; i < t->n; i++)
        if (t->rows[i].pid == pid)
            return &t->rows[i];
    return NULL;
}

/* Until a pass adds none: a child may have a lower number than its parent. */
static void mark_descendants(struct table *t) {
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < t->n; i++) {
            const struct process *parent = t->rows[i].in_tree ? NULL : find(t, t->rows[i].parent);
            if (parent && parent->in_tree)
                more = t->rows[i].in_tree = true;
        }
    }
}

/* All its threads, also those that have ended, to the nanosecond. 0 for one that is gone. */
static int64_t own_cpu_ns(pid_t pid) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        return 0;
    return (int64_t)t.tv_sec * PQS_NS_PER_S + t.tv_nsec;
}

static int fail_missing(pid_t pid, struct pqs_err *err) {
    if (kill(pid, 0) == 0 || errno == EPERM)
        return pqs_fail(err, PQS_E_FAILED,
                        "process %d belongs to another user, and /proc hides it (hidepid): run as that user or as root",
                        (int)pid);
    return pqs_fail(err, PQS_E_FAILED, "there is no process %d", (int)pid);
}

int pqs_process_tree_read(pid_t pid, struct pqs_process_tree *ret_tree, struct pqs_err *err) {
    struct table t = {0};
    int rc = read_table(&t, err);
    struct process *root = rc ? NULL : find(&t, pid);
    if (rc == 0 && !root)
        rc = fail_missing(pid, err);
    else if (rc == 0 && root->state == 'Z')
        rc = pqs_fail(err, PQS_E_FAILED, "process %d (%s) has ended", (int)pid, root->name);
    if (rc == 0 && root) {
        struct pqs_process_tree tree = {.start = root->start};
        memcpy(tree.name, root->name, sizeof tree.name);
        root->in_tree = true;
        mark_descendants(&t);
        for (size_t i = 0; i < t.n; i++)
            if (t.rows[i].in_tree)
                tree.cpu_ns += own_cpu_ns(t.rows[i].pid) + t.rows[i].children_ns;
        *ret_tree = tree;
    }
    free(t.rows);
    return rc;
}
