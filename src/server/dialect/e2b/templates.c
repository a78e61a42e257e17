/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: what a sandbox starts from. Theirs are called NAME:TAG, tag `default` unless said; a
 * template's id is its name without a tag, so that it is known before it is built.
 */
#include "e2b.h"
#include <time.h>
#include <wire/shapes.h>

static const char *const bases[] = { "base", "code-interpreter-v1", "host" };

bool e2b_is_base(const char *name)
{
    size_t n = strcspn(name, ":");
    CAY_EACH(base, bases)
        if (strlen(*base) == n && !strncmp(*base, name, n))
            return true;
    return false;
}

/* [a-z0-9-_]+, with a namespace that is left out: there is one for each key. */
int e2b_template_name(cay__req *r, const char *given, const char *tag, const char **out,
                      cay_err *err)
{
    static const char letters[] =
        ".abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"; /* of a tag */
    const char *slash = strrchr(given, '/'), *name = slash ? slash + 1 : given;
    size_t n = strcspn(name, ":");
    const char *own = CAY_IF(name[n], name + n + 1);
    if (!n || n > 128 || strspn(name, letters + 1) != n ||
        (own && (!strspn(own, letters) || strlen(own) > 64)))
        return cay_fail(err, CAY_EINVAL,
                        "a template's name has 1 to 128 letters, digits, '-' and '_', and maybe "
                        "\":TAG\": %.60s",
                        given);
    if (own && own[strspn(own, letters)])
        return cay_fail(err, CAY_EINVAL, "a tag has letters, digits, '-', '_' and '.': %.60s", own);
    char *text = cay__req_text(r, "%.*s:%s", (int)n, name, CAY_OR(tag, CAY_OR(own, "default")));
    for (char *c = text; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + 32);
    *out = text;
    return 0;
}

int e2b_template_find(cay__req *r, const char *ref, cay_template **out, cay_err *err)
{
    const char *name;
    int rc = CAY_ENOENT;
    if (e2b_template_name(r, ref, NULL, &name, NULL) == 0)
        rc = cay_template_find(r->client, &r->call, cay__req_tenant(r), name, out, NULL);
    if (rc == CAY_ENOENT) /* by its id, or as others call theirs: image, image:latest,
                             registry/path:tag */
        rc = cay_template_find(r->client, &r->call, cay__req_tenant(r), ref, out, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(
            err, CAY_ENOENT, "template_not_found",
            "template '%.80s' not found: there are base, your templates and your snapshots", ref);
    return rc;
}

int e2b_snapshot_find(cay__req *r, const char *name, cay_snapshot **out, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    bool own = e2b_template_find(r, name, &t, NULL) == 0 && !strcmp(t->tenant, r->who.tenant);
    if (own)
        return cay_fail_why(err, CAY_ENOENT, "snapshot_not_found", "%.80s is a template", name);
    char *ref = cay__arena_str(&r->arena, name), *tag = strstr(ref, ":default");
    if (tag && !tag[8])
        *tag = 0;
    return cay_client_snapshot_of(r->client, &r->call, cay__req_tenant(r), ref, out, err);
}

bool e2b_has_base(cay__req *r, const char *name)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    return strncmp(name, "host", 4) != 0 && e2b_template_find(r, name, &t, NULL) == 0;
}

static json_t *base_template(void)
{
    return json_loads(
        "{\"templateID\":\"base\",\"buildID\":\"00000000-0000-0000-0000-000000000000\","
        "\"cpuCount\":2,\"memoryMB\":2048,\"diskSizeMB\":10240,\"public\":true,"
        "\"aliases\":[\"base\"],\"names\":[\"base\"],\"createdAt\":\"2026-01-01T00:00:00Z\","
        "\"updatedAt\":\"2026-01-01T00:00:00Z\",\"createdBy\":null,\"lastSpawnedAt\":null,"
        "\"spawnCount\":0,\"buildCount\":1,\"envdVersion\":\"" E2B_ENVD_VERSION
        "\",\"buildStatus\":\"ready\"}",
        0, NULL);
}

char *e2b_without_tag(cay__req *r, const char *name)
{
    return cay__req_text(r, "%.*s", (int)strcspn(name, ":"), name);
}

static json_t *strip_tag(const char *name)
{
    return json_stringn(name, strcspn(name, ":"));
}

static int64_t limit_of(const json_t *config, const char *key, int64_t none)
{
    return cay__json_int(json_object_get(config, "limits"), key, none);
}

