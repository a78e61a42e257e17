/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane: sandboxes, snapshots, volumes, as the SDKs and their command line ask for them. Both generations of paths. */
#include "e2b.h"
#include <base/str.h>
#include <cay/note.h>
#include <cay/policy.h>
#include <cay/snapshot.h>
#include <cay/volume.h>
#include <ctype.h>
#include <stdio.h>
#include <time.h>

#define PAGE 100
CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)

/* ------------------------------------------------------------------ how things look */

static void when(int64_t ms, char out[32])
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    gmtime_r(&s, &tm);
    size_t n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, 32 - n, ".%03dZ", (int)(ms % 1000));
}

/* SDKs make host names of ports with it, so it is how this very client reaches us: "localhost:8090", or what is behind "api.". */
static json_t *domain(cay__req *r)
{
    const char *host = r->head.host, *colon = strrchr(host, ':');
    char text[300];
    if (cay__str_starts(host, "api."))
        return json_string(host + 4);
    snprintf(text, sizeof text, "%s%s", cay__server_conf(r->server)->domain ? cay__server_conf(r->server)->domain : "localhost", colon && !strchr(colon, ']') ? colon : "");
    return json_string(text);
}

static int sandbox_json(cay__req *r, const char *id, const char *template_, json_t **out, cay_err *err)
{
    char token[E2B_TOKEN_LEN + 1], traffic[E2B_TOKEN_LEN + 1];
    CAY_TRY(e2b_token(r, "envd", id, token, err));
    CAY_TRY(e2b_token(r, "traffic", id, traffic, err));
    *out = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:o}", "sandboxID", id, "templateID", template_, "clientID", "cay", "envdVersion", E2B_ENVD_VERSION, "envdAccessToken", token, "trafficAccessToken",
                     traffic, "domain", domain(r));
    return 0;
}

static int64_t bounded(uint64_t v, int64_t none)
{
    return v == CAY_UNLIMITED || v > INT64_MAX ? none : (int64_t)v;
}

static json_t *listed(const e2b_box *b)
{
    const cay_info *i = b->info;
    char started[32], end[32];
    when(i->created_ms, started);
    when(i->deadline_ms ? i->deadline_ms : i->created_ms + 86400000LL * 365, end);
    json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:O,s:s,s:s}", "sandboxID", i->id, "templateID", b->note.template_, "clientID", "cay", "startedAt", started, "endAt", end, "cpuCount",
                          (json_int_t)(bounded(i->limits.cpu_milli, 1000) + 999) / 1000, "memoryMB", (json_int_t)(bounded(i->limits.memory, 0) >> 20), "diskSizeMB",
                          (json_int_t)(bounded(i->limits.disk, 0) >> 20), "metadata", b->note.metadata ? b->note.metadata : json_null(), "state", e2b_running(i) ? "running" : "paused", "envdVersion",
                          E2B_ENVD_VERSION);
    if (*i->name)
        json_object_set_new(o, "alias", json_string(i->name));
    if (b->note.volumes)
        json_object_set(o, "volumeMounts", b->note.volumes);
    return o;
}

/* ------------------------------------------------------------------ create */

/* What a name stands for here: a snapshot, or the template that this host has. */
static int starting_point(cay__req *r, const char *name, cay_create *c, cay_err *err)
{
    static const char *const base[] = { "base", "code-interpreter-v1", "host" };
    cay_snapshot *s;
    size_t n = strcspn(name, ":");
    for (size_t i = 0; i < CAY_LEN(base); i++)
        if (strlen(base[i]) == n && !strncmp(base[i], name, n))
            return 0;
    char *ref = cay__arena_str(&r->arena, name), *tag = strstr(ref, ":default");
    if (tag && !tag[8])
        *tag = 0;
    if (cay_service_snapshot_of(r->svc, &r->call, cay__req_tenant(r), ref, &s, NULL) < 0)
        return cay_fail_why(err, CAY_ENOENT, "template_not_found", "template '%.80s' not found: there are base and your snapshots", name);
    c->from = cay__arena_str(&r->arena, s->id);
    cay_snapshot_free(s);
    return 0;
}

