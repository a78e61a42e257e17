/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink.h"
#include <base/base.h>
#include <sys/socket.h>

enum { HOLD = 128 << 10, KEEP = 64 << 10 };

void cay__uplink_add(cay__uplink *u, const void *data, size_t n)
{
    if (u->sent) { /* what is gone makes room */
        u->wait.len -= u->sent;
        memmove(u->wait.data, u->wait.data + u->sent, u->wait.len);
        u->sent = 0;
    }
    if (!u->broken)
        cay__buf_add(&u->wait, data, n);
}

void cay__uplink_flush(cay__uplink *u, cay__pump *p, unsigned which)
{
    while (!u->broken && u->fd >= 0 && u->sent < u->wait.len) {
        ssize_t n = cay__uplink_send(u, u->wait.data + u->sent, u->wait.len - u->sent);
        if (n >= 0)
            u->sent += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            break;
        else if (errno != EINTR)
            u->broken = true;
    }
    if (u->broken || cay__uplink_empty(u)) {
        u->wait.len = u->sent = 0;
        if (u->wait.cap > KEEP)
            cay__buf_clear(&u->wait); /* who is idle keeps no buffer */
    }
    size_t waits = u->wait.len - u->sent;
    bool go = (waits && !u->hears) || u->tells;
    if (go)
        p->write = p->write | 1u << which;
    else
        p->write = p->write & ~(1u << which);
    p->hold = waits > HOLD;
}

enum { READ = 64 << 10, ROUND = 256 << 10 };

typedef struct tunnel {
    cay__uplink up;
    bool up_done;
} tunnel;

static void flush_uplink(tunnel *t, cay__pump *p)
{
    cay__uplink_flush(&t->up, p, 0);
    if (t->up_done && cay__uplink_empty(&t->up))
        shutdown(t->up.fd, SHUT_WR);
}

static int push_bytes(cay__pump *p, int kind, const char *data, size_t len, cay__buf *out)
{
    tunnel *t = p->self;
    if (data)
        cay__uplink_add(&t->up, data, len);
    else
        t->up_done = true;
    flush_uplink(t, p);
    if (t->up.wait.full)
        return CAY_ETOOBIG;
    return CAY__PUMP_ON;
}

static int pull_bytes(cay__pump *p, unsigned ready, cay__buf *out)
{
    tunnel *t = p->self;
    if (ready & 1u << 4)
        flush_uplink(t, p);
    for (size_t all = 0; ready & 1u && all < ROUND;) {
        char *room = cay__buf_room(out, READ);
        ssize_t n = -1;
        if (room)
            n = recv(t->up.fd, room, READ, MSG_DONTWAIT);
        if (!room)
            return CAY_ETOOBIG;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            break;
        if (n <= 0)
            return CAY__PUMP_END;
        cay__buf_used(out, (size_t)n);
        all += (size_t)n;
    }
    return CAY__PUMP_ON;
}

static void close_tunnel(cay__pump *p)
{
    tunnel *t = p->self;
    cay__close_fd(&t->up.fd);
    cay__buf_clear(&t->up.wait);
    free(t);
}

int cay__reply_tunnel(cay__req *r, const char *protocol, int fd)
{
    tunnel *t = cay__alloc(sizeof *t);
    t->up = (cay__uplink){ .fd = fd, .wait = CAY__BUF(CAY__UPLINK_MAX) };
    cay__fd_nonblock(fd, true);
    return cay__reply_upgrade(r, protocol,
                              &(cay__pump){ .fd = { fd, -1, -1 },
                                            .self = t,
                                            .pull = pull_bytes,
                                            .push = push_bytes,
                                            .close = close_tunnel });
}
