/* SPDX-License-Identifier: Apache-2.0 */
#include "ticket.h"
#include <base/base.h>
#include <base/mutant.h>
#include <openssl/crypto.h>
#include <pthread.h>

enum { TICKETS = 256, LEN = CAY__TICKET_LEN - 1 };
struct cay__tickets {
    pthread_mutex_t lock;
    struct {
        char text[CAY__TICKET_LEN], key[16];
        int64_t until_ms;
    } slot[TICKETS];
    unsigned next;
};

cay__tickets *cay__tickets_new(void)
{
    cay__tickets *t = cay__alloc(sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

void cay__tickets_free(cay__tickets *t)
{
    if (t)
        pthread_mutex_destroy(&t->lock);
    free(t);
}

void cay__ticket_make(cay__tickets *t, const char *key, int64_t now_ms, char out[CAY__TICKET_LEN])
{
    unsigned char raw[LEN / 2];
    cay__random(raw, sizeof raw);
    cay__hex_put(out, raw, sizeof raw);
    pthread_mutex_lock(&t->lock);
    unsigned i = t->next++ % TICKETS; /* the oldest goes: it has 30 s at most anyway */
    CAY_COPY(t->slot[i].text, out);
    CAY_COPY(t->slot[i].key, key);
    t->slot[i].until_ms = now_ms + CAY__TICKET_MS;
    pthread_mutex_unlock(&t->lock);
}

bool cay__ticket_use(cay__tickets *t, const char *text, const char *key, int64_t now_ms)
{
    bool found = false, good = false;
    if (strlen(text) != LEN)
        return false;
    pthread_mutex_lock(&t->lock);
    for (unsigned i = 0; i < TICKETS && !found; i++) {
        /* In constant time: how much of a guess was right is told to nobody. */
        if (CRYPTO_memcmp(t->slot[i].text, text, LEN) != 0)
            continue;
        found = true;
        good = now_ms < t->slot[i].until_ms &&
               (!strcmp(t->slot[i].key, key) || CAY__MUTANT("console-ticket-owner"));
        if (!CAY__MUTANT("console-ticket"))
            memset(&t->slot[i], 0, sizeof t->slot[i]);
    }
    pthread_mutex_unlock(&t->lock);
    return good;
}