static int pairs(cay__req *r, const json_t *o, const char *what, const cay_pair **out, cay_err *err)
{
    const char *key;
    json_t *v;
    size_t n = 0;
    if (!o || json_is_null(o))
        return 0;
    if (!json_is_object(o))
        return cay_fail(err, CAY_EINVAL, "%s is an object of texts", what);
    cay_pair *list = cay__arena_take(&r->arena, (json_object_size(o) + 1) * sizeof *list);
    json_object_foreach((json_t *)o, key, v) {
        if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
            return cay_fail(err, CAY_EINVAL, "%s.%.60s is not a text without NUL", what, key);
        list[n++] = (cay_pair){ key, json_string_value(v) };
    }
    *out = list;
    return 0;
}

static int volumes(cay__req *r, const json_t *list, cay_create *c, cay_err *err)
{
    const json_t *v;
    size_t i;
    if (!list || json_is_null(list) || !json_array_size(list))
        return 0;
    if (r->who.scope != CAY__SCOPE_ADMIN) /* volumes have no tenant */
        return cay_fail_why(err, CAY_EPERM, "admin_only", "volumeMounts needs a key of scope admin");
    cay_volume_use *use = cay__arena_take(&r->arena, (json_array_size(list) + 1) * sizeof *use);
    json_array_foreach(list, i, v) {
        use[i] = (cay_volume_use){ .name = cay__json_str(v, "name", NULL), .target = cay__json_str(v, "path", NULL), .rw = true };
        if (!use[i].name || !use[i].target)
            return cay_fail(err, CAY_EINVAL, "volumeMounts[%zu] has a name and a path", i);
    }
    c->volumes = use;
    c->nvolumes = json_array_size(list);
    return 0;
}

/* What is asked for and not there is refused by its name. */
static int refuse(const json_t *in, cay_err *err)
{
    static const char *const not_here[] = { "mcp", "iam" };
    for (size_t i = 0; i < CAY_LEN(not_here); i++) {
        const json_t *v = json_object_get(in, not_here[i]);
        if (v && !json_is_null(v) && json_object_size(v))
            return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "%s is not supported by this server", not_here[i]);
    }
    return 0;
}

static char *note_text(const json_t *in, const char *template_, int64_t timeout)
{
    CAY_AUTOJSON *o = json_pack("{s:{s:s,s:I,s:b},s:O}", "e2b", "template", template_, "timeout", (json_int_t)timeout, "autoResume",
                                cay__json_bool(json_object_get(in, "autoResume"), "enabled", false), "metadata", json_object_get(in, "metadata") ? json_object_get(in, "metadata") : json_null());
    json_t *e = json_object_get(o, "e2b"), *net = json_object_get(in, "network"), *open = json_object_get(in, "allow_internet_access"), *vol = json_object_get(in, "volumeMounts");
    if (json_is_object(net))
        json_object_set(e, "network", net);
    if (json_is_boolean(open))
        json_object_set(e, "internet", open);
    if (json_is_array(vol))
        json_object_set(e, "volumes", vol);
    return cay__json_text(o, 60000);
}

