/* SPDX-License-Identifier: Apache-2.0 */
#include "traceparent.h"
#include <base/str.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool is_hex(const char *s, size_t n)
{
    return cay__hex_len(s) >= n;
}

static bool is_zero(const char *s, size_t n)
{
    return strspn(s, "0") >= n;
}

bool cay__traceparent_read(const char *text, cay__traceparent *out)
{
    const char *trace, *span, *flags;
    if (!text || strnlen(text, CAY__TRACEPARENT) < CAY__TRACEPARENT || !is_hex(text, 2) ||
        !strncmp(text, "ff", 2))
        return false;
    trace = text + 3;
    span = text + 36;
    flags = text + 53;
    if (text[2] != '-' || text[35] != '-' || text[52] != '-' || !is_hex(trace, 32) ||
        !is_hex(span, 16) || !is_hex(flags, 2) || is_zero(trace, 32) || is_zero(span, 16))
        return false;
    if (text[CAY__TRACEPARENT] && (!strncmp(text, "00", 2) || text[CAY__TRACEPARENT] != '-'))
        return false;
    CAY_FORMAT(out->trace, "%.32s", trace);
    CAY_FORMAT(out->span, "%.16s", span);
    out->sampled = strchr("13579bdf", flags[1]) != NULL;
    return true;
}

void cay__traceparent_write(const cay__traceparent *t, char buf[CAY__TRACEPARENT + 1])
{
    snprintf(buf, CAY__TRACEPARENT + 1, "00-%s-%s-%02x", t->trace, t->span, t->sampled);
}

void cay__trace_id_make(char *dst, unsigned n)
{
    uint8_t r[16];
    do {
        cay__random(r, n);
        cay__hex_put(dst, r, n);
    } while (is_zero(dst, 2 * (size_t)n));
}
