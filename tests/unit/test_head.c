/* SPDX-License-Identifier: Apache-2.0 */
#include <net/chunk.h>
#include <net/head.h>
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* The code of one request; the head in *out when it is whole. */
static int read_one(const char *text, cay__head *out, cay_err *err)
{
    size_t scanned = 0;
    *err = (cay_err)CAY_ERR_INIT;
    return cay__request_read(text, strlen(text), &scanned, out, err);
}

static void refused(const char *text, int code, const char *reason)
{
    cay__head h;
    cay_err err;
    int rc = read_one(text, &h, &err);
    if (rc != code)
        print_error("%s: %d\n", text, rc);
    assert_int_equal(rc, code);
    assert_string_equal(err.reason, reason);
}

static void a_request_is_taken_apart(void **state)
{
    static const char text[] =
        "POST /a/b%20c?x=1&y HTTP/1.1\r\nHost: Example.org:80\r\nX-Empty:\r\nX-Name:  a b "
        "\t\r\ncontent-LENGTH: 12\r\nConnection: keep-alive, Upgrade\r\n"
        "Upgrade: websocket\r\nExpect: 100-Continue\r\n\r\nbody";
    cay__head h;
    cay_err err;
    (void)state;
    int n = read_one(text, &h, &err);
    assert_int_equal(n, (int)sizeof text - 1 - 4);
    assert_string_equal(h.method, "POST");
    assert_string_equal(h.target, "/a/b%20c?x=1&y");
    assert_string_equal(h.path, "/a/b%20c");
    assert_string_equal(h.query, "x=1&y");
    assert_string_equal(h.host, "Example.org:80");
    assert_string_equal(cay__head_field(&h, "x-name"), "a b");
    assert_string_equal(cay__head_field(&h, "x-empty"), "");
    assert_null(cay__head_field(&h, "x-none"));
    assert_string_equal(h.upgrade, "websocket");
    assert_true(h.keep_alive && h.expect_continue && h.body == CAY__BODY_LENGTH && h.length == 12 &&
                h.minor == 1);
    assert_true(cay__head_list(&h, "connection", "upgrade") &&
                !cay__head_list(&h, "connection", "up"));
    cay__head_clear(&h);
}

static void it_may_come_in_pieces(void **state)
{
    static const char text[] = "GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET";
    cay__head h;
    size_t scanned = 0;
    (void)state;
    for (size_t n = 0; n < sizeof text - 1 - 3; n++)
        assert_int_equal(cay__request_read(text, n, &scanned, &h, NULL), 0);
    assert_int_equal(cay__request_read(text, sizeof text - 1, &scanned, &h, NULL),
                     (int)sizeof text - 1 - 3);
    cay__head_clear(&h);
}

static void what_could_be_read_in_two_ways_is_refused(void **state)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
        "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\\ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
        "(GET) / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / http/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        refused(bad[i], CAY_EINVAL, "http_syntax");
    refused("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", CAY_ENOTSUP,
            "transfer_encoding");
    refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", CAY_ENOTSUP, "http_version");
}

