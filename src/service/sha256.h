/* SPDX-License-Identifier: Apache-2.0 */
/* service/sha256.h - FIPS 180-4, for tokens that are kept as hashes only. */
#pragma once
#include <stddef.h>

#define CAY__SHA256_HEX 65
void cay__sha256_hex(const void *data, size_t len, char out[CAY__SHA256_HEX]);
