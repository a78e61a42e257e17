/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an MCP server asks of us while it works on a request: an answer of the model (sampling),
 * something of the user (elicitation), where the workspace is (roots). What nobody offers is
 * refused; a server that goes on asking is, too, and all of a run together have a share of the
 * model, because somebody may have said yes to everything.
 */
#include "mcp.h"
#include "run.h"
#include "trace.h"

enum { ASKED_MAX = 32, MESSAGES_MAX = 256, TOKENS_MAX = 32768 };
/* In one run, those of agents used as tools included: answers of the model, and output tokens of
 * all of them. */
enum { SAMPLED_MAX = 64, SAMPLED_TOKENS = 200000 };
#define SPENT                                                                                      \
    "the servers of this run have had their share of the model: 64 answers, or 200000 output "     \
    "tokens"
#define IDLE "only while a tool of yours is called"
/* Codes of JSON-RPC, and the one that the specification gives to a user's no. */
enum { NO_METHOD = -32601, BAD_PARAMS = -32602, INTERNAL = -32603, REFUSED = -1 };

static json_t *make_error(int code, const char *text)
{
    json_t *e = json_pack("{s:i, s:s}", "code", code, "message", text);
    return json_pack(
        "{s:o}", "error",
        CAY_OR(e, json_pack("{s:i, s:s}", "code", code, "message", "no reason that is text")));
}

static json_t *make_result(json_t *r) /* takes r */
{
    return json_pack("{s:o}", "result", CAY_OR(r, json_object()));
}

/* Its messages as input of a model: what a server writes counts as the user's or the model's word.
 */
static json_t *sampled_input(const json_t *params)
{
    const json_t *list = json_object_get(params, "messages");
    CAY_AUTOJSON *items = json_array();
    if (!json_array_size(list) || json_array_size(list) > MESSAGES_MAX)
        return NULL;
    CAY_EACH_ITEM(m, list) {
        json_t *item = cay__mcp_message(m);
        if (!item)
            return NULL;
        json_array_append_new(items, item);
    }
    return CAY_STEAL(items);
}

static char *extract_text(const cay_model_reply *reply)
{
    CAY_AUTOJSON *items = json_loads(reply->output, 0, NULL);
    CAY_AUTOBUF b = CAY__BUF(CAY__MCP_MESSAGE / 2);
    cay__buf_str(&b, "");
    CAY_EACH_ITEM(item, items) {
        CAY_AUTOFREE char *text = CAY_IF(cay__item_is(item, "message"), cay__item_text(item));
        if (text)
            cay__buf_str(&b, text);
    }
    if (b.full)
        return NULL;
    return cay__strdup(CAY_OR(b.data, ""));
}

/* How many output tokens servers may still have in this run; 0: nothing more. */
static int64_t share_left(const cay_run *run)
{
    uint64_t had = atomic_load(&run->sampled->tokens);
    if (atomic_load(&run->sampled->answers) < SAMPLED_MAX && had < SAMPLED_TOKENS)
        return (int64_t)(SAMPLED_TOKENS - had);
    return 0;
}

