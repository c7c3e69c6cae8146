/* The workload "tls": factors groups, cert, sigalgs and engine. Must not know TLS itself: names are passed on to the
 * workers. */
#ifndef PQS_RUN_TLS_H
#define PQS_RUN_TLS_H

#include "run/certificate.h"
#include "run/run.h"

/* Level of factor groups: what the library offers by itself. */
#define PQS_TLS_DEFAULT "DEFAULT"

/* Certificate of one level of factor cert. */
struct pqs_tls_level {
    const char *kind;
    struct pqs_pem pem;
};

/* Context of pqs_workload_tls.apply: what does not depend on the arm, and the certificates by level. */
struct pqs_tls_setup {
    struct pqs_spec client, server; /* parameters only; server's are unused with a foreign target */
    const struct pqs_tls_level *levels;
    size_t n_levels;
};

extern const struct pqs_workload pqs_workload_tls;

/* The group list that both sides of every arm meet: all groups that the arms ask for, post-quantum ones first, each group
 * once. Appends "A:B:C"; nothing when the arms have no factor groups. */
void pqs_tls_server_groups(const struct pqs_plan *plan, struct pqs_buf *ret_list);

#endif
