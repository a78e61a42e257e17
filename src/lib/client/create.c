/* SPDX-License-Identifier: Apache-2.0 */
/* A new sandbox: all is judged first, then recorded as wanted, then made, then recorded as made. */
#include "remote.h"
#include <lib/snapshot/diff.h>
#include <lib/manifest/client_manifest.h>
#include <lib/manifest/client_mounts.h>
#include "net.h"
#include "secret.h"
#include "client.h"
#include <lib/template/settings.h>
#include <lib/snapshot/snapshot.h>
#include "spec.h"
#include <lib/template/template.h>
#include "pool.h"
#include <lib/snapshot/archive.h>
#include <base/fault.h>
#include <base/json.h>
#include <lib/manifest/manifest.h>
#include <lib/sandbox/limits.h>

#define UNDO_MS          20000
#define META_BYTES       65536
#define ONCE_BYTES       255
#define CHECKPOINTS_MOST 10000

static const cay_wall *find_layer(const cay_probe *p, const char *name)
{
    CAY_EACH_OF(wall, p->walls, p->nwalls)
        if (!strcmp(wall->name, name))
            return wall;
    return NULL;
}

/* {"missing":[{"name":…,"state":…,"why":…,"remedy":…},…]}, with as many as fit. */
static void add_missing(cay__buf *detail, const cay_wall *l)
{
    CAY_AUTOBUF one = CAY__BUF(detail->max);
    const char *const part[] = { "name", l->name, "state",  l->state,
                                 "why",  l->why,  "remedy", l->remedy };
    for (size_t i = 0; i < CAY_LEN(part); i += 2) {
        const char *v = CAY_OR(part[i + 1], "");
        cay__buf_fmt(&one, "%s\"%s\":", i ? "," : "{", part[i]);
        cay__buf_json(&one, v, strlen(v));
    }
    cay__buf_str(&one, "}");
    if (!one.full && detail->len + one.len + 3 < detail->max)
        cay__buf_fmt(detail, "%s%s", detail->len ? "," : "{\"missing\":[", one.data);
}

/* As many words as there is room for. */
static void truncate_text(char *out, size_t room, const char *text)
{
    if (cay__str_copy(out, room, text))
        return;
    size_t n;
    for (n = room - sizeof "…"; n && text[n] != ' '; n--)
        ;
    memcpy(out, text, n);
    cay__str_copy(out + n, room - n, "…");
}

static int check_features(const cay_probe *p, const char *const *require, cay_err *err)
{
    CAY_AUTOBUF text = CAY__BUF(sizeof err->msg - 8), detail = CAY__BUF(sizeof err->detail - 1);
    for (; require && *require; require++) {
        const cay_wall *l = find_layer(p, *require);
        if (!l)
            return cay_fail_why(err, CAY_EINVAL, "feature_unknown",
                                "feature %.60s is not known; `cay doctor` lists those there are",
                                *require);
        if (!strcmp(l->state, "on"))
            continue;
        char why[108], remedy[108];
        size_t room;
        if (require[1] || text.len)
            room = 40;
        else
            room = sizeof why;
        truncate_text(why, room, CAY_OR(l->why, ""));
        truncate_text(remedy, room, CAY_OR(l->remedy, ""));
        cay__buf_fmt(&text, "%s%s is %s (%s%s%s)", text.len ? "; " : "", l->name, l->state, why,
                     *remedy ? ": " : "", remedy);
        add_missing(&detail, l);
    }
    if (!text.len && !text.full)
        return 0;
    cay_fail_why(err, CAY_EISOLATION, "feature_missing", "%s%s",
                 CAY_OR(text.data, "see the details"), text.full ? "; …" : "");
    cay__buf_str(&detail, "]}");
    if (err && !detail.full)
        CAY_COPY(err->detail, detail.data);
    return CAY_EISOLATION;
}

