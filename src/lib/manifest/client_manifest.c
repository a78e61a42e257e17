/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest on its way into a sandbox: judged whole, built once, found again by what it is. */
#include "client_manifest.h"
#include <cay/services.h>
#include "client_mounts.h"
#include <lib/client/secret.h>
#include <base/fault.h>
#include <limits.h>

void cay__mani_clear(cay__mani *f)
{
    for (cay_pair *p = f->extra; p && p->key; p++)
        explicit_bzero((char *)p->value, strlen(p->value));
    if (f->planned)
        cay__plan_clear(&f->plan);
    cay_manifest_free(f->m);
    *f = (cay__mani){ 0 };
}

static bool has_env(const cay_pair *env, const char *name)
{
    for (; env && env->key; env++)
        if (!strcmp(env->key, name))
            return true;
    return false;
}

static size_t count_env(const cay_pair *env)
{
    size_t n = 0;
    while (env && env[n].key)
        n++;
    return n;
}

/* What the request says itself wins. Plain values join it; the others wait for the moment they are
 * needed. */
static void take_env(const cay_manifest *m, cay_create *c, cay__arena *mem)
{
    size_t n = 0, own = count_env(c->process.env);
    cay_pair *list = cay__arena_take(mem, (m->nenv + own + 1) * sizeof *list);
    CAY_EACH_OF(item, m->env, m->nenv)
        if (item->value && !item->ephemeral && !has_env(c->process.env, item->name))
            list[n++] =
                (cay_pair){ cay__arena_str(mem, item->name), cay__arena_str(mem, item->value) };
    CAY_EACH_OF(it, c->process.env, own)
        list[n++] = *it;
    if (n)
        c->process.env = list;
}

static const char *find_given(const cay__given *g, const char *name)
{
    for (const cay_pair *e = CAY_IF(g, g->env); e && e->key; e++)
        if (!strcmp(e->key, name))
            return e->value;
    return NULL;
}

static void note_missing(cay__given *g, const char *name)
{
    CAY_AUTOBUF b = CAY__BUF(64 << 10);
    if (!g)
        return;
    cay__buf_fmt(&b, "%s%s%s", CAY_OR(g->missing, ""), CAY_TEXT_IF(g->missing, ","), name);
    if (b.full)
        return;
    free(g->missing);
    g->missing = cay__strdup(b.data);
}

/* What a record has is changed by no start. */
static int check_given(const cay_create *c, const cay__mani *f, cay_err *err)
{
    for (const cay_pair *e = CAY_IF(f->given && f->given->strict, f->given->env); e && e->key;
         e++) {
        bool found = false;
        for (size_t i = 0; f->m && i < f->m->nenv; i++)
            found |= !strcmp(f->m->env[i].name, e->key) && f->m->env[i].ephemeral &&
                     !f->m->env[i].source;
        if (!found || has_env(c->process.env, e->key))
            return cay_fail_why(err, CAY_EINVAL, "variable_kept",
                                "variable %.60s: only those that its manifest calls ephemeral are "
                                "given when a sandbox starts again",
                                e->key);
    }
    return 0;
}

/* A variable of the manifest counts unless the caller gave it, and is no part of the record unless
 * it stays. */
static bool is_extra(const cay_create *c, const cay__env *v)
{
    return !has_env(c->process.env, v->name) && (!v->value || v->ephemeral);
}

/* *value: malloc'ed. 1: there is none, and that is right. */
static int plain_value(cay__mani *f, const cay__env *v, cay__value *value, cay_err *err)
{
    const char *text = CAY_OR(v->value, find_given(f->given, v->name));
    if (text) {
        *value = (cay__value){ cay__strdup(text), strlen(text) };
        return 0;
    }
    if (!f->done)
        return cay_fail_why(
            err, CAY_EINVAL, "manifest_invalid",
            "environment %.60s: its value was left out when the manifest was saved; give it again",
            v->name);
    note_missing(f->given, v->name); /* ephemeral, and this is not the first start: it is gone, as
                                        it was meant to be */
    return 1;
}