static json_t *template_json(const cay_template *t)
{
    CAY_AUTOJSON *config = NULL, *names = json_array(), *aliases = json_array();
    char when[32];
    const char *first = CAY_IF(t->names, t->names[0]);
    cay__json_object("config", t->config, &config, NULL);
    for (const char *const *name = t->names; name && *name; name++) {
        const char *tag = strchr(*name, ':');
        json_array_append_new(names, json_string(*name));
        if (!tag || !strcmp(tag, ":default"))
            json_array_append_new(aliases, strip_tag(*name));
    }
    return json_pack(
        "{s:o,s:s,s:I,s:I,s:I,s:b,s:O,s:O,s:s,s:s,s:n,s:n,s:I,s:i,s:s,s:s}", "templateID",
        strip_tag(CAY_OR(first, t->id)), "buildID", t->id, "cpuCount",
        (json_int_t)(limit_of(config, CAY__CPU_MILLI, 2000) + 999) / 1000, "memoryMB",
        (json_int_t)(limit_of(config, "memory", (int64_t)2048 << 20) >> 20), "diskSizeMB",
        (json_int_t)(limit_of(config, "disk", (int64_t)10240 << 20) >> 20), "public", t->shared,
        "aliases", aliases, "names", names, "createdAt", e2b_when(t->created_ms, when), "updatedAt",
        when, "createdBy", "lastSpawnedAt", "spawnCount", (json_int_t)t->users, "buildCount", 1,
        "envdVersion", E2B_ENVD_VERSION, "buildStatus", "ready");
}

static int add_template(const cay_template *t, void *arg)
{
    json_array_append_new(arg, template_json(t));
    return 0;
}

int e2b_on_templates(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *list = json_array();
    const cay_template_filter f = { .size = sizeof f, .tenant = cay__req_tenant(r) };
    json_array_append_new(list, base_template());
    CAY_TRY(cay_template_list(r->client, &r->call, &f, add_template, list, err));
    return cay__reply_json(r, 200, json_incref(list));
}

int e2b_on_template(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    json_t *o;
    if (e2b_is_base(r->param[0])) {
        o = base_template();
    } else {
        CAY_TRY(e2b_template_find(r, r->param[0], &t, err));
        o = template_json(t);
    }
    json_t *when = json_object_get(o, "createdAt");
    json_object_set_new(
        o, "builds",
        json_pack("[{s:O,s:s,s:O,s:O,s:O,s:O}]", "buildID", json_object_get(o, "buildID"), "status",
                  "ready", "createdAt", when, "updatedAt", when, "cpuCount",
                  json_object_get(o, "cpuCount"), "memoryMB", json_object_get(o, "memoryMB")));
    return cay__reply_json(r, 200, o);
}

int e2b_on_alias(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    if (e2b_is_base(r->param[0]))
        return cay__reply_pack(r, 200, "{s:s,s:b}", "templateID", "base", "public", true);
    CAY_TRY(e2b_template_find(r, r->param[0], &t, err));
    return cay__reply_pack(r, 200, "{s:o,s:b}", "templateID", strip_tag(r->param[0]), "public",
                           t->shared);
}

int e2b_on_template_delete(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    bool deferred;
    CAY_AUTOPTR(cay_template) t = NULL;
    if (e2b_snapshot_find(r, r->param[0], &s, NULL) == 0) {
        CAY_TRY(cay_snapshot_remove(r->client, &r->call, s->id, &deferred, err));
    } else {
        CAY_TRY(e2b_template_find(r, r->param[0], &t, err));
        CAY_TRY(cay_template_remove(r->client, &r->call, cay__req_tenant(r), t->id, err));
    }
    return cay__reply_empty(r, 204);
}

/* {"public"}: for other tenants, too. What is shared may stand in for an image of that name when
 * they build, so it is the operator's to say. */
int e2b_on_template_patch(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    json_t *in;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(e2b_template_find(r, r->param[0], &t, err));
    const json_t *public = json_object_get(in, "public");
    if (public && !json_is_boolean(public))
        return cay_fail(err, CAY_EINVAL, "public is true or false");
    if (public && json_is_true(public) != t->shared) {
        CAY_TRY(cay__req_shared(r, "publishing templates", err));
        CAY_TRY(cay_template_share(r->client, &r->call, cay__req_tenant(r), t->id,
                                   json_is_true(public), err));
    }
    CAY_AUTOJSON *o = template_json(t);
    return cay__reply_pack(r, 200, "{s:O}", "names", json_object_get(o, "names"));
}

static int tag_list(const json_t *in, const json_t **out, cay_err *err)
{
    const json_t *v;
    size_t i;
    *out = json_object_get(in, "tags");
    if (!json_is_array(*out) || !json_array_size(*out) || json_array_size(*out) > 32)
        return cay_fail(err, CAY_EINVAL, "tags is a list of 1 to 32 texts");
    json_array_foreach(*out, i, v)
        if (!cay__json_cstr(v))
            return cay_fail(err, CAY_EINVAL, "tags[%zu] is not a text", i);
    return 0;
}

