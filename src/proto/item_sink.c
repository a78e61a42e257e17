/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of items into a directory.
 *
 * One thread reads and makes directories and links, in order; small files are gathered into batches
 * that others write, because that is where the time goes. Every path is opened beneath the root
 * without following any link, so a stream that lies about what it made cannot lead out.
 */
#include "item.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/mutant.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV)
enum { BATCH = 1 << 20, BIG = 256 << 10, BATCHES = 4, THREADS_MAX = 8, HOLE = 4096 };

typedef struct batch {
    size_t len;
    char data[BATCH];
} batch;

/* A file in a batch; its path, attributes and bytes follow. */
typedef struct small {
    cay__item it;
    size_t path_len, data_len;
} small;

/* A directory's own mode and time come last: making what is inside would change them. */
typedef struct late {
    struct late *next;
    bool again; /* another came before it */
    cay__item it;
    char path[];
} late;

typedef struct sink {
    cay__sink *o;
    int root, parent; /* parent: of the last path, O_PATH */
    char parent_path[CAY__ITEM_PATH];
    cay__items_in in;
    late *dirs;
    bool begun;
    bool wanted; /* something was below `only` */
    batch *now;
    /* between the threads */
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    batch *free[BATCHES], *full[BATCHES];
    size_t nfree, nfull, busy;
    bool stop;
    int failed; /* code of the first failure of a writer, told in err */
    cay_err err;
    pthread_t thread[THREADS_MAX];
    size_t nthreads;
} sink;

/* A file's capabilities are those of the root that its owners belong to: vfs_ns_cap_data,
 * linux/capability.h. An image may name another root, even the host's own; whatever it says, they
 * are worth something in the sandbox's namespace alone. What has no such form is left out. */
static int set_capability(const sink *s, int fd, const char *value, size_t len)
{
    uint32_t v[6];
    if (len != 20 && len != 24)
        return 0;
    memcpy(v, value, 20);
    uint32_t revision = v[0] >> 24;
    if (revision != (len == 20 ? 2u : 3u))
        return 0;
    v[0] = (v[0] & 0x00ffffff) |
           (s->o->uid_base && !CAY__MUTANT("image-capability") ? 0x03000000 : 0x02000000);
    v[5] = s->o->uid_base;
    return fsetxattr(fd, "security.capability", v, v[0] >> 24 == 3 ? 24 : 20, 0);
}

static int set_attrs(sink *s, int fd, const cay__item *it, cay_err *err)
{
    const char *name, *value;
    size_t at = 0, len;
    while (cay__item_attr(it, &at, &name, &value, &len)) {
        if (s->o->image && !strcmp(name, "security.capability")) {
            if (it->type == CAY__ITEM_FILE && set_capability(s, fd, value, len) < 0 &&
                errno != ENOTSUP && errno != EINVAL)
                return cay_fail_sys(err, CAY_ESYS, "%.150s: attribute %.60s", it->path, name);
            continue;
        }
        if (strncmp(name, "user.", 5) || !strncmp(name, "user.overlay.", 13) ||
            (s->o->overlay && !strncmp(name, s->o->overlay, strlen(s->o->overlay))))
            return cay_fail_why(err, CAY_EINVAL, "archive_special",
                                "%.120s: attribute %.60s is none that an archive may set", it->path,
                                name);
        if (fsetxattr(fd, name, value, len, 0) < 0 && errno != ENOTSUP)
            return cay_fail_sys(err, CAY_ESYS, "%.150s: attribute %.60s", it->path, name);
    }
    if (at > it->extra_len)
        return cay_fail_why(err, CAY_EUPSTREAM, "archive_reader", "%.150s: attributes are cut",
                            it->path);
    return 0;
}

static int set_owner(sink *s, int fd, const cay__item *it, cay_err *err)
{
    const cay__sink *o = s->o;
    uint32_t uid = o->one_owner ? o->uid : it->uid, gid = o->one_owner ? o->gid : it->gid;
    if (!o->owners)
        return 0;
    if (uid > 65535 || gid > 65535)
        return cay_fail_why(err, CAY_EINVAL, "archive_special",
                            "%.150s: owner %u:%u is beyond 65535", it->path, uid, gid);
    if (fchown(fd, o->uid_base + uid, o->uid_base + gid) < 0 &&
        !(errno == EINVAL && !o->uid_base)) /* one id is all there is */
        return cay_fail_sys(err, CAY_ESYS, "%.150s: owner %u:%u", it->path, uid, gid);
    return 0;
}

