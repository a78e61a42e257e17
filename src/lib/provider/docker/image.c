/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a request: what the engine has, or what it pulls, if it is one for this machine. */
#include "docker.h"
#include "box.h"
#include <cay/access.h>
#include <fnmatch.h>

void cay__docker_image_clear(cay__docker_image *i)
{
    json_decref(i->config);
    free(i->of);
    *i = (cay__docker_image){ 0 };
}

static int inspect_image(cay__engine *e, const cay_call *call, const char *ref, json_t **out,
                         cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(4096);
    cay__buf_fmt(&path, "/images/%s/json",
                 ref); /* Podman does not decode it; options.c lets nothing through that needs it */
    int rc = cay__engine_ask(e, call, "GET", path.data, NULL, out, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, rc, "image_not_found",
                            "the engine has no image %.120s; pull it, or give option pull=missing",
                            ref);
    return rc;
}

static bool is_other(const cay_create *c)
{
    return c && c->tenant && *c->tenant && strcmp(c->tenant, CAY_TENANT_DEFAULT) != 0;
}

/* [TENANT=]PATTERN, with commas: what the operator lets tenants use, whoever pulled it. */
bool cay__docker_image_listed(const char *list, const char *tenant, const char *image)
{
    for (size_t n; list && *list; list += n + (list[n] == ',')) {
        char one[1024];
        n = strcspn(list, ",");
        if (n >= sizeof one)
            continue;
        memcpy(one, list, n);
        one[n] = 0;
        char *eq = strchr(one, '=');
        if (eq)
            *eq = 0;
        if ((!eq || !strcmp(one, tenant)) && fnmatch(eq ? eq + 1 : one, image, 0) == 0)
            return true;
    }
    return false;
}

static bool is_listed(const cay_create *c, const char *image)
{
    return cay__docker_image_listed(getenv("CAY_DOCKER_IMAGES"), c->tenant, image);
}

typedef struct pull {
    const char *image;
    const cay_create *c;
} pull;

void cay__docker_making(const cay_create *c, const char *what, const char *text, size_t n,
                        bool brief)
{
    CAY_AUTOBUF safe = CAY__BUF(2048);
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    if (!c->progress || !n)
        return;
    cay__buf_safe(&safe, text, CAY_MIN(n, (size_t)400), false);
    c->progress(&(cay_create_progress){ .size = sizeof(cay_create_progress),
                                        .what = what,
                                        .text = CAY_OR(safe.data, ""),
                                        .brief = brief },
                c->progress_arg);
}

void cay__docker_making_line(const cay_create *c, const json_t *line)
{
    CAY_AUTOBUF text = CAY__BUF(1024);
    const char *status = cay__json_str(line, "status", ""), *id = cay__json_str(line, "id", ""),
               *bar = cay__json_str(line, "progress", "");
    if (!*status)
        return;
    cay__buf_fmt(&text, "%.60s%s%.160s%s%.120s", id, CAY_TEXT_IF(*id, ": "), status,
                 CAY_TEXT_IF(*bar, " "), bar);
    cay__docker_making(c, "pull", text.data, text.len, *bar != 0);
}

static int on_line(const json_t *line, void *arg, cay_err *err)
{
    pull *p = arg;
    const char *bad = cay__json_str(line, "error", NULL);
    if (bad) {
        cay_err why = CAY_ERR_INIT;
        int rc = cay__engine_error(500, bad, &why);
        if (err)
            *err = why;
        return cay_wrap(err, rc, "pull %.80s", p->image);
    }
    cay__docker_making_line(p->c, line);
    return 0;
}

