/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes both ways, until both ends are done.
 *
 * Nothing is kept between two calls: bytes are looked at where they are (MSG_PEEK), sent on, and
 * only what was taken is thrown away from the source (MSG_TRUNC, which copies nothing). So a flow
 * that is stuck costs no memory here, and 2,000 share one buffer.
 */
#include "egress.h"
#include <base/mutant.h>
#include <sys/socket.h>

enum { UP, DOWN, CHUNK_LEAST = 14, CHUNK_MOST = 18, REFILL_MS = 10 };

static cay__watch *get_source(egress_flow *f, int dir)
{
    if (dir == UP)
        return &f->in;
    return &f->out;
}

static cay__watch *get_sink(egress_flow *f, int dir)
{
    if (dir == UP)
        return &f->out;
    return &f->in;
}

void copy_unstall(egress_flow *f)
{
    if (!f->stall_prev)
        return;
    *f->stall_prev = f->stall_next;
    if (f->stall_next)
        f->stall_next->stall_prev = f->stall_prev;
    f->stall_prev = NULL;
}

static void stall_flow(egress_flow *f, int dir)
{
    egress_box *b = f->box;
    f->stall |= (uint8_t)(1 << dir);
    if (!f->stall_prev) {
        f->stall_next = b->stalled;
        f->stall_prev = &b->stalled;
        if (f->stall_next)
            f->stall_next->stall_prev = &f->stall_next;
        b->stalled = f;
    }
    if (!b->refill.prev)
        cay__timer_after(&b->e->loop, &b->refill, REFILL_MS);
}

static void update_events(egress_flow *f)
{
    bool held = f->proto == CAY__NET_HTTP && f->name && f->http.next == HTTP_ASKED && !f->http.left;
    uint32_t in = 0, out = 0;
    if (!f->eof[UP] && !f->full[UP] && !(f->stall & 1) && !held)
        in = EPOLLIN |
             (f->lowat > 1 ? EPOLLRDHUP : 0u); /* half a head is no head when no more can come */
    if (!f->eof[DOWN] && !f->full[DOWN] && !(f->stall & 2))
        out = EPOLLIN;
    flow_want(f, &f->in, in | (f->full[DOWN] ? EPOLLOUT : 0u));
    flow_want(f, &f->out, out | (f->full[UP] ? EPOLLOUT : 0u));
}

/* How many of the n bytes at p may pass, at most `most` of them; *s goes on as if they had. */
static size_t http_pass(egress_flow *f, http_state *s, const char *p, size_t n, size_t most,
                        const char **why)
{
    char host[256];
    size_t at = 0;
    *why = NULL;
    while (at < most) {
        if (s->next == HTTP_TUNNEL && !s->left)
            return most;
        if (!s->left) {
            if (s->next == HTTP_ASKED)
                break;
            const char *reason;
            int rc = http_unit(s, p + at, n - at, flow_name(f), f->port, host, &reason);
            if (rc == HTTP_MORE)
                break;
            if (rc != HTTP_OK) {
                *why = reason;
                break;
            }
        }
        size_t take = (size_t)CAY_MIN(s->left, most - at);
        s->left -= take;
        at += take;
    }
    return at;
}

/* False: the flow is gone. */
static bool finish_direction(egress_flow *f, int dir)
{
    f->eof[dir] = 1;
    if (f->eof[!dir]) {
        flow_end(f, "closed", true);
        return false;
    }
    shutdown(get_sink(f, dir)->fd, SHUT_WR);
    return true;
}

static bool abort_flow(egress_flow *f, const char *why)
{
    flow_end(f, why, false);
    return false;
}

