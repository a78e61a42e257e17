/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/http/ticket.h - what opens one WebSocket, once, within 30 s, to the session that asked for
 * it.
 *
 * A cookie alone opens none: a page of another origin can begin a socket with it and nobody asks
 * for a token there. The time is the caller's, by the monotonic clock.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define CAY__TICKET_LEN 33 /* with its NUL */
enum { CAY__TICKET_MS = 30000 };

typedef struct cay__tickets cay__tickets;
cay__tickets *cay__tickets_new(void);
void cay__tickets_free(cay__tickets *t);
void cay__ticket_make(cay__tickets *t, const char *key, int64_t now_ms, char out[CAY__TICKET_LEN]);
/* True once; whatever comes of it, the ticket is used up. */
bool cay__ticket_use(cay__tickets *t, const char *text, const char *key, int64_t now_ms);
