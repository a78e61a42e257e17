/* SPDX-License-Identifier: Apache-2.0 */
/* A request for a preview: which port of which sandbox, may it be seen, and on its way. */
#include "preview.h"
#include <base/base.h>
#include <strings.h>

enum { CONNECT_MS = 10000, TOKEN_MAX = 128 };

static int on_preview(cay__req *r, cay_err *err);

static int on_known(cay__req *r, cay_err *err);

static int admit_preview(cay__req *r, cay_err *err);

static const cay__route preview_route = CAY__ROUTE("*", "", on_preview, CAY__OP_OPEN | CAY__OP_RAW);
/* With a token that was good a moment ago nothing has to be asked, and no worker is needed. */
static const cay__route known_route =
    CAY__ROUTE("*", "", on_known, CAY__OP_OPEN | CAY__OP_RAW | CAY__OP_LOOP);
const cay__dialect cay__preview_dialect = { .name = "preview",
                                            .base = "/preview",
                                            .routes = &preview_route,
                                            .nroutes = 0,
                                            .admit = admit_preview,
                                            .fail = cay__preview_page };

const cay__route *cay__preview_route(const cay__server *s, const cay__head *h, bool by_path)
{
    cay__preview_at at;
    int path = 0;
    if (!cay__preview_host(h->host, cay__server_domain(s), &at) &&
        !(by_path && (path = cay__preview_path(h->path, &at))))
        return NULL;
    const char *token = NULL;
    if (path >= 0)
        token = cay__preview_token(h);
    cay_sandbox *sb = NULL;
    if (token)
        sb = cay__previews_known(cay__server_previews((cay__server *)(uintptr_t)s), &at, token,
                                 false);
    if (!sb)
        return &preview_route;
    cay_sandbox_unref(sb);
    return &known_route;
}

static int find_target(cay__req *r, cay__preview_at *at, cay_err *err)
{
    if (!strcmp(r->head.method, "CONNECT") || !strcmp(r->head.method, "TRACE"))
        return cay_fail_why(err, CAY_ENOTSUP, "preview_method",
                            "%s does not pass through a preview", r->head.method);
    if (cay__preview_host(r->head.host, cay__server_domain(r->server), at) ||
        cay__preview_path(r->head.path, at) > 0)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "preview_unknown", "want /preview/SANDBOX/PORT/");
}

static bool has_field_value(const cay__req *r, const char *field, const char *value)
{
    const char *v = cay__head_field(&r->head, field);
    return v && !strcasecmp(v, value);
}

/* By path it is our own origin: no page of ours runs what a sandbox serves, and no worker of it
 * stays. */
static int judge_path(const cay__req *r, cay_err *err)
{
    static const char *const code[] = { "script", "style", "worker", "sharedworker",
                                        "object", "embed", "xslt" };
    bool bad = has_field_value(r, "sec-fetch-dest", "serviceworker") ||
               has_field_value(r, "service-worker", "script");
    CAY_EACH(it, code)
        bad |= has_field_value(r, "sec-fetch-site", "same-origin") &&
               has_field_value(r, "sec-fetch-dest", *it);
    if (bad)
        return cay_fail_why(err, CAY_EPERM, "preview_foreign_page",
                            "by path a preview is for programs; open it by its host name");
    return 0;
}

/* This address without the token: whole, so that a path like //elsewhere stays a path. */
static void write_address(const cay__req *r, const char *path, const char *query, cay__buf *out)
{
    cay__buf_fmt(out, "%s://%s%s", cay__scheme(r->tls), r->head.host, *path == '/' ? path : "/");
    if (*query)
        cay__buf_fmt(out, "?%s", query);
}

static int reply_redirect(cay__req *r, int status, const char *where)
{
    cay__reply_field(r, "location", where);
    cay__reply_field(r, "cache-control", "no-store");
    return cay__reply(r, status, NULL, NULL, 0);
}

static int to_slash(cay__req *r)
{
    CAY_AUTOBUF where = CAY__BUF(CAY__HEAD_MAX + 1024);
    cay__buf_fmt(&where, "%s/%s%s", r->head.path, *r->head.query ? "?" : "", r->head.query);
    return reply_redirect(r, 308, where.data);
}

