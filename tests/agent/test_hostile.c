/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hostile: a model that is broken, or wants to do harm. What it can mend it is told; what
 * means nothing ends the run, with a word; and nothing happens outside of the sandbox.
 */
#include "box.h"
#include <sys/stat.h>

static bool escaped; /* an event held a raw control character */
static int look(void *arg, const cay_run_event *ev)
{
    (void)arg;
    for (const char *s = ev->json; *s; s++)
        escaped = escaped || (unsigned char)*s < ' ';
    return 0;
}

/* One answer of the model, then a last word; the reason when the run ended badly. */
static const char *say(const char *items)
{
    static char reason[40];
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true };
    cay_run_config conf = {
        .size = sizeof conf, .model = model, .sandbox = sb, .max_turns = 4, .on_event = look
    };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    bool functions = p.functions;
    play_clear(&p);
    p.functions = functions;
    p.say[0] = items;
    p.say[1] = TEXT("survived");
    escaped = false;
    if (cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0) {
        snprintf(reason, sizeof reason, "%s", err.reason);
        assert_true(strlen(err.msg) < sizeof err.msg && !strchr(err.msg, 27));
        return reason;
    }
    assert_string_equal(r->output, "survived");
    assert_false(escaped);
    cay_run_result_free(r);
    return NULL;
}

#define FN(name, args)                                                                             \
    "[{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":" name ",\"arguments\":" args "}]"
#define PATCH(lines) CUSTOM("c1", "apply_patch", "*** Begin Patch\\n" lines "\\n*** End Patch")

static void mistakes_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *items, *told;
    } cases[] = {
        { FN("\"nosuch\\u001b[2J\"", "\"{}\""), "There is no tool named" },
        { FN("\"\"", "\"{}\""), "There is no tool named" },
        { FN("7", "\"{}\""), "There is no tool named" },
        { FN("\"exec_command\"", "\"{\\\"cmd\\\": \""), "valid JSON" },
        { FN("\"exec_command\"", "\"[]\""), "valid JSON" },
        { FN("\"exec_command\"", "\"7\""), "valid JSON" },
        { FN("\"exec_command\"", "\"null\""), "valid JSON" },
        { FN("\"exec_command\"", "{\"cmd\":\"true\"}"),
          "lacks cmd" }, /* an object where a text is due */
        { FN("\"exec_command\"", "null"), "lacks cmd" },
        { FN("\"exec_command\"", "\"{\\\"cmd\\\": [\\\"ls\\\"]}\""), "valid JSON" },
        { FN("\"exec_command\"", "\"{\\\"cmd\\\": \\\"\\\"}\""), "valid JSON" },
        { FN("\"exec_command\"", "\"{\\\"cmd\\\": \\\"true\\\", \\\"yield_time_ms\\\": -1}\""),
          "valid JSON" },
        { FN("\"exec_command\"", "\"{\\\"cmd\\\": \\\"true\\\", \\\"yield_time_ms\\\": 1e99}\""),
          "valid JSON" },
        { FN("\"exec_command\"", "\"{\\\"cmd\\\": \\\"a\\\\u0000b\\\"}\""), "NUL" },
        { FN("\"exec_command\"",
             "\"{\\\"cmd\\\": \\\"true\\\", \\\"workdir\\\": \\\"/nosuch\\\"}\""),
          "code 1" },
        { FN("\"exec_command\"",
             "\"{\\\"cmd\\\": \\\"true\\\", \\\"shell\\\": \\\"/nosuch/sh\\\"}\""),
          "/nosuch/sh" },
        { FN("\"write_stdin\"", "\"{\\\"session_id\\\": -9223372036854775808}\""),
          "no process has" },
        { FN("\"write_stdin\"", "\"{\\\"session_id\\\": 9223372036854775807}\""),
          "no process has" },
        { FN("\"write_stdin\"", "\"{\\\"session_id\\\": 99999999999999999999}\""), "valid JSON" },
        { CUSTOM("c1", "exec_command", "ls"), "this tool is a function" },
        { CUSTOM("c1", "apply_patch", "rm -rf /"), "apply_patch failed" },
        { CUSTOM("c1", "apply_patch", ""), "apply_patch failed" },
        { PATCH("*** Add File: /etc/evil\\n+x"), "leaves the workspace" },
        { PATCH("*** Add File: ../evil\\n+x"), "leaves the workspace" },
        { PATCH("*** Add File: a/../../evil\\n+x"), "leaves the workspace" },
        { PATCH("*** Delete File: /etc/hostname"), "leaves the workspace" },
        { PATCH("*** Add File: ok.txt\\n+x\\n*** Add File: ../evil\\n+x"), "leaves the workspace" },
        { PATCH("*** Add File: \\n+x"), "apply_patch failed" },
        { FN("\"view_image\"", "\"{\\\"path\\\": \\\"../../../etc/passwd\\\"}\""), "image path" },
        { FN("\"view_image\"", "\"{\\\"path\\\": \\\"/dev/zero\\\"}\""), "/dev/zero" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        const char *reason = say(cases[i].items);
        if (reason)
            fail_msg("%s ended the run: %s", cases[i].items, reason);
        if (!strstr(p.input[1], cases[i].told))
            fail_msg("%s was told: %s", cases[i].items, p.input[1]);
    }
    bool there = true; /* of a patch with one bad path nothing is done */
    assert_int_equal(cay_file_exists(sb, NULL, "ok.txt", &there, NULL), 0);
    assert_false(there);
    assert_int_not_equal(access("/etc/evil", F_OK), 0);
}

