/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ptc PROVIDER: code in a sandbox that calls the agent's tools.
 */
#include <agent/capability/ptc.h>
#include "box.h"
#include <base/str.h>

enum { BIG = 10 << 20 };
static char *big_text;
static int called, hooked;

static int big(void *arg, const cay_tool_call *c, cay_tool_output *out, cay_err *err)
{
    (void)arg, (void)c, (void)err;
    called++;
    cay_output_text(out, big_text, BIG);
    return 0;
}

static int add(void *arg, const cay_tool_call *c, cay_tool_output *out, cay_err *err)
{
    CAY_AUTOJSON *a = NULL;
    char text[64];
    (void)arg;
    called++;
    CAY_TRY(cay__json_object("arguments", c->arguments, &a, err));
    snprintf(text, sizeof text, "{\"sum\": %lld}",
             (long long)(cay__json_int(a, "from", 0) + cay__json_int(a, "to-add", 1)));
    cay_output_text(out, text, strlen(text));
    return 0;
}

static const cay_tool big_tool = {
    .size = sizeof big_tool, .name = "big", .description = "A lot.", .call = big
};
static const cay_tool add_tool = { .size = sizeof add_tool,
                                   .name = "add-up",
                                   .description = "Adds \"\"\" numbers\\.",
                                   .call = add,
                                   .parameters =
                                       "{\"type\":\"object\",\"required\":[\"from\"],"
                                       "\"additionalProperties\":false,\"properties\":{"
                                       "\"from\":{\"type\":\"integer\",\"description\":\"The "
                                       "first.\"},\"to-add\":{\"type\":[\"integer\",\"null\"]},"
                                       "\"mode\":{\"enum\":[\"a\",\"b\"]},\"more\":{\"type\":"
                                       "\"array\",\"items\":{\"type\":\"number\"}}}}" };
static const cay_tool ask_tool = { .size = sizeof ask_tool,
                                   .name = "dangerous",
                                   .description = "Asks.",
                                   .call = big,
                                   .approval = true };

static void on_tool(void *arg, cay_run *run, const cay_tool_call *c)
{
    (void)arg, (void)run;
    hooked += !strcmp(c->tool, "big") || !strcmp(c->tool, "add-up");
}

static cay_run_config how;
static cay_ptc_options options;

/* One program; what the model is told of it. */
static json_t *execute(const char *code, const char *more)
{
    static const cay_tool *const tools[] = { &big_tool, &add_tool, &ask_tool };
    static const cay_hooks hooks = { .tool_start = on_tool };
    cay_capability *caps[2] = { cay_cap_filesystem(NULL), NULL };
    char *call = NULL;
    CAY_AUTOJSON *args = json_pack("{s:s}", "code", code);
    CAY_AUTOJSON *extra = more ? json_loads(more, 0, NULL) : NULL;
    json_object_update(args, extra);
    options.size = sizeof options;
    assert_int_equal(cay_cap_ptc(&options, &caps[1], NULL), 0);
    cay_agent a = { .size = sizeof a,
                    .name = "Coder",
                    .sandbox = true,
                    .capabilities = caps,
                    .ncapabilities = 2,
                    .tools = tools,
                    .ntools = 3,
                    .hooks = &hooks };
    CAY_AUTOFREE char *text = json_dumps(args, 0);
    CAY_AUTOJSON *item = json_pack("[{s:s, s:s, s:s, s:s}]", "type", "function_call", "call_id",
                                   "c0", "name", "execute_code", "arguments", text);
    p.say[0] = call = json_dumps(item, 0);
    p.say[1] = TEXT("done");
    cay_run_result_free(box_run(&a, "go", how));
    for (size_t i = 0; i < 2; i++)
        cay_cap_free(caps[i]);
    p.say[0] = NULL;
    free(call);
    CAY_AUTOFREE char *told = box_told(1);
    json_t *j = json_loads(told, 0, NULL);
    if (!j)
        fail_msg("no JSON: %.1000s", told);
    return j;
}

static const char *out_of(const json_t *j)
{
    return cay__json_str(j, "stdout", "");
}

static int clean(void **state)
{
    how = (cay_run_config){ 0 };
    options = (cay_ptc_options){ 0 };
    called = hooked = 0;
    return box_set_up(state);
}

static void ten_megabytes_never_reach_the_model(void **state)
{
    (void)state;
    CAY_AUTOJSON *j = execute("from tools import big\nt = big()\nprint(len(t), "
                              "t.count('needle'))\nopen('kept.txt', 'w').write(t)\n",
                              NULL);
    assert_string_equal(out_of(j), "10485760 1\n");
    assert_true(json_is_true(json_object_get(j, "success")));
    assert_int_equal(called, 1);
    for (size_t i = 0; i < p.at; i++) { /* all that the model was ever sent */
        assert_true(strlen(p.input[i]) < 20000);
        assert_true(strlen(p.instructions[i]) < 20000);
        has_not(p.input[i], "xxxxxxxxxxxxxxxx");
    }
    cay_stat st = { .size_of = sizeof st };
    assert_int_equal(cay_file_stat(sb, NULL, "kept.txt", true, &st, NULL), 0);
    assert_int_equal(st.size, BIG);
    cay_file_remove(sb, NULL, "kept.txt", false, NULL);
}

