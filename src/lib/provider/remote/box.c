/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes on another cay server: made, found by label, ended. */
#include "remote.h"
#include <cay/policy.h>

enum { WAIT_MS = 30000, SERVICE_STEP_MS = 2000 };

/* The server whose names are not ours. */
static int open_server(const cay_provider_conf *conf, void **self, cay_err *err)
{
    CAY_AUTOFREE cay__remote *r = cay__alloc(sizeof *r);
    CAY_TRY(cay__remote_connect(NULL, NULL, &r->client, err));
    CAY_COPY(r->instance, CAY_OR(conf->instance, ""));
    *self = CAY_STEAL(r);
    return 0;
}

static void close_server(void *self)
{
    cay__remote_close(self);
}

cay__remote_box *cay__remote_box_new(cay__remote *r, const char *id, const char *there,
                                     const char *home)
{
    cay__remote_box *b = cay__alloc(sizeof *b);
    b->remote = r;
    CAY_COPY(b->id, id);
    CAY_COPY(b->there, there);
    if (home)
        b->home = cay__strdup(home);
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

static void seen_free(cay__remote_seen *s)
{
    json_decref(s->json);
    cay__arena_clear(&s->mem);
    free(s);
}

void cay__remote_release(void *box)
{
    cay__remote_box *b = box;
    for (cay__remote_seen *s = b->seen, *before; s; s = before) {
        before = s->before;
        seen_free(s);
    }
    pthread_mutex_destroy(&b->lock);
    free(b->home);
    free(b);
}

const char *cay__remote_id(const char *id, char kind)
{
    if (cay__id_valid(id, kind))
        return id;
    return "";
}

int cay__remote_no_id(const cay__remote *r, const char *of, cay_err *err)
{
    return cay_fail_why(err, CAY_EUPSTREAM, "net_answer", "%.120s tells no id of the %s",
                        cay__remote_url(r), of);
}

static int box_of(cay__remote *r, const char *id, const cay_info *i, void **box, cay_err *err)
{
    if (!cay__id_valid(i->id, 'c'))
        return cay__remote_no_id(r, "sandbox", err);
    *box = cay__remote_box_new(r, id, i->id, NULL);
    return 0;
}

static int fail_gone(const cay__remote *r, const char *id, cay_err *err)
{
    return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %s is no more on %.120s", id,
                        cay__remote_url(r));
}

typedef struct attaching {
    cay__remote *remote;
    const char *id;
    void **box;
    cay_err *err;
} attaching;

static int attach_first(const cay_info *i, void *arg)
{
    const attaching *a = arg;
    CAY_TRY(box_of(a->remote, a->id, i, a->box, a->err));
    return 1;
}

static int remote_attach(void *self, const cay_call *call, const char *id, const cay_json *state,
                         void **box, cay_err *err)
{
    cay__remote *r = self;
    const char *there = "";
    if (state)
        there = cay__json_str(state, "remote", "");
    if (!cay__id_valid(there, 'c')) {
        cay_pair labels[] = { { CAY__REMOTE_ID, id }, { NULL, NULL } };
        cay__list_query q = { .f = { .labels = labels } };
        attaching a = { r, id, box, err };
        int rc = CAY__REMOTE_EACH(cay_info, r, call, CAY__REQUEST(sandbox_list, .query = &q),
                                  attach_first, &a, err);
        if (rc == 0)
            return fail_gone(r, id, err);
        return CAY_MIN(rc, 0);
    }
    CAY__AUTOARENA mem = { 0 };
    cay_info i = { .size = sizeof i };
    int rc = cay__remote_get(r, call, &CAY__REQUEST(sandbox_get, .path = { there }), &mem, &i, err);
    if (rc == CAY_ENOENT || rc == CAY_EGONE)
        return fail_gone(r, id, err);
    CAY_TRY(rc);
    return box_of(r, id, &i, box, err);
}

static int remote_state(void *box, cay_json **out, cay_err *err)
{
    cay__remote_box *b = box;
    *out = json_pack("{s:s,s:s}", "remote", b->there, "server", cay__remote_url(b->remote));
    return 0;
}

