/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/net_exec.h - which command reached out.
 *
 * Egress sees a connection of a sandbox and not who in it opened it. What is known is when the
 * program asked, and which commands were running then: when that is one, the record names it; when
 * there are several, how many. What such a command left behind when it ended is not told apart from
 * the one that runs now.
 */
#pragma once
#include "client.h"
#include <base/buf.h>
#include <base/json.h>
#include <cay/policy.h>

typedef struct cay__exec {
    char id[CAY_ID_LEN + 1];
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
