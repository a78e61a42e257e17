/* SPDX-License-Identifier: Apache-2.0 */
/* What a model asked for: tools that may run do, those that need a yes wait for it, a handoff
 * changes who goes on. */
#include "audit.h"
#include "run.h"
#include "trace.h"

enum { BESIDE_MAX = 8 };

/* How far a call got. */
typedef enum fate {
    FATE_DONE = 0,
    FATE_TOLD,
    FATE_WAITS
} fate; /* the tool answered; it did not run, and was told why; nobody decided yet */

typedef struct one_call {
    const json_t *item;
    const cay_tool *tool;
    cay_tool_call pub;
    char *text;   /* its arguments as the tool gets them; owned */
    json_t *args; /* parsed, or NULL for free-form ones */
    fate how;
    json_t *out; /* what the model is told; NULL for FATE_WAITS */
    int rc;      /* of the tool, and why */
    cay_err own;
    cay_call call;
    cay_tool_output o;
    cay__span *span;
    cay_run view; /* the run as a call beside others sees it */
    int64_t began;
    cay__watched *watched; /* what it does in the sandbox */
    char span_id[32];
} one_call;

int cay__call_answer(cay_run *r, const json_t *call, json_t *output, cay_err *err)
{
    bool custom = cay__item_is(call, "custom_tool_call");
    json_t *item = json_pack("{s:s, s:s, s:o}", "type",
                             custom ? "custom_tool_call_output" : "function_call_output", "call_id",
                             cay__json_str(call, "call_id", ""), "output", output);
    return cay__run_add(r, "tool_output", item, err);
}

/* A text as an output. */
__attribute__((format(printf, 1, 2))) static json_t *format_output(const char *fmt, ...)
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

static json_t *describe_call(const one_call *c)
{
    json_t *j = json_pack("{s:s, s:s}", "tool", c->pub.tool, "call_id", c->pub.call_id);
    return CAY_OR(j, json_object()); /* a name that is no text */
}

/* How a call went, for the audit: ok, failed, or refused before it ran. */
static int audit_tool(cay_run *r, const one_call *c, const char *outcome, cay_err *err)
{
    if (!r->conf->ledger)
        return 0;
    json_t *e = describe_call(c);
    json_object_set_new(e, "inside", json_boolean(r->inside > 0));
    cay__json_put(e, "outcome", outcome);
    if (c->began)
        json_object_set_new(e, "ms", json_integer((cay__now_us() - c->began) / 1000));
    if (c->rc < 0)
        cay__json_put(e, "reason", *c->own.reason ? c->own.reason : cay_code_name(c->rc));
    if (*c->span_id)
        cay__json_put(e, "span_id", c->span_id);
    if (c->o.text.data)
        json_object_set_new(e, "output", cay__text_cut(c->o.text.data, CAY__EVENT_OUTPUT));
    return cay__audit_sink(r, "tool", e, err);
}

static bool needs_yes(const one_call *c)
{
    if (c->tool->needs_approval)
        return c->tool->needs_approval(c->tool->arg, &c->pub);
    return c->tool->approval;
}

/* May it run? FATE_DONE: yes. FATE_TOLD: *out says why not. */
static fate check_approval(cay_run *r, const one_call *c, json_t **out)
{
    CAY_AUTOFREE char *why = NULL;
    if (!needs_yes(c) ||
        (cay__tool_is_agent(c->tool) &&
         json_object_get(r->nested, c->pub.call_id))) /* it ran already, and goes on */
        return FATE_DONE;
    cay_verdict v = cay__verdict(r, &c->pub, &why);
    if (v == CAY_APPROVE)
        return FATE_DONE;
    if (v == CAY_ASK_LATER)
        return FATE_WAITS;
    *out = format_output("%s", why);
    return FATE_TOLD;
}

