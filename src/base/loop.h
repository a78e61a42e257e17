/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/loop.h - a small level-triggered epoll loop: descriptors and timers, one thread.
 *
 * A watch is embedded in the object it serves, so nothing is allocated:
 *
 *     struct client { cay__watch w; … };
 *     client->w = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_client };
 *     cay__loop_add(loop, &client->w);
 *
 * A callback may remove and free any watch, its own included: events still pending for a removed
 * watch in the same round are dropped.
 */
#pragma once
#include <base/fd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

/* The object that a watch or timer is a member of. */
#define CAY__OWNER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

typedef struct cay__watch cay__watch;
struct cay__watch {
    int fd;
    uint32_t events;
    void (*fn)(cay__watch *w, uint32_t events);
};

typedef struct cay__timer cay__timer;
struct cay__timer {
    int64_t at_ms; /* CLOCK_BOOTTIME: time-to-live counts sleep too */
    void (*fn)(cay__timer *t);
    cay__timer *next, **prev; /* sorted list; prev is NULL when not armed */
};

#define CAY__LOOP_BATCH 64
typedef struct cay__loop {
    int ep;
    bool stop;
    int pending, at;
    struct epoll_event batch[CAY__LOOP_BATCH];
    cay__timer *timers;
} cay__loop;

bool cay__loop_open(cay__loop *l);
bool cay__loop_add(cay__loop *l, cay__watch *w);
bool cay__loop_set(cay__loop *l, cay__watch *w, uint32_t events); /* 0 keeps it, silent */
void cay__loop_del(cay__loop *l, cay__watch *w);                  /* before closing w->fd */
void cay__timer_arm(cay__loop *l, cay__timer *t, int64_t at_boot_ms);
static inline void cay__timer_after(cay__loop *l, cay__timer *t, int64_t ms)
{
    cay__timer_arm(l, t, cay__boot_ms() + ms);
}
void cay__timer_cancel(cay__timer *t);
/* One round: waits for at most max_ms (-1: as long as it takes), runs what is due. */
void cay__loop_step(cay__loop *l, int max_ms);
