/* SPDX-License-Identifier: Apache-2.0 */
/* The runner without a sandbox: turns, tools, approvals, states, handoffs, guards, outputs. */
#include "play.h"
#include <base/str.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/stat.h>

static play p;
static cay_model *model;
static int calls;
static char last_args[256];

static int set_up(void **state)
{
    (void)state;
    model = play_model(&p, "play");
    calls = 0;
    last_args[0] = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cay_model_free(model);
    play_clear(&p);
    return 0;
}

static int add(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg;
    (void)err;
    calls++;
    cay__str_copy(last_args, sizeof last_args, call->arguments);
    cay_output_text(out, "sum 42", 6);
    return 0;
}

static int broken(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg;
    (void)call;
    (void)out;
    return cay_fail(err, CAY_ENOENT, "the abacus is lost");
}

static const cay_tool add_tool = {
    .size = sizeof add_tool,
    .name = "add",
    .description = "adds",
    .call = add,
    .parameters =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}"
};
static const cay_tool guarded_tool = {
    .size = sizeof guarded_tool, .name = "add", .call = add, .approval = true
};
static const cay_tool broken_tool = { .size = sizeof broken_tool,
                                      .name = "broken",
                                      .call = broken };
static const cay_tool raising_tool = {
    .size = sizeof raising_tool, .name = "broken", .call = broken, .raises = true
};
static const cay_tool *const all_tools[] = { &add_tool, &broken_tool };
static const cay_tool *const guarded_tools[] = { &guarded_tool };

static cay_run_result *run(cay_agent *a, const char *input, cay_run_config conf)
{
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    conf.size = sizeof conf;
    if (!conf.model)
        conf.model = model;
    if (cay_agent_run(a, NULL, input, &conf, &r, &err) < 0)
        fail_msg("%s (%s)", err.msg, err.reason);
    return r;
}

static cay_err fails(cay_agent *a, const char *input, cay_run_config conf, const char *reason)
{
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    conf.size = sizeof conf;
    if (!conf.model)
        conf.model = model;
    assert_true(cay_agent_run(a, NULL, input, &conf, &r, &err) < 0);
    assert_null(r);
    if (strcmp(err.reason, reason))
        fail_msg("reason \"%s\" instead of \"%s\": %s", err.reason, reason, err.msg);
    return err;
}
#define CONF(...)                                                                                  \
    (cay_run_config)                                                                               \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define PLAIN                                                                                      \
    (cay_run_config)                                                                               \
    {                                                                                              \
        .size = sizeof(cay_run_config)                                                             \
    }

/* Choices of choices double with every level: they are refused, not followed to their end. */
static void a_schema_has_only_so_many_steps(void **state)
{
    (void)state;
    static const cay_tool endless = {
        .size = sizeof endless,
        .name = "add",
        .call = add,
        .parameters = "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
                      "a\"},{\"$ref\":\"#/$defs/a\"}]}}}"
    };
    static const cay_tool *const tools[] = { &endless };
    cay_agent a = { .size = sizeof a, .name = "Adder", .tools = tools, .ntools = 1 };
    p.say[0] = CALL("c1", "add", "{}");
    p.say[1] = TEXT("a pity");
    cay_run_result_free(run(&a, "add one", PLAIN));
    assert_int_equal(calls, 0);
    has(p.input[1], "100000 steps");
}

static void a_tool_is_called_and_its_answer_seen(void **state)
{
    (void)state;
    cay_agent a = {
        .size = sizeof a, .name = "Adder", .instructions = "Add.", .tools = all_tools, .ntools = 2
    };
    p.say[0] = CALL("c1", "add", "{\\\"a\\\": 1}");
    p.say[1] = TEXT("It is 42.");
    cay_run_result *r = run(&a, "add one", PLAIN);
    assert_string_equal(r->output, "It is 42.");
    assert_string_equal(r->agent, "Adder");
    assert_int_equal(r->turns, 2);
    assert_int_equal(r->usage.total, 22);
    assert_int_equal(calls, 1);
    assert_string_equal(last_args, "{\"a\": 1}");
    assert_string_equal(p.instructions[0], "Add.");
    has(p.input[1], "\"call_id\":\"c1\",\"output\":\"sum 42\"");
    has(r->items, "It is 42.");
    has(r->history, "add one");
    cay_run_result_free(r);
}

/* What a model does wrong it is told, and may do better. */
static void mistakes_of_the_model_go_back_to_it(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .tools = all_tools, .ntools = 2 };
    /* clang-format off */
    p.say[0] = "[" CALL_ITEM("c1", "nosuch", "{}") "," CALL_ITEM("c2", "add", "{not json") ","
               CALL_ITEM("c3", "add", "{\\\"a\\\":\\\"x\\\"}") "," CALL_ITEM("c4", "add", "{}") ","
               CALL_ITEM("c5", "broken", "{}") "," CALL_ITEM("c6", "add", "[1]") "]" ;
    /* clang-format on */
    p.say[1] = TEXT("Sorry.");
    cay_run_result *r = run(&a, "go", PLAIN);
    assert_int_equal(calls, 0);
    has(p.input[1], "no tool named");
    has(p.input[1], "valid JSON");
    has(p.input[1], "a: want integer");
    has(p.input[1], "lacks a");
    has(p.input[1], "the abacus is lost");
    has(p.input[1], "not a JSON object");
    cay_run_result_free(r);
}

static void answers_that_cannot_be_used_end_the_run(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .tools = all_tools, .ntools = 2 };
    static const char *const bad[] = {
        "{}", "[1]", "[]", "[" CALL_ITEM("c", "add", "{}") "," CALL_ITEM("c", "add", "{}") "]",
        "[{\"type\":\"function_call\",\"name\":\"add\",\"arguments\":\"{}\"}]"
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        play_clear(&p);
        p.say[0] = bad[i];
        fails(&a, "go", PLAIN, "model_behavior");
    }
    play_clear(&p);
    p.say[0] = "[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\","
               "\"refusal\":\"no\"}]}]";
    fails(&a, "go", PLAIN, "model_refusal");
}

