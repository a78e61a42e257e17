/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /etc/passwd as a sandbox may have written them. */
#include <base/base.h>
#include <helper/layer/account.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void a_name_is_a_whole_one(void **state)
{
    const char *text = "rooted:x:1:1\nroot:x:0:0:root:/root:/bin/sh\n";
    (void)state;
    assert_ptr_equal(account_find(text, "root"), text + 13);
    assert_null(account_find(text, "roo"));
    assert_null(account_find("", "root"));
    assert_null(account_find("root", "root"));
}

static void ids_are_of_their_own_line(void **state)
{
    static const struct {
        const char *line;
        unsigned field;
        long id; /* -1: refused */
    } cases[] = {
        { "u:x:5:6::/:", 2, 5 },
        { "u:x:5:6::/:", 3, 6 },
        { "u:x:5", 2, 5 },
        { "u:x:65535:0", 2, 65535 },
        { "u:x:65536:0", 2, -1 },
        { "u:x:4294967296:0", 2, -1 },
        { "u:x:18446744073709551616:0", 2, -1 },
        { "u:x:-1:0", 2, -1 },
        { "u:x: 7:0", 2, -1 },
        { "u:x:7z:0", 2, -1 },
        { "u:x::0", 2, -1 },
        { "u:", 2, -1 },
        { "u:", 3, -1 },
        { "u:\nv:x:5:6\n", 2, -1 },
        { "u:x\nv:x:5:6\n", 2, -1 },
        { "u:x:5\nv:x:7:6\n", 3, -1 },
        { "u:x:5:\n6", 3, -1 },
        { "", 2, -1 },
    };
    (void)state;
    for (size_t i = 0; i < CAY_LEN(cases); i++) {
        uint32_t id = 99;
        bool good = account_id(cases[i].line, cases[i].field, &id);
        if (good != (cases[i].id >= 0) || (good && id != (uint32_t)cases[i].id))
            fail_msg("%s, field %u", cases[i].line, cases[i].field);
    }
}

static void used_ids_are_found(void **state)
{
    const char *text = "broken\nalso:\na:x:1001:1\n:::\nb:x:1003";
    (void)state;
    assert_true(account_used(text, 1001));
    assert_false(account_used(text, 1002));
    assert_true(account_used(text, 1003));
    assert_false(account_used("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_a_whole_one),
        cmocka_unit_test(ids_are_of_their_own_line),
        cmocka_unit_test(used_ids_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
