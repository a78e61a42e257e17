/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include <base/base.h>
#include <poll.h>
#include <signal.h>

#define LABEL "cay.session"
enum { CHUNK = 16384 };

void cay__cmd_drop(cay__cmd *s)
{
    if (!s->id)
        return;
    CAY_EACH_OF(it, s->fd, 2)
        cay__close_fd(it);
    if (s->p)
        cay_proc_unref(s->p);
    *s = (cay__cmd){ .fd = { -1, -1 } };
}

void cay__cmds_drop(cay__cmds *t)
{
    CAY_EACH(it, t->v)
        cay__cmd_drop(it);
}

static bool has_ended(cay__cmd *s)
{
    struct pollfd p = { .fd = s->exited ? -1 : cay_proc_exit_fd(s->p, NULL), .events = POLLIN };
    return s->exited || (p.fd >= 0 && poll(&p, 1, 0) > 0);
}

/* How many were used after this one. */
static size_t count_newer(const cay__cmds *t, const cay__cmd *s)
{
    size_t n = 0;
    CAY_EACH(it, t->v)
        n += it->id && it->used > s->used;
    return n;
}

/* When every place is taken: among all but the last used, the oldest that has ended, else the
 * oldest. */
static cay__cmd *claim_slot(cay__cmds *t)
{
    cay__cmd *oldest = NULL, *ended = NULL;
    CAY_EACH(s, t->v) {
        if (!s->id)
            return s;
        if (s->busy || count_newer(t, s) < CAY__SESSIONS_RECENT)
            continue;
        if (!oldest || s->used < oldest->used)
            oldest = s;
        if (has_ended(s) && (!ended || s->used < ended->used))
            ended = s;
    }
    cay__cmd *go = CAY_OR(ended, oldest);
    if (!has_ended(go))
        cay_proc_signal(go->p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
    cay__cmd_drop(go);
    return go;
}

static int new_id(const cay__cmds *t)
{
    for (;;) {
        uint32_t v;
        bool taken = false;
        cay__random(&v, sizeof v);
        int id = 1000 + (int)(v % 99000);
        CAY_EACH(it, t->v)
            taken = taken || it->id == id;
        if (!taken)
            return id;
    }
}

static int open_streams(cay__cmd *s, const cay_call *call, cay_err *err)
{
    s->breaks = cay_proc_breaks(s->p);
    for (int i = 0; i < (s->tty ? 1 : 2); i++) {
        CAY_TRY(cay_proc_output(s->p, call, i ? CAY_STDERR : CAY_STDOUT, s->at[i], &s->fd[i], err));
        cay__fd_nonblock(s->fd[i], true);
    }
    return 0;
}

/* A place with an id; 0: a new one. */
static cay__cmd *reserve_session(cay__cmds *t, int id, bool tty)
{
    pthread_mutex_lock(&t->lock);
    cay__cmd *s = claim_slot(t);
    *s = (cay__cmd){
        .id = CAY_OR(id, new_id(t)), .fd = { -1, -1 }, .tty = tty, .busy = true, .used = ++t->clock
    };
    pthread_mutex_unlock(&t->lock);
    return s;
}

void cay__cmd_leave(cay__cmds *t, cay__cmd *s)
{
    pthread_mutex_lock(&t->lock);
    s->busy = false;
    if (s->exited || !s->p)
        cay__cmd_drop(s);
    pthread_mutex_unlock(&t->lock);
}

/* rc: of starting or finding its process. */
static int begin_session(cay__cmds *t, cay__cmd *s, const cay_call *call, int rc, cay__cmd **out,
                         cay_err *err)
{
    if (rc == 0)
        rc = open_streams(s, call, err);
    if (rc < 0) {
        s->exited = true; /* for us */
        cay__cmd_leave(t, s);
        return rc;
    }
    *out = s;
    return 0;
}

int cay__cmd_start(cay__cmds *t, const cay_call *call, const cay_spawn *spec, cay__cmd **out,
                   cay_err *err)
{
    char id[12];
    cay__cmd *s = reserve_session(t, 0, spec->tty);
    CAY_FORMAT(id, "%d", s->id);
    cay_pair labels[] = { { LABEL, id }, { NULL, NULL } };
    cay_spawn own = *spec;
    own.labels = labels;
    own.attach = true;
    int rc = cay_sandbox_spawn(t->sb, call, &own, &s->p, err);
    return begin_session(t, s, call, rc, out, err);
}

void cay__cmds_warn(cay__cmds *t, cay__printed *out)
{
    char text[160];
    size_t n = 0;
    pthread_mutex_lock(&t->lock);
    CAY_EACH(it, t->v)
        n += it->id != 0;
    pthread_mutex_unlock(&t->lock);
    if (n < CAY__SESSIONS_MANY)
        return;
    int len = CAY_FORMAT(
        text,
        "(%zu commands are open; of more than %d the one that was used longest ago is ended)\n", n,
        CAY__SESSIONS_MAX);
    cay__printed_add(out, text, (size_t)len);
}

typedef struct sought {
    char id[12], proc[CAY_ID_LEN + 1];
    bool tty;
} sought;

static int match_session(const cay_proc_info *info, void *arg)
{
    sought *w = arg;
    for (const cay_pair *l = info->labels; l && l->key; l++)
        if (!strcmp(l->key, LABEL) && !strcmp(l->value, w->id)) {
            CAY_COPY(w->proc, info->id);
            w->tty = info->tty;
        }
    return 0;
}

int cay__cmd_find(cay__cmds *t, const cay_call *call, int64_t id, cay__cmd **out, cay_err *err)
{
    sought w = { .proc = "" };
    pthread_mutex_lock(&t->lock);
    CAY_EACH(it, t->v)
        if (it->id && it->id == id) {
            it->used = ++t->clock;
            *out = it;
            pthread_mutex_unlock(&t->lock);
            return 0;
        }
    pthread_mutex_unlock(&t->lock);
    if (id >= 1000 && id <= 99999) {
        CAY_FORMAT(w.id, "%d", (int)id);
        /* Who ends between the two halves of a listing, the living and the ended, is in neither: a
         * second one has it. */
        for (int i = 0; i < 3 && !*w.proc; i++)
            CAY_TRY(cay_sandbox_procs(t->sb, call, match_session, &w, err));
    }
    if (!*w.proc)
        return cay_fail_why(err, CAY_ENOENT, "pty_session_not_found",
                            "no process has the session ID %lld; it ended, or was never started",
                            (long long)id);
    cay__cmd *s = reserve_session(t, (int)id, w.tty);
    int rc = cay_sandbox_attach(t->sb, call, w.proc, &s->p, err);
    return begin_session(t, s, call, rc, out, err);
}

/* A stream that ended because what serves it was replaced is opened again where it was. */
static bool reopen_stream(cay__cmd *s, const cay_call *call, int i)
{
    if (cay_proc_breaks(s->p) == s->breaks)
        return false;
    s->breaks = cay_proc_breaks(s->p);
    if (cay_proc_output(s->p, call, i ? CAY_STDERR : CAY_STDOUT, s->at[i], &s->fd[i], NULL) < 0)
        return false;
    return cay__fd_nonblock(s->fd[i], true);
}

static void drain_stream(cay__cmd *s, const cay_call *call, int i, cay__printed *out)
{
    char buf[CHUNK];
    for (int rounds = 0; s->fd[i] >= 0 && rounds < 64; rounds++) {
        ssize_t n = read(s->fd[i], buf, sizeof buf);
        if (n > 0) {
            cay__printed_add(out, buf, (size_t)n);
            s->at[i] += (uint64_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else {
            close(s->fd[i]);
            s->fd[i] = -1;
            if (!reopen_stream(s, call, i))
                return;
        }
    }
}

uint64_t cay__cmd_yield(uint64_t asked_ms, bool polls)
{
    uint64_t least = CAY__YIELD_MIN;
    if (polls)
        least = CAY__YIELD_POLL;
    return CAY_MIN(CAY_MAX(asked_ms, least), (uint64_t)CAY__YIELD_MAX);
}

int cay__cmd_collect(cay__cmd *s, const cay_call *call, uint64_t yield_ms, cay__printed *out,
                     cay_err *err)
{
    int64_t end = cay__now_ms() + (int64_t)yield_ms;
    int exit_fd = -1;
    if (!s->exited)
        exit_fd = cay_proc_exit_fd(s->p, err);
    for (;;) {
        drain_stream(s, call, 0, out);
        drain_stream(s, call, 1, out);
        bool closed = s->fd[0] < 0 && s->fd[1] < 0;
        if (closed && !s->exited && has_ended(s)) {
            CAY_TRY(cay_proc_wait(s->p, call, &s->exit, err));
            s->exited = true;
        }
        int64_t left = end - cay__now_ms();
        if ((closed && s->exited) || left <= 0)
            return 0;
        struct pollfd p[4] = { { .fd = s->fd[0], .events = POLLIN },
                               { .fd = s->fd[1], .events = POLLIN },
                               { .fd = closed ? exit_fd : -1, .events = POLLIN },
                               { .fd = cay__call_cancel(call), .events = POLLIN } };
        int bound = cay__call_left(call);
        poll(p, 4, (int)(bound >= 0 ? CAY_MIN((int64_t)bound, left) : left));
        CAY_TRY(cay__call_check(call, "command", err));
    }
}
