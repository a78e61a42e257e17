/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove LAYER…: out of sight by one rename, then away.
 *
 * purge NAME…: the same for what the state directory has under these names. What is not there is no
 * error. A link is removed, never followed; what another filesystem is mounted on stays.
 */
#include "tool.h"
#include <helper/clone/clone.h>
#include <sys/file.h>

#define GONE ".purge"

/* arg: the device to stay on, or NULL. */
static int on_enter(walk *w, const char *name, const struct stat *st, bool *down, cay_err *err)
{
    const dev_t *only = w->arg;
    if (only && st->st_dev != *only)
        return cay_fail_why(err, CAY_EBUSY, "home_mounted",
                            "%.150s is another filesystem; unmount it first", w->path);
    if (S_ISDIR(st->st_mode)) {
        *down = true;
        return 0;
    }
    if (unlinkat(w->dir, name, 0) < 0 && errno != ENOENT)
        return cay_fail_sys(err, "remove %.150s", w->path);
    return 0;
}

static int on_leave(walk *w, const char *name, cay_err *err)
{
    if (unlinkat(w->dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return cay_fail_sys(err, "remove directory %.150s", w->path);
    return 0;
}

int remove_tree(tool *t, int fd, cay_err *err)
{
    walk w = { .t = t, .enter = on_enter, .leave = on_leave };
    return walk_tree(&w, fd, err);
}

static int remove_at(tool *t, const char *name, cay_err *err)
{
    int fd = cay__dir_at(t->layers, name);
    if (fd < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(err, "remove layer %s", name);
    }
    if (cay__str_starts(name, ".stage-"))
        subvol_destroy(fd);
    CAY_TRY(remove_tree(t, fd, err));
    if (unlinkat(t->layers, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return cay_fail_sys(err, "remove layer %s", name);
    return 0;
}

void tool_unstage(tool *t, const char *stage)
{
    t->ticks = 0;
    remove_at(t, stage, NULL);
}

/* Names of tool_stage() and of ourselves that nobody holds any more: their makers have a lock on
 * them while they live. */
int remove_sweep(tool *t, cay_err *err)
{
    TOOL_AUTONAMES l = { 0 };
    CAY_TRY_SYS(names_read(&l, t->layers), err, "list layers/");
    CAY_EACH_OF(name, l.v, l.n) {
        if (!cay__str_starts(*name, ".gone-") && !cay__str_starts(*name, ".stage-"))
            continue;
        CAY_AUTOFD fd = cay__dir_at(t->layers, *name);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            CAY_TRY(remove_at(t, *name, err));
    }
    return 0;
}

int remove_run(tool *t, cay_err *err)
{
    char gone[40], id[24];
    CAY_EACH_OF(it, t->args, t->nargs)
        CAY_TRY(tool_layer_name(*it, err));
    CAY_EACH_OF(arg, t->args, t->nargs) {
        cay__id_make(id, 'l');
        CAY_JOIN(gone, ".gone-", id);
        if (renameat(t->layers, *arg, t->layers, gone) < 0 && errno != ENOENT)
            return cay_fail_sys(err, "remove layer %s", *arg);
        CAY_FAULT("layer.remove.renamed");
    }
    return remove_sweep(t, err);
}

int purge_run(tool *t, cay_err *err)
{
    struct stat st;
    if (mkdirat(t->home, GONE, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make %s", GONE);
    CAY_AUTOFD gone = cay__dir_at(t->home, GONE);
    if (gone < 0 || fstat(gone, &st) < 0)
        return cay_fail_sys(err, "open %s", GONE);
    CAY_EACH_OF(it, t->args, t->nargs) {
        char to[24];
        cay__id_make(to, 'l'); /* one that was begun before may have left its own there */
        CAY_TRY(tool_layer_name(*it, err));
        if (renameat(t->home, *it, gone, to) < 0 && errno != ENOENT)
            return cay_fail_sys(err, "remove %s", *it);
    }
    CAY_FAULT("layer.purge.renamed");
    walk w = { .t = t, .enter = on_enter, .leave = on_leave, .arg = &st.st_dev };
    CAY_TRY(walk_tree(&w, CAY_STEAL_FD(gone), err));
    CAY_TRY_SYS(unlinkat(t->home, GONE, AT_REMOVEDIR), err, "remove %s", GONE);
    return 0;
}
