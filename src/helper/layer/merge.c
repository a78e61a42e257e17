/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge BELOW… -- LAYER LAYER… NEW: a stack, bottom first, as one layer that does the same on top
 * of what is below it.
 *
 * One layer after another is laid onto a tree that grows: files are hard links to what is there
 * already, so that no byte is copied; a whiteout takes away what the tree has and stays, because
 * there may be more below the whole stack. A directory that a layer renamed (a redirect, root mode
 * only) takes its earlier content along from where that was. At the end whiteouts that hide nothing
 * go: the kernel would list their names where it has nothing to merge.
 */
#include "pathmap.h"
#include "tool.h"
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define REDIRECT_MAX 4096
#define ACL_MAX      (64u << 10)

/* Where a renamed directory's earlier content waits until its new place is reached. */
typedef struct held {
    char *from, *to;         /* in the tree before this layer; in this layer */
    char base[REDIRECT_MAX]; /* where what is below the stack has it; "" when nothing of that shows
                              */
    char name[24];           /* in the hold directory, "" when the tree has nothing there */
} held;

typedef struct merge {
    tool *t;
    int tree, hold; /* the growing layer; a directory beside it */
    crawl at;       /* in the tree, in step with the walk through the layer */
    held *v;
    size_t n;
    pathmap by_to; /* number in v */
} merge;

static bool mark_get(const tool *t, int dir, const char *name, const char *what, char *value,
                     size_t cap)
{
    char path[300], attr[64];
    if (!meta_path(path, dir, name))
        return false;
    CAY_FORMAT(attr, "%s.overlay.%s", t->root ? "trusted" : "user", what);
    ssize_t n = lgetxattr(path, attr, value, cap - 1);
    if (n < 0)
        return false;
    value[n] = 0;
    return true;
}

bool meta_opaque(const tool *t, int dir, const char *name)
{
    char v[16];
    return mark_get(t, dir, name, "opaque", v, sizeof v) && *v == 'y';
}

bool meta_redirect(const tool *t, int dir, const char *name, char *to, size_t cap)
{
    return t->root && mark_get(t, dir, name, "redirect", to, cap) && *to;
}

static int mark_set(const tool *t, int dir, const char *name, const char *what, const char *value)
{
    xattr x = { .value = (char *)value, .len = strlen(value) };
    CAY_FORMAT(x.name, "overlay.%s", what);
    return xattr_set(t, dir, name, &x);
}

static void mark_drop(const tool *t, int dir, const char *name, const char *what)
{
    char path[300], attr[64];
    CAY_FORMAT(attr, "%s.overlay.%s", t->root ? "trusted" : "user", what);
    if (meta_path(path, dir, name))
        lremovexattr(path, attr);
}

static int clear_away(merge *m, int dir, const char *name, cay_err *err)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return cay_fail_sys(err, "replace %.100s", name);
    int fd = cay__dir_at(dir, name);
    if (fd < 0)
        return cay_fail_sys(err, "replace %.100s", name);
    CAY_TRY(remove_tree(m->t, fd, err));
    CAY_TRY_SYS(unlinkat(dir, name, AT_REMOVEDIR), err, "replace %.100s", name);
    return 0;
}

/* As it is, or that there is none: a new directory inherits those that its parent gives by default.
 */
static int copy_acls(int from, const char *src, int to, const char *dst)
{
    static const char *const kinds[] = { "system.posix_acl_access", "system.posix_acl_default" };
    char a[300], b[300], value[ACL_MAX];
    if (!meta_path(a, from, src) || !meta_path(b, to, dst))
        return -1;
    CAY_EACH(kind, kinds) {
        ssize_t n = lgetxattr(a, *kind, value, sizeof value);
        if (n < 0 && errno != ENODATA && errno != ENOTSUP)
            return -1;
        if (n >= 0 ? lsetxattr(b, *kind, value, (size_t)n, 0) < 0
                   : lremovexattr(b, *kind) < 0 && errno != ENODATA && errno != ENOTSUP)
            return -1;
    }
    return 0;
}

/* Owner, mode, access lists, times and attributes; the marks of directories are the merge's own
 * business. */
