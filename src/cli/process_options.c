/* SPDX-License-Identifier: Apache-2.0 */
#include "process_options.h"
#include "cli.h"
#include "out.h"
#include "parse.h"
#include "pump.h"
#include <base/base.h>
#include <cay/snapshot.h>

enum { JSON_OUTPUT = 64 << 20, JSON_INPUT = 64 << 20 };

const opt_def proc_opt_defs[] = {
    OPT_FLAG("-i, --interactive", "forward your standard input", proc_opts, input),
    OPT_FLAG("-t, --tty", "give it a terminal; with -i yours becomes its own", proc_opts, tty),
    OPT_MS("--timeout TIME", "end it and all it started after this time", proc_opts, timeout_ms, 1),
    OPT_STR("--shell LINE", "a line for the shell instead of a command and its words", proc_opts,
            shell),
    OPT_FLAG("--login", "with --shell: a login shell", proc_opts, login),
    OPT_STR("--profile NAME", "default, or root: uid 0 with the rights package managers need",
            proc_opts, profile),
    OPT_STR("--tag NAME", "a name to find the command by", proc_opts, tag),
    OPT_SIZE("--kept SIZE", "most output kept of each stream, 4k to 16m (default 1m)", proc_opts,
             kept, 4096, 16 << 20),
    OPT_END
};

const opt_def proc_env_defs[] = {
    OPT_FLAG("-d, --detach", "do not wait: print its process id", proc_opts, detach),
    OPT_LIST("-e, --env KEY=VALUE", "environment; a bare KEY passes your own value", proc_opts,
             env),
    OPT_LIST("--env-file FILE", "environment from lines of KEY=VALUE", proc_opts, env_files),
    OPT_FLAG("--env-only", "exactly this environment, nothing of the sandbox's", proc_opts,
             env_only),
    OPT_STR("-u, --user USER", "name or uid inside", proc_opts, user),
    OPT_STR("-w, --workdir DIR", "directory to start in", proc_opts, workdir),
    OPT_LIST("-l, --label KEY=VALUE", "a label of the command; `cay ps --label` filters by it",
             proc_opts, labels),
    OPT_END
};

/* A terminal's kind comes from outside; nothing else of our environment enters unasked. */
static void add_term(cli_pairs *env)
{
    static const char *const keys[] = { "TERM", "COLORTERM" };
    CAY_EACH(item, keys) {
        const char *v = getenv(*item);
        bool given = false;
        CAY_EACH_OF(it, env->v, env->n)
            given |= !strcmp(it->key, *item);
        if (!given && v && *v && strlen(v) < 64 && !cli_check_name(*item, v, NULL))
            pairs_add(env, *item, v);
    }
}

int proc_spec_make(const proc_opts *o, char **argv, bool own, proc_spec *out, cay_err *err)
{
    cli_pairs *env = &out->env;
    bool words = argv && argv[0];
    if (o->shell && words)
        return cay_fail(err, CAY_EINVAL, "--shell and a command (\"%s\") exclude each other",
                        argv[0]);
    if (!o->shell && !words && !own)
        return cay_fail(err, CAY_EINVAL, "no command; give one after --, or a line with --shell");
    if (words && !*argv[0])
        return cay_fail(err, CAY_EINVAL, "the command is empty");
    if (o->detach && (o->input || cli.json))
        return cay_fail(err, CAY_EINVAL, "--detach and %s exclude each other",
                        o->input ? "-i" : "--json");
    if (o->user)
        CAY_TRY(cli_check_name("--user", o->user, err));
    if (o->tag)
        CAY_TRY(cli_check_name("--tag", o->tag, err));
    CAY_TRY(pairs_env(env, &o->env, &o->env_files, err));
    CAY_TRY(pairs_labels(&out->labels, &o->labels, err));
    if (o->tty)
        add_term(env);
    out->spawn = (cay_spawn){
        .size = sizeof out->spawn,
        .argv = words ? (const char *const *)argv : NULL,
        .shell = o->shell,
        .login = o->login,
        .env = env->v,
        .env_mode = o->env_only ? CAY_ENV_ONLY : CAY_ENV_ADD,
        .cwd = o->workdir,
        .user = o->user,
        .profile = o->profile,
        .stdin_mode = o->input ? CAY_STDIN_PIPE : CAY_STDIN_NULL,
        .tty = o->tty,
        .timeout_ms = o->timeout_ms == CAY_UNLIMITED ? 0 : o->timeout_ms,
        .tag = o->tag,
        .ring_bytes = (uint32_t)o->kept,
        .labels = out->labels.v,
        .on_full = o->detach ? CAY_FULL_DROP : CAY_FULL_BLOCK,
        .attach = !o->detach && !o->tty && !cli.json,
    };
    if (o->tty)
        term_size(isatty(0) ? 0 : 1, &out->spawn.cols, &out->spawn.rows);
    return 0;
}

