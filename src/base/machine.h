/* Facts about the machine this process runs on, as name/value text: what a reader needs to judge a figure measured here.
 * Names: kernel, os, cpu_model, cpu_features (of those that matter to crypto: aes avx2 avx512f vaes sha_ni bmi2 adx ...),
 * virtual (hypervisor flag), cpus_online, governor (all that are in use), turbo, clock_source, congestion_control,
 * local_ports, tw_reuse, somaxconn, fd_limit, memory_mb; and those that move by themselves: uptime_ms, steal_ms (since
 * boot), load1, runnable (tasks that run or wait for a CPU, without the caller). A fact that cannot be read is not reported.
 */
#ifndef PQS_BASE_MACHINE_H
#define PQS_BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define PQS_MACHINE_VALUE_MAX 256

typedef void pqs_machine_fact(void *context, const char *name, const char *value);
void pqs_machine_facts(pqs_machine_fact *report, void *context);
/* Only those that may have changed when a measurement is over: that move, or that somebody may set meanwhile. */
void pqs_machine_changing_facts(pqs_machine_fact *report, void *context);
/* Whether the fact moves by itself, so that another value later is no change of the machine. */
bool pqs_machine_moves(const char *name);

/* One fact; false, and an empty text, when it cannot be read. */
bool pqs_machine_read(const char *name, char ret_value[static PQS_MACHINE_VALUE_MAX]);
/* One fact that is a whole number; -1 when it cannot be read. */
int64_t pqs_machine_number(const char *name);

#define PQS_MACHINE_ID_MAX 96
/* Which running kernel this is (its boot id), and which of its network namespaces: equal texts, same place. Empty where /proc
 * does not say (a bare chroot). */
void pqs_machine_kernel(char ret_id[static PQS_MACHINE_ID_MAX]);
void pqs_machine_network(char ret_id[static PQS_MACHINE_ID_MAX]);

#endif
