/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of all boxes of a provider as one stream. There is no central process, so a thread listens
 * to every cay-local (or pid 1 of a container) there is, learns of new ones by inotify(7) on a
 * directory where each has a name, and of removed boxes by inotify on theirs. It ends when the
 * reader closes the other end.
 */
#include "local.h"
#include <dirent.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>

enum { BOXES_MAX = 4096, TRY_MS = 20, TRIES = 100 };

typedef struct source {
    char id[CAY_ID_LEN + 1];
    int sock;   /* -1: not connected */
    int tries;  /* left; it may be between bind and listen */
    bool known; /* it was heard of: its removal is told */
    bool fresh; /* came after us: what happened so far is told too */
} source;

typedef struct listener {
    cay__events_from from;
    char run[4200];
    char only[CAY_ID_LEN + 1];
    int out, notify, wd_run, wd_boxes;
    source *at;
    size_t n;
    uint64_t seq;
    int lost; /* that the reader could not take */
} listener;

static void send_event(listener *t, cay_event_wire *e)
{
    if (t->only[0] && strcmp(t->only, e->sandbox) != 0)
        return;
    if (t->lost) {
        cay_event_wire l = { .time_ms = cay__clock_ms(),
                             .seq = ++t->seq,
                             .code = t->lost,
                             .kind = "lost",
                             .reason = "slow" };
        if (cay__fd_send(t->out, &l, sizeof l, NULL, 0, MSG_DONTWAIT) > 0)
            t->lost = 0;
    }
    e->seq = ++t->seq;
    if (t->lost || cay__fd_send(t->out, e, sizeof *e, NULL, 0, MSG_DONTWAIT) < 0)
        t->lost++;
}

static source *find_source(listener *t, const char *id)
{
    CAY_EACH_OF(it, t->at, t->n)
        if (strcmp(it->id, id) == 0)
            return it;
    if (t->n == BOXES_MAX)
        return NULL;
    source *s = &t->at[t->n++];
    *s = (source){ .sock = -1 };
    CAY_COPY(s->id, id);
    return s;
}

static void add_source(listener *t, const char *id, bool fresh)
{
    source *s = NULL;
    if (cay__id_valid(id, 'c'))
        s = find_source(t, id);
    if (!s)
        return;
    s->tries = TRIES;
    s->fresh = fresh;
}

/* Subscribes; the answer and the events come as packets of different length. */
static void connect_source(listener *t, source *s)
{
    cay_msg head = { CAY_MSG_MAGIC, CAY_MSG_VERSION, CAY_MSG_EVENTS, 0, 0 };
    cay_m_box m = { .a = s->fresh };
    char packet[sizeof head + sizeof m];
    s->tries--;
    CAY_COPY(m.id, s->id);
    if (t->from.reach(t->from.arg, s->id, &s->sock) < 0)
        return;
    memcpy(packet, &head, sizeof head);
    memcpy(packet + sizeof head, &m, sizeof m);
    if (cay__fd_send(s->sock, packet, sizeof packet, NULL, 0, 0) < 0)
        cay__close_fd(&s->sock);
    s->tries = 0;
    s->known = true;
}

/* false: nothing more now. */
static bool read_source(listener *t, source *s)
{
    cay_event_wire e;
    ssize_t n = recv(s->sock, &e, sizeof e, MSG_DONTWAIT);
    if (n == sizeof e) { /* who sends it may be a tenant's neighbour: it speaks of itself, and in
                            strings */
        CAY_COPY(e.sandbox, s->id);
        e.process[sizeof e.process - 1] = e.kind[sizeof e.kind - 1] =
            e.reason[sizeof e.reason - 1] = 0;
        send_event(t, &e);
    } else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        cay__close_fd(&s->sock);
    return n > 0;
}

static void remove_source(listener *t, const char *id)
{
    for (size_t i = 0; i < t->n; i++) {
        source *s = &t->at[i];
        if (strcmp(s->id, id) != 0)
            continue;
        cay_event_wire e = { .time_ms = cay__clock_ms(), .kind = "removed" };
        CAY_COPY(e.sandbox, id);
        while (s->sock >= 0 && read_source(t, s)) /* what it said before comes first */
            continue;
        cay__close_fd(&s->sock);
        if (s->known)
            send_event(t, &e);
        *s = t->at[--t->n];
        return;
    }
}

