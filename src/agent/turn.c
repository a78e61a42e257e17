/* SPDX-License-Identifier: Apache-2.0 */
/* One turn: the model is asked, and what it answers is sorted into messages, calls and the final
 * word. */
#include "run.h"
#include "trace.h"

static int on_model_event(const char *type, const char *data, void *arg)
{
    cay_run *r = arg;
    if (!r->conf->on_event)
        return 0;
    cay_run_event ev = { .size = sizeof ev,
                         .kind = strcmp(type, "cay.retry") ? CAY_RUN_RAW : CAY_RUN_NOTE,
                         .agent = r->seat->given,
                         .name = strcmp(type, "cay.retry") ? type : "retry",
                         .json = data };
    return r->conf->on_event(r->conf->event_arg, &ev);
}

/* What capabilities make of the history: compaction cuts it. */
static int rewrite_history(cay_run *r, char **text, cay_err *err)
{
    CAY_EACH_OF(b, r->seat->caps, r->seat->ncaps) {
        char *instead = NULL;
        if (b->off || !b->cap->ops->history)
            continue;
        CAY_TRY(b->cap->ops->history(b->bound, *text, &instead, err));
        if (!instead)
            continue;
        json_t *j = NULL;
        free(*text);
        *text = instead;
        CAY_TRY(cay__json_any("the history", instead, &j, err));
        json_decref(r->context);
        r->context = j;
        r->told = SIZE_MAX; /* what was cut is cut: no answer is gone on from */
    }
    return 0;
}

/* What the endpoint has neither seen nor said. */
static bool only_new(const cay_run *r, char **input)
{
    CAY_AUTOJSON *new = json_array();
    for (size_t i = r->told; i < json_array_size(r->context); i++)
        json_array_append(new, json_array_get(r->context, i));
    char *text = CAY_IF(json_array_size(new), cay__json_text(new, CAY__TEXT_MAX));
    if (!text)
        return false;
    free(*input);
    *input = text;
    return true;
}

/* The answer to go on from, and *input cut to what it has not seen; NULL when all is sent. */
static const char *chain_response(cay_run *r, const cay_model *m, char **input)
{
    if (!r->response_id || !cay_model_kind(m)->chains || r->told > json_array_size(r->context) ||
        (r->told_to && r->told_to != m))
        return NULL;
    if (only_new(r, input))
        return r->response_id;
    return NULL;
}

/* The endpoint has what was said: it is sent the rest, or nothing at all when it would have to
 * forget something. */
static int continue_conversation(const cay_run *r, const cay_model *m, char **input, cay_err *err)
{
    if (!cay_model_kind(m)->chains)
        return cay_fail_why(err, CAY_ENOTSUP, "kept_conversation",
                            "the run is part of a conversation that the endpoint keeps, and only "
                            "the Responses API keeps any");
    if (r->told > json_array_size(r->context))
        return cay_fail_why(err, CAY_ENOTSUP, "kept_conversation",
                            "the endpoint keeps the conversation: nothing of it can be left out by "
                            "the filter of a handoff, and a saved run has to tell what was sent");
    if (r->told_to && r->told_to != m)
        return cay_fail_why(err, CAY_ENOTSUP, "kept_conversation",
                            "the endpoint keeps the conversation: agent %.60s has another model, "
                            "which does not know it",
                            r->seat->agent->name);
    if (only_new(r, input))
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "kept_conversation", "there is nothing new to say");
}

