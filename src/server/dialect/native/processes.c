/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: started, listed, or run to their end in one request. */
#include "native.h"

enum { OUTPUT_DEFAULT = 16 << 20, OUTPUT_MAX = 64 << 20 };

static cay__process_told describe_process(const cay_proc_info *i)
{
    return (cay__process_told){ .i = *i, .exit = i->state == 'X' ? &i->exit : NULL };
}

static bool wants_events(const cay__req *r)
{
    const char *a = cay__head_field(&r->head, "accept");
    return a && strstr(a, "text/event-stream");
}

static int start_process(cay__req *r, cay__spawn_body *b, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    bool stream = wants_events(r);
    CAY_TRY(cay_sandbox_spawn(r->sb, &r->call, &b->s, &p, err));
    if (stream)
        return cay__native_stream(r, CAY_STEAL(p), (const uint64_t[2]){ 0, 0 }, true, err);
    cay__started s = { cay_proc_id(p), cay_proc_pid(p) };
    return cay__reply_object(r, &s);
}

int cay__on_process_start(cay__req *r, cay_err *err)
{
    cay__spawn_body b = { .s = { .size = sizeof b.s } };
    CAY_TRY(cay__req_body(r, &b, err));
    return start_process(r, &b, err);
}

int cay__on_pty_start(cay__req *r, cay_err *err)
{
    cay__spawn_body b = { .s = { .size = sizeof b.s } };
    CAY_TRY(cay__req_body(r, &b, err));
    b.s.tty = true;
    b.s.stdin_mode = CAY_STDIN_PIPE;
    if (!b.s.argv && !b.s.shell) { /* as a terminal's own program would start it */
        b.s.shell = "exec \"${SHELL:-/bin/sh}\" -l";
        b.s.login = true;
    }
    return start_process(r, &b, err);
}

int cay__on_process_run(cay__req *r, cay_err *err)
{
    cay__spawn_body b = { .s = { .size = sizeof b.s } };
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay__req_body(r, &b, err));
    if (b.input && b.input64)
        return cay_fail_why(err, CAY_EINVAL, "field_invalid",
                            "input and input_base64 exclude each other");
    const char *in = CAY_OR(b.input, b.input64);
    size_t len;
    if (b.input)
        len = strlen(b.input);
    else
        len = b.input_len;
    CAY_TRY(cay_sandbox_run(r->sb, &r->call, &b.s, in, len, CAY_OR(b.max_output, OUTPUT_DEFAULT),
                            &res, err));
    int rc = cay__reply_object(r, &res);
    cay_result_clear(&res);
    return rc;
}

typedef struct looker {
    cay__items list;
    bool ended;
    const char *id; /* one process: its id, or its pid when it has none */
    int pid;
    bool found;
} looker;

static int on_listed(const cay_proc_info *i, void *arg)
{
    looker *l = arg;
    cay__process_told t = describe_process(i);
    if (i->state == 'X' && !l->ended)
        return 0;
    return cay__items_add(&l->list, &t);
}

int cay__on_process_list(cay__req *r, cay_err *err)
{
    cay__process_query q = { 0 };
    CAY_TRY(cay__req_asked(r, &q, err));
    looker l = { cay__items_of(r), .ended = q.ended };
    return cay__items_finish(&l.list, cay_sandbox_procs(r->sb, &r->call, on_listed, &l, err), err);
}

static int on_list_process(const cay_proc_info *i, void *arg)
{
    looker *l = arg;
    if (l->found)
        return 1;
    if (*l->id ? strcmp(i->id, l->id) : i->pid != l->pid)
        return 0;
    cay__process_told t = describe_process(i);
    l->found = true;
    cay__reply_object(l->list.r, &t);
    return 1;
}

int cay__on_process_get(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    CAY_TRY(cay__native_proc(r, &p, err));
    looker l = { .list.r = r, .id = cay_proc_id(p), .pid = cay_proc_pid(p) };
    CAY_TRY(cay_sandbox_procs(r->sb, &r->call, on_list_process, &l, err));
    if (l.found)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "process_not_found", "process %.60s is no longer kept",
                        r->param[1]);
}
