/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state comes from anywhere. It is read strictly: every field has its type and bound, what it
 * does not have is not guessed, keys that are not known are nobody's business, and a field that
 * would give a right makes the whole of it refused.
 */
#include "state.h"
#include <base/sha256.h>
#include <lib/client/client.h>
#include <base/json.h>
#include <base/mutant.h>
#include <cay/state.h>
#include <lib/sandbox/limits.h>

enum { LIST_MAX = 256, TEXT_MAX = 4096 };

static int fail_invalid(const char *field, const char *why, cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "state_invalid", "state: %s %s", field, why);
}

static int fail_refused(const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_EPERM, "state_refused",
                        "state: it holds %s, which no state may; whoever resumes gives that", what);
}

static int take_text(const json_t *o, const char *key, bool must, cay__arena *mem, const char **out,
                     cay_err *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) {
        if (must)
            return fail_invalid(key, "is missing", err);
        return 0;
    }
    const char *s = cay__json_str(o, key, NULL);
    if (!s || strlen(s) > TEXT_MAX)
        return fail_invalid(key, "is not a short string", err);
    *out = cay__arena_str(mem, s);
    return 0;
}

static int take_bool(const json_t *o, const char *key, bool *out, cay_err *err)
{
    const json_t *v = json_object_get(o, key);
    if (v && !json_is_boolean(v))
        return fail_invalid(key, "is not true or false", err);
    *out = json_is_true(v);
    return 0;
}

static int take_names(const json_t *o, const char *key, cay__arena *mem, const char *const **out,
                      cay_err *err)
{
    const json_t *a = json_object_get(o, key);
    size_t n = json_array_size(a);
    if (a && (!json_is_array(a) || n > LIST_MAX))
        return fail_invalid(key, "is not a list of at most 256 names", err);
    const char **list = cay__arena_take(mem, (n + !CAY__MUTANT("fuzz-state")) * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const char *s = cay__json_cstr(json_array_get(a, i));
        if (!s || !*s || strlen(s) > TEXT_MAX)
            return fail_invalid(key, "has something that is no name", err);
        list[i] = cay__arena_str(mem, s);
    }
    *out = list;
    return 0;
}

static int take_things(const json_t *o, const char *key, bool named, cay__arena *mem,
                       const cay__state_thing **out, size_t *n, cay_err *err)
{
    const json_t *a = json_object_get(o, key);
    *n = json_array_size(a);
    if (a && (!json_is_array(a) || *n > LIST_MAX))
        return fail_invalid(key, "is not a list of at most 256", err);
    cay__state_thing *list = cay__arena_take(mem, (*n + 1) * sizeof *list);
    for (size_t i = 0; i < *n; i++) {
        const json_t *v = json_array_get(a, i);
        list[i].name = "";
        CAY_TRY(take_text(v, "target", true, mem, &list[i].target, err));
        CAY_TRY(take_text(v, "name", named, mem, &list[i].name, err));
        CAY_TRY(take_bool(v, "rw", &list[i].rw, err));
        if (json_object_get(v, "source") || json_object_get(v, "host_path"))
            return fail_refused("a path of the host", err);
        if (named && !cay__volume_name(list[i].name))
            return fail_invalid(key, "names something that is no volume", err);
    }
    *out = list;
    return 0;
}

static int take_id(const json_t *o, const char *key, char kind, char out[CAY_ID_LEN + 1],
                   cay_err *err)
{
    const char *s = cay__json_str(o, key, "");
    if (!cay__id_valid(s, kind))
        return fail_invalid(key, "is not an id", err);
    memcpy(out, s, CAY_ID_LEN + 1);
    return 0;
}

