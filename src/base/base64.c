/* SPDX-License-Identifier: Apache-2.0 */
#include "base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void cay__base64_put(cay__buf *b, const void *data, size_t n)
{
    const unsigned char *p = data;
    char *o = cay__buf_room(b, (n + 2) / 3 * 4);
    if (!o)
        return;
    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) |
                     (i + 2 < n ? p[i + 2] : 0);
        *o++ = letters[v >> 18];
        *o++ = letters[v >> 12 & 63];
        *o++ = i + 1 < n ? letters[v >> 6 & 63] : '=';
        *o++ = i + 2 < n ? letters[v & 63] : '=';
    }
    cay__buf_used(b, (n + 2) / 3 * 4);
}

int cay__base64_digit(char c)
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

bool cay__base64_get(cay__buf *b, const char *text, size_t n)
{
    size_t pad = 0;
    if (n && text[n - 1] == '=')
        pad = 1u + (n > 1 && text[n - 2] == '=');
    if (n % 4)
        return false;
    char *o = cay__buf_room(b, n / 4 * 3 + 1);
    if (!o)
        return false;
    for (size_t i = 0; i < n; i += 4) {
        unsigned v = 0, bad = 0;
        for (size_t k = 0; k < 4; k++) {
            int d = 0;
            if (i + k < n - pad)
                d = cay__base64_digit(text[i + k]);
            bad |= d < 0;
            v = v << 6 | (unsigned)(d & 63);
        }
        if (bad)
            return false;
        *o++ = (char)(v >> 16);
        *o++ = (char)(v >> 8);
        *o++ = (char)v;
    }
    cay__buf_used(b, n / 4 * 3 - pad);
    return true;
}
