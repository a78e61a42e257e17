/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a refusal looks to the program. The handshake has happened before any policy could speak, so
 * the connection is open: where the program expects HTTP it gets a page, where it expects TLS an
 * alert, elsewhere a reset. It is listened to until it has finished talking, because closing a
 * socket with unread bytes would reset away what was just said.
 */
#include "egress.h"
#include <sys/socket.h>

enum { DRAIN_MAX = 64 << 10 };

/* The rule that would allow it. */
static void write_allow_rule(const egress_flow *f, cay__buf *b)
{
    char addr[CAY__ADDR_MAX];
    const char *name = flow_name(f), *scheme = "";
    bool usual = f->port == 443 || f->port == 80;
    if (!strncmp(f->reason, "tls_", 4) && strcmp(f->reason, "tls_name_mismatch") != 0)
        scheme = "tls+opaque://";
    else if (!strncmp(f->reason, "tls_", 4) ||
             !strncmp(f->reason, "http_", 5)) /* whatever it says */
        scheme = "tcp://";
    if (!name) {
        cay__addr_text(f->addr, addr);
        name = addr;
    }
    bool v6 = strchr(name, ':') != NULL;
    cay__buf_fmt(b, "cay net allow %s '%s%s%s%s", f->box->id, scheme, v6 ? "[" : "", name,
                 v6 ? "]" : "");
    if (!usual || *scheme)
        cay__buf_fmt(b, ":%u", f->port);
    cay__buf_str(b, "'\n");
}

static void send_page(const egress_flow *f)
{
    CAY_AUTOBUF body = CAY__BUF(2048);
    CAY_AUTOBUF all = CAY__BUF(4096);
    char addr[CAY__ADDR_MAX];
    const char *name = flow_name(f);
    if (!name) {
        cay__addr_text(f->addr, addr);
        name = addr;
    }
    bool said = !strncmp(f->reason, "tls_", 4) || !strncmp(f->reason, "http_", 5);
    if (said)
        cay__buf_fmt(
            &body, "cay: this sandbox may reach %s port %u, but not with what was said there: %s\n",
            name, f->port, f->reason);
    else if (f->status == 403)
        cay__buf_fmt(
            &body, "cay: the network policy of this sandbox does not let it reach %s port %u: %s\n",
            name, f->port, f->reason);
    else
        cay__buf_fmt(&body, "cay: %s port %u cannot be reached: %s\n", name, f->port, f->reason);
    if (f->status == 403 && strcmp(f->reason, "own_address") != 0 &&
        strcmp(f->reason, "blocked_range") != 0 && strcmp(f->reason, "operator_deny") != 0) {
        cay__buf_str(&body, said ? "To allow it whatever is said, on the host: "
                                 : "To allow it, on the host: ");
        write_allow_rule(f, &body);
    }
    cay__buf_fmt(&all,
                 "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "
                 "%zu\r\nCache-Control: no-store\r\n"
                 "X-Cay-Reason: %s\r\nConnection: close\r\n\r\n",
                 f->status, cay__status_text((int)f->status), body.len, f->reason);
    cay__buf_add(&all, body.data, body.len);
    send(f->in.fd, all.data, all.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_alert(const egress_flow *f)
{
    /* 112 unrecognized_name: curl and others print it as such; 80 internal_error when the way was
     * allowed and led nowhere. */
    uint8_t a[] = { 21, 3, 3, 0, 2, 2, f->status == 403 ? 112 : 80 };
    send(f->in.fd, a, sizeof a, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void on_over(later *l)
{
    egress_flow *f = CAY__OWNER(l, egress_flow, late);
    flow_end(f, NULL, f->state == FLOW_DRAIN);
}

void refuse(egress_flow *f, const char *reason, uint16_t status)
{
    f->reason = reason;
    f->status = status;
    if (f->dial) {
        dial_cancel(f->dial);
        f->dial = NULL;
    }
    unsigned look;
    if (f->proto && f->proto != CAY__NET_TCP)
        look = f->proto;
    else if (f->port == 443)
        look = CAY__NET_TLS;
    else if (f->port == 80)
        look = CAY__NET_HTTP;
    else
        look = CAY__NET_TCP;
    if (look == CAY__NET_TCP || f->state == FLOW_COPY) {
        flow_end(f, NULL, false);
        return;
    }
    f->proto = (uint8_t)look;
    f->box->nlive -= f->state < FLOW_REFUSE; /* no longer one of those that a limit counts */
    f->state = FLOW_REFUSE;
    flow_lowat(f, 1);
    flow_want(f, &f->in, EPOLLIN);
    later_set(f->box->e, &f->late, REFUSE_MS, on_over);
}

void refuse_event(egress_flow *f, uint32_t events)
{
    egress *e = f->box->e;
    ssize_t n = recv(f->in.fd, e->buffer, sizeof e->buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        flow_end(f, NULL, n == 0 && f->state == FLOW_DRAIN);
        return;
    }
    f->bytes[0] += (uint64_t)n;
    if (f->state == FLOW_REFUSE) {
        /* Speak only to who speaks that: an alert to something else is noise in a log. */
        if (f->proto == CAY__NET_TLS && e->buffer[0] == 22)
            send_alert(f);
        else if (e->buffer[0] >= 'A' && e->buffer[0] <= 'Z')
            send_page(f);
        else {
            flow_end(f, NULL, false);
            return;
        }
        shutdown(f->in.fd, SHUT_WR);
        f->state = FLOW_DRAIN;
        later_set(e, &f->late, REFUSE_MS, on_over);
    } else if (f->bytes[0] > DRAIN_MAX)
        flow_end(f, NULL, false);
}