static int finish_entry(sink *s, int fd, const cay__item *it, cay_err *err)
{
    struct timespec t[2] = { { .tv_nsec = UTIME_OMIT },
                             { .tv_sec = it->mtime, .tv_nsec = it->nsec } };
    if (it->type != CAY__ITEM_FILE)
        CAY_TRY(set_owner(s, fd, it, err));
    if (fchmod(fd, it->mode & 07777) < 0 || futimens(fd, t) < 0)
        return cay_fail_sys(err, CAY_ESYS, "%.150s: mode and time", it->path);
    return 0;
}

static int refused_path(cay_err *err, const char *path)
{
    if (errno == EEXIST)
        return cay_fail_why(err, CAY_EINVAL, "archive_duplicate", "%.150s: comes twice", path);
    if (errno == ELOOP || errno == EXDEV || errno == ENOTDIR)
        return cay_fail_why(err, CAY_EINVAL, "archive_link",
                            "%.150s: is below something that is no directory", path);
    return cay_fail_sys(err, CAY_ESYS, "make %.150s", path);
}

static int create_file(sink *s, const cay__item *it, int *fd, cay_err *err)
{
    *fd = cay__fd_openat2(s->root, it->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                          0600, BENEATH);
    if (*fd < 0)
        return refused_path(err, it->path);
    return 0;
}

/* The directory that holds path, kept for the next that is in the same one. */
static int parent_of(sink *s, const char *path, int *fd, const char **leaf, cay_err *err)
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
            return refused_path(err, path);
        memcpy(s->parent_path, up, n + 1);
    }
    *fd = s->parent;
    return 0;
}

static int write_small(sink *s, const small *f, const char *data, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    CAY_TRY(create_file(s, &f->it, &fd, err));
    if (!cay__fd_write_all(fd, data, f->data_len))
        return cay_fail_sys(err, CAY_ESYS, "write %.150s", f->it.path);
    CAY_TRY(set_owner(s, fd, &f->it, err)); /* first: it takes capabilities away */
    CAY_TRY(set_attrs(s, fd, &f->it, err));
    return finish_entry(s, fd, &f->it, err);
}

static int write_batch(sink *s, batch *b, cay_err *err)
{
    for (size_t at = 0; at < b->len;) {
        small f;
        memcpy(&f, b->data + at, sizeof f);
        f.it.path = b->data + at + sizeof f;
        f.it.extra = f.it.path + f.path_len + 1;
        const char *data = f.it.extra + f.it.extra_len;
        CAY_TRY(write_small(s, &f, data, err));
        at = (size_t)(data + f.data_len - b->data);
    }
    b->len = 0;
    return 0;
}

static void *run_writer(void *arg)
{
    sink *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->nfull && !s->stop)
            pthread_cond_wait(&s->more, &s->lock);
        if (!s->nfull)
            break;
        batch *b = s->full[--s->nfull];
        s->busy++;
        cay_err e = CAY_ERR_INIT;
        bool skip = s->failed < 0;
        pthread_mutex_unlock(&s->lock);
        int rc = 0;
        if (!skip)
            rc = write_batch(s, b, &e);
        pthread_mutex_lock(&s->lock);
        b->len = 0;
        if (rc < 0 && !s->failed) {
            s->failed = rc;
            s->err = e;
        }
        s->free[s->nfree++] = b;
        s->busy--;
        pthread_cond_broadcast(&s->idle);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int get_failure(sink *s, cay_err *err)
{
    if (s->failed < 0 && err)
        *err = s->err;
    return s->failed;
}

