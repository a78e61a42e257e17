/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox of a server changed, into a directory of this machine. Paths, kinds and contents
 * are that server's word and judged here: each path is walked from the opened directory downwards,
 * by no link, and what is there has to be what the sandbox began with, by its digest.
 */
#include "diff.h"
#include <base/sha256.h>
#include <base/base.h>
#include <base/path.h>
#include <sys/file.h>

#define TEMP ".cay-apply-tmp"

enum { PIECE = 64 << 10 };

static cay_apply_result set_result(cay__apply_change *x, cay_apply_result r, const char *why)
{
    CAY_COPY(x->why, why);
    return r;
}

static cay_apply_result says_errno(cay__apply_change *x, const char *what)
{
    int e = errno;
    const char *why = strerror(e);
    if (e == ELOOP)
        why = "a link is on the way";
    else if (e == EXDEV)
        why = "another filesystem is mounted there";
    CAY_FORMAT(x->why, "%s: %s", what, why);
    if (e == ENOTEMPTY || e == EISDIR || e == ENOTDIR || e == EEXIST)
        return CAY_APPLY_CONFLICT;
    return CAY_APPLY_REFUSED;
}

static bool make_way(void *arg, int at, const char *name)
{
    return mkdirat(at, name, 0777) == 0;
}

/* Of a file its bytes, of a link its target; "" of anything else. */
static void digest_of(int parent, const char *name, const struct stat *st,
                      char out[CAY__SHA256_HEX])
{
    char buf[4096];
    *out = 0;
    if (S_ISLNK(st->st_mode)) {
        ssize_t n = readlinkat(parent, name, buf, sizeof buf);
        if (n >= 0)
            cay__sha256_hex(buf, (size_t)n, out);
        return;
    }
    CAY_AUTOFD fd = -1;
    if (S_ISREG(st->st_mode))
        fd = cay__file_at(parent, name);
    if (fd >= 0 && cay__sha256_fd(fd, 0, UINT64_MAX, out) < 0)
        *out = 0;
}

/* Is it what the sandbox began with? */
static bool is_unchanged(const cay__apply_change *x, int parent, const char *name,
                         const struct stat *st)
{
    char now[CAY__SHA256_HEX];
    const char *was = CAY_OR(x->c->old_digest, "");
    if (((x->c->old_mode ^ st->st_mode) & S_IFMT) != 0 || !*was)
        return false;
    digest_of(parent, name, st, now);
    return !strcmp(now, was);
}

/* Its bytes beside its place; the mode as the umask lets, and what the replaced one let already. */
static cay_apply_result fetch_file(cay__apply_far *a, cay__apply_change *x, int parent,
                                   const struct stat *old, char digest[CAY__SHA256_HEX])
{
    char buf[PIECE], path[4200];
    cay__sha256 sum;
    cay_err why = CAY_ERR_INIT;
    CAY_AUTOFD in = -1;
    uint64_t all = 0;
    ssize_t n = 0;
    if (!CAY_JOIN(path, "/workspace/", x->c->path) ||
        cay_file_open_read(a->sb, a->call, path, NULL, &in, &why) < 0)
        return set_result(x, CAY_APPLY_GONE, cay__text_or(why.msg, "its path is too long"));
    if (!a->dry)
        unlinkat(parent, TEMP, 0);
    /* To look is to digest: nothing of what a server sends is kept, however much it is. */
    CAY_AUTOFD out = -1;
    if (!a->dry)
        out = openat(parent, TEMP, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     x->c->new_mode & 0777);
    struct stat st;
    if (!a->dry && (out < 0 || fstat(out, &st) < 0))
        return says_errno(x, "write");
    cay__sha256_begin(&sum);
    while (all <= x->c->new_size && (n = read(in, buf, sizeof buf)) > 0) {
        cay__sha256_add(&sum, buf, (size_t)n);
        all += (uint64_t)n;
        if (!a->dry && !cay__fd_write_all(out, buf, (size_t)n))
            return says_errno(x, "write");
    }
    cay__sha256_end(&sum, digest);
    if (n != 0 || all != x->c->new_size)
        return set_result(x, CAY_APPLY_GONE, "it changed meanwhile");
    if (a->dry)
        return CAY_APPLY_DONE;
    mode_t mode = (st.st_mode & 0777) | (old ? old->st_mode & x->c->new_mode & 0777 : 0);
    if (fchmod(out, mode) < 0 ||
        (geteuid() == 0 && old && fchown(out, old->st_uid, old->st_gid) < 0))
        return says_errno(x, "write");
    return CAY_APPLY_DONE;
}

static cay_apply_result put_file(cay__apply_far *a, cay__apply_change *x, int parent,
                                 const char *name, const struct stat *old, bool may)
{
    char now[CAY__SHA256_HEX] = "", fresh[CAY__SHA256_HEX] = "";
    if (a->dry && may)
        return CAY_APPLY_DONE;
    cay_apply_result r = fetch_file(a, x, parent, old, fresh);
    if (r == CAY_APPLY_DONE && old)
        digest_of(parent, name, old, now);
    if (r == CAY_APPLY_DONE && *now && !strcmp(now, fresh) &&
        ((old->st_mode ^ x->c->new_mode) & 0111) == 0)
        r = CAY_APPLY_SAME;
    else if (r == CAY_APPLY_DONE && !may)
        r = set_result(x, CAY_APPLY_CONFLICT,
                       old ? "your directory has it otherwise than the sandbox began with"
                           : "it is gone from your directory");
    else if (r == CAY_APPLY_DONE && renameat(parent, TEMP, parent, name) < 0)
        r = says_errno(x, "put in place");
    if (!a->dry)
        unlinkat(parent, TEMP, 0);
    return r;
}

