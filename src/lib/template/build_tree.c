/* SPDX-License-Identifier: Apache-2.0 */
#include "build_tree.h"
#include <base/base.h>
#include <dirent.h>
#include <linux/openat2.h>
#include <lib/manifest/ignore.h>
#include <base/sha256.h>

#define DEEPEST 100

typedef struct ignore {
    cay__ignore rules;
    bool keeps; /* some rule takes back, so nothing below can be skipped unseen */
} ignore;

static int ignore_read(ignore *ig, const char *text, size_t len, cay_err *err)
{
    *ig = (ignore){ 0 };
    for (const char *s = text, *end = text + len, *e; text && s < end; s = e + 1) {
        char line[4100];
        e = memchr(s, '\n', (size_t)(end - s));
        e = CAY_OR(e, end);
        while (s < e && (*s == ' ' || *s == '\t'))
            s++;
        if (s == e || *s == '#')
            continue;
        bool keep = *s == '!';
        s += keep;
        while (e - s > 2 && s[0] == '.' && s[1] == '/')
            s += 2;
        /* Every pattern counts from the top: that is what a slash at its begin says. */
        int n = CAY_FORMAT(line, "%s/%.*s", CAY_TEXT_IF(keep, "!"), (int)CAY_MIN(e - s, 4090), s);
        ig->keeps |= keep;
        if (n < 0 || e - s > 4090 || !cay__ignore_add(&ig->rules, line, (size_t)n))
            return cay_fail_why(err, CAY_EINVAL, "build_ignore",
                                ".dockerignore: more than %d lines, or one that is too long",
                                CAY__IGNORE_RULES);
    }
    return 0;
}

/* The last rule that fits the path, or a directory above it, decides. */
static bool left_out(const ignore *ig, const char *path)
{
    for (size_t i = ig->rules.n; i-- > 0;) {
        const cay__ignore_rule *r = &ig->rules.rules[i];
        char up[4200];
        if (!CAY_COPY(up, path))
            return true;
        for (char *slash = up; slash; slash = strrchr(up, '/')) {
            if (slash != up)
                *slash = 0;
            if (cay__ignore_fits(r->pattern, up))
                return !r->keep;
        }
    }
    return false;
}

static int add_twig(cay__tree *t, const cay__twig *w, cay_err *err)
{
    if (t->n >= CAY__TREE_FILES)
        return cay_fail_why(err, CAY_ETOOBIG, "build_context",
                            "more than %u files to choose from; leave some out with .dockerignore",
                            CAY__TREE_FILES);
    CAY_GROW(t->twigs, t->n);
    cay__twig *to = &t->twigs[t->n++];
    *to = *w;
    to->path = cay__arena_str(&t->mem, w->path);
    to->target = cay__arena_str(&t->mem, w->target);
    if (w->type == 'f')
        t->bytes += w->size;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const cay__twig *)a)->path, ((const cay__twig *)b)->path);
}

const cay__twig *cay__tree_find(const cay__tree *t, const char *path)
{
    cay__twig key = { .path = path };
    if (t->n)
        return bsearch(&key, t->twigs, t->n, sizeof *t->twigs, by_path);
    return NULL;
}

void cay__tree_clear(cay__tree *t)
{
    cay__arena_clear(&t->mem);
    free(t->twigs);
    if (t->dir > 0)
        close(t->dir);
    *t = (cay__tree){ .dir = -1 };
}

typedef struct walk {
    cay__tree *t;
    const ignore *ig;
    const cay_call *call;
    cay_err *err;
    size_t len;
    char path[4096],
        target[4096]; /* of the name at hand; one for all levels, as stacks are small */
} walk;

static int walk_dir(walk *w, int fd, unsigned depth);

static char letter_of(mode_t mode)
{
    if (S_ISREG(mode))
        return 'f';
    if (S_ISDIR(mode))
        return 'd';
    if (S_ISLNK(mode))
        return 'l';
    return 0;
}

