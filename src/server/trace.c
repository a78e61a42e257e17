/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry.h"
#include <server/http/connection.h>
#include <base/base.h>
#include <cay/trace.h>
#include <inttypes.h>
#include <net/traceparent.h>
#include <time.h>

enum { QUEUE = 8192, SEND_MS = 1000, SPAN_MAX = 8192, HEADERS = 16 };

struct cay__tracing {
    cay_tracer *to[2]; /* a collector, a file */
    size_t nto;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t some;
    char *queue[QUEUE];
    size_t n;
    uint64_t lost;
    bool stop, told;
};

static void queue_span(struct cay__tracing *t, cay__buf *b)
{
    char *text = NULL;
    if (!b->full)
        text = CAY_STEAL(b->data);
    pthread_mutex_lock(&t->lock);
    if (text && t->n < QUEUE)
        t->queue[t->n++] = CAY_STEAL(text);
    else
        t->lost++;
    if (t->n == QUEUE / 2)
        pthread_cond_signal(&t->some);
    pthread_mutex_unlock(&t->lock);
    free(text);
}

/* With the lock held, which is let go meanwhile. A collector that is away is told of once, until it
 * is back. */
static void send_all(struct cay__tracing *t)
{
    size_t n = t->n;
    char **batch = cay__alloc((n + 1) * sizeof *batch);
    uint64_t before = 0, after = 0;
    cay_err err = CAY_ERR_INIT;
    memcpy(batch, t->queue, n * sizeof *batch);
    t->n = 0;
    pthread_mutex_unlock(&t->lock);
    CAY_EACH_OF(one, t->to, t->nto) {
        before += cay_tracer_lost(*one);
        CAY_EACH_OF(item, batch, n)
            cay_tracer_put(*one, *item);
        cay_tracer_flush(*one, &err);
        after += cay_tracer_lost(*one);
    }
    CAY_EACH_OF(it, batch, n)
        free(*it);
    free(batch);
    if (after > before && !t->told)
        fprintf(stderr, "cay: spans are lost: %s\n",
                cay__text_or(err.msg, "the collector does not take them"));
    t->told = after > before;
    pthread_mutex_lock(&t->lock);
    t->lost += after - before;
}

static void *run_exporter(void *arg)
{
    struct cay__tracing *t = arg;
    pthread_mutex_lock(&t->lock);
    while (!t->stop || t->n) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += SEND_MS / 1000;
        if (!t->stop)
            pthread_cond_clockwait(&t->some, &t->lock, CLOCK_MONOTONIC, &until);
        if (t->n)
            send_all(t);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

uint64_t cay__tracing_lost(struct cay__tracing *t)
{
    if (!t)
        return 0;
    pthread_mutex_lock(&t->lock);
    uint64_t n = t->lost;
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* OTEL_EXPORTER_OTLP_HEADERS: "name=value,name=value", values percent-encoded. */
static int headers_of(char *text, cay__arena *mem, const char *list[HEADERS + 1], cay_err *err)
{
    size_t n = 0;
    for (char *save = NULL, *one = text ? strtok_r(text, ",", &save) : NULL; one;
         one = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(one, '='), *name = one + strspn(one, " ");
        size_t len = 0;
        if (eq)
            len = strlen(eq + 1);
        char *value = cay__arena_take(mem, len + 1);
        size_t room = strlen(one) + len + 4;
        char *line = cay__arena_take(mem, room);
        if (!eq || eq == name || n == HEADERS || !cay__url_decode(eq + 1, len, false, value) ||
            strpbrk(value, "\r\n"))
            return cay_fail_why(
                err, CAY_EINVAL, "otlp_headers",
                "OTEL_EXPORTER_OTLP_HEADERS: want NAME=VALUE, separated by commas, at most %d",
                HEADERS);
        snprintf(line, room, "%.*s: %s", (int)(eq - name), name, value);
        list[n++] = line;
    }
    return 0;
}

/* What --otlp says, else the variables that every program with OpenTelemetry reads. */
static const char *find_endpoint(const cay__conf *conf, char buf[1024])
{
    const char *whole = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
               *base = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    if (conf->otlp)
        return conf->otlp;
    if (whole && *whole)
        return whole;
    if (!base || !*base)
        return NULL;
    size_t n = strlen(base);
    if (cay__str_join(buf, 1024, base, base[n - 1] == '/' ? "v1/traces" : "/v1/traces", NULL))
        return buf;
    return base;
}

static int open_sinks(const cay__conf *conf, struct cay__tracing *t, cay_err *err)
{
    char buf[1024];
    const char *url = find_endpoint(conf, buf), *list[HEADERS + 1] = { NULL },
               *given = getenv("OTEL_EXPORTER_OTLP_HEADERS");
    __attribute__((cleanup(cay__arena_clear))) cay__arena mem = { 0 };
    if (url) {
        CAY_TRY(headers_of(given ? cay__arena_str(&mem, given) : NULL, &mem, list, err));
        cay_tracer_http_spec spec = {
            .size = sizeof spec, .url = url, .otlp = true, .headers = list
        };
        CAY_TRY(cay_tracer_http(&spec, &t->to[t->nto], err));
        t->nto++;
    }
    if (conf->trace) {
        CAY_TRY(cay_tracer_file(conf->trace, &t->to[t->nto], err));
        t->nto++;
    }
    return 0;
}

static void tracing_free(struct cay__tracing *t)
{
    CAY_EACH_OF(it, t->to, t->nto)
        cay_tracer_free(*it);
    free(t);
}

int cay__tracing_open(const cay__conf *conf, struct cay__tracing **out, cay_err *err)
{
    struct cay__tracing *t = cay__alloc(sizeof *t);
    int rc = open_sinks(conf, t, err);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->some, NULL);
    if (rc == 0 && t->nto && (errno = pthread_create(&t->thread, NULL, run_exporter, t)))
        rc = cay_fail_sys(err, "a thread for spans");
    if (rc == 0 && t->nto) {
        *out = t;
        return 0;
    }
    tracing_free(t);
    return rc;
}

void cay__tracing_close(struct cay__tracing *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->some);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    tracing_free(t);
}

