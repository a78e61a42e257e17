/* SPDX-License-Identifier: Apache-2.0 */
#include "provider.h"
#include <base/base.h>
#include <base/fsop.h>
#include <signal.h>

/* One row each; the order is that of `cay doctor`. */
const cay_provider_ops *const cay__providers[] = {
    &cay__provider_native, &cay__process,    &cay__local, &cay__provider_docker,
    &cay__provider_podman, &cay__remote_ops, NULL,
};

static const char *pack_string(char **at, const char *s)
{
    size_t n = strlen(CAY_OR(s, "")) + 1;
    char *p = memcpy(*at, CAY_OR(s, ""), n);
    *at += n;
    return p;
}

static size_t measure_string(const char *s)
{
    return strlen(CAY_OR(s, "")) + 1;
}

cay_probe *cay__probe_new(cay_level level, const char *mode, const cay_wall *layers, size_t n)
{
    size_t need = sizeof(cay_probe) + n * sizeof(cay_wall) + measure_string(mode);
    CAY_EACH_OF(layer, layers, n)
        need += measure_string(layer->name) + measure_string(layer->state) +
                measure_string(layer->why) + measure_string(layer->remedy);
    cay_probe *p = cay__alloc(need);
    cay_wall *to = (cay_wall *)(p + 1);
    char *at = (char *)(to + n);
    for (size_t i = 0; i < n; i++)
        to[i] = (cay_wall){ pack_string(&at, layers[i].name), pack_string(&at, layers[i].state),
                            pack_string(&at, layers[i].why), pack_string(&at, layers[i].remedy) };
    *p = (cay_probe){
        .size = sizeof *p, .level = level, .mode = pack_string(&at, mode), .walls = to, .nwalls = n
    };
    return p;
}

typedef struct lister {
    cay__on_id *fn;
    void *arg;
} lister;

static int on_box(const cay__fs_entry *e, void *arg)
{
    const lister *l = arg;
    if (!S_ISDIR(e->st->st_mode) || !cay__id_valid(e->name, 'c'))
        return CAY__FS_SKIP;
    int rc = l->fn(e->name, l->arg);
    return CAY_OR(rc, CAY__FS_SKIP);
}

int cay__boxes_list(int boxes, cay__on_id *fn, void *arg)
{
    return cay__fs_walk_path(
        &(cay__fs){ .root = boxes }, "/",
        &(cay__fs_walk){ .fn = on_box, .arg = &(lister){ fn, arg }, .depth = 1 });
}

int cay__boxes_remove(int boxes, const char *id, cay_err *err)
{
    char gone[40];
    CAY_JOIN(gone, ".old-", id);
    if (renameat(boxes, id, boxes, gone) < 0 && errno != ENOENT && errno != ENOTEMPTY &&
        errno != EEXIST)
        return cay_fail_sys(err, "remove sandbox %s", id);
    if (cay__fs_remove(&(cay__fs){ .root = boxes }, gone, true) < 0 && errno != ENOENT)
        return cay_fail_sys(err, "remove the files of sandbox %s", id);
    return 0;
}

typedef struct sweep {
    int boxes;
    size_t removed;
} sweep;

static int on_half(const cay__fs_entry *e, void *arg)
{
    sweep *s = arg;
    bool half = cay__str_starts(e->name, ".new-") || cay__str_starts(e->name, ".old-");
    if (half && e->st->st_mtime < cay__clock_ms() / 1000 - 60)
        s->removed += cay__fs_remove(&(cay__fs){ .root = s->boxes }, e->name, true) == 0;
    return CAY__FS_SKIP;
}

size_t cay__boxes_sweep(int boxes)
{
    sweep s = { .boxes = boxes };
    cay__fs_walk_path(&(cay__fs){ .root = boxes }, "/",
                      &(cay__fs_walk){ .fn = on_half, .arg = &s, .depth = 1 });
    return s.removed;
}

int cay__provider_thread(void *(*fn)(void *), void *arg, cay_err *err)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 256 << 10);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's, not this thread's */
    errno = pthread_create(&thread, &attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (errno)
        return cay_fail_sys(err, "start a thread");
    return 0;
}

void cay_probe_free(cay_probe *p)
{
    free(p);
}
