/* SPDX-License-Identifier: Apache-2.0 */
/* The ranges that no sandbox reaches, and addresses as text. */
#include "policy.h"
#include <arpa/inet.h>
#include <base/mutant.h>

typedef struct range {
    uint8_t addr[16];
    uint8_t bits; /* of 128 */
    uint8_t from; /* where an IPv4 address is embedded; 0: nowhere */
    bool hard;    /* not even the operator opens it: the host itself, or what is no one host */
    const char *name;
} range;

#define V4(a, b, c, d)                                                                             \
    {                                                                                              \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d                                       \
    }
/* The first that fits tells the name, so the narrow ones stand first. */
static const range ranges[] = {
    { V4(0, 0, 0, 0), 96 + 8, 0, true, "unspecified" },
    { V4(127, 0, 0, 0), 96 + 8, 0, true, "loopback" },
    { V4(198, 18, 0, 0), 96 + 15, 0, true, "synthetic" }, /* our own names, and benchmark nets */
    { V4(224, 0, 0, 0), 96 + 4, 0, true, "multicast" },
    { V4(255, 255, 255, 255), 128, 0, true, "broadcast" },
    { V4(240, 0, 0, 0), 96 + 4, 0, false, "reserved" },
    { V4(10, 0, 0, 0), 96 + 8, 0, false, "private" },
    { V4(172, 16, 0, 0), 96 + 12, 0, false, "private" },
    { V4(192, 168, 0, 0), 96 + 16, 0, false, "private" },
    { V4(169, 254, 169, 254), 128, 0, false, "metadata" },
    { V4(169, 254, 170, 2), 128, 0, false, "metadata" }, /* credentials of containers */
    { V4(169, 254, 0, 0), 96 + 16, 0, false, "link-local" },
    { V4(100, 100, 100, 200), 128, 0, false, "metadata" },
    { V4(100, 64, 0, 0), 96 + 10, 0, false, "cgnat" },
    { V4(168, 63, 129, 16), 128, 0, false,
      "metadata" }, /* a public number that only its cloud answers */
    { V4(192, 0, 0, 0), 96 + 24, 0, false, "reserved" }, /* one cloud's metadata is 192.0.0.192 */
    { V4(192, 88, 99, 0), 96 + 24, 0, false, "6to4" },
    { { 0 }, 128, 0, true, "unspecified" },
    { { [15] = 1 }, 128, 0, true, "loopback" },
    { { [8] = 0xff, [9] = 0xff }, 96, 12, true, "translated" }, /* RFC 2765 */
    { { 0 }, 96, 12, true, "compatible" },
    { { 0, 0x64, 0xff, 0x9b }, 96, 12, false, "nat64" },
    { { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48, 0, false, "nat64" },
    { { 1, 0 }, 64, 0, false, "reserved" },
    { { 0x20, 0x01, 0, 0 },
      32,
      0,
      true,
      "teredo" }, /* holds two addresses, one of them inverted: never */
    { { 0x20, 0x01, 0, 0 }, 23, 0, false, "reserved" },
    { { 0x20, 0x02 }, 16, 2, false, "6to4" },
    { { 0xfd, 0x63, 0x61, 0x79 }, 32, 0, true, "synthetic" },
    { { 0xfd, 0, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54 }, 128, 0, false, "metadata" },
    { { 0xfc }, 7, 0, false, "private" },
    { { 0xfe, 0x80 }, 10, 0, false, "link-local" },
    { { 0xfe, 0xc0 }, 10, 0, false, "site-local" },
    { { 0xff }, 8, 0, true, "multicast" },
};

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

bool cay__addr_is_v4(const uint8_t addr[16])
{
    return !memcmp(addr, mapped, 12);
}

bool cay__addr_within(const uint8_t addr[16], const uint8_t net[16], unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    return !memcmp(addr, net, whole) && (!rest || (addr[whole] ^ net[whole]) >> (8 - rest) == 0);
}

static const range *find_range(const uint8_t addr[16])
{
    CAY_EACH(it, ranges)
        if (cay__addr_within(addr, it->addr, it->bits))
            return it;
    return NULL;
}

const char *cay__blocked_range(const uint8_t addr[16])
{
    const range *r = find_range(addr);
    if (r)
        return r->name;
    return NULL;
}

/* A wide lift does not open the narrow range within it: 169.254.0.0/16 leaves the metadata address
 * closed. */
static bool is_lifted(const cay__policy *op, const uint8_t addr[16], unsigned least)
{
    for (size_t i = 0; op && i < op->nlifts; i++)
        if (op->lifts[i].bits >= least &&
            cay__addr_within(addr, op->lifts[i].addr, op->lifts[i].bits))
            return true;
    return false;
}

const char *cay__blocked(const cay__policy *op, const uint8_t addr[16])
{
    const range *r = find_range(addr);
    if (!r || CAY__MUTANT("net-ranges"))
        return NULL;
    if (r->hard || !is_lifted(op, addr, r->bits))
        return r->name;
    if (!r->from)
        return NULL;
    /* The operator opened a translator, not what is behind it. */
    uint8_t inner[16];
    memcpy(inner, mapped, 12);
    memcpy(inner + 12, addr + r->from, 4);
    return cay__blocked(op, inner);
}

const char *cay__lift_wrong(const cay__rule *r)
{
    const range *of = find_range(r->addr);
    if (!of)
        return "it is not blocked, so there is nothing to lift";
    if (of->hard)
        return "that is never opened; offer one service of the host by a service line";
    if (r->bits < of->bits)
        return "it is wider than the blocked range it begins in; lift the ranges one by one";
    return NULL;
}

bool cay__addr_parse(const char *text, uint8_t addr[16])
{
    memcpy(addr, mapped, 12);
    if (inet_pton(AF_INET, text, addr + 12) == 1)
        return true;
    /* ::ffff:10.0.0.1 is another spelling of an IPv4 address; one spelling is enough. */
    return inet_pton(AF_INET6, text, addr) == 1 && !cay__addr_is_v4(addr);
}

void cay__addr_text(const uint8_t addr[16], char out[CAY__ADDR_MAX])
{
    if (cay__addr_is_v4(addr))
        inet_ntop(AF_INET, addr + 12, out, CAY__ADDR_MAX);
    else
        inet_ntop(AF_INET6, addr, out, CAY__ADDR_MAX);
}
