/* SPDX-License-Identifier: Apache-2.0 */
/* The API of our own: every operation that there is, and how its handlers answer.
 * docs/wire/native.md tells it to people. */
#include "native.h"
#include <time.h>
#include <server/http/limits.h>

enum { ITEMS_MAX = 64 << 20 };

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

cay__items cay__items_of(cay__req *r)
{
    cay__items l = { .r = r, .shape = find_answer(r, 0)->shape, .b = CAY__BUF(ITEMS_MAX) };
    cay__buf_str(&l.b, "{\"items\":[");
    return l;
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

int cay__items_page(cay__items *l, size_t limit, const char *id, int64_t created_ms,
                    const void *obj)
{
    if (l->n++ == limit) {
        CAY_COPY(l->next, l->last);
        return 1;
    }
    cay__mark_put(l->last, id, created_ms);
    return cay__items_add(l, obj);
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

int cay__items_finish(cay__items *l, int rc, cay_err *err)
{
    if (rc >= 0 || (rc == CAY_ETOOBIG && l->b.full))
        rc = cay__items_end(l, err);
    if (rc == 0)
        rc =
            cay__reply(l->r, find_answer(l->r, 0)->status, "application/json", l->b.data, l->b.len);
    cay__buf_clear(&l->b);
    return rc;
}

/* An archive is whole on the disk before any of it is sent or believed, in a file without a name: a
 * slow peer holds no worker. */
int cay__native_scratch(cay__req *r, const char *crowd, const char *what, int *fd, cay_err *err)
{
    CAY_TRY(cay__crowd_enter(r, crowd, err));
    *fd = open(cay_client_home(r->client), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    CAY_TRY_SYS(*fd, err, "make a file for the %s", what);
    return 0;
}

int cay__native_receive(cay__req *r, const char *what, uint64_t max, int *fd, uint64_t *n,
                        cay_err *err)
{
    CAY_TRY(cay__native_scratch(r, "send it", what, fd, err));
    CAY_TRY(cay__req_to_fd(r, *fd, max, n, err));
    return cay__once_file(r, *fd, *n, err);
}

int cay__native_send(cay__req *r, const char *type, int *fd, cay_err *err)
{
    struct stat st;
    if (fstat(*fd, &st) < 0 || lseek(*fd, 0, SEEK_SET) < 0)
        return cay_fail_sys(err, "read the archive");
    return cay__reply_fd(r, 200, type, CAY_STEAL_FD(*fd), st.st_size);
}

void cay__reply_number(cay__req *r, const char *name, uint64_t v)
{
    char text[24];
    cay__reply_field(r, name, cay__str_u64(text, v));
}

int cay__native_proc(cay__req *r, cay_proc **out, cay_err *err)
{
    CAY_TRY(cay_sandbox_wake(r->sb, &r->call, err));
    int rc = cay_sandbox_attach(r->sb, &r->call, r->param[1], out, err);
    if (rc < 0 && !cay__str_starts(err->msg, "process "))
        return cay_wrap(err, rc, "process %.60s", r->param[1]);
    return rc; /* some providers name it themselves */
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
