/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers with a ceiling, and text made safe for JSON and for terminals. */
#include <base/base.h>
#include <base/buf.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

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

static void a_full_buffer_refuses_even_what_would_fit(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(10);
    cay__buf_str(&b, "01234567");
    cay__buf_str(&b, "too long");
    assert_true(b.full);
    cay__buf_str(&b, "8");
    cay__buf_fmt(&b, "%d", 9);
    cay__buf_json(&b, "", 0);
    cay__buf_safe(&b, "y", 1, false);
    assert_null(cay__buf_room(&b, 0));
    assert_string_equal(b.data, "01234567");
    assert_int_equal(b.len, 8);
}

static void an_append_is_whole_or_nothing(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(4);
    cay__buf_add(&b, "ab", 2);
    cay__buf_fmt(&b, "%s", "cde");
    assert_true(b.full);
    assert_string_equal(b.data, "ab");
}

static void a_ceiling_of_zero_holds_nothing(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(0);
    cay__buf_add(&b, NULL, 0);
    cay__buf_str(&b, "");
    cay__buf_fmt(&b, "%s", "");
    assert_false(b.full);
    assert_string_equal(b.data, "");
    cay__buf_add(&b, "", 1); /* a NUL is a byte like any other */
    assert_true(b.full);
    assert_int_equal(b.len, 0);
}

static void an_empty_append_makes_a_string(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(100);
    assert_null(b.data);
    cay__buf_add(&b, NULL, 0);
    assert_non_null(b.data);
    assert_string_equal(b.data, "");
    assert_int_equal(b.len, 0);
}

static void nul_bytes_are_kept(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(100);
    cay__buf_add(&b, "a\0b", 3);
    cay__buf_add(&b, "\0", 1);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, "a\0b\0", 5);
}

/* Every length around the first allocation and its doublings; the sanitizer sees a byte too many.
 */
static void data_ends_with_nul_at_every_length(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(5000);
    for (size_t i = 0; i < 5000; i++) {
        char c = (char)('a' + i % 26);
        cay__buf_add(&b, &c, 1);
        assert_int_equal(b.len, i + 1);
        assert_true(b.len < b.cap);
        assert_int_equal(b.data[b.len], 0);
    }
    assert_false(b.full);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(b.data[i], 'a' + (int)(i % 26));
}

static void room_may_be_used_in_part(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(64);
    char *room = cay__buf_room(&b, 64);
    assert_non_null(room);
    memset(room, 'x', 64);
    cay__buf_used(&b, 3);
    assert_string_equal(b.data, "xxx");
    room = cay__buf_room(&b, 61);
    assert_ptr_equal(room, b.data + 3);
    cay__buf_used(&b, 0);
    assert_string_equal(b.data, "xxx");
    assert_null(cay__buf_room(&b, 62));
    assert_true(b.full);
}

static void a_huge_size_cannot_wrap_around(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(1000);
    cay__buf_str(&b, "ab");
    assert_null(cay__buf_room(&b, SIZE_MAX));
    assert_true(b.full);
    CAY_AUTOBUF c = CAY__BUF(1000);
    cay__buf_str(&c, "ab");
    assert_null(cay__buf_room(&c, SIZE_MAX - 1)); /* 2 + it is 0 again */
    assert_true(c.full);
    assert_string_equal(c.data, "ab");
}

static void formatted_text_longer_than_the_room_grows_it(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(1000);
    cay__buf_fmt(&b, "%0200d|", 7);
    cay__buf_fmt(&b, "%s%c%zu", "é", 'x', (size_t)12);
    assert_int_equal(b.len, 206);
    assert_string_equal(b.data + 199, "7|éx12");
    CAY_AUTOBUF exact = CAY__BUF(5);
    cay__buf_fmt(&exact, "%05d", 42);
    assert_false(exact.full);
    assert_string_equal(exact.data, "00042");
}

static void a_cleared_buffer_can_be_used_again(void **s)
{
    (void)s;
    cay__buf b = CAY__BUF(3);
    cay__buf_str(&b, "abcd");
    assert_true(b.full);
    cay__buf_clear(&b);
    assert_false(b.full);
    assert_null(b.data);
    cay__buf_str(&b, "abc");
    assert_string_equal(b.data, "abc");
    cay__buf_clear(&b);
    cay__buf_clear(&b); /* a second time does no harm */
}

