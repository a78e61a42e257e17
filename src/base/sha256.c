/* SPDX-License-Identifier: Apache-2.0 */
#include "sha256.h"
#include "base.h"
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void hash_block(uint32_t h[8], const unsigned char *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] +
               (rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3) +
               w[i - 7] +
               (rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[7] +
                     (rotate_right(v[4], 6) ^ rotate_right(v[4], 11) ^ rotate_right(v[4], 25)) +
                     ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t b = (rotate_right(v[0], 2) ^ rotate_right(v[0], 13) ^ rotate_right(v[0], 22)) +
                     ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += a;
        v[0] = a + b;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

static void blocks_plain(uint32_t h[8], const unsigned char *p, size_t n)
{
    for (; n; n--, p += 64)
        hash_block(h, p);
}

#ifdef __x86_64__
/* The processor's own rounds, four at a time: a manifest of many megabytes is told apart in
 * milliseconds. */
__attribute__((target("sha,sse4.1,ssse3"))) static void blocks_quick(uint32_t h[8],
                                                                     const unsigned char *p,
                                                                     size_t n)
{
    const __m128i flip = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
    __m128i t = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)h), 0xb1);          /* cdab */
    __m128i cdgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(h + 4)), 0x1b); /* efgh */
    __m128i abef = _mm_alignr_epi8(t, cdgh, 8);
    cdgh = _mm_blend_epi16(cdgh, t, 0xf0);
    for (; n; n--, p += 64) {
        __m128i a = abef, c = cdgh, m[4];
        for (int i = 0; i < 4; i++)
            m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * i)), flip);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            if (i >= 4) {
                __m128i x = _mm_add_epi32(_mm_sha256msg1_epu32(m[i & 3], m[(i + 1) & 3]),
                                          _mm_alignr_epi8(m[(i + 3) & 3], m[(i + 2) & 3], 4));
                m[i & 3] = _mm_sha256msg2_epu32(x, m[(i + 3) & 3]);
            }
            __m128i w = _mm_add_epi32(m[i & 3], _mm_loadu_si128((const __m128i *)(k + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, w);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(w, 0x0e));
        }
        abef = _mm_add_epi32(abef, a);
        cdgh = _mm_add_epi32(cdgh, c);
    }
    t = _mm_shuffle_epi32(abef, 0x1b);
    cdgh = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)h, _mm_blend_epi16(t, cdgh, 0xf0));
    _mm_storeu_si128((__m128i *)(h + 4), _mm_alignr_epi8(cdgh, t, 8));
}

static bool has_sha_ni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && (c & bit_SSSE3) &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
}
#else
#define blocks_quick blocks_plain
static bool has_sha_ni(void)
{
    return false;
}
#endif

static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

/* What is left of less than a block, and the end. */
static void finish_hash(uint32_t h[8], const unsigned char *rest, size_t n, uint64_t total,
                        char out[CAY__SHA256_HEX])
{
    unsigned char last[128] = { 0 };
    size_t end = 128;
    if (n < 56)
        end = 64;
    if (n)
        memcpy(last, rest, n);
    last[n] = 0x80;
    for (int i = 0; i < 8; i++)
        last[end - 1 - (size_t)i] = (unsigned char)(total * 8 >> 8 * i);
    blocks_plain(h, last, end / 64);
    for (int i = 0; i < 8; i++)
        snprintf(out + 8 * i, 9, "%08x", h[i]);
}

void cay__sha256_hex(const void *data, size_t len, char out[CAY__SHA256_HEX])
{
    uint32_t h[8];
    const unsigned char *p = data;
    memcpy(h, first, sizeof h);
    /* cpuid(1) is a trap in a virtual machine: for a few blocks it costs more than it gains. */
    if (len >= 4096 && has_sha_ni())
        blocks_quick(h, p, len / 64);
    else
        blocks_plain(h, p, len / 64);
    finish_hash(h, p + len / 64 * 64, len % 64, len, out);
}

void cay__sha256_begin(cay__sha256 *s)
{
    *s = (cay__sha256){ 0 };
    memcpy(s->h, first, sizeof s->h);
}

void cay__sha256_add(cay__sha256 *s, const void *data, size_t len)
{
    const unsigned char *p = data;
    s->total += len;
    if (s->n) {
        size_t some = len;
        if (len >= 64 - s->n)
            some = 64 - s->n;
        memcpy(s->rest + s->n, p, some);
        s->n += some;
        p += some;
        len -= some;
        if (s->n < 64)
            return;
        blocks_plain(s->h, s->rest, 1);
        s->n = 0;
    }
    if (len >= 4096 && !s->looked) {
        s->looked = true;
        s->quick = has_sha_ni();
    }
    (s->quick ? blocks_quick : blocks_plain)(s->h, p, len / 64);
    s->n = len % 64;
    if (s->n)
        memcpy(s->rest, p + len - s->n, s->n);
}

void cay__sha256_end(cay__sha256 *s, char out[CAY__SHA256_HEX])
{
    finish_hash(s->h, s->rest, s->n, s->total, out);
}

int64_t cay__sha256_fd(int fd, int64_t at, uint64_t most, char out[CAY__SHA256_HEX])
{
    char buf[16384];
    cay__sha256 s;
    uint64_t done = 0;
    cay__sha256_begin(&s);
    for (ssize_t n; done < most; done += (uint64_t)n) {
        n = pread(fd, buf, (size_t)CAY_MIN(most - done, sizeof buf), at + (off_t)done);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        cay__sha256_add(&s, buf, (size_t)n);
    }
    cay__sha256_end(&s, out);
    return (int64_t)done;
}
