/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of entries: relative, by '/', never out; and errors that name them. */
#include "manifest.h"

int cay__bad(cay_err *err, const char *reason, const char *entry, const char *word, const char *fmt,
             ...)
{
    char why[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    int rc;
    if (*entry)
        rc = cay_fail_why(err, CAY_EINVAL, reason, "entry %.80s: %s", entry, why);
    else
        rc = cay_fail_why(err, CAY_EINVAL, reason, "manifest: %s", why);
    if (!err)
        return rc;
    CAY_AUTOBUF d = CAY__BUF(sizeof err->detail - 1);
    cay__buf_str(&d, "{\"entry\":");
    cay__buf_json(&d, entry, CAY_MIN(strlen(entry), 100));
    cay__buf_fmt(&d, ",\"reason\":\"%s\"}", word);
    if (!d.full)
        CAY_COPY(err->detail, d.data);
    return rc;
}

static int bad_path(cay_err *err, const char *key, const char *word, const char *why)
{
    return cay__bad(err, "invalid_manifest_path", cay__text_or(key, "\"\""), word, "%s", why);
}

static bool drive_letter(const char *s)
{
    return ((*s | 32) >= 'a' && (*s | 32) <= 'z') && s[1] == ':';
}

/* Judged as it came, before anything is made of it: on Windows C:\x is absolute, and would be a
 * plain name here. */
static int judge_key(const char *key, cay_err *err)
{
    if (!*key)
        return bad_path(err, key, "empty", "a path is not empty");
    if (strlen(key) >= CAY_MANIFEST_PATH)
        return bad_path(err, key, "too_long", "a path has at most 4095 bytes");
    if (drive_letter(key) || (key[0] == '\\' && key[1] == '\\'))
        return bad_path(err, key, "absolute",
                        "it is a path of Windows; give one relative to the root, such as src/x");
    if (key[0] == '/' || key[0] == '\\')
        return bad_path(err, key, "absolute", "it is absolute; paths are relative to the root");
    for (const char *c = key; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return bad_path(err, key, "control_character", "it has a control character");
    return 0;
}

int cay__entry_path(cay__arena *mem, const char *base, const char *key, const char **out,
                    cay_err *err)
{
    CAY_TRY(judge_key(key, err));
    size_t len = strlen(base), at = len;
    char *path = cay__arena_take(mem, len + strlen(key) + 2);
    memcpy(path, base, len);
    for (const char *s = key, *e;; s = e + 1) {
        e = s + strcspn(s, "/\\");
        size_t n = (size_t)(e - s);
        if (n == 2 && s[0] == '.' && s[1] == '.')
            return bad_path(err, key, "escape_root", "a path never has \"..\"");
        if (n > 255)
            return bad_path(err, key, "too_long", "a part of a path has at most 255 bytes");
        if (n && !(n == 1 && *s == '.')) {
            if (len)
                path[len++] = '/';
            memcpy(path + len, s, n);
            len += n;
        }
        if (!*e)
            break;
    }
    if (len == at)
        return bad_path(err, key, "root_itself", "it is the root itself; name something below it");
    if (len >= CAY_MANIFEST_PATH)
        return bad_path(err, key, "too_long", "a path has at most 4095 bytes");
    path[len] = 0;
    *out = path;
    return 0;
}

bool cay__path_normal(const char *path, char **out)
{
    if (*path != '/' || strlen(path) >= CAY_MANIFEST_PATH)
        return false;
    char *to = cay__alloc(strlen(path) + 2);
    size_t n = 0;
    for (const char *s = path, *e; *s; s = e) {
        s += strspn(s, "/");
        e = s + strcspn(s, "/");
        size_t k = (size_t)(e - s);
        if (!k || (k == 1 && *s == '.'))
            continue;
        if (k == 2 && s[0] == '.' && s[1] == '.') {
            if (!n) {
                free(to);
                return false;
            }
            while (n && to[--n] != '/')
                ;
            continue;
        }
        to[n++] = '/';
        memcpy(to + n, s, k);
        n += k;
    }
    if (!n)
        to[n++] = '/';
    to[n] = 0;
    *out = to;
    return true;
}

bool cay__path_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    if (n == 1 && *dir == '/')
        return *path == '/';
    return !strncmp(path, dir, n) && (!path[n] || path[n] == '/');
}

int cay__mount_path(const cay_manifest *m, cay__arena *mem, const cay__entry *e, const char **out,
                    cay_err *err)
{
    const char *given = cay__member(e->fields, "mount_path");
    CAY_AUTOFREE char *whole = NULL, *normal = NULL;
    size_t n = strlen(m->root) + CAY_MAX(strlen(e->path), strlen(CAY_OR(given, ""))) + 2;
    whole = cay__alloc(n);
    if (given && *given == '/')
        cay__str_copy(whole, n, given);
    else
        cay__str_join(whole, n, m->root, "/", CAY_OR(given, e->path), NULL);
    if (!cay__path_normal(whole, &normal))
        return cay__bad(err, "invalid_manifest_path", e->path, "escape_root",
                        "mount_path \"%.60s\" climbs out", CAY_OR(given, e->path));
    if (!strcmp(normal, "/") || !strcmp(normal, m->root) || cay__path_below(m->root, normal))
        return cay__bad(err, "invalid_manifest_path", e->path, "root_itself",
                        "a mount would cover the root %.60s", m->root);
    if (given && *given != '/' && !cay__path_below(normal, m->root))
        return cay__bad(err, "invalid_manifest_path", e->path, "escape_root",
                        "mount_path \"%.60s\" climbs out of the root", given);
    *out = cay__arena_str(mem, normal);
    return 0;
}

int cay_manifest_resolve(const cay_manifest *m, const char *path, bool for_write, char **out,
                         cay_err *err)
{
    CAY_AUTOFREE char *whole = NULL, *normal = NULL;
    const cay__mgrant *best = NULL;
    size_t n = strlen(m->root) + strlen(path) + 2;
    whole = cay__alloc(n);
    if (*path == '/')
        cay__str_copy(whole, n, path);
    else
        cay__str_join(whole, n, m->root, "/", path, NULL);
    if (!cay__path_normal(whole, &normal))
        return cay__bad(err, "invalid_manifest_path", path, "escape_root",
                        "it leaves the workspace");
    CAY_EACH_OF(grant, m->grants, m->ngrants)
        if (cay__path_below(normal, grant->path) &&
            (!best || strlen(grant->path) > strlen(best->path)))
            best = grant;
    bool inside = cay__path_below(normal, m->root);
    if (!best && !inside)
        return cay__bad(err, "invalid_manifest_path", path,
                        *path == '/' ? "absolute" : "escape_root",
                        "it is neither below %.60s nor below a path grant", m->root);
    if (best && best->read_only && for_write && (!inside || strlen(best->path) >= strlen(m->root)))
        return cay__bad(err, "workspace_archive_write_error", path, "read_only_extra_path_grant",
                        "the grant of %.60s is read-only", best->path);
    *out = CAY_STEAL(normal);
    return 0;
}