/* On the run's own thread, between two requests of its own. */
static json_t *ask_model(cay_run *run, const cay_mcp_callbacks *a, const cay_call *call,
                         const json_t *params, const char *input)
{
    int64_t most = CAY_MIN(cay__json_int(params, "maxTokens", TOKENS_MAX),
                           CAY_MIN(share_left(run), (int64_t)TOKENS_MAX));
    const json_t *warm = json_object_get(params, "temperature");
    cay_model_settings set = { .size = sizeof set,
                               .max_output_tokens = (uint64_t)CAY_MAX((int64_t)1, most),
                               .has_temperature = json_is_number(warm),
                               .temperature = json_number_value(warm) };
    cay_model_request q = { .size = sizeof q,
                            .instructions = cay__json_str(params, "systemPrompt", NULL),
                            .input = input,
                            .settings = &set };
    cay_model_reply reply = { .size = sizeof reply };
    cay_err err = CAY_ERR_INIT;
    cay__span *span = cay__span_model(run, a->model);
    atomic_fetch_add(&run->sampled->answers, 1);
    int rc = cay_model_ask(a->model, call, &q, &reply, &err);
    if (rc == 0) { /* an endpoint that does not count: all that it was allowed */
        atomic_fetch_add(&run->sampled->tokens, CAY_OR(reply.usage.output, set.max_output_tokens));
        cay__tokens_add(&run->usage, &reply.usage);
        cay__span_usage(span, &reply.usage);
        if (reply.id)
            cay__span_data(span, "response_id", json_string(reply.id));
    }
    cay__span_close(span, rc, &err);
    CAY_AUTOFREE char *text = CAY_IF(rc == 0, extract_text(&reply));
    cay_model_reply_clear(&reply);
    if (!text)
        return make_error(INTERNAL, rc < 0 ? err.msg : "the model's answer is too large");
    return make_result(json_pack("{s:s, s:{s:s, s:s}, s:s, s:s}", "role", "assistant", "content",
                                 "type", "text", "text", text, "model", cay_model_name(a->model),
                                 "stopReason", "endTurn"));
}

static json_t *on_sampling(cay_mcp *m, cay_run *run, const cay_mcp_callbacks *a,
                           const cay_call *call, const json_t *params)
{
    CAY_AUTOFREE char *message = NULL;
    if (!a || !a->model || !a->sample)
        return make_error(NO_METHOD, "sampling is not offered");
    if (!run)
        return make_error(REFUSED, IDLE);
    CAY_AUTOJSON *items = sampled_input(params);
    CAY_AUTOFREE char *text = CAY_IF(items, cay__json_text(params, CAY__MCP_MESSAGE));
    CAY_AUTOFREE char *input = cay__json_plain(items, CAY__MCP_MESSAGE);
    if (!text || !input)
        return make_error(BAD_PARAMS, "messages: want 1 to 256 of role user or assistant");
    if (!share_left(run)) /* before anybody is asked to approve it */
        return make_error(REFUSED, SPENT);
    cay_verdict v = a->sample(a->arg, cay__mcp_name(m), text, &message);
    if (v != CAY_APPROVE && v != CAY_APPROVE_ALWAYS)
        return make_error(REFUSED, cay__text_or(message, "the user did not approve this request"));
    return ask_model(run, a, call, params, input);
}

/* A form of plain fields, as the specification has it; anything deeper is not put to a user. */
static bool plain_form(const json_t *schema)
{
    if (strcmp(cay__json_str(schema, "type", ""), "object") ||
        !json_object_size(json_object_get(schema, "properties")))
        return false;
    CAY_EACH_MEMBER(key, v, json_object_get(schema, "properties")) {
        static const char *const types[] = { "string", "number", "integer", "boolean" };
        bool fine = false;
        CAY_EACH(type, types)
            fine =
                fine || !strcmp(cay__json_str(v, "type",
                                              CAY_TEXT_IF(json_is_array(json_object_get(v, "enum")),
                                                          "string")),
                                *type);
        if (!fine)
            return false;
    }
    return true;
}

static json_t *on_elicitation(cay_mcp *m, cay_run *run, const cay_mcp_callbacks *a,
                              const cay_call *call, const json_t *params)
{
    const json_t *schema = json_object_get(params, "requestedSchema");
    const char *text = cay__json_str(params, "message", NULL);
    CAY_AUTOFREE char *content = NULL;
    CAY_AUTOJSON *value = NULL;
    if (!a || !a->elicit)
        return make_error(NO_METHOD, "elicitation is not offered: nobody is there to be asked");
    if (!run)
        return make_error(REFUSED, IDLE);
    CAY_AUTOFREE char *form = CAY_IF(plain_form(schema), cay__json_text(schema, 1 << 20));
    if (!text || !form)
        return make_error(BAD_PARAMS, "want a message and a requestedSchema that is an object of "
                                      "strings, numbers and booleans");
    int rc = a->elicit(a->arg, cay__mcp_name(m), text, form, &content);
    if (rc <= 0)
        return make_result(json_pack("{s:s}", "action", rc < 0 ? "cancel" : "decline"));
    cay_err err = CAY_ERR_INIT;
    if (cay__json_object("the answer", CAY_OR(content, "{}"), &value, &err) < 0 ||
        cay__schema_check(schema, value, &err) < 0)
        return make_result(
            json_pack("{s:s}", "action", "cancel")); /* it would not be what was asked for */
    return make_result(json_pack("{s:s, s:O}", "action", "accept", "content", value));
}

