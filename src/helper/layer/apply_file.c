/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"
#include <base/path.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV)

static int set_result(item *it, unsigned status, const char *why)
{
    it->status = status;
    CAY_FORMAT(it->why, "%s", why);
    return 0;
}

/* Why a call on the user's directory failed, as a result of this one change. */
static int says_errno(item *it, const char *what)
{
    int e = errno;
    char why[sizeof it->why];
    const char *cause = strerror(e);
    if (e == ELOOP)
        cause = "a link is on the way";
    else if (e == EXDEV)
        cause = "another filesystem is mounted there";
    CAY_FORMAT(why, "%s: %s", what, cause);
    if (e == ENOTEMPTY || e == EISDIR || e == ENOTDIR || e == EEXIST)
        return set_result(it, CAY__APPLY_CONFLICT, why);
    return set_result(it, CAY__APPLY_REFUSED, why);
}

/* As plain root: what is made from here on is of this owner from its first moment, so that nothing
 * has to be given away by a name which the directory's owner may have put onto something else
 * meanwhile. Rights over files are taken back at once: a file's owner need not be the one who may
 * write the directory. Otherwise whoever asks is the owner of what is made. */
static bool make_as(const apply *a, uid_t uid, gid_t gid)
{
    struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct c[2];
    if (!a->t->root)
        return true;
    setfsgid(gid);
    setfsuid(uid);
    if (setfsuid((uid_t)-1) != (int)uid || setfsgid((gid_t)-1) != (int)gid ||
        syscall(SYS_capget, &h, c) < 0)
        return false;
    CAY_EACH(it, c)
        it->effective = it->permitted;
    return syscall(SYS_capset, &h, c) == 0;
}

static void make_as_root(const apply *a)
{
    int e = errno;
    if (a->t->root) {
        setfsuid(0);
        setfsgid(0);
    }
    errno = e;
}

/* As the one who is replaced, else as the directory around it. */
static bool make_as_one(const apply *a, int parent, const struct stat *old)
{
    struct stat st;
    if (!old && fstat(parent, &st) < 0)
        return false;
    old = CAY_OR(old, &st);
    return make_as(a, old->st_uid, old->st_gid);
}

static bool make_dir(const apply *a, int parent, const char *name, mode_t mode)
{
    bool made = make_as_one(a, parent, NULL) && mkdirat(parent, name, mode) == 0;
    make_as_root(a);
    return made;
}

static bool make_link(const apply *a, int parent, const char *target, const struct stat *old)
{
    bool made = make_as_one(a, parent, old) && symlinkat(target, parent, APPLY_TEMP) == 0;
    make_as_root(a);
    return made;
}

/* A directory that is missing on the way to a change. */
static bool make_way(void *self, int at, const char *name)
{
    const apply *a = self;
    return make_dir(a, at, name, 0777 & ~a->t->umask);
}

/* To the directory of the path in the sandbox's view; it is left at the root again by go_home(). */
static bool go_to(apply *a, const char *path, char name[256])
{
    bool other;
    for (const char *p = path;;) {
        size_t n = strcspn(p, "/");
        if (!n || n > 255)
            return false;
        memcpy(name, p, n);
        name[n] = 0;
        if (!p[n])
            return true;
        p += n + 1;
        entry e;
        view_look(&a->from, name, &e);
        if (!e.there || !S_ISDIR(e.st.st_mode) || view_down(a->t, &a->from, name, &other) < 0)
            return false;
    }
}

static void go_home(apply *a)
{
    while (a->from.base.n > 1)
        view_up(&a->from);
}

static bool is_later(const apply *a, const struct stat *st)
{
    return (int64_t)st->st_ctim.tv_sec * 1000 + st->st_ctim.tv_nsec / 1000000 > a->since &&
           !applied_has(&a->done, st);
}

/* A file that the sandbox changed, and that is not there: the user took it away, if the user was in
 * that directory at all. */
static bool user_removed(const apply *a, int parent, const entry *src, const char *name)
{
    struct stat st;
    char path[300];
    if (!src->in_top || !S_ISREG(src->st.st_mode) || fstat(parent, &st) < 0 || !is_later(a, &st))
        return false;
    return meta_path(path, src->dir, name) &&
           lgetxattr(path, a->t->root ? "trusted.overlay.origin" : "user.overlay.origin", NULL,
                     0) >= 0;
}

static mode_t mode_for(const apply *a, const struct stat *src, const struct stat *old)
{
    /* No set-uid, no set-gid; what group and others may write is what they may already, or what the
     * umask lets. */
    mode_t may = (old ? old->st_mode : 0) | ~a->t->umask;
    return src->st_mode & 0777 & may;
}

/* By the descriptor that made it. */
static bool set_owner(const apply *a, int fd, int parent, const struct stat *old)
{
    struct stat st;
    if (!a->t->root) /* whoever asks is the owner of what is made */
        return true;
    if (!old && fstat(parent, &st) < 0)
        return false;
    const struct stat *as = CAY_OR(old, &st);
    return fchown(fd, as->st_uid, as->st_gid) == 0;
}

