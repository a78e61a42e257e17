/* SPDX-License-Identifier: Apache-2.0 */
/* server/builders.h - threads that do builds of the queue, one at a time each; two of them. A build that is under way when the server ends is left to the next. */
#pragma once
#include <cay/service.h>

typedef struct cay__builders cay__builders;
int  cay__builders_start(cay_service *svc, cay__builders **out, cay_err *err);
void cay__builders_stop(cay__builders *b); /* NULL is fine */
