/* pqshake load: one configuration against one server. */
#include "measure.h"
#include "run/worker.h"

static const struct pqs_opt options[] = {
    PQS_MEASURE_ROW(target, .name = "target", .arg = "HOST:PORT", .type = PQS_OPT_STRING,
                    .help = "the server to load; required"),
    PQS_MEASURE_ROW(groups, .name = "groups", .arg = "LIST", .type = PQS_OPT_STRING, .def = "DEFAULT",
                    .help = "key-exchange groups to offer, in OpenSSL's syntax (A:B); DEFAULT: the library's own list"),
    PQS_MEASURE_ROW(sigalgs, .name = "sigalgs", .arg = "LIST", .type = PQS_OPT_STRING,
                    .help = "signature algorithms to offer (A:B; default: the library's own list)"),
    PQS_MEASURE_ROW(client_stack, .name = "client-stack", .arg = "NAME", .type = PQS_OPT_CHOICE, .choices = pqs_stacks,
                    .help = "TLS library that makes the load (default openssl)"),
    PQS_MEASURE_SCHEDULE_ROWS,
    PQS_MEASURE_ROW(blocks, .name = "blocks", .arg = "N", .type = PQS_OPT_U64, .def = "1", .min = 1, .max = 1000,
                    .help = "trials"),
    PQS_MEASURE_REQUEST_ROWS,
    PQS_MEASURE_CLIENT_PLACE_ROWS,
    PQS_MEASURE_OUTPUT_ROWS,
    {.name = NULL},
};

static int run(const struct pqs_call *call, struct pqs_err *err) {
    const struct pqs_measure *o = call->options;
    if (!o->target)
        return pqs_fail(err, PQS_E_USAGE, "load needs --target HOST:PORT ('pqshake tls' starts a server of its own)");
    return pqs_measure(call, o, err);
}

const struct pqs_command pqs_command_load = {
    .name = "load",
    .summary = "drive one TLS server with one configuration",
    .arguments = "--target HOST:PORT",
    .about = "Opens new connections to a server at a fixed rate, each with a full TLS 1.3 handshake and one\n"
             "request, and reports latency, failures, bytes and what was negotiated. The certificate is\n"
             "verified: --ca names whom to trust.",
    .example = "pqshake load --target www.example:8443 --ca ca.pem --groups X25519MLKEM768 --rate 100",
    .options = options,
    .options_size = sizeof(struct pqs_measure),
    .run = run,
};
