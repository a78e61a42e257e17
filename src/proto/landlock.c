/* SPDX-License-Identifier: Apache-2.0 */
#include "landlock.h"
#include "landlock_abi.h"
#include <base/base.h>
#include <base/kernel.h>
#include <base/mutant.h>
#include <sys/syscall.h>

/* The rights a rule on something that is not a directory may carry. */
#define OF_FILE                                                                                    \
    (CAY_LL_FS_EXECUTE | CAY_LL_FS_WRITE_FILE | CAY_LL_FS_READ_FILE | CAY_LL_FS_TRUNCATE |         \
     CAY_LL_FS_IOCTL_DEV)
#define READ (CAY_LL_FS_READ_FILE | CAY_LL_FS_READ_DIR)
#define EXEC (READ | CAY_LL_FS_EXECUTE)
#define WRITE                                                                                      \
    (EXEC | CAY_LL_FS_WRITE_FILE | CAY_LL_FS_REMOVE_DIR | CAY_LL_FS_REMOVE_FILE |                  \
     CAY_LL_FS_MAKE_DIR | CAY_LL_FS_MAKE_REG | CAY_LL_FS_MAKE_SOCK | CAY_LL_FS_MAKE_FIFO |         \
     CAY_LL_FS_MAKE_SYM | CAY_LL_FS_REFER | CAY_LL_FS_TRUNCATE)
#define DEVICE (CAY_LL_FS_READ_FILE | CAY_LL_FS_WRITE_FILE | CAY_LL_FS_IOCTL_DEV)
#define EVERY  (WRITE | CAY_LL_FS_MAKE_CHAR | CAY_LL_FS_MAKE_BLOCK | CAY_LL_FS_IOCTL_DEV)

/*
 * What programs of the host need at level 1. /proc is here whole, because a rule cannot follow
 * /proc/self; what it tells of a process outside (environ, fd, maps) the kernel refuses to a
 * restricted one. Not here: /dev/pts (the user's terminals), /dev/shm, /run, /tmp, /home, /var.
 */
static const char *const programs[] = { "/usr",    "/bin",       "/sbin",
                                        "/lib",    "/lib32",     "/lib64",
                                        "/libx32", "/nix/store", "/etc/alternatives" };
static const char *const settings[] = { "/etc/ld.so.cache",
                                        "/etc/ld.so.conf",
                                        "/etc/ld.so.conf.d",
                                        "/etc/ld.so.preload",
                                        "/etc/passwd",
                                        "/etc/group",
                                        "/etc/nsswitch.conf",
                                        "/etc/hosts",
                                        "/etc/host.conf",
                                        "/etc/hostname",
                                        "/etc/gai.conf",
                                        "/etc/resolv.conf",
                                        "/etc/services",
                                        "/etc/protocols",
                                        "/etc/localtime",
                                        "/etc/timezone",
                                        "/etc/locale.alias",
                                        "/etc/os-release",
                                        "/etc/debian_version",
                                        "/etc/profile",
                                        "/etc/profile.d",
                                        "/etc/bash.bashrc",
                                        "/etc/inputrc",
                                        "/etc/terminfo",
                                        "/etc/mime.types",
                                        "/etc/magic",
                                        "/etc/fonts",
                                        "/etc/gitconfig",
                                        "/etc/ca-certificates",
                                        "/etc/ca-certificates.conf",
                                        "/etc/ssl/certs",
                                        "/etc/ssl/openssl.cnf",
                                        "/etc/pki/tls",
                                        "/etc/python3",
                                        "/etc/perl",
                                        "/etc/java-17-openjdk",
                                        "/etc/java-21-openjdk",
                                        "/proc",
                                        "/sys/devices/system/cpu" };
static const char *const devices[] = { "/dev/null",   "/dev/zero",    "/dev/full",
                                       "/dev/random", "/dev/urandom", "/dev/tty" };
