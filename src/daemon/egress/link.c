/* SPDX-License-Identifier: Apache-2.0 */
/* What the keeper says. Several may be connected for a moment, when one takes over from another;
 * each may speak for every sandbox. */
#include "allow.h"
#include "egress.h"
#include <sys/socket.h>

enum { ORPHAN_MS = 60000, PAIR_MS = 1000 };

struct link_ {
    cay__watch w;
    egress *e;
    link_ *next;
    unsigned number;
    int64_t since;
    bool busy, dead; /* its message is being dealt with; closed meanwhile */
};

/* One DIAL under way. It outlives its link, whose number is then found no more. */
typedef struct fetch fetch;
struct fetch {
    egress *e;
    fetch *next;
    dial *dial;
    unsigned link;
    uint64_t seq;
    char id[CAY_WIRE_ID], name[CAY__NAME_MAX + 1];
    uint16_t port;
};

static void link_close(link_ *k)
{
    egress *e = k->e;
    if (k->dead)
        return;
    cay__loop_del(&e->loop, &k->w);
    sock_close(e, NULL, k->w.fd);
    CAY_UNLINK(e->links, k);
    if (--e->nlinks == 0)
        e->alone_since = cay__boot_ms();
    k->dead = true;
    if (!k->busy) /* else on_link() does it */
        free(k);
}

/* Sandboxes whose keeper is gone, and that its successor has not lent again in a minute, are gone
 * too: their sockets would keep a net namespace alive. */
void links_sweep(egress *e)
{
    int64_t now = cay__boot_ms();
    bool settled = false;
    CAY_EACH_LINK(k, e->links)
        settled |= now - k->since >= ORPHAN_MS;
    for (egress_box *b = e->boxes, *next; settled && b; b = next) {
        bool held = false;
        next = b->next;
        CAY_EACH_LINK(k, e->links)
            held |= k->number == b->lender;
        if (!held)
            box_drop(b);
    }
}

/* A keeper that does not read its answers is not one; it may dial again. */
static bool send_reply(link_ *k, uint16_t type, const cay_n_ack *a, int fd)
{
    if (k->dead)
        return false;
    if (cay__msg_send(k->w.fd, CAY_N_VERSION, type, a, sizeof *a, NULL, 0, &fd, fd >= 0,
                      MSG_DONTWAIT))
        return true;
    link_close(k);
    return false;
}

void links_pair(egress *e)
{
    const cay_n_ack a = { 0 };
    int64_t now = cay__boot_ms();
    if (e->pair_ms && now - e->pair_ms < PAIR_MS)
        return;
    e->pair_ms = now;
    CAY_EACH_LINK_SAFE(k, e->links)
        send_reply(k, CAY_N_PAIR, &a, -1);
}

static void fill_ack(cay_n_ack *a, int rc, const cay_err *err)
{
    a->code = CAY_MIN(rc, 0);
    if (rc >= 0)
        return;
    a->sys = err->sys;
    CAY_COPY(a->reason, err->reason);
    CAY_COPY(a->msg, err->msg);
}

static void on_fetched(void *arg, int fd, const uint8_t addr[16], const char *reason, int sys)
{
    fetch *q = arg;
    egress *e = q->e;
    cay_n_ack a = { .seq = q->seq };
    cay_err err = CAY_ERR_INIT;
    egress_box *b = egress_box_find(e, q->id);
    CAY_UNLINK(e->fetches, q);
    CAY_COPY(a.id, q->id);
    const char *verdict = "fail";
    int code = CAY_EUPSTREAM;
    if (fd >= 0) {
        verdict = "allow";
    } else if (sys == EACCES) {
        verdict = "deny";
        code = CAY_EPERM;
    } else if (sys == ETIMEDOUT) {
        code = CAY_ETIMEOUT;
    }
    if (b)
        audit(b, &(record){ .event = "fetch",
                            .verdict = verdict,
                            .reason = fd >= 0 ? "allowed" : reason,
                            .name = q->name,
                            .addr = addr,
                            .port = q->port });
    if (fd < 0) {
        int rc = cay_fail(&err, code, "connect to %s port %u: %s", q->name, q->port, reason);
        fill_ack(&a, rc, &err);
        a.sys = sys;
        CAY_COPY(a.reason, reason);
    } else {
        cay__fd_nonblock(fd, false);
        cay__sock_reset(fd, false);
    }
    CAY_EACH_LINK(k, e->links)
        if (k->number == q->link) {
            send_reply(k, CAY_N_DIALED, &a, fd);
            break;
        }
    sock_close(e, b, fd);
    free(q);
}