/* Its arguments as the tool wants them, or a text that tells the model what is wrong with them. */
static int read_arguments(one_call *c, cay_err *err)
{
    const json_t *raw =
        json_object_get(c->item, cay__item_is(c->item, "custom_tool_call") ? "input" : "arguments");
    const char *text = "";
    if (json_is_string(raw))
        text = json_string_value(raw);
    if (json_is_string(raw) && strlen(text) != json_string_length(raw))
        return cay_fail(err, CAY_EINVAL, "there is a NUL character in it");
    if (cay__item_is(c->item, "custom_tool_call")) {
        if (!c->tool->grammar)
            return cay_fail(err, CAY_EINVAL, "this tool is a function: call it with a JSON object");
        c->text = cay__strdup(text);
        return 0;
    }
    CAY_TRY(cay__json_object("it", cay__text_or(text, "{}"), &c->args, err));
    if (c->tool->grammar && !c->tool->parameters) {
        c->text = cay__strdup(cay__json_str(c->args, "input", ""));
        return 0;
    }
    if (c->tool->parameters) {
        CAY_AUTOJSON *schema = NULL;
        CAY_TRY(cay__json_object("schema", c->tool->parameters, &schema, err));
        CAY_TRY(cay__schema_check(schema, c->args, err));
    }
    c->text = cay__strdup(cay__text_or(text, "{}"));
    return 0;
}

static cay_call limit_call(const cay_run *r, const cay_tool *t)
{
    cay_call call = cay__call_copy(r->call);
    call.on_op =
        r->on_op; /* and not a call that this one is inside of: what is done is told once */
    call.on_op_arg = r->on_op_arg;
    int64_t end = 0;
    if (t->timeout_ms)
        end = cay__now_ms() + (int64_t)t->timeout_ms;
    if (end && (!call.deadline_ms || end < call.deadline_ms))
        call.deadline_ms = end;
    const cay_fence *fence = cay__limits_fence(r->seat->limits);
    if (fence)
        call.fence = fence;
    return call;
}

static void hook_end(cay_run *r, const cay_tool_call *c, const json_t *output)
{
    CAY_AUTOFREE char *text = NULL;
    if (r->conf->hooks || r->seat->agent->hooks)
        text = cay__json_plain(output, CAY__TEXT_MAX);
    CAY__HOOK(r, tool_end, r, c, CAY_OR(text, ""));
}

/* Before it runs, on the run's own thread. */
static void begin_tool(cay_run *r, one_call *c, bool beside)
{
    c->call = limit_call(r, c->tool);
    c->began = cay__now_us();
    CAY__HOOK(r, tool_start, r, &c->pub);
    c->span = cay__span_begin(r, "function", c->pub.tool);
    CAY_COPY(c->span_id, cay__span_id(c->span));
    cay__span_content(c->span, "input", c->pub.arguments);
    if (beside) { /* what it may ask of the run, with its own deadline */
        c->view = *r;
        c->view.call = &c->call;
        cay__trace_beside(c->span, &c->view);
        c->pub.run = &c->view;
    }
    c->watched = cay__watched_begin(c->pub.run, c->pub.call_id, c->span_id, &c->call);
    cay__span_call(c->span, &c->call);
}

static void call_beside(void *arg, size_t i)
{
    one_call *c = &((one_call *)arg)[i];
    if (c->how == FATE_DONE)
        c->rc = c->tool->call(c->tool->arg, &c->pub, &c->o, &c->own);
    else
        c->rc = 0;
}

static void call_here(cay_run *r, one_call *c)
{
    const cay_call *before = r->call;
    r->call = &c->call;
    c->rc = c->tool->call(c->tool->arg, &c->pub, &c->o, &c->own);
    r->call = before;
}

