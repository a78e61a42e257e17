/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of streams has to say the same whether its bytes come at once or in pieces of any size.
 */
#pragma once
#include <base/buf.h>
#include <stdlib.h>
#include <string.h>

/* Feeds a reader that is made for this with pieces of `step` bytes, what it says into *out.
 * Negative: it refused. */
typedef int pieces_feed(const uint8_t *data, size_t len, size_t step, cay__buf *out);

/* Gives each piece in memory of its exact size to fn(arg, …), until one is refused. */
static inline int pieces_each(const uint8_t *data, size_t len, size_t step,
                              int (*fn)(void *arg, const char *piece, size_t n), void *arg)
{
    int rc = 0;
    for (size_t at = 0; at < len && !rc; at += step) {
        size_t n = len - at < step ? len - at : step;
        char *piece = malloc(n);
        if (!piece)
            abort();
        memcpy(piece, data + at, n);
        rc = fn(arg, piece, n);
        free(piece);
    }
    return rc;
}

/* The first byte says how large the pieces are. */
static inline int pieces_compare(const uint8_t *data, size_t len, pieces_feed *feed)
{
    if (!len)
        return 0;
    cay__buf whole = CAY__BUF(1 << 20), pieces = CAY__BUF(1 << 20);
    int a = feed(data + 1, len - 1, len, &whole),
        b = feed(data + 1, len - 1, 1 + data[0] % 31u, &pieces);
    if ((a < 0) != (b < 0) || whole.len != pieces.len ||
        (whole.len && memcmp(whole.data, pieces.data, whole.len)))
        abort();
    cay__buf_clear(&whole);
    cay__buf_clear(&pieces);
    return 0;
}
