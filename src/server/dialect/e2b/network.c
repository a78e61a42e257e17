/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's network options as a policy of ours. */
#include "e2b.h"
#include <arpa/inet.h>
#include <ctype.h>

#define RULES_MAX 1000
#define PORTS_MAX 100

/* An address or CIDR; without a length it is that one address. */
typedef struct net {
    unsigned char a[16];
    unsigned len, bits; /* of the prefix; 32 or 128 */
} net;

static void clear_behind(net *n)
{
    for (unsigned i = n->len; i < n->bits; i++)
        n->a[i / 8] &= (unsigned char)~(0x80u >> i % 8);
}

static bool read_net(const char *s, net *out)
{
    char host[64], *end;
    size_t n = strcspn(s, "/");
    if (n >= sizeof host)
        return false;
    memcpy(host, s, n);
    host[n] = 0;
    *out = (net){ .bits = 32 };
    if (inet_pton(AF_INET, host, out->a) != 1) {
        out->bits = 128;
        if (inet_pton(AF_INET6, host, out->a) != 1)
            return false;
    }
    out->len = out->bits;
    if (s[n] == '/') {
        if (!isdigit((unsigned char)s[n + 1]))
            return false;
        unsigned long v = strtoul(s + n + 1, &end, 10);
        if (*end || v > out->bits)
            return false;
        out->len = (unsigned)v;
    }
    clear_behind(out);
    return true;
}

static bool is_address(const char *s)
{
    net n;
    return read_net(s, &n);
}

static bool has_subnet(const net *a, const net *b)
{
    net cut = *b;
    cut.len = a->len;
    if (a->bits != b->bits || a->len > b->len)
        return false;
    clear_behind(&cut);
    return !memcmp(a->a, cut.a, sizeof cut.a);
}

static int read_text_list(const json_t *network, const char *key, json_t **list, cay_err *err)
{
    json_t *v = e2b_member(network, key), *one;
    size_t i;
    *list = NULL;
    if (!v)
        return 0;
    if (!json_is_array(v) || json_array_size(v) > RULES_MAX)
        return cay_fail(err, CAY_EINVAL, "network.%s is a list of at most %d texts", key,
                        RULES_MAX);
    json_array_foreach(v, i, one)
        if (!cay__json_cstr(one))
            return cay_fail(err, CAY_EINVAL, "network.%s[%zu] is not a text", key, i);
    *list = v;
    return 0;
}

/* It goes into heads that programs read: nothing but what a host can be. */
bool e2b_mask_host(const char *mask, unsigned port, char *out, size_t cap)
{
    static const char var[] = "${PORT}",
                      letters[] =
                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
    char text[E2B_HOST_MAX + 1], number[8];
    size_t n = 0, len = (size_t)CAY_FORMAT(number, "%u", port & 0xffff);
    for (const char *s = CAY_OR(mask, ""); *s;) {
        bool put = cay__str_starts(s, var);
        size_t more = put ? len : 1;
        if ((!put && !strchr(letters, *s)) || n + more > E2B_HOST_MAX)
            return false;
        memcpy(text + n, put ? number : s, more);
        n += more;
        s += put ? sizeof var - 1 : 1;
    }
    text[n] = 0;
    return n && (!out || cay__str_copy(out, cap, text));
}

/* Ports whose programs speak TLS. The daemon's own is this server. */
static int https_ports(const json_t *list, cay_err *err)
{
    const json_t *v;
    size_t i;
    if (list && (!json_is_array(list) || json_array_size(list) > PORTS_MAX))
        return cay_fail(err, CAY_EINVAL, "network.httpsPorts is a list of at most %d ports",
                        PORTS_MAX);
    json_array_foreach(list, i, v) {
        json_int_t port = json_integer_value(v);
        if (port < 1 || port > 65535 || port == E2B_ENVD_PORT)
            return cay_fail(err, CAY_EINVAL,
                            "network.httpsPorts[%zu] is no port from 1 to 65535 other than %d", i,
                            E2B_ENVD_PORT);
    }
    return 0;
}

/* What we have no way to keep is refused by its name, never left out in silence. */
static int check_fields(const json_t *network, cay_err *err)
{
    static const char *const fields[] = { "allowOut", "denyOut",         "allowPublicTraffic",
                                          "rules",    "maskRequestHost", "httpsPorts" };
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)network, key, v) {
        bool known = false;
        CAY_EACH(field, fields)
            known |= !strcmp(key, *field);
        bool not_yet = !strcmp(key, "egressProxy");
        if (not_yet && (json_is_string(v) || json_object_size(v) || json_array_size(v)))
            return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                                "network.%s is not supported by this server", key);
        if (!known && !not_yet)
            return cay_fail(err, CAY_EINVAL, "network.%.60s is not known", key);
    }
    const json_t *mask = e2b_member(network, "maskRequestHost"),
                 *open = e2b_member(network, "allowPublicTraffic");
    if (open && !json_is_boolean(open))
        return cay_fail(err, CAY_EINVAL, "network.allowPublicTraffic is true or false");
    if (mask && !e2b_mask_host(json_string_value(mask), 1, NULL, 0))
        return cay_fail(err, CAY_EINVAL,
                        "network.maskRequestHost is a host's name, perhaps with ${PORT} in it");
    return https_ports(e2b_member(network, "httpsPorts"), err);
}

