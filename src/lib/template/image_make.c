/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers of an image become ours, one above the other, and all of them a template.
 *
 * A layer is named by a digest of its bytes and of what is below, so images that begin alike share
 * their layers. Each is unpacked in a sandbox of its own: one that was taken over by what it read
 * cannot lie about the next, which others may share. A lease holds the names while they are made;
 * whoever dies leaves layers that are whole and a lease that is dropped with its maker.
 */
#include "image.h"
#include <base/sha256.h>
#include <base/fault.h>
#include <base/json.h>
#include <base/mutant.h>
#include <lib/snapshot/archive.h>
#include <proto/record.h>
#include <sys/file.h>

#define HOLDERS_MOST 64 /* more tenants than that bring it each time */

typedef struct known {
    char chain[CAY__SHA256_HEX];
    uint64_t bytes, files;
    bool there, opaque;
    const char *tenant; /* who asks */
    bool mine;          /* it has brought these bytes before */
    json_t *by;         /* whoever has */
} known;

static void known_clear(known *n)
{
    json_decref(n->by);
}
#define AUTOKNOWN __attribute__((cleanup(known_clear))) known

typedef struct work {
    cay_client *client;
    const cay_call *call;
    const cay__image_spec *spec;
    const cay__image *im;
    char id[CAY_ID_LEN + 1];
    char chain[CAY__IMAGE_LAYERS][CAY__SHA256_HEX];
    char name[CAY__IMAGE_LAYERS][CAY_ID_LEN + 1];
    bool seen[CAY__IMAGE_LAYERS]; /* a template that the tenant sees has it */
    size_t first;                 /* what is below it is hidden */
    uint64_t bytes, files;
    uint64_t most, used,
        fresh; /* the tenant's bound (0: none), what it has, what was unpacked for it now */
    size_t at; /* the layer under way */
} work;

static void name_layer(const char *below, const char *digest, char chain[CAY__SHA256_HEX],
                       char name[CAY_ID_LEN + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    char text[256];
    CAY_FORMAT(text, "cay image layer 1\n%s\n%s\n", below, digest);
    cay__sha256_hex(text, strlen(text), chain);
    name[0] = 'l';
    for (size_t i = 1, bit = 0; i < CAY_ID_LEN; i++, bit += 5) {
        unsigned v = 0;
        for (size_t k = bit; k < bit + 5; k++) {
            unsigned nibble = (unsigned)cay__hex_digit(chain[k / 4]);
            v = v << 1 | (nibble >> (3 - k % 4) & 1);
        }
        name[i] = letters[v];
    }
    name[CAY_ID_LEN] = 0;
}

static void name_all(work *k)
{
    for (size_t i = 0; i < k->im->n; i++)
        name_layer(CAY_TEXT_IF(i, k->chain[i - 1]), k->im->layers[i].digest, k->chain[i],
                   k->name[i]);
}

static int read_known(const char *value, void *arg)
{
    known *n = arg;
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("", value, &o, NULL) < 0)
        return 0;
    CAY_COPY(n->chain, cay__json_str(o, "chain", ""));
    n->bytes = (uint64_t)cay__json_int(o, "bytes", 0);
    n->files = (uint64_t)cay__json_int(o, "files", 0);
    n->opaque = cay__json_int(o, "opaque", 0) != 0;
    n->there = true;
    n->by = json_incref(json_object_get(o, "by"));
    for (size_t i = 0; i < json_array_size(n->by); i++) {
        const char *who = json_string_value(json_array_get(n->by, i));
        n->mine |= who && !strcmp(who, n->tenant);
    }
    return 0;
}

static void lookup_layer(cay_client *client, const char *tenant, const char *name, known *out)
{
    known_clear(out);
    *out = (known){ .tenant = tenant };
    if (client->store->note_get(client->db, CAY__NOTE_LAYER, name, read_known, out, NULL) < 0 ||
        !cay__layer_there(client, name))
        out->there = false;
}

/* A digest is no secret and no key: it stands in manifests that anybody may write. A layer that is
 * here is therefore given only to a tenant that has brought its bytes, now or before, or that sees
 * a template with it. */
static int on_template(const cay_template_row *row, void *arg)
{
    work *k = arg;
    cay__stack stack;
    if (cay__stack_read(row->layers, &stack, NULL) < 0)
        return 0;
    for (size_t i = 0; i < k->im->n; i++)
        for (size_t l = 0; l < stack.n && !k->seen[i]; l++)
            k->seen[i] = !strcmp(stack.name[l], k->name[i]);
    return 0;
}

static const char *tenant_of(const work *k)
{
    return CAY_OR(k->spec->tenant, CAY_TENANT_DEFAULT);
}

static int see_all(work *k, cay_err *err)
{
    return k->client->store->template_list(k->client->db, tenant_of(k), NULL, NULL, on_template, k,
                                           err);
}

static bool can_use_layer(const work *k, size_t i, const known *n)
{
    return n->mine || k->seen[i] || CAY__MUTANT("image-possession");
}

