/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"
#include "base.h"

bool cay__loop_open(cay__loop *l)
{
    memset(l, 0, sizeof *l);
    l->ep = epoll_create1(EPOLL_CLOEXEC);
    return l->ep >= 0;
}

bool cay__loop_add(cay__loop *l, cay__watch *w)
{
    struct epoll_event e = { .events = w->events, .data.ptr = w };
    return epoll_ctl(l->ep, EPOLL_CTL_ADD, w->fd, &e) == 0;
}

bool cay__loop_set(cay__loop *l, cay__watch *w, uint32_t events)
{
    if (w->events == events)
        return true;
    struct epoll_event e = { .events = events, .data.ptr = w };
    w->events = events;
    return epoll_ctl(l->ep, EPOLL_CTL_MOD, w->fd, &e) == 0;
}

void cay__loop_del(cay__loop *l, cay__watch *w)
{
    epoll_ctl(l->ep, EPOLL_CTL_DEL, w->fd, NULL);
    for (int i = l->at; i < l->pending; i++)
        if (l->batch[i].data.ptr == w)
            l->batch[i].data.ptr = NULL;
}

void cay__timer_cancel(cay__timer *t)
{
    if (!t->prev)
        return;
    *t->prev = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->prev = NULL;
}

void cay__timer_arm(cay__loop *l, cay__timer *t, int64_t at_boot_ms)
{
    cay__timer_cancel(t);
    t->at_ms = at_boot_ms;
    cay__timer **p = &l->timers;
    while (*p && (*p)->at_ms <= at_boot_ms)
        p = &(*p)->next;
    t->next = *p;
    t->prev = p;
    if (t->next)
        t->next->prev = &t->next;
    *p = t;
}

static void run_timers(cay__loop *l)
{
    int64_t now = cay__boot_ms();
    while (l->timers && l->timers->at_ms <= now) {
        cay__timer *t = l->timers;
        cay__timer_cancel(t);
        t->fn(t);
    }
}

void cay__loop_step(cay__loop *l, int max_ms)
{
    int64_t wait = max_ms;
    if (l->timers) {
        int64_t left = CAY_MAX(l->timers->at_ms - cay__boot_ms(), 0);
        if (wait < 0)
            wait = left;
        else
            wait = CAY_MIN(wait, left);
        wait = CAY_MIN(wait, 60000);
    }
    l->pending = epoll_wait(l->ep, l->batch, CAY__LOOP_BATCH, (int)wait);
    for (l->at = 0; l->at < l->pending;) {
        struct epoll_event *e = &l->batch[l->at++];
        cay__watch *w = e->data.ptr;
        if (w)
            w->fn(w, e->events);
    }
    l->pending = l->at = 0;
    run_timers(l);
}
