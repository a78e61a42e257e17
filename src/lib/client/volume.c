/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named volumes. A note (space "volume", key: the name) says that one is there; a note (space
 * "volume-use", key: sandbox/name) that a sandbox has it. Who makes, removes or takes one holds
 * volumes.lock for that moment, so that nothing is taken while it goes. A use is believed only
 * while its sandbox has a record, runs, or is being made: whoever removes looks.
 */
#include "remote.h"
#include "client.h"
#include <base/sha256.h>
#include <base/fault.h>
#include <base/mutant.h>
#include <base/json.h>
#include <poll.h>
#include <lib/sandbox/limits.h>
#include <sys/file.h>

#define SPACE     "volume"
#define SPACE_USE "volume-use"
#define STEP_MS   20

static int check_name(const char *name, cay_err *err)
{
    if (cay__volume_name(name) || CAY__MUTANT("volume-name"))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "volume_name",
                        "volume \"%.60s\": 1 to %d letters, digits, '.', '_' or '-', beginning "
                        "with a letter or digit",
                        CAY_OR(name, ""), CAY_VOLUME_NAME);
}

int cay__volumes_tenant(const cay_create *c, cay_err *err)
{
    const char *tenant = CAY_OR(c->tenant, CAY_TENANT_DEFAULT);
    char sum[CAY__SHA256_HEX];
    if (!c->files.nvolumes)
        return 0;
    cay__sha256_hex(tenant, strlen(tenant), sum);
    CAY_EACH_OF(volume, c->files.volumes, c->files.nvolumes) {
        const char *name = CAY_OR(volume->name, "");
        size_t n = strlen(CAY__VOLUME_BUILD);
        bool build = !strncmp(name, CAY__VOLUME_BUILD, n);
        /* Names that all share would be a way from one to the other. */
        if (!build && strcmp(tenant, CAY_TENANT_DEFAULT) != 0)
            return cay_fail_why(
                err, CAY_EPERM, "tenant_shared",
                "volumes of this machine are tenant default's; tenant %s cannot use them", tenant);
        if (build && (strncmp(name + n, sum, 16) || name[n + 16] != '.') &&
            !CAY__MUTANT("build-volume"))
            return cay_fail_why(err, CAY_EPERM, "tenant_shared",
                                "volume %.60s belongs to another tenant's builds", name);
    }
    return 0;
}

static int lock_volumes(cay_client *client, const cay_call *call, int *out, cay_err *err)
{
    CAY_AUTOFD fd =
        openat(client->home_fd, "volumes.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "open volumes.lock");
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return cay_fail_sys(err, "lock volumes.lock");
        CAY_TRY(cay__call_check(call, "volumes.lock", err));
        poll(NULL, 0, STEP_MS);
    }
    *out = CAY_STEAL_FD(fd);
    return 0;
}

typedef struct note {
    char provider[64];
    uint64_t limit;
    int64_t created_ms;
    char once[CAY__ONCE_MAX + 1];
    bool hard;  /* its limit has to hold */
    bool ready; /* not one whose making or removal was cut short */
} note;

static int read_note(const char *text, void *arg)
{
    note *n = arg;
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("volume", text, &o, NULL) < 0)
        return 0; /* not ready: removing it is possible, using it is not */
    CAY_COPY(n->provider, cay__json_str(o, "provider", ""));
    n->limit = (uint64_t)CAY_MAX(cay__json_int(o, "limit", 0), 0);
    n->created_ms = cay__json_int(o, "created_ms", 0);
    CAY_COPY(n->once, cay__json_str(o, "once", ""));
    n->hard = cay__json_bool(o, "hard", false);
    n->ready = !strcmp(cay__json_str(o, "state", ""), "ready");
    return 0;
}

static int get_note(cay_client *client, const char *name, note *out, cay_err *err)
{
    *out = (note){ .ready = false };
    int rc = CAY__STORE(client, note_get, SPACE, name, read_note, out, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, rc, "volume_not_found", "no volume %s; try: cay volume create %s",
                            name, name);
    return rc;
}

