/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "out.h"
#include <base/base.h>
#include <signal.h>

cli_globals cli;
const cli_backend *cli_boxes;

const opt_def cli_global_opts[] = {
    OPT_STR("--home DIR",
            "state directory (default $CAY_HOME, /var/lib/cay as root, else ~/.local/share/cay)",
            cli_globals, home),
    OPT_STR("--provider NAME",
            "where sandboxes run: native (default, or $CAY_PROVIDER), process, local, docker, "
            "podman or "
            "cay",
            cli_globals, provider),
    OPT_STR("--host URL",
            "the sandboxes of a cay server (default $CAY_HOST; '': of this machine); its key is "
            "$CAY_API_KEY",
            cli_globals, host),
    OPT_FLAG("--json", "answer in JSON", cli_globals, json),
    OPT_FLAG("-q, --quiet", "say less: no notes; lists give ids only", cli_globals, quiet),
    OPT_FLAG("-h, --help", "explain this command", cli_globals, help),
    OPT_END
};

void cli_begin(void)
{
    /* A caller that closed a standard stream must not see it become one of our sockets. */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", O_RDWR);
    /* Uploads and pipes report a reader that is gone; nothing dies of it. */
    signal(SIGPIPE, SIG_IGN);
}

static const char *get_env(const char *name)
{
    const char *v = getenv(name);
    return cay__text_or(v, NULL);
}

const char *cli_provider(void)
{
    const char *set = get_env("CAY_PROVIDER");
    return CAY_OR(cli.provider, CAY_OR(set, get_env("SANDBOX_PROVIDER")));
}

const char *cli_host(void)
{
    const char *provider = cli_provider();
    if (cli.host)
        return cay__text_or(cli.host, NULL);
    if (provider &&
        !strcmp(provider, "cay")) /* the server is where they run; the records are ours */
        return NULL;
    if (get_env("CAY_HOST") || get_env("SANDBOX_HOST"))
        return "";
    return NULL;
}

int cli_take_globals(int argc, char **argv, int *used, cay_err *err)
{
    int at = 0, n;
    while (at < argc && argv[at][0] == '-' && argv[at][1]) {
        /* A word at a time, with its value if it has none of its own. */
        const char *w = argv[at];
        bool pair = (!strcmp(w, "--home") || !strcmp(w, "--provider") || !strcmp(w, "--host")) &&
                    at + 1 < argc;
        opt_group group = { cli_global_opts, &cli };
        opt_spec spec = { .groups = &group, .ngroups = 1 };
        char *words[] = { argv[at], pair ? argv[at + 1] : NULL };
        CAY_TRY(opt_parse(&spec, pair ? 2 : 1, words, &n, NULL, err));
        if (pair)
            at += 2;
        else
            at += 1;
    }
    *used = at;
    return 0;
}

static int check_operands(const cli_verb *v, int n, cay_err *err)
{
    if ((unsigned)n < v->min)
        return cay_fail(err, CAY_EINVAL, "%s; usage: cay %s %s",
                        n ? "something is missing" : "nothing to work on", v->name, v->operands);
    if ((unsigned)n > CAY_OR(v->max, v->min))
        return cay_fail(err, CAY_EINVAL, "too many words; usage: cay %s %s", v->name, v->operands);
    return 0;
}

/* ID:PATH becomes two words. *words: the operands from then on, to be freed. */
static int split_path(cli_call *c, char ***words, cay_err *err)
{
    char *colon = strchr(c->argv[0], ':');
    size_t n = strcspn(c->argv[0], ":");
    if (!n || n >= 64)
        return cay_fail(err, CAY_EINVAL, "\"%.80s\" is no sandbox id", c->argv[0]);
    *words = cay__alloc(((size_t)c->argc + 2) * sizeof **words);
    if (colon)
        *colon++ = 0;
    (*words)[0] = c->argv[0];
    (*words)[1] = colon;
    bool both = colon && *colon;
    memcpy(*words + 1 + both, c->argv + 1, (size_t)(c->argc - 1) * sizeof **words);
    c->argv = *words;
    c->argc += both;
    return 0;
}

int cli_find(cli_call *c, cay_err *err)
{
    return cli_boxes->find(c->argv[0], &c->sb, err);
}

const opt_def cli_force_defs[] = {
    OPT_FLAG("-f, --force", "one that is not there is no error", cli_force, force), OPT_END
};

