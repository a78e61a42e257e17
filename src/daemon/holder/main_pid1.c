/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-pid1 ID: the first process of a container, bind-mounted into it read-only. It is cay-local's
 * holder (daemon/holder/host.h) with two differences: commands and file workers get the rights of
 * the image's users, and only who has no pid in here may ask it anything.
 *
 *     /.cay/pid1  this program
 *     /.cay/ctl   a directory of the host: config, meta, procs, sock, hello; read-only
 *
 * What it may write there it gets from a client of the host: door.c.
 *
 * cay-pid1 ID far: the same where the engine does not see the host: program and directory are the
 * container's own, and who asks is a process of root's in here, cay-pid1 relay, which the engine
 * starts.
 *
 * config: default user NUL workdir NUL KEY=VALUE NUL …; meta as in proto/local_record.h.
 */
#include <proto/relay.h>
#include <base/base.h>
#include <daemon/init/init.h>
#include <proto/seccomp.h>
#include <poll.h>
#include "host.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CTL CAY__PID1_CTL

/* The user of those who name none may have a group behind ':'; a name that is asked for has none.
 */
static int who_is(const char *name, ident *out)
{
    if (name == init.config)
        return user_default(out);
    return user_find(name, out);
}

static bool load_config(host *h, int dir)
{
    ssize_t len = cay__host_config(h, dir);
    if (len < 0)
        return false;
    h->user = init.config = h->config;
    init.config_len = (size_t)len;
    char *services =
        memmem(h->config, (size_t)len, "\0" CAY_SERVICES_MARK, sizeof CAY_SERVICES_MARK + 1);
    if (services) { /* behind the environment, which ends there */
        h->services_at = services + 1 + sizeof CAY_SERVICES_MARK;
        h->services_len = (size_t)(h->config + len - h->services_at);
        services[1] = 0;
    }
    h->workdir = h->user + strlen(h->user) + 1;
    h->env = h->workdir + strlen(h->workdir) + 1;
    h->fs = (cay__fs){ .root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
                       .workdir = h->workdir,
                       .home = "/" };
    return h->fs.root >= 0 && h->workdir[0] == '/';
}

/* A directory that is the user's. One of the host that is mounted there keeps its owner. */
static void make_user_dir(host *h, const char *path, const ident *id)
{
    struct stat st, root;
    cay__fs_mkdir(&h->fs, path, 0755, true);
    CAY_AUTOFD fd = cay__fs_open(&h->fs, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fstat(fd, &st) < 0 || fstat(h->fs.root, &root) < 0 || st.st_uid != 0 ||
        st.st_dev != root.st_dev || st.st_ino == root.st_ino)
        return;
    if (fchown(fd, id->uid, id->gid) < 0)
        cay__close_fd(&fd); /* a read-only root: commands tell it better */
}

static void make_user_dirs(host *h)
{
    ident id;
    if (who_is(h->user, &id) != 0)
        return; /* whoever starts a command is told */
    make_user_dir(h, h->workdir, &id);
    if (strcmp(id.home, "/") != 0 && id.home[0] == '/')
        make_user_dir(h, id.home, &id);
}

static int make_socket(int dir)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    CAY_AUTOFD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CAY_FORMAT(a.sun_path, "/proc/self/fd/%d/.sock", dir);
    unlink(a.sun_path);
    /* Under its name once it listens: who finds it reaches us. Any id of the host may be the one
     * that asks; the directory is its own. */
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || chmod(a.sun_path, 0666) < 0 ||
        listen(fd, 128) < 0 || renameat(dir, ".sock", dir, "sock") < 0)
        return -1;
    return CAY_STEAL_FD(fd);
}

enum { COME = -1, BROKEN = -2 }; /* to be tried again; never to be */

/* With the directory as the host has it: socket and record are made, and then it is let go, before
 * there is a tenant who could reach for it. */