static void a_tool_that_raises_ends_the_run(void **state)
{
    (void)state;
    const cay_tool *const tools[] = { &raising_tool };
    cay_agent a = { .size = sizeof a, .name = "A", .tools = tools, .ntools = 1 };
    p.say[0] = CALL("c1", "broken", "{}");
    has(fails(&a, "go", PLAIN, "tool_failed").msg, "the abacus is lost");
}

static void turns_have_a_limit(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .tools = all_tools, .ntools = 2 };
    p.say[0] = CALL("c0", "add", "{\\\"a\\\":1}");
    p.say[1] = CALL("c1", "add", "{\\\"a\\\":1}");
    p.say[2] = CALL("c2", "add", "{\\\"a\\\":1}");
    fails(&a, "go", CONF(.max_turns = 2), "max_turns");
    assert_int_equal(calls, 2);
}

static void outputs_fit_their_schema(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .output_schema =
                        "{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/"
                        "n\"},\"tag\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"n\"],"
                        "\"additionalProperties\":false,\"$defs\":{\"n\":{\"anyOf\":[{\"type\":"
                        "\"integer\",\"minimum\":3},{\"type\":\"null\"}]}}}" };
    static const struct {
        const char *say;
        bool fits;
    } rows[] = {
        { TEXT("{\\\"n\\\": 3}"), true },
        { TEXT("{\\\"n\\\": null, \\\"tag\\\": \\\"y\\\"}"), true },
        { TEXT("{\\\"n\\\": 2}"), false },
        { TEXT("{\\\"m\\\": 3}"), false },
        { TEXT("{\\\"n\\\": 3, \\\"tag\\\": \\\"z\\\"}"), false },
        { TEXT("not json"), false },
        { TEXT("{\\\"n\\\": 3, \\\"k\\\": 1}"), false },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        play_clear(&p);
        p.say[0] = rows[i].say;
        if (rows[i].fits)
            cay_run_result_free(run(&a, "go", PLAIN));
        else
            fails(&a, "go", PLAIN, "model_behavior");
    }
}

static void a_required_tool_is_required_once(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .tools = all_tools,
                    .ntools = 2,
                    .settings = { .size = sizeof a.settings, .tool_choice = "required" } };
    p.say[0] = CALL("c0", "add", "{\\\"a\\\":1}");
    p.say[1] = TEXT("ok");
    cay_run_result_free(run(&a, "go", PLAIN));
    assert_string_equal(p.choice[0], "required");
    assert_null(p.choice[1]);
}

static void a_tool_may_have_the_last_word(void **state)
{
    (void)state;
    const char *const at[] = { "add", NULL };
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .tools = all_tools,
                    .ntools = 2,
                    .tool_use = CAY_TOOLS_STOP_AT,
                    .stop_at = at };
    p.say[0] = CALL("c0", "add", "{\\\"a\\\":1}");
    cay_run_result *r = run(&a, "go", PLAIN);
    assert_string_equal(r->output, "sum 42");
    cay_run_result_free(r);
}

static cay_agent careful = {
    .size = sizeof careful, .name = "Careful", .tools = guarded_tools, .ntools = 1
};

static char *interrupted(void)
{
    p.say[0] = "[" CALL_ITEM("c1", "add", "{}") "," CALL_ITEM("c2", "add", "{\\\"b\\\":2}") "]";
    p.say[1] = TEXT("done");
    cay_run_result *r = run(&careful, "go", PLAIN);
    assert_null(r->output);
    assert_non_null(r->state);
    assert_int_equal(r->ninterruptions, 2);
    assert_string_equal(r->interruptions[1].call_id, "c2");
    assert_string_equal(r->interruptions[1].tool, "add");
    assert_string_equal(r->interruptions[1].arguments, "{\"b\":2}");
    assert_int_equal(calls, 0);
    char *st = cay__strdup(r->state);
    cay_run_result_free(r);
    return st;
}

static void a_run_waits_and_goes_on(void **state)
{
    (void)state;
    CAY_AUTOFREE char *st = interrupted();
    cay_state_doc *d = NULL;
    size_t n;
    assert_int_equal(cay_state_open(st, &d, NULL), 0);
    assert_string_equal(cay_state_interruptions(d, &n)[0].call_id, "c1");
    assert_int_equal(n, 2);
    assert_int_equal(cay_state_approve(d, "c1", false, NULL), 0);
    assert_int_equal(cay_state_reject(d, "c2", false, "not on Mondays", NULL), 0);
    assert_int_equal(cay_state_approve(d, "c9", false, NULL), CAY_ENOENT);
    CAY_AUTOFREE char *decided = cay_state_text(d);
    cay_state_close(d);
    cay_run_result *r = run(&careful, NULL, CONF(.state = decided));
    assert_string_equal(r->output, "done");
    assert_int_equal(calls, 1);
    assert_int_equal(r->turns, 2);
    assert_int_equal(r->usage.total, 22);
    has(p.input[1], "\"call_id\":\"c1\",\"output\":\"sum 42\"");
    has(p.input[1], "not on Mondays");
    cay_run_result_free(r);
}

static void what_is_not_decided_still_waits(void **state)
{
    (void)state;
    CAY_AUTOFREE char *st = interrupted();
    cay_state_doc *d = NULL;
    assert_int_equal(cay_state_open(st, &d, NULL), 0);
    assert_int_equal(cay_state_approve(d, "c1", false, NULL), 0);
    CAY_AUTOFREE char *decided = cay_state_text(d);
    cay_state_close(d);
    cay_run_result *r = run(&careful, NULL, CONF(.state = decided));
    assert_null(r->output);
    assert_int_equal(r->ninterruptions, 1);
    assert_string_equal(r->interruptions[0].call_id, "c2");
    CAY_AUTOFREE char *second = cay__strdup(r->state);
    cay_run_result_free(r);
    assert_int_equal(cay_state_open(second, &d, NULL), 0);
    assert_int_equal(cay_state_approve(d, "c2", true, NULL), 0);
    CAY_AUTOFREE char *third = cay_state_text(d);
    cay_state_close(d);
    r = run(&careful, NULL, CONF(.state = third));
    assert_string_equal(r->output, "done");
    assert_int_equal(calls, 2);
    cay_run_result_free(r);
}

