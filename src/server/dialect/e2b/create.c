/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox from what the SDKs ask for. */
#include "e2b.h"

/* What a name stands for here: the host's own template unless the operator has made one of that
 * name, a snapshot, or one of the tenant's templates. */
static int starting_point(cay__req *r, const char *name, cay_create *c, char **config, cay_err *err)
{
    CAY_AUTOPTR(cay_snapshot) s = NULL;
    CAY_AUTOPTR(cay_template) t = NULL;
    if (e2b_is_base(name) && !e2b_has_base(r, name))
        return 0;
    if (e2b_snapshot_find(r, name, &s, NULL) == 0) {
        c->from.snapshot = cay__arena_str(&r->arena, s->id);
        return 0;
    }
    CAY_TRY(e2b_template_find(r, name, &t, err));
    CAY_AUTOJSON *o = NULL;
    cay__json_object("config", t->config, &o, NULL);
    c->from.template_ = cay__arena_str(&r->arena, t->id);
    if (*cay__json_str(o, "user", ""))
        c->process.user = NULL;
    if (*cay__json_str(o, "workdir", ""))
        c->process.workdir = NULL;
    *config = cay__arena_str(&r->arena, t->config);
    return 0;
}

static int read_volumes(cay__req *r, const json_t *list, cay_create *c, cay_err *err)
{
    const json_t *v;
    size_t i;
    if (!json_array_size(list))
        return 0;
    CAY_TRY(cay__req_shared(r, "volumes", err));
    cay_volume_use *use = cay__arena_take(&r->arena, (json_array_size(list) + 1) * sizeof *use);
    json_array_foreach(list, i, v) {
        use[i] = (cay_volume_use){ .name = cay__json_str(v, "name", NULL),
                                   .target = cay__json_str(v, "path", NULL),
                                   .rw = true };
        if (!use[i].name || !use[i].target)
            return cay_fail(err, CAY_EINVAL, "volumeMounts[%zu] has a name and a path", i);
    }
    c->files.volumes = use;
    c->files.nvolumes = json_array_size(list);
    return 0;
}

/* What is asked for and not there is refused by its name. */
static int reject_unsupported(const json_t *in, cay_err *err)
{
    static const struct {
        const char *name;
        bool even_empty;
    } not_here[] = { { "mcp", true /* it asks for a gateway all the same */ }, { "iam", false } };
    CAY_EACH(it, not_here) {
        const json_t *v = e2b_member(in, it->name);
        if (v && (it->even_empty || json_object_size(v)))
            return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                                "%s is not supported by this server", it->name);
    }
    return 0;
}

/* Members of a kind that is not theirs are refused: "no" must not be taken for the default. Those
 * that nobody knows are left alone, as E2B does. */
static int check_types(const json_t *in, cay_err *err)
{
    static const struct {
        const char *name, *what;
        json_type type;
    } known[] = {
        { "templateID", "a text", JSON_STRING },
        { "timeout", "a whole number", JSON_INTEGER },
        { "metadata", "an object of texts", JSON_OBJECT },
        { "envVars", "an object of texts", JSON_OBJECT },
        { "mcp", "an object", JSON_OBJECT },
        { "allow_internet_access", "true or false", JSON_TRUE },
        { "network", "an object", JSON_OBJECT },
        { "iam", "an object", JSON_OBJECT },
        { "autoPause", "true or false", JSON_TRUE },
        { "autoPauseMemory", "true or false", JSON_TRUE },
        { "autoResume", "an object", JSON_OBJECT },
        { "volumeMounts", "a list", JSON_ARRAY },
        { "secure", "true or false", JSON_TRUE },
        { "memory", "true or false", JSON_TRUE },
    };
    CAY_EACH(it, known) {
        const json_t *v = e2b_member(in, it->name);
        if (v && json_typeof(v) != it->type && !(it->type == JSON_TRUE && json_is_false(v)))
            return cay_fail(err, CAY_EINVAL, "%s is %s", it->name, it->what);
    }
    const json_t *on = json_object_get(json_object_get(in, "autoResume"), "enabled");
    if (on && !json_is_boolean(on))
        return cay_fail(err, CAY_EINVAL, "autoResume.enabled is true or false");
    return 0;
}

int e2b_body(cay__req *r, json_t **out, cay_err *err)
{
    CAY_TRY(cay__req_json(r, 0, out, err));
    return check_types(*out, err);
}

