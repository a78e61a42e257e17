/* SPDX-License-Identifier: Apache-2.0 */
/* The quick reader of JSON against jansson, on the same inputs: text that it takes jansson takes,
 * too, and both read the same; everything else it leaves to jansson. */
#include <base/base.h>
#include <base/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

/* The flags that json_quick.c promises to follow. */
enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY };

typedef enum verdict {
    BOTH_REFUSE,
    BOTH_TAKE,
    LEFT_TO_JANSSON,
} verdict;

static verdict compare_readers(const char *text, size_t n)
{
    /* An exact copy on the heap: the sanitizer sees a read past its end. */
    CAY_AUTOFREE char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    CAY_AUTOJSON *quick = cay__json_quick(copy, n);
    CAY_AUTOJSON *slow = json_loadb(copy, n, FLAGS, NULL);
    if (!quick)
        return slow ? LEFT_TO_JANSSON : BOTH_REFUSE;
    if (!slow)
        fail_msg("jansson refuses %.*s", (int)n, text);
    CAY_AUTOFREE char *a = json_dumps(quick, JSON_ENCODE_ANY);
    CAY_AUTOFREE char *b = json_dumps(slow, JSON_ENCODE_ANY);
    if (!json_equal(quick, slow) || !a || !b || strcmp(a, b) != 0)
        fail_msg("%.*s is read as %s and as %s", (int)n, text, a ? a : "-", b ? b : "-");
    return BOTH_TAKE;
}

#define SAYS(text) (compare_readers((text), sizeof(text) - 1))

static void sound_text_is_read_as_jansson_reads_it(void **s)
{
    (void)s;
    static const char *const rows[] = {
        "{}",
        " [ ] ",
        "\t\r\n {\r\n\t\"a\" \n:\t[ 1 , 2\n]\r} \n",
        "[1,-2,0,-0,999999999999999999,-999999999999999999]",
        "{\"b\":1,\"a\":{\"z\":[true,false,null]}}",
        "{\"\":\"\"}",
        "\"\"",
        "17",
        "true",
        "null",
        "[[],{},[[]],[{}]]",
        "{\"a\":{\"a\":{\"a\":1}},\"A\":2}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e4\\u20ac\\ud83d\\ude00\\u0000x\"",
        "\"\\u00Ff\\uabCD\"",
        "\"\\ud800\\udc00\\udbff\\udfff\"",
        "{\"k\\u00e4y\":\"v\\n\",\"two\":\"t\"}",
        "{\"\\u0061\":\"\\u0062\",\"c\":\"\\u0064\"}",
        ("\"gr\xc3\xbc\xc3\x9f"
         "e \xe2\x82\xac \xf0\x9f\x98\x80, and a tail that is longer than a step\""),
        "\"\x7f\"",
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++)
        if (compare_readers(rows[i], strlen(rows[i])) != BOTH_TAKE)
            fail_msg("%s is not taken", rows[i]);
}