static int create(cay__req *r, int64_t default_timeout, cay_err *err)
{
    json_t *in, *out;
    const cay_pair *unused = NULL;
    CAY_AUTOFREE char *net = NULL, *note = NULL;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const char *template_ = cay__json_str(in, "templateID", NULL);
    int64_t timeout = cay__json_int(in, "timeout", default_timeout);
    cay_create c = { .size = sizeof c, .user = "user", .workdir = "/home/user", .on_expiry = cay__json_bool(in, "autoPause", false) ? CAY_EXPIRE_PAUSE : CAY_EXPIRE_KILL };
    if (!template_)
        return cay_fail(err, CAY_EINVAL, "templateID is missing");
    if (timeout <= 0 || timeout > 86400 * 30)
        return cay_fail(err, CAY_EINVAL, "Timeout must be greater than 0 and at most 30 days");
    if (!cay__json_bool(in, "autoPauseMemory", true) && (c.on_expiry == CAY_EXPIRE_KILL || cay__json_bool(json_object_get(in, "autoResume"), "enabled", false)))
        return cay_fail(err, CAY_EINVAL, "autoPauseMemory false goes with autoPause, and not with autoResume");
    c.ttl_ms = (uint64_t)timeout * 1000;
    CAY_TRY(refuse(in, err));
    CAY_TRY(starting_point(r, template_, &c, err));
    CAY_TRY(pairs(r, json_object_get(in, "envVars"), "envVars", &c.env, err));
    CAY_TRY(pairs(r, json_object_get(in, "metadata"), "metadata", &unused, err));
    CAY_TRY(volumes(r, json_object_get(in, "volumeMounts"), &c, err));
    CAY_TRY(e2b_policy(json_object_get(in, "network"), cay__json_bool(in, "allow_internet_access", true), &net, err));
    c.net = net;
    if (!(note = note_text(in, template_, timeout)))
        return cay_fail(err, CAY_ETOOBIG, "metadata and network are longer than 60 kB");
    c.metadata = note;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    c.tenant = r->who.tenant;
    CAY_TRY(cay_service_create(r->svc, &r->call, &c, &sb, err));
    CAY_TRY(sandbox_json(r, cay_sandbox_id(sb), template_, &out, err));
    return cay__reply_json(r, 201, out);
}

static int on_create_v1(cay__req *r, cay_err *err)
{
    return create(r, 15, err);
}

static int on_create(cay__req *r, cay_err *err)
{
    return create(r, E2B_TIMEOUT, err);
}

/* ------------------------------------------------------------------ list */

/* key=value&…, each part encoded twice before the query was. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (*s == '%' && isxdigit((unsigned char)s[1]) && isxdigit((unsigned char)s[2])) {
            *to++ = (char)strtoul((char[]){ s[1], s[2], 0 }, NULL, 16);
            s += 2;
        } else {
            *to++ = *s == '+' ? ' ' : *s;
        }
    }
    *to = 0;
}

typedef struct pages {
    json_t     *list;
    json_t     *want; /* metadata */
    bool        running, paused, asc;
    const char *template_;
} pages;

static json_t *wanted(cay__req *r)
{
    const char *q = cay__req_query(r, "metadata");
    json_t *o = json_object();
    if (!q)
        return o;
    char *s = cay__arena_str(&r->arena, q), *save = NULL;
    for (char *one = strtok_r(s, "&", &save); one; one = strtok_r(NULL, "&", &save)) {
        char *v = strchr(one, '=');
        if (!v)
            continue;
        *v++ = 0;
        for (int i = 0; i < 2; i++) {
            unescape(one);
            unescape(v);
        }
        json_t *value = json_string(v);
        if (!value || json_object_set_new(o, one, value) < 0)
            json_object_set_new(o, "\x01", json_null()); /* not text: nothing has it */
    }
    return o;
}

static bool matches(const pages *p, const e2b_box *b)
{
    const char *key;
    json_t *v;
    bool run = e2b_running(b->info);
    if (run ? !p->running : !p->paused)
        return false;
    if (p->template_ && strcmp(p->template_, b->note.template_))
        return false;
    json_object_foreach(p->want, key, v)
        if (!json_equal(json_object_get(b->note.metadata, key), v))
            return false;
    return true;
}

typedef struct ids {
    cay__arena  *mem;
    const char **v;
    size_t       n, cap;
} ids;

static int keep_id(const cay_info *i, void *arg)
{
    ids *l = arg;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->v = realloc(l->v, l->cap * sizeof *l->v);
        if (!l->v)
            abort();
    }
    l->v[l->n++] = cay__arena_str(l->mem, i->id);
    return 0;
}

