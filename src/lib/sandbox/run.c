/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spawn, feed, collect and wait in one call. Output is always drained, also past the ceiling, so
 * that the command never blocks on us; input that may not fit a pipe is fed by a thread, because a
 * write waits for the command, which may in turn wait for us to read.
 */
#include "sandbox.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

enum { FEED_INLINE = 4096, OUTPUT_DEFAULT = 16 << 20, CHUNK = 65536 };

typedef struct feeder {
    cay_proc *p;
    const char *data;
    size_t len;
    int stop; /* eventfd: the cancel descriptor of its writes */
    bool threaded;
    pthread_t thread;
} feeder;

typedef struct sink {
    int fd;
    char *data;
    size_t len, cap, max;
    uint64_t seen; /* bytes that came, stored or not */
    bool cut;
} sink;

/* A command that ends or closes its stdin early is no failure of the run: its exit code tells. */
static void *feed_stdin(void *arg)
{
    feeder *f = arg;
    cay_call call = { .size = sizeof call, .cancel_fd = f->stop };
    const cay_call *c = NULL;
    if (f->stop > 0)
        c = &call;
    if (cay_proc_write(f->p, c, f->data, f->len, NULL) != CAY_ECANCELED)
        cay_proc_close_stdin(f->p, c, NULL);
    return NULL;
}

static int feed_start(feeder *f, cay_err *err)
{
    if (f->len <= FEED_INLINE) {
        feed_stdin(f);
        return 0;
    }
    pthread_attr_t attr;
    sigset_t all, old;
    f->stop = eventfd(0, EFD_CLOEXEC);
    if (f->stop < 0)
        return cay_fail_sys(err, "eventfd");
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's, not this thread's */
    int e = pthread_create(&f->thread, &attr, feed_stdin, f);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (e) {
        errno = e;
        return cay_fail_sys(err, "start a thread");
    }
    f->threaded = true;
    return 0;
}

static void feed_end(feeder *f)
{
    if (f->threaded) {
        eventfd_write(f->stop, 1);
        pthread_join(f->thread, NULL);
    }
    if (f->stop > 0)
        close(f->stop);
}

static int sink_store(sink *s, const char *p, size_t n, cay_err *err)
{
    size_t keep = CAY_MIN(n, s->max - s->len);
    s->seen += n;
    s->cut |= keep < n;
    if (s->len + keep + 1 > s->cap) {
        size_t cap = CAY_MAX(s->cap * 2, s->len + keep + 1);
        char *q = realloc(s->data, cap);
        if (!q)
            return cay_fail(err, CAY_ENOSPACE, "output: out of memory at %zu bytes", s->len);
        s->data = q;
        s->cap = cap;
    }
    memcpy(s->data + s->len, p, keep);
    s->len += keep;
    s->data[s->len] = 0;
    return 0;
}

static int sink_pull(sink *s, cay_err *err)
{
    char chunk[CHUNK];
    ssize_t n = read(s->fd, chunk, sizeof chunk);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n < 0)
        return cay_fail_sys(err, "read output");
    if (n == 0) {
        cay__close_fd(&s->fd);
        return 0;
    }
    return sink_store(s, chunk, (size_t)n, err);
}

static int collect_output(sink s[2], const cay_call *call, cay_err *err)
{
    while (s[0].fd >= 0 || s[1].fd >= 0) {
        struct pollfd p[3] = { { .fd = s[0].fd, .events = POLLIN },
                               { .fd = s[1].fd, .events = POLLIN },
                               { .fd = cay__call_cancel(call), .events = POLLIN } };
        if (poll(p, 3, cay__call_left(call)) < 0 && errno != EINTR)
            return cay_fail_sys(err, "poll");
        CAY_TRY(cay__call_check(call, "run", err));
        for (int i = 0; i < 2; i++)
            if (p[i].fd >= 0 && p[i].revents)
                CAY_TRY(sink_pull(&s[i], err));
    }
    return 0;
}

/* What the ring still has beyond a descriptor that ended early. */
static int catch_up(cay_proc *p, cay_stream which, const cay_call *call, sink *s, cay_err *err)
{
    bool eof = false;
    while (!eof) {
        char chunk[CHUNK];
        size_t n = 0;
        uint64_t at = s->seen;
        CAY_TRY(cay_proc_read(p, call, which, &at, chunk, sizeof chunk, &n, NULL, &eof, err));
        CAY_TRY(sink_store(s, chunk, n, err));
        s->seen = at;
        if (n == 0)
            break;
    }
    return 0;
}

static int run_process(cay_proc *p, bool tty, const cay_call *call, feeder *f, sink s[2],
                       cay_exit *e, cay_err *err)
{
    CAY_EACH_OF(it, s, 2)
        CAY_TRY(sink_store(it, "", 0, err));
    CAY_TRY(cay_proc_output(p, call, CAY_STDOUT, CAY_FROM_START, &s[0].fd, err));
    if (!tty)
        CAY_TRY(cay_proc_output(p, call, CAY_STDERR, CAY_FROM_START, &s[1].fd, err));
    if (f->data)
        CAY_TRY(feed_start(f, err));
    CAY_TRY(collect_output(s, call, err));
    CAY_TRY(cay_proc_wait(p, call, e, err));
    for (int i = 0; cay_proc_breaks(p) && i < (tty ? 1 : 2); i++)
        CAY_TRY(catch_up(p, i ? CAY_STDERR : CAY_STDOUT, call, &s[i], err));
    return 0;
}

int cay_sandbox_run(cay_sandbox *sb, const cay_call *call, const cay_spawn *spec, const void *input,
                    size_t input_len, size_t max_output, cay_result *out, cay_err *err)
{
    CAY__OP(call, "process.run", sb->id, err);
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay_result r = { .size = sizeof r, .exit.size = sizeof r.exit };
    cay_spawn sp;
    size_t max = CAY_OR(max_output, OUTPUT_DEFAULT);
    sink s[2] = { { .fd = -1, .max = max }, { .fd = -1, .max = max } };

    CAY_TRY(cay__spec_take(&sp, sizeof sp, spec, "cay_spawn", err));
    if (input_len)
        sp.stdin_mode = CAY_STDIN_PIPE;
    else
        sp.stdin_mode = CAY_STDIN_NULL;
    sp.on_full = CAY_FULL_BLOCK; /* we read all the time, so nothing need be dropped */
    sp.attach = true;
    CAY_TRY(cay_sandbox_spawn(sb, call, &sp, &p, err));
    cay__op_process(&op_, cay_proc_id(p));
    feeder f = { .p = p, .data = input_len ? input : NULL, .len = input_len };
    int rc = run_process(p, sp.tty, call, &f, s, &r.exit, err);
    feed_end(&f);
    CAY_EACH_OF(it, s, 2)
        cay__close_fd(&it->fd);
    if (rc < 0) {
        /* Nobody else has a handle on it: what could not be finished does not stay behind. */
        cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
        free(s[0].data);
        free(s[1].data);
        return rc;
    }
    r.out = s[0].data;
    r.out_len = s[0].len;
    r.errout = s[1].data;
    r.errout_len = s[1].len;
    r.truncated = s[0].cut || s[1].cut;
    cay__op_exit(&op_, r.exit.code);
    cay__answer_give(out, &r, sizeof r);
    return 0;
}

void cay_result_clear(cay_result *r)
{
    free(r->out);
    free(r->errout);
    r->out = r->errout = NULL;
    r->out_len = r->errout_len = 0;
}
