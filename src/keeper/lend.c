/* SPDX-License-Identifier: Apache-2.0 */
#include "lend.h"
#include "job.h"
#include "netns.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/fd.h>
#include <base/str.h>
#include <egress/proto.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
enum { ANSWER_MS = 5000, DIAL_MS = 60000, STEADY_MS = 5000, AGAIN_MS = 60000, WINDOW = 32, TRIES = 3, HEAD = 40 };

/* One sandbox that cay-egress serves, or has to be told of again. */
typedef struct lent {
    struct lent *next;
    char         id[CAY_WIRE_ID];
    uint64_t     cookie, revision;
    uint32_t     flags;
    int          fd[CAY__NET_FDS];
    int          policy; /* the text that holds, sealed; -1: none yet */
    bool         told;   /* the egress that we speak with has it */
    unsigned     refused;  /* so many times it did not want it */
    int64_t      again_ms; /* and is not asked again before */
} lent;

/* One thing that is to be said to cay-egress. */
typedef struct ask {
    struct ask *next;
    uint64_t    seq; /* 0: not said yet */
    uint32_t    job; /* the keeper's, 0: our own */
    cay_m_net   m;
    int         policy;   /* SET: the new text */
    uint64_t    revision; /* and its number */
    int64_t     until;
    unsigned    tries;
} ask;

static struct {
    int         sock, egress, notify;
    int         mode;
    const char *run, *keeper;
    lent       *all;
    ask        *asks;
    uint64_t    seq;
    unsigned    out, fails;
    int64_t     again_ms, since_ms; /* not started before; connected since */
    bool        reload;             /* the operator's file changed */
    lent       *old;                /* one of each that nobody needs is kept: the allocator would unmap its page, and map it for the next */
    ask        *over;
} L;

static cay_job job;
static const char off_text[] = "cay-net 1\nmode off\n";

/* ---- answers to the keeper ---- */

void lender_answer(uint32_t seq, int code, int sys, const char *reason, const char *msg, const cay_m_netinfo *net, int fd)
{
    cay_job_done d = { .seq = seq, .error = { .code = code, .sys = sys } };
    if (!seq) {
        if (code)
            dprintf(2, "network: %s\n", msg);
        return;
    }
    cay__str_copy(d.error.reason, sizeof d.error.reason, reason);
    cay__str_copy(d.error.msg, sizeof d.error.msg, msg);
    if (net)
        d.net = *net;
    cay__fd_send(L.sock, &d, sizeof d, &fd, fd >= 0, 0);
}

static void refuse(uint32_t seq, int code, const char *reason, const char *msg)
{
    lender_answer(seq, code, errno, reason, msg, NULL, -1);
}

/* ---- policies on disk: "cay-policy REVISION", spaces up to 39 bytes, newline, the text ---- */

static void path_of(char *out, size_t cap, const char *id, const char *name)
{
    cay__str_join(out, cap, "sandboxes/", id, name, NULL);
}

static bool copy_text(int from, off_t at, int to)
{
    char buf[16384];
    for (ssize_t n; (n = pread(from, buf, sizeof buf, at)) != 0; at += n)
        if (n < 0 || !cay__fd_write_all(to, buf, (size_t)n))
            return false;
    return true;
}

static bool write_new(const lent *l, const ask *a)
{
    char path[64], head[HEAD], n[21];
    path_of(path, sizeof path, l->id, "/policy.new");
    memset(head, ' ', sizeof head);
    cay__str_join(head, sizeof head, "cay-policy ", cay__str_u64(n, a->revision), NULL);
    head[strlen(head)] = ' ';
    head[HEAD - 1] = '\n';
    unlink(path);
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd >= 0 && cay__fd_write_all(fd, head, sizeof head) && copy_text(a->policy, 0, fd);
}

static void drop_new(const char *id)
{
    char path[64];
    path_of(path, sizeof path, id, "/policy.new");
    unlink(path);
}

static bool keep_new(const char *id)
{
    char from[64], to[64];
    path_of(from, sizeof from, id, "/policy.new");
    path_of(to, sizeof to, id, "/policy");
    return rename(from, to) == 0;
}

