/* SPDX-License-Identifier: Apache-2.0 */
/* cay shell: a person inside; with --name a shell that stays, one command at a time. */
#include "cli.h"
#include "out.h"
#include "process_options.h"
#include <base/base.h>
#include <cay/shell.h>
#include <signal.h>
#include <sys/signalfd.h>

typedef struct shell_args {
    proc_opts proc;
    const char *name;
    bool end;
} shell_args;

static const opt_def defs[] = {
    OPT_LIST("-e, --env KEY=VALUE", "environment; a bare KEY passes your own value", shell_args,
             proc.env),
    OPT_LIST("--env-file FILE", "environment from lines of KEY=VALUE", shell_args, proc.env_files),
    OPT_STR("-u, --user USER", "name or uid inside", shell_args, proc.user),
    OPT_STR("-w, --workdir DIR", "directory to start in", shell_args, proc.workdir),
    OPT_STR("--profile NAME", "default, or root: uid 0 with the rights package managers need",
            shell_args, proc.profile),
    OPT_STR("--tag NAME", "a name to find the shell by", shell_args, proc.tag),
    OPT_STR("-n, --name NAME", "a shell that stays: run LINE in it; started when there is none",
            shell_args, name),
    OPT_FLAG("--login", "with --name: start it as a login shell", shell_args, proc.login),
    OPT_MS("--timeout TIME", "with --name: interrupt LINE after this time, and keep the shell",
           shell_args, proc.timeout_ms, 1),
    OPT_FLAG("--end", "with --name: end the shell and what it started", shell_args, end),
    OPT_END
};

static int run_in_sandbox(const char *id, const proc_opts *o, const cay_spawn *spawn)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    const cay_create spec = { .size = sizeof spec,
                              .life.ephemeral = true,
                              .provider = cli_provider() };
    if ((id ? cli_boxes->find(id, &sb, &err) : cli_boxes->create(&spec, &sb, &err)) < 0)
        return cli_fail(&err, CLI_BEFORE);
    int code = proc_go(sb, o, spawn);
    if (id)
        cay_sandbox_unref(sb);
    else
        cli_boxes->discard(sb);
    return code;
}

static int print_output(cay_stream which, const void *data, size_t len, void *arg)
{
    out_data(which == CAY_STDERR ? 2 : 1, data, len);
    return out_broken();
}

/* The words as a shell would see them on one line, or standard input when there are none. */
static int read_line(int argc, char **argv, cay__buf *b, cay_err *err)
{
    for (int i = 0; i < argc; i++)
        cay__buf_fmt(b, "%s%s", i ? " " : "", argv[i]);
    if (!argc && isatty(0))
        return cay_fail(err, CAY_EINVAL, "no command; give one, or feed it by standard input");
    if (!argc) {
        char *room = cay__buf_room(b, CAY_SHELL_LINE_MAX + 1);
        ssize_t n = cay__fd_read_all(0, room, CAY_SHELL_LINE_MAX + 1);
        if (n < 0)
            return cay_fail_sys(err, "read standard input");
        if (memchr(room, 0, (size_t)n))
            return cay_fail(err, CAY_EINVAL, "standard input has a zero byte; a command is text");
        cay__buf_used(b, (size_t)n);
    }
    if (b->len)
        return 0;
    return cay_fail(err, CAY_EINVAL, "the command is empty");
}

static int run_line(cay_shell *sh, const shell_args *a, const char *line)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    cay_err err = CAY_ERR_INIT;
    cay_result r = { .size = sizeof r };
    cay_shell_cmd cmd = { .size = sizeof cmd,
                          .line = line,
                          .output = cli.json ? NULL : print_output,
                          .timeout_ms =
                              a->proc.timeout_ms == CAY_UNLIMITED ? 0 : a->proc.timeout_ms };
    /* Ctrl-C is for the command: it is interrupted, and the shell stays. */
    sigset_t stop;
    sigemptyset(&stop);
    CAY_EACH(signal, signals)
        sigaddset(&stop, *signal);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    CAY_AUTOFD fd = signalfd(-1, &stop, SFD_CLOEXEC);
    cay_call call = { .size = sizeof call, .cancel_fd = fd };
    int rc = cay_shell_run(sh, fd > 0 ? &call : NULL, &cmd, &r, &err);
    if (rc == CAY_ECANCELED)
        return 128 + SIGINT;
    if (rc < 0)
        return cli_fail(&err, CLI_BEFORE);
    if (rc > 0)
        return CLI_OK; /* nobody reads any more */
    if (cli.json)
        proc_print_result(&r);
    else if (!strcmp(r.exit.reason, "ended"))
        out_note("cay: the shell has ended; the next command starts a new one");
    else if (!strcmp(r.exit.reason, "time"))
        out_note("cay: time-out: the command was interrupted; the shell is kept");
    int code = r.exit.code;
    cay_result_clear(&r);
    return code;
}

