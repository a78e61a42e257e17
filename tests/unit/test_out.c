/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <cli/out.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>

static const char *volatile no_text;

static void sizes_and_spans_read_well(void **s)
{
    (void)s;
    assert_string_equal(out_size(0).s, "0 B");
    assert_string_equal(out_size(1023).s, "1023 B");
    assert_string_equal(out_size(1536).s, "1.5 KiB");
    assert_string_equal(out_size(2ull << 30).s, "2 GiB");
    assert_string_equal(out_size(UINT64_MAX - 1).s, "15 EiB");
    assert_string_equal(out_size(CAY_UNLIMITED).s, "unlimited");
    assert_string_equal(out_span(350).s, "350 ms");
    assert_string_equal(out_span(90000).s, "90 s");
    assert_string_equal(out_span(3600000ull * 5).s, "5 h");
    assert_string_equal(out_span(CAY_UNLIMITED).s, "unlimited");
}

static void tables_align_and_escape(void **s)
{
    (void)s;
    out_table t;
    out_table_open(&t, "NAME|>N|REST");
    out_row(&t, "%s|%d|%s", "größe", 7, "x\x1b]0;t\x07");
    out_cell(&t, OUT_BOLD, "a");
    out_cellf(&t, OUT_PLAIN, "%.1f", 1.5);
    out_cell(&t, OUT_PLAIN, "two\nlines");
    out_row(&t, "%c-%s|-%zu|~-%s of %jd", OUT_GOOD, "0", (size_t)0, no_text, INT64_MIN);
    out_row(&t, "-%s|-%u|-%s", "", 12u, "a|b");
    CAY_AUTOBUF b = CAY__BUF(4096);
    out_table_text(&t, &b);
    assert_string_equal(b.data, "NAME     N  REST\n"
                                "größe    7  x\\x1b]0;t\\x07\n"
                                "a      1.5  two\\x0alines\n"
                                "0        -   of -9223372036854775808\n"
                                "-       12  a|b\n");
    out_table_close(&t);
}

static void json_is_valid_and_keeps_values(void **s)
{
    (void)s;
    for (int pretty = 0; pretty < 2; pretty++) {
        out_json j = OUT_JSON(pretty);
        js_open(&j, '{');
        js_put(&j, "text:%s, none:%s, big:%ju, negative:%d, limit=%s, yes?%d, +left:%s, +out:%d",
               "a\"\\\x1b\n\xff", no_text, UINT64_MAX >> 1, -5, js_limit(CAY_UNLIMITED).s, true, "",
               0);
        js_put(&j, "inside:{zero:%zu, +text:%s}", (size_t)0, "0");
        js_key(&j, "list");
        js_open(&j, '[');
        js_open(&j, '{');
        js_close(&j, '}');
        js_open(&j, '[');
        js_close(&j, ']');
        js_raw(&j, "1");
        js_close(&j, ']');
        js_key(&j, "raw");
        js_raw(&j, "{\"k\":[1,2]}");
        js_close(&j, '}');
        json_t *root = json_loads(j.b.data, 0, NULL);
        assert_non_null(root);
        assert_string_equal(json_string_value(json_object_get(root, "text")),
                            "a\"\\\x1b\n\xef\xbf\xbd");
        assert_true(json_is_null(json_object_get(root, "none")) &&
                    json_is_null(json_object_get(root, "limit")));
        assert_true(json_integer_value(json_object_get(root, "negative")) == -5);
        assert_true(json_is_true(json_object_get(root, "yes")));
        assert_null(json_object_get(root, "left"));
        assert_null(json_object_get(root, "out"));
        const json_t *inside = json_object_get(root, "inside");
        assert_true(json_is_integer(json_object_get(inside, "zero")));
        assert_string_equal(json_string_value(json_object_get(inside, "text")), "0");
        assert_int_equal(json_array_size(json_object_get(root, "list")), 3);
        assert_int_equal(json_array_size(json_object_get(json_object_get(root, "raw"), "k")), 2);
        json_decref(root);
        cay__buf_clear(&j.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_spans_read_well),
        cmocka_unit_test(tables_align_and_escape),
        cmocka_unit_test(json_is_valid_and_keeps_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
