/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files as a stream, and watches: calls that keep a session to themselves. */
#include "session_call.h"
#include <base/base.h>
#include <poll.h>
#include <sys/socket.h>

enum { PIPE_BYTES = 1 << 18 };

static int make_pipe(const char *what, int *rd, int *wr, cay_err *err)
{
    int p[2];
    CAY_TRY_SYS(pipe2(p, O_CLOEXEC), err, "%s: pipe", what);
    *rd = p[0];
    *wr = p[1];
    return 0;
}

/* A stream whose reader gets ECONNRESET instead of an end unless the worker takes this byte: see
 * daemon/init/pump.c. */
static int make_stream(int *rd, int *wr, cay_err *err)
{
    int sv[2];
    CAY_TRY_SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), err, "read: socketpair");
    *rd = sv[0];
    *wr = sv[1];
    if (send(sv[0], "", 1, MSG_NOSIGNAL) != 1)
        return cay_fail_sys(err, "read: socket");
    return 0;
}

int cay__nf_open_read(void *box, const cay_call *call, const char *path, const cay_read *spec,
                      int *fd, cay_err *err)
{
    CAY_AUTOFD rd = -1, wr = -1;
    cay__ses_conn c;
    cay_ses_rep buf = { 0 }, *rep;
    CAY_TRY(make_stream(&rd, &wr, err));
    cay__ses_ask *ask = CAY__SES_ASK(READ, "read", .path = path, .fd = wr);
    if (spec) {
        ask->a = spec->offset;
        ask->b = spec->length;
        ask->user = spec->user;
    }
    CAY_TRY(cay__ses_begin(box, call, ask, &c, err));
    int rc = cay__ses_next(&c, call, ask, &buf, sizeof buf, &rep, NULL, err);
    /* A busy worker fills the stream and leaves by itself; closing the stream is how it is stopped.
     */
    if (rc == 0 && (rep->flags & CAY_SES_BUSY))
        cay__ses_hang_up(&c);
    else
        cay__ses_release(box, &c, &buf, rc);
    CAY_TRY(rc);
    *fd = CAY_STEAL_FD(rd);
    return 0;
}

typedef struct upload {
    cay__sessions *s;
    cay__ses_conn c;
    int fd;
} upload;

static uint16_t write_flags(const cay_write *w)
{
    return (uint16_t)(CAY_FLAG_IF(w->parents, CAY_SES_PARENTS) |
                      CAY_FLAG_IF(w->append, CAY_SES_APPEND) |
                      CAY_FLAG_IF(w->exclusive, CAY_SES_EXCLUSIVE));
}

int cay__nf_open_write(void *box, const cay_call *call, const char *path, const cay_write *spec,
                       void **up, int *fd, cay_err *err)
{
    static const cay_write none = { .size = sizeof none };
    spec = CAY_OR(spec, &none);
    CAY_AUTOFD rd = -1, wr = -1;
    cay__ses_conn c;
    cay_ses_rep buf = { 0 }, *rep;
    CAY_TRY(make_pipe("write", &rd, &wr, err));
    fcntl(wr, F_SETPIPE_SZ, PIPE_BYTES); /* fewer wake-ups; refused where the user has many pipes */
    cay__ses_ask *ask = CAY__SES_ASK(UPLOAD, "write", .path = path, .a = spec->mode,
                                     .flags = write_flags(spec), .user = spec->user, .fd = rd);
    CAY_TRY(cay__ses_begin(box, call, ask, &c, err));
    int rc = cay__ses_next(&c, call, ask, &buf, sizeof buf, &rep, NULL, err);
    if (rc < 0) {
        cay__ses_release(box, &c, &buf, rc);
        return rc;
    }
    upload *u = cay__alloc(sizeof *u);
    *u = (upload){ .s = box, .c = c, .fd = CAY_STEAL_FD(wr) };
    *up = u;
    *fd = u->fd;
    return 0;
}

void cay__nf_abort_write(void *up)
{
    upload *u = up;
    /* the socket first: a pipe that ends while it is still there looks complete */
    cay__ses_hang_up(&u->c);
    cay__close_fd(&u->fd);
    free(u);
}

int cay__nf_commit_write(void *up, const cay_call *call, cay_err *err)
{
    upload *u = up;
    cay_ses_rep buf = { 0 }, *rep;
    const cay__ses_ask *ask = CAY__SES_ASK(COMMIT, "write");
    cay__close_fd(&u->fd);
    int rc = cay__ses_again(&u->c, call, ask, err);
    if (rc == 0)
        rc = cay__ses_next(&u->c, call, ask, &buf, sizeof buf, &rep, NULL, err);
    if (rc == 0)
        cay__ses_give(u->s, &u->c);
    cay__nf_abort_write(u);
    return rc;
}

