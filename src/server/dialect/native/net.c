/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach, and what it did reach. */
#include "native.h"
#include <base/mutant.h>
#include <server/events.h>
#include <server/background.h>

CAY_DEFINE_AUTO(cay_policy, cay_policy_free)

int cay__on_net_get(cay__req *r, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL, *json = NULL;
    cay__revised v = { 0 };
    CAY_TRY(cay_sandbox_get_policy(r->sb, &r->call, &text, &v.revision, err));
    CAY_TRY(cay_policy_to_json(text, &json, err));
    v.policy = json;
    return cay__reply_object(r, &v);
}

static bool has_binding(const cay_policy *p, const cay_bind *b)
{
    for (const cay_bind *o = p->bindings; o && o->name; o++)
        if (!strcmp(o->name, b->name) && !strcmp(o->destination, b->destination))
            return true;
    return false;
}

/* Whoever says where a secret goes can have it sent to themselves. A key of one sandbox may leave
 * bindings out, and make none. */
static int may_bind(cay__req *r, const char *text, cay_err *err)
{
    CAY_AUTOPTR(cay_policy) now = NULL;
    CAY_AUTOPTR(cay_policy) next = NULL;
    CAY_AUTOFREE char *held = NULL;
    if (r->who.scope >= CAY__SCOPE_TENANT || CAY__MUTANT("net-bindings"))
        return 0;
    CAY_TRY(cay_policy_parse(text, &next, err));
    if (!next->bindings || !next->bindings->name)
        return 0;
    CAY_TRY(cay_sandbox_get_policy(r->sb, &r->call, &held, NULL, err));
    CAY_TRY(cay_policy_parse(held, &now, err));
    for (const cay_bind *b = next->bindings; b->name; b++)
        if (!has_binding(now, b))
            return cay_fail_why(
                err, CAY_EPERM, "scope_too_narrow",
                "bindings: another destination for secret %.63s needs a key of scope tenant",
                b->name);
    return 0;
}

int cay__on_net_put(cay__req *r, cay_err *err)
{
    json_t *j;
    CAY_AUTOFREE char *json = NULL, *text = NULL;
    cay__revised v = { 0 };
    CAY_TRY(cay__req_json(r, 0, &j, err));
    json = cay__json_text(j, 8u << 20);
    if (!json)
        return cay_fail_why(err, CAY_ETOOBIG, "body_too_big", "the policy is too long");
    CAY_TRY(cay_policy_from_json(json, &text, err));
    CAY_TRY(may_bind(r, text, err));
    CAY_TRY(cay_sandbox_set_policy(r->sb, &r->call, text, &v.revision, err));
    return cay__reply_object(r, &v);
}

int cay__on_net_rules(cay__req *r, cay_err *err)
{
    cay__net_rules b = { 0 };
    cay__revised v = { 0 };
    CAY_TRY(cay__req_body(r, &b, err));
    if (b.ttl_ms)
        CAY_TRY(cay__net_while(r->client, r->sb, &r->call, b.rules, b.ttl_ms, &v.revision, err));
    else
        CAY_TRY(cay_sandbox_net_add(r->sb, &r->call, b.rules, &v.revision, err));
    return cay__reply_object(r, &v);
}

int cay__on_net_why(cay__req *r, cay_err *err)
{
    cay__net_judged j = { .v.size = sizeof j.v };
    CAY_TRY(cay__req_asked(r, &j, err));
    CAY_TRY(cay_net_evaluate(r->sb, &r->call, j.host, j.port, &j.v, err));
    return cay__reply_object(r, &j);
}

static void put_record(cay__buf *b, const cay_net_record *rec)
{
    cay__buf_str(b, b->data[b->len - 1] == '[' ? "" : ",");
    cay__buf_str(b, rec->json);
}

typedef struct walk {
    cay__buf b;
    uint64_t seen, skip;
    bool denied, print;
    cay__net_follow *follow; /* what was told already is not told again */
} walk;

static int on_record(const cay_net_record *rec, void *arg)
{
    walk *w = arg;
    if (w->denied && strcmp(rec->verdict, "deny") != 0)
        return 0;
    if (w->seen++ < w->skip || !w->print)
        return 0;
    if (w->follow)
        cay__net_follow_record(w->follow, rec);
    else
        put_record(&w->b, rec);
    if (w->b.full)
        return CAY_ETOOBIG;
    return 0;
}

static int read_log(cay_sandbox *sb, walk *w, uint64_t count, cay_err *err)
{
    if (count) { /* how many there are, to know the last ones */
        CAY_TRY(cay_net_log(sb, on_record, w, err));
        if (w->seen > count)
            w->skip = w->seen - count;
        else
            w->skip = 0;
        w->seen = 0;
    }
    w->print = true;
    return cay_net_log(sb, on_record, w, err);
}

int cay__on_net_log(cay__req *r, cay_err *err)
{
    cay__log_query q = { 0 };
    CAY_TRY(cay__req_asked(r, &q, err));
    walk w = { .b = CAY__BUF(64u << 20), .denied = q.denied };
    if (q.follow) {
        CAY_TRY(cay__net_follow_open(r, cay_sandbox_id(r->sb), w.denied, &w.follow, err));
        int rc = read_log(r->sb, &w, q.count, err);
        if (rc == 0)
            return cay__net_follow_reply(w.follow);
        cay__net_follow_drop(w.follow);
        return rc;
    }
    cay__buf_str(&w.b, "{\"items\":[");
    int rc = read_log(r->sb, &w, q.count, err);
    cay__buf_str(&w.b, "]}");
    if (rc == 0) {
        if (w.b.full)
            rc = cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                              "the log is too long; ask for the last ones by ?count=");
        else
            rc = cay__reply(r, 200, "application/json", w.b.data, w.b.len);
    }
    cay__buf_clear(&w.b);
    return rc;
}

int cay__on_net_presets(cay__req *r, cay_err *err)
{
    const char *name;
    const char *const *rules;
    json_t *o = json_object();
    for (size_t i = 0; (name = cay_net_preset(i, &rules)); i++) {
        json_t *a = json_array();
        for (const char *const *p = rules; *p; p++)
            json_array_append_new(a, json_string(*p));
        json_object_set_new(o, name, a);
    }
    return cay__reply_json(r, 200, o);
}
