/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of sandboxes that are ready: which there are, and what they should hold. */
#include "pool.h"
#include "remote.h"
#include <lib/template/template.h>
#include <cay/access.h>
#include <cay/pool.h>

#define SPACE "warm"

/* By what it is of, so that asking twice makes one. */
static void name_pool(const char *tenant, const char *template_, char out[24])
{
    char hex[65];
    CAY_AUTOBUF b = CAY__BUF(1024);
    cay__buf_fmt(&b, "%s\n%s", tenant, template_);
    cay_idempotency_hash(b.data, b.len, hex);
    snprintf(out, 24, "w%.16s", hex);
}

const char *cay__pool_engine(cay_client *client, const char *name, const char **image)
{
    char word[32];
    cay__place *p;
    const char *colon = strchr(name, ':');
    if (!colon || !colon[1] || (size_t)(colon - name) >= sizeof word)
        return NULL;
    memcpy(word, name, (size_t)(colon - name));
    word[colon - name] = 0;
    if (cay__client_place(client, word, &p, NULL) < 0 || !CAY__HAS(p->ops, opaque_layers))
        return NULL;
    *image = colon + 1;
    return p->ops->name;
}

int cay__pool_means(cay_client *client, const cay_call *call, const json_t *pool, char *out,
                    size_t cap, cay_err *err)
{
    const char *name = cay__json_str(pool, "template", ""), *image;
    CAY_AUTOPTR(cay_template) t = NULL;
    if (!cay__pool_engine(client, name, &image))
        CAY_TRY(
            cay_template_find(client, call, cay__json_str(pool, "tenant", NULL), name, &t, err));
    if (cay__str_copy(out, cap, t ? t->id : name))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "warm_invalid", "%.60s…: the name is too long", name);
}

static int take_text(const char *value, void *arg)
{
    return cay__json_object("record: pool", value, arg, NULL);
}

int cay__pool_read(cay_client *client, const char *id, cay__pool_note *out, cay_err *err)
{
    json_t *j = NULL;
    if (CAY__STORE(client, note_get, SPACE, id, take_text, &j, NULL) < 0 || !j)
        return cay_fail_why(err, CAY_ENOENT, "warm_not_found",
                            "there is no such pool; cay pool ls shows those there are");
    *out = (cay__pool_note){ .all = j,
                             .low = (unsigned)cay__json_int(j, "low", 1),
                             .high = (unsigned)cay__json_int(j, "high", 1) };
    CAY_COPY(out->id, id);
    return 0;
}

int cay__pool_write(cay_client *client, const cay__pool_note *n, cay_err *err)
{
    CAY_AUTOFREE char *text = cay__json_text(n->all, 1u << 20);
    if (text)
        return CAY__STORE(client, note_put, SPACE, n->id, text, err);
    return cay_fail(err, CAY_ETOOBIG, "the pool's request is too long");
}

typedef struct counting {
    const char *pool;
    unsigned *ready, *making;
    cay_row_fn *fn;
    void *arg;
} counting;

static int on_row(const cay_row *row, void *arg)
{
    const counting *c = arg;
    CAY_AUTOJSON *labels = NULL;
    if (cay__json_object("labels", row->labels, &labels, NULL) < 0 ||
        strcmp(cay__json_str(labels, CAY__WARM_LABEL, ""), c->pool) != 0)
        return 0;
    if (row->state == CAY_RUNNING && strcmp(row->name, CAY__WARM_MAKING) != 0)
        ++*c->ready;
    else if (row->state == CAY_RUNNING || row->state == CAY_CREATING)
        ++*c->making;
    if (c->fn)
        return c->fn(row, c->arg);
    return 0;
}

int cay__pool_rows(cay_client *client, const char *pool, cay_row_fn *fn, void *arg, unsigned *ready,
                   unsigned *making, cay_err *err)
{
    const cay_filter f = { .size = sizeof f, .tenant = CAY__WARM_TENANT };
    *ready = *making = 0;
    return CAY__STORE(client, list, &f, on_row, &(counting){ pool, ready, making, fn, arg }, err);
}

static int count_pool(const char *key, const char *value, void *arg)
{
    ++*(unsigned *)arg;
    return 0;
}

static int check_spec(cay_pool *w, cay_err *err)
{
    if (!w->template_ || !*w->template_ || strlen(w->template_) > CAY_TEMPLATE_NAME)
        return cay_fail_why(err, CAY_EINVAL, "warm_invalid",
                            "a pool needs the template that its sandboxes are of");
    if (!w->low || w->low > w->high || w->high > CAY_POOL_MAX)
        return cay_fail_why(err, CAY_EINVAL, "warm_invalid",
                            "low %u, high %u: want 1 to %d, and low not above high", w->low,
                            w->high, CAY_POOL_MAX);
    w->tenant = CAY_OR(w->tenant, CAY_TENANT_DEFAULT);
    return cay__tenant_check(w->tenant, err);
}

static int there_is(const cay_tenant *t, void *arg)
{
    return 0;
}

