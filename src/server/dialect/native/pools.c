/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: sandboxes of a template that are ready before anybody asks. What they hold is the host's,
 * so they are the operator's. */
#include "native.h"
#include <base/base.h>
#include <cay/pool.h>

#define AT(field) offsetof(cay_pool, field)

static const cay__field pool_fields[] = {
    { "id", CAY__F_STR, AT(id), .about = "subject of its jobs" },
    { "template", CAY__F_STR, AT(template_) },
    { "tenant", CAY__F_STR, AT(tenant), .about = "who looks the template up" },
    { "low", CAY__F_U32, AT(low), .about = "with fewer ready, more are made" },
    { "high", CAY__F_U32, AT(high), .about = "until so many are" },
    { "ready", CAY__F_U32, AT(ready) },
    { "making", CAY__F_U32, AT(making) },
    { "error", CAY__F_STR, AT(error), CAY__F_MAYBE, .about = "why the last one could not be made" },
};
static const cay__shape pool_shape =
    CAY__SHAPE("Pool", cay_pool, pool_fields, "sandboxes that are ready");
static const cay__field put_fields[] = {
    { "template", CAY__F_STR, AT(template_), CAY__F_REQUIRED,
      .about = "a name, looked up each time, or an id" },
    { "tenant", CAY__F_STR, AT(tenant), .about = "who looks it up; default" },
    { "low", CAY__F_U32, AT(low), .max = CAY_POOL_MOST, .about = "1" },
    { "high", CAY__F_U32, AT(high), CAY__F_REQUIRED, .max = CAY_POOL_MOST },
};
static const cay__shape put_shape =
    CAY__SHAPE("PoolPut", cay_pool, put_fields, "a pool as it is wanted");

typedef struct finding {
    cay__req *r;
    const cay_pool *of;
} finding;

static int reply_it(const cay_pool *w, void *arg)
{
    const finding *f = arg;
    if (strcmp(w->template_, f->of->template_) || strcmp(w->tenant, f->of->tenant))
        return 0;
    cay__reply_shape(f->r, 200, &pool_shape, w);
    return 1;
}

const cay__doc cay__doc_pool_put = { "putPool", "pools",
                                     "keep sandboxes of a template ready, or change how many",
                                     .body = &put_shape,
                                     .answers = { { 200, &pool_shape }, { 400 }, { 404 } } };
int cay__on_pool_put(cay__req *r, cay_err *err)
{
    cay_pool w = { .size = sizeof w, .low = 1 };
    CAY_TRY(cay__req_shape(r, &put_shape, &w, err));
    w.tenant = CAY_OR(w.tenant, "default");
    CAY_TRY(cay_pool_put(r->client, &r->call, &w, err));
    cay__req_about(r, w.template_);
    int rc = cay_pool_list(r->client, &r->call, reply_it, &(finding){ r, &w }, err);
    if (rc > 0)
        return 0;
    if (rc < 0)
        return rc;
    return cay_fail_why(err, CAY_ENOENT, "warm_not_found", "the pool was removed meanwhile");
}

static int add_pool(const cay_pool *w, void *arg)
{
    return cay__items_add(arg, w);
}

const cay__doc cay__doc_pool_list = { "listPools", "pools",
                                      "the pools there are, and how many of each are ready",
                                      .answers = { { 200, &pool_shape, .list = true } } };
int cay__on_pool_list(cay__req *r, cay_err *err)
{
    cay__items l;
    cay__items_begin(&l, r, &pool_shape);
    int rc = cay_pool_list(r->client, &r->call, add_pool, &l, err);
    if (rc < 0)
        cay__items_drop(&l);
    if (rc < 0)
        return rc;
    return cay__items_reply(&l, 200, err);
}

static const cay__query drop_query[] = { { "template", "string", "as it was put",
                                           .required = true },
                                         { "tenant", "string", "likewise; default" },
                                         { NULL } };
const cay__doc cay__doc_pool_delete = { "removePool", "pools",
                                        "keep none ready any more; those that are go",
                                        .query = drop_query,
                                        .answers = { { 204 }, { 400 }, { 404 } } };
int cay__on_pool_delete(cay__req *r, cay_err *err)
{
    const char *name = cay__req_query(r, "template");
    if (!name || !*name)
        return cay_fail_why(err, CAY_EINVAL, "bad_query",
                            "?template=: want the one that the pool is of");
    cay__req_about(r, name);
    CAY_TRY(cay_pool_remove(r->client, &r->call, cay__req_query(r, "tenant"), name, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}
