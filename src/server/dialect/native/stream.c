/* SPDX-License-Identifier: Apache-2.0 */
/* A process's output as server-sent events: every event has an id, the offsets reached, and a
 * stream goes on after any of them. */
#include "follow.h"
#include <base/base64.h>
#include <inttypes.h>

static const char *const stream_words[] = { "stdout", "stderr" };

/* What is carried has not been told yet: whoever comes back wants it. */
static void write_event(cay__follow *f, const char *name, const cay__buf *data, cay__buf *out)
{
    char id[48];
    CAY_FORMAT(id, "%" PRIu64 ".%" PRIu64, f->s[0].at - f->s[0].ncarry,
               f->s[1].at - f->s[1].ncarry);
    cay__sse_event(out, id, name, CAY_OR(data->data, ""), data->len);
}

static void tell_start(cay__follow *f, cay__buf *out)
{
    CAY_AUTOBUF b = CAY__BUF(256);
    if (!f->more) /* the one who starts it is told its names */
        return;
    cay__buf_fmt(&b, "{\"id\":\"%s\",\"pid\":%d}", cay_proc_id(f->p), cay_proc_pid(f->p));
    write_event(f, "start", &b, out);
}

static void tell_piece(cay__follow *f, int which, uint64_t offset, const char *data, size_t n,
                       cay__buf *out)
{
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    bool text = cay__utf8(data, n);
    cay__buf_fmt(&b, "{\"offset\":%" PRIu64, offset);
    if (f->s[which].time_ms)
        cay__buf_fmt(&b, ",\"time_ms\":%" PRId64, f->s[which].time_ms);
    cay__buf_str(&b, text ? ",\"text\":" : ",\"base64\":");
    if (text) {
        cay__buf_json(&b, data, n);
    } else {
        cay__buf_str(&b, "\"");
        cay__base64_put(&b, data, n);
        cay__buf_str(&b, "\"");
    }
    cay__buf_str(&b, "}");
    write_event(f, stream_words[which], &b, out);
}

/* How many bytes at the end are a character that may be completed by what comes. */
static size_t count_partial_bytes(const char *s, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = (unsigned char)s[n - k];
        if ((c & 0xc0) == 0x80)
            continue;
        if ((c >= 0xf0 && k < 4) || (c >= 0xe0 && c < 0xf0 && k < 3) ||
            (c >= 0xc0 && c < 0xe0 && k < 2))
            return k;
        return 0;
    }
    return 0;
}

static void tell_data(cay__follow *f, int which, uint64_t offset, const char *data, size_t n,
                      bool last, cay__buf *out)
{
    cay__followed *s = &f->s[which];
    char all[(32 << 10) + sizeof s->carry];
    size_t had = s->ncarry, have = had + n;
    memcpy(all, s->carry, had);
    memcpy(all + had, data, n);
    size_t keep = 0;
    if (!last)
        keep = count_partial_bytes(all, have);
    memcpy(s->carry, all + have - keep, keep);
    s->ncarry = keep;
    if (have > keep)
        tell_piece(f, which, offset - had, all, have - keep, out);
}

/* What was carried stands before the gap. */
static void tell_lost(cay__follow *f, int which, uint64_t offset, uint64_t bytes, cay__buf *out)
{
    CAY_AUTOBUF b = CAY__BUF(256);
    tell_data(f, which, offset, "", 0, true, out);
    cay__buf_fmt(&b, "{\"stream\":\"%s\",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                 stream_words[which], offset, bytes);
    write_event(f, "lost", &b, out);
}

static void tell_end(cay__follow *f, const cay_exit *e, cay__buf *out)
{
    CAY_AUTOBUF b = CAY__BUF(4096);
    cay__shape_put(&b, &cay__exit_shape, CAY__F_OUT, e);
    write_event(f, "exit", &b, out);
}

static void tell_fail(cay__follow *f, const cay_err *err, cay__buf *out)
{
    CAY_AUTOBUF b = CAY__BUF(4096);
    cay__native_error(&b, err);
    write_event(f, "error", &b, out);
}

static void tell_beat(cay__follow *f, cay__buf *out)
{
    cay__buf_str(out, ": on\n\n");
}

static const cay__follow_ops sse = { tell_start, tell_data, tell_lost,    tell_end,
                                     tell_fail,  tell_beat, .times = true };

static void stream_close(cay__pump *p)
{
    cay__follow_close(p->self);
    free(p->self);
}

int cay__native_stream(cay__req *r, cay_proc *p, const uint64_t offset[2], bool start, cay_err *err)
{
    cay__follow *f = cay__alloc(sizeof *f);
    cay__pump pump;
    if (start)
        f->more = f;
    else
        f->more = NULL;
    int rc = cay__follow_open(f, &r->call, p, offset, &sse, err);
    if (rc < 0) {
        free(f);
        return rc;
    }
    cay__follow_pump(f, &pump);
    pump.close = stream_close;
    return cay__reply_pump(r, 200, "text/event-stream", &pump);
}

static int take_offset(const char *what, const char *s, uint64_t *out, cay_err *err)
{
    *out = CAY_FROM_START;
    if (s && !strcmp(s, "now"))
        *out = CAY_FROM_NOW;
    else if (s && (!cay__str_to_u64(s, out) || *out > INT64_MAX))
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?%s=%.40s: want an offset, or now", what,
                            s);
    return 0;
}

