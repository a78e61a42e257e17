/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as egress sees it: lent sockets, a policy, and the names that its synthetic addresses
 * stand for. */
#include "egress.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

egress_box *egress_box_find(egress *e, const char *id)
{
    CAY_EACH_LINK(b, e->boxes)
        if (!strcmp(b->id, id))
            return b;
    return NULL;
}

/* 1: read; 0: an empty operator's file, which is none. */
int policy_from(int fd, bool operator_, cay__policy *out, cay_err *err)
{
    static char text[CAY__POLICY_MAX + 1]; /* of which the pages that a policy needs are touched;
                                              mapping it each time is dearer than the rest */
    size_t len = 0;
    while (len <= CAY__POLICY_MAX) {
        ssize_t n = pread(fd, text + len, CAY__POLICY_MAX + 1 - len, (off_t)len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && operator_ && errno == EBADF)
            return 0;
        if (n < 0)
            return cay_fail_sys(err, "read the policy");
        if (n == 0)
            break;
        len += (size_t)n;
    }
    if (len > CAY__POLICY_MAX)
        return cay_fail(err, CAY_ETOOBIG, "the policy is longer than %u bytes", CAY__POLICY_MAX);
    if (!len && operator_)
        return 0;
    CAY_TRY(cay__policy_read(out, text, len, operator_, err));
    return 1;
}

/* Names. The private copy is the truth; the map is only written, and read once, when it is lent. */

static uint32_t find_slot(const egress_box *b, const char *name)
{
    uint32_t i = cay__hash(name, strlen(name)) & (b->index_size - 1);
    while (b->index[i] && strcmp(b->names[b->index[i] - 1], name) != 0)
        i = (i + 1) & (b->index_size - 1);
    return i;
}

static void names_add(egress_box *b, const char *name)
{
    if (b->nnames == b->names_room) {
        b->names_room = CAY_OR(2 * b->names_room, 16);
        b->names = realloc(b->names, b->names_room * sizeof *b->names);
        if (!b->names)
            abort();
    }
    b->names[b->nnames++] = cay__strdup(name);
    if (2 * b->nnames > b->index_size) {
        b->index_size = CAY_OR(2 * b->index_size, 64);
        free(b->index);
        b->index = cay__alloc(b->index_size * sizeof *b->index);
        for (uint32_t n = 1; n < b->nnames; n++)
            b->index[find_slot(b, b->names[n - 1])] = (uint16_t)n;
    }
    b->index[find_slot(b, name)] = (uint16_t)b->nnames;
}

/* An earlier egress wrote this, and init holds the same memory: nothing in it is believed. A name
 * that cannot be one keeps its number and stands for nothing. */
