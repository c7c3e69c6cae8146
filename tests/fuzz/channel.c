/* Fuzz target: everything that comes through the pipe of a worker, which may be another program's output or a worker gone
 * mad. The first byte chooses the layer, since no fuzzer gets through a checksum or a length by itself. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"
#include "channel/message.h"
#include "channel/result.h"
#include "channel/spec.h"
#include "fuzz.h"
#include "stats/hist.h"

static bool same(const struct pqs_buf *a, const struct pqs_buf *b) {
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static void spec(const uint8_t *data, size_t len) {
    struct pqs_spec s = {0}, again = {0};
    struct pqs_err err;
    PQS_BUF once = {0}, twice = {0};
    if (pqs_spec_decode(data, len, &s, &err))
        return;
    pqs_spec_encode(&s, &once);
    MUST(pqs_spec_decode(once.data, once.len, &again, &err) == 0);
    pqs_spec_encode(&again, &twice);
    MUST(same(&once, &twice));
    pqs_spec_release(&s);
    pqs_spec_release(&again);
}

static void result(const uint8_t *data, size_t len) {
    struct pqs_result r = {0}, again = {0};
    struct pqs_err err;
    PQS_BUF once = {0}, twice = {0};
    if (pqs_result_decode(data, len, &r, &err) == 0) {
        pqs_result_encode(&r, &once);
        MUST(pqs_result_decode(once.data, once.len, &again, &err) == 0);
        pqs_result_encode(&again, &twice);
        MUST(same(&once, &twice));
    }
    pqs_result_release(&r);
    pqs_result_release(&again);
}

/* version and exact figures (49 bytes), then the plain header and counts, which are packed here. */
static void histogram(const uint8_t *data, size_t len) {
    enum { EXACT = 49 };
    if (len < EXACT)
        return;
    PQS_BUF blob = {0}, once = {0};
    uLongf packed_len = compressBound(len - EXACT);
    PQS_FREE Bytef *packed = pqs_calloc(packed_len, 1);
    MUST(compress(packed, &packed_len, data + EXACT, len - EXACT) == Z_OK);
    pqs_buf_add(&blob, data, EXACT);
    const uint8_t head[] = {0x1c,
                            0x84,
                            0x93,
                            0x14,
                            (uint8_t)(packed_len >> 24),
                            (uint8_t)(packed_len >> 16),
                            (uint8_t)(packed_len >> 8),
                            (uint8_t)packed_len};
    pqs_buf_add(&blob, head, sizeof head);
    pqs_buf_add(&blob, packed, packed_len);
    struct pqs_hist *h = NULL, *again = NULL, *sum = pqs_hist_new();
    struct pqs_err err;
    if (pqs_hist_decode(blob.data, blob.len, &h, &err) == 0) {
        pqs_hist_encode(h, &once);
        MUST(pqs_hist_decode(once.data, once.len, &again, &err) == 0);
        MUST(pqs_hist_n(again) == pqs_hist_n(h) && pqs_hist_min(again) == pqs_hist_min(h));
        double p50 = pqs_hist_quantile(h, 0.5);
        MUST(pqs_hist_n(h) == 0 || (p50 >= (double)pqs_hist_min(h) && p50 <= (double)pqs_hist_max(h)));
        pqs_hist_merge(sum, h);
        pqs_hist_merge(sum, again);
    }
    pqs_hist_free(h);
    pqs_hist_free(again);
    pqs_hist_free(sum);
}

static void frames(const uint8_t *data, size_t len) {
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("channel", MFD_CLOEXEC);
    MUST(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, len, 0) == (ssize_t)len && lseek(fd, 0, SEEK_SET) == 0);
    struct pqs_channel c;
    struct pqs_err err;
    PQS_BUF payload = {0};
    enum pqs_message type;
    size_t seen = 0;
    int rc;
    pqs_channel_init(&c, fd, -1);
    while ((rc = pqs_channel_recv(&c, 0, &type, &payload, &err)) == 1) {
        seen += payload.len;
        if (type == PQS_MSG_CONFIGURE)
            spec(payload.data, payload.len);
        else
            result(payload.data, payload.len);
    }
    MUST(rc < 0 && *err.msg && seen <= len); /* the file ends, so the channel does */
    pqs_channel_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static void (*const layers[])(const uint8_t *data, size_t len) = {frames, spec, result, histogram};
    if (len > 0 && data[0] < PQS_COUNT(layers))
        layers[data[0]](data + 1, len - 1);
    return 0;
}
