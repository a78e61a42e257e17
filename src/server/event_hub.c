/* SPDX-License-Identifier: Apache-2.0 */
#include "event_hub.h"
#include <base/base.h>
#include <cay/snapshot.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

enum {
    OWNERS = 4096,
    STACK = 256 << 10,
    AGAIN_MS = 1000,
    LOOK_MS = 10000,
    SNAPS_MS = 1000,
    SNAPS = 100
};

typedef struct owner {
    char id[CAY_ID_LEN + 1], tenant[64];
} owner;

struct cay__hub {
    cay_client *client;
    pthread_mutex_t lock;
    pthread_t thread;
    bool started;
    int stop; /* eventfd */
    cay_events *events;
    char stream[9];
    uint64_t next; /* number of the next event; the first is 1 */
    cay__hub_event *ring;
    owner *owners;
    cay__ear *ears;
    char last_snap[CAY_ID_LEN + 1]; /* the newest that was told of, or was there before */
    bool knows_snaps;
    int64_t snaps_at; /* when to look for newer ones */
};

struct cay__hub *cay__hub_new(cay_client *client)
{
    struct cay__hub *h = cay__alloc(sizeof *h);
    uint32_t n;
    cay__random(&n, sizeof n);
    CAY_FORMAT(h->stream, "%08x", n);
    pthread_mutex_init(&h->lock, NULL);
    h->client = client;
    h->stop = -1;
    h->next = 1;
    return h;
}

void cay__hub_free(struct cay__hub *h)
{
    if (h->started) {
        eventfd_write(h->stop, 1);
        pthread_join(h->thread, NULL);
        cay_events_close(h->events);
    }
    for (size_t i = 0; h->ring && i < CAY__HUB_KEPT; i++)
        free(h->ring[i].json);
    free(h->ring);
    free(h->owners);
    cay__close_fd(&h->stop);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

const char *cay__hub_stream(const struct cay__hub *h)
{
    return h->stream;
}

uint32_t cay__net_mark(const cay_net_record *rec)
{
    char text[512];
    int n = CAY_FORMAT(text, "%" PRId64 " %" PRIu64 " %u %s %s %.200s %.60s", rec->time_ms,
                       rec->flow, rec->port, rec->event, rec->verdict, rec->name, rec->address);
    return cay__hash(text, (size_t)CAY_MIN(n, (int)sizeof text - 1));
}

static owner *find_owner(struct cay__hub *h, const char *id)
{
    return &h->owners[cay__hash(id, strlen(id)) % OWNERS];
}

static int on_info(const cay_info *info, void *arg)
{
    owner *o = find_owner(arg, info->id);
    if (*info->tenant == '.') /* nobody's yet: who takes it from its pool is asked for again, and
                                 hears what comes then */
        return 0;
    CAY_COPY(o->id, info->id);
    CAY_COPY(o->tenant, info->tenant);
    return 0;
}

/* "" when nobody knows: then only an admin hears of it. Remembered, because of a sandbox that is
 * gone nobody could say. */
static const char *tenant_of(struct cay__hub *h, const char *id)
{
    cay_sandbox *sb;
    cay_info *info;
    owner *o = find_owner(h, id);
    if (!strcmp(o->id, id))
        return o->tenant;
    cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + LOOK_MS };
    if (!*id || cay_client_find_of(h->client, &soon, NULL, id, &sb, NULL) < 0)
        return "";
    if (cay_sandbox_describe(sb, &soon, &info, NULL) == 0) {
        on_info(info, h);
        cay_info_free(info);
    }
    cay_sandbox_unref(sb);
    if (!strcmp(o->id, id))
        return o->tenant;
    return "";
}

static void string_member(cay__buf *b, const char *name, const char *value)
{
    value = CAY_OR(value, "");
    cay__buf_fmt(b, ",\"%s\":", name);
    cay__buf_json(b, value, strlen(value));
}

/* more: the members that only events of its kind have, each with a comma before it; or NULL. */
static void describe_event(cay__hub_event *x, const cay_event *e, const char *more)
{
    cay__buf b = CAY__BUF(65536);
    cay__buf_fmt(&b, "{\"time_ms\":%" PRId64 ",\"seq\":%" PRIu64, e->time_ms, x->number);
    string_member(&b, "sandbox", e->sandbox);
    string_member(&b, "kind", e->kind);
    string_member(&b, "reason", e->reason);
    string_member(&b, "process", e->process);
    cay__buf_fmt(&b, ",\"code\":%d", e->code);
    if (more)
        cay__buf_str(&b, more);
    if (e->net) {
        cay__buf_str(&b, ",\"net\":");
        x->net_at = b.len;
        cay__buf_str(&b, e->net->json);
        x->mark = cay__net_mark(e->net);
        x->denied = !strcmp(e->net->verdict, "deny");
    }
    cay__buf_str(&b, "}");
    x->json = b.data;
    if (b.full)
        x->len = 0;
    else
        x->len = b.len;
}