static int text_memfd(int from, off_t at, const char *words)
{
    CAY_AUTOFD fd = (int)syscall(SYS_memfd_create, "cay-policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || !(words ? cay__fd_write_all(fd, words, strlen(words)) : copy_text(from, at, fd)) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return -1;
    return CAY_STEAL_FD(fd);
}

/* -1 with ENOENT: none was set. Anything else that is wrong with it is an error: what a sandbox may reach is not guessed. */
static int read_policy(const char *id, uint64_t *revision)
{
    char path[64], head[HEAD + 1] = "";
    path_of(path, sizeof path, id, "/policy");
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    bool good = cay__fd_read_all(fd, head, HEAD) == HEAD && cay__str_starts(head, "cay-policy ") && head[HEAD - 1] == '\n';
    head[11 + strcspn(head + 11, " \n")] = 0;
    errno = EUCLEAN;
    return good && cay__str_to_u64(head + 11, revision) ? text_memfd(fd, HEAD, NULL) : -1;
}

/* ---- what is lent ---- */

static lent *find(const char *id)
{
    for (lent *l = L.all; l; l = l->next)
        if (!strcmp(l->id, id))
            return l;
    return NULL;
}

static int option(int fd, int name)
{
    int v = -1;
    socklen_t n = sizeof v;
    return getsockopt(fd, SOL_SOCKET, name, &v, &n) < 0 ? -1 : v;
}

/* After an adoption they come from init: each must be what it was made as, in the namespace that the journal names. */
static bool sound(const int *fd, uint64_t cookie, bool bag)
{
    static const struct {
        int type, protocol;
        uint16_t port;
    } want[] = { { SOCK_STREAM, IPPROTO_TCP, CAY__NET_PORT }, { SOCK_STREAM, IPPROTO_TCP, 53 }, { SOCK_DGRAM, IPPROTO_UDP, 53 } };
    struct stat st;
    /* What is in it is looked at by egress, each time that it is lent. */
    if (bag && (option(fd[CAY__NET_TCP_FD], SO_DOMAIN) != AF_UNIX || option(fd[CAY__NET_TCP_FD], SO_TYPE) != SOCK_SEQPACKET))
        return false;
    for (int i = bag; i < CAY__NET_MAP; i++) {
        struct sockaddr_in6 sa = { 0 };
        uint64_t is = 0;
        socklen_t n = sizeof is, len = sizeof sa;
        if (option(fd[i], SO_DOMAIN) != AF_INET6 || option(fd[i], SO_TYPE) != want[i].type || option(fd[i], SO_PROTOCOL) != want[i].protocol ||
            getsockname(fd[i], (struct sockaddr *)&sa, &len) < 0 || (ntohs(sa.sin6_port) != want[i].port && (want[i].type == SOCK_STREAM || sa.sin6_port)))
            return false;
        if (cookie && (getsockopt(fd[i], SOL_SOCKET, SO_NETNS_COOKIE, &is, &n) < 0 || is != cookie))
            return false;
    }
    int seals = fcntl(fd[CAY__NET_MAP], F_GET_SEALS);
    return seals >= 0 && (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW) && fstat(fd[CAY__NET_MAP], &st) == 0 &&
           st.st_size == (off_t)sizeof(cay_n_map);
}

static void forget(lent *l)
{
    for (lent **p = &L.all; *p; p = &(*p)->next)
        if (*p == l) {
            *p = l->next;
            break;
        }
    for (int i = 0; i < CAY__NET_FDS; i++)
        cay__close_fd(&l->fd[i]);
    cay__close_fd(&l->policy);
    free(L.old);
    L.old = l;
}

/* The sandbox of the current job, taken in when it is new; NULL when it was refused. */
static lent *take_in(int *fds, int nfds)
{
    lent *l = find(job.net.id);
    errno = 0;
    if (l && l->cookie == job.cookie)
        return l;
    if (!job.how || nfds < CAY__NET_FDS) {
        refuse(job.seq, CAY_EISOLATION, "egress_unavailable", "this host cannot give a sandbox a way out, only policy off; `cay doctor` says why (egress-policy)");
        return NULL;
    }
    if (!sound(fds, job.cookie, job.how == CAY__NET_PORTS)) {
        refuse(job.seq, CAY_EUPSTREAM, "network_lost", "the sandbox's network sockets are not its own any more; make a new sandbox");
        return NULL;
    }
    if (!netns_serve(fds)) {
        refuse(job.seq, CAY_ESTATE, "port_53_taken", "a program in the sandbox holds UDP port 53, where names are answered; end it and try again");
        return NULL;
    }
    if (l)
        forget(l);
    l = CAY_STEAL(L.old) ?: cay__alloc(sizeof *l);
    *l = (lent){ .next = L.all, .cookie = job.cookie, .flags = job.how == CAY__NET_NAT ? CAY_N_FALLBACK : job.how == CAY__NET_PORTS ? CAY_N_PORTS : 0, .policy = -1 };
    cay__str_copy(l->id, sizeof l->id, job.net.id);
    for (int i = 0; i < CAY__NET_FDS; i++)
        l->fd[i] = CAY_STEAL_FD(fds[i]);
    L.all = l;
    return l;
}

/* ---- speaking with cay-egress ---- */

static bool say(uint16_t type, const void *body, size_t len, const char *tail, const int *fds, int nfds)
{
    cay_msg h = { CAY_MSG_MAGIC, CAY_N_VERSION, type, tail ? (uint32_t)strlen(tail) : 0, 0 };
    struct iovec v[3] = { { &h, sizeof h }, { (void *)body, len }, { (void *)tail, h.tail } };
    return cay__fd_sendv(L.egress, v, tail ? 3 : 2, fds, nfds, MSG_DONTWAIT) >= 0;
}

static bool say_box(uint16_t type, const lent *l, uint64_t seq, uint64_t revision, int policy)
{
    cay_n_box m = { .seq = seq, .cookie = l->cookie, .revision = revision, .flags = l->flags };
    int fds[5] = { l->fd[0], l->fd[1], l->fd[2], l->fd[3], policy };
    memcpy(m.id, l->id, sizeof m.id);
    return say(type, &m, sizeof m, NULL, type == CAY_N_LEND ? fds : &policy, type == CAY_N_LEND ? 5 : policy >= 0);
}

static void drop_ask(ask *a)
{
    for (ask **p = &L.asks; *p; p = &(*p)->next)
        if (*p == a) {
            *p = a->next;
            break;
        }
    L.out -= a->seq != 0;
    cay__close_fd(&a->policy);
    free(L.over);
    L.over = a;
}

/* Nobody ever served it, and nobody will: connections are refused again instead of waiting. */
static void unserve(const char *id)
{
    lent *l = find(id);
    if (!l || l->policy >= 0)
        return;
    netns_unserve(l->fd);
    forget(l);
}

/* It died, or does not answer: what was on its way is said again to the next one, a few times. */
static void lost(const char *why)
{
    int64_t now = cay__boot_ms();
    cay__close_fd(&L.egress);
    L.out = 0;
    L.fails = now - L.since_ms > STEADY_MS ? 1 : L.fails + 1;
    L.again_ms = L.fails > 1 ? now + (50ll << CAY_MIN(L.fails, 7u)) : now;
    for (lent *l = L.all; l; l = l->next) {
        l->told = false;
        l->again_ms = l->refused = 0;
    }
    for (ask *a = L.asks, *next; a; a = next) {
        next = a->next;
        bool dial = a->seq && (a->m.op == CAY_NET_DIAL || a->m.op == CAY_NET_WHY);
        a->seq = 0;
        if (++a->tries < TRIES && !dial)
            continue;
        drop_new(a->m.id);
        errno = 0;
        refuse(a->job, CAY_EBUSY, "egress_failed", why);
        unserve(a->m.id);
        drop_ask(a);
    }
}

static bool connect_egress(void)
{
    if (L.egress >= 0)
        return true;
    if (cay__boot_ms() < L.again_ms)
        return false;
    L.since_ms = cay__boot_ms();
    L.egress = outside_dial(L.run, OUT_EGRESS);
    const char *step = L.egress < 0 ? outside_start(L.run, L.keeper, L.mode, OUT_EGRESS) : NULL;
    if (step) {
        char msg[216];
        cay__str_join(msg, sizeof msg, "cay-egress cannot be started: ", step, ": ", strerror(errno), NULL);
        lost(msg);
        return false;
    }
    if (L.egress < 0)
        L.egress = outside_dial(L.run, OUT_EGRESS);
    if (L.egress < 0)
        lost("cay-egress does not answer on its socket");
    CAY_FAULT("lender.egress.connected");
    secrets_pair(L.egress, true);
    return L.egress >= 0;
}

static bool busy(const ask *first, const char *id)
{
    for (const ask *a = L.asks; a; a = a->next)
        if (a != first && a->seq && a->m.op != CAY_NET_DIAL && a->m.op != CAY_NET_WHY && !strcmp(a->m.id, id))
            return true;
    return false;
}

static bool say_ask(ask *a, lent *l)
{
    if (a->m.op == CAY_NET_DIAL || a->m.op == CAY_NET_WHY) {
        cay_n_dial d = { .seq = a->seq, .port = a->m.port, .proto = a->m.proto, .flags = a->m.flags & CAY_NET_IMPLICIT ? CAY_N_IMPLICIT : 0 };
        memcpy(d.id, l->id, sizeof d.id);
        return say(a->m.op == CAY_NET_DIAL ? CAY_N_DIAL : CAY_N_WHY, &d, sizeof d, a->m.name, NULL, 0);
    }
    CAY_FAULT("lender.policy.say");
    bool again = a->policy < 0;
    return say_box(l->told ? CAY_N_POLICY : CAY_N_LEND, l, a->seq, again ? l->revision : a->revision, again ? l->policy : a->policy);
}

/* True: it is on its way, or over. */
static void begin(ask *a, lent *l)
{
    if (a->policy >= 0 && a->m.revision && a->m.revision != l->revision) {
        errno = 0;
        refuse(a->job, CAY_ESTATE, "policy_changed", "the policy was changed by somebody else; read it again");
        drop_ask(a);
        return;
    }
    a->revision = CAY_MAX(l->revision, a->revision) + (a->policy >= 0);
    if (a->policy >= 0 && !write_new(l, a)) {
        refuse(a->job, cay_code_of_errno(errno), "policy_not_kept", "the policy could not be written into the state directory");
        drop_new(l->id);
        drop_ask(a);
        return;
    }
    a->seq = ++L.seq;
    a->until = cay__boot_ms() + (a->m.op == CAY_NET_DIAL ? DIAL_MS : ANSWER_MS);
    L.out++;
    if (!say_ask(a, l)) {
        a->seq = 0;
        L.out--;
    }
}

static ask *new_ask(uint32_t seq, const cay_m_net *m, int policy)
{
    ask *a = CAY_STEAL(L.over) ?: cay__alloc(sizeof *a), **p = &L.asks;
    *a = (ask){ .job = seq, .m = *m, .policy = policy };
    while (*p) /* in the order they came */
        p = &(*p)->next;
    return *p = a;
}

static bool asked(const char *id)
{
    for (const ask *a = L.asks; a; a = a->next)
        if ((a->m.op == CAY_NET_SET || a->m.op == CAY_NET_RESTORE) && !strcmp(a->m.id, id))
            return true;
    return false;
}

static void pump(void)
{
    if ((!L.asks && !L.all) || !connect_egress())
        return;
    if (L.reload) {
        cay_n_box m = { .seq = ++L.seq };
        CAY_AUTOFD op = operator_open();
        L.reload = op >= 0 && !say(CAY_N_OPERATOR, &m, sizeof m, NULL, &op, 1);
        secrets_operator(op);
    }
    /* What an egress before had is lent to this one first. */
    for (lent *l = L.all; l; l = l->next)
        if (!l->told && l->policy >= 0 && l->again_ms <= cay__boot_ms() && !asked(l->id)) {
            cay_m_net m = { .op = CAY_NET_RESTORE };
            memcpy(m.id, l->id, sizeof m.id);
            new_ask(0, &m, -1);
        }
    for (ask *a = L.asks, *next; a && L.egress >= 0 && L.out < WINDOW; a = next) {
        next = a->next;
        lent *l = find(a->m.id);
        bool dial = a->m.op == CAY_NET_DIAL || a->m.op == CAY_NET_WHY;
        if (!a->seq && l && dial && !l->told && l->refused) {
            errno = 0;
            refuse(a->job, CAY_EBUSY, "egress_failed", "cay-egress does not take this sandbox; keeper.err of the runtime directory says why");
            drop_ask(a);
        } else if (!a->seq && l && !busy(a, a->m.id) && (!dial || l->told)) {
            begin(a, l);
        }
    }
}

/* ---- what cay-egress says ---- */

static void settled(ask *a, const cay_n_ack *k)
{
    lent *l = find(a->m.id);
    CAY_FAULT("lender.policy.acked");
    if (k->code && a->policy >= 0)
        drop_new(a->m.id);
    if (k->code && l && l->policy < 0) /* its sockets are served already: somebody has to refuse there */
        l->policy = text_memfd(-1, 0, off_text);
    if (!k->code && l) {
        bool newer = a->policy < 0 && k->revision > l->revision;
        if (a->policy >= 0) {
            cay__close_fd(&l->policy);
            l->policy = CAY_STEAL_FD(a->policy);
            l->revision = a->revision;
            keep_new(l->id);
            secrets_policy(l->id, l->policy);
        }
        l->told = true;
        if (newer) { /* of a set that nobody was told of: what was acknowledged counts */
            cay_m_net m = { .op = CAY_NET_SET };
            memcpy(m.id, l->id, sizeof m.id);
            int copy = fcntl(l->policy, F_DUPFD_CLOEXEC, 3);
            if (copy >= 0)
                new_ask(0, &m, copy)->revision = k->revision;
        }
    }
    CAY_FAULT("lender.policy.kept");
    cay_m_netinfo info = { .revision = l ? l->revision : 0 };
    lender_answer(a->job, k->code, k->sys, k->reason, k->msg, &info, -1);
}

/* A sandbox that egress does not take is offered again, ever more seldom, and complained of once. True: it was already. */
static bool put_off(const ask *a, const cay_n_ack *k)
{
    lent *l = find(a->m.id);
    if (!k->code || !l || l->told)
        return false;
    l->again_ms = cay__boot_ms() + CAY_MIN(250ll << CAY_MIN(l->refused, 10u), AGAIN_MS);
    return l->refused++ && !a->job && a->policy < 0;
}

static void on_egress(void)
{
    struct {
        cay_msg   h;
        cay_n_ack a;
    } m;
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    ssize_t n = cay__fd_recv(L.egress, &m, sizeof m, fds, &nfds, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        lost("cay-egress ended while it was asked; what it said is in keeper.err of the runtime directory");
        return;
    }
    m.a.reason[sizeof m.a.reason - 1] = m.a.msg[sizeof m.a.msg - 1] = 0;
    ask *a = n == (ssize_t)sizeof m && m.h.magic == CAY_MSG_MAGIC ? L.asks : NULL;
    while (a && (!a->seq || a->seq != m.a.seq))
        a = a->next;
    if (a && m.h.type == CAY_N_ACK) {
        if (!put_off(a, &m.a))
            settled(a, &m.a);
    } else if (n == (ssize_t)sizeof m && m.h.type == CAY_N_PAIR) {
        secrets_pair(L.egress, true);
    } else if (a) {
        cay_m_netinfo info = { .revision = m.a.revision, .code = m.a.code };
        cay__str_copy(info.reason, sizeof info.reason, m.a.reason);
        cay__str_copy(info.msg, sizeof info.msg, m.a.msg);
        bool failed = m.h.type == CAY_N_DIALED && (m.a.code || nfds != 1);
        lender_answer(a->job, failed ? (m.a.code ? m.a.code : CAY_EUPSTREAM) : 0, m.a.sys, m.a.reason, m.a.msg, &info, nfds == 1 ? fds[0] : -1);
    } else if (n == (ssize_t)sizeof m && m.a.code) {
        dprintf(2, "network: %s\n", m.a.msg); /* the operator's file */
    }
    for (int i = 0; i < nfds; i++)
        close(fds[i]);
    if (a)
        drop_ask(a);
}

/* ---- what the keeper says ---- */

static void do_get(void)
{
    lent *l = find(job.net.id);
    cay_m_netinfo info = { .revision = l ? l->revision : 0 };
    CAY_AUTOFD fd = l && l->policy >= 0 ? fcntl(l->policy, F_DUPFD_CLOEXEC, 3) : read_policy(job.net.id, &info.revision);
    if (fd < 0 && errno != ENOENT)
        refuse(job.seq, CAY_ESYS, "policy_unreadable", "the sandbox's policy cannot be read");
    else
        lender_answer(job.seq, 0, 0, "", "", &info, info.revision ? fd : -1);
}

static void do_drop(void)
{
    lent *l = find(job.net.id);
    for (ask *a = L.asks, *next; a; a = next) {
        next = a->next;
        if (strcmp(a->m.id, job.net.id) != 0)
            continue;
        errno = 0;
        refuse(a->job, CAY_EGONE, "sandbox_gone", "the sandbox ended");
        drop_ask(a);
    }
    secrets_drop(job.net.id);
    if (l && L.egress >= 0)
        say_box(CAY_N_DROP, l, ++L.seq, 0, -1);
    if (l)
        forget(l);
    CAY_FAULT("lender.dropped");
}

/* A text of a client's: sealed, so that it is read as it was judged. */
static bool text_ok(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS), want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    return seals >= 0 && (seals & want) == want && fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= (off_t)CAY_NET_TEXT;
}

