/* SPDX-License-Identifier: Apache-2.0 */
/* What a template may say of settings: judged when it is built or recorded, with every choice, so
 * that no create finds it wrong. */
#include "settings.h"
#include <base/path.h>
#include <ctype.h>

enum { MOST = 32, CONTENT = 64 << 10, RENDERED = 1 << 20 };

static bool name_ok(const char *s)
{
    size_t n = strlen(s);
    return n && n <= CAY__SETTING_NAME && islower((unsigned char)*s) &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static int fail_invalid(cay_err *err, const char *where, const char *name, const char *what)
{
    return cay_fail_why(err, CAY_EINVAL, "template_config", "config: %s.%.60s: %s", where, name,
                        what);
}

static bool texts_ok(const json_t *o)
{
    const char *key;
    json_t *v;
    if (!json_is_object(o) || json_object_size(o) > MOST)
        return false;
    json_object_foreach((json_t *)o, key, v)
        if (!name_ok(key) || !cay__json_cstr(v) || json_string_length(v) > CONTENT)
            return false;
    return true;
}

static int check_choices(const char *name, const json_t *s, cay_err *err)
{
    const json_t *choices = json_object_get(s, "choices");
    const char *key, *none = cay__json_cstr(json_object_get(s, "default"));
    json_t *v;
    if (!json_is_object(choices) || !json_object_size(choices) || json_object_size(choices) > MOST)
        return fail_invalid(err, "settings", name,
                            "choices is an object of 1 to 32 values, each an object of texts");
    json_object_foreach((json_t *)choices, key, v)
        if (!*key || !cay__setting_value_ok(key) || !texts_ok(v))
            return fail_invalid(err, "settings", name,
                                "choices is an object of 1 to 32 "
                                "values, each an object of texts");
    if (!none || !json_object_get(choices, none))
        return fail_invalid(err, "settings", name, "default is one of its choices");
    if (json_object_get(s, "texts"))
        return fail_invalid(err, "settings", name, "it has choices or texts, not both");
    return 0;
}

static int check_setting(const char *name, const json_t *s, cay_err *err)
{
    static const char *const known[] = { "choices", "default", "description", "texts" };
    const char *key;
    json_t *v;
    if (!name_ok(name) || !strcmp(name, "random"))
        return fail_invalid(
            err, "settings", name,
            "a name begins with a letter and has a-z, 0-9 and _, at most 32; random is taken");
    if (!json_is_object(s))
        return fail_invalid(err, "settings", name, "it is an object");
    json_object_foreach((json_t *)s, key, v) {
        size_t i = 0;
        while (i < CAY_LEN(known) && strcmp(known[i], key) != 0)
            i++;
        if (i == CAY_LEN(known))
            return fail_invalid(err, "settings", name,
                                "it has choices, texts, default and description, and nothing else");
    }
    v = json_object_get(s, "description");
    if (v && !cay__json_cstr(v))
        return fail_invalid(err, "settings", name, "description is a text");
    if (json_object_get(s, "choices"))
        return check_choices(name, s, err);
    v = json_object_get(s, "default");
    if (v && (!cay__json_cstr(v) || !cay__setting_value_ok(cay__json_cstr(v))))
        return fail_invalid(err, "settings", name,
                            "default is a text of letters, digits and . _ : / @ + = , ? & % ~ -");
    v = json_object_get(s, "texts");
    if (v && !texts_ok(v))
        return fail_invalid(err, "settings", name, "texts is an object of texts");
    return 0;
}

/* What the sandbox has of its own at every start is no place for a file. */
static bool path_ok(const char *path)
{
    static const char *const own[] = { "/proc", "/dev", "/sys", "/run" };
    char clean[4096];
    if (*path != '/' || !path[1] || !cay__path_clean("/", path, clean, sizeof clean) ||
        strcmp(clean, path) != 0)
        return false;
    CAY_EACH(it, own)
        if (cay__str_starts(path, *it) && (!path[strlen(*it)] || path[strlen(*it)] == '/'))
            return false;
    return true;
}

static int try_render(const json_t *settings, const cay_pair *given, const char *path,
                      const char *content, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    CAY_AUTOBUF out = CAY__BUF(RENDERED);
    const cay_pair *all = NULL;
    CAY_TRY(cay__settings_values(settings, given, NULL, &mem, &all, err));
    int rc = cay__settings_render(settings, all, "", content, &out, err);
    return cay_wrap(err, rc, "config: setting_files.%.60s", path);
}

static int check_file(const json_t *settings, const char *path, const json_t *f, cay_err *err)
{
    const char *content = cay__json_cstr(json_object_get(f, "content"));
    const json_t *mode = json_object_get(f, "mode");
    const char *digits = cay__json_cstr(mode);
    if (!path_ok(path))
        return fail_invalid(err, "setting_files", path,
                            "it is an absolute path, not below /proc, /dev, /sys or /run");
    if (!content || json_object_size(f) != 1 + (mode != NULL) || strlen(content) > CONTENT)
        return fail_invalid(err, "setting_files", path,
                            "it is {\"content\", \"mode\"}, with at most 64 KiB");
    if (mode && (!digits || strspn(digits, "01234567") != strlen(digits) || strlen(digits) < 3 ||
                 strlen(digits) > 4 || strtol(digits, NULL, 8) > 0777))
        return fail_invalid(err, "setting_files", path, "mode is a text such as \"0600\"");
    CAY_TRY(try_render(settings, NULL, path, content, err));
    const char *name, *value;
    json_t *s, *v;
    json_object_foreach((json_t *)settings, name, s)
        json_object_foreach(json_object_get(s, "choices"), value, v)
            CAY_TRY(try_render(settings, (cay_pair[]){ { name, value }, { NULL, NULL } }, path,
                               content, err));
    return 0;
}

int cay__settings_check(const json_t *config, cay_err *err)
{
    const json_t *settings = json_object_get(config, "settings"),
                 *files = json_object_get(config, "setting_files");
    const char *key;
    json_t *v;
    if ((settings && !json_is_object(settings)) || json_object_size(settings) > MOST)
        return cay_fail_why(err, CAY_EINVAL, "template_config",
                            "config: settings is an object of at most %d settings by name", MOST);
    if ((files && !json_is_object(files)) || json_object_size(files) > MOST)
        return cay_fail_why(err, CAY_EINVAL, "template_config",
                            "config: setting_files is an object of at most %d files by path", MOST);
    json_object_foreach((json_t *)settings, key, v)
        CAY_TRY(check_setting(key, v, err));
    json_object_foreach((json_t *)files, key, v)
        CAY_TRY(check_file(settings, key, v, err));
    return 0;
}
