/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"
#include "out.h"
#include <base/base.h>
#include <dirent.h>

enum { CHUNK = 256 << 10, DEPTH = 128 };

/* Moves everything; splice(2) where one end is a pipe, else through memory. */
static int move_bytes(int from, int to, const char *what, cli_progress *bar, cay_err *err)
{
    bool splicing = true;
    CAY_AUTOFREE char *buf = NULL;
    for (;;) {
        ssize_t n;
        if (splicing)
            n = splice(from, NULL, to, NULL, CHUNK, SPLICE_F_MOVE);
        else
            n = read(from, buf, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && splicing && errno == EINVAL) {
            splicing = false;
            buf = cay__alloc(CHUNK);
            continue;
        }
        if (n == 0)
            return 0;
        if (n < 0 || (!splicing && !cay__fd_write_all(to, buf, (size_t)n)))
            return cay_fail_sys(err, "copy %s", what);
        progress_add(bar, (uint64_t)n);
    }
}

int copy_fd_in(cay_sandbox *sb, int fd, const char *path, uint32_t mode, const copy_opts *o,
               cay_err *err)
{
    cay_upload *up = NULL;
    cay_write spec = { .size = sizeof spec, .mode = mode & 07777, .parents = o->parents };
    CAY_TRY(cay_file_open_write(sb, NULL, path, &spec, &up, err));
    int rc = move_bytes(fd, cay_upload_fd(up), path, o->bar, err);
    if (rc >= 0)
        return cay_upload_commit(up, NULL, err);
    /* The other end knows better why it stopped reading than our EPIPE does. */
    cay_err why = CAY_ERR_INIT;
    if (err && err->sys == EPIPE && cay_upload_commit(up, NULL, &why) < 0)
        *err = why;
    else if (!err || err->sys != EPIPE)
        cay_upload_abort(up);
    return rc;
}

static int show_escaped(int fd, cli_progress *bar)
{
    char buf[4096];
    ssize_t n;
    while (!out_broken() && (n = read(fd, buf, sizeof buf)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        out_data(1, buf, (size_t)n);
        progress_add(bar, 0);
    }
    return 0;
}

int copy_fd_out(cay_sandbox *sb, const char *path, int fd, const copy_opts *o, cay_err *err)
{
    CAY_AUTOFD from = -1;
    CAY_TRY(cay_file_open_read(sb, NULL, path, NULL, &from, err));
    if (isatty(fd))
        return show_escaped(from, o->bar);
    return move_bytes(from, fd, path, o->bar, err);
}

static int join_path(char *out, size_t cap, const char *dir, const char *name, cay_err *err)
{
    size_t n = strlen(dir);
    if (!cay__str_join(out, cap, dir, n && dir[n - 1] == '/' ? "" : "/", name, NULL))
        return cay_fail(err, CAY_ETOOBIG, "%.100s/%.100s: path too long", dir, name);
    return 0;
}

static int entry_in(cay_sandbox *sb, int dir, const char *name, const char *to, unsigned depth,
                    copy_opts *o, cay_err *err);

static int dir_in(cay_sandbox *sb, int fd, const struct stat *st, const char *to, unsigned depth,
                  copy_opts *o, cay_err *err)
{
    DIR *d = fdopendir(fd);
    int rc = 0;
    if (!d) {
        close(fd);
        return cay_fail_sys(err, "read %s", to);
    }
    rc = cay_file_mkdir(sb, NULL, to, (uint32_t)st->st_mode & 0777, o->parents, err);
    if (rc == CAY_EEXIST)
        rc = 0;
    for (struct dirent *e; rc >= 0 && (e = readdir(d));) {
        char path[4096];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        rc = join_path(path, sizeof path, to, e->d_name, err);
        if (rc >= 0)
            rc = entry_in(sb, dirfd(d), e->d_name, path, depth + 1, o, err);
    }
    closedir(d);
    return rc;
}

static int link_in(cay_sandbox *sb, int dir, const char *name, const char *to, cay_err *err)
{
    char target[4096];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
    if (n < 0)
        return cay_fail_sys(err, "read link %s", name);
    target[n] = 0;
    int rc = cay_file_symlink(sb, NULL, target, to, err);
    if (rc == CAY_EEXIST) {
        CAY_TRY(cay_file_remove(sb, NULL, to, false, err));
        rc = cay_file_symlink(sb, NULL, target, to, err);
    }
    return rc;
}

static int entry_in(cay_sandbox *sb, int dir, const char *name, const char *to, unsigned depth,
                    copy_opts *o, cay_err *err)
{
    struct stat st;
    /* The first name is the user's own word and may be a link; below, links are copied as links. */
    CAY_TRY_SYS(fstatat(dir, name, &st, depth ? AT_SYMLINK_NOFOLLOW : 0), err, "%s", name);
    if (S_ISLNK(st.st_mode))
        return link_in(sb, dir, name, to, err);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        out_note("cay: %s skipped: neither file, directory nor link", name);
        o->skipped++;
        return 0;
    }
    if (depth > DEPTH)
        return cay_fail(err, CAY_ETOOBIG, "%s: more than %d directories deep", to, DEPTH);
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (depth ? O_NOFOLLOW : 0);
    CAY_AUTOFD fd = openat(dir, name, flags | (S_ISDIR(st.st_mode) ? O_DIRECTORY : 0));
    if (fd < 0)
        return cay_fail_sys(err, "%s", name);
    if (S_ISDIR(st.st_mode))
        return dir_in(sb, CAY_STEAL_FD(fd), &st, to, depth, o, err);
    o->bar->files++;
    return copy_fd_in(sb, fd, to, (uint32_t)st.st_mode & 0777, o, err);
}

