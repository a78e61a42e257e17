/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that were good a moment ago: with one of them nothing has to be asked. */
#include "preview.h"
#include "uplink.h"
#include <base/base.h>
#include <pthread.h>

enum { GRANTS = 32, GRANT_MS = 1000, RENEW_MS = 500, TOKEN_MAX = 80 };

typedef struct grant {
    char id[CAY_ID_LEN + 1], token[TOKEN_MAX];
    uint16_t port;
    cay_sandbox *sb; /* NULL: the place is free */
    int64_t until_ms;
    int64_t renewed_ms; /* somebody asks anew since then, so that not all have to at once */
} grant;

struct cay__previews {
    pthread_mutex_t lock;
    grant grants[GRANTS];
    size_t next_grant;
    struct ssl_ctx_st *tls; /* made when the first program wants it */
};

struct cay__previews *cay__previews_new(void)
{
    struct cay__previews *p = cay__alloc(sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

bool cay__previews_sweep(struct cay__previews *p)
{
    int64_t now = cay__now_ms();
    bool left = false;
    pthread_mutex_lock(&p->lock);
    cay_sandbox *old[GRANTS];
    size_t n = 0;
    CAY_EACH_OF(g, p->grants, GRANTS) {
        if (g->sb && g->until_ms + GRANT_MS <= now) {
            old[n++] = g->sb;
            explicit_bzero(g, sizeof *g);
        }
        left |= g->sb != NULL;
    }
    pthread_mutex_unlock(&p->lock);
    while (n)
        cay_sandbox_unref(old[--n]);
    return left;
}

/* In a time that tells nothing about where they differ. */
static bool is_token_equal(const char *a, const char *b, size_t n)
{
    unsigned char diff = 0;
    for (size_t i = 0; i < n; i++)
        diff |= (unsigned char)(a[i] ^ b[i]);
    return !diff;
}

cay_sandbox *cay__previews_known(struct cay__previews *p, const cay__preview_at *at,
                                 const char *token, bool late)
{
    cay_sandbox *sb = NULL;
    size_t n = strlen(token);
    int64_t real = cay__now_ms(), now = real - (late ? GRANT_MS : 0);
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; !sb && i < GRANTS; i++) {
        grant *g = &p->grants[i];
        if (!g->sb || g->port != at->port || strcmp(g->id, at->id) || g->until_ms <= now ||
            strlen(g->token) != n || !is_token_equal(g->token, token, n))
            continue;
        if (!late && g->until_ms - real <= RENEW_MS &&
            real - g->renewed_ms > RENEW_MS) { /* one asks in time, and the others go on */
            g->renewed_ms = real;
            break;
        }
        sb = cay_sandbox_ref(g->sb);
    }
    pthread_mutex_unlock(&p->lock);
    return sb;
}

void cay__previews_learn(struct cay__previews *p, const cay__preview_at *at, const char *token,
                         cay_sandbox *sb)
{
    grant g = { .port = at->port, .until_ms = cay__now_ms() + GRANT_MS };
    if (strlen(token) >= sizeof g.token)
        return;
    memcpy(g.id, at->id, sizeof g.id);
    memcpy(g.token, token, strlen(token) + 1);
    g.sb = cay_sandbox_ref(sb);
    pthread_mutex_lock(&p->lock);
    grant *place = &p->grants[p->next_grant++ % GRANTS];
    CAY_EACH_OF(it, p->grants, GRANTS)
        if (it->sb && it->port == g.port && !strcmp(it->id, g.id) && !strcmp(it->token, g.token))
            place = it;
    cay_sandbox *old = place->sb;
    *place = g;
    pthread_mutex_unlock(&p->lock);
    if (old)
        cay_sandbox_unref(old);
}

void cay__previews_free(struct cay__previews *p)
{
    CAY_EACH_OF(it, p->grants, GRANTS)
        if (it->sb)
            cay_sandbox_unref(it->sb);
    explicit_bzero(p->grants, sizeof p->grants);
    cay__uplink_tls_free(p->tls);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

struct ssl_ctx_st *cay__previews_tls(struct cay__previews *p)
{
    pthread_mutex_lock(&p->lock);
    if (!p->tls)
        p->tls = cay__uplink_tls_new();
    struct ssl_ctx_st *ctx = p->tls;
    pthread_mutex_unlock(&p->lock);
    return ctx;
}
