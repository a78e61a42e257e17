/* SPDX-License-Identifier: Apache-2.0 */
/* cay run: one command in a sandbox of its own. */
#include "boxopt.h"
#include "cli.h"
#include "open.h"
#include "out.h"
#include "procopt.h"
#include <base/base.h>

typedef struct run_args {
    box_opts  box;
    proc_opts proc;
    bool      keep;
} run_args;

static const opt_def defs[] = {
    { "keep", 0, NULL, "keep the sandbox afterwards, and tell its id", OPT_FLAG, offsetof(run_args, keep) },
    OPT_END
};

static int go(const run_args *a, const cay_spawn *spawn, box_spec *spec)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    spec->create.ephemeral = !a->keep;
    if (cli_box_create(&spec->create, &sb, &err) < 0)
        return cli_fail(&err, CLI_BEFORE);
    box_spec_tell(spec);
    int code = proc_go(sb, &a->proc, spawn);
    box_spec_look(spec);
    if (a->keep) {
        out_note("cay: kept %s; `cay rm %s` removes it", cay_sandbox_id(sb), cay_sandbox_id(sb));
        cay_sandbox_unref(sb);
    } else {
        cli_box_discard(sb);
    }
    return code;
}

static int run(void *opts, int argc, char **argv)
{
    const run_args *a = opts;
    cay_err err = CAY_ERR_INIT;
    box_spec spec = { 0 };
    proc_spec proc = { 0 };
    int code;
    argv[argc] = NULL;
    if (proc_spec_make(&a->proc, argv, &proc, &err) < 0 || box_spec_make(&a->box, &spec, &err) < 0)
        code = cli_usage(&cli_run, &err);
    else
        code = go(a, &proc.spawn, &spec);
    proc_spec_clear(&proc);
    box_spec_clear(&spec);
    return code;
}

const cli_verb cli_run = {
    .name = "run",
    .operands = "[OPTIONS] [--] COMMAND [ARG…]",
    .summary = "run one command in a fresh sandbox, then throw it away",
    .text = "The exit code is the command's: 128 + N when signal N ended it, 127 when it was not found, 126 when it\n"
            "cannot be run, 125 when the sandbox could not be made. Nothing of your home, environment or network is\n"
            "inside unless you give it.",
    .examples = "  cay run -- uname -a\n"
                "  cay run -it -- bash                              # a shell; your terminal becomes its own\n"
                "  cay run --mount . -w /workspace/src -- make test # this directory, read-only\n"
                "  cay run --memory 256m --cpus 0.5 --timeout 10s -- python3 -c 'print(1)'\n"
                "  tar c src | cay run -i -- tar t                  # standard input goes in\n"
                "  cay run --net pypi,github -- pip install rich    # these and nothing else\n"
                "  cay run --json -- false                          # result and output as one object",
    .opts = { { proc_opt_defs, offsetof(run_args, proc) }, { defs, 0 }, { box_opt_defs, offsetof(run_args, box) } },
    .size = sizeof(run_args),
    .stop_after = 1,
    .max = CLI_ANY,
    .fn = run,
};