static uint64_t size_of(int dir, const char *name, unsigned depth)
{
    struct stat st;
    uint64_t sum = 0;
    if (fstatat(dir, name, &st, depth ? AT_SYMLINK_NOFOLLOW : 0) < 0)
        return 0;
    if (S_ISREG(st.st_mode))
        return (uint64_t)st.st_size;
    if (!S_ISDIR(st.st_mode) || depth > DEPTH)
        return 0;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
    DIR *d = NULL;
    if (fd >= 0)
        d = fdopendir(fd);
    if (!d) {
        cay__close_fd(&fd);
        return 0;
    }
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            sum += size_of(dirfd(d), e->d_name, depth + 1);
    closedir(d);
    return sum;
}

int copy_tree_in(cay_sandbox *sb, const char *from, const char *to, copy_opts *o, cay_err *err)
{
    if (o->bar->on) /* only a bar needs to know how much there is */
        o->bar->total = size_of(AT_FDCWD, from, 0);
    return entry_in(sb, AT_FDCWD, from, to, 0, o, err);
}

/* What is to be made here. */
typedef struct thing {
    cay_file_type type;
    uint32_t mode;
    char *target; /* of a link */
} thing;

/* One directory's listing, held while its entries are fetched. */
typedef struct listing {
    struct listed {
        char *name;
        thing is;
    } * v;
    size_t n;
} listing;

static int on_entry(const cay_dirent *e, void *arg)
{
    listing *l = arg;
    enum { MOST = 1 << 20 };
    /* A hostile listing could name anything. */
    if (!*e->path || strchr(e->path, '/') || !strcmp(e->path, ".") || !strcmp(e->path, ".."))
        return CAY_EINVAL;
    if (l->n == MOST)
        return CAY_ETOOBIG;
    CAY_GROW(l->v, l->n);
    l->v[l->n++] = (struct listed){ cay__strdup(e->path),
                                    { e->st.type, e->st.mode,
                                      e->st.type == CAY_LINK ? cay__strdup(e->st.target) : NULL } };
    return 0;
}

static void listing_clear(listing *l)
{
    CAY_EACH_OF(it, l->v, l->n) {
        free(it->name);
        free(it->is.target);
    }
    free(l->v);
}