static void functions_have_types_and_documents(void **state)
{
    (void)state;
    CAY_AUTOJSON *j =
        execute("import inspect, tools\nfrom tools.agent import "
                "add_up\nprint(inspect.signature(add_up))\nprint(add_up.__doc__)\n"
                "print(add_up(1, to_add=41).json()['sum'], add_up(from_=5), "
                "sep='|')\nprint(open(tools.__path__[0] + '/docs/agent/add_up.md').read()[:8])",
                NULL);
    has(out_of(j), "(from_: 'int', to_add: 'int | None' = None, mode: ");
    has(out_of(j), "more: 'list[float] | None' = None) -> 'Result'");
    has(out_of(j), "Adds \"\"\" numbers\\.");
    has(out_of(j), "from_: The first. (\"from\")");
    has(out_of(j), "42|{\"sum\": 6}");
    has(out_of(j), "# add_up");
    assert_string_equal(cay__json_str(j, "stderr", "?"), "");
}

static void results_tell_what_happened(void **state)
{
    (void)state;
    cay_file_put(sb, NULL, "old.txt", "1", 1, NULL, NULL);
    CAY_AUTOJSON *j = execute("open('new.txt', 'w').write('x')\nopen('old.txt', "
                              "'a').write('y')\nimport sys\nsys.stderr.write('oh\\n')\nsys.exit(3)",
                              NULL);
    CAY_AUTOFREE char *created = json_dumps(json_object_get(j, "files_created"), 0);
    CAY_AUTOFREE char *modified = json_dumps(json_object_get(j, "files_modified"), 0);
    assert_string_equal(created, "[\"new.txt\"]");
    assert_string_equal(modified, "[\"old.txt\"]");
    assert_true(json_is_false(json_object_get(j, "success")));
    assert_int_equal(cay__json_int(j, "exit_code", 0), 3);
    assert_string_equal(cay__json_str(j, "stderr", ""), "oh\n");
    assert_true(json_number_value(json_object_get(j, "duration")) > 0);
    assert_int_equal(strlen(cay__json_str(j, "code_hash", "")), 16);
    assert_int_equal(strncmp(cay__json_str(j, "execution_id", ""), "exec_", 5), 0);
    char path[64];
    snprintf(path, sizeof path, ".ptc/code/%s.py", cay__json_str(j, "execution_id", ""));
    bool yes = false;
    assert_int_equal(cay_file_exists(sb, NULL, path, &yes, NULL), 0);
    assert_true(yes);
}

static void calls_go_the_way_of_a_models(void **state)
{
    (void)state;
    CAY_AUTOJSON *j =
        execute("import tools\nfrom tools import ToolError, _client\ndef t(f, *a, **k):\n  try: "
                "print('fine', str(f(*a, **k))[:20])\n  except ToolError as e: print('no:', e)\n"
                "t(tools.add_up, 1)\nt(tools.add_up, 'x')\nt(tools.dangerous)\nt(_client.call, "
                "'nosuch', {})\nt(_client.call, 'execute_code', {'code': '1'})\n"
                "t(tools.view_image, 'nosuch.png')\n",
                NULL);
    has(out_of(j), "fine {\"sum\": 2}");
    has(out_of(j), "no: An error occurred while parsing tool arguments. Please try again with "
                   "valid JSON. Error: from: want integer");
    has(out_of(j), "no: Tool dangerous waits for somebody's approval");
    has(out_of(j), "no: There is no tool named \"nosuch\"");
    has(out_of(j), "no: execute_code is not called");
    has(out_of(j), "fine image path");
    assert_int_equal(called, 1);
    assert_int_equal(hooked, 1);
    assert_int_equal(cay__json_int(j, "tool_calls", 0), 6);
}

static cay_verdict decide(void *arg, const cay_tool_call *c, char **message)
{
    assert_string_equal(c->tool, "dangerous");
    *message = cay__strdup("not on a Sunday");
    return *(cay_verdict *)arg;
}

static void approvals_are_asked_for(void **state)
{
    static const char code[] = "import tools\ntry: print(len(tools.dangerous()))\nexcept "
                               "tools.ToolError as e: print('no:', e)";
    cay_verdict v = CAY_REJECT;
    (void)state;
    how.approve = decide;
    how.approve_arg = &v;
    CAY_AUTOJSON *j = execute(code, NULL);
    assert_string_equal(out_of(j), "no: not on a Sunday\n");
    assert_int_equal(called, 0);
    play_clear(&p);
    v = CAY_APPROVE;
    CAY_AUTOJSON *k = execute(code, NULL);
    assert_string_equal(out_of(k), "10485760\n");
}

