/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest itself: root, environment, accounts, grants, limits; and what can only be judged
 * when all of it is there. */
#include "manifest.h"
#include <cay/policy.h>
#include <ctype.h>

#define LIMIT 4

static int fail_invalid(cay_err *err, const char *word, const char *what, const char *why)
{
    return cay__bad(err, "manifest_invalid", "", word, "%.70s%s%s", what, CAY_TEXT_IF(*what, ": "),
                    why);
}

static const char *copy_text(cay_manifest *m, const char *s)
{
    if (s)
        return cay__arena_str(&m->mem, s);
    return NULL;
}

int cay__root_set(cay_manifest *m, const char *root, cay_err *err)
{
    char *normal = NULL;
    static const char *const kept[] = { "/",    "/proc", "/dev", "/sys",   "/usr", "/etc",
                                        "/bin", "/sbin", "/lib", "/lib64", "/run" };
    if (!root || strstr(root, "..") || !cay__path_normal(root, &normal))
        return fail_invalid(err, "root", "root",
                            "it is an absolute path without \"..\", such as /workspace");
    cay__arena_adopt(&m->mem, normal);
    for (size_t i = 0; i < CAY_LEN(kept); i++)
        if (!strcmp(normal, kept[i]) || (i && cay__path_below(normal, kept[i])))
            return fail_invalid(err, "root", normal, "the system is there; choose another root");
    for (const char *c = normal; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == ':')
            return fail_invalid(err, "root", "root",
                                "it has a character that a path inside may not have");
    m->root = normal;
    return 0;
}

int cay__reference_check(const cay_manifest *m, const char *entry, const char *source, cay_err *err)
{
    static const char *const kinds[] = { "env:", "file:/", "cmd:", "store:" };
    if (!(m->flags & CAY_MANIFEST_TRUSTED))
        return cay__bad(err, "manifest_invalid", entry, "untrusted_reference",
                        "a manifest that is not your own may not refer to variables, files, "
                        "commands or secrets of the host");
    CAY_EACH(kind, kinds)
        if (cay__str_starts(source, *kind) && source[strlen(*kind)] && !strpbrk(source, "\r\n"))
            return 0;
    return cay__bad(err, "manifest_invalid", entry, "reference",
                    "\"%.40s\" is not env:VARIABLE, file:/PATH, cmd:NAME or store:NAME", source);
}