static int names_load(egress_box *b, cay_err *err)
{
    uint32_t head[2]; /* magic, count */
    struct stat st;
    char text[256], name[CAY__NAME_MAX + 1];
    if (fstat(b->map, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size != sizeof(cay_n_map))
        return cay_fail(err, CAY_EINVAL, "lend %s: the name map is not a file of %zu bytes", b->id,
                        sizeof(cay_n_map));
    size_t fixed = offsetof(cay_n_map, name);
    if (pread(b->map, head, sizeof head, 0) != sizeof head)
        return cay_fail_sys(err, "lend %s: read the name map", b->id);
    if (head[0] == 0 && head[1] == 0)
        return 0;
    if (head[0] != CAY_N_MAP_MAGIC || head[1] > CAY_N_NAMES)
        return 0; /* damaged: as if it were empty, and the next name makes it sound */
    for (uint32_t i = 0; i < head[1]; i++) {
        if (pread(b->map, text, sizeof text, (off_t)(fixed + i * sizeof text)) != sizeof text)
            return cay_fail_sys(err, "lend %s: read the name map", b->id);
        bool good = memchr(text, 0, sizeof text) && cay__name_fold(text, strlen(text), name) &&
                    !strcmp(text, name);
        names_add(b, good ? name : "");
    }
    return 0;
}

uint32_t box_number(egress_box *b, const char *name, bool *fresh)
{
    *fresh = false;
    uint32_t n = 0;
    if (b->index_size)
        n = b->index[find_slot(b, name)];
    if (n || b->nnames >= CAY_N_NAMES)
        return n;
    /* Into the map before anybody hears of the number, and the entry before the count: whoever
     * takes over knows it. */
    char text[256] = { 0 };
    uint32_t head[2] = { CAY_N_MAP_MAGIC, b->nnames + 1 };
    CAY_COPY(text, name);
    if (pwrite(b->map, text, sizeof text,
               (off_t)(offsetof(cay_n_map, name) + b->nnames * sizeof text)) != sizeof text ||
        pwrite(b->map, head, sizeof head, 0) != sizeof head)
        return 0;
    names_add(b, name);
    *fresh = true;
    return b->nnames;
}

const char *box_name(const egress_box *b, uint32_t n)
{
    if (n && n <= b->nnames && b->names[n - 1][0])
        return b->names[n - 1];
    return NULL;
}

static const uint8_t net4[14] = { [10] = 0xff, [11] = 0xff, [12] = 198, [13] = 18 },
                     net6[14] = { 0xfd, 0x63, 0x61, 0x79, 0, 0, 0, 1 };

uint32_t synthetic(const uint8_t addr[16])
{
    uint32_t low = (uint32_t)addr[14] << 8 | addr[15];
    if (!memcmp(addr, net4, 14))
        return low > 256 ? low - 256 : 0;
    if (!memcmp(addr, net6, 14))
        return low;
    return 0;
}

void synthetic_addr(uint32_t n, bool v4, uint8_t addr[16])
{
    uint32_t low = n;
    if (v4)
        low = n + 256;
    memcpy(addr, v4 ? net4 : net6, 14);
    addr[14] = (uint8_t)(low >> 8);
    addr[15] = (uint8_t)low;
}

/* What is lent is what it is said to be: a listener of another namespace would be another
 * sandbox's. */
int check_socket(const char *id, int fd, const char *what, int type, bool listening,
                 uint64_t cookie, cay_err *err)
{
    uint64_t got = 0;
    socklen_t len = sizeof got;
    if (cay__sock_get(fd, SO_TYPE) != type)
        return cay_fail(err, CAY_EINVAL, "lend %s: the %s is no such socket", id, what);
    if (listening && cay__sock_get(fd, SO_ACCEPTCONN) <= 0)
        return cay_fail(err, CAY_EINVAL, "lend %s: the %s does not listen", id, what);
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &got, &len) == 0 && cookie && got != cookie)
        return cay_fail(err, CAY_EINVAL, "lend %s: the %s is of another net namespace", id, what);
    if (cay__fd_nonblock(fd, true))
        return 0;
    return cay_fail_sys(err, "lend %s", id);
}

static void take_policy(egress_box *b, cay__policy *p, uint64_t revision)
{
    int64_t now = cay__now_us();
    cay__policy_clear(&b->policy);
    b->policy = *p;
    b->revision = revision;
    bucket_set(&b->bucket[0], p->rate_up, now);
    bucket_set(&b->bucket[1], p->rate_down, now);
}

void box_judge(egress_box *b)
{
    CAY_EACH_LINK_SAFE(f, b->flows)
        flow_judge(f);
}

int box_policy(egress_box *b, uint64_t revision, int fd, cay_err *err)
{
    cay__policy p = { 0 };
    if (revision < b->revision)
        return cay_fail_why(err, CAY_ESTATE, "policy_older",
                            "revision %llu of the policy of %s is older than %llu, which holds",
                            (unsigned long long)revision, b->id, (unsigned long long)b->revision);
    int rc = policy_from(fd, false, &p, err);
    if (rc > 0 && b->doors && (rc = ports_serve(b, &p, err)) < 0)
        cay__policy_clear(&p);
    if (rc < 0) /* refused whole; the former one holds */
        return rc;
    take_policy(b, &p, revision);
    audit(b, &(record){ .event = "policy", .verdict = "set", .reason = "policy_changed" });
    box_judge(b);
    return 0;
}