int cli_forgive(const cli_call *c, int rc)
{
    if (rc == CAY_ENOENT && ((const cli_force *)c->opts)->force)
        return CLI_OK;
    return rc;
}

static int call_verb(cli_call *c)
{
    cay_err err = CAY_ERR_INIT;
    int rc = 0;
    if (c->verb->needs & (CLI_SANDBOX | CLI_PATHS))
        rc = cli_find(c, &err);
    if (rc == 0)
        rc = c->verb->fn(c, &err);
    if (c->sb)
        cay_sandbox_unref(CAY_STEAL(c->sb));
    if (rc < 0)
        return cli_fail(&err, CLI_FAIL);
    if (c->list && out_broken()) /* the list ended early because nobody reads it */
        return CLI_OK;
    return rc;
}

static int call_for_each(const cli_call *all)
{
    int code = CLI_OK;
    for (int i = 0; i < all->argc; i++) {
        cli_call one = *all;
        one.argc = 1;
        one.argv = all->argv + i;
        code |= call_verb(&one);
        if (code == CLI_USAGE || (code && !(all->verb->needs & CLI_GO_ON)))
            break;
    }
    return code;
}

/* With the client, and with a table for a list. */
static int run_call(cli_call *c)
{
    cay_err err = CAY_ERR_INIT;
    out_list list;
    int code;
    if (c->verb->needs & CLI_CLIENT && cli_boxes->client(&c->client, &err) < 0)
        return cli_fail(&err, CLI_FAIL);
    if (c->verb->columns) {
        out_list_open(&list, c->verb->columns);
        c->list = &list;
    }
    if (c->verb->needs & CLI_EACH)
        code = call_for_each(c);
    else
        code = call_verb(c);
    if (c->list)
        out_list_close(c->list, code == CLI_OK);
    return code;
}

int cli_verb_run(const cli_verb *v, int argc, char **argv, int *code, cay_err *err)
{
    opt_group groups[CAY_LEN(v->opts) + 1];
    size_t n = 0;
    CAY_AUTOFREE char *opts = cay__alloc(v->size);
    cli_call call = { .verb = v, .opts = opts, .argv = argv };
    for (size_t i = 0; i < CAY_LEN(v->opts) && v->opts[i].defs; i++)
        groups[n++] = (opt_group){ v->opts[i].defs, opts + v->opts[i].base };
    groups[n++] = (opt_group){ cli_global_opts, &cli };
    opt_spec spec = { .groups = groups, .ngroups = n, .stop_after = v->stop_after };
    CAY_TRY(opt_parse(&spec, argc, argv, &call.argc, NULL, err));
    if (cli.help) {
        cli_verb_help(v);
        *code = CLI_OK;
        return 0;
    }
    CAY_AUTOFREE char **words = NULL;
    if (v->needs & CLI_PATHS && call.argc)
        CAY_TRY(split_path(&call, &words, err));
    CAY_TRY(check_operands(v, call.argc, err));
    *code = run_call(&call);
    return 0;
}

void cli_verb_help(const cli_verb *v)
{
    CAY_AUTOBUF b = CAY__BUF(1u << 20);
    const char *bold = out_on(1, OUT_BOLD), *off = out_off(1);
    cay__buf_fmt(&b, "%scay %s%s - %s\n\nusage: cay %s %s\n", bold, v->name, off, v->summary,
                 v->name, v->operands);
    if (v->text)
        cay__buf_fmt(&b, "\n%s\n", v->text);
    if (v->opts[0].defs)
        cay__buf_fmt(&b, "\n%soptions%s\n", bold, off);
    for (size_t i = 0; i < CAY_LEN(v->opts) && v->opts[i].defs; i++)
        opt_help(v->opts[i].defs, &b);
    cay__buf_fmt(&b, "\n%severywhere%s\n", bold, off);
    opt_help(cli_global_opts, &b);
    if (v->examples)
        cay__buf_fmt(&b, "\n%sexamples%s\n%s\n", bold, off, v->examples);
    out_write(b.data, b.len);
}

