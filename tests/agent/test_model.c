/* SPDX-License-Identifier: Apache-2.0 */
/* test_model PEER: models asked over HTTP, of a server that behaves and of one that does not. */
#include "peer.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/json.h>
#include <cay/cay.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <stdio.h>
#include <sys/wait.h>

static const char *const apis[] = { "responses", "chat" };

static cay_model *model_at(const char *scene, cay_model_open_spec s)
{
    char url[100];
    cay_model *m = NULL;
    cay_err err = CAY_ERR_INIT;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s/v1/", port, scene);
    s.size = sizeof s;
    s.model = "m1";
    s.base_url = url;
    if (!s.key)
        s.key = "env:TEST_KEY";
    if (cay_model_open(&s, &m, &err) < 0)
        fail_msg("%s", err.msg);
    return m;
}
#define SPEC(...)                                                                                  \
    (cay_model_open_spec)                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

#define INPUT "[{\"type\":\"message\",\"role\":\"user\",\"content\":\"hi \\u20ac\"}]"
static char deltas[4096];
static int retries;
static int on_event(const char *type, const char *data, void *arg)
{
    (void)arg;
    CAY_AUTOJSON *j = json_loads(data, 0, NULL);
    assert_non_null(j);
    if (!strcmp(type, "response.output_text.delta"))
        snprintf(deltas + strlen(deltas), sizeof deltas - strlen(deltas), "%s",
                 cay__json_str(j, "delta", ""));
    retries += !strcmp(type, "cay.retry");
    return 0;
}

static int ask(cay_model *m, cay_model_request q, cay_model_reply *r, cay_err *err)
{
    deltas[0] = 0;
    retries = 0;
    q.size = sizeof q;
    q.input = q.input ? q.input : INPUT;
    q.on_event = on_event;
    *r = (cay_model_reply){ .size = sizeof *r };
    return cay_model_ask(m, NULL, &q, r, err);
}

static void refused(const char *scene, cay_model_open_spec s, int code, const char *reason,
                    const char *part)
{
    for (size_t i = 0; i < CAY_LEN(apis); i++) {
        cay_model_reply r;
        cay_err err = CAY_ERR_INIT;
        s.api = apis[i];
        cay_model *m = model_at(scene, s);
        int rc = ask(m, (cay_model_request){ .instructions = "x" }, &r, &err);
        if (rc != code || strcmp(err.reason, reason) || (part && !strstr(err.msg, part)))
            fail_msg("%s by %s: %d %s: %s", scene, apis[i], rc, err.reason, err.msg);
        assert_null(strstr(err.msg, "sk-test"));
        assert_null(strchr(err.msg, 27));
        assert_null(r.output);
        cay_model_free(m);
    }
}

static void both_apis_answer_streamed_and_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        cay_model_reply r;
        cay_err err = CAY_ERR_INIT;
        cay_model *m = model_at("hello", SPEC(.api = apis[i / 2], .no_stream = i % 2));
        for (int twice = 0; twice < 2; twice++) {
            if (ask(m, (cay_model_request){ .instructions = "be kind" }, &r, &err) < 0)
                fail_msg("%s", err.msg);
            assert_non_null(strstr(r.output, "\"text\":\"hello, wörld €\""));
            assert_int_equal(r.usage.input, 100);
            assert_int_equal(r.usage.cached, 40);
            assert_int_equal(r.usage.reasoning, 2);
            assert_int_equal(r.usage.total, 107);
            assert_non_null(r.id);
            if (i % 2 == 0)
                assert_string_equal(deltas, "hello, wörld €");
            cay_model_reply_clear(&r);
        }
        cay_model_free(m);
    }
}

/* What servers do that are nearly compatible: tests/support/modelshapes.py says what. Two calls
 * stay two, in their order, each with an id of its own. */
