/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-ins at registries, each a tenant's own: USER:PASSWORD under the key of stored secrets, by
 * TENANT/HOST. They go in and are never told; a pull of that tenant from that registry uses them,
 * nothing else can name them.
 */
#include <lib/client/remote.h>
#include "registry.h"
#include <lib/client/secret.h>
#include <base/json.h>

#define SPACE "registry-login"
enum { KEY = CAY_TENANT_MAX + 300, MOST = 64 /* of one tenant */ };

/* docker.io has three names. */
static int key_of(const char *tenant, const char *host, char out[KEY], cay_err *err)
{
    static const char *const same[] = { "index.docker.io", "registry-1.docker.io",
                                        "registry.hub.docker.com" };
    char ref[300];
    cay__tname n;
    tenant = CAY_OR(tenant, CAY_TENANT_DEFAULT);
    CAY_TRY(cay__tenant_check(tenant, err));
    if (!host || strchr(host, '/') || !CAY_JOIN(ref, host, "/x") ||
        cay__tname_parse(ref, &n, NULL) < 0 || !n.named_host)
        return cay_fail_why(err, CAY_EINVAL, "registry_host",
                            "\"%.60s\" is no registry: HOST or HOST:PORT as images name it, such "
                            "as docker.io or registry.lan:5000",
                            CAY_OR(host, ""));
    CAY_EACH(it, same)
        if (!strcmp(n.host, *it))
            CAY_COPY(n.host, "docker.io");
    cay__str_join(out, KEY, tenant, "/", n.host, NULL);
    return 0;
}

static bool is_plain_text(const char *s, const char * not )
{
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || strchr(not, *p))
            return false;
    return *s && strlen(s) < 2000;
}

typedef struct others {
    const char *key;
    unsigned n;
} others;

static int on_other(const char *key, const char *value, void *arg)
{
    others *o = arg;
    o->n += strcmp(key, o->key) != 0;
    return 0;
}

static int has_room(cay_client *client, const char *key, cay_err *err)
{
    char prefix[KEY];
    others o = { .key = key };
    CAY_COPY(prefix, key);
    prefix[strcspn(prefix, "/") + 1] = 0;
    CAY_TRY(client->store->note_list(client->db, SPACE, prefix, on_other, &o, err));
    if (o.n < MOST)
        return 0;
    return cay_fail_why(
        err, CAY_EINVAL, "registry_logins_many",
        "a tenant has at most %d log-ins at registries; forget one that is not needed", MOST);
}

int cay_registry_login(cay_client *client, const char *tenant, const char *host, const char *user,
                       const char *password, cay_err *err)
{
    char key[KEY], login[4100];
    if (client->remote) {
        cay__registry_login body = { CAY_OR(user, ""), CAY_OR(password, "") };
        return cay__remote_do(
            client->remote, NULL,
            &CAY__REQUEST(registry_put, .path = { host }, .query = &tenant, .body = &body), err);
    }
    CAY_TRY(key_of(tenant, host, key, err));
    if (!user || !password || !is_plain_text(user, ":") || !is_plain_text(password, ""))
        return cay_fail_why(
            err, CAY_EINVAL, "registry_auth",
            "a log-in has a user without ':' and a password, each one line of 1 to 2000 bytes");
    CAY_TRY(has_room(client, key, err));
    CAY_JOIN(login, user, ":", password);
    int rc = cay__vault_put(client, SPACE, key, login, strlen(login), err);
    explicit_bzero(login, sizeof login);
    return cay_wrap(err, rc, "log-in at %.100s", host);
}

static int on_ignored_note(const char *value, void *arg)
{
    return 0;
}

int cay_registry_logout(cay_client *client, const char *tenant, const char *host, cay_err *err)
{
    char key[KEY];
    if (client->remote)
        return cay__remote_do(client->remote, NULL,
                              &CAY__REQUEST(registry_delete, .path = { host }, .query = &tenant),
                              err);
    CAY_TRY(key_of(tenant, host, key, err));
    int rc = client->store->note_get(client->db, SPACE, key, on_ignored_note, NULL, NULL);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_ENOENT, "registry_no_login", "there is no log-in at %.100s",
                            host);
    return client->store->note_put(client->db, SPACE, key, NULL, err);
}

typedef struct listing {
    int (*fn)(const char *tenant, const char *host, int64_t changed_ms, void *arg);
    void *arg;
} listing;

static int on_note(const char *key, const char *value, void *arg)
{
    listing *l = arg;
    CAY_AUTOJSON *o = NULL;
    char tenant[CAY_TENANT_MAX + 1];
    const char *slash = strchr(key, '/');
    if (!slash || (size_t)(slash - key) >= sizeof tenant)
        return 0;
    memcpy(tenant, key, (size_t)(slash - key));
    tenant[slash - key] = 0;
    int64_t when = 0;
    if (cay__json_object("log-in", value, &o, NULL) == 0)
        when = cay__json_int(o, "changed_ms", 0);
    return l->fn(tenant, slash + 1, when, l->arg);
}

static int on_remote_login(const cay__registry_told *t, void *arg)
{
    const listing *l = arg;
    return l->fn(t->tenant, t->registry, t->changed_ms, l->arg);
}

int cay_registry_logins(cay_client *client, const char *tenant,
                        int (*fn)(const char *tenant, const char *host, int64_t changed_ms,
                                  void *arg),
                        void *arg, cay_err *err)
{
    char prefix[CAY_TENANT_MAX + 2] = "";
    listing l = { fn, arg };
    if (client->remote)
        return CAY__REMOTE_EACH(cay__registry_told, client->remote, NULL,
                                CAY__REQUEST(registry_list, .query = &tenant), on_remote_login, &l,
                                err);
    if (tenant) {
        CAY_TRY(cay__tenant_check(tenant, err));
        CAY_JOIN(prefix, tenant, "/");
    }
    return client->store->note_list(client->db, SPACE, prefix, on_note, &l, err);
}

int cay__reg_login_of(cay_client *client, const char *tenant, const char *host, char **out,
                      cay_err *err)
{
    char key[KEY];
    cay__value v = { 0 };
    CAY_TRY(key_of(tenant, host, key, err));
    if (client->store->note_get(client->db, SPACE, key, on_ignored_note, NULL, NULL) == CAY_ENOENT)
        return 0;
    CAY_TRY(cay__vault_open(client, SPACE, key, &v, err));
    *out = strndup(v.data, v.len);
    cay__value_wipe(&v);
    return 0;
}

static int on_forget_note(const char *key, const char *value, void *arg)
{
    cay_client *client = arg;
    return client->store->note_put(client->db, SPACE, key, NULL, NULL);
}

void cay__reg_logins_forget(cay_client *client, const char *tenant)
{
    char prefix[CAY_TENANT_MAX + 2];
    if (CAY_JOIN(prefix, tenant, "/"))
        client->store->note_list(client->db, SPACE, prefix, on_forget_note, client, NULL);
}
