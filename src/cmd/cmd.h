/* What a subcommand is, and what its file and main.c share. A new command is one file that exports a struct pqs_command, its
 * line below and its line in main.c's table. */
#ifndef PQS_CMD_CMD_H
#define PQS_CMD_CMD_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"

struct pqs_command;

/* One use of a command, options and arguments parsed. */
struct pqs_call {
    const struct pqs_command *command;
    int argc; /* the command's words: argv[0] is its name */
    char **argv;
    void *options; /* the command's options struct, filled from its rows */
    const char **args;
    size_t n_args;
};

struct pqs_command {
    const char *name;
    const char *summary;           /* one line for pqshake --help */
    const char *arguments;         /* usage: what follows the name, "[options]" aside; "" when nothing does */
    const char *about;             /* one paragraph for --help */
    const char *example;           /* a command line, and what it does where that is not obvious */
    const struct pqs_opt *options; /* rows, ending with name == NULL */
    size_t options_size;           /* of the options struct */
    size_t max_args;
    /* 0, or an error that main prints and turns into the exit status. */
    int (*run)(const struct pqs_call *call, struct pqs_err *err);
};

extern const struct pqs_command pqs_command_cert, pqs_command_doctor, pqs_command_export, pqs_command_list, pqs_command_load,
    pqs_command_report, pqs_command_serve, pqs_command_speed, pqs_command_tls;

/* Prints "pqshake: <message>" on standard error. */
void pqs_say(const char *fmt, ...) PQS_PRINTF(1, 2);

/* Splits HOST:PORT or [IPv6]:PORT; PQS_E_USAGE names `what`. */
PQS_MUST_CHECK int pqs_parse_address(const char *what, const char *text, char ret_host[static 256], char ret_port[static 8],
                                     struct pqs_err *err);

/* Reads a certificate, key or CA file that the option of that name gave, at most 4 MiB; PQS_E_USAGE names the option. */
PQS_MUST_CHECK int pqs_read_option_file(const char *option, const char *path, struct pqs_buf *ret_data, struct pqs_err *err);

/* Whether there can be a worker of that name; PQS_E_USAGE names the option. */
PQS_MUST_CHECK int pqs_check_stack(const char *option, const char *stack, struct pqs_err *err);

#define PQS_MAX_THREADS 1024

#endif
