/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts: the fields of each storage, and which strategies and patterns go with it. Who performs
 * them reads cay_manifest_mounts(). */
#include "manifest.h"

#define MOUNT                                                                                      \
    { "mount_path", CAY__STR, 0 }, { "read_only", CAY__BOOL, 0 },                                  \
    {                                                                                              \
        "mount_strategy", CAY__OBJ, CAY__NEEDED                                                    \
    }
#define TEXT(name)                                                                                 \
    {                                                                                              \
        name, CAY__STR, 0                                                                          \
    }
#define NEEDED(name)                                                                               \
    {                                                                                              \
        name, CAY__STR, CAY__NEEDED                                                                \
    }
#define SECRET(name)                                                                               \
    {                                                                                              \
        name, CAY__STR, CAY__HIDDEN                                                                \
    }

const cay__entry_field cay__s3_fields[] = {
    MOUNT,
    NEEDED("bucket"),
    SECRET("access_key_id"),
    SECRET("secret_access_key"),
    SECRET("session_token"),
    TEXT("prefix"),
    TEXT("region"),
    TEXT("endpoint_url"),
    TEXT("s3_provider"),
    { NULL },
};
const cay__entry_field cay__gcs_fields[] = {
    MOUNT,
    NEEDED("bucket"),
    SECRET("access_id"),
    SECRET("secret_access_key"),
    TEXT("prefix"),
    TEXT("region"),
    TEXT("endpoint_url"),
    TEXT("service_account_file"),
    { "service_account_credentials", CAY__STR, CAY__HIDDEN | CAY__EMPTY },
    SECRET("access_token"),
    { NULL },
};
const cay__entry_field cay__r2_fields[] = {
    MOUNT,
    NEEDED("bucket"),
    NEEDED("account_id"),
    SECRET("access_key_id"),
    SECRET("secret_access_key"),
    TEXT("custom_domain"),
    { NULL },
};
const cay__entry_field cay__azure_fields[] = {
    MOUNT,
    NEEDED("account"),
    NEEDED("container"),
    TEXT("endpoint"),
    TEXT("identity_client_id"),
    SECRET("account_key"),
    { NULL },
};
const cay__entry_field cay__box_fields[] = {
    MOUNT,
    TEXT("path"),
    TEXT("client_id"),
    SECRET("client_secret"),
    SECRET("access_token"),
    { "token", CAY__STR, CAY__HIDDEN | CAY__EMPTY },
    TEXT("box_config_file"),
    { "config_credentials", CAY__STR, CAY__HIDDEN | CAY__EMPTY },
    TEXT("box_sub_type"),
    TEXT("root_folder_id"),
    TEXT("impersonate"),
    TEXT("owned_by"),
    { NULL },
};
const cay__entry_field cay__s3files_fields[] = {
    MOUNT,
    NEEDED("file_system_id"),
    TEXT("subpath"),
    TEXT("mount_target_ip"),
    TEXT("access_point"),
    TEXT("region"),
    { "extra_options", CAY__MAP, 0 },
    { NULL },
};
const cay__entry_field cay__mount_fields[] = {
    TEXT("source"),
    TEXT("mount_path"),
    { "read_only", CAY__BOOL, 0 },
    { "mount_strategy", CAY__OBJ, 0 },
    TEXT("provider"),
    { "config", CAY__OBJ, 0 },
    { NULL },
};

static const cay__entry_field rclone[] = {
    TEXT("type"),
    TEXT("mode"),
    TEXT("remote_name"),
    { "extra_args", CAY__STRS, 0 },
    TEXT("nfs_addr"),
    { "nfs_mount_options", CAY__STRS, 0 },
    TEXT("config_file_path"),
    { NULL },
};
static const cay__entry_field mountpoint[] = {
    TEXT("type"), TEXT("prefix"), TEXT("region"), TEXT("endpoint_url"), { NULL }
};
static const cay__entry_field fuse[] = {
    TEXT("type"),
    { "allow_other", CAY__BOOL, 0 },
    TEXT("log_type"),
    TEXT("log_level"),
    TEXT("cache_type"),
    TEXT("cache_path"),
    { "cache_size_mb", CAY__UINT, 0 },
    { "block_size_mb", CAY__UINT, 0 },
    { "disk_timeout_s", CAY__UINT, 0 },
    { "file_cache_timeout_s", CAY__UINT, 0 },
    { "file_cache_max_size_mb", CAY__UINT, 0 },
    { "attr_cache_timeout_s", CAY__UINT, 0 },
    { NULL },
};
static const cay__entry_field s3files[] = {
    TEXT("type"),   TEXT("mount_target_ip"),          TEXT("access_point"),
    TEXT("region"), { "extra_options", CAY__MAP, 0 }, { NULL },
};
static const struct {
    const char *name;
    const cay__entry_field *fields;
} patterns[] = {
    { "rclone", rclone }, { "mountpoint", mountpoint }, { "fuse", fuse }, { "s3files", s3files }
};