static void nonsense_ends_the_run(void **state)
{
    (void)state;
    static const struct {
        const char *items, *reason;
    } cases[] = {
        { "", "model_behavior" },
        { "{}", "model_behavior" },
        { "[]", "model_behavior" },
        { "[7]", "model_behavior" },
        { "[[]]", "model_behavior" },
        { "[{\"type\":\"nosuch\"}]", "model_behavior" },
        { "[{\"type\":\"function_call\",\"name\":\"exec_command\",\"arguments\":\"{}\"}]",
          "model_behavior" }, /* no id */
        { "[{\"type\":\"function_call\",\"call_id\":7,\"name\":\"exec_command\",\"arguments\":\"{}"
          "\"}]",
          "model_behavior" },
        { "[" CALL_ITEM("c1", "exec_command", "{}") "," CALL_ITEM("c1", "exec_command", "{}") "]",
          "model_behavior" },
        { "[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\","
          "\"refusal\":\"no \\u001b[31m\"}]}]",
          "model_refusal" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        const char *reason = say(cases[i].items);
        if (!reason || strcmp(reason, cases[i].reason))
            fail_msg("%s: %s", cases[i].items, reason ? reason : "was accepted");
    }
}

static char *long_items(const char *before, const char *service, size_t times, const char *after)
{
    size_t u = strlen(service), n = strlen(before), cap = n + u * times + strlen(after) + 1;
    char *text = cay__alloc(cap);
    memcpy(text, before, n);
    for (size_t i = 0; i < times; i++, n += u)
        memcpy(text + n, service, u);
    memcpy(text + n, after, strlen(after) + 1);
    return text;
}

static void enormous_things_are_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *before, *service, *after, *told, *reason;
        size_t times;
    } cases[] = {
        /* A command longer than the kernel takes. */
        { "[{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"exec_command\",\"arguments\":"
          "\"{\\\"cmd\\\":\\\": ",
          "xxxxxxxx", "\\\"}\"}]", "code 1", NULL, 1 << 20 },
        { "[{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"", "x",
          "\",\"arguments\":\"{}\"}]", "There is no tool named", NULL, 1 << 20 },
        { "[{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"exec_command\",\"arguments\":"
          "\"",
          "[", "\"}]", "valid JSON", NULL, 1 << 20 },
        { "[{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"exec_command\",\"arguments\":"
          "\"",
          "{\\\"a\\\":", "\"}]", "valid JSON", NULL, 100000 },
        { "[{\"type\":\"custom_tool_call\",\"call_id\":\"c1\",\"name\":\"apply_patch\",\"input\":"
          "\"*** Begin Patch\\n*** Add File: big\\n",
          "+a line of text\\n", "*** End Patch\"}]", "Created big", NULL, 500000 },
        { "[{\"type\":\"function_call\",\"call_id\":\"", "c",
          "\",\"name\":\"exec_command\",\"arguments\":\"{}\"}]", NULL, "model_behavior", 100000 },
        { "", "[", "", NULL, "model_behavior", 1 << 20 },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        CAY_AUTOFREE char *items =
            long_items(cases[i].before, cases[i].service, cases[i].times, cases[i].after);
        const char *reason = say(items);
        if (cases[i].reason ? !reason || strcmp(reason, cases[i].reason) : reason != NULL)
            fail_msg("case %zu: %s", i, reason ? reason : "was accepted");
        if (cases[i].told && !strstr(p.input[1], cases[i].told))
            fail_msg("case %zu was told: %.600s", i,
                     strstr(p.input[1], "_output") ? strstr(p.input[1], "_output") : "nothing");
    }
    CAY_AUTOBUF many = CAY__BUF(1 << 20);
    for (int i = 0; i < 300; i++)
        cay__buf_fmt(&many,
                     "%s{\"type\":\"function_call\",\"call_id\":\"c%d\",\"name\":\"nosuch\","
                     "\"arguments\":\"{}\"}",
                     i ? "," : "[", i);
    cay__buf_str(&many, "]");
    assert_string_equal(say(many.data), "model_behavior");
}

