/* SPDX-License-Identifier: Apache-2.0 */
#include "tunnel.h"
#include <base/base.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum {
    CHANS = 64,
    WINDOW = 256 << 10,
    PIECE = 32 << 10,
    PACKET = 64 << 10,
    FRAME = PACKET + 64,
    TX_MOST = 512 << 10,
    TX_MAX = 32 << 20,
    LEAVE_MS = 10000,
    BLOB = 4 << 20,
    CARRY = 4
};

enum { F_OPEN = 1, F_PACKET, F_DATA, F_EOF, F_RESET, F_CLOSE, F_ACK, F_LAST = F_ACK };

/* What a channel is; directions are the near side's. */
typedef enum kind {
    K_PACKETS = 1, /* both ways */
    K_BYTES,       /* both ways */
    K_TO,          /* read end of a pipe: bytes go to the far side */
    K_FROM,        /* write end of a pipe: bytes come */
    K_READ,        /* socket whose reader has one byte waiting in it: see proto/session.h,
                      CAY_SES_READ */
    K_FILE,        /* small and whole before the packet that carries it */
} kind;

typedef struct frame {
    uint32_t len, chan, type;
} frame;

typedef struct bytes {
    char *data;
    size_t at, len, cap;
} bytes;

/* A packet that waits to be sent, before its bytes. */
typedef struct record {
    uint32_t len, nfds;
    int fds[CARRY];
} record;

typedef struct chan {
    uint32_t id;
    kind kind;
    bool live, rd, wr; /* rd: our fd is read and sent; wr: what comes is written to it */
    bool eof, reset;   /* after what waits nothing comes; and not because all was told */
    int fd, give;      /* give: what the next packet that names it carries */
    int64_t credit;    /* bytes that may be sent */
    uint32_t taken;    /* bytes that came and were written, not told yet */
    bytes q;
} chan;

struct cay__tunnel {
    int in, out;
    bool near, broken;
    uint32_t next;
    bytes rx, tx;
    chan c[CHANS];
    char room[PACKET];
};

static void append_bytes(bytes *b, const void *p, size_t n)
{
    if (b->at && b->at == b->len)
        b->at = b->len = 0;
    if (b->cap - b->len < n && b->at) {
        memmove(b->data, b->data + b->at, b->len - b->at);
        b->len -= b->at;
        b->at = 0;
    }
    if (b->cap - b->len < n) {
        b->cap = (b->len + n) * 2;
        b->data = realloc(b->data, b->cap);
        if (!b->data)
            abort();
    }
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
}

static size_t count_left(const bytes *b)
{
    return b->len - b->at;
}

static void send_frame(cay__tunnel *t, uint32_t ch, uint32_t type, const void *p, size_t n)
{
    frame f = { (uint32_t)n, ch, type };
    append_bytes(&t->tx, &f, sizeof f);
    append_bytes(&t->tx, p, n);
}

static chan *find_channel(cay__tunnel *t, uint32_t id)
{
    CAY_EACH_OF(it, t->c, CHANS)
        if (it->live && it->id == id)
            return it;
    return NULL;
}

static void close_channel(chan *c)
{
    while (c->kind == K_PACKETS && count_left(&c->q) >= sizeof(record)) {
        record r;
        memcpy(&r, c->q.data + c->q.at, sizeof r);
        CAY_EACH_OF(it, r.fds, r.nfds)
            close(*it);
        c->q.at += sizeof r + r.len;
    }
    /* The byte is left where it is, and the reader learns that not all came, unless all did. */
    char byte;
    if (c->kind == K_READ && c->wr && c->eof && !c->reset)
        (void)!recv(c->fd, &byte, 1, MSG_DONTWAIT);
    cay__close_fd(&c->fd);
    cay__close_fd(&c->give);
    free(c->q.data);
    *c = (chan){ .fd = -1, .give = -1 };
}

static chan *add_channel(cay__tunnel *t, uint32_t id, kind k, int fd, int give)
{
    CAY_EACH_OF(c, t->c, CHANS) {
        if (c->live)
            continue;
        bool both = k == K_PACKETS || k == K_BYTES;
        *c = (chan){ .id = id, .kind = k, .live = true, .fd = fd, .give = give, .credit = WINDOW };
        c->rd = both || (t->near ? k == K_TO : k == K_FROM || k == K_READ);
        c->wr = both || (k != K_FILE && !c->rd);
        if (fd >= 0)
            cay__fd_nonblock(fd, true);
        return c;
    }
    return NULL;
}

