/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes over a link. Each handle holds the connection on which the exit will be told; the id is
 * chosen here, so that a request repeated after the peer's death finds the process instead of
 * starting a second one.
 */
#include "client.h"
#include <base/base.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

typedef struct nproc {
    cay__link *link;
    char box[CAY_WIRE_ID], id[CAY_WIRE_ID];
    int pid;
    int64_t started_ms;
    bool tty;
    pthread_mutex_t lock; /* what follows */
    int conn;             /* where EXIT will come */
    bool exposed;         /* conn was given out to poll on */
    bool told;            /* its exit came with the first answer, and early has it */
    bool ended;
    unsigned breaks;
    cay_m_exit early;
    cay_exit exit;
    int first[2]; /* readers made with the process, not yet asked for */
} nproc;

static nproc *proc_new(cay__link *l, const char *box)
{
    nproc *p = cay__alloc(sizeof *p);
    p->link = l;
    p->conn = p->first[0] = p->first[1] = -1;
    CAY_COPY(p->box, box);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void cay__proc_release(void *proc)
{
    nproc *p = proc;
    cay__close_fd(&p->conn);
    cay__close_fd(&p->first[0]);
    cay__close_fd(&p->first[1]);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void proc_drop(nproc **p)
{
    if (*p)
        cay__proc_release(*p);
}
#define AUTOPROC __attribute__((cleanup(proc_drop))) nproc *

const char *cay__proc_id(void *proc, int *pid)
{
    nproc *p = proc;
    if (pid)
        *pid = p->pid;
    return p->id;
}

int cay__proc_conn(void *proc)
{
    return ((nproc *)proc)->conn;
}

static uint32_t flags_of(const cay_spawn *s)
{
    uint32_t f = CAY_SPAWN_WAIT;
    if (s->tty)
        f |= CAY_SPAWN_TTY;
    if (s->tty || s->stdin_mode == CAY_STDIN_PIPE)
        f |= CAY_SPAWN_STDIN;
    if (s->shell)
        f |= CAY_SPAWN_SHELL;
    if (s->login)
        f |= CAY_SPAWN_LOGIN;
    if (s->env_mode == CAY_ENV_ONLY)
        f |= CAY_SPAWN_ENV_ONLY;
    if (s->profile && strcmp(s->profile, "root") == 0)
        f |= CAY_SPAWN_ROOT;
    if (s->on_full == CAY_FULL_BLOCK)
        f |= CAY_SPAWN_BLOCK;
    if (s->fence)
        f |= CAY_SPAWN_FENCE;
    if (s->attach && !(f & CAY_SPAWN_STDIN))
        f |= CAY_SPAWN_LATE;
    return f;
}

/* What may be done where, a letter before each path; proto/landlock.h has them. A list that is not
 * there is all of "/". */
static void add_fence(const cay_fence *f, cay__buf *b)
{
    static const char *const all[] = { "/", NULL };
    const struct {
        const char *letter;
        const char *const *list;
    } rows[] = { { "r", CAY_OR(f->read, all) },
                 { f->write ? "w" : "c", CAY_OR(f->write, all) },
                 { f->exec ? "x" : "e", CAY_OR(f->exec, all) } };
    /* Without these nothing runs: programs and libraries, settings of the system, harmless devices.
     */
    static const char *const system[] = {
        "r/usr",         "r/bin",      "r/sbin",     "r/lib",
        "r/lib32",       "r/lib64",    "r/libx32",   "r/nix/store",
        "r/opt",         "r/etc",      "r/proc",     "r/sys/devices/system/cpu",
        "d/dev/null",    "d/dev/zero", "d/dev/full", "d/dev/random",
        "d/dev/urandom", "d/dev/tty",  "d/dev/ptmx", "d/dev/pts"
    };
    if (f->read || f->write)
        CAY_EACH(path, system)
            cay__buf_cstr(b, *path);
    CAY_EACH(row, rows)
        for (const char *const *p = row->list; *p; p++) {
            cay__buf_str(b, row->letter);
            cay__buf_cstr(b, *p);
        }
}

uint32_t cay__env_add(cay__buf *b, const cay_pair *env)
{
    uint32_t n = 0;
    for (; env && env[n].key; n++) {
        cay__buf_str(b, env[n].key);
        cay__buf_str(b, "=");
        cay__buf_cstr(b, env[n].value);
    }
    return n;
}

/* user, cwd, tag, argv…, env…, grants…: each with its NUL. */
static void make_blob(const cay_spawn *s, cay__buf *b, cay_m_spawn *m)
{
    cay__buf_cstr(b, s->user);
    cay__buf_cstr(b, s->cwd);
    cay__buf_cstr(b, s->tag);
    if (s->shell) {
        cay__buf_cstr(b, s->shell);
        m->argc = 1;
    }
    for (size_t i = 0; !s->shell && s->argv[i]; i++, m->argc++)
        cay__buf_cstr(b, s->argv[i]);
    m->envc = cay__env_add(b, s->env);
    if (s->fence)
        add_fence(s->fence, b);
    m->blob = (uint32_t)b->len;
}

void cay__labels_add(cay__buf *b, const cay_pair *labels)
{
    for (; labels && labels->key; labels++) {
        cay__buf_cstr(b, labels->key);
        cay__buf_cstr(b, labels->value);
    }
}

/* What has no end or no value is left out. */
cay_pair *cay__labels_make(const char *text, size_t n)
{
    size_t strings = 0, at = 0;
    CAY_EACH_OF(it, text, n)
        strings += !*it;
    cay_pair *v = cay__alloc((strings / 2 + 1) * sizeof *v + n);
    char *s = (char *)(v + strings / 2 + 1);
    if (n)
        memcpy(s, text, n);
    for (; at < strings / 2; at++) {
        v[at].key = s;
        v[at].value = s += strlen(s) + 1;
        s += strlen(s) + 1;
    }
    return v;
}

/* What people are shown of it; the peer hands the rest on unread. */
static void make_title(const cay_spawn *s, char *out, size_t cap)
{
    cay__str_copy(out, cap, CAY_OR(s->shell, s->argv[0]));
    for (size_t i = 1; !s->shell && s->argv[i]; i++) {
        size_t n = strlen(out);
        if (!cay__str_join(out + n, cap - n, " ", s->argv[i], NULL))
            break;
    }
}

static int seal_blob(const cay__buf *b, int *out, cay_err *err)
{
    CAY_AUTOFD fd = memfd_create("cay-spawn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || !cay__fd_write_all(fd, b->data, b->len) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cay_fail_sys(err, "hand over a long command");
    *out = CAY_STEAL_FD(fd);
    return 0;
}

static int make_reader(int *rd, int *wr, cay_err *err)
{
    int p[2];
    CAY_TRY_SYS(pipe2(p, O_CLOEXEC), err, "pipe");
    *rd = p[0];
    *wr = p[1];
    return 0;
}

static void take_answer(nproc *p, const cay_m_proc *m)
{
    p->pid = m->pid;
    p->started_ms = m->started_ms;
    p->told = m->told;
    p->early = m->exit;
}

/* Descriptors go in the order proto.h names: readers' write ends, then the long blob. */
static int send_spawn(nproc *p, const cay_call *call, const cay_spawn *s, cay_m_spawn *m,
                      cay__buf *blob, cay_err *err)
{
    int fds[3] = { -1, -1, -1 }, n = 0, rc = 0;
    char room[1024 + CAY_LABELS_MAX];
    cay__reply r = { .tail = room, .tail_cap = sizeof room };
    for (int i = 0; rc == 0 && s->attach && i < (s->tty ? 1 : 2); i++) {
        rc = make_reader(&p->first[i], &fds[n], err);
        n += rc == 0;
        if (i)
            m->flags |= CAY_SPAWN_ERR;
        else
            m->flags |= CAY_SPAWN_OUT;
    }
    if (rc == 0 && blob->len > CAY_TAIL_MAX) {
        rc = seal_blob(blob, &fds[n], err);
        n += rc == 0;
        m->flags |= CAY_SPAWN_BLOB_FD;
        blob->len = 0;
    }
    cay__labels_add(blob, s->labels);
    if (rc == 0)
        rc = cay__link_begin(p->link, call,
                             CAY__LINK_ASK(CAY_MSG_SPAWN, *m, .tail = blob->data,
                                           .tail_len = blob->len, .fds = fds, .nfds = n),
                             &r, &p->conn, err);
    CAY_EACH_OF(it, fds, n)
        close(*it);
    if (rc == 0)
        take_answer(p, &r.proc);
    return rc;
}

/* Nobody waits for the answer any more, so what was asked for does not stay behind. It cannot be
 * signalled before it has started. */
static void undo_spawn(nproc *p)
{
    for (int i = 0; i < 40; i++) {
        cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + 2000 };
        if (cay__proc_signal(p, &call, SIGKILL, CAY_SCOPE_TREE, NULL) != CAY_ENOENT)
            return;
        poll(NULL, 0, 5);
    }
}

int cay__proc_spawn(cay__link *l, const char *box, const cay_call *call, const cay_spawn *spec,
                    void **out, cay_err *err)
{
    CAY_AUTOBUF blob = CAY__BUF(CAY_BLOB_MAX + CAY_LABELS_MAX);
    AUTOPROC p = proc_new(l, box);
    cay_m_spawn m = { .cols = spec->cols,
                      .rows = spec->rows,
                      .timeout_ms = spec->timeout_ms,
                      .ring = spec->ring_bytes,
                      .flags = flags_of(spec) };

    cay__id_make(p->id, 'p');
    p->tty = spec->tty;
    CAY_COPY(m.id, box);
    CAY_COPY(m.proc, p->id);
    CAY_COPY(m.tag, CAY_OR(spec->tag, ""));
    make_title(spec, m.title, sizeof m.title);
    make_blob(spec, &blob, &m);
    if (blob.full || blob.len > CAY_BLOB_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "arguments_too_long",
                            "the command is longer than %u bytes", CAY_BLOB_MAX);
    int rc = send_spawn(p, call, spec, &m, &blob, err);
    if (rc == CAY_ECANCELED || rc == CAY_ETIMEOUT)
        undo_spawn(p);
    /* The peer does not read the strings it hands on, so it cannot name what failed. */
    if (rc < 0 && err && spec->user && cay__err_of_user(err))
        return cay_wrap(err, rc, "user %.60s", spec->user);
    if (rc == CAY_ENOENT || rc == CAY_EPERM || rc == CAY_ETYPE) {
        if (spec->cwd)
            return cay_wrap(err, rc, "start %.60s in %.120s",
                            spec->shell ? "a shell" : spec->argv[0], spec->cwd);
        return cay_wrap(err, rc, "start %.120s", spec->shell ? "a shell" : spec->argv[0]);
    }
    CAY_TRY(rc);
    *out = CAY_STEAL(p);
    return 0;
}

/* Asks for the process and for its exit on a connection of its own. */
static int find_process(cay__link *l, const char *box, const cay_call *call, const char *ref,
                        cay_m_proc *found, int *conn, cay_err *err)
{
    char tail[1024 + CAY_LABELS_MAX];
    cay_m_ref m = { .flags = CAY_SPAWN_WAIT };
    cay__reply r = { .tail = tail, .tail_cap = sizeof tail };
    CAY_COPY(m.id, box);
    if (!CAY_COPY(m.ref, ref))
        return cay_fail_why(err, CAY_ENOENT, "process_not_found", "process %.60s: no such process",
                            ref);
    CAY_TRY(cay__link_begin(l, call, CAY__LINK_ASK(CAY_MSG_PROC_FIND, m), &r, conn, err));
    *found = r.proc;
    return 0;
}

int cay__proc_attach(cay__link *l, const char *box, const cay_call *call, const char *ref,
                     void **out, cay_err *err)
{
    AUTOPROC p = proc_new(l, box);
    cay_m_proc m;
    CAY_TRY(find_process(l, box, call, ref, &m, &p->conn, err));
    memcpy(p->id, m.proc, sizeof p->id);
    p->id[sizeof p->id - 1] = 0;
    take_answer(p, &m);
    p->tty = m.flags & CAY_SPAWN_TTY;
    *out = CAY_STEAL(p);
    return 0;
}

static cay_m_stream stream_of(const nproc *p, uint32_t which, uint64_t offset, uint64_t a,
                              uint64_t b)
{
    cay_m_stream m = { .which = which, .offset = offset, .a = a, .b = b };
    memcpy(m.id, p->box, sizeof m.id);
    memcpy(m.proc, p->id, sizeof m.proc);
    return m;
}

static int call_process(nproc *p, const cay_call *call, uint16_t type, uint64_t a, uint64_t b,
                        cay_err *err)
{
    cay_m_stream m = stream_of(p, 0, 0, a, b);
    return cay__link_call(p->link, call, CAY__LINK_ASK(type, m), NULL, err);
}

int cay__proc_output(void *proc, const cay_call *call, cay_stream which, uint64_t offset, int *fd,
                     cay_err *err)
{
    nproc *p = proc;
    CAY_AUTOFD rd = -1;
    if (p->tty && which == CAY_STDERR)
        return cay_fail_why(err, CAY_EINVAL, "no_stderr",
                            "a process on a terminal has one stream, stdout");
    pthread_mutex_lock(&p->lock);
    if (offset == CAY_FROM_START)
        rd = CAY_STEAL_FD(p->first[which - 1]);
    pthread_mutex_unlock(&p->lock);
    if (rd < 0) {
        CAY_AUTOFD wr = -1;
        CAY_TRY(make_reader(&rd, &wr, err));
        cay_m_stream m = stream_of(p, which, offset, 0, 0);
        CAY_TRY(cay__link_call(p->link, call,
                               CAY__LINK_ASK(CAY_MSG_OUTPUT, m, .fds = &wr, .nfds = 1), NULL, err));
    }
    *fd = CAY_STEAL_FD(rd);
    return 0;
}

/* time_ms: only what came at one time, and when that was. An older keeper knows of none, and tells
 * 0. */
int cay__proc_read_at(void *proc, const cay_call *call, cay_stream which, uint64_t *offset,
                      void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof, int64_t *time_ms,
                      cay_err *err)
{
    nproc *p = proc;
    CAY_AUTOFREE char *room = cay__alloc(CAY_CHUNK);
    size_t want = CAY_MIN(cap, (size_t)CAY_CHUNK);
    cay_m_stream m = stream_of(p, which, *offset, want, time_ms != NULL);
    cay__reply r = { .tail = room, .tail_cap = CAY_CHUNK };
    CAY_TRY(cay__link_call(p->link, call, CAY__LINK_ASK(CAY_MSG_READ, m), &r, err));
    if (r.tail_len > want)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "more bytes came than were asked for");
    if (r.tail_len)
        memcpy(buf, room, r.tail_len);
    *n = r.tail_len;
    *lost = r.data.lost;
    *eof = r.data.eof;
    *offset = r.data.offset + r.tail_len;
    if (time_ms) {
        if (r.data.ms)
            *time_ms = p->started_ms + r.data.ms - 1;
        else
            *time_ms = 0;
    }
    return 0;
}

int cay__proc_read(void *proc, const cay_call *call, cay_stream which, uint64_t *offset, void *buf,
                   size_t cap, size_t *n, uint64_t *lost, bool *eof, cay_err *err)
{
    return cay__proc_read_at(proc, call, which, offset, buf, cap, n, lost, eof, NULL, err);
}

int cay__proc_write(void *proc, const cay_call *call, const void *data, size_t len, cay_err *err)
{
    nproc *p = proc;
    for (size_t at = 0; at < len;) {
        size_t n = CAY_MIN(len - at, (size_t)CAY_CHUNK);
        cay_m_stream m = stream_of(p, 0, 0, 0, 0);
        CAY_TRY(cay__link_call(
            p->link, call,
            CAY__LINK_ASK(CAY_MSG_WRITE, m, .tail = (const char *)data + at, .tail_len = n), NULL,
            err));
        at += n;
    }
    return 0;
}

int cay__proc_close_stdin(void *proc, const cay_call *call, cay_err *err)
{
    return call_process(proc, call, CAY_MSG_CLOSE_STDIN, 0, 0, err);
}

int cay__proc_resize(void *proc, const cay_call *call, uint16_t cols, uint16_t rows, cay_err *err)
{
    nproc *p = proc;
    if (!p->tty)
        return cay_fail_why(err, CAY_ETYPE, "no_terminal", "process %s has no terminal to resize",
                            p->id);
    return call_process(p, call, CAY_MSG_RESIZE, cols, rows, err);
}

int cay__proc_signal(void *proc, const cay_call *call, int sig, cay_scope scope, cay_err *err)
{
    return call_process(proc, call, CAY_MSG_SIGNAL, (uint64_t)sig, scope, err);
}

static void keep_exit(nproc *p, const cay_m_exit *m)
{
    p->exit = (cay_exit){ .size = sizeof p->exit,
                          .code = m->code,
                          .signal = m->signal,
                          .cpu_us = m->cpu_us,
                          .max_rss = m->max_rss,
                          .lost_out = m->lost_out,
                          .lost_err = m->lost_err };
    memcpy(p->exit.reason, m->reason, sizeof p->exit.reason);
    p->exit.reason[sizeof p->exit.reason - 1] = 0;
    p->ended = true;
    char probe;
    if (recv(p->conn, &probe, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
        p->breaks++; /* the peer died just after telling: readers may have ended early */
    if (p->exposed)
        shutdown(p->conn, SHUT_RDWR); /* readable for ever */
    else
        cay__link_give(p->link, CAY_STEAL_FD(p->conn));
}

/* The peer died: the one that took over knows the process. The descriptor keeps its number, because
 * somebody may be polling on it. */
static int reconnect_process(nproc *p, const cay_call *call, cay_err *err)
{
    CAY_AUTOFD conn = -1;
    cay_m_proc m;
    p->breaks++;
    if (p->link->broke)
        p->link->broke(p->link->arg);
    int rc = find_process(p->link, p->box, call, p->id, &m, &conn, err);
    if (rc == CAY_ENOENT || rc == CAY_ESTATE) {
        cay_m_exit lost = { .code = 128 + SIGKILL, .signal = SIGKILL, .reason = "lost" };
        keep_exit(p, &lost);
        return 0;
    }
    CAY_TRY(rc);
    CAY_TRY_SYS(dup3(conn, p->conn, O_CLOEXEC), err, "dup");
    if (m.told)
        keep_exit(p, &m.exit);
    return 0;
}

/* Takes what is there without waiting. 1: nothing yet. */
static int poll_exit(nproc *p, const cay_call *call, cay_err *err)
{
    if (p->told &&
        !p->ended) /* not before: until its output was read, the peer must not have died */
        keep_exit(p, &p->early);
    if (p->ended)
        return 0;
    static const cay_call now = { .size = sizeof now,
                                  .deadline_ms = 1 }; /* long past: never waits */
    cay__reply r = { 0 };
    cay_err why = CAY_ERR_INIT;
    int rc = cay__link_next(p->conn, &now, CAY_MSG_EXIT, &r, &why);
    if (rc == CAY_ETIMEOUT)
        return 1;
    if (rc == CAY_EGONE) {
        CAY_TRY(reconnect_process(p, call, err));
        if (p->ended)
            return 0;
        return 1;
    }
    if (rc < 0)
        return cay__err_pass(rc, &why, err);
    keep_exit(p, &r.exit);
    return 0;
}

int cay__proc_wait(void *proc, const cay_call *call, cay_exit *out, cay_err *err)
{
    nproc *p = proc;
    for (;;) {
        pthread_mutex_lock(&p->lock);
        int rc = poll_exit(p, call, err);
        /* Another thread may take the exit and give the connection away: wait on a copy. */
        CAY_AUTOFD fd = -1;
        if (rc == 1)
            fd = fcntl(p->conn, F_DUPFD_CLOEXEC, 3);
        if (rc == 0)
            *out = p->exit;
        pthread_mutex_unlock(&p->lock);
        if (rc <= 0)
            return rc;
        CAY_TRY_SYS(fd, err, "dup");
        CAY_TRY(cay__call_wait(call, fd, POLLIN, "wait", err));
    }
}

int cay__proc_exit_fd(void *proc, cay_err *err)
{
    nproc *p = proc;
    CAY_LOCK(&p->lock);
    if (p->told && !p->ended)
        keep_exit(p, &p->early);
    if (p->conn < 0)
        p->conn = eventfd(1, EFD_CLOEXEC); /* it has ended, and its connection serves others */
    p->exposed = true;
    CAY_TRY_SYS(p->conn, err, "eventfd");
    return p->conn;
}

unsigned cay__proc_breaks(void *proc)
{
    nproc *p = proc;
    CAY_LOCK(&p->lock);
    return p->breaks;
}

int cay__procs_kept(cay__link *l, const char *box, const cay_call *call,
                    int (*fn)(const cay__kept *k, void *arg), void *arg, cay_err *err)
{
    char tail[2048];
    cay_m_box m = cay__link_of(box);
    cay__reply r = { .tail = tail, .tail_cap = sizeof tail - 3 };
    CAY_AUTOFD sock = -1;
    CAY_TRY(cay__link_begin(l, call, CAY__LINK_ASK(CAY_MSG_PROCS, m), &r, &sock, err));
    while (r.type != CAY_MSG_END) {
        memset(tail + r.tail_len, 0, 3); /* three strings, whatever came */
        cay__kept k = { .p = r.proc, .tag = tail };
        k.command = k.tag + strlen(k.tag) + 1;
        k.user = k.command + strlen(k.command) + 1;
        k.p.proc[sizeof k.p.proc - 1] = 0;
        const char *labels = k.user + strlen(k.user) + 1, *end = tail + r.tail_len;
        k.labels = cay__labels_make(labels, labels < end ? (size_t)(end - labels) : 0);
        int rc = fn(&k, arg);
        if (rc)
            return rc;
        CAY_TRY(cay__link_died(l, cay__link_next(sock, call, CAY_MSG_PROC, &r, err), err));
    }
    cay__link_give(l, CAY_STEAL_FD(sock));
    return 0;
}
