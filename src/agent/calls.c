/* SPDX-License-Identifier: Apache-2.0 */
/* What a model asked for: tools that may run do, those that need a yes wait for it, a handoff changes who goes on. */
#include "run.h"
#include "trace.h"
#include <base/fd.h>
#include <base/str.h>
#include <stdio.h>

#define NOT_APPROVED "Tool execution was not approved."

typedef struct one_call {
    const json_t   *item;
    const cay_tool *tool;
    cay_tool_call   pub;
    char           *text; /* its arguments as the tool gets them; owned */
    json_t         *args; /* parsed, or NULL for free-form ones */
} one_call;

/* ------------------------------------------------------------------ answers */

static int answer(cay_run *r, const json_t *call, json_t *output, cay_err *err)
{
    bool custom = cay__item_is(call, "custom_tool_call");
    json_t *item = json_pack("{s:s, s:s, s:o}", "type", custom ? "custom_tool_call_output" : "function_call_output", "call_id",
                             cay__json_str(call, "call_id", ""), "output", output);
    return cay__run_add(r, "tool_output", item, err);
}

/* A text as an output. */
__attribute__((format(printf, 1, 2))) static json_t *sound(const char *fmt, ...)
{
    char text[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cay_tool_output o = { 0 };
    cay_output_text(&o, text, strlen(text));
    return cay__output_take(&o);
}

/* ------------------------------------------------------------------ approvals */

static bool listed(const json_t *v, const char *call_id)
{
    size_t i;
    json_t *id;
    if (json_is_true(v))
        return true;
    json_array_foreach(v, i, id)
        if (json_is_string(id) && !strcmp(json_string_value(id), call_id))
            return true;
    return false;
}

static cay_verdict decided(const cay_run *r, const char *tool, const char *call_id, const char **message)
{
    const json_t *a = json_object_get(r->approvals, tool);
    *message = cay__json_str(json_object_get(a, "rejection_messages"), call_id, cay__json_str(a, "sticky_rejection_message", NOT_APPROVED));
    if (listed(json_object_get(a, "rejected"), call_id))
        return CAY_REJECT;
    return listed(json_object_get(a, "approved"), call_id) ? CAY_APPROVE : CAY_ASK_LATER;
}

static void remember(cay_run *r, const char *tool, cay_verdict v, const char *message)
{
    json_t *a = json_object_get(r->approvals, tool);
    if (!a) {
        a = json_object();
        json_object_set_new(r->approvals, tool, a);
    }
    json_object_set_new(a, v == CAY_APPROVE_ALWAYS ? "approved" : "rejected", json_true());
    if (v == CAY_REJECT_ALWAYS && message)
        json_object_set_new(a, "sticky_rejection_message", json_string(message));
}

static bool needs_yes(const one_call *c)
{
    return c->tool->needs_approval ? c->tool->needs_approval(c->tool->arg, &c->pub) : c->tool->approval;
}

/* How far a call got. */
typedef enum fate { FATE_DONE = 0, FATE_TOLD, FATE_WAITS } fate; /* the tool answered; it did not run, and was told why; nobody decided yet */

/* May it run? FATE_DONE: yes. FATE_TOLD: *out says why not. */
static fate approve(cay_run *r, const one_call *c, json_t **out)
{
    const char *message = NULL;
    CAY_AUTOFREE char *said = NULL;
    if (!needs_yes(c))
        return FATE_DONE;
    cay_verdict v = decided(r, c->pub.tool, c->pub.call_id, &message);
    if (v == CAY_ASK_LATER && r->conf->approve)
        v = r->conf->approve(r->conf->approve_arg, &c->pub, &said);
    if (v == CAY_APPROVE_ALWAYS || v == CAY_REJECT_ALWAYS)
        remember(r, c->pub.tool, v, said);
    if (v == CAY_APPROVE || v == CAY_APPROVE_ALWAYS)
        return FATE_DONE;
    if (v == CAY_ASK_LATER)
        return FATE_WAITS;
    *out = sound("%s", said && *said ? said : message ? message : NOT_APPROVED);
    return FATE_TOLD;
}

/* ------------------------------------------------------------------ one tool */

/* Its arguments as the tool wants them, or a text that tells the model what is wrong with them. */
static int read_arguments(one_call *c, cay_err *err)
{
    const json_t *raw = json_object_get(c->item, cay__item_is(c->item, "custom_tool_call") ? "input" : "arguments");
    const char *text = json_is_string(raw) ? json_string_value(raw) : "";
    if (json_is_string(raw) && strlen(text) != json_string_length(raw))
        return cay_fail(err, CAY_EINVAL, "there is a NUL character in it");
    if (cay__item_is(c->item, "custom_tool_call")) {
        if (!c->tool->grammar)
            return cay_fail(err, CAY_EINVAL, "this tool is a function: call it with a JSON object");
        c->text = cay__strdup(text);
        return 0;
    }
    CAY_TRY(cay__json_object("it", *text ? text : "{}", &c->args, err));
    if (c->tool->grammar && !c->tool->parameters) {
        c->text = cay__strdup(cay__json_str(c->args, "input", ""));
        return 0;
    }
    if (c->tool->parameters) {
        CAY_AUTOJSON *schema = NULL;
        CAY_TRY(cay__json_object("schema", c->tool->parameters, &schema, err));
        CAY_TRY(cay__schema_check(schema, c->args, err));
    }
    c->text = cay__strdup(*text ? text : "{}");
    return 0;
}

static cay_call bounded(const cay_run *r, const cay_tool *t)
{
    cay_call call = r->call ? *r->call : (cay_call){ .size = sizeof call };
    int64_t end = t->timeout_ms ? cay__now_ms() + (int64_t)t->timeout_ms : 0;
    if (end && (!call.deadline_ms || end < call.deadline_ms))
        call.deadline_ms = end;
    return call;
}

static int hook_start(cay_run *r, const cay_tool_call *c)
{
    const cay_hooks *both[] = { r->conf->hooks, r->seat->agent->hooks };
    for (size_t i = 0; i < 2; i++)
        if (both[i] && both[i]->tool_start)
            both[i]->tool_start(both[i]->arg, r, c);
    return 0;
}

static void hook_end(cay_run *r, const cay_tool_call *c, const json_t *output)
{
    const cay_hooks *both[] = { r->conf->hooks, r->seat->agent->hooks };
    CAY_AUTOFREE char *text = NULL;
    for (size_t i = 0; i < 2; i++)
        if (both[i] && both[i]->tool_end) {
            if (!text)
                text = json_is_string(output) ? cay__strdup(json_string_value(output)) : cay__json_text(output, CAY__TEXT_MAX);
            both[i]->tool_end(both[i]->arg, r, c, text ? text : "");
        }
}

static int run_tool(cay_run *r, one_call *c, json_t **out, cay_err *err)
{
    cay_tool_output o = { 0 };
    cay_err own = CAY_ERR_INIT;
    const cay_call *before = r->call;
    cay_call call = bounded(r, c->tool);
    hook_start(r, &c->pub);
    cay__span *span = cay__span_begin(r, "function", c->pub.tool);
    r->call = &call;
    int rc = c->tool->call(c->tool->arg, &c->pub, &o, &own);
    r->call = before;
    cay__span_end(span, rc < 0 ? &own : NULL);
    if (rc < 0 && (c->tool->raises || cay__call_check_run(r) < 0)) {
        json_decref(cay__output_take(&o));
        if (err)
            *err = own;
        return c->tool->raises && rc != CAY_ECANCELED ? cay_fail_why(err, rc, "tool_failed", "tool %.64s: %.160s", c->pub.tool, own.msg) : rc;
    }
    if (rc < 0) {
        char text[600];
        snprintf(text, sizeof text, "%sAn error occurred while running the tool. Please try again. Error: %s", o.text.len ? "\n" : "", own.msg);
        cay_output_text(&o, text, strlen(text));
    }
    *out = cay__output_take(&o);
    hook_end(r, &c->pub, *out);
    return 0;
}

static bool stops(const cay_agent *a, const char *tool)
{
    if (a->tool_use == CAY_TOOLS_STOP)
        return true;
    for (size_t i = 0; a->tool_use == CAY_TOOLS_STOP_AT && a->stop_at && a->stop_at[i]; i++)
        if (!strcmp(a->stop_at[i], tool))
            return true;
    return false;
}

/* The one way to a tool: it is found, its arguments fit, it may run, it runs. *out is what it, or we, answer; NULL for FATE_WAITS. */
static int perform(cay_run *r, const json_t *item, fate *how, json_t **out, cay_err *err)
{
    one_call c = { .item = item };
    cay_err why = CAY_ERR_INIT;
    int rc = 0;
    c.pub = (cay_tool_call){ .run = r, .tool = cay__json_str(item, "name", ""), .call_id = cay__json_str(item, "call_id", "") };
    c.tool = cay__tool_find(r->seat, c.pub.tool);
    *how = FATE_TOLD;
    if (!c.tool) {
        *out = sound("There is no tool named \"%.80s\". Use one of the tools that you were given.", c.pub.tool);
    } else if (read_arguments(&c, &why) < 0) {
        *out = sound("An error occurred while parsing tool arguments. Please try again with valid JSON. Error: %.400s", why.msg);
    } else {
        c.pub.arguments = c.text;
        *how = approve(r, &c, out);
        if (*how == FATE_DONE)
            rc = run_tool(r, &c, out, err);
    }
    json_decref(c.args);
    free(c.text);
    return rc;
}

static int do_call(cay_run *r, const json_t *item, char **stop, cay_err *err)
{
    CAY_AUTOJSON *out = NULL;
    fate how;
    CAY_TRY(perform(r, item, &how, &out, err));
    if (how == FATE_WAITS) {
        json_array_append(r->pending, (json_t *)item);
        return cay__run_event(r, CAY_RUN_ITEM, "approval_requested", item, err);
    }
    if (how == FATE_DONE && !*stop && stops(r->seat->agent, cay__json_str(item, "name", "")))
        *stop = json_is_string(out) ? cay__strdup(json_string_value(out)) : cay__json_text(out, CAY__TEXT_MAX);
    return answer(r, item, json_incref(out), err);
}

int cay__call_inside(cay_run *r, const char *tool, const char *call_id, const char *arguments, bool *ran, json_t **out, cay_err *err)
{
    CAY_AUTOJSON *item = json_pack("{s:s, s:s, s:s, s:s}", "type", "function_call", "call_id", call_id, "name", tool, "arguments", arguments);
    fate how;
    if (!item)
        return cay_fail(err, CAY_EINVAL, "the call is no UTF-8 text");
    r->inside++;
    int rc = perform(r, item, &how, out, err);
    r->inside--;
    CAY_TRY(rc);
    if (how == FATE_WAITS)
        *out = sound("Tool %.64s waits for somebody's approval, which cannot be given while code runs. Call it as a tool of your own.", tool);
    *ran = how == FATE_DONE;
    return 0;
}

/* ------------------------------------------------------------------ handoffs */

static int hand_over(cay_run *r, const json_t *item, const cay_handoff *h, cay_err *err)
{
    cay_agent *from = r->seat->agent;
    CAY_AUTOBUF b = CAY__BUF(512);
    cay__buf_str(&b, "{\"assistant\":");
    cay__buf_json(&b, h->agent->name, strlen(h->agent->name));
    cay__buf_str(&b, "}");
    CAY_TRY(answer(r, item, sound("%s", b.data ? b.data : "{}"), err));
    CAY_TRY(cay__run_event(r, CAY_RUN_ITEM, "handoff_occured", item, err));
    cay__span *span = cay__span_begin(r, "handoff", h->agent->name);
    cay__span_end(span, NULL);
    const cay_hooks *both[] = { r->conf->hooks, from->hooks };
    for (size_t i = 0; i < 2; i++)
        if (both[i] && both[i]->handoff)
            both[i]->handoff(both[i]->arg, r, from, h->agent);
    cay__span_end(r->agent_span, NULL);
    r->agent_span = NULL;
    r->seat = cay__seat_of(r, h->agent);
    r->tools_used = false;
    CAY_AUTOJSON *name = json_string(h->agent->name);
    return cay__run_event(r, CAY_RUN_AGENT, h->agent->name, name, err);
}

int cay__calls(cay_run *r, json_t *calls, bool *handoff, char **stop, cay_err *err)
{
    const json_t *to = NULL;
    const cay_handoff *target = NULL;
    size_t i;
    json_t *item;
    *handoff = false;
    json_array_clear(r->pending);
    json_array_foreach(calls, i, item) {
        const cay_handoff *h = cay__handoff_find(r->seat, cay__json_str(item, "name", ""));
        CAY_TRY(cay__call_check_run(r) < 0 ? cay__call_fail_run(r, err) : 0);
        if (h && target) {
            CAY_TRY(answer(r, item, sound("Multiple handoffs detected, ignoring this one."), err));
        } else if (h) {
            target = h;
            to = item;
        } else {
            CAY_TRY(do_call(r, item, stop, err));
        }
    }
    r->tools_used = true;
    if (!target)
        return 0;
    if (json_array_size(r->pending)) { /* who waits must come back to the same agent */
        json_array_append(r->pending, (json_t *)to);
        return 0;
    }
    *handoff = true;
    return hand_over(r, to, target, err);
}
