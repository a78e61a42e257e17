/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/fingerprint.h - bytes told apart under a secret key, at the speed of memory.
 *
 * For what only this state directory compares: whoever does not know its key finds no two texts
 * with one fingerprint. Where the processor has AES it is the tag of AEGIS-128L
 * (draft-irtf-cfrg-aegis-aead, 256 bits, the bytes as associated data), else SHA-256 of key and
 * bytes: the same on one machine, not from one to the other.
 */
#pragma once
#include <base/sha256.h>
#include <stdint.h>

#define CAY__PRINT_KEY 32

void cay__fingerprint(const uint8_t key[CAY__PRINT_KEY], const void *data, size_t len,
                      char out[CAY__SHA256_HEX]);
/* The two ways, for tests; false: the processor has no AES. */
bool cay__fingerprint_aes(const uint8_t key[CAY__PRINT_KEY], const void *data, size_t len,
                          char out[CAY__SHA256_HEX]);
void cay__fingerprint_sha(const uint8_t key[CAY__PRINT_KEY], const void *data, size_t len,
                          char out[CAY__SHA256_HEX]);
