/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical form, as one SDK spells it; what is secret or ephemeral stays out and is marked. */
#include "manifest.h"

/* json_string(NULL) is NULL, and a member whose value is NULL is not set. */

static json_t *mode_json(uint32_t mode, bool dir)
{
    static const char letters[] = "rwxrwxrwx";
    char text[10] = "---------";
    if (!(mode & 07000))
        return json_pack("{s:i,s:i,s:i,s:b}", "owner", mode >> 6 & 7, "group", mode >> 3 & 7,
                         "other", mode & 7, "directory", dir);
    for (int i = 0; i < 9; i++)
        if (mode >> (8 - i) & 1)
            text[i] = letters[i];
    for (int k = 0; k < 3; k++)
        if (mode >> (11 - k) & 1) {
            bool x = text[3 * k + 2] == 'x';
            if (k == 2) {
                if (x)
                    text[3 * k + 2] = 't';
                else
                    text[3 * k + 2] = 'T';
            } else if (x)
                text[3 * k + 2] = 's';
            else
                text[3 * k + 2] = 'S';
        }
    return json_string(text);
}

/* A header's value is a secret unless it is a reference to one. */
static json_t *headers_json(const json_t *headers, bool secrets, bool *left_out)
{
    json_t *o = json_object(), *v;
    const char *name;
    json_object_foreach((json_t *)headers, name, v) {
        const char *s = json_string_value(v);
        bool reference = !s || cay__str_starts(s, "env:") || cay__str_starts(s, "file:") ||
                         cay__str_starts(s, "cmd:") || cay__str_starts(s, "store:");
        if (secrets || reference)
            json_object_set(o, name, v);
        else
            *left_out = true;
    }
    return o;
}

static void write_own(json_t *o, const cay__entry *e, bool secrets)
{
    bool left_out = e->redacted;
    for (const cay__entry_field *f = e->kind->fields; f->name; f++) {
        json_t *v = json_object_get(e->fields, f->name);
        if (!v)
            continue;
        if (!strcmp(f->name, "headers"))
            json_object_set_new(o, f->name, headers_json(v, secrets, &left_out));
        else if (f->flags & CAY__HIDDEN && json_is_string(v) && !secrets)
            left_out = true;
        else
            json_object_set(o, f->name, v);
    }
    if (left_out)
        json_object_set_new(o, "redacted", json_true());
}

json_t *cay__entry_json(const cay_manifest *m, size_t at, bool secrets)
{
    const cay__entry *e = &m->entries[at];
    json_t *o = json_pack("{s:s}", "type", e->kind->name), *children = NULL;
    json_object_set_new(o, "description", json_string(e->description));
    if (e->ephemeral != cay__is_mount(e))
        json_object_set_new(o, "ephemeral", json_boolean(e->ephemeral));
    if (e->group)
        json_object_set_new(o, "group", json_pack("{s:s}", "name", e->group));
    if (e->has_mode)
        json_object_set_new(o, "permissions", mode_json(e->mode, e->kind->dir));
    write_own(o, e, secrets);
    for (size_t i = at + 1; i < m->n && m->entries[i].depth > e->depth; i++)
        if (m->entries[i].up == at) {
            children = CAY_OR(children, json_object());
            json_object_set_new(children, m->entries[i].path + strlen(e->path) + 1,
                                cay__entry_json(m, i, secrets));
        }
    if (children)
        json_object_set_new(o, "children", children);
    return o;
}

static json_t *env_json(const cay__env *v, bool secrets)
{
    bool hide = v->ephemeral && !secrets;
    json_t *value;
    if (v->source)
        value = json_pack("{s:s,s:s}", "type", "ref", "source", v->source);
    else if (v->value && !hide)
        value = json_string(v->value);
    else
        value = NULL;
    if (value && !v->ephemeral && !v->description)
        return value;
    json_t *o = json_object();
    json_object_set_new(o, "description", json_string(v->description));
    if (v->ephemeral)
        json_object_set_new(o, "ephemeral", json_true());
    if (value)
        json_object_set_new(o, "value", value);
    else
        json_object_set_new(o, "redacted", json_true());
    return o;
}

