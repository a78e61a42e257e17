/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code interpreter that SDKs expect on port 49999: contexts are processes in the sandbox (kernel.py) that stay, found by a label; an
 * execution is a line written to one and the lines that it answers. Nothing is remembered here, so a restart of the server changes nothing.
 */
#include "e2b.h"
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <stdio.h>

#define LINE_MAX_BYTES ((size_t)8 << 20)
#define FRESH_BYTES    65536
#define QUICK_BYTES    ((size_t)128 << 10) /* of lines that are read on the loop itself */
#define BEAT_MS        5000

extern const char cay_e2b_kernel[], cay_e2b_kernel_end[], cay_e2b_kernel_host[], cay_e2b_kernel_host_end[], cay_e2b_kernel_js[], cay_e2b_kernel_js_end[];

typedef struct context {
    char        id[64], language[16];
    const char *cwd;
} context;

/* ------------------------------------------------------------------ languages */

#define PYTHON_PATH "/tmp/.cay-kernel.py"
#define HOST_PATH   "/tmp/.cay-kernel-host"
#define JS_PATH     "/tmp/.cay-kernel.js"

static const struct language {
    const char *name, *also;
    const char *program; /* that has to be inside */
    const char *script;  /* that it runs; NULL: the host has it */
    bool        always;  /* a context of it is there from the start, as far as anyone can tell */
} languages[] = {
    { "python", "python3", "python3", PYTHON_PATH, true },
    { "javascript", "js", "node", JS_PATH, true },
    { "typescript", "ts", "node", JS_PATH, false },
    { "bash", "sh", "bash", NULL, false },
};

/* Where images have their programs: their own before the distribution's. */
static int find_program(cay__req *r, const e2b_daemon *d, const char *name, const char **out, cay_err *err)
{
    static const char *const dirs[] = { "/usr/local/bin/", "/usr/bin/", "/bin/" };
    char path[64];
    *out = NULL;
    for (size_t i = 0; i < CAY_LEN(dirs) && !*out; i++) {
        bool there;
        snprintf(path, sizeof path, "%s%s", dirs[i], name);
        CAY_TRY(cay_file_exists(d->sb, &r->call, path, &there, err));
        if (there)
            *out = cay__arena_str(&r->arena, path);
    }
    return 0;
}

static const struct language *language_of(const char *given, cay_err *err)
{
    for (size_t i = 0; i < CAY_LEN(languages); i++)
        if (!given || !*given || !strcmp(given, languages[i].name) || !strcmp(given, languages[i].also))
            return &languages[i];
    /* E2B has these two, and we do not; others are nobody's. */
    bool theirs = !strcmp(given, "r") || !strcmp(given, "java");
    cay_fail_why(err, theirs ? CAY_ENOTSUP : CAY_EINVAL, theirs ? "not_supported" : "language_unknown", theirs ? "language %.40s is not supported by this server: there are python, javascript, typescript and bash"
                 : "language %.40s is not known: there are python, javascript, typescript and bash", given);
    return NULL;
}

static int put_kernels(cay__req *r, const e2b_daemon *d, cay_err *err)
{
    const struct { const char *path, *from, *end; uint32_t mode; } files[] = { { PYTHON_PATH, cay_e2b_kernel, cay_e2b_kernel_end, 0644 },
        { HOST_PATH, cay_e2b_kernel_host, cay_e2b_kernel_host_end, 0755 }, { JS_PATH, cay_e2b_kernel_js, cay_e2b_kernel_js_end, 0644 } };
    for (size_t i = 0; i < CAY_LEN(files); i++) {
        const cay_write w = { .size = sizeof w, .mode = files[i].mode, .user = d->user };
        CAY_TRY(cay_file_put(d->sb, &r->call, files[i].path, files[i].from, (size_t)(files[i].end - files[i].from), &w, err));
    }
    return 0;
}

/* ------------------------------------------------------------------ contexts */

