/* SPDX-License-Identifier: Apache-2.0 */
/* Yes or no to a call: what was decided before counts, then whoever may be asked at once. */
#include "audit.h"
#include "run.h"

static bool is_listed(const json_t *v, const char *call_id)
{
    if (json_is_true(v))
        return true;
    CAY_EACH_ITEM(id, v)
        if (json_is_string(id) && !strcmp(json_string_value(id), call_id))
            return true;
    return false;
}

static cay_verdict lookup_verdict(const cay_run *r, const cay_tool_call *call, const char **message)
{
    const json_t *a = json_object_get(r->approvals, call->tool);
    *message = cay__json_str(json_object_get(a, "rejection_messages"), call->call_id,
                             cay__json_str(a, "sticky_rejection_message", CAY__NOT_APPROVED));
    if (is_listed(json_object_get(a, "rejected"), call->call_id))
        return CAY_REJECT;
    if (is_listed(json_object_get(a, "approved"), call->call_id))
        return CAY_APPROVE;
    return CAY_ASK_LATER;
}

static void record_tool_verdict(cay_run *r, const char *tool, bool yes, const char *message)
{
    json_t *a = cay__json_object_in(r->approvals, tool);
    json_object_set_new(a, yes ? "approved" : "rejected", json_true());
    if (!yes && message)
        cay__json_put(a, "sticky_rejection_message", message);
}

static void write_down(cay_run *r, const cay_tool_call *call, const char *verdict)
{
    json_t *e = CAY_IF(r->conf->ledger, json_pack("{s:s, s:s, s:s}", "tool", call->tool, "call_id",
                                                  call->call_id, "verdict", verdict));
    if (e)
        cay__audit_sink(
            r, "approval", e,
            NULL); /* one that must be written and is not ends the run at its next step */
}

cay_verdict cay__verdict(cay_run *r, const cay_tool_call *call, char **why)
{
    const char *message = NULL;
    CAY_AUTOFREE char *said = NULL;
    cay_verdict v = lookup_verdict(r, call, &message);
    if (v == CAY_ASK_LATER && r->conf->approve)
        v = r->conf->approve(r->conf->approve_arg, call, &said);
    bool yes = v == CAY_APPROVE || v == CAY_APPROVE_ALWAYS;
    if (v == CAY_APPROVE_ALWAYS || v == CAY_REJECT_ALWAYS)
        record_tool_verdict(r, call->tool, yes, said);
    if (yes) {
        write_down(r, call, "approved");
        return CAY_APPROVE;
    }
    if (v == CAY_ASK_LATER) {
        write_down(r, call, "asked");
        return v;
    }
    write_down(r, call, "rejected");
    *why = cay__strdup(said && *said ? said : CAY_OR(message, CAY__NOT_APPROVED));
    return CAY_REJECT;
}
