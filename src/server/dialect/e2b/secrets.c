/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets: values go into the client's store and are never told; what else there is of one is a
 * note. Here a secret's id is its name. */
#include "e2b.h"

#define SPACE        "e2b-secret" /* {"name", "version", "created", "metadata"} */
#define METADATA_MAX 32
#define METADATA_LEN 8192

/* Names here may have dashes, dots and a digit first, those of the store not: such a one is kept
 * under another, which its note tells. */
const char *e2b_secret_stored(cay__arena *mem, const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t n = strlen(name);
    bool odd = strspn(name, plain) != n || (*name >= '0' && *name <= '9');
    char text[80];
    if (!n || n > 48)
        return NULL;
    for (const char *c = name; *c; c++)
        if (!strchr(plain, *c) && *c != '-' && *c != '.')
            return NULL;
    CAY_FORMAT(text, odd ? "E2BS_%s_%08X" : "%s", name, cay__hash(name, n));
    for (char *c = text; *c; c++) {
        if (*c == '-' || *c == '.')
            *c = '_';
    }
    return cay__arena_str(mem, text);
}

static int stored_name(cay__req *r, const char *name, const char **out, cay_err *err)
{
    *out = e2b_secret_stored(&r->arena, name);
    if (*out)
        return 0;
    return cay_fail(err, CAY_EINVAL,
                    "a secret's name has 1 to 48 letters, digits, '_', '-' and '.'");
}

typedef struct found {
    const char *name;
    int64_t changed_ms;
    bool there;
} found;

static int on_find_secret(const char *name, int64_t changed_ms, void *arg)
{
    found *f = arg;
    if (strcmp(name, f->name))
        return 0;
    f->there = true;
    f->changed_ms = changed_ms;
    return 1;
}

static json_t *secret_json(cay__req *r, const char *name, int64_t changed_ms)
{
    const json_t *note = e2b_note_get(r, SPACE, name); /* none of what was made by another way */
    char made[32], changed[32];
    json_t *metadata = json_object_get(note, "metadata");
    name = cay__json_str(note, "name", name);
    return json_pack("{s:s,s:s,s:I,s:o,s:s,s:s}", "secretID", name, "name", name, "currentVersion",
                     (json_int_t)cay__json_int(note, "version", 1), "metadata",
                     json_is_object(metadata) ? json_incref(metadata) : json_object(), "createdAt",
                     e2b_when(cay__json_int(note, "created", changed_ms), made), "updatedAt",
                     e2b_when(changed_ms, changed));
}

static int find_secret(cay__req *r, const char *name, found *out, cay_err *err)
{
    *out = (found){ .name = name };
    CAY_TRY(cay_secret_list(r->client, on_find_secret, out, err));
    if (out->there)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "secret_not_found", "secret %.60s not found", name);
}

static int check_metadata(const json_t *m, cay_err *err)
{
    const char *key;
    json_t *v;
    size_t len = 0;
    if (!m || json_is_null(m))
        return 0;
    if (!json_is_object(m) || json_object_size(m) > METADATA_MAX)
        return cay_fail(err, CAY_EINVAL, "metadata is an object of at most %d texts", METADATA_MAX);
    json_object_foreach((json_t *)m, key, v) {
        if (!json_is_string(v))
            return cay_fail(err, CAY_EINVAL, "metadata.%.60s is not a text", key);
        len += strlen(key) + json_string_length(v);
    }
    if (len <= METADATA_LEN)
        return 0;
    return cay_fail(err, CAY_EINVAL, "metadata has at most %d bytes", METADATA_LEN);
}

static int store_secret(cay__req *r, const char *name, const char *stored, const json_t *in,
                        int64_t version, int64_t created, json_t *metadata, cay_err *err)
{
    const json_t *v = json_object_get(in, "value");
    if (!json_is_string(v) || !json_string_length(v))
        return cay_fail(err, CAY_EINVAL, "value is a text that is not empty");
    CAY_TRY(check_metadata(metadata, err));
    CAY_AUTOJSON *note =
        json_pack("{s:s,s:I,s:I,s:O*}", "name", name, "version", (json_int_t)version, "created",
                  (json_int_t)created, "metadata", metadata);
    CAY_AUTOFREE char *text = cay__json_text(note, 60000);
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "metadata is too long");
    cay__req_about(r, name);
    CAY_TRY(cay_secret_put(r->client, stored, json_string_value(v), json_string_length(v), err));
    return cay_note_put(r->client, SPACE, stored, text, err);
}

