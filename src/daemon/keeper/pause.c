/* SPDX-License-Identifier: Apache-2.0 */
/* Standing still until somebody says otherwise: the freezer's work, once no command is being born.
 */
#include "keeper.h"
#include <signal.h>

#define BIRTH_MS 1000 /* a pause waits so long for commands that are being started */

/* Without a group to freeze, init stops every process by signal: they can tell, and a new one is a
 * gap. */
void box_freeze(keeper_box *b, bool on)
{
    if (!cgroup_freeze(b, on))
        box_tell(b, CAY_G_SIGNAL, "", on ? SIGSTOP : SIGCONT, 0, -1);
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
    cay__timer_arm(&keeper.loop, &b->timer, cay__boot_ms() + BIRTH_MS);
    b->holding = b->services && box_tell(b, CAY_G_SERVICE, "", CAY_GU_HOLD, 0, -1);
    box_spawned(b);
}
