/* SPDX-License-Identifier: Apache-2.0 */
/* A unified difference leads from one text to the other, whatever they are, and stays small where
 * they are alike. */
#include <base/base.h>
#include <helper/layer/lines.h>
#include <helper/layer/patch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static char *diff(const char *a, const char *b, unsigned context)
{
    cay__buf out = CAY__BUF(1u << 20);
    lines_diff(a, strlen(a), b, strlen(b), context, &out);
    cay__buf_add(&out, "", 0);
    return out.data ? out.data : cay__strdup("");
}

static void expect(const char *a, const char *b, unsigned context, const char *want)
{
    CAY_AUTOFREE char *got = diff(a, b, context);
    assert_string_equal(got, want);
}

static void hunks_are_as_git_writes_them(void **state)
{
    (void)state;
    expect("a\n", "a\n", 3, "");
    expect("", "", 3, "");
    expect("a\nb\nc\n", "a\nB\nc\n", 3, "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
    expect("", "a\nb\n", 3, "@@ -0,0 +1,2 @@\n+a\n+b\n");
    expect("a\nb\n", "", 3, "@@ -1,2 +0,0 @@\n-a\n-b\n");
    expect("a", "a\n", 3, "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    expect("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n", 1,
           "@@ -4,3 +4,3 @@\n 4\n-5\n+x\n 6\n");
    expect("1\n2\n3\n4\n5\n6\n7\n", "x\n2\n3\n4\n5\n6\ny\n", 1,
           "@@ -1,2 +1,2 @@\n-1\n+x\n 2\n@@ -6,2 +6,2 @@\n 6\n-7\n+y\n");
    expect("1\n2\n3\n", "0\n1\n2\n3\n", 0, "@@ -0,0 +1 @@\n+0\n");
}

/* Reads the hunks back: what a patch program would make of them. */
static void follow(const char *a, const char *patch, cay__buf *out)
{
    size_t line = 1, start, n;
    const char *p = patch;
    while (*p) {
        int used = 0;
        assert_true(sscanf(p, "@@ -%zu%n", &start, &used) == 1);
        p += used;
        n = 1;
        if (*p == ',')
            n = strtoul(p + 1, NULL, 10);
        p = strchr(p, '\n') + 1;
        for (start += n == 0; line < start; line++) {
            const char *end = strchr(a, '\n') + 1;
            cay__buf_add(out, a, (size_t)(end - a));
            a = end;
        }
        for (; *p && *p != '@'; p = strchr(p, '\n') + 1) {
            size_t len = (size_t)(strchr(p, '\n') -
                                  p); /* mark and text, the newline counts instead of the mark */
            if (*p != '+') {
                assert_memory_equal(a, p + 1, len);
                a += len;
                line++;
            }
            if (*p != '-')
                cay__buf_add(out, p + 1, len);
        }
    }
    cay__buf_str(out, a);
}

static void any_two_texts_are_led_over(void **state)
{
    unsigned seed = 1;
    (void)state;
    for (int round = 0; round < 2000; round++) {
        CAY_AUTOBUF a = CAY__BUF(1u << 20), b = CAY__BUF(1u << 20), made = CAY__BUF(1u << 20);
        int n = (int)(seed = seed * 1103515245u + 12345) >> 8 & 31, words = 2 + (round & 7);
        for (int i = 0; i < n; i++) {
            seed = seed * 1103515245u + 12345;
            unsigned w = (seed >> 16) % (unsigned)words, what = (seed >> 8) % 6;
            if (what != 0)
                cay__buf_fmt(&a, "w%u\n", w);
            if (what != 1)
                cay__buf_fmt(&b, "w%u\n", what == 2 ? w + 1 : w);
        }
        cay__buf_add(&a, "", 0);
        cay__buf_add(&b, "", 0);
        CAY_AUTOFREE char *d =
            diff(a.data ? a.data : "", b.data ? b.data : "", (unsigned)round & 3);
        follow(a.data ? a.data : "", d, &made);
        assert_string_equal(made.data ? made.data : "", b.data ? b.data : "");
    }
}

static void one_line_among_many_is_one_hunk(void **state)
{
    CAY_AUTOBUF a = CAY__BUF(8u << 20), b = CAY__BUF(8u << 20);
    (void)state;
    for (int i = 0; i < 50000; i++) {
        cay__buf_fmt(&a, "line %d\n", i);
        if (i != 31000)
            cay__buf_fmt(&b, "line %d\n", i);
    }
    CAY_AUTOFREE char *d = diff(a.data, b.data, 0);
    assert_string_equal(d, "@@ -31001 +31000,0 @@\n-line 31000\n");
}

static void what_has_nothing_in_common_is_replaced(void **state)
{
    CAY_AUTOBUF a = CAY__BUF(8u << 20), b = CAY__BUF(8u << 20), out = CAY__BUF(8u << 20);
    (void)state;
    for (int i = 0; i < 40000; i++) {
        cay__buf_fmt(&a, "a%d\n", i);
        cay__buf_fmt(&b, "b%d\n", i);
    }
    lines_diff(a.data, a.len, b.data, b.len, 3, &out);
    assert_true(out.len > a.len + b.len);
}

static void paths_are_quoted_as_git_does(void **state)
{
    static const struct {
        const char *path, *want;
    } cases[] = { { "plain name.c", "a/plain name.c" },
                  { "tab\there", "\"a/tab\\there\"" },
                  { "line\nbreak", "\"a/line\\nbreak\"" },
                  { "quo\"te", "\"a/quo\\\"te\"" },
                  { "\xc3\xa9", "\"a/\\303\\251\"" },
                  { "\x1b[31m", "\"a/\\033[31m\"" },
                  { "b\\s", "\"a/b\\\\s\"" } };
    (void)state;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        CAY_AUTOBUF b = CAY__BUF(256);
        patch_quote("a/", cases[i].path, &b);
        assert_string_equal(b.data, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hunks_are_as_git_writes_them),
        cmocka_unit_test(any_two_texts_are_led_over),
        cmocka_unit_test(one_line_among_many_is_one_hunk),
        cmocka_unit_test(what_has_nothing_in_common_is_replaced),
        cmocka_unit_test(paths_are_quoted_as_git_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
