/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants, and the other names they know their sandboxes by. */
#include "remote.h"
#include <lib/template/registry.h>
#include "client.h"
#include "volume.h"
#include <base/buf.h>
#include <base/str.h>

/* Notes: TENANT/ALIAS → id, and id/TENANT/ALIAS → "" so that they go with the sandbox. */
#define ALIAS_SPACE "alias"
#define ALIAS_MAX   128

int cay__tenant_check(const char *name, cay_err *err)
{
    if (name && cay__tenant_valid(name))
        return 0;
    CAY_AUTOBUF b = CAY__BUF(160);
    cay__buf_safe(&b, name ? name : "", CAY_MIN(strlen(name ? name : ""), (size_t)40), false);
    return cay_fail_why(
        err, CAY_EINVAL, "tenant_invalid",
        "tenant \"%s\": 1 to %d small letters, digits and '-', beginning with a letter",
        b.data ? b.data : "", CAY_TENANT_MAX);
}

int cay__once_check(const char *once, cay_err *err)
{
    size_t n = once ? strlen(once) : 1;
    return n && n <= CAY__ONCE_MAX
               ? 0
               : cay_fail_why(err, CAY_EINVAL, "once_invalid",
                              "the word of one time has 1 to %d bytes", CAY__ONCE_MAX);
}

static int put(cay_service *svc, const cay_tenant *given, bool fresh, cay_err *err)
{
    cay_tenant t;
    CAY_TRY(cay__spec_take(&t, sizeof t, given, "cay_tenant", err));
    CAY_TRY(cay__tenant_check(t.name, err));
    CAY_TRY(cay__once_check(t.once, err));
    if (t.most.creates_per_min > 1000000)
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "creates per minute: at most 1,000,000; 0 means no bound");
    return svc->store->tenant_put(svc->db, &t, fresh, err);
}

int cay_tenant_create(cay_service *svc, const cay_tenant *spec, cay_err *err)
{
    CAY__BACK(svc, tenant_put, svc, spec, true, err);
    return put(svc, spec, true, err);
}

int cay_tenant_set(cay_service *svc, const cay_tenant *spec, cay_err *err)
{
    CAY__BACK(svc, tenant_put, svc, spec, false, err);
    return put(svc, spec, false, err);
}

int cay_tenant_remove(cay_service *svc, const char *name, cay_err *err)
{
    CAY__BACK(svc, tenant_remove, svc, name, err);
    CAY_TRY(cay__tenant_check(name, err));
    CAY_TRY(svc->store->tenant_drop(svc->db, name, err));
    cay__volumes_tenant_gone(svc, name);
    cay__reg_logins_forget(svc, name);
    pthread_mutex_lock(&svc->lock); /* its keys went with it */
    cay__keyring_free(CAY_STEAL(svc->keys));
    pthread_mutex_unlock(&svc->lock);
    return 0;
}

int cay_tenant_list(cay_service *svc, int (*fn)(const cay_tenant *, void *), void *arg,
                    cay_err *err)
{
    CAY__BACK(svc, tenant_list, svc, NULL, fn, arg, err);
    return svc->store->tenant_list(svc->db, NULL, fn, arg, err);
}

int cay_tenant_get(cay_service *svc, const char *name, int (*fn)(const cay_tenant *, void *),
                   void *arg, cay_err *err)
{
    CAY__BACK(svc, tenant_list, svc, name, fn, arg, err);
    CAY_TRY(cay__tenant_check(name, err));
    return svc->store->tenant_list(svc->db, name, fn, arg, err);
}

static bool alias_key(const char *tenant, const char *alias, char *out, size_t cap)
{
    size_t n = strlen(alias);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)alias[i] < 0x21 || (unsigned char)alias[i] > 0x7e)
            return false;
    return n && n <= ALIAS_MAX && cay__str_join(out, cap, tenant, "/", alias, NULL);
}

int cay__alias_get(cay_service *svc, const char *tenant, const char *alias,
                   int (*fn)(const char *, void *), void *arg)
{
    char key[CAY_TENANT_MAX + ALIAS_MAX + 2];
    return alias_key(tenant, alias, key, sizeof key)
               ? svc->store->note_get(svc->db, ALIAS_SPACE, key, fn, arg, NULL)
               : CAY_ENOENT;
}

int cay_service_alias(cay_service *svc, const char *tenant, const char *alias, const char *id,
                      cay_err *err)
{
    char key[CAY_TENANT_MAX + ALIAS_MAX + 2], back[sizeof key + CAY_ID_LEN + 1];
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_TRY(cay__tenant_check(tenant, err));
    if (!alias || !alias_key(tenant, alias, key, sizeof key) || cay__id_valid(alias, 0))
        return cay_fail_why(err, CAY_EINVAL, "alias_invalid",
                            "an alias has 1 to %d printing characters and is not an id", ALIAS_MAX);
    if (!id)
        return svc->store->note_put(svc->db, ALIAS_SPACE, key, NULL, err);
    if (cay__svc_row(svc, id, &row, NULL) < 0 || strcmp(row->row.tenant, tenant) != 0)
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found",
                            "there is no sandbox %.20s of tenant %s", id, tenant);
    cay__str_join(back, sizeof back, id, "/", key, NULL);
    CAY_TRY(svc->store->note_put(svc->db, ALIAS_SPACE, back, "",
                                 err)); /* first what lets it go again */
    return svc->store->note_put(svc->db, ALIAS_SPACE, key, id, err);
}

static int forget(const char *key, const char *value, void *arg)
{
    cay_service *svc = arg;
    (void)value;
    svc->store->note_put(svc->db, ALIAS_SPACE, key + CAY_ID_LEN + 1, NULL, NULL);
    svc->store->note_put(svc->db, ALIAS_SPACE, key, NULL, NULL);
    return 0;
}

void cay__alias_forget(cay_service *svc, const char *id)
{
    char prefix[CAY_ID_LEN + 2];
    if (strlen(id) == CAY_ID_LEN && cay__str_join(prefix, sizeof prefix, id, "/", NULL))
        svc->store->note_list(svc->db, ALIAS_SPACE, prefix, forget, svc, NULL);
}
