/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives sandboxes and belongs to the client: volumes, secrets, templates. */
#include "native.h"
#include <base/base.h>
#include <cay/policy.h>
#include <cay/volume.h>

int cay__native_shared(const cay__req *r, const char *what, cay_err *err)
{
    if (r->who.scope == CAY__SCOPE_ADMIN ||
        (r->who.scope == CAY__SCOPE_TENANT && !strcmp(r->who.tenant, "default")))
        return 0;
    return cay_fail_why(
        err, CAY_EPERM, "admin_only",
        "%s are the service's; this needs a key of scope admin, or of tenant default", what);
}

static const cay__field volume_fields[] = {
    { "name", CAY__F_STR, offsetof(cay_volume, name) },
    { "provider", CAY__F_STR, offsetof(cay_volume, provider) },
    { "limit", CAY__F_U64, offsetof(cay_volume, limit), .about = "bytes; 0: none" },
    { "quota", CAY__F_STR, offsetof(cay_volume, quota), .about = "on, soft or none" },
    { "used", CAY__F_U64, offsetof(cay_volume, used) },
    { "inodes", CAY__F_U64, offsetof(cay_volume, inodes) },
    { "created_ms", CAY__F_I64, offsetof(cay_volume, created_ms) },
    { "users", CAY__F_STRS, offsetof(cay_volume, users), .about = "the sandboxes that have it" },
};
static const cay__shape volume_shape =
    CAY__SHAPE("Volume", cay_volume, volume_fields, "a directory that outlives sandboxes");

static int reply_volume(cay__req *r, int status, const char *name, cay_err *err)
{
    cay_volume *v = NULL;
    CAY_TRY(cay_volume_find(r->client, &r->call, name, &v, err));
    int rc = cay__reply_shape(r, status, &volume_shape, v);
    cay_volume_free(v);
    return rc;
}

static const cay__field spec_fields[] = {
    { "name", CAY__F_STR, offsetof(cay_volume_spec, name), CAY__F_REQUIRED,
      .max = CAY_VOLUME_NAME },
    { "provider", CAY__F_STR, offsetof(cay_volume_spec, provider) },
    { "limit", CAY__F_U64, offsetof(cay_volume_spec, limit), .max = 1ull << 60,
      .about = "bytes; 0: none" },
    { "hard", CAY__F_BOOL, offsetof(cay_volume_spec, hard),
      .about = "the kernel has to hold the limit" },
};
static const cay__shape spec_shape =
    CAY__SHAPE("VolumeSpec", cay_volume_spec, spec_fields, "a volume to be made");

const cay__doc cay__doc_volume_create = { "createVolume", "volumes", "make one",
                                          .body = &spec_shape,
                                          .answers = { { 201, &volume_shape }, { 400 }, { 409 } } };
int cay__on_volume_create(cay__req *r, cay_err *err)
{
    cay_volume_spec spec = { .size = sizeof spec };
    CAY_TRY(cay__native_shared(r, "volumes", err));
    CAY_TRY(cay__req_shape(r, &spec_shape, &spec, err));
    spec.once = cay__req_once_of(r);
    CAY_TRY(cay_volume_create(r->client, &r->call, &spec, err));
    return reply_volume(r, 201, spec.name, err);
}

static int on_volume(const cay_volume *v, void *arg)
{
    return cay__items_add(arg, v);
}

const cay__doc cay__doc_volume_list = { "listVolumes", "volumes", "those there are",
                                        .answers = { { 200, &volume_shape, .list = true } } };
int cay__on_volume_list(cay__req *r, cay_err *err)
{
    cay__items l;
    CAY_TRY(cay__native_shared(r, "volumes", err));
    cay__items_begin(&l, r, &volume_shape);
    int rc = cay_volume_list(r->client, &r->call, on_volume, &l, err);
    if (rc < 0) {
        cay__items_drop(&l);
        return rc;
    }
    return cay__items_reply(&l, 200, err);
}

const cay__doc cay__doc_volume_get = { "getVolume", "volumes",
                                       "one, with what it holds and who has it",
                                       .answers = { { 200, &volume_shape }, { 400 }, { 404 } } };
int cay__on_volume_get(cay__req *r, cay_err *err)
{
    CAY_TRY(cay__native_shared(r, "volumes", err));
    return reply_volume(r, 200, r->param[0], err);
}

const cay__doc cay__doc_volume_delete = { "deleteVolume", "volumes",
                                          "remove one with all that is in it",
                                          .answers = { { 204 }, { 400 }, { 404 }, { 503 } } };
