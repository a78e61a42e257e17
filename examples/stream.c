/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream - feed a running command and read its two output streams while it works.
 *
 * Anything that streams is a file descriptor: each cay_proc_output() gives a fresh one that yields
 * the stream from the offset asked for and ends with the process, so poll(2), splice(2) or a thread
 * per reader all work. Any number of readers may look at one stream; this program has one for each.
 */
#include "sandboxed.h"
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Reads numbers; answers with squares on stdout and a progress note on stderr. */
static const char script[] = "while read -r n; do echo $((n * n)); echo \"did $n\" >&2; done";

/* Prints what both descriptors yield, each line marked by its stream, until both have ended. */
static void show(int out, int errout)
{
    struct pollfd p[2] = { { .fd = out, .events = POLLIN }, { .fd = errout, .events = POLLIN } };
    static const char *const mark[2] = { "out: ", "err: " };
    bool line_start[2] = { true, true };

    for (int open = 2; open > 0 && poll(p, 2, -1) >= 0;)
        for (int i = 0; i < 2; i++) {
            char buf[4096];
            if (p[i].fd < 0 || !p[i].revents)
                continue;
            ssize_t n = read(p[i].fd, buf, sizeof buf);
            if (n <= 0) {
                p[i].fd = -1; /* poll skips it from now on */
                open--;
                continue;
            }
            for (ssize_t k = 0; k < n; k++) {
                if (line_start[i])
                    fputs(mark[i], stdout);
                putchar(buf[k]);
                line_start[i] = buf[k] == '\n';
            }
        }
}

static int talk(cay_sandbox *sb, cay_err *err)
{
    static const char *const lines[] = { "3\n", "4\n", "12\n" };
    cay_spawn cmd = {
        .size = sizeof cmd, .shell = script, .stdin_mode = CAY_STDIN_PIPE, .timeout_ms = 20000
    };
    cay_exit end = { .size = sizeof end };
    cay_proc *p;
    int out = -1, errout = -1;

    int rc = cay_sandbox_spawn(sb, NULL, &cmd, &p, err);
    if (rc < 0)
        return rc;
    rc = cay_proc_output(p, NULL, CAY_STDOUT, CAY_FROM_START, &out, err);
    if (rc == 0)
        rc = cay_proc_output(p, NULL, CAY_STDERR, CAY_FROM_START, &errout, err);
    for (size_t i = 0; rc == 0 && i < sizeof lines / sizeof *lines; i++)
        rc = cay_proc_write(p, NULL, lines[i], strlen(lines[i]), err);
    /* The end of input is said aloud: dropping the handle would not close it. */
    if (rc == 0)
        rc = cay_proc_close_stdin(p, NULL, err);
    if (rc == 0) {
        show(out, errout);
        rc = cay_proc_wait(p, NULL, &end, err);
    }
    if (rc == 0)
        printf("exit: %d (%s)\n", end.code, end.reason);
    if (out >= 0)
        close(out);
    if (errout >= 0)
        close(errout);
    cay_proc_unref(p);
    return rc;
}

int main(int argc, char **argv)
{
    return sandboxed("stream", argc > 1 ? argv[1] : NULL, talk);
}