/* w->path is its path, w->len that of its directory. */
static int on_name(walk *w, int fd, const char *name, unsigned depth)
{
    struct stat st;
    bool out = left_out(w->ig, w->path);
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(w->err, "look at %.200s", w->path);
    }
    cay__twig twig = { .type = letter_of(st.st_mode),
                       .mode = st.st_mode & 07777,
                       .size = (uint64_t)st.st_size,
                       .path = w->path,
                       .target = w->target };
    w->target[0] = 0;
    if (!twig.type || (out && (twig.type != 'd' || !w->ig->keeps)))
        return 0; /* sockets, pipes and devices are nobody's content */
    if (twig.type == 'l') {
        ssize_t n = readlinkat(fd, name, w->target, sizeof w->target - 1);
        if (n < 0)
            return cay_fail_sys(w->err, "read the link %.200s", w->path);
        w->target[n] = 0;
    }
    if (!out)
        CAY_TRY(add_twig(w->t, &twig, w->err));
    if (twig.type != 'd')
        return 0;
    int sub = cay__dir_at(fd, name);
    if (sub < 0)
        return cay_fail_sys(w->err, "open %.200s", w->path);
    size_t was = w->len;
    w->len = strlen(w->path);
    int rc = walk_dir(w, sub, depth + 1);
    w->len = was;
    return rc;
}

static int walk_dir(walk *w, int fd, unsigned depth)
{
    int rc = cay__call_check(w->call, "build", w->err);
    DIR *d = NULL;
    if (rc == 0)
        d = fdopendir(fd);
    if (!d) {
        rc = CAY_OR(rc,
                    cay_fail_sys(w->err, "list %.*s", (int)CAY_MIN(w->len, (size_t)200), w->path));
        close(fd);
        return rc;
    }
    if (depth > DEEPEST)
        rc = cay_fail_why(w->err, CAY_ETOOBIG, "build_context",
                          "%.100s…: more than %d directories in each other", w->path, DEEPEST);
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (!cay__str_join(w->path + w->len, sizeof w->path - w->len, CAY_TEXT_IF(w->len, "/"),
                           e->d_name, NULL))
            rc = cay_fail_why(w->err, CAY_ETOOBIG, "build_context",
                              "%.100s…: the path is longer than 4095 bytes", w->path);
        else
            rc = on_name(w, fd, e->d_name, depth);
    }
    closedir(d);
    return rc;
}

int cay__tree_dir(cay__tree *t, int fd, const char *text, size_t len, const cay_call *call,
                  cay_err *err)
{
    ignore ig = { 0 };
    *t = (cay__tree){ .dir = fd };
    int top = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;
    if (top < 0)
        rc = cay_fail_sys(err, "open the context");
    else
        rc = ignore_read(&ig, text, len, err);
    if (rc == 0) {
        CAY_AUTOFREE walk *w = cay__alloc(sizeof *w);
        *w = (walk){ .t = t, .ig = &ig, .call = call, .err = err };
        rc = walk_dir(w, CAY_STEAL_FD(top), 0);
    }
    cay__close_fd(&top);
    cay__ignore_clear(&ig.rules);
    if (rc < 0) {
        cay__tree_clear(t);
        return rc;
    }
    if (t->n)
        qsort(t->twigs, t->n, sizeof *t->twigs, by_path);
    return 0;
}

typedef struct boxed {
    cay__tree *t;
    ignore ig;
    cay_err *err;
} boxed;

static int on_entry(const cay_dirent *e, void *arg)
{
    boxed *b = arg;
    if (e->st.type == CAY_OTHER || left_out(&b->ig, e->path) || !*e->path)
        return 0;
    if (e->st.type == CAY_LINK && strlen(e->st.target) >= sizeof e->st.target - 1)
        return cay_fail_why(b->err, CAY_ETOOBIG, "build_copy",
                            "%.100s: a link of more than %zu bytes cannot be copied", e->path,
                            sizeof e->st.target - 2);
    return add_twig(b->t,
                    &(cay__twig){ .type = (char)e->st.type,
                                  .mode = e->st.mode & 07777,
                                  .uid = e->st.uid,
                                  .gid = e->st.gid,
                                  .size = e->st.size,
                                  .path = e->path,
                                  .target = CAY_TEXT_IF(e->st.type == CAY_LINK, e->st.target) },
                    b->err);
}

