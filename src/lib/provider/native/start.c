/* SPDX-License-Identifier: Apache-2.0 */
#include "root_helper.h"
#include "native.h"
#include "box.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/sanitize.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { START_MS = 20000, TRIES = 5 };

static bool try_dir(char *out, size_t cap, const char *dir, const char *sub)
{
    return cay__str_join(out, cap, dir, sub, "/cay-keeper", NULL) && access(out, X_OK) == 0;
}

static int find_keeper(const char *libexec, char *out, size_t cap, cay_err *err)
{
    char exe[PATH_MAX];
    const char *env = getenv("CAY_LIBEXEC");
    if (*libexec && try_dir(out, cap, libexec, ""))
        return 0;
    if (env && *env && try_dir(out, cap, env, ""))
        return 0;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n > 0) {
        exe[n] = 0;
        char *slash = strrchr(exe, '/');
        if (slash)
            *slash = 0;
        if (try_dir(out, cap, exe, "/../libexec/cay") || try_dir(out, cap, exe, ""))
            return 0;
    }
    if (try_dir(out, cap, CAY_LIBEXEC, ""))
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "keeper_missing",
                        "cay-keeper was not found in %s; set CAY_LIBEXEC to where it is",
                        CAY_LIBEXEC);
}

typedef struct launch {
    cay__native *n;
    const char *layer;
    int ready;
    const char *manager; /* XDG_RUNTIME_DIR=… of the user's systemd, which gives it a scope with
                            groups of its own; "": none */
} launch;

/* What the keeper, or systemd-run, has any use for. The rest of our environment is not for a
 * process that stays: it may hold secrets. */
static void keep_env(char **env, size_t room, const char *manager)
{
    static const char *const names[] = { "PATH=",
                                         "HOME=",
                                         "LANG=",
                                         "XDG_RUNTIME_DIR=",
                                         "DBUS_SESSION_BUS_ADDRESS=",
                                         "CAY_POOL=",
                                         "CAY_FAULT=",
                                         "CAY_LACK=",
                                         "CAY_FAULT_HITS=",
                                         "CAY_REPORTS=",
                                         "ASAN_OPTIONS=",
                                         "UBSAN_OPTIONS=",
                                         "LSAN_OPTIONS=" };
    size_t n = 0;
    for (char **e = environ; e && *e; e++)
        CAY_EACH(name, names)
            if (n + 2 < room && cay__str_starts(*e, *name))
                env[n++] = *e;
    for (size_t i = 0; *manager && i < n; i++)
        if (cay__str_starts(env[i], "XDG_RUNTIME_DIR="))
            env[i] = env[--n];
    if (*manager)
        env[n++] = (char *)manager;
    env[n] = NULL;
}

static int launch_child(void *arg)
{
    launch *l = arg;
    char fd[21], ms[21], unit[64], *env[16];
    char *plain[] = {
        l->n->keeper, l->n->home, l->n->run, (char *)l->layer, cay__str_u64(fd, (uint64_t)l->ready),
        NULL
    };
    /* It holds no shutdown up: who has not ended by then is killed. */
    char *scope[] = { "systemd-run",
                      "--user",
                      "--scope",
                      "--quiet",
                      "--collect",
                      unit,
                      "--description=cay",
                      "-p",
                      "Delegate=yes",
                      "-p",
                      "TimeoutStopSec=10s",
                      "--",
                      plain[0],
                      plain[1],
                      plain[2],
                      plain[3],
                      plain[4],
                      NULL };
    CAY_JOIN(unit, "--unit=cay-", strrchr(plain[2], '/') + 1, "-",
             cay__str_u64(ms, (uint64_t)cay__boot_ms()));
    keep_env(env, CAY_LEN(env), l->manager);
    fcntl(l->ready, F_SETFD, 0);
    setsid();
    /* Overlays write with their maker's capabilities, and on ext4 this one goes beyond every quota
     * and takes the blocks reserved for root. */
    prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0);
    if (*l->manager) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC); /* of what it says the exit is enough */
        dup2(null, 2);
        execvpe(scope[0], scope, env);
    }
    execve(plain[0], plain, env);
    _exit(127);
}

