/* SPDX-License-Identifier: Apache-2.0 */
/* Items that a model answers with: first as the run's answer, then as the conversation behind a
 * Chat Completions request. */
#include <agent/model/endpoint.h>
#include <cay/agent.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int say(void *self, const cay_call *call, const cay_model_request *q, cay_model_reply *out,
               cay_err *err)
{
    (void)call;
    (void)q;
    (void)err;
    out->output = cay__strdup(self);
    return 0;
}

static int tool(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg;
    (void)err;
    cay_output_text(out, call->arguments, strlen(call->arguments));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const cay_model_ops ops = {
        .size = sizeof ops, .name = "say", .custom_tools = true, .ask = say
    };
    static const cay_tool
        add = { .size = sizeof add,
                .name = "add",
                .call = tool,
                .parameters =
                    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":[\"integer\",\"null\"],"
                    "\"minimum\":0},\"b\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}}}" },
        text_tool = { .size = sizeof text_tool, .name = "patch", .call = tool, .grammar = "" };
    const cay_tool *const tools[] = { &add, &text_tool };
    cay_agent other = { .size = sizeof other, .name = "Other" };
    const cay_handoff to[] = { { .agent = &other } };
    cay_agent a = {
        .size = sizeof a, .name = "A", .tools = tools, .ntools = 2, .handoffs = to, .nhandoffs = 1
    };
    char *text = malloc(len + 1);
    if (!text)
        abort();
    memcpy(text, data, len);
    text[len] = 0;
    cay_model *m = cay_model_new(&ops, text, "say");
    cay_run_config conf = { .size = sizeof conf, .model = m, .max_turns = 2 };
    cay_run_result *r = NULL;
    if (cay_agent_run(&a, NULL, "go", &conf, &r, NULL) == 0)
        cay_run_result_free(r);
    json_t *items = json_loads(text, JSON_DECODE_ANY, NULL);
    json_decref(cay__chat_messages(items, "x"));
    json_decref(cay__chat_tools(items));
    json_decref(items);
    cay_model_free(m);
    free(text);
    return 0;
}