static int run_named_shell(cli_call *c, cay_err *err)
{
    const shell_args *a = c->opts;
    CAY_AUTOBUF line = CAY__BUF(CAY_SHELL_LINE_MAX + 2);
    cli_pairs env = { 0 };
    cay_shell *sh = NULL;
    int code;
    if (!c->argc)
        return cli_misuse(c, "--name needs the sandbox: give its id");
    if (a->end && c->argc > 1)
        return cli_misuse(c, "--end and a command (\"%s\") exclude each other", c->argv[1]);
    if ((!a->end && read_line(c->argc - 1, c->argv + 1, &line, err) < 0) ||
        pairs_env(&env, &a->proc.env, &a->proc.env_files, err) < 0) {
        pairs_clear(&env);
        return cli_usage(c->verb, err);
    }
    cay_shell_spec spec = { .size = sizeof spec,
                            .name = a->name,
                            .attach = a->end,
                            .login = a->proc.login,
                            .env = env.v,
                            .cwd = a->proc.workdir,
                            .user = a->proc.user,
                            .profile = a->proc.profile };
    if (cli_find(c, err) < 0 || cay_shell_open(c->sb, NULL, &spec, &sh, err) < 0)
        code = cli_fail(err, CLI_BEFORE);
    else if (a->end)
        code = cay_shell_end(sh, NULL, err);
    else
        code = run_line(sh, a, line.data);
    cay_shell_unref(sh);
    pairs_clear(&env);
    return code;
}

static int run_shell(cli_call *c, cay_err *err)
{
    const shell_args *a = c->opts;
    if (a->name)
        return run_named_shell(c, err);
    if (a->end)
        return cli_misuse(c, "--end needs --name");
    if (c->argc > 1)
        return cli_misuse(c, "a command needs --name");
    if (a->proc.login)
        return cli_misuse(c, "--login needs --name");
    if (a->proc.timeout_ms)
        return cli_misuse(c, "--timeout needs --name");
    static char sh[] = "/bin/sh", dash_c[] = "-c";
    static char line[] =
        "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi";
    char *words[] = { sh, dash_c, line, NULL };
    proc_opts *o = &((shell_args *)c->opts)->proc;
    proc_spec spec = { 0 };
    /* Lines from a pipe are commands too; then there is no terminal to give. */
    o->input = true;
    o->tty = isatty(0) && !cli.json;
    int code;
    if (proc_spec_make(o, words, false, &spec, err) < 0)
        code = cli_usage(c->verb, err);
    else
        code = run_in_sandbox(c->argc ? c->argv[0] : NULL, o, &spec.spawn);
    proc_spec_clear(&spec);
    return code;
}

const cli_verb cli_shell = {
    "shell",
    "[OPTIONS] [ID [LINE…]]",
    "open a shell in a sandbox; without ID in a fresh one that goes away with it",
    .text = "With a terminal you get job control, colours and your window's size. Without one the "
            "shell reads its\n"
            "commands from standard input.\n"
            "With --name the shell stays: directory, variables and background jobs last from one "
            "`cay shell --name` to\n"
            "the next, from whichever program. Each runs LINE (or standard input) and ends with "
            "its exit code.",
    .examples = "  cay shell c7f\n"
                "  cay shell                            # look around, leave no trace\n"
                "  cay shell -u root --profile root c7f\n"
                "  echo 'ls; pwd' | cay shell c7f\n"
                "  cay shell --name dev c7f 'cd src; export CC=clang'\n"
                "  cay shell --name dev --timeout 5m c7f make\n"
                "  cay shell --name dev --end c7f",
    CLI_OPTS(defs, shell_args),
    .stop_after = 2,
    .max = CLI_ANY,
    .fn = run_shell,
};
