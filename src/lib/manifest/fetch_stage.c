/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch_source.h"
#include <base/base.h>
#include <base/fsop.h>
#include <lib/client/client.h>
#include <sys/file.h>

#define DIR_NAME "fetch"

static void remove_stage(int home, const char *name)
{
    char path[300];
    CAY_FORMAT(path, "/" DIR_NAME "/%s", name);
    cay__fs_remove(&(cay__fs){ .root = home }, path, true);
}

/* What the dead left: a directory whose lock nobody holds. */
static void remove_stale(int home, int all)
{
    CAY_AUTODIR *d = cay__dir_open(all, NULL);
    for (struct dirent *e; d && (e = cay__dir_next(d));) {
        if (!cay__id_valid(e->d_name, 'f'))
            continue;
        CAY_AUTOFD fd = openat(all, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_stage(home, e->d_name);
    }
}

int cay__stage_make(cay_client *client, cay__fetch_stage *out, cay_err *err)
{
    char name[CAY__ID_LEN + 1], path[64];
    if (mkdirat(client->home_fd, DIR_NAME, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make %s/" DIR_NAME, client->home);
    CAY_AUTOFD all =
        openat(client->home_fd, DIR_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CAY_AUTOFD gate = -1;
    if (all >= 0)
        gate = openat(all, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Between making one and locking it nobody may sweep. */
    if (gate < 0 || flock(gate, LOCK_EX) < 0)
        return cay_fail_sys(err, "lock %s/" DIR_NAME, client->home);
    remove_stale(client->home_fd, all);
    cay__id_make(name, 'f');
    CAY_FORMAT(path, DIR_NAME "/%s", name);
    CAY_TRY_SYS(mkdirat(all, name, 0700), err, "make %s/%s", client->home, path);
    CAY_AUTOFD fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return cay_fail_sys(err, "lock %s/%s", client->home, path);
    *out = (cay__fetch_stage){ .home = fcntl(client->home_fd, F_DUPFD_CLOEXEC, 3),
                               .fd = CAY_STEAL_FD(fd) };
    CAY_COPY(out->name, name);
    return 0;
}

void cay__stage_remove(cay__fetch_stage *s)
{
    if (s->fd >= 0 && s->home >= 0)
        remove_stage(s->home, s->name);
    cay__close_fd(&s->fd);
    cay__close_fd(&s->home);
}
