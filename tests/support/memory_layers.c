/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

int memory_layers_open(memory *m, const char *home)
{
    m->home = home ? open(home, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    return home && m->home < 0 ? -1 : 0;
}

void memory_layers_close(memory *m)
{
    while (m->layers) {
        mlayer *l = m->layers;
        m->layers = l->next;
        memory_files_drop(l->files);
        free(l);
    }
    cay__close_fd(&m->home);
}

static void on_disk(char *to, size_t cap, const char *id, const char *last)
{
    cay__str_join(to, cap, "sandboxes/", id, last, NULL);
}

void memory_upper_make(mbox *b)
{
    char dir[64], upper[64];
    on_disk(dir, sizeof dir, b->id, "");
    on_disk(upper, sizeof upper, b->id, "/upper");
    if (b->m->home < 0)
        return;
    mkdirat(b->m->home, "sandboxes", 0700);
    mkdirat(b->m->home, dir, 0700);
    mkdirat(b->m->home, upper, 0700);
}

void memory_upper_drop(mbox *b)
{
    char dir[64], upper[64];
    on_disk(dir, sizeof dir, b->id, "");
    on_disk(upper, sizeof upper, b->id, "/upper");
    if (b->m->home < 0)
        return;
    unlinkat(b->m->home, upper, AT_REMOVEDIR);
    unlinkat(b->m->home, dir, AT_REMOVEDIR);
}

static mlayer *layer_find(memory *m, const char *name)
{
    mlayer *l = m->layers;
    while (l && strcmp(l->name, name) != 0)
        l = l->next;
    return l;
}

static int check_name(const char *layer, cay_err *err)
{
    return cay__layer_valid(layer)
               ? 0
               : cay_fail_why(err, CAY_EINVAL, "layer_name", "%.63s is no layer's name", layer);
}

/* The uppermost holds all; the others have to be there all the same. */
int memory_stand_on(mbox *b, const char *const *layers, size_t n, cay_err *err)
{
    mlayer *top = NULL;
    for (size_t i = 0; i < n; i++) {
        CAY_TRY(check_name(layers[i], err));
        if (!(top = layer_find(b->m, layers[i])))
            return cay_fail_why(err, CAY_ENOENT, "layer_not_found", "there is no layer %s",
                                layers[i]);
    }
    memory_files_free(b);
    if (top)
        b->files = memory_files_copy(top->files);
    else
        memory_files_init(b);
    return 0;
}

static void publish(mbox *b, const char *name, bool swap)
{
    char upper[64], layer[CAY_LAYER_NAME + 16];
    on_disk(upper, sizeof upper, b->id, "/upper");
    cay__str_join(layer, sizeof layer, "layers/", name, NULL);
    if (b->m->home < 0)
        return;
    mkdirat(b->m->home, "layers", 0711);
    if (swap && renameat(b->m->home, upper, b->m->home, layer) == 0)
        mkdirat(b->m->home, upper, 0700);
    else
        mkdirat(b->m->home, layer, 0700);
}

int memory_snapshot(void *box, const cay_call *call, const cay_snap *spec, cay_snapped *out,
                    cay_err *err)
{
    mbox *b = box;
    (void)call;
    CAY_TRY(check_name(spec->layer, err));
    pthread_mutex_lock(&memory_lock);
    bool runs = memory_runs(b), there = layer_find(b->m, spec->layer);
    if (runs && spec->how == CAY_SNAP_QUIET) {
        pthread_mutex_unlock(&memory_lock);
        return cay_fail_why(err, CAY_EBUSY, "processes_running",
                            "processes of sandbox %s are running", b->id);
    }
    *out = (cay_snapped){
        .size = sizeof *out, .method = runs ? "copy" : "swap", .stacked = !runs, .total_us = 1
    };
    if (!there) {
        mlayer *l = cay__alloc(sizeof *l);
        cay__str_copy(l->name, sizeof l->name, spec->layer);
        l->files = memory_files_copy(b->files);
        l->next = b->m->layers;
        b->m->layers = l;
        publish(b, spec->layer, !runs);
    }
    for (const mfile *f = b->files; f; f = f->next, out->files++)
        out->bytes += f->len;
    pthread_mutex_unlock(&memory_lock);
    return 0;
}

int memory_restack(void *box, const cay_call *call, const char *const *layers, size_t n,
                   cay_err *err)
{
    mbox *b = box;
    char upper[64], aside[64];
    (void)call;
    memory_kill_all(b);
    pthread_mutex_lock(&memory_lock);
    int rc = memory_stand_on(b, layers, n, err);
    if (rc == 0 && b->m->home >= 0) { /* another directory, not the same one emptied */
        on_disk(upper, sizeof upper, b->id, "/upper");
        on_disk(aside, sizeof aside, b->id, "/old");
        renameat(b->m->home, upper, b->m->home, aside);
        mkdirat(b->m->home, upper, 0700);
        unlinkat(b->m->home, aside, AT_REMOVEDIR);
    }
    pthread_mutex_unlock(&memory_lock);
    return rc;
}

int memory_layer_remove(void *self, const cay_call *call, const char *layer, cay_err *err)
{
    memory *m = self;
    char path[CAY_LAYER_NAME + 16];
    (void)call;
    CAY_TRY(check_name(layer, err));
    pthread_mutex_lock(&memory_lock);
    for (mlayer **at = &m->layers, *l; (l = *at); at = &l->next)
        if (!strcmp(l->name, layer)) {
            *at = l->next;
            memory_files_drop(l->files);
            free(l);
            break;
        }
    cay__str_join(path, sizeof path, "layers/", layer, NULL);
    if (m->home >= 0)
        unlinkat(m->home, path, AT_REMOVEDIR);
    pthread_mutex_unlock(&memory_lock);
    return 0;
}
