/* SPDX-License-Identifier: Apache-2.0 */
/* What an image's documents say. Every byte of them is a stranger's. */
#include "image.h"
#include <base/json.h>
#include <base/mutant.h>
#include <sys/utsname.h>

#define SIZE_MOST (16ull << 30)

static const char *const layer_types[] = {
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
};

static int fail_invalid(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_EINVAL, "image_invalid", "the image's %s", what);
}

bool cay__digest_ok(const char *s)
{
    return s && cay__str_starts(s, "sha256:") && strlen(s) == 71 && cay__hex_len(s + 7) == 64;
}

/* Strict, but for what others write as well: a key that comes twice is refused, text after it too.
 */
static int parse_object(const char *text, size_t len, json_t **out, cay_err *err)
{
    if (len > CAY__IMAGE_DOC_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "image_invalid",
                            "a document of the image is longer than %u bytes", CAY__IMAGE_DOC_MAX);
    json_error_t e;
    json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
    if (!j || !json_is_object(j)) {
        json_decref(j);
        return fail_invalid(err, "document is no JSON object");
    }
    *out = j;
    return 0;
}

static int take_blob(const json_t *d, cay__blob *out, cay_err *err)
{
    const char *digest = cay__json_str(d, "digest", "");
    int64_t size = cay__json_int(d, "size", -1);
    if (!cay__digest_ok(digest))
        return fail_invalid(err,
                            "description names a digest that is not sha256: and 64 hex digits");
    if (size < 0 || (uint64_t)size > SIZE_MOST)
        return fail_invalid(err, "description has a part without a size, or one beyond 16 GiB");
    CAY_COPY(out->digest, digest);
    out->size = (uint64_t)size;
    return 0;
}

void cay__image_platform(char *out, size_t cap)
{
    struct utsname u;
    const char *arch = "amd64";
    if (uname(&u) == 0) {
        if (!strcmp(u.machine, "aarch64"))
            arch = "arm64";
        else if (strcmp(u.machine, "x86_64"))
            arch = u.machine;
    }
    snprintf(out, cap, "linux/%.40s", arch);
}

static void platform_text(const json_t *p, char *out, size_t cap)
{
    const char *variant = cay__json_str(p, "variant", "");
    snprintf(out, cap, "%.30s/%.30s%s%.30s", cay__json_str(p, "os", ""),
             cay__json_str(p, "architecture", ""), CAY_TEXT_IF(*variant, "/"), variant);
}

/* "linux/arm64" takes "linux/arm64/v8"; "linux/arm/v7" only itself. */
static bool is_platform_match(const char *want, const char *has)
{
    size_t n = strlen(want);
    return !strncmp(want, has, n) && (!has[n] || has[n] == '/');
}

static int pick_platform(const json_t *list, const char *platform, cay__image *out, cay_err *err)
{
    char mine[64], has[100];
    CAY_AUTOBUF there = CAY__BUF(150);
    const json_t *best = NULL;
    if (!platform) {
        cay__image_platform(mine, sizeof mine);
        platform = mine;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *d = json_array_get(list, i), *p = json_object_get(d, "platform");
        if (!json_is_object(d) ||
            cay__json_str(json_object_get(d, "annotations"), "vnd.docker.reference.type", NULL))
            continue; /* a statement about an image, and none */
        if (json_is_object(p))
            platform_text(p, has, sizeof has);
        if (!json_is_object(p) ? json_array_size(list) == 1 : is_platform_match(platform, has)) {
            best = d;
            break;
        }
        cay__buf_str(&there, CAY_TEXT_IF(there.len, ", "));
        if (json_is_object(p))
            cay__buf_safe(&there, has, strlen(has), false);
        else
            cay__buf_str(&there, "?");
    }
    if (!best)
        return cay_fail_why(err, CAY_ENOENT, "image_platform",
                            "the image is not made for %.40s; it has %.120s", platform,
                            CAY_OR(there.data, "nothing"));
    out->index = true;
    return take_blob(best, &out->next, err);
}

static bool known_layer(const char *type)
{
    CAY_EACH(layer_type, layer_types)
        if (!strcmp(type, *layer_type))
            return true;
    return false;
}

static int take_layers(const json_t *list, cay__image *out, cay_err *err)
{
    if (!json_is_array(list))
        return fail_invalid(err, "manifest has no list of layers");
    if (json_array_size(list) > CAY__IMAGE_LAYERS && !CAY__MUTANT("fuzz-image"))
        return cay_fail_why(err, CAY_ETOOBIG, "stack_too_deep",
                            "the image has %zu layers, and a sandbox stands on at most %d",
                            json_array_size(list), CAY__IMAGE_LAYERS);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *d = json_array_get(list, i);
        const char *type = cay__json_str(d, "mediaType", "");
        if (!known_layer(type))
            return cay_fail_why(
                err, CAY_ENOTSUP, "image_layer_type",
                "layer %zu of the image is a %.80s, which is none that can be unpacked", i + 1,
                cay__text_or(type, "thing without a type"));
        CAY_TRY(take_blob(d, &out->layers[i], err));
    }
    out->n = json_array_size(list);
    return 0;
}