static void publish_of(struct cay__hub *h, const char *tenant, const cay_event *e, const char *more)
{
    cay__hub_event x = { .len = 0 };
    CAY_COPY(x.sandbox, e->sandbox);
    CAY_COPY(x.kind, e->kind);
    CAY_COPY(x.tenant, tenant);
    pthread_mutex_lock(&h->lock);
    x.number = h->next;
    describe_event(&x, e, more);
    cay__hub_event *slot = &h->ring[h->next++ % CAY__HUB_KEPT];
    free(slot->json);
    *slot = x;
    for (cay__ear *ear = h->ears; ear; ear = ear->next)
        eventfd_write(ear->bell, 1);
    pthread_mutex_unlock(&h->lock);
}

static void publish_event(struct cay__hub *h, const cay_event *e, const char *more)
{
    publish_of(h, tenant_of(h, e->sandbox), e, more);
}

void cay__hub_progress(struct cay__hub *h, const char *tenant, const char *key,
                       const cay_manifest_progress *p)
{
    pthread_mutex_lock(&h->lock);
    bool heard = h->started && h->ears;
    pthread_mutex_unlock(&h->lock);
    if (!heard)
        return;
    CAY_AUTOBUF more = CAY__BUF(4096);
    string_member(&more, "key", key);
    cay__buf_fmt(&more,
                 ",\"entries\":%" PRIu64 ",\"entries_total\":%" PRIu64 ",\"bytes\":%" PRIu64
                 ",\"bytes_total\":%" PRIu64,
                 p->entries, p->entries_total, p->bytes, p->bytes_total);
    if (!more.full)
        publish_of(h, tenant,
                   &(cay_event){ .size = sizeof(cay_event),
                                 .time_ms = cay__clock_ms(),
                                 .sandbox = "",
                                 .kind = "progress",
                                 .reason = "manifest",
                                 .process = "" },
                   more.data);
}

static void publish_snap(struct cay__hub *h, const cay_event *e, const char *snapshot)
{
    char more[32 + CAY_ID_LEN];
    CAY_FORMAT(more, ",\"snapshot\":\"%.*s\"", CAY_ID_LEN,
               snapshot); /* an id: nothing in it wants escaping */
    publish_event(h, e, more);
}

/* Providers tell nothing of them, and anybody on this host may take one: the store is asked for
 * newer ones, while somebody listens. */
static int on_snap(const cay_snapshot *s, void *arg)
{
    struct cay__hub *h = arg;
    CAY_COPY(h->last_snap, s->id);
    if (h->knows_snaps)
        publish_snap(h,
                     &(cay_event){ .size = sizeof(cay_event),
                                   .time_ms = s->created_ms,
                                   .sandbox = s->sandbox,
                                   .kind = "snapshot",
                                   .reason = s->method,
                                   .process = "" },
                     s->id);
    return 0;
}

static int newer_snaps(struct cay__hub *h)
{
    cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + LOOK_MS };
    char after[CAY_ID_LEN + 1];
    CAY_COPY(after, h->last_snap); /* it changes meanwhile */
    cay_snapshot_filter f = { .size = sizeof f,
                              .after = cay__text_or(after, NULL),
                              .limit = h->knows_snaps ? SNAPS : 0 };
    return cay_client_snapshots(h->client, &soon, &f, on_snap, h, NULL);
}

static void look_for_snaps(struct cay__hub *h)
{
    char gone[CAY_ID_LEN + 1];
    bool knew = h->knows_snaps;
    CAY_COPY(gone, h->last_snap);
    int rc = newer_snaps(h);
    if (rc == CAY_ENOENT && *gone) { /* that one was removed: from the newest there is, and whoever
                                        draws them asks for all of them */
        *h->last_snap = 0;
        h->knows_snaps = false;
        rc = newer_snaps(h);
        if (rc == 0 && knew)
            publish_snap(h,
                         &(cay_event){ .size = sizeof(cay_event),
                                       .time_ms = cay__clock_ms(),
                                       .sandbox = "",
                                       .kind = "snapshot",
                                       .reason = "removed",
                                       .process = "" },
                         gone);
    }
    h->knows_snaps = h->knows_snaps || rc == 0;
}

static bool heard_by_anyone(struct cay__hub *h)
{
    pthread_mutex_lock(&h->lock);
    bool some = h->ears;
    pthread_mutex_unlock(&h->lock);
    return some;
}

