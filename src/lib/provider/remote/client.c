/* SPDX-License-Identifier: Apache-2.0 */
/* A client that is a server's: which sandboxes and snapshots there are is asked there, and nothing
 * of it is kept here. */
#include "remote_box.h"
#include "client.h"
#include <cay/manifest.h>
#include "address.h"
#include <base/arena.h>
#include <base/call.h>
#include <base/fd.h>
#include <lib/client/remote.h>
#include <lib/snapshot/snapshot.h>
#include <lib/client/spec.h>
#include <stdio.h>

#define RUN_IDLE_MS                                                                                \
    (15 * 60000ull) /* of one that is thrown away: whoever made it may be cut off before */

typedef struct remote {
    cay__far far; /* without an instance: names are the server's */
    const char *provider;
    char *own;
} remote;

static remote *get_remote(const cay_client *client)
{
    return client->far;
}

static cay__far_box *box_of(const cay_sandbox *sb)
{
    return atomic_load(&sb->box);
}

cay__far *cay__remote_far(const cay_client *client)
{
    return &get_remote(client)->far;
}

static int far_open(const cay_open *spec, void **self, cay_err *err)
{
    cay__where w;
    CAY_TRY(cay__where_find(spec->host, &w, err));
    remote *r = cay__alloc(sizeof *r);
    int rc = cay__http_client_open(w.url, CAY_OR(spec->key, w.key), &r->far.client, err);
    cay__where_clear(&w);
    if (rc < 0) {
        free(r);
        return rc;
    }
    if (spec->provider && *spec->provider)
        r->provider = r->own = cay__strdup(spec->provider);
    else
        r->provider = r->own = NULL;
    *self = r;
    return 0;
}

static void far_close(void *self)
{
    remote *r = self;
    cay__http_client_unref(r->far.client);
    free(r->own);
    free(r);
}

static int open_handle(cay_client *client, const json_t *o, cay_sandbox **out, cay_err *err)
{
    remote *r = get_remote(client);
    cay__far_box *box;
    const char *id = cay__far_word(o, "id");
    if (!cay__id_valid(id, 'c'))
        return cay_fail_why(err, CAY_EUPSTREAM, "net_answer", "%.120s tells no id of the sandbox",
                            cay__http_client_url(r->far.client));
    CAY_TRY(cay__far_box_new(&r->far, id, id, client->home, &box));
    *out =
        cay__handle_new(client, &cay__far_ops, id, box, cay_state_parse(cay__far_word(o, "state")));
    return 0;
}

static int far_create(cay_client *client, const cay_call *call, const cay_create *given,
                      cay_sandbox **out, cay_err *err)
{
    remote *r = get_remote(client);
    cay_create c;
    json_t *body = NULL;
    char key[CAY_ID_LEN + 1], fields[64];
    CAY_AUTOJSON *answer = NULL;
    CAY__FAR_TARGET(target);
    CAY_TRY(cay__spec_take(&c, sizeof c, given, "cay_create", err));
    if (c.ephemeral && !c.idle_ms && !c.ttl_ms)
        c.idle_ms = RUN_IDLE_MS;
    CAY_TRY(cay__far_create_json(&c, true, &body, err));
    const char *provider = cay__text_or(c.provider, r->provider);
    if (provider)
        json_object_set_new(body, "provider", json_string(provider));
    cay__id_make(key, 'j'); /* an answer that is lost is no second sandbox */
    snprintf(fields, sizeof fields, "Idempotency-Key: %s\r\n", key);
    cay__buf_str(&target, CAY__FAR_API "/sandboxes");
    CAY_TRY(cay__far_create_watched(&r->far, call, &c, key, &target, fields, body, &answer, err));
    return open_handle(client, answer, out, err);
}

