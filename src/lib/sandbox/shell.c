/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shell that stays. It runs as an interactive one without a terminal: only so an interrupt takes
 * it back to its next line whatever it is in the middle of, and an error in a script does not end
 * it. A command is one write to its stdin:
 *
 *     { __cay_a NONCE; } 2>/dev/null; command . /dev/fd/63 63<<'NONCE' 61>&- 62>&- </dev/null; {
 * __cay_z NONCE; } 2>/dev/null the text NONCE { __cay_z NONCE; } 2>/dev/null
 *
 * The text is read as a file and not evaluated, because bash then does not announce background
 * jobs; not in a function, because declarations would be local. The marks of frame.h go to copies
 * of the two streams that the command does not have, so that it may redirect its own. The last line
 * tells the end when the first was given up half-way.
 */
#include "frame.h"
#include "sandbox.h"
#include <cay/shell.h>
#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

enum {
    NAME_MAX_LEN = 32,
    OUTPUT_DEFAULT = 16 << 20,
    CHUNK = 32768,
    READY_MS = 20000,
    GRACE_MS = 1000,
    NUDGE_MS = 150,
    LOOK_MS = 15
};

struct cay_shell {
    cay_sandbox *sb;
    cay_proc *p;
    char name[NAME_MAX_LEN + 1];
    pthread_mutex_t lock; /* what follows, and one command at a time */
    bool ended;
    cay__frame frame[2];
    uint64_t at[2]; /* how far each stream was read */
    bool lost;      /* not all of it: marks may be missing */
};

static const char launch[] = "exec 8>&1 9>&2 2>/dev/null; export PS1= PS2=\n"
                             "if ! command -v bash >/dev/null; then exec /bin/sh ${1:+-l} -i\n"
                             "elif [ \"$1\" ]; then exec bash --noediting -l -i; else exec bash "
                             "--noprofile --norc --noediting -i; fi";

/* What it reads first. Descriptors above 9 are bash's alone; there 8 and 9 stay free for scripts.
 * "$?" survives. */
#define MARK(text, out, err)                                                                       \
    "set -- \"$1\" \"$?\"; printf \"\\036cay" text "\\036\" >&" out "; printf \"\\036cay" text     \
    "\\036\" >&" err "; case $- in *e*) ;; *) return \"$2\" ;; esac"
#define MARKS(out, err, kind)                                                                      \
    "__cay_a() { " MARK("<$1", out, err) "; }\n__cay_z() { " MARK(">$1 $2 " kind, out, err) "; "   \
                                                                                            "}\n"
static const char prelude[] =
    "if [ -n \"${BASH_VERSION-}\" ]; then set +o history +H; shopt -s execfail; exec 61>&8 62>&9 "
    "2>&9 8>&- 9>&-\neval '" MARKS(
        "61", "62", "b") "'\n"
                         "else exec 2>&9\n" MARKS(
                             "8", "9",
                             "s") "fi\n"
                                  "unset PS1 PS2 TMOUT PROMPT_COMMAND; PS1= PS2=\n"
                                  "trap 'kill -INT $$' URG\n" /* see escalate_interrupt() */
                                  "{ __cay_z ready; } 2>/dev/null\n";

typedef struct gather {
    const cay_shell_cmd *cmd;
    cay_stream which;
    cay__buf b;
} gather;

static int collect_output(const char *data, size_t len, void *arg)
{
    gather *g = arg;
    if (g->cmd->output)
        return g->cmd->output(g->which, data, len, g->cmd->arg);
    size_t keep = CAY_MIN(len, g->b.max - g->b.len);
    cay__buf_add(&g->b, data, keep);
    g->b.full |= keep < len;
    return 0;
}

