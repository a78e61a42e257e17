/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot as an archive: which layers go into it, and whether they are still what they were. */
#include <lib/client/remote.h>
#include "archive.h"
#include "diff.h"
#include <base/json.h>
#include <cay/manifest.h>
#include <limits.h>
#include <proto/record.h>
#include <pthread.h>

typedef struct work {
    cay_client *client;
    const cay_call *call;
    const cay_export *spec;
    cay__snaprow *snap, *since;
    cay__stack stack, below; /* whole, and what the archive does not have */
    bool one;                /* it has one layer */
    char on[PATH_MAX];       /* the directory of the host that it stands on; "": none */
    int on_fd;
    char as_layer[65]; /* that layer's digest, where packing told it */
    cay__layer_words w;
} work;

static const struct {
    const char *name, *word;
    bool workspace; /* nothing else is in it */
} formats[] = { { "cay", "snapshot", false }, { "tar", "tar", true }, { "js", "js", true } };

static int add_meta(work *k, cay_err *err)
{
    const cay_snap_row *r = &k->snap->row;
    CAY_AUTOJSON *o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I}", "version", 1, "kind",
                                k->since ? "difference" : "whole", "id", r->id, "label", r->label,
                                "template", r->template_, "created_ms", (json_int_t)r->created_ms);
    CAY_AUTOJSON *md = NULL;
    if (k->since) {
        char digest[72];
        CAY_TRY(cay__archive_digest(k->client, k->call, k->since, digest, err));
        json_object_set_new(o, "parent", json_string(k->since->row.id));
        json_object_set_new(o, "parent_digest", json_string(digest));
    }
    if (*r->metadata && cay__json_object("metadata", r->metadata, &md, NULL) == 0)
        json_object_set(o, "metadata", md);
    CAY_AUTOFREE char *text = cay__json_text(o, 3500); /* cay-unpack takes 4 kB */
    if (!text) {
        json_object_del(o, "metadata");
        text = cay__json_text(o, 3500);
    }
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "the description of snapshot %s is too long", r->id);
    cay__layer_word(&k->w, "meta=", text);
    return 0;
}

/* Entries that a manifest calls ephemeral, and mounts, are no part of a saved workspace. */
static int on_skip(const char *path, void *arg)
{
    work *k = arg;
    bool workspace = k->spec->format && strcmp(k->spec->format, "cay");
    cay__layer_word(&k->w, workspace ? "skip=" : "skip=workspace/", path);
    return 0;
}

static void add_skips(work *k)
{
    CAY_AUTOJSON *o = NULL;
    cay_manifest *m = NULL;
    if (!*k->snap->row.spec || cay__json_object("spec", k->snap->row.spec, &o, NULL) < 0)
        return;
    const json_t *j = json_object_get(o, "manifest");
    CAY_AUTOFREE char *text = cay__json_plain(j, CAY_MANIFEST_BYTES);
    if (!text || cay_manifest_parse(text, strlen(text), CAY_MANIFEST_TRUSTED, &m, NULL) < 0)
        return;
    if (!strcmp(cay_manifest_root(m), "/workspace"))
        cay_manifest_unsaved(m, on_skip, k);
    cay_manifest_free(m);
}

static bool begins_with(const cay__stack *all, const cay__stack *below)
{
    bool fits = below->n <= all->n;
    for (size_t i = 0; fits && i < below->n; i++)
        fits = !strcmp(all->name[i], below->name[i]);
    return fits;
}

static int add_stacks(work *k, cay_err *err)
{
    char template_[CAY_LAYER_NAME] = "";
    const char *root = k->snap->row.template_;
    if (*root == '/')
        cay__layer_word(&k->w, "root=", root);
    else
        CAY_TRY(cay__layer_template(k->client->home_fd, root, template_, sizeof template_, err));
    if (k->since && strcmp(k->since->row.template_, root))
        return cay_fail_why(err, CAY_EINVAL, "diff_roots", "%s and %s stand on different templates",
                            k->since->row.id, k->snap->row.id);
    cay__layer_word_stack(&k->w, "a=", template_, k->below.name, k->below.n);
    k->one = !*k->on && begins_with(&k->stack, &k->below) && k->stack.n == k->below.n + 1;
    if (k->one) {
        cay__layer_word(&k->w, "top=", k->stack.name[k->stack.n - 1]);
        return 0;
    }
    cay__layer_word_stack(&k->w, "b=", template_, k->stack.name, k->stack.n);
    return 0;
}

