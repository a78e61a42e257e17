/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent - an agent with a tool of its own, at work in a sandbox.
 *
 *     ./agent                     a model played from memory: no network, no key
 *     ./agent native gpt-5.5      a real one; its key is in $OPENAI_API_KEY
 */
#include <cay/cay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs here, not in the sandbox: what it knows stays on this side unless it says it. */
static int greet(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    const char *greeting = arg;
    (void)call;
    (void)err;
    cay_output_text(out, greeting, strlen(greeting));
    return 0;
}

static const cay_tool greeting = {
    .size = sizeof greeting,
    .name = "house_greeting",
    .description = "How this house greets.",
    .call = greet,
    .arg = "Ahoy",
};

/* What a real one would say, turn by turn. cay/sys/model.h is all that it takes. */
static int play(void *self, const cay_call *call, const cay_model_request *req,
                cay_model_reply *out, cay_err *err)
{
    static const char *const turns[] = {
        "[{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"house_greeting\",\"arguments\":"
        "\"{}\"}]",
        "[{\"type\":\"function_call\",\"call_id\":\"2\",\"name\":\"exec_command\",\"arguments\":\"{"
        "\\\"cmd\\\":\\\"echo Ahoy, world > greeting; wc -w < greeting\\\"}\"}]",
        "[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
        "\"text\":\"greeting has two words.\"}]}]",
    };
    size_t *at = self;
    (void)call;
    (void)req;
    if (*at >= sizeof turns / sizeof *turns)
        return cay_fail(err, CAY_EINVAL, "nothing more to say");
    out->output = strdup(turns[(*at)++]);
    return 0;
}

static const cay_model_ops player = {
    .size = sizeof player, .name = "player", .custom_tools = true, .compaction = true, .ask = play
};

static int show(void *arg, const cay_run_event *ev)
{
    (void)arg;
    if (ev->kind == CAY_RUN_ITEM)
        printf("%s: %s\n", ev->agent->name, ev->name);
    return 0;
}

int main(int argc, char **argv)
{
    const char *provider = argc > 1 ? argv[1] : "native", *name = argc > 2 ? argv[2] : NULL;
    cay_err err = CAY_ERR_INIT;
    cay_open open = { .size = sizeof open, .provider = provider };
    cay_model_open_spec spec = { .size = sizeof spec, .model = name };
    cay_client *client = NULL;
    cay_model *model = NULL;
    cay_run_result *res = NULL;
    size_t turn = 0;

    /* The agent is a description. Capabilities that are not named are the usual ones: files, shell,
     * compaction. */
    const cay_tool *const tools[] = { &greeting };
    cay_agent greeter = { .size = sizeof greeter,
                          .name = "Greeter",
                          .sandbox = true,
                          .tools = tools,
                          .ntools = 1,
                          .instructions = "Write the greeting of this house into the file "
                                          "greeting, then tell how many words it has." };

    int rc = cay_client_open(&open, &client, &err);
    if (rc == 0 && name)
        rc = cay_model_open(&spec, &model, &err);
    else if (rc == 0)
        model = cay_model_new(&player, &turn, "player");
    if (rc == 0) {
        /* The run makes a sandbox for it and removes it in the end, whatever happens. */
        cay_run_config conf = {
            .size = sizeof conf, .model = model, .service = client, .on_event = show
        };
        rc = cay_agent_run(&greeter, NULL, "Greet the world.", &conf, &res, &err);
    }
    if (rc == 0)
        printf("answer: %s\nturns: %u\n", res->output, res->turns);
    else
        fprintf(stderr, "agent: %s: %s\n", cay_code_name(err.code), err.msg);
    cay_run_result_free(res);
    cay_model_free(model);
    if (client)
        cay_client_close(client);
    return rc < 0;
}
