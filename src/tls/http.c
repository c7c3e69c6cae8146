/* HTTP/1.1 push parsers (RFC 9112). See http.h. */
#include "tls/http.h"

#include <string.h>
#include <strings.h>

/* Length of the head up to and including its empty line, 0 when there is none yet. */
static size_t head_length(const uint8_t *data, size_t len) {
    for (size_t i = 3; i < len; i++)
        if (data[i] == '\n' && data[i - 1] == '\r' && data[i - 2] == '\n' && data[i - 3] == '\r')
            return i + 1;
    return 0;
}

/* Whether the comma-separated list `value` holds `token`, without regard to case (RFC 9110, 5.6.1). */
static bool has_token(const char *value, const char *token) {
    const size_t n = strlen(token);
    for (const char *p = value; *p;) {
        p += strspn(p, " \t,");
        size_t len = strcspn(p, ",");
        size_t item = len;
        while (item > 0 && (p[item - 1] == ' ' || p[item - 1] == '\t'))
            item--;
        if (item == n && strncasecmp(p, token, n) == 0)
            return true;
        p += len;
    }
    return false;
}

/* The value of "Name: value" when the line is that header, else NULL. */
static const char *header_value(const char *line, const char *name) {
    const size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return NULL;
    line += n + 1;
    return line + strspn(line, " \t");
}

/* A non-negative decimal number and nothing else but trailing blanks; false when it is not or exceeds 2^62. */
static bool parse_length(const char *text, uint64_t *ret) {
    uint64_t value = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits + strspn(text + digits, " \t")] != '\0')
        return false;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (uint64_t)(text[i] - '0');
    *ret = value;
    return true;
}

long pqs_http_request_parse(const uint8_t *data, size_t len, struct pqs_http_request *ret) {
    /* What does not begin like a request line will never become one: say so before the peer has sent 16 KB of it. */
    if (len > 0 && (data[0] < 'A' || data[0] > 'Z'))
        return -1;
    size_t head = head_length(data, len);
    if (head == 0)
        return len >= PQS_HTTP_HEAD_MAX ? -1 : 0;
    if (head > PQS_HTTP_HEAD_MAX || memchr(data, '\0', head))
        return -1;
    *ret = (struct pqs_http_request){0};
    char line[PQS_HTTP_LINE_MAX];
    bool first = true;
    bool http10 = false;
    bool keep_alive = false;
    for (size_t at = 0; at < head;) {
        const uint8_t *end = memchr(data + at, '\n', head - at);
        size_t n = (size_t)(end - (data + at));
        if (n == 0 || data[at + n - 1] != '\r' || n - 1 >= sizeof line)
            return -1;
        memcpy(line, data + at, n - 1);
        line[n - 1] = '\0';
        at += n + 1;
        if (first) {
            first = false;
            size_t method = strcspn(line, " ");
            if (line[method] != ' ')
                return -1;
            const char *target = line + method + 1;
            size_t target_len = strcspn(target, " ");
            const char *version = target + target_len;
            if (target_len == 0 || (strcmp(version, " HTTP/1.1") != 0 && strcmp(version, " HTTP/1.0") != 0))
                return -1;
            http10 = version[8] == '0';
            ret->head = method == 4 && memcmp(line, "HEAD", 4) == 0;
            ret->get = ret->head || (method == 3 && memcmp(line, "GET", 3) == 0);
            size_t path_len = strcspn(target, " ?");
            memcpy(ret->path, target, path_len);
            continue;
        }
        /* A name and its colon with no blank between them (RFC 9112, 5.1); folded lines (5.2) are not taken either. */
        size_t name = strcspn(line, " \t:");
        if (line[0] != '\0' && (name == 0 || line[name] != ':'))
            return -1;
        const char *value;
        uint64_t length = 0;
        if ((value = header_value(line, "connection"))) {
            ret->close |= has_token(value, "close");
            keep_alive |= has_token(value, "keep-alive");
        } else if ((value = header_value(line, "content-length"))) {
            if (!parse_length(value, &length) || length != 0)
                return -1;
        } else if (header_value(line, "transfer-encoding")) {
            return -1;
        }
    }
    if (http10 && !keep_alive)
        ret->close = true;
    return (long)head;
}

void pqs_http_response_init(struct pqs_http_response *r) {
    memset(r, 0, offsetof(struct pqs_http_response, line));
}

