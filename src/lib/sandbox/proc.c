/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"
#include <cay/snapshot.h>
#include <signal.h>

void cay_proc_unref(cay_proc *p)
{
    if (!p)
        return;
    p->sb->ops->proc_release(p->obj);
    cay_sandbox_unref(p->sb);
    free(p);
}

const char *cay_proc_id(const cay_proc *p)
{
    int pid = 0;
    return p->sb->ops->proc_id(p->obj, &pid);
}

int cay_proc_pid(const cay_proc *p)
{
    int pid = 0;
    p->sb->ops->proc_id(p->obj, &pid);
    return pid;
}

/* What is told of an operation on a process. */
#define PROC_OP(call, name, p, err)                                                                \
    CAY__OP(call, name, (p)->sb->id, err);                                                         \
    cay__op_process(&op_, cay_proc_id(p))

static void touch_sandbox(cay_proc *p)
{
    if (p->sb->touch)
        p->sb->touch(p->sb);
}

static int check_stream(cay_stream which, cay_err *err)
{
    if (which != CAY_STDOUT && which != CAY_STDERR)
        return cay_fail_why(err, CAY_EINVAL, "stream_unknown",
                            "stream %d: there are 1 (stdout) and 2 (stderr)", (int)which);
    return 0;
}

int cay_proc_output(cay_proc *p, const cay_call *call, cay_stream which, uint64_t offset, int *fd,
                    cay_err *err)
{
    PROC_OP(call, "process.output", p, err);
    CAY_TRY(check_stream(which, err));
    CAY_TRY(cay__call_check(call, "output", err));
    touch_sandbox(p);
    return p->sb->ops->proc_output(p->obj, call, which, offset, fd, err);
}

unsigned cay_proc_breaks(const cay_proc *p)
{
    if (p->sb->ops->proc_breaks)
        return p->sb->ops->proc_breaks(p->obj);
    return 0;
}

int cay_proc_read_at(cay_proc *p, const cay_call *call, cay_stream which, uint64_t *offset,
                     void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof, int64_t *time_ms,
                     cay_err *err)
{
    size_t got = 0;
    uint64_t gone = 0;
    bool end = false;
    int64_t then = 0;
    CAY_TRY(check_stream(which, err));
    CAY_TRY(cay__call_check(call, "read", err));
    if (!p->sb->ops->proc_read)
        return cay__no_such_op(p->sb, "read output by polling", err);
    touch_sandbox(p);
    if (time_ms && p->sb->ops->proc_read_at)
        CAY_TRY(p->sb->ops->proc_read_at(p->obj, call, which, offset, buf, cap, &got, &gone, &end,
                                         &then, err));
    else
        CAY_TRY(
            p->sb->ops->proc_read(p->obj, call, which, offset, buf, cap, &got, &gone, &end, err));
    *n = got;
    if (time_ms)
        *time_ms = then;
    if (lost)
        *lost = gone;
    if (eof)
        *eof = end;
    return 0;
}

int cay_proc_read(cay_proc *p, const cay_call *call, cay_stream which, uint64_t *offset, void *buf,
                  size_t cap, size_t *n, uint64_t *lost, bool *eof, cay_err *err)
{
    return cay_proc_read_at(p, call, which, offset, buf, cap, n, lost, eof, NULL, err);
}

int cay_proc_write(cay_proc *p, const cay_call *call, const void *data, size_t len, cay_err *err)
{
    PROC_OP(call, "process.write", p, err);
    CAY_TRY(cay__call_check(call, "write", err));
    touch_sandbox(p);
    if (len)
        return p->sb->ops->proc_write(p->obj, call, data, len, err);
    return 0;
}

int cay_proc_close_stdin(cay_proc *p, const cay_call *call, cay_err *err)
{
    PROC_OP(call, "process.close_stdin", p, err);
    CAY_TRY(cay__call_check(call, "close stdin", err));
    return p->sb->ops->proc_close_stdin(p->obj, call, err);
}