int cay__image_missing(cay_client *client, const char *tenant, const cay__image *im, bool *missing,
                       cay_err *err)
{
    CAY_AUTOFREE work *k = cay__alloc(sizeof *k);
    *k = (work){ .client = client, .im = im, .spec = &(cay__image_spec){ .tenant = tenant } };
    name_all(k);
    CAY_TRY(see_all(k, err));
    for (size_t i = 0; i < im->n; i++) {
        AUTOKNOWN n = { 0 };
        lookup_layer(client, tenant_of(k), k->name[i], &n);
        missing[i] = !n.there || !can_use_layer(k, i, &n);
    }
    return 0;
}

int cay__layers_lock(cay_client *client, bool remove, int *out, cay_err *err)
{
    CAY_AUTOFD fd =
        openat(client->home_fd, "layers.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "open layers.lock");
    while (flock(fd, remove ? LOCK_EX | LOCK_NB : LOCK_SH) < 0)
        if (errno != EINTR)
            return cay_fail_why(err, CAY_EBUSY, "layers_busy",
                                "layers of an image are being made; later");
    *out = CAY_STEAL_FD(fd);
    return 0;
}

static int report_progress(work *k, const char *what, uint64_t done)
{
    cay_template_progress p = {
        .size = sizeof p, .what = what, .layer = k->at + 1, .layers = k->im->n, .done = done
    };
    if (k->spec->progress)
        return k->spec->progress(&p, k->spec->progress_arg);
    return 0;
}

typedef struct making {
    work *k;
    known *made;
    char *diff; /* [80] */
} making;

static int read_records(void *arg, cay__layer_conn *c, cay_err *err)
{
    making *m = arg;
    work *k = m->k;
    known *made = m->made;
    cay__rec r;
    for (;;) {
        CAY_TRY(cay__layer_next(c, k->call, &r, err));
        if (r.type == CAY__REC_PROGRESS) {
            cay__rec_get_num(&r);
            uint64_t done = cay__rec_get_num(&r), need = k->used + k->fresh + done;
            if (k->most && need > k->most)
                return cay__quota_templates(tenant_of(k), (int64_t)k->most, (int64_t)need, err);
            if (report_progress(k, "unpack", done))
                return cay_fail(err, CAY_ECANCELED, "it was stopped");
        } else if (r.type == CAY__REC_DONE) {
            made->files = cay__rec_get_num(&r);
            made->bytes = cay__rec_get_num(&r);
            made->opaque = cay__rec_get_num(&r) != 0;
            cay__str_join(m->diff, 80, "sha256:", cay__rec_get_str(&r), NULL);
            if (r.bad)
                return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                                    "cay-pack answered in a wrong form");
            return 0;
        } else {
            return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                                "cay-pack: a record that was not asked for");
        }
    }
}

static int unpack_layer(work *k, size_t i, int fd, known *made, char diff[80], cay_err *err)
{
    const char *args[CAY__IMAGE_LAYERS + 2];
    char base[CAY_LAYER_NAME];
    size_t n = 0;
    making m = { k, made, diff };
    const char *const argv[] = { "./cay-unpack", "--max-input", "17179869184", "--max-output",
                                 "34359738368",  "oci",         "tar",         NULL };
    CAY_TRY(cay__layer_template(k->client->home_fd, CAY__BASE_IMAGE, base, sizeof base, err));
    args[n++] = k->name[i];
    args[n++] = base;
    for (size_t b = k->first; b < i; b++)
        args[n++] = k->name[b];
    return cay__archive_unpack(k->client, k->call, fd, argv,
                               (cay__layer_ask){ .verb = "image", .args = args, .nargs = n },
                               read_records, &m, err);
}

/* Whoever holds the layer's lock: the tenant has brought it. */
static int note_layer(work *k, size_t i, known *n, cay_err *err)
{
    if (!json_is_array(n->by)) {
        json_decref(n->by);
        n->by = json_array();
    }
    if (!n->mine && json_array_size(n->by) < HOLDERS_MOST)
        json_array_append_new(n->by, json_string(tenant_of(k)));
    CAY_AUTOJSON *o =
        json_pack("{s:s,s:I,s:I,s:i,s:O}", "chain", k->chain[i], "bytes", (json_int_t)n->bytes,
                  "files", (json_int_t)n->files, "opaque", (int)n->opaque, "by", n->by);
    CAY_AUTOFREE char *text = cay__json_text(o, 16384);
    return k->client->store->note_put(k->client->db, CAY__NOTE_LAYER, k->name[i], text, err);
}

