/* SPDX-License-Identifier: Apache-2.0 */
#include "session_call.h"
#include <base/base.h>
#include <base/mutant.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* An errno of the worker, and what it means for a file. */
static const struct {
    int sys, code;
    const char *reason, *text;
} meanings[] = {
    { ENOENT, CAY_ENOENT, "file_not_found", NULL },
    { EEXIST, CAY_EEXIST, "file_exists", NULL },
    { ENOTEMPTY, CAY_EEXIST, "directory_not_empty", NULL },
    { EISDIR, CAY_ETYPE, "is_a_directory", NULL },
    { ENOTDIR, CAY_ETYPE, "not_a_directory", NULL },
    { ENXIO, CAY_ETYPE, "not_a_regular_file", "not a regular file (a FIFO, socket or device)" },
    { EACCES, CAY_EPERM, "permission_denied", NULL },
    { EPERM, CAY_EPERM, "permission_denied", NULL },
    { EROFS, CAY_EPERM, "read_only", NULL },
    { ENODATA, CAY_ENOENT, "attribute_not_found", "no such attribute" },
    { ENOSPC, CAY_ENOSPACE, "disk_full", NULL },
    { EDQUOT, CAY_ENOSPACE, "disk_full", NULL },
    { ECONNREFUSED, CAY_ENOENT, "port_not_found", "nobody listens there" },
    { ENOTCONN, CAY_EUPSTREAM, "mount_dead",
      "the storage mounted there is gone; `cay inspect` says why, cay kill and cay resume mount it "
      "again" },
    { EBUSY, CAY_EBUSY, "busy", "something is mounted there, or it changed meanwhile" },
};

static int fail_as(const cay__ses_ask *ask, int sys, cay_err *err)
{
    const char *path = CAY_OR(ask->path, ""), *gap = CAY_TEXT_IF(*path, " ");
    CAY_EACH(m, meanings) {
        if (m->sys != sys)
            continue;
        cay_fail_why(err, m->code, m->reason, "%s%s%s: %s", ask->what, gap, path,
                     CAY_OR(m->text, strerror(sys)));
        if (err)
            err->sys = sys;
        return m->code;
    }
    errno = sys;
    return cay_fail_sys(err, "%s%s%s", ask->what, gap, path);
}

static int fail_worker_gone(const cay__ses_ask *ask, cay_err *err)
{
    return cay_fail_why(err, CAY_EGONE, "worker_gone", "%s: the worker inside the sandbox ended",
                        ask->what);
}

int cay__ses_lied(const cay__ses_ask *ask, cay_err *err)
{
    return cay_fail_why(err, CAY_EUPSTREAM, "worker_answer_invalid",
                        "%s: the worker inside the sandbox answered against the protocol",
                        ask->what);
}

void cay__sessions_open(cay__sessions *s,
                        int (*open)(void *, const cay_call *, const char *, int *, cay_err *),
                        void *arg)
{
    *s = (cay__sessions){ .open = open, .arg = arg };
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t at;
    pthread_condattr_init(&at);
    pthread_condattr_setclock(&at, CLOCK_MONOTONIC);
    pthread_cond_init(&s->turn, &at);
    pthread_condattr_destroy(&at);
    CAY_EACH_OF(it, s->idle, CAY__SESSIONS_IDLE)
        it->sock = -1;
}

void cay__sessions_drop(cay__sessions *s)
{
    CAY_LOCK(&s->lock);
    CAY_EACH_OF(it, s->idle, CAY__SESSIONS_IDLE)
        cay__close_fd(&it->sock);
}

void cay__sessions_close(cay__sessions *s)
{
    cay__sessions_drop(s);
    pthread_cond_destroy(&s->turn);
    pthread_mutex_destroy(&s->lock);
}

void cay__ses_hang_up(cay__ses_conn *c)
{
    cay__close_fd(&c->sock);
}

void cay__ses_give(cay__sessions *s, cay__ses_conn *c)
{
    CAY_LOCK(&s->lock);
    for (size_t i = 0; i < CAY__SESSIONS_IDLE && c->sock >= 0; i++) {
        if (s->idle[i].sock >= 0)
            continue;
        s->idle[i].sock = CAY_STEAL_FD(c->sock);
        memcpy(s->idle[i].user, c->user, sizeof c->user);
    }
    cay__close_fd(&c->sock);
}

