/* SPDX-License-Identifier: Apache-2.0 */
/* Each test makes a net namespace of its own in a child; where user namespaces are refused the
 * program skips aloud. */
#include <arpa/inet.h>
#include <base/base.h>
#include <base/fault.h>
#include <base/fd.h>
#include <proto/egress.h>
#include <fcntl.h>
#include <daemon/keeper/netns.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <cmocka.h>

static bool serve = true;
static const char *refuse; /* fault points that pretend a kernel with less */

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            dprintf(2, "line %d: %s (errno %d)\n", __LINE__, #cond, errno);                        \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static void in_namespace(int (*body)(netns *n))
{
    int pid = fork(), st;
    if (pid == 0) {
        netns n;
        if (refuse)
            cay__fault_set(refuse);
        if (geteuid() != 0 && unshare(CLONE_NEWUSER) < 0)
            _exit(77);
        const char *step = netns_make(&n);
        if (step) {
            perror(step);
            _exit(2);
        }
        if (serve && n.how && !netns_serve(n.fd))
            _exit(3);
        _exit(body(&n));
    }
    assert_int_equal(waitpid(pid, &st, 0), pid);
    assert_true(WIFEXITED(st));
    if (WEXITSTATUS(st) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(st), 0);
}

static struct sockaddr_storage addr(const char *ip, int port, socklen_t *n)
{
    struct sockaddr_storage ss = { 0 };
    struct sockaddr_in *a4 = (void *)&ss;
    struct sockaddr_in6 *a6 = (void *)&ss;
    if (inet_pton(AF_INET, ip, &a4->sin_addr) == 1) {
        a4->sin_family = AF_INET;
        a4->sin_port = htons((uint16_t)port);
        *n = sizeof *a4;
    } else {
        inet_pton(AF_INET6, ip, &a6->sin6_addr);
        a6->sin6_family = AF_INET6;
        a6->sin6_port = htons((uint16_t)port);
        *n = sizeof *a6;
    }
    return ss;
}

static int dial(const char *ip, int port, int type)
{
    socklen_t n;
    struct sockaddr_storage sa = addr(ip, port, &n);
    int s = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);
    if (s >= 0 && connect(s, (void *)&sa, n) < 0) {
        int e = errno;
        close(s);
        errno = e;
        return -1;
    }
    return s;
}

/* The local address of a socket as text, v4-mapped ones as v4. */
static const char *local(int s, int *port)
{
    static char buf[64];
    struct sockaddr_storage ss;
    struct sockaddr_in6 *a6 = (void *)&ss;
    struct sockaddr_in *a4 = (void *)&ss;
    socklen_t n = sizeof ss;
    getsockname(s, (void *)&ss, &n);
    *port = ntohs(a4->sin_port);
    if (ss.ss_family == AF_INET)
        return inet_ntop(AF_INET, &a4->sin_addr, buf, sizeof buf);
    if (IN6_IS_ADDR_V4MAPPED(&a6->sin6_addr))
        return inet_ntop(AF_INET, a6->sin6_addr.s6_addr + 12, buf, sizeof buf);
    return inet_ntop(AF_INET6, &a6->sin6_addr, buf, sizeof buf);
}

/* What waits does so each time, a second at least; who is only busy does not. */
static bool refused_at_once(const char *ip, int port)
{
    for (int i = 0; i < 3; i++) {
        int64_t t = cay__now_ms();
        if (dial(ip, port, SOCK_STREAM) >= 0 || errno != ECONNREFUSED)
            return false;
        if (cay__now_ms() - t < 900)
            return true;
    }
    return false;
}

static int take(int listener)
{
    struct pollfd p = { listener, POLLIN, 0 };
    return poll(&p, 1, 20000) == 1 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
}

static const struct {
    const char *ip;
    int port;
} world[] = {
    { "93.184.216.34", 443 }, { "10.0.0.1", 22 },      { "169.254.169.254", 80 },
    { "198.18.3.7", 5432 },   { "2606:2800::1", 443 }, { "fd63:6179:0:1::5", 80 },
};

