/* A worker's roles: each is one file and one row of the table in main.c. Every role speaks docs/WORKERS.md. */
#ifndef PQS_WORKER_ROLE_H
#define PQS_WORKER_ROLE_H

#include "channel/message.h"
#include "channel/result.h"
#include "channel/spec.h"

struct pqs_role {
    const char *name;
    const char *const *params; /* that a specification may carry, NULL-terminated; others are refused */
    /* From CONFIGURE on, until there is nothing more to do. An error is sent to the coordinator by the caller. */
    int (*run)(struct pqs_channel *channel, const struct pqs_spec *spec, struct pqs_err *err);
};

extern const struct pqs_role pqs_role_certificates, pqs_role_client, pqs_role_list, pqs_role_primitives, pqs_role_server;

/* Facts of this process that every measuring role reports with READY: library, threads, cpus, env.*. */
void pqs_worker_facts(enum pqs_side side, const struct pqs_spec *spec, struct pqs_result *r);
/* Those of the machine that may have changed, as env_after.*: for when the window is over and its CPU has been read. */
void pqs_worker_facts_after(enum pqs_side side, struct pqs_result *r);

/* Waits for the coordinator's next message; 0 when it has closed the channel. */
PQS_MUST_CHECK int pqs_worker_next(struct pqs_channel *channel, enum pqs_message *ret_type, struct pqs_err *err);

/* Whether a parameter is present and "yes". */
int pqs_param_yes(const struct pqs_spec *spec, const char *name);
/* A number within [min, max]; if_missing when absent. */
PQS_MUST_CHECK int pqs_param_number(const struct pqs_spec *spec, const char *name, uint64_t min, uint64_t max,
                                    uint64_t if_missing, uint64_t *ret, struct pqs_err *err);

#endif