/* An idle session of that user whose worker has neither left nor spoken unasked; -1: none. */
static int take_idle(cay__sessions *s, const char *user)
{
    int sock = -1;
    CAY_LOCK(&s->lock);
    for (size_t i = 0; i < CAY__SESSIONS_IDLE && sock < 0; i++) {
        if (s->idle[i].sock < 0 || strcmp(s->idle[i].user, user))
            continue;
        sock = CAY_STEAL_FD(s->idle[i].sock);
        struct pollfd p = { .fd = sock, .events = POLLIN | POLLRDHUP };
        if (poll(&p, 1, 0) != 0)
            cay__close_fd(&sock);
    }
    return sock;
}

int cay__ses_again(cay__ses_conn *c, const cay_call *call, const cay__ses_ask *ask, cay_err *err)
{
    static atomic_uint seq;
    const char *path = CAY_OR(ask->path, ""), *second = CAY_OR(ask->second, "");
    size_t np = strlen(path), ns = strlen(second);
    if (np >= CAY_SES_PATH || ns >= CAY_SES_PATH)
        return cay_fail_why(err, CAY_EINVAL, "path_too_long", "%s: a path of more than %u bytes",
                            ask->what, CAY_SES_PATH - 1);
    cay_ses_req req = { .magic = CAY_SES_MAGIC,
                        .op = ask->op,
                        .flags = ask->flags,
                        .seq = atomic_fetch_add(&seq, 1) + 1,
                        .path = (uint32_t)np,
                        .second = (uint32_t)ns,
                        .data = (uint32_t)ask->len,
                        .a = ask->a,
                        .b = ask->b };
    struct iovec io[] = { { &req, sizeof req },
                          { (void *)path, np + 1 },
                          { (void *)second, ns + 1 },
                          { (void *)ask->data, ask->len } };
    c->op = ask->op;
    c->seq = req.seq;
    for (;;) {
        if (cay__fd_sendv(c->sock, io, 4, &ask->fd, ask->fd > 0, MSG_DONTWAIT) >= 0)
            return 0;
        if (errno == EPIPE || errno == ECONNRESET)
            return fail_worker_gone(ask, err);
        if (errno != EAGAIN && errno != ENOBUFS)
            return cay_fail_sys(err, "%s: send", ask->what);
        CAY_TRY(cay__call_wait(call, c->sock, POLLOUT, ask->what, err));
    }
}

/* Of a path of the host the part below the box's root. */
static const char *translate_path(const cay__sessions *s, const char *path)
{
    if (!s->root || !path)
        return path;
    size_t n = strlen(s->root);
    if (strncmp(path, s->root, n) != 0 || (path[n] && path[n] != '/'))
        return path;
    return cay__text_or(path + n, "/");
}

int cay__ses_begin(cay__sessions *s, const cay_call *call, cay__ses_ask *ask, cay__ses_conn *c,
                   cay_err *err)
{
    if (s->ready)
        CAY_TRY(s->ready(s->arg, err));
    CAY_TRY(cay__call_check(call, ask->what, err));
    *c = (cay__ses_conn){ .sock = -1 };
    ask->path = translate_path(s, ask->path);
    if (ask->op == CAY_SES_RENAME)
        ask->second = translate_path(s, ask->second);
    const char *user = CAY_OR(ask->user, cay__call_user(call));
    if (!CAY_COPY(c->user, CAY_OR(user, "")))
        return cay_fail_why(err, CAY_EINVAL, "user_invalid",
                            "%s: a user name of more than %d bytes", ask->what,
                            CAY__SESSION_USER - 1);
    c->sock = take_idle(s, c->user);
    if (c->sock >= 0) {
        int rc = cay__ses_again(c, call, ask, err);
        if (rc == 0)
            return 0;
        cay__ses_hang_up(c);
        if (rc != CAY_EGONE)
            return rc; /* a worker that had gone never saw it: ask a new one */
    }
    CAY_TRY(s->open(s->arg, call, user, &c->sock, err));
    int rc = cay__ses_again(c, call, ask, err);
    if (rc < 0)
        cay__ses_hang_up(c);
    return rc;
}

int cay__ses_next(cay__ses_conn *c, const cay_call *call, const cay__ses_ask *ask, void *buf,
                  size_t cap, cay_ses_rep **out, int *fd, cay_err *err)
{
    CAY_TRY(cay__call_wait(call, c->sock, POLLIN, ask->what, err));
    CAY_AUTOFD got = -1;
    int nfds = fd != NULL;
    ssize_t n = cay__fd_recv(c->sock, buf, cap, &got, &nfds, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && (errno == ECONNRESET || errno == EPIPE)))
        return fail_worker_gone(ask, err);
    if (n < 0 && errno != EMSGSIZE)
        return cay_fail_sys(err, "%s: receive", ask->what);
    cay_ses_rep *rep = buf;
    if (nfds == 0)
        got = -1;
    if (n < (ssize_t)sizeof *rep || rep->magic != CAY_SES_MAGIC || rep->op != c->op ||
        rep->seq != c->seq || rep->len != (size_t)n - sizeof *rep || rep->sys < 0 ||
        rep->sys > 4095)
        return cay__ses_lied(ask, err);
    if (rep->sys)
        return fail_as(ask, rep->sys, err);
    *out = rep;
    if (fd)
        *fd = CAY_STEAL_FD(got);
    return 0;
}

