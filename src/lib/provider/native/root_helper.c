/* SPDX-License-Identifier: Apache-2.0 */
#include "root_helper.h"
#include <base/base.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { END_MS = 10000 };

bool cay__hand_there(int home_fd)
{
    char link[16];
    return geteuid() != 0 &&
           readlinkat(home_fd, "layers", link, sizeof link) > 0; /* helper/root_helper/trees.c */
}

/* By way of a descriptor, because a socket's name is short. */
static int connect_helper(int home_fd)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    char n[21];
    CAY_AUTOFD tree = openat(home_fd, "layers/..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTOFD sock = -1;
    if (tree >= 0)
        sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0 ||
        !CAY_JOIN(sa.sun_path, "/proc/self/fd/", cay__str_u64(n, (uint64_t)tree), "/" HAND_SOCK) ||
        connect(sock, (struct sockaddr *)&sa, sizeof sa) < 0)
        return -1;
    return CAY_STEAL_FD(sock);
}

bool cay__hand_gone(int home_fd)
{
    CAY_AUTOFD sock = -1;
    return cay__hand_there(home_fd) && (sock = connect_helper(home_fd)) < 0;
}

static int as_error(hand_answer *a, cay_err *err)
{
    a->reason[sizeof a->reason - 1] = a->msg[sizeof a->msg - 1] = 0;
    int code = CAY_EUPSTREAM;
    if (a->code < 0 && a->code >= CAY_ESYS)
        code = a->code;
    cay_fail_why(err, code, a->reason, "%s", a->msg);
    if (err)
        err->sys = a->sys;
    return code;
}

int cay__hand_ask(int home_fd, const cay_call *call, const hand_ask *ask, const int *fds, int nfds,
                  hand_answer *out, int *fd, int *leash, cay_err *err)
{
    int came[1], n = 1;
    hand_answer a = { 0 };
    CAY_AUTOFD sock = connect_helper(home_fd);
    if (sock < 0)
        return cay_fail_why(
            err, CAY_EUPSTREAM, "hand_gone",
            "root's keeper holds the sandboxes of this state directory for a server, which does "
            "not run: start it again (cay serve --user NAME --root-keeper)");
    ssize_t len = cay__fd_send(sock, ask, sizeof *ask, fds, nfds, 0);
    if (len == sizeof *ask) {
        CAY_TRY(cay__call_wait(call, sock, POLLIN, "ask root's part of the server", err));
        len = cay__fd_recv(sock, &a, sizeof a, came, &n, 0);
    }
    CAY_AUTOFD got = -1;
    if (len == sizeof a && n == 1)
        got = came[0];
    if (len != sizeof a)
        return cay_fail_why(err, CAY_EUPSTREAM, "hand_gone",
                            "root's part of the server ended in the middle");
    if (a.code)
        return as_error(&a, err);
    if (fd)
        *fd = CAY_STEAL_FD(got);
    if (leash)
        *leash = CAY_STEAL_FD(sock);
    if (out)
        *out = a;
    return 0;
}

void cay__hand_let_go(int *leash)
{
    struct pollfd p = { .fd = *leash, .events = POLLIN };
    if (*leash < 0)
        return;
    shutdown(*leash, SHUT_WR);
    poll(&p, 1, END_MS);
    cay__close_fd(leash);
}
