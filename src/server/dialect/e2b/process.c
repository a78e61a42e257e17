/* SPDX-License-Identifier: Apache-2.0 */
/* process.Process: commands and terminals, whose lives do not hang on the connection that watches
 * them. */
#include "e2b.h"
#include <base/base64.h>
#include <signal.h>

#define CHUNK 32768

typedef struct watcher {
    cay_sandbox *sb;
    cay_proc *p;
    bool tty, started;
    int64_t quiet_since;
    uint64_t keepalive_ms;
} watcher;

static void write_event(cay__buf *out, const char *name, json_t *what)
{
    e2b_envelope_json(out, json_pack("{s:{s:o}}", "event", name, what));
}

static void data_event(cay__buf *out, const char *stream, const char *bytes, size_t n)
{
    CAY_AUTOBUF text = CAY__BUF(2 * CHUNK);
    cay__base64_put(&text, bytes, n);
    write_event(out, "data", json_pack("{s:s}", stream, text.data));
}

static void read_output(watcher *w, int *fd, const char *stream, cay__buf *out)
{
    char buf[CHUNK];
    ssize_t n = read(*fd, buf, sizeof buf);
    if (n > 0) {
        data_event(out, stream, buf, (size_t)n);
        w->quiet_since = cay__now_ms();
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        cay__close_fd(fd);
    }
}

static int pull_output(cay__pump *pump, unsigned ready, cay__buf *out)
{
    watcher *w = pump->self;
    if (!w->started) {
        write_event(out, "start", json_pack("{s:i}", "pid", cay_proc_pid(w->p)));
        w->started = true;
    }
    if (ready & 1)
        read_output(w, &pump->fd[0], w->tty ? "pty" : "stdout", out);
    if (ready & 2)
        read_output(w, &pump->fd[1], "stderr", out);
    /* Its streams end with it, or before; a worker asks how it ended. */
    if (ready & 4)
        return CAY__PUMP_WORK;
    if (pump->fd[0] < 0 && pump->fd[1] < 0 && pump->fd[2] < 0 &&
        (pump->fd[2] = cay_proc_exit_fd(w->p, NULL)) < 0)
        return CAY__PUMP_WORK;
    if ((uint64_t)(cay__now_ms() - w->quiet_since) >= w->keepalive_ms) {
        write_event(out, "keepalive", json_object());
        w->quiet_since = cay__now_ms();
    }
    return CAY__PUMP_ON;
}

static const char *signal_word(int sig)
{
    if (sig == SIGKILL)
        return "killed";
    if (sig == SIGTERM)
        return "terminated";
    return strsignal(sig);
}

static void end_event(const cay_exit *e, cay__buf *out)
{
    char status[64];
    bool exited = !e->signal;
    if (exited)
        CAY_FORMAT(status, "exit status %d", e->code);
    else
        CAY_FORMAT(status, "signal: %.40s", signal_word(e->signal));
    write_event(out, "end",
                json_pack("{s:i,s:b,s:s,s:s*}", "exitCode", exited ? e->code : -1, "exited", exited,
                          "status", status, "error", CAY_IF(!exited || e->code, status)));
}

static int end_stream(cay__buf *out, int code, const char *why)
{
    cay_err err = CAY_ERR_INIT;
    cay_fail(&err, code, "%s", why);
    e2b_envelope_end(out, &err);
    return CAY__PUMP_END;
}

static int report_exit(cay__pump *pump, cay__buf *out)
{
    watcher *w = pump->self;
    cay_exit e = { .size = sizeof e };
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + 10000 };
    /* The SDKs know by a connection that is cut that the sandbox is gone. */
    if (cay_proc_wait(w->p, &call, &e, NULL) < 0 || !strcmp(e.reason, "lost") ||
        !e2b_alive(w->sb, &call))
        return CAY_EGONE;
    if (!strcmp(e.reason, "time"))
        return end_stream(out, CAY_ETIMEOUT, "context deadline exceeded");
    end_event(&e, out);
    e2b_envelope_end(out, NULL);
    return CAY__PUMP_END;
}

