/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <cli/out.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <jansson.h>

static void sizes_and_spans_read_well(void **s)
{
    (void)s;
    char b[OUT_HUMAN];
    assert_string_equal(out_size(b, 0), "0 B");
    assert_string_equal(out_size(b, 1023), "1023 B");
    assert_string_equal(out_size(b, 1536), "1.5 KiB");
    assert_string_equal(out_size(b, 2ull << 30), "2 GiB");
    assert_string_equal(out_size(b, UINT64_MAX - 1), "15 EiB");
    assert_string_equal(out_size(b, CAY_UNLIMITED), "unlimited");
    assert_string_equal(out_span(b, 350), "350 ms");
    assert_string_equal(out_span(b, 90000), "90 s");
    assert_string_equal(out_span(b, 3600000ull * 5), "5 h");
    assert_string_equal(out_span(b, CAY_UNLIMITED), "unlimited");
}

static void tables_align_and_escape(void **s)
{
    (void)s;
    out_table t;
    out_table_open(&t, "NAME|>N|REST");
    out_cell(&t, OUT_PLAIN, "größe");
    out_cellf(&t, OUT_PLAIN, "%d", 7);
    out_cell(&t, OUT_PLAIN, "x\x1b]0;t\x07");
    out_cell(&t, OUT_BOLD, "a");
    out_cell(&t, OUT_PLAIN, "123");
    out_cell(&t, OUT_PLAIN, "two\nlines");
    CAY_AUTOBUF b = CAY__BUF(4096);
    out_table_text(&t, &b);
    assert_string_equal(b.data, "NAME     N  REST\n"
                                "größe    7  x\\x1b]0;t\\x07\n"
                                "a      123  two\\x0alines\n");
    out_table_close(&t);
}

static void json_is_valid_and_keeps_values(void **s)
{
    (void)s;
    for (int pretty = 0; pretty < 2; pretty++) {
        out_json j = OUT_JSON(pretty);
        js_open(&j, '{');
        js_kstr(&j, "text", "a\"\\\x1b\n\xff");
        js_kstr(&j, "none", NULL);
        js_ku64(&j, "big", UINT64_MAX >> 1);
        js_ki64(&j, "negative", -5);
        js_klimit(&j, "limit", CAY_UNLIMITED);
        js_kbool(&j, "yes", true);
        js_key(&j, "list");
        js_open(&j, '[');
        js_open(&j, '{');
        js_close(&j, '}');
        js_open(&j, '[');
        js_close(&j, ']');
        js_u64(&j, 1);
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