/* Cut off by the call's deadline or cancel: the connection ends, and with it the engine's pull. */
static int pull_image(cay__engine *e, const cay_call *call, const cay__docker_options *o, pull *p,
                      cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(4096);
    CAY_AUTOFREE char *auth = NULL;
    CAY_AUTOFREE char *fields = NULL;
    const char *last = strrchr(o->image, '/');
    /* Log-ins are the operator's: another tenant does not get by them what only they may pull,
     * unless the operator says so. */
    if (is_other(p->c) && !is_listed(p->c, o->image))
        auth = cay__strdup("");
    else
        CAY_TRY(cay__docker_auth(call, o->image, &auth, err));
    cay__buf_str(&path, "/images/create?fromImage=");
    cay__engine_encode(&path, o->image);
    if (!strchr(o->image, '@') &&
        !strchr(CAY_OR(last, o->image), ':')) /* without one all tags would come */
        cay__buf_str(&path, "&tag=latest");
    if (o->platform) {
        cay__buf_str(&path, "&platform=");
        cay__engine_encode(&path, o->platform);
    }
    if (*auth && asprintf(&fields, "X-Registry-Auth: %s\r\n", auth) < 0)
        abort();
    return cay__engine_lines(e, call, path.data, fields, -1, 0, on_line, p, err);
}

static int parse_image(const json_t *j, const char *ref, const cay__engine_info *engine,
                       cay__docker_image *out, cay_err *err)
{
    const char *arch = cay__json_str(j, "Architecture", ""), *os = cay__json_str(j, "Os", "linux"),
               *id = cay__json_str(j, "Id", "");
    if ((*os && strcmp(os, "linux") != 0) ||
        (*arch && *engine->arch && strcmp(arch, engine->arch) != 0))
        return cay_fail_why(err, CAY_EINVAL, "image_architecture",
                            "image %.100s is for %.20s/%.20s and the engine runs linux/%s; take "
                            "one for this machine (option platform)",
                            ref, os, arch, engine->arch);
    if (!*id || !CAY_COPY(out->id, id))
        return cay_fail_why(err, CAY_EUPSTREAM, "engine_answer",
                            "the engine tells no id of image %.100s", ref);
    json_t *config = json_object_get(j, "Config");
    /* Ids are guessed by their first digits: what somebody's snapshot holds is had by the
     * snapshot's own name alone. */
    if (*cay__json_str(json_object_get(config, "Labels"), CAY__DOCKER_LAYER, ""))
        return cay_fail_why(err, CAY_ENOENT, "image_not_found",
                            "there is no image %.100s; a snapshot is used by --from", ref);
    if (json_is_object(config))
        out->config = json_incref(config);
    else
        out->config = json_object();
    return 0;
}

int cay__docker_image_seen(cay__engine *e, const cay_call *call, const char *ref,
                           cay__docker_image *out, cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    const cay__engine_info *engine;
    CAY_TRY(cay__engine_meet(e, call, &engine, err));
    CAY_TRY(inspect_image(e, call, ref, &j, err));
    return parse_image(j, ref, engine, out, err);
}

int cay__docker_image_find(cay__engine *e, const cay_call *call, const cay__docker_options *o,
                           const cay_create *c, cay__docker_image *out, cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    const cay__engine_info *engine;
    pull p = { o->image, c };
    CAY_TRY(cay__engine_meet(e, call, &engine, err));
    bool by_id = cay__str_starts(o->image, "sha256:"),
         always = !strcmp(o->pull, "always") && !by_id;
    /* What the engine has may be what others pulled with their passwords, or built: a tenant gets
     * what its registry gives to all, asked now, or what the operator lists. */
    if (is_other(c) && !is_listed(c, o->image)) {
        if (by_id || !strcmp(o->pull, "never"))
            return cay_fail_why(err, CAY_EPERM, "image_not_allowed",
                                "image %.100s: tenants use what a registry gives to all, by its "
                                "name, or what the operator lists in CAY_DOCKER_IMAGES",
                                o->image);
        always = true;
    }
    int rc = CAY_ENOENT;
    if (!always)
        rc = inspect_image(e, call, o->image, &j, err);
    if (rc == CAY_ENOENT && !by_id && strcmp(o->pull, "never") != 0) {
        CAY_TRY(pull_image(e, call, o, &p, err));
        rc = inspect_image(e, call, o->image, &j, err);
    }
    CAY_TRY(rc);
    return parse_image(j, o->image, engine, out, err);
}
