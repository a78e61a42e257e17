/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/str.h>
#include <base/tar.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

typedef struct source {
    const char *p;
    size_t left;
} source;

static int read_some(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    source *s = arg;
    (void)err;
    *n = CAY_MIN(CAY_MIN(cap, s->left), (size_t)100);
    memcpy(buf, s->p, *n);
    s->p += *n;
    s->left -= *n;
    return 0;
}

static void what_was_written_is_read(void **s)
{
    (void)s;
    static const char end[2 * CAY__TAR_BLOCK];
    static cay__member m, got;
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    m = (cay__member){ .type = '0', .mode = 0640, .uid = 7, .gid = 8, .size = 5, .mtime = 99 };
    memset(m.name, 'n', 300);
    cay__tar_head(&b, &m);
    cay__buf_str(&b, "hello");
    cay__tar_pad(&b, 5);
    m = (cay__member){ .type = '2', .mode = 0777 };
    cay__str_copy(m.name, sizeof m.name, "link");
    cay__str_copy(m.target, sizeof m.target, "to");
    cay__tar_head(&b, &m);
    cay__buf_add(&b, end, sizeof end);
    source from = { b.data, b.len };
    cay__tar t = { .read = read_some, .arg = &from };
    char text[16];
    size_t n;
    assert_int_equal(cay__tar_next(&t, &got, NULL), 1);
    assert_int_equal(strlen(got.name), 300);
    assert_int_equal(got.mode, 0640);
    assert_int_equal(got.uid, 7);
    assert_int_equal(got.mtime, 99);
    assert_int_equal(cay__tar_bytes(&t, text, sizeof text, &n, NULL), 0);
    assert_int_equal(n, 5);
    assert_memory_equal(text, "hello", 5);
    assert_int_equal(cay__tar_next(&t, &got, NULL), 1);
    assert_string_equal(got.name, "link");
    assert_string_equal(got.target, "to");
    assert_int_equal(cay__tar_next(&t, &got, NULL), 0);
}

static void numbers_have_one_spelling(void **s)
{
    (void)s;
    uint64_t v;
    assert_true(cay__tar_number("0000644\0", 8, &v));
    assert_int_equal(v, 0644);
    assert_true(cay__tar_number("  17 \0\0\0", 8, &v));
    assert_int_equal(v, 017);
    assert_true(cay__tar_number("\x80\0\0\1\0\0\0\0", 8, &v));
    assert_int_equal(v, 1ull << 32);
    assert_false(cay__tar_number("12x4567\0", 8, &v));
    assert_false(cay__tar_number("\xff\xff\xff\xff\xff\xff\xff\xff", 8, &v));
    assert_false(cay__tar_number("8\0\0\0\0\0\0\0", 8, &v));
}

static void sums_of_both_kinds_agree(void **s)
{
    (void)s;
    cay__tar_block b = { .name = "\xe4", .magic = "ustar" };
    assert_true(cay__tar_is_end(&(cay__tar_block){ 0 }));
    assert_false(cay__tar_is_end(&b));
    unsigned sum = 0xe4 + 8 * ' ';
    for (const char *p = "ustar"; *p; p++)
        sum += (unsigned char)*p;
    for (int i = 0; i < 2; i++, sum -= 256) { /* the second with signed bytes */
        for (unsigned k = 0; k < 6; k++)
            b.sum[k] = (char)('0' + (sum >> (3 * (5 - k)) & 7));
        assert_true(cay__tar_sum_agrees(&b));
    }
    assert_false(cay__tar_sum_agrees(&(cay__tar_block){ .name = "a" }));
}

static void pax_records_are_sound_or_not(void **s)
{
    (void)s;
    static const char *const bad[] = { "x",       "5",        "5 a=b",          "7 a=b\n",
                                       "5 a=b\n", "06 a=b\n", "123456789 a=b\n" };
    const char *in = "6 a=b\n10 key=va\n7 none\n", *end = in + strlen(in);
    cay__pax_record r;
    assert_int_equal(cay__pax_next(&in, end, &r), 1);
    assert_true(cay__pax_is(&r, "a"));
    assert_int_equal(cay__pax_next(&in, end, &r), 1);
    assert_true(cay__pax_is(&r, "key"));
    assert_false(cay__pax_is(&r, "ke"));
    assert_int_equal(r.value_len, 2);
    assert_int_equal(cay__pax_next(&in, end, &r), 1);
    assert_int_equal(r.key_len, 0);
    assert_int_equal(cay__pax_next(&in, end, &r), 0);
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        in = bad[i];
        assert_int_equal(cay__pax_next(&in, in + strlen(in), &r), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(numbers_have_one_spelling),
        cmocka_unit_test(sums_of_both_kinds_agree),
        cmocka_unit_test(pax_records_are_sound_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
