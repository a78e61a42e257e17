/* SPDX-License-Identifier: Apache-2.0 */
/* test_hosted: tools that the endpoint runs: what it is sent, what is kept of what they did, and
 * approvals of its MCP servers. */
#include "play.h"
#include <cay/audit_sink.h>

static play p;
static cay_model *model;
static int asked, calls;
static char events[2000], written[4000];

static int set_up(void **state)
{
    (void)state;
    model = play_model(&p, "gpt-5.5");
    asked = calls = 0;
    *events = *written = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cay_model_free(model);
    play_clear(&p);
    return 0;
}

#define WEB                                                                                        \
    "{\"type\":\"web_search_call\",\"id\":\"ws_1\",\"status\":\"completed\",\"action\":{\"type\":" \
    "\"search\",\"query\":\"tides\"}}"
#define LIST                                                                                       \
    "{\"type\":\"mcp_list_tools\",\"id\":\"mcpl_1\",\"server_label\":\"tides\",\"tools\":[]}"
#define ASKS(id, name)                                                                             \
    "{\"type\":\"mcp_approval_request\",\"id\":\"" id                                              \
    "\",\"server_label\":\"tides\",\"name\":\"" name "\",\"arguments\":\"{\\\"day\\\":1}\"}"
#define DONE                                                                                       \
    "{\"type\":\"mcp_call\",\"id\":\"mcp_1\",\"server_label\":\"tides\",\"name\":\"table\","       \
    "\"arguments\":\"{}\",\"output\":\"7:00\",\"error\":null}"

static const cay_tool web = { .size = sizeof web,
                              .hosted =
                                  "{\"type\":\"web_search\",\"search_context_size\":\"low\"}" };
static const cay_tool mcp = {
    .size = sizeof mcp,
    .hosted =
        "{\"type\":\"mcp\",\"server_label\":\"tides\",\"server_url\":\"https://tides.example/mcp\"}"
};
static const cay_tool *const tools[] = { &web, &mcp };
static cay_agent pilot = { .size = sizeof pilot, .name = "Pilot", .tools = tools, .ntools = 2 };

static int on_event(void *arg, const cay_run_event *ev)
{
    (void)arg;
    if (ev->kind == CAY_RUN_ITEM)
        snprintf(events + strlen(events), sizeof events - strlen(events), "%s ", ev->name);
    return 0;
}

static cay_verdict yes(void *arg, const cay_tool_call *call, char **message)
{
    (void)message;
    asked++;
    assert_string_equal(call->tool, "tides.table");
    assert_string_equal(call->arguments, "{\"day\":1}");
    return arg ? CAY_APPROVE_ALWAYS : CAY_APPROVE;
}

static int run(cay_agent *a, cay_run_config conf, cay_run_result **r, cay_err *err)
{
    conf.size = sizeof conf;
    conf.model = model;
    conf.on_event = on_event;
    return cay_agent_run(a, NULL, conf.state ? NULL : "when is high tide?", &conf, r, err);
}

static void definitions_and_items_pass_as_they_are(void **state)
{
    (void)state;
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    p.say[0] = "[" WEB "," LIST "]"; /* no word yet: it goes on */
    p.say[1] = "[" DONE ",{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
               "\"output_text\",\"text\":\"At seven.\"}]}]";
    assert_int_equal(run(&pilot, (cay_run_config){ 0 }, &r, &err), 0);
    assert_string_equal(r->output, "At seven.");
    assert_string_equal(
        p.tools[0], "[{\"type\":\"web_search\",\"search_context_size\":\"low\"},{\"type\":\"mcp\","
                    "\"server_label\":\"tides\",\"server_url\":\"https://tides.example/mcp\"}]");
    has(p.input[1], WEB);
    has(p.input[1], LIST);
    has(r->history, DONE);
    assert_string_equal(events, "tool_called mcp_list_tools tool_called message_output_created ");
    cay_run_result_free(r);
}

