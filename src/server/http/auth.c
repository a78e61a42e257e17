/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks, and what of ours that opens. Asked once for every request, before its handler. */
#include "auth.h"
#include <server/console.h>
#include <base/base.h>
#include <base/mutant.h>
#include <cay/access.h>

static const cay__scope scopes[] = {
    [CAY_KEY_NONE] = CAY__SCOPE_NOBODY,     [CAY_KEY_LOGIN_LINK] = CAY__SCOPE_NOBODY,
    [CAY_KEY_PORT] = CAY__SCOPE_PORT,       [CAY_KEY_FILE] = CAY__SCOPE_FILE,
    [CAY_KEY_SANDBOX] = CAY__SCOPE_SANDBOX, [CAY_KEY_TENANT] = CAY__SCOPE_TENANT,
    [CAY_KEY_ADMIN] = CAY__SCOPE_ADMIN,     [CAY_KEY_CONSOLE_LOGIN] = CAY__SCOPE_NOBODY,
};

static int take_actor(const cay_key *k, void *arg)
{
    cay__req *r = arg;
    r->who = (cay__actor){ .scope = scopes[k->scope],
                           .port = k->port,
                           .path = *k->path ? cay__arena_str(&r->arena, k->path) : NULL };
    CAY_COPY(r->who.tenant, k->tenant);
    CAY_COPY(r->who.key, k->id);
    CAY_COPY(r->who.sandbox, k->sandbox);
    return 0;
}

int cay__auth_key(cay__req *r, const char *key, cay_err *err)
{
    return cay_key_check(r->client, key, take_actor, r, err);
}

int cay__auth_session(cay__req *r, const char *text, cay_err *err)
{
    return cay_login_check(r->client, text, take_actor, r, err);
}

/* On a listener with --as: whoever reaches it is that tenant, whatever it shows. */
static void set_tenant(cay__req *r, const char *tenant)
{
    r->who = (cay__actor){ .scope = CAY__SCOPE_TENANT };
    CAY_COPY(r->who.tenant, tenant);
}

static int identify_actor(cay__req *r, cay_err *err)
{
    bool open = r->route->op->flags & (CAY__OP_OPEN | CAY__OP_TOKEN);
    r->shown = NULL;
    if (r->as) {
        set_tenant(r, r->as);
        return 0;
    }
    const char *key = cay__req_key(r);
    bool page = !key && r->dialect->pages;
    int rc = 0;
    if (page)
        key = cay__login_text(r, &rc, err);
    if (rc < 0) {
        if (open)
            return 0;
        return rc;
    }
    if (!key && CAY__MUTANT("api-key")) {
        set_tenant(r, CAY_TENANT_DEFAULT);
        r->who.scope = CAY__SCOPE_ADMIN;
        return 0;
    }
    if (!key) {
        if (open)
            return 0;
        return cay_fail_why(err, CAY_EAUTH, "key_missing",
                            "show a key: Authorization: Bearer e2b_…; cay key create makes one");
    }
    if (page)
        rc = cay__auth_session(r, key, err);
    else
        rc = cay__auth_key(r, key, err);
    if (rc == 0)
        r->shown = key;
    else
        r->shown = NULL;
    if (rc == 0 && page)
        CAY_TRY(cay__login_upgrade(r, err));
    if (rc == CAY_EAUTH && open)
        return 0;
    return rc;
}

