/* What the measuring commands share: options, the way from options to a plan, the run, and what is printed of it. */
#ifndef PQS_CMD_MEASURE_H
#define PQS_CMD_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd.h"

struct pqs_measure {
    /* what varies */
    const char *groups, *cert, *sigalgs, *client_stack, *server_stack, *engine, *baseline;
    bool aa;
    /* when */
    double rate_per_s;
    const char *arrivals;
    int64_t duration_ns, warmup_ns, timeout_ns;
    uint64_t blocks, seed, max_inflight, threads, server_threads;
    bool quick;
    /* what is asked of whom */
    const char *target, *ca, *servername, *client_cert, *client_key, *server_groups;
    const char *path, *header, *close;
    const char *client_via, *client_worker, *server_via, *server_worker, *server_host;
    uint64_t bytes, expect, target_pid;
    bool insecure, handshake_only, ipv6;
    /* where to */
    const char *out, *json;
};

/* Rows that more than one command has. */
#define PQS_MEASURE_ROW(field_, ...)                                                                                        \
    { .offset = offsetof(struct pqs_measure, field_), __VA_ARGS__ }
extern const char *const pqs_measure_arrivals[], *const pqs_measure_close[], *const pqs_measure_engines[];

#define PQS_MEASURE_SCHEDULE_ROWS                                                                                           \
    PQS_MEASURE_ROW(rate_per_s, .name = "rate", .arg = "N", .type = PQS_OPT_NUMBER, .def = "300", .min = 0.01, .max = 1e7,  \
                    .help = "new connections per second, whatever the answers do"),                                         \
        PQS_MEASURE_ROW(arrivals, .name = "arrivals", .arg = "KIND", .type = PQS_OPT_CHOICE, .def = "constant",             \
                        .choices = pqs_measure_arrivals, .help = "spacing of the arrivals"),                                \
        PQS_MEASURE_ROW(duration_ns, .name = "duration", .arg = "TIME", .type = PQS_OPT_DURATION, .def = "10s", .min = 1e6, \
                        .max = 86400e9, .help = "measured window of each trial"),                                           \
        PQS_MEASURE_ROW(warmup_ns, .name = "warmup", .arg = "TIME", .type = PQS_OPT_DURATION, .def = "2s", .min = 0,        \
                        .max = 3600e9, .help = "load before the window, counted apart"),                                    \
        PQS_MEASURE_ROW(timeout_ns, .name = "timeout", .arg = "TIME", .type = PQS_OPT_DURATION, .def = "10s", .min = 1e6,   \
                        .max = 3600e9, .help = "how long a connection may take"),                                           \
        PQS_MEASURE_ROW(threads, .name = "threads", .arg = "N", .type = PQS_OPT_U64, .def = "1", .min = 1,                  \
                        .max = PQS_MAX_THREADS, .help = "generator threads, which share one schedule"),                     \
        PQS_MEASURE_ROW(max_inflight, .name = "max-inflight", .arg = "N", .type = PQS_OPT_U64, .min = 0, .max = 1000000,    \
                        .help =                                                                                             \
                            "connections open at once; more are counted as dropped (0: 4096, or half of the descriptors)"), \
        PQS_MEASURE_ROW(seed, .name = "seed", .arg = "N", .type = PQS_OPT_U64,                                              \
                        .help = "of the arrivals and the order of arms; recorded with the run (0: a new one)")

