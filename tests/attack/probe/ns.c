/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces: other processes, pid 1, user namespaces, joining, gaining rights, IPC. */
#include "probe.h"
#include <dirent.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static bool seen[65536];
static int nseen;

static void note(int pid)
{
    if (pid < (int)sizeof seen) {
        seen[pid] = true;
        nseen++;
    }
}

static void pids(int argc, char **argv)
{
    char buf[4096];
    int strays = 0;
    each_pid(note);
    for (int pid = 1; pid < (int)sizeof seen; pid++) {
        if (kill(pid, 0) < 0 && errno == ESRCH && seen[pid])
            breach("pid %d is listed but does not exist: /proc is of another namespace", pid);
        else if ((kill(pid, 0) == 0 || errno != ESRCH) && !seen[pid])
            strays++;
    }
    if (strays > 2) /* one may have begun since */
        breach("%d pids answer that /proc does not list", strays);
    if (nseen > 12)
        breach("%d processes are visible", nseen);
    else
        ok("%d processes are visible", nseen);
    for (int pid = 1; pid < (int)sizeof seen; pid++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        if (seen[pid] && argc > 0 && slurp(path, buf, sizeof buf) > 0 &&
            !strncmp(buf, argv[0], strlen(argv[0])))
            breach("the host's process %s is visible as %d", argv[0], pid);
    }
    if (getppid() != 0 && (!seen[1] || kill(1, 0) == 0 || errno == EPERM))
        ok("pid 1 is there");
    else
        breach("no pid 1");
}

static void leave(int argc, char **argv)
{
    for (int i = 0; i < 8; i++) {
        if (fork() != 0)
            continue;
        setsid();
        if (fork() != 0)
            _exit(0);
        for (int s = 1; s < 65; s++)
            signal(s, SIG_IGN);
        prctl(PR_SET_NAME, argc > 0 ? argv[0] : "leftover");
        syscall(SYS_close_range, 0u, ~0u, 0);
        if (chdir("/tmp") < 0)
            _exit(1);
        for (;;)
            pause();
    }
    while (waitpid(-1, NULL, 0) > 0)
        ;
    ok("eight stay behind");
}

static void pid1(int argc, char **argv)
{
    static const int sigs[] = { SIGKILL, SIGSTOP, SIGTERM, SIGSEGV, SIGABRT,
                                SIGUSR1, SIGUSR2, SIGCHLD, SIGTSTP, 34 };
    char buf[64];
    (void)argc, (void)argv;
    for (size_t i = 0; i < sizeof sigs / sizeof *sigs; i++)
        for (int n = 0; n < 20; n++)
            kill(1, sigs[i]);
    nap(50);
    status_line("1", "State", buf, sizeof buf);
    if (buf[0] == 'S' || buf[0] == 'R')
        ok("pid 1 is in state %s", buf);
    else
        breach("pid 1 is in state %s", buf);
    kill(-1, SIGKILL); /* all that we may signal, but not ourselves and not 1 */
    nap(50);
    status_line("1", "State", buf, sizeof buf);
    if (buf[0] == 'S' || buf[0] == 'R')
        ok("pid 1 outlives kill -1");
    else
        breach("pid 1 is gone");
}

/* Stops whatever it may, again and again: commands between their start and their first instruction
 * hold init, file workers hold their clients. ARG: ms. */
