/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rclone is told about each storage. A section has one line a field, so no value may hold a
 * line break; whether keys may be missing, and what that means, is the manifest's to judge: here no
 * keys mean no identity, never the host's own.
 */
#include "storage.h"
#include <base/base.h>
#include <base/json.h>

#define VALUE_MAX 65536
static const char secret_fields[] = " access_key_id secret_access_key session_token access_id "
                                    "service_account_credentials access_token account_key "
                                    "client_secret token config_credentials ";

static int fail_invalid(const cay__storage_mount *m, const char *field, const char *why,
                        cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid", "entry %.80s: %s %s", m->entry,
                        field, why);
}

static const char *get_field(const cay__storage_mount *m, const char *field)
{
    return cay__json_str(m->fields, field, "");
}

static int check_values(const cay__storage_mount *m, cay_err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(m->fields, key, v) {
        const char *s = json_string_value(v);
        bool text = !strcmp(key, "service_account_credentials") ||
                    !strcmp(key, "config_credentials") || !strcmp(key, "token");
        if (s && (strlen(s) != json_string_length(v) || strlen(s) > VALUE_MAX ||
                  (!text && strpbrk(s, "\r\n"))))
            return fail_invalid(m, key, "has a line break or is too long", err);
        if (cay__json_str(v, "source", NULL))
            return fail_invalid(m, key, "is a reference that was not read", err);
    }
    return 0;
}

static void add_line(cay__buf *b, const char *key, const char *value)
{
    if (*value)
        cay__buf_fmt(b, "%s = %s\n", key, value);
}

/* Fields whose keys rclone calls by the same names. */
static void add_fields(const cay__storage_mount *m, cay__buf *b, const char *const *fields)
{
    for (; *fields; fields++)
        add_line(b, *fields, get_field(m, *fields));
}

/* JSON that came over several lines as one. */
static int json_line(const cay__storage_mount *m, cay__buf *b, const char *key, const char *field,
                     cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    const char *text = get_field(m, field);
    if (!*text)
        return 0;
    if (cay__json_object(field, text, &o, NULL) < 0)
        return fail_invalid(m, field, "is not a JSON object", err);
    CAY_AUTOFREE char *one = cay__json_text(o, VALUE_MAX);
    if (!one)
        return fail_invalid(m, field, "is too long", err);
    add_line(b, key, one);
    return 0;
}

static void s3_keys(const cay__storage_mount *m, cay__buf *b, const char *id, const char *secret)
{
    add_line(b, "env_auth", "false");
    add_line(b, "access_key_id", get_field(m, id));
    add_line(b, "secret_access_key", get_field(m, secret));
}

static int write_s3(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    const char *provider = get_field(m, "s3_provider");
    add_line(b, "type", "s3");
    add_line(b, "provider", cay__text_or(provider, "AWS"));
    s3_keys(m, b, "access_key_id", "secret_access_key");
    add_fields(m, b, (const char *const[]){ "session_token", "region", NULL });
    add_line(b, "endpoint", get_field(m, "endpoint_url"));
    add_line(b, "no_check_bucket", "true"); /* it is there, or it is an error: none is made */
    return 0;
}

/* With an HMAC pair by the XML interface, which speaks S3; else by its own. */
static int write_gcs(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    const char *endpoint = get_field(m, "endpoint_url"), *token = get_field(m, "access_token");
    if (*get_field(m, "access_id")) {
        add_line(b, "type", "s3");
        add_line(b, "provider", "GCS");
        s3_keys(m, b, "access_id", "secret_access_key");
        add_line(b, "region", get_field(m, "region"));
        add_line(b, "endpoint", cay__text_or(endpoint, "https://storage.googleapis.com"));
        add_line(b, "no_check_bucket", "true");
        return 0;
    }
    add_line(b, "type", "google cloud storage");
    add_line(b, "endpoint", endpoint);
    add_line(b, "location", get_field(m, "region"));
    add_line(b, "no_check_bucket", "true");
    add_line(b, "service_account_file", get_field(m, "service_account_file"));
    CAY_TRY(json_line(m, b, "service_account_credentials", "service_account_credentials", err));
    if (*token) {
        CAY_AUTOJSON *o = json_pack("{s:s, s:s}", "access_token", token, "token_type", "Bearer");
        CAY_AUTOFREE char *text = NULL;
        if (o)
            text = cay__json_text(o, VALUE_MAX);
        add_line(b, "token", CAY_OR(text, ""));
    }
    if (!*token && !*get_field(m, "service_account_file") &&
        !*get_field(m, "service_account_credentials"))
        add_line(b, "anonymous", "true");
    return 0;
}

