/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init's side of sudo. Whatever comes over the socket is the tenant's and hostile: init reads at
 * most one packet at a time, never waits for a visitor, maps nothing of theirs, and touches the
 * descriptors only to hand them to the command. What is started is no more than the API's root
 * profile: the same filter, no_new_privs, the same capabilities of this sandbox's own user
 * namespace.
 */
#include "sudo.h"
#include "plan.h"
#include "services.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ASK_MS  5000 /* to say what it wants */
#define KILL_MS 1000 /* between HUP and KILL, when its client is gone */
#define TELL_MS                                                                                    \
    250 /* an event for each such time, and at most so many at once: a loop of sudo must not drown \
           the events of others */
#define TELL_MAX 64

typedef struct visit {
    int fd;  /* -1: free, unless pid */
    int pid; /* of its command, 0: none yet */
    uid_t uid;
    int64_t due; /* 0: nothing */
} visit;

static struct {
    int listen;
    visit v[SUDO_VISITS];
    int64_t told_until; /* the time that events so far have used up */
    int32_t untold;
    uid_t untold_uid; /* of the last of these */
} sudo = { .listen = -1 };

/* We are the program: it is copied out of ourselves, so that there is nothing to be found or
 * trusted. */
static bool copy_self(const char *to)
{
    CAY_AUTOFD in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
               out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    ssize_t n = -1;
    while (in >= 0 && out >= 0 && (n = read(in, init.buf, CAY_MSG_MAX)) > 0)
        if (!cay__fd_write_all(out, init.buf, (size_t)n))
            return false;
    return n == 0 && fchmod(out, 0755) == 0;
}

/* In a root of its own they are where people and scripts look for them. The host's /usr is not ours
 * to change: there PATH leads to them. */
static void link_program(const char *dir, const char *name)
{
    char temp[64], path[64], to[64];
    struct stat st;
    CAY_JOIN(temp, dir, "/.cay-", name);
    CAY_JOIN(path, dir, "/", name);
    CAY_JOIN(to, SUDO_BIN "/", name);
    if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode)) /* /bin is mostly a link to usr/bin */
        return;
    unlink(temp);
    if (symlink(to, temp) == 0 && renameat(AT_FDCWD, temp, AT_FDCWD, path) < 0)
        unlink(temp);
}

void sudo_open(void)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = SUDO_SOCKET };
    CAY_EACH_OF(it, sudo.v, SUDO_VISITS)
        it->fd = -1;
    CAY_AUTOFD s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    umask(022);
    if (getpid() != 1) /* a test: this is not our root */
        return;
    if (sudo.listen >= 0 || s < 0 || (mkdir(SUDO_DIR, 0755) < 0 && errno != EEXIST) ||
        (mkdir(SUDO_BIN, 0755) < 0 && errno != EEXIST) || !copy_self(SUDO_BIN "/sudo") ||
        symlink("sudo", SUDO_BIN "/su") < 0 || bind(s, (struct sockaddr *)&sa, sizeof sa) < 0 ||
        chmod(SUDO_SOCKET, 0666) < 0 || listen(s, SUDO_VISITS) < 0)
        return; /* whoever calls it is told that nobody answers */
    link_program("/usr/bin", "sudo");
    link_program("/usr/bin", "su");
    link_program("/bin", "su");
    sudo.listen = CAY_STEAL_FD(s);
    init.sudo = true;
}

/* Closing it may be made to wait: here, or by the kernel, of a packet that is cut or was never
 * read. */
static void set_close_alarm(bool on)
{
    if (!CAY__MUTANT("sudo-linger"))
        cay__fd_hurry(on);
}

/* root, the user that commands run as when nobody is named, and user 1000. A service under an
 * account of its own is nobody's friend. */
static bool is_allowed_user(uid_t uid)
{
    ident id;
    if (CAY__MUTANT("sudo-who") || uid == 0 || uid == 1000)
        return true;
    return user_default(&id) == 0 && id.uid == uid;
}

/* When there is room for one more event. */
static int64_t tell_at(void)
{
    return sudo.told_until - (TELL_MAX - 1) * TELL_MS;
}

/* Each tells how many there was no room for before it. */
static void audit_request(uid_t uid, const char *as, const char *what)
{
    char n[21];
    cay_g_result r = { .sys = 1, .pid = sudo.untold };
    int64_t now = cay__now_ms();
    if (now < tell_at() && !CAY__MUTANT("sudo-flood")) {
        sudo.untold++;
        sudo.untold_uid = uid;
        return;
    }
    sudo.untold = 0;
    sudo.told_until = CAY_MAX(sudo.told_until, now) + TELL_MS;
    CAY_JOIN(r.step, "uid ", cay__str_u64(n, uid), " ", as);
    r.step[23] = 0;
    const char *base = strrchr(what, '/');
    CAY_COPY(r.proc, base && base[1] ? base + 1 : cay__text_or(what, "-"));
    init.ops->tell(CAY_G_UNITED, &r, sizeof r, NULL, 0);
}

