/* SPDX-License-Identifier: Apache-2.0 */
/* Local directories: each name relative to its parent's descriptor, no link ever followed. */
#include "plan.h"
#include <linux/openat2.h>

int cay__local_bad(cay_err *err, const cay__entry *e, const char *what, const char *word, int sys)
{
    const char *reason = "local_dir_read_error";
    if (e->kind->id == CAY__LOCAL_FILE)
        reason = "local_file_read_error";
    const char *why;
    if (!strcmp(word, "symlink_not_supported"))
        why = "it is a link that leaves the source";
    else if (!strcmp(word, "outside_base_dir"))
        why = "it is outside the manifest's directory; grant it with extra_path_grants";
    else if (!strcmp(word, "path_changed_during_copy"))
        why = "it changed while it was being read; try again when it is at rest";
    else if (!strcmp(word, "not_a_file"))
        why = "it is not a regular file";
    else if (!strcmp(word, "not_a_directory"))
        why = "it is not a directory";
    else
        why = strerror(sys);
    int rc = cay__bad(err, reason, e->path, word, "%.100s: %s", what, why);
    if (err && sys) {
        err->sys = sys;
        if (!strcmp(word, "path_not_found"))
            err->code = rc = CAY_ENOENT;
        else if (sys == EACCES || sys == EPERM)
            err->code = rc = CAY_EPERM;
        else
            err->code = rc;
    }
    return rc;
}

static void fill_ident(cay__ident *id, const struct stat *st)
{
    *id = (cay__ident){ .size = (uint64_t)st->st_size,
                        .dev = st->st_dev,
                        .ino = st->st_ino,
                        .mtime = st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec,
                        .ctime = st->st_ctim.tv_sec * 1000000000ll + st->st_ctim.tv_nsec };
}

static int count_file(cay__plan *p, const cay__entry *e, uint64_t bytes, cay_err *err)
{
    p->files++;
    p->bytes += bytes;
    if (p->files > CAY__PLAN_FILES || p->bytes > CAY__PLAN_BYTES)
        return cay_fail_why(
            err, CAY_ETOOBIG, "manifest_too_big",
            "entry %.80s: more than %u files or 64 GiB together; leave some out with exclude",
            e->path, CAY__PLAN_FILES);
    return 0;
}

int cay__plan_file(cay__plan *p, const cay__entry *e, uint32_t source, const char *rel,
                   const char *path, const struct stat *st, cay_err *err)
{
    cay__node n = { .type = 'f',
                    .ephemeral = cay__plan_ephemeral(p, e, NULL),
                    .mode = e->has_mode ? e->mode : (st->st_mode & 0777) | 0200,
                    .entry = (uint32_t)(e - p->m->entries) + 1,
                    .root = source,
                    .path = path,
                    .group = CAY_OR(e->group, ""),
                    .text = rel,
                    .len = strlen(rel) };
    fill_ident(&n.id, st);
    CAY_TRY(count_file(p, e, n.id.size, err));
    return cay__plan_add(p, &n, err);
}

/* Kept when it leads to somewhere inside; one that leads nowhere is judged by its words. */
static bool link_stays(int top, const char *rel, const char *target)
{
    int depth = 0;
    if (*target == '/')
        return false;
    CAY_AUTOFD to = cay__fd_openat2(top, rel, O_PATH | O_CLOEXEC, 0, RESOLVE_BENEATH);
    if (to >= 0 || errno == EXDEV)
        return to >= 0;
    for (const char *s = rel; *s; s++)
        depth += *s == '/';
    for (const char *s = target, *e; *s; s = e + (*e == '/')) {
        e = s + strcspn(s, "/");
        if (e - s == 2 && s[0] == '.' && s[1] == '.')
            depth += -1;
        else if (e == s || (e - s == 1 && *s == '.'))
            depth += 0;
        else
            depth += 1;
        if (depth < 0)
            return false;
    }
    return true;
}

typedef struct walk {
    cay__plan *p;
    const cay__entry *e;
    const cay__ignore *ignore;
    uint32_t source;
    int top;            /* of the walk */
    const char *inside; /* where the top is in the source, "" or with a '/' at its end */
    const char *path;   /* where it goes */
} walk;

static char *join_path(cay__plan *p, const char *a, const char *b, const char *c)
{
    size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
    char *s = cay__arena_take(&p->mem, n);
    cay__str_join(s, n, a, b, c, NULL);
    return s;
}

static int walk_dir(const walk *w, int fd, const char *rel, unsigned depth, cay_err *err);

