/* SPDX-License-Identifier: Apache-2.0 */
/* For lists: what the keeper says of many sandboxes at once, and whether it would still say the
 * same. */
#include "native.h"
#include <base/base.h>
#include <cay/sys/provider.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* What every box of this keeper says of its layers, made once. Until then it is looked for under
 * the lock. */
typedef struct cay__news {
    pthread_mutex_t lock;
    int sock; /* a stream of events that only says that something happened; -1: none */
    uint64_t count;
    cay_wall layers[2][CAY__WALLS_MAX]; /* plain; with a disk image */
    size_t nlayers;
} cay__news;

static cay__news *news_of(cay__native *n)
{
    CAY_LOCK(&n->lock);
    if (!n->news) {
        n->news = cay__alloc(sizeof *n->news);
        n->news->sock = -1;
        pthread_mutex_init(&n->news->lock, NULL);
        n->news->nlayers = cay__native_box_walls(&n->hello, 0, n->news->layers[0], CAY__WALLS_MAX);
        cay__native_box_walls(&n->hello, CAY_CREATE_DISK, n->news->layers[1], CAY__WALLS_MAX);
    }
    return n->news;
}

void cay__native_look_end(cay__native *n)
{
    if (!n->news)
        return;
    cay__close_fd(&n->news->sock);
    pthread_mutex_destroy(&n->news->lock);
    free(n->news);
}

typedef struct looking {
    const cay__native *n;
    const cay__news *news;
    int (*fn)(size_t i, const cay_box_status *st, void *arg);
    void *arg;
} looking;

static int report_box(const looking *l, size_t i, const char *id, cay__reply *r)
{
    r->box.id[sizeof r->box.id - 1] = r->box.reason[sizeof r->box.reason - 1] = 0;
    if (strcmp(r->box.id, id) != 0 || r->box.state == CAY_STOPPED)
        return 0;
    cay_box_status st = cay__native_status(l->n, &r->box);
    st.walls = l->news->layers[(r->box.flags & CAY_CREATE_DISK) != 0];
    st.nwalls = l->news->nlayers;
    return l->fn(i, &st, l->arg);
}

/* The rest of one answer, of which the first packet is in *r. */
static int read_reply(int sock, const cay_call *call, const looking *l, size_t i, const char *id,
                      cay__reply *r, cay_err *err)
{
    while (r->type == CAY_MSG_BOX) {
        CAY_TRY(report_box(l, i, id, r));
        CAY_TRY(cay__link_next(sock, call, CAY_MSG_BOX, r, err));
    }
    return 0;
}

/* All questions go out before the first answer is read: the keeper is woken once and not once for
 * each. */
static int ask_rest(int sock, const char *const *ids, size_t from, size_t n, cay_err *err)
{
    for (size_t i = from; i < n; i++) {
        cay_msg head = { CAY_MSG_MAGIC, CAY_MSG_VERSION, CAY_MSG_LIST, 0, 0 };
        cay_m_box m = { 0 };
        struct iovec io[2] = { { &head, sizeof head }, { &m, sizeof m } };
        if (!ids[i])
            continue;
        CAY_COPY(m.id, ids[i]);
        CAY_TRY_SYS(cay__fd_sendv(sock, io, 2, NULL, 0, MSG_DONTWAIT), err,
                    "ask the keeper for %zu sandboxes", n);
    }
    return 0;
}

int cay__native_look(void *self, const cay_call *call, const char *const *ids, size_t n,
                     int (*fn)(size_t i, const cay_box_status *st, void *arg), void *arg,
                     cay_err *err)
{
    cay__native *me = self;
    cay__reply r = { 0 };
    CAY_AUTOFD sock = -1;
    size_t i = 0;
    while (i < n && !ids[i])
        i++;
    if (i == n)
        return 0;
    CAY_TRY(cay__native_meet(me, call, err));
    const looking l = { me, news_of(me), fn, arg };
    cay_m_box m = cay__link_of(ids[i]);
    /* the first also finds a keeper that answers */
    CAY_TRY(cay__link_begin(&me->link, call, CAY__LINK_ASK(CAY_MSG_LIST, m), &r, &sock, err));
    CAY_TRY(ask_rest(sock, ids, i + 1, n, err));
    CAY_TRY(read_reply(sock, call, &l, i, ids[i], &r, err));
    while (++i < n) {
        if (!ids[i])
            continue;
        CAY_TRY(cay__link_next(sock, call, CAY_MSG_BOX, &r, err));
        CAY_TRY(read_reply(sock, call, &l, i, ids[i], &r, err));
    }
    cay__link_give(&me->link, CAY_STEAL_FD(sock));
    return 0;
}

/* The keeper sends an event before it answers whoever caused it, so what was acknowledged waits in
 * the socket already. One whose socket was full is missed, but what filled it counts. A keeper that
 * ended says so too: what the next one knows is news. */
static int drain_events(cay__native *n, cay__news *s, cay_err *err)
{
    cay_event_wire e;
    ssize_t got = 0;
    while (s->sock >= 0 && ((got = recv(s->sock, &e, sizeof e, MSG_DONTWAIT | MSG_TRUNC)) > 0 ||
                            (got < 0 && errno == EINTR)))
        s->count += got > 0;
    if (s->sock >= 0 && got < 0 && errno == EAGAIN)
        return 0;
    cay_m_box m = { .a = 1 };
    cay__reply r = { 0 };
    cay__close_fd(&s->sock);
    s->count++;
    return cay__link_begin(&n->link, NULL, CAY__LINK_ASK(CAY_MSG_EVENTS, m), &r, &s->sock, err);
}

int cay__native_version(void *self, uint64_t *out, cay_err *err)
{
    cay__native *n = self;
    CAY_TRY(cay__native_meet(n, NULL, err));
    cay__news *s = news_of(n);
    CAY_LOCK(&s->lock);
    int rc = drain_events(n, s, err);
    *out = s->count;
    return rc;
}
