/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes start from: templates, log-ins at the registries that images come from, which are
 * never told, and pools of sandboxes that are ready, which are the operator's. */
#include "native.h"

CAY_DEFINE_AUTO(cay_template, cay_template_free)

#define ARCHIVE_MAX (8ull << 30)
enum { LIMIT = 100 };

static const char *const none[] = { NULL };
static const cay__template_view host = {
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

static cay__template_view describe_template(const cay_template *t)
{
    return (cay__template_view){ CAY_OR(t->names[0], t->id), "", *t };
}

static int reply_template(cay__req *r, const cay_template *t)
{
    cay__template_view v = describe_template(t);
    return cay__reply_object(r, &v);
}

typedef struct page {
    cay__items l;
    size_t limit;
} page;

static int on_template(const cay_template *t, void *arg)
{
    page *p = arg;
    cay__template_view v = describe_template(t);
    return cay__items_page(&p->l, p->limit, t->id, t->created_ms, &v);
}

int cay__on_template_list(cay__req *r, cay_err *err)
{
    int rc = 0;
    cay_template_filter f = { .size = sizeof f, .limit = LIMIT, .tenant = cay__native_owner(r) };
    CAY_TRY(cay__req_asked(r, &f, err));
    if (!f.limit || (f.after && !cay__mark_valid(f.after, 't')))
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?%s",
                            !f.limit ? "limit= is at least 1"
                                     : "after= is `next` of the answer before, or a whole id");
    page p = { cay__items_of(r), f.limit++ }; /* one more tells that there is a next page */
    if (!f.after && !f.name)
        rc = cay__items_add(&p.l, &host);
    if (rc == 0)
        rc = cay_template_list(r->client, &r->call, &f, on_template, &p, err);
    return cay__items_finish(&p.l, rc, err);
}

int cay__on_template_get(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    if (!strcmp(r->param[0], "host"))
        return cay__reply_object(r, &host);
    CAY_TRY(cay_template_find(r->client, &r->call, cay__native_owner(r), r->param[0], &t, err));
    return reply_template(r, t);
}

int cay__on_template_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_template_remove(r->client, &r->call, cay__native_owner(r), r->param[0], err));
    return cay__reply_done(r);
}

int cay__on_template_forget(cay__req *r, cay_err *err)
{
    const char *name = NULL;
    CAY_TRY(cay__req_asked(r, &name, err));
    CAY_TRY(cay_template_remove(r->client, &r->call, cay__native_owner(r), name, err));
    return cay__reply_done(r);
}

int cay__on_template_patch(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    CAY_AUTOPTR(cay_template) now = NULL;
    CAY_TRY(cay_template_find(r->client, &r->call, cay__native_owner(r), r->param[0], &t, err));
    cay__template_patch c = { .shared = t->shared };
    CAY_TRY(cay__req_body(r, &c, err));
    if (c.shared != t->shared) { /* a name that others see stands in for an image's when they build:
                                    the operator's to say */
        CAY_TRY(cay__req_shared(r, "templates for other tenants", err));
        CAY_TRY(
            cay_template_share(r->client, &r->call, cay__native_owner(r), t->id, c.shared, err));
    }
    if (c.name)
        CAY_TRY(cay_template_name(r->client, &r->call, cay__native_owner(r), t->id, c.name, err));
    CAY_TRY(cay_template_find(r->client, &r->call, cay__native_owner(r), t->id, &now, err));
    return reply_template(r, now);
}

int cay__on_template_create(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    cay__publish_body b = { 0 };
    CAY_TRY(cay__req_body(r, &b, err));
    cay_template_spec spec = { .size = sizeof spec,
                               .from = b.from,
                               .names = b.names,
                               .tenant = r->who.tenant,
                               .config = b.config,
                               .hidden = cay__native_hidden(r, b.hidden) };
    CAY_TRY(cay_template_publish(r->client, &r->call, &spec, &t, err));
    cay__req_about(r, t->id);
    return reply_template(r, t);
}