/* A tag is what a context's process is found by. */
static void tag_of(const char *id, char out[80])
{
    snprintf(out, 80, "cay-kernel-%.64s", id);
}

static int start(cay__req *r, const e2b_daemon *d, const context *c, cay_proc **out, cay_err *err)
{
    const struct language *l = language_of(c->language, err);
    const cay_pair labels[] = { { "cay-context", c->id }, { "cay-language", c->language }, { "cay-cwd", c->cwd }, { NULL, NULL } };
    char tag[80];
    const char *program;
    if (!l)
        return err->code;
    tag_of(c->id, tag);
    CAY_TRY(find_program(r, d, l->program, &program, err));
    if (!program)
        return cay_fail_why(err, CAY_EINVAL, "program_missing", "language %s needs %s, which this sandbox's template does not have", l->name, l->program);
    const char *const argv[] = { HOST_PATH, l->name, program, l->script, NULL };
    CAY_TRY(put_kernels(r, d, err));
    const cay_spawn s = { .size = sizeof s, .argv = argv, .cwd = c->cwd, .env = d->env, .user = d->user, .stdin_mode = CAY_STDIN_PIPE, .tag = tag, .labels = labels, .ring_bytes = 16 << 20,
                          .on_full = CAY_FULL_BLOCK };
    int rc = cay_sandbox_spawn(d->sb, &r->call, &s, out, err);
    if (rc == CAY_EEXIST) /* somebody else was faster */
        rc = cay_sandbox_attach(d->sb, &r->call, tag, out, err);
    return rc;
}

static const char *label(const cay_proc_info *i, const char *key)
{
    for (const cay_pair *p = i->labels; p->key; p++)
        if (!strcmp(p->key, key))
            return p->value;
    return NULL;
}

/* The default one of a language is made when it is wanted first. */
static int open_context(cay__req *r, const e2b_daemon *d, const char *id, const char *language, cay_proc **out, cay_err *err)
{
    context c = { .cwd = "/home/user" };
    char tag[80];
    cay_exit e = { .size = sizeof e };
    const cay_call now = { .size = sizeof now, .deadline_ms = 1 };
    const struct language *l = NULL;
    if (!id || !*id || cay__str_starts(id, "default-")) {
        if (!(l = language_of(id && *id ? id + 8 : language, err)))
            return err->code;
        snprintf(c.id, sizeof c.id, "default-%s", l->name);
        cay__str_copy(c.language, sizeof c.language, l->name);
    } else if (!cay__str_copy(c.id, sizeof c.id, id)) {
        return cay_fail(err, CAY_ENOENT, "Context %.60s not found", id);
    }
    tag_of(c.id, tag);
    int rc = cay_sandbox_attach(d->sb, &r->call, tag, out, err);
    if (rc == 0 && cay_proc_wait(*out, &now, &e, NULL) == 0) { /* it ended: killed, or out of memory */
        cay_proc_unref(*out);
        rc = CAY_ENOENT;
    }
    if (rc != CAY_ENOENT)
        return rc;
    return l ? start(r, d, &c, out, err) : cay_fail(err, CAY_ENOENT, "Context %.60s not found", id);
}

void e2b_interpreter_begin(cay__req *r, cay_sandbox *sb, const char *config)
{
    const e2b_daemon d = { .sb = sb, .id = cay_sandbox_id(sb) };
    CAY_AUTOJSON *o = NULL;
    const json_t *v;
    size_t i;
    cay__json_object("config", config, &o, NULL);
    json_array_foreach(json_object_get(o, "interpreter"), i, v) {
        cay_err err = CAY_ERR_INIT;
        cay_proc *p = NULL;
        if (json_is_string(v) && open_context(r, &d, NULL, json_string_value(v), &p, &err) == 0)
            cay_proc_unref(p);
    }
}

static json_t *context_json(const char *id, const char *language, const char *cwd)
{
    return json_pack("{s:s,s:s,s:s}", "id", id, "language", language, "cwd", cwd);
}

