/* SPDX-License-Identifier: Apache-2.0 */
/* cay_file_fill() as one stream to a worker: daemon/init/fill.c reads it. */
#include "session_call.h"
#include <base/base.h>

enum { PIPE_BYTES = 1 << 20, CHUNK = 1 << 16, WAYS = 2, MANY = 1000 };

typedef struct stream {
    const cay_call *call;
    cay__ses_conn c;
    int fd; /* -1: not begun, or ended */
    size_t n;
    char buf[CHUNK];
} stream;

static int flush_stream(stream *o, cay_err *err)
{
    size_t n = o->n;
    o->n = 0;
    return cay__ses_feed(o->fd, o->call, o->buf, n, err);
}

static int send_bytes(stream *o, const void *data, size_t n, cay_err *err)
{
    if (n > sizeof o->buf - o->n)
        CAY_TRY(flush_stream(o, err));
    if (n > sizeof o->buf)
        return cay__ses_feed(o->fd, o->call, data, n, err);
    if (n)
        memcpy(o->buf + o->n, data, n);
    o->n += n;
    return 0;
}

static int send_file(stream *o, const cay_fill_item *it, cay_err *err)
{
    for (size_t left = it->len; left;) {
        if (o->n == sizeof o->buf)
            CAY_TRY(flush_stream(o, err));
        ssize_t n = read(it->fd, o->buf + o->n, CAY_MIN(left, sizeof o->buf - o->n));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            CAY_TRY_SYS(n, err, "write %s: read its source", it->path);
            return cay_fail_why(err, CAY_EINVAL, "path_changed_during_copy",
                                "write %s: its source became shorter", it->path);
        }
        o->n += (size_t)n;
        left -= (size_t)n;
    }
    return 0;
}

static int send_item(stream *o, const cay_fill_item *it, cay_err *err)
{
    size_t path = strlen(it->path);
    cay_ses_item w = { .len = it->type == 'd' || it->type == 'p' ? 0 : it->len,
                       .mode = it->mode,
                       .gid = it->gid,
                       .path = (uint16_t)path,
                       .type = (uint8_t)it->type };
    if (path >= CAY_SES_PATH)
        return cay_fail_why(err, CAY_EINVAL, "path_too_long", "write %.80s…: at most %u bytes",
                            it->path, CAY_SES_PATH - 1);
    CAY_TRY(send_bytes(o, &w, sizeof w, err));
    CAY_TRY(send_bytes(o, it->path, path, err));
    if (it->fd >= 0)
        return send_file(o, it, err);
    return send_bytes(o, it->data, (size_t)w.len, err);
}

/* By the directory that it is in, so that those of one come in their order. */
static size_t way_of(const char *path, size_t ways)
{
    const char *slash = strrchr(path, '/');
    if (ways == 1 || !slash)
        return 0;
    return cay__hash(path, (size_t)(slash - path)) % ways;
}

static int send_all(stream *o, size_t ways, const cay_fill *f, uint32_t *places, cay_err *err)
{
    for (size_t i = 0; i < f->n; i++) {
        cay_fill_item it = { .fd = -1, .gid = UINT32_MAX };
        CAY_TRY(f->get(i, &it, f->arg, err));
        size_t w = way_of(it.path, ways);
        places[i] = (uint32_t)w;
        int rc = send_item(&o[w], &it, err);
        int done = 0;
        if (f->done)
            done = f->done(i, &it, rc == 0, f->arg, CAY_IF(rc == 0, err));
        CAY_TRY(rc);
        CAY_TRY(done);
    }
    CAY_EACH_OF(item, o, ways)
        CAY_TRY(flush_stream(item, err));
    return 0;
}

/* Which one it was is the worker's word: it names a path of the request's, or nothing. */
static int name_it(const cay_fill *f, const uint32_t *places, size_t way, uint64_t at, int rc,
                   cay_err *err)
{
    cay_fill_item it = { .fd = -1 };
    size_t i = 0;
    for (uint64_t k = 0; i < f->n && (places[i] != way || k++ < at); i++)
        ;
    if (i == f->n || f->get(i, &it, f->arg, NULL) < 0)
        return rc;
    rc = cay_wrap(err, rc, "%.120s", it.path);
    if (f->done)
        f->done(i, &it, false, f->arg, NULL);
    return rc;
}

/* One worker with the read end of a pipe, ready to take. */
static int begin_stream(cay__sessions *s, const cay_call *call, stream *o, cay_err *err)
{
    cay_ses_rep buf = { 0 }, *rep;
    int p[2];
    CAY_TRY_SYS(pipe2(p, O_CLOEXEC), err, "write: pipe");
    CAY_AUTOFD rd = p[0], wr = p[1];
    fcntl(wr, F_SETPIPE_SZ, PIPE_BYTES); /* fewer wake-ups; refused where the user has many pipes */
    cay__ses_ask *ask = CAY__SES_ASK(FILL, "write", .fd = rd);
    CAY_TRY(cay__ses_begin(s, call, ask, &o->c, err));
    int rc = cay__ses_next(&o->c, call, ask, &buf, sizeof buf, &rep, NULL, err);
    if (rc == 0) {
        o->call = call;
        o->fd = CAY_STEAL_FD(wr);
        return 0;
    }
    cay__ses_release(s, &o->c, &buf, rc);
    if (buf.magic == CAY_SES_MAGIC && buf.sys == ENOSYS)
        return cay_fail_why(err, CAY_ENOTSUP, "fill_unsupported",
                            "write: the worker inside takes files one by one");
    return rc;
}

/* The socket first: a pipe that ends while it is still there looks complete. */
static void give_up(stream *o)
{
    if (o->fd < 0)
        return;
    cay__ses_hang_up(&o->c);
    cay__close_fd(&o->fd);
}

static int commit_stream(cay__sessions *s, stream *o, uint64_t *at, cay_err *err)
{
    const cay__ses_ask *end = CAY__SES_ASK(COMMIT, "write");
    cay_ses_rep buf = { 0 }, *rep;
    *at = UINT64_MAX;
    cay__close_fd(&o->fd);
    int rc = cay__ses_again(&o->c, o->call, end, err);
    if (rc == 0)
        rc = cay__ses_next(&o->c, o->call, end, &buf, sizeof buf, &rep, NULL, err);
    if (rc == 0)
        cay__ses_give(s, &o->c);
    else
        cay__ses_hang_up(&o->c);
    if (rc < 0 && buf.magic == CAY_SES_MAGIC)
        *at = buf.a;
    return rc;
}

int cay__nf_fill(void *box, const cay_call *call, const cay_fill *f, cay_err *err)
{
    size_t ways = f->n < MANY ? 1 : WAYS, begun = 0;
    CAY_AUTOFREE stream *o = cay__alloc(ways * sizeof *o);
    CAY_AUTOFREE uint32_t *places = cay__alloc((f->n + 1) * sizeof *places);
    uint64_t at;
    int rc = 0;
    CAY_EACH_OF(item, o, ways)
        item->fd = -1;
    while (rc == 0 && begun < ways)
        rc = begin_stream(box, call, &o[begun++], err);
    if (rc == 0)
        rc = send_all(o, ways, f, places, err);
    for (size_t w = 0; w < ways && rc == 0; w++) {
        rc = commit_stream(box, &o[w], &at, err);
        if (rc < 0)
            rc = name_it(f, places, w, at, rc, err);
    }
    CAY_EACH_OF(it, o, ways)
        give_up(it);
    return rc;
}
