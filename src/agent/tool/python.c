/* SPDX-License-Identifier: Apache-2.0 */
/* python_exec in one interpreter that stays; pip_install; javascript_execute. */
#include "toolset.h"
#include <poll.h>
#include <signal.h>

enum { CODE_S = 30, PIP_S = 900, GRACE_MS = 2000, LINE_MAX_ = 24 << 20 };

/* A line is {"code"} or {"env": {…}}, its answer {"ok", "out"}. What code and its children print
 * goes to one file in memory, so that it stays in order and never mixes with answers. */
static const char driver[] =
    "import ast, json, os, signal, sys, traceback\n"
    "wire, src = os.fdopen(os.dup(1), 'w', encoding='utf-8'), os.fdopen(os.dup(0), 'r', "
    "encoding='utf-8')\n"
    "os.dup2(os.open(os.devnull, os.O_RDONLY), 0)\n"
    "log = os.memfd_create('output')\n"
    "os.dup2(log, 1); os.dup2(log, 2)\n"
    "sys.stdout.reconfigure(encoding='utf-8', errors='replace'); "
    "sys.stderr.reconfigure(encoding='utf-8', errors='replace')\n"
    "scope = {'__name__': '__main__', '__builtins__': __builtins__}\n"
    "KEEP = 1 << 19\n"
    "def run(code):\n"
    "    tree = ast.parse(code, '<code>')\n"
    "    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None\n"
    "    exec(compile(tree, '<code>', 'exec'), scope)\n"
    "    if last is not None:\n"
    "        value = eval(compile(ast.Expression(last.value), '<code>', 'eval'), scope)\n"
    "        if value is not None: print(repr(value))\n"
    "def attempt(code):\n"
    "    try:\n"
    "        signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "        run(code)\n"
    "        return True\n"
    "    except SystemExit as e:\n"
    "        if isinstance(e.code, str): print(e.code, file=sys.stderr)\n"
    "        return not e.code\n"
    "    except BaseException as e:\n"
    "        tb = e.__traceback__\n"
    "        while tb and tb.tb_frame.f_code.co_filename != '<code>': tb = tb.tb_next\n"
    "        traceback.print_exception(type(e), e, tb)\n"
    "        return False\n"
    "    finally:\n"
    "        signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "for line in src:\n"
    "    ask = json.loads(line)\n"
    "    os.ftruncate(log, 0); os.lseek(log, 0, 0)\n"
    "    if 'env' in ask: os.environ.update(ask['env'])\n"
    "    ok = attempt(ask.get('code', ''))\n"
    "    for f in (sys.stdout, sys.stderr):\n"
    "        try: f.flush()\n"
    "        except Exception: pass\n"
    "    n = os.fstat(log).st_size\n"
    "    out = os.pread(log, n, 0) if n <= 2 * KEEP else os.pread(log, KEEP, 0) + b'\\n[%d bytes "
    "in the middle were dropped]\\n' % (n - 2 * KEEP) + os.pread(log, KEEP, n - KEEP)\n"
    "    wire.write(json.dumps({'ok': ok, 'out': out.decode('utf-8', 'replace')}) + '\\n'); "
    "wire.flush()\n";

static int start_python(cay_toolset *ts, const cay_call *call, cay_err *err)
{
    static const char *const argv[] = { "python3", "-u", "-c", driver, NULL };
    static const cay_pair more[] = { { "PYTHONUNBUFFERED", "1" }, { NULL, NULL } };
    CAY_AUTOFREE cay_pair *env = cay__tool_env(ts, more);
    const cay_spawn spec = {
        .size = sizeof spec, .argv = argv, .env = env, .cwd = ts->cwd, .user = ts->user
    };
    int rc = cay__peer_open(&ts->python, ts->sb, call, &spec, LINE_MAX_, err);
    if (rc < 0)
        cay__peer_close(&ts->python, 0);
    return cay__no_python(rc, err);
}

/* One answer, or CAY_ETIMEOUT at `end`. CAY_ESTATE: it ended. */
static int read_answer(cay__peer *y, const cay_call *call, int64_t end, json_t **out, cay_err *err)
{
    cay_call c = cay__call_copy(call);
    if (!c.deadline_ms || c.deadline_ms > end)
        c.deadline_ms = end;
    for (;;) {
        CAY_AUTOFREE char *line = cay__peer_take(y, '\n');
        if (line) {
            *out = json_loads(line, 0, NULL);
            cay__buf_clear(&y->in);
            if (*out)
                return 0;
            return cay_fail(err, CAY_ESTATE, "the interpreter spoke out of turn");
        }
        CAY_TRY(cay__call_wait(&c, y->fd, POLLIN, "Python", err));
        if (!cay__peer_read(y))
            return cay_fail(err, CAY_ESTATE, "the interpreter ended");
    }
}

