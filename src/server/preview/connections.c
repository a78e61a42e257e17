/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections into sandboxes, and those of them that wait for the next request: a few, for seconds.
 *
 * One belongs to the lane on which it was first used and stays known to that lane's loop, so that a
 * request on it costs no call but those for its bytes. While it waits, whatever comes on it is out
 * of turn: it is closed.
 */
#include "preview.h"
#include <server/http/stream.h>
#include <base/base.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum { ALL_MAX = 512, EACH_MAX = 64, IDLE_MS = 4000, LOOK_MS = 20 };

struct cay__upstream {
    cay__source src; /* first: the loop knows it by this */
    cay__preview_at at;
    int64_t since_ms;
    cay__upstream *next, **prev; /* of those that wait on a lane, the latest first */
};

static cay__lane *lane_of(const cay__pump *p)
{
    return ((const cay__stream *)p)->conn->lane; /* a pump is a stream's first member */
}

void cay__upstream_hold(cay__pump *p, const cay__preview_at *at, int fd)
{
    cay__upstream *k = cay__alloc(sizeof *k);
    /* A body follows its head in a write of its own: without this it waits for the head's delayed
     * acknowledgement, 40 ms. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    k->src.w.fd = fd;
    k->at = *at;
    p->kept = k;
    p->fd[0] = fd;
}

void cay__upstream_free(cay__pump *p)
{
    free(CAY_STEAL(p->kept));
}

static void unlink_it(cay__lane *l, cay__upstream *k)
{
    *k->prev = k->next;
    if (k->next)
        k->next->prev = k->prev;
    l->nkept--;
}

static void close_upstream(cay__lane *l, cay__upstream *k)
{
    unlink_it(l, k);
    cay__loop_del(&l->loop, &k->src.w);
    close(k->src.w.fd);
    free(k);
}

static void out_of_turn(cay__watch *w, uint32_t events)
{
    cay__upstream *k = (cay__upstream *)w;
    close_upstream(k->src.lane, k);
}

static bool is_same_target(const cay__upstream *k, const cay__preview_at *at)
{
    return k->at.port == at->port && !strcmp(k->at.id, at->id);
}

/* Nothing came and it did not end: bytes that nobody asked for would be read as the next answer.
 * The loop would have told of them, but for the last moment. */
static bool is_upstream_quiet(const cay__upstream *k, int64_t now)
{
    char c;
    return now - k->since_ms < LOOK_MS || (recv(k->src.w.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
                                           (errno == EAGAIN || errno == EWOULDBLOCK));
}

bool cay__upstream_take(cay__pump *p, const cay__preview_at *at)
{
    cay__lane *l = lane_of(p);
    int64_t now = cay__now_ms();
    for (cay__upstream *k = l->kept, *next; k; k = next) {
        next = k->next;
        if (!is_same_target(k, at))
            continue;
        if (!is_upstream_quiet(k, now)) {
            close_upstream(l, k);
            continue;
        }
        unlink_it(l, k);
        cay__source_lend(&k->src, ((cay__stream *)p)->conn);
        p->kept = k;
        p->fd[0] = k->src.w.fd;
        return true;
    }
    return false;
}

static void make_room(cay__lane *l, const cay__preview_at *at)
{
    size_t each = 0;
    cay__upstream *oldest = NULL, *last = NULL;
    for (cay__upstream *k = l->kept; k; k = k->next) {
        last = k;
        if (is_same_target(k, at) && ++each)
            oldest = k;
    }
    if (each >= EACH_MAX || l->nkept >= ALL_MAX)
        close_upstream(l, each >= EACH_MAX ? oldest : last);
}

void cay__upstream_give(cay__pump *p)
{
    cay__lane *l = lane_of(p);
    cay__upstream *k = CAY_STEAL(p->kept);
    p->fd[0] = -1;
    k->src.w.fn = out_of_turn;
    k->src.lane = l;
    k->src.c = NULL;
    k->since_ms = cay__now_ms();
    bool known = false;
    if (k->src.on)
        known = cay__loop_set(&l->loop, &k->src.w, EPOLLIN);
    if (!known || l->draining) {
        if (k->src.on)
            cay__loop_del(&l->loop, &k->src.w);
        close(k->src.w.fd);
        free(k);
        return;
    }
    make_room(l, &k->at);
    k->next = l->kept;
    k->prev = &l->kept;
    if (k->next)
        k->next->prev = &k->next;
    l->kept = k;
    l->nkept++;
}

bool cay__upstream_sweep(cay__lane *l, int64_t now)
{
    for (cay__upstream *k = l->kept, *next; k; k = next) {
        next = k->next;
        if (l->draining || now - k->since_ms >= IDLE_MS)
            close_upstream(l, k);
    }
    return l->kept != NULL;
}

void cay__upstream_end(cay__lane *l)
{
    while (l->kept)
        close_upstream(l, l->kept);
}
