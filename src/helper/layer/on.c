/* SPDX-License-Identifier: Apache-2.0 */
/*
 * on fill|back|drop|finish ID LAYER: what a sandbox writes above a directory of the host (--on),
 * sandboxes/ID/on, from a snapshot's layers/o….
 *
 *   fill    a new sandbox, before it is made: its `on` is a copy of the snapshot's
 *   back    one that does not run: as the snapshot has it; what it wrote elsewhere goes, too
 *   finish  a `back` that somebody died over and that was past its middle; drop: and that was not
 *
 * `back` makes on.new whole, then takes away upper, which is the middle (the library looks at upper
 * to know), then puts on.new in place.
 */
#include "tool.h"
#include <helper/clone/clone.h>

#define FRESH "on.new"
#define UPPER "upper.new"

volatile sig_atomic_t clone_canceled; /* of the copier; who waits is looked for in between */

static int fail_at(const char *what, const char *id, cay_err *err)
{
    return cay_fail_sys(err, "%s of sandbox %.24s", what, id);
}

/* Out of sight by one rename, then away; what a killed one leaves under that name the keeper
 * removes. */
static int discard_dir(tool *t, int box, const char *name, cay_err *err)
{
    char gone[64], id[24];
    cay__id_make(id, 'b');
    CAY_JOIN(gone, "sandboxes/.old-", id);
    if (renameat(box, name, t->home, gone) < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(err, "put %s aside", name);
    }
    int fd = cay__dir_at(t->home, gone);
    if (fd >= 0 && remove_tree(t, fd, NULL) == 0)
        unlinkat(t->home, gone, AT_REMOVEDIR);
    return 0;
}

static int copy_tree(int from, int to, cay_err *err)
{
    CAY_AUTOFREE clone_tree *c = cay__alloc(sizeof *c);
    clone_index none = { 0 };
    c->upper = from;
    c->to = to;
    c->base = c->near = -1;
    c->last = &none;
    c->how = COPY_SHARED;
    c->mapped.all = true; /* nothing is linked with, all is copied */
    int rc = 0;
    if (!clone_tree_walk(c))
        rc = cay_fail_sys(err, "copy %.150s", c->path);
    index_free(&c->next);
    return rc;
}

static int copy_applied(int from, int to, cay_err *err)
{
    struct stat st;
    bool shared = false;
    if (fstatat(from, "applied", &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(err, "look at what was applied");
    }
    if (copy_file(from, "applied", to, &st, COPY_BYTES, &shared))
        return 0;
    return cay_fail_sys(err, "copy what was applied");
}

/* on.new, whole: the snapshot's files. applied: whose record of earlier applies goes along. */
static int make_fresh(tool *t, int box, int layer, int applied, cay_err *err)
{
    CAY_TRY(discard_dir(t, box, FRESH, err));
    CAY_TRY_SYS(mkdirat(box, FRESH, 0711), err, "make " FRESH);
    CAY_AUTOFD at = cay__dir_at(box, FRESH), from = cay__dir_at(layer, "upper");
    if (from < 0 || at < 0 || mkdirat(at, "upper", 0700) < 0)
        return cay_fail_sys(err, "copy what the snapshot has");
    CAY_AUTOFD to = cay__dir_at(at, "upper");
    if (to < 0)
        return cay_fail_sys(err, "copy what the snapshot has");
    int rc = copy_tree(from, to, err);
    if (rc == 0)
        rc = copy_applied(applied, at, err);
    CAY_FAULT("layer.on.copied");
    if (rc < 0)
        discard_dir(t, box, FRESH, NULL);
    return rc;
}

static int put_fresh(tool *t, int box, cay_err *err)
{
    struct stat st;
    if (fstatat(box, FRESH, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(err, "look at " FRESH);
    }
    CAY_TRY(discard_dir(t, box, "on", err));
    CAY_FAULT("layer.on.away");
    CAY_TRY_SYS(renameat(box, FRESH, box, "on"), err, "put " FRESH " in place");
    return 0;
}

static int fill_on(tool *t, int box, int layer, cay_err *err)
{
    struct stat st;
    if (fstatat(box, "on", &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0; /* asked again after a lost answer */
    CAY_TRY(make_fresh(t, box, layer, layer, err));
    return put_fresh(t, box, err);
}

/* An empty upper like the old one; like that of a new sandbox when somebody died over taking the
 * old one away. It has its name once it is whole. */
static int new_upper(tool *t, int box, cay_err *err)
{
    struct stat st;
    if (fstatat(box, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0)
        st = (struct stat){ .st_mode = 0755, .st_uid = tool_base(t), .st_gid = tool_base(t) };
    CAY_TRY(discard_dir(t, box, "upper", err));
    CAY_FAULT("layer.on.middle");
    if ((mkdirat(box, UPPER, 0755) < 0 && errno != EEXIST) ||
        fchownat(box, UPPER, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(box, UPPER, st.st_mode & 07777, 0) < 0 || renameat(box, UPPER, box, "upper") < 0)
        return cay_fail_sys(err, "make upper");
    return 0;
}

static int restore_on(tool *t, int box, int layer, cay_err *err)
{
    CAY_AUTOFD on = cay__dir_at(box, "on");
    if (on < 0)
        return cay_fail_sys(err, "open what was written above the directory");
    CAY_TRY(make_fresh(
        t, box, layer, on,
        err)); /* what was applied since is in the directory, whatever is taken back here */
    CAY_TRY(new_upper(t, box, err));
    return put_fresh(t, box, err);
}

static int finish_restore(tool *t, int box, int layer, cay_err *err)
{
    struct stat st;
    if (fstatat(box, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0)
        CAY_TRY(new_upper(t, box, err));
    return put_fresh(t, box, err);
}

static int discard_fresh(tool *t, int box, int layer, cay_err *err)
{
    return discard_dir(t, box, FRESH, err);
}

static const struct {
    const char *word;
    bool layer;
    int (*fn)(tool *t, int box, int layer, cay_err *err);
} ops[] = { { "fill", true, fill_on },
            { "back", true, restore_on },
            { "finish", false, finish_restore },
            { "drop", false, discard_fresh } };

int on_run(tool *t, cay_err *err)
{
    char path[64];
    size_t i = 0;
    while (t->nargs == 3 && i < CAY_LEN(ops) && strcmp(ops[i].word, t->args[0]) != 0)
        i++;
    if (t->nargs != 3 || i == CAY_LEN(ops) || !cay__id_valid(t->args[1], 'c') ||
        !cay__id_valid(t->args[2], 'o'))
        return cay_fail_why(err, CAY_EINVAL, "protocol", "on wants a word, a sandbox and a layer");
    CAY_JOIN(path, "sandboxes/", t->args[1]);
    if (ops[i].fn == fill_on && mkdirat(t->home, path, 0711) < 0 && errno != EEXIST)
        return fail_at("make the directory", t->args[1], err);
    CAY_AUTOFD box = cay__dir_at(t->home, path), layer = -1;
    if (box < 0)
        return fail_at("open the directory", t->args[1], err);
    if (ops[i].layer) {
        int fd = -1;
        CAY_TRY(tool_layer_open(t, t->args[2], &fd, err));
        layer = fd;
    }
    return ops[i].fn(t, box, layer, err);
}