int e2b_on_secret_create(cay__req *r, cay_err *err)
{
    json_t *in;
    found f;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const char *name = cay__json_str(in, "name", ""), *stored;
    CAY_TRY(stored_name(r, name, &stored, err));
    int rc = find_secret(r, stored, &f, err);
    if (rc == 0)
        return cay_fail_why(err, CAY_EEXIST, "secret_exists", "secret %.60s exists already", name);
    if (rc != CAY_ENOENT)
        return rc;
    CAY_TRY(store_secret(r, name, stored, in, 1, cay__clock_ms(), json_object_get(in, "metadata"),
                         err));
    return cay__reply_json(r, 201, secret_json(r, stored, cay__clock_ms()));
}

int e2b_on_secret_update(cay__req *r, cay_err *err)
{
    json_t *in;
    found f;
    const char *stored;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(stored_name(r, r->param[0], &stored, err));
    CAY_TRY(find_secret(r, stored, &f, err));
    const json_t *note = e2b_note_get(r, SPACE, stored);
    json_t *metadata = json_object_get(in, "metadata");
    CAY_TRY(store_secret(r, r->param[0], stored, in, cay__json_int(note, "version", 1) + 1,
                         cay__json_int(note, "created", f.changed_ms),
                         CAY_OR(metadata, json_object_get(note, "metadata")), err));
    return cay__reply_json(r, 200, secret_json(r, stored, cay__clock_ms()));
}

int e2b_on_secret(cay__req *r, cay_err *err)
{
    found f;
    const char *stored;
    CAY_TRY(stored_name(r, r->param[0], &stored, err));
    CAY_TRY(find_secret(r, stored, &f, err));
    return cay__reply_json(r, 200, secret_json(r, stored, f.changed_ms));
}

int e2b_on_secret_delete(cay__req *r, cay_err *err)
{
    const char *stored;
    CAY_TRY(stored_name(r, r->param[0], &stored, err));
    CAY_TRY(cay_secret_remove(r->client, stored, err));
    cay_note_put(r->client, SPACE, stored, NULL, NULL);
    return cay__reply_empty(r, 204);
}

typedef struct page {
    const char **name;
    int64_t *changed;
    size_t n, cap;
    cay__arena *mem;
} page;

static int on_list_secret(const char *name, int64_t changed_ms, void *arg)
{
    page *p = arg;
    if (p->n == p->cap || cay__str_starts(name, "E2B_BOX_")) /* those are of network.rules */
        return 0;
    p->name[p->n] = cay__arena_str(p->mem, name);
    p->changed[p->n++] = changed_ms;
    return 0;
}

/* By name; the token of the next page is the last name told. */
int e2b_on_secrets(cay__req *r, cay_err *err)
{
    enum { MAX = 10000 };
    uint64_t limit;
    const char *after = cay__req_query(r, "nextToken"), *last = NULL;
    CAY_AUTOJSON *list = json_array();
    CAY_TRY(e2b_limit(r, &limit, err));
    page p = { .name = cay__arena_take(&r->arena, MAX * sizeof *p.name),
               .changed = cay__arena_take(&r->arena, MAX * sizeof *p.changed),
               .cap = MAX,
               .mem = &r->arena };
    CAY_TRY(cay_secret_list(r->client, on_list_secret, &p, err));
    for (size_t i = 0; i < p.n; i++) {
        if (after && *after && strcmp(p.name[i], after) <= 0)
            continue;
        if (json_array_size(list) == limit) {
            cay__reply_field(r, "x-next-token", last);
            break;
        }
        json_array_append_new(list, secret_json(r, last = p.name[i], p.changed[i]));
    }
    return cay__reply_json(r, 200, json_incref(list));
}
