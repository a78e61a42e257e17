/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals to a process and all that descend from it. Used where there is no group of its own to
 * kill: its sub-reaper collects orphans, so that nothing leaves the tree while the walk goes on.
 */
#include "init.h"
#include <signal.h>
#include <sys/syscall.h>

struct dent { /* linux_dirent64 */
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

/* Children are listed, blank-separated, under each thread that made them. Reads one thread's list
 * after another. */
static ssize_t read_children(int pid, char *buf, size_t cap)
{
    char path[64], a[21], dents[1024];
    size_t at = 0;
    CAY_JOIN(path, "/proc/", cay__str_u64(a, (uint64_t)pid), "/task");
    CAY_AUTOFD dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long n; dir >= 0 && (n = syscall(SYS_getdents64, dir, dents, sizeof dents)) > 0;)
        for (long i = 0; i < n;) {
            const struct dent *d = (const struct dent *)(dents + i);
            i += d->reclen;
            if (d->name[0] == '.' || cap - at < 64)
                continue;
            CAY_JOIN(path, d->name, "/children");
            ssize_t k = cay__fd_read_file(dir, path, buf + at, cap - at);
            if (k > 0)
                at += (size_t)k;
        }
    buf[at] = 0;
    return (ssize_t)at;
}

static int next_pid(char **s)
{
    int pid = 0;
    for (; **s >= '0' && **s <= '9'; ++*s)
        pid = pid * 10 + (**s - '0');
    while (**s == ' ')
        ++*s;
    return pid;
}

static void signal_descendants(int pid, int sig, unsigned depth)
{
    char buf[1024];
    if (depth > 64 || read_children(pid, buf, sizeof buf) <= 0)
        return;
    for (char *s = buf; *s;) {
        int child = next_pid(&s);
        if (child > 1) {
            signal_descendants(child, sig, depth + 1);
            kill(child, sig);
        }
    }
}

/* Children before their parent: an orphan would be adopted away. A parent that is to die is stopped
 * first, so that it makes no more of them while the walk goes on. */
void tree_signal(int pid, int sig, bool self)
{
    if (self && sig == SIGKILL)
        kill(pid, SIGSTOP);
    signal_descendants(pid, sig, 0);
    for (int i = 0; self && sig == SIGKILL && i < 100 && !tree_empty(pid); i++)
        signal_descendants(pid, sig, 0);
    if (self)
        kill(pid, sig);
}

bool tree_empty(int pid)
{
    char buf[64];
    return read_children(pid, buf, sizeof buf) <= 0;
}

static bool is_worker(int pid)
{
    CAY_EACH(worker, init.workers)
        if (*worker == pid)
            return true;
    return false;
}

bool tree_tenants(int sig)
{
    char dents[2048];
    bool any = false;
    CAY_AUTOFD dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long n; dir >= 0 && (n = syscall(SYS_getdents64, dir, dents, sizeof dents)) > 0;)
        for (long i = 0; i < n;) {
            const struct dent *d = (const struct dent *)(dents + i);
            char *name = (char *)d->name;
            int pid = next_pid(&name);
            i += d->reclen;
            if (*name || pid <= 1 || is_worker(pid))
                continue;
            any = true;
            if (sig)
                kill(pid, sig);
        }
    return any || dir < 0;
}

static bool is_known_child(int pid)
{
    if (is_worker(pid))
        return true;
    CAY_EACH_OF(p, init.procs, GPROCS)
        if (p->used && (p->shim == pid || (!p->stray && !p->st.ended && p->st.exit.pid == pid)))
            return true;
    return false;
}

/* A command that may signal its sub-reaper, being of the same user, kills it and leaves the tree.
 * Its orphans cannot be told from those of others then; they go together. */
unsigned tree_strays(int sig)
{
    char buf[4096];
    unsigned n = 0;
    if (read_children(1, buf, sizeof buf) <= 0)
        return 0;
    for (char *s = buf; *s;) {
        int child = next_pid(&s);
        if (child > 1 && !is_known_child(child)) {
            tree_signal(child, sig, true);
            n++;
        }
    }
    return n;
}
