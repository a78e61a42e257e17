/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client may send to the worker inside a sandbox. The input is a few packets, each
 * [which descriptor comes along] [length, 2 bytes] [bytes]; the worker serves them in a small tree
 * of its own, and nothing beside that tree may change.
 */
#include <base/base.h>
#include <base/fd.h>
#include <daemon/init/session.h>
#include <proto/session.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include "../tests/support/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { PACKETS = 4 };
static tree t;

static void leave(void)
{
    tree_close(&t);
}

static void prepare(void)
{
    if (!t.top[0]) {
        signal(SIGPIPE, SIG_IGN);
        tree_open(&t);
        atexit(leave);
    }
    mkdirat(t.root, "work", 0755);
    mkdirat(t.root, "work/d", 0755);
    char work[128];
    snprintf(work, sizeof work, "%s/work", t.in);
    tree_write(work, "f", "some text\nmore text\n");
    if (symlinkat("../../out", t.root, "work/l") < 0 && errno != EEXIST)
        abort();
}

/* 1: a stream socket, 2: a read end that has ended, 3: no pipe at all, 4: a pipe with the rest of
 * the input in it, for FILL. The other end stays in *other. */
static int companion(uint8_t kind, const uint8_t *all, size_t len, int *other)
{
    int p[2];
    *other = -1;
    if (kind == 3)
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    if (kind == 1 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) == 0) {
        *other = p[0];
        return p[1];
    }
    if ((kind != 2 && kind != 4) || pipe2(p, O_CLOEXEC) < 0)
        return -1;
    len = CAY_MIN(len, (size_t)60000);
    if (kind == 4 ? write(p[1], all, len) != (ssize_t)len : write(p[1], "uploaded", 8) != 8)
        abort();
    close(p[1]);
    return p[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    int sv[2], others[PACKETS] = { -1, -1, -1, -1 };
    prepare();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
        return 0;
    for (int i = 0; i < PACKETS && len >= 3; i++) {
        size_t n = (size_t)(data[1] | data[2] << 8);
        n = CAY_MIN(n, len - 3);
        CAY_AUTOFD fd = companion(data[0], data + 3 + n, len - 3 - n, &others[i]);
        if (n)
            cay__fd_send(sv[0], data + 3, n, &fd, fd >= 0, MSG_DONTWAIT);
        data += 3 + n;
        len -= 3 + n;
    }
    cay__fd_send(sv[0], "x", 1, NULL, 0,
                 MSG_DONTWAIT); /* too short to be a request: ends the session */
    cay__session_serve(sv[1], t.root, "/work", "/work/d");
    for (int i = 0; i < PACKETS; i++)
        cay__close_fd(&others[i]);
    close(sv[0]);
    close(sv[1]);
    if (strcmp(tree_read(t.out, "secret"), "outside"))
        abort();
    return 0;
}
