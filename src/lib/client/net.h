/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/net.h - policies beside the record: as JSON, and the operator's file.
 */
#pragma once
#include "client.h"
#include <base/json.h>
#include <cay/policy.h>
#include <policy/binding.h>

#define CAY__EGRESS_CONF "egress.conf" /* the operator's file, in the state directory */
#define CAY__NET_LOG_DIR "net"         /* egress's records, likewise */

/* A policy's text as a JSON object; NULL when it cannot be read. */
json_t *cay__policy_json(const char *text);
/* The provider's handle when it is alive; NULL when it is stopped. */
int cay__net_live_box(cay_sandbox *sb, const cay_call *call, void **box, cay_err *err);
/* The operator's file as it is now; none gives the defaults. */
int cay__operator_read(const cay_client *client, cay__policy *out, cay_err *err);
/* A line of egress's audit log, parsed; the answer points into both. */
cay_net_record cay__net_record_of(const json_t *o, const char *line);

/* c->net.policy as an engine has it, where the provider is one. */
int cay__net_engine(cay_create *c, const char *provider, cay__arena *mem, cay_err *err);

/*
 * net_exec.c: which command reached out.
 *
 * Egress sees a connection of a sandbox and not who in it opened it. What is known is when the
 * program asked, and which commands were running then: when that is one, the record names it; when
 * there are several, how many. What such a command left behind when it ended is not told apart from
 * the one that runs now.
 */
typedef struct cay__exec {
    cay__id id;
    int64_t from_ms, to_ms; /* to_ms INT64_MAX: it runs */
} cay__exec;
typedef struct cay__execs {
    cay__exec *v;
    size_t n, cap;
    int64_t since_ms; /* what ran before is forgotten: nothing is told of the time before */
    bool blind;       /* nobody tells when they ended */
} cay__execs;

void cay__execs_read(cay_sandbox *sb, cay__execs *out); /* without an answer none is known */
void cay__execs_clear(cay__execs *e);
/* Fills r->exec and r->execs, and makes r->json the line with them, in `with`. */
void cay__execs_link(const cay__execs *e, const json_t *record, cay_net_record *r, const char *line,
                     cay__buf *with);
