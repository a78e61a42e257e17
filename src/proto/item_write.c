/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a stream of items: owners, attributes and modes of what is made, and the threads that
 * write small files in batches, because that is where the time goes.
 */
#include "item_sink.h"
#include <base/base.h>
#include <base/mutant.h>
#include <signal.h>
#include <sys/xattr.h>

enum { BATCH = 1 << 20, BIG = 256 << 10, HOLE = 4096 };

struct batch {
    size_t len;
    char data[BATCH];
};

/* A file in a batch; its path, attributes and bytes follow. */
typedef struct small {
    cay__item it;
    size_t path_len, data_len;
} small;

/* A file's capabilities are those of the root that its owners belong to: vfs_ns_cap_data,
 * linux/capability.h. An image may name another root, even the host's own; whatever it says, they
 * are worth something in the sandbox's namespace alone. What has no such form is left out. */
static int set_capability(const cay__sink_work *s, int fd, const char *value, size_t len)
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

int cay__sink_attrs(cay__sink_work *s, int fd, const cay__item *it, cay_err *err)
{
    const char *name, *value;
    size_t at = 0, len;
    while (cay__item_attr(it, &at, &name, &value, &len)) {
        if (s->o->image && !strcmp(name, "security.capability")) {
            if (it->type == CAY__ITEM_FILE && set_capability(s, fd, value, len) < 0 &&
                errno != ENOTSUP && errno != EINVAL)
                return cay_fail_sys(err, "%.150s: attribute %.60s", it->path, name);
            continue;
        }
        if (strncmp(name, "user.", 5) || !strncmp(name, "user.overlay.", 13) ||
            (s->o->overlay && !strncmp(name, s->o->overlay, strlen(s->o->overlay))))
            return cay_fail_why(err, CAY_EINVAL, "archive_special",
                                "%.120s: attribute %.60s is none that an archive may set", it->path,
                                name);
        if (fsetxattr(fd, name, value, len, 0) < 0 && errno != ENOTSUP)
            return cay_fail_sys(err, "%.150s: attribute %.60s", it->path, name);
    }
    if (at > it->extra_len)
        return cay_fail_why(err, CAY_EUPSTREAM, "archive_reader", "%.150s: attributes are cut",
                            it->path);
    return 0;
}

void cay__sink_owner(const cay__sink *o, const cay__item *it, uint32_t *uid, uint32_t *gid)
{
    *uid = it->uid;
    *gid = it->gid;
    if (o->one_owner) {
        *uid = o->uid;
        *gid = o->gid;
    }
}

static int set_owner(cay__sink_work *s, int fd, const cay__item *it, cay_err *err)
{
    const cay__sink *o = s->o;
    uint32_t uid, gid;
    cay__sink_owner(o, it, &uid, &gid);
    if (!o->owners)
        return 0;
    if (uid > 65535 || gid > 65535)
        return cay_fail_why(err, CAY_EINVAL, "archive_special",
                            "%.150s: owner %u:%u is beyond 65535", it->path, uid, gid);
    if (fchown(fd, o->uid_base + uid, o->uid_base + gid) < 0 &&
        !(errno == EINVAL && !o->uid_base)) /* one id is all there is */
        return cay_fail_sys(err, "%.150s: owner %u:%u", it->path, uid, gid);
    return 0;
}

int cay__sink_finish(cay__sink_work *s, int fd, const cay__item *it, cay_err *err)
{
    struct timespec t[2] = { { .tv_nsec = UTIME_OMIT },
                             { .tv_sec = it->mtime, .tv_nsec = it->nsec } };
    if (it->type != CAY__ITEM_FILE)
        CAY_TRY(set_owner(s, fd, it, err));
    if (fchmod(fd, it->mode & 07777) < 0 || futimens(fd, t) < 0)
        return cay_fail_sys(err, "%.150s: mode and time", it->path);
    return 0;
}

