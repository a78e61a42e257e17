/* SPDX-License-Identifier: Apache-2.0 */
/* test_mcp_asks PEER: what MCP servers ask for while they work: the model, the user, roots; over
 * streams and over HTTP. */
#include "peer.h"
#include "play.h"

static play p;
static cay_model *model;
static char program[4096], url[100], asked_for[400], elicited[400];
static cay_verdict verdict;
static int elicits;
static size_t calls = 1; /* of the tool, each with room for 32 answers */
static uint64_t tokens;  /* of each answer */
static const char *filled;

static int open_all(void **state)
{
    assert_int_equal(start_peer(state), 0);
    snprintf(program, sizeof program, "%.4000s", peer);
    memcpy(strstr(program, "modelpeer"), "mcpserver", 9);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/curious/", port);
    return 0;
}

static cay_verdict on_sample(void *arg, const char *server, const char *request, char **message)
{
    (void)arg;
    snprintf(asked_for, sizeof asked_for, "%s: %s", server, request);
    if (verdict == CAY_REJECT)
        *message = cay__strdup("too dear");
    return verdict;
}

static int on_elicit(void *arg, const char *server, const char *message, const char *schema,
                     char **content)
{
    (void)arg;
    has(schema, "colour");
    snprintf(elicited, sizeof elicited, "%s: %s", server, message);
    if (filled)
        *content = cay__strdup(filled);
    return elicits;
}

/* The text that the server made of our answers. */
static char *asks(cay_mcp_spec spec, cay_mcp_callbacks *a, const char *arguments,
                  uint64_t *requests)
{
    cay_mcp *m = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_run_result *r = NULL;
    char call[3][300];
    spec.size = sizeof spec;
    spec.name = "curious";
    spec.asks = a;
    play_clear(&p);
    model = play_model(&p, "play-1");
    if (a)
        a->model = a->sample ? model : NULL;
    if (cay_mcp_open(&spec, NULL, &m, &err) < 0)
        fail_msg("%s", err.msg);
    cay_agent agent = { .size = sizeof agent, .name = "A" };
    agent.tools = cay_mcp_tools(m, &agent.ntools);
    assert_int_equal(agent.ntools, 1);
    p.tokens = tokens;
    for (size_t i = 0; i < PLAY_MAX; i++)
        p.say[i] = TEXT("Paris");
    for (size_t i = 0; i < calls; i++) {
        snprintf(call[i], sizeof call[i],
                 "[{\"type\":\"function_call\",\"call_id\":\"c%zu\",\"name\":\"curious\","
                 "\"arguments\":\"%s\"}]",
                 i, arguments);
        p.say[i * 33] = call[i];
    }
    cay_run_config conf = { .size = sizeof conf, .model = model, .trace = true };
    if (cay_agent_run(&agent, NULL, "go", &conf, &r, &err) < 0)
        fail_msg("%s (%s)", err.msg, err.reason);
    CAY_AUTOJSON *items = json_loads(r->items, 0, NULL);
    char *text = cay__strdup(cay__json_str(json_array_get(items, 2 * calls - 1), "output", ""));
    has(r->trace, "\"mcp_tools\"");
    *requests = r->usage.requests;
    cay_run_result_free(r);
    cay_mcp_close(m);
    cay_model_free(model);
    return text;
}

