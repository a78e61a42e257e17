/* SPDX-License-Identifier: Apache-2.0 */
/* The Responses API: our own items, sent and received as they are. */
#include "endpoint.h"
#include <strings.h>

enum { BODY_MAX = 256 << 20, ITEMS_MAX = 4096 };
#define SEALED "reasoning.encrypted_content"

/* One answer as it comes in. */
typedef struct answer {
    const cay_model_request *req;
    json_t *items; /* that were told to be done */
    json_t *end;   /* the response of the last event */
    bool failed;
} answer;

static bool is_reasoning_model(const char *model, const cay_model_settings *s)
{
    const char *slash = strrchr(model, '/');
    if (slash)
        model = slash + 1;
    return (s && s->reasoning) || !strncasecmp(model, "gpt-5", 5) || !strncasecmp(model, "o1", 2) ||
           !strncasecmp(model, "o3", 2) || !strncasecmp(model, "o4", 2) ||
           !strncasecmp(model, "codex", 5);
}

static void add_text(cay__body *b, const cay_model_request *q)
{
    const char *verbosity = CAY_IF(q->settings, q->settings->verbosity);
    CAY_AUTOBUF t = CAY__BUF(1 << 20);
    if (!q->output_schema && !verbosity)
        return;
    cay__buf_str(&t, "{");
    if (q->output_schema)
        cay__buf_fmt(&t,
                     "\"format\":{\"type\":\"json_schema\",\"name\":\"final_output\",\"strict\":%s,"
                     "\"schema\":%s}",
                     q->output_strict ? "true" : "false", q->output_schema);
    if (verbosity) {
        cay__buf_fmt(&t, "%s\"verbosity\":", CAY_TEXT_IF(q->output_schema, ","));
        cay__buf_json(&t, verbosity, strlen(verbosity));
    }
    cay__buf_str(&t, "}");
    cay__body_raw(b, "text", t.data);
}

/* A tool by its name, by its kind when the endpoint runs it, or by the label of one of its MCP
 * servers. */
static json_t *named_choice(const char *choice, const char *tools)
{
    CAY_AUTOJSON *list = json_loads(tools, 0, NULL);
    CAY_EACH_ITEM(t, list) {
        const char *type = cay__json_str(t, "type", "");
        if (!strcmp(cay__json_str(t, "name", ""), choice))
            return json_pack("{s:s, s:s}", "type", type, "name", choice);
        if (!strcmp(cay__json_str(t, "server_label", ""), choice))
            return json_pack("{s:s, s:s}", "type", type, "server_label", choice);
        if (!strcmp(type, choice))
            return json_pack("{s:s}", "type", type);
    }
    return json_pack("{s:s, s:s}", "type", "function", "name", choice);
}

static void add_choice(cay__body *b, const char *choice, const char *tools)
{
    if (cay__model_choice(choice)) {
        cay__body_str(b, "tool_choice", choice);
        return;
    }
    CAY_AUTOJSON *named = named_choice(choice, tools);
    CAY_AUTOFREE char *text = cay__json_plain(named, 4096);
    cay__body_raw(b, "tool_choice", CAY_OR(text, "\"auto\""));
}

/* What is wanted besides: ours, so that what it thought can be sent back though nobody keeps it,
 * and what the settings ask for. *rest: the settings without it. */
static int add_include(cay__body *b, bool sealed, const char *extra, char **rest, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    if (extra)
        CAY_TRY(cay__json_object("the settings' extra", extra, &o, err));
    json_t *given = json_object_get(o, "include");
    CAY_AUTOJSON *all = json_is_array(given) ? json_copy(given) : json_array();
    if (given && !json_is_array(given))
        return cay_fail_why(err, CAY_EINVAL, "model_settings",
                            "\"include\" of the settings' extra is no list");
    bool there = false;
    CAY_EACH_ITEM(v, all)
        there = there || (json_is_string(v) && !strcmp(json_string_value(v), SEALED));
    if (sealed && !there)
        json_array_append_new(all, json_string(SEALED));
    CAY_AUTOFREE char *text = CAY_IF(json_array_size(all), cay__json_text(all, 1 << 16));
    if (text)
        cay__body_raw(b, "include", text);
    json_object_del(o, "include");
    *rest = cay__json_plain(o, BODY_MAX);
    return 0;
}

static void add_settings(cay__body *b, const cay_model_settings *s)
{
    cay__body_sampling(b, s, "max_output_tokens");
    if (s->reasoning) {
        CAY_AUTOBUF t = CAY__BUF(512);
        cay__buf_str(&t, "{\"effort\":");
        cay__buf_json(&t, s->reasoning, strnlen(s->reasoning, 40));
        cay__buf_str(&t, "}");
        cay__body_raw(b, "reasoning", t.data);
    }
}

