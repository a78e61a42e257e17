/* SPDX-License-Identifier: Apache-2.0 */
/* /proc, /sys and /dev: what is masked, what is read-only, what other processes give away. */
#include "probe.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *const masked[] = {
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/kallsyms",
    "/proc/kmsg",
    "/proc/config.gz",
    "/proc/vmallocinfo",
    "/proc/slabinfo",
    "/proc/pagetypeinfo",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/sys/kernel/security",
    "/sys/fs/cgroup",
    "/sys/fs/bpf",
    "/sys/fs/fuse",
};

static const char *const settings[] = {
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/kernel/shmmax",
    "/proc/sys/kernel/msgmax",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/mqueue/queues_max",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/ip_unprivileged_port_start",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_net_namespaces",
    "/proc/irq/default_smp_affinity",
    "/proc/sys/kernel/random/boot_id",
};

static bool is_empty(const char *path)
{
    struct stat st;
    char buf[64];
    if (stat(path, &st) < 0)
        return true;
    if (S_ISDIR(st.st_mode)) {
        DIR *d = opendir(path);
        int n = 0;
        for (struct dirent *e; d && (e = readdir(d));)
            n += e->d_name[0] != '.';
        if (d)
            closedir(d);
        return n == 0;
    }
    return slurp(path, buf, sizeof buf) <= 0;
}

static void masks(int argc, char **argv)
{
    char buf[256];
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++) {
        struct stat st;
        if (is_empty(masked[i]))
            ok("%s shows nothing", masked[i]);
        else
            breach("%s can be read", masked[i]);
        /* /dev/null lies over files: a write that goes nowhere is as good as a refusal */
        if (lstat(masked[i], &st) == 0 && S_ISREG(st.st_mode) &&
            open(masked[i], O_WRONLY | O_CLOEXEC) >= 0)
            breach("%s can be opened for writing", masked[i]);
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        int fd = open(settings[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0 && (errno == EROFS || errno == ENOENT || errno == EACCES || errno == EPERM))
            ok("%s: %s", settings[i], strerror(errno));
        else
            breach("%s can be opened for writing", settings[i]);
    }
    if (argc > 0 && slurp("/proc/sys/kernel/random/boot_id", buf, sizeof buf) > 0 &&
        !strncmp(buf, argv[0], strlen(argv[0])))
        breach("the host's boot id is told");
    else if (argc > 0)
        ok("the boot id is another than the host's");
    if (access("/sys/kernel", F_OK) == 0)
        breach("/sys is mounted");
}

/* A directory marked read-only is so even for root inside, whose rights alone would allow the
 * write. */
static void readonly_proc(int argc, char **argv)
{
    static const char *const dirs[] = { "/proc/sys/kernel/shmmni", "/proc/sys/kernel/msgmnb",
                                        "/proc/sys/fs/mqueue/msg_max" };
    (void)argc, (void)argv;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        must_fail(dirs[i], open(dirs[i], O_WRONLY | O_CLOEXEC), EROFS);
}

/* S-19: what pid 1 and our helpers give away; the arguments are words that must not be seen
 * ---- */

static char **words;
static int nwords;

static void leak(const char *path, const char *buf, ssize_t n)
{
    for (int i = 0; i < nwords; i++)
        if (memmem(buf, (size_t)n, words[i], strlen(words[i])))
            breach("%s tells %s", path, words[i]);
}

static bool ours(const char *pid)
{
    char me[16], parent[64];
    snprintf(me, sizeof me, "%d", getpid());
    /* what is not started by exec has the program of pid 1 */
    return strcmp(pid, me) && atoi(status_line(pid, "PPid", parent, sizeof parent)) <= 1;
}