void links_forget(egress_box *b)
{
    static const uint8_t nowhere[16];
    CAY_EACH_LINK_SAFE(q, b->e->fetches) {
        if (strcmp(q->id, b->id) != 0)
            continue;
        dial_cancel(q->dial);
        on_fetched(q, -1, nowhere, "sandbox_gone", ECONNABORTED);
    }
}

/* The verdict on a name or address with a port, as text for people. */
static int check_host(egress *e, egress_box *b, const cay_n_dial *m, const char *name,
                      cay__verdict *v, cay_err *err)
{
    char rule[CAY__RULE_MAX] = "";
    *v = cay__decide_host(e->op, &b->policy, name, m->port, m->flags & CAY_N_IMPLICIT);
    if (v->rule)
        cay__rule_text(v->rule, rule, sizeof rule);
    if (v->allow && m->proto && v->proto != CAY__NET_TCP && v->proto != m->proto)
        return cay_fail_why(err, CAY_EPERM, "protocol_other",
                            "%s:%u may be reached as %s, not as %s", name, m->port,
                            proto_name(v->proto), proto_name(m->proto));
    cay_fail(err, CAY_EPERM, "%s", rule[0] ? rule : CAY_OR(v->range, ""));
    CAY_COPY(err->reason, v->reason);
    if (v->allow)
        return 0;
    return CAY_EPERM;
}

/* → false: the link is gone. */
static bool on_host(link_ *k, const cay_n_dial *m, const char *name, bool why)
{
    egress *e = k->e;
    cay_n_ack a = { .seq = m->seq };
    cay_err err = CAY_ERR_INIT;
    cay__verdict v;
    uint8_t addr[16];
    char folded[CAY__NAME_MAX + 1];
    egress_box *b = egress_box_find(e, m->id);
    CAY_COPY(a.id, m->id);
    bool literal = cay__addr_parse(name, addr);
    int rc;
    if (!b)
        rc = cay_fail_why(&err, CAY_ENOENT, "not_lent", "no sandbox %s is known to egress", m->id);
    else if (!m->port || (!literal && !cay__name_fold(name, strlen(name), folded)))
        rc = cay_fail_why(&err, CAY_EINVAL, "no_host_name",
                          "'%.60s' with port %u is no host to connect to", name, m->port);
    else
        rc = check_host(e, b, m, name, &v, &err);
    if (why && b) {
        fill_ack(&a, CAY_EPERM, &err);
        a.code = CAY_MIN(rc, 0);
        a.revision = b->revision;
        return send_reply(k, CAY_N_WHAT, &a, -1);
    }
    if (rc < 0) {
        if (b)
            audit(b, &(record){ .event = "fetch",
                                .verdict = "deny",
                                .reason = err.reason,
                                .name = name,
                                .port = m->port });
        fill_ack(&a, rc, &err);
        return send_reply(k, why ? CAY_N_WHAT : CAY_N_DIALED, &a, -1);
    }
    fetch *q = cay__alloc(sizeof *q);
    *q = (fetch){ .e = e, .link = k->number, .seq = m->seq, .port = m->port };
    CAY_COPY(q->id, m->id);
    CAY_COPY(q->name, literal ? name : folded);
    q->next = e->fetches;
    e->fetches = q;
    if (v.service)
        dial_start(&q->dial, e, b, NULL, 0, v.service->to, v.service->to_port, true, on_fetched, q);
    else if (literal)
        dial_start(&q->dial, e, b, NULL, 0, addr, m->port, false, on_fetched, q);
    else
        dial_start(&q->dial, e, b, folded, 0, NULL, m->port, false, on_fetched, q);
    return true;
}

static int set_operator(egress *e, int fd, cay_err *err)
{
    cay__policy p = { 0 };
    int rc = policy_from(fd, true, &p, err);
    if (rc < 0)
        return rc;
    cay__policy *old = e->op;
    e->op = NULL;
    if (rc > 0) {
        e->op = cay__alloc(sizeof p);
        *e->op = p;
    }
    CAY_EACH_LINK(b, e->boxes)
        box_judge(b);
    e->servers_at = e->servers_stamp = 0;
    if (old) {
        cay__policy_clear(old);
        free(old);
    }
    return 0;
}

/* How many descriptors come with a request. */
static int count_request_fds(unsigned type)
{
    if (type == CAY_N_LEND)
        return 5;
    if (type == CAY_N_POLICY || type == CAY_N_OPERATOR || type == CAY_N_INTERCEPT)
        return 1;
    return 0;
}

