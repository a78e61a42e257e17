/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"
#include "net.h"
#include <base/base.h>
#include <base/json.h>
#include <base/mutant.h>
#include <cay/sys/provider.h>
#include <lib/sandbox/limits.h>

/* One way to write a field and to read it back. write gives NULL for what is not set. read fails
 * for a value of another type. */
typedef struct kind {
    json_t *(*write)(const void *field);
    bool (*read)(cay__arena *mem, const json_t *j, void *field);
} kind;

static json_t *write_str(const void *f)
{
    const char *s = *(const char *const *)f;
    if (s)
        return cay__json_bytes(s);
    return NULL;
}

static bool read_str(cay__arena *mem, const json_t *j, void *f)
{
    char *s = cay__json_to_bytes(j);
    if (s)
        *(const char **)f = cay__arena_adopt(mem, s);
    else
        *(const char **)f = NULL;
    return s != NULL;
}

static json_t *write_u64(const void *f)
{
    uint64_t v = *(const uint64_t *)f;
    if (v == 0)
        return NULL;
    if (v == CAY_UNLIMITED)
        return json_string("unlimited");
    return json_integer((json_int_t)v);
}

static bool read_u64(cay__arena *mem, const json_t *j, void *f)
{
    const char *s = json_string_value(j);
    if (s && !strcmp(s, "unlimited")) {
        *(uint64_t *)f = CAY_UNLIMITED;
        return true;
    }
    if (!json_is_integer(j) || json_integer_value(j) < 0)
        return false;
    *(uint64_t *)f = (uint64_t)json_integer_value(j);
    return true;
}

static json_t *write_int(const void *f)
{
    if (*(const int *)f)
        return json_integer(*(const int *)f);
    return NULL;
}

static bool read_int(cay__arena *mem, const json_t *j, void *f)
{
    json_int_t v = json_integer_value(j);
    if (!json_is_integer(j) || v < INT32_MIN || v > INT32_MAX)
        return false;
    *(int *)f = (int)v;
    return true;
}

static json_t *write_bool(const void *f)
{
    if (*(const bool *)f)
        return json_true();
    return NULL;
}

static bool read_bool(cay__arena *mem, const json_t *j, void *f)
{
    *(bool *)f = json_is_true(j);
    return json_is_boolean(j);
}

static json_t *write_expiry(const void *f)
{
    if (*(const cay_expiry *)f == CAY_EXPIRE_PAUSE)
        return json_string("pause");
    return NULL;
}

static bool read_expiry(cay__arena *mem, const json_t *j, void *f)
{
    const char *s = json_string_value(j);
    if (s && !strcmp(s, "pause"))
        *(cay_expiry *)f = CAY_EXPIRE_PAUSE;
    else
        *(cay_expiry *)f = CAY_EXPIRE_KILL;
    return s && (!strcmp(s, "pause") || !strcmp(s, "kill"));
}

static json_t *write_pairs(const void *f)
{
    const cay_pair *p = *(const cay_pair *const *)f;
    json_t *o = NULL;
    if (p && p->key)
        o = json_object();
    for (; o && p->key; p++)
        json_object_set_new(o, p->key, cay__json_bytes(CAY_OR(p->value, "")));
    return o;
}

cay_pair *cay__pairs_read(cay__arena *mem, const json_t *obj)
{
    size_t i = 0;
    const char *key;
    json_t *v;
    if (!json_is_object(obj))
        return NULL;
    cay_pair *list = cay__arena_take(mem, (json_object_size(obj) + 1) * sizeof *list);
    json_object_foreach((json_t *)obj, key, v) {
        char *s = cay__json_to_bytes(v);
        if (!s)
            return NULL;
        list[i++] = (cay_pair){ cay__arena_str(mem, key), cay__arena_adopt(mem, s) };
    }
    return list;
}

static bool read_pairs(cay__arena *mem, const json_t *j, void *f)
{
    cay_pair *p = cay__pairs_read(mem, j);
    *(const cay_pair **)f = p;
    return p != NULL;
}

char *cay__pairs_text(const cay_pair *pairs)
{
    CAY_AUTOJSON *o = json_object();
    for (; pairs && pairs->key; pairs++)
        if (json_object_set_new(o, pairs->key, json_string(CAY_OR(pairs->value, ""))) < 0)
            return NULL;
    return cay__json_text(o, CAY__SPEC_MAX);
}

