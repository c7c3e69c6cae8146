/* Fuzz target: the server's request parser and the client's response parser, on bytes that anybody may send. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tls/http.h"

static void request(const uint8_t *data, size_t len) {
    struct pqs_http_request q, again;
    long used = pqs_http_request_parse(data, len, &q);
    if (used <= 0)
        return;
    /* What is complete is complete by itself, is incomplete without its last byte, and ends inside the data. */
    MUST((size_t)used <= len && memchr(q.path, '\0', sizeof q.path));
    MUST(pqs_http_request_parse(data, (size_t)used, &again) == used && strcmp(q.path, again.path) == 0);
    MUST(pqs_http_request_parse(data, (size_t)used - 1, &again) == 0);
}

/* Feeds `step` bytes at a time; 1, 0 or -1 as the parser does. */
static int feed(struct pqs_http_response *r, const uint8_t *data, size_t len, size_t step) {
    int rc = 0;
    pqs_http_response_init(r);
    for (size_t at = 0; at < len && rc == 0; at += step)
        rc = pqs_http_response_feed(r, data + at, len - at < step ? len - at : step);
    return rc;
}

static void response(const uint8_t *data, size_t len) {
    struct pqs_http_response whole, parts;
    int rc = feed(&whole, data, len, len);
    for (size_t step = 1; step <= 7; step += 3) {
        MUST(feed(&parts, data, len, step) == rc); /* however the network cuts it */
        if (rc < 0)
            continue;
        MUST(parts.status == whole.status && parts.body_bytes == whole.body_bytes && parts.stage == whole.stage);
        MUST(rc == 0 || (whole.status >= 200 && whole.body_bytes <= len));
    }
    if (rc >= 0)
        (void)pqs_http_response_end(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    if (len == 0)
        return 0;
    request(data, len);
    response(data, len);
    return 0;
}
