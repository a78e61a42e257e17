/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: codes and their names, messages of one line that fit, and context in front of them. */
#include <base/base.h>
#include <base/buf.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void every_code_has_its_own_name(void **s)
{
    (void)s;
    for (int a = CAY_ESYS; a <= CAY_OK; a++) {
        assert_string_not_equal(cay_code_name(a), "EUNKNOWN");
        for (int b = CAY_ESYS; b < a; b++)
            assert_string_not_equal(cay_code_name(a), cay_code_name(b));
    }
    assert_string_equal(cay_code_name(CAY_OK), "OK");
    assert_string_equal(cay_code_name(CAY_EINVAL), "EINVAL");
    assert_string_equal(cay_code_name(CAY_ETOOBIG), "ETOOBIG");
    assert_string_equal(cay_code_name(CAY_ECANCELED), "ECANCELED");
    assert_string_equal(cay_code_name(CAY_ESYS), "ESYS");
}

static void a_number_that_is_no_code_is_unknown(void **s)
{
    (void)s;
    static const int rows[] = { 1, 18, 19, INT_MAX, INT_MIN, INT_MIN + 1, CAY_ESYS - 1, -1000 };
    for (size_t i = 0; i < CAY_LEN(rows); i++)
        assert_string_equal(cay_code_name(rows[i]), "EUNKNOWN");
}

static void a_failure_fills_everything(void **s)
{
    (void)s;
    cay_err err;
    memset(&err, 0x7f, sizeof err);
    assert_int_equal(cay_fail(&err, CAY_EINVAL, "%s has %d", "it", 3), CAY_EINVAL);
    assert_int_equal(err.size, sizeof err);
    assert_int_equal(err.code, CAY_EINVAL);
    assert_int_equal(err.sys, 0);
    assert_int_equal(err.retry, CAY_RETRY_UNKNOWN);
    assert_int_equal(err.retry_after_ms, 0);
    assert_string_equal(err.reason, "");
    assert_string_equal(err.msg, "it has 3");
    assert_string_equal(err.detail, "");
}

static void a_failure_replaces_the_one_before(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay_fail_why(&err, CAY_EBUSY, "busy", "a long message that must not shine through");
    snprintf(err.detail, sizeof err.detail, "%s", "{\"queue\":3}");
    err.retry_after_ms = 100;
    assert_int_equal(cay_fail(&err, CAY_ENOENT, "x"), CAY_ENOENT);
    assert_string_equal(err.msg, "x");
    assert_string_equal(err.reason, "");
    assert_string_equal(err.detail, "");
    assert_int_equal(err.retry_after_ms, 0);
    assert_int_equal(err.retry, CAY_RETRY_UNKNOWN);
}

static void nobody_has_to_listen(void **s)
{
    (void)s;
    errno = ENOSPC;
    assert_int_equal(cay_fail(NULL, CAY_EGONE, "x"), CAY_EGONE);
    assert_int_equal(cay_fail_why(NULL, CAY_EGONE, "r", "x"), CAY_EGONE);
    assert_int_equal(cay_wrap(NULL, CAY_EGONE, "x"), CAY_EGONE);
    assert_int_equal(cay_fail_sys(NULL, "x"), CAY_ENOSPACE);
    assert_int_equal(errno, ENOSPC);
}

static void only_codes_that_pass_invite_a_retry(void **s)
{
    (void)s;
    for (int code = CAY_ESYS; code < CAY_OK; code++) {
        cay_err err = CAY_ERR_INIT;
        bool passes = code == CAY_EBUSY || code == CAY_ETIMEOUT || code == CAY_ERATE;
        cay_fail(&err, code, "x");
        assert_int_equal(err.retry, passes ? CAY_RETRY_YES : CAY_RETRY_UNKNOWN);
    }
}

static void a_system_error_names_its_errno(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    errno = EACCES;
    assert_int_equal(cay_fail_sys(&err, "open %s", "/x"), CAY_EPERM);
    assert_int_equal(err.code, CAY_EPERM);
    assert_int_equal(err.sys, EACCES);
    assert_int_equal(errno, EACCES);
    assert_string_equal(err.msg, "open /x: Permission denied");
    errno = ENOENT; /* a code that the caller chose is kept */
    assert_int_equal(cay_fail_sys_as(&err, CAY_ESTATE, "open"), CAY_ESTATE);
    assert_int_equal(err.sys, ENOENT);
    assert_string_equal(err.msg, "open: No such file or directory");
    errno = EBUSY;
    cay_fail_sys(&err, "umount");
    assert_int_equal(err.retry, CAY_RETRY_YES);
    errno = EXDEV; /* no code of ours */
    assert_int_equal(cay_fail_sys(&err, "link"), CAY_ESYS);
}

