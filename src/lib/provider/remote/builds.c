/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a client of a server: templates that it builds by steps. The context is packed here,
 * without what .dockerignore leaves out, and sent; the log is followed until its end, taken up
 * again where it was cut; a caller that gives up cancels the build.
 */
#include "remote_box.h"
#include "client.h"
#include <base/call.h>
#include <base/fd.h>
#include <lib/template/build_tree.h>
#include <cay/build.h>
#include <fcntl.h>
#include <net/sse.h>
#include <base/tar.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

enum { IGNORE_MAX = 1 << 20, TRIES = 30, AGAIN_MS = 1000, LINE = 128 << 10 };

static int open_tmpfile(int *fd, cay_err *err)
{
    const char *tmp = getenv("TMPDIR");
    *fd = open(cay__text_or(tmp, "/tmp"), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (*fd < 0)
        return cay_fail_sys(err, CAY_ESYS, "a file for the archive");
    return 0;
}

static int put_bytes(int to, int from, uint64_t size, const char *path, cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    CAY_AUTOBUF pad = CAY__BUF(1024);
    uint64_t left = size;
    for (ssize_t n; left && (n = read(from, buf, (size_t)CAY_MIN(left, (uint64_t)65536))) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !cay__fd_write_all(to, buf, (size_t)n))
            return cay_fail_sys(err, CAY_ESYS, "pack %.150s", path);
        left -= (uint64_t)n;
    }
    if (left)
        return cay_fail_why(err, CAY_EBUSY, "build_context",
                            "%.150s became shorter while it was read", path);
    cay__tar_pad(&pad, size);
    if (!pad.len || cay__fd_write_all(to, pad.data, pad.len))
        return 0;
    return cay_fail_sys(err, CAY_ESYS, "pack %.150s", path);
}

static int put_twig(const cay__tree *t, const cay__twig *w, const cay_call *call, int to,
                    cay_err *err)
{
    cay__member *m = cay__alloc(sizeof *m);
    CAY_AUTOBUF head = CAY__BUF(32u << 10);
    CAY_AUTOFD from = -1;
    int rc = 0;
    *m = (cay__member){ .type = w->type == 'd'   ? '5'
                                : w->type == 'l' ? '2'
                                                 : '0',
                        .mode = w->mode,
                        .size = w->type == 'f' ? w->size : 0 };
    if (!cay__str_copy(m->name, sizeof m->name, w->path) ||
        !cay__str_copy(m->target, sizeof m->target, w->type == 'l' && w->target ? w->target : ""))
        rc =
            cay_fail_why(err, CAY_EINVAL, "build_context", "%.150s: the name is too long", w->path);
    if (rc == 0 && w->type == 'f')
        rc = cay__tree_open(t, w, call, &from, err);
    if (rc == 0) {
        cay__tar_head(&head, m);
        if (head.full || !cay__fd_write_all(to, head.data, head.len))
            rc = cay_fail_sys(err, CAY_ESYS, "pack %.150s", w->path);
    }
    if (rc == 0 && w->type == 'f')
        rc = put_bytes(to, from, w->size, w->path, err);
    free(m);
    return rc;
}

/* What it is to be built by goes along, whatever .dockerignore says: it is read here otherwise,
 * too. */
static int put_file(int dir, const cay__tree *t, const char *name, int to, cay_err *err)
{
    struct stat st;
    CAY_AUTOBUF head = CAY__BUF(32u << 10);
    if (cay__tree_find(t, name))
        return 0;
    CAY_AUTOFD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    cay__member *m = cay__alloc(sizeof *m);
    *m = (cay__member){ .type = '0', .mode = 0644, .size = (uint64_t)st.st_size };
    bool fits = cay__str_copy(m->name, sizeof m->name, name);
    if (fits)
        cay__tar_head(&head, m);
    free(m);
    if (!fits || head.full || !cay__fd_write_all(to, head.data, head.len))
        return cay_fail_sys(err, CAY_ESYS, "pack %.150s", name);
    return put_bytes(to, fd, (uint64_t)st.st_size, name, err);
}

