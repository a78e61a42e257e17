/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a client of a server: templates that it builds by steps. The context is packed here,
 * without what .dockerignore leaves out, and sent; the log is followed until its end, taken up
 * again where it was cut; a caller that gives up cancels the build.
 */
#include "remote.h"
#include <lib/template/build_tree.h>
#include <lib/template/template.h>
#include <cay/build.h>
#include <net/sse.h>
#include <base/tar.h>
#include <poll.h>

enum { IGNORE_MAX = 1 << 20, TRIES = 30, AGAIN_MS = 1000, LINE = 128 << 10 };

static int put_bytes(int to, int from, uint64_t size, const char *path, cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    CAY_AUTOBUF pad = CAY__BUF(1024);
    uint64_t left = size;
    for (ssize_t n; left && (n = read(from, buf, (size_t)CAY_MIN(left, (uint64_t)65536))) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !cay__fd_write_all(to, buf, (size_t)n))
            return cay_fail_sys(err, "pack %.150s", path);
        left -= (uint64_t)n;
    }
    if (left)
        return cay_fail_why(err, CAY_EBUSY, "build_context",
                            "%.150s became shorter while it was read", path);
    cay__tar_pad(&pad, size);
    if (!pad.len || cay__fd_write_all(to, pad.data, pad.len))
        return 0;
    return cay_fail_sys(err, "pack %.150s", path);
}

static int put_twig(const cay__tree *t, const cay__twig *w, const cay_call *call, int to,
                    cay_err *err)
{
    CAY_AUTOFREE cay__member *m = cay__alloc(sizeof *m);
    CAY_AUTOBUF head = CAY__BUF(32u << 10);
    CAY_AUTOFD from = -1;
    *m = (cay__member){ .type = '0', .mode = w->mode };
    const char *target = "";
    if (w->type == 'd') {
        m->type = '5';
    } else if (w->type == 'l') {
        m->type = '2';
        target = CAY_OR(w->target, "");
    } else if (w->type == 'f') {
        m->size = w->size;
    }
    if (!CAY_COPY(m->name, w->path) || !CAY_COPY(m->target, target))
        return cay_fail_why(err, CAY_EINVAL, "build_context", "%.150s: the name is too long",
                            w->path);
    if (w->type == 'f')
        CAY_TRY(cay__tree_open(t, w, call, &from, err));
    cay__tar_head(&head, m);
    if (head.full || !cay__fd_write_all(to, head.data, head.len))
        return cay_fail_sys(err, "pack %.150s", w->path);
    if (w->type == 'f')
        return put_bytes(to, from, w->size, w->path, err);
    return 0;
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
    CAY_AUTOFREE cay__member *m = cay__alloc(sizeof *m);
    *m = (cay__member){ .type = '0', .mode = 0644, .size = (uint64_t)st.st_size };
    bool fits = CAY_COPY(m->name, name);
    if (fits)
        cay__tar_head(&head, m);
    if (!fits || head.full || !cay__fd_write_all(to, head.data, head.len))
        return cay_fail_sys(err, "pack %.150s", name);
    return put_bytes(to, fd, (uint64_t)st.st_size, name, err);
}

int cay__remote_tar(int dir, const char *path, const cay_build *build, const cay_call *call,
                    int *out, uint64_t *len, cay_err *err)
{
    static const char end[1024];
    static const char *const files[] = { "template.json", "Dockerfile" };
    CAY_AUTOFREE char *ignore = cay__alloc(IGNORE_MAX + 1);
    const char *file = NULL;
    CAY_AUTOFD to = -1;
    cay__tree t = { 0 };
    struct stat st;
    ssize_t n = 0;
    if (build) {
        file = build->file;
        n = cay__fd_read_file(dir, ".dockerignore", ignore, IGNORE_MAX);
    }
    const char *ignored = NULL;
    if (n > 0)
        ignored = ignore;
    CAY_TRY(cay__remote_tmpfile(&to, err));
    int own = dup(dir);
    CAY_TRY_SYS(own, err, "open %.150s", path);
    int rc = cay__tree_dir(&t, own, ignored, (size_t)CAY_MAX(n, (ssize_t)0), call, err);
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
        rc = cay_fail_sys(err, "pack %.150s", path);
    if (rc < 0)
        return rc;
    *len = (uint64_t)st.st_size;
    *out = CAY_STEAL_FD(to);
    return 0;
}

