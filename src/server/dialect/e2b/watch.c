/* SPDX-License-Identifier: Apache-2.0 */
/* filesystem.Filesystem, what changes: as a stream, or asked for again and again (the Python SDK's
 * synchronous form). */
#include "e2b.h"
#include "watchers.h"
#include <poll.h>

enum { TURN = 64 << 10, EVENTS = 1000 };

static const struct {
    cay_change change;
    const char *word;
    bool entry; /* there is something to describe */
} kinds[] = {
    { CAY_CHANGE_CREATE, "EVENT_TYPE_CREATE", true },
    { CAY_CHANGE_WRITE, "EVENT_TYPE_WRITE", true },
    { CAY_CHANGE_REMOVE, "EVENT_TYPE_REMOVE", false },
    { CAY_CHANGE_RENAME, "EVENT_TYPE_RENAME", false },
    { CAY_CHANGE_CHMOD, "EVENT_TYPE_CHMOD", true },
};

/* One change to a list of events; a new name is a RENAME of the old one and a CREATE. */
static void add_event(const e2b_watched *y, e2b_names *names, cay_change change, const char *name,
                      json_t *list)
{
    CAY_EACH(kind, kinds) {
        if (kind->change != change)
            continue;
        json_t *o = json_pack("{s:o,s:s}", "name", cay__json_bytes(name), "type", kind->word);
        cay_stat st = { .size_of = sizeof st };
        if (y->entries && kind->entry) {
            size_t n = strlen(y->path) + strlen(name) + 2;
            CAY_AUTOFREE char *full = cay__alloc(n);
            cay__str_join(full, n, y->path, "/", name, NULL);
            if (cay_file_stat(y->sb, names->call, full, false, &st, NULL) == 0)
                json_object_set_new(o, "entry", e2b_entry(names, full, &st));
        }
        json_array_append_new(list, o);
    }
}

/* What has come so far. CAY_EGONE when the sandbox ended: SDKs know it by the cut. */
static int drain_events(const e2b_watched *y, json_t *list)
{
    struct pollfd q = { cay_watch_fd(y->w), POLLIN, 0 };
    const cay_call call = { .size = sizeof call,
                            .deadline_ms = cay__now_ms() + 5000,
                            .user = y->user };
    E2B_AUTONAMES names = { .sb = y->sb, .call = &call };
    while (json_array_size(list) < EVENTS && poll(&q, 1, 0) > 0) {
        cay_watch_event e = { .size = sizeof e };
        int rc = cay_watch_next(y->w, &call, &e, NULL);
        if (rc == CAY_ETIMEOUT)
            break;
        if (rc < 0)
            return CAY_EGONE;
        bool moved = e.change == CAY_CHANGE_RENAME && *e.from;
        if (moved)
            add_event(y, &names, CAY_CHANGE_RENAME, e.from, list);
        add_event(y, &names, moved ? CAY_CHANGE_CREATE : e.change, e.path, list);
    }
    return 0;
}

typedef struct eye {
    e2b_watched at;
    bool started;
    int64_t quiet_since;
    uint64_t keepalive_ms;
} eye;

static void write_event(cay__buf *out, const char *what, json_t *j)
{
    e2b_envelope_json(out, json_pack("{s:o}", what, j));
}

static int watch_pull(cay__pump *p, unsigned ready, cay__buf *out)
{
    eye *y = p->self;
    if (!y->started)
        write_event(out, "start", json_object());
    y->started = true;
    if (ready & 1)
        return CAY__PUMP_WORK;
    if ((uint64_t)(cay__now_ms() - y->quiet_since) >= y->keepalive_ms) {
        write_event(out, "keepalive", json_object());
        y->quiet_since = cay__now_ms();
    }
    return CAY__PUMP_ON;
}

static int watch_work(cay__pump *p, cay__buf *out)
{
    eye *y = p->self;
    CAY_AUTOJSON *list = json_array();
    json_t *one;
    size_t i;
    int rc = drain_events(&y->at, list);
    json_array_foreach(list, i, one)
        write_event(out, "filesystem", json_incref(one));
    y->quiet_since = cay__now_ms();
    return rc; /* 0: CAY__PUMP_ON */
}

static void watch_close(cay__pump *p)
{
    eye *y = p->self;
    e2b_watched_clear(&y->at);
    free(y);
}

/* The directory of a request, watched from now on. */
static int open_watch(cay__req *r, const e2b_rpc *q, e2b_watched *out, cay_err *err)
{
    const char *path;
    cay_stat st = { .size_of = sizeof st };
    cay_watch *w;
    CAY_TRY(e2b_named(r, q, "path", &path, err));
    CAY_TRY(cay_file_stat(q->d.sb, &r->call, path, true, &st, err));
    if (st.type != CAY_DIR)
        return cay_fail(err, CAY_EINVAL, "path %.150s is not a directory", path);
    CAY_TRY(cay_watch_open(q->d.sb, &r->call, path, cay__json_bool(q->in, "recursive", false), &w,
                           err));
    *out =
        (e2b_watched){ .sb = cay_sandbox_ref(q->d.sb),
                       .w = w,
                       .path = cay__strdup(path),
                       .user = q->d.user ? cay__strdup(q->d.user) : NULL,
                       .entries = cay__json_bool(q->in, "includeEntry",
                                                 cay__json_bool(q->in, "include_entry", false)) };
    return 0;
}

int e2b_fs_watch(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    e2b_watched at;
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_TRY(open_watch(r, &q, &at, err));
    eye *y = cay__alloc(sizeof *y);
    *y = (eye){ .at = at, .quiet_since = cay__now_ms(), .keepalive_ms = q.keepalive_ms };
    const cay__pump pump = { .fd = { cay_watch_fd(at.w), -1, -1 },
                             .beat_ms = 1000,
                             .self = y,
                             .pull = watch_pull,
                             .work = watch_work,
                             .last = e2b_stream_last,
                             .close = watch_close };
    json_object_clear(q.in); /* not for as long as the stream */
    return cay__reply_pump(r, 200, "application/connect+json", &pump);
}

int e2b_watcher_create(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    e2b_watched at;
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_TRY(open_watch(r, &q, &at, err));
    CAY_TRY(e2b_watchers_add(cay__server_watchers(r->server), r->id, q.d.id, &at, err));
    return cay__reply_pack(r, 200, "{s:s}", "watcherId", r->id);
}

static const char *watcher_id(const e2b_rpc *q)
{
    return cay__json_str(q->in, "watcherId", cay__json_str(q->in, "watcher_id", ""));
}

int e2b_watcher_events(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    e2b_watched *at;
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_AUTOJSON *list = json_array();
    CAY_TRY(e2b_watchers_take(cay__server_watchers(r->server), watcher_id(&q), q.d.id, &at, err));
    int rc = drain_events(at, list);
    e2b_watchers_give(cay__server_watchers(r->server), at);
    if (rc < 0)
        return cay_fail(err, rc, "the sandbox ended");
    return cay__reply_pack(r, 200, "{s:O}", "events", list);
}

int e2b_watcher_remove(cay__req *r, cay_err *err)
{
    e2b_rpc q;
    CAY_TRY(e2b_rpc_open(r, &q, err));
    CAY_TRY(e2b_watchers_remove(cay__server_watchers(r->server), watcher_id(&q), q.d.id, err));
    return cay__reply_pack(r, 200, "{}");
}
