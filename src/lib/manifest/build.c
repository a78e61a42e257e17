/* SPDX-License-Identifier: Apache-2.0 */
/* Builders: each makes the JSON that a text would have had and gives it to the same reader. */
#include "manifest.h"
#include <base/base64.h>

static void set_text(json_t *o, const char *key, const char *value)
{
    if (value)
        json_object_set_new(o, key, json_string(value));
}

static void put_list(json_t *o, const char *key, const char *const *list)
{
    json_t *a = NULL;
    if (list)
        a = json_array();
    for (; a && *list; list++)
        json_array_append_new(a, json_string(*list));
    if (a)
        json_object_set_new(o, key, a);
}

/* Takes o over. Whatever is not UTF-8 was lost on the way here, and its field with it: the reader
 * says that it is missing. */
static int add_entry(cay_manifest *m, const char *path, json_t *o, const cay_entry *given,
                     cay_err *err)
{
    CAY_AUTOJSON *own __attribute__((unused)) = o;
    cay_entry all, *e = CAY_IF(given, &all);
    CAY_TRY(cay__spec_take(&all, sizeof all, given, "cay_entry", err));
    if (e) {
        set_text(o, "description", e->description);
        set_text(o, "group", e->group);
        set_text(o, "permissions", e->permissions);
        json_object_set_new(o, "ephemeral", json_boolean(e->ephemeral));
    }
    CAY_TRY(cay__entry_read(m, "", SIZE_MAX, path, o, err));
    return 0;
}