static int fail_unsupported(const char *what, cay_err *err)
{
    return cay_fail_why(
        err, CAY_ENOTSUP, "not_supported",
        "%s: it is of this host, and the sandbox runs on a server; copy files with cay cp", what);
}

int cay__remote_create_body(const cay_create *c, bool whole, cay__create_body *out, char **net,
                            cay_err *err)
{
    const struct {
        const char *name, *text;
    } objects[] = { { "metadata", c->metadata }, { "services", c->services } };
    if (c->files.ngrants)
        return fail_unsupported("mount", err);
    if (c->from.root)
        return fail_unsupported("root", err);
    if (c->from.directory)
        return fail_unsupported("on", err);
    *out = (cay__create_body){ .c = *c };
    cay_create *b = &out->c;
    CAY_EACH(it, objects) {
        CAY_AUTOJSON *o = NULL;
        if (it->text && *it->text)
            CAY_TRY(cay__json_object(it->name, it->text, &o, err));
    }
    if (c->net.policy)
        CAY_TRY(cay_policy_to_json(c->net.policy, net, err));
    out->net = *net;
    if (c->isolation.min_level > 0)
        out->isolation = cay_level_name((cay_level)c->isolation.min_level);
    b->provider = b->tenant = NULL;
    if (whole)
        return 0;
    b->from.snapshot = b->manifest.text = NULL;
    b->life.checkpoints = 0;
    b->files.nvolumes = b->net.nsecrets = 0;
    return 0;
}

static const cay_pair *mark_labels(cay__arena *mem, const cay_pair *p, const char *id,
                                   const char *instance)
{
    size_t n = 0;
    while (p && p[n].key)
        n++;
    cay_pair *all = cay__arena_take(mem, (n + 3) * sizeof *all);
    if (n)
        memcpy(all, p, n * sizeof *all);
    all[n] = (cay_pair){ CAY__REMOTE_ID, id };
    all[n + 1] = (cay_pair){ CAY__REMOTE_INSTANCE, instance };
    return all;
}

static int remote_create(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                         void **box, cay_err *err)
{
    cay__remote *r = self;
    CAY__AUTOARENA mem = { 0 };
    CAY_AUTOFREE char *net = NULL;
    cay__create_body body;
    cay_info made = { .size = sizeof made };
    if (remote_attach(self, call, id, NULL, box, NULL) == 0) /* an answer was lost */
        return 0;
    CAY_TRY(cay__remote_create_body(spec->create, false, &body, &net, err));
    body.c.labels = mark_labels(&mem, spec->create->labels, id, r->instance);
    CAY_TRY(cay__remote_get(r, call, &CAY__REQUEST(sandbox_create, .body = &body, .key = id), &mem,
                            &made, err));
    return box_of(r, id, &made, box, err);
}

static int remote_destroy(void *box, const cay_call *call, cay_err *err)
{
    cay__remote_box *b = box;
    cay_err why = CAY_ERR_INIT;
    int rc = cay__box_do(b, call, CAY__REQUEST(sandbox_delete), &why);
    if (rc < 0 && rc != CAY_ENOENT && rc != CAY_EGONE)
        return cay__err_pass(rc, &why, err);
    cay__remote_release(b);
    return 0;
}

static int remove_files(void *self, const cay_call *call, const char *id, cay_err *err)
{
    void *box;
    cay_err why = CAY_ERR_INIT;
    int rc = remote_attach(self, call, id, NULL, &box, &why);
    if (rc == CAY_EGONE)
        return 0;
    if (rc < 0)
        return cay__err_pass(rc, &why, err);
    rc = remote_destroy(box, call, err);
    if (rc < 0)
        cay__remote_release(box);
    return rc;
}

static const char *find_label(const cay_info *i, const char *name)
{
    for (const cay_pair *p = i->labels; p->key; p++)
        if (!strcmp(p->key, name))
            return p->value;
    return "";
}