static json_t *on_roots(cay_mcp *m, cay_run *run, const cay_mcp_callbacks *a, const cay_call *call,
                        const json_t *params)
{
    json_t *list = json_array();
    const char *own = cay__mcp_workdir(m);
    for (size_t i = 0; a && a->roots && a->roots[i]; i++)
        json_array_append_new(list, json_pack("{s:s}", "uri", a->roots[i]));
    if (!(a && a->roots) && *own) {
        CAY_AUTOBUF uri = CAY__BUF(4096);
        cay__buf_fmt(&uri, "file://%s", own);
        json_array_append_new(list, json_pack("{s:s, s:s}", "uri", uri.data, "name", "workspace"));
    }
    return make_result(json_pack("{s:o}", "roots", list));
}

static json_t *on_ping(cay_mcp *m, cay_run *run, const cay_mcp_callbacks *a, const cay_call *call,
                       const json_t *params)
{
    return make_result(json_object());
}

static const struct {
    const char *method;
    json_t *(*answer)(cay_mcp *m, cay_run *run, const cay_mcp_callbacks *a, const cay_call *call,
                      const json_t *params);
} table[] = {
    { "ping", on_ping },
    { "sampling/createMessage", on_sampling },
    { "elicitation/create", on_elicitation },
    { "roots/list", on_roots },
};

cay_mcp_callbacks cay__mcp_offered(const cay_mcp_callbacks *given)
{
    cay_mcp_callbacks a;
    if (cay__spec_take(&a, sizeof a, given, "cay_mcp_callbacks", NULL) < 0)
        a = (cay_mcp_callbacks){ .size = sizeof a }; /* then nothing is offered */
    return a;
}

json_t *cay__mcp_abilities(const cay_mcp_callbacks *given)
{
    const cay_mcp_callbacks own = cay__mcp_offered(given), *a = &own;
    json_t *can = json_pack("{s:{}}", "roots");
    if (a && a->model && a->sample)
        json_object_set_new(can, "sampling", json_object());
    if (a && a->elicit)
        json_object_set_new(can, "elicitation", json_object());
    return can;
}

char *cay__mcp_reply(cay_mcp *m, const cay_call *call, const json_t *message)
{
    const json_t *id = json_object_get(message, "id");
    const char *method = cay__json_str(message, "method", NULL);
    cay_run *run = NULL;
    unsigned asked = 0;
    if (!method || (!json_is_integer(id) && !json_is_string(id)))
        return NULL;
    const cay_mcp_callbacks own = cay__mcp_asks_of(m, &run, &asked), *a = &own;
    CAY_AUTOJSON *r = NULL;
    for (size_t i = 0; i < CAY_LEN(table) && !r && asked <= ASKED_MAX; i++)
        if (!strcmp(table[i].method, method))
            r = table[i].answer(m, run, a, call, json_object_get(message, "params"));
    if (!r) {
        if (asked > ASKED_MAX)
            r = make_error(REFUSED, "you ask too much: 32 times for one request is enough");
        else
            r = make_error(NO_METHOD, "cay does not offer this");
    }
    cay__json_put(r, "jsonrpc", "2.0");
    json_object_set(r, "id", (json_t *)id);
    return cay__json_text(r, CAY__MCP_MESSAGE - 2);
}