static int pack_dir(int dir, const char *path, bool ignores, const char *file, const cay_call *call,
                    int *out, uint64_t *len, cay_err *err)
{
    static const char end[1024];
    static const char *const files[] = { "template.json", "Dockerfile" };
    CAY_AUTOFREE char *ignore = cay__alloc(IGNORE_MAX + 1);
    CAY_AUTOFD to = -1;
    cay__tree t = { 0 };
    struct stat st;
    ssize_t n = 0;
    if (ignores)
        n = cay__fd_read_file(dir, ".dockerignore", ignore, IGNORE_MAX);
    CAY_TRY(open_tmpfile(&to, err));
    int own = dup(dir);
    if (own < 0)
        return cay_fail_sys(err, CAY_ESYS, "open %.150s", path);
    int rc = cay__tree_dir(&t, own, n > 0 ? ignore : NULL, n > 0 ? (size_t)n : 0, call, err);
    for (size_t i = 0; rc == 0 && i < t.n; i++)
        if (*t.twigs[i].path && (rc = cay__call_check(call, "pack", err)) == 0)
            rc = put_twig(&t, &t.twigs[i], call, to, err);
    for (size_t i = 0; rc == 0 && n > 0 && i < CAY_LEN(files); i++)
        rc = put_file(dir, &t, files[i], to, err);
    if (rc == 0 && n > 0 && file && strcmp(file, files[0]) != 0 && strcmp(file, files[1]) != 0)
        rc = put_file(dir, &t, file, to, err);
    cay__tree_clear(&t);
    if (rc == 0 && (!cay__fd_write_all(to, end, sizeof end) || fstat(to, &st) < 0 ||
                    lseek(to, 0, SEEK_SET) < 0))
        rc = cay_fail_sys(err, CAY_ESYS, "pack %.150s", path);
    if (rc < 0)
        return rc;
    *len = (uint64_t)st.st_size;
    *out = CAY_STEAL_FD(to);
    return 0;
}

int cay__remote_tar(int dir, const char *path, const cay_call *call, int *out, uint64_t *len,
                    cay_err *err)
{
    return pack_dir(dir, path, false, NULL, call, out, len, err);
}

static void add_build_query(cay__buf *target, const cay_build *s)
{
    const struct {
        const char *name, *value;
    } texts[] = { { "file", s->file },
                  { "target", s->target },
                  { "no_cache", s->no_cache ? "1" : NULL },
                  { "no_pull", s->no_pull ? "1" : NULL },
                  { "keep_failed", s->keep_failed ? "1" : NULL },
                  { "hidden", s->hidden ? "1" : NULL } };
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = { { "step_ms", s->step_ms },
                    { "memory", s->limits.memory },
                    { "disk", s->limits.disk },
                    { "cpu_milli", s->limits.cpu_milli } };
    for (const char *const *p = s->names; p && *p; p++)
        cay__far_query(target, "name", *p);
    for (size_t i = 0; i < CAY_LEN(texts); i++)
        if (texts[i].value)
            cay__far_query(target, texts[i].name, texts[i].value);
    for (size_t i = 0; i < CAY_LEN(numbers); i++)
        if (numbers[i].value)
            cay__far_query_u64(target, numbers[i].name, numbers[i].value);
    for (const cay_pair *a = s->args; a && a->key; a++) {
        CAY_AUTOBUF one = CAY__BUF(64u << 10);
        cay__buf_fmt(&one, "%s=%s", a->key, CAY_OR(a->value, ""));
        cay__far_query(target, "arg", one.data);
    }
}

/* A policy's text as the words that make it. */
static int add_net(cay__buf *target, const char *net, cay_err *err)
{
    cay_policy *p = NULL;
    if (!net)
        return 0;
    CAY_TRY(cay_policy_parse(net, &p, err));
    if (p->mode == CAY_NET_OFF || p->mode == CAY_NET_ALL)
        cay__far_query(target, "net", p->mode == CAY_NET_OFF ? "off" : "all");
    for (const char *const *r = p->rules; r && *r; r++)
        cay__far_query(target, "net", *r);
    cay_policy_free(p);
    return 0;
}

