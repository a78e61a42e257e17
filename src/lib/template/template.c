/* SPDX-License-Identifier: Apache-2.0 */
/* Which templates there are. */
#include "registry.h"
#include "template.h"
#include <lib/client/remote.h>
#include "settings.h"
#include <base/fault.h>
#include <base/json.h>
#include <cay/access.h>
#include <lib/sandbox/limits.h>

#define SHOWN      8
#define CONFIG_MAX (256u << 10)

CAY_DEFINE_AUTO(cay_snapshot, cay_snapshot_free)

typedef struct full {
    cay_template t; /* first: the caller has a pointer to it */
    cay__arena mem;
} full;

/* A JSON list of strings; what is none is an empty one. */
static const char *const *parse_strings(cay__arena *mem, const char *text, size_t *n)
{
    CAY_AUTOJSON *list = NULL;
    cay__json_any("", text, &list, NULL);
    return cay__json_strings(mem, list, n);
}

cay_template *cay__template_blank(cay__arena **mem)
{
    full *f = cay__alloc(sizeof *f);
    *mem = &f->mem;
    return &f->t;
}

cay_template *cay__template_new(const cay_template_row *r)
{
    full *f = cay__alloc(sizeof *f);
    cay_template *t = &f->t;
    *t = (cay_template){ .size = sizeof *t,
                         .shared = r->shared,
                         .bytes = r->bytes,
                         .files = r->files,
                         .created_ms = r->created_ms,
                         .users = r->users };
    t->id = cay__arena_str(&f->mem, r->id);
    t->tenant = cay__arena_str(&f->mem, r->tenant);
    t->base = cay__arena_str(&f->mem, r->base);
    t->source = cay__arena_str(&f->mem, r->source);
    t->digest = cay__arena_str(&f->mem, r->digest);
    t->config = cay__arena_str(&f->mem, r->config);
    t->names = parse_strings(&f->mem, CAY_OR(r->names, "[]"), NULL);
    t->layers = parse_strings(&f->mem, r->layers, &t->nlayers);
    return t;
}

void cay_template_free(cay_template *t)
{
    full *f = (full *)t;
    if (f)
        cay__arena_clear(&f->mem);
    free(f);
}

static int not_found(const char *ref, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(300);
    cay__buf_safe(&b, ref, CAY_MIN(strlen(ref), (size_t)80), false);
    return cay_fail_why(err, CAY_ENOENT, "template_not_found",
                        "there is no template %s; cay template ls shows those there are, cay "
                        "template pull gets an image",
                        CAY_OR(b.data, "without a name"));
}

/* Whole ids before names, names before beginnings of ids. *name: what it was found by, "" when that
 * was an id. */
static int resolve_ref(cay_client *client, const char *tenant, const char *ref,
                       char id[CAY_ID_LEN + 1], char name[CAY_TEMPLATE_NAME + 1], cay_err *err)
{
    char ids[SHOWN][CAY_ID_LEN + 1];
    size_t n = 0;
    *name = 0;
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "template_name",
                            "no template is named; give a name or an id");
    if (!cay__id_valid(ref, 't') && cay__tname_clean(ref, name, err) == 0) {
        CAY_TRY(client->store->template_resolve(client->db, tenant, name, ids, SHOWN, &n, err));
        if (n) {
            if (cay__str_copy(id, CAY_ID_LEN + 1, ids[0]))
                return 0;
            return CAY_EINVAL;
        }
    }
    *name = 0;
    if (*ref != 't' || strlen(ref) > CAY_ID_LEN)
        return not_found(ref, err);
    CAY_TRY(client->store->template_resolve(client->db, tenant, ref, ids, SHOWN, &n, err));
    if (n == 0)
        return not_found(ref, err);
    if (n > 1)
        return cay_fail_why(err, CAY_EINVAL, "template_ambiguous",
                            "%.40s fits several templates: %s, %s%s; give more of the id", ref,
                            ids[0], ids[1], CAY_TEXT_IF(n > 2, ", …"));
    cay__str_copy(id, CAY_ID_LEN + 1, ids[0]);
    return 0;
}

static int take_row(const cay_template_row *row, void *arg)
{
    *(cay_template **)arg = cay__template_new(row);
    return 0;
}

/* A name that nobody has may be another word for one, when the operator says so. */
static int by_alias(cay_client *client, const char *tenant, const char *ref,
                    char id[CAY_ID_LEN + 1], int none, cay_err *err)
{
    cay__tconf conf;
    char name[CAY_TEMPLATE_NAME + 1];
    CAY_TRY(cay__tconf_read(client, &conf, err));
    const char *other = cay__tconf_alias(&conf, ref);
    int rc = none;
    if (other != ref)
        rc = resolve_ref(client, tenant, other, id, name, err);
    cay__tconf_clear(&conf);
    return rc;
}

