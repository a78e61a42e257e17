/* SPDX-License-Identifier: Apache-2.0 */
/* exec_command and write_stdin: commands that answer, or go on while the agent does something else.
 */
#include "commands.h"
#include <agent/trace.h>
#include <base/json.h>
#include <cay/sys/capability.h>
#include <poll.h>
#include <signal.h>

typedef struct bound {
    cay__kit k;
    const cay_shell_options *o;
    cay__cmds sessions;
    cay_tool exec, write;
} bound;

static const char exec_parameters[] =
    "{\"type\":\"object\",\"required\":[\"cmd\"],\"properties\":{"
    "\"cmd\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Shell command line to run.\"},"
    "\"workdir\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null,"
    "\"description\":\"Directory to run it in; relative to your working directory.\"},"
    "\"shell\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null,"
    "\"description\":\"Shell program; the sandbox's own by default.\"},"
    "\"login\":{\"type\":\"boolean\",\"default\":true,\"description\":\"Run it as a login "
    "shell.\"},"
    "\"tty\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Give it a terminal, so that "
    "write_stdin can type into it.\"},"
    "\"yield_time_ms\":{\"type\":\"integer\",\"minimum\":0,\"default\":10000,\"description\":\"How "
    "long to wait for it before you are told what it printed so far.\"},"
    "\"max_output_tokens\":{\"anyOf\":[{\"type\":\"integer\",\"minimum\":1},{\"type\":\"null\"}],"
    "\"default\":null,\"description\":\"Longer output is cut in the middle.\"}}}";
static const char write_parameters[] =
    "{\"type\":\"object\",\"required\":[\"session_id\"],\"properties\":{"
    "\"session_id\":{\"type\":\"integer\",\"description\":\"The number that exec_command told.\"},"
    "\"chars\":{\"type\":\"string\",\"default\":\"\",\"description\":\"What to type; empty to only "
    "look at what it printed.\"},"
    "\"yield_time_ms\":{\"type\":\"integer\",\"minimum\":0,\"default\":250,\"description\":\"How "
    "long to wait for output.\"},"
    "\"max_output_tokens\":{\"anyOf\":[{\"type\":\"integer\",\"minimum\":1},{\"type\":\"null\"}],"
    "\"default\":null,\"description\":\"Longer output is cut in the middle.\"}}}";

static const char about_shell[] =
    "## Shell\n"
    "- Run commands with exec_command. One that is still running when its yield time is over gives "
    "you a session ID: look at it again with\n"
    "  write_stdin and empty chars, and type into it with chars if it was started with tty true.\n"
    "- Interrupt a command by writing the character Ctrl-C (\\u0003) to its session.\n"
    "- Search with rg and rg --files where ripgrep is installed; it is faster than grep and find.\n"
    "- Do not write scripts only to print parts of files; sed -n, head and tail do that.";

static void report_command(const bound *b, cay__command_output *t, cay__printed *p,
                           const json_t *args, cay_tool_output *out)
{
    CAY_AUTOBUF text = CAY__BUF(8 * CAY__KEEP_BYTES);
    CAY_AUTOBUF all = CAY__BUF(16 * CAY__KEEP_BYTES);
    if (p) {
        cay__printed_text(p, &text);
        t->text = text.data;
        t->len = text.len;
    }
    t->max_tokens =
        (uint64_t)cay__json_int(args, "max_output_tokens", (int64_t)b->o->max_output_tokens);
    cay__print_command_output(t, &all);
    cay_output_text(out, all.data, all.len);
}

/* A mistake that the model can mend is told in the form of a command that failed. */
static int tell_mistake(const bound *b, const char *text, cay_tool_output *out)
{
    cay__command_output t = { .ended = true, .code = 1, .text = text, .len = strlen(text) };
    report_command(b, &t, NULL, NULL, out);
    return 0;
}

/* One call of a tool here: what it works under, and what is told of it. */
typedef struct act {
    bound *b;
    const json_t *args;
    cay_call call;
    cay_tool_output *out;
    cay__span *span;
    cay_err why; /* what failed, also when the model was told and may mend it */
    int64_t began_us;
} act;

static int report_session(act *a, cay__cmd *s, uint64_t yield_ms, bool began)
{
    cay__printed p = CAY__PRINTED;
    if (began)
        cay__cmds_warn(&a->b->sessions, &p);
    int rc = cay__cmd_collect(s, &a->call, yield_ms, &p, &a->why);
    if (rc == 0) {
        cay__command_output t = { .seconds = (double)(cay__now_us() - a->began_us) / 1e6,
                                  .ended = s->exited,
                                  .code = s->exit.code,
                                  .session = s->id };
        report_command(a->b, &t, &p, a->args, a->out);
        if (s->exited)
            cay__span_exit(a->span, s->exit.code);
    }
    cay__cmd_leave(&a->b->sessions, s);
    cay__buf_clear(&p.b);
    return rc;
}