static int level_missing(const cay__place *p, const cay_probe *probe, int want, cay_err *err)
{
    const cay_wall *l = find_layer(probe, "user-namespace");
    bool cause = l && strcmp(l->state, "on") != 0 && l->why;
    const char *other;
    if (want >= CAY_LEVEL_VM)
        other = "there is no provider with virtual machines yet";
    else if (want == CAY_LEVEL_ROOT)
        other = "run as root, where cgroups can be written";
    else
        other = "cay doctor tells the cause";
    const char *remedy = "", *colon = "";
    if (cause) {
        other = l->why;
        remedy = CAY_OR(l->remedy, "");
        colon = *remedy ? ": " : "";
    }
    return cay_fail_why(
        err, CAY_EISOLATION, "level_missing",
        "provider %s gives level %d (%s) here and %d (%s) is asked for; %.100s%s%.80s",
        p->ops->name, (int)probe->level, cay_level_name(probe->level), want,
        cay_level_name((cay_level)want), other, colon, remedy);
}

static int check_isolation(cay_client *client, cay__place *p, const cay_create *c, cay_err *err)
{
    cay_probe *probe = NULL;
    if (c->isolation.min_level <= 0 && !(c->isolation.require && *c->isolation.require))
        return 0;
    CAY_TRY(cay_client_probe(client, p->ops->name, &probe, err));
    int rc = 0;
    if ((int)probe->level < c->isolation.min_level)
        rc = level_missing(p, probe, c->isolation.min_level, err);
    if (rc == 0)
        rc = check_features(probe, c->isolation.require, err);
    cay_probe_free(probe);
    return rc;
}

int cay__metadata_check(const char *text, cay_err *err)
{
    if (!text)
        return 0;
    if (strlen(text) > META_BYTES)
        return cay_fail_why(err, CAY_ETOOBIG, "metadata_too_big",
                            "metadata is longer than %d bytes", META_BYTES);
    CAY_AUTOJSON *j = NULL;
    return cay__json_object("metadata", text, &j, err);
}

static int check_services(const cay__spec *s, const cay_provider_ops *ops, cay_err *err)
{
    const cay_create *c = &s->create;
    if (s->box.nservices && !CAY__HAS(ops, service_act))
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "service %s: provider %s keeps no services running",
                            s->box.services[0].name, ops->name);
    bool users = !strcmp(ops->name, "native") || !strcmp(ops->name, "docker") ||
                 !strcmp(ops->name, "podman");
    if (c->process.group && !users)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "group %.64s: provider %s takes a user's own groups", c->process.group,
                            ops->name);
    if (c->isolation.sudo && !users)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "sudo: provider %s has one user only, or a sudo of its own", ops->name);
    return 0;
}

/* An option that nobody reads would be a wish that is not kept. */
static int check_options(const cay_create *c, const cay_provider_ops *ops, cay_err *err)
{
    static const char *const none[] = { NULL };
    const char *const *known = none;
    if (CAY__HAS(ops, options))
        known = ops->options;
    size_t n = 0;
    for (const cay_pair *p = c->options; p && p->key; p++) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], p->key) != 0)
            i++;
        if (!known[i])
            return cay_fail_why(err, CAY_EINVAL, "option_unknown",
                                "option %.40s: provider %s does not know it", p->key, ops->name);
        if (!p->value || strlen(p->value) > 4096 || ++n > 64)
            return cay_fail_why(err, CAY_EINVAL, "option_invalid",
                                "option %.40s: at most 64 options of at most 4096 bytes", p->key);
    }
    return 0;
}

