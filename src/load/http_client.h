/* The request that every HTTP engine sends and the check of its answer: parameters path, headers, expect_status,
 * expect_bytes. */
#ifndef PQS_LOAD_HTTP_CLIENT_H
#define PQS_LOAD_HTTP_CLIENT_H

#include "base/buf.h"
#include "load/engine.h"
#include "tls/http.h"

struct pqs_http_client {
    struct pqs_buf request; /* complete, ready to send */
    uint16_t expect_status;
    bool any_length;
    uint64_t expect_bytes;
};
PQS_MUST_CHECK int pqs_http_client_init(struct pqs_http_client *c, const struct pqs_spec *spec, struct pqs_err *err);
void pqs_http_client_release(struct pqs_http_client *c);

/* Response bytes arrived: notes first_ns and done_ns and judges the complete answer. */
enum pqs_advance pqs_http_client_feed(const struct pqs_http_client *c, struct pqs_http_response *r, const uint8_t *data,
                                      size_t len, struct pqs_marks *marks);
/* The stream ended. */
enum pqs_advance pqs_http_client_end(const struct pqs_http_client *c, struct pqs_http_response *r, struct pqs_marks *marks);
/* Sets step and failure; returns PQS_ADVANCE_FAILED. */
enum pqs_advance pqs_advance_fail(struct pqs_marks *marks, enum pqs_step step, unsigned failure);

#endif
