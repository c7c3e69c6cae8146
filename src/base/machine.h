/* Facts about the machine this process runs on, as name/value text: what a reader needs to judge a figure measured here.
 * Names: kernel, cpu_model, cpu_features (of those that matter to crypto: aes avx2 avx512f vaes sha_ni bmi2 adx ...),
 * cpus_online, governor, clock_source, virtual (hypervisor flag), steal_ms (since boot), load1, congestion_control,
 * local_ports, tw_reuse, somaxconn, fd_limit, memory_mb, os. A fact that cannot be read is not reported. */
#ifndef PQS_BASE_MACHINE_H
#define PQS_BASE_MACHINE_H

typedef void pqs_machine_fact(void *context, const char *name, const char *value);
void pqs_machine_facts(pqs_machine_fact *report, void *context);

#define PQS_MACHINE_ID_MAX 96
/* Which running kernel this is (its boot id), and which of its network namespaces: equal texts, same place. Empty where /proc
 * does not say (a bare chroot). */
void pqs_machine_kernel(char ret_id[static PQS_MACHINE_ID_MAX]);
void pqs_machine_network(char ret_id[static PQS_MACHINE_ID_MAX]);

#endif
