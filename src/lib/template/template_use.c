/* SPDX-License-Identifier: Apache-2.0 */
/* A request that names a template: it comes to stand on its layers, and takes over what it says. */
#include <lib/client/remote.h>
#include "settings.h"
#include <lib/client/spec.h>
#include "template.h"
#include <base/json.h>
#include <cay/manifest.h>
#include <lib/sandbox/limits.h>

static size_t count_pairs(const cay_pair *p)
{
    size_t n = 0;
    for (; p && p[n].key; n++)
        ;
    return n;
}

static bool has_key(const cay_pair *p, const char *key)
{
    for (; p && p->key; p++)
        if (!strcmp(p->key, key))
            return true;
    return false;
}

/* The template's variables, then those of the request, which win. */
static void take_env(const json_t *env, cay_create *c, cay__arena *mem)
{
    const char *key;
    json_t *v;
    size_t n = 0, own = count_pairs(c->process.env);
    if (!json_is_object(env) || !json_object_size(env))
        return;
    cay_pair *all = cay__arena_take(mem, (json_object_size(env) + own + 1) * sizeof *all);
    json_object_foreach((json_t *)env, key, v)
        if (json_is_string(v) && !has_key(c->process.env, key))
            all[n++] =
                (cay_pair){ cay__arena_str(mem, key), cay__arena_str(mem, json_string_value(v)) };
    CAY_EACH_OF(it, c->process.env, own)
        all[n++] = *it;
    c->process.env = all;
}

static void take_limits(const json_t *limits, cay_limits *l)
{
    CAY_EACH_OF(it, cay__limit_table, CAY__LIMITS) {
        uint64_t *at = (uint64_t *)((char *)l + it->at);
        json_int_t v = json_integer_value(json_object_get(limits, it->name));
        if (!*at && v > 0)
            *at = (uint64_t)v;
    }
}

void cay__template_limits(const char *image, cay_limits *out)
{
    CAY_AUTOJSON *o = NULL;
    *out = (cay_limits){ 0 };
    if (image && cay__json_object("record: image", image, &o, NULL) == 0)
        take_limits(json_object_get(o, "limits"), out);
    cay__limits_fill(out);
}

/* "user", "user:group" or ":group". */
static void take_user(const json_t *o, cay_create *c, cay__arena *mem)
{
    char *said = cay__arena_str(mem, cay__json_str(o, "user", "")), *colon = strchr(said, ':');
    if (colon)
        *colon = 0;
    if (colon && colon[1] && !c->process.group)
        c->process.group = colon + 1;
    if (*said)
        c->process.user = said;
    else
        c->process.user = CAY_IF(!strcmp(c->from.template_, CAY__BASE_IMAGE), "root");
}

/* Those that the request has are all there are; what is wrong with them is told when they are read.
 */
static void take_services(const json_t *services, cay_create *c, cay__arena *mem)
{
    char *text = NULL;
    if (!c->services && services && !json_is_null(services))
        text = cay__json_text(services, CAY_MANIFEST_BYTES);
    if (text)
        c->services = cay__arena_adopt(mem, text);
}

static int apply_image(cay__spec *s, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    cay_create *c = &s->create;
    cay__arena *mem = s->mem;
    CAY_TRY(cay__json_object("record: image", s->template_config, &o, err));
    take_env(json_object_get(o, "env"), c, mem);
    take_limits(json_object_get(o, "limits"), &c->limits);
    if (!c->process.user)
        take_user(o, c, mem);
    const char *dir = cay__json_str(o, "workdir", "");
    if (!c->process.workdir && *dir == '/')
        c->process.workdir = cay__arena_str(mem, dir);
    take_services(json_object_get(o, "services"), c, mem);
    c->isolation.sudo |= cay__json_bool(o, "sudo", false);
    return 0;
}

/* What the sandbox behind the snapshot had. */
static int from_snapshot(cay_client *client, cay__spec *s, const cay_pair **settings, cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *row = NULL;
    CAY_AUTOJSON *o = NULL;
    cay__arena *mem = s->mem;
    CAY_TRY(cay__snap_row(client, s->create.from.snapshot, &row, err));
    CAY_TRY(cay__json_object("record: spec", row->row.spec, &o, err));
    const struct {
        const char *key, **to;
    } texts[] = { { "image", &s->template_config },
                  { "template_id", &s->box.template_id },
                  { "template_name", &s->box.template_name } };
    CAY_EACH(text, texts) {
        const char *v = cay__json_str(o, text->key, NULL);
        *text->to = CAY_IF(v, cay__arena_str(mem, v));
    }
    take_services(json_object_get(o, "services"), &s->create, mem);
    *settings = cay__pairs_read(mem, json_object_get(o, "settings"));
    return 0;
}