static int check_spec(cay_client *client, cay__spec *s, cay__place **place, cay_err *err)
{
    cay__place *p;
    cay_create *c = &s->create;
    if (c->tenant)
        CAY_TRY(cay__tenant_check(c->tenant, err));
    if (c->idempotency_key && (!*c->idempotency_key || strlen(c->idempotency_key) > ONCE_BYTES))
        return cay_fail_why(err, CAY_EINVAL, "once_invalid",
                            "the word of one time has 1 to %d bytes", ONCE_BYTES);
    bool others = c->tenant && strcmp(c->tenant, CAY_TENANT_DEFAULT) != 0;
    CAY_TRY(cay__volumes_tenant(c, err));
    CAY_TRY(cay__secrets_tenant(c, err));
    if (c->life.ephemeral && (c->idempotency_key || others))
        return cay_fail_why(
            err, CAY_EINVAL, "tenant_ephemeral",
            "a sandbox without a record has no tenant and no word of one time; keep it");
    CAY_TRY(cay__client_place(client, cay__text_or(c->provider, client->provider), &p, err));
    c->provider = p->ops->name;
    CAY_TRY(cay__create_check(cay__spec_box(s), client->home_fd, client->run, err));
    CAY_TRY(cay__net_check(c, p->ops, err));
    CAY_TRY(check_options(c, p->ops, err));
    for (const cay_pair *o = c->options; o && o->key; o++)
        if (!strcmp(o->key, "root_dir") && !c->process.workdir)
            c->process.workdir = o->value; /* of provider local: where it works is where it is */
    if (c->net.nsecrets && !CAY__HAS(p->ops, secrets))
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "secrets: provider %s cannot put them into requests", p->ops->name);
    CAY_TRY(check_services(s, p->ops, err));
    if (c->files.nvolumes && !CAY__HAS(p->ops, volume))
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "volume %s: provider %s has no volumes", c->files.volumes[0].name,
                            p->ops->name);
    CAY_TRY(cay__metadata_check(c->metadata, err));
    if (c->life.on_expiry == CAY_EXPIRE_PAUSE && !p->ops->pause)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "on_expiry pause: provider %s cannot pause", p->ops->name);
    if (c->from.directory && strcmp(p->ops->name, "native") != 0)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "on: provider %s cannot show a directory copy-on-write", p->ops->name);
    if (c->life.checkpoints && c->life.ephemeral)
        return cay_fail_why(
            err, CAY_EINVAL, "snapshot_ephemeral",
            "checkpoints of a sandbox that is thrown away would be, too; keep it (--keep)");
    if ((s->box.nlayers || c->life.checkpoints) && !CAY__HAS(p->ops, snapshot))
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_unsupported",
                            "provider %s has no snapshots", p->ops->name);
    if (c->life.checkpoints > CHECKPOINTS_MOST)
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range", "checkpoint is %u; keep 1 to %d",
                            c->life.checkpoints, CHECKPOINTS_MOST);
    CAY_TRY(check_isolation(client, p, c, err));
    *place = p;
    return 0;
}

int cay__create_row(const cay__spec *s, cay_row *row, char **spec, char **labels, char *creator,
                    size_t cap, cay_err *err)
{
    const cay_create *c = &s->create;
    CAY_TRY(cay__spec_text(s, spec, err));
    if (!(*labels = cay__pairs_text(c->labels)))
        return cay_fail_why(err, CAY_ETOOBIG, "labels_too_big", "the labels are too long together");
    cay__creator_text(creator, cap);
    cay_limits most = c->limits;
    cay__limits_fill(&most);
    *row = (cay_row){ .size = sizeof *row,
                      .name = c->name,
                      .provider = c->provider,
                      .state = CAY_CREATING,
                      .spec = *spec,
                      .box = creator,
                      .labels = *labels,
                      .metadata = c->metadata,
                      .tenant = c->tenant,
                      .once = c->idempotency_key,
                      .cpu_milli = most.cpu_milli,
                      .memory = most.memory,
                      .disk = most.disk };
    return 0;
}

static int insert_record(cay_client *client, const char *id, const cay__spec *s, bool warm,
                         cay_err *err)
{
    CAY_AUTOFREE char *spec = NULL, *labels = NULL;
    char creator[160], kind[CAY__WARM_KIND], told[CAY__WARM_KIND + 16];
    cay_row row;
    CAY_TRY(cay__create_row(s, &row, &spec, &labels, creator, sizeof creator, err));
    row.id = id;
    if (warm) {
        if (!cay__pool_kind(s, kind))
            return cay_fail_why(err, CAY_EINVAL, "warm_invalid",
                                "such a sandbox cannot be kept ready: it has parts of its own");
        CAY_FORMAT(told, "{\"kind\":\"%s\"}", kind);
        row.tenant = CAY__WARM_TENANT;
        row.name = CAY__WARM_MAKING;
        row.metadata = told;
    }
    return CAY__STORE(client, insert, &row, err);
}

void cay__create_undo(cay_client *client, const char *id, const cay_create *c)
{
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + UNDO_MS };
    cay_row row = { .size = sizeof row, .id = id, .provider = c->provider, .state = CAY_CREATING };
    cay_err why = CAY_ERR_INIT;
    /* Where no server is named none was asked a moment ago, and nothing is there to be taken back.
     */
    if (cay__box_wipe(client, &call, &row, &why) < 0 && !cay_err_is(&why, CAY_REASON_HOST_MISSING))
        cay__client_move(client, id, CAY_DELETING, "create failed", NULL, NULL);
    else
        CAY__STORE(client, remove, id, NULL);
    cay__stack_release(client, id);
    cay__start_forget(client, id);
    cay__checkpoint_unmark(client, id);
}

