/* SPDX-License-Identifier: Apache-2.0 */
/* Speaking with cay-egress: one thing at a time for each sandbox, said again to the next one when
 * it dies over it. */
#include "lend_inside.h"
#include <base/fault.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

enum {
    ANSWER_MS = 5000,
    DIAL_MS = 60000,
    STEADY_MS = 5000,
    AGAIN_MS = 60000,
    WINDOW = 32,
    TRIES = 3
};

/* It changes nothing, and is worth nothing to who gets it late. */
static bool is_query(const ask *a)
{
    return a->m.op == CAY_NET_DIAL || a->m.op == CAY_NET_WHY;
}

static bool send_to_egress(uint16_t type, const void *body, size_t len, const char *tail,
                           const int *fds, int nfds)
{
    return cay__msg_send(lender.egress, CAY_N_VERSION, type, body, len, tail, strlen(tail), fds,
                         nfds, MSG_DONTWAIT);
}

bool egress_say_box(uint16_t type, const lent *l, uint64_t seq, uint64_t revision, int policy)
{
    cay_n_box m = { .seq = seq, .cookie = l->cookie, .revision = revision, .flags = l->flags };
    int fds[5] = { l->fd[0], l->fd[1], l->fd[2], l->fd[3], policy };
    memcpy(m.id, l->id, sizeof m.id);
    return send_to_egress(type, &m, sizeof m, "", type == CAY_N_LEND ? fds : &policy,
                          type == CAY_N_LEND ? 5 : policy >= 0);
}

void ask_drop(ask *a)
{
    CAY_UNLINK(lender.asks, a);
    lender.out -= a->seq != 0;
    cay__close_fd(&a->policy);
    free(lender.over);
    lender.over = a;
}

/* Nobody ever served it, and nobody will: connections are refused again instead of waiting. */
static void unserve_box(const char *id)
{
    lent *l = lent_find(id);
    if (!l || l->policy >= 0)
        return;
    netns_unserve(l->fd);
    lent_forget(l);
}

/* It died, or does not answer: what was on its way is said again to the next one, a few times. */
static void on_egress_lost(const char *why)
{
    int64_t now = cay__boot_ms();
    cay__close_fd(&lender.egress);
    lender.out = 0;
    if (now - lender.since_ms > STEADY_MS)
        lender.fails = 1;
    else
        lender.fails = lender.fails + 1;
    if (lender.fails > 1)
        lender.again_ms = now + (50ll << CAY_MIN(lender.fails, 7u));
    else
        lender.again_ms = now;
    CAY_EACH_LINK(l, lender.all) {
        l->told = false;
        l->again_ms = l->refused = 0;
    }
    CAY_EACH_LINK_SAFE(a, lender.asks) {
        bool dial = a->seq && is_query(a);
        a->seq = 0;
        if (++a->tries < TRIES && !dial)
            continue;
        policy_drop_new(a->m.id);
        errno = 0;
        lender_refuse(a->job, CAY_EBUSY, "egress_failed", why);
        unserve_box(a->m.id);
        ask_drop(a);
    }
}

static bool connect_egress(void)
{
    if (lender.egress >= 0)
        return true;
    if (cay__boot_ms() < lender.again_ms)
        return false;
    lender.since_ms = cay__boot_ms();
    lender.egress = outside_dial(lender.run, OUT_EGRESS);
    const char *step = NULL;
    if (lender.egress < 0)
        step = outside_start(lender.run, lender.keeper, lender.mode, OUT_EGRESS);
    if (step) {
        char msg[216];
        CAY_JOIN(msg, "cay-egress cannot be started: ", step, ": ", strerror(errno));
        on_egress_lost(msg);
        return false;
    }
    if (lender.egress < 0)
        lender.egress = outside_dial(lender.run, OUT_EGRESS);
    if (lender.egress < 0)
        on_egress_lost("cay-egress does not answer on its socket");
    CAY_FAULT("lender.egress.connected");
    secrets_pair(lender.egress, true);
    return lender.egress >= 0;
}

static bool is_box_busy(const ask *first, const char *id)
{
    CAY_EACH_LINK(a, lender.asks)
        if (a != first && a->seq && !is_query(a) && !strcmp(a->m.id, id))
            return true;
    return false;
}

static bool say_ask(ask *a, lent *l)
{
    if (is_query(a)) {
        cay_n_dial d = { .seq = a->seq,
                         .port = a->m.port,
                         .proto = a->m.proto,
                         .flags = a->m.flags & CAY_NET_IMPLICIT ? CAY_N_IMPLICIT : 0 };
        memcpy(d.id, l->id, sizeof d.id);
        return send_to_egress(a->m.op == CAY_NET_DIAL ? CAY_N_DIAL : CAY_N_WHY, &d, sizeof d,
                              a->m.name, NULL, 0);
    }
    CAY_FAULT("lender.policy.say");
    uint16_t type = l->told ? CAY_N_POLICY : CAY_N_LEND;
    if (a->policy < 0)
        return egress_say_box(type, l, a->seq, l->revision, l->policy);
    return egress_say_box(type, l, a->seq, a->revision, a->policy);
}

