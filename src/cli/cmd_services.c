/* SPDX-License-Identifier: Apache-2.0 */
/* cay services, services start, stop, restart, wait: what a sandbox keeps running. */
#include "main.h"
#include "out.h"
#include "show.h"
#include <base/base.h>
#include <cay/services.h>

static int on_json(const cay_service_info *u, void *arg)
{
    show_object(arg, &cay__service_shape, u);
    return 0;
}

char *show_services_json(cay_sandbox *sb)
{
    out_json j = js_begin(false, '[');
    int rc = cay_sandbox_services(sb, NULL, on_json, &j, NULL);
    js_close(&j, ']');
    char *text = NULL;
    if (rc == 0 && j.b.data && j.b.len > 2)
        text = cay__strdup(j.b.data);
    cay__buf_clear(&j.b);
    return text;
}

static out_style style_of(const cay_service_info *u)
{
    switch (u->state) {
    case CAY_SERVICE_READY: return OUT_GOOD;
    case CAY_SERVICE_DONE:
    case CAY_SERVICE_STOPPED: return OUT_DIM;
    case CAY_SERVICE_FAILED:
    case CAY_SERVICE_UNHEALTHY:
    case CAY_SERVICE_BACKOFF: return OUT_BAD;
    default: return OUT_WARN;
    }
}

static int on_service(const cay_service_info *u, void *arg)
{
    out_list *v = arg;
    if (!show_item(v, &cay__service_shape, u, u->name)) {
        out_row(&v->table, "*%s|%c%s|%s|-%d|-%u|%c%u|%s", u->name, style_of(u),
                cay_service_state_name(u->state), out_age(v->now - u->since_ms).s, u->pid, u->port,
                u->restarts ? OUT_WARN : OUT_PLAIN, u->restarts, u->reason);
    }
    return 0;
}

static int list_services(cli_call *c, cay_err *err)
{
    return cay_sandbox_services(c->sb, NULL, on_service, c->list, err);
}

const cli_verb cli_services = {
    "services",
    "ID",
    "list what a sandbox keeps running, and how it does",
    .text = "Services are those of its template and of its manifest. `cay logs ID --service NAME` "
            "shows what one printed.",
    .examples = "  cay services c7f\n"
                "  cay services c7f --json | jq '.[] | select(.ready | not)'",
    .min = 1,
    .needs = CLI_SANDBOX,
    .columns = "NAME|STATE|>SINCE|>PID|>PORT|>RESTARTS|WHY",
    .fn = list_services,
};

typedef struct act_args {
    uint64_t timeout_ms;
    bool wait;
} act_args;

static const opt_def act_defs[] = { OPT_FLAG("--wait", "until they are ready", act_args, wait),
                                    OPT_MS("--timeout TIME", "wait at most this long (default 30s)",
                                           act_args, timeout_ms, 1),
                                    OPT_END };
static const opt_def wait_defs[] = {
    OPT_MS("--timeout TIME", "at most this long (default 30s)", act_args, timeout_ms, 1), OPT_END
};

/* The verb's arg is the operation, 0: nothing but wait. No name: all. */
static int control_services(cli_call *c, cay_err *err)
{
    const act_args *a = c->opts;
    const char *const all[] = { NULL }, *const *names = all;
    int n = 1, op = c->verb->arg;
    uint64_t ms = 30000;
    if (c->argc > 1) {
        names = (const char *const *)c->argv + 1;
        n = c->argc - 1;
    }
    if (a->timeout_ms && a->timeout_ms != CAY_UNLIMITED)
        ms = a->timeout_ms;
    cay_call call = { .size = sizeof call,
                      .deadline_ms = cay__now_ms() + (int64_t)CAY_MIN(ms, (uint64_t)INT32_MAX) };
    for (int i = 0; op && i < n; i++)
        CAY_TRY(cay_sandbox_service_act(c->sb, NULL, names[i], (cay_service_op)op, err));
    for (int i = 0; (a->wait || !op) && i < n; i++)
        CAY_TRY(cay_sandbox_services_wait(c->sb, &call, names[i], err));
    return CLI_OK;
}

const cli_verb cli_services_start = {
    "services start",
    "[--wait] ID [NAME…]",
    "start services that are stopped, done or failed",
    .examples = "  cay services start --wait c7f web",
    CLI_OPTS(act_defs, act_args),
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_SANDBOX,
    .arg = CAY_SERVICE_START,
    .fn = control_services,
};
const cli_verb cli_services_stop = {
    "services stop",
    "ID [NAME…]",
    "stop services: TERM, and KILL five seconds later",
    .examples = "  cay services stop c7f web",
    .size = sizeof(act_args),
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_SANDBOX,
    .arg = CAY_SERVICE_STOP,
    .fn = control_services,
};
const cli_verb cli_services_restart = {
    "services restart",
    "[--wait] ID [NAME…]",
    "stop services and start them again",
    .examples = "  cay services restart --wait c7f",
    CLI_OPTS(act_defs, act_args),
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_SANDBOX,
    .arg = CAY_SERVICE_RESTART,
    .fn = control_services,
};
const cli_verb cli_services_wait = {
    "services wait",
    "[--timeout TIME] ID [NAME…]",
    "wait until services are ready",
    .text = "Fails when one is not going to be, and after the time; the message names it.",
    .examples = "  cay services wait --timeout 10s c7f && curl …",
    CLI_OPTS(wait_defs, act_args),
    .min = 1,
    .max = CLI_ANY,
    .needs = CLI_SANDBOX,
    .fn = control_services,
};
