/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-pid1 relay [PORT]: started in a container by the engine's exec where no directory of the host
 * can be seen in it. The far side of a tunnel to pid 1, or to a port of the container's loopback.
 * Whoever starts it is root in here; nobody else may open pid 1's directory.
 */
#include <proto/relay.h>
#include <proto/tunnel.h>
#include <base/base.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { UP_MS = 20000, STEP_MS = 5 };

/* pid 1 may be about to come. */
static int to_pid1(void)
{
    const struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = CAY__PID1_CTL "/sock" };
    for (int64_t until = cay__now_ms() + UP_MS;; poll(NULL, 0, STEP_MS)) {
        CAY_AUTOFD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) == 0)
            return CAY_STEAL_FD(fd);
        if (fd < 0 || cay__now_ms() > until)
            return -1;
    }
}

static int to_port(uint16_t port)
{
    const struct sockaddr_in v4 = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
                                     .sin6_port = htons(port),
                                     .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    CAY_AUTOFD four = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
               six = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (four >= 0 && connect(four, (const struct sockaddr *)&v4, sizeof v4) == 0)
        return CAY_STEAL_FD(four);
    if (six >= 0 && connect(six, (const struct sockaddr *)&v6, sizeof v6) == 0)
        return CAY_STEAL_FD(six);
    return -1;
}

int cay__relay_main(int argc, char **argv)
{
    static const char word[] = CAY__RELAY_WORD;
    uint64_t port = 0;
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NAME, "cay-relay");
    signal(SIGPIPE, SIG_IGN);
    if (argc > 2 && (!cay__str_to_u64(argv[2], &port) || !port || port > 65535))
        return 2;
    CAY_AUTOFD fd = port ? to_port((uint16_t)port) : to_pid1();
    if (fd < 0) {
        fprintf(stderr, port ? "nobody listens there\n" : "pid 1 does not answer\n");
        return 3;
    }
    if (!cay__fd_write_all(1, word, sizeof word - 1))
        return 4;
    cay__tunnel_run(cay__tunnel_new(0, 1, CAY_STEAL_FD(fd), !port, false), NULL, NULL);
    return 0;
}
