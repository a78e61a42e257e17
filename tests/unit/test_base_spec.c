/* SPDX-License-Identifier: Apache-2.0 */
/* Public structs that begin with their size, between callers and libraries of different age. */
#include <base/base.h>
#include <base/call.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

typedef struct older {
    size_t size;
    int a;
} older;

typedef struct current {
    size_t size;
    int a, b;
    const char *c;
} current;

typedef struct newer {
    size_t size;
    int a, b;
    const char *c;
    char d[20];
} newer;

static int take_spec(current *dst, const void *src, cay_err *err)
{
    memset(dst, 0x7f, sizeof *dst);
    return cay__spec_take(dst, sizeof *dst, src, "cay_thing", err);
}

static void a_spec_of_the_same_age_is_copied(void **s)
{
    (void)s;
    current c;
    const current given = { .size = sizeof given, .a = 1, .b = 2, .c = "x" };
    assert_int_equal(take_spec(&c, &given, NULL), 0);
    assert_int_equal(c.size, sizeof c);
    assert_int_equal(c.a, 1);
    assert_int_equal(c.b, 2);
    assert_ptr_equal(c.c, given.c);
}

static void no_spec_is_all_defaults(void **s)
{
    (void)s;
    current c;
    assert_int_equal(take_spec(&c, NULL, NULL), 0);
    assert_memory_equal(&c, (&(current){ .size = sizeof c }), sizeof c);
}

static void fields_that_an_older_caller_does_not_know_are_zero(void **s)
{
    (void)s;
    current c;
    struct {
        older o;
        char after[64];
    } held = { .o = { .size = offsetof(older, a) + sizeof(int), .a = 5 } };
    memset(held.after, 0x55, sizeof held.after);
    assert_int_equal(take_spec(&c, &held.o, NULL), 0);
    assert_int_equal(c.size, sizeof c);
    assert_int_equal(c.a, 5);
    assert_int_equal(c.b, 0);
    assert_null(c.c);
    const size_t only_size = sizeof only_size;
    assert_int_equal(take_spec(&c, &only_size, NULL), 0);
    assert_memory_equal(&c, (&(current){ .size = sizeof c }), sizeof c);
}

static void a_newer_caller_must_leave_unknown_fields_zero(void **s)
{
    (void)s;
    current c;
    cay_err err = CAY_ERR_INIT;
    newer n = { .size = sizeof n, .a = 3 };
    assert_int_equal(take_spec(&c, &n, &err), 0);
    assert_int_equal(c.a, 3);
    assert_int_equal(c.size, sizeof c);
    for (size_t i = 0; i < sizeof n.d; i++) {
        n.d[i] = 1;
        assert_int_equal(take_spec(&c, &n, &err), CAY_ENOTSUP);
        assert_string_equal(err.reason, "spec_newer");
        assert_non_null(strstr(err.msg, "cay_thing"));
        n.d[i] = 0;
    }
}

static void a_size_that_makes_no_sense_is_refused(void **s)
{
    (void)s;
    static const size_t rows[] = { 0, 1, sizeof(size_t) - 1, 65537, SIZE_MAX };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        current c;
        cay_err err = CAY_ERR_INIT;
        const current given = { .size = rows[i], .a = 1 };
        assert_int_equal(take_spec(&c, &given, &err), CAY_EINVAL);
        assert_string_equal(err.reason, "spec_size");
        assert_non_null(strstr(err.msg, "set it to sizeof(cay_thing)"));
        assert_int_equal(c.a, 0); /* nothing of it was taken */
    }
}

static void the_largest_size_is_read_to_its_end(void **s)
{
    (void)s;
    current c;
    size_t size = 65536;
    CAY_AUTOFREE char *given = calloc(1, size); /* the sanitizer sees a byte too many */
    assert_non_null(given);
    memcpy(given, &size, sizeof size);
    assert_int_equal(take_spec(&c, given, NULL), 0);
    given[size - 1] = 1;
    assert_int_equal(take_spec(&c, given, NULL), CAY_ENOTSUP);
}

static void an_answer_fills_as_much_as_the_caller_has(void **s)
{
    (void)s;
    const current answer = { .size = sizeof answer, .a = 1, .b = 2, .c = "x" };
    struct {
        older o;
        char after[64];
    } held = { .o = { .size = offsetof(older, a) + sizeof(int) } };
    memset(held.after, 7, sizeof held.after);
    cay__answer_give(&held.o, &answer, sizeof answer);
    assert_int_equal(held.o.a, 1);
    assert_int_equal(held.o.size, offsetof(older, a) + sizeof(int)); /* the caller's */
    for (size_t i = 0; i < sizeof held.after; i++)
        assert_int_equal(held.after[i], 7);
}

static void an_answer_leaves_fields_of_a_newer_caller_alone(void **s)
{
    (void)s;
    const current answer = { .size = sizeof answer, .a = 1, .b = 2, .c = "x" };
    newer n = { .size = sizeof n, .d = "kept" };
    cay__answer_give(&n, &answer, sizeof answer);
    assert_int_equal(n.size, sizeof n);
    assert_int_equal(n.b, 2);
    assert_string_equal(n.d, "kept");
}

static void an_answer_to_a_size_of_zero_is_whole(void **s)
{
    (void)s;
    const current answer = { .size = 1, .a = 1, .b = 2, .c = "x" };
    current c = { 0 };
    cay__answer_give(&c, &answer, sizeof answer);
    assert_int_equal(c.size, sizeof c);
    assert_int_equal(c.a, 1);
    assert_ptr_equal(c.c, answer.c);
    size_t only_size = sizeof only_size;
    cay__answer_give(&only_size, &answer, sizeof answer);
    assert_int_equal(only_size, sizeof only_size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spec_of_the_same_age_is_copied),
        cmocka_unit_test(no_spec_is_all_defaults),
        cmocka_unit_test(fields_that_an_older_caller_does_not_know_are_zero),
        cmocka_unit_test(a_newer_caller_must_leave_unknown_fields_zero),
        cmocka_unit_test(a_size_that_makes_no_sense_is_refused),
        cmocka_unit_test(the_largest_size_is_read_to_its_end),
        cmocka_unit_test(an_answer_fills_as_much_as_the_caller_has),
        cmocka_unit_test(an_answer_leaves_fields_of_a_newer_caller_alone),
        cmocka_unit_test(an_answer_to_a_size_of_zero_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
