/* SPDX-License-Identifier: Apache-2.0 */
/* Log-ins at registries: a tenant's own, or of a tenant that an admin names. They go in and are
 * never told. */
#include "native.h"
#include <base/base.h>
#include <cay/template.h>

typedef struct login_body {
    const char *username, *password;
} login_body;
static const cay__field login_fields[] = {
    { "username", CAY__F_STR, offsetof(login_body, username), CAY__F_REQUIRED, .min = 1,
      .max = 2000 },
    { "password", CAY__F_STR, offsetof(login_body, password), CAY__F_REQUIRED, .min = 1,
      .max = 2000, .about = "goes in, and is never told" },
};
static const cay__shape login_shape =
    CAY__SHAPE("RegistryLogin", login_body, login_fields, "who a tenant's pulls are to a registry");

static const cay__query whose_query[] = {
    { "tenant", "string", "whose; another than your own to scope admin" }, { NULL }
};

static const char *get_tenant(cay__req *r)
{
    const char *t = cay__req_tenant(r);
    return CAY_OR(t, r->who.tenant);
}

const cay__doc cay__doc_registry_put = {
    "putRegistryLogin",
    "templates",
    "keep a user and password for pulls from a registry, HOST[:PORT] as images name it",
    .query = whose_query,
    .body = &login_shape,
    .answers = { { 204 }, { 400 } }
};
int cay__on_registry_put(cay__req *r, cay_err *err)
{
    login_body b = { 0 };
    CAY_TRY(cay__req_shape(r, &login_shape, &b, err));
    int rc = cay_registry_login(r->client, get_tenant(r), r->param[0], b.username, b.password, err);
    explicit_bzero((char *)(uintptr_t)b.password, strlen(b.password));
    if (rc < 0)
        return rc;
    return cay__reply(r, 204, NULL, NULL, 0);
}

typedef struct login {
    const char *registry, *tenant;
    int64_t changed_ms;
} login;
static const cay__field seen_fields[] = {
    { "registry", CAY__F_STR, offsetof(login, registry) },
    { "tenant", CAY__F_STR, offsetof(login, tenant) },
    { "changed_ms", CAY__F_I64, offsetof(login, changed_ms) },
};
static const cay__shape seen_shape = CAY__SHAPE(
    "Registry", login, seen_fields, "that there is a log-in; who and what is never told");

static int on_login(const char *tenant, const char *host, int64_t changed_ms, void *arg)
{
    return cay__items_add(arg, &(login){ host, tenant, changed_ms });
}

const cay__doc cay__doc_registry_list = { "listRegistryLogins", "templates",
                                          "registries that there is a log-in for",
                                          .query = whose_query,
                                          .answers = { { 200, &seen_shape, .list = true } } };
int cay__on_registry_list(cay__req *r, cay_err *err)
{
    cay__items l;
    cay__items_begin(&l, r, &seen_shape);
    int rc = cay_registry_logins(r->client, cay__req_tenant(r), on_login, &l, err);
    if (rc < 0)
        cay__items_drop(&l);
    if (rc < 0)
        return rc;
    return cay__items_reply(&l, 200, err);
}

const cay__doc cay__doc_registry_delete = { "deleteRegistryLogin", "templates", "forget one",
                                            .query = whose_query,
                                            .answers = { { 204 }, { 400 }, { 404 } } };
int cay__on_registry_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_registry_logout(r->client, get_tenant(r), r->param[0], err));
    return cay__reply(r, 204, NULL, NULL, 0);
}