typedef struct list {
    const char *v[2 * RULES_MAX + 2];
    size_t n;
    cay__arena *mem;
} list;

static void add_rule(list *l, const char *prefix, const char *target, const char *suffix)
{
    char *s;
    if (asprintf(&s, "%s%s%s", prefix, target, suffix) < 0)
        abort();
    l->v[l->n++] = cay__arena_adopt(l->mem, s);
}

/* An address is reached on every port, a name by what can prove its name. */
static void add_allow(list *l, const char *s)
{
    if (!is_address(s))
        add_rule(l, "", s, "");
    else if (strchr(s, ':'))
        add_rule(l, "tcp://[", s, "]:1-65535");
    else
        add_rule(l, "tcp://", s, ":1-65535");
}

/* What is allowed wins over what is denied, and with us it is the other way round: so of a denied
 * range only that part is told which is not allowed, halved until each half is one or the other. */
static bool add_without(list *l, const net *deny, const net *allow, size_t nallow)
{
    char host[INET6_ADDRSTRLEN], text[64];
    bool inside = false;
    CAY_EACH_OF(it, allow, nallow) {
        if (has_subnet(it, deny))
            return true;
        inside |= has_subnet(deny, it);
    }
    if (inside) {
        net half = *deny;
        half.len++;
        bool ok = add_without(l, &half, allow, nallow);
        half.a[deny->len / 8] |= (unsigned char)(0x80u >> deny->len % 8);
        return ok && add_without(l, &half, allow, nallow);
    }
    if (l->n == RULES_MAX ||
        !inet_ntop(deny->bits == 32 ? AF_INET : AF_INET6, deny->a, host, sizeof host))
        return false;
    CAY_FORMAT(text, deny->len == deny->bits ? "%s" : "%s/%u", host, deny->len);
    add_rule(l, "!", text, "");
    return true;
}

static int add_denies(list *l, const json_t *deny, const json_t *allow, cay_err *err)
{
    net *keep = cay__arena_take(l->mem, (json_array_size(allow) + 1) * sizeof *keep), one;
    const json_t *v;
    size_t i;
    json_array_foreach(allow, i, v)
        read_net(json_string_value(v), &keep[i]);
    l->n = 0;
    json_array_foreach(deny, i, v)
        if (read_net(json_string_value(v), &one) &&
            !add_without(l, &one, keep, json_array_size(allow)))
            return cay_fail(err, CAY_EINVAL,
                            "network: what is denied and not "
                            "allowed is more than %d ranges",
                            RULES_MAX);
    return 0;
}

int e2b_policy(const json_t *network, bool internet, char **text, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    list *l = cay__arena_take(&mem, sizeof *l);
    json_t *allow = NULL, *deny = NULL, *v;
    bool closed = !internet, names = false;
    size_t i;
    l->mem = &mem;
    if (network && !json_is_object(network) && !json_is_null(network))
        return cay_fail(err, CAY_EINVAL, "network is an object");
    if (network) {
        CAY_TRY(check_fields(network, err));
        CAY_TRY(read_text_list(network, "allowOut", &allow, err));
        CAY_TRY(read_text_list(network, "denyOut", &deny, err));
    }
    json_array_foreach(deny, i, v) {
        const char *s = json_string_value(v);
        if (!is_address(s))
            return cay_fail(err, CAY_EINVAL, "network.denyOut[%zu]: %.80s is no address or CIDR", i,
                            s);
        closed |= !strcmp(s, "0.0.0.0/0");
    }
    json_array_foreach(allow, i, v) {
        names |= !is_address(json_string_value(v));
        add_allow(l, json_string_value(v));
    }
    if (names && !closed)
        return cay_fail(
            err, CAY_EINVAL,
            "network.allowOut names a domain, which needs 0.0.0.0/0 in network.denyOut");
    if (!closed) /* everything is open: only that matters which is denied */
        CAY_TRY(add_denies(l, deny, allow, err));
    cay_policy p = { .size = sizeof p, .mode = CAY_NET_ALL };
    if (closed)
        p.mode = l->n ? CAY_NET_RULES : CAY_NET_OFF;
    if (l->n)
        p.rules = l->v;
    return cay_policy_text(&p, text, err);
}