typedef struct lister {
    cay__on_id *fn;
    void *arg;
} lister;

static int on_listed_sandbox(const cay_info *i, void *arg)
{
    lister *l = arg;
    const char *id = find_label(i, CAY__REMOTE_ID);
    if (cay__id_valid(id, 'c'))
        return l->fn(id, l->arg);
    return 0;
}

static int remote_list(void *self, const cay_call *call, cay__on_id *fn, void *arg, cay_err *err)
{
    cay__remote *r = self;
    cay_pair labels[] = { { CAY__REMOTE_INSTANCE, r->instance }, { NULL, NULL } };
    cay__list_query q = { .f = { .labels = labels } };
    lister l = { fn, arg };
    return CAY__REMOTE_EACH(cay_info, r, call, CAY__REQUEST(sandbox_list, .query = &q),
                            on_listed_sandbox, &l, err);
}

typedef struct sweep {
    cay__on_id *known;
    void *arg;
    cay__buf ids; /* each with its NUL */
} sweep;

static int note_unknown(const char *id, void *arg)
{
    sweep *s = arg;
    if (!s->known(id, s->arg))
        cay__buf_cstr(&s->ids, id);
    return 0;
}

static int remote_gc(void *self, const cay_call *call, cay__on_id *known, void *arg,
                     size_t *removed, cay_err *err)
{
    sweep s = { .known = known, .arg = arg, .ids = CAY__BUF(4u << 20) };
    int rc = 0;
    if (((cay__remote *)self)->client)
        rc = remote_list(self, call, note_unknown, &s, err);
    *removed = 0;
    for (size_t at = 0; rc == 0 && at < s.ids.len; at += CAY_ID_LEN + 1) {
        rc = remove_files(self, call, s.ids.data + at, err);
        *removed += rc == 0;
    }
    cay__buf_clear(&s.ids);
    return rc;
}

/* Takes over what was answered. The answer before lives on with the handle: somebody may look at
 * its strings. */
static int remote_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err)
{
    cay__remote_box *b = box;
    json_t *o = NULL;
    int rc = cay__remote_json(b->remote, call, &CAY__REQUEST(sandbox_get, .path = { b->there }), &o,
                              err);
    if (rc == CAY_ENOENT)
        return fail_gone(b->remote, b->id, err);
    CAY_TRY(rc);
    cay__remote_seen *s = cay__alloc(sizeof *s);
    s->json = o;
    cay__shape_read(&s->mem, o, &cay__sandbox_shape, CAY__F_OUT, &s->info, NULL);
    pthread_mutex_lock(&b->lock);
    if (b->seen && json_equal(b->seen->json, o)) { /* mostly nothing changed */
        seen_free(s);
        s = b->seen;
    } else {
        s->before = b->seen;
        b->seen = s;
    }
    pthread_mutex_unlock(&b->lock);
    cay_box_status st = { .size = sizeof st,
                          .state = s->info.state,
                          .reason = s->info.reason,
                          .level = s->info.level,
                          .walls = s->info.walls,
                          .nwalls = s->info.nwalls,
                          .deadline_ms = s->info.deadline_ms,
                          .idle_ms = s->info.idle_ms,
                          .path = "" };
    cay__answer_give(out, &st, sizeof st);
    return 0;
}

static int remote_pause(void *box, const cay_call *call, cay_err *err)
{
    return cay__box_do(box, call, CAY__REQUEST(sandbox_pause), err);
}

static int remote_resume(void *box, const cay_call *call, cay_err *err)
{
    return cay__box_do(box, call, CAY__REQUEST(sandbox_resume), err);
}

static int remote_stop(void *box, const cay_call *call, cay_err *err)
{
    return cay__box_do(box, call, CAY__REQUEST(sandbox_kill), err);
}

static int remote_start(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                        void **box, cay_err *err)
{
    void *mine = NULL;
    CAY_TRY(remote_attach(self, call, id, NULL, &mine, err));
    int rc = remote_resume(mine, call, err);
    if (rc < 0)
        cay__remote_release(mine);
    else
        *box = mine;
    return rc;
}