int cay_template_find(cay_client *client, const cay_call *call, const char *tenant, const char *ref,
                      cay_template **out, cay_err *err)
{
    char id[CAY_ID_LEN + 1], name[CAY_TEMPLATE_NAME + 1];
    if (client->remote)
        return cay__remote_template_find(client->remote, call, ref, out, err);
    CAY_TRY(cay__call_check(call, "find", err));
    int rc = resolve_ref(client, tenant, ref, id, name, err);
    if (rc == CAY_ENOENT && ref && *ref)
        rc = by_alias(client, tenant, ref, id, rc, err);
    CAY_TRY(rc);
    return client->store->template_list(client->db, tenant, id, NULL, take_row, out, err);
}

typedef struct lister {
    const cay_call *call;
    const cay_template_filter *filter;
    const char *name;
    int (*fn)(const cay_template *, void *);
    void *arg;
    size_t n;
    bool enough;
    cay_err *err;
} lister;

/* "python" fits "python:3.11"; "python:3.11" only itself. */
static bool has_name(const cay_template *t, const char *want)
{
    size_t n = strlen(want);
    for (const char *const *p = t->names; *p; p++)
        if (!strncmp(*p, want, n) &&
            (!(*p)[n] || (!strpbrk(want, ":@") && ((*p)[n] == ':' || (*p)[n] == '@'))))
            return true;
    return false;
}

static int on_template_row(const cay_template_row *row, void *arg)
{
    lister *l = arg;
    CAY_TRY(cay__call_check(l->call, "list", l->err));
    CAY_AUTOPTR(cay_template) t = cay__template_new(row);
    if (l->filter->name && !has_name(t, l->filter->name))
        return 0;
    int rc = l->fn(t, l->arg);
    l->enough = l->filter->limit && ++l->n == l->filter->limit;
    return CAY_OR(rc, l->enough);
}

int cay_template_list(cay_client *client, const cay_call *call, const cay_template_filter *given,
                      int (*fn)(const cay_template *, void *), void *arg, cay_err *err)
{
    cay_template_filter f;
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_template_filter", err));
    if (client->remote)
        return cay__remote_template_list(client->remote, call, &f, fn, arg, err);
    lister l = { .call = call, .filter = &f, .fn = fn, .arg = arg, .err = err };
    int rc =
        client->store->template_list(client->db, f.tenant, NULL, f.after, on_template_row, &l, err);
    if (l.enough)
        return 0;
    return rc;
}

/* One that the tenant sees may still be somebody else's. */
static int own_only(const cay_template *t, const char *tenant, const char *what, cay_err *err)
{
    if (!tenant || !strcmp(t->tenant, tenant))
        return 0;
    return cay_fail_why(
        err, CAY_EPERM, "template_shared",
        "template %s belongs to the operator of this service and can be used, not %s", t->id, what);
}

int cay_template_remove(cay_client *client, const cay_call *call, const char *tenant,
                        const char *ref, cay_err *err)
{
    char id[CAY_ID_LEN + 1], name[CAY_TEMPLATE_NAME + 1];
    CAY_AUTOPTR(cay_template) t = NULL;
    ref = CAY_OR(ref, "");
    if (client->remote)
        return cay__remote_do(client->remote, call, &CAY__REQUEST(template_forget, .query = &ref),
                              err);
    CAY_TRY(cay__call_check(call, "remove", err));
    CAY_TRY(resolve_ref(client, tenant, ref, id, name, err));
    CAY_TRY(client->store->template_list(client->db, tenant, id, NULL, take_row, &t, err));
    CAY_TRY(own_only(t, tenant, "removed", err));
    if (*name && t->names[0] && t->names[1])
        return client->store->template_name(client->db, t->tenant, name, NULL, err);
    return client->store->template_remove(client->db, id, err);
}

int cay_template_name(cay_client *client, const cay_call *call, const char *tenant, const char *ref,
                      const char *given, cay_err *err)
{
    char name[CAY_TEMPLATE_NAME + 1];
    CAY_AUTOPTR(cay_template) t = NULL;
    CAY_TRY(cay__tname_clean(given, name, err));
    if (client->remote) {
        CAY_AUTOBUF body = CAY__BUF(4096);
        cay__shape_put(&body, &cay__template_patch_shape, CAY__F_IN,
                       &(cay__template_patch){ .name = name });
        return cay__remote_template_patch(client->remote, call, ref, body.data, err);
    }
    CAY_TRY(cay_template_find(client, call, tenant, ref, &t, err));
    CAY_TRY(own_only(t, tenant, "renamed", err));
    return client->store->template_name(client->db, t->tenant, name, t->id, err);
}

