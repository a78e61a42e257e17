/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of secrets go from the client that has them to cay-intercept, as a sealed file that is
 * never mapped here. The lender keeps the file, and the one with the sandbox's authority, for the
 * case that cay-intercept dies. When the keeper dies cay-intercept lives on; when both do, the
 * values are gone, and connections that need them are refused until somebody gives them again.
 */
#include "lend.h"
#include <base/base.h>
#include <base/fault.h>
#include <proto/intercept.h>
#include <linux/memfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { ANSWER_MS = 5000, TRIES = 4, PAUSE_MS = 20 };

typedef struct held {
    struct held *next;
    char id[CAY_WIRE_ID];
    uint64_t revision;
    int fd[3]; /* policy, secrets, vault */
} held;

static struct {
    int fd, mode;
    const char *run, *keeper;
    held *all;
    bool paired;
    uint64_t seq;
} interceptor = { .fd = -1 };

void secrets_open(const char *run, const char *keeper, int mode)
{
    interceptor.run = run;
    interceptor.keeper = keeper;
    interceptor.mode = mode;
}

int secrets_fd(void)
{
    return interceptor.fd;
}

static held *find_held(const char *id)
{
    CAY_EACH_LINK(h, interceptor.all)
        if (!strcmp(h->id, id))
            return h;
    return NULL;
}

static void forget_held(held *h)
{
    CAY_UNLINK(interceptor.all, h);
    cay__close_fds(h->fd, 3);
    free(h);
}

static bool send_box(int to, uint16_t type, const cay_n_box *b, const int *fds, int nfds)
{
    return cay__msg_send(to, CAY_N_VERSION, type, b, sizeof *b, NULL, 0, fds, nfds, MSG_DONTWAIT);
}

static bool send_request(uint16_t type, const held *h, const int *fds, int nfds)
{
    cay_n_box b = { .seq = ++interceptor.seq, .revision = h ? h->revision : 0 };
    if (h)
        memcpy(b.id, h->id, sizeof b.id);
    return send_box(interceptor.fd, type, &b, fds, nfds);
}

/* Its answer to the last thing that was said; false: it has none. It is asked so seldom that we
 * wait. */
static bool receive_answer(cay_n_ack *ack, int *fd)
{
    struct {
        cay_msg h;
        cay_n_ack a;
    } m;
    for (int64_t until = cay__boot_ms() + ANSWER_MS, now; (now = cay__boot_ms()) < until;) {
        struct pollfd p = { interceptor.fd, POLLIN, 0 };
        if (poll(&p, 1, (int)(until - now)) <= 0)
            continue;
        int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
        ssize_t n = cay__fd_recv(interceptor.fd, &m, sizeof m, fds, &nfds, MSG_DONTWAIT);
        if (n <= 0 && errno != EAGAIN)
            return false;
        bool ours = n == (ssize_t)sizeof m && m.h.magic == CAY_MSG_MAGIC &&
                    m.h.type == CAY_I_BOUND && m.a.seq == interceptor.seq;
        for (int i = 0; n > 0 && i < nfds; i++)
            if (ours && i == 0)
                *fd = fds[i];
            else
                close(fds[i]);
        if (!ours)
            continue;
        *ack = m.a;
        ack->reason[sizeof ack->reason - 1] = ack->msg[sizeof ack->msg - 1] = 0;
        return true;
    }
    outside_stop(interceptor.run, OUT_INTERCEPT, SIGKILL); /* wedged */
    return false;
}

static const char *connect_intercept(void)
{
    if (interceptor.fd >= 0)
        return NULL;
    interceptor.paired = false;
    interceptor.fd = outside_dial(interceptor.run, OUT_INTERCEPT);
    const char *step = NULL;
    if (interceptor.fd < 0)
        step = outside_start(interceptor.run, interceptor.keeper, interceptor.mode, OUT_INTERCEPT);
    if (!step && interceptor.fd < 0)
        interceptor.fd = outside_dial(interceptor.run, OUT_INTERCEPT);
    CAY_FAULT("lender.intercept.connected");
    return CAY_OR(step, interceptor.fd < 0 ? "its socket" : NULL);
}

/* 0, or a code with reason and message in *ack. */
static int bind_secrets(const held *h, cay_n_ack *ack, int *trust)
{
    const char *step = NULL;
    *ack = (cay_n_ack){ 0 };
    for (int i = 0; i < TRIES; i++) { /* one that is dying may still be dialled */
        step = connect_intercept();
        CAY_FAULT("lender.secrets.say");
        if (!step && send_request(CAY_I_BIND, h, h->fd, 3) && receive_answer(ack, trust))
            return ack->code;
        cay__close_fd(&interceptor.fd);
        poll(NULL, 0, PAUSE_MS);
    }
    ack->sys = errno;
    ack->code = CAY_EBUSY;
    CAY_COPY(ack->reason, "intercept_failed");
    CAY_JOIN(ack->msg, "cay-intercept, which adds credentials, ",
             step ? "cannot be started: " : "does not answer", CAY_OR(step, ""));
    return ack->code;
}

