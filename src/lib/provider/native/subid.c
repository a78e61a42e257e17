/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sub-ids of an ordinary user: a keeper that has just made its user namespace asks to be mapped,
 * because newuidmap must be run from outside it.
 */
#include "native.h"
#include <base/base.h>
#include <spawn.h>
#include <sys/wait.h>

/* "name:start:count" lines of /etc/subuid, by name or by number. */
static bool sub_range(const char *file, const char *name, uid_t uid, uint64_t *start,
                      uint64_t *count)
{
    char buf[16384], num[21];
    if (cay__fd_read_file(AT_FDCWD, file, buf, sizeof buf) <= 0)
        return false;
    const char *id = cay__str_u64(num, uid);
    for (char *line = buf, *save; (line = strtok_r(line, "\n", &save)); line = NULL) {
        char *a = strchr(line, ':'), *b = CAY_IF(a, strchr(a + 1, ':'));
        if (!b)
            continue;
        *a = *b = 0;
        if ((!strcmp(line, name) || !strcmp(line, id)) && cay__str_to_u64(a + 1, start) &&
            cay__str_to_u64(b + 1, count) && *count >= 65535)
            return true;
    }
    return false;
}

static bool user_name(uid_t uid, char *out, size_t cap)
{
    char buf[16384], num[21];
    const char *id = cay__str_u64(num, uid);
    if (cay__fd_read_file(AT_FDCWD, "/etc/passwd", buf, sizeof buf) <= 0)
        return false;
    for (char *line = buf, *save; (line = strtok_r(line, "\n", &save)); line = NULL) {
        char *a = strchr(line, ':'), *b = CAY_IF(a, strchr(a + 1, ':')),
             *c = CAY_IF(b, strchr(b + 1, ':'));
        if (!c)
            continue;
        *a = *c = 0;
        if (!strcmp(b + 1, id))
            return cay__str_copy(out, cap, line);
    }
    return false;
}

static bool run_mapper(const char *tool, int pid, uid_t own, uint64_t start)
{
    char p[21], o[21], s[21];
    char *argv[] = { (char *)tool,
                     cay__str_u64(p, (uint64_t)pid),
                     "0",
                     cay__str_u64(o, own),
                     "1",
                     "1",
                     cay__str_u64(s, start),
                     "65535",
                     NULL };
    char *env[] = { "PATH=/usr/bin:/bin", NULL };
    int child = 0, status = 0;
    if (posix_spawn(&child, tool, NULL, NULL, argv, env) != 0)
        return false;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return status == 0;
}

bool cay__subid_map(int pid)
{
    char name[64] = "";
    uint64_t us, gs, n;
    uid_t uid = getuid();
    user_name(uid, name, sizeof name);
    return sub_range("/etc/subuid", name, uid, &us, &n) &&
           sub_range("/etc/subgid", name, uid, &gs, &n) &&
           run_mapper("/usr/bin/newuidmap", pid, uid, us) &&
           run_mapper("/usr/bin/newgidmap", pid, getgid(), gs);
}