static bool has_manager(char *env, size_t cap, const char *dir)
{
    char path[PATH_MAX];
    return dir && CAY_JOIN(path, dir, "/systemd/private") && access(path, W_OK) == 0 &&
           cay__str_join(env, cap, "XDG_RUNTIME_DIR=", dir, NULL);
}

bool cay__native_manager(char *env, size_t cap)
{
    char dir[48], n[21];
    CAY_JOIN(dir, "/run/user/", cay__str_u64(n, geteuid()));
    if (geteuid() != 0 &&
        (has_manager(env, cap, getenv("XDG_RUNTIME_DIR")) || has_manager(env, cap, dir)))
        return true;
    env[0] = 0;
    return false;
}

/* What it says before it serves: "map PID", answered by us, then "ok" or what is wrong. */
static void listen_to(int fd, char *line, size_t cap)
{
    for (;;) {
        ssize_t k = recv(fd, line, cap - 1, 0);
        line[CAY_MAX(k, 0)] = 0;
        uint64_t pid;
        if (!cay__str_starts(line, "map ") || !cay__str_to_u64(line + 4, &pid))
            return;
        const char *answer = "n";
        if (cay__subid_map((int)pid))
            answer = "y";
        if (send(fd, answer, 1, MSG_NOSIGNAL) != 1)
            return;
    }
}

/* What the keeper says, "" when it said nothing; *ran: it was started at all. */
static int run_keeper(launch *l, char *line, size_t cap, bool *ran, cay_err *err)
{
    int fds[2], status = 0;
    char stack[16384] __attribute__((aligned(16)));
    CAY_TRY_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), err,
                "start the keeper");
    l->ready = fds[1];
    CAY_FAULT("client.keeper.launch");
    int pid = clone(launch_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, l);
    CAY__STACK_USED(stack, sizeof stack);
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return cay_fail_sys(err, "start the keeper");
    }
    listen_to(fds[0], line, cap);
    close(fds[0]);
    while (waitpid(pid, &status, 0) < 0 &&
           errno == EINTR) /* what we started; the keeper is its child, and nobody's then */
        ;
    CAY_FAULT("client.keeper.launched");
    *ran = *line || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

static int launch_keeper(cay__native *n, const char *layer, cay_err *err)
{
    char line[256], manager[PATH_MAX];
    bool ran;
    launch l = { n, layer, -1, manager };
    cay__native_manager(manager, sizeof manager);
    CAY_TRY(run_keeper(&l, line, sizeof line, &ran, err));
    if (!ran &&
        *manager) { /* the manager leaves, or has no room: soft limits are better than none */
        manager[0] = 0;
        CAY_TRY(run_keeper(&l, line, sizeof line, &ran, err));
    }
    if (!strncmp(line, "ok\n", 3))
        return 0;
    if (!*line) /* a keeper that cannot says why; this one was killed */
        return CAY_EGONE;
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, "another keeper", 14))
        return cay_fail_why(err, CAY_EBUSY, "keeper_busy",
                            "another keeper serves %s but does not answer", n->home);
    /* The one cause for which level 1 stands in: a full disk or a broken store must not weaken the
     * wall. */
    if (cay__str_starts(line, "user namespace:") || cay__str_starts(line, "mount namespace:")) {
        const char *remedy, *cause = cay__native_cause(&remedy);
        if (!cause)
            return cay_fail_why(err, CAY_EISOLATION, "namespaces_refused",
                                "this host refuses namespaces (%s); `cay doctor` tells more", line);
        return cay_fail_why(err, CAY_EISOLATION, "namespaces_refused",
                            "this host refuses namespaces (%s): %s; %s", line, cause, remedy);
    }
    return cay_fail_why(err, CAY_EISOLATION, "keeper_failed",
                        "no sandbox can be made on this host: %s; `cay doctor` tells more", line);
}

int cay__native_knock(const cay__native *n)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    CAY_AUTOFD s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s < 0 || !CAY_JOIN(sa.sun_path, n->run, "/keeper.sock") ||
        connect(s, (struct sockaddr *)&sa, sizeof sa) < 0)
        return -1;
    return CAY_STEAL_FD(s);
}