static bool variable_name(const char *s)
{
    if (!*s || isdigit((unsigned char)*s) || strlen(s) > 255)
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

/* A text, {"type":"str","value":…} or {"type":"ref","source":…}. */
static int read_value(cay_manifest *m, cay__env *v, const json_t *j, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    if (json_is_string(j)) {
        if (strlen(json_string_value(j)) != json_string_length(j))
            return fail_invalid(err, "environment", v->name, "its value has a NUL");
        v->value = copy_text(m, json_string_value(j));
        return 0;
    }
    CAY_TRY(cay__canonical("", j, &o, err));
    const char *type = cay__member(o, "type"), *source = cay__member(o, "source");
    if (!type)
        return fail_invalid(err, "type_missing", v->name,
                            "its value has no type; there are str and ref");
    if (!strcmp(type, "str") && json_is_string(json_object_get(o, "value")) &&
        json_object_size(o) == 2)
        return read_value(m, v, json_object_get(o, "value"), err);
    if (!strcmp(type, "ref") && source && json_object_size(o) == 2) {
        CAY_TRY(cay__reference_check(m, v->name, source, err));
        v->source = copy_text(m, source);
        return 0;
    }
    if (strcmp(type, "str") && strcmp(type, "ref"))
        return fail_invalid(err, "unknown_type", v->name,
                            "this type of value is not known; there are str and ref");
    return fail_invalid(
        err, "environment", v->name,
        "write {\"type\":\"str\",\"value\":…} or {\"type\":\"ref\",\"source\":\"env:…\"}");
}

static const cay__entry_field full[] = {
    { "description", CAY__STR, CAY__EMPTY },
    { "ephemeral", CAY__BOOL, 0 },
    { "redacted", CAY__BOOL, 0 },
    { NULL },
};

int cay__env_read(cay_manifest *m, const char *name, const json_t *j, cay_err *err)
{
    cay__env v = { .name = copy_text(m, name) };
    CAY_AUTOJSON *o = NULL;
    if (!variable_name(name))
        return fail_invalid(err, "environment", name,
                            "a variable has letters, digits and '_', and begins with no digit");
    CAY_EACH_OF(it, m->env, m->nenv)
        if (!strcmp(it->name, name))
            return fail_invalid(err, "environment", name, "it is given twice");
    bool whole = json_is_object(j) && !json_object_get(j, "type");
    if (whole) {
        CAY_TRY(cay__canonical("", j, &o, err));
        CAY_AUTOJSON *value = json_incref(json_object_get(o, "value"));
        json_object_del(o, "value");
        CAY_TRY(cay__fields_check("manifest_invalid", "", o, full, err));
        v.description = copy_text(m, cay__member(o, "description"));
        v.ephemeral = cay__json_bool(o, "ephemeral", false);
        if (value && !json_is_null(value))
            CAY_TRY(read_value(m, &v, value, err));
        else if (!cay__json_bool(o, "redacted", false))
            return fail_invalid(err, "environment", name, "it has no value");
    } else
        CAY_TRY(read_value(m, &v, j, err));
    m->env = cay__more(m->env, m->nenv, sizeof v);
    m->env[m->nenv++] = v;
    return 0;
}

/* {"value":{…}} as one SDK writes it, or the plain map of the other. */
static int read_env(cay_manifest *m, const json_t *j, cay_err *err)
{
    const json_t *inner = json_object_get(j, "value");
    const char *name;
    json_t *v;
    if (!json_is_object(j))
        return fail_invalid(err, "field_type", "environment", "it is an object");
    if (json_object_size(j) == 1 && json_is_object(inner) &&
        !json_is_string(json_object_get(inner, "type")))
        j = inner;
    json_object_foreach((json_t *)j, name, v)
        CAY_TRY(cay__env_read(m, name, v, err));
    return 0;
}

static bool account_name(const char *s)
{
    if (!s || !*s || strlen(s) > 32 || !(islower((unsigned char)*s) || *s == '_'))
        return false;
    for (; *s; s++)
        if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '_' && *s != '-')
            return false;
    return true;
}

static const char *name_of(const json_t *j)
{
    if (json_is_object(j))
        return cay__member(j, "name");
    return json_string_value(j);
}

static bool known_user(const cay_manifest *m, const char *name)
{
    CAY_EACH_OF(user, m->users, m->nusers)
        if (!strcmp(*user, name))
            return true;
    return false;
}

int cay__user_add(cay_manifest *m, const char *name, cay_err *err)
{
    if (!account_name(name))
        return fail_invalid(
            err, "account", CAY_OR(name, "users"),
            "a name of a user has a-z, 0-9, '_' and '-', at most 32, and begins with a letter");
    if (!strcmp(name, "root"))
        return fail_invalid(err, "account", name, "this account is the system's");
    if (known_user(m, name))
        return 0;
    m->users = cay__more(m->users, m->nusers, sizeof *m->users);
    m->users[m->nusers++] = copy_text(m, name);
    if (m->nusers <= 1000)
        return 0;
    return fail_invalid(err, "too_many", "users", "at most 1000");
}

int cay__group_read(cay_manifest *m, const json_t *j, cay_err *err)
{
    const char *name = name_of(j);
    const json_t *users = NULL;
    if (json_is_object(j))
        users = json_object_get(j, "users");
    cay__mgroup g = { .name = copy_text(m, name) };
    if (!account_name(name) || !strcmp(name, "root"))
        return fail_invalid(
            err, "account", CAY_OR(name, "groups"),
            "a name of a group has a-z, 0-9, '_' and '-', at most 32, and begins with a letter");
    CAY_EACH_OF(group, m->groups, m->ngroups)
        if (!strcmp(group->name, name))
            return fail_invalid(err, "account", name, "this group is given twice");
    if (users && !json_is_null(users) && !json_is_array(users))
        return fail_invalid(err, "field_type", name, "users of a group are a list");
    g.users = cay__arena_take(&m->mem, (json_array_size(users) + 1) * sizeof *g.users);
    for (size_t i = 0; i < json_array_size(users); i++) {
        CAY_TRY(cay__user_add(m, name_of(json_array_get(users, i)), err));
        g.users[g.n++] = copy_text(m, name_of(json_array_get(users, i)));
    }
    m->groups = cay__more(m->groups, m->ngroups, sizeof g);
    m->groups[m->ngroups++] = g;
    if (m->ngroups <= 1000)
        return 0;
    return fail_invalid(err, "too_many", "groups", "at most 1000");
}

