/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes on another cay server: made, found by label, ended. */
#include "remote_box.h"
#include "address.h"
#include <base/call.h>
#include <base/fd.h>
#include <stdio.h>

#define WAIT_MS 30000

static int far_open(const cay_provider_conf *conf, void **self, cay_err *err)
{
    cay__where w = { 0 };
    cay_err why = CAY_ERR_INIT;
    int rc = cay__where_find(NULL, &w, &why);
    cay__far *f = cay__alloc(sizeof *f);
    if (rc == 0)
        rc = cay__http_client_open(w.url, w.key, &f->client, &why);
    else if (cay_err_is(&why, CAY_REASON_HOST_MISSING))
        rc = 0; /* said when it is needed: this provider is there although nobody uses it */
    cay__where_clear(&w);
    if (rc < 0 && err)
        *err = why;
    if (rc < 0) {
        free(f);
        return rc;
    }
    cay__str_copy(f->instance, sizeof f->instance, CAY_OR(conf->instance, ""));
    *self = f;
    return 0;
}

static void far_close(void *self)
{
    cay__far *f = self;
    cay__http_client_unref(f->client);
    free(f);
}

int cay__far_box_new(cay__far *f, const char *id, const char *remote, const char *home,
                     cay__far_box **out)
{
    cay__far_box *b = cay__alloc(sizeof *b);
    b->far = f;
    cay__str_copy(b->id, sizeof b->id, id);
    cay__str_copy(b->remote, sizeof b->remote, remote);
    if (home)
        b->home = cay__strdup(home);
    else
        b->home = NULL;
    pthread_mutex_init(&b->lock, NULL);
    *out = b;
    return 0;
}

void cay__far_release(void *box)
{
    cay__far_box *b = box;
    for (struct cay__far_old *o = b->old, *next; o; o = next) {
        next = o->next;
        json_decref(o->seen);
        free(o->layers);
        free(o);
    }
    json_decref(b->seen);
    free(b->layers);
    pthread_mutex_destroy(&b->lock);
    free(b->home);
    free(b);
}

static int box_of(cay__far *f, const char *id, const json_t *o, void **box, cay_err *err)
{
    const char *remote = cay__far_word(o, "id");
    if (!cay__id_valid(remote, 'c'))
        return cay_fail_why(err, CAY_EUPSTREAM, "net_answer", "%.120s tells no id of the sandbox",
                            cay__http_client_url(f->client));
    return cay__far_box_new(f, id, remote, NULL, (cay__far_box **)box);
}

/* Every sandbox of ours, or the one with that id of ours, page by page. */
static int for_each_sandbox(cay__far *f, const cay_call *call, const char *id,
                            int (*fn)(const json_t *o, void *arg), void *arg, cay_err *err)
{
    char label[256], after[CAY__FAR_MARK] = "";
    snprintf(label, sizeof label, "%s=%s", id ? CAY__FAR_ID : CAY__FAR_INSTANCE,
             CAY_OR(id, f->instance));
    for (;;) {
        CAY__FAR_TARGET(target);
        CAY_AUTOJSON *answer = NULL;
        size_t i;
        json_t *o;
        cay__buf_str(&target, CAY__FAR_API "/sandboxes?limit=1000");
        cay__far_query(&target, "label", label);
        if (*after)
            cay__far_query(&target, "after", after);
        CAY_TRY(cay__far_json(f, call, "GET", &target, NULL, &answer, err));
        json_array_foreach(json_object_get(answer, "items"), i, o)
        {
            int rc = fn(o, arg);
            if (rc)
                return rc;
        }
        if (!cay__str_copy(after, sizeof after, cay__far_word(answer, "next")) || !*after)
            return 0;
    }
}

static int keep_first(const json_t *o, void *arg)
{
    *(json_t **)arg = json_incref((json_t *)o);
    return 1;
}