static int add_context(const cay_proc_info *i, void *arg)
{
    const char *id = label(i, "cay-context"), *language = label(i, "cay-language"), *cwd = label(i, "cay-cwd");
    if (id && i->state != 'X')
        json_array_append_new(arg, context_json(id, language ? language : "python", cwd ? cwd : "/home/user"));
    return 0;
}

/* Those that are made when they are wanted first are there, too. */
static int add_defaults(cay__req *r, const e2b_daemon *d, json_t *list, cay_err *err)
{
    for (size_t i = 0; i < CAY_LEN(languages); i++) {
        char id[64];
        const char *program;
        const json_t *one;
        size_t k;
        bool listed = !languages[i].always;
        snprintf(id, sizeof id, "default-%s", languages[i].name);
        json_array_foreach(list, k, one)
            listed |= !strcmp(cay__json_str(one, "id", ""), id);
        if (listed)
            continue;
        CAY_TRY(find_program(r, d, languages[i].program, &program, err));
        if (program)
            json_array_append_new(list, context_json(id, languages[i].name, "/home/user"));
    }
    return 0;
}

static int on_contexts(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    CAY_TRY(e2b_daemon_open(r, E2B_TRAFFIC, &d, err));
    CAY_AUTOJSON *list = json_array();
    CAY_TRY(cay_sandbox_procs(d.sb, &r->call, add_context, list, err));
    CAY_TRY(add_defaults(r, &d, list, err));
    return cay__reply_json(r, 200, json_incref(list));
}

/* Of a default context that nobody has used yet there is no process. */
static const struct language *unused_default(const char *id)
{
    for (size_t i = 0; i < CAY_LEN(languages); i++)
        if (cay__str_starts(id, "default-") && !strcmp(id + 8, languages[i].name))
            return &languages[i];
    return NULL;
}

static int on_context_create(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    json_t *in;
    cay_proc *p;
    context c = { 0 };
    CAY_TRY(e2b_daemon_open(r, E2B_TRAFFIC, &d, err));
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const struct language *l = language_of(cay__json_str(in, "language", NULL), err);
    if (!l)
        return err->code;
    cay__str_copy(c.language, sizeof c.language, l->name);
    c.cwd = cay__json_str(in, "cwd", "/home/user");
    cay__str_copy(c.id, sizeof c.id, r->id); /* as random as anything */
    CAY_TRY(start(r, &d, &c, &p, err));
    cay_proc_unref(p);
    return cay__reply_json(r, 200, context_json(c.id, c.language, c.cwd));
}

/* 1: it had ended already. */
static int end_context(cay__req *r, const e2b_daemon *d, const char *id, cay_err *err)
{
    char tag[80];
    cay_proc *p;
    cay_exit e = { .size = sizeof e };
    tag_of(id, tag);
    int rc = strlen(id) < 64 ? cay_sandbox_attach(d->sb, &r->call, tag, &p, err) : CAY_ENOENT;
    if (rc == CAY_ENOENT)
        return cay_fail(err, CAY_ENOENT, "Context %.60s not found", id);
    if (rc < 0)
        return rc;
    const cay_call now = { .size = sizeof now, .deadline_ms = 1 };
    bool over = cay_proc_wait(p, &now, &e, NULL) == 0;
    rc = cay_proc_signal(p, &r->call, 9, CAY_SCOPE_TREE, err);
    if (rc == 0 || rc == CAY_ENOENT)
        rc = cay_proc_wait(p, &r->call, &e, err);
    cay_proc_unref(p);
    return rc < 0 ? rc : over;
}

static int on_context_delete(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    CAY_TRY(e2b_daemon_open(r, E2B_TRAFFIC, &d, err));
    int rc = end_context(r, &d, r->param[0], err);
    if (rc > 0) /* as it is not listed either */
        rc = cay_fail(err, CAY_ENOENT, "Context %.60s not found", r->param[0]);
    if (rc < 0 && !(rc == CAY_ENOENT && unused_default(r->param[0])))
        return rc;
    return cay__reply(r, 204, NULL, NULL, 0);
}