static int read_extra(cay_client *client, const cay_create *c, cay__arena *mem, cay__mani *f,
                      cay_err *err)
{
    size_t n = 0, all = f->m->nenv;
    CAY_AUTOFREE cay__want *want = cay__alloc((all + 1) * sizeof *want);
    f->extra = cay__arena_take(mem, (all + 1) * sizeof *f->extra);
    for (size_t i = 0; i < all; i++)
        want[i] = (cay__want){ .name = f->m->env[i].name,
                               .source = CAY_IF(is_extra(c, &f->m->env[i]), f->m->env[i].source) };
    int rc = cay__secret_read_all(client, want, all, err);
    if (rc < 0)
        return cay_wrap(err, rc, "environment");
    for (size_t i = 0; i < all; i++) {
        const cay__env *v = &f->m->env[i];
        cay__value *value = &want[i].value;
        int got;
        if (rc < 0 || !is_extra(c, v))
            got = 1;
        else if (v->source)
            got = 0;
        else
            got = plain_value(f, v, value, err);
        if (got == 0) {
            char *copy = cay__arena_take(mem, value->len + 1);
            memcpy(copy, value->data, value->len);
            f->extra[n++] = (cay_pair){ v->name, copy };
        }
        cay__value_wipe(value);
        rc = CAY_MIN(rc, got);
    }
    return rc;
}

const cay_pair *cay__mani_env(const cay__mani *f, const cay_pair *env, cay__arena *mem)
{
    size_t a = count_env(f->extra), b = count_env(env);
    if (!a)
        return env;
    cay_pair *list = cay__arena_take(mem, (a + b + 1) * sizeof *list);
    memcpy(list, f->extra, a * sizeof *list);
    if (b)
        memcpy(list + a, env, b * sizeof *list);
    return list;
}

typedef struct grants {
    cay_create *c;
    cay__arena *mem;
    cay__mani *f;
    cay_grant *list;
    size_t n;
    cay_err *err;
} grants;

static void add_grant(grants *g, const char *source, const char *target, bool rw)
{
    cay_grant *list = cay__arena_take(g->mem, (g->n + 1) * sizeof *list);
    if (g->n)
        memcpy(list, g->list, g->n * sizeof *list);
    list[g->n++] =
        (cay_grant){ cay__arena_str(g->mem, source), cay__arena_str(g->mem, target), rw };
    g->list = list;
}

/* A host directory in place. Somebody else's manifest stays in the directory it was given. */
static int add_bind(grants *g, const cay_mount_target *t)
{
    CAY_AUTOJSON *o = NULL;
    char whole[PATH_MAX], real[PATH_MAX], base[PATH_MAX] = "";
    CAY_TRY(cay__json_object("mount", t->fields, &o, g->err));
    const char *source = cay__json_str(o, "source", "");
    if (g->f->base && !realpath(g->f->base, base))
        return cay_fail_sys(g->err, "manifest: its directory %.150s", g->f->base);
    if (*source != '/' && !g->f->base)
        return cay__bad(g->err, "mount_config_invalid", t->entry, "outside_base_dir",
                        "source %.80s is relative, and the manifest has no directory", source);
    bool fits;
    if (*source == '/')
        fits = CAY_COPY(whole, source);
    else
        fits = CAY_JOIN(whole, base, "/", source);
    if (!fits || !realpath(whole, real))
        return cay__bad(g->err, "mount_config_invalid", t->entry, "path_not_found",
                        "source %.80s: %s", source, strerror(fits ? errno : ENAMETOOLONG));
    if (!g->f->trusted && (!*base || !cay__path_below(real, base)))
        return cay__bad(g->err, "mount_config_invalid", t->entry, "outside_base_dir",
                        "source %.80s is outside the manifest's directory", source);
    add_grant(g, real, t->path, !t->read_only);
    return 0;
}