int cay_template_share(cay_client *client, const cay_call *call, const char *tenant,
                       const char *ref, bool shared, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    if (client->remote)
        return cay__remote_template_patch(client->remote, call, ref,
                                          shared ? "{\"shared\":true}" : "{\"shared\":false}", err);
    CAY_TRY(cay_template_find(client, call, tenant, ref, &t, err));
    CAY_TRY(own_only(t, tenant, "shared", err));
    return client->store->template_share(client->db, t->id, shared, err);
}

static bool pairs_ok(const json_t *j)
{
    const char *key;
    json_t *v;
    if (!json_is_object(j))
        return false;
    json_object_foreach((json_t *)j, key, v)
        if (!*key || strpbrk(key, "=\n") || !cay__json_cstr(v))
            return false;
    return true;
}

static bool words_ok(const json_t *j)
{
    if (!json_is_array(j))
        return false;
    for (size_t i = 0; i < json_array_size(j); i++) {
        if (!cay__json_cstr(json_array_get(j, i)))
            return false;
    }
    return true;
}

static bool text_ok(const json_t *j)
{
    const char *s = cay__json_cstr(j);
    return s && !strchr(s, '\n');
}

static bool path_ok(const json_t *j)
{
    return text_ok(j) && *json_string_value(j) == '/';
}

static bool object_ok(const json_t *j)
{
    return json_is_object(j);
}

static bool list_ok(const json_t *j)
{
    return json_is_array(j);
}

static bool bool_ok(const json_t *j)
{
    return json_is_boolean(j);
}

static bool labels_ok(const json_t *j)
{
    const char *key;
    json_t *v;
    if (!json_is_object(j))
        return false;
    json_object_foreach((json_t *)j, key, v)
        if (!json_is_string(v))
            return false;
    return true;
}

static bool limits_ok(const json_t *j)
{
    const char *key;
    json_t *v;
    if (!json_is_object(j))
        return false;
    json_object_foreach((json_t *)j, key, v) {
        bool known = false;
        CAY_EACH_OF(it, cay__limit_table, CAY__LIMITS)
            known |= !strcmp(key, it->name);
        if (!known || !json_is_integer(v) || json_integer_value(v) <= 0)
            return false;
    }
    return true;
}

static const struct {
    const char *name;
    bool (*ok)(const json_t *);
    const char *want;
} members[] = {
    { "env", pairs_ok, "an object of strings; a name is not empty and has no '='" },
    { "user", text_ok, "a name or number on one line" },
    { "workdir", path_ok, "an absolute path" },
    { "cmd", words_ok, "a list of strings" },
    { "entrypoint", words_ok, "a list of strings" },
    { "shell", words_ok, "a list of strings" },
    { "ports", words_ok, "a list of strings such as \"8080/tcp\"" },
    { "volumes", words_ok, "a list of paths" },
    { "labels", labels_ok, "an object of strings" },
    { "stop_signal", text_ok, "a signal's name" },
    { "services", list_ok, "a list of objects" },
    { "sudo", bool_ok, "true or false" },
    { "interpreter", words_ok, "a list of languages" },
    { "limits", limits_ok, "an object of limits that are known, each a number above 0" },
    { "platform", object_ok, "an object" },
};

int cay_template_config_check(const char *text, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    if (strlen(text) > CONFIG_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "template_config", "config is longer than %u bytes",
                            CONFIG_MAX);
    CAY_TRY(cay__json_object("config", text, &o, err));
    CAY_EACH(member, members) {
        const json_t *v = json_object_get(o, member->name);
        if (v && !member->ok(v))
            return cay_fail_why(err, CAY_EINVAL, "template_config", "config: %s must be %s",
                                member->name, member->want);
    }
    return cay__settings_check(o, err);
}

static int clean_names(const char *const *names, char **out, cay_err *err)
{
    CAY_AUTOJSON *list = json_array();
    for (; names && *names; names++) {
        char name[CAY_TEMPLATE_NAME + 1];
        CAY_TRY(cay__tname_clean(*names, name, err));
        if (json_array_size(list) == CAY__TEMPLATE_NAMES)
            return cay_fail_why(err, CAY_EINVAL, "template_name", "a template has at most %d names",
                                CAY__TEMPLATE_NAMES);
        json_array_append_new(list, json_string(name));
    }
    *out = cay__json_text(list, 64 << 10);
    if (*out)
        return 0;
    return cay_fail(err, CAY_ETOOBIG, "too many names");
}

