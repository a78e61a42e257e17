/* SPDX-License-Identifier: Apache-2.0 */
/* Which snapshots there are. */
#include <lib/client/remote.h>
#include "snapshot.h"
#include <ctype.h>

#define SHOWN 8

void cay__boot_id(char *buf, size_t cap)
{
    char id[64] = "";
    cay__fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", id, sizeof id);
    id[strcspn(id, "\n")] = 0;
    snprintf(buf, cap, "%.40s", id);
}

bool cay__layer_there(const cay_client *client, const char *layer)
{
    char path[64];
    struct stat st;
    CAY_JOIN(path, CAY__LAYERS_DIR "/", layer);
    return fstatat(client->home_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int cay__temp_file(const cay_client *client, const char *what, int *fd, cay_err *err)
{
    *fd = openat(client->home_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    CAY_TRY_SYS(*fd, err, "a file for %s in the state directory", what);
    return 0;
}

int cay__snap_trees(cay_client *client, const cay_snap_row *s, cay_err *err)
{
    cay__place *p;
    CAY_TRY(cay__client_place(client, s->provider, &p, err));
    if (CAY__HAS(p->ops, opaque_layers))
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_opaque",
                            "snapshot %s is kept by provider %s as its own image: fork it and copy "
                            "files out of that",
                            s->id, s->provider);
    return 0;
}

typedef struct full {
    cay_snapshot s; /* first: the caller has a pointer to it */
    cay__arena mem;
} full;

cay_snapshot *cay__snapshot_blank(cay__arena **mem)
{
    full *f = cay__alloc(sizeof *f);
    *mem = &f->mem;
    return &f->s;
}

cay_snapshot *cay__snapshot_new(const cay_snap_row *r)
{
    char boot[64];
    full *f = cay__alloc(sizeof *f);
    cay_snapshot *s = &f->s;
    const struct {
        const char **to, *from;
    } texts[] = {
        { &s->id, r->id },         { &s->sandbox, r->sandbox },   { &s->parent, r->parent },
        { &s->label, r->label },   { &s->metadata, r->metadata }, { &s->method, r->method },
        { &s->digest, r->digest }, { &s->provider, r->provider }, { &s->template_, r->template_ },
        { &s->tenant, r->tenant }
    };
    s->size = sizeof *s;
    for (size_t i = 0; i < CAY_LEN(texts); i++)
        *texts[i].to = cay__arena_str(&f->mem, texts[i].from);
    cay__boot_id(boot, sizeof boot);
    s->durable = r->durable;
    s->maybe_incomplete = !r->durable && strcmp(r->boot, boot) != 0;
    s->automatic = r->automatic;
    s->created_ms = r->created_ms;
    s->bytes = r->bytes;
    s->files = r->files;
    s->frozen_us = r->frozen_us;
    s->total_us = r->total_us;
    s->depth = r->depth;
    s->users = r->users;
    return s;
}

void cay_snapshot_free(cay_snapshot *s)
{
    full *f = (full *)s;
    if (f)
        cay__arena_clear(&f->mem);
    free(f);
}

int cay__snap_label_check(const char *label, cay_err *err)
{
    bool ok = !label || (isalnum((unsigned char)*label) && strlen(label) <= 63);
    for (const char *c = label; ok && c && *c; c++)
        ok = (unsigned char)*c < 0x80 && (isalnum((unsigned char)*c) || strchr("._-", *c));
    if (!ok) {
        CAY_AUTOBUF b = CAY__BUF(160);
        cay__buf_safe(&b, label, CAY_MIN(strlen(label), (size_t)60), false);
        return cay_fail_why(err, CAY_EINVAL, "label_invalid",
                            "label \"%s\": 1 to 63 letters, digits, '.', '_' or '-', beginning "
                            "with a letter or digit",
                            CAY_OR(b.data, ""));
    }
    if (label && cay__id_valid(label, 0))
        return cay_fail_why(err, CAY_EINVAL, "label_invalid",
                            "label %s looks like an id; choose a word", label);
    return 0;
}

static int copy_row(const cay_snap_row *row, void *arg)
{
    *(cay__snaprow **)arg = cay__snaprow_copy(row);
    return 0;
}

int cay__snap_row(cay_client *client, const char *id, cay__snaprow **out, cay_err *err)
{
    return client->store->snap_get(client->db, id, copy_row, out, err);
}

static int not_found(const char *ref, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(300);
    cay__buf_safe(&b, ref, CAY_MIN(strlen(ref), (size_t)64), false);
    return cay_fail_why(err, CAY_ENOENT, "snapshot_not_found",
                        "there is no snapshot %s; cay snapshots shows those there are",
                        CAY_OR(b.data, "without a name"));
}

static int resolve_ref(cay_client *client, const char *tenant, const char *ref, char *id,
                       cay_err *err)
{
    char ids[SHOWN][CAY_ID_LEN + 1];
    size_t n = 0, at = 0;
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "no snapshot is named; give an id, its beginning, or a label");
    CAY_TRY(client->store->snap_resolve(client->db, tenant, ref, ids, SHOWN, &n, err));
    if (n == 0)
        return not_found(ref, err);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(ids[i], ref)) {
            at = i;
            n = 1;
        }
    if (n > 1)
        return cay_fail_why(err, CAY_EINVAL, "snapshot_ambiguous",
                            "%.40s fits several snapshots: %s, %s%s; give more of the id", ref,
                            ids[0], ids[1], CAY_TEXT_IF(n > 2, ", …"));
    cay__str_copy(id, CAY_ID_LEN + 1, ids[at]);
    return 0;
}

