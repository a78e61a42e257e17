/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"
#include <base/base.h>

enum { SHARE = 16 }; /* pieces handed out at once */

void cay__claim_open(cay__claim *c, const uint32_t *of, size_t n, unsigned entries, unsigned each)
{
    *c = (cay__claim){ .entries = CAY_OR(entries, UINT32_MAX), .each = CAY_OR(each, UINT32_MAX) };
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->moved, NULL);
    c->runs = cay__alloc((n + 1) * sizeof *c->runs);
    for (size_t i = 0; i < n; i++) {
        if (i && of[i] == of[i - 1])
            c->runs[c->n - 1].end++;
        else
            c->runs[c->n++] = (cay__run){ i, i + 1, 0 };
    }
}

static bool find_share(cay__claim *c, cay__share *out)
{
    while (c->first < c->n && c->runs[c->first].at == c->runs[c->first].end)
        c->first++;
    for (size_t i = c->first; i < c->n; i++) {
        cay__run *r = &c->runs[i];
        if (r->at == r->end || r->active >= c->each)
            continue;
        if (!r->active && c->active >= c->entries)
            return false; /* later ones are not begun either, so that the order stays */
        c->active += !r->active;
        r->active++;
        *out = (cay__share){ i, r->at, CAY_MIN(r->at + SHARE, r->end) };
        r->at = out->end;
        return true;
    }
    return false;
}

bool cay__claim_take(cay__claim *c, cay__share *out)
{
    bool got = false;
    CAY_LOCK(&c->lock);
    while (!c->stop && !(got = find_share(c, out)) && c->first < c->n)
        pthread_cond_wait(&c->moved, &c->lock);
    return got;
}

void cay__claim_done(cay__claim *c, const cay__share *s, bool failed)
{
    CAY_LOCK(&c->lock);
    c->active -= --c->runs[s->run].active == 0;
    c->stop |= failed;
    pthread_cond_broadcast(&c->moved);
}

void cay__claim_close(cay__claim *c)
{
    free(c->runs);
    pthread_cond_destroy(&c->moved);
    pthread_mutex_destroy(&c->lock);
}