/* The whole of a call, as one operation of the sandbox, with what it does below it. */
static int act_on(bound *b, const cay_tool_call *call, cay_tool_output *out, const char *word,
                  int (*fn)(act *a), cay_err *err)
{
    CAY_AUTOJSON *args = NULL;
    CAY_TRY(cay__json_object("its arguments", call->arguments, &args, err));
    act a = { .b = b,
              .args = args,
              .call = cay__call_copy(cay_run_call(call->run)),
              .out = out,
              .span = cay__span_sandbox(call->run, word),
              .why = CAY_ERR_INIT,
              .began_us = cay__now_us() };
    cay__span_call(a.span, &a.call);
    int rc = fn(&a);
    cay__span_close(a.span, rc, &a.why);
    if (rc < 0 && !cay__ends_run(rc))
        return tell_mistake(b, a.why.msg, out);
    if (rc < 0)
        *err = a.why;
    return rc;
}

enum { ONCE_MS = 300000 };

/* Its session could not be had and nothing was started: it runs once and to its end, without one.
 */
static int run_once(act *a, const cay_spawn *spec)
{
    cay_spawn own = *spec;
    cay_result res = { .size = sizeof res };
    cay__printed p = CAY__PRINTED;
    char note[400];
    int n = CAY_FORMAT(
        note, "(no session could be opened: %.300s; it ran once and cannot be typed into)\n",
        a->why.msg);
    own.timeout_ms = ONCE_MS;
    a->began_us = cay__now_us();
    a->why = (cay_err)CAY_ERR_INIT;
    CAY_TRY(cay_sandbox_run(a->b->sessions.sb, &a->call, &own, NULL, 0, CAY__KEEP_BYTES, &res,
                            &a->why));
    cay__printed_add(&p, note, (size_t)n);
    cay__printed_add(&p, res.out, res.out_len);
    if (res.out_len && res.errout_len && res.out[res.out_len - 1] != '\n')
        cay__printed_add(&p, "\n", 1);
    cay__printed_add(&p, res.errout, res.errout_len);
    cay__command_output t = { .seconds = (double)(cay__now_us() - a->began_us) / 1e6,
                              .ended = true,
                              .code = res.exit.code };
    report_command(a->b, &t, &p, a->args, a->out);
    cay__span_exit(a->span, res.exit.code);
    cay__buf_clear(&p.b);
    cay_result_clear(&res);
    return 0;
}

static int run_command(act *a)
{
    CAY_AUTOBUF dir = CAY__BUF(8192);
    const bound *b = a->b;
    const char *cmd = cay__json_str(a->args, "cmd", NULL),
               *program = cay__json_str(a->args, "shell", NULL),
               *workdir = cay__json_str(a->args, "workdir", NULL);
    bool login = cay__json_bool(a->args, "login", true);
    if (!cmd)
        return cay_fail(&a->why, CAY_EINVAL, "cmd has a NUL character in it");
    const char *named[] = { CAY_OR(program, "sh"), login && program ? "-lc" : "-c", cmd, NULL };
    cay_spawn spec = { .size = sizeof spec,
                       .user = b->k.user,
                       .tty = cay__json_bool(a->args, "tty", false),
                       .cols = 80,
                       .rows = 24 };
    if (workdir && *workdir && workdir[0] != '/' && workdir[0] != '~')
        cay__buf_fmt(&dir, "%s/%s", b->k.cwd, workdir);
    else
        cay__buf_str(&dir, cay__text_or(workdir, b->k.cwd));
    if (dir.full)
        return cay_fail(&a->why, CAY_ETOOBIG, "workdir is too long");
    spec.cwd = dir.data;
    if (!program && login)
        spec.shell = cmd, spec.login = true;
    else
        spec.argv = named;
    cay__cmd *s = NULL;
    int rc = cay__cmd_start(&a->b->sessions, &a->call, &spec, &s, &a->why);
    if (rc < 0 && rc != CAY_ETIMEOUT && a->why.retry == CAY_RETRY_YES && !spec.tty)
        return run_once(a, &spec);
    CAY_TRY(rc);
    return report_session(
        a, s, cay__cmd_yield((uint64_t)cay__json_int(a->args, "yield_time_ms", 10000), false),
        true);
}

static int exec_command(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    return act_on(arg, call, out, "exec", run_command, err);
}