/* A state is somebody's file: what was changed in it is not obeyed, and not told either. */
static void a_state_that_was_tampered_with_is_refused(void **state)
{
    (void)state;
    CAY_AUTOFREE char *st = interrupted();
    static const struct {
        const char *path, *key, *value;
    } changes[] = {
        { NULL, "$schemaVersion", "\"cay-2\"" },
        { NULL, "interruptions",
          "[{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"add\",\"arguments\":\"{"
          "\\\"evil\\\":1}\"}]" },
        { NULL, "interruptions",
          "[{\"type\":\"function_call\",\"call_id\":\"c7\",\"name\":\"add\",\"arguments\":\"{}\"}"
          "]" },
        { NULL, "interruptions", "[3]" },
        { NULL, "generated_items", "{}" },
        { NULL, "current_turn", "-1" },
        { NULL, "max_turns", "\"x\"" },
        { NULL, "run_id", "\"../../etc\"" },
        { "context", "approvals", "[]" },
        { "current_agent", "key", "\"Stranger\"" },
        { "context", "approvals", "{\"add\":{\"approved\":\"yes\"}}" },
        { "sandbox", "sessions_by_agent", "{\"Careful\":{\"sandbox\":\"../x\"}}" },
    };
    for (size_t i = 0; i < CAY_LEN(changes); i++) {
        CAY_AUTOJSON *j = json_loads(st, 0, NULL);
        json_t *at = changes[i].path ? json_object_get(j, changes[i].path) : j;
        json_object_set_new(at, changes[i].key,
                            json_loads(changes[i].value, JSON_DECODE_ANY, NULL));
        CAY_AUTOFREE char *text = json_dumps(j, 0);
        has_not(fails(&careful, NULL, CONF(.state = text), "run_state").msg, "evil");
    }
    fails(&careful, NULL, CONF(.state = "{\"secret\": nonsense"), "run_state");
    assert_int_equal(calls, 0);
}

static cay_verdict verdict;
static cay_verdict decide(void *arg, const cay_tool_call *call, char **message)
{
    (void)arg;
    (void)call;
    if (verdict == CAY_REJECT)
        *message = cay__strdup("surely not");
    return verdict;
}

static void somebody_may_decide_at_once(void **state)
{
    (void)state;
    p.say[0] = CALL("c1", "add", "{}");
    p.say[1] = CALL("c2", "add", "{}");
    p.say[2] = TEXT("done");
    verdict = CAY_REJECT;
    cay_run_result_free(run(&careful, "go", CONF(.approve = decide)));
    assert_int_equal(calls, 0);
    has(p.input[1], "surely not");
    play_clear(&p);
    p.say[0] = CALL("c1", "add", "{}");
    p.say[1] = TEXT("done");
    verdict = CAY_APPROVE_ALWAYS;
    cay_run_result_free(run(&careful, "go", CONF(.approve = decide)));
    assert_int_equal(calls, 1);
}

static void work_is_handed_over(void **state)
{
    (void)state;
    cay_agent second = { .size = sizeof second,
                         .name = "Second One",
                         .instructions = "I am second.",
                         .tools = all_tools,
                         .ntools = 2 };
    const cay_handoff to[] = { { .agent = &second } };
    cay_agent first = { .size = sizeof first,
                        .name = "First",
                        .instructions = "I am first.",
                        .handoffs = to,
                        .nhandoffs = 1 };
    p.say[0] = "[" CALL_ITEM("c1", "transfer_to_second_one",
                             "{}") "," CALL_ITEM("c2", "transfer_to_second_one", "{}") "]";
    p.say[1] = TEXT("second here");
    cay_run_result *r = run(&first, "go", PLAIN);
    assert_string_equal(r->agent, "Second One");
    assert_string_equal(p.instructions[1], "I am second.");
    has(p.tools[0], "transfer_to_second_one");
    has_not(p.tools[1], "transfer_to");
    has(p.input[1], "Multiple handoffs");
    has(p.input[1], "{\\\"assistant\\\":\\\"Second One\\\"}");
    cay_run_result_free(r);
}

static void an_agent_is_a_tool(void **state)
{
    (void)state;
    cay_agent inner = { .size = sizeof inner, .name = "Inner", .instructions = "inner" };
    cay_tool *t = cay_agent_as_tool(&inner, "ask_inner", "asks it");
    const cay_tool *const tools[] = { t };
    cay_agent outer = { .size = sizeof outer, .name = "Outer", .tools = tools, .ntools = 1 };
    p.say[0] = CALL("c1", "ask_inner", "{\\\"input\\\":\\\"what?\\\"}");
    p.say[1] = TEXT("inner says hi");
    p.say[2] = TEXT("outer says hi");
    cay_run_result *r = run(&outer, "go", PLAIN);
    assert_string_equal(r->output, "outer says hi");
    assert_string_equal(p.instructions[1], "inner");
    has(p.input[1], "what?");
    has(p.input[2], "inner says hi");
    cay_run_result_free(r);
    cay_tool_free(t);
}

