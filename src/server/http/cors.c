/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of other origins (https://fetch.spec.whatwg.org/#http-cors-protocol). Only protocols whose
 * every request shows a token that no browser adds by itself are open to them: then a foreign page
 * can do what its own token allows, and nothing with somebody else's.
 */
#include "server.h"
#include <base/base.h>

static bool is_any_origin_allowed(const cay__req *r)
{
    /* A listener with --as needs no token: there any page would be that tenant. */
    return r->dialect && r->dialect->any_origin && !r->as;
}

bool cay__cors(cay__req *r)
{
    if (!is_any_origin_allowed(r) || !cay__head_field(&r->head, "origin"))
        return false;
    cay__reply_field(r, "Access-Control-Allow-Origin", "*");
    cay__reply_field(r, "Access-Control-Expose-Headers", "*");
    return true;
}

static int on_preflight(cay__req *r, cay_err *err)
{
    const char *fields = cay__head_field(&r->head, "access-control-request-headers");
    cay__reply_field(r, "Access-Control-Allow-Methods", "HEAD, GET, POST, PUT, PATCH, DELETE");
    cay__reply_field(r, "Access-Control-Allow-Headers", CAY_OR(fields, "*"));
    cay__reply_field(r, "Access-Control-Max-Age", "7200");
    return cay__reply(r, 204, NULL, NULL, 0);
}

static const cay__route preflight_route = CAY__ROUTE("OPTIONS", NULL, on_preflight, CAY__OP_OPEN);

const cay__route *cay__cors_preflight(cay__req *r)
{
    bool asks = !strcmp(r->head.method, "OPTIONS") && cay__head_field(&r->head, "origin") &&
                cay__head_field(&r->head, "access-control-request-method");
    if (asks && is_any_origin_allowed(r))
        return &preflight_route;
    return NULL;
}
