/* SPDX-License-Identifier: Apache-2.0 */
#include <policy/policy.h>
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static cay__policy words(const char *text)
{
    cay__policy p = { 0 };
    cay_err err = CAY_ERR_INIT;
    int rc = cay__policy_words(&p, text, &err);
    if (rc == 0)
        rc = cay__policy_check(&p, &err);
    if (rc < 0)
        fail_msg("%s: %s", text, err.msg);
    return p;
}

static cay__policy operators(const char *text)
{
    cay__policy p;
    cay_err err = CAY_ERR_INIT;
    if (cay__policy_read(&p, text, strlen(text), true, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return p;
}

/* An address with :: and mapped spellings alike. */
static const uint8_t *ip(const char *text)
{
    static uint8_t a[16];
    if (inet_pton(AF_INET6, text, a) == 1)
        return a;
    memset(a, 0, 10);
    a[10] = a[11] = 0xff;
    assert_int_equal(inet_pton(AF_INET, text, a + 12), 1);
    return a;
}

static void rules_are_written_as_they_are_read(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "Example.COM", "example.com" },
        { "*.example.com:8443", "*.example.com:8443" },
        { "**.example.com", "**.example.com" },
        { "!example.com", "!example.com" },
        { "!any:25", "!any:25" },
        { "any", "any" },
        { "ANY:25", "any:25" },
        { "tcp://any:1-65535", "tcp://any:1-65535" },
        { "tls://example.com", "example.com:443" },
        { "http://example.com:80", "example.com:80" },
        { "tcp://example.com:443", "tcp://example.com:443" },
        { "tcp://example.com:22", "example.com:22" },
        { "tls+opaque://example.com", "tls+opaque://example.com:443" },
        { "tls://example.com:8443", "tls://example.com:8443" },
        { "example.com:8000-8100", "example.com:8000-8100" },
        { "192.0.2.1", "192.0.2.1" },
        { "192.0.2.0/24:5432", "192.0.2.0/24:5432" },
        { "0.0.0.0/0", "0.0.0.0/0" },
        { "2001:db8::/32", "2001:db8::/32" },
        { "[2001:db8::1]:443", "[2001:db8::1]:443" },
        { "[2001:db8::/32]:22-23", "[2001:db8::/32]:22-23" },
        { "::/0", "::/0" },
        { "db:5432", "db:5432" },
        { "xn--bcher-kva.example", "xn--bcher-kva.example" },
        { "_acme.example.com", "_acme.example.com" },
        { "a.b-c.example", "a.b-c.example" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay__policy p = words(cases[i][0]);
        char text[CAY__RULE_MAX];
        assert_int_equal(p.nrules, 1);
        assert_int_equal(cay__rule_text(&p.rules[0], text, sizeof text), strlen(cases[i][1]));
        assert_string_equal(text, cases[i][1]);
        cay__policy again = words(text);
        assert_true(cay__rule_same(&p.rules[0], &again.rules[0]));
        cay__policy_clear(&p);
        cay__policy_clear(&again);
    }
}

static void bad_rules_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "b\xc3\xbc"
          "cher.example",
          "A-label" },
        { "example.com..", "empty label" },
        { "example.com.", "without the dot at its end: example.com" },
        { "*.example.com.:443", "without the dot" },
        { "example..com", "empty label" },
        { ".example.com", "empty label" },
        { "a.*.com", "wildcard" },
        { "foo*.com", "wildcard" },
        { "*example.com", "wildcard" },
        { "***.example.com", "wildcard" },
        { "*.*.example.com", "wildcard" },
        { "*", "any" },
        { "**", "any" },
        { "*.", "wildcard" },
        { "10.0.0.1/8", "the network is 10.0.0.0/8" },
        { "2001:db8::1/32", "the network is 2001:db8::/32" },
        { "10.0.0.0/33", "/32" },
        { "10.0.0.0/", "/32" },
        { "10.0.0.0/08", "/32" },
        { "10.0.0.0/-1", "/32" },
        { "2001:db8::/129", "/128" },
        { "example.com:0", "1 to 65535" },
        { "example.com:70000", "1 to 65535" },
        { "example.com:65536", "1 to 65535" },
        { "example.com:", "1 to 65535" },
        { "example.com:080", "1 to 65535" },
        { "example.com:http", "1 to 65535" },
        { "example.com:90-80", "ends before it begins" },
        { "example.com:80-", "1 to 65535" },
        { "2130706433", "odd spelling" },
        { "0x7f000001", "odd spelling" },
        { "0x7f.1", "odd spelling" },
        { "0X7F.0.0.1", "odd spelling" },
        { "127.1", "odd spelling" },
        { "0177.0.0.1", "decimal numbers" },
        { "017700000001", "odd spelling" },
        { "1.2.3.4.5", "host name" },
        { "256.1.1.1", "decimal numbers" },
        { "::ffff:10.0.0.1", "no IPv6" },
        { "[::ffff:10.0.0.0/104]:443", "no IPv6" },
        { "fe80::1%eth0", "zone" },
        { "[2001:db8::1", "[ADDRESS]" },
        { "[2001:db8::1]443", "[ADDRESS]" },
        { "[example.com]:443", "brackets" },
        { "https://example.com", "tls://" },
        { "ftp://example.com", "not known" },
        { "!tls://example.com", "no scheme" },
        { "!!example.com", "host name" },
        { "tcp://example.com", "needs a port" },
        { "example.com/path", "no path" },
        { "tls://example.com/path", "no path" },
        { "tls+opaque://192.0.2.1", "opaque" },
        { "exa mple.com", "blanks" },
        { "-a.example", "host name" },
        { "a-.example", "host name" },
        { "localhost:8080", "sandbox itself" },
        { "*.localhost", "sandbox itself" },
        { "pypl", "no preset" },
        { "pypi:443", "preset" },
        { "any.:25", "without the dot" },
        { "pypi.:443", "without the dot" },
        { "", "empty" },
        { "pypi,,npm", "empty" },
        { "!", "names nothing" },
        { ":443", "names nothing" },
        { "user@example.com", "host name" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay__policy p = { 0 };
        cay_err err = CAY_ERR_INIT;
        int rc = cay__policy_words(&p, cases[i][0], &err);
        if (rc != CAY_EINVAL || !strstr(err.msg, cases[i][1]))
            fail_msg("%s: %d \"%s\" lacks \"%s\"", cases[i][0], rc, err.msg, cases[i][1]);
        cay__policy_clear(&p);
    }
}

