/* SPDX-License-Identifier: Apache-2.0 */
/* S-54, the command line's part: bytes from a sandbox do not steer the operator's terminal. */
#include "attack.h"
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

/* OSC 52, OSC 8, title, DCS, a report request, end of paste, C1, DEL, a newline in a name. */
#define EVIL                                                                                       \
    "\033]52;c;ZXZpbA==\007\033]8;;http:x\033\\\033]0;t\007\033P$q\033\\\033[6n\033[201~\x9b"      \
    "31m\x7f\b\r"

static ssize_t cay(char *out, size_t cap, const char *verb, ...)
{
    const char *argv[16];
    char prog[400];
    size_t n = 0;
    int fds[2], status, unlock = 0;
    struct termios raw;
    va_list ap;
    snprintf(prog, sizeof prog, "%s/cay", W.bin);
    argv[n++] = prog;
    argv[n++] = verb;
    va_start(ap, verb);
    for (const char *a; n < 15 && (a = va_arg(ap, const char *));)
        argv[n++] = a;
    va_end(ap);
    argv[n] = NULL;
    /* A terminal is what must not be steered; what goes to a file is left as it is. */
    fds[0] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fds[0] < 0 || ioctl(fds[0], TIOCSPTLCK, &unlock) < 0 ||
        (fds[1] = ioctl(fds[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0 ||
        tcgetattr(fds[1], &raw) < 0)
        give_up("terminal: %s", strerror(errno));
    cfmakeraw(&raw);
    tcsetattr(fds[1], TCSANOW, &raw);
    int pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        setenv("NO_COLOR", "1", 1); /* our own colours are no attack */
        setenv("TERM", "dumb", 1);
        dup2(null, 0);
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        execv(prog, (char *const *)argv);
        _exit(127);
    }
    close(fds[1]);
    size_t len = 0;
    ssize_t got;
    while (len + 1 < cap && (got = read(fds[0], out + len, cap - 1 - len)) > 0)
        len += (size_t)got;
    close(fds[0]);
    waitpid(pid, &status, 0);
    out[len] = 0;
    return (ssize_t)len;
}

static void harmless(const char *what, const char *out, ssize_t n)
{
    CHECK(n > 0, "%s says nothing", what);
    for (ssize_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)out[i];
        bool utf8 = c >= 0x80 && c < 0xa0 && i > 0 && (unsigned char)out[i - 1] >= 0x80 &&
                    (unsigned char)out[i - 1] != 0xc2;
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || (c >= 0x80 && c < 0xa0 && !utf8)) {
            breach("%s prints byte %02x at %zd", what, c, i);
            return;
        }
    }
}

/* Waits until a process has written that many bytes to each of its streams. */
static void await_output(cay_proc *p, size_t bytes)
{
    cay_err err = CAY_ERR_INIT;
    int64_t end = now_ms() + 20000;
    for (int stream = CAY_STDOUT; stream <= CAY_STDERR; stream++)
        for (size_t n = 0; n < bytes && now_ms() < end; nap(10)) {
            uint64_t at = 0, lost = 0;
            char text[4096];
            bool eof;
            if (cay_proc_read(p, within(5000), stream, &at, text, sizeof text, &n, &lost, &eof,
                              &err) < 0)
                give_up("read: %s", err.msg);
        }
}

static void s54_escapes(void)
{
    static char out[1 << 18];
    cay_err err = CAY_ERR_INIT;
    cay_proc *p = NULL;
    cay_sandbox *sb = box_new(NULL);
    const char *id = cay_sandbox_id(sb);
    cay_write w = { .size = sizeof w };
    cay_exit end = { .size = sizeof end };
    char from[64];
    if (cay_file_put(sb, within(5000), "a" EVIL, EVIL "\n", sizeof EVIL, &w, &err) < 0 ||
        cay_file_symlink(sb, within(5000), EVIL, "e", &err) < 0 ||
        cay_file_put(sb, within(5000), "f", EVIL "\n", sizeof EVIL, &w, &err) < 0)
        give_up("files of such names: %s", err.msg);
    if (cay_file_setxattr(sb, within(5000), "f", "user.x", EVIL, strlen(EVIL), &err) < 0)
        note("an attribute: %s", err.msg);
    CHECK(command(sb, NULL,
                  "touch \"$(printf 'b\\033[31m\\233')\" \"$(printf 'c\\033]0;x\\007\\nd')\"", NULL,
                  0) == 0,
          "names");
    cay_spawn s = { .size = sizeof s,
                    .argv =
                        (const char *[]){
                            "sh", "-c", "printf '%s' \"$1\"; printf '%s' \"$1\" >&2; exec sleep 20",
                            EVIL, EVIL, NULL },
                    .tag = "evil" };
    if (cay_sandbox_spawn(sb, within(5000), &s, &p, &err) < 0)
        give_up("spawn: %s", err.msg);
    await_output(p, sizeof EVIL - 1);
    snprintf(from, sizeof from, "%s:/workspace/f", id);
    harmless("files ls", out, cay(out, sizeof out, "files", "ls", id, "/workspace", NULL));
    harmless("ps", out, cay(out, sizeof out, "ps", id, NULL));
    harmless("logs", out, cay(out, sizeof out, "logs", id, "evil", NULL));
    harmless("exec", out, cay(out, sizeof out, "exec", id, "--", "cat", "f", NULL));
    harmless("exec, the other stream", out,
             cay(out, sizeof out, "exec", id, "--", "sh", "-c", "cat f >&2", NULL));
    harmless("files ls of a link", out,
             cay(out, sizeof out, "files", "ls", "-l", id, "/workspace", NULL));
    harmless("files cat", out, cay(out, sizeof out, "files", "cat", id, "f", NULL));
    harmless("files find", out, cay(out, sizeof out, "files", "find", id, "*", NULL));
    harmless("files grep", out,
             cay(out, sizeof out, "files", "grep", id, "52", "/workspace", NULL));
    harmless("files stat", out, cay(out, sizeof out, "files", "stat", id, "a" EVIL, "e", NULL));
    harmless("files stat of no file", out,
             cay(out, sizeof out, "files", "stat", id, "no" EVIL, NULL));
    harmless("cp to the terminal", out, cay(out, sizeof out, "cp", from, "-", NULL));
    harmless("exec of a missing program", out,
             cay(out, sizeof out, "exec", id, "--", "/no" EVIL, NULL));
    harmless("an unknown id", out, cay(out, sizeof out, "inspect", "c" EVIL, NULL));
    harmless("an unknown verb", out, cay(out, sizeof out, EVIL, NULL));
    harmless("ls", out, cay(out, sizeof out, "ls", NULL));
    harmless("inspect", out, cay(out, sizeof out, "inspect", id, NULL));
    cay_proc_signal(p, within(5000), 9, CAY_SCOPE_ONE, &err);
    cay_proc_wait(p, within(5000), &end, &err);
    cay_proc_unref(p);
    box_remove(sb);
}

const attack cli_attacks[] = {
    { "S-54", "escape sequences do not reach the terminal", ALL, "escape", NULL, s54_escapes },
    { 0 },
};