static int take_snapshot(const json_t *o, cay__state *s, cay_err *err)
{
    const json_t *v = json_object_get(o, "snapshot");
    const char *type = cay__json_str(v, "type", ""), *print = NULL, *version = NULL;
    if (!strcmp(type, "noop"))
        return 0;
    if (strcmp(type, CAY__STATE_TYPE) != 0)
        return fail_invalid("snapshot", "has a type that is not known; there are: cay, noop", err);
    CAY_TRY(take_id(v, "id", 's', s->snapshot, err));
    CAY_TRY(take_text(o, "snapshot_fingerprint", false, &s->mem, &print, err));
    CAY_TRY(take_text(o, "snapshot_fingerprint_version", false, &s->mem, &version, err));
    if (!print || !version || strcmp(version, CAY__STATE_FINGERPRINT) != 0)
        return 0; /* of another making: never equal, so the snapshot is what counts */
    if (!cay__hex_is(print, 64))
        return fail_invalid("snapshot_fingerprint", "is not 64 hex digits", err);
    memcpy(s->fingerprint, print, 65);
    return 0;
}

/* The same form as a record's, and the same reader; what would give a right is not allowed in it.
 */
static int take_sandbox(const json_t *o, cay__state *s, cay_err *err)
{
    static const struct {
        const char *key, *what;
    } rights[] = { { "root", "a root directory of the host" },
                   { "grants", "directories of the host" },
                   { "net", "a network policy" },
                   { "secrets", "sources of secrets" },
                   { "volumes", "volumes" },
                   { "on", "a directory of the host" },
                   { "manifest", "a manifest to apply" },
                   { "layers", "layers" },
                   { "from", "another snapshot" },
                   { "min_level", "a level of isolation of its own" },
                   { "sudo", "sudo" } };
    const json_t *v = json_object_get(o, "sandbox"), *labels = json_object_get(v, "labels"),
                 *meta = json_object_get(v, "metadata");
    if (!json_is_object(v))
        return fail_invalid("sandbox", "is missing", err);
    CAY_EACH(right, rights) {
        const json_t *r = json_object_get(v, right->key);
        if (r && !json_is_null(r) && !(json_is_array(r) && !json_array_size(r)))
            return fail_refused(right->what, err);
    }
    CAY_AUTOFREE char *spec = cay__json_text(v, CAY__SPEC_MAX),
                      *lab = labels ? cay__json_text(labels, CAY__SPEC_MAX) : cay__strdup("{}"),
                      *md = meta && !json_is_null(meta) ? cay__json_text(meta, CAY__SPEC_MAX)
                                                        : cay__strdup("");
    if (!spec || !lab || !md || (*md && !json_is_object(meta)))
        return fail_invalid("sandbox", "is too large, or its metadata is no object", err);
    cay_row row = { .size = sizeof row,
                    .provider = s->provider,
                    .name = cay__json_str(v, "name", ""),
                    .spec = spec,
                    .labels = lab,
                    .metadata = md };
    cay_err why = CAY_ERR_INIT;
    if (cay__spec_read(&row, &s->spec, &why) < 0 ||
        cay__create_check(cay__spec_box(s->spec), -1, "", &why) < 0)
        return cay_fail_why(err, CAY_EINVAL, "state_invalid", "state: sandbox: %.150s", why.msg);
    return 0;
}

static int take_redacted(const json_t *o, cay__state *s, cay_err *err)
{
    const json_t *v = json_object_get(o, "redacted");
    bool marker = false;
    if (v && !json_is_object(v))
        return fail_invalid("redacted", "is not an object", err);
    CAY_TRY(take_bool(o, CAY__STATE_MOUNTS, &marker, err));
    CAY_TRY(take_bool(v, "root", &s->root, err));
    CAY_TRY(take_bool(v, "on", &s->on, err));
    CAY_TRY(take_bool(v, "network", &s->network, err));
    CAY_TRY(take_bool(v, "mounts", &s->mounts, err));
    s->mounts |= marker;
    CAY_TRY(take_things(v, "grants", false, &s->mem, &s->grants, &s->ngrants, err));
    CAY_TRY(take_things(v, "volumes", true, &s->mem, &s->volumes, &s->nvolumes, err));
    CAY_TRY(take_names(v, "secrets", &s->mem, &s->secrets, err));
    CAY_TRY(take_names(v, "environment", &s->mem, &s->variables, err));
    return take_names(v, "ephemeral", &s->mem, &s->entries, err);
}