static int submit_build(cay_client *client, const cay_call *call, const cay_build *s, json_t **out,
                        cay_err *err)
{
    CAY_AUTOFD dir = -1, tar = -1;
    uint64_t len = 0;
    char key[CAY_ID_LEN + 1], fields[64];
    CAY__FAR_TARGET(target);
    if (s->archive || s->keep_start || (!s->dir && s->tar <= 0 && !s->text))
        return cay_fail_why(err, CAY_ENOTSUP, "remote_unsupported",
                            "a server builds from a directory, a tar or a text");
    if (s->secrets && s->secrets->id)
        return cay_fail_why(
            err, CAY_ENOTSUP, "remote_unsupported",
            "--secret: a server keeps no secrets of builds; build where the secret is");
    cay__buf_str(&target, CAY__FAR_API "/builds");
    add_build_query(&target, s);
    CAY_TRY(add_net(&target, s->net, err));
    if (target.full)
        return cay_fail_why(err, CAY_ETOOBIG, "request_too_big",
                            "the arguments of the build are too long");
    cay__id_make(key, 'j');
    snprintf(fields, sizeof fields, "Idempotency-Key: %s\r\n", key);
    cay__ask ask = {
        .method = "POST", .target = target.data, .type = "application/x-tar", .fields = fields
    };
    if (s->text) {
        ask.type = "text/plain";
        ask.body = s->text;
        ask.len = strlen(s->text);
    } else if (s->dir) {
        dir = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
            return cay_fail_sys(err, CAY_ESYS, "open the context %.150s", s->dir);
        CAY_TRY(pack_dir(dir, s->dir, true, s->file, call, &tar, &len, err));
    } else {
        struct stat st;
        tar = dup(s->tar);
        if (tar < 0 || fstat(tar, &st) < 0 || !S_ISREG(st.st_mode) || lseek(tar, 0, SEEK_SET) < 0)
            return cay_fail_why(err, CAY_ETYPE, "build_context", "the context is no file");
        len = (uint64_t)st.st_size;
    }
    if (tar >= 0) {
        ask.fd = tar;
        ask.from_fd = true;
        ask.len = (size_t)len;
    }
    return cay__far_send(cay__remote_far(client), call, &ask, out, err);
}

static int submit_pull(cay_client *client, const cay_call *call, const cay_build *s, json_t **out,
                       cay_err *err)
{
    char key[CAY_ID_LEN + 1], fields[64];
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/templates/pull");
    json_t *body = json_pack("{s:s, s:s*, s:b}", "image", s->pull, "platform", s->platform,
                             "hidden", s->hidden),
           *names = s->names && s->names[0] ? json_array() : NULL;
    for (const char *const *p = s->names; names && *p; p++)
        json_array_append_new(names, json_string(*p));
    if (names)
        json_object_set_new(body, "names", names);
    cay__id_make(key, 'j');
    snprintf(fields, sizeof fields, "Idempotency-Key: %s\r\n", key);
    return cay__far_json_with(cay__remote_far(client), call, "POST", &target, fields, body, out,
                              err);
}

typedef struct hearing {
    int (*line)(const cay_build_event *e, void *arg);
    void (*event)(void *arg, const cay_build_event *e);
    void *arg;
    uint64_t at;
    bool over;
} hearing;

static int on_said(const char *name, const char *data, size_t len, void *arg, cay_err *err)
{
    hearing *h = arg;
    CAY_AUTOJSON *o = NULL;
    (void)len, (void)err;
    if (cay__json_object("event", data, &o, NULL) < 0)
        return 0;
    if (!strcmp(name, "end") || !strcmp(name, "at")) {
        h->over |= *name == 'e';
        h->at = (uint64_t)cay__json_int(o, "at", (int64_t)h->at);
        return 0;
    }
    const json_t *text = json_object_get(o, "text");
    cay_build_event e = { .size = sizeof e,
                          .time_ms = cay__json_int(o, "time_ms", 0),
                          .step = (unsigned)cay__json_int(o, "step", 0),
                          .steps = (unsigned)cay__json_int(o, "steps", 0),
                          .cached = cay__json_bool(o, "cached", false),
                          .text = json_is_string(text) ? json_string_value(text) : "",
                          .len = json_string_length(text) };
    for (int k = CAY_BUILD_STEP; k <= CAY_BUILD_FAIL; k++)
        if (!strcmp(cay_build_event_name((cay_build_event_kind)k), name))
            e.kind = (cay_build_event_kind)k;
    if (!e.kind)
        return 0;
    if (h->event)
        h->event(h->arg, &e);
    if (h->line)
        return h->line(&e, h->arg);
    return 0;
}