/* What was changed above a directory of the host, and the directory: elsewhere both are one
 * workspace. */
static int on_host(work *k, cay_err *err)
{
    char below[PATH_MAX] = "";
    int64_t since;
    CAY_TRY(cay__snap_on(&k->snap->row, k->on, sizeof k->on, &since, err));
    if (k->since)
        CAY_TRY(cay__snap_on(&k->since->row, below, sizeof below, &since, err));
    if (*below && strcmp(below, k->on))
        return cay_fail_why(err, CAY_EINVAL, "diff_roots",
                            "%s and %s do not stand on one directory", k->since->row.id,
                            k->snap->row.id);
    if (!*k->on)
        return 0;
    CAY_TRY(cay__on_open(k->on, k->snap->row.id, &k->on_fd, err));
    cay__layer_word(&k->w, "b-on=o", k->snap->row.id + 1);
    if (*below)
        cay__layer_word(&k->w, "a-on=o", k->since->row.id + 1);
    return 0;
}

typedef struct check {
    work *k;
    pthread_t thread;
    int rc;
    cay_err err;
} check;

static bool in_below(const work *k, const char *layer)
{
    CAY_EACH_OF(it, k->below.name, k->below.n)
        if (!strcmp(*it, layer))
            return true;
    return false;
}

static int check_digest(const char *layer, const char *hex, const char *want, cay_err *err)
{
    if (!strcmp(hex, want))
        return 0;
    return cay_fail_why(
        err, CAY_ESYS, "snapshot_damaged",
        "layer %s has digest %.16s…, and its record %.16s…: the disk or somebody changed it", layer,
        hex, want);
}

/* What its record says; false: it was merged, its snapshot is gone, or it is not settled yet. */
static bool read_digest(const work *k, const char *layer, char hex[65])
{
    CAY_AUTOFREE cay__snaprow *row = NULL;
    return cay__snap_row(k->client, layer, &row, NULL) == 0 &&
           cay__str_starts(row->row.digest, "sha256:") &&
           cay__str_copy(hex, 65, row->row.digest + 7);
}

static int verify_layer(work *k, const char *layer, cay_err *err)
{
    char hex[65], want[65];
    if (in_below(k, layer) || !read_digest(k, layer, want))
        return 0;
    CAY_TRY(cay__layer_digest(&k->client->layers, k->call, layer, hex, NULL, NULL, err));
    return check_digest(layer, hex, want, err);
}

static void *verify_all(void *arg)
{
    check *c = arg;
    for (size_t i = 0; i < c->k->stack.n && c->rc == 0; i++)
        c->rc = verify_layer(c->k, c->k->stack.name[i], &c->err);
    return NULL;
}

static int on_record(cay__rec *r, void *arg, cay_err *err)
{
    const cay_export *s = arg;
    uint64_t items = cay__rec_get_num(r), bytes = cay__rec_get_num(r);
    if (r->type != CAY__REC_PROGRESS || r->bad)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "cay-pack: a record has a wrong form");
    if (s->progress && s->progress(items, bytes, s->arg))
        return cay_fail(err, CAY_ECANCELED, "export was stopped");
    return 0;
}

static int run_pack(work *k, int fd, cay_archived *out, cay_err *err)
{
    cay__layer_done done = { 0 };
    const int fds[] = { fd, k->on_fd };
    cay__layer_ask ask = { .program = "cay-pack",
                           .verb = "pack",
                           .args = k->w.v,
                           .nargs = k->w.n,
                           .fds = fds,
                           .nfds = k->on_fd >= 0 ? 2 : 1,
                           .fn = on_record,
                           .arg = (void *)(uintptr_t)k->spec };
    CAY_TRY(cay__layer_run(&k->client->layers, k->call, &ask, &done, err));
    cay_archived got = { .size = sizeof got };
    CAY_JOIN(got.digest, "sha256:", cay__rec_get_str(&done.rec));
    got.files = cay__rec_get_num(&done.rec);
    got.bytes = cay__rec_get_num(&done.rec);
    CAY_COPY(k->as_layer, cay__rec_get_str(&done.rec));
    bool bad = done.rec.bad;
    cay__layer_done_clear(&done);
    if (bad)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "cay-pack answered in a wrong form");
    if (out)
        cay__answer_give(out, &got, sizeof got);
    return 0;
}