static int put_note(cay_client *client, const char *name, const note *n, const char *state,
                    cay_err *err)
{
    CAY_AUTOJSON *o = json_pack("{s:s, s:I, s:I, s:s, s:s, s:b}", "provider", n->provider, "limit",
                                (json_int_t)n->limit, "created_ms", (json_int_t)n->created_ms,
                                "once", n->once, "state", state, "hard", n->hard);
    CAY_AUTOFREE char *text = NULL;
    if (o)
        text = cay__json_text(o, 4096);
    if (text)
        return CAY__STORE(client, note_put, SPACE, name, text, err);
    return cay_fail(err, CAY_EINVAL, "volume %s cannot be recorded", name);
}

static int place_of(cay_client *client, const char *provider, cay__place **p, void **self,
                    cay_err *err)
{
    CAY_TRY(cay__client_place(client, cay__text_or(provider, client->provider), p, err));
    if (!CAY__HAS((*p)->ops, volume))
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "provider %s has no volumes",
                            (*p)->ops->name);
    return cay__client_self(client, *p, self, err);
}

typedef struct uses {
    cay_client *client;
    const cay_call *call;
    const char *name, *provider;
    char **ids;
    size_t n;
} uses;

static void uses_clear(uses *u)
{
    CAY_EACH_OF(it, u->ids, u->n)
        free(*it);
    free(u->ids);
}

static bool in_use(uses *u, const char *id, const char *creator)
{
    CAY_AUTOFREE cay__row *row = NULL;
    cay__place *p;
    void *box = NULL;
    int rc = cay__client_row(u->client, id, &row, NULL);
    if (rc != CAY_ENOENT)
        return true;
    cay_row as = {
        .size = sizeof as, .id = id, .provider = u->provider, .state = CAY_RUNNING, .box = creator
    };
    if (!cay__maker_is_dead(&as))
        return true;
    /* Made without a record: its provider knows, and when it cannot be asked nothing is given up.
     */
    as.box = "";
    rc = cay__box_attach(u->client, u->call, &as, &p, &box, NULL);
    if (rc == 0)
        p->ops->release(box);
    return rc != CAY_EGONE && rc != CAY_ENOENT;
}

static int on_use(const char *key, const char *value, void *arg)
{
    uses *u = arg;
    cay__id id;
    const char *slash = strchr(key, '/');
    if (!slash || slash - key != CAY_ID_LEN || strcmp(slash + 1, u->name) != 0)
        return 0;
    memcpy(id, key, CAY_ID_LEN);
    id[CAY_ID_LEN] = 0;
    if (!in_use(u, id, value)) {
        CAY__STORE(u->client, note_put, SPACE_USE, key, NULL, NULL);
        return 0;
    }
    u->ids = realloc(u->ids, (u->n + 1) * sizeof *u->ids);
    if (!u->ids)
        abort();
    u->ids[u->n++] = cay__strdup(id);
    return 0;
}

static int find_uses(uses *u, cay_err *err)
{
    return CAY__STORE(u->client, note_list, SPACE_USE, "", on_use, u, err);
}

static void use_key(const char *id, const char *name, char key[CAY_ID_LEN + CAY_VOLUME_NAME + 2])
{
    cay__str_join(key, CAY_ID_LEN + CAY_VOLUME_NAME + 2, id, "/", name, NULL);
}

/* A limit that had to hold and does not any more, because the state directory was mounted without
 * its quota, is not quietly given up. */