static int tproxy(netns *n)
{
    CHECK(n->how == CAY__NET_TPROXY);
    for (size_t i = 0; i < CAY_LEN(world); i++) {
        int port, c = dial(world[i].ip, world[i].port, SOCK_STREAM);
        CHECK(c >= 0);
        int s = take(n->fd[CAY__NET_TCP_FD]);
        CHECK(s >= 0);
        CHECK(!strcmp(local(s, &port), world[i].ip));
        CHECK(port == world[i].port);
        CHECK(write(c, "x", 1) == 1);
        char b;
        CHECK(read(s, &b, 1) == 1 && b == 'x');
        close(c);
        close(s);
    }
    return 0;
}

static void tcp_to_any_address_reaches_the_listener(void **st)
{
    (void)st;
    in_namespace(tproxy);
}

static int nat(netns *n)
{
    CHECK(n->how == CAY__NET_NAT);
    for (size_t i = 0; i < CAY_LEN(world); i++) {
        bool six = strchr(world[i].ip, ':');
        struct sockaddr_storage ss;
        struct sockaddr_in6 *a6 = (void *)&ss;
        struct sockaddr_in *a4 = (void *)&ss;
        char buf[64];
        socklen_t len = six ? sizeof *a6 : sizeof *a4;
        int c = dial(world[i].ip, world[i].port, SOCK_STREAM), s = take(n->fd[CAY__NET_TCP_FD]);
        CHECK(c >= 0 && s >= 0);
        CHECK(getsockopt(s, six ? SOL_IPV6 : SOL_IP, 80 /* SO_ORIGINAL_DST */, &ss, &len) == 0);
        CHECK(inet_ntop(six ? AF_INET6 : AF_INET,
                        six ? (void *)&a6->sin6_addr : (void *)&a4->sin_addr, buf, sizeof buf));
        CHECK(!strcmp(buf, world[i].ip) && ntohs(a4->sin_port) == world[i].port);
        close(c);
        close(s);
    }
    return 0;
}

static void without_tproxy_nat_redirects(void **st)
{
    (void)st;
    refuse = "zygote.netns.tproxy=fail";
    in_namespace(nat);
    refuse = NULL;
}

static int near(netns *n)
{
    CHECK(dial("127.0.0.1", 8000, SOCK_STREAM) < 0 && errno == ECONNREFUSED);
    CHECK(dial("::1", 8000, SOCK_STREAM) < 0 && errno == ECONNREFUSED);
    CHECK(dial(CAY__NET_OWN4, 8000, SOCK_STREAM) < 0 && errno == ECONNREFUSED);
    /* "what is my address": the own one, where a server of ours is reachable */
    int port, u = dial("8.8.8.8", 9, SOCK_DGRAM);
    CHECK(u >= 0 && !strcmp(local(u, &port), CAY__NET_OWN4));
    u = dial("2001:4860:4860::8888", 9, SOCK_DGRAM);
    CHECK(u >= 0 && !strcmp(local(u, &port), CAY__NET_OWN6));
    struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(80) };
    int s = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(s, (void *)&sa, sizeof sa) == 0 && listen(s, 4) == 0);
    CHECK(dial(CAY__NET_OWN4, 80, SOCK_STREAM) >= 0 && take(s) >= 0);
    CHECK(dial("127.0.0.1", 80, SOCK_STREAM) >= 0 && take(s) >= 0);
    /* but another address with the same port is not ours */
    CHECK(dial("1.2.3.4", 80, SOCK_STREAM) >= 0 && take(n->fd[CAY__NET_TCP_FD]) >= 0);
    return 0;
}

static void loopback_and_the_own_address_stay_inside(void **st)
{
    (void)st;
    in_namespace(near);
}

