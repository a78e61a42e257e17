/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of events. The first byte cuts it in pieces; however it is cut, the same events come out. */
#include <net/sse.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int keep(const char *name, const char *text, size_t len, void *arg, cay_err *err)
{
    (void)err;
    if (strlen(name) >= 64 || text[len])
        abort();
    cay__buf_str(arg, name);
    cay__buf_add(arg, "=", 1);
    cay__buf_add(arg, text, len);
    cay__buf_add(arg, "", 1);
    return 0;
}

static int feed(const uint8_t *data, size_t len, size_t step, cay__buf *out)
{
    cay__sse s = CAY__SSE(4096, keep, out);
    int rc = 0;
    for (size_t at = 0; at < len && !rc; at += step) {
        size_t n = len - at < step ? len - at : step;
        char *piece = malloc(n); /* of the exact size */
        if (!piece)
            abort();
        memcpy(piece, data + at, n);
        rc = cay__sse_feed(&s, piece, n, NULL);
        free(piece);
    }
    cay__sse_end(&s);
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