static bool pause_for(struct cay__hub *h, int ms)
{
    struct pollfd p = { .fd = h->stop, .events = POLLIN };
    return poll(&p, 1, ms) == 0;
}

static void *listen_on(void *arg)
{
    struct cay__hub *h = arg;
    cay_call call = { .size = sizeof call, .cancel_fd = h->stop };
    for (;;) {
        cay_err err = CAY_ERR_INIT;
        cay_event e = { .size = sizeof e };
        if (cay__now_ms() >= h->snaps_at) {
            if (heard_by_anyone(h))
                look_for_snaps(h);
            else
                h->knows_snaps = false; /* who comes later asks for what there is */
            h->snaps_at = cay__now_ms() + SNAPS_MS;
        }
        call.deadline_ms = cay__now_ms() + SNAPS_MS;
        int rc = CAY_EGONE;
        if (h->events)
            rc = cay_events_next(h->events, &call, &e, &err);
        if (rc == 0)
            publish_event(h, &e, NULL);
        if (rc == 0 || rc == CAY_ETIMEOUT)
            continue;
        if (rc == CAY_ECANCELED || !pause_for(h, h->events ? 0 : AGAIN_MS))
            return NULL;
        cay_events_close(h->events);
        h->events = NULL;
        if (cay_client_events(h->client, NULL, &h->events, NULL) == 0)
            publish_event(h,
                          &(cay_event){ .size = sizeof e,
                                        .time_ms = cay__clock_ms(),
                                        .sandbox = "",
                                        .kind = "lost",
                                        .reason = "reconnected",
                                        .process = "" },
                          NULL);
    }
}

/* With the lock held. What happens from its return on is heard. */
static int start_hub(struct cay__hub *h, cay_err *err)
{
    pthread_attr_t a;
    cay_filter all = { .size = sizeof all };
    CAY_TRY(cay_client_events(h->client, NULL, &h->events, err));
    h->stop = eventfd(0, EFD_CLOEXEC);
    h->ring = cay__alloc(CAY__HUB_KEPT * sizeof *h->ring);
    h->owners = cay__alloc(OWNERS * sizeof *h->owners);
    cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + LOOK_MS };
    cay_client_list(h->client, &soon, &all, on_info, h, NULL);
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, STACK);
    h->started = h->stop >= 0 && pthread_create(&h->thread, &a, listen_on, h) == 0;
    pthread_attr_destroy(&a);
    if (h->started)
        return 0;
    cay_events_close(h->events);
    h->events = NULL;
    return cay_fail_sys(err, "listen to events");
}

int cay__hub_join(struct cay__hub *h, cay__ear *ear, cay_err *err)
{
    ear->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ear->bell < 0)
        return cay_fail_sys(err, "listen to events");
    pthread_mutex_lock(&h->lock);
    int rc = 0;
    if (!h->started)
        rc = start_hub(h, err);
    if (rc == 0) {
        ear->cursor = h->next;
        ear->next = h->ears;
        ear->prev = &h->ears;
        if (ear->next)
            ear->next->prev = &ear->next;
        h->ears = ear;
    }
    pthread_mutex_unlock(&h->lock);
    if (rc < 0)
        cay__close_fd(&ear->bell);
    return rc;
}

void cay__hub_ring(cay__ear *ear)
{
    eventfd_write(ear->bell, 1);
}

void cay__hub_leave(struct cay__hub *h, cay__ear *ear)
{
    pthread_mutex_lock(&h->lock);
    *ear->prev = ear->next;
    if (ear->next)
        ear->next->prev = ear->prev;
    pthread_mutex_unlock(&h->lock);
    cay__close_fd(&ear->bell);
}

void cay__hub_hear(struct cay__hub *h, cay__ear *ear, uint64_t *missed,
                   bool (*fn)(const cay__hub_event *e, void *arg), void *arg)
{
    eventfd_t n;
    eventfd_read(ear->bell, &n);
    pthread_mutex_lock(&h->lock);
    uint64_t oldest = 1;
    if (h->next > CAY__HUB_KEPT)
        oldest = h->next - CAY__HUB_KEPT;
    if (ear->cursor < oldest)
        *missed = oldest - ear->cursor;
    else
        *missed = 0;
    ear->cursor = CAY_MAX(ear->cursor, oldest);
    while (ear->cursor < h->next && fn(&h->ring[ear->cursor % CAY__HUB_KEPT], arg))
        ear->cursor++;
    if (ear->cursor < h->next)
        eventfd_write(ear->bell, 1); /* the rest at the next turn */
    pthread_mutex_unlock(&h->lock);
}
