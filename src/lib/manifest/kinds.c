/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of entries: what each may say, and what is checked beyond the types of its fields. */
#include "manifest.h"
#include <base/base64.h>
#include <ctype.h>

static const cay__entry_field file_fields[] = {
    { "content", CAY__STR, CAY__RAW },
    { "content_base64", CAY__STR, CAY__EMPTY },
    { "encoding", CAY__STR, 0 },
    { NULL },
};

/* Strictly: the last digit has no bits behind the last byte. */
static bool decode_content(cay_manifest *m, cay__entry *e, const json_t *coded)
{
    const char *text = json_string_value(coded);
    size_t n = json_string_length(coded), pad = n - strcspn(text, "=");
    cay__buf bytes = CAY__BUF(CAY_MANIFEST_BYTES);
    bool good = cay__base64_get(&bytes, text, n);
    if (good && pad)
        good = !(cay__base64_digit(text[n - pad - 1]) & (pad == 2 ? 15 : 3));
    if (!good) {
        cay__buf_clear(&bytes);
        return false;
    }
    e->data = cay__arena_adopt(&m->mem, bytes.data);
    e->len = bytes.len;
    return true;
}

static int check_file(cay_manifest *m, cay__entry *e, cay_err *err)
{
    const json_t *text = json_object_get(e->fields, "content"),
                 *coded = json_object_get(e->fields, "content_base64");
    const char *encoding = cay__member(e->fields, "encoding");
    if (!text && !coded && e->redacted)
        return 0;
    if (!text == !coded)
        return cay__bad_entry(err, e, "content", "give either content or content_base64");
    if (encoding && strcmp(encoding, "utf-8") && strcmp(encoding, "utf8") &&
        strcmp(encoding, "base64"))
        return cay__bad_entry(err, e, "content", "encoding is utf-8 or base64");
    if (encoding && !strcmp(encoding, "base64") && text)
        coded = text;
    if (coded) {
        if (!decode_content(m, e, coded))
            return cay__bad_entry(err, e, "content",
                                  "its content is not base64 (RFC 4648, with padding)");
    } else {
        e->data = json_string_value(text);
        e->len = json_string_length(text);
    }
    return 0;
}

/* directories and what the host
 * has */

static const cay__entry_field dir_fields[] = { { "children", CAY__OBJ, 0 }, { NULL } };
static const cay__entry_field local_file_fields[] = { { "src", CAY__STR, CAY__NEEDED }, { NULL } };
static const cay__entry_field local_dir_fields[] = {
    { "src", CAY__STR, 0 },
    { "exclude", CAY__STRS, 0 },
    { "ignore_file", CAY__STR, 0 },
    { NULL },
};

static int check_local_dir(cay_manifest *m, cay__entry *e, cay_err *err)
{
    const char *ignore = cay__member(e->fields, "ignore_file");
    const json_t *list = json_object_get(e->fields, "exclude");
    if (!cay__member(e->fields, "src") && (ignore || json_array_size(list)))
        return cay__bad_entry(err, e, "src", "exclude and ignore_file need a src");
    if (ignore && (strchr(ignore, '/') || !strcmp(ignore, "..")))
        return cay__bad_entry(err, e, "ignore_file",
                              "ignore_file is the name of a file in src, without '/'");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_string_length(json_array_get(list, i)) > 1024)
            return cay__bad_entry(err, e, "exclude", "a pattern of exclude has at most 1024 bytes");
    return 0;
}

static const cay__entry_field git_fields[] = {
    { "host", CAY__STR, 0 },
    { "repo", CAY__STR, CAY__NEEDED },
    { "ref", CAY__STR, 0 },
    { "depth", CAY__UINT, 0 },
    { "sparse_checkout", CAY__STRS, 0 },
    { "subpath", CAY__STR, CAY__EMPTY },
    { "credentials", CAY__STR, 0 },
    { NULL },
};