static int on_mount(const cay_mount_target *t, void *arg)
{
    grants *g = arg;
    if (!strcmp(t->strategy, "local_bind"))
        return add_bind(g, t);
    return cay__mounts_check(t, g->c->provider,
                             g->err); /* what serves it is asked when the sandbox is made */
}

static int take_grants(cay_create *c, cay__arena *mem, cay__mani *f, cay_err *err)
{
    grants g = { .c = c,
                 .mem = mem,
                 .f = f,
                 .list = (cay_grant *)c->files.grants,
                 .n = c->files.ngrants,
                 .err = err };
    CAY_EACH_OF(grant, f->m->grants, f->m->ngrants)
        if (grant->host_path)
            add_grant(&g, grant->host_path, grant->path, !grant->read_only);
    CAY_TRY(cay_manifest_mounts(f->m, on_mount, &g));
    c->files.grants = g.list;
    c->files.ngrants = g.n;
    return 0;
}

/* On top of those that the request has, which may be a template's. */
static int take_services(const cay_manifest *m, cay_create *c, cay__arena *mem, cay_err *err)
{
    CAY_AUTOFREE char *own = cay__json_text(m->services, CAY_MANIFEST_BYTES);
    char *both = NULL;
    CAY_TRY(cay_services_merge(c->services, own, &both, err));
    if (both)
        c->services = cay__arena_adopt(mem, both);
    else
        c->services = "{}"; /* none, and those of the template do not come back in a fork */
    return 0;
}

int cay__mani_prepare(cay_client *client, cay_create *c, cay__arena *mem, cay__mani *f,
                      cay_err *err)
{
    *f = (cay__mani){ .client = client };
    if (!c->manifest.text)
        return 0;
    if (cay__id_valid(c->manifest.text, 't')) {
        f->done = true;
        return cay__kept_get(client, c->manifest.text, true, mem, f,
                             err); /* the rest is in the record, and its files are in layers */
    }
    f->base = c->manifest.base;
    f->trusted = c->manifest.trusted;
    f->done = c->manifest.applied;
    if (!cay__seen_find(client, c, mem, f))
        CAY_TRY(cay_manifest_parse(c->manifest.text, strlen(c->manifest.text),
                                   CAY_FLAG_IF(f->trusted, CAY_MANIFEST_TRUSTED), &f->m, err));
    if (c->from.directory && !strcmp(f->m->root, CAY__ROOT) && f->m->n)
        return cay_fail_why(
            err, CAY_EINVAL, "manifest_invalid",
            "a manifest at " CAY__ROOT
            " and a directory shown there exclude each other; give the manifest another root");
    if (!c->process.workdir && strcmp(f->m->root, CAY__ROOT))
        c->process.workdir = cay__arena_str(mem, f->m->root);
    /* Whoever the request names, if the manifest makes that account, is who the files are for. */
    for (size_t i = 0; c->process.user && i < f->m->nusers; i++)
        if (!strcmp(c->process.user, f->m->users[i]))
            f->m->run_as = f->m->users[i];
    if (!c->process.user && f->m->run_as)
        c->process.user = cay__arena_str(mem, f->m->run_as);
    if (!c->net.policy && f->m->policy)
        c->net.policy = cay__arena_str(mem, f->m->policy);
    c->isolation.sudo |= f->m->sudo;
    if (f->m->services)
        CAY_TRY(take_services(f->m, c, mem, err));
    take_env(f->m, c, mem);
    return take_grants(c, mem, f, err);
}

/* Whom the layer is for and what its accounts stand on. After a power cut what was written last may
 * be lost although its name is there, so a layer is not taken over from an earlier boot. */
static void key_more(const cay_box_spec *b, const cay__plan *p, const char *template_, char *buf,
                     size_t cap)
{
    char boot[40] = "";
    bool below = p->m->nusers || p->m->ngroups || p->m->run_as || strchr(p->m->root + 1, '/');
    cay__fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    int n = snprintf(buf, cap, "uid %u boot %.36s on %s", (unsigned)geteuid(), boot,
                     below ? template_ : "");
    for (size_t i = 0; below && i < b->nlayers && n > 0 && (size_t)n < cap; i++)
        n += snprintf(buf + n, cap - (size_t)n, " %s", b->layers[i]);
}

