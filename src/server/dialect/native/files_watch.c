/* SPDX-License-Identifier: Apache-2.0 */
/* What changes below a directory, as events. */
#include "native.h"
#include <poll.h>

enum { BEAT_MS = 15000, TURN = 64 << 10 };

typedef struct watcher {
    cay_watch *w;
    bool begun;
} watcher;

static void write_change(cay__buf *out, const cay_watch_event *e)
{
    CAY_AUTOBUF b = CAY__BUF(64 << 10);
    cay__shape_put(&b, &cay__watch_event_shape, CAY__F_OUT, e);
    cay__sse_event(out, NULL, "change", b.data, b.len);
}

/* Whoever hears this may change something: it will be told. */
static bool write_ready(watcher *w, cay__buf *out)
{
    if (w->begun)
        return false;
    cay__sse_event(out, NULL, "ready", "{}", 2);
    return w->begun = true;
}

static int watch_work(cay__pump *p, cay__buf *out)
{
    watcher *w = p->self;
    cay_call call = { .size = sizeof call, .deadline_ms = cay__native_now() + 1000 };
    struct pollfd q = { cay_watch_fd(w->w), POLLIN, 0 };
    write_ready(w, out);
    while (out->len < TURN && poll(&q, 1, 0) > 0) {
        cay_err err = CAY_ERR_INIT;
        cay_watch_event e = { .size = sizeof e };
        int rc = cay_watch_next(w->w, &call, &e, &err);
        if (rc == CAY_ETIMEOUT)
            break;
        if (rc < 0) {
            CAY_AUTOBUF b = CAY__BUF(4096);
            cay__native_error(&b, &err);
            cay__sse_event(out, NULL, "error", b.data, b.len);
            return CAY__PUMP_END;
        }
        write_change(out, &e);
    }
    return CAY__PUMP_ON;
}

static int watch_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    watcher *w = p->self;
    if (ready)
        return CAY__PUMP_WORK;
    if (!write_ready(w, out))
        cay__buf_str(out, ": on\n\n");
    p->beat_ms = BEAT_MS;
    return CAY__PUMP_ON;
}

static void watch_close(cay__pump *p)
{
    watcher *w = p->self;
    cay_watch_close(w->w);
    free(w);
}

int cay__on_file_watch(cay__req *r, cay_err *err)
{
    cay_watch *watch;
    cay__file_query q = { 0 };
    CAY_TRY(cay__req_asked(r, &q, err));
    CAY_TRY(cay_watch_open(r->sb, &r->call, q.path, q.recursive, &watch, err));
    watcher *w = cay__alloc(sizeof *w);
    w->w = watch;
    cay__pump p = { .fd = { cay_watch_fd(watch), -1, -1 },
                    .beat_ms = 1,
                    .self = w,
                    .pull = watch_pull,
                    .work = watch_work,
                    .close = watch_close };
    return cay__reply_pump(r, 200, "text/event-stream", &p);
}
