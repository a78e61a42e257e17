/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that are built by steps: sent, followed, canceled. The work is done by the queue, so
 * neither a client that leaves nor a server that ends loses one. */
#include "native.h"

#define CONTEXT_MAX (4ull << 30)
enum { LOOK_MS = 250, BEAT_MS = 15000, HOUR_MS = 3600000 };

typedef int on_build(const cay_build_info *b, void *arg);

static int reply_info(const cay_build_info *b, void *arg)
{
    return cay__reply_object(arg, b);
}

static int ignore_info(const cay_build_info *b, void *arg)
{
    return 0;
}

static int get_build(cay__req *r, const char *id, on_build *fn, cay_err *err)
{
    if (!cay__id_valid(id, 'b'))
        return cay_fail_why(err, CAY_ENOENT, "build_not_found", "there is no build %.60s", id);
    return cay_build_get(r->client, cay__native_owner(r), id, fn, r, err);
}

static int take_args(cay__req *r, const char *const *list, const cay_pair **out, cay_err *err)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    cay_pair *args = cay__arena_take(&r->arena, (n + 1) * sizeof *args);
    for (size_t i = 0; i < n; i++) {
        char *text = cay__arena_str(&r->arena, list[i]), *eq = strchr(text, '=');
        if (!eq)
            return cay_fail_why(err, CAY_EINVAL, "bad_query", "?arg=%.60s is not NAME=VALUE", text);
        *eq = 0;
        args[i] = (cay_pair){ text, eq + 1 };
    }
    *out = args;
    return 0;
}

/* The body is the file itself when it says that it is text; else the context. */
static int take_body(cay__req *r, cay_build *b, int *fd, cay_err *err)
{
    const char *type = cay__head_field(&r->head, "content-type");
    uint64_t n;
    bool text =
        type && (!strncasecmp(type, "text/", 5) || !strncasecmp(type, "application/json", 16));
    CAY_TRY(cay__native_receive(r, "context", text ? 1u << 20 : CONTEXT_MAX, fd, &n, err));
    if (!n)
        return cay_fail_why(err, CAY_EINVAL, "build_context",
                            "the body is empty: send a tar of the context, or the file itself as "
                            "text/plain or application/json");
    if (!text) {
        b->tar = *fd;
        return 0;
    }
    char *all = cay__arena_take(&r->arena, (size_t)n + 1);
    if (pread(*fd, all, (size_t)n, 0) != (ssize_t)n)
        return cay_fail_sys(err, "read the file");
    if (strlen(all) != n)
        return cay_fail_why(err, CAY_EINVAL, "dockerfile_invalid",
                            "there is a NUL byte in the file");
    b->text = all;
    return 0;
}

int cay__on_build_create(cay__req *r, cay_err *err)
{
    char id[CAY_ID_LEN + 1];
    CAY_AUTOFD fd = -1;
    CAY_AUTOFREE char *net = NULL;
    cay__build_query q = { .b = { .size = sizeof q.b } };
    cay_build *b = &q.b;
    CAY_TRY(cay__req_asked(r, &q, err));
    if (r->who.scope != CAY__SCOPE_ADMIN)
        CAY_TRY(cay__req_number(r, "step_ms", 0, HOUR_MS, &b->step_ms, err));
    CAY_TRY(take_args(r, q.args, &b->args, err));
    b->names = q.names;
    b->tenant = r->who.tenant;
    b->hidden = cay__native_hidden(r, b->hidden);
    if (q.rules)
        CAY_TRY(cay_policy_text(&(cay_policy){ .size = sizeof(cay_policy), .rules = q.rules }, &net,
                                err));
    b->net = net;
    CAY_TRY(cay_build_queue_check(r->client, r->who.tenant,
                                  err)); /* before gigabytes are sent for nothing */
    CAY_TRY(take_body(r, b, &fd, err));
    CAY_TRY(cay_build_submit(r->client, b, id, err));
    cay__req_about(r, id);
    return get_build(r, id, reply_info, err);
}

int cay__on_template_pull(cay__req *r, cay_err *err)
{
    char id[CAY_ID_LEN + 1];
    cay__pull_body b = { 0 };
    CAY_TRY(cay__req_body(r, &b, err));
    for (const char *p = b.image; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return cay_fail_why(err, CAY_EINVAL, "template_name",
                                "image: blanks and control characters are in no name");
    cay_build spec = { .size = sizeof spec,
                       .pull = b.image,
                       .names = b.names,
                       .platform = cay__text_or(b.platform, NULL),
                       .tenant = r->who.tenant,
                       .hidden = cay__native_hidden(r, b.hidden) };
    CAY_TRY(cay_build_submit(r->client, &spec, id, err));
    cay__req_about(r, id);
    return get_build(r, id, reply_info, err);
}

CAY__ITEMS_ADD(add_build, cay_build_info)

int cay__on_build_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(
        &l, cay_build_list(r->client, cay__native_owner(r), add_build, &l, err), err);
}

CAY__ITEMS_ADD(add_cache, cay_build_cache)

