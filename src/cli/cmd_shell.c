/* SPDX-License-Identifier: Apache-2.0 */
/* cay shell: a person inside. */
#include "cli.h"
#include "open.h"
#include "out.h"
#include "procopt.h"
#include <base/base.h>

typedef struct shell_args {
    proc_opts proc;
} shell_args;

#define AT(field) (offsetof(shell_args, proc) + offsetof(proc_opts, field))
static const opt_def defs[] = {
    { "env", 'e', "KEY=VALUE", "environment; a bare KEY passes your own value", OPT_LIST, AT(env) },
    { "env-file", 0, "FILE", "environment from lines of KEY=VALUE", OPT_LIST, AT(env_files) },
    { "user", 'u', "USER", "name or uid inside", OPT_STR, AT(user) },
    { "workdir", 'w', "DIR", "directory to start in", OPT_STR, AT(workdir) },
    { "profile", 0, "NAME", "default, or root: uid 0 with the rights package managers need", OPT_STR, AT(profile) },
    { "tag", 0, "NAME", "a name to find the shell by", OPT_STR, AT(tag) },
    OPT_END
};

static int go(const char *id, const proc_opts *o, const cay_spawn *spawn)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    const cay_create spec = { .size = sizeof spec, .ephemeral = true, .provider = cli_provider() };
    if ((id ? cli_box_find(id, &sb, &err) : cli_box_create(&spec, &sb, &err)) < 0)
        return cli_fail(&err, CLI_BEFORE);
    int code = proc_go(sb, o, spawn);
    if (id)
        cay_sandbox_unref(sb);
    else
        cli_box_discard(sb);
    return code;
}

static int shell(void *opts, int argc, char **argv)
{
    static char sh[] = "/bin/sh", dash_c[] = "-c";
    static char line[] = "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi";
    char *words[] = { sh, dash_c, line, NULL };
    proc_opts *o = &((shell_args *)opts)->proc;
    cay_err err = CAY_ERR_INIT;
    proc_spec spec = { 0 };
    /* Lines from a pipe are commands too; then there is no terminal to give. */
    o->input = true;
    o->tty = isatty(0) && !cli.json;
    int code = proc_spec_make(o, words, &spec, &err) < 0 ? cli_usage(&cli_shell, &err)
                                                         : go(argc ? argv[0] : NULL, o, &spec.spawn);
    proc_spec_clear(&spec);
    return code;
}

const cli_verb cli_shell = {
    .name = "shell",
    .operands = "[OPTIONS] [ID]",
    .summary = "open a shell in a sandbox; without ID in a fresh one that goes away with it",
    .text = "With a terminal you get job control, colours and your window's size. Without one the shell reads its\n"
            "commands from standard input.",
    .examples = "  cay shell c7f\n"
                "  cay shell                            # look around, leave no trace\n"
                "  cay shell -u root --profile root c7f\n"
                "  echo 'ls; pwd' | cay shell c7f",
    .opts = { { defs, 0 } },
    .size = sizeof(shell_args),
    .max = 1,
    .fn = shell,
};
