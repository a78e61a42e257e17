/* SPDX-License-Identifier: Apache-2.0 */
#include "storage.h"
#include <base/base.h>
#include <base/path.h>
#include <limits.h>
#include <proto/mount.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/file.h>

static bool in_path(const char *program)
{
    char path[PATH_MAX];
    const char *list = getenv("PATH");
    for (const char *s = cay__text_or(list, "/usr/bin:/bin"); *s; s += strspn(s, ":")) {
        size_t n = strcspn(s, ":");
        CAY_FORMAT(path, "%.*s/%s", (int)CAY_MIN(n, sizeof path), s, program);
        if (access(path, X_OK) == 0)
            return true;
        s += n;
    }
    return false;
}

static int fail_missing_tool(const cay__storage_mount *m, const char *what, const char *remedy,
                             cay_err *err)
{
    return cay_fail_why(err, CAY_ENOTSUP, "mount_missing_tool", "entry %.80s: %s; %s", m->entry,
                        what, remedy);
}

int cay__storage_check(const cay__storage_mount *m, size_t n, cay_err *err)
{
    struct stat st;
    if (n > CAY__STORAGE_MOST)
        return cay_fail_why(err, CAY_ETOOBIG, "too_many_grants", "%zu storage mounts: at most %d",
                            n, CAY__STORAGE_MOST);
    CAY_EACH_OF(it, m, n) {
        bool kernel = !strcmp(it->type, "s3_files_mount");
        if (geteuid() != 0)
            return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                                "entry %.80s: storage is mounted by root only; run cay as root, or "
                                "copy the files in",
                                it->entry);
        if (kernel && access("/sbin/mount.s3files", X_OK) < 0 &&
            access("/usr/sbin/mount.s3files", X_OK) < 0)
            return fail_missing_tool(it, "mount.s3files is not installed",
                                     "install the S3 Files client of AWS", err);
        if (!kernel && (stat("/dev/fuse", &st) < 0 || !S_ISCHR(st.st_mode)))
            return fail_missing_tool(it, "this host has no /dev/fuse",
                                     "load the kernel's fuse module", err);
        if (!kernel && !in_path("rclone"))
            return fail_missing_tool(it, "rclone is not installed", "apt-get install rclone", err);
    }
    return 0;
}

static int spawn_helper(const char *path, const char *home, int sock, cay_err *err)
{
    char *argv[] = { (char *)"cay-mount", (char *)home, NULL };
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
    sigset_t none, all;
    pid_t pid;
    int status = 0, high = fcntl(sock, F_DUPFD_CLOEXEC, 10);
    if (high < 0)
        return cay_fail_sys(err, "start %s", path);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&acts);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_addopen(
        &acts, 0, "/dev/null", O_RDWR,
        0); /* it lives on: nobody's terminal or pipe stays open with it */
    posix_spawn_file_actions_adddup2(&acts, 0, 1);
    posix_spawn_file_actions_adddup2(&acts, 0, 2);
    posix_spawn_file_actions_adddup2(&acts, high, 3);
    int rc = posix_spawn(&pid, path, &acts, &attr, argv, environ);
    close(high);
    posix_spawn_file_actions_destroy(&acts);
    posix_spawnattr_destroy(&attr);
    errno = rc;
    if (rc)
        return cay_fail_sys(err, "start %s", path);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) /* the one that stays is its child */
        ;
    if (status)
        return cay_fail_why(err, CAY_ESYS, "mount_failed", "cay-mount could not be started");
    return 0;
}

static int receive_answer(int sock, const cay_call *call, cay_mount_answer *a, int *fd,
                          cay_err *err)
{
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    CAY_TRY(cay__call_wait(call, sock, POLLIN, "mount", err));
    ssize_t n = cay__fd_recv(sock, a, sizeof *a, fds, &nfds, 0);
    if (n == sizeof *a && nfds == 1)
        *fd = fds[0];
    else
        *fd = -1;
    for (int i = *fd >= 0; n > 0 && i < nfds; i++)
        close(fds[i]);
    if (n != sizeof *a)
        return cay_fail_why(err, CAY_EUPSTREAM, "mount_failed", "cay-mount ended in the middle");
    a->msg[sizeof a->msg - 1] = 0;
    return 0;
}

