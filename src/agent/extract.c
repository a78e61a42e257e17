/* SPDX-License-Identifier: Apache-2.0 */
/* Archives into the sandbox of a run, within the run's limits. */
#include "run.h"
#include <base/spec.h>
#include <cay/workspace.h>

int cay_run_extract(const cay_run *r, const cay_extract *given, cay_extracted *out, cay_err *err)
{
    cay_extract spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_extract", err));
    if (!r->seat->sb)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_config_invalid",
                            "agent %.60s works in no sandbox", r->seat->agent->name);
    if (!spec.limits)
        spec.limits = r->conf->archive_limits;
    return cay_sandbox_extract(r->seat->sb, r->call, &spec, out, err);
}
