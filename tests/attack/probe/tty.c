/* SPDX-License-Identifier: Apache-2.0 */
/* S-20: terminals that type by themselves. */
#include "probe.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void on(const char *where, int fd)
{
    static const struct {
        const char *name;
        unsigned long request;
    } all[] = { { "TIOCSTI", 0x5412 },
                { "TIOCLINUX", 0x541c },
                { "TIOCCONS", 0x541d },
                { "TIOCSETD", 0x5423 } };
    char what[96];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int arg = 'x';
        snprintf(what, sizeof what, "%s on %s", all[i].name, where);
        must_fail(what, syscall(SYS_ioctl, (long)fd, (long)all[i].request, &arg), EPERM);
        snprintf(what, sizeof what, "%s on %s with high bits", all[i].name, where);
        must_fail(what, syscall(SYS_ioctl, (long)fd, 0x7abc00000000L | (long)all[i].request, &arg),
                  EPERM);
    }
}

static void sti(int argc, char **argv)
{
    (void)argc, (void)argv;
    on("stdin", 0);
    on("stdout", 1);
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        on("/dev/tty", fd);
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0, n = -1;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCGPTN, &n) < 0) {
        breach("no terminal of our own: %s", strerror(errno));
        return;
    }
    on("a new terminal", master);
    char path[32];
    snprintf(path, sizeof path, "/dev/pts/%d", n);
    int slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        breach("%s: %s", path, strerror(errno)); /* the instance is our own, so it must be there */
    else
        on(path, slave);
}

/* Numbers of terminals that are not of our instance must not open. ARG: how many there may be. */
static void terminals(int argc, char **argv)
{
    int most = argc > 0 ? atoi(argv[0]) : 1, n = 0;
    char path[32];
    for (int i = 0; i < 64; i++) {
        snprintf(path, sizeof path, "/dev/pts/%d", i);
        n += access(path, F_OK) == 0;
    }
    if (n <= most)
        ok("%d terminals", n);
    else
        breach("%d terminals are visible", n);
    must_fail_by("/dev/console", open("/dev/console", O_RDWR | O_NOCTTY | O_CLOEXEC), ENOENT,
                 EACCES);
    must_fail_by("/dev/tty0", open("/dev/tty0", O_RDWR | O_NOCTTY | O_CLOEXEC), ENOENT, EACCES);
}

const probe tty_probes[] = { { "sti", sti }, { "terminals", terminals }, { NULL, NULL } };