static int remote_extend(void *box, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms,
                         cay_err *err)
{
    cay__extend_body body = { ttl_ms, idle_ms };
    return cay__box_do(box, call, CAY__REQUEST(sandbox_extend, .body = &body), err);
}

static int remote_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err)
{
    cay_usage u = { .size = sizeof u };
    CAY_TRY(cay__box_get(box, call, CAY__REQUEST(sandbox_usage), NULL, &u, err));
    cay__answer_give(out, &u, sizeof u);
    return 0;
}

cay__wait_query cay__remote_patience(const cay_call *call)
{
    int left = cay__call_left(call);
    if (left < 0)
        left = WAIT_MS;
    return (cay__wait_query){ .timeout_ms = (uint64_t)CAY_MIN(left + 1, WAIT_MS) };
}

static int remote_wait(void *box, const cay_call *call, cay_state *state, cay_err *err)
{
    for (;;) {
        CAY__AUTOARENA mem = { 0 };
        cay__waited w = { .state = "" };
        cay__wait_query q = cay__remote_patience(call);
        CAY_TRY(cay__call_check(call, "wait", err));
        int rc = cay__box_get(box, call, CAY__REQUEST(sandbox_wait, .query = &q), &mem, &w, err);
        if (rc < 0 && rc != CAY_ENOENT && rc != CAY_EGONE)
            return rc;
        *state = CAY_GONE;
        if (rc == 0)
            *state = cay_state_parse(w.state);
        if (*state == CAY_STOPPED || *state == CAY_GONE)
            return 0;
    }
}

int cay__remote_probe(cay__remote *r, cay_probe **out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay__doctor_told d = { 0 };
    CAY_TRY(cay__remote_get(r, NULL, &CAY__REQUEST(doctor), &mem, &d, err));
    *out = cay__probe_new((cay_level)d.level, d.mode, d.layers, d.nlayers);
    return 0;
}

static int probe_server(void *self, cay_probe **out, cay_err *err)
{
    return cay__remote_probe(self, out, err);
}

static int remote_ports(void *box, const cay_call *call, cay_port_fn *fn, void *arg, cay_err *err)
{
    return CAY__BOX_EACH(cay_port, box, call, CAY__REQUEST(port_list), fn, arg, err);
}

static int remote_endpoints(void *box, const cay_call *call, cay_endpoint_fn *fn, void *arg,
                            cay_err *err)
{
    return CAY__BOX_EACH(cay_endpoint, box, call, CAY__REQUEST(endpoint_list), fn, arg, err);
}

static int remote_connect(void *box, const cay_call *call, uint16_t port, int *fd, cay_err *err)
{
    cay__remote_box *b = box;
    CAY_AUTOPTR(cay__answer) a = NULL;
    char digits[24];
    CAY_TRY(cay__box_stream(b, call,
                            CAY__REQUEST(port_connect, .path[1] = cay__str_u64(digits, port),
                                         .more = "Connection: Upgrade\r\nUpgrade: cay-tcp\r\n",
                                         .upgrade = true),
                            &a, err));
    if (cay__answer_head(a)->status == 101) {
        *fd = cay__answer_take(CAY_STEAL(a));
        return 0;
    }
    return cay_fail_why(err, CAY_EUPSTREAM, "net_answer", "%.120s does not open a way to port %u",
                        cay__remote_url(b->remote), port);
}

/* What the server calls a sandbox is turned into what we call it. */
typedef struct hearing {
    cay__remote remote;
    bool own; /* its names are ours: of a whole client */
    char id[CAY_ID_LEN + 1],
        there[CAY_ID_LEN + 1]; /* the last one that was looked up, or the only one */
} hearing;

