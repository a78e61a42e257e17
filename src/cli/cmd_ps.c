/* SPDX-License-Identifier: Apache-2.0 */
/* cay ps: what runs inside. */
#include "sandbox_options.h"
#include "cli.h"
#include "out.h"
#include <base/base.h>

typedef struct ps_args {
    bool all;
    opt_list labels;
} ps_args;

static const opt_def defs[] = {
    OPT_FLAG("-a, --all", "also those that ended and are still known", ps_args, all),
    OPT_LIST("-l, --label KEY=VALUE", "only those that carry it", ps_args, labels), OPT_END
};

typedef struct ps_view {
    out_list *list;
    bool all;
    const cay_pair *want; /* every one of these labels */
} ps_view;

static const char *state_word(char s)
{
    switch (s) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "waiting";
    case 'T': return "stopped";
    case 'Z': return "zombie";
    case 'X': return "ended";
    default: return "other";
    }
}

static void add_row(ps_view *v, const cay_proc_info *p)
{
    out_table *t = &v->list->table;
    out_row(t, "%d|%d|%s", p->pid, p->ppid, p->user);
    if (p->state == 'X')
        out_row(t, "%c%s %d", p->exit.code ? OUT_BAD : OUT_DIM, p->exit.reason, p->exit.code);
    else
        out_cell(t, p->state == 'R' ? OUT_GOOD : OUT_PLAIN, state_word(p->state));
    out_row(t, "%s|%s|%s|~-%s|-%s", out_span(p->cpu_us / 1000).s, out_size(p->rss).s,
            p->started_ms ? out_age(v->list->now - p->started_ms).s : "-", p->id, p->tag);
    out_list_labels(v->list, p->labels);
    out_cell(t, OUT_PLAIN, p->command);
}

/* By hand, because the small static cay, which has this verb, links no jansson, as wire/ does. */
static void add_json(ps_view *v, const cay_proc_info *p)
{
    out_json *j = &v->list->json;
    js_open(j, '{');
    js_put(j,
           "id:%s, tag:%s, pid:%d, ppid:%d, user:%s, state:%s, tty?%d, cpu_us:%ju, rss:%ju, "
           "started_ms:%jd, command:%s, labels:{",
           p->id, p->tag, p->pid, p->ppid, p->user, state_word(p->state), p->tty, p->cpu_us, p->rss,
           p->started_ms, p->command);
    for (const cay_pair *l = p->labels; l->key; l++)
        js_member(j, l->key, l->value);
    js_close(j, '}');
    if (p->state == 'X') {
        js_put(j, "exit:{code:%d, signal:%d, reason:%s}", p->exit.code, p->exit.signal,
               p->exit.reason);
    }
    js_close(j, '}');
}

static bool has_labels(const cay_pair *have, const cay_pair *want)
{
    for (; want && want->key; want++) {
        const cay_pair *h = have;
        while (h->key && (strcmp(h->key, want->key) || strcmp(h->value, want->value)))
            h++;
        if (!h->key)
            return false;
    }
    return true;
}

static int on_proc(const cay_proc_info *p, void *arg)
{
    ps_view *v = arg;
    if ((p->state == 'X' && !v->all) || !has_labels(p->labels, v->want))
        return 0;
    if (cli.json)
        add_json(v, p);
    else if (cli.quiet) {
        if (*p->id)
            out_fmt("%s\n", p->id);
    } else
        add_row(v, p);
    return 0;
}

static int list_processes(cli_call *c, cay_err *err)
{
    const ps_args *a = c->opts;
    cli_pairs labels = { 0 };
    ps_view v = { .list = c->list, .all = a->all };
    int rc;
    if (pairs_labels(&labels, &a->labels, err) < 0) {
        rc = cli_usage(c->verb, err);
    } else {
        v.want = labels.v;
        rc = cli_find(c, err);
        if (rc == 0)
            rc = cay_sandbox_procs(c->sb, NULL, on_proc, &v, err);
    }
    pairs_clear(&labels);
    return rc;
}

const cli_verb cli_ps = {
    "ps",
    "[-a] [--label KEY=VALUE] ID",
    "list the processes of a sandbox",
    .text = "Processes started through cay have an ID, and keep it and their exit code for a while "
            "after the end.",
    .examples = "  cay ps c7f\n"
                "  cay ps -a --json c7f\n"
                "  cay ps --label job=42 c7f\n"
                "  cay ps -q c7f                        # ids alone",
    CLI_OPTS(defs, ps_args),
    .min = 1,
    .columns = ">PID|>PPID|USER|STATE|>CPU|>MEMORY|>AGE|ID|TAG|LABELS|COMMAND",
    .fn = list_processes,
};
