/* SPDX-License-Identifier: Apache-2.0 */
/* What changes between the look at a local source and its copy is noticed, and leaves nothing (case
 * 24). */
#include <base/base.h>
#include <base/fd.h>
#include <dirent.h>
#include <fcntl.h>
#include <lib/snapshot/layer.h>
#include <lib/manifest/plan.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <support/support.h>
#include <sys/stat.h>
#include <cmocka.h>

static char *home, dir[300];
static int at = -1;

static void put(const char *path, const char *text)
{
    CAY_AUTOFD fd = openat(at, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && cay__fd_write_all(fd, text, strlen(text)));
}

static int setup(void **state)
{
    (void)state;
    home = support_home();
    snprintf(dir, sizeof dir, "%s-src", home);
    assert_int_equal(mkdir(dir, 0755), 0);
    at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(at, "tree", 0755), 0);
    put("tree/a", "one\n");
    put("tree/b", "two\n");
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = { "tree/a",  "tree/b", "tree", "moved/a",
                                         "moved/b", "moved",  "other" };
    (void)state;
    for (size_t i = 0; i < CAY_LEN(names); i++)
        if (unlinkat(at, names[i], 0) < 0)
            unlinkat(at, names[i], AT_REMOVEDIR);
    cay__close_fd(&at);
    rmdir(dir);
    support_home_remove(home);
    return 0;
}

static size_t layers(void)
{
    char path[300];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/layers", home);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] == 'm' || strstr(e->d_name, "stage-");
    if (d)
        closedir(d);
    return n;
}

/* Plans, lets the change happen, builds. */
static int build(void (*change)(void), cay_err *err)
{
    static const char text[] = "{\"entries\":{\"t\":{\"type\":\"local_dir\",\"src\":\"tree\"}}}";
    cay_manifest *m = NULL;
    cay__plan p;
    CAY_AUTOFD wire = -1;
    char name[CAY_ID_LEN + 1];
    const cay__plan_ask ask = { .base = dir };
    assert_int_equal(cay_manifest_parse(text, strlen(text), 0, &m, err), 0);
    if (cay__plan_make(&p, m, &ask, NULL, err) < 0)
        fail_msg("%s", err->msg);
    assert_int_equal(cay__plan_name(&p, "", name, err), 0);
    assert_int_equal(cay__plan_wire(&p, &wire, err), 0);
    if (change)
        change();
    const char *args[] = { name, "4", "4" };
    const cay__layer_at where = { .home = home, .libexec = support_libexec() };
    const cay__layer_ask run = {
        .verb = "build", .args = args, .nargs = 3, .fds = &wire, .nfds = 1
    };
    cay__layer_conn c;
    cay__rec r;
    int rc = cay__layer_open(&where, NULL, &run, &c, err);
    if (rc == 0) {
        while ((rc = cay__layer_next(&c, NULL, &r, err)) == 0 && r.type != CAY__REC_DONE)
            ;
        cay__layer_close(&c);
    }
    cay__plan_clear(&p);
    cay_manifest_free(m);
    return rc;
}

static void rewrite(void)
{
    put("tree/b", "TWO\n");
}

static void replace(void)
{
    put("other", "two\n");
    assert_int_equal(renameat(at, "other", at, "tree/b"), 0);
}

static void link_instead(void)
{
    assert_int_equal(unlinkat(at, "tree/b", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", at, "tree/b"), 0);
}

static void swap_directory(void)
{
    assert_int_equal(renameat(at, "tree", at, "moved"), 0);
    assert_int_equal(symlinkat("moved", at, "tree"), 0);
}

static void take_away(void)
{
    assert_int_equal(unlinkat(at, "tree/a", 0), 0);
}

static void at_rest_it_is_built(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    if (build(NULL, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(layers(), 1);
    assert_int_equal(build(NULL, &err), 0); /* two at once would meet like this */
    assert_int_equal(layers(), 1);
}

static void noticed(void (*change)(void))
{
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(build(change, &err), CAY_EBUSY);
    assert_string_equal(err.reason, "path_changed_during_copy");
    assert_int_equal(layers(), 0);
}

static void other_bytes_are_noticed(void **s)
{
    (void)s;
    noticed(rewrite);
}

static void another_file_is_noticed(void **s)
{
    (void)s;
    noticed(replace);
}

static void case_24_a_link_instead_of_a_file(void **s)
{
    (void)s;
    noticed(link_instead);
}

static void case_24_a_link_instead_of_the_directory(void **s)
{
    (void)s;
    noticed(swap_directory);
}

static void a_file_that_went_is_noticed(void **s)
{
    (void)s;
    noticed(take_away);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(at_rest_it_is_built),
        TEST(other_bytes_are_noticed),
        TEST(another_file_is_noticed),
        TEST(case_24_a_link_instead_of_a_file),
        TEST(case_24_a_link_instead_of_the_directory),
        TEST(a_file_that_went_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