static int request_mount(int sock, const cay_call *call, const cay__storage_mount *m,
                         const cay__storage_plan *p, int *fd, cay_err *err)
{
    cay_mount_ask head = {
        .op = CAY_MOUNT_MOUNT, .rw = m->rw, .kernel = p->kernel, .nargs = (uint32_t)p->nargs
    };
    cay_mount_answer a = { 0 };
    CAY_AUTOBUF b = CAY__BUF(CAY_MOUNT_MAX);
    cay__buf_add(&b, &head, sizeof head);
    const char *texts[] = { p->config, p->file, p->remote, CAY_OR(m->target, "") };
    CAY_EACH(text, texts)
        cay__buf_add(&b, *text, strlen(*text) + 1);
    CAY_EACH_OF(arg, p->args, p->nargs)
        cay__buf_add(&b, *arg, strlen(*arg) + 1);
    int rc = 0;
    if (b.full)
        rc = cay_fail_why(err, CAY_ETOOBIG, "mount_config_invalid",
                          "entry %.80s: its configuration is too long", m->entry);
    if (rc == 0 && cay__fd_send(sock, b.data, b.len, NULL, 0, 0) < 0)
        rc = cay_fail_sys_as(err, CAY_EUPSTREAM, "entry %.80s: ask cay-mount", m->entry);
    if (b.data)
        explicit_bzero(b.data, b.len);
    if (rc == 0)
        rc = receive_answer(sock, call, &a, fd, err);
    if (rc < 0 || *fd >= 0)
        return rc;
    cay__storage_redact(m, a.msg);
    if (a.missing)
        return fail_missing_tool(m, "the program that serves it cannot be started",
                                 "install rclone", err);
    rc = cay_fail_why(err, CAY_EUPSTREAM, "mount_failed", "entry %.60s: %.170s", m->entry,
                      cay__text_or(a.msg, strerror(CAY_OR(a.sys, EIO))));
    if (err)
        err->sys = a.sys;
    return rc;
}

int cay__storage_open(const char *home, const char *libexec, const cay_call *call, const char *id,
                      const cay__storage_mount *m, size_t n, cay__storage *out, cay_err *err)
{
    char path[PATH_MAX];
    int pair[2], room = CAY_MOUNT_MAX, rc = 0;
    if (!n)
        return 0;
    CAY_TRY(cay__storage_check(m, n, err));
    CAY_TRY(cay__libexec_find(libexec, "cay-mount", path, sizeof path, err));
    CAY_TRY_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), err,
                "start cay-mount");
    CAY_AUTOFD theirs = pair[1];
    out->sock = pair[0];
    setsockopt(out->sock, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    rc = spawn_helper(path, home, theirs, err);
    cay__close_fd(&theirs);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        cay__storage_plan p;
        rc = cay__storage_conf(&m[i], id, i, CAY_MOUNT_PLACE, &p, err);
        if (rc == 0) {
            rc = request_mount(out->sock, call, &m[i], &p, &out->mounts[i], err);
            cay__storage_plan_clear(&p);
        }
        out->n += rc == 0;
    }
    if (rc < 0)
        cay__storage_close(out);
    return rc;
}

int cay__storage_hold(cay__storage *s, const char *id, int pid, cay_err *err)
{
    cay_mount_ask head = { .op = CAY_MOUNT_HOLD, .pid = pid };
    CAY_COPY(head.id, id);
    cay_mount_answer a = { 0 };
    int fd;
    if (s->sock < 0)
        return 0;
    if (pid <= 0 || cay__fd_send(s->sock, &head, sizeof head, NULL, 0, 0) < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "mount_failed", "cay-mount is gone");
    CAY_TRY(receive_answer(s->sock, NULL, &a, &fd, err));
    cay__close_fd(&fd);
    if (a.sys)
        return cay_fail_why(err, CAY_EUPSTREAM, "mount_failed",
                            "the storage cannot be bound to the sandbox's life: %s",
                            strerror(a.sys));
    return 0;
}

