/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a credential is bound to a destination, the connection goes to cay-intercept: another
 * process, so that neither OpenSSL nor a secret is ever in this one. It gets both sockets and the
 * name; what it may do with them the policy has said before.
 */
#include "egress.h"
#include <policy/binding.h>
#include <sys/socket.h>

bool intercept_wanted(const egress_box *b, const char *name, uint16_t port, bool tls)
{
    return cay__binding_for_host(&b->policy, name, port, tls);
}

/* Which credential went into a request, or why none did: its name, never its value. */
static void take_note(egress *e, cay_n_note *n)
{
    n->id[sizeof n->id - 1] = n->name[sizeof n->name - 1] = n->secret[sizeof n->secret - 1] =
        n->reason[sizeof n->reason - 1] = 0;
    egress_box *b = egress_box_find(e, n->id);
    if (b)
        audit(b, &(record){ .event = "credential",
                            .verdict = n->allowed ? "allow" : "deny",
                            .reason = n->reason,
                            .name = n->name,
                            .secret = n->secret[0] ? n->secret : NULL,
                            .flow = n->flow,
                            .port = n->port });
}

static void take_end(egress *e, cay_n_end *n)
{
    n->id[sizeof n->id - 1] = n->name[sizeof n->name - 1] = n->reason[sizeof n->reason - 1] = 0;
    egress_box *b = egress_box_find(e, n->id);
    if (!b)
        return;
    cay__verdict v = cay__decide_name(e->op, &b->policy, n->name, n->port,
                                      false); /* for the rule's name alone */
    b->log_lost += n->lost;
    given_over(b, n->flow);
    audit(b, &(record){ .event = "end",
                        .verdict = n->closed ? "closed" : "cut",
                        .reason = n->reason,
                        .name = n->name,
                        .flow = n->flow,
                        .addr = n->addr,
                        .port = n->port,
                        .proto = (uint8_t)n->proto,
                        .rule = v.rule,
                        .end = true,
                        .up = n->up,
                        .down = n->down,
                        .ms = (int64_t)n->ms });
}

static void take_live(egress *e, cay_n_end *n)
{
    n->id[sizeof n->id - 1] = n->name[sizeof n->name - 1] = 0;
    egress_box *b = egress_box_find(e, n->id);
    if (b)
        given_add(b, n->flow, n->name, n->addr, n->port, n->proto, (int64_t)n->ms);
}

static void take_spent(egress *e, cay_n_spent *n)
{
    n->id[sizeof n->id - 1] = 0;
    egress_box *b = egress_box_find(e, n->id);
    for (int dir = 0; b && dir < 2; dir++)
        bucket_others(&b->bucket[dir], n->bytes[dir], cay__now_us());
}

/* One message of the interceptor's. False: there is none; *gone: nor will there be. */
static bool receive_message(egress *e, bool *gone)
{
    struct {
        cay_msg h;
        union {
            cay_n_note note;
            cay_n_end end;
            cay_n_spent spent;
        };
    } m;
    int none = 0;
    ssize_t n = cay__fd_recv(e->intercept.fd, &m, sizeof m, NULL, &none, MSG_DONTWAIT);
    *gone = n == 0 || (n < 0 && errno != EAGAIN);
    if (n <= 0)
        return false;
    size_t body = (size_t)n - CAY_MIN((size_t)n, sizeof m.h);
    if (body == sizeof m.note && m.h.type == CAY_N_NOTE)
        take_note(e, &m.note);
    else if (body == sizeof m.end && m.h.type == CAY_N_END)
        take_end(e, &m.end);
    else if (body == sizeof m.end && m.h.type == CAY_N_LIVE)
        take_live(e, &m.end);
    else if (body == sizeof m.spent && m.h.type == CAY_N_SPENT)
        take_spent(e, &m.spent);
    else if (!body && (size_t)n == sizeof m.h && m.h.type == CAY_N_LIVE)
        given_settle(e);
    return true;
}

static void on_note(cay__watch *w, uint32_t events)
{
    egress *e = CAY__OWNER(w, egress, intercept);
    bool gone;
    receive_message(e, &gone);
    if (gone) { /* the keeper brings the next one */
        intercept_take(e, -1);
        links_pair(e);
    }
}

void intercept_take(egress *e, int fd)
{
    bool gone;
    if (e->intercept.fd >= 0) {
        while (receive_message(e, &gone)) /* its last words */
            ;
        given_doubt(e);
        cay__loop_del(&e->loop, &e->intercept);
        sock_close(e, NULL, e->intercept.fd);
    }
    e->intercept = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_note };
    if (fd < 0)
        return;
    e->fds++;
    if (!cay__loop_add(&e->loop, &e->intercept)) {
        sock_close(e, NULL, fd);
        e->intercept.fd = -1;
    }
}

/* False: nobody takes it. On success both sockets are gone from here. */
bool intercept_give(egress_flow *f, int upstream)
{
    egress *e = f->box->e;
    const char *name = flow_name(f);
    cay_n_flow m = { .flow = f->id,
                     .port = f->port,
                     .proto = f->proto,
                     .age = (uint32_t)(cay__now_ms() - f->began) };
    int fds[2] = { f->in.fd, upstream };
    if (e->intercept.fd < 0) {
        links_pair(e);
        return false;
    }
    CAY_COPY(m.id, f->box->id);
    memcpy(m.addr, f->peer, 16);
    flow_lowat(f, 1);
    if (!cay__msg_send(e->intercept.fd, CAY_N_VERSION, CAY_N_FLOW, &m, sizeof m, name,
                       name ? strlen(name) : 0, fds, 2, MSG_DONTWAIT)) {
        if (errno != EAGAIN) {
            intercept_take(e, -1);
            links_pair(e);
        }
        return false;
    }
    given_add(f->box, f->id, name, f->peer, f->port, f->proto, m.age);
    return true;
}

void intercept_spent(egress_box *b)
{
    cay_n_spent m = { .bytes = { b->bucket[0].mine, b->bucket[1].mine } };
    if (b->e->intercept.fd < 0 || (!bucket_due(&b->bucket[0]) && !bucket_due(&b->bucket[1])))
        return;
    memcpy(m.id, b->id, sizeof m.id);
    if (cay__msg_send(b->e->intercept.fd, CAY_N_VERSION, CAY_N_SPENT, &m, sizeof m, NULL, 0, NULL,
                      0, MSG_DONTWAIT))
        b->bucket[0].mine = b->bucket[1].mine = 0;
}