static bool on_box(link_ *k, unsigned type, const cay_n_box *m, int *fds)
{
    egress *e = k->e;
    cay_n_ack a = { .seq = m->seq };
    cay_err err = CAY_ERR_INIT;
    egress_box *b = egress_box_find(e, m->id);
    int rc = 0;
    CAY_COPY(a.id, m->id);
    if (type == CAY_N_LEND && !cay__id_valid(m->id, 0)) {
        rc = cay_fail(&err, CAY_EINVAL, "lend: '%.20s' is no sandbox id", m->id);
    } else if (type == CAY_N_LEND) {
        rc = box_lend(e, m, fds, k->number, &err);
        for (int i = 0; rc == 0 && i < 4; i++)
            fds[i] = -1;
    } else if (type == CAY_N_POLICY) {
        if (b)
            rc = box_policy(b, m->revision, fds[0], &err);
        else
            rc = cay_fail_why(&err, CAY_ENOENT, "not_lent", "no sandbox %s is known to egress",
                              m->id);
    } else if (type == CAY_N_DROP) {
        if (b && (!m->cookie || b->cookie == m->cookie)) /* asked twice is fine */
            box_drop(b);
    } else if (type == CAY_N_OPERATOR) {
        rc = set_operator(e, fds[0], &err);
    } else {
        intercept_take(e, CAY_STEAL_FD(fds[0]));
    }
    fill_ack(&a, rc, &err);
    b = egress_box_find(e, m->id);
    if (b)
        a.revision = b->revision;
    else
        a.revision = 0;
    return send_reply(k, CAY_N_ACK, &a, -1);
}

static void on_link(cay__watch *w, uint32_t events)
{
    static uint8_t in[CAY_MSG_MAX];
    link_ *k = CAY__OWNER(w, link_, w);
    int fds[CAY__FDS_MAX], n = CAY__FDS_MAX;
    ssize_t len = cay__fd_recv(w->fd, in, sizeof in, fds, &n, MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EMSGSIZE))
        return;
    if (len <= 0) {
        link_close(k);
        return;
    }
    cay_msg head = { 0 };
    cay_n_box box_ = { 0 };
    cay_n_dial dial_ = { 0 };
    char name[CAY__NAME_MAX + 2];
    if ((size_t)len >= sizeof head)
        memcpy(&head, in, sizeof head);
    bool dials = head.type == CAY_N_DIAL || head.type == CAY_N_WHY,
         known = head.type >= CAY_N_LEND && head.type <= CAY_N_INTERCEPT;
    size_t body;
    if (dials)
        body = sizeof dial_;
    else
        body = sizeof box_;
    bool sound = known && head.magic == CAY_MSG_MAGIC && head.version == CAY_N_VERSION &&
                 (size_t)len == sizeof head + body + head.tail &&
                 n == count_request_fds(head.type) && head.tail < sizeof name &&
                 (dials || !head.tail);
    if (sound && dials) {
        memcpy(&dial_, in + sizeof head, body);
        memcpy(name, in + sizeof head + body, head.tail);
        name[head.tail] = 0;
        sound = memchr(dial_.id, 0, sizeof dial_.id) && strlen(name) == head.tail;
    } else if (sound) {
        memcpy(&box_, in + sizeof head, body);
        sound = memchr(box_.id, 0, sizeof box_.id);
    }
    k->busy = true;
    /* What is no message of ours ends the connection, not the process. */
    if (!sound)
        link_close(k);
    else if (dials)
        on_host(k, &dial_, name, head.type == CAY_N_WHY);
    else
        on_box(k, head.type, &box_, fds);
    /* NOLINTNEXTLINE(analyzer-use-after-free): link_close() frees no link that is busy */
    k->busy = false;
    if (k->dead)
        free(k);
    cay__close_fds(fds, n);
}

void on_listen(cay__watch *w, uint32_t events)
{
    egress *e = CAY__OWNER(w, egress, listen);
    int fd = accept_keeper(w->fd, e->nlinks < LINKS);
    if (fd < 0)
        return;
    link_ *k = cay__alloc(sizeof *k);
    *k = (link_){ .w = { .fd = fd, .events = EPOLLIN, .fn = on_link },
                  .e = e,
                  .number = ++e->link_seq,
                  .since = cay__boot_ms() };
    k->next = e->links;
    e->links = k;
    e->nlinks++;
    e->fds++;
    e->alone_since = 0;
    cay__loop_add(&e->loop, &k->w);
}
