/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of events for peers. */
#include "events.h"
#include "event_hub.h"
#include <base/base.h>

enum { BEAT_MS = 15000, TURN = 64 << 10, SEEN = 1024, KINDS = 12 };

typedef struct listener {
    cay__ear ear;
    struct cay__hub *hub;
    char sandbox[CAY_ID_LEN + 1]; /* "" for all */
    char tenant[64];              /* "" for all */
    char kinds[KINDS][16];
    size_t nkinds;
    bool lost;    /* what it asked to go on from is not known here any more */
    uint64_t now; /* what comes before this number was there when it joined; 0: it did not ask for
                     that */
} listener;

static void listener_close(cay__pump *p)
{
    listener *l = p->self;
    cay__hub_leave(l->hub, &l->ear);
    free(l);
}

static bool is_event_wanted(const listener *l, const cay__hub_event *e)
{
    if (*l->sandbox && strcmp(l->sandbox, e->sandbox) != 0)
        return !strcmp(e->kind, "lost") && !*e->sandbox;
    if (*l->tenant && strcmp(l->tenant, e->tenant) != 0)
        return !strcmp(e->kind, "lost") && !*e->sandbox;
    CAY_EACH_OF(it, l->kinds, l->nkinds)
        if (!strcmp(*it, e->kind))
            return true;
    return !l->nkinds;
}

typedef struct turn {
    listener *l;
    cay__buf *out;
    size_t from;
} turn;

static bool on_heard_event(const cay__hub_event *e, void *arg)
{
    turn *t = arg;
    char id[48];
    if (t->out->len - t->from > TURN)
        return false;
    if (e->len && is_event_wanted(t->l, e)) {
        snprintf(id, sizeof id, "%s.%llu", cay__hub_stream(t->l->hub),
                 (unsigned long long)e->number);
        cay__sse_event(t->out, id, e->kind, e->json, e->len);
    }
    return true;
}

static void tell_lost(const listener *l, uint64_t n, cay__buf *out)
{
    char id[48], json[96];
    snprintf(id, sizeof id, "%s.%llu", cay__hub_stream(l->hub),
             (unsigned long long)(l->ear.cursor - 1));
    int len = snprintf(json, sizeof json, "{\"kind\":\"lost\",\"reason\":\"%s\",\"code\":%llu}",
                       n ? "slow" : "unknown_id", (unsigned long long)n);
    cay__sse_event(out, id, "lost", json, (size_t)len);
}

/* From here on it is as it happens. */
static void tell_now(listener *l, cay__buf *out)
{
    static const char json[] = "{\"kind\":\"now\"}";
    char id[48];
    snprintf(id, sizeof id, "%s.%llu", cay__hub_stream(l->hub),
             (unsigned long long)(l->ear.cursor - 1));
    cay__sse_event(out, id, "now", json, sizeof json - 1);
    l->now = 0;
}

static int listener_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    listener *l = p->self;
    uint64_t missed;
    turn t = { l, out, out->len };
    if (l->lost)
        tell_lost(l, 0, out);
    l->lost = false;
    CAY_AUTOBUF news = CAY__BUF(1u << 20);
    t.out = &news;
    t.from = 0;
    cay__hub_hear(l->hub, &l->ear, &missed, on_heard_event, &t);
    if (missed && !l->now)
        tell_lost(l, missed, out);
    cay__buf_add(out, CAY_OR(news.data, ""), news.len);
    if (l->now && l->ear.cursor >= l->now)
        tell_now(l, out);
    if (!ready && !news.len && !missed)
        cay__buf_str(out, ":\n\n");
    if (out->full)
        return CAY_ETOOBIG;
    return CAY__PUMP_ON;
}

/* STREAM.NUMBER: go on behind it. 0: first all that is kept. */
static int go_on(listener *l, const char *after, cay_err *err)
{
    uint64_t n;
    const char *dot = strchr(after, '.');
    if (!strcmp(after, "0")) {
        l->now = l->ear.cursor;
        l->ear.cursor = 1;
        return 0;
    }
    if (!dot || dot - after != 8 || !dot[1] || !cay__str_to_u64(dot + 1, &n))
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "\"%.40s\" is no id of an event", after);
    if (memcmp(after, cay__hub_stream(l->hub), 8) != 0 || n >= l->ear.cursor)
        l->lost = true; /* of another life of the server */
    else
        l->ear.cursor = n + 1;
    return 0;
}

