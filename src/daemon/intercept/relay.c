/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests go up one by one: each head is judged and may get a value; bodies pass as they are.
 * Answers come down through the mask. Every step moves what can be moved now; a side that has to
 * wait says for what in side.want.
 */
#include "intercept.h"
#include <daemon/egress/httphead.h>

enum { ROUNDS = 32 };

static void consume_input(relay *r, size_t n)
{
    explicit_bzero(r->in, n); /* a program inside may have sent secrets of its own */
    memmove(r->in, r->in + n, r->len - n);
    r->len -= n;
}

/* Empty lines before a request (RFC 9112, 2.2). All of them: http_unit() reads over some, and the
 * head has to begin where it does. */
static void skip_empty(relay *r)
{
    size_t n = 0;
    while (n + 1 < r->len && r->in[n] == '\r' && r->in[n + 1] == '\n')
        n += 2;
    if (n)
        consume_input(r, n);
}

/* One whole head at the front of `in`, which is `n` bytes long. */
static bool take_head(intercept_flow *f, size_t n)
{
    relay *r = &f->r;
    injected got = { .mask = &r->mask };
    cay_err err = CAY_ERR_INIT;
    int rc = inject(f->v, f->name, f->port, f->tls, r->in, n, &got, &err);
    if (rc < 0) {
        note(f, got.n ? got.use[0] : NULL, false, err.reason);
        flow_say(f, 403, err.reason, err.msg);
        return false;
    }
    CAY_EACH_OF(it, got.use, got.n)
        note(f, *it, true, "added");
    r->head = got.head;
    r->head_len = got.len;
    r->head_at = 0;
    consume_input(r, n);
    return true;
}

/* How many bytes at the front of `in` may go up? False: a page is on its way. */
static bool check_input(intercept_flow *f)
{
    relay *r = &f->r;
    while (!r->pass && !r->head && r->len) {
        if (r->tunnel) {
            r->pass = r->len;
        } else if (r->left) {
            r->pass = (size_t)CAY_MIN(r->left, r->len);
            r->left -= r->pass;
        } else if (r->next == HTTP_ASKED) {
            return true; /* the server's answer decides what these bytes are */
        } else {
            http_state s = { 0, r->next, r->heads };
            char host[256];
            const char *why;
            if (r->next == HTTP_HEAD)
                skip_empty(r);
            if (!r->len)
                return true;
            int rc = http_unit(&s, r->in, r->len, f->name, f->port, host, &why);
            if (rc == HTTP_MORE)
                return true;
            if (rc == HTTP_OK && r->next == HTTP_TRAILER &&
                s.left != 2) { /* a place for a credential of the client's own */
                rc = HTTP_BAD;
                why = "http_trailer";
            }
            if (rc != HTTP_OK) {
                note(f, NULL, false, why);
                flow_say(f, rc == HTTP_OTHER ? 403 : 400, why,
                         "the request is not one that can be judged");
                return false;
            }
            size_t head = 0;
            if (r->next == HTTP_HEAD) {
                head = (size_t)((char *)memmem(r->in, r->len, "\r\n\r\n", 4) - r->in) + 4;
                if (!take_head(f, head))
                    return false;
                if (!f->begun)
                    flow_begun(f);
            }
            r->left = s.left - head;
            r->next = s.next;
            r->heads = s.heads;
        }
    }
    return true;
}

/* What one read may bring now, under the sandbox's bandwidth in this direction; 0: nothing, and a
 * pause was asked for. */
static size_t reserve_quota(intercept_flow *f, int dir, size_t room)
{
    size_t n = bucket_take(&f->v->rate[dir], room, cay__now_us());
    if (!n)
        flow_pause(f);
    return n;
}

/* side_read() as far as the bandwidth goes. */
static ssize_t read_limited(intercept_flow *f, int dir, side *s, void *p, size_t room)
{
    size_t may = reserve_quota(f, dir, room), got;
    ssize_t n = SIDE_AGAIN;
    if (may)
        n = side_read(s, p, may);
    got = (size_t)CAY_MAX(n, 0);
    bucket_back(&f->v->rate[dir], may - got);
    if (got) {
        f->moved_ms = cay__boot_ms();
        bucket_mine(&f->v->rate[dir], got);
        note_spent(f->v);
    }
    return n;
}

static int fail_flow(intercept_flow *f, const char *why)
{
    flow_why(f, why);
    return -1;
}

static int fail_side(intercept_flow *f, const side *s)
{
    if (s->bare)
        return fail_flow(f, "tls_truncated");
    return fail_flow(f, s == &f->in ? "client_reset" : "server_reset");
}

/* Reads on behind the *len bytes at p. These and the steps below: -1: over; 0: nothing moved; 1:
 * something did. */
static int fill_from(intercept_flow *f, int dir, side *s, char *p, size_t *len, size_t most)
{
    if (s->eof || *len >= most)
        return 0;
    ssize_t n = read_limited(f, dir, s, p + *len, most - *len);
    if (n == SIDE_BROKEN)
        return fail_side(f, s);
    s->eof = n == 0;
    *len += (size_t)CAY_MAX(n, 0);
    return n >= 0;
}