/* Reads what is there without waiting. CAY_EGONE when the stream is over. */
static int read_available(cay_shell *sh, int i, const cay_call *call,
                          int (*fn)(const char *, size_t, void *), void *arg, cay_err *err)
{
    char buf[CHUNK];
    size_t n;
    uint64_t lost;
    bool eof = false;
    do {
        CAY_TRY(cay_proc_read(sh->p, call, i ? CAY_STDERR : CAY_STDOUT, &sh->at[i], buf, sizeof buf,
                              &n, &lost, &eof, err));
        sh->lost |= lost > 0;
        cay__frame_feed(&sh->frame[i], buf, n, fn, arg);
    } while (n);
    if (eof)
        return CAY_EGONE;
    return 0;
}

static int fail_ended(cay_shell *sh, cay_err *err)
{
    sh->ended = true;
    return cay_fail_why(err, CAY_EGONE, "shell_ended",
                        "shell %s has ended; opening it again starts a new one", sh->name);
}

/* Until it answers, and if idle is asked for until no command of anybody runs. */
static int await_shell(cay_shell *sh, const cay_call *call, bool idle, cay_err *err)
{
    int64_t until = cay__now_ms() + READY_MS;
    for (int ms = 1;; ms = CAY_MIN(2 * ms, LOOK_MS)) {
        int rc = read_available(sh, 0, call, NULL, NULL, err);
        if (rc == 0)
            rc = read_available(sh, 1, call, NULL, NULL, err);
        if (rc < 0) {
            if (rc == CAY_EGONE)
                return fail_ended(sh, err);
            return rc;
        }
        bool there = sh->frame[0].any || sh->lost;
        if (there && (!idle || (sh->frame[0].any && !sh->frame[0].open[0])))
            return 0;
        if (!there && cay__now_ms() > until)
            return cay_fail_why(err, CAY_ETIMEOUT, "shell_silent", "shell %s does not answer",
                                sh->name);
        CAY_TRY(cay__call_check(call, "shell", err));
        poll(NULL, 0, ms);
    }
}

/* One write, so that commands of others cannot come between. */
static int write_shell(cay_shell *sh, const cay_call *call, const char *text, size_t len,
                       cay_err *err)
{
    int rc;
    while ((rc = cay_proc_write(sh->p, call, text, len, err)) == CAY_EBUSY) {
        CAY_TRY(cay__call_check(call, "shell", err));
        poll(NULL, 0, LOOK_MS);
    }
    if (rc == CAY_ESTATE)
        return fail_ended(sh, err);
    return rc;
}

static int check_name(const char *name, cay_err *err)
{
    size_t n = 0;
    if (name)
        n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    if (!n || name[n] || n > NAME_MAX_LEN)
        return cay_fail_why(err, CAY_EINVAL, "shell_name",
                            "shell \"%.40s\": a name is 1 to %d letters, digits, '.', '_' or '-'",
                            CAY_OR(name, ""), NAME_MAX_LEN);
    return 0;
}

static bool is_alive(cay_proc *p)
{
    static const cay_call now = { .size = sizeof now,
                                  .deadline_ms = 1 }; /* long past: never waits */
    return cay_proc_wait(p, &now, NULL, NULL) == CAY_ETIMEOUT;
}

static cay_shell *shell_new(cay_sandbox *sb, const char *name, cay_proc *p)
{
    cay_shell *sh = cay__alloc(sizeof *sh);
    sh->sb = cay_sandbox_ref(sb);
    sh->p = p;
    CAY_COPY(sh->name, name);
    pthread_mutex_init(&sh->lock, NULL);
    return sh;
}

/* The live one with that tag. Whether it lives is known for certain once it is asked: its end may
 * be on its way to us. */
static int find_shell(cay_sandbox *sb, const cay_call *call, const char *name, const char *tag,
                      cay_shell **out, cay_err *err)
{
    cay_proc *p = NULL;
    int rc = cay_sandbox_attach(sb, call, tag, &p, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_ENOENT, "shell_not_found", "no shell %s runs in this sandbox",
                            name);
    CAY_TRY(rc);
    cay_shell *sh = shell_new(sb, name, p);
    rc = await_shell(sh, call, false, err);
    if (rc == 0) {
        *out = sh;
        return 0;
    }
    cay_shell_unref(sh);
    if (rc == CAY_EGONE)
        return cay_fail_why(err, CAY_ENOENT, "shell_not_found", "no shell %s runs in this sandbox",
                            name);
    return rc;
}