static void unsound_text_is_refused_by_both(void **s)
{
    (void)s;
    static const char *const rows[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{\"a\":1]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{\"a\"}",
        "{a:1}",
        "{1:1}",
        "{'a':1}",
        "{\"a\":1 \"b\":2}",
        "[1]x",
        "[1][2]",
        "1 2",
        "[01]",
        "[-01]",
        "[+1]",
        "[.5]",
        "[1.]",
        "[1e]",
        "[-]",
        "[--1]",
        "[0x10]",
        "[NaN]",
        "[Infinity]",
        "tru",
        "truex",
        "True",
        "nul",
        "[fals]",
        "// no\n1",
        "/* no */1",
        "\"a\nb\"",
        "\"a\tb\"",
        "\"\x1f\"",
        "\"\\x\"",
        "\"\\",
        "\"\\\"",
        "\"\\u\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u 123\"",
        "\"\\ud83d\"",
        "\"\\ud83d\\n\"",
        "\"\\ude00\"",
        "\"\\ud83d\\u0041\"",
        "\"\\ud83d\\ud83d\"",
        "\"\\ud83d\\u12\"",
        "\"\xc3\"",
        "\"\xc3(\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf5\x80\x80\x80\"",
        "\"\xff\"",
        "\"open",
        "\xef\xbb\xbf{}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"a\\u0000\":1}",
        "\v1",
        "\f[]",
        "\xc2\xa0[]",
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++)
        if (compare_readers(rows[i], strlen(rows[i])) != BOTH_REFUSE)
            fail_msg("%s is taken", rows[i]);
}

static void reals_and_large_numbers_are_left_to_jansson(void **s)
{
    (void)s;
    assert_int_equal(SAYS("[1.5]"), LEFT_TO_JANSSON);
    assert_int_equal(SAYS("[1e3]"), LEFT_TO_JANSSON);
    assert_int_equal(SAYS("[-0.0]"), LEFT_TO_JANSSON);
    assert_int_equal(SAYS("1000000000000000000"), LEFT_TO_JANSSON);
    assert_int_equal(SAYS("-9223372036854775808"), LEFT_TO_JANSSON);
    assert_int_equal(SAYS("9223372036854775807"), LEFT_TO_JANSSON);
    assert_int_equal(SAYS("9223372036854775808"), BOTH_REFUSE);
    assert_int_equal(SAYS("[9999999999999999999]"), BOTH_REFUSE);
    assert_int_equal(SAYS("[1E400]"), BOTH_REFUSE);
}

static void nul_bytes_are_text_only_when_escaped(void **s)
{
    (void)s;
    assert_int_equal(SAYS("\"a\\u0000b\""), BOTH_TAKE);
    assert_int_equal(SAYS("\"a\0b\""), BOTH_REFUSE);
    assert_int_equal(SAYS("[1]\0"), BOTH_REFUSE);
    assert_int_equal(SAYS("\0[1]"), BOTH_REFUSE);
    assert_int_equal(SAYS("[1\0]"), LEFT_TO_JANSSON); /* it skips one after a number */
    assert_int_equal(SAYS("{\"a\0\":1}"), BOTH_REFUSE);
    assert_int_equal(SAYS("\"\\\0\""), BOTH_REFUSE);
}

static void the_length_counts_not_what_follows(void **s)
{
    (void)s;
    assert_int_equal(compare_readers("[1]x", 3), BOTH_TAKE);
    assert_int_equal(compare_readers("12", 1), BOTH_TAKE);
    assert_int_equal(compare_readers("truex", 4), BOTH_TAKE);
    assert_int_equal(compare_readers("true", 3), BOTH_REFUSE);
    assert_int_equal(compare_readers("\"a\"", 2), BOTH_REFUSE);
    assert_int_equal(compare_readers("\"\xe2\x82\xac\"", 3), BOTH_REFUSE);
    assert_int_equal(compare_readers("[1]", 0), BOTH_REFUSE);
}

static size_t nest(char *text, size_t depth)
{
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    return 2 * depth;
}

static void deep_nesting_is_left_to_jansson(void **s)
{
    (void)s;
    static char text[10000];
    assert_int_equal(compare_readers(text, nest(text, 256)), BOTH_TAKE);
    assert_int_equal(compare_readers(text, nest(text, 257)), LEFT_TO_JANSSON);
    assert_int_equal(compare_readers(text, nest(text, 2049)), BOTH_REFUSE);
    /* Side by side is not deep. */
    CAY_AUTOBUF b = CAY__BUF(100000);
    cay__buf_str(&b, "[");
    for (int i = 0; i < 5000; i++)
        cay__buf_str(&b, "[[]],");
    cay__buf_str(&b, "{}]");
    assert_int_equal(compare_readers(b.data, b.len), BOTH_TAKE);
}

/* A character that ends a run of plain ones, at every place of a step of sixteen. */
static void long_strings_are_read_at_every_alignment(void **s)
{
    (void)s;
    static const char *const odd[] = { "\\n",      "\\u20ac",          "\\\"",
                                       "\xc3\xa4", "\xf0\x9f\x98\x80", "\x7f" };
    char text[200];
    for (size_t len = 0; len < 50; len++)
        for (size_t at = 0; at <= len; at++)
            for (size_t i = 0; i < CAY_LEN(odd); i++) {
                int n =
                    snprintf(text, sizeof text, "\"%.*s%s%.*s\"", (int)at,
                             "abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyz", odd[i],
                             (int)(len - at), "ABCDEFGHIJKLMNOPQRSTUVWXYZ ABCDEFGHIJKLMNOPQRST");
                assert_int_equal(compare_readers(text, (size_t)n), BOTH_TAKE);
                char *bad = text + 1 + at;
                *bad = '\n';
                assert_int_equal(compare_readers(text, (size_t)n), BOTH_REFUSE);
            }
}

static void every_escaped_code_unit_is_judged_alike(void **s)
{
    (void)s;
    size_t taken = 0;
    char text[32];
    for (unsigned c = 0; c < 0x10000; c++) {
        int n = snprintf(text, sizeof text, "\"\\u%04x\"", c);
        taken += compare_readers(text, (size_t)n) == BOTH_TAKE;
    }
    assert_int_equal(taken, 0x10000 - 0x800); /* all but halves of pairs */
    static const unsigned ends[] = { 0xd7ff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000 };
    for (size_t i = 0; i < CAY_LEN(ends); i++)
        for (size_t k = 0; k < CAY_LEN(ends); k++) {
            int n = snprintf(text, sizeof text, "\"\\u%04X\\u%04x\"", ends[i], ends[k]);
            compare_readers(text, (size_t)n);
        }
}

static void keys_with_escapes_keep_apart_from_their_values(void **s)
{
    (void)s;
    assert_int_equal(SAYS("{\"k\\n\":{\"l\\t\":\"m\\r\"},\"\\\\\":[\"\\/\"]}"), BOTH_TAKE);
    static const char escaped[] = "{\"\\u006b\":\"\\u0076\"}";
    CAY_AUTOJSON *j = cay__json_quick(escaped, sizeof escaped - 1);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "k")), "v");
}

