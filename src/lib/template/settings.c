/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of one sandbox: its creator's choice worked into the files that its template has for
 * that. */
#include "settings.h"
#include <base/mutant.h>
#include <ctype.h>
#include <lib/sandbox/sandbox.h>

enum { VALUE_LEN = 512, RENDERED = 1 << 20, FILE_MODE = 0600, RANDOM = 32 };

/* Nothing that ends a quoted text in JSON, TOML, YAML or a shell: files are put together without
 * asking what they are. */
bool cay__setting_value_ok(const char *s)
{
    size_t n = strlen(s);
    for (const char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._:/@+=,?&%~-", *c))
            return false;
    return n <= VALUE_LEN;
}

static const char *value_of(const cay_pair *p, const char *name)
{
    for (; p && p->key; p++)
        if (!strcmp(p->key, name))
            return p->value;
    return NULL;
}

static int choice_bad(const char *name, const char *value, const json_t *choices, cay_err *err)
{
    CAY_AUTOBUF known = CAY__BUF(200);
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)choices, key, v)
        cay__buf_fmt(&known, "%s%s", CAY_TEXT_IF(known.len, ", "), key);
    return cay_fail_why(err, CAY_EINVAL, "setting_invalid",
                        "setting %.32s: \"%.60s\" is none of its values: %s", name, value,
                        known.data);
}

static int given_ok(const json_t *settings, const cay_pair *p, cay_err *err)
{
    CAY_AUTOBUF known = CAY__BUF(200);
    const json_t *s = json_object_get(settings, p->key), *choices = json_object_get(s, "choices");
    const char *key, *value = CAY_OR(p->value, "");
    json_t *v;
    json_object_foreach((json_t *)settings, key, v)
        cay__buf_fmt(&known, "%s%s", CAY_TEXT_IF(known.len, ", "), key);
    if (!s)
        return cay_fail_why(err, CAY_EINVAL, "setting_unknown", "setting %.60s: %s%s", p->key,
                            known.len ? "the template has others: " : "the template has none",
                            CAY_TEXT_IF(known.len, known.data));
    if (choices && !json_object_get(choices, value))
        return choice_bad(p->key, value, choices, err);
    if (!cay__setting_value_ok(value))
        return cay_fail_why(err, CAY_EINVAL, "setting_invalid",
                            "setting %.32s: a value has letters, digits and . _ : / @ + = , ? & %% "
                            "~ - and at most %d bytes",
                            p->key, VALUE_LEN);
    return 0;
}

int cay__settings_values(const json_t *settings, const cay_pair *given, const cay_pair *before,
                         cay__arena *mem, const cay_pair **out, cay_err *err)
{
    const char *name;
    json_t *s;
    size_t n = 0;
    for (const cay_pair *p = given; p && p->key; p++)
        CAY_TRY(given_ok(settings, p, err));
    cay_pair *all = cay__arena_take(mem, (json_object_size(settings) + 1) * sizeof *all);
    json_object_foreach((json_t *)settings, name, s) {
        const char *v = value_of(given, name), *old = value_of(before, name);
        v = CAY_OR(v, CAY_OR(old, cay__json_str(s, "default", "")));
        all[n++] = (cay_pair){ cay__arena_str(mem, name), cay__arena_str(mem, v) };
    }
    *out = CAY_IF(n, all);
    return 0;
}

/* a text with ${NAME} and
 * ${NAME.KEY} in it */

typedef struct render {
    const json_t *settings;
    const cay_pair *values;
    const char *random; /* for ${random} */
    cay__buf *out;
    cay_err *err;
} render;

static int fail_unknown(const render *r, const char *word)
{
    return cay_fail_why(
        r->err, CAY_EINVAL, "template_config",
        "${%.60s} is no setting: it is ${NAME}, ${NAME.KEY} or ${random}; $${ stands for itself",
        word);
}

/* Of a free one, its text with ${value} in it; empty as long as nobody gave a value. */
static int put_free(const render *r, const char *text, const char *value)
{
    for (const char *at; *value && (at = strstr(text, "${value}")); text = at + 8) {
        cay__buf_add(r->out, text, (size_t)(at - text));
        cay__buf_str(r->out, value);
    }
    if (*value)
        cay__buf_str(r->out, text);
    return 0;
}

static int put_word(const render *r, const char *word)
{
    char name[CAY__SETTING_NAME + 1];
    const char *dot = strchr(word, '.');
    size_t n = strcspn(word, ".");
    if (!strcmp(word, "random")) {
        cay__buf_str(r->out, r->random);
        return 0;
    }
    if (n > CAY__SETTING_NAME && !CAY__MUTANT("fuzz-settings"))
        return fail_unknown(r, word);
    memcpy(name, word, n);
    name[n] = 0;
    const json_t *s = json_object_get(r->settings, name), *choices = json_object_get(s, "choices");
    const char *value = value_of(r->values, name);
    if (!s || !value)
        return fail_unknown(r, word);
    if (!dot) {
        cay__buf_str(r->out, value);
        return 0;
    }
    const char *text = cay__json_cstr(json_object_get(
        choices ? json_object_get(choices, value) : json_object_get(s, "texts"), dot + 1));
    if (!text)
        return fail_unknown(r, word);
    if (!choices)
        return put_free(r, text, value);
    cay__buf_str(r->out, text);
    return 0;
}

