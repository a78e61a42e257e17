/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: what a sandbox starts from. */
#include "e2b.h"
#include <base/str.h>

static json_t *base_template(void)
{
    return json_pack("{s:s,s:s,s:i,s:i,s:i,s:b,s:[s],s:[s],s:s,s:s,s:n,s:n,s:i,s:i,s:s,s:s}", "templateID", "base", "buildID", "00000000-0000-0000-0000-000000000000", "cpuCount", 2, "memoryMB", 2048,
                     "diskSizeMB", 10240, "public", true, "aliases", "base", "names", "base", "createdAt", "2026-01-01T00:00:00Z", "updatedAt", "2026-01-01T00:00:00Z", "createdBy", "lastSpawnedAt", "spawnCount",
                     0, "buildCount", 1, "envdVersion", E2B_ENVD_VERSION, "buildStatus", "ready");
}

int e2b_on_templates(cay__req *r, cay_err *err)
{
    (void)err;
    return cay__reply_json(r, 200, json_pack("[o]", base_template()));
}

int e2b_on_alias(cay__req *r, cay_err *err)
{
    if (strcmp(r->param[0], "base"))
        return cay_fail_why(err, CAY_ENOENT, "template_not_found", "template '%.80s' not found", r->param[0]);
    return cay__reply_json(r, 200, json_pack("{s:s,s:b}", "templateID", "base", "public", true));
}

int e2b_on_build(cay__req *r, cay_err *err)
{
    (void)r;
    return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "template builds are not supported by this server yet; start from base or from a snapshot");
}
