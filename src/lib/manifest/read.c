/* SPDX-License-Identifier: Apache-2.0 */
/* Fields by their tables, and entries with what stands below them. */
#include "manifest.h"
#include <base/mutant.h>
#include <ctype.h>

void *cay__more(void *list, size_t n, size_t one)
{
    if (n & (n - 1)) /* room is a power of two */
        return list;
    list = realloc(list, CAY_OR(2 * n, 1) * one);
    if (!list)
        abort();
    return list;
}

/* "extraPathGrants" is extra_path_grants; what has no capital is left as it is. */
static void make_snake_case(const char *key, char *to, size_t cap)
{
    size_t n = 0;
    for (; *key && n + 2 < cap; key++) {
        if (isupper((unsigned char)*key) && n)
            to[n++] = '_';
        to[n++] = (char)tolower((unsigned char)*key);
    }
    to[n] = 0;
}

int cay__canonical(const char *what, const json_t *obj, json_t **out, cay_err *err)
{
    const char *key;
    json_t *v;
    if (!json_is_object(obj))
        return cay__bad(err, "manifest_invalid", what, "type",
                        "it is not an object; write it as {…}");
    CAY_AUTOJSON *o = json_object();
    json_object_foreach((json_t *)obj, key, v) {
        char name[80];
        make_snake_case(key, name, sizeof name);
        if (json_object_get(o, name))
            return cay__bad(err, "manifest_invalid", what, "duplicate_field",
                            "field %.40s is given twice, as %.40s too", name, key);
        json_object_set(o, name, v);
    }
    *out = CAY_STEAL(o);
    return 0;
}

const char *cay__member(const json_t *obj, const char *key)
{
    return cay__json_str(obj, key, NULL);
}