static int put_text(const render *r, const char *text)
{
    char word[2 * CAY__SETTING_NAME + 2];
    for (const char *at; (at = strstr(text, "${")); text = at) {
        bool itself = at > text && at[-1] == '$';
        const char *end = strchr(at, '}');
        cay__buf_add(r->out, text, (size_t)(at - text) - itself);
        if (itself) {
            cay__buf_str(r->out, "${");
            at += 2;
            continue;
        }
        if (!end || (size_t)(end - at) - 2 >= sizeof word)
            return fail_unknown(r, "");
        memcpy(word, at + 2, (size_t)(end - at) - 2);
        word[end - at - 2] = 0;
        CAY_TRY(put_word(r, word));
        at = end + 1;
    }
    cay__buf_str(r->out, text);
    if (r->out->full)
        return cay_fail_why(r->err, CAY_ETOOBIG, "template_config",
                            "the file becomes larger than %d bytes", RENDERED);
    return 0;
}

int cay__settings_render(const json_t *settings, const cay_pair *values, const char *random,
                         const char *content, cay__buf *out, cay_err *err)
{
    return put_text(&(render){ settings, values, random, out, err }, content);
}

static int make_files(const json_t *config, cay__spec *s, cay_err *err)
{
    const json_t *files = json_object_get(config, "setting_files");
    const char *path;
    json_t *f;
    char random[2 * RANDOM + 1];
    unsigned char bytes[RANDOM];
    cay_fill_item *list = cay__arena_take(s->mem, (json_object_size(files) + 1) * sizeof *list);
    cay__random(bytes, sizeof bytes);
    cay__hex_put(random, bytes, RANDOM);
    s->seeds = list;
    json_object_foreach((json_t *)files, path, f) {
        cay__buf out = CAY__BUF(RENDERED);
        int rc = cay__settings_render(json_object_get(config, "settings"), s->create.from.settings,
                                      random, cay__json_str(f, "content", ""), &out, err);
        if (rc < 0) {
            cay__buf_clear(&out);
            return cay_wrap(err, rc, "setting_files.%.60s", path);
        }
        const char *mode = cay__json_str(f, "mode", NULL);
        list[s->nseeds++] =
            (cay_fill_item){ .type = 'f',
                             .path = cay__arena_str(s->mem, path),
                             .mode = mode ? (uint32_t)strtoul(mode, NULL, 8) : FILE_MODE,
                             .gid = UINT32_MAX,
                             .data = out.data ? cay__arena_adopt(s->mem, out.data) : "",
                             .len = out.len,
                             .fd = -1 };
    }
    return 0;
}

int cay__settings_prepare(cay__spec *s, const cay_pair *before, cay_err *err)
{
    CAY_AUTOJSON *config = NULL;
    cay_create *c = &s->create;
    const cay_pair *given = c->from.settings;
    const bool asked = given && given->key;
    c->from.settings = NULL;
    s->seeds = NULL;
    s->nseeds = 0;
    if (!s->template_config && !asked)
        return 0;
    if (s->template_config)
        CAY_TRY(cay__json_object("record: image", s->template_config, &config, err));
    CAY_TRY(cay__settings_values(json_object_get(config, "settings"), given, before, s->mem,
                                 &c->from.settings, err));
    /* What stands on a snapshot has the files of then, unless somebody wants others. */
    if (c->from.no_settings || (c->from.snapshot && !asked))
        return 0;
    return make_files(config, s, err);
}

/* They belong to the user that the template is made for, whoever the request's commands run as. */
int cay__settings_write(const cay__spec *spec, const cay_provider_ops *ops, const char *id,
                        void *box, const cay_call *call, cay_err *err)
{
    CAY_AUTOJSON *config = NULL;
    if (!spec->nseeds)
        return 0;
    if (!ops->put)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "settings: provider %s cannot write files", ops->name);
    CAY_TRY(cay__json_object("record: image", spec->template_config, &config, err));
    char user[128];
    const char *said = cay__json_str(config, "user", "");
    CAY_JOIN(user, said);
    user[strcspn(user, ":")] = 0;
    cay_sandbox *sb = cay__sandbox_new(ops, id, box);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < spec->nseeds; i++) {
        const cay_fill_item *s = &spec->seeds[i];
        rc = cay_file_put(sb, call, s->path, s->data, s->len,
                          &(cay_write){ .size = sizeof(cay_write),
                                        .mode = s->mode,
                                        .parents = true,
                                        .user = cay__text_or(user, NULL) },
                          err);
        if (rc < 0)
            cay_wrap(err, rc, "setting_files.%.60s", s->path);
    }
    sb->box = NULL; /* the caller's */
    cay_sandbox_unref(sb);
    return rc;
}
