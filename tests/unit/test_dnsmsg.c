/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <daemon/egress/dnsmsg.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* As a client writes it; with EDNS. */
static size_t ask(uint8_t *out, const char *name, uint16_t type)
{
    return dns_write_query(0x1234, name, type, out, 512);
}

static void a_query_is_read(void **s)
{
    (void)s;
    uint8_t m[512];
    dns_query q;
    size_t n = ask(m, "good.test", DNS_AAAA);
    m[13] = 'G'; /* 0x20 */
    assert_int_equal(dns_read_query(m, n, &q), DNS_NOERROR);
    assert_string_equal(q.name, "good.test");
    assert_true(q.type == DNS_AAAA && q.class_ == DNS_IN && q.edns && !q.odd);
    assert_int_equal(q.udp_size, DNS_SIZE);
    for (size_t i = 0; i < n; i++) /* no cut makes it sound */
        assert_true(dns_read_query(m, i, &q) != DNS_NOERROR);
    m[14] = '.';
    assert_int_equal(dns_read_query(m, n, &q), DNS_NOERROR);
    assert_true(q.odd);
    m[2] |= 0x80;
    assert_int_equal(dns_read_query(m, n, &q), DNS_DROP);
    m[2] = 0x10;
    assert_int_equal(dns_read_query(m, n, &q), DNS_NOTIMP);
}

static void an_answer_keeps_the_question(void **s)
{
    (void)s;
    uint8_t m[512], out[DNS_SIZE];
    dns_query q;
    dns_found f;
    size_t n = ask(m, "good.test", DNS_A);
    m[14] = 'O';
    assert_int_equal(dns_read_query(m, n, &q), DNS_NOERROR);
    dns_answer a = { .type = DNS_A,
                     .ttl = 60,
                     .addr = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 198, 18, 1, 1 } };
    size_t r = dns_write_reply(m, &q, &a, out, sizeof out);
    assert_memory_equal(out + 12, m + 12, q.question);
    assert_true(dns_read_reply(out, r, 0x1234, "good.test", DNS_A, &f));
    assert_true(f.n == 1 && f.ttl == 60 && f.rcode == 0);
    assert_memory_equal(f.addr[0], a.addr, 16);
    assert_false(dns_read_reply(out, r, 0x1235, "good.test", DNS_A, &f));
    assert_false(dns_read_reply(out, r, 0x1234, "evil.test", DNS_A, &f));
    assert_false(dns_read_reply(out, r, 0x1234, "good.test", DNS_AAAA, &f));
}

static void a_forbidden_name_tells_why(void **s)
{
    (void)s;
    uint8_t m[512], out[DNS_SIZE];
    dns_query q;
    size_t n = ask(m, "evil.test", DNS_A);
    dns_read_query(m, n, &q);
    dns_answer a = { .rcode = DNS_NXDOMAIN, .ede = DNS_EDE_BLOCKED, .ede_text = "why" };
    size_t r = dns_write_reply(m, &q, &a, out, sizeof out);
    assert_int_equal(out[3] & 15, DNS_NXDOMAIN);
    assert_memory_equal(out + r - 9, "\0\x0f\0\5\0\x0fwhy", 9);
    q.edns = false; /* who did not say EDNS gets none */
    assert_int_equal(dns_write_reply(m, &q, &a, out, 512), 12 + q.question);
}

static void what_does_not_fit_is_cut(void **s)
{
    (void)s;
    uint8_t m[512], out[DNS_SIZE];
    dns_query q;
    char longest[254];
    memset(longest, 'a', 253);
    longest[63] = longest[127] = longest[191] = '.';
    longest[253] = 0;
    size_t n = ask(m, longest, DNS_PTR);
    assert_true(n > 0);
    assert_int_equal(dns_read_query(m, n, &q), DNS_NOERROR);
    assert_string_equal(q.name, longest);
    dns_answer a = { .type = DNS_PTR, .ptr = longest, .ttl = 60 };
    size_t r = dns_write_reply(m, &q, &a, out, 512);
    assert_true(r && r <= 512 && (out[2] & 2) && out[7] == 0);
    r = dns_write_reply(m, &q, &a, out, DNS_SIZE);
    assert_true(r && !(out[2] & 2) && out[7] == 1);
}

static void reverse_names_are_addresses(void **s)
{
    (void)s;
    uint8_t a[16];
    assert_true(dns_ptr_addr("1.1.18.198.in-addr.arpa", a));
    assert_memory_equal(a + 10, "\xff\xff\xc6\x12\x01\x01", 6);
    assert_true(dns_ptr_addr(
        "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.0.0.0.0.9.7.1.6.3.6.d.f.ip6.arpa", a));
    assert_memory_equal(a, "\xfd\x63\x61\x79\0\0\0\1\0\0\0\0\0\0\0\7", 16);
    assert_false(dns_ptr_addr("1.18.198.in-addr.arpa", a));
    assert_false(dns_ptr_addr("256.1.18.198.in-addr.arpa", a));
    assert_false(dns_ptr_addr("good.test", a));
}

static void aliases_are_followed_inside_the_answer_only(void **s)
{
    (void)s;
    static const char m[] =
        "\x12\x34\x81\x80\0\1\0\3\0\0\0\0"
        "\4good\4test\0\0\1\0\1"
        "\5other\4test\0\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1"     /* somebody else's */
        "\1x\4good\4test\0\0\1\0\1\0\0\0\5\0\4\xcb\0\x71\x09" /* before its alias */
        "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\4\1x\xc0\x0c";
    dns_found f;
    assert_true(dns_read_reply((const uint8_t *)m, sizeof m - 1, 0x1234, "good.test", DNS_A, &f));
    assert_int_equal(f.n, 1);
    assert_int_equal(f.ttl, 5);
    assert_memory_equal(f.addr[0] + 12, "\xcb\0\x71\x09", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_is_read),
        cmocka_unit_test(an_answer_keeps_the_question),
        cmocka_unit_test(a_forbidden_name_tells_why),
        cmocka_unit_test(what_does_not_fit_is_cut),
        cmocka_unit_test(reverse_names_are_addresses),
        cmocka_unit_test(aliases_are_followed_inside_the_answer_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
