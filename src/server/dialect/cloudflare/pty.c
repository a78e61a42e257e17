/* SPDX-License-Identifier: Apache-2.0 */
/* GET …/pty: a terminal over a WebSocket. It lives on without its client; who comes back to the
 * same session sees what was printed. */
#include "cloudflare.h"

#define CHUNK     16384
#define INPUT_MAX ((size_t)1 << 20)

typedef struct terminal {
    cay_proc *p; /* NULL: it could not be started, for this reason */
    char why[256];
    cay__buf in;         /* keys that wait for a worker */
    uint16_t cols, rows; /* a size that waits, likewise */
    bool ready, ended;
} terminal;

static void send_json(cay__buf *out, json_t *j)
{
    CAY_AUTOFREE char *text = cay__json_text(j, 4096);
    if (text)
        cay__ws_send(out, CAY__WS_TEXT, text, strlen(text));
    json_decref(j);
}

static void send_error(cay__buf *out, const char *message)
{
    send_json(out, json_pack("{s:s,s:s}", "type", "error", "message", message));
}

static int say_error(cay__buf *out, const char *message)
{
    send_error(out, message);
    cay__ws_close(out, 1011, "");
    return CAY__PUMP_END;
}

static int pull_output(cay__pump *p, unsigned ready, cay__buf *out)
{
    terminal *t = p->self;
    char buf[CHUNK];
    if (!t->p)
        return say_error(out, t->why);
    if (!t->ready)
        send_json(out, json_pack("{s:s}", "type", "ready"));
    t->ready = true;
    if (ready & 1) {
        ssize_t n = read(p->fd[0], buf, sizeof buf);
        if (n > 0)
            cay__ws_send(out, CAY__WS_BINARY, buf, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            cay__close_fd(&p->fd[0]);
    }
    if (p->fd[0] < 0)
        t->ended = true;
    if (t->ended || t->in.len || t->cols)
        return CAY__PUMP_WORK;
    return CAY__PUMP_ON;
}

static int say_end(terminal *t, cay__buf *out)
{
    const cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 10000 };
    cay_exit e = { .size = sizeof e };
    cay_err err = CAY_ERR_INIT;
    if (cay_proc_wait(t->p, &soon, &e, &err) < 0)
        return say_error(out, err.msg);
    const char *name = cay__signal_name(e.signal);
    send_json(out, json_pack("{s:s,s:i,s:o*}", "type", "exit", "code", e.code, "signal",
                             CAY_IF(e.signal, json_sprintf("SIG%s", CAY_OR(name, "")))));
    cay__ws_close(out, 1000, "");
    return CAY__PUMP_END;
}

static int forward_input(cay__pump *p, cay__buf *out)
{
    terminal *t = p->self;
    const cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 5000 };
    if (t->ended)
        return say_end(t, out);
    if (t->cols)
        cay_proc_resize(t->p, &soon, t->cols, t->rows, NULL);
    t->cols = 0;
    if (t->in.len)
        cay_proc_write(t->p, &soon, t->in.data, t->in.len,
                       NULL); /* what ended says so by its output's end */
    cay__buf_clear(&t->in);
    return CAY__PUMP_ON;
}

static int push_input(cay__pump *p, int kind, const char *data, size_t len, cay__buf *out)
{
    terminal *t = p->self;
    if (!data)
        return CAY__PUMP_END; /* gone; the terminal stays */
    if (!t->p)
        return CAY__PUMP_ON;
    if (kind == CAY__WS_BINARY) {
        cay__buf_add(&t->in, data, len);
        if (t->in.full)
            return CAY_ETOOBIG;
        return CAY__PUMP_WORK;
    }
    CAY_AUTOJSON *o = json_loadb(data, len, 0, NULL);
    int64_t cols = cay__json_int(o, "cols", 0), rows = cay__json_int(o, "rows", 0);
    if (strcmp(cay__json_str(o, "type", ""), "resize") || cols < 1 || rows < 1 || cols > 10000 ||
        rows > 10000) {
        send_error(out, "want {\"type\":\"resize\",\"cols\":N,\"rows\":N}");
        return CAY__PUMP_ON;
    }
    t->cols = (uint16_t)cols;
    t->rows = (uint16_t)rows;
    return CAY__PUMP_WORK;
}

