/* SPDX-License-Identifier: Apache-2.0 */
/* Which directories of the host may be shown inside a sandbox. */
#include "limits.h"
#include <base/base.h>
#include <linux/openat2.h>
#include <sys/vfs.h>

/* Views of the kernel: whoever can write there owns the machine, wherever they are mounted. */
static const uint32_t kernel_fs[] = {
    0x9fa0 /* proc */,           0x62656572 /* sysfs */,    0x27e0eb /* cgroup */,
    0x63677270 /* cgroup2 */,    0x64626720 /* debugfs */,  0x74726163 /* tracefs */,
    0x73636673 /* securityfs */, 0x62656570 /* configfs */, 0xcafe4a11 /* bpf */,
    0xde5e81e4 /* efivarfs */,   0x1cd1 /* devpts */,       0x19800202 /* mqueue */,
    0xf97cff8c /* selinux */,    0x6165676c /* pstore */,   0x42494e4d /* binfmt_misc */,
    0x6e736673 /* nsfs */,
};

static int refuse_source(const char *what, const char *path, const char *why, cay_err *err)
{
    return cay_fail_why(err, CAY_EPERM, "source_refused", "%s %.120s: %s; give another directory",
                        what, path, why);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is `top` the directory `fd` or above it? Climbs by "..", so links do not hide it. */
static bool is_below(int fd, const struct stat *top)
{
    struct stat st, last = { 0 };
    CAY_AUTOFD at = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int depth = 0; at >= 0 && depth < 4096; depth++) {
        if (fstat(at, &st) < 0 || is_same_file(&st, &last)) /* the parent of / is / */
            return false;
        if (is_same_file(&st, top))
            return true;
        last = st;
        int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        cay__close_fd(&at);
        at = up;
    }
    return false;
}

static bool is_overlapping(int fd, const struct stat *st, int other)
{
    struct stat o;
    return other >= 0 && fstat(other, &o) == 0 && (is_below(other, st) || is_below(fd, &o));
}

static int check_dir(const char *what, const char *path, int fd, const struct stat *st,
                     cay_err *err)
{
    struct stat dev, root;
    struct statfs fs;
    CAY_TRY_SYS(fstatfs(fd, &fs), err, "%s %.120s", what, path);
    CAY_EACH(it, kernel_fs)
        if (*it == (uint32_t)fs.f_type)
            return refuse_source(what, path, "it is a view of the kernel", err);
    if (stat("/", &root) == 0 && is_same_file(st, &root))
        return refuse_source(what, path, "it is the whole host", err);
    /* /dev/shm is another filesystem, and a fine place for a workspace */
    if (stat("/dev", &dev) == 0 &&
        (is_same_file(st, &dev) || (st->st_dev == dev.st_dev && is_below(fd, &dev))))
        return refuse_source(what, path, "it holds devices", err);
    return 0;
}

int cay__on_dir(const char *path, int flags, int *out, cay_err *err)
{
    *out = cay__fd_openat2(AT_FDCWD, path, (uint64_t)flags | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);
    if (*out < 0 && errno == ELOOP)
        return cay_fail_why(err, CAY_EPERM, "source_refused",
                            "on %.120s: it, or a directory around it, is a symbolic link now; put "
                            "the directory itself back",
                            path);
    if (*out < 0)
        return cay_fail_sys(err, "on %.120s", path);
    return 0;
}

static int open_source(const char *what, const char *path, int *fd, cay_err *err)
{
    if (!strcmp(what, CAY__SOURCE_ON))
        return cay__on_dir(path, O_PATH, fd, err);
    *fd = open(path, O_PATH | O_CLOEXEC);
    if (*fd < 0)
        return cay_fail_sys(err, "%s %.120s", what, path);
    return 0;
}

int cay__source_check(const char *what, const char *path, int home_fd, const char *run, int *out,
                      cay_err *err)
{
    struct stat st;
    CAY_AUTOFD fd = -1;
    if (*path != '/')
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid", "%s %.120s: give an absolute path",
                            what, path);
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                                "%s %.120s: control characters are not allowed in it", what, path);
    CAY_TRY(open_source(what, path, &fd, err));
    CAY_TRY_SYS(fstat(fd, &st), err, "%s %.120s", what, path);
    if (!S_ISDIR(st.st_mode))
        return cay_fail_why(err, CAY_ETYPE, "not_a_directory", "%s %.120s is not a directory", what,
                            path);
    CAY_TRY(check_dir(what, path, fd, &st, err));
    CAY_AUTOFD run_fd = open(run, O_PATH | O_DIRECTORY | O_CLOEXEC); /* may not be there yet */
    if (is_overlapping(fd, &st, home_fd))
        return refuse_source(what, path, "it holds the state directory or is in it", err);
    if (is_overlapping(fd, &st, run_fd))
        return refuse_source(what, path, "it holds the keeper's sockets or is in their directory",
                             err);
    if (out)
        *out = CAY_STEAL_FD(fd);
    return 0;
}
