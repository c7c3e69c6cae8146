/* The table of groups. */
#include "crypto/group.h"

#include <strings.h>

#include "base/mem.h"
#include "crypto/evp.h"

const char *const pqs_group_family_names[] = {"classical", "pq", "hybrid"};

/* Shares: RFC 8446, 4.2.8.2 (an EC point is 1 + 2 coordinates); draft-ietf-tls-mlkem and draft-ietf-tls-ecdhe-mlkem (client:
 * encapsulation key, server: ciphertext, sizes from FIPS 203, table 3; hybrids concatenate both parts). */
static const struct pqs_group groups[] = {
    {"X25519", NULL, 0x001d, PQS_GROUP_CLASSICAL, 32, 32}, /* RFC 7748 */
    {"X448", NULL, 0x001e, PQS_GROUP_CLASSICAL, 56, 56},   /* RFC 7748 */
    {"secp256r1", "P-256", 0x0017, PQS_GROUP_CLASSICAL, 65, 65},
    {"secp384r1", "P-384", 0x0018, PQS_GROUP_CLASSICAL, 97, 97},
    {"secp521r1", "P-521", 0x0019, PQS_GROUP_CLASSICAL, 133, 133},
    {"MLKEM512", NULL, 0x0200, PQS_GROUP_PQ, 800, 768},
    {"MLKEM768", NULL, 0x0201, PQS_GROUP_PQ, 1184, 1088},
    {"MLKEM1024", NULL, 0x0202, PQS_GROUP_PQ, 1568, 1568},
    {"X25519MLKEM768", NULL, 0x11ec, PQS_GROUP_HYBRID, 1184 + 32, 1088 + 32},
    {"SecP256r1MLKEM768", NULL, 0x11eb, PQS_GROUP_HYBRID, 65 + 1184, 65 + 1088},
    {"SecP384r1MLKEM1024", NULL, 0x11ed, PQS_GROUP_HYBRID, 97 + 1568, 97 + 1568},
};

const struct pqs_group *pqs_groups(size_t *ret_n) {
    *ret_n = PQS_COUNT(groups);
    return groups;
}

const struct pqs_group *pqs_group_find(const char *name) {
    for (size_t i = 0; i < PQS_COUNT(groups); i++)
        if (strcasecmp(groups[i].name, name) == 0 || (groups[i].alias && strcasecmp(groups[i].alias, name) == 0))
            return &groups[i];
    return NULL;
}

bool pqs_group_supported(const char *name) {
    return pqs_evp_has_group(name);
}
