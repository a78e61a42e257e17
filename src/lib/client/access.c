/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants, and the other names they know their sandboxes by. */
#include "remote.h"
#include <lib/template/registry.h>
#include "client.h"

/* Notes: TENANT/ALIAS → id, and id/TENANT/ALIAS → "" so that they go with the sandbox. */
#define ALIAS_SPACE "alias"
#define ALIAS_MAX   128

int cay__tenant_check(const char *name, cay_err *err)
{
    if (name && cay__tenant_valid(name))
        return 0;
    CAY_AUTOBUF b = CAY__BUF(160);
    cay__buf_safe(&b, CAY_OR(name, ""), CAY_MIN(strlen(CAY_OR(name, "")), (size_t)40), false);
    return cay_fail_why(
        err, CAY_EINVAL, "tenant_invalid",
        "tenant \"%s\": 1 to %d small letters, digits and '-', beginning with a letter",
        CAY_OR(b.data, ""), CAY_TENANT_MAX);
}

int cay__once_check(const char *once, cay_err *err)
{
    size_t n = 1;
    if (once)
        n = strlen(once);
    if (n && n <= CAY__ONCE_MAX)
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "once_invalid", "the word of one time has 1 to %d bytes",
                        CAY__ONCE_MAX);
}

static int store_tenant(cay_client *client, const cay_tenant *given, bool fresh, cay_err *err)
{
    cay_tenant t;
    CAY_TRY(cay__spec_take(&t, sizeof t, given, "cay_tenant", err));
    CAY_TRY(cay__tenant_check(t.name, err));
    CAY_TRY(cay__once_check(t.once, err));
    if (t.most.creates_per_min > 1000000)
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "creates per minute: at most 1,000,000; 0 means no bound");
    return CAY__STORE(client, tenant_put, &t, fresh, err);
}

static int send_tenant(const cay__remote *r, const cay_tenant *given, bool fresh, cay_err *err)
{
    cay_tenant t;
    CAY_TRY(cay__spec_take(&t, sizeof t, given, "cay_tenant", err));
    t.name = CAY_OR(t.name, "");
    if (fresh)
        return CAY__REMOTE_DO(r, err, tenant_create, .body = &t);
    return CAY__REMOTE_DO(r, err, tenant_patch, .path = { t.name }, .body = &t);
}

int cay_tenant_create(cay_client *client, const cay_tenant *spec, cay_err *err)
{
    if (client->remote)
        return send_tenant(client->remote, spec, true, err);
    return store_tenant(client, spec, true, err);
}

int cay_tenant_set(cay_client *client, const cay_tenant *spec, cay_err *err)
{
    if (client->remote)
        return send_tenant(client->remote, spec, false, err);
    return store_tenant(client, spec, false, err);
}

int cay_tenant_remove(cay_client *client, const char *name, cay_err *err)
{
    if (client->remote)
        return CAY__REMOTE_DO(client->remote, err, tenant_delete, .path = { name });
    CAY_TRY(cay__tenant_check(name, err));
    CAY_TRY(CAY__STORE(client, tenant_drop, name, err));
    cay__volumes_tenant_gone(client, name);
    cay__reg_logins_forget(client, name);
    pthread_mutex_lock(&client->lock); /* its keys went with it */
    cay__keyring_free(CAY_STEAL(client->keys));
    pthread_mutex_unlock(&client->lock);
    return 0;
}

int cay_tenant_list(cay_client *client, cay_tenant_fn *fn, void *arg, cay_err *err)
{
    if (client->remote)
        return CAY__REMOTE_EACH(cay_tenant, client->remote, NULL, CAY__REQUEST(tenant_list), fn,
                                arg, err);
    return CAY__STORE(client, tenant_list, NULL, fn, arg, err);
}

typedef struct tenant_search {
    cay_tenant_fn *fn;
    void *arg;
    const char *name;
    bool found;
} tenant_search;

static int on_remote_tenant(const cay_tenant *t, void *arg)
{
    tenant_search *s = arg;
    if (strcmp(s->name, t->name) != 0)
        return 0;
    s->found = true;
    return s->fn(t, s->arg);
}

static int find_remote_tenant(const cay__remote *r, const char *name, cay_tenant_fn *fn, void *arg,
                              cay_err *err)
{
    tenant_search s = { fn, arg, CAY_OR(name, ""), false };
    CAY_TRY(CAY__REMOTE_EACH(cay_tenant, r, NULL, CAY__REQUEST(tenant_list), on_remote_tenant, &s,
                             err));
    if (s.found)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "tenant_not_found", "there is no tenant %.60s", s.name);
}

int cay_tenant_get(cay_client *client, const char *name, cay_tenant_fn *fn, void *arg, cay_err *err)
{
    if (client->remote)
        return find_remote_tenant(client->remote, name, fn, arg, err);
    CAY_TRY(cay__tenant_check(name, err));
    return CAY__STORE(client, tenant_list, name, fn, arg, err);
}

static bool alias_key(const char *tenant, const char *alias, char *out, size_t cap)
{
    size_t n = strlen(alias);
    CAY_EACH_OF(alia, alias, n)
        if ((unsigned char)*alia < 0x21 || (unsigned char)*alia > 0x7e)
            return false;
    return n && n <= ALIAS_MAX && cay__str_join(out, cap, tenant, "/", alias, NULL);
}

int cay__alias_get(cay_client *client, const char *tenant, const char *alias,
                   int (*fn)(const char *, void *), void *arg)
{
    char key[CAY_TENANT_MAX + ALIAS_MAX + 2];
    if (alias_key(tenant, alias, key, sizeof key))
        return CAY__STORE(client, note_get, ALIAS_SPACE, key, fn, arg, NULL);
    return CAY_ENOENT;
}

int cay_client_alias(cay_client *client, const char *tenant, const char *alias, const char *id,
                     cay_err *err)
{
    char key[CAY_TENANT_MAX + ALIAS_MAX + 2], back[sizeof key + CAY_ID_LEN + 1];
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_TRY(cay__tenant_check(tenant, err));
    if (!alias || !alias_key(tenant, alias, key, sizeof key) || cay__id_valid(alias, 0))
        return cay_fail_why(err, CAY_EINVAL, "alias_invalid",
                            "an alias has 1 to %d printing characters and is not an id", ALIAS_MAX);
    if (!id)
        return CAY__STORE(client, note_put, ALIAS_SPACE, key, NULL, err);
    if (cay__client_row(client, id, &row, NULL) < 0 || strcmp(row->row.tenant, tenant) != 0)
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found",
                            "there is no sandbox %.20s of tenant %s", id, tenant);
    CAY_JOIN(back, id, "/", key);
    CAY_TRY(
        CAY__STORE(client, note_put, ALIAS_SPACE, back, "", err)); /* first what lets it go again */
    return CAY__STORE(client, note_put, ALIAS_SPACE, key, id, err);
}

static int delete_alias(const char *key, const char *value, void *arg)
{
    cay_client *client = arg;
    CAY__STORE(client, note_put, ALIAS_SPACE, key + CAY_ID_LEN + 1, NULL, NULL);
    CAY__STORE(client, note_put, ALIAS_SPACE, key, NULL, NULL);
    return 0;
}

void cay__alias_forget(cay_client *client, const char *id)
{
    char prefix[CAY_ID_LEN + 2];
    if (strlen(id) == CAY_ID_LEN && CAY_JOIN(prefix, id, "/"))
        CAY__STORE(client, note_list, ALIAS_SPACE, prefix, delete_alias, client, NULL);
}