static int write_r2(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    const char *domain = get_field(m, "custom_domain"), *account = get_field(m, "account_id");
    char url[512];
    if (strspn(account, "0123456789abcdefABCDEF-_") != strlen(account))
        return fail_invalid(m, "account_id", "is not an account's id", err);
    if (!CAY_JOIN(url, CAY_TEXT_IF(!strstr(domain, "://"), "https://"),
                  cay__text_or(domain, account),
                  CAY_TEXT_IF(!*domain, ".r2.cloudflarestorage.com")))
        return fail_invalid(m, "custom_domain", "is too long", err);
    add_line(b, "type", "s3");
    add_line(b, "provider", "Cloudflare");
    s3_keys(m, b, "access_key_id", "secret_access_key");
    add_line(b, "region", "auto");
    add_line(b, "endpoint", url);
    add_line(b, "no_check_bucket", "true");
    return 0;
}

static int write_azure(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    /* The account and key that Azure's documentation gives its emulator: no secret. */
    static const char account
        [] = "devstoreaccount1",
 key[] = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const char *endpoint = get_field(m, "endpoint");
    bool emulator = cay__str_starts(endpoint, "http://") || cay__str_starts(endpoint, "https://");
    /* Of Azure itself it is a part of the host's name. A whole URL is the emulator's, Azurite: for
     * that rclone takes this account and key whatever it is told. */
    if (emulator && strcmp(get_field(m, "account"), account))
        return fail_invalid(
            m, "endpoint",
            "is a whole URL, which only the emulator has (account devstoreaccount1); of "
            "Azure it is blob.core.windows.net or the like",
            err);
    if (emulator && *get_field(m, "account_key") && strcmp(get_field(m, "account_key"), key))
        return fail_invalid(m, "account_key", "is not the one that Azure's emulator has", err);
    add_line(b, "type", "azureblob");
    add_line(b, "account", get_field(m, "account"));
    add_line(b, "key", get_field(m, "account_key"));
    if (emulator)
        add_line(b, "use_emulator", "true");
    add_line(b, "endpoint", endpoint);
    if (*get_field(m, "identity_client_id")) {
        add_line(b, "use_msi", "true");
        add_line(b, "msi_client_id", get_field(m, "identity_client_id"));
    }
    return 0;
}

static int write_box(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err)
{
    add_line(b, "type", "box");
    add_fields(m, b, (const char *const[]){ "client_id", "client_secret", "access_token", NULL });
    CAY_TRY(json_line(m, b, "token", "token", err));
    add_line(b, "box_config_file",
             *get_field(m, "config_credentials") ? file : get_field(m, "box_config_file"));
    add_line(b, "box_sub_type", cay__text_or(get_field(m, "box_sub_type"), "user"));
    add_fields(m, b, (const char *const[]){ "root_folder_id", "impersonate", "owned_by", NULL });
    return 0;
}

static const struct {
    const char *type, *word, *top, *below;
    int (*write)(const cay__storage_mount *m, cay__buf *b, const char *file, cay_err *err);
} kinds[] = {
    { "s3_mount", "s3", "bucket", "prefix", write_s3 },
    { "gcs_mount", "gcs", "bucket", "prefix", write_gcs },
    { "r2_mount", "r2", "bucket", "", write_r2 },
    { "azure_blob_mount", "azure_blob", "container", "", write_azure },
    { "box_mount", "box", "path", "", write_box },
};

static bool option_ok(const char *s)
{
    return *s && !strpbrk(s, ",= \t\r\n\\\"'");
}

