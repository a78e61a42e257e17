/* SPDX-License-Identifier: Apache-2.0 */
/* The API of our own: every operation that there is, and how its handlers answer.
 * docs/wire/native.md tells it to people. */
#include "native.h"
#include <base/base.h>
#include <time.h>
#include <poll.h>

enum { ITEMS_MAX = 64 << 20, DRAIN_MS = 20 };

#define ROUTE(name) { CAY__OPERATION(name), cay__on_##name },
static const cay__route routes[] = { CAY__OPS(ROUTE) };

const cay__dialect cay__dialect_native = {
    .name = "native", .base = "/api/v1", .routes = routes, .nroutes = CAY_LEN(routes), .pages = true
};

int cay__on_openapi(cay__req *r, cay_err *err)
{
    return cay__reply_json(r, 200, cay__openapi(&cay__dialect_native, "cay"));
}

int cay__req_body(cay__req *r, void *out, cay_err *err)
{
    json_t *j;
    CAY_TRY(cay__req_json(r, 0, &j, err));
    return cay__shape_read(&r->arena, j, r->route->op->body, CAY__F_IN | cay__native_view(r), out,
                           err);
}

unsigned cay__native_view(const cay__req *r)
{
    unsigned view = 0;
    if (r->who.scope == CAY__SCOPE_ADMIN)
        view |= CAY__F_ADMIN;
    if (r->route->op->flags & CAY__OP_SECRET)
        view |= CAY__F_SECRET;
    return view;
}

const char *cay__native_owner(const cay__req *r)
{
    if (r->who.scope == CAY__SCOPE_ADMIN)
        return NULL;
    return r->who.tenant;
}

static const cay__op_answer *find_answer(const cay__req *r, int status)
{
    const cay__op_answer *a = r->route->op->answers;
    while (!a->shape || (status && a->status != status))
        a++;
    return a;
}

int cay__reply_status(cay__req *r, int status, const void *obj)
{
    const cay__op_answer *a = find_answer(r, status);
    CAY_AUTOBUF b = CAY__BUF(2 * (size_t)ITEMS_MAX);
    cay__shape_put(&b, a->shape, CAY__F_OUT | cay__native_view(r), obj);
    return cay__reply(r, a->status, "application/json", b.data, b.len);
}

int cay__reply_object(cay__req *r, const void *obj)
{
    return cay__reply_status(r, 0, obj);
}

int cay__reply_done(cay__req *r)
{
    return cay__reply(r, 204, NULL, NULL, 0);
}

void cay__items_begin(cay__items *l, cay__req *r)
{
    *l = (cay__items){ .r = r, .shape = find_answer(r, 0)->shape, .b = CAY__BUF(ITEMS_MAX) };
    cay__buf_str(&l->b, "{\"items\":[");
}

int cay__items_add(cay__items *l, const void *obj)
{
    if (l->b.data[l->b.len - 1] != '[')
        cay__buf_str(&l->b, ",");
    cay__shape_put(&l->b, l->shape, CAY__F_OUT | cay__native_view(l->r), obj);
    if (l->b.full)
        return CAY_ETOOBIG;
    return 0;
}

void cay__items_drop(cay__items *l)
{
    cay__buf_clear(&l->b);
}

int cay__items_end(cay__items *l, cay_err *err)
{
    cay__buf_str(&l->b, "]");
    if (*l->next) {
        cay__buf_str(&l->b, ",\"next\":");
        cay__buf_json(&l->b, l->next, strlen(l->next));
    }
    cay__buf_str(&l->b, "}");
    if (l->b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                            "the answer is larger than %d MiB; ask for less", ITEMS_MAX >> 20);
    return 0;
}

int cay__items_reply(cay__items *l, cay_err *err)
{
    int rc = cay__items_end(l, err);
    if (rc == 0)
        rc =
            cay__reply(l->r, find_answer(l->r, 0)->status, "application/json", l->b.data, l->b.len);
    cay__items_drop(l);
    return rc;
}

int cay__items_finish(cay__items *l, int rc, cay_err *err)
{
    if (rc < 0 && !(rc == CAY_ETOOBIG && l->b.full)) {
        cay__items_drop(l);
        return rc;
    }
    return cay__items_reply(l, err);
}

int cay__native_sandbox(cay__req *r, cay_sandbox **out, cay_err *err)
{
    return cay__req_sandbox(r, r->param[0], out, err);
}

int cay__native_use(cay__req *r, cay_sandbox **out, cay_err *err)
{
    return cay__req_awake(r, r->param[0], out, err);
}

int cay__native_files(cay__req *r, cay_sandbox **out, cay_err *err)
{
    CAY_TRY(cay__native_use(
        r, out, err)); /* whoever asks, it starts with the rights that it was made with */
    r->call.user = cay__req_query(r, "user");
    return 0;
}

int cay__native_proc(cay__req *r, cay_proc **out, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_use(r, &sb, err));
    int rc = cay_sandbox_attach(sb, &r->call, r->param[1], out, err);
    if (rc < 0 && !cay__str_starts(err->msg, "process "))
        return cay_wrap(err, rc, "process %.60s", r->param[1]);
    return rc; /* some providers name it themselves */
}

void cay__native_drain(cay_events *ev)
{
    struct pollfd q = { cay_events_fd(ev), POLLIN, 0 };
    cay_event e = { .size = sizeof e };
    cay_call now = { .size = sizeof now, .deadline_ms = cay__native_now() + DRAIN_MS };
    while (poll(&q, 1, 0) > 0 && cay_events_next(ev, &now, &e, NULL) == 0)
        ;
}

int64_t cay__native_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void cay__native_error(cay__buf *b, const cay_err *err)
{
    cay__buf_fmt(b, "{\"code\":\"%s\",\"reason\":", cay_code_name(err->code));
    cay__buf_json(b, err->reason, strlen(err->reason));
    cay__buf_str(b, ",\"message\":");
    cay__buf_json(b, err->msg, strlen(err->msg));
    cay__buf_str(b, "}");
}