static int find_sandbox(cay__far *f, const cay_call *call, const char *id, json_t **out,
                        cay_err *err)
{
    json_t *o = NULL;
    int rc = for_each_sandbox(f, call, id, keep_first, &o, err);
    if (rc < 0)
        return rc;
    if (!o)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %s is no more on %.120s", id,
                            cay__http_client_url(f->client));
    *out = o;
    return 0;
}

static int far_attach(void *self, const cay_call *call, const char *id, const cay_json *state,
                      void **box, cay_err *err)
{
    cay__far *f = self;
    CAY_AUTOJSON *o = NULL;
    const char *remote = "";
    if (state)
        remote = cay__far_word(state, "remote");
    if (!cay__id_valid(remote, 'c')) {
        CAY_TRY(find_sandbox(f, call, id, &o, err));
        return box_of(f, id, o, box, err);
    }
    CAY__FAR_TARGET(target);
    cay__buf_fmt(&target, CAY__FAR_API "/sandboxes/%s", remote);
    int rc = cay__far_json(f, call, "GET", &target, NULL, &o, err);
    if (rc == CAY_ENOENT || rc == CAY_EGONE)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %s is no more on %.120s", id,
                            cay__http_client_url(f->client));
    CAY_TRY(rc);
    return box_of(f, id, o, box, err);
}

static int far_state(void *box, cay_json **out, cay_err *err)
{
    cay__far_box *b = box;
    (void)err;
    *out =
        json_pack("{s:s,s:s}", "remote", b->remote, "server", cay__http_client_url(b->far->client));
    return 0;
}

static int far_create(void *self, const cay_call *call, const char *id, const cay_create *spec,
                      void **box, cay_err *err)
{
    cay__far *f = self;
    CAY_AUTOJSON *answer = NULL;
    json_t *body = NULL, *labels;
    char fields[64];
    CAY__FAR_TARGET(target);
    if (far_attach(self, call, id, NULL, box, NULL) == 0) /* an answer was lost */
        return 0;
    CAY_TRY(cay__far_create_json(spec, false, &body, err));
    if (!(labels = json_object_get(body, "labels")))
        json_object_set_new(body, "labels", labels = json_object());
    json_object_set_new(labels, CAY__FAR_ID, json_string(id));
    json_object_set_new(labels, CAY__FAR_INSTANCE, json_string(f->instance));
    cay__buf_str(&target, CAY__FAR_API "/sandboxes");
    snprintf(fields, sizeof fields, "Idempotency-Key: %s\r\n", id);
    CAY_TRY(cay__far_json_with(f, call, "POST", &target, fields, body, &answer, err));
    return box_of(f, id, answer, box, err);
}

static int far_destroy(void *box, const cay_call *call, cay_err *err)
{
    cay__far_box *b = box;
    cay_err why = CAY_ERR_INIT;
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, "");
    int rc = cay__far_json(b->far, call, "DELETE", &target, NULL, NULL, &why);
    if (rc < 0 && rc != CAY_ENOENT && rc != CAY_EGONE) {
        if (err)
            *err = why;
        return rc;
    }
    cay__far_release(b);
    return 0;
}

static int far_remove_files(void *self, const cay_call *call, const char *id, cay_err *err)
{
    void *box;
    cay_err why = CAY_ERR_INIT;
    int rc = far_attach(self, call, id, NULL, &box, &why);
    if (rc == CAY_EGONE)
        return 0;
    if (rc < 0) {
        if (err)
            *err = why;
        return rc;
    }
    rc = far_destroy(box, call, err);
    if (rc < 0)
        cay__far_release(box);
    return rc;
}

typedef struct lister {
    int (*fn)(const char *id, void *arg);
    void *arg;
} lister;

static int on_listed_sandbox(const json_t *o, void *arg)
{
    lister *l = arg;
    const char *id = cay__far_word(json_object_get(o, "labels"), CAY__FAR_ID);
    if (cay__id_valid(id, 'c'))
        return l->fn(id, l->arg);
    return 0;
}

