/* SPDX-License-Identifier: Apache-2.0 */
/* Another agent goes on: what it was told with it, and what it sees of the history. */
#include "audit.h"
#include "run.h"
#include "trace.h"

int cay__handoff_check(const json_t *item, const cay_handoff *h, cay_err *err)
{
    CAY_AUTOJSON *schema = NULL, *args = NULL;
    const char *text = cay__json_str(item, "arguments", "");
    if (!h->parameters)
        return 0;
    CAY_TRY(cay__json_object("it", cay__text_or(text, "{}"), &args, err));
    CAY_TRY(cay__json_object("schema", h->parameters, &schema, err));
    return cay__schema_check(schema, args, err);
}

static int filter_history(cay_run *r, const cay_handoff *h, cay_err *err)
{
    CAY_AUTOFREE char *items = cay__json_text(r->context, CAY__TEXT_MAX);
    CAY_AUTOFREE char *instead = NULL;
    CAY_AUTOJSON *j = NULL;
    if (!h->filter || !items)
        return 0;
    CAY_TRY(h->filter(h->arg, r, items, &instead, err));
    if (!instead)
        return 0;
    CAY_TRY(cay__input_items(instead, &j, err));
    json_decref(r->context);
    r->context = CAY_STEAL(j);
    r->told = SIZE_MAX;
    return 0;
}

int cay__hand_over(cay_run *r, const json_t *item, const cay_handoff *h, cay_err *err)
{
    cay_agent *from = r->seat->given;
    CAY_AUTOBUF b = CAY__BUF(512);
    const char *args = cay__json_str(item, "arguments", "");
    cay__buf_str(&b, "{\"assistant\":");
    cay__buf_json(&b, h->agent->name, strlen(h->agent->name));
    cay__buf_str(&b, "}");
    if (h->taken)
        CAY_TRY(h->taken(h->arg, r, h->parameters && *args ? args : "{}", err));
    json_t *told = json_string(b.data);
    CAY_TRY(cay__call_answer(r, item, CAY_OR(told, json_string("{}")), err));
    CAY_TRY(cay__run_event(r, CAY_RUN_ITEM, "handoff_occured", item, err));
    cay__span *span = cay__span_begin(r, "handoff", h->agent->name);
    cay__span_data(span, "from_agent", json_string(from->name));
    cay__span_data(span, "to_agent", json_string(h->agent->name));
    cay__span_end(span, NULL);
    CAY_TRY(cay__audit_sink(r, "handoff", json_pack("{s:s}", "to", h->agent->name), err));
    CAY__HOOK(r, handoff, r, from, h->agent);
    CAY_TRY(filter_history(r, h, err));
    r->seat = cay__seat_of(r, h->agent);
    r->tools_used = false;
    CAY_AUTOJSON *name = json_string(h->agent->name);
    return cay__run_event(r, CAY_RUN_AGENT, h->agent->name, name, err);
}
