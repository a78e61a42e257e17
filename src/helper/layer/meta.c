/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define LIST_MAX  (64u << 10)
#define VALUE_MAX (64u << 10)

/* What overlayfs writes for its own use: where a file came from, counters. It tells nothing about
 * the content. */
static const char *const volatile_ones[] = { "overlay.origin",   "overlay.impure",
                                             "overlay.nlink",    "overlay.upper",
                                             "overlay.uuid",     "overlay.protattr",
                                             "overlay.whiteouts" };

bool meta_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

bool meta_path(char out[300], int dir, const char *name)
{
    if (snprintf(out, 300, "/proc/self/fd/%d/%s", dir, name) < 300)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

/* Names the attribute without telling in which mode it was written; false: it is not content. Where
 * overlayfs writes trusted.*, a user.overlay.* is the sandbox's and means nothing. */
static bool outer_name(const tool *t, const char *name, char out[256])
{
    const char *rest;
    if (cay__str_starts(name, t->root ? "trusted.overlay." : "user.overlay."))
        rest = name + (t->root ? 8 : 5);
    else
        rest = name;
    if (rest == name && (cay__str_starts(name, "trusted.") || cay__str_starts(name, "system.") ||
                         cay__str_starts(name, "security.selinux")))
        return false;
    for (size_t i = 0; i < CAY_LEN(volatile_ones) && rest != name; i++)
        if (!strcmp(rest, volatile_ones[i]))
            return false;
    return cay__str_copy(out, 256, rest);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const xattr *)a)->name, ((const xattr *)b)->name);
}

static int read_xattr(const char *path, const char *name, xattr *x)
{
    char value[VALUE_MAX];
    ssize_t n = lgetxattr(path, name, value, sizeof value);
    if (n < 0) {
        if (errno == ENODATA)
            return 0;
        return -1;
    }
    x->len = (size_t)n;
    x->value = cay__alloc(x->len);
    memcpy(x->value, value, x->len);
    return 1;
}

int xattrs_read(const tool *t, int dir, const char *name, xattrs *out)
{
    char path[300], *list = NULL;
    *out = (xattrs){ 0 };
    if (!meta_path(path, dir, name))
        return -1;
    ssize_t n = llistxattr(path, NULL, 0);
    if (n <= 0) {
        if (n < 0 && errno != ENOTSUP)
            return -1;
        return 0;
    }
    if (n > (ssize_t)LIST_MAX) {
        errno = EFBIG;
        return -1;
    }
    list = cay__alloc(LIST_MAX);
    n = llistxattr(path, list, LIST_MAX);
    size_t count = 0;
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(list + i) + 1)
        count++;
    out->v = cay__alloc(count * sizeof *out->v);
    int rc = 0;
    if (n < 0)
        rc = -1;
    for (ssize_t i = 0; rc >= 0 && i < n; i += (ssize_t)strlen(list + i) + 1) {
        xattr *x = &out->v[out->n];
        if (!outer_name(t, list + i, x->name))
            continue;
        rc = read_xattr(path, list + i, x);
        out->n += rc > 0;
    }
    free(list);
    if (rc < 0)
        xattrs_clear(out);
    else if (out->n > 1)
        qsort(out->v, out->n, sizeof *out->v, by_name);
    if (rc < 0)
        return -1;
    return 0;
}

void xattrs_clear(xattrs *x)
{
    CAY_EACH_OF(it, x->v, x->n)
        free(it->value);
    free(x->v);
    *x = (xattrs){ 0 };
}

const xattr *xattrs_find(const xattrs *x, const char *name)
{
    CAY_EACH_OF(it, x->v, x->n)
        if (!strcmp(it->name, name))
            return it;
    return NULL;
}

int xattr_set(const tool *t, int dir, const char *name, const xattr *x)
{
    char path[300], inner[300];
    if (!meta_path(path, dir, name))
        return -1;
    const char *space = "";
    if (cay__str_starts(x->name, "overlay."))
        space = t->root ? "trusted." : "user.";
    CAY_FORMAT(inner, "%s%s", space, x->name);
    return lsetxattr(path, inner, x->value, x->len, 0);
}

int meta_follow(int root, int dir, const char *to)
{
    char name[256];
    if (*to != '/') /* one name */
    {
        if (dir < 0 || strchr(to, '/') || !strcmp(to, ".."))
            return -1;
        return cay__dir_at(dir, to);
    }
    int at = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0) {
        to += strspn(to, "/");
        size_t n = strcspn(to, "/");
        if (!n)
            break;
        bool fits = n < sizeof name;
        cay__str_copy(name, CAY_MIN(n + 1, sizeof name), to);
        int next = -1;
        if (fits && strcmp(name, ".."))
            next = cay__dir_at(at, name);
        cay__close_fd(&at);
        at = next;
        to += n;
    }
    return at;
}

static bool apart;
static uid_t apart_uid;

void meta_apart(uid_t uid)
{
    apart = true;
    apart_uid = uid;
}

bool meta_foreign(const struct stat *st)
{
    if (!apart || st->st_uid == apart_uid ||
        (st->st_uid >= TOOL_STORE && st->st_uid - TOOL_STORE < 65536))
        return false;
    errno = EPERM;
    return true;
}
