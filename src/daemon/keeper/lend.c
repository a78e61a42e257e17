/* SPDX-License-Identifier: Apache-2.0 */
#include "lend_inside.h"
#include <base/fault.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>

lender_state lender;
static keeper_job job;

void lender_answer(uint32_t seq, int code, int sys, const char *reason, const char *msg,
                   const cay_m_netinfo *net, int fd)
{
    cay_job_done d = { .seq = seq, .error = { .code = code, .sys = sys } };
    if (!seq) {
        if (code)
            dprintf(2, "network: %s\n", msg);
        return;
    }
    CAY_COPY(d.error.reason, reason);
    CAY_COPY(d.error.msg, msg);
    if (net)
        d.net = *net;
    cay__fd_send(lender.sock, &d, sizeof d, &fd, fd >= 0, 0);
}

void lender_refuse(uint32_t seq, int code, const char *reason, const char *msg)
{
    lender_answer(seq, code, errno, reason, msg, NULL, -1);
}

static void run_get_job(void)
{
    lent *l = lent_find(job.net.id);
    cay_m_netinfo info = { .revision = l ? l->revision : 0 };
    CAY_AUTOFD fd = l && l->policy >= 0 ? fcntl(l->policy, F_DUPFD_CLOEXEC, 3)
                                        : policy_read(job.net.id, &info.revision);
    if (fd < 0 && errno != ENOENT)
        lender_refuse(job.seq, CAY_ESYS, "policy_unreadable",
                      "the sandbox's policy cannot be read");
    else
        lender_answer(job.seq, 0, 0, "", "", &info, info.revision ? fd : -1);
}

static void run_drop_job(void)
{
    lent *l = lent_find(job.net.id);
    CAY_EACH_LINK_SAFE(a, lender.asks) {
        if (strcmp(a->m.id, job.net.id) != 0)
            continue;
        errno = 0;
        lender_refuse(a->job, CAY_EGONE, "sandbox_gone", "the sandbox ended");
        ask_drop(a);
    }
    secrets_drop(job.net.id);
    if (l && lender.egress >= 0)
        egress_say_box(CAY_N_DROP, l, ++lender.seq, 0, -1);
    if (l)
        lent_forget(l);
    CAY_FAULT("lender.dropped");
}

/* A text of a client's: sealed, so that it is read as it was judged. */
static bool text_ok(int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS), want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    return seals >= 0 && (seals & want) == want && fstat(fd, &st) == 0 && st.st_size > 0 &&
           st.st_size <= (off_t)CAY_NET_TEXT;
}

static void run_restore_job(int *fds, int nfds)
{
    uint64_t revision = 0;
    policy_drop_new(job.net.id);
    CAY_AUTOFD text = policy_read(job.net.id, &revision);
    if (text < 0) {
        if (errno == ENOENT)
            lender_answer(job.seq, 0, 0, "", "", NULL, -1);
        else
            lender_refuse(
                job.seq, CAY_ESYS, "policy_unreadable",
                "the sandbox's policy cannot be read: it reaches nothing until a new one is set");
        return;
    }
    lent *l = lent_take_in(&job, fds, nfds);
    if (!l)
        return;
    cay__close_fd(&l->policy);
    l->policy = CAY_STEAL_FD(text);
    l->revision = CAY_MAX(revision, l->revision);
    ask_new(job.seq, &job.net, -1);
}

