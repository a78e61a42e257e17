/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

static void drop(cay_sandbox *sb)
{
    cay_service *svc = sb->owner;
    void *box = atomic_exchange(&sb->box, NULL);
    cay__retired **at, *old, *mine = NULL;
    /* Boxes go before the service, which may close their provider. */
    if (box)
        sb->ops->release(box);
    pthread_mutex_lock(&svc->lock);
    for (at = &svc->retired; (old = *at);) {
        if (old->of == sb) {
            *at = old->next;
            old->next = mine;
            mine = old;
        } else {
            at = &old->next;
        }
    }
    pthread_mutex_unlock(&svc->lock);
    while ((old = mine)) {
        mine = old->next;
        sb->ops->release(old->box);
        free(old);
    }
    cay__svc_unref(svc);
}

cay_sandbox *cay__handle_new(cay_service *svc, const cay_provider_ops *ops, const char *id,
                             void *box, cay_state state)
{
    cay_sandbox *sb = cay__sandbox_new(ops, id, box);
    atomic_store(&sb->state, state);
    atomic_fetch_add(&svc->refs, 1);
    sb->owner = svc;
    sb->drop = drop;
    return sb;
}

void cay__handle_rebox(cay_sandbox *sb, void *box, cay_state state)
{
    cay_service *svc = sb->owner;
    void *old = atomic_exchange(&sb->box, box);
    if (old) {
        cay__retired *r = cay__alloc(sizeof *r);
        pthread_mutex_lock(&svc->lock);
        *r = (cay__retired){ svc->retired, sb, old };
        svc->retired = r;
        pthread_mutex_unlock(&svc->lock);
    }
    atomic_store(&sb->state, state);
}