/* Newest first unless asked otherwise; the token of the next page is the last id told. */
static int list(cay__req *r, pages *p, cay_err *err)
{
    uint64_t limit;
    const char *after = cay__req_query(r, "nextToken");
    ids l = { .mem = &r->arena };
    CAY_TRY(cay__req_number(r, "limit", PAGE, PAGE, &limit, err));
    const cay_filter all = { .size = sizeof all, .tenant = cay__req_tenant(r) };
    CAY_TRY(cay_service_list(r->svc, &r->call, &all, keep_id, &l, err));
    bool on = !after || !*after;
    const char *last = NULL, *more = NULL;
    for (size_t k = 0; k < l.n && !more; k++) {
        const char *id = l.v[p->asc ? k : l.n - 1 - k];
        E2B_AUTOBOX b = { 0 };
        if (!on) {
            on = !strcmp(id, after);
            continue;
        }
        if (e2b_find(r, id, false, &b, NULL) < 0 || !matches(p, &b))
            continue;
        if (json_array_size(p->list) == limit) {
            more = last;
            break;
        }
        json_array_append_new(p->list, listed(&b));
        last = id;
    }
    free(l.v);
    if (more)
        cay__reply_field(r, "x-next-token", more);
    return cay__reply_json(r, 200, json_incref(p->list));
}

static int on_list(cay__req *r, cay_err *err)
{
    const char *state = cay__req_query(r, "state"), *order = cay__req_query(r, "order");
    CAY_AUTOJSON *out = json_array(), *want = wanted(r);
    pages p = { .list = out, .want = want, .running = !state || strstr(state, "running"), .paused = !state || strstr(state, "paused"), .asc = order && !strcmp(order, "asc"),
                .template_ = cay__req_query(r, "template") };
    return list(r, &p, err);
}

static int on_list_v1(cay__req *r, cay_err *err)
{
    CAY_AUTOJSON *out = json_array(), *want = wanted(r);
    pages p = { .list = out, .want = want, .running = true };
    return list(r, &p, err);
}

/* ------------------------------------------------------------------ one */

static int on_get(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    char token[E2B_TOKEN_LEN + 1];
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    CAY_TRY(e2b_token(r, "envd", b.info->id, token, err));
    json_t *o = listed(&b);
    json_object_set_new(o, "envdAccessToken", json_string(token));
    json_object_set_new(o, "domain", domain(r));
    json_object_set_new(o, "allowInternetAccess", b.note.internet_set ? json_boolean(b.note.internet) : json_null());
    if (b.note.network)
        json_object_set(o, "network", b.note.network);
    json_object_set_new(o, "lifecycle", json_pack("{s:b,s:s}", "autoResume", b.note.auto_resume, "onTimeout", b.info->on_expiry == CAY_EXPIRE_PAUSE ? "pause" : "kill"));
    return cay__reply_json(r, 200, o);
}

static int on_kill(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    CAY_TRY(cay_sandbox_remove(b.sb, &r->call, err));
    cay_note_put(r->svc, "e2b", b.info->id, NULL, NULL);
    return cay__reply(r, 204, NULL, NULL, 0);
}

static int seconds(const json_t *in, const char *key, int64_t none, int64_t *out, cay_err *err)
{
    const json_t *v = json_object_get(in, key);
    *out = json_is_integer(v) ? json_integer_value(v) : none;
    if ((v && !json_is_integer(v)) || *out < 0 || *out > 86400 * 30)
        return cay_fail(err, CAY_EINVAL, "%s is a number of seconds, at most 30 days", key);
    return 0;
}