static int read_user(cay_manifest *m, const json_t *j, cay_err *err)
{
    return cay__user_add(m, name_of(j), err);
}

static const cay__entry_field grant_fields[] = {
    { "path", CAY__STR, CAY__NEEDED },
    { "host_path", CAY__STR, 0 },
    { "read_only", CAY__BOOL, 0 },
    { "description", CAY__STR, CAY__EMPTY },
    { NULL },
};

int cay__grant_read(cay_manifest *m, const json_t *j, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    cay__mgrant g = { 0 };
    char *path = NULL, *host = NULL;
    if (!(m->flags & CAY_MANIFEST_TRUSTED))
        return fail_invalid(
            err, "untrusted_grants", "extra_path_grants",
            "a manifest that is not your own may not grant paths; give them with --mount");
    CAY_TRY(cay__canonical("", j, &o, err));
    CAY_TRY(cay__fields_check("manifest_invalid", "", o, grant_fields, err));
    const char *p = cay__member(o, "path"), *h = cay__member(o, "host_path");
    if (!cay__path_normal(p, &path))
        return fail_invalid(err, "grant", p, "a grant's path is absolute");
    g.path = cay__arena_adopt(&m->mem, path);
    if (!strcmp(g.path, "/"))
        return fail_invalid(err, "grant_root", p, "a grant of / would be a grant of everything");
    if (h && (strstr(h, "..") || !cay__path_normal(h, &host)))
        return fail_invalid(err, "grant", h, "host_path is absolute, without \"..\"");
    g.host_path = CAY_IF(host, cay__arena_adopt(&m->mem, host));
    if (host && !strcmp(host, "/"))
        return fail_invalid(err, "grant_root", h, "a grant of / would be a grant of everything");
    g.read_only = cay__json_bool(o, "read_only", false);
    g.description = copy_text(m, cay__member(o, "description"));
    m->grants = cay__more(m->grants, m->ngrants, sizeof g);
    m->grants[m->ngrants++] = g;
    if (m->ngrants <= 64)
        return 0;
    return fail_invalid(err, "too_many", "extra_path_grants", "at most 64");
}

static int read_texts(cay_manifest *m, const char *what, const json_t *j, const char ***list,
                      size_t *n, cay_err *err)
{
    for (size_t i = 0; i < json_array_size(j); i++) {
        const char *s = json_string_value(json_array_get(j, i));
        if (!s || !*s || strpbrk(s, "\r\n"))
            return fail_invalid(err, "field_type", what, "it is a list of texts");
        *list = cay__more(*list, *n, sizeof **list);
        (*list)[(*n)++] = copy_text(m, s);
    }
    if (json_is_array(j))
        return 0;
    return fail_invalid(err, "field_type", what, "it is a list of texts");
}

static int read_allow(cay_manifest *m, const json_t *j, cay_err *err)
{
    m->has_allow = true;
    return read_texts(m, "remote_mount_command_allowlist", j, &m->allow, &m->nallow, err);
}

static int read_acks(cay_manifest *m, const json_t *j, cay_err *err)
{
    if (!(m->flags & CAY_MANIFEST_TRUSTED) && json_array_size(j))
        return fail_invalid(err, "untrusted_acknowledgement", "acknowledge_credential_exposure",
                            "only your own program may acknowledge that");
    return read_texts(m, "acknowledge_credential_exposure", j, &m->acks, &m->nacks, err);
}

static int read_version(cay_manifest *m, const json_t *j, cay_err *err)
{
    if (json_is_integer(j) && json_integer_value(j) == 1)
        return 0;
    return fail_invalid(err, "version", "version", "it is 1");
}

static int read_root(cay_manifest *m, const json_t *j, cay_err *err)
{
    return cay__root_set(m, json_string_value(j), err);
}

static int read_run_as(cay_manifest *m, const json_t *j, cay_err *err)
{
    const char *name = name_of(j);
    if (!name || !*name || strpbrk(name, ":\r\n /"))
        return fail_invalid(err, "account", "run_as", "it is the name of a user");
    if (!(m->flags & CAY_MANIFEST_TRUSTED) && !strcmp(name, "root"))
        return fail_invalid(
            err, "untrusted_account", "run_as",
            "a manifest that is not your own may not run as root; a trusted manifest is "
            "needed, or --user root");
    m->run_as = copy_text(m, name);
    return 0;
}

