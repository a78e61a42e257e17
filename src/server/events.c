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
} turn;

/* Of our own the number is that of the last one before them. */
static void put_event(const listener *l, uint64_t number, const char *kind, const char *json,
                      size_t len, cay__buf *out)
{
    char id[48];
    CAY_FORMAT(id, "%s.%llu", cay__hub_stream(l->hub), (unsigned long long)number);
    cay__sse_event(out, id, kind, json, len);
}

static bool on_heard_event(const cay__hub_event *e, void *arg)
{
    turn *t = arg;
    if (t->out->len > TURN)
        return false;
    if (e->len && is_event_wanted(t->l, e))
        put_event(t->l, e->number, e->kind, e->json, e->len, t->out);
    return true;
}

static void tell_lost(const listener *l, uint64_t n, cay__buf *out)
{
    char json[96];
    int len = CAY_FORMAT(json, "{\"kind\":\"lost\",\"reason\":\"%s\",\"code\":%llu}",
                         n ? "slow" : "unknown_id", (unsigned long long)n);
    put_event(l, l->ear.cursor - 1, "lost", json, (size_t)len, out);
}

/* From here on it is as it happens. */
static void tell_now(listener *l, cay__buf *out)
{
    static const char json[] = "{\"kind\":\"now\"}";
    put_event(l, l->ear.cursor - 1, "now", json, sizeof json - 1, out);
    l->now = 0;
}

static int listener_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    listener *l = p->self;
    uint64_t missed;
    if (l->lost)
        tell_lost(l, 0, out);
    l->lost = false;
    CAY_AUTOBUF news = CAY__BUF(1u << 20);
    cay__hub_hear(l->hub, &l->ear, &missed, on_heard_event, &(turn){ l, &news });
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

/* l: what begins with it is the pump's own. */
static int reply_heard(cay__req *r, listener *l,
                       int (*pull)(cay__pump *p, unsigned ready, cay__buf *out),
                       void (*close)(cay__pump *p))
{
    return cay__reply_pump(r, 200, "text/event-stream",
                           &(cay__pump){ .fd = { l->ear.bell, -1, -1 },
                                         .beat_ms = BEAT_MS,
                                         .self = l,
                                         .pull = pull,
                                         .close = close });
}

int cay__events_reply(cay__req *r, const cay__listen_spec *spec, cay_err *err)
{
    listener *l = cay__alloc(sizeof *l);
    int rc = 0;
    l->hub = cay__server_hub(r->server);
    CAY_COPY(l->sandbox, CAY_OR(spec->sandbox, ""));
    if (r->who.scope != CAY__SCOPE_ADMIN &&
        !spec->sandbox) /* of one sandbox it was judged already */
        CAY_COPY(l->tenant, r->who.tenant);
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
    return reply_heard(r, l, listener_pull, listener_close);
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
    CAY_COPY(f->l.sandbox, sandbox);
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
    cay__hub_hear(f->l.hub, &f->l.ear, &missed, tell_record, &(turn){ &f->l, &news });
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
    return reply_heard(f->r, &f->l, follow_pull, follow_close);
}
