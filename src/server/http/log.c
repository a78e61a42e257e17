/* SPDX-License-Identifier: Apache-2.0 */
/* Every request that changes something, and every one that is refused, is a line of the audit log.
 */
#include <server/http/connection.h>
#include <base/base.h>
#include <cay/audit.h>
#include "connection.h"
#include <server/telemetry.h>
#include <base/mutant.h>
#include <inttypes.h>

void cay__req_about(cay__req *r, const char *object)
{
    r->reply->object = cay__arena_str(&r->arena, object);
}

static bool is_refused_status(int status)
{
    return status == 401 || status == 403 || status == 421 || status == 429;
}

/* A GET whose answer is a secret made it just then. */
static bool reads_only(const cay__req *r)
{
    const char *method = r->head.method;
    unsigned flags = r->route->op->flags;
    if (flags & CAY__OP_ASKS)
        return true;
    return !(flags & CAY__OP_SECRET) &&
           (!strcmp(method, "GET") || !strcmp(method, "HEAD") || !strcmp(method, "OPTIONS"));
}

static const char *verdict_of(int status)
{
    if (status && status < 400)
        return "ok";
    if (is_refused_status(status))
        return "refused";
    return "failed";
}

void cay__audit_request(cay__req *r)
{
    int status = r->reply->status;
    char actor[80], action[300];
    cay_err err = CAY_ERR_INIT;
    if (!r->route || r->dialect == &cay__preview_dialect ||
        (reads_only(r) && !is_refused_status(status)))
        return;
    if (*r->who.key)
        CAY_FORMAT(actor, "key:%s", r->who.key);
    else if (*r->who.tenant)
        CAY_FORMAT(actor, "tenant:%s", r->who.tenant);
    else
        CAY_FORMAT(actor, "nobody");
    /* A protocol without a base path is known by its name. */
    CAY_FORMAT(action, "%s %s%s%s", r->head.method, r->dialect->base ? "" : "/",
               CAY_OR(r->dialect->base, r->dialect->name), CAY_OR(r->route->op->path, ""));
    cay_audit a = { .size = sizeof a,
                    .actor = actor,
                    .tenant = r->who.tenant,
                    .action = action,
                    .object = CAY_OR(r->reply->object, r->param[0]),
                    .verdict = verdict_of(status),
                    .peer = r->peer,
                    .request = r->id,
                    .status = status,
                    .us = (uint64_t)CAY_MAX(cay__now_us() - r->reply->began_us, 0) };
    if (cay_audit_put(r->client, &a, &err) < 0)
        cay__log_error(r, &err);
}

/* What the server tells its operator: JSON, a line each. */

void cay__log_request(cay__req *r)
{
    cay__server *s = r->server;
    if (!r->reply->status)
        return;
    cay__metrics_request(s->metrics, r->dialect, r->route, r->reply->status, r->reply->bytes,
                         cay__now_us() - r->reply->began_us);
    cay__trace_end(r);
    if (s->log_fd < 0)
        return;
    CAY_AUTOBUF b = CAY__BUF(CAY__HEAD_MAX * 3);
    cay__buf_fmt(&b,
                 "{\"ts\":%" PRId64 ",\"id\":\"%s\",\"peer\":\"%s\",\"method\":", cay__clock_ms(),
                 r->id, r->peer);
    cay__buf_json(&b, r->head.method, strlen(r->head.method));
    cay__buf_str(&b, ",\"path\":"); /* without the query: it may hold a token */
    cay__buf_json(&b, r->head.path, strlen(r->head.path));
    cay__buf_fmt(&b, ",\"status\":%d,\"bytes\":%" PRIu64 ",\"us\":%" PRId64, r->reply->status,
                 r->reply->bytes, cay__now_us() - r->reply->began_us);
    if (*r->who.key)
        cay__buf_fmt(&b, ",\"key\":\"%s\"",
                     CAY__MUTANT("log-key") && r->shown ? r->shown : r->who.key);
    if (*r->reply->span.text)
        cay__buf_fmt(&b, ",\"trace\":\"%s\"", r->reply->span.self.trace);
    cay__buf_str(&b, "}\n");
    (void)!write(s->log_fd, b.data, b.len);
}

/* Failures of the server itself: with the text that the answer does not have. */
void cay__log_error(const cay__req *r, const cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(8192);
    if (err->code != CAY_ESYS)
        return;
    cay__buf_fmt(&b, "{\"ts\":%" PRId64 ",\"id\":\"%s\",\"error\":", cay__clock_ms(), r->id);
    cay__buf_json(&b, err->msg, strlen(err->msg));
    cay__buf_fmt(&b, ",\"reason\":\"%s\",\"sys\":%d}\n", err->reason, err->sys);
    (void)!write(r->server->log_fd >= 0 ? r->server->log_fd : 2, b.data, b.len);
}
