/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent as a tool of another: a run inside a call. When it has to wait for somebody's yes the
 * outer run waits with it and keeps its state; the call then goes on from there.
 */
#include "run.h"

typedef struct agent_tool {
    cay_tool tool;
    cay_agent *agent;
    char *name, *description;
} agent_tool;

/* Nobody will go on with it: its sandbox is not kept for that. */
static void give_up(const cay_run *outer, const cay_run_result *res)
{
    cay_sandbox *sb = NULL;
    if (!res->sandbox || outer->conf->sandbox || !outer->conf->service ||
        cay_client_find(outer->conf->service, NULL, res->sandbox, &sb, NULL) < 0)
        return;
    cay_sandbox_remove(sb, NULL, NULL);
    cay_sandbox_unref(sb);
}

static int wait_with(cay_run *outer, const char *call_id, const cay_agent *agent,
                     const cay_run_result *res, cay_err *err)
{
    json_t *st = NULL;
    if (outer->inside || cay__json_object("its state", res->state, &st, NULL) < 0) {
        give_up(outer, res);
        return cay_fail(err, CAY_ENOTSUP,
                        "agent %.60s waits for an approval, which cannot be given while code runs",
                        agent->name);
    }
    if (!outer->nested)
        outer->nested = json_object();
    json_object_set_new(outer->nested, call_id, st);
    return 0;
}

static void add_requests(cay_run *outer, const char *text)
{
    CAY_AUTOJSON *list = json_loads(text, 0, NULL);
    if (!outer->requests)
        outer->requests = json_array();
    json_array_extend(outer->requests, list);
}

static int call_agent(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    agent_tool *t = arg;
    cay_run *outer = call->run;
    cay_run_config conf = *outer->conf;
    CAY_AUTOJSON *args = NULL;
    const json_t *kept = json_object_get(outer->nested, call->call_id);
    CAY_AUTOFREE char *state = cay__json_plain(kept, CAY__TEXT_MAX);
    cay_run_result *res = NULL;
    if (outer->nest >= CAY__NEST_MAX)
        return cay_fail(err, CAY_ETOOBIG, "agents call each other %d deep; that is enough",
                        CAY__NEST_MAX);
    CAY_TRY(cay__json_object("its arguments", call->arguments, &args, err));
    json_object_del(outer->nested, call->call_id);
    conf.state = state;
    conf.previous_response_id = conf.kept_conversation = NULL;
    conf.conversation = NULL;
    conf.on_event = NULL;
    conf.nest_ = outer->nest + 1;
    conf.tracer = NULL;
    conf.trace = false;
    conf.sandbox_state = NULL; /* the outer run's */
    conf.save = false;
    conf.sampled_ = outer->sampled;
    conf.over_ =
        outer->span; /* its spans are below this call's; NULL where it runs beside others */
    if (!conf.model)
        conf.model = cay__seat_model(outer, outer->seat);
    cay_call own = cay__call_copy(outer->call);
    own.on_op = outer->on_op; /* its calls tell what they do themselves */
    own.on_op_arg = outer->on_op_arg;
    CAY_TRY(cay_agent_run(t->agent, &own, state ? NULL : cay__json_str(args, "input", ""), &conf,
                          &res, err));
    int rc = 0;
    if (res->output) {
        cay_output_text(out, res->output, strlen(res->output));
        cay__tokens_add(&outer->usage, &res->usage);
        add_requests(outer, res->requests);
    } else {
        rc = wait_with(outer, call->call_id, t->agent, res, err);
    }
    cay_run_result_free(res);
    return rc;
}

bool cay__tool_is_agent(const cay_tool *t)
{
    return t->call == call_agent;
}

static void drop_agent_tool(void *arg)
{
    agent_tool *t = arg;
    free(t->name);
    free(t->description);
    free(t);
}

cay_tool *cay_agent_as_tool(cay_agent *agent, const char *tool, const char *description)
{
    agent_tool *t = cay__alloc(sizeof *t);
    char name[65];
    cay__tool_name(name, sizeof name, "", CAY_OR(tool, agent->name));
    t->agent = agent;
    t->name = cay__strdup(name);
    t->description = cay__strdup(CAY_OR(description, agent->handoff_description));
    t->tool = (cay_tool){ .size = sizeof t->tool,
                          .name = t->name,
                          .description = t->description,
                          .call = call_agent,
                          .arg = t,
                          .drop = drop_agent_tool,
                          .parameters = "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":"
                                        "\"string\",\"minLength\":1}},\"required\":[\"input\"]}" };
    return &t->tool;
}

void cay_tool_free(cay_tool *t)
{
    if (t && t->drop)
        t->drop(t->arg);
}