static json_t *write_net(const void *f)
{
    const char *s = *(const char *const *)f;
    if (s)
        return cay__policy_json(s);
    return NULL;
}

static bool read_net(cay__arena *mem, const json_t *j, void *f)
{
    char *s = NULL;
    if (cay__policy_of_json(j, &s, NULL) < 0)
        return false;
    *(const char **)f = cay__arena_adopt(mem, s);
    return true;
}

/* As JSON inside JSON, so that a record can be read by people. */
static json_t *write_services(const void *f)
{
    const char *s = *(const char *const *)f;
    if (s)
        return json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    return NULL;
}

static bool read_services(cay__arena *mem, const json_t *j, void *f)
{
    char *s = NULL;
    if (json_is_object(j) || json_is_array(j))
        s = cay__json_text(j, CAY__SPEC_MAX);
    if (s)
        *(const char **)f = cay__arena_adopt(mem, s);
    else
        *(const char **)f = NULL;
    return s != NULL;
}

static json_t *write_strs(const void *f)
{
    const char *const *p = *(const char *const *const *)f;
    json_t *a = NULL;
    if (p && *p)
        a = json_array();
    for (; a && *p; p++)
        json_array_append_new(a, cay__json_bytes(*p));
    return a;
}

static bool read_strs(cay__arena *mem, const json_t *j, void *f)
{
    if (!json_is_array(j))
        return false;
    const char **list =
        cay__arena_take(mem, (json_array_size(j) + !CAY__MUTANT("fuzz-spec")) * sizeof *list);
    *(const char *const **)f = list;
    for (size_t i = 0; i < json_array_size(j); i++)
        if (!read_str(mem, json_array_get(j, i), &list[i]))
            return false;
    return true;
}

static const kind str_kind = { write_str, read_str }, u64_kind = { write_u64, read_u64 },
                  int_kind = { write_int, read_int }, bool_kind = { write_bool, read_bool },
                  expiry_kind = { write_expiry, read_expiry },
                  pairs_kind = { write_pairs, read_pairs }, strs_kind = { write_strs, read_strs },
                  net_kind = { write_net, read_net },
                  services_kind = { write_services, read_services };

typedef struct field {
    const char *name;
    const kind *kind;
    size_t at;
} field;

#define F(name, kind, member)                                                                      \
    {                                                                                              \
        name, &kind##_kind, offsetof(cay__spec, member)                                            \
    }
static const field fields[] = {
    F("template", str, create.from.template_),
    F("root", str, create.from.root),
    F("hostname", str, create.hostname),
    F("user", str, create.process.user),
    F("workdir", str, create.process.workdir),
    F("env", pairs, create.process.env),
    F("min_level", int, create.isolation.min_level),
    F("require", strs, create.isolation.require),
    F("ttl_ms", u64, create.life.ttl_ms),
    F("idle_ms", u64, create.life.idle_ms),
    F("on_expiry", expiry, create.life.on_expiry),
    F("no_pin", bool, create.isolation.no_pin),
    F("durable", bool, create.life.durable),
    F("net", net, create.net.policy),
    F("from", str, create.from.snapshot),
    F("checkpoint", int, create.life.checkpoints),
    F("on", str, create.from.directory),
    F("on_since_ms", u64, on_since_ms),
    F("manifest", str, create.manifest.text),
    F("auto_resume", bool, create.life.auto_resume),
    F("image", str, template_config),
    F("template_id", str, box.template_id),
    F("template_name", str, box.template_name),
    F("services", services, create.services),
    F("sudo", bool, create.isolation.sudo),
    F("options", pairs, create.options),
    F("group", str, create.process.group),
    F("settings", pairs, create.from.settings),
};
static const field grant_fields[] = {
    { "source", &str_kind, offsetof(cay_grant, source) },
    { "target", &str_kind, offsetof(cay_grant, target) },
    { "rw", &bool_kind, offsetof(cay_grant, rw) },
};

static const field volume_fields[] = {
    { "name", &str_kind, offsetof(cay_volume_use, name) },
    { "target", &str_kind, offsetof(cay_volume_use, target) },
    { "rw", &bool_kind, offsetof(cay_volume_use, rw) },
};

static const field secret_fields[] = {
    { "name", &str_kind, offsetof(cay_secret, name) },
    { "source", &str_kind, offsetof(cay_secret, source) },
};

