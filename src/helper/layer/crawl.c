/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"
#include <dirent.h>
#include <fcntl.h>

enum { KEPT = 128 };
#define NAMES_MAX  (8u << 20)
#define NAME_BYTES (256u << 20)
#define PATH_BYTES (16u << 20)

typedef struct crawl_level {
    int fd;               /* -1: closed meanwhile, or nothing is here */
    bool nothing, jumped; /* jumped: ".." does not lead back, so the one above stays open */
    dev_t dev;
    ino_t ino;
} crawl_level;

static void push_level(crawl *c, crawl_level l)
{
    if (c->n == c->cap) {
        if (c->cap)
            c->cap = 2 * c->cap;
        else
            c->cap = 32;
        c->lv = reallocarray(c->lv, c->cap, sizeof *c->lv);
        if (!c->lv)
            abort();
    }
    c->lv[c->n++] = l;
    if (c->n > KEPT + 1 && !c->lv[c->n - KEPT + 1].jumped) /* the root's is kept for good */
        cay__close_fd(&c->lv[c->n - KEPT].fd);
}

static crawl_level level_of(int fd)
{
    struct stat st = { 0 };
    crawl_level l = { .fd = fd, .nothing = fd < 0 };
    if (fd >= 0 && fstat(fd, &st) == 0) {
        l.dev = st.st_dev;
        l.ino = st.st_ino;
    }
    return l;
}

void crawl_open(crawl *c, int fd)
{
    *c = (crawl){ 0 };
    push_level(c, level_of(fd));
}

void crawl_close(crawl *c)
{
    for (size_t i = 0; i < c->n; i++)
        cay__close_fd(&c->lv[i].fd);
    free(c->lv);
    *c = (crawl){ 0 };
}

int crawl_fd(const crawl *c)
{
    return c->lv[c->n - 1].fd;
}

int crawl_root(const crawl *c)
{
    return c->lv[0].fd;
}

int crawl_down(crawl *c, const char *name)
{
    if (c->n >= CRAWL_DEPTH) {
        errno = EFBIG;
        return -1;
    }
    int fd = openat(crawl_fd(c), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    push_level(c, level_of(fd));
    return 0;
}

void crawl_nothing(crawl *c)
{
    push_level(c, level_of(-1));
}

void crawl_jump(crawl *c, int fd)
{
    crawl_level l = level_of(fd);
    l.jumped = true;
    push_level(c, l);
}

int crawl_up(crawl *c)
{
    crawl_level *now = &c->lv[c->n - 1], *up = now - 1;
    int rc = 0;
    if (up->fd < 0 && !up->nothing) {
        struct stat st;
        int fd = -1;
        if (now->fd >= 0)
            fd = openat(now->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_dev != up->dev || st.st_ino != up->ino)) {
            cay__close_fd(&fd);
            errno = ESTALE;
        }
        up->fd = fd;
        if (fd < 0)
            rc = -1;
        else
            rc = 0;
    }
    cay__close_fd(&now->fd);
    c->n--;
    return rc;
}

void names_add(names *l, const char *name)
{
    if (l->n == l->cap) {
        if (l->cap)
            l->cap = 2 * l->cap;
        else
            l->cap = 32;
        l->v = reallocarray(l->v, l->cap, sizeof *l->v);
        if (!l->v)
            abort();
    }
    l->v[l->n++] = cay__strdup(name);
    l->bytes += strlen(name) + 1;
}

int names_read(names *l, int fd)
{
    if (fd < 0)
        return 0;
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = NULL;
    if (again >= 0)
        d = fdopendir(again);
    if (!d) {
        cay__close_fd(&again);
        return -1;
    }
    int e = 0;
    errno = 0;
    for (struct dirent *x; (x = readdir(d)); errno = 0) {
        if (!strcmp(x->d_name, ".") || !strcmp(x->d_name, ".."))
            continue;
        names_add(l, x->d_name);
        if (l->n > NAMES_MAX || l->bytes > NAME_BYTES) {
            errno = EFBIG;
            break;
        }
    }
    e = errno;
    closedir(d);
    errno = e;
    if (e)
        return -1;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_sort(names *l)
{
    size_t k = 0;
    if (l->n > 1)
        qsort(l->v, l->n, sizeof *l->v, by_bytes);
    for (size_t i = 0; i < l->n; i++) {
        if (k && !strcmp(l->v[k - 1], l->v[i]))
            free(l->v[i]);
        else
            l->v[k++] = l->v[i];
    }
    l->n = k;
}

void names_clear(names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
    *l = (names){ 0 };
}

typedef struct frames {
    names *v;
    size_t n, cap;
} frames;

static int go_in(walk *w, frames *f, cay_err *err)
{
    if (f->n == f->cap) {
        if (f->cap)
            f->cap = 2 * f->cap;
        else
            f->cap = 32;
        f->v = reallocarray(f->v, f->cap, sizeof *f->v);
        if (!f->v)
            abort();
    }
    f->v[f->n] = (names){ 0 };
    names *l = &f->v[f->n++];
    if (names_read(l, crawl_fd(&w->at)) < 0)
        return cay_fail_sys(err, CAY_ESYS, "list %.150s", CAY_OR(w->path.data, ""));
    names_sort(l);
    return 0;
}

/* The path grows by a name, and is cut back by who was here before. */
static int path_to(walk *w, size_t cut, const char *name, cay_err *err)
{
    w->path.len = cut;
    cay__buf_str(&w->path, cut ? "/" : "");
    cay__buf_str(&w->path, name);
    if (w->path.full)
        return cay_fail(err, CAY_ETOOBIG, "a path is longer than %u bytes", PATH_BYTES);
    return 0;
}

static int walk_next(walk *w, frames *f, size_t *cut, cay_err *err)
{
    names *l = &f->v[f->n - 1];
    struct stat st;
    bool down = false;
    if (l->at == l->n) {
        names_clear(l);
        if (--f->n == 0)
            return 0;
        names *up = &f->v[f->n - 1];
        const char *name = up->v[up->at - 1];
        if (crawl_up(&w->at) < 0)
            return cay_fail_sys(err, CAY_EBUSY, "directories are moved while they are read");
        int rc = 0;
        if (w->leave)
            rc = w->leave(w, name, err);
        *cut -= strlen(name) + (*cut > strlen(name));
        return rc;
    }
    const char *name = l->v[l->at++];
    CAY_TRY(tool_check(w->t, err));
    CAY_TRY(path_to(w, *cut, name, err));
    if (fstatat(crawl_fd(&w->at), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(err, CAY_ESYS, "look at %.150s", w->path.data);
    }
    CAY_TRY(w->enter(w, name, &st, &down, err));
    if (!down || !S_ISDIR(st.st_mode))
        return 0;
    if (crawl_down(&w->at, name) < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return 0;
        return cay_fail_sys(err, errno == EFBIG ? CAY_ETOOBIG : CAY_ESYS, "enter %.150s",
                            w->path.data);
    }
    *cut = w->path.len;
    return go_in(w, f, err);
}

int walk_tree(walk *w, int root, cay_err *err)
{
    frames f = { 0 };
    size_t cut = 0;
    w->path = (cay__buf)CAY__BUF(PATH_BYTES);
    crawl_open(&w->at, root);
    int rc = go_in(w, &f, err);
    while (rc == 0 && f.n)
        rc = walk_next(w, &f, &cut, err);
    while (f.n)
        names_clear(&f.v[--f.n]);
    free(f.v);
    crawl_close(&w->at);
    cay__buf_clear(&w->path);
    return rc;
}
