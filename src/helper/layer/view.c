/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#define REDIRECT_MAX 4096

void view_open(view *v, int base, int top)
{
    crawl_open(&v->base, base);
    crawl_open(&v->top, top);
}

void view_close(view *v)
{
    crawl_close(&v->base);
    crawl_close(&v->top);
}

static bool look_at(int dir, const char *name, entry *out)
{
    if (dir < 0 || fstatat(dir, name, &out->st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    out->dir = dir;
    return true;
}

void view_look(const view *v, const char *name, entry *out)
{
    *out = (entry){ .dir = -1 };
    if (look_at(crawl_fd(&v->top), name, out)) {
        out->in_top = true;
        out->there = !meta_whiteout(&out->st);
        return;
    }
    out->there = look_at(crawl_fd(&v->base), name, out);
}

int view_down(const tool *t, view *v, const char *name, bool *other)
{
    char to[REDIRECT_MAX];
    int top = crawl_fd(&v->top), base = crawl_fd(&v->base);
    struct stat st;
    bool in_top = top >= 0 && fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    bool opaque = in_top && meta_opaque(t, top, name),
         moved = in_top && !opaque && meta_redirect(t, top, name, to, sizeof to);
    *other = opaque || moved;
    if (in_top && crawl_down(&v->top, name) < 0)
        return -1;
    if (!in_top)
        crawl_nothing(&v->top);
    if (opaque || (base < 0 && !moved))
        crawl_nothing(&v->base);
    else if (moved)
        crawl_jump(&v->base, meta_follow(crawl_root(&v->base), base, to));
    else if (crawl_down(&v->base, name) < 0) {
        if (!in_top && errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
            int e = errno;
            crawl_up(&v->top);
            errno = e;
            return -1;
        }
        crawl_nothing(&v->base); /* a file below a directory: nothing of it shows */
    }
    return 0;
}

void view_nothing(view *v)
{
    crawl_nothing(&v->base);
    crawl_nothing(&v->top);
}

int view_up(view *v)
{
    int a = crawl_up(&v->base), b = crawl_up(&v->top);
    if (a < 0 || b < 0)
        return -1;
    return 0;
}