static bool name_of(hearing *h, const char *there)
{
    CAY__AUTOARENA mem = { 0 };
    cay_info i = { .size = sizeof i };
    if (!strcmp(h->there, there))
        return h->id[0];
    CAY_COPY(h->there, there);
    h->id[0] = 0;
    if (cay__remote_get(&h->remote, NULL, &CAY__REQUEST(sandbox_get, .path = { there }), &mem, &i,
                        NULL) < 0)
        return false;
    if (!strcmp(find_label(&i, CAY__REMOTE_INSTANCE), h->remote.instance))
        CAY_COPY(h->id, find_label(&i, CAY__REMOTE_ID));
    return h->id[0];
}

static size_t pack_event(void *arg, const char *name, const json_t *o, unsigned lost, char *packet,
                         size_t cap)
{
    hearing *h = arg;
    cay_event_wire w = { 0 };
    if (cap < sizeof w)
        return 0;
    if (!name) {
        w.time_ms = cay__clock_ms();
        w.code = (int32_t)lost;
        CAY_COPY(w.kind, "lost");
        memcpy(packet, &w, sizeof w);
        return sizeof w;
    }
    const char *sandbox = cay__json_str(o, "sandbox", "");
    if (!h->own && *sandbox) {
        if (!cay__id_valid(sandbox, 'c') || !name_of(h, sandbox))
            return 0;
        sandbox = h->id;
    }
    w.time_ms = cay__json_int(o, "time_ms", 0);
    w.seq = (uint64_t)cay__json_int(o, "seq", 0);
    w.code = (int32_t)cay__json_int(o, "code", 0);
    CAY_COPY(w.sandbox, sandbox);
    CAY_COPY(w.process, cay__json_str(o, "process", ""));
    CAY_COPY(w.kind, cay__json_str(o, "kind", ""));
    CAY_COPY(w.reason, cay__json_str(o, "reason", ""));
    memcpy(packet, &w, sizeof w);
    return sizeof w;
}

int cay__remote_hear(cay__remote *r, const char *id, const char *there, int *fd, cay_err *err)
{
    cay__answer *a;
    cay__request q = CAY__REQUEST(event_stream);
    if (there)
        q = CAY__REQUEST(sandbox_events, .path = { there });
    CAY_TRY(cay__remote_stream(r, NULL, &q, &a, err));
    hearing *h = cay__alloc(sizeof *h);
    *h = (hearing){ .remote = *r, .own = !r->instance[0] };
    if (there && id) {
        CAY_COPY(h->id, id);
        CAY_COPY(h->there, there);
    }
    return cay__remote_packets(a, NULL, NULL, pack_event, h, fd, err); /* a holds the client */
}

static int open_events(void *self, const char *id, int *fd, cay_err *err)
{
    void *box = NULL;
    if (!id)
        return cay__remote_hear(self, NULL, NULL, fd, err);
    CAY_TRY(remote_attach(self, NULL, id, NULL, &box, err));
    int rc = cay__remote_hear(self, id, ((cay__remote_box *)box)->there, fd, err);
    cay__remote_release(box);
    return rc;
}

/* What it may reach is judged and enforced over there. */
static int remote_policy(void *box, const cay_call *call, const char *text, size_t len,
                         uint64_t *revision, cay_err *err)
{
    cay__revised done = { 0 };
    CAY_AUTOFREE char *own = strndup(text, len), *json = NULL;
    if (!own)
        abort();
    CAY_TRY(cay_policy_to_json(own, &json, err));
    CAY_TRY(cay__box_get(box, call, CAY__REQUEST(net_put, .text = json), NULL, &done, err));
    if (revision)
        *revision = done.revision;
    return 0;
}

static int remote_policy_get(void *box, const cay_call *call, char **text, size_t *len,
                             uint64_t *revision, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay__revised now = { 0 };
    CAY_TRY(cay__box_get(box, call, CAY__REQUEST(net_get), &mem, &now, err));
    CAY_TRY(cay_policy_from_json(cay__text_or(now.policy, "{}"), text, err));
    *len = strlen(*text);
    if (revision)
        *revision = now.revision;
    return 0;
}