/* Every sandbox that the filter lets through, page by page. */
static int for_each_sandbox(cay_client *client, const cay_call *call, const cay_filter *f,
                            int (*fn)(const json_t *o, void *arg), void *arg, cay_err *err)
{
    char after[CAY__FAR_MARK] = "", label[1400];
    size_t n = 0;
    cay__str_copy(after, sizeof after, CAY_OR(f->after, ""));
    for (;;) {
        CAY__FAR_TARGET(target);
        CAY_AUTOJSON *answer = NULL;
        size_t i;
        json_t *o;
        cay__buf_str(&target, CAY__FAR_API "/sandboxes?limit=1000");
        for (int s = CAY_CREATING; s <= CAY_DAMAGED; s++)
            if (f->states & (1u << s))
                cay__far_query(&target, "state", cay_state_name((cay_state)s));
        for (const cay_pair *p = f->labels; p && p->key; p++) {
            snprintf(label, sizeof label, "%s=%s", p->key, p->value);
            cay__far_query(&target, "label", label);
        }
        if (f->metadata)
            cay__far_query(&target, "metadata", f->metadata);
        if (f->provider)
            cay__far_query(&target, "provider", f->provider);
        if (*after)
            cay__far_query(&target, "after", after);
        CAY_TRY(cay__far_json(&get_remote(client)->far, call, "GET", &target, NULL, &answer, err));
        json_array_foreach(json_object_get(answer, "items"), i, o)
        {
            int rc = fn(o, arg);
            if (rc || (f->limit && ++n == f->limit))
                return rc;
        }
        if (!cay__str_copy(after, sizeof after, cay__far_word(answer, "next")) || !*after)
            return 0;
    }
}

typedef struct search {
    const char *ref;
    json_t *found; /* counted */
    size_t n;
    char others[2][CAY_ID_LEN + 1];
} search;

static int match_sandbox(const json_t *o, void *arg)
{
    search *s = arg;
    const char *id = cay__far_word(o, "id");
    if (!cay__str_starts(id, s->ref) && strcmp(cay__far_word(o, "name"), s->ref) != 0)
        return 0;
    if (s->n < 2)
        cay__str_copy(s->others[s->n], sizeof s->others[0], id);
    if (!s->n++)
        s->found = json_incref((json_t *)o);
    return 0;
}

static int far_find(cay_client *client, const cay_call *call, const char *ref, cay_sandbox **out,
                    cay_err *err)
{
    remote *r = get_remote(client);
    CAY_AUTOJSON *o = NULL;
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "no sandbox is named; give an id, its beginning, or a name");
    if (cay__id_valid(ref, 'c')) {
        CAY__FAR_TARGET(target);
        cay__buf_fmt(&target, CAY__FAR_API "/sandboxes/%s", ref);
        CAY_TRY(cay__far_json(&r->far, call, "GET", &target, NULL, &o, err));
        return open_handle(client, o, out, err);
    }
    search s = { .ref = ref };
    CAY_TRY(for_each_sandbox(client, call, &(cay_filter){ .size = sizeof(cay_filter) },
                             match_sandbox, &s, err));
    o = s.found;
    if (!s.n)
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found",
                            "there is no sandbox %.60s on %.120s; cay ls shows those there are",
                            ref, cay__http_client_url(r->far.client));
    if (s.n > 1)
        return cay_fail_why(err, CAY_EINVAL, "sandbox_ambiguous",
                            "%.40s fits several sandboxes: %s, %s%s; give more of the id", ref,
                            s.others[0], s.others[1], s.n > 2 ? ", …" : "");
    return open_handle(client, o, out, err);
}

/* what is known of one: as a record and a status, which is what a description is made of ----
 */

static const cay_pair *pairs_of(cay__arena *mem, const json_t *o)
{
    size_t n = 0;
    const char *key;
    json_t *v;
    cay_pair *p = cay__arena_take(mem, (json_object_size(o) + 1) * sizeof *p);
    json_object_foreach((json_t *)o, key, v) p[n++] =
        (cay_pair){ key, json_is_string(v) ? json_string_value(v) : "" };
    return p;
}

static uint64_t parse_limit(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (json_is_string(v))
        return CAY_UNLIMITED;
    return (uint64_t)json_integer_value(v);
}