/* Nothing more is to be done with it? */
static void settle_channel(cay__tunnel *t, chan *c)
{
    if (c->wr && c->eof && !count_left(&c->q)) {
        if (c->kind == K_BYTES && c->rd) {
            shutdown(c->fd, SHUT_WR);
            c->wr = false;
        } else if (c->kind == K_PACKETS) {
            c->rd = false;
        }
        if (!c->rd) {
            close_channel(c);
            return;
        }
    }
    if (!c->rd && !c->wr && c->kind != K_FILE)
        close_channel(c);
}

static void hang_up(cay__tunnel *t, chan *c)
{
    send_frame(t, c->id, F_CLOSE, NULL, 0);
    c->reset = true;
    close_channel(c);
}

static kind kind_of(int fd)
{
    struct stat st;
    int type = 0, flags = fcntl(fd, F_GETFL);
    socklen_t n = sizeof type;
    if (fstat(fd, &st) < 0 || flags < 0)
        return 0;
    if (S_ISFIFO(st.st_mode)) {
        if ((flags & O_ACCMODE) == O_RDONLY)
            return K_TO;
        return K_FROM;
    }
    if (S_ISREG(st.st_mode) && st.st_size <= BLOB)
        return K_FILE;
    if (!S_ISSOCK(st.st_mode) || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0)
        return 0;
    if (type == SOCK_SEQPACKET)
        return K_PACKETS;
    if (type == SOCK_STREAM)
        return K_READ;
    return 0;
}

/* Near: opens a channel for it. fd is taken. 0: it cannot be carried. */
static uint32_t open_for(cay__tunnel *t, int fd)
{
    kind k = kind_of(fd);
    uint32_t word = k, id = t->next + 1;
    if (!k || (k != K_FILE && !add_channel(t, id, k, fd, -1))) {
        close(fd);
        return 0;
    }
    t->next = id;
    send_frame(t, id, F_OPEN, &word, sizeof word);
    if (k != K_FILE)
        return id;
    ssize_t n;
    for (off_t at = 0; at < BLOB && (n = pread(fd, t->room, PIECE, at)) > 0; at += n)
        send_frame(t, id, F_DATA, t->room, (size_t)n);
    close(fd);
    return id;
}

/* Far: makes both ends of what the near side named. */
static bool make_for(cay__tunnel *t, uint32_t id, uint32_t k)
{
    int p[2] = { -1, -1 };
    if (t->near || find_channel(t, id) || !id)
        return false;
    if (k == K_FILE) {
        p[0] = memfd_create("cay-blob", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return p[0] >= 0 && add_channel(t, id, K_FILE, -1, p[0]);
    }
    int rc;
    if (k == K_TO || k == K_FROM)
        rc = pipe2(p, O_CLOEXEC);
    else if (k == K_PACKETS)
        rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p);
    else if (k == K_READ)
        rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p);
    else
        rc = -1;
    if (rc < 0)
        return false;
    if (k == K_READ && send(p[0], "", 1, MSG_NOSIGNAL) != 1)
        return false;
    bool ours_is_second = k == K_TO; /* of a pipe the second end is written to */
    if (add_channel(t, id, (kind)k, p[ours_is_second], p[!ours_is_second]))
        return true;
    close(p[0]);
    close(p[1]);
    return false;
}

/* from our descriptors to the
 * stream */

static void read_packet(cay__tunnel *t, chan *c)
{
    int fds[CARRY], nfds = CARRY;
    uint32_t head[1 + CARRY] = { 0 };
    ssize_t n = cay__fd_recv(c->fd, t->room, sizeof t->room, fds, &nfds, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(t, c);
        return;
    }
    uint32_t id = c->id;
    c->credit -= n;
    char *copy = malloc((size_t)n); /* open_for() uses the room */
    if (!copy)
        abort();
    memcpy(copy, t->room, (size_t)n);
    CAY_EACH_OF(it, fds, nfds) {
        uint32_t other = 0;
        if (t->near)
            other = open_for(t, *it);
        if (!t->near)
            close(*it); /* none is carried this way; who expects one says so */
        if (other)
            head[1 + head[0]++] = other;
    }
    size_t heads = (1 + head[0]) * sizeof *head;
    frame f = { (uint32_t)(heads + (size_t)n), id, F_PACKET };
    append_bytes(&t->tx, &f, sizeof f);
    append_bytes(&t->tx, head, heads);
    append_bytes(&t->tx, copy, (size_t)n);
    free(copy);
}

static void read_bytes(cay__tunnel *t, chan *c)
{
    ssize_t n = read(c->fd, t->room, (size_t)CAY_MIN(c->credit, (int64_t)PIECE));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        c->credit -= n;
        send_frame(t, c->id, F_DATA, t->room, (size_t)n);
        return;
    }
    /* A socket that was hung up before a pipe ended has to be seen first: of an upload that is the
     * difference between nothing and a file. */
    uint32_t id = c->id;
    bool cut = n < 0;
    CAY_EACH_OF(it, t->c, CHANS)
        if (it->live && it->kind == K_PACKETS && it->rd && it->credit > 0)
            read_packet(t, it);
    send_frame(t, id, cut ? F_RESET : F_EOF, NULL, 0);
    c->rd = false;
    settle_channel(t, c);
}