static int copy_meta(const tool *t, int from, const char *src, int to, const char *dst,
                     const struct stat *st)
{
    xattrs x;
    struct timespec times[2] = { st->st_atim, st->st_mtim };
    if (fchownat(to, dst, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(to, dst, st->st_mode & 07777, 0) < 0 || copy_acls(from, src, to, dst) < 0 ||
        xattrs_read(t, from, src, &x) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < x.n; i++)
        if (!cay__str_starts(x.v[i].name, "overlay."))
            rc = xattr_set(t, to, dst, &x.v[i]);
    xattrs_clear(&x);
    if (rc < 0)
        return -1;
    return utimensat(to, dst, times, AT_SYMLINK_NOFOLLOW);
}

/* A file with more names than the filesystem allows is copied. */
static int copy_file(const tool *t, int from, int to, const char *name, const struct stat *st)
{
    struct stat now;
    CAY_AUTOFD in = cay__file_at(from, name);
    CAY_AUTOFD out =
        in < 0 || fstat(in, &now) < 0 || meta_foreign(&now)
            ? -1
            : openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0 || ftruncate(out, st->st_size) < 0)
        return -1;
    for (off_t at = 0;;) {
        at = lseek(in, at, SEEK_DATA);
        if (at < 0)
            break;
        off_t end = lseek(in, at, SEEK_HOLE), put = at;
        while (at < end) {
            ssize_t n = copy_file_range(in, &at, out, &put, (size_t)(end - at), 0);
            if (n <= 0)
                return -1;
        }
    }
    if (errno != ENXIO)
        return -1;
    return copy_meta(t, from, name, to, name, st);
}

static int put_other(merge *m, int from, const char *name, const struct stat *st, cay_err *err)
{
    int to = crawl_fd(&m->at);
    CAY_TRY(clear_away(m, to, name, err));
    if (meta_whiteout(st)) {
        CAY_TRY_SYS(mknodat(to, name, S_IFCHR, makedev(0, 0)), err, "whiteout %.100s", name);
        return 0;
    }
    if (linkat(from, name, to, name, 0) == 0)
        return 0;
    if (errno != EMLINK || !S_ISREG(st->st_mode) || copy_file(m->t, from, to, name, st) < 0)
        return cay_fail_sys(err, "link %.100s", name);
    return 0;
}

/* Follows an absolute path through the tree as it is: the descriptor of its last directory's parent
 * (-1: the tree ends before), and under which path whatever is below the stack has it ("" when that
 * is hidden). */
static int trace_path(merge *m, const char *path, char base[REDIRECT_MAX], int *parent)
{
    int at = dup(m->tree);
    char to[REDIRECT_MAX], name[256];
    base[0] = 0;
    bool hidden = false;
    *parent = -1;
    for (const char *p = path; at >= 0 || *p;) {
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        if (!n)
            break;
        if (n >= sizeof name) {
            errno = ENAMETOOLONG;
            cay__close_fd(&at);
            return -1;
        }
        memcpy(name, p, n);
        name[n] = 0;
        p += n;
        if (!strcmp(name, "..")) {
            errno = EINVAL;
            cay__close_fd(&at);
            return -1;
        }
        bool last = !p[strspn(p, "/")];
        size_t len = strlen(base);
        if (at >= 0 && meta_redirect(m->t, at, name, to, sizeof to)) {
            if (*to == '/')
                len = 0;
            if (snprintf(base + len, REDIRECT_MAX - len, "%s%s", *to == '/' ? "" : "/", to) >=
                (int)(REDIRECT_MAX - len))
                hidden = true;
        } else if (snprintf(base + len, REDIRECT_MAX - len, "/%s", name) >=
                   (int)(REDIRECT_MAX - len)) {
            hidden = true;
        }
        struct stat st;
        bool there = at >= 0 && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        hidden |= there && (!S_ISDIR(st.st_mode) || meta_opaque(m->t, at, name));
        if (last && there && S_ISDIR(st.st_mode)) {
            *parent = CAY_STEAL_FD(at);
            break;
        }
        int next = -1;
        if (there && S_ISDIR(st.st_mode))
            next = cay__dir_at(at, name);
        cay__close_fd(&at);
        at = next;
    }
    cay__close_fd(&at);
    if (hidden)
        base[0] = 0;
    return 0;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash)
        return slash + 1;
    return path;
}

static int note_redirect(walk *w, const char *name, const struct stat *st, bool *down, cay_err *err)
{
    merge *m = w->arg;
    char to[REDIRECT_MAX];
    *down = true;
    if (!S_ISDIR(st->st_mode) || !meta_redirect(m->t, w->dir, name, to, sizeof to))
        return 0;
    CAY_GROW(m->v, m->n);
    held *h = &m->v[m->n++];
    *h = (held){ .to = cay__strdup(w->path) };
    pathmap_put(&m->by_to, h->to, m->n - 1);
    if (*to == '/') {
        h->from = cay__strdup(to);
        return 0;
    }
    /* A name alone: a brother in the same directory, which may itself have been renamed by this
     * layer. */
    size_t cut = strlen(w->path) - strlen(name);
    size_t above = pathmap_above(&m->by_to, w->path);
    const held *up = NULL;
    if (above != PATHMAP_NONE)
        up = &m->v[above];
    CAY_AUTOBUF from = CAY__BUF(64u << 20);
    if (up) {
        cay__buf_str(&from, up->from);
        cay__buf_add(&from, w->path + strlen(up->to), cut - strlen(up->to));
    } else {
        cay__buf_str(&from, "/");
        cay__buf_add(&from, w->path, cut);
    }
    cay__buf_str(&from, to);
    h->from = cay__strdup(from.data);
    return 0;
}

