/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox stands still for a client that copies its files. The whole group is frozen, init and its file workers with
 * the commands, so that nothing writes; a pause, which freezes the commands' own group, is neither seen nor undone.
 * It lasts until the client says so or its connection ends. Requests that init would have to serve wait here: an init that
 * stands still reads nothing, and whoever filled its socket would hold us up.
 */
#include "keeper.h"
#include <fcntl.h>

typedef struct held {
    struct held *next;
    client      *c;
    size_t       len;
    int          fds[CAY__FDS_MAX], nfds;
    _Alignas(8) char packet[];
} held;

bool freeze_hold(client *c, box *b, const char *packet, size_t len, int *fds, int nfds)
{
    held *h, **last = &b->held;
    uint16_t type = ((const cay_msg *)packet)->type;
    if (!b->frozen_for || (type != CAY_MSG_SPAWN && type != CAY_MSG_SESSION))
        return false;
    h = cay__alloc(sizeof *h + len);
    *h = (held){ .c = c, .len = len, .nfds = nfds };
    memcpy(h->packet, packet, len);
    for (int i = 0; i < nfds; i++)
        h->fds[i] = CAY_STEAL_FD(fds[i]);
    while (*last)
        last = &(*last)->next;
    *last = h;
    return true;
}

static void held_free(held *h)
{
    for (int i = 0; i < h->nfds; i++)
        cay__close_fd(&h->fds[i]);
    free(h);
}

void freeze_end(box *b)
{
    held *list = b->held;
    if (!b->frozen_for)
        return;
    CAY_FAULT("keeper.freeze.end");
    if (b->cg_fd >= 0)
        cay__fd_write_file(b->cg_fd, "cgroup.freeze", "0");
    b->frozen_for = NULL;
    b->held = NULL;
    for (held *h = list, *next; h; h = next) {
        next = h->next;
        client_packet(h->c, h->packet, h->len, h->fds, h->nfds);
        held_free(h);
    }
}

/* Answered at once, with what to read until it says "frozen 1": processes come to rest when they leave the kernel, and that
 * may take longer than anybody should wait for us. Without a group of its own it only gets no new work: the client, who
 * was asked to, stops the processes by signals. */
void freeze_ask(client *c, box *b, const cay_m_box *m)
{
    cay_m_boxinfo info;
    CAY_AUTOFD events = b->cg_fd < 0 ? -1 : openat(b->cg_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (b->frozen_for) {
        reply_error(c, CAY_EBUSY, 0, "snapshot_running", "another snapshot of this sandbox is being taken", NULL);
        return;
    }
    CAY_FAULT("keeper.freeze.begin");
    if (events >= 0 && !cay__fd_write_file(b->cg_fd, "cgroup.freeze", "1"))
        cay__close_fd(&events);
    if (events < 0 && !(m->a & CAY_FREEZE_STOP)) {
        reply_error(c, CAY_ENOTSUP, 0, "no_freezer", "this host gives the sandbox no control group that can be frozen; end its processes first, or let them be stopped by signals (--stop)", NULL);
        return;
    }
    b->frozen_for = c;
    box_info(b, &info);
    CAY_FAULT("keeper.freeze.begun");
    reply_fds(c, CAY_MSG_BOX, &info, sizeof info, NULL, 0, &events, events >= 0);
}

void freeze_client_gone(const client *c)
{
    for (box *b = K.boxes, *next; b; b = next) {
        next = b->next;
        for (held **p = &b->held; *p;)
            if ((*p)->c == c) {
                held *dead = *p;
                *p = dead->next;
                held_free(dead);
            } else {
                p = &(*p)->next;
            }
        if (b->frozen_for == c)
            freeze_end(b);
    }
}
