/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper/layer/seal.h - the digest of an archive: SHA-256 over what its members are, as they pass.
 *
 * Whoever writes the archive and whoever reads it back see the same members in the same order, on
 * whatever machine; times do not count.
 */
#pragma once
#include <proto/item.h>
#include <openssl/evp.h>

typedef struct seal {
    EVP_MD_CTX *ctx;
} seal;

void seal_open(seal *s);
void seal_item(seal *s, const cay__item *it);
void seal_data(seal *s, const void *p, size_t n);
void seal_hex(seal *s, char hex[65]); /* once, at the end */
void seal_close(seal *s);
