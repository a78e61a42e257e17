/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes, as the control plane makes and lists them. Here a volume's id is its name. */
#include "e2b.h"

static int volume_json(cay__req *r, const char *name, int status, cay_err *err)
{
    char token[E2B_TOKEN_LEN + 1];
    CAY_TRY(e2b_token(r, "volume", name, token, err));
    return cay__reply_pack(r, status, "{s:s,s:s,s:s,s:o}", "volumeID", name, "name", name, "token",
                           token, "domain", e2b_domain(r));
}

static bool name_valid(const char *s)
{
    size_t n = strlen(s);
    return n && n <= CAY_VOLUME_NAME &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n &&
           *s != '-' && *s != '_';
}

int e2b_on_volume_create(cay__req *r, cay_err *err)
{
    json_t *in;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const char *name = cay__json_str(in, "name", "");
    if (!name_valid(name))
        return cay_fail(
            err, CAY_EINVAL,
            "name has 1 to %d letters, digits, '_' and '-', and begins with a letter or digit",
            CAY_VOLUME_NAME);
    const cay_volume_spec spec = { .size = sizeof spec, .name = name };
    cay__req_about(r, name);
    CAY_TRY(cay_volume_create(r->client, &r->call, &spec, err));
    return volume_json(r, name, 201, err);
}

static int add_volume(const cay_volume *v, void *arg)
{
    json_array_append_new(arg, json_pack("{s:s,s:s}", "volumeID", v->name, "name", v->name));
    return 0;
}

int e2b_on_volumes(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *list = json_array();
    CAY_TRY(cay_volume_list(r->client, &r->call, add_volume, list, err));
    return cay__reply_json(r, 200, json_incref(list));
}

int e2b_on_volume(cay__req *r, cay_err *err)
{
    cay_volume *v;
    CAY_TRY(cay_volume_find(r->client, &r->call, r->param[0], &v, err));
    cay_volume_free(v);
    return volume_json(r, r->param[0], 200, err);
}

int e2b_on_volume_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_volume_remove(r->client, &r->call, r->param[0], err));
    return cay__reply_empty(r, 204);
}
