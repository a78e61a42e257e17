/* SPDX-License-Identifier: Apache-2.0 */
/* A client that is a server's: which sandboxes and snapshots there are is asked there, and nothing
 * of it is kept here. What is one request is where the public function is; lib/client/remote.h. */
#include "remote.h"
#include <lib/client/net.h>
#include <lib/snapshot/snapshot.h>

#define RUN_IDLE_MS                                                                                \
    (15 * 60000ull) /* of one that is thrown away: whoever made it may be cut off before */

int cay__remote_open(const cay_open *spec, cay__remote **out, cay_err *err)
{
    CAY_AUTOFREE cay__remote *r = cay__alloc(sizeof *r);
    CAY_TRY(cay__remote_connect(spec->host, spec->key, &r->client, err));
    if (!r->client)
        return cay__remote_no_host(err);
    if (spec->provider && *spec->provider)
        r->provider = cay__strdup(spec->provider);
    *out = CAY_STEAL(r);
    return 0;
}

void cay__remote_close(cay__remote *r)
{
    cay__http_client_unref(r->client);
    free(r->provider);
    free(r);
}

const char *cay__remote_url(const cay__remote *r)
{
    return cay__http_client_url(r->client);
}

static int open_handle(cay_client *client, const char *id, cay_state state, cay_sandbox **out,
                       cay_err *err)
{
    if (!cay__id_valid(id, 'c'))
        return cay__remote_no_id(client->remote, "sandbox", err);
    cay__remote_box *box = cay__remote_box_new(client->remote, id, id, client->home);
    *out = cay__handle_new(client, &cay__remote_ops, id, box, state);
    return 0;
}

int cay__remote_create(cay_client *client, const cay_call *call, const cay_create *given,
                       cay_sandbox **out, cay_err *err)
{
    const cay__remote *r = client->remote;
    CAY__AUTOARENA mem = { 0 };
    CAY_AUTOFREE char *net = NULL;
    char key[CAY_ID_LEN + 1];
    cay_create c;
    cay__create_body body;
    cay_info made = { .size = sizeof made };
    CAY_TRY(cay__spec_take(&c, sizeof c, given, "cay_create", err));
    if (c.life.ephemeral && !c.life.idle_ms && !c.life.ttl_ms)
        c.life.idle_ms = RUN_IDLE_MS;
    CAY_TRY(cay__remote_create_body(&c, true, &body, &net, err));
    body.c.provider = CAY_OR(cay__text_or(c.provider, NULL), r->provider);
    cay__id_make(key, 'j'); /* an answer that is lost is no second sandbox */
    CAY_TRY(cay__remote_create_watched(
        r, call, &c, &CAY__REQUEST(sandbox_create, .body = &body, .key = key), &made, &mem, err));
    return open_handle(client, made.id, made.state, out, err);
}

/* What is told of one is shown as it is. */
static void clean_info(cay_info *i)
{
    i->id = cay__remote_id(i->id, 'c');
    if (!i->settings->key)
        i->settings = NULL;
}

int cay__remote_list(cay_client *client, const cay_call *call, const cay_filter *given,
                     cay_info_fn *fn, void *arg, cay_err *err)
{
    const char *states[CAY_DAMAGED + 2] = { NULL };
    size_t n = 0;
    cay__list_query q = { .states = states };
    CAY_TRY(cay__spec_take(&q.f, sizeof q.f, given, "cay_filter", err));
    for (int s = CAY_CREATING; s <= CAY_DAMAGED; s++)
        if (q.f.states & (1u << s))
            states[n++] = cay_state_name((cay_state)s);
    q.f.tenant = NULL; /* whose they are is the key's */
    return CAY__REMOTE_CLEAN(cay_info, clean_info, client->remote, call,
                             CAY__REQUEST(sandbox_list, .query = &q), fn, arg, err);
}

typedef struct search {
    const char *ref;
    size_t n;
    cay_state state; /* of the first */
    char ids[2][CAY_ID_LEN + 1];
} search;

