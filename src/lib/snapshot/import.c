/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An archive becomes a snapshot. cay-unpack reads it inside a sandbox, cay-pack writes what that
 * says into a layer, and here is decided where it stands. The row is there before the layer, as of
 * any snapshot: whoever dies in between leaves nothing that counts.
 */
#include <lib/client/remote.h>
#include "archive.h"
#include <base/fault.h>
#include <base/json.h>
#include <lib/manifest/oneshot.h>
#include <proto/record.h>
#include <limits.h>
#include <signal.h>

typedef struct work {
    cay_client *client;
    const cay_call *call;
    const cay_import *spec;
    char id[CAY_ID_LEN + 1], box[CAY_ID_LEN + 1];
    cay__stack below;
    char origin[CAY_ID_LEN + 1];
    bool whole;
    char digest[72]; /* of the archive */
    cay_snap_row row;
    cay__arena mem;
    bool recorded;
    uint64_t items, bytes;
} work;

static int copy_id(const char *value, void *arg)
{
    cay__str_copy(arg, CAY_ID_LEN + 1, value);
    return 0;
}

/* What an archive of this id became here. Of a whole one the digest is known, so another that
 * claims its id is another. */
static int find_imported(const work *k, const char *id, const char *digest, cay__snaprow **row)
{
    char here[CAY_ID_LEN + 1] = "", key[CAY_ID_LEN + 80];
    CAY_JOIN(key, id, CAY_TEXT_IF(*digest, "/"), digest);
    int rc = k->client->store->note_get(k->client->db, CAY__NOTE_IMPORT, key, copy_id, here, NULL);
    CAY_TRY(rc);
    return cay__snap_row(k->client, here, row, NULL);
}

/* An id is a word that anybody may write into an archive: what stands there has to be what the
 * difference was made from. */
static int same_content(const work *k, cay__snaprow *row, const char *id, const char *want,
                        cay_err *err)
{
    char digest[72];
    CAY_TRY(cay__archive_digest(k->client, k->call, row, digest, err));
    if (!strcmp(digest, want))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "parent_differs",
                        "it was made from snapshot %s with digest %.16s…, and %s here has %.16s…",
                        id, want, row->row.id, digest);
}

/* Of what was changed above a directory of the host only the archive is a whole to stand on. */
static bool is_standalone(const cay__snaprow *row)
{
    char dir[PATH_MAX];
    int64_t since;
    return cay__snap_on(&row->row, dir, sizeof dir, &since, NULL) == 0 && !*dir;
}

static int find_local(const work *k, const char *id, cay__snaprow **row)
{
    CAY_TRY(cay__snap_row(k->client, id, row, NULL));
    if (is_standalone(*row))
        return 0;
    free(CAY_STEAL(*row));
    return CAY_ENOENT;
}

/* The snapshot that a difference was made from: here under its own id, or under the one that its
 * archive got. */
static int find_parent(work *k, const char *id, const char *digest, cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *row = NULL;
    if (!cay__id_valid(id, 's') || !cay__str_starts(digest, "sha256:") || strlen(digest) != 71)
        return cay_fail_why(
            err, CAY_EINVAL, "archive_corrupt",
            "it is a difference and does not say from what, by id and digest; export it again");
    if (find_local(k, id, &row) < 0 && find_imported(k, id, digest, &row) < 0 &&
        find_imported(k, id, "", &row) < 0)
        return cay_fail_why(err, CAY_ENOENT, "parent_missing",
                            "it holds what changed after snapshot %s, which is not here as a "
                            "whole: import the archive of that one first",
                            id);
    if (strcmp(row->row.state, "ready"))
        return cay_fail_why(err, CAY_EBUSY, "parent_missing",
                            "snapshot %s is still being made; try again", row->row.id);
    CAY_TRY(same_content(k, row, id, digest, err));
    k->row.parent = cay__arena_str(&k->mem, row->row.id);
    k->row.template_ = cay__arena_str(&k->mem, row->row.template_);
    return cay__stack_read(row->row.layers, &k->below, err);
}

/* A template that is a path is a directory of this host, and whoever wrote the archive does not
 * choose which. */
static int judge_template(const work *k, const char *template_, cay_err *err)
{
    const char *root = k->spec->root;
    if (*template_ != '/' && strcmp(template_, "host") && strcmp(template_, "image"))
        return cay_fail_why(err, CAY_ENOTSUP, "archive_format",
                            "it stands on template %.40s, which is not here", template_);
    if (*template_ == '/' && (!root || strcmp(root, template_)))
        return cay_fail_why(err, CAY_EPERM, "import_root",
                            "it stands on directory %.100s: its sandboxes would show what this "
                            "host has there; if they may, give "
                            "--root with exactly that path",
                            template_);
    return 0;
}