static int make_body(const cay__endpoint *e, const cay_model_request *q, cay__body *b, cay_err *err)
{
    CAY_AUTOJSON *keep = NULL, *keep2 = NULL;
    const cay_model_settings *s = q->settings;
    bool store = s && s->store, tools = q->tools && strcmp(q->tools, "[]");
    cay__body_str(b, "model", e->model);
    if (q->previous_id)
        cay__body_str(b, "previous_response_id", q->previous_id);
    if (q->conversation)
        cay__body_str(b, "conversation", q->conversation);
    if (q->prompt)
        cay__body_raw(b, "prompt", q->prompt);
    if (q->instructions)
        cay__body_str(b, "instructions", q->instructions);
    cay__body_raw(b, "input", q->input);
    if (tools)
        cay__body_raw(b, "tools", q->tools);
    if (tools && s && s->tool_choice)
        add_choice(b, s->tool_choice, q->tools);
    if (tools && s && s->parallel)
        cay__body_raw(b, "parallel_tool_calls", s->parallel > 0 ? "true" : "false");
    add_text(b, q);
    if (s)
        add_settings(b, s);
    cay__body_raw(b, "store", store ? "true" : "false");
    CAY_AUTOFREE char *rest = NULL;
    CAY_TRY(
        add_include(b, !store && is_reasoning_model(e->model, s), CAY_IF(s, s->extra), &rest, err));
    if (e->stream)
        cay__body_raw(b, "stream", "true");
    CAY_TRY(cay__body_merge(b, "the settings' extra", rest, &keep, err));
    CAY_TRY(cay__body_merge(b, "what capabilities add", q->extra, &keep2, err));
    return cay__body_end(b, err);
}

static int on_event(const char *data, json_t *j, void *arg, cay_err *err)
{
    answer *a = arg;
    if (!j)
        return 0;
    const char *type = cay__json_str(j, "type", "");
    if (!strcmp(type, "error"))
        return cay_fail_why(err, CAY_EUPSTREAM, "model_failed",
                            "the model's server broke off: %.150s",
                            cay__json_str(json_object_get(j, "error"), "message",
                                          cay__json_str(j, "message", "no reason told")));
    if (!strcmp(type, "response.output_item.done") && json_is_object(json_object_get(j, "item")) &&
        json_array_size(a->items) < ITEMS_MAX)
        json_array_append(a->items, json_object_get(j, "item"));
    if (!strcmp(type, "response.completed") || !strcmp(type, "response.incomplete") ||
        !strcmp(type, "response.failed")) {
        json_decref(a->end);
        a->end = json_incref(json_object_get(j, "response"));
        a->failed = !strcmp(type, "response.failed");
    }
    if (a->req->on_event && a->req->on_event(type, data, a->req->arg) < 0)
        return cay_fail_why(err, CAY_ECANCELED, "canceled", "the run was ended");
    return 0;
}

static bool is_done(void *arg)
{
    return ((const answer *)arg)->end != NULL;
}

static int on_json(json_t *doc, void *arg, cay_err *err)
{
    answer *a = arg;
    a->end = json_incref(doc);
    return 0;
}

static uint64_t cache_write(const json_t *u)
{
    return (uint64_t)CAY_MAX(
        cay__json_int(json_object_get(u, "input_tokens_details"), "cache_write_tokens", 0), 0);
}

static int finish_reply(answer *a, cay_model_reply *out, cay_err *err)
{
    const json_t *r = a->end, *output = json_object_get(r, "output");
    if (!r)
        return cay_fail_why(err, CAY_EUPSTREAM, "model_cut",
                            "the model's stream ended before its answer did");
    const char *status = cay__json_str(r, "status", "completed");
    if (a->failed || !strcmp(status, "failed") || json_is_object(json_object_get(r, "error")))
        return cay_fail_why(
            err, CAY_EUPSTREAM, "model_failed", "the model failed: %.160s",
            cay__json_str(json_object_get(r, "error"), "message", "no reason told"));
    if (!json_array_size(output) && json_array_size(a->items))
        output = a->items; /* servers that leave the last event empty */
    if (!json_array_size(output))
        return cay_fail_why(
            err, CAY_EUPSTREAM, "model_answer", "the model's answer is empty (%.60s)",
            cay__json_str(json_object_get(r, "incomplete_details"), "reason", status));
    out->output = cay__json_text(output, BODY_MAX);
    const char *id = cay__json_str(r, "id", NULL);
    out->id = cay__strdup_if(id);
    out->usage = cay__model_usage(json_object_get(r, "usage"), "input", "output");
    out->cache_write = cache_write(json_object_get(r, "usage"));
    return 0;
}

static int ask_model(void *self, const cay_call *call, const cay_model_request *req,
                     cay_model_reply *out, cay_err *err)
{
    CAY__AUTOBODY b = { .b = CAY__BUF(BODY_MAX) };
    CAY_AUTOJSON *items = json_array(), *end = NULL;
    CAY_TRY(make_body(self, req, &b, err));
    answer a = { .req = req, .items = items };
    const cay__model_ask q = { .path = "/responses",
                               .body = &b.b,
                               .req = req,
                               .on_event = on_event,
                               .on_json = on_json,
                               .done = is_done,
                               .arg = &a };
    int rc = cay__endpoint_ask(self, call, &q, err);
    end = a.end;
    CAY_TRY(rc);
    return finish_reply(&a, out, err);
}

const cay_model_ops cay__responses_model = { .size = sizeof cay__responses_model,
                                             .name = "responses",
                                             .custom_tools = true,
                                             .compaction = true,
                                             .images = true,
                                             .ask = ask_model,
                                             .close = cay__endpoint_free,
                                             .chains = true,
                                             .prompts = true,
                                             .hosted = true };
