/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/buf.h>
#include <base/str.h>
#include <lib/sandbox/frame.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define N  "naaaaaaaaaaaaaaaaaaa"
#define O  "nbbbbbbbbbbbbbbbbbbb"
#define RS "\036"

static int take(const char *data, size_t len, void *arg)
{
    cay__buf_add(arg, data, len);
    return 0;
}

/* Fed in every way to cut it in three, the output is the same. */
static cay__frame check(const char *text, const char *want)
{
    size_t n = strlen(text);
    cay__frame f;
    for (size_t a = 0; a <= n; a++)
        for (size_t b = a; b <= n; b++) {
            CAY_AUTOBUF out = CAY__BUF(4096);
            memset(&f, 0, sizeof f);
            cay__frame_expect(&f, N);
            assert_int_equal(cay__frame_feed(&f, text, a, take, &out), 0);
            assert_int_equal(cay__frame_feed(&f, text + a, b - a, take, &out), 0);
            assert_int_equal(cay__frame_feed(&f, text + b, n - b, take, &out), 0);
            assert_string_equal(out.data ? out.data : "", want);
        }
    return f;
}

static void what_is_between_our_marks_is_ours(void **s)
{
    (void)s;
    cay__frame f = check("noise" RS "cay>ready 0 b" RS "more" RS "cay<" N RS "a\nb" RS "cay>" N
                         " 42 b" RS "after",
                         "a\nb");
    assert_true(f.any && f.begun && f.done && !f.open[0]);
    assert_int_equal(f.code, 42);
    assert_int_equal(f.kind, 'b');
}

static void others_are_passed_over(void **s)
{
    (void)s;
    cay__frame f =
        check(RS "cay<" O RS "theirs" RS "cay>" O " 1 s" RS RS "cay<" N RS "ours", "ours");
    assert_true(f.begun && !f.done);
    assert_string_equal(f.open, N);
    f = check(RS "cay<" O RS "theirs", "");
    assert_true(f.any && !f.begun);
    assert_string_equal(f.open, O); /* busy */
}

static void what_only_looks_like_a_mark_is_output(void **s)
{
    (void)s;
    static const char *const text[] = {
        RS,
        RS RS RS,
        RS "cay",
        RS "cax<" N RS,
        RS "cay=" N RS,
        RS "cay<" N " 5" RS,
        RS "cay>" N RS,
        RS "cay>" N " 256 b" RS,
        RS "cay>" N " x b" RS,
        RS "cay>" N " 0 bb" RS,
        RS "cay>" O " 0 b" RS,
        RS "cay<" O RS,
        RS "cay> 0 b" RS,
        RS "cay>" N " 99999999999999999999999999 b" RS,
        RS "cay<UPPER" RS,
    };
    for (size_t i = 0; i < CAY_LEN(text); i++) {
        char all[256], want[256];
        cay__str_join(all, sizeof all, RS "cay<" N RS "[", text[i], "]" RS "cay>" N " 7 b" RS,
                      NULL);
        cay__str_join(want, sizeof want, "[", text[i], "]", NULL);
        cay__frame f = check(all, want);
        assert_true(f.done);
        assert_int_equal(f.code, 7);
    }
}

static void an_end_told_twice_is_one_end(void **s)
{
    (void)s;
    cay__frame f = check(RS "cay<" N RS "x" RS "cay>" N " 3 b" RS RS "cay>" N " 0 b" RS "y", "x");
    assert_int_equal(f.code, 3);
    cay__frame_expect(&f, O); /* the next one */
    assert_false(f.done || f.begun);
    CAY_AUTOBUF out = CAY__BUF(64);
    const char *more = RS "cay>" N " 1 b" RS RS "cay<" O RS "z";
    cay__frame_feed(&f, more, strlen(more), take, &out);
    assert_string_equal(out.data, "z");
    assert_false(f.done);
}

static void an_end_without_a_begin_ends_it(void **s)
{
    (void)s;
    cay__frame f = check("lost" RS "cay>" N " 9 s" RS, "");
    assert_true(f.done && f.code == 9 && f.kind == 's');
}

static int stop(const char *data, size_t len, void *arg)
{
    (void)data, (void)len;
    return ++*(int *)arg + 10;
}

static void a_callback_that_stops_is_not_called_again(void **s)
{
    (void)s;
    cay__frame f = { 0 };
    int calls = 0;
    const char *text = RS "cay<" N RS "a" RS "b" RS "c" RS "cay>" N " 0 b" RS;
    cay__frame_expect(&f, N);
    assert_int_equal(cay__frame_feed(&f, text, strlen(text), stop, &calls), 11);
    assert_int_equal(calls, 1);
    assert_true(f.done); /* the rest was taken all the same */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_between_our_marks_is_ours),
        cmocka_unit_test(others_are_passed_over),
        cmocka_unit_test(what_only_looks_like_a_mark_is_output),
        cmocka_unit_test(an_end_told_twice_is_one_end),
        cmocka_unit_test(an_end_without_a_begin_ends_it),
        cmocka_unit_test(a_callback_that_stops_is_not_called_again),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