static json_t *make_entry(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

int cay_manifest_file(cay_manifest *m, const char *path, const void *data, size_t len,
                      const cay_entry *e, cay_err *err)
{
    json_t *o = make_entry("file"), *text = json_stringn(CAY_OR(data, ""), len);
    bool raw = !text;
    json_object_set_new(o, "content", CAY_OR(text, json_string("")));
    CAY_TRY(add_entry(m, path, o, e, err));
    if (raw) { /* bytes that are no text go around JSON, and leave as base64 */
        cay__entry *last = &m->entries[m->n - 1];
        unsigned char *copy = cay__arena_take(&m->mem, len + 1);
        CAY_AUTOBUF b = CAY__BUF(len / 3 * 4 + 8);
        memcpy(copy, data, len);
        cay__base64_put(&b, copy, len);
        json_object_del(last->fields, "content");
        json_object_set_new(last->fields, "content_base64", json_string(CAY_OR(b.data, "")));
        last->data = copy;
        last->len = len;
    }
    return 0;
}

int cay_manifest_dir(cay_manifest *m, const char *path, const cay_entry *e, cay_err *err)
{
    return add_entry(m, path, make_entry("dir"), e, err);
}

int cay_manifest_local_file(cay_manifest *m, const char *path, const char *src, const cay_entry *e,
                            cay_err *err)
{
    json_t *o = make_entry("local_file");
    set_text(o, "src", src);
    return add_entry(m, path, o, e, err);
}

int cay_manifest_local_dir(cay_manifest *m, const char *path, const cay_local_dir *given,
                           const cay_entry *e, cay_err *err)
{
    cay_local_dir s;
    CAY_TRY(cay__spec_take(&s, sizeof s, given, "cay_local_dir", err));
    json_t *o = make_entry("local_dir");
    set_text(o, "src", s.src);
    set_text(o, "ignore_file", s.ignore_file);
    put_list(o, "exclude", s.exclude);
    return add_entry(m, path, o, e, err);
}

int cay_manifest_git_repo(cay_manifest *m, const char *path, const cay_git_repo *given,
                          const cay_entry *e, cay_err *err)
{
    cay_git_repo own, *s = &own;
    CAY_TRY(cay__spec_take(&own, sizeof own, given, "cay_git_repo", err));
    json_t *o = make_entry("git_repo");
    set_text(o, "repo", s->repo);
    set_text(o, "host", s->host);
    set_text(o, "ref", s->ref);
    set_text(o, "subpath", s->subpath);
    set_text(o, "credentials", s->credentials);
    put_list(o, "sparse_checkout", s->sparse);
    if (s->whole || s->depth)
        json_object_set_new(o, "depth", json_integer(s->whole ? 0 : s->depth));
    return add_entry(m, path, o, e, err);
}

static int add_remote(cay_manifest *m, const char *path, const char *type, const cay_remote *given,
                      const cay_entry *e, cay_err *err)
{
    cay_remote own, *s = &own;
    CAY_TRY(cay__spec_take(&own, sizeof own, given, "cay_remote", err));
    json_t *o = make_entry(type), *headers = CAY_IF(s->headers && s->headers->key, json_object());
    set_text(o, "url", s->url);
    set_text(o, "sha256", s->sha256);
    set_text(o, "format", s->format);
    if (s->max_bytes)
        json_object_set_new(o, "max_bytes", json_integer((json_int_t)s->max_bytes));
    for (const cay_pair *p = s->headers; headers && p->key; p++)
        json_object_set_new(headers, p->key, json_string(p->value));
    if (headers)
        json_object_set_new(o, "headers", headers);
    return add_entry(m, path, o, e, err);
}

int cay_manifest_remote_file(cay_manifest *m, const char *path, const cay_remote *s,
                             const cay_entry *e, cay_err *err)
{
    return add_remote(m, path, "remote_file", s, e, err);
}

int cay_manifest_remote_dir(cay_manifest *m, const char *path, const cay_remote *s,
                            const cay_entry *e, cay_err *err)
{
    return add_remote(m, path, "remote_dir", s, e, err);
}

int cay_manifest_bind(cay_manifest *m, const char *path, const char *source, bool rw, cay_err *err)
{
    json_t *o = json_pack("{s:s,s:{s:s},s:b}", "type", "mount", "mount_strategy", "type",
                          "local_bind", "read_only", !rw);
    set_text(o, "source", source);
    return add_entry(m, path, o, NULL, err);
}

int cay_manifest_mount(cay_manifest *m, const char *path, const char *type, const char *fields,
                       cay_err *err)
{
    json_t *o = NULL;
    CAY_TRY(cay__json_object("fields of a mount", fields, &o, err));
    set_text(o, "type", type);
    return add_entry(m, path, o, NULL, err);
}

int cay_manifest_entry(cay_manifest *m, const char *path, const char *json, cay_err *err)
{
    json_t *o = NULL;
    CAY_TRY(cay__json_object("entry", json, &o, err));
    return add_entry(m, path, o, NULL, err);
}

int cay_manifest_env(cay_manifest *m, const char *name, const char *value, const char *source,
                     bool ephemeral, cay_err *err)
{
    CAY_AUTOJSON *o = json_pack("{s:b}", "ephemeral", ephemeral);
    if (source)
        json_object_set_new(o, "value", json_pack("{s:s,s:s}", "type", "ref", "source", source));
    else
        set_text(o, "value", value);
    return cay__env_read(m, name, o, err);
}

int cay_manifest_user(cay_manifest *m, const char *name, cay_err *err)
{
    return cay__user_add(m, name, err);
}

int cay_manifest_group(cay_manifest *m, const char *name, const char *const *users, cay_err *err)
{
    CAY_AUTOJSON *o = json_object();
    set_text(o, "name", name);
    put_list(o, "users", users);
    return cay__group_read(m, o, err);
}

int cay_manifest_set_root(cay_manifest *m, const char *root, cay_err *err)
{
    return cay__root_set(m, root, err);
}

static int set_top(cay_manifest *m, json_t *o, cay_err *err)
{
    CAY_AUTOJSON *own = o;
    return cay__top_read(m, own, err);
}

int cay_manifest_set_run_as(cay_manifest *m, const char *user, cay_err *err)
{
    json_t *o = json_object();
    set_text(o, "run_as", user);
    return set_top(m, o, err);
}

int cay_manifest_set_policy(cay_manifest *m, const char *text, cay_err *err)
{
    json_t *o = json_object();
    set_text(o, "policy", text);
    return set_top(m, o, err);
}

int cay_manifest_set_services(cay_manifest *m, const char *json, cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    CAY_TRY(cay__json_any("services", json, &j, err));
    return set_top(m, json_pack("{s:O}", "services", j), err);
}

int cay_manifest_set_sudo(cay_manifest *m, bool on, cay_err *err)
{
    return set_top(m, json_pack("{s:b}", "sudo", on), err);
}

static json_t *limit_or_null(unsigned limit)
{
    if (limit)
        return json_integer(limit);
    return json_null();
}

int cay_manifest_set_limits(cay_manifest *m, unsigned entries, unsigned files, cay_err *err)
{
    return set_top(m,
                   json_pack("{s:{s:o,s:o}}", "concurrency_limits", "manifest_entries",
                             limit_or_null(entries), "local_dir_files", limit_or_null(files)),
                   err);
}

int cay_manifest_path_grant(cay_manifest *m, const char *path, const char *host_path,
                            bool read_only, cay_err *err)
{
    CAY_AUTOJSON *o = json_pack("{s:b}", "read_only", read_only);
    set_text(o, "path", path);
    set_text(o, "host_path", host_path);
    return cay__grant_read(m, o, err);
}