static void long_names_and_labels_are_refused(void **state)
{
    (void)state;
    char label[80], name[400] = "", out[CAY__NAME_MAX + 1];
    memset(label, 'a', 63), label[63] = 0;
    assert_true(cay__name_fold(label, 63, out));
    label[63] = 'a', label[64] = 0;
    assert_false(cay__name_fold(label, 64, out));
    for (int i = 0; i < 4; i++) { /* 4 × 62 + … */
        size_t n = strlen(name);
        memset(name + n, 'b', 62);
        name[n + 62] = '.';
        name[n + 63] = 0;
    }
    size_t n = strlen(name); /* 252 */
    name[n] = 'c';
    assert_true(cay__name_fold(name, n + 1, out));
    name[n + 1] = '.';
    assert_true(cay__name_fold(name, n + 2, out));
    name[n + 1] = 'c';
    assert_false(cay__name_fold(name, n + 2, out));
    assert_false(cay__name_fold("a\0b", 3, out));
    assert_false(cay__name_fold("", 0, out));
    assert_false(cay__name_fold(".", 1, out));
}

static void contradictions_are_refused_whole(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "example.com,!example.com",
        "example.com:443,!example.com",
        "api.example.com,!**.example.com",
        "a.example.com,!*.example.com",
        "*.a.example.com,!*.example.com",
        "example.com:22,!example.com:1-100",
        "192.0.2.1,!192.0.2.0/24",
        "example.com,!any",
        "tls://example.com:80,http://example.com:80",
        "tls://example.com:80,example.com",
        "all,example.com",
        "off,example.com",
        "example.com,off",
        "all,off",
        "any,!any",
        "tls://example.com:1-100,example.com:80",
        "pypi,!pypi",
        "pypi,!any",
        "pypi,npm,!npm,!**.org,!**.pythonhosted.org",
    };
    static const char *const good[] = {
        "example.com,!example.com:80",
        "**.example.com,!bad.example.com",
        "*.example.com,!example.com",
        "all,!example.com",
        "example.com,example.com",
        "192.0.2.0/24,!192.0.2.1",
        "example.com:443,tcp://example.com:443",
        "pypi,npm,pypi",
        "pypi,npm,!npm",
        "github,!github.com",
        "example.com,!*.example.com",
        "any,!any:25",
        "0.0.0.0/0,!::/0",
        "example.com,!192.0.2.0/24",
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay__policy p = { 0 };
        cay_err err = CAY_ERR_INIT;
        int rc = cay__policy_words(&p, bad[i], &err);
        if (rc == 0)
            rc = cay__policy_check(&p, &err);
        if (rc != CAY_EINVAL || strcmp(err.reason, "policy_conflict") != 0)
            fail_msg("%s: %d %s %s", bad[i], rc, err.reason, err.msg);
        cay__policy_clear(&p);
    }
    for (size_t i = 0; i < CAY_LEN(good); i++) {
        cay__policy p = words(good[i]);
        cay__policy_clear(&p);
    }
}

