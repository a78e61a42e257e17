/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages and steps with all their words known, and the key of each: what is below it, what it says,
 * the variables that it sees and the content of what it copies. Nothing is made here, so a build of
 * which all is there already ends here.
 */
#include "build.h"
#include "image.h"

#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* One stage while it is gone through. */
typedef struct pass {
    cay__builder *b;
    cay__bstage *st;
    json_t *args; /* in scope: name → value */
    json_t *globals;
    bool cmd_set;
    char key[CAY__SHA256_HEX];
    const char *const *shell;
} pass;

int cay__plan_bad(const cay__builder *b, const cay__step *s, int rc, cay_err *err)
{
    if (b->recipe.steps_as_root)
        return cay_wrap(err, rc, "%.40s: step %u (%s)", b->file, s->line, cay__step_name(s->kind));
    return cay_wrap(err, rc, "%.60s:%u: %s", b->file, s->line, cay__step_name(s->kind));
}

void cay__plan_sum(cay__sha256 *sum, const char *text)
{
    cay__sha256_add(sum, CAY_OR(text, ""), strlen(CAY_OR(text, "")) + 1);
}

json_t *cay__config_part(json_t *config, const char *name, json_type type)
{
    json_t *part = json_object_get(config, name);
    if (!part || json_typeof(part) != type) {
        json_object_set_new(config, name, part = json_pack(type == JSON_ARRAY ? "[]" : "{}"));
    }
    return part;
}

static json_t *env_of(const pass *p)
{
    return cay__config_part(p->st->config, "env", JSON_OBJECT);
}

static const char *get_var(const char *name, void *arg)
{
    pass *p = arg;
    const char *v = NULL;
    if (p->st)
        v = cay__json_str(env_of(p), name, NULL);
    v = CAY_OR(v, cay__json_str(p->args, name, NULL));
    if (v || strcmp(name, "PATH") || !p->st)
        return v;
    return USUAL_PATH;
}

static int expand_word(pass *p, const cay__step *s, const char *word, const char **out,
                       cay_err *err)
{
    char *got = NULL;
    if (s && s->literal) {
        *out = word;
        return 0;
    }
    CAY_TRY(cay__recipe_expand(word, p->b->recipe.escape, get_var, p, &got, err));
    *out = cay__arena_adopt(&p->b->mem, got);
    return 0;
}

static void arg_used(cay__builder *b, const char *name)
{
    b->used[b->nused++] = name;
}

static const char *arg_given(const cay__builder *b, const char *name)
{
    for (const cay_pair *a = b->spec->args; a && a->key; a++)
        if (!strcmp(a->key, name))
            return CAY_OR(a->value, "");
    return NULL;
}

/* ARG: what the caller gives, else the default, else what a global one of that name is. */
static int take_args(pass *p, const cay__step *s, cay_err *err)
{
    for (size_t i = 0; i < s->nwords; i += 2) {
        const char *name = s->words[i], *v = arg_given(p->b, name);
        if (v) {
            arg_used(p->b, name);
        } else if (*s->words[i + 1] == '=') {
            CAY_TRY(expand_word(p, s, s->words[i + 1] + 1, &v, err));
        } else {
            v = cay__json_str(p->globals, name, NULL);
        }
        json_t *text = NULL;
        if (v)
            text = json_string(v);
        if (v && !text)
            return cay_fail_why(err, CAY_EINVAL, "build_arg", "the value of %.60s is no UTF-8",
                                name);
        if (text)
            json_object_set_new(p->args, name, text);
    }
    return 0;
}

/* What a Dockerfile may ask about the machine. */
static json_t *make_platform_args(void)
{
    char both[80];
    cay__image_platform(both, sizeof both);
    const char *arch = strchr(both, '/') + 1;
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "TARGETPLATFORM", both, "TARGETOS",
                     "linux", "TARGETARCH", arch, "TARGETVARIANT", "", "BUILDPLATFORM", both,
                     "BUILDOS", "linux", "BUILDARCH", arch, "BUILDVARIANT", "");
}

/* The environment of a command: ARG below ENV. Sorted, so that the key does not depend on the order
 * of lines. */
