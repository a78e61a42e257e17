/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <base/str.h>
#include <daemon/intercept/intercept.h>

intercept_state intercept = { .egress.fd = -1 };
void note(const intercept_flow *f, const cay__binding *b, bool allowed, const char *reason)
{
    (void)f, (void)b, (void)allowed, (void)reason;
}

void note_end(const intercept_flow *f, const char *reason, bool closed)
{
    (void)f, (void)reason, (void)closed;
}

void note_spent(vault *v)
{
    (void)v;
}

static secret values[] = {
    { (char *)"KEY", (char *)"s3cret-value", 12 },
    { (char *)"PASS", (char *)"open sesame", 11 },
    { (char *)"QUERY", (char *)"a b&c", 5 },
};

static const char policy_text[] =
    "cay-net 1\nmode rules\nrule api.test\nrule git.test\nrule maps.test\nrule *.many.test\n"
    "bind KEY api.test/v1,bearer,GET+POST\nbind PASS git.test,basic:me\nbind QUERY "
    "maps.test,query:key\n"
    "bind KEY *.many.test,header:X-One\nbind PASS *.many.test,header:X-Two\nbind QUERY "
    "*.many.test,query:k\n"
    "bind PASS own.many.test,header:X-Three\n";

static vault make_vault(void)
{
    vault v = { .secrets = values, .nsecrets = CAY_LEN(values) };
    cay_err err = CAY_ERR_INIT;
    if (cay__policy_read(&v.policy, policy_text, sizeof policy_text - 1, false, &err) < 0)
        fail_msg("%s", err.msg);
    return v;
}

static char *sent(const char *host, const char *head, cay_err *err)
{
    vault v = make_vault();
    mask m = { 0 };
    injected got = { .mask = &m };
    int rc = inject(&v, host, 443, true, head, strlen(head), &got, err);
    char *text = rc < 0 ? NULL : strndup(got.head, got.len);
    free(got.head);
    mask_clear(&m);
    cay__policy_clear(&v.policy);
    return text;
}

