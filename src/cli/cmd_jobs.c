/* SPDX-License-Identifier: Apache-2.0 */
/* cay jobs ls, cancel, replay: what is left to be done. */
#include "main.h"
#include "out.h"
#include "show.h"
#include <base/base.h>
#include <cay/jobs.h>

typedef struct jobs_ls_args {
    const char *state, *kind, *tenant;
    uint64_t limit;
} jobs_ls_args;

static const opt_def ls_defs[] = {
    OPT_STR("-s, --state STATE", "waiting, running, done, dead or canceled", jobs_ls_args, state),
    OPT_STR("-k, --kind KIND", "pause, kill, …", jobs_ls_args, kind),
    OPT_STR("--tenant NAME", "only those of one tenant", jobs_ls_args, tenant),
    OPT_NUM("-n, --limit N", "at most this many", jobs_ls_args, limit, 1), OPT_END
};

static int on_job(const cay_job *t, void *arg)
{
    out_list *r = arg;
    if (!show_item(r, &cay__job_shape, t, t->id)) {
        bool waits = !strcmp(t->state, "waiting") && t->due_ms > r->now;
        out_style style = OUT_PLAIN;
        if (!strcmp(t->state, "dead"))
            style = OUT_BAD;
        else if (!strcmp(t->state, "running"))
            style = OUT_GOOD;
        out_row(&r->table, "*%s|%s|-%s|%c%s|%s|%u of %u|~-%s", t->id, t->kind, t->subject, style,
                t->state, waits ? out_span((uint64_t)(t->due_ms - r->now)).s : "-", t->attempts,
                t->most, t->error);
    }
    return out_broken();
}

static int list_jobs(cli_call *c, cay_err *err)
{
    const jobs_ls_args *a = c->opts;
    cay_job_filter f = { .size = sizeof f,
                         .state = a->state,
                         .kind = a->kind,
                         .tenant = a->tenant,
                         .limit = (size_t)a->limit };
    return cay_job_list(c->client, &f, on_job, c->list, err);
}

const cli_verb cli_jobs_ls = {
    "jobs ls",
    "[OPTIONS]",
    "list what is left to be done, by the time it is due",
    .examples = "  cay jobs ls --state dead",
    CLI_OPTS(ls_defs, jobs_ls_args),
    .needs = CLI_CLIENT,
    .columns = "ID|KIND|ABOUT|STATE|>DUE IN|>ATTEMPTS|ERROR",
    .fn = list_jobs,
};

enum { CANCEL, REPLAY };

static int change_job(cli_call *c, cay_err *err)
{
    if (c->verb->arg == CANCEL)
        CAY_TRY(cay_job_cancel(c->client, c->argv[0], err));
    else
        CAY_TRY(cay_job_replay(c->client, c->argv[0], err));
    cli_audit(c->verb->arg == CANCEL ? "jobs.cancel" : "jobs.replay", NULL, c->argv[0]);
    return CLI_OK;
}

const cli_verb cli_jobs_cancel = {
    "jobs cancel",
    "ID…",
    "take jobs back that wait or run",
    .text = "Whoever works on one notices at its end; what has happened stays so.",
    .examples = "  cay jobs cancel jabc…",
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_CLIENT | CLI_EACH,
    .arg = CANCEL,
    .fn = change_job,
};

const cli_verb cli_jobs_replay = {
    "jobs replay",
    "ID…",
    "try dead or canceled jobs once more",
    .examples = "  cay -q jobs ls --state dead | xargs -r cay jobs replay",
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_CLIENT | CLI_EACH,
    .arg = REPLAY,
    .fn = change_job,
};
