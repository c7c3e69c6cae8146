/* The little HTTP/1.1 (RFC 9112) that a handshake benchmark needs, as push parsers over bytes: a request head for the
 * server, a response for the client. Must not know sockets or TLS. */
#ifndef PQS_TLS_HTTP_H
#define PQS_TLS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PQS_HTTP_LINE_MAX 512   /* of a line; what is longer in a response is cut, in a request it is refused */
#define PQS_HTTP_HEAD_MAX 16384 /* of a request or response head */

/* ---- server side ---- */
struct pqs_http_request {
    bool get;                     /* method is GET or HEAD */
    bool head;                    /* method is HEAD */
    bool close;                   /* the connection ends after the response */
    char path[PQS_HTTP_LINE_MAX]; /* as sent, without the query */
};
/* Parses one request head at data[0..len). Returns its length in bytes when complete, 0 when more is needed, -1 when it is
 * not HTTP/1.x or too long. A request with a body is refused (-1): nothing here takes one. */
long pqs_http_request_parse(const uint8_t *data, size_t len, struct pqs_http_request *ret);

/* ---- client side ---- */
enum pqs_http_stage {
    PQS_HTTP_STATUS_LINE = 0,
    PQS_HTTP_HEADERS,
    PQS_HTTP_BODY,
    PQS_HTTP_CHUNK_SIZE,
    PQS_HTTP_CHUNK_DATA,
    PQS_HTTP_CHUNK_END,
    PQS_HTTP_TRAILERS,
    PQS_HTTP_DONE
};
struct pqs_http_response {
    uint8_t stage; /* enum pqs_http_stage */
    bool until_close;
    bool chunked;
    uint16_t status;
    uint16_t line_len;
    uint32_t head_bytes;
    uint64_t left;       /* of the body or chunk */
    uint64_t body_bytes; /* so far */
    char line[PQS_HTTP_LINE_MAX];
};
void pqs_http_response_init(struct pqs_http_response *r);
/* Feeds bytes. Returns 1 when the response is complete (excess bytes are ignored), 0 when more is needed, -1 when malformed.
 * Interim 1xx responses are skipped. */
int pqs_http_response_feed(struct pqs_http_response *r, const uint8_t *data, size_t len);
/* The stream ended: 1 when that completes a response without a length, -1 otherwise. */
int pqs_http_response_end(struct pqs_http_response *r);

#endif