static int start_shell(cay_sandbox *sb, const cay_call *call, const cay_shell_spec *s,
                       const char *tag, cay_shell **out, cay_err *err)
{
    static const cay_pair labels[] = { { "cay.kind", "shell" }, { NULL, NULL } };
    const char *const argv[] = {
        "/bin/sh", "-c", launch, "cay-shell", s->login ? "login" : "", NULL
    };
    cay_spawn spawn = { .size = sizeof spawn,
                        .argv = argv,
                        .env = s->env,
                        .cwd = s->cwd,
                        .user = s->user,
                        .profile = s->profile,
                        .stdin_mode = CAY_STDIN_PIPE,
                        .tag = tag,
                        .labels = labels,
                        .on_full = CAY_FULL_BLOCK };
    cay_proc *p = NULL;
    CAY_TRY(cay_sandbox_spawn(sb, call, &spawn, &p, err));
    cay_shell *sh = shell_new(sb, s->name, p);
    int rc = write_shell(sh, call, prelude, sizeof prelude - 1, err);
    if (rc == 0)
        rc = await_shell(sh, call, false, err);
    if (rc < 0) {
        cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
        cay_shell_unref(sh);
        return rc;
    }
    *out = sh;
    return 0;
}

int cay_shell_open(cay_sandbox *sb, const cay_call *call, const cay_shell_spec *spec,
                   cay_shell **out, cay_err *err)
{
    CAY__OP(call, "shell.open", sb->id, err);
    cay_shell_spec s;
    char tag[NAME_MAX_LEN + 8];
    CAY_TRY(cay__spec_take(&s, sizeof s, spec, "cay_shell_spec", err));
    CAY_TRY(check_name(s.name, err));
    CAY_TRY(cay__call_check(call, "open a shell", err));
    CAY_TRY(cay__sandbox_ready(sb, err));
    CAY_FORMAT(tag, "shell:%s", s.name);
    int rc = CAY_EEXIST;
    cay_err own = CAY_ERR_INIT; /* one that has to be started first is no failure */
    for (int i = 0; i < 5 && rc == CAY_EEXIST; i++) { /* somebody may start or end it meanwhile */
        rc = find_shell(sb, call, s.name, tag, out, &own);
        if (rc == CAY_ENOENT && !s.attach)
            rc = start_shell(sb, call, &s, tag, out, &own);
        if (rc == CAY_EEXIST)
            poll(NULL, 0, LOOK_MS);
    }
    return cay__err_pass(rc, &own, err);
}

void cay_shell_unref(cay_shell *sh)
{
    if (!sh)
        return;
    cay_proc_unref(sh->p);
    cay_sandbox_unref(sh->sb);
    pthread_mutex_destroy(&sh->lock);
    free(sh);
}

cay_proc *cay_shell_proc(cay_shell *sh)
{
    return sh->p;
}

int cay_shell_end(cay_shell *sh, const cay_call *call, cay_err *err)
{
    CAY__OP(call, "shell.end", sh->sb->id, err);
    int rc = cay_proc_signal(sh->p, call, SIGKILL, CAY_SCOPE_TREE, err);
    if (rc < 0 && is_alive(sh->p))
        return rc;
    return cay_proc_wait(sh->p, call, NULL, err);
}

typedef struct job {
    cay_shell *sh;
    const cay_shell_cmd *cmd;
    char nonce[CAY__NONCE];
    gather g[2];
    int fd[2];
    bool over[2];
    int stop; /* why it is being interrupted: a code of ours, what output() said, or 0 */
    bool timed_out;
    int pressure;       /* what was done about it so far */
    int64_t ends, next; /* its time-out; the next step of an interrupt; 0: none */
    int64_t started_ms; /* wall clock, less what such clocks are apart */
} job;