int cay__on_template_import(cay__req *r, cay_err *err)
{
    CAY_AUTOPTR(cay_template) t = NULL;
    CAY_AUTOFD fd = -1;
    char path[40];
    uint64_t bytes;
    cay_template_file spec = {
        .size = sizeof spec, .path = path, .source = "upload", .tenant = r->who.tenant
    };
    CAY_TRY(cay__req_asked(r, &spec, err));
    spec.hidden = cay__native_hidden(r, spec.hidden);
    CAY_TRY(cay__native_receive(r, "archive", ARCHIVE_MAX, &fd, &bytes, err));
    CAY_FORMAT(path, "/proc/self/fd/%d", fd);
    CAY_TRY(cay_template_import(r->client, &r->call, &spec, &t, err));
    return reply_template(r, t);
}

int cay__on_template_export(cay__req *r, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    CAY_TRY(cay__native_scratch(r, "ask for it", "archive", &fd, err));
    cay_template_out spec = {
        .size = sizeof spec, .ref = r->param[0], .tenant = cay__native_owner(r), .fd = fd
    };
    CAY_TRY(cay_template_export(r->client, &r->call, &spec, err));
    return cay__native_send(r, "application/x-tar", &fd, err);
}

static const char *get_tenant(cay__req *r)
{
    const char *t = cay__req_tenant(r);
    return CAY_OR(t, r->who.tenant);
}

int cay__on_registry_put(cay__req *r, cay_err *err)
{
    cay__registry_login b = { 0 };
    CAY_TRY(cay__req_body(r, &b, err));
    int rc = cay_registry_login(r->client, get_tenant(r), r->param[0], b.username, b.password, err);
    explicit_bzero((char *)(uintptr_t)b.password, strlen(b.password));
    if (rc < 0)
        return rc;
    return cay__reply_done(r);
}

static int on_login(const char *tenant, const char *registry, int64_t changed_ms, void *arg)
{
    return cay__items_add(arg, &(cay__registry_told){ registry, tenant, changed_ms });
}

int cay__on_registry_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(
        &l, cay_registry_logins(r->client, cay__req_tenant(r), on_login, &l, err), err);
}

int cay__on_registry_delete(cay__req *r, cay_err *err)
{
    CAY_TRY(cay_registry_logout(r->client, get_tenant(r), r->param[0], err));
    return cay__reply_done(r);
}

typedef struct finding {
    cay__req *r;
    const cay_pool *of;
} finding;

static int reply_it(const cay_pool *w, void *arg)
{
    const finding *f = arg;
    if (strcmp(w->template_, f->of->template_) || strcmp(w->tenant, f->of->tenant))
        return 0;
    cay__reply_object(f->r, w);
    return 1;
}

int cay__on_pool_put(cay__req *r, cay_err *err)
{
    cay_pool w = { .size = sizeof w, .low = 1 };
    CAY_TRY(cay__req_body(r, &w, err));
    w.tenant = CAY_OR(w.tenant, "default");
    CAY_TRY(cay_pool_put(r->client, &r->call, &w, err));
    cay__req_about(r, w.template_);
    int rc = cay_pool_list(r->client, &r->call, reply_it, &(finding){ r, &w }, err);
    if (rc > 0)
        return 0;
    if (rc < 0)
        return rc;
    return cay_fail_why(err, CAY_ENOENT, "warm_not_found", "the pool was removed meanwhile");
}

CAY__ITEMS_ADD(add_pool, cay_pool)

int cay__on_pool_list(cay__req *r, cay_err *err)
{
    cay__items l = cay__items_of(r);
    return cay__items_finish(&l, cay_pool_list(r->client, &r->call, add_pool, &l, err), err);
}

int cay__on_pool_delete(cay__req *r, cay_err *err)
{
    cay_pool p = { .size = sizeof p };
    CAY_TRY(cay__req_asked(r, &p, err));
    cay__req_about(r, p.template_);
    CAY_TRY(cay_pool_remove(r->client, &r->call, p.tenant, p.template_, err));
    return cay__reply_done(r);
}
