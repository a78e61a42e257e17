/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGUSR2: the program begins anew under the same process id, as it is installed now, with the
 * sockets that it listens on. They are never closed, so whoever connects meanwhile waits and is not
 * refused; what was being answered is answered first.
 */
#include <server/http/connection.h>
#include <base/base.h>
#include <base/str.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>

#define FDS "CAY_SERVER_SOCKETS" /* by the order of --listen, blanks between */

/* The path, not the file: whoever brings a new version puts another file there. */
static char program[PATH_MAX];
static int kept[CAY__LISTENERS];
static size_t nkept;

void cay__anew_begin(void)
{
    const char *text = getenv(FDS);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    for (char *end; text && *text && nkept < CAY_LEN(kept); text = end) {
        long fd = strtol(text, &end, 10);
        if (end == text || fd < 3 || fd > INT_MAX)
            break;
        kept[nkept++] = (int)fd;
    }
    unsetenv(FDS); /* what we start has no use for it */
}

int cay__anew_socket(size_t i)
{
    int on = 0;
    socklen_t len = sizeof on;
    if (i >= nkept || getsockopt(kept[i], SOL_SOCKET, SO_ACCEPTCONN, &on, &len) < 0 || !on)
        return -1;
    fcntl(kept[i], F_SETFD, FD_CLOEXEC);
    return kept[i];
}

int cay__anew(const cay__server *s, char **argv)
{
    CAY_AUTOBUF b = CAY__BUF(1024);
    for (size_t i = 0; i < s->nlisteners; i++) {
        fcntl(s->listeners[i].fd, F_SETFD, 0);
        cay__buf_fmt(&b, "%s%d", i ? " " : "", s->listeners[i].fd);
    }
    setenv(FDS, b.data, 1);
    cay__harden_anew();
    execv(program, argv);
    fprintf(stderr, "cay: begin anew: %s: %s\n", program, strerror(errno));
    return 1;
}
