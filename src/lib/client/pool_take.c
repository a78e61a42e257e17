/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox that is ready becomes somebody's. */
#include "pool.h"
#include "client.h"
#include <lib/manifest/client_manifest.h>
#include "spec.h"
#include <lib/template/template.h>
#include <base/fault.h>
#include <cay/access.h>
#include <lib/sandbox/limits.h>

enum { TRIES = 3, LEARN = 2, TURN_MS = 5 * 60000 };

/* What a sandbox can still be told when it is there. */
static bool of_image(const cay__spec *s);

static cay__spec hard_part(const cay__spec *s)
{
    cay__spec h = *s;
    cay_create *c = &h.create;
    if (of_image(s)) { /* its files are put into a container that runs, one of a pool or not */
        c->manifest.text = c->manifest.base = NULL;
        c->manifest.trusted = c->manifest.applied = false;
        c->manifest.progress = NULL;
    }
    c->life.ttl_ms = c->life.idle_ms = 0;
    c->life.auto_resume = false;
    c->isolation.min_level = 0;
    c->isolation.require = NULL;
    h.box.template_name = NULL;
    return h;
}

/* Of an engine's image, which nobody but the operator's tenant gets without being asked whether it
 * may. */
static bool of_image(const cay__spec *s)
{
    const cay_create *c = &s->create;
    bool there = false;
    for (const cay_pair *o = c->options; o && o->key; o++)
        there |= !strcmp(o->key, "image");
    return there && !(s->box.template_id && *s->box.template_id) &&
           !(c->tenant && strcmp(c->tenant, CAY_TENANT_DEFAULT) != 0);
}

/* Layers of one's own, and what belongs to a request alone. */
static bool is_poolable(const cay__spec *s)
{
    const cay_create *c = &s->create;
    bool image = of_image(s);
    return ((s->box.template_id && *s->box.template_id) || image) && !c->life.ephemeral &&
           !c->from.snapshot && (image || (!c->manifest.text && !c->manifest.base)) &&
           !c->life.checkpoints && !c->from.directory && !c->from.root && !c->files.ngrants &&
           !c->files.nvolumes && !c->net.nsecrets;
}

bool cay__pool_kind(const cay__spec *s, char out[CAY__WARM_KIND])
{
    CAY_AUTOFREE char *text = NULL;
    char hex[65];
    const cay__spec h = hard_part(s);
    if (!is_poolable(s) || cay__spec_text(&h, &text, NULL) < 0)
        return false;
    CAY_AUTOBUF b = CAY__BUF(2 * CAY__SPEC_MAX);
    cay__buf_fmt(&b, "%s\n%s", s->create.provider, text);
    cay_idempotency_hash(b.data, b.len, hex);
    snprintf(out, CAY__WARM_KIND, ".%.32s", hex);
    return true;
}

typedef struct lack {
    cay_client *client;
    const char *template_id, *tenant;
    char *request; /* as a pool would keep it, or NULL: no pool turns to it */
    bool counted;
} lack;

/* What a pool has is in nobody's quota, so a request makes it neither heavier than its template
 * says, */
static bool is_within_template(const cay__spec *s)
{
    cay_limits asked = s->create.limits, most;
    cay__limits_fill(&asked);
    cay__template_limits(s->template_config, &most);
    CAY_EACH_OF(it, cay__limit_table, CAY__LIMITS) {
        size_t at = it->at;
        if (*(const uint64_t *)((const char *)&asked + at) >
            *(const uint64_t *)((const char *)&most + at))
            return false;
    }
    return true;
}

/* nor busy with programs or destinations of somebody's choice; and nobody's values wait in one. */
static bool may_be_learnt(const cay__spec *s, const cay_create *given)
{
    return !given->services && !(given->from.settings && given->from.settings->key) &&
           !given->net.policy && !(given->process.env && given->process.env->key) &&
           !(given->options && given->options->key) && is_within_template(s);
}

/* The operator's own tenant, and whose pool it is; others are given what there is. */
static bool may_turn(const char *tenant, const json_t *pool)
{
    return !strcmp(tenant, CAY_TENANT_DEFAULT) ||
           !strcmp(tenant, cay__json_str(pool, "tenant", ""));
}

/* All that it keeps is thrown away and made anew, so not with every whim. */
static bool turned_lately(const json_t *pool)
{
    int64_t turned = cay__json_int(pool, "turned_ms", 0), now = cay__clock_ms();
    return turned && turned <= now && now - turned < TURN_MS;
}