static int set_up_host(host *h, int dir)
{
    if (!load_config(h, dir))
        return BROKEN;
    make_user_dirs(h);
    h->again = faccessat(dir, "procs", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    CAY_AUTOFD mark = openat(dir, "procs", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    h->record = openat(dir, "meta", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    int listener = -1;
    if (mark >= 0 && h->record >= 0)
        listener = make_socket(dir);
    if (listener < 0)
        return BROKEN;
    return listener;
}

static int connect_to_host(host *h)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = CTL "/" CAY__PID1_DOOR };
    struct timeval soon = { .tv_sec = 2 };
    struct ucred peer;
    cay__pid1_door m = { 0 };
    int dir = -1, n = 1;
    CAY_AUTOFD way = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (way < 0 || setsockopt(way, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) < 0 ||
        connect(way, (struct sockaddr *)&a, sizeof a) < 0 || !cay__sock_peer(way, &peer) ||
        peer.pid != 0) /* who has a pid in here is not the host */
        return COME;
    ssize_t got = cay__fd_recv(way, &m, sizeof m, &dir, &n, 0);
    if (got != sizeof m || n != 1 || m.id[sizeof m.id - 1] || !cay__id_valid(m.id, 'c')) {
        cay__close_fd(got > 0 && n == 1 ? &dir : &(int){ -1 });
        return COME;
    }
    CAY_COPY(h->id, m.id);
    int listener = set_up_host(h, dir);
    cay__close_fd(&dir);
    if (listener >= 0)
        send(way, "k", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    return listener;
}

static void leave_now(int sig)
{
    _exit(0);
}

/* Whoever started the container is at the door, or whoever uses it next. Its time may be up before
 * that. */
static int wait_for_host(host *h)
{
    local_meta m;
    int64_t until = INT64_MAX;
    if (cay__local_meta_read(h->dir, &m, NULL) == 0 && m.deadline_boot)
        until = m.deadline_boot;
    signal(SIGTERM, leave_now);
    for (int pause = 1; cay__boot_ms() < until; pause = CAY_MIN(pause * 2, 64)) {
        int listener = connect_to_host(h);
        if (listener != COME)
            return listener;
        poll(NULL, 0, pause);
    }
    return BROKEN;
}

/* Words behind the id: "far"; "cay" or "strict", the filter of native sandboxes (docs/seccomp.md)
 * for us and all that we start. */
static bool has_word(int argc, char **argv, const char *word)
{
    int i = 2;
    while (i < argc && strcmp(argv[i], word) != 0)
        i++;
    return i < argc;
}

static bool install_filter(int argc, char **argv)
{
    bool strict = has_word(argc, argv, "strict");
    if (!strict && !has_word(argc, argv, "cay"))
        return true;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           cay__seccomp_install(strict ? CAY_PROFILE_STRICT : CAY_PROFILE_DEFAULT) == 0;
}

int main(int argc, char **argv)
{
    static host h = { .journal = -1, .record = -1, .who = who_is };
    sudo_main(argc, argv);
    if (argc >= 2 && !strcmp(argv[1], "relay"))
        return cay__relay_main(argc, argv);
    if (argc >= 2 && !strcmp(argv[1], "storage"))
        return cay__attach_main(argc, argv);
    if (argc < 2 || !cay__id_valid(argv[1], 'c') || getpid() != 1) {
        fprintf(stderr, "cay-pid1: started by a container engine for libcay, not by hand\n");
        return 2;
    }
    /* The tenant, root or not, must not read or steer us. */
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NAME, "cay-pid1");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    umask(022);
    cay__fd_close_from(3);
    CAY_COPY(h.id, argv[1]);
    h.far = has_word(argc, argv, "far");
    h.dir = open(CTL, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (h.dir < 0 || faccessat(h.dir, "config", F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
        (h.far && !load_config(&h, h.dir))) {
        fprintf(stderr, "cay-pid1: %s cannot be read: is the engine on another machine?\n", CTL);
        return 3;
    }
    if (h.far) { /* written elsewhere, and not to be read by root in here */
        h.meta.state = CAY_RUNNING;
        h.meta.reason[0] = 0;
        cay__local_meta_write(h.dir, &h.meta, NULL);
        unlinkat(h.dir, "config", 0);
        make_user_dirs(&h);
    }
    int listener;
    if (h.far)
        listener = make_socket(h.dir);
    else
        listener = wait_for_host(&h);
    /* Before the first service or command: no tenant runs without what was asked for. */
    if (listener >= 0 && !install_filter(argc, argv)) {
        fprintf(stderr, "cay-pid1: the filter of system calls cannot be installed\n");
        return 5;
    }
    if (listener >= 0 && h.services_at)
        cay__inside_open(&h, h.services_at, h.services_len);
    if (listener < 0)
        return 4;
    return cay__host_run(&h, listener);
}
