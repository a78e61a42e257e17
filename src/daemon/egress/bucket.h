/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/egress/bucket.h - the bandwidth of a sandbox in one direction. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bucket {
    uint64_t rate;  /* bytes a second; 0: no limit */
    int64_t tokens; /* below 0: the other process spent more than there was */
    uint64_t mine;  /* bytes that the other was not told of */
    int64_t at_us;
} bucket;
/* How much of `want` may go now. */
size_t bucket_take(bucket *b, size_t want, int64_t now_us);
void bucket_set(bucket *b, uint64_t rate, int64_t now_us);
void bucket_back(bucket *b, size_t unused);
/* The sandbox's flows are in two processes, each of which has the whole bucket and takes out what
 * both let through. */
void bucket_mine(bucket *b, size_t n); /* these went through here */
bool bucket_due(const bucket *b);      /* enough of them to be told */
void bucket_others(bucket *b, uint64_t n, int64_t now_us);