static void read_inotify(listener *t)
{
    char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(t->notify, buf, sizeof buf);
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *e = (const void *)(buf + at);
        at += (ssize_t)(sizeof *e + e->len);
        if (e->len && e->wd == t->wd_run)
            add_source(t, e->name, true);
        else if (e->len && e->wd == t->wd_boxes)
            remove_source(t, e->name);
    }
}

static void listener_free(listener *t)
{
    CAY_EACH_OF(it, t->at, t->n)
        cay__close_fd(&it->sock);
    close(t->out);
    close(t->notify);
    t->from.done(t->from.arg);
    free(t->at);
    free(t);
}

static void *listener_main(void *arg)
{
    listener *t = arg;
    struct pollfd *p = cay__alloc((BOXES_MAX + 2) * sizeof *p);
    for (;;) {
        bool trying = false;
        for (size_t i = 0; i < t->n; i++)
            if (t->at[i].sock < 0 && t->at[i].tries > 0) {
                connect_source(t, &t->at[i]);
                trying |= t->at[i].sock < 0 && t->at[i].tries > 0;
            }
        p[0] = (struct pollfd){ .fd = t->out, .events = POLLIN };
        p[1] = (struct pollfd){ .fd = t->notify, .events = POLLIN };
        size_t n = t->n;
        for (size_t i = 0; i < n; i++)
            p[i + 2] = (struct pollfd){ .fd = t->at[i].sock, .events = POLLIN };
        if (poll(p, n + 2, trying ? TRY_MS : -1) < 0 && errno != EINTR)
            break;
        if (p[0].revents)
            break; /* the reader has nothing to say: it left */
        for (size_t i = 0; i < n; i++)
            if (p[i + 2].revents && t->at[i].sock == p[i + 2].fd)
                read_source(t, &t->at[i]);
        if (p[1].revents)
            read_inotify(t);
    }
    listener_free(t);
    free(p);
    return NULL;
}

static void scan_boxes(listener *t)
{
    CAY_AUTODIR *d = opendir(t->run);
    for (struct dirent *e; d && (e = readdir(d));)
        add_source(t, e->d_name, false);
    for (size_t i = 0; i < t->n; i++)
        connect_source(t, &t->at[i]); /* now, so that nothing after the call is missed */
}

int cay__events_listen(const cay__events_from *from, const char *id, int *fd, cay_err *err)
{
    char boxes[64];
    int sv[2];
    CAY_AUTOFD notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (notify < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0) {
        from->done(from->arg);
        return cay_fail_sys(err, "watch events");
    }
    listener *t = cay__alloc(sizeof *t);
    t->from = *from;
    CAY_COPY(t->run, from->run);
    CAY_COPY(t->only, CAY_OR(id, ""));
    CAY_FORMAT(boxes, "/proc/self/fd/%d", from->boxes);
    t->at = cay__alloc(BOXES_MAX * sizeof *t->at);
    t->wd_run = inotify_add_watch(notify, from->run, IN_CREATE);
    t->wd_boxes = inotify_add_watch(notify, boxes, IN_MOVED_FROM | IN_DELETE);
    t->notify = CAY_STEAL_FD(notify);
    t->out = sv[1];
    scan_boxes(t);
    int rc = cay__provider_thread(listener_main, t, err);
    if (rc < 0) {
        close(sv[0]);
        listener_free(t);
        return rc;
    }
    *fd = sv[0];
    return 0;
}

/* Only what a dial needs. */
static int reach_box(void *arg, const char *id, int *sock)
{
    local_box b = { .l = arg };
    CAY_COPY(b.base.id, id);
    return cay__local_reach(&b, sock, NULL);
}

int cay__local_events(void *self, const char *id, int *fd, cay_err *err)
{
    local *l = self,
          *own = cay__alloc(sizeof *own); /* the thread may live longer than this provider */
    memcpy(own->run, l->run, sizeof own->run);
    return cay__events_listen(&(cay__events_from){ l->run, l->boxes, reach_box, free, own }, id, fd,
                              err);
}