/* Afterwards, again on its thread. */
static int end_tool(cay_run *r, one_call *c, cay_err *err)
{
    int rc = c->rc;
    r->canceled = r->canceled || c->view.canceled;
    cay__trace_joined(&c->view);
    c->pub.run = r;
    int noted = cay__watched_end(CAY_STEAL(c->watched), err);
    cay__span_content(c->span, "output", c->o.text.data);
    cay__span_close(c->span, rc, &c->own);
    c->span = NULL;
    CAY_TRY(noted);
    CAY_TRY(audit_tool(r, c, rc < 0 ? "failed" : "ok", err));
    if (rc < 0 && (c->tool->raises || cay__call_check_run(r) < 0)) {
        if (err)
            *err = c->own;
        if (c->tool->raises && rc != CAY_ECANCELED)
            return cay_fail_why(err, rc, "tool_failed", "tool %.64s: %.160s", c->pub.tool,
                                c->own.msg);
        return rc;
    }
    if (rc < 0)
        cay__tool_say(&c->o,
                      "%sAn error occurred while running the tool. Please try again. Error: %s",
                      CAY_TEXT_IF(c->o.text.len, "\n"), c->own.msg);
    if (rc == 0 && cay__tool_is_agent(c->tool) && json_object_get(r->nested, c->pub.call_id)) {
        c->how = FATE_WAITS; /* and the run with it */
        return 0;
    }
    c->out = cay__output_take(&c->o);
    hook_end(r, &c->pub, c->out);
    return 0;
}

/* c->out NULL: before the call, and what a guard says instead of it makes the call FATE_TOLD; else
 * it stands for the answer. */
static int ask_guards(cay_run *r, one_call *c, cay_err *err)
{
    const json_t *output = c->out;
    CAY_AUTOFREE char *text = CAY_IF(c->tool->nguards, cay__json_plain(output, CAY__TEXT_MAX));
    CAY_EACH_OF(g, c->tool->guards, c->tool->nguards) {
        CAY_AUTOFREE char *said = NULL;
        if (output ? !g->after : !g->before)
            continue;
        cay__span *span = cay__span_begin(r, "guardrail", CAY_OR(g->name, "guardrail"));
        int rc;
        if (output)
            rc = g->after(g->arg, &c->pub, CAY_OR(text, ""), &said, err);
        else
            rc = g->before(g->arg, &c->pub, &said, err);
        cay__span_data(span, "triggered", json_boolean(rc > 0));
        cay__span_end(span, NULL);
        CAY_TRY(rc);
        if (rc == CAY_GUARD_TRIP)
            return cay_fail_why(err, CAY_EPERM, "guardrail_tool",
                                "guard %.60s of tool %.64s does not let %s pass",
                                CAY_OR(g->name, ""), c->pub.tool, output ? "its answer" : "a call");
        if (rc == CAY_GUARD_PASS)
            continue;
        if (!output)
            c->how = FATE_TOLD;
        json_decref(c->out);
        cay_output_text(&c->o, CAY_OR(said, CAY__NOT_APPROVED),
                        strlen(CAY_OR(said, CAY__NOT_APPROVED)));
        c->out = cay__output_take(&c->o);
        return 0;
    }
    return 0;
}

static bool is_stop_tool(const cay_agent *a, const char *tool)
{
    if (a->tool_use == CAY_TOOLS_STOP)
        return true;
    for (size_t i = 0; a->tool_use == CAY_TOOLS_STOP_AT && a->stop_at && a->stop_at[i]; i++)
        if (!strcmp(a->stop_at[i], tool))
            return true;
    return false;
}

/* It is found, its arguments fit, it may run; or c->out tells why not. */
static int prepare_call(cay_run *r, one_call *c, const json_t *item, cay_err *err)
{
    cay_err why = CAY_ERR_INIT;
    *c = (one_call){ .item = item, .how = FATE_TOLD, .own = CAY_ERR_INIT };
    c->pub = (cay_tool_call){ .run = r,
                              .tool = cay__json_str(item, "name", ""),
                              .call_id = cay__json_str(item, "call_id", "") };
    c->tool = cay__tool_find(r->seat, c->pub.tool);
    const char *whose = CAY_IF(!c->tool, cay__json_str(r->seat->withheld, c->pub.tool, NULL));
    if (whose) {
        c->rc = cay_fail_why(&c->own, CAY_EPERM, "capability_unavailable",
                             "capability %.60s is not available in this run", whose);
        c->out = format_output("The tool \"%.80s\" cannot be used: %s.", c->pub.tool, c->own.msg);
    } else if (!c->tool) {
        c->out = format_output(
            "There is no tool named \"%.80s\". Use one of the tools that you were given.",
            c->pub.tool);
    } else if (read_arguments(c, &why) < 0) {
        c->out =
            format_output("An error occurred while parsing tool arguments. Please try again with "
                          "valid JSON. Error: %.400s",
                          why.msg);
    } else {
        c->pub.arguments = c->text;
        c->how = check_approval(r, c, &c->out);
        if (c->how == FATE_DONE)
            CAY_TRY(ask_guards(r, c, err));
    }
    if (c->how == FATE_TOLD)
        return audit_tool(r, c, "refused", err);
    return 0;
}

