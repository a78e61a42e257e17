/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"
#include "pathmap.h"

#define PATH_BYTES (16u << 20)
#define CHUNK      (64u << 10)
#define LINK_MAX_  4096

/* A directory under way: its names, and which sides have it. */
typedef struct frame {
    name_list l;
    size_t path, from; /* how long both are here */
    bool full;         /* every name is looked at, not only those of the uppers */
    bool moved;        /* below a renamed directory: a is elsewhere */
    char *outer;       /* of a renamed directory: what `from` was around it */
} frame;

/* A renamed directory. */
typedef struct moved {
    char *from, *to;
} moved;

typedef struct run {
    compare *c;
    frame *f;
    size_t n;
    cay__buf path, from;
    moved *mv;
    size_t nmv;
    pathmap by_to, by_from; /* numbers in mv */
} run;

int compare_bytes(int a, int b, uint64_t size)
{
    char x[CHUNK], y[CHUNK];
    for (off_t at = 0; (uint64_t)at < size;) {
        off_t da = lseek(a, at, SEEK_DATA), db = lseek(b, at, SEEK_DATA);
        if (da < 0 && db < 0)
            return 1; /* only a hole is left in both */
        if (da < 0)
            at = db;
        else if (db < 0)
            at = da;
        else
            at = CAY_MIN(da, db);
        ssize_t n = pread(a, x, sizeof x, at), m = pread(b, y, sizeof y, at);
        if (n < 0 || m < 0)
            return -1;
        if (n != m || memcmp(x, y, (size_t)n))
            return 0;
        if (n == 0)
            break;
        at += n;
    }
    return 1;
}

/* The very same file, or one that nobody has touched since both were the same. */
static bool same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int open_regular(int dir, const char *name)
{
    struct stat st;
    CAY_AUTOFD fd = cay__file_at(dir, name);
    if (fd < 0 || fstat(fd, &st) < 0 || meta_foreign(&st))
        return -1;
    errno = ESTALE;
    if (S_ISREG(st.st_mode))
        return CAY_STEAL_FD(fd);
    return -1;
}

static bool same_link(const entry *a, const char *an, const entry *b, const char *bn)
{
    char x[LINK_MAX_], y[LINK_MAX_];
    ssize_t n = readlinkat(a->dir, an, x, sizeof x), m = readlinkat(b->dir, bn, y, sizeof y);
    return n >= 0 && n == m && !memcmp(x, y, (size_t)n);
}

/* As it is inside; a root of the host has such ids already. */
static uint32_t map_inner_id(uint32_t id)
{
    if (id >= TOOL_STORE && id - TOOL_STORE < 65536)
        return id - TOOL_STORE;
    return id;
}

/* Both are of one type. A file that vanishes meanwhile differs. */
static unsigned compare_entries(const compare *c, const entry *a, const char *an, const entry *b,
                                const char *bn)
{
    unsigned what = 0;
    if ((a->st.st_mode & 07777) != (b->st.st_mode & 07777) && !S_ISLNK(a->st.st_mode))
        what |= CHANGE_MODE;
    if (c->owners && (map_inner_id(a->st.st_uid) != map_inner_id(b->st.st_uid) ||
                      map_inner_id(a->st.st_gid) != map_inner_id(b->st.st_gid)))
        what |= CHANGE_OWNER;
    if (S_ISLNK(a->st.st_mode) && !same_link(a, an, b, bn))
        what |= CHANGE_CONTENT;
    if ((S_ISCHR(a->st.st_mode) || S_ISBLK(a->st.st_mode)) && a->st.st_rdev != b->st.st_rdev)
        what |= CHANGE_CONTENT;
    if (!S_ISREG(a->st.st_mode) || same_inode(&a->st, &b->st))
        return what;
    if (a->st.st_size != b->st.st_size)
        return what | CHANGE_CONTENT;
    CAY_AUTOFD x = open_regular(a->dir, an), y = open_regular(b->dir, bn);
    if (x < 0 || y < 0 || compare_bytes(x, y, (uint64_t)a->st.st_size) != 1)
        return what | CHANGE_CONTENT;
    return what;
}

/* The nearest renamed directory above, where it was, and how much of the path that stands for. */
static const char *parent_from(const run *r, const char *path, size_t *cut)
{
    size_t i = pathmap_above(&r->by_to, path);
    if (i == PATHMAP_NONE)
        *cut = 0;
    else
        *cut = strlen(r->mv[i].to);
    if (i == PATHMAP_NONE)
        return "";
    return r->mv[i].from;
}