static int info_of(const json_t *o, cay_info **out, cay_err *err)
{
    __attribute__((cleanup(cay__arena_clear))) cay__arena mem = { 0 };
    const json_t *l = json_object_get(o, "limits");
    CAY_AUTOFREE char *spec = NULL,
                      *labels = cay__json_text(json_object_get(o, "labels"), 4u << 20),
                      *metadata = NULL;
    size_t n;
    if (json_object_get(o, "metadata"))
        metadata = cay__json_text(json_object_get(o, "metadata"), 1u << 20);
    cay_create c = { .size = sizeof c,
                     .name = cay__far_word(o, "name"),
                     .template_ = cay__far_word(o, "template"),
                     .hostname = cay__far_word(o, "hostname"),
                     .user = cay__far_word(o, "user"),
                     .workdir = cay__far_word(o, "workdir"),
                     .labels = pairs_of(&mem, json_object_get(o, "labels")),
                     .settings = pairs_of(&mem, json_object_get(o, "settings")),
                     .metadata = metadata,
                     .provider = cay__far_word(o, "provider"),
                     .auto_resume = cay__json_bool(o, "auto_resume", false),
                     .on_expiry = !strcmp(cay__far_word(o, "on_expiry"), "pause") ? CAY_EXPIRE_PAUSE
                                                                                  : CAY_EXPIRE_KILL,
                     .limits = { parse_limit(l, "memory"), parse_limit(l, "swap"),
                                 parse_limit(l, "cpu_milli"), parse_limit(l, "pids"),
                                 parse_limit(l, "disk"), parse_limit(l, "inodes"),
                                 parse_limit(l, "nofile"), parse_limit(l, "io_read"),
                                 parse_limit(l, "io_write") } };
    CAY_TRY(cay__spec_text(&c, &spec, err));
    cay_row row = { .size = sizeof row,
                    .id = cay__far_id(o, "id", 'c'),
                    .name = c.name,
                    .provider = c.provider,
                    .reason = cay__far_word(o, "reason"),
                    .state = cay_state_parse(cay__far_word(o, "state")),
                    .spec = spec,
                    .box = "",
                    .labels = CAY_OR(labels, "{}"),
                    .metadata = CAY_OR(metadata, ""),
                    .tenant = cay__far_word(o, "tenant"),
                    .created_ms = cay__json_int(o, "created_ms", 0),
                    .changed_ms = cay__json_int(o, "changed_ms", 0) };
    CAY_AUTOFREE cay_wall *layers = cay__far_layers(json_object_get(o, "layers"), &n);
    cay__truth t = { .state = row.state,
                     .ops = &cay__far_ops,
                     .asked = true,
                     .status = { .size = sizeof t.status,
                                 .state = row.state,
                                 .level = (cay_level)cay__json_int(o, "level", 0),
                                 .walls = layers,
                                 .nwalls = n,
                                 .deadline_ms = cay__json_int(o, "deadline_ms", 0),
                                 .idle_ms = (uint64_t)cay__json_int(o, "idle_ms", 0),
                                 .path = cay__far_word(o, "path"),
                                 .pid = (int)cay__json_int(o, "pid", 0),
                                 .network = cay__far_word(o, "network") } };
    cay__str_copy(t.reason, sizeof t.reason, row.reason);
    *out = cay__info_new(row.id, &row, &t);
    return 0;
}

typedef struct lister {
    int (*fn)(const cay_info *, void *);
    void *arg;
    cay_err *err;
} lister;

static int on_listed_sandbox(const json_t *o, void *arg)
{
    lister *l = arg;
    cay_info *info = NULL;
    CAY_TRY(info_of(o, &info, l->err));
    int rc = l->fn(info, l->arg);
    cay_info_free(info);
    return rc;
}

static int far_list(cay_client *client, const cay_call *call, const cay_filter *given,
                    int (*fn)(const cay_info *, void *), void *arg, cay_err *err)
{
    cay_filter f;
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_filter", err));
    return for_each_sandbox(client, call, &f, on_listed_sandbox, &(lister){ fn, arg, err }, err);
}

static int far_describe(cay_sandbox *sb, const cay_call *call, cay_info **out, cay_err *err)
{
    cay__far_box *b = box_of(sb);
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, "");
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &o, err));
    CAY_TRY(info_of(o, out, err));
    atomic_store(&sb->state, (*out)->state);
    return 0;
}