typedef struct seen {
    const cay_create *c;
    const cay__plan *p;
} seen;

static int on_progress(cay__rec *rec, void *arg, cay_err *err)
{
    const seen *s = arg;
    cay_manifest_progress now = { .size = sizeof now,
                                  .entries_total = s->p->files,
                                  .bytes_total = s->p->bytes };
    now.entries = CAY_MIN(cay__rec_get_num(rec), s->p->files);
    now.bytes = cay__rec_get_num(rec);
    if (s->c->manifest.progress && !rec->bad)
        s->c->manifest.progress(&now, s->c->manifest.progress_arg);
    return 0;
}

static int run_build(cay_client *client, const cay_call *call, const cay__spec *spec, cay__plan *p,
                     const char *template_, const char *name, cay_err *err)
{
    CAY_AUTOFD wire = -1;
    char each[16], entries[16];
    const char *args[4 + CAY_STACK_MAX] = { name, entries, each, template_ };
    seen s = { &spec->create, p };
    CAY_FORMAT(entries, "%u", p->m->limit_entries);
    CAY_FORMAT(each, "%u", p->m->limit_files);
    for (size_t i = 0; i < spec->box.nlayers; i++)
        args[4 + i] = spec->box.layers[i];
    CAY_TRY(cay__plan_wire(p, &wire, err));
    const cay__layer_ask ask = { .verb = "build",
                                 .args = args,
                                 .nargs = 4 + spec->box.nlayers,
                                 .fds = &wire,
                                 .nfds = 1,
                                 .fn = on_progress,
                                 .arg = &s };
    return cay__layer_run(&client->layers, call, &ask, NULL, err);
}

