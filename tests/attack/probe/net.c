/* SPDX-License-Identifier: Apache-2.0 */
/* The network: what is refused, how fast, and what must not be reached. */
#include "probe.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long ms_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static socklen_t address(const char *ip, int port, struct sockaddr_storage *out)
{
    struct sockaddr_in *a4 = (void *)out;
    struct sockaddr_in6 *a6 = (void *)out;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, ip, &a4->sin_addr) == 1) {
        a4->sin_family = AF_INET;
        a4->sin_port = htons((uint16_t)port);
        return sizeof *a4;
    }
    inet_pton(AF_INET6, ip, &a6->sin6_addr);
    a6->sin6_family = AF_INET6;
    a6->sin6_port = htons((uint16_t)port);
    return sizeof *a6;
}

/* Connects, says something and waits for an answer: 1 something came back, 0 refused or cut, -1
 * nothing happened in time. */
static int talk(const char *ip, int port, int type, int ms)
{
    struct sockaddr_storage sa;
    socklen_t n = address(ip, port, &sa);
    int s = socket(sa.ss_family, type | SOCK_CLOEXEC, 0), got = -1;
    char buf[64];
    if (s < 0)
        return 0;
    struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    if (connect(s, (void *)&sa, n) < 0)
        got = errno == EINPROGRESS || errno == EAGAIN || errno == ETIMEDOUT ? -1 : 0;
    else if (send(s, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) < 0)
        got = 0;
    else {
        ssize_t k = recv(s, buf, sizeof buf, 0);
        got = k > 0 ? 1 : k < 0 && errno == EAGAIN ? -1 : 0;
        if (k > 12 && !memcmp(buf, "HTTP/1.1 403", 12))
            got = 0; /* egress itself, saying no */
    }
    close(s);
    return got;
}

static const char *const far[] = {
    "93.184.216.34",        "1.1.1.1",         "8.8.8.8",    "10.0.0.1",        "192.168.0.1",
    "172.17.0.1",           "169.254.169.254", "100.64.0.1", "224.0.0.251",     "255.255.255.255",
    "2606:4700:4700::1111", "fe80::1",         "fd00::1",    "::ffff:10.0.0.1", "ff02::1",
};

/* S-28: ADDRESS… of the host too. Everything is refused, and soon. */
static void netoff(int argc, char **argv)
{
    static const int ports[] = { 22, 53, 80, 443, 8090 };
    long worst = 0;
    int tried = 0;
    for (int i = 0; i < (int)(sizeof far / sizeof *far) + argc; i++) {
        int known = (int)(sizeof far / sizeof *far);
        const char *ip = i < known ? far[i] : argv[i - known];
        for (size_t p = 0; p < sizeof ports / sizeof *ports; p++)
            for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
                long t = ms_now();
                int got = talk(ip, ports[p], type, 1500);
                t = ms_now() - t;
                worst = t > worst ? t : worst;
                tried++;
                if (got > 0)
                    breach("%s port %d by %s answers", ip, ports[p],
                           type == SOCK_STREAM ? "tcp" : "udp");
                else if (got < 0 && type == SOCK_STREAM)
                    breach("%s port %d by tcp waits for %ld ms instead of being refused", ip,
                           ports[p], t);
            }
        /* Without a connect nothing would tell that it was lost. */
        struct sockaddr_storage sa;
        socklen_t n = address(ip, 443, &sa);
        int u = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (sendto(u, "x", 1, 0, (void *)&sa, n) >= 0)
            breach("a datagram to %s port 443 is taken and lost without a word", ip);
        close(u);
    }
    /* Names: every resolver that a program may have pinned refuses at once. */
    static const char query[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\6secret\10attacker\4test\0\0\1\0\1";
    for (int i = 0; i < 3; i++) {
        static const char *const servers[] = { "127.0.0.53", "8.8.8.8", "127.0.0.1" };
        struct sockaddr_storage sa;
        socklen_t n = address(servers[i], 53, &sa);
        int u = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct pollfd pfd = { u, POLLIN, 0 };
        char buf[512];
        if (connect(u, (void *)&sa, n) == 0 && send(u, query, sizeof query - 1, 0) > 0) {
            if (poll(&pfd, 1, 1000) == 0)
                breach("a name query to %s waits for nobody", servers[i]);
            else if (recv(u, buf, sizeof buf, MSG_DONTWAIT) > 0)
                breach("a name query to %s is answered", servers[i]);
        }
        close(u);
    }
    if (worst > 1000)
        breach("the slowest refusal took %ld ms", worst);
    ok("%d ways refused, the slowest in %ld ms", tried, worst);
}

