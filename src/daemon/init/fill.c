/* SPDX-License-Identifier: Apache-2.0 */
/* Many files in one go: the records of a pipe, made one after the other, without a question and an
 * answer for each. */
#include "session_ops.h"
#include <base/base.h>

typedef struct fill {
    cay__ses *s;
    char *buf; /* what was read of the pipe: from at to end */
    size_t room, at, end;
    int dir; /* that the last name was in, and its path */
    char up[CAY__FS_PATH_MAX];
} fill;

static int fail_with_errno(int e)
{
    errno = e;
    return -1;
}

/* Something to take: false at the end of the pipe. */
static bool refill_buffer(fill *f)
{
    ssize_t n = 1;
    while (f->at == f->end && (n = read(f->s->fd, f->buf, f->room)) < 0 && errno == EINTR)
        ;
    if (f->at == f->end) {
        f->at = 0;
        if (n > 0)
            f->end = (size_t)n;
        else
            f->end = 0;
    }
    return f->at < f->end;
}

static int read_bytes(fill *f, void *dst, size_t n)
{
    for (char *to = dst; n;) {
        if (!refill_buffer(f))
            return fail_with_errno(EPROTO);
        size_t k = CAY_MIN(n, f->end - f->at);
        memcpy(to, f->buf + f->at, k);
        to += k;
        n -= k;
        f->at += k;
    }
    return 0;
}

static int write_to_file(fill *f, int fd, uint64_t n)
{
    while (n) {
        if (!refill_buffer(f))
            return fail_with_errno(EPROTO);
        size_t k = (size_t)CAY_MIN(n, (uint64_t)(f->end - f->at));
        if (!cay__fd_write_all(fd, f->buf + f->at, k))
            return -1;
        f->at += k;
        n -= k;
    }
    return 0;
}

/* The directory of path stays open for the names that follow in it. */
static int open_parent(fill *f, const char *path, char *name)
{
    const char *slash = strrchr(path, '/');
    size_t n = 0;
    if (slash)
        n = (size_t)(slash - path);
    if (!slash || !slash[1] || strlen(slash + 1) > 255 || !strcmp(slash + 1, ".") ||
        !strcmp(slash + 1, ".."))
        return fail_with_errno(EINVAL);
    memcpy(name, slash + 1, strlen(slash + 1) + 1);
    if (f->dir >= 0 && !strncmp(f->up, path, n) && !f->up[n])
        return 0;
    cay__close_fd(&f->dir);
    memcpy(f->up, path, n);
    f->up[n] = 0;
    f->dir = cay__fs_open(&f->s->fs, n ? f->up : "/", O_PATH | O_DIRECTORY);
    if (f->dir < 0 && errno == ENOENT && cay__fs_mkdir(&f->s->fs, f->up, 0755, true) == 0)
        f->dir = cay__fs_open(&f->s->fs, f->up, O_PATH | O_DIRECTORY);
    if (f->dir < 0)
        return -1;
    return 0;
}

/* What is new is written in place; what is there already is replaced as every other write does it.
 */
static int make_file(fill *f, const cay_ses_item *it, const char *path)
{
    cay__fs_upload up;
    char name[256];
    uint32_t mode = CAY_OR(it->mode, 0644);
    if (open_parent(f, path, name) < 0)
        return -1;
    CAY_AUTOFD fd =
        openat(f->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0755);
    if (fd >= 0) {
        int rc = write_to_file(f, fd, it->len);
        if (rc == 0 && mode & ~0755u)
            rc = fchmod(fd, mode);
        int e = errno;
        if (rc < 0)
            unlinkat(f->dir, name, 0);
        errno = e;
        return rc;
    }
    if (errno != EEXIST ||
        cay__fs_put_open(&f->s->fs, path, &(cay__fs_write){ .mode = it->mode, .parents = true },
                         &up) < 0)
        return -1;
    if (write_to_file(f, up.fd, it->len) == 0)
        return cay__fs_put_commit(&up);
    cay__fs_put_abort(&up);
    return -1;
}

static int make_link(fill *f, const cay_ses_item *it, const char *path)
{
    char target[CAY_SES_PATH], name[256];
    if (!it->len || it->len >= sizeof target)
        return fail_with_errno(EINVAL);
    if (read_bytes(f, target, (size_t)it->len) < 0)
        return -1;
    target[it->len] = 0;
    if (memchr(target, 0, (size_t)it->len))
        return fail_with_errno(EINVAL);
    if (open_parent(f, path, name) < 0)
        return -1;
    if (unlinkat(f->dir, name, 0) < 0 && errno == EISDIR)
        unlinkat(f->dir, name, AT_REMOVEDIR);
    return symlinkat(target, f->dir, name);
}

static int make_dir(fill *f, const cay_ses_item *it, const char *path)
{
    if (it->len)
        return fail_with_errno(EINVAL);
    if (cay__fs_mkdir(&f->s->fs, path, it->mode, true) < 0)
        return -1;
    if (it->type == 'p')
        return 0;
    return cay__fs_chmod(&f->s->fs, path, it->mode);
}

static int make_item(fill *f, const cay_ses_item *it, const char *path)
{
    if (it->mode & ~07777u || it->spare)
        return fail_with_errno(EINVAL);
    int rc;
    if (it->type == 'f')
        rc = make_file(f, it, path);
    else if (it->type == 'l')
        rc = make_link(f, it, path);
    else if (it->type == 'd' || it->type == 'p')
        rc = make_dir(f, it, path);
    else
        rc = fail_with_errno(EINVAL);
    if (rc < 0 || it->gid == UINT32_MAX)
        return rc;
    if (cay__fs_chown(&f->s->fs, path, UINT32_MAX, it->gid) < 0)
        return -1;
    if (it->type == 'l')
        return 0;
    return cay__fs_chmod(&f->s->fs, path, it->mode); /* a new group takes set-id bits away */
}

/* All of it, or up to what fails: s->a tells which one that is. */
static int make_all(fill *f)
{
    cay_ses_item it;
    char path[CAY_SES_PATH];
    for (; refill_buffer(f); f->s->a++) {
        if (read_bytes(f, &it, sizeof it) < 0)
            return -1;
        if (!it.path || it.path >= sizeof path)
            return fail_with_errno(EINVAL);
        if (read_bytes(f, path, it.path) < 0)
            return -1;
        path[it.path] = 0;
        if (*path != '/' || memchr(path, 0, it.path))
            return fail_with_errno(EINVAL);
        if (make_item(f, &it, path) < 0)
            return -1;
    }
    return 0;
}

int cay__ses_fill(cay__ses *s)
{
    fill f = { .s = s, .buf = s->in, .room = CAY_SES_MAX, .dir = -1 };
    const cay_ses_req req = *s->req;
    if (cay__ses_is_pipe(s->fd) < 0)
        return -1;
    if (cay__ses_answer(s, 0, -1) < 0)
        return CAY__SES_END;
    /* The request's own room is the larger part of what a worker has; its head is needed for the
     * answer. */
    s->req = &req;
    int rc = make_all(&f), e = errno;
    cay__close_fd(&f.dir);
    while (rc < 0 &&
           (f.at = f.end,
            refill_buffer(&f))) /* so that the client learns of it by COMMIT and not by SIGPIPE */
        ;
    cay__close_fd(&s->fd);
    s->req = (const cay_ses_req *)(void *)s->in;
    if (!cay__ses_committed(s))
        return CAY__SES_END;
    errno = e;
    return rc;
}