static void errnos_stand_for_codes(void **s)
{
    (void)s;
    static const struct {
        int e, code;
    } rows[] = {
        { 0, CAY_OK },
        { EINVAL, CAY_EINVAL },
        { ENAMETOOLONG, CAY_EINVAL },
        { ELOOP, CAY_EINVAL },
        { EPERM, CAY_EPERM },
        { EACCES, CAY_EPERM },
        { EROFS, CAY_EPERM },
        { ENOENT, CAY_ENOENT },
        { ESRCH, CAY_ENOENT },
        { EEXIST, CAY_EEXIST },
        { ENOTEMPTY, CAY_EEXIST },
        { EISDIR, CAY_ETYPE },
        { ENOTDIR, CAY_ETYPE },
        { ENXIO, CAY_ETYPE },
        { EBUSY, CAY_EBUSY },
        { EAGAIN, CAY_EBUSY },
        { EWOULDBLOCK, CAY_EBUSY },
        { ETXTBSY, CAY_EBUSY },
        { EFBIG, CAY_ETOOBIG },
        { E2BIG, CAY_ETOOBIG },
        { EMSGSIZE, CAY_ETOOBIG },
        { ENOSPC, CAY_ENOSPACE },
        { EDQUOT, CAY_ENOSPACE },
        { ENOMEM, CAY_ENOSPACE },
        { EMFILE, CAY_ENOSPACE },
        { ENFILE, CAY_ENOSPACE },
        { ETIMEDOUT, CAY_ETIMEOUT },
        { ECANCELED, CAY_ECANCELED },
        { ENOSYS, CAY_ENOTSUP },
        { EOPNOTSUPP, CAY_ENOTSUP },
        { EPIPE, CAY_EGONE },
        { ECONNRESET, CAY_EGONE },
        { EIO, CAY_ESYS },
        { EXDEV, CAY_ESYS },
        { -1, CAY_ESYS },
        { INT_MAX, CAY_ESYS },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++)
        if (cay_code_of_errno(rows[i].e) != rows[i].code)
            fail_msg("errno %d: %s", rows[i].e, cay_code_name(cay_code_of_errno(rows[i].e)));
}

static void a_reason_is_cut_at_its_end(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay_fail_why(&err, CAY_EINVAL, "spec_size", "x");
    assert_string_equal(err.reason, "spec_size");
    cay_fail_why(&err, CAY_EINVAL, NULL, "x");
    assert_string_equal(err.reason, "");
    cay_fail_why(&err, CAY_EINVAL, "0123456789012345678901234567890123456789_and_more", "x");
    assert_int_equal(strlen(err.reason), sizeof err.reason - 1);
    assert_string_equal(err.msg, "x"); /* what follows is untouched */
}

static void a_message_stays_on_one_line(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay_fail(&err, CAY_EINVAL, "%s", "a\nb\tc\r\x1b[31m\x7f\x01 \xc3\xa4");
    assert_string_equal(err.msg, "a?b?c??[31m?? \xc3\xa4");
    cay_wrap(&err, CAY_EINVAL, "%s", "read x\ny");
    assert_string_equal(err.msg, "read x?y: a?b?c??[31m?? \xc3\xa4");
}

/* Lengths around the end of msg, alone, with an errno and with context. */
static void a_message_is_cut_at_its_end(void **s)
{
    (void)s;
    char longer[400];
    memset(longer, 'x', sizeof longer);
    for (int n = 240; n < 300; n++) {
        cay_err err = CAY_ERR_INIT;
        size_t fits = CAY_MIN((size_t)n, sizeof err.msg - 1);
        cay_fail(&err, CAY_EINVAL, "%.*s", n, longer);
        assert_int_equal(strlen(err.msg), fits);
        assert_string_equal(err.detail, "");
        errno = ENOENT;
        cay_fail_sys_as(&err, CAY_EINVAL, "%.*s", n, longer);
        assert_true(strlen(err.msg) < sizeof err.msg);
        assert_memory_equal(err.msg, longer, fits);
        assert_string_equal(err.detail, "");
        cay_fail(&err, CAY_EINVAL, "%.*s", n, longer);
        cay_wrap(&err, CAY_EINVAL, "read");
        assert_int_equal(strlen(err.msg), CAY_MIN((size_t)n + 6, sizeof err.msg - 1));
        assert_memory_equal(err.msg, "read: xxx", 9);
        assert_string_equal(err.detail, "");
        cay_fail(&err, CAY_EINVAL, "why");
        cay_wrap(&err, CAY_EINVAL, "%.*s", n, longer); /* the context alone fills it */
        assert_memory_equal(err.msg, longer, fits);
        assert_true(strlen(err.msg) < sizeof err.msg);
        assert_string_equal(err.detail, "");
    }
}

