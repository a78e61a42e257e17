/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/buf.h>
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

static void unsafe_bytes_are_shown_not_sent(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(1024);
    cay__buf_safe(&b, "a\x1b]52;c;x\x07\xc2\x9b\xff\n", 14, true);
    assert_string_equal(b.data, "a\\x1b]52;c;x\\x07\\xc2\\x9b\\xff\n");
    CAY_AUTOBUF j = CAY__BUF(1024);
    cay__buf_json(&j, "a\"\xff\n\xe2\x82\xac", 7);
    assert_string_equal(j.data, "\"a\\\"\\ufffd\\u000a\xe2\x82\xac\"");
}

static void text_that_turns_around_is_told(void **s)
{
    (void)s;
    static const struct {
        const char *in, *safe, *json;
    } rows[] = {
        { "\u202a", "\\xe2\\x80\\xaa", "\"\\u202a\"" },
        { "\u202e", "\\xe2\\x80\\xae", "\"\\u202e\"" },
        { "\u2066", "\\xe2\\x81\\xa6", "\"\\u2066\"" },
        { "\u2069", "\\xe2\\x81\\xa9", "\"\\u2069\"" },
        { "\u200e", "\\xe2\\x80\\x8e", "\"\\u200e\"" },
        { "\u200f", "\\xe2\\x80\\x8f", "\"\\u200f\"" },
        { "\u061c", "\\xd8\\x9c", "\"\\u061c\"" },
        { "\xc2\x80", "\\xc2\\x80", "\"\\u0080\"" },
        { "\xc2\x9b", "\\xc2\\x9b", "\"\\u009b\"" },
        { "\u00a0", "\u00a0", "\"\u00a0\"" },
        { "\u2029x", "\u2029x", "\"\u2029x\"" },
        { "\u206a", "\u206a", "\"\u206a\"" },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOBUF b = CAY__BUF(64);
        CAY_AUTOBUF j = CAY__BUF(64);
        cay__buf_safe(&b, rows[i].in, strlen(rows[i].in), true);
        cay__buf_json(&j, rows[i].in, strlen(rows[i].in));
        assert_string_equal(b.data, rows[i].safe);
        assert_string_equal(j.data, rows[i].json);
    }
}

static void a_buffer_stops_at_its_ceiling(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(10);
    cay__buf_str(&b, "0123456789");
    assert_false(b.full);
    cay__buf_str(&b, "x");
    assert_true(b.full);
    assert_int_equal(b.len, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_times_have_units),
        cmocka_unit_test(ids_are_valid_and_differ),
        cmocka_unit_test(joins_and_copies_are_bounded),
        cmocka_unit_test(crc_matches_the_standard_vector),
        cmocka_unit_test(unsafe_bytes_are_shown_not_sent),
        cmocka_unit_test(a_buffer_stops_at_its_ceiling),
        cmocka_unit_test(text_that_turns_around_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
