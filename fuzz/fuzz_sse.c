/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of events. The first byte cuts it in pieces; however it is cut, the same events come
 * out. */
#include "pieces.h"
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

static int one(void *arg, const char *piece, size_t n)
{
    return cay__sse_feed(arg, piece, n, NULL);
}

static int feed(const uint8_t *data, size_t len, size_t step, cay__buf *out)
{
    cay__sse r = CAY__SSE(4096, keep, out);
    int rc = pieces_each(data, len, step, one, &r);
    cay__sse_end(&r);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    return pieces_compare(data, len, feed);
}
