/* SPDX-License-Identifier: Apache-2.0 */
/* What is beside sandboxes: mounts, which are refused by name, the pool, and the description of all of it. */
#include "cloudflare.h"
#include <base/str.h>
#include <server/openapi.h>

/* ------------------------------------------------------------------ mounts */

static int mount_path(const json_t *in, cay_err *err)
{
    const char *path = cay__json_str(in, "mountPath", "");
    if (*path != '/' || strspn(path, "/.") == strlen(path))
        return cay_fail(err, CAY_EINVAL, "mountPath is an absolute path below the root");
    return 0;
}

int cf_mount(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    json_t *in;
    CAY_TRY(cay__req_sandbox(r, r->param[0], &sb, err));
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(mount_path(in, err));
    if (!cay__json_str(in, "bucket", NULL) || !cay__json_str(json_object_get(in, "options"), "endpoint", NULL))
        return cay_fail(err, CAY_EINVAL, "bucket and options.endpoint are needed; a binding of R2 is known to Cloudflare's Workers alone");
    return cay_fail_why(err, CAY_EUPSTREAM, "mount_error", "buckets are mounted when a sandbox is made, by its manifest; this server mounts none in one that runs");
}

int cf_unmount(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    json_t *in;
    CAY_TRY(cay__req_sandbox(r, r->param[0], &sb, err));
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(mount_path(in, err));
    return cay_fail_why(err, CAY_EUPSTREAM, "unmount_error", "%.150s is no mount of this server's", cay__json_str(in, "mountPath", ""));
}

/* ------------------------------------------------------------------ the pool */

static int count(const cay_info *i, void *arg)
{
    (void)i;
    ++*(json_int_t *)arg;
    return 0;
}

/* Sandboxes are made ahead of time below, for everybody: none of them is a tenant's before it asks. */
int cf_pool_stats(cay__req *r, cay_err *err)
{
    json_int_t n = 0;
    const cay_filter f = { .size = sizeof f, .tenant = cay__req_tenant(r), .states = 1u << CAY_RUNNING };
    CAY_TRY(cay_service_list(r->svc, &r->call, &f, count, &n, err));
    return cay__reply_json(r, 200, json_pack("{s:i,s:I,s:I,s:{s:i,s:i},s:i}", "warm", 0, "assigned", n, "total", n, "config", "warmTarget", 0, "refreshInterval", 10000, "maxInstances", 0));
}

int cf_pool_ok(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_json(r, 200, json_pack("{s:b}", "ok", true));
}

/* ------------------------------------------------------------------ the document */

int cf_openapi(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_json(r, 200, cay__openapi(&cay__dialect_cloudflare, "Cloudflare sandbox bridge, by cay"));
}

int cf_openapi_page(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *o = cay__openapi(&cay__dialect_cloudflare, "Cloudflare sandbox bridge, by cay");
    CAY_AUTOFREE char *text = json_dumps(o, JSON_INDENT(2));
    CAY_AUTOBUF b = CAY__BUF((size_t)1 << 20);
    cay__buf_str(&b, "<!doctype html><meta charset=\"utf-8\"><title>Cloudflare sandbox bridge</title><pre>");
    for (const char *c = text ? text : ""; *c; c++)
        cay__buf_fmt(&b, *c == '<' ? "&lt;" : *c == '&' ? "&amp;" : "%c", *c);
    cay__buf_str(&b, "</pre>");
    if (b.full)
        return cay_fail(err, CAY_ETOOBIG, "the document is too long");
    return cay__reply(r, 200, "text/html; charset=utf-8", b.data, b.len);
}
