/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes start from: those there are, one of them, one less, one of a sandbox, and one from
 * an archive. */
#include "native.h"
#include <base/base.h>
#include <base/str.h>
#include <cay/template.h>
#include <server/http/limits.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

CAY_DEFINE_AUTO(cay_template, cay_template_free)

#define ARCHIVE_MAX (8ull << 30)
enum { LIMIT = 100, LIMIT_MAX = 1000, NAMES = 16 };

typedef struct view {
    const char *name, *about;
    cay_template t;
} view;

#define AT(field) offsetof(view, t.field)
static const cay__field template_fields[] = {
    { "name", CAY__F_STR, offsetof(view, name),
      .about = "what a request for a sandbox says: its first name, else its id" },
    { "about", CAY__F_STR, offsetof(view, about), CAY__F_MAYBE },
    { "id", CAY__F_STR, AT(id), CAY__F_MAYBE },
    { "names", CAY__F_STRS, AT(names) },
    { "tenant", CAY__F_STR, AT(tenant), CAY__F_MAYBE },
    { "shared", CAY__F_BOOL, AT(shared), .about = "other tenants may use it" },
    { "base", CAY__F_STR, AT(base),
      .about = "what is below its layers: image, which is nothing, or host" },
    { "source", CAY__F_STR, AT(source), CAY__F_MAYBE },
    { "digest", CAY__F_STR, AT(digest), CAY__F_MAYBE },
    { "layers", CAY__F_STRS, AT(layers) },
    { "config", CAY__F_JSON, AT(config), CAY__F_MAYBE },
    { "bytes", CAY__F_U64, AT(bytes) },
    { "files", CAY__F_U64, AT(files) },
    { "users", CAY__F_SIZE, AT(users), .about = "sandboxes that were made from it" },
    { "created_ms", CAY__F_I64, AT(created_ms) },
};
static const cay__shape template_shape =
    CAY__SHAPE("Template", view, template_fields, "what a sandbox starts from");

static const char *const none[] = { NULL };
static const view host = {
    "host",
    "the host's programs, read-only, with a private /home, /tmp, /var and /workspace",
    { .id = "",
      .names = none,
      .tenant = "",
      .shared = true,
      .base = "host",
      .source = "",
      .digest = "",
      .layers = none,
      .config = "" }
};

static const char *get_tenant_filter(const cay__req *r)
{
    if (r->who.scope == CAY__SCOPE_ADMIN)
        return NULL;
    return r->who.tenant;
}

static view describe_template(const cay_template *t)
{
    return (view){ CAY_OR(t->names[0], t->id), "", *t };
}

typedef struct page {
    cay__items l;
    size_t n, limit;
    char last[CAY__LISTED_NEXT];
} page;

static int on_template(const cay_template *t, void *arg)
{
    page *p = arg;
    view v = describe_template(t);
    if (p->n++ == p->limit) { /* one more than was asked for: there is a next page */
        cay__str_copy(p->l.next, sizeof p->l.next, p->last);
        return 0;
    }
    cay__mark_put(p->last, t->id, t->created_ms);
    return cay__items_add(&p->l, &v);
}

static const cay__query list_query[] = {
    { "name", "string", "with this name" },
    { "limit", "integer", "how many at most, besides host" },
    { "after", "string", "`next` of the answer before, or an id" },
    { 0 },
};
const cay__doc cay__doc_template_list = {
    "listTemplates", "templates",
    "what a sandbox may start from: host, then the others, oldest first", .query = list_query,
    .answers = { { 200, &template_shape, .list = true }, { 400 }, { 404 } }
};
int cay__on_template_list(cay__req *r, cay_err *err)
{
    uint64_t limit;
    page p = { .n = 0 };
    cay_template_filter f = { .size = sizeof f,
                              .tenant = get_tenant_filter(r),
                              .name = cay__req_query(r, "name"),
                              .after = cay__req_query(r, "after") };
    CAY_TRY(cay__req_number(r, "limit", LIMIT, LIMIT_MAX, &limit, err));
    if (!limit || (f.after && !cay__mark_valid(f.after, 't')))
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?%s",
                            !limit ? "limit= is at least 1"
                                   : "after= is `next` of the answer before, or a whole id");
    p.limit = (size_t)limit;
    f.limit = p.limit + 1;
    cay__items_begin(&p.l, r, &template_shape);
    int rc;
    if (f.after || f.name)
        rc = 0;
    else
        rc = cay__items_add(&p.l, &host);
    if (rc == 0)
        rc = cay_template_list(r->client, &r->call, &f, on_template, &p, err);
    if (rc < 0) {
        cay__items_drop(&p.l);
        return rc;
    }
    return cay__items_reply(&p.l, 200, err);
}

