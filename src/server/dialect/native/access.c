/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and tenants. A key's text is kept nowhere but, sealed under the key that asked for it, with
 * its Idempotency-Key. */
#include "native.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/access.h>

static const char *const scope_words[] = { "port", "file", "sandbox", "tenant", "admin", NULL };

static void put_scope(cay__buf *b, const void *v)
{
    const char *s = cay_key_scope_name(*(const cay_key_scope *)v);
    cay__buf_json(b, s, strlen(s));
}

#define AT(field) offsetof(cay_key, field)
static const cay__field key_fields[] = {
    { "id", CAY__F_STR, AT(id), .about = "8 hex digits" },
    { "tenant", CAY__F_STR, AT(tenant) },
    { "scope", CAY__F_CALC, AT(scope), .put = put_scope,
      .more =
          "{\"enum\":[\"login\",\"port\",\"file\",\"sandbox\",\"tenant\",\"admin\",\"session\"]}" },
    { "name", CAY__F_STR, AT(name) },
    { "sandbox", CAY__F_STR, AT(sandbox), CAY__F_MAYBE },
    { "path", CAY__F_STR, AT(path), CAY__F_MAYBE },
    { "port", CAY__F_U16, AT(port), CAY__F_MAYBE },
    { "from", CAY__F_STR, AT(from), CAY__F_MAYBE,
      .about = "of a session: the key it stands for, and dies with; without, it came by a link" },
    { "created_ms", CAY__F_I64, AT(created_ms) },
    { "expires_ms", CAY__F_I64, AT(expires_ms), CAY__F_MAYBE },
    { "revoked_ms", CAY__F_I64, AT(revoked_ms), CAY__F_MAYBE },
    { "used_ms", CAY__F_I64, AT(used_ms), CAY__F_MAYBE,
      .about = "when it last opened something, to the minute; left out: never yet" },
};
static const cay__shape key_shape =
    CAY__SHAPE("Key", cay_key, key_fields, "what opens something, without its secret");

typedef struct key_body {
    cay_key key;
    const char *scope;
    uint64_t ttl_ms;
} key_body;
static const cay__field key_body_fields[] = {
    { "tenant", CAY__F_STR, offsetof(key_body, key.tenant), .about = "another one: scope admin" },
    { "scope", CAY__F_CHOICE, offsetof(key_body, scope), .more = scope_words,
      .about = "tenant; a key that is no admin's makes narrower ones than itself" },
    { "name", CAY__F_STR, offsetof(key_body, key.name), .max = 100 },
    { "sandbox", CAY__F_STR, offsetof(key_body, key.sandbox),
      .about = "with sandbox, port and file" },
    { "path", CAY__F_STR, offsetof(key_body, key.path), .about = "with file" },
    { "port", CAY__F_U16, offsetof(key_body, key.port), .about = "with port" },
    { "ttl_ms", CAY__F_U64, offsetof(key_body, ttl_ms), .max = 1ull << 42,
      .about = "until it expires; 0: never" },
};
static const cay__shape key_body_shape =
    CAY__SHAPE("KeyCreate", key_body, key_body_fields, "a key as it is wanted");

typedef struct key_made {
    char id[CAY_KEY_ID_LEN + 1], key[CAY_KEY_LEN + 1];
} key_made;
static const cay__field key_made_fields[] = {
    { "id", CAY__F_TEXT, offsetof(key_made, id) },
    { "key", CAY__F_TEXT, offsetof(key_made, key), .about = "told this once" },
};
static const cay__shape key_made_shape =
    CAY__SHAPE("KeyMade", key_made, key_made_fields, "a new key");

static int other_tenant(const cay__req *r, const char *tenant, cay_err *err)
{
    if (r->who.scope == CAY__SCOPE_ADMIN || !tenant || !strcmp(tenant, r->who.tenant))
        return 0;
    return cay_fail_why(err, CAY_EPERM, "admin_only",
                        "tenant: another one than your own needs a key of scope admin");
}

const cay__doc cay__doc_key_create = {
    "createKey", "access", "make a key", .body = &key_body_shape,
    .answers = { { 201, &key_made_shape }, { 400 }, { 403 }, { 404 }, { 409 } }
};
int cay__on_key_create(cay__req *r, cay_err *err)
{
    key_body b = { .key = { .size = sizeof b.key } };
    key_made made = { 0 };
    CAY_TRY(cay__req_shape(r, &key_body_shape, &b, err));
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
    int rc = cay__reply_shape(r, 201, &key_made_shape, &made);
    explicit_bzero(&made, sizeof made);
    return rc;
}

static int add_key(const cay_key *k, void *arg)
{
    return cay__items_add(arg, k);
}

static const cay__query tenant_query[] = {
    { "tenant", "string", "only of this one; to scope admin" }, { NULL }
};
const cay__doc cay__doc_key_list = { "listKeys", "access", "the keys there are",
                                     .query = tenant_query,
                                     .answers = { { 200, &key_shape, .list = true } } };
int cay__on_key_list(cay__req *r, cay_err *err)
{
    cay__items l;
    cay__items_begin(&l, r, &key_shape);
    int rc = cay_key_list(r->client, cay__req_tenant(r), add_key, &l, err);
    if (rc < 0)
        cay__items_drop(&l);
    if (rc < 0)
        return rc;
    return cay__items_reply(&l, 200, err);
}

static int is_it(const cay_key *k, void *arg)
{
    return !strcmp(k->id, arg);
}

const cay__doc cay__doc_key_revoke = { "revokeKey", "access", "let it open nothing any more",
                                       .answers = { { 204 }, { 400 }, { 404 } } };
