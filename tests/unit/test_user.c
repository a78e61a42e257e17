/* SPDX-License-Identifier: Apache-2.0 */
/* Who "user" is, from a passwd file that belongs to the tenant. */
#include <fcntl.h>
#include <daemon/init/init.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <cmocka.h>

static ident id;

static int find(const char *file, const char *name)
{
    size_t n = strlen(file);
    CAY_AUTOFREE char *exact = cay__alloc(n); /* so that a step too far is seen */
    memcpy(exact, file, n);
    memset(&id, 'x', sizeof id);
    return user_search(exact, n, name, &id);
}

static int set_up(void **s)
{
    (void)s;
    memset(&init, 0, sizeof init);
    init.mode = CAY_MODE_ROOT;
    return 0;
}

static void a_plain_file(void **s)
{
    (void)s;
    const char *file = "root:x:0:0:root:/root:/bin/bash\nwww-data:x:33:33::/var/www:/usr/sbin/"
                       "nologin\nann:x:1500:1600:Ann,,,:/home/ann:/bin/zsh";
    assert_int_equal(find(file, "www-data"), 0);
    assert_true(id.uid == 33 && id.gid == 33);
    assert_string_equal(id.shell, "/usr/sbin/nologin");
    assert_int_equal(find(file, "ann"), 0); /* the last line has no end */
    assert_true(id.uid == 1500 && id.gid == 1600);
    assert_string_equal(id.home, "/home/ann");
    assert_string_equal(id.shell, "/bin/zsh");
    assert_int_equal(find(file, "1500"), 0);
    assert_string_equal(id.name, "ann");
    assert_int_equal(find(file, "an"), ENOENT);
    assert_int_equal(find(file, "annn"), ENOENT);
}

static void without_a_file_two_names_and_every_number_work(void **s)
{
    (void)s;
    assert_int_equal(find("", "root"), 0);
    assert_true(id.uid == 0 && id.gid == 0);
    assert_string_equal(id.home, "/root");
    assert_int_equal(find("", "user"), 0);
    assert_true(id.uid == 1000 && id.gid == 1000);
    assert_int_equal(find("", "1234"), 0);
    assert_true(id.uid == 1234 && id.gid == 1234);
    assert_string_equal(id.home, "/");
    assert_string_equal(id.shell, "/bin/sh");
    assert_int_equal(find("", "nobody-here"), ENOENT);
    assert_int_equal(find("", ""), ENOENT);
}

static void a_line_that_is_not_one_is_passed_over(void **s)
{
    (void)s;
    static const char *const bad[] = { "",
                                       ":",
                                       "::::::",
                                       "ann",
                                       "ann:x",
                                       "ann:x:5",
                                       "ann:x:5:5",
                                       "ann:x:5:5:g:/h",
                                       "ann:x::5:g:/h:/s",
                                       "ann:x:5::g:/h:/s",
                                       "ann:x:-5:5:g:/h:/s",
                                       "ann:x:5a:5:g:/h:/s",
                                       "ann:x: 5:5:g:/h:/s",
                                       "ann:x:4294967295:5:g:/h:/s",
                                       "ann:x:4294967296:5:g:/h:/s",
                                       "ann:x:99999999999999999999:5:g:/h:/s",
                                       "ann:x:5:4294967295:g:/h:/s" };
    for (size_t i = 0; i < CAY_LEN(bad); i++) {
        char file[256];
        assert_int_equal(find(bad[i], "ann"), ENOENT);
        snprintf(file, sizeof file, "%s\n\n%s\nann:x:7:8:g:/h:/s\n", bad[i], bad[i]);
        assert_int_equal(find(file, "ann"), 0);
        assert_true(id.uid == 7 && id.gid == 8);
    }
}

static void what_does_not_fit_is_never_cut(void **s)
{
    (void)s;
    char file[600], longest[64], more[65], deep[200];
    memset(longest, 'a', sizeof longest);
    longest[63] = 0;
    memset(more, 'a', sizeof more);
    more[64] = 0;
    memset(deep, 'd', sizeof deep);
    deep[0] = '/';
    deep[sizeof deep - 1] = 0;
    snprintf(file, sizeof file, "%s:x:7:7::/h:/s\n", more);
    assert_int_equal(find(file, longest), ENOENT); /* another's name, less one letter */
    assert_int_equal(find(file, more), ENOENT);
    snprintf(file, sizeof file, "%s:x:7:7::/h:/s\n", longest);
    assert_int_equal(find(file, longest), 0);
    snprintf(file, sizeof file, "ann:x:7:7::%s:/s\n", deep);
    assert_int_equal(find(file, "ann"), ENOENT);
    snprintf(file, sizeof file, "ann:x:7:7::/h:%s\n", deep);
    assert_int_equal(find(file, "ann"), ENOENT);
}