static void put_time(cay__buf *b, const char *key, int64_t ns)
{
    char text[40];
    struct tm tm;
    time_t s = (time_t)(ns / 1000000000);
    gmtime_r(&s, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    cay__buf_fmt(b, ",\"%s\":\"%s.%06d+00:00\"", key, text, (int)(ns % 1000000000 / 1000));
}

static void put_text(cay__buf *b, const char *key, const char *value)
{
    cay__buf_fmt(b, ",\"%s\":", key);
    cay__buf_json(b, value, strlen(value));
}

/* Up to the members of "data". */
static void open_span(cay__buf *b, const char *id, const cay__traceparent *trace,
                      const char *parent, int64_t from, int64_t to, const char *type)
{
    cay__buf_fmt(
        b, "{\"object\":\"trace.span\",\"id\":\"span_%s\",\"trace_id\":\"trace_%s\",\"parent_id\":",
        id, trace->trace);
    cay__buf_fmt(b, *parent ? "\"span_%s\"" : "null", parent);
    put_time(b, "started_at", from);
    put_time(b, "ended_at", to);
    cay__buf_fmt(b, ",\"span_data\":{\"type\":\"%s\"", type);
}

/* The code and the reason: the message may hold a path. */
static void close_span(cay__buf *b, const char *code, const char *reason)
{
    cay__buf_str(b, "}}");
    if (code)
        cay__buf_fmt(b,
                     ",\"error\":{\"message\":\"%s "
                     "%s\",\"data\":{\"error_type\":\"%s\",\"error_code\":\"%s\"}}}",
                     code, reason, code, reason);
    else
        cay__buf_str(b, ",\"error\":null}");
}

static void on_op(void *arg, const cay_op *op)
{
    cay__req *r = arg;
    const cay__span_state *a = &r->reply->span;
    CAY_AUTOBUF b = CAY__BUF(SPAN_MAX);
    char id[17];
    cay__trace_id_make(id, 8);
    open_span(&b, id, &a->self, a->self.span, op->began_ns, op->ended_ns, "sandbox");
    put_text(&b, "name", op->name);
    cay__buf_str(&b, ",\"data\":{\"cay.operation\":");
    cay__buf_json(&b, op->name, strlen(op->name));
    if (*op->sandbox)
        put_text(&b, "cay.sandbox", op->sandbox);
    if (*op->process)
        put_text(&b, "cay.process", op->process);
    if (op->exit_code)
        cay__buf_fmt(&b, ",\"process.exit.code\":%d", *op->exit_code);
    if (op->port)
        cay__buf_fmt(&b, ",\"server.port\":%u", op->port);
    close_span(&b, op->fault ? cay_code_name(op->fault->code) : NULL,
               op->fault ? op->fault->reason : "");
    queue_span(r->server->tracing, &b);
}

static int64_t wall_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void cay__trace_begin(cay__req *r)
{
    cay__span_state *a = &r->reply->span;
    const char *field = cay__head_field(&r->head, "traceparent");
    bool given = cay__traceparent_read(field, &a->self);
    if (given)
        memcpy(a->parent, a->self.span, sizeof a->parent);
    else
        a->self.sampled = true;
    if (r->server->tracing && a->self.sampled) {
        if (!given)
            cay__trace_id_make(a->self.trace, 16);
        cay__trace_id_make(a->self.span, 8);
        a->began_ns = wall_ns() - (cay__now_us() - r->reply->began_us) * 1000;
        r->call.on_op = on_op;
        r->call.on_op_arg = r;
    } else if (!given) {
        return;
    }
    cay__traceparent_write(&a->self, a->text);
    r->call.trace = a->text;
}

static void put_request(cay__buf *b, const cay__req *r)
{
    const char *base = r->dialect && r->dialect->base ? r->dialect->base : "",
               *path = CAY_OR(r->route->op->path, "/*");
    CAY_AUTOBUF name = CAY__BUF(512);
    cay__buf_fmt(&name, "%s %s%s", r->head.method, base, path);
    put_text(b, "name", CAY_OR(name.data, ""));
    cay__buf_str(b, ",\"data\":{\"http.request.method\":");
    cay__buf_json(b, r->head.method, strlen(r->head.method));
    cay__buf_fmt(b,
                 ",\"http.route\":\"%s%s\",\"http.response.status_code\":%d,\"http.response.body."
                 "size\":%" PRIu64,
                 base, path, r->reply->status, r->reply->bytes);
    put_text(b, "cay.request", r->id);
    put_text(b, "cay.dialect", r->dialect ? r->dialect->name : "");
    if (*r->who.tenant)
        put_text(b, "cay.tenant", r->who.tenant);
    if (r->param[0] && strstr(path, "{id}"))
        put_text(b, "cay.sandbox", r->param[0]);
}

void cay__trace_end(cay__req *r)
{
    cay__span_state *a = &r->reply->span;
    char status[16];
    if (!a->began_ns || !r->route)
        return;
    CAY_AUTOBUF b = CAY__BUF(SPAN_MAX);
    open_span(&b, a->self.span, &a->self, a->parent, a->began_ns, wall_ns(), "http");
    put_request(&b, r);
    CAY_FORMAT(status, "HTTP %d", r->reply->status);
    close_span(&b, r->reply->status >= 500 ? status : NULL, "");
    queue_span(r->server->tracing, &b);
    a->began_ns = 0;
}
