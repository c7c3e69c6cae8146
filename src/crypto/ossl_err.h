/* Errors of the OpenSSL family's error queue, as struct pqs_err. */
#ifndef PQS_CRYPTO_OSSL_ERR_H
#define PQS_CRYPTO_OSSL_ERR_H

#include "base/err.h"

/* pqs_fail with ": <reason>" appended, the reason being that of the oldest entry of this thread's error queue: the cause,
 * where later entries are its consequences. An empty queue appends nothing. Clears the queue. Returns code. */
int pqs_fail_ossl(struct pqs_err *err, int code, const char *fmt, ...) PQS_PRINTF(3, 4);

#endif
