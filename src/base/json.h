/* Strict JSON out (RFC 8259): UTF-8, escaped, no NaN or Infinity (they become null), no trailing commas. Reading JSON is a
 * library's work (tests use jansson); writing it is these few lines. */
#ifndef PQS_BASE_JSON_H
#define PQS_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct pqs_json {
    struct pqs_buf *out;
    unsigned depth;     /* 0 at the top; at most 31 */
    uint32_t has_items; /* bit per depth */
};

struct pqs_json pqs_json_begin(struct pqs_buf *out);
/* key is NULL inside an array and at the top level. */
void pqs_json_object(struct pqs_json *j, const char *key);
void pqs_json_array(struct pqs_json *j, const char *key);
void pqs_json_end_object(struct pqs_json *j);
void pqs_json_end_array(struct pqs_json *j);
void pqs_json_str(struct pqs_json *j, const char *key, const char *value); /* NULL value -> null; bad UTF-8 -> U+FFFD */
void pqs_json_int(struct pqs_json *j, const char *key, int64_t value);
void pqs_json_num(struct pqs_json *j, const char *key, double value); /* not finite -> null; round-trips */
void pqs_json_bool(struct pqs_json *j, const char *key, bool value);
void pqs_json_null(struct pqs_json *j, const char *key);

#endif