int e2b_on_tags_add(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    json_t *in;
    const json_t *tags, *v;
    size_t i;
    const char *target, *name;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(e2b_template_name(r, target = cay__json_str(in, "target", ""), NULL, &name, err));
    CAY_TRY(tag_list(in, &tags, err));
    CAY_TRY(e2b_template_find(r, target, &t, err));
    json_array_foreach(tags, i, v) {
        CAY_TRY(e2b_template_name(r, target, json_string_value(v), &name, err));
        CAY_TRY(cay_template_name(r->client, &r->call, cay__req_tenant(r), t->id, name, err));
    }
    return cay__reply_pack(r, 201, "{s:s,s:O}", "buildID", t->id, "tags", tags);
}

int e2b_on_tags_remove(cay__req *r, cay_err *err)
{
    json_t *in;
    const json_t *tags, *v;
    size_t i;
    const char *name;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(tag_list(in, &tags, err));
    json_array_foreach(tags, i, v) {
        CAY_TRY(
            e2b_template_name(r, cay__json_str(in, "name", ""), json_string_value(v), &name, err));
        CAY_TRY(cay_template_remove(r->client, &r->call, cay__req_tenant(r), name, err));
    }
    return cay__reply_empty(r, 204);
}

typedef struct tags {
    json_t *list;
    const char *name;
} tags;

static int add_tags(const cay_template *t, void *arg)
{
    tags *l = arg;
    size_t n = strlen(l->name);
    char when[32];
    for (const char *const *name = t->names; name && *name; name++)
        if (!strncmp(*name, l->name, n) && (*name)[n] == ':')
            json_array_append_new(l->list,
                                  json_pack("{s:s,s:s,s:s}", "tag", *name + n + 1, "buildID", t->id,
                                            "createdAt", e2b_when(t->created_ms, when)));
    return 0;
}

int e2b_on_tags(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *list = json_array();
    const char *name;
    CAY_TRY(e2b_template_name(r, r->param[0], NULL, &name, err));
    const char *cut = e2b_without_tag(r, name);
    tags l = { list, cut };
    const cay_template_filter f = { .size = sizeof f, .tenant = cay__req_tenant(r) };
    CAY_TRY(cay_template_list(r->client, &r->call, &f, add_tags, &l, err));
    if (!json_array_size(list))
        return cay_fail_why(err, CAY_ENOENT, "template_not_found", "template '%.80s' not found",
                            cut);
    return cay__reply_json(r, 200, json_incref(list));
}

static bool is_sandbox_ready(cay__req *r, cay_sandbox *sb, const char *command)
{
    const char *argv[] = { "/bin/bash", "-l", "-c", command, NULL };
    const cay_spawn s = { .size = sizeof s, .argv = argv, .timeout_ms = 10000 };
    cay_result res = { .size = sizeof res };
    bool yes = cay_sandbox_run(sb, &r->call, &s, NULL, 0, 4096, &res, NULL) == 0 &&
               res.exit.code == 0 && !res.exit.signal;
    cay_result_clear(&res);
    return yes;
}

int e2b_template_start(cay__req *r, cay_sandbox *sb, const char *config, cay_err *err)
{
    enum { READY_MS = 60000 };
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__json_object("config", config, &o, err));
    const char *start = cay__json_str(o, "start", ""), *command = cay__json_str(o, "ready", "");
    const char *argv[] = { "/bin/bash", "-l", "-c", start, NULL };
    const cay_spawn s = {
        .size = sizeof s, .argv = argv, .tag = "e2b-start", .stdin_mode = CAY_STDIN_NULL
    };
    CAY_AUTOPTR(cay_proc) p = NULL;
    if (*start)
        CAY_TRY(cay_sandbox_spawn(sb, &r->call, &s, &p, err));
    int64_t end = cay__now_ms() + READY_MS;
    for (unsigned pause_ms = 20; *command && !is_sandbox_ready(r, sb, command);
         pause_ms = CAY_MIN(2 * pause_ms, 1000u)) {
        if (cay__now_ms() > end)
            return cay_fail_why(err, CAY_ETIMEOUT, "template_not_ready",
                                "the template's ready command did not succeed in %d s",
                                READY_MS / 1000);
        nanosleep(&(struct timespec){ .tv_sec = pause_ms / 1000,
                                      .tv_nsec = (pause_ms % 1000) * 1000000L },
                  NULL);
    }
    return 0;
}