static int note_moved(walk *w, const char *name, const struct stat *st, bool *down, cay_err *err)
{
    run *r = w->arg;
    char to[LINK_MAX_];
    *down = true;
    if (!S_ISDIR(st->st_mode) || !meta_redirect(r->c->t, w->dir, name, to, sizeof to))
        return 0;
    CAY_GROW(r->mv, r->nmv);
    CAY_AUTOBUF from = CAY__BUF(PATH_BYTES);
    size_t cut = 0;
    if (r->c->under)
        cut = strlen(r->c->under) + 1;
    if (*to == '/' && cut && (strncmp(to + 1, r->c->under, cut - 1) || to[cut] != '/'))
        return 0; /* it came from outside of what is compared */
    if (*to == '/') {
        cay__buf_str(&from, to + 1 + cut);
    } else { /* a brother, in what the parent was called before */
        const char *up = parent_from(r, w->path, &cut);
        cay__buf_str(&from, up);
        cay__buf_add(&from, w->path + cut, strlen(w->path) - strlen(name) - cut);
        cay__buf_str(&from, to);
    }
    moved *mv = &r->mv[r->nmv++];
    *mv = (moved){ cay__strdup(from.data), cay__strdup(w->path) };
    pathmap_put(&r->by_to, mv->to, r->nmv - 1);
    pathmap_put(&r->by_from, mv->from, r->nmv - 1);
    return 0;
}

static const char *moved_from(const run *r, const char *to)
{
    size_t i = pathmap_get(&r->by_to, to, strlen(to));
    if (i == PATHMAP_NONE)
        return NULL;
    return r->mv[i].from;
}

static bool moved_away(const run *r, const char *from)
{
    return pathmap_get(&r->by_from, from, strlen(from)) != PATHMAP_NONE;
}

static int push_frame(run *r, bool full, bool is_moved, cay_err *err)
{
    compare *c = r->c;
    CAY_GROW(r->f, r->n);
    frame *f = &r->f[r->n++];
    *f = (frame){ .path = r->path.len, .from = r->from.len, .full = full, .moved = is_moved };
    const int dirs[] = { crawl_fd(&c->a.top), crawl_fd(&c->b.top), full ? crawl_fd(&c->a.base) : -1,
                         full ? crawl_fd(&c->b.base) : -1 };
    CAY_EACH(dir, dirs)
        if (names_read(&f->l, *dir) < 0)
            return cay_fail_sys_as(err, errno == EFBIG ? CAY_ETOOBIG : CAY_ESYS, "list %.150s",
                                   CAY_OR(r->path.data, "."));
    names_sort(&f->l);
    return 0;
}

static int no_way(run *r, cay_err *err)
{
    if (errno == EFBIG)
        return cay_fail(err, CAY_ETOOBIG, "%.100s…: more than %d directories deep", r->path.data,
                        CRAWL_DEPTH);
    return cay_fail_sys(err, "enter %.150s", r->path.data);
}

/* Down on the sides that have the directory. a_from: the name on side a, or where it was ("/…"). */
static int go_down(run *r, const change *ch, bool a, bool b, const char *a_from, bool full,
                   bool is_moved, cay_err *err)
{
    compare *c = r->c;
    bool other_a = false, other_b = false;
    if (a && a_from) {
        crawl_nothing(&c->a.top);
        crawl_jump(&c->a.base, meta_follow(crawl_root(&c->a.base), -1, a_from));
    } else if (a) {
        if (view_down(c->t, &c->a, ch->name, &other_a) < 0) {
            if (errno == ENOENT || errno == ENOTDIR)
                return 0;
            return no_way(r, err);
        }
    } else {
        view_nothing(&c->a);
    }
    if (!b)
        view_nothing(&c->b);
    else if (view_down(c->t, &c->b, ch->name, &other_b) < 0) {
        view_up(&c->a);
        if (errno == ENOENT || errno == ENOTDIR)
            return 0;
        return no_way(r, err);
    }
    full = full || other_a || (other_b && !a_from) || !c->same_base;
    if (!full && crawl_fd(&c->a.top) < 0 &&
        crawl_fd(&c->b.top) < 0) /* neither upper has been here */
    {
        if (view_up(&c->a) < 0 || view_up(&c->b) < 0)
            return no_way(r, err);
        return 0;
    }
    return push_frame(r, full, is_moved, err);
}

static void from_is(run *r, const char *from)
{
    r->from.len = 0;
    cay__buf_str(&r->from, from);
}

int compare_under(compare *c, const char *name, cay_err *err)
{
    view *both[] = { &c->a, &c->b };
    CAY_EACH(it, both) {
        entry e;
        bool other;
        view_look(*it, name, &e);
        if (!e.there || !S_ISDIR(e.st.st_mode))
            view_nothing(*it);
        else if (view_down(c->t, *it, name, &other) < 0)
            return cay_fail_sys(err, "enter %.60s", name);
        else if (other)
            c->same_base = false;
    }
    return 0;
}

static int report_change(run *r, change *ch, char kind, cay_err *err)
{
    ch->kind = kind;
    return r->c->fn(r->c, ch, err);
}

static int compare_renamed(run *r, change *ch, const char *from, cay_err *err)
{
    const char *under = CAY_OR(r->c->under, "");
    size_t cap = strlen(under) + strlen(from) + 3, n = r->n;
    CAY_AUTOFREE char *whole = cay__alloc(cap), *outer = cay__strdup(r->from.data);
    snprintf(whole, cap, "/%s/%s", under, from);
    r->from.len = 0;
    cay__buf_str(&r->from, from);
    ch->from = r->from.data;
    CAY_TRY(report_change(r, ch, 'R', err));
    CAY_TRY(go_down(r, ch, true, true, whole, r->c->every, true, err));
    if (r->n > n)
        r->f[r->n - 1].outer = CAY_STEAL(outer);
    else
        from_is(r, outer);
    return 0;
}

