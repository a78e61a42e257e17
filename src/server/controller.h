/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/controller.h - one thread that does what is due: jobs of the queue (pause, kill, remove,
 * settle, gc), and from time to time what nobody asked for: old answers and jobs go, snapshots
 * become durable.
 *
 * Any number of servers may share a store: each job is done by one of them.
 */
#pragma once
#include <cay/client.h>

typedef struct cay__controller cay__controller;
int cay__controller_start(cay_client *client, cay__controller **out, cay_err *err);
void cay__controller_stop(
    cay__controller *c); /* what it is at ends, or is left for the next one; NULL is fine */
/* One job, when one is due: 1 it was done or failed, 0 nothing is due (*wait_ms: until when, 0 not
 * known), negative: the store failed. */
int cay__controller_step(cay_client *client, const cay_call *call, const char *owner,
                         uint32_t *wait_ms, cay_err *err);
