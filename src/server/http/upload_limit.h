/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/http/upload_limit.h - how many large bodies of one tenant workers take in at once.
 *
 * A body comes as fast as its client likes, and a worker waits for it. A tenant has a quarter of
 * the workers for that; more of its requests wait in line without one, so that the others of the
 * server are served whatever one of them sends. Who sends too little for long is cut (body.c), so
 * that a line moves.
 */
#pragma once
#include "server.h"

struct cay__uploads *cay__uploads_new(unsigned workers);
void cay__uploads_free(struct cay__uploads *u);
/* On a worker, before the handler. False: it waits in line, belongs to whoever ends before it, and
 * is not to be touched any more; the workers get it again in its turn. */
bool cay__uploads_enter(cay__req *r);
