/* Role certificates: makes keys and certificates and hands them over as PEM; nothing is written here. */
#include <string.h>

#include "crypto/certificate.h"
#include "role.h"

static const char *const params[] = {"kind", "self_signed", "ca_kind", "name", "san", "days", NULL};

static int send_file(struct pqs_channel *channel, const char *name, const struct pqs_buf *pem, struct pqs_err *err) {
    PQS_BUF payload = {0};
    if (pem->len == 0)
        return 0;
    pqs_put_str(&payload, name);
    pqs_put_bytes(&payload, pem->data, pem->len);
    return pqs_channel_send(channel, PQS_MSG_FILE, payload.data, payload.len, err);
}

static int run_certificates(struct pqs_channel *channel, const struct pqs_spec *spec, struct pqs_err *err) {
    uint64_t days;
    int rc = pqs_param_number(spec, "days", 1, PQS_CERTIFICATE_DAYS_MAX, PQS_CERTIFICATE_DAYS, &days, err);
    if (rc)
        return rc;
    struct pqs_certificate_files files = {0};
    struct pqs_certificate_request request = {
        .kind = pqs_spec_get(spec, "kind"),
        .ca_kind = pqs_spec_get(spec, "ca_kind"),
        .self_signed = pqs_param_yes(spec, "self_signed"),
        .common_name = pqs_spec_get(spec, "name"),
        .san = pqs_spec_get(spec, "san"),
        .days = (int)days,
    };
    if (!request.kind)
        return pqs_fail(err, PQS_E_USAGE, "role certificates needs the parameter kind");
    rc = pqs_certificate_make(&request, &files, err);
    if (rc == 0)
        rc = send_file(channel, "cert.pem", &files.leaf, err);
    if (rc == 0)
        rc = send_file(channel, "key.pem", &files.leaf_key, err);
    if (rc == 0)
        rc = send_file(channel, "ca.pem", &files.ca, err);
    if (rc == 0)
        rc = send_file(channel, "ca-key.pem", &files.ca_key, err);
    if (rc == 0)
        rc = pqs_channel_send_result(channel, PQS_MSG_DONE, &(struct pqs_result){0}, err);
    pqs_certificate_files_release(&files);
    return rc;
}

const struct pqs_role pqs_role_certificates = {"certificates", params, run_certificates};
