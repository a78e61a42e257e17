/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"
#include <limits.h>

cay_sandbox *cay__sandbox_new(const cay_provider_ops *ops, const char *id, void *box)
{
    cay_sandbox *sb = cay__alloc(sizeof *sb);
    atomic_init(&sb->refs, 1);
    atomic_init(&sb->state, CAY_RUNNING);
    CAY_COPY(sb->id, id);
    sb->ops = ops;
    sb->box = box;
    return sb;
}

cay_sandbox *cay_sandbox_ref(cay_sandbox *sb)
{
    atomic_fetch_add_explicit(&sb->refs, 1, memory_order_relaxed);
    return sb;
}

void cay_sandbox_unref(cay_sandbox *sb)
{
    if (!sb || atomic_fetch_sub_explicit(&sb->refs, 1, memory_order_acq_rel) > 1)
        return;
    if (sb->drop)
        sb->drop(sb);
    if (sb->box)
        sb->ops->release(sb->box);
    free(atomic_load(&sb->ended_err));
    free(sb);
}

const char *cay_sandbox_id(const cay_sandbox *sb)
{
    return sb->id;
}

/* What each state that refuses work is called and what helps. */
static const struct {
    int code;
    const char *reason, *text;
} refusals[] = {
    [CAY_STATE_NONE] = { CAY_ESTATE, "sandbox_unknown",
                         "is not known to its provider; try: cay gc" },
    [CAY_CREATING] = { CAY_EBUSY, "sandbox_creating", "is still being created; try again" },
    [CAY_PAUSED] = { CAY_ESTATE, "sandbox_paused", "is paused; try: cay resume" },
    [CAY_STOPPED] = { CAY_ESTATE, "sandbox_stopped", "is stopped; try: cay resume" },
    [CAY_DELETING] = { CAY_EGONE, "sandbox_deleting", "is being removed" },
    [CAY_GONE] = { CAY_EGONE, "sandbox_gone", "is gone" },
    [CAY_DAMAGED] = { CAY_ESTATE, "sandbox_damaged", "has a damaged record; try: cay rm -f" },
};

static bool can_use(int state, bool files)
{
    return state == CAY_RUNNING || (files && state == CAY_PAUSED);
}

static int check_ready(cay_sandbox *sb, bool files, cay_err *err)
{
    int state = atomic_load(&sb->state);
    if (!can_use(state, files) && sb->box && sb->ops->status) {
        cay_box_status st = { .size = sizeof st };
        if (sb->ops->status(sb->box, NULL, &st, NULL) == 0) {
            state = st.state;
            atomic_store(&sb->state, state);
        }
    }
    if (!can_use(state, files)) {
        size_t i = 0;
        if (state >= 0 && (size_t)state < CAY_LEN(refusals))
            i = (size_t)state;
        bool remedy = i == CAY_PAUSED || i == CAY_STOPPED || i == CAY_DAMAGED;
        return cay_fail_why(err, refusals[i].code, refusals[i].reason,
                            remedy ? "sandbox %s %s %s" : "sandbox %s %s", sb->id, refusals[i].text,
                            sb->id);
    }
    if (sb->touch)
        sb->touch(sb);
    return 0;
}

int cay__sandbox_ready(cay_sandbox *sb, cay_err *err)
{
    return check_ready(sb, false, err);
}

int cay__sandbox_files(cay_sandbox *sb, cay_err *err)
{
    return check_ready(sb, true, err);
}

int cay__path_check(const char *path, cay_err *err)
{
    if (!path || !*path)
        return cay_fail_why(err, CAY_EINVAL, "path_empty",
                            "the path is empty; give a name, or . for the working directory");
    if (strlen(path) >= PATH_MAX)
        return cay_fail_why(err, CAY_EINVAL, "path_too_long", "path %.60s…: longer than %d bytes",
                            path, PATH_MAX - 1);
    return 0;
}

int cay__no_such_op(const cay_sandbox *sb, const char *op, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "%s: provider %s cannot do that", op,
                        sb->ops->name);
}
