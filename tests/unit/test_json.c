/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that is read strictly and printed as people write it, and bytes that are no text. */
#include <base/base.h>
#include <base/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void numbers_print_as_people_write_them(void **st)
{
    (void)st;
    static const char in[] = "{\"a\":0.1,\"b\":[1,-2,3.0,1e300],\"c\":null,\"d\":true,\"e\":"
                             "\"\\u0000\\\"\xc3\xa9\",\"f\":0.30000000000000004,\"g\":{}}";
    CAY_AUTOJSON *j = NULL;
    assert_int_equal(cay__json_object("it", in, &j, NULL), 0);
    CAY_AUTOFREE char *out = cay__json_text(j, 1000);
    assert_string_equal(out, "{\"a\":0.1,\"b\":[1,-2,3.0,1e300],\"c\":null,\"d\":true,\"e\":"
                             "\"\\u0000\\\"\xc3\xa9\",\"f\":0.30000000000000004,\"g\":{}}");
    assert_null(cay__json_text(j, 10));
    assert_null(cay__json_str(j, "e", NULL)); /* a NUL inside */
    assert_int_equal(cay__json_int(j, "a", 7), 7);
    assert_true(cay__json_bool(j, "d", false));
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOJSON *k = NULL;
    assert_int_equal(cay__json_object("it", "{\"a\":1} x", &k, &err), CAY_EINVAL);
    assert_non_null(strstr(err.msg, "it is not sound JSON: line 1"));
    assert_int_equal(cay__json_object("it", "99999999999999999999", &k, NULL), CAY_EINVAL);
    assert_int_equal(cay__json_any("it", "3", &k, NULL), 0);
}

static void a_text_that_is_not_sound_names_its_place(void **st)
{
    (void)st;
    static const char *const rows[] = {
        "", "{", "[1,]", "{\"a\":1,\"a\":2}", "1 2", "\"\xff\"", "{\"a\\u0000\":1}"
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        json_t *out = (json_t *)&err; /* untouched when it fails */
        assert_int_equal(cay__json_any("the labels", rows[i], &out, &err), CAY_EINVAL);
        assert_ptr_equal(out, &err);
        if (strncmp(err.msg, "the labels is not sound JSON: line 1, column ", 45) != 0)
            fail_msg("%s: %s", rows[i], err.msg);
    }
}

static void an_object_is_asked_for_by_its_braces(void **st)
{
    (void)st;
    cay_err err = CAY_ERR_INIT;
    CAY_AUTOJSON *out = NULL;
    assert_int_equal(cay__json_object("it", "[]", &out, &err), CAY_EINVAL);
    assert_string_equal(err.msg, "it is not a JSON object; write it as {…}");
    assert_null(out);
}

/* From 16 KiB on a second reader reads first; a fault that it leaves alone is still reported. */
static void large_texts_have_the_same_verdicts(void **st)
{
    (void)st;
    for (size_t n = 16380; n < 16390; n++) {
        CAY_AUTOBUF b = CAY__BUF(20000);
        cay__buf_str(&b, "{\"a\":\"");
        while (b.len < n - 2)
            cay__buf_str(&b, "x");
        cay__buf_str(&b, "\"}");
        cay_err err = CAY_ERR_INIT;
        CAY_AUTOJSON *j = NULL;
        assert_int_equal(cay__json_object("it", b.data, &j, &err), 0);
        assert_int_equal(strlen(cay__json_str(j, "a", "")), n - 8);
        b.data[n - 1] = ',';
        CAY_AUTOJSON *k = NULL;
        assert_int_equal(cay__json_object("it", b.data, &k, &err), CAY_EINVAL);
        assert_non_null(strstr(err.msg, "it is not sound JSON: line 1, column "));
    }
}

