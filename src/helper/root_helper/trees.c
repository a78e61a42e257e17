/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HOME.root: everything that root's programs write and read again stands in a directory of root's,
 * in which the server makes, renames and removes nothing. So no name that they open is the server's
 * choice, and what they find is what they left.
 */
#include "root_helper.h"
#include <base/base.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Which of them the server may list; of the others it has to know the name. */
static const struct {
    const char *name;
    mode_t mode;
} dirs[] = { { "layers", 0751 }, { "sandboxes", 0751 }, { "volumes", 0711 }, { "net", 02750 } };

/* As mkdir(2) leaves it: whoever made it was killed before it was the group's. */
static bool half_made(int fd, const char *name)
{
    struct stat st;
    return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0 &&
           S_ISDIR(st.st_mode) && !st.st_uid && !st.st_gid && (st.st_mode & 07777) == 0700;
}

static int make_dir(int at, const char *name, mode_t mode, gid_t gid, cay_err *err)
{
    struct stat st;
    if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make %s of the keeper's directory", name);
    if (half_made(at, name) &&
        (fchownat(at, name, 0, gid, AT_SYMLINK_NOFOLLOW) < 0 || fchmodat(at, name, mode, 0) < 0))
        return cay_fail_sys(err, "give %s of the keeper's directory to the server's group", name);
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
        st.st_gid != gid || st.st_mode & 022 ||
        (st.st_uid && strcmp(name, "net") != 0)) /* that one is cay-egress's */
        return cay_fail_why(err, CAY_EPERM, "apart_group",
                            "%s of the keeper's directory is not root's with the server's group %u "
                            "(uid %u, group %u, mode %o): it was made for another user, or changed",
                            name, (unsigned)gid, (unsigned)st.st_uid, (unsigned)st.st_gid,
                            (unsigned)(st.st_mode & 07777));
    return 0;
}

/* Whoever may rename a directory on the way could put another in its place. */
static int check_way(const char *path, cay_err *err)
{
    char part[PATH_MAX];
    struct stat st;
    CAY_COPY(part, path);
    for (char *slash; (slash = strrchr(part, '/'));) {
        *slash = 0;
        const char *at = cay__text_or(part, "/");
        CAY_TRY_SYS(lstat(at, &st), err, "%.200s", at);
        if (st.st_uid != 0 || (st.st_mode & 022 && !(st.st_mode & S_ISVTX)))
            return cay_fail_why(err, CAY_EPERM, "apart_way",
                                "--root-keeper: %.150s, above the state directory, is not root's "
                                "alone to change (uid %u, mode %o); name another by --home",
                                at, (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
    }
    return 0;
}

/* Where everybody may give any file another name, what lies in a layer or volume need not be of a
 * sandbox. */
static int check_links(cay_err *err)
{
    char text[8] = "";
    if (cay__fd_read_file(AT_FDCWD, "/proc/sys/fs/protected_hardlinks", text, sizeof text) > 0 &&
        *text == '1')
        return 0;
    return cay_fail_why(err, CAY_EPERM, "apart_links",
                        "--root-keeper: this host lets users link to files that are not theirs; "
                        "`sysctl fs.protected_hardlinks=1` forbids it");
}

int trees_open(const char *home, gid_t gid, char *path, size_t cap, int *out, cay_err *err)
{
    struct stat st;
    if (!cay__str_join(path, cap, home, HAND_TREE, NULL))
        return cay_fail(err, CAY_EINVAL, "%.200s: the name is too long", home);
    CAY_TRY(check_way(path, err));
    CAY_TRY(check_links(err));
    rmdir(path); /* one without its mark yet is empty */
    bool made = mkdir(path, 0700) == 0;
    if (!made && errno != EEXIST)
        return cay_fail_sys(err, "make %.200s", path);
    CAY_AUTOFD fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_sys(err, "open %.200s", path);
    if (st.st_uid != 0 || st.st_mode & 027)
        return cay_fail_why(
            err, CAY_EPERM, "apart_owner",
            "%.200s has to be root's, and nobody else's to write: it is of uid %u, mode %o", path,
            (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
    if (!made && faccessat(fd, CAY__HOME_APART, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_why(
            err, CAY_EPERM, "apart_owner",
            "%.200s holds something else: move it, or name another state directory by --home",
            path);
    CAY_AUTOFD mark =
        openat(fd, CAY__HOME_APART, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (mark < 0 || (half_made(fd, "") && (fchown(fd, 0, gid) < 0 || fchmod(fd, 0710) < 0)) ||
        fstat(fd, &st) < 0)
        return cay_fail_sys(err, "give %.200s to the server's group", path);
    if (st.st_gid != gid)
        return cay_fail_why(
            err, CAY_EPERM, "apart_group",
            "%.150s is of group %u, and the server's is %u: it was made for another user", path,
            (unsigned)st.st_gid, (unsigned)gid);
    CAY_EACH(dir, dirs)
        CAY_TRY(make_dir(fd, dir->name, dir->mode, gid, err));
    *out = CAY_STEAL_FD(fd);
    return 0;
}

/* The lock lives as long as we do. By way of a descriptor, because a socket's name is short. */
int trees_listen(int tree, gid_t gid, int *out, cay_err *err)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET }; /* which no child has */
    int mark = openat(tree, CAY__HOME_APART, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (mark < 0 || fcntl(mark, F_SETLK, &l) < 0) {
        if (errno == EAGAIN || errno == EACCES)
            return cay_fail_why(err, CAY_EBUSY, "apart_served",
                                "this state directory has a server with --root-keeper already");
        return cay_fail_sys(err, "lock the keeper's directory");
    }
    CAY_FORMAT(sa.sun_path, "/proc/self/fd/%d/" HAND_SOCK, tree);
    unlinkat(tree, HAND_SOCK, 0);
    CAY_AUTOFD s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&sa, sizeof sa) < 0 ||
        fchownat(tree, HAND_SOCK, 0, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(tree, HAND_SOCK, 0660, 0) < 0 || listen(s, 128) < 0)
        return cay_fail_sys(err, "listen in the keeper's directory");
    *out = CAY_STEAL_FD(s);
    return 0;
}

int trees_link(const char *home, const char *tree, cay_err *err)
{
    char there[PATH_MAX], want[PATH_MAX];
    CAY_AUTOFD at = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return cay_fail_sys(err, "open %.200s", home);
    if (faccessat(at, "egress.conf", F_OK, AT_SYMLINK_NOFOLLOW) ==
        0) /* it would not hold, being the server's to change */
        return cay_fail_why(err, CAY_EPERM, "apart_conf",
                            "%.120s/egress.conf is the server's to change, and does not hold: move "
                            "it to %.120s/egress.conf or /etc/cay/egress.conf",
                            home, tree);
    CAY_EACH(dir, dirs) {
        CAY_JOIN(want, tree, "/", dir->name);
        if (symlinkat(want, at, dir->name) < 0 && errno != EEXIST)
            return cay_fail_sys(err, "link %s in %.200s", dir->name, home);
        ssize_t n = readlinkat(at, dir->name, there, sizeof there - 1);
        there[CAY_MAX(n, 0)] = 0;
        if (strcmp(there, want) != 0)
            return cay_fail_why(err, CAY_EEXIST, "apart_home",
                                "%.150s has %s of its own: it was used without --root-keeper; name "
                                "another directory by --home",
                                home, dir->name);
    }
    return 0;
}
