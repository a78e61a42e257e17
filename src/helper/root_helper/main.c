/* SPDX-License-Identifier: Apache-2.0 */
/* cay-hand NAME HOME SERVER [ARG…]: starts the server and reads what it asks; hand.h tells the
 * rest. One thread; what takes time is done by a child. */
#include "root_helper.h"
#include <base/base.h>
#include <base/path.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <base/harden.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { AT_WORK = 128, SAY_MS = 1000, AGAIN_MS = 500, AGAIN_MOST_MS = 30000 };

static const int passed_on[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };

typedef struct state {
    hand h;
    struct passwd *pw;
    const char *home, *tree;
    char **argv; /* of the server */
    int door, server, at_work;
    bool asked_to_end;
    int wait_ms;
    int64_t again_ms, since_ms; /* when it is started again, 0: it runs; when that was */
} state;

/* No terminal of root's to type on, no way back, no capability left, and its end with ours: without
 * us it could make no sandbox. */
static bool give_up(const struct passwd *pw)
{
    return setsid() > 0 && initgroups(pw->pw_name, pw->pw_gid) == 0 &&
           setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) == 0 &&
           setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) == 0 && setresuid(0, 0, 0) < 0 &&
           prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}

static _Noreturn void be_server(const state *s, int parent)
{
    cay_err err = CAY_ERR_INIT;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!give_up(s->pw))
        cay_fail_sys(&err, "become %.60s", s->pw->pw_name);
    else if (getppid() == parent && trees_link(s->home, s->tree, &err) == 0) {
        execv(s->argv[0], s->argv);
        cay_fail_sys(&err, "run %s", s->argv[0]);
    }
    dprintf(2, "cay: %s\n", err.msg);
    _exit(1);
}

static bool start_server(state *s)
{
    int self = getpid();
    s->server = fork();
    if (s->server == 0)
        be_server(s, self);
    s->again_ms = 0;
    s->since_ms = cay__now_ms();
    return s->server > 0;
}

/* One that says it is done is; one that was killed is wanted still. */
static bool server_ended(state *s, int status, int *code)
{
    s->server = 0;
    if (WIFEXITED(status))
        *code = WEXITSTATUS(status);
    else
        *code = 128 + WTERMSIG(status);
    if (WIFEXITED(status) || s->asked_to_end)
        return true;
    if (cay__now_ms() - s->since_ms > AGAIN_MOST_MS)
        s->wait_ms = AGAIN_MS;
    else
        s->wait_ms = CAY_MIN(2 * s->wait_ms, AGAIN_MOST_MS);
    s->again_ms = cay__now_ms() + s->wait_ms;
    dprintf(2, "cay: the server was killed by signal %d; it is started again\n", WTERMSIG(status));
    return false;
}

static void by_child(state *s, hand_job *j)
{
    sigset_t none;
    int pid = -1;
    if (s->at_work < AT_WORK)
        pid = fork();
    if (pid == 0) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        close(s->door);
        hand_work(&s->h, j);
        _exit(0);
    }
    if (pid > 0)
        s->at_work++;
    else
        hand_answer_send(
            j->conn, CAY_EBUSY,
            &(cay_err){ .reason = "hand_busy",
                        .msg = "root's part of the server has too much to do at once; try again" },
            NULL, -1);
}

/* Nobody but that user, and root. */
static bool is_allowed_peer(const state *s, int conn)
{
    struct ucred who;
    return cay__sock_peer(conn, &who) && (who.uid == s->h.uid || who.uid == 0);
}

/* A connection is given by this process itself: the keeper knows who makes a sandbox by the asker's
 * process id. */
