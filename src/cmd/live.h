/* The live line: one line on standard error while a run goes on, on a terminal only, gone at the end. */
#ifndef PQS_CMD_LIVE_H
#define PQS_CMD_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "run/run.h"

struct pqs_live {
    bool on;
    const char *stage; /* what is shown now, and since when */
    int64_t since_ns;
};

struct pqs_live pqs_live_begin(void);
/* As pqs_run_options.progress; context is the struct pqs_live. */
void pqs_live_show(void *context, const struct pqs_progress *p);
void pqs_live_end(struct pqs_live *live);

#endif