typedef struct owners {
    const cay_row *own;
    bool differ;
} owners;

static int on_owner(const cay_row *row, void *arg)
{
    owners *o = arg;
    bool alive = row->state == CAY_RUNNING || row->state == CAY_PAUSED;
    o->differ |= alive && strcmp(row->tenant, o->own->tenant) != 0 &&
                 strcmp(row->tenant, CAY__WARM_TENANT) != 0;
    return 0;
}

/* Where sandboxes share one range of ids (before Linux 5.19), tenants would share it, too. What the
 * kernel gives is known for certain once a sandbox is there. */
static int check_owners(cay_client *client, const cay_provider_ops *ops, const char *id,
                        cay_err *err)
{
    cay_probe *probe = NULL;
    CAY_AUTOFREE cay__row *row = NULL;
    if (strcmp(ops->name, "native") != 0 || cay__client_row(client, id, &row, NULL) < 0)
        return 0;
    CAY_TRY(cay_client_probe(client, ops->name, &probe, err));
    const cay_wall *ids = find_layer(probe, "own-ids");
    bool shared = ids && !strcmp(ids->state, "off") && !strcmp(CAY_OR(probe->mode, ""), "root");
    cay_probe_free(probe);
    if (!shared)
        return 0;
    owners o = { .own = &row->row };
    const cay_filter native = { .size = sizeof native, .provider = ops->name };
    CAY_TRY(CAY__STORE(client, list, &native, on_owner, &o, err));
    if (!o.differ)
        return 0;
    return cay_fail_why(err, CAY_EISOLATION, "own_ids_missing",
                        "own-ids is off here, and a sandbox of another tenant than %.60s runs: all "
                        "would share one range of ids; use Linux 5.19 or newer, or a state "
                        "directory for each tenant",
                        row->row.tenant);
}

int cay__box_fill(cay_client *client, const cay_call *call, const cay_provider_ops *ops,
                  const char *id, const cay_create *whole, const cay__spec *plain,
                  const cay__mani *f, cay__storage *storage, bool fresh, void *box, cay_err *err)
{
    CAY_TRY(check_owners(client, ops, id, err));
    CAY_TRY(cay__mounts_hold(storage, ops, id, box, call, err));
    CAY_TRY(cay__mounts_inside(client, call, id, f, plain, ops, box, err));
    if (fresh && cay__workspace_wanted(plain, ops))
        CAY_TRY(cay__workspace_hydrate(client, call, &plain->create, ops, id, box, err));
    CAY_TRY(cay__secrets_give(client, ops, box, call, whole, err));
    if (fresh)
        CAY_TRY(cay__settings_write(plain, ops, id, box, call, err));
    CAY_TRY(cay__mani_apply(f, ops, id, box, call, err));
    if (plain->box.services_wait)
        return ops->service_act(box, call, NULL, CAY_SERVICE_START, err);
    return 0;
}

static int create_box(cay_client *client, const cay_call *call, cay__place *p, const char *id,
                      const cay__spec *whole, const cay__mani *f, void **box, cay_err *err)
{
    void *self;
    CAY_AUTOFREE char *text = NULL;
    CAY__AUTOARENA mem = { 0 };
    /* Nothing is bound before the values are there. */
    cay__spec plain = *whole;
    cay_create *c = &plain.create;
    plain.mem = &mem;
    CAY__AUTOSTORAGE storage = CAY__STORAGE_NONE;
    if (whole->create.net.nsecrets)
        CAY_TRY(cay__secrets_net_before(c->net.policy, &mem, &c->net.policy, err));
    c->process.env = cay__mani_env(f, c->process.env, &mem);
    plain.box.services_wait = cay__services_wait(&plain, f) ||
                              (plain.box.nservices && plain.nseeds) ||
                              (plain.box.nservices && cay__workspace_wanted(whole, p->ops));
    CAY_TRY(cay__client_self(client, p, &self, err));
    CAY_FAULT("create.recorded");
    CAY_TRY(cay__stack_hold(client, id, cay__spec_box(&plain), err));
    if (CAY_FAULT_FAILS("create.make"))
        return cay_fail_sys(err, "make the sandbox");
    if (c->from.directory && c->from.snapshot)
        CAY_TRY(cay__on_ask(client, call, "fill", id, c->from.snapshot, err));
    CAY_TRY(cay__mounts_open(client, call, id, f, &plain, &storage, err));
    CAY_TRY(p->ops->create(self, call, id, cay__spec_box(&plain), box, err));
    CAY_FAULT("create.made");
    int rc = cay__box_fill(client, call, p->ops, id, &whole->create, &plain, f, &storage, true,
                           *box, err);
    CAY_FAULT("create.applied");
    if (rc == 0)
        rc = cay__box_text(p->ops, *box, &text, err);
    int moved = 0;
    if (rc == 0 && !c->life.ephemeral)
        moved = cay__client_move(client, id, CAY_RUNNING, "", text, err);
    CAY_FAULT("create.moved");
    if (rc >= 0)
        rc = moved;
    if (moved == CAY_ENOENT || moved == CAY_ESTATE)
        rc = cay_fail_why(err, CAY_EGONE, "sandbox_gone",
                          "sandbox %s was removed while it was being created", id);
    if (rc < 0)
        p->ops->release(*box);
    return rc;
}