static void close_terminal(cay__pump *p)
{
    terminal *t = p->self;
    cay__close_fd(&p->fd[0]);
    cay__buf_clear(&t->in);
    cay_proc_unref(t->p);
    free(t);
}

CAY_DEFINE_AUTO(cay_proc, cay_proc_unref)

/* One that ended makes room for the next. */
static bool attach_terminal(cay__req *r, const char *tag, cay_proc **out)
{
    const cay_call now = { .size = sizeof now, .deadline_ms = 1 };
    cay_exit e = { .size = sizeof e };
    CAY_AUTOPTR(cay_proc) p = NULL;
    if (cay_sandbox_attach(r->sb, &r->call, tag, &p, NULL) == 0 &&
        cay_proc_wait(p, &now, &e, NULL) < 0)
        *out = CAY_STEAL(p);
    return *out;
}

static int open_terminal(cay__req *r, const char *session, const char *shell, uint16_t cols,
                         uint16_t rows, cay_proc **out, cay_err *err)
{
    char tag[64];
    const char *argv[] = { CAY_OR(shell, "/bin/bash"), NULL };
    const cay_pair env[] = { { "TERM", "xterm-256color" }, { NULL, NULL } };
    if (session && CAY_FORMAT(tag, "cf-pty-%s", session) > 0 && attach_terminal(r, tag, out))
        return 0;
    const cay_spawn s = { .size = sizeof s,
                          .argv = argv,
                          .env = env,
                          .tty = true,
                          .stdin_mode = CAY_STDIN_PIPE,
                          .cols = cols,
                          .rows = rows,
                          .tag = session ? tag : NULL };
    return cay_sandbox_spawn(r->sb, &r->call, &s, out, err);
}

int cf_pty(cay__req *r, cay_err *err)
{
    uint64_t cols, rows;
    char name[CF_SESSION_NAME];
    const char *session = cay__req_query(r, "session"), *shell = cay__req_query(r, "shell");
    CAY_TRY(cay__req_number(r, "cols", 80, 10000, &cols, err));
    CAY_TRY(cay__req_number(r, "rows", 24, 10000, &rows, err));
    if (session && *session)
        CAY_TRY(cf_session_name(session, name, err));
    if (!r->head.upgrade || strcasecmp(r->head.upgrade, "websocket"))
        return cay_fail(err, CAY_EINVAL, "this is a WebSocket: ask for an upgrade");
    terminal *t = cay__alloc(sizeof *t);
    *t = (terminal){ .in = CAY__BUF(INPUT_MAX) };
    cay__pump pump = { .fd = { -1, -1, -1 },
                       .self = t,
                       .beat_ms = 30000,
                       .pull = pull_output,
                       .work = forward_input,
                       .push = push_input,
                       .close = close_terminal };
    int rc = open_terminal(r, session && *session ? name : NULL, cay__text_or(shell, NULL),
                           (uint16_t)cols, (uint16_t)rows, &t->p, err);
    if (rc == CAY_ENOENT || rc == CAY_EPERM) { /* a shell that is not there, or none: told by the
                                                  terminal, as the bridge does */
        t->p = NULL;
        CAY_COPY(t->why, err->msg);
        pump.beat_ms = 1;
        rc = 0;
    } else if (rc == 0) {
        rc = cay_proc_output(t->p, &r->call, CAY_STDOUT, CAY_FROM_START, &pump.fd[0], err);
    }
    if (rc == 0 && t->p)
        cay__fd_nonblock(pump.fd[0], true);
    if (rc == 0)
        rc = cay__reply_ws(r, NULL, &pump, err);
    if (rc < 0)
        close_terminal(&pump);
    return rc;
}
