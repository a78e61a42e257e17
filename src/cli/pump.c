/* SPDX-License-Identifier: Apache-2.0 */
#include "pump.h"
#include "cli.h"
#include "out.h"
#include <base/mutant.h>
#include <base/base.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

enum {
    CHUNK = 64 << 10,
    TTY_CHUNK = 4096,
    SPLICE = 1 << 20,
    PIPE_GRACE_MS = 1000,
    FORCE_AFTER = 3
};
static const int forwarded[] = { SIGINT,  SIGTERM, SIGHUP,   SIGQUIT,
                                 SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP };

typedef struct relay {
    int from, to;
    bool escape, splice, wait_room;
    char *last;    /* where the last byte of both streams is kept, or NULL */
    char carry[4]; /* a character that the last read cut */
    size_t ncarry;
} relay;

typedef struct pump {
    cay_proc *p;
    const pump_spec *spec;
    relay out, err;
    int signals, stop; /* signalfd; eventfd that ends the feeder */
    int exit_fd;       /* readable when the command has ended */
    pthread_t feeder;
    bool feeding, broken;
    _Atomic bool left;
    char last;
    unsigned asked; /* how often the user wanted it to end */
} pump;

static sigset_t signal_set(void)
{
    sigset_t s;
    sigemptyset(&s);
    CAY_EACH(it, forwarded)
        sigaddset(&s, *it);
    return s;
}

void pump_block_signals(void)
{
    sigset_t s = signal_set();
    sigprocmask(SIG_BLOCK, &s, NULL);
}

/* Ctrl-P Ctrl-Q: true when the second key of the pair arrived. The first is held back until it is
 * clear. */
static bool detach_seen(char *buf, size_t *n, bool *held)
{
    enum { CTRL_P = 16, CTRL_Q = 17 };
    CAY_EACH_OF(it, buf, *n) {
        if (*held && *it == CTRL_Q)
            return true;
        *held = *it == CTRL_P;
    }
    return false;
}

static void *feed_stdin(void *arg)
{
    pump *u = arg;
    bool held = false;
    char *buf = cay__alloc(CHUNK);
    const cay_call call = { .size = sizeof call, .cancel_fd = u->stop };
    for (;;) {
        struct pollfd fds[] = { { .fd = 0, .events = POLLIN },
                                { .fd = u->stop, .events = POLLIN } };
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents)
            break;
        if (!fds[0].revents)
            continue;
        ssize_t got = read(0, buf, CHUNK);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0) {
            /* A terminal has no end of its own: Ctrl-D says it. */
            if (u->spec->tty)
                cay_proc_write(u->p, &call, "\x04", 1, NULL);
            else
                cay_proc_close_stdin(u->p, &call, NULL);
            break;
        }
        size_t n = (size_t)got;
        if (u->spec->detach_keys && detach_seen(buf, &n, &held)) {
            u->left = true;
            kill(getpid(), SIGWINCH); /* wakes the loop */
            break;
        }
        if (cay_proc_write(u->p, &call, buf, n, NULL) < 0)
            break;
    }
    free(buf);
    return NULL;
}

static void feeder_start(pump *u)
{
    if (u->spec->input && u->stop >= 0)
        u->feeding = pthread_create(&u->feeder, NULL, feed_stdin, u) == 0;
}

static void feeder_stop(pump *u)
{
    if (!u->feeding)
        return;
    uint64_t one = 1;
    if (write(u->stop, &one, sizeof one) == sizeof one)
        pthread_join(u->feeder, NULL);
    u->feeding = false;
}

static void stream_open(relay *s, int from, int to, bool raw, char *last)
{
    int flags = fcntl(to, F_GETFL);
    bool term = isatty(to);
    *s = (relay){
        .from = from, .to = to, .last = last, .escape = term && !raw && !CAY__MUTANT("escape")
    };
    /* splice(2) refuses files opened for appending and terminals. */
    s->splice = !term && flags >= 0 && !(flags & O_APPEND) && !last;
}

/* Writes the whole; a descriptor that somebody made non-blocking is waited for. */
static bool write_all(int fd, const char *data, size_t n)
{
    while (n) {
        ssize_t k = write(fd, data, n);
        if (k < 0 && errno == EAGAIN) {
            struct pollfd p = { .fd = fd, .events = POLLOUT };
            poll(&p, 1, -1);
            continue;
        }
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return false;
        data += k;
        n -= (size_t)k;
    }
    return true;
}

