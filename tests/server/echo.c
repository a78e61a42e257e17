/* SPDX-License-Identifier: Apache-2.0 */
/* A protocol for tests: each way of reading and answering that dialects have, at its plainest. In a
 * server of its own, tests/server/cay-server-echo. */
#include <server/http/server.h>
#include <base/base.h>
#include <base/call.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

static _Atomic int canceled, open_pumps;

static int on_json(cay__req *r, cay_err *err)
{
    json_t *j;
    CAY_TRY(cay__req_json(r, 0, &j, err));
    return cay__reply_json(r, 200, json_incref(j));
}

/* The body comes back: by sendfile, or in chunks with ?chunked. */
static int on_raw(cay__req *r, cay_err *err)
{
    CAY_AUTOFD fd = memfd_create("echo", MFD_CLOEXEC);
    uint64_t n = 0;
    CAY_TRY(cay__req_to_fd(r, fd, 256 << 20, &n, err));
    lseek(fd, 0, SEEK_SET);
    return cay__reply_fd(r, 200, "application/octet-stream", CAY_STEAL_FD(fd),
                         cay__req_flag(r, "chunked") ? -1 : (int64_t)n);
}

static int on_unread(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply(r, 200, "text/plain", "unread", 6);
}

static int on_pipe(cay__req *r, cay_err *err)
{
    uint64_t n;
    int p[2];
    static const char zeros[65536];
    CAY_TRY(cay__req_number(r, "n", 10, sizeof zeros, &n, err));
    if (pipe2(p, O_CLOEXEC) < 0)
        return cay_fail_sys(err, "pipe");
    (void)!write(p[1], zeros, n);
    close(p[1]);
    return cay__reply_fd(r, 200, "application/octet-stream", p[0],
                         cay__req_flag(r, "chunked") ? -1 : (int64_t)n);
}

static int on_params(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_json(r, 200,
                           json_pack("{s:s,s:s,s:s}", "a", r->param[0], "b", r->param[1], "q",
                                     cay__req_query(r, "q") ? cay__req_query(r, "q") : ""));
}

static int on_field(cay__req *r, cay_err *err)
{
    (void)err;
    cay__reply_field(r, "X-Echo", cay__req_query(r, "v") ? cay__req_query(r, "v") : "");
    return cay__reply(r, 204, NULL, NULL, 0);
}

static int on_text(cay__req *r, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    (void)err;
    for (int i = 0; i < 2000; i++)
        cay__buf_fmt(&b, "line %d of a text that repeats itself\n", i);
    return cay__reply(r, 200, "text/plain; charset=utf-8", b.data, b.len);
}

static int on_fault(cay__req *r, cay_err *err)
{
    (void)r;
    errno = EIO;
    return cay_fail_sys(err, "open /secret/path/of/the/host");
}

typedef struct counter {
    uint64_t n, at;
    bool work;
} counter;

static void free_counter(cay__pump *p)
{
    free(p->self);
    open_pumps--;
}

static int say(counter *c, cay__buf *out)
{
    char id[24], text[64];
    snprintf(id, sizeof id, "%llu", (unsigned long long)c->at);
    int n = snprintf(text, sizeof text, "number\n%llu", (unsigned long long)c->at);
    cay__sse_event(out, id, "count", text, (size_t)n);
    return ++c->at == c->n ? CAY__PUMP_END : CAY__PUMP_ON;
}

static int pull_counter(cay__pump *p, unsigned ready, cay__buf *out)
{
    counter *c = p->self;
    (void)ready;
    return c->work ? CAY__PUMP_WORK : say(c, out);
}

static int work_counter(cay__pump *p, cay__buf *out)
{
    usleep(1000);
    return say(p->self, out);
}

static int on_stream(cay__req *r, cay_err *err)
{
    counter *c = cay__alloc(sizeof *c);
    cay__pump p = { .fd = { -1, -1, -1 },
                    .beat_ms = 5,
                    .self = c,
                    .pull = pull_counter,
                    .work = work_counter,
                    .close = free_counter };
    c->work = cay__req_flag(r, "work");
    if (cay__req_number(r, "n", 3, UINT64_MAX, &c->n, err) < 0) {
        free(c);
        return CAY_EINVAL;
    }
    open_pumps++;
    return cay__reply_pump(r, 200, "text/event-stream", &p);
}

/* Endless, as fast as the peer reads. */
static int pull_flood(cay__pump *p, unsigned ready, cay__buf *out)
{
    static const char piece[32768];
    (void)p;
    (void)ready;
    cay__buf_add(out, piece, sizeof piece);
    return CAY__PUMP_ON;
}

static void close_flood(cay__pump *p)
{
    close(p->fd[0]);
    open_pumps--;
}

static int on_flood(cay__req *r, cay_err *err)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    (void)err;
    open_pumps++;
    return cay__reply_pump(
        r, 200, "application/octet-stream",
        &(cay__pump){ .fd = { fd, -1, -1 }, .pull = pull_flood, .close = close_flood });
}

