/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox: what it is, how long it lives, pause and resume, what it may reach. */
#include "e2b.h"
#include <server/history.h>
#include <base/mutant.h>

int e2b_on_get(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    char token[E2B_TOKEN_LEN + 1];
    CAY_TRY(e2b_open(r, &b, err));
    CAY_TRY(e2b_token(r, "envd", b.info->id, token, err));
    json_t *o = e2b_listed(&b);
    bool pauses = b.info->on_expiry == CAY_EXPIRE_PAUSE || b.note.files;
    json_object_update_new(
        o, json_pack("{s:s,s:o,s:o,s:O*,s:{s:b,s:s}}", "envdAccessToken", token, "domain",
                     e2b_domain(r), "allowInternetAccess",
                     b.note.internet_set ? json_boolean(b.note.internet) : json_null(), "network",
                     b.note.network, "lifecycle", "autoResume", b.note.auto_resume, "onTimeout",
                     pauses ? "pause" : "kill"));
    return cay__reply_json(r, 200, o);
}

int e2b_on_kill(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    CAY_TRY(e2b_open(r, &b, err));
    CAY_TRY(cay_sandbox_remove(b.sb, &r->call, err));
    cay_note_put(r->client, "e2b", b.info->id, NULL, NULL);
    CAY_AUTOFD dir = -1;
    if (cay__history_dir(r->client, &dir, NULL) == 0)
        cay__history_drop(dir, b.info->id);
    e2b_rules_sweep(r);
    return cay__reply_empty(r, 204);
}

int e2b_seconds(const json_t *in, const char *key, int64_t none, int64_t *out, cay_err *err)
{
    const json_t *v = json_object_get(in, key);
    *out = cay__json_int(in, key, none);
    if ((v && !json_is_integer(v)) || *out < 0 || *out > 86400 * 30)
        return cay_fail(err, CAY_EINVAL, "%s is a number of seconds, at most 30 days", key);
    return 0;
}

int e2b_on_timeout(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    int64_t s;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(e2b_seconds(in, "timeout", -1, &s, err));
    CAY_TRY(e2b_open(r, &b, err));
    CAY_TRY(cay_sandbox_extend(b.sb, &r->call, CAY_OR((uint64_t)s * 1000, 1), 0, err));
    return cay__reply_empty(r, 204);
}

/* Never less than what is left. */
static int extend_timeout(cay__req *r, const e2b_box *b, int64_t s, cay_err *err)
{
    int64_t left = b->info->deadline_ms - cay__clock_ms();
    if (e2b_running(b->info) && (!b->info->deadline_ms || left >= s * 1000))
        return 0;
    return cay_sandbox_extend(b->sb, &r->call, (uint64_t)s * 1000, 0, err);
}

int e2b_on_refresh(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    int64_t s;
    CAY_TRY(cay__req_json(r, 0, &in, err));
    CAY_TRY(e2b_seconds(in, "duration", 15, &s, err));
    if (s > 3600)
        return cay_fail(err, CAY_EINVAL, "duration is a number of seconds, at most 3600");
    CAY_TRY(e2b_open(r, &b, err));
    CAY_TRY(extend_timeout(r, &b, CAY_MAX(s, 15), err));
    return cay__reply_empty(r, 204);
}

/* "memory": false starts it anew from its files, though more of it was kept. */
static int resume_sandbox(cay__req *r, int64_t timeout, bool may_run, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in, *out;
    CAY_TRY(e2b_body(r, &in, err));
    CAY_TRY(e2b_seconds(in, "timeout", timeout, &timeout, err));
    CAY_TRY(e2b_open(r, &b, err));
    bool was = e2b_running(b.info);
    if (was && !may_run)
        return cay_fail(err, CAY_ESTATE, "sandbox \"%s\" is already running", b.info->id);
    if (b.info->state == CAY_PAUSED && !cay__json_bool(in, "memory", true))
        CAY_TRY(cay_sandbox_kill(b.sb, &r->call, err));
    if (!was)
        CAY_TRY(cay_sandbox_resume(b.sb, &r->call, err));
    CAY_TRY(extend_timeout(r, &b, CAY_MAX(timeout, 1), err));
    CAY_TRY(e2b_sandbox_json(r, b.info->id, b.note.template_, &out, err));
    return cay__reply_json(r, was ? 200 : 201, out);
}

