/* SPDX-License-Identifier: Apache-2.0 */
/* The quick reader takes what jansson takes, and leaves the rest to it; and texts that differ in
 * one bit have two fingerprints. */
#include <base/json.h>
#include <service/fingerprint.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_same(const char *text)
{
    json_t *quick = cay__json_quick(text, strlen(text)),
           *slow =
               json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    char *a = quick ? json_dumps(quick, JSON_ENCODE_ANY) : NULL,
         *b = slow ? json_dumps(slow, JSON_ENCODE_ANY) : NULL;
    if (!a || !b || strcmp(a, b) != 0)
        fail_msg("%s: %s and %s", text, a ? a : "-", b ? b : "-");
    free(a);
    free(b);
    json_decref(quick);
    json_decref(slow);
}

static void it_reads_as_jansson_does(void **s)
{
    (void)s;
    static const char *const rows[] = {
        "{}",
        " [ ] ",
        "[1,-2,0,-0,999999999999999999]",
        "{\"b\":1,\"a\":{\"z\":[true,false,null]}}",
        "\"\"",
        "17",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e4\\u20ac\\ud83d\\ude00\\u0000x\"",
        "{\"k\\u00e4y\":\"v\\n\",\"two\":\"t\"}",
        "\"gr\xc3\xbc\xc3\x9f"
        "e \xe2\x82\xac \xf0\x9f\x98\x80, and a tail that is longer than a step\"",
        "\"\x7f\"",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_same(rows[i]);
}

static void it_leaves_the_rest_alone(void **s)
{
    (void)s;
    static const char *const rows[] = {
        "",
        " ",
        "{",
        "[1,]",
        "[1 2]",
        "{\"a\" 1}",
        "{\"a\":}",
        "{a:1}",
        "[1]x",
        "[01]",
        "[1.5]",
        "[1e3]",
        "[9999999999999999999]",
        "[-]",
        "tru",
        "\"a\nb\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83d\\u0041\"",
        "\"\xc3\"",
        "\"\xed\xa0\x80\"",
        "\"open",
        "{\"a\":1,\"a\":2}",
        "{\"a\\u0000\":1}",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (cay__json_quick(rows[i], strlen(rows[i])))
            fail_msg("%s", rows[i]);
    char deep[2000];
    memset(deep, '[', 1000);
    memset(deep + 1000, ']', 1000);
    assert_null(cay__json_quick(deep, sizeof deep));
}

/* draft-irtf-cfrg-aegis-aead, test vector 2 of AEGIS-128L: its key and nonce, nothing else. */
static void a_fingerprint_is_the_tag_of_aegis(void **s)
{
    (void)s;
    static const uint8_t key[CAY__PRINT_KEY] = { 0x10, 0x01, [16] = 0x10, 0x00, 0x02 };
    char hex[CAY__SHA256_HEX];
    if (!cay__fingerprint_aes(key, "", 0, hex))
        skip();
    assert_string_equal(hex, "1360dc9db8ae42455f6e5b6a9d488ea4f2184c4e12120249335c4ee84bafe25d");
}

static void one_bit_makes_another_fingerprint(void **s)
{
    (void)s;
    uint8_t key[CAY__PRINT_KEY] = { 1 }, text[200] = { 0 };
    char seen[900][CAY__SHA256_HEX];
    size_t n = 0;
    for (size_t len = 0; len < sizeof text; len += 33)
        cay__fingerprint(key, text, len, seen[n++]);
    for (size_t bit = 0; bit < 8 * 64; bit++) {
        text[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cay__fingerprint(key, text, 66, seen[n++]);
        text[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof key; bit++) {
        key[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cay__fingerprint(key, text, 66, seen[n++]);
        key[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    qsort(seen, n, sizeof *seen, (int (*)(const void *, const void *))strcmp);
    for (size_t i = 1; i < n; i++)
        assert_string_not_equal(seen[i - 1], seen[i]);
    cay__fingerprint_sha(key, "x", 1, seen[0]);
    cay__fingerprint_sha(key, "y", 1, seen[1]);
    assert_string_not_equal(seen[0], seen[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_as_jansson_does),
        cmocka_unit_test(it_leaves_the_rest_alone),
        cmocka_unit_test(a_fingerprint_is_the_tag_of_aegis),
        cmocka_unit_test(one_bit_makes_another_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