/* cay.json: written by who knows, read as if by anybody. */
static int read_meta(work *k, const char *text, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    if (cay__json_object("cay.json", text, &o, err) < 0)
        return CAY_EINVAL;
    if (cay__json_int(o, "version", 0) != 1)
        return cay_fail_why(err, CAY_ENOTSUP, "archive_format",
                            "a newer cay made it (version %lld); use that one",
                            (long long)cay__json_int(o, "version", 0));
    const char *kind = cay__json_str(o, "kind", ""),
               *template_ = cay__json_str(o, "template", "host"),
               *origin = cay__json_str(o, "id", "");
    if (strcmp(kind, "whole") && strcmp(kind, "difference"))
        return cay_fail_why(err, CAY_EINVAL, "archive_corrupt",
                            "kind \"%.30s\" is neither whole nor difference", kind);
    k->whole = !strcmp(kind, "whole");
    if (k->whole) /* a difference has its parent's */
        CAY_TRY(judge_template(k, template_, err));
    k->row.template_ = cay__arena_str(&k->mem, template_);
    if (cay__id_valid(origin, 's'))
        CAY_COPY(k->origin, origin);
    json_t *md = json_object_get(o, "metadata");
    if (!k->spec->metadata && json_is_object(md)) {
        char *own = cay__json_text(md, 65536);
        k->row.metadata = CAY_TEXT_IF(own, cay__arena_adopt(&k->mem, own));
    }
    if (k->whole)
        return 0;
    return find_parent(k, cay__json_str(o, "parent", ""), cay__json_str(o, "parent_digest", ""),
                       err);
}

static int record_snapshot(work *k, const char *meta, cay_err *err)
{
    char boot[64];
    if (*meta)
        CAY_TRY(read_meta(k, meta, err));
    cay_create c = { .size = sizeof c,
                     .from.template_ = *k->row.template_ == '/' ? NULL : k->row.template_,
                     .from.root = *k->row.template_ == '/' ? k->row.template_ : NULL };
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__spec_text(&(cay__spec){ .create = c }, &text, err));
    CAY_TRY(cay__json_object("spec", text, &o, err));
    json_object_set_new(o, "labels", json_object());
    CAY_AUTOFREE char *forks = cay__json_text(o, 65536), *layers = cay__stack_text(&k->below);
    cay__boot_id(boot, sizeof boot);
    k->row.spec = cay__arena_str(&k->mem, forks);
    k->row.layers = cay__arena_str(&k->mem, layers);
    k->row.boot = cay__arena_str(&k->mem, boot);
    CAY_TRY(k->client->store->snap_insert(k->client->db, &k->row, err));
    k->recorded = true;
    CAY_FAULT("import.recorded");
    return 0;
}

