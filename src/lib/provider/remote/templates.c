/* SPDX-License-Identifier: Apache-2.0 */
/* Of a client of a server: what its sandboxes start from, and log-ins at registries. */
#include "remote_box.h"
#include "client.h"
#include <base/fd.h>
#include <cay/build.h>
#include <fcntl.h>
#include <lib/snapshot/archive.h>
#include <lib/template/template.h>
#include <stdio.h>
#include <sys/stat.h>

static cay_template *template_of(const json_t *o)
{
    const char *id = cay__far_word(o, "id");
    CAY_AUTOFREE char *names = cay__json_text(json_object_get(o, "names"), 1u << 20),
                      *layers = cay__json_text(json_object_get(o, "layers"), 1u << 20);
    CAY_AUTOFREE char *config = NULL;
    if (json_is_object(json_object_get(o, "config")))
        config = cay__json_text(json_object_get(o, "config"), 1u << 20);
#define W(name) cay__far_word(o, name)
#define N(name) cay__json_int(o, name, 0)
    cay_template_row r = { .size = sizeof r,
                           .id = cay__id_valid(id, 't') ? id : "",
                           .tenant = W("tenant"),
                           .base = W("base"),
                           .source = W("source"),
                           .digest = W("digest"),
                           .names = CAY_OR(names, "[]"),
                           .layers = CAY_OR(layers, "[]"),
                           .config = CAY_OR(config, "{}"),
                           .shared = cay__json_bool(o, "shared", false),
                           .bytes = (uint64_t)N("bytes"),
                           .files = (uint64_t)N("files"),
                           .created_ms = N("created_ms"),
                           .users = (size_t)N("users") };
#undef W
#undef N
    return cay__template_new(&r);
}

int cay__remote_template_list(cay_client *client, const cay_call *call,
                              const cay_template_filter *f, int (*fn)(const cay_template *, void *),
                              void *arg, cay_err *err)
{
    char after[CAY__FAR_MARK] = "";
    size_t n = 0;
    cay__str_copy(after, sizeof after, CAY_OR(f->after, ""));
    for (;;) {
        CAY__FAR_TARGET(target);
        CAY_AUTOJSON *answer = NULL;
        size_t i;
        json_t *o;
        cay__buf_str(&target, CAY__FAR_API "/templates?limit=1000");
        if (f->name)
            cay__far_query(&target, "name", f->name);
        if (*after)
            cay__far_query(&target, "after", after);
        CAY_TRY(cay__far_json(cay__remote_far(client), call, "GET", &target, NULL, &answer, err));
        json_array_foreach(json_object_get(answer, "items"), i, o)
        {
            if (!*cay__far_word(o, "id")) /* host, which is no template of anybody's */
                continue;
            CAY_AUTOPTR(cay_template) t = template_of(o);
            int rc = fn(t, arg);
            if (rc || (f->limit && ++n == f->limit))
                return rc;
        }
        if (!cay__str_copy(after, sizeof after, cay__far_word(answer, "next")) || !*after)
            return 0;
    }
}

typedef struct search {
    const char *name;
    char id[CAY_ID_LEN + 1];
} search;

static int has_name(const cay_template *t, void *arg)
{
    search *s = arg;
    for (const char *const *p = t->names; *p; p++)
        if (!strcmp(*p, s->name))
            return cay__str_copy(s->id, sizeof s->id, t->id);
    return 0;
}

/* In a path a name has no slashes: such a one is looked for among all. id: room for
 * CAY_TEMPLATE_NAME + 1. */