static void utf8_sequences_are_measured(void **s)
{
    (void)s;
    static const struct {
        const char *text;
        size_t n, len;
    } rows[] = {
        { "a", 1, 1 },
        { "", 0, 0 },
        { "\0", 1, 1 },
        { "\x7f", 1, 1 },
        { "\x80", 1, 0 },
        { "\xbf", 1, 0 },
        { "\xc0\x80", 2, 0 }, /* overlong NUL */
        { "\xc1\xbf", 2, 0 },
        { "\xc2\x80", 2, 2 },
        { "\xdf\xbf", 2, 2 },
        { "\xc3", 1, 0 },
        { "\xc3x", 2, 0 },
        { "\xe0\x9f\xbf", 3, 0 }, /* overlong */
        { "\xe0\xa0\x80", 3, 3 },
        { "\xed\x9f\xbf", 3, 3 },
        { "\xed\xa0\x80", 3, 0 }, /* half of a surrogate pair */
        { "\xee\x80\x80", 3, 3 },
        { "\xef\xbf\xbf", 3, 3 },
        { "\xe2\x82", 2, 0 },
        { "\xe2\x82\xac", 2, 0 }, /* the rest is not ours to read */
        { "\xf0\x8f\xbf\xbf", 4, 0 },
        { "\xf0\x90\x80\x80", 4, 4 },
        { "\xf4\x8f\xbf\xbf", 4, 4 },
        { "\xf4\x90\x80\x80", 4, 0 }, /* past U+10FFFF */
        { "\xf5\x80\x80\x80", 4, 0 },
        { "\xf8\x88\x80\x80\x80", 5, 0 },
        { "\xff", 1, 0 },
        { "\xf0\x9f\x98\x80z", 5, 4 },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++)
        if (cay__utf8_len(rows[i].text, rows[i].n) != rows[i].len)
            fail_msg("row %zu: %zu", i, cay__utf8_len(rows[i].text, rows[i].n));
}

static size_t encode_utf8(unsigned c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = 2;
    if (c >= 0x800)
        n = 3;
    if (c >= 0x10000)
        n = 4;
    static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[n] | c);
    return n;
}

static void every_code_point_comes_back_from_json(void **s)
{
    (void)s;
    char in[4];
    for (unsigned c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
        bool surrogate = c >= 0xd800 && c < 0xe000;
        size_t n = encode_utf8(c, in);
        assert_int_equal(cay__utf8_len(in, n), surrogate ? 0 : n);
        if (surrogate)
            continue;
        CAY_AUTOBUF b = CAY__BUF(64);
        cay__buf_json(&b, in, n);
        json_t *j = json_loadb(b.data, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (!j)
            fail_msg("U+%04X is written as %s", c, b.data);
        assert_int_equal(json_string_length(j), n);
        assert_memory_equal(json_string_value(j), in, n);
        json_decref(j);
    }
}

static void broken_utf8_becomes_the_replacement_character(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF(100);
    cay__buf_json(&b, "a\xff\xc3(\xe2\x82", 6);
    assert_string_equal(b.data, "\"a\\ufffd\\ufffd(\\ufffd\\ufffd\"");
    CAY_AUTOBUF cut = CAY__BUF(100);
    cay__buf_json(&cut, "\xe2\x82\xac", 2); /* its last byte is beyond the length */
    assert_string_equal(cut.data, "\"\\ufffd\\ufffd\"");
    CAY_AUTOBUF none = CAY__BUF(100);
    cay__buf_json(&none, "", 0);
    assert_string_equal(none.data, "\"\"");
}

static void json_text_over_the_ceiling_makes_it_full(void **s)
{
    (void)s;
    CAY_AUTOBUF exact = CAY__BUF(8);
    cay__buf_json(&exact, "\n", 1);
    assert_false(exact.full);
    assert_string_equal(exact.data, "\"\\u000a\"");
    CAY_AUTOBUF less = CAY__BUF(7);
    cay__buf_json(&less, "\n", 1);
    assert_true(less.full);
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

static void newlines_and_tabs_are_kept_only_on_request(void **s)
{
    (void)s;
    CAY_AUTOBUF kept = CAY__BUF(100);
    cay__buf_safe(&kept, "a\n\tb \r\0", 7, true);
    assert_string_equal(kept.data, "a\n\tb \\x0d\\x00");
    CAY_AUTOBUF shown = CAY__BUF(100);
    cay__buf_safe(&shown, "a\n\tb\r\0", 6, false);
    assert_string_equal(shown.data, "a\\x0a\\x09b\\x0d\\x00");
}

static void text_that_changes_direction_is_shown(void **s)
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
        { "\U0001f600", "\U0001f600", "\"\U0001f600\"" },
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_stops_at_its_ceiling),
        cmocka_unit_test(a_full_buffer_refuses_even_what_would_fit),
        cmocka_unit_test(an_append_is_whole_or_nothing),
        cmocka_unit_test(a_ceiling_of_zero_holds_nothing),
        cmocka_unit_test(an_empty_append_makes_a_string),
        cmocka_unit_test(nul_bytes_are_kept),
        cmocka_unit_test(data_ends_with_nul_at_every_length),
        cmocka_unit_test(room_may_be_used_in_part),
        cmocka_unit_test(a_huge_size_cannot_wrap_around),
        cmocka_unit_test(formatted_text_longer_than_the_room_grows_it),
        cmocka_unit_test(a_cleared_buffer_can_be_used_again),
        cmocka_unit_test(utf8_sequences_are_measured),
        cmocka_unit_test(every_code_point_comes_back_from_json),
        cmocka_unit_test(broken_utf8_becomes_the_replacement_character),
        cmocka_unit_test(json_text_over_the_ceiling_makes_it_full),
        cmocka_unit_test(unsafe_bytes_are_shown_not_sent),
        cmocka_unit_test(newlines_and_tabs_are_kept_only_on_request),
        cmocka_unit_test(text_that_changes_direction_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
