/* SPDX-License-Identifier: Apache-2.0 */
/* A body in chunks. The first byte cuts it in pieces; however it is cut, the same comes out. */
#include <base/buf.h>
#include <net/chunk.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int feed(const uint8_t *data, size_t len, size_t step, cay__buf *out, size_t *end)
{
    cay__chunk c = { 0 };
    size_t at = 0;
    while (at < len && !c.done) {
        size_t n = len - at < step ? len - at : step;
        char *piece = malloc(n); /* of the exact size */
        if (!piece)
            abort();
        memcpy(piece, data + at, n);
        for (size_t i = 0; i < n && !c.done;) {
            const char *body;
            size_t used, got;
            if (cay__chunk_read(&c, piece + i, n - i, step, &used, &body, &got, NULL) < 0) {
                free(piece);
                return -1;
            }
            if (used > n - i || got > used || (!used && !c.done))
                abort();
            cay__buf_add(out, body, got);
            i += used;
            at += used;
        }
        free(piece);
    }
    *end = at;
    return c.done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    cay__buf whole = CAY__BUF(1 << 20), pieces = CAY__BUF(1 << 20);
    size_t step = 1 + data[0] % 63, end1 = 0, end2 = 0;
    int a = feed(data + 1, len - 1, len, &whole, &end1),
        b = feed(data + 1, len - 1, step, &pieces, &end2);
    if (a != b || (a >= 0 && (end1 != end2 || whole.len != pieces.len ||
                              (whole.len && memcmp(whole.data, pieces.data, whole.len)))))
        abort();
    cay__buf_clear(&whole);
    cay__buf_clear(&pieces);
    return 0;
}
