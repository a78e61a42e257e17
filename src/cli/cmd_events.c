/* SPDX-License-Identifier: Apache-2.0 */
/* cay events: what happens, as it happens. */
#include "main.h"
#include "out.h"
#include <base/base.h>
#include <cay/policy.h>

typedef struct events_args {
    bool follow;
    uint64_t count, span_ms;
} events_args;

static const opt_def defs[] = {
    OPT_FLAG("-f, --follow", "go on until interrupted (the default)", events_args, follow),
    OPT_NUM("-n, --count N", "leave after this many", events_args, count, 1),
    OPT_MS("--for TIME", "leave after this time", events_args, span_ms, 1), OPT_END
};

/* dns good.test, connect good.test:443 … */
static void print_net(const cay_net_record *r)
{
    out_safe(" %s", r->event);
    if (*r->name || *r->address)
        out_safe(" %s", cay__text_or(r->name, r->address));
    if (r->port)
        out_fmt(":%u", r->port);
}

static void print_event(const cay_event *e)
{
    if (cli.json) {
        out_object(false,
                   "time_ms:%jd, seq:%ju, sandbox:%s, kind:%s, reason:%s, process:%s, code:%d, "
                   "+net=%s",
                   e->time_ms, e->seq, e->sandbox, e->kind, e->reason, e->process, e->code,
                   CAY_IF(e->net, e->net->json));
        return;
    }
    out_fmt("%s%s%s %-20s ", out_on(1, OUT_DIM), out_time(e->time_ms).s, out_off(1), e->sandbox);
    out_safe("%s", e->kind);
    if (e->process && *e->process)
        out_safe(" %s", e->process);
    if (e->net)
        print_net(e->net);
    if (!strcmp(e->kind, "exit") || !strcmp(e->kind, "lost"))
        out_fmt(" %d", e->code);
    if (e->reason && *e->reason)
        out_safe(" (%s)", e->reason);
    out_str("\n");
}

/* Until the count, the time or an interrupt; running out of time is a fine end. */
static int follow_events(cay_events *ev, const events_args *a, cay_err *err)
{
    cay_call call = { .size = sizeof call };
    if (a->span_ms && a->span_ms != CAY_UNLIMITED)
        call.deadline_ms = cay__now_ms() + (int64_t)a->span_ms;
    for (uint64_t n = 0; !out_broken() && (!a->count || n < a->count); n++) {
        cay_event e = { .size = sizeof e };
        int rc = cay_events_next(ev, &call, &e, err);
        if (rc == CAY_ETIMEOUT)
            return 0;
        CAY_TRY(rc);
        print_event(&e);
    }
    return 0;
}

static int show_events(cli_call *c, cay_err *err)
{
    cay_events *ev = NULL;
    if (c->argc)
        CAY_TRY(cli_find(c, err));
    CAY_TRY(cay_client_events(c->client, CAY_IF(c->sb, cay_sandbox_id(c->sb)), &ev, err));
    int rc = follow_events(ev, c->opts, err);
    cay_events_close(ev);
    return rc;
}

const cli_verb cli_events = {
    "events",
    "[-n N] [--for TIME] [ID]",
    "print what happens to sandboxes and their commands from now on",
    .text = "created paused resumed extended stopped removed exec exit service limit net; `lost` "
            "tells how many a slow reader missed.",
    .examples = "  cay events\n"
                "  cay events --json -n 1 c7f           # wait for the next one",
    CLI_OPTS(defs, events_args),
    .max = 1,
    .needs = CLI_CLIENT,
    .fn = show_events,
};
