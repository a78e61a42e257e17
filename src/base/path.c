/* SPDX-License-Identifier: Apache-2.0 */
#include "path.h"
#include "base.h"
#include "guarded.h"
#include <endian.h>
#include <pwd.h>
#include <strings.h>
#include <sys/vfs.h>

/* SQLite's shared memory, flock(2) and a keeper that is one per directory all need one kernel. */
static const struct {
    uint32_t magic;
    const char *name;
} remote_fs[] = {
    { 0x6969, "nfs" },        { 0xff534d42, "cifs" },  { 0xfe534d42, "smb2" },
    { 0x517b, "smb" },        { 0x01021997, "9p" },    { 0x00c36400, "ceph" },
    { 0x5346414f, "afs" },    { 0x6b414653, "afs" },   { 0x73757245, "coda" },
    { 0x0bd00bd0, "lustre" }, { 0x47504653, "gpfs" },  { 0x19830326, "beegfs" },
    { 0x01161970, "gfs2" },   { 0x7461636f, "ocfs2" }, { 0x564c, "ncp" },
};

/* Any of these says that a directory is a state directory already. */
static const char *const marks[] = { "store.db", "keeper.log", "sandboxes", "process" };

const char *cay__fs_remote(uint64_t magic)
{
    CAY_EACH(it, remote_fs)
        if (it->magic == (uint32_t)magic)
            return it->name;
    return NULL;
}

static int too_long(cay_err *err)
{
    return cay_fail(err, CAY_EINVAL,
                    "the path of the state directory is too long; set CAY_HOME to a shorter one");
}

static const char *user_home(void)
{
    const char *h = getenv("HOME");
    if (h && h[0] == '/')
        return h;
    struct passwd *pw = getpwuid(geteuid());
    if (pw && pw->pw_dir && pw->pw_dir[0] == '/')
        return pw->pw_dir;
    return NULL;
}

int cay__home_find(const char *given, char *buf, size_t cap, cay_err *err)
{
    char cwd[CAY__HOME_MAX];
    const char *p = given && *given ? given : getenv("CAY_HOME"), *data;
    bool whole;

    if (p && *p) {
        for (const char *c = p; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                return cay_fail(err, CAY_EINVAL,
                                "state directory \"%s\": control characters are not allowed in it",
                                p);
        if (*p == '/') {
            whole = cay__str_copy(buf, cap, p);
        } else {
            if (!getcwd(cwd, sizeof cwd))
                return cay_fail_sys(
                    err, "state directory %s is relative and the current directory is unknown", p);
            whole = cay__str_join(buf, cap, cwd, "/", p, NULL);
        }
    } else if (geteuid() == 0) {
        whole = cay__str_copy(buf, cap, "/var/lib/cay");
    } else if ((data = getenv("XDG_DATA_HOME")) && data[0] == '/') {
        whole = cay__str_join(buf, cap, data, "/cay", NULL);
    } else if ((data = user_home())) {
        whole = cay__str_join(buf, cap, data, "/.local/share/cay", NULL);
    } else {
        return cay_fail(err, CAY_EINVAL, "no home directory is known for uid %u; set CAY_HOME",
                        (unsigned)geteuid());
    }
    if (whole && strlen(buf) < CAY__HOME_MAX)
        return 0;
    return too_long(err);
}

/* mkdir -p; what is there already is left alone. */
static int make_path(const char *path, cay_err *err)
{
    char part[CAY__HOME_MAX];
    if (!CAY_COPY(part, path))
        return too_long(err);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = 0;
        if (mkdir(part, 0700) < 0 && errno != EEXIST) {
            int e = errno;
            struct stat st;
            if (stat(part, &st) < 0) { /* EROFS and EACCES come even for what exists */
                errno = e;
                return cay_fail_sys(
                    err, "make the state directory %s (set CAY_HOME to use another)", part);
            }
        }
        if (!was)
            return 0;
        *p = was;
    }
}

