/* SPDX-License-Identifier: Apache-2.0 */
/* A build from its request to its template. */
#include "build.h"
#include <base/fault.h>
#include <cay/note.h>
#include <cay/policy.h>
#include <cay/services.h>
#include <lib/sandbox/sandbox.h>

static const char *const files[] = { "template.json", "Dockerfile", NULL };

static int read_text(cay__recipe *r, const char *name, const char *text, size_t len, cay_err *err)
{
    size_t i = strspn(text, " \t\r\n");
    if (text[i] == '{')
        return cay__recipe_read(r, name, text, len, err);
    return cay__dockerfile_read(r, name, text, len, err);
}

static int fail_missing(const char *file, cay_err *err)
{
    if (file)
        return cay_fail_why(err, CAY_ENOENT, "build_file", "there is no %.100s in the context",
                            file);
    return cay_fail_why(
        err, CAY_ENOENT, "build_file",
        "there is neither template.json nor Dockerfile in the context; name another with -f");
}

/* The file of a directory: in it, or, when named with a path of its own, anywhere the caller may
 * read. */
static int read_dir_file(const cay_build *spec, cay__recipe *r, const char **name, cay_err *err)
{
    CAY_AUTOFD dir = open(spec->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return cay_fail_sys(err, "open the context %.150s", spec->dir);
    CAY_AUTOFREE char *text = cay__alloc(CAY__RECIPE_BYTES + 2);
    for (const char *const *f = files; *f; f++) {
        *name = CAY_OR(spec->file, *f);
        ssize_t n = cay__fd_read_file(dir, *name, text, CAY__RECIPE_BYTES + 2);
        if (n >= 0)
            return read_text(r, *name, text, (size_t)n, err);
        if (errno != ENOENT)
            return cay_fail_sys(err, "read %.150s", *name);
        if (spec->file)
            break;
    }
    return fail_missing(spec->file, err);
}

int cay_build_check(const cay_build *given, char **json, cay_err *err)
{
    cay_build spec;
    cay__recipe r = { 0 };
    const char *name = "Dockerfile";
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_build", err));
    if (!spec.text && !spec.dir)
        return cay_fail_why(err, CAY_EINVAL, "build_context",
                            "there is nothing to build: give a directory or a text");
    name =
        CAY_OR(spec.file,
               spec.text && spec.text[strspn(spec.text, " \t\r\n")] == '{' ? files[0] : files[1]);
    if (spec.text)
        CAY_TRY(read_text(&r, name, spec.text, strlen(spec.text), err));
    else
        CAY_TRY(read_dir_file(&spec, &r, &name, err));
    if (json) {
        CAY_AUTOJSON *o = json_object();
        json_t *stages = json_array();
        CAY_EACH_OF(stage, r.stages, r.nstages) {
            json_t *steps = json_array();
            for (size_t k = stage->first; k < stage->first + stage->n; k++)
                json_array_append_new(steps, json_pack("{s:i, s:s}", "line", (int)r.steps[k].line,
                                                       "text", r.steps[k].text));
            json_array_append_new(stages, json_pack("{s:s, s:s*, s:o}", "from", stage->from, "name",
                                                    stage->name, "steps", steps));
        }
        json_object_set_new(o, "file", json_string(name));
        json_object_set_new(o, "stages", stages);
        *json = cay__json_text(o, 8u << 20);
    }
    cay__recipe_clear(&r);
    return 0;
}

/* A context that came as a tar is unpacked first: it has the file, and the list of what is left
 * out. */
static int open_tar(cay__builder *b, cay_err *err)
{
    const cay__opened *o;
    CAY_AUTOFREE char *ignore = NULL;
    size_t len = 0;
    CAY_TRY(cay__unpack(b, b->spec->tar, NULL, false, &o, err));
    if (cay__tree_get(&o->tree, ".dockerignore", 1u << 20, &b->call, &ignore, &len, NULL) < 0)
        len = 0;
    CAY_TRY(cay__tree_box(&b->context, o->sb, "/tmp/tree", ignore, len, &b->call, err));
    b->has_context = true;
    if (b->spec->text)
        return 0;
    for (const char *const *f = files; *f; f++) {
        CAY_AUTOFREE char *text = NULL;
        size_t n;
        b->file = CAY_OR(b->spec->file, *f);
        if (cay__tree_find(&o->tree, b->file)) {
            CAY_TRY(cay__tree_get(&o->tree, b->file, CAY__RECIPE_BYTES, &b->call, &text, &n, err));
            return read_text(&b->recipe, b->file, text, n, err);
        }
        if (b->spec->file)
            break;
    }
    return fail_missing(b->spec->file, err);
}

static int read_recipe(cay__builder *b, cay_err *err)
{
    const cay_build *s = b->spec;
    b->file = CAY_OR(s->file,
                     s->text && s->text[strspn(s->text, " \t\r\n")] == '{' ? files[0] : files[1]);
    if (s->tar > 0)
        CAY_TRY(open_tar(b, err));
    if (s->text)
        return read_text(&b->recipe, b->file, s->text, strlen(s->text), err);
    if (s->tar > 0)
        return 0;
    if (!s->dir)
        return cay_fail_why(err, CAY_EINVAL, "build_context",
                            "there is nothing to build: give a directory, a tar or a text");
    return read_dir_file(s, &b->recipe, &b->file, err);
}

static int find_net(cay__builder *b, cay_err *err)
{
    CAY_AUTOJSON *list = NULL;
    const char *rules[257] = { "debian", "pypi", "npm", NULL };
    if (b->spec->net) {
        b->net = cay__strdup(b->spec->net);
        return 0;
    }
    if (*b->recipe.net) {
        CAY_TRY(cay__json_any("net", b->recipe.net, &list, err));
        size_t n = CAY_MIN(json_array_size(list), CAY_LEN(rules) - 1);
        for (size_t i = 0; i < n; i++)
            rules[i] = json_string_value(json_array_get(list, i));
        rules[n] = NULL;
    }
    return cay_policy_text(&(cay_policy){ .size = sizeof(cay_policy), .rules = rules }, &b->net,
                           err);
}

static int set_json(json_t *config, const char *name, const char *text, cay_err *err)
{
    json_t *v;
    if (!*text)
        return 0;
    CAY_TRY(cay__json_any(name, text, &v, err));
    json_object_set_new(config, name, v);
    return 0;
}

/* Sizes may be written as people do. */
static int limits_numbers(json_t *limits, cay_err *err)
{
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(limits, next, key, v) {
        uint64_t n;
        if (!json_is_string(v))
            continue;
        if (!cay__str_to_size(json_string_value(v), &n) || n > INT64_MAX)
            return cay_fail_why(err, CAY_EINVAL, "template_file_invalid",
                                "limits.%.40s: %.40s is no size", key, json_string_value(v));
        json_object_set_new(limits, key, json_integer((json_int_t)n));
    }
    return 0;
}

/* By name in the file, a list in the config. */
static void services_list(json_t *config)
{
    json_t *by_name = json_object_get(config, "services"), *v;
    const char *name;
    if (!json_is_object(by_name))
        return;
    json_t *list = json_array();
    json_object_foreach(by_name, name, v) {
        json_t *one;
        if (json_is_object(v))
            one = json_copy(v);
        else
            one = json_pack("{s:O}", "command", v);
        json_object_set_new(one, "name", json_string(name));
        json_array_append_new(list, one);
    }
    json_object_set_new(config, "services", list);
}

#define START "start"

/* "start" is a service of that name, and "ready" its check; without a start, a command that ends
 * once it is ready. Who sees to both itself finds them in the config. */
static int start_service(cay__builder *b, json_t *config, cay_err *err)
{
    const cay__recipe *r = &b->recipe;
    if (!*r->start && !*r->ready)
        return 0;
    if (b->spec->keep_start) {
        if (*r->start)
            json_object_set_new(config, "start", json_string(r->start));
        if (*r->ready)
            json_object_set_new(config, "ready", json_string(r->ready));
        return 0;
    }
    json_t *list = cay__config_part(config, "services", JSON_ARRAY);
    for (size_t i = json_array_size(list); i-- > 0;)
        if (!strcmp(cay__json_str(json_array_get(list, i), "name", ""), START)) {
            if (*r->services)
                return cay_fail_why(
                    err, CAY_EINVAL, "template_file_invalid",
                    "services." START
                    ": the field \"start\" is that service; give one of them another name");
            json_array_remove(list, i); /* the base's */
        }
    CAY_AUTOFREE char *wait = cay__alloc(strlen(r->ready) + 64);
    snprintf(wait, strlen(r->ready) + 64, "until ( %s\n); do sleep 0.1; done", r->ready);
    json_t *one = json_pack("{s:s, s:s}", "name", START, "command", cay__text_or(r->start, wait));
    if (*r->start && *r->ready)
        json_object_set_new(one, "health", json_pack("{s:s}", "command", r->ready));
    if (!*r->start)
        json_object_set_new(one, "restart", json_string("no"));
    json_array_append_new(list, one);
    return 0;
}

/* As a sandbox of it would read them: what would be refused there is refused before anything is
 * built. */
static int services_sound(const json_t *config, cay_err *err)
{
    const json_t *list = json_object_get(config, "services");
    CAY_AUTOFREE char *text = NULL;
    if (list)
        text = json_dumps(list, JSON_COMPACT);
    cay_services *u = NULL;
    if (!text)
        return 0;
    int rc = cay_services_parse(text, strlen(text), &u, err);
    cay_services_free(u);
    return rc;
}

static int final_config(cay__builder *b, cay_err *err)
{
    const cay__recipe *r = &b->recipe;
    json_t *c = b->stages[b->target].config;
    const char *base_user = b->stages[b->target].base_user;
    CAY_AUTOJSON *interpreter = cay__interpreter_of(c);
    CAY_TRY(set_json(c, "services", r->services, err));
    services_list(c);
    CAY_TRY(cay__interpreter_service(r, c, interpreter, err));
    CAY_TRY(set_json(c, "limits", r->limits, err));
    CAY_TRY(limits_numbers(json_object_get(c, "limits"), err));
    if (r->sudo >= 0)
        json_object_set_new(c, "sudo", json_boolean(r->sudo));
    CAY_TRY(start_service(b, c, err));
    CAY_TRY(set_json(c, "settings", r->settings, err));
    CAY_TRY(set_json(c, "setting_files", r->setting_files, err));
    CAY_TRY(set_json(c, "interpreter", r->interpreter, err));
    CAY_TRY(services_sound(c, err));
    if (*r->user)
        json_object_set_new(c, "user", json_string(r->user));
    else if (r->steps_as_root && *base_user && !json_object_get(c, "user"))
        json_object_set_new(c, "user", json_string(base_user));
    CAY_AUTOFREE char *text = cay__json_text(c, CAY__RECIPE_BYTES);
    if (text)
        return cay_template_config_check(text, err);
    return 0; /* what is too long is told when it is recorded */
}

static int find_names(cay__builder *b, const char ***out, cay_err *err)
{
    CAY_AUTOJSON *list = NULL;
    size_t n = 0;
    if (b->spec->names && b->spec->names[0]) {
        while (b->spec->names[n])
            n++;
        *out = cay__arena_take(&b->mem, (n + 1) * sizeof **out);
        memcpy(*out, b->spec->names, n * sizeof **out);
        return 0;
    }
    if (*b->recipe.aliases)
        CAY_TRY(cay__json_any("aliases", b->recipe.aliases, &list, err));
    const char **aliases = cay__json_strings(&b->mem, list, &n);
    *out = cay__arena_take(&b->mem, (n + 2) * sizeof **out);
    if (*b->recipe.name)
        (*out)[0] = b->recipe.name;
    memcpy(*out + (*b->recipe.name != 0), aliases, n * sizeof **out);
    return 0;
}

typedef struct same {
    const char *source, *tenant;
    const json_t *config;
    char id[CAY_ID_LEN + 1];
} same;

static int on_template(const cay_template *t, void *arg)
{
    same *s = arg;
    CAY_AUTOJSON *c = NULL;
    if (strcmp(t->source, s->source) || strcmp(t->tenant, s->tenant) ||
        cay__json_object("config", t->config, &c, NULL) < 0 || !json_equal(c, (json_t *)s->config))
        return 0;
    CAY_COPY(s->id, t->id);
    return 1;
}

/* What had a name before and was built, too, is nobody's any more. */
static void drop_nameless(cay__builder *b, const char *id, const char *now)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    if (*id && strcmp(id, now) &&
        cay_template_find(b->client, NULL, b->spec->tenant, id, &t, NULL) == 0 && !t->names[0] &&
        cay__str_starts(t->source, "build:"))
        cay_template_remove(b->client, NULL, b->spec->tenant, id, NULL);
}

