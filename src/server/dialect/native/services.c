/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox keeps running: how it does, until it is ready, start and stop. */
#include "native.h"

CAY__ITEMS_ADD(on_unit, cay_service_info)

int cay__on_service_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_sandbox_services(r->sb, &r->call, on_unit, &l, err), err);
}

int cay__on_service_act(cay__req *r, cay_err *err)
{
    static const char *const all[] = { NULL };
    cay__service_act b = { .op = 0 };
    CAY_TRY(cay__req_body(r, &b, err));
    const char *const *n = all;
    if (b.names && *b.names)
        n = b.names;
    do
        CAY_TRY(cay_sandbox_service_act(r->sb, &r->call, *n,
                                        (cay_service_op)(CAY_SERVICE_START + b.op), err));
    while (*n && *++n);
    return cay__on_service_list(r, err);
}

/* What one look finds. */
typedef struct found {
    const char *name;
    bool late, over; /* one is not ready; one is not going to be */
    cay__buf items;
} found;

static int on_waited(const cay_service_info *u, void *arg)
{
    found *w = arg;
    bool off = u->state == CAY_SERVICE_STOPPED; /* one that stops may be about to start again */
    if (*w->name && strcmp(w->name, u->name))
        return 0;
    if (w->items.len)
        cay__buf_str(&w->items, ",");
    cay__shape_put(&w->items, &cay__service_shape, CAY__F_OUT, u);
    w->late |= !u->ready && !(off && !*w->name);
    w->over |= u->state == CAY_SERVICE_FAILED || (off && *w->name);
    return 0;
}

static bool look_at_services(cay__waiter *w, const cay_call *call, cay__buf *answer)
{
    found f = { .name = w->name, .items = CAY__BUF(1 << 20) };
    bool gone = cay_sandbox_services(w->sb, call, on_waited, &f, NULL) < 0;
    cay__buf_fmt(answer, "{\"ready\":%s,\"items\":[%s]}", !gone && !f.late ? "true" : "false",
                 CAY_OR(f.items.data, ""));
    cay__buf_clear(&f.items);
    return gone || !f.late || f.over;
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
    cay__wait_query q = { .timeout_ms = 30000 };
    cay__waiter w = { .look = look_at_services };
    CAY_TRY(cay__req_asked(r, &q, err));
    const char *left = CAY_OR(q.name, "");
    CAY_COPY(w.name, left);
    CAY_TRY(cay_sandbox_services(r->sb, &r->call, see_name, &left, err));
    if (*left)
        return cay_fail_why(err, CAY_ENOENT, "service_not_found",
                            "service %.40s: there is none of this name", left);
    return cay__native_wait(r, &w, &q, 250, err);
}