static int send_frame(job *j, const cay_call *call, cay_err *err)
{
    const char *n = j->nonce, *line = j->cmd->line;
    const char *source = "7 7", *closed = "8>&- 9>&-", *newline = "\n";
    if (j->sh->frame[0].kind == 'b') {
        source = "63 63";
        closed = "61>&- 62>&-";
    }
    if (*line && line[strlen(line) - 1] == '\n')
        newline = "";
    CAY_AUTOBUF b = CAY__BUF(CAY_SHELL_LINE_MAX + 1024);
    cay__buf_fmt(&b,
                 "{ __cay_a %s; } 2>/dev/null; command . /dev/fd/%s<<'%s' %s </dev/null; { __cay_z "
                 "%s; } 2>/dev/null\n%s%s%s\n{ __cay_z %s; } 2>/dev/null\n",
                 n, source, n, closed, n, line, newline, n, n);
    return write_shell(j->sh, call, b.data, b.len, err);
}

/* When it was given up half-way and took the lines behind it along, the end is still to be told. */
static void ask_end(job *j)
{
    char text[64];
    int n = CAY_FORMAT(text, "{ __cay_z %s; } 2>/dev/null\n", j->nonce);
    cay_proc_write(j->sh->p, NULL, text, (size_t)n, NULL);
}

typedef struct family {
    int root;
    int64_t since; /* background jobs of earlier commands stay */
    char user[64];
    int pid[256], ppid[256];
    size_t n;
} family;

static int note_pid(const cay_proc_info *i, void *arg)
{
    family *f = arg;
    if (i->pid == f->root)
        CAY_COPY(f->user, i->user);
    else if (f->n < CAY_LEN(f->pid) && i->state != 'X' && i->started_ms >= f->since) {
        f->pid[f->n] = i->pid;
        f->ppid[f->n++] = i->ppid;
    }
    return 0;
}

/* All below the shell, but not the shell: by a command inside, under the shell's own user. */
static void kill_below(const job *j)
{
    cay_shell *sh = j->sh;
    family f = { .root = cay_proc_pid(sh->p), .since = j->started_ms };
    char num[CAY_LEN(f.pid)][16];
    const char *argv[CAY_LEN(f.pid) + 5] = { "/bin/sh", "-c", "kill -9 \"$@\"", "cay-shell" };
    bool ours[CAY_LEN(f.pid)] = { false };
    size_t n = 0, before;
    if (cay_sandbox_procs(sh->sb, NULL, note_pid, &f, NULL) < 0)
        return;
    do {
        before = n;
        for (size_t i = 0; i < f.n; i++) {
            bool child = f.ppid[i] == f.root;
            for (size_t k = 0; k < f.n && !child; k++)
                child = ours[k] && f.pid[k] == f.ppid[i];
            if (!child || ours[i])
                continue;
            ours[i] = true;
            CAY_FORMAT(num[n], "%d", f.pid[i]);
            argv[4 + n] = num[n];
            n++;
        }
    } while (n > before);
    cay_result r = { .size = sizeof r };
    cay_spawn s = {
        .size = sizeof s, .argv = argv, .user = f.user[0] ? f.user : NULL, .timeout_ms = GRACE_MS
    };
    if (n && cay_sandbox_run(sh->sb, NULL, &s, NULL, 0, 4096, &r, NULL) == 0)
        cay_result_clear(&r);
}

/* One step: as Ctrl-C does; ask whether it is over; kill what the shell waits for; in the end the
 * shell. */