static int plan_s3files(const cay__storage_mount *m, cay__storage_plan *out, cay_err *err)
{
    static const char *const named[][2] = { { "mount_target_ip", "mounttargetip" },
                                            { "access_point", "accesspoint" },
                                            { "region", "region" } };
    const char *id = get_field(m, "file_system_id"), *sub = get_field(m, "subpath"), *key;
    const json_t *pattern =
                     json_object_get(json_object_get(m->fields, "mount_strategy"), "pattern"),
                 *extra[2];
    CAY_AUTOBUF b = CAY__BUF(4096), r = CAY__BUF(4096);
    json_t *v;
    if (!option_ok(id) || *id == '-' || strchr(id, ':') || strchr(id, '/'))
        return fail_invalid(m, "file_system_id", "is not a file system's id", err);
    cay__buf_str(&b, m->rw ? "rw,nosuid,nodev" : "ro,nosuid,nodev");
    CAY_EACH(one, named) {
        const char *s = cay__json_str(pattern, (*one)[0], get_field(m, (*one)[0]));
        if (*s && !option_ok(s))
            return fail_invalid(m, (*one)[0], "cannot stand in a mount option", err);
        if (*s)
            cay__buf_fmt(&b, ",%s=%s", (*one)[1], s);
    }
    extra[0] = json_object_get(m->fields, "extra_options");
    extra[1] = json_object_get(pattern, "extra_options");
    CAY_EACH_OF(it, extra, 2)
        json_object_foreach((json_t *)*it, key, v) {
            const char *s = json_string_value(v);
            if (!option_ok(key) || (s && *s && !option_ok(s)) || !strcmp(key, "suid") ||
                !strcmp(key, "dev") || !strcmp(key, "rw"))
                return fail_invalid(m, key, "is no option that may be given", err);
            cay__buf_fmt(&b, s && *s ? ",%s=%s" : ",%s", key, s);
        }
    cay__buf_fmt(&r, "%s:/%s", id, sub + strspn(sub, "/"));
    if (b.full || r.full)
        return fail_invalid(m, "extra_options", "are too long", err);
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
    json_array_foreach(list, i, v) {
        const char *s = json_string_value(v), *name = CAY_TEXT_IF(s, s + strspn(s, "-"));
        if (!s || strpbrk(s, "\r\n"))
            return fail_invalid(m, "extra_args", "has something that is no argument", err);
        if (strncmp(name, "allow-other", 11) != 0)
            out->args[out->nargs++] = cay__strdup(s);
    }
    return 0;
}

static int remote_of(const cay__storage_mount *m, const char *name, const char *top,
                     const char *below, cay__storage_plan *out, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(8192);
    const char *t = get_field(m, top), *p = CAY_TEXT_IF(*below, get_field(m, below));
    t += strspn(t, "/");
    p += strspn(p, "/");
    if (!*t && strcmp(top, "path") != 0)
        return fail_invalid(m, top, "is missing", err);
    cay__buf_fmt(&b, "%s:%s%s%s", name, t, CAY_TEXT_IF(*p, "/"), p);
    if (b.full)
        return fail_invalid(m, top, "is too long", err);
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
        return plan_s3files(m, out, err);
    CAY_EACH(kind, kinds) {
        if (strcmp(kind->type, m->type) != 0)
            continue;
        CAY_JOIN(name, "sandbox_", kind->word, "_", id);
        if (*given && !name_ok(given))
            return fail_invalid(m, "remote_name", "is not a name", err);
        if (*given)
            CAY_COPY(name, given);
        if (!CAY_JOIN(file, place, "/", cay__str_u64(n, index), ".file"))
            return fail_invalid(m, "place", "is too long", err);
        cay__buf_fmt(&b, "[%s]\n", name);
        int rc = kind->write(m, &b, file, err);
        if (rc == 0 && b.full)
            rc = fail_invalid(m, "configuration", "is too long", err);
        if (rc == 0)
            rc = remote_of(m, name, kind->top, kind->below, out, err);
        if (rc == 0)
            rc = take_args(m, pattern, out, err);
        out->config = cay__strdup(b.data);
        out->file = cay__strdup(get_field(m, "config_credentials"));
        if (rc < 0)
            cay__storage_plan_clear(out);
        explicit_bzero(b.data, b.len);
        return rc;
    }
    return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                        "entry %.80s: storage of type %.40s is not known", m->entry, m->type);
}

static void free_secret(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void cay__storage_plan_clear(cay__storage_plan *p)
{
    free_secret(p->config);
    free_secret(p->file);
    free(p->remote);
    CAY_EACH_OF(arg, p->args, p->nargs)
        free(*arg);
    free(p->args);
    *p = (cay__storage_plan){ 0 };
}

void cay__storage_redact(const cay__storage_mount *m, char *text)
{
    const char *key;
    json_t *v;
    json_object_foreach(m->fields, key, v) {
        const char *s = json_string_value(v);
        char word[64];
        size_t n = 0;
        if (s)
            n = strlen(s);
        if (n < 4 || !CAY_JOIN(word, " ", key, " ") || !strstr(secret_fields, word))
            continue;
        for (char *at; (at = strstr(text, s));) {
            size_t mark = CAY_MIN(n, (size_t)3);
            memcpy(at, "***", mark);
            memmove(at + mark, at + n, strlen(at + n) + 1);
        }
    }
}