int cay__sink_refuse(cay_err *err, const char *path)
{
    if (errno == EEXIST)
        return cay_fail_why(err, CAY_EINVAL, "archive_duplicate", "%.150s: comes twice", path);
    if (errno == ELOOP || errno == EXDEV || errno == ENOTDIR)
        return cay_fail_why(err, CAY_EINVAL, "archive_link",
                            "%.150s: is below something that is no directory", path);
    return cay_fail_sys(err, "make %.150s", path);
}

static int create_file(cay__sink_work *s, const cay__item *it, int *fd, cay_err *err)
{
    *fd = cay__fd_openat2(s->root, it->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                          0600, BENEATH);
    if (*fd < 0)
        return cay__sink_refuse(err, it->path);
    return 0;
}

static int write_small(cay__sink_work *s, const small *f, const char *data, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    CAY_TRY(create_file(s, &f->it, &fd, err));
    if (!cay__fd_write_all(fd, data, f->data_len))
        return cay_fail_sys(err, "write %.150s", f->it.path);
    CAY_TRY(set_owner(s, fd, &f->it, err)); /* first: it takes capabilities away */
    CAY_TRY(cay__sink_attrs(s, fd, &f->it, err));
    return cay__sink_finish(s, fd, &f->it, err);
}

static int write_batch(cay__sink_work *s, batch *b, cay_err *err)
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
    cay__sink_work *s = arg;
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

static int get_failure(cay__sink_work *s, cay_err *err)
{
    if (s->failed < 0 && err)
        *err = s->err;
    return s->failed;
}

/* Gives the batch at hand away and takes an empty one. */
static int dispatch_batch(cay__sink_work *s, cay_err *err)
{
    if (!s->nthreads)
        return write_batch(s, s->now, err);
    CAY_LOCK(&s->lock);
    s->full[s->nfull++] = s->now;
    pthread_cond_signal(&s->more);
    while (!s->nfree)
        pthread_cond_wait(&s->idle, &s->lock);
    s->now = s->free[--s->nfree];
    return get_failure(s, err);
}

/* All that was given away is written. */
int cay__sink_flush(cay__sink_work *s, cay_err *err)
{
    CAY_TRY(dispatch_batch(s, err));
    CAY_LOCK(&s->lock);
    while (s->nfull || s->busy)
        pthread_cond_wait(&s->idle, &s->lock);
    return get_failure(s, err);
}

int cay__sink_count(cay__sink_work *s, size_t bytes, cay_err *err)
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

static int big_file(cay__sink_work *s, const cay__item *it, const char *have, size_t len,
                    cay_err *err)
{
    CAY_AUTOFD fd = -1;
    const char *p = have;
    size_t n = len;
    uint64_t hole = 0, size = 0;
    CAY_TRY(create_file(s, it, &fd, err));
    while (n) {
        size += n;
        if (!write_run(fd, p, n, &hole))
            return cay_fail_sys(err, "write %.150s", it->path);
        CAY_TRY(cay__item_bytes(&s->in, &p, &n, err));
        CAY_TRY(cay__sink_count(s, n, err));
        if (s->o->seen && n)
            s->o->seen(NULL, p, n, s->o->arg);
        if (s->o->check)
            CAY_TRY(s->o->check(s->o->items, s->o->bytes, s->o->arg, err));
    }
    if (hole && ftruncate(fd, (off_t)size) < 0)
        return cay_fail_sys(err, "write %.150s", it->path);
    CAY_TRY(set_owner(s, fd, it, err));
    CAY_TRY(cay__sink_attrs(s, fd, it, err));
    return cay__sink_finish(s, fd, it, err);
}

int cay__sink_file(cay__sink_work *s, const cay__item *it, cay_err *err)
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
        CAY_TRY(cay__sink_count(s, n, err));
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

void cay__sink_start(cay__sink_work *s)
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

void cay__sink_stop(cay__sink_work *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    if (s->failed == 0 && s->nfull)
        s->failed = CAY_ECANCELED; /* the reader failed: what waits is not written any more */
    pthread_cond_broadcast(&s->more);
    pthread_mutex_unlock(&s->lock);
    CAY_EACH_OF(it, s->thread, s->nthreads)
        pthread_join(*it, NULL);
    while (s->nfree)
        free(s->free[--s->nfree]);
    free(s->now);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->idle);
}