static int on_timeout(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    int64_t s;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(seconds(in, "timeout", -1, &s, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    CAY_TRY(cay_sandbox_extend(b.sb, &r->call, s ? (uint64_t)s * 1000 : 1, 0, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

/* Never less than what is left. */
static int prolong(cay__req *r, const e2b_box *b, int64_t s, cay_err *err)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t left = b->info->deadline_ms - (t.tv_sec * 1000LL + t.tv_nsec / 1000000);
    if (e2b_running(b->info) && (!b->info->deadline_ms || left >= s * 1000))
        return 0;
    return cay_sandbox_extend(b->sb, &r->call, (uint64_t)s * 1000, 0, err);
}

static int on_refresh(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    int64_t s;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(seconds(in, "duration", 15, &s, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    CAY_TRY(prolong(r, &b, CAY_MAX(s, 15), err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

static int resume(cay__req *r, e2b_box *b, int64_t s, cay_err *err)
{
    bool was = e2b_running(b->info);
    json_t *out;
    if (!was)
        CAY_TRY(cay_sandbox_resume(b->sb, &r->call, err));
    CAY_TRY(prolong(r, b, s, err));
    CAY_TRY(sandbox_json(r, b->info->id, b->note.template_, &out, err));
    return cay__reply_json(r, was ? 200 : 201, out);
}

static int on_connect(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    int64_t s;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(seconds(in, "timeout", E2B_TIMEOUT, &s, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    return resume(r, &b, CAY_MAX(s, 1), err);
}

static int on_resume(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    int64_t s;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(seconds(in, "timeout", 15, &s, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    if (e2b_running(b.info))
        return cay_fail(err, CAY_ESTATE, "sandbox \"%s\" is already running", b.info->id);
    return resume(r, &b, CAY_MAX(s, 1), err);
}

/* Without its memory it is stopped: files stay, processes do not. */
static int on_pause(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    if (!e2b_running(b.info))
        return cay_fail(err, CAY_ESTATE, "sandbox \"%s\" is already paused", b.info->id);
    /* What is paused stays until it is killed. */
    CAY_TRY(cay_sandbox_extend(b.sb, &r->call, CAY_UNLIMITED, 0, err));
    CAY_TRY(cay__json_bool(in, "memory", true) ? cay_sandbox_pause(b.sb, &r->call, err) : cay_sandbox_kill(b.sb, &r->call, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

static int on_network(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    CAY_AUTOFREE char *text = NULL, *note = NULL;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    bool open = cay__json_bool(in, "allow_internet_access", true);
    CAY_AUTOJSON *net = json_deep_copy(in);
    json_object_del(net, "allow_internet_access");
    CAY_TRY(e2b_policy(net, open, &text, err));
    CAY_TRY(cay_sandbox_set_policy(b.sb, &r->call, text, NULL, err));
    CAY_AUTOJSON *o = json_pack("{s:O,s:b}", "network", net, "internet", open);
    if ((note = cay__json_text(o, 60000)))
        CAY_TRY(cay_note_put(r->svc, "e2b", b.info->id, note, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

/* ------------------------------------------------------------------ figures */

static int sample(cay__req *r, const e2b_box *b, json_t **out, cay_err *err)
{
    cay_usage u = { .size = sizeof u }, v = { .size = sizeof v };
    char now[32];
    struct timespec t;
    int cpus = (int)(bounded(b->info->limits.cpu_milli, 1000) + 999) / 1000;
    CAY_TRY(cay_sandbox_usage(b->sb, &r->call, &u, err));
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL); /* use is told as a rate */
    CAY_TRY(cay_sandbox_usage(b->sb, &r->call, &v, err));
    clock_gettime(CLOCK_REALTIME, &t);
    when(t.tv_sec * 1000LL + t.tv_nsec / 1000000, now);
    double pct = v.cpu_us > u.cpu_us ? (double)(v.cpu_us - u.cpu_us) / 500.0 / cpus : 0;
    *out = json_pack("{s:s,s:I,s:i,s:f,s:I,s:I,s:I,s:I,s:I}", "timestamp", now, "timestampUnix", (json_int_t)t.tv_sec, "cpuCount", cpus, "cpuUsedPct", pct, "memUsed", (json_int_t)v.memory, "memTotal",
                     (json_int_t)bounded(b->info->limits.memory, 0), "memCache", (json_int_t)0, "diskUsed", (json_int_t)v.disk, "diskTotal", (json_int_t)bounded(b->info->limits.disk, 0));
    return 0;
}

static int on_metrics(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    uint64_t end;
    json_t *one;
    CAY_TRY(cay__req_number(r, "end", UINT64_MAX, UINT64_MAX, &end, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    CAY_AUTOJSON *list = json_array();
    /* No history is kept: there is the moment itself, if that is asked for. */
    if (e2b_running(b.info) && end >= (uint64_t)time(NULL)) {
        CAY_TRY(sample(r, &b, &one, err));
        json_array_append_new(list, one);
    }
    return cay__reply_json(r, 200, json_incref(list));
}

static int on_all_metrics(cay__req *r, cay_err *err)
{
    const char *q = cay__req_query(r, "sandbox_ids");
    CAY_AUTOJSON *all = json_object();
    char *s = cay__arena_str(&r->arena, q ? q : ""), *save = NULL;
    int n = 0;
    for (char *id = strtok_r(s, ",", &save); id; id = strtok_r(NULL, ",", &save)) {
        E2B_AUTOBOX b = { 0 };
        json_t *one;
        if (++n > 100)
            return cay_fail(err, CAY_EINVAL, "sandbox_ids has at most 100");
        if (e2b_find(r, id, false, &b, NULL) == 0 && e2b_running(b.info) && sample(r, &b, &one, NULL) == 0)
            json_object_set_new(all, b.info->id, one);
    }
    return cay__reply_json(r, 200, json_pack("{s:O}", "sandboxes", all));
}

/* ------------------------------------------------------------------ snapshots and forks */

static json_t *snapshot_json(const cay_snapshot *s)
{
    json_t *names = json_array();
    if (*s->label)
        json_array_append_new(names, json_string(s->label));
    return json_pack("{s:s,s:o}", "snapshotID", s->id, "names", names);
}

static int on_snapshot(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    cay_snapshot *s;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    const cay_snapshot_spec spec = { .size = sizeof spec, .label = cay__json_str(in, "name", NULL), .stop = true };
    CAY_TRY(cay_sandbox_snapshot(b.sb, &r->call, &spec, &s, err));
    json_t *o = snapshot_json(s);
    cay_snapshot_free(s);
    return cay__reply_json(r, 201, o);
}

typedef struct snaps {
    json_t     *list;
    const char *name;
    size_t      limit;
    char        next[CAY_ID_LEN + 1];
} snaps;

static int add_snapshot(const cay_snapshot *s, void *arg)
{
    snaps *l = arg;
    if (s->automatic || (l->name && strcmp(l->name, s->label)))
        return 0;
    if (json_array_size(l->list) == l->limit)
        return 1;
    json_array_append_new(l->list, snapshot_json(s));
    cay__str_copy(l->next, sizeof l->next, s->id);
    return 0;
}

static int on_snapshots(cay__req *r, cay_err *err)
{
    uint64_t limit;
    CAY_AUTOJSON *out = json_array();
    const char *after = cay__req_query(r, "nextToken"), *sandbox = cay__req_query(r, "sandboxID");
    CAY_TRY(cay__req_number(r, "limit", PAGE, PAGE, &limit, err));
    snaps l = { .list = out, .name = cay__req_query(r, "name"), .limit = limit };
    const cay_snapshot_filter f = { .size = sizeof f, .sandbox = sandbox && *sandbox ? sandbox : NULL, .after = after && *after ? after : NULL, .tenant = cay__req_tenant(r) };
    int rc = cay_service_snapshots(r->svc, &r->call, &f, add_snapshot, &l, err);
    if (rc < 0)
        return rc;
    if (rc == 1)
        cay__reply_field(r, "x-next-token", l.next);
    return cay__reply_json(r, 200, json_incref(out));
}

static int on_template_delete(cay__req *r, cay_err *err)
{
    char *ref = cay__arena_str(&r->arena, r->param[0]), *tag = strstr(ref, ":default");
    cay_snapshot *s;
    bool deferred;
    if (tag && !tag[8])
        *tag = 0;
    CAY_TRY(cay_service_snapshot_of(r->svc, &r->call, cay__req_tenant(r), ref, &s, err));
    int rc = cay_snapshot_remove(r->svc, &r->call, s->id, &deferred, err);
    cay_snapshot_free(s);
    if (rc < 0)
        return rc;
    return cay__reply(r, 204, NULL, NULL, 0);
}

typedef struct forks {
    cay__req   *r;
    const char *template_;
    json_t     *list;
    cay_err    *err;
} forks;

static int add_fork(cay_sandbox *sb, void *arg)
{
    forks *f = arg;
    json_t *one;
    int rc = sandbox_json(f->r, cay_sandbox_id(sb), f->template_, &one, f->err);
    if (rc == 0)
        json_array_append_new(f->list, json_pack("{s:o}", "sandbox", one));
    return rc;
}

static int on_fork(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    int64_t s;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(seconds(in, "timeout", 15, &s, err));
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    int64_t n = cay__json_int(in, "count", 1);
    if (n < 1 || n > 100)
        return cay_fail(err, CAY_EINVAL, "count is 1 to 100");
    CAY_AUTOJSON *list = json_array();
    forks f = { r, b.note.template_, list, err };
    const cay_fork spec = { .size = sizeof spec, .n = (size_t)n, .ttl_ms = (uint64_t)CAY_MAX(s, 1) * 1000 };
    CAY_TRY(cay_service_fork(r->svc, &r->call, b.info->id, &spec, add_fork, &f, err));
    return cay__reply_json(r, 201, json_incref(list));
}

/* ------------------------------------------------------------------ templates: what exists */

static json_t *base_template(void)
{
    return json_pack("{s:s,s:s,s:i,s:i,s:i,s:b,s:[s],s:[s],s:s,s:s,s:n,s:n,s:i,s:i,s:s,s:s}", "templateID", "base", "buildID", "00000000-0000-0000-0000-000000000000", "cpuCount", 2, "memoryMB", 2048,
                     "diskSizeMB", 10240, "public", true, "aliases", "base", "names", "base", "createdAt", "2026-01-01T00:00:00Z", "updatedAt", "2026-01-01T00:00:00Z", "createdBy", "lastSpawnedAt", "spawnCount",
                     0, "buildCount", 1, "envdVersion", E2B_ENVD_VERSION, "buildStatus", "ready");
}

static int on_templates(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_json(r, 200, json_pack("[o]", base_template()));
}

static int on_alias(cay__req *r, cay_err *err)
{
    if (strcmp(r->param[0], "base"))
        return cay_fail_why(err, CAY_ENOENT, "template_not_found", "template '%.80s' not found", r->param[0]);
    return cay__reply_json(r, 200, json_pack("{s:s,s:b}", "templateID", "base", "public", true));
}

static int on_build(cay__req *r, cay_err *err)
{
    (void)r;
    return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "template builds are not supported by this server yet; start from base or from a snapshot");
}

static int on_logs(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    CAY_TRY(e2b_find(r, r->param[0], false, &b, err));
    return cay__reply_json(r, 200, json_pack("{s:[],s:[]}", "logs", "logEntries"));
}

static int on_health(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply(r, 204, NULL, NULL, 0);
}

/* ------------------------------------------------------------------ volumes */

static int on_volume_create(cay__req *r, cay_err *err)
{
    json_t *in;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    const char *name = cay__json_str(in, "name", NULL);
    if (!name)
        return cay_fail(err, CAY_EINVAL, "name is missing");
    return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "volumes of the E2B protocol are not supported by this server yet; `cay volume create %.60s` makes one", name);
}

static const cay__route routes[] = {
    { "GET", "/health", on_health, CAY__ROUTE_OPEN },
    { "POST", "/v2/sandboxes", on_create, CAY__ROUTE_CREATE },
    { "POST", "/sandboxes", on_create_v1, CAY__ROUTE_CREATE },
    { "GET", "/v2/sandboxes", on_list, 0 },
    { "GET", "/sandboxes", on_list_v1, 0 },
    { "GET", "/sandboxes/metrics", on_all_metrics, 0 },
    { "GET", "/sandboxes/{id}", on_get, 0 },
    { "DELETE", "/sandboxes/{id}", on_kill, 0 },
    { "POST", "/v2/sandboxes/{id}/connect", on_connect, 0 },
    { "POST", "/sandboxes/{id}/connect", on_connect, 0 },
    { "POST", "/sandboxes/{id}/resume", on_resume, 0 },
    { "POST", "/sandboxes/{id}/pause", on_pause, 0 },
    { "POST", "/sandboxes/{id}/timeout", on_timeout, 0 },
    { "POST", "/sandboxes/{id}/refreshes", on_refresh, 0 },
    { "PUT", "/sandboxes/{id}/network", on_network, 0 },
    { "GET", "/sandboxes/{id}/metrics", on_metrics, 0 },
    { "GET", "/sandboxes/{id}/logs", on_logs, 0 },
    { "GET", "/v2/sandboxes/{id}/logs", on_logs, 0 },
    { "POST", "/sandboxes/{id}/snapshots", on_snapshot, 0 },
    { "POST", "/sandboxes/{id}/fork", on_fork, 0 },
    { "GET", "/snapshots", on_snapshots, 0 },
    { "GET", "/templates", on_templates, 0 },
    { "GET", "/v2/templates", on_templates, 0 },
    { "GET", "/templates/aliases/{alias}", on_alias, 0 },
    { "DELETE", "/templates/{id}", on_template_delete, 0 },
    { "POST", "/v3/templates", on_build, 0 },
    { "POST", "/v2/templates", on_build, 0 },
    { "POST", "/templates", on_build, 0 },
    { "POST", "/volumes", on_volume_create, 0 },
};

static int status_of(const cay_err *err)
{
    switch (err->code) {
    case CAY_EINVAL: case CAY_ETYPE: return 400;
    case CAY_EAUTH: return 401;
    case CAY_EPERM: return 403;
    case CAY_ENOENT: case CAY_EGONE: return 404;
    case CAY_EEXIST: case CAY_ESTATE: return 409;
    case CAY_ETOOBIG: return 413;
    case CAY_ERATE: return 429;
    case CAY_ENOTSUP: return 501;
    case CAY_EBUSY: case CAY_ENOSPACE: case CAY_EISOLATION: return 503;
    case CAY_ETIMEOUT: return 504;
    }
    return 500;
}

/* SDKs read `code`, which is the status again. */
static int fail(cay__req *r, const cay_err *err)
{
    return cay__reply_json(r, status_of(err), json_pack("{s:i,s:s,s:s}", "code", status_of(err), "message", err->msg, "error_code", *err->reason ? err->reason : "internal_server_error"));
}

/* Paths that nobody else has, shown with a key: SDKs are told one address for everything. */
static bool also(cay__req *r)
{
    static const char *const paths[] = { "/sandboxes", "/v2/sandboxes", "/templates", "/v2/templates", "/v3/templates", "/snapshots", "/volumes" };
    for (size_t i = 0; i < CAY_LEN(paths); i++) {
        size_t n = strlen(paths[i]);
        if (!strncmp(r->head.path, paths[i], n) && (!r->head.path[n] || r->head.path[n] == '/'))
            return r->as || cay__req_key(r);
    }
    return false;
}

const cay__dialect cay__dialect_e2b = { .name = "e2b", .base = "/e2b", .routes = routes, .nroutes = CAY_LEN(routes), .fail = fail, .also = also };