static int write_input(cay__cmd *s, const cay_call *call, const char *chars, size_t n, cay_err *err)
{
    if (!s->tty && n == 1 && chars[0] == 3)
        return cay_proc_signal(s->p, call, SIGINT, CAY_SCOPE_TREE, err);
    if (!s->tty)
        return cay_fail(
            err, CAY_EINVAL,
            "stdin is not available for this process; start it with tty true to type into it");
    CAY_TRY(cay_proc_write(s->p, call, chars, n, err));
    poll(NULL, 0, 100); /* most programs answer within it: one answer instead of two */
    return 0;
}

static int write_session(act *a)
{
    cay__cmd *s = NULL;
    const json_t *chars = json_object_get(a->args, "chars");
    size_t n = 0;
    if (json_is_string(chars))
        n = json_string_length(chars);
    uint64_t yield = (uint64_t)cay__json_int(a->args, "yield_time_ms", 250);
    int64_t id = cay__json_int(a->args, "session_id", -1);
    cay__span_data(a->span, "session_id",
                   json_integer(id)); /* the command's, as the SDK has it here */
    CAY_TRY(cay__cmd_find(&a->b->sessions, &a->call, id, &s, &a->why));
    int rc = 0;
    if (n)
        rc = write_input(s, &a->call, json_string_value(chars), n, &a->why);
    if (rc == 0 || rc == CAY_ESTATE ||
        rc == CAY_EGONE) /* it ended meanwhile: what it said last is the answer */
        return report_session(a, s, cay__cmd_yield(yield, !n), false);
    cay__cmd_leave(&a->b->sessions, s);
    return rc;
}

static int write_stdin(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    return act_on(arg, call, out, "write_stdin", write_session, err);
}

static bool is_approval_needed(void *arg, const cay_tool_call *call)
{
    const bound *b = arg;
    return b->o->needs_approval(b->o->arg, call);
}

/* What is typed runs as surely as a command; looking on does not. */
static bool typing_asks(void *arg, const cay_tool_call *call)
{
    const bound *b = arg;
    CAY_AUTOJSON *a = NULL;
    if (cay__json_object("its arguments", call->arguments, &a, NULL) < 0)
        return true;
    const json_t *chars = json_object_get(a, "chars");
    if (!chars || (json_is_string(chars) && !json_string_length(chars)))
        return false;
    if (b->o->needs_approval)
        return is_approval_needed(arg, call);
    return b->o->approval;
}

static int start_capability(void *self, const cay_scope_info *scope, void **out, cay_err *err)
{
    bound *b = cay__kit_begin(sizeof *b, scope);
    b->o = self;
    b->sessions.sb = b->k.sb;
    pthread_mutex_init(&b->sessions.lock, NULL);
    CAY_EACH(session, b->sessions.v)
        session->fd[0] = session->fd[1] = -1;
    b->exec =
        (cay_tool){ .size = sizeof b->exec,
                    .name = "exec_command",
                    .parameters = exec_parameters,
                    .call = exec_command,
                    .arg = b,
                    .beside = true,
                    .description = "Runs a command in the sandbox and tells what it printed and "
                                   "how it ended, or a session ID when it is still running.",
                    .approval = b->o->approval,
                    .needs_approval = CAY_IF(b->o->needs_approval, is_approval_needed) };
    b->write =
        (cay_tool){ .size = sizeof b->write,
                    .name = "write_stdin",
                    .parameters = write_parameters,
                    .call = write_stdin,
                    .arg = b,
                    .description =
                        "Types into a running command, or looks at what it printed meanwhile.",
                    .needs_approval = typing_asks };
    b->k.tools[0] = &b->exec;
    b->k.tools[1] = &b->write;
    b->k.ntools = 2;
    *out = b;
    return 0;
}

static void stop_capability(void *arg)
{
    bound *b = arg;
    cay__cmds_drop(&b->sessions);
    cay__kit_stop(b);
}

static int write_instructions(void *arg, char **text, cay_err *err)
{
    *text = cay__strdup(about_shell);
    return 0;
}

static const cay_capability_ops ops = { .size = sizeof ops,
                                        .name = "shell",
                                        .start = start_capability,
                                        .stop = stop_capability,
                                        .tools = cay__kit_tools,
                                        .instructions = write_instructions,
                                        .close = free };

cay_capability *cay_cap_shell(const cay_shell_options *o)
{
    cay_shell_options *own = cay__alloc(sizeof *own);
    if (cay__spec_take(own, sizeof *own, o, "cay_shell_options", NULL) == 0)
        return cay_capability_new(&ops, own);
    free(own);
    return NULL;
}
