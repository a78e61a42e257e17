/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as the keeper has it, from its making to its last trace. */
#include "keeper.h"
#include <base/kernel.h>
#include "netns.h"
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define REMOVALS_MAX 12 /* that wait for the sweeper, whose socket holds a few dozen jobs */

keeper_box *box_new(void)
{
    keeper_box *b = cay__alloc(sizeof *b);
    cay_job_name(b->name, getpid());
    b->ctl.fd = b->death.fd = b->userns_fd = b->mnt_fd = b->lower_fd = -1;
    b->cg_fd = b->tenant_fd = b->idle.dir = b->idle.procs = b->net_fd[0] = b->net_fd[1] =
        b->net_fd[2] = b->net_fd[3] = -1;
    b->next = keeper.boxes;
    keeper.boxes = b;
    keeper.nboxes++;
    return b;
}

keeper_box *box_find(const char *id)
{
    CAY_EACH_LINK(b, keeper.boxes)
        if (b->id[0] && !strncmp(b->id, id, sizeof b->id))
            return b;
    return NULL;
}

static void drop_waiters(keeper_box *b)
{
    cay_m_boxinfo info = box_info(b);
    cay__waiters_tell(&b->waiters, CAY_MSG_BOX, &info, sizeof info);
    for (holder_waiter *s; (s = b->sessions); free(s)) {
        b->sessions = s->next;
        cay__answer_error(s->to, CAY_EGONE, 0, "sandbox_gone", "the sandbox ended", NULL);
    }
}

/* Out of sight first: the name is free again at once, and a half-removed tree is never taken for a
 * sandbox. mounts: what still holds its mount namespace, or -1. */
bool remove_files(const char *from, int mounts)
{
    char id[CAY_WIRE_ID];
    keeper_job j = { .type = KEEPER_JOB_RMTREE };
    cay__id_make(id, 'b');
    CAY_JOIN(j.name, "sandboxes/.old-", id);
    if (renameat(keeper.home_fd, from, keeper.home_fd, j.name) < 0)
        return false;
    CAY_FAULT("keeper.destroy.renamed");
    if (mounts < 0 &&
        keeper.sweeper.busy >=
            REMOVALS_MAX) /* others want something of it, too: it is found by its name */
        return keeper.trash = true;
    job_send(&keeper.sweeper, &j, &mounts, mounts >= 0, NULL);
    return true;
}

bool box_remove_files(const char *dir, int mounts)
{
    char from[64];
    return CAY_JOIN(from, "sandboxes/", dir) && remove_files(from, mounts);
}

/* The kernel takes net namespaces down in one thread, with the lock that making one needs, and
 * those that wait go in one round: so several are let go together. */
void nets_drop(void)
{
    while (keeper.nnets)
        cay__close_fd(&keeper.nets[--keeper.nnets]);
}

/* Everything of a box whose init is dead, or never came to be. */
void box_free(keeper_box *b)
{
    char dir[48];
    int *const fds[] = { &b->ctl.fd,    &b->death.fd,  &b->userns_fd, &b->mnt_fd,   &b->lower_fd,
                         &b->net_fd[0], &b->net_fd[1], &b->net_fd[2], &b->net_fd[3] };
    CAY_UNLINK(keeper.boxes, b);
    keeper.nboxes--;
    if (b->lent)
        net_ask(NULL, b, &(cay_m_net){ .op = CAY_NET_DROP }, NULL, 0);
    if (b->id[0])
        keeper.nlive--;
    cay__timer_cancel(&b->timer);
    cay__timer_cancel(&b->claim);
    freeze_end(b);
    proc_lost(b);
    while (b->procs)
        proc_free(b->procs);
    if (b->pending && !(b->pending->m.flags & CAY_CREATE_KEPT)) /* it never was anybody's */
        b->forget_files = true;
    /* Who waits for the end is answered when a kill of ours could not undo it any more. */
    unlinkat(keeper.run_fd, b->name, 0);
    CAY_FAULT("keeper.free.files");
    if (b->forget_files && b->id[0])
        box_remove_files(b->id, b->mnt_fd);
    if (b->id[0] && !b->forget_files)
        box_note_gone(b->id, b->reason);
    CAY_FAULT("keeper.free.record");
    journal_put(J_GONE, b, b->id, 0, b->reason);
    drop_waiters(b);
    turn_drop(b);
    reply_refused(b->pauser, CAY_EGONE, "sandbox_gone", "the sandbox ended");
    if (b->pending) {
        reply_error(b->pending->c, CAY_EGONE, 0, "sandbox_gone",
                    "the sandbox ended while it was being made", b->reason);
        pending_free(b->pending);
    }
    CAY_EACH_LINK(j, keeper.jobs)
        if (j->b == b)
            j->b = NULL;
    if (b->ctl.fd >= 0)
        cay__loop_del(&keeper.loop, &b->ctl);
    if (b->death.fd >= 0)
        cay__loop_del(&keeper.loop, &b->death);
    if (keeper.nnets == CAY_LEN(keeper.nets))
        nets_drop();
    if (b->net_fd[CAY__NET_DNS_UDP] >= 0)
        keeper.nets[keeper.nnets++] = CAY_STEAL_FD(b->net_fd[CAY__NET_DNS_UDP]);
    CAY_EACH(it, fds)
        cay__close_fd(*it);
    CAY_FAULT("keeper.free.groups");
    cgroup_box_remove(b);
    if (b->pooled) {
        pool_dir(b, dir, sizeof dir);
        box_remove_files(dir, -1);
    }
    uint32_t k = (b->block - STORE_BASE) / BLOCK_IDS - 1;
    if (b->block && k < BLOCKS_MAX) /* one that was adopted has it from the journal */
        keeper.block_used[k / 64] &= ~(1ull << (k % 64));
    free(b);
}