static const char sample[] = "{\"a\\u00e9\\n\":[1,-20,{\"b\":\"\xe2\x82\xac\",\"c\":null}],\"d\":"
                             "[true,false,\"\\ud83d\\ude00 sixteen and more\"],\"e\":{} }";

static void text_that_is_cut_is_refused_everywhere(void **s)
{
    (void)s;
    assert_int_equal(SAYS(sample), BOTH_TAKE);
    for (size_t n = 0; n < sizeof sample - 1; n++)
        assert_int_equal(compare_readers(sample, n), BOTH_REFUSE);
}

/* Every byte of a sound text becomes every other byte: half a million texts would be too many, so
 * a third of the values, another third at each place. */
static void one_changed_byte_changes_nothing_but_the_verdict(void **s)
{
    (void)s;
    char text[sizeof sample];
    size_t taken = 0, refused = 0;
    memcpy(text, sample, sizeof sample);
    for (size_t at = 0; at < sizeof sample - 1; at++) {
        for (int c = (int)(at % 3); c < 256; c += 3) {
            text[at] = (char)c;
            verdict v = compare_readers(text, sizeof sample - 1);
            taken += v == BOTH_TAKE;
            refused += v == BOTH_REFUSE;
        }
        text[at] = sample[at];
    }
    assert_true(taken > 500); /* so that the comparison is one of both kinds */
    assert_true(refused > 5000);
}

static uint32_t next_random(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    *x ^= *x << 5;
    return *x;
}

/* Texts put together from pieces of JSON, sound and unsound by chance, from a fixed seed. */
static void random_pieces_are_judged_alike(void **s)
{
    (void)s;
    static const char *const pieces[] = {
        "{",       "}",       "[",       "]",       ",",
        ":",       "\"",      "\"a\"",   "\"b\":",  "1",
        "-1",      "0",       "12e1",    "true",    "null",
        "false",   " ",       "\n",      "\\",      "\\u00",
        "\\u0041", "\\ud83d", "\\ude00", "\"\\n\"", "\"\xc3\xa4\"",
        "\xc3",    "\x01",
    };
    uint32_t seed = 20;
    size_t count[3] = { 0 };
    for (int round = 0; round < 60000; round++) {
        CAY_AUTOBUF b = CAY__BUF(1000);
        for (uint32_t n = 1 + next_random(&seed) % 6; n; n--)
            cay__buf_str(&b, pieces[next_random(&seed) % CAY_LEN(pieces)]);
        count[compare_readers(b.data, b.len)]++;
    }
    assert_true(count[BOTH_TAKE] > 1000);
    assert_true(count[BOTH_REFUSE] > 1000);
}

static void a_large_text_is_read_whole(void **s)
{
    (void)s;
    CAY_AUTOBUF b = CAY__BUF((size_t)8 << 20);
    cay__buf_str(&b, "{");
    for (int i = 0; i < 10000; i++)
        cay__buf_fmt(&b, "%s\"dir/%d\":{\"mode\":420,\"data\":\"line\\nof \xc3\xa4 file %d\"}",
                     i ? "," : "", i, i);
    cay__buf_str(&b, "}");
    assert_false(b.full);
    assert_int_equal(compare_readers(b.data, b.len), BOTH_TAKE);
    b.data[b.len - 1] = ',';
    assert_int_equal(compare_readers(b.data, b.len), BOTH_REFUSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_text_is_read_as_jansson_reads_it),
        cmocka_unit_test(unsound_text_is_refused_by_both),
        cmocka_unit_test(reals_and_large_numbers_are_left_to_jansson),
        cmocka_unit_test(nul_bytes_are_text_only_when_escaped),
        cmocka_unit_test(the_length_counts_not_what_follows),
        cmocka_unit_test(deep_nesting_is_left_to_jansson),
        cmocka_unit_test(long_strings_are_read_at_every_alignment),
        cmocka_unit_test(every_escaped_code_unit_is_judged_alike),
        cmocka_unit_test(keys_with_escapes_keep_apart_from_their_values),
        cmocka_unit_test(text_that_is_cut_is_refused_everywhere),
        cmocka_unit_test(one_changed_byte_changes_nothing_but_the_verdict),
        cmocka_unit_test(random_pieces_are_judged_alike),
        cmocka_unit_test(a_large_text_is_read_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