static const cay_pair *pairs_of(pass *p)
{
    CAY_AUTOJSON *all = json_deep_copy(p->args);
    const char *key;
    json_t *v;
    size_t n = 0;
    json_object_update(all, env_of(p));
    cay_pair *out = cay__arena_take(&p->b->mem, (json_object_size(all) + 1) * sizeof *out);
    const char **names = cay__alloc((json_object_size(all) + 1) * sizeof *names);
    json_object_foreach(all, key, v)
        names[n++] = key;
    for (size_t i = 1; i < n; i++) /* few */
        for (size_t k = i; k && strcmp(names[k - 1], names[k]) > 0; k--) {
            const char *t = names[k];
            names[k] = names[k - 1];
            names[k - 1] = t;
        }
    for (size_t i = 0; i < n; i++)
        out[i] = (cay_pair){ cay__arena_str(&p->b->mem, names[i]),
                             cay__arena_str(&p->b->mem, cay__json_str(all, names[i], "")) };
    free(names);
    return out;
}

/* steps that only change what is
 * told */

static int set_text(pass *p, const char *name, const char *text, cay_err *err)
{
    json_t *v = json_string(text);
    if (!v)
        return cay_fail_why(err, CAY_EINVAL, "build_step", "%.60s is no UTF-8", name);
    json_object_set_new(p->st->config, name, v);
    return 0;
}

static int on_pairs(pass *p, const cay__step *s, cay_err *err)
{
    const char *part = "labels";
    if (s->kind == CAY__STEP_ENV)
        part = "env";
    json_t *to = cay__config_part(p->st->config, part, JSON_OBJECT);
    CAY_AUTOJSON *fresh = json_object(); /* all of one line see what was before it */
    for (size_t i = 0; i < s->nwords; i += 2) {
        const char *name, *v;
        CAY_TRY(expand_word(p, s, s->words[i], &name, err));
        CAY_TRY(expand_word(p, s, s->words[i + 1], &v, err));
        json_t *text = json_string(v);
        if (!text || json_object_set_new(fresh, name, text) < 0)
            return cay_fail_why(err, CAY_EINVAL, "build_step", "%.60s is no UTF-8", name);
    }
    json_object_update(to, fresh);
    return 0;
}

static const char *cwd_of(const pass *p)
{
    return cay__json_str(p->st->config, "workdir", p->st->host ? "/workspace" : "/");
}

static int on_workdir(pass *p, const cay__step *s, const char **out, cay_err *err)
{
    const char *dir, *at = cwd_of(p);
    char path[4200];
    CAY_TRY(expand_word(p, s, s->words[0], &dir, err));
    if (!*dir || !CAY_JOIN(path, *dir == '/' ? "" : at,
                           *dir == '/' || at[strlen(at) - 1] == '/' ? "" : "/", dir))
        return cay_fail_why(err, CAY_EINVAL, "build_step",
                            "the directory is empty or longer than 4095 bytes");
    *out = cay__arena_str(&p->b->mem, path);
    return set_text(p, "workdir", path, err);
}

static int on_user(pass *p, const cay__step *s, cay_err *err)
{
    const char *user;
    CAY_TRY(expand_word(p, s, s->words[0], &user, err));
    if (!*user || *user == ':' || strlen(user) > 120 || strpbrk(user, " \t\n/"))
        return cay_fail_why(err, CAY_EINVAL, "build_step", "%.60s is no user", user);
    return set_text(p, "user", user, err);
}

static int on_expose(pass *p, const cay__step *s, cay_err *err)
{
    json_t *ports = cay__config_part(p->st->config, "ports", JSON_ARRAY);
    CAY_EACH_OF(word, s->words, s->nwords) {
        const char *text;
        unsigned a, z;
        bool udp;
        CAY_TRY(expand_word(p, s, *word, &text, err));
        if (!cay__recipe_port(text, &a, &z, &udp) || z - a > 1000)
            return cay_fail_why(err, CAY_EINVAL, "build_step", "%.60s is no port", text);
        for (; a <= z; a++) {
            char one[24];
            size_t k;
            CAY_FORMAT(one, "%u/%s", a, udp ? "udp" : "tcp");
            for (k = 0; k < json_array_size(ports); k++)
                if (json_is_string(json_array_get(ports, k)) &&
                    !strcmp(json_string_value(json_array_get(ports, k)), one))
                    break;
            if (k == json_array_size(ports))
                json_array_append_new(ports, json_string(one));
        }
    }
    return 0;
}

static int on_argv(pass *p, const cay__step *s, const char *name, cay_err *err)
{
    json_t *list = json_array();
    for (size_t i = 0; !s->exec && p->shell[i]; i++)
        json_array_append_new(list, json_string(p->shell[i]));
    CAY_EACH_OF(word, s->words, s->nwords)
        if (json_array_append_new(list, json_string(*word)) < 0) {
            json_decref(list);
            return cay_fail_why(err, CAY_EINVAL, "build_step", "it is no UTF-8");
        }
    if (s->kind == CAY__STEP_SHELL)
        p->shell = cay__json_strings(&p->b->mem, list, NULL);
    json_object_set_new(p->st->config, name, list);
    /* A new entry point does not get the words that were meant for the old one. */
    if (s->kind == CAY__STEP_ENTRYPOINT && !p->cmd_set)
        json_object_del(p->st->config, "cmd");
    p->cmd_set |= s->kind == CAY__STEP_CMD;
    return 0;
}