static const struct {
    const char *const *paths;
    size_t n;
    cay__ll_class access;
} system_tree[] = {
    { programs, CAY_LEN(programs), CAY_LL_EXEC },
    { settings, CAY_LEN(settings), CAY_LL_READ },
    { devices, CAY_LEN(devices), CAY_LL_DEVICE },
};

int cay__landlock_abi(void)
{
    long abi = syscall(__NR_landlock_create_ruleset, NULL, 0, CAY_LL_CREATE_VERSION);
    if (abi <= 0 || cay__kernel_lacks(CAY_KERNEL_LANDLOCK))
        return 0;
    if (cay__kernel_lacks(CAY_KERNEL_LANDLOCK_TRUNCATE))
        return (int)CAY_MIN(abi, 2);
    if (cay__kernel_lacks(CAY_KERNEL_LANDLOCK_SCOPE))
        return (int)CAY_MIN(abi, 5);
    return (int)abi;
}

static int open_ruleset(int abi, const cay__ll_ruleset *want)
{
    cay__ll_ruleset set = { .fs = want->fs,
                            .net = abi >= 4 ? want->net : 0,
                            .scope = abi >= 6 ? want->scope : 0 };
    size_t size;
    if (abi >= 6)
        size = sizeof set;
    else if (abi >= 4)
        size = offsetof(cay__ll_ruleset, scope);
    else
        size = offsetof(cay__ll_ruleset, net);
    if (abi < 5)
        set.fs &= ~CAY_LL_FS_IOCTL_DEV;
    if (abi < 3)
        set.fs &= ~CAY_LL_FS_TRUNCATE;
    if (abi < 2)
        set.fs &= ~CAY_LL_FS_REFER;
    long fd = syscall(__NR_landlock_create_ruleset, &set, size, 0);
    if (fd < 0)
        return -errno;
    return (int)fd;
}

/* A tenant's own Landlock domains must not fill the host's audit log. */
static int enforce_ruleset(int abi, int set)
{
    int rc = 0;
    if (syscall(__NR_landlock_restrict_self, set, abi >= 7 ? CAY_LL_LOG_SUBDOMAINS_OFF : 0) < 0)
        rc = -errno;
    close(set);
    return rc;
}

int cay__landlock_scopes(void)
{
    int abi = cay__landlock_abi();
    if (abi < 6 || CAY__MUTANT("landlock-scopes"))
        return 0;
    int set = open_ruleset(
        abi, &(cay__ll_ruleset){ .scope = CAY_LL_SCOPE_ABSTRACT_UNIX | CAY_LL_SCOPE_SIGNAL });
    if (set < 0)
        return set;
    return enforce_ruleset(abi, set);
}

static uint64_t get_rights(int abi, cay__ll_class access)
{
    static const uint64_t of[] = { [CAY_LL_READ] = READ,
                                   [CAY_LL_EXEC] = EXEC,
                                   [CAY_LL_WRITE] = WRITE,
                                   [CAY_LL_DEVICE] = DEVICE,
                                   [CAY_LL_RUN] = CAY_LL_FS_EXECUTE | CAY_LL_FS_READ_FILE,
                                   [CAY_LL_START] = CAY_LL_FS_EXECUTE,
                                   [CAY_LL_CHANGE] = WRITE & ~EXEC,
                                   [CAY_LL_KEEP] = WRITE & ~CAY_LL_FS_EXECUTE };
    return of[access] & (abi < 5 ? ~CAY_LL_FS_IOCTL_DEV : ~0ull);
}

static int add_grant(int set, int abi, const cay__ll_grant *g)
{
    struct stat st;
    int fd;
    if (g->fd >= 0)
        fd = g->fd;
    else
        fd = open(g->path, O_PATH | O_CLOEXEC);
    int rc = 0;
    if (fd < 0 || fstat(fd, &st) < 0) {
        rc = -errno;
    } else {
        cay__ll_path rule = { .access = get_rights(abi, g->access), .fd = fd };
        if (!S_ISDIR(st.st_mode))
            rule.access &= OF_FILE;
        if (syscall(__NR_landlock_add_rule, set, CAY_LL_RULE_PATH, &rule, 0) < 0)
            rc = -errno;
    }
    if (fd >= 0 && g->fd < 0)
        close(fd);
    return rc;
}

