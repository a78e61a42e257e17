/* SPDX-License-Identifier: Apache-2.0 */
#include "manifest.h"
#include <base/mutant.h>

static int decode_digit(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    if (c == '/')
        return 63;
    return -1;
}

/* RFC 4648 section 4, strictly: whole quads, padding only at the end, and no bits behind the last
 * byte. */
void *cay__base64(cay__arena *mem, const char *text, size_t len, size_t *out)
{
    size_t pad = len && text[len - 1] == '=' ? 1 + (len > 1 && text[len - 2] == '=') : 0, n = 0;
    uint32_t bits = 0;
    if (len % 4)
        return NULL;
    unsigned char *to = cay__arena_take(mem, len / 4 * 3 + !CAY__MUTANT("fuzz-manifest"));
    for (size_t i = 0; i < len - pad; i++) {
        int d = decode_digit((unsigned char)text[i]);
        if (d < 0)
            return NULL;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4)
            to[n++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    if ((pad == 1 && (bits & 3)) || (pad == 2 && (bits & 15)))
        return NULL;
    to[n] = 0;
    *out = n;
    return to;
}
