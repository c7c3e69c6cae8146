/* See http_client.h. */
#include "load/http_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static int parse_number(const char *what, const char *text, uint64_t max, uint64_t *ret, struct pqs_err *err) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value > max)
        return pqs_fail(err, PQS_E_USAGE, "%s '%s' is not a number up to %llu", what, text, (unsigned long long)max);
    *ret = value;
    return 0;
}

int pqs_http_client_init(struct pqs_http_client *c, const struct pqs_spec *spec, struct pqs_err *err) {
    *c = (struct pqs_http_client){0};
    const char *path = pqs_spec_get(spec, "path");
    const char *headers = pqs_spec_get(spec, "headers");
    const char *status = pqs_spec_get(spec, "expect_status");
    const char *bytes = pqs_spec_get(spec, "expect_bytes");
    const char *name = pqs_spec_get(spec, "servername");
    const char *host = name ? name : pqs_spec_get(spec, "host");
    uint64_t number = 200;
    int rc = status ? parse_number("expect_status", status, 599, &number, err) : 0;
    if (rc)
        return rc;
    c->expect_status = (uint16_t)number;
    c->any_length = !bytes;
    if (bytes && (rc = parse_number("expect_bytes", bytes, UINT64_MAX / 2, &c->expect_bytes, err)))
        return rc;
    const char *bracket = host && strchr(host, ':') ? "[]" : NULL;
    pqs_buf_addf(&c->request, "GET %s HTTP/1.1\r\nHost: %.1s%s%s\r\n", path ? path : "/", bracket ? bracket : "",
                 host ? host : "", bracket ? bracket + 1 : "");
    for (const char *line = headers; line && *line;) {
        size_t n = strcspn(line, "\n");
        pqs_buf_add(&c->request, line, n);
        pqs_buf_add(&c->request, "\r\n", 2);
        line += n + (line[n] == '\n');
    }
    pqs_buf_add(&c->request, "\r\n", 2);
    return 0;
}

void pqs_http_client_release(struct pqs_http_client *c) {
    pqs_buf_release(&c->request);
}

enum pqs_advance pqs_advance_fail(struct pqs_marks *marks, enum pqs_step step, unsigned failure) {
    marks->step = (uint8_t)step;
    marks->failure = (uint16_t)failure;
    return PQS_ADVANCE_FAILED;
}

static enum pqs_advance judge(const struct pqs_http_client *c, const struct pqs_http_response *r, struct pqs_marks *marks) {
    marks->done_ns = pqs_now_ns();
    if (r->status != c->expect_status)
        return pqs_advance_fail(marks, PQS_STEP_RESPONSE, PQS_FAILURE_HTTP_STATUS);
    if (!c->any_length && r->body_bytes != c->expect_bytes)
        return pqs_advance_fail(marks, PQS_STEP_RESPONSE, PQS_FAILURE_HTTP);
    return PQS_ADVANCE_DONE;
}

enum pqs_advance pqs_http_client_feed(const struct pqs_http_client *c, struct pqs_http_response *r, const uint8_t *data,
                                      size_t len, struct pqs_marks *marks) {
    if (len > 0 && marks->first_ns == 0)
        marks->first_ns = pqs_now_ns();
    int rc = pqs_http_response_feed(r, data, len);
    if (rc < 0)
        return pqs_advance_fail(marks, PQS_STEP_RESPONSE, PQS_FAILURE_HTTP);
    return rc == 0 ? PQS_ADVANCE_MORE : judge(c, r, marks);
}

enum pqs_advance pqs_http_client_end(const struct pqs_http_client *c, struct pqs_http_response *r, struct pqs_marks *marks) {
    return pqs_http_response_end(r) == 1 ? judge(c, r, marks) : pqs_advance_fail(marks, PQS_STEP_RESPONSE, PQS_FAILURE_EOF);
}