static void on_job(int *fds, int nfds)
{
    uint32_t op = job.net.op;
    bool set = op == CAY_NET_SET;
    errno = 0;
    if (job.type == KEEPER_JOB_NET && op == CAY_NET_SECRETS) {
        if (nfds == 6 && text_ok(fds[4]))
            secrets_job(&job, fds);
        else
            lender_refuse(job.seq, CAY_EINVAL, "bad_request",
                          "secrets come with the policy that binds them, each in one sealed file");
        secrets_pair(lender.egress, false);
        return;
    }
    if (job.type != KEEPER_JOB_NET || !op || op > CAY_NET_DROP ||
        (job.client && op >= CAY_NET_RESTORE) || (set && (nfds != 5 || !text_ok(fds[4])))) {
        if (set && job.type == KEEPER_JOB_NET && !job.how)
            lent_take_in(&job, fds, 0);
        else
            lender_refuse(job.seq, CAY_EINVAL, "bad_request",
                          "the policy has to come as one sealed file of at most 256 KiB");
        return;
    }
    if (op == CAY_NET_GET || op == CAY_NET_DROP) {
        op == CAY_NET_GET ? run_get_job() : run_drop_job();
        return;
    }
    if (op == CAY_NET_RESTORE) {
        run_restore_job(fds, nfds);
        return;
    }
    lent *l = lent_take_in(&job, fds, nfds);
    if (!l)
        return;
    if (l->policy < 0 && !l->revision && !set) { /* nothing was ever set: it is off */
        l->policy = policy_read(l->id, &l->revision);
        if (l->policy < 0)
            l->policy = policy_off();
    }
    ask_new(job.seq, &job.net, set ? CAY_STEAL_FD(fds[4]) : -1);
    CAY_FAULT("lender.asked");
}

/* The keeper knows that nothing lives; we, whose lists are empty until it has adopted, do not. One
 * that was killed says nothing: the next one finds both at work, or ends them when it leaves,
 * whoever started them. */
static _Noreturn void stop_lender(void)
{
    outside_stop(lender.run, OUT_INTERCEPT, SIGTERM);
    outside_stop(lender.run, OUT_EGRESS, SIGTERM);
    _exit(0);
}

void lender_needed(void)
{
    struct pollfd p = { lender.sock, 0, 0 };
    if (poll(&p, 1, 0) > 0 && (p.revents & POLLHUP))
        _exit(0);
}

_Noreturn void lender_main(int sock, int mode, const char *run, const char *keeper)
{
    lender.sock = sock;
    lender.egress = -1;
    lender.mode = mode;
    lender.run = run;
    lender.keeper = keeper;
    prctl(PR_SET_PDEATHSIG,
          0); /* the keeper's end of our socket tells us, and leaves time to tidy up */
    signal(SIGCHLD, SIG_IGN);
    secrets_open(run, keeper, mode);
    lender.notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    const uint32_t changes = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;
    if (lender.notify >= 0) {
        inotify_add_watch(lender.notify, ".", changes);
        inotify_add_watch(lender.notify, "/etc/cay", changes);
    }
    for (;;) {
        egress_pump();
        struct pollfd p[4] = { { lender.sock, POLLIN, 0 },
                               { lender.egress, POLLIN, 0 },
                               { lender.notify, POLLIN, 0 },
                               { secrets_fd(), POLLIN, 0 } };
        if (poll(p, 4, egress_wait_ms()) < 0)
            continue;
        if (p[3].revents) {
            secrets_lost();
            secrets_pair(lender.egress, false);
        }
        char events[4096];
        ssize_t got = 0;
        if (p[2].revents)
            got = read(lender.notify, events, sizeof events);
        for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= got;) {
            const struct inotify_event *e = (const void *)(events + at);
            lender.reload |= e->len && !strcmp(e->name, "egress.conf") && lender.egress >= 0;
            at += (ssize_t)(sizeof *e + e->len);
        }
        if (p[1].revents)
            egress_read();
        egress_late();
        if (!p[0].revents)
            continue;
        int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
        ssize_t n = cay__fd_recv(lender.sock, &job, sizeof job, fds, &nfds, 0);
        if (n != sizeof job)
            _exit(0);
        if (job.type == KEEPER_JOB_LEAVE)
            stop_lender();
        job.net.id[sizeof job.net.id - 1] = job.net.name[sizeof job.net.name - 1] = 0;
        on_job(fds, nfds);
        cay__close_fds(fds, nfds);
    }
}
