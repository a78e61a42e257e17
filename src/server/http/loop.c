/* SPDX-License-Identifier: Apache-2.0 */
/* A lane: one loop on one thread, with the connections that it accepted. */
#include "connection.h"
#include <base/base.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

enum { SWEEP_MS = 1000, DRAIN_SWEEP_MS = 50, ACCEPTS = 32, STACK = 256 << 10 };

void cay__lane_wake(cay__lane *l)
{
    eventfd_write(l->bell.fd, 1);
}

void cay__lane_post(cay__conn *c)
{
    cay__lane *l = c->lane;
    pthread_mutex_lock(&l->lock);
    bool first = !l->mail;
    c->mail_next = l->mail;
    l->mail = c;
    pthread_mutex_unlock(&l->lock);
    if (first)
        cay__lane_wake(l);
}

static void on_bell(cay__watch *w, uint32_t events)
{
    cay__lane *l = (cay__lane *)((char *)w - offsetof(cay__lane, bell));
    eventfd_t n;
    eventfd_read(w->fd, &n);
    pthread_mutex_lock(&l->lock);
    cay__conn *c = CAY_STEAL(l->mail);
    pthread_mutex_unlock(&l->lock);
    while (c) {
        cay__conn *next = c->mail_next;
        cay__conn_resume(c);
        c = next;
    }
}

/* Once a second every connection is looked at: cheaper than a timer each. Without any it stays
 * silent. */
static void on_sweep(cay__timer *t)
{
    cay__lane *l = (cay__lane *)((char *)t - offsetof(cay__lane, sweep));
    int64_t now = cay__now_ms();
    for (cay__conn *c = l->conns, *next; c; c = next) {
        next = c->next;
        cay__conn_sweep(c, now);
    }
    bool kept = cay__upstream_sweep(l, now) | cay__previews_sweep(l->server->previews);
    if (l->conns || (kept && !l->draining))
        cay__timer_arm(&l->loop, t, cay__boot_ms() + (l->draining ? DRAIN_SWEEP_MS : SWEEP_MS));
}

static void on_door(cay__watch *w, uint32_t events)
{
    cay__door *door = (cay__door *)w; /* its first member */
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        cay__lane_accept(door->lane, door->via, fd);
    }
}

static void begin_drain(cay__lane *l)
{
    l->draining = true;
    l->drain_until = cay__now_ms() + CAY__DRAIN_MS;
    CAY_EACH_OF(it, l->door, l->server->nlisteners)
        cay__loop_del(&l->loop, &it->w);
    cay__timer_cancel(&l->sweep);
    on_sweep(&l->sweep);
}

static void *run_lane(void *arg)
{
    cay__lane *l = arg;
    while (!l->draining || l->conns) {
        cay__loop_step(&l->loop, -1);
        if (l->server->draining && !l->draining)
            begin_drain(l);
    }
    return NULL;
}

int cay__lane_start(cay__lane *l, cay__server *s, cay_err *err)
{
    pthread_attr_t attr;
    if (!cay__loop_open(&l->loop))
        return cay_fail_sys(err, "epoll");
    l->server = s;
    pthread_mutex_init(&l->lock, NULL);
    l->spare = cay__req_new(s);
    l->sweep.fn = on_sweep;
    cay__random(&l->luck, sizeof l->luck);
    l->bell = (cay__watch){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                            .events = EPOLLIN,
                            .fn = on_bell };
    if (l->bell.fd < 0 || !cay__loop_add(&l->loop, &l->bell))
        return cay_fail_sys(err, "eventfd");
    for (size_t i = 0; i < s->nlisteners; i++) {
        l->door[i].w = (cay__watch){ .fd = s->listeners[i].fd,
                                     .events = EPOLLIN | EPOLLEXCLUSIVE,
                                     .fn = on_door };
        l->door[i].via = &s->listeners[i];
        l->door[i].lane = l;
        if (!cay__loop_add(&l->loop, &l->door[i].w))
            return cay_fail_sys(err, "epoll: %s", s->listeners[i].name);
    }
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    errno = pthread_create(&l->thread, &attr, run_lane, l);
    pthread_attr_destroy(&attr);
    if (errno)
        return cay_fail_sys(err, "a thread");
    return 0;
}

void cay__lane_close(cay__lane *l)
{
    cay__req_free(l->spare);
    cay__upstream_end(l);
    close(l->bell.fd);
    close(l->loop.ep);
    pthread_mutex_destroy(&l->lock);
}