static const char *step_user(const pass *p, const cay__step *s)
{
    const char *u = cay__json_str(p->st->config, "user", "");
    return CAY_OR(s->user, !*u || *u == ':' ? "root" : cay__arena_str(&p->b->mem, u));
}

static int words_known(pass *p, cay__task *t, cay_err *err)
{
    const cay__step *s = t->step;
    const char **w = cay__arena_take(&p->b->mem, (s->nwords + 1) * sizeof *w);
    for (size_t i = 0; i < s->nwords; i++)
        CAY_TRY(expand_word(p, s, s->words[i], &w[i], err));
    t->words = w;
    if (s->chown)
        CAY_TRY(expand_word(p, s, s->chown, &t->chown, err));
    const char *mode = NULL;
    if (s->chmod)
        CAY_TRY(expand_word(p, s, s->chmod, &mode, err));
    if (mode && !cay__recipe_mode(mode, &t->mode))
        return cay_fail_why(err, CAY_EINVAL, "build_step",
                            "--chmod=%.20s: it is octal digits, such as 0755", mode);
    return 0;
}

static int mount_word(void *arg, const char *word, const char **out, cay_err *err)
{
    return expand_word(arg, NULL, word, out, err);
}

static int work_key(pass *p, cay__task *t, cay_err *err)
{
    const cay__step *s = t->step;
    char num[64];
    cay__sha256 sum;
    cay__sha256_begin(&sum);
    cay__plan_sum(&sum, p->key);
    CAY_FORMAT(num, "%d %d %d %o %zu", (int)s->kind, s->exec, s->offline, t->mode, s->nwords);
    cay__plan_sum(&sum, num);
    CAY_EACH_OF(word, t->words, s->nwords)
        cay__plan_sum(&sum, *word);
    cay__plan_sum(&sum, t->chown);
    cay__plan_sum(&sum, t->cwd);
    if (s->kind == CAY__STEP_RUN) {
        cay__plan_sum(&sum, t->user);
        for (const cay_pair *e = t->env; e->key; e++) {
            cay__plan_sum(&sum, e->key);
            cay__plan_sum(&sum, e->value);
        }
        for (size_t i = 0; !s->exec && t->shell[i]; i++)
            cay__plan_sum(&sum, t->shell[i]);
        CAY_TRY(cay__lent_plan(p->b, p->st, t, mount_word, p, &sum, err));
    } else if (s->kind == CAY__STEP_FILE) {
        cay__plan_sum(&sum, s->name);
        cay__sha256_add(&sum, s->data, s->len);
    } else if (s->kind != CAY__STEP_WORKDIR) {
        CAY_TRY(cay__plan_copy(p->b, p->st, t, &sum, err));
    }
    cay__sha256_end(&sum, t->key);
    memcpy(p->key, t->key, sizeof p->key);
    return 0;
}

static int on_work(pass *p, const cay__step *s, cay_err *err)
{
    cay__task *t = &p->st->tasks[p->st->ntasks++];
    *t = (cay__task){ .step = s, .fetched = -1, .shell = p->shell };
    t->pick.mem = &p->b->mem;
    if (s->kind == CAY__STEP_WORKDIR) {
        const char **w = cay__arena_take(&p->b->mem, 2 * sizeof *w);
        CAY_TRY(on_workdir(p, s, &w[0], err));
        t->words = w;
    } else {
        CAY_TRY(words_known(p, t, err));
        t->no = ++p->b->steps;
    }
    t->cwd = cay__arena_str(&p->b->mem, CAY_OR(s->cwd, cwd_of(p)));
    t->user = step_user(p, s);
    t->env = CAY_IF(s->kind == CAY__STEP_RUN, pairs_of(p));
    return work_key(p, t, err);
}

static int one_step(pass *p, const cay__step *s, cay_err *err)
{
    switch (s->kind) {
    case CAY__STEP_ARG: return take_args(p, s, err);
    case CAY__STEP_ENV:
    case CAY__STEP_LABEL: return on_pairs(p, s, err);
    case CAY__STEP_USER: return on_user(p, s, err);
    case CAY__STEP_EXPOSE: return on_expose(p, s, err);
    case CAY__STEP_CMD: return on_argv(p, s, "cmd", err);
    case CAY__STEP_ENTRYPOINT: return on_argv(p, s, "entrypoint", err);
    case CAY__STEP_SHELL: return on_argv(p, s, "shell", err);
    default: return on_work(p, s, err);
    }
}

