/* SPDX-License-Identifier: Apache-2.0 */
/* cay services, services start, stop, restart, wait: what a sandbox keeps running. */
#include "main.h"
#include "open.h"
#include "rows.h"
#include "show.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/services.h>

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)

static void unit_json(out_json *j, const cay_service_info *u)
{
    js_open(j, '{');
    js_kstr(j, "name", u->name);
    js_kstr(j, "state", cay_service_state_name(u->state));
    js_kbool(j, "ready", u->ready);
    if (u->pid)
        js_ki64(j, "pid", u->pid);
    if (u->port)
        js_ku64(j, "port", u->port);
    js_ku64(j, "restarts", u->restarts);
    if (u->code >= 0)
        js_ki64(j, "code", u->code);
    js_kstr(j, "reason", u->reason);
    js_kstr(j, "process", u->process);
    js_ki64(j, "since_ms", u->since_ms);
    if (u->ready_ms) {
        js_ki64(j, "ready_ms", u->ready_ms);
        js_ku64(j, "ready_after_ms", u->ready_after_ms);
    }
    if (u->state == CAY_SERVICE_BACKOFF)
        js_ku64(j, "wait_ms", u->wait_ms);
    js_close(j, '}');
}

static int on_json(const cay_service_info *u, void *arg)
{
    unit_json(arg, u);
    return 0;
}

char *show_units_json(cay_sandbox *sb)
{
    out_json j = OUT_JSON(false);
    js_open(&j, '[');
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

static int on_unit(const cay_service_info *u, void *arg)
{
    rows *v = arg;
    char text[OUT_HUMAN];
    if (cli.json) {
        unit_json(&v->json, u);
    } else if (cli.quiet) {
        out_fmt("%s\n", u->name);
    } else {
        out_table *t = &v->table;
        out_cell(t, OUT_BOLD, u->name);
        out_cell(t, style_of(u), cay_service_state_name(u->state));
        out_cell(t, OUT_PLAIN, out_span(text, (uint64_t)CAY_MAX(v->now - u->since_ms, 0)));
        out_cellf(t, OUT_PLAIN, u->pid ? "%d" : "-", u->pid);
        out_cellf(t, OUT_PLAIN, u->port ? "%u" : "-", u->port);
        out_cellf(t, u->restarts ? OUT_WARN : OUT_PLAIN, "%u", u->restarts);
        out_cell(t, OUT_PLAIN, u->reason);
    }
    return 0;
}

static int list_services(void *opts, int argc, char **argv)
{
    static const char *const titles[] = { "NAME",  "STATE",     ">SINCE", ">PID",
                                          ">PORT", ">RESTARTS", "WHY",    NULL };
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    rows r;
    (void)opts, (void)argc;
    if (cli_box_find(argv[0], &sb, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    rows_open(&r, titles);
    return rows_done(&r, cay_sandbox_services(sb, NULL, on_unit, &r, &err), &err);
}

const cli_verb cli_services = {
    .name = "services",
    .operands = "ID",
    .summary = "list what a sandbox keeps running, and how it does",
    .text = "Services are those of its template and of its manifest. `cay logs ID --service NAME` "
            "shows what one printed.",
    .examples = "  cay services c7f\n"
                "  cay services c7f --json | jq '.[] | select(.ready | not)'",
    .min = 1,
    .max = 1,
    .fn = list_services,
};

typedef struct act_args {
    uint64_t timeout_ms;
    bool wait;
} act_args;

static const opt_def act_defs[] = { { "wait", 0, NULL, "until they are ready", OPT_FLAG,
                                      offsetof(act_args, wait) },
                                    { "timeout", 0, "TIME", "wait at most this long (default 30s)",
                                      OPT_MS, offsetof(act_args, timeout_ms), 1 },
                                    OPT_END };
static const opt_def wait_defs[] = { { "timeout", 0, "TIME", "at most this long (default 30s)",
                                       OPT_MS, offsetof(act_args, timeout_ms), 1 },
                                     OPT_END };

/* op 0: nothing but wait. No name: all. */
static int control_services(const act_args *a, int argc, char **argv, int op)
{
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    uint64_t ms = 30000;
    if (a->timeout_ms && a->timeout_ms != CAY_UNLIMITED)
        ms = a->timeout_ms;
    cay_call call = { .size = sizeof call,
                      .deadline_ms = cay__now_ms() + (int64_t)CAY_MIN(ms, (uint64_t)INT32_MAX) };
    if (cli_box_find(argv[0], &sb, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    for (int i = 1; op && i < CAY_MAX(argc, 2); i++)
        if (cay_sandbox_service_act(sb, NULL, argc > 1 ? argv[i] : NULL, (cay_service_op)op, &err) <
            0)
            return cli_fail(&err, CLI_FAIL);
    for (int i = 1; (a->wait || !op) && i < CAY_MAX(argc, 2); i++)
        if (cay_sandbox_services_wait(sb, &call, argc > 1 ? argv[i] : NULL, &err) < 0)
            return cli_fail(&err, CLI_FAIL);
    return CLI_OK;
}

static int start_services(void *opts, int argc, char **argv)
{
    return control_services(opts, argc, argv, CAY_SERVICE_START);
}

static int stop_services(void *opts, int argc, char **argv)
{
    return control_services(opts, argc, argv, CAY_SERVICE_STOP);
}

static int restart_services(void *opts, int argc, char **argv)
{
    return control_services(opts, argc, argv, CAY_SERVICE_RESTART);
}

static int wait_for(void *opts, int argc, char **argv)
{
    return control_services(opts, argc, argv, 0);
}

const cli_verb cli_services_start = {
    .name = "services start",
    .operands = "[--wait] ID [NAME…]",
    .summary = "start services that are stopped, done or failed",
    .examples = "  cay services start --wait c7f web",
    .opts = { { act_defs, 0 } },
    .size = sizeof(act_args),
    .min = 1,
    .max = CLI_ANY,
    .fn = start_services,
};
const cli_verb cli_services_stop = {
    .name = "services stop",
    .operands = "ID [NAME…]",
    .summary = "stop services: TERM, and KILL five seconds later",
    .examples = "  cay services stop c7f web",
    .size = sizeof(act_args),
    .min = 1,
    .max = CLI_ANY,
    .fn = stop_services,
};
const cli_verb cli_services_restart = {
    .name = "services restart",
    .operands = "[--wait] ID [NAME…]",
    .summary = "stop services and start them again",
    .examples = "  cay services restart --wait c7f",
    .opts = { { act_defs, 0 } },
    .size = sizeof(act_args),
    .min = 1,
    .max = CLI_ANY,
    .fn = restart_services,
};
const cli_verb cli_services_wait = {
    .name = "services wait",
    .operands = "[--timeout TIME] ID [NAME…]",
    .summary = "wait until services are ready",
    .text = "Fails when one is not going to be, and after the time; the message names it.",
    .examples = "  cay services wait --timeout 10s c7f && curl …",
    .opts = { { wait_defs, 0 } },
    .size = sizeof(act_args),
    .min = 1,
    .max = CLI_ANY,
    .fn = wait_for,
};