/* Gives the batch at hand away and takes an empty one. */
static int dispatch_batch(sink *s, cay_err *err)
{
    if (!s->nthreads)
        return write_batch(s, s->now, err);
    pthread_mutex_lock(&s->lock);
    s->full[s->nfull++] = s->now;
    pthread_cond_signal(&s->more);
    while (!s->nfree)
        pthread_cond_wait(&s->idle, &s->lock);
    s->now = s->free[--s->nfree];
    int rc = get_failure(s, err);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* All that was given away is written. */
static int flush_batches(sink *s, cay_err *err)
{
    CAY_TRY(dispatch_batch(s, err));
    pthread_mutex_lock(&s->lock);
    while (s->nfull || s->busy)
        pthread_cond_wait(&s->idle, &s->lock);
    int rc = get_failure(s, err);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static int count_bytes(sink *s, size_t bytes, cay_err *err)
{
    cay__sink *o = s->o;
    o->bytes += bytes;
    if (o->max_bytes && o->bytes > o->max_bytes)
        return cay_fail_why(err, CAY_ETOOBIG, "archive_limit",
                            "more than %llu bytes come out of it",
                            (unsigned long long)o->max_bytes);
    return 0;
}

/* Zeros stay a hole: a few bytes of an archive can say gigabytes of them. */
static bool write_run(int fd, const char *p, size_t n, uint64_t *hole)
{
    if (n >= HOLE && !p[0] && !memcmp(p, p + 1, n - 1)) {
        *hole += n;
        return true;
    }
    if (*hole && lseek(fd, (off_t)*hole, SEEK_CUR) < 0)
        return false;
    *hole = 0;
    return cay__fd_write_all(fd, p, n);
}

static int big_file(sink *s, const cay__item *it, const char *have, size_t len, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    const char *p = have;
    size_t n = len;
    uint64_t hole = 0, size = 0;
    CAY_TRY(create_file(s, it, &fd, err));
    while (n) {
        size += n;
        if (!write_run(fd, p, n, &hole))
            return cay_fail_sys(err, CAY_ESYS, "write %.150s", it->path);
        CAY_TRY(cay__item_bytes(&s->in, &p, &n, err));
        CAY_TRY(count_bytes(s, n, err));
        if (s->o->seen && n)
            s->o->seen(NULL, p, n, s->o->arg);
        if (s->o->check)
            CAY_TRY(s->o->check(s->o->items, s->o->bytes, s->o->arg, err));
    }
    if (hole && ftruncate(fd, (off_t)size) < 0)
        return cay_fail_sys(err, CAY_ESYS, "write %.150s", it->path);
    CAY_TRY(set_owner(s, fd, it, err));
    CAY_TRY(set_attrs(s, fd, it, err));
    return finish_entry(s, fd, it, err);
}

static int take_file(sink *s, const cay__item *it, cay_err *err)
{
    small f = { .it = *it, .path_len = strlen(it->path) };
    size_t head = sizeof f + f.path_len + 1 + it->extra_len, n;
    const char *p;
    if (s->now->len + head + BIG + CAY__ITEM_PIECE > BATCH)
        CAY_TRY(dispatch_batch(s, err));
    batch *b = s->now;
    char *at = b->data + b->len;
    memcpy(at + sizeof f, it->path, f.path_len + 1);
    memcpy(at + sizeof f + f.path_len + 1, it->extra, it->extra_len);
    do {
        CAY_TRY(cay__item_bytes(&s->in, &p, &n, err));
        CAY_TRY(count_bytes(s, n, err));
        if (n && s->o->seen)
            s->o->seen(NULL, p, n, s->o->arg);
        if (n) /* at the end of an empty file there is no place to copy from */
            memcpy(at + head + f.data_len, p, n);
        f.data_len += n;
        if (f.data_len > BIG)
            return big_file(s, it, at + head, f.data_len, err);
    } while (n);
    memcpy(at, &f, sizeof f);
    b->len += head + f.data_len;
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
static int hide_lower(sink *s, int fd, const char *path, cay_err *err)
{
    char name[64];
    opaque_name(s->o->overlay, name);
    if (fsetxattr(fd, name, "y", 1, 0) < 0)
        return cay_fail_sys(err, CAY_ESYS, "%.150s: hide the lower directory", path);
    return 0;
}

/* One that nobody described looks as it does below. */
static void as_below(sink *s, cay__item *it)
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

static int take_dir(sink *s, const cay__item *given, cay_err *err)
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
            return refused_path(err, it->path);
    }
    if (root)
        fd = openat(s->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    else
        fd = cay__fd_openat2(up, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, BENEATH);
    if (fd < 0)
        return refused_path(err, it->path);
    CAY_TRY(set_attrs(s, fd, it, err));
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

static int take_link(sink *s, const cay__item *it, cay_err *err)
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
        return refused_path(err, it->path);
    uint32_t uid = o->one_owner ? o->uid : it->uid, gid = o->one_owner ? o->gid : it->gid;
    if (o->owners && uid <= 65535 && gid <= 65535 &&
        fchownat(up, leaf, o->uid_base + uid, o->uid_base + gid, AT_SYMLINK_NOFOLLOW) < 0 &&
        !(errno == EINVAL && !o->uid_base))
        return cay_fail_sys(err, CAY_ESYS, "%.150s: owner", it->path);
    if (utimensat(up, leaf, t, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_sys(err, CAY_ESYS, "%.150s: time", it->path);
    return 0;
}

static int take_hard(sink *s, const cay__item *it, cay_err *err)
{
    struct stat st;
    const char *leaf, *to;
    int up;
    CAY_TRY(flush_batches(s, err));
    CAY_TRY(parent_of(s, it->target, &up, &to, err));
    CAY_AUTOFD from = cay__fd_openat2(up, to, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, BENEATH);
    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
        return cay_fail_why(err, CAY_EINVAL, "archive_link",
                            "%.120s: a hard link to %.100s, which is no earlier file", it->path,
                            it->target);
    CAY_AUTOFD old = dup(up); /* parent_of keeps one only */
    CAY_TRY(parent_of(s, it->path, &up, &leaf, err));
    if (old < 0 || linkat(old, to, up, leaf, 0) < 0)
        return refused_path(err, it->path);
    return 0;
}

static int take_gone(sink *s, const cay__item *it, cay_err *err)
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
            return refused_path(err, it->path);
        return hide_lower(s, fd, it->path, err);
    }
    /* overlayfs lists the mark itself where there is no lower directory to take it from. */
    struct stat st;
    if (s->o->lower && (!s->o->lower(it->path, &st, s->o->arg) ||
                        cay__opaque_above(s->root, it->path, s->o->overlay)))
        return 0;
    if (mknodat(up, leaf, S_IFCHR, makedev(0, 0)) < 0)
        return refused_path(err, it->path);
    return 0;
}

/* Opens `below`, making what is missing of it. */
static int go_below(sink *s, cay_err *err)
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
            return refused_path(err, path);
        CAY_TRY(finish_entry(s, fd, &dir, err));
        if (!*p) {
            cay__close_fd(&s->root);
            cay__close_fd(&s->parent);
            s->root = CAY_STEAL_FD(fd);
            break;
        }
    }
    for (late *l; (l = s->dirs);) {
        s->dirs = l->next;
        free(l);
    }
    return 0;
}

