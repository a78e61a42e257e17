/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS ClientHello, whole and as it comes in. */
#include <base/base.h>
#include <daemon/egress/hello.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    hello h, part;
    int rc = hello_read(data, len, &h);
    if (rc == HELLO_OK && h.named &&
        (h.sni_len == 0 || h.sni_len >= sizeof h.sni || h.sni[h.sni_len]))
        abort();
    if (rc == HELLO_MORE && h.need <= len)
        abort(); /* it would be asked again for ever */
    /* More bytes never turn a verdict over. */
    for (size_t n = 0; n < CAY_MIN(len, 300); n++) {
        int early = hello_read(data, n, &part);
        if (early == HELLO_BAD && rc != HELLO_BAD)
            abort();
        if (early == HELLO_OK && (rc != HELLO_OK || strcmp(part.sni, h.sni) != 0))
            abort();
    }
    return 0;
}
