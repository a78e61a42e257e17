/* SPDX-License-Identifier: Apache-2.0 */
/* A question from inside, and every kind of answer to it. */
#include <base/base.h>
#include <daemon/egress/dnsmsg.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint16_t types[] = { 0, DNS_A, DNS_AAAA, DNS_PTR };
    uint8_t out[DNS_SIZE], addr[16];
    dns_query q;
    int rcode = dns_read_query(data, len, &q);
    if (rcode == DNS_DROP)
        return 0;
    if (strlen(q.name) > 254 || 12 + q.question > len)
        abort();
    dns_ptr_addr(q.name, addr);
    for (size_t i = 0; i < CAY_LEN(types); i++) {
        dns_answer a = { .rcode = rcode, .type = types[i], .ttl = 60, .ptr = "name.example" };
        if (!types[i])
            a.ede = DNS_EDE_BLOCKED, a.ede_text = "text";
        size_t limit = CAY_MIN(q.udp_size, sizeof out),
               n = dns_write_reply(data, &q, &a, out, limit);
        if (n > limit || (n && memcmp(out, data, 2) != 0))
            abort();
        dns_query back; /* what we say is sound: it reads as an answer, so it is dropped */
        if (n && dns_read_query(out, n, &back) != DNS_DROP)
            abort();
    }
    return 0;
}
