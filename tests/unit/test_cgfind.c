/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the groups are, on hosts that were recorded, and what the keeper then makes of a tree of
 * files that looks like one. The kernel's part (a group that takes controllers) is in the system
 * tests.
 */
#include "support/keeper.h"
#include <fcntl.h>
#include <base/cgfind.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

static char text[2][8192];

static cgfind parse(const char *mountinfo, const char *own)
{
    cgfind f;
    memset(&f, 'x', sizeof f);
    assert_true(cay__str_copy(text[0], sizeof text[0], mountinfo));
    assert_true(cay__str_copy(text[1], sizeof text[1], own));
    cgfind_parse(text[0], text[1], &f);
    return f;
}

static void no_v1(const cgfind *f)
{
    for (int i = 0; i < CG_V1_COUNT; i++)
        assert_string_equal(f->v1[i], "");
}

#define ROOT_FS                                                                                    \
    "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n"                  \
    "23 28 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw\n"                \
    "31 22 0:27 / /run/user/1000 rw,nosuid,nodev,relatime shared:245 - tmpfs tmpfs rw,uid=1000\n"

static void pure_v2_in_a_delegated_user_scope(void **s)
{
    (void)s;
    cgfind f = parse(
        ROOT_FS
        "26 23 0:23 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 "
        "rw,nsdelegate,memory_recursiveprot\n",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r2a.scope\n");
    assert_string_equal(
        f.v2,
        "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-r2a.scope");
    assert_string_equal(f.v2_top, "/sys/fs/cgroup");
    assert_false(f.v2_root);
    no_v1(&f); /* memory_recursiveprot is not the controller of v1 */
}

static void v2_without_delegation_names_the_session(void **s)
{
    (void)s;
    cgfind f = parse(ROOT_FS "26 23 0:23 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - "
                             "cgroup2 cgroup rw,nsdelegate\n",
                     "0::/user.slice/user-1001.slice/session-4.scope\n");
    assert_string_equal(f.v2, "/sys/fs/cgroup/user.slice/user-1001.slice/session-4.scope");
}

static void v2_in_a_container_with_its_own_cgroup_namespace(void **s)
{
    (void)s;
    cgfind f = parse("1043 957 0:302 / / rw,relatime - overlay overlay "
                     "rw,lowerdir=/a:/b,upperdir=/c,workdir=/d\n"
                     "1049 1047 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 "
                     "cgroup rw,nsdelegate\n",
                     "0::/\n");
    assert_string_equal(f.v2, "/sys/fs/cgroup");
    assert_string_equal(f.v2_top, "/sys/fs/cgroup");
    assert_true(f.v2_root);
}

static void a_path_out_of_the_namespace_is_never_followed(void **s)
{
    (void)s;
    /* entered with setns(2): our group is beside the namespace's root, and the mount does not show
     * it */
    cgfind f = parse("1049 1047 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw\n",
                     "0::/../other.scope\n");
    assert_string_equal(f.v2, "/sys/fs/cgroup");
    f = parse("1049 1047 0:28 /../.. /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw\n", "0::/\n");
    assert_string_equal(f.v2, "/sys/fs/cgroup");
    assert_false(f.v2_root);
}

static void hybrid_has_both(void **s)
{
    (void)s;
    cgfind f =
        parse(ROOT_FS
              "33 32 0:29 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime shared:10 - "
              "cgroup2 cgroup2 rw\n"
              "34 32 0:30 / /sys/fs/cgroup/systemd rw,relatime shared:11 - cgroup cgroup "
              "rw,xattr,name=systemd\n"
              "38 32 0:34 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:16 - cgroup cgroup "
              "rw,cpu,cpuacct\n"
              "39 32 0:35 / /sys/fs/cgroup/cpuset rw,relatime shared:17 - cgroup cgroup rw,cpuset\n"
              "40 32 0:36 / /sys/fs/cgroup/memory rw,relatime shared:18 - cgroup cgroup rw,memory\n"
              "41 32 0:37 / /sys/fs/cgroup/pids rw,relatime shared:19 - cgroup cgroup rw,pids\n"
              "42 32 0:38 / /sys/fs/cgroup/blkio rw,relatime shared:20 - cgroup cgroup rw,blkio\n",
              "11:memory:/user.slice\n10:pids:/user.slice/user-0.slice\n9:blkio:/\n8:cpu,cpuacct:/"
              "user.slice\n"
              "5:cpuset:/only/the/set\n1:name=systemd:/user.slice/user-0.slice/session-1.scope\n"
              "0::/user.slice/user-0.slice/session-1.scope\n");
    assert_string_equal(f.v2, "/sys/fs/cgroup/unified/user.slice/user-0.slice/session-1.scope");
    assert_string_equal(f.v2_top, "/sys/fs/cgroup/unified");
    assert_string_equal(f.v1[CG_MEMORY], "/sys/fs/cgroup/memory/user.slice");
    assert_string_equal(f.v1[CG_PIDS], "/sys/fs/cgroup/pids/user.slice/user-0.slice");
    assert_string_equal(f.v1[CG_CPU], "/sys/fs/cgroup/cpu,cpuacct/user.slice");
    assert_string_equal(f.v1[CG_IO], "/sys/fs/cgroup/blkio");
}

static void v1_only_with_controllers_missing(void **s)
{
    (void)s;
    /* cgroup_disable=memory; a hierarchy that is only named like a controller; no v2 in the kernel
     */
    cgfind f = parse(
        ROOT_FS
        "38 32 0:34 / /sys/fs/cgroup/cpu rw,relatime shared:16 - cgroup cgroup rw,cpu\n"
        "41 32 0:37 / /sys/fs/cgroup/pids rw,relatime shared:19 - cgroup cgroup rw,pids\n"
        "44 32 0:40 / /sys/fs/cgroup/memory rw,relatime shared:21 - cgroup cgroup rw,name=memory\n",
        "4:name=memory:/x\n3:pids:/\n2:cpu:/a\n");
    assert_string_equal(f.v2, "");
    assert_string_equal(f.v2_top, "");
    assert_string_equal(f.v1[CG_MEMORY], "");
    assert_string_equal(f.v1[CG_IO], "");
    assert_string_equal(f.v1[CG_CPU], "/sys/fs/cgroup/cpu/a");
    assert_string_equal(f.v1[CG_PIDS], "/sys/fs/cgroup/pids");
}

static void a_container_without_a_namespace_sees_a_part(void **s)
{
    (void)s;
    cgfind f = parse("700 699 0:34 /docker/abc /sys/fs/cgroup/memory ro,relatime master:16 - "
                     "cgroup cgroup rw,memory\n"
                     "701 699 0:35 /docker/abc /sys/fs/cgroup/pids ro,relatime master:17 - cgroup "
                     "cgroup rw,pids\n"
                     "702 699 0:36 /docker/abc /sys/fs/cgroup/cpu ro,relatime master:18 - cgroup "
                     "cgroup rw,cpu\n",
                     "3:memory:/docker/abc/inner\n2:pids:/docker/abc\n1:cpu:/docker/abcdef\n");
    assert_string_equal(f.v1[CG_MEMORY], "/sys/fs/cgroup/memory/inner");
    assert_string_equal(f.v1[CG_PIDS], "/sys/fs/cgroup/pids");
    assert_string_equal(f.v1[CG_CPU],
                        "/sys/fs/cgroup/cpu"); /* not …/cpudef: another container's group */
}

static void escapes_are_undone(void **s)
{
    (void)s;
    cgfind f =
        parse("26 23 0:23 /my\\040group /mnt/c\\134d\\040e\\011f rw,relatime - cgroup2 none rw\n",
              "0::/my group/run me.scope\n");
    assert_string_equal(f.v2, "/mnt/c\\d e\tf/run me.scope");
    assert_string_equal(f.v2_top, "/mnt/c\\d e\tf");
    f = parse("26 23 0:23 / /mnt/a\\04 rw,relatime - cgroup2 none rw\n",
              "0::/\n"); /* nothing that the kernel would write */
    assert_string_equal(f.v2, "/mnt/a\\04");
}

static void nonsense_finds_nothing(void **s)
{
    (void)s;
    static const char *const mounts[] = { "",
                                          "\n\n",
                                          " - ",
                                          "a b c d e f",
                                          "a b c d e f - cgroup2",
                                          "26 23 0:23 / /c rw - cgroup2 none",
                                          "26 23 0:23 / - cgroup2 none rw",
                                          "26 23 0:23 / /c rw - tmpfs none rw,memory" };
    static const char *const own[] = { "", ":", "::", "0:", "0::/", "\n0::/\n" };
    for (size_t i = 0; i < CAY_LEN(mounts); i++)
        for (size_t k = 0; k < CAY_LEN(own); k++) {
            cgfind f = parse(mounts[i], own[k]);
            assert_string_equal(f.v2, "");
            no_v1(&f);
        }
    cgfind f = parse("26 23 0:23 / /sys/fs/cgroup rw - cgroup2 none rw\n",
                     "7:memory:/x\n"); /* a kernel that hides it */
    assert_string_equal(f.v2, "");
}

static void what_is_too_long_is_not_there(void **s)
{
    (void)s;
    char mi[1024], own[1024], deep[600];
    memset(deep, 'd', sizeof deep);
    deep[0] = '/';
    deep[sizeof deep - 1] = 0;
    snprintf(mi, sizeof mi, "26 23 0:23 / %s rw - cgroup2 none rw\n", deep);
    cgfind f = parse(mi, "0::/\n");
    assert_string_equal(f.v2, "");
    deep[300] = 0;
    snprintf(mi, sizeof mi, "26 23 0:23 / %s rw - cgroup2 none rw\n", deep);
    snprintf(own, sizeof own, "0::%s\n", deep);
    f = parse(mi, own);
    assert_string_equal(f.v2, "");
}

static char top[64];

static void put(const char *name, const char *value, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", top, name);
    if (value) {
        CAY_AUTOFD fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        assert_true(fd >= 0 && cay__fd_write_all(fd, value, strlen(value)));
    } else {
        assert_int_equal(mkdir(path, mode), 0);
    }
    assert_int_equal(chmod(path, mode), 0);
}

/* The features that an ordinary user gets from the tree at `top`; its own group is `own`. */
static uint32_t discover(const char *own)
{
    char mi[256], cg[128];
    int status;
    snprintf(mi, sizeof mi, "26 23 0:23 / %s rw - cgroup2 none rw,nsdelegate\n", top);
    snprintf(cg, sizeof cg, "0::%s\n", own);
    pid_t pid = fork();
    if (pid == 0) {
        memset(&keeper, 0, sizeof keeper);
        cay__str_copy(keeper.instance, sizeof keeper.instance, "iaaaaaaaaaaaaaaaaaaa");
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(255);
        cgroup_use(mi, cg);
        _exit((int)(keeper.features &
                    (CAY_FEAT_CG2 | CAY_FEAT_MEMORY | CAY_FEAT_PIDS | CAY_FEAT_CPU | CAY_FEAT_IO)));
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
                WEXITSTATUS(status) != 255);
    return (uint32_t)WEXITSTATUS(status);
}

static int set_up(void **s)
{
    (void)s;
    cay__str_copy(top, sizeof top, "/tmp/cay-test-cgfind-XXXXXX");
    if (!mkdtemp(top) || chmod(top, 0755) < 0)
        return -1;
    put("mine", NULL, 0777);
    put("mine/cgroup.controllers", "cpu io memory pids\n", 0444);
    put("mine/cgroup.subtree_control", "memory pids cpu\n", 0444);
    put("mine/cay-keeper", NULL, 0777);
    put("mine/cay-keeper/cgroup.procs", "", 0666);
    put("mine/cay-aaaaaaaa", NULL, 0777);
    put("mine/cay-aaaaaaaa/cgroup.subtree_control", "memory pids\n", 0444);
    put("crowded", NULL, 0777); /* others are in it, and not ours to move */
    put("crowded/cgroup.type", "domain\n", 0444);
    put("crowded/cgroup.procs", "1\n2\n", 0444);
    put("crowded/cgroup.controllers", "cpu io memory pids\n", 0444);
    put("crowded/cgroup.subtree_control", "", 0666);
    put("crowded/cay-keeper", NULL, 0777);
    put("crowded/cay-keeper/cgroup.procs", "", 0666);
    put("threaded", NULL, 0777); /* as an earlier keeper may have left it */
    put("threaded/cay-aaaaaaaa", NULL, 0777);
    put("threaded/cay-aaaaaaaa/cgroup.type", "domain invalid\n", 0444);
    put("foreign", NULL, 0777); /* its owner may divide it, but nobody enters */
    put("foreign/cgroup.controllers", "memory\n", 0444);
    put("foreign/cay-keeper", NULL, 0777);
    put("foreign/cay-keeper/cgroup.procs", "", 0444);
    put("bare", NULL, 0777); /* handed over, but without controllers */
    put("session", NULL, 0555);
    put("session/cgroup.controllers", "cpu io memory pids\n", 0444);
    return 0;
}

static int tear_down(void **s)
{
    (void)s;
    char path[128];
    static const char *const names[] = { "mine/cay-aaaaaaaa/cgroup.subtree_control",
                                         "mine/cay-aaaaaaaa",
                                         "mine/cay-keeper/cgroup.procs",
                                         "mine/cay-keeper",
                                         "mine/cgroup.subtree_control",
                                         "mine/cgroup.controllers",
                                         "mine",
                                         "crowded/cgroup.type",
                                         "crowded/cgroup.procs",
                                         "crowded/cgroup.controllers",
                                         "crowded/cgroup.subtree_control",
                                         "crowded/cay-keeper/cgroup.procs",
                                         "crowded/cay-keeper",
                                         "crowded/cay-aaaaaaaa",
                                         "crowded",
                                         "threaded/cay-aaaaaaaa/cgroup.type",
                                         "threaded/cay-aaaaaaaa",
                                         "threaded",
                                         "foreign/cgroup.controllers",
                                         "foreign/cay-keeper/cgroup.procs",
                                         "foreign/cay-keeper",
                                         "foreign",
                                         "bare/cay-aaaaaaaa",
                                         "bare",
                                         "session/cgroup.controllers",
                                         "session" };
    for (size_t i = 0; i < CAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", top, names[i]);
        remove(path);
    }
    return rmdir(top);
}

static void features_are_what_was_handed_down(void **s)
{
    (void)s;
    assert_int_equal(discover("/mine"), CAY_FEAT_CG2 | CAY_FEAT_MEMORY | CAY_FEAT_PIDS);
    assert_int_equal(discover("/bare"),
                     CAY_FEAT_CG2); /* a freezer is all that a group without controllers gives */
    assert_int_equal(discover("/session"), 0);
    assert_int_equal(discover("/nowhere"), 0);
}

static void a_group_with_processes_hands_nothing_down(void **s)
{
    (void)s;
    char path[128], handed[64];
    assert_int_equal(discover("/crowded"), CAY_FEAT_CG2);
    snprintf(path, sizeof path, "%s/crowded/cgroup.subtree_control", top);
    assert_true(cay__fd_read_file(AT_FDCWD, path, handed, sizeof handed) == 0);
}

static void groups_that_take_no_process_are_not_used(void **s)
{
    (void)s;
    assert_int_equal(discover("/threaded"), 0);
    assert_int_equal(discover("/foreign"), 0);
}

static void an_init_that_outlived_its_keeper_tells_where_its_groups_are(void **s)
{
    (void)s;
    char out[256];
    char v2[] = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/cay-1.scope/"
                "cay-aaaaaaaa/baaaaaaaaaaaaaaaaaaa/init\n";
    char v1[] = "4:memory:/user.slice/cay-aaaaaaaa/baaaaaaaaaaaaaaaaaaa\n"
                "3:name=systemd:/user.slice/session-1.scope\n"
                "0::/cay-aaaaaaaa/baaaaaaaaaaaaaaaaaaa\n";
    char other[] = "0::/user.slice/session-1.scope/cay-aaaaaaab/baaaaaaaaaaaaaaaaaaa\n";
    cay__str_copy(keeper.instance, sizeof keeper.instance, "iaaaaaaaaaaaaaaaaaaa");
    assert_true(cgroup_places(v2, out, sizeof out) > 0);
    assert_string_equal(out,
                        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/cay-1.scope\n");
    assert_int_equal(cgroup_places(v1, out, sizeof out), strlen("4:memory:/user.slice\n0::\n"));
    assert_string_equal(out, "4:memory:/user.slice\n0::\n");
    assert_int_equal(cgroup_places(other, out, sizeof out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pure_v2_in_a_delegated_user_scope),
        cmocka_unit_test(v2_without_delegation_names_the_session),
        cmocka_unit_test(v2_in_a_container_with_its_own_cgroup_namespace),
        cmocka_unit_test(a_path_out_of_the_namespace_is_never_followed),
        cmocka_unit_test(hybrid_has_both),
        cmocka_unit_test(v1_only_with_controllers_missing),
        cmocka_unit_test(a_container_without_a_namespace_sees_a_part),
        cmocka_unit_test(escapes_are_undone),
        cmocka_unit_test(nonsense_finds_nothing),
        cmocka_unit_test(what_is_too_long_is_not_there),
        cmocka_unit_test_setup_teardown(features_are_what_was_handed_down, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_group_with_processes_hands_nothing_down, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(groups_that_take_no_process_are_not_used, set_up,
                                        tear_down),
        cmocka_unit_test(an_init_that_outlived_its_keeper_tells_where_its_groups_are),
    };
    return cmocka_run_group_tests_name("cgfind", tests, NULL, NULL);
}
