/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"
#include <base/base.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { TRIES = 10, ADOPT_MS = 30000 };

/* What answers a request, and how long its body is. */
static uint16_t get_awaited_type(const cay__link_ask *ask)
{
    if (ask->answer)
        return ask->answer;
    switch (ask->type) {
    case CAY_MSG_HELLO:
    case CAY_MSG_USAGE:
    case CAY_MSG_NET: return ask->type;
    case CAY_MSG_CREATE:
    case CAY_MSG_LIST:
    case CAY_MSG_BOX_WAIT: return CAY_MSG_BOX;
    case CAY_MSG_SPAWN:
    case CAY_MSG_PROC_FIND:
    case CAY_MSG_PROCS: return CAY_MSG_PROC;
    case CAY_MSG_OUTPUT:
    case CAY_MSG_READ: return CAY_MSG_DATA;
    case CAY_MSG_SNAPSHOT: return CAY_MSG_SNAPPED;
    default: return CAY_MSG_OK;
    }
}

static size_t body_of(uint16_t type)
{
    switch (type) {
    case CAY_MSG_HELLO: return sizeof(cay_m_hello);
    case CAY_MSG_USAGE: return sizeof(cay_m_usage);
    case CAY_MSG_NET: return sizeof(cay_m_netinfo);
    case CAY_MSG_BOX: return sizeof(cay_m_boxinfo);
    case CAY_MSG_PROC: return sizeof(cay_m_proc);
    case CAY_MSG_EXIT: return sizeof(cay_m_exit);
    case CAY_MSG_DATA: return sizeof(cay_m_data);
    case CAY_MSG_SNAPPED: return sizeof(cay_m_snapped);
    case CAY_MSG_ERROR: return sizeof(cay_m_error);
    default: return 0;
    }
}

void cay__link_open(cay__link *l, int (*dial)(void *, const cay_call *, int *, cay_err *),
                    void *arg, const char *peer)
{
    *l = (cay__link){ .dial = dial, .arg = arg, .peer = peer };
    pthread_mutex_init(&l->lock, NULL);
}

static void drop_idle(cay__link *l)
{
    CAY_LOCK(&l->lock);
    while (l->nidle > 0)
        close(l->idle[--l->nidle]);
}

void cay__link_close(cay__link *l)
{
    drop_idle(l);
    pthread_mutex_destroy(&l->lock);
}

void cay__link_give(cay__link *l, int sock)
{
    CAY_LOCK(&l->lock);
    if (l->nidle < CAY__LINK_IDLE)
        l->idle[l->nidle++] = sock;
    else
        cay__close_fd(&sock);
}

static int acquire_connection(cay__link *l, const cay_call *call, int *sock, cay_err *err)
{
    int s = -1;
    pthread_mutex_lock(&l->lock);
    if (l->nidle > 0)
        s = l->idle[--l->nidle];
    pthread_mutex_unlock(&l->lock);
    if (s < 0)
        CAY_TRY(l->dial(l->arg, call, &s, err));
    *sock = s;
    return 0;
}

static bool peer_died(int e)
{
    return e == EPIPE || e == ECONNRESET || e == ENOTCONN || e == ECONNREFUSED;
}

static int fail_peer_died(const char *peer, cay_err *err)
{
    return cay_fail_why(err, CAY_EGONE, "peer_died", "the %s ended during the call", peer);
}

static int send_ask(int sock, const cay_call *call, const cay__link_ask *a, const char *peer,
                    cay_err *err)
{
    cay_msg head = { CAY_MSG_MAGIC, CAY_MSG_VERSION, a->type, (uint32_t)a->tail_len, 0 };
    struct iovec io[3] = { { &head, sizeof head },
                           { (void *)a->body, a->len },
                           { (void *)a->tail, a->tail_len } };
    for (;;) {
        if (cay__fd_sendv(sock, io, a->tail_len ? 3 : 2, a->fds, a->nfds, MSG_DONTWAIT) >= 0)
            return 0;
        if (peer_died(errno))
            return fail_peer_died(peer, err);
        if (errno != EAGAIN && errno != ENOBUFS)
            return cay_fail_sys(err, "send to the %s", peer);
        CAY_TRY(cay__call_wait(call, sock, POLLOUT, peer, err));
    }
}

/* Head, body and tail land in their places by one recvmsg(2). An answer of another type than the
 * one awaited has a body of another length, so what went into the tail is moved. */