static bool plain_text(const json_t *v, unsigned flags)
{
    const char *s = json_string_value(v);
    if (!s || (!(flags & CAY__RAW) && strlen(s) != json_string_length(v)))
        return false;
    if (flags & (CAY__EMPTY | CAY__RAW))
        return true;
    for (const char *c = s; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return *s != 0;
}

static bool all_text(const json_t *v)
{
    const char *key;
    json_t *one;
    size_t i;
    if (json_is_array(v)) {
        json_array_foreach(v, i, one)
            if (!plain_text(one, 0))
                return false;
        return true;
    }
    json_object_foreach((json_t *)v, key, one)
        if (!plain_text(one, 0))
            return false;
    return json_is_object(v);
}

static bool is_type_match(const json_t *v, const cay__entry_field *f)
{
    switch (f->type) {
    case CAY__STR: return plain_text(v, f->flags) || (f->flags & CAY__HIDDEN && json_is_object(v));
    case CAY__BOOL: return json_is_boolean(v);
    case CAY__UINT: return json_is_integer(v) && json_integer_value(v) >= 0;
    case CAY__STRS: return json_is_array(v) && all_text(v);
    case CAY__MAP: return json_is_object(v) && all_text(v);
    case CAY__OBJ: return json_is_object(v);
    }
    return false;
}

static int fail_unknown_field(const char *reason, const char *entry, const char *key,
                              const cay__entry_field *fields, cay_err *err)
{
    CAY_AUTOBUF known = CAY__BUF(120);
    for (const cay__entry_field *f = fields; f->name && !known.full; f++)
        cay__buf_fmt(&known, "%s%s", CAY_TEXT_IF(f != fields, ", "), f->name);
    return cay__bad(err, reason, entry, "unknown_field",
                    "field %.40s is not known here; there are %s%s", key,
                    CAY_OR(known.data, "none"), CAY_TEXT_IF(known.full, ", …"));
}

static int check_type(const char *reason, const char *entry, const json_t *v,
                      const cay__entry_field *f, cay_err *err)
{
    static const char *const wants[] = { "text of one line, not empty", "true or false",
                                         "a whole number, 0 or more",   "a list of texts",
                                         "an object of texts",          "an object" };
    if (is_type_match(v, f))
        return 0;
    return cay__bad(err, reason, entry, "field_type", "%s is %s", f->name, wants[f->type]);
}

int cay__fields_check(const char *reason, const char *entry, json_t *obj,
                      const cay__entry_field *fields, cay_err *err)
{
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(obj, next, key, v) {
        const cay__entry_field *f = fields;
        while (f->name && strcmp(f->name, key))
            f++;
        if (!f->name)
            return fail_unknown_field(reason, entry, key, fields, err);
        if (json_is_null(v))
            json_object_del(obj, key);
        else
            CAY_TRY(check_type(reason, entry, v, f, err));
    }
    for (const cay__entry_field *f = fields; f->name; f++)
        if (f->flags & CAY__NEEDED && !json_object_get(obj, f->name))
            return cay__bad(err, reason, entry, "field_missing", "%s is missing", f->name);
    return 0;
}

static uint32_t *find_slot(const cay_manifest *m, const char *path)
{
    size_t at = cay__hash(path, strlen(path)) & (m->nindex - 1);
    while (m->index[at] && strcmp(m->entries[m->index[at] - 1].path, path))
        at = (at + 1) & (m->nindex - 1);
    return &m->index[at];
}

static void index_grow(cay_manifest *m)
{
    if (2 * (m->n + 1) < m->nindex)
        return;
    if (m->nindex)
        m->nindex = 2 * m->nindex;
    else
        m->nindex = 64;
    free(m->index);
    m->index = cay__alloc(m->nindex * sizeof *m->index);
    for (size_t i = 0; i < m->n; i++)
        *find_slot(m, m->entries[i].path) = (uint32_t)i + 1;
}

cay__entry *cay__entry_find(const cay_manifest *m, const char *path)
{
    uint32_t i = 0;
    if (m->nindex)
        i = *find_slot(m, path);
    if (i)
        return &m->entries[i - 1];
    return NULL;
}

static const cay__entry_field common[] = {
    { "type", CAY__STR, 0 },       { "description", CAY__STR, CAY__EMPTY },
    { "ephemeral", CAY__BOOL, 0 }, { "redacted", CAY__BOOL, 0 },
    { "is_dir", CAY__BOOL, 0 },    { NULL },
};

static int read_group(cay_manifest *m, cay__entry *e, const json_t *j, cay_err *err)
{
    const char *name;
    if (json_is_object(j))
        name = cay__member(j, "name");
    else if (plain_text(j, 0))
        name = json_string_value(j);
    else
        name = NULL;
    if (!name)
        return cay__bad_entry(err, e, "group", "group is a name, or an object with one");
    e->group = cay__arena_str(&m->mem, name);
    return 0;
}

static int read_field(cay_manifest *m, cay__entry *e, const cay__entry_field *f, const json_t *v,
                      cay_err *err)
{
    CAY_TRY(check_type("manifest_invalid", e->path, v, f, err));
    if (!strcmp(f->name, "description"))
        e->description = cay__arena_str(&m->mem, json_string_value(v));
    else if (!strcmp(f->name, "ephemeral"))
        e->ephemeral = json_is_true(v);
    else if (!strcmp(f->name, "redacted"))
        e->redacted = json_is_true(v);
    return 0;
}

/* What all kinds share is taken out of o; the rest are the kind's own fields. */
static int read_common(cay_manifest *m, cay__entry *e, json_t *o, cay_err *err)
{
    const char *key;
    json_t *v;
    void *next;
    e->ephemeral = e->kind->id >= CAY__MOUNT;
    json_object_foreach_safe(o, next, key, v) {
        const cay__entry_field *f = common;
        while (f->name && strcmp(f->name, key))
            f++;
        bool group = !strcmp(key, "group"), mode = !strcmp(key, "permissions");
        if (!json_is_null(v)) {
            if (!f->name && !group && !mode)
                continue;
            if (group)
                CAY_TRY(read_group(m, e, v, err));
            else if (mode)
                CAY_TRY(cay__mode_read(e->path, v, &e->mode, err));
            else
                CAY_TRY(read_field(m, e, f, v, err));
            e->has_mode |= mode;
        }
        json_object_del(o, key);
    }
    return 0;
}

static int find_kind(const char *path, const json_t *o, const cay__kind **out, cay_err *err)
{
    const json_t *type = json_object_get(o, "type");
    if (!plain_text(type, 0))
        return cay__bad(err, "manifest_invalid", path, "type_missing",
                        "it has no type; write \"type\": \"file\", for instance");
    if ((*out = cay__kind_find(json_string_value(type))))
        return 0;
    CAY_AUTOBUF known = CAY__BUF(170);
    for (const cay__kind *k = cay__kinds; k->name; k++)
        cay__buf_fmt(&known, "%s%s", CAY_TEXT_IF(k != cay__kinds, ", "), k->name);
    return cay__bad(err, "manifest_invalid", path, "unknown_type",
                    "type %.24s is not known; there are %s", json_string_value(type), known.data);
}

static int read_children(cay_manifest *m, const char *path, size_t at, json_t *children,
                         cay_err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(children, key, v)
        CAY_TRY(cay__entry_read(m, path, at, key, v, err));
    return 0;
}

/* A path names one thing; above it there are directories only. */
static int check_place(cay_manifest *m, const char *path, cay_err *err)
{
    char up[CAY_MANIFEST_PATH];
    if (m->n >= CAY_MANIFEST_ENTRIES)
        return cay__bad(err, "manifest_invalid", path, "too_many",
                        "a manifest has at most %u entries", CAY_MANIFEST_ENTRIES);
    index_grow(m);
    if (cay__entry_find(m, path))
        return cay__bad(err, "invalid_manifest_path", path, "duplicate",
                        "two entries mean this path");
    if (cay__near(&m->near, path))
        return 0;
    CAY_COPY(up, path);
    for (char *slash; (slash = strrchr(up, '/'));) {
        *slash = 0;
        const cay__entry *e = cay__entry_find(m, up);
        if (e && !e->kind->dir)
            return m->near.path = NULL,
                   cay__bad(err, "invalid_manifest_path", path, "not_a_directory",
                            "entry %.60s above it is a %s", up, e->kind->name);
    }
    return 0;
}

/* One's own to take apart: the object itself, unless a name in it has to be turned. */
static int own_fields(const char *path, json_t *j, json_t **out, cay_err *err)
{
    const char *key;
    json_t *v;
    bool turn = !json_is_object(j);
    json_object_foreach(j, key, v)
        for (const char *c = key; *c && !turn; c++)
            turn = isupper((unsigned char)*c);
    if (turn)
        return cay__canonical(path, j, out, err);
    *out = json_incref(j);
    return 0;
}

int cay__entry_read(cay_manifest *m, const char *base, size_t up, const char *key, json_t *j,
                    cay_err *err)
{
    cay__entry e = { .up = up,
                     .mode = 0755,
                     .depth = up == SIZE_MAX ? 1 : m->entries[up].depth + 1 };
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__entry_path(&m->mem, base, key, &e.path, err));
    const char *slash = strrchr(e.path, '/');
    if (slash)
        e.name = slash + 1;
    else
        e.name = e.path;
    if (e.depth > CAY_MANIFEST_DEPTH)
        return cay__bad(err, "manifest_invalid", e.path, "too_deep",
                        "directories stand in each other at most %u deep", CAY_MANIFEST_DEPTH);
    CAY_TRY(own_fields(e.path, j, &o, err));
    CAY_TRY(find_kind(e.path, o, &e.kind, err));
    CAY_TRY(read_common(m, &e, o, err));
    CAY_TRY(cay__fields_check(cay__is_mount(&e) ? "mount_config_invalid" : "manifest_invalid",
                              e.path, o, e.kind->fields, err));
    CAY_TRY(check_place(m, e.path, err));
    e.fields = o;
    int rc = 0;
    if (e.kind->check)
        rc = e.kind->check(m, &e, err);
    CAY_TRY(rc);
    json_t *children = json_object_get(o, "children");
    json_incref(o); /* the list's own */
    if (children)
        json_incref(children);
    CAY_AUTOJSON *below = children;
    json_object_del(o, "children");
    m->entries = cay__more(m->entries, m->n | CAY__MUTANT("fuzz-manifest"), sizeof e);
    m->entries[m->n] = e;
    *find_slot(m, e.path) = (uint32_t)m->n + 1;
    m->n++;
    if (below)
        return read_children(m, e.path, m->n - 1, below, err);
    return 0;
}
