/* SPDX-License-Identifier: Apache-2.0 */
/* N sandboxes from one: all stand on the same layers, and none knows of the others. */
#include <lib/client/remote.h>
#include "snapshot.h"
#include <base/json.h>
#include <cay/access.h>
#include <sched.h>

#define FORKS_MOST   1000
#define THREADS_MOST 16

typedef struct forking {
    cay_client *client;
    const cay_call *call;
    cay_create base;
    const cay_fork *spec;
    size_t n;
    cay_sandbox **made; /* n of them */
    atomic_size_t next;
    atomic_bool stop;
    pthread_mutex_t lock; /* of err */
    cay_err err;
} forking;

/* Its own name among those that share a network or a log. */
static void host_name(const char *was, char out[64])
{
    char id[CAY_ID_LEN + 1];
    cay__id_make(id, 'c');
    snprintf(out, 64, "%.50s-%.6s", cay__text_or(was, "cay"), id + 1);
}

/* A program that asked for one before the snapshot must not share it with its twin; who never had
 * one needs none. */
static int machine_id(cay_sandbox *sb, const cay_call *call, cay_err *err)
{
    static const char path[] = "/etc/machine-id";
    cay_write how = { .size = sizeof how, .mode = 0444, .user = "root" };
    cay_stat st = { .size_of = sizeof st };
    unsigned char raw[16];
    char text[40];
    void *box = atomic_load(&sb->box);
    if (!sb->ops->put || !sb->ops->stat || sb->ops->stat(box, call, path, true, &st, NULL) < 0 ||
        !st.size)
        return 0;
    cay__random(raw, sizeof raw);
    raw[6] = (raw[6] & 0x0f) | 0x40; /* as systemd makes them: machine-id(5) */
    raw[8] = (raw[8] & 0x3f) | 0x80;
    cay__hex_put(text, raw, sizeof raw);
    text[32] = '\n';
    if (sb->ops->put(box, call, path, text, 33, &how, NULL) == 0)
        return 0;
    how.user = NULL; /* a single id owns all its files */
    return sb->ops->put(box, call, path, text, 33, &how, err);
}

static int fork_sandbox(forking *f, size_t i, cay_err *err)
{
    cay_create c = f->base;
    char host[64], name[80], once[80];
    if (f->spec->once) {
        char hex[65];
        CAY_AUTOBUF b = CAY__BUF(8192);
        cay__buf_fmt(&b, "%s %s", c.from.snapshot, f->spec->once);
        cay_idempotency_hash(b.data, b.len, hex);
        CAY_FORMAT(once, "fork:%.40s:%zu", hex, i);
        c.idempotency_key = once;
    }
    host_name(f->base.hostname, host);
    c.hostname = host;
    c.name = f->spec->name;
    if (c.name && i) {
        CAY_FORMAT(name, "%.58s-%zu", c.name, i + 1);
        c.name = name;
    }
    CAY_TRY(cay_client_create(f->client, f->call, &c, &f->made[i], err));
    return machine_id(f->made[i], f->call, err);
}

static void *run_worker(void *arg)
{
    forking *f = arg;
    for (size_t i; !atomic_load(&f->stop) && (i = atomic_fetch_add(&f->next, 1)) < f->n;) {
        cay_err err = CAY_ERR_INIT;
        if (fork_sandbox(f, i, &err) == 0)
            continue;
        pthread_mutex_lock(&f->lock);
        if (!atomic_exchange(&f->stop, true))
            f->err = err;
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

static size_t count_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (size_t)CPU_COUNT(&set);
    return 1;
}

static int make_all(forking *f, cay_err *err)
{
    pthread_t threads[THREADS_MOST];
    size_t want = CAY_MIN(CAY_MIN(f->n, count_cpus()), (size_t)THREADS_MOST), started = 0;
    while (started + 1 < want && pthread_create(&threads[started], NULL, run_worker, f) == 0)
        started++;
    run_worker(f); /* this one is a worker, too */
    while (started)
        pthread_join(threads[--started], NULL);
    if (!atomic_load(&f->stop))
        return 0;
    CAY_EACH_OF(it, f->made, f->n) { /* all or none */
        if (*it) {
            cay_sandbox_remove(*it, NULL, NULL);
            cay_sandbox_unref(CAY_STEAL(*it));
        }
    }
    if (err)
        *err = f->err;
    return f->err.code;
}

/* The request that the snapshot's sandbox was made by, standing on the snapshot. */
static int base_of(const cay_snap_row *s, cay__spec **out, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__json_object("record: spec", s->spec, &o, err));
    CAY_AUTOFREE char *labels = json_is_object(json_object_get(o, "labels"))
                                    ? cay__json_text(json_object_get(o, "labels"), CAY__SPEC_MAX)
                                    : cay__strdup("{}");
    cay_row row = { .size = sizeof row,
                    .id = s->sandbox,
                    .provider = s->provider,
                    .spec = s->spec,
                    .labels = labels };
    CAY_TRY(cay__spec_read(&row, out, err));
    cay_create *c = &(*out)->create;
    c->from.snapshot = cay__arena_str((*out)->mem, s->id);
    c->tenant = cay__arena_str((*out)->mem, s->tenant);
    c->idempotency_key = NULL;
    c->manifest.base = NULL; /* what the manifest put in place is in the layers; its key is enough
                                for what is ephemeral */
    c->from.settings = NULL; /* they are in its files, and the snapshot's record tells them */
    if (c->manifest.text && !cay__id_valid(c->manifest.text, 't'))
        c->manifest.text = NULL;
    return 0;
}