int cay_proc_resize(cay_proc *p, const cay_call *call, uint16_t cols, uint16_t rows, cay_err *err)
{
    PROC_OP(call, "process.resize", p, err);
    if (!cols || !rows)
        return cay_fail_why(err, CAY_EINVAL, "size_invalid",
                            "resize to %u × %u: both must be at least 1", cols, rows);
    CAY_TRY(cay__call_check(call, "resize", err));
    if (!p->sb->ops->proc_resize)
        return cay__no_such_op(p->sb, "resize a terminal", err);
    touch_sandbox(p);
    return p->sb->ops->proc_resize(p->obj, call, cols, rows, err);
}

int cay_proc_signal(cay_proc *p, const cay_call *call, int sig, cay_scope scope, cay_err *err)
{
    PROC_OP(call, "process.signal", p, err);
    if (sig < 0 || sig >= NSIG)
        return cay_fail_why(err, CAY_EINVAL, "signal_invalid", "signal %d: give 0 to %d", sig,
                            NSIG - 1);
    if ((unsigned)scope > CAY_SCOPE_BELOW)
        return cay_fail_why(err, CAY_EINVAL, "scope_unknown", "scope %d is not known", (int)scope);
    CAY_TRY(cay__call_check(call, "signal", err));
    touch_sandbox(p);
    return p->sb->ops->proc_signal(p->obj, call, sig, scope, err);
}

/* Told once; what goes wrong is no failure of the command. */
static void tell_end(cay_proc *p)
{
    cay_sandbox *sb = p->sb;
    if (!sb->ended || !atomic_exchange(&p->untold, false))
        return;
    cay_err *why = cay__alloc(sizeof *why);
    *why = (cay_err)CAY_ERR_INIT;
    if (sb->ended(sb, why) == 0) {
        free(why);
        why = NULL;
    }
    free(atomic_exchange(&sb->ended_err, why));
}

int cay_sandbox_checkpoint_error(cay_sandbox *sb, cay_err *err)
{
    cay_err *why = atomic_exchange(&sb->ended_err, NULL);
    int rc = 0;
    if (why)
        rc = why->code;
    if (why && err)
        *err = *why;
    free(why);
    return rc;
}

int cay_proc_wait(cay_proc *p, const cay_call *call, cay_exit *out, cay_err *err)
{
    PROC_OP(call, "process.wait", p, err);
    cay_exit e = { .size = sizeof e };
    CAY_TRY(p->sb->ops->proc_wait(p->obj, call, &e, err));
    cay__op_exit(&op_, e.code);
    tell_end(p);
    if (out)
        cay__answer_give(out, &e, sizeof e);
    return 0;
}

int cay_proc_exit_fd(cay_proc *p, cay_err *err)
{
    return p->sb->ops->proc_exit_fd(p->obj, err);
}

typedef struct teller {
    cay_proc_info_fn *fn;
    void *arg;
} teller;

/* Processes that nobody started through us have no labels. */
static int on_listed_process(const cay_proc_info *info, void *arg)
{
    static const cay_pair none = { NULL, NULL };
    const teller *t = arg;
    cay_proc_info i = *info;
    i.labels = CAY_OR(i.labels, &none);
    return t->fn(&i, t->arg);
}

int cay_sandbox_procs(cay_sandbox *sb, const cay_call *call, cay_proc_info_fn *fn, void *arg,
                      cay_err *err)
{
    CAY__OP(call, "process.list", sb->id, err);
    CAY_TRY(cay__call_check(call, "processes", err));
    if (!sb->ops->procs)
        return cay__no_such_op(sb, "list processes", err);
    CAY_TRY(cay__sandbox_files(sb, err)); /* looking is allowed while paused */
    return sb->ops->procs(sb->box, call, on_listed_process, &(teller){ fn, arg }, err);
}
