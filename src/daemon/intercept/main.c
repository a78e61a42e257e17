/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-intercept: puts credentials into requests that leave a sandbox. Started by the keeper at the
 * first binding, as proto/intercept.h says; leaves when nobody needs it. Descriptor 3 is the
 * keeper's listening socket, 4 the operator's file.
 */
#include "intercept.h"
#include <base/mutant.h>
#include <base/path.h>
#include <base/sanitize.h>
#include <daemon/egress/allow.h>
#include <proto/landlock.h>
#include <openssl/err.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { FD_LISTEN = 3, FD_OPERATOR = 4, FD_FIRST = 5, LINKS_MAX = 8 };

intercept_state intercept = { .egress.fd = -1 };

typedef struct link_ {
    cay__watch w;
} link_;

static void send_answer(link_ *l, const cay_n_box *m, const vault *v, const cay_err *err, int code)
{
    CAY_AUTOFD trust = -1;
    if (v)
        trust = trust_files(&v->ca, intercept.op.roots);
    cay_n_ack a = { .seq = m->seq, .revision = v ? v->revision : 0, .code = code, .sys = err->sys };
    memcpy(a.id, m->id, sizeof a.id);
    CAY_COPY(a.reason, err->reason);
    CAY_COPY(a.msg, err->msg);
    cay__msg_send(l->w.fd, CAY_N_VERSION, CAY_I_BOUND, &a, sizeof a, NULL, 0, &trust, trust >= 0,
                  MSG_DONTWAIT);
}

static SSL_CTX *client_side(void)
{
    static const unsigned char only[] = "\x08http/1.1";
    SSL_CTX *c = tls_context(TLS_client_method());
    if (!c)
        return NULL;
    SSL_CTX_set_verify(c, CAY__MUTANT("secret-upstream") ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(c, only, sizeof only - 1);
    SSL_CTX_set_default_verify_paths(c);
    const char *roots = cay__trust_roots(NULL);
    if (roots)
        SSL_CTX_load_verify_locations(c, roots, NULL);
    return c;
}

/* Made anew each time: roots that the file no longer names are trusted no more. */
static int take_operator(int fd, cay_err *err)
{
    static char text[CAY__POLICY_MAX];
    cay__policy op;
    ssize_t n = pread(fd, text, sizeof text, 0);
    if (n < 0)
        return cay_fail_sys(err, "the operator's file");
    CAY_TRY(cay__policy_read(&op, text, (size_t)n, true, err));
    SSL_CTX *up = client_side();
    if (!up || (op.roots[0] && SSL_CTX_load_verify_file(up, op.roots) != 1)) {
        ERR_clear_error();
        SSL_CTX_free(up);
        int rc = cay_fail_why(err, CAY_EINVAL, "roots_unreadable",
                              "roots %.150s: no certificates could be read from it", op.roots);
        cay__policy_clear(&op);
        return rc;
    }
    cay__policy_clear(&intercept.op);
    intercept.op = op;
    SSL_CTX_free(intercept.up);
    intercept.up = up;
    CAY_EACH_LINK(v, intercept.vaults)
        vault_judge(v);
    return 0;
}

static int serve_request(link_ *l, uint16_t type, const cay_n_box *m, const int *fds, int nfds,
                         vault **v, cay_err *err)
{
    if (!cay__id_valid(m->id, 'c') && type != CAY_I_OPERATOR)
        return cay_fail_why(err, CAY_EINVAL, "bad_id", "that is no sandbox's id");
    switch (type) {
    case CAY_I_BIND:
        if (nfds == 3)
            return vault_bind(m, fds, v, err);
        return cay_fail(err, CAY_EINVAL, "a binding comes with three descriptors");
    case CAY_I_POLICY: {
        vault *old = vault_find(m->id);
        if (nfds != 1)
            return cay_fail(err, CAY_EINVAL, "the policy is missing");
        int rc = 0;
        if (old)
            rc = vault_policy(old, fds[0], err);
        if (rc < 0) /* what it binds now has no value here: nothing is served under the former one
                       either */
            vault_drop(old);
        return rc;
    }
    case CAY_I_OPERATOR:
        if (nfds == 1)
            return take_operator(fds[0], err);
        return cay_fail(err, CAY_EINVAL, "the operator's file is missing");
    case CAY_I_DROP: {
        vault *old = vault_find(m->id);
        if (old)
            vault_drop(old);
        return 0;
    }
    default: return cay_fail(err, CAY_EINVAL, "message %u is not known", type);
    }
}

static void close_link(link_ *l)
{
    cay__loop_del(&intercept.loop, &l->w);
    close(l->w.fd);
    free(l);
    if (!--intercept.nlinks)
        intercept.alone_since = cay__boot_ms();
}

static void on_link(cay__watch *w, uint32_t events)
{
    link_ *l = CAY__OWNER(w, link_, w);
    struct {
        cay_msg h;
        cay_n_box m;
    } pkt = { 0 };
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    ssize_t n = cay__fd_recv(w->fd, &pkt, sizeof pkt, fds, &nfds, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < (ssize_t)sizeof pkt.h || pkt.h.magic != CAY_MSG_MAGIC ||
        pkt.h.version != CAY_N_VERSION) {
        if (n > 0)
            cay__close_fds(fds, nfds);
        close_link(l);
        return;
    }
    if (pkt.h.type == CAY_I_EGRESS && nfds == 1) {
        egress_take(fds[0]);
        return;
    }
    cay_err err = CAY_ERR_INIT;
    vault *v = NULL;
    pkt.m.id[sizeof pkt.m.id - 1] = 0;
    int rc;
    if (n == sizeof pkt)
        rc = serve_request(l, pkt.h.type, &pkt.m, fds, nfds, &v, &err);
    else
        rc = cay_fail(&err, CAY_EINVAL, "a message of another length");
    send_answer(l, &pkt.m, v, &err, rc);
    cay__close_fds(fds, nfds);
}

static void on_listen(cay__watch *w, uint32_t events)
{
    int fd = accept_keeper(w->fd, intercept.nlinks < LINKS_MAX);
    if (fd < 0)
        return;
    link_ *l = cay__alloc(sizeof *l);
    l->w = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_link };
    cay__loop_add(&intercept.loop, &l->w);
    intercept.nlinks++;
}

