/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How pid 1 of a container gets what it may write. The container sees its directory read-only, so
 * that root inside can neither fill the disk of the state directory nor put anything in the way. A
 * client that finds nobody listening opens a door, a socket there; pid 1 comes to it, and gets the
 * directory as the host has it, by which it makes its own socket and opens its record before it
 * starts anything. It does not keep the directory.
 */
#include "box.h"
#include <proto/relay.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { READY_MS = 2000 };

int cay__docker_door(cay__docker_box *b, int *out, cay_err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    char tmp[32];
    uint32_t word;
    CAY_AUTOFD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    cay__random(&word, sizeof word);
    CAY_FORMAT(tmp, ".door-%08x", word);
    CAY_FORMAT(a.sun_path, "/proc/self/fd/%d/%s", b->ctl, tmp);
    /* Under its name once somebody listens; the latest is the one that counts, and its maker the
     * one who waits. */
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || chmod(a.sun_path, 0666) < 0 ||
        listen(fd, 8) < 0 || renameat(b->ctl, tmp, b->ctl, CAY__PID1_DOOR) < 0) {
        int rc = cay_fail_sys(err, "open a door to %s", b->base.id);
        unlinkat(b->ctl, tmp, 0);
        return rc;
    }
    *out = CAY_STEAL_FD(fd);
    return 0;
}

/* Whoever came: the one that the engine calls the container's first process gets it, and nobody
 * else. True: it is ready to be asked. */
static bool admit_peer(cay__docker_box *b, const cay_call *call, int way)
{
    struct ucred peer = { 0 };
    socklen_t len = sizeof peer;
    cay__pid1_door m = { 0 };
    char ready;
    if (getsockopt(way, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0 ||
        cay__docker_judge(b, call, peer.pid, NULL) < 0)
        return false;
    CAY_COPY(m.id, b->base.id);
    struct pollfd p = { .fd = way, .events = POLLIN };
    return cay__fd_send(way, &m, sizeof m, &b->ctl, 1, MSG_DONTWAIT) == sizeof m &&
           poll(&p, 1, READY_MS) == 1 && recv(way, &ready, 1, MSG_DONTWAIT) == 1;
}

bool cay__docker_door_wait(cay__docker_box *b, const cay_call *call, int door, int ms)
{
    struct pollfd p = { .fd = door, .events = POLLIN };
    if (poll(&p, 1, ms) != 1)
        return false;
    CAY_AUTOFD way = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    return way >= 0 && admit_peer(b, call, way);
}