static int from_template(cay_client *client, const cay_call *call, cay__spec *s, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    cay_create *c = &s->create;
    cay__arena *mem = s->mem;
    CAY_TRY(cay_template_find(client, call, c->tenant, c->from.template_, &t, err));
    cay__stack *stack = cay__arena_take(mem, sizeof *stack);
    CAY_TRY(cay__stack_of(t->layers, t->nlayers, stack, err));
    s->box.layers = stack->name;
    s->box.nlayers = stack->n;
    const char *name = c->from.template_;
    if (!t->names[0])
        name = t->id;
    else if (cay__id_valid(name, 't'))
        name = t->names[0];
    s->box.template_name = cay__arena_str(mem, name);
    s->box.template_id = cay__arena_str(mem, t->id);
    c->from.template_ = cay__arena_str(mem, t->base);
    s->template_config = cay__arena_str(mem, t->config);
    return 0;
}

int cay__template_prepare(cay_client *client, const cay_call *call, cay__spec *s, cay_err *err)
{
    const cay_pair *before = NULL;
    const cay_create *c = &s->create;
    s->template_config = s->box.template_id = s->box.template_name = NULL;
    if (c->from.snapshot)
        CAY_TRY(from_snapshot(client, s, &before, err));
    else if (!c->from.root && c->from.template_ && !strcmp(c->from.template_, CAY__BASE_IMAGE))
        s->box.template_id = ""; /* nothing at all, for who puts a root filesystem together */
    else if (!c->from.root && c->from.template_ && strcmp(c->from.template_, CAY__BASE_HOST) != 0)
        CAY_TRY(from_template(client, call, s, err));
    CAY_TRY(cay__settings_prepare(s, before, err));
    if (s->template_config)
        return apply_image(s, err);
    return 0;
}

/* Of a server's: what its template says; a snapshot's is known there alone. */
static int told_there(cay_client *client, const cay_call *call, const cay_create *c, char **config,
                      cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    if (c->from.snapshot || !c->from.template_ || !strcmp(c->from.template_, CAY__BASE_HOST) ||
        !strcmp(c->from.template_, CAY__BASE_IMAGE)) {
        *config = cay__strdup("{}");
        return 0;
    }
    CAY_TRY(cay_template_find(client, call, NULL, c->from.template_, &t, err));
    *config = cay__strdup(t->config);
    return 0;
}

int cay_template_config_get(cay_client *client, const cay_call *call, const cay_create *given,
                            char **config, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay__spec s = { .mem = &mem };
    CAY_TRY(cay__spec_take(&s.create, sizeof s.create, given, "cay_create", err));
    if (client->remote)
        return told_there(client, call, &s.create, config, err);
    CAY_TRY(cay__template_prepare(client, call, &s, err));
    *config = cay__strdup(CAY_OR(s.template_config, "{}"));
    return 0;
}

/* Where a sandbox mounts or writes something of its own, a root filesystem has a directory or
 * nothing: a link there would lead elsewhere, a file cannot be mounted upon. */
static const char *const needed[] = { "proc", "dev", "run", "etc", "tmp", "workspace" };

/* What the uppermost layer that has it shows; false: none has. A mark of removal (a character
 * device 0:0) is nothing. */
static bool find_topmost(const cay_client *client, const cay__stack *s, const char *name,
                         mode_t *kind)
{
    struct stat st;
    char path[100];
    for (size_t i = s->n; i-- > 0;) {
        CAY_JOIN(path, CAY__LAYERS_DIR "/", s->name[i], "/", name);
        if (fstatat(client->home_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        *kind = st.st_mode & S_IFMT;
        return !S_ISCHR(st.st_mode);
    }
    return false;
}

int cay__template_root_check(const cay_client *client, const char *base, const char *layers,
                             cay_err *err)
{
    cay__stack s;
    mode_t kind;
    if (strcmp(base, CAY__BASE_IMAGE) != 0)
        return 0;
    CAY_TRY(cay__stack_read(layers, &s, err));
    CAY_EACH(it, needed)
        if (find_topmost(client, &s, *it, &kind) && kind != S_IFDIR)
            return cay_fail_why(err, CAY_EINVAL, "image_root",
                                "its /%s is %s, and a sandbox needs a directory there or nothing: "
                                "make the image with one",
                                *it, kind == S_IFLNK ? "a symbolic link" : "no directory");
    return 0;
}