static int check_quota_held(cay_client *client, const cay_call *call, const char *name,
                            const note *n, cay_err *err)
{
    cay__place *p;
    void *self;
    cay_volume_request ask = { .size = sizeof ask, .op = CAY_VOLUME_HELD, .name = name };
    if (!n->hard)
        return 0;
    CAY_TRY(place_of(client, n->provider, &p, &self, err));
    CAY_TRY(p->ops->volume(self, call, &ask, err));
    if (ask.hard)
        return 0;
    return cay_fail_why(err, CAY_EISOLATION, "feature_missing",
                        "the limit of volume %s has to hold, and nothing holds it any "
                        "more: mount the state directory with prjquota",
                        name);
}

int cay__volumes_take(cay_client *client, const cay_call *call, const char *id, const cay_create *c,
                      cay_err *err)
{
    char key[CAY_ID_LEN + CAY_VOLUME_NAME + 2], creator[160];
    CAY_AUTOFD lock = -1;
    if (!c->files.nvolumes)
        return 0;
    cay__creator_text(creator, sizeof creator);
    CAY_TRY(lock_volumes(client, call, &lock, err));
    CAY_EACH_OF(volume, c->files.volumes, c->files.nvolumes) {
        note n;
        CAY_TRY(get_note(client, volume->name, &n, err));
        if (!n.ready)
            return cay_fail_why(err, CAY_ESTATE, "volume_unfinished",
                                "volume %s was not finished; try: cay volume create %s",
                                volume->name, volume->name);
        if (strcmp(n.provider, c->provider) != 0)
            return cay_fail_why(err, CAY_EINVAL, "volume_elsewhere",
                                "volume %s is of provider %s, not %s", volume->name, n.provider,
                                c->provider);
        CAY_TRY(check_quota_held(client, call, volume->name, &n, err));
        use_key(id, volume->name, key);
        CAY_TRY(CAY__STORE(client, note_put, SPACE_USE, key, creator, err));
    }
    return 0;
}

static int on_forget(const char *key, const char *value, void *arg)
{
    cay_client *client = arg;
    CAY__STORE(client, note_put, SPACE_USE, key, NULL, NULL);
    return 0;
}

void cay__volumes_forget(cay_client *client, const char *id)
{
    char prefix[CAY_ID_LEN + 2];
    CAY_JOIN(prefix, id, "/");
    CAY__STORE(client, note_list, SPACE_USE, prefix, on_forget, client, NULL);
}

int cay_volume_create(cay_client *client, const cay_call *call, const cay_volume_spec *given,
                      cay_err *err)
{
    cay_volume_spec s;
    cay__place *p;
    void *self;
    note n, old;
    CAY_AUTOFD lock = -1;
    CAY_TRY(cay__spec_take(&s, sizeof s, given, "cay_volume_spec", err));
    if (client->remote) {
        s.name = CAY_OR(s.name, "");
        if (s.limit == CAY_UNLIMITED)
            s.limit = 0;
        return CAY__REMOTE_DO(client->remote, err, volume_create, .body = &s);
    }
    CAY_TRY(check_name(s.name, err));
    CAY_TRY(cay__once_check(s.once, err));
    CAY_TRY(cay__call_check(call, "volume", err));
    CAY_TRY(place_of(client, s.provider, &p, &self, err));
    if (s.limit == CAY_UNLIMITED)
        s.limit = 0;
    if (s.limit > INT64_MAX)
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "volume %s: a limit of %llu bytes is too large", s.name,
                            (unsigned long long)s.limit);
    if (s.hard && !s.limit)
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "volume %s: a limit that has to hold wants a size (--size)", s.name);
    CAY_TRY(lock_volumes(client, call, &lock, err));
    int rc = get_note(client, s.name, &old, err);
    if (rc == 0 && old.ready && s.once &&
        !strcmp(old.once, s.once)) /* by who was not told so any more */
        return 0;
    if (rc == 0 && old.ready)
        return cay_fail_why(err, CAY_EEXIST, "volume_exists", "volume %s is there already", s.name);
    if (rc < 0 && rc != CAY_ENOENT)
        return rc;
    n = (note){ .limit = s.limit, .hard = s.hard, .created_ms = cay__clock_ms() };
    CAY_COPY(n.provider, p->ops->name);
    CAY_COPY(n.once, CAY_OR(s.once, ""));
    /* The intent first: one that was cut short is taken up by who creates or removes it again. */
    CAY_TRY(put_note(client, s.name, &n, "making", err));
    CAY_FAULT("volume.recorded");
    cay_volume_request ask = {
        .size = sizeof ask, .op = CAY_VOLUME_MAKE, .name = s.name, .limit = s.limit, .must = s.hard
    };
    rc = p->ops->volume(self, call, &ask, err);
    CAY_FAULT("volume.made");
    if (rc == 0 && s.hard && !ask.hard) /* a provider that does not know the question */
        rc = cay_fail_why(err, CAY_EISOLATION, "feature_missing",
                          "provider %s holds no volume to its limit", p->ops->name);
    if (rc < 0) {
        ask.op = CAY_VOLUME_REMOVE;
        if (p->ops->volume(self, NULL, &ask, NULL) == 0)
            CAY__STORE(client, note_put, SPACE, s.name, NULL, NULL);
        return cay_wrap(err, rc, "volume %s", s.name);
    }
    return put_note(client, s.name, &n, "ready", err);
}