static int report_error(const char *what, const char *why)
{
    dprintf(2, "cay-intercept: %s: %s\n", what, why);
    return 1;
}

/* No core, no tracer, no new rights: the values live here. */
static void harden_process(void)
{
    struct rlimit none = { 0, 0 }, files;
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        /* Two descriptors a flow; what comes beyond is taken and turned away, not lost with its
         * message. */
        rlim_t room = (files.rlim_cur - CAY_MIN(files.rlim_cur, (rlim_t)RESERVE_FDS)) / 2;
        intercept.flows_max = (unsigned)CAY_MIN(room, (rlim_t)FLOWS_MAX);
    }
    signal(SIGPIPE, SIG_IGN);
}

/* It reads certificates and nothing else of the host, and dials nobody. */
static int restrict_files(void)
{
    const cay__ll_grant grants[] = {
        { "/etc", -1, CAY_LL_READ },
        { "/usr/lib/ssl", -1, CAY_LL_READ },
        { "/usr/share/ca-certificates", -1, CAY_LL_READ },
        { "/usr/local/share/ca-certificates", -1, CAY_LL_READ },
        { intercept.op.roots, -1, CAY_LL_READ },
    };
    if (CAY__SANITIZED)
        return 0; /* a sanitizer reads more */
    int rc = cay__landlock_grants(grants, CAY_LEN(grants) - !intercept.op.roots[0],
                                  CAY_LL_OPTIONAL | CAY_LL_NO_TCP, NULL);
    if (rc == -ENOSYS || rc == -EOPNOTSUPP)
        return 0; /* an old kernel: the ids of the process are the wall */
    if (rc < 0)
        return rc;
    return cay__landlock_scopes();
}

/* OpenSSL reads and writes sockets, the heap grows, certificates are looked up, a memfd says what
 * to trust: nothing dials, starts or signals. */
static bool restrict_syscalls(void)
{
    static const int kept[] = {
        SYS_read,          SYS_write,
        SYS_recvfrom,      SYS_sendto,
        SYS_epoll_pwait,   SYS_epoll_ctl,
        SYS_clock_gettime, SYS_recvmsg,
        SYS_sendmsg,       SYS_close,
        SYS_setsockopt,    SYS_getsockopt,
        SYS_shutdown,      SYS_accept4,
        SYS_getrandom,     SYS_futex,
        SYS_brk,           SYS_mmap,
        SYS_munmap,        SYS_mremap,
        SYS_mprotect,      SYS_madvise,
        SYS_mlock,         SYS_munlock,
        SYS_openat,        SYS_fstat,
        SYS_newfstatat,    SYS_getdents64,
        SYS_lseek,         SYS_pread64,
        SYS_pwrite64,      SYS_fcntl,
        SYS_ftruncate,     SYS_memfd_create,
        SYS_writev,        SYS_geteuid,
        SYS_getuid,        SYS_getgid,
        SYS_getegid,       SYS_getpid,
        SYS_gettimeofday,  SYS_clock_nanosleep,
        SYS_rt_sigaction,  SYS_rt_sigprocmask,
        SYS_rt_sigreturn,  SYS_restart_syscall,
        SYS_exit,          SYS_exit_group,
#ifdef SYS_open /* old spellings, which newer architectures have not */
        SYS_epoll_wait,    SYS_open,
        SYS_stat,          SYS_lstat,
        SYS_access,        SYS_time,
#endif
    };
    return CAY__SANITIZED || allow_calls(kept, CAY_LEN(kept), false) == 0 || errno == EINVAL;
}

int main(void)
{
    cay_err err = CAY_ERR_INIT;
    if (!CAY__SANITIZED)
        cay__fd_close_from(FD_FIRST);
    harden_process();
    if (cay__sock_get(FD_LISTEN, SO_ACCEPTCONN) <= 0)
        return report_error(
            "descriptor 3",
            "has to be the keeper's listening socket; this program is started by cay-keeper");
    if (!cay__loop_open(&intercept.loop))
        return report_error("epoll", strerror(errno));
    if (take_operator(FD_OPERATOR, &err) < 0)
        return report_error("the operator's file", err.msg);
    close(FD_OPERATOR);
    int rc = restrict_files();
    if (rc < 0)
        return report_error("own fences", strerror(-rc));
    if (!restrict_syscalls())
        return report_error("own filter", strerror(errno));
    cay__fd_nonblock(FD_LISTEN, true);
    fcntl(FD_LISTEN, F_SETFD, FD_CLOEXEC);
    intercept.listen = (cay__watch){ .fd = FD_LISTEN, .events = EPOLLIN, .fn = on_listen };
    if (!cay__loop_add(&intercept.loop, &intercept.listen))
        return report_error("epoll", strerror(errno));
    intercept.alone_since = cay__boot_ms();
    while (intercept.nlinks || intercept.vaults ||
           cay__boot_ms() - intercept.alone_since < ALONE_MS)
        cay__loop_step(&intercept.loop, 5000);
    return 0;
}