static int add_all(int set, int abi, const cay__ll_grant *grants, size_t n, unsigned flags,
                   size_t *bad)
{
    for (size_t i = 0; i < n; i++) {
        int rc = add_grant(set, abi, &grants[i]);
        if (rc == -ENOENT && (flags & CAY_LL_OPTIONAL))
            continue;
        if (rc < 0) {
            *bad = i;
            return rc;
        }
    }
    return 0;
}

/* What of it the host does not have is left out. */
static int add_system(int set, int abi)
{
    CAY_EACH(tree, system_tree)
        CAY_EACH_OF(path, tree->paths, tree->n) {
            int rc = add_grant(set, abi, &(cay__ll_grant){ *path, -1, tree->access });
            if (rc < 0 && rc != -ENOENT)
                return rc;
        }
    return 0;
}

static int restrict_to(bool system, const cay__ll_grant *grants, size_t n, unsigned flags,
                       size_t *bad)
{
    size_t none;
    size_t *where = CAY_OR(bad, &none);
    int abi = cay__landlock_abi();
    *where = n;
    if (CAY__MUTANT("landlock-files"))
        return 0;
    if (abi < 3)
        return -ENOSYS;
    cay__ll_ruleset want = { .fs = EVERY,
                             .scope = CAY_LL_SCOPE_ABSTRACT_UNIX | CAY_LL_SCOPE_SIGNAL };
    if (flags & CAY_LL_NO_TCP)
        want.net = CAY_LL_NET_BIND_TCP | CAY_LL_NET_CONNECT_TCP;
    int set = open_ruleset(abi, &want), rc = 0;
    if (set < 0)
        return set;
    if (system)
        rc = add_system(set, abi);
    if (rc == 0)
        rc = add_all(set, abi, grants, n, flags, where);
    if (rc == 0)
        return enforce_ruleset(abi, set);
    close(set);
    return rc;
}

int cay__landlock_grants(const cay__ll_grant *grants, size_t n, unsigned flags, size_t *bad)
{
    return restrict_to(false, grants, n, flags, bad);
}

/* Made in the memory of a process that waits: nothing but system calls and the stack. */
static int add_string(int set, int abi, const char *s)
{
    static const char letters[] = "rwcxed";
    static const cay__ll_class classes[] = { CAY_LL_READ, CAY_LL_KEEP,  CAY_LL_CHANGE,
                                             CAY_LL_RUN,  CAY_LL_START, CAY_LL_DEVICE };
    const char *at = strchr(letters, *s);
    if (!*s || !at || s[1] != '/')
        return -EINVAL;
    return add_grant(set, abi, &(cay__ll_grant){ s + 1, -1, classes[at - letters] });
}

int cay__landlock_fence(const char *list, size_t len)
{
    int abi = cay__landlock_abi();
    if (CAY__MUTANT("landlock-fence"))
        return 0;
    if (abi < 3)
        return -ENOSYS;
    int set = open_ruleset(abi, &(cay__ll_ruleset){ .fs = EVERY });
    int rc = 0;
    if (set < 0)
        rc = set;
    for (size_t at = 0; set >= 0 && (rc == 0 || rc == -ENOENT) && at < len;
         at += strnlen(list + at, len - at) + 1) {
        if (memchr(list + at, 0, len - at))
            rc = add_string(set, abi, list + at);
        else
            rc = -EINVAL;
    }
    if (set >= 0 && (rc == 0 || rc == -ENOENT))
        return enforce_ruleset(abi, set);
    if (set >= 0)
        close(set);
    return rc;
}

int cay__landlock_level1(const cay__ll_grant *own, size_t n, int network, size_t *bad)
{
    return restrict_to(true, own, n, network ? 0 : CAY_LL_NO_TCP, bad);
}
