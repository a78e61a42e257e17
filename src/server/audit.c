/* SPDX-License-Identifier: Apache-2.0 */
/* Every request that changes something, and every one that is refused, is a line of the audit log.
 */
#include <server/http/connection.h>
#include <base/base.h>
#include <base/fd.h>
#include <cay/audit.h>
#include <stdio.h>

void cay__req_about(cay__req *r, const char *object)
{
    r->reply->object = cay__arena_str(&r->arena, object);
}

static bool is_refused_status(int status)
{
    return status == 401 || status == 403 || status == 421 || status == 429;
}

static bool reads_only(const char *method)
{
    return !strcmp(method, "GET") || !strcmp(method, "HEAD") || !strcmp(method, "OPTIONS");
}

void cay__tell(cay__req *r)
{
    int status = r->reply->status;
    char actor[80], action[300];
    cay_err err = CAY_ERR_INIT;
    if (!r->route || r->dialect == &cay__preview_dialect ||
        ((reads_only(r->head.method) || (r->route->op->flags & CAY__OP_ASKS)) &&
         !is_refused_status(status)))
        return;
    snprintf(actor, sizeof actor, "%s%s",
             *r->who.key      ? "key:"
             : *r->who.tenant ? "tenant:"
                              : "nobody",
             cay__text_or(r->who.key, r->who.tenant));
    /* A protocol without a base path is known by its name. */
    snprintf(action, sizeof action, "%s %s%s%s", r->head.method, r->dialect->base ? "" : "/",
             CAY_OR(r->dialect->base, r->dialect->name), CAY_OR(r->route->op->path, ""));
    cay_audit a = { .size = sizeof a,
                    .actor = actor,
                    .tenant = r->who.tenant,
                    .action = action,
                    .object = CAY_OR(r->reply->object, r->param[0]),
                    .verdict = status && status < 400      ? "ok"
                               : is_refused_status(status) ? "refused"
                                                           : "failed",
                    .peer = r->peer,
                    .request = r->id,
                    .status = status,
                    .us = (uint64_t)CAY_MAX(cay__now_us() - r->reply->began_us, 0) };
    if (cay_audit_put(r->client, &a, &err) < 0)
        cay__log_error(r, &err);
}