void cay__storage_close(cay__storage *s)
{
    CAY_EACH_OF(mount, s->mounts, s->n)
        cay__close_fd(mount);
    s->n = 0;
    cay__close_fd(&s->sock);
}

int cay__storage_show(cay__storage *s, int pid, const char *name, const char *target, cay_err *err)
{
    cay_mount_ask head = { .op = CAY_MOUNT_SHOW, .pid = pid };
    cay_mount_answer a = { 0 };
    CAY_AUTOBUF b = CAY__BUF(CAY_MOUNT_MAX);
    const char *texts[] = { name, target, "", "" }; /* as many as MOUNT has */
    int fd;
    cay__buf_add(&b, &head, sizeof head);
    CAY_EACH(text, texts)
        cay__buf_add(&b, *text, strlen(*text) + 1);
    if (s->n != 1 || pid <= 0 || b.full ||
        cay__fd_send(s->sock, b.data, b.len, s->mounts, 1, 0) < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "mount_failed", "cay-mount is gone");
    CAY_TRY(receive_answer(s->sock, NULL, &a, &fd, err));
    cay__close_fd(&fd);
    if (a.sys == EEXIST)
        return cay_fail_why(err, CAY_EEXIST, "mount_exists", "storage is mounted on %.150s already",
                            target);
    if (a.sys == ENOENT || a.sys == ENOTDIR || a.sys == ELOOP)
        return cay_fail_why(err, CAY_ENOENT, "mount_target",
                            "%.150s is no directory of the sandbox, or behind a link", target);
    if (a.sys)
        return cay_fail_why(err, CAY_EUPSTREAM, "mount_failed",
                            "%.150s: the kernel does not take the mount: %s", target,
                            strerror(a.sys));
    return 0;
}

int cay__storage_hide(const char *home, const char *name, const cay_call *call, cay_err *err)
{
    char path[PATH_MAX];
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    cay_mount_ask head = { .op = CAY_MOUNT_HIDE };
    cay_mount_answer a = { 0 };
    int fd;
    CAY_JOIN(path, home, "/mounts");
    CAY_AUTOFD dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
               sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CAY_FORMAT(to.sun_path, "/proc/self/fd/%d/%.60s", dir, name);
    if (dir < 0 || sock < 0 || connect(sock, (struct sockaddr *)&to, sizeof to) < 0)
        return cay_fail_why(err, CAY_ENOENT, "mount_unknown", "there is no such mount");
    if (cay__fd_send(sock, &head, sizeof head, NULL, 0, 0) < 0)
        return cay_fail_sys_as(err, CAY_EUPSTREAM, "ask cay-mount");
    CAY_TRY(receive_answer(sock, call, &a, &fd, err));
    cay__close_fd(&fd);
    if (a.sys)
        return cay_fail_why(err, CAY_EUPSTREAM, "mount_failed",
                            "the kernel does not let go of the mount: %s", strerror(a.sys));
    return 0;
}

/* The marks say what ended; a file that nobody holds, that cay-mount itself was killed, and rclone
 * with it. */
void cay__storage_look(int home_fd, const char *id,
                       void (*fn)(const char *target, const char *why, void *arg), void *arg)
{
    char path[64];
    cay_mount_mark m;
    CAY_JOIN(path, "mounts/", id);
    CAY_AUTOFD fd = openat(home_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    bool served = flock(fd, LOCK_SH | LOCK_NB) < 0;
    for (off_t at = 0; pread(fd, &m, sizeof m, at) == (ssize_t)sizeof m; at += (off_t)sizeof m) {
        m.target[sizeof m.target - 1] = m.why[sizeof m.why - 1] = 0;
        fn(m.target, *m.why || served ? m.why : "cay-mount, which ran rclone for it, was killed",
           arg);
    }
}
