/* SPDX-License-Identifier: Apache-2.0 */
/* What a resolver, or whoever can send in its name, answers to a question for good.test. */
#include <base/base.h>
#include <daemon/egress/dnsmsg.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint16_t types[] = { DNS_A, DNS_AAAA };
    dns_found f;
    for (size_t i = 0; i < CAY_LEN(types); i++)
        if (dns_read_reply(data, len, 0x1234, "good.test", types[i], &f) &&
            (f.n < 0 || f.n > DNS_ADDRS))
            abort();
    return 0;
}
