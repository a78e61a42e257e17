/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"
#include <cay/sandbox.h>

enum {
    KEPT = 500,
    LOOK_MS = 5000
}; /* so many commands of a sandbox are remembered, nearly (docs/architecture.md) */

static int on_listed_process(const cay_proc_info *i, void *arg)
{
    cay__execs *e = arg;
    if (!*i->id)
        return 0;
    if (e->n == e->cap) {
        if (e->cap)
            e->cap = 2 * e->cap;
        else
            e->cap = 64;
        e->v = realloc(e->v, e->cap * sizeof *e->v);
        if (!e->v)
            abort();
    }
    cay__exec *x = &e->v[e->n++];
    *x =
        (cay__exec){ .from_ms = i->started_ms, .to_ms = i->state == 'X' ? i->ended_ms : INT64_MAX };
    CAY_COPY(x->id, i->id);
    e->blind |= i->state == 'X' && !i->ended_ms;
    return 0;
}

void cay__execs_read(cay_sandbox *sb, cay__execs *out)
{
    const cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + LOOK_MS };
    if (cay_sandbox_procs(sb, &call, on_listed_process, out, NULL) < 0)
        out->n = 0;
    if (out->n < KEPT)
        return;
    out->since_ms = INT64_MAX;
    CAY_EACH_OF(it, out->v, out->n)
        out->since_ms = CAY_MIN(out->since_ms, it->from_ms);
}

void cay__execs_clear(cay__execs *e)
{
    free(e->v);
}

/* When the program asked: a verdict comes after a name was looked up and an address dialled. */
static int64_t compute_request_time(const json_t *o, const cay_net_record *r)
{
    return r->time_ms - (!strcmp(r->event, "end") ? (int64_t)r->ms : cay__json_int(o, "after", 0));
}

void cay__execs_link(const cay__execs *e, const json_t *o, cay_net_record *r, const char *line,
                     cay__buf *with)
{
    int64_t at = compute_request_time(o, r);
    const char *one = "";
    unsigned n = 0;
    bool program =
        !strcmp(r->event, "connect") || !strcmp(r->event, "dns") || !strcmp(r->event, "end");
    size_t len = strlen(line);
    if (e->blind || !program || at < e->since_ms || len < 2)
        return;
    CAY_EACH_OF(it, e->v, e->n) {
        if (at < it->from_ms || at > it->to_ms)
            continue;
        one = it->id;
        n++;
    }
    if (!n)
        return;
    r->execs = n;
    if (n == 1)
        r->exec = one;
    else
        r->exec = "";
    cay__buf_add(with, line, len - 1); /* without its brace */
    cay__buf_fmt(with, n == 1 ? ",\"exec\":\"%s\",\"execs\":%u}" : "%s,\"execs\":%u}", r->exec, n);
    if (!with->full)
        r->json = with->data;
}
