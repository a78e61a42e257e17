/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Volumes behind RUN --mount. A note (space "build-mount", key: the volume's name) says before one
 * is made whose it is: of a build, and then it goes with it, or a cache, which stays until it is
 * pruned, was not used for long, or no longer fits what its tenant may have. `bytes` of these notes
 * count in a tenant's bound (db.c).
 */
#include "build.h"
#include <cay/access.h>
#include <cay/note.h>
#include <lib/client/client.h>

#define SPACE       "build-mount"
#define CACHES_MOST 64            /* of one tenant */
#define LIMIT       (10ull << 30) /* bytes of one */
#define UNUSED_MS   ((int64_t)14 * 24 * 3600 * 1000)

typedef struct kept {
    char volume[CAY_VOLUME_NAME + 1], build[CAY_ID_LEN + 1];
    bool alive; /* whoever made it */
    int64_t used_ms;
    char id[64], tenant[64]; /* of a cache: what the Dockerfile calls it, cut; whose it is */
} kept;

typedef struct keeping {
    const char *tenant; /* whose; NULL: of all */
    const json_t *busy; /* tenants whose stay; or NULL */
    bool caches;
    kept *v;
    size_t n;
} keeping;

static int on_note(const char *key, const char *text, void *arg)
{
    keeping *k = arg;
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("note", text, &o, NULL) < 0)
        return 0;
    const char *tenant = cay__json_str(o, "tenant", CAY_TENANT_DEFAULT),
               *build = cay__json_str(o, "build", "");
    if (!*build != k->caches || (k->tenant && strcmp(k->tenant, tenant)) ||
        (k->busy && json_object_get(k->busy, tenant)))
        return 0;
    CAY_GROW(k->v, k->n);
    kept *one = &k->v[k->n++];
    *one = (kept){
        .alive = cay__report_alive(o), .used_ms = cay__json_int(o, "used_ms", INT64_MAX)
    }; /* older notes have none: their next use tells */
    CAY_FORMAT(one->id, "%s", cay__json_str(o, "id", ""));
    CAY_FORMAT(one->tenant, "%s", tenant);
    CAY_COPY(one->volume, key);
    CAY_COPY(one->build, build);
    return 0;
}

/* One that is in use stays, and is tried again the next time. */
bool cay__mount_forget(cay_client *client, const char *volume)
{
    int rc = cay_volume_remove(client, NULL, volume, NULL);
    return (rc == 0 || rc == CAY_ENOENT) && cay_note_put(client, SPACE, volume, NULL, NULL) == 0;
}

static bool at_work(cay_client *client, const kept *k)
{
    CAY_AUTOJSON *o = CAY_IF(k->alive, cay__note_object(client, "build", k->build));
    return cay__record_is(o, "building");
}

void cay__lent_sweep(cay_client *client)
{
    keeping k = { 0 };
    cay_note_list(client, SPACE, "", on_note, &k, NULL);
    CAY_EACH_OF(it, k.v, k.n)
        if (!at_work(client, it))
            cay__mount_forget(client, it->volume);
    free(k.v);
}

int cay_build_gc(cay_client *client, const cay_call *call, size_t *n, cay_err *err)
{
    keeping k = { .caches = true };
    const int64_t now = cay__clock_ms();
    size_t gone = 0;
    CAY_TRY(cay__call_check(call, "gc", err));
    cay__build_sweep(client);
    cay__lent_sweep(client);
    int rc = cay_note_list(client, SPACE, "", on_note, &k, err);
    for (size_t i = 0; rc == 0 && i < k.n; i++)
        if (k.v[i].used_ms < now - UNUSED_MS)
            gone += cay__mount_forget(client, k.v[i].volume);
    free(k.v);
    if (n)
        *n = gone;
    return rc;
}

int cay_build_caches(cay_client *client, const cay_call *call, const char *tenant,
                     int (*fn)(const cay_build_cache *c, void *arg), void *arg, cay_err *err)
{
    if (client->remote)
        return CAY__REMOTE_EACH(cay_build_cache, client->remote, call, CAY__REQUEST(build_caches),
                                fn, arg, err);
    keeping k = { .tenant = tenant, .caches = true };
    int rc = cay_note_list(client, SPACE, "", on_note, &k, err);
    for (size_t i = 0; rc == 0 && i < k.n; i++) {
        cay_volume *v = NULL;
        if (cay_volume_find(client, call, k.v[i].volume, &v, NULL) < 0)
            continue; /* noted, and not made yet */
        const cay_build_cache c = { .size = sizeof c,
                                    .id = k.v[i].id,
                                    .volume = k.v[i].volume,
                                    .tenant = k.v[i].tenant,
                                    .bytes = v->used,
                                    .limit = v->limit,
                                    .used_ms = k.v[i].used_ms == INT64_MAX ? 0 : k.v[i].used_ms };
        rc = fn(&c, arg);
        cay_volume_free(v);
    }
    free(k.v);
    return rc;
}