static void heads_have_a_size(void **state)
{
    cay__buf b = CAY__BUF(1 << 20);
    cay__head h;
    cay_err err = CAY_ERR_INIT;
    size_t scanned = 0;
    (void)state;
    cay__buf_str(&b, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < CAY__HEAD_FIELDS; i++)
        cay__buf_fmt(&b, "X%d: y\r\n", i);
    cay__buf_str(&b, "\r\n");
    assert_int_equal(cay__request_read(b.data, b.len, &scanned, &h, &err), CAY_ETOOBIG);
    b.len = 0;
    scanned = 0;
    cay__buf_str(&b, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    for (int i = 0; i < CAY__HEAD_MAX; i++)
        cay__buf_str(&b, "x");
    assert_int_equal(cay__request_read(b.data, CAY__HEAD_MAX - 1, &scanned, &h, &err), 0);
    assert_int_equal(cay__request_read(b.data, b.len, &scanned, &h, &err), CAY_ETOOBIG);
    cay__buf_clear(&b);
}

static void answer(const char *text, bool to_head, int status, cay__body_kind body)
{
    cay__head h;
    size_t scanned = 0;
    int n = cay__answer_read(text, strlen(text), &scanned, to_head, &h, NULL);
    assert_int_equal(n, (int)strlen(text));
    assert_int_equal(h.status, status);
    assert_int_equal(h.body, body);
    cay__head_clear(&h);
}

static void answers_tell_their_body(void **state)
{
    cay__head h;
    size_t scanned = 0;
    (void)state;
    answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, 200, CAY__BODY_LENGTH);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, 200, CAY__BODY_NONE);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, 200, CAY__BODY_NONE);
    answer("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n", false, 200, CAY__BODY_CHUNKED);
    answer("HTTP/1.0 200 OK\r\n\r\n", false, 200, CAY__BODY_TO_END);
    answer("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, 304, CAY__BODY_NONE);
    answer("HTTP/1.1 101 X\r\n\r\n", false, 101, CAY__BODY_NONE);
    assert_int_equal(cay__answer_read("HTTP/1.1 20 OK\r\n\r\n", 18, &scanned, false, &h, NULL),
                     CAY_EINVAL);
    scanned = 0;
    assert_int_equal(cay__answer_read("HTTP/1.1 999 OK\r\n\r\n", 19, &scanned, false, &h, NULL),
                     CAY_EINVAL);
}

static void urls_are_decoded(void **state)
{
    char out[32];
    (void)state;
    assert_true(cay__url_decode("a%20b+c", 7, false, out));
    assert_string_equal(out, "a b+c");
    assert_true(cay__url_decode("a%2Bb+c", 7, true, out));
    assert_string_equal(out, "a+b c");
    assert_false(cay__url_decode("a%2", 3, false, out));
    assert_false(cay__url_decode("a%zz", 4, false, out));
    assert_false(cay__url_decode("a%00", 4, false, out));
}

/* All of a body, however it is cut; negative when it is none. */
static int unchunk(const char *text, size_t step, char *out)
{
    cay__chunk c = { 0 };
    size_t n = strlen(text), at = 0, len = 0;
    while (at < n && !c.done) {
        size_t have = CAY_MIN(step, n - at);
        while (have && !c.done) {
            const char *piece;
            size_t used, plen;
            int rc = cay__chunk_read(&c, text + at, have, step, &used, &piece, &plen, NULL);
            if (rc < 0)
                return rc;
            memcpy(out + len, piece, plen);
            len += plen;
            at += used;
            have -= used;
        }
    }
    out[len] = 0;
    return c.done ? (int)at : 0;
}

static void chunks_are_put_together(void **state)
{
    static const char text[] = "5;a=b\r\nhello\r\nA\r\n, chunks. \r\n0\r\nTrailer: x\r\n\r\nrest";
    static const char *const bad[] = { "5\nhello\r\n0\r\n\r\n",
                                       "5\r\nhello0\r\n\r\n",
                                       "g\r\n",
                                       "\r\n",
                                       " 5\r\nhello\r\n",
                                       "5 \r\nhello\r\n",
                                       "11111111111111111\r\n",
                                       "ffffffffffffffff\r\n",
                                       "0\r\n:\r\n\r\n",
                                       "5\r\nhello\r\r0" };
    char out[64];
    (void)state;
    for (size_t step = 1; step < sizeof text; step++) {
        assert_int_equal(unchunk(text, step, out), (int)sizeof text - 1 - 4);
        assert_string_equal(out, "hello, chunks. ");
        for (size_t i = 0; i < CAY_LEN(bad); i++)
            assert_int_equal(unchunk(bad[i], step, out), CAY_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_taken_apart),
        cmocka_unit_test(it_may_come_in_pieces),
        cmocka_unit_test(what_could_be_read_in_two_ways_is_refused),
        cmocka_unit_test(heads_have_a_size),
        cmocka_unit_test(answers_tell_their_body),
        cmocka_unit_test(urls_are_decoded),
        cmocka_unit_test(chunks_are_put_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
