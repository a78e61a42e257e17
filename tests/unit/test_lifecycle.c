/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <lib/client/lifecycle.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Rows: from; columns: to; written down a second time, as a picture. */
static const char picture[CAY_DAMAGED + 1][CAY_DAMAGED + 2] = {
    /*              n c r p s d g x */
    [CAY_STATE_NONE] = "........", [CAY_CREATING] = "..+..+..", [CAY_RUNNING] = "...+++..",
    [CAY_PAUSED] = "..+.++..",     [CAY_STOPPED] = "..+..+..",  [CAY_DELETING] = "........",
    [CAY_GONE] = "........",       [CAY_DAMAGED] = ".....+..",
};

static void every_pair_is_as_drawn(void **s)
{
    (void)s;
    for (int from = 0; from <= CAY_DAMAGED; from++)
        for (int to = 0; to <= CAY_DAMAGED; to++)
            if (cay__state_may((cay_state)from, (cay_state)to) != (picture[from][to] == '+'))
                fail_msg("%s to %s", cay_state_name((cay_state)from),
                         cay_state_name((cay_state)to));
    assert_false(cay__state_may((cay_state)99, CAY_RUNNING));
    assert_false(cay__state_may(CAY_RUNNING, (cay_state)99));
}

static void names_go_there_and_back(void **s)
{
    (void)s;
    for (int i = 0; i <= CAY_DAMAGED; i++)
        assert_int_equal(cay_state_parse(cay_state_name((cay_state)i)), i);
    assert_int_equal(cay_state_parse("nonsense"), CAY_STATE_NONE);
    assert_int_equal(cay_state_parse(NULL), CAY_STATE_NONE);
    assert_string_equal(cay_state_name((cay_state)-1), "unknown");
    for (int i = 0; i <= CAY_LEVEL_VM; i++)
        assert_int_equal(cay_level_parse(cay_level_name((cay_level)i)), i);
    assert_int_equal(cay_level_parse("3"), CAY_LEVEL_ROOT);
    assert_int_equal(cay_level_parse("5"), -1);
    assert_int_equal(cay_level_parse("33"), -1);
    assert_int_equal(cay_level_parse(""), -1);
    assert_int_equal(cay_level_parse(NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_pair_is_as_drawn),
                                        cmocka_unit_test(names_go_there_and_back) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
