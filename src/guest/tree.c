/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals to a process and all that descend from it. Used where there is no group of its own to kill:
 * its sub-reaper collects orphans, so that nothing leaves the tree while the walk goes on.
 */
#include "init.h"
#include <fcntl.h>
#include <signal.h>

/* /proc/PID/task/PID/children lists them, blank-separated; threads other than the first are walked too by
 * the callers' repetition, because a child's parent is shown under the thread that made it. */
static ssize_t children(int pid, char *buf, size_t cap)
{
    char path[64], a[21];
    char *n = cay__str_u64(a, (uint64_t)pid);
    cay__str_join(path, sizeof path, "/proc/", n, "/task/", n, "/children", NULL);
    return cay__fd_read_file(AT_FDCWD, path, buf, cap);
}

static void walk(int pid, int sig, unsigned depth)
{
    char buf[1024];
    if (depth > 64 || children(pid, buf, sizeof buf) <= 0)
        return;
    for (char *s = buf; *s;) {
        int child = 0;
        for (; *s >= '0' && *s <= '9'; s++)
            child = child * 10 + (*s - '0');
        while (*s == ' ')
            s++;
        if (child > 1) {
            walk(child, sig, depth + 1);
            kill(child, sig);
        }
    }
}

void tree_signal(int pid, int sig, bool self)
{
    if (self)
        kill(pid, sig);
    walk(pid, sig, 0);
}

bool tree_empty(int pid)
{
    char buf[64];
    return children(pid, buf, sizeof buf) <= 0;
}
