/* SPDX-License-Identifier: Apache-2.0 */
/* Without a service: handles straight from the keeper. */
#include "box.h"
#include <base/base.h>
#include <lib/sandbox/limits.h>
#include <lib/sandbox/sandbox.h>

CAY_DEFINE_AUTO(cay__native, cay__native_close)

static void drop_native(cay_sandbox *sb)
{
    void *box = atomic_exchange(&sb->box, NULL);
    if (box)
        cay__nbox_release(box); /* while there is still a keeper to be told */
    cay__native_close(sb->owner);
}

static cay_sandbox *create_handle(cay__native *n, cay__nbox *b)
{
    cay_sandbox *sb = cay__sandbox_new(&cay__native_hot, b->base.id, b);
    if (b->info.state)
        sb->state = (int)b->info.state;
    else
        sb->state = CAY_RUNNING;
    sb->owner = n;
    sb->drop = drop_native;
    return sb;
}

int cay__native_find(const char *home, const char *id_prefix, cay_sandbox **out, cay_err *err)
{
    CAY_AUTOPTR(cay__native) n = NULL;
    cay__nbox *b = NULL;
    cay__look l = { .n = 0 };
    CAY_TRY(cay__native_open(home, NULL, &n, err));
    if (strlen(id_prefix) > CAY_ID_LEN)
        return cay_fail(err, CAY_ENOENT, "no sandbox %s", id_prefix);
    CAY_TRY(cay__native_meet(n, NULL, err));
    CAY_TRY(cay__nbox_look_up(n, NULL, id_prefix, &l, err));
    if (l.n == 0)
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found", "no running sandbox %s",
                            id_prefix);
    if (l.n > 1)
        return cay_fail_why(err, CAY_EINVAL, "id_ambiguous",
                            "%s could be any of %d sandboxes: give more of the id", id_prefix, l.n);
    CAY_TRY(cay__nbox_seen(n, &l, id_prefix, &b, err));
    *out = create_handle(CAY_STEAL(n), b);
    return 0;
}

int cay__native_create_ephemeral(const char *home, const cay_create *spec, cay_sandbox **out,
                                 cay_err *err)
{
    CAY_AUTOPTR(cay__native) n = NULL;
    cay__nbox *b;
    char id[CAY_ID_LEN + 1];
    cay_create s = *spec;
    const cay_box_spec box = { .size = sizeof box, .create = &s };
    s.life.ephemeral = true;
    cay__id_make(id, 'c');
    CAY_TRY(cay__native_open(home, NULL, &n, err));
    n->lazy = true;
    CAY_TRY(cay__create_check(&box, n->home_fd, n->run, err));
    CAY_TRY(cay__nbox_create(n, NULL, id, &box, false, &b, err));
    *out = create_handle(CAY_STEAL(n), b);
    return 0;
}

size_t cay__native_walls_of(cay_sandbox *sb, cay_wall *out)
{
    const cay__nbox *b = sb->box;
    return cay__native_walls(&b->n->hello, out, CAY__WALLS_MAX);
}