static int read_log(cay_client *client, const cay_call *call, const char *id, bool follow,
                    hearing *h, cay_err *err)
{
    cay__answer *a = NULL;
    cay__sse s = CAY__SSE(LINE * 2, on_said, h);
    char buf[8192];
    size_t n = 1;
    CAY__FAR_TARGET(target);
    cay__far_ref(&target, "builds", id);
    cay__buf_str(&target, "/log");
    cay__far_query_u64(&target, "after", h->at);
    if (!follow)
        cay__far_query(&target, "follow", "0");
    CAY_TRY(cay__far_ask(cay__remote_far(client), call,
                         &(cay__ask){ .method = "GET", .target = target.data }, &a, err));
    int rc = 0;
    while (rc == 0 && n && (rc = cay__answer_bytes(a, call, buf, sizeof buf, &n, err)) == 0 && n)
        rc = cay__sse_feed(&s, buf, n, err);
    cay__sse_end(&s);
    cay__answer_end(a);
    return rc;
}

/* Until it ended: a server that is restarted goes on with the build, and so do we. */
static int follow_log(cay_client *client, const cay_call *call, const char *id, hearing *h,
                      cay_err *err)
{
    for (int tries = 0; !h->over; tries++) {
        uint64_t before = h->at;
        int rc = read_log(client, call, id, true, h, err);
        if (rc < 0 && (rc != CAY_EUPSTREAM && rc != CAY_EBUSY))
            return rc;
        if (h->at != before)
            tries = 0;
        if (h->over)
            break;
        if (tries == TRIES) {
            if (rc < 0)
                return rc;
            return cay_fail_why(err, CAY_EUPSTREAM, "net_cut",
                                "the log of build %s is cut again and again", id);
        }
        cay_call nap = cay__call_within(call, AGAIN_MS);
        rc = cay__call_wait(&nap, -1, POLLIN, "build", NULL);
        CAY_TRY(cay__call_check(call, "build", err));
    }
    return 0;
}

/* What is no id of the kind is none: ids go to terminals as they are. */
static void keep_end(const json_t *o, cay_built *out)
{
    out->steps = (unsigned)cay__json_int(o, "steps", 0);
    out->cached = (unsigned)cay__json_int(o, "cached", 0);
    cay__str_copy(out->template_, sizeof out->template_, cay__far_id(o, "template", 't'));
    cay__str_copy(out->sandbox, sizeof out->sandbox, cay__far_id(o, "sandbox", 'c'));
}

int cay__remote_build_run(cay_client *client, const cay_call *call, const cay_build *s,
                          cay_built *out, cay_err *err)
{
    CAY_AUTOJSON *begun = NULL, *end = NULL;
    hearing h = { .event = s->event, .arg = s->arg };
    cay_built b = { .size = sizeof b };
    if (s->pull)
        CAY_TRY(submit_pull(client, call, s, &begun, err));
    else
        CAY_TRY(submit_build(client, call, s, &begun, err));
    if (!cay__id_valid(cay__far_word(begun, "id"), 'b'))
        return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                            "the server tells no id of the build");
    cay__str_copy(b.id, sizeof b.id, cay__far_word(begun, "id"));
    int rc = follow_log(client, call, b.id, &h, err);
    if (rc == CAY_ECANCELED || rc == CAY_ETIMEOUT)
        cay__remote_order(client, "POST", "builds", b.id, "/cancel", NULL, NULL, NULL);
    if (rc == 0)
        rc = cay__remote_order(client, "GET", "builds", b.id, "", NULL, &end, err);
    if (rc == 0) {
        const char *state = cay__far_word(end, "state"), *reason = cay__far_word(end, "reason"),
                   *why = cay__far_word(end, "error");
        keep_end(end, &b);
        if (strcmp(state, "ready") != 0)
            rc = cay_fail_why(err, !strcmp(state, "canceled") ? CAY_ECANCELED : CAY_EINVAL,
                              cay__text_or(reason, "build_failed"), "%.200s",
                              cay__text_or(why, state));
    }
    if (out)
        cay__answer_give(out, &b, sizeof b);
    return rc;
}

typedef struct lister {
    int (*fn)(const cay_build_info *b, void *arg);
    void *arg;
    const char *ref; /* a name of its template; or NULL */
    bool found;
} lister;