long cay__plan_stage(const cay__builder *b, const char *name, size_t before)
{
    uint64_t no;

    for (size_t i = 0; i < before; i++)
        if (b->recipe.stages[i].name && !strcasecmp(b->recipe.stages[i].name, name))
            return (long)i;
    if (cay__str_to_u64(name, &no) && no < before)
        return (long)no;
    return -1;
}

/* The same of FROM, where a number is the name of a template. */
static long stage_named(const cay__builder *b, const char *name, size_t before)
{
    if (*name >= '0' && *name <= '9')
        return -1;
    return cay__plan_stage(b, name, before);
}

static void base_sum(cay__bstage *st, const cay__builder *b, const char *word,
                     const char *const *layers)
{
    cay__sha256 sum;
    cay__sha256_begin(&sum);
    cay__plan_sum(&sum, "cay build 1");
    /* What one tenant's step left is nobody else's. */
    cay__plan_sum(&sum, CAY_OR(b->spec->tenant, "default"));
    cay__plan_sum(&sum, word);
    for (; layers && *layers; layers++)
        cay__plan_sum(&sum, *layers);
    cay__sha256_end(&sum, st->base_key);
}

static int base_template(cay__builder *b, cay__bstage *st, const char *name, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    if (!strcmp(name, CAY__BUILD_HOST) || !strcmp(name, CAY__BUILD_SCRATCH)) {
        st->host = *name == 'h';
        st->ref = cay__arena_str(&b->mem, name);
        st->config = json_object();
        base_sum(st, b, name, NULL);
        return 0;
    }
    CAY_TRY(cay__build_need(b, name, &t, err));
    st->host = !strcmp(t->base, CAY__BUILD_HOST);
    st->ref = cay__arena_str(&b->mem, t->id);
    base_sum(st, b, t->base, t->layers);
    return cay__json_object("the base's config", cay__text_or(t->config, "{}"), &st->config, err);
}

/* What FROM and --from name: numbers and names of stages before names of templates. */
static int resolve_stage(pass *p, size_t i, cay_err *err)
{
    cay__builder *b = p->b;
    cay__bstage *st = &b->stages[i];
    const char *name, *platform;
    p->st = NULL; /* only global arguments are seen */
    CAY_TRY(expand_word(p, NULL, st->st->from, &name, err));
    if (!*name)
        return cay_fail_why(err, CAY_EINVAL, "dockerfile_invalid",
                            "FROM %.60s names nothing: give the argument a default, or --build-arg",
                            st->st->from);
    if (st->st->platform) {
        CAY_TRY(expand_word(p, NULL, st->st->platform, &platform, err));
        const char *own = cay__json_str(p->globals, "TARGETPLATFORM", "");
        size_t n = strlen(own);
        if (strncmp(platform, own, n) || (platform[n] && platform[n] != '/'))
            return cay_fail_why(err, CAY_ENOTSUP, "build_platform",
                                "--platform=%.60s: this machine builds for %s", platform, own);
    }
    st->base = stage_named(b, name, i);
    st->ref = name;
    return 0;
}

static void want_stage(cay__builder *b, size_t i);

/* What --from of a step in stage i names, if it is a stage. */
static void want_from(cay__builder *b, size_t i, const char *from)
{
    long s = -1;
    if (from)
        s = cay__plan_stage(b, from, i);
    if (s >= 0)
        want_stage(b, (size_t)s);
}

static void want_stage(cay__builder *b, size_t i)
{
    if (b->stages[i].wanted)
        return;
    b->stages[i].wanted = true;
    if (b->stages[i].base >= 0)
        want_stage(b, (size_t)b->stages[i].base);
    const cay__stage *st = b->stages[i].st;
    for (size_t k = st->first; k < st->first + st->n; k++) {
        const cay__step *s = &b->recipe.steps[k];
        want_from(b, i, s->from);
        CAY_EACH_OF(mount, s->mounts, s->nmounts)
            want_from(b, i, mount->from);
    }
}

/* A snapshot after each step that changes files; files that come one after another share one. */
static void mark_saves(cay__bstage *st)
{
    for (size_t i = 0; i < st->ntasks; i++) {
        cay__step_kind k = st->tasks[i].step->kind;
        bool last = i + 1 == st->ntasks;
        st->tasks[i].saves =
            last || (k != CAY__STEP_WORKDIR &&
                     !(k == CAY__STEP_FILE && st->tasks[i + 1].step->kind == CAY__STEP_FILE));
    }
}

