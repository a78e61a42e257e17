/* SPDX-License-Identifier: Apache-2.0 */
/* What root does for a server that is not root: each verb looks at what it is given as at the word
 * of a stranger. */
#include "root_helper.h"
#include <base/base.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <lib/provider/native/box.h>
#include <lib/sandbox/limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

enum { LIMIT_MS = 5000, END_MS = 5000, ABOVE = 64, FIRST = 3, TREE = -2 };

void hand_answer_send(int sock, int code, const cay_err *err, hand_answer *a, int fd)
{
    hand_answer none = { 0 };
    a = CAY_OR(a, &none);
    a->code = code;
    if (code && err) {
        a->sys = err->sys;
        CAY_COPY(a->reason, err->reason);
        CAY_COPY(a->msg, err->msg);
    }
    cay__fd_send(sock, a, sizeof *a, &fd, fd >= 0, MSG_DONTWAIT);
}

/* Before the server has the connection the keeper has agreed to refuse on it whatever is of the
 * host. */
static bool limit_keeper(int sock)
{
    cay_msg m = { CAY_MSG_MAGIC, CAY_MSG_VERSION, CAY_MSG_LIMIT, 0, 0 };
    struct pollfd p = { .fd = sock, .events = POLLIN };
    return cay__fd_send(sock, &m, sizeof m, NULL, 0, 0) == sizeof m && poll(&p, 1, LIMIT_MS) == 1 &&
           recv(sock, &m, sizeof m, 0) == sizeof m && m.type == CAY_MSG_OK;
}

int hand_dial(const hand *h)
{
    CAY_AUTOFD sock = cay__native_knock(h->n);
    if (sock >= 0 && limit_keeper(sock))
        return CAY_STEAL_FD(sock);
    return -1;
}

static int start_keeper(const hand *h, hand_job *j, cay_err *err)
{
    CAY_TRY(cay__native_meet(h->n, NULL, err));
    return cay_fail_why(err, CAY_EBUSY, "again", "the keeper was started");
}

/* Nothing that the kernel does more for root's hand than for the one that opened it. */
static bool is_harmless_fd(const hand *h, int fd)
{
    struct stat st;
    struct statfs fs;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return false;
    int flags = fcntl(fd, F_GETFL), type = cay__sock_get(fd, SO_TYPE);
    struct ucred who;
    if (S_ISSOCK(
            st.st_mode)) /* its own at the other end, too: others would be told that root speaks */
        return cay__sock_get(fd, SO_DOMAIN) == AF_UNIX && type >= 0 && type != SOCK_DGRAM &&
               cay__sock_peer(fd, &who) && who.uid == h->uid;
    if (flags < 0 || flags & O_PATH || S_ISFIFO(st.st_mode))
        return flags >= 0 && !(flags & O_PATH);
    return S_ISREG(st.st_mode) &&
           (fs.f_type == TMPFS_MAGIC || st.st_dev == h->dev); /* memory, or its own */
}