int e2b_stream_last(cay__pump *p, cay__buf *out)
{
    return end_stream(out, CAY_EBUSY, "the server restarts: connect again");
}

static void close_watcher(cay__pump *pump)
{
    watcher *w = pump->self;
    CAY_EACH_OF(it, pump->fd, 2)
        cay__close_fd(it);
    cay_proc_unref(w->p);
    cay_sandbox_unref(w->sb);
    free(w);
}

/* Takes p. */
static int stream_output(cay__req *r, const e2b_rpc *q, cay_proc *p, bool tty, uint64_t from,
                         cay_err *err)
{
    watcher *w = cay__alloc(sizeof *w);
    cay__pump pump = { .fd = { -1, -1, -1 },
                       .beat_ms = 1000,
                       .self = w,
                       .pull = pull_output,
                       .work = report_exit,
                       .last = e2b_stream_last,
                       .close = close_watcher };
    *w = (watcher){ .sb = cay_sandbox_ref(q->d.sb),
                    .p = p,
                    .tty = tty,
                    .quiet_since = cay__now_ms(),
                    .keepalive_ms = q->keepalive_ms };
    int rc = cay_proc_output(p, &r->call, CAY_STDOUT, from, &pump.fd[0], err);
    if (rc == 0 && !tty)
        rc = cay_proc_output(p, &r->call, CAY_STDERR, from, &pump.fd[1], err);
    if (rc < 0) {
        close_watcher(&pump);
        return rc;
    }
    CAY_EACH_OF(it, pump.fd, 2)
        if (*it >= 0)
            cay__fd_nonblock(*it, true);
    json_object_clear(q->in); /* not for as long as the stream */
    return cay__reply_pump(r, 200, "application/connect+json", &pump);
}

static int check_cwd(cay__req *r, const e2b_rpc *q, const char *cwd, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    int rc = cay_file_stat(q->d.sb, &r->call, cwd, true, &st, err);
    if (rc == CAY_ENOENT || (rc == 0 && st.type != CAY_DIR))
        return cay_fail(err, CAY_EINVAL, "cwd '%.150s' does not exist", cwd);
    return rc;
}

int e2b_process_start(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    cay_proc *p;
    CAY_TRY(e2b_rpc_open(r, &q, err));
    const json_t *process = json_object_get(q.in, "process"), *pty = json_object_get(q.in, "pty"),
                 *size = json_object_get(pty, "size");
    const char *cmd = cay__json_str(process, "cmd", ""), *cwd = cay__json_str(process, "cwd", ""),
               *tag = cay__json_str(q.in, "tag", "");
    cay_spawn s = { .size = sizeof s,
                    .tty = json_is_object(pty),
                    .timeout_ms = q.timeout_ms,
                    .user = q.d.user,
                    .tag = cay__text_or(tag, NULL),
                    .attach = true,
                    .on_full = CAY_FULL_BLOCK };
    if (!*cmd)
        return cay_fail(err, CAY_EINVAL, "process.cmd is missing");
    CAY_TRY(cay__req_texts(r, "process.args", cmd, json_object_get(process, "args"), &s.argv, err));
    CAY_TRY(
        cay__req_pairs(r, "process.envs", q.d.env, json_object_get(process, "envs"), &s.env, err));
    if (*cwd || !q.d.workdir)
        s.cwd = e2b_path(r, &q.d, cay__text_or(cwd, "~"));
    else
        s.cwd = q.d.workdir;
    if (s.tty || cay__json_bool(q.in, "stdin", true))
        s.stdin_mode = CAY_STDIN_PIPE;
    else
        s.stdin_mode = CAY_STDIN_NULL;
    s.cols = (uint16_t)cay__json_int(size, "cols", 80);
    s.rows = (uint16_t)cay__json_int(size, "rows", 24);
    int rc = cay_sandbox_spawn(q.d.sb, &r->call, &s, &p, err);
    if (rc == CAY_ENOENT && !e2b_nobody(err)) {
        CAY_TRY(check_cwd(r, &q, s.cwd, err));
        return cay_fail(err, CAY_EINVAL, "%.100s: not found", s.argv[0]);
    }
    CAY_TRY(rc);
    return stream_output(r, &q, p, s.tty, CAY_FROM_START, err);
}

