/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keepers that were killed left of state directories that are gone: groups without a process,
 * and runtime directories that nobody serves. Whoever is alive holds a lock: a keeper one on each
 * of its groups and one in its directory, who starts one another there.
 */
#include "native.h"
#include <base/base.h>
#include <base/cgfind.h>
#include <sys/file.h>
#include <time.h>

enum { DEPTH = 4, AGE_S = 3600, SOCKETS = 1 << 20 };

/* What cannot be read counts as alive. */
static bool has_processes(int at, const char *name, int depth)
{
    char one;
    CAY_AUTODIR *d = cay__dir_open(at, name);
    CAY_AUTOFD procs = -1;
    if (d)
        procs = openat(dirfd(d), "cgroup.procs", O_RDONLY | O_CLOEXEC);
    bool any = depth > DEPTH || procs < 0 || read(procs, &one, 1) != 0;
    for (struct dirent *e; !any && (e = readdir(d));)
        any = e->d_type == DT_DIR && e->d_name[0] != '.' &&
              has_processes(dirfd(d), e->d_name, depth + 1);
    return any;
}

static void remove_group(int at, const char *name, int depth)
{
    CAY_AUTODIR *d = NULL;
    if (depth <= DEPTH)
        d = cay__dir_open(at, name);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            remove_group(dirfd(d), e->d_name, depth + 1);
    unlinkat(at, name, AT_REMOVEDIR);
}

/* cay- and eight letters of an instance, as daemon/keeper/cgroup.c makes them. */
static bool is_ours(const char *name)
{
    return cay__str_starts(name, "cay-") &&
           strspn(name + 4, "abcdefghijklmnopqrstuvwxyz234567") == 8 && strlen(name) == 12;
}

static void groups_below(const char *base)
{
    CAY_AUTODIR *d = NULL;
    if (*base)
        d = cay__dir_open(AT_FDCWD, base);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!is_ours(e->d_name))
            continue;
        CAY_AUTOFD fd =
            openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && !has_processes(dirfd(d), e->d_name, 0))
            remove_group(dirfd(d), e->d_name, 0);
    }
}

static void remove_groups(void)
{
    CAY_AUTOFREE char *mounts = cay__alloc(65536);
    char own[8192];
    cgfind f;
    if (cay__fd_read_file(AT_FDCWD, "/proc/self/mountinfo", mounts, 65536) <= 0 ||
        cay__fd_read_file(AT_FDCWD, "/proc/self/cgroup", own, sizeof own) <= 0)
        return;
    cgfind_parse(mounts, own, &f);
    groups_below(f.v2_top);
    groups_below(f.v2);
    CAY_EACH_OF(it, f.v1, CG_V1_COUNT)
        groups_below(*it);
}

/* An init that waits for its next keeper listens there, under the name that the directory had for
 * who made it. */
static bool has_listener(const char *sockets, const char *dir, const char *name)
{
    char a[300], b[300];
    return !CAY_JOIN(a, "/r/", name, "\n") || !CAY_JOIN(b, "/", dir, "/", name, "\n") ||
           strstr(sockets, a) || strstr(sockets, b);
}

static bool is_locked(int at, const char *name, int *fd)
{
    *fd = openat(at, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return errno != ENOENT;
    return flock(*fd, LOCK_EX | LOCK_NB) < 0;
}

static bool is_unused(DIR *d, const char *dir, const char *sockets)
{
    struct stat st;
    bool so = d && fstat(dirfd(d), &st) == 0 && st.st_uid == geteuid() &&
              st.st_mtime < time(NULL) - AGE_S;
    for (struct dirent *e; so && (e = readdir(d));)
        so = fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
             !(S_ISSOCK(st.st_mode) && has_listener(sockets, dir, e->d_name));
    return so;
}

static void remove_names(DIR *d, int at, const char *name)
{
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    unlinkat(at, name, AT_REMOVEDIR);
}

/* Level 1 has its sockets one directory deeper, in p. */
static void remove_run(int at, const char *name, const char *sockets)
{
    char deeper[16];
    CAY_AUTOFD start = -1, keeper = -1;
    CAY_AUTODIR *d = cay__dir_open(at, name), *p = CAY_IF(d, cay__dir_open(dirfd(d), "p"));
    bool dead = is_unused(d, name, sockets) && CAY_JOIN(deeper, name, "/p") &&
                (!p || is_unused(p, deeper, sockets)) &&
                !is_locked(dirfd(d), "start.lock", &start) &&
                !is_locked(dirfd(d), "keeper.lock", &keeper);
    if (dead && p)
        remove_names(p, dirfd(d), "p");
    if (dead)
        remove_names(d, at, name);
    cay__close_fd(&start);
    cay__close_fd(&keeper);
}

static void remove_runs(const cay__native *n)
{
    char base[CAY__RUN_MAX];
    CAY_AUTOFREE char *sockets = cay__alloc(SOCKETS);
    ssize_t len = cay__fd_read_file(AT_FDCWD, "/proc/net/unix", sockets, SOCKETS);
    const char *mine = strrchr(n->run, '/');
    if (len <= 0 || len >= SOCKETS - 1 || !mine) /* not all of it: nobody can be said to be dead */
        return;
    CAY_COPY(base, n->run);
    base[mine - n->run] = 0;
    CAY_AUTODIR *d = cay__dir_open(AT_FDCWD, base);
    for (struct dirent *e; d && (e = readdir(d));)
        if (cay__hex_is(e->d_name, 8) && strcmp(e->d_name, mine + 1))
            remove_run(dirfd(d), e->d_name, sockets);
}

void cay__native_strays(const cay__native *n)
{
    remove_groups();
    remove_runs(n);
}