typedef struct full {
    cay_volume v; /* first: the caller has a pointer to it */
    cay__arena mem;
} full;

static cay_volume *build_volume(const char *name, const note *n, const cay_volume_request *ask,
                                const uses *u)
{
    full *f = cay__alloc(sizeof *f);
    const char **ids = cay__arena_take(&f->mem, (u->n + 1) * sizeof *ids);
    const char *quota = "soft";
    if (!n->limit)
        quota = "none";
    else if (ask->hard)
        quota = "on";
    for (size_t i = 0; i < u->n; i++)
        ids[i] = cay__arena_str(&f->mem, u->ids[i]);
    f->v = (cay_volume){ .size = sizeof f->v,
                         .name = cay__arena_str(&f->mem, name),
                         .provider = cay__arena_str(&f->mem, n->provider),
                         .limit = n->limit,
                         .used = ask->used,
                         .inodes = ask->inodes,
                         .created_ms = n->created_ms,
                         .quota = quota,
                         .users = ids,
                         .nusers = u->n };
    return &f->v;
}

void cay_volume_free(cay_volume *v)
{
    full *f = (full *)v;
    if (f)
        cay__arena_clear(&f->mem);
    free(f);
}

static void count_users(cay_volume *v)
{
    while (v->users[v->nusers])
        v->nusers++;
}

static int find_remote_volume(const cay__remote *r, const char *name, cay_volume **out,
                              cay_err *err)
{
    full *f = cay__alloc(sizeof *f);
    int rc =
        cay__remote_get(r, NULL, &CAY__REQUEST(volume_get, .path = { name }), &f->mem, &f->v, err);
    if (rc < 0) {
        cay_volume_free(&f->v);
        return rc;
    }
    count_users(&f->v);
    *out = &f->v;
    return 0;
}

int cay_volume_find(cay_client *client, const cay_call *call, const char *name, cay_volume **out,
                    cay_err *err)
{
    if (client->remote)
        return find_remote_volume(client->remote, name, out, err);
    note n;
    cay__place *p;
    void *self;
    __attribute__((cleanup(uses_clear))) uses u = { client, call, name, n.provider, NULL, 0 };
    CAY_TRY(check_name(name, err));
    CAY_TRY(get_note(client, name, &n, err));
    cay_volume_request ask = { .size = sizeof ask, .op = CAY_VOLUME_LOOK, .name = name };
    CAY_TRY(place_of(client, n.provider, &p, &self, err));
    CAY_TRY(p->ops->volume(self, call, &ask, err));
    CAY_TRY(find_uses(&u, err));
    *out = build_volume(name, &n, &ask, &u);
    return 0;
}