/* NAME=VALUE of each, and a policy's text as the words that make it, in mem. */
static int list_words(cay__arena *mem, const cay_build *s, cay__build_query *q, cay_err *err)
{
    cay_policy *p = NULL;
    size_t n = 0;
    for (const cay_pair *a = s->args; a && a->key; a++)
        n++;
    const char **args = cay__arena_take(mem, (n + 1) * sizeof *args);
    for (size_t i = 0; i < n; i++) {
        CAY_AUTOBUF one = CAY__BUF(64u << 10);
        cay__buf_fmt(&one, "%s=%s", s->args[i].key, CAY_OR(s->args[i].value, ""));
        args[i] = cay__arena_str(mem, one.data);
    }
    q->args = args;
    if (!s->net)
        return 0;
    CAY_TRY(cay_policy_parse(s->net, &p, err));
    n = 0;
    while (p->rules && p->rules[n])
        n++;
    const char **rules = cay__arena_take(mem, (n + 2) * sizeof *rules);
    q->rules = rules;
    if (p->mode == CAY_NET_OFF)
        *rules++ = "off";
    else if (p->mode == CAY_NET_ALL)
        *rules++ = "all";
    for (size_t i = 0; i < n; i++)
        rules[i] = cay__arena_str(mem, p->rules[i]);
    cay_policy_free(p);
    return 0;
}

/* Its context: packed here, or a file that is one. */
static int open_context(const cay_build *s, const cay_call *call, int *tar, uint64_t *len,
                        cay_err *err)
{
    struct stat st;
    if (s->dir) {
        CAY_AUTOFD dir = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CAY_TRY_SYS(dir, err, "open the context %.150s", s->dir);
        return cay__remote_tar(dir, s->dir, s, call, tar, len, err);
    }
    *tar = dup(s->tar);
    if (*tar < 0 || fstat(*tar, &st) < 0 || !S_ISREG(st.st_mode) || lseek(*tar, 0, SEEK_SET) < 0)
        return cay_fail_why(err, CAY_ETYPE, "build_context", "the context is no file");
    *len = (uint64_t)st.st_size;
    return 0;
}

static int submit_build(const cay__remote *r, const cay_call *call, const cay_build *s,
                        cay__arena *mem, cay_build_info *out, cay_err *err)
{
    CAY_AUTOFD tar = -1;
    uint64_t len = 0;
    char key[CAY_ID_LEN + 1];
    cay__build_query query = { .b = *s, .names = s->names };
    if (s->archive || s->keep_start || (!s->dir && s->tar <= 0 && !s->text))
        return cay_fail_why(err, CAY_ENOTSUP, "remote_unsupported",
                            "a server builds from a directory, a tar or a text");
    if (s->secrets && s->secrets->id)
        return cay_fail_why(
            err, CAY_ENOTSUP, "remote_unsupported",
            "--secret: a server keeps no secrets of builds; build where the secret is");
    CAY_TRY(list_words(mem, s, &query, err));
    cay__id_make(key, 'j');
    cay__request q = CAY__REQUEST(build_create, .query = &query, .key = key);
    if (s->text) {
        q.type = "text/plain";
        q.data = s->text;
        q.len = strlen(s->text);
    } else {
        CAY_TRY(open_context(s, call, &tar, &len, err));
        q.fd = tar;
        q.from_fd = true;
        q.len = (size_t)len;
    }
    return cay__remote_get(r, call, &q, mem, out, err);
}

static int submit_pull(const cay__remote *r, const cay_call *call, const cay_build *s,
                       cay__arena *mem, cay_build_info *out, cay_err *err)
{
    cay__pull_body body = { s->pull, s->platform, NULL, s->hidden };
    if (s->names && s->names[0])
        body.names = s->names;
    return cay__remote_get(r, call, &CAY__REQUEST(template_pull, .body = &body), mem, out, err);
}

