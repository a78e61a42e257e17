/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-mount: serves the storage of one sandbox from outside. It has a mount namespace and a little
 * memory of its own, where keys and mount points are; rclone runs there, as nobody (rclone.h). The
 * sandbox gets detached clones of the mounts, by way of the keeper. When the sandbox's init ends,
 * rclone is told to, mount by mount in the order given, and time to bring away what was written.
 */
#include "live.h"
#include <proto/mount.h>
#include "rclone.h"
#include <base/base.h>
#include <base/fault.h>
#include <ftw.h>
#include <proto/mnt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SOCK = 3, MOST = 12, READY_MS = 30000, STEP_MS = 20, FLUSH_MS = 60000 };
#define PLACE      CAY_MOUNT_PLACE
#define CACHES     1024
#define CACHE_MOST "4G" /* what waits to be brought away, roughly */

static struct {
    char cache[3800]; /* absolute */
    int cache_fd;
    uid_t id;     /* rclone's: other than that of another sandbox's */
    int exe;      /* rclone */
    int mounts;   /* STATE-DIRECTORY/mounts */
    int marks;    /* the file of marks, from HOLD on */
    char box[24]; /* the sandbox's id */
    pid_t rclone[MOST];
    cay_mount_mark mark[MOST];
    size_t n;
    int asker; /* who waits until all is brought away; or -1 */
} mounter = { .cache_fd = -1, .exe = -1, .mounts = -1, .marks = -1, .asker = -1 };
static volatile sig_atomic_t ended;

