/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"
#include <base/json.h>
#include <cay/manifest.h>
#include <cay/state.h>

#define DEPTH_MAX CAY_MANIFEST_DEPTH

bool cay__state_has(const json_t *names, const char *name)
{
    size_t i;
    const json_t *v;
    json_array_foreach(names, i, v)
        if (!strcmp(json_string_value(v), name))
            return true;
    return false;
}

static bool is_mount(const char *type)
{
    size_t n = strlen(type);
    return n >= 5 && !strcmp(type + n - 5, "mount");
}

/* Where a value is read from is the business of who has it. */
static bool is_reference(const json_t *v)
{
    return json_is_object(v) &&
           (json_object_get(v, "source") || is_reference(json_object_get(v, "value")));
}

static void drop_references(json_t *entry)
{
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(entry, next, key, v)
        if (is_reference(v) || !strcmp(key, "credentials") || !strcmp(key, "headers")) {
            json_object_del(entry, key);
            json_object_set_new(entry, "redacted", json_true());
        }
}

static void redact_entries(json_t *entries, const char *above, unsigned depth,
                           cay__state_manifest *m)
{
    const char *key;
    json_t *e;
    if (depth > DEPTH_MAX)
        return;
    json_object_foreach(entries, key, e) {
        CAY_AUTOBUF path = CAY__BUF(CAY_MANIFEST_PATH + 1);
        const char *type = cay__json_str(e, "type", "");
        cay__buf_fmt(&path, "%s%s%s", above, CAY_TEXT_IF(*above, "/"), key);
        if (path.full)
            continue;
        drop_references(e);
        if (is_mount(type)) {
            m->mounts = true;
            json_object_del(e, "source"); /* of a bind: a path of the host */
        } else if (cay__json_bool(e, "ephemeral", false)) {
            json_array_append_new(m->ephemeral, json_string(path.data));
            json_object_del(e, "content");
            json_object_set_new(e, "redacted", json_true());
        }
        redact_entries(json_object_get(e, "children"), path.data, depth + 1, m);
    }
}

static void redact_variables(json_t *environment, cay__state_manifest *m)
{
    json_t *values = json_object_get(environment, "value"), *v;
    const char *key;
    json_object_foreach(json_is_object(values) ? values : environment, key, v) {
        if (!cay__json_bool(v, "ephemeral", false) && !cay__json_bool(v, "redacted", false) &&
            !is_reference(v))
            continue;
        json_array_append_new(m->variables, json_string(key));
        json_object_del(v, "value");
        json_object_del(v, "source");
        json_object_set_new(v, "redacted", json_true());
    }
}

static void redact_grants(json_t *grants, cay__state_manifest *m)
{
    for (size_t i = json_array_size(grants); i-- > 0;) {
        const json_t *g = json_array_get(grants, i);
        if (!json_object_get(g, "host_path") && !cay__json_bool(g, "redacted", false))
            continue;
        json_array_insert_new(m->grant_paths, 0, json_string(cay__json_str(g, "path", "")));
        json_array_remove(grants, i);
    }
}

static int redact_manifest(const char *json, cay__state_manifest *m, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__json_object("manifest", json, &o, err));
    redact_entries(json_object_get(o, "entries"), "", 0, m);
    redact_variables(json_object_get(o, "environment"), m);
    redact_grants(json_object_get(o, "extra_path_grants"), m);
    m->policy = json_object_get(o, "policy") != NULL;
    json_object_del(o, "policy"); /* what it may reach is given, not believed */
    m->text = cay__json_text(o, CAY_STATE_BYTES);
    if (m->text)
        return 0;
    return cay_fail_why(err, CAY_ETOOBIG, "state_too_big", "the manifest has more than %u bytes",
                        CAY_STATE_BYTES);
}

static int on_target(const cay_mount_target *t, void *arg)
{
    json_array_append_new(arg, json_string(t->path));
    return 0;
}