static bool is_ours_or_empty(int dir)
{
    struct stat st;
    CAY_EACH(mark, marks)
        if (fstatat(dir, *mark, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    CAY_AUTODIR *d = cay__dir_open(dir, NULL);
    bool empty = d;
    for (struct dirent *e; empty && (e = cay__dir_next(d));)
        empty = !strcmp(e->d_name, "egress.conf"); /* the operator was here first */
    return empty;
}

int cay__home_open(const char *home, int *dirfd, cay_err *err)
{
    struct stat st;
    struct statfs fs;
    CAY_TRY(make_path(home, err));
    CAY_AUTOFD fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOTDIR)
        return cay_fail_why(err, CAY_ETYPE, "home_not_directory",
                            "state directory %s is not a directory; set CAY_HOME to one", home);
    if (fd < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return cay_fail_sys(err, "open the state directory %s (set CAY_HOME to use another)", home);
    if (st.st_uid != geteuid())
        return cay_fail_why(err, CAY_EPERM, "home_not_owned",
                            "state directory %s belongs to uid %u and you are uid %u; set CAY_HOME "
                            "to one of your own",
                            home, (unsigned)st.st_uid, (unsigned)geteuid());
    const char *remote = cay__fs_remote((uint64_t)fs.f_type);
    if (remote)
        return cay_fail_why(
            err, CAY_ENOTSUP, "home_remote",
            "state directory %s is on %s, which is not safe for it; set CAY_HOME to a local disk",
            home, remote);
    if (faccessat(fd, CAY__HOME_APART, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return cay_fail_why(err, CAY_EPERM, "home_apart",
                            "%s is what root's keeper holds for a server that is not root; ask "
                            "that server (cay --host URL)",
                            home);
    if (st.st_mode & 022)
        return cay_fail_why(
            err, CAY_EPERM, "home_writable",
            "state directory %s is writable by others; run chmod 700 on it or set CAY_HOME", home);
    if (st.st_mode & 077) {
        if (!is_ours_or_empty(fd))
            return cay_fail_why(
                err, CAY_EEXIST, "home_not_empty",
                "state directory %s holds something else; set CAY_HOME to a new or empty directory",
                home);
        CAY_TRY_SYS(fchmod(fd, 0700), err, "chmod 700 %s", home);
    }
    *dirfd = CAY_STEAL_FD(fd);
    return 0;
}

/* /tmp is open to all, so each step is looked at without following a link. */
static int private_dir(const char *path, bool make, cay_err *err)
{
    struct stat st;
    if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make the runtime directory %s", path);
    if (lstat(path, &st) < 0) {
        if (errno == ENOENT && !make)
            return 0;
        return cay_fail_sys(err, "runtime directory %s", path);
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return cay_fail_why(err, CAY_EPERM, "run_not_private",
                            "runtime directory %s is not a private directory of uid %u; remove it "
                            "or set XDG_RUNTIME_DIR",
                            path, (unsigned)geteuid());
    return 0;
}

static bool is_usable_dir(const char *dir)
{
    struct stat st;
    return dir && dir[0] == '/' && strlen(dir) + sizeof "/cay/01234567" <= CAY__RUN_MAX &&
           stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & 022);
}

static void run_base(char *buf, size_t cap)
{
    char num[21], user[48];
    const char *uid = cay__str_u64(num, geteuid()), *xdg = getenv("XDG_RUNTIME_DIR");
    CAY_JOIN(user, "/run/user/", uid);
    if (geteuid() == 0 && is_usable_dir("/run"))
        cay__str_copy(buf, cap, "/run/cay");
    else if (geteuid() != 0 && is_usable_dir(xdg))
        cay__str_join(buf, cap, xdg, "/cay", NULL);
    else if (geteuid() != 0 && is_usable_dir(user))
        cay__str_join(buf, cap, user, "/cay", NULL);
    else
        cay__str_join(buf, cap, "/tmp/cay-", uid, NULL);
}

int cay__run_dir(int home_fd, char *buf, size_t cap, bool make, cay_err *err)
{
    char base[CAY__RUN_MAX], hex[9];
    struct stat st;
    CAY_TRY_SYS(fstat(home_fd, &st), err, "stat the state directory");
    uint64_t who[2] = { st.st_dev, st.st_ino };
    uint32_t h = cay__hash(who, sizeof who);
    cay__hex_put(hex, &(uint32_t){ htobe32(h) }, sizeof h);

    run_base(base, sizeof base);
    CAY_TRY(private_dir(base, make, err));
    if (!cay__str_join(buf, cap, base, "/", hex, NULL))
        return cay_fail(err, CAY_EINVAL, "the path of the runtime directory %s is too long", base);
    return private_dir(buf, make, err);
}

/* A program has to be executable; a module is only read, and packagers take that bit away. */
static bool is_usable(const char *dir, const char *below, const char *name, char *buf, size_t cap)
{
    const char *dot = strrchr(name, '.');
    int need = X_OK;
    if (dot && !strcmp(dot, ".so"))
        need = R_OK;
    return cay__str_join(buf, cap, dir, below, "/", name, NULL) && access(buf, need) == 0;
}

int cay__libexec_find(const char *given, const char *name, char *buf, size_t cap, cay_err *err)
{
    const char *told;
    if (given && *given)
        told = given;
    else
        told = getenv("CAY_LIBEXEC");
    char exe[4096];
    if (told && *told) {
        if (is_usable(told, "", name, buf, cap))
            return 0;
        return cay_fail(err, CAY_ENOENT,
                        "%s is not in %s, where CAY_LIBEXEC or the caller says it is", name, told);
    }
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash = NULL;
    if (n > 0) {
        exe[n] = 0;
        slash = strrchr(exe, '/');
    }
    if (slash) {
        *slash = 0;
        if (is_usable(exe, "/../libexec/cay", name, buf, cap) || is_usable(exe, "", name, buf, cap))
            return 0;
    }
    if (is_usable(CAY_LIBEXEC, "", name, buf, cap))
        return 0;
    return cay_fail(
        err, CAY_ENOENT,
        "%s is neither beside this program nor in %s; install cay again, or set CAY_LIBEXEC", name,
        CAY_LIBEXEC);
}

const char *cay__trust_roots(const char *given)
{
    if (given && *given)
        return given;
#ifdef CAY_PORTABLE
    static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt",
                                          "/etc/pki/tls/certs/ca-bundle.crt",
                                          "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };
    if (getenv("SSL_CERT_FILE") || getenv("SSL_CERT_DIR"))
        return NULL;
    CAY_EACH(place, places)
        if (access(*place, R_OK) == 0)
            return *place;
#endif
    return NULL;
}

bool cay__path_clean(const char *base, const char *path, char *buf, size_t cap)
{
    size_t n = 0;
    const char *parts[2] = { path[0] == '/' ? "" : base, path };
    CAY_EACH_OF(part, parts, 2)
        for (const char *p = *part; *p;) {
            size_t len = strcspn(p, "/");
            if (len == 2 && p[0] == '.' && p[1] == '.') {
                while (n && buf[--n] != '/')
                    ;
            } else if (len && !(len == 1 && *p == '.')) {
                if (n + len + 2 > cap)
                    return false;
                buf[n++] = '/';
                memcpy(buf + n, p, len);
                n += len;
            }
            p += len + (p[len] == '/');
        }
    if (!n)
        buf[n++] = '/';
    buf[n] = 0;
    return true;
}

/* Filesystems that ignore case exist, and the tools that obey these files look there, too. */
static bool has_prefix(const char *path, const char *what)
{
    size_t n = strlen(what);
    return !strncasecmp(path, what, n) && (!path[n] || path[n] == '/');
}

bool cay__path_guarded(const char *path)
{
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        CAY_EACH(it, cay__guarded)
            if (has_prefix(p, it->path))
                return true;
    }
    return false;
}

bool cay__link_leaves(const char *path, const char *target)
{
    long depth = 0;
    bool named = false;
    if (*target == '/')
        return true;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    while (*target) {
        size_t n = strcspn(target, "/");
        /* Up from where the link is leads where the path says; up from a name, which may be a link
         * itself, leads anywhere. */
        if (n == 2 && target[0] == '.' && target[1] == '.') {
            if (named || --depth < 0)
                return true;
        } else if (n && !(n == 1 && *target == '.')) {
            named = true;
        }
        target += n + (target[n] == '/');
    }
    return false;
}

bool cay__path_within(const char *path, const char *top)
{
    size_t n = strlen(top);
    while (n && top[n - 1] == '/')
        n--;
    if (!n || (n == 1 && *top == '.'))
        return true;
    return !strncmp(path, top, n) && (!path[n] || path[n] == '/');
}