/* A path as it is below `only`; NULL when it is elsewhere. */
static const char *below_only(const sink *s, const char *path)
{
    size_t n = strlen(s->o->only);
    if (strncmp(path, s->o->only, n) || (path[n] && path[n] != '/'))
        return NULL;
    if (path[n])
        return path + n + 1;
    return ".";
}

static bool narrow_item(sink *s, cay__item *it)
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
static int read_over(sink *s, cay_err *err)
{
    const char *p;
    size_t n;
    do {
        CAY_TRY(cay__item_bytes(&s->in, &p, &n, err));
        CAY_TRY(count_bytes(s, n, err));
    } while (n);
    return 0;
}

static int process_item(sink *s, cay__item *it, cay_err *err)
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
    case CAY__ITEM_FILE: return take_file(s, it, err);
    case CAY__ITEM_DIR: return take_dir(s, it, err);
    case CAY__ITEM_LINK: return take_link(s, it, err);
    case CAY__ITEM_HARD: return take_hard(s, it, err);
    default: return take_gone(s, it, err);
    }
}

static int finish_dir(sink *s, const late *l, cay_err *err)
{
    CAY_AUTOFD fd =
        !strcmp(l->path, ".")
            ? openat(s->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            : cay__fd_openat2(s->root, l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
    if (fd < 0)
        return refused_path(err, l->path);
    return finish_entry(s, fd, &l->it, err);
}

/* Deepest first, as they were made last. Then those that were told again, in their order: the last
 * word counts. */
static int finish_dirs(sink *s, cay_err *err)
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

static int read_items(sink *s, cay_err *err)
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
    CAY_TRY(flush_batches(s, err));
    return finish_dirs(s, err);
}

static void start_threads(sink *s)
{
    sigset_t all, old;
    for (size_t i = 0; i < BATCHES; i++)
        s->free[s->nfree++] = cay__alloc(sizeof(batch));
    s->now = s->free[--s->nfree];
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's */
    while (s->nthreads < CAY_MIN(s->o->threads, (unsigned)THREADS_MAX) &&
           pthread_create(&s->thread[s->nthreads], NULL, run_writer, s) == 0)
        s->nthreads++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void close_sink(sink *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    if (s->failed == 0 && s->nfull)
        s->failed = CAY_ECANCELED; /* the reader failed: what waits is not written any more */
    pthread_cond_broadcast(&s->more);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->nthreads; i++)
        pthread_join(s->thread[i], NULL);
    while (s->nfree)
        free(s->free[--s->nfree]);
    free(s->now);
    for (late *l; (l = s->dirs);) {
        s->dirs = l->next;
        free(l);
    }
    cay__close_fd(&s->root);
    cay__close_fd(&s->parent);
    cay__items_close(&s->in);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->idle);
}

int cay__sink_run(cay__sink *o, int fd, cay_err *err)
{
    sink *s = cay__alloc(sizeof *s);
    *s = (sink){ .o = o,
                 .parent = -1,
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .more = PTHREAD_COND_INITIALIZER,
                 .idle = PTHREAD_COND_INITIALIZER };
    o->items = o->bytes = 0;
    s->root = openat(o->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cay__items_open(&s->in, fd);
    start_threads(s);
    int rc = 0;
    if (s->root < 0)
        rc = cay_fail_sys(err, CAY_ESYS, "open the directory for the archive");
    if (rc == 0)
        rc = read_items(s, err);
    close_sink(s);
    free(s);
    return rc;
}
