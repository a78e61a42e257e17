/* SPDX-License-Identifier: Apache-2.0 */
/* A create with a manifest: the request has a thread, and this one hears meanwhile from the
 * server's events how far it is. */
#include "remote.h"
#include <cay/manifest.h>
#include <net/sse.h>
#include <sys/eventfd.h>

enum { EVENT_MAX = 1 << 20 };

typedef struct asking {
    const cay__remote *remote;
    const cay_call *call;
    const cay__request *q;
    cay_info *out;
    cay__arena *mem;
    cay_err *err;
    int rc, done; /* done: readable when rc is there */
} asking;

static void *send_request(void *arg)
{
    asking *a = arg;
    a->rc = cay__remote_get(a->remote, a->call, a->q, a->mem, a->out, a->err);
    eventfd_write(a->done, 1);
    return NULL;
}

typedef struct hearing {
    const cay_create *c;
    const char *key;
} hearing;

static uint64_t get_count(const json_t *o, const char *name)
{
    return (uint64_t)CAY_MAX(cay__json_int(o, name, 0), 0);
}

static int on_event(const char *name, const char *data, size_t len, void *arg, cay_err *err)
{
    const hearing *h = arg;
    CAY_AUTOJSON *o = NULL;
    if (strcmp(name, "progress") || cay__json_object("event", data, &o, NULL) < 0 ||
        strcmp(cay__json_str(o, "key", ""), h->key))
        return 0;
    cay_manifest_progress p = { .size = sizeof p,
                                .entries = get_count(o, "entries"),
                                .entries_total = get_count(o, "entries_total"),
                                .bytes = get_count(o, "bytes"),
                                .bytes_total = get_count(o, "bytes_total") };
    h->c->manifest.progress(&p, h->c->manifest.progress_arg);
    return 0;
}

/* Until the request has its answer; whatever ends the stream before is no harm. */
static void read_events(cay__answer *from, const hearing *h, int done)
{
    cay__sse s = CAY__SSE(EVENT_MAX, on_event, (void *)h);
    cay_call until = { .size = sizeof until, .cancel_fd = done };
    char buf[8192];
    size_t n = 1;
    while (n && cay__answer_bytes(from, &until, buf, sizeof buf, &n, NULL) == 0)
        if (cay__sse_feed(&s, buf, n, NULL) < 0)
            break;
    cay__sse_end(&s);
}

int cay__remote_create_watched(const cay__remote *r, const cay_call *call, const cay_create *c,
                               const cay__request *q, cay_info *out, cay__arena *mem, cay_err *err)
{
    static const char *const kinds[] = { "progress", NULL };
    cay__events_query only = { .kinds = kinds };
    cay__answer *events = NULL;
    pthread_t thread;
    CAY_AUTOFD done = -1;
    if (c->manifest.text && c->manifest.progress)
        done = eventfd(0, EFD_CLOEXEC);
    asking a = { r, call, q, out, mem, err, 0, done };
    /* Before the request, so that nothing of it is missed. */
    if (done < 0 ||
        cay__remote_stream(r, call, &CAY__REQUEST(event_stream, .query = &only), &events, NULL) < 0)
        return cay__remote_get(r, call, q, mem, out, err);
    if (pthread_create(&thread, NULL, send_request, &a) == 0) {
        read_events(events, &(hearing){ c, q->key }, done);
        pthread_join(thread, NULL);
    } else {
        send_request(&a);
    }
    cay__answer_end(events);
    return a.rc;
}
