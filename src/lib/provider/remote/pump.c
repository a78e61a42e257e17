/* SPDX-License-Identifier: Apache-2.0 */
/* Anything that streams is a descriptor: a thread moves the body of an answer into a socket until
 * one of the two ends. */
#include "remote.h"
#include <net/sse.h>
#include <poll.h>
#include <sys/socket.h>

enum { PIECE = 65536, TRIES = 20, EVENT_MAX = 1 << 20 };

/* What is here; CAY_ETIMEOUT when that is nothing: what came may be a frame alone. */
static int get_some(cay__answer *a, char *buf, size_t cap, size_t *n)
{
    return cay__answer_bytes(a, &(cay_call){ .size = sizeof(cay_call), .deadline_ms = 1 }, buf, cap,
                             n, NULL);
}

int cay__remote_fill(cay__answer *a, const cay_call *call, void *buf, size_t cap, size_t *n,
                     cay_err *err)
{
    size_t k = 1;
    for (*n = 0; k && *n < cap; *n += k)
        CAY_TRY(cay__answer_bytes(a, call, (char *)buf + *n, cap - *n, &k, err));
    return 0;
}

/* False: whoever reads is gone. */
static bool wait_for(const cay__answer *a, int local)
{
    while (!cay__answer_has(a)) {
        struct pollfd p[2] = { { .fd = cay__answer_fd(a), .events = POLLIN }, { .fd = local } };
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return false;
        if (p[1].revents)
            return false;
        if (p[0].revents)
            return true;
    }
    return true;
}

static bool send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno != EINTR)
            return false;
        if (k > 0)
            p += k;
        if (k > 0)
            n -= (size_t)k;
    }
    return true;
}

typedef struct pumping {
    cay__http_client *client; /* held: it is asked again */
    cay__answer *a;
    int local;
    cay__remote_again *again;
    void *arg;
    uint64_t offset; /* so many bytes came */
    char buf[PIECE];
} pumping;

/* The server was restarted, or the net had a pause: what was asked for may still be had from where
 * we are. */
static bool resume_stream(pumping *s)
{
    cay__answer_end(CAY_STEAL(s->a));
    for (int i = 0; s->again && i < TRIES; i++) {
        struct pollfd p = { .fd = s->local };
        int rc = s->again(s->arg, s->offset, &s->a);
        if (rc == 0)
            return true;
        if ((rc != CAY_EUPSTREAM && rc != CAY_EBUSY) || poll(&p, 1, 100 * (i + 1)) != 0)
            break;
    }
    return false;
}

static void *pump_stream(void *arg)
{
    pumping *s = arg;
    size_t n;
    while (wait_for(s->a, s->local)) {
        int rc = get_some(s->a, s->buf, sizeof s->buf, &n);
        if (rc == CAY_ETIMEOUT || (rc < 0 && resume_stream(s)))
            continue;
        if (rc < 0)
            break;
        if (!n || !send_all(s->local, s->buf, n))
            break;
        s->offset += n;
    }
    cay__answer_end(s->a);
    cay__close_fd(&s->local);
    cay__http_client_unref(s->client);
    free(s->arg);
    free(s);
    return NULL;
}

int cay__remote_pump(const cay__remote *r, cay__answer *a, cay__remote_again *again, void *arg,
                     int *fd, cay_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        cay__answer_end(a);
        free(arg);
        return cay_fail_sys(err, "socketpair");
    }
    pumping *s = cay__alloc(sizeof *s);
    *s = (pumping){ .client = cay__http_client_ref(r->client),
                    .a = a,
                    .local = pair[1],
                    .again = again,
                    .arg = arg };
    int rc = cay__provider_thread(pump_stream, s, err);
    if (rc < 0) {
        cay__answer_end(a);
        close(pair[0]);
        close(pair[1]);
        cay__http_client_unref(r->client);
        free(arg);
        free(s);
        return rc;
    }
    shutdown(pair[0], SHUT_WR);
    *fd = pair[0];
    return 0;
}

/* What whoever listens has not taken yet waits here, up to a bound; beyond it events are dropped,
 * and that is told. */
enum { QUEUE = 8192 };

typedef struct packet {
    struct packet *next;
    size_t len;
    char data[];
} packet;

