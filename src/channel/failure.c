/* The failure classes, one row each. Must not know any TLS library: alerts are numbers here. */
#include "channel/failure.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const char *const pqs_step_names[PQS_STEPS] = {
    [PQS_STEP_LOCAL] = "local",
    [PQS_STEP_CONNECT] = "connect",
    [PQS_STEP_TLS] = "tls",
    [PQS_STEP_RESPONSE] = "response",
};

#define ALERT(number) (PQS_FAILURE_ALERT + (number))

static const struct failure_row {
    unsigned failure;
    const char *name;
    const char *text;
} rows[] = {
    {PQS_FAILURE_NONE, "none", "no failure"},
    {PQS_FAILURE_PORTS, "ports",
     "this machine ran out of source ports: lower the rate or widen net.ipv4.ip_local_port_range"},
    {PQS_FAILURE_DESCRIPTORS, "descriptors", "out of file descriptors: raise the limit (ulimit -n) or lower the rate"},
    {PQS_FAILURE_RESOURCES, "resources", "out of memory or another local resource"},
    {PQS_FAILURE_REFUSED, "refused", "connection refused: nothing listens on that address and port"},
    {PQS_FAILURE_UNREACHABLE, "unreachable", "host or network unreachable: look at the route and the firewall"},
    {PQS_FAILURE_TIMEOUT, "timeout", "no answer within the timeout"},
    {PQS_FAILURE_RESET, "reset", "the peer reset the connection"},
    {PQS_FAILURE_EOF, "eof", "the peer closed the connection before the answer was complete"},
    {PQS_FAILURE_VERIFY, "verify", "the server's certificate did not verify: look at the CA, the name and the dates"},
    {PQS_FAILURE_PROTOCOL, "protocol", "this side found a TLS protocol error"},
    {PQS_FAILURE_HTTP_STATUS, "http_status", "HTTP status other than the expected one"},
    {PQS_FAILURE_HTTP, "http", "malformed HTTP, or a body of another length"},
    {PQS_FAILURE_PLAINTEXT, "plaintext", "the peer did not speak TLS"},
    {PQS_FAILURE_VERSION, "version", "the peer offered TLS 1.2 or older only"},
    /* Alerts received: numbers and names of RFC 8446, 6 and appendix B.2. */
    {ALERT(0), "alert_close_notify", "the peer closed the TLS connection"},
    {ALERT(10), "alert_unexpected_message", "the peer got a message that it did not expect"},
    {ALERT(20), "alert_bad_record_mac", "the peer could not authenticate a record"},
    {ALERT(22), "alert_record_overflow", "the peer got a record that is too long"},
    {ALERT(40), "alert_handshake_failure", "no parameters acceptable to both: compare groups, signatures and ciphers"},
    {ALERT(42), "alert_bad_certificate", "the peer found a certificate corrupt or wrongly signed"},
    {ALERT(43), "alert_unsupported_certificate", "the peer does not support this kind of certificate"},
    {ALERT(44), "alert_certificate_revoked", "the peer says that a certificate was revoked"},
    {ALERT(45), "alert_certificate_expired", "the peer says that a certificate has expired or is not valid yet"},
    {ALERT(46), "alert_certificate_unknown", "the peer does not accept a certificate for a reason it does not tell"},
    {ALERT(47), "alert_illegal_parameter", "the peer found a handshake field wrong or inconsistent"},
    {ALERT(48), "alert_unknown_ca", "the peer does not trust the CA of a certificate"},
    {ALERT(49), "alert_access_denied", "the peer denies access to this client's certificate or PSK"},
    {ALERT(50), "alert_decode_error", "the peer could not decode a message"},
    {ALERT(51), "alert_decrypt_error", "the peer could not verify a signature, a finished message or a PSK binder"},
    {ALERT(70), "alert_protocol_version", "the peer does not support TLS 1.3"},
    {ALERT(71), "alert_insufficient_security", "the peer asks for stronger parameters"},
    {ALERT(80), "alert_internal_error", "the peer had an internal error: look at its log"},
    {ALERT(86), "alert_inappropriate_fallback", "the peer saw a retry at a lower version"},
    {ALERT(90), "alert_user_canceled", "the peer cancelled the handshake"},
    {ALERT(109), "alert_missing_extension", "the peer misses a mandatory extension"},
    {ALERT(110), "alert_unsupported_extension", "the peer got an extension that is not allowed there"},
    {ALERT(112), "alert_unrecognized_name", "the server has no such name (SNI): set the server name"},
    {ALERT(113), "alert_bad_certificate_status_response", "the peer found the stapled OCSP response unacceptable"},
    {ALERT(115), "alert_unknown_psk_identity", "the server does not know the PSK"},
    {ALERT(116), "alert_certificate_required", "client certificate required"},
    {ALERT(120), "alert_no_application_protocol", "no application protocol (ALPN) in common"},
};

static const struct failure_row *find_row(unsigned failure) {
    for (size_t i = 0; i < PQS_COUNT(rows); i++)
        if (rows[i].failure == failure)
            return &rows[i];
    return NULL;
}

static int is_alert(unsigned failure) {
    return failure >= PQS_FAILURE_ALERT && failure < PQS_FAILURE_END;
}

const char *pqs_failure_name(unsigned failure, char ret[static 48]) {
    const struct failure_row *row = find_row(failure);
    if (row)
        snprintf(ret, 48, "%s", row->name);
    else if (is_alert(failure))
        snprintf(ret, 48, "alert_%u", failure - PQS_FAILURE_ALERT);
    else
        snprintf(ret, 48, "failure_%u", failure);
    return ret;
}

const char *pqs_failure_text(unsigned failure) {
    const struct failure_row *row = find_row(failure);
    if (row)
        return row->text;
    return is_alert(failure) ? "TLS alert that TLS 1.3 does not name" : "unknown failure";
}

unsigned pqs_failure_find(const char *name) {
    /* Asking for every number's name makes this the exact inverse of pqs_failure_name, unnamed alerts included. */
    for (unsigned failure = PQS_FAILURE_NONE + 1; failure < PQS_FAILURE_END; failure++) {
        char candidate[48];
        if (strcmp(pqs_failure_name(failure, candidate), name) == 0)
            return failure;
    }
    return PQS_FAILURE_NONE;
}