void proc_spec_clear(proc_spec *s)
{
    pairs_clear(&s->env);
    pairs_clear(&s->labels);
}

/* docker's codes: 127 not found, 126 found but cannot run, 125 everything else that is ours. */
static int fail_start(cay_err *err, const cay_spawn *spec)
{
    bool dir = cay_err_is(err, CAY_REASON_CWD_FAILED), user = cay__err_of_user(err);
    bool cannot = err->code == CAY_EPERM || err->code == CAY_ETYPE || err->sys == ENOEXEC;
    if (dir || user)
        return cli_name(err, err->code, dir ? spec->cwd : spec->user), cli_fail(err, CLI_BEFORE);
    if (cay_err_is(err, CAY_REASON_SANDBOX_NOT_FOUND) || (err->code != CAY_ENOENT && !cannot))
        return cli_fail(err, CLI_BEFORE);
    cli_name(err, err->code, spec->argv ? spec->argv[0] : NULL);
    return cli_fail(err, cannot ? CLI_CANNOT : CLI_NOT_FOUND);
}

void proc_print_result(const cay_result *r)
{
    out_json j = js_begin(false, '{');
    js_put(&j, "code:%d, signal:%d, reason:%s", r->exit.code, r->exit.signal, r->exit.reason);
    js_key(&j, "stdout");
    js_bytes(&j, CAY_OR(r->out, ""), r->out_len);
    js_key(&j, "stderr");
    js_bytes(&j, CAY_OR(r->errout, ""), r->errout_len);
    js_put(&j, "truncated?%d, cpu_us:%ju, max_rss:%ju, lost_stdout:%ju, lost_stderr:%ju",
           r->truncated, r->exit.cpu_us, r->exit.max_rss, r->exit.lost_out, r->exit.lost_err);
    js_end(&j, '}');
}

/* The command is done, whatever became of the snapshot after it. */
static void tell_checkpoint(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    if (cay_sandbox_checkpoint_error(sb, &err) < 0)
        out_note("cay: no checkpoint: %s", err.msg);
}

/* --json: collect everything, answer with one object. */
static int go_json(cay_sandbox *sb, const proc_opts *o, const cay_spawn *spec)
{
    cay_err err = CAY_ERR_INIT;
    cay_result r = { .size = sizeof r };
    CAY_AUTOFREE char *input = NULL;
    ssize_t n = 0;
    if (o->input) {
        input = cay__alloc(JSON_INPUT);
        n = cay__fd_read_all(0, input, JSON_INPUT);
        if (n < 0)
            return cay_fail_sys(&err, "read standard input"), cli_fail(&err, CLI_BEFORE);
    }
    if (cay_sandbox_run(sb, NULL, spec, input, (size_t)n, JSON_OUTPUT, &r, &err) < 0) {
        if (!input) /* what was read cannot be read again */
            cli_boxes->refused(&err);
        return fail_start(&err, spec);
    }
    proc_print_result(&r);
    tell_checkpoint(sb);
    int code = r.exit.code;
    cay_result_clear(&r);
    return code;
}

int proc_go(cay_sandbox *sb, const proc_opts *o, const cay_spawn *spec)
{
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay_exit ex;
    bool left;
    if (cli.json)
        return go_json(sb, o, spec);
    if (!o->detach)
        pump_block_signals();
    if (cay_sandbox_spawn(sb, NULL, spec, &p, &err) < 0) {
        cli_boxes->refused(&err);
        return fail_start(&err, spec);
    }
    if (o->detach) {
        out_fmt("%s\n", cay_proc_id(p));
        return CLI_OK;
    }
    pump_spec how = { .input = o->input, .tty = o->tty };
    if (pump_run(p, &how, &ex, &left, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    pump_tell(&ex);
    tell_checkpoint(sb);
    return ex.code;
}