typedef struct walk {
    cay_client *client;
    const cay_call *call;
    cay_volume_fn *fn;
    void *arg;
    cay_err *err;
} walk;

static int on_volume(const char *key, const char *value, void *arg)
{
    walk *w = arg;
    cay_volume *v = NULL;
    int rc = cay_volume_find(w->client, w->call, key, &v, w->err);
    if (rc < 0) {
        if (rc == CAY_ENOENT)
            return 0;
        return rc;
    } /* removed meanwhile */
    rc = w->fn(v, w->arg);
    cay_volume_free(v);
    return rc;
}

static int on_remote_volume(const cay_volume *v, void *arg)
{
    const walk *w = arg;
    cay_volume own = *v;
    count_users(&own);
    return w->fn(&own, w->arg);
}

int cay_volume_list(cay_client *client, const cay_call *call, cay_volume_fn *fn, void *arg,
                    cay_err *err)
{
    walk w = { client, call, fn, arg, err };
    if (client->remote)
        return CAY__REMOTE_EACH(cay_volume, client->remote, call, CAY__REQUEST(volume_list),
                                on_remote_volume, &w, err);
    return CAY__STORE(client, note_list, SPACE, "", on_volume, &w, err);
}

int cay_volume_remove(cay_client *client, const cay_call *call, const char *name, cay_err *err)
{
    if (client->remote)
        return CAY__REMOTE_DO(client->remote, err, volume_delete, .path = { name });
    note n;
    cay__place *p;
    void *self;
    CAY_AUTOFD lock = -1;
    __attribute__((cleanup(uses_clear))) uses u = { client, call, name, n.provider, NULL, 0 };
    CAY_TRY(check_name(name, err));
    CAY_TRY(lock_volumes(client, call, &lock, err));
    CAY_TRY(get_note(client, name, &n, err));
    CAY_TRY(find_uses(&u, err));
    if (u.n > 1)
        return cay_fail_why(err, CAY_EBUSY, "volume_used",
                            "volume %s is used by sandbox %s and others; remove them first", name,
                            u.ids[0]);
    if (u.n)
        return cay_fail_why(err, CAY_EBUSY, "volume_used",
                            "volume %s is used by sandbox %s; remove it first", name, u.ids[0]);
    CAY_TRY(place_of(client, n.provider, &p, &self, err));
    CAY_TRY(put_note(client, name, &n, "removing", err));
    CAY_FAULT("volume.remove.recorded");
    cay_volume_request ask = { .size = sizeof ask, .op = CAY_VOLUME_REMOVE, .name = name };
    CAY_TRY(p->ops->volume(self, call, &ask, err));
    CAY_FAULT("volume.removed");
    CAY_TRY(CAY__STORE(client, note_put, SPACE, name, NULL, err));
    cay__close_fd(&lock); /* its files may be many, and nobody has to wait for that */
    ask.op = CAY_VOLUME_SWEEP;
    return p->ops->volume(self, call, &ask, err);
}

typedef struct names {
    char (*v)[CAY_VOLUME_NAME + 1];
    size_t n;
} names;

static int on_name(const char *key, const char *value, void *arg)
{
    names *l = arg;
    l->v = realloc(l->v, (l->n + 1) * sizeof *l->v);
    if (!l->v)
        abort();
    cay__str_copy(l->v[l->n++], sizeof *l->v, key);
    return 0;
}

void cay__volumes_tenant_gone(cay_client *client, const char *tenant)
{
    char sum[CAY__SHA256_HEX], prefix[40];
    names l = { 0 };
    cay__sha256_hex(tenant, strlen(tenant), sum);
    CAY_FORMAT(prefix, CAY__VOLUME_BUILD "%.16s.", sum);
    CAY__STORE(client, note_list, SPACE, prefix, on_name, &l, NULL);
    CAY_EACH_OF(it, l.v, l.n)
        cay_volume_remove(client, NULL, *it, NULL);
    free(l.v);
}