static void every_blocked_range_is_blocked(void **state)
{
    (void)state;
    static const char *const in[][2] = {
        { "0.0.0.0", "unspecified" },
        { "0.1.2.3", "unspecified" },
        { "127.0.0.1", "loopback" },
        { "127.255.255.255", "loopback" },
        { "10.0.0.0", "private" },
        { "10.255.255.255", "private" },
        { "172.16.0.1", "private" },
        { "172.31.255.255", "private" },
        { "192.168.1.1", "private" },
        { "169.254.169.254", "metadata" },
        { "169.254.1.1", "link-local" },
        { "100.64.0.1", "cgnat" },
        { "100.127.255.255", "cgnat" },
        { "100.100.100.200", "metadata" },
        { "168.63.129.16", "metadata" },
        { "192.0.0.192", "reserved" },
        { "198.18.0.1", "synthetic" },
        { "198.19.255.255", "synthetic" },
        { "224.0.0.1", "multicast" },
        { "239.255.255.255", "multicast" },
        { "240.0.0.1", "reserved" },
        { "255.255.255.255", "broadcast" },
        { "192.88.99.1", "6to4" },
        { "::", "unspecified" },
        { "::1", "loopback" },
        { "::ffff:127.0.0.1", "loopback" },
        { "::ffff:10.1.2.3", "private" },
        { "::ffff:0:10.0.0.1", "translated" },
        { "::10.0.0.1", "compatible" },
        { "64:ff9b::10.0.0.1", "nat64" },
        { "64:ff9b::8.8.8.8", "nat64" },
        { "64:ff9b:1::1", "nat64" },
        { "2002:a00:1::", "6to4" },
        { "2001::1", "teredo" },
        { "2001:10::1", "reserved" },
        { "fc00::1", "private" },
        { "fdff::1", "private" },
        { "fd63:6179::1", "synthetic" },
        { "fd00:ec2::254", "metadata" },
        { "fe80::1", "link-local" },
        { "febf::1", "link-local" },
        { "fec0::1", "site-local" },
        { "ff02::1", "multicast" },
        { "100::1", "reserved" },
    };
    static const char *const out[] = {
        "1.1.1.1",     "9.255.255.255",   "11.0.0.0",        "172.15.255.255",
        "172.32.0.0",  "192.167.255.255", "192.169.0.0",     "169.253.255.255",
        "169.255.0.0", "100.63.255.255",  "100.128.0.0",     "198.17.255.255",
        "198.20.0.0",  "223.255.255.255", "126.255.255.255", "128.0.0.0",
        "203.0.113.1", "2606:4700::1111", "2001:db8::1",     "2001:200::1",
        "2003::1",     "64:ff9a::1",      "2a00::1",         "fbff::1",
    };
    for (size_t i = 0; i < CAY_LEN(in); i++) {
        const char *got = cay__blocked_range(ip(in[i][0]));
        if (!got || strcmp(got, in[i][1]) != 0)
            fail_msg("%s: %s instead of %s", in[i][0], got ? got : "open", in[i][1]);
        cay__policy all = words("all");
        cay__verdict v = cay__decide_addr(NULL, &all, NULL, ip(in[i][0]), 443);
        assert_false(v.allow);
        assert_string_equal(v.reason, "blocked_range");
        assert_false(cay__decide_addr(NULL, &all, "example.com", ip(in[i][0]), 443).allow);
        cay__policy_clear(&all);
    }
    for (size_t i = 0; i < CAY_LEN(out); i++)
        if (cay__blocked_range(ip(out[i])))
            fail_msg("%s: %s", out[i], cay__blocked_range(ip(out[i])));
}

