/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <daemon/egress/httphead.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Walks a client's bytes as flow.c does: what became of it, and after how many bytes. */
static int walk(const char *text, size_t *passed, const char **why)
{
    http_state s = { 0 };
    char host[256];
    size_t len = strlen(text);
    *passed = 0;
    *why = "";
    while (len) {
        int rc =
            s.next == HTTP_TUNNEL ? HTTP_OK : http_unit(&s, text, len, "good.test", 80, host, why);
        if (rc != HTTP_OK || s.next == HTTP_TUNNEL)
            return rc;
        size_t n = (size_t)CAY_MIN(s.left, len);
        s.left -= n;
        text += n;
        len -= n;
        *passed += n;
        if (s.next == HTTP_ASKED && !s.left)
            http_answer(&s, "HTTP/1.1 200", 12);
    }
    return s.left ? HTTP_MORE : HTTP_OK;
}

#define GOOD "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n"
#define EVIL "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"

static void the_host_has_to_be_the_name(void **s)
{
    (void)s;
    static const struct {
        const char *text;
        int rc;
        const char *why;
    } cases[] = {
        { GOOD, HTTP_OK, 0 },
        { EVIL, HTTP_OTHER, "http_host_mismatch" },
        { "GET / HTTP/1.1\r\nhOsT:  GOOD.test:80 \r\n\r\n", HTTP_OK, 0 },
        { "GET / HTTP/1.1\r\nHost: good.test.\r\n\r\n", HTTP_OK, 0 },
        { "GET / HTTP/1.1\r\nHost: good.test:81\r\n\r\n", HTTP_OTHER, "http_host_mismatch" },
        { "GET / HTTP/1.1\r\nHost: xgood.test\r\n\r\n", HTTP_OTHER, "http_host_mismatch" },
        { "GET / HTTP/1.1\r\nHost: good.test@evil.test\r\n\r\n", HTTP_OTHER, "http_host_mismatch" },
        { "GET / HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n", HTTP_BAD,
          "http_two_hosts" },
        { "GET / HTTP/1.1\r\nA: b\r\n\r\n", HTTP_BAD, "http_no_host" },
        { "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", HTTP_OK, 0 },
        { "GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", HTTP_OTHER,
          "http_host_mismatch" },
        { "GET http://good.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", HTTP_OTHER,
          "http_host_mismatch" },
        { "GET http://good.test@evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", HTTP_OTHER,
          "http_host_mismatch" },
        { "GET https://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", HTTP_BAD,
          "http_unreadable" },
        { "CONNECT good.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n", HTTP_BAD, "http_connect" },
        { "PRI * HTTP/2.0\r\n\r\n", HTTP_BAD, "http_unreadable" },
    };
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        size_t n;
        const char *why;
        assert_int_equal(walk(cases[i].text, &n, &why), cases[i].rc);
        if (cases[i].why)
            assert_string_equal(why, cases[i].why);
    }
}

static void what_readers_could_differ_about_is_refused(void **s)
{
    (void)s;
    static const char *const bad[] = {
        "GET / HTTP/1.1\nHost: good.test\n\n",
        "GET / HTTP/1.1\r\nHost: good.test\rX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: good.test\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : good.test\r\n\r\n",
        "GET /\tx HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1\r\nTransfer-Encoding: "
        "chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: +1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
        "chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: "
        "chunked\r\n\r\n5\r\nAAAAA\n10\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n5 "
        "6\r\nAAAAA\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: "
        "chunked\r\n\r\n\x15\r\nAAAAA\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: "
        "good.test\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno "
        "field\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: good.test\r\nExpect: 100-continue\r\nConnection: "
        "upgrade\r\nUpgrade: websocket\r\n\r\n",
        GOOD
        "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        size_t n;
        const char *why;
        assert_int_equal(walk(bad[i], &n, &why), HTTP_BAD);
    }
}

static void a_kept_connection_cannot_turn_to_another_host(void **s)
{
    (void)s;
    static const char *const first[] = {
        GOOD,
        "POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: "
        "websocket\r\n\r\n", /* the server said 200 */
        "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "
        "h2c\r\n\r\n",
    };
    for (size_t i = 0; i < CAY_LEN(first); i++) {
        CAY_AUTOFREE char *text = cay__alloc(4096);
        size_t n, at = strlen(first[i]);
        const char *why;
        memcpy(text, first[i], at);
        memcpy(text + at, GOOD, strlen(GOOD));
        memcpy(text + at + strlen(GOOD), EVIL, strlen(EVIL));
        assert_int_equal(walk(text, &n, &why), HTTP_OTHER);
        assert_int_equal(n, at + strlen(GOOD));
    }
}

static void an_upgrade_opens_when_the_server_agrees(void **s)
{
    (void)s;
    http_state st = { 0, HTTP_ASKED };
    assert_int_equal(http_answer(&st, "HTTP/1.1", 8), HTTP_MORE);
    assert_int_equal(http_answer(&st, "HTTP/1.1 101 x", 14), HTTP_OK);
    assert_int_equal(st.next, HTTP_TUNNEL);
    st.next = HTTP_ASKED;
    assert_int_equal(http_answer(&st, "HTTP/1.1 4", 10), HTTP_OK);
    assert_int_equal(st.next, HTTP_HEAD);
}

static void a_head_has_an_end(void **s)
{
    (void)s;
    size_t n;
    const char *why;
    CAY_AUTOFREE char *text = cay__alloc(HTTP_HEAD_MAX + 200);
    memset(text, 'a', HTTP_HEAD_MAX + 100);
    memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
    assert_int_equal(walk(text, &n, &why), HTTP_BAD);
    assert_string_equal(why, "http_head_too_long");
    text[HTTP_HEAD_MAX - 1] = 0;
    assert_int_equal(walk(text, &n, &why), HTTP_MORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_has_to_be_the_name),
        cmocka_unit_test(what_readers_could_differ_about_is_refused),
        cmocka_unit_test(a_kept_connection_cannot_turn_to_another_host),
        cmocka_unit_test(an_upgrade_opens_when_the_server_agrees),
        cmocka_unit_test(a_head_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