static void escalate_interrupt(job *j)
{
    cay_shell *sh = j->sh;
    int64_t wait = GRACE_MS - NUDGE_MS;
    switch (j->pressure++) {
    case 0:
        cay_proc_signal(sh->p, NULL, SIGINT, CAY_SCOPE_GROUP, NULL);
        wait = NUDGE_MS;
        break;
    case 1: ask_end(j); break;
    case 2:
        /* A shell whose child died of anything but an interrupt goes on with the rest of the line.
         * Not so when it then finds a trap to run that interrupts it; URG is ignored where that was
         * taken away. */
        cay_proc_signal(sh->p, NULL, SIGURG, CAY_SCOPE_ONE, NULL);
        kill_below(j);
        wait = NUDGE_MS;
        break;
    case 3: ask_end(j); break;
    case 4: /* at level 1 no command may signal another's */
        cay_proc_signal(sh->p, NULL, SIGURG, CAY_SCOPE_ONE, NULL);
        cay_proc_signal(sh->p, NULL, SIGKILL, CAY_SCOPE_BELOW, NULL);
        wait = NUDGE_MS;
        break;
    case 5: ask_end(j), wait = 8 * GRACE_MS; break; /* on a busy machine it is slow, and not lost */
    default: cay_proc_signal(sh->p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL); wait = 60 * GRACE_MS;
    }
    j->next = cay__now_ms() + wait;
}

static void interrupt_job(job *j, int why)
{
    if (!j->stop && !j->timed_out) {
        j->stop = why;
        j->timed_out = !why;
        escalate_interrupt(j);
    }
}

/* A descriptor that ended: with the process, or because what serves it was replaced. */
static int reopen_stream(job *j, int i, cay_err *err)
{
    cay_shell *sh = j->sh;
    cay__close_fd(&j->fd[i]);
    int rc = read_available(sh, i, NULL, collect_output, &j->g[i], err);
    if (rc == 0)
        return cay_proc_output(sh->p, NULL, i ? CAY_STDERR : CAY_STDOUT, sh->at[i], &j->fd[i], err);
    j->over[i] = true;
    if (rc == CAY_EGONE || rc == CAY_ENOENT)
        return 0;
    return rc;
}

static int pull_stream(job *j, int i, cay_err *err)
{
    char buf[CHUNK];
    ssize_t n = read(j->fd[i], buf, sizeof buf);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n <= 0)
        return reopen_stream(j, i, err);
    j->sh->at[i] += (uint64_t)n;
    int rc = cay__frame_feed(&j->sh->frame[i], buf, (size_t)n, collect_output, &j->g[i]);
    if (rc)
        interrupt_job(j, rc);
    return 0;
}

/* How long until something is due; what is due is done. */
static int run_due_steps(job *j, const cay_call *call)
{
    int64_t now = cay__now_ms(), left = cay__call_left(call);
    cay__frame *f = &j->sh->frame[0];
    if (f->begun && !j->ends && j->cmd->timeout_ms)
        j->ends = now + (int64_t)j->cmd->timeout_ms;
    int rc = 0;
    if (!j->next)
        rc = cay__call_check(call, "shell command", NULL);
    if (rc < 0 || (j->ends && now >= j->ends && !j->next))
        interrupt_job(j, rc);
    else if (j->next && now >= j->next)
        escalate_interrupt(j);
    if (j->next)
        return (int)CAY_MAX(j->next - cay__now_ms(), 0);
    if (j->ends && (left < 0 || j->ends - now < left))
        left = j->ends - now;
    return (int)left;
}

static int pump_output(job *j, const cay_call *call, cay_err *err)
{
    cay__frame *f = j->sh->frame;
    while (!(f[0].done || j->over[0]) || !(f[1].done || j->over[1])) {
        struct pollfd p[3] = { { .fd = f[0].done ? -1 : j->fd[0], .events = POLLIN },
                               { .fd = f[1].done ? -1 : j->fd[1], .events = POLLIN },
                               { .fd = j->next ? -1 : cay__call_cancel(call), .events = POLLIN } };
        if (poll(p, 3, run_due_steps(j, call)) < 0 && errno != EINTR)
            return cay_fail_sys(err, "poll");
        for (int i = 0; i < 2; i++)
            if (p[i].fd >= 0 && p[i].revents)
                CAY_TRY(pull_stream(j, i, err));
    }
    return 0;
}

