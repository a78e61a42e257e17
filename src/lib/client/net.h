/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/net.h - policies beside the record: as JSON, and the operator's file.
 */
#pragma once
#include "client.h"
#include <base/arena.h>
#include <cay/policy.h>
#include <jansson.h>
#include <policy/binding.h>

#define CAY__EGRESS_CONF "egress.conf" /* the operator's file, in the state directory */
#define CAY__AUDIT_DIR   "net"         /* egress's records, likewise */

/* A policy's text as a JSON object; NULL when it cannot be read. */
json_t *cay__policy_json(const char *text);
/* And back; free() it. CAY_EINVAL names the member. */
int cay__policy_of_json(const json_t *j, char **text, cay_err *err);
/* The provider's handle when it is alive; NULL when it is stopped. */
int cay__net_live_box(cay_sandbox *sb, const cay_call *call, void **box, cay_err *err);
/* The operator's file as it is now; none gives the defaults. */
int cay__operator_read(const cay_client *client, cay__policy *out, cay_err *err);
/* A line of egress's audit log, parsed; the answer points into both. */
cay_net_record cay__net_record_of(const json_t *o, const char *line);

/* net_engine.c: c->net as an engine has it, where the provider is one. */
int cay__net_engine(cay_create *c, const char *provider, cay__arena *mem, cay_err *err);
