/* Runs a fuzz target once on every file of the directory given: the corpus as an ordinary test, without libFuzzer. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "fuzz.h"

static void replay(const char *path) {
    struct pqs_err err;
    PQS_BUF data = {0};
    if (pqs_read_file(path, 16 << 20, &data, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    /* A copy of exactly that size, so that a sanitizer sees a read beyond it. */
    PQS_FREE uint8_t *exact = pqs_calloc(1, data.len ? data.len : 1);
    if (data.len)
        memcpy(exact, data.data, data.len);
    fprintf(stderr, "%s\n", path); /* the last one is the one that failed */
    LLVMFuzzerTestOneInput(exact, data.len);
}

int main(int argc, char **argv) {
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    size_t n = 0;
    if (!dir) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        PQS_FREE char *path = pqs_format("%s/%s", argv[1], e->d_name);
        replay(path);
        n++;
    }
    closedir(dir);
    fprintf(stderr, "%zu inputs\n", n);
    return n == 0;
}
