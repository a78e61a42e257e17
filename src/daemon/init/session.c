/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"
#include "session_ops.h"
#include <base/base.h>
#include <base/sanitize.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>

/* What a request of each kind carries; anything else is refused before the operation sees it. */
enum { PATH = 1, SECOND = 2, DATA = 4, FD = 8 };
static const struct {
    int (*fn)(cay__ses *s);
    uint8_t has;
    uint16_t flags;
} ops[CAY_SES_OPS] = {
    [CAY_SES_READ] = { cay__ses_read, PATH | FD, 0 },
    [CAY_SES_PUT] = { cay__ses_put, PATH | DATA,
                      CAY_SES_PARENTS | CAY_SES_APPEND | CAY_SES_EXCLUSIVE },
    [CAY_SES_UPLOAD] = { cay__ses_upload, PATH | FD,
                         CAY_SES_PARENTS | CAY_SES_APPEND | CAY_SES_EXCLUSIVE },
    [CAY_SES_STAT] = { cay__ses_stat, PATH, CAY_SES_FOLLOW },
    [CAY_SES_LIST] = { cay__ses_list, PATH, 0 },
    [CAY_SES_MKDIR] = { cay__ses_mkdir, PATH, CAY_SES_PARENTS },
    [CAY_SES_REMOVE] = { cay__ses_remove, PATH, CAY_SES_RECURSIVE },
    [CAY_SES_RENAME] = { cay__ses_rename, PATH | SECOND, 0 },
    [CAY_SES_CHMOD] = { cay__ses_chmod, PATH, 0 },
    [CAY_SES_CHOWN] = { cay__ses_chown, PATH, 0 },
    [CAY_SES_SYMLINK] = { cay__ses_symlink, PATH | SECOND, 0 },
    [CAY_SES_GETXATTR] = { cay__ses_getxattr, PATH | SECOND, 0 },
    [CAY_SES_SETXATTR] = { cay__ses_setxattr, PATH | SECOND | DATA, CAY_SES_DROP },
    [CAY_SES_LISTXATTR] = { cay__ses_listxattr, PATH, 0 },
    [CAY_SES_GLOB] = { cay__ses_glob, PATH | SECOND, 0 },
    [CAY_SES_GREP] = { cay__ses_grep, PATH | SECOND | DATA, CAY_SES_PLAIN | CAY_SES_NOCASE },
    [CAY_SES_WATCH] = { cay__ses_watch, PATH, CAY_SES_RECURSIVE },
    [CAY_SES_PORTS] = { cay__ses_ports, 0, 0 },
    [CAY_SES_CONNECT] = { cay__ses_connect, 0, 0 },
    [CAY_SES_PS] = { cay__ses_ps, 0, 0 },
    [CAY_SES_FILL] = { cay__ses_fill, FD, 0 },
};

/* Packets are sent while they are this young, so that a slow search shows what it has. */
enum { FRESH_MS = 50 };

static int send_out(cay__ses *s, int sys, uint16_t flags, int fd)
{
    cay_ses_rep rep = { .magic = CAY_SES_MAGIC,
                        .op = s->req->op,
                        .flags = flags,
                        .seq = s->req->seq,
                        .sys = sys,
                        .count = s->count,
                        .len = s->len,
                        .a = s->a };
    memcpy(s->out, &rep, sizeof rep);
    ssize_t n = cay__fd_send(s->sock, s->out, sizeof rep + s->len, &fd, fd >= 0, 0);
    s->len = s->count = 0;
    s->sent_ms = cay__now_ms();
    if (n < 0)
        return -1;
    return 0;
}

int cay__ses_answer(cay__ses *s, int sys, int fd)
{
    if (sys)
        s->len = s->count = 0;
    return send_out(s, sys, s->flags, fd);
}

int cay__ses_record(cay__ses *s, const cay__ses_part *parts, int n)
{
    size_t room = CAY_SES_MAX - sizeof(cay_ses_rep), need = 0;
    CAY_EACH_OF(it, parts, n)
        need += it->n;
    if (need > room) {
        errno = E2BIG;
        return -1;
    }
    bool old = s->count && cay__now_ms() - s->sent_ms > FRESH_MS;
    if ((old || need > room - s->len) && send_out(s, 0, CAY_SES_MORE, -1) < 0)
        return -1;
    char *at = s->out + sizeof(cay_ses_rep) + s->len;
    CAY_EACH_OF(part, parts, n) {
        if (part->n)
            memcpy(at, part->p, part->n);
        at += part->n;
    }
    s->len += (uint32_t)need;
    s->count++;
    return 0;
}

bool cay__ses_gone(void *arg)
{
    struct pollfd p = { .fd = ((cay__ses *)arg)->sock, .events = POLLRDHUP };
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR));
}

