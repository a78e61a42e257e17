/* SPDX-License-Identifier: Apache-2.0 */
#include "list_cache.h"
#include <server/http/connection.h>
#include <base/base.h>
#include <inttypes.h>

enum { SLOTS = 32, BODY_MAX = 256 << 10, ALL_MAX = 1 << 20, SKEW_MS = 50 };

typedef struct slot {
    char key[400];
    char providers[CAY__LISTED_PROVIDERS + 1][32];
    uint64_t version, used;
    int64_t skew; /* deadlines are by the wall clock: an answer does not outlive a jump of it */
    char next[CAY__LISTED_NEXT];
    char *body; /* NULL: only its providers are known */
    size_t len;
} slot;

struct cay__listed {
    pthread_mutex_t lock;
    uint64_t clock;
    size_t bytes;
    slot slots[SLOTS];
};

struct cay__listed *cay__listed_new(void)
{
    struct cay__listed *l = cay__alloc(sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

static void clear_slot(struct cay__listed *l, slot *s)
{
    l->bytes -= s->len;
    free(s->body);
    *s = (slot){ 0 };
}

void cay__listed_free(struct cay__listed *l)
{
    if (!l)
        return;
    CAY_EACH_OF(it, l->slots, SLOTS)
        clear_slot(l, it);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static slot *find_slot(struct cay__listed *l, const char *key)
{
    CAY_EACH_OF(it, l->slots, SLOTS)
        if (!strcmp(it->key, key))
            return it;
    return NULL;
}

/* That which nobody has asked for the longest. */
static slot *find_oldest_slot(struct cay__listed *l, const slot *but)
{
    slot *s = NULL;
    CAY_EACH_OF(it, l->slots, SLOTS)
        if (it != but && (!s || it->used < s->used))
            s = it;
    return s;
}

static int64_t compute_skew(void)
{
    return cay__clock_ms() - cay__boot_ms();
}

/* Who asks decides what is told, and route and query about what: nothing else does. */
static void format_key(cay__cached_list *l, const cay__req *r)
{
    const char *tenant = cay__req_tenant((cay__req *)(uintptr_t)r);
    int n = CAY_FORMAT(l->key, "%c%s\n%s%s\n%s", r->who.scope == CAY__SCOPE_ADMIN ? 'a' : 't',
                       CAY_OR(tenant, ""), r->dialect->name, r->route->op->path, r->head.query);
    if (n < 0 || (size_t)n >= sizeof l->key)
        l->key[0] = 0;
}

static void lookup_version(cay__cached_list *l)
{
    const char *names[CAY__LISTED_PROVIDERS + 1] = { 0 };
    for (size_t i = 0; i < CAY__LISTED_PROVIDERS && *l->known[i]; i++)
        names[i] = l->known[i];
    l->judged = cay_client_version(l->r->client, names, &l->version, NULL) == 0;
}

bool cay__cached_list_reply(cay__cached_list *l, cay__req *r)
{
    struct cay__listed *all = r->server->listed;
    bool done = false;
    *l = (cay__cached_list){ .r = r };
    format_key(l, r);
    if (!*l->key)
        return false;
    pthread_mutex_lock(&all->lock);
    slot *s = find_slot(all, l->key);
    if (s)
        memcpy(l->known, s->providers, sizeof l->known);
    pthread_mutex_unlock(&all->lock);
    lookup_version(l);
    if (!s || !l->judged)
        return false;
    int64_t now = compute_skew();
    pthread_mutex_lock(&all->lock);
    s = find_slot(all, l->key);
    if (s && s->body && s->version == l->version && now - s->skew <= SKEW_MS &&
        s->skew - now <= SKEW_MS && !memcmp(s->providers, l->known, sizeof l->known)) {
        s->used = ++all->clock;
        if (*s->next)
            cay__reply_field(r, "x-next-token", s->next);
        cay__reply(r, 200, "application/json", s->body,
                   s->len); /* copies it; nothing is sent here */
        done = true;
    }
    pthread_mutex_unlock(&all->lock);
    return done;
}

void cay__cached_list_saw(cay__cached_list *l, const cay_info *info)
{
    if (info->state != CAY_RUNNING && info->state != CAY_PAUSED && info->state != CAY_CREATING)
        return; /* its record tells all of it */
    size_t i = 0;
    while (i < CAY__LISTED_PROVIDERS && *l->seen[i] && strcmp(l->seen[i], info->provider) != 0)
        i++;
    if (i == CAY__LISTED_PROVIDERS || !CAY_COPY(l->seen[i], info->provider))
        l->many = true;
}

void cay__cached_list_keep(cay__cached_list *l, const char *body, size_t len)
{
    struct cay__listed *all = l->r->server->listed;
    int64_t at = compute_skew();
    if (!*l->key || l->many || len > BODY_MAX)
        return;
    pthread_mutex_lock(&all->lock);
    slot *s = find_slot(all, l->key);
    if (!s)
        s = find_oldest_slot(all, NULL);
    clear_slot(all, s);
    CAY_COPY(s->key, l->key);
    memcpy(s->providers, l->seen, sizeof s->providers);
    s->used = ++all->clock;
    /* The version has to be of those that it tells of; the first time they are only learnt. */
    if (l->judged && !memcmp(l->seen, l->known, sizeof l->seen)) {
        s->body = cay__alloc(len);
        memcpy(s->body, body, len);
        s->len = len;
        s->version = l->version;
        memcpy(s->next, l->next, sizeof s->next);
        s->skew = at;
        all->bytes += len;
    }
    for (slot *old; all->bytes > ALL_MAX && (old = find_oldest_slot(all, s)) && old->used;)
        clear_slot(all, old);
    pthread_mutex_unlock(&all->lock);
}

void cay__mark_put(char out[CAY__LISTED_NEXT], const char *id, int64_t created_ms)
{
    snprintf(out, CAY__LISTED_NEXT, "%s.%" PRId64, id, created_ms);
}

bool cay__mark_valid(const char *mark, char kind)
{
    char id[CAY_ID_LEN + 1] = "";
    size_t n = strcspn(mark, ".");
    const char *ms = "0";
    if (mark[n])
        ms = mark + n + 1;
    if (n == CAY_ID_LEN)
        memcpy(id, mark, n);
    return cay__id_valid(id, kind) && *ms && strlen(ms) <= 18 && !ms[strspn(ms, "0123456789")];
}