/* The path that a file's route speaks of, at or below what the key opens, without detours. */
static bool path_fits(const char *path, const char *root)
{
    size_t n = strlen(root);
    while (n && root[n - 1] == '/')
        n--;
    if (!path || *path != '/' || strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
        return false;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        if (!strncmp(p, "/.", 2) &&
            (!p[2] || p[2] == '/' || (p[2] == '.' && (!p[3] || p[3] == '/'))))
            return false;
    return true;
}

/* A key of one sandbox, or of files of it. Those have the rights of the sandbox's own user and no
 * other's, and are of no use for a body that could name another path. */
static bool narrow_fits(cay__req *r)
{
    unsigned flags = r->route->op->flags;
    if (!(flags & CAY__OP_BOX) || !r->param[0] || strcmp(r->param[0], r->who.sandbox) != 0)
        return false;
    if (r->who.scope == CAY__SCOPE_SANDBOX)
        return true;
    return r->who.scope == CAY__SCOPE_FILE && (flags & CAY__OP_FILE) && r->who.path &&
           !cay__req_query(r, "user") && path_fits(cay__req_query(r, "path"), r->who.path);
}

int cay__req_shared(const cay__req *r, const char *what, cay_err *err)
{
    bool own = r->who.scope == CAY__SCOPE_TENANT && !strcmp(r->who.tenant, CAY_TENANT_DEFAULT);
    if (own || r->who.scope == CAY__SCOPE_ADMIN)
        return 0;
    return cay_fail_why(err, CAY_EPERM, "admin_only",
                        "%s: this needs a key of scope admin, or of tenant default", what);
}

int cay__admit(cay__req *r, cay_err *err)
{
    const cay__operation *op = r->route->op;
    if (op->flags & CAY__OP_OPEN)
        return 0;
    if ((op->flags & CAY__OP_ADMIN) && r->who.scope != CAY__SCOPE_ADMIN)
        return cay_fail_why(err, CAY_EPERM, "scope_too_narrow", "this needs a key of scope admin");
    /* Another sandbox is not there, as for another tenant; of its own one the key may see less. */
    bool fits = r->who.scope >= CAY__SCOPE_TENANT || narrow_fits(r) || CAY__MUTANT("api-scope");
    if (!fits)
        return cay_fail_why(
            err, CAY_EPERM, "scope_too_narrow",
            "this key opens one sandbox, or a port or files of it, and nothing else");
    if (op->flags & CAY__OP_SHARED)
        return cay__req_shared(r, op->tag, err);
    return 0;
}

int cay__auth(cay__req *r, cay_err *err)
{
    cay__gate *gate = cay__server_gate(r->server);
    CAY_TRY(cay__gate_host(gate, r->head.host, err));
    if (!cay__cors(r))
        CAY_TRY(cay__gate_origin(gate, r->head.host, cay__head_field(&r->head, "origin"), err));
    CAY_TRY(identify_actor(r, err));
    if (r->who.scope != CAY__SCOPE_NOBODY)
        CAY_TRY(cay__gate_rate(gate, cay__text_or(r->who.key, r->who.tenant), cay__now_us(), err));
    r->call.actor = cay__arena_str(&r->arena, cay__text_or(r->who.key, r->who.tenant));
    return 0;
}

const char *cay__req_tenant(cay__req *r)
{
    if (r->who.scope != CAY__SCOPE_ADMIN)
        return r->who.tenant;
    return cay__text_or(cay__req_query(r, "tenant"), NULL);
}

static void give_back(void *sb)
{
    cay_sandbox_unref(sb);
}

int cay__req_sandbox(cay__req *r, const char *id, cay_sandbox **out, cay_err *err)
{
    bool admin = r->who.scope == CAY__SCOPE_ADMIN || CAY__MUTANT("api-tenant"),
         narrow = r->who.scope != CAY__SCOPE_NOBODY && r->who.scope < CAY__SCOPE_TENANT;
    cay_sandbox *sb = NULL;
    if (!id || !*id || strlen(id) > 128)
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found", "there is no such sandbox");
    if (r->who.scope == CAY__SCOPE_NOBODY)
        return cay_fail_why(err, CAY_EAUTH, "key_missing",
                            "show a key: Authorization: Bearer e2b_…");
    if (narrow && strcmp(id, r->who.sandbox) != 0)
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found", "there is no sandbox %s", id);
    /* Every tenant's ids are the operator's; other names are found among its own. */
    int rc = cay_client_find_of(
        r->client, &r->call, admin && cay__id_valid(id, 'c') ? NULL : r->who.tenant, id, &sb, err);
    if (rc < 0)
        return rc;
    cay__req_defer(r, give_back, sb);
    *out = sb;
    return 0;
}
