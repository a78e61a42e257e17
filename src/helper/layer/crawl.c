/* SPDX-License-Identifier: Apache-2.0 */
#include "tool.h"
#include <base/fsop.h>

enum { KEPT = 128 };
#define NAMES_MAX  (8u << 20)
#define NAME_BYTES (256u << 20)
#define WALK_ROOM  (16u << 20)

typedef struct crawl_level {
    int fd;               /* -1: closed meanwhile, or nothing is here */
    bool nothing, jumped; /* jumped: ".." does not lead back, so the one above stays open */
    dev_t dev;
    ino_t ino;
} crawl_level;

static void push_level(crawl *c, crawl_level l)
{
    CAY_GROW(c->lv, c->n);
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
    CAY_EACH_OF(it, c->lv, c->n)
        cay__close_fd(&it->fd);
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
    int fd = cay__dir_at(crawl_fd(c), name);
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
        rc = CAY_MIN(fd, 0);
    }
    cay__close_fd(&now->fd);
    c->n--;
    return rc;
}

void names_add(name_list *l, const char *name)
{
    CAY_GROW(l->v, l->n);
    l->v[l->n++] = cay__strdup(name);
    l->bytes += strlen(name) + 1;
}

int names_read(name_list *l, int fd)
{
    if (fd < 0)
        return 0;
    CAY_AUTODIR *d = cay__dir_open(fd, NULL);
    if (!d)
        return -1;
    for (struct dirent *x; (x = cay__dir_next(d));) {
        names_add(l, x->d_name);
        if (l->n > NAMES_MAX || l->bytes > NAME_BYTES) {
            errno = EFBIG;
            return -1;
        }
    }
    if (errno)
        return -1;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_sort(name_list *l)
{
    size_t k = 0;
    if (l->n > 1)
        qsort(l->v, l->n, sizeof *l->v, by_bytes);
    CAY_EACH_OF(it, l->v, l->n) {
        if (k && !strcmp(l->v[k - 1], *it))
            free(*it);
        else
            l->v[k++] = *it;
    }
    l->n = k;
}

void names_clear(name_list *l)
{
    CAY_EACH_OF(it, l->v, l->n)
        free(*it);
    free(l->v);
    *l = (name_list){ 0 };
}

static int end_walk(walk *w, int rc)
{
    w->rc = rc;
    return rc != 0;
}

static int on_entry(const cay__fs_entry *e, void *arg)
{
    walk *w = arg;
    bool down = false;
    w->dir = e->dir;
    w->path = e->path;
    int rc = tool_check(w->t, w->err);
    if (rc == 0)
        rc = w->enter(w, e->name, e->st, &down, w->err);
    if (rc == 0 && down && e->depth >= CRAWL_DEPTH)
        rc = cay_fail(w->err, CAY_ETOOBIG, "enter %.150s: %s", e->path, strerror(EFBIG));
    if (rc)
        return end_walk(w, rc);
    if (down)
        return 0;
    return CAY__FS_SKIP;
}

static int on_left(const cay__fs_entry *e, void *arg)
{
    walk *w = arg;
    w->dir = e->dir;
    w->path = e->path;
    if (!w->leave)
        return 0;
    return end_walk(w, w->leave(w, e->name, w->err));
}

static int on_failed(const char *path, void *arg)
{
    walk *w = arg;
    if (errno == ENOTDIR)
        return 0;
    return end_walk(w, cay_fail_sys(w->err, "read %.150s", path));
}

int walk_tree(walk *w, int root, cay_err *err)
{
    cay__fs_walk all = {
        .fn = on_entry, .leave = on_left, .failed = on_failed, .arg = w, .room = WALK_ROOM
    };
    w->err = err;
    w->rc = 0;
    int rc = cay__fs_walk_fd(root, &all);
    if (w->rc == 0 && rc < 0 && errno == EBUSY)
        w->rc = cay_fail_sys(err, "directories are moved while they are read");
    else if (w->rc == 0 && rc < 0)
        w->rc = cay_fail_sys(err, "read the tree");
    return w->rc;
}
