/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"
#include <limits.h>
#include <poll.h>

struct cay_upload {
    cay_sandbox *sb; /* counted */
    void *obj;
    int fd; /* the provider's */
};

static int take_write(cay_write *dst, const cay_write *src, cay_err *err)
{
    CAY_TRY(cay__spec_take(dst, sizeof *dst, src, "cay_write", err));
    if (dst->mode & ~07777u)
        return cay_fail_why(err, CAY_EINVAL, "mode_invalid",
                            "mode %o: permission bits only, at most 7777", dst->mode);
    if (dst->append && dst->exclusive)
        return cay_fail_why(err, CAY_EINVAL, "append_exclusive",
                            "append and exclusive exclude each other");
    return cay__user_check(dst->user, err);
}

/* Reads to the end, at most max bytes, within the bounds of the call. */
static int read_whole(int fd, const cay_call *call, const char *path, size_t max, char **data,
                      size_t *len, cay_err *err)
{
    CAY_AUTOFREE char *buf = NULL;
    size_t n = 0, cap = 0;
    for (;;) {
        if (cap - n < 2) {
            cap = CAY_MAX(cap * 2, (size_t)65536);
            char *p = realloc(buf, cap);
            if (!p)
                return cay_fail(err, CAY_ENOSPACE, "read %s: out of memory at %zu bytes", path, n);
            buf = p;
        }
        CAY_TRY(cay__call_wait(call, fd, POLLIN, path, err));
        ssize_t k = read(fd, buf + n, cap - n - 1);
        if (k < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (k < 0)
            return cay_fail_sys(err, "read %s", path);
        if (k == 0)
            break;
        n += (size_t)k;
        if (n > max)
            return cay_fail_why(err, CAY_ETOOBIG, "file_too_big",
                                "%s: more than %zu bytes; read it as a stream or by range", path,
                                max);
    }
    buf[n] = 0;
    *data = CAY_STEAL(buf);
    *len = n;
    return 0;
}

int cay_file_open_read(cay_sandbox *sb, const cay_call *call, const char *path,
                       const cay_read *spec, int *fd, cay_err *err)
{
    CAY__OP(call, "file.read", sb->id, err);
    op_.path = path;
    cay_read r;
    CAY_TRY(cay__file_enter(sb, call, sb->ops->open_read, "read a file", path, false, err));
    CAY_TRY(cay__spec_take(&r, sizeof r, spec, "cay_read", err));
    CAY_TRY(cay__user_check(r.user, err));
    if (r.offset > INT64_MAX || r.length > INT64_MAX || r.offset + r.length > INT64_MAX)
        return cay_fail_why(err, CAY_EINVAL, "range_invalid",
                            "%s: the range is past the largest file", path);
    return sb->ops->open_read(sb->box, call, path, &r, fd, err);
}

int cay_file_get(cay_sandbox *sb, const cay_call *call, const char *path, size_t max, char **data,
                 size_t *len, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    CAY_TRY(cay_file_open_read(sb, call, path, NULL, &fd, err));
    return read_whole(fd, call, path, max, data, len, err);
}

static int write_whole(int fd, const cay_call *call, const char *path, const char *data, size_t len,
                       cay_err *err)
{
    for (size_t at = 0; at < len;) {
        CAY_TRY(cay__call_wait(call, fd, POLLOUT, path, err));
        ssize_t n = write(fd, data + at, CAY_MIN(len - at, (size_t)PIPE_BUF));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return cay_fail_sys(err, "write %s", path);
        at += (size_t)n;
    }
    return 0;
}

int cay_file_put(cay_sandbox *sb, const cay_call *call, const char *path, const void *data,
                 size_t len, const cay_write *spec, cay_err *err)
{
    CAY__OP(call, "file.write", sb->id, err);
    op_.path = path;
    op_.bytes = len;
    cay_write w;
    if (!sb->ops->put) {
        cay_upload *up = NULL;
        CAY_TRY(cay_file_open_write(sb, call, path, spec, &up, err));
        int rc = write_whole(up->fd, call, path, data, len, err);
        if (rc < 0) {
            cay_upload_abort(up);
            return rc;
        }
        return cay_upload_commit(up, call, err);
    }
    CAY_TRY(cay__file_enter(sb, call, sb->ops->put, "write a file", path, true, err));
    CAY_TRY(take_write(&w, spec, err));
    return sb->ops->put(sb->box, call, path, data, len, &w, err);
}

int cay_file_open_write(cay_sandbox *sb, const cay_call *call, const char *path,
                        const cay_write *spec, cay_upload **out, cay_err *err)
{
    CAY__OP(call, "file.upload", sb->id, err);
    op_.path = path;
    cay_write w;
    void *obj = NULL;
    int fd = -1;
    CAY_TRY(cay__file_enter(sb, call, sb->ops->open_write, "write a file", path, true, err));
    CAY_TRY(take_write(&w, spec, err));
    CAY_TRY(sb->ops->open_write(sb->box, call, path, &w, &obj, &fd, err));
    cay_upload *up = cay__alloc(sizeof *up);
    *up = (cay_upload){ .sb = cay_sandbox_ref(sb), .obj = obj, .fd = fd };
    *out = up;
    return 0;
}

int cay_upload_fd(cay_upload *up)
{
    return up->fd;
}

static void upload_free(cay_upload *up)
{
    cay_sandbox_unref(up->sb);
    free(up);
}

int cay_upload_commit(cay_upload *up, const cay_call *call, cay_err *err)
{
    CAY__OP(call, "file.commit", up->sb->id, err);
    int rc = up->sb->ops->commit_write(up->obj, call, err);
    upload_free(up);
    return rc;
}

void cay_upload_abort(cay_upload *up)
{
    if (!up)
        return;
    up->sb->ops->abort_write(up->obj);
    upload_free(up);
}

struct cay_watch {
    cay_sandbox *sb; /* counted */
    void *obj;
    int fd; /* the provider's */
};

int cay_watch_open(cay_sandbox *sb, const cay_call *call, const char *path, bool recursive,
                   cay_watch **out, cay_err *err)
{
    CAY__OP(call, "watch.open", sb->id, err);
    void *obj = NULL;
    int fd = -1;
    CAY_TRY(cay__file_enter(sb, call, sb->ops->watch_open, "watch a directory", path, false, err));
    CAY_TRY(sb->ops->watch_open(sb->box, call, path, recursive, &obj, &fd, err));
    cay_watch *w = cay__alloc(sizeof *w);
    *w = (cay_watch){ .sb = cay_sandbox_ref(sb), .obj = obj, .fd = fd };
    *out = w;
    return 0;
}

int cay_watch_fd(const cay_watch *w)
{
    return w->fd;
}

int cay_watch_next(cay_watch *w, const cay_call *call, cay_watch_event *out, cay_err *err)
{
    cay_watch_event e = { .size = sizeof e };
    CAY_TRY(w->sb->ops->watch_next(w->obj, call, &e, err));
    cay__answer_give(out, &e, sizeof e);
    return 0;
}

void cay_watch_close(cay_watch *w)
{
    if (!w)
        return;
    w->sb->ops->watch_close(w->obj);
    cay_sandbox_unref(w->sb);
    free(w);
}
