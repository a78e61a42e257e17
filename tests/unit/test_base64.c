/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as base64 and back. */
#include <base/base.h>
#include <base/base64.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void the_vectors_of_rfc4648_hold(void **s)
{
    (void)s;
    static const char *const rows[][2] = {
        { "", "" },
        { "f", "Zg==" },
        { "fo", "Zm8=" },
        { "foo", "Zm9v" },
        { "foob", "Zm9vYg==" },
        { "fooba", "Zm9vYmE=" },
        { "foobar", "Zm9vYmFy" },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOBUF text = CAY__BUF(64);
        CAY_AUTOBUF bytes = CAY__BUF(64);
        cay__base64_put(&text, rows[i][0], strlen(rows[i][0]));
        assert_string_equal(text.data, rows[i][1]);
        assert_true(cay__base64_get(&bytes, rows[i][1], strlen(rows[i][1])));
        assert_string_equal(bytes.data, rows[i][0]);
        assert_int_equal(bytes.len, strlen(rows[i][0]));
    }
}

static void every_byte_comes_back_at_every_length(void **s)
{
    (void)s;
    unsigned char in[300];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i * 37 + 255);
    for (size_t n = 0; n <= sizeof in; n++) {
        CAY_AUTOBUF text = CAY__BUF(1000);
        CAY_AUTOBUF bytes = CAY__BUF(1000);
        cay__base64_put(&text, in, n);
        assert_int_equal(text.len, (n + 2) / 3 * 4);
        assert_int_equal(strlen(text.data), text.len);
        assert_true(cay__base64_get(&bytes, text.data, text.len));
        assert_int_equal(bytes.len, n);
        assert_memory_equal(bytes.data, in, n);
    }
}

static void the_whole_alphabet_is_used(void **s)
{
    (void)s;
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    CAY_AUTOBUF bytes = CAY__BUF(100);
    CAY_AUTOBUF text = CAY__BUF(100);
    assert_true(cay__base64_get(&bytes, alphabet, 64));
    assert_int_equal(bytes.len, 48);
    cay__base64_put(&text, bytes.data, bytes.len);
    assert_string_equal(text.data, alphabet);
}

static void what_is_not_base64_is_refused(void **s)
{
    (void)s;
    static const struct {
        const char *text;
        size_t n;
    } rows[] = {
        { "Z", 1 },        { "Zg", 2 },          { "Zg=", 3 },   { "=", 1 },
        { "==", 2 },       { "====", 4 },        { "Z===", 4 },  { "Zg==Zg==", 8 },
        { "Zm9=v", 5 },    { "=Zm9", 4 },        { "Z=g=", 4 },  { "Zm9vZ=m8", 8 },
        { "Zm9v\n", 5 },   { "Zm9v\nZm9\n", 9 }, { "Zm 9", 4 },  { "Zm9-", 4 }, /* of URLs */
        { "Zm9_", 4 },     { "Zm9\0", 4 },       { "\0m9v", 4 }, { "Zm9\xff", 4 },
        { "Zm9v====", 8 }, { "Zm9@", 4 },        { "Zm9[", 4 },  { "Zm9`", 4 },
        { "Zm9{", 4 },     { "Zm9:", 4 },        { "Zm9,", 4 },  { "Zm9.", 4 },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOBUF b = CAY__BUF(100);
        if (cay__base64_get(&b, rows[i].text, rows[i].n))
            fail_msg("row %zu, %s, was taken", i, rows[i].text);
    }
}

static void both_ways_append(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(100);
    cay__buf_str(&b, "data:");
    cay__base64_put(&b, "a\0b", 3);
    cay__base64_put(&b, NULL, 0);
    assert_string_equal(b.data, "data:YQBi");
    CAY_AUTOBUF back = CAY__BUF(100);
    cay__buf_str(&back, "x");
    assert_true(cay__base64_get(&back, b.data + 5, 4));
    assert_int_equal(back.len, 4);
    assert_memory_equal(back.data, "xa\0b", 5);
}

static void text_over_the_ceiling_is_not_written(void **s)
{
    (void)s;
    CAY_AUTOBUF exact = CAY__BUF(8);
    cay__base64_put(&exact, "abcd", 4);
    assert_false(exact.full);
    assert_string_equal(exact.data, "YWJjZA==");
    CAY_AUTOBUF less = CAY__BUF(7);
    cay__base64_put(&less, "abcd", 4);
    assert_true(less.full);
    assert_int_equal(less.len, 0);
}

static void bytes_over_the_ceiling_are_refused(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(5);
    assert_false(cay__base64_get(&b, "Zm9vYmFy", 8));
    assert_true(b.full);
    assert_int_equal(b.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_rfc4648_hold),
        cmocka_unit_test(every_byte_comes_back_at_every_length),
        cmocka_unit_test(the_whole_alphabet_is_used),
        cmocka_unit_test(what_is_not_base64_is_refused),
        cmocka_unit_test(both_ways_append),
        cmocka_unit_test(text_over_the_ceiling_is_not_written),
        cmocka_unit_test(bytes_over_the_ceiling_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
