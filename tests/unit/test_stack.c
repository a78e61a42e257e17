/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as text, and what is mounted in a sandbox as the kernel tells it. */
#include <base/base.h>
#include <base/str.h>
#include <fcntl.h>
#include <daemon/keeper/mountinfo.h>
#include <daemon/keeper/stack.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static stack s;
static mountinfo m;

static void a_stack_is_a_name_a_line(void **state)
{
    (void)state;
    assert_true(stack_parse(&s, "host-1\nsabc\n"));
    assert_int_equal(s.n, 2);
    assert_false(s.foreign);
    assert_string_equal(s.name[0], "host-1");
    assert_string_equal(s.name[1], "sabc");
    assert_true(stack_parse(&s, "/\n"));
    assert_true(s.foreign && s.n == 0);
    assert_true(stack_parse(&s, "/\nsabc\n"));
    assert_true(s.foreign && s.n == 1);
}

static void what_is_no_stack_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "",      "\n",  "a",    "a\n\n",  "a\nb",  "../x\n",
                                       "a/b\n", "A\n", "-a\n", "a\n/\n", "a b\n", ".\n" };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        errno = 0;
        assert_false(stack_parse(&s, bad[i]));
        assert_int_equal(errno, EINVAL);
    }
    char many[CAY_STACK_TEXT] = "";
    for (int i = 0; i < CAY_STACK_MAX; i++)
        memcpy(many + 2 * i, "s\n", 3);
    assert_true(stack_parse(&s, many));
    memcpy(many + 2 * CAY_STACK_MAX, "s\n", 3);
    assert_false(stack_parse(&s, many));
    assert_int_equal(errno, E2BIG);
}

static bool mounts(const char *text)
{
    assert_true(cay__str_copy(m.text, sizeof m.text, text));
    return mountinfo_parse(&m);
}

#define ROOT  "50 40 0:60 / / rw,nosuid,nodev - overlay overlay rw,lowerdir+=a\n"
#define PROC  "51 50 0:61 / /proc rw,nosuid - proc proc rw\n"
#define MASK  "52 51 0:62 /null /proc/kcore ro - tmpfs tmpfs rw\n"
#define GRANT "53 50 8:1 /x /a\\040b\\134\\012 ro,nosuid - ext4 /dev/vda rw\n"

static void the_root_and_what_is_below_it(void **state)
{
    (void)state;
    assert_true(mounts(ROOT PROC MASK GRANT));
    assert_int_equal(m.n, 4);
    assert_int_equal(m.root, 0);
    assert_int_equal(m.cover, -1);
    assert_false(m.line[0].ro);
    assert_true(m.line[3].ro);
    assert_string_equal(m.line[3].path, "/a b\\\n");
    assert_int_equal(m.line[2].parent, 51);
}

static void a_second_root_is_told(void **state)
{
    (void)state;
    assert_true(mounts("50 40 0:60 / / ro - overlay overlay rw\n"
                       "60 50 0:70 / / rw - overlay overlay rw\n"
                       "51 60 0:61 / /proc rw - proc proc rw\n"));
    assert_int_equal(m.root, 0);
    assert_int_equal(m.cover, 1);
    assert_true(m.line[m.root].ro);
}

static void what_cannot_be_told_apart_is_refused(void **state)
{
    (void)state;
    assert_false(mounts(ROOT PROC "54 51 0:61 / /proc rw - proc proc rw\n"));
    assert_int_equal(errno, ENOTSUP);
    assert_false(mounts(ROOT "54 99 0:61 / /x rw - proc proc rw\n"));
    static const char *const bad[] = {
        "", PROC, "x\n", "50 40\n", "50 40 0:60 / / rw", "50 40 0:60 / x rw - a b c\n", ROOT "50\n"
    };
    for (size_t i = 0; i < CAY_LEN(bad); i++)
        assert_false(mounts(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_is_a_name_a_line),
        cmocka_unit_test(what_is_no_stack_is_refused),
        cmocka_unit_test(the_root_and_what_is_below_it),
        cmocka_unit_test(a_second_root_is_told),
        cmocka_unit_test(what_cannot_be_told_apart_is_refused),
    };
    return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
