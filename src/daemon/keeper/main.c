/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-keeper HOME RUN LAYER READY-FD: holds the sandboxes of one state directory.
 *
 * Started by the first client that needs it. Says one thing on READY-FD: "ok", or what is wrong;
 * before that, as an ordinary user's, "map PID", answered by y or n. Leaves a minute after the last
 * sandbox and client are gone, or when its state directory vanishes.
 */
#include "keeper.h"
#include <proto/landlock.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#ifdef CAY_FAULTS
int pool_print_faults(void);
#endif

#define LOG_MAX (64 << 10)

keeper_state keeper;
static int ready_fd = -1;

static _Noreturn void exit_with_error(const char *what)
{
    char line[256];
    int n = CAY_FORMAT(line, "%s: %s\n", what, strerror(errno));
    if (ready_fd >= 0)
        (void)!write(ready_fd, line, (size_t)n);
    _exit(1);
}

/* Away from the caller's session, terminal, directory and descriptors. */
static void detach_process(const char *run)
{
    char log[4096], old[4096];
    if (setsid() < 0 && errno != EPERM)
        exit_with_error("session");
    const char *reports = NULL;
    if (CAY__SANITIZED)
        reports = getenv("CAY_REPORTS");
    int pid = fork(); /* nobody's child, so nobody's zombie; and never again a session's leader */
    if (pid)
        _exit(pid < 0);
    CAY_JOIN(log, run, "/keeper.err");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int err = -1;
    if (reports)
        err = open(reports, O_WRONLY | O_APPEND | O_CLOEXEC);
    struct stat st;
    if (stat(log, &st) == 0 && st.st_size > LOG_MAX && CAY_JOIN(old, log, ".old"))
        rename(log, old); /* what an earlier keeper said explains what this one finds */
    if (err < 0)
        err = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (null < 0 || err < 0)
        exit_with_error(log);
    dup2(null, 0);
    dup2(null, 1);
    dup2(err, 2);
    ready_fd = dup2(ready_fd, 3);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    cay__fd_close_from(4);
    umask(022);
    for (int s = 1; s <= 64; s++) /* by hand: the C library keeps two of them for itself, and an
                                     ignored one is inherited */
        syscall(SYS_rt_sigaction, s, &(uint64_t[4]){ 0 }, NULL, 8);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
    /* Of us and of all that descend from us. At 1, and only there, a host whose cores go to a
     * program starts none. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 1, 1 });
}

/* One keeper per state directory: the lock lives as long as the process. */
static void lock_run_dir(const char *run)
{
    char path[4096];
    CAY_JOIN(path, run, "/keeper.lock");
    keeper.lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (keeper.lock_fd < 0)
        exit_with_error(path);
    if (flock(keeper.lock_fd, LOCK_EX | LOCK_NB) < 0)
        exit_with_error("another keeper serves this state directory");
}

static void listen_here(void)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = "/r/keeper.new" };
    unlink(sa.sun_path);
    hello_write();
    keeper.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (keeper.listen_fd < 0 || bind(keeper.listen_fd, (struct sockaddr *)&sa, sizeof sa) < 0 ||
        listen(keeper.listen_fd, 512) < 0 ||
        renameat(keeper.run_fd, "keeper.new", keeper.run_fd, "keeper.sock") < 0)
        exit_with_error("socket");
    keeper.listener =
        (cay__watch){ .fd = keeper.listen_fd, .events = EPOLLIN, .fn = client_accept };
    if (!cay__loop_add(&keeper.loop, &keeper.listener))
        exit_with_error("loop");
}

/* Disk is measured every few seconds where the kernel does not hold the limit; beyond it,
 * everything in the sandbox ends. */
static void on_disk_measured(job_wait *j, const cay_job_done *d, int *fds, int nfds)
{
    keeper_box *b = j->b;
    if (!b || b->phase != BOX_LIVE || d->sys || CAY__MUTANT("disk-limit"))
        return;
    b->disk_used = d->bytes + b->below_bytes;
    b->disk_inodes = d->inodes + b->below_inodes;
    if (b->disk_used <= b->limits.disk && b->disk_inodes <= b->limits.inodes)
        return;
    event_send(b->id, "limit", "disk", "", 0);
    box_stop(b, "disk", b->flags & CAY_CREATE_EPHEMERAL);
}

bool home_vanished(void)
{
    struct stat st;
    if (fstat(keeper.home_fd, &st) == 0 && st.st_nlink > 0)
        return false;
    return keeper.vanished = keeper.loop.stop = true;
}

static void on_sweep_timer(cay__timer *t)
{
    static unsigned turn;
    home_vanished();
    nets_drop();
    pool_forget();
    keeper.strays = keeper.strays && !cgroup_reap_strays();
    unsigned i = 0, n = 0;
    CAY_EACH_LINK(b, keeper.boxes) {
        if (b->restore)
            net_restore(b);
        n += b->phase == BOX_LIVE;
        CAY_EACH_LINK(p, b->procs)
            CAY_EACH_OF(it, p->out, 2)
                cay__stream_resume(it);
    }
    for (keeper_box *b = keeper.boxes; b && keeper.sweeper.busy == 0; b = b->next) {
        if (b->phase != BOX_LIVE || !b->limits.disk || i++ != turn % n)
            continue;
        turn++;
        if ((b->flags & CAY_CREATE_DISK) && (disk_look(b) || true))
            break;
        keeper_job j = { .type = KEEPER_JOB_DU };
        CAY_JOIN(j.name, "sandboxes/", b->id, b->flags & CAY_CREATE_ON ? "" : "/upper");
        job_send(&keeper.sweeper, &j, NULL, 0, &(job_wait){ .b = b, .fn = on_disk_measured });
        break;
    }
    arm_timer(&keeper.sweep, n > 4 ? 500 : 2000);
}