static void an_agent_as_a_tool_waits_with_its_caller(void **state)
{
    (void)state;
    cay_agent inner = {
        .size = sizeof inner, .name = "Inner", .tools = guarded_tools, .ntools = 1
    };
    cay_tool *t = cay_agent_as_tool(&inner, "ask_inner", "asks it");
    const cay_tool *const tools[] = { t, &add_tool };
    cay_agent outer = { .size = sizeof outer, .name = "Outer", .tools = tools, .ntools = 2 };
    cay_state_doc *d = NULL;
    cay_err err = CAY_ERR_INIT;
    size_t n = 0;
    p.say[0] = "[" CALL_ITEM("c1", "ask_inner", "{\\\"input\\\":\\\"what?\\\"}") "," CALL_ITEM(
        "c2", "add", "{\\\"a\\\":1}") "]";
    p.say[1] = CALL("c1", "add", "{}"); /* of the inner one, with an id that the outer has too */
    p.say[2] = TEXT("inner is done");
    p.say[3] = TEXT("outer is done");
    cay_run_result *r = run(&outer, "go", PLAIN);
    assert_null(r->output);
    assert_int_equal(calls, 1); /* that which nobody has to decide on */
    assert_int_equal(r->ninterruptions, 1);
    assert_string_equal(r->interruptions[0].call_id, "c1/c1");
    assert_string_equal(r->interruptions[0].agent, "Inner");
    assert_string_equal(r->interruptions[0].tool, "add");
    assert_int_equal(cay_state_open(r->state, &d, &err), 0);
    assert_string_equal(cay_state_interruptions(d, &n)[0].call_id, "c1/c1");
    assert_int_equal(n, 1);
    assert_int_equal(cay_state_approve(d, "c1", false, &err), CAY_ENOENT);
    CAY_AUTOFREE char *undecided = cay_state_text(d);
    assert_int_equal(cay_state_approve(d, "c1/c1", false, &err), 0);
    CAY_AUTOFREE char *decided = cay_state_text(d);
    cay_state_close(d);
    cay_run_result_free(r);
    r = run(&outer, NULL, CONF(.state = undecided)); /* still waits, and nobody was asked */
    assert_int_equal(r->ninterruptions, 1);
    assert_int_equal(p.at, 2);
    cay_run_result_free(r);
    r = run(&outer, NULL, CONF(.state = decided));
    assert_string_equal(r->output, "outer is done");
    assert_int_equal(calls, 2);
    has(p.input[3], "inner is done");
    assert_int_equal(r->usage.requests, 4); /* with those of the inner one */
    cay_run_result_free(r);
    /* What waits inside a call that does not is somebody's own work. */
    CAY_AUTOJSON *st = json_loads(decided, 0, NULL);
    json_object_set(json_object_get(st, "nested"), "c2",
                    json_object_get(json_object_get(st, "nested"), "c1"));
    CAY_AUTOFREE char *forged = json_dumps(st, 0);
    assert_int_equal(cay_state_open(forged, &d, &err), CAY_EINVAL);
    cay_tool_free(t);
}

/* beside each other, guards of
 * tools, what is kept elsewhere */

/* Waits until as many others are in it at the same time. */
static atomic_int inside, most;
static int meet(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    int want = *(int *)arg, now = atomic_fetch_add(&inside, 1) + 1;
    for (int old = most; now > old && !atomic_compare_exchange_weak(&most, &old, now);)
        ;
    for (int i = 0; i < 1000 && most < want; i++)
        poll(NULL, 0, 10);
    poll(NULL, 0, 20); /* others have the time to be too many */
    atomic_fetch_sub(&inside, 1);
    (void)err;
    assert_non_null(cay_run_agent(call->run));
    cay_output_text(out, call->call_id, strlen(call->call_id));
    return 0;
}

static void tools_run_beside_each_other(void **state)
{
    (void)state;
    int want = 3;
    const cay_tool meeting = {
        .size = sizeof meeting, .name = "meet", .call = meet, .arg = &want, .beside = true
    };
    const cay_tool *const tools[] = { &meeting, &add_tool };
    cay_agent a = { .size = sizeof a, .name = "A", .tools = tools, .ntools = 2 };
#define MEET(id) CALL_ITEM(id, "meet", "{}")
    p.say[0] = "[" MEET("c1") "," MEET("c2") "," MEET("c3") "," MEET("c4") "," MEET(
        "c5") "," CALL_ITEM("c6", "add", "{\\\"a\\\":1}") "," MEET("c7") "]";
    p.say[1] = TEXT("met");
    atomic_store(&most, 0);
    cay_run_result *r = run(&a, "go", CONF(.beside = 3));
    assert_int_equal(most, 3); /* at once, and never more */
    CAY_AUTOJSON *items = json_loads(r->items, 0, NULL);
    for (size_t i = 0; i < 7; i++) { /* told in the order of the calls */
        char id[8];
        snprintf(id, sizeof id, "c%zu", i + 1);
        assert_string_equal(cay__json_str(json_array_get(items, 7 + i), "call_id", ""), id);
    }
    cay_run_result_free(r);
    want = 1;
    p.say[2] = "[" MEET("d1") "," MEET("d2") "]";
    p.say[3] = TEXT("met");
    atomic_store(&most, 0);
    cay_run_result_free(run(&a, "go", PLAIN));
    assert_int_equal(most, 1);
}

static int no_seven(void *arg, const cay_tool_call *call, char **message, cay_err *err)
{
    (void)arg;
    (void)err;
    *message = cay__strdup("seven is not added here");
    return strstr(call->arguments, "77")  ? CAY_GUARD_TRIP
           : strchr(call->arguments, '7') ? CAY_GUARD_REPLACE
                                          : CAY_GUARD_PASS;
}

static int no_sum(void *arg, const cay_tool_call *call, const char *output, char **message,
                  cay_err *err)
{
    (void)arg;
    (void)call;
    (void)err;
    *message = cay__strdup("a sum, kept back");
    return strstr(output, "sum 42") ? CAY_GUARD_REPLACE : CAY_GUARD_PASS;
}

static void tools_have_guards(void **state)
{
    (void)state;
    const cay_tool_guard guards[] = { { .name = "sevens", .before = no_seven },
                                      { .name = "sums", .after = no_sum } };
    cay_tool t = add_tool;
    t.guards = guards;
    t.nguards = 2;
    const cay_tool *const tools[] = { &t };
    cay_agent a = { .size = sizeof a, .name = "A", .tools = tools, .ntools = 1 };
    p.say[0] = CALL("c1", "add", "{\\\"a\\\":7}");
    p.say[1] = CALL("c2", "add", "{\\\"a\\\":8}");
    p.say[2] = TEXT("so be it");
    cay_run_result_free(run(&a, "go", PLAIN));
    assert_int_equal(calls, 1);
    has(p.input[1], "seven is not added here");
    has(p.input[2], "a sum, kept back");
    has_not(p.input[2], "sum 42");
    p.say[3] = CALL("c3", "add", "{\\\"a\\\":77}");
    fails(&a, "go", PLAIN, "guardrail_tool");
    assert_int_equal(calls, 1);
}

