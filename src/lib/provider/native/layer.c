/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Template `host`: a small tree that stands below the sandbox's own files. /usr of the host is
 * mounted over it read-only; of /etc it has what programs in /usr need and nothing that is the
 * host's own business: users, names and resolver are made up, the rest is copied by name, and only
 * what everybody on the host may read.
 */
#include "root_helper.h"
#include "native.h"
#include <base/base.h>
#include <base/fsop.h>
#include <dirent.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <sys/file.h>

#define STORE_BASE                                                                                 \
    0x70000000u /* as in daemon/keeper/keeper.h: owner of every file in a layer, as root           \
                 */
#define VERSION  "4"
#define FILE_MAX (16 << 20)

static const char *const wanted[] = {
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "crypto-policies",
    "localtime",
    "timezone",
    "mime.types",
    "services",
    "protocols",
    "shells",
    "bash.bashrc",
    "inputrc",
    "terminfo",
    "debian_version",
    "os-release",
    "lsb-release",
    "java-*",
    "python3*",
    "perl",
    "fonts",
    "magic",
    "magic.mime",
    "locale.alias",
    "locale.conf",
    "gai.conf",
    "ethertypes",
    "rpc",
    "R",
    "maven",
    "vim",
    "dpkg",
    "chromium.d",
};