static int far_order(cay_sandbox *sb, const cay_call *call, cay_state to, cay_err *err)
{
    cay__far_box *b = box_of(sb);
    CAY__FAR_TARGET(target);
    const char *verb;
    if (to == CAY_PAUSED)
        verb = "/pause";
    else if (to == CAY_RUNNING)
        verb = "/resume";
    else if (to == CAY_STOPPED)
        verb = "/kill";
    else
        verb = "";
    cay__far_at(&target, b, verb);
    CAY_TRY(cay__far_json(b->far, call, *verb ? "POST" : "DELETE", &target, NULL, NULL, err));
    atomic_store(&sb->state, to);
    return 0;
}

static int far_probe(cay_client *client, cay_probe **out, cay_err *err)
{
    return cay__far_ops.probe(&get_remote(client)->far, out, err);
}

static int far_events(cay_client *client, const char *id, int *fd, cay_err *err)
{
    return cay__far_hear(&get_remote(client)->far, id, id, fd, err);
}

/* what others do in two steps,
 * too */

int cay__remote_each(cay_client *client, const cay_call *call, const cay__buf *target,
                     int (*fn)(const json_t *o, void *arg), void *arg, cay_err *err)
{
    CAY_AUTOJSON *answer = NULL;
    size_t i;
    json_t *o;
    int rc = 0;
    CAY_TRY(cay__far_json(&get_remote(client)->far, call, "GET", target, NULL, &answer, err));
    json_array_foreach(json_object_get(answer, "items"), i, o) if ((rc = fn(o, arg))) break;
    return rc;
}

int cay__remote_order(cay_client *client, const char *method, const char *what, const char *ref,
                      const char *rest, json_t *body, json_t **out, cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__far_ref(&target, what, ref);
    cay__buf_str(&target, rest);
    return cay__far_json(&get_remote(client)->far, NULL, method, &target, body, out, err);
}

static cay_snapshot *snapshot_of(const json_t *o)
{
    char boot[64];
    CAY_AUTOFREE char *metadata = NULL;
    if (json_object_get(o, "metadata"))
        metadata = cay__json_text(json_object_get(o, "metadata"), 1u << 20);
    cay__boot_id(boot, sizeof boot);
#define W(name) cay__far_word(o, name)
#define N(name) (uint64_t) cay__json_int(o, name, 0)
    cay_snap_row r = { .size = sizeof r,
                       .id = cay__far_id(o, "id", 's'),
                       .sandbox = cay__far_id(o, "sandbox", 'c'),
                       .parent = cay__far_id(o, "parent", 's'),
                       .label = W("label"),
                       .provider = W("provider"),
                       .template_ = W("template"),
                       .method = W("method"),
                       .digest = W("digest"),
                       .state = "ready",
                       .mark = "",
                       .layers = "[]",
                       .spec = "{}",
                       .metadata = CAY_OR(metadata, ""),
                       .boot = cay__json_bool(o, "maybe_incomplete", false) ? "" : boot,
                       .tenant = W("tenant"),
                       .automatic = cay__json_bool(o, "automatic", false),
                       .durable = cay__json_bool(o, "durable", false),
                       .created_ms = (int64_t)N("created_ms"),
                       .bytes = N("bytes"),
                       .files = N("files"),
                       .frozen_us = N("frozen_us"),
                       .total_us = N("total_us"),
                       .depth = (size_t)N("depth"),
                       .users = (size_t)N("users") };
#undef W
#undef N
    return cay__snapshot_new(&r);
}

static int far_snapshot(cay_sandbox *sb, const cay_call *call, const cay_snapshot_spec *given,
                        cay_snapshot **out, cay_err *err)
{
    cay__far_box *b = box_of(sb);
    cay_snapshot_spec s;
    json_t *metadata = NULL;
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    CAY_TRY(cay__spec_take(&s, sizeof s, given, "cay_snapshot_spec", err));
    if (s.metadata)
        CAY_TRY(cay__json_object("metadata", s.metadata, &metadata, err));
    json_t *body = json_pack("{s:b,s:b,s:s*,s:o*}", "quiet", (int)s.quiet, "stop", (int)s.stop,
                             "label", s.label, "metadata", metadata);
    cay__far_at(&target, b, "/snapshots");
    CAY_TRY(cay__far_json(b->far, call, "POST", &target, body, &o, err));
    if (out)
        *out = snapshot_of(o);
    return 0;
}