typedef struct seek {
    context    *c;
    cay__arena *mem;
} seek;

static int read_context(const cay_proc_info *i, void *arg)
{
    seek *s = arg;
    const char *id = label(i, "cay-context"), *language = label(i, "cay-language"), *cwd = label(i, "cay-cwd");
    if (!id || strcmp(id, s->c->id) != 0)
        return 0;
    if (language)
        cay__str_copy(s->c->language, sizeof s->c->language, language);
    if (cwd)
        s->c->cwd = cay__arena_str(s->mem, cwd);
    return 0;
}

static int on_context_restart(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    cay_proc *p;
    context c = { .language = "python", .cwd = "/home/user" };
    CAY_TRY(e2b_daemon_open(r, E2B_TRAFFIC, &d, err));
    cay__str_copy(c.id, sizeof c.id, r->param[0]);
    seek s = { &c, &r->arena };
    CAY_TRY(cay_sandbox_procs(d.sb, &r->call, read_context, &s, err));
    const struct language *l = unused_default(r->param[0]);
    if (l)
        cay__str_copy(c.language, sizeof c.language, l->name);
    int rc = end_context(r, &d, r->param[0], err);
    if (rc < 0 && !(rc == CAY_ENOENT && l))
        return rc;
    CAY_TRY(start(r, &d, &c, &p, err));
    cay_proc_unref(p);
    return cay__reply(r, 200, "application/json", "null", 4);
}

/* ------------------------------------------------------------------ an execution */

typedef struct run {
    cay_proc *p;
    char      id[CAY_ID_LEN + 1];
    cay__buf  line;  /* lines that are ours or may be, the last one as far as it came */
    size_t    from;  /* where that one begins */
    bool      skips; /* … and the rest of it is not wanted */
    int64_t   quiet_since;
    bool      ended, died;
    char      fresh[FRESH_BYTES];
} run;

/* A line of ours goes on without its id; those of others are theirs. */
static void take_line(run *x, const char *s, size_t n, cay__buf *out)
{
    CAY_AUTOJSON *o = json_loadb(s, n, JSON_ALLOW_NUL, NULL);
    const char *type = cay__json_str(o, "type", "");
    if (strcmp(cay__json_str(o, "id", ""), x->id))
        return;
    x->ended |= !strcmp(type, "end_of_execution");
    json_object_del(o, "id");
    CAY_AUTOFREE char *text = cay__json_text(o, 4 * LINE_MAX_BYTES);
    if (text) {
        cay__buf_str(out, text);
        cay__buf_str(out, "\n");
        x->quiet_since = cay__now_ms();
    }
}

static void take_lines(run *x, cay__buf *out)
{
    char *at = x->line.data, *end = at + x->from, *nl;
    while (at < end && !x->ended && (nl = memchr(at, '\n', (size_t)(end - at)))) {
        take_line(x, at, (size_t)(nl - at), out);
        at = nl + 1;
    }
    x->line.len -= x->from;
    memmove(x->line.data, end, x->line.len);
    x->from = 0;
}

/* Kernels tell first whose a line is: {"id":"…" */
static bool known(const run *x, bool ours)
{
    static const char head[] = "{\"id\":";
    const char *s = x->line.data + x->from;
    size_t n = x->line.len - x->from, k = sizeof head - 1, len = strlen(x->id);
    if (n < k + len + 3 || memcmp(s, head, k))
        return false;
    k += s[k] == ' ';
    return (s[k] == '"' && !memcmp(s + k + 1, x->id, len) && s[k + 1 + len] == '"') == ours;
}

