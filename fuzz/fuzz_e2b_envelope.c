/* SPDX-License-Identifier: Apache-2.0 */
/* An envelope of a Connect-RPC request: what is read is all of it but its head, and written again
 * it is the same. */
#include <base/buf.h>
#include <server/dialect/e2b/envelope.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = NULL;
    size_t n = 0;
    cay_err err = CAY_ERR_INIT;
    cay__buf out = CAY__BUF(1 << 20);
    if (e2b_unwrap((const char *)data, len, &text, &n, &err) == 0) {
        if (text != (const char *)data + 5 || n != len - 5 || data[0] & 1)
            abort();
        e2b_envelope(&out, data[0], text, n);
        if (out.len != len || memcmp(out.data, data, len))
            abort();
    } else if (!*err.msg || !*e2b_fault_of(&err)->word) {
        abort();
    }
    /* As a stream of them: each begins where the one before it ended, and what is left over is less
     * than one. */
    size_t at = 0, used = 0;
    int rc;
    while ((rc = e2b_next((const char *)data + at, len - at, &used, &text, &n, &err)) > 0) {
        if (used != n + 5 || used > len - at || text != (const char *)data + at + 5)
            abort();
        at += used;
    }
    if (e2b_whole((const char *)data + at, len - at) != (rc < 0))
        abort();
    cay__buf_clear(&out);
    e2b_envelope_end(&out, *err.msg ? &err : NULL);
    if (out.len < 7 || (unsigned char)out.data[0] != 2)
        abort();
    cay__buf_clear(&out);
    return 0;
}