/* from the stream to our
 * descriptors */

static void send_ack(cay__tunnel *t, chan *c)
{
    if (!c->taken || (c->taken < PIECE && count_left(&c->q)))
        return;
    send_frame(t, c->id, F_ACK, &c->taken, sizeof c->taken);
    c->taken = 0;
}

/* 0: it took none now; -1: it takes no more. */
static ssize_t write_some(chan *c)
{
    record r;
    const char *at = c->q.data + c->q.at;
    ssize_t n;
    if (c->kind != K_PACKETS) {
        n = write(c->fd, at, count_left(&c->q));
    } else {
        memcpy(&r, at, sizeof r);
        n = cay__fd_send(c->fd, at + sizeof r, r.len, r.fds, (int)r.nfds, MSG_DONTWAIT);
    }
    if (n < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
            return 0;
        return -1;
    }
    for (uint32_t i = 0; c->kind == K_PACKETS && i < r.nfds; i++)
        close(r.fds[i]);
    if (c->kind == K_PACKETS)
        c->q.at += sizeof r + r.len;
    else
        c->q.at += (size_t)n;
    c->taken += (uint32_t)n;
    return n;
}

static void flush_channel(cay__tunnel *t, chan *c)
{
    while (count_left(&c->q)) {
        ssize_t n = write_some(c);
        if (n < 0) {
            hang_up(t, c);
            return;
        }
        if (!n)
            break;
    }
    send_ack(t, c);
    settle_channel(t, c);
}

static bool on_packet(cay__tunnel *t, chan *c, const char *p, size_t n)
{
    record r = { 0 };
    uint32_t nfds, ids[CARRY];
    if (c->kind != K_PACKETS || n < sizeof nfds)
        return false;
    memcpy(&nfds, p, sizeof nfds);
    size_t heads = (1 + (size_t)nfds) * sizeof nfds;
    if (nfds > CARRY || (nfds && t->near) || n < heads || n - heads > PACKET ||
        count_left(&c->q) > 16 * WINDOW)
        return false;
    if (nfds)
        memcpy(ids, p + sizeof nfds, nfds * sizeof *ids);
    p += heads;
    n -= heads;
    CAY_EACH_OF(it, ids, nfds) {
        chan *o = find_channel(t, *it);
        if (!o || o->give < 0)
            continue; /* it could not be made: who waits for it says so */
        r.fds[r.nfds++] = CAY_STEAL_FD(o->give);
        if (o->kind == K_FILE)
            close_channel(o);
    }
    if (!n) /* an empty packet would look like an end */
        return false;
    r.len = (uint32_t)n;
    append_bytes(&c->q, &r, sizeof r);
    append_bytes(&c->q, p, n);
    return true;
}

static bool on_data(chan *c, const char *p, size_t n)
{
    struct stat st;
    if (c->kind == K_FILE)
        return fstat(c->give, &st) == 0 && (uint64_t)st.st_size + n <= BLOB &&
               cay__fd_write_all(c->give, p, n);
    if (c->kind == K_PACKETS || !c->wr || c->eof || count_left(&c->q) + n > WINDOW)
        return false;
    append_bytes(&c->q, p, n);
    return true;
}

static bool on_frame(cay__tunnel *t, const frame *f, const char *p)
{
    uint32_t word = 0;
    chan *c = find_channel(t, f->chan);
    if (f->len >= sizeof word)
        memcpy(&word, p, sizeof word);
    if (f->type == F_OPEN)
        return f->len == sizeof word && make_for(t, f->chan, word);
    if (!c)
        return true; /* it went while this was on its way */
    bool ok = true;
    switch (f->type) {
    case F_PACKET: ok = on_packet(t, c, p, f->len); break;
    case F_DATA: ok = on_data(c, p, f->len); break;
    case F_ACK:
        ok = f->len == sizeof word && c->credit + word <= WINDOW;
        if (ok)
            c->credit += word;
        return ok;
    case F_RESET: c->reset = true; /* fall through */
    case F_EOF: c->eof = true; break;
    case F_CLOSE:
        c->eof = c->reset = true;
        c->rd = false;
        break;
    }
    if (!ok)
        return false;
    if (c->fd >= 0)
        flush_channel(t, c);
    else if (c->eof)
        close_channel(c);
    return true;
}