/* Lines of others are not kept while they come, nor is one without bound. */
static void sift(run *x, size_t n)
{
    for (const char *s = x->fresh, *end = s + n, *stop; s < end; s = stop) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        stop = nl ? nl + 1 : end;
        if (!x->skips)
            cay__buf_add(&x->line, s, (size_t)(stop - s));
        bool big = x->line.len - x->from > LINE_MAX_BYTES, ours = big && known(x, true);
        if (big || known(x, false)) {
            x->line.len = x->from;
            x->skips = true;
        }
        if (ours)
            cay__buf_fmt(&x->line, "{\"id\":\"%s\",\"type\":\"error\",\"name\":\"ResultTooBig\",\"value\":\"a result of more than %zu MB is not told: write it to a file and read that\",\"traceback\":\"\"}\n", x->id, LINE_MAX_BYTES >> 20);
        if (nl || ours)
            x->from = x->line.len;
        if (nl)
            x->skips = false;
    }
}

static int pull(cay__pump *pump, unsigned ready, cay__buf *out)
{
    run *x = pump->self;
    ssize_t n = -1;
    if (ready & 1 && (n = read(pump->fd[0], x->fresh, sizeof x->fresh)) > 0) {
        sift(x, (size_t)n);
        if (x->from > QUICK_BYTES)
            return CAY__PUMP_WORK;
        if (x->from)
            take_lines(x, out);
    }
    x->died = n == 0 && !x->ended;
    if (x->died)
        return CAY__PUMP_WORK;
    if (x->ended)
        return CAY__PUMP_END;
    if (cay__now_ms() - x->quiet_since >= BEAT_MS) {
        cay__buf_str(out, "{\"type\":\"keepalive\"}\n");
        x->quiet_since = cay__now_ms();
    }
    return CAY__PUMP_ON;
}

/* A kernel that died is told as an error, which SDKs know: a kind that they do not know they take for success. It is told once it is gone, so that whoever asks next gets a new one. */
static int tell_death(cay__pump *pump, cay__buf *out)
{
    run *x = pump->self;
    const cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 10000 };
    cay_exit e = { .size = sizeof e };
    char how[40] = "";
    if (cay_proc_wait(x->p, &soon, &e, NULL) == 0)
        snprintf(how, sizeof how, e.signal ? " by signal %d" : " with code %d", e.signal ? e.signal : e.code);
    cay__buf_fmt(out, "{\"type\":\"error\",\"name\":\"UnexpectedEndOfExecution\",\"value\":\"the kernel ended%s before the execution did\",\"traceback\":\"\"}\n", how);
    x->ended = true;
    return CAY__PUMP_END;
}

static int work(cay__pump *pump, cay__buf *out)
{
    run *x = pump->self;
    if (x->died)
        return tell_death(pump, out);
    take_lines(x, out);
    return x->ended ? CAY__PUMP_END : CAY__PUMP_ON;
}

/* Whoever goes before the end stops what was asked for. */
static void done(cay__pump *pump)
{
    run *x = pump->self;
    if (!x->ended) {
        char text[64];
        const cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 200 };
        int n = snprintf(text, sizeof text, "{\"interrupt\":\"%s\"}\n", x->id);
        e2b_kernel_write(x->p, &soon, text, (size_t)n, NULL);
    }
    close(pump->fd[0]);
    cay__buf_clear(&x->line);
    cay_proc_unref(x->p);
    free(x);
}

static int ask(cay__req *r, const json_t *in, cay_proc *p, cay_err *err)
{
    const json_t *env = json_object_get(in, "env_vars");
    CAY_AUTOJSON *o = json_pack("{s:s,s:s,s:O}", "id", r->id, "code", cay__json_str(in, "code", ""), "env", json_is_object(env) ? env : json_null());
    CAY_AUTOFREE char *text = cay__json_text(o, (size_t)9 << 20);
    CAY_AUTOBUF line = CAY__BUF((size_t)9 << 20);
    if (!text || (cay__buf_str(&line, text), cay__buf_str(&line, "\n"), line.full))
        return cay_fail(err, CAY_ETOOBIG, "the code is too long");
    return e2b_kernel_write(p, &r->call, line.data, line.len, err);
}

