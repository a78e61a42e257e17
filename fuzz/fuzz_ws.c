/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a WebSocket. The first byte cuts them in pieces; however they are cut, the same messages come out. */
#include <net/ws.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int keep(int kind, const char *text, size_t len, void *arg, cay_err *err)
{
    char head[2] = { (char)kind, (char)(len % 251) };
    (void)err;
    if (text[len] || kind < 1 || kind > CAY__WS_PONG_FRAME || (kind >= CAY__WS_CLOSE_FRAME && len > 125))
        abort();
    cay__buf_add(arg, head, 2);
    cay__buf_add(arg, text, len);
    return 0;
}

static int feed(const uint8_t *data, size_t len, size_t step, cay__buf *out)
{
    cay__ws_in w = CAY__WS_IN(4096, keep, out);
    int rc = 0;
    for (size_t at = 0; at < len && !rc; at += step) {
        size_t n = len - at < step ? len - at : step;
        char *piece = malloc(n); /* of the exact size */
        if (!piece)
            abort();
        memcpy(piece, data + at, n);
        rc = cay__ws_feed(&w, piece, n, NULL);
        free(piece);
    }
    cay__ws_end(&w);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    cay__buf whole = CAY__BUF(1 << 20), pieces = CAY__BUF(1 << 20);
    size_t step = 1 + data[0] % 31;
    int a = feed(data + 1, len - 1, len, &whole), b = feed(data + 1, len - 1, step, &pieces);
    if ((a < 0) != (b < 0) || whole.len != pieces.len || (whole.len && memcmp(whole.data, pieces.data, whole.len)))
        abort();
    cay__buf_clear(&whole);
    cay__buf_clear(&pieces);
    return 0;
}
