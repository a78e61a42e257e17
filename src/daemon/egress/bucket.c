/* SPDX-License-Identifier: Apache-2.0 */
/* Bandwidth of a sandbox in one direction: a bucket that holds an eighth of a second, at least one
 * full segment. */
#include "bucket.h"
#include <base/base.h>

enum { LEAST = 16384, TELLS = 8 /* so often while a full bucket runs out */ };

static int64_t get_capacity(const bucket *b)
{
    return (int64_t)CAY_MAX(b->rate / 8, LEAST); /* rates are below 2^40 */
}

void bucket_set(bucket *b, uint64_t rate, int64_t now_us)
{
    if (b->rate == rate)
        return;
    *b = (bucket){ .rate = rate, .at_us = now_us };
    b->tokens = get_capacity(b);
}

static void refill_tokens(bucket *b, int64_t now_us)
{
    int64_t past = CAY_MIN(CAY_MAX(now_us - b->at_us, 0), 1000000);
    int64_t more = (int64_t)(b->rate * (uint64_t)past / 1000000);
    if (more) {
        b->tokens = CAY_MIN(b->tokens + more, get_capacity(b));
        b->at_us = now_us;
    }
}

size_t bucket_take(bucket *b, size_t want, int64_t now_us)
{
    if (!b->rate)
        return want;
    refill_tokens(b, now_us);
    size_t n = 0;
    if (b->tokens > 0)
        n = CAY_MIN(want, (size_t)b->tokens);
    b->tokens -= (int64_t)n;
    return n;
}

void bucket_back(bucket *b, size_t unused)
{
    if (b->rate)
        b->tokens = CAY_MIN(b->tokens + (int64_t)unused, get_capacity(b));
}

void bucket_mine(bucket *b, size_t n)
{
    if (b->rate)
        b->mine += n;
}

bool bucket_due(const bucket *b)
{
    return b->rate && b->mine >= (uint64_t)(get_capacity(b) / TELLS);
}

/* Never deeper in debt than one bucket: what the other says is not believed without bounds. */
void bucket_others(bucket *b, uint64_t n, int64_t now_us)
{
    if (!b->rate)
        return;
    refill_tokens(b, now_us);
    b->tokens =
        CAY_MAX(b->tokens - (int64_t)CAY_MIN(n, 2 * (uint64_t)get_capacity(b)), -get_capacity(b));
}
