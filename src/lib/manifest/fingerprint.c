/* SPDX-License-Identifier: Apache-2.0 */
#include "fingerprint.h"
#include <base/str.h>
#include <stdio.h>
#include <string.h>
#if defined __x86_64__ && __has_include(<sys/platform/x86.h>)
#include <immintrin.h>
/* The loader already asked the processor; asking again is a trap in a virtual machine. */
#include <sys/platform/x86.h>
#define HAVE_AES 1
#endif

#ifdef HAVE_AES
#define AES __attribute__((target("aes,sse2"), always_inline)) static inline

typedef struct aegis {
    __m128i s[8];
} aegis;

AES void update(aegis *a, __m128i m0, __m128i m1)
{
    __m128i last = a->s[7];
    for (int i = 7; i > 0; i--)
        a->s[i] = _mm_aesenc_si128(a->s[i - 1], i == 4 ? _mm_xor_si128(a->s[4], m1) : a->s[i]);
    a->s[0] = _mm_aesenc_si128(last, _mm_xor_si128(a->s[0], m0));
}

AES __m128i load(const void *p)
{
    return _mm_loadu_si128(p);
}

AES void begin(aegis *a, __m128i key, __m128i nonce)
{
    /* Fibonacci's numbers modulo 256. */
    const __m128i c0 = _mm_setr_epi8(0x00, 0x01, 0x01, 0x02, 0x03, 0x05, 0x08, 0x0d, 0x15, 0x22,
                                     0x37, 0x59, (char)0x90, (char)0xe9, 0x79, 0x62);
    const __m128i c1 =
        _mm_setr_epi8((char)0xdb, 0x3d, 0x18, 0x55, 0x6d, (char)0xc2, 0x2f, (char)0xf1, 0x20, 0x11,
                      0x31, 0x42, 0x73, (char)0xb5, 0x28, (char)0xdd);
    const __m128i both = _mm_xor_si128(key, nonce);
    *a = (aegis){ { both, c1, c0, c1, both, _mm_xor_si128(key, c0), _mm_xor_si128(key, c1),
                    _mm_xor_si128(key, c0) } };
    for (int i = 0; i < 10; i++)
        update(a, nonce, key);
}

AES void end(aegis *a, uint64_t bits, uint8_t tag[32])
{
    const __m128i t = _mm_xor_si128(a->s[2], _mm_set_epi64x(0, (long long)bits));
    for (int i = 0; i < 7; i++)
        update(a, t, t);
    for (int half = 0; half < 2; half++) {
        const __m128i *s = a->s + 4 * half;
        _mm_storeu_si128((__m128i *)(tag + 16 * half),
                         _mm_xor_si128(_mm_xor_si128(s[0], s[1]), _mm_xor_si128(s[2], s[3])));
    }
}

__attribute__((target("aes,sse2"))) static void tag_of(const uint8_t *key, const uint8_t *p,
                                                       size_t len, uint8_t tag[32])
{
    aegis a;
    uint8_t last[32] = { 0 };
    begin(&a, load(key), load(key + 16));
    for (size_t n = len / 32; n; n--, p += 32)
        update(&a, load(p), load(p + 16));
    if (len % 32) {
        memcpy(last, p, len % 32);
        update(&a, load(last), load(last + 16));
    }
    end(&a, (uint64_t)len * 8, tag);
}

bool cay__fingerprint_aes(const uint8_t key[CAY__PRINT_KEY], const void *data, size_t len,
                          char out[CAY__SHA256_HEX])
{
    uint8_t tag[32];
    if (!CPU_FEATURE_ACTIVE(AES))
        return false;
    tag_of(key, data, len, tag);
    cay__hex_put(out, tag, sizeof tag);
    return true;
}
#else
bool cay__fingerprint_aes(const uint8_t key[CAY__PRINT_KEY], const void *data, size_t len,
                          char out[CAY__SHA256_HEX])
{
    return false;
}
#endif

void cay__fingerprint_sha(const uint8_t key[CAY__PRINT_KEY], const void *data, size_t len,
                          char out[CAY__SHA256_HEX])
{
    cay__sha256 s;
    cay__sha256_begin(&s);
    cay__sha256_add(&s, key, CAY__PRINT_KEY);
    cay__sha256_add(&s, data, len);
    cay__sha256_end(&s, out);
}

void cay__fingerprint(const uint8_t key[CAY__PRINT_KEY], const void *data, size_t len,
                      char out[CAY__SHA256_HEX])
{
    if (!cay__fingerprint_aes(key, data, len, out))
        cay__fingerprint_sha(key, data, len, out);
}
