/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times as people write them. */
#include <base/base.h>
#include <base/str.h>
#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <string.h>
#include <cmocka.h>

typedef struct service_row {
    const char *text;
    uint64_t is;
} service_row;

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

static void sizes_are_powers_of_1024_however_they_are_spelled(void **s)
{
    (void)s;
    static const service_row rows[] = {
        { "0", 0 },
        { "100", 100 },
        { "100B", 100 },
        { "100b", 100 },
        { "1k", 1024 },
        { "1K", 1024 },
        { "1kb", 1024 },
        { "1KB", 1024 },
        { "1ki", 1024 },
        { "1kib", 1024 },
        { "1KiB", 1024 },
        { "512m", 512ull << 20 },
        { "1T", 1ull << 40 },
        { "0.5g", 1ull << 29 },
        { "1.", 1 },
        { "1.9", 1 },         /* no part of a byte */
        { "0.001k", 1 },      /* 1.024 */
        { "0.0009k", 0 },     /* thousandths count */
        { "1.99999k", 2046 }, /* 1.999 */
        { "16777215t", 16777215ull << 40 },
        { "18446744073709551", 18446744073709551ull },
        { "unlimited", UINT64_MAX },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        uint64_t v = 0;
        if (!cay__str_to_size(rows[i].text, &v) || v != rows[i].is)
            fail_msg("%s: %llu", rows[i].text, (unsigned long long)v);
    }
}

static void sizes_that_make_no_sense_are_refused(void **s)
{
    (void)s;
    static const char *const rows[] = {
        "",
        " ",
        "k",
        ".5k",
        "-1k",
        "+1",
        " 1k",
        "1 k",
        "1k ",
        "1kk",
        "1kbb",
        "1bb",
        "1iB",
        "1p",
        "0x10",
        "1,5k",
        "1..5",
        "1e3",
        "1kIB",
        "Unlimited",
        "unlimitedx",
        "16777216t",
        "18446744073709552k",
        "18446744073709551615",
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        uint64_t v = 77;
        if (cay__str_to_size(rows[i], &v))
            fail_msg("%s: %llu", rows[i], (unsigned long long)v);
        assert_int_equal(v, 77);
    }
}

static void times_are_seconds_without_a_unit(void **s)
{
    (void)s;
    static const service_row rows[] = {
        { "0", 0 },
        { "90", 90000 },
        { "90s", 90000 },
        { "0.25", 250 },
        { "1.5ms", 1 },
        { "0.0001s", 0 },
        { "5m", 300000 },
        { "1.5m", 90000 },
        { "1d", 86400000 },
        { "36500d", 36500ull * 86400000 },
        { "unlimited", UINT64_MAX },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        uint64_t v = 0;
        if (!cay__str_to_ms(rows[i].text, &v) || v != rows[i].is)
            fail_msg("%s: %llu", rows[i].text, (unsigned long long)v);
    }
}

static void times_that_make_no_sense_are_refused(void **s)
{
    (void)s;
    static const char *const rows[] = {
        " ",
        "s",
        "-1s",
        "+1",
        " 1",
        "1 s",
        "1S",
        "1min",
        "1ms ",
        "1us",
        "1h30m",
        "1:30",
        ".5s",
        "1d1",
        "unlimited ",
        "106751991168d",
        "18446744073709551615",
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        uint64_t v;
        if (cay__str_to_ms(rows[i], &v))
            fail_msg("%s: %llu", rows[i], (unsigned long long)v);
    }
}

static void signals_have_the_names_of_glibc(void **s)
{
    (void)s;
    for (int i = -1; i <= NSIG; i++) {
        const char *ours = cay__signal_name(i), *theirs = sigabbrev_np(i);
        assert_int_equal(!ours, !theirs);
        if (ours)
            assert_string_equal(ours, theirs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_have_the_names_of_glibc),
        cmocka_unit_test(sizes_and_times_have_units),
        cmocka_unit_test(sizes_are_powers_of_1024_however_they_are_spelled),
        cmocka_unit_test(sizes_that_make_no_sense_are_refused),
        cmocka_unit_test(times_are_seconds_without_a_unit),
        cmocka_unit_test(times_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