int cay_pool_put(cay_client *client, const cay_call *call, const cay_pool *given, cay_err *err)
{
    cay_pool w;
    cay__pool_note n = { 0 };
    unsigned pools = 0;
    const char *image = NULL;
    CAY_TRY(cay__spec_take(&w, sizeof w, given, "cay_pool", err));
    CAY_TRY(check_spec(&w, err));
    if (client->remote)
        return cay__remote_do(client->remote, call, &CAY__REQUEST(pool_put, .body = &w), err);
    if (!strcmp(w.template_, CAY__BASE_HOST))
        return cay_fail_why(err, CAY_EINVAL, "warm_invalid",
                            "template host needs no pool: the keeper has some ready at all times");
    CAY_TRY(cay_tenant_get(client, w.tenant, there_is, NULL, err));
    char id[24], means[CAY_TEMPLATE_NAME + 1];
    name_pool(w.tenant, w.template_, id);
    if (cay__pool_engine(client, w.template_, &image) &&
        strcmp(w.tenant, CAY_TENANT_DEFAULT) !=
            0) /* who may use which image is asked each time: docs/docker.md */
        return cay_fail_why(err, CAY_EINVAL, "warm_invalid",
                            "pools of an engine's image are tenant default's");
    bool known = cay__pool_read(client, id, &n, NULL) == 0;
    CAY_AUTOJSON *all = NULL;
    if (known)
        all = n.all;
    else if (image)
        all = json_pack("{s:s,s:s,s:{s:{s:s}}}", "template", w.template_, "tenant", w.tenant,
                        "request", "options", "image", image);
    else
        all = json_pack("{s:s,s:s,s:{s:s}}", "template", w.template_, "tenant", w.tenant, "request",
                        "template", w.template_);
    if (!all)
        return cay_fail_why(err, CAY_EINVAL, "warm_invalid", "template %.60s: not UTF-8",
                            w.template_);
    CAY_TRY(cay__pool_means(client, call, all, means, sizeof means, err));
    n.all = all;
    CAY_COPY(n.id, id);
    CAY_TRY(CAY__STORE(client, note_list, SPACE, "", count_pool, &pools, err));
    if (!known && pools >= CAY_POOL_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "warm_too_many", "%d pools are the most",
                            CAY_POOL_MAX);
    json_object_set_new(all, "template_id", json_string(means));
    json_object_set_new(all, "low", json_integer(w.low));
    json_object_set_new(all, "high", json_integer(w.high));
    json_object_del(all, "error");
    json_object_del(all, "failed_ms");
    json_object_del(all, "of"); /* there is work, whatever is ready */
    CAY_TRY(cay__pool_write(client, &n, err));
    return cay_pool_schedule(client, err);
}

typedef struct telling {
    cay_client *client;
    cay_pool_fn *fn;
    void *arg;
    cay_err *err;
} telling;

static int on_listed_pool(const char *key, const char *value, void *arg)
{
    const telling *t = arg;
    CAY_AUTOJSON *j = NULL;
    if (cay__json_object("record: pool", value, &j, NULL) < 0)
        return 0;
    cay_pool w = { .size = sizeof w,
                   .template_ = cay__json_str(j, "template", ""),
                   .tenant = cay__json_str(j, "tenant", ""),
                   .id = key,
                   .low = (unsigned)cay__json_int(j, "low", 0),
                   .high = (unsigned)cay__json_int(j, "high", 0),
                   .error = cay__json_str(j, "error", "") };
    CAY_TRY(cay__pool_rows(t->client, key, NULL, NULL, &w.ready, &w.making, t->err));
    return t->fn(&w, t->arg);
}

int cay_pool_list(cay_client *client, const cay_call *call, cay_pool_fn *fn, void *arg,
                  cay_err *err)
{
    if (client->remote)
        return CAY__REMOTE_EACH(cay_pool, client->remote, call, CAY__REQUEST(pool_list), fn, arg,
                                err);
    return CAY__STORE(client, note_list, SPACE, "", on_listed_pool,
                      &(telling){ client, fn, arg, err }, err);
}

void cay__pool_drop(cay_client *client, const cay_call *call, const char *id)
{
    CAY_AUTOFREE cay__row *row = NULL;
    if (cay__call_check(call, "remove", NULL) < 0 || cay__client_row(client, id, &row, NULL) < 0)
        return;
    /* It was listed a while ago: only the store can tell whether a tenant has it now. */
    if (CAY__STORE(client, warm_drop, CAY__WARM_TENANT, id, NULL) == 0)
        cay__delete_finish(client, call, &row->row, NULL);
}

typedef struct dropping {
    cay_client *client;
    const cay_call *call;
} dropping;

static int drop_row(const cay_row *row, void *arg)
{
    const dropping *d = arg;
    cay__pool_drop(d->client, d->call, row->id);
    return 0;
}

int cay_pool_remove(cay_client *client, const cay_call *call, const char *tenant,
                    const char *template_, cay_err *err)
{
    char id[24];
    unsigned ready, making;
    cay__pool_note n;
    if (client->remote) {
        cay_pool which = { .template_ = CAY_OR(template_, ""), .tenant = tenant };
        return cay__remote_do(client->remote, call, &CAY__REQUEST(pool_delete, .query = &which),
                              err);
    }
    name_pool(CAY_OR(tenant, CAY_TENANT_DEFAULT), CAY_OR(template_, ""), id);
    CAY_TRY(cay__pool_read(client, id, &n, err));
    json_decref(n.all);
    CAY_TRY(CAY__STORE(client, note_put, SPACE, id, NULL, err));
    cay_job_cancel_of(client, CAY_POOL_TASK, id, NULL,
                      NULL); /* what it makes meanwhile it finds to be nobody's, and removes */
    return cay__pool_rows(client, id, drop_row, &(dropping){ client, call }, &ready, &making, err);
}

void cay_pool_counts(const cay_client *client, uint64_t *taken, uint64_t *missed)
{
    *taken = atomic_load(&client->warm_taken);
    *missed = atomic_load(&client->warm_missed);
}
