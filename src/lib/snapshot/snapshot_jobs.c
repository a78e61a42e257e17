/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What snapshots leave for later, by one program at a time, which may be killed at any moment:
 *
 *   layers that nobody names  jobs "remove", and what a dead maker left below layers/
 *   snapshots that are young  syncfs(2) of the state directory, then digest and `durable`
 *   stacks beyond 32 layers   the lower ones become one: job "merge" until the new layer is there,
 *                             "merged" until nobody stands on the old ones; a sandbox that runs
 *                             changes over when it starts again
 */
#include <lib/template/image.h>
#include "snapshot.h"
#include <base/fault.h>
#include <base/json.h>
#include <base/mutant.h>
#include <dirent.h>
#include <limits.h>
#include <lib/provider/native/root_helper.h>
#include <sys/file.h>

#define DEEP 32 /* layers, and more are merged */
#define LEAVE                                                                                      \
    16 /* of the uppermost that stay as they are, so that the next merge is not due at once */
#define GRACE_MS 600000 /* of a layer that nobody names: its maker may be about to */
#define ROUNDS   8

typedef struct settling {
    cay_client *client;
    const cay_call *call;
    cay_err *err;
    size_t done; /* in this round */
    int rc;      /* the first failure; the rest is done all the same */
} settling;

static void record_failure(settling *s, int rc, const cay_err *why)
{
    if (s->rc == 0) {
        s->rc = rc;
        if (s->err)
            *s->err = *why;
    }
}

int cay__layers_place(cay_client *client, const char *provider, cay__place **place, void **self,
                      cay_err *err)
{
    CAY_TRY(cay__client_place(client, cay__text_or(provider, client->provider), place, err));
    if (!CAY__HAS((*place)->ops, layer_remove))
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_unsupported", "provider %s has no layers",
                            (*place)->ops->name);
    return cay__client_self(client, *place, self, err);
}

int cay__layer_drop(cay_client *client, const cay_call *call, const char *layer,
                    const char *provider, cay_err *err)
{
    cay__place *p;
    void *self;
    CAY_TRY(cay__layers_place(client, provider, &p, &self, err));
    cay__layer_bytes_forget(client, layer);
    return p->ops->layer_remove(self, call, layer, err);
}

static int remove_job(const cay_layer_job *job, void *arg)
{
    settling *s = arg;
    cay_err err = CAY_ERR_INIT;
    bool used = true;
    CAY_TRY(cay__call_check(s->call, "settle", s->err));
    int rc = s->client->store->layer_used(s->client->db, job->subject, &used, &err);
    CAY_AUTOFD lock = -1;
    if (rc == 0 && !used && *job->subject == 'l') {
        /* Whoever makes a template may be about to stand on it, and asked before us. */
        if (cay__layers_lock(s->client, true, &lock, NULL) < 0)
            return 0;
        rc = s->client->store->layer_used(s->client->db, job->subject, &used, &err);
        if (rc == 0 && !used)
            s->client->store->note_put(s->client->db, CAY__NOTE_LAYER, job->subject, NULL, NULL);
    }
    if (rc == 0 && !used && cay__layer_removable(job->subject))
        rc = cay__layer_drop(s->client, s->call, job->subject, job->detail, &err);
    CAY_FAULT("settle.removed");
    if (rc == 0)
        rc = s->client->store->layer_job_drop(s->client->db, "remove", job->subject, &err);
    if (rc < 0)
        record_failure(s, rc, &err);
    else
        s->done++;
    return 0;
}

static bool is_young(int dir, const char *name)
{
    struct statx st;
    if (statx(dir, name, AT_SYMLINK_NOFOLLOW, STATX_CTIME, &st) < 0)
        return true;
    int64_t age =
        cay__clock_ms() - ((int64_t)st.stx_ctime.tv_sec * 1000 + st.stx_ctime.tv_nsec / 1000000);
    return age >= 0 && age < GRACE_MS;
}