/* egress has a policy of a set that nobody was told of: what was acknowledged counts, and is said
 * again. Unless another set waits already: that one comes after it, and only needs the higher
 * number; should it fail, this is done then. */
static void say_again(const lent *l, uint64_t revision)
{
    cay_m_net m = { .op = CAY_NET_SET };
    CAY_EACH_LINK(w, lender.asks)
        if (!w->seq && w->m.op == CAY_NET_SET && !strcmp(w->m.id, l->id)) {
            w->revision = CAY_MAX(w->revision, revision);
            w->undo = true;
            return;
        }
    memcpy(m.id, l->id, sizeof m.id);
    int copy = fcntl(l->policy, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0)
        ask_new(0, &m, copy)->revision = revision;
}

/* A set that was not even said. */
static void ask_fail(ask *a, const lent *l)
{
    bool undo = a->undo;
    uint64_t revision = a->revision;
    ask_drop(a);
    if (undo)
        say_again(l, revision);
}

/* True: it is on its way, or over. */
static void start_ask(ask *a, lent *l)
{
    if (a->policy >= 0 && a->m.revision && a->m.revision != l->revision) {
        errno = 0;
        lender_refuse(a->job, CAY_ESTATE, "policy_changed",
                      "the policy was changed by somebody else; read it again");
        ask_fail(a, l);
        return;
    }
    lender_needed();
    a->revision = CAY_MAX(l->revision, a->revision) + (a->policy >= 0);
    if (a->policy >= 0 && !policy_write_new(l->id, a->revision, a->policy)) {
        lender_refuse(a->job, cay_code_of_errno(errno), "policy_not_kept",
                      "the policy could not be written into the state directory");
        policy_drop_new(l->id);
        if (a->job) { /* what we say again ourselves is there already, but for its number */
            ask_fail(a, l);
            return;
        }
    }
    a->seq = ++lender.seq;
    a->until = cay__boot_ms() + (a->m.op == CAY_NET_DIAL ? DIAL_MS : ANSWER_MS);
    lender.out++;
    if (!say_ask(a, l)) {
        a->seq = 0;
        lender.out--;
    }
}

ask *ask_new(uint32_t seq, const cay_m_net *m, int policy)
{
    ask *a = CAY_STEAL(lender.over) ?: cay__alloc(sizeof *a);
    *a = (ask){ .job = seq, .m = *m, .policy = policy };
    CAY_APPEND(lender.asks, a); /* in the order they came */
    return a;
}

static bool has_policy_ask(const char *id)
{
    CAY_EACH_LINK(a, lender.asks)
        if ((a->m.op == CAY_NET_SET || a->m.op == CAY_NET_RESTORE) && !strcmp(a->m.id, id))
            return true;
    return false;
}

void egress_pump(void)
{
    if ((!lender.asks && !lender.all) || !connect_egress())
        return;
    if (lender.reload) {
        cay_n_box m = { .seq = ++lender.seq };
        CAY_AUTOFD op = operator_open();
        lender.reload = op >= 0 && !send_to_egress(CAY_N_OPERATOR, &m, sizeof m, "", &op, 1);
        secrets_operator(op);
    }
    /* What an egress before had is lent to this one first. */
    CAY_EACH_LINK(l, lender.all)
        if (!l->told && l->policy >= 0 && l->again_ms <= cay__boot_ms() && !has_policy_ask(l->id)) {
            cay_m_net m = { .op = CAY_NET_RESTORE };
            memcpy(m.id, l->id, sizeof m.id);
            ask_new(0, &m, -1);
        }
    for (ask *a = lender.asks, *next; a && lender.egress >= 0 && lender.out < WINDOW; a = next) {
        next = a->next;
        lent *l = lent_find(a->m.id);
        bool dial = is_query(a);
        if (!a->seq && l && dial && !l->told && l->refused) {
            errno = 0;
            lender_refuse(a->job, CAY_EBUSY, "egress_failed",
                          "cay-egress does not take this sandbox; keeper.err of the runtime "
                          "directory says why");
            ask_drop(a);
        } else if (!a->seq && l && !is_box_busy(a, a->m.id) && (!dial || l->told)) {
            start_ask(a, l);
        }
    }
}