static int send_request(cay_toolset *ts, const cay_call *call, json_t *what, int64_t seconds,
                        json_t **out, bool *late, cay_err *err)
{
    CAY_AUTOJSON *own = what;
    CAY_AUTOFREE char *line = cay__json_text(own, CAY__TEXT_MAX);
    CAY_AUTOBUF b = CAY__BUF(CAY__TEXT_MAX);
    cay__peer *y = &ts->python;
    if (!y->p)
        CAY_TRY(start_python(ts, call, err));
    cay__buf_fmt(&b, "%s\n", CAY_OR(line, "{}"));
    int64_t end = cay__now_ms() + seconds * 1000;
    int rc = cay_proc_write(y->p, call, b.data, b.len, err);
    if (rc == 0)
        rc = read_answer(y, call, end, out, err);
    if (rc == CAY_ETIMEOUT && cay__now_ms() >= end && cay__call_check(call, "call", NULL) == 0) {
        *late = true;
        cay_proc_signal(y->p, call, SIGINT, CAY_SCOPE_TREE, NULL);
        rc = read_answer(y, call, cay__now_ms() + GRACE_MS, out, err);
    }
    if (rc < 0) { /* whatever state it is in now, nobody can trust it */
        cay__peer_close(y, 0);
        if (rc == CAY_ETIMEOUT && *late)
            return cay_fail(err, CAY_ESTATE,
                            "the code did not end within %lld seconds nor when interrupted: the "
                            "interpreter was ended, with all that it had defined",
                            (long long)seconds);
        if (rc == CAY_ESTATE)
            return cay_fail(err, CAY_ESTATE,
                            "the interpreter ended: all that it had defined is gone, the next call "
                            "starts a new one");
    }
    return rc;
}

int cay__python_setenv(cay_toolset *ts, const cay_call *call, const char *name, const char *value,
                       cay_err *err)
{
    CAY_AUTOJSON *told = NULL;
    bool late = false;
    if (!ts->python.p)
        return 0;
    return send_request(ts, call, json_pack("{s:{s:s}}", "env", name, value), CODE_S, &told, &late,
                        err);
}

CAY__TOOL_FN(python_exec)
{
    CAY_AUTOJSON *told = NULL;
    bool late = false;
    int64_t seconds = cay__json_int(args, "timeout", CODE_S);
    CAY_TRY(send_request(ts, call, json_pack("{s:O}", "code", json_object_get(args, "code")),
                         seconds, &told, &late, err));
    const json_t *text = json_object_get(told, "out");
    if (late)
        cay__tool_say(out, "[FAILED] interrupted after %lld seconds\n", (long long)seconds);
    else
        cay__tool_say(out, "[%s]\n",
                      json_is_true(json_object_get(told, "ok")) ? "SUCCESS" : "FAILED");
    cay_output_text(out, CAY_OR(json_string_value(text), ""), json_string_length(text));
    return 0;
}

CAY__TOOL_FN(pip_install)
{
    /* A sandbox is its own environment: Debian's guard against pip beside apt has nothing to guard
     * here. */
    static const cay_pair more[] = { { "PIP_BREAK_SYSTEM_PACKAGES", "1" },
                                     { "PIP_DISABLE_PIP_VERSION_CHECK", "1" },
                                     { "PIP_NO_INPUT", "1" },
                                     { NULL, NULL } };
    const char *argv[80] = { "python3", "-m", "pip", "install", "--user", "--retries", "1", "--" };
    size_t n = 8;
    cay_result res;
    CAY_EACH_ITEM(p, json_object_get(args, "packages")) {
        if (json_string_value(p)[0] == '-' || strlen(json_string_value(p)) != json_string_length(p))
            return cay_fail(err, CAY_EINVAL, "\"%.60s\" is no package", json_string_value(p));
        argv[n++] = json_string_value(p);
    }
    cay__tool_cmd cmd = { .argv = argv, .env = more, .seconds = PIP_S };
    CAY_TRY(cay__no_python(cay__tool_run(ts, call, &cmd, &res, err), err));
    cay__tool_told(&res, PIP_S, out);
    cay_result_clear(&res);
    return 0;
}

CAY__TOOL_FN(javascript_execute)
{
    const json_t *code = json_object_get(args, "code");
    const char *const argv[] = { "node", "-", NULL };
    cay_result res;
    cay__tool_cmd cmd = { .argv = argv,
                          .input = json_string_value(code),
                          .input_len = json_string_length(code),
                          .seconds = cay__json_int(args, "timeout", CODE_S) };
    int rc = cay__tool_run(ts, call, &cmd, &res, err);
    if (rc == CAY_ENOENT)
        return cay_fail(err, rc,
                        "node is not in this sandbox; install it, or use a template that has it");
    CAY_TRY(rc);
    cay__tool_told(&res, cmd.seconds, out);
    cay_result_clear(&res);
    return 0;
}