static void on_term(int sig)
{
    /* NOLINTBEGIN(bugprone-signal-handler,cert-sig30-c): errno is a variable of this thread */
    int e = errno;
    (void)!write(keeper.asked.fd, &(uint64_t){ 1 }, sizeof(uint64_t));
    errno = e;
    /* NOLINTEND(bugprone-signal-handler,cert-sig30-c) */
}

#define NOTICE_MS 400 /* in which inits that were asked, too, say so */
#define ENDS_MS   600 /* in which they end */

static void on_stop_timer(cay__timer *t)
{
    static int64_t until;
    bool ending = false;
    CAY_EACH_LINK(b, keeper.boxes)
        ending |= b->ending;
    if (!until)
        until = cay__boot_ms() + ENDS_MS;
    keeper.loop.stop |= !ending || cay__boot_ms() > until;
    arm_timer(t, 20);
}

/* Sandboxes live on, for the next keeper. But when the host goes down, or systemd stops the scope
 * that we share with them, their inits are asked, too: we stay until they have ended, so that it is
 * recorded, and that no other keeper begins to adopt them. */
void leave_soon(void)
{
    if (keeper.stop.fn)
        return;
    keeper.stop.fn = on_stop_timer;
    arm_timer(&keeper.stop, NOTICE_MS * (keeper.nlive > 0));
}

static void on_asked(cay__watch *w, uint32_t ev)
{
    cay__loop_del(&keeper.loop, w);
    leave_soon();
}

#ifdef CAY_FAULTS
static void print_name(const char *name)
{
    dprintf(1, "%s\n", name);
}
#endif

int main(int argc, char **argv)
{
    uint64_t fd;
#ifdef CAY_FAULTS
    if (argc == 2 && !strcmp(argv[1], "--faults")) {
        cay__fault_list(print_name);
        return pool_print_faults();
    }
#endif
    if (argc != 5 || !cay__str_to_u64(argv[4], &fd)) {
        dprintf(2, "cay-keeper is started by cay; it takes HOME RUN LAYER READY-FD\n");
        return 2;
    }
    const char *home = argv[1], *run = argv[2];
    ready_fd = (int)fd;
    keeper.argv = argv;
    keeper.journal_fd = -1;
    if (!CAY_COPY(keeper.layer, argv[3]))
        exit_with_error("layer");
    detach_process(run);
    CAY_FAULT("keeper.start.detached"); /* the first: the environment is read while paths of the
                                           host mean something */
    lock_run_dir(run);
    prctl(PR_SET_NAME, "cay-keeper");
    keeper.home_fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (keeper.home_fd < 0)
        exit_with_error(home);
    int userns = adopt_plan();
    close(keeper.home_fd);
    if (adopt_instance())
        CAY_COPY(keeper.instance, adopt_instance());
    else
        cay__id_make(keeper.instance, 'i');
    cgroup_discover(adopt_heir());
    keeper.landlock_abi = cay__landlock_abi();
    keeper.features |= CAY_FEAT_NETNS | CAY_FEAT_SECCOMP | CAY_FEAT_IDMAP |
                       (keeper.landlock_abi > 0 ? CAY_FEAT_LANDLOCK : 0);
    if (enter_namespaces(userns, ready_fd) < 0)
        exit_with_error("user namespace");
    cay__close_fd(&userns);
    CAY_FAULT("keeper.start.namespaces");
    if (!pool_start_janitor(home))
        exit_with_error("janitor");
    if (enter_tree(home, run) < 0)
        exit_with_error("mount namespace");
    if (!cay__loop_open(&keeper.loop) || rootfs_open() < 0)
        exit_with_error("state directory");
    adopt_run();
    if (!pool_start())
        exit_with_error("zygotes");
    CAY_FAULT("keeper.start.listen");
    listen_here();
    CAY_FAULT("keeper.start.ready");
    keeper.asked = (cay__watch){ eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), EPOLLIN, on_asked };
    if (keeper.asked.fd < 0 || !cay__loop_add(&keeper.loop, &keeper.asked))
        exit_with_error("loop");
    signal(SIGTERM, on_term);
    signal(SIGINT, on_term);
    signal(SIGCHLD, SIG_IGN);
    keeper.sweep.fn = on_sweep_timer;
    arm_timer(&keeper.sweep, 2000);
    pool_refill_soon();
    if (write(ready_fd, "ok\n", 3) != 3)
        dprintf(2, "nobody waited for the keeper\n");
    close(ready_fd);
    while (!keeper.loop.stop)
        cay__loop_step(&keeper.loop, -1);
    if (keeper.stop.fn) /* what they wrote is not left to how the host goes on */
        syncfs(keeper.home_fd);
    unlinkat(keeper.run_fd, "hello", 0);
    unlinkat(keeper.run_fd, "keeper.sock", 0);
    CAY_FAULT("keeper.leave.drain");
    if (!keeper.broken) { /* else the next one has whole helpers */
        adopt_last_look();
        pool_drain(keeper.vanished);
        lender_leave();
    }
    return 0;
}