static int deepest_first(const void *a, const void *b)
{
    return -strcmp(((const held *)a)->from, ((const held *)b)->from);
}

/* What this layer renamed leaves its old place before anything is laid over that. */
static int hold_all(merge *m, cay_err *err)
{
    if (m->n > 1)
        qsort(m->v, m->n, sizeof *m->v, deepest_first);
    pathmap_clear(&m->by_to); /* they have other numbers now */
    for (size_t i = 0; i < m->n; i++)
        pathmap_put(&m->by_to, m->v[i].to, i);
    for (size_t i = 0; i < m->n; i++) {
        held *h = &m->v[i];
        CAY_AUTOFD parent = -1;
        CAY_TRY_SYS(trace_path(m, h->from, h->base, &parent), err, "follow %.150s", h->from);
        if (parent < 0)
            continue;
        CAY_FORMAT(h->name, "%zu", i);
        CAY_TRY_SYS(renameat(parent, last_name(h->from), m->hold, h->name), err, "move %.150s",
                    h->from);
    }
    return 0;
}

static held *held_for(merge *m, const char *path)
{
    size_t i = pathmap_get(&m->by_to, path, strlen(path));
    if (i == PATHMAP_NONE)
        return NULL;
    return &m->v[i];
}

static int put_dir(merge *m, walk *w, const char *name, const struct stat *st, cay_err *err)
{
    int from = w->dir, to = crawl_fd(&m->at);
    struct stat old;
    held *h = held_for(m, w->path);
    bool there = fstatat(to, name, &old, AT_SYMLINK_NOFOLLOW) == 0,
         hides = meta_opaque(m->t, from, name);
    bool opaque = hides || (there && !S_ISDIR(old.st_mode));
    if (there && (hides || h || !S_ISDIR(old.st_mode))) {
        CAY_TRY(clear_away(m, to, name, err));
        there = false;
    }
    if (h && *h->name && renameat(m->hold, h->name, to, name) < 0)
        return cay_fail_sys(err, "move to %.150s", w->path);
    if (!there && !(h && *h->name) && mkdirat(to, name, 0755) < 0)
        return cay_fail_sys(err, "make %.150s", w->path);
    CAY_TRY_SYS(copy_meta(m->t, from, name, to, name, st), err, "attributes of %.150s", w->path);
    if (h)
        mark_drop(m->t, to, name, "redirect");
    if (h && *h->base && mark_set(m->t, to, name, "redirect", h->base) < 0)
        return cay_fail_sys(err, "mark %.150s", w->path);
    if ((opaque || (h && !*h->base)) && mark_set(m->t, to, name, "opaque", "y") < 0)
        return cay_fail_sys(err, "mark %.150s", w->path);
    CAY_TRY_SYS(crawl_down(&m->at, name), err, "enter %.150s", w->path);
    return 0;
}

static int on_enter(walk *w, const char *name, const struct stat *st, bool *down, cay_err *err)
{
    merge *m = w->arg;
    *down = S_ISDIR(st->st_mode);
    if (*down)
        return put_dir(m, w, name, st, err);
    return put_other(m, w->dir, name, st, err);
}

