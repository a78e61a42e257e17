/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives sandboxes and belongs to the client: volumes, and secrets, which are never told. */
#include "native.h"

static int reply_volume(cay__req *r, const char *name, cay_err *err)
{
    cay_volume *v = NULL;
    CAY_TRY(cay_volume_find(r->client, &r->call, name, &v, err));
    int rc = cay__reply_object(r, v);
    cay_volume_free(v);
    return rc;
}

int cay__on_volume_create(cay__req *r, cay_err *err)
{
    cay_volume_spec spec = { .size = sizeof spec };
    CAY_TRY(cay__req_body(r, &spec, err));
    spec.once = cay__req_once_of(r);
    CAY_TRY(cay_volume_create(r->client, &r->call, &spec, err));
    return reply_volume(r, spec.name, err);
}

CAY__ITEMS_ADD(on_volume, cay_volume)

int cay__on_volume_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_volume_list(r->client, &r->call, on_volume, &l, err), err);
}

int cay__on_volume_get(cay__req *r, cay_err *err)
{
    return reply_volume(r, r->param[0], err);
}

int cay__on_volume_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_volume_remove(r->client, &r->call, r->param[0], err));
    return cay__reply_done(r);
}

int cay__on_secret_put(cay__req *r, cay_err *err)
{
    cay__secret_body b = { 0 };
    CAY_TRY(cay__req_body(r, &b, err));
    if (!b.value == !b.base64)
        return cay_fail_why(err, CAY_EINVAL, "field_missing",
                            "either value or value_base64 is needed");
    const char *v = CAY_OR(b.value, b.base64);
    size_t n;
    if (b.value)
        n = strlen(b.value);
    else
        n = b.base64_len;
    int rc = cay_secret_put(r->client, r->param[0], v, n, err);
    explicit_bzero((char *)(uintptr_t)v, n);
    if (rc < 0)
        return rc;
    return cay__reply_done(r);
}

static int on_secret(const char *name, int64_t changed_ms, void *arg)
{
    return cay__items_add(arg, &(cay__secret_told){ name, changed_ms });
}

int cay__on_secret_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_secret_list(r->client, on_secret, &l, err), err);
}

int cay__on_secret_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_secret_remove(r->client, r->param[0], err));
    return cay__reply_done(r);
}

int cay__on_secret_renew(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_sandbox_renew_secrets(r->sb, &r->call, err));
    return cay__reply_done(r);
}

int cay__on_secret_bind(cay__req *r, cay_err *err)
{
    cay__secret_binds b = { 0 };
    CAY_AUTOFREE char *net = NULL;
    CAY_TRY(cay__req_body(r, &b, err));
    CAY_TRY(cay__native_sources(r, b.secrets, b.n, err));
    if (b.net)
        CAY_TRY(cay_policy_from_json(b.net, &net, err));
    CAY_TRY(cay_sandbox_set_secrets(r->sb, &r->call, net, b.secrets, b.n, err));
    return cay__reply_done(r);
}
