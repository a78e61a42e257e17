/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy/policy.h - what a sandbox may reach: the rules, their text, and the decision.
 *
 * One text for people, the command line, the store and egress. A rule is
 *
 *     [!][SCHEME://]TARGET[:PORT[-PORT]]
 *
 * `!` denies; a deny has no scheme, and without a port it holds for all. SCHEME is tls, http or
 * tcp, with `+opaque` behind tls where a hello without a readable name is accepted. TARGET is an
 * exact name, `*.name` (below it), `**.name` (it and below it), an address or CIDR (IPv6 with a
 * port in brackets), or `any` (every name and address). Without a port a rule holds for 443 as tls
 * and 80 as http; a port without a scheme is tls on 443, http on 80 and tcp elsewhere. A name of
 * one label needs a port, because a preset (policy/presets.c) is such a word too: it stands for a
 * list of rules.
 *
 * A whole policy is lines of text, read by egress from a file that only the keeper writes:
 *
 *     cay-net 1
 *     mode off|all|rules
 *     rule RULE              any number, in order of precedence: any deny before any allow
 *     rate up|down BYTES     per second
 *     connections N          at once
 *     bind …                 a credential's destination (policy/binding.c); never its value
 *
 * The operator's file has mode and rule lines too, and `lift CIDR` (takes a range out of those that
 * are always blocked), `service NAME:PORT ADDRESS:PORT` (a service of the host offered under a
 * name, to sandboxes whose rules allow that name) and `resolver ADDRESS[:PORT]`; `roots FILE` names
 * certificates that are trusted besides the host's where credentials are added; `deny
 * TARGET[:PORT]` is `rule !…`. Its mode is `all` unless it says otherwise; with `rules` its allow
 * rules are the most that any sandbox may reach. Blank lines and those that begin with # are
 * skipped. Pure code: no descriptors, no clock, no allocation besides the policy's own.
 */
#pragma once
#include <base/base.h>

#define CAY__POLICY_MAX       (256u << 10) /* bytes of text */
#define CAY__RULES_MAX        4096u
#define CAY__RATE_LEAST       1024u
#define CAY__RATE_MOST        (1ull << 40)
#define CAY__CONNECTIONS_MOST 1000000u
#define CAY__NAME_MAX         253
#define CAY__ADDR_MAX         46  /* an address as text */
#define CAY__RULE_MAX         320 /* a rule as text */

typedef enum cay__net_mode { CAY__NET_OFF, CAY__NET_ALL, CAY__NET_RULES } cay__net_mode;
typedef enum cay__net_proto { CAY__NET_TLS = 1, CAY__NET_HTTP, CAY__NET_TCP } cay__net_proto;
typedef enum cay__target {
    CAY__T_ANY,
    CAY__T_EXACT,
    CAY__T_BELOW,
    CAY__T_BOTH,
    CAY__T_CIDR
} cay__target;

typedef struct cay__rule {
    bool deny, opaque;
    bool preset; /* a preset brought it: a deny may take it away again */
    cay__target target;
    cay__net_proto proto;         /* 0: 443 tls and 80 http */
    uint16_t lo, hi;              /* 0, 0: no port was named */
    uint8_t addr[16];             /* CIDR: IPv4 as mapped */
    uint8_t bits;                 /* of 128 */
    char name[CAY__NAME_MAX + 1]; /* folded, A-label form, no trailing dot */
} cay__rule;

typedef struct cay__service_rule {
    char name[CAY__NAME_MAX + 1];
    uint16_t port, to_port;
    uint8_t to[16];
} cay__service_rule;

typedef struct cay__policy {
    cay__net_mode mode;
    cay__rule *rules;
    size_t nrules;
    uint64_t rate_up, rate_down; /* bytes a second, 0: none */
    uint32_t connections;        /* 0: none */
    /* operator's file only */
    cay__rule *lifts;
    size_t nlifts;
    cay__service_rule *services;
    size_t nservices;
    uint8_t resolver[16];
    uint16_t resolver_port; /* 0: the host's own */
    char roots[256];        /* file of certificates that cay-intercept trusts besides the host's */
    /* bindings: policy/binding.h */
    struct cay__binding *bindings;
    size_t nbindings;
    bool words; /* cay__policy_words() has been here */
} cay__policy;

typedef struct cay__verdict {
    bool allow;
    const char *reason; /* stable word: "operator_deny", "blocked_range", "tenant_deny", "allowed",
                           "default_deny", "off", "implicit", "service" */
    const cay__rule *rule; /* that decided, or NULL */
    cay__net_proto proto;  /* how the flow has to look; TCP: anything */
    bool opaque;
    const cay__service_rule *service; /* connect there instead */
    const char *range;                /* of "blocked_range": its name */
} cay__verdict;

/* One rule or preset name; a preset appends several. CAY_EINVAL with a message that names the rule,
 * what is wrong and the remedy. */
int cay__rule_add(cay__policy *p, const char *text, cay_err *err);
/* Ports of a rule: without its own it has two, 443 for i 0 and 80 for i 1. */
void cay__rule_ports(const cay__rule *r, unsigned i, unsigned *lo, unsigned *hi);
/* What it expects at a port: 443 means TLS, 80 HTTP, unless it says otherwise. */
cay__net_proto cay__rule_proto(const cay__rule *r, unsigned port);
int cay__rule_parse(const char *text, cay__rule *out, cay_err *err); /* no preset */
int cay__rule_text(const cay__rule *r, char *buf,
                   size_t size); /* back into text: its length; CAY__RULE_MAX always holds it */
bool cay__rule_same(const cay__rule *a, const cay__rule *b);
bool cay__rule_same_target(const cay__rule *a, const cay__rule *b);
/* Everything that b speaks of, a speaks of too. a is a deny. */
bool cay__rule_covers(const cay__rule *a, const cay__rule *b);
/* What people write: "off", "all", or rules and presets between commas; may be called again to add.
 * Sets the mode. */
int cay__policy_words(cay__policy *p, const char *words, cay_err *err);
/* Rules that contradict each other: an allow that a deny covers whole, one port as tls and as http,
 * allows beside `all`. Those of a preset go silently instead. cay__policy_read() calls it at its
 * end; who adds by hand calls it. */
int cay__policy_check(cay__policy *p, cay_err *err);
/* A whole file. On failure *p is empty again. `operator_` allows the operator's lines. Refuses
 * duplicates that contradict each other (the same target and port both allowed and denied), names
 * the line. */
int cay__policy_read(cay__policy *p, const char *text, size_t len, bool operator_, cay_err *err);
int cay__policy_write(const cay__policy *p, char **text, size_t *len, cay_err *err); /* malloc() */
void cay__policy_clear(cay__policy *p);
/* One more at the end of a list of n. */
#define CAY__GROW(list, n, last)                                                                   \
    do {                                                                                           \
        CAY_GROW(list, n);                                                                         \
        (list)[(n)++] = (last);                                                                    \
    } while (0)

/* Names: folds case, removes one trailing dot, checks labels; IDN only in A-label form. Returns
 * false for what is no host name. */
bool cay__name_fold(const char *in, size_t len, char out[CAY__NAME_MAX + 1]);
bool cay__name_is_number(const char *name); /* some resolver would read it as an address */
bool cay__name_is_local(const char *name);  /* localhost and below */
bool cay__name_below(const char *name, const char *of); /* a.b is below b */

/* Addresses: IPv4 as mapped, in one spelling only (no octal, no ::ffff:1.2.3.4). */
bool cay__addr_parse(const char *text, uint8_t addr[16]);
void cay__addr_text(const uint8_t addr[16], char out[CAY__ADDR_MAX]);
bool cay__addr_is_v4(const uint8_t addr[16]);
bool cay__addr_within(const uint8_t addr[16], const uint8_t net[16], unsigned bits);

/* May this name be looked up at all (some port of it is allowed)? */
cay__verdict cay__decide_lookup(const cay__policy *op, const cay__policy *p, const char *name);
/* A connection to a name, before its address is known; `implicit` for the one fetch of
 * decisions 29. */
cay__verdict cay__decide_name(const cay__policy *op, const cay__policy *p, const char *name,
                              uint16_t port, bool implicit);
/* A connection to an address (IPv4 as mapped): named none when the program dialled it itself; with
 * a name after look-up, where only the blocked ranges and CIDR denies count. */
cay__verdict cay__decide_addr(const cay__policy *op, const cay__policy *p, const char *name,
                              const uint8_t addr[16], uint16_t port);
/* For the control plane: host is a name or an address as text. */
cay__verdict cay__decide_host(const cay__policy *op, const cay__policy *p, const char *host,
                              uint16_t port, bool implicit);
/* Every port that an allow names, each once: how many, or -1 when they are more than `max`, or all.
 */
int cay__policy_ports(const cay__policy *p, uint16_t *out, int max);
/* The range among the always-blocked that holds it ("loopback", "private", "link-local", …), or
 * NULL. */
const char *cay__blocked_range(const uint8_t addr[16]);
/* The same after the operator's lifts. A lifted translator (nat64, 6to4) opens no inner address
 * that is blocked. */
const char *cay__blocked(const cay__policy *op, const uint8_t addr[16]);
const char *cay__lift_wrong(const cay__rule *r); /* why this cannot be lifted, or NULL */
/* Presets, for lists: name i, its rules as words; NULL after the last. */
const char *cay__preset(size_t i, const char *const **rules);
