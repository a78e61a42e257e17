/* SPDX-License-Identifier: Apache-2.0 */
#include <base/buf.h>
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static void what_is_taken_is_zeroed_and_aligned(void **state)
{
    (void)state;
    cay__arena a = { NULL };
    for (size_t n = 1; n < 300; n += 7) {
        unsigned char *p = cay__arena_take(&a, n);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
    }
    cay__arena_clear(&a);
}

static void no_string_is_an_empty_one(void **state)
{
    (void)state;
    cay__arena a = { NULL };
    char text[] = "abc", *copy = cay__arena_str(&a, text);
    text[0] = 'x';
    assert_string_equal(copy, "abc");
    assert_string_equal(cay__arena_str(&a, ""), "");
    assert_string_equal(cay__arena_str(&a, NULL), "");
    cay__arena_clear(&a);
}

static void what_is_adopted_goes_with_the_rest(void **state) /* a leak is seen by the sanitizer */
{
    (void)state;
    cay__arena a = { NULL };
    char *p = malloc(40);
    assert_ptr_equal(cay__arena_adopt(&a, p), p);
    cay__arena_str(&a, "more");
    cay__arena_clear(&a);
    assert_null(a.last);
    assert_string_equal(cay__arena_str(&a, "again"), "again"); /* it can be used anew */
    cay__arena_clear(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_is_zeroed_and_aligned),
        cmocka_unit_test(no_string_is_an_empty_one),
        cmocka_unit_test(what_is_adopted_goes_with_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