/* Text as in cay/policy.h, or the same as an object. */
static int read_policy(cay_manifest *m, const json_t *j, cay_err *err)
{
    char *text = NULL;
    int rc;
    if (!(m->flags & CAY_MANIFEST_TRUSTED))
        return fail_invalid(
            err, "untrusted_policy", "policy",
            "a manifest that is not your own may not open the network; a trusted manifest "
            "is needed, or --net");
    if (json_is_string(j)) {
        cay_policy *p = NULL;
        text = cay__strdup(json_string_value(j));
        rc = cay_policy_parse(text, &p, err);
        cay_policy_free(p);
    } else {
        CAY_AUTOFREE char *json = cay__json_text(j, CAY_MANIFEST_BYTES);
        if (json)
            rc = cay_policy_from_json(json, &text, err);
        else
            rc = CAY_EINVAL;
    }
    if (text)
        m->policy = cay__arena_adopt(&m->mem, text);
    if (rc < 0)
        return cay_wrap(err, rc, "manifest: policy");
    return 0;
}

static int read_limit(const json_t *o, const char *key, unsigned *out, cay_err *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v)
        return 0;
    if (json_is_null(v)) {
        *out = 0;
        return 0;
    }
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > 100000)
        return fail_invalid(err, "limit", key, "it is 1 or more, or null for no bound");
    *out = (unsigned)json_integer_value(v);
    return 0;
}

static int read_limits(cay_manifest *m, const json_t *j, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    const char *key;
    json_t *v;
    CAY_TRY(cay__canonical("", j, &o, err));
    json_object_foreach(o, key, v)
        if (strcmp(key, "manifest_entries") && strcmp(key, "local_dir_files"))
            return fail_invalid(err, "unknown_field", key,
                                "concurrency_limits has "
                                "manifest_entries "
                                "and local_dir_files");
    CAY_TRY(read_limit(o, "manifest_entries", &m->limit_entries, err));
    return read_limit(o, "local_dir_files", &m->limit_files, err);
}

static int read_services(cay_manifest *m, const json_t *j, cay_err *err)
{
    cay_services *u = NULL;
    const char *name;
    json_t *v;
    size_t n;
    int rc = cay__services_read(j, true, &u, err);
    CAY_TRY(rc);
    const cay_service *list = cay_services_list(u, &n);
    for (size_t i = 0; rc == 0 && i < n && !(m->flags & CAY_MANIFEST_TRUSTED); i++)
        if (list[i].user && (!strcmp(list[i].user, "root") || !strcmp(list[i].user, "0")))
            rc = fail_invalid(err, "untrusted_account", list[i].name,
                              "a manifest that is not your own may not have a service run as root");
    json_decref(m->services);
    m->services = cay__services_tell(u);
    cay_services_free(u);
    json_object_foreach((json_t *)j, name, v)
        if (json_is_null(v)) /* one of the template's that is not wanted */
            json_object_set_new(m->services, name, json_null());
    return rc;
}

static int read_sudo(cay_manifest *m, const json_t *j, cay_err *err)
{
    m->sudo = json_is_true(j);
    if (!json_is_boolean(j))
        return fail_invalid(err, "field_type", "sudo", "it is true or false");
    if (m->sudo && !(m->flags & CAY_MANIFEST_TRUSTED))
        return fail_invalid(
            err, "untrusted_account", "sudo",
            "a manifest that is not your own may not become root; a trusted manifest is "
            "needed, or --sudo");
    return 0;
}

/* An entry that says itself where it comes from and goes: {"type":…, "dest":…, "path":…}. A "dir"
 * with a path is one of the host. Where it goes may be told with the root in front; key: where it
 * goes without a dest, or NULL. */
