/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: shells that stay, and a command in one, whose output is told as it comes. */
#include "cloudflare.h"
#include <openssl/evp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

enum { ID_MAX = 128, RUNS_MAX = 256, RUNS_TENANT = 32, BEAT_MS = 15000 };

/* What does not fit a shell's name goes by its hash. */
int cf_session_name(const char *id, char name[CF_SESSION_NAME], cay_err *err)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    size_t n = strlen(id);
    if (n < 1 || n > ID_MAX ||
        strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != n ||
        strstr(id, ".."))
        return cay_fail(err, CAY_EINVAL,
                        "a session's id is 1 to %d letters, digits, '.', '_' or '-', without '..'",
                        ID_MAX);
    if (n < CF_SESSION_NAME) {
        memcpy(name, id, n + 1);
        return 0;
    }
    EVP_Digest(id, n, md, NULL, EVP_sha256(), NULL);
    cay__hex_put(name, md, (CF_SESSION_NAME - 1) / 2);
    return 0;
}

int cf_session(cay__req *r, cay_err *err)
{
    cay_shell *sh;
    json_t *in;
    char name[CF_SESSION_NAME];
    const cay_pair *env;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const char *id = cay__json_str(in, "id", r->id), *cwd = cay__json_str(in, "cwd", NULL);
    CAY_TRY(cf_session_name(id, name, err));
    CAY_TRY(cay__req_pairs(r, "env", NULL, json_object_get(in, "env"), &env, err));
    const cay_shell_spec spec = { .size = sizeof spec, .name = name, .cwd = cwd, .env = env };
    CAY_TRY(cf_as(cay_shell_open(r->sb, &r->call, &spec, &sh, err), CAY_REASON_SESSION_ERROR, err));
    cay_shell_unref(sh);
    return cay__reply_pack(r, 200, "{s:s}", "id", id);
}

int cf_session_end(cay__req *r, cay_err *err)
{
    cay_shell *sh;
    char name[CF_SESSION_NAME];
    const cay_shell_spec spec = { .size = sizeof spec, .name = name, .attach = true };
    CAY_TRY(cf_session_name(r->param[1], name, err));
    int rc = cay_shell_open(r->sb, &r->call, &spec, &sh, err);
    bool was = rc == 0;
    if (was) {
        rc = cay_shell_end(sh, &r->call, err);
        cay_shell_unref(sh);
    }
    if (rc < 0 && rc != CAY_ENOENT)
        return cf_as(rc, CAY_REASON_SESSION_ERROR, err);
    return cay__reply_pack(r, 200, "{s:b,s:s,s:I}", "success", was, "sessionId", r->param[1],
                           "timestamp", (json_int_t)(cay__clock_ms() / 1000 * 1000));
}

/*
 * A thread runs it, because a shell's command is waited for; its events go through a pipe to the
 * loop, which holds the thread back when the client does not read. Whoever of the two is last frees
 * the rest.
 */
typedef struct run {
    struct run *next; /* of all */
    char tenant[64];
    atomic_int refs;
    cay_shell *sh;
    cay__buf line;
    uint64_t timeout_ms;
    int64_t ends;  /* the thread's: when its time is over for sure; 0 before its first output */
    cay__buf rest; /* of an event that the client did not take in that time */
    int out, stop; /* the pipe's end for writing, the thread's; readable: nobody listens any more */
    cf_stream s[2];
    bool mid; /* the loop's: not all of an event has been told */
} run;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static run *runs; /* all there are */

static int register_run(run *w, const char *tenant, cay_err *err)
{
    int all = 0, own = 0;
    bool fits = CAY_COPY(w->tenant, tenant);
    pthread_mutex_lock(&lock);
    CAY_EACH_LINK(o, runs) {
        all++;
        own += !strcmp(o->tenant, w->tenant);
    }
    bool room = fits && all < RUNS_MAX && own < RUNS_TENANT;
    if (room) {
        w->next = runs;
        runs = w;
    }
    pthread_mutex_unlock(&lock);
    if (room)
        return 0;
    return cay_fail(err, CAY_EBUSY,
                    "%d commands of this tenant and %d of all run in sessions; at most %d "
                    "and %d do at once",
                    own, all, RUNS_TENANT, RUNS_MAX);
}

static void release_run(run *w)
{
    if (atomic_fetch_sub(&w->refs, 1) > 1)
        return;
    pthread_mutex_lock(&lock);
    CAY_UNLINK(runs, w);
    pthread_mutex_unlock(&lock);
    cay__close_fd(&w->out);
    cay__close_fd(&w->stop);
    cay_shell_unref(w->sh);
    cay__buf_clear(&w->line);
    cay__buf_clear(&w->rest);
    free(w);
}

/* Holds the command back while the client does not read, but not beyond its time: what is printed
 * from then on is not told. */
static bool write_output(run *w, const char *data, size_t len)
{
    int64_t now = cay__now_ms();
    if (!w->ends && w->timeout_ms)
        w->ends = now + (int64_t)CAY_MIN(w->timeout_ms, (uint64_t)INT32_MAX);
    while (len && !w->rest.len) {
        ssize_t n = write(w->out, data, len);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        data += CAY_MAX(n, 0);
        len -= (size_t)CAY_MAX(n, 0);
        now = cay__now_ms();
        if (n < 0 && w->ends && now >= w->ends) {
            cay__buf_add(&w->rest, data, len); /* so that what follows is an event of its own */
            return true;
        }
        if (n < 0)
            poll(&(struct pollfd){ .fd = w->out, .events = POLLOUT }, 1,
                 w->ends ? (int)(w->ends - now) : -1);
    }
    return true;
}