static void compatible_servers_are_understood(void **state)
{
    (void)state;
    static const char *const servers[] = { "vllm", "llamacpp", "ollama", "litellm" };
    for (size_t i = 0; i < 2 * CAY_LEN(servers); i++) {
        cay_model_reply r;
        cay_err err = CAY_ERR_INIT;
        cay_model *m = model_at(servers[i / 2], SPEC(.api = "chat", .no_stream = i % 2));
        if (ask(m, (cay_model_request){ .instructions = "x" }, &r, &err) < 0)
            fail_msg("%s: %s", servers[i / 2], err.msg);
        CAY_AUTOJSON *items = json_loads(r.output, 0, NULL);
        const json_t *one = json_array_get(items, 2), *two = json_array_get(items, 3);
        if (json_array_size(items) != 4 || !strstr(r.output, "\"text\":\"two things\"") ||
            !strstr(r.output, "\"text\":\"Let me see.\""))
            fail_msg("%s: %s", servers[i / 2], r.output);
        assert_string_equal(cay__json_str(one, "name", ""), "exec_command");
        assert_string_equal(cay__json_str(two, "name", ""), "exec_command");
        assert_non_null(strstr(cay__json_str(one, "arguments", ""), "echo first"));
        assert_non_null(strstr(cay__json_str(two, "arguments", ""), "echo second"));
        assert_string_not_equal(cay__json_str(one, "call_id", ""),
                                cay__json_str(two, "call_id", ""));
        assert_int_equal(r.usage.input, 7);
        assert_int_equal(r.usage.total, 9);
        cay_model_reply_clear(&r);
        cay_model_free(m);
    }
}

static char *last_request(void)
{
    char path[300];
    static char text[1 << 20];
    snprintf(path, sizeof path, "%s/seen", dir);
    assert_true(cay__fd_read_file(AT_FDCWD, path, text, sizeof text) > 0);
    text[strlen(text) - 1] = 0;
    char *nl = strrchr(text, '\n');
    return nl ? nl + 1 : text;
}

static void requests_have_the_form_that_is_asked_for(void **state)
{
    (void)state;
    static const char *const headers[] = { "X-Team: blue", NULL };
    cay_model_settings set = { .size = sizeof set,
                               .has_temperature = true,
                               .temperature = 0.25,
                               .max_output_tokens = 77,
                               .tool_choice = "f",
                               .parallel = -1,
                               .reasoning = "low",
                               .extra = "{\"seed\":5}" };
    cay_model_request q = {
        .instructions = "be kind",
        .settings = &set,
        .output_schema = "{\"type\":\"object\"}",
        .output_strict = true,
        .conversation = "conv_1",
        .tools = "[{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\",\"parameters\":{"
                 "\"type\":\"object\"},\"strict\":false}]",
        .input =
            "[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":"
            "\"input_image\",\"image_url\":\"data:x\"}]},"
            "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{}\"},{"
            "\"type\":\"custom_tool_call\",\"call_id\":\"c2\",\"name\":\"g\",\"input\":\"t\"},"
            "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"o1\"},"
            "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c2\",\"output\":[{\"type\":"
            "\"input_image\",\"image_url\":\"data:y\"}]}]"
    };
    static const char *const want[2][13] = {
        { "\"auth\": \"Bearer sk-test-1234567890\"", "\"team\": \"blue\"",
          "\"instructions\": \"be kind\"", "\"temperature\": 0.25", "\"max_output_tokens\": 77",
          "\"tool_choice\": {\"type\": \"function\", \"name\": \"f\"}",
          "\"parallel_tool_calls\": false", "\"reasoning\": {\"effort\": \"low\"}", "\"seed\": 5",
          "\"name\": \"final_output\"", "\"store\": false",
          "\"include\": [\"reasoning.encrypted_content\"]", "\"conversation\": \"conv_1\"" },
        { "\"auth\": \"Bearer sk-test-1234567890\"",
          "{\"role\": \"system\", \"content\": \"be kind\"}", "\"max_tokens\": 77",
          "\"reasoning_effort\": \"low\"", "\"seed\": 5",
          "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}}",
          "\"image_url\": {\"url\": \"data:x\"}",
          "{\"role\": \"tool\", \"tool_call_id\": \"c1\", \"content\": \"o1\"}",
          "{\"url\": \"data:y\"}",
          "\"function\": {\"name\": \"g\", \"arguments\": \"{\\\"input\\\":\\\"t\\\"}\"}",
          "\"json_schema\": {\"name\": \"final_output\"", "\"include_usage\": true" },
    };
    for (size_t i = 0; i < 2; i++) {
        cay_model_reply r;
        cay_err err = CAY_ERR_INIT;
        cay_model *m = model_at("hello", SPEC(.api = apis[i], .headers = headers));
        if (ask(m, q, &r, &err) < 0)
            fail_msg("%s", err.msg);
        const char *sent = last_request();
        for (size_t k = 0; k < 13 && want[i][k]; k++)
            if (!strstr(sent, want[i][k]))
                fail_msg("%s lacks %s: %s", apis[i], want[i][k], sent);
        cay_model_reply_clear(&r);
        set.extra = "{\"model\":\"other\"}";
        assert_int_equal(ask(m, q, &r, &err), CAY_EINVAL);
        assert_string_equal(err.reason, "model_settings");
        set.extra = "{\"seed\":5}";
        cay_model_free(m);
    }
}

