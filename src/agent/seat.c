/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's place in a run: the sandbox it works in, its capabilities bound to it, and the tools
 * of both. */
#include "mcp.h"
#include "run.h"
#include "trace.h"
#include <cay/manifest.h>
#include <cay/state.h>

enum { IDLE_MS = 4 * 3600 * 1000 }; /* of a sandbox of ours, should this program be killed */

cay__seat *cay__seat_of(cay_run *r, cay_agent *a)
{
    unsigned same = 1;
    cay__seat *s, **end = &r->seats;
    for (; (s = *end); end = &s->next) {
        if (s->given == a)
            return s;
        same += !strcmp(s->agent->name, a->name);
    }
    s = cay__alloc(sizeof *s);
    s->given = a;
    s->agent = &s->own;
    if (cay__spec_take(&s->own, sizeof s->own, a, "cay_agent", NULL) <
        0) /* told when it is prepared */
        s->own.name = a->name;
    if (same > 1)
        CAY_FORMAT(s->key, "%.80s#%u", a->name, same);
    else
        CAY_FORMAT(s->key, "%.90s", a->name);
    *end = s;
    return s;
}

cay_model *cay__seat_model(const cay_run *r, const cay__seat *s)
{
    return CAY_OR(s->agent->model, r->conf->model);
}

/* Spans of an agent's sandbox say whose it is, and where it runs. */
static cay__span *named_span(const cay__seat *s, cay__span *span)
{
    cay__span_data(span, "agent_name", json_string(s->agent->name));
    if (*s->backend)
        cay__span_data(span, "backend_id", json_string(s->backend));
    return span;
}

static cay__span *begin_span(cay_run *r, const cay__seat *s, const char *name)
{
    return named_span(s, cay__span_begin(r, "custom", name));
}

/* The run's call, with what is done under it told below the span. */
static cay_call told_below(const cay_run *r, cay__span *span)
{
    cay_call c = cay__call_copy(r->call);
    cay__span_call(span, &c);
    return c;
}

/* What it is and where, told to the span as well. *ours: a run of this very id made it. */
static int describe_sandbox(cay_run *r, cay__seat *s, cay__span *span, bool *ours, cay_err *err)
{
    cay_info *info = NULL;
    const cay_call call = told_below(r, span);
    CAY_TRY(cay_sandbox_describe(s->sb, &call, &info, err));
    s->state = info->state;
    CAY_COPY(s->backend, CAY_OR(info->provider, ""));
    CAY_COPY(s->workdir, cay__text_or(info->workdir, "/workspace"));
    for (const cay_pair *l = info->labels; l && l->key; l++)
        *ours = *ours || (!strcmp(l->key, "cay.run") && !strcmp(l->value, r->id));
    cay_info_free(info);
    named_span(s, span);
    return 0;
}

/* A saved state names sandboxes; only those that a run of ours with that very id made are taken. */
static int find_again(cay_run *r, cay__seat *s, cay_err *err)
{
    CAY_AUTOFREE char *id = CAY_STEAL(s->resume);
    bool ours = false;
    cay__span *span = begin_span(r, s, "sandbox.resume_session");
    int rc = cay_client_find(r->conf->service, r->call, id, &s->sb, err);
    if (rc == 0)
        rc = describe_sandbox(r, s, span, &ours, err);
    else
        cay_wrap(err, rc, "the sandbox of agent %.60s", s->agent->name);
    if (rc == 0 && !ours)
        rc = cay_fail_why(err, CAY_EPERM, "run_state",
                          "the state of the run names a sandbox that is not its own");
    cay__span_close(span, rc, err);
    s->owned = rc == 0;
    return rc;
}

/* rc and own: how it was made or found again. */
static int end_start(cay_run *r, cay__seat *s, cay__span *span, int rc, cay_err *own, cay_err *err)
{
    if (rc == 0)
        rc = describe_sandbox(r, s, span, &(bool){ false }, own);
    cay__span_close(span, rc, own);
    if (rc < 0)
        return cay_wrap(err, cay__err_pass(rc, own, err), "the sandbox of agent %.60s",
                        s->agent->name);
    return cay__run_note(r, "sandbox", cay_sandbox_id(s->sb), err);
}