/* "tools" is "tools:latest", as everywhere. */
static bool has_name(const char *names, const char *ref)
{
    size_t n = strlen(ref);
    for (const char *p = names; *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (!strncmp(p, ref, n) && (!p[n] || p[n] == ' ' ||
                                    (!strchr(ref, ':') && !strncmp(p + n, ":latest", 7) &&
                                     (!p[n + 7] || p[n + 7] == ' '))))
            return true;
    return false;
}

static int on_build(const json_t *o, void *arg)
{
    lister *l = arg;
#define W(name) cay__far_word(o, name)
    cay_build_info b = { .size = sizeof b,
                         .id = cay__far_id(o, "id", 'b'),
                         .tenant = W("tenant"),
                         .state = W("state"),
                         .names = W("names"),
                         .template_ = cay__far_id(o, "template", 't'),
                         .sandbox = cay__far_id(o, "sandbox", 'c'),
                         .reason = W("reason"),
                         .error = W("error"),
                         .step = (unsigned)cay__json_int(o, "step", 0),
                         .steps = (unsigned)cay__json_int(o, "steps", 0),
                         .cached = (unsigned)cay__json_int(o, "cached", 0),
                         .started_ms = cay__json_int(o, "started_ms", 0),
                         .ended_ms = cay__json_int(o, "ended_ms", 0) };
#undef W
    if (l->ref && !has_name(b.names, l->ref))
        return 0;
    l->found = true;
    int rc = l->fn(&b, l->arg);
    return CAY_OR(rc, l->ref != NULL);
}

int cay__remote_build_list(cay_client *client, int (*fn)(const cay_build_info *b, void *arg),
                           void *arg, cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/builds");
    return cay__remote_each(client, NULL, &target, on_build, &(lister){ .fn = fn, .arg = arg },
                            err);
}

int cay__remote_build_get(cay_client *client, const char *ref,
                          int (*fn)(const cay_build_info *b, void *arg), void *arg, cay_err *err)
{
    lister l = { .fn = fn, .arg = arg };
    CAY__FAR_TARGET(target);
    if (cay__id_valid(ref, 'b')) {
        CAY_AUTOJSON *o = NULL;
        CAY_TRY(cay__remote_order(client, "GET", "builds", ref, "", NULL, &o, err));
        return on_build(o, &l);
    }
    l.ref = ref;
    cay__buf_str(&target, CAY__FAR_API "/builds");
    int rc = cay__remote_each(client, NULL, &target, on_build, &l, err);
    if (rc < 0)
        return rc;
    if (l.found)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "build_not_found",
                        "the server has no build %.60s, and none of a template of that name", ref);
}

int cay__remote_build_log(cay_client *client, const char *id, uint64_t *offset,
                          int (*fn)(const cay_build_event *e, void *arg), void *arg, cay_err *err)
{
    hearing h = { .line = fn, .arg = arg, .at = *offset };
    int rc = read_log(client, NULL, id, false, &h, err);
    *offset = h.at;
    return rc;
}

int cay__remote_build_cancel(cay_client *client, const char *id, cay_err *err)
{
    return cay__remote_order(client, "POST", "builds", id, "/cancel", NULL, NULL, err);
}

/* what is kept, and what is left
 * over */

typedef struct cache_lister {
    int (*fn)(const cay_build_cache *c, void *arg);
    void *arg;
} cache_lister;

static int on_cache(const json_t *o, void *arg)
{
    cache_lister *l = arg;
    cay_build_cache c = { .size = sizeof c,
                          .id = cay__far_word(o, "id"),
                          .volume = cay__far_word(o, "volume"),
                          .tenant = cay__far_word(o, "tenant"),
                          .bytes = (uint64_t)cay__json_int(o, "bytes", 0),
                          .limit = (uint64_t)cay__json_int(o, "limit", 0),
                          .used_ms = cay__json_int(o, "used_ms", 0) };
    return l->fn(&c, l->arg);
}

int cay__remote_build_caches(cay_client *client, const cay_call *call,
                             int (*fn)(const cay_build_cache *c, void *arg), void *arg,
                             cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/builds/caches");
    return cay__remote_each(client, call, &target, on_cache, &(cache_lister){ fn, arg }, err);
}

static int post_removal(cay_client *client, const cay_call *call, const char *path, size_t *n,
                        cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__buf_fmt(&target, CAY__FAR_API "%s", path);
    CAY_TRY(cay__far_json(cay__remote_far(client), call, "POST", &target, NULL, &o, err));
    if (n)
        *n = (size_t)cay__json_int(o, "removed", 0);
    return 0;
}

int cay__remote_build_prune(cay_client *client, const cay_call *call, size_t *n, cay_err *err)
{
    return post_removal(client, call, "/builds/prune", n, err);
}

int cay__remote_gc(cay_client *client, const cay_call *call, size_t *n, cay_err *err)
{
    return post_removal(client, call, "/gc", n, err);
}