/* The head is complete: how is the body delimited (RFC 9112, 6.3)? */
static int head_done(struct pqs_http_response *r) {
    if (r->status < 200) { /* an interim response: the real one follows */
        uint32_t head_bytes = r->head_bytes;
        pqs_http_response_init(r);
        r->head_bytes = head_bytes;
        return 0;
    }
    if (r->status == 204 || r->status == 304) {
        r->stage = PQS_HTTP_DONE;
        return 1;
    }
    if (r->chunked) {
        r->stage = PQS_HTTP_CHUNK_SIZE;
        return 0;
    }
    r->stage = PQS_HTTP_BODY;
    if (r->until_close || r->left > 0)
        return 0;
    r->stage = PQS_HTTP_DONE;
    return 1;
}

/* One complete line, NUL-terminated in r->line, without its line end. */
static int take_line(struct pqs_http_response *r) {
    const char *line = r->line;
    const char *value;
    switch (r->stage) {
    case PQS_HTTP_STATUS_LINE:
        if (strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') || line[8] != ' ' ||
            strspn(line + 9, "0123456789") != 3 || (line[12] != ' ' && line[12] != '\0'))
            return -1;
        r->status = (uint16_t)((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
        r->until_close = true; /* unless a header says otherwise */
        r->stage = PQS_HTTP_HEADERS;
        return r->status < 100 ? -1 : 0;
    case PQS_HTTP_HEADERS:
        if (line[0] == '\0')
            return head_done(r);
        if ((value = header_value(line, "content-length"))) {
            uint64_t length;
            if (!parse_length(value, &length) || (!r->until_close && length != r->left))
                return -1;
            r->left = length;
            r->until_close = false;
        } else if ((value = header_value(line, "transfer-encoding"))) {
            r->chunked = has_token(value, "chunked");
        }
        return 0;
    case PQS_HTTP_CHUNK_SIZE: {
        size_t digits = strspn(line, "0123456789abcdefABCDEF");
        size_t after = digits + strspn(line + digits, " \t");
        if (digits == 0 || digits > 15 || (line[after] != '\0' && line[after] != ';')) /* extensions are ignored */
            return -1;
        r->left = 0;
        for (size_t i = 0; i < digits; i++) {
            char c = line[i];
            r->left = r->left * 16 + (uint64_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
        }
        r->stage = r->left ? PQS_HTTP_CHUNK_DATA : PQS_HTTP_TRAILERS;
        return 0;
    }
    case PQS_HTTP_CHUNK_END:
        r->stage = PQS_HTTP_CHUNK_SIZE;
        return line[0] == '\0' ? 0 : -1;
    case PQS_HTTP_TRAILERS:
        if (line[0] != '\0')
            return 0;
        r->stage = PQS_HTTP_DONE;
        return 1;
    default:
        return -1;
    }
}

int pqs_http_response_feed(struct pqs_http_response *r, const uint8_t *data, size_t len) {
    while (len > 0 && r->stage != PQS_HTTP_DONE) {
        if (r->stage == PQS_HTTP_BODY || r->stage == PQS_HTTP_CHUNK_DATA) {
            size_t n = len;
            if (!(r->stage == PQS_HTTP_BODY && r->until_close) && r->left < n)
                n = (size_t)r->left;
            data += n;
            len -= n;
            r->body_bytes += n;
            if (r->stage == PQS_HTTP_BODY && r->until_close)
                continue;
            r->left -= n;
            if (r->left == 0)
                r->stage = r->stage == PQS_HTTP_BODY ? PQS_HTTP_DONE : PQS_HTTP_CHUNK_END;
            continue;
        }
        const uint8_t *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        size_t room = sizeof r->line - 1 - r->line_len;
        size_t keep = n < room ? n : room;
        memcpy(r->line + r->line_len, data, keep);
        r->line_len = (uint16_t)(r->line_len + keep);
        if (r->stage <= PQS_HTTP_HEADERS || r->stage == PQS_HTTP_TRAILERS)
            r->head_bytes += (uint32_t)n;
        if (r->head_bytes > PQS_HTTP_HEAD_MAX)
            return -1;
        data += n + (end != NULL);
        len -= n + (end != NULL);
        if (!end)
            return 0;
        if (r->line_len > 0 && r->line[r->line_len - 1] == '\r')
            r->line_len--;
        r->line[r->line_len] = '\0';
        r->line_len = 0;
        if (take_line(r) < 0)
            return -1;
    }
    return r->stage == PQS_HTTP_DONE;
}

int pqs_http_response_end(struct pqs_http_response *r) {
    if (r->stage == PQS_HTTP_BODY && r->until_close) {
        r->stage = PQS_HTTP_DONE;
        return 1;
    }
    return r->stage == PQS_HTTP_DONE ? 1 : -1;
}