static int parse_reply(cay__reply *out, size_t want, const cay_msg *head, size_t n, char *spill,
                       cay_err *err)
{
    size_t body = body_of(head->type), payload = n - sizeof *head;
    if (n < sizeof *head || head->magic != CAY_MSG_MAGIC || head->version != CAY_MSG_VERSION ||
        head->tail > CAY_MSG_MAX || payload != body + head->tail)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "a packet of type %u has a wrong form",
                            head->type);
    out->type = head->type;
    out->tail_len = head->tail;
    if (body > want)
        memcpy(out->bytes + want, spill, body - want);
    if (body != want && head->tail)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                            "a packet of type %u where another was awaited", head->type);
    return 0;
}

static int recv_reply(int sock, const cay_call *call, uint16_t awaited, const char *peer,
                      cay__reply *out, cay_err *err)
{
    char spill[sizeof(cay_m_error)];
    size_t want = body_of(awaited);
    bool own = out->tail && out->tail_cap >= sizeof spill;
    cay_msg head = { 0 };
    struct iovec io[3] = { { &head, sizeof head }, { out->bytes, want }, { spill, sizeof spill } };
    if (own)
        io[2] = (struct iovec){ out->tail, out->tail_cap };
    struct msghdr m = { .msg_iov = io, .msg_iovlen = 3 };
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } ctl;
    if (out->fd) {
        m.msg_control = ctl.room;
        m.msg_controllen = sizeof ctl.room;
    }
    bool forever = cay__call_cancel(call) < 0 && cay__call_left(call) < 0;
    for (bool reset = false;;) {
        ssize_t n = recvmsg(sock, &m, (forever ? 0 : MSG_DONTWAIT) | MSG_CMSG_CLOEXEC);
        struct cmsghdr *c = NULL;
        if (n > 0 && out->fd)
            c = CMSG_FIRSTHDR(&m);
        if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
            memcpy(out->fd, CMSG_DATA(c), sizeof(int));
        if (n < 0 && errno == ECONNRESET &&
            !reset) { /* told once, before what the peer said last */
            reset = true;
            continue;
        }
        if (n > 0 && (m.msg_flags & MSG_TRUNC))
            return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "a packet from the %s is too long",
                                peer);
        if (n > 0)
            return parse_reply(out, want, &head, (size_t)n, io[2].iov_base, err);
        if (n == 0 || peer_died(errno))
            return fail_peer_died(peer, err);
        if (errno != EAGAIN && errno != EINTR)
            return cay_fail_sys(err, "receive from the %s", peer);
        CAY_TRY(cay__call_wait(call, sock, POLLIN, peer, err));
    }
}

static int as_error(const cay_m_error *e, cay_err *err)
{
    char msg[sizeof e->msg + 1], reason[sizeof e->reason + 1];
    memcpy(msg, e->msg, sizeof e->msg);
    memcpy(reason, e->reason, sizeof e->reason);
    msg[sizeof e->msg] = reason[sizeof e->reason] = 0;
    int code = CAY_EUPSTREAM;
    if (e->code < 0 && e->code >= CAY_ESYS)
        code = e->code;
    cay_fail_why(err, code, reason, "%s", msg);
    if (err)
        err->sys = e->sys;
    return code;
}

/* It answers for what follows: that is asked of what it was to make. */
static int answered_ahead(int sock, const cay_call *call, const cay__link_ask *ask,
                          const char *peer, cay_err *err)
{
    cay__reply r = { .tail = NULL };
    CAY_TRY(recv_reply(sock, call, get_awaited_type(ask), peer, &r, err));
    if (r.type == get_awaited_type(ask))
        return 0;
    int rc;
    if (r.type == CAY_MSG_ERROR)
        rc = as_error(&r.error, err);
    else
        rc = cay_fail_why(err, CAY_EUPSTREAM, "protocol", "packet %u came first", r.type);
    if (rc == CAY_EGONE && err) /* the peer itself is not gone */
        err->code = CAY_EUPSTREAM;
    if (rc == CAY_EGONE)
        return CAY_EUPSTREAM;
    return rc;
}

/* One try. *sent tells whether the peer may have begun the work. */
static int try_call(cay__link *l, const cay_call *call, const cay__link_ask *ask, cay__reply *out,
                    int *sock, bool *sent, cay_err *err)
{
    CAY_AUTOFD s = -1;
    *sent = false;
    CAY_TRY(acquire_connection(l, call, &s, err));
    if (l->ahead)
        CAY_TRY(send_ask(s, call, l->ahead, l->peer, err));
    CAY_TRY(send_ask(s, call, ask, l->peer, err));
    *sent = true;
    if (l->ahead)
        CAY_TRY(answered_ahead(s, call, l->ahead, l->peer, err));
    CAY_TRY(recv_reply(s, call, get_awaited_type(ask), l->peer, out, err));
    *sock = CAY_STEAL_FD(s);
    return 0;
}