static void an_mcp_server_is_approved_at_once(void **state)
{
    (void)state;
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    p.say[0] = "[" ASKS("mcpr_1", "table") "]";
    p.say[1] = "[" ASKS("mcpr_2", "table") "]"; /* decided for good */
    p.say[2] = TEXT("At seven.");
    assert_int_equal(
        run(&pilot, (cay_run_config){ .approve = yes, .approve_arg = &asked }, &r, &err), 0);
    assert_int_equal(asked, 1);
    has(p.input[1],
        "{\"type\":\"mcp_approval_response\",\"approval_request_id\":\"mcpr_1\",\"approve\":true}");
    has(p.input[2],
        "{\"type\":\"mcp_approval_response\",\"approval_request_id\":\"mcpr_2\",\"approve\":true}");
    assert_string_equal(events,
                        "mcp_approval_requested mcp_approval_response mcp_approval_requested "
                        "mcp_approval_response message_output_created ");
    cay_run_result_free(r);
}

static int never(void *arg, const cay_tool_call *call, cay_tool_output *out, cay_err *err)
{
    (void)arg, (void)call, (void)out, (void)err;
    calls++;
    return 0;
}

/* A tool of ours, and a handoff, of the same name as one of the server's: neither is touched, and a
 * yes to one is none to the other. */
static void names_of_servers_are_their_own(void **state)
{
    (void)state;
    static const cay_tool own = {
        .size = sizeof own, .name = "table", .call = never, .approval = true
    };
    const cay_tool *const both[] = { &mcp, &own };
    cay_agent other = { .size = sizeof other, .name = "Other" };
    cay_handoff to = { .agent = &other, .tool = "handed" };
    cay_agent a = {
        .size = sizeof a, .name = "A", .tools = both, .ntools = 2, .handoffs = &to, .nhandoffs = 1
    };
    cay_run_result *r = NULL;
    cay_state_doc *d = NULL;
    cay_err err = CAY_ERR_INIT;
    p.say[0] = "[" ASKS("mcpr_1", "handed") "," ASKS("mcpr_2", "table") "," CALL_ITEM("c1", "table",
                                                                                      "{}") "]";
    assert_int_equal(run(&a, (cay_run_config){ 0 }, &r, &err), 0);
    assert_int_equal(r->ninterruptions, 3);
    assert_string_equal(r->interruptions[0].tool, "tides.handed");
    assert_string_equal(r->interruptions[1].tool, "tides.table");
    assert_string_equal(r->interruptions[2].tool, "table");
    assert_int_equal(cay_state_open(r->state, &d, &err), 0);
    cay_run_result_free(r);
    assert_int_equal(cay_state_approve(d, "mcpr_2", true, &err), 0);
    assert_int_equal(cay_state_reject(d, "mcpr_1", false, "not that one", &err), 0);
    CAY_AUTOFREE char *text = cay_state_text(d);
    cay_state_close(d);
    p.say[1] = TEXT("never asked for");
    assert_int_equal(run(&a, (cay_run_config){ .state = text }, &r, &err), 0);
    assert_int_equal(r->ninterruptions, 1);
    assert_string_equal(r->interruptions[0].call_id, "c1");
    assert_int_equal(calls, 0);
    has(r->items,
        "\"approval_request_id\":\"mcpr_1\",\"approve\":false,\"reason\":\"not that one\"");
    has(r->items, "\"approval_request_id\":\"mcpr_2\",\"approve\":true");
    assert_string_equal(r->agent, "A");
    cay_run_result_free(r);
}