static int take_tenant(const cay_tenant *t, void *arg)
{
    *(cay_tenant *)arg = *t;
    return 0;
}

/* What may be added to what the tenant has; UINT64_MAX without a bound. */
static uint64_t get_quota_left(cay__builder *b)
{
    cay_tenant t = { 0 };
    if (cay_tenant_get(b->client, CAY_OR(b->spec->tenant, CAY_TENANT_DEFAULT), take_tenant, &t,
                       NULL) < 0 ||
        !t.most.templates)
        return UINT64_MAX;
    if (t.most.templates > t.used.templates)
        return t.most.templates - t.used.templates;
    return 0;
}

/* A tree is walked for its bytes, so only where somebody asks for them. */
void cay__cache_used(cay__builder *b, const cay__bmount *m)
{
    CAY_AUTOJSON *o = cay__note_object(b->client, SPACE, m->volume);
    cay_volume *v = NULL;
    if (!o)
        return;
    json_object_set_new(o, "used_ms", json_integer(cay__clock_ms()));
    bool bound = get_quota_left(b) != UINT64_MAX;
    if (bound && cay_volume_find(b->client, &b->call, m->volume, &v, NULL) == 0)
        json_object_set_new(o, "bytes", json_integer((json_int_t)v->used));
    cay_volume_free(v);
    cay__note_save(b->client, SPACE, m->volume, o, NULL);
    if (bound && !get_quota_left(b) && cay__mount_forget(b->client, m->volume))
        cay__report_say(&b->report, CAY_BUILD_WARN, false,
                        "the cache %.60s does not fit what tenant %s may have of templates and "
                        "caches, and is forgotten",
                        m->id, CAY_OR(b->spec->tenant, CAY_TENANT_DEFAULT));
}

void cay__lent_prune(cay_client *client, const char *tenant, const json_t *busy, size_t *n)
{
    keeping k = { .tenant = tenant, .busy = busy, .caches = true };
    cay__lent_sweep(client);
    cay_note_list(client, SPACE, "", on_note, &k, NULL);
    CAY_EACH_OF(it, k.v, k.n)
        *n += cay__mount_forget(client, it->volume);
    free(k.v);
}

static int write_note(cay__builder *b, const char *name, const char *id, bool cache, cay_err *err)
{
    const char *tenant = CAY_OR(b->spec->tenant, CAY_TENANT_DEFAULT);
    CAY_AUTOJSON *o = json_pack("{s:s, s:s, s:O?, s:O?}", "tenant", tenant, "build",
                                CAY_TEXT_IF(!cache, b->report.id), "pid",
                                json_object_get(b->report.record, "pid"), "pid_start",
                                json_object_get(b->report.record, "pid_start"));
    if (cache) {
        char cut[64];
        CAY_FORMAT(cut, "%s", id);
        json_object_set_new(o, "id", cay__json_bytes(cut));
        json_object_set_new(o, "used_ms", json_integer(cay__clock_ms()));
    }
    CAY_AUTOFREE char *text = CAY_IF(o, cay__json_text(o, 1000)), *old = NULL;
    if (cache && cay_note_get(b->client, SPACE, name, &old, NULL) == 0)
        return 0;
    keeping k = { .tenant = tenant, .caches = true };
    if (cache) {
        CAY_TRY(cay_note_list(b->client, SPACE, "", on_note, &k, err));
        free(k.v);
    }
    if (k.n >= CACHES_MOST)
        return cay_fail_why(
            err, CAY_ETOOBIG, "build_caches",
            "there are %zu caches of builds, which is the most; forget them: cay template prune",
            k.n);
    return cay_note_put(b->client, SPACE, name, text, err);
}

int cay__mount_volume(cay__builder *b, const cay__bmount *m, char name[CAY_VOLUME_NAME + 1],
                      cay_err *err)
{
    const char *tenant = CAY_OR(b->spec->tenant, CAY_TENANT_DEFAULT);
    char whose[CAY__SHA256_HEX], what[CAY__SHA256_HEX];
    bool cache = m->type == 'c';
    cay__sha256_hex(tenant, strlen(tenant), whose);
    if (cache)
        cay__sha256_hex(m->id, strlen(m->id), what);
    else
        cay__id_make(what, 'v');
    snprintf(name, CAY_VOLUME_NAME + 1, CAY__VOLUME_BUILD "%.16s.%.24s", whose, what);
    CAY_TRY(write_note(b, name, m->id, cache, err));
    uint64_t most = LIMIT;
    if (b->spec->limits.disk && b->spec->limits.disk < LIMIT)
        most = b->spec->limits.disk;
    if (cache)
        most = CAY_MAX(CAY_MIN(most, get_quota_left(b)),
                       1u << 20); /* one that is there keeps what it was made with */
    int rc = cay_volume_create(
        b->client, &b->call,
        &(cay_volume_spec){
            .size = sizeof(cay_volume_spec), .name = name, .limit = most, .once = "build" },
        err);
    return cay_wrap(err, rc, "--mount %.60s", m->target);
}
