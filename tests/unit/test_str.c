/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/str.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

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

static void a_copy_says_whether_it_was_cut(void **s)
{
    (void)s;
    char d[4] = "zzz";
    assert_true(cay__str_copy(d, sizeof d, ""));
    assert_string_equal(d, "");
    assert_true(cay__str_copy(d, sizeof d, "abc"));
    assert_string_equal(d, "abc");
    assert_false(cay__str_copy(d, sizeof d, "abcd"));
    assert_string_equal(d, "abc");
    assert_true(cay__str_copy(d, 1, ""));
    assert_false(cay__str_copy(d, 1, "x"));
    assert_string_equal(d, "");
    static const char without_end[4] = { 'a', 'b', 'c', 'd' }; /* a field of a packet */
    assert_false(cay__str_copy(d, sizeof d, without_end));
    assert_string_equal(d, "abc");
}

static void decimal_numbers_are_read_whole_or_not(void **s)
{
    (void)s;
    static const char *const bad[] = { "",
                                       " 1",
                                       "1 ",
                                       "+1",
                                       "-1",
                                       "0x1",
                                       "1.0",
                                       "1k",
                                       "18446744073709551616",
                                       "99999999999999999999999" };
    uint64_t v = 7;
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        assert_false(cay__str_to_u64(bad[i], &v));
        assert_int_equal(v, 7);
    }
    assert_true(cay__str_to_u64("0", &v) && v == 0);
    assert_true(cay__str_to_u64("007", &v) && v == 7);
    assert_true(cay__str_to_u64("18446744073709551615", &v) && v == UINT64_MAX);
    char n[21];
    assert_string_equal(cay__str_u64(n, 0), "0");
    assert_string_equal(cay__str_u64(n, 10), "10");
}

static void ids_of_other_lengths_or_letters_are_refused(void **s)
{
    (void)s;
    assert_true(cay__id_valid("cabcdefghijklmnop234", 0));
    assert_false(cay__id_valid("", 0));
    assert_false(cay__id_valid("cabcdefghijklmnop23", 0));
    assert_false(cay__id_valid("cabcdefghijklmnop2345", 0));
    assert_false(cay__id_valid("Cabcdefghijklmnop234", 0));
    assert_false(cay__id_valid("2abcdefghijklmnop234", 0)); /* the first is its kind */
    assert_false(cay__id_valid("cabcdefghijklmnop018", 0));
    assert_false(cay__id_valid("cabcdefghijklmno/234", 0));
}

static void names_of_layers_are_short_and_plain(void **s)
{
    (void)s;
    char name[65];
    memset(name, 'a', sizeof name);
    name[63] = 0;
    assert_true(cay__layer_valid(name));
    name[63] = 'a';
    name[64] = 0;
    assert_false(cay__layer_valid(name));
    assert_true(cay__layer_valid("0-a-"));
    assert_false(cay__layer_valid(""));
    assert_false(cay__layer_valid("-a"));
    assert_false(cay__layer_valid("a.b"));
    assert_false(cay__layer_valid("a/b"));
    assert_false(cay__layer_valid("A"));
}

static void hex_goes_there_and_back(void **s)
{
    (void)s;
    unsigned char all[256], back[256];
    char text[513];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (unsigned char)i;
    cay__hex_put(text, all, sizeof all);
    assert_int_equal(strlen(text), 512);
    assert_memory_equal(text, "000102", 6);
    assert_true(cay__hex_is(text, 512));
    assert_false(cay__hex_is(text, 511));
    assert_true(cay__hex_get(back, text, sizeof back));
    assert_memory_equal(all, back, sizeof all);
    assert_true(cay__hex_get(back, "aFA0", 2));
    assert_int_equal(back[0], 0xaf);
    assert_false(cay__hex_get(back, "a", 1));
    assert_false(cay__hex_get(back, "0g", 1));
    assert_int_equal(cay__hex_len("09afA"), 4);
    for (int c = 0; c < 256; c++)
        assert_int_equal(cay__hex_digit((char)c) >= 0,
                         c && strchr("0123456789abcdefABCDEF", c) != NULL);
}

static void uuids_have_version_4(void **s)
{
    (void)s;
    char a[37], b[37];
    cay__uuid_make(a);
    cay__uuid_make(b);
    assert_int_equal(strlen(a), 36);
    for (size_t i = 0; i < 36; i++)
        assert_int_equal(a[i] == '-', i == 8 || i == 13 || i == 18 || i == 23);
    assert_int_equal(a[14], '4');
    assert_non_null(strchr("89ab", a[19]));
    assert_string_not_equal(a, b);
}

static void statuses_have_their_texts(void **s)
{
    (void)s;
    assert_string_equal(cay__status_text(200), "OK");
    assert_string_equal(cay__status_text(404), "Not Found");
    assert_string_equal(cay__status_text(299), "Status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_valid_and_differ),
        cmocka_unit_test(joins_and_copies_are_bounded),
        cmocka_unit_test(crc_matches_the_standard_vector),
        cmocka_unit_test(a_copy_says_whether_it_was_cut),
        cmocka_unit_test(decimal_numbers_are_read_whole_or_not),
        cmocka_unit_test(ids_of_other_lengths_or_letters_are_refused),
        cmocka_unit_test(names_of_layers_are_short_and_plain),
        cmocka_unit_test(hex_goes_there_and_back),
        cmocka_unit_test(uuids_have_version_4),
        cmocka_unit_test(statuses_have_their_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