static int report_services(const cay__services_waited *w, cay_service_info_fn *fn, void *arg)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->n; i++)
        rc = fn(&w->items[i], arg);
    return rc;
}

/* One look; then the server answers when all are ready, one failed, or the step is over. */
static int remote_services(void *box, const cay_call *call, cay_service_info_fn *fn,
                           int (*more)(void *), void *arg, cay_err *err)
{
    int rc = CAY__BOX_EACH(cay_service_info, box, call, CAY__REQUEST(service_list), fn, arg, err);
    while (rc == 0 && more && (rc = more(arg)) > 0) {
        CAY__AUTOARENA mem = { 0 };
        cay__services_waited w = { 0 };
        cay__wait_query q = { .timeout_ms = SERVICE_STEP_MS };
        int left = cay__call_left(call);
        CAY_TRY(cay__call_check(call, "services", err));
        if (left >= 0 && left <= SERVICE_STEP_MS)
            q.timeout_ms = (uint64_t)CAY_MAX(left / 2, 1);
        CAY_TRY(cay__box_get(box, call, CAY__REQUEST(service_wait, .query = &q), &mem, &w, err));
        rc = report_services(&w, fn, arg);
    }
    return rc;
}

static int remote_service_act(void *box, const cay_call *call, const char *name, int op,
                              cay_err *err)
{
    const char *const names[] = { name, NULL };
    cay__service_act body = { .op = op - CAY_SERVICE_START };
    if (name)
        body.names = names;
    return cay__box_do(box, call, CAY__REQUEST(service_act, .body = &body), err);
}

const cay_provider_ops cay__remote_ops = {
    .size = sizeof cay__remote_ops,
    .name = "cay",
    .open = open_server,
    .close = close_server,
    .create = remote_create,
    .attach = remote_attach,
    .release = cay__remote_release,
    .destroy = remote_destroy,
    .spawn = cay__remote_spawn,
    .proc_attach = cay__remote_proc_attach,
    .proc_release = cay__remote_proc_release,
    .proc_id = cay__remote_proc_id,
    .proc_output = cay__remote_proc_output,
    .proc_write = cay__remote_proc_write,
    .proc_close_stdin = cay__remote_proc_close_stdin,
    .proc_signal = cay__remote_proc_signal,
    .proc_wait = cay__remote_proc_wait,
    .proc_exit_fd = cay__remote_proc_exit_fd,
    .status = remote_status,
    .proc_read = cay__remote_proc_read,
    .proc_resize = cay__remote_proc_resize,
    .procs = cay__remote_procs,
    .probe = probe_server,
    .state = remote_state,
    .list = remote_list,
    .start = remote_start,
    .stop = remote_stop,
    .pause = remote_pause,
    .resume = remote_resume,
    .extend = remote_extend,
    .usage = remote_usage,
    .wait = remote_wait,
    .events = open_events,
    .gc = remote_gc,
    .remove_files = remove_files,
    .open_read = cay__remote_open_read,
    .put = cay__remote_put,
    .open_write = cay__remote_open_write,
    .commit_write = cay__remote_commit_write,
    .abort_write = cay__remote_abort_write,
    .stat = cay__remote_file_stat,
    .mkdir = cay__remote_mkdir,
    .remove = cay__remote_remove,
    .rename = cay__remote_rename,
    .chmod = cay__remote_chmod,
    .chown = cay__remote_chown,
    .symlink = cay__remote_symlink,
    .getxattr = cay__remote_getxattr,
    .setxattr = cay__remote_setxattr,
    .listxattr = cay__remote_listxattr,
    .list_dir = cay__remote_list_dir,
    .glob = cay__remote_glob,
    .grep = cay__remote_grep,
    .watch_open = cay__remote_watch_open,
    .watch_next = cay__remote_watch_next,
    .watch_close = cay__remote_watch_close,
    .ports = remote_ports,
    .endpoints = remote_endpoints,
    .connect = remote_connect,
    .services = remote_services,
    .service_act = remote_service_act,
    .policy = remote_policy,
    .policy_get = remote_policy_get,
};