static int path_name(cay_client *client, const cay_call *call, const char *ref, char *id,
                     cay_err *err)
{
    char name[CAY_TEMPLATE_NAME + 1];
    if (!ref || !*ref)
        return cay_fail_why(err, CAY_EINVAL, "template_name",
                            "no template is named; give a name or an id");
    if (!strchr(ref, '/')) {
        if (cay__str_copy(id, CAY_TEMPLATE_NAME + 1, ref))
            return 0;
        return cay_fail_why(err, CAY_EINVAL, "template_name", "the name is too long");
    }
    CAY_TRY(cay__tname_clean(ref, name, err));
    if (!strchr(name, '/')) /* docker.io/library/ is left out of names */
    {
        if (cay__str_copy(id, CAY_TEMPLATE_NAME + 1, name))
            return 0;
        return CAY_EINVAL;
    }
    search s = { .name = name };
    int rc = cay__remote_template_list(
        client, call, &(cay_template_filter){ .size = sizeof(cay_template_filter), .name = name },
        has_name, &s, err);
    if (rc > 0) {
        if (cay__str_copy(id, CAY_TEMPLATE_NAME + 1, s.id))
            return 0;
        return CAY_EINVAL;
    }
    if (rc < 0)
        return rc;
    return cay_fail_why(err, CAY_ENOENT, "template_not_found",
                        "the server has no template %.150s; cay template ls shows those it has",
                        ref);
}

int cay__remote_template_find(cay_client *client, const cay_call *call, const char *ref,
                              cay_template **out, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    char id[CAY_TEMPLATE_NAME + 1];
    CAY__FAR_TARGET(target);
    CAY_TRY(path_name(client, call, ref, id, err));
    cay__far_ref(&target, "templates", id);
    CAY_TRY(cay__far_json(cay__remote_far(client), call, "GET", &target, NULL, &o, err));
    *out = template_of(o);
    return 0;
}

int cay__remote_template_remove(cay_client *client, const cay_call *call, const char *ref,
                                cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/templates");
    cay__far_query(&target, "name", CAY_OR(ref, ""));
    return cay__far_json(cay__remote_far(client), call, "DELETE", &target, NULL, NULL, err);
}

int cay__remote_template_change(cay_client *client, const cay_call *call, const char *ref,
                                const char *name, const bool *shared, cay_err *err)
{
    char id[CAY_TEMPLATE_NAME + 1];
    CAY_TRY(path_name(client, call, ref, id, err));
    json_t *body = json_pack("{s:s*}", "name", name);
    if (shared)
        json_object_set_new(body, "shared", json_boolean(*shared));
    return cay__remote_order(client, "PATCH", "templates", id, "", body, NULL, err);
}

static json_t *build_string_array(const char *const *list)
{
    json_t *a = json_array();
    for (; list && *list; list++)
        json_array_append_new(a, json_string(*list));
    return a;
}

/* Who asks again because the answer was lost makes nothing twice. */
static void write_idempotency_key(char fields[64])
{
    char key[CAY_ID_LEN + 1];
    cay__id_make(key, 'j');
    snprintf(fields, 64, "Idempotency-Key: %s\r\n", key);
}

int cay__remote_template_publish(cay_client *client, const cay_call *call,
                                 const cay_template_spec *s, cay_template **out, cay_err *err)
{
    CAY_AUTOJSON *o = NULL, *config = NULL;
    cay_sandbox *sb = NULL;
    char fields[64];
    CAY__FAR_TARGET(target);
    if (s->source || s->digest)
        return cay_fail_why(err, CAY_ENOTSUP, "remote_unsupported",
                            "where a template came from is what its server says");
    if (s->config)
        CAY_TRY(cay__json_object("config", s->config, &config, err));
    /* The server takes whole ids of sandboxes; people write names. */
    if (s->from && !cay__id_valid(s->from, 'c') && !cay__id_valid(s->from, 's'))
        cay_client_find(client, call, s->from, &sb, NULL);
    json_t *body =
        json_pack("{s:s, s:o, s:b}", "from", sb ? cay_sandbox_id(sb) : CAY_OR(s->from, ""), "names",
                  build_string_array(s->names), "hidden", s->hidden);
    cay_sandbox_unref(sb);
    if (config)
        json_object_set(body, "config", config);
    write_idempotency_key(fields);
    cay__buf_str(&target, CAY__FAR_API "/templates");
    CAY_TRY(
        cay__far_json_with(cay__remote_far(client), call, "POST", &target, fields, body, &o, err));
    if (out)
        *out = template_of(o);
    return 0;
}