static int datagrams(netns *n)
{
    static const char *const far[] = { "1.1.1.1", "192.168.1.1", "224.0.0.251", "2606:4700::1111" };
    socklen_t len;
    (void)n;
    for (size_t i = 0; i < CAY_LEN(far); i++) {
        struct sockaddr_storage sa = addr(far[i], 443, &len);
        int u = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        CHECK(sendto(u, "x", 1, 0, (void *)&sa, len) < 0 &&
              (errno == EPERM || errno == ENETUNREACH));
        close(u);
    }
    struct sockaddr_storage mdns = addr("224.0.0.251", 53, &len);
    int m = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(sendto(m, "x", 1, 0, (void *)&mdns, len) < 0 && errno == EPERM);
    int u = dial("127.0.0.1", 9999, SOCK_DGRAM);
    CHECK(u >= 0 && write(u, "x", 1) == 1); /* loopback datagrams work */
    return 0;
}

static void other_protocols_are_refused_at_once(void **st)
{
    (void)st;
    in_namespace(datagrams);
}

static int dns(netns *n)
{
    static const char *const servers[] = { "127.0.0.53", "8.8.8.8", "2001:4860:4860::8888" };
    for (size_t i = 0; i < CAY_LEN(servers); i++) {
        union {
            char room[CMSG_SPACE(sizeof(struct in6_pktinfo))];
            struct cmsghdr align;
        } ctl;
        char buf[16];
        struct sockaddr_in6 from;
        struct iovec io = { buf, sizeof buf };
        struct msghdr m = { .msg_name = &from,
                            .msg_namelen = sizeof from,
                            .msg_iov = &io,
                            .msg_iovlen = 1,
                            .msg_control = &ctl,
                            .msg_controllen = sizeof ctl };
        int u = dial(servers[i], 53, SOCK_DGRAM);
        CHECK(u >= 0 && write(u, "q", 1) == 1);
        struct pollfd q = { n->fd[CAY__NET_DNS_UDP], POLLIN, 0 };
        CHECK(poll(&q, 1, 20000) == 1 && recvmsg(q.fd, &m, 0) == 1);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        CHECK(c && c->cmsg_type == IPV6_PKTINFO);
        struct in6_pktinfo pi;
        memcpy(&pi, CMSG_DATA(c), sizeof pi);
        pi.ipi6_ifindex = 0;
        memcpy(CMSG_DATA(c), &pi, sizeof pi);
        io.iov_len = 1;
        CHECK(sendmsg(n->fd[CAY__NET_DNS_UDP], &m, 0) == 1);
        struct pollfd p = { u, POLLIN, 0 };
        CHECK(poll(&p, 1, 20000) == 1 &&
              read(u, buf, sizeof buf) ==
                  1); /* a connected socket: from the address that it asked */
        int port, t = dial(servers[i], 53, SOCK_STREAM), s = take(n->fd[CAY__NET_DNS_TCP]);
        CHECK(t >= 0 && s >= 0 && !strcmp(local(s, &port), servers[i]));
        close(u);
        close(t);
        close(s);
    }
    return 0;
}

static void every_resolver_is_ours(void **st)
{
    (void)st;
    in_namespace(dns);
}

static int taken(netns *n)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;
    const int ports[] = { 53, CAY__NET_PORT };
    for (size_t i = 0; i < 2; i++) {
        struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)ports[i]) };
        int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
        CHECK(bind(s, (void *)&sa, sizeof sa) < 0 && errno == EADDRINUSE);
        sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        CHECK(bind(s, (void *)&sa, sizeof sa) < 0 && errno == EADDRINUSE);
        close(s);
    }
    int s = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(getsockopt(s, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &cookie, &len) < 0 ||
          cookie == n->cookie);
    /* nobody serves: refused, without a wait */
    netns_close(n);
    CHECK(refused_at_once("93.184.216.34", 443));
    CHECK(refused_at_once("2606:2800::1", 443));
    return 0;
}

static void ports_are_taken_and_an_absent_listener_refuses(void **st)
{
    (void)st;
    in_namespace(taken);
}

