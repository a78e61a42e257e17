/* SPDX-License-Identifier: Apache-2.0 */
#include "follow.h"
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

enum { PIECE = 32 << 10, BUDGET = 128 << 10, BEAT_MS = 15000, CALL_MS = 30000 };

static const cay_stream names[] = { CAY_STDOUT, CAY_STDERR };

static cay_call make_call(void)
{
    return (cay_call){ .size = sizeof(cay_call), .deadline_ms = cay__native_now() + CALL_MS };
}

/* A terminal has one stream: the other is over from the beginning. */
static int open_stream(cay__follow *f, const cay_call *call, int i, uint64_t offset, cay_err *err)
{
    cay__followed *s = &f->s[i];
    cay_err why = CAY_ERR_INIT;
    size_t n;
    s->at = offset;
    if (offset == CAY_FROM_NOW) /* a number is needed to go on from */
        CAY_TRY(cay_proc_read(f->p, call, names[i], &s->at, &(char){ 0 }, 0, &n, NULL, NULL, err));
    int rc = cay_proc_output(f->p, call, names[i], s->at, &s->fd, &why);
    if (rc < 0 && i == 1 && (rc == CAY_EINVAL || rc == CAY_ENOENT)) {
        s->fd = -1;
        return 0;
    }
    if (rc < 0)
        return cay__err_pass(rc, &why, err);
    cay__fd_nonblock(s->fd, true);
    f->ready |= 1u << i;
    return 0;
}

int cay__follow_open(cay__follow *f, const cay_call *call, cay_proc *p, const uint64_t offset[2],
                     const cay__follow_ops *t, cay_err *err)
{
    int rc = 0;
    f->p = p;
    f->teller = t;
    f->s[0].fd = f->s[1].fd = -1;
    f->kick = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->kick < 0)
        rc = cay_fail_sys(err, "eventfd");
    for (int i = 0; i < 2 && rc >= 0; i++)
        rc = open_stream(f, call, i, offset[i], err);
    if (rc < 0)
        cay__follow_close(f);
    return rc;
}

void cay__follow_close(cay__follow *f)
{
    cay__close_fd(&f->s[0].fd);
    cay__close_fd(&f->s[1].fd);
    cay__close_fd(&f->kick);
    cay_proc_unref(f->p);
    f->p = NULL;
}

static size_t count_readable(int fd)
{
    int n = 0;
    if (ioctl(fd, FIONREAD, &n) == 0 && n > 0)
        return (size_t)n;
    return 0;
}

/* At most n bytes out of the descriptor; false when it has ended. */
static bool discard_bytes(int fd, uint64_t *n)
{
    char scratch[4096];
    while (*n) {
        ssize_t k = read(fd, scratch, CAY_MIN(*n, sizeof scratch));
        if (k == 0)
            return false;
        if (k < 0)
            return true;
        *n -= (uint64_t)k;
    }
    return true;
}

static bool has_fd_ended(int fd)
{
    struct pollfd q = { fd, POLLIN, 0 };
    return poll(&q, 1, 0) > 0 && !count_readable(fd) && q.revents & (POLLHUP | POLLERR);
}

/* The descriptor ended before the stream did: what serves it was replaced. */
static int reopen_stream(cay__follow *f, const cay_call *call, int i, cay_err *err)
{
    cay__followed *s = &f->s[i];
    cay__close_fd(&s->fd);
    s->debt = 0;
    return open_stream(f, call, i, s->at, err);
}

/* Caught up: take what was read out of the descriptor. What is left in it then is older than the
 * ring, and was told as lost. */
static int drain_descriptor(cay__follow *f, const cay_call *call, int i, uint64_t before,
                            cay_err *err)
{
    cay__followed *s = &f->s[i];
    bool alive = discard_bytes(s->fd, &s->debt);
    if (alive && !s->debt && before) {
        uint64_t stale = CAY_MIN(before, (uint64_t)count_readable(s->fd));
        alive = discard_bytes(s->fd, &stale);
    }
    if (alive && !has_fd_ended(s->fd))
        return 0;
    return reopen_stream(f, call, i, err);
}