static void do_restore(int *fds, int nfds)
{
    uint64_t revision = 0;
    drop_new(job.net.id);
    CAY_AUTOFD text = read_policy(job.net.id, &revision);
    if (text < 0) {
        if (errno == ENOENT)
            lender_answer(job.seq, 0, 0, "", "", NULL, -1);
        else
            refuse(job.seq, CAY_ESYS, "policy_unreadable", "the sandbox's policy cannot be read: it reaches nothing until a new one is set");
        return;
    }
    lent *l = take_in(fds, nfds);
    if (!l)
        return;
    cay__close_fd(&l->policy);
    l->policy = CAY_STEAL_FD(text);
    l->revision = CAY_MAX(revision, l->revision);
    new_ask(job.seq, &job.net, -1);
}

static void on_job(int *fds, int nfds)
{
    uint32_t op = job.net.op;
    bool set = op == CAY_NET_SET;
    errno = 0;
    if (job.type == CAY_JOB_NET && op == CAY_NET_SECRETS) {
        if (nfds == 6 && text_ok(fds[4]))
            secrets_job(&job, fds);
        else
            refuse(job.seq, CAY_EINVAL, "bad_request", "secrets come with the policy that binds them, each in one sealed file");
        secrets_pair(L.egress, false);
        return;
    }
    if (job.type != CAY_JOB_NET || !op || op > CAY_NET_DROP || (job.client && op >= CAY_NET_RESTORE) || (set && (nfds != 5 || !text_ok(fds[4])))) {
        if (set && job.type == CAY_JOB_NET && !job.how)
            take_in(fds, 0);
        else
            refuse(job.seq, CAY_EINVAL, "bad_request", "the policy has to come as one sealed file of at most 256 KiB");
        return;
    }
    if (op == CAY_NET_GET || op == CAY_NET_DROP) {
        op == CAY_NET_GET ? do_get() : do_drop();
        return;
    }
    if (op == CAY_NET_RESTORE) {
        do_restore(fds, nfds);
        return;
    }
    lent *l = take_in(fds, nfds);
    if (!l)
        return;
    if (l->policy < 0 && !l->revision && !set) { /* nothing was ever set: it is off */
        l->policy = read_policy(l->id, &l->revision);
        if (l->policy < 0)
            l->policy = text_memfd(-1, 0, off_text);
    }
    new_ask(job.seq, &job.net, set ? CAY_STEAL_FD(fds[4]) : -1);
    CAY_FAULT("lender.asked");
}

