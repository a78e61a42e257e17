/* SPDX-License-Identifier: Apache-2.0 */
/* S-28, S-34, S-35: no way out without a policy, none while egress is down, and none to neighbours
 * and host. */
#include "attack.h"
#include <arpa/inet.h>
#include <cay/policy.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { ADDRESSES = 12 };

static struct {
    int fd, udp, port;
    unsigned hits;
    char addr[ADDRESSES][64];
    unsigned n;
    pthread_t thread;
} host;

/* Whoever reaches a listener of the host is counted, and answered. */
static void *count(void *arg)
{
    struct pollfd p[2] = { { host.fd, POLLIN, 0 }, { host.udp, POLLIN, 0 } };
    (void)arg;
    while (poll(p, 2, -1) >= 0 || errno == EINTR) {
        struct sockaddr_storage from;
        socklen_t n = sizeof from;
        char buf[64];
        if (p[0].revents) {
            int c = accept(host.fd, NULL, NULL);
            (void)!write(c, "host\n", 5);
            close(c);
            __atomic_add_fetch(&host.hits, c >= 0, __ATOMIC_SEQ_CST);
        }
        if (p[1].revents && recvfrom(host.udp, buf, sizeof buf, 0, (void *)&from, &n) > 0) {
            __atomic_add_fetch(&host.hits, 1, __ATOMIC_SEQ_CST);
            sendto(host.udp, "host\n", 5, 0, (void *)&from, n);
        }
    }
    return NULL;
}

static void host_listens(void)
{
    struct sockaddr_in6 sa = { .sin6_family = AF_INET6 };
    socklen_t n = sizeof sa;
    struct ifaddrs *all = NULL;
    host.fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    host.udp = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(host.fd, (void *)&sa, sizeof sa) < 0 || listen(host.fd, 64) < 0 ||
        getsockname(host.fd, (void *)&sa, &n) < 0 || bind(host.udp, (void *)&sa, sizeof sa) < 0)
        give_up("a listener on the host: %s", strerror(errno));
    host.port = ntohs(sa.sin6_port);
    pthread_create(&host.thread, NULL, count, NULL);
    getifaddrs(&all);
    for (struct ifaddrs *a = all; a && host.n < ADDRESSES - 2; a = a->ifa_next) {
        if (!a->ifa_addr ||
            (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6))
            continue;
        bool six = a->ifa_addr->sa_family == AF_INET6;
        inet_ntop(six ? AF_INET6 : AF_INET,
                  six ? (void *)&((struct sockaddr_in6 *)a->ifa_addr)->sin6_addr
                      : (void *)&((struct sockaddr_in *)a->ifa_addr)->sin_addr,
                  host.addr[host.n++], sizeof host.addr[0]);
    }
    if (all)
        freeifaddrs(all);
    snprintf(host.addr[host.n++], sizeof host.addr[0], "127.0.0.1");
    snprintf(host.addr[host.n++], sizeof host.addr[0], "::1");
    /* The judge of what follows is judged: from here it is reached. */
    struct sockaddr_in me = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)host.port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char buf[8];
    if (connect(s, (void *)&me, sizeof me) < 0 || read(s, buf, sizeof buf) != 5)
        give_up("the host does not reach its own listener");
    close(s);
    while (__atomic_load_n(&host.hits, __ATOMIC_SEQ_CST) == 0) /* counted after it was answered */
        nap(1);
    __atomic_store_n(&host.hits, 0, __ATOMIC_SEQ_CST);
}

/* From inside, at every address of the host: nobody answers, and nobody was reached. */
static void out_of_reach(cay_sandbox *sb, const char *user)
{
    char port[16], *argv[ADDRESSES + 5] = { "/tmp/probe", "netreach", port };
    snprintf(port, sizeof port, "%d", host.port);
    for (unsigned i = 0; i < host.n; i++)
        argv[3 + i] = host.addr[i];
    cay_spawn spec = { .size = sizeof spec, .argv = (const char *const *)argv, .user = user };
    inside_spec(sb, &spec);
    unsigned n = __atomic_load_n(&host.hits, __ATOMIC_SEQ_CST);
    CHECK(n == 0, "the host's listener was reached %u times", n);
}

static void s28_off(void)
{
    host_listens();
    cay_sandbox *sb = box_new(NULL);
    const char *far = "203.0.113.9";
    for (unsigned i = 0; i < host.n; i++)
        if (strncmp(host.addr[i], "127.", 4) && strcmp(host.addr[i], "::1"))
            far = host.addr[i];
    inside(sb, NULL, "netoff", far, NULL);
    inside(sb, NULL, "netown", NULL);
    out_of_reach(sb, NULL);
    if (W.mode & MANY_IDS) {
        inside(sb, "root", "netown", NULL);
        out_of_reach(sb, "root");
    }
    box_remove(sb);
}

static const char all_text[] = "cay-net 1\nmode all\n";