static void lifts_open_only_what_they_name(void **state)
{
    (void)state;
    cay__policy op = operators(
        "# ours\nlift 10.1.0.0/16\nlift 169.254.0.0/16\nlift 64:ff9b::/96\nlift fc00::/7\n");
    cay__policy all = words("all");
    assert_true(cay__decide_addr(&op, &all, NULL, ip("10.1.2.3"), 443).allow);
    assert_false(cay__decide_addr(&op, &all, NULL, ip("10.2.2.3"), 443).allow);
    assert_true(cay__decide_addr(&op, &all, NULL, ip("169.254.1.1"), 443).allow);
    assert_false(cay__decide_addr(&op, &all, NULL, ip("169.254.169.254"), 80)
                     .allow); /* needs a lift of its own */
    assert_true(cay__decide_addr(&op, &all, NULL, ip("64:ff9b::8.8.8.8"), 443).allow);
    assert_true(cay__decide_addr(&op, &all, NULL, ip("64:ff9b::10.1.2.3"), 443)
                    .allow); /* both are lifted */
    assert_false(cay__decide_addr(&op, &all, NULL, ip("64:ff9b::192.168.0.1"), 443).allow);
    assert_false(cay__decide_addr(&op, &all, NULL, ip("64:ff9b::127.0.0.1"), 443).allow);
    assert_true(cay__decide_addr(&op, &all, NULL, ip("fd12::1"), 443).allow);
    assert_false(cay__decide_addr(&op, &all, NULL, ip("fd63:6179::1"), 443).allow);
    assert_false(cay__decide_addr(&op, &all, NULL, ip("fd00:ec2::254"), 443).allow);
    cay__policy_clear(&op);
    static const char *const bad[][2] = {
        { "lift 127.0.0.0/8", "service line" },   { "lift ::1", "service line" },
        { "lift 198.18.0.0/15", "service line" }, { "lift 0.0.0.0/0", "service line" },
        { "lift 8.8.8.8", "nothing to lift" },    { "lift 10.0.0.0/7", "wider" },
        { "lift example.com", "CIDR" },           { "lift 10.0.0.0/8:80", "CIDR" },
        { "lift ::/0", "service line" },          { "lift fe00::/7", "nothing" },
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_err err = CAY_ERR_INIT;
        assert_int_equal(cay__policy_read(&op, bad[i][0], strlen(bad[i][0]), true, &err),
                         CAY_EINVAL);
        if (!strstr(err.msg, bad[i][1]) || !strstr(err.msg, "line 1"))
            fail_msg("%s: %s", bad[i][0], err.msg);
    }
    cay__policy_clear(&all);
}

static void expect(const cay__policy *op, const char *policy, const char *host, uint16_t port,
                   const char *reason, int proto)
{
    cay__policy p = words(policy);
    cay__verdict v = cay__decide_host(op, &p, host, port, false);
    bool allow = !strcmp(reason, "allowed") || !strcmp(reason, "service");
    if (v.allow != allow || strcmp(v.reason, reason) != 0 || (allow && (int)v.proto != proto))
        fail_msg("%s: %s:%d is %s (proto %d), not %s (%d)", policy, host, port, v.reason,
                 (int)v.proto, reason, proto);
    cay__policy_clear(&p);
}

