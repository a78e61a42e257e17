/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress PROGRAM [QUICK]: what the way through cay-egress costs, beside the same server reached
 * directly over loopback and, where it is there, through haproxy in TCP mode. The server is a
 * service of the host for egress, so that all three go over one loopback. Everything in turns, the
 * median of five rounds.
 */
#include "measure.h"
#include <arpa/inet.h>
#include <base/fd.h>
#include <proto/egress.h>
#include <daemon/keeper/netns.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { PORT = 9000, ROUNDS = 5, BOXES = 100, FLOWS = 2000 };
typedef enum what { CONNECT, PING, BULK, HOLD, MAP } what;
typedef struct order {
    what what;
    char addr[16];
    uint16_t port;
    uint64_t n;
} order;
typedef struct agent {
    int pid, sock;
    netns net;
} agent;

static void nodelay(int s)
{
    int one = 1;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static int serve(uint16_t *port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(l, (void *)&a, sizeof a) < 0 || listen(l, 4096) < 0 ||
        getsockname(l, (void *)&a, &len) < 0)
        give_up("a server: %s", strerror(errno));
    *port = ntohs(a.sin_port);
    int pid = fork();
    if (pid)
        return close(l), pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* give_up() does not come back to end it */
    static char buf[256 << 10];
    struct epoll_event e = { .events = EPOLLIN, .data.fd = l }, got[64];
    int ep = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(ep, EPOLL_CTL_ADD, l, &e);
    for (;;)
        for (int n = epoll_wait(ep, got, 64, -1), i = 0; i < n; i++) {
            int fd = got[i].data.fd;
            if (fd == l) {
                e.data.fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);
                nodelay(e.data.fd);
                epoll_ctl(ep, EPOLL_CTL_ADD, e.data.fd, &e);
                continue;
            }
            ssize_t k = recv(fd, buf, sizeof buf, 0);
            if (k == 9 && buf[0] == 'b') {
                uint64_t left;
                memcpy(&left, buf + 1, 8);
                for (ssize_t m; left && (m = send(fd, buf, left < sizeof buf ? left : sizeof buf,
                                                  MSG_NOSIGNAL)) > 0;)
                    left -= (uint64_t)m;
            } else if (k <= 0 || send(fd, buf, (size_t)k, MSG_NOSIGNAL) < 0)
                close(fd);
        }
}

static int dial(const order *o)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(o->port) };
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, o->addr, &a.sin_addr);
    if (s < 0 || connect(s, (void *)&a, sizeof a) < 0)
        give_up("connect to %s port %u: %s", o->addr, o->port, strerror(errno));
    nodelay(s);
    return s;
}

static void ping(int s)
{
    char c = 'x';
    if (send(s, &c, 1, MSG_NOSIGNAL) != 1 || recv(s, &c, 1, 0) != 1)
        give_up("no answer: %s", strerror(errno));
}

/* Microseconds for one; for BULK bytes in a microsecond. */
static double obey(const order *o)
{
    static char buf[256 << 10];
    series all = { 0 };
    double t = now_us();
    if (o->what == MAP) { /* the name gets its number */
        static const char q[] = "\0\1\1\0\0\1\0\0\0\0\0\0\3svc\5bench\0\0\1\0\1";
        struct sockaddr_in a = { .sin_family = AF_INET,
                                 .sin_port = htons(53),
                                 .sin_addr.s_addr = htonl(0x7f000035) };
        int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (connect(s, (void *)&a, sizeof a) < 0 || send(s, q, sizeof q - 1, 0) < 0 ||
            recv(s, buf, sizeof buf, 0) < 16 || memcmp(buf + 39, "\306\22\1\1", 4))
            give_up("egress does not answer for svc.bench");
        close(s);
        return 1;
    }
    if (o->what == CONNECT) {
        for (uint64_t i = 0; i < o->n; i++) {
            double one = now_us();
            int s = dial(o);
            ping(s);
            add(&all, now_us() - one);
            close(s);
        }
        double v = percentile(&all, 50);
        free(all.v);
        return v;
    }
    int s = dial(o);
    if (o->what == PING) {
        ping(s);
        t = now_us();
        for (uint64_t i = 0; i < o->n; i++)
            ping(s);
        t = (now_us() - t) / (double)o->n;
    } else if (o->what == BULK) {
        char ask[9] = "b";
        uint64_t left = o->n;
        memcpy(ask + 1, &left, 8);
        t = now_us();
        (void)!send(s, ask, 9, MSG_NOSIGNAL);
        for (ssize_t k; left && (k = recv(s, buf, sizeof buf, 0)) > 0;)
            left -= (uint64_t)k;
        if (left)
            give_up("a transfer ended early");
        t = (double)o->n / (now_us() - t);
    } else { /* HOLD: the descriptors stay open until the agent ends */
        ping(s);
        for (uint64_t i = 1; i < o->n; i++)
            ping(dial(o));
        return 1;
    }
    close(s);
    return t;
}

