/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/path.h>
#include <base/str.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

static char tmp[64];

static int set_up(void **s)
{
    (void)s;
    cay__str_copy(tmp, sizeof tmp, "/tmp/cay-test-path-XXXXXX");
    return mkdtemp(tmp) && chmod(tmp, 0755) == 0 ? 0 : -1;
}

static int tear_down(void **s)
{
    (void)s;
    char path[128];
    static const char *const names[] = { "a/b/home", "a/b",   "a",        "file",          "open",
                                         "full/x",   "full",  "link",     "kept/store.db", "kept",
                                         "empty",    "other", "cay-part", "part.so" };
    for (size_t i = 0; i < CAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", tmp, names[i]);
        remove(path);
    }
    return rmdir(tmp);
}

static const char *at(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", tmp, name);
    return path;
}

static void touch(const char *name)
{
    CAY_AUTOFD fd = open(at(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

static void the_directory_is_found_in_order(void **s)
{
    (void)s;
    char buf[CAY__HOME_MAX], cwd[CAY__HOME_MAX];
    cay_err err = CAY_ERR_INIT;
    setenv("CAY_HOME", "/from/env", 1);
    assert_int_equal(cay__home_find("/given", buf, sizeof buf, &err), 0);
    assert_string_equal(buf, "/given");
    assert_int_equal(cay__home_find(NULL, buf, sizeof buf, &err), 0);
    assert_string_equal(buf, "/from/env");
    assert_int_equal(cay__home_find("rel", buf, sizeof buf, &err), 0);
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_true(cay__str_starts(buf, cwd) && !strcmp(buf + strlen(buf) - 4, "/rel"));
    unsetenv("CAY_HOME");
    if (geteuid() == 0) {
        assert_int_equal(cay__home_find("", buf, sizeof buf, &err), 0);
        assert_string_equal(buf, "/var/lib/cay");
    }
    assert_int_equal(cay__home_find("/a\nb", buf, sizeof buf, &err), CAY_EINVAL);
    assert_int_equal(cay__home_find("/a-long-name", buf, 8, &err), CAY_EINVAL);
}

static void as_a_user_xdg_and_home_decide(void **s)
{
    (void)s;
    pid_t pid = fork();
    if (pid == 0) {
        char buf[CAY__HOME_MAX];
        if (geteuid() == 0 && setuid(65534) < 0)
            _exit(1);
        setenv("XDG_DATA_HOME", "/xdg", 1);
        if (cay__home_find(NULL, buf, sizeof buf, NULL) || strcmp(buf, "/xdg/cay"))
            _exit(2);
        setenv("XDG_DATA_HOME", "relative-is-ignored", 1);
        setenv("HOME", "/home/me", 1);
        if (cay__home_find(NULL, buf, sizeof buf, NULL) || strcmp(buf, "/home/me/.local/share/cay"))
            _exit(3);
        _exit(0);
    }
    int st;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    assert_int_equal(st, 0);
}

static void a_missing_directory_is_made_private(void **s)
{
    (void)s;
    CAY_AUTOFD fd = -1;
    struct stat st;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay__home_open(at("a/b/home"), &fd, &err), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
}

static void bad_directories_are_refused_with_a_remedy(void **s)
{
    (void)s;
    CAY_AUTOFD fd = -1;
    cay_err err = CAY_ERR_INIT;
    touch("file");
    assert_int_equal(cay__home_open(at("file"), &fd, &err), CAY_ETYPE);
    assert_non_null(strstr(err.msg, "CAY_HOME"));
    mkdir(at("open"), 0700);
    chmod(at("open"), 0777);
    assert_int_equal(cay__home_open(at("open"), &fd, &err), CAY_EPERM);
    assert_string_equal(err.reason, "home_writable");
    mkdir(at("full"), 0755);
    touch("full/x");
    assert_int_equal(cay__home_open(at("full"), &fd, &err), CAY_EEXIST);
    assert_string_equal(err.reason, "home_not_empty");
    assert_int_equal(fd, -1);
    if (geteuid() == 0) {
        mkdir(at("other"), 0700);
        assert_int_equal(chown(at("other"), 12345, 12345), 0);
        assert_int_equal(cay__home_open(at("other"), &fd, &err), CAY_EPERM);
        assert_string_equal(err.reason, "home_not_owned");
    }
}

static void an_empty_or_known_directory_is_closed_to_others(void **s)
{
    (void)s;
    struct stat st;
    cay_err err = CAY_ERR_INIT;
    mkdir(at("kept"), 0755);
    touch("kept/store.db");
    mkdir(at("empty"), 0755);
    for (int i = 0; i < 2; i++) {
        CAY_AUTOFD fd = -1;
        assert_int_equal(cay__home_open(at(i ? "kept" : "empty"), &fd, &err), 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
    }
}

static void network_filesystems_are_known(void **s)
{
    (void)s;
    assert_string_equal(cay__fs_remote(0x6969), "nfs");
    assert_string_equal(cay__fs_remote(0xff534d42), "cifs");
    assert_string_equal(cay__fs_remote((uint64_t)(int64_t)(int32_t)0xff534d42),
                        "cifs"); /* f_type is signed */
    assert_null(cay__fs_remote(0xef53));
    assert_null(cay__fs_remote(0x01021994));
}

/* As another user, so that /run/cay of the machine is left alone. */
static int run_dir_as_user(void)
{
    char run[CAY__RUN_MAX], again[CAY__RUN_MAX], rt[300];
    CAY_AUTOFD home = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
               other = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(rt, sizeof rt, "/tmp/cay-rt-%d", (int)getpid());
    if (geteuid() == 0 && setuid(65534) < 0)
        return 1;
    if (mkdir(rt, 0700) < 0)
        return 2;
    setenv("XDG_RUNTIME_DIR", rt, 1);
    int rc = 0;
    char base[320];
    snprintf(base, sizeof base, "%s/cay", rt);
    if (cay__run_dir(home, run, sizeof run, false, NULL) || access(run, F_OK) == 0)
        rc = 3;
    else if (cay__run_dir(home, run, sizeof run, true, NULL) || access(run, F_OK) ||
             !cay__str_starts(run, base) || strlen(run) != strlen(base) + 9)
        rc = 4;
    else if (cay__run_dir(home, again, sizeof again, true, NULL) || strcmp(run, again))
        rc = 5;
    else if (cay__run_dir(other, again, sizeof again, false, NULL) || !strcmp(run, again))
        rc = 6;
    rmdir(run);
    /* somebody put a link where the directory should be */
    if (!rc &&
        (symlink("/", run) || cay__run_dir(home, again, sizeof again, true, NULL) != CAY_EPERM))
        rc = 7;
    unlink(run);
    if (!rc &&
        (chmod(base, 0755) || cay__run_dir(home, again, sizeof again, true, NULL) != CAY_EPERM))
        rc = 8;
    rmdir(base);
    rmdir(rt);
    return rc;
}

static void sockets_have_a_private_directory_per_home(void **s)
{
    (void)s;
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_dir_as_user());
    int st;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    assert_int_equal(st, 0);
}

static void paths_are_joined_and_cleaned(void **state)
{
    (void)state;
    static const struct {
        const char *base, *path, *want;
    } rows[] = {
        { "/w", "a/./b//c/", "/w/a/b/c" },
        { "/w/x", "../y", "/w/y" },
        { "/w", "/a/../..", "/" },
        { "", "a", "/a" },
        { "/w", "", "/w" },
        { "/w", "...", "/w/..." },
    };
    char buf[32];
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        assert_true(cay__path_clean(rows[i].base, rows[i].path, buf, sizeof buf));
        assert_string_equal(buf, rows[i].want);
    }
    assert_true(cay__path_clean("/12345", "67", buf, 10)); /* "/12345/67" and its end */
    assert_false(cay__path_clean("/12345", "678", buf, 10));
}

/* Packagers install a module without the execute bit. */
static void programs_are_executable_and_modules_readable(void **s)
{
    (void)s;
    char path[256];
    cay_err err = CAY_ERR_INIT;
    touch("cay-part");
    touch("part.so");
    assert_int_equal(chmod(at("cay-part"), 0644) | chmod(at("part.so"), 0444), 0);
    assert_int_equal(cay__libexec_find(tmp, "cay-part", path, sizeof path, &err), CAY_ENOENT);
    assert_int_equal(cay__libexec_find(tmp, "part.so", path, sizeof path, &err), 0);
    assert_string_equal(path, at("part.so"));
    assert_int_equal(chmod(at("cay-part"), 0755), 0);
    assert_int_equal(cay__libexec_find(tmp, "cay-part", path, sizeof path, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_directory_is_found_in_order),
        cmocka_unit_test(as_a_user_xdg_and_home_decide),
        cmocka_unit_test(a_missing_directory_is_made_private),
        cmocka_unit_test(bad_directories_are_refused_with_a_remedy),
        cmocka_unit_test(an_empty_or_known_directory_is_closed_to_others),
        cmocka_unit_test(network_filesystems_are_known),
        cmocka_unit_test(paths_are_joined_and_cleaned),
        cmocka_unit_test(programs_are_executable_and_modules_readable),
        cmocka_unit_test(sockets_have_a_private_directory_per_home),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