static int read_spoken(cay_manifest *m, const char *key, const json_t *j, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__canonical("", j, &o, err));
    CAY_AUTOFREE char *dest = NULL;
    if (cay__member(o, "dest"))
        dest = cay__strdup(cay__member(o, "dest"));
    const char *type = cay__member(o, "type"), *to = CAY_OR(dest, key);
    json_t *path = json_object_get(o, "path");
    bool dir = type && !strcmp(type, "dir");
    if (!to)
        return fail_invalid(err, "dest", "entries",
                            "an entry of a list says where it goes: \"dest\"");
    json_object_del(o, "dest");
    if (path && type && (dir || cay__str_starts(type, "local_")) && !json_object_get(o, "src")) {
        json_object_set(o, "src", path);
        json_object_del(o, "path");
        if (dir)
            json_object_set_new(o, "type", json_string("local_dir"));
    }
    if (dest && *to == '/' && cay__path_below(to, m->root) && strlen(to) > strlen(m->root))
        to += strlen(m->root) + 1;
    return cay__entry_read(m, "", SIZE_MAX, to, o, err);
}

static bool has_own_path(const json_t *entry)
{
    const char *type = cay__member(entry, "type");
    return json_is_object(entry) && (json_object_get(entry, "dest") ||
                                     (json_object_get(entry, "path") && type &&
                                      (!strcmp(type, "dir") || cay__str_starts(type, "local_"))));
}

static int read_entries(cay_manifest *m, const json_t *j, cay_err *err)
{
    const char *key;
    json_t *v;
    size_t i;
    if (json_is_array(j)) {
        json_array_foreach(j, i, v)
            CAY_TRY(read_spoken(m, NULL, v, err));
        return 0;
    }
    json_object_foreach((json_t *)j, key, v) {
        if (has_own_path(v))
            CAY_TRY(read_spoken(m, key, v, err));
        else
            CAY_TRY(cay__entry_read(m, "", SIZE_MAX, key, v, err));
    }
    if (json_is_object(j))
        return 0;
    return fail_invalid(err, "field_type", "entries", "it is an object by path, or a list");
}

/* In this order: entries need the root, and groups need their users. */
static const struct {
    const char *name;
    int (*read)(cay_manifest *m, const json_t *j, cay_err *err);
    bool list; /* of which read() takes one */
} tops[] = {
    { "version", read_version },
    { "root", read_root },
    { "environment", read_env },
    { "users", read_user, true },
    { "groups", cay__group_read, true },
    { "run_as", read_run_as },
    { "extra_path_grants", cay__grant_read, true },
    { "policy", read_policy },
    { "concurrency_limits", read_limits },
    { "remote_mount_command_allowlist", read_allow },
    { "acknowledge_credential_exposure", read_acks },
    { "entries", read_entries },
    { "services", read_services },
    { "sudo", read_sudo },
    { "extra_persisted_roots", cay__persist_read },
};

const char *cay__top_field(size_t i)
{
    if (i < CAY_LEN(tops))
        return tops[i].name;
    return NULL;
}

int cay__top_read(cay_manifest *m, const json_t *j, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    const char *key;
    json_t *v;
    CAY_TRY(cay__canonical("", j, &o, err));
    json_object_foreach(o, key, v) {
        size_t i = 0;
        while (i < CAY_LEN(tops) && strcmp(tops[i].name, key))
            i++;
        if (i == CAY_LEN(tops))
            return fail_invalid(
                err, "unknown_field", key,
                "this field is not known; there are version, root, entries, environment, users, "
                "groups, "
                "run_as, extra_path_grants, extra_persisted_roots, policy, services, sudo, …");
    }
    CAY_EACH(top, tops) {
        v = json_object_get(o, top->name);
        if (!v || json_is_null(v))
            continue;
        if (!top->list)
            CAY_TRY(top->read(m, v, err));
        for (size_t i = 0; top->list && i < json_array_size(v); i++)
            CAY_TRY(top->read(m, json_array_get(v, i), err));
        if (top->list && !json_is_array(v))
            return fail_invalid(err, "field_type", top->name, "it is a list");
    }
    return 0;
}

static bool known_group(const cay_manifest *m, const char *name)
{
    CAY_EACH_OF(group, m->groups, m->ngroups)
        if (!strcmp(group->name, name))
            return true;
    return known_user(m, name) || !strcmp(name, "user") || !strcmp(name, "root");
}