typedef struct listener {
    cay__answer *a;
    int local;
    cay__sse sse;
    const char *ready;
    cay__remote_packet *fn;
    void *arg;
    packet *first, **last;
    size_t n;
    unsigned dropped;
    char room[16384];
} listener;

static void listener_free(listener *l)
{
    for (packet *p = l->first, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    cay__answer_end(l->a);
    cay__close_fd(&l->local);
    cay__sse_end(&l->sse);
    free(l->arg);
    free(l);
}

static void queue_packet(listener *l, size_t len)
{
    if (!len)
        return;
    packet *p = malloc(sizeof *p + len);
    if (!p)
        abort();
    *p = (packet){ .len = len };
    memcpy(p->data, l->room, len);
    *l->last = p;
    l->last = &p->next;
    l->n++;
}

static int on_event(const char *name, const char *data, size_t len, void *arg, cay_err *err)
{
    listener *l = arg;
    CAY_AUTOJSON *o = NULL;
    if (l->ready && !strcmp(name, l->ready)) {
        l->ready = NULL;
    } else if (cay__json_object("event", data, &o, NULL) == 0) {
        if (l->n < QUEUE)
            queue_packet(l, l->fn(l->arg, name, o, 0, l->room, sizeof l->room));
        else
            l->dropped++;
    }
    return 0;
}

/* What fits. False: nobody listens any more. */
static bool pass_on(listener *l)
{
    while (l->first) {
        packet *p = l->first;
        if (send(l->local, p->data, p->len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return errno == EAGAIN || errno == EINTR;
        if (!(l->first = p->next))
            l->last = &l->first;
        l->n--;
        free(p);
    }
    if (l->dropped) {
        queue_packet(l, l->fn(l->arg, NULL, NULL, l->dropped, l->room, sizeof l->room));
        l->dropped = 0;
        return pass_on(l);
    }
    return true;
}

static bool listen_once(listener *l)
{
    char buf[4096];
    size_t n;
    int rc = get_some(l->a, buf, sizeof buf, &n);
    return rc == CAY_ETIMEOUT || (rc == 0 && n && cay__sse_feed(&l->sse, buf, n, NULL) == 0);
}

/* Until it says that it is ready. */
static int wait_ready(listener *l, const cay_call *call, cay_err *err)
{
    char buf[4096];
    for (size_t n; l->ready;) {
        CAY_TRY(cay__answer_bytes(l->a, call, buf, sizeof buf, &n, err));
        if (!n)
            return cay_fail_why(err, CAY_EUPSTREAM, "net_cut",
                                "the server ended a stream of events at its beginning");
        CAY_TRY(cay__sse_feed(&l->sse, buf, n, err));
    }
    return 0;
}

static void *listen_on(void *arg)
{
    listener *l = arg;
    bool over = false;
    while (pass_on(l) && !(over && !l->first)) {
        struct pollfd p[2] = { { .fd = over ? -1 : cay__answer_fd(l->a), .events = POLLIN },
                               { .fd = l->local, .events = l->first ? POLLOUT : 0 } };
        bool here = !over && cay__answer_has(l->a);
        if (poll(p, 2, here ? 0 : -1) < 0 && errno != EINTR)
            break;
        if (p[1].revents & (POLLHUP | POLLERR))
            break;
        if (here || p[0].revents)
            over = !listen_once(l);
    }
    listener_free(l);
    return NULL;
}

int cay__remote_packets(cay__answer *a, const cay_call *call, const char *ready,
                        cay__remote_packet *fn, void *arg, int *fd, cay_err *err)
{
    int pair[2] = { -1, -1 }, rc = 0;
    listener *l = cay__alloc(sizeof *l);
    *l = (listener){ .a = a,
                     .local = -1,
                     .sse = CAY__SSE(EVENT_MAX, on_event, l),
                     .ready = ready,
                     .fn = fn,
                     .arg = arg,
                     .last = &l->first };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        rc = cay_fail_sys(err, "socketpair");
    l->local = pair[1];
    if (rc == 0)
        rc = wait_ready(l, call, err);
    if (rc == 0)
        rc = cay__provider_thread(listen_on, l, err);
    if (rc < 0) {
        cay__close_fd(&pair[0]);
        listener_free(l);
        return rc;
    }
    *fd = pair[0];
    return 0;
}
