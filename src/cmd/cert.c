/* pqshake cert: certificates of any supported kind, as files. */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cmd.h"
#include "run/certificate.h"
#include "run/worker.h"

#define MAX_KINDS 32

struct cert {
    const char *out, *name, *san, *ca_kind, *stack;
    uint64_t days;
    bool self_signed, force;
};

#define ROW(field_, ...)                                                                                                    \
    { .offset = offsetof(struct cert, field_), __VA_ARGS__ }
static const struct pqs_opt options[] = {
    ROW(out, .name = "out", .arg = "DIR", .type = PQS_OPT_STRING, .def = ".",
        .help = "the files go to DIR/KIND; created if missing"),
    ROW(self_signed, .name = "self-signed", .type = PQS_OPT_FLAG, .help = "no CA: the certificate signs itself"),
    ROW(ca_kind, .name = "ca-kind", .arg = "KIND", .type = PQS_OPT_STRING,
        .help = "kind of the CA's key, which signs (default: the certificate's kind)"),
    ROW(name, .name = "name", .arg = "NAME", .type = PQS_OPT_STRING, .def = "localhost", .help = "common name"),
    ROW(san, .name = "san", .arg = "LIST", .type = PQS_OPT_STRING, .def = "DNS:localhost,IP:127.0.0.1,IP:::1",
        .help = "subject alternative names, the ones that clients check"),
    ROW(days, .name = "days", .arg = "N", .type = PQS_OPT_U64, .def = "30", .min = 1, .max = 36500,
        .help = "validity in days"),
    ROW(stack, .name = "stack", .arg = "NAME", .type = PQS_OPT_CHOICE, .def = "openssl", .choices = pqs_stacks,
        .help = "TLS library that makes them"),
    ROW(force, .name = "force", .type = PQS_OPT_FLAG, .help = "overwrite files that are there"),
    {.name = NULL},
};

/* The files of one kind; a key is for its owner only. */
static const struct file {
    const char *name;
    unsigned mode;
    size_t offset; /* of its text in struct pqs_pem */
} files[] = {
    {"cert.pem", 0644, offsetof(struct pqs_pem, cert)},
    {"key.pem", 0600, offsetof(struct pqs_pem, key)},
    {"ca.pem", 0644, offsetof(struct pqs_pem, ca)},
    {"ca-key.pem", 0600, offsetof(struct pqs_pem, ca_key)},
};

/* DIR/kind in lower case, so that one kind has one place however it was written. */
static char *kind_dir(const struct cert *o, const char *kind) {
    char *dir = pqs_format("%s/%s", o->out, kind);
    for (char *p = dir + strlen(o->out); *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return dir;
}

static int check_new(const struct cert *o, const char *kind, struct pqs_err *err) {
    PQS_FREE char *dir = kind_dir(o, kind);
    for (size_t i = 0; i < PQS_COUNT(files) && !o->force; i++) {
        PQS_FREE char *path = pqs_format("%s/%s", dir, files[i].name);
        if (access(path, F_OK) == 0)
            return pqs_fail(err, PQS_E_USAGE, "%s is there already: --force overwrites it, --out chooses another place",
                            path);
    }
    return 0;
}

static int write_kind(const struct cert *o, const char *kind, struct pqs_err *err) {
    PQS_PEM pem = {0};
    PQS_FREE char *dir = kind_dir(o, kind);
    const struct pqs_order order = {.kind = kind,
                                    .stack = o->stack,
                                    .ca_kind = o->ca_kind,
                                    .name = o->name,
                                    .san = o->san,
                                    .days = (int)o->days,
                                    .self_signed = o->self_signed};
    int rc = pqs_order_certificate(&order, &pem, err);
    if (rc)
        return rc;
    if ((mkdir(o->out, 0777) && errno != EEXIST) || (mkdir(dir, 0777) && errno != EEXIST))
        return pqs_fail_sys(err, PQS_E_USAGE, errno, "cannot make the directory %s", dir);
    for (size_t i = 0; i < PQS_COUNT(files); i++) {
        const struct pqs_buf *text = (const struct pqs_buf *)((const char *)&pem + files[i].offset);
        PQS_FREE char *path = pqs_format("%s/%s", dir, files[i].name);
        if (text->len == 0)
            continue; /* a self-signed certificate has no CA key */
        rc = pqs_write_file(path, files[i].mode, text->data, text->len, err);
        if (rc)
            return rc;
        printf("%s\n", path);
    }
    return 0;
}

static int run(const struct pqs_call *call, struct pqs_err *err) {
    const struct cert *o = call->options;
    if (call->n_args == 0)
        return pqs_fail(err, PQS_E_USAGE, "cert: which KIND? 'pqshake list certs' shows them");
    if (o->self_signed && o->ca_kind)
        return pqs_fail(err, PQS_E_USAGE, "--self-signed has no CA: --ca-kind does not go with it");
    for (size_t i = 0; i < call->n_args; i++) {
        if (strchr(call->args[i], '/'))
            return pqs_fail(err, PQS_E_USAGE, "cert: \"%s\" is no KIND: 'pqshake list certs' shows them", call->args[i]);
        for (size_t k = 0; k < i; k++)
            if (strcasecmp(call->args[k], call->args[i]) == 0)
                return pqs_fail(err, PQS_E_USAGE, "cert: \"%s\" is given twice", call->args[i]);
        int rc = check_new(o, call->args[i], err);
        if (rc)
            return rc;
    }
    for (size_t i = 0; i < call->n_args; i++) {
        int rc = write_kind(o, call->args[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

const struct pqs_command pqs_command_cert = {
    .name = "cert",
    .summary = "make a CA and certificates of any supported kind",
    .arguments = "KIND...",
    .about = "For each KIND makes a CA and a certificate that it issued, and writes them to DIR/KIND (in lower\n"
             "case): cert.pem, key.pem, ca.pem and ca-key.pem. Keys are readable by their owner only.\n"
             "'pqshake list certs' shows the kinds.",
    .example = "pqshake cert ecdsa-p256 ML-DSA-65 --san DNS:www.example --out certs",
    .options = options,
    .options_size = sizeof(struct cert),
    .max_args = MAX_KINDS,
    .run = run,
};