static char reason[64];
static int take_reason(void *arg, cay_run *r, const char *arguments, cay_err *err)
{
    (void)arg;
    (void)err;
    assert_string_equal(cay_run_agent(r)->name, "First");
    cay__str_copy(reason, sizeof reason, arguments);
    return 0;
}

static int only_this(void *arg, cay_run *r, const char *items, char **instead, cay_err *err)
{
    (void)r;
    (void)err;
    has(items, "secret of the first");
    *instead = cay__strdup(arg);
    return 0;
}

static void a_handoff_tells_why_and_shows_what_it_wants(void **state)
{
    (void)state;
    cay_agent second = { .size = sizeof second, .name = "Second" };
    const cay_handoff to[] = { { .agent = &second,
                                 .taken = take_reason,
                                 .filter = only_this,
                                 .arg = "[{\"role\":\"user\",\"content\":\"a summary\"}]",
                                 .parameters = "{\"type\":\"object\",\"properties\":{\"why\":{"
                                               "\"type\":\"string\"}},\"required\":[\"why\"]}" } };
    cay_agent first = { .size = sizeof first, .name = "First", .handoffs = to, .nhandoffs = 1 };
    p.say[0] = CALL("c1", "transfer_to_second", "{}");
    p.say[1] = CALL("c2", "transfer_to_second", "{\\\"why\\\":\\\"hard\\\"}");
    p.say[2] = TEXT("second here");
    cay_run_result *r = run(&first, "secret of the first", PLAIN);
    assert_string_equal(r->agent, "Second");
    has(p.input[1], "lacks why");
    assert_string_equal(reason, "{\"why\":\"hard\"}");
    has(p.input[2], "a summary");
    has_not(p.input[2], "secret");
    cay_run_result_free(r);
}

static void a_chain_sends_what_is_new(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .tools = all_tools,
                    .ntools = 2,
                    .prompt = "{\"id\":\"pmpt_1\"}" };
    p.say[0] = CALL("c1", "add", "{\\\"a\\\":1}");
    p.say[1] = CALL("c2", "add", "{\\\"a\\\":2}");
    p.say[2] = TEXT("done");
    cay_run_result *r = run(&a, "first words", CONF(.chain = true));
    assert_null(p.previous[0]);
    assert_string_equal(p.previous[1], "resp_1");
    assert_string_equal(p.previous[2], "resp_2");
    assert_string_equal(p.prompt[2], "{\"id\":\"pmpt_1\"}");
    has_not(p.input[1], "first words");
    has_not(p.input[2], "c1");
    has(p.input[2], "c2");
    has(r->history, "first words");
    p.say[3] = TEXT("on");
    cay_run_result *s = run(&a, "second words", CONF(.previous_response_id = r->response_id));
    assert_string_equal(p.previous[3], "resp_3");
    has_not(p.input[3], "first words");
    cay_run_result_free(r);
    cay_run_result_free(s);
}

/* A run that waited goes on where its endpoint is: what that has seen is not sent again. */
static void a_saved_run_sends_what_is_new(void **state)
{
    cay_agent a = { .size = sizeof a, .name = "A", .tools = guarded_tools, .ntools = 1 };
    const cay_run_config ways[] = { { .chain = true }, { .kept_conversation = "conv_1" } };
    (void)state;
    for (size_t i = 0; i < CAY_LEN(ways); i++) {
        cay_run_config conf = ways[i];
        play_clear(&p);
        p.say[0] = CALL("c1", "add", "{\\\"a\\\":1}");
        cay_run_result *r = run(&a, "first words", conf);
        assert_int_equal(r->ninterruptions, 1);
        cay_state_doc *doc = NULL;
        assert_int_equal(cay_state_open(r->state, &doc, NULL), 0);
        assert_int_equal(cay_state_approve(doc, "c1", false, NULL), 0);
        CAY_AUTOFREE char *text = cay_state_text(doc);
        conf.state = text;
        p.say[1] = TEXT("done");
        cay_run_result_free(run(&a, NULL, conf));
        has_not(p.input[1], "first words");
        has_not(p.input[1], "\"function_call\"");
        has(p.input[1], "function_call_output");
        if (conf.chain)
            assert_string_equal(p.previous[1], "resp_1");
        else
            assert_string_equal(p.conversation[1], "conv_1");
        /* Another model knows nothing of it: it is sent everything, and no answer of somebody
         * else's. */
        cay_model *other = play_model(&p, "other");
        conf.model = other;
        p.say[2] = TEXT("done");
        if (conf.chain) {
            cay_run_result_free(run(&a, NULL, conf));
            has(p.input[2], "first words");
            assert_null(p.previous[2]);
        } else {
            fails(&a, NULL, conf, "kept_conversation");
        }
        cay_model_free(other);
        cay_state_close(doc);
        cay_run_result_free(r);
    }
}

static void a_conversation_may_be_the_endpoints(void **state)
{
    (void)state;
    cay_agent b = { .size = sizeof b, .name = "B" };
    const cay_handoff to = { .agent = &b };
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .tools = all_tools,
                    .ntools = 2,
                    .handoffs = &to,
                    .nhandoffs = 1 };
    p.say[0] = CALL("c1", "add", "{\\\"a\\\":1}");
    p.say[1] = CALL("c2", "transfer_to_b", "{}");
    p.say[2] = TEXT("done");
    cay_run_result *r = run(&a, "first words", CONF(.kept_conversation = "conv_1"));
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(p.conversation[i], "conv_1");
        assert_null(p.previous[i]);
    }
    has(p.input[0], "first words");
    has_not(p.input[1], "first words");
    has(p.input[1], "c1");
    has_not(p.input[2], "c1");
    has(p.input[2], "c2");
    has(r->history, "first words");
    cay_run_result_free(r);
    cay_conversation *mine = cay_conversation_memory("mine");
    fails(&a, "go", CONF(.kept_conversation = "conv_1", .conversation = mine), "kept_conversation");
    fails(&a, "go", CONF(.kept_conversation = "conv_1", .chain = true), "kept_conversation");
    cay_conversation_free(mine);
}

