/* SPDX-License-Identifier: Apache-2.0 */
#include <helper/layer/pathmap.h>
#include <base/base.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void paths_are_found_by_their_whole_name(void **state)
{
    static char names[5000][24];
    pathmap m = { 0 };
    (void)state;
    assert_int_equal(pathmap_get(&m, "a", 1), PATHMAP_NONE);
    assert_int_equal(pathmap_above(&m, "a/b"), PATHMAP_NONE);
    for (size_t i = 0; i < CAY_LEN(names); i++) {
        snprintf(names[i], sizeof names[i], "d%zu/e", i);
        pathmap_put(&m, names[i], i);
    }
    pathmap_put(&m, "d7/e", 4711); /* the first stays */
    for (size_t i = 0; i < CAY_LEN(names); i++)
        assert_int_equal(pathmap_get(&m, names[i], strlen(names[i])), i);
    assert_int_equal(m.n, CAY_LEN(names));
    assert_int_equal(pathmap_get(&m, "d7/ee", 5), PATHMAP_NONE);
    assert_int_equal(pathmap_get(&m, "d7/ee", 4), 7);
    assert_int_equal(pathmap_get(&m, "d7", 2), PATHMAP_NONE);
    pathmap_clear(&m);
    assert_int_equal(pathmap_get(&m, "d7/e", 4), PATHMAP_NONE);
}

static void the_nearest_above_counts(void **state)
{
    pathmap m = { 0 };
    (void)state;
    pathmap_put(&m, "a", 1);
    pathmap_put(&m, "a/b/c", 2);
    assert_int_equal(pathmap_above(&m, "a"), PATHMAP_NONE); /* not itself */
    assert_int_equal(pathmap_above(&m, "ab/c"), PATHMAP_NONE);
    assert_int_equal(pathmap_above(&m, "a/b"), 1);
    assert_int_equal(pathmap_above(&m, "a/b/c"), 1);
    assert_int_equal(pathmap_above(&m, "a/b/c/d/e"), 2);
    assert_int_equal(pathmap_above(&m, "a/b/cc/d"), 1);
    pathmap_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(paths_are_found_by_their_whole_name),
                                        cmocka_unit_test(the_nearest_above_counts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