/* ---- the loop ---- */

static int wait_ms(void)
{
    int64_t now = cay__boot_ms(), at = INT64_MAX;
    if (L.egress < 0 && (L.asks || L.all))
        at = L.again_ms;
    for (const lent *l = L.all; l; l = l->next)
        if (L.egress >= 0 && !l->told && l->policy >= 0 && !asked(l->id))
            at = CAY_MIN(at, l->again_ms);
    for (const ask *a = L.asks; a; a = a->next)
        if (a->seq)
            at = CAY_MIN(at, a->until);
        else if (L.egress >= 0)
            at = CAY_MIN(at, now + 20); /* its socket was full */
    return at == INT64_MAX ? -1 : (int)CAY_MAX(CAY_MIN(at - now, 60000), 0);
}

static void late(void)
{
    int64_t now = cay__boot_ms();
    for (ask *a = L.asks, *next; a; a = next) {
        next = a->next;
        if (!a->seq || a->until > now)
            continue;
        if (a->m.op == CAY_NET_DIAL) {
            errno = ETIMEDOUT;
            refuse(a->job, CAY_ETIMEOUT, "dial_timeout", "the connection was not made in time");
            drop_ask(a);
            continue;
        }
        /* Wedged: nothing that it holds is served. The next one takes up what waits. */
        outside_stop(L.run, OUT_EGRESS, SIGKILL);
        lost("cay-egress does not answer");
        return;
    }
}