static void what_an_endpoint_lacks_is_told(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .prompt = "{\"id\":\"pmpt_1\"}" },
              b = { .size = sizeof b, .name = "B" };
    cay_model *plain = cay_model_new(&play_functions, &p, "plain");
    p.say[0] = TEXT("well");
    fails(&a, "go", CONF(.model = plain), "prompt_unsupported");
    fails(&b, "go", CONF(.model = plain, .previous_response_id = "resp_1"), "previous_response");
    fails(&b, "go", CONF(.model = plain, .kept_conversation = "conv_1"), "kept_conversation");
    cay_run_result_free(run(&b, "go", CONF(.model = plain, .chain = true)));
    assert_null(p.previous[0]);
    cay_model_free(plain);
}

static int trips(void *arg, cay_run *r, const char *text, char **info, cay_err *err)
{
    (void)r;
    (void)err;
    if (!strstr(text, arg))
        return 0;
    *info = cay__strdup("{\"found\":1}");
    return 1;
}

static void guards_stop_what_they_find(void **state)
{
    (void)state;
    const cay_guard in[] = { { .name = "in", .check = trips, .arg = "bomb" } },
                    out[] = { { .name = "out", .check = trips, .arg = "secret" } };
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .input_guards = in,
                    .ninput_guards = 1,
                    .output_guards = out,
                    .noutput_guards = 1 };
    cay_err e = fails(&a, "make a bomb", PLAIN, "guardrail_input");
    assert_string_equal(e.detail, "{\"found\":1}");
    assert_int_equal(p.at, 0); /* the model never heard of it */
    p.say[0] = TEXT("a secret");
    fails(&a, "go", PLAIN, "guardrail_output");
    p.say[1] = TEXT("fine");
    cay_run_result_free(run(&a, "go", PLAIN));
}

/* Waits until *what is true or its call is canceled; how it ended. */
static int wait_for(const atomic_bool *what, const cay_call *call)
{
    for (int i = 0; i < 20000 && !*what; i++) {
        struct pollfd f = { .fd = call && call->cancel_fd ? call->cancel_fd : -1,
                            .events = POLLIN };
        if (poll(&f, 1, 1) > 0)
            return CAY_ECANCELED;
    }
    return *what ? 0 : CAY_ETIMEOUT;
}

static atomic_bool asked, passed, stopped, never;
static int cancel[2];

static int slow_ask(void *self, const cay_call *call, const cay_model_request *q,
                    cay_model_reply *out, cay_err *err)
{
    asked = true;
    if (!self)
        return play_ask(&p, call, q, out, err);
    if (!strcmp(self, "canceled"))
        assert_int_equal(write(cancel[1], "x", 1), 1);
    int rc = !strcmp(self, "fails") ? CAY_EUPSTREAM : wait_for(&never, call);
    stopped = rc == CAY_ECANCELED;
    return cay_fail_why(err, rc, "model_said", "no answer");
}
static const cay_model_ops slow_ops = { .size = sizeof slow_ops, .name = "slow", .ask = slow_ask };

static int looks_beside(void *arg, cay_run *r, const char *text, char **info, cay_err *err)
{
    assert_string_equal(cay_run_agent(r)->name, "A");
    int rc = wait_for(arg, cay_run_call(r)); /* it would wait in vain were the model asked later */
    if (rc < 0)
        return cay_fail(err, rc, "it was not to be");
    passed = !strstr(text, "bomb");
    if (!passed)
        *info = cay__strdup("{\"beside\":1}");
    return !passed;
}

static int after_it(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    assert_true(passed); /* no tool before the guard has had its say */
    return add(arg, call, out, err);
}

static cay_err slow_run(cay_agent *a, const char *how, const char *input, int cancel_fd, int want)
{
    cay_model *slow = cay_model_new(&slow_ops, (void *)how, "slow");
    cay_run_config conf = { .size = sizeof conf, .model = slow };
    cay_call call = { .size = sizeof call, .cancel_fd = cancel_fd };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    asked = passed = stopped = false;
    assert_int_equal(cay_agent_run(a, &call, input, &conf, &r, &err), want);
    cay_run_result_free(r);
    cay_model_free(slow);
    return err;
}

static void guards_run_beside_the_model(void **state)
{
    (void)state;
    const cay_tool tool = { .size = sizeof tool, .name = "add", .call = after_it };
    const cay_tool *const tools[] = { &tool };
    const cay_guard beside[] = {
        { .name = "b1", .check = looks_beside, .arg = &asked, .beside = true },
        { .name = "b2", .check = looks_beside, .arg = &asked, .beside = true },
        { .name = "first", .check = trips, .arg = "arson" }
    };
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .tools = tools,
                    .ntools = 1,
                    .input_guards = beside,
                    .ninput_guards = 3 };
    p.say[0] = CALL("c1", "add", "{}");
    p.say[1] = TEXT("done");
    slow_run(&a, NULL, "fine", 0, 0);
    assert_int_equal(calls, 1);

    cay_err err = slow_run(&a, "waits", "a bomb", 0,
                           CAY_EPERM); /* tripped: the request that would last is ended */
    assert_string_equal(err.reason, "guardrail_input");
    assert_string_equal(err.detail, "{\"beside\":1}");
    assert_true(stopped);

    slow_run(&a, "waits", "arson", 0,
             CAY_EPERM); /* the one that is not beside comes before everything */
    assert_false(asked);

    const cay_guard patient = {
        .name = "patient", .check = looks_beside, .arg = &never, .beside = true
    };
    a.input_guards = &patient;
    a.ninput_guards = 1;
    err = slow_run(&a, "fails", "fine", 0,
                   CAY_EUPSTREAM); /* the model fails: nobody waits for the guard */
    assert_string_equal(err.reason, "model_said");

    assert_int_equal(pipe(cancel), 0);
    slow_run(&a, "canceled", "fine", cancel[0],
             CAY_ECANCELED); /* the caller's own cancel reaches both */
    assert_true(stopped);
    close(cancel[0]);
    close(cancel[1]);
}