static int pull_stream(cay__follow *f, const cay_call *call, int i, cay__buf *out, cay_err *err)
{
    cay__followed *s = &f->s[i];
    char piece[PIECE];
    while (out->len < BUDGET) {
        size_t n = 0, before = count_readable(s->fd);
        uint64_t lost = 0, from = s->at;
        bool eof = false;
        CAY_TRY(cay_proc_read_at(f->p, call, names[i], &s->at, piece, sizeof piece, &n, &lost, &eof,
                                 f->teller->times ? &s->time_ms : NULL, err));
        if (lost)
            f->teller->lost(f, i, from, lost, out);
        if (n)
            f->teller->data(f, i, s->at - n, piece, n, false, out);
        s->debt += n;
        if (eof) {
            f->teller->data(f, i, s->at, "", 0, true, out);
            cay__close_fd(&s->fd);
            return 0;
        }
        if (!n)
            return drain_descriptor(f, call, i, before > s->debt ? before - s->debt : 0, err);
    }
    f->ready |= 1u << i; /* it stays readable, since nothing was taken out of it */
    return 0;
}

static int report_exit(cay__follow *f, cay__buf *out)
{
    cay_err err = CAY_ERR_INIT;
    cay_exit e = { .size = sizeof e };
    cay_call call = make_call();
    if (cay_proc_wait(f->p, &call, &e, &err) < 0)
        f->teller->fail(f, &err, out);
    else
        f->teller->end(f, &e, out);
    return CAY__PUMP_END;
}

static bool has_output_ended(const cay__follow *f)
{
    return f->s[0].fd < 0 && f->s[1].fd < 0;
}

/* Once both streams are over their first place is for the end of the process. */
static void set_pump_fds(cay__follow *f, cay__pump *p)
{
    bool last = has_output_ended(f);
    if (last)
        p->fd[0] = cay_proc_exit_fd(f->p, NULL);
    else
        p->fd[0] = f->s[0].fd;
    p->fd[1] = f->s[1].fd;
    p->fd[2] = f->kick;
}

int cay__follow_work(cay__pump *p, cay__buf *out)
{
    cay__follow *f = p->self;
    cay_err err = CAY_ERR_INIT;
    cay_call call = make_call();
    unsigned ready = f->ready;
    f->ready = 0;
    if (!f->started && f->teller->start)
        f->teller->start(f, out);
    f->started = true;
    if (has_output_ended(f) && ready & 1)
        return report_exit(f, out);
    for (int i = 0; i < 2; i++)
        if (f->s[i].fd >= 0 && ready & 1u << i && pull_stream(f, &call, i, out, &err) < 0) {
            if (err.code == CAY_ENOENT) /* its sandbox was stopped: what it held went along, how the
                                           process ended is known */
                return report_exit(f, out);
            f->teller->fail(f, &err, out);
            return CAY__PUMP_END;
        }
    set_pump_fds(f, p);
    return CAY__PUMP_ON;
}

static int pull_output(cay__pump *p, unsigned ready, cay__buf *out)
{
    cay__follow *f = p->self;
    eventfd_t n;
    if (ready & 4u)
        (void)eventfd_read(f->kick, &n);
    f->ready |= ready & 3u;
    if (ready || !f->started)
        return CAY__PUMP_WORK;
    if (f->teller->beat)
        f->teller->beat(f, out);
    return CAY__PUMP_ON;
}

void cay__follow_pump(cay__follow *f, cay__pump *out)
{
    *out = (cay__pump){ .fd = { -1, -1, -1 },
                        .beat_ms = BEAT_MS,
                        .self = f,
                        .pull = pull_output,
                        .work = cay__follow_work };
    set_pump_fds(f, out);
}