static int create_at(cay_client *client, const cay_call *call, cay__place *p, const char *id,
                     const cay__spec *s, const cay__mani *f, bool warm, cay_sandbox **out,
                     cay_err *err)
{
    void *box = NULL;
    const cay_create *c = &s->create;
    if (c->life.checkpoints)
        CAY_TRY(cay__checkpoint_mark(client, id, err));
    if (!c->life.ephemeral) {
        CAY_TRY(insert_record(client, id, s, warm, err));
        cay__start_note(client, id, &s->box);
    }
    int rc = cay__volumes_take(client, call, id, c, err);
    if (rc == 0)
        rc = create_box(client, call, p, id, s, f, &box, err);
    if (rc < 0) {
        cay__create_undo(client, id, c);
        cay__volumes_forget(client, id);
        return cay_wrap(err, rc, "create %s", id);
    }
    cay_sandbox *sb = cay__handle_new(client, p->ops, id, box, CAY_RUNNING);
    if (c->life.checkpoints &&
        (rc = cay__checkpoint_begin(sb, call, c->life.checkpoints, err)) < 0) {
        cay_sandbox_remove(sb, NULL, NULL);
        cay_sandbox_unref(sb);
        return cay_wrap(err, rc, "create %s", id);
    }
    *out = sb;
    return 0;
}

/* A weaker wall only for the one cause it is meant for, and only where the request accepts it. */
static bool stand_in(cay_client *client, const cay_err *why, cay__spec *s, cay__place **p)
{
    cay_create *c = &s->create;
    const cay_provider_ops *ops = (*p)->ops;
    if (why->code != CAY_EISOLATION || s->box.nlayers || c->from.directory || c->life.checkpoints ||
        c->isolation.min_level > CAY_LEVEL_PROCESS ||
        (!cay_err_is(why, CAY_REASON_NAMESPACES_REFUSED) &&
         !cay_err_is(why, CAY_REASON_PARK_FAILED)) ||
        ops->size < offsetof(cay_provider_ops, policy) || !ops->instead ||
        cay__client_place(client, ops->instead, p, NULL) < 0 ||
        cay__net_check(c, (*p)->ops, NULL) < 0 || check_services(s, (*p)->ops, NULL) < 0 ||
        (c->files.nvolumes && !CAY__HAS((*p)->ops, volume)))
        return false;
    c->provider = (*p)->ops->name;
    return true;
}

/* What the first one with that word made. */
static int find_once(cay_client *client, const cay_call *call, const cay_create *c,
                     cay_sandbox **out, cay_err *err)
{
    cay__id id;
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_TRY(CAY__STORE(client, once_find, CAY_OR(c->tenant, CAY_TENANT_DEFAULT), c->idempotency_key,
                       id, err));
    CAY_TRY(cay__client_row(client, id, &row, err));
    if (row->row.state == CAY_CREATING)
        return cay_fail_why(err, CAY_EBUSY, "sandbox_creating",
                            "sandbox %s is still being made; try again", id);
    return cay_client_find(client, call, id, out, err);
}

