/* SPDX-License-Identifier: Apache-2.0 */
/* Of a client of a server: who may use it, what is left to be done, and who did what. */
#include "remote_box.h"
#include "client.h"
#include <base/fd.h>

int cay__remote_key_create(cay_client *client, const cay_key *given, char *text, cay_err *err)
{
    cay_key k;
    CAY_AUTOJSON *o = NULL;
    CAY__FAR_TARGET(target);
    CAY_TRY(cay__spec_take(&k, sizeof k, given, "cay_key", err));
    json_t *body =
        json_pack("{s:s*, s:s*, s:s*, s:s*, s:s*}", "tenant", k.tenant, "name", k.name, "sandbox",
                  k.sandbox, "path", k.path, "scope", k.scope ? cay_key_scope_name(k.scope) : NULL);
    if (body && k.port)
        json_object_set_new(body, "port", json_integer(k.port));
    if (body && k.expires_ms)
        json_object_set_new(
            body, "ttl_ms",
            json_integer((json_int_t)CAY_MAX(k.expires_ms - cay__clock_ms(), (int64_t)1)));
    cay__buf_str(&target, CAY__FAR_API "/keys");
    CAY_TRY(cay__far_json(cay__remote_far(client), NULL, "POST", &target, body, &o, err));
    if (cay__str_copy(text, CAY_KEY_LEN + 1, cay__far_word(o, "key")))
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "net_answer", "the server told no key");
}

typedef struct keys {
    int (*fn)(const cay_key *, void *);
    void *arg;
} keys;

static int on_key(const json_t *o, void *arg)
{
    const keys *w = arg;
    cay_key k = { .size = sizeof k,
                  .id = cay__far_word(o, "id"),
                  .tenant = cay__far_word(o, "tenant"),
                  .name = cay__far_word(o, "name"),
                  .scope = cay_key_scope_parse(cay__far_word(o, "scope")),
                  .sandbox = cay__far_word(o, "sandbox"),
                  .path = cay__far_word(o, "path"),
                  .from = cay__far_word(o, "from"),
                  .port = (uint16_t)cay__json_int(o, "port", 0),
                  .created_ms = cay__json_int(o, "created_ms", 0),
                  .expires_ms = cay__json_int(o, "expires_ms", 0),
                  .revoked_ms = cay__json_int(o, "revoked_ms", 0),
                  .used_ms = cay__json_int(o, "used_ms", 0) };
    return w->fn(&k, w->arg);
}

int cay__remote_key_list(cay_client *client, const char *tenant, int (*fn)(const cay_key *, void *),
                         void *arg, cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/keys");
    if (tenant)
        cay__far_query(&target, "tenant", tenant);
    return cay__remote_each(client, NULL, &target, on_key, &(keys){ fn, arg }, err);
}

int cay__remote_key_revoke(cay_client *client, const char *id, cay_err *err)
{
    return cay__remote_order(client, "DELETE", "keys", id, "", NULL, NULL, err);
}

static cay_quota quota_of(const json_t *o)
{
    return (cay_quota){ (uint64_t)cay__json_int(o, "sandboxes", 0),
                        (uint64_t)cay__json_int(o, "cpu_milli", 0),
                        (uint64_t)cay__json_int(o, "memory", 0),
                        (uint64_t)cay__json_int(o, "disk", 0),
                        (uint64_t)cay__json_int(o, "creates_per_min", 0),
                        (uint64_t)cay__json_int(o, "templates", 0) };
}

static json_t *quota_json(const cay_quota *q)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "sandboxes", (json_int_t)q->sandboxes,
                     "cpu_milli", (json_int_t)q->cpu_milli, "memory", (json_int_t)q->memory, "disk",
                     (json_int_t)q->disk, "creates_per_min", (json_int_t)q->creates_per_min,
                     "templates", (json_int_t)q->templates);
}

int cay__remote_tenant_put(cay_client *client, const cay_tenant *given, bool fresh, cay_err *err)
{
    cay_tenant t;
    CAY__FAR_TARGET(target);
    CAY_TRY(cay__spec_take(&t, sizeof t, given, "cay_tenant", err));
    if (!fresh)
        return cay__remote_order(client, "PATCH", "tenants", t.name, "",
                                 json_pack("{s:o}", "most", quota_json(&t.most)), NULL, err);
    cay__buf_str(&target, CAY__FAR_API "/tenants");
    return cay__far_json(
        cay__remote_far(client), NULL, "POST", &target,
        json_pack("{s:s, s:o}", "name", CAY_OR(t.name, ""), "most", quota_json(&t.most)), NULL,
        err);
}

int cay__remote_tenant_remove(cay_client *client, const char *name, cay_err *err)
{
    return cay__remote_order(client, "DELETE", "tenants", name, "", NULL, NULL, err);
}

typedef struct tenants {
    int (*fn)(const cay_tenant *, void *);
    void *arg;
    const char *only; /* or NULL */
    bool found;
} tenants;

static int on_tenant(const json_t *o, void *arg)
{
    tenants *w = arg;
    cay_tenant t = { .size = sizeof t,
                     .name = cay__far_word(o, "name"),
                     .most = quota_of(json_object_get(o, "most")),
                     .used = quota_of(json_object_get(o, "used")),
                     .created_ms = cay__json_int(o, "created_ms", 0) };
    if (w->only && strcmp(w->only, t.name) != 0)
        return 0;
    w->found = true;
    return w->fn(&t, w->arg);
}

