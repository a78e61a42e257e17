/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-egress: the only way out of sandboxes. Started by the keeper as proto/egress.h says; leaves
 * when nobody needs it.
 *
 * It lives in the host's net namespace and serves listeners that were made inside the sandboxes'.
 * When it is killed nothing leaves: the listeners stay with the keeper, and what waits in their
 * backlog is taken up by the next one.
 */
#include "egress.h"
#include <base/sanitize.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { FD_LISTEN = 3, FD_AUDIT = 4, FD_OPERATOR = 5, FD_FIRST = 6, SWEEP_MS = 5000 };

static void on_tick_timer(cay__timer *t)
{
    egress *e = CAY__OWNER(t, egress, tick);
    int64_t now = cay__boot_ms();
    later *due = NULL, **end = &due;
    CAY_EACH_LINK_SAFE(l, e->waiting) {
        if (l->at > now)
            continue;
        later_stop(l);
        l->prev = end; /* in a list of their own: a callback may stop any of them */
        l->next = NULL;
        *end = l;
        end = &l->next;
    }
    while (due) {
        later *l = due;
        later_stop(l);
        l->fn(l);
    }
    if (e->waiting && !e->tick.prev)
        cay__timer_after(&e->loop, &e->tick, TICK_MS);
}

void later_set(egress *e, later *l, int64_t ms, void (*fn)(later *l))
{
    later_stop(l);
    l->at = cay__boot_ms() + ms;
    l->fn = fn;
    CAY_CHAIN(e->waiting, l);
    if (!e->tick.prev)
        cay__timer_after(&e->loop, &e->tick, TICK_MS);
}

void later_stop(later *l)
{
    if (l->prev)
        CAY_UNCHAIN(l);
}

static void on_alarm(int sig) {}

/* A sandbox's init shares the open files of the listeners that were lent, and can make them block:
 * then the alarm ends the wait. */
void alarm_set(bool on)
{
    const struct timeval every = { .tv_sec = on ? ALARM_MS / 1000 : 0 };
    setitimer(ITIMER_REAL, &(struct itimerval){ every, every }, NULL);
}

bool sock_room(const egress *e, unsigned n)
{
    return e->fds + n <= e->fds_max;
}

int sock_open(egress *e, egress_box *b, int family, int type)
{
    if (!sock_room(e, 1)) {
        errno = EMFILE;
        return -1;
    }
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    e->fds += fd >= 0;
    if (b)
        b->fds += fd >= 0;
    return fd;
}

void sock_close(egress *e, egress_box *b, int fd)
{
    if (fd < 0)
        return;
    close(fd);
    e->fds--;
    if (b)
        b->fds--;
}

bool addr_is_v4(const uint8_t addr[16])
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    return !memcmp(addr, mapped, 12);
}

unsigned addr_to_sock(const uint8_t addr[16], uint16_t port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (addr_is_v4(addr)) {
        struct sockaddr_in *s = (struct sockaddr_in *)out;
        s->sin_family = AF_INET;
        s->sin_port = htons(port);
        memcpy(&s->sin_addr, addr + 12, 4);
        return sizeof *s;
    }
    struct sockaddr_in6 *s = (struct sockaddr_in6 *)out;
    s->sin6_family = AF_INET6;
    s->sin6_port = htons(port);
    memcpy(&s->sin6_addr, addr, 16);
    return sizeof *s;
}

bool addr_from_sock(const struct sockaddr_storage *s, uint8_t addr[16], uint16_t *port)
{
    if (s->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)s;
        memset(addr, 0, 10);
        addr[10] = addr[11] = 0xff;
        memcpy(addr + 12, &v4->sin_addr, 4);
        *port = ntohs(v4->sin_port);
        return true;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)s;
    if (s->ss_family != AF_INET6)
        return false;
    memcpy(addr, &v6->sin6_addr, 16);
    *port = ntohs(v6->sin6_port);
    return true;
}

/* What is wrong at the start is told on descriptor 2, which is the keeper's log or nothing. */
static int report_error(const char *what, const char *why)
{
    dprintf(2, "cay-egress: %s: %s\n", what, why);
    return 1;
}

static bool set_up(egress *e)
{
    if (cay__sock_get(FD_LISTEN, SO_ACCEPTCONN) <= 0)
        return report_error("descriptor 3",
                            "has to be the keeper's listening socket; this program is "
                            "started by cay-keeper"),
               false;
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur < 4 * RESERVE_FDS)
        return report_error("open files", "the hard limit is too low: raise it to at least 1024"),
               false;
    e->fds_max = (unsigned)CAY_MIN(r.rlim_cur, 1u << 20) - RESERVE_FDS;
    e->fds = FD_FIRST;
    e->flow_seq = (uint64_t)cay__now_us();
    e->audit_dir = FD_AUDIT;
    fcntl(FD_AUDIT, F_SETFD, FD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, NULL); /* no SA_RESTART */
    if (!cay__loop_open(&e->loop))
        return report_error("epoll", strerror(errno)), false;
    cay_err err = CAY_ERR_INIT;
    cay__policy op = { 0 };
    int rc = policy_from(FD_OPERATOR, true, &op, &err);
    if (rc < 0) /* without the operator's word nobody may go out */
        return report_error("the operator's file", err.msg), false;
    if (rc > 0) {
        e->op = cay__alloc(sizeof op);
        *e->op = op;
    }
    close(FD_OPERATOR);
    cay__fd_nonblock(FD_LISTEN, true);
    fcntl(FD_LISTEN, F_SETFD, FD_CLOEXEC);
    e->listen = (cay__watch){ .fd = FD_LISTEN, .events = EPOLLIN, .fn = on_listen };
    return cay__loop_add(&e->loop, &e->listen) || (report_error("epoll", strerror(errno)), false);
}

int main(void)
{
    static egress e = { .tick.fn = on_tick_timer, .intercept.fd = -1, .route = -1 };
    if (!CAY__SANITIZED)
        cay__fd_close_from(FD_FIRST);
    harden_first(&e);
    if (!set_up(&e))
        return 1;
    if (!harden_last(&e))
        return report_error("own fences", strerror(errno));
    e.alone_since = cay__boot_ms();
    for (int64_t sweep = 0;;) {
        cay__loop_step(&e.loop, SWEEP_MS);
        audit_flush(&e);
        int64_t now = cay__boot_ms();
        if (now - sweep >= SWEEP_MS) {
            links_sweep(&e);
            sweep = now;
            /* A state directory that is gone has no keeper to come: what is still lent would be
             * held for nobody, for ever. */
            struct stat st;
            if (e.alone_since && fstat(e.audit_dir, &st) == 0 && st.st_nlink == 0)
                return 0;
        }
        if (e.alone_since && !e.boxes && now - e.alone_since >= ALONE_MS)
            return 0;
    }
}
