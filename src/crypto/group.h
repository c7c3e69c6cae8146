/* TLS 1.3 key-exchange groups: what is worth naming in help and lists, with sizes. Not a whitelist: any group that the
 * library implements may be used in a plan. */
#ifndef PQS_CRYPTO_GROUP_H
#define PQS_CRYPTO_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pqs_group_family { PQS_GROUP_CLASSICAL, PQS_GROUP_PQ, PQS_GROUP_HYBRID };
extern const char *const pqs_group_family_names[]; /* "classical", "pq", "hybrid" */

struct pqs_group {
    const char *name;
    const char *alias;   /* another usual name, or NULL */
    uint16_t code_point; /* IANA registry "TLS Supported Groups" */
    enum pqs_group_family family;
    uint16_t client_share_bytes; /* key_exchange field of the ClientHello's KeyShareEntry */
    uint16_t server_share_bytes; /* the same in the ServerHello */
};

const struct pqs_group *pqs_groups(size_t *ret_n);
/* By name or alias, without regard to case; NULL when the table does not have it (the library still may). */
const struct pqs_group *pqs_group_find(const char *name);
/* Whether the library offers a group of this name in TLS 1.3. One name, not a list. */
bool pqs_group_supported(const char *name);

#endif