/* The times once more: what was put into the directory has moved them. */
static int on_leave(walk *w, const char *name, cay_err *err)
{
    merge *m = w->arg;
    struct stat st;
    if (crawl_up(&m->at) < 0 || fstatat(w->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_sys(err, "leave %.150s", w->path);
    struct timespec times[2] = { st.st_atim, st.st_mtim };
    utimensat(crawl_fd(&m->at), name, times, AT_SYMLINK_NOFOLLOW);
    return 0;
}

static void clear_redirects(merge *m)
{
    CAY_EACH_OF(it, m->v, m->n) {
        free(it->from);
        free(it->to);
    }
    m->n = 0;
    pathmap_clear(&m->by_to);
}

static int merge_layer(merge *m, const char *layer, cay_err *err)
{
    int fd, again;
    struct stat st;
    walk look = { .t = m->t, .enter = note_redirect, .arg = m },
         w = { .t = m->t, .enter = on_enter, .leave = on_leave, .arg = m };
    CAY_TRY(tool_layer_open(m->t, layer, &fd, err));
    clear_redirects(m);
    int rc = 0;
    if (m->t->root && (again = dup(fd)) >= 0)
        rc = walk_tree(&look, again, err);
    if (rc == 0)
        rc = hold_all(m, err);
    if (rc == 0 && (fstat(fd, &st) < 0 || copy_meta(m->t, fd, ".", m->tree, ".", &st) < 0))
        rc = cay_fail_sys(err, "attributes of layer %s", layer);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    crawl_open(&m->at, dup(m->tree));
    rc = walk_tree(&w, fd, err);
    crawl_close(&m->at);
    return cay_wrap(err, rc, "layer %s", layer);
}

typedef struct prune {
    tool *t;
    crawl below; /* what shows through, in step with the walk */
} prune;

static void step_below(prune *p, int dir, const char *name)
{
    char to[REDIRECT_MAX];
    int here = crawl_fd(&p->below);
    bool hides = meta_opaque(p->t, dir, name),
         moved = meta_redirect(p->t, dir, name, to, sizeof to);
    if (hides || (here < 0 && !moved))
        crawl_nothing(&p->below);
    else if (moved)
        crawl_jump(&p->below, meta_follow(crawl_root(&p->below), here, to));
    else if (crawl_down(&p->below, name) < 0)
        crawl_nothing(&p->below);
}

static int prune_enter(walk *w, const char *name, const struct stat *st, bool *down, cay_err *err)
{
    prune *p = w->arg;
    struct stat low;
    *down = S_ISDIR(st->st_mode);
    if (*down)
        step_below(p, w->dir, name);
    /* A directory of the host may change: what hides nothing in one that is there today may hide
     * something tomorrow. In one that is not there it must go, because the kernel shows a
     * whiteout's name where nothing is merged. */
    else if (meta_whiteout(st) &&
             (crawl_fd(&p->below) < 0 || (!p->t->bottom && fstatat(crawl_fd(&p->below), name, &low,
                                                                   AT_SYMLINK_NOFOLLOW) < 0)) &&
             unlinkat(w->dir, name, 0) < 0)
        return cay_fail_sys(err, "drop a whiteout: %.100s", name);
    return 0;
}

static int prune_leave(walk *w, const char *name, cay_err *err)
{
    prune *p = w->arg;
    CAY_TRY_SYS(crawl_up(&p->below), err, "leave %.100s", name);
    return 0;
}

static int prune_tree(merge *m, const char *const *below, size_t n, cay_err *err)
{
    int fd = -1;
    prune p = { .t = m->t };
    walk w = { .t = m->t, .enter = prune_enter, .leave = prune_leave, .arg = &p };
    if (n || m->t->bottom)
        CAY_TRY(stack_open(m->t, below, n, &fd, err));
    crawl_open(&p.below, fd);
    int rc = walk_tree(&w, dup(m->tree), err);
    crawl_close(&p.below);
    return rc;
}

int merge_run(tool *t, cay_err *err)
{
    char stage[40], hold[40];
    merge m = { .t = t, .tree = -1, .hold = -1 };
    size_t below = 0;
    while (below < t->nargs && strcmp(t->args[below], "--"))
        below++;
    if (t->nargs < below + 3 || t->nargs > 2 * TOOL_STACK_MAX)
        return cay_fail(err, CAY_EINVAL,
                        "merge takes what is below, --, 1 to %d layers and a new name",
                        TOOL_STACK_MAX);
    CAY_TRY(tool_layer_name(t->args[t->nargs - 1], err));
    CAY_TRY(tool_stage(t, stage, &m.tree, err));
    int rc = tool_stage(t, hold, &m.hold, err);
    for (size_t i = below + 1; rc == 0 && i + 1 < t->nargs; i++)
        rc = merge_layer(&m, t->args[i], err);
    if (below == 1 && *t->args[0] == '/') { /* a directory of the host */
        t->bottom = t->args[0];
        below = 0;
    }
    if (rc == 0)
        rc = prune_tree(&m, t->args, below, err);
    if (rc == 0 && syncfs(m.tree) < 0)
        rc = cay_fail_sys(err, "write the merged layer to disk");
    CAY_FAULT("layer.merge.whole");
    if (rc == 0)
        rc = tool_publish(t, stage, t->args[t->nargs - 1], err);
    if (m.hold >= 0)
        tool_unstage(t, hold);
    if (rc < 0)
        tool_unstage(t, stage);
    clear_redirects(&m);
    free(m.v);
    cay__close_fd(&m.tree);
    cay__close_fd(&m.hold);
    return rc;
}
