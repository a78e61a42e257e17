/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <server/preview/preview.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define ID "cabcdefghij234567abc"

static void a_host_names_one_port_of_one_sandbox(void **s)
{
    static const struct {
        const char *host, *domain;
        unsigned port; /* 0: it is none */
    } cases[] = {
        { "8000-" ID ".localhost", "localhost", 8000 },
        { "8000-" ID ".localhost:8090", "localhost", 8000 },
        { "8000-CABCDEFGHIJ234567ABC.LocalHost", "localhost", 8000 },
        { "1-" ID ".box.example.com", "box.example.com", 1 },
        { "65535-" ID ".localhost", "localhost", 65535 },
        { "65536-" ID ".localhost", "localhost", 0 },
        { "0-" ID ".localhost", "localhost", 0 },
        { "08000-" ID ".localhost", "localhost", 0 },
        { "+80-" ID ".localhost", "localhost", 0 },
        { "-" ID ".localhost", "localhost", 0 },
        { "8000-" ID "a.localhost", "localhost", 0 },
        { "8000-" ID ".localhost.evil.test", "localhost", 0 },
        { "8000-" ID ".evil.localhost", "localhost", 0 },
        { "8000-" ID ".localhost:", "localhost", 0 },
        { "8000-" ID ".localhost:80x", "localhost", 0 },
        { "8000-" ID ".localhost.", "localhost", 0 },
        { "8000-" ID, "localhost", 0 },
        { "8000-sabcdefghij234567abc.localhost", "localhost", 0 },
        { "8000-cabcdefghij134567abc.localhost", "localhost", 0 },
        { "8000-c", "localhost", 0 },
        { "localhost", "localhost", 0 },
        { "", "localhost", 0 },
    };
    (void)s;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay__preview_at at = { 0 };
        bool yes = cay__preview_host(cases[i].host, cases[i].domain, &at);
        if (yes != !!cases[i].port || at.port != cases[i].port)
            fail_msg("%s: %d, port %u", cases[i].host, yes, at.port);
        if (yes)
            assert_string_equal(at.id, ID);
    }
}

static void a_path_is_written_in_one_way(void **s)
{
    static const struct {
        const char *path;
        int rc;
        const char *rest;
    } cases[] = {
        { "/preview/" ID "/8000/", 1, "/" },
        { "/preview/" ID "/8000", 1, "" },
        { "/preview/" ID "/8000//a/../b", 1, "//a/../b" },
        { "/previews/", 0, "" },
        { "/", 0, "" },
        { "/preview/", -1, "" },
        { "/preview/" ID, -1, "" },
        { "/preview/" ID "/", -1, "" },
        { "/preview/" ID "/x/", -1, "" },
        { "/preview/" ID "/80%30/", -1, "" },
        { "/preview/CABCDEFGHIJ234567ABC/8000/", -1, "" },
        { "/preview/../api/v1/", -1, "" },
    };
    (void)s;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        cay__preview_at at = { 0 };
        int rc = cay__preview_path(cases[i].path, &at);
        if (rc != cases[i].rc)
            fail_msg("%s: %d", cases[i].path, rc);
        if (rc > 0)
            assert_string_equal(cases[i].path + at.prefix, cases[i].rest);
    }
}

static void our_cookies_stay_with_us(void **s)
{
    static const struct {
        const char *line, *rest;
    } cases[] = {
        { "a=1; cay_00ff00ff=secret; b=2", "a=1; b=2" },
        { "CAY_00FF00FF=secret", "" },
        { "__Host-cay=secret; __host-CAY=x;a=b", "a=b" },
        { " cay_00ff00ff = secret ;;; a=1 ", "a=1" },
        { "cay_00ff00ff", "" },
        { "cay_00ff00f=1; cay_00ff00ffa=2; xcay_00ff00ff=3",
          "cay_00ff00f=1; cay_00ff00ffa=2; xcay_00ff00ff=3" },
        { "", "" },
    };
    char value[16];
    (void)s;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        CAY_AUTOBUF b = CAY__BUF(4096);
        cay__cookie_strip(cases[i].line, &b);
        assert_string_equal(b.data ? b.data : "", cases[i].rest);
    }
    assert_true(cay__cookie_get("x=1; cay_0=abc ; y=2", "cay_0", value, sizeof value));
    assert_string_equal(value, "abc");
    assert_false(cay__cookie_get("xcay_0=abc; cay_01=1; cay_0", "cay_0", value, sizeof value));
    assert_false(cay__cookie_get("cay_0=0123456789abcdef", "cay_0", value, sizeof value));
}

