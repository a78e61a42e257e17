/* SPDX-License-Identifier: Apache-2.0 */
#include "background.h"
#include <base/base.h>
#include <base/json.h>
#include <cay/policy.h>

/* What holds, as an object with mode, rules and the rest. */
static int read_policy(cay_sandbox *sb, const cay_call *call, json_t **out, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL, *json = NULL;
    CAY_TRY(cay_sandbox_get_policy(sb, call, &text, NULL, err));
    CAY_TRY(cay_policy_to_json(text, &json, err));
    return cay__json_object("policy", json, out, err);
}

static bool has_rule(const json_t *rules, const char *rule)
{
    for (size_t i = 0; i < json_array_size(rules); i++)
        if (!strcmp(json_string_value(json_array_get(rules, i)), rule))
            return true;
    return false;
}

/* Rules in the one spelling that a policy has, presets taken apart. */
static int normalize_rules(const char *const *rules, json_t **out, cay_err *err)
{
    CAY_AUTOFREE char *asked = NULL, *text = NULL, *json = NULL;
    CAY_AUTOJSON *o = json_pack("{s:s,s:[]}", "mode", "rules", "rules");
    for (const char *const *p = rules; *p; p++)
        json_array_append_new(json_object_get(o, "rules"), json_string(*p));
    asked = cay__json_text(o, 1u << 20);
    if (!asked)
        return cay_fail_why(err, CAY_ETOOBIG, "body_too_big", "the rules are too long");
    CAY_TRY(cay_policy_from_json(asked, &text, err));
    CAY_TRY(cay_policy_to_json(text, &json, err));
    return cay__json_object("rules", json, out, err);
}

static int end_later(cay_client *client, cay_sandbox *sb, const cay_call *call, const json_t *fresh,
                     uint64_t ttl_ms, char id[CAY_ID_LEN + 1], cay_err *err)
{
    cay_info *info = NULL;
    CAY_AUTOJSON *o = json_pack("{s:O}", "rules", fresh);
    CAY_AUTOFREE char *detail = cay__json_text(o, 60000);
    if (!detail)
        return cay_fail_why(err, CAY_ETOOBIG, "body_too_big", "the rules are too long");
    CAY_TRY(cay_sandbox_describe(sb, call, &info, err));
    cay_job t = { .size = sizeof t,
                  .kind = CAY__NET_END,
                  .subject = info->id,
                  .tenant = info->tenant,
                  .detail = detail,
                  .due_ms = cay__clock_ms() + (int64_t)ttl_ms,
                  .backoff_ms = 5000 };
    int rc = cay_job_put(client, &t, CAY_JOB_KEEP, id, err);
    cay_info_free(info);
    return rc;
}

int cay__net_while(cay_client *client, cay_sandbox *sb, const cay_call *call,
                   const char *const *rules, uint64_t ttl_ms, uint64_t *revision, cay_err *err)
{
    CAY_AUTOJSON *now = NULL, *want = NULL, *fresh = json_array();
    char id[CAY_ID_LEN + 1] = "";
    CAY_TRY(read_policy(sb, call, &now, err));
    CAY_TRY(normalize_rules(rules, &want, err));
    const json_t *list = json_object_get(want, "rules");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!has_rule(json_object_get(now, "rules"), json_string_value(json_array_get(list, i))))
            json_array_append(fresh, json_array_get(list, i));
    if (json_array_size(fresh))
        CAY_TRY(end_later(client, sb, call, fresh, ttl_ms, id, err));
    int rc = cay_sandbox_net_add(sb, call, rules, revision, err);
    if (rc < 0 && *id)
        cay_job_cancel(client, id, NULL);
    return rc;
}

int cay__net_end(cay_sandbox *sb, const cay_call *call, const cay_job *t, cay_err *err)
{
    CAY_AUTOJSON *now = NULL, *detail = NULL;
    CAY_AUTOFREE char *json = NULL, *text = NULL;
    CAY_TRY(cay__json_object("detail", CAY_OR(t->detail, "{}"), &detail, err));
    CAY_TRY(read_policy(sb, call, &now, err));
    const json_t *gone = json_object_get(detail, "rules");
    json_t *rules = json_object_get(now, "rules");
    for (size_t i = json_array_size(rules); i-- > 0;)
        if (has_rule(gone, json_string_value(json_array_get(rules, i))))
            json_array_remove(rules, i);
    json = cay__json_text(now, 8u << 20);
    if (!json)
        return cay_fail(err, CAY_ETOOBIG, "the policy is too long");
    CAY_TRY(cay_policy_from_json(json, &text, err));
    return cay_sandbox_set_policy(sb, call, text, NULL, err);
}
