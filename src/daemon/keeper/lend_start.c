/* SPDX-License-Identifier: Apache-2.0 */
/* Starting cay-egress and cay-intercept as their proto.h say: unprivileged, in a session of their
 * own, with a few descriptors. */
#include "lend.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/mutant.h>
#include <proto/keeper.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

static const char *const names[] = { [OUT_EGRESS] = "egress", [OUT_INTERCEPT] = "intercept" };

static bool path_of(char *out, size_t cap, const char *run, enum outside who, const char *end)
{
    return cay__str_join(out, cap, run, "/", names[who], end, NULL);
}

static int unix_socket(struct sockaddr_un *sa, const char *run, enum outside who, const char *end)
{
    *sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
    errno = ENAMETOOLONG;
    if (path_of(sa->sun_path, sizeof sa->sun_path, run, who, end))
        return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return -1;
}

int outside_dial(const char *run, enum outside who)
{
    struct sockaddr_un sa;
    char name[sizeof sa.sun_path];
    if (!path_of(name, sizeof name, run, who, ".sock") ||
        access(name, F_OK) < 0) /* cheaper than a socket for nothing */
        return -1;
    CAY_AUTOFD s = unix_socket(&sa, run, who, ".sock");
    if (s < 0 || connect(s, (struct sockaddr *)&sa, sizeof sa) < 0)
        return -1;
    return CAY_STEAL_FD(s);
}

/* Under its name only when it listens: who dials it finds somebody, or nothing. */
static int listen_at(const char *run, enum outside who)
{
    struct sockaddr_un sa;
    char name[sizeof sa.sun_path];
    CAY_AUTOFD s = unix_socket(&sa, run, who, ".new");
    unlink(sa.sun_path);
    if (s < 0 || bind(s, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(s, 8) < 0 ||
        !path_of(name, sizeof name, run, who, ".sock") || rename(sa.sun_path, name) < 0)
        return -1;
    return CAY_STEAL_FD(s);
}

int operator_open(void)
{
    int fd = open("egress.conf", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        fd = open("/etc/cay/egress.conf", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    /* One that is there and cannot be read is not none: egress refuses to start without its
     * operator's word. */
    if (fd < 0 && errno == ENOENT)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd;
}

/* Records of what was decided; cay-egress may write there and nowhere else. */
static int open_records(int mode)
{
    uid_t owner = 0;
    if (mode == CAY_MODE_ROOT)
        owner = EGRESS_ID;
    struct stat st;
    if ((mkdir("net", 0700) < 0 && errno != EEXIST) || lstat("net", &st) < 0)
        return -1;
    /* Where a server that is not root reads them, they are of its group
     * (helper/root_helper/trees.c). */
    if (lchown("net", owner, st.st_mode & S_ISGID ? st.st_gid : owner) < 0)
        return -1;
    return open("net", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* No capability in any set, and no way back to one. */
static bool become_nobody(int mode)
{
    struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    if (CAY__MUTANT("egress-root"))
        return true;
    for (unsigned c = 0; c <= 63; c++)
        if (prctl(PR_CAPBSET_READ, c, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
            return false;
    prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED);
    if (mode == CAY_MODE_ROOT && (syscall(SYS_setgroups, 0, NULL) < 0 ||
                                  syscall(SYS_setresgid, EGRESS_ID, EGRESS_ID, EGRESS_ID) < 0 ||
                                  syscall(SYS_setresuid, EGRESS_ID, EGRESS_ID, EGRESS_ID) < 0))
        return false;
    return syscall(SYS_capset, &h, none) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

static _Noreturn void child_main(const char *program, int mode, const int *fds, int nfds, int tell)
{
    char *const argv[] = { strrchr(program, '/') + 1, NULL }, *const env[] = { NULL };
    int high[4];
    setsid();
    umask(027); /* the group is that of the directory, if it lends its own, or one that nobody is in
                 */
    for (int i = 0; i <= nfds; i++)
        high[i] = fcntl(i < nfds ? fds[i] : tell, F_DUPFD_CLOEXEC, 16);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 0);
    dup2(null, 1);
    for (int i = 0; i < nfds; i++)
        dup2(high[i], 3 + i);
    int exe = open(program, O_RDONLY | O_CLOEXEC); /* before its directory may be out of reach */
    if (exe >= 0 && chdir("/") == 0 && become_nobody(mode)) {
        syscall(SYS_close_range, 3 + (unsigned)nfds, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
        syscall(SYS_execveat, exe, "", argv, env, AT_EMPTY_PATH);
    }
    (void)!write(high[nfds], &errno, sizeof errno);
    _exit(127);
}

/* "PID START": which process it is, for whoever has to end it. */
static void write_pid(const char *run, enum outside who, int pid)
{
    char path[4096], line[64], a[21], b[21];
    path_of(path, sizeof path, run, who, ".pid");
    CAY_JOIN(line, cay__str_u64(a, (uint64_t)pid), " ", cay__str_u64(b, cay__start_time(pid)),
             "\n");
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        cay__fd_write_all(fd, line, strlen(line));
}

void outside_stop(const char *run, enum outside who, int sig)
{
    char path[4096], line[64] = "", *gap;
    uint64_t pid, start;
    path_of(path, sizeof path, run, who, ".pid");
    if (cay__fd_read_file(AT_FDCWD, path, line, sizeof line) <= 0 || !(gap = strchr(line, ' ')))
        return;
    *gap++ = 0;
    gap[strcspn(gap, "\n")] = 0;
    if (!cay__str_to_u64(line, &pid) || !cay__str_to_u64(gap, &start) || !pid)
        return;
    CAY_AUTOFD fd = (int)syscall(SYS_pidfd_open, (int)pid, 0);
    if (fd >= 0 && start && cay__start_time((int)pid) == start) {
        struct pollfd p = { fd, POLLIN, 0 };
        syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
        if (poll(&p, 1, 1000) == 0)
            syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    }
    unlink(path);
    path_of(path, sizeof path, run, who, ".sock");
    unlink(path);
}

const char *outside_start(const char *run, const char *keeper, int mode, enum outside who)
{
    char program[4096];
    const char *slash = strrchr(keeper, '/');
    int tell[2], e = 0;
    errno = ENOENT;
    if (!slash || (size_t)(slash - keeper) + sizeof "/cay-intercept" > sizeof program)
        return "its program";
    memcpy(program, keeper, (size_t)(slash - keeper));
    cay__str_join(program + (slash - keeper), sizeof program - (size_t)(slash - keeper), "/cay-",
                  names[who], NULL);
    CAY_AUTOFD l = listen_at(run, who);
    if (l < 0)
        return "its socket";
    CAY_AUTOFD op = operator_open();
    if (op < 0)
        return "the operator's file egress.conf";
    CAY_AUTOFD dir = -1;
    if (who == OUT_EGRESS)
        dir = open_records(mode);
    if (who == OUT_EGRESS && dir < 0)
        return "the directory net of the state directory";
    if (pipe2(tell, O_CLOEXEC) < 0)
        return "pipe";
    const int fds[3] = { l, who == OUT_EGRESS ? dir : op, op };
    CAY_FAULT("lender.egress.start");
    int pid = fork();
    if (pid == 0)
        child_main(program, mode, fds, who == OUT_EGRESS ? 3 : 2, tell[1]);
    close(tell[1]);
    bool failed = pid < 0 || read(tell[0], &e, sizeof e) == sizeof e;
    close(tell[0]);
    if (failed) {
        if (pid >= 0)
            errno = e;
        return "its program";
    }
    write_pid(run, who, pid);
    CAY_FAULT("lender.egress.started");
    return NULL;
}
