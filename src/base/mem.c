/* Allocation that does not fail, and the cleanup helpers. Must not know: what is stored. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *must(void *p) {
    if (!p) {
        fputs("pqshake: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

void *pqs_calloc(size_t n, size_t size) {
    return must(calloc(n ? n : 1, size ? size : 1));
}

void *pqs_realloc(void *p, size_t size) {
    return must(realloc(p, size ? size : 1));
}

char *pqs_strdup(const char *s) {
    return must(strdup(s));
}

char *pqs_format(const char *fmt, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    va_end(args);
    return must(text);
}

int64_t pqs_memory_peak_bytes(void) {
    /* Not getrusage's ru_maxrss, which starts with what the process was before exec. */
    FILE *file = fopen("/proc/self/status", "re");
    char line[128];
    long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    if (file)
        fclose(file);
    return (int64_t)kib * 1024;
}

void pqs_cleanup_free(void *p) {
    void *memory;
    memcpy(&memory, p, sizeof memory); /* p points to a pointer of any type */
    free(memory);
}

void pqs_cleanup_close(const int *fd) {
    if (*fd >= 0)
        close(*fd);
}