int cay__remote_template_import(cay_client *client, const cay_call *call,
                                const cay_template_file *s, cay_template **out, cay_err *err)
{
    struct stat st;
    char fields[64];
    CAY_AUTOJSON *o = NULL;
    CAY_AUTOFD fd = -1;
    uint64_t len = 0;
    CAY__FAR_TARGET(target);
    fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_sys(err, errno == ENOENT ? CAY_ENOENT : CAY_ESYS, "open %.150s", s->path);
    if (S_ISDIR(st.st_mode)) {
        CAY_AUTOFD dir = CAY_STEAL_FD(fd);
        CAY_TRY(cay__remote_tar(dir, s->path, call, &fd, &len, err));
    } else if (S_ISREG(st.st_mode)) {
        len = (uint64_t)st.st_size;
    } else {
        return cay_fail_why(err, CAY_ETYPE, "image_invalid",
                            "%.150s is neither a file nor a directory", s->path);
    }
    cay__buf_str(&target, CAY__FAR_API "/templates/import");
    for (const char *const *p = s->names; p && *p; p++)
        cay__far_query(&target, "name", *p);
    const struct {
        const char *name, *value;
    } words[] = { { "image", s->image },
                  { "platform", s->platform },
                  { "config", s->config },
                  { "hidden", s->hidden ? "1" : NULL } };
    for (size_t i = 0; i < CAY_LEN(words); i++)
        if (words[i].value)
            cay__far_query(&target, words[i].name, words[i].value);
    write_idempotency_key(fields);
    cay__ask ask = { .method = "POST",
                     .target = target.data,
                     .type = "application/x-tar",
                     .fields = fields,
                     .fd = fd,
                     .from_fd = true,
                     .len = (size_t)len };
    CAY_TRY(cay__far_send(cay__remote_far(client), call, &ask, &o, err));
    if (out)
        *out = template_of(o);
    return 0;
}

static int copy_out(cay__answer *a, const cay_call *call, int fd, const cay_template_out *s,
                    cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    uint64_t all = 0, total = cay__answer_head(a)->length;
    for (size_t n;; all += n) {
        CAY_TRY(cay__answer_bytes(a, call, buf, 65536, &n, err));
        if (!n)
            return 0;
        if (!cay__fd_write_all(fd, buf, n))
            return cay_fail_sys(err, CAY_ESYS, "write the archive");
        cay_template_progress p = {
            .size = sizeof p, .what = "fetch", .done = all + n, .total = total
        };
        if (s->progress && s->progress(&p, s->arg))
            return cay_fail_why(err, CAY_ECANCELED, "canceled", "export: stopped");
    }
}

/* A file appears when it is whole. */
int cay__remote_template_export(cay_client *client, const cay_call *call, const cay_template_out *s,
                                cay_err *err)
{
    char id[CAY_TEMPLATE_NAME + 1], dir[4096];
    cay__answer *a = NULL;
    CAY__FAR_TARGET(target);
    CAY_AUTOFD at = -1, file = -1;
    const char *name = NULL;
    if (s->path) {
        const char *slash = strrchr(s->path, '/');
        if (slash)
            name = slash + 1;
        else
            name = s->path;
        snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash == s->path ? 1 : slash - s->path) : 1,
                 slash ? s->path : ".");
        at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (at < 0)
            file = -1;
        else
            file = openat(at, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
        if (file < 0 || !*name)
            return cay_fail_sys(err, CAY_ESYS, "make a file in %.150s", dir);
    }
    CAY_TRY(path_name(client, call, s->ref, id, err));
    cay__far_ref(&target, "templates", id);
    cay__buf_str(&target, "/export");
    CAY_TRY(cay__far_ask(cay__remote_far(client), call,
                         &(cay__ask){ .method = "GET", .target = target.data }, &a, err));
    int rc = copy_out(a, call, s->path ? file : s->fd, s, err);
    cay__answer_end(a);
    if (rc < 0 || !s->path)
        return rc;
    return cay__path_put(at, name, file, err);
}

