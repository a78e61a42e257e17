/* SPDX-License-Identifier: Apache-2.0 */
/* purge NAME…: what the state directory has under these names, out of sight by one rename each,
 * then away. What is not there is no error. A link is removed, never followed; what another
 * filesystem is mounted on stays. */
#include "tool.h"
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <stdio.h>

#define GONE ".purge"

static int on_enter(walk *w, const char *name, const struct stat *st, bool *down, cay_err *err)
{
    if (st->st_dev != *(const dev_t *)w->arg)
        return cay_fail_why(err, CAY_EBUSY, "home_mounted",
                            "%.150s is another filesystem; unmount it first", w->path.data);
    if (S_ISDIR(st->st_mode)) {
        *down = true;
        return 0;
    }
    if (unlinkat(crawl_fd(&w->at), name, 0) < 0 && errno != ENOENT)
        return cay_fail_sys(err, CAY_ESYS, "remove %.150s", w->path.data);
    return 0;
}

static int on_leave(walk *w, const char *name, cay_err *err)
{
    if (unlinkat(crawl_fd(&w->at), name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return cay_fail_sys(err, CAY_ESYS, "remove directory %.150s", w->path.data);
    return 0;
}

int purge_run(tool *t, cay_err *err)
{
    struct stat st;
    if (mkdirat(t->home, GONE, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, CAY_ESYS, "make %s", GONE);
    CAY_AUTOFD gone = openat(t->home, GONE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (gone < 0 || fstat(gone, &st) < 0)
        return cay_fail_sys(err, CAY_ESYS, "open %s", GONE);
    for (size_t i = 0; i < t->nargs; i++) {
        char to[24];
        cay__id_make(to, 'l'); /* one that was begun before may have left its own there */
        CAY_TRY(tool_layer_name(t->args[i], err));
        if (renameat(t->home, t->args[i], gone, to) < 0 && errno != ENOENT)
            return cay_fail_sys(err, CAY_ESYS, "remove %s", t->args[i]);
    }
    CAY_FAULT("layer.purge.renamed");
    walk w = { .t = t, .enter = on_enter, .leave = on_leave, .arg = &st.st_dev };
    CAY_TRY(walk_tree(&w, CAY_STEAL_FD(gone), err));
    if (unlinkat(t->home, GONE, AT_REMOVEDIR) < 0)
        return cay_fail_sys(err, CAY_ESYS, "remove %s", GONE);
    return 0;
}
