/* SPDX-License-Identifier: Apache-2.0 */
/* server/net_lease.h - rules that hold for a while. The job that ends them is in the store before
 * they hold, so no crash leaves them for ever. */
#pragma once
#include <cay/cay.h>
#include <cay/jobs.h>

#define CAY__NET_END "net-end" /* the kind of that job */
/* Adds rules that end in ttl_ms; those that held already stay. */
int cay__net_while(cay_client *client, cay_sandbox *sb, const cay_call *call,
                   const char *const *rules, uint64_t ttl_ms, uint64_t *revision, cay_err *err);
/* The job: takes them away. Twice is as good as once. */
int cay__net_end(cay_sandbox *sb, const cay_call *call, const cay_job *t, cay_err *err);
