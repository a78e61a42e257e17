/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image LAYER BELOW…: a stream of items from TOOL_FD, as cay-unpack says them of an image's layer,
 * becomes a layer above those, bottom first. What is below is asked for the directories that the
 * layer has files in and does not describe.
 */
#include "pack.h"
#include <linux/openat2.h>

#define BYTES_MAX (32ull << 30)

typedef struct in {
    tool *t;
    cay__sink sink;
    int below[TOOL_STACK_MAX];
    size_t nbelow;
    bool opaque; /* its root hides everything below */
    uint64_t said;
    char diff_id[65]; /* hex digest of the tar */
} in;

static int on_note(const char *name, const char *text, size_t len, void *arg, cay_err *err)
{
    in *i = arg;
    if (!strcmp(name, "diff-id") && len == 64) {
        memcpy(i->diff_id, text, 64);
        return 0;
    }
    if (strcmp(name, "opaque-root"))
        return cay_fail_why(err, CAY_EINVAL, "archive_corrupt",
                            "%.60s: a description that does not belong there", name);
    i->opaque = true;
    return 0;
}

/* The uppermost that has anything there; a file hides what is below it. */
static bool on_below(const char *path, struct stat *st, void *arg)
{
    in *i = arg;
    for (size_t k = i->nbelow; k-- > 0;) {
        CAY_AUTOFD fd = cay__fd_openat2(i->below[k], path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
                                        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
        if (fd >= 0)
            return fstat(fd, st) == 0;
        if (errno != ENOENT || cay__opaque_above(i->below[k], path, i->sink.overlay))
            return false;
    }
    return false;
}

static int on_check(uint64_t items, uint64_t bytes, void *arg, cay_err *err)
{
    in *i = arg;
    CAY_TRY(tool_check(i->t, err));
    return tool_progress(i->t, &i->said, items, bytes, err);
}

static int open_below(in *i, cay_err *err)
{
    for (size_t k = 1; k < i->t->nargs; k++) {
        if (i->nbelow == TOOL_STACK_MAX)
            return cay_fail(err, CAY_ETOOBIG, "image: more than %d layers", TOOL_STACK_MAX);
        CAY_TRY(tool_layer_name(i->t->args[k], err));
        CAY_TRY(tool_layer_open(i->t, i->t->args[k], &i->below[i->nbelow], err));
        i->nbelow++;
    }
    return 0;
}

static int make_layer(in *i, cay_err *err)
{
    tool *t = i->t;
    char stage[40];
    CAY_AUTOFD fd = -1;
    CAY_TRY(open_below(i, err));
    remove_sweep(t, NULL); /* an import that was killed left as much as it had */
    CAY_TRY(tool_stage(t, stage, &fd, err));
    i->sink = (cay__sink){ .root = fd,
                           .threads = 2,
                           .owners = true,
                           .uid_base = tool_base(t),
                           .max_items = 1000000,
                           .max_bytes = BYTES_MAX,
                           .image = true,
                           .overlay = t->root ? "trusted.overlay." : "user.overlay.",
                           .lower = on_below,
                           .note = on_note,
                           .check = on_check,
                           .arg = i };
    int rc = cay__sink_run(&i->sink, TOOL_FD, err);
    /* The root of an overlay is the sandbox's own; that of a layer only has to be passed. */
    if (rc == 0 && (fchmod(fd, 0755) < 0 || fchown(fd, i->sink.uid_base, i->sink.uid_base) < 0))
        rc = cay_fail_sys(err, "the root of the layer");
    CAY_FAULT("image.made");
    if (rc == 0)
        rc = tool_publish(t, stage, t->args[0], err);
    CAY_FAULT("image.published");
    if (rc < 0)
        tool_unstage(t, stage);
    return rc;
}

int image_run(tool *t, cay_err *err)
{
    in i = { .t = t };
    if (t->nargs < 1)
        return cay_fail(err, CAY_EINVAL, "image takes a layer and those below");
    CAY_TRY(tool_layer_name(t->args[0], err));
    if (!t->root && tool_one_id())
        return cay_fail_why(err, CAY_ENOTSUP, "template_needs_range",
                            "an image has files of several users: add a range for you in "
                            "/etc/subuid and /etc/subgid, or run as root");
    int rc = make_layer(&i, err);
    CAY_EACH_OF(it, i.below, i.nbelow)
        close(*it);
    cay__rec_num(&t->out, i.sink.items);
    cay__rec_num(&t->out, i.sink.bytes);
    cay__rec_num(&t->out, i.opaque);
    cay__rec_str(&t->out, i.diff_id);
    return rc;
}
