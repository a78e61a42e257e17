/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a sandbox that is there: read from its record, hidden from a snapshot, and
 * changed. */
#include <lib/client/remote.h>
#include "client_manifest.h"

static int find_key(const cay_row *row, void *arg)
{
    CAY_AUTOJSON *o = NULL;
    const char *key = NULL;
    if (cay__json_object("", row->spec, &o, NULL) == 0)
        key = cay__json_str(o, "manifest", NULL);
    if (key)
        cay__str_copy(arg, CAY_ID_LEN + 1, key);
    return 0;
}

static int load_of(cay_sandbox *sb, bool brief, cay__arena *mem, cay__mani *f, cay_err *err)
{
    cay__id key = "";
    cay_client *client = sb->owner;
    if (!client)
        return cay_fail_why(err, CAY_ENOENT, "manifest_missing", "sandbox %s has no manifest",
                            sb->id);
    CAY_TRY(CAY__STORE(client, get, sb->id, find_key, key, err));
    if (!*key)
        return cay_fail_why(err, CAY_ENOENT, "manifest_missing", "sandbox %s has no manifest",
                            sb->id);
    return cay__kept_get(client, key, brief, mem, f, err);
}

static int read_remote_manifest(cay_sandbox *sb, const cay_call *call, char **json, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__remote_json(cay__remote_of(sb), call,
                             &CAY__REQUEST(manifest_get, .path = { sb->id }), &o, err));
    *json = cay__json_text(o, CAY_MANIFEST_BYTES);
    if (*json)
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "net_answer", "the server told no manifest");
}

int cay_sandbox_manifest(cay_sandbox *sb, const cay_call *call, char **json, cay_err *err)
{
    if (cay__remote_of(sb))
        return read_remote_manifest(sb, call, json, err);
    CAY__AUTOARENA mem = { 0 };
    CAY__AUTOMANI f = { 0 };
    CAY_TRY(cay__call_check(call, "manifest", err));
    CAY_TRY(load_of(sb, false, &mem, &f, err));
    return cay_manifest_to_json(f.m, json, err);
}

int cay__mani_text(cay_client *client, const char *key, char **text, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    CAY__AUTOMANI f = { 0 };
    if (!key || !cay__id_valid(key, 't')) {
        *text = CAY_IF(key, cay__strdup(key));
        return 0;
    }
    CAY_TRY(cay__kept_get(client, key, false, &mem, &f, err));
    return cay_manifest_to_json(f.m, text, err);
}

typedef struct hiding {
    cay_sandbox *sb;
    const cay_call *call;
    const cay_manifest *m;
    cay_err *err;
} hiding;

static int remove_path(const char *path, void *arg)
{
    const hiding *h = arg;
    CAY_AUTOFREE char *whole = NULL;
    const cay__entry *e = cay__entry_find(h->m, path);
    size_t n = strlen(h->m->root) + strlen(path) + 2;
    if (e && cay__is_mount(e))
        return 0;
    whole = cay__alloc(n);
    cay__str_join(whole, n, h->m->root, "/", path, NULL);
    int rc = cay_file_remove(h->sb, h->call, whole, true, h->err);
    if (rc == CAY_ENOENT)
        return 0;
    return rc;
}

int cay__mani_hide(cay_sandbox *sb, const cay_call *call, cay__mani *f, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay_err own = CAY_ERR_INIT;
    int rc = load_of(sb, true, &mem, f, &own);
    if (rc == CAY_ENOENT)
        return 0;
    CAY_TRY(cay__err_pass(rc, &own, err));
    const cay__plan_ask ask = { .base = f->base, .client = sb->owner, .want = cay__plan_ephemeral };
    CAY_TRY(cay__plan_make(&f->plan, f->m, &ask, call, err));
    f->base = NULL; /* of mem */
    f->planned = true;
    if (!f->plan.ephemeral)
        return 0;
    CAY_TRY(cay__plan_fetch(&f->plan, sb->owner, call, err));
    hiding h = { sb, call, f->m, err };
    return cay_manifest_ephemeral(f->m, remove_path, &h);
}

int cay__mani_unhide(cay_sandbox *sb, const cay_call *call, cay__mani *f, cay_err *err)
{
    int rc = 0;
    if (f->planned && f->plan.ephemeral)
        rc = cay__plan_apply(&f->plan, sb, call, true, err);
    cay__mani_clear(f);
    return rc;
}