static int make_new(cay_run *r, cay__seat *s, cay_err *err)
{
    CAY_AUTOFREE char *manifest = NULL;
    enum { MOST = 64 };
    cay_pair labels[MOST + 3];
    size_t n = 0;
    cay_create spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, r->conf->create, "cay_create", err));
    for (const cay_pair *l = spec.labels; l && l->key && n < MOST; l++)
        labels[n++] = *l;
    labels[n++] = (cay_pair){ "cay.run", r->id };
    labels[n++] = (cay_pair){ "cay.agent", s->key };
    labels[n] = (cay_pair){ NULL, NULL };
    spec.labels = labels;
    CAY_TRY(cay__seat_manifest(r, &spec, s, &manifest, err));
    spec.manifest.text = manifest;
    spec.life.ephemeral = false; /* a run that waits for approval finds it again */
    if (!spec.life.idle_ms && !spec.life.ttl_ms && !r->conf->keep)
        spec.life.idle_ms = IDLE_MS;
    cay__span *span = begin_span(r, s, "sandbox.create_session");
    cay_err own = CAY_ERR_INIT;
    int rc = cay_client_create(r->conf->service, r->call, &spec, &s->sb, &own);
    s->owned = s->made_new = rc == 0;
    return end_start(r, s, span, rc, &own, err);
}

static int come_back(cay_run *r, cay__seat *s, cay_err *err)
{
    cay_resume_state spec = { .size = sizeof spec,
                              .state = r->conf->sandbox_state,
                              .len = strlen(r->conf->sandbox_state),
                              .with = r->conf->create };
    cay_err own = CAY_ERR_INIT;
    cay__span *span = begin_span(r, s, "sandbox.resume_session");
    const cay_call call = told_below(r, span);
    int rc = cay_client_resume_state(r->conf->service, &call, &spec, &s->sb, NULL, &own);
    r->came_back = s->owned = s->returned = rc == 0;
    return end_start(r, s, span, rc, &own, err);
}

void cay__seat_save(cay_run *r, cay__seat *s, bool gone)
{
    cay_save_state spec = { .size = sizeof spec, .snapshot = gone };
    cay_err err = CAY_ERR_INIT;
    if (!s->sb || (!r->conf->save && !s->returned))
        return;
    cay__span *span = CAY_IF(gone, cay__span_sandbox(r, "persist_workspace"));
    int rc = cay_sandbox_save_state(s->sb, NULL, &spec, &r->sandbox_state, &err);
    cay__span_close(span, rc, &err);
    if (rc == 0)
        return;
    s->owned = s->owned && !gone;
    cay__run_note(r, "cleanup", err.msg, NULL);
}

static int get_sandbox(cay_run *r, cay__seat *s, cay_err *err)
{
    if (r->conf->sandbox) {
        free(CAY_STEAL(s->resume));
        s->sb = cay_sandbox_ref(r->conf->sandbox);
        return 0;
    }
    if (!r->conf->service)
        return cay_fail_why(err, CAY_EINVAL, "sandbox_config_invalid",
                            "agent %.60s works in a sandbox: give the run one "
                            "(cay_run_config.sandbox) or a service to make it (.service)",
                            s->agent->name);
    if (s->resume)
        return find_again(r, s, err);
    if (r->conf->sandbox_state && !r->came_back)
        return come_back(r, s, err);
    return make_new(r, s, err);
}

/* Looked at with the rights of the agent's user, so that one whom the sandbox does not have, or who
 * may not be there, is told before the model is asked. The dot asks for the right to enter, not
 * only to see it. */