static void members_of_another_type_count_as_missing(void **st)
{
    (void)st;
    CAY_AUTOJSON *j = NULL;
    assert_int_equal(
        cay__json_object("it", "{\"s\":\"x\",\"i\":-7,\"r\":1.5,\"b\":false,\"n\":null}", &j, NULL),
        0);
    assert_string_equal(cay__json_str(j, "s", NULL), "x");
    assert_null(cay__json_str(j, "i", NULL));
    assert_string_equal(cay__json_str(j, "none", "d"), "d");
    assert_string_equal(cay__json_str(NULL, "s", "d"), "d");
    assert_int_equal(cay__json_int(j, "i", 1), -7);
    assert_int_equal(cay__json_int(j, "r", 1), 1);
    assert_int_equal(cay__json_int(j, "n", 1), 1);
    assert_false(cay__json_bool(j, "b", true));
    assert_true(cay__json_bool(j, "n", true));
}

static void a_printed_text_has_exactly_its_ceiling(void **st)
{
    (void)st;
    CAY_AUTOJSON *j = json_pack("{s:[i,s]}", "a", 1, "b");
    CAY_AUTOFREE char *exact = cay__json_text(j, 13);
    assert_string_equal(exact, "{\"a\":[1,\"b\"]}");
    assert_null(cay__json_text(j, 12));
    assert_null(cay__json_text(j, 0));
    CAY_AUTOFREE char *none = cay__json_text(NULL, 10);
    assert_string_equal(none, "null");
}

static void reals_come_back_as_they_were(void **st)
{
    (void)st;
    static const double rows[] = { 0.1,
                                   1.0 / 3,
                                   1e-300,
                                   5e-324,
                                   1.7976931348623157e308,
                                   123456789.123456789,
                                   -0.0,
                                   2.5,
                                   1e22,
                                   4503599627370497.5 };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOJSON *j = json_real(rows[i]);
        CAY_AUTOFREE char *text = cay__json_text(j, 100);
        CAY_AUTOJSON *back = json_loads(text, JSON_DECODE_ANY, NULL);
        double v = json_real_value(back);
        if (memcmp(&v, &rows[i], sizeof v) != 0)
            fail_msg("%.17g is printed as %s", rows[i], text);
    }
}

static void bytes_that_are_no_text_travel_as_hex(void **st)
{
    (void)st;
    static const char *const rows[] = { "",     "plain",      "gr\xc3\xbc\xc3\x9f",
                                        "\xff", "a\xffz\x01", "\xc3" };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOJSON *j = cay__json_bytes(rows[i]);
        CAY_AUTOFREE char *back = cay__json_to_bytes(j);
        assert_string_equal(back, rows[i]);
    }
    CAY_AUTOJSON *hex = cay__json_bytes("\x0a\xff");
    assert_string_equal(cay__json_str(hex, "hex", NULL), "0aff");
}

static void wrong_hex_is_refused(void **st)
{
    (void)st;
    static const char *const rows[] = { "{\"hex\":\"a\"}",
                                        "{\"hex\":\"0g\"}",
                                        "{\"hex\":\"AB\"}",
                                        "{\"hex\":\"4100\"}",
                                        "{\"hex\":1}",
                                        "{}",
                                        "[]",
                                        "17",
                                        "\"a\\u0000b\"" };
    assert_null(cay__json_to_bytes(NULL));
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOJSON *j = NULL;
        assert_int_equal(cay__json_any("it", rows[i], &j, NULL), 0);
        if (cay__json_to_bytes(j))
            fail_msg("%s was taken", rows[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_print_as_people_write_them),
        cmocka_unit_test(a_text_that_is_not_sound_names_its_place),
        cmocka_unit_test(an_object_is_asked_for_by_its_braces),
        cmocka_unit_test(large_texts_have_the_same_verdicts),
        cmocka_unit_test(members_of_another_type_count_as_missing),
        cmocka_unit_test(a_printed_text_has_exactly_its_ceiling),
        cmocka_unit_test(reals_come_back_as_they_were),
        cmocka_unit_test(bytes_that_are_no_text_travel_as_hex),
        cmocka_unit_test(wrong_hex_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