static int exchange_records(void *arg, cay__layer_conn *c, cay_err *err)
{
    work *k = arg;
    cay__rec r;
    for (;;) {
        CAY_TRY(cay__layer_next(c, k->call, &r, err));
        if (r.type == CAY__REC_META && !k->recorded) {
            CAY_AUTOBUF none = CAY__BUF(16);
            CAY_TRY(record_snapshot(k, cay__rec_get_str(&r), err));
            CAY_TRY(cay__layer_send(c, CAY__REC_META, &none, err));
        } else if (r.type == CAY__REC_PROGRESS) {
            uint64_t items = cay__rec_get_num(&r), bytes = cay__rec_get_num(&r);
            if (k->spec->progress && k->spec->progress(items, bytes, k->spec->arg))
                return cay_fail(err, CAY_ECANCELED, "import was stopped");
        } else if (r.type == CAY__REC_DONE && k->recorded) {
            CAY_JOIN(k->digest, "sha256:", cay__rec_get_str(&r));
            k->items = cay__rec_get_num(&r);
            k->bytes = cay__rec_get_num(&r);
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

int cay__archive_unpack(cay_client *client, const cay_call *call, int fd, const char *const *argv,
                        cay__layer_ask ask,
                        int (*talk)(void *arg, cay__layer_conn *c, cay_err *err), void *arg,
                        cay_err *err)
{
    CAY_AUTOPTR(cay__oneshot) o = NULL;
    cay__feed *feed = NULL;
    cay__layer_conn conn;
    cay_exit end = { .size = sizeof end };
    const cay_spawn spawn = { .size = sizeof spawn, .argv = argv };
    CAY_TRY(cay__oneshot_open(client, call, &(cay__oneshot_spec){ 0 }, &o, err));
    CAY_TRY(cay__oneshot_bring(o, call, "cay-unpack", err));
    CAY_TRY(cay__feed_start(o, call, &spawn, fd, &feed, err));
    const int out = cay__feed_fd(feed);
    ask.program = "cay-pack";
    ask.fds = &out;
    ask.nfds = 1;
    int rc = cay__layer_open(&client->layers, call, &ask, &conn, err);
    if (rc == 0) {
        rc = talk(arg, &conn, err);
        cay__layer_close(&conn);
    }
    int ended = cay__feed_end(feed, call, &end, NULL, 0, NULL);
    if (rc == CAY_EUPSTREAM && ended == 0 && end.signal == SIGABRT)
        return cay_fail_why(err, CAY_ETOOBIG, "archive_limit",
                            "more than 64 MiB of memory are needed to read it");
    return rc;
}

static int make_layer(work *k, int fd, cay_err *err)
{
    const char *const argv[] = { "./cay-unpack", "auto", "auto", NULL }, *const name[] = { k->id };
    return cay__archive_unpack(k->client, k->call, fd, argv,
                               (cay__layer_ask){ .verb = "unpack", .args = name, .nargs = 1 },
                               exchange_records, k, err);
}

/* Later differences find it by this. What is known already is not replaced by whoever claims the
 * same. */
static void note_origin(const work *k)
{
    CAY_AUTOFREE cay__snaprow *row = NULL;
    const char *digest = "";
    if (k->whole)
        digest = k->digest;
    char key[CAY_ID_LEN + 80];
    CAY_JOIN(key, k->origin, CAY_TEXT_IF(*digest, "/"), digest);
    if (*k->origin && find_imported(k, k->origin, digest, &row) < 0)
        k->client->store->note_put(k->client->db, CAY__NOTE_IMPORT, key, k->id, NULL);
}

static int finish_import(work *k, cay_err *err)
{
    cay_snap_row done = k->row;
    CAY_TRY(cay__stack_push(&k->below, k->id, err));
    CAY_AUTOFREE char *layers = cay__stack_text(&k->below);
    done.layers = layers;
    done.method = "import";
    done.bytes = k->bytes;
    done.files = k->items;
    CAY_FAULT("import.made");
    CAY_TRY(k->client->store->snap_ready(k->client->db, &done, false, err));
    note_origin(k);
    return 0;
}

int cay_client_import(cay_client *client, const cay_call *call, const cay_import *given, int fd,
                      cay_snapshot **out, cay_err *err)
{
    CAY__OP(call, "snapshot.import", NULL, err);
    if (client->remote)
        return cay__remote_import(client, call, given, fd, out, err);
    cay_import spec;
    CAY_AUTOFD lock = -1;
    CAY_AUTOJSON *md = NULL;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_import", err));
    CAY_TRY(cay__call_check(call, "import", err));
    spec.label = cay__text_or(spec.label, NULL);
    CAY_TRY(cay__snap_label_check(spec.label, err));
    if (spec.metadata)
        CAY_TRY(cay__json_object("metadata", spec.metadata, &md, err));
    work *k = cay__alloc(sizeof *k);
    *k = (work){ .client = client, .call = call, .spec = &spec };
    cay__id_make(k->id, 's');
    cay__id_make(k->box, 'c'); /* nobody's: no sandbox here made it */
    k->row = (cay_snap_row){ .size = sizeof k->row,
                             .id = k->id,
                             .sandbox = k->box,
                             .parent = "",
                             .label = spec.label,
                             .provider = "native",
                             .template_ = "host",
                             .state = "making",
                             .mark = "",
                             .metadata = spec.metadata,
                             .method = "import" };
    int rc = cay__box_lock(client, call, k->box, true, &lock,
                           err); /* whoever reconciles leaves the row alone */
    if (rc == 0)
        rc = make_layer(k, fd, err);
    if (rc == 0)
        rc = finish_import(k, err);
    if (rc < 0 && k->recorded)
        client->store->snap_remove(client->db, k->id, NULL);
    if (rc == 0 && out)
        rc = cay_client_snapshot(client, call, k->id, out, err);
    cay__arena_clear(&k->mem);
    free(k);
    return cay_wrap(err, rc, "import");
}
