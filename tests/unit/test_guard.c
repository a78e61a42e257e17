/* SPDX-License-Identifier: Apache-2.0 */
/* What is never taken over by the way, and which links leave. */
#include <base/base.h>
#include <base/path.h>
#include <base/guarded.h>
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void what_tools_obey_is_guarded(void **state)
{
    static const char *const yes[] = { ".git",
                                       ".git/config",
                                       ".git/hooks/pre-commit",
                                       ".git/objects/aa",
                                       "sub/.git",
                                       "sub/deep/.git/config",
                                       ".GIT/config",
                                       ".envrc",
                                       "a/.envrc",
                                       ".vscode/tasks.json",
                                       "x/.VsCode/settings.json",
                                       ".bashrc",
                                       ".claude/settings.json",
                                       ".husky/pre-push",
                                       ".mcp.json" };
    static const char *const no[] = {
        "",      "git",          ".github/workflows/x.yml", ".gitignore", "src/git/config", "a.git",
        ".gitx", "x.git/config", ".envrc.example",          "envrc",      "README"
    };
    (void)state;
    for (size_t i = 0; i < CAY_LEN(yes); i++)
        if (!cay__path_guarded(yes[i]))
            fail_msg("%s is not guarded", yes[i]);
    for (size_t i = 0; i < CAY_LEN(no); i++)
        if (cay__path_guarded(no[i]))
            fail_msg("%s is guarded", no[i]);
}

static void links_that_leave_are_known(void **state)
{
    static const struct {
        const char *path, *target;
        bool leaves;
    } cases[] = {
        { "l", "a", false },
        { "l", "./a/../b", true },
        { "l", "..", true },
        { "l", "../x", true },
        { "l", "/etc/passwd", true },
        { "d/l", "../a", false },
        { "d/l", "../../a", true },
        { "d/l", "..", false },
        { "d/e/l", "../../x", false },
        { "d/e/l", "../../../x", true },
        { "l", "a/../../x", true },
        { "d/l", "a/../../x", true },
        { "l", "a//..//../x", true },
        { "l", "", false },
        { "l", "..x", false },
        { "l", "...", false },
        { "l", "a/b/c/../../../../x", true },
        /* a/b/c/up is a link to the top, and its .. is beside the directory. */
        { "a/b/c/up", "../../..", false },
        { "leak", "a/b/c/up/../secret", true },
        { "a/leak", "./b/./..", true },
        { "a/b/l", ".././../x/y", false },
    };
    (void)state;
    for (size_t i = 0; i < CAY_LEN(cases); i++)
        if (cay__link_leaves(cases[i].path, cases[i].target) != cases[i].leaves)
            fail_msg("%s -> %s", cases[i].path, cases[i].target);
}

static void a_path_is_within_whole_names(void **state)
{
    (void)state;
    assert_true(cay__path_within("src/a", "src"));
    assert_true(cay__path_within("src/a", "src/"));
    assert_true(cay__path_within("src", "src"));
    assert_true(cay__path_within("anything", ""));
    assert_true(cay__path_within("anything", "."));
    assert_false(cay__path_within("srcs", "src"));
    assert_false(cay__path_within("src", "src/a"));
}

static void every_guarded_name_holds_at_any_depth_and_in_any_case(void **state)
{
    (void)state;
    for (size_t i = 0; i < CAY_LEN(cay__guarded); i++) {
        const char *name = cay__guarded[i].path;
        char upper[64], path[256];
        size_t n = 0;
        for (; name[n]; n++)
            upper[n] = (char)toupper((unsigned char)name[n]);
        upper[n] = 0;
        static const char *const around[][2] = {
            { "", "" },  { "/", "" },    { "a/b/", "" }, { "a//", "" },
            { "", "/" }, { "", "/x/y" }, { "a/", "/x" },
        };
        for (size_t k = 0; k < CAY_LEN(around); k++) {
            snprintf(path, sizeof path, "%s%s%s", around[k][0], name, around[k][1]);
            if (!cay__path_guarded(path))
                fail_msg("%s is not guarded", path);
            snprintf(path, sizeof path, "%s%s%s", around[k][0], upper, around[k][1]);
            if (!cay__path_guarded(path))
                fail_msg("%s is not guarded", path);
        }
    }
}

static void names_that_only_resemble_guarded_ones_are_free(void **state)
{
    (void)state;
    for (size_t i = 0; i < CAY_LEN(cay__guarded); i++) {
        char path[256];
        if (strchr(cay__guarded[i].path, '/'))
            continue; /* its directory is guarded */
        static const char *const around[][2] = {
            { "", "x" }, { "x", "" }, { "", "~" }, { "a/", ".bak" }, { "", " x/y" }, { "a", "/b" },
        };
        for (size_t k = 0; k < CAY_LEN(around); k++) {
            snprintf(path, sizeof path, "%s%s%s", around[k][0], cay__guarded[i].path, around[k][1]);
            if (cay__path_guarded(path))
                fail_msg("%s is guarded", path);
        }
    }
}

static void slashes_alone_lead_nowhere(void **state)
{
    (void)state;
    assert_false(cay__path_guarded("/"));
    assert_false(cay__path_guarded("///"));
    assert_false(cay__link_leaves("a/b/l", "./././"));
    assert_false(cay__link_leaves("a/l", ".///..//"));
    assert_true(cay__link_leaves("a/l", ".///..//..//"));
    assert_true(cay__path_within("/", "///"));
    assert_true(cay__path_within("src/a", "src///"));
    assert_true(cay__path_within("b/c", "b"));
    assert_false(cay__path_within("c", "b"));
    assert_false(cay__path_within("src", ".git"));
    assert_false(cay__path_within("", "src"));
    assert_false(cay__path_within("./src", "src")); /* texts alone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_tools_obey_is_guarded),
        cmocka_unit_test(links_that_leave_are_known),
        cmocka_unit_test(a_path_is_within_whole_names),
        cmocka_unit_test(every_guarded_name_holds_at_any_depth_and_in_any_case),
        cmocka_unit_test(names_that_only_resemble_guarded_ones_are_free),
        cmocka_unit_test(slashes_alone_lead_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
