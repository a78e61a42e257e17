/* SPDX-License-Identifier: Apache-2.0 */
/* volume make|look|remove|sweep NAME: directories below volumes/ that outlive sandboxes. */
#include "tool.h"
#include <sys/file.h>

#define USER 1000 /* whose they are in every sandbox */

static int fail_at(const char *what, const char *name, cay_err *err)
{
    int sys = errno;
    cay_fail_why(err, CAY_ESYS, "volume_failed", "%s volume %.60s: %s", what, name, strerror(sys));
    if (err)
        err->sys = sys;
    return CAY_ESYS;
}

static int make_volume(tool *t, int volumes, const char *name, cay_err *err)
{
    uid_t owner = USER + tool_base(t);
    struct stat st;
    if (mkdirat(volumes, name, 0755) < 0 && errno != EEXIST)
        return fail_at("make", name, err);
    if (fstatat(volumes, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid != 0)
        return 0; /* made before; one that was cut short is still ours */
    CAY_FAULT("layer.volume.made");
    /* Where the map has one id, that one owns it. */
    if (fchownat(volumes, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 &&
        (t->root || errno != EINVAL)) {
        int rc = fail_at("make", name, err);
        unlinkat(volumes, name, AT_REMOVEDIR);
        return rc;
    }
    return 0;
}

typedef struct sum {
    uint64_t bytes, files;
} sum;

static int on_enter(walk *w, const char *name, const struct stat *st, bool *down, cay_err *err)
{
    sum *s = w->arg;
    *down = S_ISDIR(st->st_mode);
    s->bytes += (uint64_t)st->st_blocks * 512 /
                (*down ? 1 : CAY_MAX(st->st_nlink, 1)); /* a file of many names counts once */
    s->files++;
    return 0;
}

static int on_leave(walk *w, const char *name, cay_err *err)
{
    return 0;
}

static int measure_volume(tool *t, int volumes, const char *name, cay_err *err)
{
    sum s = { 0 };
    walk w = { .t = t, .enter = on_enter, .leave = on_leave, .arg = &s };
    int fd = cay__dir_at(volumes, name);
    if (fd < 0 && errno != ENOENT)
        return fail_at("look into", name, err);
    if (fd >= 0)
        CAY_TRY(walk_tree(&w, fd, err));
    cay__rec_num(&t->out, s.bytes);
    cay__rec_num(&t->out, s.files);
    return 0;
}

static int hide_volume(tool *t, int volumes, const char *name, cay_err *err)
{
    char gone[40], id[24];
    cay__id_make(id, 'l');
    CAY_JOIN(gone, ".gone-", id);
    if (renameat(volumes, name, volumes, gone) < 0 && errno != ENOENT)
        return fail_at("remove", name, err);
    return 0;
}

/* Who is at it holds a lock on it. */
static int sweep_volumes(tool *t, int volumes, const char *name, cay_err *err)
{
    TOOL_AUTONAMES l = { 0 };
    if (names_read(&l, volumes) < 0)
        return fail_at("list", "", err);
    CAY_EACH_OF(gone, l.v, l.n) {
        CAY_AUTOFD lock = -1;
        if (cay__str_starts(*gone, ".gone-"))
            lock = cay__dir_at(volumes, *gone);
        if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
            continue;
        int fd = cay__dir_at(volumes, *gone);
        if (fd >= 0)
            CAY_TRY(remove_tree(t, fd, err));
        if (unlinkat(volumes, *gone, AT_REMOVEDIR) < 0 && errno != ENOENT)
            return fail_at("remove", *gone, err);
    }
    return 0;
}

static const struct {
    const char *word;
    int (*fn)(tool *t, int volumes, const char *name, cay_err *err);
} ops[] = { { "make", make_volume },
            { "look", measure_volume },
            { "remove", hide_volume },
            { "sweep", sweep_volumes } };

int volume_run(tool *t, cay_err *err)
{
    if (t->nargs != 2)
        return cay_fail_why(err, CAY_EINVAL, "protocol", "volume wants a word and a name");
    CAY_TRY(tool_layer_name(t->args[1], err)); /* one component, and none that begins with a dot */
    if (mkdirat(t->home, "volumes", 0711) < 0 && errno != EEXIST)
        return fail_at("make the directory of", t->args[1], err);
    CAY_AUTOFD volumes = cay__dir_at(t->home, "volumes");
    if (volumes < 0)
        return fail_at("open the directory of", t->args[1], err);
    CAY_EACH(it, ops)
        if (!strcmp(it->word, t->args[0]))
            return it->fn(t, volumes, t->args[1], err);
    return cay_fail_why(err, CAY_EINVAL, "protocol", "volume knows no word %.20s", t->args[0]);
}