static void a_cookie_is_for_one_host(void **s)
{
    static const struct {
        const char *value, *kept; /* NULL: left out */
    } cases[] = {
        { "a=b; Path=/; HttpOnly", "a=b; Path=/; HttpOnly" },
        { "a=b; Domain=localhost; Path=/", "a=b; Path=/" },
        { "a=b;domain = .example.com;DOMAIN=x", "a=b" },
        { "a=b; domain", "a=b" },
        { "cay_00ff00ff=mine; Path=/", NULL },
        { "__Host-cay=mine; Secure", NULL },
        { "novalue", NULL },
        { "=b", NULL },
        { "", NULL },
    };
    (void)s;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        CAY_AUTOBUF b = CAY__BUF(4096);
        bool yes = cay__set_cookie(cases[i].value, &b);
        assert_int_equal(yes, cases[i].kept != NULL);
        if (yes)
            assert_string_equal(b.data, cases[i].kept);
    }
}

static void the_token_leaves_the_query(void **s)
{
    static const struct {
        const char *query, *rest, *value;
    } cases[] = {
        { "", "", "" },
        { "a=1&b=2", "a=1&b=2", "" },
        { "cay_token=x", "", "x" },
        { "a=1&cay_token=x&b=2", "a=1&b=2", "x" },
        { "cay_token=x&cay_token=y", "", "x" },
        { "cay_token&a", "a", "" },
        { "&&a=&", "&&a=&", "" },
        { "cay_tokens=1&xcay_token=2", "cay_tokens=1&xcay_token=2", "" },
        { "cay_token=0123456789abcdef&a", "a", "" },
    };
    (void)s;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        char value[16];
        CAY_AUTOBUF b = CAY__BUF(4096);
        cay__query_strip(cases[i].query, "cay_token", &b, value, sizeof value);
        assert_string_equal(b.data ? b.data : "", cases[i].rest);
        assert_string_equal(value, cases[i].value);
    }
}

static void ask(const char *text, bool by_path, cay__buf *out)
{
    cay__head *h = cay__alloc(sizeof *h);
    cay_err err = CAY_ERR_INIT;
    size_t scanned = 0;
    cay__preview_at at = { .id = ID, .port = 8000 };
    if (cay__request_read(text, strlen(text), &scanned, h, &err) <= 0)
        fail_msg("%s: %s", text, err.msg);
    if (by_path)
        assert_int_equal(cay__preview_path(h->path, &at), 1);
    cay__preview_request(&(cay__preview_ask){ .at = &at,
                                              .head = h,
                                              .query = h->query,
                                              .peer = "10.1.2.3",
                                              .websocket = h->upgrade != NULL },
                         out);
    cay__head_clear(h);
    free(h);
}

static void a_request_is_written_anew(void **s)
{
    CAY_AUTOBUF b = CAY__BUF(65536);
    (void)s;
    ask("POST /x?y HTTP/1.1\r\nHost: me.test\r\nConnection: close, X-Secret\r\nX-Secret: "
        "1\r\nKeep-Alive: 5\r\nTE: trailers\r\nX-Forwarded-For: 6.6.6.6\r\n"
        "X_Forwarded_Host: evil\r\nForwarded: for=6.6.6.6\r\nX-Cay-Token: cayp_1\r\nX-API-Key: "
        "e2b_1\r\nAuthorization: Bearer  cayp_1\r\nCookie: a=1; cay_00ff00ff=s\r\n"
        "Origin: http://me.test\r\nReferer: http://me.test/?cay_token=s\r\nContent-Length: "
        "3\r\nExpect: 100-continue\r\nProxy-Authorization: x\r\nAccept: */*\r\n\r\n",
        false, &b);
    assert_string_equal(b.data, "POST /x?y HTTP/1.1\r\nhost: localhost:8000\r\ncookie: "
                                "a=1\r\norigin: http://localhost:8000\r\naccept: */*\r\n"
                                "x-forwarded-for: 10.1.2.3\r\nx-forwarded-host: "
                                "me.test\r\nx-forwarded-proto: http\r\ncontent-length: 3\r\n\r\n");
    CAY_AUTOBUF c = CAY__BUF(65536);
    ask("PUT /preview/" ID
        "/8000 HTTP/1.1\r\nHost: me.test\r\nTransfer-Encoding: chunked\r\nCookie: "
        "a=1\r\nAuthorization: Basic eA==\r\nOrigin: http://other.test\r\n\r\n",
        true, &c);
    assert_string_equal(
        c.data,
        "PUT / HTTP/1.1\r\nhost: localhost:8000\r\nauthorization: Basic eA==\r\norigin: "
        "http://other.test\r\nx-forwarded-for: 10.1.2.3\r\n"
        "x-forwarded-host: me.test\r\nx-forwarded-proto: http\r\nx-forwarded-prefix: /preview/" ID
        "/8000\r\ntransfer-encoding: chunked\r\n\r\n");
}

