/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen-netns - writes the netlink messages of src/daemon/keeper/netns.c as constant bytes.
 *
 * A net namespace is made for every sandbox ahead of time, so what it is told is put together here,
 * once, and the helper sends it as it is. The page /usr/include/linux/netfilter/nf_tables.h is the
 * reference; the rules are
 *
 *     table inet cay
 *       chain pre  { type filter hook prerouting priority mangle; policy accept;
 *         meta l4proto != tcp accept
 *         ip daddr 127.0.0.0/8 accept ; ip6 daddr ::1 accept
 *         ip daddr 198.18.0.1 accept  ; ip6 daddr fd63:6179::1 accept
 *         tcp dport 53 accept
 *         tproxy to :15001 accept
 *         tcp flags & (syn|ack) == syn reject with tcp reset }   when nobody holds the listener
 *       chain filt { type filter hook output priority filter; policy accept;
 *         meta l4proto tcp accept ; loopback and own addresses accept ; multicast reject
 *         udp dport 53 accept ; udp sport 53 accept
 *         reject }
 *
 * and, where the kernel has no tproxy, a nat chain at the output hook with `redirect to :15001`
 * instead of pre.
 */
#include <arpa/inet.h>
#include <daemon/keeper/netns.h>
#include <linux/if_addr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char buf[8192];
static size_t len, msg;
static unsigned seq;

static void put(const void *p, size_t n)
{
    if (len + n + 4 > sizeof buf) {
        fprintf(stderr, "gen-netns: the batch does not fit\n");
        exit(1);
    }
    memcpy(buf + len, p, n);
    len = NLMSG_ALIGN(len + n);
}

static void begin(unsigned type, unsigned flags, const void *head, size_t n)
{
    struct nlmsghdr h = { .nlmsg_type = (unsigned short)type,
                          .nlmsg_flags = (unsigned short)(NLM_F_REQUEST | flags),
                          .nlmsg_seq = ++seq };
    msg = len;
    put(&h, sizeof h);
    put(head, n);
}

static void end(void)
{
    ((struct nlmsghdr *)(void *)(buf + msg))->nlmsg_len = (unsigned)(len - msg);
}

static void attr(unsigned type, const void *p, size_t n)
{
    struct nlattr a = { .nla_len = (unsigned short)(sizeof a + n),
                        .nla_type = (unsigned short)type };
    put(&a, sizeof a);
    put(p, n);
}

static void attr32(unsigned type, unsigned v)
{
    unsigned be = htonl(v);
    attr(type, &be, sizeof be);
}

static void text(unsigned type, const char *s)
{
    attr(type, s, strlen(s) + 1);
}

static size_t nest(unsigned type)
{
    size_t at = len;
    attr(type | NLA_F_NESTED, "", 0);
    return at;
}

static void close_nest(size_t at)
{
    ((struct nlattr *)(void *)(buf + at))->nla_len = (unsigned short)(len - at);
}

static size_t expr_at, data_at;

static void expr(const char *name)
{
    expr_at = nest(NFTA_LIST_ELEM);
    text(NFTA_EXPR_NAME, name);
    data_at = nest(NFTA_EXPR_DATA);
}

static void expr_end(void)
{
    close_nest(data_at);
    close_nest(expr_at);
}

static void meta(unsigned key)
{
    expr("meta");
    attr32(NFTA_META_KEY, key);
    attr32(NFTA_META_DREG, NFT_REG_1);
    expr_end();
}

static void payload(unsigned base, unsigned offset, unsigned n)
{
    expr("payload");
    attr32(NFTA_PAYLOAD_DREG, NFT_REG_1);
    attr32(NFTA_PAYLOAD_BASE, base);
    attr32(NFTA_PAYLOAD_OFFSET, offset);
    attr32(NFTA_PAYLOAD_LEN, n);
    expr_end();
}

static void value(unsigned type, const void *p, size_t n)
{
    size_t at = nest(type);
    attr(NFTA_DATA_VALUE, p, n);
    close_nest(at);
}

static void cmp(unsigned op, const void *p, size_t n)
{
    expr("cmp");
    attr32(NFTA_CMP_SREG, NFT_REG_1);
    attr32(NFTA_CMP_OP, op);
    value(NFTA_CMP_DATA, p, n);
    expr_end();
}

static void mask1(unsigned char mask)
{
    expr("bitwise");
    attr32(NFTA_BITWISE_SREG, NFT_REG_1);
    attr32(NFTA_BITWISE_DREG, NFT_REG_1);
    attr32(NFTA_BITWISE_LEN, 1);
    value(NFTA_BITWISE_MASK, &mask, 1);
    value(NFTA_BITWISE_XOR, "\0", 1);
    expr_end();
}