static int far_list(void *self, const cay_call *call, int (*fn)(const char *id, void *arg),
                    void *arg, cay_err *err)
{
    return for_each_sandbox(self, call, NULL, on_listed_sandbox, &(lister){ fn, arg }, err);
}

typedef struct sweep {
    int (*known)(const char *id, void *arg);
    void *arg;
    cay__buf ids; /* each with its NUL */
} sweep;

static int note_unknown(const char *id, void *arg)
{
    sweep *s = arg;
    if (!s->known(id, s->arg))
        cay__buf_add(&s->ids, id, strlen(id) + 1);
    return 0;
}

static int far_gc(void *self, const cay_call *call, int (*known)(const char *id, void *arg),
                  void *arg, size_t *removed, cay_err *err)
{
    sweep s = { .known = known, .arg = arg, .ids = CAY__BUF(4u << 20) };
    int rc = 0;
    if (((cay__far *)self)->client)
        rc = far_list(self, call, note_unknown, &s, err);
    *removed = 0;
    for (size_t at = 0; rc == 0 && at < s.ids.len; at += CAY_ID_LEN + 1) {
        rc = far_remove_files(self, call, s.ids.data + at, err);
        *removed += rc == 0;
    }
    cay__buf_clear(&s.ids);
    return rc;
}

/* Takes over what was answered. The answer before lives on with the handle: somebody may look at
 * its strings. */
static void update_status(cay__far_box *b, json_t *o, cay_box_status *out)
{
    size_t n;
    cay_wall *layers = cay__far_layers(json_object_get(o, "layers"), &n);
    pthread_mutex_lock(&b->lock);
    if (b->seen && json_equal(b->seen, o)) { /* mostly nothing changed */
        json_decref(o);
        free(layers);
        o = b->seen;
        layers = b->layers;
    } else if (b->seen) {
        struct cay__far_old *old = cay__alloc(sizeof *old);
        *old = (struct cay__far_old){ b->old, b->seen, b->layers };
        b->old = old;
    }
    b->seen = o;
    b->layers = layers;
    pthread_mutex_unlock(&b->lock);
    cay_box_status s = { .size = sizeof s,
                         .state = cay_state_parse(cay__far_word(o, "state")),
                         .reason = cay__far_word(o, "reason"),
                         .level = (cay_level)cay__json_int(o, "level", 0),
                         .walls = layers,
                         .nwalls = n,
                         .deadline_ms = cay__json_int(o, "deadline_ms", 0),
                         .idle_ms = (uint64_t)cay__json_int(o, "idle_ms", 0),
                         .path = "" };
    cay__answer_give(out, &s, sizeof s);
}

static int far_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err)
{
    cay__far_box *b = box;
    json_t *o = NULL;
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, "");
    int rc = cay__far_json(b->far, call, "GET", &target, NULL, &o, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %s is no more on %.120s",
                            b->id, cay__http_client_url(b->far->client));
    CAY_TRY(rc);
    update_status(b, o, out);
    return 0;
}

static int post_action(cay__far_box *b, const cay_call *call, const char *verb, json_t *body,
                       cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, verb);
    return cay__far_json(b->far, call, "POST", &target, body, NULL, err);
}

static int far_pause(void *box, const cay_call *call, cay_err *err)
{
    return post_action(box, call, "/pause", NULL, err);
}

static int far_resume(void *box, const cay_call *call, cay_err *err)
{
    return post_action(box, call, "/resume", NULL, err);
}

static int far_stop(void *box, const cay_call *call, cay_err *err)
{
    return post_action(box, call, "/kill", NULL, err);
}

static int far_start(void *self, const cay_call *call, const char *id, const cay_create *spec,
                     void **box, cay_err *err)
{
    void *mine = NULL;
    (void)spec; /* the server has it */
    CAY_TRY(far_attach(self, call, id, NULL, &mine, err));
    int rc = far_resume(mine, call, err);
    if (rc < 0)
        cay__far_release(mine);
    else
        *box = mine;
    return rc;
}