static int check_access(cay_run *r, const cay__seat *s, cay_err *err)
{
    char here[sizeof s->cwd + 2];
    const char *user = s->agent->run_as;
    cay_call as;
    cay_stat st = { .size_of = sizeof st };
    CAY_TRY(cay__spec_take(&as, sizeof as, r->call, "cay_call", err));
    as.size = sizeof as;
    as.user = CAY_OR(user, as.user);
    CAY_FORMAT(here, "%s/.", s->cwd);
    int rc = cay_file_stat(s->sb, &as, here, true, &st, err);
    if (rc < 0 && err && user && cay__err_of_user(err))
        return cay_wrap(
            err, rc,
            "agent %.60s is to work as user %.60s (run_as), whom its sandbox does not have",
            s->agent->name, user);
    if (rc < 0)
        return cay_wrap(err, rc, "cwd of the run");
    return 0;
}

static int check_cwd(cay_run *r, cay__seat *s, cay_err *err)
{
    const char *cwd = r->conf->cwd;
    if (!cwd || !*cwd) {
        CAY_COPY(s->cwd, s->workdir);
        if (s->agent->run_as)
            return check_access(r, s, err);
        return 0;
    }
    if (cwd[0] == '/' || !strcmp(cwd, "..") || !strncmp(cwd, "../", 3) || strstr(cwd, "/../") ||
        (strlen(cwd) > 2 && !strcmp(cwd + strlen(cwd) - 3, "/..")))
        return cay_fail_why(err, CAY_EINVAL, "sandbox_config_invalid",
                            "cwd \"%.100s\" is not below the working directory", cwd);
    if ((size_t)CAY_FORMAT(s->cwd, "%s/%s", s->workdir, cwd) >= sizeof s->cwd)
        return cay_fail(err, CAY_ETOOBIG, "cwd is too long");
    return check_access(r, s, err);
}

/* What was put into it, as a tree for the model; a sandbox without a manifest has none. */
static void draw_tree(cay_run *r, cay__seat *s)
{
    CAY_AUTOFREE char *json = NULL;
    cay_manifest *m = NULL;
    if (cay_sandbox_manifest(s->sb, r->call, &json, NULL) < 0 ||
        cay_manifest_parse(json, strlen(json), CAY_MANIFEST_TRUSTED, &m, NULL) < 0)
        return;
    s->tree = cay_manifest_describe(m, 3);
    s->mounts = cay_manifest_mount_policy(m);
    cay_manifest_free(m);
}

static int look_around(cay_run *r, cay__seat *s, cay__span *span, cay_err *err)
{
    if (!*s->backend) /* one that was given to the run */
        CAY_TRY(describe_sandbox(r, s, span, &(bool){ false }, err));
    if (s->state == CAY_PAUSED || s->state == CAY_STOPPED)
        CAY_TRY(cay_sandbox_resume(s->sb, r->call, err));
    if (!s->made_new)
        CAY_TRY(cay__seat_follow(r, s, err));
    draw_tree(r, s);
    return 0;
}

static bool has_capability(const cay__seat *s, const char *name)
{
    CAY_EACH_OF(it, s->caps, s->ncaps)
        if (!strcmp(it->cap->ops->name, name))
            return true;
    return false;
}

static int check_needs(const cay__seat *s, cay_err *err)
{
    CAY_EACH_OF(it, s->caps, s->ncaps)
        for (const char *const *n = it->cap->ops->needs; n && *n; n++)
            if (!has_capability(s, *n))
                return cay_fail_why(err, CAY_EINVAL, "capability_missing",
                                    "capability %s of agent %.60s needs capability %s beside it",
                                    it->cap->ops->name, s->agent->name, *n);
    return 0;
}