static int publish_template(cay__builder *b, const char *const *names, const char *source,
                            const json_t *config, char id[CAY_ID_LEN + 1], cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    CAY_AUTOFREE char *text = cay__json_text(config, 1u << 20);
    CAY_FAULT("build.publish");
    cay_template_spec spec = { .size = sizeof spec,
                               .names = names,
                               .tenant = b->spec->tenant,
                               .hidden = b->spec->hidden,
                               .from = b->stages[b->target].done,
                               .config = CAY_OR(text, "{}"),
                               .source = source };
    CAY_TRY(cay_template_publish(b->client, &b->call, &spec, &t, err));
    CAY_FAULT("build.published");
    cay__str_copy(id, CAY_ID_LEN + 1, t->id);
    return 0;
}

static int name_it(cay__builder *b, const char *const *names, const char *id, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    CAY_TRY(cay_template_find(b->client, &b->call, b->spec->tenant, id, &t, err));
    for (; *names; names++) {
        CAY_AUTOPTR(cay_template) has = NULL;
        if (cay_template_find(b->client, &b->call, b->spec->tenant, *names, &has, NULL) == 0 &&
            !strcmp(has->id, id))
            continue;
        CAY_TRY(cay_template_name(b->client, &b->call, b->spec->tenant, id, *names, err));
    }
    return 0;
}

