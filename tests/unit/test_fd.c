/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/fd.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <cmocka.h>

static int sv[2];

static unsigned open_fds(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int set_up(void **s)
{
    (void)s;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv);
}

static int tear_down(void **s)
{
    (void)s;
    cay__close_fd(&sv[0]);
    cay__close_fd(&sv[1]);
    return 0;
}

static void a_packet_arrives_whole_with_its_descriptors(void **s)
{
    (void)s;
    char buf[16];
    int p[2], got[4], n = 4;
    struct iovec io[2] = { { "head", 4 }, { "tail", 4 } };
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(cay__fd_sendv(sv[0], io, 2, p, 2, 0), 8);
    assert_int_equal(cay__fd_recv(sv[1], buf, sizeof buf, got, &n, 0), 8);
    assert_memory_equal(buf, "headtail", 8);
    assert_int_equal(n, 2);
    assert_true(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(got[1], "x", 1), 1);
    assert_int_equal(read(p[0], buf, 1), 1);
    for (int i = 0; i < 2; i++) {
        close(p[i]);
        close(got[i]);
    }
}

static void surplus_descriptors_are_closed(void **s)
{
    (void)s;
    char buf[16];
    int got[2], n = 2, many[5] = { 0, 0, 0, 0, 0 };
    unsigned before = open_fds();
    assert_int_equal(cay__fd_send(sv[0], "x", 1, many, 5, 0), 1);
    errno = 0;
    assert_int_equal(cay__fd_recv(sv[1], buf, sizeof buf, got, &n, 0), -1);
    assert_true(errno == EMSGSIZE && n == 0);
    assert_int_equal(cay__fd_send(sv[0], "x", 1, many, 1, 0), 1);
    assert_int_equal(cay__fd_recv(sv[1], buf, sizeof buf, NULL, NULL, 0),
                     -1); /* none was expected */
    assert_int_equal(open_fds(), before);
}

static void a_packet_too_long_is_no_packet(void **s)
{
    (void)s;
    char buf[4];
    int got[2], n = 2, one[1] = { 0 };
    unsigned before = open_fds();
    assert_int_equal(cay__fd_send(sv[0], "12345", 5, one, 1, 0), 5);
    errno = 0;
    assert_int_equal(cay__fd_recv(sv[1], buf, sizeof buf, got, &n, 0), -1);
    assert_true(errno == EMSGSIZE && n == 0);
    assert_int_equal(open_fds(), before);
    assert_int_equal(cay__fd_send(sv[0], "next", 4, NULL, 0, 0), 4);
    n = 2;
    assert_int_equal(cay__fd_recv(sv[1], buf, sizeof buf, got, &n, 0), 4);
}

static void too_many_are_not_sent(void **s)
{
    (void)s;
    int many[CAY__FDS_MAX + 1] = { 0 };
    errno = 0;
    assert_int_equal(cay__fd_send(sv[0], "x", 1, many, CAY__FDS_MAX + 1, 0), -1);
    assert_int_equal(errno, EINVAL);
}