static void answered(cay_mcp_spec spec)
{
    uint64_t n = 0;
    static const char *const roots[] = { "file:///data", NULL };
    cay_mcp_callbacks a = {
        .size = sizeof a, .sample = on_sample, .elicit = on_elicit, .roots = roots
    };
    verdict = CAY_APPROVE;
    elicits = 1;
    filled = "{\"colour\": \"red\", \"size\": 3}";
    CAY_AUTOFREE char *good = asks(spec, &a, "{}", &n);
    assert_string_equal(good,
                        "Paris by play-1 | {\"action\": \"accept\", \"content\": {\"colour\": "
                        "\"red\", \"size\": 3}} | -32602 | [{\"uri\": \"file:///data\"}]");
    assert_int_equal(n, 3); /* two turns, and what the server asked in between */
    has(p.input[1], "capital of France?");
    assert_string_equal(p.instructions[1], "be brief");
    has(asked_for, "curious: {");
    has(asked_for, "\"maxTokens\":7");
    assert_string_equal(elicited, "curious: which colour?");

    verdict = CAY_REJECT;
    filled = "{\"colour\": \"green\"}"; /* not what was asked for */
    CAY_AUTOFREE char *no = asks(spec, &a, "{}", &n);
    assert_string_equal(
        no, "-1 too dear | {\"action\": \"cancel\"} | -32602 | [{\"uri\": \"file:///data\"}]");
    assert_int_equal(n, 2);
    elicits = 0;
    CAY_AUTOFREE char *declined = asks(spec, &a, "{}", &n);
    has(declined, "{\"action\": \"decline\"}");
    elicits = -1;
    CAY_AUTOFREE char *canceled = asks(spec, &a, "{}", &n);
    has(canceled, "{\"action\": \"cancel\"}");

    CAY_AUTOFREE char *nobody = asks(spec, NULL, "{}", &n); /* nobody offers anything */
    has(nobody, "-32601 sampling is not offered");
    has(nobody, "elicitation is not offered");
    has(nobody, "| []");
}

static void a_program_is_answered(void **state)
{
    (void)state;
    const char *const argv[] = { program, "curious", NULL };
    answered((cay_mcp_spec){ .argv = argv, .host = true });
}

static void an_address_is_answered(void **state)
{
    (void)state;
    answered((cay_mcp_spec){ .url = url });
}

static void who_asks_for_ever_is_refused(void **state)
{
    (void)state;
    const char *const argv[] = { program, "curious", NULL };
    cay_mcp_spec spec = { .argv = argv, .host = true };
    cay_mcp_callbacks a = { .size = sizeof a, .sample = on_sample };
    uint64_t n = 0;
    verdict = CAY_APPROVE_ALWAYS;
    CAY_AUTOFREE char *text = asks(spec, &a, "{\\\"times\\\": 33}", &n);
    assert_int_equal(n, 2 + 32);
    has(text, "-1 you ask too much");
}

/* However often its tool is called, and whoever approves. */
static void servers_have_a_share_of_the_model(void **state)
{
    (void)state;
    const char *const argv[] = { program, "curious", NULL };
    cay_mcp_spec spec = { .argv = argv, .host = true };
    cay_mcp_callbacks a = { .size = sizeof a, .sample = on_sample };
    uint64_t n = 0;
    verdict = CAY_APPROVE_ALWAYS;
    calls = 3;
    CAY_AUTOFREE char *often = asks(spec, &a, "{\\\"times\\\": 32}", &n);
    assert_int_equal(n, 4 + 64);
    has(often, "-1 the servers of this run have had their share of the model: 64 answers, or "
               "200000 output tokens | ");
    has_not(often, "Paris");
    calls = 1;
    tokens = 99998;
    CAY_AUTOFREE char *much = asks(spec, &a, "{\\\"times\\\": 4}", &n);
    tokens = 0;
    assert_int_equal(n, 2 + 3); /* the third has the last four tokens, and takes more */
    assert_int_equal(p.most[2], 7);
    assert_int_equal(p.most[3], 4);
    has(much, "Paris by play-1 | -1 the servers of this run have had their share");
}

int main(int argc, char **argv)
{
    peer = argc > 1 ? argv[1] : "tests/support/modelpeer";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_answered),
        cmocka_unit_test(an_address_is_answered),
        cmocka_unit_test(who_asks_for_ever_is_refused),
        cmocka_unit_test(servers_have_a_share_of_the_model),
    };
    return cmocka_run_group_tests(tests, open_all, stop_peer);
}