static int start_capabilities(cay_run *r, cay__seat *s, cay_err *err)
{
    cay_capability *const *list = s->agent->capabilities;
    cay_capability *standard[8];
    size_t n = s->agent->ncapabilities;
    if (!list) {
        n = s->nmade = cay__default_capabilities(standard);
        s->made = cay__alloc(n * sizeof *s->made);
        memcpy(s->made, standard, n * sizeof *s->made);
        list = s->made;
    }
    s->caps = cay__alloc((CAY_OR(n, 1)) * sizeof *s->caps);
    for (size_t i = 0; i < n; i++) {
        if (!list[i])
            return cay_fail_why(err, CAY_EINVAL, "spec_size",
                                "capability %zu of agent %.60s could not be made: set the size of "
                                "its options to their sizeof",
                                i + 1, s->agent->name);
        s->caps[i].cap = list[i];
    }
    s->ncaps = n;
    int rc = check_needs(s, err);
    size_t done = 0;
    cay_scope_info scope = { .size = sizeof scope,
                             .run = r,
                             .sandbox = s->sb,
                             .user = s->agent->run_as,
                             .workdir = s->workdir,
                             .cwd = s->cwd,
                             .model = cay__seat_model(r, s) };
    for (; rc == 0 && done < n; done += rc == 0)
        if (list[done]->ops->start &&
            (rc = list[done]->ops->start(list[done]->self, &scope, &s->caps[done].bound, err)) < 0)
            cay_wrap(err, rc, "capability %s", list[done]->ops->name);
    s->ncaps = done; /* what was not started is not stopped */
    return rc;
}

static int add_tools(cay__seat *s, const cay_tool *const *list, size_t n, cay_err *err)
{
    CAY_EACH_OF(it, list, n) {
        CAY_GROW(s->tools, s->ntools);
        cay_tool *t = s->tools[s->ntools++] = cay__alloc(sizeof *t);
        CAY_TRY(cay__spec_take(t, sizeof *t, *it, "cay_tool", err));
        if (!t->hosted)
            continue;
        if (!s->hosted)
            s->hosted = json_array();
        CAY_TRY(cay__hosted_add(s->hosted, t->hosted, err));
        free(s->tools[--s->ntools]);
    }
    return 0;
}

static int merge_extra(cay__seat *s, char *more, cay_err *err)
{
    CAY_AUTOFREE char *text = more;
    CAY_AUTOJSON *a = NULL, *b = NULL;
    if (!text)
        return 0;
    CAY_TRY(cay__json_object("a capability's addition to the request", text, &b, err));
    if (s->extra)
        CAY_TRY(cay__json_object("the request", s->extra, &a, err));
    json_t *both = CAY_OR(a, b);
    if (a)
        json_object_update_recursive(a, b);
    free(s->extra);
    s->extra = cay__json_text(both, 1 << 20);
    return 0;
}

/* Which tools came from which MCP server. */
static void trace_servers(cay_run *r, const cay_agent *a)
{
    const char *last = NULL;
    cay__span *span = NULL;
    json_t *names = NULL;
    for (size_t i = 0; r->span && i < a->ntools; i++) {
        const char *server = cay__mcp_server_of(a->tools[i]);
        if (server != last) {
            cay__span_end(span, NULL);
            span = CAY_IF(server, cay__span_begin(r, "mcp_tools", server));
            names = json_array();
            cay__span_data(span, "result", names);
        }
        last = server;
        if (span)
            json_array_append_new(names, json_string(a->tools[i]->name));
    }
    cay__span_end(span, NULL);
}

/* Who calls one of its tools all the same is told that the capability is not available, and not
 * that there is no such tool. */
static int withhold_tools(cay__seat *s, cay__bound *b, cay_err *err)
{
    const cay_tool *const *tools = NULL;
    size_t n = 0;
    b->off = true;
    if (b->cap->ops->tools)
        CAY_TRY(b->cap->ops->tools(b->bound, &tools, &n, err));
    if (n && !s->withheld)
        s->withheld = json_object();
    CAY_EACH_OF(tool, tools, n)
        cay__json_put(s->withheld, (*tool)->name, b->cap->ops->name);
    return 0;
}