/* Bytes at the end of s that begin a character without ending it. */
static size_t cut_tail(const char *s, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = (unsigned char)s[n - k];
        if (c < 0x80)
            return 0;
        if (c >= 0xc2) {
            size_t want;
            if (c >= 0xf0)
                want = 4;
            else if (c >= 0xe0)
                want = 3;
            else
                want = 2;
            if (want > k)
                return k;
            return 0;
        }
    }
    return 0;
}

static bool put_escaped(relay *s, const char *data, size_t n, bool last)
{
    CAY_AUTOBUF whole = CAY__BUF(2 * CHUNK);
    cay__buf_add(&whole, s->carry, s->ncarry);
    cay__buf_add(&whole, data, n);
    if (last)
        s->ncarry = 0;
    else
        s->ncarry = cut_tail(whole.data, whole.len);
    size_t use = whole.len - s->ncarry;
    memcpy(s->carry, whole.data + use, s->ncarry);
    CAY_AUTOBUF safe = CAY__BUF(8 * CHUNK);
    cay__buf_safe(&safe, whole.data, use, true);
    return !safe.len || write_all(s->to, safe.data, safe.len);
}

static void stream_end(relay *s)
{
    if (s->ncarry)
        put_escaped(s, "", 0, true);
    cay__close_fd(&s->from);
}

/* Moves what is there. false: our reader is gone. */
static bool stream_move(relay *s)
{
    char buf[CHUNK];
    if (s->splice) {
        ssize_t n = splice(s->from, NULL, s->to, NULL, SPLICE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n > 0)
            return true;
        if (n == 0) {
            stream_end(s);
            return true;
        }
        if (errno == EAGAIN) {
            s->wait_room = true;
            return true;
        }
        if (errno == EINTR)
            return true;
        if (errno != EINVAL)
            return false;
        s->splice = false;
    }
    ssize_t n = read(s->from, buf, s->escape ? TTY_CHUNK : sizeof buf);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0) {
        stream_end(s);
        return true;
    }
    if (s->last)
        *s->last = buf[n - 1];
    if (s->escape)
        return put_escaped(s, buf, (size_t)n, false);
    return write_all(s->to, buf, (size_t)n);
}

static void on_winch(pump *u)
{
    uint16_t cols, rows;
    if (!u->spec->tty || !isatty(0))
        return;
    term_size(0, &cols, &rows);
    cay_proc_resize(u->p, NULL, cols, rows, NULL);
}

static void on_stop(pump *u)
{
    bool raw = term_is_raw();
    term_restore();
    raise(SIGSTOP);
    if (raw)
        term_raw(0);
    on_winch(u);
}

static void on_signal(pump *u)
{
    struct signalfd_siginfo info;
    if (read(u->signals, &info, sizeof info) != sizeof info)
        return;
    int sig = (int)info.ssi_signo;
    if (sig == SIGWINCH) {
        on_winch(u);
    } else if (sig == SIGTSTP) {
        on_stop(u);
    } else if (u->spec->watch_only) {
        u->left = true;
    } else if ((sig == SIGINT || sig == SIGTERM) && ++u->asked >= FORCE_AFTER) {
        u->left = u->asked > FORCE_AFTER; /* even killing it did not help: at least we can go */
        cay_proc_signal(u->p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
    } else {
        cay_proc_signal(u->p, NULL, sig, CAY_SCOPE_GROUP, NULL);
    }
}

static void poll_for(struct pollfd *p, const relay *s)
{
    *p = (struct pollfd){ .fd = s->wait_room ? s->to : s->from,
                          .events = s->wait_room ? POLLOUT : POLLIN };
}

/* One wait. The streams go first; a command may close them and live on, so its end is waited for
 * here too, where signals still reach it. */
static bool poll_streams(pump *u)
{
    bool open = u->out.from >= 0 || u->err.from >= 0;
    struct pollfd fds[4] = { { .fd = u->signals, .events = POLLIN } };
    relay *const streams[] = { &u->out, &u->err };
    for (size_t i = 0; i < 2; i++)
        poll_for(&fds[i + 1], streams[i]);
    fds[3] = (struct pollfd){ .fd = open ? -1 : u->exit_fd, .events = POLLIN };
    if (poll(fds, 4, -1) < 0)
        return errno == EINTR;
    if (fds[0].revents)
        on_signal(u);
    if (fds[3].revents)
        return false;
    for (size_t i = 0; i < 2; i++) {
        if (!fds[i + 1].revents || streams[i]->from < 0)
            continue;
        streams[i]->wait_room = false;
        if (!stream_move(streams[i])) {
            u->broken = true;
            return false;
        }
    }
    return !u->left;
}

/* Our reader is gone: the command learns it the way it would have without us between. */
static void end_broken(pump *u, cay_exit *ex)
{
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + PIPE_GRACE_MS };
    cay__close_fd(&u->out.from);
    cay__close_fd(&u->err.from);
    if (!u->spec->watch_only) {
        cay_proc_signal(u->p, NULL, SIGPIPE, CAY_SCOPE_GROUP, NULL);
        if (cay_proc_wait(u->p, &call, ex, NULL) < 0)
            cay_proc_signal(u->p, NULL, SIGTERM, CAY_SCOPE_TREE, NULL);
    }
    *ex = (cay_exit){
        .size = sizeof *ex, .code = 128 + SIGPIPE, .signal = SIGPIPE, .reason = "signal"
    };
}