static int layers_there(const cay_client *client, const char *layers, cay_err *err)
{
    cay__stack s;
    CAY_TRY(cay__stack_read(layers, &s, err));
    CAY_EACH_OF(it, s.name, s.n) {
        if (!cay__layer_there(client, *it))
            return cay_fail_why(err, CAY_EBUSY, "layers_gone",
                                "layer %s was removed meanwhile; try again", *it);
    }
    return 0;
}

int cay__template_record(cay_client *client, const cay_call *call, cay_template_row *row,
                         const char *const *names, cay_template **out, cay_err *err)
{
    CAY_AUTOFREE char *list = NULL;
    CAY_TRY(clean_names(names, &list, err));
    CAY_TRY(cay_template_config_check(row->config, err));
    CAY_TRY(cay__tenant_check(row->tenant, err));
    if (strlen(row->source) > 1000 || strpbrk(row->source, "\n\r"))
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "source is one line of at most 1000 bytes");
    CAY_TRY(cay__template_root_check(client, row->base, row->layers, err));
    CAY_TRY(cay__template_measure(client, call, row->tenant, row->layers, err));
    row->names = list;
    CAY_FAULT("template.record");
    CAY_TRY(client->store->template_insert(client->db, row, err));
    CAY_FAULT("template.recorded");
    int rc = layers_there(client, row->layers, err);
    if (rc < 0) {
        client->store->template_remove(client->db, row->id, NULL);
        return rc;
    }
    if (out)
        return cay_template_find(client, call, NULL, row->id, out, err);
    return 0;
}

/* A snapshot by its own name, or one of a sandbox, which is then nobody's. */
static int resolve_source(cay_client *client, const cay_call *call, const char *tenant,
                          const char *ref, cay__snaprow **out, bool *ours, cay_err *err)
{
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    *ours = false;
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid", "from: name a snapshot or a sandbox");
    int rc = cay__snap_find_of(client, tenant, ref, out, err);
    if (rc != CAY_ENOENT)
        return rc;
    if ((tenant ? cay_client_find_of(client, call, tenant, ref, &sb, NULL)
                : cay_client_find(client, call, ref, &sb, NULL)) < 0)
        return cay_fail_why(err, CAY_ENOENT, "snapshot_not_found",
                            "there is neither a snapshot nor a sandbox %.64s", ref);
    CAY_TRY(cay_sandbox_snapshot(
        sb, call, &(cay_snapshot_spec){ .size = sizeof(cay_snapshot_spec) }, &s, err));
    *ours = true;
    return cay__snap_row(client, s->id, out, err);
}

int cay_template_publish(cay_client *client, const cay_call *call, const cay_template_spec *given,
                         cay_template **out, cay_err *err)
{
    cay_template_spec spec;
    char id[CAY_ID_LEN + 1], source[64];
    CAY_AUTOFREE cay__snaprow *snap = NULL;
    CAY_AUTOJSON *behind = NULL;
    bool ours;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_template_spec", err));
    if (client->remote)
        return cay__remote_template_publish(client, call, &spec, out, err);
    CAY_TRY(cay__call_check(call, "publish", err));
    CAY_TRY(resolve_source(client, call, spec.tenant, spec.from, &snap, &ours, err));
    int rc = cay__snap_trees(client, &snap->row, err);
    if (rc == 0 && *snap->row.template_ == '/')
        rc = cay_fail_why(
            err, CAY_ENOTSUP, "template_root",
            "%s stands on %.150s, a directory of the host: `cay template import` it first",
            snap->row.id, snap->row.template_);
    if (rc == 0)
        rc = cay__json_object("record: spec", snap->row.spec, &behind, err);
    cay__id_make(id, 't');
    if (ours)
        CAY_JOIN(source, "sandbox:", snap->row.sandbox);
    else
        CAY_JOIN(source, "snapshot:", snap->row.id);
    cay_template_row row = { .size = sizeof row,
                             .id = id,
                             .tenant = CAY_OR(spec.tenant, snap->row.tenant),
                             .base = snap->row.template_,
                             .layers = snap->row.layers,
                             .source = CAY_OR(spec.source, source),
                             .digest = CAY_OR(spec.digest, ""),
                             .shared = !spec.hidden,
                             .config = CAY_OR(spec.config, cay__json_str(behind, "image", "{}")),
                             .bytes = snap->row.bytes,
                             .files = snap->row.files };
    if (rc == 0)
        rc = cay__template_record(client, call, &row, spec.names, out, err);
    if (ours)
        client->store->snap_remove(client->db, snap->row.id, NULL);
    return cay_wrap(err, rc, "template");
}
