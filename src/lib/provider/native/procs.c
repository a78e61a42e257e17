/* SPDX-License-Identifier: Apache-2.0 */
#include "box_ops.h"
#include <base/base.h>

static int open_session(void *arg, const cay_call *call, const char *user, int *sock, cay_err *err)
{
    cay__served *b = arg;
    return cay__link_session(b->link, b->id, call, user, sock, err);
}

void cay__served_open(cay__served *b, const char *id, cay__link *link)
{
    b->link = link;
    CAY_COPY(b->id, id);
    cay__sessions_open(&b->sessions, open_session, b);
}

int cay__served_ready(const cay__served *b, cay_err *err)
{
    if (b->sessions.ready)
        return b->sessions.ready(b->sessions.arg, err);
    return 0;
}

int cay__served_ask(void *box, const cay_call *call, uint16_t type, cay__reply *out, cay_err *err)
{
    cay__served *b = box;
    return cay__link_box(b->link, b->id, call, type, out, err);
}

int cay__served_spawn(void *box, const cay_call *call, const cay_spawn *spec, void **proc,
                      cay_err *err)
{
    cay__served *b = box;
    CAY_TRY(cay__served_ready(b, err));
    return cay__proc_spawn(b->link, b->id, call, spec, proc, err);
}

int cay__served_proc_attach(void *box, const cay_call *call, const char *ref, void **proc,
                            cay_err *err)
{
    cay__served *b = box;
    CAY_TRY(cay__served_ready(b, err));
    return cay__proc_attach(b->link, b->id, call, ref, proc, err);
}

int cay__served_pause(void *box, const cay_call *call, cay_err *err)
{
    return cay__served_ask(box, call, CAY_MSG_PAUSE, NULL, err);
}

int cay__served_resume(void *box, const cay_call *call, cay_err *err)
{
    return cay__served_ask(box, call, CAY_MSG_RESUME, NULL, err);
}

int cay__served_extend(void *box, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms,
                       cay_err *err)
{
    cay__served *b = box;
    cay_m_box m = { .a = ttl_ms, .b = idle_ms };
    CAY_TRY(cay__served_ready(b, err));
    CAY_COPY(m.id, b->id);
    return cay__link_call(b->link, call, CAY__LINK_ASK(CAY_MSG_EXTEND, m), NULL, err);
}

int cay__served_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err)
{
    cay__reply r = { 0 };
    CAY_TRY(cay__served_ready(box, err));
    CAY_TRY(cay__served_ask(box, call, CAY_MSG_USAGE, &r, err));
    *out = (cay_usage){ .size = sizeof *out,
                        .cpu_us = r.usage.cpu_us,
                        .memory = r.usage.memory,
                        .pids = r.usage.pids };
    return 0;
}

/* Live processes come from inside, with what the keeper knows of those it started; then those that
 * ended. */
typedef struct kept_proc {
    cay_proc_info info;
    char id[CAY_WIRE_ID], tag[80], command[104];
} kept_proc;

typedef struct kept_list {
    kept_proc *v;
    size_t n, cap;
    cay_proc_info_fn *fn;
    void *arg;
} kept_list;

static int on_kept(const cay__kept *k, void *arg)
{
    kept_list *l = arg;
    if (l->n == l->cap) {
        l->cap = CAY_OR(l->cap * 2, (size_t)32);
        l->v = realloc(l->v, l->cap * sizeof *l->v);
        if (!l->v)
            abort();
    }
    kept_proc *p = &l->v[l->n++];
    *p = (kept_proc){ .info = { .size = sizeof p->info,
                                .pid = k->p.pid,
                                .state = 'S',
                                .tty = k->p.flags & CAY_SPAWN_TTY,
                                .started_ms = k->p.started_ms,
                                .labels = k->labels,
                                .exit = { .size = sizeof p->info.exit,
                                          .code = k->p.exit.code,
                                          .signal = k->p.exit.signal } } };
    CAY_COPY(p->id, k->p.proc);
    CAY_COPY(p->tag, k->tag);
    CAY_COPY(p->command, k->command);
    CAY_COPY(p->info.exit.reason, k->p.exit.reason);
    if (k->p.ended) {
        p->info.state = 'X';
        p->info.ended_ms = k->p.started_ms + k->p.ended - 1;
    }
    return 0;
}

static int on_live(const cay_proc_info *info, void *arg)
{
    const kept_list *l = arg;
    cay_proc_info i = *info;
    for (kept_proc *p = l->v; p < l->v + l->n; p++) {
        if (p->info.pid != i.pid || p->info.state == 'X')
            continue;
        i.id = p->id;
        i.tag = p->tag;
        i.tty = p->info.tty;
        i.labels = p->info.labels;
        /* between fork and exec, or a zombie: no arguments of its own */
        if (!i.command[0] || i.command[0] == '[')
            i.command = p->command;
    }
    return l->fn(&i, l->arg);
}

static int show_ended(kept_proc *p, const kept_list *l)
{
    if (p->info.state != 'X')
        return 0;
    p->info.id = p->id;
    p->info.tag = p->tag;
    p->info.command = p->command;
    p->info.user = "";
    return l->fn(&p->info, l->arg);
}

int cay__served_procs(void *box, const cay_call *call, cay_proc_info_fn *fn, void *arg,
                      cay_err *err)
{
    cay__served *b = box;
    kept_list l = { .fn = fn, .arg = arg };
    CAY_TRY(cay__served_ready(b, err));
    int rc = cay__procs_kept(b->link, b->id, call, on_kept, &l, err);
    if (rc == 0)
        rc = cay__nf_ps(b, call, on_live, &l, err);
    for (size_t i = 0; rc == 0 && i < l.n; i++)
        rc = show_ended(&l.v[i], &l);
    CAY_EACH_OF(it, l.v, l.n)
        free((void *)it->info.labels);
    free(l.v);
    return rc;
}