static bool leads_to(int parent, const char *name, const char *target)
{
    char now[4096];
    ssize_t n = readlinkat(parent, name, now, sizeof now);
    return n >= 0 && (size_t)n == strlen(target) && !memcmp(now, target, (size_t)n);
}

static cay_apply_result put_link(cay__apply_far *a, cay__apply_change *x, int parent,
                                 const char *name, bool may)
{
    char path[4200];
    cay_err why = CAY_ERR_INIT;
    CAY_AUTOFREE cay_stat *st = cay__alloc(sizeof *st);
    st->size_of = sizeof *st;
    if (!CAY_JOIN(path, "/workspace/", x->c->path) ||
        cay_file_stat(a->sb, a->call, path, false, st, &why) < 0 || st->type != CAY_LINK ||
        !*st->target)
        return set_result(x, CAY_APPLY_GONE, cay__text_or(why.msg, "it changed meanwhile"));
    if (cay__link_leaves(x->c->path, st->target) && !x->named)
        return set_result(x, CAY_APPLY_REFUSED,
                          "a link that leaves the directory; name it to have it");
    if (leads_to(parent, name, st->target))
        return CAY_APPLY_SAME;
    if (!may)
        return set_result(x, CAY_APPLY_CONFLICT,
                          "your directory has it otherwise than the sandbox began with");
    if (a->dry)
        return CAY_APPLY_DONE;
    unlinkat(parent, TEMP, 0);
    if (symlinkat(st->target, parent, TEMP) < 0 || renameat(parent, TEMP, parent, name) < 0) {
        cay_apply_result r = says_errno(x, "put in place");
        unlinkat(parent, TEMP, 0);
        return r;
    }
    return CAY_APPLY_DONE;
}

static cay_apply_result put_dir(cay__apply_far *a, cay__apply_change *x, int parent,
                                const char *name, const struct stat *old, bool may)
{
    if (old && S_ISDIR(old->st_mode))
        return CAY_APPLY_SAME;
    if (!may)
        return set_result(x, CAY_APPLY_CONFLICT,
                          "your directory has it otherwise than the sandbox began with");
    if (!a->dry && ((old && unlinkat(parent, name, 0) < 0) ||
                    mkdirat(parent, name, x->c->new_mode & 0777) < 0))
        return says_errno(x, "make");
    return CAY_APPLY_DONE;
}

cay_apply_result cay__apply_put(cay__apply_far *a, cay__apply_change *x)
{
    char name[256];
    struct stat old;
    CAY_AUTOFD parent = cay__fd_parent(a->dir, x->c->path, CAY_IF(!a->dry, make_way), NULL, name);
    if (parent < 0 && a->dry && errno == ENOENT)
        return CAY_APPLY_DONE; /* its directory comes before it */
    if (parent < 0)
        return says_errno(x, "enter its directory");
    bool there = fstatat(parent, name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    bool may = a->force || (there ? is_unchanged(x, parent, name, &old) : x->c->kind == 'A');
    if (there && S_ISDIR(old.st_mode) &&
        !S_ISDIR(x->c->new_mode)) { /* what it held went before; what is left is the user's */
        if (!a->dry && unlinkat(parent, name, AT_REMOVEDIR) < 0)
            return says_errno(x, "replace a directory");
        there = false;
        may = true;
    }
    if (S_ISDIR(x->c->new_mode))
        return put_dir(a, x, parent, name, CAY_IF(there, &old), may);
    if (S_ISLNK(x->c->new_mode))
        return put_link(a, x, parent, name, may);
    if (!S_ISREG(x->c->new_mode))
        return set_result(x, CAY_APPLY_REFUSED, "only files, directories and links are taken over");
    return put_file(a, x, parent, name, CAY_IF(there && S_ISREG(old.st_mode), &old), may);
}

cay_apply_result cay__apply_remove(cay__apply_far *a, cay__apply_change *x)
{
    char name[256];
    struct stat old;
    CAY_AUTOFD parent = cay__fd_parent(a->dir, x->c->path, NULL, NULL, name);
    if (parent < 0) {
        if (errno == ENOENT)
            return CAY_APPLY_DONE;
        return says_errno(x, "enter its directory");
    }
    if (fstatat(parent, name, &old, AT_SYMLINK_NOFOLLOW) < 0)
        return CAY_APPLY_DONE;
    if (!S_ISDIR(old.st_mode) && !a->force && !is_unchanged(x, parent, name, &old))
        return set_result(x, CAY_APPLY_CONFLICT,
                          "your directory has it otherwise than the sandbox began with");
    if (a->dry)
        return CAY_APPLY_DONE;
    if (unlinkat(parent, name, CAY_FLAG_IF(S_ISDIR(old.st_mode), AT_REMOVEDIR)) < 0) {
        if (errno == ENOTEMPTY)
            return set_result(x, CAY_APPLY_CONFLICT, "it holds files that stay");
        return says_errno(x, "remove");
    }
    return CAY_APPLY_DONE;
}

int cay__apply_open(const char *path, bool dry, int *out, cay_err *err)
{
    if (!path)
        return cay_fail_why(err, CAY_EINVAL, "apply_where",
                            "a server's sandbox was made on no directory of this machine: say into "
                            "which one (--to DIR)");
    CAY_AUTOFD dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return cay_fail_sys(err, "%.200s", path);
    if (!dry && flock(dir, LOCK_EX | LOCK_NB) < 0)
        return cay_fail_why(err, CAY_EBUSY, "apply_busy",
                            "another apply works on this directory; try again");
    *out = CAY_STEAL_FD(dir);
    return 0;
}
