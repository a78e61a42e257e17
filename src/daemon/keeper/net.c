/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sandboxes may reach. Policies, cay-egress and what it is lent are the lender's business, a
 * helper (lend.c); here a request gets the sockets of its sandbox and finds its way, and its answer
 * the way back.
 */
#include "keeper.h"
#include <sys/socket.h>
#include <sys/time.h>

static void on_net_answer(job_wait *j, const cay_job_done *d, int *fds, int nfds)
{
    CAY_FAULT("keeper.net.answer");
    if (d->error.code && !j->c)
        dprintf(2, "network: %.*s\n", (int)sizeof d->error.msg, d->error.msg);
    else if (d->error.code)
        reply(j->c, CAY_MSG_ERROR, &d->error);
    else
        reply_fds(j->c, CAY_MSG_NET, &d->net, sizeof d->net, NULL, 0, fds, nfds);
}

void net_ask(client *c, keeper_box *b, const cay_m_net *m, const int *more, int nmore)
{
    keeper_job j = {
        .type = KEEPER_JOB_NET, .how = b->net, .cookie = b->cookie, .client = c != NULL, .net = *m
    };
    int fds[6] = { b->net_fd[0], b->net_fd[1], b->net_fd[2], b->net_fd[3] }, n = 4;
    while (n < 4 + CAY_MIN(nmore, 2))
        fds[n] = more[n - 4], n++;
    memcpy(j.net.id, b->id, sizeof j.net.id);
    j.net.name[sizeof j.net.name - 1] = 0;
    CAY_FAULT("keeper.net.ask");
    bool sent = job_send(&keeper.lender, &j, fds, b->net_fd[3] >= 0 ? n : 0,
                         &(job_wait){ .b = b, .c = c, .fn = on_net_answer });
    CAY_FAULT("keeper.net.asked");
    b->lent |= sent && (m->op == CAY_NET_SET || m->op == CAY_NET_RESTORE);
    b->restore = !sent && m->op == CAY_NET_RESTORE; /* the next sweep tries again */
    if (!sent)
        reply_error(c, CAY_EBUSY, errno, "keeper_busy",
                    "the network's helper has too much to do; try again", NULL);
}

void net_restore(keeper_box *b)
{
    net_ask(NULL, b, &(cay_m_net){ .op = CAY_NET_RESTORE }, NULL, 0);
}

/* From init, which may be the tenant's by now: the lender compares them with the journal's cookie
 * before they are used. */
void net_adopt(keeper_box *b, int *fds, int nfds)
{
    for (int i = 0; i < CAY_MIN(nfds, 4); i++)
        if (b->net_fd[i] < 0)
            b->net_fd[i] = CAY_STEAL_FD(fds[i]);
    net_restore(b);
}

void lender_leave(void)
{
    cay_job_done d;
    struct timeval tv = { 3, 0 };
    setsockopt(keeper.lender.w.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    setsockopt(keeper.lender.w.fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    if (!keeper.nlive || keeper.vanished) /* where the directory is gone nobody comes after us */
        cay__fd_send(keeper.lender.w.fd, &(keeper_job){ .type = KEEPER_JOB_LEAVE },
                     sizeof(keeper_job), NULL, 0, 0);
    shutdown(keeper.lender.w.fd, SHUT_WR);
    while (recv(keeper.lender.w.fd, &d, sizeof d, 0) > 0)
        ;
}
