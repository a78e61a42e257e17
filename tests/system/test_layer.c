/* SPDX-License-Identifier: Apache-2.0 */
/* cay-layer through the library: namespaces, records, digests, removal. */
#include <base/base.h>
#include <base/fd.h>
#include <errno.h>
#include <fcntl.h>
#include <lib/snapshot/layer.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <support/support.h>

#define FAR                                                                                        \
    "a-hundred-bytes-of-a-name-that-nobody-would-choose-but-who-wants-to-fill-memory-with-paths-"  \
    "of-his-own-"

static char *home;
static int layers;

static cay__layer_at at(void)
{
    return (cay__layer_at){ .home = home, .libexec = support_libexec() };
}

static int setup(void **state)
{
    char path[256];
    (void)state;
    home = support_home();
    snprintf(path, sizeof path, "%s/layers", home);
    assert_int_equal(mkdir(path, 0711), 0);
    layers = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return layers < 0;
}

static int teardown(void **state)
{
    (void)state;
    close(layers);
    support_home_remove(home);
    return 0;
}

static void put(const char *path, const char *text)
{
    CAY_AUTOFD fd = openat(layers, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && cay__fd_write_all(fd, text, strlen(text)));
}

static void digest(const char *layer, char hex[65])
{
    cay__layer_at a = at();
    cay_err err = CAY_ERR_INIT;
    if (cay__layer_digest(&a, NULL, layer, hex, NULL, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(strlen(hex), 64);
}

static void make(const char *name)
{
    char path[64];
    assert_int_equal(mkdirat(layers, name, 0755), 0);
    snprintf(path, sizeof path, "%s/a", name);
    assert_int_equal(mkdirat(layers, path, 0755), 0);
    snprintf(path, sizeof path, "%s/a/file", name);
    put(path, "hello\n");
}

static void same_content_has_the_same_digest(void **state)
{
    char one[65], two[65];
    (void)state;
    make("one");
    make("two");
    digest("one", one);
    digest("two", two);
    assert_string_equal(one, two);
    put("two/a/file", "hellO\n");
    digest("two", two);
    assert_string_not_equal(one, two);
}

static void modes_links_and_names_count(void **state)
{
    char one[65], two[65];
    (void)state;
    digest("one", one);
    assert_int_equal(fchmodat(layers, "one/a/file", 0755, 0), 0);
    digest("one", two);
    assert_string_not_equal(one, two);
    assert_int_equal(linkat(layers, "one/a/file", layers, "one/a/other", 0), 0);
    digest("one", one);
    assert_string_not_equal(one, two);
    /* The same bytes twice are not one file with two names. */
    assert_int_equal(unlinkat(layers, "one/a/other", 0), 0);
    put("one/a/other", "hello\n");
    assert_int_equal(fchmodat(layers, "one/a/other", 0755, 0), 0);
    digest("one", two);
    assert_string_not_equal(one, two);
    assert_int_equal(symlinkat("/etc/passwd", layers, "one/link"), 0);
    digest("one", one);
    assert_string_not_equal(one, two);
}

/* What other layers share with this one is not part of it, and which two names are one file is. */
static void names_of_one_file_are_told_apart(void **state)
{
    static const char *const names[] = { "l/a", "l/b", "l/c", "l/d" };
    char one[65], two[65];
    (void)state;
    assert_int_equal(mkdirat(layers, "l", 0755), 0);
    put("l/a", "x");
    put("l/b", "x");
    assert_int_equal(
        linkat(layers, "l/a", layers, "l/c", 0) | linkat(layers, "l/b", layers, "l/d", 0), 0);
    digest("l", one);
    assert_int_equal(linkat(layers, "l/b", layers, "elsewhere", 0), 0);
    digest("l", two);
    assert_string_equal(one, two);
    assert_int_equal(renameat2(layers, "l/c", layers, "l/d", RENAME_EXCHANGE), 0);
    digest("l", two);
    assert_string_not_equal(one, two);
    for (size_t i = 0; i < CAY_LEN(names); i++)
        assert_int_equal(unlinkat(layers, names[i], 0), 0);
    put("l/one", "x");
    digest("l", one);
    assert_int_equal(linkat(layers, "l/one", layers, "elsewhere-too", 0), 0);
    digest("l", two);
    assert_string_equal(one, two);
    assert_int_equal(unlinkat(layers, "elsewhere", 0) | unlinkat(layers, "elsewhere-too", 0), 0);
}

#ifndef __SANITIZE_ADDRESS__
/* A thousand names deep down are as cheap as any: 100 MB of paths do not fit into what the tool may
 * have. */
static void links_deep_down_cost_no_memory(void **state)
{
    char name[16], other[16], hex[65];
    struct rlimit was, small;
    cay__layer_at a = at();
    (void)state;
    assert_int_equal(mkdirat(layers, "far", 0755), 0);
    int fd = openat(layers, "far", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(mkdirat(fd, FAR, 0755), 0);
        int next = openat(fd, FAR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        assert_true((fd = next) >= 0);
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "%d", i);
        snprintf(other, sizeof other, "%d-too", i);
        close(openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        assert_int_equal(linkat(fd, name, fd, other, 0), 0);
    }
    close(fd);
    assert_int_equal(getrlimit(RLIMIT_DATA, &was), 0);
    small = was;
    small.rlim_cur = 64u << 20;
    assert_int_equal(setrlimit(RLIMIT_DATA, &small), 0);
    digest("far", hex);
    assert_int_equal(setrlimit(RLIMIT_DATA, &was), 0);
    assert_int_equal(cay__layer_remove(&a, NULL, "far", NULL), 0);
}
#endif

static void a_hole_costs_nothing_and_is_zeros(void **state)
{
    char one[65], two[65];
    (void)state;
    assert_int_equal(mkdirat(layers, "holes", 0755), 0);
    put("holes/big", "x");
    CAY_AUTOFD fd = openat(layers, "holes/big", O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    digest("holes", one);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    digest("holes", one);
    char zeros[4096] = { 0 };
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, 65536), (ssize_t)sizeof zeros);
    digest("holes", two);
    assert_string_equal(one, two);
}

static void a_thousand_levels_are_walked_and_removed(void **state)
{
    char hex[65];
    cay__layer_at a = at();
    cay_err err = CAY_ERR_INIT;
    (void)state;
    assert_int_equal(mkdirat(layers, "deep", 0755), 0);
    int fd = openat(layers, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(mkdirat(fd, "a-directory-with-a-long-name", 0755), 0);
        int next = openat(fd, "a-directory-with-a-long-name", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        assert_true((fd = next) >= 0);
    }
    close(fd);
    digest("deep", hex);
    assert_int_equal(cay__layer_remove(&a, NULL, "deep", &err), 0);
    assert_int_equal(faccessat(layers, "deep", F_OK, 0), -1);
}

static void removal_is_whole_and_may_be_repeated(void **state)
{
    cay__layer_at a = at();
    cay_err err = CAY_ERR_INIT;
    (void)state;
    make("gone");
    assert_int_equal(mkdirat(layers, ".gone-left-by-a-crash", 0755), 0);
    assert_int_equal(cay__layer_remove(&a, NULL, "gone", &err), 0);
    assert_int_equal(cay__layer_remove(&a, NULL, "gone", &err), 0);
    assert_int_equal(faccessat(layers, "gone", F_OK, 0), -1);
    assert_int_equal(faccessat(layers, ".gone-left-by-a-crash", F_OK, 0), -1);
    assert_int_equal(faccessat(layers, "one", F_OK, 0), 0);
}

static bool there(const char *path)
{
    return faccessat(layers, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void whiteout(const char *path)
{
    assert_int_equal(mknodat(layers, path, S_IFCHR, makedev(0, 0)), 0);
}

static void a_merged_stack_hides_what_its_layers_hid(void **state)
{
    static const char *const dirs[] = { "base", "base/d",  "base/full", "s1",
                                        "s1/d", "s1/full", "s2",        "s2/d" };
    cay__layer_at a = at();
    cay_err err = CAY_ERR_INIT;
    (void)state;
    for (size_t i = 0; i < CAY_LEN(dirs); i++)
        assert_int_equal(mkdirat(layers, dirs[i], 0755), 0);
    put("base/d/low", "low");
    put("base/full/low", "low");
    put("s1/d/new", "new");
    put("s1/d/kept", "kept");
    put("s1/full/only", "only");
    whiteout("s2/d/low");
    whiteout("s2/d/new");
    whiteout("s2/full");
    const char *below[] = { "base" }, *stack[] = { "s1", "s2" };
    if (cay__layer_merge(&a, NULL, below, 1, stack, 2, "merged", &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(there("merged/d/kept") && there("merged/d/low") && there("merged/full"));
    assert_false(there("merged/d/new")); /* a whiteout of what nobody has */
    assert_false(there("merged/full/only"));
    assert_int_equal(cay__layer_merge(&a, NULL, below, 1, stack, 2, "merged", &err), CAY_EEXIST);
    const char *missing[] = { "s1", "nosuch" };
    assert_int_equal(cay__layer_merge(&a, NULL, below, 1, missing, 2, "other", &err), CAY_ENOENT);
    assert_false(there("other"));
}

static void wrong_requests_are_refused(void **state)
{
    static const char *const bad[] = { "", "../escape", ".hidden", "a/b", "colon:ed" };
    cay__layer_at a = at();
    char hex[65];
    (void)state;
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        cay_err err = CAY_ERR_INIT;
        assert_int_equal(cay__layer_digest(&a, NULL, bad[i], hex, NULL, NULL, &err), CAY_EINVAL);
        assert_string_equal(err.reason, "layer_invalid");
        assert_int_equal(cay__layer_remove(&a, NULL, bad[i], &err), CAY_EINVAL);
    }
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay__layer_digest(&a, NULL, "missing", hex, NULL, NULL, &err), CAY_ENOENT);
    assert_string_equal(err.reason, "layer_missing");
    cay__layer_ask ask = { .verb = "nosuch" };
    assert_int_equal(cay__layer_run(&a, NULL, &ask, NULL, &err), CAY_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_content_has_the_same_digest),
        cmocka_unit_test(names_of_one_file_are_told_apart),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(links_deep_down_cost_no_memory),
#endif
        cmocka_unit_test(modes_links_and_names_count),
        cmocka_unit_test(a_hole_costs_nothing_and_is_zeros),
        cmocka_unit_test(a_thousand_levels_are_walked_and_removed),
        cmocka_unit_test(removal_is_whole_and_may_be_repeated),
        cmocka_unit_test(a_merged_stack_hides_what_its_layers_hid),
        cmocka_unit_test(wrong_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
