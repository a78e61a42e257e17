/* SPDX-License-Identifier: Apache-2.0 */
#include "skill.h"
#include <base/base.h>
#include <base/fsop.h>
#include <base/mutant.h>
#include <linux/openat2.h>

static void copy_value(char *dst, size_t cap, const char *s, size_t n)
{
    size_t w = 0;
    while (n && (*s == ' ' || *s == '\t'))
        s++, n--;
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\r'))
        n--;
    if (n >= 2 && (*s == '"' || *s == '\'') && s[n - 1] == *s)
        s++, n -= 2;
    for (size_t i = 0, k; i < n; i += k) {
        if (s[i])
            k = cay__utf8_len(s + i, n - i);
        else
            k = 0;
        if (!k || (((unsigned char)s[i] < 0x20 || s[i] == 0x7f) &&
                   !CAY__MUTANT("fuzz-skill_front"))) { /* what is no text is left out */
            k = CAY_OR(k, 1);
            continue;
        }
        if (w + k >= cap)
            break;
        memcpy(dst + w, s + i, k);
        w += k;
    }
    dst[w] = 0;
}

void cay__skill_front(const char *text, size_t len, cay__front *out)
{
    const char *end = text + len, *p = text;
    bool inside = false;
    *out = (cay__front){ .name = "" };
    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((CAY_OR(nl, end)) - p);
        size_t bare = n;
        if (n && p[n - 1] == '\r')
            bare = n - 1;
        bool rule = bare == 3 && !memcmp(p, "---", 3);
        if (!inside && !rule)
            return;
        if (inside && rule)
            return;
        inside = true;
        const char *colon = memchr(p, ':', bare);
        if (colon && colon - p == 4 && !memcmp(p, "name", 4))
            copy_value(out->name, sizeof out->name, colon + 1, (size_t)(p + bare - colon - 1));
        else if (colon && colon - p == 11 && !memcmp(p, "description", 11))
            copy_value(out->description, sizeof out->description, colon + 1,
                       (size_t)(p + bare - colon - 1));
        if (nl)
            p = nl + 1;
        else
            p = end;
    }
    *out = (cay__front){ .name = "" }; /* a block that never ends is none */
}

bool cay__skill_name(const char *name)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return *name && *name != '.' && strlen(name) < 128 && strspn(name, set) == strlen(name);
}

typedef struct copy {
    cay_sandbox *sb;
    const cay_call *call;
    const char *to, *user;
    uint64_t files, bytes;
    int rc;
    cay_err *err;
} copy;

static int copy_file(copy *c, const cay__fs_entry *e, const char *path)
{
    CAY_AUTOFD fd = openat(e->dir, e->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    CAY_AUTOBUF b = CAY__BUF(CAY__SKILL_BYTES);
    if (fd < 0)
        return cay_fail_sys(c->err, "skill file %.100s", e->path);
    for (ssize_t n = 1; n > 0;) {
        char *room = cay__buf_room(&b, 65536);
        if (room)
            n = read(fd, room, 65536);
        else
            n = -1;
        if (n < 0) {
            if (room)
                return cay_fail_sys(c->err, "skill file %.100s", e->path);
            return cay_fail(c->err, CAY_ETOOBIG, "skill file %.100s is too large", e->path);
        }
        cay__buf_used(&b, (size_t)n);
    }
    c->bytes += b.len;
    if (++c->files > CAY__SKILL_FILES || c->bytes > CAY__SKILL_BYTES)
        return cay_fail(c->err, CAY_ETOOBIG, "a skill has at most %d files and 64 MiB",
                        CAY__SKILL_FILES);
    cay_write w = { .size = sizeof w,
                    .parents = true,
                    .mode = e->st->st_mode & 0111 ? 0755 : 0644,
                    .user = c->user };
    return cay_file_put(c->sb, c->call, path, CAY_OR(b.data, ""), b.len, &w, c->err);
}

static int copy_entry(const cay__fs_entry *e, void *arg)
{
    copy *c = arg;
    char path[4096];
    if (S_ISDIR(e->st->st_mode))
        return 0;
    if (!S_ISREG(e->st->st_mode))
        c->rc = cay_fail_why(c->err, CAY_ETYPE, "symlink_not_supported",
                             "%.120s of the skill is no plain file", e->path);
    else if ((size_t)CAY_FORMAT(path, "%s/%s", c->to, e->path) >= sizeof path)
        c->rc = cay_fail(c->err, CAY_ETOOBIG, "skill file %.100s has too long a path", e->path);
    else
        c->rc = copy_file(c, e, path);
    return c->rc;
}

int cay__skill_copy(cay_sandbox *sb, const cay_call *call, int dir, const char *name,
                    const char *to, const char *user, cay_err *err)
{
    copy c = { .sb = sb, .call = call, .to = to, .user = user, .err = err };
    int fd = cay__fd_openat2(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        return cay_fail_sys(err, "skill %.100s", name);
    cay__fs_walk w = { .fn = copy_entry, .arg = &c, .flags = CAY__FS_STRICT };
    int rc = cay__fs_walk_fd(fd, &w);
    if (c.rc < 0)
        return c.rc;
    if (rc < 0)
        return cay_fail_sys(err, "skill %.100s", name);
    return 0;
}
