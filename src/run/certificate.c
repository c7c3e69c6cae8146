/* The coordinator's side of the certificates role. Nothing here is written to disk. */
#include "run/certificate.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run/worker.h"

#define MAKE_TIMEOUT_NS (180 * PQS_NS_PER_S) /* two RSA-4096 keys on a slow machine */

void pqs_pem_release(struct pqs_pem *pem) {
    pqs_buf_release(&pem->cert);
    pqs_buf_release(&pem->key);
    pqs_buf_release(&pem->ca);
    pqs_buf_release(&pem->ca_key);
}

static int on_file(void *context, enum pqs_message type, const struct pqs_buf *payload, struct pqs_err *err) {
    struct pqs_pem *pem = context;
    const struct {
        const char *name;
        struct pqs_buf *to;
    } files[] = {{"cert.pem", &pem->cert}, {"key.pem", &pem->key}, {"ca.pem", &pem->ca}, {"ca-key.pem", &pem->ca_key}};
    struct pqs_cursor c = {.p = payload->data, .left = payload->len};
    char name[32];
    size_t len = 0;
    pqs_get_str(&c, name, sizeof name);
    const uint8_t *data = pqs_get_bytes(&c, &len);
    for (size_t i = 0; type == PQS_MSG_FILE && !c.bad && i < PQS_COUNT(files); i++)
        if (strcmp(files[i].name, name) == 0) {
            pqs_buf_add(files[i].to, data, len);
            return 0;
        }
    return pqs_fail(err, PQS_E_FAILED, "the certificates worker sent '%s' instead of a certificate file",
                    pqs_message_name(type));
}

int pqs_order_certificate(const struct pqs_order *order, struct pqs_pem *ret_pem, struct pqs_err *err) {
    PQS_WORKER w = {0};
    int rc = pqs_worker_start(order->stack ? order->stack : PQS_DEFAULT_STACK, "certificates", &w, err);
    if (rc)
        return rc;
    struct pqs_spec spec = {0};
    pqs_spec_set(&spec, "kind", order->kind);
    pqs_spec_set(&spec, "ca_kind", order->ca_kind);
    pqs_spec_set(&spec, "name", order->name);
    pqs_spec_set(&spec, "san", order->san);
    pqs_spec_set(&spec, "self_signed", order->self_signed ? "yes" : NULL);
    if (order->days) {
        char days[16];
        snprintf(days, sizeof days, "%d", order->days);
        pqs_spec_set(&spec, "days", days);
    }
    struct pqs_pem pem = {0};
    const struct pqs_waiting waiting = {.on_message = on_file, .context = &pem};
    rc = pqs_worker_ask(&w, PQS_MSG_CONFIGURE, &spec, PQS_MSG_DONE, MAKE_TIMEOUT_NS, &waiting, NULL, err);
    if (rc == 0 && (pem.cert.len == 0 || pem.key.len == 0 || pem.ca.len == 0))
        rc = pqs_fail(err, PQS_E_FAILED, "the certificates worker did not send the certificate, its key and its CA");
    if (rc == 0)
        *ret_pem = pem;
    else
        pqs_pem_release(&pem);
    pqs_spec_release(&spec);
    return rc ? pqs_context(err, "making a certificate of kind %s", order->kind) : 0;
}