int cay__layers_sweep(cay_client *client, const cay_call *call, size_t *removed, cay_err *err)
{
    cay__blobs_sweep(client);
    int fd = openat(client->home_fd, CAY__LAYERS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = NULL;
    if (fd >= 0)
        d = fdopendir(fd);
    int rc = 0;
    if (!d)
        cay__close_fd(&fd);
    bool half = false;
    for (struct dirent *e; rc == 0 && d && (e = readdir(d));) {
        bool used = true;
        half |= cay__str_starts(e->d_name, ".stage-") || cay__str_starts(e->d_name, ".gone-");
        /* A template is never of these kinds. */
        if (!cay__layer_removable(e->d_name) || is_young(fd, e->d_name) ||
            client->store->layer_used(client->db, e->d_name, &used, NULL) < 0 || used)
            continue;
        CAY_AUTOFD lock = -1;
        if (*e->d_name == 'l' &&
            (cay__layers_lock(client, true, &lock, NULL) < 0 ||
             client->store->layer_used(client->db, e->d_name, &used, NULL) < 0 || used))
            continue;
        if (*e->d_name == 'l')
            client->store->note_put(client->db, CAY__NOTE_LAYER, e->d_name, NULL, NULL);
        rc = cay__layer_drop(client, call, e->d_name, "", err);
        *removed += rc == 0;
        if (rc == CAY_ENOTSUP) /* another provider's, which sees to it */
            rc = 0;
    }
    if (d)
        closedir(d);
    /* What a cay-layer that was killed left; one that works holds its own. */
    const cay__layer_ask ask = { .verb = "remove" };
    if (rc == 0 && half)
        rc = cay__layer_run(&client->layers, call, &ask, NULL, err);
    return rc;
}

typedef struct young {
    const char *boot;
    char (*ids)[CAY_ID_LEN + 1];
    size_t n;
} young;

static int find_young(const cay_snap_row *row, void *arg)
{
    young *y = arg;
    if (row->durable || strcmp(row->boot, y->boot) != 0 || strcmp(row->state, "ready") != 0)
        return 0;
    CAY_GROW(y->ids, y->n);
    cay__str_copy(y->ids[y->n++], sizeof *y->ids, row->id);
    return 0;
}

static int settle_snapshot(settling *s, const char *id, cay_err *err)
{
    char hex[65], digest[80] = "";
    uint64_t bytes = 0, files = 0;
    int rc = cay__layer_digest(&s->client->layers, s->call, id, hex, &bytes, &files, err);
    if (rc == 0)
        CAY_JOIN(digest, "sha256:", hex);
    CAY_FAULT("settle.digested");
    /* On the disk it is, with or without a digest. */
    int put = s->client->store->snap_settled(s->client->db, id, digest, true, bytes, files,
                                             CAY_IF(rc == 0, err));
    CAY_TRY(rc);
    return put;
}

static int settle_young(settling *s)
{
    char boot[64];
    cay__boot_id(boot, sizeof boot);
    young y = { .boot = boot };
    int rc = s->client->store->snap_list(s->client->db, NULL, NULL, find_young, &y, s->err);
    if (rc == 0 && y.n && !CAY__MUTANT("snapshot-sync") && syncfs(s->client->home_fd) < 0)
        rc = cay_fail_sys(s->err, "write the state directory to the disk");
    CAY_FAULT("settle.synced");
    for (size_t i = 0; rc == 0 && i < y.n; i++) {
        cay_err err = CAY_ERR_INIT;
        rc = cay__call_check(s->call, "settle", s->err);
        int one = 0;
        if (rc == 0)
            one = settle_snapshot(s, y.ids[i], &err);
        if (one < 0 && one != CAY_ENOENT) /* removed meanwhile */
            record_failure(s, one, &err);
        s->done++;
    }
    free(y.ids);
    return rc;
}

typedef struct deep {
    cay_client *client;
    char *layers; /* of the deepest stack */
    char *provider;
    size_t n;
} deep;

static void is_deep(deep *d, const cay__stack *s, const char *provider)
{
    if (s->n <= DEEP || s->n <= d->n)
        return;
    cay__stack lower;
    cay__stack_of(s->name, s->n - LEAVE, &lower, NULL);
    free(d->layers);
    free(d->provider);
    d->layers = cay__stack_text(&lower);
    d->provider = cay__strdup(provider);
    d->n = s->n;
}

static int deep_snap(const cay_snap_row *row, void *arg)
{
    const deep *d = arg;
    cay__stack s;
    if (row->depth > DEEP && !strcmp(row->state, "ready") &&
        cay__snap_trees(d->client, row, NULL) == 0 && cay__stack_read(row->layers, &s, NULL) == 0)
        is_deep(arg, &s, row->provider);
    return 0;
}

/* What such a stack stands on: that of any record that begins with it. */
typedef struct standing {
    const char *begin; /* the list, without the bracket that ends it */
    size_t len;
    char base[PATH_MAX]; /* a template, or a directory of the host */
} standing;

static int under_snap(const cay_snap_row *row, void *arg)
{
    standing *u = arg;
    return !strncmp(row->layers, u->begin, u->len) && CAY_COPY(u->base, row->template_);
}

static int under_template(const cay_template_row *row, void *arg)
{
    standing *u = arg;
    return !strncmp(row->layers, u->begin, u->len) && CAY_COPY(u->base, row->base);
}

static void find_base(settling *s, const char *layers, char base[PATH_MAX])
{
    standing u = { .begin = layers, .len = strlen(layers) - 1, .base = "host" };
    if (s->client->store->snap_list(s->client->db, NULL, NULL, under_snap, &u, NULL) == 0)
        s->client->store->template_list(s->client->db, NULL, NULL, NULL, under_template, &u, NULL);
    cay__str_copy(base, PATH_MAX, u.base);
}

static int merge_layers(settling *s, const char *layers, const char *to, cay_err *err)
{
    cay__stack stack;
    char below[CAY_LAYER_NAME], base[PATH_MAX];
    if (cay__layer_there(s->client, to))
        return 0; /* somebody was killed after that */
    CAY_TRY(cay__stack_read(layers, &stack, err));
    find_base(s, layers, base);
    if (*base != '/')
        CAY_TRY(cay__layer_template(s->client->home_fd, base, below, sizeof below, err));
    const char *under[] = { *base == '/' ? base : below };
    CAY_TRY(cay__layer_merge(&s->client->layers, s->call, under, 1, stack.name, stack.n, to, err));
    CAY_TRY(cay__layers_merged_bytes(s->client, &stack, to, err));
    /* Before the old ones may go. */
    CAY_TRY_SYS(syncfs(s->client->home_fd), err, "write the state directory to the disk");
    return 0;
}

/* From the intent on; any part of it may have been done by somebody who was killed. */
static int merge_job(const cay_layer_job *job, void *arg)
{
    settling *s = arg;
    cay_err err = CAY_ERR_INIT;
    CAY_TRY(cay__call_check(s->call, "settle", s->err));
    int rc = merge_layers(s, job->detail, job->subject, &err);
    CAY_FAULT("settle.merged");
    if (rc == 0)
        rc = s->client->store->layer_job_put(s->client->db, "merged", job->subject, job->detail,
                                             &err);
    if (rc == 0)
        rc = s->client->store->layer_job_drop(s->client->db, "merge", job->subject, &err);
    if (rc < 0)
        record_failure(s, rc, &err);
    else
        s->done++;
    return 0;
}

/* The new layer is held by who stands on it alone; there may be nobody any more. */
static int end_merged(settling *s, const char *layer, cay_err *err)
{
    bool used = true;
    CAY_TRY(s->client->store->layer_job_drop(s->client->db, "merged", layer, err));
    CAY_TRY(s->client->store->layer_used(s->client->db, layer, &used, err));
    if (used)
        return 0;
    return s->client->store->layer_job_put(s->client->db, "remove", layer, "", err);
}

/* Whoever can changes over; when nobody is left the old layers are nobody's. */
static int merged_job(const cay_layer_job *job, void *arg)
{
    settling *s = arg;
    cay_err err = CAY_ERR_INIT;
    size_t left = 1;
    int rc = s->client->store->layers_merge(s->client->db, job->detail, job->subject,
                                            s->client->provider, NULL, &left, &err);
    CAY_FAULT("settle.swapped");
    if (rc == 0 && left == 0)
        rc = end_merged(s, job->subject, &err);
    if (rc < 0)
        record_failure(s, rc, &err);
    return 0;
}

static int known_merge(const cay_layer_job *job, void *arg)
{
    return !strcmp(job->detail, arg);
}

static int begin_merge(settling *s)
{
    deep d = { .client = s->client };
    char name[CAY_ID_LEN + 1];
    cay_store_ops const *st = s->client->store;
    int rc = st->snap_list(s->client->db, NULL, NULL, deep_snap, &d, s->err);
    if (rc == 0 && d.n) {
        cay__id_make(name, 'g');
        int known = st->layer_job_list(s->client->db, "merge", known_merge, d.layers, s->err);
        if (known == 0)
            known = st->layer_job_list(s->client->db, "merged", known_merge, d.layers, s->err);
        rc = CAY_MIN(known, 0);
        if (!known)
            rc = st->layer_job_put(s->client->db, "merge", name, d.layers, s->err);
        CAY_FAULT("settle.intended");
    }
    free(d.layers);
    free(d.provider);
    return rc;
}

static int round_of(settling *s)
{
    const cay_store_ops *st = s->client->store;
    s->done = 0;
    CAY_TRY(settle_young(s));
    CAY_TRY(st->layer_job_list(s->client->db, "merged", merged_job, s,
                               s->err)); /* what can change over needs no merge */
    CAY_TRY(begin_merge(s));
    CAY_TRY(st->layer_job_list(s->client->db, "merge", merge_job, s, s->err));
    CAY_TRY(st->layer_job_list(s->client->db, "merged", merged_job, s, s->err));
    CAY_TRY(st->sync(s->client->db,
                     s->err)); /* no record may come back after a power cut whose layers are gone */
    return st->layer_job_list(s->client->db, "remove", remove_job, s, s->err);
}

int cay_client_maintain(cay_client *client, const cay_call *call, cay_err *err)
{
    settling s = { .client = client, .call = call, .err = err };
    int rc = 0;
    CAY_TRY(cay__call_check(call, "settle", err));
    if (cay__hand_gone(client->home_fd)) /* nothing can be read of the trees now */
        return 0;
    CAY_AUTOFD lock =
        openat(client->home_fd, "settle.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0)
        return cay_fail_sys(err, "open settle.lock");
    if (flock(lock, LOCK_EX | LOCK_NB) < 0)
        return 0; /* somebody is at it, and looks again before it ends */
    cay__leases_drop(client);
    for (int i = 0; rc == 0 && i < ROUNDS; i++) {
        rc = round_of(&s);
        if (!s.done)
            break;
    }
    CAY_TRY(rc);
    return s.rc;
}

bool cay_client_needs_maintenance(cay_client *client)
{
    if (client->remote)
        return false;
    char boot[64];
    unsigned what = 0;
    cay__boot_id(boot, sizeof boot);
    CAY_AUTOFD lock = openat(client->home_fd, "settle.lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) < 0)
        return false;
    return client->store->unsettled(client->db, boot, &what, NULL) == 0 && (what & CAY_STORE_LATER);
}
