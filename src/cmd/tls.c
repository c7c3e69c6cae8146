/* pqshake tls: compares TLS 1.3 arms under open-loop load. */
#include "base/mem.h"
#include "measure.h"

static const struct pqs_opt options[] = {
    PQS_MEASURE_ROW(
        groups, .name = "groups", .arg = "LIST", .type = PQS_OPT_STRING,
        .help = "key-exchange groups to compare, separated by commas; an item may be a list in OpenSSL's syntax (A:B) "
                "or DEFAULT (default X25519,X25519MLKEM768, with --aa X25519)"),
    PQS_MEASURE_ROW(cert, .name = "cert", .arg = "LIST", .type = PQS_OPT_STRING,
                    .help = "certificate kinds to compare, made for the run (default ecdsa-p256; not with --target)"),
    PQS_MEASURE_ROW(sigalgs, .name = "sigalgs", .arg = "LIST", .type = PQS_OPT_STRING,
                    .help = "signature algorithms to offer; an item may be a list (A:B; default: the library's own)"),
    PQS_MEASURE_ROW(client_stack, .name = "client-stack", .arg = "LIST", .type = PQS_OPT_STRING,
                    .help = "TLS libraries of the client to compare, of openssl and aws-lc (default openssl)"),
    PQS_MEASURE_ROW(server_stack, .name = "server-stack", .arg = "LIST", .type = PQS_OPT_STRING,
                    .help =
                        "TLS libraries of the own server to compare; with more than one stack on either side the default "
                        "group is X25519MLKEM768 alone"),
    PQS_MEASURE_ROW(aa, .name = "aa", .type = PQS_OPT_FLAG,
                    .help = "measure every arm twice, against itself: a difference is the method's, not the arm's"),
    PQS_MEASURE_ROW(baseline, .name = "baseline", .arg = "NAME", .type = PQS_OPT_STRING,
                    .help = "the arm that the others are compared with (default the first)"),
    PQS_MEASURE_ROW(blocks, .name = "blocks", .arg = "N", .type = PQS_OPT_U64, .def = "10", .min = 1, .max = 1000,
                    .help = "blocks of one trial per arm, in random order; under 5 there are no intervals"),
    PQS_MEASURE_ROW(quick, .name = "quick", .type = PQS_OPT_FLAG,
                    .help = "short for --duration 2s --warmup 500ms --blocks 5; each may still be given"),
    PQS_MEASURE_SCHEDULE_ROWS,
    PQS_MEASURE_ROW(target, .name = "target", .arg = "HOST:PORT", .type = PQS_OPT_STRING,
                    .help = "measure this server instead of starting one; it must accept every arm"),
    PQS_MEASURE_REQUEST_ROWS,
    PQS_MEASURE_ROW(server_groups, .name = "server-groups", .arg = "LIST", .type = PQS_OPT_STRING,
                    .help =
                        "what the own server accepts in every arm (default: all groups of the arms, post-quantum first)"),
    PQS_MEASURE_ROW(server_threads, .name = "server-threads", .arg = "N", .type = PQS_OPT_U64, .min = 0,
                    .max = PQS_MAX_THREADS, .help = "threads of the own server (0: 1)"),
    PQS_MEASURE_ROW(ipv6, .name = "ipv6", .type = PQS_OPT_FLAG,
                    .help = "the own server listens on ::1 instead of 127.0.0.1"),
    PQS_MEASURE_ROW(server_via, .name = "server-via", .arg = "CMD", .type = PQS_OPT_STRING,
                    .help = "command that the own server is started through, as --client-via"),
    PQS_MEASURE_ROW(server_worker, .name = "server-worker", .arg = "PATH", .type = PQS_OPT_STRING,
                    .help = "path of the own server's worker there (default: the same as here)"),
    PQS_MEASURE_ROW(server_host, .name = "server-host", .arg = "ADDRESS", .type = PQS_OPT_STRING,
                    .help = "IP address that the own server listens on and the client connects to; needed when they are not "
                            "on one machine (default 127.0.0.1)"),
    PQS_MEASURE_CLIENT_PLACE_ROWS,
    PQS_MEASURE_OUTPUT_ROWS,
    {.name = NULL},
};

static int run(const struct pqs_call *call, struct pqs_err *err) {
    const struct pqs_measure *o = call->options;
    if (!o->quick)
        return pqs_measure(call, o, err);
    /* Parsed again with what --quick stands for in front: the user's own options come later, and win. */
    char *quick[] = {call->argv[0], "--duration", "2s", "--warmup", "500ms", "--blocks", "5"};
    PQS_FREE char **argv = pqs_calloc(PQS_COUNT(quick) + (size_t)call->argc, sizeof *argv);
    int argc = 0;
    for (size_t i = 0; i < PQS_COUNT(quick); i++)
        argv[argc++] = quick[i];
    for (int i = 1; i < call->argc; i++)
        argv[argc++] = call->argv[i];
    struct pqs_measure again = {0};
    size_t n_args;
    bool help;
    int rc = pqs_opt_parse(options, argc, argv, &again, 0, NULL, &n_args, &help, err);
    return rc ? rc : pqs_measure(call, &again, err);
}

const struct pqs_command pqs_command_tls = {
    .name = "tls",
    .summary = "compare groups, certificates, signatures and libraries in TLS 1.3",
    .arguments = "",
    .about = "Compares arms (combinations of groups, certificate kinds, signature algorithms and TLS libraries)\n"
             "in blocks of one trial per arm, in random order, with fresh processes for each trial. Connections\n"
             "start on a schedule that no answer delays; each makes a full handshake and one request. Without\n"
             "--target the server is one of its own, with a CA of its own, on the loopback interface. Prints a\n"
             "table, what differs with a 95 % interval, and verdicts on whether to trust it.",
    .example = "pqshake tls --groups X25519,X25519MLKEM768 --cert ecdsa-p256,ML-DSA-65 --rate 200 --duration 5s",
    .options = options,
    .options_size = sizeof(struct pqs_measure),
    .run = run,
};
