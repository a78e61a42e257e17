/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-local ID: holds one sandbox of level 0 or 1. Started by the library with
 *     3  the listening socket
 *     4  the sandbox's directory
 *     5  its lock, held as long as we live
 * It leaves session and terminal, and ends when the sandbox is stopped or its directory vanishes.
 * All that it started ends with it.
 *
 * cay-local --try: goes into the jail of level 1 itself and says "ok", or the step that failed and
 * why.
 */
#include "host.h"
#include <base/base.h>
#include <signal.h>
#include <sys/prctl.h>

enum { FD_LISTEN = 3, FD_DIR = 4, FD_LOCK = 5 };

static bool load_config(host *h)
{
    if (cay__host_config(h, h->dir) < 0)
        return false;
    h->workdir = h->config;
    h->home = h->workdir + strlen(h->workdir) + 1;
    h->env = h->home + strlen(h->home) + 1;
    h->fs = (cay__fs){ .root = cay__local_root(h->dir, (int)h->meta.level, h->root, sizeof h->root),
                       .workdir = h->workdir,
                       .home = h->home };
    return h->fs.root >= 0;
}

static void detach_process(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        dup2(null, i);
    cay__fd_close_from(FD_LOCK + 1);
    for (int fd = FD_LISTEN; fd <= FD_LOCK; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    setsid();
    (void)!chdir("/");
    umask(022);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_NAME, "cay-local");
}

static int try_jail(void)
{
    CAY_AUTOFD root = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *step = "/usr";
    if (root >= 0)
        step = cay__jail_enter(root, NULL);
    int e = errno;
    dprintf(1, step ? "%s: %s\n" : "ok\n", step, strerror(e));
    return step != NULL;
}

int main(int argc, char **argv)
{
    static host h = { .dir = FD_DIR, .journal = -1, .record = -1 };
    if (argc == 2 && !strcmp(argv[1], "--try"))
        _exit(try_jail()); /* no exit handlers: a leak checker could not work in there */
    if (argc != 2 || !cay__id_valid(argv[1], 'c') || fcntl(FD_LOCK, F_GETFD) < 0) {
        fprintf(stderr, "cay-local: started by libcay, not by hand\n");
        return 2;
    }
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0;
    detach_process();
    CAY_COPY(h.id, argv[1]);
    if (load_config(&h))
        return cay__host_run(&h, FD_LISTEN);
    return 1;
}