static int on_link(const walk *w, int dir, const char *name, const char *rel, const char *to,
                   cay_err *err)
{
    char target[4096];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n < 0)
        return cay__local_bad(err, w->e, rel, "path_changed_during_copy", errno);
    target[n] = 0;
    /* A repository's links are its content, and are followed by nobody outside the sandbox. */
    if (w->e->kind->id != CAY__GIT && !link_stays(w->top, rel, target))
        return cay__local_bad(err, w->e, rel, "symlink_not_supported", 0);
    cay__node node = { .type = 'l',
                       .ephemeral = cay__plan_ephemeral(w->p, w->e, NULL),
                       .mode = 0777,
                       .entry = (uint32_t)(w->e - w->p->m->entries) + 1,
                       .path = to,
                       .group = CAY_OR(w->e->group, ""),
                       .text = cay__arena_str(&w->p->mem, target),
                       .len = (size_t)n };
    CAY_TRY(count_file(w->p, w->e, 0, err));
    return cay__plan_add(w->p, &node, err);
}

static int on_dir(const walk *w, int dir, const char *name, const char *rel, const char *to,
                  const struct stat *st, unsigned depth, cay_err *err)
{
    struct stat now;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return cay__local_bad(err, w->e, rel,
                              errno == EACCES ? "unreadable" : "path_changed_during_copy", errno);
    if (fstat(fd, &now) < 0 || now.st_ino != st->st_ino || now.st_dev != st->st_dev) {
        close(fd);
        return cay__local_bad(err, w->e, rel, "path_changed_during_copy", 0);
    }
    cay__node node = { .type = 'd',
                       .ephemeral = cay__plan_ephemeral(w->p, w->e, NULL),
                       .mode = (st->st_mode & 0777) | 0700,
                       .entry = (uint32_t)(w->e - w->p->m->entries) + 1,
                       .path = to,
                       .group = CAY_OR(w->e->group, ""),
                       .text = "" };
    if (cay__plan_add(w->p, &node, err) < 0) {
        close(fd);
        return CAY_EINVAL;
    }
    return walk_dir(w, fd, rel, depth + 1, err);
}

static int on_name(const walk *w, int dir, const char *up, const char *name, unsigned depth,
                   cay_err *err)
{
    struct stat st;
    if (strpbrk(name, "\n\r"))
        return cay__local_bad(err, w->e, name, "control_character", EINVAL);
    const char *rel;
    if (*up)
        rel = join_path(w->p, up, "/", name);
    else
        rel = cay__arena_str(&w->p->mem, name);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cay__local_bad(err, w->e, rel, "path_changed_during_copy", errno);
    if (cay__ignored(w->ignore, rel, S_ISDIR(st.st_mode)))
        return 0;
    const char *to = join_path(w->p, w->path, "/", rel);
    if (strlen(to) >= CAY_MANIFEST_PATH)
        return cay__local_bad(err, w->e, rel, "too_long", ENAMETOOLONG);
    if (S_ISDIR(st.st_mode))
        return on_dir(w, dir, name, rel, to, &st, depth, err);
    if (S_ISLNK(st.st_mode))
        return on_link(w, dir, name, rel, to, err);
    if (S_ISREG(st.st_mode))
        return cay__plan_file(w->p, w->e, w->source,
                              *w->inside ? join_path(w->p, w->inside, rel, "") : rel, to, &st, err);
    w->p->skipped++; /* sockets, pipes, devices: nothing that could be copied */
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted, so that the same directory is the same list. */
static int read_names(const walk *w, int fd, const char *rel, char ***names, size_t *n,
                      cay_err *err)
{
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return cay__local_bad(err, w->e, rel, "unreadable", errno);
    }
    errno = 0;
    for (struct dirent *x; (x = readdir(d)); errno = 0) {
        if (!strcmp(x->d_name, ".") || !strcmp(x->d_name, ".."))
            continue;
        *names = cay__more(*names, *n, sizeof **names);
        (*names)[(*n)++] = cay__strdup(x->d_name);
    }
    int e = errno;
    closedir(d);
    if (*n)
        qsort(*names, *n, sizeof **names, by_name);
    if (e)
        return cay__local_bad(err, w->e, rel, "unreadable", e);
    return 0;
}

static int walk_dir(const walk *w, int fd, const char *rel, unsigned depth, cay_err *err)
{
    char **names = NULL;
    size_t n = 0;
    CAY_AUTOFD dir = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (dir < 0 || depth > 512) {
        int e = errno;
        close(fd);
        if (depth > 512)
            return cay__local_bad(err, w->e, rel, "too_deep", ELOOP);
        return cay__local_bad(err, w->e, rel, "unreadable", e);
    }
    int rc = read_names(w, fd, rel, &names, &n, err);
    CAY_EACH_OF(name, names, n) {
        if (rc == 0)
            rc = on_name(w, dir, rel, *name, depth, err);
        free(*name);
    }
    free(names);
    return rc;
}

int cay__plan_walk(cay__plan *p, const cay__entry *e, int fd, uint32_t source, const char *rel,
                   const char *path, const cay__ignore *ignore, cay_err *err)
{
    CAY_AUTOFD top = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    const walk w = { .p = p,
                     .e = e,
                     .ignore = ignore,
                     .source = source,
                     .top = top,
                     .inside = CAY_TEXT_IF(*rel, join_path(p, rel, "/", "")),
                     .path = path };
    return walk_dir(&w, fd, "", 1, err);
}