/* Someone opened a link with a token in it: the token moves into a cookie, and out of the address.
 */
static bool wants_cookie(const cay__req *r, const cay__preview_at *at)
{
    const char *mode = cay__head_field(&r->head, "sec-fetch-mode");
    return !at->by_path && !strcmp(r->head.method, "GET") && !r->head.upgrade &&
           cay__preview_html(&r->head) && (!mode || !strcasecmp(mode, "navigate"));
}

static int give_cookie(cay__req *r, const char *token, const char *query)
{
    char name[32];
    CAY_AUTOBUF cookie = CAY__BUF(512), where = CAY__BUF(CAY__HEAD_MAX + 1024);
    const char *site = cay__head_field(&r->head, "sec-fetch-site");
    cay__preview_cookie(r, name);
    /* In a frame of the console, which is another site on localhost, a strict cookie is neither
     * taken nor sent. One that is partitioned is good in frames of that one site only, and
     * own_page() keeps every other page from using it; an hour is as long as the console's own
     * tokens live. Browsers count localhost as secure. */
    const char *dest = cay__head_field(&r->head, "sec-fetch-dest");
    bool framed = site && !strcasecmp(site, "cross-site") && dest && !strcasecmp(dest, "iframe");
    cay__buf_fmt(&cookie, "%s=%s; Path=/; HttpOnly; SameSite=%s%s", name, token,
                 framed ? "None; Partitioned; Max-Age=3600" : "Strict",
                 r->tls || framed ? "; Secure" : "");
    write_address(r, r->head.path, query, &where);
    cay__reply_field(r, "set-cookie", cookie.data);
    /* After a redirect it would still be another site that asks, and a strict cookie stays at home:
     * then the page itself goes on. */
    if (site && strcasecmp(site, "none") != 0 && strcasecmp(site, "same-origin") != 0)
        return cay__preview_forward(r, where.data);
    cay__reply_field(r, "referrer-policy", "no-referrer");
    return reply_redirect(r, 303, where.data);
}

static void give_back(void *sb)
{
    cay_sandbox_unref(sb);
}

/* A token stands for its sandbox, whoever's that is. */
static int wake_sandbox(cay__req *r, const char *id, cay_sandbox **out, cay_err *err)
{
    if (*r->who.tenant) {
        CAY_TRY(cay__req_sandbox(r, id, out, err));
    } else {
        CAY_TRY(cay_client_find_of(r->client, &r->call, NULL, id, out, err));
        cay__req_defer(r, give_back, *out);
    }
    return cay_sandbox_wake(*out, &r->call, err);
}

/* One that is paused holds its connections and says nothing. */
static bool is_sandbox_running(cay_sandbox *sb, const cay_call *call)
{
    cay_info *info = NULL;
    if (cay_sandbox_describe(sb, call, &info, NULL) < 0)
        return false;
    bool yes = info->state == CAY_RUNNING;
    cay_info_free(info);
    return yes;
}

/* *fd -1: one that waits will do, if there is any. */
static int connect_port(cay__req *r, cay_sandbox *sb, const cay__preview_at *at, int *fd,
                        cay_err *err)
{
    cay_call call = r->call;
    int64_t limit = cay__now_ms() + CONNECT_MS;
    if (call.deadline_ms)
        call.deadline_ms = CAY_MIN(call.deadline_ms, limit);
    else
        call.deadline_ms = limit;
    *fd = -1;
    if (!r->head.upgrade && !r->as_tls && is_sandbox_running(sb, &call))
        return 0;
    return cay_port_connect(sb, &call, at->port, fd, err);
}