static json_t *time_left(uint64_t ms)
{
    if (ms == CAY_UNLIMITED)
        return json_string("unlimited");
    return json_integer((json_int_t)CAY_MIN(ms, (uint64_t)INT64_MAX));
}

static int far_extend(void *box, const cay_call *call, uint64_t ttl_ms, uint64_t idle_ms,
                      cay_err *err)
{
    json_t *body = json_object();
    if (ttl_ms)
        json_object_set_new(body, "ttl_ms", time_left(ttl_ms));
    if (idle_ms)
        json_object_set_new(body, "idle_ms", time_left(idle_ms));
    return post_action(box, call, "/extend", body, err);
}

static int far_usage(void *box, const cay_call *call, cay_usage *out, cay_err *err)
{
    cay__far_box *b = box;
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, "/usage");
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &o, err));
#define N(name) (uint64_t) cay__json_int(o, name, 0)
    cay_usage u = { .size = sizeof u,
                    .cpu_us = N("cpu_us"),
                    .memory = N("memory"),
                    .memory_peak = N("memory_peak"),
                    .pids = N("pids"),
                    .disk = N("disk"),
                    .inodes = N("inodes"),
                    .oom_kills = N("oom_kills"),
                    .pids_hits = N("pids_hits"),
                    .net_rx = N("net_rx"),
                    .net_tx = N("net_tx") };
#undef N
    cay__answer_give(out, &u, sizeof u);
    return 0;
}

static int far_wait(void *box, const cay_call *call, cay_state *state, cay_err *err)
{
    cay__far_box *b = box;
    for (;;) {
        CAY_AUTOJSON *o = NULL;
        CAY__FAR_TARGET(target);
        int left = cay__call_left(call);
        CAY_TRY(cay__call_check(call, "wait", err));
        cay__far_at(&target, b, "/wait");
        cay__far_query_u64(&target, "timeout_ms",
                           (uint64_t)(left >= 0 ? CAY_MIN(left + 1, WAIT_MS) : WAIT_MS));
        int rc = cay__far_json(b->far, call, "GET", &target, NULL, &o, err);
        if (rc < 0 && rc != CAY_ENOENT && rc != CAY_EGONE)
            return rc;
        if (rc < 0)
            *state = CAY_GONE;
        else
            *state = cay_state_parse(cay__far_word(o, "state"));
        if (*state == CAY_STOPPED || *state == CAY_GONE)
            return 0;
    }
}

static int far_probe(void *self, cay_probe **out, cay_err *err)
{
    cay__far *f = self;
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    size_t n;
    cay__buf_str(&target, CAY__FAR_API "/doctor");
    CAY_TRY(cay__far_json(f, NULL, "GET", &target, NULL, &o, err));
    cay_wall *layers = cay__far_layers(json_object_get(o, "layers"), &n);
    *out = cay__probe_new((cay_level)cay__json_int(o, "level", 0), cay__far_word(o, "mode"), layers,
                          n);
    free(layers);
    return 0;
}

static int far_ports(void *box, const cay_call *call, int (*fn)(const cay_port *, void *),
                     void *arg, cay_err *err)
{
    cay__far_box *b = box;
    CAY_AUTOJSON *answer = NULL;
    CAY__FAR_TARGET(target);
    size_t i;
    json_t *o;
    cay__far_at(&target, b, "/ports");
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
    json_array_foreach(json_object_get(answer, "items"), i, o)
    {
        cay_port p = { .port = (uint16_t)cay__json_int(o, "port", 0),
                       .pid = (int)cay__json_int(o, "pid", 0) };
        cay__str_copy(p.address, sizeof p.address, cay__far_word(o, "address"));
        int rc = fn(&p, arg);
        if (rc)
            return rc;
    }
    return 0;
}