/* {"pid": N} or {"tag": T}. */
int e2b_process_find(cay_sandbox *sb, const cay_call *call, const json_t *sel, cay_proc **out,
                     cay_err *err)
{
    const char *tag = cay__json_str(sel, "tag", NULL);
    int64_t pid = cay__json_int(sel, "pid", 0);
    char ref[24];
    CAY_FORMAT(ref, "%lld", (long long)pid);
    if (!tag && pid <= 0)
        return cay_fail(err, CAY_EINVAL, "process is selected by pid or tag");
    int rc = cay_sandbox_attach(sb, call, CAY_OR(tag, ref), out, err);
    if (rc == CAY_ENOENT)
        return cay_fail(err, rc, "process with %s %.60s not found", tag ? "tag" : "pid",
                        CAY_OR(tag, ref));
    return rc;
}

typedef struct seek {
    const char *id;
    bool tty, ended;
} seek;

static int on_list_process(const cay_proc_info *i, void *arg)
{
    seek *s = arg;
    if (strcmp(i->id, s->id))
        return 0;
    s->tty = i->tty;
    s->ended = i->state == 'X';
    return 1;
}

static seek find_process(cay_sandbox *sb, const cay_call *call, cay_proc *p)
{
    seek s = { .id = cay_proc_id(p) };
    cay_sandbox_procs(sb, call, on_list_process, &s, NULL);
    return s;
}

/* A process that has ended is none any more; without that, SDKs would take its sandbox for dead. */
static int map_ended_error(cay_sandbox *sb, const cay_call *call, cay_proc *p, int rc, cay_err *err)
{
    if ((rc == CAY_ESTATE || rc == CAY_EGONE) && find_process(sb, call, p).ended)
        return cay_fail(err, CAY_ENOENT, "process with pid %d not found: it has ended",
                        cay_proc_pid(p));
    return rc;
}

static int open_process(cay__req *r, e2b_rpc *q, cay_proc **out, cay_err *err)
{
    CAY_TRY(e2b_rpc_open(r, q, err));
    return e2b_process_find(q->d.sb, &r->call, json_object_get(q->in, "process"), out, err);
}

int e2b_process_connect(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    cay_proc *p;
    CAY_TRY(open_process(r, &q, &p, err));
    return stream_output(r, &q, p, find_process(q.d.sb, &r->call, p).tty, CAY_FROM_NOW, err);
}

/* A command is told as one text: what SDKs start is a login shell with one argument, and others are
 * cut at their blanks. */
static json_t *config_of(const char *command)
{
    static const char shell[] = "/bin/bash -l -c ";
    if (cay__str_starts(command, shell))
        return json_pack("{s:s,s:[s,s,o]}", "cmd", "/bin/bash", "args", "-l", "-c",
                         cay__json_bytes(command + sizeof shell - 1));
    json_t *args = json_array();
    CAY_AUTOFREE char *copy = cay__strdup(command);
    char *save = NULL, *word = strtok_r(copy, " ", &save);
    json_t *cmd = cay__json_bytes(CAY_OR(word, ""));
    while (word && (word = strtok_r(NULL, " ", &save)))
        json_array_append_new(args, cay__json_bytes(word));
    return json_pack("{s:o,s:o}", "cmd", cmd, "args", args);
}

static int add_process(const cay_proc_info *i, void *arg)
{
    if (!*i->id || i->state == 'X')
        return 0;
    json_array_append_new(arg, json_pack("{s:o,s:i,s:o*}", "config", config_of(i->command), "pid",
                                         i->pid, "tag", CAY_IF(*i->tag, json_string(i->tag))));
    return 0;
}