/* sb: known already; or NULL. */
static int pass_on(cay__req *r, const cay__preview_at *at, const char *query, cay_sandbox *sb,
                   cay_err *err)
{
    const char *token = cay__preview_token(&r->head);
    CAY_AUTOBUF head = CAY__BUF(CAY__HEAD_MAX + 4096);
    const cay__head *h = &r->head;
    cay__preview_start s = { .fd = -1, .html = cay__preview_html(h) };
    s.back =
        (cay__preview_back){ .at = *at,
                             .tls = r->tls,
                             .head_only = !strcmp(h->method, "HEAD"),
                             .http10 = h->minor == 0,
                             .keep = h->keep_alive,
                             .tls_inside = r->as_tls,
                             .websocket = h->upgrade && !strcasecmp(h->upgrade, "websocket") &&
                                          !strcmp(h->method, "GET") && h->body == CAY__BODY_NONE };
    if (!CAY_COPY(s.back.host, h->host))
        return cay_fail_why(err, CAY_EINVAL, "host_invalid", "the Host is too long");
    cay__preview_request(&(cay__preview_ask){ .at = at,
                                              .head = h,
                                              .query = query,
                                              .peer = r->peer,
                                              .host = r->as_host,
                                              .trace = r->call.trace,
                                              .tls = r->tls,
                                              .websocket = s.back.websocket,
                                              .tls_inside = r->as_tls },
                         &head);
    if (head.full)
        return cay_fail_why(err, CAY_ETOOBIG, "head_too_big",
                            "the head is too long to be passed on");
    if (!sb) {
        CAY_TRY(wake_sandbox(r, at->id, &sb, err));
        CAY_TRY(connect_port(r, sb, at, &s.fd, err));
        if (token && !r->as_host &&
            !r->as_tls) /* what is known says nothing of how the program is spoken to */
            cay__previews_learn(cay__server_previews(r->server), at, token, sb);
    }
    s.sb = sb;
    return cay__preview_flow(r, &s, &head);
}

/* What was asked for, and what showed that it may be. */
typedef struct admitted {
    cay__preview_at at;
    const char *query; /* without the token */
    char token[TOKEN_MAX];
    cay_sandbox *sb; /* known already; or NULL */
} admitted;

/* With a token that was good a moment ago nothing is asked. */
static int admit_known(cay__req *r, admitted *a, cay_err *err)
{
    a->sb = cay__previews_known(cay__server_previews(r->server), &a->at,
                                cay__preview_token(&r->head), true);
    if (!a->sb)
        return cay_fail(err, CAY_EBUSY, "ask again");
    cay__req_defer(r, give_back, a->sb);
    r->who = (cay__actor){ .scope = CAY__SCOPE_PORT, .port = a->at.port };
    memcpy(r->who.sandbox, a->at.id, sizeof a->at.id);
    return 0;
}

static int admit_preview(cay__req *r, cay_err *err)
{
    admitted *a = cay__arena_take(&r->arena, sizeof *a);
    CAY_AUTOBUF query = CAY__BUF(CAY__HEAD_MAX);
    CAY_TRY(find_target(r, &a->at, err));
    cay__query_strip(r->head.query, CAY__PREVIEW_TOKEN, &query, a->token, sizeof a->token);
    a->query = cay__arena_str(&r->arena, CAY_OR(query.data, ""));
    r->admitted = a;
    if (a->at.by_path)
        CAY_TRY(judge_path(r, err));
    if (r->route == &known_route)
        return admit_known(r, a, err);
    return cay__preview_access(r, &a->at, a->token, err);
}

static bool lacks_slash(const cay__req *r, const cay__preview_at *at)
{
    return at->by_path && !r->head.path[at->prefix];
}

static int on_preview(cay__req *r, cay_err *err)
{
    const admitted *a = r->admitted;
    if (lacks_slash(r, &a->at))
        return to_slash(r);
    if (*a->token && wants_cookie(r, &a->at))
        return give_cookie(r, a->token, a->query);
    for (const cay__dialect *const *d = cay__dialects; *d; d++)
        if ((*d)->shows)
            (*d)->shows(r, a->at.id, a->at.port);
    return pass_on(r, &a->at, a->query, NULL, err);
}

static int on_known(cay__req *r, cay_err *err)
{
    const admitted *a = r->admitted;
    if (lacks_slash(r, &a->at))
        return to_slash(r);
    return pass_on(r, &a->at, a->query, a->sb, err);
}
