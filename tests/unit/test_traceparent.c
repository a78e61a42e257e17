/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <net/traceparent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

static void what_is_one_comes_back(void **state)
{
    (void)state;
    cay__traceparent t;
    char text[CAY__TRACEPARENT + 1];
    assert_true(cay__traceparent_read("00-" TRACE "-" SPAN "-01", &t));
    assert_string_equal(t.trace, TRACE);
    assert_string_equal(t.span, SPAN);
    assert_true(t.sampled);
    cay__traceparent_write(&t, text);
    assert_string_equal(text, "00-" TRACE "-" SPAN "-01");
    assert_true(cay__traceparent_read("00-" TRACE "-" SPAN "-00", &t));
    assert_false(t.sampled);
    assert_true(cay__traceparent_read("cc-" TRACE "-" SPAN "-01-what-comes-later",
                                      &t)); /* of a later version */
}

static void what_is_none_counts_as_missing(void **state)
{
    (void)state;
    static const char *const none[] = {
        NULL,
        "",
        "00",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-0g",
        "ff-" TRACE "-" SPAN "-01",
        "00-" TRACE "-" SPAN "-01-more",
        "00-" TRACE "-" SPAN "-012",
        "cc-" TRACE "-" SPAN "-01more",
        "00_" TRACE "-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473\n-" SPAN "-01",
    };
    cay__traceparent t;
    for (size_t i = 0; i < CAY_LEN(none); i++)
        if (cay__traceparent_read(none[i], &t))
            fail_msg("%s was taken", none[i]);
}

static void ids_are_new(void **state)
{
    (void)state;
    char a[33], b[33];
    cay__trace_id_make(a, 16);
    cay__trace_id_make(b, 16);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_one_comes_back),
        cmocka_unit_test(what_is_none_counts_as_missing),
        cmocka_unit_test(ids_are_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
