/* SPDX-License-Identifier: Apache-2.0 */
/* Each test restricts a child for real; without Landlock the program skips aloud. */
#include <base/base.h>
#include <proto/landlock.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

static char dir[64];  /* granted for writing */
static char away[64]; /* not granted */
static int abi;

static int make(const char *in, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", in, name);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

static int setup(void **s)
{
    (void)s;
    snprintf(dir, sizeof dir, "/tmp/cay-landlock-XXXXXX");
    snprintf(away, sizeof away, "/tmp/cay-landlock-XXXXXX");
    if (!mkdtemp(dir) || !mkdtemp(away))
        return -1;
    return make(away, "secret");
}

static int teardown(void **s)
{
    (void)s;
    static const char *const names[] = { "secret", "file", "moved", "link", "ran" };
    char path[160];
    for (size_t i = 0; i < CAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
        snprintf(path, sizeof path, "%s/%s", away, names[i]);
        unlink(path);
    }
    return rmdir(dir) | rmdir(away);
}

static void in_child(int (*body)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? 99 : body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("child ended with status %#x", status);
}

/* CAP_PERFMON opens /proc/PID/environ past Landlock, so level 1 has no capability either. */
static int drop_caps(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };
    return (int)syscall(SYS_capset, &head, none);
}

static int enter_level1(int network)
{
    if (drop_caps() < 0)
        return -1;
    const cay__ll_grant own[] = { { dir, -1, CAY_LL_WRITE } };
    size_t bad = 7;
    int rc = cay__landlock_level1(own, CAY_LEN(own), network, &bad);
    return rc < 0 || bad != CAY_LEN(own) ? -1 : 0;
}

static int run(const char *line)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    return pid < 0 || waitpid(pid, &status, 0) != pid ? -1 : status;
}

static int files(void)
{
    char path[160], to[160];
    struct stat st;
    if (enter_level1(0) < 0)
        return 1;
    if (make(dir, "file") < 0)
        return 2;
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(to, sizeof to, "%s/moved", dir);
    if (rename(path, to) < 0 || symlink("moved", path) < 0 || unlink(path) < 0)
        return 3;
    if (make(away, "file") != -EACCES)
        return 4;
    snprintf(path, sizeof path, "%s/secret", away);
    if (open(path, O_RDONLY) >= 0 || errno != EACCES)
        return 5;
    if (truncate(path, 0) == 0 || errno != EACCES)
        return 6;
    if (unlink(path) == 0 || errno != EACCES)
        return 7;
    if (link(path, to) == 0)
        return 8;
    if (open("/usr", O_RDONLY | O_DIRECTORY) < 0 ||
        open("/usr/cay-test", O_CREAT | O_WRONLY, 0600) >= 0)
        return 9;
    if (open("/etc/shadow", O_RDONLY) >= 0 || open("/root", O_RDONLY) >= 0 ||
        open("/dev/pts", O_RDONLY) >= 0)
        return 10;
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || write(null, "x", 1) != 1)
        return 11;
    return fstat(null, &st) < 0 || run("cat /proc/self/status >/dev/null && ls /usr >/dev/null")
               ? 12
               : 0;
}

static void level_one_writes_only_in_its_workspace(void **s)
{
    (void)s;
    in_child(files);
    assert_int_equal(access(away, F_OK), 0);
}

static int escape(void)
{
    char line[256];
    if (enter_level1(0) < 0)
        return 1;
    /* A link, a child, and the way through another process's root. */
    snprintf(line, sizeof line, "ln -s %s %s/link && ! cat %s/link/secret 2>/dev/null", away, dir,
             dir);
    if (run(line))
        return 2;
    snprintf(line, sizeof line,
             "exec 2>/dev/null; ! cat /proc/%d/root/etc/shadow && ! grep -q . /proc/%d/environ",
             getppid(), getppid());
    return run(line) ? 3 : 0;
}

static void no_way_round_by_links_or_proc(void **s)
{
    (void)s;
    in_child(escape);
}

static int tcp(int port, int (*call)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    CAY_AUTOFD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return call(fd, (struct sockaddr *)&a, sizeof a) < 0 ? -errno : 0;
}

static int do_bind(int fd, const struct sockaddr *a, socklen_t n)
{
    return bind(fd, a, n);
}

static int do_connect(int fd, const struct sockaddr *a, socklen_t n)
{
    return connect(fd, a, n);
}