static void load_port(void)
{
    unsigned short be = htons(CAY__NET_PORT);
    expr("immediate");
    attr32(NFTA_IMMEDIATE_DREG, NFT_REG_1);
    value(NFTA_IMMEDIATE_DATA, &be, sizeof be);
    expr_end();
}

static void accept_it(void)
{
    expr("immediate");
    attr32(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    size_t data = nest(NFTA_IMMEDIATE_DATA), verdict = nest(NFTA_DATA_VERDICT);
    attr32(NFTA_VERDICT_CODE, NF_ACCEPT);
    close_nest(verdict);
    close_nest(data);
    expr_end();
}

static void reject(unsigned type, unsigned char code)
{
    expr("reject");
    attr32(NFTA_REJECT_TYPE, type);
    if (type != NFT_REJECT_TCP_RST)
        attr(NFTA_REJECT_ICMP_CODE, &code, 1);
    expr_end();
}

static size_t list_at;

static void nf(unsigned type, unsigned flags, unsigned char family, unsigned short res)
{
    struct nfgenmsg g = { .nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(res) };
    begin(type, flags, &g, sizeof g);
}

static void nft(unsigned type, unsigned flags)
{
    nf(NFNL_SUBSYS_NFTABLES << 8 | type, flags, NFPROTO_INET, 0);
}

static void chain(const char *name, const char *type, unsigned hook, int priority)
{
    nft(NFT_MSG_NEWCHAIN, NLM_F_CREATE);
    text(NFTA_CHAIN_TABLE, "cay");
    text(NFTA_CHAIN_NAME, name);
    size_t at = nest(NFTA_CHAIN_HOOK);
    attr32(NFTA_HOOK_HOOKNUM, hook);
    attr32(NFTA_HOOK_PRIORITY, (unsigned)priority);
    close_nest(at);
    attr32(NFTA_CHAIN_POLICY, NF_ACCEPT);
    text(NFTA_CHAIN_TYPE, type);
    end();
}

static void rule(const char *of, unsigned flags)
{
    nft(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags);
    text(NFTA_RULE_TABLE, "cay");
    text(NFTA_RULE_CHAIN, of);
    list_at = nest(NFTA_RULE_EXPRESSIONS);
}

static void rule_end(void)
{
    close_nest(list_at);
    end();
}

static void l4proto(unsigned op, unsigned char proto)
{
    meta(NFT_META_L4PROTO);
    cmp(op, &proto, 1);
}

static void accept_daddr(const char *of, unsigned char family, const void *addr, size_t n)
{
    rule(of, 0);
    meta(NFT_META_NFPROTO);
    cmp(NFT_CMP_EQ, &family, 1);
    payload(NFT_PAYLOAD_NETWORK_HEADER, family == NFPROTO_IPV4 ? 16 : 24, (unsigned)n);
    cmp(NFT_CMP_EQ, addr, n);
    accept_it();
    rule_end();
}

static void accept_near(const char *of)
{
    struct in_addr own4;
    struct in6_addr own6;
    inet_pton(AF_INET, CAY__NET_OWN4, &own4);
    inet_pton(AF_INET6, CAY__NET_OWN6, &own6);
    accept_daddr(of, NFPROTO_IPV4, "\x7f", 1);
    accept_daddr(of, NFPROTO_IPV6, &in6addr_loopback, 16);
    accept_daddr(of, NFPROTO_IPV4, &own4, 4);
    accept_daddr(of, NFPROTO_IPV6, &own6, 16);
}

static void accept_port53(const char *of, unsigned char proto, unsigned offset)
{
    unsigned short be = htons(53);
    rule(of, 0);
    l4proto(NFT_CMP_EQ, proto);
    payload(NFT_PAYLOAD_TRANSPORT_HEADER, offset, 2);
    cmp(NFT_CMP_EQ, &be, 2);
    accept_it();
    rule_end();
}

static void accept_l4(const char *of, unsigned op)
{
    rule(of, 0);
    l4proto(op, IPPROTO_TCP);
    accept_it();
    rule_end();
}

static void tproxy_chain(void)
{
    unsigned char syn = 0x02;
    chain("pre", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE);
    accept_l4("pre", NFT_CMP_NEQ);
    accept_near("pre");
    accept_port53("pre", IPPROTO_TCP, 2);
    rule("pre", 0);
    load_port();
    expr("tproxy");
    attr32(NFTA_TPROXY_FAMILY, NFPROTO_UNSPEC);
    attr32(NFTA_TPROXY_REG_PORT, NFT_REG_1);
    expr_end();
    accept_it();
    rule_end();
    rule("pre", 0);
    payload(NFT_PAYLOAD_TRANSPORT_HEADER, 13, 1);
    mask1(0x12);
    cmp(NFT_CMP_EQ, &syn, 1);
    reject(NFT_REJECT_TCP_RST, 0);
    rule_end();
}

static void nat_chain(void)
{
    chain("pre", "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST);
    accept_l4("pre", NFT_CMP_NEQ);
    accept_near("pre");
    accept_port53("pre", IPPROTO_TCP, 2);
    rule("pre", 0);
    load_port();
    expr("redir");
    attr32(NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
    expr_end();
    rule_end();
}

/* Nobody answers there, so a query would be lost without a word. */
static void reject_multicast(const char *of)
{
    static const unsigned char family[] = { NFPROTO_IPV4, NFPROTO_IPV6 }, first[] = { 0xe0, 0xff },
                               mask[] = { 0xf0, 0xff };
    for (int i = 0; i < 2; i++) {
        rule(of, 0);
        meta(NFT_META_NFPROTO);
        cmp(NFT_CMP_EQ, &family[i], 1);
        payload(NFT_PAYLOAD_NETWORK_HEADER, i ? 24 : 16, 1);
        mask1(mask[i]);
        cmp(NFT_CMP_EQ, &first[i], 1);
        reject(NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_PORT_UNREACH);
        rule_end();
    }
}

static void filter_chain(void)
{
    chain("filt", "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER);
    accept_l4("filt", NFT_CMP_EQ);
    accept_near("filt");
    reject_multicast("filt");
    accept_port53("filt", IPPROTO_UDP, 2);
    accept_port53("filt", IPPROTO_UDP, 0);
    rule("filt",
         NLM_F_ACK); /* the last one answers for all: a refusal of an earlier one comes before it */
    reject(NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_PORT_UNREACH);
    rule_end();
}

static void print(const char *name)
{
    printf("static const unsigned char %s[%zu] __attribute__((aligned(4))) = {", name, len);
    for (size_t i = 0; i < len; i++)
        printf("%s0x%02x,", i % 20 ? "" : "\n    ", buf[i]);
    printf("\n};\n");
    len = 0;
    seq = 0;
}

static void ruleset(const char *name, void (*first)(void))
{
    nf(NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end();
    nft(NFT_MSG_NEWTABLE, NLM_F_CREATE);
    text(NFTA_TABLE_NAME, "cay");
    end();
    if (first)
        first();
    filter_chain();
    nf(NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end();
    print(name);
}

static void family(int af, const char *own, size_t n, unsigned char bits, unsigned char scope)
{
    unsigned char addr[16];
    unsigned oif = 1, flags = IFA_F_NODAD | IFA_F_PERMANENT;
    inet_pton(af, own, addr);
    struct ifaddrmsg a = { .ifa_family = (unsigned char)af, .ifa_prefixlen = bits, .ifa_index = 1 };
    begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &a, sizeof a);
    attr(IFA_LOCAL, addr, n);
    attr(IFA_ADDRESS, addr, n);
    if (af == AF_INET6)
        attr(IFA_FLAGS, &flags, sizeof flags);
    end();
    struct rtmsg r = { .rtm_family = (unsigned char)af,
                       .rtm_table = RT_TABLE_LOCAL,
                       .rtm_protocol = RTPROT_BOOT,
                       .rtm_scope = scope,
                       .rtm_type = RTN_LOCAL };
    begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &r, sizeof r);
    attr(RTA_OIF, &oif, sizeof oif);
    attr(RTA_PREFSRC, addr, n);
    end();
}

int main(void)
{
    struct ifinfomsg up = { .ifi_index = 1, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };
    printf("/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by tools/gen-netns.c. */\n");
    begin(RTM_NEWLINK, NLM_F_ACK, &up, sizeof up);
    end();
    family(AF_INET, CAY__NET_OWN4, 4, 32, RT_SCOPE_HOST);
    family(AF_INET6, CAY__NET_OWN6, 16, 128, RT_SCOPE_UNIVERSE);
    print("link_batch");
    ruleset("tproxy_batch", tproxy_chain);
    ruleset("nat_batch", nat_chain);
    ruleset("filter_batch", NULL);
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
