/* SPDX-License-Identifier: Apache-2.0 */
/* cay run: one command in a sandbox of its own. */
#include "sandbox_options.h"
#include "cli.h"
#include "out.h"
#include "process_options.h"
#include <base/base.h>

typedef struct run_args {
    box_opts box;
    proc_opts proc;
    bool keep;
    const char *id_file;
} run_args;

static const opt_def defs[] = {
    OPT_FLAG("--keep", "keep the sandbox afterwards, and tell its id", run_args, keep),
    OPT_STR("--id-file FILE",
            "write the id of a sandbox that is kept into this file, before the command starts",
            run_args, id_file),
    OPT_END
};

static int write_id(const char *path, const char *id, cay_err *err)
{
    char line[64];
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    int n = CAY_FORMAT(line, "%s\n", id);
    if (fd < 0 || !cay__fd_write_all(fd, line, (size_t)n))
        return cay_fail_sys(err, "--id-file %s", path);
    return 0;
}

/* Is there a template that may have a command of its own? */
static bool has_own(const box_opts *b)
{
    return b->from || (b->template_ && strcmp(b->template_, "host"));
}

static int run_in_sandbox(const run_args *a, cay_spawn *spawn, box_spec *spec)
{
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOFREE const char **own = NULL;
    cay_sandbox *sb = NULL;
    bool keep = a->keep || a->box.on; /* what it changes is to be seen afterwards */
    if (a->id_file && !keep) {
        cay_fail(&err, CAY_EINVAL, "--id-file: the sandbox is thrown away; add --keep or --on");
        return cli_usage(&cli_run, &err);
    }
    if (!spawn->argv && !spawn->shell) {
        if (cli_boxes->command(&spec->create, &own, &err) < 0)
            return cli_fail(&err, CLI_BEFORE);
        spawn->argv = own;
    }
    spec->create.life.ephemeral = !keep;
    if ((keep && cli_boxes->check_name(spec->create.name, &err) < 0) ||
        cli_boxes->create(&spec->create, &sb, &err) < 0)
        return cli_fail(&err, CLI_BEFORE);
    if (a->id_file && write_id(a->id_file, cay_sandbox_id(sb), &err) < 0) {
        cli_boxes->discard(sb);
        return cli_fail(&err, CLI_BEFORE);
    }
    box_spec_tell(spec);
    int code = proc_go(sb, &a->proc, spawn);
    box_spec_look(spec);
    if (a->box.on) {
        const char *id = cay_sandbox_id(sb);
        out_note("cay: kept %s; look by `cay diff %s`, then `cay apply %s` or `cay rm -f %s`", id,
                 id, id, id);
        cay_sandbox_unref(sb);
    } else if (a->keep) {
        out_note("cay: kept %s; `cay rm -f %s` removes it", cay_sandbox_id(sb), cay_sandbox_id(sb));
        cay_sandbox_unref(sb);
    } else {
        cli_boxes->discard(sb);
    }
    return code;
}

static int run_command(cli_call *c, cay_err *err)
{
    const run_args *a = c->opts;
    box_spec spec = { 0 };
    proc_spec proc = { 0 };
    int code;
    c->argv[c->argc] = NULL;
    if (proc_spec_make(&a->proc, c->argv, has_own(&a->box), &proc, err) < 0 ||
        box_spec_make(&a->box, &spec, err) < 0)
        code = cli_usage(c->verb, err);
    else
        code = run_in_sandbox(a, &proc.spawn, &spec);
    proc_spec_clear(&proc);
    box_spec_clear(&spec);
    return code;
}

const cli_verb cli_run = {
    "run",
    "[OPTIONS] [--] [COMMAND [ARG…]]",
    "run one command in a fresh sandbox, then throw it away",
    .text = "The exit code is the command's: 128 + N when signal N ended it, 127 when it was not "
            "found, 126 when it\n"
            "cannot be run, 125 when the sandbox could not be made. Nothing of your home, "
            "environment or network is\n"
            "inside unless you give it.\n"
            "Without COMMAND a template's own is run: its entrypoint and then its cmd. COMMAND "
            "takes the place of both.",
    .examples =
        "  cay run -- uname -a\n"
        "  cay run --on . -- make                           # on a copy of this directory that "
        "costs nothing\n"
        "  cay run -it -- bash                              # a shell; your terminal becomes its "
        "own\n"
        "  cay run --mount . -w /workspace/src -- make test # this directory, read-only\n"
        "  cay run --memory 256m --cpus 0.5 --timeout 10s -- python3 -c 'print(1)'\n"
        "  tar c src | cay run -i -- tar t                  # standard input goes in\n"
        "  cay run --net pypi,github -- pip install rich    # these and nothing else\n"
        "  cay run --json -- false                          # result and output as one object",
    .opts = { { proc_opt_defs, offsetof(run_args, proc) },
              { defs, 0 },
              { box_opt_defs, offsetof(run_args, box) } },
    .size = sizeof(run_args),
    .stop_after = 1,
    .max = CLI_ANY,
    .fn = run_command,
};
