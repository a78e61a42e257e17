/* SPDX-License-Identifier: Apache-2.0 */
/* cay logs: the output a command left in its ring. */
#include "cli.h"
#include "out.h"
#include "pump.h"
#include <base/base.h>

typedef struct logs_args {
    bool follow, out, err, now;
    uint64_t tail;
    const char *service;
} logs_args;

static const opt_def defs[] = {
    OPT_FLAG("-f, --follow", "go on until the command ends", logs_args, follow),
    OPT_NUM("-n, --tail LINES", "only the last lines", logs_args, tail, 1, 1000000),
    OPT_FLAG("--now", "with -f: nothing of the past", logs_args, now),
    OPT_STR("--service NAME", "of this service, through all its restarts", logs_args, service),
    OPT_FLAG("--stdout", "standard output alone", logs_args, out),
    OPT_FLAG("--stderr", "standard error alone", logs_args, err),
    OPT_END
};

/* The process that was started last. */
typedef struct newest {
    char id[CAY_ID_LEN + 1];
    int64_t started_ms;
} newest;

static int on_proc(const cay_proc_info *p, void *arg)
{
    newest *n = arg;
    if (*p->id && p->started_ms >= n->started_ms) {
        CAY_COPY(n->id, p->id);
        n->started_ms = p->started_ms;
    }
    return 0;
}

static int find_newest(cay_sandbox *sb, newest *n, cay_err *err)
{
    CAY_TRY(cay_sandbox_procs(sb, NULL, on_proc, n, err));
    if (!n->id[0])
        return cay_fail(err, CAY_ENOENT, "no command was started in %s yet; `cay exec` starts one",
                        cay_sandbox_id(sb));
    return 0;
}

/* Where the last n lines of a text begin. */
static size_t tail_at(const char *s, size_t len, uint64_t lines)
{
    size_t at = len;
    if (at && s[at - 1] == '\n')
        at--;
    while (at) {
        if (s[at - 1] == '\n' && --lines == 0)
            break;
        at--;
    }
    return at;
}

/* What is kept of one stream now, without waiting. */
static int dump_stream(cay_proc *p, cay_stream which, uint64_t tail, cay_err *err)
{
    enum { STEP = 32 << 10, MOST = 64 << 20 };
    CAY_AUTOBUF b = CAY__BUF(MOST);
    uint64_t offset = 0, lost = 0, lost_all = 0;
    bool eof = false;
    while (!eof) {
        size_t n = 0;
        char *room = cay__buf_room(&b, STEP);
        if (!room)
            break;
        CAY_TRY(cay_proc_read(p, NULL, which, &offset, room, STEP, &n, &lost, &eof, err));
        lost_all += lost;
        if (!n)
            break;
        cay__buf_used(&b, n);
    }
    if (lost_all && !tail)
        out_note("cay: the first %ju bytes of %s are no longer kept", lost_all,
                 which == CAY_STDOUT ? "standard output" : "standard error");
    size_t from = 0;
    if (tail)
        from = tail_at(CAY_OR(b.data, ""), b.len, tail);
    if (b.len > from)
        out_data(which == CAY_STDOUT ? 1 : 2, b.data + from, b.len - from);
    return 0;
}

static int follow_streams(cay_proc *p, const logs_args *a, cay_err *err)
{
    cay_exit ex;
    bool left;
    pump_spec how = { .watch_only = true,
                      .no_out = a->err && !a->out,
                      .no_err = a->out && !a->err,
                      .offset = a->now ? CAY_FROM_NOW : CAY_FROM_START };
    return pump_run(p, &how, &ex, &left, err);
}

static int show_streams(cay_proc *p, const logs_args *a, cay_err *err)
{
    if (a->follow)
        return follow_streams(p, a, err);
    if (a->out || !a->err)
        CAY_TRY(dump_stream(p, CAY_STDOUT, a->tail, err));
    if (a->err || !a->out) {
        int rc = dump_stream(p, CAY_STDERR, a->tail, err);
        /* One with a terminal has a single stream. */
        if (rc < 0 && (a->err || (rc != CAY_EINVAL && rc != CAY_ENOENT && rc != CAY_ENOTSUP)))
            return rc;
    }
    return 0;
}

static int show_logs(cli_call *c, cay_err *err)
{
    const logs_args *a = c->opts;
    CAY_AUTOPTR(cay_proc) p = NULL;
    newest n = { .started_ms = -1 };
    if (c->argc == 2 && a->service)
        return cay_fail(err, CAY_EINVAL, "PROCESS and --service exclude each other"),
               cli_fail(err, CLI_USAGE);
    if (c->argc < 2 && !a->service)
        CAY_TRY(find_newest(c->sb, &n, err));
    const char *ref =
        CAY_OR(a->service, c->argc < 2 ? n.id : c->argv[1]); /* the tag of a service is its name */
    CAY_TRY(cli_name(err, cay_sandbox_attach(c->sb, NULL, ref, &p, err), ref));
    return show_streams(p, a, err);
}

const cli_verb cli_logs = {
    "logs",
    "[-f] ID [PROCESS | --service NAME]",
    "show what a command printed",
    .text = "PROCESS is its id, its pid inside, or its tag; without it the one started last is "
            "meant. Output goes to\n"
            "the same stream it came from. The newest part is kept (1 MiB a stream, or --kept), "
            "and what is gone is told.",
    .examples = "  cay logs c7f\n"
                "  cay logs -f c7f web\n"
                "  cay logs --stderr -n 20 c7f pdk2",
    CLI_OPTS(defs, logs_args),
    .min = 1,
    .max = 2,
    .needs = CLI_SANDBOX,
    .fn = show_logs,
};