static int one_by_one(netns *n)
{
    int s[CAY_N_PORTS_MOST + 1], again[CAY_N_PORTS_MOST], have = CAY_N_PORTS_MOST + 1,
                                                          same = CAY_N_PORTS_MOST;
    struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons(443) };
    char b;
    CHECK(n->how == CAY__NET_PORTS && n->fd[0] >= 0 && n->cookie);
    for (size_t i = 0; i < CAY_LEN(world); i++)
        CHECK(dial(world[i].ip, world[i].port, SOCK_STREAM) < 0 && errno == ECONNREFUSED);
    CHECK(dial("127.0.0.1", 80, SOCK_STREAM) < 0 && errno == ECONNREFUSED);
    CHECK(cay__fd_recv(n->fd[0], &b, 1, s, &have, MSG_PEEK) == 1 && have == CAY_N_PORTS_MOST);
    CHECK(bind(s[0], (void *)&sa, sizeof sa) == 0 && listen(s[0], 8) == 0);
    for (size_t i = 0; i < CAY_LEN(world); i++) {
        int port, c = dial(world[i].ip, world[i].port, SOCK_STREAM);
        CHECK((c >= 0) == (world[i].port == 443));
        int got = c >= 0 ? take(s[0]) : -1;
        CHECK(c < 0 || (got >= 0 && !strcmp(local(got, &port), world[i].ip) && port == 443));
        close(c);
        close(got);
    }
    /* whoever looks again finds the same ones; and they can be made to refuse */
    CHECK(cay__fd_recv(n->fd[0], &b, 1, again, &same, MSG_PEEK) == 1 && same == have);
    int port;
    CHECK(local(again[0], &port) && port == 443);
    netns_unserve(n->fd);
    CHECK(dial("93.184.216.34", 443, SOCK_STREAM) < 0 && errno == ECONNREFUSED);
    return 0;
}

static void without_nftables_a_port_can_have_a_listener(void **st)
{
    (void)st;
    refuse = "zygote.netns.nft=fail";
    in_namespace(one_by_one);
    refuse = NULL;
}

static int unserved(netns *n)
{
    static const char *const far[] = { "93.184.216.34", "10.0.0.1", "127.0.0.53", "2606:2800::1" };
    for (size_t i = 0; i < CAY_LEN(far); i++) {
        char b;
        CHECK(refused_at_once(far[i], 443));
        CHECK(refused_at_once(far[i], 53));
        int u = dial(far[i], 53, SOCK_DGRAM);
        CHECK(u >= 0 && write(u, "q", 1) == 1);
        CHECK(read(u, &b, 1) < 0 && errno == ECONNREFUSED);
        close(u);
    }
    struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons(53) };
    int u = socket(AF_INET6, SOCK_DGRAM, 0), s = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(bind(s, (void *)&sa, sizeof sa) < 0 && errno == EADDRINUSE);
    CHECK(bind(u, (void *)&sa, sizeof sa) == 0 && !netns_serve(n->fd) && errno == EADDRINUSE);
    close(u);
    CHECK(netns_serve(n->fd) && netns_serve(n->fd));
    sa.sin6_port = htons(CAY__NET_PORT);
    CHECK(bind(s, (void *)&sa, sizeof sa) < 0 && errno == EADDRINUSE);
    return 0;
}

static void what_nobody_serves_is_refused_at_once(void **st)
{
    (void)st;
    serve = false;
    in_namespace(unserved);
    serve = true;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_to_any_address_reaches_the_listener),
        cmocka_unit_test(without_tproxy_nat_redirects),
        cmocka_unit_test(loopback_and_the_own_address_stay_inside),
        cmocka_unit_test(other_protocols_are_refused_at_once),
        cmocka_unit_test(every_resolver_is_ours),
        cmocka_unit_test(ports_are_taken_and_an_absent_listener_refuses),
        cmocka_unit_test(without_nftables_a_port_can_have_a_listener),
        cmocka_unit_test(what_nobody_serves_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