typedef struct changed {
    const char **paths;
    size_t n;
    cay__arena *mem;
} changed;

static int on_delta(const cay_manifest_delta *d, void *arg)
{
    changed *x = arg;
    if (strcmp(d->what, "entry") || d->why)
        return 0;
    x->paths = cay__more(x->paths, x->n, sizeof *x->paths);
    x->paths[x->n++] = cay__arena_str(x->mem, d->name);
    return 0;
}

static bool is_changed(const cay__plan *p, const cay__entry *e, void *arg)
{
    const changed *x = arg;
    CAY_EACH_OF(it, x->paths, x->n)
        if (!strcmp(*it, e->path))
            return true;
    return false;
}

typedef struct respec {
    cay_client *client;
    const char *key;
    int64_t version;
    char *spec;
} respec;

static int edit_spec(const cay_row *row, void *arg)
{
    respec *r = arg;
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__json_object("record: spec", row->spec, &o, NULL));
    json_object_set_new(o, "manifest", json_string(r->key));
    r->version = row->version;
    r->spec = cay__json_text(o, 4u << 20);
    if (r->spec)
        return 0;
    return CAY_ETOOBIG;
}

static int record_new(cay_sandbox *sb, const cay__mani *f, cay__arena *mem, cay_err *err)
{
    respec r = { .client = sb->owner };
    CAY_TRY(cay__kept_put(r.client, f, NULL, mem, &r.key, err));
    CAY_TRY(CAY__STORE(r.client, get, sb->id, edit_spec, &r, err));
    int rc = CAY__STORE(r.client, respec, sb->id, r.version, r.spec, err);
    free(r.spec);
    return rc;
}

/* Local sources are of this machine: the server refuses them by name. */
static int send_manifest(cay_sandbox *sb, const cay_call *call, const char *text, unsigned flags,
                         cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    bool replace = flags & CAY_MANIFEST_REPLACE;
    CAY_TRY(cay__json_object("manifest", text, &o, err));
    return cay__remote_do(
        cay__remote_of(sb), call,
        &CAY__REQUEST(manifest_put, .path = { sb->id }, .query = &replace, .text = text), err);
}

int cay_sandbox_set_manifest(cay_sandbox *sb, const cay_call *call, const char *text,
                             const char *base, unsigned flags, cay_err *err)
{
    CAY__OP(call, "sandbox.manifest", sb->id, err);
    if (cay__remote_of(sb))
        return send_manifest(sb, call, text, flags, err);
    CAY__AUTOARENA mem = { 0 };
    CAY__AUTOMANI old = { 0 }, new_ = { .base = base };
    changed x = { .mem = &mem };
    cay_err own = CAY_ERR_INIT;
    CAY_TRY(cay__sandbox_ready(sb, err));
    int rc = load_of(sb, false, &mem, &old, &own);
    if (rc == CAY_ENOENT && cay_err_is(&own, CAY_REASON_MANIFEST_MISSING))
        old.m = cay_manifest_new();
    else if (rc < 0)
        return cay__err_pass(rc, &own, err);
    if (!base)
        new_.base = old.base; /* of mem */
    new_.trusted =
        !(flags & CAY_MANIFEST_FOREIGN); /* else it is the caller's word, as with the builders */
    CAY_TRY(cay_manifest_parse(text, strlen(text), CAY_FLAG_IF(new_.trusted, CAY_MANIFEST_TRUSTED),
                               &new_.m, err));
    rc = cay_manifest_change(old.m, new_.m, flags, on_delta, &x, err);
    const cay__plan_ask ask = { .base = base, .client = sb->owner, .want = is_changed, .arg = &x };
    if (rc == 0 && x.n && (rc = cay__plan_make(&new_.plan, new_.m, &ask, call, err)) == 0) {
        new_.planned = true;
        rc = cay__plan_fetch(&new_.plan, sb->owner, call, err);
    }
    if (rc == 0 && x.n)
        rc = cay__plan_apply(&new_.plan, sb, call, false, err);
    free(x.paths);
    if (rc == 0 && sb->owner)
        return record_new(sb, &new_, &mem, err);
    return rc;
}
