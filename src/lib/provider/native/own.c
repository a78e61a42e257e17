/* SPDX-License-Identifier: Apache-2.0 */
/* Ephemeral boxes: whoever holds the connection is their owner. */
#include "box.h"
#include <base/base.h>
#include <base/fault.h>
#include <sys/socket.h>

void cay__nbox_own(cay__nbox *b, int sock)
{
    CAY_LOCK(&b->n->own_lock);
    b->owner = sock;
    b->next_owned = b->n->owned;
    b->n->owned = b;
}

/* A create of a box that is there is answered with it, and makes the asker its owner. */
static void claim_box(cay__nbox *b)
{
    char probe;
    cay_m_create m = { .flags = CAY_CREATE_EPHEMERAL };
    cay__reply r = { 0 };
    int sock = -1;
    if (recv(b->owner, &probe, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
        return; /* its keeper is alive */
    memcpy(m.id, b->base.id, sizeof m.id);
    CAY_FAULT("client.claim.send");
    cay__link fresh = {
        .dial = b->n->link.dial, .arg = b->n, .peer = "keeper", .lock = PTHREAD_MUTEX_INITIALIZER
    };
    if (cay__link_begin(&fresh, NULL, CAY__LINK_ASK(CAY_MSG_CREATE, m), &r, &sock, NULL) == 0) {
        close(b->owner);
        b->owner = sock;
    }
    cay__link_close(&fresh);
}

void cay__nbox_claim_all(void *native)
{
    cay__native *n = native;
    CAY_LOCK(&n->own_lock);
    for (cay__nbox *b = n->owned; b; b = b->next_owned)
        claim_box(b);
}

void cay__nbox_disown(cay__nbox *b)
{
    if (b->owner < 0)
        return;
    CAY_LOCK(&b->n->own_lock);
    for (cay__nbox **p = &b->n->owned; *p; p = &(*p)->next_owned)
        if (*p == b) {
            *p = b->next_owned;
            break;
        }
    claim_box(b); /* a keeper that does not know us would never hear that we are done */
    cay__close_fd(&b->owner);
}
