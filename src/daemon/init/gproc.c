/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that init remembers until the keeper forgets them: what it holds of each, signals to
 * them, and their ends. */
#include "init.h"
#include "sudo.h"
#include "services.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static uint64_t key_of(const char *id)
{
    uint64_t k;
    memcpy(&k, id, sizeof k);
    return k | 1; /* 0 is nobody's */
}

gproc *gproc_find(const char *id)
{
    uint64_t k = key_of(id);
    for (size_t i = 0; i < GPROCS; i++)
        if (init.keys[i] == k && !strncmp(init.procs[i].st.spawn.proc, id, CAY_WIRE_ID))
            return &init.procs[i];
    return NULL;
}

/* We have room for more than a keeper remembers. What fills it nevertheless is what one died over
 * before it told us to forget: the longest past goes. */
static gproc *longest_past(void)
{
    gproc *old = NULL;
    CAY_EACH_OF(p, init.procs, GPROCS)
        if (p->st.ended && (!old || p->st.spawn.started_ms < old->st.spawn.started_ms))
            old = p;
    if (old)
        gproc_drop(old);
    return old;
}

gproc *gproc_new(const char *id)
{
    size_t i = 0;
    while (i < GPROCS && init.keys[i])
        i++;
    gproc *p;
    if (i < GPROCS)
        p = &init.procs[i];
    else
        p = longest_past();
    if (!p)
        return NULL;
    memset(p, 0, sizeof *p);
    CAY_EACH(it, p->fds)
        *it = -1;
    p->used = true;
    init.keys[p - init.procs] = key_of(id);
    return p;
}

void gproc_drop(gproc *p)
{
    size_t i = (size_t)(p - init.procs);
    CAY_EACH(it, p->fds)
        cay__close_fd(it);
    init.nheld -= init.held[i];
    init.nshims -= p->shim != 0;
    init.nlate -= p->late;
    p->used = p->late = init.held[i] = false;
    p->shim = 0;
    init.keys[i] = 0;
    init.pids[i] = 0;
}

/* Pipes of commands that ended are kept while there is something in them, or somebody who may
 * write, and no longer: each start of a command copies and closes all our descriptors. A few are
 * looked at each time, in turn. */
static void let_go(void)
{
    for (unsigned n = 0, looked = 0; n < GPROCS && looked < 4 && init.nheld; n++) {
        unsigned i = init.next_held++ % GPROCS;
        gproc *p = &init.procs[i];
        if (!init.held[i])
            continue;
        looked++;
        struct pollfd q[2] = { { p->fds[1], POLLIN, 0 }, { p->fds[2], POLLIN, 0 } };
        if (poll(q, 2, 0) < 0)
            continue;
        for (int k = 0; k < 2; k++)
            if (!(q[k].revents & POLLIN) && (q[k].revents & POLLHUP))
                cay__close_fd(&p->fds[1 + k]);
        init.held[i] = p->fds[1] >= 0 || p->fds[2] >= 0;
        init.nheld -= !init.held[i];
    }
}

void gproc_signal(gproc *p, int sig, int scope)
{
    int pid = p->st.exit.pid;
    if (scope == 2 && p->shim) { /* tree: the sub-reaper holds every descendant */
        tree_signal(p->shim, sig, false);
        if (sig == SIGKILL)
            for (int i = 0; i < 100 && !tree_empty(p->shim); i++)
                tree_signal(p->shim, sig, false);
        kill(p->shim, SIGCONT); /* where it is of the tenant's user, it may have been stopped: it
                                   has to tell the end */
    } else if (scope == 2 && p->stray) {
        for (int i = 0; tree_strays(sig) && sig == SIGKILL && i < 100; i++)
            reap();
    } else if (pid <= 0) {
        return; /* a service between two runs; 0 would be ourselves */
    } else if (scope == 2 && !p->st.ended) {
        tree_signal(pid, sig, true);
    } else if (scope == 3 && !p->st.ended) {
        tree_signal(pid, sig, false);
    } else if (!p->st.ended) {
        kill(scope == 1 ? -pid : pid, sig);
    }
}

