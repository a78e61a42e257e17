/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.Process/StreamInput: one request whose body goes on as long as there is input for a
 * process. Envelopes are gathered on the loop, and a worker writes what is whole, so that a stream
 * that is silent holds no thread; while one is written nothing more is taken from the peer.
 */
#include "e2b.h"
#include <stdatomic.h>

enum {
    WRITE_MS = 60000 /* a process that reads nothing for so long has failed */,
    HELD_MAX = 128 << 20
};

static _Atomic size_t
    held; /* by all streams together: who announces much and sends slowly is not paid with memory */

typedef struct feed {
    cay_sandbox *sb;
    cay_proc *p; /* NULL: start has not come */
    cay__buf in;
    bool all; /* the peer sends no more */
} feed;

/* {"start": {"process"}}, {"data": {"input"}} or {"keepalive": {}}. */
static int process_message(feed *f, const char *text, size_t len, cay_err *err)
{
    cay_call call = { .size = sizeof call,
                      .deadline_ms = cay__now_ms() + WRITE_MS,
                      .actor = "e2b" };
    json_error_t je;
    CAY_AUTOJSON *in = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
    const json_t *start = json_object_get(in, "start"), *data = json_object_get(in, "data");
    if (!json_is_object(in))
        return cay_fail(err, CAY_EINVAL, "the message is not a JSON object");
    if (start) {
        if (f->p)
            return cay_fail(err, CAY_EINVAL, "start comes once");
        return e2b_process_find(f->sb, &call, json_object_get(start, "process"), &f->p, err);
    }
    if (!f->p)
        return cay_fail(err, CAY_EINVAL, "the first message is start, with the process");
    if (data)
        return e2b_process_feed(f->sb, &call, f->p, json_object_get(data, "input"), err);
    if (json_object_get(in, "keepalive"))
        return 0;
    return cay_fail(err, CAY_EINVAL, "a message has start, data or keepalive");
}

static int write_response(cay__pump *pump, const cay_err *err, cay__buf *out)
{
    CAY_AUTOBUF body = CAY__BUF(65536);
    ((cay__raw *)pump)->keep = !err;
    if (!err)
        e2b_envelope_json(&body, json_object());
    e2b_envelope_end(&body, err);
    cay__buf_fmt(out,
                 "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nContent-Length: "
                 "%zu\r\n%s\r\n",
                 body.len, err ? "Connection: close\r\n" : "");
    cay__buf_add(out, body.data, body.len);
    return CAY__PUMP_END;
}

/* Dead is told by a cut, here as with the streams that come out of a process. */
static int process_input(cay__pump *pump, cay__buf *out)
{
    feed *f = pump->self;
    cay_err err = CAY_ERR_INIT;
    size_t at = 0, used, len;
    const char *text;
    int rc = 0;
    while (rc == 0 &&
           (rc = e2b_next(f->in.data + at, f->in.len - at, &used, &text, &len, &err)) > 0) {
        rc = process_message(f, text, len, &err);
        at += used;
    }
    atomic_fetch_sub(&held, at);
    if (at && (f->in.len -= at))
        memmove(f->in.data, f->in.data + at, f->in.len);
    if (!f->in.len)
        cay__buf_clear(&f->in); /* who is idle keeps no buffer */
    const cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 10000 };
    if (rc < 0 && (e2b_dead(&err) || !e2b_alive(f->sb, &soon)))
        return CAY_EGONE;
    if (rc == 0 && !f->all)
        return CAY__PUMP_ON;
    if (rc == 0 && f->in.len)
        cay_fail(&err, CAY_EINVAL, "the last envelope was cut");
    else if (rc == 0 && !f->p)
        cay_fail(&err, CAY_EINVAL, "the first message is start, with the process");
    return write_response(pump, err.code ? &err : NULL, out);
}

static int push_input(cay__pump *pump, int kind, const char *data, size_t len, cay__buf *out)
{
    feed *f = pump->self;
    size_t before = f->in.len;
    if (!data)
        f->all = true;
    else
        cay__buf_add(&f->in, data, len);
    len = f->in.len - before;
    if (atomic_fetch_add(&held, len) + len > HELD_MAX || f->in.full)
        return CAY_ETOOBIG;
    if (f->all || e2b_whole(f->in.data, f->in.len))
        return CAY__PUMP_WORK;
    return CAY__PUMP_ON;
}

static void close_feed(cay__pump *pump)
{
    feed *f = pump->self;
    atomic_fetch_sub(&held, f->in.len);
    cay__buf_clear(&f->in);
    cay_proc_unref(f->p);
    cay_sandbox_unref(f->sb);
    free(f);
}

int e2b_process_stream_input(cay__req *r, cay_err *err)
{
    e2b_daemon d;
    const char *type = cay__head_field(&r->head, "content-type");
    CAY_TRY(e2b_daemon_open(r, &d, err));
    if (!type || strncasecmp(type, "application/connect+json", 24) != 0)
        return cay_fail_why(err, CAY_EINVAL, "content_type",
                            "content type %.60s: a stream of input is application/connect+json",
                            CAY_OR(type, "none"));
    feed *f = cay__alloc(sizeof *f);
    *f = (feed){ .sb = cay_sandbox_ref(d.sb), .in = CAY__BUF(E2B_MESSAGE_MAX + ((size_t)1 << 20)) };
    return cay__reply_raw(r, &(cay__raw){ .pump = { .fd = { -1, -1, -1 },
                                                    .self = f,
                                                    .push = push_input,
                                                    .work = process_input,
                                                    .close = close_feed },
                                          .status = 200 });
}
