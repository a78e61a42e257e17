/* SPDX-License-Identifier: Apache-2.0 */
/* A saved run from somebody. What opens can be decided on and opens again; what a run goes on with,
 * it survives. */
#include <base/json.h>
#include <cay/agent.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int say(void *self, const cay_call *call, const cay_model_request *q, cay_model_reply *out,
               cay_err *err)
{
    (void)self;
    (void)call;
    (void)q;
    (void)err;
    out->output = cay__strdup("[{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"ok\"}]");
    return 0;
}

static int tool(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg;
    (void)call;
    (void)err;
    cay_output_text(out, "ran", 3);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const cay_model_ops ops = {
        .size = sizeof ops, .name = "say", .custom_tools = true, .ask = say
    };
    static const cay_tool add = {
        .size = sizeof add, .name = "add", .call = tool, .approval = true
    };
    const cay_tool *const tools[] = { &add };
    cay_agent a = { .size = sizeof a, .name = "Careful", .tools = tools, .ntools = 1 };
    char *text = malloc(len + 1), *again = NULL;
    cay_state_doc *d = NULL, *e = NULL;
    size_t n;
    if (!text)
        abort();
    memcpy(text, data, len);
    text[len] = 0;
    if (cay_state_open(text, &d, NULL) == 0) {
        const cay_interruption *list = cay_state_interruptions(d, &n);
        for (size_t i = 0; i < n; i++)
            if ((i & 1 ? cay_state_reject(d, list[i].call_id, i & 2, "no", NULL)
                       : cay_state_approve(d, list[i].call_id, i & 2, NULL)) < 0)
                abort();
        again = cay_state_text(d);
        if (again && cay_state_open(again, &e, NULL) < 0)
            abort();
        cay_model *m = cay_model_new(&ops, NULL, "say");
        cay_run_config conf = { .size = sizeof conf, .model = m, .state = again };
        cay_run_result *r = NULL;
        if (again && cay_agent_run(&a, NULL, NULL, &conf, &r, NULL) == 0)
            cay_run_result_free(r);
        cay_model_free(m);
    }
    cay_state_close(d);
    cay_state_close(e);
    free(again);
    free(text);
    return 0;
}
