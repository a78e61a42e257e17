/* SPDX-License-Identifier: Apache-2.0 */
/* Programmatic tool calling: code in the sandbox calls the agent's tools, and only what it prints
 * reaches the model. */
#include "ptc.h"
#include "output.h"
#include <agent/mcp.h>
#include <poll.h>
#include <base/sha256.h>

enum { TIMEOUT_S = 300, CALLS = 1000, TOKENS = 16000, RETRIES = 2, MODULES = 64, PIP_MS = 600000 };

typedef struct ptc {
    cay_ptc_options o;
    char *dir;
} ptc;

typedef struct bound {
    cay__kit k;
    const ptc *of;
    char *dir; /* absolute, of tools/, code/, results/, data/ */
    cay__relay relay;
    unsigned next;
    bool written;
    cay_tool tool;
} bound;

static const char parameters[] =
    "{\"type\":\"object\",\"required\":[\"code\"],\"additionalProperties\":false,\"properties\":{"
    "\"code\":{\"type\":\"string\",\"minLength\":1,\"description\":\"A Python program. Only what "
    "it prints comes back to you.\"},"
    "\"timeout\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400,\"description\":\"Seconds "
    "until it is ended; 300 by default.\"},"
    "\"auto_install\":{\"type\":\"boolean\",\"description\":\"Install a package that it imports "
    "and that is missing, and try again; so by default.\"}}}";

typedef struct module {
    char name[64];
    cay__buf text;
} module;

static int write_file(const bound *b, const cay_call *call, const char *name, const char *text,
                      bool exclusive, cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(4096);
    cay_write spec = {
        .size = sizeof spec, .parents = true, .user = b->k.user, .exclusive = exclusive
    };
    cay__buf_fmt(&path, "%s/%s", b->dir, name);
    if (path.full)
        return cay_fail(err, CAY_ETOOBIG, "%.100s: too long a path", name);
    return cay_file_put(b->k.sb, call, path.data, CAY_OR(text, ""), text ? strlen(text) : 0, &spec,
                        err);
}

static module *module_of(module *v, size_t *n, const char *server)
{
    char name[64];
    if (!cay__py_name(server, name, sizeof name - 8) || !strcmp(name, "docs"))
        CAY_FORMAT(name, "server");
    CAY_EACH_OF(it, v, *n)
        if (!strcmp(it->name, name))
            return it;
    if (*n == MODULES)
        return &v[MODULES - 1];
    module *m = &v[(*n)++];
    *m = (module){ .text = CAY__BUF(8 << 20) };
    CAY_FORMAT(m->name, "%s", name);
    cay__py_head(server, &m->text);
    return m;
}

static int write_tool(const bound *b, const cay_call *call, const cay_tool *t, module *v, size_t *n,
                      cay_err *err)
{
    const char *server = cay__mcp_server_of(t);
    CAY_AUTOJSON *schema = NULL;
    if (t->parameters)
        schema = json_loads(t->parameters, 0, NULL);
    else if (t->grammar)
        schema = json_pack("{s:{s:{s:s}}, s:[s]}", "properties", "input", "type", "string",
                           "required", "input");
    cay__py_tool py = { .name = t->name, .about = t->description, .schema = schema };
    char fn[80], path[300];
    if (!cay__py_name(t->name, fn, sizeof fn))
        return 0; /* it has no name that Python could say: it stays a tool of the model */
    module *m = module_of(v, n, CAY_OR(server, "agent"));
    cay__py_function(&py, fn, &m->text);
    CAY_AUTOBUF doc = CAY__BUF(1 << 20);
    cay__py_document(&py, m->name, fn, &doc);
    CAY_FORMAT(path, "tools/docs/%s/%s.md", m->name, fn);
    return write_file(b, call, path, doc.data, false, err);
}

