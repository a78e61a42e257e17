/* SPDX-License-Identifier: Apache-2.0 */
#include "native.h"
#include <base/base.h>
#include <base/str.h>

/* Live processes come from inside, with what the keeper knows of those it started; then those that
 * ended. */
typedef struct kept_list {
    cay_proc_info *v;
    char (*text)[2][104];
    size_t n, cap;
} kept_list;

static int on_kept(const cay__kept *k, void *arg)
{
    kept_list *l = arg;
    if (l->n == l->cap) {
        if (l->cap)
            l->cap = l->cap * 2;
        else
            l->cap = 32;
        l->v = realloc(l->v, l->cap * sizeof *l->v);
        l->text = realloc(l->text, l->cap * sizeof *l->text);
        if (!l->v || !l->text)
            abort();
    }
    cay_proc_info *i = &l->v[l->n];
    memset(i, 0, sizeof *i);
    cay__str_join(l->text[l->n][0], sizeof l->text[0][0], k->p.proc, NULL);
    l->text[l->n][0][CAY_WIRE_ID] = 0;
    cay__str_copy(l->text[l->n][0] + CAY_WIRE_ID + 1, sizeof l->text[0][0] - CAY_WIRE_ID - 1,
                  k->tag);
    cay__str_copy(l->text[l->n][1], sizeof l->text[0][1], k->command);
    i->size = sizeof *i;
    i->pid = k->p.pid;
    if (k->p.ended)
        i->state = 'X';
    else
        i->state = 'S';
    i->tty = k->p.flags & CAY_SPAWN_TTY;
    i->started_ms = k->p.started_ms;
    if (k->p.ended)
        i->ended_ms = k->p.started_ms + k->p.ended - 1;
    else
        i->ended_ms = 0;
    i->labels = k->labels;
    i->exit =
        (cay_exit){ .size = sizeof i->exit, .code = k->p.exit.code, .signal = k->p.exit.signal };
    cay__str_copy(i->exit.reason, sizeof i->exit.reason, k->p.exit.reason);
    l->n++;
    return 0;
}

typedef struct merge {
    kept_list *l;
    int (*fn)(const cay_proc_info *, void *);
    void *arg;
} merge;

static void name_kept(const kept_list *l, size_t i, cay_proc_info *p)
{
    p->id = l->text[i][0];
    p->tag = l->text[i][0] + CAY_WIRE_ID + 1;
    p->tty = l->v[i].tty;
    p->labels = l->v[i].labels;
}

static int on_live(const cay_proc_info *info, void *arg)
{
    merge *m = arg;
    cay_proc_info p = *info;
    for (size_t i = 0; i < m->l->n; i++)
        if (m->l->v[i].pid == p.pid && m->l->v[i].state != 'X') {
            name_kept(m->l, i, &p);
            if (!p.command[0] ||
                p.command[0] ==
                    '[') /* between fork and exec, or a zombie: no arguments of its own */
                p.command = m->l->text[i][1];
        }
    return m->fn(&p, m->arg);
}

int cay__procs_all(cay__link *link, cay__sessions *sessions, const char *id, const cay_call *call,
                   int (*fn)(const cay_proc_info *, void *), void *arg, cay_err *err)
{
    kept_list l = { .n = 0 };
    merge m = { &l, fn, arg };
    int rc = cay__procs_kept(link, id, call, on_kept, &l, err);
    if (rc == 0)
        rc = cay__nf_ps(sessions, call, on_live, &m, err);
    for (size_t i = 0; rc == 0 && i < l.n; i++) {
        if (l.v[i].state != 'X')
            continue;
        name_kept(&l, i, &l.v[i]);
        l.v[i].command = l.text[i][1];
        l.v[i].user = "";
        rc = fn(&l.v[i], arg);
    }
    for (size_t i = 0; i < l.n; i++)
        free((void *)l.v[i].labels);
    free(l.v);
    free(l.text);
    return rc;
}
