/* What all fuzz targets share: the entry point that libFuzzer and replay.c call, and MUST, the checks of a target. */
#ifndef PQS_FUZZ_H
#define PQS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Unlike assert, there in every build. */
#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                       \
            abort();                                                                                                        \
        }                                                                                                                   \
    } while (0)

#endif