static int pump_open(pump *u, cay_err *err)
{
    CAY_AUTOFD out = -1;
    CAY_AUTOFD errs = -1;
    sigset_t set = signal_set();
    u->exit_fd = cay_proc_exit_fd(u->p, err);
    if (u->exit_fd < 0)
        return u->exit_fd;
    if (!u->spec->no_out)
        CAY_TRY(cay_proc_output(u->p, NULL, CAY_STDOUT, u->spec->offset, &out, err));
    if (!u->spec->no_err && !u->spec->tty)
        CAY_TRY(cay_proc_output(u->p, NULL, CAY_STDERR, u->spec->offset, &errs, err));
    u->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (u->spec->input)
        u->stop = eventfd(0, EFD_CLOEXEC);
    else
        u->stop = -1;
    if (u->signals < 0 || (u->spec->input && u->stop < 0))
        return cay_fail_sys(err, "descriptors for signals");
    char *last = NULL;
    if (u->spec->newline)
        last = &u->last;
    stream_open(&u->out, CAY_STEAL_FD(out), 1, u->spec->tty, last);
    stream_open(&u->err, CAY_STEAL_FD(errs), 2, false, last);
    return 0;
}

int pump_run(cay_proc *p, const pump_spec *spec, cay_exit *ex, bool *left, cay_err *err)
{
    pump u = { .p = p, .spec = spec, .signals = -1, .stop = -1, .out.from = -1, .err.from = -1 };
    *ex = (cay_exit){ .size = sizeof *ex };
    *left = false;
    pump_block_signals();
    int rc = pump_open(&u, err);
    if (rc >= 0) {
        if (spec->tty && spec->input)
            term_raw(0);
        on_winch(&u);
        feeder_start(&u);
        while (poll_streams(&u))
            continue;
        feeder_stop(&u);
        term_restore();
        if (spec->newline && u.last && u.last != '\n')
            write_all(1, "\n", 1);
        *left = u.left;
        if (u.broken)
            end_broken(&u, ex);
        else if (!u.left)
            rc = cay_proc_wait(p, NULL, ex, err);
    }
    cay__close_fd(&u.out.from);
    cay__close_fd(&u.err.from);
    cay__close_fd(&u.signals);
    cay__close_fd(&u.stop);
    return rc;
}

void pump_tell(const cay_exit *ex)
{
    static const struct {
        const char *reason, *text;
    } rows[] = {
        { "oom", "out of memory: the command was killed; --memory gives a new sandbox more" },
        { "time", "time-out: the command and all it started were ended" },
        { "pids", "process limit reached; --pids gives a new sandbox more" },
        { "disk", "disk limit reached; --disk gives a new sandbox more" },
        { "lost", "the sandbox ended before the command did" },
        { "killed", "the sandbox was killed" },
    };
    CAY_EACH(row, rows)
        if (!strcmp(row->reason, ex->reason))
            out_note("cay: %s", row->text);
    if (ex->lost_out || ex->lost_err)
        out_note("cay: %ju bytes of output were lost: nobody read them in time",
                 (ex->lost_out + ex->lost_err));
}