static void free_call(one_call *c)
{
    cay__watched_end(c->watched, NULL);
    cay__trace_joined(&c->view);
    cay__span_end(c->span, NULL);
    json_decref(cay__output_take(&c->o));
    json_decref(c->out);
    json_decref(c->args);
    free(c->text);
}

/* The one way to a tool, for one or for several that may run beside each other. Each is left with
 * its fate and what is told. */
static int run_calls(cay_run *r, json_t *const *items, size_t n, one_call *row, cay_err *err)
{
    size_t run = 0;
    for (size_t i = 0; i < n; i++) {
        CAY_TRY(prepare_call(r, &row[i], items[i], err));
        run += row[i].how == FATE_DONE;
    }
    CAY_EACH_OF(it, row, n)
        if (it->how == FATE_DONE)
            begin_tool(r, it, n > 1);
    if (n > 1 && run)
        cay__beside(n, CAY_MIN(r->conf->beside, (unsigned)BESIDE_MAX), call_beside, row);
    else if (run)
        call_here(r, &row[0]);
    CAY_EACH_OF(it, row, n) {
        if (it->how == FATE_DONE)
            CAY_TRY(end_tool(r, it, err));
        if (it->how == FATE_DONE)
            CAY_TRY(ask_guards(r, it, err));
    }
    return 0;
}

static int report_call(cay_run *r, const one_call *c, char **stop, cay_err *err)
{
    if (c->how == FATE_WAITS) {
        json_array_append(r->pending, (json_t *)c->item);
        return cay__run_event(r, CAY_RUN_ITEM, "approval_requested", c->item, err);
    }
    if (c->how == FATE_DONE && r->seat->agent->tool_use == CAY_TOOLS_ASK)
        json_array_append_new(r->results, json_pack("{s:s, s:s, s:O}", "tool", c->pub.tool,
                                                    "call_id", c->pub.call_id, "output", c->out));
    if (c->how == FATE_DONE && !*stop && is_stop_tool(r->seat->agent, c->pub.tool)) {
        *stop = cay__json_plain(c->out, CAY__TEXT_MAX);
    }
    return cay__call_answer(r, c->item, json_incref(c->out), err);
}