static void on_end(int sig)
{
    ended = 1;
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    remove(path);
    return 0;
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* What one that was killed had not brought away is lost; its directory goes. Who lives holds a lock
 * on it. */
static void sweep_caches(const char *home)
{
    char path[4096];
    for (unsigned i = 0; i < CACHES; i++) {
        CAY_FORMAT(path, "%s/mounts/cache-%u", home, i);
        CAY_AUTOFD fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_tree(path);
    }
}

/* Marks of one that was killed, whose sandbox is gone since. */
static void sweep_marks(void)
{
    CAY_AUTODIR *d = cay__dir_open(mounter.mounts, NULL);
    for (struct dirent *e; d && (e = cay__dir_next(d));) {
        char box[64];
        struct stat st;
        if (!cay__id_valid(e->d_name, 'c') || !CAY_JOIN(box, "../sandboxes/", e->d_name) ||
            fstatat(mounter.mounts, box, &st, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        CAY_AUTOFD held = openat(mounter.mounts, e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (held >= 0 && flock(held, LOCK_EX | LOCK_NB) == 0)
            unlinkat(mounter.mounts, e->d_name, 0);
    }
}

static bool take_cache(const char *home)
{
    for (unsigned i = 0; i < CACHES; i++) {
        CAY_FORMAT(mounter.cache, "%s/mounts/cache-%u", home, i);
        if (mkdir(mounter.cache, 0700) < 0) {
            if (errno != EEXIST)
                return false;
            continue;
        }
        mounter.id = CAY__RCLONE_ID + i;
        mounter.cache_fd = open(mounter.cache, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return mounter.cache_fd >= 0 && flock(mounter.cache_fd, LOCK_EX | LOCK_NB) == 0 &&
               fchown(mounter.cache_fd, mounter.id, mounter.id) == 0;
    }
    errno = EMFILE;
    return false;
}

static int find_program(const char *name)
{
    const char *path = getenv("PATH");
    for (const char *p = CAY_OR(path, "/usr/bin:/bin"); *p;) {
        char full[4096];
        size_t n = strcspn(p, ":");
        CAY_FORMAT(full, "%.*s/%s", (int)n, p, name);
        int fd = -1;
        if (n && *p == '/' && access(full, X_OK) == 0)
            fd = open(full, O_PATH | O_CLOEXEC);
        if (fd >= 0)
            return fd;
        p += n + (p[n] == ':');
    }
    return -1;
}

/* Ourselves, under the name that rclone looks for. */
static bool put_helper(void)
{
    char buf[16384];
    ssize_t n = -1;
    CAY_AUTOFD in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (in < 0 || mkdir(PLACE "/bin", 0755) < 0 || chmod(PLACE "/bin", 0755) < 0)
        return false;
    CAY_AUTOFD out = open(PLACE "/bin/fusermount3", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    while (out >= 0 && (n = read(in, buf, sizeof buf)) > 0)
        if (!cay__fd_write_all(out, buf, (size_t)n))
            return false;
    return out >= 0 && n == 0 && fchmod(out, 0755) == 0 &&
           symlink("fusermount3", PLACE "/bin/fusermount") == 0;
}

static const char *prepare_mounts(const char *home)
{
    char mounts[4096];
    CAY_FORMAT(mounts, "%s/mounts", home);
    if (mkdir(mounts, 0700) < 0 && errno != EEXIST)
        return "make its directory";
    sweep_caches(home);
    if ((mounter.mounts = open(mounts, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) <
        0) /* before anything is covered */
        return "open its directory";
    sweep_marks();
    if (!take_cache(home))
        return "make its cache";
    if (unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, (1ul << 18) | 16384ul, NULL) < 0) /* MS_PRIVATE | MS_REC */
        return "make a mount namespace";
    mounter.exe = find_program("rclone"); /* before anything is covered */
    CAY_AUTOFD cache = mnt_open_tree(AT_FDCWD, mounter.cache, OPEN_TREE_CLONE);
    if (cache < 0 || mount("cay-mount", PLACE, "tmpfs", 2 | 4 /* MS_NOSUID | MS_NODEV */,
                           "mode=711,size=32m") < 0)
        return "mount its memory on " PLACE;
    if (mkdir(PLACE "/cache", 0700) < 0 ||
        mnt_move(cache, "", AT_FDCWD, PLACE "/cache", 4 /* MOVE_MOUNT_F_EMPTY_PATH */) < 0)
        return "show its cache";
    if (put_helper())
        return NULL;
    return "make fusermount3";
}

static bool put_file(const char *name, const char *text)
{
    CAY_AUTOFD fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd >= 0 && cay__fd_write_all(fd, text, strlen(text)) &&
           fchown(fd, mounter.id, mounter.id) == 0;
}

static void exec_program(char *const argv[], const char *log, int fuse)
{
    static const char *const keep[] = { "http_proxy=",    "https_proxy=", "no_proxy=",
                                        "HTTP_PROXY=",    "HTTPS_PROXY=", "NO_PROXY=",
                                        "SSL_CERT_FILE=", "SSL_CERT_DIR=" };
    char *env[16], path[4096];
    const char *found = getenv("PATH");
    size_t n = 0;
    sigset_t none;
    int null = open("/dev/null", O_RDWR), out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (char **e = environ; *e; e++)
        for (size_t i = 0; i < CAY_LEN(keep) && n < 12; i++)
            if (cay__str_starts(*e, keep[i]))
                env[n++] = *e;
    CAY_FORMAT(path, "PATH=%s%s", fuse >= 0 ? PLACE "/bin:" : "",
               CAY_OR(found, "/usr/sbin:/usr/bin:/sbin:/bin"));
    env[n++] = path;
    env[n++] = (char *)"HOME=" PLACE;
    env[n++] = (char *)"LANG=C.UTF-8";
    env[n] = NULL;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (null < 0 || out < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    if (fuse >= 0)
        cay__rclone_run(mounter.exe, fuse, mounter.id, argv, env);
    syscall(SYS_close_range, 3, ~0u, 0);
    execvpe(argv[0], argv, env);
    _exit(127);
}

static pid_t start_program(char *const argv[], const char *log, int fuse)
{
    pid_t pid = fork();
    if (pid == 0)
        exec_program(argv, log, fuse);
    return pid;
}

/* Asks the new filesystem something, in a process of its own: that waits until it is served, and
 * fails when nobody will. */
static pid_t probe_mount(const char *at)
{
    struct stat st;
    pid_t pid = fork();
    if (pid == 0)
        _exit(stat(at, &st) < 0);
    return pid;
}

/* Waits until it is there. 0, or the status with which the program ended, or -1 when it takes too
 * long. */
static int await_mount(pid_t pid, const char *at, bool kernel)
{
    pid_t asks = 0;
    if (!kernel)
        asks = probe_mount(at);
    int status = 0, answer = -1, rc = -1;
    bool gone = false, over = false;
    for (int ms = 0; ms < READY_MS && !ended && !over; ms += STEP_MS) {
        gone = waitpid(pid, &status, WNOHANG) == pid;
        if (asks > 0 && waitpid(asks, &answer, WNOHANG) == asks)
            asks = 0;
        bool ready;
        if (kernel)
            ready = gone && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        else
            ready = !gone && answer == 0;
        over = gone || ready;
        if (ready)
            rc = 0;
        else if (status)
            rc = status;
        else
            rc = 256;
        if (!over)
            poll(NULL, 0, STEP_MS);
    }
    if (!gone && (!over || rc)) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (asks > 0) { /* without a server its question is answered, too */
        kill(asks, SIGKILL);
        waitpid(asks, NULL, 0);
    }
    if (over)
        return rc;
    return -1;
}

/* The end of what the program said, on one line. */
static void last_words(const char *log, char *out, size_t cap)
{
    CAY_AUTOFD fd = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    off_t size = 0;
    if (fd >= 0)
        size = lseek(fd, 0, SEEK_END);
    ssize_t n = 0;
    if (fd >= 0)
        n = pread(fd, out, cap - 1, size > (off_t)cap - 1 ? size - (off_t)cap + 1 : 0);
    out[n > 0 ? n : 0] = 0;
    for (char *s = out; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f)
            *s = ' ';
}

static void build_command(const cay_mount_ask *a, const char *remote, char *const *more,
                          const char *at, const char *conf, const char **argv)
{
    size_t n = 0;
    static const char *const always[] = {
        "--allow-other", "--dir-perms",      "0777", "--file-perms", "0666", "--umask",
        "000",           "--dir-cache-time", "10s",  "--log-level",  "ERROR"
    };
    static const char *const writable[] = { "--vfs-cache-mode",     "writes",
                                            "--vfs-write-back",     "0s",
                                            "--vfs-cache-max-size", CACHE_MOST };
    argv[n++] = a->kernel ? "mount" : "rclone";
    if (a->kernel) {
        const char *const words[] = { "-t", "s3files", "-o", more[0], "--", remote, at };
        memcpy(argv + n, words, sizeof words);
        return;
    }
    argv[n++] = "mount";
    argv[n++] = "--config";
    argv[n++] = conf;
    argv[n++] = "--cache-dir";
    argv[n++] = PLACE "/cache";
    memcpy(argv + n, always, sizeof always);
    n += CAY_LEN(always);
    CAY_EACH_OF(it, writable, CAY_FLAG_IF(a->rw, CAY_LEN(writable)))
        argv[n++] = *it;
    if (!a->rw)
        argv[n++] = "--read-only";
    CAY_EACH_OF(it, more, a->nargs)
        argv[n++] = *it;
    argv[n++] = "--";
    argv[n++] = remote;
    argv[n] = at;
}

static int clone_of(const char *at, bool rw)
{
    CAY_AUTOFD tree = mnt_open_tree(AT_FDCWD, at, OPEN_TREE_CLONE);
    uint64_t set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (rw ? 0 : MOUNT_ATTR_RDONLY);
    if (tree < 0 || mnt_setattr(tree, "", AT_EMPTY_PATH, set, 0, -1) < 0)
        return -1;
    return CAY_STEAL_FD(tree);
}

/* rclone gets a directory of its own to mount on, and does not: the filesystem is at `at` before it
 * starts. */
static int start_rclone(const cay_mount_ask *a, char *const *text, const char *at, const char *conf,
                        const char *log)
{
    char dummy[4096];
    const char *argv[64] = { NULL };
    CAY_JOIN(dummy, at, ".dir");
    if (!a->kernel && mounter.exe < 0)
        return W_EXITCODE(127, 0);
    CAY_AUTOFD fuse = -1;
    if (!a->kernel)
        fuse = cay__fuse_mount(at, mounter.id, a->rw);
    if (!a->kernel &&
        (fuse < 0 || mkdir(dummy, 0700) < 0 || chown(dummy, mounter.id, mounter.id) < 0))
        return -2;
    build_command(a, text[2], text + 4, a->kernel ? at : dummy, conf, argv);
    pid_t pid = start_program((char *const *)(uintptr_t)argv, log, fuse);
    cay__close_fd(&fuse); /* rclone has the only one: its end ends the filesystem */
    int rc = -2;
    if (pid >= 0)
        rc = await_mount(pid, at, a->kernel);
    if (rc == 0) {
        CAY_COPY(mounter.mark[mounter.n].target, text[3]);
        mounter.rclone[mounter.n++] = a->kernel ? 0 : pid;
    }
    CAY_FAULT("mount.served");
    return rc;
}

static int start_mount(const cay_mount_ask *a, char *const *text, cay_mount_answer *out)
{
    char at[4096], conf[4096], file[4096], log[4096];
    CAY_FORMAT(at, PLACE "/%zu", mounter.n);
    CAY_JOIN(conf, at, ".conf");
    CAY_JOIN(file, at, ".file");
    CAY_JOIN(log, at, ".log");
    if (mounter.n == MOST || mkdir(at, 0700) < 0 || !put_file(conf, text[0]) ||
        (*text[1] && !put_file(file, text[1]))) {
        out->sys = CAY_OR(errno, EMFILE);
        CAY_COPY(out->msg, "its files could not be made");
        return -1;
    }
    int rc = start_rclone(a, text, at, conf, log);
    int fd = -1;
    if (rc == 0)
        fd = clone_of(at, a->rw);
    if (fd >= 0)
        return fd;
    if (rc == -1)
        out->sys = ETIMEDOUT;
    else if (rc > 0)
        out->sys = EIO;
    else
        out->sys = errno;
    out->missing = rc > 0 && WIFEXITED(rc) && WEXITSTATUS(rc) == 127;
    last_words(log, out->msg, sizeof out->msg);
    return -1;
}

/* A mount whose sandbox is gone has no more writers; what they wrote is brought away before the
 * program ends. */
static void give_up(void)
{
    CAY_EACH_OF(it, mounter.rclone, mounter.n) {
        if (!*it)
            continue;
        kill(*it, SIGTERM);
        for (int ms = 0; waitpid(*it, NULL, WNOHANG) == 0; ms += STEP_MS) {
            if (ms > FLUSH_MS)
                kill(*it, SIGKILL);
            poll(NULL, 0, STEP_MS);
        }
    }
    umount2(PLACE, MNT_DETACH);
    CAY_FAULT("mount.given");
    if (mounter.marks >= 0)
        unlinkat(mounter.mounts, mounter.box, 0);
    remove_tree(mounter.cache);
}

static void send_answer(const cay_mount_answer *a, int fd)
{
    cay__fd_send(SOCK, a, sizeof *a, &fd, fd >= 0, 0);
}

/* The marks under the sandbox's id; what is there is of one that was killed, and nobody holds it.
 */
static bool put_marks(const char *id)
{
    if (!memchr(id, 0, sizeof mounter.box) || !cay__id_valid(id, 'c')) {
        errno = EINVAL;
        return false;
    }
    memcpy(mounter.box, id, sizeof mounter.box);
    if (unlinkat(mounter.mounts, mounter.box, 0) < 0 && errno != ENOENT)
        return false;
    mounter.marks = openat(mounter.mounts, mounter.box,
                           O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return mounter.marks >= 0 && flock(mounter.marks, LOCK_EX | LOCK_NB) == 0 &&
           cay__fd_write_all(mounter.marks, mounter.mark, mounter.n * sizeof *mounter.mark);
}

/* One that ended without being told to: its mount answers ENOTCONN from now on, and here it is said
 * why. */
static void note_ends(void)
{
    int status;
    for (size_t i = 0; i < mounter.n; i++) {
        cay_mount_mark *m = &mounter.mark[i];
        if (!mounter.rclone[i] || waitpid(mounter.rclone[i], &status, WNOHANG) != mounter.rclone[i])
            continue;
        mounter.rclone[i] = 0;
        m->when_ms = cay__clock_ms();
        if (WIFSIGNALED(status))
            CAY_FORMAT(m->why, "rclone was killed by signal %d", WTERMSIG(status));
        else
            CAY_FORMAT(m->why, "rclone ended by itself with status %d", WEXITSTATUS(status));
        CAY_FAULT("mount.ended");
        if (pwrite(mounter.marks, m, sizeof *m, (off_t)(i * sizeof *m)) < 0)
            break;
    }
}

static void on_child(int sig) {}

static void hold_mounts(const cay_mount_ask *q)
{
    cay_mount_answer a = { 0 };
    sigset_t child, old;
    CAY_AUTOFD init = (int)syscall(SYS_pidfd_open, q->pid, 0);
    if (init < 0 || !put_marks(q->id)) {
        a.sys = errno;
        send_answer(&a, -1);
        return;
    }
    CAY_FAULT("mount.held");
    send_answer(&a, -1);
    close(SOCK);
    /* Blocked but while it waits: no end is missed. */
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &old);
    sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = on_child }, NULL);
    struct pollfd p = { .fd = init, .events = POLLIN };
    do
        note_ends();
    while (!ended && ppoll(&p, 1, NULL, &old) <= 0);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

/* Until the sandbox ends, or somebody wants it taken away. */
static void serve_live(int init, int door, int tree)
{
    struct pollfd p[] = { { .fd = init, .events = POLLIN }, { .fd = door, .events = POLLIN } };
    while (!ended && mounter.asker < 0) {
        if (poll(p, 2, -1) <= 0)
            continue;
        if (p[0].revents)
            return;
        CAY_AUTOFD who = -1;
        if (p[1].revents)
            who = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        cay_mount_ask a = { 0 };
        cay_mount_answer no = { 0 };
        int none = 0;
        if (who < 0 || cay__fd_recv(who, &a, sizeof a, NULL, &none, 0) < (ssize_t)sizeof a ||
            a.op != CAY_MOUNT_HIDE)
            continue;
        if (cay__live_hide(tree, init) == 0)
            mounter.asker = CAY_STEAL_FD(who);
        else {
            no.sys = errno;
            cay__fd_send(who, &no, sizeof no, NULL, 0, 0);
        }
    }
}

static void show_mount(const cay_mount_ask *a, const char *name, const char *target, int tree)
{
    cay_mount_answer r = { 0 };
    CAY_AUTOFD init = (int)syscall(SYS_pidfd_open, a->pid, 0);
    CAY_AUTOFD door = init < 0 || tree < 0 ? -1 : cay__live_listen(mounter.mounts, name);
    bool shown = door >= 0 && cay__live_show(tree, init, a->pid, target) == 0;
    if (shown)
        r.sys = 0;
    else if (errno)
        r.sys = errno;
    else
        r.sys = EBADF;
    send_answer(&r, -1);
    close(SOCK);
    if (shown)
        serve_live(init, door, tree);
    if (door >= 0)
        unlinkat(mounter.mounts, name, 0);
}

static bool split_strings(char *tail, size_t len, uint32_t nargs, char **text)
{
    size_t n = 0;
    for (char *s = tail, *end = tail + len; n < nargs + 4u; n++) {
        size_t k = strnlen(s, (size_t)(end - s));
        if (s + k >= end)
            return false;
        text[n] = s;
        s += k + 1;
    }
    return true;
}

static void serve_requests(void)
{
    static char buf[CAY_MOUNT_MAX];
    while (!ended) {
        int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
        char *text[4 + 32];
        ssize_t n = cay__fd_recv(SOCK, buf, sizeof buf, fds, &nfds, 0);
        cay_mount_ask *a = (cay_mount_ask *)(void *)buf;
        cay_mount_answer r = { 0 };
        CAY_AUTOFD came = -1;
        if (n > 0 && nfds > 0)
            came = fds[0];
        for (int i = 1; n > 0 && i < nfds; i++)
            close(fds[i]);
        if (n < (ssize_t)sizeof *a)
            return;
        if (a->op == CAY_MOUNT_HOLD) {
            hold_mounts(a);
            return;
        }
        if (a->op == CAY_MOUNT_SHOW &&
            split_strings(buf + sizeof *a, (size_t)n - sizeof *a, 0, text) && *text[1] == '/' &&
            !strchr(text[0], '/')) {
            show_mount(a, text[0], text[1], came);
            return;
        }
        if (a->op != CAY_MOUNT_MOUNT || a->nargs > 32 || (a->kernel && a->nargs != 1) ||
            !split_strings(buf + sizeof *a, (size_t)n - sizeof *a, a->nargs, text)) {
            r.sys = EPROTO;
            send_answer(&r, -1);
            return;
        }
        CAY_FAULT("mount.asked");
        CAY_AUTOFD fd = start_mount(a, text, &r);
        explicit_bzero(buf, (size_t)n);
        send_answer(&r, fd);
        if (fd < 0)
            return;
    }
}

int main(int argc, char **argv)
{
    cay_mount_answer a = { 0 };
    const char *name = NULL;
    if (argc)
        name = strrchr(argv[0], '/');
    if (argc && cay__str_starts(name ? name + 1 : argv[0], "fusermount"))
        return cay__fusermount_main(argc, argv);
    if (argc != 2 || argv[1][0] != '/' || strlen(argv[1]) > 3700 || fcntl(SOCK, F_GETFD) < 0) {
        dprintf(2, "cay-mount is started by libcay; it serves the storage of one sandbox\n");
        return 2;
    }
    syscall(SYS_close_range, SOCK + 1u, ~0u,
            0); /* it lives on: no pipe of who started it stays open */
#ifdef CAY_FAULTS
    cay__fault_load();
#endif
    /* Whoever started us does not have to wait for our end. */
    pid_t pid = fork();
    if (pid)
        return pid < 0;
    setsid();
    umask(077);
    prctl(PR_SET_NAME, "cay-mount");
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_end }, NULL);
    fcntl(SOCK, F_SETFD, FD_CLOEXEC);
    const char *step = prepare_mounts(argv[1]);
    if (step) {
        a.sys = errno;
        CAY_COPY(a.msg, step);
        send_answer(&a, -1);
    } else {
        serve_requests();
    }
    give_up();
    if (mounter.asker >= 0)
        cay__fd_send(mounter.asker, &a, sizeof a, NULL, 0, 0);
    return step != NULL;
}