static void write_fields(json_t *o, const field *f, size_t n, const void *from)
{
    for (; n--; f++) {
        json_t *v = f->kind->write((const char *)from + f->at);
        if (v)
            json_object_set_new(o, f->name, v);
    }
}

static int read_fields(cay__arena *mem, const json_t *o, const field *f, size_t n, void *to,
                       cay_err *err)
{
    for (; n--; f++) {
        const json_t *v = json_object_get(o, f->name);
        if (v && !f->kind->read(mem, v, (char *)to + f->at))
            return cay_fail(err, CAY_EINVAL, "record: %s has a value of the wrong type", f->name);
    }
    return 0;
}

static json_t *limits_json(const cay_limits *l)
{
    json_t *o = json_object();
    for (size_t i = 0; i < CAY__LIMITS; i++) {
        json_t *v = write_u64((const char *)l + cay__limit_table[i].at);
        if (v)
            json_object_set_new(o, cay__limit_table[i].name, v);
    }
    return o;
}

static int read_limits(const json_t *o, cay_limits *l, cay_err *err)
{
    for (size_t i = 0; o && i < CAY__LIMITS; i++) {
        const json_t *v = json_object_get(o, cay__limit_table[i].name);
        if (v && !read_u64(NULL, v, (char *)l + cay__limit_table[i].at))
            return cay_fail(err, CAY_EINVAL, "record: limit %s is not a number",
                            cay__limit_table[i].name);
    }
    return 0;
}

static int read_grants(cay__arena *mem, const json_t *a, cay_create *c, cay_err *err)
{
    size_t n = json_array_size(a);
    if (a && !json_is_array(a))
        return cay_fail(err, CAY_EINVAL, "record: grants is not a list");
    cay_grant *g = NULL;
    if (n)
        g = cay__arena_take(mem, n * sizeof *g);
    for (size_t i = 0; i < n; i++) {
        CAY_TRY(read_fields(mem, json_array_get(a, i), grant_fields, CAY_LEN(grant_fields), &g[i],
                            err));
        if (!g[i].source || !g[i].target)
            return cay_fail(err, CAY_EINVAL, "record: a grant lacks its source or target");
    }
    c->files.grants = g;
    c->files.ngrants = n;
    return 0;
}

static json_t *volumes_json(const cay_create *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->files.nvolumes; i++) {
        json_t *o = json_object();
        write_fields(o, volume_fields, CAY_LEN(volume_fields), &c->files.volumes[i]);
        json_array_append_new(list, o);
    }
    return list;
}

static int read_volumes(cay__arena *mem, const json_t *a, cay_create *c, cay_err *err)
{
    size_t n = json_array_size(a);
    if (a && !json_is_array(a))
        return cay_fail(err, CAY_EINVAL, "record: volumes is not a list");
    cay_volume_use *v = NULL;
    if (n)
        v = cay__arena_take(mem, n * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        CAY_TRY(read_fields(mem, json_array_get(a, i), volume_fields, CAY_LEN(volume_fields), &v[i],
                            err));
        if (!v[i].name || !v[i].target)
            return cay_fail(err, CAY_EINVAL, "record: a volume lacks its name or target");
    }
    c->files.volumes = v;
    c->files.nvolumes = n;
    return 0;
}

/* Where values come from; where they go is in the policy's bind lines. */
static json_t *secrets_json(const cay_create *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->net.nsecrets; i++) {
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again |= !strcmp(c->net.secrets[k].name, c->net.secrets[i].name);
        json_t *o = NULL;
        if (!again)
            o = json_object();
        if (o) {
            write_fields(o, secret_fields, CAY_LEN(secret_fields), &c->net.secrets[i]);
            json_array_append_new(list, o);
        }
    }
    return list;
}

static int read_secrets(cay__arena *mem, const json_t *a, cay_create *c, cay_err *err)
{
    size_t n = json_array_size(a);
    if (a && !json_is_array(a))
        return cay_fail(err, CAY_EINVAL, "record: secrets is not a list");
    cay_secret *s = NULL;
    if (n)
        s = cay__arena_take(mem, n * sizeof *s);
    for (size_t i = 0; i < n; i++) {
        CAY_TRY(read_fields(mem, json_array_get(a, i), secret_fields, CAY_LEN(secret_fields), &s[i],
                            err));
        if (!s[i].name || !s[i].source)
            return cay_fail(err, CAY_EINVAL, "record: a secret lacks its name or source");
    }
    c->net.secrets = s;
    c->net.nsecrets = n;
    return 0;
}