int cay__remote_tenant_list(cay_client *client, const char *only,
                            int (*fn)(const cay_tenant *, void *), void *arg, cay_err *err)
{
    tenants w = { fn, arg, only, false };
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/tenants");
    CAY_TRY(cay__remote_each(client, NULL, &target, on_tenant, &w, err));
    if (only && !w.found)
        return cay_fail_why(err, CAY_ENOENT, "tenant_not_found", "there is no tenant %.60s", only);
    return 0;
}

typedef struct tasks {
    int (*fn)(const cay_job *, void *);
    void *arg;
} tasks;

static int on_task(const json_t *o, void *arg)
{
    const tasks *w = arg;
    const json_t *detail = json_object_get(o, "detail");
    CAY_AUTOFREE char *text = NULL;
    if (detail)
        text = cay__json_text(detail, 1u << 20);
    cay_job t = { .size = sizeof t,
                  .kind = cay__far_word(o, "kind"),
                  .subject = cay__far_word(o, "subject"),
                  .tenant = cay__far_word(o, "tenant"),
                  .key = cay__far_word(o, "key"),
                  .detail = CAY_OR(text, ""),
                  .due_ms = cay__json_int(o, "due_ms", 0),
                  .most = (unsigned)cay__json_int(o, "most", 0),
                  .id = cay__far_word(o, "id"),
                  .state = cay__far_word(o, "state"),
                  .owner = "",
                  .error = cay__far_word(o, "error"),
                  .attempts = (unsigned)cay__json_int(o, "attempts", 0),
                  .created_ms = cay__json_int(o, "created_ms", 0),
                  .changed_ms = cay__json_int(o, "changed_ms", 0) };
    return w->fn(&t, w->arg);
}

int cay__remote_task_list(cay_client *client, const cay_job_filter *f,
                          int (*fn)(const cay_job *t, void *arg), void *arg, cay_err *err)
{
    const struct {
        const char *name, *value;
    } words[] = { { "state", f->state },
                  { "kind", f->kind },
                  { "sandbox", f->subject },
                  { "tenant", f->tenant } };
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/jobs");
    for (size_t i = 0; i < CAY_LEN(words); i++)
        if (words[i].value)
            cay__far_query(&target, words[i].name, words[i].value);
    cay__far_query_u64(&target, "limit", f->limit && f->limit < 1000 ? f->limit : 1000);
    return cay__remote_each(client, NULL, &target, on_task, &(tasks){ fn, arg }, err);
}

int cay__remote_task_order(cay_client *client, const char *id, const char *verb, cay_err *err)
{
    return cay__remote_order(client, "POST", "jobs", id, verb, NULL, NULL, err);
}

typedef struct audits {
    int (*fn)(const cay_audit *, void *);
    void *arg;
} audits;

static int on_audit(const json_t *o, void *arg)
{
    const audits *w = arg;
#define W(name) cay__far_word(o, name)
    cay_audit a = { .size = sizeof a,
                    .actor = W("actor"),
                    .tenant = W("tenant"),
                    .action = W("action"),
                    .object = W("object"),
                    .verdict = W("verdict"),
                    .peer = W("peer"),
                    .request = W("request"),
                    .status = (int)cay__json_int(o, "status", 0),
                    .us = (uint64_t)cay__json_int(o, "us", 0),
                    .seq = (uint64_t)cay__json_int(o, "seq", 0),
                    .time_ms = cay__json_int(o, "time_ms", 0),
                    .hash = W("hash") };
#undef W
    return w->fn(&a, w->arg);
}

int cay__remote_audit_list(cay_client *client, const cay_audit_filter *f,
                           int (*fn)(const cay_audit *, void *), void *arg, cay_err *err)
{
    const struct {
        const char *name, *value;
    } words[] = { { "tenant", f->tenant }, { "object", f->object }, { "action", f->action } };
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/audit");
    for (size_t i = 0; i < CAY_LEN(words); i++)
        if (words[i].value)
            cay__far_query(&target, words[i].name, words[i].value);
    if (f->since_ms)
        cay__far_query_u64(&target, "since_ms", (uint64_t)f->since_ms);
    cay__far_query_u64(&target, "last", f->last && f->last < 10000 ? f->last : 10000);
    return cay__remote_each(client, NULL, &target, on_audit, &(audits){ fn, arg }, err);
}

int cay__remote_audit_verify(cay_client *client, const char *head, cay_audit_proof *out,
                             cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    cay_audit_proof p = { .size = sizeof p };
    CAY__FAR_TARGET(target);
    cay__buf_str(&target, CAY__FAR_API "/audit/proof");
    if (head)
        cay__far_query(&target, "head", head);
    CAY_TRY(cay__far_json(cay__remote_far(client), NULL, "GET", &target, NULL, &o, err));
    p.first = (uint64_t)cay__json_int(o, "first", 0);
    p.last = (uint64_t)cay__json_int(o, "last", 0);
    p.torn = (uint64_t)cay__json_int(o, "torn", 0);
    p.dropped = (uint64_t)cay__json_int(o, "dropped", 0);
    cay__str_copy(p.head, sizeof p.head, cay__far_word(o, "head"));
    cay__str_copy(p.why, sizeof p.why, cay__far_word(o, "why"));
    cay__answer_give(out, &p, sizeof p);
    if (cay__json_bool(o, "sound", false))
        return 0;
    return cay_fail_why(err, CAY_ESTATE, "audit_broken", "%s",
                        cay__text_or(p.why, "the audit log is not as it was"));
}