void cay__far_ref(cay__buf *target, const char *what, const char *ref)
{
    cay__buf_fmt(target, CAY__FAR_API "/%s/", what);
    for (const char *p = CAY_OR(ref, ""); *p; p++)
        cay__buf_fmt(target,
                     (*p >= '0' && *p <= '9') || ((*p | 32) >= 'a' && (*p | 32) <= 'z') ||
                             strchr("-._", *p)
                         ? "%c"
                         : "%%%02X",
                     (unsigned char)*p);
}

static int far_snapshot_get(cay_client *client, const cay_call *call, const char *ref,
                            cay_snapshot **out, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__far_ref(&target, "snapshots", ref);
    CAY_TRY(cay__far_json(&get_remote(client)->far, call, "GET", &target, NULL, &o, err));
    *out = snapshot_of(o);
    return 0;
}

static int far_snapshots(cay_client *client, const cay_call *call, const cay_snapshot_filter *given,
                         int (*fn)(const cay_snapshot *, void *), void *arg, cay_err *err)
{
    cay_snapshot_filter f;
    char after[CAY__FAR_MARK] = "";
    size_t n = 0;
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_snapshot_filter", err));
    cay__str_copy(after, sizeof after, CAY_OR(f.after, ""));
    for (;;) {
        CAY__FAR_TARGET(target);
        CAY_AUTOJSON *answer = NULL;
        size_t i;
        json_t *o;
        cay__buf_str(&target, CAY__FAR_API "/snapshots?limit=1000");
        if (f.sandbox)
            cay__far_query(&target, "sandbox", f.sandbox);
        if (f.label)
            cay__far_query(&target, "label", f.label);
        if (*after)
            cay__far_query(&target, "after", after);
        CAY_TRY(cay__far_json(&get_remote(client)->far, call, "GET", &target, NULL, &answer, err));
        json_array_foreach(json_object_get(answer, "items"), i, o)
        {
            cay_snapshot *s = snapshot_of(o);
            int rc = fn(s, arg);
            cay_snapshot_free(s);
            if (rc || (f.limit && ++n == f.limit))
                return rc;
        }
        if (!cay__str_copy(after, sizeof after, cay__far_word(answer, "next")) || !*after)
            return 0;
    }
}

static int far_snapshot_remove(cay_client *client, const cay_call *call, const char *ref,
                               bool *deferred, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__far_ref(&target, "snapshots", ref);
    CAY_TRY(cay__far_json(&get_remote(client)->far, call, "DELETE", &target, NULL, &o, err));
    if (deferred)
        *deferred = cay__json_bool(o, "deferred", false);
    return 0;
}

static int far_snapshot_rename(cay_client *client, const cay_call *call, const char *ref,
                               const char *label, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__far_ref(&target, "snapshots", ref);
    return cay__far_json(&get_remote(client)->far, call, "PATCH", &target,
                         json_pack("{s:s}", "label", CAY_OR(label, "")), &o, err);
}

static int far_fork(cay_client *client, const cay_call *call, const char *from,
                    const cay_fork *given, int (*fn)(cay_sandbox *, void *), void *arg,
                    cay_err *err)
{
    cay_fork f;
    CAY_AUTOJSON *answer = NULL;
    cay_sandbox *sb = NULL;
    CAY__FAR_TARGET(target);
    size_t i;
    json_t *o;
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_fork", err));
    json_t *body = json_pack("{s:I,s:s*}", "count", (json_int_t)(CAY_OR(f.n, 1)), "name", f.name);
    if (f.labels)
        json_object_set_new(body, "labels", cay__far_pairs(f.labels));
    if (f.ttl_ms)
        json_object_set_new(body, "ttl_ms",
                            f.ttl_ms == CAY_UNLIMITED ? json_string("unlimited")
                                                      : json_integer((json_int_t)f.ttl_ms));
    if (from && !cay__id_valid(from, 'c') &&
        far_find(client, call, from, &sb, NULL) == 0) /* a name: the server takes whole ids */
        cay__far_ref(&target, "sandboxes", cay_sandbox_id(sb));
    else
        cay__far_ref(&target, "sandboxes", from);
    cay_sandbox_unref(sb);
    cay__buf_str(&target, "/fork");
    CAY_TRY(cay__far_json(&get_remote(client)->far, call, "POST", &target, body, &answer, err));
    json_array_foreach(json_object_get(answer, "items"), i, o)
    {
        CAY_TRY(open_handle(client, o, &sb, err));
        int rc = 0;
        if (fn)
            rc = fn(sb, arg);
        cay_sandbox_unref(sb);
        if (rc)
            return rc;
    }
    return 0;
}

