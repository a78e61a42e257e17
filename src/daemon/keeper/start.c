/* SPDX-License-Identifier: Apache-2.0 */
/* A command from its request to its first instruction. */
#include "keeper.h"

/* Room for one more: commands that ended longest ago are forgotten. */
static bool make_room(keeper_box *b)
{
    while (b->nprocs >= PROCS_MAX || b->kept > KEPT_MAX) {
        keeper_proc *victim = b->oldest;
        while (victim && (!victim->settled || victim->waiters))
            victim = victim->newer;
        if (!victim)
            return b->nprocs < PROCS_MAX && b->kept < 4 * KEPT_MAX;
        if (b->forget[0])
            box_tell(b, CAY_G_FORGET, b->forget, 0, 0);
        memcpy(b->forget, victim->id, sizeof b->forget);
        proc_free(victim);
    }
    return true;
}

void proc_answer(client *c, keeper_proc *p, uint32_t flags)
{
    proc_reply(c, p);
    if ((flags & CAY_SPAWN_WAIT) && !p->settled)
        cay__waiter_add(&p->waiters, c->w.fd, false);
}

void proc_answer_starter(keeper_proc *p)
{
    client *c = p->starter;
    p->starter = NULL;
    if (c)
        proc_answer(c, p, p->flags);
}

/* One pipe for each of stdin, stdout and stderr that is to have one. */
static void close_pipes(int io[6])
{
    cay__close_fds(io, 6);
}

static bool make_pipes(uint32_t flags, int io[6])
{
    memset(io, -1, 6 * sizeof *io);
    for (int i = flags & CAY_SPAWN_STDIN ? 0 : 2; i < 6 && !(flags & CAY_SPAWN_TTY); i += 2)
        if (pipe2(io + i, O_CLOEXEC) < 0) {
            close_pipes(io);
            return false;
        }
    return true;
}

static bool well_formed(const cay_m_spawn *m, size_t tail, int nfds)
{
    int want = !!(m->flags & CAY_SPAWN_OUT) + !!(m->flags & CAY_SPAWN_ERR) +
               !!(m->flags & CAY_SPAWN_BLOB_FD);
    size_t strings = 0;
    if (!(m->flags & CAY_SPAWN_BLOB_FD))
        strings = m->blob;
    return cay__id_valid(m->proc, 'p') && nfds == want && memchr(m->tag, 0, sizeof m->tag) &&
           memchr(m->title, 0, sizeof m->title) && m->blob <= CAY_BLOB_MAX && tail >= strings &&
           tail - strings <= CAY_LABELS_MAX && m->argc >= 1 && m->argc <= m->blob &&
           m->envc <= m->blob && m->ring <= CAY__RING_MAX && !(m->flags & ~(uint32_t)CAY_SPAWN_ALL);
}

/* Sends SPAWN to init: the child's ends, the ends init holds for the next keeper, the group, the
 * blob. */
static bool send_spawn(keeper_proc *p, const cay_m_spawn *m, const char *tail, size_t len,
                       const int io[6], int blob)
{
    int fds[9], n = 0;
    cay_g_spawn g = { .flags = p->flags,
                      .cols = m->cols,
                      .rows = m->rows,
                      .argc = m->argc,
                      .envc = m->envc,
                      .blob = m->blob,
                      .ring = p->ring_bytes,
                      .timeout_ms = m->timeout_ms,
                      .deadline = p->timer.at_ms,
                      .started_ms = p->started_ms,
                      .group = CAY_FLAG_IF(p->group.dir >= 0, p->group.number) };
    memcpy(g.proc, p->id, sizeof g.proc);
    memcpy(g.tag, p->tag, sizeof g.tag);
    memcpy(g.title, p->title, sizeof g.title);
    memcpy(g.forget, p->b->forget, sizeof g.forget);
    const struct {
        int fd;
        uint32_t flag;
    } list[] = {
        { io[0], CAY_GS_IN },
        { io[3], CAY_GS_OUT },
        { io[5], CAY_GS_ERR },
        { io[1], CAY_GS_HOLD_IN },
        { io[2], CAY_GS_HOLD_OUT },
        { io[4], CAY_GS_HOLD_ERR },
        { p->group.procs, CAY_GS_GROUP },
        { p->group.dir, CAY_GS_INTO },
        { blob, 0 },
    };
    CAY_EACH(it, list)
        if (it->fd >= 0) {
            fds[n++] = it->fd;
            g.flags |= it->flag;
        }
    if (m->timeout_ms && p->b->tenant_fd < 0)
        g.flags |= CAY_GS_REAPER;
    if (!box_send(p->b, CAY_G_SPAWN, &g, sizeof g, tail, len, fds, n))
        return false;
    p->b->forget[0] = 0;
    return true;
}

void proc_open_io(keeper_proc *p, int in, int out, int err)
{
    if (in >= 0)
        cay__input_open(&p->in, &keeper.loop, in);
    const int fds[2] = { out, err };
    for (int i = 0; i < 2; i++) {
        cay__stream_set(&p->out[i], p->flags, p->ring_bytes, p->started_ms);
        p->out[i].started = p->started;
        if (fds[i] >= 0)
            cay__stream_open(&p->out[i], fds[i]);
    }
}

/* Readers that come along. */
static void attach_readers(keeper_proc *p, uint32_t flags, int *fds, int nfds)
{
    static const uint32_t bits[] = { CAY_SPAWN_OUT, CAY_SPAWN_ERR };
    cay_m_data d;
    for (int i = 0, at = 0; i < 2; i++)
        if ((flags & bits[i]) && at < nfds)
            cay__stream_attach(&p->out[i], 0, CAY_STEAL_FD(fds[at++]), &d);
}

