/* SPDX-License-Identifier: Apache-2.0 */
#include "waiting.h"
#include "cli.h"
#include "out.h"
#include <base/base.h>
#include <base/fd.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

enum { SILENT_MS = 1000, EVERY_MS = 100, BAR = 24, MARK = 5 };

static void draw_progress(const cli_waiting *w, int64_t ms, unsigned step)
{
    char bar[BAR + 1];
    unsigned at = step % (2 * (BAR - MARK)); /* there and back */
    if (at >= BAR - MARK)
        at = 2 * (BAR - MARK) - at;
    for (unsigned i = 0; i < BAR; i++) {
        if (i >= at && i < at + MARK)
            bar[i] = '#';
        else
            bar[i] = '.';
    }
    bar[BAR] = 0;
    CAY_AUTOBUF b = CAY__BUF(1024);
    cay__buf_fmt(&b, "\r\033[K[%s] %lld.%lld s  %s ", bar, (long long)ms / 1000,
                 (long long)ms / 100 % 10, w->verb);
    cay__buf_safe(&b, w->what, CAY_MIN(strlen(w->what), 30), false);
    cay__fd_write_all(2, b.data, b.len);
}

static void *run_progress(void *arg)
{
    const cli_waiting *w = arg;
    int64_t began = cay__now_ms();
    struct pollfd p = { .fd = w->end[0], .events = POLLIN };
    unsigned step = 0;
    for (int wait = SILENT_MS; poll(&p, 1, wait) == 0; wait = EVERY_MS)
        draw_progress(w, cay__now_ms() - began, step++);
    if (step)
        cay__fd_write_all(2, "\r\033[K", 4);
    return NULL;
}

void waiting_begin(cli_waiting *w, const char *verb, const char *what)
{
    sigset_t all, old;
    *w = (cli_waiting){ .verb = verb, .what = what, .end = { -1, -1 } };
    if (!isatty(2) || cli.quiet || cli.json || pipe2(w->end, O_CLOEXEC) < 0)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the command's */
    w->on = pthread_create(&w->thread, NULL, run_progress, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void waiting_end(cli_waiting *w)
{
    cay__close_fd(&w->end[1]);
    if (w->on)
        pthread_join(w->thread, NULL);
    cay__close_fd(&w->end[0]);
    w->on = false;
}
