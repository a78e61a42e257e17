/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox keeps running: how it does, until it is ready, start and stop. */
#include "native.h"
#include <base/base.h>
#include <cay/services.h>

CAY__ITEMS_ADD(on_unit, cay_service_info)

static int reply_units(cay__req *r, cay_sandbox *sb, cay_err *err)
{
    cay__items l;
    cay__items_begin(&l, r);
    return cay__items_finish(&l, cay_sandbox_services(sb, &r->call, on_unit, &l, err), err);
}

int cay__on_service_list(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    return reply_units(r, sb, err);
}

int cay__on_service_act(cay__req *r, cay_err *err)
{
    static const char *const all[] = { NULL };
    cay_sandbox *sb;
    cay__service_act b = { .op = 0 };
    CAY_TRY(cay__native_use(r, &sb, err));
    CAY_TRY(cay__req_body(r, &b, err));
    const char *const *n = all;
    if (b.names && *b.names)
        n = b.names;
    do
        CAY_TRY(cay_sandbox_service_act(sb, &r->call, *n,
                                        (cay_service_op)(CAY_SERVICE_START + b.op), err));
    while (*n && *++n);
    return reply_units(r, sb, err);
}

/* Waits on the loop for events of the sandbox, and looks at it on a worker. */
typedef struct waiter {
    cay_sandbox *sb;
    cay_events *ev;
    int64_t end_ms;
    char name[CAY_SERVICE_NAME];
    bool late, over; /* of this look: one is not ready; one is not going to be */
    cay__buf items;
} waiter;

static int on_waited(const cay_service_info *u, void *arg)
{
    waiter *w = arg;
    bool off = u->state == CAY_SERVICE_STOPPED; /* one that stops may be about to start again */
    if (w->name[0] && strcmp(w->name, u->name))
        return 0;
    if (w->items.len)
        cay__buf_str(&w->items, ",");
    cay__shape_put(&w->items, &cay__service_shape, CAY__F_OUT, u);
    w->late |= !u->ready && !(off && !w->name[0]);
    w->over |= u->state == CAY_SERVICE_FAILED || (off && w->name[0]);
    return 0;
}

static int wait_work(cay__pump *p, cay__buf *out)
{
    waiter *w = p->self;
    cay_call call = { .size = sizeof call, .deadline_ms = cay__native_now() + 10000 };
    cay__native_drain(w->ev);
    w->late = w->over = false;
    cay__buf_clear(&w->items);
    w->items = (cay__buf)CAY__BUF(1 << 20);
    bool gone = cay_sandbox_services(w->sb, &call, on_waited, w, NULL) < 0;
    if (!gone && w->late && !w->over && cay__native_now() < w->end_ms)
        return CAY__PUMP_ON;
    cay__buf_fmt(out, "{\"ready\":%s,\"items\":[%s]}", !gone && !w->late ? "true" : "false",
                 CAY_OR(w->items.data, ""));
    return CAY__PUMP_END;
}

static int wait_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    const waiter *w = p->self;
    if (ready || cay__native_now() >= w->end_ms)
        return CAY__PUMP_WORK;
    return CAY__PUMP_ON;
}

/* The server ends: the time is over, too. */
static int wait_last(cay__pump *p, cay__buf *out)
{
    waiter *w = p->self;
    w->end_ms = 0;
    return CAY__PUMP_WORK;
}

static void wait_close(cay__pump *p)
{
    waiter *w = p->self;
    cay__buf_clear(&w->items);
    cay_events_close(w->ev);
    cay_sandbox_unref(w->sb);
    free(w);
}

static int see_name(const cay_service_info *u, void *arg)
{
    const char **name = arg;
    if (!strcmp(u->name, *name))
        *name = "";
    return 0;
}

int cay__on_service_wait(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay_events *ev;
    cay__wait_query q = { .timeout_ms = 30000 };
    CAY_TRY(cay__native_use(r, &sb, err));
    CAY_TRY(cay__req_asked(r, &q, err));
    const char *left = CAY_OR(q.name, "");
    CAY_TRY(cay_sandbox_services(sb, &r->call, see_name, &left, err));
    if (*left)
        return cay_fail_why(err, CAY_ENOENT, "service_not_found",
                            "service %.40s: there is none of this name", left);
    CAY_TRY(cay_client_events(r->client, cay_sandbox_id(sb), &ev, err));
    waiter *w = cay__alloc(sizeof *w);
    *w = (waiter){ .sb = cay_sandbox_ref(sb),
                   .ev = ev,
                   .end_ms = cay__native_now() + (int64_t)q.timeout_ms,
                   .items = CAY__BUF(1 << 20) };
    if (q.name)
        memcpy(w->name, q.name, CAY_MIN(strlen(q.name), sizeof w->name - 1));
    cay__pump p = { .fd = { cay_events_fd(ev), -1, -1 },
                    .beat_ms = 250,
                    .self = w,
                    .pull = wait_pull,
                    .work = wait_work,
                    .last = wait_last,
                    .close = wait_close };
    CAY_AUTOBUF now = CAY__BUF(1 << 20);
    if (wait_work(&p, &now) == CAY__PUMP_END) { /* they are already */
        wait_close(&p);
        return cay__reply(r, 200, "application/json", now.data, now.len);
    }
    return cay__reply_pump(r, 200, "application/json", &p);
}
