/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox stands on: a snapshot's layers at create, merged ones when it starts again. */
#include "snapshot.h"
#include <base/fault.h>
#include <base/json.h>
#include <limits.h>

static int other_template(const cay_snap_row *s, const char *given, cay_err *err)
{
    return cay_fail_why(
        err, CAY_EINVAL, "snapshot_template",
        "snapshot %s stands on %.100s, not on %.60s; leave --template and --root out", s->id,
        s->template_, given);
}

static int match_provider(cay_client *client, const cay_snap_row *s, cay_create *c, cay__arena *mem,
                          cay_err *err)
{
    const char *provider = cay__text_or(c->provider, CAY_IF(client->named, client->provider));
    const char *given = CAY_OR(c->from.root, c->from.template_);
    cay__place *to, *of;
    /* Trees are everybody's: what is in their workspace is put into a sandbox of another kind. */
    if (provider && strcmp(provider, s->provider) != 0 && !given &&
        cay__client_place(client, provider, &to, NULL) == 0 &&
        cay__client_place(client, s->provider, &of, NULL) == 0 &&
        CAY__HAS(to->ops, opaque_layers) && CAY__TREES(of->ops))
        return 1;
    if (provider && strcmp(provider, s->provider) != 0)
        return cay_fail_why(err, CAY_EINVAL, "snapshot_provider",
                            "snapshot %s was made by provider %.40s and cannot be used by %.40s",
                            s->id, s->provider, provider);
    if (given && strcmp(given, s->template_) != 0)
        return other_template(s, given, err);
    c->provider = cay__arena_str(mem, s->provider);
    if (!given && *s->template_ == '/')
        c->from.root = cay__arena_str(mem, s->template_);
    else if (!given)
        c->from.template_ = cay__arena_str(mem, s->template_);
    return 0;
}

int cay__snap_on(const cay_snap_row *s, char *dir, size_t cap, int64_t *since_ms, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__json_object("record: spec", s->spec, &o, err));
    CAY_AUTOFREE char *on = cay__json_to_bytes(json_object_get(o, "on"));
    if (!cay__str_copy(dir, cap, CAY_OR(on, "")))
        return cay_fail_why(err, CAY_EINVAL, "snapshot_on",
                            "snapshot %s: the path of its directory is too long", s->id);
    *since_ms = cay__json_int(o, "on_since_ms", 0);
    return 0;
}

/* What is above a directory of the host is nothing without it, and it has to be that very one. */
static int match_on(const cay_snap_row *s, cay__spec *spec, cay_err *err)
{
    char dir[PATH_MAX];
    int64_t since = 0;
    const cay_create *c = &spec->create;
    CAY_TRY(cay__snap_on(s, dir, sizeof dir, &since, err));
    spec->on_since_ms = (uint64_t)since;
    if (!*dir && !c->from.directory)
        return 0;
    if (!*dir)
        return cay_fail_why(err, CAY_EINVAL, "on_refused",
                            "snapshot %s has a /workspace of its own; leave --on out", s->id);
    if (!c->from.directory || strcmp(c->from.directory, dir) != 0)
        return cay_fail_why(err, CAY_EINVAL, "snapshot_on",
                            "snapshot %s is of what was changed above %.120s; give --on with that "
                            "directory, or `cay fork %s`",
                            s->id, dir, s->id);
    return 0;
}

int cay__stack_prepare(cay_client *client, cay__spec *s, cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *row = NULL;
    cay_create *c = &s->create;
    cay__arena *mem = s->mem;
    s->box.layers = NULL;
    s->box.nlayers = 0;
    s->on_since_ms = 0;
    if (!c->from.snapshot)
        return 0;
    CAY_TRY(cay__snap_find_of(client, c->tenant, c->from.snapshot, &row, err));
    if (!c->tenant)
        c->tenant = cay__arena_str(mem, row->row.tenant);
    int rc = match_provider(client, &row->row, c, mem, err);
    c->from.snapshot = cay__arena_str(mem, row->row.id);
    if (rc != 0)
        return CAY_MIN(rc, 0);
    CAY_TRY(match_on(&row->row, s, err));
    cay__stack *stack = cay__arena_take(mem, sizeof *stack);
    CAY_TRY(cay__stack_read(row->row.layers, stack, err));
    s->box.layers = stack->name;
    s->box.nlayers = stack->n;
    return 0;
}

int cay__lease_put(cay_client *client, const char *id, const char *const *layers, size_t n,
                   cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    char creator[160];
    json_t *list = json_array();
    CAY_EACH_OF(layer, layers, n)
        json_array_append_new(list, json_string(*layer));
    cay__creator_now(client, creator, sizeof creator);
    int rc = cay__json_object("creator", creator, &o, err);
    json_object_set_new(o, "layers", list);
    CAY_TRY(rc);
    CAY_AUTOFREE char *text = cay__json_text(o, 16384);
    if (text)
        return client->store->note_put(client->db, CAY__NOTE_LEASE, id, text, err);
    return 0;
}

static int any_template(const cay_template_row *row, void *arg)
{
    return 0;
}

