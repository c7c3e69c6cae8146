/* Memory and cleanup idioms. Allocation failure ends the process with a message (exit 1): a measuring tool that runs out of
 * memory has nothing to save, since finished trials are on disk already. */
#ifndef PQS_BASE_MEM_H
#define PQS_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *pqs_calloc(size_t n, size_t size);                                      /* zeroed, never NULL */
void *pqs_realloc(void *p, size_t size);                                      /* never NULL */
char *pqs_strdup(const char *s);                                              /* never NULL */
char *pqs_format(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* heap string, caller frees */

/* PQS_GROW(array, n, cap): makes room for one more element at array[n]; array is a heap pointer or NULL, cap its room. */
#define PQS_GROW(array, n, cap)                                                                                             \
    do {                                                                                                                    \
        if ((n) == (cap)) {                                                                                                 \
            (cap) = (cap) ? 2 * (cap) : 8;                                                                                  \
            (array) = pqs_realloc((array), (cap) * sizeof *(array));                                                        \
        }                                                                                                                   \
    } while (0)

int64_t pqs_memory_peak_bytes(void); /* most memory that this process had resident so far; 0: not known */

void pqs_cleanup_free(void *p);        /* *p was allocated by the above */
void pqs_cleanup_close(const int *fd); /* closes when >= 0 */
#define PQS_FREE __attribute__((cleanup(pqs_cleanup_free)))
#define PQS_CLOSE __attribute__((cleanup(pqs_cleanup_close)))

#define PQS_COUNT(array) (sizeof(array) / sizeof(array)[0])

#endif