static int far_undo(cay_sandbox *sb, const cay_call *call, const char *to, cay_snapshot **out,
                    cay_err *err)
{
    cay__far_box *b = box_of(sb);
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, "/undo");
    CAY_TRY(cay__far_json(b->far, call, "POST", &target, json_pack("{s:s*}", "to", to), &o, err));
    if (out)
        *out = snapshot_of(o);
    return 0;
}

static void exposed_of(const json_t *o, cay_exposed *out)
{
    cay_exposed e = { .size = sizeof e,
                      .port = (uint16_t)cay__json_int(o, "port", 0),
                      .created_ms = cay__json_int(o, "created_ms", 0),
                      .expires_ms = cay__json_int(o, "expires_ms", 0) };
    cay__str_copy(e.token, sizeof e.token, cay__far_word(o, "token"));
    cay__answer_give(out, &e, sizeof e);
}

static int far_expose(cay_sandbox *sb, uint16_t port, uint64_t ttl_ms, cay_exposed *out,
                      cay_err *err)
{
    cay__far_box *b = box_of(sb);
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, "/ports/");
    cay__buf_fmt(&target, "%u/expose", port);
    CAY_TRY(cay__far_json(b->far, NULL, "POST", &target,
                          ttl_ms ? json_pack("{s:I}", "ttl_ms", (json_int_t)ttl_ms) : json_object(),
                          &o, err));
    exposed_of(o, out);
    return 0;
}

static int far_unexpose(cay_sandbox *sb, uint16_t port, cay_err *err)
{
    cay__far_box *b = box_of(sb);
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, "/ports/");
    cay__buf_fmt(&target, "%u/expose", port);
    return cay__far_json(b->far, NULL, "DELETE", &target, NULL, NULL, err);
}

static int far_exposed(cay_sandbox *sb, int (*fn)(const cay_exposed *e, void *arg), void *arg,
                       cay_err *err)
{
    cay__far_box *b = box_of(sb);
    CAY_AUTOJSON *answer = NULL;
    CAY__FAR_TARGET(target);
    size_t i;
    json_t *o;
    cay__far_at(&target, b, "/exposed");
    CAY_TRY(cay__far_json(b->far, NULL, "GET", &target, NULL, &answer, err));
    json_array_foreach(json_object_get(answer, "items"), i, o)
    {
        cay_exposed e = { .size = sizeof e };
        exposed_of(o, &e);
        int rc = fn(&e, arg);
        if (rc)
            return rc;
    }
    return 0;
}

static int far_net_add(cay_sandbox *sb, const cay_call *call, const char *const *rules,
                       uint64_t *revision, cay_err *err)
{
    cay__far_box *b = box_of(sb);
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    json_t *list = json_array();
    for (; rules && *rules; rules++)
        json_array_append_new(list, json_string(*rules));
    cay__far_at(&target, b, "/net/rules");
    CAY_TRY(
        cay__far_json(b->far, call, "POST", &target, json_pack("{s:o}", "rules", list), &o, err));
    if (revision)
        *revision = (uint64_t)cay__json_int(o, "revision", 0);
    return 0;
}

static int far_net_why(cay_sandbox *sb, const cay_call *call, const char *host, uint16_t port,
                       cay_net_verdict *out, cay_err *err)
{
    cay__far_box *b = box_of(sb);
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay_net_verdict v = { .size = sizeof v };
    cay__far_at(&target, b, "/net/why");
    cay__far_query(&target, "host", CAY_OR(host, ""));
    if (port)
        cay__far_query_u64(&target, "port", port);
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &o, err));
    v.allow = cay__json_bool(o, "allow", false);
    cay__str_copy(v.reason, sizeof v.reason, cay__far_word(o, "reason"));
    cay__str_copy(v.rule, sizeof v.rule, cay__far_word(o, "rule"));
    cay__str_copy(v.range, sizeof v.range, cay__far_word(o, "range"));
    cay__str_copy(v.proto, sizeof v.proto, cay__far_word(o, "proto"));
    cay__str_copy(v.remedy, sizeof v.remedy, cay__far_word(o, "remedy"));
    cay__answer_give(out, &v, sizeof v);
    return 0;
}

