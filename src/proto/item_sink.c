/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of items into a directory.
 *
 * One thread reads and makes directories and links, in order; item_write.c writes the files. Every
 * path is opened beneath the root without following any link, so a stream that lies about what it
 * made cannot lead out.
 */
#include "item_sink.h"
#include <base/base.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

/* The directory that holds path, kept for the next that is in the same one. */
static int parent_of(cay__sink_work *s, const char *path, int *fd, const char **leaf, cay_err *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = 0;
    if (slash)
        n = (size_t)(slash - path);
    if (slash)
        *leaf = slash + 1;
    else
        *leaf = path;
    if (!slash) {
        *fd = s->root;
        return 0;
    }
    if (s->parent < 0 || strncmp(s->parent_path, path, n) || s->parent_path[n]) {
        char up[CAY__ITEM_PATH];
        memcpy(up, path, n);
        up[n] = 0;
        cay__close_fd(&s->parent);
        s->parent = cay__fd_openat2(s->root, up, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
        if (s->parent < 0)
            return cay__sink_refuse(err, path);
        memcpy(s->parent_path, up, n + 1);
    }
    *fd = s->parent;
    return 0;
}

static void opaque_name(const char *overlay, char out[64])
{
    size_t n = strlen(overlay);
    memcpy(out, overlay, n);
    memcpy(out + n, "opaque", 7);
}

bool cay__opaque_above(int root, const char *path, const char *overlay)
{
    char name[64], up[CAY__ITEM_PATH], y;
    opaque_name(overlay, name);
    for (const char *p = path; (p = strchr(p, '/')); p++) {
        memcpy(up, path, (size_t)(p - path));
        up[p - path] = 0;
        CAY_AUTOFD fd = cay__fd_openat2(root, up, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
        if (fd < 0)
            return false;
        if (fgetxattr(fd, name, &y, 1) == 1 && y == 'y')
            return true;
    }
    return false;
}

/* Nothing of a lower layer shows through it. */
static int hide_lower(cay__sink_work *s, int fd, const char *path, cay_err *err)
{
    char name[64];
    opaque_name(s->o->overlay, name);
    CAY_TRY_SYS(fsetxattr(fd, name, "y", 1, 0), err, "%.150s: hide the lower directory", path);
    return 0;
}

/* One that nobody described looks as it does below. */
static void as_below(cay__sink_work *s, cay__item *it)
{
    struct stat st;
    const cay__sink *o = s->o;
    if (!(it->flags & CAY__ITEM_IMPLIED) || !o->lower || !o->lower(it->path, &st, o->arg) ||
        !S_ISDIR(st.st_mode))
        return;
    it->mode = st.st_mode & 07777;
    it->uid = st.st_uid - o->uid_base;
    it->gid = st.st_gid - o->uid_base;
    it->mtime = st.st_mtim.tv_sec;
    it->nsec = (uint32_t)st.st_mtim.tv_nsec;
}

static int take_dir(cay__sink_work *s, const cay__item *given, cay_err *err)
{
    const char *leaf;
    int up;
    CAY_AUTOFD fd = -1;
    bool again = false;
    cay__item own_it = *given, *it = &own_it;
    bool root = !strcmp(it->path, ".");
    as_below(s, it);
    if (it->flags & CAY__ITEM_OPAQUE && (!s->o->overlay || root))
        return cay_fail_why(err, CAY_EINVAL, "archive_special",
                            "%.150s: only an archive of ours may hide a lower directory", it->path);
    if (!root) {
        CAY_TRY(parent_of(s, it->path, &up, &leaf, err));
        again = mkdirat(up, leaf, 0700) < 0;
        if (again && errno != EEXIST)
            return cay__sink_refuse(err, it->path);
    }
    if (root)
        fd = openat(s->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    else
        fd = cay__fd_openat2(up, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, BENEATH);
    if (fd < 0)
        return cay__sink_refuse(err, it->path);
    CAY_TRY(cay__sink_attrs(s, fd, it, err));
    if (it->flags & CAY__ITEM_OPAQUE)
        CAY_TRY(hide_lower(s, fd, it->path, err));
    size_t len = strlen(it->path) + 1;
    late *l = cay__alloc(sizeof *l + len);
    l->it = *it;
    memcpy(l->path, it->path, len);
    l->it.path = l->path;
    l->it.extra_len = 0;
    l->again = again;
    l->next = s->dirs;
    s->dirs = l;
    return 0;
}

static int take_link(cay__sink_work *s, const cay__item *it, cay_err *err)
{
    const cay__sink *o = s->o;
    struct timespec t[2] = { { .tv_nsec = UTIME_OMIT },
                             { .tv_sec = it->mtime, .tv_nsec = it->nsec } };
    const char *leaf;
    int up;
    CAY_TRY(parent_of(s, it->path, &up, &leaf, err));
    if (!it->target[0])
        return cay_fail_why(err, CAY_EINVAL, "archive_link", "%.150s: a link to nowhere", it->path);
    if (symlinkat(it->target, up, leaf) < 0)
        return cay__sink_refuse(err, it->path);
    uint32_t uid, gid;
    cay__sink_owner(o, it, &uid, &gid);
    if (o->owners && uid <= 65535 && gid <= 65535 &&
        fchownat(up, leaf, o->uid_base + uid, o->uid_base + gid, AT_SYMLINK_NOFOLLOW) < 0 &&
        !(errno == EINVAL && !o->uid_base))
        return cay_fail_sys(err, "%.150s: owner", it->path);
    CAY_TRY_SYS(utimensat(up, leaf, t, AT_SYMLINK_NOFOLLOW), err, "%.150s: time", it->path);
    return 0;
}

static int take_hard(cay__sink_work *s, const cay__item *it, cay_err *err)
{
    struct stat st;
    const char *leaf, *to;
    int up;
    CAY_TRY(cay__sink_flush(s, err));
    CAY_TRY(parent_of(s, it->target, &up, &to, err));
    CAY_AUTOFD from = cay__fd_openat2(up, to, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, BENEATH);
    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
        return cay_fail_why(err, CAY_EINVAL, "archive_link",
                            "%.120s: a hard link to %.100s, which is no earlier file", it->path,
                            it->target);
    CAY_AUTOFD old = dup(up); /* parent_of keeps one only */
    CAY_TRY(parent_of(s, it->path, &up, &leaf, err));
    if (old < 0 || linkat(old, to, up, leaf, 0) < 0)
        return cay__sink_refuse(err, it->path);
    return 0;
}

static int take_gone(cay__sink_work *s, const cay__item *it, cay_err *err)
{
    const char *leaf;
    int up;
    if (!s->o->overlay)
        return cay_fail_why(err, CAY_EINVAL, "archive_special",
                            "%.150s: only an archive of ours may remove a lower file", it->path);
    CAY_TRY(parent_of(s, it->path, &up, &leaf, err));
    if (it->flags & CAY__ITEM_OPAQUE) {
        CAY_AUTOFD fd =
            cay__fd_openat2(up, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, BENEATH);
        if (fd < 0)
            return cay__sink_refuse(err, it->path);
        return hide_lower(s, fd, it->path, err);
    }
    /* overlayfs lists the mark itself where there is no lower directory to take it from. */
    struct stat st;
    if (s->o->lower && (!s->o->lower(it->path, &st, s->o->arg) ||
                        cay__opaque_above(s->root, it->path, s->o->overlay)))
        return 0;
    if (mknodat(up, leaf, S_IFCHR, makedev(0, 0)) < 0)
        return cay__sink_refuse(err, it->path);
    return 0;
}

static void drop_dirs(cay__sink_work *s)
{
    for (late *l; (l = s->dirs);) {
        s->dirs = l->next;
        free(l);
    }
}

/* Opens `below`, making what is missing of it. */
static int go_below(cay__sink_work *s, cay_err *err)
{
    char path[CAY__ITEM_PATH];
    if (!s->o->below)
        return 0;
    if (!cay__item_path_ok(s->o->below, false))
        return cay_fail(err, CAY_EINVAL, "\"%.150s\" is no path below the root", s->o->below);
    for (const char *p = s->o->below;; p++) {
        p += strcspn(p, "/");
        memcpy(path, s->o->below, (size_t)(p - s->o->below));
        path[p - s->o->below] = 0;
        cay__item dir = { .type = CAY__ITEM_DIR,
                          .mode = 0755,
                          .uid = s->o->uid,
                          .gid = s->o->gid,
                          .path = path,
                          .mtime = 0 };
        dir.mtime = cay__clock_ms() / 1000;
        CAY_TRY(take_dir(s, &dir, err));
        CAY_AUTOFD fd =
            cay__fd_openat2(s->root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
        if (fd < 0)
            return cay__sink_refuse(err, path);
        CAY_TRY(cay__sink_finish(s, fd, &dir, err));
        if (!*p) {
            cay__close_fd(&s->root);
            cay__close_fd(&s->parent);
            s->root = CAY_STEAL_FD(fd);
            break;
        }
    }
    drop_dirs(s);
    return 0;
}

/* A path as it is below `only`; NULL when it is elsewhere. */
static const char *below_only(const cay__sink_work *s, const char *path)
{
    size_t n = strlen(s->o->only);
    if (strncmp(path, s->o->only, n) || (path[n] && path[n] != '/'))
        return NULL;
    if (path[n])
        return path + n + 1;
    return ".";
}

static bool narrow_item(cay__sink_work *s, cay__item *it)
{
    const char *path = below_only(s, it->path);
    if (!path || (it->type != CAY__ITEM_DIR && !strcmp(path, ".")))
        return false;
    if (it->type == CAY__ITEM_HARD) {
        const char *to = below_only(s, it->target);
        it->target = CAY_OR(to, "."); /* which is no file: refused */
    }
    it->path = path;
    s->wanted = true;
    return true;
}

/* Bytes of a file that nobody wants still count. */
static int read_over(cay__sink_work *s, cay_err *err)
{
    const char *p;
    size_t n;
    do {
        CAY_TRY(cay__item_bytes(&s->in, &p, &n, err));
        CAY_TRY(cay__sink_count(s, n, err));
    } while (n);
    return 0;
}

static int process_item(cay__sink_work *s, cay__item *it, cay_err *err)
{
    cay__sink *o = s->o;
    if (it->type == CAY__ITEM_NOTE) {
        if (o->note)
            return o->note(it->path, it->extra, it->extra_len, o->arg, err);
        return 0;
    }
    if (!s->begun) { /* what comes before the tree may have said where it goes */
        s->begun = true;
        CAY_TRY(go_below(s, err));
    }
    if (!cay__item_path_ok(it->path, it->type == CAY__ITEM_DIR) ||
        (it->type == CAY__ITEM_HARD && !cay__item_path_ok(it->target, false)))
        return cay_fail_why(err, CAY_EINVAL, "archive_path", "\"%.150s\" is no path below the root",
                            it->path);
    if (o->max_items && o->items >= o->max_items)
        return cay_fail_why(err, CAY_ETOOBIG, "archive_limit", "it has more than %llu members",
                            (unsigned long long)o->max_items);
    o->items++;
    if (o->seen)
        o->seen(it, NULL, 0, o->arg);
    if (o->check && o->items % 64 == 0)
        CAY_TRY(o->check(o->items, o->bytes, o->arg, err));
    if (o->only && !narrow_item(s, it))
        return read_over(s, err);
    switch (it->type) {
    case CAY__ITEM_FILE: return cay__sink_file(s, it, err);
    case CAY__ITEM_DIR: return take_dir(s, it, err);
    case CAY__ITEM_LINK: return take_link(s, it, err);
    case CAY__ITEM_HARD: return take_hard(s, it, err);
    default: return take_gone(s, it, err);
    }
}

static int finish_dir(cay__sink_work *s, const late *l, cay_err *err)
{
    CAY_AUTOFD fd =
        cay__fd_openat2(s->root, l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
    if (fd < 0)
        return cay__sink_refuse(err, l->path);
    return cay__sink_finish(s, fd, &l->it, err);
}

/* Deepest first, as they were made last. Then those that were told again, in their order: the last
 * word counts. */
static int finish_dirs(cay__sink_work *s, cay_err *err)
{
    late *twice = NULL;
    for (late *l = s->dirs, *next; l; l = next) {
        next = l->next;
        if (!l->again)
            CAY_TRY(finish_dir(s, l, err));
    }
    for (late **at = &s->dirs; *at;) {
        late *l = *at;
        if (!l->again) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        l->next = twice;
        twice = l;
    }
    int rc = 0;
    for (late *l = twice, *next; l; l = next) {
        next = l->next;
        if (rc == 0)
            rc = finish_dir(s, l, err);
        free(l);
    }
    return rc;
}

static int read_items(cay__sink_work *s, cay_err *err)
{
    cay__item it;
    for (;;) {
        CAY_TRY(cay__item_next(&s->in, &it, err));
        if (it.type == CAY__ITEM_END)
            break;
        CAY_TRY(process_item(s, &it, err));
    }
    if (it.size != s->o->bytes || it.mode != (uint32_t)s->o->items)
        return cay_fail_why(err, CAY_EUPSTREAM, "archive_reader",
                            "the archive's reader lost something on the way");
    if (s->o->only && !s->wanted)
        return cay_fail_why(err, CAY_EINVAL, "archive_path", "there is no directory %.150s in it",
                            s->o->only);
    CAY_TRY(cay__sink_flush(s, err));
    return finish_dirs(s, err);
}

static void close_sink(cay__sink_work *s)
{
    cay__sink_stop(s);
    drop_dirs(s);
    cay__close_fd(&s->root);
    cay__close_fd(&s->parent);
    cay__items_close(&s->in);
}

int cay__sink_run(cay__sink *o, int fd, cay_err *err)
{
    cay__sink_work *s = cay__alloc(sizeof *s);
    *s = (cay__sink_work){ .o = o,
                           .parent = -1,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .more = PTHREAD_COND_INITIALIZER,
                           .idle = PTHREAD_COND_INITIALIZER };
    o->items = o->bytes = 0;
    s->root = openat(o->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cay__items_open(&s->in, fd);
    cay__sink_start(s);
    int rc = 0;
    if (s->root < 0)
        rc = cay_fail_sys(err, "open the directory for the archive");
    if (rc == 0)
        rc = read_items(s, err);
    close_sink(s);
    free(s);
    return rc;
}