static const cay__entry_field in_container[] = { TEXT("type"),
                                                 { "pattern", CAY__OBJ, CAY__NEEDED },
                                                 { NULL } };
static const cay__entry_field docker_volume[] = {
    TEXT("type"), NEEDED("driver"), { "driver_options", CAY__MAP, 0 }, { NULL }
};
static const cay__entry_field local_bind[] = { TEXT("type"), { NULL } };
static const char hosted[] = "e2b_cloud_bucket modal_cloud_bucket daytona_cloud_bucket "
                             "runloop_cloud_bucket vercel_cloud_bucket "
                             "blaxel_cloud_bucket blaxel_drive cloudflare_bucket_mount";

static bool is_in_list(const char *word, const char *list)
{
    size_t n = strlen(word);
    for (const char *s = list; n && (s = strstr(s, word)); s += n)
        if ((s == list || s[-1] == ' ') && (!s[n] || s[n] == ' '))
            return true;
    return false;
}

static int fail_invalid(const cay__entry *e, const char *word, cay_err *err, const char *fmt,
                        const char *what)
{
    char text[180];
    CAY_JOIN(text, fmt, what);
    return cay__bad(err, "mount_config_invalid", e->path, word, "%s", text);
}

bool cay__is_mount(const cay__entry *e)
{
    return e->kind->id >= CAY__MOUNT;
}

bool cay__mount_read_only(const cay__entry *e)
{
    return cay__json_bool(e->fields, "read_only", true);
}

const char *cay__mount_strategy(const cay__entry *e, const char **pattern)
{
    const json_t *s = json_object_get(e->fields, "mount_strategy");
    const char *type = cay__member(s, "type"),
               *p = cay__member(json_object_get(s, "pattern"), "type");
    if (pattern)
        *pattern = CAY_OR(p, "");
    return CAY_OR(type, "local_bind");
}

static int check_rclone(const cay__entry *e, const json_t *p, cay_err *err)
{
    const char *mode = cay__member(p, "mode");
    const json_t *args = json_object_get(p, "extra_args"), *a;
    size_t i;
    if (mode && strcmp(mode, "fuse") && strcmp(mode, "nfs"))
        return fail_invalid(e, "mode", err, "mode of pattern rclone is fuse or nfs, not ", mode);
    json_array_foreach(args, i, a) {
        const char *s = json_string_value(a);
        char name[40] = "";
        s += strspn(s, "-");
        size_t n = strcspn(s, "=");
        if (n < sizeof name)
            memcpy(name, s, n);
        /* A value that stands alone belongs to the option before it. */
        if (json_string_value(a)[0] == '-' && !is_in_list(name, "allow-other buffer-size gid uid"))
            return fail_invalid(e, "extra_args", err,
                                "extra_args are allow-other, buffer-size, gid and uid, not ",
                                json_string_value(a));
    }
    return 0;
}

static int check_pattern(cay__entry *e, json_t *strategy, cay_err *err)
{
    CAY_AUTOJSON *p = NULL;
    CAY_TRY(cay__canonical(e->path, json_object_get(strategy, "pattern"), &p, err));
    const char *type = cay__member(p, "type");
    if (!type)
        return fail_invalid(e, "type_missing", err, "its pattern has no type; there are ",
                            e->kind->patterns);
    if (!is_in_list(type, e->kind->patterns))
        return fail_invalid(e, "pattern", err, "this pattern does not go with it; there are ",
                            cay__text_or(e->kind->patterns, "none"));
    CAY_EACH(row, patterns)
        if (!strcmp(row->name, type))
            CAY_TRY(cay__fields_check("mount_config_invalid", e->path, p, row->fields, err));
    const char *cache = cay__member(p, "cache_type");
    if (cache && strcmp(cache, "block_cache") && strcmp(cache, "file_cache"))
        return fail_invalid(e, "cache_type", err, "cache_type is block_cache or file_cache, not ",
                            cache);
    if (!strcmp(type, "rclone"))
        CAY_TRY(check_rclone(e, p, err));
    json_object_set(strategy, "pattern", p);
    return 0;
}