/* One layer as it is: what is packed is digested on the way, so nothing is read twice. */
static int pack_layer(work *k, int fd, cay_archived *out, cay_err *err)
{
    const char *layer = k->stack.name[k->stack.n - 1];
    char want[65];
    cay__layer_word(&k->w, "raw=1", "");
    int rc = run_pack(k, fd, out, err);
    k->w.n--;
    CAY_TRY(rc);
    if (read_digest(k, layer, want))
        return check_digest(layer, k->as_layer, want, err);
    return 0;
}

/* Several, or what only a comparison tells: their digests are taken beside. */
static int pack_many(work *k, int fd, cay_archived *out, cay_err *err)
{
    check c = { .k = k, .err = CAY_ERR_INIT };
    bool beside = pthread_create(&c.thread, NULL, verify_all, &c) == 0;
    if (!beside)
        verify_all(&c);
    int rc = run_pack(k, fd, out, err);
    if (beside)
        pthread_join(c.thread, NULL);
    CAY_TRY(cay__err_pass(c.rc, &c.err, err));
    return rc;
}

int cay__archive_copy(int from, int to, cay_err *err)
{
    char buf[65536];
    if (lseek(from, 0, SEEK_SET) != 0)
        return cay_fail_sys(err, "read the archive");
    for (ssize_t n; (n = read(from, buf, sizeof buf)) != 0;)
        if (n < 0 || !cay__fd_write_all(to, buf, (size_t)n))
            return cay_fail_sys(err, "write the archive");
    return 0;
}

/* Into a regular file, which may be begun anew. */
static int to_file(work *k, size_t format, int fd, cay_archived *out, cay_err *err)
{
    off_t start = lseek(fd, 0, SEEK_CUR);
    if (start < 0)
        return cay_fail_sys(err, "write the archive");
    int rc = CAY_ENOTSUP;
    if (k->one && !formats[format].workspace)
        rc = pack_layer(k, fd, out, err);
    if (rc != CAY_ENOTSUP)
        return rc;
    if (ftruncate(fd, start) < 0 || lseek(fd, start, SEEK_SET) != start)
        return cay_fail_sys(err, "write the archive");
    return pack_many(k, fd, out, err);
}

static int export_row(work *k, size_t format, int fd, cay_archived *out, cay_err *err)
{
    char n[21];
    struct stat st;
    cay__place *p;
    CAY_TRY(cay__client_place(k->client, k->snap->row.provider, &p, err));
    if (CAY__HAS(p->ops, opaque_layers) && !k->since)
        return cay__workspace_export(k->client, k->call, &k->snap->row, k->spec, fd, out, err);
    CAY_TRY(cay__snap_trees(k->client, &k->snap->row, err));
    CAY_TRY(cay__stack_read(k->snap->row.layers, &k->stack, err));
    if (k->since)
        CAY_TRY(cay__stack_read(k->since->row.layers, &k->below, err));
    cay__layer_word(&k->w, "format=", formats[format].word);
    if (formats[format].workspace)
        cay__layer_word(&k->w, "under=workspace", "");
    CAY_TRY(on_host(k, err));
    CAY_TRY(add_stacks(k, err));
    CAY_TRY(add_meta(k, err));
    add_skips(k);
    cay__layer_word(
        &k->w, "threads=", cay__str_u64(n, (uint64_t)CAY_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1)));
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return to_file(k, format, fd, out, err);
    /* Nothing leaves before all of it is known to be sound. */
    CAY_AUTOFD file = -1;
    CAY_TRY(cay__temp_file(k->client, "the archive", &file, err));
    CAY_TRY(to_file(k, format, file, out, err));
    return cay__archive_copy(file, fd, err);
}

static void work_clear(work *k)
{
    cay__close_fd(&k->on_fd);
    cay__layer_words_clear(&k->w);
    free(k);
}

static int copy_digest(const char *value, void *arg)
{
    if (cay__str_copy(arg, 72, value))
        return 0;
    return CAY_EINVAL;
}