static int ask_model(cay_run *r, cay_model_reply *reply, cay_err *err)
{
    cay__seat *s = r->seat;
    cay_model *m = cay__seat_model(r, s);
    cay_model_settings set = s->agent->settings;
    const char *before = NULL;
    CAY_AUTOFREE char *instructions = NULL;
    CAY_AUTOFREE char *input = NULL;
    CAY_AUTOFREE char *made = NULL;
    CAY_TRY(cay__instructions(r, s, &instructions, err));
    input = cay__json_text(r->context, CAY__TEXT_MAX);
    if (!input)
        return cay_fail_why(err, CAY_ETOOBIG, "history_too_big",
                            "what was said so far is larger than 256 MiB");
    if (r->conf->kept_conversation) {
        CAY_TRY(continue_conversation(r, m, &input, err));
        set.store = true;
    } else {
        CAY_TRY(rewrite_history(r, &input, err));
    }
    if (r->conf->previous_response_id && !cay_model_kind(m)->chains)
        return cay_fail_why(err, CAY_ENOTSUP, "previous_response",
                            "the run is to go on from an answer that the endpoint keeps, and only "
                            "the Responses API keeps any");
    if (r->conf->chain || r->conf->previous_response_id) {
        before = chain_response(r, m, &input);
        set.store = true;
    }
    if (s->agent->prompting)
        CAY_TRY(s->agent->prompting(r, s->given, &made, err));
    const char *prompt = made;
    if (!s->agent->prompting)
        prompt = s->agent->prompt;
    if (prompt && !cay_model_kind(m)->prompts)
        return cay_fail_why(err, CAY_ENOTSUP, "prompt_unsupported",
                            "agent %.60s has a prompt by id, which only the Responses API knows; "
                            "give it instructions",
                            s->agent->name);
    if (r->tools_used && !s->agent->keep_tool_choice)
        set.tool_choice = NULL; /* a tool that must be called was; else it would be so for ever */
    cay_model_request q = { .size = sizeof q,
                            .instructions = cay__text_or(instructions, NULL),
                            .input = input,
                            .tools = s->tools_json,
                            .output_schema = s->agent->output_schema,
                            .output_strict = s->agent->output_strict,
                            .settings = &set,
                            .extra = s->extra,
                            .previous_id = before,
                            .prompt = prompt,
                            .on_event = on_model_event,
                            .arg = r,
                            .conversation = r->conf->kept_conversation };
    CAY__HOOK(r, model_start, r, instructions, input);
    struct cay__guards *guards = NULL;
    CAY_TRY(cay__guards_begin(r, &guards, err));
    cay__span *span = cay__span_model(r, m);
    cay_err own = CAY_ERR_INIT;
    int rc = cay_model_ask(m, r->call, &q, reply, &own);
    cay__span_content(span, "input", input);
    if (rc == 0) {
        cay__span_usage(span, &reply->usage);
        cay__span_content(span, "output", reply->output);
        if (reply->id)
            cay__span_data(span, "response_id", json_string(reply->id));
    }
    cay__span_close(span, rc, &own);
    if (rc == 0) {
        cay__tokens_add(&r->usage, &reply->usage);
        cay__request_add(r, m, reply);
    }
    rc = cay__guards_end(r, guards, rc, &own);
    if (rc < 0) {
        cay_model_reply_clear(reply);
        return cay__err_pass(rc, &own, err);
    }
    CAY__HOOK(r, model_end, r, reply);
    free(r->response_id);
    r->response_id = cay__strdup_if(reply->id);
    return 0;
}

static int fail_behavior(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_EUPSTREAM, "model_behavior",
                        "the model's answer cannot be used: %s", what);
}

static const struct {
    const char *type, *event;
} known[] = {
    { "message", "message_output_created" }, { "function_call", "tool_called" },
    { "custom_tool_call", "tool_called" },   { "reasoning", "reasoning_item_created" },
    { "compaction", "compaction_created" },
};

/* Calls get an id that is theirs alone in this run: outputs and approvals go by it. */
static int check_call(const cay_run *r, const json_t *item, cay_err *err)
{
    const char *id = cay__item_id(item);
    if (!*id || strlen(id) > 256)
        return fail_behavior(err, "a tool call has no id");
    CAY_EACH_ITEM(old, r->items)
        if (cay__item_waits(old) && !strcmp(cay__item_id(old), id))
            return fail_behavior(err, "two tool calls have the same id");
    return 0;
}

static int take_item(cay_run *r, json_t *item, json_t *calls, json_t **message, cay_err *err)
{
    const char *event = "message_output_created";
    if (!json_is_object(item))
        return fail_behavior(err, "an item is no object");
    CAY_EACH(it, known)
        if (cay__item_is(item, it->type))
            event = it->event;
    const char *theirs = cay__hosted_event(item);
    if (theirs) {
        event = theirs;
        CAY_TRY(cay__hosted_note(r, item, err));
    }
    if (cay__item_waits(item)) {
        CAY_TRY(check_call(r, item, err));
        if (json_array_size(calls) >= CAY__CALLS_MAX)
            return fail_behavior(err, "it has more than 256 tool calls");
        if (!theirs && cay__handoff_find(r->seat, cay__json_str(item, "name", "")))
            event = "handoff_requested";
        json_array_append(calls, item);
    }
    if (cay__item_is(item, "message"))
        *message = item;
    return cay__run_add(r, event, json_incref(item), err);
}

