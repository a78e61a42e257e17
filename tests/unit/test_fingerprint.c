/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that differ in one bit have two fingerprints. */
#include <lib/manifest/fingerprint.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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
        cmocka_unit_test(a_fingerprint_is_the_tag_of_aegis),
        cmocka_unit_test(one_bit_makes_another_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