/* It is only compared, never applied. Still, a raw host path in it says that somebody did not go
 * through us. */
static int take_manifest(const json_t *o, cay__state *s, cay_err *err)
{
    const json_t *v = json_object_get(o, "manifest"),
                 *grants = json_object_get(v, "extra_path_grants"), *g;
    size_t i;
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_object(v) || (grants && !json_is_array(grants)))
        return fail_invalid("manifest", "is not a manifest", err);
    json_array_foreach(grants, i, g)
        if (json_object_get(g, "host_path"))
            return fail_refused("a grant with a path of the host", err);
    char *text = cay__json_text(v, CAY_STATE_BYTES);
    if (!text)
        return fail_invalid("manifest", "is too large", err);
    s->manifest = cay__arena_adopt(&s->mem, text);
    return 0;
}

static int take_head(const json_t *o, cay__state *s, cay_err *err)
{
    const char *type = NULL;
    CAY_TRY(take_text(o, "type", true, &s->mem, &type, err));
    if (strcmp(type, CAY__STATE_TYPE) != 0)
        return cay_fail_why(err, CAY_EINVAL, "state_invalid",
                            "state: type %.40s is not known; there is: %s", type, CAY__STATE_TYPE);
    int64_t version = cay__json_int(o, "version", 0), level = cay__json_int(o, "isolation", -1);
    if (version != CAY__STATE_VERSION)
        return fail_invalid("version", "is not known to this cay", err);
    if (level < CAY_LEVEL_NONE || level > CAY_LEVEL_VM)
        return fail_invalid("isolation", "is not a level from 0 to 4", err);
    s->level = (int)level;
    CAY_TRY(take_id(o, "session_id", 'c', s->id, err));
    CAY_TRY(take_text(o, "provider", true, &s->mem, &s->provider, err));
    CAY_TRY(take_text(o, "template", false, &s->mem, &s->template_, err));
    return take_bool(o, "workspace_root_ready", &s->ready, err);
}

static int read_all(const json_t *o, cay__state *s, cay_err *err)
{
    CAY_TRY(take_head(o, s, err));
    CAY_TRY(take_snapshot(o, s, err));
    CAY_TRY(take_sandbox(o, s, err));
    CAY_TRY(take_redacted(o, s, err));
    return take_manifest(o, s, err);
}

int cay__state_read(const char *text, size_t len, cay__state **out, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    if (len > CAY_STATE_BYTES)
        return cay_fail_why(err, CAY_ETOOBIG, "state_too_big", "a state has at most %u bytes",
                            CAY_STATE_BYTES);
    CAY_AUTOFREE char *copy = cay__alloc(len + 1);
    memcpy(copy, text, len);
    if (memchr(copy, 0, len))
        return fail_invalid("text", "has a NUL byte", err);
    cay_err why = CAY_ERR_INIT;
    if (cay__json_object("state", copy, &o, &why) < 0)
        return cay_fail_why(err, CAY_EINVAL, "state_invalid", "%.200s", why.msg);
    CAY_AUTOJSON *inner = NULL;
    if (cay__state_is_js(o))
        CAY_TRY(cay__state_from_js(o, &inner, err));
    cay__state *s = cay__alloc(sizeof *s);
    int rc = read_all(CAY_OR(inner, o), s, err);
    if (rc < 0)
        cay__state_free(s);
    else
        *out = s;
    return rc;
}

void cay__state_free(cay__state *s)
{
    if (!s)
        return;
    cay__spec_free(s->spec);
    cay__arena_clear(&s->mem);
    free(s);
}

void cay__state_fingerprint(const char *snapshot, const char *manifest, char out[65])
{
    char inner[CAY__SHA256_HEX], both[CAY__SHA256_HEX + 64];
    const char *m = CAY_OR(manifest, "");
    cay__sha256_hex(m, strlen(m), inner);
    CAY_JOIN(both, snapshot, "\n", inner);
    cay__sha256_hex(both, strlen(both), out);
}