static char seen[2048];
static void note(const char *what)
{
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s ", what);
}
static void on_start(void *arg, cay_run *r)
{
    note(arg);
    note(cay_run_agent(r)->name);
}
static void on_end(void *arg, cay_run *r, const char *o)
{
    (void)arg;
    (void)r;
    note(o);
}
static void on_tool(void *arg, cay_run *r, const cay_tool_call *c)
{
    (void)arg;
    (void)r;
    note(c->tool);
}
static int on_event(void *arg, const cay_run_event *ev)
{
    if (ev->kind == CAY_RUN_ITEM)
        note(ev->name);
    return arg && !strcmp(ev->name, arg) ? -1 : 0;
}

static void hooks_and_events_tell_in_order(void **state)
{
    (void)state;
    const cay_hooks h = {
        .arg = "start", .agent_start = on_start, .agent_end = on_end, .tool_start = on_tool
    };
    cay_agent a = { .size = sizeof a, .name = "A", .tools = all_tools, .ntools = 2, .hooks = &h };
    seen[0] = 0;
    p.say[0] = CALL("c1", "add", "{\\\"a\\\":1}");
    p.say[1] = TEXT("end");
    cay_run_result_free(run(&a, "go", CONF(.on_event = on_event)));
    assert_string_equal(seen, "start A tool_called add tool_output message_output_created end ");
}

static void an_event_may_cancel(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .tools = all_tools, .ntools = 2 };
    p.say[0] = CALL("c1", "add", "{\\\"a\\\":1}");
    fails(&a, "go", CONF(.on_event = on_event, .event_arg = "tool_called"), "canceled");
    assert_int_equal(calls, 0);
}

static void a_conversation_goes_on(void **state)
{
    (void)state;
    char dir[] = "/tmp/cay-test-runner-XXXXXX", path[64];
    cay_agent a = { .size = sizeof a, .name = "A" };
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/c.db", dir);
    for (int kind = 0; kind < 2; kind++) {
        cay_conversation *c = kind ? NULL : cay_conversation_memory("x");
        cay_err err = CAY_ERR_INIT;
        if (kind && cay_conversation_sqlite(path, "x", &c, &err) < 0)
            fail_msg("%s", err.msg);
        play_clear(&p);
        p.say[0] = TEXT("I am Bob");
        p.say[1] = TEXT("Bob, as I said");
        cay_run_result_free(run(&a, "who?", CONF(.conversation = c)));
        if (kind) {
            cay_conversation_free(c);
            assert_int_equal(cay_conversation_sqlite(path, "x", &c, NULL), 0);
        }
        cay_run_result_free(run(&a, "again?", CONF(.conversation = c)));
        has(p.input[1], "who?");
        has(p.input[1], "I am Bob");
        has(p.input[1], "again?");
        assert_int_equal(cay_conversation_clear(c, NULL), 0);
        char *items = NULL;
        assert_int_equal(cay_conversation_items(c, &items, NULL), 0);
        assert_string_equal(items, "[]");
        free(items);
        cay_conversation_free(c);
    }
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
    unlink(path);
    rmdir(dir);
}

static int fill_in(cay_run *run, const cay_agent *agent, char **json, cay_err *err)
{
    assert_string_equal(agent->name, "A");
    if (cay_run_context(run))
        return cay_fail(err, CAY_EINVAL, "nobody knows who it is");
    return asprintf(json, "{\"id\":\"pmpt_1\",\"variables\":{\"used\":\"%llu\"}}",
                    (unsigned long long)cay_run_usage(run).requests) > 0
               ? 0
               : -1;
}

static void a_prompts_variables_are_made_for_each_turn(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a,
                    .name = "A",
                    .tools = all_tools,
                    .ntools = 2,
                    .prompt = "{\"id\":\"other\"}",
                    .prompting = fill_in };
    p.say[0] = CALL("c1", "add", "{\\\"a\\\": 1}");
    p.say[1] = TEXT("done");
    cay_run_result_free(run(&a, "go", PLAIN));
    assert_string_equal(p.prompt[0], "{\"id\":\"pmpt_1\",\"variables\":{\"used\":\"0\"}}");
    assert_string_equal(p.prompt[1], "{\"id\":\"pmpt_1\",\"variables\":{\"used\":\"1\"}}");
    play_clear(&p);
    has(fails(&a, "go", CONF(.context = &a), "").msg, "nobody knows");
}