static bool egress_is_here(cay_sandbox *sb)
{
    char path[400];
    snprintf(path, sizeof path, "%s/cay-egress", W.bin);
    if (access(path, X_OK) < 0) {
        skip("cay-egress is not built here");
        return false;
    }
    if (strcmp(box_layer(sb, "egress-policy"), "on")) {
        skip("this kernel has no egress-policy");
        return false;
    }
    return true;
}

static void s35_lateral(void)
{
    cay_err err = CAY_ERR_INIT;
    host_listens();
    cay_sandbox *a = box_new(NULL), *b = box_new(NULL);
    cay_spawn base = { .size = sizeof base };
    cay_proc *server = inside_start(b, &base, "netserve", "7777", NULL);
    char out[256];
    for (int round = 0; round < 2; round++) {
        out_of_reach(a, NULL);
        inside(a, NULL, "netreach", "7777", "127.0.0.1", "::1", "198.18.0.1", "fd63:6179::1",
               "10.0.0.1", "169.254.169.254", NULL);
        inside(a, NULL, "netreach", "8090", "127.0.0.1", "::1", "198.18.0.1", NULL);
        /* the sockets of keeper and egress are files of the host, and none of them is seen inside
         */
        command(a, NULL, "ls /run/cay /run/user 2>/dev/null; find / -xdev -type s 2>/dev/null", out,
                sizeof out);
        CHECK(!strstr(out, "sock"), "a socket of the host is in reach: %s", out);
        if (round || !egress_is_here(a))
            break;
        /* The widest policy that a tenant may ask for changes nothing of it. */
        if (cay_sandbox_set_policy(a, within(10000), all_text, NULL, &err) < 0)
            give_up("policy: %s", err.msg);
    }
    cay_proc_signal(server, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
    cay_proc_unref(server);
    box_remove(a);
    box_remove(b);
}

static int egress_pid(void)
{
    char path[500], text[64] = "";
    snprintf(path, sizeof path, "%s/egress.pid", W.sockets);
    return host_get(path, text, sizeof text) ? atoi(text) : 0;
}

/* It reads what hostile programs send: it must have nothing that is worth taking. */
static void egress_is_nobody(void)
{
    static const char *const none[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
    char path[64], text[8192], want[64];
    snprintf(path, sizeof path, "/proc/%d/status", egress_pid());
    if (!host_get(path, text, sizeof text))
        give_up("egress does not run");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        snprintf(want, sizeof want, "\n%s:\t0000000000000000\n", none[i]);
        CHECK(strstr(text, want), "egress has rights: %s is not empty", none[i]);
    }
    CHECK(strstr(text, "\nNoNewPrivs:\t1\n"), "egress could gain rights");
    CHECK(strstr(text, "\nSeccomp:\t2\n"), "egress has no filter");
    CHECK(W.mode != ROOT || !strstr(text, "\nUid:\t0"), "egress is the host's root");
}

static void s34_closed(void)
{
    cay_err err = CAY_ERR_INIT;
    uint64_t revision = 0, after = 0;
    host_listens();
    cay_sandbox *sb = box_new(NULL);
    if (!egress_is_here(sb)) {
        box_remove(sb);
        return;
    }
    /* A policy that cannot be read: no sandbox, and no change of one. */
    cay_create bad = { .size = sizeof bad, .net.policy = "cay-net 1\nmode rules\nrule a..b\n" };
    cay_sandbox *none = NULL;
    CHECK(cay_client_create(W.client, within(20000), &bad, &none, &err) < 0,
          "a sandbox was made with a broken policy");
    if (cay_sandbox_set_policy(sb, within(10000), "cay-net 1\nmode rules\nrule nobody.test\n",
                               &revision, &err) < 0)
        give_up("policy: %s", err.msg);
    CHECK(cay_sandbox_set_policy(sb, within(10000), bad.net.policy, NULL, &err) < 0,
          "a broken policy was accepted");
    egress_is_nobody();
    for (unsigned i = 0; i < many(40); i++) {
        int pid = egress_pid();
        if (i % 4 == 3)
            as_host("stop %d", pid);
        else
            as_host("kill %d", pid);
        out_of_reach(sb, NULL);
        inside(sb, NULL, "netreach", "80", "93.184.216.34", "1.1.1.1", "10.0.0.1", NULL);
        if (i % 4 == 3)
            as_host("kill %d", pid);
        nap(120);
    }
    char *text = NULL;
    if (cay_sandbox_get_policy(sb, within(10000), &text, &after, &err) < 0)
        give_up("get the policy: %s", err.msg);
    CHECK(after == revision && text && strstr(text, "nobody.test"),
          "the policy is another one: revision %llu, then %llu", (unsigned long long)revision,
          (unsigned long long)after);
    free(text);
    out_of_reach(sb, NULL);
    box_remove(sb);
}

const attack net_attacks[] = {
    { "S-28", "nothing leaves without a policy, and all is refused at once", ALL, "netns netfilter",
      NULL, s28_off },
    { "S-34", "a dead or wedged egress, a broken policy: nothing opens", ALL, "egress-root", NULL,
      s34_closed },
    { "S-35", "no neighbour and no port of the host is in reach", ALL, "netns", NULL, s35_lateral },
    { 0 },
};