static _Noreturn void exec_program(const hand *h, const char *path, const char *const argv[],
                                   int *fds, int n, bool looks_at_processes)
{
    sigset_t none;
    int exe = open(path, O_RDONLY | O_CLOEXEC),
        tree = exe < 0 ? -1 : jail_enter(h, looks_at_processes);
    if (tree < 0) {
        dprintf(2, "cay-hand: %s: %s\n", path, strerror(errno));
        _exit(126);
    }
    exe = fcntl(exe, F_DUPFD_CLOEXEC, 2 * ABOVE);
    CAY_EACH_OF(item, fds, n) {
        if (*item == TREE)
            *item = tree;
    }
    CAY_EACH_OF(it, fds, n) {
        if (*it < 0)
            *it = -1;
        else
            *it = fcntl(*it, F_DUPFD_CLOEXEC, ABOVE);
    }
    for (int i = 0; i < n; i++)
        if (fds[i] < 0 ? (close(FIRST + i), false) : dup2(fds[i], FIRST + i) < 0)
            _exit(126);
    syscall(SYS_close_range, (unsigned)(FIRST + n), ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    syscall(SYS_execveat, exe, "", argv, environ, AT_EMPTY_PATH);
    _exit(127);
}

/* Until it ends. Whoever asked for it lets go of the answer's socket to have it ended: by `sig` at
 * once if there is one, and in any case after a while. */
static void await_program(int pid, int leash, int sig)
{
    CAY_AUTOFD end = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p[2] = { { .fd = end, .events = POLLIN }, { .fd = leash, .events = POLLIN } };
    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    if (!p[0].revents && sig)
        kill(pid, sig);
    if (!p[0].revents && poll(p, 1, END_MS) == 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int start_program(const hand *h, const hand_job *j, const char *program,
                         const char *const argv[], int *fds, int n, int sig, cay_err *err)
{
    char path[PATH_MAX];
    CAY_TRY(cay__libexec_find(h->n->libexec[0] ? h->n->libexec : NULL, program, path, sizeof path,
                              err));
    int pid = fork();
    if (pid < 0)
        return cay_fail_sys(err, "start %s", program);
    if (pid == 0)
        exec_program(h, path, argv, fds, n, sig != 0);
    CAY_EACH_OF(it, j->fds, j->nfds) /* or the ends of the program's own would not be seen */
        close(*it);
    hand_answer_send(j->conn, 0, NULL, NULL, -1);
    await_program(pid, j->conn, sig);
    return 1;
}

/* Not `apply`, `on` and `purge`, which work on directories of the host or on the whole; what
 * remains is told whose server asks, and takes nothing but that user's files from outside. */
static const char *const verbs[] = { "build",  "diff",   "digest", "look",   "merge",
                                     "remove", "volume", "pack",   "unpack", "image" };

static int run_tool(const hand *h, hand_job *j, cay_err *err)
{
    char who[32];
    bool known = false;
    CAY_EACH(verb, verbs)
        known |= !strcmp(*verb, j->ask.name);
    if (!known)
        return cay_fail_why(err, CAY_EPERM, "apart_refused",
                            "a server beside a keeper of root's does not %.20s: root does that, or "
                            "a server without --root-keeper",
                            j->ask.name);
    if (j->nfds < 1)
        return cay_fail(err, CAY_EINVAL, "a tool without its socket");
    CAY_EACH_OF(it, j->fds, j->nfds)
        if (!is_harmless_fd(h, *it))
            return cay_fail_why(
                err, CAY_EPERM, "apart_refused",
                "a server beside a keeper of root's hands over files, pipes and sockets alone");
    const char *program = "cay-layer";
    if (j->ask.op == HAND_PACK)
        program = "cay-pack";
    CAY_FORMAT(who, "%u", (unsigned)h->uid);
    const char *argv[] = { program, j->ask.name, who, NULL };
    int fds[HAND_FDS + 2] = { j->fds[0], TREE, -1 }, n = 3;
    for (int i = 1; i < j->nfds; i++)
        fds[n++] = j->fds[i];
    return start_program(h, j, program, argv, fds, n, 0, err);
}

static int clone_box(const hand *h, hand_job *j, cay_err *err)
{
    const char *argv[] = { "cay-clone", j->ask.name, j->ask.more, j->ask.op ? "--stop" : "--go",
                           "--apart",   NULL };
    if (!cay__id_valid(j->ask.name, 'c') || !cay__layer_valid(j->ask.more) || j->nfds != 1 ||
        !is_harmless_fd(h, j->fds[0]))
        return cay_fail(err, CAY_EINVAL, "the request for a snapshot is not well-formed");
    CAY_AUTOFD keeper = hand_dial(h);
    if (keeper < 0)
        return start_keeper(h, j, err);
    int fds[] = { TREE, keeper, j->fds[0] };
    return start_program(h, j, "cay-clone", argv, fds, (int)CAY_LEN(fds), SIGTERM, err);
}

static int find_base_layer(const hand *h, hand_job *j, cay_err *err)
{
    hand_answer a = { 0 };
    if (j->ask.op == HAND_IMAGE)
        CAY_TRY(cay__image_layer(h->n->home_fd, a.name, sizeof a.name, err));
    else
        CAY_TRY(cay__host_layer(h->n->home_fd, a.name, sizeof a.name, err));
    hand_answer_send(j->conn, 0, NULL, &a, -1);
    return 1;
}

static int apply_quota(const hand *h, hand_job *j, cay_err *err)
{
    hand_answer a = { .value = cay__quota_there(h->n->home_fd) };
    bool box = j->ask.op == HAND_QUOTA_BOX,
         volume = j->ask.op == HAND_QUOTA_VOLUME || j->ask.op == HAND_QUOTA_DROP;
    if ((box && !cay__id_valid(j->ask.name, 'c')) || (volume && !cay__volume_name(j->ask.name)))
        return cay_fail(err, CAY_EINVAL, "quota: \"%.60s\" is no name of a sandbox or volume",
                        j->ask.name);
    if (box)
        CAY_TRY(cay__quota_set(h->n->home_fd, j->ask.name, j->ask.a, j->ask.b, err));
    if (j->ask.op == HAND_QUOTA_VOLUME)
        CAY_TRY(cay__quota_volume(h->n->home_fd, j->ask.name, j->ask.a, err));
    if (j->ask.op == HAND_QUOTA_DROP)
        cay__quota_drop(h->n->home_fd, j->ask.name);
    hand_answer_send(j->conn, 0, NULL, &a, -1);
    return 1;
}

void hand_work(const hand *h, hand_job *j)
{
    static int (*const does[])(const hand *h, hand_job *j,
                               cay_err *err) = { [HAND_DIAL] = start_keeper,
                                                 [HAND_TOOL] = run_tool,
                                                 [HAND_CLONE] = clone_box,
                                                 [HAND_BASE] = find_base_layer,
                                                 [HAND_QUOTA] = apply_quota };
    cay_err err = CAY_ERR_INIT;
    uint32_t v = j->ask.verb;
    int rc;
    if (v < CAY_LEN(does) && does[v])
        rc = does[v](h, j, &err);
    else
        rc = cay_fail(&err, CAY_EINVAL, "cay-hand knows no verb %u", (unsigned)v);
    if (rc < 0)
        hand_answer_send(j->conn, rc, &err, NULL, -1);
}
