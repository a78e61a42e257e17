/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, tenants, and who did what. A key's text is kept nowhere but, sealed under the key that
 * asked for it, with its Idempotency-Key. */
#include "native.h"

enum { KEYS_MAX = 16 << 20 };

static int other_tenant(const cay__req *r, const char *tenant, cay_err *err)
{
    if (r->who.scope == CAY__SCOPE_ADMIN || !tenant || !strcmp(tenant, r->who.tenant))
        return 0;
    return cay_fail_why(err, CAY_EPERM, "admin_only",
                        "tenant: another one than your own needs a key of scope admin");
}

int cay__on_key_create(cay__req *r, cay_err *err)
{
    cay__key_body b = { .key = { .size = sizeof b.key } };
    cay__key_made made = { 0 };
    CAY_TRY(cay__req_body(r, &b, err));
    CAY_TRY(other_tenant(r, b.key.tenant, err));
    if (b.scope)
        b.key.scope = cay_key_scope_parse(b.scope);
    else
        b.key.scope = CAY_KEY_TENANT;
    if (r->who.scope != CAY__SCOPE_ADMIN && b.key.scope >= CAY_KEY_TENANT)
        return cay_fail_why(err, CAY_EPERM, "admin_only",
                            "a key of scope %s is made by one of scope admin",
                            cay_key_scope_name(b.key.scope));
    b.key.tenant = CAY_OR(b.key.tenant, r->who.tenant);
    if (b.ttl_ms)
        b.key.expires_ms = cay__clock_ms() + (int64_t)b.ttl_ms;
    else
        b.key.expires_ms = 0;
    char text[CAY_KEY_LEN + 1];
    if (cay__req_once(r)) {
        cay_key_text(text);
        b.key.text = text;
        CAY_TRY(cay__once_choose(r, text, CAY_KEY_LEN, err));
    }
    int made_it = cay_key_create(r->client, &b.key, made.key, err);
    explicit_bzero(text, sizeof text);
    CAY_TRY(made_it);
    memcpy(made.id, made.key + 4, CAY_KEY_ID_LEN);
    cay__req_about(r, made.id);
    int rc = cay__reply_object(r, &made);
    explicit_bzero(&made, sizeof made);
    return rc;
}

/* The keys that the one who asks may see. */
typedef struct own_keys {
    cay__req *r;
    cay__items *list; /* or NULL: only that of the route is looked for */
    cay__buf tenant;  /* the ids of those of scope tenant */
} own_keys;

static int take_tenant_key(const cay_key *k, void *arg)
{
    own_keys *o = arg;
    if (k->scope == CAY_KEY_TENANT)
        cay__buf_fmt(&o->tenant, "%s ", k->id);
    if (o->tenant.full)
        return CAY_ETOOBIG;
    return 0;
}

/* A tenant has no say over what opens more than its own keys: those of scope admin, links to the
 * console, and the sessions that came of either. */
static bool is_key_own(const own_keys *o, const cay_key *k)
{
    if (o->r->who.scope == CAY__SCOPE_ADMIN)
        return true;
    if (k->scope == CAY_KEY_CONSOLE_LOGIN)
        return *k->from && o->tenant.len && strstr(o->tenant.data, k->from);
    return k->scope != CAY_KEY_ADMIN && k->scope != CAY_KEY_LOGIN_LINK;
}

static int on_own_key(const cay_key *k, void *arg)
{
    const own_keys *o = arg;
    if (!is_key_own(o, k))
        return 0;
    if (o->list)
        return cay__items_add(o->list, k);
    return !strcmp(k->id, o->r->param[0]);
}

static int walk_own_keys(cay__req *r, cay__items *list, cay_err *err)
{
    own_keys o = { .r = r, .list = list, .tenant = CAY__BUF(KEYS_MAX) };
    const char *tenant = cay__req_tenant(r);
    int rc = cay_key_list(r->client, tenant, take_tenant_key, &o, err);
    if (rc == 0)
        rc = cay_key_list(r->client, tenant, on_own_key, &o, err);
    cay__buf_clear(&o.tenant);
    return rc;
}

int cay__on_key_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, walk_own_keys(r, &l, err), err);
}

int cay__on_key_revoke(cay__req *r, cay_err *err)
{
    int rc = walk_own_keys(r, NULL, err);
    CAY_TRY(rc);
    if (!rc && r->who.scope != CAY__SCOPE_ADMIN) /* another's is not there */
        return cay_fail_why(err, CAY_ENOENT, "key_not_found", "there is no key %.16s", r->param[0]);
    CAY_TRY(cay_key_revoke(r->client, r->param[0], err));
    return cay__reply_done(r);
}

static int reply_tenant(const cay_tenant *t, void *arg)
{
    return cay__reply_object(arg, t);
}

int cay__on_tenant_create(cay__req *r, cay_err *err)
{
    cay_tenant t = { .size = sizeof t };
    CAY_TRY(cay__req_body(r, &t, err));
    t.once = cay__req_once_of(r);
    CAY_TRY(cay_tenant_create(r->client, &t, err));
    cay__req_about(r, t.name);
    return cay_tenant_get(r->client, t.name, reply_tenant, r, err);
}

CAY__ITEMS_ADD(add_tenant, cay_tenant)

int cay__on_tenant_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_tenant_list(r->client, add_tenant, &l, err), err);
}

static int take_most(const cay_tenant *t, void *arg)
{
    *(cay_quota *)arg = t->most;
    return 0;
}

int cay__on_tenant_patch(cay__req *r, cay_err *err)
{
    cay_tenant t = { .size = sizeof t, .name = r->param[0] };
    CAY_TRY(cay_tenant_get(r->client, t.name, take_most, &t.most, err));
    CAY_TRY(cay__req_body(r, &t, err));
    CAY_TRY(cay_tenant_set(r->client, &t, err));
    return cay_tenant_get(r->client, t.name, reply_tenant, r, err);
}

int cay__on_tenant_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_tenant_remove(r->client, r->param[0], err));
    return cay__reply_done(r);
}

CAY__ITEMS_ADD(add_line, cay_audit)

int cay__on_audit_list(cay__req *r, cay_err *err)
{
    cay_audit_filter f = { .size = sizeof f, .last = 100 };
    CAY_TRY(cay__req_asked(r, &f, err));
    f.tenant = cay__req_tenant(r);
    f.last = CAY_MAX(f.last, 1u);
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_audit_list(r->client, &f, add_line, &l, err), err);
}

int cay__on_audit_proof(cay__req *r, cay_err *err)
{
    cay__audit_proof_told p = { .p = { .size = sizeof p.p } };
    const char *head = NULL;
    CAY_TRY(cay__req_asked(r, &head, err));
    int rc = cay_audit_verify(r->client, head, &p.p, err);
    if (rc < 0 && rc != CAY_ESTATE)
        return rc;
    p.sound = rc == 0;
    return cay__reply_object(r, &p);
}
