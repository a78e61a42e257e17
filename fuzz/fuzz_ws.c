/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a WebSocket. The first byte cuts them in pieces; however they are cut, the same
 * messages come out. */
#include "pieces.h"
#include <net/ws.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int keep(int kind, const char *text, size_t len, void *arg, cay_err *err)
{
    char head[2] = { (char)kind, (char)(len % 251) };
    (void)err;
    if (text[len] || kind < 1 || kind > CAY__WS_PONG_FRAME ||
        (kind >= CAY__WS_CLOSE_FRAME && len > 125))
        abort();
    cay__buf_add(arg, head, 2);
    cay__buf_add(arg, text, len);
    return 0;
}

static int one(void *arg, const char *piece, size_t n)
{
    return cay__ws_feed(arg, piece, n, NULL);
}

static int feed(const uint8_t *data, size_t len, size_t step, cay__buf *out)
{
    cay__ws_in r = CAY__WS_IN(4096, keep, out);
    int rc = pieces_each(data, len, step, one, &r);
    cay__ws_end(&r);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    return pieces_compare(data, len, feed);
}