int cay__on_build_caches(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(
        &l, cay_build_caches(r->client, &r->call, cay__native_owner(r), add_cache, &l, err), err);
}

int cay__on_build_get(cay__req *r, cay_err *err)
{
    return get_build(r, r->param[0], reply_info, err);
}

int cay__on_build_cancel(cay__req *r, cay_err *err)
{
    CAY_TRY(get_build(r, r->param[0], ignore_info, err));
    CAY_TRY(cay_build_cancel(r->client, r->param[0], err));
    return get_build(r, r->param[0], reply_info, err);
}

int cay__on_build_prune(cay__req *r, cay_err *err)
{
    cay__removed p = { 0 };
    CAY_TRY(cay_build_prune(r->client, &r->call, cay__native_owner(r), &p.removed, err));
    return cay__reply_object(r, &p);
}

int cay__on_gc(cay__req *r, cay_err *err)
{
    cay__removed p = { 0 };
    size_t caches = 0;
    CAY_TRY(cay_client_gc(r->client, &r->call, &p.removed, err));
    CAY_TRY(cay_build_gc(r->client, &r->call, &caches, err));
    p.removed += caches;
    return cay__reply_object(r, &p);
}

typedef struct logger {
    cay_client *client;
    char id[CAY_ID_LEN + 1];
    uint64_t at;
    int64_t said_ms;
    bool over, follow;
    cay__buf *out;
} logger;

static int log_line(const cay_build_event *e, void *arg)
{
    logger *g = arg;
    CAY_AUTOBUF b = CAY__BUF(128u << 10);
    cay__buf_fmt(&b, "{\"time_ms\":%lld,\"step\":%u,\"steps\":%u,\"cached\":%s,\"text\":",
                 (long long)e->time_ms, e->step, e->steps, e->cached ? "true" : "false");
    cay__buf_json(&b, e->text, e->len);
    cay__buf_str(&b, "}");
    if (!b.full)
        cay__sse_event(g->out, NULL, cay_build_event_name(e->kind), b.data, b.len);
    g->said_ms = cay__native_now();
    return g->out->len > (128u << 10); /* the rest with the next turn */
}

static int log_end(const cay_build_info *i, void *arg)
{
    logger *g = arg;
    g->over = strcmp(i->state, "waiting") && strcmp(i->state, "building");
    return 0;
}

static int log_last(const cay_build_info *i, void *arg)
{
    logger *g = arg;
    CAY_AUTOBUF b = CAY__BUF(8192);
    cay__buf_fmt(&b, "{\"state\":\"%s\",\"template\":\"%s\",\"reason\":\"%s\",\"error\":", i->state,
                 i->template_, i->reason);
    cay__buf_json(&b, i->error, strlen(i->error));
    cay__buf_str(&b, "}");
    cay__sse_event(g->out, NULL, "end", b.data, b.len);
    return 0;
}

static int log_work(cay__pump *p, cay__buf *out)
{
    logger *g = p->self;
    uint64_t before = g->at;
    char id[32];
    g->out = out;
    /* Asked before the log is read, so that its last line is not missed. */
    CAY_TRY(cay_build_get(g->client, NULL, g->id, log_end, g, NULL));
    int rc = cay_build_log(g->client, g->id, &g->at, log_line, g, NULL);
    if (rc < 0)
        return rc;
    if (g->at != before) { /* where to go on, for who comes back */
        CAY_FORMAT(id, "%llu", (unsigned long long)g->at);
        char at[48];
        cay__sse_event(out, id, "at", at, (size_t)CAY_FORMAT(at, "{\"at\":%s}", id));
    } else if (cay__native_now() - g->said_ms > BEAT_MS) {
        cay__buf_str(out, ":\n\n");
        g->said_ms = cay__native_now();
    }
    if (rc > 0 || (!g->over && g->follow))
        return CAY__PUMP_ON;
    if (!g->over)
        return CAY__PUMP_END;
    CAY_TRY(cay_build_get(g->client, NULL, g->id, log_last, g, NULL));
    return CAY__PUMP_END;
}

static int log_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    return CAY__PUMP_WORK;
}

static void log_close(cay__pump *p)
{
    free(p->self);
}

int cay__on_build_log(cay__req *r, cay_err *err)
{
    const char *last = cay__head_field(&r->head, "last-event-id");
    cay__log_query q = { .follow = true };
    CAY_TRY(get_build(r, r->param[0], ignore_info, err));
    CAY_TRY(cay__req_asked(r, &q, err));
    if (last && !cay__str_to_u64(last, &q.after))
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "Last-Event-ID is a number");
    logger *g = cay__alloc(sizeof *g);
    *g = (logger){
        .client = r->client, .at = q.after, .said_ms = cay__native_now(), .follow = q.follow
    };
    CAY_COPY(g->id, r->param[0]);
    cay__pump p = { .fd = { -1, -1, -1 },
                    .beat_ms = LOOK_MS,
                    .self = g,
                    .pull = log_pull,
                    .work = log_work,
                    .close = log_close };
    return cay__reply_pump(r, 200, "text/event-stream", &p);
}
