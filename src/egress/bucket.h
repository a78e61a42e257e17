/* SPDX-License-Identifier: Apache-2.0 */
/* egress/bucket.h - the bandwidth of a sandbox in one direction. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct bucket {
    uint64_t rate; /* bytes a second; 0: no limit */
    uint64_t tokens;
    int64_t  at_us;
} bucket;
/* How much of `want` may go now. */
size_t bucket_take(bucket *b, size_t want, int64_t now_us);
void   bucket_set(bucket *b, uint64_t rate, int64_t now_us);
void   bucket_back(bucket *b, size_t unused);