/* Letters, digits and a few signs, and nothing that a program could take for an option. */
static bool is_safe_text(const char *s, const char *signs)
{
    if (*s == '-' || !*s)
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr(signs, *s))
            return false;
    return true;
}

static const char *subpath_wrong(const char *s)
{
    if (strchr(s, '\\') || (isalpha((unsigned char)*s) && s[1] == ':'))
        return "windows_path";
    if (*s == '/')
        return "absolute";
    for (const char *e; *s; s = e + (*e == '/')) {
        e = s + strcspn(s, "/");
        if (e == s)
            return "empty";
        if (e - s == 2 && s[0] == '.' && s[1] == '.')
            return "parent_traversal";
    }
    return NULL;
}

static int check_git(cay_manifest *m, cay__entry *e, cay_err *err)
{
    const char *host = cay__member(e->fields, "host"), *repo = cay__member(e->fields, "repo"),
               *ref = cay__member(e->fields, "ref"), *sub = cay__member(e->fields, "subpath"),
               *from = cay__member(e->fields, "credentials");
    const json_t *sparse = json_object_get(e->fields, "sparse_checkout");
    if (host && !is_safe_text(host, ".-:"))
        return cay__bad_entry(err, e, "host", "host %.60s is not the name of a host", host);
    if (!is_safe_text(repo, "._-/") || !strchr(repo, '/') || strstr(repo, "..") ||
        strstr(repo, "//") || repo[0] == '/' || repo[strlen(repo) - 1] == '/')
        return cay__bad_entry(err, e, "repo", "repo is OWNER/NAME, not \"%.60s\"", repo);
    if (ref && (!is_safe_text(ref, "._-/+@#") || strstr(ref, "..") || strstr(ref, "@{")))
        return cay__bad_entry(err, e, "ref", "ref \"%.60s\" is no name of a branch, tag or commit",
                              ref);
    if (sub && subpath_wrong(sub))
        return cay__bad(err, "git_subpath_error", e->path, subpath_wrong(sub),
                        "subpath \"%.60s\" has to stay in the repository", sub);
    for (size_t i = 0; i < json_array_size(sparse); i++) {
        const char *one = json_string_value(json_array_get(sparse, i));
        if (*one == '-' || subpath_wrong(one))
            return cay__bad(err, "git_subpath_error", e->path,
                            *one == '-' ? "option" : subpath_wrong(one),
                            "sparse_checkout \"%.60s\" has to stay in the repository", one);
    }
    if (cay__json_int(e->fields, "depth", 0) > 1000000)
        return cay__bad_entry(err, e, "depth", "depth is 0 (all) to 1000000");
    if (from)
        return cay__reference_check(m, e->path, from, err);
    return 0;
}

#define REMOTE                                                                                     \
    { "url", CAY__STR, CAY__NEEDED }, { "headers", CAY__OBJ, 0 }, { "sha256", CAY__STR, 0 },       \
    {                                                                                              \
        "max_bytes", CAY__UINT, 0                                                                  \
    }
static const cay__entry_field remote_file_fields[] = { REMOTE, { NULL } };
static const cay__entry_field remote_dir_fields[] = {
    REMOTE, { "format", CAY__STR, 0 }, { "subpath", CAY__STR, CAY__EMPTY }, { NULL }
};

static bool source_like(const char *s)
{
    return cay__str_starts(s, "env:") || cay__str_starts(s, "file:") ||
           cay__str_starts(s, "cmd:") || cay__str_starts(s, "store:");
}

static int check_headers(cay_manifest *m, cay__entry *e, cay_err *err)
{
    const char *name;
    json_t *v;
    json_object_foreach(json_object_get(e->fields, "headers"), name, v) {
        const char *s;
        if (json_is_object(v))
            s = cay__member(v, "source");
        else
            s = json_string_value(v);
        if (!is_safe_text(name, "-_") || strlen(name) > 100)
            return cay__bad_entry(err, e, "headers", "\"%.60s\" is not the name of a header", name);
        if (!s || (json_is_string(v) && strlen(s) != json_string_length(v)) || strpbrk(s, "\r\n"))
            return cay__bad_entry(
                err, e, "headers",
                "header %.60s has to be one line of text, or {\"source\":\"env:…\"}", name);
        if (json_is_object(v) || source_like(s))
            CAY_TRY(cay__reference_check(m, e->path, s, err));
    }
    return 0;
}

