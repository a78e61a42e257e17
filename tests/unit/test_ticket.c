/* SPDX-License-Identifier: Apache-2.0 */
/* What opens one socket of the console: once, in time, and to who asked for it. The time is the
 * test's own. */
#include <base/base.h>
#include <server/http/ticket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include <stdio.h>

static cay__tickets *all;
static char ticket[CAY__TICKET_LEN];

static int setup(void **s)
{
    (void)s;
    all = cay__tickets_new();
    cay__ticket_make(all, "k1", 1000, ticket);
    return 0;
}

static int teardown(void **s)
{
    (void)s;
    cay__tickets_free(all);
    return 0;
}

static void opens_once(void **s)
{
    (void)s;
    assert_true(cay__ticket_use(all, ticket, "k1", 1000));
    assert_false(cay__ticket_use(all, ticket, "k1", 1000));
}

static void opens_until_30_s_are_over(void **s)
{
    (void)s;
    char late[CAY__TICKET_LEN];
    cay__ticket_make(all, "k1", 1000, late);
    assert_true(cay__ticket_use(all, ticket, "k1", 30999));
    assert_false(cay__ticket_use(all, late, "k1", 31000));
    assert_false(cay__ticket_use(all, late, "k1",
                                 1001)); /* and it is used up, whatever a clock says later */
}

static void is_its_sessions_own(void **s)
{
    (void)s;
    assert_false(cay__ticket_use(all, ticket, "k2", 1001));
    assert_false(
        cay__ticket_use(all, ticket, "k1", 1001)); /* who tried it with another's has used it up */
}

static void is_nothing_but_itself(void **s)
{
    (void)s;
    char other[CAY__TICKET_LEN + 1];
    memcpy(other, ticket, sizeof ticket);
    other[0] = other[0] == '0' ? '1' : '0';
    assert_false(cay__ticket_use(all, other, "k1", 1001));
    assert_false(cay__ticket_use(all, "", "k1", 1001));
    memset(other, 0, sizeof other);
    assert_false(cay__ticket_use(all, other, "", 0)); /* a slot that nobody has */
    snprintf(other, sizeof other, "%s0", ticket);
    assert_false(cay__ticket_use(all, other, "k1", 1001));
    assert_true(cay__ticket_use(all, ticket, "k1", 1001));
}

static void gives_way_to_newer_ones(void **s)
{
    (void)s;
    char newer[CAY__TICKET_LEN];
    for (int i = 0; i < 256; i++)
        cay__ticket_make(all, "k1", 1001, newer);
    assert_false(cay__ticket_use(all, ticket, "k1", 1002));
    assert_true(cay__ticket_use(all, newer, "k1", 1002));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = { CASE(opens_once), CASE(opens_until_30_s_are_over),
                                        CASE(is_its_sessions_own), CASE(is_nothing_but_itself),
                                        CASE(gives_way_to_newer_ones) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