int cay__link_died(const cay__link *l, int rc, cay_err *err)
{
    if (rc != CAY_EGONE || !l->adopts)
        return rc;
    return cay_fail_why(err, CAY_EUPSTREAM, "peer_died",
                        "the %s ended during the call; what it held lives on", l->peer);
}

/* A keeper that has just taken over may still wait for the sandbox to tell what runs in it. */
static bool is_adopting(const cay__reply *r)
{
    cay_err why = CAY_ERR_INIT;
    if (r->type != CAY_MSG_ERROR)
        return false;
    as_error(&r->error, &why);
    return cay_err_is(&why, CAY_REASON_SANDBOX_ADOPTING);
}

static int pause_for(const cay_call *call, int ms, const char *peer, cay_err *err)
{
    CAY_TRY(cay__call_check(call, peer, err));
    struct pollfd p = { .fd = cay__call_cancel(call), .events = POLLIN };
    int left = cay__call_left(call);
    poll(&p, 1, left < 0 ? ms : CAY_MIN(left, ms));
    return 0;
}

int cay__link_begin(cay__link *l, const cay_call *call, const cay__link_ask *ask, cay__reply *out,
                    int *sock, cay_err *err)
{
    int s = -1, rc = 0;
    int64_t start = cay__now_ms();
    for (int i = 0; i < TRIES; i++) {
        cay_err why = CAY_ERR_INIT;
        bool sent;
        rc = try_call(l, call, ask, out, &s, &sent, &why);
        if (rc == 0 && is_adopting(out) && cay__now_ms() - start < ADOPT_MS) {
            cay__link_give(l, CAY_STEAL_FD(s));
            CAY_TRY(pause_for(call, cay__now_ms() - start < 50 ? 2 : 20, l->peer, err));
            i--;
            continue;
        }
        if (rc == 0)
            break;
        if (err)
            *err = why;
        if (rc != CAY_EGONE || (sent && ask->type == CAY_MSG_WRITE))
            return cay__link_died(l, rc, err);
        drop_idle(l); /* all of them led to the one that died */
        if (l->broke)
            l->broke(l->arg);
    }
    if (rc < 0)
        return cay__link_died(l, rc, err);
    if (out->type == CAY_MSG_ERROR) {
        cay__link_give(l, s);
        return as_error(&out->error, err);
    }
    if (out->type != get_awaited_type(ask) && out->type != CAY_MSG_END) {
        close(s);
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "the %s answered request %u by %u",
                            l->peer, ask->type, out->type);
    }
    *sock = s;
    return 0;
}

int cay__link_call(cay__link *l, const cay_call *call, const cay__link_ask *ask, cay__reply *out,
                   cay_err *err)
{
    cay__reply scratch = { .tail = NULL };
    int sock = -1;
    CAY_TRY(cay__link_begin(l, call, ask, CAY_OR(out, &scratch), &sock, err));
    cay__link_give(l, sock);
    return 0;
}

int cay__link_box(cay__link *l, const char *box, const cay_call *call, uint16_t type,
                  cay__reply *out, cay_err *err)
{
    cay_m_box m = cay__link_of(box);
    return cay__link_call(l, call, CAY__LINK_ASK(type, m), out, err);
}

int cay__link_session(cay__link *l, const char *box, const cay_call *call, const char *user,
                      int *sock, cay_err *err)
{
    int sv[2];
    cay_m_box m = cay__link_of(box);
    CAY_TRY_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), err, "session socket");
    CAY_AUTOFD mine = sv[0], theirs = sv[1];
    CAY_TRY(cay__link_call(l, call,
                           CAY__LINK_ASK(CAY_MSG_SESSION, m, .tail = user,
                                         .tail_len = strlen(CAY_OR(user, "")), .fds = &theirs,
                                         .nfds = 1),
                           NULL, err));
    *sock = CAY_STEAL_FD(mine);
    return 0;
}

int cay__link_next(int sock, const cay_call *call, uint16_t want, cay__reply *out, cay_err *err)
{
    CAY_TRY(recv_reply(sock, call, want, "peer", out, err));
    if (out->type == CAY_MSG_ERROR)
        return as_error(&out->error, err);
    if (out->type != want && out->type != CAY_MSG_END)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "packet %u came where %u was awaited",
                            out->type, want);
    return 0;
}