static void decisions_follow_the_order(void **state)
{
    (void)state;
    expect(NULL, "off", "example.com", 443, "off", 0);
    expect(NULL, "example.com", "example.com", 443, "allowed", CAY__NET_TLS);
    expect(NULL, "example.com", "EXAMPLE.com.", 80, "allowed", CAY__NET_HTTP);
    expect(NULL, "example.com", "example.com", 22, "default_deny", 0);
    expect(NULL, "example.com", "a.example.com", 443, "default_deny", 0);
    expect(NULL, "example.com", "example.com.evil.net", 443, "default_deny", 0);
    expect(NULL, "example.com", "notexample.com", 443, "default_deny", 0);
    expect(NULL, "*.example.com", "example.com", 443, "default_deny", 0);
    expect(NULL, "*.example.com", "a.b.example.com", 443, "allowed", CAY__NET_TLS);
    expect(NULL, "*.example.com", "notexample.com", 443, "default_deny", 0);
    expect(NULL, "**.example.com", "example.com", 443, "allowed", CAY__NET_TLS);
    expect(NULL, "**.example.com", "evilexample.com", 443, "default_deny", 0);
    expect(NULL, "**.example.com,!bad.example.com", "bad.example.com", 443, "tenant_deny", 0);
    expect(NULL, "**.example.com,!bad.example.com", "x.bad.example.com", 443, "allowed",
           CAY__NET_TLS);
    expect(NULL, "all,!example.com", "example.com", 7777, "tenant_deny", 0);
    expect(NULL, "all,!example.com", "EXAMPLE.COM", 443, "tenant_deny", 0);
    expect(NULL, "all", "example.com", 7777, "allowed", CAY__NET_TCP);
    expect(NULL, "all", "localhost", 443, "blocked_range", 0);
    expect(NULL, "all", "x.localhost", 443, "blocked_range", 0);
    expect(NULL, "all", "127.1", 443, "default_deny", 0);
    expect(NULL, "all", "0x7f000001", 443, "default_deny", 0);
    expect(NULL, "all", "::ffff:127.0.0.1", 443, "default_deny", 0);
    expect(NULL, "all", "example.com", 0, "default_deny", 0);
    expect(NULL, "all", "1.1.1.1", 853, "allowed", CAY__NET_TCP);
    expect(NULL, "example.com", "1.1.1.1", 443, "default_deny", 0);
    expect(NULL, "1.1.1.0/24", "1.1.1.1", 443, "allowed", CAY__NET_TLS);
    expect(NULL, "10.0.0.0/8", "10.0.0.1", 443, "blocked_range", 0);
    expect(NULL, "::/0", "1.1.1.1", 443, "default_deny", 0);
    expect(NULL, "0.0.0.0/0", "2606:4700::1111", 443, "default_deny", 0);
    expect(NULL, "any", "example.com", 443, "allowed", CAY__NET_TLS);
    expect(NULL, "any", "1.1.1.1", 443, "allowed", CAY__NET_TLS);
    expect(NULL, "any", "10.0.0.1", 443, "blocked_range", 0);
    expect(NULL, "any:22", "example.com", 443, "default_deny", 0);
    expect(NULL, "example.com:443,tcp://example.com:443", "example.com", 443, "allowed",
           CAY__NET_TCP);
    expect(NULL, "github", "github.com", 22, "allowed", CAY__NET_TCP);
    expect(NULL, "github", "raw.githubusercontent.com", 443, "allowed", CAY__NET_TLS);
    expect(NULL, "github,!github.com:22", "github.com", 22, "tenant_deny", 0);
    expect(NULL, "all,!pypi", "pypi.org", 80, "tenant_deny", 0);

    cay__policy op = operators("deny evil.net\ndeny 203.0.113.0/24\nrule !any:25\n");
    expect(&op, "all", "evil.net", 443, "operator_deny", 0);
    expect(&op, "all", "mail.example.com", 25, "operator_deny", 0);
    expect(&op, "all", "203.0.113.9", 443, "operator_deny", 0);
    expect(&op, "all", "example.com", 443, "allowed", CAY__NET_TCP);
    cay__policy all = words("all,!198.51.100.0/24");
    assert_string_equal(cay__decide_addr(&op, &all, "example.com", ip("203.0.113.9"), 443).reason,
                        "operator_deny");
    assert_string_equal(cay__decide_addr(&op, &all, "example.com", ip("198.51.100.9"), 443).reason,
                        "tenant_deny");
    assert_true(cay__decide_addr(&op, &all, "example.com", ip("1.1.1.1"), 443).allow);
    cay__policy_clear(&all);
    cay__policy_clear(&op);
    op = operators("mode rules\nrule pypi\n");
    expect(&op, "all", "pypi.org", 443, "allowed", CAY__NET_TCP);
    expect(&op, "all", "example.com", 443, "operator_deny", 0);
    expect(&op, "all", "1.1.1.1", 443, "operator_deny", 0);
    cay__policy_clear(&op);
    op = operators("mode off\n");
    expect(&op, "all", "example.com", 443, "operator_deny", 0);
    cay__policy_clear(&op);
}