void proc_spawn(const request *r)
{
    client *c = r->c;
    keeper_box *b = r->b;
    const cay_m_spawn *m = r->body;
    if ((b->state != CAY_RUNNING || b->pausing) &&
        !reply_refused(c, CAY_ESTATE, "sandbox_paused", "the sandbox is paused; resume it first"))
        return;
    keeper_proc *old = proc_find(b, m->proc);
    if (old) { /* asked again after a lost answer */
        attach_readers(old, m->flags, r->fds, r->nfds);
        if (old->started)
            proc_answer(c, old, m->flags);
        else
            old->starter = c;
        return;
    }
    bool good =
        well_formed(m, r->tail_len, r->nfds); /* first of all: only then is the tag a string */
    if (good && m->tag[0])
        old = proc_find(b, m->tag);
    else
        old = NULL;
    if (!good &&
        !reply_refused(c, CAY_EINVAL, "bad_request", "the spawn request is not well-formed"))
        return;
    if (old && !old->ended &&
        !reply_refused(c, CAY_EEXIST, "tag_in_use", "a running process has this tag already"))
        return;
    if (!make_room(b) && !reply_refused(c, CAY_ENOSPACE, "processes_full",
                                        "512 commands run in this sandbox, or too much output of "
                                        "running ones is kept; end some"))
        return;
    int io[6];
    if (!make_pipes(m->flags, io) &&
        !reply_error(c, CAY_ENOSPACE, errno, "", "no descriptors left for pipes", NULL))
        return;
    keeper_proc *p = proc_new(b, m->proc);
    CAY_COPY(p->tag, m->tag);
    CAY_COPY(p->title, m->title);
    size_t strings = 0;
    if (!(m->flags & CAY_SPAWN_BLOB_FD))
        strings = m->blob;
    proc_label(p, r->tail + strings, r->tail_len - strings);
    p->flags = m->flags;
    p->ring_bytes = cay__ring_size(m->ring);
    p->started_ms = cay__clock_ms();
    p->starter = c;
    if (m->timeout_ms) {
        cgroup_exec_make(p);
        proc_arm(p, m->timeout_ms);
    }
    CAY_FAULT("keeper.spawn.send");
    bool sent = send_spawn(p, m, r->tail, r->tail_len, io,
                           m->flags & CAY_SPAWN_BLOB_FD ? r->fds[r->nfds - 1] : -1);
    CAY_FAULT("keeper.spawn.sent");
    proc_open_io(p, CAY_STEAL_FD(io[1]), CAY_STEAL_FD(io[2]), CAY_STEAL_FD(io[4]));
    close_pipes(io);
    attach_readers(p, m->flags, r->fds, r->nfds);
    if (!sent) {
        int e = errno;
        reply_error(c, e == EAGAIN ? CAY_EBUSY : CAY_EGONE, e, "", "init does not answer", NULL);
        proc_free(p);
    }
}

void proc_begin(keeper_proc *p, int pid)
{
    p->started = p->out[0].started = p->out[1].started = true;
    p->pid = pid;
    proc_count(p, 1);
    event_send(p->b->id, "exec", "", p->id, 0);
}

/* Why it could not be started: the step that failed, and its errno. */
static void answer_failure(client *c, const char *step, int sys)
{
    const char *reason = "spawn_failed", *msg = "the command could not be started", *more = step;
    int code = cay_code_of_errno(sys);
    if (sys == ENOENT || sys == ENOTDIR)
        code = CAY_ENOENT;
    if (!strcmp(step, "exec")) {
        reason = "exec_failed";
        msg = "the command cannot be executed";
        if (sys == ENOENT)
            msg = "no such command in the sandbox";
        more = NULL;
    } else if (!strcmp(step, "cwd")) {
        reason = "cwd_failed";
        msg = "the working directory cannot be entered";
        more = strerror(sys);
    } else if (!strcmp(step, "user")) {
        reason = "user_unknown";
        msg = "no such user in the sandbox; its /etc/passwd tells which there are";
        if (sys == EPERM)
            msg = "only the sandbox's one user exists here; other users need sub-ids, see "
                  "/etc/subuid";
        more = NULL;
    }
    reply_error(c, code, sys, reason, msg, more);
}

void proc_started(keeper_box *b, const cay_g_result *r, int *fds, int nfds)
{
    char id[CAY_WIRE_ID], step[32];
    CAY_COPY(id, r->proc);
    cay__str_copy(step, CAY__MUTANT("fuzz-init_msg") ? 2 * sizeof step : sizeof step, r->step);
    keeper_proc *p = proc_find(b, id);
    if (!p || p->started)
        return;
    if (r->sys) {
        answer_failure(p->starter, step, r->sys);
        proc_free(p);
        box_spawned(b);
        return;
    }
    proc_begin(p, r->pid);
    if ((p->flags & CAY_SPAWN_TTY) && nfds == 1) {
        int in = fcntl(fds[0], F_DUPFD_CLOEXEC, 3); /* one watch a descriptor */
        proc_open_io(p, in, CAY_STEAL_FD(fds[0]), -1);
    }
    cay__stream_resume(&p->out[0]);
    cay__stream_resume(&p->out[1]);
    CAY_FAULT("keeper.spawn.answer");
    proc_answer_starter(p);
    box_spawned(b);
}
