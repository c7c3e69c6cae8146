/* pqshake: finds the command, parses its options, prints help and errors, sets the exit status. Must not know what any
 * command does. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cmd.h"
#include "run/worker.h"

/* Sorted by name. */
static const struct pqs_command *const commands[] = {
    &pqs_command_cert,   &pqs_command_doctor, &pqs_command_export, &pqs_command_list, &pqs_command_load,
    &pqs_command_report, &pqs_command_serve,  &pqs_command_speed,  &pqs_command_tls,
};

static const char exit_status[] = "Exit status: 0 done and valid; 1 failed; 2 usage; 3 the environment lacks something;\n"
                                  "4 finished, but the data is unfit for the question (the output says why).\n";

void pqs_say(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fflush(stdout); /* in the order of events, where both go to one place */
    fputs("pqshake: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

int pqs_read_option_file(const char *option, const char *path, struct pqs_buf *ret_data, struct pqs_err *err) {
    if (pqs_read_file(path, 4u << 20, ret_data, err) == 0)
        return 0;
    err->code = PQS_E_USAGE;
    return pqs_context(err, "--%s", option);
}

int pqs_parse_address(const char *what, const char *text, char ret_host[static 256], char ret_port[static 8],
                      struct pqs_err *err) {
    bool bracketed = text[0] == '[';
    const char *host = text + bracketed;
    const char *host_end = bracketed ? strchr(host, ']') : strrchr(host, ':');
    const char *port = host_end ? host_end + bracketed : NULL;
    if (!port || *port != ':' || host_end == host || (!bracketed && memchr(host, ':', (size_t)(host_end - host))))
        return pqs_fail(err, PQS_E_USAGE, "%s: \"%s\" is not HOST:PORT (IPv6: [ADDRESS]:PORT)", what, text);
    port++;
    size_t len = strlen(port);
    if (len < 1 || len > 5 || strspn(port, "0123456789") != len || strtoul(port, NULL, 10) > 65535)
        return pqs_fail(err, PQS_E_USAGE, "%s: \"%s\" is not a port: 0 to 65535", what, port);
    if (host_end - host > 255)
        return pqs_fail(err, PQS_E_USAGE, "%s: the host has %td bytes: at most 255", what, host_end - host);
    snprintf(ret_host, 256, "%.*s", (int)(host_end - host), host);
    snprintf(ret_port, 8, "%s", port);
    return 0;
}

int pqs_check_stack(const char *option, const char *stack, struct pqs_err *err) {
    for (const char *const *known = pqs_stacks; *known; known++)
        if (strcmp(*known, stack) == 0)
            return 0;
    return pqs_fail(err, PQS_E_USAGE, "%s: \"%s\" is no TLS stack: openssl or aws-lc ('pqshake list --stacks')", option,
                    stack);
}

static void print_help(FILE *out) {
    fprintf(out,
            "Usage: pqshake COMMAND [options]\n\n"
            "Measures what post-quantum cryptography costs a TLS 1.3 handshake: latency, CPU and bytes.\n\nCommands:\n");
    for (size_t i = 0; i < PQS_COUNT(commands); i++)
        fprintf(out, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "\n'pqshake help COMMAND' says more of each; --version prints the version.\n\n%s", exit_status);
}

static void print_command_help(const struct pqs_command *c, FILE *out) {
    fprintf(out, "Usage: pqshake %s%s%s [options]\n\n%s\n\nOptions:\n", c->name, *c->arguments ? " " : "", c->arguments,
            c->about);
    pqs_opt_help(c->options, out);
    fprintf(out, "\nExample:\n  %s\n\n%s", c->example, exit_status);
}

/* The commands that share the longest beginning with a name that is none. */
static int unknown_command(const char *name, struct pqs_err *err) {
    size_t best = 0, shared[PQS_COUNT(commands)];
    char near[256] = "";
    for (size_t i = 0; i < PQS_COUNT(commands); i++) {
        for (shared[i] = 0; name[shared[i]] && name[shared[i]] == commands[i]->name[shared[i]];)
            shared[i]++;
        best = shared[i] > best ? shared[i] : best;
    }
    for (size_t i = 0; i < PQS_COUNT(commands) && best > 0; i++)
        if (shared[i] == best)
            snprintf(near + strlen(near), sizeof near - strlen(near), "%s%s", *near ? " or " : ": did you mean ",
                     commands[i]->name);
    return pqs_fail(err, PQS_E_USAGE, "\"%s\" is no command%s%s", name, near, *near ? "?" : ": see pqshake --help");
}

static int find_command(const char *name, const struct pqs_command **ret_command, struct pqs_err *err) {
    for (size_t i = 0; i < PQS_COUNT(commands); i++)
        if (strcmp(commands[i]->name, name) == 0) {
            *ret_command = commands[i];
            return 0;
        }
    return unknown_command(name, err);
}

static int run_command(const struct pqs_command *command, int argc, char **argv, struct pqs_err *err) {
    PQS_FREE void *options = pqs_calloc(1, command->options_size);
    PQS_FREE const char **args = pqs_calloc(command->max_args + 1, sizeof *args);
    struct pqs_call call = {.command = command, .argc = argc, .argv = argv, .options = options, .args = args};
    bool help = false;
    int rc = pqs_opt_parse(command->options, argc, argv, options, command->max_args, args, &call.n_args, &help, err);
    if (rc)
        return pqs_context(err, "%s", command->name);
    if (!help)
        return command->run(&call, err);
    print_command_help(command, stdout);
    return 0;
}

static int dispatch(int argc, char **argv, struct pqs_err *err) {
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word) {
        print_help(stderr);
        return pqs_fail(err, PQS_E_USAGE, "which command?");
    }
    if (strcmp(word, "--version") == 0) {
        printf("pqshake %s (%s)\n", PQSHAKE_VERSION, PQSHAKE_COMMIT);
        return 0;
    }
    bool help = strcmp(word, "help") == 0, first_is_help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
    if (first_is_help || (help && argc == 2)) {
        print_help(stdout);
        return 0;
    }
    const struct pqs_command *command = NULL;
    int rc = find_command(help ? argv[2] : word, &command, err);
    if (rc)
        return rc;
    if (!help)
        return run_command(command, argc - 1, argv + 1, err);
    print_command_help(command, stdout);
    return 0;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a worker that died is an error to report, not the end */
    struct pqs_err err = {0};
    int rc = dispatch(argc, argv, &err);
    if (rc)
        pqs_say("%s", err.msg);
    bool flush_failed = fflush(stdout) != 0;
    if (flush_failed || ferror(stdout)) { /* the reason of an earlier failure is gone */
        pqs_say("cannot write to standard output%s%s", flush_failed ? ": " : "", flush_failed ? strerror(errno) : "");
        rc = rc ? rc : PQS_E_FAILED;
    }
    return -rc;
}