static void send_answer(const visit *v, int what, int value, const char *step)
{
    cay_g_sudo_told t = { what, value, "" };
    CAY_COPY(t.step, step);
    send(v->fd, &t, sizeof t, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void close_visit(visit *v)
{
    set_close_alarm(true);
    cay__close_fd(&v->fd);
    set_close_alarm(false);
    v->due = 0;
}

static const char *nth_string(const char *s, size_t len, unsigned n)
{
    const char *end = s + len;
    while (n-- && s < end)
        s += strnlen(s, (size_t)(end - s)) + 1;
    if (s < end && memchr(s, 0, (size_t)(end - s)))
        return s;
    return "";
}

static void start_request(visit *v, const char *buf, size_t n, int *fds, int nfds)
{
    cay_g_sudo h;
    const char *step = "request", *blob = buf + sizeof h;
    memcpy(&h, buf, CAY_MIN(n, sizeof h));
    if (n < sizeof h || h.magic != SUDO_MAGIC || nfds != 3 || h.blob != n - sizeof h || !h.argc ||
        h.argc > h.blob || h.envc > h.blob || h.tty > 7) {
        send_answer(v, SUDO_FAILED, EINVAL, step);
        close_visit(v);
        return;
    }
    if (!is_allowed_user(v->uid)) {
        audit_request(v->uid, "refused", nth_string(blob, h.blob, 3));
        send_answer(v, SUDO_REFUSED, EPERM, "user");
        close_visit(v);
        return;
    }
    cay_g_spawn m = { .argc = h.argc, .envc = h.envc };
    plan p = { .m = &m,
               .io = { fds[0], fds[1], fds[2] },
               .group = init.tenant[0],
               .into = init.tenant[1],
               .slave = -1 };
    for (int i = 2; i >= 0; i--) {
        if (h.tty >> i & 1)
            p.slave = fds[i];
    }
    if (p.slave >= 0) /* closed by whoever starts it; ours are closed by our caller */
        p.slave = fcntl(p.slave, F_DUPFD_CLOEXEC, 3);
    int pid = init.ops->start(&p, blob, h.blob, &(int){ -1 }, &step);
    audit_request(v->uid, cay__text_or(blob, "root"), nth_string(blob, h.blob, 3));
    v->due = 0;
    if (pid < 0) {
        send_answer(v, SUDO_FAILED, errno, step);
        close_visit(v);
        return;
    }
    v->pid = pid;
    send_answer(v, SUDO_STARTED, pid, "");
}

void sudo_reaped(int pid, int status)
{
    for (visit *v = sudo.v; sudo.listen >= 0 && v < sudo.v + SUDO_VISITS; v++)
        if (v->pid == pid) {
            if (v->fd >= 0)
                send_answer(v, SUDO_ENDED, status, "");
            v->pid = 0;
            close_visit(v);
        }
}

/* A client that is gone, killed by a time-out for instance, takes its command along. */
static void on_client_gone(visit *v)
{
    close_visit(v);
    if (v->pid && !CAY__MUTANT("sudo-gone")) {
        kill(-v->pid, SIGHUP);
        kill(-v->pid, SIGCONT);
        v->due = cay__now_ms() + KILL_MS;
    }
}

static void receive_packet(visit *v)
{
    int fds[CAY__FDS_MAX], nfds = CAY__FDS_MAX;
    set_close_alarm(true);
    ssize_t n = cay__fd_recv(v->fd, init.buf, CAY_MSG_MAX, fds, &nfds, MSG_DONTWAIT);
    int sys = errno;
    set_close_alarm(false);
    if (n < 0 && sys == EAGAIN)
        return;
    if (n < 0)
        nfds = 0;
    int32_t sig = 0;
    if (n <= 0) {
        on_client_gone(v);
    } else if (!v->pid) {
        start_request(v, init.buf, (size_t)n, fds, nfds);
    } else if (n == sizeof sig) {
        memcpy(&sig, init.buf, sizeof sig);
        if (sig > 0 && sig <= 64)
            kill(-v->pid, sig); /* its own session's first group, and nobody else's */
    }
    set_close_alarm(true);
    cay__close_fds(fds, nfds);
    set_close_alarm(false);
}

static visit *find_free_visit(void)
{
    CAY_EACH(v, sudo.v)
        if (v->fd < 0 && !v->pid)
            return v;
    return NULL;
}

int sudo_poll(struct pollfd *p)
{
    if (sudo.listen < 0 ||
        services_held()) /* nothing is started while the sandbox is to stand still */
        return 0;
    int n = 0;
    p[n++] = (struct pollfd){ find_free_visit() ? sudo.listen : -1, POLLIN, 0 };
    CAY_EACH(v, sudo.v)
        p[n++] = (struct pollfd){ v->fd, POLLIN, 0 };
    return n;
}

static void accept_client(void)
{
    struct ucred cr;
    visit *v = find_free_visit();
    int fd = accept4(sudo.listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || !cay__sock_peer(fd, &cr)) {
        cay__close_fd(&fd);
        return;
    }
    *v = (visit){ .fd = fd, .uid = cr.uid, .due = cay__now_ms() + ASK_MS };
}

void sudo_ready(const struct pollfd *p, int n)
{
    int64_t now = cay__now_ms();
    if (sudo.untold && now >= tell_at())
        audit_request(sudo.untold_uid, "left out", "");
    for (int i = 1; i < n; i++)
        if (p[i].revents && sudo.v[i - 1].fd == p[i].fd)
            receive_packet(&sudo.v[i - 1]);
    if (n && p[0].revents)
        accept_client();
    for (visit *v = sudo.v; sudo.listen >= 0 && v < sudo.v + SUDO_VISITS; v++) {
        if (!v->due || now < v->due)
            continue;
        v->due = 0;
        if (v->pid)
            tree_signal(v->pid, SIGKILL, true);
        else if (!CAY__MUTANT("sudo-idle"))
            close_visit(v); /* it holds a place and wants nothing */
    }
}

int sudo_wait(void)
{
    int64_t first = INT64_MAX;
    if (sudo.untold)
        first = tell_at();
    for (visit *v = sudo.v; sudo.listen >= 0 && v < sudo.v + SUDO_VISITS; v++) {
        if (v->due && v->due < first)
            first = v->due;
    }
    return wait_until(first);
}