/* A file with credentials that the sandbox itself could read is no place for them. */
static int check_files(const cay_manifest *m, const cay__entry *e, cay_err *err)
{
    static const char *const keys[] = { "service_account_file", "box_config_file" };
    CAY_EACH(key, keys) {
        const char *file = cay__member(e->fields, *key);
        if (file && cay__path_below(file, m->root) && strlen(file) > strlen(m->root) &&
            cay__entry_find(m, file + strlen(m->root) + 1))
            return cay__bad(err, "mount_config_invalid", e->path, "credentials",
                            "%s is an entry of the manifest; keep it out of the sandbox", *key);
    }
    return 0;
}

static int check_ack(const cay_manifest *m, const char *path, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    CAY_EACH_OF(entry, m->entries, m->n) {
        const char *at;
        if (!cay__is_mount(entry))
            continue;
        CAY_TRY(cay__mount_path(m, &mem, entry, &at, err));
        if (!strcmp(at, path))
            return 0;
    }
    return fail_invalid(
        err, "acknowledgement", path,
        "acknowledge_credential_exposure names the exact path of a mount, and there is none here");
}

int cay_manifest_check(const cay_manifest *m, cay_err *err)
{
    cay__dir known = { 0 };
    CAY_EACH_OF(e, m->entries, m->n) {
        if (e->group && !known_group(m, e->group))
            return cay__bad_entry(err, e, "group", "group %.40s is neither among groups nor users",
                                  e->group);
        if (cay__is_mount(e))
            CAY_TRY(check_files(m, e, err));
        if (cay__near(&known, e->path))
            continue;
        char *slash = strrchr(e->path, '/');
        for (size_t n = slash ? (size_t)(slash - e->path) : 0;
             n;) { /* parents that came later in the text */
            char up[CAY_MANIFEST_PATH];
            memcpy(up, e->path, n);
            up[n] = 0;
            const cay__entry *p = cay__entry_find(m, up);
            if (p && !p->kind->dir)
                return cay__bad(err, "invalid_manifest_path", e->path, "not_a_directory",
                                "entry %.60s above it is a %s", up, p->kind->name);
            slash = strrchr(up, '/');
            if (slash)
                n = (size_t)(slash - up);
            else
                n = 0;
        }
    }
    CAY_EACH_OF(it, m->acks, m->nacks)
        CAY_TRY(check_ack(m, *it, err));
    CAY_TRY(cay__persist_check(m, err));
    if (m->run_as && !known_user(m, m->run_as) && strcmp(m->run_as, "user") &&
        strcmp(m->run_as, "root"))
        return fail_invalid(err, "account", m->run_as, "run_as is not among users");
    return 0;
}

cay_manifest *cay_manifest_new(void)
{
    cay_manifest *m = cay__alloc(sizeof *m);
    m->root = CAY__ROOT;
    m->flags = CAY_MANIFEST_TRUSTED;
    m->limit_entries = m->limit_files = LIMIT;
    return m;
}

void cay_manifest_free(cay_manifest *m)
{
    if (!m)
        return;
    CAY_EACH_OF(entry, m->entries, m->n)
        json_decref(entry->fields);
    free(m->entries);
    free(m->index);
    free(m->env);
    free(m->users);
    free(m->groups);
    free(m->grants);
    free(m->allow);
    free(m->acks);
    free(m->persist);
    json_decref(m->services);
    cay__arena_clear(&m->mem);
    free(m);
}

CAY_DEFINE_AUTO(cay_manifest, cay_manifest_free)

int cay_manifest_parse(const char *text, size_t len, unsigned flags, cay_manifest **out,
                       cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    CAY_AUTOPTR(cay_manifest) m = cay_manifest_new();
    json_error_t je;
    m->flags = flags;
    if (len > CAY_MANIFEST_BYTES)
        return cay_fail_why(
            err, CAY_ETOOBIG, "manifest_too_big",
            "manifest: it has more than %u MiB; put large files beside it as local_file",
            CAY_MANIFEST_BYTES >> 20);
    j = cay__json_quick(text, len);
    if (!j)
        j = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &je);
    if (!j)
        return cay__bad(err, "manifest_invalid", "", "json",
                        "it is not sound JSON: line %d, column %d: %.80s", je.line, je.column,
                        je.text);
    CAY_TRY(cay__top_read(m, j, err));
    CAY_TRY(cay_manifest_check(m, err));
    *out = CAY_STEAL(m);
    return 0;
}

const char *cay_manifest_root(const cay_manifest *m)
{
    return m->root;
}

const char *cay_manifest_run_as(const cay_manifest *m)
{
    return m->run_as;
}
