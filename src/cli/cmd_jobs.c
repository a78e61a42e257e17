/* SPDX-License-Identifier: Apache-2.0 */
/* cay jobs ls, cancel, replay: what is left to be done. */
#include "main.h"
#include "open.h"
#include "rows.h"
#include <base/base.h>
#include <cay/jobs.h>

typedef struct ls_args {
    const char *state, *kind, *tenant;
    uint64_t limit;
} ls_args;

static const opt_def ls_defs[] = {
    { "state", 's', "STATE", "waiting, running, done, dead or canceled", OPT_STR,
      offsetof(ls_args, state) },
    { "kind", 'k', "KIND", "pause, kill, …", OPT_STR, offsetof(ls_args, kind) },
    { "tenant", 0, "NAME", "only those of one tenant", OPT_STR, offsetof(ls_args, tenant) },
    { "limit", 'n', "N", "at most this many", OPT_NUM, offsetof(ls_args, limit), 1 },
    OPT_END
};

static void task_json(out_json *j, const cay_job *t)
{
    js_open(j, '{');
    js_kstr(j, "id", t->id);
    js_kstr(j, "kind", t->kind);
    js_kstr(j, "state", t->state);
    js_kstr(j, "subject", t->subject);
    js_kstr(j, "tenant", t->tenant);
    js_kstr(j, "key", t->key);
    if (*t->detail) {
        js_key(j, "detail");
        js_raw(j, t->detail);
    }
    js_ki64(j, "due_ms", t->due_ms);
    js_ku64(j, "attempts", t->attempts);
    js_ku64(j, "most", t->most);
    js_ku64(j, "fence", t->fence);
    js_kstr(j, "owner", t->owner);
    js_kstr(j, "error", t->error);
    js_ki64(j, "created_ms", t->created_ms);
    js_ki64(j, "changed_ms", t->changed_ms);
    js_close(j, '}');
}

static int on_task(const cay_job *t, void *arg)
{
    rows *r = arg;
    char span[OUT_HUMAN];
    if (cli.json) {
        task_json(&r->json, t);
    } else if (cli.quiet) {
        out_fmt("%s\n", t->id);
    } else {
        bool waits = !strcmp(t->state, "waiting") && t->due_ms > r->now;
        out_cell(&r->table, OUT_BOLD, t->id);
        out_cell(&r->table, OUT_PLAIN, t->kind);
        out_cell(&r->table, OUT_PLAIN, cay__text_or(t->subject, "-"));
        out_cell(&r->table,
                 !strcmp(t->state, "dead")      ? OUT_BAD
                 : !strcmp(t->state, "running") ? OUT_GOOD
                                                : OUT_PLAIN,
                 t->state);
        out_cell(&r->table, OUT_PLAIN,
                 waits ? out_span(span, (uint64_t)(t->due_ms - r->now)) : "-");
        out_cellf(&r->table, OUT_PLAIN, "%u of %u", t->attempts, t->most);
        out_cell(&r->table, OUT_DIM, cay__text_or(t->error, "-"));
    }
    return out_broken();
}

static int list_jobs(void *opts, int argc, char **argv)
{
    static const char *const titles[] = { "ID",      "KIND",      "ABOUT", "STATE",
                                          ">DUE IN", ">ATTEMPTS", "ERROR", NULL };
    const ls_args *a = opts;
    cay_job_filter f = { .size = sizeof f,
                         .state = a->state,
                         .kind = a->kind,
                         .tenant = a->tenant,
                         .limit = (size_t)a->limit };
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    rows r;
    (void)argc, (void)argv;
    if (cli_service(&client, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    rows_open(&r, titles);
    return rows_done(&r, cay_job_list(client, &f, on_task, &r, &err), &err);
}

const cli_verb cli_jobs_ls = {
    .name = "jobs ls",
    .operands = "[OPTIONS]",
    .summary = "list what is left to be done, by the time it is due",
    .examples = "  cay jobs ls --state dead",
    .opts = { { ls_defs, 0 } },
    .size = sizeof(ls_args),
    .fn = list_jobs,
};

static int for_each_job(int argc, char **argv, const char *action,
                        int (*fn)(cay_client *, const char *, cay_err *))
{
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    for (int i = 0; i < argc; i++) {
        if (cli_service(&client, &err) < 0 || fn(client, argv[i], &err) < 0)
            return cli_fail(&err, CLI_FAIL);
        cli_audit(action, NULL, argv[i]);
    }
    return CLI_OK;
}

static int cancel_jobs(void *opts, int argc, char **argv)
{
    (void)opts;
    return for_each_job(argc, argv, "jobs.cancel", cay_job_cancel);
}

const cli_verb cli_jobs_cancel = {
    .name = "jobs cancel",
    .operands = "ID…",
    .summary = "take jobs back that wait or run",
    .text = "Whoever works on one notices at its end; what has happened stays so.",
    .examples = "  cay jobs cancel jabc…",
    .min = 1,
    .max = CLI_ANY,
    .fn = cancel_jobs,
};

static int replay_jobs(void *opts, int argc, char **argv)
{
    (void)opts;
    return for_each_job(argc, argv, "jobs.replay", cay_job_replay);
}

const cli_verb cli_jobs_replay = {
    .name = "jobs replay",
    .operands = "ID…",
    .summary = "try dead or canceled jobs once more",
    .examples = "  cay -q jobs ls --state dead | xargs -r cay jobs replay",
    .min = 1,
    .max = CLI_ANY,
    .fn = replay_jobs,
};