static int write_all(bound *b, const cay_call *call, module *v, size_t *n, cay_err *err)
{
    const cay__seat *s = b->k.run->seat;
    CAY_AUTOBUF init = CAY__BUF(65536);
    char path[128];
    CAY_EACH_OF(it, s->tools, s->ntools)
        if ((*it)->arg != b)
            CAY_TRY(write_tool(b, call, *it, v, n, err));
    cay__buf_str(&init,
                 "\"Tools of the agent, as functions.\"\nfrom ._client import Result, ToolError\n");
    CAY_EACH_OF(item, v, *n) {
        CAY_FORMAT(path, "tools/%s.py", item->name);
        CAY_TRY(write_file(b, call, path, item->text.data, false, err));
        cay__buf_fmt(&init, "from .%s import *\n", item->name);
    }
    CAY_TRY(write_file(b, call, "tools/_client.py", cay__py_client, false, err));
    CAY_TRY(write_file(b, call, "tools/__init__.py", init.data, false, err));
    static const char *const dirs[] = { "results", "data", "code" };
    CAY_EACH(it, dirs) {
        CAY_AUTOBUF whole = CAY__BUF(4096);
        cay__buf_fmt(&whole, "%s/%s", b->dir, *it);
        CAY_TRY(cay_file_mkdir(b->k.sb, call, whole.data, 0755, true, err));
    }
    return 0;
}

static int write_modules(bound *b, const cay_call *outer, cay_err *err)
{
    if (b->written)
        return 0;
    cay_call own = cay__call_copy(outer);
    own.fence = NULL; /* they are ours, not the agent's */
    module *v = cay__alloc(MODULES * sizeof *v);
    size_t n = 0;
    int rc = write_all(b, &own, v, &n, err);
    b->written = rc == 0;
    CAY_EACH_OF(it, v, n)
        cay__buf_clear(&it->text);
    free(v);
    return rc;
}

typedef struct execution {
    char id[32];
    const char *code;
    int64_t seconds;
    cay_proc *p;
    int fd[2];
    cay__printed text[2];
    cay_exit exit;
    unsigned calls, retries;
    double duration;
    json_t *installed;
} execution;

static int save_code(bound *b, const cay_call *outer, execution *x, cay_err *err)
{
    cay_call own = cay__call_copy(outer);
    own.fence = NULL;
    char path[64];
    for (int rc = CAY_EEXIST; rc == CAY_EEXIST;) { /* numbers of a saved run are taken already */
        CAY_FORMAT(x->id, "exec_%04u", ++b->next);
        CAY_FORMAT(path, "code/%s.py", x->id);
        rc = write_file(b, &own, path, x->code, true, err);
        if (rc < 0 && rc != CAY_EEXIST)
            return rc;
    }
    return 0;
}

/* Paths are relative to the workspace, because what is absolute inside is the provider's affair. */
static int start_code(bound *b, const cay_call *call, execution *x, cay_err *err)
{
    static const char line[] =
        "d=$(cd \"$1\" && pwd) && cd \"$2\" && PYTHONPATH=\"$d${PYTHONPATH:+:$PYTHONPATH}\" exec "
        "python3 \"$d/code/$3.py\"";
    size_t root = strlen(b->k.root);
    const char *cwd = b->k.cwd;
    if (!strcmp(b->k.root, cwd))
        cwd = ".";
    else if (!strncmp(cwd, b->k.root, root) && cwd[root] == '/')
        cwd += root + 1;
    const char *argv[] = { "sh", "-c", line, "sh", b->of->dir, cwd, x->id, NULL };
    cay_pair env[] = { { "CAY_TOOLS_SOCKET", b->relay.path },
                       { "PYTHONUNBUFFERED", "1" },
                       { "PYTHONDONTWRITEBYTECODE", "1" },
                       { NULL, NULL } };
    cay_spawn spec = { .size = sizeof spec,
                       .argv = argv,
                       .env = env,
                       .cwd = b->k.root,
                       .user = b->k.user,
                       .timeout_ms = (uint64_t)x->seconds * 1000,
                       .on_full = CAY_FULL_BLOCK,
                       .attach = true };
    CAY_TRY(cay_sandbox_spawn(b->k.sb, call, &spec, &x->p, err));
    for (int i = 0; i < 2; i++) {
        CAY_TRY(cay_proc_output(x->p, call, i ? CAY_STDERR : CAY_STDOUT, CAY_FROM_START, &x->fd[i],
                                err));
        cay__fd_nonblock(x->fd[i], true);
    }
    return 0;
}