void box_note_gone(const char *id, const char *reason)
{
    cay_m_boxinfo *g = &keeper.gone[keeper.ngone++ % CAY_LEN(keeper.gone)];
    *g = (cay_m_boxinfo){ .state = CAY_STOPPED };
    CAY_COPY(g->id, id);
    CAY_COPY(g->reason, reason);
}

cay_m_boxinfo box_info(const keeper_box *b)
{
    cay_m_boxinfo info = { .state = b->state,
                           .pid = b->pid,
                           .flags = b->flags,
                           .block = b->block,
                           .procs = b->nlive,
                           .created_ms = b->created_ms,
                           .idle_ms = b->idle_ms,
                           .cookie = b->cookie };
    memcpy(info.id, b->id, sizeof info.id);
    CAY_COPY(info.reason, b->reason);
    if (b->phase == BOX_DYING)
        info.state = CAY_STOPPED;
    if (b->deadline_boot)
        info.deadline_ms = cay__clock_ms() + b->deadline_boot - cay__boot_ms();
    return info;
}

void box_set_state(keeper_box *b, cay_state s, const char *kind, const char *reason)
{
    b->state = s;
    CAY_COPY(b->reason, reason);
    journal_put(J_DEADLINE, b, b->id, (int)s, "");
    event_send(b->id, kind, reason, "", 0);
}

void box_stop(keeper_box *b, const char *reason, bool forget_files)
{
    b->forget_files |= forget_files;
    if (b->phase == BOX_DYING)
        return;
    CAY_COPY(b->reason, reason);
    b->phase = BOX_DYING;
    CAY_FAULT("keeper.stop.kill");
    if (b->death.fd < 0) {
        box_free(b);
        return;
    }
    /* Its mounts wait for grace periods when they go, and nobody has to wait for that when they are
     * only its own: the sweeper lets go of them before it removes the files, while it keeps up.
     * Older kernels say no, and it is init's end that takes longer. */
    if (b->loose && b->forget_files && keeper.sweeper.busy < 4 &&
        !cay__kernel_lacks(CAY_KERNEL_PIDFD_NAMESPACE))
        b->mnt_fd = ioctl(b->death.fd, _IO(0xff, 3), 0); /* PIDFD_GET_MNT_NAMESPACE, Linux 6.11 */
    /* pid 1 of its namespace: the kernel takes the rest along. A v2-frozen process dies too. */
    syscall(SYS_pidfd_send_signal, b->death.fd, CAY__MUTANT("destroy-kill") ? 0 : SIGKILL, NULL, 0);
    CAY_FAULT("keeper.stop.killed");
}

/* An overlay answers for the filesystem it writes to: a disk of its own, one with a project quota
 * as if it were as large as that, else the host's. */
bool disk_look(keeper_box *b)
{
    char path[40];
    struct statfs st;
    proc_path(path, sizeof path, b->pid, "root");
    if (!(b->flags & (CAY_CREATE_DISK | CAY_CREATE_QUOTA)) || statfs(path, &st) < 0 ||
        (!(b->flags & CAY_CREATE_DISK) &&
         st.f_blocks + 1 - b->limits.disk / (uint64_t)st.f_bsize > 2))
        return false;
    b->disk_used = (st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
    b->disk_inodes = st.f_files - st.f_ffree;
    return st.f_bavail < st.f_blocks / 64 + 1 || (st.f_files && st.f_ffree < st.f_files / 64 + 1);
}