static void services_need_operator_and_sandbox(void **state)
{
    (void)state;
    cay__policy op =
        operators("service db:5432 127.0.0.1:5433\nservice api.internal:80 [::1]:8080\n");
    expect(&op, "db:5432", "db", 5432, "service", CAY__NET_TCP);
    expect(&op, "all", "db", 5432, "service", CAY__NET_TCP);
    expect(&op, "db:5432", "db", 5433, "default_deny", 0);
    expect(&op, "pypi", "db", 5432, "default_deny", 0);
    expect(&op, "api.internal", "api.internal", 80, "service", CAY__NET_HTTP);
    expect(&op, "off", "db", 5432, "off", 0);
    cay__policy p = words("db:5432"), off = words("off");
    cay__verdict v = cay__decide_name(&op, &p, "db", 5432, false);
    assert_non_null(v.service);
    assert_int_equal(v.service->to_port, 5433);
    assert_memory_equal(v.service->to, ip("127.0.0.1"), 16);
    assert_false(
        cay__decide_name(&op, &off, "db", 5432, true).allow); /* a fetch does not find it */
    cay__policy_clear(&p);
    cay__policy_clear(&off);
    cay__policy_clear(&op);
}

static void one_fetch_is_below_the_operator(void **state)
{
    (void)state;
    cay__policy op = operators("deny evil.net\n"), off = words("off");
    assert_string_equal(cay__decide_host(&op, &off, "example.com", 443, true).reason, "implicit");
    assert_true(cay__decide_host(&op, NULL, "example.com", 8443, true).allow);
    assert_false(cay__decide_host(&op, &off, "evil.net", 443, true).allow);
    assert_string_equal(cay__decide_host(&op, &off, "127.0.0.1", 443, true).reason,
                        "blocked_range");
    assert_string_equal(cay__decide_host(&op, &off, "169.254.169.254", 80, true).reason,
                        "blocked_range");
    assert_string_equal(cay__decide_host(&op, &off, "localhost", 80, true).reason, "blocked_range");
    assert_false(cay__decide_host(&op, &off, "2130706433", 80, true).allow);
    assert_true(cay__decide_host(&op, &off, "1.1.1.1", 80, true).allow);
    cay__policy_clear(&off);
    off = words("example.com");
    assert_string_equal(cay__decide_host(&op, &off, "example.com", 443, true).reason, "allowed");
    cay__policy_clear(&off);
    cay__policy_clear(&op);
}