static void settle_ask(ask *a, const cay_n_ack *k)
{
    lent *l = lent_find(a->m.id);
    CAY_FAULT("lender.policy.acked");
    lender_needed();
    if (k->code && a->policy >= 0)
        policy_drop_new(a->m.id);
    if (k->code && l &&
        l->policy < 0) /* its sockets are served already: somebody has to refuse there */
        l->policy = policy_off();
    if (k->code && l && l->told && a->undo)
        say_again(l, a->revision);
    if (!k->code && l) {
        bool newer = a->policy < 0 && k->revision > l->revision;
        if (a->policy >= 0) {
            cay__close_fd(&l->policy);
            l->policy = CAY_STEAL_FD(a->policy);
            l->revision = a->revision;
            policy_keep_new(l->id);
            secrets_policy(l->id, l->policy);
        }
        l->told = true;
        if (newer)
            say_again(l, k->revision);
    }
    CAY_FAULT("lender.policy.kept");
    cay_m_netinfo info = { .revision = l ? l->revision : 0 };
    lender_answer(a->job, k->code, k->sys, k->reason, k->msg, &info, -1);
}

/* A sandbox that egress does not take is offered again, ever more seldom, and complained of once.
 * True: it was already. */
static bool put_off(const ask *a, const cay_n_ack *k)
{
    lent *l = lent_find(a->m.id);
    if (!k->code || !l || l->told)
        return false;
    l->again_ms = cay__boot_ms() + CAY_MIN(250ll << CAY_MIN(l->refused, 10u), AGAIN_MS);
    return l->refused++ && !a->job && a->policy < 0;
}

void egress_read(void)
{
    struct {
        cay_msg h;
        cay_n_ack a;
    } m;
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    ssize_t n = cay__fd_recv(lender.egress, &m, sizeof m, fds, &nfds, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        on_egress_lost(
            "cay-egress ended while it was asked; what it said is in keeper.err of the runtime "
            "directory");
        return;
    }
    m.a.reason[sizeof m.a.reason - 1] = m.a.msg[sizeof m.a.msg - 1] = 0;
    ask *a = NULL;
    if (n == (ssize_t)sizeof m && m.h.magic == CAY_MSG_MAGIC)
        a = lender.asks;
    while (a && (!a->seq || a->seq != m.a.seq))
        a = a->next;
    if (a && m.h.type == CAY_N_ACK) {
        if (!put_off(a, &m.a))
            settle_ask(a, &m.a);
    } else if (n == (ssize_t)sizeof m && m.h.type == CAY_N_PAIR) {
        secrets_pair(lender.egress, true);
    } else if (a) {
        cay_m_netinfo info = { .revision = m.a.revision, .code = m.a.code };
        CAY_COPY(info.reason, m.a.reason);
        CAY_COPY(info.msg, m.a.msg);
        bool failed = m.h.type == CAY_N_DIALED && (m.a.code || nfds != 1);
        lender_answer(a->job, failed ? (CAY_OR(m.a.code, CAY_EUPSTREAM)) : 0, m.a.sys, m.a.reason,
                      m.a.msg, &info, nfds == 1 ? fds[0] : -1);
    } else if (n == (ssize_t)sizeof m && m.a.code) {
        dprintf(2, "network: %s\n", m.a.msg); /* the operator's file */
    }
    CAY_EACH_OF(it, fds, nfds)
        close(*it);
    if (a)
        ask_drop(a);
}

int egress_wait_ms(void)
{
    int64_t now = cay__boot_ms(), at = INT64_MAX;
    if (lender.egress < 0 && (lender.asks || lender.all))
        at = lender.again_ms;
    CAY_EACH_LINK(l, lender.all)
        if (lender.egress >= 0 && !l->told && l->policy >= 0 && !has_policy_ask(l->id))
            at = CAY_MIN(at, l->again_ms);
    CAY_EACH_LINK(a, lender.asks)
        if (a->seq)
            at = CAY_MIN(at, a->until);
        else if (lender.egress >= 0)
            at = CAY_MIN(at, now + 20); /* its socket was full */
    if (at == INT64_MAX)
        return -1;
    return (int)CAY_MAX(CAY_MIN(at - now, 60000), 0);
}

void egress_late(void)
{
    int64_t now = cay__boot_ms();
    CAY_EACH_LINK_SAFE(a, lender.asks) {
        if (!a->seq || a->until > now)
            continue;
        if (a->m.op == CAY_NET_DIAL) {
            errno = ETIMEDOUT;
            lender_refuse(a->job, CAY_ETIMEOUT, "dial_timeout",
                          "the connection was not made in time");
            ask_drop(a);
            continue;
        }
        /* Wedged: nothing that it holds is served. The next one takes up what waits. */
        outside_stop(lender.run, OUT_EGRESS, SIGKILL);
        on_egress_lost("cay-egress does not answer");
        return;
    }
}