static void a_peer_that_is_gone_is_told_without_a_signal(void **s)
{
    (void)s;
    char buf[4];
    signal(SIGPIPE, SIG_DFL);
    cay__close_fd(&sv[1]);
    assert_int_equal(cay__fd_send(sv[0], "x", 1, NULL, 0, 0), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(cay__fd_recv(sv[0], buf, sizeof buf, NULL, NULL, 0), 0);
}

static void reads_and_writes_are_whole_across_a_pipe(void **s)
{
    (void)s;
    enum { N = 300000 };
    static char a[N], b[N + 1];
    int p[2], status;
    for (size_t i = 0; i < N; i++)
        a[i] = (char)(i * 7);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(cay__fd_write_all(p[1], a, N) ? 0 : 1);
    close(p[1]);
    assert_int_equal(cay__fd_read_all(p[0], b, sizeof b), N);
    assert_memory_equal(a, b, N);
    close(p[0]);
    assert_true(waitpid(pid, &status, 0) == pid && status == 0);
    assert_int_equal(cay__fd_read_all(-1, b, 1), -1);
    assert_false(cay__fd_write_all(-1, "x", 1));
}

static void small_files(void **s)
{
    (void)s;
    char dir[] = "/tmp/cay-test-fd-XXXXXX", buf[8];
    assert_non_null(mkdtemp(dir));
    CAY_AUTOFD at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_false(cay__fd_write_file(at, "f", "x")); /* never made */
    close(openat(at, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_true(cay__fd_write_file(at, "f", "0123456789"));
    assert_int_equal(cay__fd_read_file(at, "f", buf, sizeof buf), 7); /* cut, and ended */
    assert_string_equal(buf, "0123456");
    assert_int_equal(cay__fd_read_file(at, "none", buf, sizeof buf), -1);
    assert_int_equal(cay__fd_read_file(at, ".", buf, sizeof buf), -1);
    assert_int_equal(mkfifoat(at, "fifo", 0600), 0);
    assert_int_equal(cay__fd_read_file(at, "fifo", buf, sizeof buf), 0); /* nobody is waited for */
    unlinkat(at, "f", 0);
    unlinkat(at, "fifo", 0);
    rmdir(dir);
}

static void beneath_stays_beneath(void **s)
{
    (void)s;
    char dir[] = "/tmp/cay-test-fd-XXXXXX";
    assert_non_null(mkdtemp(dir));
    CAY_AUTOFD at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(symlinkat("/etc/passwd", at, "abs"), 0);
    assert_int_equal(symlinkat("../../etc/passwd", at, "rel"), 0);
    static const char *const out[] = { "abs", "rel", "..", "/etc/passwd", "../x" };
    for (size_t i = 0; i < CAY_LEN(out); i++)
        assert_int_equal(cay__fd_openat2(at, out[i], O_RDONLY, 0, RESOLVE_BENEATH), -1);
    assert_int_equal(cay__fd_openat2(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0, 0),
                     -1); /* no magic link, ever */
    assert_int_equal(errno, ELOOP);
    CAY_AUTOFD fd = cay__fd_openat2(at, "new", O_WRONLY | O_CREAT, 0640, RESOLVE_BENEATH);
    assert_true(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    unlinkat(at, "abs", 0);
    unlinkat(at, "rel", 0);
    unlinkat(at, "new", 0);
    rmdir(dir);
}

static bool make_dir(void *asked, int at, const char *name)
{
    ++*(unsigned *)asked;
    return mkdirat(at, name, 0700) == 0;
}

static void a_parent_is_reached_by_directories_alone(void **s)
{
    (void)s;
    char dir[] = "/tmp/cay-test-fd-XXXXXX", name[256], longest[300];
    unsigned asked = 0;
    struct stat a, b;
    assert_non_null(mkdtemp(dir));
    CAY_AUTOFD at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CAY_AUTOFD top = cay__fd_parent(at, "file", make_dir, &asked, name);
    assert_true(fstat(top, &a) == 0 && fstat(at, &b) == 0 && a.st_ino == b.st_ino);
    assert_string_equal(name, "file");
    assert_int_equal(cay__fd_parent(at, "one/two/file", NULL, NULL, name), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(asked, 0);
    CAY_AUTOFD two = cay__fd_parent(at, "one/two/other", make_dir, &asked, name);
    assert_int_equal(asked, 2);
    assert_true(fstat(two, &a) == 0 && fstatat(at, "one/two", &b, 0) == 0 && a.st_ino == b.st_ino);
    assert_string_equal(name, "other");
    assert_int_equal(symlinkat("one", at, "link"), 0);
    assert_int_equal(cay__fd_parent(at, "link/two/other", make_dir, &asked, name),
                     -1); /* a link, be it to the inside */
    assert_true(errno == ELOOP || errno == ENOTDIR);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const struct {
        const char *path;
        int why;
    } none[] = { { "", EINVAL },     { "/etc/passwd", EINVAL }, { "one//x", EINVAL },
                 { "one/", EINVAL }, { "one/./x", EINVAL },     { "one/../x", EINVAL },
                 { "..", EINVAL },   { ".", EINVAL },           { longest, ENAMETOOLONG } };
    for (size_t i = 0; i < CAY_LEN(none); i++) {
        assert_int_equal(cay__fd_parent(at, none[i].path, make_dir, &asked, name), -1);
        assert_int_equal(errno, none[i].why);
    }
    CAY_AUTOFD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(cay__fd_parent(root, "proc/self", NULL, NULL, name),
                     -1); /* another filesystem */
    assert_int_equal(errno, EXDEV);
    assert_int_equal(asked, 2);
    unlinkat(at, "link", 0);
    unlinkat(at, "one/two", AT_REMOVEDIR);
    unlinkat(at, "one", AT_REMOVEDIR);
    rmdir(dir);
}

static void nonblock_goes_on_and_off(void **s)
{
    (void)s;
    char c;
    assert_true(cay__fd_nonblock(sv[0], true));
    assert_int_equal(recv(sv[0], &c, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    assert_true(cay__fd_nonblock(sv[0], false));
    assert_false(fcntl(sv[0], F_GETFL) & O_NONBLOCK);
    assert_false(cay__fd_nonblock(-1, true));
}

static void a_start_time_names_one_process(void **s)
{
    (void)s;
    assert_true(cay__start_time(getpid()) > 0);
    assert_int_equal(cay__start_time(getpid()), cay__start_time(getpid()));
    assert_int_equal(cay__start_time(0), 0);
    assert_int_equal(cay__start_time(-1), 0);
    assert_int_equal(cay__start_time(1 << 30), 0);
}

static void close_from_leaves_the_lower_ones(void **s)
{
    (void)s;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        int low = fcntl(2, F_DUPFD, 10), high = fcntl(2, F_DUPFD, 200);
        cay__fd_close_from(low + 1);
        _exit(fcntl(low, F_GETFD) >= 0 && fcntl(high, F_GETFD) < 0 ? 0 : 1);
    }
    assert_true(waitpid(pid, &status, 0) == pid && status == 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_packet_arrives_whole_with_its_descriptors),
        CASE(surplus_descriptors_are_closed),
        CASE(a_packet_too_long_is_no_packet),
        CASE(too_many_are_not_sent),
        CASE(a_peer_that_is_gone_is_told_without_a_signal),
        cmocka_unit_test(reads_and_writes_are_whole_across_a_pipe),
        cmocka_unit_test(small_files),
        cmocka_unit_test(beneath_stays_beneath),
        cmocka_unit_test(a_parent_is_reached_by_directories_alone),
        CASE(nonblock_goes_on_and_off),
        cmocka_unit_test(a_start_time_names_one_process),
        cmocka_unit_test(close_from_leaves_the_lower_ones),
    };
    return cmocka_run_group_tests_name("fd", tests, NULL, NULL);
}