static int compare_both(run *r, const frame *f, change *ch, cay_err *err)
{
    compare *c = r->c;
    bool full = f->full, is_moved = f->moved;
    if ((ch->a.st.st_mode & S_IFMT) != (ch->b.st.st_mode & S_IFMT)) {
        bool a = S_ISDIR(ch->a.st.st_mode), b = S_ISDIR(ch->b.st.st_mode);
        CAY_TRY(report_change(r, ch, 'T', err));
        if (b || (a && c->every))
            return go_down(r, ch, a, b, NULL, true, is_moved && a, err);
        return 0;
    }
    ch->what = compare_entries(c, &ch->a, ch->from_name, &ch->b, ch->name);
    bool dir = S_ISDIR(ch->a.st.st_mode);
    if (ch->what || (is_moved && c->every && !dir))
        CAY_TRY(report_change(r, ch, ch->what || !is_moved ? 'M' : 'R', err));
    if (dir)
        return go_down(r, ch, true, true, NULL, full, is_moved, err);
    return 0;
}

static int compare_next(run *r, cay_err *err)
{
    compare *c = r->c;
    frame *f = &r->f[r->n - 1];
    if (f->l.at == f->l.n) {
        names_clear(&f->l);
        if (f->outer)
            from_is(r, f->outer);
        free(f->outer);
        if (--r->n == 0)
            return 0;
        if (view_up(&c->a) < 0 || view_up(&c->b) < 0)
            return cay_fail_sys_as(err, CAY_EBUSY, "directories are moved while they are read");
        return 0;
    }
    char *name = f->l.v[f->l.at++];
    frame now = *f; /* a deeper one may move the list */
    bool is_moved = now.moved;
    CAY_TRY(tool_check(c->t, err));
    r->path.len = f->path;
    r->from.len = f->from;
    if (r->n == 1 && c->skip && !strcmp(name, c->skip))
        return 0;
    cay__buf_str(&r->path, f->path ? "/" : "");
    cay__buf_str(&r->path, name);
    if (is_moved) {
        cay__buf_str(&r->from, "/");
        cay__buf_str(&r->from, name);
    }
    if (r->path.full || r->from.full)
        return cay_fail(err, CAY_ETOOBIG, "a path is longer than %u bytes", PATH_BYTES);
    change ch = { .path = r->path.data,
                  .from = is_moved ? r->from.data : NULL,
                  .name = name,
                  .from_name = name };
    view_look(&c->a, name, &ch.a);
    view_look(&c->b, name, &ch.b);
    if (ch.a.there && S_ISDIR(ch.a.st.st_mode) &&
        moved_away(r, is_moved ? r->from.data : r->path.data))
        ch.a.there = false; /* it is told where it went */
    if (!ch.a.there && !ch.b.there)
        return 0;
    const char *from = NULL;
    if (ch.b.there && S_ISDIR(ch.b.st.st_mode))
        from = moved_from(r, ch.path);
    if (from && !ch.a.there)
        return compare_renamed(r, &ch, from, err);
    if (!ch.a.there) {
        CAY_TRY(report_change(r, &ch, 'A', err));
        if (S_ISDIR(ch.b.st.st_mode))
            return go_down(r, &ch, false, true, NULL, true, false, err);
        return 0;
    }
    if (!ch.b.there) {
        if (is_moved) /* under the name that it had */
            ch.path = r->from.data;
        CAY_TRY(report_change(r, &ch, 'D', err));
        if (S_ISDIR(ch.a.st.st_mode) && c->every)
            return go_down(r, &ch, true, false, NULL, true, is_moved, err);
        return 0;
    }
    return compare_both(r, &now, &ch, err);
}

static void run_clear(run *r)
{
    while (r->n) {
        names_clear(&r->f[--r->n].l);
        free(r->f[r->n].outer);
    }
    free(r->f);
    CAY_EACH_OF(it, r->mv, r->nmv) {
        free(it->from);
        free(it->to);
    }
    free(r->mv);
    pathmap_clear(&r->by_to);
    pathmap_clear(&r->by_from);
    cay__buf_clear(&r->path);
    cay__buf_clear(&r->from);
}

int compare_run(compare *c, cay_err *err)
{
    run r = { .c = c, .path = CAY__BUF(PATH_BYTES), .from = CAY__BUF(PATH_BYTES) };
    int top = crawl_fd(&c->b.top), rc = 0;
    walk w = { .t = c->t, .enter = note_moved, .arg = &r };
    if (c->renames && c->same_base && c->t->root && top >= 0)
        rc = walk_tree(&w, dup(top), err);
    if (rc == 0)
        rc = push_frame(&r, !c->same_base, false, err);
    while (rc == 0 && r.n)
        rc = compare_next(&r, err);
    run_clear(&r);
    return rc;
}