static void leave(void)
{
    secrets_leave();
    if (!L.all) /* else the next keeper finds it at work */
        outside_stop(L.run, OUT_EGRESS, SIGTERM);
    _exit(0);
}

_Noreturn void lender_main(int sock, int mode, const char *run, const char *keeper)
{
    L.sock = sock;
    L.egress = -1;
    L.mode = mode;
    L.run = run;
    L.keeper = keeper;
    prctl(PR_SET_PDEATHSIG, 0); /* the keeper's end of our socket tells us, and leaves time to tidy up */
    signal(SIGCHLD, SIG_IGN);
    secrets_open(run, keeper, mode);
    L.notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    const uint32_t changes = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;
    if (L.notify >= 0) {
        inotify_add_watch(L.notify, ".", changes);
        inotify_add_watch(L.notify, "/etc/cay", changes);
    }
    for (;;) {
        pump();
        struct pollfd p[4] = { { L.sock, POLLIN, 0 }, { L.egress, POLLIN, 0 }, { L.notify, POLLIN, 0 }, { secrets_fd(), POLLIN, 0 } };
        if (poll(p, 4, wait_ms()) < 0)
            continue;
        if (p[3].revents) {
            secrets_lost();
            secrets_pair(L.egress, false);
        }
        char events[4096];
        ssize_t got = p[2].revents ? read(L.notify, events, sizeof events) : 0;
        for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= got;) {
            const struct inotify_event *e = (const void *)(events + at);
            L.reload |= e->len && !strcmp(e->name, "egress.conf") && L.egress >= 0;
            at += (ssize_t)(sizeof *e + e->len);
        }
        if (p[1].revents)
            on_egress();
        late();
        if (!p[0].revents)
            continue;
        int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
        ssize_t n = cay__fd_recv(L.sock, &job, sizeof job, fds, &nfds, 0);
        if (n != sizeof job)
            leave();
        job.net.id[sizeof job.net.id - 1] = job.net.name[sizeof job.net.name - 1] = 0;
        on_job(fds, nfds);
        for (int i = 0; i < nfds; i++)
            cay__close_fd(&fds[i]);
    }
}
