/* SPDX-License-Identifier: Apache-2.0 */
#include "dnsmsg.h"
#include <base/base.h>
#include <base/mutant.h>

enum {
    HEAD = 12,
    TYPE_CNAME = 5,
    TYPE_OPT = 41,
    FLAG_QR = 0x8000,
    FLAG_TC = 0x0200,
    FLAG_RD = 0x0100,
    FLAG_RA = 0x0080,
    FLAG_CD = 0x0010,
    OPT_EDE = 15,
    JUMPS = 32,
    ALIASES = 16
};

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

static uint16_t read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)read_u16(p) << 16 | read_u16(p + 2);
}

static uint8_t *write_u16(uint8_t *p, unsigned v)
{
    *p++ = (uint8_t)(v >> 8);
    *p++ = (uint8_t)v;
    return p;
}

static uint8_t *write_u32(uint8_t *p, uint32_t v)
{
    return write_u16(write_u16(p, v >> 16), v & 0xffff);
}

static bool is_host_byte(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* A name at `at`, folded into text; what no host name has becomes '?' and sets *odd. Returns where
 * the message goes on, or 0. Pointers only go backwards, so a loop cannot be built. */
static size_t read_name(const uint8_t *p, size_t len, size_t at, bool pointers, char out[256],
                        bool *odd)
{
    size_t n = 0, next = 0, floor = at;
    int jumps = 0;
    *odd = false;
    for (;;) {
        if (at >= len)
            return 0;
        uint8_t c = p[at];
        if ((c & 0xc0) == 0xc0) {
            if (!pointers || at + 2 > len || ++jumps > JUMPS)
                return 0;
            size_t to = read_u16(p + at) & 0x3fff;
            if (to >= floor)
                return 0;
            next = CAY_OR(next, at + 2);
            at = floor = to;
            continue;
        }
        if (c > 63)
            return 0;
        at++;
        if (c == 0)
            break;
        if (at + c > len || (n + c + 1 > 254 && !CAY__MUTANT("fuzz-dns_query")))
            return 0;
        if (n)
            out[n++] = '.';
        for (size_t i = 0; i < c; i++) {
            uint8_t b = p[at + i];
            if (b >= 'A' && b <= 'Z')
                b = (uint8_t)(b | 0x20);
            *odd |= !is_host_byte(b);
            out[n++] = is_host_byte(b) ? (char)b : '?';
        }
        at += c;
    }
    out[n] = 0;
    return CAY_OR(next, at);
}

/* The OPT record, wherever it stands behind the question. Anything else there is read over. */
static int read_opt(const uint8_t *p, size_t len, size_t at, unsigned records, dns_query *q)
{
    char owner[256];
    bool odd;
    for (unsigned i = 0; i < records; i++) {
        at = read_name(p, len, at, true, owner, &odd);
        if (!at || at + 10 > len)
            return DNS_FORMERR;
        size_t size = read_u16(p + at + 8);
        if (at + 10 + size > len)
            return DNS_FORMERR;
        if (read_u16(p + at) == TYPE_OPT) {
            if (q->edns || owner[0])
                return DNS_FORMERR;
            q->edns = true;
            q->udp_size = CAY_MAX(read_u16(p + at + 2), 512);
            q->dnssec_ok = p[at + 6] & 0x80;
            if (p[at + 5])
                return DNS_BADVERS;
        }
        at += 10 + size;
    }
    return DNS_NOERROR;
}

int dns_read_query(const uint8_t *p, size_t len, dns_query *q)
{
    memset(q, 0, sizeof *q);
    q->udp_size = 512;
    if (len < HEAD || (read_u16(p + 2) & FLAG_QR)) /* an answer to an answer is how loops begin */
        return DNS_DROP;
    if ((read_u16(p + 2) >> 11 & 15) != 0)
        return DNS_NOTIMP;
    if (read_u16(p + 4) != 1 || read_u16(p + 6))
        return DNS_FORMERR;
    size_t at = read_name(p, len, HEAD, false, q->name, &q->odd);
    if (!at || at + 4 > len)
        return DNS_FORMERR;
    q->type = read_u16(p + at);
    q->class_ = read_u16(p + at + 2);
    q->question = at + 4 - HEAD;
    return read_opt(p, len, at + 4, (unsigned)read_u16(p + 8) + read_u16(p + 10), q);
}

/* Labels of a folded name; NULL when it cannot be said. */
static uint8_t *write_name(uint8_t *p, const uint8_t *end, const char *name)
{
    while (*name) {
        size_t n = strcspn(name, ".");
        if (n == 0 || n > 63 || (size_t)(end - p) < n + 2)
            return NULL;
        *p++ = (uint8_t)n;
        memcpy(p, name, n);
        p += n;
        name += n + (name[n] == '.');
    }
    if (p == end)
        return NULL;
    *p++ = 0;
    return p;
}

static uint8_t *write_opt(uint8_t *p, const dns_query *q, const dns_answer *a)
{
    size_t text = 0;
    if (a->ede && a->ede_text)
        text = CAY_MIN(strlen(a->ede_text), 64);
    *p++ = 0;
    p = write_u16(p, TYPE_OPT);
    p = write_u16(p, DNS_SIZE);
    *p++ = (uint8_t)(a->rcode >> 4);
    *p++ = 0;
    p = write_u16(p, q->dnssec_ok ? 0x8000 : 0);
    p = write_u16(p, a->ede ? (unsigned)(6 + text) : 0);
    if (a->ede) {
        p = write_u16(p, OPT_EDE);
        p = write_u16(p, (unsigned)(2 + text));
        p = write_u16(p, (unsigned)a->ede);
        if (text)
            memcpy(p, a->ede_text, text);
        p += text;
    }
    return p;
}

static size_t record_size(const dns_answer *a)
{
    if (a->type == DNS_A)
        return 16u;
    if (a->type == DNS_AAAA)
        return 28u;
    if (a->type == DNS_PTR)
        return 14 + strlen(a->ptr);
    return 0u;
}

static uint8_t *write_record(uint8_t *p, const uint8_t *end, const dns_answer *a)
{
    p = write_u16(p, 0xc000 | HEAD); /* the name of the question */
    p = write_u16(p, a->type);
    p = write_u16(p, DNS_IN);
    p = write_u32(p, a->ttl);
    if (a->type == DNS_PTR) {
        uint8_t *size = p;
        p = write_name(p + 2, end, a->ptr);
        if (p)
            write_u16(size, (unsigned)(p - size - 2));
        return p;
    }
    unsigned len = 16;
    if (a->type == DNS_A)
        len = 4;
    p = write_u16(p, len);
    memcpy(p, a->addr + 16 - len, len);
    return p + len;
}

size_t dns_write_reply(const uint8_t *query, const dns_query *q, const dns_answer *a, uint8_t *out,
                       size_t limit)
{
    size_t least = HEAD + q->question;
    if (q->edns)
        least += 11;
    if (q->edns && a->ede)
        least += 6 + 64;
    bool cut = least + record_size(a) > limit;
    if (least > limit)
        return 0;
    uint16_t asked = read_u16(query + 2);
    unsigned flags = FLAG_QR | FLAG_RA | (asked & (FLAG_RD | FLAG_CD | 0x7800)) |
                     (cut ? FLAG_TC : 0) | (a->rcode & 15);
    uint8_t *p = out;
    memcpy(p, query, 2);
    p = write_u16(p + 2, flags);
    p = write_u16(p, q->question ? 1 : 0);
    uint8_t *count = p;
    memset(p, 0, 6);
    write_u16(p + 4, q->edns ? 1 : 0);
    p += 6;
    memcpy(p, query + HEAD, q->question);
    p += q->question;
    if (!cut && record_size(a)) {
        uint8_t *after = write_record(p, out + limit, a);
        if (!after)
            return 0;
        p = after;
        write_u16(count, 1);
    }
    if (q->edns)
        p = write_opt(p, q, a);
    return (size_t)(p - out);
}

bool dns_ptr_addr(const char *name, uint8_t addr[16])
{
    memcpy(addr, mapped, 12);
    const char *s = name;
    int i = 3;
    for (; i >= 0; i--) {
        unsigned v = 0;
        int digits = 0;
        for (; *s >= '0' && *s <= '9' && digits < 3; s++, digits++)
            v = v * 10 + (unsigned)(*s - '0');
        if (!digits || v > 255 || *s++ != '.')
            break;
        addr[12 + i] = (uint8_t)v;
    }
    if (i < 0 && !strcmp(s, "in-addr.arpa"))
        return true;
    if (strlen(name) != 64 + 8 || strcmp(name + 64, "ip6.arpa") != 0)
        return false;
    for (i = 0; i < 32; i++) {
        int v = cay__hex_digit(name[2 * i]);
        if (v < 0 || name[2 * i + 1] != '.')
            return false;
        uint8_t *b = &addr[15 - i / 2];
        *b = (uint8_t)(i % 2 ? *b | v << 4 : v);
    }
    return true;
}

size_t dns_write_query(uint16_t id, const char *name, uint16_t type, uint8_t *out, size_t cap)
{
    if (cap < HEAD + 4 + 11 + 1 || strlen(name) > 253)
        return 0;
    memset(out, 0, HEAD);
    write_u16(out, id);
    write_u16(out + 2, FLAG_RD);
    write_u16(out + 4, 1);
    write_u16(out + 10, 1);
    uint8_t *p = write_name(out + HEAD, out + cap - 15, name);
    if (!p)
        return 0;
    p = write_u16(p, type);
    p = write_u16(p, DNS_IN);
    *p++ = 0; /* OPT: no options, so that nothing tells one sandbox from another */
    p = write_u16(p, TYPE_OPT);
    p = write_u16(p, DNS_SIZE);
    p = write_u32(p, 0);
    p = write_u16(p, 0);
    return (size_t)(p - out);
}

/* One walk through the answers: the alias of `target`, or addresses of it. */
static bool walk_answers(const uint8_t *p, size_t len, size_t at, unsigned count, uint16_t type,
                         char target[256], dns_found *out, bool *aliased)
{
    char owner[256], alias[256];
    bool odd;
    *aliased = false;
    for (unsigned i = 0; i < count; i++) {
        at = read_name(p, len, at, true, owner, &odd);
        if (!at || at + 10 > len)
            return false;
        uint16_t t = read_u16(p + at), class_ = read_u16(p + at + 2);
        uint32_t ttl = read_u32(p + at + 4);
        size_t size = read_u16(p + at + 8), data = at + 10;
        if (data + size > len)
            return false;
        at = data + size;
        if (class_ != DNS_IN || strcmp(owner, target) != 0)
            continue;
        if (t == TYPE_CNAME && !*aliased) {
            if (!read_name(p, len, data, true, alias, &odd))
                return false;
            *aliased = true;
            out->ttl = CAY_MIN(out->ttl, ttl);
        } else if (t == type && (out->n < DNS_ADDRS || CAY__MUTANT("fuzz-dns_reply")) &&
                   size == (t == DNS_A ? 4 : 16)) {
            uint8_t *a = out->addr[out->n++];
            memcpy(a, mapped, 12);
            memcpy(a + (t == DNS_A ? 12 : 0), p + data, size);
            out->ttl = CAY_MIN(out->ttl, ttl);
        }
    }
    if (*aliased)
        memcpy(target, alias, sizeof alias);
    return true;
}

bool dns_read_reply(const uint8_t *p, size_t len, uint16_t id, const char *name, uint16_t type,
                    dns_found *out)
{
    char target[256];
    bool odd, aliased = true;
    memset(out, 0, sizeof *out);
    if (len < HEAD || read_u16(p) != id || read_u16(p + 4) != 1)
        return false;
    uint16_t flags = read_u16(p + 2);
    if (!(flags & FLAG_QR) || (flags >> 11 & 15) != 0)
        return false;
    size_t at = read_name(p, len, HEAD, false, target, &odd);
    if (!at || at + 4 > len || odd || strcmp(target, name) != 0 || read_u16(p + at) != type ||
        read_u16(p + at + 2) != DNS_IN)
        return false;
    out->rcode = flags & 15;
    out->truncated = flags & FLAG_TC;
    out->ttl = UINT32_MAX;
    for (int i = 0; i < ALIASES && aliased && !out->n; i++)
        if (!walk_answers(p, len, at + 4, read_u16(p + 6), type, target, out, &aliased))
            return out
                ->truncated; /* a cut message may end anywhere; what it held is asked for again */
    if (!out->n)
        out->ttl = 0;
    return true;
}