static void stopper(int argc, char **argv)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    time_t end = t.tv_sec + 1 + (argc > 0 ? atol(argv[0]) : 5000) / 1000;
    dprintf(1, "ready\n");
    do {
        for (int i = 0; i < 100; i++)
            kill(-1, SIGSTOP);
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while (t.tv_sec < end);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void userns(int argc, char **argv)
{
    static char stack[65536] __attribute__((aligned(16)));
    static const struct {
        const char *name;
        int flag;
    } kinds[] = {
        { "user", CLONE_NEWUSER }, { "mount", CLONE_NEWNS }, { "pid", CLONE_NEWPID },
        { "net", CLONE_NEWNET },   { "ipc", CLONE_NEWIPC },  { "uts", CLONE_NEWUTS },
        { "cgroup", 0x02000000 },  { "time", 0x80 },
    };
    char what[64], buf[64];
    (void)argc, (void)argv;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(what, sizeof what, "unshare %s", kinds[i].name);
        must_fail(what, syscall(SYS_unshare, (long)kinds[i].flag), EPERM);
        if (kinds[i].flag == 0x80)
            continue; /* for clone these bits are the signal */
        snprintf(what, sizeof what, "clone %s", kinds[i].name);
        must_fail(what, clone(nothing, stack + sizeof stack, kinds[i].flag | SIGCHLD, NULL), EPERM);
        /* bits the kernel does not look at must not hide those it does */
        snprintf(what, sizeof what, "clone %s with high bits", kinds[i].name);
        must_fail(what, syscall(SYS_clone, 0xdead00000000L | kinds[i].flag | SIGCHLD, 0, 0, 0, 0),
                  EPERM);
    }
    uint64_t args[11] = { CLONE_NEWUSER, 0, 0, 0, SIGCHLD };
    must_fail("clone3", syscall(SYS_clone3, args, sizeof args), ENOSYS);
    /* the layer below the filter */
    if (slurp("/proc/sys/user/max_user_namespaces", buf, sizeof buf) > 0 && atoi(buf) == 0)
        ok("max_user_namespaces is 0");
    else
        breach("max_user_namespaces is %s", buf);
    int fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        ok("and cannot be changed: %s", strerror(errno));
    else
        breach("max_user_namespaces can be written");
}

static char **host_ns;
static int nhost_ns;

static void not_the_hosts(const char *what, int fd)
{
    char path[64], id[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, id, sizeof id - 1);
    id[n < 0 ? 0 : n] = 0;
    for (int i = 0; i < nhost_ns; i++)
        if (!strcmp(host_ns[i], id))
            breach("%s gives the host's %s", what, id);
    must_fail(what, syscall(SYS_setns, (long)fd, 0L), EPERM);
    close(fd);
}

/* What the kernel hands out beside a handle: the owner and parent of a namespace, the namespaces of
 * a process. */
static void ask_around(const char *what, int fd, unsigned long first, unsigned long last)
{
    for (unsigned long r = first; r <= last; r++) {
        int got = (int)syscall(SYS_ioctl, (long)fd, (long)r, 0L);
        if (got > 2)
            not_the_hosts(what, got);
    }
}

static void try_ns(int pid)
{
    char dir[64], path[400], id[64];
    snprintf(dir, sizeof dir, "/proc/%d/ns", pid);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        ssize_t n = readlink(path, id, sizeof id - 1);
        id[n < 0 ? 0 : n] = 0;
        for (int i = 0; i < nhost_ns; i++)
            if (!strcmp(host_ns[i], id))
                breach("%s is the host's %s", path, id);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        must_fail(path, syscall(SYS_setns, (long)fd, 0L), EPERM);
        ask_around(path, fd, 0xb701, 0xb702);
        close(fd);
    }
    if (d)
        closedir(d);
    int fd = (int)syscall(SYS_pidfd_open, (long)pid, 0L);
    if (fd >= 0) {
        must_fail("setns by pidfd",
                  syscall(SYS_setns, (long)fd, (long)(CLONE_NEWNS | CLONE_NEWUSER)), EPERM);
        ask_around("a pidfd", fd, 0xff01, 0xff0a);
        close(fd);
    }
}

static void setns_all(int argc, char **argv)
{
    host_ns = argv;
    nhost_ns = argc;
    each_pid(try_ns);
}

static void rights(int argc, char **argv)
{
    static const char *const sets[] = { "CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh" };
    char buf[128];
    unsigned long long allowed = argc > 0 ? strtoull(argv[0], NULL, 16) : 0;
    if (status_line("self", "NoNewPrivs", buf, sizeof buf)[0] == '1')
        ok("NoNewPrivs is 1");
    else
        breach("NoNewPrivs is %s", buf);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        unsigned long long have = strtoull(status_line("self", sets[i], buf, sizeof buf), NULL, 16);
        if (have & ~allowed)
            breach("%s is %llx", sets[i], have);
        else
            ok("%s is %llx", sets[i], have);
    }
    if (getuid() == geteuid() && getgid() == getegid())
        ok("ids are %d:%d", getuid(), getgid());
    else
        breach("uid %d but effective %d, gid %d but effective %d", getuid(), geteuid(), getgid(),
               getegid());
    if (argc > 1 && atoi(argv[1]) != (int)geteuid())
        breach("became uid %d", geteuid());
}

