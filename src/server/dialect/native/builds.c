/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that are built by steps: sent, followed, canceled. The work is done by the queue, so
 * neither a client that leaves nor a server that ends loses one. */
#include "native.h"
#include <base/base.h>
#include <base/str.h>
#include <cay/build.h>
#include <cay/policy.h>
#include <server/http/limits.h>
#include <fcntl.h>
#include <stdio.h>

#define CONTEXT_MAX (4ull << 30)
enum { ARGS = 100, NAMES = 16, RULES = 200, LOOK_MS = 250, BEAT_MS = 15000, HOUR_MS = 3600000 };

#define AT(field) offsetof(cay_build_info, field)
static const cay__field build_fields[] = {
    { "id", CAY__F_STR, AT(id) },
    { "tenant", CAY__F_STR, AT(tenant) },
    { "state", CAY__F_STR, AT(state),
      .about = "waiting, building, ready, failed, canceled or lost" },
    { "names", CAY__F_STR, AT(names), CAY__F_MAYBE, .about = "of the template, between blanks" },
    { "template", CAY__F_STR, AT(template_), CAY__F_MAYBE, .about = "once it is ready" },
    { "sandbox", CAY__F_STR, AT(sandbox), CAY__F_MAYBE,
      .about = "in which a step failed, with keep_failed" },
    { "reason", CAY__F_STR, AT(reason), CAY__F_MAYBE },
    { "error", CAY__F_STR, AT(error), CAY__F_MAYBE },
    { "step", CAY__F_U32, AT(step) },
    { "steps", CAY__F_U32, AT(steps) },
    { "cached", CAY__F_U32, AT(cached) },
    { "started_ms", CAY__F_I64, AT(started_ms) },
    { "ended_ms", CAY__F_I64, AT(ended_ms) },
};
static const cay__shape build_shape =
    CAY__SHAPE("Build", cay_build_info, build_fields, "a template that is made by steps");

static const char *get_tenant_filter(const cay__req *r)
{
    if (r->who.scope == CAY__SCOPE_ADMIN)
        return NULL;
    return r->who.tenant;
}

typedef struct answering {
    cay__req *r;
    int status;
} answering;

static int on_build_info(const cay_build_info *b, void *arg)
{
    answering *a = arg;
    if (a->status)
        return cay__reply_shape(a->r, a->status, &build_shape, b);
    return 0;
}

static int reply_build(cay__req *r, const char *id, int status, cay_err *err)
{
    if (!cay__id_valid(id, 'b'))
        return cay_fail_why(err, CAY_ENOENT, "build_not_found", "there is no build %.60s", id);
    return cay_build_get(r->client, get_tenant_filter(r), id, on_build_info,
                         &(answering){ r, status }, err);
}

static const cay__query build_query[] = {
    { "name", "string", "of the template; else what the file says", .many = true },
    { "file", "string", "in the context; else template.json or Dockerfile" },
    { "target", "string", "stage to build" },
    { "arg", "string", "NAME=VALUE for an ARG", .many = true },
    { "net", "string",
      "what steps may reach: a rule or preset; else what the file says, or debian, pypi and npm",
      .many = true },
    { "no_cache", "boolean", "do every step anew" },
    { "no_pull", "boolean", "what FROM names has to be here" },
    { "keep_failed", "boolean", "keep the sandbox in which a step failed" },
    { "hidden", "boolean", "not for other tenants; a tenant's own never are" },
    { "step_ms", "integer",
      "most for one RUN; else an hour, which is the most but for scope admin" },
    { "memory", "integer", "bytes of a step" },
    { "disk", "integer", "bytes that a step may write" },
    { "cpu_milli", "integer", "CPU of a step, in thousandths" },
    { NULL },
};

static int read_query_list(cay__req *r, const char *name, const char **out, size_t most, size_t *n,
                           cay_err *err)
{
    for (*n = 0; (out[*n] = cay__native_query_nth(r, name, *n)); ++*n)
        if (*n + 1 == most)
            return cay_fail_why(err, CAY_EINVAL, "bad_query", "?%s= comes at most %zu times", name,
                                most - 1);
    return 0;
}

