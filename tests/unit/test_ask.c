/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody sees who is asked about a call, and what of a saved run is believed. */
#include <base/base.h>
#include <cli/agent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void text_is(const char *tool, const char *arguments, const char *want)
{
    CAY_AUTOBUF b = CAY__BUF(65536);
    assert_int_equal(agent_ask_text(&b, tool, arguments, 40, false), 0);
    assert_string_equal(b.data, want);
}

static void every_argument_is_shown(void **state)
{
    (void)state;
    text_is("exec_command",
            "{\"cmd\":\"ls\",\"workdir\":\"/etc\",\"shell\":\"/tmp/"
            "evil\",\"tty\":true,\"n\":[1,{\"a\":null}]}",
            "exec_command\n  cmd\n    | ls\n  workdir\n    | /etc\n  shell\n    | /tmp/evil\n  "
            "tty\n    | true\n  n\n    | [1,{\"a\":null}]\n");
    text_is("apply_patch", "*** Begin Patch\n*** Delete File: a\n*** End Patch\n",
            "apply_patch\n    | *** Begin Patch\n    | *** Delete File: a\n    | *** End Patch\n");
    text_is("t", "{\"a\":1,\"a\":2}",
            "t\n    | {\"a\":1,\"a\":2}\n"); /* which one counts is not for us to say */
    text_is("t", "{\"a\":\"\"}", "t\n  a\n    | \n");
    text_is("t", "", "t\n    | \n");
}

static void nothing_passes_for_something_else(void **state)
{
    (void)state;
    text_is("t", "{\"cmd\":\"x\\n  workdir\\r\\u001b[2J\\u202e\"}",
            "t\n  cmd\n    | x\n    |   workdir\\x0d\\x1b[2J\\xe2\\x80\\xae\n");
    text_is("t\n", "{\"a\\nb: c\":\"\"}", "\"t\\u000a\"\n  \"a\\u000ab: c\"\n    | \n");
    text_is("t", "{\"cmd\":\"ls                                workdir\"}",
            "t\n  cmd\n    | ls                                \n    \\ workdir\n");
    text_is("t", "{\"cmd\":\"\\t\\t\\t\\t\\tx\\u0000y\"}",
            "t\n  cmd\n    | \t\t\t\t\n    \\ \tx\\x00y\n");
}

static void what_is_long_is_counted_and_shown_when_wanted(void **state)
{
    (void)state;
    CAY_AUTOBUF args = CAY__BUF(65536);
    CAY_AUTOBUF part = CAY__BUF(1 << 20);
    CAY_AUTOBUF all = CAY__BUF(1 << 20);
    cay__buf_str(&args, "{\"cmd\":\"");
    for (size_t i = 0; i < 5000; i++)
        cay__buf_str(&args, "a");
    cay__buf_str(&args, "END\",\"lines\":\"");
    for (size_t i = 0; i < 100; i++)
        cay__buf_str(&args, "b\\n");
    cay__buf_str(&args, "\",\"workdir\":\"/etc\"}");
    size_t hidden = agent_ask_text(&part, "t", args.data, 80, false);
    assert_int_equal(hidden, 5003 - 4096 + 2 * 40);
    assert_non_null(
        strstr(part.data, "  workdir\n    | /etc\n  987 bytes of it are not shown; s shows all\n"));
    assert_null(strstr(part.data, "END"));
    assert_int_equal(agent_ask_text(&all, "t", args.data, 80, true), 0);
    assert_non_null(strstr(all.data, "END"));
    assert_null(strstr(all.data, "not shown"));
    args.len = 0; /* and so are many */
    cay__buf_str(&args, "{\"a0\":1");
    for (size_t i = 1; i < 40; i++)
        cay__buf_fmt(&args, ",\"a%zu\":1", i);
    cay__buf_str(&args, "}");
    part.len = all.len = 0;
    assert_int_equal(agent_ask_text(&part, "t", args.data, 80, false), 8 * 4);
    assert_int_equal(agent_ask_text(&all, "t", args.data, 80, true), 0);
    assert_non_null(strstr(all.data, "  a39\n    | 1\n"));
}

static void a_yes_in_a_state_is_forgotten(void **state)
{
    (void)state;
    CAY_AUTOFREE char *text =
        agent_ask_forget("{\"context\":{\"approvals\":{\"exec_command\":{\"approved\":true,"
                         "\"rejected\":[\"c9\"]},\"x\":{\"approved\":[\"c1\"]},\"y\":1}}}");
    assert_string_equal(text, "{\"context\":{\"approvals\":{\"exec_command\":{\"rejected\":[\"c9\"]"
                              "},\"x\":{},\"y\":1}}}");
    CAY_AUTOFREE char *other = agent_ask_forget("{\"context\":[]}");
    assert_string_equal(other, "{\"context\":[]}");
    assert_null(agent_ask_forget("[]"));
    assert_null(agent_ask_forget("{\"context\":{},\"context\":{}}"));
}

static void modes_that_ask_nobody_answer_at_once(void **state)
{
    (void)state;
    const cay_tool_call call = { .tool = "t", .arguments = "{}" };
    char *message = NULL;
    assert_int_equal(agent_ask("never", &call, &message), CAY_REJECT);
    assert_int_equal(agent_ask("auto", &call, &message), CAY_APPROVE);
    assert_null(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_argument_is_shown),
        cmocka_unit_test(nothing_passes_for_something_else),
        cmocka_unit_test(what_is_long_is_counted_and_shown_when_wanted),
        cmocka_unit_test(a_yes_in_a_state_is_forgotten),
        cmocka_unit_test(modes_that_ask_nobody_answer_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
