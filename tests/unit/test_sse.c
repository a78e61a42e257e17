/* SPDX-License-Identifier: Apache-2.0 */
#include <net/http.h>
#include <net/sse.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static int keep(const char *name, const char *data, size_t len, void *arg, cay_err *err)
{
    (void)err;
    cay__buf_fmt(arg, "%s(%zu)=%s;", name, len, data);
    return strcmp(name, "stop") ? 0 : 7;
}

static void expect(const char *stream, const char *events)
{
    for (size_t step = 1; step < 9; step++) { /* wherever the pieces are cut */
        cay__buf out = CAY__BUF(4096);
        cay__sse s = CAY__SSE(64, keep, &out);
        cay__buf_str(&out, "");
        for (const char *p = stream; *p;) {
            size_t n = strnlen(p, step);
            assert_int_equal(cay__sse_feed(&s, p, n, NULL), 0);
            p += n;
        }
        assert_string_equal(out.data ? out.data : "", events);
        cay__sse_end(&s);
        cay__buf_clear(&out);
    }
}

static void events_are_read_as_the_standard_says(void **state)
{
    (void)state;
    expect("data: a\n\n", "message(1)=a;");
    expect("event: x\ndata: a\ndata:b\ndata\n\n", "x(4)=a\nb\n;");
    expect("data: a\r\n\r\ndata: b\r\rdata: c\n\n", "message(1)=a;message(1)=b;message(1)=c;");
    expect(": a comment\nid: 7\nretry: 5\ndata:  two blanks\n\n", "message(11)= two blanks;");
    expect("\xef\xbb\xbf"
           "data: after a mark\n\n",
           "message(12)=after a mark;");
    expect("event: named but empty\n\ndata: next\n\n", "message(4)=next;");
    expect("data: not finished\n", "");
    expect("Data: keys mind their case\n\n", "");
}

static void an_event_has_a_largest_size(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    cay__buf out = CAY__BUF(4096);
    cay__sse s = CAY__SSE(64, keep, &out);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cay__sse_feed(&s, "data: twenty bytes of text\n", 27, &err),
                         i < 3 ? 0 : CAY_ETOOBIG);
    assert_string_equal(err.reason, "event_too_big");
    cay__sse_end(&s);
    cay__sse t = CAY__SSE(8, keep, &out);
    assert_int_equal(cay__sse_feed(&t, "a line without an end", 21, &err), CAY_ETOOBIG);
    cay__sse_end(&t);
    cay__buf_clear(&out);
}

static void a_reader_may_stop(void **state)
{
    (void)state;
    cay__buf out = CAY__BUF(4096);
    cay__sse s = CAY__SSE(64, keep, &out);
    assert_int_equal(cay__sse_feed(&s, "event: stop\ndata: 1\n\ndata: 2\n\n", 30, NULL), 7);
    assert_string_equal(out.data, "stop(1)=1;");
    cay__sse_end(&s);
    cay__buf_clear(&out);
}

static void loopback_is_told_from_what_looks_like_it(void **state)
{
    (void)state;
    assert_true(cay__http_is_loopback("http://localhost:8080/v1"));
    assert_true(cay__http_is_loopback("http://127.0.0.1/"));
    assert_true(cay__http_is_loopback("http://127.9.0.1:1"));
    assert_true(cay__http_is_loopback("http://[::1]:1234"));
    assert_false(cay__http_is_loopback("http://localhost.example.com/"));
    assert_false(cay__http_is_loopback("http://127.0.0.1.example.com/"));
    assert_false(cay__http_is_loopback("http://127.0.0.1@example.com/"));
    assert_false(cay__http_is_loopback("http://example.com/127.0.0.1"));
    assert_false(cay__http_is_loopback("localhost"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_read_as_the_standard_says),
        cmocka_unit_test(an_event_has_a_largest_size),
        cmocka_unit_test(a_reader_may_stop),
        cmocka_unit_test(loopback_is_told_from_what_looks_like_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
