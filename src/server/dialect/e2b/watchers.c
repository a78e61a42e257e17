/* SPDX-License-Identifier: Apache-2.0 */
#include "watchers.h"
#include <pthread.h>

enum { OF_ONE = 64, OF_ALL = 4096, IDLE_MS = 600000 };

typedef struct watcher {
    e2b_watched at; /* first: e2b_watchers_give() gets its address */
    struct watcher *next;
    char id[CAY_ID_LEN + 1], sandbox[CAY_ID_LEN + 1];
    bool taken, removed;
    int64_t used_ms;
} watcher;

struct e2b_watchers {
    pthread_mutex_t lock;
    watcher *first;
};

void e2b_watched_clear(e2b_watched *y)
{
    cay_watch_close(y->w);
    cay_sandbox_unref(y->sb);
    free(y->path);
    free(y->user);
    *y = (e2b_watched){ 0 };
}

struct e2b_watchers *e2b_watchers_new(void)
{
    struct e2b_watchers *all = cay__alloc(sizeof *all);
    pthread_mutex_init(&all->lock, NULL);
    return all;
}

/* Outside the lock: closing speaks to the keeper. */
static void free_watchers(watcher *w)
{
    while (w) {
        watcher *next = w->next;
        e2b_watched_clear(&w->at);
        free(w);
        w = next;
    }
}

void e2b_watchers_free(struct e2b_watchers *all)
{
    if (!all)
        return;
    free_watchers(all->first);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* Ends those that are removed or forgotten, unless somebody has them. */
static void sweep_watchers(struct e2b_watchers *all)
{
    watcher *out = NULL;
    int64_t now = cay__now_ms();
    pthread_mutex_lock(&all->lock);
    for (watcher **p = &all->first, *w; (w = *p);) {
        if (!w->taken && (w->removed || now - w->used_ms > IDLE_MS)) {
            *p = w->next;
            w->next = out;
            out = w;
        } else
            p = &w->next;
    }
    pthread_mutex_unlock(&all->lock);
    free_watchers(out);
}

static watcher *find_watcher(struct e2b_watchers *all, const char *id, const char *sandbox)
{
    watcher *w = all->first;
    while (w && (w->removed || strcmp(w->id, id) != 0 || strcmp(w->sandbox, sandbox) != 0))
        w = w->next;
    return w;
}

static int fail_not_found(const char *id, cay_err *err)
{
    return cay_fail(err, CAY_ENOENT, "watcher with id %.60s not found", id);
}

int e2b_watchers_add(struct e2b_watchers *all, const char *id, const char *sandbox, e2b_watched *y,
                     cay_err *err)
{
    size_t mine = 0, count = 0;
    watcher *w = cay__alloc(sizeof *w);
    *w = (watcher){ .at = *y, .used_ms = cay__now_ms() };
    CAY_COPY(w->id, id);
    CAY_COPY(w->sandbox, sandbox);
    sweep_watchers(all);
    pthread_mutex_lock(&all->lock);
    for (const watcher *o = all->first; o; o = o->next, count++)
        mine += !strcmp(o->sandbox, sandbox);
    bool fits = mine < OF_ONE && count < OF_ALL;
    if (fits) {
        w->next = all->first;
        all->first = w;
    }
    pthread_mutex_unlock(&all->lock);
    if (fits)
        return 0;
    free_watchers(w);
    return cay_fail_why(err, CAY_ERATE, "watchers_limit",
                        "a sandbox has at most %d watchers; remove one", OF_ONE);
}

int e2b_watchers_take(struct e2b_watchers *all, const char *id, const char *sandbox,
                      e2b_watched **out, cay_err *err)
{
    pthread_mutex_lock(&all->lock);
    watcher *w = find_watcher(all, id, sandbox);
    bool busy = w && w->taken;
    if (w && !busy)
        w->taken = true;
    pthread_mutex_unlock(&all->lock);
    if (!w)
        return fail_not_found(id, err);
    if (busy)
        return cay_fail(err, CAY_EBUSY, "watcher %.60s is being asked already", id);
    *out = &w->at;
    return 0;
}

void e2b_watchers_give(struct e2b_watchers *all, e2b_watched *y)
{
    watcher *w = (watcher *)y;
    pthread_mutex_lock(&all->lock);
    w->taken = false;
    w->used_ms = cay__now_ms();
    pthread_mutex_unlock(&all->lock);
    sweep_watchers(all);
}

int e2b_watchers_remove(struct e2b_watchers *all, const char *id, const char *sandbox, cay_err *err)
{
    pthread_mutex_lock(&all->lock);
    watcher *w = find_watcher(all, id, sandbox);
    if (w)
        w->removed = true;
    pthread_mutex_unlock(&all->lock);
    sweep_watchers(all);
    if (w)
        return 0;
    return fail_not_found(id, err);
}