static void drain_stream(execution *x, int i)
{
    char buf[65536];
    for (ssize_t n = 1; n > 0 && x->fd[i] >= 0;) {
        n = read(x->fd[i], buf, sizeof buf);
        if (n > 0)
            cay__printed_add(&x->text[i], buf, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            cay__close_fd(&x->fd[i]);
    }
}

/* One call of the code: the way of a model's call, and the answer goes back to the code alone. */
static int serve_call(bound *b, const cay_call *call, execution *x, cay__relay_call *c,
                      cay_err *err)
{
    CAY_AUTOJSON *m = c->message, *out = NULL;
    const json_t *args = json_object_get(m, "arguments");
    const char *tool = cay__json_str(m, "tool", "");
    unsigned most = CAY_OR(b->of->o.max_calls, CALLS);
    char id[96];
    bool ran = false;
    CAY_FORMAT(id, "%s-%u", x->id, ++x->calls);
    if (!json_is_object(args) || !*tool) {
        out = json_string("the call is no sound JSON");
    } else if (!strcmp(tool, b->tool.name)) {
        out = json_string("execute_code is not called by code that it runs");
    } else if (x->calls > most) {
        out = json_sprintf("this code has called tools %u times already; that is the limit", most);
    } else {
        CAY_AUTOFREE char *text = cay__json_text(args, CAY__TEXT_MAX);
        CAY_TRY(cay__run_note(b->k.run, "code_calls", tool, err));
        CAY_TRY(cay__call_inside(b->k.run, tool, id, CAY_OR(text, "{}"), &ran, &out, err));
    }
    int rc = cay__relay_answer(&b->relay, call, c->id, ran, out, err);
    if (rc == CAY_ESTATE || rc == CAY_EGONE)
        return 0;
    return rc; /* who asked has ended meanwhile */
}

static int serve_all(bound *b, const cay_call *call, execution *x, cay_err *err)
{
    cay__relay_call c;
    while (cay__relay_take(&b->relay, &c)) {
        drain_stream(x, 0);
        drain_stream(x, 1);
        CAY_TRY(serve_call(b, call, x, &c, err));
    }
    return 0;
}

static int watch_execution(bound *b, const cay_call *call, execution *x, cay_err *err)
{
    int ended = cay_proc_exit_fd(x->p, err);
    bool relay = true;
    for (;;) {
        drain_stream(x, 0);
        drain_stream(x, 1);
        bool closed = x->fd[0] < 0 && x->fd[1] < 0;
        struct pollfd f[] = { { .fd = x->fd[0], .events = POLLIN },
                              { .fd = x->fd[1], .events = POLLIN },
                              { .fd = relay ? b->relay.peer.fd : -1, .events = POLLIN },
                              { .fd = closed ? ended : -1, .events = POLLIN },
                              { .fd = cay__call_cancel(call), .events = POLLIN } };
        poll(f, CAY_LEN(f), cay__call_left(call));
        CAY_TRY(cay__call_check(call, "code", err));
        if (f[2].revents)
            relay = cay__peer_read(&b->relay.peer);
        CAY_TRY(serve_all(b, call, x, err));
        if (closed && f[3].revents)
            return cay_proc_wait(x->p, call, &x->exit, err);
    }
}

static void end_process(execution *x)
{
    CAY_EACH_OF(it, x->fd, 2)
        cay__close_fd(it);
    if (x->p)
        cay_proc_unref(CAY_STEAL(x->p));
}

static int run_once(bound *b, const cay_call *call, execution *x, cay_err *err)
{
    int64_t began = cay__now_us();
    x->exit = (cay_exit){ .size = sizeof x->exit };
    CAY_EACH_OF(it, x->text, 2) {
        cay__buf_clear(&it->b);
        *it = (cay__printed)CAY__PRINTED;
    }
    int rc = 0;
    if (!cay__relay_alive(&b->relay)) {
        cay__relay_close(&b->relay);
        rc = cay__relay_open(&b->relay, b->k.sb, b->k.user, b->k.root, call, err);
    }
    if (rc == 0)
        rc = start_code(b, call, x, err);
    if (rc == 0)
        rc = watch_execution(b, call, x, err);
    if (rc < 0 && x->p)
        cay_proc_signal(x->p, NULL, 9, CAY_SCOPE_TREE, NULL);
    end_process(x);
    x->duration = (double)(cay__now_us() - began) / 1e6;
    return rc;
}

/* The package that an import misses, by the last line of the traceback; its top name. */
static bool find_missing_module(const execution *x, char *name, size_t cap)
{
    static const char said[] = "ModuleNotFoundError: No module named '";
    const cay__buf *b = &x->text[1].b;
    const char *at = CAY_IF(x->exit.code && b->data, strstr(b->data, said));
    if (!at)
        return false;
    at += sizeof said - 1;
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    snprintf(name, cap, "%.*s", (int)n, at);
    return n > 0 && n < cap && strcmp(name, "tools");
}

static bool install_package(bound *b, const cay_call *call, execution *x, const char *name)
{
    const char *argv[] = { "python3",   "-m", "pip", "install", "--user", "--quiet",
                           "--retries", "0",  "--",  name,      NULL };
    cay_pair env[] = { { "PIP_BREAK_SYSTEM_PACKAGES", "1" },
                       { "PIP_DISABLE_PIP_VERSION_CHECK", "1" },
                       { "PIP_NO_INPUT", "1" },
                       { NULL, NULL } };
    cay_spawn spec = { .size = sizeof spec,
                       .argv = argv,
                       .env = env,
                       .cwd = b->k.root,
                       .user = b->k.user,
                       .timeout_ms = PIP_MS };
    cay_result res = { .size = sizeof res };
    CAY_EACH_ITEM(had, x->installed)
        if (!strcmp(json_string_value(had), name))
            return false;
    if (cay_sandbox_run(b->k.sb, call, &spec, NULL, 0, 65536, &res, NULL) < 0)
        return false;
    bool ok = !res.exit.code;
    cay_result_clear(&res);
    if (ok)
        json_array_append_new(x->installed, json_string(name));
    return ok;
}

static json_t *format_printed(const bound *b, execution *x, int i)
{
    CAY_AUTOBUF all = CAY__BUF(8 * CAY__KEEP_BYTES);
    CAY_AUTOBUF cut = CAY__BUF(8 * CAY__KEEP_BYTES);
    uint64_t count;
    cay__printed_text(&x->text[i], &all);
    cay__truncate(CAY_OR(all.data, ""), all.len, CAY_OR(b->of->o.max_output_tokens, TOKENS), &cut,
                  &count);
    json_t *j = json_stringn(CAY_OR(cut.data, ""), cut.len);
    return CAY_OR(j, json_string(""));
}

static void report_execution(const bound *b, execution *x, const cay__seen *before,
                             const cay__seen *after, cay_tool_output *out)
{
    char hash[CAY__SHA256_HEX];
    json_t *created = json_array(), *modified = json_array();
    bool cut = false, late = !strcmp(x->exit.reason, "time");
    cay__sha256_hex(x->code, strlen(x->code), hash);
    cay__seen_compare(before, after, created, modified, &cut);
    CAY_AUTOJSON *j = json_pack(
        "{s:b, s:i, s:o, s:o, s:f, s:o, s:o, s:s, s:s%, s:i, s:[]}", "success", !x->exit.code,
        "exit_code", x->exit.code, "stdout", format_printed(b, x, 0), "stderr",
        format_printed(b, x, 1), "duration", (double)(int64_t)(x->duration * 1000) / 1000,
        "files_created", created, "files_modified", modified, "execution_id", x->id, "code_hash",
        hash, (size_t)16, "tool_calls", (int)x->calls, "charts");
    if (late)
        json_object_set_new(j, "timed_out", json_true());
    if (json_array_size(x->installed))
        json_object_set(j, "installed", x->installed);
    if (cut)
        json_object_set_new(j, "files_incomplete", json_true());
    CAY_AUTOFREE char *text = cay__json_text(j, CAY__TEXT_MAX);
    cay_output_text(out, CAY_OR(text, "{}"), text ? strlen(text) : 2);
}

static int run_code(bound *b, const cay_call *call, execution *x, bool auto_install,
                    cay_tool_output *out, cay_err *err)
{
    CAY_AUTOPTR(cay__seen) before = NULL;
    CAY_AUTOPTR(cay__seen) after = NULL;
    char name[64];
    CAY_TRY(write_modules(b, call, err));
    CAY_TRY(save_code(b, call, x, err));
    CAY_TRY(cay__seen_look(b->k.sb, call, b->k.root, &before, err));
    CAY_TRY(run_once(b, call, x, err));
    while (auto_install && x->retries < RETRIES && find_missing_module(x, name, sizeof name) &&
           install_package(b, call, x, name)) {
        x->retries++;
        CAY_TRY(run_once(b, call, x, err));
    }
    CAY_TRY(cay__seen_look(b->k.sb, call, b->k.root, &after, err));
    report_execution(b, x, before, after, out);
    return 0;
}

static int execute_code(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    bound *b = arg;
    CAY_AUTOJSON *a = NULL;
    CAY_TRY(cay__json_object("its arguments", call->arguments, &a, err));
    execution x = { .code = cay__json_str(a, "code", NULL),
                    .seconds = cay__json_int(
                        a, "timeout", b->of->o.timeout_s ? (int64_t)b->of->o.timeout_s : TIMEOUT_S),
                    .fd = { -1, -1 },
                    .installed = json_array() };
    int rc;
    if (x.code)
        rc = run_code(b, cay_run_call(call->run), &x,
                      cay__json_bool(a, "auto_install", true) && !b->of->o.no_install, out, err);
    else
        rc = cay_fail(err, CAY_EINVAL, "the code has a NUL character in it");
    CAY_EACH_OF(it, x.text, 2)
        cay__buf_clear(&it->b);
    json_decref(x.installed);
    return rc;
}

static bool is_approval_needed(void *arg, const cay_tool_call *call)
{
    const bound *b = arg;
    if (b->of->o.needs_approval)
        return b->of->o.needs_approval(b->of->o.arg, call);
    return b->of->o.approval;
}

static int start_capability(void *self, const cay_scope_info *scope, void **out, cay_err *err)
{
    bound *b = cay__kit_begin(sizeof *b, scope);
    cay__buf dir = CAY__BUF(4096);
    b->of = self;
    cay__buf_fmt(&dir, "%s/%s", CAY_TEXT_IF(strcmp(b->k.root, "/"), b->k.root), b->of->dir);
    b->dir = dir.data;
    b->relay.peer.fd = -1;
    b->tool = (cay_tool){
        .size = sizeof b->tool,
        .name = "execute_code",
        .parameters = parameters,
        .call = execute_code,
        .arg = b,
        .needs_approval = is_approval_needed,
        .description =
            "Runs a Python program in the sandbox that can call your other tools as functions of "
            "the package tools. You are told what it printed, the files it "
            "made and changed, and how long it took; what its tool calls answered stays with it."
    };
    b->k.tools[b->k.ntools++] = &b->tool;
    *out = b;
    return 0;
}

static void stop_capability(void *arg)
{
    bound *b = arg;
    cay__relay_close(&b->relay);
    free(b->dir);
    cay__kit_stop(b);
}

static int write_instructions(void *arg, char **text, cay_err *err)
{
    const bound *b = arg;
    const cay__seat *s = b->k.run->seat;
    cay__buf all = CAY__BUF(65536);
    char fn[80];
    cay__buf_fmt(&all,
                 "## Code that calls tools\n"
                 "- execute_code runs a Python program in which your tools are functions: from "
                 "tools import NAME. Use it for work with many calls, or with answers that are\n"
                 "  large: filter and count them there, and print what you need to know. A "
                 "function returns text; .json() reads it where it is JSON.\n"
                 "- help(NAME) prints a function's parameters, and so does %s/tools/docs. Put what "
                 "you want to keep into %s/results.\n"
                 "- Functions:",
                 b->of->dir, b->of->dir);
    CAY_EACH_OF(it, s->tools, s->ntools)
        if ((*it)->arg != b && cay__py_name((*it)->name, fn, sizeof fn))
            cay__buf_fmt(&all, " %s", fn);
    *text = all.data;
    return 0;
}

static void close_ptc(void *self)
{
    ptc *t = self;
    free(t->dir);
    free(t);
}

static const cay_capability_ops ops = { .size = sizeof ops,
                                        .name = "ptc",
                                        .start = start_capability,
                                        .stop = stop_capability,
                                        .tools = cay__kit_tools,
                                        .instructions = write_instructions,
                                        .close = close_ptc };

int cay_cap_ptc(const cay_ptc_options *given, cay_capability **out, cay_err *err)
{
    cay_ptc_options o;
    CAY_TRY(cay__spec_take(&o, sizeof o, given, "cay_ptc_options", err));
    const char *dir = CAY_OR(o.dir, ".ptc");
    if (!*dir || *dir == '/' || *dir == '-' || strstr(dir, "..") || strlen(dir) > 200)
        return cay_fail_why(err, CAY_EINVAL, "ptc_config_invalid",
                            "dir \"%.60s\": want a directory below the workspace, without ..", dir);
    ptc *t = cay__alloc(sizeof *t);
    t->o = o;
    t->dir = cay__strdup(dir);
    t->o.dir = NULL;
    *out = cay_capability_new(&ops, t);
    return 0;
}