int cay__tree_box(cay__tree *t, cay_sandbox *sb, const char *base, const char *text, size_t len,
                  const cay_call *call, cay_err *err)
{
    boxed b = { .t = t, .err = err };
    cay_stat st = { .size_of = sizeof st };
    *t = (cay__tree){ .dir = -1, .sb = sb };
    t->base = cay__arena_str(&t->mem, base);
    int rc = ignore_read(&b.ig, text, len, err);
    if (rc == 0)
        rc = cay_file_stat(sb, call, base, true, &st, err);
    if (rc == 0 && st.type == CAY_DIR)
        rc = cay_dir_list(sb, call, base, 0, on_entry, &b, err);
    else if (rc == 0) /* the top is a file */
        rc = add_twig(t,
                      &(cay__twig){ .type = 'f',
                                    .mode = st.mode & 07777,
                                    .uid = st.uid,
                                    .gid = st.gid,
                                    .size = st.size,
                                    .path = "",
                                    .target = "" },
                      err);
    cay__ignore_clear(&b.ig.rules);
    if (rc < 0) {
        cay__tree_clear(t);
        return rc;
    }
    if (t->n)
        qsort(t->twigs, t->n, sizeof *t->twigs, by_path);
    return 0;
}

int cay__tree_open(const cay__tree *t, const cay__twig *w, const cay_call *call, int *fd,
                   cay_err *err)
{
    if (t->sb) {
        CAY_AUTOFREE char *path = NULL;
        if (asprintf(&path, "%s%s%s", t->base, CAY_TEXT_IF(*w->path, "/"), w->path) < 0)
            abort();
        return cay_file_open_read(t->sb, call, path, NULL, fd, err);
    }
    /* What was a file when it was listed may be a link or a pipe by now. */
    int f = cay__fd_openat2(t->dir, w->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0,
                            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    struct stat st;
    if (f < 0)
        return cay_fail_sys(err, "open %.200s", w->path);
    if (fstat(f, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(f);
        return cay_fail_why(err, CAY_EBUSY, "build_changed",
                            "%.200s changed while it was being read; try again when it is at rest",
                            w->path);
    }
    *fd = f;
    return 0;
}

int cay__tree_get(const cay__tree *t, const char *path, size_t max, const cay_call *call,
                  char **data, size_t *len, cay_err *err)
{
    const cay__twig *w = cay__tree_find(t, path);
    CAY_AUTOFD fd = -1;
    if (!w || w->type != 'f')
        return cay_fail_why(err, CAY_ENOENT, "build_file", "there is no file %.100s in the context",
                            path);
    if (w->size > max)
        return cay_fail_why(err, CAY_ETOOBIG, "build_file", "%.100s has more than %zu bytes", path,
                            max);
    CAY_TRY(cay__tree_open(t, w, call, &fd, err));
    CAY_AUTOFREE char *buf = cay__alloc(max + 1);
    ssize_t n = cay__fd_read_all(fd, buf, max);
    if (n < 0)
        return cay_fail_sys(err, "read %.100s", path);
    buf[n] = 0;
    *data = CAY_STEAL(buf);
    *len = (size_t)n;
    return 0;
}

int cay__tree_hash(const cay__tree *t, const cay__twig *w, const cay_call *call, char out[65],
                   cay_err *err)
{
    CAY_AUTOFD fd = -1;
    cay__sha256 sum;
    CAY_TRY(cay__tree_open(t, w, call, &fd, err));
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    cay__sha256_begin(&sum);
    for (ssize_t n; (n = read(fd, buf, 65536)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail_sys(err, "read %.200s", w->path);
        CAY_TRY(cay__call_check(call, "build", err));
        cay__sha256_add(&sum, buf, (size_t)n);
    }
    cay__sha256_end(&sum, out);
    return 0;
}
