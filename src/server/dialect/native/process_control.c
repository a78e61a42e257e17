/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to a process that runs: fed, signalled, resized, waited for. */
#include "native.h"
#include <signal.h>

int cay__on_process_stdin(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay__process_query q = { 0 };
    char piece[32 << 10];
    size_t n;
    CAY_TRY(cay__req_asked(r, &q, err));
    CAY_TRY(cay__native_proc(r, &p, err));
    for (;;) {
        CAY_TRY(cay__req_read(r, piece, sizeof piece, &n, err));
        if (!n)
            break;
        CAY_TRY(cay_proc_write(p, &r->call, piece, n, err));
    }
    if (q.close_input)
        CAY_TRY(cay_proc_close_stdin(p, &r->call, err));
    return cay__reply_done(r);
}

int cay__on_process_signal(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay__signal_body b = { .sig = SIGTERM };
    CAY_TRY(cay__req_body(r, &b, err));
    CAY_TRY(cay__native_proc(r, &p, err));
    CAY_TRY(cay_proc_signal(p, &r->call, b.sig, (cay_scope)b.scope, err));
    return cay__reply_done(r);
}

int cay__on_process_resize(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay__size_body b = { 0 };
    CAY_TRY(cay__req_body(r, &b, err));
    CAY_TRY(cay__native_proc(r, &p, err));
    CAY_TRY(cay_proc_resize(p, &r->call, b.cols, b.rows, err));
    return cay__reply_done(r);
}

typedef struct waiter {
    cay_proc *p;
    int64_t end_ms;
} waiter;

static int wait_work(cay__pump *p, cay__buf *out)
{
    waiter *w = p->self;
    cay_call call = { .size = sizeof call, .deadline_ms = cay__native_now() + 10000 };
    cay_exit e = { .size = sizeof e };
    if (cay_proc_wait(w->p, &call, &e, NULL) < 0)
        return CAY_ESYS; /* the answer has begun: only a cut tells */
    cay__shape_put(out, &cay__process_waited_shape, CAY__F_OUT, &(cay__process_waited){ true, &e });
    return CAY__PUMP_END;
}

static int wait_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    const waiter *w = p->self;
    if (ready)
        return CAY__PUMP_WORK;
    int64_t left = w->end_ms - cay__native_now();
    if (left <= 0) {
        cay__shape_put(out, &cay__process_waited_shape, CAY__F_OUT,
                       &(cay__process_waited){ false, NULL });
        return CAY__PUMP_END;
    }
    p->beat_ms = (unsigned)left;
    return CAY__PUMP_ON;
}

/* The server ends: the time is over, too. */
static int wait_last(cay__pump *p, cay__buf *out)
{
    cay__shape_put(out, &cay__process_waited_shape, CAY__F_OUT,
                   &(cay__process_waited){ false, NULL });
    return CAY__PUMP_END;
}

static void wait_close(cay__pump *p)
{
    waiter *w = p->self;
    cay_proc_unref(w->p);
    free(w);
}

int cay__on_process_wait(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay__wait_query q = { .timeout_ms = 30000 };
    CAY_TRY(cay__req_asked(r, &q, err));
    CAY_TRY(cay__native_proc(r, &p, err));
    int fd = cay_proc_exit_fd(p, err);
    if (fd < 0)
        return fd;
    waiter *w = cay__alloc(sizeof *w);
    *w = (waiter){ .p = CAY_STEAL(p), .end_ms = cay__native_now() + (int64_t)q.timeout_ms };
    cay__pump pump = { .fd = { fd, -1, -1 },
                       .beat_ms = (unsigned)CAY_MAX(q.timeout_ms, 1u),
                       .self = w,
                       .pull = wait_pull,
                       .work = wait_work,
                       .last = wait_last,
                       .close = wait_close };
    return cay__reply_pump(r, 200, "application/json", &pump);
}
