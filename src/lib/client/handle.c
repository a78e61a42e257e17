/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

static void release_handle(cay_sandbox *sb)
{
    cay_client *client = sb->owner;
    void *box = atomic_exchange(&sb->box, NULL);
    cay__retired **at, *old, *mine = NULL;
    /* Boxes go before the client, which may close their provider. */
    if (box)
        sb->ops->release(box);
    pthread_mutex_lock(&client->lock);
    for (at = &client->retired; (old = *at);) {
        if (old->of == sb) {
            *at = old->next;
            old->next = mine;
            mine = old;
        } else {
            at = &old->next;
        }
    }
    pthread_mutex_unlock(&client->lock);
    while ((old = mine)) {
        mine = old->next;
        sb->ops->release(old->box);
        free(old);
    }
    cay__client_unref(client);
}

cay_sandbox *cay__handle_new(cay_client *client, const cay_provider_ops *ops, const char *id,
                             void *box, cay_state state)
{
    cay_sandbox *sb = cay__sandbox_new(ops, id, box);
    atomic_store(&sb->state, state);
    atomic_fetch_add(&client->refs, 1);
    sb->owner = client;
    sb->drop = release_handle;
    return sb;
}

void cay__handle_rebox(cay_sandbox *sb, void *box, cay_state state)
{
    cay_client *client = sb->owner;
    void *old = atomic_exchange(&sb->box, box);
    if (old) {
        cay__retired *r = cay__alloc(sizeof *r);
        pthread_mutex_lock(&client->lock);
        *r = (cay__retired){ client->retired, sb, old };
        client->retired = r;
        pthread_mutex_unlock(&client->lock);
    }
    atomic_store(&sb->state, state);
}