typedef struct known {
    const char *host, *tenant;
    bool is;
} known;

static int on_known(const char *tenant, const char *host, int64_t changed_ms, void *arg)
{
    known *k = arg;
    (void)changed_ms;
    k->is |= !strcmp(host, k->host) && !strcmp(tenant, k->tenant);
    return 0;
}

/* An admin sees those of all tenants: which one the key is of, the server tells. */
static int had_login(cay_client *client, const cay_call *call, const char *host, bool *yes,
                     cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/usage");
    CAY_TRY(cay__far_json(cay__remote_far(client), call, "GET", &target, NULL, &o, err));
    known k = { .host = host, .tenant = cay__far_word(o, "tenant") };
    CAY_TRY(cay__remote_registry_logins(client, NULL, on_known, &k, err));
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
        CAY_TRY(cay__remote_registry_login(client, NULL, name.host, s->user, s->password, err));
    }
    cay_build spec = { .size = sizeof spec,
                       .pull = s->ref,
                       .names = s->names,
                       .platform = s->platform,
                       .hidden = s->hidden };
    int rc = cay__remote_build_run(client, call, &spec, &built, err);
    if (rc < 0 && login && !had) /* what was there before is not told, so it cannot be put back */
        cay__remote_registry_logout(client, NULL, name.host, NULL);
    CAY_TRY(rc);
    if (out)
        return cay__remote_template_find(client, call, built.template_, out, err);
    return 0;
}

static void add_registry_path(cay__buf *target, const char *host, const char *tenant)
{
    cay__buf_str(target, CAY__FAR_API "/registries");
    if (host) {
        cay__buf_clear(target);
        cay__far_ref(target, "registries", host);
    }
    if (tenant)
        cay__far_query(target, "tenant", tenant);
}

int cay__remote_registry_login(cay_client *client, const char *tenant, const char *host,
                               const char *user, const char *password, cay_err *err)
{
    CAY__FAR_TARGET(target);
    add_registry_path(&target, CAY_OR(host, ""), tenant);
    return cay__far_json(
        cay__remote_far(client), NULL, "PUT", &target,
        json_pack("{s:s, s:s}", "username", CAY_OR(user, ""), "password", CAY_OR(password, "")),
        NULL, err);
}

int cay__remote_registry_logout(cay_client *client, const char *tenant, const char *host,
                                cay_err *err)
{
    CAY__FAR_TARGET(target);
    add_registry_path(&target, CAY_OR(host, ""), tenant);
    return cay__far_json(cay__remote_far(client), NULL, "DELETE", &target, NULL, NULL, err);
}

typedef struct logins {
    int (*fn)(const char *tenant, const char *host, int64_t changed_ms, void *arg);
    void *arg;
} logins;

static int on_login(const json_t *o, void *arg)
{
    const logins *l = arg;
    return l->fn(cay__far_word(o, "tenant"), cay__far_word(o, "registry"),
                 cay__json_int(o, "changed_ms", 0), l->arg);
}

int cay__remote_registry_logins(cay_client *client, const char *tenant,
                                int (*fn)(const char *tenant, const char *host, int64_t changed_ms,
                                          void *arg),
                                void *arg, cay_err *err)
{
    CAY__FAR_TARGET(target);
    add_registry_path(&target, NULL, tenant);
    return cay__remote_each(client, NULL, &target, on_login, &(logins){ fn, arg }, err);
}
