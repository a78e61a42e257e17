/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <daemon/egress/hello.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* A hello with one name, an extension of `type` and `more` bytes, in records of `cut` bytes. */
static size_t make(uint8_t *out, const char *name, unsigned type, size_t more, size_t cut)
{
    uint8_t m[20000] = { 1, 0, 0, 0, 3, 3 };
    size_t n = 6 + 32, name_len = name ? strlen(name) : 0;
    memcpy(m + n, "\0\0\2\x13\1\1\0", 7);
    n += 7;
    size_t ext = n;
    n += 2;
    if (name) {
        uint8_t sni[] = {
            0, 0, 0, (uint8_t)(name_len + 5), 0, (uint8_t)(name_len + 3), 0, 0, (uint8_t)name_len
        };
        memcpy(m + n, sni, sizeof sni);
        memcpy(m + n + sizeof sni, name, name_len);
        n += sizeof sni + name_len;
    }
    if (type) {
        uint8_t head[] = { (uint8_t)(type >> 8), (uint8_t)type, (uint8_t)(more >> 8),
                           (uint8_t)more };
        memcpy(m + n, head, 4);
        n += 4 + more;
    }
    m[ext] = (uint8_t)((n - ext - 2) >> 8);
    m[ext + 1] = (uint8_t)(n - ext - 2);
    m[2] = (uint8_t)((n - 4) >> 8);
    m[3] = (uint8_t)(n - 4);
    size_t o = 0;
    for (size_t at = 0; at < n; at += cut) {
        size_t k = CAY_MIN(cut, n - at);
        uint8_t head[] = { 22, 3, 1, (uint8_t)(k >> 8), (uint8_t)k };
        memcpy(out + o, head, 5);
        memcpy(out + o + 5, m + at, k);
        o += 5 + k;
    }
    return o;
}

static void a_name_is_found_however_it_is_cut(void **s)
{
    (void)s;
    static uint8_t b[120000];
    static const size_t cuts[] = { 16384, 1000, 7, 1 };
    for (size_t i = 0; i < CAY_LEN(cuts); i++) {
        hello h;
        size_t n = make(b, "good.test", 51, 1216, cuts[i]); /* a post-quantum share */
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(hello_read(b, k, &h), HELLO_MORE);
            assert_true(h.need > k && h.need <= n);
        }
        assert_int_equal(hello_read(b, n, &h), HELLO_OK);
        assert_true(h.named && !h.ech);
        assert_string_equal(h.sni, "good.test");
    }
}

static void no_name_and_hidden_names_are_told(void **s)
{
    (void)s;
    static uint8_t b[20000];
    hello h;
    assert_int_equal(hello_read(b, make(b, NULL, 43, 3, 16384), &h), HELLO_OK);
    assert_false(h.named);
    assert_int_equal(hello_read(b, make(b, "good.test", 0xfe0d, 200, 16384), &h), HELLO_OK);
    assert_true(h.named && h.ech);
}

static void what_is_no_hello_is_refused_early(void **s)
{
    (void)s;
    static uint8_t b[20000];
    hello h;
    assert_int_equal(hello_read((const uint8_t *)"G", 1, &h), HELLO_BAD);
    assert_int_equal(hello_read((const uint8_t *)"\x16\x02", 2, &h), HELLO_BAD);
    assert_int_equal(hello_read((const uint8_t *)"\x16\3\1\0\0", 5, &h), HELLO_BAD);
    assert_int_equal(hello_read((const uint8_t *)"\x16\3\1\0\4\2", 6, &h), HELLO_BAD);
    assert_int_equal(hello_read((const uint8_t *)"\x16\3\1\0\4\1\0\xff\xff", 9, &h), HELLO_BAD);
    size_t n = make(b, "good.test", 43, 3, 16384);
    b[n - 4]++; /* the last extension is longer than what is left */
    assert_int_equal(hello_read(b, n, &h), HELLO_BAD);
}

static void two_names_are_refused(void **s)
{
    (void)s;
    static uint8_t b[20000];
    hello h;
    size_t n = make(b, "good.test", 0x1111, 18 - 4, 16384);
    memcpy(b + n - 18,
           "\0\0\0\x0e\0\x0c\0\0\x09"
           "evil.test",
           18);
    assert_int_equal(hello_read(b, n, &h), HELLO_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_found_however_it_is_cut),
        cmocka_unit_test(no_name_and_hidden_names_are_told),
        cmocka_unit_test(what_is_no_hello_is_refused_early),
        cmocka_unit_test(two_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