static int run_row(cay_run *r, json_t *const *items, size_t n, char **stop, cay_err *err)
{
    one_call *row = cay__alloc(n * sizeof *row);
    int rc = run_calls(r, items, n, row, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = report_call(r, &row[i], stop, err);
    CAY_EACH_OF(it, row, n)
        free_call(it);
    free(row);
    return rc;
}

/* How many from the first on may run beside it. */
static size_t row_of(const cay_run *r, json_t *const *items, size_t n)
{
    size_t k = 0;
    for (; r->conf->beside > 1 && k < n; k++) {
        const cay_tool *t = cay__tool_find(r->seat, cay__json_str(items[k], "name", ""));
        if (!t || !t->beside)
            break;
    }
    return CAY_OR(k, 1);
}

int cay__call_inside(cay_run *r, const char *tool, const char *call_id, const char *arguments,
                     bool *ran, json_t **out, cay_err *err)
{
    CAY_AUTOJSON *item = json_pack("{s:s, s:s, s:s, s:s}", "type", "function_call", "call_id",
                                   call_id, "name", tool, "arguments", arguments);
    one_call c = { .how = FATE_TOLD };
    if (!item)
        return cay_fail(err, CAY_EINVAL, "the call is no UTF-8 text");
    r->inside++;
    int rc = run_calls(r, (json_t *const[]){ item }, 1, &c, err);
    r->inside--;
    if (rc == 0 && c.how == FATE_WAITS)
        c.out = format_output(
            "Tool %.64s waits for somebody's approval, which cannot be given while code "
            "runs. Call it as a tool of your own.",
            tool);
    if (rc == 0)
        *out = CAY_STEAL(c.out);
    *ran = rc == 0 && c.how == FATE_DONE;
    free_call(&c);
    return rc;
}

static int check_handoff(const json_t *item, const cay_handoff *h, cay_err *err)
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

/* Another agent goes on: what it was told with it, and what it sees of the history. */
static int hand_over(cay_run *r, const json_t *item, const cay_handoff *h, cay_err *err)
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

/* The first handoff that can be taken; others are answered. What an endpoint asks for its own MCP
 * servers is decided here. */
static int sort_handoffs(cay_run *r, json_t *calls, json_t **rest, const json_t **to,
                         const cay_handoff **target, cay_err *err)
{
    CAY_EACH_ITEM(item, calls) {
        bool asked =
            cay__item_is(item, "mcp_approval_request"); /* its name is one of the server's tools */
        const cay_handoff *h =
            CAY_IF(!asked, cay__handoff_find(r->seat, cay__json_str(item, "name", "")));
        cay_err why = CAY_ERR_INIT;
        if (asked) {
            CAY_TRY(cay__hosted_decide(r, item, err));
        } else if (!h) {
            json_array_append(*rest, item);
        } else if (*target) {
            CAY_TRY(cay__call_answer(
                r, item, format_output("Multiple handoffs detected, ignoring this one."), err));
        } else if (check_handoff(item, h, &why) < 0) {
            CAY_TRY(cay__call_answer(
                r, item,
                format_output("An error occurred while parsing tool arguments. Please try "
                              "again with valid JSON. Error: %.400s",
                              why.msg),
                err));
        } else {
            *target = h;
            *to = item;
        }
    }
    return 0;
}

/* The agent's own function says whether that was all. */
static int ask_done(cay_run *r, char **stop, cay_err *err)
{
    const cay_agent *a = r->seat->agent;
    if (a->tool_use != CAY_TOOLS_ASK || !a->tools_done || !json_array_size(r->results))
        return 0;
    CAY_AUTOFREE char *text = cay__json_text(r->results, CAY__TEXT_MAX);
    return a->tools_done(r, r->seat->given, CAY_OR(text, "[]"), stop, err);
}

int cay__calls(cay_run *r, json_t *calls, bool *handoff, char **stop, cay_err *err)
{
    CAY_AUTOJSON *rest = json_array();
    json_t *items[CAY__CALLS_MAX];
    const json_t *to = NULL;
    const cay_handoff *target = NULL;
    *handoff = false;
    json_array_clear(r->pending);
    json_decref(r->results);
    r->results = json_array();
    CAY_TRY(sort_handoffs(r, calls, &rest, &to, &target, err));
    size_t n = CAY_MIN(json_array_size(rest), (size_t)CAY__CALLS_MAX);
    for (size_t i = 0; i < n; i++)
        items[i] = json_array_get(rest, i);
    for (size_t i = 0, row; i < n; i += row) {
        if (cay__call_check_run(r) < 0)
            CAY_TRY(cay__call_fail_run(r, err));
        row = row_of(r, items + i, n - i);
        CAY_TRY(run_row(r, items + i, row, stop, err));
    }
    r->tools_used = true;
    if (!target) {
        if (json_array_size(r->pending))
            return 0;
        return ask_done(r, stop, err);
    }
    if (json_array_size(r->pending)) { /* who waits must come back to the same agent */
        json_array_append(r->pending, (json_t *)to);
        return 0;
    }
    *handoff = true;
    return hand_over(r, to, target, err);
}
