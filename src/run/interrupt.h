/* SIGINT and SIGTERM as something to wait for, so that an interrupted run ends in order: finished trials kept, workers gone.
 */
#ifndef PQS_RUN_INTERRUPT_H
#define PQS_RUN_INTERRUPT_H

#include <stdbool.h>

/* From now on the two signals do not end the process: they set a flag, and every wait for a worker (run/worker.h) ends. */
void pqs_interrupt_catch(void);
bool pqs_interrupted(void);
/* Forgets signals that came so far: for the orderly end, which has waits of its own. */
void pqs_interrupt_reset(void);
/* Readable once a signal came; -1 (which poll ignores) while signals are not caught. */
int pqs_interrupt_fd(void);

#endif
