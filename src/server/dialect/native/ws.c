/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process over a WebSocket, both ways. Output and its end come by the follower. A write of input
 * may wait for the process as long as it likes, and output has to flow meanwhile: so input has a
 * thread, which lives only while there is some on its way.
 */
#include "follow.h"
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

enum {
    INPUT_HIGH = 256 << 10,
    INPUT_LOW = 64 << 10,
    INPUT_MAX = 2 << 20,
    TEXT_MAX = 4096,
    ORDERS_MAX = 64,
    LAST_S = 5 /* for input of somebody who left */,
    ALONE_MAX = 64
};
static atomic_int alone_now; /* threads that nobody waits for */

typedef struct order {
    enum { RESIZE, SIGNAL } what;
    cay__size_body size;
    cay__signal_body sig;
} order;

typedef struct ws {
    cay__follow f; /* first */
    pthread_mutex_t lock;
    cay__buf in; /* input that waits */
    bool feeding, joinable, close_in;
    bool alone;     /* nobody listens any more: the thread frees it */
    cay_err in_err; /* why input is no longer taken; code 0: it is */
    bool in_told;
    int stop; /* timerfd: when it is due the thread ends; it runs once nobody listens */
    pthread_t thread;
    order orders[ORDERS_MAX];
    size_t norders;
} ws;

static const char *const stream_words[] = { "stdout", "stderr" };

static void send_text(cay__buf *out, const cay__buf *b)
{
    cay__ws_send(out, CAY__WS_TEXT, b->data, b->len);
}

static void tell_start(cay__follow *f, cay__buf *out)
{
    CAY_AUTOBUF b = CAY__BUF(512);
    cay__buf_fmt(&b,
                 "{\"type\":\"start\",\"id\":\"%s\",\"pid\":%d,\"stdout\":%" PRIu64
                 ",\"stderr\":%" PRIu64 "}",
                 cay_proc_id(f->p), cay_proc_pid(f->p), f->s[0].at, f->s[1].at);
    send_text(out, &b);
}

static void tell_data(cay__follow *f, int which, uint64_t offset, const char *data, size_t n,
                      bool last, cay__buf *out)
{
    char all[(32 << 10) + 1];
    if (!n)
        return;
    all[0] = (char)(which + 1);
    memcpy(all + 1, data, n);
    cay__ws_send(out, CAY__WS_BINARY, all, n + 1);
}

static void tell_lost(cay__follow *f, int which, uint64_t offset, uint64_t bytes, cay__buf *out)
{
    CAY_AUTOBUF b = CAY__BUF(512);
    cay__buf_fmt(
        &b, "{\"type\":\"lost\",\"stream\":\"%s\",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
        stream_words[which], offset, bytes);
    send_text(out, &b);
}

static void tell_end(cay__follow *f, const cay_exit *e, cay__buf *out)
{
    CAY_AUTOBUF b = CAY__BUF(4096);
    cay__shape_put(&b, &cay__exit_shape, CAY__F_OUT, e);
    CAY_AUTOBUF all = CAY__BUF(8192);
    cay__buf_fmt(&all, "{\"type\":\"exit\",%s", b.data + 1);
    send_text(out, &all);
    cay__ws_close(out, 1000, "");
}

static void tell_error(cay__buf *out, const char *type, const cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(4096);
    cay__native_error(&b, err);
    CAY_AUTOBUF all = CAY__BUF(8192);
    cay__buf_fmt(&all, "{\"type\":\"%s\",%s", type, b.data + 1);
    send_text(out, &all);
}

static void tell_fail(cay__follow *f, const cay_err *err, cay__buf *out)
{
    tell_error(out, "error", err);
    cay__ws_close(out, 1011, "");
}

static const cay__follow_ops frames = {
    tell_start, tell_data, tell_lost, tell_end, tell_fail, NULL
};

