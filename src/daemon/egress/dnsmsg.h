/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon/egress/dnsmsg.h - DNS messages as bytes: what a sandbox asks and is told, what a resolver
 * is asked and tells.
 *
 *   dns_read_query()   a question from inside          dns_write_reply()  our answer to it
 *   dns_write_query()  a question to a resolver        dns_read_reply()   its addresses
 *
 * Pure: no descriptor, no clock, nothing allocated. Every byte read comes from somebody who may be
 * hostile.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DNS_SIZE      1232 /* what we send and announce: no fragments on any path */
#define DNS_QUERY_MAX 1232
#define DNS_ADDRS     8

enum { DNS_A = 1, DNS_PTR = 12, DNS_AAAA = 28, DNS_IN = 1 };
enum {
    DNS_NOERROR = 0,
    DNS_FORMERR = 1,
    DNS_SERVFAIL = 2,
    DNS_NXDOMAIN = 3,
    DNS_NOTIMP = 4,
    DNS_BADVERS = 16
};
#define DNS_DROP        (-1)
#define DNS_EDE_BLOCKED 15 /* RFC 8914, 4.16 */

typedef struct dns_query {
    uint16_t type, class_;
    uint16_t udp_size; /* what the asker can take; 512 without EDNS */
    bool edns, dnssec_ok;
    bool odd;        /* a label that no host name has; name is for people only */
    char name[256];  /* folded, no trailing dot; "" is the root */
    size_t question; /* bytes of the question, which begins at 12 */
} dns_query;

/* DNS_NOERROR: answer it. Another rcode: answer with that. DNS_DROP: no answer at all. */
int dns_read_query(const uint8_t *p, size_t len, dns_query *q);

typedef struct dns_answer {
    int rcode;
    int ede; /* extended error, sent only to those who speak EDNS; 0: none */
    const char *ede_text;
    uint32_t ttl;
    uint16_t type; /* of the one record: DNS_A, DNS_AAAA, DNS_PTR; 0: no record */
    uint8_t addr[16];
    const char *ptr;
} dns_answer;

/* The length, 0 when it does not fit even without a record. Sets TC and leaves the record out
 * beyond `limit`. */
size_t dns_write_reply(const uint8_t *query, const dns_query *q, const dns_answer *a, uint8_t *out,
                       size_t limit);

/* The address that a name below in-addr.arpa or ip6.arpa stands for (IPv4 as mapped). */
bool dns_ptr_addr(const char *name, uint8_t addr[16]);

/* The length, 0 when the name cannot be said. */
size_t dns_write_query(uint16_t id, const char *name, uint16_t type, uint8_t *out, size_t cap);

typedef struct dns_found {
    int rcode;
    bool truncated;
    int n;
    uint8_t addr[DNS_ADDRS][16]; /* IPv4 as mapped */
    uint32_t ttl;                /* the least on the way, in seconds */
} dns_found;

/* False: not the answer to this question. Follows aliases inside the message only. */
bool dns_read_reply(const uint8_t *p, size_t len, uint16_t id, const char *name, uint16_t type,
                    dns_found *out);
