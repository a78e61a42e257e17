/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of every sandbox: it ends, or pauses, when its time is over or when nothing was asked
 * of it and no command of the API ran for its idle time. CLOCK_BOOTTIME, so that a suspended
 * machine does not stretch a life.
 */
#include "keeper.h"

static void expire_box(keeper_box *b, const char *reason)
{
    journal_put(J_EXIT, b, b->id, 0, reason);
    CAY_FAULT("keeper.deadline.expire");
    if (b->flags & CAY_CREATE_PAUSE) {
        b->deadline_boot = 0;
        box_pause(b, reason, NULL);
        return;
    }
    box_stop(b, reason, b->flags & CAY_CREATE_EPHEMERAL);
}

static int64_t idle_at(const keeper_box *b)
{
    if (b->idle_ms)
        return b->touched_boot + (int64_t)b->idle_ms;
    return INT64_MAX;
}

static void on_time(cay__timer *t)
{
    keeper_box *b = CAY__OWNER(t, keeper_box, timer);
    int64_t now = cay__boot_ms();
    if (b->phase != BOX_LIVE || b->state == CAY_PAUSED)
        return;
    if (b->nlive || b->adopting) /* a command runs, or may: not idle */
        b->touched_boot = now;
    if (b->deadline_boot && now >= b->deadline_boot)
        expire_box(b, "ttl");
    else if (now >= idle_at(b))
        expire_box(b, "idle");
    else
        deadline_arm(b);
}

void deadline_arm(keeper_box *b)
{
    int64_t at = CAY_MIN(CAY_OR(b->deadline_boot, INT64_MAX), idle_at(b));
    if (b->pausing) /* it is the pause's meanwhile */
        return;
    cay__timer_cancel(&b->timer);
    if (at == INT64_MAX)
        return;
    b->timer.fn = on_time;
    cay__timer_arm(&keeper.loop, &b->timer, at);
}

/* Cheap: the timer looks again when it fires. */
void deadline_touch(keeper_box *b)
{
    b->touched_boot = cay__boot_ms();
}

void deadline_set(keeper_box *b, uint64_t ttl_ms, uint64_t idle_ms)
{
    int64_t now = cay__boot_ms();
    const uint64_t most = (uint64_t)INT64_MAX / 4;
    if (ttl_ms == UINT64_MAX)
        b->deadline_boot = 0;
    else if (ttl_ms)
        b->deadline_boot = now + (int64_t)CAY_MIN(ttl_ms, most);
    if (idle_ms == UINT64_MAX)
        b->idle_ms = 0;
    else if (idle_ms)
        b->idle_ms = CAY_MIN(idle_ms, most);
    b->touched_boot = now;
    deadline_arm(b);
}