static int collect_tools(cay_run *r, cay__seat *s, cay_err *err)
{
    CAY_TRY(add_tools(s, s->agent->tools, s->agent->ntools, err));
    trace_servers(r, s->agent);
    CAY_EACH_OF(it, s->caps, s->ncaps) {
        const cay_capability *c = it->cap;
        const cay_tool *const *tools = NULL;
        size_t n = 0;
        char *more = NULL;
        if (c->ops->check && !c->ops->check(it->bound)) {
            CAY_TRY(withhold_tools(s, it, err));
            continue;
        }
        if (c->ops->tools)
            CAY_TRY(c->ops->tools(it->bound, &tools, &n, err));
        size_t first = s->ntools;
        if (n)
            CAY_TRY(add_tools(s, tools, n, err));
        for (; c->configure && first < s->ntools; first++)
            CAY_TRY(c->configure(c->configure_arg, s->tools[first], err));
        if (c->ops->sampling)
            CAY_TRY(c->ops->sampling(it->bound, &more, err));
        CAY_TRY(merge_extra(s, more, err));
    }
    return cay__tools_json(s, cay__seat_model(r, s), &s->tools_json, err);
}

static int take_agent(cay__seat *s, cay_err *err)
{
    void *free_ = NULL;
    if (!__atomic_compare_exchange_n(&s->given->busy_, &free_, (void *)s, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return cay_fail_why(
            err, CAY_EBUSY, "agent_busy",
            "agent %.60s is in another run already; a run of its own needs a copy of it",
            s->agent->name);
    s->busy = true;
    return 0;
}

/* Its mark of being in a run is the last thing that every form of it has. */
static int look_at_agent(cay__seat *s, cay_err *err)
{
    const size_t least = offsetof(cay_agent, busy_) + sizeof s->own.busy_;
    if (s->given->size < least)
        return cay_fail_why(err, CAY_EINVAL, "spec_size",
                            "cay_agent.size is %zu; set it to sizeof(cay_agent)", s->given->size);
    return cay__spec_take(&s->own, sizeof s->own, s->given, "cay_agent", err);
}

static int set_up(cay_run *r, cay__seat *s, cay__span *span, cay_err *err)
{
    CAY_TRY(look_around(r, s, span, err));
    CAY_TRY(check_cwd(r, s, err));
    CAY_TRY(cay__limits_make(r, s, &s->limits, err));
    return start_capabilities(r, s, err);
}

static int enter_sandbox(cay_run *r, cay__seat *s, cay_err *err)
{
    CAY_TRY(take_agent(s, err));
    CAY_TRY(get_sandbox(r, s, err));
    cay__span *span = named_span(s, cay__span_seat(r, s, "start"));
    return cay__span_close(span, set_up(r, s, span, err), err);
}

int cay__seat_prepare(cay_run *r, cay__seat *s, cay_err *err)
{
    CAY_TRY(look_at_agent(s, err));
    if (!cay__seat_model(r, s))
        return cay_fail_why(err, CAY_EINVAL, "model_missing",
                            "agent %.60s has no model, and the run has none for it",
                            s->agent->name);
    if (s->ready) {
        if (s->sb)
            return check_cwd(r, s, err);
        return 0;
    }
    CAY_TRY(cay__hosted_check(s->agent, cay__seat_model(r, s), err));
    cay__span *span = begin_span(r, s, "sandbox.prepare_agent");
    cay_err own = CAY_ERR_INIT;
    int rc = 0;
    if (s->agent->sandbox)
        rc = enter_sandbox(r, s, &own);
    if (rc == 0)
        rc = collect_tools(r, s, &own);
    s->ready = rc == 0;
    return cay__err_pass(cay__span_close(span, rc, &own), &own, err);
}

bool cay__run_give_sandbox(cay_run *r, const cay_sandbox *sb)
{
    bool given = false;
    CAY_EACH_LINK(s, r->seats)
        if (!r->conf->keep && s->sb == sb && s->owned) {
            s->owned = false;
            given = true;
        }
    return given;
}

void cay__seat_close(cay_run *r, cay__seat *s, bool keep)
{
    bool ends = s->sb && s->owned && !keep;
    cay__span *whole = CAY_IF(ends, begin_span(r, s, "sandbox.cleanup"));
    cay__span *span = CAY_IF(ends, named_span(s, cay__span_seat(r, s, "stop")));
    for (size_t i = s->ncaps; i-- > 0;)
        if (s->caps[i].cap->ops->stop)
            s->caps[i].cap->ops->stop(s->caps[i].bound);
    cay__span_end(span, NULL);
    CAY_EACH_OF(it, s->made, s->nmade)
        cay_cap_free(*it);
    if (ends) {
        cay_err err = CAY_ERR_INIT;
        span = named_span(s, cay__span_seat(r, s, "shutdown"));
        int rc = cay_sandbox_remove(s->sb, NULL, &err);
        cay__span_close(span, rc, &err);
        cay__span_close(whole, rc, &err);
        if (rc < 0) /* the run's own result stands */
            cay__run_note(r, "cleanup", err.msg, NULL);
    }
    if (s->sb)
        cay_sandbox_unref(s->sb);
    if (s->busy)
        __atomic_store_n(&s->given->busy_, NULL, __ATOMIC_RELEASE);
    free(s->caps);
    free(s->made);
    CAY_EACH_OF(tool, s->tools, s->ntools)
        free(*tool);
    free(s->tools);
    free(s->tools_json);
    json_decref(s->hosted);
    json_decref(s->withheld);
    free(s->extra);
    free(s->resume);
    free(s->tree);
    free(s->mounts);
    cay__limits_free(s->limits);
    free(s);
}

cay_capability *cay_capability_new(const cay_capability_ops *ops, void *self)
{
    cay_capability *c = cay__alloc(sizeof *c);
    c->ops = &c->own;
    c->self = self;
    if (ops && cay__spec_take(&c->own, sizeof c->own, ops, "cay_capability_ops", NULL) == 0 &&
        c->own.name)
        return c;
    free(c);
    return NULL;
}

void cay_cap_free(cay_capability *c)
{
    if (!c)
        return;
    if (c->ops->close)
        c->ops->close(c->self);
    free(c);
}

void cay_cap_configure(cay_capability *c, int (*fn)(void *arg, cay_tool *tool, cay_err *err),
                       void *arg)
{
    c->configure = fn;
    c->configure_arg = arg;
}

void *cay__capability_self(const cay_capability *c, const char *name)
{
    if (strcmp(c->ops->name, name))
        return NULL;
    return c->self;
}

void *cay__kit_begin(size_t size, const cay_scope_info *scope)
{
    cay__kit *k = cay__alloc(size);
    *k = (cay__kit){ .run = scope->run,
                     .sb = cay_sandbox_ref(scope->sandbox),
                     .root = cay__strdup(scope->workdir),
                     .cwd = cay__strdup(scope->cwd),
                     .user = cay__strdup_if(scope->user) };
    return k;
}

void cay__kit_stop(void *kit)
{
    cay__kit *k = kit;
    cay_sandbox_unref(k->sb);
    free(k->root);
    free(k->cwd);
    free(k->user);
    free(k);
}

int cay__kit_tools(void *kit, const cay_tool *const **out, size_t *n, cay_err *err)
{
    cay__kit *k = kit;
    *out = k->tools;
    *n = k->ntools;
    return 0;
}

int cay__workdir_of(cay_sandbox *sb, const cay_call *call, char **out, cay_err *err)
{
    cay_info *info = NULL;
    CAY_TRY(cay_sandbox_describe(sb, call, &info, err));
    *out = cay__strdup(cay__text_or(info->workdir, "/workspace"));
    cay_info_free(info);
    return 0;
}

bool cay__ends_run(int rc)
{
    return rc == CAY_ECANCELED || rc == CAY_ETIMEOUT || rc == CAY_EGONE;
}

const char *cay_cap_name(const cay_capability *c)
{
    return c->ops->name;
}

size_t cay__default_capabilities(cay_capability **out)
{
    out[0] = cay_cap_filesystem(NULL);
    out[1] = cay_cap_shell(NULL);
    out[2] = cay_cap_compaction(NULL);
    return 3;
}