static bool copy_bytes(egress_flow *f, int dir, uint32_t events)
{
    egress *e = f->box->e;
    bucket *rate = &f->box->bucket[dir];
    size_t want = bucket_take(rate, (size_t)1 << f->chunk[dir], cay__now_us());
    http_state before = f->http;
    bool http = f->proto == CAY__NET_HTTP && f->name && !CAY__MUTANT("net-host");
    const char *why = NULL;
    if (!want) {
        stall_flow(f, dir);
        return true;
    }
    int from = get_source(f, dir)->fd;
    /* A head is looked at as a whole, however little the rate lets through. */
    size_t look = want;
    if (http && dir == UP && !f->http.left)
        look = CAY_MAX(want, HTTP_HEAD_MAX);
    ssize_t n = recv(from, e->buffer, look, MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0) {
        bucket_back(rate, want);
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n == 0)
            return finish_direction(f, dir);
        return abort_flow(f, dir == UP ? "client_reset" : "server_reset");
    }
    size_t pass = CAY_MIN((size_t)n, want);
    if (http && dir == UP) {
        pass = http_pass(f, &f->http, (char *)e->buffer, (size_t)n, pass, &why);
        if (!pass && why)
            return abort_flow(f, why);
        if (!pass && f->http.next != HTTP_ASKED) { /* half a head */
            bucket_back(rate, want);
            if (events & (EPOLLRDHUP | EPOLLHUP))
                return abort_flow(f, "http_unreadable");
            flow_lowat(f, (uint32_t)n + 1);
            return true;
        }
        flow_lowat(f, 1);
    } else if (http && f->http.next == HTTP_ASKED && !f->http.left &&
               http_answer(&f->http, (char *)e->buffer, (size_t)n) == HTTP_MORE) {
        f->http.next = HTTP_HEAD;
    }
    ssize_t m = 0;
    if (pass)
        m = send(get_sink(f, dir)->fd, e->buffer, pass, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (m < 0 && errno != EAGAIN)
        return abort_flow(f, dir == UP ? "server_reset" : "client_reset");
    m = CAY_MAX(m, 0);
    bucket_back(rate, want - (size_t)m);
    if ((size_t)m < pass && http && dir == UP) {
        f->http = before;
        http_pass(f, &f->http, (char *)e->buffer, (size_t)n, (size_t)m, &why);
    }
    if (m && recv(from, e->buffer, (size_t)m, MSG_TRUNC | MSG_DONTWAIT) != m)
        return abort_flow(f, "lost_bytes");
    f->bytes[dir] += (uint64_t)m;
    if (f->box->given && rate->rate) {
        bucket_mine(rate, (size_t)m);
        intercept_spent(f->box);
    }
    f->full[dir] = (size_t)m < pass;
    if (f->full[dir])
        f->chunk[dir] = (uint8_t)CAY_MAX(f->chunk[dir] - 1, CHUNK_LEAST);
    else if ((size_t)m == (size_t)1 << f->chunk[dir])
        f->chunk[dir] = (uint8_t)CAY_MIN(f->chunk[dir] + 1, CHUNK_MOST);
    return true;
}

void copy_start(egress_flow *f)
{
    f->state = FLOW_COPY;
    if (f->proto == CAY__NET_HTTP && f->name)
        f->http = (http_state){ 0 };
    if (!copy_bytes(f, UP, 0)) /* its first flight is mostly here already */
        return;
    update_events(f);
}

void copy_event(egress_flow *f, bool upstream, uint32_t events)
{
    int in = upstream ? DOWN : UP, out = !in;
    uint32_t over = events & (EPOLLHUP | EPOLLERR);
    if ((events & EPOLLIN || over) && !f->eof[in] && !f->full[in] && !(f->stall & 1 << in) &&
        !copy_bytes(f, in, events))
        return;
    if ((events & EPOLLOUT || over) && f->full[out]) {
        f->full[out] = 0;
        if (!copy_bytes(f, out, 0))
            return;
    }
    update_events(f);
}

void on_refill(cay__timer *t)
{
    egress_box *b = CAY__OWNER(t, egress_box, refill);
    while (b->stalled) {
        egress_flow *f = b->stalled;
        copy_unstall(f);
        f->stall = 0;
        update_events(f); /* the loop tells what can be done */
    }
}