int cay_client_create(cay_client *client, const cay_call *call, const cay_create *given,
                      cay_sandbox **out, cay_err *err)
{
    CAY__OP(call, "sandbox.create", NULL, err);
    if (client->remote)
        return cay__remote_create(client, call, given, out, err);
    int rc = cay__create_as(client, call, NULL, given, out, err);
    cay__op_sandbox(&op_, rc == 0 ? cay_sandbox_id(*out) : NULL);
    return rc;
}

/* By its real path: then a link on the way, any later time, is one that somebody put there. */
static void real_on(cay_create *c, cay__arena *mem)
{
    CAY_AUTOFREE char *real = NULL;
    if (c->from.directory && *c->from.directory == '/')
        real = realpath(c->from.directory, NULL);
    if (real)
        c->from.directory = cay__arena_str(mem, real);
}

enum kind { USUAL, WARM, OWN };

static int create_sandbox(cay_client *client, const cay_call *call, const char *as, enum kind kind,
                          const cay_create *given, cay_sandbox **out, cay_err *err)
{
    const bool warm = kind == WARM;
    cay__id id;
    cay__place *p = NULL;
    cay_err why = CAY_ERR_INIT;
    CAY__AUTOARENA mem = { 0 };
    cay__spec s = { .mem = &mem };
    cay_create *c = &s.create;
    CAY_TRY(cay__spec_take(c, sizeof *c, given, "cay_create", err));
    CAY_TRY(cay__call_check(call, "create", err));
    real_on(c, &mem);
    const cay_create asked = *c; /* before it is prepared */
    bool missed = false;
    CAY__AUTOMANI f = { 0 };
    CAY_TRY(cay__stack_prepare(client, &s, err));
    CAY_TRY(cay__template_prepare(client, call, &s, err));
    CAY_TRY(cay__mani_prepare(client, c, &mem, &f, err));
    CAY_TRY(cay__services_take(&s, err));
    CAY_TRY(cay__secrets_prepare(c, &mem, err));
    if (kind == OWN)
        c->tenant = NULL; /* not the snapshot's */
    CAY_TRY(cay__net_engine(c, cay__text_or(c->provider, client->provider), &mem, err));
    CAY_TRY(check_spec(client, &s, &p, err));
    bool built = !as && !warm && cay__pool_with_files(&s);
    if (built)
        CAY_TRY(cay__mani_build(client, call, p->ops, &s, &f, err));
    if (!as && !warm) {
        int rc = cay__pool_take(client, call, &s, &f, &missed, out, &why);
        if (rc == CAY_EEXIST && c->idempotency_key && cay_err_is(&why, CAY_REASON_ONCE))
            return find_once(client, call, c, out, err);
        if (rc < 0 && rc != CAY_ENOENT && err)
            *err = why;
        if (rc != CAY_ENOENT)
            return rc;
    }
    if (!built)
        CAY_TRY(cay__mani_build(client, call, p->ops, &s, &f, err));
    cay__id_make(id, 'c');
    int rc = create_at(client, call, p, CAY_OR(as, id), &s, &f, warm, out, &why);
    if (rc == CAY_EEXIST && c->idempotency_key && cay_err_is(&why, CAY_REASON_ONCE))
        return find_once(client, call, c, out, err);
    if (rc == 0 && missed) /* only what was allowed, and is counted */
        cay__pool_missed(client, &s, &asked);
    cay__id_make(id, 'c');
    if (rc < 0 && stand_in(client, &why, &s, &p)) {
        cay_err weaker = CAY_ERR_INIT;
        int second = create_at(client, call, p, CAY_OR(as, id), &s, &f, warm, out, &weaker);
        /* Where neither wall can be had, the cause that matters is that of the stronger one. */
        if (second != CAY_EISOLATION)
            return cay__err_pass(second, &weaker, err);
    }
    return cay__err_pass(rc, &why, err);
}

int cay__create_as(cay_client *client, const cay_call *call, const char *as,
                   const cay_create *given, cay_sandbox **out, cay_err *err)
{
    return create_sandbox(client, call, as, USUAL, given, out, err);
}

int cay__create_warm(cay_client *client, const cay_call *call, const cay_create *given,
                     cay_sandbox **out, cay_err *err)
{
    return create_sandbox(client, call, NULL, WARM, given, out, err);
}

int cay__create_own(cay_client *client, const cay_call *call, const cay_create *given,
                    cay_sandbox **out, cay_err *err)
{
    return create_sandbox(client, call, NULL, OWN, given, out, err);
}
