/* SPDX-License-Identifier: Apache-2.0 */
/* bench/keeper.h - the keeper of a state directory seen from outside: who it is, and what it and
 * its kin have used. */
#pragma once
#include "measure.h"
#include <dirent.h>

static inline ssize_t slurp(const char *path, char *buf, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, cap - 1);
    if (fd >= 0)
        close(fd);
    if (n >= 0)
        buf[n] = 0;
    return n;
}

/* The process that was started as `cay-keeper HOME …`, or 0. */
static inline int keeper_find(const char *home)
{
    DIR *d = opendir("/proc");
    int found = 0;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char path[300], line[4096];
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || slurp(path, line, sizeof line) <= 0)
            continue;
        size_t n = strlen(line);
        if (n >= 10 && !strcmp(line + n - 10, "cay-keeper") && !strcmp(line + n + 1, home))
            found = atoi(e->d_name);
    }
    closedir(d);
    return found;
}

static inline void keeper_end(const char *home)
{
    int pid = keeper_find(home);
    if (!pid)
        return;
    kill(pid, SIGTERM);
    /* It may be our own child, when we were the first who needed it. */
    for (int i = 0; i < 1000 && waitpid(pid, NULL, WNOHANG) != pid && kill(pid, 0) == 0; i++)
        sleep_ms(5);
    if (kill(pid, 0) == 0)
        give_up("the keeper %d of %s does not end", pid, home);
}

/* CPU time of one single-threaded process, in microseconds: schedstat counts nanoseconds, stat only
 * ticks. */
static inline double proc_cpu(int pid)
{
    char path[64], buf[256];
    snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
    return slurp(path, buf, sizeof buf) > 0 ? strtod(buf, NULL) / 1e3 : 0;
}

static inline int parent_of(int pid)
{
    char path[64], buf[1024], *p;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (slurp(path, buf, sizeof buf) <= 0 || !(p = strrchr(buf, ')')))
        return 0;
    return (int)strtol(p + 3, NULL, 10);
}

/* Keeper and helpers. Their children, the inits, are counted by their groups: nobody waits for
 * them. */
static inline double keeper_cpu(int keeper)
{
    DIR *d = opendir("/proc");
    double sum = proc_cpu(keeper);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && parent_of(atoi(e->d_name)) == keeper)
            sum += proc_cpu(atoi(e->d_name));
    closedir(d);
    return sum;
}

/* The v2 group above all sandboxes of this keeper: found by an init it has parked. False: there is
 * none. */
static inline bool keeper_group(int keeper, char *out, size_t cap)
{
    DIR *d = opendir("/proc");
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char path[300], buf[4096], *p, *end;
        int pid = atoi(e->d_name);
        if (pid <= 0 || parent_of(parent_of(pid)) != keeper)
            continue;
        snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
        if (slurp(path, buf, sizeof buf) <= 0 || !(p = strstr(buf, "0::/")) ||
            !(end = strstr(p, "/b")))
            continue;
        *end = 0;
        static const char *const mounts[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };
        for (size_t i = 0; i < COUNT(mounts) && !found; i++) {
            snprintf(out, cap, "%s%s/cpu.stat", mounts[i], p + 3);
            found = access(out, R_OK) == 0;
        }
    }
    closedir(d);
    return found;
}

/* usage_usec of a group and all that were ever below it. */
static inline double group_cpu(const char *stat)
{
    char buf[1024];
    return slurp(stat, buf, sizeof buf) > 0 && !strncmp(buf, "usage_usec ", 11)
               ? strtod(buf + 11, NULL)
               : -1;
}
