/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent's sandbox starts with, and what its capabilities add to one that lives already: by
 * the rules of cay_manifest_change(), judged whole before anything is written. */
#include "run.h"
#include <cay/manifest.h>
#include <cay/client.h>

static bool has_user(const json_t *list, const char *user)
{
    CAY_EACH_ITEM(v, list)
        if (!strcmp(json_is_string(v) ? json_string_value(v) : cay__json_str(v, "name", ""),
                    user) ||
            has_user(json_object_get(v, "users"), user))
            return true;
    return false;
}

static int replace_text(char **manifest, const json_t *m, cay_err *err)
{
    free(*manifest);
    *manifest = cay__json_text(m, CAY_MANIFEST_BYTES);
    if (*manifest)
        return 0;
    return cay_fail(err, CAY_ETOOBIG, "the manifest is larger than 64 MiB");
}

/* The user whom the agent works as is made with the sandbox, unless the manifest does so already;
 * and what is put there is that user's, unless it says otherwise. */
static int add_user(char **manifest, const char *user, cay_err *err)
{
    CAY_AUTOJSON *m = NULL;
    CAY_TRY(cay__json_object("the manifest", *manifest ? *manifest : "{}", &m, err));
    if (!has_user(json_object_get(m, "users"), user) &&
        !has_user(json_object_get(m, "groups"), user)) {
        if (!json_object_get(m, "users"))
            json_object_set_new(m, "users", json_array());
        json_array_append_new(json_object_get(m, "users"), json_pack("{s:s}", "name", user));
    }
    if (!json_object_get(m, "run_as") && !json_object_get(m, "runAs"))
        cay__json_put(m, "run_as", user);
    return replace_text(manifest, m, err);
}

/* What capabilities add. all: those too that bring it into a living sandbox themselves. */
static int apply_capabilities(const cay__seat *s, bool all, char **text, cay_err *err)
{
    for (size_t i = 0; s->agent->capabilities && i < s->agent->ncapabilities; i++) {
        const cay_capability *c = s->agent->capabilities[i];
        char *instead = NULL;
        if (!c || !c->ops->manifest ||
            (c->ops->brings && !all)) /* one that is missing is told by bind() */
            continue;
        CAY_TRY(c->ops->manifest(c->self, *text, &instead, err));
        if (instead) {
            free(*text);
            *text = instead;
        }
    }
    return 0;
}

/* How much is worked on at once: the run's word counts before the manifest's. */
static int add_limits(const cay_run_config *conf, char **manifest, cay_err *err)
{
    const struct {
        const char *key, *camel;
        unsigned n;
    } rows[] = { { "manifest_entries", "manifestEntries", conf->manifest_entries },
                 { "local_dir_files", "localDirFiles", conf->local_dir_files } };
    CAY_AUTOJSON *m = NULL;
    if ((!rows[0].n && !rows[1].n) || !*manifest)
        return 0;
    CAY_TRY(cay__json_object("the manifest", *manifest, &m, err));
    const json_t *old;
    if (json_object_get(m, "concurrency_limits"))
        old = json_object_get(m, "concurrency_limits");
    else
        old = json_object_get(m, "concurrencyLimits");
    json_t *limits = json_object();
    CAY_EACH(row, rows) {
        json_t *before;
        if (json_object_get(old, row->key))
            before = json_object_get(old, row->key);
        else
            before = json_object_get(old, row->camel);
        if (row->n)
            json_object_set_new(limits, row->key, json_integer(row->n));
        else if (before)
            json_object_set(limits, row->key, before);
    }
    json_object_del(m, "concurrencyLimits");
    json_object_set_new(m, "concurrency_limits", limits);
    return replace_text(manifest, m, err);
}

/* The run's manifest, else the agent's, and what capabilities add to it; *out may stay NULL. */
int cay__seat_manifest(cay_run *r, const cay_create *spec, const cay__seat *s, char **out,
                       cay_err *err)
{
    const char *from = CAY_OR(spec->manifest.text, s->agent->manifest);
    CAY_AUTOFREE char *text = CAY_IF(from, cay__strdup(from));
    CAY_TRY(apply_capabilities(s, true, &text, err));
    static const char *const known[] = { "root", "user" };
    bool there = !s->agent->run_as;
    for (size_t i = 0; i < CAY_LEN(known) && !there; i++)
        there = !strcmp(s->agent->run_as, known[i]);
    if (!there)
        CAY_TRY(add_user(&text, s->agent->run_as, err));
    CAY_TRY(add_limits(r->conf, &text, err));
    *out = CAY_STEAL(text);
    return 0;
}

int cay__seat_follow(cay_run *r, cay__seat *s, cay_err *err)
{
    bool any = false;
    for (size_t i = 0; s->agent->capabilities && i < s->agent->ncapabilities; i++) {
        const cay_capability *c = s->agent->capabilities[i];
        any = any || (c && c->ops->manifest && !c->ops->brings);
    }
    if (!any)
        return 0;
    CAY_AUTOFREE char *old = NULL;
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *before = NULL, *after = NULL;
    cay_err own = CAY_ERR_INIT;
    int rc = cay_sandbox_manifest(s->sb, r->call, &old, &own);
    if (rc < 0 && !cay_err_is(&own, CAY_REASON_MANIFEST_MISSING))
        return cay__err_pass(rc, &own, err);
    text = cay__strdup_if(old);
    CAY_TRY(apply_capabilities(s, false, &text, err));
    if (!text)
        return 0;
    CAY_TRY(cay__json_object("the manifest", CAY_OR(old, "{}"), &before, err));
    CAY_TRY(cay__json_object("the manifest", text, &after, err));
    if (json_equal(before, after))
        return 0;
    rc = cay_sandbox_set_manifest(s->sb, r->call, text, NULL, 0, err);
    if (rc < 0)
        return cay_wrap(err, rc, "what capabilities of agent %.60s add to its sandbox",
                        s->agent->name);
    return 0;
}
