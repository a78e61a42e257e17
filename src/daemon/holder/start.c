/* SPDX-License-Identifier: Apache-2.0 */
/* Starting one: streams, identity, environment and directory; and what is started from in here. */
#include "host.h"
#include <base/base.h>
#include <poll.h>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { ARGS_MAX = 1 << 18, OWN_MS = 10000 };

typedef struct child_plan {
    child_spec s;
    int mine[3]; /* our ends: stdin, stdout or terminal, stderr */
    char tty[64];
    char **argv;
    const char *user, *cwd, *tag, *labels;
    size_t nlabels;
    ident who;
} child_plan;

static void plan_close(child_plan *k)
{
    int *all[] = {
        &k->mine[0], &k->mine[1], &k->mine[2], &k->s.in, &k->s.out, &k->s.err, &k->s.cwd
    };
    CAY_EACH(it, all)
        cay__close_fd(*it);
    free(k->argv);
    free((void *)k->s.env);
}

static bool pipe_for(int *rd, int *wr)
{
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return false;
    *rd = p[0];
    *wr = p[1];
    return true;
}

static bool open_terminal(child_plan *k)
{
    k->mine[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (k->mine[1] < 0 || grantpt(k->mine[1]) < 0 || unlockpt(k->mine[1]) < 0 ||
        ptsname_r(k->mine[1], k->tty, sizeof k->tty) != 0)
        return false;
    /* A copy for writing: one descriptor cannot be watched twice. */
    k->mine[0] = fcntl(k->mine[1], F_DUPFD_CLOEXEC, 3);
    k->s.tty = k->tty;
    return k->mine[0] >= 0;
}

static bool open_streams(child_plan *k, const cay_m_spawn *m)
{
    if (m->flags & CAY_SPAWN_TTY)
        return open_terminal(k);
    if ((m->flags & CAY_SPAWN_STDIN) && !pipe_for(&k->s.in, &k->mine[0]))
        return false;
    return pipe_for(&k->mine[1], &k->s.out) && pipe_for(&k->mine[2], &k->s.err);
}

/* There is one user here: the one who runs cay-local, by any of its names. */
static bool user_is_us(const char *user)
{
    uint64_t uid;
    struct passwd *pw = NULL;
    if (!*user || strcmp(user, "user") == 0)
        return true;
    if (cay__str_to_u64(user, &uid))
        return uid == geteuid();
    pw = getpwnam(user);
    return pw && pw->pw_uid == geteuid();
}

bool cay__exec_user(holder_conn *c, const char *user, ident *out)
{
    host *h = c->h;
    char msg[160];
    int e;
    if (h->who)
        e = h->who(cay__text_or(user, h->user), out);
    else if (user_is_us(user))
        e = 0;
    else
        e = EPERM;
    if (!e)
        return true;
    CAY_FORMAT(msg, "user %.60s: %s", *user ? user : CAY_OR(h->user, ""),
               e == ENOENT ? "there is none in /etc/passwd of the image" : strerror(e));
    if (h->who)
        cay__conn_error(c, CAY_ENOENT, e, "user_not_found", msg);
    else
        cay__conn_error(c, CAY_ENOTSUP, 0, "user_not_supported",
                        "this sandbox has one user, who made it; other users need provider native "
                        "and a host with namespaces");
    return false;
}

static const char *find_shell(void)
{
    static const char *const shells[] = { "/bin/bash", "/usr/bin/bash" };
    CAY_EACH(shell, shells)
        if (access(*shell, X_OK) == 0)
            return *shell;
    return "/bin/sh";
}

static const char *next_string(const char **at)
{
    const char *s = *at;
    *at = s + strlen(s) + 1;
    return s;
}

/* The blob's strings in their places. They were counted by the caller of this. */
static void plan_argv(child_plan *k, const cay_m_spawn *m, const char **at)
{
    size_t n = 0;
    k->argv = cay__alloc((m->argc + 4) * sizeof *k->argv);
    if (m->flags & CAY_SPAWN_SHELL) {
        k->argv[n++] = (char *)find_shell();
        if (m->flags & CAY_SPAWN_LOGIN)
            k->argv[n++] = (char *)"-l";
        k->argv[n++] = (char *)"-c";
    }
    for (uint32_t i = 0; i < m->argc; i++)
        k->argv[n++] = (char *)next_string(at);
    k->argv[n] = NULL;
    k->s.argv = k->argv;
}

static void env_put(char **env, size_t *n, const char *pair)
{
    size_t key = strcspn(pair, "=") + 1;
    size_t i = 0;
    while (i < *n && strncmp(env[i], pair, key) != 0)
        i++;
    env[i] = (char *)pair;
    *n += i == *n;
}

/* From empty: what a command needs to work, the sandbox's own, then what was asked. */
static char **make_env(host *h, const ident *who, const cay_m_spawn *m, const char *at,
                       char own[4][CAY__FS_PATH_MAX + 160])
{
    size_t count = 0, n = 0;
    for (const char *e = h->env; *e; e += strlen(e) + 1)
        count++;
    char **env = cay__alloc((count + m->envc + 16) * sizeof *env);
    struct passwd *pw = NULL;
    if (!h->who)
        pw = getpwuid(geteuid());
    const char *name;
    if (h->who)
        name = who->name;
    else if (pw)
        name = pw->pw_name;
    else
        name = "user";
    if (!(m->flags & CAY_SPAWN_ENV_ONLY)) {
        CAY_FORMAT(own[0], "HOME=%s%s", h->root, h->who ? who->home : h->home);
        CAY_FORMAT(own[1], "TMPDIR=%s/tmp", h->root);
        CAY_FORMAT(own[2], "USER=%s", name);
        CAY_FORMAT(own[3], "LOGNAME=%s", name);
        CAY_EACH_OF(it, own, 4)
            env_put(env, &n, *it);
        env_put(env, &n, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        env_put(env, &n, "LANG=C.UTF-8");
        env_put(env, &n, m->flags & CAY_SPAWN_TTY ? "TERM=xterm-256color" : "TERM=dumb");
        for (const char *e = h->env; *e; e += strlen(e) + 1)
            env_put(env, &n, e);
    }
    for (uint32_t i = 0; i < m->envc; i++)
        env_put(env, &n, next_string(&at));
    env[n] = NULL;
    return env;
}

/* A directory as the files are named: absolute below root/, or as the host sees it. */
static int open_cwd(host *h, const ident *who, const char *cwd)
{
    size_t n = strlen(h->root);
    cay__fs fs = h->fs;
    if (h->who)
        fs.home = who->home;
    if (n && strncmp(cwd, h->root, n) == 0 && (cwd[n] == '/' || cwd[n] == 0)) {
        if (cwd[n])
            cwd = cwd + n;
        else
            cwd = "/";
    }
    return cay__fs_open(&fs, cay__text_or(cwd, h->workdir), O_RDONLY | O_DIRECTORY);
}

/* False, with errno: the directory cannot be opened. */
static bool plan_surroundings(host *h, child_plan *k, const cay_m_spawn *m, const char *env)
{
    static char own[4][CAY__FS_PATH_MAX + 160];
    k->s.env = make_env(h, &k->who, m, env, own);
    if (h->who)
        k->s.who = &k->who;
    else
        k->s.who = NULL;
    k->s.nofile = h->meta.nofile;
    k->s.jail = cay__host_jail(h);
    k->s.cwd = open_cwd(h, &k->who, k->cwd);
    return k->s.cwd >= 0;
}

static void format_command(holder_proc *p, char *const *argv)
{
    size_t at = 0;
    for (size_t i = 0; argv[i] && at + 1 < sizeof p->command; i++) {
        int n = snprintf(p->command + at, sizeof p->command - at, "%s%s", i ? " " : "", argv[i]);
        if (n > 0)
            at += (size_t)n;
    }
}

static holder_proc *proc_new(host *h, const cay_m_spawn *m, const child_plan *k)
{
    holder_proc *p = cay__alloc(sizeof *p);
    p->h = h;
    memcpy(p->id, m->proc, sizeof p->id);
    CAY_COPY(p->tag, k->tag);
    p->nlabels = k->nlabels;
    p->labels = memcpy(cay__alloc(k->nlabels), k->labels, k->nlabels);
    p->flags =
        m->flags & ~(uint32_t)(CAY_SPAWN_OUT | CAY_SPAWN_ERR | CAY_SPAWN_BLOB_FD | CAY_SPAWN_WAIT);
    p->started_ms = cay__clock_ms();
    p->ctl.fd = p->in.w.fd = p->starter = -1;
    for (int i = 0; i < 2; i++) {
        p->out[i] = (holder_stream){ .ops = &cay__exec_stream_ops,
                                     .loop = &h->loop,
                                     .kept = &h->kept,
                                     .owner = p,
                                     .which = i,
                                     .started = true,
                                     .w.fd = -1,
                                     .ring.fd = -1 };
        cay__stream_set(&p->out[i], m->flags, cay__ring_size(m->ring), p->started_ms);
    }
    p->timeout.fn = cay__exec_on_timeout;
    p->kill.fn = cay__exec_on_kill;
    p->linger.fn = cay__exec_on_linger;
    char *const *argv = k->argv;
    if (m->flags & CAY_SPAWN_SHELL)
        argv += m->flags & CAY_SPAWN_LOGIN ? 3 : 2; /* without the shell and its options */
    format_command(p, argv);
    p->next = h->procs;
    h->procs = p;
    return p;
}

static void proc_streams(holder_proc *p, child_plan *k, const cay_m_spawn *m, int *fds, int nfds)
{
    static const uint32_t bits[] = { CAY_SPAWN_OUT, CAY_SPAWN_ERR };
    int at = 0;
    cay_m_data d;
    for (int i = 0; i < 2; i++) {
        if (k->mine[i + 1] < 0)
            continue;
        cay__stream_open(&p->out[i], CAY_STEAL_FD(k->mine[i + 1]));
        if ((m->flags & bits[i]) && at < nfds)
            cay__stream_attach(&p->out[i], 0, CAY_STEAL_FD(fds[at++]), &d);
    }
    if (k->mine[0] >= 0)
        cay__input_open(&p->in, &p->h->loop, CAY_STEAL_FD(k->mine[0]));
}

static void start_process(holder_conn *c, const cay_m_spawn *m, child_plan *k, int *fds, int nfds)
{
    host *h = c->h;
    int ctl = -1;
    pid_t reaper = cay__child_start(&k->s, &ctl);
    if (reaper < 0) {
        cay__conn_error(c, CAY_ENOSPACE, errno, "fork",
                        "no more processes can be made on this host");
        return;
    }
    holder_proc *p = proc_new(h, m, k);
    p->ctl = (cay__watch){ .fd = ctl, .events = EPOLLIN, .fn = cay__exec_on_ctl };
    p->reaper = reaper;
    cay__loop_add(&h->loop, &p->ctl);
    proc_streams(p, k, m, fds, nfds);
    if (m->timeout_ms)
        cay__timer_after(&h->loop, &p->timeout,
                         (int64_t)CAY_MIN(m->timeout_ms, (uint64_t)INT64_MAX / 4));
    p->starter = c->w.fd;
    if (m->flags & CAY_SPAWN_WAIT)
        cay__waiter_add(&p->waiters, c->w.fd, false);
}

/* Answers by an error what cannot be. */
static bool refuse_spawn(holder_conn *c, child_plan *k, const cay_m_spawn *m)
{
    holder_proc *same = NULL;
    if (*k->tag)
        same = cay__exec_find(c->h, k->tag);
    if (!cay__exec_user(c, k->user, &k->who))
        return true;
    if ((m->flags & CAY_SPAWN_ROOT) && geteuid() != 0)
        cay__conn_error(c, CAY_ENOTSUP, 0, "profile_not_supported",
                        "there is no root profile without namespaces; use provider native");
    else if (same && !same->reaped)
        cay__conn_error(c, CAY_EEXIST, 0, "tag_in_use", "a live process has that tag already");
    else
        return false;
    return true;
}

static void prepare_spawn(holder_conn *c, child_plan *k, const cay_m_spawn *m, const char *env,
                          int *fds, int nfds)
{
    char msg[216];
    k->s.cols = m->cols;
    k->s.rows = m->rows;
    if (!plan_surroundings(c->h, k, m, env)) {
        int e = errno;
        CAY_FORMAT(msg, "working directory: %s", strerror(e));
        cay__conn_error(c, cay_code_of_errno(e), e, "cwd", msg);
    } else if (!open_streams(k, m)) {
        cay__conn_error(c, CAY_ENOSPACE, errno, "streams",
                        "no more descriptors for the process's streams");
    } else {
        start_process(c, m, k, fds, nfds);
    }
}

void cay__exec_spawn(holder_conn *c, const cay_m_spawn *m, const char *blob, const char *labels,
                     size_t nlabels, int *fds, int nfds)
{
    child_plan k = { .s = { .cwd = -1, .in = -1, .out = -1, .err = -1 },
                     .mine = { -1, -1, -1 },
                     .labels = labels,
                     .nlabels = nlabels };
    const char *at = blob;
    if (m->argc < 1 || m->argc > ARGS_MAX) {
        cay__conn_error(c, CAY_ETOOBIG, 0, "arguments_too_many",
                        "too many arguments; pass them by a file");
        return;
    }
    k.user = next_string(&at);
    k.cwd = next_string(&at);
    k.tag = next_string(&at);
    plan_argv(&k, m, &at);
    if (!refuse_spawn(c, &k, m))
        prepare_spawn(c, &k, m, at, fds, nfds);
    plan_close(&k);
}

/* Waits for the reaper's first word: it comes when the command runs, or could not be started. */
static int first_word(int ctl, const char **step)
{
    static char words[sizeof(((child_msg *)0)->text)];
    struct pollfd p = { .fd = ctl, .events = POLLIN };
    child_msg m = { .op = CHILD_FAILED, .a = ECHILD, .text = "reaper" };
    if (poll(&p, 1, OWN_MS) != 1 ||
        cay__fd_recv(ctl, &m, sizeof m, NULL, NULL, MSG_DONTWAIT) != sizeof m)
        m = (child_msg){ .op = CHILD_FAILED, .a = ECHILD, .text = "reaper" };
    if (m.op == CHILD_STARTED)
        return m.a;
    CAY_COPY(words, m.text);
    *step = words;
    errno = CAY_OR(m.a, ECHILD);
    return -1;
}

/* A tenant's, as sudo sends it: the strings are counted, and the last one has its end. */
static bool is_whole_blob(const exec_own *o, const char *blob, size_t len)
{
    return o->argc >= 1 && o->argc <= ARGS_MAX && o->envc <= ARGS_MAX &&
           cay__blob_is_whole(blob, len, 3 + (uint64_t)o->argc + o->envc);
}

static int own_start(host *h, child_plan *k, const exec_own *o, const char *env, int *ctl,
                     int *reaper, const char **step)
{
    cay_m_spawn m = { .flags = o->flags, .argc = o->argc, .envc = o->envc };
    if (o->ctty >= 0)
        m.flags |= CAY_SPAWN_TTY; /* for TERM alone */
    k->s.ctty = o->ctty + 1;
    *step = "cwd";
    if (!plan_surroundings(h, k, &m, env))
        return -1;
    for (int i = 0; i < 3; i++)
        *(int *[]){ &k->s.in, &k->s.out, &k->s.err }[i] = o->io[i];
    *step = "fork";
    *reaper = cay__child_start(&k->s, ctl);
    k->s.in = k->s.out = k->s.err = -1; /* the caller's */
    if (*reaper < 0)
        return -1;
    return first_word(*ctl, step);
}

int cay__exec_own(host *h, const exec_own *o, const char *blob, size_t len, int *ctl, int *reaper,
                  const char **step)
{
    child_plan k = { .s = { .cwd = -1, .in = -1, .out = -1, .err = -1 }, .mine = { -1, -1, -1 } };
    const char *at = blob;
    *step = "request";
    if (!is_whole_blob(o, blob, len)) {
        errno = EINVAL;
        return -1;
    }
    k.user = next_string(&at);
    k.cwd = next_string(&at);
    k.tag = next_string(&at);
    int e = 0;
    if (h->who)
        e = h->who(cay__text_or(k.user, h->user), &k.who);
    if (e) {
        *step = "user";
        errno = e;
        return -1;
    }
    plan_argv(&k, &(cay_m_spawn){ .flags = o->flags, .argc = o->argc }, &at);
    int pid = own_start(h, &k, o, at, ctl, reaper, step), sys = errno;
    plan_close(&k);
    if (pid < 0)
        cay__close_fd(ctl);
    errno = sys;
    return pid;
}

holder_proc *cay__exec_adopt(host *h, const char *id, const char *tag, const char *command,
                             uint32_t flags, int fds[2])
{
    child_plan k = { .mine = { -1, fds[0], fds[1] },
                     .tag = tag,
                     .labels = "",
                     .argv = (char *[]){ (char *)command, NULL } };
    cay_m_spawn m = { .flags = flags & ~(uint32_t)CAY_SPAWN_SHELL };
    CAY_COPY(m.proc, id);
    fds[0] = fds[1] = -1;
    holder_proc *p = proc_new(h, &m, &k);
    p->running = true;
    proc_streams(p, &k, &m, NULL, 0);
    return p;
}

void cay__exec_adopted_end(holder_proc *p, int status)
{
    p->lead = 0;
    cay__exec_on_exit_status(p, &(child_msg){ .a = status });
}