static void lookups_need_an_open_port(void **state)
{
    (void)state;
    static const struct {
        const char *op, *p, *name, *reason;
    } cases[] = {
        { "", "example.com:22", "example.com", "allowed" },
        { "", "off", "example.com", "off" },
        { "", "all", "example.com", "allowed" },
        { "", "all,!example.com", "example.com", "tenant_deny" },
        { "", "all,!example.com:443", "example.com", "allowed" },
        { "", "example.com", "a.example.com", "default_deny" },
        { "", "example.com,!a.example.com", "a.example.com", "tenant_deny" },
        { "deny a.example.com\n", "example.com", "a.example.com", "operator_deny" },
        { "", "example.com,!example.com:443", "example.com", "allowed" },
        { "", "*.example.com,!a.example.com:80,!a.example.com:443", "a.example.com",
          "tenant_deny" },
        { "", "1.1.1.1", "example.com", "default_deny" },
        { "", "all", "localhost", "blocked_range" },
        { "", "all", "10.0.0.1", "default_deny" },
        { "deny example.com\n", "all", "example.com", "operator_deny" },
        { "deny example.com:443\n", "example.com:443", "example.com", "operator_deny" },
        { "deny example.com:443\n", "example.com", "example.com", "allowed" },
        { "deny example.com:1-100\ndeny example.com:101-65535\n", "all", "example.com",
          "operator_deny" },
        { "mode rules\nrule example.com:22\n", "example.com", "example.com", "operator_deny" },
        { "mode rules\nrule example.com:22\n", "all", "example.com", "allowed" },
        { "mode off\n", "all", "example.com", "operator_deny" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay__policy op = operators(cases[i].op), p = words(cases[i].p);
        cay__verdict v = cay__decide_lookup(&op, &p, cases[i].name);
        if (strcmp(v.reason, cases[i].reason) != 0 || v.allow != !strcmp(v.reason, "allowed"))
            fail_msg("%s| %s: %s is %s", cases[i].op, cases[i].p, cases[i].name, v.reason);
        cay__policy_clear(&op);
        cay__policy_clear(&p);
    }
}

static void files_are_written_as_they_are_read(void **state)
{
    (void)state;
    static const char limits[] =
        "cay-net 1\nmode all\nrate up 1048576\nrate down 2097152\nconnections 64\n";
    static const char text[] =
        "cay-net 1\nmode rules\nrule example.com\nrule !10.0.0.0/8\nrule [2001:db8::1]:443\n"
        "lift 10.0.0.0/8\nservice db:5432 127.0.0.1:5432\n"
        "resolver [2606:4700::1111]:53\n";
    cay__policy p;
    char *out = NULL;
    size_t len = 0;
    cay_err err = CAY_ERR_INIT;
    if (cay__policy_read(&p, text, sizeof text - 1, true, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(cay__policy_write(&p, &out, &len, &err), 0);
    assert_string_equal(out, text);
    assert_int_equal(len, sizeof text - 1);
    free(out);
    cay__policy_clear(&p);
    assert_int_equal(cay__policy_read(&p, limits, sizeof limits - 1, false, &err), 0);
    assert_int_equal(cay__policy_write(&p, &out, &len, &err), 0);
    assert_string_equal(out, limits);
    free(out);
    cay__policy_clear(&p);
    assert_int_equal(cay__policy_read(&p, limits, sizeof limits - 1, true, &err), CAY_EINVAL);
    assert_int_equal(cay__policy_read(&p, "", 0, true, &err), 0); /* /dev/null */
    assert_int_equal(p.mode, CAY__NET_ALL);
}

static void bad_files_are_refused_with_their_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "begins with" },
        { "cay-net 2\n", "line 1: a policy begins with" },
        { "mode all\n", "line 1" },
        { "cay-net 1\nmode some\n", "line 2: mode \"some\"" },
        { "cay-net 1\nmode all\nmode all\n", "line 3: mode is given twice" },
        { "cay-net 1\nrule\n", "line 2: rule needs" },
        { "cay-net 1\nrule \n", "line 2: rule needs" },
        { "cay-net 1\nrule a.*.b\n", "line 2: rule \"a.*.b\"" },
        { "cay-net 1\nfoo bar\n", "line 2: \"foo\"" },
        { "cay-net 1\nrate up 0\n", "line 2: rate up" },
        { "cay-net 1\nrate sideways 1m\n", "rate up BYTES" },
        { "cay-net 1\nrate up 1m\nrate up 1m\n", "twice" },
        { "cay-net 1\nconnections 0\n", "connections 0" },
        { "cay-net 1\nconnections -1\n", "connections -1" },
        { "cay-net 1\nlift 10.0.0.0/8\n", "operator's" },
        { "cay-net 1\nservice db:1 127.0.0.1:1\n", "operator's" },
        { "cay-net 1\nresolver 1.1.1.1\n", "operator's" },
        { "cay-net 1\nmode off\nrule example.com\n", "off and rules" },
        { "cay-net 1\nrule exam\x01ple.com\n", "control" },
        { "cay-net 1\r\n", "control" },
    };
    static const char *const ops[][2] = {
        { "service db 127.0.0.1:1\n", "needs its port" },
        { "service db:1\n", "NAME:PORT" },
        { "service *.db:1 127.0.0.1:1\n", "one name" },
        { "service db:1 example.com:1\n", "one address" },
        { "service db:1 127.0.0.0/8:1\n", "one address" },
        { "service db:1 127.0.0.1\n", "its port" },
        { "service db:1 127.0.0.1:1\nservice db:1 127.0.0.1:2\n", "twice" },
        { "resolver example.com\n", "one address" },
        { "resolver 1.1.1.1\nresolver 8.8.8.8\n", "twice" },
        { "deny !x.com\n", "no ! of its own" },
    };
    for (size_t i = 0; i < CAY_LEN(cases) + CAY_LEN(ops); i++) {
        bool op = i >= CAY_LEN(cases);
        const char *const *c = op ? ops[i - CAY_LEN(cases)] : cases[i];
        cay__policy p;
        cay_err err = CAY_ERR_INIT;
        int rc = cay__policy_read(&p, c[0], strlen(c[0]), op, &err);
        if (rc != CAY_EINVAL || !strstr(err.msg, c[1]))
            fail_msg("%s: %d %s", c[0], rc, err.msg);
        assert_null(p.rules);
    }
}

