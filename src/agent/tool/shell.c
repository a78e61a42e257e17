/* SPDX-License-Identifier: Apache-2.0 */
/* shell_exec in the session's one shell; shell_interactive and shell_kill on terminals of their
 * own. */
#include "toolset.h"
#include <signal.h>

enum { TIMEOUT_S = 120 };

int cay__tool_shell(cay_toolset *ts, const cay_call *call, cay_err *err)
{
    if (ts->sh)
        return 0;
    CAY_AUTOFREE cay_pair *env = cay__tool_env(ts, NULL);
    cay_shell_spec spec = {
        .size = sizeof spec, .name = ts->shell_name, .cwd = ts->cwd, .user = ts->user, .env = env
    };
    return cay_shell_open(ts->sb, call, &spec, &ts->sh, err);
}

static int on_output_data(cay_stream which, const void *data, size_t len, void *arg)
{
    cay__printed_add(arg, data, len);
    return 0;
}

static int tell_start(cay_toolset *ts, const cay_call *call, const char *command, bool tty,
                      cay__cmd **out, cay_err *err)
{
    static const cay_pair terminal[] = { { "TERM", "dumb" }, { NULL, NULL } };
    CAY_AUTOFREE cay_pair *env = cay__tool_env(ts, CAY_IF(tty, terminal));
    cay_spawn spec = { .size = sizeof spec,
                       .shell = command,
                       .cwd = ts->cwd,
                       .user = ts->user,
                       .env = env,
                       .tty = tty,
                       .cols = 120,
                       .rows = 40 };
    CAY_TRY(cay__cmd_start(&ts->cmds, call, &spec, out, err));
    ts->last = (*out)->id;
    return 0;
}

CAY__TOOL_FN(shell_exec)
{
    cay__printed p = CAY__PRINTED;
    cay_result res = { .size = sizeof res };
    int64_t seconds = cay__json_int(args, "timeout", TIMEOUT_S);
    const char *line = cay__json_str(args, "command", "");
    cay_shell_cmd cmd = { .size = sizeof cmd,
                          .line = line,
                          .timeout_ms = (uint64_t)seconds * 1000,
                          .output = on_output_data,
                          .arg = &p };
    cay__cmd *s = NULL;
    if (!*line)
        return cay_fail(err, CAY_EINVAL, "command is empty");
    if (cay__json_bool(args, "background", false)) {
        CAY_TRY(tell_start(ts, call, line, false, &s, err));
        return cay__tool_say(out,
                             "[SUCCESS]\nIt runs in session %d; shell_interactive shows what it "
                             "prints, shell_kill ends it.",
                             s->id);
    }
    CAY_TRY(cay__tool_shell(ts, call, err));
    int rc = cay_shell_run(ts->sh, call, &cmd, &res, err);
    if (rc ==
        CAY_EGONE) { /* it ended between two calls, not the sandbox: a new one takes its place */
        cay_shell_unref(CAY_STEAL(ts->sh));
        rc = cay__tool_shell(ts, call, err);
        if (rc == 0)
            rc = cay_shell_run(ts->sh, call, &cmd, &res, err);
    }
    CAY_AUTOBUF text = CAY__BUF(8 * CAY__KEEP_BYTES);
    cay__printed_text(&p, &text);
    cay__buf_clear(&p.b);
    CAY_TRY(rc);
    if (!strcmp(res.exit.reason, "ended")) {
        cay_shell_unref(CAY_STEAL(ts->sh));
        cay__tool_say(
            out, "[%s] exit code %d; the shell ended with it, the next command has a new one\n",
            res.exit.code ? "FAILED" : "SUCCESS", res.exit.code);
        cay_output_text(out, text.data, text.len);
    } else {
        cay_result told = { .exit = res.exit, .out = text.data, .out_len = text.len };
        cay__tool_told(&told, seconds, out);
    }
    cay_result_clear(&res);
    return 0;
}

/* Escape sequences and carriage returns say nothing to a model. */
static void strip_escapes(cay__buf *b)
{
    size_t w = 0;
    for (size_t i = 0; i < b->len; i++) {
        const char *p = b->data + i;
        size_t left = b->len - i;
        if (*p == '\r' || *p == '\a') {
            continue;
        } else if (*p == 27 && left > 1 && p[1] == '[') {
            for (i += 2; i < b->len && (b->data[i] < 0x40 || b->data[i] > 0x7e); i++)
                ;
        } else if (*p == 27 && left > 1 && p[1] == ']') {
            for (i += 2; i < b->len && b->data[i] != '\a' && b->data[i] != 27; i++)
                ;
            i += i < b->len && b->data[i] == 27;
        } else if (*p == 27) {
            i++;
        } else {
            b->data[w++] = *p;
        }
    }
    b->len = w;
    if (b->data)
        b->data[w] = 0;
}

static int find_session(cay_toolset *ts, const cay_call *call, const json_t *args, cay__cmd **s,
                        cay_err *err)
{
    int64_t id = cay__json_int(args, "session", ts->last);
    if (!id)
        return cay_fail(err, CAY_EINVAL, "nothing runs: give a command to start it");
    return cay__cmd_find(&ts->cmds, call, id, s, err);
}

static int write_input(cay__cmd *s, const cay_call *call, const json_t *args, cay_err *err)
{
    const json_t *input = json_object_get(args, "input");
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    if (!input)
        return 0;
    if (!s->tty)
        return cay_fail(err, CAY_ESTATE,
                        "session %d was not started by shell_interactive: it cannot be typed into",
                        s->id);
    cay__buf_add(&b, json_string_value(input), json_string_length(input));
    if (cay__json_bool(args, "press_enter", true))
        cay__buf_add(&b, "\r", 1);
    if (b.full)
        return cay_fail(err, CAY_ETOOBIG, "the input is larger than 1 MiB");
    return cay_proc_write(s->p, call, b.data, b.len, err);
}

CAY__TOOL_FN(shell_interactive)
{
    const char *command = cay__json_str(args, "command", "");
    cay__cmd *s = NULL;
    cay__printed p = CAY__PRINTED;
    CAY_AUTOBUF text = CAY__BUF(8 * CAY__KEEP_BYTES);
    if (*command)
        CAY_TRY(tell_start(ts, call, command, true, &s, err));
    else
        CAY_TRY(find_session(ts, call, args, &s, err));
    CAY_TRY(write_input(s, call, args, err));
    int rc = cay__cmd_collect(s, call, (uint64_t)cay__json_int(args, "wait", 1) * 1000, &p, err);
    cay__printed_text(&p, &text);
    cay__buf_clear(&p.b);
    CAY_TRY(rc);
    strip_escapes(&text);
    if (s->exited)
        cay__tool_say(out, "[session %d ended with code %d]\n", s->id, s->exit.code);
    else
        cay__tool_say(out, "[session %d is running]\n", s->id);
    cay_output_text(out, text.data, text.len);
    if (s->exited) {
        if (ts->last == s->id)
            ts->last = 0;
        cay__cmd_drop(s);
    }
    return 0;
}

CAY__TOOL_FN(shell_kill)
{
    cay__cmd *s = NULL;
    CAY_TRY(find_session(ts, call, args, &s, err));
    int id = s->id, rc = cay_proc_signal(s->p, call, SIGKILL, CAY_SCOPE_TREE, err);
    if (rc < 0 && rc != CAY_ESTATE && rc != CAY_ENOENT)
        return rc;
    if (ts->last == id)
        ts->last = 0;
    cay__cmd_drop(s);
    return cay__tool_say(out, "Session %d was ended.", id);
}
