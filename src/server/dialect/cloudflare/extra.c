/* SPDX-License-Identifier: Apache-2.0 */
/* What is beside sandboxes: the pool, and the description of all of it. */
#include "cloudflare.h"
#include <base/str.h>

static int on_list_sandbox(const cay_info *i, void *arg)
{
    (void)i;
    ++*(json_int_t *)arg;
    return 0;
}

/* Sandboxes are made ahead of time below, for everybody: none of them is a tenant's before it asks.
 */
int cf_pool_stats(cay__req *r, cay_err *err)
{
    json_int_t n = 0;
    const cay_filter f = { .size = sizeof f,
                           .tenant = cay__req_tenant(r),
                           .states = 1u << CAY_RUNNING };
    CAY_TRY(cay_client_list(r->client, &r->call, &f, on_list_sandbox, &n, err));
    return cay__reply_json(r, 200,
                           json_pack("{s:i,s:I,s:I,s:{s:i,s:i},s:i}", "warm", 0, "assigned", n,
                                     "total", n, "config", "warmTarget", 0, "refreshInterval",
                                     10000, "maxInstances", 0));
}

int cf_pool_ok(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_json(r, 200, json_pack("{s:b}", "ok", true));
}

int cf_openapi(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_json(
        r, 200, cay__openapi(&cay__dialect_cloudflare, "Cloudflare sandbox bridge, by cay"));
}

int cf_openapi_page(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *o = cay__openapi(&cay__dialect_cloudflare, "Cloudflare sandbox bridge, by cay");
    CAY_AUTOFREE char *text = json_dumps(o, JSON_INDENT(2));
    CAY_AUTOBUF b = CAY__BUF((size_t)1 << 20);
    cay__buf_str(
        &b, "<!doctype html><meta charset=\"utf-8\"><title>Cloudflare sandbox bridge</title><pre>");
    for (const char *c = CAY_OR(text, ""); *c; c++)
        cay__buf_fmt(&b, *c == '<' ? "&lt;" : *c == '&' ? "&amp;" : "%c", *c);
    cay__buf_str(&b, "</pre>");
    if (b.full)
        return cay_fail(err, CAY_ETOOBIG, "the document is too long");
    return cay__reply(r, 200, "text/html; charset=utf-8", b.data, b.len);
}
