/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's log: what was asked of it (the audit log), its commands, and what it reached or was
 * refused (the network log), in order of time. */
#include "e2b.h"

enum { LINES = 1000, KEPT = 20000 };

typedef struct line {
    int64_t ms;
    size_t n; /* lines of the same moment stay in order */
    const char *level, *logger;
    char *message;
} line;

typedef struct log_ {
    cay__arena *mem;
    line *v;
    size_t n, cap;
} log_;

static void append_line(log_ *l, int64_t ms, const char *level, const char *logger, cay__buf *text)
{
    if (l->n == KEPT)
        return;
    l->v = e2b_grow(l->v, l->n, &l->cap, sizeof *l->v);
    l->v[l->n] = (line){ .ms = ms,
                         .n = l->n,
                         .level = level,
                         .logger = logger,
                         .message = cay__arena_str(l->mem, CAY_OR(text->data, "")) };
    l->n++;
}

static int add_audit(const cay_audit *a, void *arg)
{
    CAY_AUTOBUF b = CAY__BUF(2048);
    cay__buf_fmt(&b, "%s: %s, status %d, %llu us, by %s", a->action, a->verdict, a->status,
                 (unsigned long long)a->us, a->actor);
    append_line(arg, a->time_ms, strcmp(a->verdict, "ok") ? "warn" : "info", "api", &b);
    return 0;
}

static int add_net(const cay_net_record *r, void *arg)
{
    CAY_AUTOBUF b = CAY__BUF(2048);
    bool bad = !strcmp(r->verdict, "deny") || !strcmp(r->verdict, "fail");
    if (!strcmp(r->event, "policy"))
        return 0;
    cay__buf_fmt(&b, "%s %s", r->event, r->verdict);
    if (*r->name || *r->address)
        cay__buf_fmt(&b, " %s", cay__text_or(r->name, r->address));
    if (r->port)
        cay__buf_fmt(&b, ":%u", r->port);
    if (*r->reason)
        cay__buf_fmt(&b, " (%s)", r->reason);
    append_line(arg, r->time_ms, bad ? "warn" : "debug", "network", &b);
    return 0;
}

static int add_proc(const cay_proc_info *i, void *arg)
{
    CAY_AUTOBUF b = CAY__BUF(4096);
    if (!*i->id)
        return 0;
    cay__buf_fmt(&b, "process %d: %.1000s", i->pid, i->command);
    if (i->state == 'X')
        cay__buf_fmt(&b, " (ended: %s %d)", i->exit.signal ? "signal" : "code",
                     CAY_OR(i->exit.signal, i->exit.code));
    append_line(arg, i->started_ms, "info", "process", &b);
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const line *x = a, *y = b;
    int64_t d = CAY_OR(x->ms - y->ms, (int64_t)x->n - (int64_t)y->n);
    return (d > 0) - (d < 0);
}

static int collect_lines(cay__req *r, const e2b_box *b, log_ *l, cay_err *err)
{
    const cay_audit_filter f = { .size = sizeof f, .object = b->info->id, .last = KEPT / 2 };
    CAY_TRY(cay_audit_list(r->client, &f, add_audit, l, err));
    if (e2b_running(b->info))
        cay_sandbox_procs(b->sb, &r->call, add_proc, l, NULL);
    cay_net_log(b->sb, add_net, l, NULL); /* without a network there is none */
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_time);
    return 0;
}

typedef struct want {
    uint64_t cursor, limit;
    bool backward;
    const char *level, *search;
} want;

int e2b_level(const char *level)
{
    static const char *const levels[] = { "debug", "info", "warn", "error" };
    CAY_EACH(it, levels)
        if (!strcmp(*it, level))
            return (int)(it - levels);
    return -1;
}

static bool is_line_wanted(const want *w, const line *x)
{
    if (w->cursor && (w->backward ? x->ms > (int64_t)w->cursor : x->ms < (int64_t)w->cursor))
        return false;
    if (w->level && e2b_level(x->level) < e2b_level(w->level))
        return false;
    return !w->search || strcasestr(x->message, w->search);
}

static json_t *describe_entry(const line *x)
{
    char when[32];
    return json_pack("{s:s,s:o,s:s,s:{s:s}}", "timestamp", e2b_when(x->ms, when), "message",
                     cay__json_bytes(x->message), "level", x->level, "fields", "logger", x->logger);
}

/* E2B's command line reads each line as an object with a level. */
static json_t *describe_line(const line *x)
{
    char when[32];
    e2b_when(x->ms, when);
    CAY_AUTOJSON *o = json_pack("{s:s,s:s,s:o,s:s}", "level", x->level, "logger", x->logger,
                                "message", cay__json_bytes(x->message), "timestamp", when);
    CAY_AUTOFREE char *text = cay__json_text(o, 65536);
    return json_pack("{s:s,s:s}", "timestamp", when, "line",
                     CAY_OR(text, "{\"level\":\"error\",\"message\":\"a line that is too long\"}"));
}

static int reply_logs(cay__req *r, const want *w, bool v1, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    CAY_TRY(e2b_open(r, &b, err));
    log_ l = { .mem = &r->arena };
    int rc = collect_lines(r, &b, &l, err);
    CAY_AUTOJSON *entries = json_array(), *lines = json_array();
    for (size_t k = 0; rc == 0 && k < l.n && json_array_size(entries) < w->limit; k++) {
        const line *x = &l.v[w->backward ? l.n - 1 - k : k];
        if (!is_line_wanted(w, x))
            continue;
        json_array_append_new(entries, describe_entry(x));
        if (v1)
            json_array_append_new(lines, describe_line(x));
    }
    free(l.v);
    CAY_TRY(rc);
    if (v1)
        return cay__reply_pack(r, 200, "{s:O,s:O}", "logs", lines, "logEntries", entries);
    return cay__reply_pack(r, 200, "{s:O}", "logs", entries);
}

int e2b_on_logs(cay__req *r, cay_err *err)
{
    want w = { 0 };
    CAY_TRY(cay__req_number(r, "start", 0, INT64_MAX, &w.cursor, err));
    CAY_TRY(cay__req_number(r, "limit", LINES, LINES, &w.limit, err));
    return reply_logs(r, &w, true, err);
}

int e2b_on_logs_v2(cay__req *r, cay_err *err)
{
    want w = { .level = cay__req_query(r, "level"), .search = cay__req_query(r, "search") };
    const char *direction = cay__req_query(r, "direction");
    CAY_TRY(cay__req_number(r, "cursor", 0, INT64_MAX, &w.cursor, err));
    CAY_TRY(cay__req_number(r, "limit", LINES, LINES, &w.limit, err));
    if (w.level && e2b_level(w.level) < 0)
        return cay_fail(err, CAY_EINVAL, "level is debug, info, warn or error");
    if (w.search && strlen(w.search) > 256)
        return cay_fail(err, CAY_EINVAL, "search has at most 256 bytes");
    if (direction && strcmp(direction, "forward") && strcmp(direction, "backward"))
        return cay_fail(err, CAY_EINVAL, "direction is forward or backward");
    w.backward = direction && !strcmp(direction, "backward");
    return reply_logs(r, &w, false, err);
}

/* The one team there is: the tenant of the key. */
int e2b_on_teams(cay__req *r, cay_err *err)
{
    return cay__reply_pack(r, 200, "[{s:s,s:s,s:s,s:b}]", "teamID", r->who.tenant, "name",
                           r->who.tenant, "apiKey", "", "isDefault", true);
}