static void expect(const char *host, const char *head, const char *want)
{
    cay_err err = CAY_ERR_INIT;
    char *got = sent(host, head, &err);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void test_forms(void **state)
{
    (void)state;
    expect("api.test", "GET /v1/x HTTP/1.1\r\nHost: api.test\r\n\r\n",
           "GET /v1/x HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer "
           "s3cret-value\r\nAccept-Encoding: identity\r\n\r\n");
    expect("git.test", "GET /r.git HTTP/1.1\r\nHost: git.test\r\n\r\n",
           "GET /r.git HTTP/1.1\r\nHost: git.test\r\nAuthorization: Basic "
           "bWU6b3BlbiBzZXNhbWU=\r\nAccept-Encoding: identity\r\n\r\n");
    expect("maps.test", "GET /t?a=1&k%65y=mine HTTP/1.1\r\nHost: maps.test\r\n\r\n",
           "GET /t?a=1&key=a%20b%26c HTTP/1.1\r\nHost: maps.test\r\nAccept-Encoding: "
           "identity\r\n\r\n");
}

static void test_several(void **state)
{
    (void)state;
    expect("a.many.test",
           "GET /?k=own&q=1 HTTP/1.1\r\nHost: a.many.test\r\nx-one: mine\r\nX-Three: stays\r\n\r\n",
           "GET /?q=1&k=a%20b%26c HTTP/1.1\r\nHost: a.many.test\r\nX-Three: stays\r\nX-One: "
           "s3cret-value\r\nX-Two: open sesame\r\nAccept-Encoding: identity\r\n\r\n");
    expect("own.many.test",
           "GET / HTTP/1.1\r\nHost: own.many.test\r\nX-One: stays\r\nX-Three: mine\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: own.many.test\r\nX-One: stays\r\nX-Three: open "
           "sesame\r\nAccept-Encoding: identity\r\n\r\n");
}

static void test_own_goes(void **state)
{
    (void)state;
    expect("api.test",
           "GET /v1/x HTTP/1.1\r\nauthorization: mine\r\nHost: api.test\r\nAccept-Encoding: "
           "gzip\r\nX: y\r\n\r\n",
           "GET /v1/x HTTP/1.1\r\nHost: api.test\r\nX: y\r\nAuthorization: Bearer "
           "s3cret-value\r\nAccept-Encoding: identity\r\n\r\n");
    /* Where no binding fits nothing is added, and what stands in its place goes all the same. */
    expect("api.test", "GET /other HTTP/1.1\r\nAuthorization: mine\r\nHost: api.test\r\n\r\n",
           "GET /other HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: identity\r\n\r\n");
    expect("api.test", "DELETE /v1/x HTTP/1.1\r\nHost: api.test\r\n\r\n",
           "DELETE /v1/x HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: identity\r\n\r\n");
    expect("api.test", "GET /v1/../admin HTTP/1.1\r\nHost: api.test\r\n\r\n",
           "GET /v1/../admin HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: identity\r\n\r\n");
    expect("api.test", "GET /v1/%2e%2e/admin HTTP/1.1\r\nHost: api.test\r\n\r\n",
           "GET /v1/%2e%2e/admin HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: identity\r\n\r\n");
    expect("api.test", "GET /v10 HTTP/1.1\r\nHost: api.test\r\n\r\n",
           "GET /v10 HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: identity\r\n\r\n");
}

static void test_tricks(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    assert_null(sent("api.test", "TRACE /v1 HTTP/1.1\r\nHost: api.test\r\n\r\n", &err));
    assert_string_equal(err.reason, "http_trace");
    expect("api.test",
           "DELETE /v1 HTTP/1.1\r\nHost: api.test\r\nX-HTTP-Method-Override: "
           "GET\r\nX-Original-URL: /v1\r\nRange: bytes=0-9\r\nUpgrade: tcp\r\n\r\n",
           "DELETE /v1 HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: identity\r\n\r\n");
    expect("api.test", "PUT /v1 HTTP/1.1\r\nHost: api.test\r\nUpgrade:  websocket \r\n\r\n",
           "PUT /v1 HTTP/1.1\r\nHost: api.test\r\nUpgrade:  websocket \r\nAccept-Encoding: "
           "identity\r\n\r\n");
}

static void test_absolute(void **state)
{
    (void)state;
    expect("api.test", "GET http://api.test/v1/x?q HTTP/1.1\r\nHost: api.test\r\n\r\n",
           "GET /v1/x?q HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer "
           "s3cret-value\r\nAccept-Encoding: identity\r\n\r\n");
    expect("api.test", "GET http://api.test HTTP/1.1\r\nHost: api.test\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: identity\r\n\r\n");
}

static void test_too_long(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    char *head = cay__alloc(HEAD_MAX + 64);
    static const char begin[] = "GET /v1 HTTP/1.1\r\nX: ";
    size_t n = sizeof begin - 1;
    memcpy(head, begin, n);
    memset(head + n, 'x', HEAD_MAX - n - 4);
    memcpy(head + HEAD_MAX - 4, "\r\n\r\n", 5);
    assert_null(sent("api.test", head, &err));
    assert_string_equal(err.reason, "http_head_too_long");
    free(head);
}

/* In pieces of every size the value never passes, and everything else does, byte for byte. */
static void test_mask(void **state)
{
    (void)state;
    static const char text[] =
        "HTTP/1.1 200 OK\r\nX: s3cret-value\r\n\r\n{\"s3cret-valus3cret-value\": \"s3cre\"}";
    static const char want[] =
        "HTTP/1.1 200 OK\r\nX: ************\r\n\r\n{\"s3cret-valu************\": \"s3cre\"}";
    mask m = { 0 };
    mask_add(&m, "s3cret-value", 12);
    for (size_t step = 1; step < sizeof text; step++) {
        char held[sizeof text], got[sizeof text] = { 0 };
        size_t len = 0, out = 0;
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            size_t n = CAY_MIN(step, sizeof text - 1 - at);
            memcpy(held + len, text + at, n);
            len += n;
            size_t ok = mask_apply(&m, held, len, at + n == sizeof text - 1);
            memcpy(got + out, held, ok);
            out += ok;
            memmove(held, held + ok, len - ok);
            len -= ok;
        }
        assert_int_equal(len, 0);
        assert_string_equal(got, want);
    }
    mask_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),    cmocka_unit_test(test_several),
        cmocka_unit_test(test_own_goes), cmocka_unit_test(test_absolute),
        cmocka_unit_test(test_too_long), cmocka_unit_test(test_tricks),
        cmocka_unit_test(test_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
