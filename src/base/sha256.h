/* SPDX-License-Identifier: Apache-2.0 */
/* base/sha256.h - FIPS 180-4, for tokens that are kept as hashes only and for telling content
 * apart. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAY__SHA256_HEX 65
void cay__sha256_hex(const void *data, size_t len, char out[CAY__SHA256_HEX]);
/* Of a file from `at` on, at most so many bytes: how many there are; -1 and errno. */
int64_t cay__sha256_fd(int fd, int64_t at, uint64_t most, char out[CAY__SHA256_HEX]);

/* The same in pieces. */
typedef struct cay__sha256 {
    uint32_t h[8];
    uint64_t total;
    unsigned char rest[64];
    size_t n;
    bool looked, quick; /* what the processor can */
} cay__sha256;
void cay__sha256_begin(cay__sha256 *s);
void cay__sha256_add(cay__sha256 *s, const void *data, size_t len);
void cay__sha256_end(cay__sha256 *s, char out[CAY__SHA256_HEX]);