static const struct {
    const char *path, *text;
} made[] = {
    { "etc/passwd", "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n"
                    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
    { "etc/group", "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n" },
    { "etc/hosts", "127.0.0.1 localhost cay\n::1 localhost ip6-localhost ip6-loopback\n" },
    { "etc/hostname", "cay\n" },
    { "etc/resolv.conf", "nameserver 127.0.0.53\noptions timeout:2 attempts:2\n" },
    { "etc/nsswitch.conf",
      "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
      "protocols: files\nservices: files\nethers: files\nrpc: files\n" },
    { "etc/machine-id", "" },
    /* As Debian's, but for $EUID: SDKs start every command as `bash -l -c`, and $(id -u) is two
       processes, half of what that costs; and for our sudo, which login shells find, too. */
    { "etc/profile",
      "if [ \"${EUID:-$(id -u)}\" -eq 0 ]; then\n  "
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nelse\n"
      "  PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games\nfi\n[ ! -d /run/cay/bin ] "
      "|| PATH=/run/cay/bin:$PATH\nexport PATH\n"
      "if [ \"${PS1-}\" ]; then\n  if [ \"${BASH-}\" ] && [ \"$BASH\" != /bin/sh ]; then\n    [ ! "
      "-f /etc/bash.bashrc ] || . /etc/bash.bashrc\n"
      "  elif [ \"${EUID:-$(id -u)}\" -eq 0 ]; then\n    PS1='# '\n  else\n    PS1='$ '\n  fi\nfi\n"
      "if [ -d /etc/profile.d ]; then\n  for i in /etc/profile.d/*.sh; do\n    [ ! -r \"$i\" ] || "
      ". \"$i\"\n  done\n  unset i\nfi\n" },
};

static const struct {
    const char *path;
    mode_t mode;
} dirs[] = {
    { "etc", 0755 },      { "home", 0755 },    { "tmp", 01777 },      { "var", 0755 },
    { "var/tmp", 01777 }, { "var/log", 0755 }, { "var/cache", 0755 }, { "var/lib", 0755 },
    { "root", 0700 },     { "proc", 0555 },    { "dev", 0755 },       { "run", 0755 },
    { "usr", 0755 },      { "mnt", 0755 },     { "opt", 0755 },       { "srv", 0755 },
    { "media", 0755 },    { "sys", 0555 },
};

static bool chown_to_store(int at, const char *name)
{
    return geteuid() != 0 || fchownat(at, name, STORE_BASE, STORE_BASE, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool put_file(int at, const char *path, const char *text)
{
    CAY_AUTOFD fd = openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd >= 0 && cay__fd_write_all(fd, text, strlen(text)) && fchmod(fd, 0644) == 0 &&
           chown_to_store(at, path);
}

static bool put_dir(int at, const char *path, mode_t mode)
{
    return (mkdirat(at, path, 0755) == 0 || errno == EEXIST) && fchmodat(at, path, mode, 0) == 0 &&
           chown_to_store(at, path);
}

static bool copy_bytes(int from, int to)
{
    char buf[16384];
    for (size_t total = 0; total < FILE_MAX;) {
        ssize_t n = read(from, buf, sizeof buf);
        if (n == 0)
            return true;
        if (n < 0 || !cay__fd_write_all(to, buf, (size_t)n))
            return false;
        total += (size_t)n;
    }
    return false;
}

static bool copy_file(int from, const char *name, int to, mode_t mode)
{
    CAY_AUTOFD in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0)
        return true; /* gone or not ours to read: the template does without */
    CAY_AUTOFD out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    return out >= 0 && copy_bytes(in, out) && fchmod(out, mode & 0755) == 0 &&
           chown_to_store(to, name);
}

static bool copy_entry(int from, const char *name, int to, unsigned depth)
{
    struct stat st;
    char target[1024];
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return true;
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(from, name, target, sizeof target - 1);
        if (n <= 0)
            return true;
        target[n] = 0;
        return (symlinkat(target, to, name) == 0 || errno == EEXIST) && chown_to_store(to, name);
    }
    if (S_ISREG(st.st_mode))
        return !(st.st_mode & 0004) || st.st_size > FILE_MAX ||
               copy_file(from, name, to, st.st_mode);
    if (!S_ISDIR(st.st_mode) || !(st.st_mode & 0005) || depth > 8)
        return true;
    CAY_AUTODIR *d = cay__dir_open(from, name);
    if (!d)
        return true;
    bool ok = put_dir(to, name, 0755);
    CAY_AUTOFD out = -1;
    if (ok)
        out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    ok = out >= 0;
    for (struct dirent *e; ok && (e = cay__dir_next(d));)
        ok = copy_entry(dirfd(d), e->d_name, out, depth + 1);
    return ok;
}

/* "ssl/certs": the parts on the way are made, the last is copied. */
static bool copy_path(int etc, int out, const char *path)
{
    const char *slash = strchr(path, '/');
    char part[64];
    if (!slash)
        return copy_entry(etc, path, out, 0);
    memcpy(part, path, (size_t)(slash - path));
    part[slash - path] = 0;
    CAY_AUTOFD in = openat(etc, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (in < 0)
        return true;
    if (!put_dir(out, part, 0755))
        return false;
    CAY_AUTOFD to = openat(out, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return to >= 0 && copy_path(in, to, slash + 1);
}

static bool copy_etc(int out)
{
    int etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTODIR *d = NULL;
    if (etc >= 0)
        d = fdopendir(etc);
    if (!d)
        return false;
    CAY_EACH(name, wanted) {
        if (!strchr(*name, '*')) {
            if (!copy_path(etc, out, *name))
                return false;
            continue;
        }
        rewinddir(d);
        for (struct dirent *e; (e = readdir(d));)
            if (fnmatch(*name, e->d_name, FNM_PERIOD) == 0 && !copy_entry(etc, e->d_name, out, 0))
                return false;
    }
    return true;
}

/* The host's links into /usr; a host whose /bin is a directory of its own is not merged, and cannot
 * serve. */
static int host_links(int at, cay_err *err)
{
    static const char *const names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
    char path[16], target[64];
    CAY_EACH(name, names) {
        struct stat st;
        CAY_JOIN(path, "/", *name);
        if (lstat(path, &st) < 0)
            continue;
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n <= 0)
            return cay_fail_why(
                err, CAY_ENOTSUP, "host_not_merged",
                "template host needs a merged /usr, but %s is a directory; use --root DIR instead",
                path);
        target[n] = 0;
        const char *rel = target;
        if (target[0] == '/')
            rel = target + 1;
        if (symlinkat(rel, at, *name) < 0 || !chown_to_store(at, *name))
            return cay_fail_sys(err, "layer link %s", path);
    }
    return 0;
}

static int fill_host(int at, cay_err *err)
{
    if (!chown_to_store(at, "."))
        return cay_fail_sys(err, "layer host");
    CAY_EACH(dir, dirs)
        if (!put_dir(at, dir->path, dir->mode))
            return cay_fail_sys(err, "layer host: %s", dir->path);
    /* For the sandbox's ordinary user. Without root only the keeper has the ids for it, and makes
     * them (daemon/keeper/rootfs.c). */
    static const char *const users[] = { "workspace", "home/user" };
    for (size_t i = 0; geteuid() == 0 && i < CAY_LEN(users); i++)
        if (!put_dir(at, users[i], 0755) ||
            fchownat(at, users[i], STORE_BASE + 1000, STORE_BASE + 1000, AT_SYMLINK_NOFOLLOW) < 0)
            return cay_fail_sys(err, "layer host: %s", users[i]);
    CAY_TRY(host_links(at, err));
    if (symlinkat("/run", at, "var/run") < 0 || !chown_to_store(at, "var/run") ||
        symlinkat("/proc/self/mounts", at, "etc/mtab") < 0 || !chown_to_store(at, "etc/mtab"))
        return cay_fail_sys(err, "layer host: links");
    CAY_EACH(it, made)
        if (!put_file(at, it->path, it->text))
            return cay_fail_sys(err, "layer host: %s", it->path);
    CAY_AUTOFD etc = openat(at, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (etc < 0 || !copy_etc(etc))
        return cay_fail_sys(err, "layer host: copy of /etc");
    return 0;
}

/* The name tells what the layer was made from: it changes when the host does. */
static void layer_name(int home_fd, char *name, size_t cap)
{
    static const char *const watched[] = { "/etc/ld.so.cache", "/etc/alternatives",
                                           "/etc/ssl/certs",   "/etc/os-release",
                                           "/etc/localtime",   "/bin" };
    struct {
        char version[8];
        uint32_t root;
        struct {
            uint64_t ino, sec, nsec;
        } at[CAY_LEN(watched)];
    } key;
    char text[9];
    memset(&key, 0, sizeof key);
    CAY_COPY(key.version, VERSION);
    key.root = geteuid() == 0 || cay__hand_there(home_fd);
    for (size_t i = 0; i < CAY_LEN(watched); i++) {
        struct stat st;
        if (stat(watched[i], &st) == 0) {
            key.at[i].ino = st.st_ino;
            key.at[i].sec = (uint64_t)st.st_mtim.tv_sec;
            key.at[i].nsec = (uint64_t)st.st_mtim.tv_nsec;
        }
    }
    uint32_t h = cay__hash(&key, sizeof key);
    cay__hex_put(text, &(uint32_t){ htobe32(h) }, sizeof h);
    cay__str_join(name, cap, "host-", text, NULL);
}

/* Made out of sight and published by rename; by one, whoever else needs it at the same moment waits
 * for that. */
static int make_layer(int home_fd, const char *path, int (*fill_it)(int at, cay_err *err),
                      cay_err *err)
{
    char shut[64], fresh[80], id[CAY_WIRE_ID];
    struct stat st;
    if (mkdirat(home_fd, "layers", 0711) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make layers/");
    CAY_AUTOFD gate = openat(home_fd, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    while (gate >= 0 && flock(gate, LOCK_EX) < 0)
        if (errno != EINTR)
            return cay_fail_sys(err, "lock layers/");
    CAY_TRY_SYS(gate, err, "open layers/");
    if (fstatat(home_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    cay__id_make(id, 'l');
    /* Below a directory that nobody else may enter, until it is whole. */
    CAY_JOIN(shut, "layers/.new-", id);
    CAY_JOIN(fresh, shut, "/t");
    if (mkdirat(home_fd, shut, 0700) < 0 || mkdirat(home_fd, fresh, 0755) < 0)
        return cay_fail_sys(err, "make %s", fresh);
    CAY_AUTOFD at = cay__fd_openat2(home_fd, fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (at < 0 || fstat(at, &st) < 0 || st.st_uid != geteuid())
        return cay_fail_sys(err, "open %s", fresh);
    cay_err why = CAY_ERR_INIT;
    int rc = fill_it(at, &why);
    if (rc == 0 && renameat(home_fd, fresh, home_fd, path) < 0)
        rc = cay_fail_sys(&why, "publish %s", path);
    cay__fs_remove(&(cay__fs){ .root = home_fd }, shut, true);
    if (rc == 0)
        return 0;
    if (why.sys == ENOSPC || why.sys == EDQUOT)
        return cay_fail_why(err, CAY_ENOSPACE, "store_full",
                            "make %s: the disk of the state directory is full; remove sandboxes or "
                            "free space on it",
                            path);
    return cay__err_pass(rc, &why, err);
}

/* `name`, unless it is there: by ourselves, or by root for a server that is not. */
static int provide_layer(int home_fd, char *name, size_t cap, uint32_t which,
                         int (*fill_it)(int at, cay_err *err), cay_err *err)
{
    char path[128];
    struct stat st;
    CAY_JOIN(path, "layers/", name);
    if (fstatat(home_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (!cay__hand_there(home_fd))
        return make_layer(home_fd, path, fill_it, err);
    hand_answer a;
    CAY_TRY(cay__hand_ask(home_fd, NULL, &(hand_ask){ .verb = HAND_BASE, .op = which }, NULL, 0, &a,
                          NULL, NULL, err));
    a.name[sizeof a.name - 1] = 0;
    cay__str_copy(name, cap, a.name);
    return 0;
}

int cay__host_layer(int home_fd, char *name, size_t cap, cay_err *err)
{
    layer_name(home_fd, name, cap);
    return provide_layer(home_fd, name, cap, HAND_HOST, fill_host, err);
}

static int fill_image(int at, cay_err *err)
{
    static const char *const places[] = { "proc", "dev", "run", "sys" };
    bool ok = chown_to_store(at, ".") && put_dir(at, "tmp", 01777) && put_dir(at, "etc", 0755);
    for (size_t i = 0; ok && i < CAY_LEN(places); i++)
        ok = put_dir(at, places[i], 0755);
    if (ok)
        return 0;
    return cay_fail_sys(err, "layer image");
}

int cay__image_layer(int home_fd, char *name, size_t cap, cay_err *err)
{
    cay__str_copy(name, cap, "image-" VERSION);
    return provide_layer(home_fd, name, cap, HAND_IMAGE, fill_image, err);
}