static int take_args(cay__req *r, cay_pair *out, cay_err *err)
{
    const char *list[ARGS];
    size_t n;
    CAY_TRY(read_query_list(r, "arg", list, ARGS, &n, err));
    for (size_t i = 0; i < n; i++) {
        char *text = cay__arena_str(&r->arena, list[i]), *eq = strchr(text, '=');
        if (!eq)
            return cay_fail_why(err, CAY_EINVAL, "bad_query", "?arg=%.60s is not NAME=VALUE", text);
        *eq = 0;
        out[i] = (cay_pair){ text, eq + 1 };
    }
    return 0;
}

/* The body is the file itself when it says that it is text; else the context. */
static int take_body(cay__req *r, cay_build *b, int *fd, cay_err *err)
{
    const char *type = cay__head_field(&r->head, "content-type");
    uint64_t n;
    *fd = open(cay_client_home(r->client), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd < 0)
        return cay_fail_sys(err, CAY_ESYS, "make a file for the context");
    bool text =
        type && (!strncasecmp(type, "text/", 5) || !strncasecmp(type, "application/json", 16));
    CAY_TRY(cay__req_to_fd(r, *fd, text ? 1u << 20 : CONTEXT_MAX, &n, err));
    CAY_TRY(cay__once_file(r, *fd, n, err));
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
        return cay_fail_sys(err, CAY_ESYS, "read the file");
    if (strlen(all) != n)
        return cay_fail_why(err, CAY_EINVAL, "dockerfile_invalid",
                            "there is a NUL byte in the file");
    b->text = all;
    return 0;
}

const cay__doc cay__doc_build_create = { "createBuild",
                                         "builds",
                                         "build a template: the body is a tar of the context, or "
                                         "the file itself as text/plain or application/json",
                                         .query = build_query,
                                         .body_type = "application/x-tar",
                                         .answers = { { 202, &build_shape }, { 400 }, { 413 } } };
int cay__on_build_create(cay__req *r, cay_err *err)
{
    char id[CAY_ID_LEN + 1];
    CAY_AUTOFD fd = -1;
    CAY_AUTOFREE char *net = NULL;
    size_t nnames, nrules;
    const char **names = cay__arena_take(&r->arena, NAMES * sizeof *names),
               **rules = cay__arena_take(&r->arena, RULES * sizeof *rules);
    cay_pair *args = cay__arena_take(&r->arena, (ARGS + 1) * sizeof *args);
    CAY_TRY(read_query_list(r, "name", names, NAMES, &nnames, err));
    CAY_TRY(read_query_list(r, "net", rules, RULES, &nrules, err));
    CAY_TRY(take_args(r, args, err));
    cay_build b = { .size = sizeof b,
                    .names = nnames ? names : NULL,
                    .args = args,
                    .file = cay__req_query(r, "file"),
                    .target = cay__req_query(r, "target"),
                    .no_cache = cay__req_flag(r, "no_cache"),
                    .no_pull = cay__req_flag(r, "no_pull"),
                    .keep_failed = cay__req_flag(r, "keep_failed"),
                    .tenant = r->who.tenant,
                    .hidden = cay__req_flag(r, "hidden") || strcmp(r->who.tenant, "default") != 0 };
    CAY_TRY(cay__req_number(r, "step_ms", 0,
                            r->who.scope == CAY__SCOPE_ADMIN ? 24 * HOUR_MS : HOUR_MS, &b.step_ms,
                            err));
    CAY_TRY(cay__req_number(r, "memory", 0, 1ull << 50, &b.limits.memory, err));
    CAY_TRY(cay__req_number(r, "disk", 0, 1ull << 50, &b.limits.disk, err));
    CAY_TRY(cay__req_number(r, "cpu_milli", 0, 1000000, &b.limits.cpu_milli, err));
    if (nrules)
        CAY_TRY(cay_policy_text(&(cay_policy){ .size = sizeof(cay_policy), .rules = rules }, &net,
                                err));
    b.net = net;
    CAY_TRY(
        cay_build_room(r->client, r->who.tenant, err)); /* before gigabytes are sent for nothing */
    CAY_TRY(cay__crowd_enter(r, "send it", err));
    CAY_TRY(take_body(r, &b, &fd, err));
    CAY_TRY(cay_build_submit(r->client, &b, id, err));
    cay__req_about(r, id);
    return reply_build(r, id, 202, err);
}