/* S-35, S-34: PORT ADDRESS…: none of them may answer, over TCP and UDP. */
static void netreach(int argc, char **argv)
{
    int port = argc > 0 ? atoi(argv[0]) : 0;
    for (int i = 1; i < argc; i++)
        for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++)
            if (talk(argv[i], port, type, 1500) > 0)
                breach("%s port %d by %s answers", argv[i], port,
                       type == SOCK_STREAM ? "tcp" : "udp");
    ok("port %d of %d addresses is out of reach", port, argc - 1);
}

/* A server for the neighbours: answers on PORT on every address until it is killed. */
static void netserve(int argc, char **argv)
{
    struct sockaddr_storage sa;
    socklen_t n = address("::", argc > 0 ? atoi(argv[0]) : 0, &sa);
    int s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(s, (void *)&sa, n) < 0 || listen(s, 16) < 0) {
        breach("cannot serve: %s", strerror(errno));
        return;
    }
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int c = accept(s, NULL, NULL);
        (void)!write(c, "mine\n", 5);
        close(c);
    }
}

/* The sandbox cannot change its own network: no rule, route, address, nor the settings of the
 * namespace. */
static void netown(int argc, char **argv)
{
    static const char *const settings[] = { "/proc/sys/net/ipv4/ip_unprivileged_port_start",
                                            "/proc/sys/net/ipv4/ip_forward",
                                            "/proc/sys/net/ipv4/ping_group_range" };
    (void)argc, (void)argv;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (access(settings[i], W_OK) == 0)
            breach("%s can be written", settings[i]);
    int nft = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 12);
    if (nft >= 0)
        breach("a netfilter socket opens");
    struct {
        uint32_t len;
        uint16_t type, flags;
        uint32_t seq, pid;
        uint8_t family, bits, flags2, scope;
        uint32_t index;
    } down = { sizeof down, 21 /* RTM_DELADDR */, 5, 1, 0, AF_INET, 32, 0, 0, 1 };
    char buf[512];
    int rt = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (rt >= 0 && send(rt, &down, sizeof down, 0) > 0 && recv(rt, buf, sizeof buf, 0) >= 20) {
        int32_t e;
        memcpy(&e, buf + 16, sizeof e);
        if (e != -EPERM)
            breach("an address can be taken away: %d", e);
    }
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    must_fail("IP_TRANSPARENT", setsockopt(s, IPPROTO_IP, 19, &one, sizeof one), EPERM);
    must_fail("SO_MARK", setsockopt(s, SOL_SOCKET, SO_MARK, &one, sizeof one), EPERM);
    for (int i = 0; i < 2; i++) { /* what egress answers on cannot be taken over */
        struct sockaddr_storage sa;
        socklen_t n = address("::", i ? 53 : 15001, &sa);
        int t = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(t, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        setsockopt(t, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
        must_fail("bind the listener's port", bind(t, (void *)&sa, n), EADDRINUSE);
        close(t);
    }
}

const probe net_probes[] = {
    { "netoff", netoff }, { "netreach", netreach }, { "netserve", netserve },
    { "netown", netown }, { NULL, NULL },
};
