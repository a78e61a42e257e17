/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/chunk.h - a body in chunks (RFC 9112 section 7.1): the bytes between its frames.
 *
 * As strict as the head: CRLF alone, at most 16 hex digits, bounded extensions and trailers, both
 * of which are dropped.
 */
#pragma once
#include <cay/error.h>

#define CAY__CHUNK_EXT     256  /* bytes of an extension */
#define CAY__CHUNK_TRAILER 8192 /* bytes of all trailers */

typedef struct cay__chunk {
    int state;              /* starts as 0 */
    unsigned digits, extra; /* of this size; bytes of extension or trailer */
    uint64_t left;
    bool done; /* the last chunk and its trailers were read */
} cay__chunk;

/* Takes *used of the n bytes. *data, *len: a piece of the body within them, of at most `most`; or
 * len 0: more is needed, or c->done. CAY_EINVAL. */
int cay__chunk_read(cay__chunk *c, const char *in, size_t n, size_t most, size_t *used,
                    const char **data, size_t *len, cay_err *err);