static json_t *layers_json(const cay_box_spec *b)
{
    json_t *list = json_array();
    for (size_t i = 0; i < b->nlayers; i++)
        json_array_append_new(list, json_string(b->layers[i]));
    return list;
}

static int read_layers(cay__arena *mem, const json_t *a, cay_box_spec *b, cay_err *err)
{
    size_t n = json_array_size(a);
    const char *const *list = NULL;
    if (a && (n >= CAY_STACK_MAX || !read_strs(mem, a, &list)))
        return cay_fail(err, CAY_EINVAL, "record: layers is not a list of at most %d names",
                        CAY_STACK_MAX - 1);
    b->layers = list;
    b->nlayers = n;
    return 0;
}

int cay__spec_text(const cay__spec *spec, char **out, cay_err *err)
{
    CAY_AUTOJSON *o = json_object();
    const cay_create *c = &spec->create;
    write_fields(o, fields, CAY_LEN(fields), spec);
    json_object_set_new(o, "limits", limits_json(&c->limits));
    json_t *grants = json_array();
    for (size_t i = 0; i < c->files.ngrants; i++) {
        json_t *g = json_object();
        write_fields(g, grant_fields, CAY_LEN(grant_fields), &c->files.grants[i]);
        json_array_append_new(grants, g);
    }
    json_object_set_new(o, "grants", grants);
    if (c->net.nsecrets)
        json_object_set_new(o, "secrets", secrets_json(c));
    if (c->files.nvolumes)
        json_object_set_new(o, "volumes", volumes_json(c));
    if (spec->box.nlayers)
        json_object_set_new(o, "layers", layers_json(&spec->box));
    char *text = cay__json_text(o, CAY__SPEC_MAX);
    if (!text)
        return cay_fail_why(err, CAY_ETOOBIG, "spec_too_big",
                            "the request is larger than %u bytes; shorten env", CAY__SPEC_MAX);
    *out = text;
    return 0;
}

static int read_row(const cay_row *row, cay__spec *s, cay_err *err)
{
    CAY_AUTOJSON *o = NULL, *labels = NULL;
    cay_create *c = &s->create;
    cay__arena *mem = s->mem;
    CAY_TRY(cay__json_object("record: spec", row->spec, &o, err));
    CAY_TRY(cay__json_object("record: labels", row->labels, &labels, err));
    CAY_TRY(read_fields(mem, o, fields, CAY_LEN(fields), s, err));
    CAY_TRY(read_limits(json_object_get(o, "limits"), &c->limits, err));
    CAY_TRY(read_grants(mem, json_object_get(o, "grants"), c, err));
    CAY_TRY(read_secrets(mem, json_object_get(o, "secrets"), c, err));
    CAY_TRY(read_volumes(mem, json_object_get(o, "volumes"), c, err));
    CAY_TRY(read_layers(mem, json_object_get(o, "layers"), &s->box, err));
    if (!(c->labels = cay__pairs_read(mem, labels)))
        return cay_fail(err, CAY_EINVAL, "record: a label is not a string");
    c->provider = cay__arena_str(mem, row->provider);
    if (row->tenant)
        c->tenant = cay__arena_str(mem, row->tenant);
    else
        c->tenant = NULL;
    if (row->name && *row->name)
        c->name = cay__arena_str(mem, row->name);
    else
        c->name = NULL;
    if (row->metadata && *row->metadata)
        c->metadata = cay__arena_str(mem, row->metadata);
    else
        c->metadata = NULL;
    return 0;
}

const cay_box_spec *cay__spec_box(cay__spec *spec)
{
    spec->box.size = sizeof spec->box;
    spec->box.create = &spec->create;
    return &spec->box;
}

typedef struct kept {
    cay__spec spec; /* first: it is what the caller has */
    cay__arena mem;
} kept;

int cay__spec_read(const cay_row *row, cay__spec **out, cay_err *err)
{
    kept *k = cay__alloc(sizeof *k);
    k->spec.create.size = sizeof k->spec.create;
    k->spec.mem = &k->mem;
    int rc = read_row(row, &k->spec, err);
    if (rc < 0)
        cay__spec_free(&k->spec);
    else
        *out = &k->spec;
    return rc;
}

void cay__spec_free(cay__spec *s)
{
    if (s)
        cay__arena_clear(s->mem);
    free(s);
}
