/* Role list: what this build of the library supports. */
#include <stdio.h>
#include <string.h>

#include "crypto/algorithm.h"
#include "crypto/certificate.h"
#include "crypto/group.h"
#include "role.h"

static const char *const params[] = {NULL};

static int run_list(struct pqs_channel *channel, const struct pqs_spec *spec, struct pqs_err *err) {
    struct pqs_result r = {0};
    size_t n;
    (void)spec;
    const struct pqs_group *groups = pqs_groups(&n);
    for (size_t i = 0; i < n; i++) {
        char name[64], value[128];
        snprintf(name, sizeof name, "group.%s", groups[i].name);
        snprintf(value, sizeof value, "%s %u %u %s", pqs_group_supported(groups[i].name) ? "yes" : "no",
                 groups[i].client_share_bytes, groups[i].server_share_bytes, pqs_group_family_names[groups[i].family]);
        pqs_result_fact(&r, PQS_SERVER, name, value, 1);
    }
    const struct pqs_certificate_kind *kinds = pqs_certificate_kinds(&n);
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "cert.%s", kinds[i].name);
        pqs_result_fact(&r, PQS_SERVER, name, pqs_certificate_supported(&kinds[i]) ? "yes" : "no", 1);
    }
    const struct pqs_algorithm *algorithms = pqs_algorithms(&n);
    for (size_t i = 0; i < n; i++) {
        char name[64], value[128];
        snprintf(name, sizeof name, "algorithm.%s", algorithms[i].name);
        snprintf(value, sizeof value, "%s ", pqs_algorithm_supported(&algorithms[i]) ? "yes" : "no");
        for (enum pqs_operation op = 0; op < PQS_OPERATIONS; op++)
            if (pqs_algorithm_has(&algorithms[i], op))
                snprintf(value + strlen(value), sizeof value - strlen(value), "%s ", pqs_operation_names[op]);
        pqs_result_fact(&r, PQS_SERVER, name, value, 1);
    }
    int rc = pqs_channel_send_result(channel, PQS_MSG_DONE, &r, err);
    pqs_result_release(&r);
    return rc;
}

const struct pqs_role pqs_role_list = {"list", params, run_list};