int cay__stack_hold(cay_client *client, const char *id, const cay_box_spec *b, cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *row = NULL;
    cay_err own = CAY_ERR_INIT;
    const cay_create *c = b->create;
    if (!b->nlayers)
        return 0;
    if (c->life.ephemeral)
        CAY_TRY(cay__lease_put(client, id, b->layers, b->nlayers, err));
    CAY_FAULT("create.held");
    if (!c->from.snapshot && b->template_id)
        return client->store->template_list(client->db, NULL, b->template_id, NULL, any_template,
                                            NULL, err);
    if (!c->from.snapshot || cay__snap_row(client, c->from.snapshot, &row, &own) == 0)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "snapshot_not_found", "snapshot %s was removed meanwhile",
                        c->from.snapshot);
}

static int copy_layers(const char *value, void *arg)
{
    CAY_AUTOJSON *o = NULL;
    CAY_AUTOFREE char *text = NULL;
    if (cay__json_object("", value, &o, NULL) == 0)
        text = cay__json_text(json_object_get(o, "layers"), 8192);
    return cay__stack_read(CAY_OR(text, ""), arg, NULL);
}

void cay__stack_release(cay_client *client, const char *id)
{
    cay__stack held;
    int had = client->store->note_get(client->db, CAY__NOTE_LEASE, id, copy_layers, &held, NULL);
    if (had == CAY_ENOENT ||
        client->store->note_put(client->db, CAY__NOTE_LEASE, id, NULL, NULL) < 0)
        return;
    for (size_t i = 0; had == 0 && i < held.n; i++) { /* should we die here, a sweep finds them */
        bool used = true;
        if (*held.name[i] != 'm' &&
            client->store->layer_used(client->db, held.name[i], &used, NULL) == 0 && !used)
            client->store->layer_job_put(client->db, "remove", held.name[i], "", NULL);
    }
}

typedef struct leases {
    cay_client *client;
    char (*dead)[CAY_ID_LEN + 1];
    size_t n;
} leases;

/* Its maker is dead; the provider ends the sandbox with it, and is asked whether it has. */
static int judge_lease(const char *key, const char *value, void *arg)
{
    leases *l = arg;
    cay__place *p;
    void *box = NULL;
    cay_row row = { .size = sizeof row,
                    .id = key,
                    .provider = l->client->provider,
                    .state = CAY_CREATING,
                    .box = value };
    if (!cay__maker_is_dead(&row) || strlen(key) > CAY_ID_LEN)
        return 0;
    int rc = cay__box_attach(l->client, NULL, &row, &p, &box, NULL);
    if (rc == 0)
        p->ops->release(box);
    if (rc != CAY_EGONE && rc != CAY_ENOENT)
        return 0;
    CAY_GROW(l->dead, l->n);
    cay__str_copy(l->dead[l->n++], sizeof *l->dead, key);
    return 0;
}

void cay__leases_drop(cay_client *client)
{
    leases l = { .client = client };
    client->store->note_list(client->db, CAY__NOTE_LEASE, "", judge_lease, &l, NULL);
    CAY_EACH_OF(it, l.dead, l.n)
        cay__stack_release(client, *it);
    free(l.dead);
}

static int shorten_stack(const cay_layer_job *job, void *arg)
{
    cay__stack *s = arg, lower, upper;
    if (cay__stack_read(job->detail, &lower, NULL) < 0 || !lower.n || lower.n > s->n)
        return 0;
    for (size_t i = 0; i < lower.n; i++)
        if (strcmp(lower.name[i], s->name[i]) != 0)
            return 0;
    if (cay__stack_of(s->name + lower.n, s->n - lower.n, &upper, NULL) < 0 ||
        cay__stack_of((const char *const[]){ job->subject }, 1, s, NULL) < 0)
        return 0;
    CAY_EACH_OF(it, upper.name, upper.n)
        cay__stack_push(s, *it, NULL);
    return 0;
}

bool cay__stack_merged(cay_client *client, cay__stack *s)
{
    size_t n = s->n;
    return client->store->layer_job_list(client->db, "merged", shorten_stack, s, NULL) == 0 &&
           s->n != n;
}

typedef struct renewal {
    cay_client *client;
    const char *id, *provider;
    cay_err *err;
} renewal;

static int renew_layers(const cay_layer_job *job, void *arg)
{
    const renewal *r = arg;
    return r->client->store->layers_merge(r->client->db, job->detail, job->subject, r->provider,
                                          r->id, NULL, r->err);
}

static int is_of(const cay_layer_job *job, void *arg)
{
    return !strcmp(job->subject, arg);
}

int cay__stack_settle(cay_client *client, const char *id, cay_err *err)
{
    cay__snap_reconcile(client, id);
    if (client->store->layer_job_list(client->db, "undo", is_of, (void *)id, NULL) == 1)
        return cay_fail_why(
            err, CAY_EBUSY, "undo_unfinished",
            "an undo of sandbox %s was cut off and could not be ended yet; try again", id);
    return 0;
}

int cay__stack_renew(cay_client *client, const cay_call *call, const char *id, cay__row **row,
                     int *lock, cay_err *err)
{
    renewal r = { client, id, (*row)->row.provider, err };
    cay__row *fresh = NULL;
    CAY_TRY(cay__box_lock(client, call, id, true, lock, err));
    CAY_TRY(cay__stack_settle(client, id, err));
    CAY_TRY(client->store->layer_job_list(client->db, "merged", renew_layers, &r, err));
    CAY_TRY(cay__client_row(client, id, &fresh, err));
    free(*row);
    *row = fresh;
    return 0;
}