static void box_free(egress_box *b)
{
    CAY_EACH_OF(name, b->names, b->nnames)
        free(*name);
    CAY_EACH_OF(it, b->cache, CACHE)
        free(*it);
    free(b->names);
    free(b->index);
    cay__policy_clear(&b->policy);
    free(b);
}

int box_lend(egress *e, const cay_n_box *m, const int fds[5], unsigned lender, cay_err *err)
{
    egress_box *old = egress_box_find(e, m->id);
    if (old && old->cookie == m->cookie) { /* a new keeper lends what is held already */
        if (m->revision > old->revision)
            CAY_TRY(box_policy(old, m->revision, fds[4], err));
        old->lender = lender;
        CAY_EACH_OF(it, fds, 4)
            close(*it);
        return 0;
    }
    bool bag = m->flags & CAY_N_PORTS;
    if (!bag)
        CAY_TRY(check_socket(m->id, fds[0], "listener", SOCK_STREAM, true, m->cookie, err));
    CAY_TRY(check_socket(m->id, fds[1], "DNS listener", SOCK_STREAM, true, m->cookie, err));
    CAY_TRY(check_socket(m->id, fds[2], "DNS socket", SOCK_DGRAM, false, m->cookie, err));
    if (!sock_room(e, 8))
        return cay_fail_why(err, CAY_ENOSPACE, "descriptors_limit",
                            "lend %s: egress has no descriptors left", m->id);
    cay__policy p = { 0 };
    egress_box *b = cay__alloc(sizeof *b);
    *b = (egress_box){ .e = e,
                       .cookie = m->cookie,
                       .fallback = m->flags & CAY_N_FALLBACK,
                       .lender = lender,
                       .map = fds[3],
                       .log_fd = -1 };
    CAY_COPY(b->id, m->id);
    b->refill.fn = on_refill;
    int rc = names_load(b, err);
    if (rc == 0)
        rc = policy_from(fds[4], false, &p, err);
    if (rc >= 0 && bag &&
        ((rc = ports_take(b, fds[0], err)) < 0 || (rc = ports_serve(b, &p, err)) < 0))
        cay__policy_clear(&p);
    if (rc < 0) {
        ports_drop(b);
        box_free(b);
        return rc;
    }
    take_policy(b, &p, m->revision);
    if (old) { /* the same sandbox on a new namespace */
        given_move(old, b);
        box_drop(old);
    }
    /* Inherited by what is accepted: killed between that and our first word, it is a reset as well.
     */
    if (!bag) {
        cay__sock_reset(fds[0], true);
        cay__sock_set(fds[0], IPPROTO_TCP, TCP_NODELAY, 1);
    }
    b->tcp = (cay__watch){ .fd = fds[0], .events = bag ? 0 : EPOLLIN, .fn = on_tcp };
    b->dns_tcp = (cay__watch){ .fd = fds[1], .events = EPOLLIN, .fn = on_dns_tcp };
    b->dns_udp = (cay__watch){ .fd = fds[2], .events = EPOLLIN, .fn = on_dns_udp };
    if (!bag)
        cay__loop_add(&e->loop, &b->tcp);
    cay__loop_add(&e->loop, &b->dns_tcp);
    cay__loop_add(&e->loop, &b->dns_udp);
    b->next = e->boxes;
    e->boxes = b;
    if (e->nboxes++ == 0)
        alarm_set(true);
    e->fds += 4;
    return 0;
}

void box_drop(egress_box *b)
{
    egress *e = b->e;
    while (b->flows)
        flow_end(b->flows, "sandbox_gone", false);
    given_drop(b);
    while (b->conns)
        dns_conn_close(b->conns);
    links_forget(b);
    cay__timer_cancel(&b->refill);
    later_stop(&b->rest);
    audit_close(b);
    cay__watch *const w[] = { &b->tcp, &b->dns_tcp, &b->dns_udp };
    CAY_EACH(it, w) {
        if (*it != &b->tcp || !b->doors)
            cay__loop_del(&e->loop, *it);
        sock_close(e, NULL, (*it)->fd);
    }
    ports_drop(b);
    sock_close(e, NULL, b->map);
    CAY_UNLINK(e->boxes, b);
    if (--e->nboxes == 0)
        alarm_set(false);
    box_free(b);
}
