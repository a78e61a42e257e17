/* SPDX-License-Identifier: Apache-2.0 */
/* !cmd on this machine, after a yes that has seen it; !!cmd in the sandbox. */
#include "chat.h"
#include <base/base.h>
#include <cay/sandbox.h>
#include <cli/pump.h>
#include <signal.h>
#include <sys/wait.h>

static bool confirm_command(chat *c, const char *cmd)
{
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    if (c->local == CHAT_AUTO)
        return true;
    if (!c->tty || c->local == CHAT_NEVER) {
        chat_text(c, OUT_WARN, "not run: there is nobody to say yes to a command on this machine");
        return false;
    }
    cay__buf_str(&b, "run on THIS machine, outside of the sandbox: ");
    cay__buf_safe(&b, cmd, strlen(cmd), false);
    cay__buf_str(&b, " ? y/N ");
    CAY_AUTOFREE char *said = chat_question(b.data);
    return said && (!strcmp(said, "y") || !strcmp(said, "yes"));
}

static void tell_code(chat *c, int code)
{
    if (code)
        chat_text(c, OUT_WARN, "exit code %d", code);
}

static void on_host(chat *c, const char *cmd)
{
    if (!confirm_command(c, cmd))
        return;
    struct sigaction ignore = { .sa_handler = SIG_IGN }, old; /* Ctrl+C is for the command */
    sigaction(SIGINT, &ignore, &old);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGPIPE, SIG_DFL);
        execl("/bin/sh", "sh", "-c", cmd, NULL);
        _exit(127);
    }
    int st = 0;
    while (pid > 0 && waitpid(pid, &st, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &old, NULL);
    if (pid < 0)
        chat_text(c, OUT_BAD, "cay: sh: %s", strerror(errno));
    else
        tell_code(c, WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st));
}

/* What it prints is shown as it comes, and Ctrl+C is for the command. */
static int run_attached(chat *c, const char *cmd, cay_exit *ex, cay_err *err)
{
    cay_spawn spec = { .size = sizeof spec, .shell = cmd, .attach = true };
    const pump_spec how = { .newline = true };
    sigset_t before;
    cay_proc *p = NULL;
    bool left;
    sigprocmask(SIG_SETMASK, NULL, &before);
    pump_block_signals();
    int rc = cay_sandbox_spawn(c->sb, NULL, &spec, &p, err);
    if (rc == 0)
        rc = pump_run(p, &how, ex, &left, err);
    if (p)
        cay_proc_unref(p);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void in_sandbox(chat *c, const char *cmd)
{
    cay_exit ex = { .size = sizeof ex };
    cay_err err = CAY_ERR_INIT;
    if (run_attached(c, cmd, &ex, &err) < 0) {
        chat_text(c, OUT_BAD, "cay: %s", err.msg);
        return;
    }
    pump_tell(&ex);
    tell_code(c, ex.code);
    /* What it changed is no turn of the agent's: it belongs to the last point. */
    if (keep_take(&c->keep, c->s.turns, &err) < 0 && !c->keep.off)
        chat_text(c, OUT_WARN, "this cannot be taken back by /undo: %s", err.msg);
}

void chat_bang(chat *c, const char *line)
{
    bool inside = line[1] == '!';
    const char *cmd = line + 1 + inside;
    cmd += strspn(cmd, " \t");
    if (!*cmd)
        chat_text(c, OUT_WARN, "which command? !cmd runs it on this machine, !!cmd in the sandbox");
    else
        inside ? in_sandbox(c, cmd) : on_host(c, cmd);
}