static int finish_job(job *j, const cay_call *call, cay_result *r, cay_err *err)
{
    const cay__frame *f = j->sh->frame;
    if (!f[0].done) { /* nobody will tell any more */
        j->sh->ended = true;
        if (is_alive(j->sh->p)) /* it closed its own streams */
            cay_proc_signal(j->sh->p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
        CAY_TRY(cay_proc_wait(j->sh->p, NULL, &r->exit, err));
    }
    if (j->stop > 0)
        return j->stop;
    if (j->stop == CAY_ETIMEOUT || j->stop == CAY_ECANCELED)
        return cay__call_check(call, "shell command", err);
    if (f[0].done)
        r->exit.code = f[0].code;
    const char *reason = "ended";
    if (j->timed_out)
        reason = "time";
    else if (f[0].done)
        reason = "exit";
    CAY_COPY(r->exit.reason, reason);
    return j->stop;
}

static int run_job(job *j, const cay_call *call, cay_result *r, cay_err *err)
{
    cay_shell *sh = j->sh;
    if (sh->ended)
        return fail_ended(sh, err);
    CAY_TRY(await_shell(sh, call, true, err));
    cay__id_make(j->nonce, 'n');
    for (int i = 0; i < 2; i++) {
        cay__frame_expect(&sh->frame[i], j->nonce);
        CAY_TRY(
            cay_proc_output(sh->p, call, i ? CAY_STDERR : CAY_STDOUT, sh->at[i], &j->fd[i], err));
    }
    j->started_ms = cay__clock_ms() - 50;
    CAY_TRY(send_frame(j, call, err));
    CAY_TRY(pump_output(j, call, err));
    return finish_job(j, call, r, err);
}

int cay_shell_run(cay_shell *sh, const cay_call *call, const cay_shell_cmd *spec, cay_result *out,
                  cay_err *err)
{
    CAY__OP(call, "shell.run", sh->sb->id, err);
    cay_shell_cmd cmd;
    cay_result r = { .size = sizeof r, .exit.size = sizeof r.exit };
    CAY_TRY(cay__spec_take(&cmd, sizeof cmd, spec, "cay_shell_cmd", err));
    if (!cmd.line)
        return cay_fail_why(err, CAY_EINVAL, "command_missing", "no command: set line");
    if (strlen(cmd.line) > CAY_SHELL_LINE_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "line_too_long",
                            "a command of %zu bytes; at most %d, put a longer script in a file",
                            strlen(cmd.line), CAY_SHELL_LINE_MAX);
    CAY_TRY(cay__call_check(call, "shell command", err));
    CAY_TRY(cay__sandbox_ready(sh->sb, err));
    size_t max = CAY_OR(cmd.max_output, OUTPUT_DEFAULT);
    job j = { .sh = sh,
              .cmd = &cmd,
              .fd = { -1, -1 },
              .g = { { &cmd, CAY_STDOUT, CAY__BUF(max) }, { &cmd, CAY_STDERR, CAY__BUF(max) } } };
    pthread_mutex_lock(&sh->lock);
    int rc = run_job(&j, call, &r, err);
    pthread_mutex_unlock(&sh->lock);
    cay__close_fd(&j.fd[0]);
    cay__close_fd(&j.fd[1]);
    if (rc == 0) {
        cay__op_exit(&op_, r.exit.code);
        CAY_EACH_OF(it, j.g, 2)
            cay__buf_add(&it->b, "", 0);
        r.out = j.g[0].b.data;
        r.out_len = j.g[0].b.len;
        r.errout = j.g[1].b.data;
        r.errout_len = j.g[1].b.len;
        r.truncated = j.g[0].b.full || j.g[1].b.full;
        if (out) {
            cay__answer_give(out, &r, sizeof r);
            return 0;
        }
    }
    cay__buf_clear(&j.g[0].b);
    cay__buf_clear(&j.g[1].b);
    return rc;
}