typedef struct hearing {
    cay_build_event_fn *line;
    void (*event)(void *arg, const cay_build_event *e);
    void *arg;
    uint64_t at;
    bool over;
} hearing;

static int on_said(const char *name, const char *data, size_t len, void *arg, cay_err *err)
{
    hearing *h = arg;
    CAY_AUTOJSON *o = NULL;
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
                          .text = CAY_OR(json_string_value(text), ""),
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

static int read_log(const cay__remote *r, const cay_call *call, const char *id, bool follow,
                    hearing *h, cay_err *err)
{
    cay__answer *a = NULL;
    cay__sse s = CAY__SSE(LINE * 2, on_said, h);
    char buf[8192];
    size_t n = 1;
    cay__log_query from = { .after = h->at };
    cay__request q = CAY__REQUEST(build_log, .path = { id }, .query = &from);
    if (!follow) /* left out it is followed */
        q.tail = h->at ? "&follow=0" : "?follow=0";
    CAY_TRY(cay__remote_stream(r, call, &q, &a, err));
    int rc = 0;
    while (rc == 0 && n && (rc = cay__answer_bytes(a, call, buf, sizeof buf, &n, err)) == 0 && n)
        rc = cay__sse_feed(&s, buf, n, err);
    cay__sse_end(&s);
    cay__answer_end(a);
    return rc;
}

/* Until it ended: a server that is restarted goes on with the build, and so do we. */
static int follow_log(const cay__remote *r, const cay_call *call, const char *id, hearing *h,
                      cay_err *err)
{
    for (int tries = 0; !h->over; tries++) {
        uint64_t before = h->at;
        int rc = read_log(r, call, id, true, h, err);
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
static void clean_build(cay_build_info *b)
{
    b->id = cay__remote_id(b->id, 'b');
    b->template_ = cay__remote_id(b->template_, 't');
    b->sandbox = cay__remote_id(b->sandbox, 'c');
}

static int get_build(const cay__remote *r, const cay_call *call, const char *id, cay__arena *mem,
                     cay_build_info *out, cay_err *err)
{
    CAY_TRY(cay__remote_get(r, call, &CAY__REQUEST(build_get, .path = { id }), mem, out, err));
    clean_build(out);
    return 0;
}

static int report_end(const cay_build_info *end, cay_built *b, cay_err *err)
{
    int code = CAY_EINVAL;
    b->steps = end->steps;
    b->cached = end->cached;
    CAY_COPY(b->template_, end->template_);
    CAY_COPY(b->sandbox, end->sandbox);
    if (!strcmp(end->state, "ready"))
        return 0;
    if (!strcmp(end->state, "canceled"))
        code = CAY_ECANCELED;
    return cay_fail_why(err, code, cay__text_or(end->reason, "build_failed"), "%.200s",
                        cay__text_or(end->error, end->state));
}

int cay__remote_build_run(const cay__remote *r, const cay_call *call, const cay_build *s,
                          cay_built *out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    hearing h = { .event = s->event, .arg = s->arg };
    cay_built b = { .size = sizeof b };
    cay_build_info begun = { .size = sizeof begun }, end = begun;
    if (s->pull)
        CAY_TRY(submit_pull(r, call, s, &mem, &begun, err));
    else
        CAY_TRY(submit_build(r, call, s, &mem, &begun, err));
    if (!cay__id_valid(begun.id, 'b'))
        return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                            "the server tells no id of the build");
    CAY_COPY(b.id, begun.id);
    int rc = follow_log(r, call, b.id, &h, err);
    if (rc == CAY_ECANCELED || rc == CAY_ETIMEOUT)
        cay__remote_do(r, NULL, &CAY__REQUEST(build_cancel, .path = { b.id }), NULL);
    if (rc == 0)
        rc = get_build(r, NULL, b.id, &mem, &end, err);
    if (rc == 0)
        rc = report_end(&end, &b, err);
    if (out)
        cay__answer_give(out, &b, sizeof b);
    return rc;
}

typedef struct lister {
    cay_build_info_fn *fn;
    void *arg;
    const char *ref; /* a name of its template; or NULL: any */
    bool found;
} lister;

/* "tools" is "tools:latest", as everywhere. */
static bool has_name(const char *names, const char *ref)
{
    size_t n = strlen(ref), k;
    bool tagged = strchr(ref, ':');
    for (const char *p = names; *p; p += k, p += strspn(p, " ")) {
        k = strcspn(p, " ");
        if (strncmp(p, ref, n) != 0)
            continue;
        if (k == n || (!tagged && k == n + 7 && !strncmp(p + n, ":latest", 7)))
            return true;
    }
    return false;
}

static int on_build(const cay_build_info *b, void *arg)
{
    lister *l = arg;
    cay_build_info own = *b;
    if (l->ref && !has_name(b->names, l->ref))
        return 0;
    clean_build(&own);
    l->found = true;
    int rc = l->fn(&own, l->arg);
    return CAY_OR(rc, l->ref != NULL);
}

/* ref NULL: all. */
int cay__remote_build_get(const cay__remote *r, const char *ref, cay_build_info_fn *fn, void *arg,
                          cay_err *err)
{
    lister l = { .fn = fn, .arg = arg, .ref = ref };
    if (ref && cay__id_valid(ref, 'b')) {
        CAY__AUTOARENA mem = { 0 };
        cay_build_info b = { .size = sizeof b };
        CAY_TRY(get_build(r, NULL, ref, &mem, &b, err));
        return fn(&b, arg);
    }
    int rc = CAY__REMOTE_EACH(cay_build_info, r, NULL, CAY__REQUEST(build_list), on_build, &l, err);
    if (rc < 0 || !ref)
        return rc;
    if (l.found)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "build_not_found",
                        "the server has no build %.60s, and none of a template of that name", ref);
}

int cay__remote_build_log(const cay__remote *r, const char *id, uint64_t *offset,
                          cay_build_event_fn *fn, void *arg, cay_err *err)
{
    hearing h = { .line = fn, .arg = arg, .at = *offset };
    int rc = read_log(r, NULL, id, false, &h, err);
    *offset = h.at;
    return rc;
}

typedef struct known {
    const char *host, *tenant;
    bool is;
} known;

static int on_known(const char *tenant, const char *host, int64_t changed_ms, void *arg)
{
    known *k = arg;
    k->is |= !strcmp(host, k->host) && !strcmp(tenant, k->tenant);
    return 0;
}

/* An admin sees those of all tenants: which one the key is of, the server tells. */
static int had_login(cay_client *client, const cay_call *call, const char *host, bool *yes,
                     cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay_tenant t = { .size = sizeof t };
    CAY_TRY(cay__remote_get(client->remote, call, &CAY__REQUEST(tenant_usage), &mem, &t, err));
    known k = { .host = host, .tenant = t.name };
    CAY_TRY(cay_registry_logins(client, NULL, on_known, &k, err));
    *yes = k.is;
    return 0;
}

/* The server fetches it, in its queue, with a log-in that it has; one for a pull that failed does
 * not stay. What it says meanwhile is a build's log. */
int cay__remote_template_pull(cay_client *client, const cay_call *call,
                              const cay_template_remote *s, cay_template **out, cay_err *err)
{
    cay_built built = { .size = sizeof built };
    cay__tname name;
    if (s->auth)
        return cay_fail_why(
            err, CAY_ENOTSUP, "remote_unsupported",
            "--auth names a place on this machine: say --login USER, or `cay template login` once");
    CAY_TRY(cay__tname_parse(CAY_OR(s->ref, ""), &name, err));
    bool login = s->user && s->password, had = false;
    if (login) {
        CAY_TRY(had_login(client, call, name.host, &had, err));
        CAY_TRY(cay_registry_login(client, NULL, name.host, s->user, s->password, err));
    }
    cay_build spec = { .size = sizeof spec,
                       .pull = s->ref,
                       .names = s->names,
                       .platform = s->platform,
                       .hidden = s->hidden };
    int rc = cay__remote_build_run(client->remote, call, &spec, &built, err);
    if (rc < 0 && login && !had) /* what was there before is not told, so it cannot be put back */
        cay_registry_logout(client, NULL, name.host, NULL);
    CAY_TRY(rc);
    if (out)
        return cay__remote_template_find(client->remote, call, built.template_, out, err);
    return 0;
}