static int make_layer(work *k, size_t i, known *n, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    char diff[80] = "";
    if (cay__layer_there(k->client, k->name[i])) /* of somebody who died before it was noted: not
                                        known to be what it should */
        CAY_TRY(cay__layer_drop(k->client, k->call, k->name[i], "native", err));
    CAY_TRY(k->spec->blob(k->spec->arg, i, &fd, err));
    CAY_FAULT("image.blob");
    if (report_progress(k, "unpack", 0))
        return cay_fail(err, CAY_ECANCELED, "it was stopped");
    CAY_TRY(unpack_layer(k, i, fd, n, diff, err));
    if (*k->im->diff_id[i] && strcmp(diff, k->im->diff_id[i])) {
        cay__layer_remove(&k->client->layers, k->call, k->name[i], NULL);
        return cay_fail_why(err, CAY_EINVAL, "image_digest",
                            "its content has digest %.20s…, and the image's config says %.20s…",
                            diff, k->im->diff_id[i]);
    }
    CAY_FAULT("image.layer");
    return note_layer(k, i, n, err);
}

/* It is here, and this tenant has not had it: the bytes themselves have to come, with the digest
 * that names them, and are not unpacked again. */
static int prove_layer(work *k, size_t i, known *n, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    CAY_TRY(k->spec->blob(k->spec->arg, i, &fd, err));
    return note_layer(k, i, n, err);
}

/* One maker at a time for each layer; whoever waited finds it there. */
static int need_layer(work *k, size_t i, cay_err *err)
{
    AUTOKNOWN n = { 0 };
    CAY_AUTOFD lock = -1;
    k->at = i;
    CAY_TRY(cay__call_check(k->call, "template", err));
    lookup_layer(k->client, tenant_of(k), k->name[i], &n);
    if (!n.there || !can_use_layer(k, i, &n)) {
        CAY_TRY(cay__box_lock(k->client, k->call, k->name[i], true, &lock, err));
        lookup_layer(k->client, tenant_of(k), k->name[i], &n);
    }
    if (n.there &&
        strcmp(n.chain, k->chain[i])) /* two layers whose names are the same by bad luck or will */
        return cay_fail_why(err, CAY_EEXIST, "image_digest",
                            "layer %s is here with another content", k->name[i]);
    if (!n.there) {
        CAY_TRY(make_layer(k, i, &n, err));
        k->fresh += n.bytes;
    } else if (!can_use_layer(k, i, &n)) {
        CAY_TRY(prove_layer(k, i, &n, err));
    }
    if (n.opaque) {
        k->first = i;
        k->bytes = k->files = 0;
    }
    k->bytes += n.bytes;
    k->files += n.files;
    return 0;
}

static int write_lease(work *k, cay_err *err)
{
    const char *names[CAY__IMAGE_LAYERS];
    for (size_t i = 0; i < k->im->n; i++)
        names[i] = k->name[i];
    return cay__lease_put(k->client, k->id, names, k->im->n, err);
}

static int make_all(work *k, cay_err *err)
{
    CAY_TRY(write_lease(k, err));
    CAY_FAULT("image.leased");
    CAY_TRY(see_all(k, err));
    CAY_TRY(cay__template_left(k->client, k->spec->tenant, &k->most, &k->used, err));
    for (size_t i = 0; i < k->im->n; i++)
        CAY_TRY(cay_wrap(err, need_layer(k, i, err), "layer %zu of %zu", i + 1, k->im->n));
    return 0;
}

static int record_template(work *k, cay_template **out, cay_err *err)
{
    cay__stack stack;
    const char *names[CAY__IMAGE_LAYERS];
    size_t n = 0;
    for (size_t i = k->first; i < k->im->n; i++)
        names[n++] = k->name[i];
    CAY_TRY(cay__stack_of(names, n, &stack, err));
    CAY_AUTOFREE char *layers = cay__stack_text(&stack);
    cay_template_row row = { .size = sizeof row,
                             .id = k->id,
                             .tenant = tenant_of(k),
                             .base = CAY__BASE_IMAGE,
                             .layers = layers,
                             .config = CAY_OR(k->im->text, "{}"),
                             .source = k->spec->source,
                             .digest = k->im->digest,
                             .shared = !k->spec->hidden,
                             .bytes = k->bytes,
                             .files = k->files };
    return cay__template_record(k->client, k->call, &row, k->spec->names, out, err);
}

int cay__image_make(cay_client *client, const cay_call *call, const cay__image_spec *spec,
                    const cay__image *im, cay_template **out, cay_err *err)
{
    CAY_AUTOFD lock = -1;
    CAY_AUTOFREE work *k = cay__alloc(sizeof *k);
    *k = (work){ .client = client, .call = call, .spec = spec, .im = im };
    cay__id_make(k->id, 't');
    name_all(k);
    CAY_TRY(cay__layers_lock(client, false, &lock, err));
    int rc = make_all(k, err);
    if (rc == 0)
        rc = record_template(k, out, err);
    if (rc < 0)
        cay__stack_release(client, k->id);
    for (size_t i = 0; rc == 0 && i < k->first;
         i++) { /* they were needed to know that they are not */
        bool used = true;
        if (client->store->layer_used(client->db, k->name[i], &used, NULL) == 0 && !used)
            client->store->layer_job_put(client->db, "remove", k->name[i], "", NULL);
    }
    return rc;
}