static void a_nul_hides_nothing(void **s)
{
    (void)s;
    static const char file[] = "root\0x:x:7:7::/h:/s\nann:x:8:8::/h\0/etc:/s\n";
    assert_int_equal(user_search(file, sizeof file - 1, "root", &id), 0);
    assert_int_equal(id.uid, 0); /* the built-in one */
    assert_int_equal(user_search(file, sizeof file - 1, "ann", &id), ENOENT);
}

static void ids_outside_the_map_are_refused(void **s)
{
    (void)s;
    assert_int_equal(find("ann:x:65535:65535::/h:/s", "ann"), 0);
    assert_int_equal(find("ann:x:65536:5::/h:/s", "ann"), ERANGE);
    assert_int_equal(find("ann:x:5:65536::/h:/s", "ann"), ERANGE);
    assert_int_equal(find("", "65536"), ERANGE);
    assert_int_equal(find("", "4294967295"), ENOENT);
}

static int group(const char *file, const char *name)
{
    size_t n = strlen(file);
    CAY_AUTOFREE char *exact = cay__alloc(n);
    memcpy(exact, file, n);
    id = (ident){ .uid = 5, .gid = 5, .ngroups = 2 };
    return user_group(exact, n, name, &id);
}

static void a_group_that_is_named_is_the_only_one(void **s)
{
    (void)s;
    const char *file = "web:x:33:ann\nbroken:x\nbig:x:65536:\nwww:x:99:";
    assert_int_equal(group(file, "web"), 0);
    assert_true(id.uid == 5 && id.gid == 33 && id.ngroups == 0);
    assert_int_equal(group(file, "www"), 0); /* the last line has no end */
    assert_int_equal(id.gid, 99);
    assert_int_equal(group("", "1234"), 0);
    assert_int_equal(id.gid, 1234);
    static const char *const none[] = { "we", "webb", "", "ann", "x", "broken", "big", "web:x" };
    for (size_t i = 0; i < CAY_LEN(none); i++) {
        assert_int_equal(group(file, none[i]), ENOENT);
        assert_true(id.gid == 5 && id.ngroups == 2);
    }
    assert_int_equal(group(file, "65536"), ERANGE);
    assert_int_equal(user_find("root:root", &id), ENOENT); /* only what a template says has one */
    char blob[] = "0:7";
    init.config = blob;
    init.config_len = sizeof blob;
    assert_int_equal(user_default(&id), 0);
    assert_true(id.uid == 0 && id.gid == 7 && id.ngroups == 0);
}

static void one_id_has_one_user(void **s)
{
    (void)s;
    const char *file =
        "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:\nbob:x:1001:1001::/:/s\n";
    init.mode = CAY_MODE_SINGLE;
    assert_int_equal(find(file, "ann"), 0);
    assert_string_equal(id.shell, "/bin/sh"); /* an empty one means it */
    assert_int_equal(find(file, "root"), EPERM);
    assert_int_equal(find(file, "bob"), EPERM);
    init.uid0 = true;
    assert_int_equal(find(file, "root"), 0);
    assert_int_equal(find(file, "ann"), EPERM);
}

static void only_a_regular_file_is_read(void **s)
{
    (void)s;
    char dir[] = "/tmp/cay-test-user-XXXXXX", path[64], buf[16];
    assert_non_null(mkdtemp(dir));
    assert_int_equal(user_read(dir, buf, sizeof buf), -1);
    snprintf(path, sizeof path, "%s/p", dir);
    assert_int_equal(user_read(path, buf, sizeof buf), -1);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(user_read(path, buf, sizeof buf), -1); /* and does not wait for a writer */
    unlink(path);
    CAY_AUTOFD fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 1 << 30), 0);
    assert_int_equal(user_read(path, buf, sizeof buf),
                     sizeof buf); /* of a huge one the beginning */
    unlink(path);
    rmdir(dir);
}

static void the_configuration_has_an_end(void **s)
{
    (void)s;
    char blob[] = "user\0/workspace\0host";
    init.config = blob;
    init.config_len = sizeof blob;
    assert_string_equal(config_get(0), "user");
    assert_string_equal(config_get(2), "host");
    assert_string_equal(config_get(3), "");
    assert_string_equal(config_get(1000), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_plain_file, set_up),
        cmocka_unit_test_setup(without_a_file_two_names_and_every_number_work, set_up),
        cmocka_unit_test_setup(a_line_that_is_not_one_is_passed_over, set_up),
        cmocka_unit_test_setup(what_does_not_fit_is_never_cut, set_up),
        cmocka_unit_test_setup(a_nul_hides_nothing, set_up),
        cmocka_unit_test_setup(ids_outside_the_map_are_refused, set_up),
        cmocka_unit_test_setup(a_group_that_is_named_is_the_only_one, set_up),
        cmocka_unit_test_setup(one_id_has_one_user, set_up),
        cmocka_unit_test_setup(only_a_regular_file_is_read, set_up),
        cmocka_unit_test_setup(the_configuration_has_an_end, set_up),
    };
    return cmocka_run_group_tests_name("user", tests, NULL, NULL);
}