static void init_manifest(cay__state_manifest *m)
{
    *m = (cay__state_manifest){ .variables = json_array(),
                                .ephemeral = json_array(),
                                .grant_paths = json_array(),
                                .targets = json_array() };
}

int cay__state_manifest_of(const char *text, cay__state_manifest *out, cay_err *err)
{
    CAY_AUTOFREE char *json = NULL;
    cay_manifest *m = NULL;
    init_manifest(out);
    if (!text)
        return 0;
    CAY_TRY(cay_manifest_parse(text, strlen(text), CAY_MANIFEST_TRUSTED, &m, err));
    cay_manifest_mounts(m, on_target, out->targets);
    int rc = cay_manifest_to_json(m, &json, err);
    cay_manifest_free(m);
    CAY_TRY(rc);
    return redact_manifest(json, out, err);
}

void cay__state_manifest_clear(cay__state_manifest *m)
{
    free(m->text);
    json_decref(m->variables);
    json_decref(m->ephemeral);
    json_decref(m->grant_paths);
    json_decref(m->targets);
    *m = (cay__state_manifest){ 0 };
}

static int fail_differs(const char *path, const char *how, cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "state_topology",
                        "the manifest is not the state's: %.120s %s", path, how);
}

static int same_entries(const json_t *a, const json_t *b, const char *above, unsigned depth,
                        cay_err *err);

static int same_entry(const json_t *a, const json_t *b, const char *path, unsigned depth,
                      cay_err *err)
{
    static const char *const words[] = { "mount_strategy", "pattern" };
    const json_t *sa = a, *sb = b;
    if (strcmp(cay__json_str(a, "type", ""), cay__json_str(b, "type", "")) != 0)
        return fail_differs(path, "has another type", err);
    CAY_EACH(word, words) {
        sa = json_object_get(sa, *word);
        sb = json_object_get(sb, *word);
        if (strcmp(cay__json_str(sa, "type", ""), cay__json_str(sb, "type", "")) != 0)
            return fail_differs(path, "has another mount strategy", err);
    }
    if (strcmp(cay__json_str(a, "mount_path", ""), cay__json_str(b, "mount_path", "")) != 0)
        return fail_differs(path, "is mounted elsewhere", err);
    return same_entries(json_object_get(a, "children"), json_object_get(b, "children"), path,
                        depth + 1, err);
}

static int same_entries(const json_t *a, const json_t *b, const char *above, unsigned depth,
                        cay_err *err)
{
    const char *key;
    json_t *e;
    if (depth > DEPTH_MAX)
        return fail_differs(above, "is too deep", err);
    json_object_foreach((json_t *)b, key, e)
        if (!json_object_get(a, key))
            return fail_differs(key, "is not in it", err);
    json_object_foreach((json_t *)a, key, e) {
        CAY_AUTOBUF path = CAY__BUF(CAY_MANIFEST_PATH + 1);
        const json_t *other = json_object_get(b, key);
        cay__buf_fmt(&path, "%s%s%s", above, CAY_TEXT_IF(*above, "/"), key);
        if (!other || path.full)
            return fail_differs(key, "is missing", err);
        CAY_TRY(same_entry(e, other, path.data, depth, err));
    }
    return 0;
}

int cay__state_topology(const char *state, const char *given, cay_err *err)
{
    CAY_AUTOJSON *a = NULL, *b = NULL;
    CAY_TRY(cay__json_object("state: manifest", CAY_OR(state, "{}"), &a, err));
    CAY_TRY(cay__json_object("manifest", CAY_OR(given, "{}"), &b, err));
    if (strcmp(cay__json_str(a, "root", "/workspace"), cay__json_str(b, "root", "/workspace")) != 0)
        return fail_differs("root", "is another", err);
    return same_entries(json_object_get(a, "entries"), json_object_get(b, "entries"), "", 0, err);
}
