/* SPDX-License-Identifier: Apache-2.0 */
/* Chat Completions, as OpenAI-compatible servers speak it: vLLM, llama.cpp, Ollama, LiteLLM. */
#include "endpoint.h"

enum { BODY_MAX = 256 << 20, CALLS_MAX = 128, TEXT_MAX = 64 << 20 };

/* A tool call whose pieces are still coming. */
typedef struct call_piece {
    cay__buf id, name, arguments;
} call_piece;

typedef struct answer {
    const cay_model_request *req;
    char id[96];
    cay__buf text, refusal, thought;
    call_piece calls[CALLS_MAX];
    size_t ncalls;
    json_t *usage;
    bool done, any; /* a reason to stop was told; a choice was seen */
} answer;

static void add_settings(cay__body *b, const cay_model_settings *s, bool tools)
{
    cay__body_sampling(b, s, "max_tokens");
    if (s->reasoning)
        cay__body_str(b, "reasoning_effort", s->reasoning);
    if (s->verbosity)
        cay__body_str(b, "verbosity", s->verbosity);
    if (s->store)
        cay__body_raw(b, "store", "true");
    if (!tools)
        return;
    if (s->tool_choice && cay__model_choice(s->tool_choice))
        cay__body_str(b, "tool_choice", s->tool_choice);
    else if (s->tool_choice)
        cay__body_json(
            b, "tool_choice",
            json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", s->tool_choice));
    if (s->parallel)
        cay__body_raw(b, "parallel_tool_calls", s->parallel > 0 ? "true" : "false");
}

static int make_body(const cay__endpoint *e, const cay_model_request *q, cay__body *b, cay_err *err)
{
    CAY_AUTOJSON *items = NULL, *tools = NULL, *schema = NULL, *keep = NULL;
    CAY_TRY(cay__json_any("the input", q->input, &items, err));
    if (q->tools)
        CAY_TRY(cay__json_any("the tools", q->tools, &tools, err));
    if (q->output_schema)
        CAY_TRY(cay__json_object("the output's schema", q->output_schema, &schema, err));
    cay__body_str(b, "model", e->model);
    cay__body_json(b, "messages", cay__chat_messages(items, q->instructions));
    if (json_array_size(tools))
        cay__body_json(b, "tools", cay__chat_tools(tools));
    if (schema)
        cay__body_json(b, "response_format",
                       json_pack("{s:s, s:{s:s, s:b, s:O}}", "type", "json_schema", "json_schema",
                                 "name", "final_output", "strict", q->output_strict, "schema",
                                 schema));
    if (q->settings)
        add_settings(b, q->settings, json_array_size(tools) > 0);
    if (e->stream) {
        cay__body_raw(b, "stream", "true");
        cay__body_raw(b, "stream_options", "{\"include_usage\":true}");
    }
    CAY_TRY(cay__body_merge(b, "the settings' extra", CAY_IF(q->settings, q->settings->extra),
                            &keep, err));
    return cay__body_end(b, err);
}

static bool add_piece(cay__buf *b, const json_t *s)
{
    if (json_is_string(s))
        cay__buf_add(b, json_string_value(s), json_string_length(s));
    return !b->full;
}

static int too_much(cay_err *err)
{
    return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                        "the model's answer is larger than 64 MiB or has more than %d tool calls",
                        CALLS_MAX);
}

/* Which call a piece belongs to. Its id says so; else its index, which some servers leave out and
 * others have at 0 for all of them (Ollama): then another id, or without one another name, begins
 * another call. */
static int64_t place_of(const answer *a, const json_t *tc, size_t at)
{
    const char *id = cay__json_str(tc, "id", "");
    for (size_t i = 0; *id && i < a->ncalls; i++)
        if (a->calls[i].id.len && !strcmp(a->calls[i].id.data, id))
            return (int64_t)i;
    const json_t *told = json_object_get(tc, "index");
    int64_t index = cay__json_int(tc, "index", (int64_t)at);
    if (index < 0 || (size_t)index >= a->ncalls)
        return index;
    const call_piece *there = &a->calls[index];
    bool other;
    if (*id)
        other = there->id.len > 0;
    else
        other = !json_is_integer(told) && there->name.len &&
                *cay__json_str(json_object_get(tc, "function"), "name", "");
    if (other)
        return (int64_t)a->ncalls;
    return index;
}