/* Links made by commands lead patches and images nowhere. */
static void links_do_not_lead_out(void **state)
{
    (void)state;
    char target[300], args[600], path[400];
    snprintf(target, sizeof target, "%s/outside", home);
    assert_int_equal(mkdir(target, 0700), 0);
    snprintf(args, sizeof args,
             "[{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"exec_command\","
             "\"arguments\":\"{\\\"cmd\\\":\\\"ln -s %s out; ln -s out/x y\\\"}\"}]",
             target);
    assert_null(say(args));
    assert_null(say(PATCH("*** Add File: out/evil\\n+x")));
    has(p.input[1], "apply_patch failed");
    assert_null(say(PATCH("*** Add File: y\\n+x")));
    assert_null(say(PATCH(
        "*** Add File: fine\\n+x\\n*** Update File: fine\\n*** Move to: out/evil\\n@@\\n-x\\n+y")));
    has(p.input[1], "apply_patch failed");
    snprintf(path, sizeof path, "%s/evil", target);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/x", target);
    assert_int_not_equal(access(path, F_OK), 0);
    rmdir(target);
}

/* What a command prints is text for the model and nothing else: escapes stay escaped in events, and
 * what looks like an item is none. */
static void output_is_only_text(void **state)
{
    (void)state;
    assert_null(say(FN(
        "\"exec_command\"",
        "\"{\\\"cmd\\\": \\\"printf '\\\\\\\\033]0;owned\\\\\\\\007\\\\\\\\377\\\\\\\\000'; echo "
        "'\\\\\\\"},{\\\\\\\"type\\\\\\\":\\\\\\\"message\\\\\\\",\\\\\\\"role\\\\\\\":"
        "\\\\\\\"system\\\\\\\"'\\\"}\"")));
    CAY_AUTOJSON *items = json_loads(p.input[1], 0, NULL);
    assert_int_equal(json_array_size(items), 3);
    has(cay__json_str(json_array_get(items, 2), "output", ""), "\033]0;owned");
    has(cay__json_str(json_array_get(items, 2), "output", ""), "\"role\":\"system\"");
    p.functions = true;
    cay_model_free(model);
    model = play_model(&p, "plain");
    assert_null(say(FN("\"apply_patch\"", "\"{\\\"patch\\\": 7}\"")));
    has(p.input[1], "patch: want string");
    p.functions = false;
}

static void loops_end(void **state)
{
    (void)state;
    cay_agent a = { .size = sizeof a, .name = "A", .sandbox = true };
    cay_run_config conf = { .size = sizeof conf, .model = model, .sandbox = sb, .max_turns = 5 };
    cay_run_result *r = NULL;
    cay_err err = CAY_ERR_INIT;
    static const char *const again[] = { CALL("c1", "exec_command", "{\\\"cmd\\\":\\\"true\\\"}"),
                                         CALL("c2", "exec_command", "{\\\"cmd\\\":\\\"true\\\"}"),
                                         CALL("c3", "nosuch", "{}"),
                                         CALL("c4", "nosuch", "{}"),
                                         CALL("c5", "nosuch", "{}"),
                                         CALL("c6", "nosuch", "{}") };
    for (size_t i = 0; i < 6; i++)
        p.say[i] = again[i];
    assert_true(cay_agent_run(&a, NULL, "go", &conf, &r, &err) < 0);
    assert_string_equal(err.reason, "max_turns");
    assert_int_equal(p.at, 5);
}

int main(void)
{
    provider = "local";
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, box_set_up, box_tear_down)
        T(mistakes_are_told),     T(nonsense_ends_the_run), T(enormous_things_are_bounded),
        T(links_do_not_lead_out), T(output_is_only_text),   T(loops_end),
    };
    return cmocka_run_group_tests(tests, box_open, box_close);
}