int cay__events_reply(cay__req *r, const cay__listen_spec *spec, cay_err *err)
{
    listener *l = cay__alloc(sizeof *l);
    int rc = 0;
    l->hub = cay__server_hub(r->server);
    cay__str_copy(l->sandbox, sizeof l->sandbox, CAY_OR(spec->sandbox, ""));
    if (r->who.scope != CAY__SCOPE_ADMIN &&
        !spec->sandbox) /* of one sandbox it was judged already */
        cay__str_copy(l->tenant, sizeof l->tenant, r->who.tenant);
    for (size_t i = 0; spec->kinds && spec->kinds[i] && rc == 0; i++) {
        if (i < KINDS && cay__str_copy(l->kinds[l->nkinds++], sizeof l->kinds[0], spec->kinds[i]))
            rc = 0;
        else
            rc = cay_fail_why(err, CAY_EINVAL, "bad_query", "?kind=%.30s: there is no such event",
                              spec->kinds[i]);
    }
    if (rc == 0)
        rc = cay__hub_join(l->hub, &l->ear, err);
    if (rc < 0) {
        free(l);
        return rc;
    }
    if (spec->after && (rc = go_on(l, spec->after, err)) < 0) {
        cay__hub_leave(l->hub, &l->ear);
        free(l);
        return rc;
    }
    if (l->ear.cursor || l->lost || l->now)
        cay__hub_ring(&l->ear);
    cay__reply_field(r, "Cache-Control", "no-store");
    return cay__reply_pump(r, 200, "text/event-stream",
                           &(cay__pump){ .fd = { l->ear.bell, -1, -1 },
                                         .beat_ms = BEAT_MS,
                                         .self = l,
                                         .pull = listener_pull,
                                         .close = listener_close });
}

struct cay__net_follow {
    listener l; /* first: the same close */
    cay__req *r;
    cay__buf first; /* of the log */
    bool denied;
    uint32_t seen[SEEN];
    size_t nseen;
};

int cay__net_follow_open(cay__req *r, const char *sandbox, bool denied, cay__net_follow **out,
                         cay_err *err)
{
    cay__net_follow *f = cay__alloc(sizeof *f);
    f->l.hub = cay__server_hub(r->server);
    f->r = r;
    f->denied = denied;
    f->first = (cay__buf)CAY__BUF(64u << 20);
    cay__str_copy(f->l.sandbox, sizeof f->l.sandbox, sandbox);
    cay__str_copy(f->l.kinds[f->l.nkinds++], sizeof f->l.kinds[0], "net");
    int rc = cay__hub_join(f->l.hub, &f->l.ear, err);
    if (rc < 0)
        free(f);
    else
        *out = f;
    return rc;
}

void cay__net_follow_record(cay__net_follow *f, const cay_net_record *rec)
{
    cay__sse_event(&f->first, NULL, "record", rec->json, strlen(rec->json));
    f->seen[f->nseen++ % SEEN] = cay__net_mark(rec);
}

static bool tell_record(const cay__hub_event *e, void *arg)
{
    turn *t = arg;
    cay__net_follow *f = (cay__net_follow *)t->l;
    if (t->out->len > TURN)
        return false;
    if (!e->net_at || !e->len || strcmp(e->sandbox, f->l.sandbox) != 0 || (f->denied && !e->denied))
        return true;
    CAY_EACH_OF(it, f->seen, CAY_MIN(f->nseen, (size_t)SEEN))
        if (*it == e->mark) {
            *it = 0;
            return true;
        }
    cay__sse_event(t->out, NULL, "record", e->json + e->net_at, e->len - e->net_at - 1);
    return true;
}

static int follow_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    cay__net_follow *f = p->self;
    uint64_t missed;
    if (f->first.len) {
        cay__buf_add(out, f->first.data, f->first.len);
        cay__buf_clear(&f->first);
    }
    CAY_AUTOBUF news = CAY__BUF(1u << 20);
    cay__hub_hear(f->l.hub, &f->l.ear, &missed, tell_record, &(turn){ &f->l, &news, 0 });
    if (missed)
        cay__buf_str(out, "event: lost\ndata: {}\n\n");
    cay__buf_add(out, CAY_OR(news.data, ""), news.len);
    if (!ready && !news.len)
        cay__buf_str(out, ":\n\n");
    if (out->full)
        return CAY_ETOOBIG;
    return CAY__PUMP_ON;
}

void cay__net_follow_drop(cay__net_follow *f)
{
    cay__hub_leave(f->l.hub, &f->l.ear);
    cay__buf_clear(&f->first);
    free(f);
}

static void follow_close(cay__pump *p)
{
    cay__net_follow_drop(p->self);
}

int cay__net_follow_reply(cay__net_follow *f)
{
    cay__hub_ring(&f->l.ear);
    cay__reply_field(f->r, "Cache-Control", "no-store");
    return cay__reply_pump(f->r, 200, "text/event-stream",
                           &(cay__pump){ .fd = { f->l.ear.bell, -1, -1 },
                                         .beat_ms = BEAT_MS,
                                         .self = f,
                                         .pull = follow_pull,
                                         .close = follow_close });
}
