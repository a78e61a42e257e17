/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox stands still: for whoever said pause, until somebody says otherwise, once no command is
 * being born; and for a client that copies its files. The whole group is frozen, init and
 * its file workers with the commands, so that nothing writes; a pause, which freezes the commands'
 * own group, is neither seen nor undone. It lasts until the client says so or its connection ends.
 */
#include "keeper.h"
#include <signal.h>

#define BIRTH_MS 1000 /* a pause waits so long for commands that are being started */

/* Without a group to freeze, init stops every process by signal: they can tell, and a new one is a
 * gap. */
void box_freeze(keeper_box *b, bool on)
{
    if (!cgroup_freeze(b, on))
        box_tell(b, CAY_G_SIGNAL, "", on ? SIGSTOP : SIGCONT, 0);
}

/* A command that is born into a frozen group holds init up until it thaws, so those on their way
 * come first. One that is stopped by its own sandbox is not waited for. */
static void freeze_now(cay__timer *t)
{
    keeper_box *b = CAY__OWNER(t, keeper_box, timer);
    cay__timer_cancel(t);
    CAY_FAULT("keeper.pause.freeze");
    box_freeze(b, true);
    CAY_FAULT("keeper.pause.frozen");
    box_set_state(b, CAY_PAUSED, "paused", b->pausing);
    reply_ok(b->pauser);
    b->pausing = NULL;
    b->pauser = NULL;
}

void box_spawned(keeper_box *b)
{
    for (keeper_proc *p = b->procs; p && b->pausing; p = p->next)
        if (!p->started)
            return;
    if (b->pausing && !b->holding)
        freeze_now(&b->timer);
}

void box_pause(keeper_box *b, const char *reason, client *c)
{
    b->pausing = reason;
    b->pauser = c;
    b->timer.fn = freeze_now;
    arm_timer(&b->timer, BIRTH_MS);
    b->holding = b->services && box_tell(b, CAY_G_SERVICE, "", CAY_GU_HOLD, 0);
    box_spawned(b);
}

void freeze_end(keeper_box *b)
{
    if (!b->frozen_for)
        return;
    CAY_FAULT("keeper.freeze.end");
    if (b->cg_fd >= 0)
        cay__fd_write_file(b->cg_fd, "cgroup.freeze", "0");
    b->frozen_for = NULL;
    hold_release(b);
}

/* Answered at once, with what to read until it says "frozen 1": processes come to rest when they
 * leave the kernel, and that may take longer than anybody should wait for us. Without a group of
 * its own it only gets no new work: the client, who was asked to, stops the processes by signals.
 */
void freeze_ask(const request *r)
{
    keeper_box *b = r->b;
    CAY_AUTOFD events = -1;
    if (b->cg_fd >= 0)
        events = openat(b->cg_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (b->frozen_for && !reply_refused(r->c, CAY_EBUSY, "snapshot_running",
                                        "another snapshot of this sandbox is being taken"))
        return;
    CAY_FAULT("keeper.freeze.begin");
    if (events >= 0 && !cay__fd_write_file(b->cg_fd, "cgroup.freeze", "1"))
        cay__close_fd(&events);
    if (events < 0 && !(((const cay_m_box *)r->body)->a & CAY_FREEZE_STOP) &&
        !reply_refused(r->c, CAY_ENOTSUP, "no_freezer",
                       "this host gives the sandbox no control group that can be frozen; end its "
                       "processes first, or let them be stopped by signals (--stop)"))
        return;
    b->frozen_for = r->c;
    cay_m_boxinfo info = box_info(b);
    CAY_FAULT("keeper.freeze.begun");
    reply_fds(r->c, CAY_MSG_BOX, &info, sizeof info, NULL, 0, &events, events >= 0);
}

void freeze_client_gone(const client *c)
{
    CAY_EACH_LINK_SAFE(b, keeper.boxes) {
        if (b->frozen_for == c)
            freeze_end(b);
    }
}
