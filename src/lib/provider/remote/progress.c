/* SPDX-License-Identifier: Apache-2.0 */
/* A create with a manifest: the request has a thread, and this one hears meanwhile from the
 * server's events how far it is. */
#include "remote_box.h"
#include <base/base.h>
#include <base/buf.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/manifest.h>
#include <net/sse.h>
#include <pthread.h>
#include <sys/eventfd.h>

enum { EVENT_MAX = 1 << 20 };

typedef struct asking {
    cay__far *far;
    const cay_call *call;
    const cay__buf *target;
    const char *fields;
    json_t *body;
    json_t **out;
    cay_err *err;
    int rc, done; /* done: readable when rc is there */
} asking;

static void *send_request(void *arg)
{
    asking *a = arg;
    a->rc =
        cay__far_json_with(a->far, a->call, "POST", a->target, a->fields, a->body, a->out, a->err);
    eventfd_write(a->done, 1);
    return NULL;
}

typedef struct hearing {
    const cay_create *c;
    const char *key;
} hearing;

static int on_event(const char *name, const char *data, size_t len, void *arg, cay_err *err)
{
    const hearing *h = arg;
    CAY_AUTOJSON *o = NULL;
    (void)len, (void)err;
    if (strcmp(name, "progress") || cay__json_object("event", data, &o, NULL) < 0 ||
        strcmp(cay__json_str(o, "key", ""), h->key))
        return 0;
    cay_manifest_progress p = { .size = sizeof p,
                                .entries = (uint64_t)CAY_MAX(cay__json_int(o, "entries", 0), 0),
                                .entries_total =
                                    (uint64_t)CAY_MAX(cay__json_int(o, "entries_total", 0), 0),
                                .bytes = (uint64_t)CAY_MAX(cay__json_int(o, "bytes", 0), 0),
                                .bytes_total =
                                    (uint64_t)CAY_MAX(cay__json_int(o, "bytes_total", 0), 0) };
    h->c->progress(&p, h->c->progress_arg);
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

int cay__far_create_watched(cay__far *f, const cay_call *call, const cay_create *c, const char *key,
                            const cay__buf *target, const char *fields, json_t *body, json_t **out,
                            cay_err *err)
{
    cay__answer *events = NULL;
    pthread_t thread;
    CAY_AUTOFD done = -1;
    if (c->manifest && c->progress)
        done = eventfd(0, EFD_CLOEXEC);
    asking a = { .far = f,
                 .call = call,
                 .target = target,
                 .fields = fields,
                 .body = body,
                 .out = out,
                 .err = err,
                 .done = done };
    /* Before the request, so that nothing of it is missed. */
    if (done < 0 ||
        cay__far_ask(f, call,
                     &(cay__ask){ .method = "GET", .target = CAY__FAR_API "/events?kind=progress" },
                     &events, NULL) < 0)
        return cay__far_json_with(f, call, "POST", target, fields, body, out, err);
    if (pthread_create(&thread, NULL, send_request, &a) == 0) {
        read_events(events, &(hearing){ c, key }, done);
        pthread_join(thread, NULL);
    } else {
        send_request(&a);
    }
    cay__answer_end(events);
    return a.rc;
}