static json_t *names_json(const char *const *names, size_t n)
{
    json_t *a = json_array();
    CAY_EACH_OF(name, names, n)
        json_array_append_new(a, json_pack("{s:s}", "name", *name));
    return a;
}

static json_t *texts_json(const char *const *list, size_t n)
{
    json_t *a = json_array();
    CAY_EACH_OF(it, list, n)
        json_array_append_new(a, json_string(*it));
    return a;
}

static void write_accounts(json_t *o, const cay_manifest *m)
{
    if (m->nusers)
        json_object_set_new(o, "users", names_json(m->users, m->nusers));
    if (m->ngroups) {
        json_t *a = json_array();
        CAY_EACH_OF(group, m->groups, m->ngroups)
            json_array_append_new(a, json_pack("{s:s,s:o}", "name", group->name, "users",
                                               names_json(group->users, group->n)));
        json_object_set_new(o, "groups", a);
    }
    json_object_set_new(o, "run_as", json_string(m->run_as));
}

static void write_grants(json_t *o, const cay_manifest *m)
{
    json_t *a = NULL;
    if (m->ngrants)
        a = json_array();
    CAY_EACH_OF(g, m->grants, m->ngrants) {
        json_t *one = json_pack("{s:s,s:b}", "path", g->path, "read_only", g->read_only);
        if (g->host_path)
            json_object_set_new(one, "host_path", json_string(g->host_path));
        if (g->description)
            json_object_set_new(one, "description", json_string(g->description));
        json_array_append_new(a, one);
    }
    if (a)
        json_object_set_new(o, "extra_path_grants", a);
}

static json_t *limit_json(unsigned n)
{
    if (n)
        return json_integer(n);
    return json_null();
}

static void write_acks(json_t *o, const cay_manifest *m)
{
    if (m->nacks)
        json_object_set_new(o, "acknowledge_credential_exposure", texts_json(m->acks, m->nacks));
}

static json_t *whole_json(const cay_manifest *m, bool secrets, bool files)
{
    json_t *o = json_pack("{s:i,s:s}", "version", 1, "root", m->root), *entries = json_object(),
           *env = json_object();
    for (size_t i = 0; files && i < m->n; i++)
        if (m->entries[i].up == SIZE_MAX)
            json_object_set_new(entries, m->entries[i].path, cay__entry_json(m, i, secrets));
    json_object_set_new(o, "entries", entries);
    CAY_EACH_OF(it, m->env, m->nenv)
        json_object_set_new(env, it->name, env_json(it, secrets));
    json_object_set_new(o, "environment", json_pack("{s:o}", "value", env));
    write_accounts(o, m);
    write_grants(o, m);
    json_object_set_new(o, "policy", json_string(m->policy));
    if (m->services)
        json_object_set(o, "services", m->services);
    if (m->sudo)
        json_object_set_new(o, "sudo", json_true());
    if (m->limit_entries != 4 || m->limit_files != 4)
        json_object_set_new(o, "concurrency_limits",
                            json_pack("{s:o,s:o}", "manifest_entries", limit_json(m->limit_entries),
                                      "local_dir_files", limit_json(m->limit_files)));
    if (m->npersist)
        json_object_set_new(o, "extra_persisted_roots", texts_json(m->persist, m->npersist));
    if (m->has_allow)
        json_object_set_new(o, "remote_mount_command_allowlist", texts_json(m->allow, m->nallow));
    if (secrets)
        write_acks(o, m);
    return o;
}

json_t *cay__manifest_json(const cay_manifest *m, bool secrets)
{
    return whole_json(m, secrets, true);
}

json_t *cay__manifest_kept(const cay_manifest *m)
{
    json_t *o = whole_json(m, false, true);
    write_acks(o, m);
    return o;
}

json_t *cay__manifest_brief(const cay_manifest *m)
{
    return whole_json(m, false, false);
}

int cay_manifest_to_json(const cay_manifest *m, char **json, cay_err *err)
{
    CAY_AUTOJSON *o = cay__manifest_json(m, false);
    char *text = cay__json_text(o, 4 * (size_t)CAY_MANIFEST_BYTES);
    if (!text)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big", "manifest: its text is too long");
    *json = text;
    return 0;
}