int e2b_process_list(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_AUTOJSON *list = json_array();
    CAY_TRY(cay_sandbox_procs(q.d.sb, &r->call, add_process, list, err));
    return cay__reply_pack(r, 200, "{s:O}", "processes", list);
}

typedef int on_process(cay__req *r, const e2b_rpc *q, cay_proc *p, cay_err *err);

static int with_process(cay__req *r, on_process *fn, cay_err *err)
{
    e2b_rpc q;
    CAY_AUTOPTR(cay_proc) p = NULL;
    CAY_TRY(open_process(r, &q, &p, err));
    CAY_TRY(fn(r, &q, p, err));
    return cay__reply_pack(r, 200, "{}");
}

static int resize_terminal(cay__req *r, const e2b_rpc *q, cay_proc *p, cay_err *err)
{
    const json_t *size = json_object_get(json_object_get(q->in, "pty"), "size");
    if (!size)
        return 0;
    return map_ended_error(q->d.sb, &r->call, p,
                           cay_proc_resize(p, &r->call, (uint16_t)cay__json_int(size, "cols", 80),
                                           (uint16_t)cay__json_int(size, "rows", 24), err),
                           err);
}

int e2b_process_feed(cay_sandbox *sb, const cay_call *call, cay_proc *p, const json_t *input,
                     cay_err *err)
{
    const char *stdin_ = cay__json_str(input, "stdin", NULL),
               *pty = cay__json_str(input, "pty", NULL);
    const char *text = CAY_OR(stdin_, pty);
    CAY_AUTOBUF bytes = CAY__BUF((size_t)8 << 20);
    if (!text || !cay__base64_get(&bytes, text, strlen(text)))
        return cay_fail(err, CAY_EINVAL, "input has neither stdin nor pty in base64");
    if (stdin_ && find_process(sb, call, p).tty)
        return cay_fail(err, CAY_ESYS, "the process has a terminal: its input is pty, not stdin");
    int rc = map_ended_error(sb, call, p,
                             cay_proc_write(p, call, CAY_OR(bytes.data, ""), bytes.len, err), err);
    if (rc == CAY_ESTATE)
        return cay_fail(err, CAY_ESYS, "stdin is not open");
    return rc;
}

static int write_input(cay__req *r, const e2b_rpc *q, cay_proc *p, cay_err *err)
{
    return e2b_process_feed(q->d.sb, &r->call, p, json_object_get(q->in, "input"), err);
}

static int send_signal(cay__req *r, const e2b_rpc *q, cay_proc *p, cay_err *err)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = { { "SIGNAL_SIGTERM", SIGTERM }, { "SIGNAL_SIGKILL", SIGKILL } };
    const json_t *s = json_object_get(q->in, "signal");
    const char *name = CAY_OR(json_string_value(s), "");
    CAY_EACH(it, signals)
        if (!strcmp(name, it->name) || json_integer_value(s) == it->number)
            return cay_proc_signal(p, &r->call, it->number, CAY_SCOPE_ONE, err);
    return cay_fail(err, CAY_ENOTSUP, "signal is SIGNAL_SIGTERM or SIGNAL_SIGKILL");
}

static int close_stdin(cay__req *r, const e2b_rpc *q, cay_proc *p, cay_err *err)
{
    if (find_process(q->d.sb, &r->call, p).tty)
        return cay_fail(err, CAY_ESYS, "a terminal has no stdin to close: send 0x04");
    int rc = map_ended_error(q->d.sb, &r->call, p, cay_proc_close_stdin(p, &r->call, err), err);
    if (rc == CAY_ESTATE)
        return cay_fail(err, CAY_ESYS, "stdin is not open");
    return rc;
}

int e2b_process_update(cay__req *r, cay_err *err)
{
    return with_process(r, resize_terminal, err);
}

int e2b_process_input(cay__req *r, cay_err *err)
{
    return with_process(r, write_input, err);
}

int e2b_process_signal(cay__req *r, cay_err *err)
{
    return with_process(r, send_signal, err);
}

int e2b_process_close_stdin(cay__req *r, cay_err *err)
{
    return with_process(r, close_stdin, err);
}