int cay__native_offsets(cay__req *r, uint64_t out[2], cay_err *err)
{
    const char *last = cay__head_field(&r->head, "last-event-id");
    cay__process_query q = { 0 };
    char text[64];
    if (!last) {
        CAY_TRY(cay__req_asked(r, &q, err));
        CAY_TRY(take_offset("stdout", q.from_out, &out[0], err));
        return take_offset("stderr", q.from_err, &out[1], err);
    }
    char *dot = NULL;
    if (CAY_COPY(text, last))
        dot = strchr(text, '.');
    if (dot)
        *dot++ = 0;
    if (!dot || !cay__str_to_u64(text, &out[0]) || !cay__str_to_u64(dot, &out[1]) ||
        out[0] > INT64_MAX || out[1] > INT64_MAX)
        return cay_fail_why(err, CAY_EINVAL, "header_invalid",
                            "Last-Event-ID %.40s: want OUT.ERR, as an event of this stream has it",
                            last);
    return 0;
}

int cay__on_process_stream(cay__req *r, cay_err *err)
{
    cay_proc *p;
    uint64_t offset[2];
    CAY_TRY(cay__native_offsets(r, offset, err));
    CAY_TRY(cay__native_proc(r, &p, err));
    return cay__native_stream(r, p, offset, false, err);
}

enum { KEPT_MAX = 4 << 20, PIECE = 32 << 10 };

/* What is kept now. */
static int reply_kept(cay__req *r, cay_proc *p, cay_stream which, uint64_t offset, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(KEPT_MAX + PIECE);
    uint64_t at = offset, first = offset, gone = 0;
    bool eof = false;
    for (bool begun = false; !eof && b.len < KEPT_MAX; begun = true) {
        size_t n = 0;
        uint64_t lost = 0;
        char *room = cay__buf_room(&b, PIECE);
        CAY_TRY(cay_proc_read(p, &r->call, which, &at, room, PIECE, &n, &lost, &eof, err));
        if (begun && lost) { /* while we read: what comes after the gap is for the next request */
            at -= n + lost;
            eof = false;
            break;
        }
        gone += lost;
        if (!begun)
            first = at - n;
        cay__buf_used(&b, n);
        if (!n)
            break;
    }
    cay__reply_number(r, "X-Cay-Offset", first);
    cay__reply_number(r, "X-Cay-Next", at);
    cay__reply_number(r, "X-Cay-Lost", gone);
    cay__reply_field(r, "X-Cay-Eof", eof ? "1" : "0");
    return cay__reply(r, 200, "application/octet-stream", CAY_OR(b.data, ""), b.len);
}

static int reply_follow(cay__req *r, cay_proc *p, cay_stream which, uint64_t offset, cay_err *err)
{
    size_t n;
    int fd;
    uint64_t at = offset;
    CAY_TRY(cay_proc_read(p, &r->call, which, &at, &(char){ 0 }, 0, &n, NULL, NULL,
                          err)); /* where it will begin */
    CAY_TRY(cay_proc_output(p, &r->call, which, at, &fd, err));
    cay__reply_number(r, "X-Cay-Offset", at);
    return cay__reply_fd(r, 200, "application/octet-stream", fd, -1);
}

int cay__on_process_output(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay__process_query q = { 0 };
    cay_stream which = CAY_STDOUT;
    uint64_t offset;
    CAY_TRY(cay__req_asked(r, &q, err));
    if (q.stream && !strcmp(q.stream, "stderr"))
        which = CAY_STDERR;
    else if (q.stream && strcmp(q.stream, "stdout") != 0)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?stream=%.20s: want stdout or stderr",
                            q.stream);
    CAY_TRY(take_offset("offset", q.offset, &offset, err));
    CAY_TRY(cay__native_proc(r, &p, err));
    if (q.follow)
        return reply_follow(r, p, which, offset, err);
    return reply_kept(r, p, which, offset, err);
}
