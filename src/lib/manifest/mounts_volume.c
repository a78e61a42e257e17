/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy docker_volume: what the engine's drivers "rclone" and "mountpoint" are to be told about
 * a storage. The names are those of rclone's own plugin (TYPE-OPTION, path, type) and those that
 * the Agents SDK gives to the other one.
 */
#include "client_mounts.h"
#include <base/json.h>

enum { OPTIONS_MAX = 1 << 20 };

static int fail_invalid(const cay__storage_mount *m, const char *what, const char *why,
                        cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid", "entry %.80s: %.60s %s", m->entry,
                        what, why);
}

/* The options of a backend begin with its own short word. */
static const char *const backends[][2] = { { "s3", "s3" },
                                           { "google cloud storage", "gcs" },
                                           { "azureblob", "azureblob" },
                                           { "box", "box" } };

static const char *word_of(const char *type)
{
    CAY_EACH(row, backends)
        if (!strcmp((*row)[0], type))
            return (*row)[1];
    return type;
}

/* "key = value" of its configuration as "WORD-key" with dashes. */
static void add_line(json_t *o, char *line, const char **word)
{
    char name[96], *eq = strstr(line, " = ");
    if (!eq)
        return;
    *eq = 0;
    if (!strcmp(line, "type")) {
        *word = word_of(eq + 3);
        json_object_set_new(o, "type", json_string(eq + 3));
        return;
    }
    CAY_FORMAT(name, "%s-%s", *word, line);
    for (char *s = name; *s; s++) {
        if (*s == '_')
            *s = '-';
    }
    json_object_set_new(o, name, json_string(eq + 3));
}

/* Everybody in the container may use it, as by the other strategies; what was written is brought
 * away at once. */
static void add_usual(json_t *o, bool rw)
{
    static const char *const always[][2] = { { "allow-other", "true" },
                                             { "dir-perms", "0777" },
                                             { "file-perms", "0666" },
                                             { "umask", "0" },
                                             { "dir-cache-time", "10s" } },
                             *const writing[][2] = { { "vfs-cache-mode", "writes" },
                                                     { "vfs-write-back", "0s" } };
    CAY_EACH(row, always)
        json_object_set_new(o, (*row)[0], json_string((*row)[1]));
    for (size_t i = 0; rw && i < CAY_LEN(writing); i++)
        json_object_set_new(o, writing[i][0], json_string(writing[i][1]));
}

static int by_rclone(const cay__storage_mount *m, const char *id, size_t index, json_t *o,
                     cay_err *err)
{
    cay__storage_plan plan;
    const char *word = "", *path;
    char *save = NULL;
    CAY_TRY(cay__storage_conf(m, id, index, "", &plan, err));
    for (char *line = strtok_r(plan.config, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        add_line(o, line, &word);
    if (*plan.file) { /* it has no file to be read from there */
        json_object_del(o, "box-box-config-file");
        json_object_set_new(o, "box-config-credentials", json_string(plan.file));
    }
    path = strchr(plan.remote, ':');
    json_object_set_new(o, "path", json_string(CAY_TEXT_IF(path, path + 1)));
    cay__storage_plan_clear(&plan);
    add_usual(o, m->rw);
    return 0;
}

static int by_mountpoint(const cay__storage_mount *m, const char *id, size_t index, json_t *o,
                         cay_err *err)
{
    static const char *const fields[][2] = { { "bucket", "bucket" },
                                             { "access_key_id", "access_key_id" },
                                             { "access_id", "access_key_id" },
                                             { "secret_access_key", "secret_access_key" },
                                             { "session_token", "session_token" },
                                             { "endpoint_url", "endpoint_url" },
                                             { "region", "region" },
                                             { "prefix", "prefix" } };
    cay__storage_plan plan;
    CAY_TRY(cay__storage_conf(m, id, index, "", &plan, err)); /* it judges the values */
    cay__storage_plan_clear(&plan);
    if (!strcmp(m->type, "gcs_mount"))
        json_object_set_new(o, "endpoint_url", json_string("https://storage.googleapis.com"));
    CAY_EACH(field, fields)
        if (*cay__json_str(m->fields, (*field)[0], ""))
            json_object_set_new(o, (*field)[1],
                                json_string(cay__json_str(m->fields, (*field)[0], "")));
    return 0;
}

static const struct {
    const char *name, *own; /* own: what says which storage it is, and is not for driver_options */
    int (*tell)(const cay__storage_mount *m, const char *id, size_t index, json_t *o, cay_err *err);
} drivers[] = { { "rclone", " type path fs remote ", by_rclone },
                { "mountpoint", " bucket ", by_mountpoint } };

static int add_given(const cay__storage_mount *m, const json_t *given, const char *own, json_t *o,
                     cay_err *err)
{
    const char *key;
    json_t *v;
    char word[64];
    json_object_foreach((json_t *)given, key, v) {
        if (!CAY_JOIN(word, " ", key, " ") || strchr(key, ' ') || strstr(own, word))
            return fail_invalid(m, key, "is no option that driver_options may give", err);
        if (!json_is_string(v))
            return fail_invalid(m, key, "of driver_options is no text", err);
        json_object_set(o, key, v);
    }
    return 0;
}

static int add_volume(const cay__storage_mount *m, const char *id, size_t index, json_t *list,
                      cay_err *err)
{
    const json_t *strategy = json_object_get(m->fields, "mount_strategy");
    const char *name = cay__json_str(strategy, "driver", "");
    size_t i = 0;
    while (i < CAY_LEN(drivers) && strcmp(drivers[i].name, name) != 0)
        i++;
    if (i == CAY_LEN(drivers))
        return fail_invalid(m, "driver", "is rclone or mountpoint", err);
    json_t *o = json_object();
    json_array_append_new(list, json_pack("{s:s,s:b,s:s,s:o}", "target", m->target, "read_only",
                                          !m->rw, "driver", name, "options", o));
    CAY_TRY(drivers[i].tell(m, id, index, o, err));
    return add_given(m, json_object_get(strategy, "driver_options"), drivers[i].own, o, err);
}

int cay__mounts_volumes(const cay__mount_list *l, const char *id, const char **out)
{
    CAY_AUTOJSON *list = json_array();
    *out = "";
    for (size_t i = l->n; i-- > 0;) /* deepest last */
        if (cay__mounts_by_engine(&l->m[i]))
            CAY_TRY(add_volume(&l->m[i], id, i, list, l->err));
    if (!json_array_size(list))
        return 0;
    CAY_AUTOFREE char *text = cay__json_text(list, OPTIONS_MAX);
    if (!text)
        return cay_fail_why(l->err, CAY_ETOOBIG, "mount_config_invalid",
                            "what the engine's volume drivers are to be told is too long");
    *out = cay__arena_str(l->mem, text);
    explicit_bzero(text, strlen(text));
    return 0;
}
