/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/str.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void sizes_and_times_have_units(void **s)
{
    (void)s;
    uint64_t v;
    assert_true(cay__str_to_size("1.5k", &v) && v == 1536);
    assert_true(cay__str_to_size("2GiB", &v) && v == 2ull << 30);
    assert_true(cay__str_to_size("unlimited", &v) && v == UINT64_MAX);
    assert_false(cay__str_to_size("12x", &v));
    assert_false(cay__str_to_size("-1", &v));
    assert_false(cay__str_to_size("99999999999999999999", &v));
    assert_false(cay__str_to_size("99999999999t", &v));
    assert_true(cay__str_to_ms("250ms", &v) && v == 250);
    assert_true(cay__str_to_ms("1.5", &v) && v == 1500);
    assert_true(cay__str_to_ms("2h", &v) && v == 7200000);
    assert_false(cay__str_to_ms("", &v));
    assert_false(cay__str_to_ms("3y", &v));
}

static void ids_are_valid_and_differ(void **s)
{
    (void)s;
    char a[21], b[21];
    cay__id_make(a, 'c');
    cay__id_make(b, 'c');
    assert_true(cay__id_valid(a, 'c'));
    assert_false(cay__id_valid(a, 'p'));
    assert_string_not_equal(a, b);
    assert_false(cay__id_valid("../../../etc/passwd.", 0));
    assert_false(cay__id_valid("c", 'c'));
}

static void joins_and_copies_are_bounded(void **s)
{
    (void)s;
    char d[8];
    assert_true(cay__str_join(d, sizeof d, "ab", "cd", NULL));
    assert_string_equal(d, "abcd");
    assert_false(cay__str_join(d, sizeof d, "abcdef", "ghi", "jkl", NULL));
    assert_string_equal(d, "abcdefg");
    char n[21];
    assert_string_equal(cay__str_u64(n, UINT64_MAX), "18446744073709551615");
}

static void crc_matches_the_standard_vector(void **s)
{
    (void)s;
    assert_int_equal(cay__crc32c(0, "123456789", 9), 0xe3069283);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_times_have_units),
        cmocka_unit_test(ids_are_valid_and_differ),
        cmocka_unit_test(joins_and_copies_are_bounded),
        cmocka_unit_test(crc_matches_the_standard_vector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
