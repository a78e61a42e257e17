/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox on a server may reach: judged and enforced there. */
#include "remote_box.h"
#include <cay/policy.h>

int cay__far_policy(void *box, const cay_call *call, const char *text, size_t len,
                    uint64_t *revision, cay_err *err)
{
    cay__far_box *b = box;
    CAY_AUTOJSON *answer = NULL;
    json_t *body = NULL;
    CAY__FAR_TARGET(target);
    CAY_AUTOFREE char *own = strndup(text, len), *json = NULL;
    if (!own)
        abort();
    CAY_TRY(cay_policy_to_json(own, &json, err));
    CAY_TRY(cay__json_object("policy", json, &body, err));
    cay__far_at(&target, b, "/net");
    CAY_TRY(cay__far_json(b->far, call, "PUT", &target, body, &answer, err));
    if (revision)
        *revision = (uint64_t)cay__json_int(answer, "revision", 0);
    return 0;
}

int cay__far_policy_get(void *box, const cay_call *call, char **text, size_t *len,
                        uint64_t *revision, cay_err *err)
{
    cay__far_box *b = box;
    CAY_AUTOJSON *answer = NULL;
    CAY__FAR_TARGET(target);
    cay__far_at(&target, b, "/net");
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
    CAY_AUTOFREE char *json = cay__json_text(json_object_get(answer, "policy"), 4u << 20);
    CAY_TRY(cay_policy_from_json(CAY_OR(json, "{}"), text, err));
    *len = strlen(*text);
    if (revision)
        *revision = (uint64_t)cay__json_int(answer, "revision", 0);
    return 0;
}