static void map_root(void)
{
    char text[32];
    int uid = (int)geteuid(), gid = (int)getegid();
    if (!uid)
        return;
    if (unshare(CLONE_NEWUSER) < 0)
        give_up("a user namespace: %s", strerror(errno));
    snprintf(text, sizeof text, "0 %d 1", uid);
    cay__fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
    cay__fd_write_file(AT_FDCWD, "/proc/self/uid_map", text);
    snprintf(text, sizeof text, "0 %d 1", gid);
    cay__fd_write_file(AT_FDCWD, "/proc/self/gid_map", text);
}

static agent agent_start(bool box)
{
    int pair[2], n = CAY__NET_FDS;
    agent a = { 0 };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 || (a.pid = fork()) < 0)
        give_up("an agent: %s", strerror(errno));
    if (a.pid == 0) {
        order o;
        netns net = { .how = -1 };
        close(pair[0]);
        if (box) {
            map_root();
            const char *step = netns_make(&net);
            if (step || net.how == CAY__NET_NONE || !netns_serve(net.fd))
                give_up("a net namespace: %s: %s", step ? step : "nftables", strerror(errno));
        }
        cay__fd_send(pair[1], &net, sizeof net, net.fd, box ? CAY__NET_FDS : 0, 0);
        while (recv(pair[1], &o, sizeof o, 0) == sizeof o) {
            double v = obey(&o);
            (void)!send(pair[1], &v, sizeof v, 0);
        }
        _exit(0);
    }
    close(pair[1]);
    a.sock = pair[0];
    int fds[CAY__NET_FDS];
    if (cay__fd_recv(a.sock, &a.net, sizeof a.net, fds, &n, 0) != sizeof a.net ||
        n != (box ? CAY__NET_FDS : 0))
        give_up("an agent did not begin");
    memcpy(a.net.fd, fds, sizeof fds);
    return a;
}

static double tell(const agent *a, what w, const char *addr, uint16_t port, uint64_t n)
{
    order o = { .what = w, .port = port, .n = n };
    double v;
    snprintf(o.addr, sizeof o.addr, "%s", addr);
    if (send(a->sock, &o, sizeof o, 0) < 0 || recv(a->sock, &v, sizeof v, 0) != sizeof v)
        give_up("an agent ended");
    return v;
}

static int memory_file(const char *text)
{
    int fd = memfd_create("bench", MFD_CLOEXEC);
    if (fd < 0 || !cay__fd_write_all(fd, text, strlen(text)))
        give_up("memfd: %s", strerror(errno));
    return fd;
}

static int egress_start(const char *program, uint16_t port, int *pid)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    const char *home = getenv("CAY_HOME");
    char dir[80], op[200];
    snprintf(sa.sun_path, sizeof sa.sun_path, "%.60s/egress", home);
    snprintf(dir, sizeof dir, "%.60s/net", home);
    snprintf(op, sizeof op, "cay-net 1\nservice svc.bench:%d 127.0.0.1:%u\n", PORT, port);
    mkdir(dir, 0700);
    int fds[3] = { socket(AF_UNIX, SOCK_SEQPACKET, 0), open(dir, O_RDONLY | O_DIRECTORY),
                   memory_file(op) };
    if (bind(fds[0], (void *)&sa, sizeof sa) < 0 || listen(fds[0], 4) < 0)
        give_up("%s: %s", sa.sun_path, strerror(errno));
    if ((*pid = fork()) == 0) {
        for (int i = 0; i < 3; i++)
            fds[i] = fcntl(fds[i], F_DUPFD, 100);
        for (int i = 0; i < 3; i++)
            dup2(fds[i], 3 + i);
        execl(program, "cay-egress", (char *)NULL);
        _exit(127);
    }
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(s, (void *)&sa, sizeof sa) < 0)
        give_up("connect to egress: %s", strerror(errno));
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    return s;
}

static void lend(int keeper, const agent *a, unsigned number)
{
    char text[64];
    struct {
        cay_msg head;
        cay_n_box box;
    } m = { { CAY_MSG_MAGIC, CAY_N_VERSION, CAY_N_LEND, 0, 0 },
            { .cookie = a->net.cookie,
              .revision = 1,
              .flags = a->net.how == CAY__NET_NAT ? CAY_N_FALLBACK : 0 } };
    snprintf(m.box.id, sizeof m.box.id, "caaaaaaaaaaaaaaaaa%c%c", 'a' + number / 26 % 26,
             'a' + number % 26);
    snprintf(text, sizeof text, "cay-net 1\nmode rules\nrule svc.bench:%d\n", PORT);
    int fds[5] = { a->net.fd[0], a->net.fd[1], a->net.fd[2], a->net.fd[3], memory_file(text) };
    struct {
        cay_msg head;
        cay_n_ack ack;
    } r = { 0 };
    if (cay__fd_send(keeper, &m, sizeof m, fds, 5, 0) < 0 ||
        recv(keeper, &r, sizeof r, 0) != sizeof r || r.ack.code)
        give_up("egress does not take a sandbox: %s", r.ack.msg);
    close(fds[4]);
}

