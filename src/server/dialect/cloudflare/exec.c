/* SPDX-License-Identifier: Apache-2.0 */
/* POST …/exec: a command, its output as events, and always an end. */
#include "cloudflare.h"
#include <base/base64.h>

#define CHUNK 32768
#define BEAT  15000

typedef struct watcher {
    cay_proc *p;
    cf_stream s[2];
    int64_t quiet_since;
} watcher;

static void tell_bytes(cay__buf *out, const char *name, const char *data, size_t n)
{
    CAY_AUTOBUF text = CAY__BUF((size_t)64 << 20);
    cay__base64_put(&text, data, n);
    if (n && !text.full)
        cay__sse_event(out, NULL, name, text.data, text.len);
}

static void tell_json(cay__buf *out, const char *name, json_t *j)
{
    CAY_AUTOFREE char *text = cay__json_text(j, 4096);
    const char *told = CAY_OR(text, "{}");
    cay__sse_event(out, NULL, name, told, strlen(told));
    json_decref(j);
}

void cf_tell_error(cay__buf *out, const char *code, const char *msg)
{
    tell_json(out, "error", json_pack("{s:s,s:s}", "error", msg, "code", code));
}

/* How many bytes at the end begin a character that is not whole. */
static size_t count_partial_bytes(const char *s, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = (unsigned char)s[n - k];
        if (c >= 0xc0)
            return k < 2u + (c >= 0xe0) + (c >= 0xf0) ? k : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

void cf_tell(cay__buf *out, cf_stream *s, const void *data, size_t len)
{
    char buf[CHUNK + sizeof s->carry];
    const char *from = data;
    bool over = !len;
    do {
        size_t some = CAY_MIN(len, (size_t)CHUNK), n = s->n + some;
        memcpy(buf, s->carry, s->n);
        if (some)
            memcpy(buf + s->n, from, some);
        size_t keep = 0;
        if (!over)
            keep = count_partial_bytes(buf, n);
        tell_bytes(out, s->name, buf, n - keep);
        memcpy(s->carry, buf + n - keep, keep);
        s->n = keep;
        from += some;
        len -= some;
    } while (len);
}

static void read_output(watcher *w, int i, int *fd, cay__buf *out)
{
    char buf[CHUNK];
    ssize_t got = read(*fd, buf, sizeof buf);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    cf_tell(out, &w->s[i], buf, (size_t)CAY_MAX(got, 0));
    w->quiet_since = cay__now_ms();
    if (got <= 0)
        cay__close_fd(fd);
}

static int pull_output(cay__pump *p, unsigned ready, cay__buf *out)
{
    watcher *w = p->self;
    for (int i = 0; i < 2; i++)
        if (ready & 1u << i && p->fd[i] >= 0)
            read_output(w, i, &p->fd[i], out);
    if (ready & 4)
        return CAY__PUMP_WORK;
    if (p->fd[0] < 0 && p->fd[1] < 0 && p->fd[2] < 0 &&
        (p->fd[2] = cay_proc_exit_fd(w->p, NULL)) < 0)
        return CAY__PUMP_WORK;
    if (cay__now_ms() - w->quiet_since >= BEAT) {
        cay__buf_str(out, ": keep-alive\n\n");
        w->quiet_since = cay__now_ms();
    }
    return CAY__PUMP_ON;
}

void cf_tell_exit(cay__buf *out, const cay_exit *e)
{
    if (!strcmp(e->reason, "time"))
        cf_tell_error(out, "exec_error", "the command took too long and was ended");
    else
        tell_json(out, "exit", json_pack("{s:i}", "exit_code", e->code));
}

static int report_exit(cay__pump *p, cay__buf *out)
{
    watcher *w = p->self;
    cay_err err = CAY_ERR_INIT;
    cay_exit e = { .size = sizeof e };
    const cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 10000 };
    if (cay_proc_wait(w->p, &soon, &e, &err) < 0)
        cf_tell_error(out, "exec_transport_error", err.msg);
    else
        cf_tell_exit(out, &e);
    return CAY__PUMP_END;
}

static void close_watcher(cay__pump *p)
{
    watcher *w = p->self;
    cay__close_fd(&p->fd[0]);
    cay__close_fd(&p->fd[1]);
    cay_proc_unref(w->p);
    free(w);
}

static int stream_output(cay__req *r, cay_proc *p, cay_err *err)
{
    watcher *w = cay__alloc(sizeof *w);
    cay__pump pump = { .fd = { -1, -1, -1 },
                       .beat_ms = 5000,
                       .self = w,
                       .pull = pull_output,
                       .work = report_exit,
                       .close = close_watcher };
    *w = (watcher){ .p = p, .s = CF_STREAMS, .quiet_since = cay__now_ms() };
    int rc = cay_proc_output(p, &r->call, CAY_STDOUT, CAY_FROM_START, &pump.fd[0], err);
    if (rc == 0)
        rc = cay_proc_output(p, &r->call, CAY_STDERR, CAY_FROM_START, &pump.fd[1], err);
    if (rc < 0) {
        close_watcher(&pump);
        return rc;
    }
    CAY_EACH_OF(it, pump.fd, 2)
        cay__fd_nonblock(*it, true);
    cay__reply_field(r, "Cache-Control", "no-cache");
    return cay__reply_pump(r, 200, "text/event-stream", &pump);
}

int cf_exec(cay__req *r, cay_err *err)
{
    cay_proc *p;
    json_t *in;
    const char *const *argv;
    const char *session = cay__head_field(&r->head, "session-id");
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const json_t *v = json_object_get(in, "timeout_ms"), *list = json_object_get(in, "argv");
    const char *cwd = cay__json_str(in, "cwd", NULL);
    int64_t timeout = cay__json_int(in, "timeout_ms", 0);
    if (!json_is_array(list) || !json_array_size(list))
        return cay_fail(err, CAY_EINVAL, "argv is a list of texts, not empty");
    CAY_TRY(cay__req_texts(r, "argv", NULL, list, &argv, err));
    if (json_is_real(v) && json_real_value(v) >= 0 && json_real_value(v) < 1e12)
        timeout = (int64_t)json_real_value(v);
    else if (timeout < 0 || (v && !json_is_null(v) && !json_is_integer(v)))
        return cay_fail(err, CAY_EINVAL, "timeout_ms is a number of milliseconds, at least 0");
    if (cwd)
        CAY_TRY(cf_path(r, *cwd == '/' ? cwd + 1 : cwd, &cwd, err));
    const cay_spawn s = { .size = sizeof s,
                          .argv = argv,
                          .cwd = cwd,
                          .timeout_ms = (uint64_t)timeout,
                          .attach = true,
                          .on_full = CAY_FULL_BLOCK };
    if (session)
        return cf_session_exec(r, session, &s, err);
    int rc = cay_sandbox_spawn(r->sb, &r->call, &s, &p, err);
    if (rc == CAY_ENOENT) { /* as a shell says it, not as an error of the route */
        CAY_AUTOBUF out = CAY__BUF(4096);
        tell_bytes(&out, "stderr", err->msg, strlen(err->msg));
        tell_json(&out, "exit", json_pack("{s:i}", "exit_code", 127));
        return cay__reply(r, 200, "text/event-stream", out.data, out.len);
    }
    CAY_TRY(rc);
    return stream_output(r, p, err);
}
