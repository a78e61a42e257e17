/* SPDX-License-Identifier: Apache-2.0 */
/* Patches on texts; what they do in a sandbox is in tests/agent. Numbers are those of the
 * conformance cases. */
#include <base/base.h>
#include <base/buf.h>
#include <cay/patch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void update(const char *file, const char *diff, const char *want, unsigned want_fuzz)
{
    char *out = NULL;
    size_t len = 0;
    unsigned fuzz = 0;
    cay_err err = CAY_ERR_INIT;
    if (cay_patch_update(file, strlen(file), diff, &out, &len, &fuzz, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(out, want);
    assert_int_equal(len, strlen(want));
    assert_int_equal(fuzz, want_fuzz);
    free(out);
}

static void refuse(const char *file, const char *diff, const char *what)
{
    char *out = NULL;
    size_t len;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_patch_update(file, strlen(file), diff, &out, &len, NULL, &err),
                     CAY_EINVAL);
    assert_string_equal(err.reason, "apply_patch_invalid_diff");
    if (!strstr(err.msg, what))
        fail_msg("\"%s\" instead of \"%s\"", err.msg, what);
    assert_null(out);
}

static void a_change_finds_its_place_by_context(void **state)
{
    (void)state;
    update("a\nb\nc\n", "@@\n a\n-b\n+B\n c\n", "a\nB\nc\n", 0);
    update("a\nb\nc\n", " a\n-b\n+B\n", "a\nB\nc\n", 0);
    update("f()\nx\ng()\nx\n", "@@ g()\n-x\n+y\n", "f()\nx\ng()\ny\n", 0);
    update("x\nx\nx\n", "@@\n-x\n+1\n@@\n-x\n+2\n", "1\n2\nx\n", 0);
    update("a\nb\n", "@@\n+first\n a\n b\n+last\n", "first\na\nb\nlast\n", 0);
    update("a\n\nb\n", "@@\n a\n\n-b\n+c\n", "a\n\nc\n", 0);
    update("", "+hello\n", "hello\n", 0);
    update("class A\ndef f\nx\nclass B\ndef f\nx\n", "@@ class B\n@@ def f\n-x\n+y\n",
           "class A\ndef f\nx\nclass B\ndef f\ny\n", 0);
    update("a\nb\n", "@@ no such line\n-b\n+c\n", "a\nc\n", 0);
}

/* 67 */
static void blanks_are_forgiven_and_line_ends_stay(void **state)
{
    (void)state;
    update("a  \nb\n", "@@\n a\n-b\n+c\n", "a  \nc\n", 1);
    update("\ta\nb\n", "@@\n a\n-b\n+c\n", "\ta\nc\n", 100);
    update("a\r\nb\r\n", "@@\n a\n-b\n+c\n", "a\r\nc\r\n", 0);
    update("one", "@@\r\n-one\r\n+two\r\n+three\r\n", "two\r\nthree", 0);
}

/* 68 */
static void the_end_of_the_file_binds_to_the_last(void **state)
{
    (void)state;
    update("x\ny\nx\n", "@@\n-x\n+z\n*** End of File\n", "x\ny\nz\n", 0);
    update("x\ny\nx", "@@\n-x\n+z\n*** End of File\n", "x\ny\nz", 0);
    update("x\ny\n", "@@\n-x\n+z\n*** End of File\n", "z\ny\n", 10000);
}

/* 66 */
static void what_cannot_be_placed_is_refused(void **state)
{
    (void)state;
    refuse("a\nb\n", "@@ a\n@@ nowhere\n-b\n+c\n", "Invalid Anchor");
    refuse("a\nb\n", "@@\n-c\n+d\n", "Invalid Context 0");
    refuse("a\nb\n", "@@\n-c\n+d\n*** End of File\n", "Invalid EOF Context");
    refuse("a\nb\n", "@@\n*a\n", "Invalid Line");
    refuse("a\nb\n", "@@\n*** Nonsense\n", "Invalid Line");
    refuse("a\nb\n", "@@\n-a\n+c\n*** End of File\n b\n", "Invalid Line");
    refuse("a\nb\n", "@@\n@@ b\n", "Nothing in this section");
    refuse("a\nb\n", "", "Nothing in this section");
}

static void envelope(const char *text, const char *what)
{
    cay_patch *p = NULL;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_patch_parse(text, &p, &err), CAY_EINVAL);
    assert_null(p);
    if (!strstr(err.msg, what))
        fail_msg("\"%s\" instead of \"%s\"", err.msg, what);
}

static void an_envelope_that_is_wrong_is_told_where(void **state)
{
    (void)state;
    envelope("", "begins with");
    envelope("*** Begin Patch\n*** Delete File: x\n", "ends with");
    envelope("*** Begin Patch\n*** End Patch", "no operation");
    envelope("*** Begin Patch\n*** Frob: x\n*** End Patch", "line 2");
    envelope("*** Begin Patch\n*** Add File: \n+x\n*** End Patch", "no path");
    envelope("*** Begin Patch\n*** Add File: x\n*** End Patch", "no lines that begin with +");
    envelope("*** Begin Patch\n*** Add File: x\n+a\nb\n*** End Patch", "line 4");
    envelope("*** Begin Patch\n*** Delete File: x\n+a\n*** End Patch", "nothing may follow");
    envelope("*** Begin Patch\n*** Update File: x\n*** End Patch", "no change");
    envelope("{\"a\":1}", "none of create_file");
    envelope("[]", "no operation");
    envelope("[1]", "no object");
    envelope("{", "JSON");
    envelope("[{\"type\":\"update_file\",\"path\":\"x\"}]", "no \"diff\"");
    envelope("[{\"type\":\"delete_file\"}]", "no \"path\"");
    envelope("[{\"type\":\"delete_file\",\"path\":\"x\",\"move_to\":1}]", "no text");
}

