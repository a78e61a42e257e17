/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Volumes behind RUN --mount. A note (space "build-mount", key: the volume's name) says before one is made whose it is: of a build, and then it goes with it, or a
 * cache, which stays until it is pruned.
 */
#include "build.h"
#include <base/str.h>
#include <cay/access.h>
#include <cay/note.h>
#include <service/volume.h>
#include <stdio.h>

#define SPACE       "build-mount"
#define CACHES_MOST 64           /* of one tenant */
#define LIMIT       (10ull << 30) /* bytes of one */

typedef struct kept {
    char volume[CAY_VOLUME_NAME + 1], build[CAY_ID_LEN + 1];
    bool alive; /* whoever made it */
} kept;

typedef struct keeping {
    const char   *tenant; /* whose; NULL: of all */
    const json_t *busy;   /* tenants whose stay; or NULL */
    bool          caches;
    kept         *v;
    size_t        n;
} keeping;

static int on_note(const char *key, const char *text, void *arg)
{
    keeping *k = arg;
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("note", text, &o, NULL) < 0)
        return 0;
    const char *tenant = cay__json_str(o, "tenant", CAY_TENANT_DEFAULT), *build = cay__json_str(o, "build", "");
    if (!*build != k->caches || (k->tenant && strcmp(k->tenant, tenant)) || (k->busy && json_object_get(k->busy, tenant)))
        return 0;
    k->v = realloc(k->v, (k->n + 1) * sizeof *k->v);
    if (!k->v)
        abort();
    kept *one = &k->v[k->n++];
    *one = (kept){ .alive = cay__report_alive(o) };
    cay__str_copy(one->volume, sizeof one->volume, key);
    cay__str_copy(one->build, sizeof one->build, build);
    return 0;
}

/* One that is in use stays, and is tried again the next time. */
bool cay__mount_forget(cay_service *svc, const char *volume)
{
    int rc = cay_volume_remove(svc, NULL, volume, NULL);
    return (rc == 0 || rc == CAY_ENOENT) && cay_note_put(svc, SPACE, volume, NULL, NULL) == 0;
}

static bool at_work(cay_service *svc, const kept *k)
{
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *o = NULL;
    return k->alive && cay_note_get(svc, "build", k->build, &text, NULL) == 0 && cay__json_object("record", text, &o, NULL) == 0 &&
           !strcmp(cay__json_str(o, "state", ""), "building");
}

void cay__lent_sweep(cay_service *svc)
{
    keeping k = { 0 };
    cay_note_list(svc, SPACE, "", on_note, &k, NULL);
    for (size_t i = 0; i < k.n; i++)
        if (!at_work(svc, &k.v[i]))
            cay__mount_forget(svc, k.v[i].volume);
    free(k.v);
}

void cay__lent_prune(cay_service *svc, const char *tenant, const json_t *busy, size_t *n)
{
    keeping k = { .tenant = tenant, .busy = busy, .caches = true };
    cay__lent_sweep(svc);
    cay_note_list(svc, SPACE, "", on_note, &k, NULL);
    for (size_t i = 0; i < k.n; i++)
        *n += cay__mount_forget(svc, k.v[i].volume);
    free(k.v);
}

static int note(cay__builder *b, const char *name, bool cache, cay_err *err)
{
    const char *tenant = b->spec->tenant ? b->spec->tenant : CAY_TENANT_DEFAULT;
    CAY_AUTOJSON *o = json_pack("{s:s, s:s, s:O?, s:O?}", "tenant", tenant, "build", cache ? "" : b->report.id, "pid", json_object_get(b->report.record, "pid"),
                                "pid_start", json_object_get(b->report.record, "pid_start"));
    CAY_AUTOFREE char *text = o ? cay__json_text(o, 1000) : NULL, *old = NULL;
    if (cache && cay_note_get(b->svc, SPACE, name, &old, NULL) == 0)
        return 0;
    keeping k = { .tenant = tenant, .caches = true };
    if (cache) {
        CAY_TRY(cay_note_list(b->svc, SPACE, "", on_note, &k, err));
        free(k.v);
    }
    if (k.n >= CACHES_MOST)
        return cay_fail_why(err, CAY_ETOOBIG, "build_caches", "there are %zu caches of builds, which is the most; forget them: cay template prune", k.n);
    return cay_note_put(b->svc, SPACE, name, text, err);
}

int cay__mount_volume(cay__builder *b, const cay__bmount *m, char name[CAY_VOLUME_NAME + 1], cay_err *err)
{
    const char *tenant = b->spec->tenant ? b->spec->tenant : CAY_TENANT_DEFAULT;
    char whose[CAY__SHA256_HEX], what[CAY__SHA256_HEX];
    bool cache = m->type == 'c';
    cay__sha256_hex(tenant, strlen(tenant), whose);
    if (cache)
        cay__sha256_hex(m->id, strlen(m->id), what);
    else
        cay__id_make(what, 'v');
    snprintf(name, CAY_VOLUME_NAME + 1, CAY__VOLUME_BUILD "%.16s.%.24s", whose, what);
    CAY_TRY(note(b, name, cache, err));
    uint64_t most = b->spec->limits.disk && b->spec->limits.disk < LIMIT ? b->spec->limits.disk : LIMIT;
    int rc = cay_volume_create(b->svc, &b->call, &(cay_volume_spec){ .size = sizeof(cay_volume_spec), .name = name, .limit = most, .once = "build" }, err);
    return rc < 0 ? cay_wrap(err, rc, "--mount %.60s", m->target) : 0;
}