static void errors_have_the_names_of_the_sdk(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *reason, *op, *name, *alias, *word;
        int retry;
        const char *is, *is_not;
    } cases[] = {
        { CAY_ENOENT, "", "read", "WorkspaceReadNotFoundError", "WorkspaceReadNotFound",
          "workspace_read_not_found", CAY_RETRY_NO, "WorkspaceIOError", "ExecFailureError" },
        { CAY_ETIMEOUT, "", "exec", "ExecTimeoutError", "ExecTimeout", "exec_timeout", CAY_RETRY_NO,
          "ExecFailureError", "WorkspaceIOError" },
        { CAY_EBUSY, "", "exec", "ExecTransportError", "ExecTransport", "exec_transport_error",
          CAY_RETRY_YES, "SandboxRuntimeError", "ConfigurationError" },
        { CAY_ETYPE, "", "write", "WorkspaceWriteTypeError", "WorkspaceWriteType",
          "workspace_write_type_error", CAY_RETRY_NO, "WorkspaceWriteType", "SnapshotError" },
        { CAY_ENOENT, "apply_patch_file_not_found", "exec", "ApplyPatchFileNotFoundError",
          "ApplyPatchFileNotFound", "apply_patch_file_not_found", CAY_RETRY_NO, "WorkspaceIOError",
          "ApplyPatchError" },
        { CAY_EINVAL, "apply_patch_invalid_diff", NULL, "ApplyPatchDiffError", "ApplyPatchDiff",
          "apply_patch_invalid_diff", CAY_RETRY_NO, "ConfigurationError", "WorkspaceIOError" },
        { CAY_EINVAL, "archive_format", "hydrate_workspace", "InvalidCompressionSchemeError",
          "InvalidCompressionScheme", "invalid_compression_scheme", CAY_RETRY_NO,
          "ConfigurationError", "ArtifactError" },
        { CAY_ENOENT, "git_missing_in_image", "start", "GitMissingInImageError",
          "GitMissingInImage", "git_missing_in_image", CAY_RETRY_NO, "ArtifactError",
          "LocalArtifactError" },
        { CAY_EUPSTREAM, "fetch_digest", NULL, "LocalChecksumError", "LocalChecksum",
          "local_checksum_error", CAY_RETRY_NO, "LocalArtifactError", "GitArtifactError" },
        { CAY_ENOENT, "", "snapshot_restore", "SnapshotNotRestorableError", "SnapshotNotRestorable",
          "snapshot_not_restorable", CAY_RETRY_NO, "SnapshotError", "ArtifactError" },
        { CAY_ETOOBIG, "max_turns", NULL, "MaxTurnsExceededError", "MaxTurnsExceeded",
          "max_turns_exceeded", CAY_RETRY_NO, "AgentsError", "SandboxError" },
        { CAY_EPERM, "guardrail_input", NULL, "InputGuardrailTripwireTriggered",
          "InputGuardrailTripwireTriggered", "guardrail_input", CAY_RETRY_NO, "AgentsError",
          "UserError" },
        { CAY_ETIMEOUT, "tool_failed", NULL, "ToolTimeoutError", "ToolTimeout", "tool_timeout",
          CAY_RETRY_NO, "ToolCallError", "SandboxError" },
        { CAY_EINVAL, "", NULL, "ConfigurationError", "Configuration", "sandbox_config_invalid",
          CAY_RETRY_NO, "SandboxError", "SandboxRuntimeError" },
        { CAY_ENOTSUP, "", NULL, "SandboxUnsupportedFeatureError", "SandboxUnsupportedFeature",
          "unsupported_feature", CAY_RETRY_NO, "SandboxError", "AgentsError" },
        { CAY_EGONE, "", NULL, "SandboxLifecycleError", "SandboxLifecycle", "lifecycle_error", 0,
          "SandboxError", "SandboxRuntimeError" },
        { CAY_ESYS, "", "nosuch", "SandboxRuntimeError", "SandboxRuntime", "runtime_error", 0,
          "SandboxRuntimeError", "nosuch" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay_err err = CAY_ERR_INIT;
        cay_fail_why(&err, cases[i].code, cases[i].reason, "it failed");
        cay_sdk_error e = cay_sdk_error_of(&err, cases[i].op);
        assert_string_equal(e.name, cases[i].name);
        assert_string_equal(e.alias, cases[i].alias);
        assert_string_equal(e.code, cases[i].word);
        assert_int_equal(e.retry, cases[i].retry ? cases[i].retry : err.retry);
        assert_true(cay_sdk_error_is(&e, cases[i].is) && cay_sdk_error_is(&e, cases[i].name));
        assert_false(cay_sdk_error_is(&e, cases[i].is_not));
    }
}

static void what_is_asked_wrongly_is_told(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A" },
              boxed = { .size = sizeof boxed, .name = "B", .sandbox = true };
    const cay_tool twice[] = { { .size = sizeof *twice, .name = "x", .call = add },
                               { .size = sizeof *twice, .name = "x", .call = add } };
    const cay_tool odd = { .size = sizeof odd, .name = "a b", .call = add },
                   unsized = { .name = "x", .call = add };
    const cay_tool *const both[] = { &twice[0], &twice[1] }, *const one[] = { &odd },
                          *const no_size[] = { &unsized };
    cay_agent t = { .size = sizeof t, .name = "T", .tools = both, .ntools = 2 },
              o = { .size = sizeof o, .name = "O", .tools = one, .ntools = 1 };
    fails(&a, "", PLAIN, "");
    fails(&a, "[]", PLAIN, "");
    fails(&a, "[1]", PLAIN, "");
    has(fails(&t, "go", PLAIN, "").msg, "two tools named x");
    has(fails(&o, "go", PLAIN, "").msg, "\"a b\"");
    o.tools = no_size;
    has(fails(&o, "go", PLAIN, "spec_size").msg, "cay_tool.size is 0");
    fails(&boxed, "go", PLAIN, "sandbox_config_invalid");
    cay_run_config none = { .size = sizeof none };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_agent_run(&a, NULL, "go", &none, &r, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "model_missing");
    none = (cay_run_config){ .model = model };
    assert_int_equal(cay_agent_run(&a, NULL, "go", &none, &r, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "spec_size");
    has(err.msg, "cay_run_config.size is 0; set it to sizeof(cay_run_config)");
    cay_agent bare = { .name = "A" }, old = { .size = offsetof(cay_agent, busy_), .name = "A" };
    has(fails(&bare, "go", PLAIN, "spec_size").msg, "cay_agent.size is 0");
    fails(&old, "go", PLAIN, "spec_size");
    struct {
        cay_agent a;
        int field;
    } newer = { .a = { .size = sizeof newer, .name = "A" }, .field = 1 };
    fails(&newer.a, "go", PLAIN, "spec_newer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(a_tool_is_called_and_its_answer_seen),
        T(mistakes_of_the_model_go_back_to_it),
        T(answers_that_cannot_be_used_end_the_run),
        T(a_schema_has_only_so_many_steps),
        T(a_tool_that_raises_ends_the_run),
        T(turns_have_a_limit),
        T(outputs_fit_their_schema),
        T(a_required_tool_is_required_once),
        T(a_tool_may_have_the_last_word),
        T(a_run_waits_and_goes_on),
        T(what_is_not_decided_still_waits),
        T(a_state_that_was_tampered_with_is_refused),
        T(somebody_may_decide_at_once),
        T(work_is_handed_over),
        T(an_agent_is_a_tool),
        T(an_agent_as_a_tool_waits_with_its_caller),
        T(tools_run_beside_each_other),
        T(tools_have_guards),
        T(a_handoff_tells_why_and_shows_what_it_wants),
        T(a_chain_sends_what_is_new),
        T(a_saved_run_sends_what_is_new),
        T(a_conversation_may_be_the_endpoints),
        T(what_an_endpoint_lacks_is_told),
        T(guards_stop_what_they_find),
        T(guards_run_beside_the_model),
        T(hooks_and_events_tell_in_order),
        T(an_event_may_cancel),
        T(a_conversation_goes_on),
        T(what_is_asked_wrongly_is_told),
        T(a_prompts_variables_are_made_for_each_turn),
        T(errors_have_the_names_of_the_sdk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