/* A sandbox or a snapshot; *id holds the snapshot's, and a sandbox is snapshotted first. */
static int find_source(cay_client *client, const cay_call *call, const char *from, const char *once,
                       char *id, bool *fresh, cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *snap = NULL;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    cay_err box = CAY_ERR_INIT, kept = CAY_ERR_INIT;
    int is_box = cay_client_find(client, call, from, &sb, &box),
        is_snap = cay__snap_find(client, from, &snap, &kept);
    if (is_box == 0 && is_snap == 0 && strcmp(from, sb->id) != 0 && strcmp(from, snap->row.id) != 0)
        return cay_fail_why(err, CAY_EINVAL, "fork_ambiguous",
                            "%.40s is sandbox %s and snapshot %s; give the id of the one you mean",
                            from, sb->id, snap->row.id);
    if (is_snap == 0 && (is_box < 0 || strcmp(from, sb->id) != 0)) {
        cay__str_copy(id, CAY_ID_LEN + 1, snap->row.id);
        return 0;
    }
    if (is_box == 0) {
        *fresh = true;
        return cay__snap_take(
            sb, call, &(cay_snapshot_spec){ .size = sizeof(cay_snapshot_spec), .once = once }, true,
            id, err);
    }
    if (is_box == CAY_ENOENT && is_snap == CAY_ENOENT)
        return cay_fail_why(
            err, CAY_ENOENT, "fork_not_found",
            "there is neither a sandbox nor a snapshot %.64s; see cay ls and cay snapshots", from);
    if (is_box != CAY_ENOENT)
        return cay__err_pass(is_box, &box, err);
    return cay__err_pass(is_snap, &kept, err);
}

static int fork_from(forking *f, const char *snapshot, cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *row = NULL;
    CAY_AUTOPTR(cay__spec) base = NULL;
    CAY_TRY(cay__snap_find(f->client, snapshot, &row, err));
    CAY_TRY(base_of(&row->row, &base, err));
    f->base = base->create;
    if (f->spec->labels)
        f->base.labels = f->spec->labels;
    if (f->spec->ttl_ms)
        f->base.life.ttl_ms = CAY_FLAG_IF(f->spec->ttl_ms != CAY_UNLIMITED, f->spec->ttl_ms);
    return make_all(f, err);
}

int cay_client_fork(cay_client *client, const cay_call *call, const char *from,
                    const cay_fork *given, int (*fn)(cay_sandbox *, void *), void *arg,
                    cay_err *err)
{
    CAY__OP(call, "sandbox.fork", NULL, err);
    if (client->remote)
        return cay__remote_fork(client, call, from, given, fn, arg, err);
    cay_fork spec;
    char snapshot[CAY_ID_LEN + 1];
    bool fresh = false;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_fork", err));
    CAY_TRY(cay__call_check(call, "fork", err));
    if (spec.n > FORKS_MOST)
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "%zu forks are asked for; at most %d at once", spec.n, FORKS_MOST);
    if (!from || !*from)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "nothing to fork is named; give a sandbox or a snapshot");
    forking f = { .client = client,
                  .call = call,
                  .spec = &spec,
                  .n = CAY_OR(spec.n, 1),
                  .lock = PTHREAD_MUTEX_INITIALIZER };
    CAY_TRY(find_source(client, call, from, spec.once, snapshot, &fresh, err));
    f.made = cay__alloc(f.n * sizeof *f.made);
    int rc = fork_from(&f, snapshot, err);
    if (rc < 0 && fresh)
        client->store->snap_remove(client->db, snapshot, NULL);
    CAY_EACH_OF(it, f.made, f.n) {
        if (rc == 0 && fn)
            rc = fn(*it, arg);
        cay_sandbox_unref(*it);
    }
    free(f.made);
    if (rc < 0)
        return cay_wrap(err, rc, "fork %s", from);
    return rc;
}