void cay__ses_release(cay__sessions *s, cay__ses_conn *c, const cay_ses_rep *rep, int rc)
{
    bool told = rc < 0 && rep->magic == CAY_SES_MAGIC && rep->seq == c->seq && rep->sys > 0 &&
                !(rep->flags & CAY_SES_MORE);
    if (rc == 0 || told)
        cay__ses_give(s, c);
    else
        cay__ses_hang_up(c);
}

int cay__ses_once(cay__sessions *s, const cay_call *call, cay__ses_ask *ask, void *buf, size_t cap,
                  cay_ses_rep **rep, int *fd, cay_err *err)
{
    cay__ses_conn c;
    CAY_TRY(cay__ses_begin(s, call, ask, &c, err));
    int rc = cay__ses_next(&c, call, ask, buf, cap, rep, fd, err);
    cay__ses_release(s, &c, buf, rc);
    return rc;
}

int cay__ses_simple(cay__sessions *s, const cay_call *call, cay__ses_ask *ask, cay_err *err)
{
    cay_ses_rep buf = { 0 }, *rep;
    return cay__ses_once(s, call, ask, &buf, sizeof buf, &rep, NULL, err);
}

bool cay__ses_take(cay__ses_rd *r, void *dst, size_t n)
{
    if (r->left < n)
        return false;
    memcpy(dst, r->p, n);
    r->p += n;
    r->left -= n;
    return true;
}

bool cay__ses_take_str(cay__ses_rd *r, size_t n, char *dst, size_t cap)
{
    if ((n >= cap && !CAY__MUTANT("fuzz-session_reply")) || !cay__ses_take(r, dst, n) ||
        memchr(dst, 0, n))
        return false;
    dst[n] = 0;
    return true;
}

bool cay__ses_take_path(cay__ses_rd *r, size_t n, char *dst, size_t cap)
{
    if (!cay__ses_take_str(r, n, dst, cap))
        return false;
    for (const char *p = dst;; p++) {
        size_t k = strcspn(p, "/");
        if (k == 0 || (k == 1 && p[0] == '.') || (k == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += k;
        if (!*p)
            return true;
    }
}

static int read_packet(cay__ses_rd *r, uint32_t count, const cay__ses_ask *ask,
                       int (*each)(cay__ses_rd *, void *), void *arg, cay_err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        int rc = each(r, arg);
        if (rc == CAY__SES_BAD)
            return cay__ses_lied(ask, err);
        if (rc)
            return rc;
    }
    if (r->left)
        return cay__ses_lied(ask, err);
    return 0;
}

int cay__ses_stream(cay__sessions *s, const cay_call *call, cay__ses_ask *ask,
                    int (*each)(cay__ses_rd *, void *), void *arg, const int *stop, cay_err *err)
{
    cay__ses_conn c;
    cay_ses_rep *rep = NULL;
    CAY_AUTOFREE char *buf = malloc(CAY_SES_MAX);
    if (!buf)
        return cay_fail(err, CAY_ENOSPACE, "%s: out of memory", ask->what);
    CAY_TRY(cay__ses_begin(s, call, ask, &c, err));
    for (bool more = true; more;) {
        memset(buf, 0, sizeof *rep);
        int rc = cay__ses_next(&c, call, ask, buf, CAY_SES_MAX, &rep, NULL, err);
        if (rc < 0) {
            cay__ses_release(s, &c, (cay_ses_rep *)(void *)buf, rc);
            return rc;
        }
        cay__ses_rd r = { buf + sizeof *rep, rep->len };
        more = rep->flags & CAY_SES_MORE;
        /* an empty packet that promises more would be a way to keep us here for ever */
        if (more && !rep->count)
            rc = cay__ses_lied(ask, err);
        else
            rc = read_packet(&r, rep->count, ask, each, arg, err);
        if (rc) {
            cay__ses_hang_up(&c);
            if (rc == CAY__SES_STOP)
                return *stop;
            return rc;
        }
    }
    cay__ses_give(s, &c);
    return 0;
}