int cay__on_key_revoke(cay__req *r, cay_err *err)
{
    int rc = cay_key_list(r->client, cay__req_tenant(r), is_it, (void *)r->param[0], err);
    CAY_TRY(rc);
    if (!rc && r->who.scope != CAY__SCOPE_ADMIN) /* another's is not there */
        return cay_fail_why(err, CAY_ENOENT, "key_not_found", "there is no key %.16s", r->param[0]);
    CAY_TRY(cay_key_revoke(r->client, r->param[0], err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

static const cay__field quota_fields[] = {
    { "sandboxes", CAY__F_U64, offsetof(cay_quota, sandboxes), .about = "0: no bound" },
    { "cpu_milli", CAY__F_U64, offsetof(cay_quota, cpu_milli) },
    { "memory", CAY__F_U64, offsetof(cay_quota, memory) },
    { "disk", CAY__F_U64, offsetof(cay_quota, disk) },
    { "creates_per_min", CAY__F_U64, offsetof(cay_quota, creates_per_min), .max = 1000000 },
    { "templates", CAY__F_U64, offsetof(cay_quota, templates),
      .about = "bytes of its templates' layers, each counted once" },
};
static const cay__shape quota_shape =
    CAY__SHAPE("TenantQuota", cay_quota, quota_fields,
               "what all sandboxes of a tenant may have, or have, together");
static const cay__field tenant_fields[] = {
    { "name", CAY__F_STR, offsetof(cay_tenant, name) },
    { "most", CAY__F_OBJECT, offsetof(cay_tenant, most), .more = &quota_shape },
    { "used", CAY__F_OBJECT, offsetof(cay_tenant, used), .more = &quota_shape },
    { "created_ms", CAY__F_I64, offsetof(cay_tenant, created_ms) },
};
static const cay__shape tenant_shape =
    CAY__SHAPE("Tenant", cay_tenant, tenant_fields, "who shares this machine");
static const cay__field tenant_body_fields[] = {
    { "name", CAY__F_STR, offsetof(cay_tenant, name), CAY__F_REQUIRED },
    { "most", CAY__F_OBJECT, offsetof(cay_tenant, most), .more = &quota_shape },
};
static const cay__shape tenant_body_shape =
    CAY__SHAPE("TenantCreate", cay_tenant, tenant_body_fields, "a tenant as it is wanted");
static const cay__field tenant_patch_fields[] = {
    { "most", CAY__F_OBJECT, offsetof(cay_tenant, most), CAY__F_REQUIRED, .more = &quota_shape },
};
static const cay__shape tenant_patch_shape = CAY__SHAPE(
    "TenantPatch", cay_tenant, tenant_patch_fields, "other bounds; those not named stay");

typedef struct answering {
    cay__req *r;
    int status;
} answering;

static int reply_tenant(const cay_tenant *t, void *arg)
{
    const answering *a = arg;
    return cay__reply_shape(a->r, a->status, &tenant_shape, t);
}

const cay__doc cay__doc_tenant_create = { "createTenant", "access",
                                          "let somebody else use this machine",
                                          .body = &tenant_body_shape,
                                          .answers = { { 201, &tenant_shape }, { 400 }, { 409 } } };
int cay__on_tenant_create(cay__req *r, cay_err *err)
{
    cay_tenant t = { .size = sizeof t };
    CAY_TRY(cay__req_shape(r, &tenant_body_shape, &t, err));
    t.once = cay__req_once_of(r);
    CAY_TRY(cay_tenant_create(r->client, &t, err));
    cay__req_about(r, t.name);
    return cay_tenant_get(r->client, t.name, reply_tenant, &(answering){ r, 201 }, err);
}

static int add_tenant(const cay_tenant *t, void *arg)
{
    return cay__items_add(arg, t);
}

const cay__doc cay__doc_tenant_list = { "listTenants", "access",
                                        "those there are, with what they have",
                                        .answers = { { 200, &tenant_shape, .list = true } } };
int cay__on_tenant_list(cay__req *r, cay_err *err)
{
    cay__items l;
    cay__items_begin(&l, r, &tenant_shape);
    int rc = cay_tenant_list(r->client, add_tenant, &l, err);
    if (rc < 0)
        cay__items_drop(&l);
    if (rc < 0)
        return rc;
    return cay__items_reply(&l, 200, err);
}

static int take_most(const cay_tenant *t, void *arg)
{
    *(cay_quota *)arg = t->most;
    return 0;
}

const cay__doc cay__doc_tenant_patch = { "changeTenant", "access", "other bounds",
                                         .body = &tenant_patch_shape,
                                         .answers = { { 200, &tenant_shape }, { 400 }, { 404 } } };
int cay__on_tenant_patch(cay__req *r, cay_err *err)
{
    cay_tenant t = { .size = sizeof t, .name = r->param[0] };
    CAY_TRY(cay_tenant_get(r->client, t.name, take_most, &t.most, err));
    CAY_TRY(cay__req_shape(r, &tenant_patch_shape, &t, err));
    CAY_TRY(cay_tenant_set(r->client, &t, err));
    return cay_tenant_get(r->client, t.name, reply_tenant, &(answering){ r, 200 }, err);
}

const cay__doc cay__doc_tenant_delete = { "removeTenant", "access",
                                          "forget one that has nothing any more",
                                          .answers = { { 204 }, { 400 }, { 404 }, { 409 } } };
int cay__on_tenant_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_tenant_remove(r->client, r->param[0], err));
    return cay__reply(r, 204, NULL, NULL, 0);
}