/* Root's keeper, by way of who may speak to it. */
static int dial_by_hand(const cay__native *n, const cay_call *call, int *sock, cay_err *err)
{
    const hand_ask ask = { .verb = HAND_DIAL };
    cay_err why = CAY_ERR_INIT;
    int rc = 0;
    for (int i = 0; i < TRIES; i++) { /* one that leaves just now is replaced by the next */
        rc = cay__hand_ask(n->home_fd, call, &ask, NULL, 0, NULL, sock, NULL, &why);
        if (rc != CAY_EBUSY || !cay_err_is(&why, CAY_REASON_AGAIN))
            break;
    }
    if (rc == 0 && *sock < 0)
        rc = cay_fail_why(&why, CAY_EUPSTREAM, "hand_gone",
                          "root's part of the server gave no connection");
    return cay__err_pass(rc, &why, err);
}

/* One starter at a time; who waited finds the keeper of who came first. */
static int dial_keeper(void *arg, const cay_call *call, int *sock, cay_err *err)
{
    cay__native *n = arg;
    char path[PATH_MAX], layer[64];
    *sock = cay__native_knock(n);
    if (*sock >= 0)
        return 0;
    if (cay__hand_there(n->home_fd))
        return dial_by_hand(n, call, sock, err);
    char real[PATH_MAX];
    CAY_TRY(find_keeper(n->libexec, n->keeper, sizeof n->keeper, err));
    if (realpath(n->keeper,
                 real)) /* it looks for cay-egress beside itself, from another directory */
        CAY_COPY(n->keeper, real);
    CAY_AUTOFD lock = -1;
    struct stat st = { .st_nlink = 0 };
    for (int i = 0; i < TRIES && !st.st_nlink;
         i++) { /* the directory may just be taken for one that nobody needs any more */
        CAY_TRY(cay__run_dir(n->home_fd, n->run, sizeof n->run, true, err));
        CAY_JOIN(path, n->run, "/start.lock");
        cay__close_fd(&lock);
        lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (lock >= 0 ? flock(lock, LOCK_EX) < 0 || fstat(lock, &st) < 0 : errno != ENOENT)
            return cay_fail_sys(err, "lock %s", path);
    }
    int died = 0;
    for (int64_t end = cay__now_ms() + START_MS;;) {
        if ((*sock = cay__native_knock(n)) >= 0)
            return 0;
        CAY_TRY(cay__host_layer(n->home_fd, layer, sizeof layer, err));
        int rc = launch_keeper(n, layer, err);
        if (rc == CAY_EGONE && ++died == TRIES)
            return cay_fail_why(
                err, CAY_EISOLATION, "keeper_failed",
                "cay-keeper ended %d times before it served; `cay doctor` tells more", died);
        if (rc == CAY_EGONE)
            continue;
        if (rc < 0 && (rc != CAY_EBUSY || cay__now_ms() > end))
            return rc;
        /* The old one is on its way out, or one whose starter was killed is on its way in: adopting
         * takes its time. */
        if (rc == CAY_EBUSY) {
            CAY_TRY(cay__call_check(call, "start the keeper", err));
            usleep(20000);
        }
    }
}

int cay__native_open(const char *home, const char *libexec, cay__native **out, cay_err *err)
{
    char found[CAY__HOME_MAX];
    int fd;
    CAY_TRY(cay__home_find(home, found, sizeof found, err));
    CAY_TRY(cay__home_open(found, &fd, err));
    return cay__native_open_at(found, fd, libexec, out, err);
}

int cay__native_open_at(const char *home, int home_fd, const char *libexec, cay__native **out,
                        cay_err *err)
{
    cay__native *n = cay__alloc(sizeof *n);
    n->home_fd = home_fd;
    CAY_COPY(n->home, home);
    CAY_COPY(n->libexec, CAY_OR(libexec, ""));
    int rc = cay__run_dir(n->home_fd, n->run, sizeof n->run, true, err);
    if (rc < 0) {
        cay__close_fd(&n->home_fd);
        free(n);
        return rc;
    }
    pthread_mutex_init(&n->lock, NULL);
    pthread_mutex_init(&n->own_lock, NULL);
    cay__link_open(&n->link, dial_keeper, n, "keeper");
    n->link.broke = cay__nbox_claim_all;
    n->link.adopts = true;
    *out = n;
    return 0;
}

