/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"
#include "base.h"
#include <limits.h>
#include <poll.h>
#include <time.h>

cay_call cay__call_within(const cay_call *call, int ms)
{
    cay_call c = { .size = offsetof(cay_call, trace),
                   .deadline_ms = cay__now_ms() + ms,
                   .cancel_fd = call ? call->cancel_fd : 0 };
    if (call && call->deadline_ms > 0)
        c.deadline_ms = CAY_MIN(c.deadline_ms, call->deadline_ms);
    return c;
}

cay_call cay__call_copy(const cay_call *call)
{
    cay_call c = { 0 };
    if (call)
        memcpy(&c, call, CAY_MIN(CAY_MAX(call->size, offsetof(cay_call, trace)), sizeof c));
    c.size = sizeof c;
    return c;
}

int cay__call_left(const cay_call *call)
{
    if (!call || call->deadline_ms <= 0)
        return -1;
    int64_t left = call->deadline_ms - cay__now_ms();
    if (left <= 0)
        return 0;
    if (left > INT_MAX)
        return INT_MAX;
    return (int)left;
}

int cay__call_cancel(const cay_call *call)
{
    if (call && call->cancel_fd > 0)
        return call->cancel_fd;
    return -1;
}

const char *cay__call_user(const cay_call *call)
{
    if (call && call->size > offsetof(cay_call, user))
        return call->user;
    return NULL;
}

static int timed_out(const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_ETIMEOUT, "deadline", "%s: the deadline of the call passed", what);
}

static int fail_canceled(const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_ECANCELED, "canceled", "%s: canceled", what);
}

int cay__call_check(const cay_call *call, const char *what, cay_err *err)
{
    struct pollfd p = { .fd = cay__call_cancel(call), .events = POLLIN };
    if (p.fd >= 0 && poll(&p, 1, 0) > 0)
        return fail_canceled(what, err);
    if (cay__call_left(call) == 0)
        return timed_out(what, err);
    return 0;
}

int cay__call_wait(const cay_call *call, int fd, short events, const char *what, cay_err *err)
{
    struct pollfd p[2] = { { .fd = fd, .events = events },
                           { .fd = cay__call_cancel(call), .events = POLLIN } };
    for (;;) {
        int left = cay__call_left(call);
        int n = poll(p, 2, left);
        if (n < 0 && errno != EINTR)
            return cay_fail_sys(err, "%s: poll", what);
        if (n > 0 && p[1].revents)
            return fail_canceled(what, err);
        if (n > 0)
            return 0;
        if (n == 0 && left >= 0 && cay__call_left(call) == 0)
            return timed_out(what, err);
    }
}

static int64_t wall_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void copy_id(char dst[24], const char *id)
{
    size_t n = 0;
    if (id)
        n = strnlen(id, 23);
    memcpy(dst, CAY_OR(id, ""), n);
    dst[n] = 0;
}

cay__op cay__op_begin(const cay_call *call, const char *name, const char *sandbox,
                      const cay_err *err)
{
    if (!call || call->size <= offsetof(cay_call, on_op_arg) || !call->on_op)
        return (cay__op){ .call = NULL };
    cay__op op = {
        .call = call, .name = name, .began_ns = wall_ns(), .err = err, .before = err ? err->code : 0
    };
    copy_id(op.sandbox, sandbox);
    return op;
}

void cay__op_sandbox(cay__op *op, const char *id)
{
    if (op->call)
        copy_id(op->sandbox, id);
}

void cay__op_process(cay__op *op, const char *id)
{
    if (op->call)
        copy_id(op->process, id);
}

void cay__op_exit(cay__op *op, int code)
{
    op->exit_code = code;
    op->exited = true;
}

void cay__op_alive(cay__op *op, bool alive)
{
    op->alive = alive;
    op->looked = true;
}

void cay__op_end(cay__op *op)
{
    if (!op->call)
        return;
    bool failed = op->err && op->err->code != op->before;
    cay_op o = { .size = sizeof o,
                 .name = op->name,
                 .sandbox = op->sandbox,
                 .process = op->process,
                 .began_ns = op->began_ns,
                 .ended_ns = wall_ns(),
                 .fault = failed ? op->err : NULL,
                 .path = op->path,
                 .argv = op->argv,
                 .shell = op->shell,
                 .user = op->user,
                 .bytes = op->bytes,
                 .exit_code = op->exited ? &op->exit_code : NULL,
                 .port = op->port,
                 .endpoint = op->endpoint,
                 .alive = op->looked ? &op->alive : NULL,
                 .timeout_ms = op->timeout_ms };
    op->call->on_op(op->call->on_op_arg, &o);
}

int cay__spec_take(void *dst, size_t dst_size, const void *src, const char *name, cay_err *err)
{
    size_t n;
    memset(dst, 0, dst_size);
    memcpy(dst, &dst_size, sizeof dst_size);
    if (!src)
        return 0;
    memcpy(&n, src, sizeof n);
    if (n < sizeof n || n > 65536)
        return cay_fail_why(err, CAY_EINVAL, "spec_size", "%s.size is %zu; set it to sizeof(%s)",
                            name, n, name);
    for (size_t i = dst_size; i < n; i++)
        if (((const char *)src)[i])
            return cay_fail_why(err, CAY_ENOTSUP, "spec_newer",
                                "%s has a field that this library is too old to know", name);
    memcpy((char *)dst + sizeof n, (const char *)src + sizeof n, CAY_MIN(n, dst_size) - sizeof n);
    return 0;
}

void cay__answer_give(void *dst, const void *src, size_t src_size)
{
    size_t n;
    memcpy(&n, dst, sizeof n);
    size_t room = src_size;
    if (n >= sizeof n)
        room = CAY_MIN(n, src_size);
    memcpy((char *)dst + sizeof n, (const char *)src + sizeof n, room - sizeof n);
    if (n == 0)
        memcpy(dst, &src_size, sizeof src_size);
}