static int on_output(cay_stream which, const void *data, size_t len, void *arg)
{
    run *w = arg;
    CAY_AUTOBUF b = CAY__BUF((size_t)1 << 20);
    cf_tell(&b, &w->s[which == CAY_STDERR], data, len);
    if (write_output(w, b.data, b.len))
        return 0;
    return CAY_ECANCELED;
}

static void *run_thread(void *arg)
{
    run *w = arg;
    cay_err err = CAY_ERR_INIT;
    cay_result res = { .size = sizeof res };
    const cay_call call = { .size = sizeof call, .cancel_fd = w->stop };
    const cay_shell_cmd cmd = { .size = sizeof cmd,
                                .line = w->line.data,
                                .timeout_ms = w->timeout_ms,
                                .output = on_output,
                                .arg = w };
    CAY_AUTOBUF b = CAY__BUF(65536);
    int rc = cay_shell_run(w->sh, &call, &cmd, &res, &err);
    CAY_EACH(stream, w->s)
        cf_tell(&b, stream, "", 0);
    if (rc < 0)
        cf_tell_error(&b, "exec_transport_error", err.msg);
    else
        cf_tell_exit(&b, &res.exit);
    cay_result_clear(&res);
    fcntl(w->out, F_SETFL, 0); /* the command is over: nothing is held back any more but this */
    if (!w->rest.len || cay__fd_write_all(w->out, w->rest.data, w->rest.len))
        cay__fd_write_all(w->out, b.data, b.len);
    cay__close_fd(&w->out);
    release_run(w);
    return NULL;
}

static int start_thread(run *w, cay_err *err)
{
    pthread_t t;
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    atomic_fetch_add(&w->refs, 1);
    errno = pthread_create(&t, &attr, run_thread, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (!errno)
        return 0;
    atomic_fetch_sub(&w->refs, 1);
    return cay_fail_sys_as(err, CAY_EBUSY, "a thread for the command");
}

static int pull_output(cay__pump *p, unsigned ready, cay__buf *out)
{
    run *w = p->self;
    char buf[32768];
    if (!(ready & 1)) {
        if (!w->mid)
            cay__buf_str(out, ": keep-alive\n\n");
        return CAY__PUMP_ON;
    }
    ssize_t n = read(p->fd[0], buf, sizeof buf);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return CAY__PUMP_ON;
    if (n < 0)
        return CAY_ESYS;
    cay__buf_add(out, buf, (size_t)n);
    w->mid = n && !(out->len >= 2 && !memcmp(out->data + out->len - 2, "\n\n", 2));
    if (n)
        return CAY__PUMP_ON;
    return CAY__PUMP_END;
}

static void close_run(cay__pump *p)
{
    run *w = p->self;
    cay__close_fd(&p->fd[0]);
    eventfd_write(w->stop, 1);
    release_run(w);
}

static void quote_argument(cay__buf *b, const char *s)
{
    cay__buf_str(b, "'");
    for (; *s; s++)
        if (*s == '\'')
            cay__buf_str(b, "'\\''");
        else
            cay__buf_add(b, s, 1);
    cay__buf_str(b, "' ");
}

static int write_line(cay__buf *line, const cay_spawn *s, cay_err *err)
{
    if (s->cwd) {
        cay__buf_str(line, "cd ");
        quote_argument(line, s->cwd);
        cay__buf_str(line, "&& ");
    }
    for (const char *const *a = s->argv; *a; a++)
        quote_argument(line, *a);
    if (line->full)
        return cay_fail(err, CAY_ETOOBIG, "a command in a session has at most %d bytes",
                        CAY_SHELL_LINE_MAX);
    return 0;
}

CAY_DEFINE_AUTO(run, release_run)

int cf_session_exec(cay__req *r, const char *session, const cay_spawn *s, cay_err *err)
{
    char name[CF_SESSION_NAME];
    int fd[2];
    const cay_shell_spec spec = { .size = sizeof spec, .name = name };
    CAY_TRY(cf_session_name(session, name, err));
    CAY_AUTOPTR(run) w = cay__alloc(sizeof *w);
    CAY_AUTOFD in = -1;
    *w = (run){ .refs = 1,
                .line = CAY__BUF(CAY_SHELL_LINE_MAX),
                .rest = CAY__BUF((size_t)1 << 20),
                .timeout_ms = s->timeout_ms,
                .s = CF_STREAMS,
                .out = -1,
                .stop = eventfd(0, EFD_CLOEXEC) };
    CAY_TRY(register_run(w, r->who.tenant, err));
    CAY_TRY(write_line(&w->line, s, err));
    CAY_TRY(cay_shell_open(r->sb, &r->call, &spec, &w->sh, err));
    if (w->stop < 0 || pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return cay_fail_sys_as(err, CAY_EBUSY, "descriptors for the command");
    in = fd[0];
    w->out = fd[1];
    CAY_TRY(start_thread(w, err));
    const cay__pump pump = { .fd = { CAY_STEAL_FD(in), -1, -1 },
                             .beat_ms = BEAT_MS,
                             .self = CAY_STEAL(w),
                             .pull = pull_output,
                             .close = close_run };
    cay__reply_field(r, "Cache-Control", "no-cache");
    return cay__reply_pump(r, 200, "text/event-stream", &pump);
}
