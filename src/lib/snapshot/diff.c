/* SPDX-License-Identifier: Apache-2.0 */
/* Between two points: which layers and directories they are, and what cay-layer says about them. */
#include <lib/client/remote.h>
#include "diff.h"
#include <base/json.h>
#include <lib/sandbox/limits.h>

#define TEXT_MAX_ (16u << 20)

static void add_mount(cay__point *p, size_t *used, const char *target)
{
    size_t n = strlen(target) + 1;
    if (*used + n >= sizeof p->mounts)
        return;
    memcpy(p->mounts + *used, target, n);
    *used += n;
}

static int from_box(cay_client *client, const char *id, cay__point *out, cay_err *err)
{
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_AUTOPTR(cay__spec) spec = NULL;
    struct stat st;
    char stack[48];
    CAY_TRY(cay__client_row(client, id, &row, err));
    CAY_TRY(cay__spec_read(&row->row, &spec, err));
    const cay_create *c = &spec->create;
    CAY_TRY(cay__stack_of(spec->box.layers, spec->box.nlayers, &out->stack, err));
    CAY_COPY(out->id, id);
    CAY_COPY(out->root, CAY_OR(c->from.root, ""));
    CAY_COPY(out->base, CAY_OR(c->from.template_, "host"));
    CAY_COPY(out->on, CAY_OR(c->from.directory, ""));
    CAY_JOIN(out->on_top, "sandboxes/", id, "/on/upper");
    out->created_ms = CAY_OR((int64_t)spec->on_since_ms, row->row.created_ms);
    CAY_JOIN(out->top, "sandboxes/", id, "/upper");
    size_t used = 0;
    CAY_EACH_OF(grant, c->files.grants, c->files.ngrants)
        add_mount(out, &used, grant->target);
    CAY_EACH_OF(volume, c->files.volumes, c->files.nvolumes)
        add_mount(out, &used, volume->target);
    CAY_JOIN(stack, "sandboxes/", id,
             "/stack"); /* in a disk image, or put aside, the other is not to be seen */
    if (fstatat(client->home_fd, out->top, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
        fstatat(client->home_fd, stack, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_fail_why(err, CAY_ENOTSUP, "diff_unsupported",
                            "sandbox %s of provider %.40s keeps no record of what changed", id,
                            row->row.provider);
    return 0;
}

static int from_snap(cay_client *client, const cay_snap_row *s, cay__point *out, cay_err *err)
{
    CAY_TRY(cay__snap_trees(client, s, err));
    CAY_COPY(out->root, CAY_TEXT_IF(*s->template_ == '/', s->template_));
    CAY_COPY(out->base, *s->template_ == '/' ? "host" : s->template_);
    CAY_TRY(cay__snap_on(s, out->on, sizeof out->on, &out->created_ms, err));
    CAY_JOIN(out->on_top, CAY__LAYERS_DIR "/o", s->id + 1, "/upper");
    return cay__stack_read(s->layers, &out->stack, err);
}

int cay__point_find(cay_client *client, const cay_call *call, const char *ref, cay__point *out,
                    cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *snap = NULL;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    cay_err no_box = CAY_ERR_INIT, no_snap = CAY_ERR_INIT;
    *out = (cay__point){ 0 };
    int is_box = cay_client_find(client, call, ref, &sb, &no_box),
        is_snap = cay__snap_find(client, ref, &snap, &no_snap);
    if (is_box == 0 && is_snap == 0 && strcmp(ref, sb->id) != 0 && strcmp(ref, snap->row.id) != 0)
        return cay_fail_why(err, CAY_EINVAL, "point_ambiguous",
                            "%.40s is sandbox %s and snapshot %s; give the id of the one you mean",
                            ref, sb->id, snap->row.id);
    if (is_box == 0 && (is_snap < 0 || !strcmp(ref, sb->id)))
        return from_box(client, sb->id, out, err);
    if (is_snap == 0)
        return from_snap(client, &snap->row, out, err);
    if (is_box == CAY_ENOENT && is_snap == CAY_ENOENT)
        return cay_fail_why(
            err, CAY_ENOENT, "sandbox_not_found",
            "no sandbox and no snapshot is %.60s; `cay ls` and `cay snapshots` show them", ref);
    if (is_box == CAY_ENOENT)
        return cay__err_pass(is_snap, &no_snap, err);
    return cay__err_pass(is_box, &no_box, err);
}

static int copy_text(const char *value, void *arg)
{
    *(char **)arg = cay__strdup(value);
    return 0;
}

void cay__start_note(cay_client *client, const char *id, const cay_box_spec *b)
{
    cay__stack s;
    if (!b->nlayers || cay__stack_of(b->layers, b->nlayers, &s, NULL) < 0)
        return;
    CAY_AUTOFREE char *text = cay__stack_text(&s);
    client->store->note_put(client->db, CAY__NOTE_START, id, text, NULL);
}

void cay__start_forget(cay_client *client, const char *id)
{
    client->store->note_put(client->db, CAY__NOTE_START, id, NULL, NULL);
}

/* What it stood on when it was made. Merging may have taken that away, since nobody stands on it
 * any more. */
static int start_of(cay_client *client, const cay__point *now, cay__point *out, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    *out = (cay__point){ 0 };
    CAY_COPY(out->root, now->root);
    CAY_COPY(out->base, now->base);
    int rc = client->store->note_get(client->db, CAY__NOTE_START, now->id, copy_text, &text, err);
    if (rc == CAY_ENOENT)
        return 0;
    CAY_TRY(rc);
    CAY_TRY(cay__stack_read(text, &out->stack, err));
    CAY_EACH_OF(it, out->stack.name, out->stack.n)
        if (!cay__layer_there(client, *it))
            return cay_fail_why(
                err, CAY_EGONE, "start_gone",
                "what sandbox %s started from was merged since; name a snapshot to compare with",
                now->id);
    return 0;
}

typedef struct feed {
    int (*fn)(const cay_file_change *, void *);
    void *arg;
    int *lock;           /* given back once both sides are open */
    cay_file_change now; /* waits for its text */
    bool waits;
    cay__buf path, from, text, digest;
} feed;

static int flush_change(feed *f)
{
    if (!f->waits)
        return 0;
    f->waits = false;
    f->now.path = f->path.data;
    f->now.from = f->from.data;
    f->now.old_digest = f->digest.data;
    f->now.text = CAY_IF(f->text.len, f->text.data);
    f->now.text_len = f->text.len;
    return f->fn(&f->now, f->arg);
}

static void set_buffer(cay__buf *b, const char *s)
{
    b->len = 0;
    cay__buf_str(b, s);
    cay__buf_add(b, "", 0);
}

static int on_record(cay__rec *r, void *arg, cay_err *err)
{
    feed *f = arg;
    size_t n;
    if (r->type == CAY__REC_READY) {
        if (f->lock)
            cay__close_fd(f->lock);
        return 0;
    }
    if (r->type == CAY__REC_TEXT && f->waits) {
        const char *p = cay__rec_get_bytes(r, &n);
        cay__buf_add(&f->text, p, n);
        return 0;
    }
    CAY_TRY(flush_change(f));
    f->now = (cay_file_change){ .size = sizeof f->now, .kind = (char)cay__rec_get_num(r) };
    set_buffer(&f->path, cay__rec_get_str(r));
    set_buffer(&f->from, cay__rec_get_str(r));
    f->now.old_mode = (uint32_t)cay__rec_get_num(r);
    f->now.new_mode = (uint32_t)cay__rec_get_num(r);
    f->now.old_size = cay__rec_get_num(r);
    f->now.new_size = cay__rec_get_num(r);
    uint64_t what = cay__rec_get_num(r);
    f->now.content = what & 1;
    f->now.mode = what & 2;
    f->now.owner = what & 4;
    set_buffer(&f->digest, cay__rec_get_str(r));
    f->text.len = 0;
    if (r->type != CAY__REC_CHANGE || r->bad || !strchr("AMDTR", f->now.kind))
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                            "cay-layer diff: a record has a wrong form");
    f->waits = true;
    return 0;
}

int cay__diff_ask(cay_client *client, const cay_call *call, const char *const *w, size_t n, int dir,
                  int *lock, int (*fn)(const cay_file_change *, void *), void *arg,
                  uint64_t *left_out, cay_err *err)
{
    cay__layer_done done = { 0 };
    feed f = { .fn = fn,
               .arg = arg,
               .lock = lock,
               .path = CAY__BUF(CAY__REC_MAX),
               .from = CAY__BUF(CAY__REC_MAX),
               .text = CAY__BUF(TEXT_MAX_),
               .digest = CAY__BUF(128) };
    cay__layer_ask ask = { .verb = "diff",
                           .args = w,
                           .nargs = n,
                           .fds = &dir,
                           .nfds = dir >= 0,
                           .fn = on_record,
                           .arg = &f };
    int rc = cay__layer_run(&client->layers, call, &ask, &done, err);
    if (rc == 0) {
        cay__rec_get_num(&done.rec);
        uint64_t left = cay__rec_get_num(&done.rec);
        if (left_out)
            *left_out += left;
        rc = flush_change(&f);
    }
    cay__layer_done_clear(&done);
    cay__buf_clear(&f.path);
    cay__buf_clear(&f.from);
    cay__buf_clear(&f.text);
    cay__buf_clear(&f.digest);
    return rc;
}

static void add_manner(cay__layer_words *w, const cay_diff *d)
{
    char n[21];
    if (d->every || d->digest)
        cay__layer_word(w, "every", "");
    if (d->digest) {
        cay__layer_word(w, "digest", "");
        cay__layer_word(w, "no-renames", "");
    }
    if (!d->patch)
        return;
    cay__layer_word(w, "context=", cay__str_u64(n, CAY_OR(d->context, 3)));
    cay__layer_word(w, "patch", "");
}

typedef struct asked {
    cay_client *client;
    const cay_call *call;
    const cay_diff *diff;
    cay__point a, b;
    int (*fn)(const cay_file_change *, void *);
    void *arg;
    uint64_t *left_out;
} asked;

static bool is_mount(const cay__point *p, const char *path, bool all)
{
    char whole[PATH_MAX];
    path += *path == '/';
    if (!CAY_JOIN(whole, all ? "/" : "/workspace/", path))
        return false;
    size_t n = strlen(whole);
    if (whole[n - 1] == '/')
        whole[n - 1] = 0;
    for (const char *m = p->mounts; *m; m += strlen(m) + 1)
        if (!strcmp(m, whole))
            return true;
    return false;
}

/* The directory that a mount stands on was made for it: nobody can have written there. */
static int on_file_change(const cay_file_change *c, void *arg)
{
    const asked *q = arg;
    if ((c->kind == 'A' && S_ISDIR(c->new_mode) && is_mount(&q->b, c->path, q->diff->all)) ||
        (c->kind == 'D' && S_ISDIR(c->old_mode) && is_mount(&q->a, c->path, q->diff->all)))
        return 0;
    return q->fn(c, q->arg);
}

static int diff_roots(asked *q, int *lock, cay_err *err)
{
    CAY__AUTOWORDS w = { 0 };
    char template_[CAY_LAYER_NAME] = "";
    bool on = *q->a.on || *q->b.on;
    if (!*q->a.root && !*q->b.root)
        CAY_TRY(
            cay__layer_template(q->client->home_fd, q->b.base, template_, sizeof template_, err));
    if (strcmp(q->a.root, q->b.root) != 0 || strcmp(q->a.base, q->b.base) != 0)
        return cay_fail_why(
            err, CAY_EINVAL, "diff_roots",
            "the two stand on different roots (%.60s, %.60s) and cannot be compared",
            cay__text_or(q->a.root, q->a.base), cay__text_or(q->b.root, q->b.base));
    cay__layer_word_stack(&w, "a=", template_, q->a.stack.name, q->a.stack.n);
    cay__layer_word_stack(&w, "b=", template_, q->b.stack.name, q->b.stack.n);
    cay__layer_word_if(&w, "root=", q->a.root);
    cay__layer_word_if(&w, "a-top=", q->a.top);
    cay__layer_word_if(&w, "b-top=", q->b.top);
    if (!q->diff->all)
        cay__layer_word(&w, "under=workspace", "");
    else if (on)
        cay__layer_word(&w, "skip=workspace", "");
    add_manner(&w, q->diff);
    return cay__diff_ask(q->client, q->call, w.v, w.n, -1, lock, on_file_change, q, q->left_out,
                         err);
}

int cay__on_open(const char *dir, const char *id, int *fd, cay_err *err)
{
    return cay_wrap(err, cay__on_dir(dir, O_RDONLY | O_DIRECTORY, fd, err),
                    "the directory that %s stands on", cay__text_or(id, "it"));
}

int cay__on_ask(cay_client *client, const cay_call *call, const char *verb, const char *id,
                const char *snapshot, cay_err *err)
{
    char layer[CAY_ID_LEN + 1];
    if (!cay__id_valid(snapshot, 's') || !CAY_JOIN(layer, "o", snapshot + 1))
        return cay_fail_why(err, CAY_EINVAL, "snapshot_not_found", "\"%.40s\" is no snapshot",
                            snapshot);
    const char *args[] = { verb, id, layer };
    cay__layer_ask ask = { .verb = "on", .args = args, .nargs = CAY_LEN(args) };
    return cay__layer_run(&client->layers, call, &ask, NULL, err);
}

/* What is written above a directory of the host: by one sandbox, or by two on the same directory.
 */
static int diff_on(asked *q, cay_err *err)
{
    CAY__AUTOWORDS w = { 0 };
    CAY_AUTOFD dir = -1;
    const cay__point *p = &q->a;
    if (*q->b.on)
        p = &q->b;
    if (*q->a.on && *q->b.on && strcmp(q->a.on, q->b.on) != 0)
        return cay_fail_why(err, CAY_EINVAL, "diff_roots",
                            "the two were made on different directories (%.90s, %.90s)", q->a.on,
                            q->b.on);
    CAY_TRY(cay__on_open(p->on, p->id, &dir, err));
    cay__layer_word(&w, "on", "");
    if (*q->a.on)
        cay__layer_word(&w, "a-top=", q->a.on_top);
    if (*q->b.on)
        cay__layer_word(&w, "b-top=", q->b.on_top);
    if (q->diff->all)
        cay__layer_word(&w, "prefix=workspace/", "");
    add_manner(&w, q->diff);
    return cay__diff_ask(q->client, q->call, w.v, w.n, dir, NULL, on_file_change, q, q->left_out,
                         err);
}

int cay_client_diff(cay_client *client, const cay_call *call, const cay_diff *given,
                    int (*fn)(const cay_file_change *, void *), void *arg, uint64_t *left_out,
                    cay_err *err)
{
    CAY__OP(call, "sandbox.diff", NULL, err);
    if (client->remote) {
        if (left_out)
            *left_out = 0;
        return cay__remote_diff(client, call, given, fn, arg, err);
    }
    cay_diff d;
    CAY_AUTOFD lock = -1;
    CAY_TRY(cay__spec_take(&d, sizeof d, given, "cay_diff", err));
    asked q = {
        .client = client, .call = call, .diff = &d, .fn = fn, .arg = arg, .left_out = left_out
    };
    if (left_out)
        *left_out = 0;
    CAY_TRY(cay__point_find(client, call, d.a, &q.a, err));
    if (d.b)
        CAY_TRY(cay__point_find(client, call, d.b, &q.b, err));
    else if (!*q.a.id)
        return cay_fail_why(err, CAY_EINVAL, "diff_one_point",
                            "%.60s is a snapshot; name a second point to compare it with", d.a);
    else
        q.b = q.a;
    /* Nobody turns what it writes into a layer between our look at the record and at the
     * directories. */
    cay__point *box = &q.a;
    if (*q.b.id)
        box = &q.b;
    if (*box->id) {
        char id[CAY_ID_LEN + 1];
        CAY_COPY(id, box->id);
        CAY_TRY(cay__box_lock(client, call, id, true, &lock, err));
        *box = (cay__point){ 0 };
        CAY_TRY(from_box(client, id, box, err));
    }
    if (!d.b)
        CAY_TRY(start_of(client, &q.b, &q.a, err));
    bool on = *q.a.on || *q.b.on;
    if (!on || d.all)
        CAY_TRY(diff_roots(&q, &lock, err));
    if (on)
        return diff_on(&q, err);
    return 0;
}