/* A list that the settings and we have both; a tool of the endpoint that has to be used; headers of
 * three places, and what may not be one. */
static void what_comes_from_several_places_is_one_request(void **state)
{
    (void)state;
    static const char *const headers[] = { "x-TEAM:env:TEST_TEAM", NULL };
    static const struct {
        const char *choice, *sent;
    } rows[] = { { "web_search", "\"tool_choice\": {\"type\": \"web_search\"}" },
                 { "tides", "\"tool_choice\": {\"type\": \"mcp\", \"server_label\": \"tides\"}" },
                 { "patch", "\"tool_choice\": {\"type\": \"custom\", \"name\": \"patch\"}" } };
    setenv("TEST_TEAM", "green-and-gold", 1);
    setenv("CAY_MODEL_HEADERS", "X-Other: 1\nX-Team: blue\n", 1);
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_model_settings set = {
            .size = sizeof set,
            .tool_choice = rows[i].choice,
            .reasoning = "low",
            .extra = "{\"include\":[\"web_search_call.action.sources\"],\"seed\":5}"
        };
        cay_model_request q = {
            .settings = &set,
            .input = "[{\"role\":\"user\",\"content\":\"a\"}]",
            .tools =
                "[{\"type\":\"web_search\"},{\"type\":\"mcp\",\"server_label\":\"tides\",\"server_"
                "url\":\"https://t.example\"},{\"type\":\"custom\",\"name\":\"patch\"}]"
        };
        cay_model_reply r;
        cay_err err = CAY_ERR_INIT;
        cay_model *m = model_at("hello", SPEC(.headers = i ? NULL : headers, .window = 4096 * i));
        assert_int_equal(cay_model_window(m), 4096 * i);
        if (ask(m, q, &r, &err) < 0)
            fail_msg("%s", err.msg);
        const char *sent = last_request();
        const char *const want[] = {
            rows[i].sent,
            "\"include\": [\"web_search_call.action.sources\", \"reasoning.encrypted_content\"]",
            "\"seed\": 5", i ? "\"team\": \"blue\"" : "\"team\": \"green-and-gold\""
        };
        for (size_t k = 0; k < CAY_LEN(want); k++)
            if (!strstr(sent, want[k]))
                fail_msg("it lacks %s: %s", want[k], sent);
        cay_model_reply_clear(&r);
        cay_model_free(m);
    }
    unsetenv("CAY_MODEL_HEADERS");
}

static void an_endpoint_tells_which_models_it_has(void **state)
{
    (void)state;
    static const struct {
        const char *scene, *reason;
        int code;
    } bad[] = { { "auth", "model_http", CAY_EAUTH },
                { "html", "model_answer", CAY_EUPSTREAM },
                { "storm", "model_http", CAY_EUPSTREAM },
                { "drop", "net_cut", CAY_EUPSTREAM } };
    char url[100], *names = NULL;
    cay_err err = CAY_ERR_INIT;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/hello/v1", port);
    cay_model_open_spec s = { .size = sizeof s, .base_url = url, .key = "none" };
    assert_int_equal(cay_model_list(&s, NULL, &names, &err), 0);
    assert_string_equal(names, "[\"gpt-5.5\",\"o9-\\u001b[31m\",\"gpt-5.5-mini\"]");
    free(names);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/list/v1", port); /* an empty one */
    assert_int_equal(cay_model_list(&s, NULL, &names, &err), 0);
    assert_string_equal(names, "[]");
    free(names);
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        snprintf(url, sizeof url, "http://127.0.0.1:%d/%s/v1", port, bad[i].scene);
        assert_int_equal(cay_model_list(&s, NULL, &names, &err), bad[i].code);
        assert_string_equal(err.reason, bad[i].reason);
    }
}