/* Two that are alike and not like what the pool keeps are what it keeps from now on. */
static int learn_request(const char *key, const char *value, void *arg)
{
    lack *m = arg;
    CAY_AUTOJSON *j = NULL, *request = NULL;
    if (cay__json_object("record: pool", value, &j, NULL) < 0 ||
        strcmp(cay__json_str(j, "template_id", ""), m->template_id) != 0)
        return 0;
    if (!m->counted)
        atomic_fetch_add(&m->client->warm_missed, 1);
    m->counted = true;
    if (!m->request || !may_turn(m->tenant, j) ||
        cay__json_object("", m->request, &request, NULL) < 0)
        return 0; /* there may be another pool, of its own */
    json_object_set(request, "template",
                    json_object_get(j, "template")); /* whatever name it was asked by */
    if (json_equal(request, json_object_get(j, "request")))
        return 1;
    int64_t times = 1;
    if (json_equal(request, json_object_get(j, "other")))
        times = cay__json_int(j, "others", 0) + 1;
    if (times >= LEARN && turned_lately(j))
        return 1;
    if (times >= LEARN)
        json_object_set_new(j, "turned_ms", json_integer(cay__clock_ms()));
    json_object_set(j, times < LEARN ? "other" : "request", request);
    json_object_set_new(j, "others", json_integer(times < LEARN ? times : 0));
    cay__pool_note n = { .all = j };
    CAY_COPY(n.id, key);
    cay__pool_write(m->client, &n, NULL);
    return 1;
}

void cay__pool_missed(cay_client *client, const cay__spec *s, const cay_create *given)
{
    lack m = { .client = client,
               .template_id = s->box.template_id,
               .tenant = CAY_OR(s->create.tenant, CAY_TENANT_DEFAULT) };
    const cay__spec h = hard_part(&(cay__spec){ .create = *given });
    if (may_be_learnt(s, given))
        cay__spec_text(&h, &m.request, NULL);
    CAY__STORE(client, note_list, "warm", "", learn_request, &m, NULL);
    free(m.request);
}

static int take_row(cay_client *client, const char *kind, const cay__spec *s, cay__id id,
                    char **box, cay_err *err)
{
    CAY_AUTOFREE char *spec = NULL, *labels = NULL;
    char creator[160];
    cay_row row;
    CAY_TRY(cay__create_row(s, &row, &spec, &labels, creator, sizeof creator, err));
    return CAY__STORE(client, pool_take, CAY__WARM_TENANT, kind, &row, id, box, err);
}

/* It is recorded as being made for the request; what it still lacks is told to it. */
static int finish_sandbox(cay_client *client, const cay_call *call, const char *id, const char *was,
                          const cay_create *c, const cay__mani *f, cay_sandbox **out, cay_err *err)
{
    const cay_row row = {
        .size = sizeof row, .id = id, .provider = c->provider, .state = CAY_RUNNING, .box = was
    };
    CAY_AUTOFREE char *text = NULL;
    cay__place *p;
    void *box = NULL;
    CAY_TRY(cay__box_attach(client, call, &row, &p, &box, err));
    int rc = 0;
    if (c->life.ttl_ms || c->life.idle_ms)
        rc = p->ops->extend(box, call, c->life.ttl_ms, c->life.idle_ms, err);
    if (rc == 0)
        rc = cay__mani_apply(f, p->ops, id, box, call, err);
    if (rc == 0)
        rc = cay__box_text(p->ops, box, &text, err);
    if (rc == 0)
        rc = cay__client_move(client, id, CAY_RUNNING, "", text, err);
    CAY_FAULT("create.warm.moved");
    if (rc < 0)
        p->ops->release(box);
    else
        *out = cay__handle_new(client, p->ops, id, box, CAY_RUNNING);
    return rc;
}

/* What a manifest asks for when the sandbox starts cannot be told to one that runs. */
static int no_mount(const cay_mount_target *t, void *arg)
{
    return 1;
}

static bool may_come_later(const cay__mani *f)
{
    return !f->m ||
           (!(f->extra && f->extra->key) && cay_manifest_mounts(f->m, no_mount, NULL) == 0);
}

bool cay__pool_with_files(const cay__spec *s)
{
    return s->create.manifest.text && of_image(s);
}

int cay__pool_take(cay_client *client, const cay_call *call, const cay__spec *s, const cay__mani *f,
                   bool *missed, cay_sandbox **out, cay_err *err)
{
    char kind[CAY__WARM_KIND];
    cay__id id;
    cay__place *p;
    const cay_create *c = &s->create;
    if (!cay__pool_kind(s, kind) || !may_come_later(f) ||
        cay__client_place(client, c->provider, &p, NULL) < 0 ||
        ((c->life.ttl_ms || c->life.idle_ms) && !p->ops->extend))
        return CAY_ENOENT;
    for (int i = 0; i < TRIES; i++) {
        CAY_AUTOFREE char *box = NULL;
        int rc = take_row(client, kind, s, id, &box, err);
        if (rc == CAY_ENOENT)
            break;
        if (rc < 0)
            return rc;
        CAY_FAULT("create.warm.taken");
        if (finish_sandbox(client, call, id, box, c, f, out, NULL) == 0) {
            atomic_fetch_add(&client->warm_taken, 1);
            return 0;
        }
        cay__create_undo(client, id, c); /* it died while it waited: another, or a new one */
    }
    *missed = !of_image(s); /* pools of images keep what they were told */
    return CAY_ENOENT;
}