static int plan_stage(pass *p, size_t i, cay_err *err)
{
    static const char *const usual[] = { "/bin/sh", "-c", NULL };
    cay__builder *b = p->b;
    cay__bstage *st = &b->stages[i];
    if (st->base >= 0) {
        const cay__bstage *from = &b->stages[st->base];
        st->config = json_deep_copy(from->config);
        st->host = from->host;
        memcpy(st->base_key, from->key, sizeof st->base_key);
    } else {
        CAY_TRY(base_template(b, st, st->ref, err));
    }
    p->st = st;
    st->base_user = cay__arena_str(&b->mem, cay__json_str(st->config, "user", ""));
    p->cmd_set = false;
    const json_t *shell = json_object_get(st->config, "shell");
    if (json_array_size(shell))
        p->shell = cay__json_strings(&b->mem, shell, NULL);
    else
        p->shell = usual;
    json_object_clear(p->args);
    memcpy(p->key, st->base_key, sizeof p->key);
    if (b->recipe.steps_as_root) /* whoever it is for afterwards */
        json_object_del(st->config, "user");
    st->tasks = cay__arena_take(&b->mem, (st->st->n + 1) * sizeof *st->tasks);
    for (size_t k = st->st->first; k < st->st->first + st->st->n; k++)
        CAY_TRY(cay__plan_bad(b, &b->recipe.steps[k], one_step(p, &b->recipe.steps[k], err), err));
    memcpy(st->key, p->key, sizeof st->key);
    mark_saves(st);
    return 0;
}

static int find_target(cay__builder *b, cay_err *err)
{
    b->target = b->nstages - 1;
    if (!b->spec->target)
        return 0;
    long s = cay__plan_stage(b, b->spec->target, b->nstages);
    if (s < 0)
        return cay_fail_why(err, CAY_ENOENT, "build_target", "%.60s has no stage %.60s", b->file,
                            b->spec->target);
    b->target = (size_t)s;
    return 0;
}

static int from_bad(const cay__builder *b, size_t i, int rc, cay_err *err)
{
    if (b->recipe.steps_as_root)
        return cay_wrap(err, rc, "%.60s: from", b->file);
    return cay_wrap(err, rc, "%.60s:%u: FROM", b->file, b->stages[i].st->line);
}

static int plan_all(pass *p, cay_err *err)
{
    cay__builder *b = p->b;
    CAY_EACH_OF(global, b->recipe.globals, b->recipe.nglobals) {
        p->st = NULL;
        CAY_TRY(cay__plan_bad(b, global, take_args(p, global, err), err));
    }
    json_object_update(p->globals, p->args);
    for (size_t i = 0; i < b->nstages; i++) {
        json_object_clear(p->args);
        json_object_update(p->args, p->globals);
        CAY_TRY(from_bad(b, i, resolve_stage(p, i, err), err));
    }
    CAY_TRY(find_target(b, err));
    want_stage(b, b->target);
    for (size_t i = 0; i < b->nstages; i++) {
        int rc = 0;
        if (b->stages[i].wanted)
            rc = plan_stage(p, i, err);
        if (rc < 0 && !strstr(CAY_TEXT_IF(err, err->msg), b->file))
            return from_bad(b, i, rc, err);
        CAY_TRY(rc);
    }
    return 0;
}

int cay__plan_stages(cay__builder *b, cay_err *err)
{
    CAY_AUTOJSON *args = json_object(), *globals = make_platform_args();
    size_t most = 0;
    b->nstages = b->recipe.nstages;
    b->stages = cay__arena_take(&b->mem, b->nstages * sizeof *b->stages);
    for (size_t i = 0; i < b->nstages; i++)
        b->stages[i] = (cay__bstage){ .st = &b->recipe.stages[i], .base = -1 };
    CAY_EACH_OF(step, b->recipe.steps, b->recipe.nsteps) {
        if (step->kind == CAY__STEP_ARG)
            most += step->nwords;
    }
    CAY_EACH_OF(global, b->recipe.globals, b->recipe.nglobals)
        most += global->nwords;
    b->used = cay__arena_take(&b->mem, (most + 1) * sizeof *b->used);
    CAY_TRY(plan_all(&(pass){ .b = b, .args = args, .globals = globals }, err));
    for (const cay_pair *a = b->spec->args; a && a->key; a++) {
        size_t i = 0;
        while (i < b->nused && strcmp(b->used[i], a->key) != 0)
            i++;
        if (i == b->nused)
            cay__report_say(&b->report, CAY_BUILD_WARN, false,
                            "the argument %.60s is asked for by no ARG", a->key);
    }
    return 0;
}