static void what_may_pass_is_asked_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cay_model_reply r;
        cay_err err = CAY_ERR_INIT;
        cay_model *m = model_at("busy", SPEC(.api = apis[i]));
        if (ask(m, (cay_model_request){ .instructions = "x" }, &r, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(retries, 2);
        cay_model_reply_clear(&r);
        cay_model_free(m);
    }
    refused("storm", SPEC(.retries = 1), CAY_EUPSTREAM, "model_http", "500: always");
    assert_int_equal(retries, 1);
    refused("wait", SPEC(.retries = 4), CAY_ERATE, "model_http",
            "much later"); /* an hour is not waited for */
    assert_int_equal(retries, 0);
}

static void servers_that_behave_badly_are_told_of(void **state)
{
    (void)state;
    const cay_model_open_spec once = { .retries = CAY_NO_RETRY };
    refused("auth", once, CAY_EAUTH, "model_http", "request req_7");
    refused("redirect", once, CAY_EUPSTREAM, "model_http",
            "302"); /* S-69: the key goes nowhere else */
    refused("html", once, CAY_EUPSTREAM, "model_answer", NULL);
    refused("list", once, CAY_EUPSTREAM, "model_answer", NULL);
    refused("empty", once, CAY_EUPSTREAM, "model_answer", NULL);
    refused("cut", once, CAY_EUPSTREAM, "model_cut", NULL);
    refused("drop", once, CAY_EUPSTREAM, "net_cut", NULL);
    refused("badevent", once, CAY_EUPSTREAM, "model_answer", NULL);
    refused("failed", once, CAY_EUPSTREAM, "model_failed", "it broke");
    refused("silent", SPEC(.retries = CAY_NO_RETRY, .idle_ms = 300), CAY_ETIMEOUT, "net_timeout",
            "no byte");
    refused("silent", SPEC(.retries = CAY_NO_RETRY, .total_ms = 300), CAY_ETIMEOUT, "net_timeout",
            "too long");
    cay_model_reply r;
    cay_err err = CAY_ERR_INIT;
    for (size_t i = 0; i < 2; i++) { /* wrong types are no crash; whatever they mean */
        cay_model *m = model_at("types", SPEC(.api = apis[i], .retries = CAY_NO_RETRY));
        if (ask(m, (cay_model_request){ .instructions = "x" }, &r, &err) == 0)
            cay_model_reply_clear(&r);
        cay_model_free(m);
    }
    cay_model *m = model_at("manycalls", SPEC(.api = "chat"));
    assert_int_equal(ask(m, (cay_model_request){ .instructions = "x" }, &r, &err), CAY_ETOOBIG);
    cay_model_free(m);
}

static void a_request_is_canceled_and_bounded(void **state)
{
    (void)state;
    int p[2];
    cay_model_reply r = { .size = sizeof r };
    cay_err err = CAY_ERR_INIT;
    cay_model_request q = { .size = sizeof q, .input = INPUT };
    cay_model *m = model_at("silent", SPEC(.retries = 4));
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + 200 };
    assert_int_equal(cay_model_ask(m, &call, &q, &r, &err), CAY_ETIMEOUT);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    call = (cay_call){ .size = sizeof call, .cancel_fd = p[0] };
    assert_int_equal(cay_model_ask(m, &call, &q, &r, &err), CAY_ECANCELED);
    close(p[0]);
    close(p[1]);
    cay_model_free(m);
}

static void nobody_there_is_told(void **state)
{
    (void)state;
    cay_model *m = NULL;
    cay_model_reply r;
    cay_err err = CAY_ERR_INIT;
    cay_model_open_spec s = { .size = sizeof s,
                              .model = "m",
                              .base_url = "http://127.0.0.1:1/v1",
                              .key = "none",
                              .retries = CAY_NO_RETRY };
    assert_int_equal(cay_model_open(&s, &m, &err), 0);
    assert_int_equal(ask(m, (cay_model_request){ .instructions = "x" }, &r, &err), CAY_EUPSTREAM);
    assert_string_equal(err.reason, "net_unreachable");
    cay_model_free(m);
}

