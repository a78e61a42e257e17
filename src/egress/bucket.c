/* SPDX-License-Identifier: Apache-2.0 */
/* Bandwidth of a sandbox in one direction: a bucket that holds an eighth of a second, at least one full segment. */
#include "bucket.h"
#include <base/base.h>

enum { LEAST = 16384 };

static uint64_t room(const bucket *b)
{
    return CAY_MAX(b->rate / 8, LEAST);
}

void bucket_set(bucket *b, uint64_t rate, int64_t now_us)
{
    if (b->rate == rate)
        return;
    *b = (bucket){ .rate = rate, .at_us = now_us };
    b->tokens = room(b);
}

size_t bucket_take(bucket *b, size_t want, int64_t now_us)
{
    if (!b->rate)
        return want;
    int64_t past = CAY_MIN(CAY_MAX(now_us - b->at_us, 0), 1000000);
    uint64_t more = b->rate * (uint64_t)past / 1000000; /* rates are below 2^40 */
    if (more) {
        b->tokens = CAY_MIN(b->tokens + more, room(b));
        b->at_us = now_us;
    }
    size_t n = (size_t)CAY_MIN(want, b->tokens);
    b->tokens -= n;
    return n;
}

void bucket_back(bucket *b, size_t unused)
{
    if (b->rate)
        b->tokens = CAY_MIN(b->tokens + unused, room(b));
}