static int build_all(cay__builder *b, char id[CAY_ID_LEN + 1], cay_err *err)
{
    const char **names = NULL;
    char source[80], before[16][CAY_ID_LEN + 1];
    size_t nbefore = 0;
    CAY_TRY(read_recipe(b, err));
    CAY_TRY(cay__interpreter_steps(b, err));
    CAY_TRY(find_net(b, err));
    CAY_TRY(find_names(b, &names, err));
    CAY_TRY(cay__plan_stages(b, err));
    CAY_TRY(final_config(b, err));
    cay__bstage *st = &b->stages[b->target];
    b->report.steps = b->steps;
    cay__report_set(&b->report, "steps", json_integer(b->steps));
    CAY_FORMAT(source, "build:%s", st->ntasks ? st->key : st->base_key);
    for (const char **n = names; *n && nbefore < CAY_LEN(before); n++) {
        CAY_AUTOPTR(cay_template) t = NULL;
        if (cay_template_find(b->client, &b->call, b->spec->tenant, *n, &t, NULL) == 0)
            cay__str_copy(before[nbefore++], sizeof before[0], t->id);
    }
    same s = { .source = source,
               .tenant = CAY_OR(b->spec->tenant, "default"),
               .config = st->config };
    if (!b->spec->no_cache)
        CAY_TRY(
            CAY_MIN(cay_template_list(b->client, &b->call,
                                      &(cay_template_filter){ .size = sizeof(cay_template_filter),
                                                              .tenant = b->spec->tenant },
                                      on_template, &s, err),
                    0));
    if (*s.id) { /* it is there, and all of its steps in it */
        CAY_EACH_OF(stage, b->stages, b->nstages)
            for (size_t k = 0; stage->wanted && k < stage->ntasks; k++)
                if (stage->tasks[k].no) {
                    b->report.step = b->at = stage->tasks[k].no;
                    cay__report_say(&b->report, CAY_BUILD_STEP, true, "%s",
                                    stage->tasks[k].step->text);
                }
        cay__str_copy(id, CAY_ID_LEN + 1, s.id);
        CAY_TRY(name_it(b, names, id, err));
    } else {
        CAY_TRY(cay__bstage_make(b, b->target, err));
        CAY_TRY(publish_template(b, names, source, st->config, id, err));
    }
    CAY_EACH_OF(it, before, nbefore)
        drop_nameless(b, *it, id);
    return 0;
}

