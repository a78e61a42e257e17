/* SPDX-License-Identifier: Apache-2.0 */
/* A filesystem in a file: mounted once however often it is shown, gone with its last mount. */
#include <base/base.h>
#include <base/image.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include "../support/support.h"

static char path[64];
static int image = -1;

/* Whether loop devices and mkfs.ext4 can be used; where not, the tests are skipped. */
static bool can_mount(void)
{
    CAY_AUTOFD control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    return geteuid() == 0 && control >= 0 && access("/usr/sbin/mkfs.ext4", X_OK) == 0;
}

static int make_file(void **s)
{
    (void)s;
    snprintf(path, sizeof path, "/tmp/cay-image-XXXXXX");
    image = mkostemp(path, O_CLOEXEC);
    assert_true(image >= 0);
    assert_int_equal(ftruncate(image, 16 << 20), 0);
    return 0;
}

static void make_filesystem(void)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/usr/sbin/mkfs.ext4", "mkfs.ext4", "-q", "-F", path, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool not_mounted(void *arg)
{
    (void)arg;
    return !cay__image_mounted(image);
}

static int remove_file(void **s)
{
    (void)s;
    bool gone = support_until(not_mounted, NULL, 10000);
    unlink(path);
    cay__close_fd(&image);
    return gone ? 0 : -1;
}

static void a_closed_descriptor_fails_at_the_lock(void **s)
{
    (void)s;
    const char *step = NULL;
    assert_int_equal(cay__image_mount(-1, &step), -1);
    assert_int_equal(errno, EBADF);
    assert_string_equal(step, "lock the image");
    assert_false(cay__image_mounted(-1));
}

static void a_file_without_a_filesystem_leaves_no_device(void **s)
{
    (void)s;
    const char *step = NULL;
    if (!can_mount())
        skip();
    assert_int_equal(cay__image_mount(image, &step), -1);
    assert_int_equal(errno, EINVAL);
    assert_string_equal(step, "mount the image");
    assert_true(support_until(not_mounted, NULL, 10000));
}

static void an_image_is_mounted_without_rights_for_what_is_inside(void **s)
{
    (void)s;
    const char *step = NULL;
    struct statvfs vfs;
    if (!can_mount())
        skip();
    make_filesystem();
    assert_false(cay__image_mounted(image));
    CAY_AUTOFD mnt = cay__image_mount(image, &step);
    if (mnt < 0)
        fail_msg("%s: %s", step, strerror(errno));
    assert_true(cay__image_mounted(image));
    assert_int_equal(fstatvfs(mnt, &vfs), 0);
    assert_true(vfs.f_flag & ST_NOSUID);
    assert_true(vfs.f_flag & ST_NODEV);
    assert_int_equal(fcntl(mnt, F_GETFD), FD_CLOEXEC);
    cay__close_fd(&mnt);
    assert_true(support_until(not_mounted, NULL, 10000));
}

static void a_second_mount_shows_the_same_filesystem(void **s)
{
    (void)s;
    const char *step = NULL;
    struct stat a, b;
    if (!can_mount())
        skip();
    make_filesystem();
    CAY_AUTOFD one = cay__image_mount(image, &step);
    CAY_AUTOFD again = open(path, O_RDWR | O_CLOEXEC); /* another descriptor, the same file */
    CAY_AUTOFD two = cay__image_mount(again, &step);
    assert_true(one >= 0 && two >= 0);
    assert_int_equal(fstat(one, &a), 0);
    assert_int_equal(fstat(two, &b), 0);
    assert_int_equal(a.st_dev, b.st_dev);
    close(openat(one, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(faccessat(two, "f", F_OK, 0), 0);
    cay__close_fd(&one);
    assert_true(cay__image_mounted(image)); /* the other holds it */
    assert_int_equal(faccessat(two, "f", F_OK, 0), 0);
}

static void files_outlive_their_mount(void **s)
{
    (void)s;
    const char *step = NULL;
    if (!can_mount())
        skip();
    make_filesystem();
    CAY_AUTOFD one = cay__image_mount(image, &step);
    close(openat(one, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    cay__close_fd(&one);
    assert_true(support_until(not_mounted, NULL, 10000));
    CAY_AUTOFD two = cay__image_mount(image, &step);
    assert_true(two >= 0);
    assert_int_equal(faccessat(two, "f", F_OK, 0), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make_file, remove_file)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_closed_descriptor_fails_at_the_lock),
        CASE(a_file_without_a_filesystem_leaves_no_device),
        CASE(an_image_is_mounted_without_rights_for_what_is_inside),
        CASE(a_second_mount_shows_the_same_filesystem),
        CASE(files_outlive_their_mount),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
