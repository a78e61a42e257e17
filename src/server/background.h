/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/background.h - work of the server that no request waits for.
 *
 *   controller  one thread for jobs of the queue (pause, kill, remove, settle, gc) and for upkeep:
 *               it removes old answers and jobs and makes snapshots durable
 *   builders    threads for the builds of the queue, of every protocol in turns
 *   net lease   network rules that end after a while
 *
 * Any number of servers may share a store: each job is done by one of them.
 */
#pragma once
#include <cay/client.h>
#include <cay/cay.h>
#include <cay/jobs.h>

typedef struct cay__controller cay__controller;
int cay__controller_start(cay_client *client, cay__controller **out, cay_err *err);
void cay__controller_stop(
    cay__controller *c); /* what it is at ends, or is left for the next one; NULL is fine */
/* One job, when one is due: 1 it was done or failed, 0 nothing is due (*wait_ms: until when, 0 not
 * known), negative: the store failed. */
int cay__controller_step(cay_client *client, const cay_call *call, const char *owner,
                         uint32_t *wait_ms, cay_err *err);

/* Each builder does one build at a time. A build that is under way when the server ends is left to
 * the next server. */

typedef struct cay__builders cay__builders;
int cay__builders_start(cay_client *client, cay__builders **out, cay_err *err);
void cay__builders_stop(cay__builders *b); /* NULL is fine */
void cay__builders_wake(cay__builders *b); /* there may be something to do */
struct cay__server;
cay__builders *cay__server_builders(struct cay__server *s);

/* Rules that hold for a while. The job that ends them is in the store before they hold, so a crash
 * never leaves them for ever. */

#define CAY__NET_END "net-end" /* the kind of that job */
/* Adds rules that end in ttl_ms; those that held already stay. */
int cay__net_while(cay_client *client, cay_sandbox *sb, const cay_call *call,
                   const char *const *rules, uint64_t ttl_ms, uint64_t *revision, cay_err *err);
/* The job: takes them away. Twice is as good as once. */
int cay__net_end(cay_sandbox *sb, const cay_call *call, const cay_job *t, cay_err *err);
