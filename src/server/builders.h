/* SPDX-License-Identifier: Apache-2.0 */
/* server/builders.h - threads that do builds of the queue, of every protocol in turns, one at a
 * time each. A build that is under way when the server ends is left to the next. */
#pragma once
#include <cay/client.h>

typedef struct cay__builders cay__builders;
int cay__builders_start(cay_client *client, cay__builders **out, cay_err *err);
void cay__builders_stop(cay__builders *b); /* NULL is fine */
void cay__builders_wake(cay__builders *b); /* there may be something to do */
struct cay__server;
cay__builders *cay__server_builders(struct cay__server *s);
