/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that wait: on the loop for events of a sandbox, which is looked at on a worker. */
#include "native.h"
#include <poll.h>

enum { DRAIN_MS = 20, CALL_MS = 10000, ANSWER_MAX = 1 << 20 };

/* Takes what is there and hardly waits: what made it readable may be no event of this sandbox. */
static void drain_events(cay_events *ev)
{
    struct pollfd q = { cay_events_fd(ev), POLLIN, 0 };
    cay_event e = { .size = sizeof e };
    cay_call now = { .size = sizeof now, .deadline_ms = cay__native_now() + DRAIN_MS };
    while (poll(&q, 1, 0) > 0 && cay_events_next(ev, &now, &e, NULL) == 0)
        ;
}

static int wait_work(cay__pump *p, cay__buf *out)
{
    cay__waiter *w = p->self;
    cay_call call = { .size = sizeof call, .deadline_ms = cay__native_now() + CALL_MS };
    CAY_AUTOBUF answer = CAY__BUF(ANSWER_MAX);
    drain_events(w->ev);
    if (!w->look(w, &call, &answer) && cay__native_now() < w->end_ms)
        return CAY__PUMP_ON;
    cay__buf_add(out, answer.data, answer.len);
    return CAY__PUMP_END;
}

static int wait_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    const cay__waiter *w = p->self;
    if (ready || cay__native_now() >= w->end_ms)
        return CAY__PUMP_WORK;
    return CAY__PUMP_ON;
}

/* The server ends: the time is over, too. */
static int wait_last(cay__pump *p, cay__buf *out)
{
    cay__waiter *w = p->self;
    w->end_ms = 0;
    return CAY__PUMP_WORK;
}

static void wait_close(cay__pump *p)
{
    cay__waiter *w = p->self;
    cay_events_close(w->ev);
    cay_sandbox_unref(w->sb);
    free(w);
}

int cay__native_wait(cay__req *r, const cay__waiter *first, const cay__wait_query *q,
                     unsigned beat_ms, cay_err *err)
{
    cay_events *ev;
    CAY_TRY(cay_client_events(r->client, cay_sandbox_id(r->sb), &ev, err));
    cay__waiter *w = cay__alloc(sizeof *w);
    *w = *first;
    w->sb = cay_sandbox_ref(r->sb);
    w->ev = ev;
    w->end_ms = cay__native_now() + (int64_t)q->timeout_ms;
    cay__pump p = { .fd = { cay_events_fd(ev), -1, -1 },
                    .beat_ms = beat_ms,
                    .self = w,
                    .pull = wait_pull,
                    .work = wait_work,
                    .last = wait_last,
                    .close = wait_close };
    CAY_AUTOBUF now = CAY__BUF(ANSWER_MAX);
    if (wait_work(&p, &now) == CAY__PUMP_END) { /* it is so already */
        wait_close(&p);
        return cay__reply(r, 200, "application/json", now.data, now.len);
    }
    return cay__reply_pump(r, 200, "application/json", &p);
}
