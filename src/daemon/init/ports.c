/* SPDX-License-Identifier: Apache-2.0 */
/* Who listens inside, and a socket from inside that the client connects itself. */
#include "procfs.h"
#include "session_ops.h"
#include <base/base.h>
#include <daemon/keeper/netns.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { PORTS_MAX = 1024, TCP_LISTEN_STATE = 0x0a };

typedef struct listener {
    cay_ses_port p;
    uint64_t inode;
} listener;

typedef struct listeners {
    size_t n;
    listener l[PORTS_MAX];
} listeners;

/* "0100007F" or four such words: each is a word of the address in host order. */
static bool hex_addr(const char *s, size_t words, uint8_t *out)
{
    for (size_t i = 0; i < words; i++) {
        uint32_t v;
        if (!cay__hex_get(&v, s + i * 8, sizeof v))
            return false;
        v = ntohl(v);
        memcpy(out + i * 4, &v, 4);
    }
    return s[words * 8] == ':';
}

/* "  0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 1000 0 12345 …" */
static bool parse_line(const char *line, int family, listener *out)
{
    char *f[10];
    char copy[256];
    CAY_COPY(copy, line);
    if (cay__split(copy, f, 10) < 10)
        return false;
    size_t words = 4;
    if (family == AF_INET)
        words = 1;
    uint64_t port, state, inode;
    *out = (listener){ .p.family = (uint16_t)family };
    if (strlen(f[1]) <= words * 8 || !hex_addr(f[1], words, out->p.addr) ||
        !cay__hex(f[1] + words * 8 + 1, &port) || !cay__hex(f[3], &state) ||
        !cay__str_to_u64(f[9], &inode) || state != TCP_LISTEN_STATE || !port || port > 65535)
        return false;
    if (port == 53 || port == CAY__NET_PORT) /* ours: nobody else can bind them */
        return false;
    out->p.port = (uint16_t)port;
    out->inode = inode;
    return true;
}

static int add_line(const char *line, void *arg, int family)
{
    listeners *all = arg;
    if (all->n < PORTS_MAX && parse_line(line, family, &all->l[all->n]))
        all->n++;
    return 0;
}

static int on_tcp4_line(const char *line, void *arg)
{
    return add_line(line, arg, AF_INET);
}

static int on_tcp6_line(const char *line, void *arg)
{
    return add_line(line, arg, AF_INET6);
}

static listeners *read_all(void)
{
    listeners *all = malloc(sizeof *all);
    if (!all)
        return NULL;
    all->n = 0;
    if (cay__proc_lines("/proc/net/tcp", on_tcp4_line, all) < 0) {
        free(all);
        return NULL;
    }
    cay__proc_lines("/proc/net/tcp6", on_tcp6_line, all); /* missing without IPv6 */
    return all;
}

/* Marks the listeners whose socket is open in this process; other users' processes cannot be read.
 */
static int look_at(int pid, int dir, void *arg)
{
    listeners *all = arg;
    CAY_AUTOFD fds = openat(dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fds < 0)
        return 0;
    cay__dents d = { .fd = fds };
    for (const char *name; (name = cay__dents_next(&d));) {
        char link[64];
        uint64_t inode;
        ssize_t n = readlinkat(fds, name, link, sizeof link - 1);
        if (n < 10 || strncmp(link, "socket:[", 8) || link[n - 1] != ']')
            continue;
        link[n - 1] = 0;
        for (size_t i = 0; cay__str_to_u64(link + 8, &inode) && i < all->n; i++)
            if (all->l[i].inode == inode && !all->l[i].p.pid)
                all->l[i].p.pid = pid;
    }
    return 0;
}

int cay__ses_ports(cay__ses *s)
{
    CAY_AUTOFREE listeners *all = read_all();
    if (!all)
        return -1;
    if (all->n)
        cay__proc_each(look_at, all);
    CAY_EACH_OF(it, all->l, all->n)
        if (cay__ses_record(s, (cay__ses_part[]){ { &it->p, sizeof it->p } }, 1) < 0)
            return -1;
    return 0;
}

/* How well 127.0.0.1 (or ::1) reaches this listener: 0 not at all. */
static int rank_listener(const cay_ses_port *p)
{
    static const uint8_t any[16], lo6[16] = { [15] = 1 };
    if (p->family == AF_INET) {
        if (p->addr[0] == 127 && p->addr[3] == 1 && !p->addr[1] && !p->addr[2])
            return 4;
        if (!memcmp(p->addr, any, 4))
            return 3;
        return 0;
    }
    if (!memcmp(p->addr, lo6, 16))
        return 2;
    if (!memcmp(p->addr, any, 16))
        return 1;
    return 0;
}

static int best_family(uint64_t port)
{
    CAY_AUTOFREE listeners *all = read_all();
    int best = 0, family = 0;
    if (!all)
        return -1;
    CAY_EACH_OF(it, all->l, all->n) {
        int r = 0;
        if (it->p.port == port)
            r = rank_listener(&it->p);
        if (r > best) {
            best = r;
            family = it->p.family;
        }
    }
    return family;
}

/* Who says a family tries whether anybody listens there. To look for that takes milliseconds: the
 * kernel goes through the sockets of the whole machine. */
int cay__ses_connect(cay__ses *s)
{
    uint64_t port = s->req->a;
    bool ours = port == 53 || port == CAY__NET_PORT;
    int family;
    if (ours)
        family = 0;
    else if (s->req->b == AF_INET || s->req->b == AF_INET6)
        family = (int)s->req->b;
    else
        family = best_family(port);
    if (family < 0)
        return -1;
    errno = ECONNREFUSED;
    CAY_AUTOFD sock = -1;
    if (family)
        sock = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -1;
    s->a = (uint64_t)family;
    if (cay__ses_answer(s, 0, sock) < 0)
        return CAY__SES_END;
    return CAY__SES_DONE;
}