static int take_call(answer *a, const json_t *tc, size_t at, cay_err *err)
{
    int64_t index = place_of(a, tc, at);
    if (index < 0 || index >= CALLS_MAX)
        return too_much(err);
    call_piece *c = &a->calls[index];
    if ((size_t)index >= a->ncalls)
        a->ncalls = (size_t)index + 1;
    c->id.max = c->name.max = 1024;
    c->arguments.max = TEXT_MAX;
    const json_t *f = json_object_get(tc, "function"), *args = json_object_get(f, "arguments");
    if (!c->id.len && !add_piece(&c->id, json_object_get(tc, "id")))
        return too_much(err);
    const char *name = cay__json_str(f, "name", "");
    if ((!c->name.len || strcmp(c->name.data, name)) &&
        !add_piece(&c->name, json_object_get(f, "name"))) /* some tell it with every piece (vLLM) */
        return too_much(err);
    if (json_is_object(args)) { /* Ollama's own shape */
        CAY_AUTOFREE char *text = cay__json_text(args, TEXT_MAX);
        cay__buf_str(&c->arguments, CAY_OR(text, "{}"));
    } else if (!add_piece(&c->arguments, args)) {
        return too_much(err);
    }
    return cay__model_tell(a->req, "response.function_call_arguments.delta",
                           json_pack("{s:I, s:s}", "output_index", (json_int_t)index, "delta",
                                     CAY_OR(json_string_value(args), "")),
                           err);
}

static int take_text(answer *a, const json_t *text, cay_err *err)
{
    if (!add_piece(&a->text, text))
        return too_much(err);
    if (json_string_length(text))
        return cay__model_tell(a->req, "response.output_text.delta",
                               json_pack("{s:O}", "delta", text), err);
    return 0;
}

/* A delta of a stream, or the message of a whole answer. Its content is a text, or a list of parts
 * that have one. */
static int take_message(answer *a, const json_t *m, cay_err *err)
{
    const json_t *text = json_object_get(m, "content"),
                 *thought = json_object_get(m, "reasoning_content");
    if (!json_is_string(thought))
        thought = json_object_get(m, "reasoning");
    CAY_TRY(take_text(a, text, err));
    CAY_EACH_ITEM(tc, text) {
        CAY_TRY(take_text(a, json_object_get(tc, "text"), err));
    }
    if (!add_piece(&a->refusal, json_object_get(m, "refusal")) || !add_piece(&a->thought, thought))
        return too_much(err);
    if (json_string_length(thought))
        CAY_TRY(cay__model_tell(a->req, "response.reasoning_summary_text.delta",
                                json_pack("{s:O}", "delta", thought), err));
    CAY_EACH_ITEM(tc, json_object_get(m, "tool_calls")) {
        CAY_TRY(take_call(a, tc, tc_at, err));
    }
    return 0;
}

static int parse_document(answer *a, const json_t *doc, const char *member, cay_err *err)
{
    const json_t *er = json_object_get(doc, "error"),
                 *choice = json_array_get(json_object_get(doc, "choices"), 0);
    if (json_is_object(er) || json_is_string(er))
        return cay_fail_why(err, CAY_EUPSTREAM, "model_failed", "the model failed: %.160s",
                            json_is_string(er) ? json_string_value(er)
                                               : cay__json_str(er, "message", "no reason told"));
    if (!*a->id)
        CAY_COPY(a->id, cay__json_str(doc, "id", ""));
    if (json_is_object(json_object_get(doc, "usage"))) {
        json_decref(a->usage);
        a->usage = json_incref(json_object_get(doc, "usage"));
    }
    if (!choice)
        return 0;
    a->any = true;
    a->done = a->done || json_is_string(json_object_get(choice, "finish_reason"));
    return take_message(a, json_object_get(choice, member), err);
}