typedef struct dead {
    char ids[64][CAY_ID_LEN + 1];
    size_t n;
} dead;

static int on_record(const char *key, const char *text, void *arg)
{
    dead *d = arg;
    CAY_AUTOJSON *o = NULL;
    if (d->n < CAY_LEN(d->ids) && cay__json_object("record", text, &o, NULL) == 0 &&
        cay__record_is(o, "building") && !cay__report_alive(o))
        cay__str_copy(d->ids[d->n++], sizeof d->ids[0], key);
    return 0;
}

static int on_box(const cay_info *i, void *arg)
{
    dead *d = arg;
    if (d->n < CAY_LEN(d->ids))
        cay__str_copy(d->ids[d->n++], sizeof d->ids[0], i->id);
    return 0;
}

/* Sandboxes of a build that is no more. */
static void sweep_of(cay_client *client, const char *build)
{
    const cay_pair labels[] = { { CAY__BUILD_LABEL, build }, { NULL, NULL } };
    CAY_AUTOFREE dead *boxes = cay__alloc(sizeof *boxes);
    cay_client_list(client, NULL, &(cay_filter){ .size = sizeof(cay_filter), .labels = labels },
                    on_box, boxes, NULL);
    CAY_EACH_OF(it, boxes->ids, boxes->n) {
        CAY_AUTOPTR(cay_sandbox) sb = NULL;
        if (cay_client_find(client, NULL, *it, &sb, NULL) == 0)
            cay_sandbox_remove(sb, NULL, NULL);
    }
}