static int haproxy(uint16_t to, uint16_t *port)
{
    char path[120], pidless[] = "-db";
    snprintf(path, sizeof path, "%.80s/haproxy.cfg", getenv("CAY_HOME"));
    const char *program = getenv("HAPROXY"),
               *libs = getenv("HAPROXY_LIBS"); /* bench/run says which */
    if (!program || access(program, X_OK) < 0)
        return 0;
    *port = (uint16_t)(to + 1 < 65535 ? to + 1 : to - 1);
    FILE *f = fopen(path, "we");
    if (!f)
        return 0;
    fprintf(
        f,
        "global\n maxconn 4000\n nbthread 1\ndefaults\n mode tcp\n timeout connect 5s\n timeout "
        "client 60s\n timeout server 60s\nlisten l\n bind 127.0.0.1:%u\n server s 127.0.0.1:%u\n",
        *port, to);
    fclose(f);
    int pid = fork();
    if (pid == 0) {
        if (libs && *libs)
            setenv("LD_LIBRARY_PATH", libs, 1);
        execl(program, "haproxy", "-q", pidless, "-f", path, (char *)NULL);
        _exit(127);
    }
    sleep_ms(500);
    return pid;
}

static double private_kb(int pid)
{
    char path[64], line[256];
    double kb = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "Private_", 8))
            kb += strtod(strchr(line, ':') + 1, NULL);
    if (f)
        fclose(f);
    return kb;
}

int main(int argc, char **argv)
{
    bool quick = argc > 2;
    struct rlimit r;
    uint16_t port, by = 0;
    int eg;
    if (argc < 2 || !getenv("CAY_HOME"))
        give_up("usage: egress PROGRAM [QUICK], with CAY_HOME");
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    int server = serve(&port), keeper = egress_start(argv[1], port, &eg), ha = haproxy(port, &by);
    agent out = agent_start(false), in = agent_start(true);
    lend(keeper, &in, 0);
    tell(&in, MAP, "", 0, 0);
    static const struct {
        what w;
        uint64_t n;
    } kinds[] = { { CONNECT, 1000 }, { PING, 10000 }, { BULK, 1ull << 30 } };
    double v[3][3] = { 0 }; /* kind; direct, egress, haproxy */
    for (int k = 0; k < 3; k++) {
        series s[3] = { 0 };
        uint64_t n = quick ? kinds[k].n / 20 : kinds[k].n;
        for (int i = 0; i < ROUNDS; i++) {
            add(&s[0], tell(&out, kinds[k].w, "127.0.0.1", port, n));
            add(&s[1], tell(&in, kinds[k].w, "198.18.1.1", PORT, n));
            if (ha)
                add(&s[2], tell(&out, kinds[k].w, "127.0.0.1", by, n));
        }
        for (int i = 0; i < (ha ? 3 : 2); i++)
            v[k][i] = percentile(&s[i], 50);
    }
    /* Goals speak of the same run; without haproxy those against it are only told. */
    peer p[4][2] = { { { "haproxy", ha ? v[0][2] : 0 } },
                     { { "haproxy", ha ? 1e6 / v[0][2] : 0 } },
                     { { "haproxy", ha ? 1e6 / v[1][2] : 0 } },
                     { { "haproxy", ha ? v[2][2] : 0 } } };
    figure((fig){ "egress-first-byte", "us", v[0][1], v[0][0], v[0][1] - v[0][0], "<=500", ROUNDS,
                  p[0] });
    figure((fig){ "egress-new", "/s", 1e6 / v[0][1], 1e6 / v[0][0], ha ? v[0][2] / v[0][1] : 0,
                  ha ? ">=0.9" : NULL, ROUNDS, p[1] });
    figure((fig){ "egress-kept", "/s", 1e6 / v[1][1], 1e6 / v[1][0], ha ? v[1][2] / v[1][1] : 0,
                  ha ? ">=1.0" : NULL, ROUNDS, p[2] });
    figure(
        (fig){ "egress-bulk", "MB/s", v[2][1], v[2][0], v[2][1] / v[2][0], ">=0.5", ROUNDS, p[3] });
    if (ha)
        figure((fig){ "egress-bulk-peer", "MB/s", v[2][1], v[2][2], v[2][1] / v[2][2], ">=1.2",
                      ROUNDS, NULL });
    int boxes = quick ? 10 : BOXES;
    agent *all = calloc((size_t)boxes, sizeof *all);
    for (int i = 1; i < boxes; i++) {
        all[i] = agent_start(true);
        lend(keeper, &all[i], (unsigned)i);
        tell(&all[i], MAP, "", 0, 0);
        tell(&all[i], HOLD, "198.18.1.1", PORT, (uint64_t)(FLOWS / boxes));
    }
    tell(&in, HOLD, "198.18.1.1", PORT, (uint64_t)(FLOWS / boxes));
    double kb = private_kb(eg);
    figure((fig){ "egress-memory", "kB", kb, 0, kb, "<=8192", (size_t)boxes, NULL });
    for (int i = 0; i < boxes; i++)
        kill(i ? all[i].pid : in.pid, SIGKILL);
    kill(out.pid, SIGKILL);
    kill(server, SIGKILL);
    kill(eg, SIGKILL);
    if (ha)
        kill(ha, SIGKILL);
    while (wait(NULL) > 0)
        ;
    return 0;
}