int cay__on_volume_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay__native_shared(r, "volumes", err));
    CAY_TRY(cay_volume_remove(r->client, &r->call, r->param[0], err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

/* secrets: they go in and are
 * never told */

typedef struct secret_body {
    const char *value, *base64;
    size_t base64_len;
} secret_body;
static const cay__field value_fields[] = {
    { "value", CAY__F_STR, offsetof(secret_body, value), .max = 65536 },
    { "value_base64", CAY__F_BASE64, offsetof(secret_body, base64),
      .count = offsetof(secret_body, base64_len) },
};
static const cay__shape value_shape =
    CAY__SHAPE("SecretValue", secret_body, value_fields, "one of the two");

const cay__doc cay__doc_secret_put = { "putSecret", "secrets",
                                       "keep a secret, or another value of it",
                                       .body = &value_shape, .answers = { { 204 }, { 400 } } };
int cay__on_secret_put(cay__req *r, cay_err *err)
{
    secret_body b = { 0 };
    CAY_TRY(cay__native_shared(r, "secrets", err));
    CAY_TRY(cay__req_shape(r, &value_shape, &b, err));
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
    return cay__reply(r, 204, NULL, NULL, 0);
}

typedef struct secret {
    const char *name;
    int64_t changed_ms;
} secret;
static const cay__field secret_fields[] = {
    { "name", CAY__F_STR, offsetof(secret, name) },
    { "changed_ms", CAY__F_I64, offsetof(secret, changed_ms) },
};
static const cay__shape secret_shape =
    CAY__SHAPE("Secret", secret, secret_fields, "that there is one; its value is never told");

static int on_secret(const char *name, int64_t changed_ms, void *arg)
{
    return cay__items_add(arg, &(secret){ name, changed_ms });
}

const cay__doc cay__doc_secret_list = { "listSecrets", "secrets", "their names",
                                        .answers = { { 200, &secret_shape, .list = true } } };
int cay__on_secret_list(cay__req *r, cay_err *err)
{
    cay__items l;
    CAY_TRY(cay__native_shared(r, "secrets", err));
    cay__items_begin(&l, r, &secret_shape);
    int rc = cay_secret_list(r->client, on_secret, &l, err);
    if (rc < 0) {
        cay__items_drop(&l);
        return rc;
    }
    return cay__items_reply(&l, 200, err);
}

const cay__doc cay__doc_secret_delete = { "deleteSecret", "secrets", "forget one",
                                          .answers = { { 204 }, { 400 }, { 404 } } };
int cay__on_secret_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay__native_shared(r, "secrets", err));
    CAY_TRY(cay_secret_remove(r->client, r->param[0], err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

const cay__doc cay__doc_secret_renew = { "renewSecrets", "secrets",
                                         "read a sandbox's secrets anew from their sources",
                                         .answers = { { 204 }, { 404 }, { 409 } } };
int cay__on_secret_renew(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay_sandbox_renew_secrets(sb, &r->call, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

typedef struct bind_body {
    const cay_secret *secrets;
    size_t n;
    const char *net;
} bind_body;
static const cay__field bind_fields[] = {
    { "secrets", CAY__F_LIST, offsetof(bind_body, secrets), CAY__F_REQUIRED,
      .count = offsetof(bind_body, n), .max = 64, .more = &cay__secret_use_shape,
      .about = "in place of all it has" },
    { "net", CAY__F_JSON, offsetof(bind_body, net),
      .about = "a policy beside them; the rules that hold" },
};
static const cay__shape bind_shape =
    CAY__SHAPE("SecretUses", bind_body, bind_fields, "other secrets for a sandbox");

const cay__doc cay__doc_secret_bind = {
    "bindSecrets", "secrets",
    "other secrets in place of all that a sandbox has, from its next request on",
    .body = &bind_shape, .answers = { { 204 }, { 400 }, { 403 }, { 404 } }
};
int cay__on_secret_bind(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    bind_body b = { 0 };
    CAY_AUTOFREE char *net = NULL;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    /* A key of one sandbox opens that sandbox, not what its owner keeps for others to use unseen.
     */
    CAY_TRY(cay__native_shared(r, "secrets", err));
    CAY_TRY(cay__req_shape(r, &bind_shape, &b, err));
    CAY_TRY(cay__native_sources(r, b.secrets, b.n, err));
    if (b.net)
        CAY_TRY(cay_policy_from_json(b.net, &net, err));
    CAY_TRY(cay_sandbox_set_secrets(sb, &r->call, net, b.secrets, b.n, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}