static int on_event(const char *data, json_t *event, void *arg, cay_err *err)
{
    answer *a = arg;
    a->done = a->done || !event;
    if (!event)
        return 0;
    return parse_document(a, event, "delta", err);
}

static int on_json(json_t *doc, void *arg, cay_err *err)
{
    answer *a = arg;
    a->done = true;
    return parse_document(a, doc, "message", err);
}

static json_t *message_item(const char *part, const char *key, const cay__buf *text)
{
    return json_pack("{s:s, s:s, s:s, s:[{s:s, s:o}]}", "type", "message", "role", "assistant",
                     "status", "completed", "content", "type", part, key,
                     json_stringn(text->data, text->len));
}

static json_t *call_item(const call_piece *c, size_t i, const char *answer_id)
{
    char id[160];
    if (c->id.len)
        CAY_COPY(id, c->id.data);
    else
        CAY_FORMAT(id, "call_%s_%zu", answer_id, i); /* servers that name none */
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:s}", "type", "function_call", "call_id", id, "name",
        json_stringn(CAY_OR(c->name.data, ""), c->name.len), "arguments",
        json_stringn(c->arguments.len ? c->arguments.data : "{}", CAY_OR(c->arguments.len, 2)),
        "status", "completed");
}

static int finish_reply(answer *a, cay_model_reply *out, cay_err *err)
{
    if (!a->done || !a->any)
        return cay_fail_why(err, CAY_EUPSTREAM, a->any ? "model_cut" : "model_answer",
                            a->any ? "the model's stream ended before its answer did"
                                   : "the model's answer holds no choice");
    CAY_AUTOJSON *items = json_array();
    if (a->thought.len)
        json_array_append_new(items, json_pack("{s:s, s:[{s:s, s:o}]}", "type", "reasoning",
                                               "summary", "type", "summary_text", "text",
                                               json_stringn(a->thought.data, a->thought.len)));
    if (a->text.len || (!a->ncalls && !a->refusal.len)) {
        cay__buf_str(&a->text, "");
        json_array_append_new(items, message_item("output_text", "text", &a->text));
    }
    if (a->refusal.len)
        json_array_append_new(items, message_item("refusal", "refusal", &a->refusal));
    for (size_t i = 0; i < a->ncalls; i++)
        json_array_append_new(items, call_item(&a->calls[i], i, cay__text_or(a->id, "x")));
    out->output = cay__json_text(items, BODY_MAX);
    out->id = CAY_IF(*a->id, cay__strdup(a->id));
    out->usage = cay__model_usage(a->usage, "prompt", "completion");
    if (out->output)
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "model_answer", "the model's answer is no sound text");
}

static void answer_free(answer *a)
{
    CAY_EACH_OF(call, a->calls, a->ncalls) {
        cay__buf_clear(&call->id);
        cay__buf_clear(&call->name);
        cay__buf_clear(&call->arguments);
    }
    cay__buf_clear(&a->text);
    cay__buf_clear(&a->refusal);
    cay__buf_clear(&a->thought);
    json_decref(a->usage);
    free(a);
}

CAY_DEFINE_AUTO(answer, answer_free)

static int ask_model(void *self, const cay_call *call, const cay_model_request *req,
                     cay_model_reply *out, cay_err *err)
{
    CAY__AUTOBODY b = { .b = CAY__BUF(BODY_MAX) };
    CAY_AUTOPTR(answer) a = cay__alloc(sizeof *a);
    *a = (answer){ .req = req,
                   .text = CAY__BUF(TEXT_MAX),
                   .refusal = CAY__BUF(TEXT_MAX),
                   .thought = CAY__BUF(TEXT_MAX) };
    CAY_TRY(make_body(self, req, &b, err));
    const cay__model_ask q = { .path = "/chat/completions",
                               .body = &b.b,
                               .req = req,
                               .on_event = on_event,
                               .on_json = on_json,
                               .arg = a };
    CAY_TRY(cay__endpoint_ask(self, call, &q, err));
    return finish_reply(a, out, err);
}

const cay_model_ops cay__chat_model = { .size = sizeof cay__chat_model,
                                        .name = "chat",
                                        .images = true,
                                        .ask = ask_model,
                                        .close = cay__endpoint_free };