int cay__image_read(const char *text, size_t len, const char *platform, cay__image *out,
                    cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    *out = (cay__image){ 0 };
    CAY_TRY(parse_object(text, len, &o, err));
    int64_t version = cay__json_int(o, "schemaVersion", 0);
    if (version == 1)
        return cay_fail_why(err, CAY_ENOTSUP, "image_schema",
                            "the image has a manifest of Docker's first schema, which nobody can "
                            "check; push it again with a newer tool");
    if (version != 2)
        return fail_invalid(err, "manifest has no schemaVersion 2");
    const json_t *list = json_object_get(o, "manifests"), *config = json_object_get(o, "config");
    if (list && config)
        return fail_invalid(err,
                            "manifest is an index and a manifest at once"); /* whoever reads it one
                                                                      way sees another image */
    if (list) {
        if (json_is_array(list))
            return pick_platform(list, platform, out, err);
        return fail_invalid(err, "index has no list of manifests");
    }
    if (json_is_object(config))
        CAY_TRY(take_blob(config, &out->config, err));
    else
        CAY_TRY(fail_invalid(err, "manifest has no config"));
    if (out->config.size > CAY__IMAGE_DOC_MAX)
        return fail_invalid(err, "config is too long");
    return take_layers(json_object_get(o, "layers"), out, err);
}

static json_t *take_words(const json_t *list)
{
    json_t *a = json_array(), *v;
    size_t i;
    json_array_foreach(list, i, v)
        if (cay__json_cstr(v))
            json_array_append(a, v);
    return a;
}

static json_t *take_env(const json_t *list)
{
    json_t *env = json_object(), *v;
    size_t i;
    json_array_foreach(list, i, v) {
        const char *s = CAY_OR(cay__json_cstr(v), ""), *eq = strchr(s, '=');
        if (!eq || eq == s || memchr(s, '\n', (size_t)(eq - s)))
            continue;
        CAY_AUTOFREE char *key = strndup(s, (size_t)(eq - s));
        if (!key)
            abort();
        json_object_set_new(env, key, json_string(eq + 1));
    }
    return env;
}

/* The keys of an object, {"8080/tcp":{}}. */
static json_t *take_keys(const json_t *from)
{
    const char *key;
    json_t *v, *a = json_array();
    json_object_foreach((json_t *)from, key, v)
        json_array_append_new(a, json_string(key));
    return a;
}

static json_t *take_labels(const json_t *from)
{
    const char *key;
    json_t *v, *o = json_object();
    json_object_foreach((json_t *)from, key, v)
        if (cay__json_cstr(v))
            json_object_set(o, key, v);
    return o;
}

static void put_text(json_t *to, const char *name, const char *s)
{
    if (s && *s && !strpbrk(s, "\n\r"))
        json_object_set_new(to, name, json_string(s));
}

static json_t *as_template(const json_t *o)
{
    static const struct {
        const char *ours, *theirs;
        json_t *(*take)(const json_t *);
    } rows[] = { { "env", "Env", take_env },
                 { "cmd", "Cmd", take_words },
                 { "entrypoint", "Entrypoint", take_words },
                 { "shell", "Shell", take_words },
                 { "ports", "ExposedPorts", take_keys },
                 { "volumes", "Volumes", take_keys },
                 { "labels", "Labels", take_labels } };
    const json_t *c = json_object_get(o, "config");
    json_t *to = json_object(), *platform = json_object();
    CAY_EACH(row, rows) {
        CAY_AUTOJSON *v = row->take(json_object_get(c, row->theirs));
        if (json_array_size(v) || json_object_size(v))
            json_object_set(to, row->ours, v);
    }
    put_text(to, "user", cay__json_str(c, "User", NULL));
    put_text(to, "stop_signal", cay__json_str(c, "StopSignal", NULL));
    const char *dir = cay__json_str(c, "WorkingDir", "");
    if (*dir == '/')
        put_text(to, "workdir", dir);
    static const char *const words[] = { "os", "architecture", "variant" };
    CAY_EACH(word, words)
        put_text(platform, *word, cay__json_str(o, *word, NULL));
    json_object_set_new(to, "platform", platform);
    put_text(to, "created", cay__json_str(o, "created", NULL));
    put_text(to, "author", cay__json_str(o, "author", NULL));
    return to;
}

int cay__image_config(const char *text, size_t len, cay__image *im, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(parse_object(text, len, &o, err));
    const char *os = cay__json_str(o, "os", "linux");
    if (strcmp(os, "linux"))
        return cay_fail_why(err, CAY_ENOTSUP, "image_platform",
                            "the image is for %.40s, not for Linux", os);
    const json_t *ids = json_object_get(json_object_get(o, "rootfs"), "diff_ids");
    if (!json_is_array(ids) || json_array_size(ids) != im->n)
        return fail_invalid(err, "config names another number of layers than its manifest");
    for (size_t i = 0; i < im->n; i++) {
        const json_t *d = json_array_get(ids, i);
        if (!cay__digest_ok(cay__json_cstr(d)))
            return fail_invalid(err, "config has a diff_id that is not sha256: and 64 hex digits");
        CAY_COPY(im->diff_id[i], json_string_value(d));
    }
    CAY_AUTOJSON *made = as_template(o);
    CAY_AUTOFREE char *said = cay__json_text(made, 256 << 10);
    if (!said)
        return cay_fail_why(err, CAY_ETOOBIG, "image_invalid", "the image's config is too long");
    CAY_TRY(cay_template_config_check(said, err));
    free(im->text);
    im->text = CAY_STEAL(said);
    return 0;
}