void cay__native_close(cay__native *n)
{
    cay__link_close(&n->link);
    pthread_mutex_destroy(&n->lock);
    pthread_mutex_destroy(&n->own_lock);
    cay__close_fd(&n->home_fd);
    free(n);
}

/* What the keeper wrote down before it listened. The connection comes first: then the words are
 * this keeper's. */
static int read_hello(cay__native *n, const cay_call *call, cay_m_hello *out, bool *there,
                      cay_err *err)
{
    char path[PATH_MAX];
    CAY_AUTOFD sock = -1;
    CAY_TRY(dial_keeper(n, call, &sock, err));
    CAY_JOIN(path, n->run, "/hello");
    CAY_AUTOFD fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    *there =
        fd >= 0 && read(fd, out, sizeof *out) == sizeof *out && out->version == CAY_MSG_VERSION;
    cay__link_give(&n->link, CAY_STEAL_FD(sock));
    return 0;
}

int cay__native_meet(cay__native *n, const cay_call *call, cay_err *err)
{
    cay_m_hello m = { .version = CAY_MSG_VERSION };
    cay__reply r = { 0 };
    pthread_mutex_lock(&n->lock);
    /* What the keeper learns with its first sandbox is asked for once more. */
    bool met = n->met && (n->hello.features & CAY_FEAT_NET_TRIED);
    pthread_mutex_unlock(&n->lock);
    if (met)
        return 0;
    bool there = false;
    CAY_TRY(read_hello(n, call, &r.hello, &there, err));
    if (!there)
        CAY_TRY(cay__link_call(&n->link, call, CAY__LINK_ASK(CAY_MSG_HELLO, m), &r, err));
    CAY_LOCK(&n->lock);
    n->hello = r.hello;
    n->hello.instance[sizeof n->hello.instance - 1] = 0;
    if (n->hello.mode == CAY_MODE_ROOT && cay__quota_there(n->home_fd))
        n->hello.features |= CAY_FEAT_QUOTA;
    else if (n->hello.mode == CAY_MODE_ROOT && n->image)
        n->hello.features |= CAY_FEAT_IMAGE;
    n->met = true;
    return 0;
}

/* Layers belong to ids of the keeper's namespace. The connection lives through the look at /proc,
 * so the pid was its own. */
static int open_userns(int sock, int *fd)
{
    struct ucred peer;
    char path[64], n[21], byte;
    uid_t owner;
    if (!cay__sock_peer(sock, &peer) || peer.pid <= 0)
        return -1;
    CAY_JOIN(path, "/proc/", cay__str_u64(n, (uint64_t)peer.pid), "/ns/user");
    CAY_AUTOFD ns = open(path, O_RDONLY | O_CLOEXEC);
    if (ns < 0 || ioctl(ns, NS_GET_OWNER_UID, &owner) < 0)
        return -1;
    if (owner == geteuid())
        errno = ESRCH;
    else
        errno = EPERM;
    if (owner != geteuid() || recv(sock, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
        return -1;
    *fd = CAY_STEAL_FD(ns);
    return 0;
}

int cay__native_userns(const char *home, const char *libexec, const cay_call *call, int *fd,
                       cay_err *err)
{
    cay__native *n;
    if (geteuid() == 0)
        return 0;
    CAY_TRY(cay__native_open(home, libexec, &n, err));
    int rc = 0;
    for (int i = 0; i < TRIES; i++) { /* one that leaves just now is replaced by the next dial */
        CAY_AUTOFD sock = -1;
        rc = dial_keeper(n, call, &sock, err);
        if (rc < 0 || (rc = open_userns(sock, fd)) == 0)
            break;
        rc = cay_fail_sys(err, "enter the keeper's user namespace");
    }
    cay__native_close(n);
    return rc;
}
