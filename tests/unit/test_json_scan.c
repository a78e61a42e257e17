/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/json_scan.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static bool sound(const char *s)
{
    return cay__scan_sound(s, s + strlen(s));
}

static void values_are_sound_or_not(void **s)
{
    (void)s;
    static const char *const good[] = { "1",          " -0.5e+3 ", "\"a\\n\\u00e4\"",      "[]",
                                        "[1,[2]]",    "{}",        "{\"a\":{\"b\":null}}", "true",
                                        "\"\\ud800\"" };
    static const char *const bad[] = { "",    "01",      "1.",        "[1,]",     "{\"a\"}",
                                       "\"a", "\"\\x\"", "\"\\u12\"", "\"\xff\"", "\"a\nb\"",
                                       "1 2", "nul",     "{a:1}" };
    for (size_t i = 0; i < CAY_LEN(good); i++)
        assert_true(sound(good[i]));
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        assert_false(sound(bad[i]));
    char deep[200];
    memset(deep, '[', 66);
    memset(deep + 66, ']', 66);
    deep[132] = 0;
    assert_false(sound(deep));
    deep[131] = 0;
    assert_true(sound(deep + 1));
}

static void members_are_found(void **s)
{
    (void)s;
    const char *j = " {\"a\" : [1, {\"b\":2}], \"b\":\"x\\\"y\",\"c\":3}", *end = j + strlen(j);
    const char *at, *stop;
    CAY_AUTOBUF out = CAY__BUF(100);
    assert_true(cay__scan_member(j, end, "b", &at, &stop));
    assert_true(cay__scan_text(at, stop, &out));
    assert_string_equal(out.data, "x\"y");
    assert_true(cay__scan_member(j, end, "a", &at, &stop));
    assert_int_equal(stop - at, strlen("[1, {\"b\":2}]"));
    assert_false(cay__scan_text(at, stop, &out));
    assert_false(cay__scan_member(j, end, "d", &at, &stop));
    assert_false(cay__scan_member("[1]", j, "a", &at, &stop));
}

static void texts_lose_zeros_and_halves(void **s)
{
    (void)s;
    static const char in[] = "\"a\\u0000b\\ud83d\\ude00\\udc00\"";
    CAY_AUTOBUF out = CAY__BUF(100);
    assert_true(cay__scan_text(in, in + sizeof in - 1, &out));
    assert_string_equal(out.data, "ab\xf0\x9f\x98\x80\xef\xbf\xbd");
}

static void escapes_come_piece_by_piece(void **s)
{
    (void)s;
    static const char in[] = "\\ud83d\\ude00";
    uint32_t c;
    for (size_t n = 0; n < 12; n++)
        assert_int_equal(cay__scan_escape(in, n, &c), 0);
    assert_int_equal(cay__scan_escape(in, 12, &c), 12);
    assert_int_equal(c, 0x1f600);
    assert_int_equal(cay__scan_escape("\\ud83dx", 7, &c), 6);
    assert_int_equal(c, 0xd83d);
    assert_int_equal(cay__scan_escape("\\n", 2, &c), 2);
    assert_int_equal(c, '\n');
    assert_int_equal(cay__scan_escape("\\q", 2, &c), -1);
    assert_int_equal(cay__scan_escape("\\u1g", 4, &c), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_sound_or_not),
        cmocka_unit_test(members_are_found),
        cmocka_unit_test(texts_lose_zeros_and_halves),
        cmocka_unit_test(escapes_come_piece_by_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