static void peek(int pid)
{
    static char buf[1 << 16];
    char n[16], path[64];
    snprintf(n, sizeof n, "%d", pid);
    if (!ours(n))
        return;
    static const char *const closed[] = { "environ", "maps",    "mem",     "auxv",
                                          "stack",   "syscall", "pagemap", "io" };
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        snprintf(path, sizeof path, "/proc/%s/%s", n, closed[i]);
        ssize_t got = slurp(path, buf, sizeof buf);
        if (got > 0)
            breach("%s can be read", path);
        else
            ok("%s: %s", path, got < 0 ? strerror(errno) : "empty");
    }
    snprintf(path, sizeof path, "/proc/%s/mem", n);
    if (open(path, O_RDWR | O_CLOEXEC) >= 0)
        breach("%s can be opened for writing", path);
    static const char *const links[] = { "exe", "cwd", "root", "fd/0", "fd/3", "fd/4", "ns/mnt" };
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "/proc/%s/%s", n, links[i]);
        ssize_t got = readlink(path, buf, sizeof buf);
        if (got > 0)
            breach("%s leads to %.*s", path, (int)got, buf);
        else
            ok("%s: %s", path, strerror(errno));
    }
    static const char *const open_ones[] = { "cmdline",   "status", "stat",  "cgroup",
                                             "mountinfo", "comm",   "limits" };
    for (size_t i = 0; i < sizeof open_ones / sizeof *open_ones; i++) {
        snprintf(path, sizeof path, "/proc/%s/%s", n, open_ones[i]);
        ssize_t got = slurp(path, buf, sizeof buf);
        if (got > 0)
            leak(path, buf, got);
    }
    snprintf(path, sizeof path, "/proc/%s/fd", n);
    /* Rootless, its numbers are open to uid 0 inside; where they lead must not be. */
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        ssize_t got = readlinkat(dirfd(d), e->d_name, buf, sizeof buf);
        if (got > 0)
            breach("%s/%s leads to %.*s", path, e->d_name, (int)got, buf);
        if (e->d_name[0] != '.' &&
            openat(dirfd(d), e->d_name, O_RDONLY | O_NONBLOCK | O_CLOEXEC) >= 0)
            breach("%s/%s can be opened", path, e->d_name);
    }
    if (d)
        closedir(d);
    char byte;
    struct iovec here = { &byte, 1 }, there = { (void *)&leak, 1 };
    must_fail_by("process_vm_readv", process_vm_readv(pid, &here, 1, &there, 1, 0), EPERM, ENOSYS);
    must_fail("ptrace", ptrace(PTRACE_SEIZE, pid, NULL, NULL), EPERM);
    int fd = (int)syscall(SYS_pidfd_open, (long)pid, 0L);
    if (fd >= 0)
        must_fail_by("pidfd_getfd", syscall(SYS_pidfd_getfd, (long)fd, 3L, 0L), EPERM, ENOSYS);
    must_fail_by("kcmp", syscall(SYS_kcmp, (long)pid, (long)getpid(), 0L, 0L, 0L), EPERM, ENOSYS);
}

static void secrets(int argc, char **argv)
{
    static char buf[1 << 16];
    words = argv;
    nwords = argc;
    peek(1);
    each_pid(peek);
    /* our own environment and view hold nothing of the host either */
    static const char *const own[] = { "/proc/self/environ",    "/proc/self/mountinfo",
                                       "/proc/self/cgroup",     "/proc/mounts",
                                       "/proc/self/mountstats", "/proc/net/unix",
                                       "/proc/cmdline" };
    for (size_t i = 0; i < sizeof own / sizeof *own - 1; i++) {
        ssize_t got = slurp(own[i], buf, sizeof buf);
        if (got > 0)
            leak(own[i], buf, got);
    }
}

static void devices(int argc, char **argv)
{
    static const char *const good[] = { "null",    "zero",    "full",   "random",
                                        "urandom", "tty",     "ptmx",   "pts",
                                        "shm",     "fd",      "stdin",  "stdout",
                                        "stderr",  "console", "mqueue", "core" };
    DIR *d = opendir("/dev");
    (void)argc, (void)argv;
    for (struct dirent *e; d && (e = readdir(d));) {
        bool known = e->d_name[0] == '.';
        for (size_t i = 0; i < sizeof good / sizeof *good && !known; i++)
            known = !strcmp(e->d_name, good[i]);
        if (!known)
            breach("/dev/%s", e->d_name);
    }
    if (d)
        closedir(d);
    must_fail_by("create in /dev", open("/dev/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0644), EROFS,
                 EACCES);
    must_fail_by("remove /dev/null", unlink("/dev/null"), EROFS, EACCES);
    struct {
        uint32_t bytes;
        int type;
        char data[128];
    } handle = { .bytes = 128 };
    int mount_id;
    must_fail_by("name_to_handle_at",
                 syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount_id, 0), EPERM,
                 ENOSYS);
    must_fail_by("open_by_handle_at", syscall(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY),
                 EPERM, ENOSYS);
}

static void filtered(int pid)
{
    char n[16], mode[16], nnp[16];
    snprintf(n, sizeof n, "%d", pid);
    if (!status_line(n, "Seccomp", mode, sizeof mode)[0])
        return; /* it ended meanwhile */
    status_line(n, "NoNewPrivs", nnp, sizeof nnp);
    if (mode[0] == '2' && nnp[0] == '1')
        ok("pid %d is filtered", pid);
    else
        breach("pid %d: Seccomp %s, NoNewPrivs %s", pid, mode, nnp);
}

static void filter(int argc, char **argv)
{
    (void)argc, (void)argv;
    each_pid(filtered);
}

const probe proc_probes[] = {
    { "masks", masks },     { "readonly-proc", readonly_proc },
    { "secrets", secrets }, { "devices", devices },
    { "filter", filter },   { NULL, NULL },
};