/* As root inside: give a file capabilities. */
static void filecaps(int argc, char **argv)
{
    /* vfs_cap_data version 2, all permitted, effective */
    static const uint32_t caps[5] = { 0x02000001u, 0xffffffffu, 0, 0xffffffffu, 0 };
    if (argc > 0)
        must_fail("setxattr security.capability",
                  setxattr(argv[0], "security.capability", caps, sizeof caps, 0), EPERM);
}

/* Every mount: no set-uid program, no device. */
static void flags(int argc, char **argv)
{
    static char text[65536];
    (void)argc, (void)argv;
    slurp("/proc/self/mountinfo", text, sizeof text);
    for (char *s = text, *save, *line; (line = strtok_r(s, "\n", &save)); s = NULL) {
        char point[512] = "", opts[512] = "";
        sscanf(line, "%*d %*d %*s %*s %511s %511s", point, opts);
        bool dev = !strncmp(point, "/dev", 4) || !strncmp(point, "/proc/", 6);
        if (!strstr(opts, "nosuid"))
            breach("%s is mounted %s: set-uid programs work there", point, opts);
        if (!dev && !strstr(opts, "nodev"))
            breach("%s is mounted %s: device nodes work there", point, opts);
    }
    ok("flags of all mounts were read");
}

#define IPC_KEY 0x0ca7a77a

static struct sockaddr_un abstract(const char *tag, socklen_t *len)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    snprintf(sa.sun_path + 1, sizeof sa.sun_path - 1, "cay-attack-%s", tag);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(sa.sun_path + 1));
    return sa;
}

static void ipc_make(int argc, char **argv)
{
    socklen_t len;
    struct sockaddr_un sa = abstract(argc > 0 ? argv[0] : "x", &len);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (shmget(IPC_KEY, 4096, IPC_CREAT | 0666) < 0 || semget(IPC_KEY, 1, IPC_CREAT | 0666) < 0 ||
        msgget(IPC_KEY, IPC_CREAT | 0666) < 0)
        breach("cannot make own SysV objects: %s",
               strerror(errno)); /* the case would show nothing */
    if (syscall(SYS_mq_open, "cay-attack", O_CREAT | O_RDWR, 0666, NULL) < 0)
        breach("cannot make an own queue: %s", strerror(errno));
    if (bind(s, (struct sockaddr *)&sa, len) < 0 || listen(s, 5) < 0)
        breach("cannot listen: %s", strerror(errno));
    ok("objects are made");
    dprintf(1, "ready\n");
    for (;;)
        pause();
}

static void ipc_find(int argc, char **argv)
{
    must_fail("shmget", shmget(IPC_KEY, 4096, 0), ENOENT);
    must_fail("semget", semget(IPC_KEY, 1, 0), ENOENT);
    must_fail("msgget", msgget(IPC_KEY, 0), ENOENT);
    must_fail("mq_open", syscall(SYS_mq_open, "cay-attack", O_RDWR, 0, NULL), ENOENT);
    for (int i = 0; i < argc; i++) {
        socklen_t len;
        struct sockaddr_un sa = abstract(argv[i], &len);
        int s = socket(AF_UNIX, SOCK_STREAM, 0);
        /* ECONNREFUSED: nobody of that name here; EPERM: Landlock's scope */
        must_fail_by("connect to an abstract name", connect(s, (struct sockaddr *)&sa, len),
                     ECONNREFUSED, EPERM);
        close(s);
    }
}

const probe ns_probes[] = {
    { "pids", pids },         { "leave", leave },       { "pid1", pid1 },
    { "userns", userns },     { "stopper", stopper },   { "setns", setns_all },
    { "rights", rights },     { "filecaps", filecaps }, { "flags", flags },
    { "ipc-make", ipc_make }, { "ipc-find", ipc_find }, { NULL, NULL },
};
