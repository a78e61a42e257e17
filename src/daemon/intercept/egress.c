/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Egress: flows come from it, and what becomes of them is told to it. Ends are never lost, for it
 * counts what we have: they wait until it takes them, or the next one does. Notes are, and are
 * counted then.
 */
#include "intercept.h"
#include <sys/socket.h>

/* One that waits. At most one for each flow, and no flow comes from an egress that does not read.
 */
typedef struct said {
    struct said *next;
    uint16_t type;
    cay_n_end m; /* unless it is the word that those were all */
    bool bare;
} said;

static said *first, **last = &first;

static bool send_message(uint16_t type, const void *m, size_t len)
{
    return intercept.egress.fd >= 0 &&
           cay__msg_send(intercept.egress.fd, CAY_N_VERSION, type, m, len, NULL, 0, NULL, 0,
                         MSG_DONTWAIT); /* others' bytes do not wait for it */
}

static void set_egress_events(bool out)
{
    if (intercept.egress.fd >= 0)
        cay__loop_set(&intercept.loop, &intercept.egress, out ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void flush_queue(void)
{
    while (first && send_message(first->type, &first->m, first->bare ? 0 : sizeof first->m)) {
        said *s = first;
        first = s->next;
        free(s);
    }
    if (!first)
        last = &first;
    set_egress_events(first);
}

static void queue_message(uint16_t type, const cay_n_end *m)
{
    said *s = cay__alloc(sizeof *s);
    *s = (said){ .type = type, .bare = !m };
    if (m)
        s->m = *m;
    *last = s;
    last = &s->next;
}

static cay_n_end describe_flow(const intercept_flow *f)
{
    cay_n_end m = { .flow = f->number,
                    .ms = (uint64_t)(cay__boot_ms() - f->began_ms),
                    .port = f->port,
                    .proto = f->tls ? CAY__NET_TLS : CAY__NET_HTTP };
    memcpy(m.id, f->v->id, sizeof m.id);
    memcpy(m.addr, f->addr, sizeof m.addr);
    CAY_COPY(m.name, f->name);
    return m;
}

void note_end(const intercept_flow *f, const char *reason, bool closed)
{
    cay_n_end m = describe_flow(f);
    m.up = f->in.got;
    m.down = f->in.put;
    m.closed = closed;
    m.lost = f->v->lost;
    CAY_COPY(m.reason, reason);
    f->v->lost = 0;
    queue_message(CAY_N_END, &m);
    flush_queue();
}

void note(const intercept_flow *f, const cay__binding *b, bool allowed, const char *reason)
{
    cay_n_note m = { .flow = f->number, .port = f->port, .allowed = allowed };
    memcpy(m.id, f->v->id, sizeof m.id);
    CAY_COPY(m.name, f->name);
    CAY_COPY(m.secret, b ? b->name : "");
    CAY_COPY(m.reason, reason);
    if (!send_message(CAY_N_NOTE, &m, sizeof m))
        f->v->lost++;
}

void note_spent(vault *v)
{
    cay_n_spent m = { .bytes = { v->rate[0].mine, v->rate[1].mine } };
    if (!bucket_due(&v->rate[0]) && !bucket_due(&v->rate[1]))
        return;
    memcpy(m.id, v->id, sizeof m.id);
    if (send_message(CAY_N_SPENT, &m, sizeof m))
        v->rate[0].mine = v->rate[1].mine = 0;
}

static void take_spent(const cay_n_spent *m)
{
    vault *v = NULL;
    if (memchr(m->id, 0, sizeof m->id))
        v = vault_find(m->id);
    for (int dir = 0; v && dir < 2; dir++)
        bucket_others(&v->rate[dir], m->bytes[dir], cay__now_us());
}

static void close_egress(void)
{
    if (intercept.egress.fd < 0)
        return;
    cay__loop_del(&intercept.loop, &intercept.egress);
    cay__close_fd(&intercept.egress.fd);
}

static void on_egress(cay__watch *w, uint32_t events)
{
    struct {
        cay_msg h;
        union {
            struct {
                cay_n_flow m;
                char name[256];
            };
            cay_n_spent spent;
        };
    } pkt;
    if (events & EPOLLOUT)
        flush_queue();
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    ssize_t n = cay__fd_recv(w->fd, &pkt, sizeof pkt, fds, &nfds, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == EMSGSIZE))
        return;
    if (n <= 0) { /* its next one gets another pair from the keeper */
        close_egress();
        return;
    }
    size_t fixed = sizeof pkt.h + sizeof pkt.m;
    bool ours =
        (size_t)n >= sizeof pkt.h && pkt.h.magic == CAY_MSG_MAGIC && pkt.h.version == CAY_N_VERSION;
    if (ours && nfds == 2 && n > (ssize_t)fixed && pkt.h.type == CAY_N_FLOW &&
        fixed + pkt.h.tail == (size_t)n && memchr(pkt.m.id, 0, sizeof pkt.m.id)) {
        flow_start(&pkt.m, pkt.name, pkt.h.tail, fds[0], fds[1]);
        return;
    }
    if (ours && pkt.h.type == CAY_N_SPENT && (size_t)n == sizeof pkt.h + sizeof pkt.spent)
        take_spent(&pkt.spent);
    cay__close_fds(fds, nfds);
}

/* Only ends are still true for another one. */
static void keep_ends(void)
{
    for (said **at = &first; *at;) {
        said *s = *at;
        if (s->type == CAY_N_END) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        free(s);
    }
    for (last = &first; *last;)
        last = &(*last)->next;
}

void egress_take(int fd)
{
    close_egress();
    intercept.egress = (cay__watch){ .fd = fd, .events = EPOLLIN, .fn = on_egress };
    if (!cay__loop_add(&intercept.loop, &intercept.egress)) {
        cay__close_fd(&intercept.egress.fd);
        return;
    }
    keep_ends();
    CAY_EACH_LINK(v, intercept.vaults)
        CAY_EACH_LINK(f, v->flows) {
            cay_n_end m = describe_flow(f);
            queue_message(CAY_N_LIVE, &m);
        }
    queue_message(CAY_N_LIVE, NULL);
    flush_queue();
}