static int push_ws(cay__pump *p, int kind, const char *data, size_t len, cay__buf *out)
{
    (void)p;
    if (!data)
        return CAY__PUMP_END;
    if (kind == CAY__WS_TEXT && len == 3 && !memcmp(data, "bye", 3)) {
        cay__ws_close(out, 1000, "as asked");
        return CAY__PUMP_END;
    }
    cay__ws_send(out, kind, data, len);
    return CAY__PUMP_ON;
}

static int on_ws(cay__req *r, cay_err *err)
{
    return cay__reply_ws(r, NULL, &(cay__pump){ .fd = { -1, -1, -1 }, .push = push_ws }, err);
}

static int push_tunnel(cay__pump *p, int kind, const char *data, size_t len, cay__buf *out)
{
    (void)p;
    (void)kind;
    if (!data)
        return CAY__PUMP_END;
    cay__buf_add(out, data, len);
    return CAY__PUMP_ON;
}

static int on_tunnel(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_upgrade(r, "echo", &(cay__pump){ .fd = { -1, -1, -1 }, .push = push_tunnel });
}

/* Counts a body as a proxy gets it, and holds it for a moment at every piece. */
typedef struct sum {
    uint64_t n;
    bool end;
} sum;

static int push_sum(cay__pump *p, int kind, const char *data, size_t len, cay__buf *out)
{
    sum *s = p->self;
    (void)kind;
    (void)out;
    s->n += len;
    s->end = !data;
    p->hold = data != NULL;
    return CAY__PUMP_ON;
}

static int pull_sum(cay__pump *p, unsigned ready, cay__buf *out)
{
    sum *s = p->self;
    cay__raw *raw = (cay__raw *)p;
    (void)ready;
    p->hold = false;
    if (!s->end)
        return CAY__PUMP_ON;
    char text[32];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)s->n);
    cay__buf_fmt(out, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n, text);
    raw->keep = true;
    raw->status = 200;
    return CAY__PUMP_END;
}

static void free_sum(cay__pump *p)
{
    free(p->self);
}

static int on_proxy(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_raw(r, &(cay__raw){ .pump = { .fd = { -1, -1, -1 },
                                                    .beat_ms = 2,
                                                    .self = cay__alloc(sizeof(sum)),
                                                    .pull = pull_sum,
                                                    .push = push_sum,
                                                    .close = free_sum } });
}

static int on_wait(cay__req *r, cay_err *err)
{
    int p[2];
    if (pipe2(p, O_CLOEXEC) < 0)
        return cay_fail_sys(err, "pipe");
    int rc = cay__call_wait(&r->call, p[0], POLLIN, "waiting", err);
    canceled += rc == CAY_ECANCELED;
    close(p[0]);
    close(p[1]);
    return rc < 0 ? rc : cay__reply(r, 200, "text/plain", "", 0);
}

static int on_counts(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_json(
        r, 200, json_pack("{s:i,s:i}", "canceled", (int)canceled, "pumps", (int)open_pumps));
}

static const cay__route routes[] = {
    CAY__ROUTE("POST", "/json", on_json, 0),
    CAY__ROUTE("POST", "/raw", on_raw, CAY__OP_RAW),
    CAY__ROUTE("POST", "/unread", on_unread, 0),
    CAY__ROUTE("GET", "/pipe", on_pipe, 0),
    CAY__ROUTE("GET", "/item/{a}/x/{b*}", on_params, 0),
    CAY__ROUTE("GET", "/field", on_field, 0),
    CAY__ROUTE("GET", "/text", on_text, 0),
    CAY__ROUTE("GET", "/fault", on_fault, 0),
    CAY__ROUTE("GET", "/stream", on_stream, 0),
    CAY__ROUTE("GET", "/flood", on_flood, 0),
    CAY__ROUTE("GET", "/ws", on_ws, 0),
    CAY__ROUTE("GET", "/tunnel", on_tunnel, 0),
    CAY__ROUTE("*", "/proxy", on_proxy, CAY__OP_RAW),
    CAY__ROUTE("GET", "/wait", on_wait, 0),
    CAY__ROUTE("GET", "/counts", on_counts, 0),
    CAY__ROUTE("GET", "/loop", on_unread, CAY__OP_LOOP),
};
static const cay__dialect echo = {
    .name = "echo", .base = "/t", .routes = routes, .nroutes = CAY_LEN(routes)
};
static int on_health(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply(r, 200, "application/json", "{\"status\":\"ok\"}\n", 16);
}
static const cay__route health[] = { CAY__ROUTE("GET", "/health", on_health,
                                                CAY__OP_OPEN | CAY__OP_LOOP) };
static const cay__dialect root = { .name = "root", .base = "", .routes = health, .nroutes = 1 };
const cay__dialect *const cay__dialects[] = { &echo, &root, NULL };
const cay__part cay__parts[] = { { NULL } };