static void ws_free(ws *w)
{
    cay__buf_clear(&w->in);
    cay__close_fd(&w->stop);
    cay__follow_close(&w->f);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* Takes what waits; false when there is nothing, and then this thread counts as gone. *alone: what
 * is left is its own. */
static bool take_input(ws *w, cay__buf *out, bool *close_in, bool *alone)
{
    pthread_mutex_lock(&w->lock);
    *out = w->in;
    w->in = (cay__buf)CAY__BUF(INPUT_MAX);
    *close_in = !out->len && w->close_in;
    if (*close_in)
        w->close_in = false;
    w->feeding = out->len || *close_in;
    bool any = w->feeding;
    *alone = w->alone;
    pthread_mutex_unlock(&w->lock);
    return any;
}

static void *feed_stdin(void *arg)
{
    ws *w = arg;
    cay_call call = { .size = sizeof call, .cancel_fd = w->stop };
    cay__buf b;
    bool close_in, alone;
    while (take_input(w, &b, &close_in, &alone)) {
        cay_err err = CAY_ERR_INIT;
        int rc;
        if (close_in)
            rc = cay_proc_close_stdin(w->f.p, &call, &err);
        else
            rc = cay_proc_write(w->f.p, &call, b.data, b.len, &err);
        cay__buf_clear(&b);
        pthread_mutex_lock(&w->lock);
        if (rc < 0)
            w->in_err = err;
        pthread_mutex_unlock(&w->lock);
        eventfd_write(w->f.kick, 1);
    }
    cay__buf_clear(&b);
    if (alone) {
        ws_free(w);
        atomic_fetch_sub(&alone_now, 1);
    }
    return NULL;
}

/* With the lock held. */
static int start_feeding(ws *w)
{
    pthread_attr_t attr;
    sigset_t all, old;
    if (w->feeding || w->in_err.code)
        return 0;
    if (w->joinable)
        pthread_join(w->thread, NULL); /* it has nothing left to do */
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    w->joinable = w->feeding = pthread_create(&w->thread, &attr, feed_stdin, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (w->joinable)
        return 0;
    return CAY_ENOSPACE;
}

static int push_input(cay__pump *p, const char *data, size_t len)
{
    ws *w = p->self;
    pthread_mutex_lock(&w->lock);
    if (!w->in_err.code)
        cay__buf_add(&w->in, data, len);
    p->hold = w->in.len > INPUT_HIGH;
    int rc = CAY_ETOOBIG;
    if (!w->in.full)
        rc = start_feeding(w);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* {"type": …} and the members of that type. */
static int take_order(ws *w, cay__pump *p, const char *data, size_t len, cay_err *err)
{
    cay__arena mem = { 0 };
    CAY_AUTOJSON *j = NULL;
    char line[TEXT_MAX + 1];
    order o = { .sig = { .sig = SIGTERM } };
    if (len > TEXT_MAX || memchr(data, 0, len))
        return cay_fail(err, CAY_EINVAL, "a text message of more than %d bytes, or with a NUL",
                        TEXT_MAX);
    memcpy(line, data, len);
    line[len] = 0;
    CAY_TRY(cay__json_object("message", line, &j, err));
    const char *type = cay__json_str(j, "type", "");
    bool resize = !strcmp(type, "resize"), sig = !strcmp(type, "signal"),
         close_in = !strcmp(type, "close_stdin");
    if (!resize && !sig && !close_in)
        return cay_fail(err, CAY_EINVAL, "type: want resize, signal or close_stdin");
    json_object_del(j, "type");
    if (resize)
        o.what = RESIZE;
    else
        o.what = SIGNAL;
    if (close_in && json_object_size(j))
        return cay_fail(err, CAY_EINVAL, "close_stdin has no other members");
    int rc = 0;
    if (!close_in)
        rc = cay__shape_read(&mem, j, resize ? &cay__size_shape : &cay__signal_shape, CAY__F_IN,
                             resize ? (void *)&o.size : (void *)&o.sig, err);
    cay__arena_clear(&mem);
    if (rc < 0)
        return rc;
    if (close_in) {
        pthread_mutex_lock(&w->lock);
        w->close_in = true;
        rc = start_feeding(w);
        pthread_mutex_unlock(&w->lock);
        return rc;
    }
    if (w->norders == ORDERS_MAX)
        return cay_fail(err, CAY_EBUSY, "too many messages at once");
    w->orders[w->norders++] = o;
    p->hold = p->hold || w->norders > ORDERS_MAX / 2;
    return 0;
}

static int ws_push(cay__pump *p, int kind, const char *data, size_t len, cay__buf *out)
{
    ws *w = p->self;
    cay_err err = CAY_ERR_INIT;
    if (!data)
        return CAY__PUMP_END; /* the process goes on without us */
    if (kind == CAY__WS_BINARY)
        return push_input(p, data, len);
    if (take_order(w, p, data, len, &err) < 0) {
        cay__ws_close(out, 1008, err.msg);
        return CAY__PUMP_END;
    }
    if (w->norders)
        return CAY__PUMP_WORK;
    return CAY__PUMP_ON;
}

static void apply_orders(ws *w)
{
    cay_call call = { .size = sizeof call, .deadline_ms = cay__native_now() + 10000 };
    CAY_EACH_OF(o, w->orders, w->norders) {
        if (o->what == RESIZE)
            cay_proc_resize(w->f.p, &call, o->size.cols, o->size.rows, NULL);
        else
            cay_proc_signal(w->f.p, &call, o->sig.sig, (cay_scope)o->sig.scope, NULL);
    }
    w->norders = 0;
}

static int ws_work(cay__pump *p, cay__buf *out)
{
    ws *w = p->self;
    apply_orders(w);
    int rc = cay__follow_work(p, out);
    pthread_mutex_lock(&w->lock);
    p->hold = w->in.len > INPUT_LOW;
    bool tell =
        w->in_err.code && w->in_err.code != CAY_ECANCELED && !w->in_told && rc == CAY__PUMP_ON;
    if (tell)
        tell_error(out, "input", &w->in_err);
    w->in_told |= tell;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* What somebody typed before leaving is typed: a thread that is at it goes on without us, for as
 * long as LAST_S, or not at all if too many do. */
static void ws_close(cay__pump *p)
{
    ws *w = p->self;
    static const struct itimerspec last = { .it_value.tv_sec = LAST_S },
                                   at_once = { .it_value.tv_nsec = 1 };
    pthread_mutex_lock(&w->lock);
    bool left = w->alone = w->feeding;
    if (left) {
        timerfd_settime(w->stop, 0, atomic_fetch_add(&alone_now, 1) < ALONE_MAX ? &last : &at_once,
                        NULL);
        pthread_detach(w->thread);
    }
    pthread_mutex_unlock(&w->lock);
    if (left)
        return;
    if (w->joinable)
        pthread_join(w->thread, NULL);
    ws_free(w);
}

int cay__on_process_ws(cay__req *r, cay_err *err)
{
    cay_proc *proc;
    cay__pump pump;
    uint64_t offset[2];
    CAY_TRY(cay__native_offsets(r, offset, err));
    CAY_TRY(cay__native_proc(r, &proc, err));
    ws *w = cay__alloc(sizeof *w);
    w->stop = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    w->in = (cay__buf)CAY__BUF(INPUT_MAX);
    pthread_mutex_init(&w->lock, NULL);
    int rc = 0;
    if (w->stop < 0)
        rc = cay_fail_sys(err, "timerfd");
    if (rc < 0)
        cay_proc_unref(proc);
    else
        rc = cay__follow_open(&w->f, &r->call, proc, offset, &frames, err);
    if (rc < 0) {
        cay__close_fd(&w->stop);
        pthread_mutex_destroy(&w->lock);
        free(w);
        return rc;
    }
    cay__follow_pump(&w->f, &pump);
    pump.work = ws_work;
    pump.push = ws_push;
    pump.close = ws_close;
    rc = cay__reply_ws(r, NULL, &pump, err);
    if (rc < 0)
        ws_close(&pump); /* it was no sound request for a WebSocket */
    return rc;
}
