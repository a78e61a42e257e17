/* SPDX-License-Identifier: Apache-2.0 */
#include "fence.h"
#include <base/call.h>

struct cay_watch {
    cay_sandbox *sb; /* counted */
    void *obj;
    int fd; /* the provider's */
};

int cay_watch_open(cay_sandbox *sb, const cay_call *call, const char *path, bool recursive,
                   cay_watch **out, cay_err *err)
{
    CAY__OP(call, "watch.open", sb->id, err);
    void *obj = NULL;
    int fd = -1;
    CAY_TRY(cay__path_check(path, err));
    CAY_TRY(cay__user_check(cay__call_user(call), err));
    CAY_TRY(cay__call_check(call, "watch", err));
    if (!sb->ops->watch_open)
        return cay__no_such_op(sb, "watch a directory", err);
    CAY_TRY(cay__fence_path(sb, call, path, false, err));
    CAY_TRY(cay__sandbox_files(sb, err));
    CAY_TRY(sb->ops->watch_open(sb->box, call, path, recursive, &obj, &fd, err));
    cay_watch *w = cay__alloc(sizeof *w);
    *w = (cay_watch){ .sb = cay_sandbox_ref(sb), .obj = obj, .fd = fd };
    *out = w;
    return 0;
}

int cay_watch_fd(const cay_watch *w)
{
    return w->fd;
}

int cay_watch_next(cay_watch *w, const cay_call *call, cay_watch_event *out, cay_err *err)
{
    cay_watch_event e = { .size = sizeof e };
    CAY_TRY(w->sb->ops->watch_next(w->obj, call, &e, err));
    cay__answer_give(out, &e, sizeof e);
    return 0;
}

void cay_watch_close(cay_watch *w)
{
    if (!w)
        return;
    w->sb->ops->watch_close(w->obj);
    cay_sandbox_unref(w->sb);
    free(w);
}