/* SIGPIPE of the caller's program must not be raised by a worker that died. */
int cay__ses_feed(int fd, const cay_call *call, const char *data, size_t len, cay_err *err)
{
    if (!cay__fd_nonblock(fd, true))
        return cay_fail_sys(err, "write");
    for (size_t at = 0; at < len;) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        CAY_TRY(cay__call_wait(call, fd, POLLOUT, "write", err));
        if (poll(&p, 1, 0) > 0 && (p.revents & POLLERR))
            return cay_fail_why(err, CAY_EGONE, "worker_gone",
                                "write: the worker inside the sandbox ended");
        ssize_t n = write(fd, data + at, len - at);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return cay_fail_sys(err, "write");
        if (n > 0)
            at += (size_t)n;
    }
    return 0;
}

int cay__nf_put(void *box, const cay_call *call, const char *path, const void *data, size_t len,
                const cay_write *spec, cay_err *err)
{
    static const cay_write none = { .size = sizeof none };
    spec = CAY_OR(spec, &none);
    if (len <= CAY_SES_INLINE)
        return cay__ses_simple(box, call,
                               CAY__SES_ASK(PUT, "write", .path = path, .a = spec->mode,
                                            .flags = write_flags(spec), .user = spec->user,
                                            .data = data, .len = len),
                               err);
    void *up;
    int fd;
    CAY_TRY(cay__nf_open_write(box, call, path, spec, &up, &fd, err));
    int rc = cay__ses_feed(fd, call, data, len, err);
    if (rc < 0) {
        cay__nf_abort_write(up);
        return rc;
    }
    return cay__nf_commit_write(up, call, err);
}

typedef struct watch {
    cay__ses_conn c;
    char in[sizeof(cay_ses_rep) + sizeof(cay_ses_change) + 2 * CAY_SES_PATH]
        __attribute__((aligned(8)));
    char path[CAY_SES_PATH], from[CAY_SES_PATH];
} watch;

int cay__nf_watch_open(void *box, const cay_call *call, const char *path, bool recursive,
                       void **out, int *fd, cay_err *err)
{
    cay__ses_ask *ask = CAY__SES_ASK(WATCH, "watch", .path = path,
                                     .flags = CAY_FLAG_IF(recursive, CAY_SES_RECURSIVE));
    cay_ses_rep buf = { 0 }, *rep;
    cay__ses_conn c;
    CAY_TRY(cay__ses_begin(box, call, ask, &c, err));
    int rc = cay__ses_next(&c, call, ask, &buf, sizeof buf, &rep, NULL, err);
    if (rc < 0) {
        cay__ses_hang_up(&c);
        return rc;
    }
    watch *w = cay__alloc(sizeof *w);
    w->c = c;
    *out = w;
    *fd = c.sock;
    return 0;
}

/* any: "." or nothing is one as well. */
static bool take_name(cay__ses_rd *r, size_t n, bool any, char name[CAY_SES_PATH])
{
    if (any)
        return cay__ses_take_str(r, n, name, CAY_SES_PATH);
    return cay__ses_take_path(r, n, name, CAY_SES_PATH);
}

int cay__nf_watch_next(void *arg, const cay_call *call, cay_watch_event *out, cay_err *err)
{
    watch *w = arg;
    const cay__ses_ask *ask = CAY__SES_ASK(WATCH, "watch");
    cay_ses_rep *rep;
    cay_ses_change in;
    CAY_TRY(cay__ses_next(&w->c, call, ask, w->in, sizeof w->in, &rep, NULL, err));
    cay__ses_rd r = { w->in + sizeof *rep, rep->len };
    if (rep->count != 1 || !cay__ses_take(&r, &in, sizeof in) || !in.change ||
        !strchr("cwrmpo", in.change))
        return cay__ses_lied(ask, err);
    bool top = in.path == 1 && r.left && r.p[0] == '.';
    if (in.change == CAY_CHANGE_OVERFLOW)
        top = in.path == 0;
    if (!take_name(&r, in.path, top, w->path) || !take_name(&r, in.from, !in.from, w->from) ||
        r.left || (in.change == CAY_CHANGE_RENAME) != (in.from > 0))
        return cay__ses_lied(ask, err);
    *out = (cay_watch_event){
        .size = sizeof *out, .change = in.change, .path = w->path, .from = w->from, .dir = in.dir
    };
    return 0;
}

void cay__nf_watch_close(void *arg)
{
    watch *w = arg;
    cay__ses_hang_up(&w->c);
    free(w);
}