static int match_sandbox(const cay_info *i, void *arg)
{
    search *s = arg;
    if (!cay__str_starts(i->id, s->ref) && strcmp(i->name, s->ref) != 0)
        return 0;
    if (!s->n)
        s->state = i->state;
    if (s->n < 2)
        cay__str_copy(s->ids[s->n], sizeof s->ids[0], i->id);
    s->n++;
    return 0;
}

int cay__remote_find(cay_client *client, const cay_call *call, const char *ref, cay_sandbox **out,
                     cay_err *err)
{
    cay__remote *r = client->remote;
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "no sandbox is named; give an id, its beginning, or a name");
    if (cay__id_valid(ref, 'c')) {
        CAY__AUTOARENA mem = { 0 };
        cay_info i = { .size = sizeof i };
        CAY_TRY(
            cay__remote_get(r, call, &CAY__REQUEST(sandbox_get, .path = { ref }), &mem, &i, err));
        return open_handle(client, i.id, i.state, out, err);
    }
    search s = { .ref = ref };
    cay__list_query q = { 0 };
    CAY_TRY(CAY__REMOTE_EACH(cay_info, r, call, CAY__REQUEST(sandbox_list, .query = &q),
                             match_sandbox, &s, err));
    if (!s.n)
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found",
                            "there is no sandbox %.60s on %.120s; cay ls shows those there are",
                            ref, cay__remote_url(r));
    if (s.n > 1)
        return cay_fail_why(err, CAY_EINVAL, "sandbox_ambiguous",
                            "%.40s fits several sandboxes: %s, %s%s; give more of the id", ref,
                            s.ids[0], s.ids[1], s.n > 2 ? ", …" : "");
    return open_handle(client, s.ids[0], s.state, out, err);
}

int cay__remote_describe(cay_sandbox *sb, const cay_call *call, cay_info **out, cay_err *err)
{
    cay__arena *mem;
    cay_info *i = cay__info_blank(&mem);
    int rc = cay__remote_get(cay__remote_of(sb), call,
                             &CAY__REQUEST(sandbox_get, .path = { sb->id }), mem, i, err);
    if (rc < 0) {
        cay_info_free(i);
        return rc;
    }
    clean_info(i);
    atomic_store(&sb->state, i->state);
    *out = i;
    return 0;
}

int cay__remote_order(cay_sandbox *sb, const cay_call *call, const cay__operation *op, cay_state to,
                      cay_err *err)
{
    CAY_TRY(cay__remote_do(cay__remote_of(sb), call,
                           &(cay__request){ .op = op, .path = { sb->id } }, err));
    atomic_store(&sb->state, to);
    return 0;
}

int cay__remote_events(cay__remote *r, const char *id, int *fd, cay_err *err)
{
    return cay__remote_hear(r, id, id, fd, err);
}

static void clean_snapshot(cay_snapshot *s)
{
    s->id = cay__remote_id(s->id, 's');
    s->sandbox = cay__remote_id(s->sandbox, 'c');
    s->parent = cay__remote_id(s->parent, 's');
    s->tenant = CAY_OR(s->tenant, "");
}

int cay__remote_snapshot(const cay__remote *r, const cay_call *call, const cay__request *q,
                         cay_snapshot **out, cay_err *err)
{
    cay__arena *mem;
    if (!out)
        return cay__remote_do(r, call, q, err);
    cay_snapshot *s = cay__snapshot_blank(&mem);
    int rc = cay__remote_get(r, call, q, mem, s, err);
    if (rc < 0) {
        cay_snapshot_free(s);
        return rc;
    }
    clean_snapshot(s);
    *out = s;
    return 0;
}

int cay__remote_snapshots(const cay__remote *r, const cay_call *call,
                          const cay_snapshot_filter *given, cay_snapshot_fn *fn, void *arg,
                          cay_err *err)
{
    cay_snapshot_filter f;
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_snapshot_filter", err));
    return CAY__REMOTE_CLEAN(cay_snapshot, clean_snapshot, r, call,
                             CAY__REQUEST(snapshot_list, .query = &f), fn, arg, err);
}