static const char *far_url(const cay_client *client)
{
    return cay__http_client_url(cay__remote_far(client)->client);
}

static int far_manifest(cay_sandbox *sb, const cay_call *call, char **json, cay_err *err)
{
    cay__far_box *b = box_of(sb);
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, "/manifest/text");
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &o, err));
    *json = cay__json_text(o, CAY_MANIFEST_BYTES);
    if (*json)
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "net_answer", "the server told no manifest");
}

/* Local sources are of this machine: the server refuses them by name. */
static int far_set_manifest(cay_sandbox *sb, const cay_call *call, const char *text, unsigned flags,
                            cay_err *err)
{
    cay__far_box *b = box_of(sb);
    json_t *o = NULL;
    CAY__FAR_TARGET(target);
    CAY_TRY(cay__json_object("manifest", text, &o, err));
    cay__far_at(&target, b, flags & CAY_MANIFEST_REPLACE ? "/manifest?replace=1" : "/manifest");
    return cay__far_json(b->far, call, "PUT", &target, o, NULL, err);
}

const cay__back cay__back_far = {
    .open = far_open,
    .close = far_close,
    .create = far_create,
    .find = far_find,
    .list = far_list,
    .describe = far_describe,
    .order = far_order,
    .probe = far_probe,
    .events = far_events,
    .snapshot = far_snapshot,
    .snapshot_get = far_snapshot_get,
    .snapshots = far_snapshots,
    .snapshot_remove = far_snapshot_remove,
    .snapshot_rename = far_snapshot_rename,
    .fork = far_fork,
    .undo = far_undo,
    .expose = far_expose,
    .unexpose = far_unexpose,
    .exposed = far_exposed,
    .net_add = far_net_add,
    .net_why = far_net_why,
    .net_log = cay__remote_net_log,
    .diff = cay__remote_diff,
    .secret_put = cay__remote_secret_put,
    .secret_remove = cay__remote_secret_remove,
    .secret_list = cay__remote_secret_list,
    .renew_secrets = cay__remote_renew_secrets,
    .set_secrets = cay__remote_set_secrets,
    .volume_list = cay__remote_volume_list,
    .volume_create = cay__remote_volume_create,
    .volume_find = cay__remote_volume_find,
    .volume_remove = cay__remote_volume_remove,
    .export_ = cay__remote_export,
    .import = cay__remote_import,
    .key_create = cay__remote_key_create,
    .key_list = cay__remote_key_list,
    .key_revoke = cay__remote_key_revoke,
    .tenant_put = cay__remote_tenant_put,
    .tenant_remove = cay__remote_tenant_remove,
    .tenant_list = cay__remote_tenant_list,
    .job_list = cay__remote_task_list,
    .job_order = cay__remote_task_order,
    .audit_list = cay__remote_audit_list,
    .audit_verify = cay__remote_audit_verify,
    .warm_put = cay__remote_warm_put,
    .warm_list = cay__remote_warm_list,
    .warm_remove = cay__remote_warm_remove,
    .template_find = cay__remote_template_find,
    .template_list = cay__remote_template_list,
    .template_remove = cay__remote_template_remove,
    .template_change = cay__remote_template_change,
    .template_publish = cay__remote_template_publish,
    .template_import = cay__remote_template_import,
    .template_export = cay__remote_template_export,
    .template_pull = cay__remote_template_pull,
    .registry_login = cay__remote_registry_login,
    .registry_logout = cay__remote_registry_logout,
    .registry_logins = cay__remote_registry_logins,
    .build_run = cay__remote_build_run,
    .build_list = cay__remote_build_list,
    .build_get = cay__remote_build_get,
    .build_log = cay__remote_build_log,
    .build_cancel = cay__remote_build_cancel,
    .build_caches = cay__remote_build_caches,
    .build_prune = cay__remote_build_prune,
    .gc = cay__remote_gc,
    .url = far_url,
    .manifest = far_manifest,
    .set_manifest = far_set_manifest,
};