static char *note_text(const json_t *in, const char *template_, int64_t timeout)
{
    /* check_types() has seen to it that what is there is of its kind, or null. */
    json_t *metadata = json_object_get(in, "metadata");
    bool files = !cay__json_bool(in, "autoPauseMemory", true); /* a pause keeps these alone */
    CAY_AUTOJSON *o =
        json_pack("{s:{s:s,s:I,s:b,s:o*,s:O*,s:O*,s:O*},s:O}", "e2b", "template", template_,
                  "timeout", (json_int_t)timeout, "autoResume",
                  cay__json_bool(json_object_get(in, "autoResume"), "enabled", false), "files",
                  CAY_IF(files, json_true()), "network", e2b_member(in, "network"), "internet",
                  e2b_member(in, "allow_internet_access"), "volumes",
                  e2b_member(in, "volumeMounts"), "metadata", CAY_OR(metadata, json_null()));
    return cay__json_text(o, 60000);
}

static int create_sandbox(cay__req *r, int64_t default_timeout, cay_err *err)
{
    json_t *in, *out;
    const cay_pair *unused = NULL;
    CAY_AUTOFREE char *net = NULL, *note = NULL;
    char *config = NULL;
    e2b_rule *rules = NULL;
    size_t nrules = 0;
    CAY_TRY(e2b_body(r, &in, err));
    const char *template_ = cay__json_str(in, "templateID", NULL);
    int64_t timeout = cay__json_int(in, "timeout", default_timeout);
    bool pauses = cay__json_bool(in, "autoPause", false),
         memory = cay__json_bool(in, "autoPauseMemory", true);
    cay_create c = { .size = sizeof c,
                     .process.user = "user",
                     .process.workdir = "/home/user",
                     .life.on_expiry = pauses && memory ? CAY_EXPIRE_PAUSE : CAY_EXPIRE_KILL };
    if (!template_)
        return cay_fail(err, CAY_EINVAL, "templateID is missing");
    if (timeout <= 0 || timeout > 86400 * 30)
        return cay_fail(err, CAY_EINVAL, "Timeout must be greater than 0 and at most 30 days");
    if (!memory && (!pauses || cay__json_bool(json_object_get(in, "autoResume"), "enabled", false)))
        return cay_fail(err, CAY_EINVAL,
                        "autoPauseMemory false goes with autoPause, and not with autoResume");
    c.life.ttl_ms = (uint64_t)timeout * 1000;
    CAY_TRY(reject_unsupported(in, err));
    CAY_TRY(starting_point(r, template_, &c, &config, err));
    const json_t *env = json_object_get(in, "envVars"), *metadata = json_object_get(in, "metadata");
    CAY_TRY(cay__req_pairs(r, "envVars", NULL, env, &c.process.env, err));
    CAY_TRY(cay__req_pairs(r, "metadata", NULL, metadata, &unused, err));
    CAY_TRY(read_volumes(r, json_object_get(in, "volumeMounts"), &c, err));
    bool internet = cay__json_bool(in, "allow_internet_access", true);
    CAY_TRY(e2b_policy(json_object_get(in, "network"), internet, &net, err));
    CAY_TRY(e2b_rules_read(r, json_object_get(in, "network"), internet, &rules, &nrules, err));
    c.net.policy = net;
    c.net.is_default = true; /* its SDKs say that there is internet, whether or not anybody asked */
    c.tenant = r->who.tenant;
    CAY_AUTOPTR(cay_sandbox) sb = NULL;
    int rc = e2b_rules_store(r, rules, nrules, NULL, &c.net.secrets, err);
    c.net.nsecrets = nrules;
    if (rc == 0)
        rc = e2b_rules_mask(r, json_object_get(in, "network"), err);
    if (rc == 0 && !(note = note_text(in, template_, timeout)))
        rc = cay_fail(err, CAY_ETOOBIG, "metadata and network are longer than 60 kB");
    c.metadata = note;
    if (rc == 0)
        rc = cay__create_sudo(r, &c, &sb, err);
    e2b_rules_made(r, rules, nrules, rc < 0 ? NULL : cay_sandbox_id(sb));
    CAY_TRY(rc);
    cay__req_about(r, cay_sandbox_id(sb));
    if (config && (rc = e2b_template_start(r, sb, config, err)) < 0) {
        cay_sandbox_remove(sb, &r->call, NULL);
        return rc;
    }
    CAY_TRY(e2b_sandbox_json(r, cay_sandbox_id(sb), template_, &out, err));
    return cay__reply_json(r, 201, out);
}

int e2b_on_create_v1(cay__req *r, cay_err *err)
{
    return create_sandbox(r, 15, err);
}

int e2b_on_create(cay__req *r, cay_err *err)
{
    return create_sandbox(r, E2B_TIMEOUT, err);
}