static bool is_refusal(const json_t *message)
{
    CAY_EACH_ITEM(p, json_object_get(message, "content"))
        if (!strcmp(cay__json_str(p, "type", ""), "refusal"))
            return true;
    return false;
}

static int final_output(cay_run *r, const json_t *message, cay_err *err)
{
    const cay_agent *a = r->seat->agent;
    CAY_AUTOFREE char *text = CAY_IF(message, cay__item_text(message));
    if (message && is_refusal(message) && (!text || !*text))
        return cay_fail_why(
            err, CAY_EUPSTREAM, "model_refusal", "the model refused: %.160s",
            cay__json_str(json_array_get(json_object_get(message, "content"), 0), "refusal", ""));
    if (!text)
        return fail_behavior(err, "it has neither a message nor a tool call");
    if (a->output_schema) {
        CAY_AUTOJSON *value = NULL, *schema = NULL;
        cay_err why = CAY_ERR_INIT;
        CAY_TRY(cay__json_object("the output's schema", a->output_schema, &schema, err));
        if (cay__json_any("it", text, &value, &why) < 0 ||
            cay__schema_check(schema, value, &why) < 0)
            return cay_fail_why(err, CAY_EUPSTREAM, "model_behavior",
                                "the model's answer does not fit its schema: %.160s", why.msg);
    }
    free(r->output);
    r->output = CAY_STEAL(text);
    return 0;
}

static int one_turn(cay_run *r, cay__next *next, cay_err *err)
{
    CAY_AUTOJSON *output = NULL, *calls = json_array();
    CAY_AUTOFREE char *stop = NULL;
    json_t *message = NULL;
    bool handoff = false, theirs = false; /* theirs: the endpoint has used tools of its own */
    if (r->resumed) {
        r->resumed = false;
        json_array_extend(calls, r->pending);
    } else {
        cay_model_reply reply = { .size = sizeof reply };
        CAY_TRY(ask_model(r, &reply, err));
        int rc = cay__json_any("its items", reply.output, &output, err);
        cay_model_reply_clear(&reply);
        if (rc < 0 || !json_is_array(output))
            return fail_behavior(err, "it is no list of items");
        CAY_EACH_ITEM(item, output) {
            CAY_TRY(take_item(r, item, calls, &message, err));
            theirs = theirs || cay__hosted_event(item);
        }
        r->told = json_array_size(r->context);
        r->told_to = cay__seat_model(r, r->seat);
    }
    if (json_array_size(calls))
        CAY_TRY(cay__calls(r, calls, &handoff, &stop, err));
    if (json_array_size(r->pending)) {
        *next = CAY__WAIT;
    } else if (stop) {
        free(r->output);
        r->output = CAY_STEAL(stop);
        *next = CAY__FINAL;
    } else if (json_array_size(calls) || (theirs && !message)) {
        *next = CAY__AGAIN;
    } else {
        CAY_TRY(final_output(r, message, err));
        *next = CAY__FINAL;
    }
    return 0;
}

int cay__turn(cay_run *r, cay__next *next, cay_err *err)
{
    char name[32];
    cay_err own = CAY_ERR_INIT;
    cay_tokens before = r->usage;
    CAY_FORMAT(name, "turn %u", r->turn);
    cay__span *span = cay__span_begin(r, "turn", name);
    cay__span_data(span, "turn", json_integer(r->turn));
    cay__span_data(span, "agent_name", json_string(r->seat->agent->name));
    int rc = one_turn(r, next, &own);
    cay_tokens used = { r->usage.requests - before.requests,   r->usage.input - before.input,
                        r->usage.cached - before.cached,       r->usage.output - before.output,
                        r->usage.reasoning - before.reasoning, r->usage.total - before.total };
    cay__span_usage(span, &used);
    return cay__err_pass(cay__span_close(span, rc, &own), &own, err);
}