static int offline(void)
{
    if (enter_level1(0) < 0)
        return 1;
    return tcp(0, do_bind) != -EACCES ? 2 : tcp(9, do_connect) != -EACCES ? 3 : 0;
}

static int online(void)
{
    if (enter_level1(1) < 0)
        return 1;
    return tcp(0, do_bind) != 0 ? 2 : tcp(9, do_connect) == -EACCES ? 3 : 0;
}

static void level_one_has_tcp_only_when_granted(void **s)
{
    (void)s;
    if (abi < 4)
        skip();
    in_child(offline);
    in_child(online);
}

static int abstract(int (*call)(int, const struct sockaddr *, socklen_t), const char *name)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    socklen_t len =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                    (size_t)snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s", name));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (call(fd, (struct sockaddr *)&a, len) < 0) {
        int e = errno;
        close(fd);
        return -e;
    }
    return fd;
}

static int scoped(void)
{
    char mine[32], theirs[32];
    snprintf(mine, sizeof mine, "cay-in-%d", getpid());
    snprintf(theirs, sizeof theirs, "cay-out-%d", getppid());
    if (cay__landlock_scopes() < 0)
        return 1;
    if (kill(getppid(), 0) == 0 || errno != EPERM)
        return 2;
    if (abstract(do_connect, theirs) != -EPERM)
        return 3;
    int fd = abstract(do_bind, mine);
    if (fd < 0 || listen(fd, 1) < 0 || abstract(do_connect, mine) < 0)
        return 4;
    pid_t pid = fork();
    if (pid == 0)
        _exit(kill(getppid(), 0) == 0 ? 0 : 1); /* what stays inside still works, both ways */
    int status;
    if (kill(pid, 0) < 0 || waitpid(pid, &status, 0) != pid || status)
        return 5;
    return make(away, "file") < 0 ? 6 : 0; /* files are no matter of scopes */
}

static void scopes_keep_signals_and_abstract_sockets_inside(void **s)
{
    (void)s;
    char name[32];
    if (abi < 6)
        skip();
    snprintf(name, sizeof name, "cay-out-%d", getpid());
    CAY_AUTOFD fd = abstract(do_bind, name);
    assert_true(fd >= 0);
    assert_int_equal(listen(fd, 1), 0);
    in_child(scoped);
}

static int classes(void)
{
    CAY_AUTOFD fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const cay__ll_grant g[] = {
        { NULL, fd, CAY_LL_READ },     { "/usr", -1, CAY_LL_EXEC },
        { "/lib64", -1, CAY_LL_EXEC }, { "/bin", -1, CAY_LL_EXEC },
        { "/lib", -1, CAY_LL_EXEC },   { "/no/such/thing", -1, CAY_LL_READ }
    };
    if (cay__landlock_grants(g, CAY_LEN(g), CAY_LL_OPTIONAL, NULL) < 0)
        return 1;
    if (open(dir, O_RDONLY | O_DIRECTORY) < 0)
        return 2;
    if (make(dir, "ran") != -EACCES)
        return 3;
    if (open("/dev/null", O_RDONLY) >= 0)
        return 4;
    return run("exit 0");
}

static void a_grant_by_descriptor_carries_its_class(void **s)
{
    (void)s;
    in_child(classes);
}

static int missing(void)
{
    const cay__ll_grant g[] = { { dir, -1, CAY_LL_WRITE }, { "/no/such/thing", -1, CAY_LL_READ } };
    size_t bad = 9;
    if (cay__landlock_grants(g, 2, 0, &bad) != -ENOENT || bad != 1)
        return 1;
    return make(away, "file") < 0 ? 2 : 0; /* and nothing was restricted */
}

static void a_missing_grant_is_named_and_nothing_done(void **s)
{
    (void)s;
    in_child(missing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(level_one_writes_only_in_its_workspace),
        cmocka_unit_test(no_way_round_by_links_or_proc),
        cmocka_unit_test(level_one_has_tcp_only_when_granted),
        cmocka_unit_test(scopes_keep_signals_and_abstract_sockets_inside),
        cmocka_unit_test(a_grant_by_descriptor_carries_its_class),
        cmocka_unit_test(a_missing_grant_is_named_and_nothing_done),
    };
    abi = cay__landlock_abi();
    if (abi < 3) {
        printf("skipped: this kernel's Landlock ABI is %d, 3 is needed\n", abi);
        return 77;
    }
    print_message("# Landlock ABI %d\n", abi);
    return cmocka_run_group_tests(tests, setup, teardown);
}
