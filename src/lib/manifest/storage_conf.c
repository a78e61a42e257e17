/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rclone is told about each storage. A section has one line a field, so no value may hold a
 * line break; whether keys may be missing, and what that means, is the manifest's to judge: here no
 * keys mean no identity, never the host's own.
 */
#include "storage.h"
#include <base/base.h>
#include <base/buf.h>
#include <base/json.h>
#include <base/str.h>

#define VALUE_MAX 65536
static const char secret_fields[] = " access_key_id secret_access_key session_token access_id "
                                    "service_account_credentials access_token account_key "
                                    "client_secret token config_credentials ";

static int bad(const cay__storage_mount *m, const char *field, const char *why, cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid", "entry %.80s: %s %s", m->entry,
                        field, why);
}

static const char *get(const cay__storage_mount *m, const char *field)
{
    const char *s = cay__json_str(m->fields, field, "");
    return s;
}

static int check_values(const cay__storage_mount *m, cay_err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(m->fields, key, v)
    {
        const char *s = json_string_value(v);
        bool text = !strcmp(key, "service_account_credentials") ||
                    !strcmp(key, "config_credentials") || !strcmp(key, "token");
        if (s && (strlen(s) != json_string_length(v) || strlen(s) > VALUE_MAX ||
                  (!text && strpbrk(s, "\r\n"))))
            return bad(m, key, "has a line break or is too long", err);
        if (cay__json_str(v, "source", NULL))
            return bad(m, key, "is a reference that was not read", err);
    }
    return 0;
}

static void line(cay__buf *b, const char *key, const char *value)
{
    if (*value)
        cay__buf_fmt(b, "%s = %s\n", key, value);
}

/* JSON that came over several lines as one. */
static int json_line(const cay__storage_mount *m, cay__buf *b, const char *key, const char *field,
                     cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    const char *text = get(m, field);
    if (!*text)
        return 0;
    if (cay__json_object(field, text, &o, NULL) < 0)
        return bad(m, field, "is not a JSON object", err);
    CAY_AUTOFREE char *one = cay__json_text(o, VALUE_MAX);
    if (!one)
        return bad(m, field, "is too long", err);
    line(b, key, one);
    return 0;
}

static void s3_keys(const cay__storage_mount *m, cay__buf *b, const char *id, const char *secret)
{
    line(b, "env_auth", "false");
    line(b, "access_key_id", get(m, id));
    line(b, "secret_access_key", get(m, secret));
}

static int s3(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    const char *provider = get(m, "s3_provider");
    (void)file, (void)err;
    line(b, "type", "s3");
    line(b, "provider", *provider ? provider : "AWS");
    s3_keys(m, b, "access_key_id", "secret_access_key");
    line(b, "session_token", get(m, "session_token"));
    line(b, "region", get(m, "region"));
    line(b, "endpoint", get(m, "endpoint_url"));
    line(b, "no_check_bucket", "true"); /* it is there, or it is an error: none is made */
    return 0;
}

/* With an HMAC pair by the XML interface, which speaks S3; else by its own. */
static int gcs(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    const char *endpoint = get(m, "endpoint_url"), *token = get(m, "access_token");
    (void)file;
    if (*get(m, "access_id")) {
        line(b, "type", "s3");
        line(b, "provider", "GCS");
        s3_keys(m, b, "access_id", "secret_access_key");
        line(b, "region", get(m, "region"));
        line(b, "endpoint", *endpoint ? endpoint : "https://storage.googleapis.com");
        line(b, "no_check_bucket", "true");
        return 0;
    }
    line(b, "type", "google cloud storage");
    line(b, "endpoint", endpoint);
    line(b, "location", get(m, "region"));
    line(b, "no_check_bucket", "true");
    line(b, "service_account_file", get(m, "service_account_file"));
    CAY_TRY(json_line(m, b, "service_account_credentials", "service_account_credentials", err));
    if (*token) {
        CAY_AUTOJSON *o = json_pack("{s:s, s:s}", "access_token", token, "token_type", "Bearer");
        CAY_AUTOFREE char *text = o ? cay__json_text(o, VALUE_MAX) : NULL;
        line(b, "token", text ? text : "");
    }
    if (!*token && !*get(m, "service_account_file") && !*get(m, "service_account_credentials"))
        line(b, "anonymous", "true");
    return 0;
}

static int r2(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    const char *domain = get(m, "custom_domain"), *account = get(m, "account_id");
    char url[512];
    (void)file;
    if (strspn(account, "0123456789abcdefABCDEF-_") != strlen(account))
        return bad(m, "account_id", "is not an account's id", err);
    if (!cay__str_join(
            url, sizeof url, *domain ? (strstr(domain, "://") ? "" : "https://") : "https://",
            *domain ? domain : account, *domain ? "" : ".r2.cloudflarestorage.com", NULL))
        return bad(m, "custom_domain", "is too long", err);
    line(b, "type", "s3");
    line(b, "provider", "Cloudflare");
    s3_keys(m, b, "access_key_id", "secret_access_key");
    line(b, "region", "auto");
    line(b, "endpoint", url);
    line(b, "no_check_bucket", "true");
    return 0;
}