static bool copy_data(int in, int out)
{
    struct stat st;
    if (fstat(in, &st) < 0 || ftruncate(out, st.st_size) < 0)
        return false;
    for (off_t at = 0; at < st.st_size;) {
        at = lseek(in, at, SEEK_DATA);
        if (at < 0)
            return errno == ENXIO;
        off_t end = lseek(in, at, SEEK_HOLE);
        if (end < 0 || lseek(out, at, SEEK_SET) < 0 || lseek(in, at, SEEK_SET) < 0)
            return false;
        while (at < end) {
            ssize_t n = copy_file_range(in, NULL, out, NULL, (size_t)(end - at), 0);
            if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
                          errno == EOPNOTSUPP || errno == EPERM))
                n = sendfile(out, in, NULL, (size_t)(end - at));
            if (n < 0)
                return false;
            if (n == 0) /* it got shorter */
                return ftruncate(out, at) == 0;
            at += n;
        }
    }
    return true;
}

static int is_done(item *it)
{
    return set_result(it, CAY__APPLY_DONE, "");
}

/* It is there, or with name NULL gone, by us. */
static int record_applied(apply *a, item *it, int parent, const char *name)
{
    struct stat st;
    if (name && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        applied_add(&a->done, &st);
    if (fstat(parent, &st) == 0)
        applied_add(&a->done, &st);
    return is_done(it);
}

static int put_in_place(apply *a, item *it, int parent, const char *name)
{
    if (renameat(parent, APPLY_TEMP, parent, name) == 0) {
        CAY_FAULT("layer.apply.renamed");
        return record_applied(a, it, parent, name);
    }
    says_errno(it, "put in place");
    unlinkat(parent, APPLY_TEMP, 0);
    return 0;
}

static int put_file(apply *a, item *it, int src, int parent, const char *name,
                    const struct stat *st, const struct stat *old)
{
    unlinkat(parent, APPLY_TEMP, 0);
    CAY_AUTOFD out =
        openat(parent, APPLY_TEMP, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return says_errno(it, "write");
    CAY_FAULT("layer.apply.temp");
    if (!copy_data(src, out) || !set_owner(a, out, parent, old) ||
        fchmod(out, mode_for(a, st, old)) < 0) {
        says_errno(it, "write");
        unlinkat(parent, APPLY_TEMP, 0);
        return 0;
    }
    CAY_FAULT("layer.apply.written");
    return put_in_place(a, it, parent, name);
}

/* Still the one that was looked at. */
static bool is_same_inode(const struct stat *now, const struct stat *old)
{
    errno = ESTALE;
    return now->st_dev == old->st_dev && now->st_ino == old->st_ino && now->st_uid == old->st_uid;
}

/* Permissions alone: the file stays the one it is, with all its names. */
static int put_mode(apply *a, item *it, int parent, const char *name, const struct stat *st,
                    const struct stat *old)
{
    char path[40];
    mode_t mode = mode_for(a, st, old);
    if (mode == (old->st_mode & 07777))
        return set_result(it, CAY__APPLY_SAME, "");
    if (a->dry)
        return is_done(it);
    CAY_AUTOFD fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat now;
    CAY_FORMAT(path, "/proc/self/fd/%d", fd);
    if (fd < 0 || fstat(fd, &now) < 0 || !is_same_inode(&now, old) || chmod(path, mode) < 0)
        return says_errno(it, "set the mode");
    return record_applied(a, it, parent, name);
}

static int put_link(apply *a, item *it, const entry *src, const char *src_name, int parent,
                    const char *name, const struct stat *old)
{
    char target[4096];
    ssize_t n = readlinkat(src->dir, src_name, target, sizeof target - 1);
    if (n <= 0)
        return set_result(it, CAY__APPLY_GONE, "it changed meanwhile");
    target[n] = 0;
    if (cay__link_leaves(it->path, target) && !it->named)
        return set_result(it, CAY__APPLY_REFUSED,
                          "a link that leaves the directory; name it to have it");
    if (a->dry)
        return is_done(it);
    unlinkat(parent, APPLY_TEMP, 0);
    if (!make_link(a, parent, target, old))
        return says_errno(it, "make the link");
    CAY_FAULT("layer.apply.linked");
    return put_in_place(a, it, parent, name);
}

static int put_dir(apply *a, item *it, int parent, const char *name, const struct stat *st,
                   const struct stat *old)
{
    bool fresh = !old || !S_ISDIR(old->st_mode);
    if (!fresh && mode_for(a, st, old) == (old->st_mode & 0777))
        return set_result(it, CAY__APPLY_SAME, "");
    if (a->dry)
        return is_done(it);
    if (old && fresh && unlinkat(parent, name, 0) < 0)
        return says_errno(it, "replace");
    if (fresh) {
        if (!make_dir(a, parent, name, mode_for(a, st, NULL)))
            return says_errno(it, "make");
        return record_applied(a, it, parent, name);
    }
    struct stat now;
    CAY_AUTOFD fd =
        cay__fd_openat2(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, BENEATH);
    if (fd < 0 || fstat(fd, &now) < 0 || !is_same_inode(&now, old) ||
        fchmod(fd, mode_for(a, st, old)) < 0)
        return says_errno(it, "set the mode");
    return record_applied(a, it, parent, name);
}

/* What stands in the way of putting it, in the user's directory as it is now. */
static const char *in_the_way(const apply *a, const item *it, int parent, const entry *src,
                              const char *src_name, const struct stat *old)
{
    if (a->force)
        return NULL;
    if (old && S_ISDIR(old->st_mode) && S_ISDIR(src->st.st_mode))
        return NULL;
    if (old && is_later(a, old))
        return "it changed in your directory since the sandbox was made";
    if (!old && it->kind == 'M')
        return "it is gone from your directory";
    if (!old && user_removed(a, parent, src, src_name))
        return "it was removed from your directory since the sandbox was made";
    return NULL;
}

static int put_item(apply *a, item *it, const entry *src, const char *src_name)
{
    char name[256];
    struct stat st = src->st, old;
    const char *why;
    CAY_AUTOFD parent = cay__fd_parent(a->dir, it->path, a->dry ? NULL : make_way, a, name);
    if (parent < 0 && a->dry && (errno == ENOENT || errno == ENOTDIR))
        return is_done(it); /* its directory comes before it */
    if (parent < 0)
        return says_errno(it, "enter its directory");
    bool there = fstatat(parent, name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    if ((why = in_the_way(a, it, parent, src, src_name, there ? &old : NULL)))
        return set_result(it, CAY__APPLY_CONFLICT, why);
    if (there && S_ISDIR(old.st_mode) && !S_ISDIR(st.st_mode) && !a->dry &&
        unlinkat(parent, name, AT_REMOVEDIR) < 0)
        return says_errno(it, "replace a directory");
    const struct stat *was = NULL;
    if (there && !S_ISDIR(old.st_mode) == !S_ISDIR(st.st_mode))
        was = &old;
    if (S_ISDIR(st.st_mode))
        return put_dir(a, it, parent, name, &st, there ? &old : NULL);
    if (it->mode_only && was && S_ISREG(old.st_mode))
        return put_mode(a, it, parent, name, &st, &old);
    if (S_ISLNK(st.st_mode))
        return put_link(a, it, src, src_name, parent, name, was);
    if (!S_ISREG(st.st_mode))
        return set_result(it, CAY__APPLY_REFUSED,
                          "only files, directories and links are taken over");
    CAY_AUTOFD fd = cay__file_at(src->dir, src_name);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return set_result(it, CAY__APPLY_GONE, "it changed meanwhile");
    if (a->dry)
        return is_done(it);
    return put_file(a, it, fd, parent, name, &st, was);
}

int apply_put(apply *a, item *it, cay_err *err)
{
    char name[256];
    entry e = { .dir = -1 };
    if (go_to(a, it->path, name))
        view_look(&a->from, name, &e);
    int rc;
    if (e.there)
        rc = put_item(a, it, &e, name);
    else
        rc = set_result(it, CAY__APPLY_GONE, "it is not in the sandbox any more");
    go_home(a);
    return rc;
}

int apply_remove(apply *a, item *it, cay_err *err)
{
    char name[256], in[256];
    struct stat old;
    entry e = { .dir = -1 };
    if (go_to(a, it->path, in))
        view_look(&a->from, in, &e);
    go_home(a);
    if (e.there)
        return set_result(it, CAY__APPLY_GONE, "it is in the sandbox again");
    CAY_AUTOFD parent = cay__fd_parent(a->dir, it->path, NULL, NULL, name);
    if (parent < 0) {
        if (errno == ENOENT)
            return is_done(it);
        return says_errno(it, "enter its directory");
    }
    if (fstatat(parent, name, &old, AT_SYMLINK_NOFOLLOW) < 0)
        return is_done(it);
    if (!S_ISDIR(old.st_mode) && !a->force && is_later(a, &old))
        return set_result(it, CAY__APPLY_CONFLICT,
                          "it changed in your directory since the sandbox was made");
    if (a->dry)
        return is_done(it);
    if (unlinkat(parent, name, S_ISDIR(old.st_mode) ? AT_REMOVEDIR : 0) < 0) {
        if (errno == ENOTEMPTY)
            return set_result(it, CAY__APPLY_CONFLICT, "it holds files that stay");
        return says_errno(it, "remove");
    }
    CAY_FAULT("layer.apply.removed");
    return record_applied(a, it, parent, NULL);
}