const cay__doc cay__doc_template_get = {
    "getTemplate", "templates",
    "all that is known of one, by id, or a name without a slash; others by ?name= of the list",
    .answers = { { 200, &template_shape }, { 404 } }
};
int cay__on_template_get(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    if (!strcmp(r->param[0], "host"))
        return cay__reply_shape(r, 200, &template_shape, &host);
    CAY_TRY(cay_template_find(r->client, &r->call, get_tenant_filter(r), r->param[0], &t, err));
    view v = describe_template(t);
    return cay__reply_shape(r, 200, &template_shape, &v);
}

const cay__doc cay__doc_template_delete = {
    "deleteTemplate", "templates", "forget one, or a name that is not its last; its sandboxes stay",
    .answers = { { 204 }, { 403 }, { 404 } }
};
int cay__on_template_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_template_remove(r->client, &r->call, get_tenant_filter(r), r->param[0], err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

static const cay__query forget_query[] = { { "name", "string", "which one; needed" }, { NULL } };
const cay__doc cay__doc_template_forget = { "deleteTemplateByName", "templates",
                                            "the same by a name that has slashes",
                                            .query = forget_query,
                                            .answers = { { 204 }, { 400 }, { 403 }, { 404 } } };
int cay__on_template_forget(cay__req *r, cay_err *err)
{
    const char *name = cay__req_query(r, "name");
    if (!name || !*name)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?name= says which template");
    CAY_TRY(cay_template_remove(r->client, &r->call, get_tenant_filter(r), name, err));
    return cay__reply(r, 204, NULL, NULL, 0);
}

typedef struct change {
    const char *name;
    bool shared;
} change;
static const cay__field change_fields[] = {
    { "name", CAY__F_STR, offsetof(change, name), .min = 1, .max = CAY_TEMPLATE_NAME,
      .about = "one more name, which goes from the one that had it" },
    { "shared", CAY__F_BOOL, offsetof(change, shared),
      .about = "other tenants may use it; said by keys of scope admin or tenant default" },
};
static const cay__shape change_shape =
    CAY__SHAPE("TemplatePatch", change, change_fields,
               "what is to be different of a template; what is not named stays");

const cay__doc cay__doc_template_patch = {
    "changeTemplate", "templates",
    "give it one more name, or show it to other tenants, or not; by id, or a name without a slash",
    .body = &change_shape, .answers = { { 200, &template_shape }, { 400 }, { 403 }, { 404 } }
};
int cay__on_template_patch(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    CAY_AUTOPTR(cay_template) now = NULL;
    CAY_TRY(cay_template_find(r->client, &r->call, get_tenant_filter(r), r->param[0], &t, err));
    change c = { .shared = t->shared };
    CAY_TRY(cay__req_shape(r, &change_shape, &c, err));
    if (c.shared != t->shared) { /* a name that others see stands in for an image's when they build:
                                    the operator's to say */
        CAY_TRY(cay__native_shared(r, "templates for other tenants", err));
        CAY_TRY(
            cay_template_share(r->client, &r->call, get_tenant_filter(r), t->id, c.shared, err));
    }
    if (c.name)
        CAY_TRY(cay_template_name(r->client, &r->call, get_tenant_filter(r), t->id, c.name, err));
    CAY_TRY(cay_template_find(r->client, &r->call, get_tenant_filter(r), t->id, &now, err));
    view v = describe_template(now);
    return cay__reply_shape(r, 200, &template_shape, &v);
}

typedef struct publish_body {
    const char *from, *config;
    const char *const *names;
    bool hidden;
} publish_body;
static const cay__field publish_fields[] = {
    { "from", CAY__F_STR, offsetof(publish_body, from), CAY__F_REQUIRED, .min = 1, .max = 100,
      .about = "a sandbox, of which a snapshot is taken for it, or a snapshot" },
    { "names", CAY__F_STRS, offsetof(publish_body, names), .max = NAMES },
    { "config", CAY__F_JSON, offsetof(publish_body, config),
      .about =
          "what its sandboxes are told; left out: what the sandbox had from its own template" },
    { "hidden", CAY__F_BOOL, offsetof(publish_body, hidden),
      .about = "not for other tenants; a tenant's own never are" },
};
static const cay__shape publish_shape = CAY__SHAPE("TemplateCreate", publish_body, publish_fields,
                                                   "a template of a sandbox's files as they are");

const cay__doc cay__doc_template_create = {
    "createTemplate", "templates", "make one of a sandbox or a snapshot; nothing is copied",
    .body = &publish_shape, .answers = { { 201, &template_shape }, { 400 }, { 404 } }
};
int cay__on_template_create(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    publish_body b = { 0 };
    CAY_TRY(cay__req_shape(r, &publish_shape, &b, err));
    cay_template_spec spec = { .size = sizeof spec,
                               .from = b.from,
                               .names = b.names,
                               .tenant = r->who.tenant,
                               .config = b.config,
                               .hidden = b.hidden || strcmp(r->who.tenant, "default") != 0 };
    CAY_TRY(cay_template_publish(r->client, &r->call, &spec, &t, err));
    cay__req_about(r, t->id);
    view v = describe_template(t);
    return cay__reply_shape(r, 201, &template_shape, &v);
}

static const cay__query import_query[] = {
    { "name", "string", "of the template; else those that the archive has", .many = true },
    { "image", "string", "which of several, by its name in the archive" },
    { "platform", "string", "os/architecture; else this machine's" },
    { "config", "string", "of a plain tar: a JSON object, what its sandboxes are told" },
    { "hidden", "boolean", "not for other tenants; a tenant's own never are" },
    { NULL },
};
const cay__doc cay__doc_template_import = { "importTemplate",
                                            "templates",
                                            "an image or a root filesystem: the body is a tar of "
                                            "docker save, of an OCI layout, or of the files",
                                            .query = import_query,
                                            .body_type = "application/x-tar",
                                            .answers = {
                                                { 201, &template_shape }, { 400 }, { 413 } } };
int cay__on_template_import(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    const char *names[NAMES + 1];
    char path[40];
    size_t n = 0;
    uint64_t bytes;
    while (n < NAMES && (names[n] = cay__native_query_nth(r, "name", n)))
        n++;
    names[n] = NULL;
    CAY_TRY(cay__crowd_enter(r, "send it", err));
    CAY_AUTOFD fd = open(cay_client_home(r->client), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_sys(err, CAY_ESYS, "make a file for the archive");
    CAY_TRY(cay__req_to_fd(r, fd, ARCHIVE_MAX, &bytes, err));
    CAY_TRY(cay__once_file(r, fd, bytes, err));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    cay_template_file spec = { .size = sizeof spec,
                               .path = path,
                               .source = "upload",
                               .names = n ? names : NULL,
                               .tenant = r->who.tenant,
                               .hidden = cay__req_flag(r, "hidden") ||
                                         strcmp(r->who.tenant, "default") != 0,
                               .image = cay__req_query(r, "image"),
                               .platform = cay__req_query(r, "platform"),
                               .config = cay__req_query(r, "config") };
    CAY_TRY(cay_template_import(r->client, &r->call, &spec, &t, err));
    view v = describe_template(t);
    return cay__reply_shape(r, 201, &template_shape, &v);
}

const cay__doc cay__doc_template_export = {
    "exportTemplate", "templates",
    "as an OCI layout in a tar, which import, docker load and skopeo read; by id, or a name "
    "without a slash",
    .answers = { { 200, .type = "application/x-tar" }, { 404 }, { 501 } }
};
int cay__on_template_export(cay__req *r, cay_err *err)
{
    struct stat st;
    CAY_TRY(cay__crowd_enter(r, "ask for it", err));
    CAY_AUTOFD fd = open(cay_client_home(r->client), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_sys(err, CAY_ESYS, "make a file for the archive");
    cay_template_out spec = {
        .size = sizeof spec, .ref = r->param[0], .tenant = get_tenant_filter(r), .fd = fd
    };
    CAY_TRY(cay_template_export(r->client, &r->call, &spec, err));
    if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return cay_fail_sys(err, CAY_ESYS, "read the archive");
    return cay__reply_fd(r, 200, "application/x-tar", CAY_STEAL_FD(fd), st.st_size);
}