static void on_ask(state *s)
{
    CAY_AUTOFD conn = accept4(s->door, NULL, NULL, SOCK_CLOEXEC);
    hand_job j = { .conn = conn, .nfds = HAND_FDS };
    struct pollfd p = { .fd = conn, .events = POLLIN };
    if (conn < 0 || !is_allowed_peer(s, conn) || poll(&p, 1, SAY_MS) != 1)
        return;
    ssize_t n = cay__fd_recv(conn, &j.ask, sizeof j.ask, j.fds, &j.nfds, MSG_DONTWAIT);
    if (n < 0)
        return;
    j.ask.name[sizeof j.ask.name - 1] = j.ask.more[sizeof j.ask.more - 1] = 0;
    CAY_AUTOFD keeper = -1;
    if (n == sizeof j.ask && j.ask.verb == HAND_DIAL)
        keeper = hand_dial(&s->h);
    if (keeper >= 0)
        hand_answer_send(conn, 0, NULL, NULL, keeper);
    else if (n == sizeof j.ask)
        by_child(s, &j);
    CAY_EACH_OF(it, j.fds, j.nfds)
        close(*it);
}

/* True: that was all, with this code. */
static bool on_signal(state *s, int sfd, int *code)
{
    struct signalfd_siginfo i;
    int status, pid;
    if (read(sfd, &i, sizeof i) != sizeof i)
        return false;
    CAY_EACH(it, passed_on)
        if ((int)i.ssi_signo == *it && s->server > 0)
            kill(s->server, *it);
    s->asked_to_end |= i.ssi_signo == SIGTERM || i.ssi_signo == SIGINT;
    if (s->asked_to_end && s->server <= 0)
        return true;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid != s->server)
            s->at_work--;
        else if (server_ended(s, status, code))
            return true;
    return false;
}

static int serve_requests(state *s)
{
    sigset_t set;
    int code = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    CAY_EACH(it, passed_on)
        sigaddset(&set, *it);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    int sfd = signalfd(-1, &set, SFD_CLOEXEC);
    for (bool more = sfd >= 0 && start_server(s); more;) {
        struct pollfd p[2] = { { .fd = sfd, .events = POLLIN },
                               { .fd = s->door, .events = POLLIN } };
        int wait = -1;
        if (s->again_ms)
            wait = (int)CAY_MAX(s->again_ms - cay__now_ms(), 0);
        poll(p, 2, wait);
        if (p[1].revents)
            on_ask(s);
        if (p[0].revents && on_signal(s, sfd, &code))
            return code;
        if (s->again_ms && cay__now_ms() >= s->again_ms)
            more = start_server(s);
    }
    dprintf(2, "cay: start the server: %s\n", strerror(errno));
    return 1;
}

static int prepare_state(state *s, char *tree, size_t cap, cay_err *err)
{
    static char home[PATH_MAX];
    int fd;
    s->pw = getpwnam(s->argv[-2]);
    if (geteuid() != 0 || !s->pw || s->pw->pw_uid == 0)
        return cay_fail(err, CAY_EINVAL,
                        "cay-hand is started by `cay serve --user NAME --root-keeper`, as root");
    s->h.uid = s->pw->pw_uid;
    s->h.gid = s->pw->pw_gid;
    struct stat st;
    if (!realpath(s->home, home) || lstat(home, &st) < 0)
        return cay_fail_sys(err, "%.200s", s->home);
    s->home = s->h.home = home;
    s->h.dev = st.st_dev;
    CAY_TRY(trees_open(home, s->h.gid, tree, cap, &fd, err));
    CAY_TRY(trees_listen(fd, s->h.gid, &s->door, err));
    CAY_TRY(cay__harden(err));
    return cay__native_open_at(tree, fd, NULL, &s->h.n, err);
}

int main(int argc, char **argv)
{
    char tree[PATH_MAX];
    cay_err err = CAY_ERR_INIT;
    state s = { .door = -1, .wait_ms = AGAIN_MS, .tree = tree };
    if (argc < 4) {
        dprintf(2, "cay-hand is started by `cay serve --user NAME --root-keeper`\n");
        return 2;
    }
    s.home = argv[2];
    s.argv = argv + 3;
    prctl(PR_SET_NAME, "cay-hand");
    umask(022);
    if (prepare_state(&s, tree, sizeof tree, &err) < 0) {
        dprintf(2, "cay: %s\n", err.msg);
        return 1;
    }
    int code = serve_requests(&s);
    cay__native_close(s.h.n);
    return code;
}
