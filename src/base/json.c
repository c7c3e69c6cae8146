/* Writes JSON, compact, into a buffer. Must not know: what is described. */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pqs_json pqs_json_begin(struct pqs_buf *out) {
    return (struct pqs_json){.out = out};
}

/* Bytes of the well-formed UTF-8 sequence at s (Unicode 15, table 3-7), or 0. Reads no further than the first bad byte, and
 * so never past the NUL. */
static size_t utf8_len(const unsigned char *s) {
    if (s[0] < 0x80)
        return 1;
    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    /* Only the second byte's range depends on the first: no overlong forms, no surrogates, nothing above U+10FFFF. */
    unsigned low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[0] < 0xc2 || s[0] > 0xf4 || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return len;
}

static void quote(struct pqs_buf *out, const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    pqs_buf_add(out, "\"", 1);
    while (*s) {
        size_t len = utf8_len(s);
        if (len == 0)
            pqs_buf_add(out, "\xef\xbf\xbd", 3);
        else if (*s < 0x20)
            pqs_buf_addf(out, "\\u%04x", (unsigned)*s);
        else if (*s == '"' || *s == '\\')
            pqs_buf_addf(out, "\\%c", *s);
        else
            pqs_buf_add(out, s, len);
        s += len ? len : 1;
    }
    pqs_buf_add(out, "\"", 1);
}

/* What stands before every value: the comma and the key. */
static void item(struct pqs_json *j, const char *key) {
    uint32_t bit = UINT32_C(1) << j->depth;
    if (j->has_items & bit)
        pqs_buf_add(j->out, ",", 1);
    j->has_items |= bit;
    if (key) {
        quote(j->out, key);
        pqs_buf_add(j->out, ":", 1);
    }
}

static void literal(struct pqs_json *j, const char *key, const char *text) {
    item(j, key);
    pqs_buf_add(j->out, text, strlen(text));
}

/* Nesting too deep or closing what is not open is a mistake in this program: no output is better than wrong output. */
static void nest(struct pqs_json *j, const char *key, const char *open) {
    literal(j, key, open);
    if (++j->depth > 31)
        abort();
    j->has_items &= ~(UINT32_C(1) << j->depth);
}

static void unnest(struct pqs_json *j, const char *close) {
    if (j->depth-- == 0)
        abort();
    pqs_buf_add(j->out, close, 1);
}

void pqs_json_object(struct pqs_json *j, const char *key) {
    nest(j, key, "{");
}

void pqs_json_array(struct pqs_json *j, const char *key) {
    nest(j, key, "[");
}

void pqs_json_end_object(struct pqs_json *j) {
    unnest(j, "}");
}

void pqs_json_end_array(struct pqs_json *j) {
    unnest(j, "]");
}

void pqs_json_str(struct pqs_json *j, const char *key, const char *value) {
    if (!value) {
        pqs_json_null(j, key);
        return;
    }
    item(j, key);
    quote(j->out, value);
}

void pqs_json_int(struct pqs_json *j, const char *key, int64_t value) {
    item(j, key);
    pqs_buf_addf(j->out, "%" PRId64, value);
}

void pqs_json_num(struct pqs_json *j, const char *key, double value) {
    if (!isfinite(value)) {
        pqs_json_null(j, key);
        return;
    }
    char text[32]; /* the shortest of these that reads back as the same double; 17 digits always do */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    literal(j, key, text);
}

void pqs_json_bool(struct pqs_json *j, const char *key, bool value) {
    literal(j, key, value ? "true" : "false");
}

void pqs_json_null(struct pqs_json *j, const char *key) {
    literal(j, key, "null");
}