/* msg may end within a character; what prints it must cope, and does. */
static void a_message_cut_within_a_character_prints_as_sound_text(void **s)
{
    (void)s;
    char longer[300];
    for (size_t shift = 0; shift < 3; shift++) {
        cay_err err = CAY_ERR_INIT;
        memset(longer, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof longer; i += 3)
            memcpy(longer + i, "\xe2\x82\xac", 4);
        cay_fail(&err, CAY_EINVAL, "%s", longer);
        assert_true(strlen(err.msg) < sizeof err.msg);
        CAY_AUTOBUF json = CAY__BUF(2000);
        CAY_AUTOBUF safe = CAY__BUF(2000);
        cay__buf_json(&json, err.msg, strlen(err.msg));
        cay__buf_safe(&safe, err.msg, strlen(err.msg), false);
        for (size_t i = 0, k; i < json.len; i += k) {
            k = cay__utf8_len(json.data + i, json.len - i);
            assert_true(k > 0);
        }
        for (size_t i = 0, k; i < safe.len; i += k) {
            k = cay__utf8_len(safe.data + i, safe.len - i);
            assert_true(k > 0);
        }
    }
}

static void context_goes_in_front_and_keeps_the_rest(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    errno = ENOENT;
    cay_fail_sys(&err, "open");
    snprintf(err.reason, sizeof err.reason, "%s", "gone");
    snprintf(err.detail, sizeof err.detail, "%s", "{\"a\":1}");
    assert_int_equal(cay_wrap(&err, CAY_ENOENT, "create %s", "c7"), CAY_ENOENT);
    assert_string_equal(err.msg, "create c7: open: No such file or directory");
    assert_int_equal(err.code, CAY_ENOENT);
    assert_int_equal(err.sys, ENOENT);
    assert_string_equal(err.reason, "gone");
    assert_string_equal(err.detail, "{\"a\":1}");
}

static void every_reason_has_its_own_word(void **s)
{
    (void)s;
#define ROW(NAME, word)                                                                            \
    cay_fail_why(&err, CAY_EUPSTREAM, word, "x");                                                  \
    assert_int_equal(cay_err_reason(&err), CAY_REASON_##NAME);                                     \
    assert_true(cay_err_is(&err, CAY_REASON_##NAME));                                              \
    assert_string_equal(cay_reason_word(CAY_REASON_##NAME), word);
    cay_err err = CAY_ERR_INIT;
    CAY_REASONS(ROW)
#undef ROW
    assert_string_equal(cay_reason_word(CAY_REASON_OTHER), "");
    assert_string_equal(cay_reason_word((cay_reason)-1), "");
}

static void a_word_without_a_row_is_another_reason(void **s)
{
    (void)s;
    static const char *const rows[] = { "", "net", "net_cuts", "NET_CUT", "nothing" };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        cay_fail_why(&err, CAY_EUPSTREAM, rows[i], "x");
        assert_int_equal(cay_err_reason(&err), CAY_REASON_OTHER);
        assert_false(cay_err_is(&err, CAY_REASON_NET_CUT));
        assert_false(cay_err_is(&err, CAY_REASON_OTHER));
        assert_false(cay__err_of_user(&err));
    }
    assert_int_equal(cay_err_reason(NULL), CAY_REASON_OTHER);
    assert_false(cay_err_is(NULL, CAY_REASON_NET_CUT));
}

static void reasons_of_users_are_a_family(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay_fail_why(&err, CAY_ENOENT, "user_unknown", "x");
    assert_true(cay__err_of_user(&err));
    cay_fail_why(&err, CAY_ENOENT, "cwd_failed", "x");
    assert_false(cay__err_of_user(&err));
    assert_false(cay__err_of_user(NULL));
}

static void an_error_is_passed_up_only_when_there_is_one(void **s)
{
    (void)s;
    cay_err why = CAY_ERR_INIT, err = CAY_ERR_INIT;
    cay_fail_why(&why, CAY_ENOENT, "user_unknown", "x");
    assert_int_equal(cay__err_pass(0, &why, &err), 0);
    assert_string_equal(err.reason, "");
    assert_int_equal(cay__err_pass(CAY_ENOENT, &why, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "user_unknown");
    assert_int_equal(cay__err_pass(CAY_EBUSY, &why, NULL), CAY_EBUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_own_name),
        cmocka_unit_test(a_number_that_is_no_code_is_unknown),
        cmocka_unit_test(a_failure_fills_everything),
        cmocka_unit_test(a_failure_replaces_the_one_before),
        cmocka_unit_test(nobody_has_to_listen),
        cmocka_unit_test(only_codes_that_pass_invite_a_retry),
        cmocka_unit_test(a_system_error_names_its_errno),
        cmocka_unit_test(errnos_stand_for_codes),
        cmocka_unit_test(a_reason_is_cut_at_its_end),
        cmocka_unit_test(a_message_stays_on_one_line),
        cmocka_unit_test(a_message_is_cut_at_its_end),
        cmocka_unit_test(a_message_cut_within_a_character_prints_as_sound_text),
        cmocka_unit_test(context_goes_in_front_and_keeps_the_rest),
        cmocka_unit_test(every_reason_has_its_own_word),
        cmocka_unit_test(a_word_without_a_row_is_another_reason),
        cmocka_unit_test(reasons_of_users_are_a_family),
        cmocka_unit_test(an_error_is_passed_up_only_when_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