/* Where to look next, by the stable word or else by the code. */
static const char *hint_for(const cay_err *e)
{
#define STATE_HINT                                                                                 \
    "`cay inspect ID` tells its state; `cay resume ID` starts a paused or stopped one"
    static const struct {
        cay_reason reason; /* CAY_REASON_OTHER: by the code */
        int code;
        const char *hint;
    } rows[] = {
        { CAY_REASON_SANDBOX_NOT_FOUND, 0, "`cay ls` shows the sandboxes there are" },
        { CAY_REASON_SANDBOX_AMBIGUOUS, 0, "`cay ls` shows them whole" },
        { CAY_REASON_PROCESS_NOT_FOUND, 0, "`cay ps -a ID` shows its processes" },
        { CAY_REASON_UNKNOWN_OPTION, 0, NULL },
        { CAY_REASON_LIMIT_OUT_OF_RANGE, 0, NULL },
        { CAY_REASON_STORE_NEWER, 0, NULL },
        { CAY_REASON_NO_STDERR, 0, "it has a terminal: `cay attach -it ID PROCESS` joins it" },
        { CAY_REASON_OTHER, CAY_EISOLATION,
          "`cay doctor` tells what this host can give, and what would help" },
        { CAY_REASON_SANDBOX_PAUSED, 0,
          STATE_HINT }, /* jobs, tenants and the audit log have states of their own */
        { CAY_REASON_SANDBOX_STOPPED, 0, STATE_HINT },
        { CAY_REASON_SANDBOX_STATE, 0, STATE_HINT },
        { CAY_REASON_NOT_RUNNING, 0, STATE_HINT },
        { CAY_REASON_STATE_CHANGED, 0, STATE_HINT },
        { CAY_REASON_OTHER, CAY_EGONE, "`cay ls` shows the sandboxes there are" },
    };
    CAY_EACH(row, rows)
        if (cay_err_is(e, row->reason) || (!row->reason && row->code == e->code))
            return row->hint;
    return NULL;
}

/* The message may have said it: `cay ls` in the hint, cay ls in the message. */
static bool has_hint_command(const char *msg, const char *hint)
{
    char command[40] = "";
    size_t n = 0;
    if (*hint == '`')
        n = strcspn(hint + 1, "`I"); /* without its ID */
    if (!n || n >= sizeof command)
        return false;
    memcpy(command, hint + 1, n);
    return strstr(msg, command);
}

static void write_line(const char *text, size_t n)
{
    CAY_AUTOBUF b = CAY__BUF(n * 4 + 16);
    cay__buf_safe(&b, text, n, false);
    cay__buf_str(&b, "\n");
    cay__fd_write_all(2, b.data, b.len);
}

static void error_json(const cay_err *err)
{
    out_json j = js_begin(false, '{');
    js_put(&j, "error:{code:%s, reason:%s, message:%s, +errno:%d, +detail=%s}",
           cay_code_name(err->code), err->reason, err->msg, err->sys,
           CAY_IF(err->detail[0] == '{', err->detail));
    js_close(&j, '}');
    cay__buf_str(&j.b, "\n");
    cay__fd_write_all(2, j.b.data, j.b.len);
    cay__buf_clear(&j.b);
}

int cli_name(cay_err *err, int rc, const char *name)
{
    if (rc < 0 && name && !strstr(err->msg, name))
        return cay_wrap(err, rc, "%.100s", name);
    return rc;
}

int cli_fail(const cay_err *err, int code)
{
    char line[sizeof err->msg + 8];
    const char *hint = hint_for(err);
    if (cli.json) {
        error_json(err);
        return code;
    }
    CAY_JOIN(line, "cay: ", err->msg[0] ? err->msg : cay_code_name(err->code));
    write_line(line, strlen(line));
    if (hint && !cli.quiet && !has_hint_command(err->msg, hint)) {
        CAY_JOIN(line, "     ", hint);
        write_line(line, strlen(line));
    }
    return code;
}

int cli_usage(const cli_verb *v, const cay_err *err)
{
    char line[sizeof err->msg + 64];
    CAY_JOIN(line, "cay ", v->name, ": ", err->msg);
    write_line(line, strlen(line));
    CAY_JOIN(line, "     `cay ", v->name, " --help` explains it");
    if (!cli.quiet)
        write_line(line, strlen(line));
    return CLI_USAGE;
}

int cli_misuse(const cli_call *c, const char *fmt, ...)
{
    cay_err err = CAY_ERR_INIT;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err.msg, sizeof err.msg, fmt, ap);
    va_end(ap);
    return cli_usage(c->verb, &err);
}