static void a_state_with_a_request_that_was_not_made_is_refused(void **state)
{
    (void)state;
    cay_run_result *r = NULL;
    cay_state_doc *d = NULL;
    cay_err err = CAY_ERR_INIT;
    p.say[0] = "[" ASKS("mcpr_1", "table") "]";
    assert_int_equal(run(&pilot, (cay_run_config){ 0 }, &r, &err), 0);
    CAY_AUTOJSON *st = json_loads(r->state, 0, NULL);
    cay_run_result_free(r);
    json_t *wait = json_array_get(json_object_get(st, "interruptions"), 0),
           *made = json_array_get(json_object_get(st, "generated_items"), 0);
    assert_non_null(made);
    json_object_set_new(wait, "name",
                        json_string("erase")); /* another tool than the one that was asked for */
    CAY_AUTOFREE char *other = cay__json_text(st, 1 << 20);
    assert_int_equal(cay_state_open(other, &d, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "run_state");
    json_object_set_new(wait, "name", json_string("table"));
    json_array_append_new(json_object_get(st, "generated_items"),
                          json_pack("{s:s, s:s, s:b}", "type", "mcp_approval_response",
                                    "approval_request_id", "mcpr_1", "approve", 0));
    CAY_AUTOFREE char *answered = cay__json_text(st, 1 << 20);
    assert_int_equal(cay_state_open(answered, &d, &err), CAY_EINVAL);
    has(err.msg, "answered already");
    p.say[1] = "[" ASKS("mcpr_1", "table") "," ASKS("mcpr_1", "table") "]";
    assert_int_equal(run(&pilot, (cay_run_config){ 0 }, &r, &err),
                     CAY_EUPSTREAM); /* two by one id */
    assert_string_equal(err.reason, "model_behavior");
}

static void an_endpoint_without_them_is_named(void **state)
{
    (void)state;
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_model_free(model);
    p.functions = true;
    model = play_model(&p, "qwen3");
    assert_int_equal(run(&pilot, (cay_run_config){ 0 }, &r, &err), CAY_ENOTSUP);
    assert_string_equal(err.reason, "hosted_tool");
    has(err.msg, "web_search");
    assert_int_equal(p.at, 0);
}

static void definitions_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "web_search", "JSON" },
        { "[]", "JSON" },
        { "{}", "\"type\"" },
        { "{\"type\":7}", "\"type\"" },
        { "{\"type\":\"file_search\"}", "vector_store_ids" },
        { "{\"type\":\"code_interpreter\"}", "container" },
        { "{\"type\":\"mcp\",\"server_url\":\"x\"}", "server_label" },
        { "{\"type\":\"function\",\"name\":\"f\"}", "called here" },
        { "{\"type\":\"local_shell\"}", "cay_cap_shell()" },
        { "{\"type\":\"shell\"}", "cay_cap_shell()" },
        { "{\"type\":\"shell\",\"environment\":{\"type\":\"local\"}}", "cay_cap_shell()" },
        { "{\"type\":\"apply_patch\"}", "cay_cap_filesystem()" },
        { "{\"type\":\"computer_use_preview\"}", "cay_cap_browser()" },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_tool t = { .size = sizeof t, .hosted = rows[i].text };
        const cay_tool *const list[] = { &t };
        cay_agent a = { .size = sizeof a, .name = "A", .tools = list, .ntools = 1 };
        cay_run_result *r = NULL;
        cay_err err = CAY_ERR_INIT;
        assert_int_equal(run(&a, (cay_run_config){ 0 }, &r, &err), CAY_EINVAL);
        has(err.msg, rows[i].why);
    }
    assert_int_equal(p.at, 0);
}

static int sink(void *self, const char *json, cay_err *err)
{
    (void)self, (void)err;
    snprintf(written + strlen(written), sizeof written - strlen(written), "%s\n", json);
    return 0;
}

static void what_they_did_is_written_down(void **state)
{
    (void)state;
    static const cay_audit_sink_ops ops = { .size = sizeof ops, .write = sink };
    cay_audit_sink *l = cay_audit_sink_new(&ops, NULL, true);
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    p.say[0] = "[" WEB "," ASKS("mcpr_1", "table") "]";
    p.say[1] = "[{\"type\":\"mcp_call\",\"id\":\"mcp_1\",\"server_label\":\"tides\",\"name\":"
               "\"table\",\"arguments\":\"{}\",\"output\":null,\"error\":\"it is closed\"},"
               "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_"
               "text\",\"text\":\"Closed.\"}]}]";
    assert_int_equal(run(&pilot, (cay_run_config){ .approve = yes, .ledger = l }, &r, &err), 0);
    cay_run_result_free(r);
    cay_audit_sink_free(l);
    has(written, "\"tool\":\"web_search\",\"call_id\":\"ws_1\",\"hosted\":true,\"outcome\":\"ok\"");
    has(written, "\"tool\":\"tides.table\",\"call_id\":\"mcpr_1\",\"verdict\":\"approved\"");
    has(written,
        "\"tool\":\"tides.table\",\"call_id\":\"mcp_1\",\"hosted\":true,\"outcome\":\"failed\"");
    has_not(written, "it is closed");
    has_not(written, "tides of");
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(definitions_and_items_pass_as_they_are),
        T(an_mcp_server_is_approved_at_once),
        T(names_of_servers_are_their_own),
        T(a_state_with_a_request_that_was_not_made_is_refused),
        T(an_endpoint_without_them_is_named),
        T(definitions_that_cannot_be_are_refused),
        T(what_they_did_is_written_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
