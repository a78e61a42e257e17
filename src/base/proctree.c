/* SPDX-License-Identifier: Apache-2.0 */
#include "proctree.h"
#include "base.h"
#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>

bool cay__tree_look(pid_t pid, tree_proc *out)
{
    char path[64], text[1024], num[24];
    CAY_JOIN(path, "/proc/", cay__str_u64(num, (uint64_t)pid), "/stat");
    if (cay__fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    char *p = strrchr(text, ')'); /* the name before it may hold anything */
    unsigned long utime = 0, stime = 0, rss = 0, threads = 0;
    unsigned long long start = 0;
    int ppid = 0;
    char state = 0;
    if (!p || sscanf(p + 1,
                     " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %lu %*d "
                     "%llu %*u %lu",
                     &state, &ppid, &utime, &stime, &threads, &start, &rss) != 7)
        return false;
    uint64_t tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    *out = (tree_proc){ .pid = pid,
                        .ppid = ppid,
                        .state = state,
                        .start = start,
                        .cpu_us = (utime + stime) * tick,
                        .threads = threads,
                        .rss = rss * (uint64_t)sysconf(_SC_PAGESIZE) };
    return true;
}

typedef struct list {
    tree_proc *at;
    size_t len, cap;
} list;

static bool scan_procs(list *l)
{
    DIR *d = opendir("/proc");
    if (!d)
        return false;
    for (struct dirent *e; (e = readdir(d));) {
        uint64_t pid;
        if (!cay__str_to_u64(e->d_name, &pid))
            continue;
        if (l->len == l->cap) {
            l->cap = CAY_MAX(l->cap * 2, (size_t)256);
            tree_proc *at = realloc(l->at, l->cap * sizeof *at);
            if (!at)
                abort();
            l->at = at;
        }
        if (cay__tree_look((pid_t)pid, &l->at[l->len]))
            l->len++;
    }
    closedir(d);
    return true;
}

static void mark_descendants(list *l, pid_t root)
{
    for (bool more = true; more;) {
        more = false;
        CAY_EACH_OF(p, l->at, l->len) {
            bool below = p->ppid == root;
            for (size_t k = 0; !below && !p->below && k < l->len; k++)
                below = l->at[k].below && l->at[k].pid == p->ppid;
            if (below && !p->below)
                p->below = more = true;
        }
    }
}

int cay__tree_walk(pid_t root, int (*fn)(const tree_proc *p, void *arg), void *arg)
{
    list l = { 0 };
    int rc = 0;
    if (!scan_procs(&l))
        return -1;
    mark_descendants(&l, root);
    for (size_t i = 0; rc == 0 && i < l.len; i++)
        if (l.at[i].below)
            rc = fn(&l.at[i], arg);
    free(l.at);
    return rc;
}

bool cay__tree_kill_exact(pid_t pid, uint64_t start, int sig)
{
    tree_proc now;
    CAY_AUTOFD fd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* The descriptor pins whoever has the number now; only then is its start time worth reading. */
    if (fd < 0 || !cay__tree_look(pid, &now) || now.start != start)
        return false;
    return syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) == 0;
}

typedef struct pass {
    int sig, count;
} pass;

static int signal_proc(const tree_proc *p, void *arg)
{
    pass *k = arg;
    k->count++;
    if (p->state != 'Z')
        cay__tree_kill_exact(p->pid, p->start, k->sig);
    return 0;
}

int cay__tree_signal(pid_t root, int sig)
{
    pass k = { .sig = SIGSTOP };
    if (sig == SIGKILL)
        cay__tree_walk(root, signal_proc, &k);
    k = (pass){ .sig = sig };
    cay__tree_walk(root, signal_proc, &k);
    return k.count;
}