static int azure(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    /* The account and key that Azure's documentation gives its emulator: no secret. */
    static const char account
        [] = "devstoreaccount1",
 key[] = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const char *endpoint = get(m, "endpoint");
    bool emulator = cay__str_starts(endpoint, "http://") || cay__str_starts(endpoint, "https://");
    (void)file;
    /* Of Azure itself it is a part of the host's name. A whole URL is the emulator's, Azurite: for
     * that rclone takes this account and key whatever it is told. */
    if (emulator && strcmp(get(m, "account"), account))
        return bad(m, "endpoint",
                   "is a whole URL, which only the emulator has (account devstoreaccount1); of "
                   "Azure it is blob.core.windows.net or the like",
                   err);
    if (emulator && *get(m, "account_key") && strcmp(get(m, "account_key"), key))
        return bad(m, "account_key", "is not the one that Azure's emulator has", err);
    line(b, "type", "azureblob");
    line(b, "account", get(m, "account"));
    line(b, "key", get(m, "account_key"));
    if (emulator)
        line(b, "use_emulator", "true");
    line(b, "endpoint", endpoint);
    if (*get(m, "identity_client_id")) {
        line(b, "use_msi", "true");
        line(b, "msi_client_id", get(m, "identity_client_id"));
    }
    return 0;
}

static int box(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    line(b, "type", "box");
    line(b, "client_id", get(m, "client_id"));
    line(b, "client_secret", get(m, "client_secret"));
    line(b, "access_token", get(m, "access_token"));
    CAY_TRY(json_line(m, b, "token", "token", err));
    line(b, "box_config_file", *get(m, "config_credentials") ? file : get(m, "box_config_file"));
    line(b, "box_sub_type", *get(m, "box_sub_type") ? get(m, "box_sub_type") : "user");
    line(b, "root_folder_id", get(m, "root_folder_id"));
    line(b, "impersonate", get(m, "impersonate"));
    line(b, "owned_by", get(m, "owned_by"));
    return 0;
}

static const struct {
    const char *type, *word, *top, *below;
    int (*write)(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err);
} kinds[] = {
    { "s3_mount", "s3", "bucket", "prefix", s3 },
    { "gcs_mount", "gcs", "bucket", "prefix", gcs },
    { "r2_mount", "r2", "bucket", "", r2 },
    { "azure_blob_mount", "azure_blob", "container", "", azure },
    { "box_mount", "box", "path", "", box },
};

static bool option_ok(const char *s)
{
    return *s && !strpbrk(s, ",= \t\r\n\\\"'");
}

static int s3files(const cay__storage_mount *m, cay__storage_plan *out, cay_err *err)
{
    static const char *const named[][2] = { { "mount_target_ip", "mounttargetip" },
                                            { "access_point", "accesspoint" },
                                            { "region", "region" } };
    const char *id = get(m, "file_system_id"), *sub = get(m, "subpath"), *key;
    const json_t *pattern =
                     json_object_get(json_object_get(m->fields, "mount_strategy"), "pattern"),
                 *extra[2];
    CAY_AUTOBUF b = CAY__BUF(4096), r = CAY__BUF(4096);
    json_t *v;
    if (!option_ok(id) || *id == '-' || strchr(id, ':') || strchr(id, '/'))
        return bad(m, "file_system_id", "is not a file system's id", err);
    cay__buf_str(&b, m->rw ? "rw,nosuid,nodev" : "ro,nosuid,nodev");
    for (size_t i = 0; i < CAY_LEN(named); i++) {
        const char *s = cay__json_str(pattern, named[i][0], get(m, named[i][0]));
        if (*s && !option_ok(s))
            return bad(m, named[i][0], "cannot stand in a mount option", err);
        if (*s)
            cay__buf_fmt(&b, ",%s=%s", named[i][1], s);
    }
    extra[0] = json_object_get(m->fields, "extra_options");
    extra[1] = json_object_get(pattern, "extra_options");
    for (size_t i = 0; i < 2; i++)
        json_object_foreach((json_t *)extra[i], key, v)
        {
            const char *s = json_string_value(v);
            if (!option_ok(key) || (s && *s && !option_ok(s)) || !strcmp(key, "suid") ||
                !strcmp(key, "dev") || !strcmp(key, "rw"))
                return bad(m, key, "is no option that may be given", err);
            cay__buf_fmt(&b, s && *s ? ",%s=%s" : ",%s", key, s);
        }
    cay__buf_fmt(&r, "%s:/%s", id, sub + strspn(sub, "/"));
    if (b.full || r.full)
        return bad(m, "extra_options", "are too long", err);
    out->kernel = true;
    out->config = cay__strdup("");
    out->file = cay__strdup("");
    out->remote = cay__strdup(r.data);
    out->args = cay__alloc(2 * sizeof *out->args);
    out->args[out->nargs++] = cay__strdup(b.data);
    return 0;
}