/* A part of the tail: n bytes without NUL, then a NUL. */
static const char *take_name(char **at, char *end, uint32_t n)
{
    char *p = *at;
    if (n >= CAY_SES_PATH || (size_t)(end - p) <= n || p[n] || memchr(p, 0, n))
        return NULL;
    *at = p + n + 1;
    return p;
}

static bool parse_request(cay__ses *s, size_t n)
{
    if (n < sizeof *s->req || s->req->magic != CAY_SES_MAGIC)
        return false;
    char *at = s->in + sizeof *s->req, *end = s->in + n;
    s->path = take_name(&at, end, s->req->path);
    if (s->path)
        s->second = take_name(&at, end, s->req->second);
    else
        s->second = NULL;
    s->data = at;
    return s->second && s->req->data <= CAY_SES_INLINE && (size_t)(end - at) == s->req->data;
}

static bool is_valid_request(const cay__ses *s)
{
    const cay_ses_req *r = s->req;
    if (r->op >= CAY_SES_OPS || !ops[r->op].fn)
        return false;
    unsigned has = ops[r->op].has;
    return !(r->flags & ~ops[r->op].flags) && (has & PATH || !r->path) &&
           (has & SECOND || !r->second) && (has & DATA || !r->data) && (s->fd >= 0) == !!(has & FD);
}

bool cay__ses_enter(cay__ses *s)
{
    if (s->lock < 0)
        return true;
    while (flock(s->lock, LOCK_SH) < 0)
        if (errno != EINTR)
            return false;
    s->fs.root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return s->fs.root >= 0;
}

void cay__ses_leave(cay__ses *s)
{
    if (s->lock < 0)
        return;
    cay__close_fd(&s->fs.root);
    flock(s->lock, LOCK_UN);
}

/* One request. False: the session is over. */
static bool serve_request(cay__ses *s)
{
    int nfds = 1, fd = -1;
    ssize_t n = cay__fd_recv(s->sock, s->in, CAY_SES_MAX, &fd, &nfds, 0);
    if (n > 0 && nfds == 1)
        s->fd = fd;
    else
        s->fd = -1;
    if (n <= 0 || !parse_request(s, (size_t)n)) {
        cay__close_fd(&s->fd);
        return false;
    }
    s->len = s->count = 0;
    s->flags = 0;
    s->a = 0;
    s->sent_ms = cay__now_ms();
    if (!cay__ses_enter(s)) {
        cay__close_fd(&s->fd);
        return false;
    }
    bool known = is_valid_request(s);
    if (known)
        errno = EIO;
    else
        errno = ENOSYS; /* of what fails without saying why */
    int rc = -1;
    if (known)
        rc = ops[s->req->op].fn(s);
    int e = errno;
    cay__ses_leave(s); /* who is answered may ask for another root */
    errno = e;
    if (rc == 0 || rc == -1) {
        if (cay__ses_answer(s, rc < 0 ? CAY_OR(errno, EIO) : 0, -1) < 0)
            rc = CAY__SES_END;
        else
            rc = CAY__SES_DONE;
    }
    cay__close_fd(&s->fd);
    return rc != CAY__SES_END;
}

static void serve_session(int sock, int root, int lock, const char *workdir, const char *home)
{
    char *mem =
        mmap(NULL, 2 * CAY_SES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED)
        return;
    cay__ses s = { .sock = sock, .fd = -1, .lock = lock, .in = mem, .out = mem + CAY_SES_MAX };
    s.fs = (cay__fs){
        .root = root, .workdir = workdir, .home = home, .stop = cay__ses_gone, .stop_arg = &s
    };
    s.req = (const cay_ses_req *)(void *)s.in;
    while (serve_request(&s))
        ;
    munmap(mem, 2 * CAY_SES_MAX);
}

void cay__session_serve(int sock, int root, const char *workdir, const char *home)
{
    serve_session(sock, root, -1, workdir, home);
}

static void on_wake_signal(int sig) {}

_Noreturn void cay__session_main(int sock, int lock, const char *workdir, const char *home)
{
    /* Nothing of init may stay open beside the tenant's files. */
    if (sock != 3 || lock != 4)
        _exit(1);
    cay__fd_close_from(5);
    /* The tenant must not read or steer the worker although it runs under the same ids. */
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NAME, "cay-session");
    sigset_t none;
    sigemptyset(&none);
    sigaddset(&none, SIGUSR1); /* the root may be another: heard by a watch alone, while it waits */
    signal(SIGUSR1, on_wake_signal);
    sigprocmask(SIG_SETMASK, &none, NULL); /* init blocks what it reads from a signalfd */
    signal(SIGPIPE, SIG_IGN);
    umask(022);
    /* A regular expression can ask for any amount of memory; the limit makes that an error of its
     * own. */
    struct rlimit lim = { 256u << 20, 256u << 20 };
    if (!CAY__SANITIZED) /* whose shadow alone is larger */
        setrlimit(RLIMIT_AS, &lim);
    serve_session(sock, -1, lock, workdir, home);
    _exit(0);
}