static int spans;
static int on_spans(void *self, const char *const *objects, size_t n, cay_err *err)
{
    (void)self, (void)err;
    for (size_t i = 0; i < n; i++)
        spans += strstr(objects[i], "\"type\":\"function\"") && strstr(objects[i], "add-up");
    return 0;
}

static void each_call_is_a_span(void **state)
{
    static const cay_trace_sink sink = { .size = sizeof sink, .write = on_spans };
    (void)state;
    how.tracer = cay_tracer_new(&sink, NULL);
    CAY_AUTOJSON *j =
        execute("from tools import add_up\nfrom concurrent.futures import ThreadPoolExecutor\nwith "
                "ThreadPoolExecutor(4) as x: print(len(list(x.map(add_up, range(8)))))",
                NULL);
    cay_tracer_free(how.tracer);
    assert_string_equal(out_of(j), "8\n");
    assert_int_equal(spans, 8);
}

static void limits_hold(void **state)
{
    (void)state;
    options.max_calls = 3;
    options.max_output_tokens = 50;
    CAY_AUTOJSON *j = execute("from tools import add_up, ToolError\nn = 0\ntry:\n  while True: "
                              "add_up(n); n += 1\nexcept ToolError as e: print(n, e)\n",
                              NULL);
    has(out_of(j), "3 this code has called tools 3 times");
    play_clear(&p);
    CAY_AUTOJSON *k = execute("print('y' * 100000)", NULL);
    assert_true(strlen(out_of(k)) <= 220);
    play_clear(&p);
    CAY_AUTOJSON *l = execute("import time\ntime.sleep(60)", "{\"timeout\": 1}");
    assert_true(json_is_true(json_object_get(l, "timed_out")));
    play_clear(&p);
    /* A call that leaves its program behind does not hold the next one up. */
    CAY_AUTOJSON *m = execute("import nosuchmodule_of_ours", "{\"auto_install\": false}");
    has(cay__json_str(m, "stderr", ""), "No module named 'nosuchmodule_of_ours'");
}

static void modules_take_hostile_definitions(void **state)
{
    static const char *const names[][2] = { { "class", "class_" },
                                            { "a-b", "a_b" },
                                            { "9x", "_9x" },
                                            { "x); import os", "x___import_os" },
                                            { "__init__", "__init___" } };
    char name[64];
    (void)state;
    for (size_t i = 0; i < CAY_LEN(names); i++) {
        assert_true(cay__py_name(names[i][0], name, sizeof name));
        assert_string_equal(name, names[i][1]);
    }
    assert_false(cay__py_name("---", name, sizeof name));
    CAY_AUTOJSON *schema = json_loads("{\"properties\": {\"a\\\"):\\nimport os #\": {\"type\": "
                                      "\"evil\\\"\"}, \"b\": {\"enum\": [\"\\\"]\\nimport os\"]}}}",
                                      0, NULL);
    cay__py_tool t = { .name = "t", .about = "\"\"\"\nimport os\n\\", .schema = schema };
    CAY_AUTOBUF b = CAY__BUF(65536);
    cay__py_head("s\"\nimport os", &b);
    cay__py_function(&t, "t", &b);
    has_not(b.data, "\nimport");
    cay_write spec = { .size = sizeof spec, .parents = true };
    assert_int_equal(
        cay_file_put(sb, NULL, "m/_client.py", cay__py_client, strlen(cay__py_client), &spec, NULL),
        0);
    assert_int_equal(cay_file_put(sb, NULL, "m/h.py", b.data, b.len, &spec, NULL), 0);
    assert_int_equal(cay_file_put(sb, NULL, "m/__init__.py", "", 0, &spec, NULL), 0);
    cay_spawn cmd = { .size = sizeof cmd,
                      .shell = "python3 -c 'import m.h; print(m.h.t.__doc__)'" };
    cay_result res = { .size = sizeof res };
    assert_int_equal(cay_sandbox_run(sb, NULL, &cmd, NULL, 0, 0, &res, NULL), 0);
    has(res.out, "\"\"\"\nimport os\n\\");
    cay_result_clear(&res);
}

static int open_big(void **state)
{
    big_text = malloc(BIG + 1);
    assert_non_null(big_text);
    memset(big_text, 'x', BIG);
    big_text[BIG] = 0;
    memcpy(big_text + BIG / 2, "needle", 6);
    return box_open(state);
}

static int close_big(void **state)
{
    free(big_text);
    return box_close(state);
}

int main(int argc, char **argv)
{
    provider = argc > 1 ? argv[1] : "local";
#define T(name) cmocka_unit_test_setup_teardown(name, clean, box_tear_down)
    const struct CMUnitTest tests[] = {
        T(ten_megabytes_never_reach_the_model),
        T(functions_have_types_and_documents),
        T(results_tell_what_happened),
        T(calls_go_the_way_of_a_models),
        T(approvals_are_asked_for),
        T(each_call_is_a_span),
        T(limits_hold),
        T(modules_take_hostile_definitions),
    };
    return cmocka_run_group_tests_name("ptc", tests, open_big, close_big);
}