int cay__snap_find(cay_client *client, const char *ref, cay__snaprow **out, cay_err *err)
{
    return cay__snap_find_of(client, NULL, ref, out, err);
}

int cay__snap_find_of(cay_client *client, const char *tenant, const char *ref, cay__snaprow **out,
                      cay_err *err)
{
    char id[CAY_ID_LEN + 1];
    CAY_AUTOFREE cay__snaprow *row = NULL;
    CAY_TRY(resolve_ref(client, tenant, ref, id, err));
    CAY_TRY(cay__snap_row(client, id, &row, err));
    if (!strcmp(row->row.state, "making"))
        return cay_fail_why(err, CAY_EBUSY, "snapshot_making",
                            "snapshot %s is still being made; try again", id);
    if (strcmp(row->row.state, "ready") != 0)
        return cay_fail_why(err, CAY_ESTATE, "snapshot_damaged",
                            "the record of snapshot %s is damaged; cay snapshot rm %s forgets it",
                            id, id);
    *out = CAY_STEAL(row);
    return 0;
}

int cay_client_snapshot(cay_client *client, const cay_call *call, const char *ref,
                        cay_snapshot **out, cay_err *err)
{
    if (client->remote)
        return cay__remote_snapshot(client->remote, call,
                                    &CAY__REQUEST(snapshot_get, .path = { ref }), out, err);
    CAY_AUTOFREE cay__snaprow *row = NULL;
    CAY_TRY(cay__call_check(call, "find", err));
    CAY_TRY(cay__snap_find(client, ref, &row, err));
    *out = cay__snapshot_new(&row->row);
    return 0;
}

int cay_client_snapshot_of(cay_client *client, const cay_call *call, const char *tenant,
                           const char *ref, cay_snapshot **out, cay_err *err)
{
    if (client->remote)
        return cay__remote_snapshot(client->remote, call,
                                    &CAY__REQUEST(snapshot_get, .path = { ref }), out, err);
    CAY_AUTOFREE cay__snaprow *row = NULL;
    CAY_TRY(cay__call_check(call, "find", err));
    CAY_TRY(cay__snap_find_of(client, tenant, ref, &row, err));
    *out = cay__snapshot_new(&row->row);
    return 0;
}

typedef struct lister {
    const cay_call *call;
    const cay_snapshot_filter *filter;
    int (*fn)(const cay_snapshot *, void *);
    void *arg;
    size_t n;
    bool enough;
    cay_err *err;
} lister;

static int on_snapshot_row(const cay_snap_row *row, void *arg)
{
    lister *l = arg;
    CAY_TRY(cay__call_check(l->call, "list", l->err));
    if (!strcmp(row->state, "making") ||
        (l->filter->label && strcmp(row->label, l->filter->label) != 0) ||
        (l->filter->tenant && strcmp(row->tenant, l->filter->tenant) != 0))
        return 0;
    cay_snapshot *s = cay__snapshot_new(row);
    int rc = l->fn(s, l->arg);
    cay_snapshot_free(s);
    l->enough = l->filter->limit && ++l->n == l->filter->limit;
    return CAY_OR(rc, l->enough);
}

int cay_client_snapshots(cay_client *client, const cay_call *call, const cay_snapshot_filter *given,
                         int (*fn)(const cay_snapshot *, void *), void *arg, cay_err *err)
{
    if (client->remote)
        return cay__remote_snapshots(client->remote, call, given, fn, arg, err);
    cay_snapshot_filter f;
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_snapshot_filter", err));
    lister l = { .call = call, .filter = &f, .fn = fn, .arg = arg, .err = err };
    int rc = client->store->snap_list(client->db, f.sandbox, f.after, on_snapshot_row, &l, err);
    if (l.enough)
        return 0;
    return rc;
}

int cay_snapshot_rename(cay_client *client, const cay_call *call, const char *ref,
                        const char *label, cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *row = NULL;
    label = CAY_OR(label, "");
    if (client->remote)
        return cay__remote_do(client->remote, call,
                              &CAY__REQUEST(snapshot_patch, .path = { ref }, .body = &label), err);
    CAY_TRY(cay__call_check(call, "rename", err));
    CAY_TRY(cay__snap_find(client, ref, &row, err));
    if (*label)
        CAY_TRY(cay__snap_label_check(label, err));
    return client->store->snap_label(client->db, row->row.id, label, err);
}

int cay_snapshot_remove(cay_client *client, const cay_call *call, const char *ref, bool *deferred,
                        cay_err *err)
{
    char id[CAY_ID_LEN + 1];
    CAY_AUTOFREE cay__snaprow *row = NULL;
    bool used = false;
    if (client->remote) {
        CAY_TRY(cay__remote_get(client->remote, call,
                                &CAY__REQUEST(snapshot_delete, .path = { ref }), NULL, &used, err));
        if (deferred)
            *deferred = used;
        return 0;
    }
    CAY_TRY(cay__call_check(call, "remove", err));
    CAY_TRY(resolve_ref(client, NULL, ref, id, err));
    CAY_TRY(cay__snap_row(client, id, &row, err));
    if (!strcmp(row->row.state, "making"))
        return cay_fail_why(err, CAY_EBUSY, "snapshot_making",
                            "snapshot %s is still being made; try again", id);
    CAY_TRY(client->store->snap_remove(client->db, id, err));
    if (deferred && client->store->layer_used(client->db, id, &used, NULL) == 0)
        *deferred = used;
    return 0;
}