/* The context with the question put to it, and what it says from now on. */
static int ask_context(cay__req *r, const e2b_daemon *d, const char *id, const char *language, const json_t *in, cay_proc **p, int *fd, cay_err *err)
{
    const cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 2000 };
    cay_exit e = { .size = sizeof e };
    CAY_TRY(open_context(r, d, id, language, p, err));
    int rc = cay_proc_output(*p, &r->call, CAY_STDOUT, CAY_FROM_NOW, fd, err);
    if (rc == 0 && (rc = ask(r, in, *p, err)) < 0)
        close(*fd);
    if (rc == CAY_ESTATE)
        cay_proc_wait(*p, &soon, &e, NULL);
    if (rc < 0)
        cay_proc_unref(*p);
    return rc;
}

static int on_execute(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    json_t *in;
    cay_proc *p;
    CAY_TRY(e2b_daemon_open(r, E2B_TRAFFIC, &d, err));
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const char *id = cay__json_str(in, "context_id", NULL), *language = cay__json_str(in, "language", NULL);
    if (!cay__json_str(in, "code", NULL))
        return cay_fail(err, CAY_EINVAL, "code is missing");
    if (id && language)
        return cay_fail(err, CAY_EINVAL, "Only one of context_id or language can be provided");
    int fd, rc = ask_context(r, &d, id, language, in, &p, &fd, err);
    if (rc == CAY_ESTATE) /* it is about to end: the next one is another */
        rc = ask_context(r, &d, id, language, in, &p, &fd, err);
    if (rc < 0)
        return rc;
    run *x = cay__alloc(sizeof *x);
    *x = (run){ .p = p, .line = CAY__BUF(LINE_MAX_BYTES + (size_t)2 * FRESH_BYTES + 1024), .quiet_since = cay__now_ms() };
    cay__str_copy(x->id, sizeof x->id, r->id);
    const cay__pump pump = { .fd = { fd, -1, -1 }, .beat_ms = 1000, .self = x, .pull = pull, .work = work, .close = done };
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return cay__reply_pump(r, 200, "application/x-ndjson", &pump);
}

static int on_health(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    CAY_TRY(e2b_daemon_open(r, E2B_NO_TOKEN, &d, err));
    return cay__reply(r, 200, "application/json", "\"OK\"", 4);
}

static const cay__route routes[] = {
    { "GET", "/health", on_health, CAY__ROUTE_OPEN },
    { "POST", "/execute", on_execute, CAY__ROUTE_OPEN },
    { "GET", "/contexts", on_contexts, CAY__ROUTE_OPEN },
    { "POST", "/contexts", on_context_create, CAY__ROUTE_OPEN },
    { "POST", "/contexts/{id}/restart", on_context_restart, CAY__ROUTE_OPEN },
    { "DELETE", "/contexts/{id}", on_context_delete, CAY__ROUTE_OPEN },
};

/* SDKs show what an error's body says as it is. */
static int fail(cay__req *r, const cay_err *err)
{
    int status = err->code == CAY_EINVAL ? 400 : err->code == CAY_EAUTH ? 401 : err->code == CAY_ENOENT ? 404 : err->code == CAY_ENOTSUP ? 501
               : err->code == CAY_EUPSTREAM || e2b_dead(err) ? 502 : 500;
    return cay__reply(r, status, "text/plain; charset=utf-8", err->msg, strlen(err->msg));
}

static bool first(cay__req *r)
{
    return e2b_port(&r->head) == E2B_CODE_PORT;
}

const cay__dialect cay__dialect_e2b_code = { .name = "e2b-code", .routes = routes, .nroutes = CAY_LEN(routes), .fail = fail, .first = first, .any_origin = true };