static void sizes_have_ends(void **state)
{
    (void)state;
    cay__policy p = { 0 };
    cay_err err = CAY_ERR_INIT;
    char rule[64];
    for (unsigned i = 0; i < CAY__RULES_MAX; i++) {
        snprintf(rule, sizeof rule, "h%u.example.com", i);
        assert_int_equal(cay__rule_add(&p, rule, &err), 0);
    }
    assert_int_equal(cay__rule_add(&p, "one.more", &err), CAY_ETOOBIG);
    assert_string_equal(err.reason, "policy_too_big");
    cay__policy_clear(&p);
    char *big = malloc(CAY__POLICY_MAX + 1);
    memset(big, '\n', CAY__POLICY_MAX + 1);
    assert_int_equal(cay__policy_read(&p, big, CAY__POLICY_MAX + 1, true, &err), CAY_ETOOBIG);
    free(big);
}

static void presets_are_rules(void **state)
{
    (void)state;
    static const char *const expected[] = { "crates", "debian", "docker", "github",
                                            "go",     "npm",    "pypi" };
    const char *name;
    const char *const *rules;
    size_t found = 0;
    for (size_t i = 0; (name = cay__preset(i, &rules)); i++) {
        cay__policy p = words(name);
        size_t n = 0;
        while (rules[n])
            n++;
        assert_int_equal(p.nrules, n);
        for (size_t k = 0; k < CAY_LEN(expected); k++)
            found += !strcmp(expected[k], name);
        cay__policy_clear(&p);
    }
    assert_int_equal(found, CAY_LEN(expected));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_written_as_they_are_read),
        cmocka_unit_test(bad_rules_are_refused_by_name),
        cmocka_unit_test(long_names_and_labels_are_refused),
        cmocka_unit_test(contradictions_are_refused_whole),
        cmocka_unit_test(every_blocked_range_is_blocked),
        cmocka_unit_test(lifts_open_only_what_they_name),
        cmocka_unit_test(decisions_follow_the_order),
        cmocka_unit_test(services_need_operator_and_sandbox),
        cmocka_unit_test(one_fetch_is_below_the_operator),
        cmocka_unit_test(lookups_need_an_open_port),
        cmocka_unit_test(files_are_written_as_they_are_read),
        cmocka_unit_test(bad_files_are_refused_with_their_line),
        cmocka_unit_test(sizes_have_ends),
        cmocka_unit_test(presets_are_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
