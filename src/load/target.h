/* Where connections go and where they come from: destination addresses and ports, source addresses, and whether this
 * machine's ports and descriptors last for what is planned. */
#ifndef PQS_LOAD_TARGET_H
#define PQS_LOAD_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "channel/spec.h"

#define PQS_TARGET_PORTS_MAX 64
#define PQS_TARGET_ADDRESSES_MAX 8 /* more of a name are not looked at */
#define PQS_TARGET_SOURCES 64      /* addresses 127.1.0.1 .. 127.1.0.64, for IPv4 loopback targets */

struct pqs_target {
    struct sockaddr_storage to[PQS_TARGET_PORTS_MAX]; /* one per port; connections use them in turn */
    uint16_t ports[PQS_TARGET_PORTS_MAX];
    socklen_t to_len;
    unsigned n_to;
    struct sockaddr_storage addresses[PQS_TARGET_ADDRESSES_MAX]; /* of the name, as the system prefers them */
    socklen_t address_len[PQS_TARGET_ADDRESSES_MAX];
    unsigned n_addresses;
    bool loopback;                                    /* the address belongs to this machine */
    struct sockaddr_storage from[PQS_TARGET_SOURCES]; /* sources, used in turn; none: the kernel chooses */
    socklen_t from_len;
    unsigned n_from;
};

/* From the parameters host and ports; the first of the name's addresses is used. PQS_E_USAGE: malformed; PQS_E_FAILED: a name
 * that does not resolve. */
PQS_MUST_CHECK int pqs_target_resolve(const struct pqs_spec *spec, struct pqs_target *ret_t, struct pqs_err *err);

/* Turns to another of the addresses, from 0: sets to, from and loopback. */
void pqs_target_use(struct pqs_target *t, unsigned which);

/* Whether source ports last, and whether source addresses are needed for that (n_from becomes 0 when not: two system calls
 * fewer): TIME_WAIT keeps each for 60 s on the side that closes first, unless the kernel may reuse it after 1 s
 * (tcp_tw_reuse) or connections are reset. run_ns: how long this target is loaded, all trials that meet it together. PQS_E_ENV says for how long they would last and what helps. */
PQS_MUST_CHECK int pqs_target_check_ports(struct pqs_target *t, const struct pqs_schedule *s, int64_t run_ns,
                                          bool closes_with_rst, struct pqs_err *err);

/* Raises the soft descriptor limit to the hard one and returns how many connections may be open at once: `asked`, or
 * min(4096, descriptors / 2) when asked is 0. PQS_E_ENV when the limit is too low for `asked`. */
PQS_MUST_CHECK int pqs_target_max_inflight(uint32_t asked, uint32_t *ret_max, struct pqs_err *err);

#endif
