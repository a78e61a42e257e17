/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait until a sandbox goes on. One that stands still has an init that reads nothing,
 * and whoever filled its socket would hold us up; one that is put onto another root must not be
 * asked for anything until it stands there. And a client need not wait for its create to be
 * answered before it names a first command.
 */
#include "keeper.h"

typedef struct held {
    struct held *next;
    client *c;
    size_t len;
    int fds[CAY__FDS_MAX], nfds;
    _Alignas(8) char packet[];
} held;

static void hold_packet(held **last, client *c, const char *packet, size_t len, int *fds, int nfds)
{
    held *h = cay__alloc(sizeof *h + len);
    *h = (held){ .c = c, .len = len, .nfds = nfds };
    memcpy(h->packet, packet, len);
    for (int i = 0; i < nfds; i++)
        h->fds[i] = CAY_STEAL_FD(fds[i]);
    CAY_APPEND(*last, h);
}

bool hold(client *c, keeper_box *b, bool told, const char *packet, size_t len, int *fds, int nfds)
{
    uint16_t type = ((const cay_msg *)packet)->type;
    bool still = b->frozen_for && (type == CAY_MSG_SPAWN || type == CAY_MSG_SESSION ||
                                   type == CAY_MSG_SNAPSHOT || type == CAY_MSG_RESTACK);
    if (!still && !(b->turn && told))
        return false;
    hold_packet(&b->held, c, packet, len, fds, nfds);
    return true;
}

bool hold_creating(client *c, const char *id, const char *packet, size_t len, int *fds, int nfds)
{
    if (!c->creating || strcmp(id, c->creating->m.id))
        return false;
    hold_packet(&c->creating->held, c, packet, len, fds, nfds);
    return true;
}

static void held_free(held *h)
{
    cay__close_fds(h->fds, h->nfds);
    free(h);
}

/* In the order in which they came. The first of them may make the others wait again. */
static void release_packets(held *list, bool heard)
{
    CAY_EACH_LINK_SAFE(h, list) {
        if (heard)
            client_packet(h->c, h->packet, h->len, h->fds, h->nfds);
        held_free(h);
    }
}

void hold_release(keeper_box *b)
{
    held *list = b->held;
    b->held = NULL;
    release_packets(list, true);
}

void hold_created(pending *p)
{
    held *list = p->held;
    p->held = NULL;
    if (p->c && p->c->creating == p)
        p->c->creating = NULL;
    release_packets(list, p->c);
}

void hold_client_gone(const client *c)
{
    CAY_EACH_LINK(b, keeper.boxes)
        for (held **p = &b->held; *p;)
            if ((*p)->c == c) {
                held *dead = *p;
                *p = dead->next;
                held_free(dead);
            } else {
                p = &(*p)->next;
            }
}