static int far_endpoints(void *box, const cay_call *call, int (*fn)(const cay_endpoint *, void *),
                         void *arg, cay_err *err)
{
    cay__far_box *b = box;
    CAY_AUTOJSON *answer = NULL;
    CAY__FAR_TARGET(target);
    size_t i;
    json_t *o;
    int rc = 0;
    cay__far_at(&target, b, "/endpoints");
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
    json_array_foreach(json_object_get(answer, "items"), i, o)
    {
        cay_endpoint e = { .size = sizeof e,
                           .port = (uint16_t)cay__json_int(o, "port", 0),
                           .host_port = (uint16_t)cay__json_int(o, "host_port", 0),
                           .tls = cay__json_bool(o, "tls", false) };
        cay__str_copy(e.host, sizeof e.host, cay__far_word(o, "host"));
        if ((rc = fn(&e, arg)) != 0)
            break;
    }
    return rc;
}

static int far_connect(void *box, const cay_call *call, uint16_t port, int *fd, cay_err *err)
{
    cay__far_box *b = box;
    cay__answer *a;
    char rest[40];
    CAY__FAR_TARGET(target);
    snprintf(rest, sizeof rest, "/ports/%u/connect", port);
    cay__far_at(&target, b, rest);
    cay__ask ask = { .method = "GET",
                     .target = target.data,
                     .fields = "Connection: Upgrade\r\nUpgrade: cay-tcp\r\n",
                     .upgrade = true };
    CAY_TRY(cay__far_ask(b->far, call, &ask, &a, err));
    if (cay__answer_head(a)->status != 101) {
        cay__answer_end(a);
        return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                            "%.120s does not open a way to port %u",
                            cay__http_client_url(b->far->client), port);
    }
    *fd = cay__answer_take(a);
    return 0;
}

/* What the server calls a sandbox is turned into what we call it. */
typedef struct hearing {
    cay__http_client *client;
    cay__far far;
    bool own; /* its names are ours: of a whole service */
    char id[CAY_ID_LEN + 1],
        remote[CAY_ID_LEN + 1]; /* the last one that was looked up, or the only one */
} hearing;

static bool name_of(hearing *h, const char *remote)
{
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    if (!strcmp(h->remote, remote))
        return h->id[0];
    cay__str_copy(h->remote, sizeof h->remote, remote);
    h->id[0] = 0;
    cay__buf_fmt(&target, CAY__FAR_API "/sandboxes/%s", remote);
    if (cay__far_json(&h->far, NULL, "GET", &target, NULL, &o, NULL) < 0)
        return false;
    const json_t *labels = json_object_get(o, "labels");
    if (!strcmp(cay__far_word(labels, CAY__FAR_INSTANCE), h->far.instance))
        cay__str_copy(h->id, sizeof h->id, cay__far_word(labels, CAY__FAR_ID));
    return h->id[0];
}

static size_t pack_event(void *arg, const char *name, const json_t *o, unsigned lost, char *packet,
                         size_t cap)
{
    hearing *h = arg;
    CAY_AUTOJSON *own = NULL;
    if (!name)
        own = json_pack("{s:I,s:s,s:i}", "time_ms", (json_int_t)cay__clock_ms(), "kind", "lost",
                        "code", (int)lost);
    if (own)
        o = own;
    const char *sandbox = cay__far_word(o, "sandbox");
    if (!h->own && *sandbox && (!cay__id_valid(sandbox, 'c') || !name_of(h, sandbox)))
        return 0;
    cay_event_wire w = { .time_ms = cay__json_int(o, "time_ms", 0),
                         .seq = (uint64_t)cay__json_int(o, "seq", 0),
                         .code = (int32_t)cay__json_int(o, "code", 0) };
    cay__str_copy(w.sandbox, sizeof w.sandbox, h->own || !*sandbox ? sandbox : h->id);
    cay__str_copy(w.process, sizeof w.process, cay__far_word(o, "process"));
    cay__str_copy(w.kind, sizeof w.kind, cay__far_word(o, "kind"));
    cay__str_copy(w.reason, sizeof w.reason, cay__far_word(o, "reason"));
    if (cap < sizeof w)
        return 0;
    memcpy(packet, &w, sizeof w);
    return sizeof w;
}

