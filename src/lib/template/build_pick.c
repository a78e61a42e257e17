/* SPDX-License-Identifier: Apache-2.0 */
/* What the words of COPY mean in a tree. */
#include "build_tree.h"
#include <base/base.h>
#include <fnmatch.h>

#define LINKS 16 /* that may lead from one to another */

void cay__pick_clear(cay__pick *p)
{
    free(p->leaves);
    *p = (cay__pick){ .mem = p->mem };
}

static void add_leaf(cay__pick *p, const cay__twig *w, const char *name, bool file)
{
    CAY_GROW(p->leaves, p->n);
    p->leaves[p->n++] =
        (cay__leaf){ .twig = w, .name = cay__arena_str(p->mem, name), .file = file };
}

/* "a/./b//../c" → "a/c"; a way up from the top stays there. */
static void normalize_path(const char *path, char *out, size_t cap)
{
    size_t n = 0;
    for (const char *s = path, *e; *s; s = e) {
        s += strspn(s, "/");
        e = s + strcspn(s, "/");
        size_t len = (size_t)(e - s);
        if (!len || (len == 1 && *s == '.'))
            continue;
        if (len == 2 && s[0] == '.' && s[1] == '.') {
            while (n && out[n - 1] != '/')
                n--;
            n -= n > 0;
            continue;
        }
        if (n + len + 2 > cap)
            break;
        if (n)
            out[n++] = '/';
        memcpy(out + n, s, len);
        n += len;
    }
    out[n] = 0;
}

/* Where a link of the source leads, inside the tree. NULL: nowhere. */
static const cay__twig *follow_link(const cay__tree *t, const cay__twig *w)
{
    char at[8300], to[4200];
    for (int i = 0; w && w->type == 'l'; i++) {
        const char *slash = strrchr(w->path, '/');
        if (i == LINKS)
            return NULL;
        CAY_FORMAT(at, "%.*s/%s", *w->target == '/' || !slash ? 0 : (int)(slash - w->path), w->path,
                   w->target);
        normalize_path(at, to, sizeof to);
        w = cay__tree_find(t, to);
    }
    return w;
}

static void pick_twig(const cay__tree *t, const cay__twig *w, cay__pick *out)
{
    const char *slash = strrchr(w->path, '/'), *name = slash ? slash + 1 : w->path;
    const cay__twig *real = follow_link(t, w);
    if (!real || real->type != 'd') {
        add_leaf(out, CAY_OR(real, w), name, true);
        return;
    }
    size_t n = strlen(real->path);
    for (const cay__twig *c = real + 1; c < t->twigs + t->n; c++) {
        /* Names that begin alike may stand between a directory and what is in it: a, a-b, a/c. */
        if (strncmp(c->path, real->path, n))
            break;
        if (c->path[n] == '/')
            add_leaf(out, c, c->path + n + 1, false);
    }
}

/* A link on the way to a file is a way, too: /lib/x is /usr/lib/x in most systems. */
static const cay__twig *find_through_links(const cay__tree *t, const char *path)
{
    const cay__twig *w = cay__tree_find(t, path);
    char at[4200], to[8400], rest[4200];
    CAY_COPY(at, path);
    for (int i = 0; !w && i < LINKS; i++) {
        size_t n = 0;
        const cay__twig *way = NULL;
        while (!way && at[n]) {
            n += strcspn(at + n, "/");
            char keep = at[n];
            at[n] = 0;
            const cay__twig *x = cay__tree_find(t, at);
            at[n] = keep;
            if (x && x->type == 'l')
                way = x;
            else
                n += keep == '/';
        }
        const cay__twig *dir = NULL;
        if (way)
            dir = follow_link(t, way);
        if (!dir || dir->type != 'd')
            return NULL;
        CAY_COPY(rest, at + n);
        CAY_FORMAT(to, "%s%s", dir->path, rest);
        normalize_path(to, at, sizeof at);
        w = cay__tree_find(t, at);
    }
    return w;
}

int cay__tree_pick(const cay__tree *t, const char *pattern, cay__pick *out, cay_err *err)
{
    char path[4200];
    size_t had = out->n, hits = 0;
    normalize_path(pattern, path, sizeof path);
    if (strlen(pattern) >= sizeof path - 1)
        return cay_fail_why(err, CAY_EINVAL, "build_copy",
                            "%.60s…: the path is longer than 4095 bytes", pattern);
    if (!*path) { /* all of it */
        for (size_t i = 0; i < t->n; i++)
            add_leaf(out, &t->twigs[i], t->twigs[i].path, !*t->twigs[i].path);
        return 0;
    }
    const cay__twig *w = find_through_links(t, path);
    if (w) {
        pick_twig(t, w, out);
        return 0;
    }
    if (strpbrk(path, "*?["))
        for (size_t i = 0; i < t->n; i++)
            if (fnmatch(path, t->twigs[i].path, FNM_PATHNAME) == 0) {
                pick_twig(t, &t->twigs[i], out);
                hits++;
            }
    if (!hits && out->n == had)
        return cay_fail_why(err, CAY_ENOENT, "build_copy",
                            "%.100s is not there, or .dockerignore leaves it out", pattern);
    return 0;
}