bool cay__mani_there(cay_client *client, const char *name, bool touch)
{
    char path[64];
    struct stat st;
    CAY_JOIN(path, "layers/", name);
    if (fstatat(client->home_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (touch)
        utimensat(client->home_fd, path,
                  (struct timespec[2]){ { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } },
                  AT_SYMLINK_NOFOLLOW);
    return true;
}

static void push_layer(cay__spec *s, const char *name)
{
    const char **layers = cay__arena_take(s->mem, (s->box.nlayers + 1) * sizeof *layers);
    if (s->box.nlayers)
        memcpy(layers, s->box.layers, s->box.nlayers * sizeof *layers);
    layers[s->box.nlayers] = name;
    s->box.layers = layers;
    s->box.nlayers++;
}

static int make_layer(cay_client *client, const cay_call *call, cay__spec *s, cay__mani *f,
                      cay_err *err)
{
    const cay_create *c = &s->create;
    char template_[PATH_MAX], more[PATH_MAX + 4096];
    char *name = cay__arena_take(s->mem, CAY_ID_LEN + 1);
    if (s->box.nlayers + 2 > CAY_STACK_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "stack_too_deep",
                            "the sandbox would stand on more than %d layers", CAY_STACK_MAX);
    if (c->from.root && !realpath(c->from.root, template_))
        return cay_fail_sys(err, "root %.150s", c->from.root);
    if (!c->from.root)
        CAY_TRY(cay__layer_template(client->home_fd, CAY_OR(c->from.template_, "host"), template_,
                                    sizeof template_, err));
    key_more(&s->box, &f->plan, template_, more, sizeof more);
    CAY_TRY(cay__plan_name(&f->plan, more, name, err));
    if (!cay__mani_there(client, name, true)) {
        CAY_TRY(cay__plan_fetch(&f->plan, client, call, err));
        CAY_FAULT("manifest.build");
        CAY_TRY(run_build(client, call, s, &f->plan, template_, name, err));
        CAY_FAULT("manifest.built");
    }
    push_layer(s, name);
    return 0;
}

static int need_accounts(const cay__mani *f, const cay_provider_ops *ops, cay_err *err)
{
    if (!f->m->nusers && !f->m->ngroups)
        return 0;
    return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                        "users and groups of a manifest: provider %s has one user", ops->name);
}

/* Snapshots hold the whole root, so all that is named is in them; where there are none, nobody is
 * promised anything. */
static int need_snapshots(const cay__mani *f, const cay_provider_ops *ops, bool weaker,
                          cay_err *err)
{
    if (!f->m->npersist || (CAY__HAS(ops, snapshot) && !weaker))
        return 0;
    return cay_fail_why(err, CAY_ENOTSUP, "snapshot_unsupported",
                        "extra_persisted_roots of a manifest: %s%s keeps no snapshots",
                        weaker ? "what stands in for provider " : "provider ", ops->name);
}

int cay__mani_build(cay_client *client, const cay_call *call, const cay_provider_ops *ops,
                    cay__spec *s, cay__mani *f, cay_err *err)
{
    cay_create *c = &s->create;
    cay__arena *mem = s->mem;
    const cay__plan_ask ask = { .base = f->base,
                                .client = client,
                                .net = c->net.policy,
                                .want = CAY_IF(f->done, cay__plan_ephemeral) };
    cay_err own = CAY_ERR_INIT;
    CAY_TRY(check_given(c, f, err));
    if (!f->m)
        return 0;
    CAY_TRY(read_extra(client, c, mem, f, err));
    if (f->layer && CAY__TREES(ops) && s->box.nlayers + 2 <= CAY_STACK_MAX &&
        cay__mani_there(client, f->layer, true)) {
        push_layer(s, f->layer);
        if (!c->life.ephemeral)
            c->manifest.text = f->key;
        return 0;
    }
    if (f->layer) { /* remembered, and of no use here: then it is read after all */
        cay_manifest_free(CAY_STEAL(f->m));
        CAY_TRY(cay_manifest_parse(c->manifest.text, strlen(c->manifest.text),
                                   CAY_FLAG_IF(f->trusted, CAY_MANIFEST_TRUSTED), &f->m, err));
    }
    CAY_TRY(cay__plan_make(&f->plan, f->m, &ask, call, err));
    f->planned = true;
    if (f->done) {
        bool kept = cay__id_valid(c->manifest.text, 't') || c->life.ephemeral;
        if (kept)
            return 0;
        return cay__kept_put(client, f, c->manifest.text, mem, &c->manifest.text, err);
    }
    f->apply = !CAY__TREES(ops);
    int rc = 0;
    if (!f->apply)
        rc = make_layer(client, call, s, f, &own);
    if (rc == CAY_EISOLATION) /* a weaker provider may stand in, and has no layers */
        f->apply = true;
    else if (rc < 0)
        return cay__err_pass(rc, &own, err);
    if (f->apply)
        CAY_TRY(need_accounts(f, ops, err));
    CAY_TRY(need_snapshots(f, ops, rc == CAY_EISOLATION, err));
    if (!c->life.ephemeral)
        CAY_TRY(cay__kept_put(client, f, c->manifest.text, mem, &c->manifest.text, err));
    if (!f->apply)
        cay__seen_put(client, f, s->box.layers[s->box.nlayers - 1],
                      c->life.ephemeral ? "" : c->manifest.text);
    return 0;
}

int cay__mani_apply(const cay__mani *f, const cay_provider_ops *ops, const char *id, void *box,
                    const cay_call *call, cay_err *err)
{
    if (!f->planned || (!f->apply && !f->plan.ephemeral))
        return 0;
    if (!ops->put || !ops->mkdir || !ops->chmod)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "manifest: provider %s cannot write files", ops->name);
    CAY_TRY(cay__plan_fetch((cay__plan *)&f->plan, f->client, call, err));
    cay_sandbox *sb = cay__sandbox_new(ops, id, box);
    int rc = cay__plan_apply(&f->plan, sb, call, !f->apply, err);
    sb->box = NULL; /* the caller's */
    cay_sandbox_unref(sb);
    return rc;
}
