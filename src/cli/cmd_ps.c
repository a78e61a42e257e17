/* SPDX-License-Identifier: Apache-2.0 */
/* cay ps: what runs inside. */
#include "cli.h"
#include "open.h"
#include "out.h"
#include <base/base.h>
#include <base/fd.h>

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)

typedef struct ps_args {
    bool all;
} ps_args;

static const opt_def defs[] = {
    { "all", 'a', NULL, "also those that ended and are still known", OPT_FLAG, offsetof(ps_args, all) },
    OPT_END
};

typedef struct view {
    const ps_args *args;
    out_table      table;
    out_json       json;
    int64_t        now;
} view;

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

static void add_row(view *v, const cay_proc_info *p)
{
    char text[OUT_HUMAN];
    out_table *t = &v->table;
    out_cellf(t, OUT_PLAIN, "%d", p->pid);
    out_cellf(t, OUT_PLAIN, "%d", p->ppid);
    out_cell(t, OUT_PLAIN, p->user);
    if (p->state == 'X')
        out_cellf(t, p->exit.code ? OUT_BAD : OUT_DIM, "%s %d", p->exit.reason, p->exit.code);
    else
        out_cell(t, p->state == 'R' ? OUT_GOOD : OUT_PLAIN, state_word(p->state));
    out_cell(t, OUT_PLAIN, out_span(text, p->cpu_us / 1000));
    out_cell(t, OUT_PLAIN, out_size(text, p->rss));
    out_cell(t, OUT_PLAIN, p->started_ms ? out_span(text, (uint64_t)CAY_MAX(v->now - p->started_ms, 0)) : "-");
    out_cell(t, OUT_DIM, *p->id ? p->id : "-");
    out_cell(t, OUT_PLAIN, *p->tag ? p->tag : "-");
    out_cell(t, OUT_PLAIN, p->command);
}

static void add_json(view *v, const cay_proc_info *p)
{
    out_json *j = &v->json;
    js_open(j, '{');
    js_kstr(j, "id", p->id);
    js_kstr(j, "tag", p->tag);
    js_ki64(j, "pid", p->pid);
    js_ki64(j, "ppid", p->ppid);
    js_kstr(j, "user", p->user);
    js_kstr(j, "state", state_word(p->state));
    js_kbool(j, "tty", p->tty);
    js_ku64(j, "cpu_us", p->cpu_us);
    js_ku64(j, "rss", p->rss);
    js_ki64(j, "started_ms", p->started_ms);
    js_kstr(j, "command", p->command);
    if (p->state == 'X') {
        js_key(j, "exit");
        js_open(j, '{');
        js_ki64(j, "code", p->exit.code);
        js_ki64(j, "signal", p->exit.signal);
        js_kstr(j, "reason", p->exit.reason);
        js_close(j, '}');
    }
    js_close(j, '}');
}

static int on_proc(const cay_proc_info *p, void *arg)
{
    view *v = arg;
    if (p->state == 'X' && !v->args->all)
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

static int ps(void *opts, int argc, char **argv)
{
    static const char *const titles[] = { ">PID", ">PPID", "USER", "STATE", ">CPU",   ">MEMORY",
                                          ">AGE", "ID",    "TAG",  "COMMAND", NULL };
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    view v = { .args = opts, .json = OUT_JSON(true), .now = cay__wall_ms() };
    (void)argc;
    if (cli_box_find(argv[0], &sb, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    out_table_open(&v.table, titles);
    js_open(&v.json, '[');
    int rc = cay_sandbox_procs(sb, NULL, on_proc, &v, &err);
    js_close(&v.json, ']');
    if (rc >= 0 && cli.json)
        js_flush(&v.json);
    else if (rc >= 0 && !cli.quiet)
        out_table_print(&v.table);
    out_table_close(&v.table);
    cay__buf_clear(&v.json.b);
    return rc < 0 ? cli_fail(&err, CLI_FAIL) : CLI_OK;
}

const cli_verb cli_ps = {
    .name = "ps",
    .operands = "[-a] ID",
    .summary = "list the processes of a sandbox",
    .text = "Processes started through cay have an ID, and keep it and their exit code for a while after the end.",
    .examples = "  cay ps c7f\n"
                "  cay ps -a --json c7f\n"
                "  cay ps -q c7f                        # ids alone",
    .opts = { { defs, 0 } },
    .size = sizeof(ps_args),
    .min = 1,
    .max = 1,
    .fn = ps,
};