static bool name_ok(const char *s)
{
    return *s && *s != '-' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               strlen(s) &&
           strlen(s) <= 100;
}

/* The manifest has judged their names: allow-other, buffer-size, uid and gid. The first is always
 * given. */
static int take_args(const cay__storage_mount *m, const json_t *pattern, cay__storage_plan *out,
                     cay_err *err)
{
    const json_t *list = json_object_get(pattern, "extra_args"), *v;
    size_t i;
    out->args = cay__alloc((json_array_size(list) + 1) * sizeof *out->args);
    json_array_foreach(list, i, v)
    {
        const char *s = json_string_value(v), *name = s ? s + strspn(s, "-") : "";
        if (!s || strpbrk(s, "\r\n"))
            return bad(m, "extra_args", "has something that is no argument", err);
        if (strncmp(name, "allow-other", 11) != 0)
            out->args[out->nargs++] = cay__strdup(s);
    }
    return 0;
}

static int remote_of(const cay__storage_mount *m, const char *name, const char *top,
                     const char *below, cay__storage_plan *out, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(8192);
    const char *t = get(m, top), *p = *below ? get(m, below) : "";
    t += strspn(t, "/");
    p += strspn(p, "/");
    if (!*t && strcmp(top, "path") != 0)
        return bad(m, top, "is missing", err);
    cay__buf_fmt(&b, "%s:%s%s%s", name, t, *p ? "/" : "", p);
    if (b.full)
        return bad(m, top, "is too long", err);
    out->remote = cay__strdup(b.data);
    return 0;
}

int cay__storage_conf(const cay__storage_mount *m, const char *id, size_t index, const char *place,
                      cay__storage_plan *out, cay_err *err)
{
    const json_t *pattern =
        json_object_get(json_object_get(m->fields, "mount_strategy"), "pattern");
    const char *given = cay__json_str(pattern, "remote_name", "");
    char name[160], file[4096], n[24];
    CAY_AUTOBUF b = CAY__BUF(4 * VALUE_MAX);
    *out = (cay__storage_plan){ 0 };
    CAY_TRY(check_values(m, err));
    if (!strcmp(m->type, "s3_files_mount"))
        return s3files(m, out, err);
    for (size_t i = 0; i < CAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].type, m->type) != 0)
            continue;
        cay__str_join(name, sizeof name, "sandbox_", kinds[i].word, "_", id, NULL);
        if (*given && !name_ok(given))
            return bad(m, "remote_name", "is not a name", err);
        if (*given)
            cay__str_copy(name, sizeof name, given);
        if (!cay__str_join(file, sizeof file, place, "/", cay__str_u64(n, index), ".file", NULL))
            return bad(m, "place", "is too long", err);
        cay__buf_fmt(&b, "[%s]\n", name);
        int rc = kinds[i].write(m, &b, file, err);
        if (rc == 0 && b.full)
            rc = bad(m, "configuration", "is too long", err);
        if (rc == 0)
            rc = remote_of(m, name, kinds[i].top, kinds[i].below, out, err);
        if (rc == 0)
            rc = take_args(m, pattern, out, err);
        out->config = cay__strdup(b.data);
        out->file = cay__strdup(get(m, "config_credentials"));
        if (rc < 0)
            cay__storage_plan_clear(out);
        explicit_bzero(b.data, b.len);
        return rc;
    }
    return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                        "entry %.80s: storage of type %.40s is not known", m->entry, m->type);
}

static void wipe(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void cay__storage_plan_clear(cay__storage_plan *p)
{
    wipe(p->config);
    wipe(p->file);
    free(p->remote);
    for (size_t i = 0; i < p->nargs; i++)
        free(p->args[i]);
    free(p->args);
    *p = (cay__storage_plan){ 0 };
}

void cay__storage_redact(const cay__storage_mount *m, char *text)
{
    const char *key;
    json_t *v;
    json_object_foreach(m->fields, key, v)
    {
        const char *s = json_string_value(v);
        char word[64];
        size_t n = s ? strlen(s) : 0;
        if (n < 4 || !cay__str_join(word, sizeof word, " ", key, " ", NULL) ||
            !strstr(secret_fields, word))
            continue;
        for (char *at; (at = strstr(text, s));) {
            size_t mark = CAY_MIN(n, (size_t)3);
            memcpy(at, "***", mark);
            memmove(at + mark, at + n, strlen(at + n) + 1);
        }
    }
}