static int check_remote(cay_manifest *m, cay__entry *e, cay_err *err)
{
    const char *url = cay__member(e->fields, "url"), *sha = cay__member(e->fields, "sha256"),
               *format = cay__member(e->fields, "format"), *sub = cay__member(e->fields, "subpath");
    size_t skip;
    if (cay__str_starts(url, "https://"))
        skip = 8;
    else if (cay__str_starts(url, "http://"))
        skip = 7;
    else
        skip = 0;
    const char *host = url + skip;
    size_t n = strcspn(host, "/?#");
    if (!skip || !n || memchr(host, '@', n) || strchr(url, ' ') || strchr(url, '\\') ||
        *host == '-')
        return cay__bad_entry(err, e, "url",
                              "url is http://HOST/… or https://HOST/…, without user and password");
    if (sha && (strlen(sha) != 64 || strspn(sha, "0123456789abcdefABCDEF") != 64))
        return cay__bad_entry(err, e, "sha256", "sha256 is 64 hex digits");
    if (json_object_get(e->fields, "max_bytes") && !cay__json_int(e->fields, "max_bytes", 1))
        return cay__bad_entry(err, e, "max_bytes", "max_bytes is 1 or more");
    if (format && strcmp(format, "tar") && strcmp(format, "zip"))
        return cay__bad(err, "invalid_compression_scheme", e->path, "format",
                        "format is tar or zip, not %.40s", format);
    if (sub && subpath_wrong(sub))
        return cay__bad_entry(err, e, subpath_wrong(sub),
                              "subpath \"%.60s\" has to stay in the archive", sub);
    return check_headers(m, e, err);
}

const cay__kind cay__kinds[] = {
    { "file", CAY__FILE, false, file_fields, check_file, 0, 0 },
    { "dir", CAY__DIR, true, dir_fields, NULL, 0, 0 },
    { "local_file", CAY__LOCAL_FILE, false, local_file_fields, NULL, 0, 0 },
    { "local_dir", CAY__LOCAL_DIR, true, local_dir_fields, check_local_dir, 0, 0 },
    { "git_repo", CAY__GIT, true, git_fields, check_git, 0, 0 },
    { "remote_file", CAY__REMOTE_FILE, false, remote_file_fields, check_remote, 0, 0 },
    { "remote_dir", CAY__REMOTE_DIR, true, remote_dir_fields, check_remote, 0, 0 },
    { "mount", CAY__MOUNT, true, cay__mount_fields, cay__mount_check, "", "" },
    { "s3_mount", CAY__STORAGE, true, cay__s3_fields, cay__mount_check, "rclone mountpoint",
      "mountpoint rclone" },
    { "gcs_mount", CAY__STORAGE, true, cay__gcs_fields, cay__mount_check, "rclone mountpoint",
      "mountpoint rclone" },
    { "r2_mount", CAY__STORAGE, true, cay__r2_fields, cay__mount_check, "rclone", "rclone" },
    { "azure_blob_mount", CAY__STORAGE, true, cay__azure_fields, cay__mount_check, "rclone fuse",
      "rclone" },
    { "box_mount", CAY__STORAGE, true, cay__box_fields, cay__mount_check, "rclone", "rclone" },
    { "s3_files_mount", CAY__STORAGE, true, cay__s3files_fields, cay__mount_check, "s3files", "" },
    { NULL },
};

const cay__kind *cay__kind_find(const char *name)
{
    /* Spellings of earlier texts. */
    if (!strcmp(name, "inline_file"))
        name = "file";
    for (const cay__kind *k = cay__kinds; k->name; k++)
        if (!strcmp(k->name, name))
            return k;
    return NULL;
}