static void the_host_that_a_program_is_told_may_be_another(void **s)
{
    CAY_AUTOBUF b = CAY__BUF(65536);
    cay__head *h = cay__alloc(sizeof *h);
    cay__preview_at at = { .id = ID, .port = 8000 };
    size_t scanned = 0;
    static const char text[] = "GET / HTTP/1.1\r\nHost: me.test\r\nOrigin: http://me.test\r\n\r\n";
    (void)s;
    assert_true(cay__request_read(text, strlen(text), &scanned, h, NULL) > 0);
    cay__preview_request(
        &(cay__preview_ask){
            .at = &at, .head = h, .query = "", .peer = "::1", .host = "app.example" },
        &b);
    assert_non_null(strstr(b.data, "\r\nhost: app.example\r\norigin: http://app.example\r\n"));
    assert_non_null(strstr(b.data, "\r\nx-forwarded-host: me.test\r\n"));
    cay__head_clear(h);
    free(h);
}

static void answer(const char *text, bool by_path, cay__buf *out)
{
    cay__head *h = cay__alloc(sizeof *h);
    cay_err err = CAY_ERR_INIT;
    size_t scanned = 0;
    cay__preview_back back = { .at = { .id = ID, .port = 8000, .by_path = by_path },
                               .keep = true,
                               .host = "me.test" };
    if (cay__answer_read(text, strlen(text), &scanned, false, h, &err) <= 0)
        fail_msg("%s: %s", text, err.msg);
    cay__preview_answer(&back, h, cay__preview_framing(&back, h), out);
    cay__head_clear(h);
    free(h);
}

static void an_answer_is_written_anew(void **s)
{
    CAY_AUTOBUF b = CAY__BUF(65536), c = CAY__BUF(65536), d = CAY__BUF(65536);
    (void)s;
    answer("HTTP/1.1 302 Whatever\r\nLocation: http://127.0.0.1:8000/a\r\nSet-Cookie: a=b; "
           "Domain=me.test\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"
           "Strict-Transport-Security: max-age=1\r\nClear-Site-Data: \"*\"\r\nX-Own: "
           "<b>\r\nContent-Length: 5\r\n\r\n",
           false, &b);
    assert_string_equal(b.data, "HTTP/1.1 302 Found\r\nlocation: http://me.test/a\r\nset-cookie: "
                                "a=b\r\nx-own: <b>\r\ncontent-length: 5\r\n\r\n");
    answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nLocation: /a\r\nSet-Cookie: "
           "a=b\r\nService-Worker-Allowed: /\r\nContent-Type: text/html\r\n\r\n",
           true, &c);
    assert_string_equal(c.data, "HTTP/1.1 200 OK\r\nlocation: /preview/" ID
                                "/8000/a\r\ncontent-type: text/html\r\n"
                                "content-security-policy: sandbox allow-scripts allow-forms "
                                "allow-popups allow-modals allow-downloads\r\n"
                                "x-content-type-options: nosniff\r\nreferrer-policy: "
                                "no-referrer\r\ntransfer-encoding: chunked\r\n\r\n");
    answer("HTTP/1.0 200 OK\r\nLocation: http://localhost:80001/\r\n\r\n", false, &d);
    assert_string_equal(d.data, "HTTP/1.1 200 OK\r\nlocation: "
                                "http://localhost:80001/\r\ntransfer-encoding: chunked\r\n\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_names_one_port_of_one_sandbox),
        cmocka_unit_test(a_path_is_written_in_one_way),
        cmocka_unit_test(our_cookies_stay_with_us),
        cmocka_unit_test(a_cookie_is_for_one_host),
        cmocka_unit_test(the_token_leaves_the_query),
        cmocka_unit_test(a_request_is_written_anew),
        cmocka_unit_test(the_host_that_a_program_is_told_may_be_another),
        cmocka_unit_test(an_answer_is_written_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
