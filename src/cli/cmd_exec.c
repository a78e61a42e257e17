/* SPDX-License-Identifier: Apache-2.0 */
/* cay exec and cay attach: commands in a sandbox that exists. */
#include "cli.h"
#include "out.h"
#include "process_options.h"
#include "pump.h"
#include <base/base.h>

static int exec_command(cli_call *c, cay_err *err)
{
    const proc_opts *o = c->opts;
    proc_spec spec = { 0 };
    int code;
    c->argv[c->argc] = NULL;
    if (proc_spec_make(o, c->argv + 1, false, &spec, err) < 0)
        code = cli_usage(c->verb, err);
    else if (cli_boxes->find(c->argv[0], &c->sb, err) < 0)
        code = cli_fail(err, CLI_BEFORE);
    else
        code = proc_go(c->sb, o, &spec.spawn);
    proc_spec_clear(&spec);
    return code;
}

const cli_verb cli_exec = {
    "exec",
    "[OPTIONS] ID [--] COMMAND [ARG…]",
    "run a command in a sandbox",
    .text = "The exit code is the command's, as with `cay run`. Ctrl-C goes to the command; the "
            "third one kills it.",
    .examples = "  cay exec c7f -- ls -l                # ids may be shortened\n"
                "  cay exec -it c7f bash\n"
                "  cay exec -d --tag web c7f -- python3 -m http.server\n"
                "  cay exec --shell 'cd src && make' c7f\n"
                "  cay exec -i c7f -- sh -c 'cat > in.txt' < in.txt",
    .opts = { { proc_opt_defs, 0 }, { proc_env_defs, 0 } },
    .size = sizeof(proc_opts),
    .stop_after = 2,
    .min = 1,
    .max = CLI_ANY,
    .fn = exec_command,
};

typedef struct attach_args {
    bool input, tty;
    bool now;
} attach_args;

static const opt_def attach_defs[] = {
    OPT_FLAG("-i, --interactive", "forward your standard input", attach_args, input),
    OPT_FLAG("-t, --tty", "it was started with a terminal: join it", attach_args, tty),
    OPT_FLAG("--now", "only what it prints from now on", attach_args, now), OPT_END
};

static int attach_process(cli_call *c, cay_err *err)
{
    const attach_args *a = c->opts;
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay_exit ex;
    bool left;
    if (cli_boxes->find(c->argv[0], &c->sb, err) < 0 ||
        cli_name(err, cay_sandbox_attach(c->sb, NULL, c->argv[1], &p, err), c->argv[1]) < 0)
        return cli_fail(err, CLI_BEFORE);
    pump_spec how = { .input = a->input,
                      .tty = a->tty,
                      .detach_keys = a->tty && a->input,
                      .offset = a->now ? CAY_FROM_NOW : CAY_FROM_START };
    CAY_TRY(pump_run(p, &how, &ex, &left, err));
    if (left) {
        out_note("\ncay: left %s running", cay_proc_id(p));
        return CLI_OK;
    }
    pump_tell(&ex);
    return ex.code;
}

const cli_verb cli_attach = {
    "attach",
    "[OPTIONS] ID PROCESS",
    "join a command that is running, from any terminal",
    .text = "PROCESS is its id, its pid inside, or its tag. It begins with the output that is "
            "still kept.\n"
            "With -it, Ctrl-P Ctrl-Q leaves without ending it.",
    .examples = "  cay exec -dt --tag build c7f -- make\n"
                "  cay attach -it c7f build",
    CLI_OPTS(attach_defs, attach_args),
    .min = 2,
    .fn = attach_process,
};