static int file_out(cay_sandbox *sb, const char *from, const thing *is, int dir, const char *name,
                    copy_opts *o, cay_err *err)
{
    char temp[64], id[21];
    CAY_AUTOFD src = -1;
    CAY_AUTOFD dst = -1;
    CAY_TRY(cay_file_open_read(sb, NULL, from, NULL, &src, err));
    cay__id_make(id, 'd');
    CAY_FORMAT(temp, ".cay-%s", id);
    dst = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (dst < 0)
        return cay_fail_sys(err, "write %s", name);
    /* Neither set-id bits nor more than our umask allows leave the sandbox. */
    mode_t mask = umask(0);
    umask(mask);
    int rc = move_bytes(src, dst, from, o->bar, err);
    if (rc >= 0 && (fchmod(dst, is->mode & 0777 & ~mask) < 0 || renameat(dir, temp, dir, name) < 0))
        rc = cay_fail_sys(err, "write %s", name);
    if (rc < 0)
        unlinkat(dir, temp, 0);
    else
        o->bar->files++;
    return rc;
}

static int link_out(const thing *is, int dir, const char *name, cay_err *err)
{
    if (symlinkat(is->target, dir, name) < 0 && errno == EEXIST && unlinkat(dir, name, 0) == 0 &&
        symlinkat(is->target, dir, name) == 0)
        return 0;
    struct stat have;
    if (fstatat(dir, name, &have, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISLNK(have.st_mode))
        return cay_fail_sys(err, "make link %s", name);
    return 0;
}

static int dir_out(cay_sandbox *sb, const char *from, const thing *is, int dir, const char *name,
                   unsigned depth, copy_opts *o, cay_err *err);

static int entry_out(cay_sandbox *sb, const char *from, const thing *is, int dir, const char *name,
                     unsigned depth, copy_opts *o, cay_err *err)
{
    switch (is->type) {
    case CAY_FILE: return file_out(sb, from, is, dir, name, o, err);
    case CAY_LINK: return link_out(is, dir, name, err);
    case CAY_DIR: return dir_out(sb, from, is, dir, name, depth, o, err);
    case CAY_OTHER: break;
    }
    out_note("cay: %s skipped: neither file, directory nor link", from);
    o->skipped++;
    return 0;
}

static int dir_out(cay_sandbox *sb, const char *from, const thing *is, int dir, const char *name,
                   unsigned depth, copy_opts *o, cay_err *err)
{
    listing l = { 0 };
    if (depth > DEPTH)
        return cay_fail(err, CAY_ETOOBIG, "%.100s: more than %d directories deep", from, DEPTH);
    if (mkdirat(dir, name, (is->mode & 0777) | 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make directory %s", name);
    CAY_AUTOFD fd =
        openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
    if (fd < 0)
        return cay_fail_sys(err, "open %s", name);
    int rc = cay_dir_list(sb, NULL, from, 1, on_entry, &l, err);
    if (rc == CAY_EINVAL && err && !err->msg[0])
        cay_fail(err, rc, "%.100s lists a name that is none", from);
    for (size_t i = 0; rc >= 0 && i < l.n; i++) {
        char path[4096];
        rc = join_path(path, sizeof path, from, l.v[i].name, err);
        if (rc >= 0)
            rc = entry_out(sb, path, &l.v[i].is, fd, l.v[i].name, depth + 1, o, err);
    }
    listing_clear(&l);
    return rc;
}

int copy_tree_out(cay_sandbox *sb, const char *from, const char *to, copy_opts *o, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    char parent[4096];
    const char *slash = strrchr(to, '/'), *name = slash ? slash + 1 : to;
    CAY_TRY(cay_file_stat(sb, NULL, from, true, &st, err));
    CAY_COPY(parent, slash ? to : ".");
    if (slash)
        parent[slash == to ? 1 : slash - to] = 0;
    CAY_AUTOFD dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return cay_fail_sys(err, "open %s", parent);
    if (st.type == CAY_FILE)
        o->bar->total = st.size;
    return entry_out(sb, from, &(thing){ st.type, st.mode, st.target }, dir,
                     cay__text_or(name, "."), 0, o, err);
}