#define PQS_MEASURE_REQUEST_ROWS                                                                                            \
    PQS_MEASURE_ROW(target_pid, .name = "target-pid", .arg = "PID", .type = PQS_OPT_U64, .min = 0, .max = INT32_MAX,        \
                    .help =                                                                                                 \
                        "process of a target on this machine: its CPU time, and that of all it started, is the server's"),  \
        PQS_MEASURE_ROW(bytes, .name = "bytes", .arg = "N", .type = PQS_OPT_U64, .def = "3", .min = 0, .max = 67108864,     \
                        .help = "body to ask for: GET /bytes/N, or GET / for 3"),                                           \
        PQS_MEASURE_ROW(close, .name = "close", .arg = "HOW", .type = PQS_OPT_CHOICE, .def = "fin",                         \
                        .choices = pqs_measure_close, .help = "how the client ends a connection"),                          \
        PQS_MEASURE_ROW(handshake_only, .name = "handshake-only", .type = PQS_OPT_FLAG,                                     \
                        .help = "stop after the client's Finished: the result is the client's view only"),                  \
        PQS_MEASURE_ROW(insecure, .name = "insecure", .type = PQS_OPT_FLAG,                                                 \
                        .help = "do not verify the server's certificate; marked on every output"),                          \
        PQS_MEASURE_ROW(engine, .name = "engine", .arg = "NAME", .type = PQS_OPT_CHOICE, .def = "tls",                      \
                        .choices = pqs_measure_engines,                                                                     \
                        .help = "null: plain HTTP without TLS, which measures the tool itself"),                            \
        PQS_MEASURE_ROW(ca, .name = "ca", .arg = "FILE", .type = PQS_OPT_STRING,                                            \
                        .help = "PEM file of the CAs to trust (with --target)"),                                            \
        PQS_MEASURE_ROW(servername, .name = "servername", .arg = "NAME", .type = PQS_OPT_STRING,                            \
                        .help = "SNI, and the name that the certificate must carry (with --target; default its host)"),     \
        PQS_MEASURE_ROW(client_cert, .name = "client-cert", .arg = "FILE", .type = PQS_OPT_STRING,                          \
                        .help = "PEM chain for a server that asks for a client certificate (with --target)"),               \
        PQS_MEASURE_ROW(client_key, .name = "client-key", .arg = "FILE", .type = PQS_OPT_STRING,                            \
                        .help = "PEM key of --client-cert"),                                                                \
        PQS_MEASURE_ROW(path, .name = "path", .arg = "PATH", .type = PQS_OPT_STRING,                                        \
                        .help = "request path instead of --bytes; the body may have any length (with --target)"),           \
        PQS_MEASURE_ROW(header, .name = "header", .arg = "LINE", .type = PQS_OPT_STRING,                                    \
                        .help = "further request header; several are separated by a newline"),                              \
        PQS_MEASURE_ROW(expect, .name = "expect", .arg = "STATUS", .type = PQS_OPT_U64, .def = "200", .min = 100,           \
                        .max = 599, .help = "HTTP status of a good answer; another one is a failure")

#define PQS_MEASURE_CLIENT_PLACE_ROWS                                                                                       \
    PQS_MEASURE_ROW(client_via, .name = "client-via", .arg = "CMD", .type = PQS_OPT_STRING,                                 \
                    .help = "command that the client worker is started through, e.g. 'ssh host' or 'ip netns exec c'; "     \
                            "split into words like a shell does, and run without one"),                                     \
        PQS_MEASURE_ROW(client_worker, .name = "client-worker", .arg = "PATH", .type = PQS_OPT_STRING,                      \
                        .help = "path of the client's worker there (default: the same as here)")

#define PQS_MEASURE_OUTPUT_ROWS                                                                                             \
    PQS_MEASURE_ROW(out, .name = "out", .arg = "DIR", .type = PQS_OPT_STRING,                                               \
                    .help = "where run.db, summary.json and summary.md go (default runs/<UTC time>-<workload>)"),           \
        PQS_MEASURE_ROW(json, .name = "json", .arg = "FILE", .type = PQS_OPT_STRING,                                        \
                        .help = "write summary.json there too; - is standard output, instead of the text")

/* Checks the options against each other, runs the plan and prints its report. With a target there is no server of our own.
 */
PQS_MUST_CHECK int pqs_measure(const struct pqs_call *call, const struct pqs_measure *o, struct pqs_err *err);

#endif
