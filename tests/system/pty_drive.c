/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty_drive [STEP…] -- COMMAND…: runs a command on a terminal of its own and does what a person
 * would.
 *
 *   -e TEXT      wait until TEXT appears after what was seen before (10 s at most)
 *   -s TEXT      type TEXT; \r \n \e \xNN stand for bytes
 *   -r COLS,ROWS resize the window
 *   -x LINE      run LINE by sh, outside the terminal
 *   -z MS        wait
 *
 * All output goes to standard output. Afterwards the terminal's settings are compared with those
 * before
 * ("terminal restored" or "terminal CHANGED" on standard error). Exit code: the command's, 128 +
 * signal, 124 when a text did not come, 99 when the settings were left changed.
 */
#include <base/base.h>
#include <base/fd.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

enum { WAIT_MS = 10000, KEEP = 1 << 20 };
static char seen[KEEP + 1];
static size_t nseen, from;

static size_t unescape(const char *s, char *out)
{
    size_t n = 0;
    for (; *s; s++) {
        if (*s != '\\' || !s[1]) {
            out[n++] = *s;
            continue;
        }
        switch (*++s) {
        case 'n': out[n++] = '\n'; break;
        case 'r': out[n++] = '\r'; break;
        case 'e': out[n++] = 27; break;
        case 'x': {
            char hex[3] = { s[1], s[1] ? s[2] : 0, 0 };
            out[n++] = (char)strtol(hex, NULL, 16);
            s += strlen(hex);
            break;
        }
        default: out[n++] = *s;
        }
    }
    return n;
}

/* Takes what the terminal has within ms; false at its end. */
static bool take(int master, int ms)
{
    struct pollfd p = { .fd = master, .events = POLLIN };
    char buf[4096];
    if (poll(&p, 1, ms) <= 0)
        return true;
    ssize_t n = read(master, buf, sizeof buf);
    if (n <= 0)
        return false;
    cay__fd_write_all(1, buf, (size_t)n);
    n = (ssize_t)CAY_MIN((size_t)n, KEEP - nseen);
    memcpy(seen + nseen, buf, (size_t)n);
    nseen += (size_t)n;
    return true;
}

static bool expect(int master, const char *text)
{
    char want[4096];
    size_t n = unescape(text, want);
    for (int64_t end = cay__now_ms() + WAIT_MS;;) {
        char *at = memmem(seen + from, nseen - from, want, n);
        if (at) {
            from = (size_t)(at - seen) + n;
            return true;
        }
        if (cay__now_ms() >= end || !take(master, 50))
            break;
    }
    fprintf(stderr, "\npty_drive: \"%s\" did not come\n", text);
    return false;
}

static bool outside(const char *line)
{
    pid_t pid = fork();
    int st;
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    return waitpid(pid, &st, 0) == pid && st == 0;
}

static bool step(int master, char how, const char *text)
{
    char buf[4096];
    unsigned cols, rows;
    switch (how) {
    case 'e': return expect(master, text);
    case 's': return cay__fd_write_all(master, buf, unescape(text, buf));
    case 'r':
        if (sscanf(text, "%u,%u", &cols, &rows) != 2)
            return false;
        return ioctl(master, TIOCSWINSZ,
                     &(struct winsize){ .ws_col = (unsigned short)cols,
                                        .ws_row = (unsigned short)rows }) == 0;
    case 'x': return outside(text);
    case 'z':
        for (int64_t end = cay__now_ms() + atoi(text); cay__now_ms() < end;)
            take(master, 20);
        return true;
    default: return false;
    }
}

static pid_t start(int slave, char **argv)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    setsid();
    ioctl(slave, TIOCSCTTY, 0);
    for (int i = 0; i < 3; i++)
        dup2(slave, i);
    execvp(argv[0], argv);
    _exit(127);
}

/* The end of the command, with its output drained meanwhile. */
static int finish(int master, pid_t pid)
{
    int st = 0;
    for (int64_t end = cay__now_ms() + WAIT_MS; cay__now_ms() < end;) {
        take(master, 20);
        if (waitpid(pid, &st, WNOHANG) == pid) {
            take(master, 20);
            return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
        }
    }
    fprintf(stderr, "\npty_drive: the command does not end\n");
    kill(pid, SIGKILL);
    waitpid(pid, &st, 0);
    return 124;
}

int main(int argc, char **argv)
{
    struct termios before, after;
    int i = 1, code = 0;
    char name[64];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 ||
        ptsname_r(master, name, sizeof name) != 0) {
        perror("pty_drive: no terminal to be had");
        return 77;
    }
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    while (i < argc && strcmp(argv[i], "--"))
        i += 2;
    if (slave < 0 || i + 1 >= argc || tcgetattr(slave, &before) < 0)
        return 2;
    step(master, 'r', "80,24");
    pid_t pid = start(slave, argv + i + 1);
    for (int k = 1; k + 1 < i && !code; k += 2)
        if (!step(master, argv[k][1], argv[k + 1]))
            code = 124;
    if (code)
        kill(pid, SIGKILL);
    int ended = finish(master, pid);
    bool same = tcgetattr(slave, &after) == 0 && after.c_lflag == before.c_lflag &&
                after.c_iflag == before.c_iflag && after.c_oflag == before.c_oflag;
    fprintf(stderr, "terminal %s\n", same ? "restored" : "CHANGED");
    return code ? code : !same ? 99 : ended;
}
