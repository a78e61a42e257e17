/* SPDX-License-Identifier: Apache-2.0 */
/* All that there is of a state directory goes, and the keeper with it. */
#include "root_helper.h"
#include "native.h"
#include <base/base.h>
#include <base/fsop.h>
#include <lib/snapshot/layer.h>
#include <limits.h>
#include <poll.h>
#include <lib/provider/provider.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define LEAVE_MS 15000

typedef struct unowned {
    cay__native *n;
    const cay_call *call;
    cay_err *err;
} unowned;

static int remove_box(const char *id, void *arg)
{
    const unowned *u = arg;
    return cay__provider_native.remove_files(u->n, u->call, id, u->err);
}

/* Where this host refuses namespaces there is no keeper and no id but the user's own. */
static int remove_plainly(const cay__native *n, const char *const *names, cay_err *err)
{
    cay__fs fs = { .root = n->home_fd };
    for (; *names; names++) {
        char path[128];
        struct stat st;
        if (fstatat(n->home_fd, *names, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        CAY_JOIN(path, "/", *names);
        CAY_TRY_SYS(cay__fs_remove(&fs, path, true), err, "remove %s", *names);
    }
    return 0;
}

static int remove_names(const cay__native *n, const cay_call *call, const char *const *names,
                        cay_err *err)
{
    cay__layer_at at = { n->home, CAY_IF(n->libexec[0], n->libexec) };
    cay__layer_ask q = { .verb = "purge", .args = names };
    cay_err why = CAY_ERR_INIT;
    while (names[q.nargs])
        q.nargs++;
    int rc = cay__layer_run(&at, call, &q, NULL, &why);
    if (rc == CAY_EISOLATION && cay_err_is(&why, CAY_REASON_NAMESPACES_REFUSED))
        return remove_plainly(n, names, err);
    return cay__err_pass(rc, &why, err);
}

/* By the connection, so that it is the one of this directory; by a descriptor, so that it is nobody
 * else meanwhile. */
static int end_keeper(const cay__native *n, cay_err *err)
{
    struct ucred peer;
    char byte;
    CAY_AUTOFD sock = cay__native_knock(n);
    if (sock < 0 || !cay__sock_peer(sock, &peer) || peer.pid <= 0)
        return 0;
    CAY_AUTOFD fd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    if (fd < 0 || recv(sock, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
        return 0;
    syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0);
    struct pollfd p = { fd, POLLIN, 0 };
    if (poll(&p, 1, LEAVE_MS) == 1)
        return 0;
    return cay_fail_why(err, CAY_ETIMEOUT, "keeper_busy",
                        "the keeper of %s, pid %d, does not leave; end it by hand", n->home,
                        peer.pid);
}

/* Sockets and locks are files of ours, without directories; who finds others in there leaves them.
 */
static void remove_run_dir(const cay__native *n)
{
    CAY_AUTODIR *d = cay__dir_open(AT_FDCWD, n->run);
    for (struct dirent *e; d && (e = cay__dir_next(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        rmdir(n->run);
}

int cay__native_purge(void *self, const cay_call *call, const char *const *names, cay_err *err)
{
    cay__native *n = self;
    unowned u = { n, call, err };
    char path[PATH_MAX];
    if (cay__hand_there(n->home_fd))
        return cay_fail_why(err, CAY_ENOTSUP, "apart_refused",
                            "the state directory of a server beside a keeper of root's is removed "
                            "by root, once the server has ended");
    CAY_TRY(cay__provider_native.list(self, call, remove_box, &u, err));
    CAY_TRY(remove_names(n, call, names, err));
    /* Who wants a keeper meanwhile waits here, and finds that there is no directory. */
    CAY_JOIN(path, n->run, "/start.lock");
    CAY_AUTOFD lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock >= 0 && flock(lock, LOCK_EX) < 0)
        return cay_fail_sys(err, "lock %s", path);
    CAY_TRY(end_keeper(n, err));
    /* It may have made some anew while it left. */
    CAY_TRY(remove_plainly(
        n, (const char *const[]){ "sandboxes", "layers", "alive", "keeper.log", NULL }, err));
    remove_run_dir(n);
    return 0;
}