static int check_strategy(cay__entry *e, cay_err *err)
{
    CAY_AUTOJSON *s = NULL;
    const json_t *given = json_object_get(e->fields, "mount_strategy");
    if (!given) {
        json_object_set_new(e->fields, "mount_strategy", json_pack("{s:s}", "type", "local_bind"));
        given = json_object_get(e->fields, "mount_strategy");
    }
    CAY_TRY(cay__canonical(e->path, given, &s, err));
    const char *type = cay__member(s, "type");
    bool storage = e->kind->id == CAY__STORAGE;
    if (!type)
        return fail_invalid(
            e, "type_missing", err,
            "its mount_strategy has no type; there are in_container, docker_volume, "
            "local_bind and hosted ones",
            "");
    const cay__entry_field *table;
    if (!strcmp(type, "in_container"))
        table = in_container;
    else if (!strcmp(type, "docker_volume"))
        table = docker_volume;
    else if (!strcmp(type, "local_bind"))
        table = local_bind;
    else
        table = NULL;
    if (!table && !is_in_list(type, hosted))
        return fail_invalid(
            e, "strategy", err,
            "this strategy is not known; there are in_container, docker_volume, local_bind, ",
            hosted);
    if (table)
        CAY_TRY(cay__fields_check("mount_config_invalid", e->path, s, table, err));
    if ((table == local_bind) == storage || (table == in_container && !storage))
        return fail_invalid(e, "strategy", err, "this strategy does not go with it: ", type);
    if (table == docker_volume && !is_in_list(cay__member(s, "driver"), e->kind->drivers))
        return fail_invalid(e, "driver", err, "this driver does not go with it; there are ",
                            cay__text_or(e->kind->drivers, "none"));
    if (table == in_container)
        CAY_TRY(check_pattern(e, s, err));
    json_object_set(e->fields, "mount_strategy", s);
    return 0;
}

static const struct {
    const char *kind, *a, *b;
} pairs[] = {
    { "s3_mount", "access_key_id", "secret_access_key" },
    { "gcs_mount", "access_id", "secret_access_key" },
    { "r2_mount", "access_key_id", "secret_access_key" },
};

static int check_storage(const cay__entry *e, cay_err *err)
{
    CAY_EACH(pair, pairs)
        if (!strcmp(pair->kind, e->kind->name) && !e->redacted &&
            !json_object_get(e->fields, pair->a) != !json_object_get(e->fields, pair->b))
            return cay__bad(err, "mount_config_invalid", e->path, "credentials",
                            "give both %s and %s, or neither", pair->a, pair->b);
    if (!strcmp(e->kind->name, "s3_mount") && json_object_get(e->fields, "session_token") &&
        !json_object_get(e->fields, "access_key_id"))
        return fail_invalid(e, "credentials", err,
                            "session_token needs access_key_id and secret_access_key", "");
    if (strcmp(e->kind->name, "box_mount"))
        return 0;
    const char *sub = cay__member(e->fields, "box_sub_type");
    if (sub && strcmp(sub, "user") && strcmp(sub, "enterprise"))
        return fail_invalid(e, "box_sub_type", err, "box_sub_type is user or enterprise, not ",
                            sub);
    if (!e->redacted && !json_object_get(e->fields, "access_token") &&
        !json_object_get(e->fields, "token") && !json_object_get(e->fields, "box_config_file") &&
        !json_object_get(e->fields, "config_credentials"))
        return fail_invalid(
            e, "credentials", err,
            "Box has to log in without a person: give access_token, token, box_config_file "
            "or config_credentials",
            "");
    return 0;
}

static int check_hidden(const cay_manifest *m, const cay__entry *e, cay_err *err)
{
    for (const cay__entry_field *f = e->kind->fields; f->name; f++) {
        const json_t *v = json_object_get(e->fields, f->name);
        if (!(f->flags & CAY__HIDDEN) || !json_is_object(v))
            continue;
        const char *source = cay__member(v, "source");
        if (!source)
            return fail_invalid(
                e, "reference", err,
                "a secret is text, or {\"type\":\"ref\",\"source\":\"env:…\"}: ", f->name);
        CAY_TRY(cay__reference_check(m, e->path, source, err));
    }
    return 0;
}

int cay__mount_check(cay_manifest *m, cay__entry *e, cay_err *err)
{
    const char *at;
    if (e->kind->id == CAY__STORAGE && !(m->flags & CAY_MANIFEST_TRUSTED))
        return fail_invalid(
            e, "untrusted_mount", err,
            "a manifest that is not your own may not mount storage; a trusted manifest is "
            "needed for ",
            e->kind->name);
    e->has_mode = false; /* storage has no owners and modes of its own */
    e->group = NULL;
    CAY_TRY(check_strategy(e, err));
    if (e->kind->id == CAY__MOUNT && !strcmp(cay__mount_strategy(e, NULL), "local_bind") &&
        !cay__member(e->fields, "source"))
        return fail_invalid(e, "field_missing", err,
                            "source is missing: the host directory to show", "");
    CAY_TRY(check_storage(e, err));
    CAY_TRY(check_hidden(m, e, err));
    return cay__mount_path(m, &m->mem, e, &at, err);
}
