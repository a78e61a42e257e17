/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alone - runs a program where nothing else is seen, so that what a test leaves can be told from
 * what others do.
 *
 *     alone [-d USER] DIR PROGRAM ARG…
 *
 * As root: pid, IPC and mount namespaces of its own with a fresh /proc, a tmpfs on DIR, and a group
 * of its own in every hierarchy; -d hands those groups over to USER, as a session manager
 * delegates. Propagation is shared inside, as on an ordinary host. A small pid 1 reaps what is
 * orphaned. Everything ends with PROGRAM. Not as root it only runs PROGRAM.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char groups[24][PATH_MAX];
static int ngroups;

static void put(const char *dir, const char *file, const char *text)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        fprintf(stderr, "alone: %s: %s\n", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void hand_over(const char *dir, const struct passwd *to)
{
    static const char *const files[] = { "", "cgroup.procs", "cgroup.subtree_control",
                                         "cgroup.threads", "tasks" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_MAX + 64];
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        if (chown(path, to->pw_uid, to->pw_gid) < 0 && errno != ENOENT)
            fprintf(stderr, "alone: %s: %s\n", path, strerror(errno));
    }
}

/* Nobody may enter a cpuset before it has cpus and memory: those of the group that it is in. */
static void like_parent(const char *dir)
{
    static const char *const files[] = { "cpuset.cpus", "cpuset.mems" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_MAX + 64], text[4096];
        snprintf(path, sizeof path, "%s/../%s", dir, files[i]);
        FILE *f = fopen(path, "re");
        if (f && fgets(text, sizeof text, f))
            put(dir, files[i], text);
        if (f)
            fclose(f);
    }
}

/* One group below our own for every controller, and in the v2 tree. */
static void make_groups(const struct passwd *to)
{
    FILE *own = fopen("/proc/self/cgroup", "re");
    char line[4096];
    while (own && fgets(line, sizeof line, own) && ngroups < 24) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        names++;
        FILE *mi = fopen("/proc/self/mountinfo", "re");
        char m[8192], point[PATH_MAX], type[32], super[256];
        while (mi && fgets(m, sizeof m, mi)) {
            char *dash = strstr(m, " - ");
            if (!dash || sscanf(m, "%*d %*d %*s %*s %4095s", point) != 1 ||
                sscanf(dash, " - %31s %*s %255s", type, super) != 2)
                continue;
            const char *s = strncmp(super, "rw,", 3) ? super : super + 3;
            if (*names ? strcmp(type, "cgroup") || strcmp(s, names) : strcmp(type, "cgroup2"))
                continue;
            snprintf(groups[ngroups], PATH_MAX, "%.2000s%.1900s/cay-test-%d", point,
                     strcmp(path, "/") ? path : "", getpid());
            if (mkdir(groups[ngroups], 0755) == 0) {
                if (strstr(names, "cpuset"))
                    like_parent(groups[ngroups]);
                if (to)
                    hand_over(groups[ngroups], to);
                ngroups++;
            }
            break;
        }
        if (mi)
            fclose(mi);
    }
    if (own)
        fclose(own);
}

static void remove_groups(void)
{
    while (ngroups-- > 0)
        for (int i = 0; rmdir(groups[ngroups]) < 0 && errno == EBUSY && i < 100; i++)
            usleep(10000);
}

/* pid 1: PROGRAM's exit status is ours, and nobody stays a zombie. */
static int first(char **argv)
{
    int status, pid = fork();
    if (pid == 0) {
        setsid();
        execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    for (;;) {
        int got = waitpid(-1, &status, 0);
        if (got == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (got < 0 && errno != EINTR)
            return 1;
    }
}

static int inside(const char *dir, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ||
        mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) < 0) {
        perror("alone: mounts");
        return 1;
    }
    return first(argv);
}

int main(int argc, char **argv)
{
    struct passwd *to = NULL;
    int at = 1, status;
    if (argc > 2 && !strcmp(argv[1], "-d")) {
        to = getpwnam(argv[2]);
        if (!to) {
            fprintf(stderr, "alone: no user %s\n", argv[2]);
            return 1;
        }
        at = 3;
    }
    if (argc < at + 2) {
        fprintf(stderr, "usage: alone [-d USER] DIR PROGRAM ARG…\n");
        return 2;
    }
    if (geteuid() != 0)
        return execvp(argv[at + 1], argv + at + 1);
    make_groups(to);
    int outer = fork();
    if (outer == 0) { /* a helper of ours joins the groups, so that we can remove them afterwards */
        for (int i = 0; i < ngroups; i++)
            put(groups[i], "cgroup.procs", "0");
        if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC) < 0) {
            perror("alone: unshare");
            _exit(1);
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int pid = fork();
        if (pid == 0)
            _exit(inside(argv[at], argv + at + 1));
        waitpid(pid, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    while (waitpid(outer, &status, 0) < 0 && errno == EINTR)
        ;
    remove_groups();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