void cay__build_sweep(cay_client *client)
{
    CAY_AUTOFREE dead *d = cay__alloc(sizeof *d);
    if (cay_note_list(client, "build", "", on_record, d, NULL) < 0)
        return;
    CAY_EACH_OF(it, d->ids, d->n) {
        sweep_of(client, *it);
        CAY_AUTOJSON *o = cay__note_object(client, "build", *it);
        if (!o)
            continue;
        json_object_set_new(o, "state", json_string("lost"));
        cay__note_save(client, "build", *it, o, NULL);
    }
}

static void close_all(cay__builder *b)
{
    if (b->has_context)
        cay__tree_clear(&b->context);
    for (cay__opened *o = b->opened; o; o = o->next) {
        cay__tree_clear(&o->tree);
        cay__builder_throw(b, o->sb);
    }
    CAY_EACH_OF(it, b->loose, b->nloose)
        cay_snapshot_remove(b->client, NULL, *it, NULL, NULL);
    for (size_t i = 0; i < b->nstages && b->stages; i++) {
        json_decref(b->stages[i].config);
        CAY_EACH_OF(task, b->stages[i].tasks, b->stages[i].ntasks) {
            CAY_EACH_OF(lent, task->mounts, task->nmounts) {
                cay__close_fd(&lent->lock); /* of a step whose sandbox is kept */
                if (lent->copy)
                    cay__pick_clear(&lent->copy->pick);
            }
            cay__pick_clear(&task->pick);
            cay__close_fd(&task->fetched);
        }
    }
    cay__recipe_clear(&b->recipe);
    cay__report_close(&b->report);
    cay__arena_clear(&b->mem);
    free(b->net);
}

static void note_end(cay__builder *b, int rc, const char *id, const cay_err *why)
{
    cay__report *r = &b->report;
    if (rc < 0 && rc != CAY_ECANCELED)
        cay__report_say(r, CAY_BUILD_FAIL, false, "%s", why->msg);
    const char *state = "failed";
    if (rc == 0)
        state = "ready";
    else if (rc == CAY_ECANCELED)
        state = "canceled";
    cay__report_set(r, "state", json_string(state));
    cay__report_set(r, "step", json_integer(b->at));
    cay__report_set(r, "cached", json_integer(b->steps - b->done));
    cay__report_set(r, "ended_ms", json_integer(cay__clock_ms()));
    cay__report_set(r, "template", json_string(CAY_TEXT_IF(rc == 0, id)));
    cay__report_set(r, "sandbox", json_string(b->kept));
    cay__report_set(r, "reason", json_string(CAY_TEXT_IF(rc < 0, why->reason)));
    cay__report_set(r, "error", rc < 0 ? json_string(why->msg) : json_string(""));
    cay__report_save(r, NULL);
}

int cay_build_run(cay_client *client, const cay_call *call, const cay_build *given, cay_built *out,
                  cay_err *err)
{
    cay_build spec;
    cay_err why = CAY_ERR_INIT;
    char id[CAY_ID_LEN + 1] = "";
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_build", err));
    CAY_TRY(cay__call_check(call, "build", err));
    if (client->remote)
        return cay__remote_build_run(client->remote, call, &spec, out, err);
    CAY_AUTOFREE cay__builder *b = cay__alloc(sizeof *b);
    *b = (cay__builder){ .client = client, .spec = &spec, .call = cay__call_copy(call) };
    b->call.user = NULL; /* what a recipe puts into place belongs to whom the recipe says */
    cay__build_sweep(client);
    cay__lent_sweep(client);
    int rc = cay__report_open(&b->report, client, &spec, &why);
    if (rc == 0) {
        CAY_COPY(b->who, b->report.id);
        if (spec.id)
            sweep_of(client, b->who); /* of an attempt before this one */
        if (spec.pull)
            rc = cay__build_get(b, id, &why);
        else
            rc = build_all(b, id, &why);
        note_end(b, rc, id, &why);
    }
    if (out && out->size >= sizeof *out) {
        *out = (cay_built){ .size = out->size, .steps = b->steps, .cached = b->steps - b->done };
        CAY_COPY(out->id, b->report.id);
        CAY_COPY(out->template_, CAY_TEXT_IF(rc == 0, id));
        CAY_COPY(out->sandbox, b->kept);
    }
    close_all(b);
    return cay__err_pass(rc, &why, err);
}