int cay__archive_digest(cay_client *client, const cay_call *call, cay__snaprow *snap,
                        char digest[72], cay_err *err)
{
    const cay_export spec = { .size = sizeof spec };
    cay_archived got = { .size = sizeof got };
    if (client->store->note_get(client->db, CAY__NOTE_WHOLE, snap->row.id, copy_digest, digest,
                                NULL) == 0)
        return 0;
    CAY_AUTOFD file = -1;
    CAY_TRY(cay__temp_file(client, "the archive", &file, err));
    work *k = cay__alloc(sizeof *k);
    *k = (work){ .client = client, .call = call, .spec = &spec, .snap = snap, .on_fd = -1 };
    int rc = export_row(k, 0, file, &got, err);
    bool lasting = rc == 0 && !*k->on; /* a directory of the host may be another tomorrow */
    work_clear(k);
    CAY_TRY(rc);
    cay__str_copy(digest, 72, got.digest);
    if (lasting)
        client->store->note_put(client->db, CAY__NOTE_WHOLE, snap->row.id, digest,
                                NULL); /* without it the next time takes longer */
    return 0;
}

/* A sandbox is saved for the export, and that snapshot goes again. */
static int find_source(work *k, char taken[CAY_ID_LEN + 1], cay_err *err)
{
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    cay_err no_snap = CAY_ERR_INIT;
    int rc = cay__snap_find(k->client, k->spec->ref, &k->snap, &no_snap);
    if (rc == CAY_ENOENT && cay_client_find(k->client, k->call, k->spec->ref, &sb, NULL) == 0) {
        CAY_TRY(cay__snap_take(sb, k->call,
                               &(cay_snapshot_spec){ .size = sizeof(cay_snapshot_spec) }, true,
                               taken, err));
        return cay__snap_row(k->client, taken, &k->snap, err);
    }
    if (rc == CAY_ENOENT)
        return cay_fail_why(
            err, CAY_ENOENT, "sandbox_not_found",
            "no sandbox and no snapshot is %.60s; `cay ls` and `cay snapshots` show them",
            k->spec->ref);
    return cay__err_pass(rc, &no_snap, err);
}

int cay_client_export(cay_client *client, const cay_call *call, const cay_export *given, int fd,
                      cay_archived *out, cay_err *err)
{
    CAY__OP(call, "snapshot.export", NULL, err);
    if (client->remote)
        return cay__remote_export(client, call, given, fd, out, err);
    cay_export spec;
    char taken[CAY_ID_LEN + 1] = "";
    size_t format = 0;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_export", err));
    CAY_TRY(cay__call_check(call, "export", err));
    while (spec.format && format < CAY_LEN(formats) && strcmp(spec.format, formats[format].name))
        format++;
    if (format == CAY_LEN(formats))
        return cay_fail_why(err, CAY_EINVAL, "archive_format",
                            "format %.40s: there are cay, tar and js", spec.format);
    if (!spec.ref || !*spec.ref)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid", "export: name a snapshot or sandbox");
    if (spec.since && formats[format].workspace)
        return cay_fail_why(err, CAY_EINVAL, "archive_format",
                            "format %s has no differences; use cay", spec.format);
    work *k = cay__alloc(sizeof *k);
    *k = (work){ .client = client, .call = call, .spec = &spec, .on_fd = -1 };
    int rc = find_source(k, taken, err);
    if (rc == 0 && spec.since)
        rc = cay__snap_find(client, spec.since, &k->since, err);
    cay_archived own = { .size = sizeof own }, *got = CAY_OR(out, &own);
    if (rc == 0)
        rc = export_row(k, format, fd, got, err);
    /* Whoever exports a difference from here later need not make all of it once more, only to name
     * it. */
    if (rc == 0 && !k->since && !*taken && !*k->on && !formats[format].workspace)
        client->store->note_put(client->db, CAY__NOTE_WHOLE, k->snap->row.id, got->digest, NULL);
    if (*taken)
        cay_snapshot_remove(client, NULL, taken, NULL, NULL);
    free(k->snap);
    free(k->since);
    work_clear(k);
    return cay_wrap(err, rc, "export %.40s", spec.ref);
}