int cay__far_hear(cay__far *f, const char *id, const char *remote, int *fd, cay_err *err)
{
    cay__answer *a;
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API);
    if (remote)
        cay__buf_fmt(&target, "/sandboxes/%s", remote);
    cay__buf_str(&target, "/events");
    CAY_TRY(cay__far_ask(f, NULL, &(cay__ask){ .method = "GET", .target = target.data }, &a, err));
    hearing *h = cay__alloc(sizeof *h);
    *h = (hearing){ .far = *f, .own = !f->instance[0] };
    if (remote && id) {
        cay__str_copy(h->id, sizeof h->id, id);
        cay__str_copy(h->remote, sizeof h->remote, remote);
    }
    return cay__far_events(a, NULL, NULL, pack_event, h, fd, err); /* the answer holds the client */
}

static int far_events(void *self, const char *id, int *fd, cay_err *err)
{
    void *box = NULL;
    if (!id)
        return cay__far_hear(self, NULL, NULL, fd, err);
    CAY_TRY(far_attach(self, NULL, id, NULL, &box, err));
    int rc = cay__far_hear(self, id, ((cay__far_box *)box)->remote, fd, err);
    cay__far_release(box);
    return rc;
}

const cay_provider_ops cay__far_ops = {
    .size = sizeof cay__far_ops,
    .name = "cay",
    .open = far_open,
    .close = far_close,
    .create = far_create,
    .attach = far_attach,
    .release = cay__far_release,
    .destroy = far_destroy,
    .spawn = cay__far_spawn,
    .proc_attach = cay__far_proc_attach,
    .proc_release = cay__far_proc_release,
    .proc_id = cay__far_proc_id,
    .proc_output = cay__far_proc_output,
    .proc_write = cay__far_proc_write,
    .proc_close_stdin = cay__far_proc_close_stdin,
    .proc_signal = cay__far_proc_signal,
    .proc_wait = cay__far_proc_wait,
    .proc_exit_fd = cay__far_proc_exit_fd,
    .status = far_status,
    .proc_read = cay__far_proc_read,
    .proc_resize = cay__far_proc_resize,
    .procs = cay__far_procs,
    .probe = far_probe,
    .state = far_state,
    .list = far_list,
    .start = far_start,
    .stop = far_stop,
    .pause = far_pause,
    .resume = far_resume,
    .extend = far_extend,
    .usage = far_usage,
    .wait = far_wait,
    .events = far_events,
    .gc = far_gc,
    .remove_files = far_remove_files,
    .open_read = cay__far_open_read,
    .put = cay__far_put,
    .open_write = cay__far_open_write,
    .commit_write = cay__far_commit_write,
    .abort_write = cay__far_abort_write,
    .stat = cay__far_file_stat,
    .mkdir = cay__far_mkdir,
    .remove = cay__far_remove,
    .rename = cay__far_rename,
    .chmod = cay__far_chmod,
    .chown = cay__far_chown,
    .symlink = cay__far_symlink,
    .getxattr = cay__far_getxattr,
    .setxattr = cay__far_setxattr,
    .listxattr = cay__far_listxattr,
    .list_dir = cay__far_list_dir,
    .glob = cay__far_glob,
    .grep = cay__far_grep,
    .watch_open = cay__far_watch_open,
    .watch_next = cay__far_watch_next,
    .watch_close = cay__far_watch_close,
    .ports = far_ports,
    .endpoints = far_endpoints,
    .connect = far_connect,
    .services = cay__far_services,
    .service_act = cay__far_service_act,
    .policy = cay__far_policy,
    .policy_get = cay__far_policy_get,
};