/* Commands use a group one after another: a new keeper may take it for the last one's only. */
static void disown_group(gproc *p)
{
    for (gproc *q = init.procs; p->st.ended && p->st.spawn.group && q < init.procs + GPROCS; q++)
        if (q != p && q->used && q->st.spawn.group == p->st.spawn.group &&
            (!q->st.ended || q->st.spawn.started_ms >= p->st.spawn.started_ms))
            p->st.spawn.group = 0;
}

void gproc_tell(gproc *p)
{
    int fds[5], n = 0;
    char state[sizeof p->st + CAY_LABELS_MAX];
    p->st.fds = 0;
    for (unsigned i = 0; i < CAY_LEN(p->fds); i++)
        if (p->fds[i] >= 0) {
            p->st.fds |= 1u << i;
            fds[n++] = p->fds[i];
        }
    memcpy(state, &p->st, sizeof p->st);
    memcpy(state + sizeof p->st, init.labels[p - init.procs], p->nlabels);
    ctl_send(CAY_G_STATE, state, sizeof p->st + p->nlabels, fds, n);
}

void gprocs_tell(void)
{
    CAY_EACH_OF(p, init.procs, GPROCS)
        if (p->used) {
            disown_group(p);
            gproc_tell(p);
        }
}

void gproc_ended(gproc *p, int status, const struct rusage *ru)
{
    size_t i = (size_t)(p - init.procs);
    init.nlate -= p->late;
    p->late = false;
    p->st.ended = 1;
    p->st.exit.status = status;
    if (ru) {
        p->st.exit.cpu_us = (uint64_t)(ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * 1000000u +
                            (uint64_t)(ru->ru_utime.tv_usec + ru->ru_stime.tv_usec);
        p->st.exit.max_rss = (uint64_t)ru->ru_maxrss * 1024;
    }
    ctl_tell(CAY_G_EXITED, &p->st.exit);
    init.held[i] = !(p->st.spawn.flags & CAY_SPAWN_TTY) && (p->fds[1] >= 0 || p->fds[2] >= 0);
    init.nheld += init.held[i];
}

static void record_child_exit(size_t i, int status, const struct rusage *ru)
{
    gproc *p = &init.procs[i];
    init.pids[i] = 0;
    if (p->shim) {
        p->shim = 0;
        init.nshims--;
        if (p->st.ended)
            return;
        /* The sub-reaper itself was killed: the command is our own child now, unless it had been
         * reaped and that was not told any more. */
        if (!init.shims[i] && p->st.exit.pid > 0 &&
            (kill(p->st.exit.pid, 0) == 0 || errno != ESRCH)) {
            p->stray = true;
            init.pids[i] = p->st.exit.pid;
            return;
        }
        if (init.shims[i])
            status = init.shims[i] - 1;
    }
    if (p->service)
        service_died(p->service, status);
    else
        gproc_ended(p, status, ru);
}

void reap(void)
{
    struct rusage ru;
    int status, pid;
    while ((pid = (int)wait4(-1, &status, WNOHANG, &ru)) > 0) {
        CAY_EACH(worker, init.workers)
            if (*worker == pid)
                *worker = 0;
        for (size_t i = 0; i < GPROCS; i++)
            if (init.pids[i] == pid)
                record_child_exit(i, status, &ru);
        service_reaped(pid, status);
        sudo_reaped(pid, status);
    }
    for (gproc *p = init.procs; init.nshims && p < init.procs + GPROCS; p++)
        if (p->used && p->shim && !p->st.ended && init.shims[p - init.procs]) {
            int how = init.shims[p - init.procs] - 1;
            if (p->service)
                service_main_ended(p->service, how);
            else
                gproc_ended(p, how, NULL);
        }
    let_go();
}