/* The server takes whole ids of sandboxes; people write names. id: room for one. */
static const char *whole_id(cay_client *client, const cay_call *call, const char *ref, char *id)
{
    cay_sandbox *sb = NULL;
    if (!ref || cay__id_valid(ref, 'c') || cay__id_valid(ref, 's') ||
        cay__remote_find(client, call, ref, &sb, NULL) < 0)
        return ref;
    cay__str_copy(id, CAY_ID_LEN + 1, cay_sandbox_id(sb));
    cay_sandbox_unref(sb);
    return id;
}

typedef struct forking {
    cay_client *client;
    int (*fn)(cay_sandbox *, void *);
    void *arg;
    cay_err *err;
} forking;

static int on_fork(const cay_info *i, void *arg)
{
    const forking *f = arg;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    CAY_TRY(open_handle(f->client, i->id, i->state, &sb, f->err));
    if (f->fn)
        return f->fn(sb, f->arg);
    return 0;
}

int cay__remote_fork(cay_client *client, const cay_call *call, const char *from,
                     const cay_fork *given, int (*fn)(cay_sandbox *, void *), void *arg,
                     cay_err *err)
{
    cay_fork f;
    char id[CAY_ID_LEN + 1];
    forking w = { client, fn, arg, err };
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_fork", err));
    from = whole_id(client, call, from, id);
    return CAY__REMOTE_EACH(cay_info, client->remote, call,
                            CAY__REQUEST(sandbox_fork, .path = { from }, .body = &f), on_fork, &w,
                            err);
}

static uint32_t mode_of(const cay__change_side *side)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {
        { "file", S_IFREG }, { "directory", S_IFDIR }, { "link", S_IFLNK }, { "other", S_IFIFO }
    };
    CAY_EACH(it, types)
        if (side && !strcmp(it->name, side->type))
            return (side->mode & 07777) | it->type;
    return 0;
}

typedef struct differ {
    cay_file_change_fn *fn;
    void *arg;
} differ;

static int on_change(const cay__file_changed *x, void *arg)
{
    const differ *d = arg;
    cay_file_change c = { .size = sizeof c,
                          .kind = x->kind[0],
                          .path = x->path,
                          .from = x->from,
                          .old_mode = mode_of(x->old),
                          .new_mode = mode_of(x->new),
                          .content = x->content,
                          .mode = x->mode,
                          .owner = x->owner,
                          .old_digest = x->old_digest };
    if (x->old)
        c.old_size = x->old->size;
    if (x->new)
        c.new_size = x->new->size;
    if (x->text_len) {
        c.text = x->text;
        c.text_len = x->text_len;
    }
    return d->fn(&c, d->arg);
}

int cay__remote_diff(cay_client *client, const cay_call *call, const cay_diff *given,
                     cay_file_change_fn *fn, void *arg, cay_err *err)
{
    cay_diff d;
    char a[CAY_ID_LEN + 1], b[CAY_ID_LEN + 1];
    differ w = { fn, arg };
    CAY_TRY(cay__spec_take(&d, sizeof d, given, "cay_diff", err));
    d.a = whole_id(client, call, CAY_OR(d.a, ""), a);
    d.b = whole_id(client, call, d.b, b);
    return CAY__REMOTE_EACH(cay__file_changed, client->remote, call,
                            CAY__REQUEST(diff, .query = &d), on_change, &w, err);
}

int cay__remote_net_log(cay_sandbox *sb, cay_net_record_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOJSON *answer = NULL;
    size_t i;
    json_t *o;
    CAY_TRY(cay__remote_json(cay__remote_of(sb), NULL, &CAY__REQUEST(net_log, .path = { sb->id }),
                             &answer, err));
    json_array_foreach(json_object_get(answer, "items"), i, o) {
        CAY_AUTOFREE char *line = cay__json_text(o, 65536);
        cay_net_record record = cay__net_record_of(o, CAY_OR(line, "{}"));
        int rc = fn(&record, arg);
        if (rc)
            return rc;
    }
    return 0;
}

int cay__remote_removed(const cay__remote *r, const cay_call *call, const cay__operation *op,
                        size_t *n, cay_err *err)
{
    cay__removed done = { 0 };
    CAY_TRY(cay__remote_get(r, call, &(cay__request){ .op = op }, NULL, &done, err));
    if (n)
        *n = done.removed;
    return 0;
}