int e2b_on_connect(cay__req *r, cay_err *err)
{
    return resume_sandbox(r, E2B_TIMEOUT, true, err);
}

int e2b_on_resume(cay__req *r, cay_err *err)
{
    return resume_sandbox(r, 15, false, err);
}

/* Without its memory it is stopped: files stay, processes do not. */
int e2b_on_pause(cay__req *r, cay_err *err)
{
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    CAY_TRY(e2b_body(r, &in, err));
    CAY_TRY(e2b_open(r, &b, err));
    if (!e2b_running(b.info))
        return cay_fail(err, CAY_ESTATE, "sandbox \"%s\" is already paused", b.info->id);
    /* What is paused stays until it is killed. */
    CAY_TRY(cay_sandbox_extend(b.sb, &r->call, CAY_UNLIMITED, 0, err));
    if (cay__json_bool(in, "memory", true))
        CAY_TRY(cay_sandbox_pause(b.sb, &r->call, err));
    else
        CAY_TRY(cay_sandbox_kill(b.sb, &r->call, err));
    return cay__reply_empty(r, 204);
}

/* Another network for one that is there: policy, and the values that it binds. */
static int update_network(cay__req *r, const e2b_box *b, const char *text, e2b_rule *rules,
                          size_t n, cay_err *err)
{
    const cay_secret *list = NULL;
    bool had = json_object_size(json_object_get(b->note.network, "rules"));
    if (!n && !had)
        return cay_sandbox_set_policy(b->sb, &r->call, text, NULL, err);
    int rc = e2b_rules_store(r, rules, n, b->info->id, &list, err);
    if (rc == 0)
        rc = cay_sandbox_set_secrets(b->sb, &r->call, text, list, n, err);
    e2b_rules_made(r, rules, n, rc < 0 ? NULL : b->info->id);
    if (rc == 0)
        e2b_rules_only(r, rules, n, b->info->id);
    return rc;
}

int e2b_on_network(cay__req *r, cay_err *err)
{
    e2b_rule *rules = NULL;
    size_t n = 0;
    E2B_AUTOBOX b = { 0 };
    json_t *in;
    CAY_AUTOFREE char *text = NULL, *note = NULL;
    CAY_TRY(e2b_body(r, &in, err));
    CAY_TRY(e2b_open(r, &b, err));
    bool open = cay__json_bool(in, "allow_internet_access", true);
    CAY_AUTOJSON *net = json_deep_copy(in);
    json_object_del(net, "allow_internet_access");
    CAY_TRY(e2b_policy(net, open, &text, err));
    CAY_TRY(e2b_rules_read(r, net, open, &rules, &n, err));
    /* Whoever says where a secret goes can have it sent to themselves. */
    if (n && r->who.scope < CAY__SCOPE_TENANT && !CAY__MUTANT("net-bindings"))
        return cay_fail_why(err, CAY_EPERM, "scope_too_narrow",
                            "network.rules: headers for other hosts need a key of scope tenant");
    CAY_AUTOJSON *told = json_deep_copy(net);
    CAY_TRY(e2b_rules_mask(r, told, err));
    CAY_AUTOJSON *o =
        json_pack("{s:O,s:b,s:b}", "network", told, "internet", open, "changed", n > 0);
    if (!(note = cay__json_text(o, 60000)))
        return cay_fail(err, CAY_ETOOBIG, "network is longer than 60 kB");
    CAY_TRY(update_network(r, &b, text, rules, n, err));
    CAY_TRY(cay_note_put(r->client, "e2b", b.info->id, note, err));
    return cay__reply_empty(r, 204);
}