static int empty_file(void)
{
    return (int)syscall(SYS_memfd_create, "cay-vault", MFD_CLOEXEC);
}

static bool values_ok(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS), want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    return seals >= 0 && (seals & want) == want && fstat(fd, &st) == 0 &&
           st.st_size <= (off_t)CAY_I_SECRETS_MAX;
}

void secrets_job(const keeper_job *job, const int *fds)
{
    held *old = find_held(job->net.id), *h = cay__alloc(sizeof *h);
    cay_n_ack ack;
    CAY_AUTOFD trust = -1;
    CAY_COPY(h->id, job->net.id);
    if (old)
        h->revision = old->revision + 1;
    else
        h->revision = 1;
    h->fd[0] = fcntl(fds[4], F_DUPFD_CLOEXEC, 3);
    if (values_ok(fds[5]))
        h->fd[1] = fcntl(fds[5], F_DUPFD_CLOEXEC, 3);
    else
        h->fd[1] = -1;
    if (old)
        h->fd[2] = fcntl(old->fd[2], F_DUPFD_CLOEXEC, 3);
    else
        h->fd[2] = empty_file();
    if (h->fd[0] < 0 || h->fd[1] < 0 || h->fd[2] < 0) {
        lender_answer(job->seq, CAY_EINVAL, 0, "bad_request",
                      "secrets have to come as one sealed file of at most 1 MiB", NULL, -1);
        forget_held(h);
        return;
    }
    int rc = bind_secrets(h, &ack, &trust);
    cay_m_netinfo info = { .revision = h->revision };
    if (rc) {
        forget_held(h);
    } else {
        if (old)
            forget_held(old);
        h->next = interceptor.all;
        interceptor.all = h;
    }
    CAY_FAULT("lender.secrets.held");
    lender_answer(job->seq, rc, ack.sys, ack.reason, ack.msg, &info, trust);
}

void secrets_policy(const char *id, int policy)
{
    held *h = find_held(id), box = { 0 };
    cay_n_ack ack;
    int trust = -1;
    CAY_COPY(box.id, id);
    if (h) {
        int copy = fcntl(policy, F_DUPFD_CLOEXEC, 3);
        if (copy >= 0) {
            cay__close_fd(&h->fd[0]);
            h->fd[0] = copy;
        }
    }
    if (interceptor.fd < 0) /* one from before us may be there */
        interceptor.fd = outside_dial(interceptor.run, OUT_INTERCEPT);
    if (interceptor.fd >= 0 && send_request(CAY_I_POLICY, &box, &policy, 1) &&
        receive_answer(&ack, &trust) && ack.code)
        dprintf(2, "network: secrets of %s: %s\n", id, ack.msg);
    cay__close_fd(&trust);
}

void secrets_operator(int fd)
{
    cay_n_ack ack;
    int trust = -1;
    if (interceptor.fd >= 0 && send_request(CAY_I_OPERATOR, NULL, &fd, 1) &&
        receive_answer(&ack, &trust) && ack.code)
        dprintf(2, "network: %s\n", ack.msg);
    cay__close_fd(&trust);
}

void secrets_drop(const char *id)
{
    held *h = find_held(id), gone = { 0 };
    CAY_COPY(gone.id, id);
    if (h)
        forget_held(h);
    if (interceptor.fd >= 0)
        send_request(CAY_I_DROP, &gone, NULL, 0); /* its answer is read away with the next one's */
}

void secrets_lost(void)
{
    char scrap[1024];
    if (interceptor.fd < 0)
        return;
    ssize_t n = recv(interceptor.fd, scrap, sizeof scrap, MSG_DONTWAIT);
    if (n > 0 || (n < 0 && errno == EAGAIN))
        return; /* an answer that nobody waits for */
    cay__close_fd(&interceptor.fd);
    CAY_EACH_LINK(h, interceptor.all) {
        cay_n_ack ack;
        CAY_AUTOFD trust = -1;
        if (bind_secrets(h, &ack, &trust))
            dprintf(2, "network: secrets of %s: %s\n", h->id, ack.msg);
    }
}

/* One end to each; egress answers, and nobody waits for that. */
void secrets_pair(int egress, bool fresh)
{
    int pair[2];
    if (fresh)
        interceptor.paired = false;
    if (fresh && interceptor.fd < 0)
        interceptor.fd =
            outside_dial(interceptor.run, OUT_INTERCEPT); /* one from before us may be there */
    if (interceptor.paired || interceptor.fd < 0 || egress < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return;
    interceptor.paired = send_request(CAY_I_EGRESS, NULL, &pair[0], 1) &&
                         send_box(egress, CAY_N_INTERCEPT, &(cay_n_box){ 0 }, &pair[1], 1);
    cay__close_fds(pair, 2);
}