/* An image from its registry takes the same way. */
typedef struct pull_body {
    const char *image, *platform;
    const char *const *names;
    bool hidden;
} pull_body;
static const cay__field pull_fields[] = {
    { "image", CAY__F_STR, offsetof(pull_body, image), CAY__F_REQUIRED, .min = 1, .max = 400,
      .about = "[HOST[:PORT]/]NAME[:TAG][@DIGEST]" },
    { "names", CAY__F_STRS, offsetof(pull_body, names), .max = NAMES,
      .about = "of the template; left out: what the image is called" },
    { "platform", CAY__F_STR, offsetof(pull_body, platform), .max = 100,
      .about = "os/architecture; left out: this machine's" },
    { "hidden", CAY__F_BOOL, offsetof(pull_body, hidden),
      .about = "not for other tenants; a tenant's own never are" },
};
static const cay__shape pull_shape =
    CAY__SHAPE("TemplatePull", pull_body, pull_fields, "an image to get from its registry");

const cay__doc cay__doc_template_pull = {
    "pullTemplate", "templates",
    "get an image from its registry; what is answered is followed, listed and canceled as a build",
    .body = &pull_shape, .answers = { { 202, &build_shape }, { 400 } }
};
int cay__on_template_pull(cay__req *r, cay_err *err)
{
    char id[CAY_ID_LEN + 1];
    pull_body b = { 0 };
    CAY_TRY(cay__req_shape(r, &pull_shape, &b, err));
    for (const char *p = b.image; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return cay_fail_why(err, CAY_EINVAL, "template_name",
                                "image: blanks and control characters are in no name");
    cay_build spec = { .size = sizeof spec,
                       .pull = b.image,
                       .names = b.names,
                       .platform = cay__text_or(b.platform, NULL),
                       .tenant = r->who.tenant,
                       .hidden = b.hidden || strcmp(r->who.tenant, "default") != 0 };
    CAY_TRY(cay_build_submit(r->client, &spec, id, err));
    cay__req_about(r, id);
    return reply_build(r, id, 202, err);
}

static int add_build(const cay_build_info *b, void *arg)
{
    return cay__items_add(arg, b);
}

const cay__doc cay__doc_build_list = { "listBuilds", "builds", "builds, the newest first",
                                       .answers = { { 200, &build_shape, .list = true } } };
int cay__on_build_list(cay__req *r, cay_err *err)
{
    cay__items l;
    cay__items_begin(&l, r, &build_shape);
    int rc = cay_build_list(r->client, get_tenant_filter(r), add_build, &l, err);
    if (rc < 0)
        cay__items_drop(&l);
    if (rc < 0)
        return rc;
    return cay__items_reply(&l, 200, err);
}

#define OF(field) offsetof(cay_build_cache, field)
static const cay__field cache_fields[] = {
    { "id", CAY__F_STR, OF(id), .about = "as the Dockerfile has it, else its target" },
    { "volume", CAY__F_STR, OF(volume), .about = "that holds it" },
    { "tenant", CAY__F_STR, OF(tenant) },
    { "bytes", CAY__F_U64, OF(bytes) },
    { "limit", CAY__F_U64, OF(limit) },
    { "used_ms", CAY__F_I64, OF(used_ms), .about = "when a build last had it; 0: not known" },
};
static const cay__shape cache_shape = CAY__SHAPE("BuildCache", cay_build_cache, cache_fields,
                                                 "a directory that builds keep for the next one");

static int add_cache(const cay_build_cache *c, void *arg)
{
    return cay__items_add(arg, c);
}

const cay__doc cay__doc_build_caches = { "listBuildCaches", "builds",
                                         "what builds keep by RUN --mount=type=cache",
                                         .answers = { { 200, &cache_shape, .list = true } } };
int cay__on_build_caches(cay__req *r, cay_err *err)
{
    cay__items l;
    cay__items_begin(&l, r, &cache_shape);
    int rc = cay_build_caches(r->client, &r->call, get_tenant_filter(r), add_cache, &l, err);
    if (rc < 0)
        cay__items_drop(&l);
    if (rc < 0)
        return rc;
    return cay__items_reply(&l, 200, err);
}

const cay__doc cay__doc_build_get = { "getBuild", "builds", "one of them",
                                      .answers = { { 200, &build_shape }, { 404 } } };
int cay__on_build_get(cay__req *r, cay_err *err)
{
    return reply_build(r, r->param[0], 200, err);
}

const cay__doc cay__doc_build_cancel = { "cancelBuild", "builds", "stop one that waits or runs",
                                         .answers = { { 200, &build_shape }, { 404 }, { 409 } } };
int cay__on_build_cancel(cay__req *r, cay_err *err)
{
    CAY_TRY(reply_build(r, r->param[0], 0, err));
    CAY_TRY(cay_build_cancel(r->client, r->param[0], err));
    return reply_build(r, r->param[0], 200, err);
}

typedef struct pruned {
    size_t removed;
} pruned;
static const cay__field pruned_fields[] = { { "removed", CAY__F_SIZE, offsetof(pruned, removed),
                                              .about = "how many" } };
static const cay__shape pruned_shape =
    CAY__SHAPE("Removed", pruned, pruned_fields, "how much was removed");

const cay__doc cay__doc_build_prune = {
    "pruneBuilds", "builds",
    "forget what builds keep of their steps and nobody stands on; templates stay",
    .answers = { { 200, &pruned_shape } }
};
int cay__on_build_prune(cay__req *r, cay_err *err)
{
    pruned p = { 0 };
    CAY_TRY(cay_build_prune(r->client, &r->call, get_tenant_filter(r), &p.removed, err));
    return cay__reply_shape(r, 200, &pruned_shape, &p);
}

/* Its own in the same shape: what a crash left is removed. */
const cay__doc cay__doc_gc = {
    "collectGarbage", "about",
    "remove what belongs to no sandbox, template or snapshot: left by a crash, or by hand",
    .answers = { { 200, &pruned_shape } }
};
int cay__on_gc(cay__req *r, cay_err *err)
{
    pruned p = { 0 };
    size_t caches = 0;
    CAY_TRY(cay_client_gc(r->client, &r->call, &p.removed, err));
    CAY_TRY(cay_build_gc(r->client, &r->call, &caches, err));
    p.removed += caches;
    return cay__reply_shape(r, 200, &pruned_shape, &p);
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
        snprintf(id, sizeof id, "%llu", (unsigned long long)g->at);
        char at[48];
        cay__sse_event(out, id, "at", at, (size_t)snprintf(at, sizeof at, "{\"at\":%s}", id));
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
    (void)p, (void)ready, (void)out;
    return CAY__PUMP_WORK;
}

static void log_close(cay__pump *p)
{
    free(p->self);
}

static const cay__query log_query[] = {
    { "after", "integer",
      "go on from the id of an `at` event; the header Last-Event-ID does the same" },
    { "follow", "boolean", "0: what there is now, without waiting for more" },
    { NULL }
};
const cay__doc cay__doc_build_log = {
    "streamBuildLog", "builds",
    "what it says, as events step, out, err, note, warn and fail; the last one is end",
    .query = log_query, .answers = { { 200, .type = "text/event-stream" }, { 400 }, { 404 } }
};
int cay__on_build_log(cay__req *r, cay_err *err)
{
    const char *last = cay__head_field(&r->head, "last-event-id");
    uint64_t at = 0;
    CAY_TRY(reply_build(r, r->param[0], 0, err));
    CAY_TRY(cay__req_number(r, "after", 0, UINT64_MAX >> 1, &at, err));
    if (last && !cay__str_to_u64(last, &at))
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "Last-Event-ID is a number");
    logger *g = cay__alloc(sizeof *g);
    *g = (logger){ .client = r->client,
                   .at = at,
                   .said_ms = cay__native_now(),
                   .follow = !cay__req_query(r, "follow") || cay__req_flag(r, "follow") };
    cay__str_copy(g->id, sizeof g->id, r->param[0]);
    cay__pump p = { .fd = { -1, -1, -1 },
                    .beat_ms = LOOK_MS,
                    .self = g,
                    .pull = log_pull,
                    .work = log_work,
                    .close = log_close };
    return cay__reply_pump(r, 200, "text/event-stream", &p);
}