bool cay__tunnel_feed(cay__tunnel *t, const char *data, size_t n)
{
    append_bytes(&t->rx, data, n);
    for (frame f; count_left(&t->rx) >= sizeof f;) {
        memcpy(&f, t->rx.data + t->rx.at, sizeof f);
        if (f.len > FRAME || !f.type || f.type > F_LAST)
            return false;
        if (count_left(&t->rx) < sizeof f + f.len)
            break;
        const char *p = t->rx.data + t->rx.at + sizeof f;
        t->rx.at += sizeof f + f.len;
        if (!on_frame(t, &f, p) ||
            count_left(&t->tx) > TX_MAX) /* it sends and sends, and takes no answer */
            return false;
    }
    return true;
}

static bool take_stream(cay__tunnel *t, bool (*take)(void *, cay__tunnel *, const char *, size_t),
                        void *arg)
{
    char buf[PIECE];
    ssize_t n = read(t->in, buf, sizeof buf);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    return n > 0 && (take ? take(arg, t, buf, (size_t)n) : cay__tunnel_feed(t, buf, (size_t)n));
}

static bool give_stream(cay__tunnel *t)
{
    while (count_left(&t->tx)) {
        ssize_t n = write(t->out, t->tx.data + t->tx.at, count_left(&t->tx));
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        t->tx.at += (size_t)n;
    }
    return true;
}

static nfds_t collect_pollfds(cay__tunnel *t, struct pollfd *p, chan **who)
{
    nfds_t n = 2;
    p[0] = (struct pollfd){ .fd = t->in, .events = POLLIN };
    p[1] = (struct pollfd){ .fd = count_left(&t->tx) ? t->out : -1, .events = POLLOUT };
    CAY_EACH_OF(c, t->c, CHANS) {
        bool may =
            c->rd && c->credit > 0 && count_left(&t->tx)<TX_MOST, waits = count_left(&c->q)> 0;
        if (!c->live || c->fd < 0 ||
            (c->rd && !may &&
             !waits)) /* one that hung up and cannot be read now would wake us for ever */
            continue;
        who[n] = c;
        p[n++] = (struct pollfd){ .fd = c->fd, .events = may * POLLIN | waits * POLLOUT };
    }
    return n;
}

static void serve_channel(cay__tunnel *t, chan *c, short events)
{
    if (events & (POLLOUT | POLLERR | POLLHUP) && count_left(&c->q))
        flush_channel(t, c);
    if (!c->live || !events)
        return;
    if (c->rd && c->credit > 0 && events & (POLLIN | POLLHUP | POLLERR))
        c->kind == K_PACKETS ? read_packet(t, c) : read_bytes(t, c);
    else if (!c->rd && events & (POLLERR | POLLHUP)) /* nobody reads what we write */
        hang_up(t, c);
}

void cay__tunnel_run(cay__tunnel *t,
                     bool (*take)(void *arg, cay__tunnel *t, const char *data, size_t n), void *arg)
{
    for (int64_t until = 0;;) { /* until: whose last words nobody takes is not waited for */
        struct pollfd p[CHANS + 2];
        chan *who[CHANS + 2];
        nfds_t n = collect_pollfds(t, p, who);
        bool live = false;
        CAY_EACH_OF(it, t->c, CHANS)
            live |= it->live;
        if (live)
            until = 0;
        else if (!until)
            until = cay__now_ms() + LEAVE_MS;
        if ((!live && !count_left(&t->tx)) || (until && cay__now_ms() >= until) ||
            (poll(p, n, until ? 1000 : -1) < 0 && errno != EINTR))
            break;
        if (p[0].revents && !take_stream(t, take, arg))
            break;
        for (nfds_t i = 2; i < n; i++)
            if (who[i]->live && who[i]->fd == p[i].fd)
                serve_channel(t, who[i], p[i].revents);
        if (!give_stream(t))
            break;
    }
    cay__tunnel_free(t);
}

cay__tunnel *cay__tunnel_new(int in, int out, int root, bool packets, bool near)
{
    cay__tunnel *t = cay__alloc(sizeof *t);
    t->in = in;
    t->out = out;
    t->near = near;
    CAY_EACH_OF(it, t->c, CHANS)
        it->fd = it->give = -1;
    cay__fd_nonblock(in, true);
    cay__fd_nonblock(out, true);
    add_channel(t, 0, packets ? K_PACKETS : K_BYTES, root, -1);
    return t;
}

void cay__tunnel_free(cay__tunnel *t)
{
    CAY_EACH_OF(it, t->c, CHANS)
        if (it->live) {
            it->reset = true;
            close_channel(it);
        }
    if (t->out != t->in)
        cay__close_fd(&t->out);
    cay__close_fd(&t->in);
    free(t->rx.data);
    free(t->tx.data);
    free(t);
}