static int say_twice(void *self, const cay_call *call, const cay_model_request *q,
                     cay_model_reply *out, cay_err *err)
{
    int *turn = self;
    (void)call;
    (void)err;
    if ((*turn)++ == 0) {
        assert_non_null(strstr(q->tools, "in capitals"));
        assert_null(strstr(q->tools, "bad name"));
        out->output = cay__strdup("[{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":"
                                  "\"upper\",\"arguments\":\"{\\\"text\\\":\\\"abc\\\"}\"},"
                                  "{\"type\":\"function_call\",\"call_id\":\"2\",\"name\":"
                                  "\"fails\",\"arguments\":\"{}\"}]");
        return 0;
    }
    assert_non_null(strstr(q->input, "ABC"));
    assert_non_null(strstr(q->input, "data:image/png;base64,aGk="));
    assert_non_null(strstr(q->input, "The tool failed: as told"));
    out->output = cay__strdup("[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{"
                              "\"type\":\"output_text\",\"text\":\"ok\"}]}]");
    return 0;
}

static void use_tools(cay_mcp *m)
{
    static const cay_model_ops ops = {
        .size = sizeof ops, .name = "twice", .custom_tools = true, .ask = say_twice
    };
    int turn = 0;
    cay_agent a = { .size = sizeof a, .name = "A" };
    cay_model *model = cay_model_new(&ops, &turn, "twice");
    cay_run_config conf = { .size = sizeof conf, .model = model };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    a.tools = cay_mcp_tools(m, &a.ntools);
    assert_int_equal(a.ntools, 2);
    if (cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(r->output, "ok");
    cay_run_result_free(r);
    cay_model_free(model);
}

static int read_then_tell(void *self, const cay_call *call, const cay_model_request *q,
                          cay_model_reply *out, cay_err *err)
{
    int *turn = self;
    (void)call, (void)err;
    if ((*turn)++ == 0) {
        assert_non_null(strstr(q->tools, "t_read_resource"));
        out->output =
            cay__strdup("[{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"t_list_"
                        "resources\",\"arguments\":\"{}\"},"
                        "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"t_read_"
                        "resource\",\"arguments\":\"{\\\"uri\\\":\\\"note://two\\\"}\"},"
                        "{\"type\":\"function_call\",\"call_id\":\"c3\",\"name\":\"t_read_"
                        "resource\",\"arguments\":\"{\\\"uri\\\":\\\"note://none\\\"}\"}]");
        return 0;
    }
    assert_non_null(strstr(q->input, "- note://one (one, text/plain): the first"));
    assert_non_null(strstr(q->input, "- note://{n} (any)"));
    assert_non_null(strstr(q->input, "data:image/png;base64,aGk="));
    assert_non_null(strstr(q->input, "[note://two: application/zip, 3 bytes that are no text]"));
    assert_non_null(strstr(q->input, "no such resource"));
    assert_non_null(strstr(q->input, "hello Ada")); /* the prompt it began with */
    out->output = cay__strdup("[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{"
                              "\"type\":\"output_text\",\"text\":\"ok\"}]}]");
    return 0;
}

/* Resources by calls and by tools, and a prompt that a run begins with. */
static void use_the_rest(cay_mcp_spec s)
{
    static const cay_model_ops ops = {
        .size = sizeof ops, .name = "reader", .custom_tools = true, .ask = read_then_tell
    };
    cay_mcp *m = NULL;
    cay_err err = CAY_ERR_INIT;
    char *text = NULL;
    int turn = 0;
    s.name = "t";
    s.resources = true;
    if (cay_mcp_open(&s, NULL, &m, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(cay_mcp_resources(m, NULL, &text, &err), 0);
    assert_non_null(strstr(text, "note://one"));
    assert_non_null(strstr(text, "note://two")); /* of the second page */
    free(text);
    assert_int_equal(cay_mcp_templates(m, NULL, &text, &err), 0);
    assert_non_null(strstr(text, "note://{n}"));
    free(text);
    assert_int_equal(cay_mcp_read(m, NULL, "note://one", &text, &err), 0);
    assert_non_null(strstr(text, "read me"));
    free(text);
    assert_int_equal(cay_mcp_read(m, NULL, "note://none", &text, &err), CAY_EUPSTREAM);
    assert_non_null(strstr(err.msg, "no such resource"));
    assert_int_equal(cay_mcp_read(m, NULL, "", &text, &err), CAY_EINVAL);
    assert_int_equal(cay_mcp_prompts(m, NULL, &text, &err), 0);
    assert_non_null(strstr(text, "greet"));
    free(text);
    assert_int_equal(cay_mcp_prompt(m, NULL, "system", NULL, &text, &err),
                     CAY_EUPSTREAM); /* a server is not the system */
    assert_int_equal(cay_mcp_prompt(m, NULL, "greet", "[]", &text, &err), CAY_EINVAL);
    assert_int_equal(cay_mcp_prompt(m, NULL, "greet", "{\"who\":\"Ada\"}", &text, &err), 0);
    assert_non_null(strstr(text, "read me"));
    assert_non_null(strstr(text, "\"output_text\""));

    cay_agent a = { .size = sizeof a, .name = "A" };
    cay_model *model = cay_model_new(&ops, &turn, "reader");
    cay_run_config conf = { .size = sizeof conf, .model = model };
    cay_run_result *r = NULL;
    a.tools = cay_mcp_tools(m, &a.ntools);
    assert_int_equal(a.ntools, 4);
    if (cay_agent_run(&a, NULL, text, &conf, &r, &err) < 0)
        fail_msg("%s", err.msg);
    cay_run_result_free(r);
    cay_model_free(model);
    free(text);
    cay_mcp_close(m);
}

static void resources_and_prompts_of_mcp_servers_are_used(void **state)
{
    (void)state;
    char program[4096], url[100], *text = NULL;
    cay_mcp *m = NULL;
    cay_err err = CAY_ERR_INIT;
    snprintf(program, sizeof program, "%.4000s", peer);
    memcpy(strstr(program, "modelpeer"), "mcpserver", 9);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/mcp/", port);
    const char *const asks[] = { program, "asks", NULL }, *const plain[] = { program, "plain",
                                                                             NULL };
    use_the_rest((cay_mcp_spec){ .size = sizeof(cay_mcp_spec), .argv = asks, .host = true });
    use_the_rest((cay_mcp_spec){ .size = sizeof(cay_mcp_spec), .url = url });
    cay_mcp_spec s = { .size = sizeof s, .argv = plain, .host = true, .resources = true };
    if (cay_mcp_open(&s, NULL, &m, &err) < 0)
        fail_msg("%s", err.msg);
    size_t n;
    cay_mcp_tools(m, &n);
    assert_int_equal(n, 2);
    assert_int_equal(cay_mcp_resources(m, NULL, &text, &err), CAY_ENOTSUP);
    assert_string_equal(err.reason, "mcp_unsupported");
    assert_int_equal(cay_mcp_prompt(m, NULL, "greet", NULL, &text, &err), CAY_ENOTSUP);
    cay_mcp_close(m);
}

static void headers_of_mcp_servers_come_from_their_sources(void **state)
{
    char url[100];
    cay_err err = CAY_ERR_INIT;
    cay_mcp *m = NULL;
    (void)state;
    setenv("TEST_MCP", "Bearer mcp-1", 1);
    setenv("TEST_BREAK", "x\nEvil: yes", 1);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/mcp-auth/", port);
    const struct {
        const char *url, *header, *reason;
    } rows[] = { { url, "Authorization: env:TEST_MCP", NULL },
                 { url, "Authorization: Bearer mcp-1", NULL },
                 { url, "Authorization: Bearer wrong", "" },
                 { url, "Authorization: env:NOT_SET_HERE", "mcp_header" },
                 { "http://mcp.example/", "Authorization: env:TEST_MCP", "mcp_header" },
                 { url, "Authorization: env:TEST_BREAK", "mcp_header" } };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        const char *const headers[] = { rows[i].header, NULL };
        cay_mcp_spec s = { .size = sizeof s, .url = rows[i].url, .headers = headers };
        int rc = cay_mcp_open(&s, NULL, &m, &err);
        assert_int_equal(rc < 0, rows[i].reason != NULL);
        if (rc == 0)
            cay_mcp_close(m);
        else if (*rows[i].reason)
            assert_string_equal(err.reason, rows[i].reason);
        assert_null(strstr(err.msg, "mcp-1"));
    }
}

static void tools_of_mcp_servers_are_used(void **state)
{
    (void)state;
    char program[4096], url[100];
    cay_mcp *m = NULL;
    cay_err err = CAY_ERR_INIT;
    snprintf(program, sizeof program, "%.4000s/mcpserver", peer);
    char *name = strstr(program, "modelpeer");
    snprintf(name, 10, "mcpserver");
    snprintf(url, sizeof url, "http://127.0.0.1:%d/mcp/", port);
    const char *const argv[] = { program, NULL }, *const odd[] = { program, "odd", NULL };
    cay_mcp_spec s = { .size = sizeof s, .argv = argv, .host = true };
    if (cay_mcp_open(&s, NULL, &m, &err) < 0)
        fail_msg("%s", err.msg);
    use_tools(m);
    cay_mcp_close(m);
    s = (cay_mcp_spec){ .size = sizeof s, .url = url };
    if (cay_mcp_open(&s, NULL, &m, &err) < 0)
        fail_msg("%s", err.msg);
    use_tools(m);
    cay_mcp_close(m);
    s = (cay_mcp_spec){ .size = sizeof s, .argv = odd, .host = true };
    assert_int_equal(cay_mcp_open(&s, NULL, &m, &err), CAY_EUPSTREAM);
    assert_string_equal(err.reason, "mcp_failed");
    s.url = url;
    assert_int_equal(cay_mcp_open(&s, NULL, &m, &err), CAY_EINVAL); /* one or the other */
    s = (cay_mcp_spec){ .size = sizeof s, .argv = argv };
    assert_int_equal(cay_mcp_open(&s, NULL, &m, &err),
                     CAY_EINVAL); /* not on the host unless that was said */
}

static int opens(cay_model_open_spec s, const char *reason)
{
    cay_model *m = NULL;
    cay_err err = CAY_ERR_INIT;
    s.size = sizeof s;
    int rc = cay_model_open(&s, &m, &err);
    if (rc == 0)
        cay_model_free(m);
    else if (strcmp(err.reason, reason))
        fail_msg("%s instead of %s: %s", err.reason, reason, err.msg);
    assert_null(strstr(err.msg, "sk-"));
    return rc;
}

static void keys_come_from_their_sources_alone(void **state)
{
    (void)state;
    char path[300], source[310], config[300];
    snprintf(path, sizeof path, "%s/key", dir);
    snprintf(source, sizeof source, "file:%s", path);
    assert_int_equal(opens(SPEC(.model = "m", .key = "sk-in-the-clear"), "model_key"), CAY_EINVAL);
    assert_int_equal(opens(SPEC(.model = "m", .key = "env:NOT_SET_HERE"), "model_key"), CAY_ENOENT);
    assert_int_equal(opens(SPEC(.model = "m", .key = source), "model_key"), CAY_ENOENT);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "sk-filekey\n", 11), 11);
    assert_int_equal(opens(SPEC(.model = "m", .key = source), "model_key"), CAY_EPERM);
    assert_int_equal(fchmod(fd, 0600), 0);
    close(fd);
    assert_int_equal(opens(SPEC(.model = "m", .key = source), ""), 0);
    assert_int_equal(
        opens(SPEC(.model = "m", .key = source, .base_url = "http://models.example/v1"),
              "model_key"),
        CAY_EPERM);
    assert_int_equal(opens(SPEC(.model = "m", .key = source, .base_url = "http://models.example/v1",
                                .plain_key = true),
                           ""),
                     0);
    assert_int_equal(
        opens(SPEC(.model = "m", .key = "none", .base_url = "http://models.example/v1"), ""), 0);
    unsetenv("OPENAI_API_KEY");
    unsetenv("OPENAI_BASE_URL");
    assert_int_equal(opens(SPEC(.model = "m"), "model_key"),
                     CAY_ENOENT); /* the default address answers nobody without one */
    assert_int_equal(opens(SPEC(.model = "m", .key = "none"), ""), 0);
    assert_int_equal(
        opens(
            SPEC(.model = "m", .headers = (const char *const[]){ "Authorization: Bearer x", NULL }),
            ""),
        0);
    static const char *const bad[] = { "no colon", ": x", "two words: x", "X-A: a\r\nX-B: b",
                                       "X-Long\x01: x" };
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        assert_int_equal(opens(SPEC(.model = "m", .key = "none",
                                    .headers = (const char *const[]){ bad[i], NULL }),
                               "config_invalid"),
                         CAY_EINVAL);
    assert_int_equal(
        opens(SPEC(.model = "m", .key = "none",
                   .headers = (const char *const[]){ "api-key: env:NOT_SET_HERE", NULL }),
              "model_key"),
        CAY_ENOENT);
    assert_int_equal(opens(SPEC(.model = "m", .key = "none", .base_url = "http://models.example/v1",
                                .headers = (const char *const[]){ "api-key: env:TEST_KEY", NULL }),
                           "model_key"),
                     CAY_EPERM);
    setenv("CAY_MODEL_WINDOW", "many", 1);
    assert_int_equal(opens(SPEC(.model = "m", .key = "none"), "config_invalid"), CAY_EINVAL);
    unsetenv("CAY_MODEL_WINDOW");
    assert_int_equal(opens(SPEC(.model = "m", .base_url = "ftp://x"), "url_invalid"), CAY_EINVAL);
    assert_int_equal(opens(SPEC(.model = "m", .api = "soap"), "config_invalid"), CAY_EINVAL);
    assert_int_equal(opens(SPEC(.key = "none"), "model_missing"), CAY_EINVAL);
    assert_int_equal(opens(SPEC(.model = "scripted:/nonexistent"), ""), CAY_ENOENT);
    snprintf(config, sizeof config, "%s/cay", dir);
    assert_int_equal(mkdir(config, 0700), 0);
    snprintf(config, sizeof config, "%s/cay/config.json", dir);
    fd = open(config, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    static const char text[] =
        "{\"model\":{\"name\":\"from-file\",\"key\":\"none\",\"api\":\"chat\"}}";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    cay_model *m = NULL;
    cay_model_open_spec s = { .size = sizeof s };
    assert_int_equal(cay_model_open(&s, &m, NULL), 0);
    assert_string_equal(cay_model_name(m), "from-file");
    assert_string_equal(cay_model_kind(m)->name, "chat");
    cay_model_free(m);
    static const struct {
        const char *text, *name, *says; /* what it is called, or what is wrong */
    } forms[] = { { "{\"model\":\"alone\"}", "alone", NULL },
                  { "{\"model\":7}", NULL, "\"model\" is a name, or {" },
                  { "{\"model\":\"a\",\"base_url\":\"http://127.0.0.1/v1\"}", NULL,
                    "\"base_url\" belongs into \"model\"" } };
    for (size_t i = 0; i < CAY_LEN(forms); i++) {
        cay_err err = CAY_ERR_INIT;
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, forms[i].text, strlen(forms[i].text), 0),
                         strlen(forms[i].text));
        s.key = "none";
        int rc = cay_model_open(&s, &m, &err);
        if (rc == 0 && forms[i].name)
            assert_string_equal(cay_model_name(m), forms[i].name);
        else if (rc == 0 || !forms[i].says || !strstr(err.msg, forms[i].says))
            fail_msg("%s: %s", forms[i].text, err.msg);
        if (rc == 0)
            cay_model_free(m);
    }
    assert_int_equal(ftruncate(fd, 5), 0);
    close(fd);
    assert_int_equal(opens(SPEC(.model = "m"), ""), CAY_EINVAL);
    unlink(config);
    unlink(path);
}

int main(int argc, char **argv)
{
    peer = argc > 1 ? argv[1] : "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_apis_answer_streamed_and_whole),
        cmocka_unit_test(compatible_servers_are_understood),
        cmocka_unit_test(requests_have_the_form_that_is_asked_for),
        cmocka_unit_test(what_comes_from_several_places_is_one_request),
        cmocka_unit_test(an_endpoint_tells_which_models_it_has),
        cmocka_unit_test(what_may_pass_is_asked_again),
        cmocka_unit_test(servers_that_behave_badly_are_told_of),
        cmocka_unit_test(a_request_is_canceled_and_bounded),
        cmocka_unit_test(nobody_there_is_told),
        cmocka_unit_test(headers_of_mcp_servers_come_from_their_sources),
        cmocka_unit_test(keys_come_from_their_sources_alone),
        cmocka_unit_test(tools_of_mcp_servers_are_used),
        cmocka_unit_test(resources_and_prompts_of_mcp_servers_are_used),
    };
    return cmocka_run_group_tests(tests, start_peer, stop_peer);
}