static void every_form_is_read(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** End Patch\n",
        "\n*** Begin Patch\r\n*** Update File: a\r\n*** Move to: b\r\n@@\r\n-x\r\n+y\r\n*** End "
        "Patch",
        "{\"operations\":[{\"type\":\"update_file\",\"path\":\"a\",\"diff\":\"@@\\n-x\\n+y\\n\","
        "\"move_to\":\"b\"}]}",
        "{\"operation\":{\"type\":\"update_file\",\"path\":\"a\",\"diff\":\"@@\\n-x\\n+y\\n\","
        "\"moveTo\":\"b\"}}",
        "{\"type\":\"update_file\",\"path\":\"a\",\"diff\":\"@@\\n-x\\n+y\\n\",\"moveTo\":\"b\"}",
        "[{\"type\":\"update_file\",\"path\":\"a\",\"diff\":\"@@\\n-x\\n+y\\n\",\"move_to\":\"b\"}"
        "]",
        "{\"patch\":\"*** Begin Patch\\n*** Update File: a\\n*** Move to: b\\n@@\\n-x\\n+y\\n*** "
        "End Patch\"}",
        "{\"command\":[\"apply_patch\",\"*** Begin Patch\\n*** Update File: a\\n*** Move to: "
        "b\\n@@\\n-x\\n+y\\n*** End Patch\"]}",
    };
    for (size_t i = 0; i < CAY_LEN(forms); i++) {
        cay_patch *p = NULL;
        cay_err err = CAY_ERR_INIT;
        if (cay_patch_parse(forms[i], &p, &err) < 0)
            fail_msg("form %zu: %s", i, err.msg);
        assert_int_equal(p->n, 1);
        assert_int_equal(p->ops[0].kind, CAY_PATCH_UPDATE);
        assert_string_equal(p->ops[0].path, "a");
        assert_string_equal(p->ops[0].move_to, "b");
        assert_string_equal(p->ops[0].diff, "@@\n-x\n+y\n");
        cay_patch_free(p);
    }
}

static void paths_stay_in_the_workspace(void **state)
{
    (void)state;
    static const struct {
        const char *path, *want;
    } rows[] = {
        { "a", "/workspace/a" },
        { "./a//b", "/workspace/a/b" },
        { "/workspace/x", "/workspace/x" },
        { "a/../b", "/workspace/b" },
        { "../x", NULL },
        { "/etc/passwd", NULL },
        { "", NULL },
        { ".", NULL },
        { "a/../../workspace2/x", NULL },
        { "/workspacex", NULL },
        { "../workspace/y", "/workspace/y" },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        char buf[256];
        cay_err err = CAY_ERR_INIT;
        int rc = cay_patch_path(rows[i].path, "/workspace", NULL, buf, sizeof buf, &err);
        assert_int_equal(rc, rows[i].want ? 0 : CAY_EINVAL);
        if (rows[i].want)
            assert_string_equal(buf, rows[i].want);
        else
            assert_string_equal(err.reason, "apply_patch_invalid_path");
    }
    char buf[64];
    assert_int_equal(cay_patch_path("x", "/w", "/w/sub", buf, sizeof buf, NULL), 0);
    assert_string_equal(buf, "/w/sub/x");
}

/* A thousand million comparisons are not made. */
static void what_takes_too_long_is_refused(void **state)
{
    (void)state;
    enum { LINES = 100000 };
    CAY_AUTOBUF file = CAY__BUF(1 << 20);
    CAY_AUTOBUF diff = CAY__BUF(1 << 20);
    for (size_t i = 0; i < LINES; i++)
        cay__buf_str(&file, "x\n");
    cay__buf_str(&diff, "@@\n");
    for (size_t i = 0; i < LINES / 2; i++)
        cay__buf_str(&diff, " x\n");
    cay__buf_str(&diff, "-y\n");
    refuse(file.data, diff.data, "too long to find");
    file.len = 0;
    for (size_t i = 0; i < LINES; i++) /* a large file alone is no reason */
        cay__buf_fmt(&file, "%zu\n", i);
    char *out = NULL;
    size_t len;
    assert_int_equal(
        cay_patch_update(file.data, file.len, "@@\n  99998 \n-99999\n+y\n", &out, &len, NULL, NULL),
        0);
    assert_string_equal(out + len - 8, "99998\ny\n");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_finds_its_place_by_context),
        cmocka_unit_test(blanks_are_forgiven_and_line_ends_stay),
        cmocka_unit_test(the_end_of_the_file_binds_to_the_last),
        cmocka_unit_test(what_cannot_be_placed_is_refused),
        cmocka_unit_test(an_envelope_that_is_wrong_is_told_where),
        cmocka_unit_test(every_form_is_read),
        cmocka_unit_test(paths_stay_in_the_workspace),
        cmocka_unit_test(what_takes_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
