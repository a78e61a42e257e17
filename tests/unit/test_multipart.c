/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/buf.h>
#include <net/multipart.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

typedef struct src {
    const char *data;
    size_t len, step;
} src;

static int give(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    src *s = arg;
    (void)err;
    *n = CAY_MIN(CAY_MIN(s->len, s->step), cap);
    memcpy(buf, s->data, *n);
    s->data += *n;
    s->len -= *n;
    return 0;
}

/* All parts as "name[filename]=bytes;", or the reason. */
static void flat(const char *type, const char *body, size_t len, size_t step, cay__buf *out)
{
    cay_err err = CAY_ERR_INIT;
    cay__multipart *m = NULL;
    cay__form_part part;
    src s = { body, len, step };
    int rc = cay__multipart_open(type, give, &s, &m, &err);
    cay__buf_str(out, "");
    while (rc == 0 && (rc = cay__multipart_next(m, &part, &err)) == 1) {
        char piece[7];
        size_t n;
        cay__buf_fmt(out, "%s%s%s%s=", part.name, part.file ? "[" : "", part.filename,
                     part.file ? "]" : "");
        while ((rc = cay__multipart_bytes(m, piece, sizeof piece, &n, &err)) == 0 && n)
            cay__buf_add(out, piece, n);
        cay__buf_str(out, ";");
    }
    if (rc < 0)
        cay__buf_fmt(out, "!%s", err.reason);
    cay__multipart_close(m);
}

static void expect(const char *type, const char *body, const char *parts)
{
    for (size_t step = 1; step < 40; step++) { /* wherever the pieces are cut */
        CAY_AUTOBUF out = CAY__BUF(4096);
        flat(type, body, strlen(body), step, &out);
        assert_string_equal(out.data, parts);
    }
}

#define TYPE       "multipart/form-data; boundary=xx"
#define PART(head) "--xx\r\nContent-Disposition: form-data; " head "\r\n\r\n"

static void parts_come_as_they_were_sent(void **state)
{
    (void)state;
    expect(TYPE, PART("name=\"a\"") "one\r\n--xx--\r\n", "a=one;");
    expect(TYPE,
           "before\r\n" PART("name=a") "\r\n" PART(
               "name=\"b\"; filename=\"x.txt\"") "\r\n--x\r\n--xx--after",
           "a=;b[x.txt]=\r\n--x;");
    expect("multipart/form-data; charset=x; boundary=\"xx\"",
           PART("name=\"a\"; filename=\"\"") "\r\n--xx--", "a[]=;");
    expect(TYPE,
           "--xx\r\nX-Y: 1\r\ncontent-disposition: form-data; filename=\"say \\\"hi\\\" C:\\x\"; "
           "name=\"f\"\r\nContent-Type: text/plain\r\n\r\n\r\r\n\n\r\n--xx--",
           "f[say \"hi\" C:\\x]=\r\r\n\n;");
    expect(TYPE, "--xx--\r\n", "");
}

static void what_can_be_read_two_ways_is_refused(void **state)
{
    (void)state;
    expect("application/json", "", "!multipart_invalid");
    expect("multipart/form-data", "", "!multipart_invalid");
    expect("multipart/form-data; boundary=", "", "!multipart_invalid");
    expect("multipart/form-data; boundary=a; boundary=b", "--a--", "!multipart_invalid");
    expect(TYPE, PART("name=\"a\"") "one", "a=;!multipart_invalid");
    expect(TYPE, "", "!multipart_invalid");
    expect(TYPE, "--xxy\r\n\r\n\r\n--xx--", "!multipart_invalid");
    expect(TYPE, "--xx\r\nA: b\r\n\r\nx\r\n--xx--", "!multipart_invalid"); /* no name */
    expect(TYPE, "--xx\r\n\r\nx\r\n--xx--", "!multipart_invalid");
    expect(TYPE, PART("name=\"a\"; name=\"b\"") "x\r\n--xx--", "!multipart_invalid");
    expect(TYPE, PART("name=\"a") "x\r\n--xx--", "!multipart_invalid");
    expect(TYPE, "--xx\r\nContent-Disposition : form-data; name=a\r\n\r\nx\r\n--xx--",
           "!multipart_invalid");
    expect(TYPE, "--xx\r\nContent-Disposition: form-data; name=a\nX: y\r\n\r\nx\r\n--xx--",
           "!multipart_invalid");
}

static void a_field_is_bounded(void **state)
{
    (void)state;
    static const char body[] = PART("name=a") "12345\r\n--xx--";
    cay_err err = CAY_ERR_INIT;
    cay__form_part part;
    for (size_t max = 4; max <= 5; max++) {
        src s = { body, sizeof body - 1, 3 };
        cay__multipart *m;
        char *text = NULL;
        assert_int_equal(cay__multipart_open(TYPE, give, &s, &m, &err), 0);
        assert_int_equal(cay__multipart_next(m, &part, &err), 1);
        assert_int_equal(cay__multipart_text(m, max, &text, &err), max == 5 ? 0 : CAY_ETOOBIG);
        if (max == 5)
            assert_string_equal(text, "12345");
        free(text);
        cay__multipart_close(m);
    }
    CAY_AUTOBUF big = CAY__BUF(1 << 20), out = CAY__BUF(4096);
    cay__buf_str(&big, "--xx\r\nX: ");
    for (int i = 0; i < 9000; i++)
        cay__buf_str(&big, "y");
    cay__buf_str(&big, "\r\n\r\n\r\n--xx--");
    flat(TYPE, big.data, big.len, 1000, &out);
    assert_string_equal(out.data, "!multipart_invalid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_as_they_were_sent),
        cmocka_unit_test(what_can_be_read_two_ways_is_refused),
        cmocka_unit_test(a_field_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