static int relay_up(intercept_flow *f)
{
    relay *r = &f->r;
    int moved = fill_from(f, 0, &f->in, r->in, &r->len, IN_MAX);
    CAY_TRY(moved);
    if (!check_input(f))
        return 1;
    const char *p = r->in;
    size_t len = r->pass;
    if (r->head) {
        p = r->head + r->head_at;
        len = r->head_len - r->head_at;
    }
    if (len) {
        ssize_t n = side_write(&f->out, p, len);
        if (n == SIDE_BROKEN)
            return fail_side(f, &f->out);
        if (n <= 0)
            return moved;
        moved = 1;
        if (!r->head) {
            consume_input(r, (size_t)n);
            r->pass -= (size_t)n;
        } else if ((r->head_at += (size_t)n) == r->head_len) {
            explicit_bzero(r->head, r->head_len);
            free(CAY_STEAL(r->head));
        }
    } else if (f->in.eof && !f->out.shut) {
        if (r->len && r->next != HTTP_ASKED)
            return fail_flow(f, "http_unreadable"); /* it ended in the middle of a request */
        side_finish(&f->out);
        moved = 1;
    }
    return moved;
}

static int relay_down(intercept_flow *f)
{
    relay *r = &f->r;
    int moved = fill_from(f, 1, &f->out, r->down, &r->down_len, DOWN_MAX);
    CAY_TRY(moved);
    if (r->next == HTTP_ASKED &&
        r->down_len) { /* the answer to an upgrade, which was the first request: it begins here */
        http_state s = { 0, HTTP_ASKED, 1 };
        if (http_answer(&s, r->down, r->down_len) == HTTP_MORE && !f->out.eof)
            return moved;
        r->tunnel = s.next == HTTP_TUNNEL;
        r->next = HTTP_HEAD;
        if (!r->tunnel && r->down_len > 9 && r->down[9] == '1')
            return fail_flow(
                f,
                "http_unreadable"); /* an answer before the answer: what follows cannot be told */
    }
    r->down_ok += mask_apply(&r->mask, r->down + r->down_ok, r->down_len - r->down_ok, f->out.eof);
    if (r->down_ok) {
        ssize_t n = side_write(&f->in, r->down, r->down_ok);
        if (n == SIDE_BROKEN)
            return fail_side(f, &f->in);
        if (n <= 0)
            return moved;
        memmove(r->down, r->down + n, r->down_len - (size_t)n);
        r->down_len -= (size_t)n;
        r->down_ok -= (size_t)n;
        return 1;
    }
    return moved;
}

/* The answer is ours; what the program still sends is read and forgotten, so that it can read why.
 */
static int send_page(intercept_flow *f)
{
    char scrap[4096];
    if (f->in.shaking) {
        if (side_shake(&f->in))
            return 1;
        if (f->in.want)
            return 0;
        return -1;
    }
    if (f->page_at < f->page_len) {
        ssize_t n = side_write(&f->in, f->page + f->page_at, f->page_len - f->page_at);
        if (n > 0)
            f->page_at += (size_t)n;
        if (n == SIDE_BROKEN)
            return -1;
        return n > 0;
    }
    side_finish(&f->in);
    ssize_t n = side_read(&f->in, scrap, sizeof scrap);
    if (n > 0)
        return 1;
    if (n == SIDE_AGAIN)
        return 0;
    return -1;
}

/* Both handshakes at once; -1: the sandbox's failed. */
static int run_handshakes(intercept_flow *f)
{
    bool in = side_shake(&f->in), out = side_shake(&f->out);
    if (!in && !f->in.want) {
        flow_why(f, "tls_client");
        note(f, NULL, false, f->why);
        return -1;
    }
    if (!out && !f->out.want) {
        char why[400];
        CAY_FORMAT(why, "%s: its certificate or TLS is not acceptable (%s)", f->name,
                   X509_verify_cert_error_string(SSL_get_verify_result(f->out.ssl)));
        note(f, NULL, false, "upstream_tls");
        flow_say(f, 502, "upstream_tls", why);
        return 1;
    }
    return in && out;
}

bool relay_step(intercept_flow *f)
{
    int rounds = 0;
    for (int moved = 1; moved > 0 && rounds < ROUNDS; rounds++) {
        f->in.want = f->out.want = 0;
        if (f->page) {
            moved = send_page(f);
        } else if (f->in.shaking || f->out.shaking) {
            moved = run_handshakes(f);
        } else {
            moved = relay_up(f);
            if (moved >= 0 && !f->page)
                moved |= relay_down(f);
            if (!f->page && f->out.eof && !f->r.down_len && moved >= 0) {
                intercept_flow_end(f, "closed", true);
                return false;
            }
        }
        if (moved < 0) {
            intercept_flow_end(f, "client_reset", f->page && f->page_at == f->page_len);
            return false;
        }
    }
    if (rounds == ROUNDS) /* others' turn; we come again at once, because one can be written to */
        f->in.want = EPOLLIN | EPOLLOUT;
    side_wait(&f->in);
    side_wait(&f->out);
    return true;
}
